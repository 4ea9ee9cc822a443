/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Internal interface of rsockets. Rsockets are an application of verbs and rdma_cm(7): of
 * Verbatim's internal headers they include base/ and rdmacm/sockaddr.h only.
 *
 *	rsocket.c	create, bind, listen, accept, close; names
 *	table.c		descriptors -> struct rsocket, references, fork
 *	config.c	/etc/rdma/rsocket
 *	connect.c	events of the CM, connect, shutdown
 *	queue.c		QP, CQ and memory of a stream; completions, control messages
 *	stream.c	bytes in and out
 *	iomap.c		riomap, riowrite
 *	datagram.c	datagrams in and out
 *	resolve.c	their destinations
 *	link.c		the UD queue pair of a datagram socket on one device
 *	wait.c		sleeping and waking
 *	poll.c		rpoll, rselect
 *	repoll.c	repoll_create, repoll_ctl, repoll_wait; their sets: repoll_set.c
 *	option.c	options
 *	control.c	fcntl
 *	owner.c		signals to the owner of a stream
 *	service.c	a thread for what the application does not wait for
 *	io.c		the calls that move data
 *	wire.c, flow.h, iov.h	pure
 *
 * Locks: rs->receive_lock, rs->send_lock (copying out of or into the rings; not held while asleep),
 * then rs->lock (everything else; no data is copied under it). Functions *_locked require rs->lock;
 * those that drop it say so.
 *
 * Cancellation: a thread may end in its sleeps (call_sleep()) and nowhere else (base/call.h). What it holds
 * then is given back by cleanups.
 *
 * A listener accepts by itself, as TCP does: whoever takes its events, or else the service thread, makes a
 * socket of each request until the backlog is full; raccept() hands out what is there.
 *
 * Waking: the kernel wakes a thread that polls a descriptor, and then checks the descriptor again.
 * So a thread that takes an event from it (completion channel, event channel) may take the wake-up
 * of another one: it must wake all of rs->sleepers afterwards. Reading completions alone takes no
 * wake-up. A sleeper arms the CQ, polls once more, then sleeps.
 */
#ifndef VERBATIM_RSOCKETS_RSOCKET_H
#define VERBATIM_RSOCKETS_RSOCKET_H

#include <fcntl.h>
#include <rdma/rsocket.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "base/call.h"
#include "base/list.h"
#include "base/lock.h"
#include "rsockets/flow.h"
#include "rsockets/iov.h"
#include "rsockets/wire.h"
#include "rdmacm/sockaddr.h"

enum rs_state {
	RS_OPEN,		/* bound or not */
	RS_LISTENING,
	RS_RESOLVING,		/* address, then route */
	RS_CONNECTING,
	RS_ACCEPTING,		/* of raccept(): the peer has not confirmed yet */
	RS_CONNECTED,
	RS_FAILED,		/* rconnect() failed: may be tried again */
	RS_CLOSED,		/* the connection is over */
};

enum rs_interest { RS_READ = 1, RS_WRITE = 2 };

/* A thread that sleeps on a socket; in rs->sleepers. */
struct rs_sleeper {
	struct list node;
	struct rsocket *rs;
	int wake_fd;
};

/* The send queue and the buffer behind it. */
struct rs_send_queue {
	char *memory;
	uint32_t size;			/* bytes of memory: a ring */
	uint64_t head, tail;		/* bytes since the start: written, free again */
	uint64_t *ends;			/* by sequence number: head behind that request */
	uint32_t slots;			/* requests that fit, RS_CONTROL_RESERVE included */
	uint32_t posted, done;		/* requests since the start */
	uint32_t silent;		/* since the last signaled one */
	uint64_t signaled_head;
};

struct rs_iomap {
	bool used;
	bool told;			/* ours only: the peer is being told of it, and a thread waits for that */
	void *buffer;			/* ours only */
	struct ibv_mr *mr;		/* ours only */
	int prot;			/* ours only */
	uint64_t offset, length, address;
	uint32_t key;
};

/* A connection in the backlog of a listener, which raccept() takes. */
struct rs_request {
	struct list node;
	struct rsocket *rs;		/* NULL: there was no memory or descriptor: raccept() tries again */
	struct rdma_cm_id *id;
	struct rs_hello hello;
};

struct rs_backlog {
	struct list requests;
	unsigned waiting, most;
};

