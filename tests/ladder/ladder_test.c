/* SPDX-License-Identifier: BSD-2-Clause */
/* Captures read, packets paired, queue pairs found, fields in their places; and files that are broken. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "base/test_random.h"
#include "ladder.h"
#include "trace_file_test.h"

static char a_name[] = "file.pcapng";
static char *const names[] = { a_name, a_name, a_name };

/* Two processes, a request from one to the other. */
static struct trace_file *two_processes(bool swapped)
{
	struct trace_file *file = calloc(1, sizeof(*file));

	file->swapped = swapped;
	file_section(file);
	file_interface(file, 101, "client(10)");
	file_interface(file, 252, "client(10) events");
	file_interface(file, 101, "server(11)");
	return file;
}

static struct packet request(uint32_t psn)
{
	return (struct packet){ .op = opcode_get(OPCODE_RC_SEND_ONLY), .dest_qpn = 0x22, .psn = psn,
				.ack_request = true, .payload_bytes = 8 };
}

static struct packet acknowledge(uint32_t psn)
{
	return (struct packet){ .op = opcode_get(OPCODE_RC_ACKNOWLEDGE), .dest_qpn = 0x11, .psn = psn,
				.aeth = { .syndrome = 0x1f, .msn = 1 } };
}

static void make(struct ladder *ladder, struct capture *capture, struct trace_file *file)
{
	*capture = (struct capture){ .record = NULL };
	assert_int_equal(capture_parse(capture, file_copy(file, file->used), file->used), 0);
	capture_sort(capture);
	assert_int_equal(ladder_make(ladder, capture, names), 0);
}

static void end(struct ladder *ladder, struct capture *capture, struct trace_file *file)
{
	ladder_free(ladder);
	capture_free(capture);
	free(file);
}

static void what_one_sent_and_the_other_received_is_one_packet(void **state)
{
	for (int swapped = 0; swapped < 2; swapped++) {
		struct trace_file *file = two_processes(swapped);
		struct packet packet = request(7);
		struct capture capture;
		struct ladder ladder;

		file_packet(file, 0, 1000, FILE_OUT, &packet, 1, 2, "path udp; qp 0x000011; wr_id 5");
		file_packet(file, 2, 4000, FILE_IN, &packet, 1, 2, "path udp; qp 0x000022");
		make(&ladder, &capture, file);
		assert_int_equal(ladder.packets, 1);
		assert_int_equal(ladder.packet[0].sent->time_ns, 1000);
		assert_int_equal(ladder.packet[0].received->time_ns, 4000);
		assert_int_equal(ladder.packet[0].flags, 0);
		assert_int_equal(ladder.lane[ladder.packet[0].from].qpn, 0x11);
		assert_int_equal(ladder.lane[ladder.packet[0].to].qpn, 0x22);
		assert_string_equal(ladder.process[ladder.lane[ladder.packet[0].from].process], "client(10)");
		end(&ladder, &capture, file);
	}
}

static void of_two_sent_the_one_that_nobody_received_is_lost(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet packet = request(7);
	struct capture capture;
	struct ladder ladder;

	file_packet(file, 0, 1000, FILE_OUT, &packet, 1, 2, "qp 0x000011");
	file_packet(file, 0, 9000, FILE_OUT, &packet, 1, 2, "qp 0x000011; retransmission 1");
	file_packet(file, 2, 9500, FILE_IN, &packet, 1, 2, "qp 0x000022");
	make(&ladder, &capture, file);
	assert_int_equal(ladder.packets, 2);
	assert_int_equal(ladder.packet[0].flags, LADDER_LOST);
	assert_int_equal(ladder.packet[1].flags, LADDER_RETRANSMISSION);
	assert_non_null(ladder.packet[1].received);
	end(&ladder, &capture, file);
}

/* PSNs tell of a repetition where no sender does: its comments do, and a QP may begin anew with an old PSN. */
static void a_sender_that_tells_repetitions_is_believed(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet packet = request(7);
	struct capture capture;
	struct ladder ladder;

	file_packet(file, 0, 1000, FILE_OUT, &packet, 1, 2, "path udp; qp 0x000011");
	file_packet(file, 0, 2000, FILE_OUT, &packet, 1, 2, "path udp; qp 0x000011");
	make(&ladder, &capture, file);
	assert_int_equal(ladder.packet[1].flags, 0);
	assert_int_equal(ladder.problems, 0);
	end(&ladder, &capture, file);
}

static void a_repetition_is_found_without_a_comment(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet first = request(0xffffff), second = request(0);
	struct capture capture;
	struct ladder ladder;

	file_packet(file, 0, 1000, FILE_OUT, &first, 1, 2, "qp 0x000011");
	file_packet(file, 0, 2000, FILE_OUT, &second, 1, 2, "qp 0x000011");
	file_packet(file, 0, 3000, FILE_OUT, &first, 1, 2, "qp 0x000011");
	make(&ladder, &capture, file);
	assert_int_equal(ladder.packet[0].flags & LADDER_RETRANSMISSION, 0);
	assert_int_equal(ladder.packet[1].flags & LADDER_RETRANSMISSION, 0);
	assert_int_equal(ladder.packet[2].flags & LADDER_RETRANSMISSION, LADDER_RETRANSMISSION);
	end(&ladder, &capture, file);
}

