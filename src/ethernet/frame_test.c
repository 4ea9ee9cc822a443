/* SPDX-License-Identifier: BSD-2-Clause */
/* Headers are found where they are, and nowhere behind the end of a frame; checksums are right. */
#include "ethernet/frame_test.h"

#include "base/test_random.h"

static void a_udp_packet_has_its_three_headers(void **state)
{
	struct built built = { .bytes = 0 };
	struct frame frame;

	built_ethernet(&built, 0x0800);
	built_ipv4(&built, 17, 12);
	built_udp(&built, 5000, 6000, 4);
	built_add(&built, 4);
	built_parse(&built, &frame);
	assert_ptr_equal(frame.outer.layer[LAYER_IPV4], built.data + 14);
	assert_ptr_equal(frame.outer.layer[LAYER_UDP], built.data + 34);
	assert_null(frame.outer.layer[LAYER_TCP]);
	assert_null(frame.outer.layer[LAYER_IPV6]);
	assert_null(frame.inner.layer[LAYER_ETHERNET]);
	assert_false(frame.outer.tagged);
	assert_memory_equal(frame.outer.layer[LAYER_ETHERNET], built.data, 12);
	assert_int_equal(get_be16(frame.outer.layer[LAYER_ETHERNET] + 14), 0x0800);
}

static void of_two_tags_the_inner_one_counts(void **state)
{
	struct built built = { .bytes = 0 };
	struct frame frame;

	built_ethernet(&built, 0x88a8);
	built_tag(&built, 0x0011, 0x8100);
	built_tag(&built, 0x2022, 0x86dd);
	built_ipv6(&built, 6, 20);
	built_tcp(&built, 1, 2);
	built_parse(&built, &frame);
	assert_true(frame.outer.tagged);
	assert_int_equal(get_be16(frame.outer.layer[LAYER_ETHERNET] + 12), 0x2022);
	assert_int_equal(get_be16(frame.outer.layer[LAYER_ETHERNET] + 14), 0x86dd);
	assert_ptr_equal(frame.outer.layer[LAYER_TCP], built.data + 14 + 8 + 40);
}

static void ip_options_and_extensions_are_passed(void **state)
{
	struct built built = { .bytes = 0 }, six = { .bytes = 0 };
	struct frame frame;
	uint8_t *ip, *extension;

	built_ethernet(&built, 0x0800);
	ip = built_ipv4(&built, 6, 4 + 20);
	ip[0] = 0x46;
	built_add(&built, 4);
	built_tcp(&built, 1, 2);
	built_parse(&built, &frame);
	assert_ptr_equal(frame.outer.layer[LAYER_TCP], built.data + 14 + 24);

	built_ethernet(&six, 0x86dd);
	built_ipv6(&six, 0, 16 + 8 + 8);
	extension = built_add(&six, 16);
	extension[0] = 44;
	extension[1] = 1;
	built_add(&six, 8)[0] = 50;	/* a first fragment, of ESP */
	built_add(&six, 8);
	built_parse(&six, &frame);
	assert_ptr_equal(frame.outer.layer[LAYER_ESP], six.data + 14 + 40 + 24);
}

static void later_fragments_have_no_ports(void **state)
{
	struct built built = { .bytes = 0 }, six = { .bytes = 0 };
	struct frame frame;
	uint8_t *extension;

	built_ethernet(&built, 0x0800);
	put_be16(built_ipv4(&built, 17, 8) + 6, 0x0001);
	built_udp(&built, 1, 2, 0);
	built_parse(&built, &frame);
	assert_non_null(frame.outer.layer[LAYER_IPV4]);
	assert_null(frame.outer.layer[LAYER_UDP]);

	built_ethernet(&six, 0x86dd);
	built_ipv6(&six, 44, 16);
	extension = built_add(&six, 8);
	extension[0] = 17;
	put_be16(extension + 2, 0x0008);
	built_udp(&six, 1, 2, 0);
	built_parse(&six, &frame);
	assert_null(frame.outer.layer[LAYER_UDP]);
}

/* Ethernet, IPv4, UDP, VXLAN, Ethernet, IPv6, TCP. */
static void build_vxlan(struct built *built)
{
	built_ethernet(built, 0x0800);
	built_ipv4(built, 17, 8 + 8 + 14 + 40 + 20);
	built_udp(built, 1, 4789, 8 + 14 + 40 + 20);
	built_add(built, 8)[6] = 77;
	built_ethernet(built, 0x86dd);
	built_ipv6(built, 6, 20);
	built_tcp(built, 3, 4);
}

static void a_tunnel_has_an_inner_stack(void **state)
{
	struct built built = { .bytes = 0 };
	struct frame frame;

	build_vxlan(&built);
	built_parse(&built, &frame);
	assert_int_equal(frame.outer.layer[LAYER_VXLAN][6], 77);
	assert_null(frame.outer.layer[LAYER_IPV6]);
	assert_non_null(frame.inner.layer[LAYER_ETHERNET]);
	assert_ptr_equal(frame.inner.layer[LAYER_IPV6], built.data + 14 + 20 + 8 + 8 + 14);
	assert_int_equal(get_be16(frame.inner.layer[LAYER_TCP]), 3);
}