struct rs_stream {
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *ring_mr, *send_mr;
	char *ring;			/* in.size bytes, then a control slot per receive */
	size_t ring_mapped;
	uint32_t receives;
	unsigned armed;			/* RS_READ: solicited only, | RS_WRITE: all; 0: not */
	unsigned unacknowledged;	/* events of the completion channel */
	struct rs_flow_in in;
	struct rs_urgent urgent;
	struct rs_flow_out out;
	struct rs_send_queue queue;
	struct rs_hello peer;
	bool leaving;			/* RS_GONE was said: nothing follows it */
	bool read_shut, write_shut;	/* by rshutdown() */
	bool peer_done;			/* sends no more: end of file behind what is in the ring */
	bool peer_gone;			/* takes no more either */
	unsigned idle;			/* fruitless non-blocking calls */
	struct rs_backlog backlog;	/* LISTENING */
	struct rs_iomap *local_maps, *peer_maps;
	uint32_t local_map_count;	/* grows */
};

/* A datagram that has arrived. */
struct rs_arrival {
	uint32_t slot, bytes;		/* without the 40 bytes of the GRH */
};

/* The UD queue pair of a datagram socket on one device (link.c). */
struct rs_link {
	struct list node;
	struct rdma_cm_id *id;		/* keeps the device */
	uint16_t pkey_index;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	char *memory;			/* slots of receives, then of sends */
	size_t mapped;
	uint32_t receives, sends;
	uint32_t mtu;			/* header and payload of a datagram */
	bool has_addresses;		/* IP addresses in a GRH come with each: RoCE */
	uint32_t posted, done;		/* sends since the start */
	bool armed;
	struct rs_arrival *arrivals;	/* a ring of @receives */
	uint32_t arrived, taken;
};

enum rs_destination_state { RS_LOOKING, RS_KNOWN, RS_UNKNOWN };

/* Where datagrams go (resolve.c). */
struct rs_destination {
	struct list node;
	enum rs_destination_state state;
	struct sockaddr_storage address, source;	/* with ports */
	struct rdma_cm_id *id;		/* LOOKING */
	struct rs_link *link;
	struct ibv_ah *ah;
	uint32_t qpn, qkey;
	int error;			/* UNKNOWN */
	bool remote;			/* it is the peer's error, not ours */
	int64_t since_ns;		/* UNKNOWN */
};

struct rs_datagram {
	struct list links, destinations;
	unsigned destination_count, looking;
	bool bound, connected;
	struct sockaddr_storage peer;	/* connected */
};

struct rs_options {
	uint32_t receive_bytes, send_bytes, send_requests, receive_requests, inline_bytes, iomaps;
	uint32_t polling_us, wake_up_ms;	/* of the process */
	int receive_timeout_ms, send_timeout_ms;	/* 0: none */
	struct linger linger;
	bool reuse_address, keep_alive, no_delay, oob_inline, v6_only;
	int keep_idle, keep_interval, keep_count, segment, tos;
};

/* Who gets signals (owner.c). */
struct rs_owner {
	struct f_owner_ex who;		/* pid 0: nobody */
	bool async;			/* O_ASYNC */
	bool watched, over;		/* by the service thread; not any more, as it is closed */
};

struct rsocket {
	int fd;				/* the descriptor: of the event channel, or epoll_fd */
	int domain, type;
	unsigned references;		/* atomic */
	unsigned generation;		/* of the process: another one after fork() */
	struct lock lock, send_lock, receive_lock;
	struct list sleepers GUARDED_BY_MEMBER(lock);
	enum rs_state state GUARDED_BY_MEMBER(lock);
	bool nonblocking;
	bool closing GUARDED_BY_MEMBER(lock);
	bool lingering;			/* in rclose(): handlers that are put off do not end its sleeps */
	int error GUARDED_BY_MEMBER(lock);	/* for SO_ERROR; positive */
	struct rs_options options;
	struct rs_owner owner GUARDED_BY_MEMBER(lock);
	struct rdma_event_channel *events;
	struct rdma_cm_id *id;
	struct ibv_path_data *route;
	size_t route_bytes;
	int epoll_fd;			/* datagram: of the completion channels */
	union {
		struct rs_stream stream;
		struct rs_datagram datagram;
	};
};

/* The end of a call: @err is 0 or a positive errno. */
static inline int rs_result(int err)
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

/* table.c */
int rs_table_add(struct rsocket *rs);			/* under rs->fd */
/* NULL: no rsocket has that descriptor (errno EBADF). */
struct rsocket *rs_get(int fd);
void rs_put(struct rsocket *rs);
/* A variable with a reference (or NULL), which ends with it, also when the thread is cancelled. */
static inline void rs_held_put(struct rsocket **rs)
{
	if (*rs)
		rs_put(*rs);
}
#define RS_HELD		__attribute__((cleanup(rs_held_put)))
/* Takes it out of the table: only references that are held remain. NULL as rs_get(). */
struct rsocket *rs_table_remove(int fd);
unsigned rs_generation(void);
bool rs_is_inherited(const struct rsocket *rs);		/* by fork(): good for closing only */

