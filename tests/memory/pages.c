/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program does with memory that peers map: fork, unmap, move, protect, give back, register
 * twice and very often. It must find everything as if the memory had always been its own alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "pair.h"

#define PAGE 4096u
#define BYTES (64u * PAGE)
#define FAR 30.0

/* ---- the other end: does what it is told ---- */

struct order {
	enum { WRITE_BYTE, READ_BYTE, GO } what;
	uint64_t address;
	uint32_t rkey, bytes;
	uint8_t byte;
};

struct reply {
	int status;
	uint8_t byte;
	bool all_the_same;
};

static struct reply obey(struct end *end, const struct order *order)
{
	struct reply reply = {.all_the_same = true};
	bool in = order->what == READ_BYTE;
	uint32_t i;

	end->there.memory = order->address;
	end->there.rkey = order->rkey;
	memset(end->memory, order->byte, order->bytes);
	reply.status = transfer(end, in ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, 0, order->bytes, 0);
	reply.byte = (uint8_t)end->memory[0];
	for (i = 1; i < order->bytes; i++)
		reply.all_the_same = reply.all_the_same && end->memory[i] == end->memory[0];
	return reply;
}

static void servant(struct end *end, void *argument)
{
	struct order order;
	struct reply reply;

	end_open(end, 2 * BYTES, ALL_ACCESS);
	end_connect(end);
	while (hear(end->peer, &order, sizeof(order)) && order.what != GO) {
		reply = obey(end, &order);
		tell(end->peer, &reply, sizeof(reply));
		if (reply.status)
			end_connect(end);
	}
	end_close(end);
}

static struct reply ask(struct end *end, int what, const void *address, uint32_t rkey,
			uint32_t bytes, uint8_t byte)
{
	struct order order = {.what = what,
			      .address = (uintptr_t)address,
			      .rkey = rkey,
			      .bytes = bytes,
			      .byte = byte};
	struct reply reply;

	tell(end->peer, &order, sizeof(order));
	CHECK(hear(end->peer, &reply, sizeof(reply)), "the servant is gone");
	return reply;
}

static void peer_writes(struct end *end, const void *address, const struct ibv_mr *mr,
			uint32_t bytes, uint8_t byte)
{
	CHECK(ask(end, WRITE_BYTE, address, mr->rkey, bytes, byte).status == IBV_WC_SUCCESS);
}

static uint8_t peer_reads(struct end *end, const void *address, const struct ibv_mr *mr,
			  uint32_t bytes)
{
	struct reply reply = ask(end, READ_BYTE, address, mr->rkey, bytes, 0);

	CHECK(reply.status == IBV_WC_SUCCESS && reply.all_the_same, "status %d", reply.status);
	return reply.byte;
}

static void dismiss(struct end *end)
{
	struct order order = {.what = GO};

	tell(end->peer, &order, sizeof(order));
}

static char *new_memory(size_t bytes)
{
	char *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(made != MAP_FAILED, "%m");
	return made;
}

static struct ibv_mr *reg(struct end *end, void *address, size_t bytes)
{
	struct ibv_mr *mr = ibv_reg_mr(end->pd, address, bytes, ALL_ACCESS);

	CHECK(mr, "%m");
	return mr;
}

static void check_all(const char *memory, size_t bytes, uint8_t byte)
{
	size_t i;

	for (i = 0; i < bytes; i++)
		CHECK((uint8_t)memory[i] == byte, "byte %zu of %zu is %u, not %u", i, bytes,
		      (uint8_t)memory[i], byte);
}

static bool with_servant(end_fn *run, const char *mode)
{
	return pair_run(mode, run, servant, NULL, FAR);
}

static void begin(struct end *end)
{
	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	if (!strcmp(getenv("VERBATIM_MEMORY"), "auto") ||
	    !strcmp(getenv("VERBATIM_MEMORY"), "mapped"))
		CHECK(has_pool_pages(), "regions are not mapped by peers here");
}

static void finish(struct end *end)
{
	dismiss(end);
	end_close(end);
}

