/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process may not do: process_vm_*, memfds, much address space, large files, many
 * descriptors, other users. Data still goes from one end to the other, by the way that is left, and
 * somebody who asks is told why.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "pair.h"

#define BYTES (1u << 18)

/* ---- one end says all it has to say to a file ---- */

static char told[65536];

static bool has_told(const char *text)
{
	return strstr(told, text) != NULL;
}

struct plan {
	void (*restrict_it)(enum side side);
	FILE *explanations;
	bool mapped;	 /* peers map blocks all the same */
	size_t bytes;	 /* of memory; 0: BYTES */
	rlim_t left;	 /* address space that is left to the left end, beside its objects; 0: all */
};

static void forbid(enum side side, const long *number, unsigned count, int err)
{
	struct sock_filter filter[16];
	struct sock_fprog program = {.filter = filter};
	unsigned n = 0, i;

	filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						   offsetof(struct seccomp_data, nr));
	for (i = 0; i < count; i++) {
		filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							   (uint32_t)number[i], 0, 1);
		filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
							   SECCOMP_RET_ERRNO | (uint32_t)err);
	}
	filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	program.len = (unsigned short)n;
	CHECK(!prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "%m");
	CHECK(!prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), "%m");
}

static void no_process_vm(enum side side)
{
	static const long number[] = {__NR_process_vm_readv, __NR_process_vm_writev};

	forbid(side, number, 2, EPERM);
}

static void no_process_vm_on_the_left(enum side side)
{
	if (side == LEFT)
		no_process_vm(side);
}

static void unknown_process_vm(enum side side)
{
	static const long number[] = {__NR_process_vm_readv, __NR_process_vm_writev};

	forbid(side, number, 2, ENOSYS);
}

static void no_memfd(enum side side)
{
	static const long number[] = {__NR_memfd_create};

	forbid(side, number, 1, EPERM);
}

static void no_memfd_on_the_left(enum side side)
{
	if (side == LEFT)
		no_memfd(side);
}

static void limit(int what, rlim_t value)
{
	struct rlimit limits = {value, value};

	CHECK(!setrlimit((__rlimit_resource_t)what, &limits), "%m");
}

static void little_address_space(enum side side)
{
	limit(RLIMIT_AS, UINT64_C(8) << 30);
}

static void small_files(enum side side)
{
	limit(RLIMIT_FSIZE, 1 << 20);
}

static void files_for_channels(enum side side)
{
	limit(RLIMIT_FSIZE, 2 << 20);
}

/* From now on. */
static void leave_address_space(rlim_t bytes)
{
	FILE *status = fopen("/proc/self/statm", "r");
	unsigned long pages;

	CHECK(status && fscanf(status, "%lu", &pages) == 1, "%m");
	fclose(status);
	limit(RLIMIT_AS, (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + bytes);
}

/* ---- the traffic ---- */

static void exercise(struct end *end)
{
	struct ibv_wc wc;
	unsigned i;

	for (i = 0; i < 20; i++) {
		bool sends = i % 2 == (unsigned)end->side;
		uint32_t bytes = i % 4 < 2 ? 100 : 100000, k;

		memset(end->memory, (int)(i + 1 + 100 * (unsigned)end->side), BYTES / 2);
		memset(end->memory + BYTES / 2, 0, BYTES / 2);
		if (!sends)
			CHECK(!post_receive(end, BYTES / 2, BYTES / 2, 5), "%m");
		meet(end);
		if (sends) {
			CHECK(transfer(end, IBV_WR_SEND, 0, bytes, 0) == IBV_WC_SUCCESS);
			CHECK(transfer(end, IBV_WR_RDMA_READ, BYTES / 2, bytes, 0) ==
			      IBV_WC_SUCCESS);
			for (k = 0; k < bytes; k++)
				CHECK((uint8_t)end->memory[BYTES / 2 + k] ==
				      (uint8_t)(i + 1 + 100 * !end->side));
			CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, bytes,
				       BYTES / 2 + 100000 - bytes) == IBV_WC_SUCCESS);
			CHECK(transfer(end, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, 8, 8) ==
			      IBV_WC_SUCCESS);
		} else {
			CHECK(get(end, &wc, 20) && wc.status == IBV_WC_SUCCESS &&
			      wc.byte_len == bytes);
		}
		meet(end);
		for (k = 100000 - bytes; !sends && k < 100000; k++)
			CHECK((uint8_t)end->memory[BYTES / 2 + k] ==
			      (uint8_t)(i + 1 + 100 * !end->side));
		meet(end);
	}
}

