/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that is registered stays what the kernel made it: pins of others, flags, stacks, the heap,
 * mremap, madvise, fork and what the process weighs are as they would be without us.
 */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>

/* ---- the cast: a victim, and a peer that writes where it is told ---- */

static void play(actor_fn *victim)
{
	actor_fn *const actor[] = {victim, writing_peer};
	struct cast cast;

	cast_start(&cast, 2, actor, NULL);
	cast_end(&cast, 60);
}

/* ---- io_uring: a pin of the kernel's that outlives what is mapped there ---- */

struct uring {
	int fd;
	struct io_uring_params params;
	char *submissions, *completions;
	struct io_uring_sqe *sqe;
};

static void uring_open(struct uring *uring)
{
	memset(uring, 0, sizeof(*uring));
	uring->fd = (int)syscall(SYS_io_uring_setup, 4, &uring->params);
	if (uring->fd < 0)
		skip("io_uring is not available: %m");
	uring->submissions = mmap(NULL, uring->params.sq_off.array + uring->params.sq_entries * 4,
				  PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, uring->fd,
				  IORING_OFF_SQ_RING);
	uring->completions = mmap(
		NULL,
		uring->params.cq_off.cqes + uring->params.cq_entries * sizeof(struct io_uring_cqe),
		PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, uring->fd, IORING_OFF_CQ_RING);
	uring->sqe =
		mmap(NULL, uring->params.sq_entries * sizeof(struct io_uring_sqe),
		     PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, uring->fd, IORING_OFF_SQES);
	CHECK(uring->submissions != MAP_FAILED && uring->completions != MAP_FAILED &&
		      uring->sqe != MAP_FAILED,
	      "%m");
}

static uint32_t *word_at(char *ring, uint32_t offset)
{
	return (uint32_t *)(void *)(ring + offset);
}