/* ---- fork ---- */

static void child_of(struct end *end, int go, char *untouched)
{
	char byte;

	CHECK(!has_pool_pages(), "the child has pages of the pool");
	check_all(end->memory, BYTES, 1);
	memset(end->memory, 2, BYTES);	/* reaches nobody */
	CHECK(read(go, &byte, 1) == 1); /* the parent and the peer have written since */
	check_all(end->memory, BYTES, 2);
	check_all(untouched, BYTES, 0);
	_exit(0);
}

static void wait_for(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(status == 0, "the child ended with 0x%x", status);
}

static void fork_and_check(struct end *end)
{
	char *untouched = new_memory(BYTES);
	struct ibv_mr *mr = reg(end, untouched, BYTES);
	int go[2];
	pid_t pid;

	CHECK(!pipe(go));
	memset(end->memory, 1, BYTES);
	pid = fork();
	if (!pid)
		child_of(end, go[0], untouched);
	check_all(end->memory, BYTES, 1);
	peer_writes(end, end->memory, end->mr, BYTES / 2, 3);
	peer_writes(end, untouched, mr, BYTES, 5);
	memset(end->memory + BYTES / 2, 3, BYTES / 2);
	check_all(end->memory, BYTES, 3);
	CHECK(peer_reads(end, end->memory, end->mr, BYTES) == 3);
	CHECK(write(go[1], "", 1) == 1);
	wait_for(pid);
	check_all(end->memory, BYTES, 3);
	check_all(untouched, BYTES, 5);
	CHECK(peer_reads(end, end->memory, end->mr, BYTES) == 3);
	CHECK(!ibv_dereg_mr(mr));
	munmap(untouched, BYTES);
	close(go[0]);
	close(go[1]);
}

static void forks(struct end *end, void *argument)
{
	unsigned i;

	begin(end);
	for (i = 0; i < 3; i++)
		fork_and_check(end);
	finish(end);
}

static bool a_child_has_a_copy_of_its_own(void)
{
	return with_servant(forks, MAPPED_MODE);
}

static _Atomic bool stop_threads;

static void *count_in(void *place)
{
	volatile uint64_t *counter = place;
	uint64_t expected = 0;

	while (!stop_threads) {
		CHECK(*counter == expected, "%llu and not %llu", (unsigned long long)*counter,
		      (unsigned long long)expected);
		*counter = ++expected;
	}
	return NULL;
}

