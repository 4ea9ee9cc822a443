/* SPDX-License-Identifier: BSD-2-Clause */
/* Echoes: which QP owes them to which peer, when they are held back, what they do at the sender. */
#include "transport/echo.h"

#include "transport/ah_path.h"
#include "transport/test_support.h"

static struct station *station_with_paths(enum ibv_qp_type type)
{
	struct station *s = station_rts(type);

	s->transport.paths = &s->paths;
	return s;
}

/* ---- owing ---- */

static void receive_asking(struct station *s, uint32_t qpn, uint32_t psn)
{
	struct packet packet = packet_of(s->qp.type == IBV_QPT_UD ? OPCODE_UD_SEND_ONLY :
							OPCODE_UC_SEND_ONLY, psn);

	packet.echo_request = true;
	packet.deth.qkey = 0x1234;
	packet.deth.source_qpn = qpn;
	packet.payload = some_bytes;
	packet.payload_bytes = MTU;
	receive(s, &packet);
}

static void expect_echo(struct station *s, unsigned index, uint32_t qpn, uint32_t psn)
{
	struct packet packet = sent(s, index);

	assert_string_equal(packet.op->name, "CNP");
	assert_int_equal(packet.dest_qpn, qpn);
	assert_true(packet.echo.present);
	assert_int_equal(packet.echo.psn, psn);
	assert_int_equal(packet.echo.qpn, OUR_QPN);
	assert_false(packet.becn);
}

static void a_datagram_that_asks_is_echoed_to_where_it_came_from(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);

	s->info.route.roce.interface = 7;
	receive_asking(s, 0xabcdef, 0x99);
	assert_int_equal(s->run_queue.count, 1);
	assert_int_equal(transmit(s), 1);
	expect_echo(s, 0, 0xabcdef, 0x99);
	assert_memory_equal(s->batch->packet[0].route.destination, peer_address, 16);
	assert_memory_equal(s->batch->packet[0].route.source, our_address, 16);
	assert_int_equal(s->batch->packet[0].route.roce.interface, 7);
	expect_silence(s);
	station_free(s);
}

static void who_does_not_know_the_qkey_gets_no_echo(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);

	s->qp.attr.qkey++;
	receive_asking(s, 0x008001, 1);
	assert_int_equal(station_counter(s, COUNTER_RX_QKEY), 1);
	expect_silence(s);
	station_free(s);
}

static void a_uc_packet_that_asks_is_echoed_to_the_peer(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);

	receive_asking(s, 0, PEER_PSN);
	assert_int_equal(transmit(s), 1);
	expect_echo(s, 0, PEER_QPN, PEER_PSN);
	assert_memory_equal(&s->batch->packet[0].route, &s->qp.route, sizeof(s->qp.route));
	/* Others are not the peer. */
	s->info.route.source[15]++;
	receive_asking(s, 0, PEER_PSN + 1);
	expect_silence(s);
	station_free(s);
}

static void the_newest_for_each_process_is_echoed(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);
	unsigned i, count;

	receive_asking(s, 0x008001, 1);
	receive_asking(s, 0x008002, 2);		/* another QP of that process */
	receive_asking(s, 0x00c001, 3);
	s->info.route.source[15]++;
	receive_asking(s, 0x008001, 4);		/* a process of another host */
	count = transmit(s);
	assert_int_equal(count, 3);
	for (i = 0; i < count; i++) {
		uint32_t psn = sent(s, i).echo.psn;

		expect_echo(s, i, psn == 2 ? 0x008002 : psn == 3 ? 0x00c001 : 0x008001, psn);
		assert_in_range(psn, 2, 4);
	}
	station_free(s);
}

static void more_sources_than_there_is_room_for_ask_again(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);
	uint32_t i;

	for (i = 1; i <= 3 * ECHO_SOURCES_MAX; i++)
		receive_asking(s, i << 14, i);
	assert_int_equal(transmit(s), ECHO_SOURCES_MAX);
	receive_asking(s, 20u << 14, 100);
	assert_int_equal(transmit(s), 1);
	expect_echo(s, 0, 20u << 14, 100);
	station_free(s);
}

