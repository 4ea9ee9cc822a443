/* SPDX-License-Identifier: BSD-2-Clause */
/* Flow rules: from ibv_flow_attr(3) to headers with masks, and frames against them. */
#include "ethernet/flow_rule.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

/* ---- specifications ---- */

/* Both halves of a specification: what is compared, and which bits of it. */
struct halves {
	const void *value, *mask;
};

static void match_bytes(struct flow_match *match, const struct halves *from, size_t offset,
			size_t to, size_t bytes)
{
	memcpy(match->value + to, (const uint8_t *)from->value + offset, bytes);
	memcpy(match->mask + to, (const uint8_t *)from->mask + offset, bytes);
}

#define TAKE(type, member, to) \
	match_bytes(match, from, offsetof(type, member), to, sizeof(((const type *)0)->member))

static void match_ethernet(struct flow_match *match, const struct halves *from)
{
	const struct ibv_flow_eth_filter *mask = from->mask;

	TAKE(struct ibv_flow_eth_filter, dst_mac, 0);
	TAKE(struct ibv_flow_eth_filter, src_mac, 6);
	TAKE(struct ibv_flow_eth_filter, vlan_tag, 12);
	TAKE(struct ibv_flow_eth_filter, ether_type, 14);
	match->needs_tag = mask->vlan_tag;
}

static void match_ipv4(struct flow_match *match, const struct halves *from)
{
	TAKE(struct ibv_flow_ipv4_filter, src_ip, 12);
	TAKE(struct ibv_flow_ipv4_filter, dst_ip, 16);
}

/* Bits of ibv_flow_ipv4_ext_filter.flags, as the kernel's interface has them. */
static uint8_t fragment_bits(uint8_t flags)
{
	return (uint8_t)((flags & 2 ? 0x40 : 0) | (flags & 4 ? 0x20 : 0));
}

static void match_ipv4_ext(struct flow_match *match, const struct halves *from)
{
	const struct ibv_flow_ipv4_ext_filter *value = from->value, *mask = from->mask;

	TAKE(struct ibv_flow_ipv4_ext_filter, tos, 1);
	TAKE(struct ibv_flow_ipv4_ext_filter, ttl, 8);
	TAKE(struct ibv_flow_ipv4_ext_filter, proto, 9);
	TAKE(struct ibv_flow_ipv4_ext_filter, src_ip, 12);
	TAKE(struct ibv_flow_ipv4_ext_filter, dst_ip, 16);
	match->value[6] = fragment_bits(value->flags);
	match->mask[6] = fragment_bits(mask->flags);
}

/* The traffic class is between the version and the flow label: bits 4 to 11 of the header. */
static void match_ipv6_word(uint8_t *header, const struct ibv_flow_ipv6_filter *filter)
{
	memcpy(header, &filter->flow_label, 4);
	header[0] = (uint8_t)(filter->traffic_class >> 4);
	header[1] = (uint8_t)(filter->traffic_class << 4 | (header[1] & 15));
}

static void match_ipv6(struct flow_match *match, const struct halves *from)
{
	TAKE(struct ibv_flow_ipv6_filter, next_hdr, 6);
	TAKE(struct ibv_flow_ipv6_filter, hop_limit, 7);
	TAKE(struct ibv_flow_ipv6_filter, src_ip, 8);
	TAKE(struct ibv_flow_ipv6_filter, dst_ip, 24);
	match_ipv6_word(match->value, from->value);
	match_ipv6_word(match->mask, from->mask);
}

static void match_ports(struct flow_match *match, const struct halves *from)
{
	TAKE(struct ibv_flow_tcp_udp_filter, src_port, 0);
	TAKE(struct ibv_flow_tcp_udp_filter, dst_port, 2);
}

static void match_esp(struct flow_match *match, const struct halves *from)
{
	TAKE(struct ibv_flow_esp_filter, spi, 0);
	TAKE(struct ibv_flow_esp_filter, seq, 4);
}

static void match_gre(struct flow_match *match, const struct halves *from)
{
	TAKE(struct ibv_flow_gre_filter, c_ks_res0_ver, 0);
	TAKE(struct ibv_flow_gre_filter, protocol, 2);
	TAKE(struct ibv_flow_gre_filter, key, 4);
}

static void match_mpls(struct flow_match *match, const struct halves *from)
{
	TAKE(struct ibv_flow_mpls_filter, label, 0);
}

/* Its number is in the lower three bytes of tunnel_id. */
static void match_vxlan(struct flow_match *match, const struct halves *from)
{
	match_bytes(match, from, 1, 4, 3);
}

