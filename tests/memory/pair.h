/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tests of the memory path: two processes, forked before either opens the device, with a queue pair
 * each that is connected to the other's. The test's own process opens no device: it starts them,
 * kills them, waits for them, and prints TAP.
 */
#ifndef VERBATIM_TESTS_MEMORY_PAIR_H
#define VERBATIM_TESTS_MEMORY_PAIR_H

#include <infiniband/verbs.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/counters.h"
#include "base/lock.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#elif __has_feature(address_sanitizer)
#define ADDRESS_SANITIZER 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#elif defined(__SANITIZE_ADDRESS__)
#define ADDRESS_SANITIZER 1
#endif

/*
 * For what must come, and for what never comes there is no better: beside other work everything may be late.
 * Limits of a whole pair are those of an idle machine; PATIENCE times as long is waited for its end.
 */
#define LIMIT_S	 60.0
#define PATIENCE 6.0

/* In an end: says what is wrong, and ends the process. */
#define CHECK(condition, ...)                                                                      \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail_at(__FILE__, __LINE__, #condition, " " __VA_ARGS__);                  \
	} while (0)
void fail_at(const char *file, int line, const char *what, const char *format, ...)
	__attribute__((noreturn, format(printf, 4, 5)));

enum side { LEFT, RIGHT };

/* What one end tells the other. */
struct address {
	uint32_t qpn, rkey, psn;
	uint64_t memory;
	union ibv_gid gid;
};

struct end {
	enum side side;
	int peer; /* socket to the other end */
	int test; /* socket to the test's process */
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *memory;
	size_t bytes;
	bool has_blocks; /* its memory is shared from birth: peers map regions that are a whole block */
	struct address there;
	uint32_t psn; /* of our first packet */
	enum ibv_mtu mtu;
	uint8_t rnr_retry, timeout, retry_count;
	enum ibv_qp_type type;	/* IBV_QPT_UC before end_make_qp(); 0: RC */
	bool may_lack_descriptors, lacks_descriptors; /* RTR may fail with EMFILE: and did */
};

/*
 * The timeout where nobody is to be given up: 1 s and seven retries. A busy machine takes processes off
 * for seconds.
 */
#define PATIENT 18u

typedef void end_fn(struct end *end, void *argument);

struct pair {
	pid_t pid[2];
	int socket[2]; /* to the ends */
};

/*
 * @mode: VERBATIM_MEMORY; "mapped" also has end_open() take its memory from a block, others from mmap().
 * Both ends run, and exit with 0 when their function returns.
 */
void pair_start(struct pair *pair, const char *mode, end_fn *left, end_fn *right, void *argument);
/* The status as of waitpid(); -1: it had not ended after @limit_s, and was killed. */
int pair_wait(struct pair *pair, enum side side, double limit_s);
/* SIGSTOP; on return none of its threads runs. */
void pair_stop(const struct pair *pair, enum side side);
/* Both, and both exited with 0. */
bool pair_end(struct pair *pair, double limit_s);
bool pair_run(const char *mode, end_fn *left, end_fn *right, void *argument, double limit_s);
/* In each mode, "off" first; ends that need longer than @limit_s are stuck. */
bool pair_run_in_each_mode(end_fn *left, end_fn *right, void *argument, double limit_s);

double now(void);
void tell(int socket, const void *what, size_t bytes);
bool hear(int socket, void *what, size_t bytes); /* false: nobody is there any more */
void meet(struct end *end);			 /* both ends are here */

/* Device, PD, CQ; memory of @bytes, registered with @access, unless 0 bytes. */
void end_open(struct end *end, size_t bytes, unsigned access);
/* Zeroed memory of an end, whole pages, of the kind that it uses. */
char *end_memory(struct end *end, size_t bytes);
void end_close(struct end *end);
void end_make_qp(struct end *end);
void end_make_qp_with(struct end *end, struct ibv_srq *srq);
/* From any state to RTS, with the other end's QP. end_exchange() and end_raise() are its parts. */
void end_connect(struct end *end);
void end_exchange(struct end *end);
void end_raise(struct end *end, int up_to);
#define ALL_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)

/* One request with one SGE; @offset in our memory, @there in theirs. Signaled. */
int post(struct end *end, enum ibv_wr_opcode opcode, size_t offset, uint32_t bytes, size_t there,
	 uint64_t wr_id);
int post_receive(struct end *end, size_t offset, uint32_t bytes, uint64_t wr_id);
/* A completion within @limit_s; false: none came. */
bool get(struct end *end, struct ibv_wc *wc, double limit_s);
/* post() and its completion. */
enum ibv_wc_status transfer(struct end *end, enum ibv_wr_opcode opcode, size_t offset,
			    uint32_t bytes, size_t there);

/* Lines of /proc/self/maps with @text in them. */
unsigned map_lines(const char *text);
/* The first of them: where it is and how many bytes; false: there is none. */
bool find_mapping(const char *text, const char *rights, char **start, size_t *bytes);
/* How blocks are called there, a peer's as well as our own; and channels. */
#define BLOCK_MAPPING "memfd:verbatim-block"
#define CHANNEL_MAPPING "memfd:verbatim-channel"

/* A counter of the device that end_open() has opened (base/counter.def). */
uint64_t counter_here(enum counter counter);
/* All that are not 0, for what is said of a failure. */
const char *counters_here(void);
/* Where requests of our one connected QP go: "mapped" and the like; *why, as statistics say. */
const char *way_here(const char **why);

/* How often the device's worker has gone to sleep. */
unsigned long worker_sleeps(void);

/*
 * A lock of the library in this process. The test has a copy of base/lock.c of its own, which does not
 * know who sleeps by the library's, nor the library who sleeps by this one.
 */
#define pair_lock(lock)		while (!lock_try(lock)) sched_yield()
#ifdef CHECK_HELD_LOCKS
#define pair_unlock(lock)	lock_release(lock)
#else
#define pair_unlock(lock)	(lock_release(lock), pair_wake(lock, sizeof(*(lock))))

/* Who sleeps for any word of it. */
static inline void pair_wake(void *lock, size_t bytes)
{
	for (uint32_t *word = lock; bytes >= sizeof(*word); word++, bytes -= sizeof(*word))
		syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
#endif

/* ---- the main program ---- */

struct test {
	const char *name;
	bool (*run)(void);
};

extern bool long_run;
bool skip(const char *why); /* return skip("..."): counted as skipped */
int run_tests(int argc, char **argv, const struct test *tests, unsigned count);

/* An end whose device is open from one meeting to the next: for others that come to its door. */
void end_stays(struct end *end, void *unused);
/* To a process, the first that listens for peers; *slot: the slot's number. -1: nobody does. */
int connect_to_a_listener(uint32_t *slot);

#endif
