/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Internal interface of device/: the HCA of this process, and the contexts opened on it. The ABI
 * layers include hca.h only.
 */
#ifndef VERBATIM_DEVICE_INTERNAL_H
#define VERBATIM_DEVICE_INTERNAL_H

#include "base/list.h"
#include "base/lock.h"
#include "config/config.h"
#include "device/hca.h"
#include "engine/engine.h"
#include "mad/qp1.h"
#include "net/net.h"
#include "object/arena.h"
#include "subnet/subnet.h"
#include "transport/transport.h"

#define ECN_BITS 0x03u		/* of a traffic class */

struct hca;
struct hca_observer;

/* A context. Large: each kind of object has a list. */
struct hca_context {
	struct hca *hca;
	struct port *port;		/* the first: the device's name, GUID and interface are its */
	struct port *ports[PORTS_MAX];	/* [port_count]; number n is [n - 1] */
	unsigned port_count;
	struct context_file *file;
	struct list node;		/* in hca->contexts */
	struct list file_node;		/* in file->contexts */
	struct event_queue *async;	/* its own allocation: outlives us while wake-ups are due */
	int async_fd, command_fd;
	struct list pds, mrs, mws, dms, ahs, channels, cqs, srqs, qps, xrcds;	/* under hca->objects */
	struct list wqs, rwq_tables, flows, counters, comp_counters;	/* likewise */
	bool abandoned;			/* we are a fork()ed child: nothing behind it */
	bool closed;			/* by the application, before others of its file; under hca->objects */
};

/* file.c: what contexts of one file (ibv_import_device(3)) have in common. */
struct context_file {
	uint64_t number;		/* no two files of the process ever have the same */
	dev_t device;
	ino_t inode;			/* of the command descriptors */
	_Atomic uint32_t open;		/* contexts that the application has not closed */
	struct list contexts;		/* those that it has, too; under hca->objects */
};

/* Kinds of objects that are counted: ibv_query_device(3) says how many a process may have. */
enum object_kind { OBJECT_PD, OBJECT_CQ, OBJECT_SRQ, OBJECT_AH, OBJECT_WQ, OBJECT_RWQ_TABLE,
		   OBJECT_COMP_COUNTER, OBJECT_KINDS };

struct hca {
	struct config config;
	struct net net;
	struct engine engine;
	struct qp1 qp1;
	struct subnet *subnet;		/* the fabric that the process is at; NULL: none */
	int netdev_fd;			/* readable when interfaces have changed; or -1 */
	void *observed;			/* the observer's (observer.h); NULL: there is none */
	struct source interfaces, observer, subnet_data, subnet_ports;

	struct arena *arena;
	size_t arena_bytes;
	struct mr_table mrs;
	struct path_table paths;
	struct transport transport;

	struct lock objects;		/* lists of contexts and of their objects */
	struct list contexts;
	struct list xrc_domains;	/* under objects */
	struct list groups;		/* struct multicast_group, under objects and progress */
	uint32_t next_number;		/* of PDs, CQs, SRQs, DMs */
	uint32_t counts[OBJECT_KINDS];	/* of objects, under objects */
	uint64_t dm_bytes;		/* of device memory in use, under objects */
	void *null_zeros, *null_sink;	/* of null regions, under objects; or NULL */
};

/* process.c: starts the HCA of this process, or takes another reference. */
int hca_get(struct hca **hca);
void hca_put(struct hca *hca);
/* NULL: there is none, in tests only. */
const struct hca_observer *hca_observer_of(void);

/* port.c: NULL: the device has no port of that number. */
struct port *context_port(const struct hca_context *context, uint32_t number);
/* "port 1 only", for explanations. */
const char *context_ports_text(const struct hca_context *context);
/*
 * The route to @attr's destination from the port that it names, as port_ops.resolve finds it. EINVAL, explained:
 * there is no such port.
 */
int context_resolve(const struct hca_context *context, const struct ibv_ah_attr *attr, const char *who,
		    struct route *route);
/* The P_Key at that index of a port's table; 0: there is none. Any thread, under any lock. */
uint16_t context_pkey(const struct hca_context *context, uint32_t number, uint32_t index);

/* async.c: raises an event of a port at its contexts. (A void * for struct net.) */
void contexts_raise(void *hca, struct port *port, enum ibv_event_type type);
/* Events that the application has not fetched are freed. */
void async_drop(struct event_queue *queue);
/* close.c: every object of the contexts of a file. */
void file_destroy_objects(struct context_file *file);
/* Says which there are, if any. */
void file_explain_left(struct context_file *file, struct hca *hca);
/* file.c: a new file, without contexts. 0, ENOMEM or the errno of memfd_create(2), explained. */
int context_file_open(struct context_file **file, int *command_fd);