static void echoes_that_the_batch_has_no_room_for_come_later(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);
	uint32_t i;

	for (i = 1; i <= 5; i++)
		receive_asking(s, i << 14, i);
	s->quantum = 3;
	assert_int_equal(transmit(s), 3);
	assert_int_equal(transmit(s), 2);
	expect_silence(s);
	station_free(s);
}

static const uint8_t group_address[16] = { [10] = 0xff, 0xff, 239, 1, 2, 3 };

static void multicast_is_echoed_by_an_address_of_ours_or_not_at_all(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);
	struct packet packet = packet_of(OPCODE_UD_SEND_ONLY, 9);

	packet.echo_request = true;
	packet.dest_qpn = QPN_MULTICAST;
	packet.deth.qkey = 0x1234;
	packet.deth.source_qpn = PEER_QPN;
	memcpy(s->info.route.destination, group_address, 16);
	receive(s, &packet);
	expect_silence(s);
	memcpy(s->info.own, our_address, 16);
	receive(s, &packet);
	assert_int_equal(transmit(s), 1);
	expect_echo(s, 0, PEER_QPN, 9);
	assert_int_equal(sent(s, 0).echo.group, path_group(group_address));
	assert_memory_equal(s->batch->packet[0].route.source, our_address, 16);
	assert_memory_equal(s->batch->packet[0].route.destination, peer_address, 16);
	station_free(s);
}

static void nothing_is_owed_after_reset_or_error(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);

	receive_asking(s, PEER_QPN, 1);
	station_move(s, IBV_QPS_ERR);
	expect_silence(s);
	receive_asking(s, PEER_QPN, 2);
	expect_silence(s);
	station_move(s, IBV_QPS_RESET);
	station_move(s, IBV_QPS_INIT);
	station_move(s, IBV_QPS_RTR);
	expect_silence(s);
	/* Ready to receive is ready to echo. */
	receive_asking(s, PEER_QPN, 3);
	assert_int_equal(transmit(s), 1);
	station_free(s);
}

/* ---- holding back ---- */

/* One receive posted, its completion not polled: the application is behind. */
static struct station *station_behind(void)
{
	struct station *s = station_rts(IBV_QPT_UD);

	post_recv(s, 1, 2048);
	receive_asking(s, PEER_QPN, 1);
	expect_silence(s);
	assert_true(deadline_of(s) < TIME_NEVER);
	return s;
}

static void an_application_that_is_behind_holds_the_echo_back(void **state)
{
	struct station *s = station_behind();
	uint64_t began_ns = s->now_ns;

	while (transmit(s) == 0) {
		uint64_t deadline_ns = deadline_of(s);

		assert_true(deadline_ns > s->now_ns);
		pass_time(s, deadline_ns - s->now_ns);
	}
	expect_echo(s, 0, PEER_QPN, 1);
	assert_true(s->now_ns - began_ns == ECHO_HOLD_MAX_NS);
	assert_true(deadline_of(s) == TIME_NEVER);
	station_free(s);
}

static void polling_releases_the_echo(void **state)
{
	struct station *s = station_behind();

	assert_false(transport_awaits_recv(&s->qp));
	expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	/* With the next thing that is sent, ... */
	assert_true(transport_awaits_recv(&s->qp));
	assert_int_equal(transmit(s), 1);
	expect_echo(s, 0, PEER_QPN, 1);
	station_free(s);

	/* ... with the next receive that is posted, */
	s = station_behind();
	expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	while (run_queue_pop(&s->run_queue))
		;
	post_recv(s, 2, 64);
	assert_ptr_equal(run_queue_pop(&s->run_queue), &s->qp);
	assert_int_equal(transmit(s), 1);
	assert_false(transport_awaits_recv(&s->qp));
	station_free(s);

	/* ... or soon. */
	s = station_behind();
	expect_wc(&s->recv_cq, 1, IBV_WC_SUCCESS);
	pass_time(s, ECHO_HOLD_FIRST_NS);
	assert_int_equal(transmit(s), 1);
	station_free(s);
}

