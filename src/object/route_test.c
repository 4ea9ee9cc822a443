/* SPDX-License-Identifier: BSD-2-Clause */
/* Routes: whose packet it is, the way back, and the headers of UD messages by link. */
#include "object/route.h"

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "object/test_support.h"

/* From .7 to .9, as a packet that came. */
static struct route came_by_ipv4(void)
{
	return (struct route){ .link = ROUTE_ROCE_V2, .port = 2, .source = { [10] = 0xff, 0xff, 192, 0, 2, 7 },
			       .destination = { [10] = 0xff, 0xff, 192, 0, 2, 9 }, .traffic_class = 0x88,
			       .hop_limit = 3, .flow_label = 0x12345,
			       .roce = { .from_slot = 4, .source_port = 0xc123, .interface = 17 } };
}

static void the_way_back_is_by_the_same_link_port_and_interface(void **state)
{
	const struct route came = came_by_ipv4();
	struct route back;

	route_reverse(&came, &back);
	assert_int_equal(back.link, ROUTE_ROCE_V2);
	assert_int_equal(back.port, 2);
	assert_int_equal(back.roce.interface, 17);
	assert_memory_equal(back.source, came.destination, 16);
	assert_memory_equal(back.destination, came.source, 16);
	assert_int_equal(back.hop_limit, 64);
	/* What only the sender of a packet chose. */
	assert_int_equal(back.traffic_class, 0);
	assert_int_equal(back.flow_label, 0);
	assert_int_equal(back.roce.from_slot, 0);
	assert_int_equal(back.roce.source_port, 0);
	assert_true(route_is_from_peer(&back, &came));
}

static void a_packet_of_another_address_or_link_is_not_the_peers(void **state)
{
	const struct route came = came_by_ipv4();
	struct route route, other;

	route_reverse(&came, &route);
	other = came;
	other.source[15]++;
	assert_false(route_is_from_peer(&route, &other));
	other = came;
	other.destination[15]++;
	assert_false(route_is_from_peer(&route, &other));
	other = came;
	other.link = ROUTE_NONE;
	assert_false(route_is_from_peer(&route, &other));
}

static void a_route_that_differs_anywhere_is_another_one(void **state)
{
	const struct route one = came_by_ipv4();
	struct route two = one;

	assert_true(route_is_same(&one, &two));
	for (size_t i = 0; i < sizeof(two); i++) {
		((uint8_t *)&two)[i] ^= 1;
		assert_false(route_is_same(&one, &two));
		((uint8_t *)&two)[i] ^= 1;
	}
}

static void a_message_by_ipv4_has_its_header_in_the_last_20_bytes(void **state)
{
	const struct route came = came_by_ipv4();
	uint8_t grh[ROUTE_GRH_BYTES];
	uint32_t sum = 0;

	route_write_grh(&came, 100, grh);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(grh[i], 0);
	assert_int_equal(grh[20], 0x45);
	assert_int_equal(get_be16(grh + 22), 128);
	assert_int_equal(grh[29], 17);
	assert_memory_equal(grh + 32, came.source + 12, 4);
	assert_memory_equal(grh + 36, came.destination + 12, 4);
	for (unsigned i = 20; i < 40; i += 2)
		sum += get_be16(grh + i);
	assert_int_equal((sum & 0xffff) + (sum >> 16), 0xffff);
	assert_int_equal(route_header_type(&came), HEADER_UDP | HEADER_IPV4);
}

static void a_message_by_ipv6_has_its_header(void **state)
{
	struct route came = came_by_ipv4();
	uint8_t grh[ROUTE_GRH_BYTES];

	came.source[0] = came.destination[0] = 0xfd;
	route_write_grh(&came, 100, grh);
	assert_int_equal(get_be32(grh), 0x68812345);
	assert_int_equal(get_be16(grh + 4), 108);
	assert_int_equal(grh[6], 17);
	assert_int_equal(grh[7], 3);
	assert_memory_equal(grh + 8, came.source, 16);
	assert_memory_equal(grh + 24, came.destination, 16);
	assert_int_equal(route_header_type(&came), HEADER_UDP | HEADER_IPV6);
}