static void what_is_copied_directly_is_never_lost(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet packet = request(7), late = acknowledge(1);
	struct capture capture;
	struct ladder ladder;

	file_packet(file, 0, 1000, FILE_OUT, &packet, 1, 2, "path direct; qp 0x000011");
	file_packet(file, 2, 2000, FILE_OUT, &late, 2, 1, "qp 0x000022");
	make(&ladder, &capture, file);
	assert_int_equal(ladder.packet[0].flags, LADDER_DIRECT);
	assert_int_equal(ladder.packet[0].psn, LADDER_NO_PSN);
	assert_int_equal(ladder.problems, 0);
	end(&ladder, &capture, file);
}

/* A WRITE of two packets and its ACK, twice, with the same invented PSNs: two stores, nothing sent again. */
static void an_operation_through_memory_is_one_and_has_no_psn(void **state)
{
	static const char comment[] = "payload 1024; path direct; qp 0x000011; wr_id 5; by store";
	struct trace_file *file = two_processes(false);
	struct packet first = { .op = opcode_get(OPCODE_RC_WRITE_FIRST), .dest_qpn = 0x22, .psn = 7,
				.reth = { 0x1000, 0x55, 2048 } };
	struct packet last = { .op = opcode_get(OPCODE_RC_WRITE_LAST_IMM), .dest_qpn = 0x22, .psn = 8, .imm = 9 };
	struct packet ack = acknowledge(8);
	struct capture capture;
	struct ladder ladder;

	for (uint64_t time_ns = 1000; time_ns <= 2000; time_ns += 1000) {
		file_packet(file, 0, time_ns, FILE_OUT, &first, 1, 2, comment);
		file_packet(file, 0, time_ns, FILE_OUT, &last, 1, 2, comment);
		file_packet(file, 0, time_ns, FILE_IN, &ack, 2, 1, "path direct; qp 0x000011");
	}
	make(&ladder, &capture, file);
	assert_int_equal(ladder.packets, 2);
	assert_int_equal(ladder.operations, 2);
	assert_int_equal(ladder.problems, 0);
	for (unsigned i = 0; i < 2; i++) {
		const struct ladder_packet *packet = &ladder.packet[i];
		const uint8_t *extension = ladder.operation[packet->operation].extension;

		assert_int_equal(packet->kind, LADDER_WRITE);
		assert_int_equal(packet->psn, LADDER_NO_PSN);
		assert_int_equal(packet->payload_bytes, 2048);
		assert_int_equal(packet->opcode, OPCODE_RC_WRITE_ONLY_IMM);
		assert_int_equal(ladder.operation[packet->operation].bytes, 20);
		assert_int_equal(get_be32(extension + 8), 0x55);
		assert_int_equal(get_be32(extension + 16), 9);
	}
	end(&ladder, &capture, file);
}

static void a_message_in_a_ring_is_one_thing_of_both_ends(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet packet = request(3), ack = acknowledge(3);
	struct capture capture;
	struct ladder ladder;

	for (unsigned i = 0; i < 2; i++) {	/* PSNs that were made from the messages' numbers */
		packet.psn = ack.psn = 3 + i;
		file_packet(file, 0, 1000 + 100 * i, FILE_OUT, &packet, 1, 2,
			    i ? "path ring; qp 0x000011; wr_id 5; message 4" :
				"path ring; qp 0x000011; wr_id 5; message 3");
		file_packet(file, 2, 1050 + 100 * i, FILE_IN, &packet, 1, 2,
			    i ? "path ring; qp 0x000022; message 4" : "path ring; qp 0x000022; message 3");
	}
	ack.psn = 4;
	file_packet(file, 0, 3000, FILE_IN, &ack, 2, 1, "path ring; qp 0x000011; message 4");
	make(&ladder, &capture, file);
	assert_int_equal(ladder.packets, 2);
	assert_int_equal(ladder.operation[ladder.packet[0].operation].taken_ns, 0);
	assert_int_equal(ladder.operation[ladder.packet[1].operation].taken_ns, 3000);
	assert_int_equal(ladder.operation[ladder.packet[1].operation].message, 4);
	assert_int_equal(ladder.packet[1].received->time_ns, 1150);
	assert_int_equal(ladder.packet[1].psn, LADDER_NO_PSN);
	assert_int_equal(ladder.lane[ladder.packet[1].to].qpn, 0x22);
	assert_int_equal(ladder.problems, 0);
	end(&ladder, &capture, file);
}

