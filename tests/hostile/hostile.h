/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Attacks on the path between two processes of one host. A case starts a cast of processes, some
 * honest, some not, and checks what the honest ones see. Nothing here knows the layout of anything
 * that is shared: an attacker works on verbs, sockets, descriptors and mappings as found from
 * outside.
 *
 *	cast.c	  processes, sockets between them, users, CHECK
 *	verbs.c	  device, regions, queue pairs, an honest exchange that checks its data
 *	attack.c  find, map, scribble over, fill and truncate what a peer has been given
 */
#ifndef VERBATIM_TESTS_HOSTILE_H
#define VERBATIM_TESTS_HOSTILE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define KIB 1024ul
#define MIB (1024ul * KIB)
#define PAGE 4096ul

/* Says what is wrong and ends the process with 1: the case has failed. */
#define CHECK(condition, ...)                                                                      \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fail_at(__FILE__, __LINE__, #condition, " " __VA_ARGS__);                  \
	} while (0)
void fail_at(const char *file, int line, const char *what, const char *format, ...)
	__attribute__((noreturn, format(printf, 4, 5)));
/* In any process of a case: the case cannot be run here. */
void skip(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

#define SKIPPED 77

extern bool long_run;
extern uint64_t seed;

struct hostile_case {
	const char *name, *title;
	void (*run)(void);
	bool only_long;			/* takes too much of the machine for make check */
};

extern const struct hostile_case ordinary_cases[], address_space_cases[], deregister_cases[],
	stranger_cases[], misuse_cases[], mismatch_cases[], kill_cases[], crowd_cases[],
	storm_cases[], signal_cases[], shortcut_cases[];

/* ---- cast.c ---- */

#define CAST_MAX 6

/* Who is in the play, as one of its processes sees it: the test's own process is the last. */
struct cast {
	int me, count;
	int wire[CAST_MAX]; /* socket to each of the others */
	pid_t pid[CAST_MAX];
	void *argument;
};

typedef void actor_fn(struct cast *cast);

/* Starts @count actors; the caller becomes the director, number @count. Actors exit 0 on return. */
void cast_start(struct cast *cast, unsigned count, actor_fn *const *actor, void *argument);
/* All of them ended with 0 within @limit_s. Those that did not are killed. */
void cast_end(struct cast *cast, double limit_s);
/* Kills an actor, reaps it, and expects nothing of it. */
void cast_kill(struct cast *cast, int who);
void cast_forget(struct cast *cast, int who); /* an attacker may end as it likes */

void tell(struct cast *cast, int who, const void *what, size_t bytes);
void hear(struct cast *cast, int who, void *what, size_t bytes); /* in 30 s */
bool hear_within(struct cast *cast, int who, void *what, size_t bytes, double limit_s);
void cue(struct cast *cast, int who);	    /* one byte, */
void await_cue(struct cast *cast, int who); /* waited for */
bool await_cue_within(struct cast *cast, int who, double limit_s);
void meet(struct cast *cast, int who); /* both are here */

/* By SCM_RIGHTS. -1: there was none with the message, or no message. */
void send_descriptor(struct cast *cast, int who, int fd);
int receive_descriptor(struct cast *cast, int who);

double now(void);
uint64_t random_u(void);
uint64_t random_below(uint64_t below);

/* Users. 0: that of the test. Without privilege and dumpable afterwards, as after a login. */
bool is_root(void);
bool has_other_users(void);
void need_root(void);
void become_user(unsigned uid);
void drop_capabilities(void);
void become_plain(unsigned uid); /* that user, or at least without capabilities */
#define USER_A 1001
#define USER_B 1002
void write_text(const char *path, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* False when the process is stopped (or in state @state) within 5 s. */
bool wait_state(pid_t pid, const char *states);

/* What a process holds. */
struct holdings {
	unsigned descriptors, threads, shared_mappings;
};
struct holdings holdings_now(void);
void holdings_compare(const struct holdings *before); /* no more than before, within 5 s */
struct holdings holdings_settled(void);		      /* when they have been the same for a while */

/* ---- verbs.c ---- */

#define REMOTE_ALL                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define CQ_ENTRIES 1024
#define COMPLETE_S 20 /* by then every request has completed */

struct address {
	uint32_t qpn, psn, rkey;
	uint64_t memory, bytes;
	union ibv_gid gid;
};

struct node {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
};

struct link {
	struct node *node;
	struct ibv_qp *qp;
	struct address here, there;
	enum ibv_mtu mtu;
	uint8_t timeout, retry_count, rnr_retry;
	unsigned access;
	uint64_t next_id;
};

void node_open(struct node *node);
void node_close(struct node *node);

/* The kinds of memory that programs register. */
enum memory_kind { MEMORY_MMAP, MEMORY_ALIGNED, MEMORY_HEAP, MEMORY_KINDS };
extern const char *const memory_kind_name[MEMORY_KINDS];
/* Zeros; of the heap: not aligned to pages. */
char *memory_make(enum memory_kind kind, size_t bytes);
void memory_free(enum memory_kind kind, char *memory, size_t bytes);

struct ibv_mr *region_make(struct node *node, void *memory, size_t bytes, unsigned access);

void link_make(struct link *link, struct node *node);
void link_set_region(struct link *link, const struct ibv_mr *mr); /* whose key the peer gets */
void link_exchange(struct cast *cast, int who, struct link *link);
void link_raise(struct link *link, enum ibv_qp_state up_to);
/* link_make, exchange, raise to RTS, meet. */
void link_connect(struct cast *cast, int who, struct link *link, struct node *node,
		  const struct ibv_mr *mr);

/* One request of one SGE, signaled. */
int post(struct link *link, enum ibv_wr_opcode opcode, const struct ibv_mr *mr, size_t offset,
	 uint32_t bytes, uint64_t there, uint64_t id);
int post_receive(struct link *link, const struct ibv_mr *mr, size_t offset, uint32_t bytes,
		 uint64_t id);
/* False: no completion came within @limit_s. */
bool get(struct node *node, struct ibv_wc *wc, double limit_s);
/* post() and its completion, which must come within 10 s. */
enum ibv_wc_status transfer(struct link *link, enum ibv_wr_opcode opcode, const struct ibv_mr *mr,
			    size_t offset, uint32_t bytes, uint64_t there);

/*
 * An honest exchange: the driver writes, reads back, adds, sends and gets an echo, and compares
 * everything; the other one echoes. Memory beside it is compared with a shadow.
 */
#define STEADY_BYTES (64 * KIB)
/* For a round beside an attack, on a machine that has other work too. */
#define HONEST_LIMIT_S 5

struct steady {
	struct link link;
	struct ibv_mr *mr;
	char *memory, *shadow;
	uint64_t rounds;
	double slowest_s;
};
void steady_connect(struct cast *cast, int who, struct steady *steady, struct node *node);
void steady_drive(struct steady *steady, double seconds); /* at least one round */
void steady_end(struct cast *cast, int who, struct steady *steady);
void steady_echo(struct cast *cast, int who, struct node *node); /* until the driver has ended */

/*
 * An honest peer, actor 1, of a victim that is actor 0: it writes where it is told and reads that
 * back, until it is dismissed. be_written() looks at what has come.
 */
actor_fn writing_peer;
void be_written(struct cast *cast, struct ibv_mr *mr, size_t offset, size_t bytes);
void dismiss_writing_peer(struct cast *cast);

/* ---- cgroup.c ---- */

/* A control group below our own, for processes of the test alone. */
struct cgroup {
	int parent, group; /* directories */
	char name[64];
	bool v1;
};

/* "memory" or "freezer". NULL, or why there is none to be had. */
const char *cgroup_try(struct cgroup *cgroup, const char *controller);
/* Skips the case then. */
void cgroup_make(struct cgroup *cgroup, const char *controller);
void cgroup_add(const struct cgroup *cgroup, pid_t pid);
void cgroup_limit(const struct cgroup *cgroup, size_t bytes);
void cgroup_freeze(const struct cgroup *cgroup, bool frozen); /* waits until it is */
void cgroup_remove(struct cgroup *cgroup);		      /* it is empty by now */
void cgroup_abandon(void);				      /* if there is one */

/* ---- attack.c ---- */

struct span {
	char *start;
	size_t bytes;
	char rights[5];
	uint64_t inode, offset;
	unsigned device;
	char name[128];
};

#define SPANS_MAX 512
/* Mappings of a process; only shared ones, memory of no file counting as such too. */
unsigned spans_of(pid_t pid, struct span *span, bool shared_only);
/* The pages of a shared mapping that hold something: that is where an attacker looks. */
typedef void page_fn(char *page, void *argument);
void span_each_page(const struct span *span, page_fn *visit, void *argument);

/*
 * Everything that this process shares with others becomes writable, if the kernel lets it be: what
 * is mapped, what a descriptor leads to, what /proc leads to. Spans; those that did not are left
 * out.
 */
unsigned attack_map_everything(struct span *span);
/* The number of shared pages on which @bytes of @what are to be read. */
unsigned attack_find(const void *what, size_t bytes);
/* Inodes of memory that both processes have mapped; @name is that of one. */
unsigned shared_between(pid_t a, pid_t b, char *name, size_t bytes);
/* From a process of its own, which has these mappings and descriptors, and none of our threads. */
pid_t attack_fork(void (*run)(void *argument), void *argument);
void attack_scribble(const struct span *span, unsigned spans, double seconds);
/* Those that are open now are the test's own, and left alone. */
void attack_spare_descriptors(void);
void attack_descriptors(double seconds);
/* Whoever writes to one of these from now on would wait for room. */
void attack_fill(double seconds);
void attack_sockets(double seconds); /* the abstract ones, and UDP port 4791 */

#endif