static void forks_with_threads(struct end *end, void *argument)
{
	pthread_t thread[3];
	char *memory;
	struct ibv_mr *mr;
	unsigned i;

	begin(end);
	memory = new_memory(BYTES);
	mr = reg(end, memory, BYTES);
	for (i = 0; i < 3; i++)
		CHECK(!pthread_create(&thread[i], NULL, count_in, memory + i * 5 * PAGE));
	for (i = 0; i < 5; i++)
		fork_and_check(end);
	/* While they count it goes away and comes back. */
	for (i = 0; i < 20; i++) {
		CHECK(!ibv_dereg_mr(mr));
		mr = ibv_reg_mr(end->pd, memory + 15 * PAGE, PAGE, ALL_ACCESS);
		CHECK(mr);
	}
	stop_threads = true;
	for (i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	CHECK(!ibv_dereg_mr(mr));
	finish(end);
}

static bool threads_go_on_while_their_process_forks(void)
{
#ifdef THREAD_SANITIZER
	return skip("the sanitizer takes mapping pages anew for a write to them");
#endif
	return with_servant(forks_with_threads, "mapped");
}

static void forks_without_descriptors(struct end *end, void *argument)
{
	struct rlimit limit = {128, 128};
	int fds[128], count = 0;
	pid_t pid;

	CHECK(!setrlimit(RLIMIT_NOFILE, &limit));
	begin(end);
	memset(end->memory, 1, BYTES);
	while (count < 128 && (fds[count] = open("/dev/null", O_RDONLY)) >= 0)
		count++;
	CHECK(errno == EMFILE);
	pid = fork();
	if (!pid) {
		while (count)
			close(fds[--count]);
		CHECK(!has_pool_pages());
		memset(end->memory, 2, BYTES);
		_exit(0);
	}
	wait_for(pid);
	check_all(end->memory, BYTES, 1);
	/* It cannot be seen where the region is now: nothing may be lost, and it is made good
	 * later. */
	CHECK(!ibv_dereg_mr(end->mr));
	check_all(end->memory, BYTES, 1);
	while (count)
		close(fds[--count]);
	end->mr = reg(end, end->memory, BYTES);
	CHECK(peer_reads(end, end->memory, end->mr, BYTES) == 1);
	peer_writes(end, end->memory, end->mr, BYTES, 4);
	CHECK(!ibv_dereg_mr(end->mr));
	CHECK(!has_pool_pages());
	check_all(end->memory, BYTES, 4);
	madvise(end->memory, BYTES, MADV_DONTNEED);
	check_all(end->memory, BYTES, 0);
	end->mr = NULL;
	finish(end);
}

static bool no_descriptor_is_needed_to_fork(void)
{
	return with_servant(forks_without_descriptors, MAPPED_MODE);
}

static void spawns(struct end *end, void *argument)
{
	char program[] = "/bin/true", *arguments[] = {program, NULL}, *nothing[] = {NULL};
	char text[64] = "";
	FILE *out;
	pid_t pid;

	begin(end);
	memset(end->memory, 6, BYTES);
	CHECK(!posix_spawn(&pid, program, NULL, NULL, arguments, nothing));
	wait_for(pid);
	CHECK(has_pool_pages());
	out = popen("echo said", "r");
	CHECK(out && fgets(text, sizeof(text), out) && !strcmp(text, "said\n") && !pclose(out));
	pid = vfork();
	if (!pid)
		_exit(0);
	wait_for(pid);
	CHECK(has_pool_pages());
	peer_writes(end, end->memory, end->mr, BYTES, 7);
	check_all(end->memory, BYTES, 7);
	finish(end);
}

static bool what_does_not_copy_memory_changes_nothing(void)
{
	return with_servant(spawns, MAPPED_MODE);
}

/* ---- unmapping, moving, protecting ---- */

static void unmaps(struct end *end, void *argument)
{
	char *memory, *moved;
	struct ibv_mr *mr, *again;
	struct reply reply;

	begin(end);
	/* Gone while registered, then other memory there, registered anew: the peer writes to that.
	 */
	memory = new_memory(BYTES);
	mr = reg(end, memory, BYTES);
	munmap(memory, BYTES);
	CHECK(mmap(memory, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
		   -1, 0) == memory);
	memset(memory, 1, BYTES);
	again = reg(end, memory, BYTES);
	peer_writes(end, memory, again, BYTES, 2);
	check_all(memory, BYTES, 2);
	CHECK(peer_reads(end, memory, again, BYTES) == 2);
	CHECK(!ibv_dereg_mr(mr));
	check_all(memory, BYTES, 2);
	CHECK(!ibv_dereg_mr(again));
	check_all(memory, BYTES, 2);
	munmap(memory, BYTES);
	/* Gone for good: an answer, and no crash on either side. */
	memory = new_memory(BYTES);
	mr = reg(end, memory, BYTES);
	munmap(memory, BYTES);
	reply = ask(end, WRITE_BYTE, memory, mr->rkey, BYTES, 3);
	if (reply.status)
		end_connect(end);
	CHECK(!ibv_dereg_mr(mr));
	/* Moved elsewhere while registered. */
	memory = new_memory(BYTES);
	memset(memory, 5, BYTES);
	mr = reg(end, memory, BYTES);
	moved = mremap(memory, BYTES, 2 * BYTES, MREMAP_MAYMOVE);
	CHECK(moved != MAP_FAILED);
	CHECK(!ibv_dereg_mr(mr));
	check_all(moved, BYTES, 5);
	/* Protected: the rights stay as they are. */
	memset(moved, 6, BYTES);
	mr = reg(end, moved, BYTES);
	mprotect(moved + PAGE, PAGE, PROT_READ);
	CHECK(!ibv_dereg_mr(mr));
	check_all(moved, BYTES, 6);
	CHECK(!mprotect(moved + PAGE, PAGE, PROT_READ | PROT_WRITE));
	munmap(moved, BYTES);
	finish(end);
}

static bool registered_memory_can_be_unmapped_moved_and_protected(void)
{
	return with_servant(unmaps, MAPPED_MODE) && with_servant(unmaps, "mapped") &&
	       with_servant(unmaps, "copy") && with_servant(unmaps, "ring");
}

/* ---- given back ---- */

static void gives_back(struct end *end, void *argument)
{
	char *memory, *other, *block;
	struct ibv_mr *mr;
	unsigned i;

	begin(end);
	memory = new_memory(BYTES);
	other = new_memory(BYTES);
	for (i = 0; i < 10; i++) {
		mr = reg(end, memory, BYTES);
		peer_writes(end, memory, mr, BYTES / 2, 9); /* half of it is never touched */
		CHECK(!ibv_dereg_mr(mr));
		check_all(memory, BYTES / 2, 9);
		/* Whatever takes its place in the pool is not seen in it. */
		mr = reg(end, other, BYTES);
		peer_writes(end, other, mr, BYTES, 8);
		madvise(memory, BYTES / 4, MADV_DONTNEED);
		check_all(memory, BYTES / 4, 0);
		check_all(memory + BYTES / 2, BYTES / 2, 0);
		check_all(memory + BYTES / 4, BYTES / 4, 9);
		CHECK(!ibv_dereg_mr(mr));
		madvise(memory, BYTES, MADV_DONTNEED);
		check_all(memory, BYTES, 0);
	}
	/* What is registered anew is no peer's any more where it was before. */
	mr = reg(end, memory, BYTES);
	CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, other, BYTES, 0));
	peer_writes(end, other, mr, BYTES, 7);
	check_all(other, BYTES, 7);
	memset(memory, 4, BYTES);
	madvise(memory, BYTES, MADV_DONTNEED);
	check_all(memory, BYTES, 0);
	CHECK(!ibv_dereg_mr(mr));
	for (i = 1; i < 40; i++) {
		block = malloc(i * 5000);
		mr = reg(end, block, i * 5000);
		peer_writes(end, block, mr, i * 5000, (uint8_t)i);
		CHECK(!ibv_dereg_mr(mr));
		block = realloc(block, i * 9000);
		check_all(block, i * 5000, (uint8_t)i);
		free(block);
		block = calloc(1, i * 8000);
		check_all(block, i * 8000, 0);
		free(block);
	}
	munmap(memory, BYTES);
	munmap(other, BYTES);
	finish(end);
}