static void with_enough_receives_nothing_is_held_back(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);
	unsigned i;

	/* FLOW_LIMIT of packets of 4 KiB find a receive each. */
	for (i = 0; i < 40; i++)
		post_recv(s, 1, 8192);
	for (i = 0; i < 5; i++) {
		struct packet packet = packet_of(OPCODE_UD_SEND_ONLY, i);

		packet.echo_request = true;
		packet.deth.qkey = 0x1234;
		packet.deth.source_qpn = PEER_QPN;
		packet.payload = some_bytes;
		packet.payload_bytes = 4096;
		receive(s, &packet);
		assert_int_equal(transmit(s), 1);
	}
	station_free(s);
}

static void writes_need_no_receives(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);
	struct packet packet = packet_of(OPCODE_UC_WRITE_ONLY, PEER_PSN + 1);

	post_recv(s, 1, 64);
	receive_data(s, OPCODE_UC_SEND_ONLY, PEER_PSN, 8);
	packet.echo_request = true;
	packet.payload = some_bytes;
	packet.payload_bytes = packet.reth.length = 8;
	packet.reth.address = (uintptr_t)s->memory;
	packet.reth.rkey = s->mr.ibv.rkey;
	receive(s, &packet);
	assert_int_equal(transmit(s), 1);
	station_free(s);
}

/* ---- at the sender ---- */

static struct ah *ah_new(const uint8_t address[16])
{
	struct ah *ah = calloc(1, sizeof(*ah));

	assert_non_null(ah);
	ah->references = 1;
	memcpy(ah->route.source, our_address, 16);
	memcpy(ah->route.destination, address, 16);
	return ah;
}

static void post_datagram(struct station *s, struct ah *ah, uint32_t qpn, size_t bytes)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	request_init(&wr, &sge, s, IBV_WR_SEND, 1, bytes);
	wr.send_flags = 0;
	wr.wr.ud.ah = &ah->ibv;
	wr.wr.ud.remote_qpn = qpn;
	transport_prepare_send(&s->qp, &wr);
	post_wr(s, &wr);
}

static bool wants_to_send(struct station *s)
{
	bool queued = false;
	struct qp *qp;

	while ((qp = run_queue_pop(&s->run_queue)))
		queued |= qp == &s->qp;
	return queued;
}

/* Send until the flow is full; returns the PSN of the newest mark. */
static uint32_t fill(struct station *s, struct ah *ah, unsigned *count)
{
	uint32_t newest = UINT32_MAX;
	unsigned i, n;

	*count = 0;
	while (!s->qp.requester.blocked) {
		if (s->qp.type == IBV_QPT_UD)
			post_datagram(s, ah, PEER_QPN, MTU);
		else
			post(s, IBV_WR_RDMA_WRITE, 1, 4 * MTU);
		n = transmit(s);
		for (i = 0; i < n; i++)
			if (sent(s, i).echo_request)
				newest = sent(s, i).psn;
		*count += n;
		assert_true(*count < 1000);
		while (s->qp.type == IBV_QPT_UC && !cq_is_empty(&s->send_cq))
			cq_take(&s->send_cq, 1, &(struct ibv_wc){ 0 });
	}
	wants_to_send(s);
	return newest;
}

static void receive_echo(struct station *s, uint32_t psn)
{
	struct packet packet = packet_of(OPCODE_CNP, 0);

	packet.echo.present = true;
	packet.echo.psn = psn;
	packet.echo.qpn = PEER_QPN;
	receive(s, &packet);
}

static void check_sender(struct station *s, struct ah *ah)
{
	unsigned count;
	uint32_t mark = fill(s, ah, &count);

	assert_in_range(s->qp.path->flow.taken_bytes, FLOW_LIMIT_UNHEARD - flow_cost(MTU),
			FLOW_LIMIT_UNHEARD);
	/* Not by others, and not for what did not ask. */
	s->info.route.source[15]++;
	receive_echo(s, mark);
	s->info.route.source[15]--;
	receive_echo(s, psn_add(mark, 1));
	assert_false(wants_to_send(s));
	assert_int_equal(station_counter(s, COUNTER_RX_RESPONSE), 2);
	expect_silence(s);
	receive_echo(s, mark);
	assert_true(wants_to_send(s));
	assert_true(transmit(s) > 0);
	assert_int_equal(station_counter(s, COUNTER_RX_ECHO), 1);
}

