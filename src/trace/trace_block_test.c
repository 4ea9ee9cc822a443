/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets by LID as blocks: what a link of InfiniBand carries, as readers of LRHs want it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "trace/block.h"
#include "trace/trace.h"
#include "wire/ib_packet.h"

#define ERF_BYTES	16u
#define HEAD_BYTES	28u	/* of a block, in front of the packet */
#define WORDS		"h1[1], sw1[1>3], h2[1]"
#define COMMENT		"path fabric; route " WORDS

/* A SEND of 64 bytes without payload, its route behind it. */
struct sent {
	uint8_t data[BTH_BYTES + 64 + sizeof(WORDS)];
	struct trace_record record;
	uint8_t block[TRACE_BLOCK_MAX];
	size_t bytes, shown;			/* of the block; of what it shows */
};

static void make(struct sent *sent, size_t captured, bool has_grh, bool twin)
{
	const struct ib_way way = { .sl = 3, .has_grh = has_grh };
	uint32_t shown;

	*sent = (struct sent){ .data = { 4 },
			       .record = { .kind = TRACE_IS_PACKET, .path = TRACE_FABRIC, .hop_limit = 5,
					   .flags = TRACE_OUTBOUND, .route = sizeof(WORDS) - 1 } };
	memset(sent->record.source, 0xfe, 16);
	memset(sent->record.destination, 0xfd, 16);
	trace_record_lids(&sent->record, 0x12, 0x1234, &way);
	memcpy(sent->data + captured, WORDS, sizeof(WORDS) - 1);
	sent->bytes = trace_packet_block(&sent->record, 7, true, twin, sent->data, captured,
					 BTH_BYTES + 64 + ICRC_BYTES, sent->block);
	memcpy(&shown, sent->block + 20, sizeof(shown));
	sent->shown = shown;
}

static void check_packet(const struct sent *sent, size_t before, bool has_grh)
{
	const uint8_t *packet = sent->block + HEAD_BYTES + before;
	struct ib_packet parsed;

	assert_int_equal(ib_packet_parse(packet, sent->shown - before, &parsed), IB_PARSE_OK);
	assert_true(parsed.icrc_good && parsed.vcrc_good);
	assert_int_equal(parsed.route.slid, 0x12);
	assert_int_equal(parsed.route.dlid, 0x1234);
	assert_int_equal(parsed.route.sl, 3);
	assert_int_equal(parsed.route.vl, 0);
	assert_int_equal(parsed.route.has_grh, has_grh);
	if (!has_grh)
		return;
	assert_int_equal(parsed.route.grh.hoplmt, 5);
	assert_int_equal(parsed.route.grh.sgid[15], 0xfe);
	assert_int_equal(parsed.route.grh.dgid[0], 0xfd);
}

static void packets_by_lid_are_those_of_a_link(void **unused)
{
	static const size_t captured[] = { BTH_BYTES, BTH_BYTES + 64 };

	for (unsigned i = 0; i < 4; i++) {
		bool has_grh = i & 1;
		struct sent sent;
		uint32_t length;

		make(&sent, captured[i / 2], has_grh, false);
		assert_int_equal(sent.block[HEAD_BYTES + 8], 21);
		assert_int_equal(get_be16(sent.block + HEAD_BYTES + 10), sent.shown);
		assert_int_equal(get_be16(sent.block + HEAD_BYTES + 14), sent.shown - ERF_BYTES);
		check_packet(&sent, ERF_BYTES, has_grh);
		memcpy(&length, sent.block + 24, sizeof(length));
		assert_int_equal(length, ERF_BYTES + IB_LRH_BYTES + (has_grh ? IB_GRH_BYTES : 0) + BTH_BYTES + 64 +
						 ICRC_BYTES + IB_VCRC_BYTES);
		assert_non_null(memmem(sent.block, sent.bytes, COMMENT, sizeof(COMMENT) - 1));
		assert_true(sent.bytes % 4 == 0 && sent.bytes <= TRACE_BLOCK_MAX);
	}
}

/* The other end of a packet stands behind the name of a dissector, and begins with its LRH. */
static void the_other_end_has_no_record_of_erf(void **unused)
{
	struct sent sent;

	make(&sent, BTH_BYTES, true, true);
	assert_memory_equal(sent.block + HEAD_BYTES + 4, PCAPNG_TWIN, sizeof(PCAPNG_TWIN));
	check_packet(&sent, 24, true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets_by_lid_are_those_of_a_link),
		cmocka_unit_test(the_other_end_has_no_record_of_erf),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
