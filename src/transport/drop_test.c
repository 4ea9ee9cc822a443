/* SPDX-License-Identifier: BSD-2-Clause */
/* What a receiver says about packets that it drops, heard through a file in place of stderr. */
#include <sys/mman.h>

#include "base/ip_addr.h"
#include "base/log.h"
#include "transport/drop.h"
#include "transport/test_support.h"

static char heard[8192];
static int saved_stderr, file;

static int drop_begin(void **state)
{
	setenv("VERBATIM_EXPLAIN", "0", 1);	/* what was said before is forgotten */
	assert_int_equal(log_init(), 0);
	setenv("VERBATIM_EXPLAIN", "1", 1);
	assert_int_equal(log_init(), 0);
	file = memfd_create("stderr", 0);
	saved_stderr = dup(STDERR_FILENO);
	return file < 0 || dup2(file, STDERR_FILENO) < 0;
}

static int drop_end(void **state)
{
	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	close(file);
	return 0;
}

static void expect_heard(const char *words)
{
	ssize_t bytes = pread(file, heard, sizeof(heard) - 1, 0);

	heard[bytes < 0 ? 0 : bytes] = '\0';
	if (!strstr(heard, words))
		print_error("no '%s' in: %s\n", words, heard);
	assert_non_null(strstr(heard, words));
}

static void expect_nothing_heard(void)
{
	assert_int_equal(lseek(file, 0, SEEK_END), 0);
}

static void a_qp_in_init_says_what_it_waits_for(void **state)
{
	struct station *s = station_new(IBV_QPT_RC);

	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 8);
	expect_heard("dropped: the QP is in INIT: ibv_modify_qp to RTR before the peer sends "
			"(verbatim explain INIT)");
	station_move(s, IBV_QPS_RESET);
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 8);
	expect_heard("the QP is in RESET: ibv_modify_qp to INIT, then to RTR");
	station_free(s);
}

static void a_wrong_partner_is_named(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	s->info.route.source[15] ^= 1;
	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN, 8);
	expect_heard("dropped: the QP is connected to ");
	receive_data(s, OPCODE_UC_SEND_ONLY, PEER_PSN, 8);
	expect_heard("the QP is of type RC: both ends need the same qp_type");
	station_free(s);
}

static void a_first_psn_behind_the_expected_one_is_wrong_at_once(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	receive_data(s, OPCODE_RC_SEND_ONLY, PEER_PSN - 5, 8);
	expect_heard("this QP waits for its first request with PSN");
	expect_heard("rq_psn here (ibv_modify_qp to RTR) and sq_psn there (to RTS) must agree");
	station_free(s);
}

static void a_first_psn_ahead_is_wrong_when_it_comes_again_and_again(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);

	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 1, 8);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 2, 8);
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 1, 8);
	expect_nothing_heard();
	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 1, 8);
	expect_heard("rq_psn here");
	station_free(s);
}

static void loss_and_duplicates_of_a_qp_that_works_are_no_news(void **state)
{
	struct station *s = station_rts(IBV_QPT_RC);
	unsigned i;

	receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
	for (i = 0; i < 10; i++) {
		receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN, 8);
		receive_data(s, OPCODE_RC_WRITE_ONLY, PEER_PSN + 5, 8);
	}
	expect_nothing_heard();
	station_free(s);
}

static void receive_datagram(struct station *s, uint32_t qkey, size_t bytes)
{
	struct packet packet = packet_of(OPCODE_UD_SEND_ONLY, 0);

	packet.deth.qkey = qkey;
	packet.deth.source_qpn = PEER_QPN;
	packet.payload = some_bytes;
	packet.payload_bytes = bytes;
	receive(s, &packet);
}

static void datagrams_are_dropped_with_a_reason(void **state)
{
	struct station *s = station_rts(IBV_QPT_UD);

	receive_datagram(s, 0x11111111, 8);
	expect_heard("its Q_Key 0x11111111 is not this QP's 0x00001234");
	receive_datagram(s, 0x1234, 8);
	expect_heard("no receive is posted: ibv_post_recv before the peer sends");
	post_recv(s, 1, 16);
	receive_datagram(s, 0x1234, 16);
	expect_heard("16 bytes and the 40 of the GRH are more than the 16 of the receive (wr_id "
			"0x1): receives of UD need 40 bytes in front of the message");
	station_free(s);
}

static void unreliable_messages_are_dropped_with_a_reason(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);

	receive_data(s, OPCODE_UC_SEND_ONLY, PEER_PSN, 8);
	expect_heard("no receive is posted: ibv_post_recv before the peer sends");
	post_recv(s, 1, 4);
	receive_data(s, OPCODE_UC_SEND_ONLY, PEER_PSN + 1, 8);
	expect_heard("the message is longer than the receive posted (wr_id 0x1, 4 bytes)");
	station_free(s);
}

/* How many lines have been heard. */
static unsigned lines_heard(void)
{
	unsigned lines = 0;

	expect_heard("");
	for (const char *c = heard; *c; c++)
		lines += *c == '\n';
	return lines;
}

