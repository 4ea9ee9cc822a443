/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What rsockets say to each other: the bytes, both ways, and what is refused. All bytes of a peer
 * are tried in turn: nothing that comes out may be out of its bounds.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/test_random.h"
#include "rsockets/wire.h"

static const struct rs_hello hello = {
	.ring_address = 0x0102030405060708, .ring_key = 0x11223344, .ring_bytes = 0x10000,
	.messages = 376, .iomaps = 5 };

static void a_hello_has_these_bytes(void **state)
{
	static const uint8_t expected[RS_HELLO_BYTES] = {
		'V', 'b', 'R', 'S', 0, 2, 0, 0, 0, 0, 1, 0x78, 0, 0, 0, 5,
		1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x22, 0x33, 0x44, 0, 1, 0, 0 };
	uint8_t bytes[RS_HELLO_BYTES];
	struct rs_hello read;
	unsigned version;

	rs_hello_write(&hello, bytes);
	assert_memory_equal(bytes, expected, sizeof(bytes));
	assert_int_equal(rs_hello_read(bytes, sizeof(bytes), &read, &version), 0);
	assert_memory_equal(&read, &hello, sizeof(hello));
}

static void a_hello_may_be_followed_by_padding(void **state)
{
	uint8_t bytes[56] = { 0 };
	struct rs_hello read;
	unsigned version;

	rs_hello_write(&hello, bytes);
	assert_int_equal(rs_hello_read(bytes, sizeof(bytes), &read, &version), 0);
}

static void another_version_is_told_from_another_protocol(void **state)
{
	static const uint8_t theirs[16] = { 1, 0, 0, 100 };	/* as rdma-core begins */
	uint8_t bytes[RS_HELLO_BYTES];
	struct rs_hello read;
	unsigned version = 0;

	rs_hello_write(&hello, bytes);
	bytes[5] = 9;
	assert_int_equal(rs_hello_read(bytes, sizeof(bytes), &read, &version), EPROTONOSUPPORT);
	assert_int_equal(version, 9);
	assert_int_equal(rs_hello_read(bytes, 6, &read, &version), EPROTONOSUPPORT);
	assert_int_equal(rs_hello_read(theirs, sizeof(theirs), &read, &version), EPROTO);
	assert_int_equal(rs_hello_read(NULL, 0, &read, &version), EPROTO);
}

static void a_hello_with_an_impossible_ring_is_refused(void **state)
{
	static const struct { uint32_t ring, messages; } bad[] = {
		{ 0, 1 }, { RS_RING_MIN - 1, 1 }, { (uint32_t)RS_RING_MAX + 1, 1 },
		{ UINT32_MAX, 1 }, { RS_RING_MIN, 0 } };
	uint8_t bytes[RS_HELLO_BYTES];
	struct rs_hello said = hello, read;
	unsigned version;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		said.ring_bytes = bad[i].ring;
		said.messages = bad[i].messages;
		rs_hello_write(&said, bytes);
		assert_int_equal(rs_hello_read(bytes, sizeof(bytes), &read, &version), EPROTO);
	}
	rs_hello_write(&hello, bytes);
	assert_int_equal(rs_hello_read(bytes, RS_HELLO_BYTES - 1, &read, &version), EPROTO);
}

static bool same(const struct rs_control *a, const struct rs_control *b)
{
	return a->kind == b->kind && a->how == b->how && a->messages == b->messages &&
	       a->bytes == b->bytes && a->index == b->index && a->key == b->key &&
	       a->offset == b->offset && a->length == b->length && a->address == b->address;
}

static void control_messages_come_out_as_they_went_in(void **state)
{
	static const struct rs_control said[] = {
		{ .kind = RS_CREDIT, .bytes = UINT64_MAX, .messages = 0x80000001 },
		{ .kind = RS_SHUTDOWN, .how = RS_NO_MORE_DATA },
		{ .kind = RS_SHUTDOWN, .how = RS_GONE },
		{ .kind = RS_IOMAP, .index = 0xfffe, .key = 0xdeadbeef, .offset = 1ull << 62,
		  .length = 7, .address = 0x7f0000000001 },
		{ .kind = RS_IOUNMAP, .index = 3 },
	};
	uint8_t bytes[RS_CONTROL_BYTES];
	struct rs_control read;

	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		rs_control_write(&said[i], bytes);
		assert_int_equal(rs_control_read(bytes, sizeof(bytes), &read), 0);
		assert_true(same(&read, &said[i]));
		assert_int_equal(rs_control_read(bytes, sizeof(bytes) - 1, &read), EPROTO);
		assert_int_equal(rs_control_read(bytes, sizeof(bytes) + 1, &read), EPROTO);
	}
}

