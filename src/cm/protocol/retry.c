/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Time. What waits for an answer is sent again after 268 ms, then after twice as long and so on, up
 * to the response timeout of the exchange (IBTA 12.9.8: the peer has until then to answer; but a lost
 * packet should not cost its seconds). It is given up when that timeout has passed
 * max_retries + 1 times, as Linux counts; an MRA puts this off, within a limit. Intervals differ a
 * little by chance, so that a thousand connections do not come back together.
 */
#include "cm/protocol/internal.h"

/*
 * A REQ with a forged address has its answers sent to a host that did not ask. Until the peer shows that it got
 * one, a REQ is worth three messages: REP, one repetition, and the REJ at the end. A small allowance for all
 * connections together lets them come about where much gets lost.
 */
#define UNASKED_MAX	1u
#define SPARE_MAX	64u		/* at once; one more in each SPARE_NS */
#define SPARE_NS	250000000u

bool cm_state_retries(enum cm_state state)
{
	return state == CM_STATE_REQ_SENT || state == CM_STATE_REP_SENT ||
	       state == CM_STATE_DREQ_SENT || state == CM_STATE_SIDR_SENT;
}

static void set_timer(struct cm_connection *connection, uint64_t deadline_ns)
{
	timer_set(&connection->protocol->timers, &connection->timer, deadline_ns);
}

static void arm_next(struct cm_connection *connection, uint64_t now_ns)
{
	struct cm_protocol *protocol = connection->protocol;
	uint64_t deadline_ns = now_ns + connection->interval_ns +
			       protocol->ops->random(protocol->host) %
				       (connection->interval_ns / 4 + 1);

	set_timer(connection, deadline_ns < connection->give_up_ns ? deadline_ns :
								     connection->give_up_ns);
}

void cm_retry_arm(struct cm_connection *connection, uint64_t now_ns)
{
	uint64_t timeout_ns = CM_TIME_NS(connection->response_timeout);

	if (cm_state_retries((enum cm_state)connection->state)) {
		connection->give_up_ns = now_ns + timeout_ns * (connection->max_retries + 1u);
		connection->limit_ns = now_ns + CM_TIME_NS(CM_PROLONG_MAX);
		if (connection->limit_ns < connection->give_up_ns)
			connection->limit_ns = connection->give_up_ns;
		connection->interval_ns = CM_TIME_NS(CM_FIRST_RETRY);
		if (connection->interval_ns > timeout_ns)
			connection->interval_ns = timeout_ns;
		arm_next(connection, now_ns);
	} else if (connection->state == CM_STATE_ESTABLISHED && connection->dying) {
		set_timer(connection, now_ns);
	} else if (connection->state == CM_STATE_TIMEWAIT) {
		set_timer(connection, now_ns + CM_TIME_NS(connection->timewait));
	} else if (connection->state == CM_STATE_ANSWERED) {
		/* The peer asks again at such intervals; some of that may be lost too. */
		set_timer(connection, now_ns + 8 * CM_TIME_NS(connection->linger));
	} else {
		set_timer(connection, TIME_NEVER);
	}
}

void cm_retry_prolong(struct cm_connection *connection, uint8_t service_timeout, uint64_t now_ns)
{
	uint64_t give_up_ns = now_ns + CM_TIME_NS(connection->response_timeout) +
			      CM_TIME_NS(service_timeout < CM_SERVICE_MAX ? service_timeout :
									    CM_SERVICE_MAX);

	if (give_up_ns > connection->limit_ns)
		give_up_ns = connection->limit_ns;
	if (give_up_ns > connection->give_up_ns)
		connection->give_up_ns = give_up_ns;
	/* The answer may be lost all the same: ask now and then. */
	connection->interval_ns = CM_TIME_NS(connection->response_timeout);
	arm_next(connection, now_ns);
}

/* There is no time for long intervals; they grow from here. */
void cm_retry_hurry(struct cm_connection *connection, uint64_t now_ns)
{
	connection->interval_ns = CM_TIME_NS(CM_HURRIED_RETRY);
	arm_next(connection, now_ns);
}