static void a_packet_without_a_link_has_no_header(void **state)
{
	static const uint8_t none[ROUTE_GRH_BYTES];
	struct route came = came_by_ipv4();
	uint8_t grh[ROUTE_GRH_BYTES];

	came.link = ROUTE_NONE;
	route_write_grh(&came, 100, grh);
	assert_memory_equal(grh, none, sizeof(none));
	assert_int_equal(route_header_type(&came), HEADER_GRH);
}

/* From LID 7 with path bit 1, to a port whose own LID has path bits 2. */
static struct route came_by_lid(bool has_grh)
{
	struct route came = { .link = ROUTE_IB, .port = 1,
			      .ib = { .port = IB_WAY_PORT(0, 1), .lid = 7, .path_bits = 2, .sl = 5,
				      .has_grh = has_grh } };

	ip_addr_of_lid(came.source, 7);
	if (has_grh) {
		memset(came.source, 0xfe, 16);
		memset(came.destination, 0xfd, 16);
		came.hop_limit = 9;
	}
	return came;
}

static void a_packet_by_lid_is_its_peers_if_the_lid_is(void **state)
{
	for (int has_grh = 0; has_grh < 2; has_grh++) {
		const struct route came = came_by_lid(has_grh);
		struct route back, other = came;

		route_reverse(&came, &back);
		assert_int_equal(back.ib.lid, 7);
		assert_int_equal(back.ib.path_bits, 2);
		assert_int_equal(back.ib.sl, 5);
		assert_int_equal(back.ib.has_grh, has_grh);
		assert_true(route_is_from_peer(&back, &came));
		other.ib.lid = 8;
		assert_false(route_is_from_peer(&back, &other));
		other = came_by_lid(!has_grh);
		assert_false(route_is_from_peer(&back, &other));
	}
}

static void a_completion_tells_lid_level_and_whether_there_is_a_grh(void **state)
{
	struct route came = came_by_lid(false);
	uint8_t grh[ROUTE_GRH_BYTES];
	static const uint8_t none[ROUTE_GRH_BYTES];

	assert_int_equal(route_lid(&came), 7);
	assert_int_equal(route_path_bits(&came), 2);
	assert_int_equal(route_header_type(&came), 5);
	assert_false(route_has_grh(&came));
	route_write_grh(&came, 100, grh);
	assert_memory_equal(grh, none, sizeof(grh));
	came = came_by_lid(true);
	assert_true(route_has_grh(&came));
	route_write_grh(&came, 100, grh);
	assert_int_equal(get_be32(grh) >> 28, 6);
	assert_int_equal(get_be16(grh + 4), 100);
	assert_int_equal(grh[6], 0x1b);
	assert_int_equal(grh[7], 9);
	assert_memory_equal(grh + 8, came.source, 16);
	assert_memory_equal(grh + 24, came.destination, 16);
	came = came_by_ipv4();
	assert_int_equal(route_lid(&came), 0);
	assert_true(route_has_grh(&came));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_way_back_is_by_the_same_link_port_and_interface),
		cmocka_unit_test(a_packet_of_another_address_or_link_is_not_the_peers),
		cmocka_unit_test(a_route_that_differs_anywhere_is_another_one),
		cmocka_unit_test(a_message_by_ipv4_has_its_header_in_the_last_20_bytes),
		cmocka_unit_test(a_message_by_ipv6_has_its_header),
		cmocka_unit_test(a_packet_without_a_link_has_no_header),
		cmocka_unit_test(a_packet_by_lid_is_its_peers_if_the_lid_is),
		cmocka_unit_test(a_completion_tells_lid_level_and_whether_there_is_a_grh),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
