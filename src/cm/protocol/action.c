/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The actions of state.def. An action depends on the current state, not on the next one. Nonzero:
 * nothing was sent and nothing changes. For messages the value does not matter: a counter was
 * incremented.
 */
#include <endian.h>
#include <string.h>

#include "base/bytes.h"
#include "cm/protocol/internal.h"

int cm_do_drop(struct cm_connection *connection, struct cm_details *details)
{
	cm_drop(connection->protocol, details, DROP_CM_UNEXPECTED);
	return EBADMSG;
}

int cm_do_refuse(struct cm_connection *connection, struct cm_details *details)
{
	return EINVAL;
}

int cm_do_refuse_again(struct cm_connection *connection, struct cm_details *details)
{
	return EISCONN;
}

int cm_do_nothing(struct cm_connection *connection, struct cm_details *details)
{
	return 0;
}

/* ---- messages ---- */

int cm_do_ask_for_time(struct cm_connection *connection, struct cm_details *details)
{
	cm_drop(connection->protocol, details, DROP_CM_DUPLICATE);
	cm_send_mra(connection, CM_SERVICE_TIMEOUT);
	return 0;
}

int cm_do_repeat(struct cm_connection *connection, struct cm_details *details)
{
	/* Protocol violation: a REP sent to the passive side. */
	if (details->message->kind == CM_MESSAGE_REP && !connection->active)
		return cm_do_drop(connection, details);
	cm_drop(connection->protocol, details, DROP_CM_DUPLICATE);
	if (connection->state == CM_STATE_ANSWERED)
		cm_retry_arm(connection, details->now_ns);
	connection->unasked = 0;
	cm_send_again(connection);
	return 0;
}

int cm_do_reject_stale(struct cm_connection *connection, struct cm_details *details)
{
	cm_drop(connection->protocol, details, DROP_CM_DUPLICATE);
	cm_reply_reject(connection->protocol, details, CM_ABOUT_REQ, CM_REJECT_STALE_CONNECTION,
			NULL, 0);
	return 0;
}

int cm_do_prolong(struct cm_connection *connection, struct cm_details *details)
{
	const struct cm_mra *mra = &details->message->mra;

	if (mra->message != (connection->active ? CM_ABOUT_REQ : CM_ABOUT_REP))
		return cm_do_drop(connection, details);
	cm_retry_prolong(connection, mra->service_timeout, details->now_ns);
	return 0;
}

/*
 * A REJ of a REQ or REP that was answered long ago (a copy of it got somewhere else) means nothing
 * any more; one of "other" means the connection.
 */
int cm_do_take_reject(struct cm_connection *connection, struct cm_details *details)
{
	uint8_t about = details->message->rej.message;
	bool deaf = details->message->rej.reason == CM_REJECT_INVALID_SERVICE_ID;

	if (about == CM_ABOUT_REQ && connection->state != CM_STATE_REQ_SENT)
		return cm_do_drop(connection, details);
	if (about == CM_ABOUT_REP && connection->state != CM_STATE_REP_SENT)
		return cm_do_drop(connection, details);
	if (connection->state == CM_STATE_REQ_SENT && deaf &&
	    cm_retry_refused(connection, details->now_ns))
		return EBADMSG;
	return 0;
}

int cm_do_take_sidr_rep(struct cm_connection *connection, struct cm_details *details)
{
	if (details->message->sidr_rep.status == CM_SIDR_UNSUPPORTED &&
	    cm_retry_refused(connection, details->now_ns))
		return EBADMSG;
	return 0;
}

int cm_do_take_rep(struct cm_connection *connection, struct cm_details *details)
{
	const struct cm_rep *rep = &details->message->rep;
	uint32_t qpn = cm_rep_qpn(rep, (enum cm_transport)connection->transport);
	struct cm_connection *other = NULL;
	struct cm_details stale = { .now_ns = details->now_ns };

	if (qpn)
		other = cm_find_remote_qpn(connection->protocol, details->from, qpn, connection);
	if (other) {
		cm_count(connection->protocol, COUNTER_CM_STALE);
		cm_reply_reject(connection->protocol, details, CM_ABOUT_REP,
				CM_REJECT_STALE_CONNECTION, NULL, 0);
		cm_step(other, CM_INPUT_STALE, &stale);
		return EBADMSG;
	}
	connection->remote_id = rep->local_comm_id;
	connection->peer_known = true;
	connection->remote_qpn = qpn;
	connection->remote_psn = rep->starting_psn;
	cm_index_remote_qpn(connection);
	return 0;
}