static void an_echo_lets_datagrams_go_on(void **state)
{
	struct station *s = station_with_paths(IBV_QPT_UD);
	struct ah *ah = ah_new(peer_address);

	check_sender(s, ah);
	ah_put(ah);
	station_free(s);
}

static void an_echo_lets_uc_go_on(void **state)
{
	struct station *s = station_with_paths(IBV_QPT_UC);

	check_sender(s, NULL);
	station_free(s);
}

static void time_lets_datagrams_go_on(void **state)
{
	struct station *s = station_with_paths(IBV_QPT_UD);
	struct ah *ah = ah_new(peer_address);
	unsigned count;

	fill(s, ah, &count);
	pass_time(s, FLOW_PATIENCE_UNHEARD_NS - 1);
	expect_silence(s);
	pass_time(s, 1);
	assert_int_equal(station_counter(s, COUNTER_FLOW_TIMEOUT), 1);
	assert_true(wants_to_send(s));
	assert_true(transmit(s) > 0);
	assert_true(deadline_of(s) == TIME_NEVER);
	ah_put(ah);
	station_free(s);
}

static void a_blocked_peer_holds_up_others_for_its_patience_at_most(void **state)
{
	static const uint8_t other_address[16] = { [10] = 0xff, 0xff, 192, 0, 2, 3 };
	struct station *s = station_with_paths(IBV_QPT_UD);
	struct ah *ah = ah_new(peer_address), *other = ah_new(other_address);
	uint64_t began_ns = s->now_ns;
	unsigned i, done = 0;

	for (i = 0; i < 2000; i++) {
		post_datagram(s, i & 1 ? other : ah, PEER_QPN, MTU);
		while (transmit(s) == 0) {
			assert_non_null(s->qp.requester.blocked);
			pass_time(s, s->qp.requester.blocked_until_ns - s->now_ns);
		}
		done += s->batch->count;
		free_slots(s);
	}
	assert_int_equal(done, 2000);
	/* Neither answers: each takes its 255 ms, once. */
	assert_in_range(s->now_ns - began_ns, 400 * MILLISECOND, 600 * MILLISECOND);
	ah_put(ah);
	ah_put(other);
	station_free(s);
}

static void foreign_qps_are_not_waited_for(void **state)
{
	struct station *s = station_with_paths(IBV_QPT_UD);
	struct ah *ah = ah_new(peer_address);
	unsigned i;

	for (i = 0; i < 1000; i++) {
		/* Slot 0 is no Verbatim's: rxe counts from 17. */
		post_datagram(s, ah, 17, MTU);
		assert_int_equal(transmit(s), 1);
		assert_false(sent(s, 0).echo_request);
		free_slots(s);
	}
	assert_null(atomic_load(&ah->paths));
	ah_put(ah);
	station_free(s);
}

static void any_member_of_a_group_lets_datagrams_go_on(void **state)
{
	struct station *s = station_with_paths(IBV_QPT_UD);
	struct ah *ah = ah_new(group_address);
	struct packet packet = packet_of(OPCODE_CNP, 0);
	struct path *path;

	while (!s->qp.requester.blocked) {
		post_datagram(s, ah, QPN_MULTICAST, MTU);
		transmit(s);
	}
	path = ah_path_find(ah, QPN_MULTICAST);
	assert_ptr_equal(s->qp.requester.blocked, path);
	wants_to_send(s);
	packet.echo.present = true;
	packet.echo.psn = path->flow.mark[0].psn;
	packet.echo.qpn = 0x123456;
	packet.echo.group = path_group(group_address) + 1;
	receive(s, &packet);
	assert_false(wants_to_send(s));
	packet.echo.group = path_group(group_address);
	s->info.memory = true;		/* this member's echo; the others have sockets */
	receive(s, &packet);
	assert_true(wants_to_send(s));
	assert_false(path->flow.memory);
	ah_put(ah);
	station_free(s);
}

