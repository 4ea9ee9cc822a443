/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Management agents: a class of MADs (IBTA chapter 13) has one agent in a process. MADs of a class
 * without an agent, and datagrams that are no MAD, are counted and dropped. The caller of
 * mad_open() holds a reference to the HCA of @qp1.
 */
#ifndef VERBATIM_MAD_MAD_H
#define VERBATIM_MAD_MAD_H

#include "mad/gsi.h"
#include "wire/mad.h"

struct mad_agent;

/* As struct gsi_ops, and under its rules; the header is parsed. All but received and tick may be NULL. */
struct mad_ops {
	enum drop (*received)(void *owner, const struct mad_address *from,
			      const struct mad_header *header, const uint8_t mad[MAD_BYTES],
			      uint64_t now_ns);
	void (*unreachable)(void *owner, const struct mad_address *to,
			    const struct mad_header *header, const uint8_t mad[MAD_BYTES],
			    uint64_t now_ns);
	void (*tick)(void *owner, uint64_t now_ns);
	void (*qp_failed)(void *owner, uint32_t qpn, uint64_t now_ns);
	void (*peer_gone)(void *owner, uint32_t slot, uint64_t now_ns);
	void (*remote_gone)(void *owner, const struct gsi_remote *remote, uint64_t now_ns);
	void (*interface_changed)(void *owner, const struct net_change *change, uint64_t now_ns);
	bool (*may_leave)(void *owner, uint64_t now_ns);
};

/* 0; EBUSY: the class has an agent; errno of gsi_open(). */
int mad_open(struct qp1 *qp1, unsigned class, const struct mad_ops *ops, void *owner,
	     struct mad_agent **agent);
/* After it no call is under way, and none follows. */
void mad_close(struct mad_agent *agent);
int mad_send(struct mad_agent *agent, const struct mad_address *to,
	     const uint8_t mad[MAD_BYTES]);
void mad_set_deadline(struct mad_agent *agent, uint64_t deadline_ns);
/* The other functions of mad/gsi.h take this. */
struct gsi *mad_gsi(struct mad_agent *agent);

#endif
