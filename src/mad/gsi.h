/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The general services interface, QP1, of this process: sends and receives management datagrams. It
 * has one consumer per process (mad/mad.c). Also the host services of connection management: claims
 * on service IDs, and notification that a peer process ended or a QP failed.
 *
 * No process of the host is special: port 4791's selector gives a MAD to any member, which forwards
 * it to its owner: answers by the slot in the communication ID that they answer (its bits 31..22),
 * requests (REQ, SIDR_REQ) by the claim on their service ID, of any process and user. The receiver
 * refuses a request without a claim and answers for a process that ended (a DREQ needs its DREP).
 *
 * After fork() the child's copy is dead: calls return ENODEV or do nothing.
 */
#ifndef VERBATIM_MAD_GSI_H
#define VERBATIM_MAD_GSI_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "tracepoint/drop.h"
#include "wire/mad.h"
#include "wire/qpn.h"

struct net_change;

/* A process at a node of a fabric that had these LIDs, from the first on 1 << lmc. */
struct gsi_remote {
	uint32_t slot;
	uint16_t lid;
	uint8_t lmc;
};


struct gsi;
struct net;
struct qp1;

/*
 * received() is called by the thread that makes progress, unreachable(), tick() and may_leave() by the worker,
 * all with engine->progress held; qp_failed(), the *_gone() and interface_changed() by the worker
 * with qp1->calls held, never with engine->progress. All are short, do not block, and call nothing
 * but gsi_send(), gsi_set_deadline() and gsi_count().
 */
struct gsi_ops {
	/* Returns why it was dropped, which is counted. */
	enum drop (*received)(void *consumer, const struct mad_address *from,
			      const uint8_t mad[MAD_BYTES], uint64_t now_ns);
	/* A MAD sent to @to cannot arrive: port 4791 is closed there (ICMP), or no route. */
	void (*unreachable)(void *consumer, const struct mad_address *to,
			    const uint8_t mad[MAD_BYTES], uint64_t now_ns);
	void (*tick)(void *consumer, uint64_t now_ns);	/* the deadline has passed */
	/* A connected QP of this process gave up its peer: retries exceeded. */
	void (*qp_failed)(void *consumer, uint32_t qpn, uint64_t now_ns);
	/* The process of this host that had @slot has ended (only for gsi_watch_slot()). */
	void (*peer_gone)(void *consumer, uint32_t slot, uint64_t now_ns);
	/* An interface with an open device is gone, or has another MAC address. */
	void (*interface_changed)(void *consumer, const struct net_change *change, uint64_t now_ns);
	/* A process of a fabric that had the slot has ended: may be NULL. */
	void (*remote_gone)(void *consumer, const struct gsi_remote *remote, uint64_t now_ns);
	/* The process is about to end. False: something has to be said first, ask again. May be NULL. */
	bool (*may_leave)(void *consumer, uint64_t now_ns);
};

/*
 * @consumer is an argument of each call. 0; EBUSY: there is a consumer; errno. *gsi is set before
 * the first call.
 */
int gsi_open(struct qp1 *qp1, const struct gsi_ops *ops, void *consumer, struct gsi **gsi);
/* After it no call is under way, and none follows. */
void gsi_close(struct gsi *gsi);

/*
 * Any thread, never blocks. 0; EAGAIN: the socket's buffer is full; EHOSTUNREACH, ENETUNREACH;
 * other errors of the kernel (EPERM: a firewall; EINVAL: the local address is not ours); ENODEV:
 * fork().
 */
int gsi_send(struct gsi *gsi, const struct mad_address *to, const uint8_t mad[MAD_BYTES]);
/* tick() is called at @deadline_ns or soon after; TIME_NEVER: no call. Any thread. */
void gsi_set_deadline(struct gsi *gsi, uint64_t deadline_ns);
void gsi_count(struct gsi *gsi, int counter);	/* enum counter, up by one; any thread */
enum drop gsi_drop(struct gsi *gsi, enum drop why);	/* likewise; returns @why */
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
/* From now on requests are forwarded to this process (a claim only reserves the service ID). */
int gsi_serve(struct gsi *gsi, struct gsi_claim *claim);
void gsi_release(struct gsi *gsi, struct gsi_claim *claim);

/*
 * peer_gone() is called once, when the holder of @slot on this host ends or closes its devices.
 * Counted per slot; slots of this process are allowed, and never reported. 0; ESRCH: nobody holds
 * it now; errno.
 */
int gsi_watch_slot(struct gsi *gsi, uint32_t slot);
/* Once for each gsi_watch_slot(), also after peer_gone(). */
void gsi_unwatch_slot(struct gsi *gsi, uint32_t slot);

/* GID and route lookup of this process. */
struct net *gsi_net(struct gsi *gsi);

#endif