/* One packet lost: what follows it is dropped, refused and sent again, and answered twice. */
static void all_that_follows_from_a_loss_is_one_problem(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet packet, nak = acknowledge(7), ack = acknowledge(8);
	struct capture capture;
	struct ladder ladder;

	nak.aeth.syndrome = 0x60;
	for (uint32_t psn = 6; psn <= 8; psn++) {
		packet = request(psn);
		file_packet(file, 0, 1000 + psn, FILE_OUT, &packet, 1, 2, "path udp; qp 0x000011");
		if (psn != 7)
			file_packet(file, 2, 1100 + psn, FILE_IN, &packet, 1, 2,
				    psn == 8 ? "path udp; qp 0x000022; dropped out_of_seq_request" :
					       "path udp; qp 0x000022");
	}
	file_packet(file, 2, 1200, FILE_OUT, &nak, 2, 1, "path udp; qp 0x000022");
	file_packet(file, 0, 1300, FILE_IN, &nak, 2, 1, "path udp; qp 0x000011");
	for (uint32_t psn = 7; psn <= 8; psn++) {
		packet = request(psn);
		file_packet(file, 0, 1400 + psn, FILE_OUT, &packet, 1, 2,
			    "path udp; qp 0x000011; retransmission 1");
		file_packet(file, 2, 1500 + psn, FILE_IN, &packet, 1, 2, "path udp; qp 0x000022");
	}
	file_packet(file, 2, 1600, FILE_OUT, &ack, 2, 1, "path udp; qp 0x000022");
	file_packet(file, 0, 1700, FILE_IN, &ack, 2, 1, "path udp; qp 0x000011");
	file_packet(file, 2, 1800, FILE_OUT, &ack, 2, 1, "path udp; qp 0x000022");
	file_packet(file, 0, 1900, FILE_IN, &ack, 2, 1, "path udp; qp 0x000011; dropped rx_stale_response");
	make(&ladder, &capture, file);
	assert_int_equal(ladder.problems, 1);
	assert_int_equal(ladder.problem[0].cause, LADDER_CAUSE_LOST);
	assert_int_equal(ladder.packet[ladder.problem[0].item].psn, 7);
	assert_int_equal(ladder.problem[0].times, 6);	/* and a drop, a NAK, two repetitions, a late ACK */
	end(&ladder, &capture, file);
}

/* A receiver that is not ready drops what it refuses, and what comes behind a request that it refused. */
static void a_refusal_and_the_drops_that_it_explains_are_one_problem(void **state)
{
	static const struct { uint8_t syndrome; enum ladder_cause cause; uint32_t dropped; } rows[] = {
		{ 0x2e, LADDER_CAUSE_RNR, 7 }, { 0x62, LADDER_CAUSE_NAK, 8 } };

	for (unsigned i = 0; i < 2; i++) {
		struct trace_file *file = two_processes(false);
		struct packet packet, nak = acknowledge(7);
		struct capture capture;
		struct ladder ladder;

		nak.aeth.syndrome = rows[i].syndrome;
		for (uint32_t psn = 7; psn <= 8; psn++) {
			packet = request(psn);
			file_packet(file, 0, 1000 + psn, FILE_OUT, &packet, 1, 2, "path udp; qp 0x000011");
			file_packet(file, 2, 1100 + psn, FILE_IN, &packet, 1, 2, psn == rows[i].dropped ?
				    "path udp; qp 0x000022; dropped rx_qp_state" : "path udp; qp 0x000022");
		}
		file_packet(file, 2, 1200, FILE_OUT, &nak, 2, 1, "path udp; qp 0x000022");
		file_packet(file, 0, 1300, FILE_IN, &nak, 2, 1, "path udp; qp 0x000011");
		make(&ladder, &capture, file);
		assert_int_equal(ladder.problems, 1);
		assert_int_equal(ladder.problem[0].cause, rows[i].cause);
		assert_int_equal(ladder.problem[0].times, 2);
		end(&ladder, &capture, file);
	}
}

/* VERBATIM_FAULT at the receiver: the packet is in its trace as an event alone. It is the last of its flow. */
static void a_planted_loss_is_found_by_its_event(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet packet = request(7);
	struct capture capture;
	struct ladder ladder;

	file_interface(file, 252, "server(11) events");
	file_packet(file, 0, 1000, FILE_OUT, &packet, 1, 2, "path udp; qp 0x000011");
	file_event(file, 3, 1100, "{\"v\":1,\"event\":\"fault\",\"name\":\"loss\",\"qp\":\"0x000022\","
		   "\"direction\":\"in\",\"psn\":7,\"opcode\":\"RC_SEND_ONLY\",\"rule\":1}");
	make(&ladder, &capture, file);
	assert_int_equal(ladder.problems, 1);
	assert_int_equal(ladder.problem[0].item, 0);
	assert_int_equal(ladder.packet[0].flags, LADDER_LOST | LADDER_PLANTED);
	end(&ladder, &capture, file);
}

/* The last packets of a process that ends: not lost, as nothing later arrived. */
static void what_is_underway_at_the_end_is_not_lost(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet packet = request(7), ack = acknowledge(6);
	struct capture capture;
	struct ladder ladder;

	file_packet(file, 0, 1000, FILE_OUT, &packet, 1, 2, "path udp; qp 0x000011");
	file_packet(file, 2, 2000, FILE_OUT, &ack, 2, 1, "path udp; qp 0x000022");
	make(&ladder, &capture, file);
	assert_int_equal(ladder.packet[0].flags, 0);
	assert_int_equal(ladder.problems, 0);
	end(&ladder, &capture, file);
}