int cm_do_answer_dreq(struct cm_connection *connection, struct cm_details *details)
{
	if (details->message->dreq.remote_qpn != connection->local_qpn)
		return cm_do_drop(connection, details);
	if (connection->state == CM_STATE_TIMEWAIT || connection->state == CM_STATE_ANSWERED)
		cm_drop(connection->protocol, details, DROP_CM_DUPLICATE);
	cm_reply_drep(connection->protocol, details);
	return 0;
}

int cm_do_refuse_path(struct cm_connection *connection, struct cm_details *details)
{
	cm_reply_apr(connection->protocol, details, CM_APR_UNSUPPORTED);
	return 0;
}

/* ---- calls ---- */

int cm_do_send_rep(struct cm_connection *connection, struct cm_details *details)
{
	const struct cm_accept *accept = details->accept;
	struct cm_message message;
	struct cm_rep *rep = &message.rep;
	int err;

	cm_begin(connection, CM_MESSAGE_REP, &message);
	message.attribute_modifier = accept->ece_options;
	rep->local_qkey = accept->local_qkey;
	rep->starting_psn = accept->starting_psn;
	rep->responder_resources = accept->responder_resources;
	rep->target_ack_delay = accept->target_ack_delay;
	rep->failover_accepted = accept->failover_accepted;
	rep->rnr_retry_count = accept->rnr_retry_count;
	rep->local_ca_guid = be64toh(accept->local_ca_guid);
	cm_rep_set_vendor_id(rep, accept->ece_vendor_id);
	if (connection->transport == CM_TRANSPORT_XRC) {	/* it only responds, and receives by SRQs */
		rep->local_eecn = accept->local_qpn;
		rep->srq = 1;
	} else {
		rep->local_qpn = accept->local_qpn;
		rep->initiator_depth = accept->initiator_depth;
		rep->flow_control = accept->flow_control;
		rep->srq = accept->srq;
	}
	err = cm_put_private_data(&message, accept->private_data, accept->private_data_bytes);
	if (!err)
		err = cm_keep(connection, &message);
	if (err)
		return err;
	connection->local_qpn = accept->local_qpn & 0xffffff;
	connection->local_ca_guid = rep->local_ca_guid;
	cm_index_qpn(connection);
	cm_send(connection, &message);
	return 0;
}

/* Can be made again from the connection: memory is needed for private data alone. */
static int send_plain_with(struct cm_connection *connection, const struct cm_details *details,
			   struct cm_message *message)
{
	int err = cm_put_private_data(message, details->private_data, details->bytes);

	if (!err && details->bytes)
		err = cm_keep(connection, message);
	if (!err)
		cm_send(connection, message);
	return err;
}

int cm_do_send_rtu(struct cm_connection *connection, struct cm_details *details)
{
	struct cm_message message;

	cm_begin(connection, CM_MESSAGE_RTU, &message);
	return send_plain_with(connection, details, &message);
}

int cm_do_send_mra(struct cm_connection *connection, struct cm_details *details)
{
	struct cm_message message;
	int err;

	if (details->service_timeout > 31)
		return EINVAL;
	cm_begin(connection, CM_MESSAGE_MRA, &message);
	err = cm_put_private_data(&message, details->private_data, details->bytes);
	if (err)
		return err;
	message.mra.message = connection->state == CM_STATE_REQ_RCVD ? CM_ABOUT_REQ : CM_ABOUT_REP;
	message.mra.service_timeout = details->service_timeout;
	connection->waits = true;
	cm_send(connection, &message);
	return 0;
}