/* config.c */
const struct rs_options *rs_defaults(void);

/* rsocket.c: the last reference has gone. */
void rs_free(struct rsocket *rs);
/* A socket around @events (and @id) with the options of @parent (or the defaults). 0 or errno. */
int rs_new(int domain, int type, const struct rsocket *parent, struct rsocket **created);
void rs_address_out(const struct sockaddr *address, struct sockaddr *to, socklen_t *length);
/* The same family, address and port? */
bool rs_address_same(const struct sockaddr_storage *a, const struct sockaddr *b);

/* A socket of its own for a request to @listener. 0 or errno; @id is the caller's still then. */
int rs_accept_locked(struct rsocket *listener, struct rdma_cm_id *id, const struct rs_hello *hello,
		     struct rsocket **accepted) REQUIRES(listener->lock);

/* connect.c */
int rs_create_id_locked(struct rsocket *rs) REQUIRES(rs->lock);		/* a fresh rs->id */
/* Takes the events that wait; returns how many. */
unsigned rs_connection_progress_locked(struct rsocket *rs) REQUIRES(rs->lock);
int rs_stream_accept_locked(struct rsocket *rs, const struct rs_hello *peer) REQUIRES(rs->lock);
/* The connection is over; @err (0: in good order) is for SO_ERROR. */
void rs_end_locked(struct rsocket *rs, int err) REQUIRES(rs->lock);
int rs_stream_connect(struct rsocket *rs, const struct sockaddr *address);

/* queue.c */
int rs_stream_open_locked(struct rsocket *rs, struct rs_hello *hello) REQUIRES(rs->lock);
void rs_stream_close(struct rsocket *rs);
void rs_stream_start_locked(struct rsocket *rs, const struct rs_hello *peer) REQUIRES(rs->lock);
unsigned rs_completions_locked(struct rsocket *rs) REQUIRES(rs->lock);	/* how many were there */
/* in the send queue, for data */
bool rs_request_room_locked(const struct rsocket *rs) REQUIRES(rs->lock);
/* Posts @wr, whose bytes of the send buffer end at queue.head; 0 or errno (the end of it all). */
int rs_post_locked(struct rsocket *rs, struct ibv_send_wr *wr) REQUIRES(rs->lock);
int rs_post_control_locked(struct rsocket *rs, const struct rs_control *control) REQUIRES(rs->lock);
void rs_give_credit_locked(struct rsocket *rs) REQUIRES(rs->lock);
bool rs_all_sent_locked(struct rsocket *rs) REQUIRES(rs->lock);
struct ibv_pd *rs_pd(struct rsocket *rs);

/* stream.c */
ssize_t rs_stream_receive(struct rsocket *rs, struct rs_cursor *to, int flags);
ssize_t rs_stream_send(struct rsocket *rs, struct rs_cursor *from, int flags);
bool rs_stream_readable_locked(struct rsocket *rs) REQUIRES(rs->lock);
/* Bytes that a read could take now; an urgent one in front of them does not count. */
size_t rs_stream_waiting_locked(const struct rsocket *rs) REQUIRES(rs->lock);
bool rs_stream_writable_locked(struct rsocket *rs) REQUIRES(rs->lock);
/* The error that a failed connection owes the application: each once, then @otherwise. */
int rs_take_error_locked(struct rsocket *rs, int otherwise) REQUIRES(rs->lock);
/* Waits until connected. 0 or errno. */
int rs_stream_ready_locked(struct rsocket *rs, int64_t deadline_ns) REQUIRES(rs->lock);

/* iomap.c */
int rs_iomap_message_locked(struct rsocket *rs, const struct rs_control *control)
	REQUIRES(rs->lock);
void rs_iomap_free(struct rsocket *rs);

/* wait.c */
#define RS_FOREVER	INT64_MAX
#define RS_NOW		((int64_t)0)
typedef bool rs_condition(struct rsocket *rs);

int64_t rs_now_ns(void);
/* When a call with these flags gives up. */
int64_t rs_deadline_ns(const struct rsocket *rs, int flags, int timeout_ms);
/* Until @ready says so: 0, EAGAIN, EINTR, EBADF (closed meanwhile). Drops rs->lock meanwhile. */
int rs_wait_locked(struct rsocket *rs, rs_condition *ready, enum rs_interest interest,
		   int64_t deadline_ns) REQUIRES(rs->lock);
