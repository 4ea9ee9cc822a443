/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Services of this host (of this network namespace): which process, of any user, takes the requests
 * of connection management for a service ID that come to an address.
 *
 * A claim is an abstract Unix datagram socket whose name is the service ID and the address: the
 * kernel keeps names unique and releases them when the process ends. The same socket takes
 * the requests that another process received and that are for the claim, once it serves. So
 * there is no table to keep, and nothing to go stale.
 */
#ifndef VERBATIM_HOST_SERVICE_H
#define VERBATIM_HOST_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/datagram.h"

struct services;		/* the claims of this process */
struct service_claim;

/* 0 or errno. */
int services_open(struct services **services);
void services_close(struct services *services);		/* releases all claims */
/* Readable when services_receive() has something. */
int services_event_fd(const struct services *services);

/*
 * @address: v4-mapped or IPv6; all zero: every one of @family (AF_INET, AF_INET6, AF_UNSPEC: both).
 * An address collides with itself, its family and both families; a family with both. Of colliding
 * claims made at the same time at most one succeeds. 0; EADDRINUSE; errno of the socket calls.
 */
int service_claim(struct services *services, uint64_t id, const uint8_t address[16], int family,
		  struct service_claim **claim);
/* From now on requests come to services_receive(). 0 or errno. */
int service_serve(struct services *services, struct service_claim *claim);
void service_release(struct services *services, struct service_claim *claim);

/* Does this process serve @id at @address? */
bool service_is_ours(struct services *services, uint64_t id, const uint8_t address[16]);
/* The service IDs that are served, each once, at most @max of them; returns how many. */
unsigned services_list(struct services *services, uint64_t *ids, unsigned max);

/*
 * Forward a request for @id at @address to the process that serves it: where claims collide, or the
 * port is below 1024, to a trusted one (service_owner.h). Never blocks. 0; ECONNREFUSED: there is
 * none; EAGAIN: it is stuck; errno of the socket calls.
 */
int service_forward(uint64_t id, const uint8_t address[16], const struct datagram *datagram);
/* As slot_receive(). */
int services_receive(struct services *services, struct datagram *datagram, uint8_t *buffer,
		     size_t size);

/* Around fork(); in the child every descriptor is closed and nothing else touched. */
void services_before_fork(struct services *services);
void services_after_fork(struct services *services);
void services_abandon(struct services *services);

#endif
