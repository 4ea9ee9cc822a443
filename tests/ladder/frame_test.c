/* SPDX-License-Identifier: BSD-2-Clause */
/* A packet of RDMA is found in frames of each form; one that is cut anywhere is no packet and no crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "frame.h"

/* BTH of an RC SEND Only to QP 0x22, PSN 7, with 4 bytes of payload and an ICRC. */
#define BTH "\x04\x40\xff\xff\0\0\0\x22\x80\0\0\x07" "data" "\1\2\3\4"
#define BTH_LENGTH 20
#define UDP "\xc0\0\x12\xb7\0\x1c\0\0" BTH
#define HOSTS "\x0a\0\0\1\x0a\0\0\2"
#define IPV4_(fragment, protocol, total) \
	"\x45\0\0" total "\0\1" fragment "\x40" protocol "\0\0" HOSTS
#define IPV4 IPV4_("\x40\0", "\x11", "\x30") UDP
#define IPV6_(next, length) "\x60\0\0\0\0" length next "\x40" \
	"\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1" "\xfd\0\0\0\0\0\0\0\0\0\0\0\0\0\0\2"
#define IPV6 IPV6_("\x11", "\x1c") UDP
#define GRH IPV6_("\x1b", "\x14") BTH
#define MACS "\2\0\0\0\0\1\2\0\0\0\0\2"
#define ETHERNET MACS "\x08\0" IPV4
#define TUNNEL(port, total, udp_length) \
	MACS "\x08\0" IPV4_("\0\0", "\x11", total) "\xc0\0" port "\0" udp_length "\0\0"
#define VXLAN "\x08\0\0\0\0\0\x64\0"
#define LRH(next, words) "\0" next "\0\x9\0" words "\0\7"
#define TWIN "\0\x0c\0\x10" "verbatim_twin\0\0\0" "\0\0\0\0"
#define ERF(type) "\0\0\0\0\0\0\0\0" type "\0\0\0\0\0\0\0"

#define ROW(linktype, bytes, bth, form) { #bytes, linktype, bytes, sizeof(bytes) - 1, bth, form }

static const struct row {
	const char *name;
	uint16_t linktype;
	const char *bytes;
	size_t length;
	int bth;
	enum frame_form form;
} rows[] = {
	ROW(LINKTYPE_ETHERNET, ETHERNET, 42, FRAME_ROCE_V2),
	ROW(LINKTYPE_ETHERNET, MACS "\x86\xdd" IPV6, 62, FRAME_ROCE_V2),
	ROW(LINKTYPE_ETHERNET, MACS "\x88\xa8\0\1\x81\0\0\2\x08\0" IPV4, 50, FRAME_ROCE_V2),
	ROW(LINKTYPE_ETHERNET, MACS "\x91\0\0\1\x81\0\0\2\x08\0" IPV4, 50, FRAME_ROCE_V2),
	ROW(LINKTYPE_ETHERNET, MACS "\x88\x47\0\1\0\x40\0\2\1\x40" IPV4, 50, FRAME_ROCE_V2),
	ROW(LINKTYPE_ETHERNET, MACS "\x89\x15" GRH, 54, FRAME_ROCE_V1),
	ROW(LINKTYPE_ETHERNET, MACS "\x81\0\0\2\x89\x15" GRH, 58, FRAME_ROCE_V1),
	ROW(LINKTYPE_ETHERNET, TUNNEL("\x12\xb5", "\x62", "\x4e") VXLAN ETHERNET, 92, FRAME_ROCE_V2),
	ROW(LINKTYPE_ETHERNET, TUNNEL("\x21\x18", "\x62", "\x4e") VXLAN ETHERNET, 92, FRAME_ROCE_V2),
	ROW(LINKTYPE_ETHERNET, TUNNEL("\x17\xc1", "\x66", "\x52") "\1\0\x65\x58\0\0\x64\0" "optn" ETHERNET, 96,
	    FRAME_ROCE_V2),
	ROW(LINKTYPE_ETHERNET, MACS "\x08\0" IPV4_("\0\0", "\x2f", "\x62") "\x20\0\x65\x58" "key." ETHERNET, 84,
	    FRAME_ROCE_V2),
	ROW(LINKTYPE_ETHERNET, MACS "\x08\0" IPV4_("\0\0", "\x2f", "\x48") "\0\0\x08\0" IPV4, 66, FRAME_ROCE_V2),
	ROW(LINKTYPE_ETHERNET, MACS "\x08\0" IPV4_("\0\0", "\x29", "\x58") IPV6, 82, FRAME_ROCE_V2),
	ROW(LINKTYPE_ETHERNET, MACS "\x86\xdd" IPV6_("\0", "\x24") "\x11\0\1\4\0\0\0\0" UDP, 70, FRAME_ROCE_V2),
	ROW(LINKTYPE_LINUX_SLL, "\0\0\0\1\0\6\2\0\0\0\0\1\0\0\x08\0" IPV4, 44, FRAME_ROCE_V2),
	ROW(LINKTYPE_LINUX_SLL, "\0\0\0\1\0\6\2\0\0\0\0\1\0\0\x89\x15" GRH, 56, FRAME_ROCE_V1),
	ROW(LINKTYPE_LINUX_SLL2, "\x08\0\0\0\0\0\0\1\0\1\0\6\2\0\0\0\0\1\0\0" IPV4, 48, FRAME_ROCE_V2),
	ROW(LINKTYPE_LINUX_SLL2, "\x89\x15\0\0\0\0\0\1\0\1\0\6\2\0\0\0\0\1\0\0" GRH, 60, FRAME_ROCE_V1),
	ROW(LINKTYPE_NULL, "\2\0\0\0" IPV4, 32, FRAME_ROCE_V2),
	ROW(LINKTYPE_NULL, "\0\0\0\x1e" IPV6, 52, FRAME_ROCE_V2),
	ROW(LINKTYPE_LOOP, "\0\0\0\2" IPV4, 32, FRAME_ROCE_V2),
	ROW(LINKTYPE_RAW, IPV4, 28, FRAME_ROCE_V2),
	ROW(LINKTYPE_RAW_BSD, IPV6, 48, FRAME_ROCE_V2),
	ROW(LINKTYPE_RAW_OPENBSD, IPV4, 28, FRAME_ROCE_V2),
	ROW(LINKTYPE_IPV4, IPV4, 28, FRAME_ROCE_V2),
	ROW(LINKTYPE_IPV6, IPV6, 48, FRAME_ROCE_V2),
	ROW(LINKTYPE_INFINIBAND, LRH("\2", "\7") BTH "vc", 8, FRAME_INFINIBAND),
	ROW(LINKTYPE_ERF, ERF("\x15") LRH("\2", "\7") BTH "vc", 24, FRAME_INFINIBAND),
	ROW(LINKTYPE_ERF, ERF("\x95") "\0\0\0\0\0\0\0\0" LRH("\3", "\x11") GRH "vc", 72, FRAME_INFINIBAND),
	ROW(LINKTYPE_ERF, ERF("\2") "\0\0" ETHERNET, 60, FRAME_ROCE_V2),
	ROW(LINKTYPE_EXPORTED_PDU, TWIN IPV4, 52, FRAME_ROCE_V2),
};