/* ---- handle.c: handles of PDs, MRs and DMs (object/handle.h) ---- */

/* The first handle of an object, in a list of its context. */
void handle_init(struct hca_context *context, struct list *head, struct handle *handle, uint32_t number);
/*
 * @made becomes a handle to the original of that number in the lists at @list_offset of the contexts of the file.
 * ENOENT, explained.
 */
int handle_import(struct hca_context *context, size_t list_offset, struct handle *made, uint32_t number,
		  const char *call);
/*
 * Destroys an object for all its handles. EBUSY: it has @users; ENOENT, explained: another handle has.
 */
int handle_destroy(struct hca *hca, struct handle *handle, const _Atomic uint32_t *users, const char *call);
/*
 * A handle is gone: an import is in no list any more, to be freed. True: so is the original, which is destroyed
 * and has no other handle (nor users, as it may have by a race: then it stays until the file is closed).
 */
bool handle_drop(struct hca *hca, struct handle *handle, const _Atomic uint32_t *users);
/* ---- object.c ---- */

/*
 * After fork() the parent's contexts are memory without a device in the child, and their locks may
 * be held by threads that it does not have: nothing of them is touched. Explains and returns true.
 */
bool context_is_dead(const struct hca_context *context, const char *who);

/* Lists and numbers of objects; hca_close() destroys the listed ones. */
void object_enlist(struct hca_context *context, struct list *head, struct list *node);
void object_delist(struct hca_context *context, struct list *node);
uint32_t object_number(struct hca *hca);
/* One more of a kind. ENOMEM, explained for @call: the process has as many as it may. */
int object_reserve(struct hca *hca, enum object_kind kind, const char *call);
void object_unreserve(struct hca *hca, enum object_kind kind);
#define ACK_PATIENCE_NS 1000000000u	/* after which a wait is explained */
/* idle.c: why no completion can come to the channel's CQs; false: one may. */
#define IDLE_WORDS 240
bool channel_cannot_complete(struct comp_channel *channel, char words[IDLE_WORDS],
			     struct explain_object *of);
/* The CQ is polled and empty; @first: since about now. Explains after a second. */
void cq_explain_empty(struct cq *cq, bool first);

/* async.c */
const char *async_event_name(enum ibv_event_type type);
/* For an explanation when a wait for acknowledgements takes long. */
struct ack_names {
	const char *call, *ack;		/* that waits; that ends it */
	const struct async_event *events;	/* which may be held; NULL: of a completion channel */
	unsigned count;
};

/* Waits until all fetched events are acknowledged. A signal handler may leave this wait by
 * siglongjmp(). */
void object_wait_for_acks(pthread_mutex_t *mutex, pthread_cond_t *cond, const uint32_t *acked,
			  const uint32_t *got, const struct ack_names *names);

/* qp.c: is one of our QPs connected to the holder of @slot, as a host's own? For struct engine_ops. */
bool qps_are_connected_to(struct hca *hca, uint32_t slot);
/* comp_counter.c: the QP ends, nobody else knows it. */
void comp_counters_detach(struct qp *qp) REQUIRES(qp->lock);
/* qp_last.c: before a QP stops answering. */
void qp_send_final_ack(struct hca *hca, struct qp *qp);
/* Has this process seen signs of loss? */
bool hca_loses_packets(struct hca *hca);
void qp_let_datagrams_leave(struct hca *hca, struct qp *qp);
/* The same for all QPs: the process ends. */
void qps_send_final_acks(struct hca *hca);
/* Waits until no thread transmits for it. */
void qp_wait_for_tx(struct qp *qp);

/* ethernet.c: what a QP of type RAW_PACKET has besides */
int ethernet_check(const struct ibv_qp_init_attr_ex *attr);
int ethernet_attach(struct hca_context *context, struct qp *qp, const struct ibv_qp_init_attr_ex *attr);
/* EINVAL, explained: more than the device may limit to. */
int ethernet_check_rate(uint32_t kbps, const char *call);
void ethernet_detach(struct hca *hca, struct qp *qp);

/* roce_v1.c: the link, if a port may want it; 0 or errno. */
int roce_v1_begin(struct hca *hca);
/* Its interfaces are those of the ports that are open now. */
void roce_v1_follow(struct hca *hca);
void roce_v1_end(struct hca *hca);

/* statistics.c: the process has ended with a device */
void hca_trace_counters(const struct hca *hca);

/* multicast.c */
/* Returns why one of its QPs dropped it, which is counted. */
enum drop multicast_deliver(struct hca *hca, const struct packet *packet, struct rx_info *info,
			    uint64_t now_ns) REQUIRES(hca->engine.progress);
void multicast_detach_all(struct hca *hca, struct qp *qp);
/* Groups that a process may be in. */
uint32_t multicast_groups_max(void);

#endif
