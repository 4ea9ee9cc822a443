/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of state.def, and a step of it: the action, which sends messages and may refuse; then
 * the new state with its timer and its lookup keys; last the event.
 */
#include "cm/protocol/internal.h"

struct move {
	cm_action *action;
	enum cm_state next;
	enum cm_event_kind event;
};

static const struct move moves[CM_MOVES] = {
#define CM_STATE(id, name)
#define CM_MOVE(id, action, next, event) \
	[CM_MOVE_##id] = { cm_do_##action, CM_STATE_##next, CM_EVENT_##event },
#define CM_CELLS(...)
#include "cm/protocol/state.def"
#undef CM_STATE
#undef CM_MOVE
#undef CM_CELLS
};

#define CELL(move) CM_MOVE_##move

static const uint8_t cells[CM_INPUTS][CM_STATES] = {
#define CM_STATE(id, name)
#define CM_MOVE(id, action, next, event)
#define CM_CELLS(input, a, b, c, d, e, f, g, h, i, j, k)                                  \
	[CM_INPUT_##input] = { CELL(a), CELL(b), CELL(c), CELL(d), CELL(e), CELL(f), CELL(g), \
			       CELL(h), CELL(i), CELL(j), CELL(k) },
#include "cm/protocol/state.def"
#undef CM_STATE
#undef CM_CELLS
};

static const char *const state_names[CM_STATES] = {
#define CM_STATE(id, name) [CM_STATE_##id] = name,
#define CM_CELLS(...)
#include "cm/protocol/state.def"
#undef CM_STATE
#undef CM_CELLS
};

static const char *const input_names[CM_INPUTS] = {
#define CM_STATE(id, name)
#define CM_CELLS(input, ...) [CM_INPUT_##input] = #input,
#include "cm/protocol/state.def"
};

enum cm_move cm_cell(enum cm_state state, enum cm_input input)
{
	return cells[input][state];
}

enum cm_state cm_move_next(enum cm_move move)
{
	return moves[move].next;
}

enum cm_event_kind cm_move_event(enum cm_move move)
{
	return moves[move].event;
}

const char *cm_state_name(const struct cm_connection *connection)
{
	return state_names[connection->state];
}

const char *cm_input_name(enum cm_input input)
{
	return input_names[input];
}

/* Refused requests are remembered up to a limit, since peers cause them. */
static enum cm_state within_bounds(struct cm_connection *connection, enum cm_state state)
{
	struct cm_protocol *protocol = connection->protocol;

	if (connection->state == CM_STATE_ANSWERED)
		protocol->answered--;
	if (state == CM_STATE_ANSWERED && protocol->answered == CM_ANSWERED_MAX)
		state = CM_STATE_OVER;
	if (state == CM_STATE_ANSWERED)
		protocol->answered++;
	return state;
}

void cm_enter(struct cm_connection *connection, enum cm_state state, uint64_t now_ns)
{
	state = within_bounds(connection, state);
	connection->state = (uint8_t)state;
	if (connection->listener && state != CM_STATE_REQ_RCVD && state != CM_STATE_SIDR_RCVD)
		cm_listener_drops(connection);
	if (!connection->kept_now)
		cm_drop_kept(connection);
	connection->kept_now = false;
	/* In timewait the peer's QP may be connected anew; a repeated REQ is still known. */
	if (state == CM_STATE_TIMEWAIT || state == CM_STATE_ANSWERED)
		cm_hide_remote_qpn(connection);
	if (state == CM_STATE_ANSWERED)
		cm_hide_qpn(connection);
	if (state == CM_STATE_OVER)
		cm_hide(connection);
	cm_retry_arm(connection, now_ns);
	if (connection->lost)
		cm_retry_soon(connection, now_ns);
}

void cm_report(struct cm_connection *connection, void *owner, enum cm_event_kind kind,
	       struct cm_details *details)
{
	const struct cm_event event = {
		.kind = kind,
		.connection = connection,
		.owner = owner,
		.message = details->message,
		.from = details->from,
		.retried = (uint8_t)details->retried,
		.drop = &details->drop,
	};
	struct cm_protocol *protocol = connection->protocol;

	protocol->ops->event(protocol->host, &event);
}

int cm_step(struct cm_connection *connection, enum cm_input input, struct cm_details *details)
{
	const struct move *move = &moves[cm_cell((enum cm_state)connection->state, input)];
	int err;

	connection->lost = 0;
	err = move->action(connection, details);
	if (err)
		return err;
	if (move->next != CM_STATE_SAME)
		cm_enter(connection, move->next, details->now_ns);
	if (connection->abandoned) {
		if (connection->state == CM_STATE_OVER)
			cm_connection_free(connection);
	} else if (move->event != CM_EVENT_NONE) {
		cm_report(connection, connection->owner, move->event, details);
	}
	return 0;
}