static void *sleep_long(void *argument)
{
	while (!stop_threads)
		usleep(1000);
	return NULL;
}

static void gives_back_with_threads(struct end *end, void *argument)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, sleep_long, NULL));
	gives_back(end, NULL);
	stop_threads = true;
	pthread_join(thread, NULL);
}

static bool memory_that_is_given_back_reads_as_zeros(void)
{
	return with_servant(gives_back, MAPPED_MODE) &&
	       with_servant(gives_back_with_threads, "mapped");
}

/* ---- overlaps ---- */

static void registers_twice(struct end *end, void *argument)
{
	char *memory;
	struct ibv_mr *mr[4];
	unsigned round, i, order;

	begin(end);
	memory = new_memory(BYTES);
	for (round = 0; round < 24; round++) {
		mr[0] = reg(end, memory, BYTES / 2);
		mr[1] = reg(end, memory, BYTES / 2);
		mr[2] = reg(end, memory + BYTES / 4, BYTES / 2);       /* partly */
		mr[3] = reg(end, memory + BYTES / 8 + 100, BYTES / 8); /* inside */
		peer_writes(end, memory, mr[0], BYTES / 2, (uint8_t)round);
		CHECK(peer_reads(end, memory + BYTES / 4, mr[2], BYTES / 4) == round);
		CHECK(peer_reads(end, memory + BYTES / 8 + 100, mr[3], BYTES / 8) == round);
		for (i = 0, order = round; i < 4; i++) {
			unsigned pick = order % (4 - i), k;

			order /= 4 - i;
			CHECK(!ibv_dereg_mr(mr[pick]));
			for (k = pick; k + 1 < 4 - i; k++)
				mr[k] = mr[k + 1];
			if (i < 3 && mr[0]->addr == memory) {
				peer_writes(end, memory, mr[0], BYTES / 2, (uint8_t)(100 + i));
				check_all(memory, BYTES / 2, (uint8_t)(100 + i));
			}
		}
	}
	munmap(memory, BYTES);
	finish(end);
}