static void of_an_original_and_its_repetition_the_original_arrives_first(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet packet = request(7);
	struct capture capture;
	struct ladder ladder;

	file_packet(file, 0, 1000, FILE_OUT, &packet, 1, 2, "path udp; qp 0x000011");
	file_packet(file, 0, 2000, FILE_OUT, &packet, 1, 2, "path udp; qp 0x000011; retransmission 1");
	file_packet(file, 2, 3000, FILE_IN, &packet, 1, 2, "path udp; qp 0x000022");
	file_packet(file, 2, 4000, FILE_IN, &packet, 1, 2, "path udp; qp 0x000022; dropped duplicate_request");
	make(&ladder, &capture, file);
	assert_int_equal(ladder.packets, 2);
	assert_int_equal(ladder.packet[0].received->time_ns, 3000);
	assert_int_equal(ladder.packet[1].received->time_ns, 4000);
	assert_int_equal(ladder.packet[0].flags, 0);
	assert_int_equal(ladder.packet[1].flags, LADDER_RETRANSMISSION | LADDER_DROPPED);
	assert_int_equal(ladder.problems, 1);
	end(&ladder, &capture, file);
}

static void an_answer_to_a_queue_pair_that_is_gone_is_late_and_no_problem(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet packet = request(7), ack = acknowledge(7);
	struct capture capture;
	struct ladder ladder;

	file_packet(file, 0, 1000, FILE_OUT, &packet, 1, 2, "path udp; qp 0x000011");
	file_packet(file, 2, 2000, FILE_IN, &packet, 1, 2, "path udp; qp 0x000022");
	file_packet(file, 2, 3000, FILE_OUT, &ack, 2, 1, "path udp; qp 0x000022");
	file_packet(file, 0, 4000, FILE_IN, &ack, 2, 1, "path udp; qp 0x000011; dropped rx_no_qp");
	make(&ladder, &capture, file);
	assert_int_equal(ladder.packet[1].flags, LADDER_LATE);
	assert_int_equal(ladder.problems, 0);
	end(&ladder, &capture, file);
}

static void an_ack_answers_for_all_before_it(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet packet, ack = acknowledge(9);
	struct capture capture;
	struct ladder ladder;

	for (uint32_t psn = 7; psn <= 10; psn++) {
		packet = request(psn);
		file_packet(file, 0, 1000 + psn, FILE_OUT, &packet, 1, 2, "qp 0x000011");
	}
	file_packet(file, 0, 2000, FILE_IN, &ack, 2, 1, "qp 0x000011");
	make(&ladder, &capture, file);
	assert_int_equal(ladder.packet[4].acks, 3);
	assert_int_equal(ladder.packet[4].acks_first, 0);
	assert_int_equal(ladder.packet[2].acked_by, 4);
	assert_int_equal(ladder.packet[3].acked_by, LADDER_NONE);
	end(&ladder, &capture, file);
}

static void a_nak_answers_for_nothing(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet packet = request(7), nak = acknowledge(7);
	struct capture capture;
	struct ladder ladder;

	nak.aeth.syndrome = 0x62;
	file_packet(file, 0, 1000, FILE_OUT, &packet, 1, 2, "qp 0x000011");
	file_packet(file, 0, 2000, FILE_IN, &nak, 2, 1, "qp 0x000011");
	make(&ladder, &capture, file);
	assert_int_equal(ladder.packet[1].kind, LADDER_NAK);
	assert_int_equal(ladder.packet[1].acks, 0);
	end(&ladder, &capture, file);
}

static void events_stand_on_their_queue_pair(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet packet = request(7);
	struct capture capture;
	struct ladder ladder;

	file_packet(file, 0, 1000, FILE_OUT, &packet, 1, 2, "qp 0x000011");
	file_event(file, 1, 900, "{\"v\":1,\"event\":\"call\",\"name\":\"ibv_post_send\","
		   "\"qp\":\"0x000011\",\"wr_id\":5}");
	file_event(file, 1, 950, "{\"v\":1,\"event\":\"cm\",\"id\":1,\"name\":\"RDMA_CM_EVENT_ESTABLISHED\"}");
	file_event(file, 1, 960, "no JSON at all \"qp\": \"");
	make(&ladder, &capture, file);
	assert_int_equal(ladder.events, 3);
	assert_int_equal(ladder.event[0].lane, ladder.packet[0].from);
	assert_int_equal(ladder.lane[ladder.event[1].lane].qpn, 1);
	assert_int_equal(ladder.lane[ladder.event[2].lane].qpn, LADDER_NO_QP);
	end(&ladder, &capture, file);
}

/* Both processes have a QP1 at one address; only what arrives is recorded. */
static void a_message_of_one_of_two_processes_is_the_others(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet packet = { .op = opcode_get(OPCODE_UD_SEND_ONLY), .dest_qpn = 1, .psn = 1,
				 .deth = { QKEY_GSI, 1 }, .payload_bytes = MAD_BYTES };
	struct capture capture;
	struct ladder ladder;

	file_packet(file, 0, 1000, FILE_IN, &packet, 1, 1, "qp 0x000001");
	packet.psn = 2;
	file_packet(file, 2, 2000, FILE_IN, &packet, 1, 1, "qp 0x000001");
	make(&ladder, &capture, file);
	assert_int_equal(ladder.lanes, 2);
	assert_int_equal(ladder.packet[0].from, ladder.packet[1].to);
	assert_int_equal(ladder.packet[1].from, ladder.packet[0].to);
	end(&ladder, &capture, file);
}

