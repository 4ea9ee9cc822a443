/* SPDX-License-Identifier: BSD-2-Clause */
/* The hash is that of the vectors which the Windows specification gives. */
#include "ethernet/hash.h"

#include <infiniband/verbs.h>

#include "ethernet/frame_test.h"

static const uint8_t key[HASH_KEY_BYTES] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
	0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
	0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

#define IPV4	(IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4)
#define TCP	(IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP)
#define UDP	(IBV_RX_HASH_SRC_PORT_UDP | IBV_RX_HASH_DST_PORT_UDP)

static void tcp_frame(struct built *built, struct frame *frame)
{
	built->bytes = 0;
	built_ethernet(built, 0x0800);
	built_ipv4(built, 6, 20);
	built_tcp(built, 2794, 1766);
	built_parse(built, frame);
}

static void the_vectors_come_out(void **state)
{
	struct built built;
	struct frame frame;

	tcp_frame(&built, &frame);
	assert_int_equal(hash_frame(key, IPV4, &frame), 0x323e8fc2);
	assert_int_equal(hash_frame(key, IPV4 | TCP, &frame), 0x51ccc178);
}

static void fields_that_the_frame_lacks_do_not_count(void **state)
{
	struct built built;
	struct frame frame;

	tcp_frame(&built, &frame);
	assert_int_equal(hash_frame(key, IPV4 | UDP, &frame), 0x323e8fc2);
	assert_int_equal(hash_frame(key, IPV4 | IBV_RX_HASH_SRC_IPV6 | IBV_RX_HASH_IPSEC_SPI, &frame), 0x323e8fc2);
	assert_int_equal(hash_frame(key, UDP, &frame), 0);
	assert_int_equal(hash_frame(key, IPV4 | IBV_RX_HASH_INNER, &frame), 0);
}

static void the_inner_stack_can_be_meant(void **state)
{
	struct built built = { .bytes = 0 };
	struct frame frame;

	built_ethernet(&built, 0x0800);
	built_ipv4(&built, 4, 40)[12] = 1;
	built_ipv4(&built, 6, 20);
	built_tcp(&built, 2794, 1766);
	built_parse(&built, &frame);
	assert_int_equal(hash_frame(key, IPV4 | TCP | IBV_RX_HASH_INNER, &frame), 0x51ccc178);
	assert_int_not_equal(hash_frame(key, IPV4, &frame), 0x323e8fc2);
}

static void all_fields_of_an_ipv6_packet_fit(void **state)
{
	struct built built = { .bytes = 0 };
	struct frame frame;
	uint8_t input[36];

	built_ethernet(&built, 0x86dd);
	memcpy(input, built_ipv6(&built, 6, 20) + 8, 32);
	built_tcp(&built, 0x1234, 0x5678);
	put_be32(input + 32, 0x12345678);
	built_parse(&built, &frame);
	assert_int_equal(hash_frame(key, HASH_FIELDS & ~(uint64_t)IBV_RX_HASH_INNER, &frame),
			 hash_toeplitz(key, input, sizeof(input)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_vectors_come_out),
		cmocka_unit_test(fields_that_the_frame_lacks_do_not_count),
		cmocka_unit_test(the_inner_stack_can_be_meant),
		cmocka_unit_test(all_fields_of_an_ipv6_packet_fit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