/* Reads @bytes of the file into the fixed buffer. */
static void uring_read(struct uring *uring, int file, void *to, uint32_t bytes, off_t at)
{
	uint32_t *tail = word_at(uring->submissions, uring->params.sq_off.tail);
	uint32_t slot = *tail & *word_at(uring->submissions, uring->params.sq_off.ring_mask);
	uint32_t *head = word_at(uring->completions, uring->params.cq_off.head);
	struct io_uring_cqe *cqe =
		(struct io_uring_cqe *)(void *)(uring->completions + uring->params.cq_off.cqes);

	uring->sqe[slot] = (struct io_uring_sqe){.opcode = IORING_OP_READ_FIXED,
						 .fd = file,
						 .off = (uint64_t)at,
						 .addr = (uintptr_t)to,
						 .len = bytes};
	word_at(uring->submissions, uring->params.sq_off.array)[slot] = slot;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	CHECK(syscall(SYS_io_uring_enter, uring->fd, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1,
	      "%m");
	cqe += *head & *word_at(uring->completions, uring->params.cq_off.ring_mask);
	CHECK(cqe->res == (int)bytes, "io_uring: %s", strerror(-cqe->res));
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
}

static int file_with_pattern(size_t bytes)
{
	int fd = memfd_create("hostile-file", MFD_CLOEXEC);
	char *mapped;
	size_t i;

	CHECK(fd >= 0 && !ftruncate(fd, (off_t)bytes), "%m");
	mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(mapped != MAP_FAILED, "%m");
	for (i = 0; i < bytes; i++)
		mapped[i] = (char)(i / PAGE * 11 + i + 1);
	munmap(mapped, bytes);
	return fd;
}

static void fixed_buffer_receives(struct uring *uring, int file, char *buffer, size_t bytes,
				  const char *when)
{
	size_t i;

	memset(buffer, 0, bytes);
	uring_read(uring, file, buffer, (uint32_t)bytes, 0);
	for (i = 0; i < bytes; i++)
		CHECK(buffer[i] == (char)(i / PAGE * 11 + i + 1),
		      "%s: byte %zu of a file read by io_uring is %d", when, i, buffer[i]);
}

static void fixed_buffer(enum memory_kind kind)
{
	size_t bytes = 512 * KIB;
	char *buffer = memory_make(kind, bytes);
	struct iovec iov = {buffer, bytes};
	int file = file_with_pattern(bytes);
	struct uring uring;
	struct node node;
	struct ibv_mr *mr;

	uring_open(&uring);
	CHECK(!syscall(SYS_io_uring_register, uring.fd, IORING_REGISTER_BUFFERS, &iov, 1), "%m");
	node_open(&node);
	mr = region_make(&node, buffer, bytes, REMOTE_ALL);
	fixed_buffer_receives(&uring, file, buffer, bytes, "registered");
	CHECK(!ibv_dereg_mr(mr), "%m");
	fixed_buffer_receives(&uring, file, buffer, bytes, "deregistered");
	node_close(&node);
}

static void fixed_buffer_mmap(void)
{
	fixed_buffer(MEMORY_MMAP);
}

static void fixed_buffer_aligned(void)
{
	fixed_buffer(MEMORY_ALIGNED);
}

static void fixed_buffer_heap(void)
{
	fixed_buffer(MEMORY_HEAP);
}

/* ---- regions in which other things lie ---- */

/*
 * Registering pages in which QPs and CQs lie, while they are in use: the peer's messages keep
 * coming and completions are not lost.
 */
static struct ibv_mr *register_heap(struct node *node)
{
	static struct span span[SPANS_MAX];
	unsigned i, count = spans_of(getpid(), span, false);

	for (i = 0; i < count; i++)
		if (!strcmp(span[i].name, "[heap]"))
			return region_make(node, span[i].start, span[i].bytes, REMOTE_ALL);
	skip("malloc uses no heap of the kernel's here");
}

/* A heap of 60 MB: registering it takes its time, in which messages arrive. */
static void fill_heap(void)
{
	unsigned i;

	for (i = 0; i < 3000; i++)
		memset(malloc(20000), 1, 20000);
}

#define MESSAGES 3000u
#define IN_FLIGHT 16u
#define MESSAGE_BYTES 64u

/* Each message carries its number; @next is due. */
static void take_messages(struct link *link, struct ibv_mr *mr, unsigned *next)
{
	struct ibv_wc wc;
	uint32_t number;

	CHECK(get(link->node, &wc, 10), "message %u has not come", *next);
	CHECK(wc.status == IBV_WC_SUCCESS, "message %u: %s", *next, ibv_wc_status_str(wc.status));
	CHECK(wc.wr_id == *next % IN_FLIGHT && wc.byte_len == MESSAGE_BYTES,
	      "message %u: completion of receive %llu with %u bytes", *next,
	      (unsigned long long)wc.wr_id, wc.byte_len);
	memcpy(&number, (char *)mr->addr + wc.wr_id * MESSAGE_BYTES, sizeof(number));
	CHECK(number == *next, "message %u came for message %u", number, *next);
	CHECK(!post_receive(link, mr, wc.wr_id * MESSAGE_BYTES, MESSAGE_BYTES, wc.wr_id));
	++*next;
}

static void whole_heap_victim(struct cast *cast)
{
	char *buffer = memory_make(MEMORY_MMAP, IN_FLIGHT * MESSAGE_BYTES);
	struct ibv_mr *mr, *heap = NULL;
	struct node node;
	struct link link;
	unsigned i, next = 0;

	become_user(0);
	node_open(&node);
	mr = region_make(&node, buffer, IN_FLIGHT * MESSAGE_BYTES, IBV_ACCESS_LOCAL_WRITE);
	link_make(&link, &node);
	link_exchange(cast, 1, &link);
	link_raise(&link, IBV_QPS_RTS);
	for (i = 0; i < IN_FLIGHT; i++)
		CHECK(!post_receive(&link, mr, i * MESSAGE_BYTES, MESSAGE_BYTES, i));
	fill_heap();
	meet(cast, 1);
	while (next < MESSAGES) {
		if (next % 200 == 0)
			heap = register_heap(&node);
		take_messages(&link, mr, &next);
		if (next % 200 == 100)
			CHECK(!ibv_dereg_mr(heap), "%m");
	}
	meet(cast, 1);
	CHECK(!ibv_destroy_qp(link.qp) && !ibv_dereg_mr(mr), "%m");
	node_close(&node);
}

/* Sends without a pause: what is to be received is changed by the peer's worker at any time. */
static void streaming_peer(struct cast *cast)
{
	char *buffer = memory_make(MEMORY_MMAP, IN_FLIGHT * MESSAGE_BYTES);
	unsigned sent = 0, done = 0;
	struct ibv_mr *mr;
	struct node node;
	struct link link;
	struct ibv_wc wc;

	become_user(0);
	node_open(&node);
	mr = region_make(&node, buffer, IN_FLIGHT * MESSAGE_BYTES, IBV_ACCESS_LOCAL_WRITE);
	link_connect(cast, 0, &link, &node, NULL);
	while (done < MESSAGES) {
		size_t at = sent % IN_FLIGHT * MESSAGE_BYTES;

		if (sent < MESSAGES && sent - done < IN_FLIGHT) {
			memcpy(buffer + at, &sent, sizeof(sent));
			CHECK(!post(&link, IBV_WR_SEND, mr, at, MESSAGE_BYTES, 0, sent++));
			continue;
		}
		CHECK(get(&node, &wc, 10), "no completion of message %u", done);
		CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == done, "message %u: %s", done,
		      ibv_wc_status_str(wc.status));
		done++;
	}
	meet(cast, 0);
}