static void gre_is_read_with_and_without_its_options(void **state)
{
	static const struct { uint16_t flags; size_t bytes; uint32_t key; } rows[] = {
		{ 0x0000, 4, 0 }, { 0x2000, 8, 0x01020304 }, { 0x8000, 8, 0 },
		{ 0xb000, 16, 0x01020304 },
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct built built = { .bytes = 0 };
		struct frame frame;
		uint8_t *gre;

		built_ethernet(&built, 0x0800);
		built_ipv4(&built, 47, rows[i].bytes + 20 + 8);
		gre = built_add(&built, rows[i].bytes);
		put_be16(gre, rows[i].flags);
		put_be16(gre + 2, 0x0800);
		if (rows[i].key)
			put_be32(gre + (rows[i].flags & 0x8000 ? 8 : 4), rows[i].key);
		built_ipv4(&built, 17, 8);
		built_udp(&built, 7, 8, 0);
		built_parse(&built, &frame);
		assert_int_equal(get_be32(frame.outer.layer[LAYER_GRE] + 4), rows[i].key);
		assert_int_equal(get_be16(frame.inner.layer[LAYER_UDP]), 7);
	}
}

static void labels_end_with_the_one_that_says_so(void **state)
{
	struct built built = { .bytes = 0 };
	struct frame frame;

	built_ethernet(&built, 0x8847);
	put_be32(built_add(&built, 4), 0x00010040);
	put_be32(built_add(&built, 4), 0x00020140);
	built_ipv4(&built, 6, 20);
	built_tcp(&built, 9, 10);
	built_parse(&built, &frame);
	assert_ptr_equal(frame.outer.layer[LAYER_MPLS], built.data + 14);
	assert_int_equal(get_be16(frame.outer.layer[LAYER_TCP]), 9);
}

/* Whatever is cut off, what is found lies in what is left. */
static void a_frame_that_is_cut_is_read_to_its_end(void **state)
{
	struct built built = { .bytes = 0 };
	size_t bytes;

	build_vxlan(&built);
	for (bytes = 0; bytes <= built.bytes; bytes++) {
		uint8_t *copy = malloc(bytes ? bytes : 1);	/* its end is guarded by the sanitizer */
		struct frame frame;

		memcpy(copy, built.data, bytes);
		frame_dissect(copy, bytes, &frame);
		frame_checksums_are_good(&frame);
		if (bytes < built.bytes)
			assert_null(frame.inner.layer[LAYER_TCP]);
		free(copy);
	}
}

static void noise_is_read_without_harm(void **state)
{
	uint64_t random = 1;

	for (unsigned round = 0; round < 200000; round++) {
		uint8_t data[96];
		struct frame frame;
		size_t bytes = test_random(&random) % sizeof(data);
		uint8_t *copy = malloc(bytes + 1);

		for (size_t i = 0; i < bytes; i++)
			copy[i] = (uint8_t)test_random(&random);
		if (bytes > 24) {	/* half-way sensible */
			put_be16(copy + 12, test_random(&random) & 1 ? 0x0800 : 0x86dd);
			copy[14] = copy[12] == 8 ? 0x45 : 0x60;
		}
		frame_dissect(copy, bytes, &frame);
		frame_checksums_are_good(&frame);
		frame_write_checksums(&frame, copy);
		free(copy);
	}
}

static void checksums_that_are_written_are_good(void **state)
{
	for (unsigned kind = 0; kind < 4; kind++) {
		struct built built = { .bytes = 0 };
		struct frame frame;

		built_ethernet(&built, kind & 1 ? 0x86dd : 0x0800);
		if (kind & 1)
			built_ipv6(&built, kind & 2 ? 6 : 17, kind & 2 ? 23 : 11);
		else
			built_ipv4(&built, kind & 2 ? 6 : 17, kind & 2 ? 23 : 11);
		if (kind & 2)
			built_tcp(&built, 0xbeef, 0xcafe);
		else
			built_udp(&built, 0xbeef, 0xcafe, 3);
		memcpy(built_add(&built, 3), "abc", 3);
		built_parse(&built, &frame);
		frame_write_checksums(&frame, built.data);
		assert_true(frame_checksums_are_good(&frame));
		built.data[built.bytes - 1] ^= 4;
		assert_false(frame_checksums_are_good(&frame));
		built.data[built.bytes - 1] ^= 4;
		built.data[14 + 12] ^= 1;	/* an address */
		assert_false(frame_checksums_are_good(&frame));
	}
}

/* RFC 768: zero says that there is none; and what is sent as a sum is never zero. */
static void udp_may_go_without(void **state)
{
	struct built built = { .bytes = 0 };
	struct frame frame;
	uint8_t *udp;

	built_ethernet(&built, 0x0800);
	built_ipv4(&built, 17, 10);
	built_udp(&built, 1, 2, 2);
	built_add(&built, 2);
	udp = built.data + 34;
	built_parse(&built, &frame);
	frame_write_checksums(&frame, built.data);
	/* Data that bring the sum to 0xffff, whose complement is zero. */
	put_be16(udp + 8, get_be16(udp + 6));
	frame_write_checksums(&frame, built.data);
	assert_int_equal(get_be16(udp + 6), 0xffff);
	assert_true(frame_checksums_are_good(&frame));
	put_be16(udp + 6, 0);
	assert_true(frame_checksums_are_good(&frame));
	built.data[14 + 8] ^= 1;
	assert_false(frame_checksums_are_good(&frame));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_udp_packet_has_its_three_headers),
		cmocka_unit_test(of_two_tags_the_inner_one_counts),
		cmocka_unit_test(ip_options_and_extensions_are_passed),
		cmocka_unit_test(later_fragments_have_no_ports),
		cmocka_unit_test(a_tunnel_has_an_inner_stack),
		cmocka_unit_test(gre_is_read_with_and_without_its_options),
		cmocka_unit_test(labels_end_with_the_one_that_says_so),
		cmocka_unit_test(a_frame_that_is_cut_is_read_to_its_end),
		cmocka_unit_test(noise_is_read_without_harm),
		cmocka_unit_test(checksums_that_are_written_are_good),
		cmocka_unit_test(udp_may_go_without),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