static void confined(struct end *end, void *argument)
{
	const struct plan *plan = argument;
	unsigned own, mapped;

	setenv("VERBATIM_EXPLAIN", "1", 1);
	fflush(stderr);
	dup2(fileno(plan->explanations), STDERR_FILENO);
	if (plan->restrict_it)
		plan->restrict_it(end->side);
	end_open(end, plan->bytes ? plan->bytes : BYTES, ALL_ACCESS);
	own = map_lines(BLOCK_MAPPING);
	end_make_qp(end);
	if (end->side == LEFT && plan->left)
		leave_address_space(plan->left);
	end_connect(end);
	exercise(end);
	mapped = map_lines(BLOCK_MAPPING) - own;
	if (end->side == LEFT)
		CHECK(mapped == plan->mapped, "%u blocks of the other end are mapped", mapped);
	meet(end);
	end_close(end);
}

static bool run(const char *mode, struct plan plan)
{
	size_t length;
	bool good;

	plan.explanations = tmpfile();
	good = pair_run(mode, confined, confined, &plan, 60);
	rewind(plan.explanations);
	length = fread(told, 1, sizeof(told) - 1, plan.explanations);
	told[length] = '\0';
	fclose(plan.explanations);
	if (!good)
		printf("# %s\n%s", mode, told);
	return good;
}

/* With ordinary memory in all modes but mapped, whose memory is blocks. */
static bool works(const char *mode, void (*restrict_it)(enum side), bool mapped)
{
	return run(mode, (struct plan){.restrict_it = restrict_it, .mapped = mapped});
}

static bool without_process_vm_data_goes_through_rings(void)
{
	return works("auto", no_process_vm, false) && has_told("process_vm_readv") &&
	       works("copy", no_process_vm_on_the_left, false) && has_told("process_vm_readv") &&
	       works("copy", unknown_process_vm, false) && has_told("Function not implemented");
}

static bool without_process_vm_blocks_are_mapped(void)
{
	return works("mapped", no_process_vm, true) && has_told("process_vm_readv") &&
	       works("mapped", no_process_vm_on_the_left, true) && works("mapped", NULL, true);
}

static bool without_memfds_packets_go_over_udp(void)
{
	return works("auto", no_memfd, false) && has_told("packets go over UDP") &&
	       works("auto", no_memfd_on_the_left, false) && has_told("packets go over UDP") &&
	       works("mapped", no_memfd, false) && has_told("cannot allocate memory that peers");
}

#if defined(ADDRESS_SANITIZER) || defined(THREAD_SANITIZER)
#define SHADOW true
#else
#define SHADOW false
#endif

#define LARGE (64u << 20)

static bool with_little_address_space_less_is_mapped(void)
{
	if (SHADOW)
		return skip("sanitizers need much address space themselves");
	return works("mapped", little_address_space, true) &&
	       run("mapped", (struct plan){.bytes = LARGE, .left = LARGE / 2, .mapped = false}) &&
	       run("mapped", (struct plan){.left = 512 << 10, .mapped = false}) &&
	       has_told("packets go over UDP");
}

static bool with_small_files_less_is_shared(void)
{
	return works("auto", small_files, false) && has_told("packets go over UDP") &&
	       works("mapped", files_for_channels, true) &&
	       run("mapped", (struct plan){.restrict_it = files_for_channels, .bytes = 4 << 20}) &&
	       has_told("cannot allocate memory that peers");
}

/* ---- descriptors ---- */

/*
 * Each limit from too few to open a device on: it opens or says so. With a few more it has no socket left
 * to send from, which RTR says, or it is met over UDP.
 */