/* Without repeating the REP: nobody is there to answer. */
void cm_retry_listen_on(struct cm_connection *connection, uint64_t now_ns)
{
	connection->give_up_ns = now_ns + CM_TIME_NS(CM_LAST_WORDS);
	set_timer(connection, connection->give_up_ns);
}

/* Where nothing can be lost that matters, the timer is for something else. */
void cm_retry_soon(struct cm_connection *connection, uint64_t now_ns)
{
	if (cm_state_retries((enum cm_state)connection->state) ||
	    connection->state == CM_STATE_ESTABLISHED)
		set_timer(connection, now_ns);
	else
		connection->lost = 0;
}

void cm_retry_patience(struct cm_connection *connection, uint8_t patience, uint64_t now_ns)
{
	connection->patient_ns = patience ? now_ns + CM_TIME_NS(patience) : 0;
}

bool cm_retry_refused(struct cm_connection *connection, uint64_t now_ns)
{
	if (now_ns >= connection->patient_ns)
		return false;
	/* What is sent then may be lost: it begins anew with the first interval. */
	connection->interval_ns = CM_TIME_NS(CM_FIRST_RETRY) / 2;
	set_timer(connection, now_ns + CM_TIME_NS(CM_REFUSED_RETRY));
	return true;
}

static bool take_spare(struct cm_protocol *protocol, uint64_t now_ns)
{
	uint64_t more = (now_ns - protocol->spare_ns) / SPARE_NS;

	if (more >= SPARE_MAX - protocol->spare) {
		protocol->spare = SPARE_MAX;
		protocol->spare_ns = now_ns;
	} else {
		protocol->spare += (unsigned)more;
		protocol->spare_ns += more * SPARE_NS;
	}
	if (!protocol->spare)
		return false;
	protocol->spare--;
	return true;
}

static bool may_send_again(struct cm_connection *connection, uint64_t now_ns)
{
	if (connection->active || connection->heard)
		return true;
	if (connection->unasked < UNASKED_MAX) {
		connection->unasked++;
		return true;
	}
	return take_spare(connection->protocol, now_ns);
}

static void retry_send_again(struct cm_connection *connection, uint64_t now_ns)
{
	uint64_t timeout_ns = CM_TIME_NS(connection->response_timeout);

	connection->interval_ns *= 2;
	if (connection->interval_ns > timeout_ns)
		connection->interval_ns = timeout_ns;
	arm_next(connection, now_ns);
	if (!may_send_again(connection, now_ns)) {
		cm_count(connection->protocol, COUNTER_CM_UNASKED);
		return;
	}
	cm_count(connection->protocol, COUNTER_CM_RETRY);
	cm_send_again(connection);
}

static enum cm_message_kind retry_is_outstanding(const struct cm_connection *connection)
{
	switch (connection->state) {
	case CM_STATE_REQ_SENT:
		return CM_MESSAGE_REQ;
	case CM_STATE_REP_SENT:
		return CM_MESSAGE_REP;
	case CM_STATE_DREQ_SENT:
		return CM_MESSAGE_DREQ;
	case CM_STATE_SIDR_SENT:
		return CM_MESSAGE_SIDR_REQ;
	default:
		return CM_MESSAGE_RTU;
	}
}

void cm_retry_expired(struct cm_connection *connection, uint64_t now_ns)
{
	struct cm_details details = {.now_ns = now_ns, .retried = retry_is_outstanding(connection)};

	if (connection->lost) {
		details.lost = (enum cm_message_kind)(connection->lost - 1);
		/* Not what it waits for: the timer was taken for nothing. */
		if (cm_step(connection, CM_INPUT_LOST, &details) &&
		    cm_state_retries((enum cm_state)connection->state))
			arm_next(connection, now_ns);
	} else if (cm_state_retries((enum cm_state)connection->state) &&
		   now_ns < connection->give_up_ns) {
		retry_send_again(connection, now_ns);
	} else if (connection->dying && connection->state == CM_STATE_ESTABLISHED) {
		cm_step(connection, CM_INPUT_DIED, &details);	/* its last word was the RTU */
	} else {
		cm_step(connection, CM_INPUT_EXPIRED, &details);
	}
}