static enum frame_kind parse(const char *bytes, size_t length, uint16_t linktype, struct frame *frame)
{
	/* So that a sanitizer sees what is read beyond. */
	uint8_t *copy = malloc(length ? length : 1);
	const struct capture_record record = { .data = copy, .bytes = (uint32_t)length,
					       .length = (uint32_t)length };
	enum frame_kind kind;

	memcpy(copy, bytes, length);
	kind = frame_parse(&record, linktype, frame);
	free(copy);
	return kind;
}

static void a_packet_is_found_in_each_form(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		const struct row *row = &rows[i];
		struct frame frame;

		if (parse(row->bytes, row->length, row->linktype, &frame) != FRAME_PACKET ||
		    frame.bth != row->bth || frame.form != row->form || frame.packet.dest_qpn != 0x22 ||
		    frame.packet.psn != 7 || frame.packet.payload_bytes != 4 || frame.payload_captured != 4)
			fail_msg("link type %u, %s: BTH at %d", row->linktype, row->name, frame.bth);
	}
}

static void a_frame_that_is_cut_is_no_packet(void **state)
{
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
		for (size_t length = 0; length < rows[i].length; length++) {
			struct frame frame;
			enum frame_kind kind = parse(rows[i].bytes, length, rows[i].linktype, &frame);

			assert_true(kind != FRAME_PACKET || (int)length >= rows[i].bth + (int)BTH_BYTES);
		}
}

static void lids_are_addresses(void **state)
{
	static const char bytes[] = LRH("\2", "\7") BTH;
	struct frame frame;

	assert_int_equal(parse(bytes, sizeof(bytes) - 1, LINKTYPE_INFINIBAND, &frame), FRAME_PACKET);
	assert_int_equal(frame_lid_of(frame.source), 7);
	assert_int_equal(frame_lid_of(frame.destination), 9);
	assert_int_equal(parse(IPV4, sizeof(IPV4) - 1, LINKTYPE_RAW, &frame), FRAME_PACKET);
	assert_int_equal(frame_lid_of(frame.source), -1);
}

/* The first fragment has the headers; lengths are those of UDP. */
static void of_fragments_the_first_is_read(void **state)
{
	static const char first[] = IPV4_("\x20\0", "\x11", "\x28") "\xc0\0\x12\xb7\0\x1c\0\0"
				    "\x04\x40\xff\xff\0\0\0\x22\x80\0\0\x07";
	static const char later[] = IPV4_("\0\2", "\x11", "\x1c") "data\1\2\3\4";
	struct frame frame;

	assert_int_equal(parse(first, sizeof(first) - 1, LINKTYPE_RAW, &frame), FRAME_PACKET);
	assert_true(frame.is_fragment);
	assert_int_equal(frame.packet.payload_bytes, 4);
	assert_int_equal(frame.payload_captured, 0);
	assert_int_equal(parse(later, sizeof(later) - 1, LINKTYPE_RAW, &frame), FRAME_REST);
}

static void what_is_not_read_is_told_apart(void **state)
{
	static const char tcp[] = MACS "\x08\0" IPV4_("\0\0", "\6", "\x30") UDP;
	struct frame frame;

	assert_int_equal(parse(tcp, sizeof(tcp) - 1, LINKTYPE_ETHERNET, &frame), FRAME_OTHER);
	assert_int_equal(parse(IPV4, sizeof(IPV4) - 1, 147, &frame), FRAME_LINK);
	assert_int_equal(parse("\0\x0c\0\4json\0\0\0\0{}", 14, LINKTYPE_EXPORTED_PDU, &frame), FRAME_OTHER);
	assert_int_equal(parse(ERF("\5") "cell", 20, LINKTYPE_ERF, &frame), FRAME_LINK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_packet_is_found_in_each_form),
		cmocka_unit_test(a_frame_that_is_cut_is_no_packet),
		cmocka_unit_test(lids_are_addresses),
		cmocka_unit_test(of_fragments_the_first_is_read),
		cmocka_unit_test(what_is_not_read_is_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
