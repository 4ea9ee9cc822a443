/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow steering. The rules of a port are a list in the order of types and priorities; a frame goes
 * to the first that it passes, and to those that are the same but for the QP. Sniffers, and rules
 * that say so, let it go on.
 */
#include "engine/steer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/log.h"
#include "engine/internal.h"
#include "platform/wait.h"
#include "tracepoint/drop.h"

#define SEND_TRIES	2000u
#define ROUNDS		8u		/* batches per round of progress */

/* ---- ports ---- */

static struct ethernet_port *steer_find_port(struct engine *engine, uint32_t interface) REQUIRES(engine->progress)
{
	struct list *node;

	list_for_each(node, &engine->rx.ethernet_ports) {
		struct ethernet_port *port = list_entry(node, struct ethernet_port, node);

		if (port->socket.interface == interface)
			return port;
	}
	return NULL;
}

static void explain_packet_socket(int err)
{
	if (err == EPERM)
		explain_about(
			"EPERM ibv_create_qp", OF_NOTHING,
			"ibv_create_qp: RAW_PACKET needs CAP_NET_RAW in this network namespace: "
			"run the program as root, or in a user namespace of its own (unshare -rn)");
	else
		explain("ibv_create_qp: RAW_PACKET: the interface has no packet socket: %s",
				strerror(err));
}

int steer_get_port(struct engine *engine, uint32_t interface, const uint8_t mac[6], bool loopback,
		   struct ethernet_port **got)
{
	struct ethernet_port *port = steer_find_port(engine, interface);
	int err;

	if (!port) {
		port = calloc(1, sizeof(*port));
		if (!port)
			return ENOMEM;
		err = packet_socket_open(&port->socket, interface);
		if (err) {
			explain_packet_socket(err);
			free(port);
			return err;
		}
		memcpy(port->mac, mac, 6);
		port->loopback = loopback;
		list_init(&port->flows);
		list_add_tail(&engine->rx.ethernet_ports, &port->node);
		source_poll(&engine->source.all, &engine->source.frames, true);
	}
	port->users++;
	*got = port;
	return 0;
}

void steer_put_port(struct engine *engine, struct ethernet_port *port)
{
	if (--port->users)
		return;
	list_remove(&port->node);
	if (list_empty(&engine->rx.ethernet_ports))
		source_poll(&engine->source.all, &engine->source.frames, false);
	packet_socket_close(&port->socket);
	free(port);
}

void steer_abandon(struct engine *engine)
{
	struct list *node;

	list_for_each(node, &engine->rx.ethernet_ports)
		packet_socket_close(&list_entry(node, struct ethernet_port, node)->socket);
}

/* ---- rules ---- */

int steer_add(struct engine *engine, struct steered_flow *flow)
{
	struct ethernet_port *port = flow->qp->ethernet;
	struct list *node;
	int err;

	if (port->socket.receive_fd < 0) {
		err = packet_socket_listen(&port->socket);
		if (err) {
			explain("ibv_create_flow: no packet socket to receive from: %s", strerror(err));
			return err;
		}
		err = source_watch(&engine->source.all, &engine->source.sockets, port->socket.receive_fd);
		if (err) {
			explain("ibv_create_flow: the packet socket cannot be waited for: %s", strerror(err));
			packet_socket_deafen(&port->socket);
			return err;
		}
	}
	list_for_each(node, &port->flows)
		if (flow_is_before(&flow->rule, &list_entry(node, struct steered_flow, rule_node)->rule))
			break;
	list_add_tail(node, &flow->rule_node);	/* in front of that one, or last */
	return 0;
}

void steer_remove(struct engine *engine, struct steered_flow *flow)
{
	struct ethernet_port *port = flow->qp->ethernet;

	list_remove(&flow->rule_node);
	if (!list_empty(&port->flows))
		return;
	source_unwatch(&engine->source.all, port->socket.receive_fd);
	packet_socket_deafen(&port->socket);
}

/* ---- frames ---- */

static void steer_deliver(struct engine *engine, const struct steered_flow *flow,
			  struct raw_frame *raw, uint64_t now_ns) REQUIRES(engine->progress)
{
	struct effects effects;
	struct qp *qp = flow->qp;

