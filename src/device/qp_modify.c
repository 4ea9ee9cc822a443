/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_modify_qp(3) and ibv_query_qp(3). Resolves the path to the peer, and waits for operations
 * that the change ends. The rules are in object/.
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "device/internal.h"
#include "device/limits.h"
#include "engine/wake.h"
#include "engine/way.h"
#include "engine/qp_table.h"
#include "platform/clock.h"
#include "platform/memory.h"
#include "platform/wait.h"

static int check_mtu(const struct hca_context *context, const struct qp *qp,
		     const struct ibv_qp_attr *attr, uint32_t number)
{
	uint32_t interface_mtu;
	const struct port *port = context_port(context, number);
	enum ibv_mtu active;

	port = port ? port : context->port;
	active = net_active_mtu(&context->hca->net, port, &interface_mtu);

	if (attr->path_mtu <= active)
		return 0;
	if (port->ib_port)
		explain_refused_of("ibv_modify_qp", EINVAL, OF(QP, qp->number),
			"ibv_modify_qp: qp 0x%06x: path_mtu %u is larger than the active MTU %u of %s port %u, "
			"which its link and the SM chose: use IBV_MTU_%u or less (ibv_query_port: active_mtu)",
			qp->number, 128u << attr->path_mtu, 128u << active, port->name, port->number,
			128u << active);
	else
		explain_refused_of("ibv_modify_qp", EINVAL, OF(QP, qp->number),
			"ibv_modify_qp: qp 0x%06x: path_mtu %u is larger than the active MTU %u of %s "
		"(interface MTU %u): use IBV_MTU_%u or less", qp->number, 128u << attr->path_mtu,
		128u << active, port->name, interface_mtu, 128u << active);
	return EINVAL;
}

struct resolved {
	struct route route;
	bool by_udp, by_port;		/* of struct qp */
	uint32_t mtu;			/* bytes, of the port that a datagram's QP moves to; 0: as it is */
	struct path *path;
};

/* A channel that was opened since was told how many QPs stay with UDP, and this is none of them. */
static void qp_modify_av(struct hca *hca, struct qp *qp, enum ibv_qp_state from, struct resolved *resolved)
	REQUIRES(qp->lock)
{
	bool uc = qp_is(qp, QP_CONNECTED) && !qp_is(qp, QP_RELIABLE);

	if (from == IBV_QPS_INIT && resolved->by_udp &&
	    local_channel(&hca->engine.local, qpn_slot(qp->attr.dest_qp_num)) != LOCAL_NO_CHANNEL) {
		resolved->by_udp = false;
		resolved->route.loopback = true;
	}
	if (uc && from != IBV_QPS_INIT) {	/* as qp_modify_resolve() decided then */
		resolved->route.loopback &= qp->route.loopback;
		resolved->by_udp |= qp->by_udp;
	}
	qp->route = resolved->route;
	qp->by_udp = resolved->by_udp;
	qp->by_port = resolved->by_port;
	transport_pace_route(qp);
}

/*
 * What needs the device and may sleep or allocate: done before the QP's lock is taken. @peer: the QP
 * that it will be connected to; @port: the number of its own.
 */