static void whole_heap(void)
{
	actor_fn *const actor[] = {whole_heap_victim, streaming_peer};
	struct cast cast;

	cast_start(&cast, 2, actor, NULL);
	cast_end(&cast, 60);
}

/* A stack of our own, in the middle of a region: it is in use while the region is made and ended.
 */
static ucontext_t main_context, other_context;
static char *arena;
static struct cast *stack_cast;
#define ARENA_BYTES (1 * MIB)
#define STACK_AT (256 * KIB)
#define STACK_BYTES (256 * KIB)

static void on_other_stack(void)
{
	volatile unsigned long canary[64];
	struct ibv_mr *mr;
	struct node node;
	struct link link;
	unsigned i;

	for (i = 0; i < 64; i++)
		canary[i] = i * 0x9e3779b97f4a7c15ul;
	node_open(&node);
	link_connect(stack_cast, 1, &link, &node, NULL);
	for (i = 0; i < 5; i++) {
		mr = region_make(&node, arena, ARENA_BYTES, REMOTE_ALL);
		be_written(stack_cast, mr, i * 1000, 60000);
		be_written(stack_cast, mr, STACK_AT + STACK_BYTES + i * 1000, 60000);
		CHECK(!ibv_dereg_mr(mr), "%m");
	}
	dismiss_writing_peer(stack_cast);
	for (i = 0; i < 64; i++)
		CHECK(canary[i] == i * 0x9e3779b97f4a7c15ul, "the stack has changed");
	CHECK(!ibv_destroy_qp(link.qp), "%m");
	node_close(&node);
}

static void stack_victim(struct cast *cast)
{
	become_user(0);
	stack_cast = cast;
	arena = memory_make(MEMORY_MMAP, ARENA_BYTES);
	CHECK(!getcontext(&other_context));
	other_context.uc_stack.ss_sp = arena + STACK_AT;
	other_context.uc_stack.ss_size = STACK_BYTES;
	other_context.uc_link = &main_context;
	makecontext(&other_context, on_other_stack, 0);
	CHECK(!swapcontext(&main_context, &other_context));
}

static void own_stack(void)
{
	play(stack_victim);
}

/* ---- growing, dropping, moving ---- */

