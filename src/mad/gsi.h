/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The general services interface, QP1, of this process: management datagrams come and go here.
 * One consumer per process (mad/mad.c). Also what connection management wants to know of the host:
 * who serves a service ID, and that a peer process or a QP died.
 *
 * No process of the host is special: port 4791's selector gives a MAD to some member, which hands it
 * on to whom it is for: answers by the slot in the communication ID that they answer (its bits
 * 31..22), requests (REQ, SIDR_REQ) by the claim on their service ID, of whatever process
 * and user. A request that nobody claimed is the receiver's to refuse; so is an answer for a
 * process that ended (a DREQ wants its DREP).
 *
 * After fork() the child's copy is dead: calls return ENODEV or do nothing.
 */
#ifndef VERBATIM_MAD_GSI_H
#define VERBATIM_MAD_GSI_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/mad.h"
#include "wire/qpn.h"


struct gsi;
struct net;
struct qp1;

/*
 * received() is called by the thread that makes progress, unreachable() and tick() by the worker,
 * all with engine->progress held; qp_failed() and peer_gone() by the worker with qp1->calls held,
 * never with engine->progress. All are short, do not block, and call nothing but gsi_send(),
 * gsi_set_deadline() and gsi_count().
 */
struct gsi_ops {
	void (*received)(void *consumer, const struct mad_address *from,
			 const uint8_t mad[MAD_BYTES], uint64_t now_ns);
	/* What was sent to there cannot arrive: nobody has port 4791 there (ICMP), or no route. */
	void (*unreachable)(void *consumer, const struct mad_address *to,
			    const uint8_t mad[MAD_BYTES], uint64_t now_ns);
	void (*tick)(void *consumer, uint64_t now_ns);	/* the deadline has passed */
	/* A connected QP of this process gave up its peer: retries exceeded. */
	void (*qp_failed)(void *consumer, uint32_t qpn, uint64_t now_ns);
	/* The process of this host that had @slot has ended (only for gsi_watch_slot()). */
	void (*peer_gone)(void *consumer, uint32_t slot, uint64_t now_ns);
};

/*
 * @consumer is handed to the calls. 0; EBUSY: there is a consumer; errno. *gsi is set before the first call
 * comes.
 */
int gsi_open(struct qp1 *qp1, const struct gsi_ops *ops, void *consumer, struct gsi **gsi);
/* No call is under way or comes after it returned. */
void gsi_close(struct gsi *gsi);

/*
 * Any thread, never blocks. 0; EAGAIN: the socket's buffer is full; EHOSTUNREACH, ENETUNREACH; what
 * else the kernel says (EPERM: a firewall; EINVAL: the local address is not ours; ENODEV: fork()).
 */
int gsi_send(struct gsi *gsi, const struct mad_address *to, const uint8_t mad[MAD_BYTES]);
/* tick() is called at or soon after it; TIME_NEVER: not. Any thread. */
void gsi_set_deadline(struct gsi *gsi, uint64_t deadline_ns);
void gsi_count(struct gsi *gsi, int counter);	/* enum counter, up by one; any thread */
/* The slot of this process, for communication IDs. */
uint32_t gsi_slot(const struct gsi *gsi);

/*
 * Claims on service IDs, host-wide (this network namespace, all users), released by the kernel
 * when the process ends. @address: the local address they are for (v4-mapped), or all zero:
 * every one of @family (AF_INET, AF_INET6, or AF_UNSPEC: both).
 */
struct gsi_claim;
/* 0; EADDRINUSE: claimed, by us or another process; errno of the socket calls. */
int gsi_claim(struct gsi *gsi, uint64_t service_id, const uint8_t address[16], int family,
	      struct gsi_claim **claim);
/* From now on requests are handed on to us (a claim reserves, it does not serve). */
int gsi_serve(struct gsi *gsi, struct gsi_claim *claim);
void gsi_release(struct gsi *gsi, struct gsi_claim *claim);

/*
 * Say peer_gone(), once, when the holder of @slot on this host ends or closes its devices. Counted
 * per slot; each of our own is fine and never gone. 0; ESRCH: nobody holds it now; errno.
 */
int gsi_watch_slot(struct gsi *gsi, uint32_t slot);
/* Once for each gsi_watch_slot(), also after peer_gone(). */
void gsi_unwatch_slot(struct gsi *gsi, uint32_t slot);

/* Where addresses are and lead to. */
struct net *gsi_net(struct gsi *gsi);

#endif