#undef TAKE

static const struct {
	unsigned type;
	enum frame_layer layer;
	size_t value, mask, bytes;	/* offsets in the specification; its size */
	void (*take)(struct flow_match *match, const struct halves *from);
} kinds[] = {
#define KIND(type, layer, spec, take) { type, layer, offsetof(struct spec, val), offsetof(struct spec, mask), \
					sizeof(struct spec), take }
	KIND(IBV_FLOW_SPEC_ETH, LAYER_ETHERNET, ibv_flow_spec_eth, match_ethernet),
	KIND(IBV_FLOW_SPEC_IPV4, LAYER_IPV4, ibv_flow_spec_ipv4, match_ipv4),
	KIND(IBV_FLOW_SPEC_IPV4_EXT, LAYER_IPV4, ibv_flow_spec_ipv4_ext, match_ipv4_ext),
	KIND(IBV_FLOW_SPEC_IPV6, LAYER_IPV6, ibv_flow_spec_ipv6, match_ipv6),
	KIND(IBV_FLOW_SPEC_TCP, LAYER_TCP, ibv_flow_spec_tcp_udp, match_ports),
	KIND(IBV_FLOW_SPEC_UDP, LAYER_UDP, ibv_flow_spec_tcp_udp, match_ports),
	KIND(IBV_FLOW_SPEC_ESP, LAYER_ESP, ibv_flow_spec_esp, match_esp),
	KIND(IBV_FLOW_SPEC_VXLAN_TUNNEL, LAYER_VXLAN, ibv_flow_spec_tunnel, match_vxlan),
	KIND(IBV_FLOW_SPEC_GRE, LAYER_GRE, ibv_flow_spec_gre, match_gre),
	KIND(IBV_FLOW_SPEC_MPLS, LAYER_MPLS, ibv_flow_spec_mpls, match_mpls),
#undef KIND
};

static int add_match(const struct ibv_flow_spec *spec, struct flow_rule *rule)
{
	unsigned type = spec->hdr.type & ~(unsigned)IBV_FLOW_SPEC_INNER;
	struct flow_match *match = &rule->match[rule->matches];

	for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]) && rule->matches < FLOW_MATCHES_MAX; i++) {
		const struct halves halves = { .value = (const uint8_t *)spec + kinds[i].value,
					       .mask = (const uint8_t *)spec + kinds[i].mask };

		if (kinds[i].type != type || spec->hdr.size < kinds[i].bytes)
			continue;
		match->layer = (uint8_t)kinds[i].layer;
		match->inner = spec->hdr.type & IBV_FLOW_SPEC_INNER;
		kinds[i].take(match, &halves);
		rule->matches++;
		return 0;
	}
	explain_refused("ibv_create_flow", EINVAL,
			"ibv_create_flow: a specification of type 0x%x and %u bytes: no such "
			"one, too short, "
		"or one of more than "
		"%u",
		(unsigned)spec->hdr.type, spec->hdr.size, FLOW_MATCHES_MAX);
	return EINVAL;
}

static int add_counters(const struct ibv_flow_spec *spec, struct flow_rule *rule)
{
	if (spec->flow_count.counters && rule->counters < FLOW_COUNTERS_MAX) {
		rule->counter[rule->counters++] = spec->flow_count.counters;
		return 0;
	}
	explain_refused("ibv_create_flow", EINVAL,
			"ibv_create_flow: IBV_FLOW_SPEC_ACTION_COUNT: counters is NULL, or the "
			"rule has more than %u",
		FLOW_COUNTERS_MAX);
	return EINVAL;
}

static int add_spec(const struct ibv_flow_spec *spec, struct flow_rule *rule)
{
	switch ((unsigned)spec->hdr.type) {
	case IBV_FLOW_SPEC_ACTION_TAG:
		rule->tag = spec->flow_tag.tag_id;
		return 0;
	case IBV_FLOW_SPEC_ACTION_DROP:
		rule->drops = true;
		return 0;
	case IBV_FLOW_SPEC_ACTION_COUNT:
		return add_counters(spec, rule);
	case IBV_FLOW_SPEC_ACTION_HANDLE:
		explain_refused("ibv_create_flow", EOPNOTSUPP,
				"ibv_create_flow: IBV_FLOW_SPEC_ACTION_HANDLE: this device has "
				"no ESP offload, "
			"nor other actions "
			"with a handle");
		return EOPNOTSUPP;
	default:
		return add_match(spec, rule);
	}
}

