/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The general services interface, QP1, of this process, for the consumers of management datagrams (mad/mad.h): it
 * sends them, and has the host services of connection management: claims on service IDs, and notification that
 * a peer process ended. It is open as long as there is a consumer.
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

#include <stdbool.h>
#include <stdint.h>

#include "tracepoint/drop.h"
#include "wire/mad.h"

struct gsi;
struct net;

/*
 * Any thread, never blocks. 0; EAGAIN: the socket's buffer is full; EHOSTUNREACH, ENETUNREACH;
 * other errors of the kernel (EPERM: a firewall; EINVAL: the local address is not ours, or the row of the
 * port's table has no P_Key); ENODEV: fork().
 */
int gsi_send(struct gsi *gsi, const struct mad_address *to, const uint8_t mad[MAD_BYTES]);
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