static int qp_modify_resolve(struct hca_context *context, struct qp *qp, struct ibv_qp_attr *attr,
			     int mask, uint32_t peer, uint32_t port, struct resolved *resolved)
{
	struct engine *engine = &context->hca->engine;
	struct path_key key = { .slot = qpn_slot(peer) };
	uint32_t hash;
	bool on_host;
	int err = 0;

	if (mask & IBV_QP_PATH_MTU)
		err = check_mtu(context, qp, attr, port);
	if ((mask & IBV_QP_PORT) && qp_is(qp, QP_DATAGRAM) && context_port(context, port)->ib_port)
		resolved->mtu = 128u << net_active_mtu(&context->hca->net, context_port(context, port), NULL);
	if (!err && (mask & IBV_QP_RATE_LIMIT))
		err = ethernet_check_rate(attr->rate_limit, "ibv_modify_qp");
	if (err || !(mask & IBV_QP_AV))
		return err;
	err = context_resolve(context, &attr->ah_attr, "ibv_modify_qp", &resolved->route);
	if (err || qp_is(qp, QP_DATAGRAM))
		return err;
	on_host = resolved->route.loopback;
	if (on_host) {
		err = engine_peer_has_port(engine, key.slot, "ibv_modify_qp", &resolved->by_port);
		if (err)
			return err;
		local_connect(&engine->local, key.slot);
		/*
		 * UC repairs nothing: where its packets went over from UDP to memory in the middle of a
		 * stream, those in memory could overtake the others. So a UC QP whose peer cannot be met
		 * now stays with UDP.
		 */
		resolved->by_udp = !qp_is(qp, QP_RELIABLE) && !engine_has_slot(engine, key.slot) &&
				   local_channel(&engine->local, key.slot) == LOCAL_NO_CHANNEL;
		resolved->route.loopback = !resolved->by_udp;
	} else if (resolved->route.link == ROUTE_IB && subnet_meets(context->hca->subnet, key.slot)) {
		local_connect(&engine->local, key.slot);
	}
	if (!engine_has_slot(engine, key.slot) && local_channel(&engine->local, key.slot) == LOCAL_NO_CHANNEL)
		err = engine_open_sender(engine, &resolved->route, peer, "ibv_modify_qp");
	if (err)
		return err;
	hash = qp->number * 0x9e3779b1u ^ peer * 0x85ebca6bu;	/* of the source port */
	route_set_udp(&resolved->route, on_host ? (uint16_t)qpn_slot(qp->number) : 0,
		      (uint16_t)(0xc000 | (hash >> 16 & 0x3fff)));
	memcpy(key.destination, resolved->route.destination, sizeof(key.destination));
	resolved->path = path_get(&context->hca->paths, &key);
	return resolved->path ? 0 : ENOMEM;
}

static struct path *qp_modify_take_path(struct qp *qp, struct path *path) REQUIRES(qp->lock)
{
	struct path *old = qp->path;

	qp->path = path;
	return old;
}

static void qp_modify_commit(const struct hca_context *context, struct qp *qp, struct ibv_qp_attr *attr,
			     int mask, struct resolved *resolved, struct effects *effects) REQUIRES(qp->lock)
{
	struct hca *hca = context->hca;
	const struct port *port = context_port(context, mask & IBV_QP_PORT ? attr->port_num : qp->attr.port_num);
	enum ibv_qp_state from = qp->state;

	qp_modify_apply(qp, attr, mask);
	/* The peer knows the access flags from the pairing. It was made in the old partition. */
	if (mask & (IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX))
		qp_end_pairing(qp);
	if (mask & (IBV_QP_PKEY_INDEX | IBV_QP_PORT)) {
		qp->pkey = context_pkey(context, qp->attr.port_num, qp->attr.pkey_index);
		qp->ib_port = port ? port->ib_port : 0;
	}
	if (mask & IBV_QP_AV)
		qp_modify_av(hca, qp, from, resolved);
	if (from == IBV_QPS_INIT || qp->state == IBV_QPS_RESET)
		way_connected(&hca->engine, qp);
	else if (mask & IBV_QP_AV)
		way_reconnected(&hca->engine, qp);
	if (mask & IBV_QP_PATH_MTU)
		qp->mtu = 128u << attr->path_mtu;
	else if (resolved->mtu)
		qp->mtu = resolved->mtu;
	if (mask & IBV_QP_RATE_LIMIT)
		transport_pace(qp, attr->rate_limit, 0);
	/* In SQD the window of the old path may be held or waited for still: it is kept then. */
	if (resolved->path && !qp->requester.flight_bytes && !qp->requester.blocked)
		resolved->path = qp_modify_take_path(qp, resolved->path);
	transport_modified(qp, from, mask, clock_now_ns(), effects);
	if (qp->state == IBV_QPS_RESET && qp->path)
		resolved->path = qp_modify_take_path(qp, NULL);
	if (qp->requester.local_messages && local_await_answers(&hca->engine.local, qp))
		worker_wake_after_unlock(&hca->engine, 0);
	timers_arm(&hca->engine, qp);
}

static bool ends_accesses(const struct ibv_qp_attr *attr, int mask)
{
	return (mask & IBV_QP_ACCESS_FLAGS) ||
	       ((mask & IBV_QP_STATE) &&
		(attr->qp_state == IBV_QPS_RESET || attr->qp_state == IBV_QPS_ERR));
}