static bool regions_may_overlap(void)
{
	return with_servant(registers_twice, MAPPED_MODE) && with_servant(registers_twice, "copy");
}

/* ---- very often ---- */

static blkcnt_t pool_blocks(void)
{
	struct stat status;
	char path[64], target[128];
	int fd;

	for (fd = 0; fd < 64; fd++) {
		ssize_t length;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		length = readlink(path, target, sizeof(target) - 1);
		if (length > 0 && strstr((target[length] = 0, target), "memfd:verbatim-pool") &&
		    !fstat(fd, &status))
			return status.st_blocks;
	}
	CHECK(false, "no pool");
	return 0;
}

#define ROUNDS 10000u
#define PLACES 200u

static void registers_often(struct end *end, void *argument)
{
	char *memory = new_memory(PLACES * 4 * PAGE);
	unsigned i, lines, limit = argument || strcmp(MAPPED_MODE, "auto") ? 1100 : 8;
	pthread_t thread;
	double begin_s;

	if (argument)
		CHECK(!pthread_create(&thread, NULL, sleep_long, NULL));
	begin(end);
	CHECK(!ibv_dereg_mr(end->mr));
	end->mr = NULL;
	lines = map_lines("");
	begin_s = now();
	for (i = 0; i < (long_run ? ROUNDS : ROUNDS / 10); i++) {
		char *place = memory + i * 7 % (PLACES * 4 - 4) * PAGE;
		struct ibv_mr *mr;

		memset(place, (int)i, 2 * PAGE);
		mr = reg(end, place, 3 * PAGE);
		place[PAGE] = 'x';
		CHECK(!ibv_dereg_mr(mr));
		CHECK(place[0] == (char)i && place[PAGE] == 'x' && place[2 * PAGE - 1] == (char)i);
	}
	printf("# %.1f us to register and deregister\n", (now() - begin_s) * 1e6 / i);
	fflush(stdout);
	CHECK(map_lines("") < lines + limit, "%u mappings became %u", lines, map_lines(""));
	CHECK(pool_blocks() == 0, "%ld blocks of the pool are in use", (long)pool_blocks());
	stop_threads = true;
	if (argument)
		pthread_join(thread, NULL);
	dismiss(end);
	end_close(end);
}

static bool registering_often_leaves_nothing(void)
{
	return with_servant(registers_often, MAPPED_MODE) &&
	       pair_run("mapped", registers_often, servant, &long_run, FAR);
}

int main(int argc, char **argv)
{
#define TEST(name)                                                                                 \
	{                                                                                          \
#name, name                                                                        \
	}
	const struct test tests[] = {
		TEST(a_child_has_a_copy_of_its_own),
		TEST(threads_go_on_while_their_process_forks),
		TEST(no_descriptor_is_needed_to_fork),
		TEST(what_does_not_copy_memory_changes_nothing),
		TEST(registered_memory_can_be_unmapped_moved_and_protected),
		TEST(memory_that_is_given_back_reads_as_zeros),
		TEST(regions_may_overlap),
		TEST(registering_often_leaves_nothing),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