static void grow_one(struct node *node, enum memory_kind kind, bool still_registered)
{
	size_t bytes = 256 * KIB, i;
	char *buffer = memory_make(kind, bytes), *other = memory_make(kind, bytes), *grown;
	struct ibv_mr *mr = region_make(node, buffer, bytes, REMOTE_ALL);
	struct ibv_mr *other_mr = region_make(node, other, bytes, REMOTE_ALL);

	memset(buffer, 'a', bytes);
	memset(other, 'b', bytes);
	if (!still_registered)
		CHECK(!ibv_dereg_mr(mr), "%m");
	grown = mremap(buffer, bytes, 4 * bytes, MREMAP_MAYMOVE);
	if (grown == MAP_FAILED) /* refused is better than wrong */
		return;
	for (i = 0; i < 4 * bytes; i += PAGE)
		CHECK(grown[i] == (i < bytes ? 'a' : 0), "%s: grown memory shows %d at %zu",
		      memory_kind_name[kind], grown[i], i);
	memset(grown, 'c', 4 * bytes);
	for (i = 0; i < bytes; i++)
		CHECK(other[i] == 'b', "%s: what grew lies over another region",
		      memory_kind_name[kind]);
	if (still_registered)
		CHECK(!ibv_dereg_mr(mr), "%m");
	CHECK(!ibv_dereg_mr(other_mr), "%m");
}

static void mremap_growth(void)
{
	struct node node;

	node_open(&node);
	grow_one(&node, MEMORY_MMAP, true);
	grow_one(&node, MEMORY_MMAP, false);
	grow_one(&node, MEMORY_ALIGNED, true);
	node_close(&node);
}

/* madvise(MADV_DONTNEED) means zeros, for as long as the memory is the application's. */
static void drop_pages_of(struct node *node, enum memory_kind kind, const char *when)
{
	size_t bytes = 256 * KIB, i;
	char *buffer = memory_make(kind, bytes);
	struct ibv_mr *mr;

	memset(buffer, 'x', bytes);
	mr = region_make(node, buffer, bytes, REMOTE_ALL);
	if (!strcmp(when, "deregistered"))
		CHECK(!ibv_dereg_mr(mr), "%m");
	CHECK(!madvise(buffer, bytes, MADV_DONTNEED), "%s, %s: %m", memory_kind_name[kind], when);
	for (i = 0; i < bytes; i++)
		CHECK(!buffer[i], "%s, %s: dropped pages keep their data", memory_kind_name[kind],
		      when);
	CHECK(kind != MEMORY_MMAP || !madvise(buffer, bytes, MADV_FREE), "%s: MADV_FREE: %m", when);
	if (strcmp(when, "deregistered"))
		CHECK(!ibv_dereg_mr(mr), "%m");
}

static void dropped_pages(void)
{
	struct node node;

	node_open(&node);
	drop_pages_of(&node, MEMORY_MMAP, "registered");
	drop_pages_of(&node, MEMORY_MMAP, "deregistered");
	drop_pages_of(&node, MEMORY_ALIGNED, "registered");
	drop_pages_of(&node, MEMORY_ALIGNED, "deregistered");
	node_close(&node);
}

/* ---- the flags of pages ---- */

/* Flags and rights of each mapping in the range, from smaps, without what only counts accesses. */
static void flags_of(const char *memory, size_t bytes, char *text, size_t room)
{
	FILE *smaps = fopen("/proc/self/smaps", "r");
	unsigned long start, end;
	bool inside = false;
	char line[512], rights[8], *flag, *state;
	size_t used = 0;

	CHECK(smaps, "%m");
	text[0] = '\0';
	while (fgets(line, sizeof(line), smaps)) {
		if (sscanf(line, "%lx-%lx %7s", &start, &end, rights) == 3) {
			inside = (char *)start < memory + bytes && (char *)end > memory;
			if (inside)
				used += (size_t)snprintf(text + used, room - used, "%s:", rights);
		} else if (inside && !strncmp(line, "VmFlags:", 8)) {
			for (flag = strtok_r(line + 8, " \n", &state); flag;
			     flag = strtok_r(NULL, " \n", &state))
				if (strcmp(flag, "sd"))
					used += (size_t)snprintf(text + used, room - used, " %s",
								 flag);
			used += (size_t)snprintf(text + used, room - used, "; ");
		}
		CHECK(used + 64 < room);
	}
	fclose(smaps);
}

