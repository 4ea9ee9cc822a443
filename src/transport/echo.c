/* SPDX-License-Identifier: BSD-2-Clause */
/* Echoes that a QP owes, and those it receives. See echo.h. */
#include "transport/echo.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "object/arena.h"

struct echo {
	struct route route;		/* the way back */
	uint32_t qpn, psn;		/* of the packet that asked */
	uint32_t group;			/* destination of that packet; 0: this QP alone */
};

struct echoes {
	uint32_t count, size;
	uint32_t receives_wanted;	/* with this many posted, none is held back */
	bool held;
	bool look;			/* held, but to be looked at again */
	uint64_t held_ns, check_ns;	/* since when; when to look again */
	struct echo echo[];
};

int echo_init(struct qp *qp)
{
	uint32_t size = qp_is(qp, QP_DATAGRAM) ? ECHO_SOURCES_MAX : 1;

	if (qp->responder.echoes)
		return 0;
	qp->responder.echoes = calloc(1, sizeof(struct echoes) + size * sizeof(struct echo));
	if (!qp->responder.echoes)
		return ENOMEM;
	qp->responder.echoes->size = size;
	return 0;
}

void echo_fini(struct qp *qp)
{
	free(qp->responder.echoes);
	qp->responder.echoes = NULL;
}

void echo_reset(struct qp *qp)
{
	struct echoes *echoes = qp->responder.echoes;

	if (!echoes)
		return;
	echoes->count = echoes->receives_wanted = 0;
	echoes->held = echoes->look = false;
	atomic_store_explicit(&qp->echo_held, 0, memory_order_relaxed);
}

/* ---- owing ---- */

/* The marks of a process are in one order, whichever of its QPs made them. */
static bool is_same_source(const struct echo *a, const struct echo *b)
{
	return qpn_slot(a->qpn) == qpn_slot(b->qpn) && a->group == b->group &&
	       !memcmp(a->route.destination, b->route.destination, sizeof(a->route.destination));
}

static void echo_owe(struct echoes *echoes, const struct echo *echo)
{
	uint32_t i = 0;

	while (i < echoes->count && !is_same_source(&echoes->echo[i], echo))
		i++;
	if (i == echoes->size)
		return;
	if (i == echoes->count)
		echoes->count++;
	echoes->echo[i] = *echo;
}

/* The most receives that the packets in flight may consume, if they are like @packet. */
static uint32_t receives_for(const struct packet *packet, bool memory)
{
	uint32_t bytes = (uint32_t)packet->payload_bytes;
	uint32_t packets = memory ? FLOW_LIMIT_MEMORY / flow_cost_memory(bytes) :
				    FLOW_LIMIT / flow_cost(bytes);

	if (packet->op->verb != VERB_SEND && !(packet->op->headers & HDR_IMM))
		return 0;
	return packet->op->part == PART_ONLY ? packets : packets / 2;
}

void echo_note(struct qp_call *call, const struct packet *packet, const struct rx_info *info)
{
	static const uint8_t unknown[16];
	struct qp *qp = call->qp;
	struct echoes *echoes = qp->responder.echoes;
	bool group = packet->dest_qpn == QPN_MULTICAST;
	uint32_t receives = receives_for(packet, info->memory);
	struct echo echo = { .psn = packet->psn };

	lock_alias(&qp->lock);
	if (!packet->echo_request || (group && !memcmp(info->own, unknown, sizeof(unknown))))
		return;
	if (qp_is(qp, QP_DATAGRAM)) {
		echo.qpn = packet->deth.source_qpn;
		route_reverse(&info->route, &echo.route);
		if (group)
			memcpy(echo.route.source, info->own, sizeof(echo.route.source));
	} else {
		echo.qpn = qp->attr.dest_qp_num;
		echo.route = qp->route;
	}
	if (group)
		echo.group = path_group(info->route.destination);
	echo_owe(echoes, &echo);
	if (receives > echoes->receives_wanted)
		echoes->receives_wanted = receives;
}

/* ---- holding back ---- */