/* ---- how a page shows it ---- */

/* What is sent at 1000 and stamped at 5000, as its call took long, arrives at 4000; the answer is quick. */
static void moments_are_by_time_and_what_begins_is_before_what_ends(void **state)
{
	static const uint32_t expected[] = { 6, 0, 1, 2, 3, 4 };
	struct trace_file *file = two_processes(false);
	struct packet packet = request(7), answer = acknowledge(7);
	struct ladder_order order;
	struct capture capture;
	struct ladder ladder;

	file_event(file, 1, 900, "{\"v\":1,\"event\":\"call\",\"name\":\"ibv_post_send\","
		   "\"qp\":\"0x000011\"}");
	file_packet(file, 0, 5000, FILE_OUT, &packet, 1, 2, "path udp; qp 0x000011");
	file_packet(file, 2, 4000, FILE_IN, &packet, 1, 2, "path udp; qp 0x000022");
	file_packet(file, 2, 4500, FILE_OUT, &answer, 2, 1, "path udp; qp 0x000022");
	file_packet(file, 0, 4500, FILE_IN, &answer, 2, 1, "path udp; qp 0x000011");
	packet = request(8);
	file_packet(file, 0, 9000, FILE_OUT, &packet, 1, 2, "path udp; qp 0x000011");
	make(&ladder, &capture, file);
	assert_int_equal(ladder.packets, 3);
	assert_int_equal(ladder_order_make(&ladder, &order), 0);
	assert_int_equal(order.moments, sizeof(expected) / sizeof(*expected));
	assert_memory_equal(order.moment, expected, sizeof(expected));
	assert_int_equal(ladder_moment_ns(&ladder, order.moment[1]), 4000);
	assert_int_equal(order.median_ns, 500);		/* of 3100, 0, 500, 0, 4500 */
	ladder_order_free(&order);
	end(&ladder, &capture, file);
}

static void set_up_is_folded_but_no_post_and_nothing_that_failed(void **state)
{
	static const struct { const char *fields; uint64_t time_ns; uint8_t folded; } events[] = {
		{ "\"call\",\"name\":\"ibv_open_device\"", 100, 1 },
		{ "\"call\",\"name\":\"ibv_reg_mr\",\"error\":\"ENOMEM\"", 200, 0 },
		{ "\"cm\",\"name\":\"RDMA_CM_EVENT_ESTABLISHED\"", 300, 1 },
		{ "\"explain\",\"text\":\"why\"", 400, 0 },
		{ "\"call\",\"name\":\"ibv_post_recv\",\"qp\":\"0x000011\"", 500, 0 },
		{ "\"call\",\"name\":\"ibv_poll_cq\"", 2000, 0 },
		{ "\"completion\",\"status\":\"SUCCESS\"", 3000, 0 },
		{ "\"call\",\"name\":\"ibv_query_qp\"", 4000, 0 },
		{ "\"async\",\"name\":\"IBV_EVENT_DEVICE_FATAL\"", 5000, 0 },
		{ "\"call\",\"name\":\"ibv_close_device\"", 6000, 1 },
		{ "\"counters\"", 7000, 1 },
	};
	struct trace_file *file = two_processes(false);
	struct packet packet = request(7);
	struct ladder_order order;
	struct capture capture;
	struct ladder ladder;

	for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++) {
		char json[120];

		snprintf(json, sizeof(json), "{\"v\":1,\"event\":%s}", events[i].fields);
		file_event(file, 1, events[i].time_ns, json);
	}
	file_packet(file, 0, 1000, FILE_OUT, &packet, 1, 2, "qp 0x000011");
	file_packet(file, 2, 2500, FILE_IN, &packet, 1, 2, "qp 0x000022");
	make(&ladder, &capture, file);
	assert_int_equal(ladder_order_make(&ladder, &order), 0);
	for (size_t i = 0; i < sizeof(events) / sizeof(*events); i++)
		if (order.folded[i] != events[i].folded)
			fail_msg("%s: folded %d", events[i].fields, order.folded[i]);
	ladder_order_free(&order);
	end(&ladder, &capture, file);
}