static void few_descriptors(struct end *end, void *argument)
{
	enum ibv_wc_status status;
	struct ibv_device **list;
	char can = 0, theirs;

	if (end->side == LEFT)
		limit(RLIMIT_NOFILE, (rlim_t)(uintptr_t)argument);
	list = ibv_get_device_list(NULL);
	if (list && list[0]) {
		end->context = ibv_open_device(list[0]);
		can = end->context != NULL;
		ibv_free_device_list(list);
	}
	tell(end->peer, &can, 1);
	CHECK(hear(end->peer, &theirs, 1));
	if (end->side == LEFT && !can)
		tell(end->test, "n", 1);
	if (!can || !theirs)
		return;
	end->pd = ibv_alloc_pd(end->context);
	end->cq = ibv_create_cq(end->context, 100, NULL, NULL, 0);
	CHECK(end->pd && end->cq, "%m");
	end->memory = aligned_alloc(4096, BYTES);
	end->mr = ibv_reg_mr(end->pd, end->memory, BYTES, ALL_ACCESS);
	CHECK(end->mr, "%m");
	end->timeout = 14;
	end->retry_count = 1;
	end->may_lack_descriptors = end->side == LEFT;
	end_connect(end);
	can = !end->lacks_descriptors;
	tell(end->peer, &can, 1);
	CHECK(hear(end->peer, &theirs, 1));
	if (can && theirs) {
		status = transfer(end, IBV_WR_RDMA_WRITE, 0, 10000, 0);
		CHECK(status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(status));
	}
	meet(end);
	if (end->side == LEFT)
		tell(end->test, can ? "s" : "n", 1);
	CHECK(!ibv_destroy_qp(end->qp) && !ibv_dereg_mr(end->mr) && !ibv_destroy_cq(end->cq));
	CHECK(!ibv_dealloc_pd(end->pd) && !ibv_close_device(end->context));
}

static bool every_number_of_descriptors_will_do(void)
{
	unsigned count, opened = 0;

	for (count = 8; count < 48; count += long_run ? 1 : 3) {
		struct pair pair;
		char byte = 0;

		pair_start(&pair, "auto", few_descriptors, few_descriptors,
			   (void *)(uintptr_t)count);
		hear(pair.socket[LEFT], &byte, 1);
		if (!pair_end(&pair, 30)) {
			printf("# with %u descriptors\n", count);
			return false;
		}
		opened += byte == 's';
		CHECK(byte == 's' || count < 40, "%u descriptors are enough", count);
	}
	return opened > 3;
}

/* ---- another user ---- */

static bool is_real_root;

static void be_somebody_else(enum side side)
{
	if (side == RIGHT)
		CHECK(!setgid(12345) && !setuid(12345), "%m");
}

static bool another_user_is_reached_over_udp(void)
{
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(setuid(12345) != 0);
	waitpid(pid, &status, 0);
	is_real_root = status == 0;
	if (!is_real_root)
		return skip("there is no other user here");
	return works("auto", be_somebody_else, false) && has_told("belongs to another user") &&
	       works("mapped", be_somebody_else, false) && has_told("belongs to another user");
}

/* ---- Yama ---- */

/* As with ptrace_scope 1: who cannot be dumped cannot be reached by an ordinary user. */
static void cannot_be_dumped(enum side side)
{
	if (getuid() == 0)
		CHECK(!setgid(12345) && !setuid(12345), "%m");
	CHECK(!prctl(PR_SET_DUMPABLE, 0), "%m");
}

static bool who_may_not_be_traced_is_reached_through_rings(void)
{
	return works("copy", cannot_be_dumped, false) && has_told("process_vm_readv") &&
	       works("mapped", cannot_be_dumped, true) && has_told("process_vm_readv");
}

int main(int argc, char **argv)
{
#define TEST(name)                                                                                 \
	{                                                                                          \
#name, name                                                                        \
	}
	const struct test tests[] = {
		TEST(without_process_vm_data_goes_through_rings),
		TEST(without_process_vm_blocks_are_mapped),
		TEST(without_memfds_packets_go_over_udp),
		TEST(with_little_address_space_less_is_mapped),
		TEST(with_small_files_less_is_shared),
		TEST(every_number_of_descriptors_will_do),
		TEST(another_user_is_reached_over_udp),
		TEST(who_may_not_be_traced_is_reached_through_rings),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
