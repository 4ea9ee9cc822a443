/* SPDX-License-Identifier: BSD-2-Clause */
/* Each kind of specification takes the frames that it describes and no others; what is wrong is refused. */
#include "ethernet/flow_rule.h"

#include <arpa/inet.h>
#include <errno.h>

#include "ethernet/frame_test.h"

/* An attribute with room behind it. */
struct asked {
	struct ibv_flow_attr attr;
	uint8_t specs[1024];
	size_t used;
};

static struct asked asked_new(void)
{
	return (struct asked){ .attr = { .type = IBV_FLOW_ATTR_NORMAL, .port = 1 } };
}

static void asked_add(struct asked *asked, const void *spec, size_t bytes)
{
	memcpy(asked->specs + asked->used, spec, bytes);
	asked->used += bytes;
	asked->attr.num_of_specs++;
}

#define ADD(asked, ...) asked_add(asked, &(__VA_ARGS__), sizeof(__VA_ARGS__))

static struct flow_rule rule_of(const struct asked *asked)
{
	struct flow_rule rule;

	assert_int_equal(flow_rule_of(&asked->attr, &rule), 0);
	return rule;
}

static bool passes(const struct asked *asked, const struct built *built)
{
	const struct flow_rule rule = rule_of(asked);
	struct frame frame;

	built_parse(built, &frame);
	return flow_matches(&rule, &frame);
}

static struct built udp_frame(void)
{
	struct built built = { .bytes = 0 };

	built_ethernet(&built, 0x0800);
	built_ipv4(&built, 17, 8);
	built_udp(&built, 5000, 6000, 0);
	return built;
}

static void addresses_of_ethernet(void **state)
{
	const struct built frame = udp_frame();
	struct ibv_flow_spec_eth eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(eth),
					 .val = { .dst_mac = { 2, 0, 0, 0, 0, 1 } } };
	struct asked asked = asked_new(), other = asked_new(), typed = asked_new();

	memset(eth.mask.dst_mac, 0xff, 6);
	ADD(&asked, eth);
	assert_true(passes(&asked, &frame));
	eth.val.dst_mac[5] = 3;
	ADD(&other, eth);
	assert_false(passes(&other, &frame));
	eth.mask.dst_mac[5] = 0;	/* of the byte that differs nothing is asked */
	eth.val.ether_type = htons(0x0800);
	eth.mask.ether_type = 0xffff;
	ADD(&typed, eth);
	assert_true(passes(&typed, &frame));
}

static void a_tag_is_asked_for_by_its_mask(void **state)
{
	struct ibv_flow_spec_eth eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(eth),
					 .val = { .vlan_tag = htons(0) }, .mask = { .vlan_tag = htons(0x0fff) } };
	struct built tagged = { .bytes = 0 };
	const struct built plain = udp_frame();
	struct asked asked = asked_new();

	built_ethernet(&tagged, 0x8100);
	built_tag(&tagged, 0xa000, 0x0800);
	ADD(&asked, eth);
	assert_true(passes(&asked, &tagged));
	assert_false(passes(&asked, &plain));	/* none is not number 0 */
}

static void ipv4_and_its_fields(void **state)
{
	struct built frame = udp_frame();
	struct ibv_flow_spec_ipv4 plain = { .type = IBV_FLOW_SPEC_IPV4, .size = sizeof(plain),
					    .val = { .src_ip = inet_addr("66.9.0.0") },
					    .mask = { .src_ip = inet_addr("255.255.0.0") } };
	struct ibv_flow_spec_ipv4_ext full = {
		.type = IBV_FLOW_SPEC_IPV4_EXT,
		.size = sizeof(full),
		.val = {.dst_ip = inet_addr("161.142.100.80"), .proto = 17, .ttl = 64},
		.mask = {.dst_ip = UINT32_MAX, .proto = 255, .ttl = 255, .flags = 4}};
	struct asked asked = asked_new();

	ADD(&asked, plain);
	ADD(&asked, full);
	assert_true(passes(&asked, &frame));
	frame.data[14 + 6] = 0x20;	/* more fragments follow */
	assert_false(passes(&asked, &frame));
	frame.data[14 + 6] = 0;
	frame.data[14 + 8] = 63;
	assert_false(passes(&asked, &frame));
}

static void ipv6_class_and_label_are_apart(void **state)
{
	struct ibv_flow_spec_ipv6 spec = {
		.type = IBV_FLOW_SPEC_IPV6,
		.size = sizeof(spec),
		.val = {.traffic_class = 0xa5, .flow_label = htonl(0x12345), .next_hdr = 6},
		.mask = {.traffic_class = 0xff, .flow_label = htonl(0xfffff), .next_hdr = 0xff}};
	struct built frame = { .bytes = 0 };
	struct asked asked = asked_new();
	uint8_t *ip;

	built_ethernet(&frame, 0x86dd);
	ip = built_ipv6(&frame, 6, 20);
	built_tcp(&frame, 1, 2);
	put_be32(ip, 0x6a512345);
	ADD(&asked, spec);
	assert_true(passes(&asked, &frame));
	put_be32(ip, 0x6a612345);
	assert_false(passes(&asked, &frame));
	put_be32(ip, 0x6a512346);
	assert_false(passes(&asked, &frame));
}