/* Look again ever more rarely. */
static void echo_hold(struct qp *qp, uint64_t now_ns) REQUIRES(qp->lock)
{
	struct echoes *echoes = qp->responder.echoes;
	uint64_t waited_ns;

	if (!echoes->held)
		echoes->held_ns = now_ns;
	echoes->held = true;
	echoes->look = false;
	waited_ns = now_ns - echoes->held_ns;
	if (waited_ns < ECHO_HOLD_FIRST_NS)
		waited_ns = ECHO_HOLD_FIRST_NS;
	echoes->check_ns = now_ns + waited_ns;
	if (echoes->check_ns > echoes->held_ns + ECHO_HOLD_MAX_NS)
		echoes->check_ns = echoes->held_ns + ECHO_HOLD_MAX_NS;
	atomic_store_explicit(&qp->echo_held, echoes->receives_wanted, memory_order_relaxed);
}

bool echo_ready(const struct qp *qp)
{
	const struct echoes *echoes = qp->responder.echoes;

	return echoes && echoes->count && (!echoes->held || echoes->look);
}

void echo_look_again(struct qp *qp)
{
	struct echoes *echoes = qp->responder.echoes;

	if (echoes && echoes->held)
		echoes->look = true;
}

uint64_t echo_deadline(const struct qp *qp)
{
	const struct echoes *echoes = qp->responder.echoes;

	return echoes && echoes->held && !echoes->look ? echoes->check_ns : TIME_NEVER;
}

static void echo_emit(struct transmit *transmit, const struct echo *echo)
	REQUIRES(transmit->call->qp->lock)
{
	struct qp *qp = transmit->call->qp;
	struct packet packet;

	lock_alias(&qp->lock);
	packet_begin(qp, &packet, OPCODE_CNP, 0);
	packet.dest_qpn = echo->qpn;
	packet.echo.present = true;
	packet.echo.psn = echo->psn;
	packet.echo.qpn = qp->number;
	packet.echo.group = echo->group;
	transmit_packet(transmit, &packet, &echo->route);
}

void echo_transmit(struct transmit *transmit)
{
	struct qp *qp = transmit->call->qp;
	struct echoes *echoes = qp->responder.echoes;
	const struct recv_queue *queue = qp->srq ? &qp->srq->queue : &qp->rq;
	uint64_t now_ns = transmit->call->now_ns;

	lock_alias(&qp->lock);
	if (!echoes->count)
		return;
	if (recv_queue_count(queue) < echoes->receives_wanted && !cq_is_empty(qp->recv_cq) &&
	    (!echoes->held || now_ns - echoes->held_ns < ECHO_HOLD_MAX_NS)) {
		echo_hold(qp, now_ns);
		return;
	}
	while (echoes->count && transmit_has_room(transmit))
		echo_emit(transmit, &echoes->echo[--echoes->count]);
	if (!echoes->count)
		echo_reset(qp);
}

/* ---- receiving them ---- */

/*
 * The source of the echo selects the path: no other peer can release what is in flight. The members
 * of a group are not known.
 */
static struct path *echo_path_of(struct qp *qp, const struct packet *packet,
				 const struct rx_info *info)
{
	struct path_key key = { .slot = qpn_slot(packet->echo.qpn) };

	if (!qp->transport->paths)
		return NULL;
	memcpy(key.destination, info->route.source, sizeof(key.destination));
	if (packet->echo.group)
		key = path_key_of_group(packet->echo.group);
	return path_get_known(qp->transport->paths, &key);
}

enum drop echo_receive(struct qp_call *call, const struct packet *packet, const struct rx_info *info)
{
	struct qp *qp = call->qp;
	struct path *path = echo_path_of(qp, packet, info);
	enum drop why = DROP_NONE;
	bool memory;

	lock_alias(&qp->lock);
	/*
	 * Our packets go the way of the echo, but for those to a group, and of a UC QP that stays with UDP
	 * while its peer does not (device/qp_modify.c).
	 */
	memory = info->memory && !packet->echo.group &&
		 (qp_is(qp, QP_DATAGRAM) || qp->route.loopback || qp->route.link == ROUTE_IB);
	if (path && flow_echoed(path, qp->transport->run_queue, qp->number, packet->echo.psn, memory,
				call->now_ns))
		count(call, COUNTER_RX_ECHO);
	else
		why = DROP_RESPONSE;
	if (path)
		path_put(qp->transport->paths, path);
	return why;
}
