/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * static_rate of InfiniBand (IBTA 9.11): packets of each service leave as far apart as the rate of the
 * path says, in virtual time; others are not held.
 */
#include "transport/test_support.h"

#include "transport/pace.h"

#define PACKETS		10u		/* no other limit holds so few */
#define DATAGRAMS	8u
#define SLOW		IBV_RATE_2_5_GBPS

static void take_route(struct station *s, uint8_t static_rate) UNCHECKED_LOCKS
{
	s->qp.route.link = ROUTE_IB;
	s->qp.route.ib = (struct ib_way){ .port = IB_WAY_PORT(0, 1), .lid = 5, .static_rate = static_rate };
	transport_pace_route(&s->qp);
}

static struct ah *ah_at(uint8_t static_rate)
{
	struct ah *ah = calloc(1, sizeof(*ah));

	assert_non_null(ah);
	ah->references = 1;
	ah->route.link = ROUTE_IB;
	ah->route.ib.static_rate = static_rate;
	return ah;
}

static void post_to(struct station *s, struct ah *ah, size_t length)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	request_init(&wr, &sge, s, IBV_WR_SEND, 1, length);
	wr.wr.ud.ah = &ah->ibv;
	wr.wr.ud.remote_qpn = PEER_QPN;
	post_wr(s, &wr);
}

/* Until @packets have left, or for @patience_ns. The time that it took. */
static uint64_t send_all(struct station *s, unsigned packets, uint64_t patience_ns, unsigned *sent) UNCHECKED_LOCKS
{
	uint64_t begin_ns = s->now_ns;

	for (*sent = 0;;) {
		*sent += transmit(s);
		if (*sent >= packets || deadline_of(s) > begin_ns + patience_ns)
			return s->now_ns - begin_ns;
		assert_true(deadline_of(s) > s->now_ns);
		s->now_ns = deadline_of(s);
		transport_timeout(&s->qp, s->now_ns, &s->effects);
	}
}

/* @bytes a packet, from LRH to VCRC. Without a burst: each has its time. */
static void check_spacing(uint64_t took_ns, unsigned packets, size_t bytes)
{
	uint64_t due_ns = (packets - 1) * bytes * 8 * 1000 / 2500;

	assert_in_range(took_ns, due_ns - due_ns / 50, due_ns + due_ns / 50);
}

static void connected_queue_pairs_keep_to_the_rate_of_their_path(void **state)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC };

	for (unsigned i = 0; i < 2; i++) {
		struct station *s = station_rts(types[i]);
		unsigned sent;

		take_route(s, SLOW);
		s->qp.requester.pace.burst_bytes = 1;
		post(s, IBV_WR_SEND, 1, PACKETS * MTU);
		check_spacing(send_all(s, PACKETS, MILLISECOND, &sent), PACKETS, MTU + 12 + 14);
		assert_int_equal(sent, PACKETS);
		station_free(s);
	}
}

static void a_path_as_fast_as_the_port_holds_nothing(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	take_route(s, IBV_RATE_MAX);
	post(s, IBV_WR_SEND, 1, PACKETS * MTU);
	assert_int_equal(transmit(s), PACKETS);
	station_free(s);
}

/* What a timer is late by leaves at once, and no more, however long the pause was. */
static void a_pause_saves_up_what_a_timer_is_late_by(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);
	unsigned most = 2500000 / 8 * PACE_LATE_US / 1000 / (MTU + 12 + 14) + 2;

	take_route(s, SLOW);
	s->now_ns += 1000 * MILLISECOND;
	post(s, IBV_WR_SEND, 1, 2 * most * MTU);
	assert_in_range(transmit(s), most - 2, most);
	station_free(s);
}

static void datagrams_keep_to_the_rate_of_their_handle(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);
	struct ah *slow = ah_at(SLOW), *fast = ah_at(0);
	unsigned sent;

	s->qp.requester.pace = (struct pace){ .kbps = route_pace_kbps(&slow->route), .burst_bytes = 1 };
	for (unsigned i = 0; i < DATAGRAMS; i++)
		post_to(s, slow, 500);
	check_spacing(send_all(s, DATAGRAMS, MILLISECOND, &sent), DATAGRAMS, 500 + 20 + 14);
	assert_int_equal(sent, DATAGRAMS);
	free_slots(s);
	/* Others go at once, though the last slow one is not over. */
	for (unsigned i = 0; i < DATAGRAMS; i++)
		post_to(s, fast, 500);
	assert_int_equal(transmit(s), DATAGRAMS);
	ah_put(slow);
	ah_put(fast);
	station_free(s);
}

static void a_new_path_has_its_own_rate(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	take_route(s, SLOW);
	s->qp.requester.pace.burst_bytes = 1;
	post(s, IBV_WR_SEND, 1, 4 * MTU);
	assert_int_equal(transmit(s), 1);
	assert_true(deadline_of(s) < s->now_ns + MILLISECOND);
	take_route(s, 0);
	s->now_ns = deadline_of(s);
	pass_time(s, 0);
	assert_int_equal(transmit(s), 3);
	station_free(s);
}

/* Also of a QP that does not send yet; and a request of the other way goes when they let it. */
static void responses_to_reads_keep_to_the_rate_of_their_path(void **state) UNCHECKED_LOCKS
{
	static const enum ibv_qp_state states[] = { IBV_QPS_RTR, IBV_QPS_RTS };

	for (unsigned i = 0; i < 2; i++) {
		struct station *s = station_rts(IBV_QPT_RC);
		unsigned sent;

		s->qp.requester.pace = (struct pace){ .kbps = 2500000, .burst_bytes = 1 };
		s->qp.state = states[i];
		receive_read(s, PEER_PSN, 0, PACKETS * MTU);
		check_spacing(send_all(s, PACKETS, MILLISECOND, &sent), PACKETS,
			      MTU + 12 + 14 + ROUTE_GRH_BYTES);
		assert_int_equal(sent, PACKETS);
		s->qp.state = IBV_QPS_RTS;
		assert_true(deadline_of(s) == TIME_NEVER);
		post(s, IBV_WR_SEND, 1, MTU);
		assert_int_equal(transmit(s), 0);
		check_spacing(send_all(s, 1, MILLISECOND, &sent), 2, MTU + 12 + 14 + ROUTE_GRH_BYTES);
		assert_int_equal(sent, 1);
		station_free(s);
	}
}

static void other_links_have_none(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->qp.route.roce.from_slot = 0x0502;	/* what would be a rate of the other arm */
	assert_int_equal(route_pace_kbps(&s->qp.route), 0);
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connected_queue_pairs_keep_to_the_rate_of_their_path),
		cmocka_unit_test(a_path_as_fast_as_the_port_holds_nothing),
		cmocka_unit_test(a_pause_saves_up_what_a_timer_is_late_by),
		cmocka_unit_test(datagrams_keep_to_the_rate_of_their_handle),
		cmocka_unit_test(a_new_path_has_its_own_rate),
		cmocka_unit_test(responses_to_reads_keep_to_the_rate_of_their_path),
		cmocka_unit_test(other_links_have_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
