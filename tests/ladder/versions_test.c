/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What went through memory, written as packets ("v":1) and as what it is ("v":2): readers see the same.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "ladder.h"
#include "trace.h"
#include "wire/opcode.h"

#define OPERATIONS 13u
/* By turns IPv4 and IPv6. */
#define IPV4(i, byte) ((i) % 4 < 2 ? (byte) : 0)
#define ADDRESS(i, host) { 0xfd - IPV4(i, 0xfd), [10] = IPV4(i, 0xff), IPV4(i, 0xff), [15] = host }

struct recorded {
	struct trace_record record;
	struct trace_operation operation;
};

/* One of each kind, at the requester; messages at the responder, too, and their answers. */
static unsigned make_operations(struct recorded out[3 * OPERATIONS])
{
	static const struct {
		uint8_t verb, imm, inv, swaps, service;
		uint32_t bytes;
		bool message;
	} rows[OPERATIONS] = {
		{ VERB_WRITE, 0, 0, 0, SERVICE_RC, 8, false },
		{ VERB_WRITE, 0, 0, 0, SERVICE_RC, 2053, false },
		{ VERB_WRITE, 0, 0, 0, SERVICE_UC, 4096, false },
		{ VERB_READ, 0, 0, 0, SERVICE_RC, 0, false },
		{ VERB_READ, 0, 0, 0, SERVICE_RC, 5000, false },
		{ VERB_ATOMIC, 0, 0, 1, SERVICE_RC, 8, false },
		{ VERB_ATOMIC, 0, 0, 0, SERVICE_RC, 8, false },
		{ VERB_SEND, 0, 0, 0, SERVICE_RC, 0, true },
		{ VERB_SEND, 1, 0, 0, SERVICE_RC, 3000, true },
		{ VERB_SEND, 0, 1, 0, SERVICE_RC, 17, true },
		{ VERB_SEND, 0, 1, 0, SERVICE_RC, 1700, true },
		{ VERB_WRITE, 1, 0, 0, SERVICE_RC, 9, true },
		{ VERB_WRITE, 1, 0, 0, SERVICE_RC, 9000, true },
	};
	unsigned count = 0;

	for (unsigned i = 0; i < OPERATIONS; i++) {
		struct recorded *one = &out[count++];

		*one = (struct recorded){
			.record = { .kind = TRACE_IS_OPERATION,
				    .path = rows[i].message ? TRACE_RING : TRACE_DIRECT,
				    .state = 4,
				    .qpn = 0x11,
				    .wr_id = 100 + i,
				    .message = i,
				    .time_ns = 1000 * (i + 1),
				    .manner = rows[i].message ? 0 : TRACE_STORED + i % 2,
				    .flags = TRACE_OUTBOUND | TRACE_HAS_WR_ID |
					     (rows[i].message ? TRACE_HAS_MESSAGE : 0),
				    .source = ADDRESS(i, 1),
				    .destination = ADDRESS(i, 2) },
			.operation = { .verb = rows[i].verb,
				       .service = rows[i].service,
				       .has_imm = rows[i].imm,
				       .invalidates = rows[i].inv,
				       .swaps = rows[i].swaps,
				       .acknowledged = !rows[i].message,
				       .psn = i,
				       .mtu = 1024,
				       .bytes = rows[i].bytes,
				       .dest_qpn = 0x22,
				       .rkey = 0x1234 + i,
				       .imm = 0xfedcba98 - i,
				       .address = 0x7f0012345678 + i,
				       .compare_add = ~0ull - i,
				       .swap = 1ull << 63,
				       .original = 0x123456789abcdef0 + i }
		};
		if (!rows[i].message)
			continue;
		out[count] = *one;
		out[count].record.flags = TRACE_HAS_MESSAGE;
		out[count].record.qpn = 0x22;
		out[count++].record.time_ns += 100;
		if (i % 2)
			continue;
		out[count] = (struct recorded){ .record = { .kind = TRACE_IS_OPERATION,
							    .path = TRACE_RING,
							    .state = 4,
							    .qpn = 0x11,
							    .message = i,
							    .time_ns = 1000 * (i + 1) + 300,
							    .flags = TRACE_HAS_MESSAGE,
							    .source = ADDRESS(i, 2),
							    .destination = ADDRESS(i, 1) },
						.operation = { .verb = VERB_ACK,
							       .service = SERVICE_RC,
							       .mtu = 1024,
							       .psn = i,
							       .dest_qpn = 0x11 } };
		count++;
	}
	return count;
}