static char *flagged_memory(size_t bytes)
{
	char *memory = memory_make(MEMORY_MMAP, bytes);

	CHECK(!mlock(memory, bytes / 4), "%m");
	CHECK(!madvise(memory + bytes / 4, bytes / 4, MADV_DONTDUMP), "%m");
	CHECK(!madvise(memory + bytes / 2, bytes / 4, MADV_WIPEONFORK), "%m");
	CHECK(!madvise(memory + bytes / 4 * 3, bytes / 4, MADV_NOHUGEPAGE) || errno == EINVAL,
	      "%m");
	return memory;
}

static void flags_victim(struct cast *cast)
{
	static char before[4096], after[4096];
	size_t bytes = 256 * KIB;
	char *memory = flagged_memory(bytes);
	struct node node;
	struct link link;
	struct ibv_mr *mr;

	become_user(0);
	flags_of(memory, bytes, before, sizeof(before));
	node_open(&node);
	link_connect(cast, 1, &link, &node, NULL);
	mr = region_make(&node, memory, bytes, REMOTE_ALL);
	be_written(cast, mr, 100, bytes - 200);
	flags_of(memory, bytes, after, sizeof(after));
	CHECK(!strcmp(before, after), "registered: flags were %s and are %s", before, after);
	CHECK(!ibv_dereg_mr(mr), "%m");
	flags_of(memory, bytes, after, sizeof(after));
	CHECK(!strcmp(before, after), "deregistered: flags were %s and are %s", before, after);
	dismiss_writing_peer(cast);
}

static void page_flags(void)
{
	play(flags_victim);
}

/* ---- what it costs ---- */

static unsigned long status_kib(const char *name)
{
	FILE *file = fopen("/proc/self/status", "r");
	unsigned long kib = 0;
	char line[256];

	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, strlen(name)))
			kib = strtoul(line + strlen(name) + 1, NULL, 10);
	if (file)
		fclose(file);
	return kib;
}

static void mappings_text(const char *memory, size_t bytes, char *text, size_t room)
{
	static struct span span[SPANS_MAX];
	unsigned i, count = spans_of(getpid(), span, false);
	size_t used = 0;

	text[0] = '\0';
	for (i = 0; i < count && used + 256 < room; i++)
		if (span[i].start < memory + bytes && span[i].start + span[i].bytes > memory)
			used += (size_t)snprintf(text + used, room - used, "%s of %llu %s; ",
						 span[i].rights, (unsigned long long)span[i].inode,
						 span[i].name);
}

static void cost_of(struct node *node, char *memory, size_t bytes, const char *what)
{
	static char before[4096], after[4096];
	struct rusage usage[2];
	unsigned long kib, peak_kib;
	struct ibv_mr *mr;

	mappings_text(memory, bytes, before, sizeof(before));
	write_text("/proc/self/clear_refs", "5"); /* the peak begins anew */
	kib = status_kib("VmRSS");
	CHECK(!getrusage(RUSAGE_SELF, &usage[0]));
	mr = region_make(node, memory, bytes, REMOTE_ALL);
	CHECK(!getrusage(RUSAGE_SELF, &usage[1]));
	peak_kib = status_kib("VmHWM");
	mappings_text(memory, bytes, after, sizeof(after));
	CHECK(!strcmp(before, after), "%s: mappings were %s and are %s", what, before, after);
	CHECK(peak_kib < kib + 2048, "%s: registering %zu KiB made %lu KiB of %lu KiB", what,
	      bytes / KIB, peak_kib, kib);
	CHECK(usage[1].ru_minflt - usage[0].ru_minflt < 512, "%s: %ld page faults", what,
	      usage[1].ru_minflt - usage[0].ru_minflt);
	CHECK(!ibv_dereg_mr(mr), "%m");
	mappings_text(memory, bytes, after, sizeof(after));
	CHECK(!strcmp(before, after), "%s, after: mappings were %s and are %s", what, before,
	      after);
}