/* A UC QP that stays with UDP may have a peer that does not. */
static void echoes_tell_where_packets_go(void **state)
{
	static const struct { enum ibv_qp_type type; bool loopback, by_memory, memory; } rows[] = {
		{ IBV_QPT_UD, false, true, true }, { IBV_QPT_UD, false, false, false },
		{ IBV_QPT_UC, true, true, true }, { IBV_QPT_UC, true, false, false },
		{ IBV_QPT_UC, false, true, false },
	};
	unsigned i, count;

	for (i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct station *s = station_with_paths(rows[i].type);
		struct ah *ah = ah_new(peer_address);
		uint32_t mark = fill(s, ah, &count);

		s->qp.route.loopback = rows[i].loopback;
		s->info.memory = rows[i].by_memory;
		receive_echo(s, mark);
		assert_int_equal(s->qp.path->flow.memory, rows[i].memory);
		ah_put(ah);
		station_move(s, IBV_QPS_ERR);
		station_free(s);
	}
}

/* The application may destroy its handle and its QP while packets wait. */
static void a_qp_that_waits_may_go_away(void **state)
{
	enum ibv_qp_state states[] = { IBV_QPS_RESET, IBV_QPS_ERR };
	unsigned i, count;

	for (i = 0; i < 2; i++) {
		struct station *s = station_with_paths(IBV_QPT_UD);
		struct ah *ah = ah_new(peer_address);
		struct path *path;

		fill(s, ah, &count);
		path = s->qp.requester.blocked;
		assert_false(list_empty(&path->flow.waiting));
		ah_put(ah);
		station_move(s, states[i]);
		assert_null(s->qp.requester.blocked);
		assert_true(list_empty(&s->qp.wait_node));
		assert_true(deadline_of(s) == TIME_NEVER);
		station_free(s);
	}
}

static void a_turn_that_comes_too_late_is_passed_on(void **state)
{
	struct station *s = station_with_paths(IBV_QPT_UC);
	unsigned count;
	uint32_t mark = fill(s, NULL, &count);

	receive_echo(s, mark);
	assert_true(s->qp.requester.path_turn);
	station_move(s, IBV_QPS_ERR);
	assert_false(s->qp.requester.path_turn);
	expect_silence(s);
	station_free(s);
}

static void the_paths_of_a_handle_live_as_long_as_it(void **state)
{
	struct station *s = station_with_paths(IBV_QPT_UD);
	struct ah *ah = ah_new(peer_address);
	struct path *first, *second;

	ah_path_prepare(ah, 0x008022, &s->paths);
	ah_path_prepare(ah, 0x00c022, &s->paths);
	ah_path_prepare(ah, 0x008023, &s->paths);
	first = ah_path_find(ah, 0x00bfff);
	second = ah_path_find(ah, 0x00c000);
	assert_ptr_equal(first, s->qp.path);	/* whom the station is connected to */
	assert_int_equal(first->references, 2);
	assert_ptr_not_equal(first, second);
	assert_null(ah_path_find(ah, 0x010000));
	ah_put(ah);
	assert_int_equal(first->references, 1);
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_datagram_that_asks_is_echoed_to_where_it_came_from),
		TEST(who_does_not_know_the_qkey_gets_no_echo),
		TEST(a_uc_packet_that_asks_is_echoed_to_the_peer),
		TEST(the_newest_for_each_process_is_echoed),
		TEST(more_sources_than_there_is_room_for_ask_again),
		TEST(echoes_that_the_batch_has_no_room_for_come_later),
		TEST(multicast_is_echoed_by_an_address_of_ours_or_not_at_all),
		TEST(nothing_is_owed_after_reset_or_error),
		TEST(an_application_that_is_behind_holds_the_echo_back),
		TEST(polling_releases_the_echo),
		TEST(with_enough_receives_nothing_is_held_back),
		TEST(writes_need_no_receives),
		TEST(an_echo_lets_datagrams_go_on),
		TEST(an_echo_lets_uc_go_on),
		TEST(time_lets_datagrams_go_on),
		TEST(a_blocked_peer_holds_up_others_for_its_patience_at_most),
		TEST(foreign_qps_are_not_waited_for),
		TEST(any_member_of_a_group_lets_datagrams_go_on),
		TEST(echoes_tell_where_packets_go),
		TEST(a_qp_that_waits_may_go_away),
		TEST(a_turn_that_comes_too_late_is_passed_on),
		TEST(the_paths_of_a_handle_live_as_long_as_it),
	};

	return cmocka_run_group_tests_name("echo", tests, NULL, NULL);
}
