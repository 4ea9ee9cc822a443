/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Internal interface of the librdmacm layer, which implements rdma_cm(7) with
 * cm/endpoint/endpoint.h and the public verbs: it has the QPs, which endpoints do not know, and
 * moves them through their states for the application.
 *
 * Calls return 0, or -1 and errno; pointer functions NULL and errno. The structures that
 * programs hold come first in ours.
 *
 *	channel.c    event channels            qp.c         QPs made for an id, with their CQs
 *	id.c         create, destroy, migrate  qp_state.c   their way through the states
 *	address.c    bind, resolve, listen     srq.c        SRQs made for an id
 *	event.c      get, ack                  devices.c    open devices, default protection domains
 *	connect.c    connect, accept, ...      multicast.c  join, leave
 *	addrinfo.c   rdma_getaddrinfo()        ece.c, option.c, strings.c, explain.c
 *	create_ep.c  rdma_create_ep(), rdma_get_request()
 *	newer.c      calls that rdma-core 60 added
 *
 * An id without a channel of the application's has one of its own and is synchronous: calls wait
 * for the event that ends them, which stays in id->event until the next call.
 */
#ifndef VERBATIM_RDMACM_RDMACM_H
#define VERBATIM_RDMACM_RDMACM_H

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stddef.h>

#include "check/check.h"
#include "base/call.h"
#include "base/list.h"
#include "base/lock.h"
#include "cm/endpoint/endpoint.h"
#include "rdmacm/sockaddr.h"
#include "trace/trace.h"

/* An open device, shared by all ids on it. It stays open while the process lives. */
struct cm_device {
	struct list node;		/* in the list of devices.c, under its lock */
	struct ibv_context *verbs;
	unsigned ids;			/* bound to it; under the lock */
	bool gone;			/* the interface went away, or we are a fork()ed child */
	struct ibv_pd *pd;		/* the default one; made for the first id */
	struct ibv_xrcd *xrcd;		/* made for the first QP or SRQ that needs one */
	uint8_t max_responder_resources, max_initiator_depth;
};

struct id {
	struct rdma_cm_id public;	/* first */
	struct endpoint *endpoint;
	struct cm_device *device;	/* NULL: bound to none (yet) */
	bool synchronous;		/* public.channel is our own */
	uint8_t responder_resources, initiator_depth;	/* agreed on, or offered by the peer */
	struct endpoint_ece local_ece, remote_ece;
	struct ibv_cq *send_cq, *recv_cq;	/* those that we made: also ours to destroy */
	void *connect_data;		/* of rdma_create_ep(): goes before the private data */
	size_t connect_bytes;
	struct ibv_qp_init_attr *qp_template;	/* of a listener's rdma_create_ep(); or NULL */
	struct lock lock;		/* multicasts, and what newer.c looks up */
	struct list multicasts GUARDED_BY_MEMBER(lock);
	struct rdma_addrinfo *found GUARDED_BY_MEMBER(lock);	/* not fetched yet; or NULL */
	bool looking_up GUARDED_BY_MEMBER(lock);	/* a lookup runs, or @found waits */
};

struct event {
	struct rdma_cm_event public;	/* first */
	struct endpoint_event taken;
	uint64_t told;			/* the id that a check was told of; 0: none */
};

/* rdma_verbs.h compiles these into programs. */
static_assert(offsetof(struct id, public) == 0, "programs hold pointers to it");
static_assert(offsetof(struct event, public) == 0, "programs hold pointers to it");

static inline struct id *to_id(struct rdma_cm_id *id)
{
	return (struct id *)id;
}

static inline bool is_datagram(const struct id *id)
{
	return id->public.qp_type == IBV_QPT_UD;
}

/* The end of a call: @err is 0 or a positive errno. */
static inline int result(int err)
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

/* trace.c: a call, in a trace or for a check. */
struct traced {
	uint64_t began_ns;	/* 0: nobody traced then */
	const struct rdma_cm_id *id;
	bool datagram;
	uint8_t private_bytes;
	uint32_t qpn;
	char peer[80];
};
void traced_begin_slowly(struct traced *traced, const struct rdma_cm_id *id, const struct sockaddr *peer);
void traced_end_slowly(const struct traced *traced, const char *call, int rc);

/* @peer: NULL: of the id. @id NULL: none. */
static inline void traced_begin(struct traced *traced, const struct rdma_cm_id *id, const struct sockaddr *peer)
{
	traced->began_ns = 0;
	traced->id = id;
	traced->datagram = id && (id->ps == RDMA_PS_UDP || id->ps == RDMA_PS_IPOIB);
	traced->private_bytes = 0;
	if (trace_wants(TRACE_CALLS))
		traced_begin_slowly(traced, id, peer);
}

/* Returns @rc: 0, or not and errno. */
static inline int traced_end(const struct traced *traced, const char *call, int rc)
{
	if (traced->began_ns)
		traced_end_slowly(traced, call, rc);
	if (check_is_on() && traced->id)
		check_take(&(struct check_record){
			.what = CHECK_CM_CALL, .call = call, .error = rc ? errno : 0,
			.object = (uintptr_t)traced->id, .bytes = traced->private_bytes,
			.type = traced->datagram ? IBV_QPT_UD : IBV_QPT_RC,
		});
	return rc;
}

/* explain.c: say why (VERBATIM_EXPLAIN), set errno to @err, return -1. */
int refuse(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* id.c */
/* @channel NULL: synchronous. NULL and errno. Without an endpoint yet. */
struct id *id_new(struct rdma_event_channel *channel, void *context, enum rdma_port_space space,
		  enum ibv_qp_type qp_type);
/* Ends and frees the endpoint, too. */
void id_free(struct id *id);
int id_create(struct rdma_event_channel *channel, struct rdma_cm_id **created, void *context,
	      enum rdma_port_space space, enum ibv_qp_type qp_type);
/* Acknowledge the event that the last synchronous call left in the id. */
void id_drop_event(struct id *id);

/* address.c */
uint16_t address_port(const struct sockaddr *address);		/* network order */
/* What the endpoint knows goes into the id: addresses, device, path. 0 or errno. */
int id_refresh(struct id *id);

/* event.c: the end of a call: synchronous ids wait for its event. 0, or -1 and errno. */
int id_complete(struct id *id);

/* devices.c */
/* The open device of this name, with its protection domain; cm_device_put() it. 0 or errno. */
int cm_device_get(const char *name, struct cm_device **device);
void cm_device_put(struct cm_device *device);
void cm_device_is_gone(struct cm_device *device);
struct ibv_xrcd *cm_device_xrcd(struct cm_device *device);	/* NULL and errno */

/* qp.c: @send, @recv: entries wanted, 0: no such CQ. 0, or -1 and errno. */
int id_create_cqs(struct id *id, uint32_t send, uint32_t recv);
void id_destroy_cqs(struct id *id);

/* qp_state.c: of id->qp; nothing to do without one. 0 or errno. */
int qp_to_init(struct id *id, struct ibv_qp *qp);
/* @responder_resources, @initiator_depth: RDMA_MAX_*: as agreed on by the CM. */
int qp_to_rts(struct id *id, uint8_t responder_resources, uint8_t initiator_depth);
int qp_to_error(struct id *id);

/* multicast.c: a join was answered. False: the application left meanwhile. */
bool multicast_joined(struct id *id, struct event *event);
void multicasts_free(struct id *id);

#endif