/* PSN and wr_id are of the packet, the peer and the QP are not. */
static void other_packets_of_one_fault_are_no_news(void **state)
{
	struct station *s = station_rts(IBV_QPT_UC);

	for (uint32_t i = 1; i < 4; i++) {
		post_recv(s, i, 4);
		receive_data(s, OPCODE_UC_SEND_ONLY, PEER_PSN + i - 1, 8);
	}
	assert_int_equal(lines_heard(), 1);
	station_free(s);
}

static void other_psns_of_one_peer_are_no_news(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet packet = packet_of(OPCODE_RC_SEND_ONLY, 0);

	for (packet.psn = 10; packet.psn < 13; packet.psn++)
		drop_print(DROP_FIRST_PSN_AHEAD, &s->qp, &packet, peer_address, s->qp.number);
	assert_int_equal(lines_heard(), 1);
	s->qp.attr.dest_qp_num ^= 1;
	drop_print(DROP_FIRST_PSN_AHEAD, &s->qp, &packet, peer_address, s->qp.number);
	assert_int_equal(lines_heard(), 3);		/* with "repeated 2 times" */
	s->qp.attr.dest_qp_num ^= 1;
	station_free(s);
}

static void strangers_are_told_apart(void **state)
{
	struct packet packet = packet_of(OPCODE_RC_SEND_ONLY, 0);
	uint8_t by_lid[16];

	packet.dest_qpn = 0x123456;
	drop_explain(DROP_NO_QP, NULL, &packet, peer_address);
	expect_heard("this process has no qp 0x123456: the sender's dest_qp_num (UD: remote_qpn) "
			"is wrong");
	packet.pkey = 0x8001;
	drop_explain(DROP_PKEY, NULL, &packet, peer_address);
	expect_heard("its P_Key is 0x8001: RoCE has 0xffff alone");
	ip_addr_of_lid(by_lid, 9);
	drop_explain(DROP_PKEY, NULL, &packet, by_lid);
	expect_heard("its P_Key is 0x8001: no row of this port's table lets it in");
	drop_print(DROP_STRANGER, NULL, NULL, peer_address, 0x654321);
	expect_heard("no process of this host has qp 0x654321");
}

/* Whatever a row's words name is known; no field is left as it was written. */
static void each_field_of_each_row_is_filled_in(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_rts(IBV_QPT_RC);
	struct packet packet = packet_of(OPCODE_RC_SEND_ONLY, 0);
	struct recv_wqe recv = { .wr_id = 1 };
	const struct drop_facts facts = { .qp = &s->qp, .packet = &packet, .source = peer_address };
	struct recv_wqe *own = s->qp.responder.recv;
	char text[512];

	s->qp.responder.recv = &recv;
	for (int why = DROP_NONE; why < DROP_COUNT; why++) {
		const struct drop_row *row = drop_row((enum drop)why);
		const char *words[] = { row->words, row->peer, row->key };

		for (int i = 0; i < 3; i++)
			if (words[i])
				assert_null(strpbrk(drop_write(words[i], &facts, text, sizeof(text)), "{}"));
	}
	assert_string_equal(drop_write("a {field}", &facts, text, sizeof(text)), "a {field}");	/* of no name */
	assert_string_equal(drop_write("qp {qp}", &facts, text, 6), "qp 0x");	/* cut off, and ended */
	s->qp.responder.recv = own;
	station_free(s);
}

static void a_flood_of_wrong_packets_is_a_few_lines(void **state)
{
	struct packet packet = packet_of(OPCODE_RC_SEND_ONLY, 0);

	for (packet.dest_qpn = 0; packet.dest_qpn < 100000; packet.dest_qpn++)
		drop_explain(DROP_NO_QP, NULL, &packet, peer_address);
	expect_heard("this process has no qp 0x000000");
	assert_in_range(lines_heard(), 1, 40);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define DROP_TEST(name) cmocka_unit_test_setup_teardown(name, drop_begin, drop_end)
		DROP_TEST(other_packets_of_one_fault_are_no_news),
		DROP_TEST(other_psns_of_one_peer_are_no_news),
		DROP_TEST(a_qp_in_init_says_what_it_waits_for),
		DROP_TEST(a_wrong_partner_is_named),
		DROP_TEST(a_first_psn_behind_the_expected_one_is_wrong_at_once),
		DROP_TEST(a_first_psn_ahead_is_wrong_when_it_comes_again_and_again),
		DROP_TEST(loss_and_duplicates_of_a_qp_that_works_are_no_news),
		DROP_TEST(datagrams_are_dropped_with_a_reason),
		DROP_TEST(unreliable_messages_are_dropped_with_a_reason),
		DROP_TEST(strangers_are_told_apart),
		DROP_TEST(each_field_of_each_row_is_filled_in),
		DROP_TEST(a_flood_of_wrong_packets_is_a_few_lines),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