static int check_attr(const struct ibv_flow_attr *attr)
{
	if (attr->comp_mask || attr->type > IBV_FLOW_ATTR_SNIFFER || attr->port != 1) {
		explain_refused("ibv_create_flow", EINVAL,
				"ibv_create_flow: comp_mask 0x%x must be 0, type %d one of enum "
			"ibv_flow_attr_type, port %u be 1",
			attr->comp_mask, (int)attr->type, attr->port);
		return EINVAL;
	}
	if (attr->flags & ~(uint32_t)IBV_FLOW_ATTR_FLAGS_DONT_TRAP) {
		explain_refused("ibv_create_flow", EOPNOTSUPP,
				"ibv_create_flow: flags 0x%x: IBV_FLOW_ATTR_FLAGS_DONT_TRAP "
				"alone is possible: "
			"the device does not "
			"steer what it sends",
			attr->flags);
		return EOPNOTSUPP;
	}
	if (attr->type != IBV_FLOW_ATTR_NORMAL && attr->num_of_specs) {
		explain_refused("ibv_create_flow", EINVAL,
				"ibv_create_flow: type %d takes all frames of its kind: "
				"num_of_specs must be 0",
			(int)attr->type);
		return EINVAL;
	}
	return 0;
}

int flow_rule_of(const struct ibv_flow_attr *attr, struct flow_rule *rule)
{
	const uint8_t *at = (const uint8_t *)(attr + 1);
	int err = check_attr(attr);

	memset(rule, 0, sizeof(*rule));
	rule->type = attr->type;
	rule->priority = attr->priority;
	rule->passes_on = attr->flags & IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	for (unsigned i = 0; !err && i < attr->num_of_specs; i++) {
		struct ibv_flow_spec spec = { .hdr = { .size = 0 } };

		memcpy(&spec.hdr, at, sizeof(spec.hdr));
		if (spec.hdr.size < sizeof(spec.hdr) || spec.hdr.size > sizeof(spec)) {
			explain_refused("ibv_create_flow", EINVAL,
					"ibv_create_flow: specification %u of %u has size %u, which no "
				"specification has",
				i + 1, attr->num_of_specs, spec.hdr.size);
			return EINVAL;
		}
		memcpy(&spec, at, spec.hdr.size);
		err = add_spec(&spec, rule);
		at += spec.hdr.size;
	}
	return err;
}

/* ---- frames ---- */

static const uint8_t header_bytes[LAYERS] = {
	[LAYER_ETHERNET] = 16, [LAYER_IPV4] = 20, [LAYER_IPV6] = 40, [LAYER_TCP] = 4, [LAYER_UDP] = 4,
	[LAYER_ESP] = 8, [LAYER_VXLAN] = 8, [LAYER_GRE] = 8, [LAYER_MPLS] = 4,
};

static bool header_matches(const struct flow_match *match, const struct frame *frame)
{
	const struct frame_stack *stack = match->inner ? &frame->inner : &frame->outer;
	const uint8_t *header = stack->layer[match->layer];

	if (!header || (match->needs_tag && !stack->tagged))
		return false;
	for (unsigned i = 0; i < header_bytes[match->layer]; i++)
		if ((header[i] ^ match->value[i]) & match->mask[i])
			return false;
	return true;
}

bool flow_matches(const struct flow_rule *rule, const struct frame *frame)
{
	if (rule->type == IBV_FLOW_ATTR_MC_DEFAULT && !(frame->bytes && frame->data[0] & 1))
		return false;		/* not to a group */
	for (unsigned i = 0; i < rule->matches; i++)
		if (!header_matches(&rule->match[i], frame))
			return false;
	return true;
}

bool flow_is_same(const struct flow_rule *a, const struct flow_rule *b)
{
	return a->type == b->type && a->priority == b->priority && a->matches == b->matches &&
	       !memcmp(a->match, b->match, a->matches * sizeof(a->match[0]));
}

/* Sniffers see all; then come rules, then the defaults, multicast first. */
static unsigned flow_rank(enum ibv_flow_attr_type type)
{
	static const uint8_t ranks[] = {
		[IBV_FLOW_ATTR_SNIFFER] = 0, [IBV_FLOW_ATTR_NORMAL] = 1, [IBV_FLOW_ATTR_MC_DEFAULT] = 2,
		[IBV_FLOW_ATTR_ALL_DEFAULT] = 3,
	};

	return ranks[type];
}

bool flow_is_before(const struct flow_rule *a, const struct flow_rule *b)
{
	if (a->type != b->type)
		return flow_rank(a->type) < flow_rank(b->type);
	return a->priority < b->priority;
}
