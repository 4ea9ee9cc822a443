/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * librspreload.so: unmodified sockets programs on rsockets, by defining functions of the C library.
 * It uses <rdma/rsocket.h>, as any other program may, and base/lock.h.
 *
 *	table.c		descriptors -> struct twin; fork
 *	relay.c		connected twins in the child of a fork
 *	config.c	which sockets are taken; the C library's own functions
 *	socket.c	socket, bind, listen, accept, connect, close, dup; names
 *	option.c	options, fcntl, ioctl
 *	data.c		read, write, send, recv and their relatives
 *	poll.c		poll, select
 *	epoll.c		epoll
 *
 * A socket of the program is a kernel socket with an rsocket beside it, a twin. The program's
 * descriptor is always the kernel socket's. Which of the two carries the data shows when they
 * connect: a listening twin takes both kinds of peers, a connecting one tries RDMA, then TCP.
 *
 * Calls made by Verbatim's own libraries bypass twins; the thread-local `inside` marks them.
 */
#ifndef VERBATIM_RSPRELOAD_RSPRELOAD_H
#define VERBATIM_RSPRELOAD_RSPRELOAD_H

#include <errno.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/fork.h"
#include "base/lock.h"

enum twin_mode {
	TWIN_BOTH,		/* not connected; if it listens, on both */
	TWIN_CONNECTING,	/* a non-blocking connect of the rsocket is under way */
	TWIN_RDMA,
	TWIN_KERNEL,
};

struct twin {
	unsigned references;	/* atomic: descriptors, and calls at work */
	struct lock lock;	/* changes of mode */
	_Atomic enum twin_mode mode;	/* stored under lock, loaded without: a hint then */
	int rs;			/* the rsocket; -1: closed */
	bool listening, datagram;
	struct sockaddr_storage peer, here;	/* peer: CONNECTING; both: before a fork() */
	socklen_t peer_bytes, here_bytes;
	unsigned descriptors;	/* atomic: of this process */
	int relayed;		/* an eventfd: relays may take what the peer sends; -1: none was needed */
	bool inherited;		/* its parent moves the data; mode is KERNEL */
	bool receives;		/* inherited: the parent was told so */
	bool out_reported;	/* EPOLLET: EPOLLOUT was reported, no send has found it full since */
};

/* table.c */
int twin_add(int fd, struct twin *twin);		/* 0 or errno; takes the reference */
struct twin *twin_new(int rs);				/* NULL: no memory */
struct twin *twin_get(int fd);				/* NULL: not one of ours, or inside */
void twin_put(struct twin *twin);
void twin_remove(int fd);				/* the descriptor is closed */
bool twin_is_at(const struct twin *twin, int fd);
int twin_highest(void);					/* no descriptor of ours is above */
/* A variable with a reference (or NULL), which ends with it, also when the thread is cancelled. */
void twin_held_put(struct twin **twin);
#define TWIN_HELD	__attribute__((cleanup(twin_held_put)))
/* The rsocket is given up. */
void twin_to_kernel(struct twin *twin);

void twins_after_fork(void);				/* in the child */

/* Of relay.c, which sets them when the library is loaded: registered when there is a twin. */
extern const struct fork_handlers *twin_fork_handlers;

/* Its relays may take what the peer sends: @twin is inherited, or closed in the parent. */
static inline void twin_may_receive(const struct twin *twin)
{
	int saved = errno;

	eventfd_write(twin->relayed, 1);
	errno = saved;
}

/* The program wants to receive from it, or to know whether it can. */
static inline void twin_receives(struct twin *twin)
{
	if (twin->inherited && !__atomic_exchange_n(&twin->receives, true, __ATOMIC_RELAXED))
		twin_may_receive(twin);
}

/* config.c */
extern __thread int inside __attribute__((tls_model("initial-exec")));
bool config_takes(int domain, int type, int protocol);
void config_apply(int rs);				/* RS_SQ_SIZE and so on */

void inside_left(const int *before);

/* Evaluates a call that rsockets handle; the thread may be cancelled in it. */
#define RDMA_CALL(expression) \
	({ \
		const int before_ __attribute__((cleanup(inside_left), unused)) = inside++; \
		__typeof__(expression) result_ = (expression); \
		result_; \
	})

/* The C library's own functions: REAL(name)(arguments). */
#define REAL_FUNCTIONS(f) \
	f(accept4) f(bind) f(close) f(connect) f(dup) f(dup2) f(dup3) f(epoll_create) f(epoll_create1) \
	f(epoll_ctl) f(epoll_pwait) \
	f(fcntl) f(getpeername) f(getsockname) f(getsockopt) f(ioctl) f(listen) f(ppoll) f(poll) \
	f(pselect) f(read) f(readv) f(recv) f(recvfrom) f(recvmsg) f(recvmmsg) f(select) f(send) \
	f(sendmsg) f(sendmmsg) f(sendto) f(sendfile64) f(setsockopt) f(shutdown) f(socket) \
	f(write) f(writev) f(close_range) f(epoll_wait)
enum real_index {
#define REAL_INDEX(name) REAL_##name,
	REAL_FUNCTIONS(REAL_INDEX)
#undef REAL_INDEX
	REAL_COUNT
};
void *real_function(enum real_index index);
#define REAL(name) ((__typeof__(&name))real_function(REAL_##name))

/* socket.c: a connect under way may be over: RDMA, or TCP instead. */
void twin_settle(struct twin *twin, int fd);

/* epoll.c */
void epoll_forget(int fd);				/* closed: an epoll descriptor, or in one */
void epoll_after_fork(void);

/* poll.c */
void poll_free(struct pollfd **fds);			/* cleanups of a cancelled wait */
void poll_unmask(void *mask);
/* What poll() says of @fd in revents, when the twin's rsocket and kernel socket said these. */
unsigned poll_places(int fd, short events, struct pollfd places[2], struct twin **twin);
int poll_until(struct pollfd *fds, nfds_t count, int64_t deadline_ns);
int64_t poll_deadline_ns(int timeout_ms);
int poll_left_ms(int64_t deadline_ns);

#endif
