/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Dropped packets: counted, and words for them (drop.h). Lines that repeat themselves are counted, and all
 * lines of this kind are limited to a few a second (base/log.c): whoever sends such packets cannot flood
 * stderr.
 */
#include "base/ip_addr.h"
#include "transport/drop.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "transport/internal.h"
#include "wire/opcode.h"

#define DROP_WORDS_MAX 512

enum drop count_drop(const struct qp_call *call, enum drop why)
{
	static const uint8_t tally[DROP_COUNT] = {
		[DROP_NONE] = QP_COUNTER_NONE,
#define DROP(reason, counter, tally, words, peer, key) [DROP_##reason] = QP_COUNTER_##tally,
#include "tracepoint/drop.def"
#undef DROP
	};

	if (tally[why] != QP_COUNTER_NONE)
		atomic_fetch_add_explicit(&call->qp->access->tally[tally[why]], 1, memory_order_relaxed);
	return drop_count(call->qp->transport->counters, why, 1);
}

const char *address_text(const uint8_t address[16], char *buffer)
{
	if (ip_addr_is_ipv4(address))
		return inet_ntop(AF_INET, address + 12, buffer, 46);
	if (ip_addr_is_lid(address)) {
		snprintf(buffer, 46, "LID %u", address[14] << 8 | address[15]);
		return buffer;
	}
	return inet_ntop(AF_INET6, address, buffer, 46);
}

/* States that take no packets, and what to do: here, or where the value comes from. */
static const char *drop_state_advice(enum ibv_qp_state state, bool theirs)
{
	if (theirs)
		return state == IBV_QPS_ERR ?
			       ": see its first error, a completion or an explanation there before this one" :
			       " and takes no packets: ibv_modify_qp to RTR there before the first request here";
	return state == IBV_QPS_RESET ? "ibv_modify_qp to INIT, then to RTR, before the peer sends" :
	       state == IBV_QPS_INIT  ? "ibv_modify_qp to RTR before the peer sends" :
		"it failed or was moved there: make a new one, or ibv_modify_qp to RESET, INIT, RTR";
}

#define DROP_ROCE_PKEY	": RoCE has 0xffff alone (pkey_index 0)"
#define DROP_PORT_PKEY	": no row of this port's table lets it in (smpquery pkeys): one has to be the same " \
			"but for bit 15, which one of both needs: a full member"

/* The field @name of @length characters; what snprintf() returns. */
static int drop_field(const char *name, size_t length, const struct drop_facts *facts, char *out, size_t size)
{
	const struct packet *packet = facts->packet;
	struct qp *qp = facts->qp;
	char address[46];

#define FIELD(id, ...)                                                     \
	if (length == sizeof(#id) - 1 && !memcmp(name, #id, length)) \
		return snprintf(out, size, __VA_ARGS__);
/* Of one packet: another one with the same fields otherwise is dropped for the same reason. */
#define FIELD_OF_PACKET(id, ...) FIELD(id, facts->is_rule ? "" : __VA_ARGS__)
	FIELD(op, "%s", packet->op->name)
	FIELD(source, "%s", address_text(facts->source, address))
	FIELD(dest, "0x%06x", facts->dest_qpn)
	FIELD(pkey, "0x%04x", packet->pkey)
	FIELD_OF_PACKET(psn, "%u", facts->psn)
	FIELD(from_qp, "0x%06x", packet->deth.source_qpn)
	FIELD(qkey, "0x%08x", packet->deth.qkey)
	FIELD_OF_PACKET(bytes, "%zu", packet->payload_bytes)
	if (!qp)
		FIELD(pkey_rule, ip_addr_is_lid(facts->source) ? DROP_PORT_PKEY : DROP_ROCE_PKEY)
	if (!qp)
		return snprintf(out, size, "{%.*s}", (int)length, name);
	lock_assert_held(&qp->lock);
	FIELD(qp, "0x%06x", qp->number)
	if (!qp->ib_port)
		FIELD(pkey_rule, DROP_ROCE_PKEY)
	FIELD(pkey_rule, ", and the QP's is 0x%04x (pkey_index %u): they have to be the same but for bit 15, "
	      "which one of both needs: a full member", qp->pkey, qp->attr.pkey_index)
	FIELD(type, "%s", qp_type_name(qp->type))
	FIELD(state, "%s", qp_state_name(qp->state))
	FIELD(advice, "%s", drop_state_advice(qp->state, false))
	FIELD(peer_qp, "0x%06x", qp->attr.dest_qp_num)
	FIELD(peer, "%s", address_text(qp->route.destination, address))
	FIELD(own, "%s", address_text(qp->route.source, address))
	FIELD(own_qkey, "0x%08x", qp->attr.qkey)
	FIELD_OF_PACKET(first_psn, "%u", qp->attr.rq_psn & PSN_MASK)
	FIELD_OF_PACKET(room, "%llu", (unsigned long long)qp->responder.recv_bytes)
	FIELD_OF_PACKET(wr_id, "0x%llx", (unsigned long long)qp->responder.recv->wr_id)
	FIELD(grh_advice, "%s", packet->payload_bytes > qp->responder.recv_bytes ? "" :
	      ": receives of UD need 40 bytes in front of the message")
	FIELD(value, "%u", facts->value)
	FIELD(value_qp, "0x%06x", facts->value)
	FIELD(value_type, "%s", qp_type_name((enum ibv_qp_type)facts->value))
	FIELD(value_state, "%s", qp_state_name((enum ibv_qp_state)facts->value))
	FIELD(value_advice, "%s", drop_state_advice((enum ibv_qp_state)facts->value, true))
#undef FIELD_OF_PACKET
#undef FIELD
	return snprintf(out, size, "{%.*s}", (int)length, name);
}

const char *drop_write(const char *words, const struct drop_facts *facts, char *out, size_t size)
{
	size_t used = 0;

	while (*words && used + 1 < size) {
		const char *end = *words == '{' ? strchr(words, '}') : NULL;
		int length;

		if (!end) {
			out[used++] = *words++;
			continue;
		}
		length = drop_field(words + 1, (size_t)(end - words) - 1, facts, out + used, size - used);
		used += (size_t)length < size - used ? (size_t)length : size - used - 1;
		words = end + 1;
	}
	out[used] = '\0';
	return out;
}

void drop_print(enum drop why, struct qp *qp, const struct packet *packet, const uint8_t source[16],
		uint32_t qpn)
{
	struct drop_facts facts = { .qp = qp, .packet = packet, .source = source, .dest_qpn = qpn,
				    .psn = packet ? packet->psn : 0 };
	const struct drop_row *row = drop_row(why);
	char words[DROP_WORDS_MAX], rule[DROP_WORDS_MAX], key[64] = "";

	if (!row->words || (packet && (opcode_is_notice(packet->op) || opcode_is_response(packet->op))))
		return;
	drop_write(row->words, &facts, words, sizeof(words));
	if (row->key)
		drop_write(row->key, &facts, key, sizeof(key));
	facts.is_rule = true;
	explain_print(&(const struct explanation){ .key = row->key ? key : NULL, .remote = true,
						   .rule = drop_write(row->words, &facts, rule, sizeof(rule)),
						   .of = OF(QP, qp ? qp->number : qpn) }, "%s", words);
}