static void ports_belong_to_their_protocol(void **state)
{
	const struct built frame = udp_frame();
	struct ibv_flow_spec_tcp_udp spec = { .type = IBV_FLOW_SPEC_UDP, .size = sizeof(spec),
					      .val = { .dst_port = htons(6000) }, .mask = { .dst_port = 0xffff } };
	struct asked udp = asked_new(), tcp = asked_new();

	ADD(&udp, spec);
	assert_true(passes(&udp, &frame));
	spec.type = IBV_FLOW_SPEC_TCP;
	ADD(&tcp, spec);
	assert_false(passes(&tcp, &frame));
}

static void tunnels_and_what_they_carry(void **state)
{
	struct ibv_flow_spec_tunnel tunnel = {.type = IBV_FLOW_SPEC_VXLAN_TUNNEL,
					      .size = sizeof(tunnel),
					      .val = {.tunnel_id = htonl(77)},
					      .mask = {.tunnel_id = htonl(0xffffff)}};
	struct ibv_flow_spec_tcp_udp inner = {.type = IBV_FLOW_SPEC_UDP | IBV_FLOW_SPEC_INNER,
					      .size = sizeof(inner),
					      .val = {.src_port = htons(7)},
					      .mask = {.src_port = 0xffff}};
	struct built frame = { .bytes = 0 };
	struct asked asked = asked_new(), outer = asked_new();

	built_ethernet(&frame, 0x0800);
	built_ipv4(&frame, 17, 8 + 8 + 14 + 28);
	built_udp(&frame, 1, 4789, 8 + 14 + 28);
	built_add(&frame, 8)[6] = 77;
	built_ethernet(&frame, 0x0800);
	built_ipv4(&frame, 17, 8);
	built_udp(&frame, 7, 8, 0);
	ADD(&asked, tunnel);
	ADD(&asked, inner);
	assert_true(passes(&asked, &frame));
	inner.type = IBV_FLOW_SPEC_UDP;
	ADD(&outer, inner);
	assert_false(passes(&outer, &frame));
}

static void esp_gre_and_labels(void **state)
{
	struct ibv_flow_spec_esp esp = { .type = IBV_FLOW_SPEC_ESP, .size = sizeof(esp),
					 .val = { .spi = htonl(9) }, .mask = { .spi = UINT32_MAX } };
	struct ibv_flow_spec_gre gre = { .type = IBV_FLOW_SPEC_GRE, .size = sizeof(gre),
					 .val = { .key = htonl(5) }, .mask = { .key = UINT32_MAX } };
	struct ibv_flow_spec_mpls mpls = {.type = IBV_FLOW_SPEC_MPLS,
					  .size = sizeof(mpls),
					  .val = {.label = htonl(3 << 12)},
					  .mask = {.label = htonl(0xfffff000)}};
	struct built frames[3] = { { .bytes = 0 } };
	struct asked asked[3] = { asked_new(), asked_new(), asked_new() };

	built_ethernet(&frames[0], 0x0800);
	built_ipv4(&frames[0], 50, 8);
	put_be32(built_add(&frames[0], 8), 9);
	ADD(&asked[0], esp);
	built_ethernet(&frames[1], 0x0800);
	built_ipv4(&frames[1], 47, 8);
	put_be32(built_add(&frames[1], 4), 0x20000800);
	put_be32(built_add(&frames[1], 4), 5);
	ADD(&asked[1], gre);
	built_ethernet(&frames[2], 0x8847);
	put_be32(built_add(&frames[2], 4), 3 << 12 | 0x140);
	ADD(&asked[2], mpls);
	for (unsigned i = 0; i < 3; i++)
		for (unsigned j = 0; j < 3; j++)
			assert_int_equal(passes(&asked[i], &frames[j]), i == j);
}

static void defaults_take_all_of_their_kind(void **state)
{
	struct built one = udp_frame(), many = udp_frame();
	struct asked all = asked_new(), group = asked_new();

	many.data[0] = 1;
	all.attr.type = IBV_FLOW_ATTR_ALL_DEFAULT;
	group.attr.type = IBV_FLOW_ATTR_MC_DEFAULT;
	assert_true(passes(&all, &one));
	assert_true(passes(&all, &many));
	assert_false(passes(&group, &one));
	assert_true(passes(&group, &many));
}

