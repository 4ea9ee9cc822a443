/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow steering: which of an interface's Ethernet frames go to which RAW_PACKET QPs of this
 * process. All of it under engine->progress, except steer_send().
 */
#ifndef VERBATIM_ENGINE_STEER_H
#define VERBATIM_ENGINE_STEER_H

#include "engine/engine.h"
#include "link/packet_socket.h"
#include "object/flow.h"

struct tx_batch;

/* An interface whose frames this process sends, and receives while there are flows. */
struct ethernet_port {
	struct list node;		/* in engine->rx.ethernet_ports */
	unsigned users;			/* QPs */
	struct packet_socket socket;
	uint8_t mac[6];
	bool loopback;			/* what is sent comes back */
	struct list flows;		/* struct steered_flow, in the order in which they are looked at */
};

/* A reference to the port of @interface. 0; EPERM, explained: CAP_NET_RAW is missing; errno. */
int steer_get_port(struct engine *engine, uint32_t interface, const uint8_t mac[6], bool loopback,
		   struct ethernet_port **port) REQUIRES(engine->progress);
void steer_put_port(struct engine *engine, struct ethernet_port *port) REQUIRES(engine->progress);

/* In a fork()ed child: closes its copies of the descriptors. */
void steer_abandon(struct engine *engine);

/* 0 or errno of the socket, explained. */
int steer_add(struct engine *engine, struct steered_flow *flow) REQUIRES(engine->progress);
void steer_remove(struct engine *engine, struct steered_flow *flow) REQUIRES(engine->progress);

/* Send the frames of a batch, with a bounded wait for room; the rest is lost and counted. */
void steer_send(struct engine *engine, struct ethernet_port *port, struct tx_batch *batch);
/* Receive what is there. Returns how many frames. */
unsigned steer_receive(struct engine *engine, uint64_t now_ns) REQUIRES(engine->progress);

#endif