static void a_mapping_that_wraps_around_is_refused(void **state)
{
	static const struct rs_control said[] = {
		{ .kind = RS_IOMAP, .offset = UINT64_MAX, .length = 2 },
		{ .kind = RS_IOMAP, .address = UINT64_MAX - 1, .length = 4 },
		{ .kind = RS_IOMAP, .length = 0 },
	};
	uint8_t bytes[RS_CONTROL_BYTES];
	struct rs_control read;

	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		rs_control_write(&said[i], bytes);
		assert_int_equal(rs_control_read(bytes, sizeof(bytes), &read), EPROTO);
	}
}

/* Whatever bytes: a known kind, a known end, and what is read writes the same again. */
static void arbitrary_control_bytes_are_harmless(void **state)
{
	uint8_t bytes[RS_CONTROL_BYTES], again[RS_CONTROL_BYTES];
	struct rs_control read, twice;
	uint64_t random = 1;
	int accepted = 0;

	for (int i = 0; i < 200000; i++) {
		test_random_fill(&random, bytes, sizeof(bytes));
		bytes[0] %= 8;
		bytes[1] %= 4;
		if (rs_control_read(bytes, sizeof(bytes), &read))
			continue;
		accepted++;
		assert_in_range(read.kind, RS_CREDIT, RS_IOUNMAP);
		assert_true(read.kind != RS_SHUTDOWN || read.how == RS_GONE ||
			    read.how == RS_NO_MORE_DATA);
		assert_true(read.offset + read.length >= read.offset);
		rs_control_write(&read, again);
		assert_int_equal(rs_control_read(again, sizeof(again), &twice), 0);
		assert_true(same(&read, &twice));
	}
	assert_true(accepted > 10000);
}

static void datagram_headers_carry_both_families(void **state)
{
	static const uint8_t expected[] = { 1, 4, 0x1f, 0x90, 192, 0, 2, 7 };
	struct sockaddr_storage said = { 0 }, read;
	struct sockaddr_in *v4 = (struct sockaddr_in *)&said;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&said;
	uint8_t bytes[RS_DATAGRAM_HEADER_BYTES];

	v4->sin_family = AF_INET;
	v4->sin_port = htons(8080);
	inet_pton(AF_INET, "192.0.2.7", &v4->sin_addr);
	rs_datagram_header_write(&said, bytes);
	assert_memory_equal(bytes, expected, sizeof(expected));
	assert_int_equal(rs_datagram_header_read(bytes, sizeof(bytes), &read), 0);
	assert_memory_equal(&read, &said, sizeof(said));

	memset(&said, 0, sizeof(said));
	v6->sin6_family = AF_INET6;
	v6->sin6_port = htons(53);
	inet_pton(AF_INET6, "2001:db8::1", &v6->sin6_addr);
	rs_datagram_header_write(&said, bytes);
	assert_int_equal(rs_datagram_header_read(bytes, sizeof(bytes), &read), 0);
	assert_memory_equal(&read, &said, sizeof(said));
}

static void other_datagram_headers_are_refused(void **state)
{
	struct sockaddr_storage any = { .ss_family = AF_INET }, read;
	uint8_t bytes[RS_DATAGRAM_HEADER_BYTES];

	rs_datagram_header_write(&any, bytes);
	assert_int_equal(rs_datagram_header_read(bytes, sizeof(bytes) - 1, &read), EPROTO);
	bytes[1] = 5;
	assert_int_equal(rs_datagram_header_read(bytes, sizeof(bytes), &read), EPROTO);
	bytes[1] = 4;
	bytes[0] = 2;
	assert_int_equal(rs_datagram_header_read(bytes, sizeof(bytes), &read), EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_hello_has_these_bytes),
		cmocka_unit_test(a_hello_may_be_followed_by_padding),
		cmocka_unit_test(another_version_is_told_from_another_protocol),
		cmocka_unit_test(a_hello_with_an_impossible_ring_is_refused),
		cmocka_unit_test(control_messages_come_out_as_they_went_in),
		cmocka_unit_test(a_mapping_that_wraps_around_is_refused),
		cmocka_unit_test(arbitrary_control_bytes_are_harmless),
		cmocka_unit_test(datagram_headers_carry_both_families),
		cmocka_unit_test(other_datagram_headers_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