/* Though the other one calls before it: queue pairs face each other, calls stand outside. */
static void who_sends_first_stands_left_and_queue_pairs_face_each_other(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet packet = request(7), answer = acknowledge(7);
	static const uint32_t qpn[] = { 0x22, 0x11, LADDER_NO_QP };
	struct ladder_order order;
	struct capture capture;
	struct ladder ladder;

	packet.dest_qpn = 0x11;
	answer.dest_qpn = 0x22;
	file_event(file, 1, 100, "{\"v\":1,\"event\":\"call\",\"name\":\"ibv_open_device\"}");
	file_packet(file, 2, 1000, FILE_OUT, &packet, 2, 1, "qp 0x000022");
	file_packet(file, 0, 2000, FILE_IN, &packet, 2, 1, "qp 0x000011");
	file_packet(file, 0, 3000, FILE_OUT, &answer, 1, 2, "qp 0x000011");
	file_packet(file, 2, 4000, FILE_IN, &answer, 1, 2, "qp 0x000022");
	make(&ladder, &capture, file);
	assert_int_equal(ladder.lanes, 3);
	assert_int_equal(ladder_order_make(&ladder, &order), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(ladder.lane[order.lane[i]].qpn, qpn[i]);
	ladder_order_free(&order);
	end(&ladder, &capture, file);
}

/* ---- captures of others ---- */

static void read_golden(struct capture *capture, const char *name)
{
	char path[512];

	snprintf(path, sizeof(path), "%s/%s", GOLDEN_DIRECTORY, name);
	*capture = (struct capture){ .record = NULL };
	assert_int_equal(capture_read(capture, path), 0);
	capture_sort(capture);
}

static void senders_are_found_by_their_answers(void **state)
{
	static const char *const captures[] = {
		"rping.pcap", "rc_pingpong.pcap", "write_lat-5.pcap", "atomic_cs.pcap", "send_ud-5.pcap",
		"read_bw-8k.pcap", "rping-v6.pcap",
	};

	for (size_t i = 0; i < sizeof(captures) / sizeof(*captures); i++) {
		struct capture capture;
		struct ladder ladder;

		read_golden(&capture, captures[i]);
		assert_int_equal(ladder_make(&ladder, &capture, names), 0);
		assert_true(ladder.packets > 0);
		for (unsigned lane = 0; lane < ladder.lanes; lane++)
			assert_int_not_equal(ladder.lane[lane].qpn, LADDER_QP_UNKNOWN);
		ladder_free(&ladder);
		capture_free(&capture);
	}
}

static void a_file_cut_at_any_byte_gives_what_precedes(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet packet = request(7);
	size_t begin = file->used, before = 0;

	for (uint32_t psn = 0; psn < 4; psn++) {
		packet = request(psn);
		file_packet(file, 0, 1000 + psn, FILE_OUT, &packet, 1, 2, "qp 0x000011; wr_id 5");
	}
	for (size_t bytes = 0; bytes <= file->used; bytes++) {
		struct capture capture = { .record = NULL };
		int err = capture_parse(&capture, file_copy(file, bytes), bytes);

		assert_true(err == 0 || err == EINVAL);
		assert_true(bytes < begin || !err);
		if (!err) {
			assert_true(capture.records == before || capture.records == before + 1);
			assert_true(capture.records == before + 1 || capture.warnings || bytes == begin ||
				    capture.sources < 3);
			before = capture.records;
		}
		capture_free(&capture);
	}
	assert_int_equal(before, 4);
	free(file);
}

/* Pages of damaged files: what matters is the sanitizers, and that it ends. */
static void damaged_files_do_no_harm(void **state)
{
	struct trace_file *file = two_processes(false);
	uint64_t random = 1;
	FILE *null = fopen("/dev/null", "w");

	for (uint32_t psn = 0; psn < 20; psn++) {
		struct packet packet = request(psn), ack = acknowledge(psn);

		file_packet(file, 0, 1000 + 10 * psn, FILE_OUT, &packet, 1, 2, "qp 0x000011; wr_id 5; path ring");
		file_packet(file, 2, 1003 + 10 * psn, FILE_IN, &packet, 1, 2, "qp 0x000022; dropped for a reason");
		file_packet(file, 2, 1005 + 10 * psn, FILE_OUT, &ack, 2, 1, "qp 0x000022");
		file_event(file, 1, 1001 + 10 * psn, "{\"v\":1,\"event\":\"state\",\"qp\":\"0x000011\","
			   "\"to\":\"RTS\"}");
	}
	for (unsigned round = 0; round < (getenv("TEST_LONG") ? 20000 : 1000); round++) {
		struct capture capture = { .record = NULL };
		struct ladder_page page = { .paths = names };
		struct ladder ladder;
		uint8_t *copy = file_copy(file, file->used);

		for (unsigned i = 0; i < 1 + round % 40; i++)
			copy[test_random(&random) % file->used] = (uint8_t)(test_random(&random) >> 8);
		if (!capture_parse(&capture, copy, file->used)) {
			capture_sort(&capture);
			assert_int_equal(ladder_make(&ladder, &capture, names), 0);
			if (round % 20 == 0)
				ladder_page_write(&ladder, &page, null);
			ladder_free(&ladder);
		}
		capture_free(&capture);
	}
	fclose(null);
	free(file);
}

static void what_a_trace_says_cannot_end_the_script_of_the_page(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet packet = request(7);
	struct ladder_page page = { .title = "</script><b>", .about = "<!--", .paths = names };
	struct capture capture;
	struct ladder ladder;
	char *text;
	size_t bytes, ends = 0, comments = 0;
	FILE *out = open_memstream(&text, &bytes);

	file_packet(file, 0, 1000, FILE_OUT, &packet, 1, 2, "</script><script>alert(1)</script>\xff\xc0\x80\"\\");
	file_event(file, 1, 900, "</SCRIPT><img src=x onerror=alert(1)>");
	make(&ladder, &capture, file);
	ladder_page_write(&ladder, &page, out);
	fclose(out);
	for (const char *at = text; (at = strcasestr(at, "</script")); at++)
		ends++;
	for (const char *at = text; (at = strstr(at, "<!--")); at++)
		comments++;
	assert_int_equal(ends, 2);		/* the template's: data and scripts */
	assert_int_equal(comments, 1);		/* its licence */
	assert_null(strstr(text, "<img"));
	free(text);
	end(&ladder, &capture, file);
}

/* ---- the picture ---- */

static void a_picture_says_what_each_row_is(void **state)
{
	struct trace_file *file = two_processes(false);
	struct packet packet = request(7), answer = acknowledge(7);
	struct ladder_page page = { .title = "<b>&", .paths = names };
	struct capture capture;
	struct ladder ladder;
	size_t bytes, lines = 0;
	char *text, *call, *lost;
	FILE *out = open_memstream(&text, &bytes);

	file_packet(file, 0, 1000, FILE_OUT, &packet, 1, 2, "payload 13; qp 0x000011");
	file_packet(file, 0, 2500, FILE_OUT, &packet, 1, 2, "payload 13; qp 0x000011; retransmission 1");
	file_packet(file, 2, 3500, FILE_IN, &packet, 1, 2, "payload 13; qp 0x000022");
	file_packet(file, 2, 4000, FILE_OUT, &answer, 2, 1, "qp 0x000022");
	file_packet(file, 0, 4500, FILE_IN, &answer, 2, 1, "qp 0x000011");
	file_event(file, 1, 900, "{\"v\":1,\"event\":\"call\",\"name\":\"ibv_post_send\",\"qp\":\"0x000011\","
		   "\"opcode\":\"<img>\",\"error\":\"ENOMEM\"}");
	make(&ladder, &capture, file);
	assert_int_equal(ladder_svg_write(&ladder, &page, out), 0);
	fclose(out);
	call = strstr(text, "ibv_post_send &lt;img> fails: ENOMEM");
	lost = strstr(text, "PSN 7, 13 bytes, lost");
	assert_non_null(call);
	assert_non_null(lost);
	assert_true(call < lost && lost < strstr(text, "PSN 7, 13 bytes, again"));
	assert_non_null(strstr(text, "RC_ACKNOWLEDGE, PSN 7<"));
	assert_non_null(strstr(text, ">0.0 us<"));
	assert_non_null(strstr(text, ">1.6 us<"));
	assert_non_null(strstr(text, "<title>&lt;b>&amp;</title>"));
	assert_null(strstr(text, "<img"));
	for (const char *at = text; (at = strstr(at, "class=\"life\"")); at++)
		lines++;
	assert_int_equal(lines, ladder.lanes);
	free(text);
	end(&ladder, &capture, file);
}

/* ---- field.def against wire/packet.c ---- */

struct field { const char *layer, *name; unsigned bit, width; };
static const struct field fields[] = {
#define LAYER(id, name, clause, words)
#define FIELD(layer, name, bit, width, format, words) { #layer, name, bit, width },
#define CM_CLAUSE(message, clause, words)
#define CM_WORDS(field, words)
#include "ladder/field.def"
};

static uint64_t field_value(const uint8_t *at, const char *layer, const char *name)
{
	uint64_t value = 0;

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
		if (strcmp(fields[i].layer, layer) || strcmp(fields[i].name, name))
			continue;
		for (unsigned bit = fields[i].bit; bit < fields[i].bit + fields[i].width; bit++)
			value = value << 1 | (at[bit / 8] >> (7 - bit % 8) & 1);
		return value;
	}
	fail_msg("no field %s %s", layer, name);
	return 0;
}