void rs_wake_all_locked(struct rsocket *rs) REQUIRES(rs->lock);
int rs_thread_wake_fd(void);				/* -1: none to be had */
void rs_drain(int wake_fd);
/* Looks for completions and (@events) for events of the CM. Returns how many. */
unsigned rs_progress_locked(struct rsocket *rs, bool events) REQUIRES(rs->lock);
/* Spin budget before sleeping; report how long the sleep was (0: none). */
int64_t rs_spin_ns(void);
void rs_spun(int64_t slept_ns);
void rs_arm_locked(struct rsocket *rs, enum rs_interest interest) REQUIRES(rs->lock);
/* Descriptors to sleep on: -1 where there is none. */
int rs_completion_fd(const struct rsocket *rs);
int rs_event_fd(const struct rsocket *rs);
/* After a sleep: those descriptors were readable. */
void rs_take_events_locked(struct rsocket *rs, bool completions, bool events) REQUIRES(rs->lock);

/* repoll.c; the calls of the ABI are not in every release's header */
int repoll_create(int flags);
int repoll_ctl(int epfd, int op, int fd, struct epoll_event *event);
int repoll_wait(int epfd, struct epoll_event *events, int maxevents, int timeout);

/* poll.c */
short rs_ready_events_locked(struct rsocket *rs, short wanted) REQUIRES(rs->lock);

/* datagram.c */
ssize_t rs_datagram_receive(struct rsocket *rs, struct rs_cursor *to, int flags,
			    struct sockaddr_storage *from, bool *truncated);
ssize_t rs_datagram_send(struct rsocket *rs, struct rs_cursor *from, int flags,
			 const struct sockaddr *to);
bool rs_datagram_readable_locked(struct rsocket *rs) REQUIRES(rs->lock);
bool rs_datagram_writable_locked(struct rsocket *rs) REQUIRES(rs->lock);
int rs_datagram_connect(struct rsocket *rs, const struct sockaddr *address);

/* link.c */
/* The link on the device of @id; a new one keeps @id (*kept). 0 or errno. */
int rs_link_get_locked(struct rsocket *rs, struct rdma_cm_id *id, struct rs_link **link,
		       bool *kept) REQUIRES(rs->lock);
void rs_link_free(struct rs_link *link);
unsigned rs_links_progress_locked(struct rsocket *rs) REQUIRES(rs->lock);
void rs_links_arm_locked(struct rsocket *rs) REQUIRES(rs->lock);
void rs_links_take_events_locked(struct rsocket *rs) REQUIRES(rs->lock);
char *rs_link_arrival(struct rs_link *link);		/* the GRH; the datagram is behind it */
void rs_link_take(struct rs_link *link);		/* that arrival is done with */
char *rs_link_send_slot(struct rs_link *link);		/* of the next send; NULL: none free */
int rs_link_send(struct rs_link *link, const struct rs_destination *to, size_t bytes);

/* resolve.c */
int rs_datagram_open(struct rsocket *rs);
void rs_datagram_close(struct rsocket *rs);
int rs_datagram_bind_locked(struct rsocket *rs, const struct sockaddr *address) REQUIRES(rs->lock);
/* NULL address: any, any port. Nothing to do when it is bound. */
int rs_datagram_autobind_locked(struct rsocket *rs) REQUIRES(rs->lock);
/* As far as is known: LOOKING begins here. 0 or errno. */
int rs_destination_get_locked(struct rsocket *rs, const struct sockaddr *address,
			      struct rs_destination **destination) REQUIRES(rs->lock);

/* service.c: calls @serve of the kind with the number of the socket when a watched descriptor is readable. */
enum rs_serve_kind { RS_SERVE_DATAGRAM, RS_SERVE_OWNER, RS_SERVE_LISTENER, RS_SERVE_KINDS };
typedef void rs_serve(int socket);
int rs_service_start(enum rs_serve_kind kind, rs_serve *serve);		/* 0 or errno */
int rs_service_watch(enum rs_serve_kind kind, int fd, int socket);	/* 0 or errno */
void rs_service_forget(int fd);
void rs_service_after_fork(void);

/* owner.c; 0 or errno */
int rs_owner_set_locked(struct rsocket *rs, struct f_owner_ex who) REQUIRES(rs->lock);
int rs_owner_number_locked(struct rsocket *rs, long number) REQUIRES(rs->lock);	/* as of F_SETOWN */
int rs_owner_watch_locked(struct rsocket *rs) REQUIRES(rs->lock);	/* what there is to watch now */
void rs_owner_leave_locked(struct rsocket *rs) REQUIRES(rs->lock);	/* before its descriptors are closed */
void rs_owner_signal_locked(struct rsocket *rs, int signal) REQUIRES(rs->lock);

#endif
