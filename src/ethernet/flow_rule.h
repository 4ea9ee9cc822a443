/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Flow rules (ibv_create_flow(3)): which frames go to a queue pair. Each specification becomes a
 * header in the form in which struct frame has it, and a mask; a frame matches where all of them
 * are equal under their masks.
 */
#ifndef VERBATIM_ETHERNET_FLOW_RULE_H
#define VERBATIM_ETHERNET_FLOW_RULE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "ethernet/frame.h"

#define FLOW_MATCHES_MAX	12u
#define FLOW_COUNTERS_MAX	4u
#define FLOW_HEADER_MAX		40u	/* IPv6 */

struct flow_match {
	uint8_t layer;			/* enum frame_layer */
	bool inner, needs_tag;
	uint8_t value[FLOW_HEADER_MAX], mask[FLOW_HEADER_MAX];
};

struct flow_rule {
	enum ibv_flow_attr_type type;
	uint16_t priority;		/* 0 comes first */
	bool passes_on;			/* IBV_FLOW_ATTR_FLAGS_DONT_TRAP: later rules see the frame, too */
	bool drops;
	uint32_t tag;			/* for completions; 0: none */
	unsigned counters;
	struct ibv_counters *counter[FLOW_COUNTERS_MAX];
	unsigned matches;
	struct flow_match match[FLOW_MATCHES_MAX];
};

/*
 * @attr with num_of_specs specifications behind it, each as long as it says; attr->size is not looked at, as other
 * providers do not. 0; EINVAL, EOPNOTSUPP: explained.
 */
int flow_rule_of(const struct ibv_flow_attr *attr, struct flow_rule *rule);

/* Does a frame pass the rule? Types and priorities are the caller's. */
bool flow_matches(const struct flow_rule *rule, const struct frame *frame);
/* Do both take the same frames at the same priority? Their queue pairs have a copy each, then. */
bool flow_is_same(const struct flow_rule *a, const struct flow_rule *b);
/* Is @a looked at before @b? */
bool flow_is_before(const struct flow_rule *a, const struct flow_rule *b);

#endif