/* The peer learns our ID with MRA or REP; before that a REJ has none to name (12.6.7). */
static void begin_reject(const struct cm_connection *connection, struct cm_message *message)
{
	cm_begin(connection, CM_MESSAGE_REJ, message);
	message->rej.message = CM_ABOUT_OTHER;
	if (connection->state == CM_STATE_REQ_RCVD) {
		message->rej.message = CM_ABOUT_REQ;
		if (!connection->waits)
			message->rej.local_comm_id = 0;
	} else if (connection->state == CM_STATE_REP_RCVD) {
		message->rej.message = CM_ABOUT_REP;
	}
}

int cm_do_send_reject(struct cm_connection *connection, struct cm_details *details)
{
	struct cm_message message;
	int err;

	begin_reject(connection, &message);
	message.rej.reason = details->reason;
	if (details->info_bytes > CM_INFO_BYTES || (details->info_bytes && !details->info))
		return EINVAL;
	message.rej.info_bytes = details->info_bytes;
	if (details->info_bytes)
		memcpy(message.rej.info, details->info, details->info_bytes);
	err = cm_put_private_data(&message, details->private_data, details->bytes);
	if (err)
		return err;
	/* Without memory a repeated REQ will be a new one. */
	if (connection->state == CM_STATE_REQ_RCVD || connection->state == CM_STATE_REP_SENT)
		(void)cm_keep(connection, &message);
	cm_send(connection, &message);
	return 0;
}

/* 12.6.7.2, reason 4: the additional information is the GUID of our channel adapter. */
int cm_do_send_timeout(struct cm_connection *connection, struct cm_details *details)
{
	struct cm_message message;

	if (connection->datagram)
		return 0;
	begin_reject(connection, &message);
	message.rej.reason = CM_REJECT_TIMEOUT;
	message.rej.info_bytes = 8;
	put_be64(message.rej.info, connection->local_ca_guid);
	cm_send(connection, &message);
	return 0;
}

int cm_do_send_dreq(struct cm_connection *connection, struct cm_details *details)
{
	struct cm_message message;

	cm_begin(connection, CM_MESSAGE_DREQ, &message);
	message.dreq.remote_qpn = connection->remote_qpn;
	return send_plain_with(connection, details, &message);
}

int cm_do_send_sidr_rep(struct cm_connection *connection, struct cm_details *details)
{
	struct cm_message message;
	int err;

	cm_begin(connection, CM_MESSAGE_SIDR_REP, &message);
	message.sidr_rep.service_id = connection->service_id;
	message.sidr_rep.status = details->status;
	message.sidr_rep.qpn = details->qpn;
	message.sidr_rep.qkey = details->qkey;
	err = cm_put_private_data(&message, details->private_data, details->bytes);
	if (err)
		return err;
	(void)cm_keep(connection, &message);
	cm_send(connection, &message);
	return 0;
}

/* ---- what happens by itself ---- */

/* No answer is expected, but the peer may be alive. */
int cm_do_send_final_dreq(struct cm_connection *connection, struct cm_details *details)
{
	cm_send_plain(connection, CM_MESSAGE_DREQ);
	return 0;
}

/* What it said before it ended may come behind the news: by another socket, or through another process. */
int cm_do_listen_on(struct cm_connection *connection, struct cm_details *details)
{
	if (!connection->dying)
		cm_retry_listen_on(connection, details->now_ns);
	connection->dying = true;
	return 0;
}

int cm_do_check_lost(struct cm_connection *connection, struct cm_details *details)
{
	static const uint8_t outstanding[CM_STATES] = {
		[CM_STATE_REQ_SENT] = CM_MESSAGE_REQ,
		[CM_STATE_REP_SENT] = CM_MESSAGE_REP,
		[CM_STATE_ESTABLISHED] = CM_MESSAGE_RTU,
		[CM_STATE_DREQ_SENT] = CM_MESSAGE_DREQ,
		[CM_STATE_SIDR_SENT] = CM_MESSAGE_SIDR_REQ,
	};

	return details->lost == outstanding[connection->state] ? 0 : ENOENT;
}