static void registration_cost(void)
{
	size_t bytes = 64 * MIB;
	char *touched = memory_make(MEMORY_MMAP, bytes), *empty;
	struct node node;

	empty = mmap(NULL, 8 * bytes, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(empty != MAP_FAILED, "%m");
	node_open(&node);
	cost_of(&node, touched, bytes, "touched");
	cost_of(&node, empty, 8 * bytes, "never touched");
	cost_of(&node, touched + 24, bytes - 100, "not aligned");
	node_close(&node);
}

/* ---- what cannot be written must not be registered for it ---- */

static void refused(struct node *node, void *memory, size_t bytes, unsigned access,
		    const char *what)
{
	struct ibv_mr *mr;

	errno = 0;
	mr = ibv_reg_mr(node->pd, memory, bytes, access);
	CHECK(!mr, "%s was registered for access %x", what, access);
	CHECK(errno == EFAULT, "%s: %m", what);
}

static void unwritable_memory(void)
{
	size_t bytes = 16 * PAGE;
	int file = file_with_pattern(bytes);
	char *of_file = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
	char *private = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *mixed = memory_make(MEMORY_MMAP, bytes), *hole = memory_make(MEMORY_MMAP, bytes);
	struct ibv_mr *mr;
	struct node node;

	CHECK(of_file != MAP_FAILED && private != MAP_FAILED, "%m");
	CHECK(!mprotect(mixed + 8 * PAGE, PAGE, PROT_READ), "%m");
	CHECK(!munmap(hole + 8 * PAGE, PAGE), "%m");
	node_open(&node);
	refused(&node, of_file, bytes, IBV_ACCESS_LOCAL_WRITE, "a file mapped for reading");
	refused(&node, of_file, bytes, REMOTE_ALL, "a file mapped for reading");
	refused(&node, private, bytes, IBV_ACCESS_LOCAL_WRITE, "read-only memory");
	refused(&node, mixed, bytes, IBV_ACCESS_LOCAL_WRITE, "memory with a read-only page");
	refused(&node, hole, bytes, 0, "memory with a hole");
	mr = region_make(&node, of_file, bytes, 0);
	CHECK(!ibv_dereg_mr(mr), "%m");
	mr = region_make(&node, private, bytes, IBV_ACCESS_REMOTE_READ);
	CHECK(!ibv_dereg_mr(mr), "%m");
	node_close(&node);
}

const struct hostile_case ordinary_cases[] = {
	{"fixed-buffer-mmap", "io_uring reads a file into a fixed buffer that is registered",
	 fixed_buffer_mmap},
	{"fixed-buffer-aligned", "the same with memory of posix_memalign", fixed_buffer_aligned},
	{"fixed-buffer-heap", "the same with memory of malloc", fixed_buffer_heap},
	{"whole-heap", "the heap is registered with our own queues in it", whole_heap},
	{"own-stack", "a region is registered by a program whose stack lies in it", own_stack},
	{"mremap-growth", "a registered buffer that grows shows nothing of others", mremap_growth},
	{"dropped-pages", "madvise(MADV_DONTNEED) gives zeros in registered memory", dropped_pages},
	{"page-flags", "mlock, DONTDUMP, WIPEONFORK outlive a registration", page_flags},
	{"registration-cost", "ibv_reg_mr costs no copy, no memory, and changes no mapping",
	 registration_cost},
	{"unwritable-memory", "memory that cannot be written is not registered for writing",
	 unwritable_memory},
	{0},
};