int hca_modify_qp(struct qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct hca_context *context = qp->owner;
	struct hca *hca = context->hca;
	struct resolved resolved = { .path = NULL };
	struct transport_room room = { .resource = NULL };
	struct effects effects;
	const struct port *to;
	uint32_t peer, port;
	int err;

	if (context_is_dead(context, "ibv_modify_qp"))
		return EIO;
	mask = qp_modify_mask(qp->type, mask);
	effects_init(&effects);
	lock_acquire(&qp->lock);
	err = qp_modify_check(qp, attr, mask);
	peer = mask & IBV_QP_DEST_QPN ? attr->dest_qp_num : qp->attr.dest_qp_num;
	port = mask & IBV_QP_PORT ? attr->port_num : qp->attr.port_num;
	lock_release(&qp->lock);
	if (!err && (mask & IBV_QP_MAX_DEST_RD_ATOMIC))
		err = transport_reserve(&room, attr->max_dest_rd_atomic);
	/* The tables of a device's ports may be of different lengths; qp_modify_check() knows the longest. */
	to = context_port(context, port);
	if (!err && mask & IBV_QP_PKEY_INDEX && to && attr->pkey_index >= to->pkeys) {
		explain_refused_of("ibv_modify_qp", EINVAL, OF(QP, qp->number),
				   "ibv_modify_qp: qp 0x%06x: pkey_index %u: the table of port %u has %u entries",
				   qp->number, attr->pkey_index, port, to->pkeys);
		err = EINVAL;
	}
	if (!err)
		err = qp_modify_resolve(context, qp, attr, mask, peer, port, &resolved);
	if (err) {
		transport_unreserve(&room);
		return err;
	}
	/*
	 * What has arrived counts. A peer that has taken the last message may be gone already, and the application
	 * moves the QP to ERR because of that: the message was not flushed.
	 */
	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_ERR)
		engine_catch_up(&hca->engine, true);
	else if (ends_accesses(attr, mask))
		engine_catch_up(&hca->engine, false);
	if ((mask & IBV_QP_STATE) && (attr->qp_state == IBV_QPS_RESET || attr->qp_state == IBV_QPS_ERR))
		qp_send_final_ack(hca, qp);
	if ((mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RTR)
		fault_handler_install();	/* the application may have installed its own since */
	lock_acquire(&qp->lock);
	err = qp_modify_check(qp, attr, mask);	/* it may have failed meanwhile */
	if (!err && (mask & IBV_QP_MAX_DEST_RD_ATOMIC))
		transport_install(qp, &room);
	if (!err)
		qp_modify_commit(context, qp, attr, mask, &resolved, &effects);
	lock_release(&qp->lock);
	transport_unreserve(&room);
	effects_apply(&effects);
	engine_after_unlock(&hca->engine);
	if (!err && ends_accesses(attr, mask))
		local_drain_qp(&hca->engine.local, qp->number);
	/* A large copy that was under way when the QP was reset must not pass for what is posted next. */
	if (!err && (mask & IBV_QP_STATE) && attr->qp_state == IBV_QPS_RESET)
		qp_wait_for_tx(qp);
	if (resolved.path)
		path_put(&hca->paths, resolved.path);
	if (atomic_load(&hca->engine.run_queue.count))
		tx_run_queued(&hca->engine);
	return err;
}

int hca_query_qp(struct qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	lock_acquire(&qp->lock);
	qp_query(qp, attr, mask, init);
	lock_release(&qp->lock);
	return 0;
}

int hca_set_ece(struct qp *qp, uint32_t vendor, uint32_t *options)
{
	enum ibv_qp_state state;

	lock_acquire(&qp->lock);
	state = qp->state;
	lock_release(&qp->lock);
	if (vendor != VERBATIM_VENDOR) {
		explain_refused("ibv_set_ece", EINVAL,
				"ibv_set_ece: vendor_id 0x%x: the options of this device are "
				"those of vendor 0x%x", vendor,
			VERBATIM_VENDOR);
		return EINVAL;
	}
	if (state != IBV_QPS_RESET && state != IBV_QPS_INIT) {
		explain_refused_of("ibv_set_ece", EINVAL, OF(QP, qp->number),
				"ibv_set_ece: qp 0x%06x is in state %s: set options before it "
				"goes to RTR", qp->number,
			qp_state_name(state));
		return EINVAL;
	}
	*options = 0;
	return 0;
}

int hca_query_ece(struct qp *qp, uint32_t *vendor, uint32_t *options)
{
	*vendor = VERBATIM_VENDOR;
	*options = 0;
	return 0;
}