static size_t layer_bytes(const char *layer)
{
	size_t most = 0;

	for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++)
		if (!strcmp(fields[i].layer, layer) && fields[i].bit + fields[i].width > most)
			most = fields[i].bit + fields[i].width;
	return most / 8;
}

static void check_bth(const uint8_t *at, const struct packet *packet)
{
	assert_int_equal(field_value(at, "BTH", "opcode"), packet->op->code);
	assert_int_equal(field_value(at, "BTH", "solicited event"), packet->solicited);
	assert_int_equal(field_value(at, "BTH", "MigReq"), packet->migrated);
	assert_int_equal(field_value(at, "BTH", "P_Key"), packet->pkey);
	assert_int_equal(field_value(at, "BTH", "FECN"), packet->fecn);
	assert_int_equal(field_value(at, "BTH", "BECN"), packet->becn);
	assert_int_equal(field_value(at, "BTH", "destination QP"), packet->dest_qpn);
	assert_int_equal(field_value(at, "BTH", "AckReq"), packet->ack_request);
	assert_int_equal(field_value(at, "BTH", "PSN"), packet->psn);
}

/* Behind the BTH, in the order of enum opcode_headers. Returns where they end. */
static const uint8_t *check_extensions(const uint8_t *at, const struct packet *packet)
{
	unsigned headers = packet->op->headers;

#define LAYER_IS(header, layer, ...) if (headers & (header)) { \
	const struct { const char *name; uint64_t value; } expected[] = { __VA_ARGS__ }; \
	for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) \
		assert_int_equal(field_value(at, layer, expected[i].name), expected[i].value); \
	at += layer_bytes(layer); }
	LAYER_IS(HDR_XRC, "XRCETH", { "SRQ", packet->srqn })
	LAYER_IS(HDR_FETH, "FETH", { "selectivity level", packet->feth.level },
		 { "placement type", packet->feth.type })
	LAYER_IS(HDR_DETH, "DETH", { "Q_Key", packet->deth.qkey },
		 { "source QP", packet->deth.source_qpn })
	LAYER_IS(HDR_RETH, "RETH", { "virtual address", packet->reth.address }, { "R_Key", packet->reth.rkey },
		 { "DMA length", packet->reth.length })
	LAYER_IS(HDR_ATOMIC, "ATOMICETH", { "virtual address", packet->atomic.address },
		 { "R_Key", packet->atomic.rkey }, { "swap or add", packet->atomic.swap_add },
		 { "compare", packet->atomic.compare })
	LAYER_IS(HDR_AETH, "AETH", { "syndrome", packet->aeth.syndrome }, { "MSN", packet->aeth.msn })
	LAYER_IS(HDR_ATOMIC_ACK, "ATOMICACKETH", { "original data", packet->atomic_original })
	LAYER_IS(HDR_IMM, "IMMDT", { "immediate data", packet->imm })
	LAYER_IS(HDR_IETH, "IETH", { "R_Key", packet->invalidate_rkey })
	LAYER_IS(HDR_CNP, "CNP", { "magic", ECHO_MAGIC }, { "PSN", packet->echo.psn }, { "QP", packet->echo.qpn },
		 { "group", packet->echo.group })