static void what_a_rule_does_is_kept(void **state)
{
	struct ibv_flow_spec_action_tag tag = {
		.type = IBV_FLOW_SPEC_ACTION_TAG, .size = sizeof(tag), .tag_id = 42};
	struct ibv_flow_spec_action_drop drop = { .type = IBV_FLOW_SPEC_ACTION_DROP, .size = sizeof(drop) };
	struct ibv_flow_spec_counter_action count = { .type = IBV_FLOW_SPEC_ACTION_COUNT, .size = sizeof(count),
						      .counters = (struct ibv_counters *)&tag };
	struct asked asked = asked_new();
	struct flow_rule rule;

	asked.attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	ADD(&asked, tag);
	ADD(&asked, drop);
	ADD(&asked, count);
	rule = rule_of(&asked);
	assert_int_equal(rule.tag, 42);
	assert_true(rule.drops);
	assert_true(rule.passes_on);
	assert_int_equal(rule.counters, 1);
	assert_ptr_equal(rule.counter[0], &tag);
	assert_int_equal(rule.matches, 0);
}

static void rules_stand_in_order(void **state)
{
	static const struct { enum ibv_flow_attr_type type; uint16_t priority; } order[] = {
		{ IBV_FLOW_ATTR_SNIFFER, 9 }, { IBV_FLOW_ATTR_NORMAL, 0 }, { IBV_FLOW_ATTR_NORMAL, 1 },
		{ IBV_FLOW_ATTR_MC_DEFAULT, 0 }, { IBV_FLOW_ATTR_ALL_DEFAULT, 0 },
	};
	const unsigned count = sizeof(order) / sizeof(order[0]);

	for (unsigned i = 0; i < count; i++)
		for (unsigned j = 0; j < count; j++) {
			const struct flow_rule a = { .type = order[i].type, .priority = order[i].priority };
			const struct flow_rule b = { .type = order[j].type, .priority = order[j].priority };

			assert_int_equal(flow_is_before(&a, &b), i < j);
			assert_int_equal(flow_is_same(&a, &b), i == j);
		}
}

static int refused(const struct asked *asked)
{
	struct flow_rule rule;

	return flow_rule_of(&asked->attr, &rule);
}

static void what_is_wrong_is_refused(void **state)
{
	struct ibv_flow_spec_eth eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(eth) };
	struct ibv_flow_spec_handle { uint32_t type; uint16_t size; } handle = { IBV_FLOW_SPEC_ACTION_HANDLE, 8 };
	struct asked asked = asked_new();

	asked.attr.comp_mask = 1;
	assert_int_equal(refused(&asked), EINVAL);
	asked = asked_new();
	asked.attr.port = 2;
	assert_int_equal(refused(&asked), EINVAL);
	asked = asked_new();
	asked.attr.type = 4;
	assert_int_equal(refused(&asked), EINVAL);
	asked = asked_new();
	asked.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
	assert_int_equal(refused(&asked), EOPNOTSUPP);
	asked = asked_new();
	asked.attr.type = IBV_FLOW_ATTR_SNIFFER;
	ADD(&asked, eth);
	assert_int_equal(refused(&asked), EINVAL);
	asked = asked_new();
	asked_add(&asked, &handle, sizeof(handle));
	assert_int_equal(refused(&asked), EOPNOTSUPP);
}

static void sizes_and_kinds_that_no_specification_has_are_refused(void **state)
{
	struct ibv_flow_spec_eth eth = { .type = IBV_FLOW_SPEC_ETH, .size = sizeof(eth) };
	static const uint16_t sizes[] = { 0, 4, sizeof(eth) - 1, UINT16_MAX };
	struct asked asked;

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		asked = asked_new();
		eth.size = sizes[i];
		ADD(&asked, eth);
		assert_int_equal(refused(&asked), EINVAL);
	}
	asked = asked_new();
	eth.size = sizeof(eth);
	eth.type = 0x77;
	ADD(&asked, eth);
	assert_int_equal(refused(&asked), EINVAL);
	asked = asked_new();
	eth.type = IBV_FLOW_SPEC_ETH;
	for (unsigned i = 0; i <= FLOW_MATCHES_MAX; i++)
		ADD(&asked, eth);
	assert_int_equal(refused(&asked), EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses_of_ethernet),
		cmocka_unit_test(a_tag_is_asked_for_by_its_mask),
		cmocka_unit_test(ipv4_and_its_fields),
		cmocka_unit_test(ipv6_class_and_label_are_apart),
		cmocka_unit_test(ports_belong_to_their_protocol),
		cmocka_unit_test(tunnels_and_what_they_carry),
		cmocka_unit_test(esp_gre_and_labels),
		cmocka_unit_test(defaults_take_all_of_their_kind),
		cmocka_unit_test(what_a_rule_does_is_kept),
		cmocka_unit_test(rules_stand_in_order),
		cmocka_unit_test(what_is_wrong_is_refused),
		cmocka_unit_test(sizes_and_kinds_that_no_specification_has_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