static void write_and_read(enum trace_version version, struct capture *capture,
			   struct ladder *ladder)
{
	static struct recorded recorded[3 * OPERATIONS];
	char name[] = "/tmp/verbatim-versions-XXXXXX", *const names[] = { name };
	struct source ends[2] = { { .name = "client(10)" }, { .name = "server(11)" } };
	const struct output_options options = { .file = name, .version = version };
	unsigned count = make_operations(recorded);
	struct output *output;
	int fd = mkstemp(name);

	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(output_open(&output, &options), 0);
	output_describe(output, &ends[0]);
	output_describe(output, &ends[1]);
	for (unsigned i = 0; i < count; i++) {
		recorded[i].record.captured = sizeof(recorded[i].operation);
		output_record(output, &ends[recorded[i].record.qpn == 0x22], &recorded[i].record,
			      (const uint8_t *)&recorded[i].operation);
	}
	assert_true(output_close(output));
	*capture = (struct capture){ .record = NULL };
	assert_int_equal(capture_read(capture, name), 0);
	unlink(name);
	capture_sort(capture);
	assert_int_equal(ladder_make(ladder, capture, names), 0);
}

static void an_operation_is_the_same_as_its_packets(void **state)
{
	struct capture captures[2];
	struct ladder ladders[2];

	write_and_read(TRACE_AS_PACKETS, &captures[0], &ladders[0]);
	write_and_read(TRACE_AS_OPERATIONS, &captures[1], &ladders[1]);
	assert_true(captures[1].records < captures[0].records);
	assert_int_equal(ladders[0].packets, OPERATIONS);
	assert_int_equal(ladders[1].packets, OPERATIONS);
	assert_int_equal(ladders[1].events, 0);
	assert_int_equal(ladders[1].operations, ladders[0].operations);
	assert_int_equal(ladders[0].problems + ladders[1].problems, 0);
	for (unsigned i = 0; i < OPERATIONS; i++) {
		const struct ladder_packet *was = &ladders[0].packet[i],
					   *is = &ladders[1].packet[i];
		const struct ladder_operation *old = &ladders[0].operation[was->operation];
		const struct ladder_operation *new = &ladders[1].operation[is->operation];

		assert_int_equal(is->opcode, was->opcode);
		assert_int_equal(is->kind, was->kind);
		assert_int_equal(is->flags, was->flags);
		assert_int_equal(is->psn, LADDER_NO_PSN);
		assert_int_equal(is->dest_qpn, was->dest_qpn);
		assert_int_equal(is->source_qpn, was->source_qpn);
		assert_int_equal(is->payload_bytes, was->payload_bytes);
		assert_int_equal(is->time_ns, was->time_ns);
		assert_int_equal(!is->received, !was->received);
		assert_memory_equal(is->source, was->source, 16);
		assert_memory_equal(is->destination, was->destination, 16);
		assert_int_equal(ladders[1].lane[is->from].qpn, ladders[0].lane[was->from].qpn);
		assert_int_equal(ladders[1].lane[is->to].qpn, ladders[0].lane[was->to].qpn);
		assert_int_equal(new->message, old->message);
		assert_int_equal(new->taken_ns, old->taken_ns);
		assert_int_equal(new->bytes, old->bytes);
		assert_memory_equal(new->extension, old->extension, old->bytes);
		for (const char *const *key =
			     (const char *const[]){ "path", "wr_id", "by", "message", NULL };
		     *key; key++) {
			size_t old_bytes = 0, new_bytes = 0;
			const char *old_value = ladder_comment_value(was->sent, *key, &old_bytes);
			const char *new_value = ladder_comment_value(is->sent, *key, &new_bytes);

			assert_int_equal(new_bytes, old_bytes);
			assert_true(!old_value || !memcmp(new_value, old_value, old_bytes));
		}
	}
	for (unsigned i = 0; i < 2; i++) {
		ladder_free(&ladders[i]);
		capture_free(&captures[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(
		an_operation_is_the_same_as_its_packets) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