#undef LAYER_IS
	return at;
}

static void fields_are_where_packets_have_them(void **state)
{
	for (unsigned code = 0; code < 256; code++) {
		uint8_t out[PACKET_HEADER_MAX + 16];
		struct packet packet = {
			.op = opcode_get((uint8_t)code), .solicited = true, .fecn = true, .ack_request = true,
			.pkey = 0x8001, .dest_qpn = 0x123456, .psn = 0x789abc, .srqn = 0x654321,
			.feth = { .type = 2, .level = 1 }, .deth = { 0x11223344, 0x556677 },
			.reth = { 0x1122334455667788, 0x99aabbcc, 0xddeeff00 },
			.atomic = { 0x8877665544332211, 0xccbbaa99, 0x123456789abcdef0, 0x0fedcba987654321 },
			.aeth = { 0x62, 0xabcdef }, .atomic_original = 0x1020304050607080, .imm = 0xa1b2c3d4,
			.invalidate_rkey = 0xd4c3b2a1, .echo = { true, 0x102030, 0x405060, 0x708090a0 },
		};

		if (!packet.op)
			continue;
		assert_int_equal(packet_write_headers(&packet, out), packet.op->header_bytes);
		check_bth(out, &packet);
		assert_int_equal(check_extensions(out + BTH_BYTES, &packet) - out, packet.op->header_bytes);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_one_sent_and_the_other_received_is_one_packet),
		cmocka_unit_test(of_two_sent_the_one_that_nobody_received_is_lost),
		cmocka_unit_test(a_repetition_is_found_without_a_comment),
		cmocka_unit_test(an_operation_through_memory_is_one_and_has_no_psn),
		cmocka_unit_test(a_message_in_a_ring_is_one_thing_of_both_ends),
		cmocka_unit_test(all_that_follows_from_a_loss_is_one_problem),
		cmocka_unit_test(a_refusal_and_the_drops_that_it_explains_are_one_problem),
		cmocka_unit_test(a_planted_loss_is_found_by_its_event),
		cmocka_unit_test(what_is_underway_at_the_end_is_not_lost),
		cmocka_unit_test(of_an_original_and_its_repetition_the_original_arrives_first),
		cmocka_unit_test(an_answer_to_a_queue_pair_that_is_gone_is_late_and_no_problem),
		cmocka_unit_test(a_sender_that_tells_repetitions_is_believed),
		cmocka_unit_test(what_is_copied_directly_is_never_lost),
		cmocka_unit_test(an_ack_answers_for_all_before_it),
		cmocka_unit_test(a_nak_answers_for_nothing),
		cmocka_unit_test(events_stand_on_their_queue_pair),
		cmocka_unit_test(a_message_of_one_of_two_processes_is_the_others),
		cmocka_unit_test(moments_are_by_time_and_what_begins_is_before_what_ends),
		cmocka_unit_test(set_up_is_folded_but_no_post_and_nothing_that_failed),
		cmocka_unit_test(who_sends_first_stands_left_and_queue_pairs_face_each_other),
		cmocka_unit_test(senders_are_found_by_their_answers),
		cmocka_unit_test(a_file_cut_at_any_byte_gives_what_precedes),
		cmocka_unit_test(damaged_files_do_no_harm),
		cmocka_unit_test(what_a_trace_says_cannot_end_the_script_of_the_page),
		cmocka_unit_test(a_picture_says_what_each_row_is),
		cmocka_unit_test(fields_are_where_packets_have_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