	for (unsigned i = 0; i < flow->rule.counters; i++) {
		struct flow_counters *counters = to_counters(flow->rule.counter[i]);

		atomic_fetch_add_explicit(&counters->packets, 1, memory_order_relaxed);
		atomic_fetch_add_explicit(&counters->bytes, raw->frame->bytes, memory_order_relaxed);
	}
	if (flow->rule.drops)
		return;
	raw->flow_tag = flow->rule.tag;
	effects_init(&effects);
	lock_acquire(&qp->lock);
	transport_receive_frame(qp, raw, now_ns, &effects);
	timers_arm(engine, qp);
	lock_release(&qp->lock);
	effects_defer(engine, &effects);
}

static void steer_frame(struct engine *engine, const struct ethernet_port *port, struct raw_frame *raw,
			uint64_t now_ns) REQUIRES(engine->progress)
{
	const struct flow_rule *taken = NULL;
	struct list *node;

	list_for_each(node, &port->flows) {
		const struct steered_flow *flow = list_entry(node, struct steered_flow, rule_node);
		const struct flow_rule *rule = &flow->rule;

		if (taken && !flow_is_same(taken, rule))
			continue;
		if (!taken && !flow_matches(rule, raw->frame))
			continue;
		steer_deliver(engine, flow, raw, now_ns);
		if (!taken && rule->type != IBV_FLOW_ATTR_SNIFFER && !rule->passes_on)
			taken = rule;
	}
}

/*
 * An adapter hands what one of its QPs sends to the adapter's own address, or to a group, to the others. Of
 * frames that this host sends elsewhere nothing is received.
 */
static bool is_for_here(const struct ethernet_port *port, const struct packet_socket_frame *frame)
{
	if (!frame->outgoing)
		return true;
	return !port->loopback && frame->bytes >= 6 && (frame->data[0] & 1 || !memcmp(frame->data, port->mac, 6));
}

static unsigned receive_port(struct engine *engine, struct ethernet_port *port, uint64_t now_ns)
	REQUIRES(engine->progress)
{
	struct packet_socket_frame received[PACKET_SOCKET_BATCH];
	unsigned count = PACKET_SOCKET_BATCH, all = 0, round, i;

	for (round = 0; round < ROUNDS && count == PACKET_SOCKET_BATCH; round++) {
		count = packet_socket_receive(&port->socket, received);
		for (i = 0; i < count; i++) {
			struct raw_frame raw;
			struct frame frame;

			if (!is_for_here(port, &received[i]))
				continue;
			frame_dissect(received[i].data, received[i].bytes, &frame);
			raw = (struct raw_frame){ .frame = &frame, .vouched_for = received[i].checked };
			steer_frame(engine, port, &raw, now_ns);
		}
		all += count;
	}
	return all;
}

unsigned steer_receive(struct engine *engine, uint64_t now_ns)
{
	struct list *node;
	unsigned count = 0;

	list_for_each(node, &engine->rx.ethernet_ports)
		count += receive_port(engine, list_entry(node, struct ethernet_port, node), now_ns);
	return count;
}

void steer_send(struct engine *engine, struct ethernet_port *port, struct tx_batch *batch)
{
	struct iovec frames[TX_PACKETS_MAX];
	unsigned done = 0, tries = 0, i;
	int err;

	for (i = 0; i < batch->count; i++)
		frames[i] = (struct iovec){ .iov_base = batch->data + batch->packet[i].offset,
					    .iov_len = batch->packet[i].bytes };
	while (done < batch->count) {
		done += packet_socket_send(&port->socket, frames + done, batch->count - done, &err);
		if (!err)
			break;
		if ((err == EAGAIN || err == ENOBUFS) && ++tries < SEND_TRIES) {
			thread_yield();
			continue;
		}
		drop_count(engine->counters, DROP_LINK, 1);
		done++;		/* too long for the interface, or it is down: as on a wire */
	}
	counter_add(engine->counters, COUNTER_TX_PACKETS, batch->count);
	tx_batch_reset(batch);
}
