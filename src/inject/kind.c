/* SPDX-License-Identifier: BSD-2-Clause */
/* What kinds a packet is of, for rules of VERBATIM_FAULT. */
#include "inject/inject.h"
#include "wire/aeth.h"

#define BIT(id)	(1u << INJECT_KIND_##id)

static const char *const kind_names[] = {
#define INJECT_KIND(id, name, about) name,
#include "inject/kind.def"
#undef INJECT_KIND
};

static const char *const action_names[] = {
#define INJECT_ACTION(id, name, counted) name,
#include "inject/action.def"
#undef INJECT_ACTION
};

const char *inject_kind_name(enum inject_kind kind)
{
	return kind_names[kind];
}

const char *inject_action_name(enum inject_action action)
{
	return action < INJECT_ACTIONS ? action_names[action] : "none";
}

static uint32_t kinds_of_request(const struct opcode *op)
{
	switch (op->verb) {
	case VERB_SEND:
		return BIT(REQUEST) | BIT(SEND);
	case VERB_WRITE:
	case VERB_ATOMIC_WRITE:
		return BIT(REQUEST) | BIT(WRITE);
	case VERB_READ:
		return BIT(REQUEST) | BIT(READ);
	case VERB_ATOMIC:
		return BIT(REQUEST) | BIT(ATOMIC);
	default:
		return BIT(REQUEST);
	}
}

uint32_t inject_kinds(const struct opcode *op, uint32_t dest_qpn, uint8_t syndrome)
{
	if (dest_qpn == QPN_GSI)
		return BIT(CM);
	if (opcode_is_notice(op))
		return BIT(CNP);
	if (op->service == SERVICE_UD)
		return BIT(UD);
	if (!opcode_is_response(op))
		return kinds_of_request(op);
	if (op->verb != VERB_ACK)
		return BIT(RESPONSE);
	if (aeth_kind(syndrome) == AETH_ACK)
		return BIT(ACK);
	return BIT(NAK) | (aeth_kind(syndrome) == AETH_RNR ? BIT(RNR) : 0);
}

enum inject_kind inject_first_kind(uint32_t kinds)
{
	return (enum inject_kind)__builtin_ctz(kinds);
}
