/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Readers and writers of messages: one of each for a kind, which the compiler makes of its rows. A walk
 * over the rows (wire/field.h) does the same, by ten times as many instructions.
 */
#include "wire/cm_message.h"

#include <assert.h>
#include <string.h>

#include "base/bytes.h"
#include "wire/cm_table.h"

#define IP_CM_BYTES		36u	/* of the header of annex A11 */

/* ---- the table ---- */

#define CM_MESSAGE(kind, member, attribute) static const struct wire_field member##_fields[] = {
#define CM_FIELD(member, field, type, byte, from, bits)                             \
	{ #field, (byte) * 8 + (from), bits, offsetof(struct cm_message, member.field), \
	  (type) / 8 },
#define CM_BYTES(member, field, byte, count) \
	{ #field, (byte) * 8, (count) * 8, offsetof(struct cm_message, member.field), 0 },
#define CM_PRIVATE(member, byte, count) CM_BYTES(member, private_data, byte, count)
#define CM_END(member) };
#include "wire/cm_message.def"
#undef CM_MESSAGE
#undef CM_FIELD
#undef CM_BYTES
#undef CM_PRIVATE
#undef CM_END

#define CM_MESSAGE(kind, member, attribute)                                                  \
	static void cm_read_##member(const uint8_t *data, struct cm_message *message)        \
	{
#define CM_FIELD(member, field, type, byte, from, bits) \
		message->member.field = (uint##type##_t)field_get(data, (byte) * 8 + (from), bits);
#define CM_BYTES(member, field, byte, count) memcpy(message->member.field, data + (byte), count);
#define CM_PRIVATE(member, byte, count) CM_BYTES(member, private_data, byte, count)
#define CM_END(member) }
#include "wire/cm_message.def"
#undef CM_MESSAGE
#undef CM_FIELD
#undef CM_BYTES
#undef CM_PRIVATE
#undef CM_END

#define CM_MESSAGE(kind, member, attribute)                                                  \
	static void cm_write_##member(const struct cm_message *message, uint8_t *data)       \
	{
#define CM_FIELD(member, field, type, byte, from, bits) \
		field_set(data, (byte) * 8 + (from), bits, message->member.field);
#define CM_BYTES(member, field, byte, count) memcpy(data + (byte), message->member.field, count);
#define CM_PRIVATE(member, byte, count) CM_BYTES(member, private_data, byte, count)
#define CM_END(member) }
#include "wire/cm_message.def"
#undef CM_MESSAGE
#undef CM_FIELD
#undef CM_BYTES
#undef CM_PRIVATE
#undef CM_END

static const struct cm_layout layouts[CM_MESSAGE_KINDS] = {
#define CM_MESSAGE(kind, member, attribute)                                          \
	[CM_MESSAGE_##kind] = { #kind, attribute, cm_read_##member, cm_write_##member, member##_fields, \
				sizeof(member##_fields) / sizeof(*member##_fields),
#define CM_FIELD(member, field, type, byte, bit, width)
#define CM_BYTES(member, field, byte, count)
#define CM_PRIVATE(member, byte, count) count, offsetof(struct cm_message, member.private_data) },
#define CM_END(member)
#include "wire/cm_message.def"
#undef CM_MESSAGE
#undef CM_FIELD
#undef CM_BYTES
#undef CM_PRIVATE
#undef CM_END
};

const struct cm_layout *cm_layout(enum cm_message_kind kind)
{
	return &layouts[kind];
}

/* ---- reading and writing ---- */

bool cm_message_parse(const uint8_t mad[MAD_BYTES], struct cm_message *message)
{
	struct mad_header header;
	unsigned kind = 0;

	if (!mad_parse(mad, MAD_BYTES, &header) || header.class != MAD_CLASS_CM ||
	    header.class_version != CM_CLASS_VERSION || header.method != MAD_METHOD_SEND)
		return false;
	while (kind < CM_MESSAGE_KINDS && layouts[kind].attribute != header.attribute_id)
		kind++;
	if (kind == CM_MESSAGE_KINDS)
		return false;
	message->kind = (enum cm_message_kind)kind;
	message->transaction_id = header.transaction_id;
	message->attribute_modifier = header.attribute_modifier;
	layouts[kind].read(mad + MAD_HEADER_BYTES, message);
	return true;
}

void cm_message_write(const struct cm_message *message, uint8_t mad[MAD_BYTES])
{
	const struct cm_layout *layout = &layouts[message->kind];
	const struct mad_header header = {
		.base_version = MAD_BASE_VERSION,
		.class = MAD_CLASS_CM,
		.class_version = CM_CLASS_VERSION,
		.method = MAD_METHOD_SEND,
		.attribute_id = layout->attribute,
		.transaction_id = message->transaction_id,
		.attribute_modifier = message->attribute_modifier,
	};

	mad_write(&header, mad);
	memset(mad + MAD_HEADER_BYTES, 0, MAD_DATA_BYTES);
	layout->write(message, mad + MAD_HEADER_BYTES);
}

uint8_t *cm_message_private_data(struct cm_message *message, size_t *bytes)
{
	*bytes = layouts[message->kind].private_bytes;
	return (uint8_t *)message + layouts[message->kind].private_offset;
}

size_t cm_private_data_bytes(enum cm_message_kind kind)
{
	return layouts[kind].private_bytes;
}

/* ---- sender and receiver of a message ---- */

/* Every message begins with the sender's ID, except SIDR_REP, which has the receiver's only. */
uint32_t cm_message_sender_id(const struct cm_message *message)
{
	return message->kind == CM_MESSAGE_SIDR_REP ? 0 : message->rtu.local_comm_id;
}

uint32_t cm_message_receiver_id(const struct cm_message *message)
{
	switch (message->kind) {
	case CM_MESSAGE_REQ:
	case CM_MESSAGE_SIDR_REQ:
		return 0;
	case CM_MESSAGE_SIDR_REP:
		return message->sidr_rep.request_id;
	default:
		return message->rtu.remote_comm_id;
	}
}

static bool cm_message_service_of(const struct cm_message *message, uint64_t *service_id,
				  const uint8_t **data)
{
	if (message->kind == CM_MESSAGE_REQ) {
		*service_id = message->req.service_id;
		*data = message->req.private_data;
	} else if (message->kind == CM_MESSAGE_SIDR_REQ) {
		*service_id = message->sidr_req.service_id;
		*data = message->sidr_req.private_data;
	} else {
		return false;
	}
	return true;
}

static void read_ip(const uint8_t *data, bool ipv6, uint8_t address[16])
{
	memcpy(address, data, 16);
	if (!ipv6) {		/* the last four bytes are the address, the rest is reserved */
		memset(address, 0, 10);
		memset(address + 10, 0xff, 2);
	}
}

/* | version 8 | IP version 4, reserved 4 | source port 16 | source 128 | destination 128 | */
bool cm_message_ip(const struct cm_message *message, struct cm_ip_addresses *addresses)
{
	const uint8_t *data;
	uint64_t service_id, space;
	uint8_t version;

	static_assert(IP_CM_BYTES <= sizeof(message->req.private_data), "the header fits");
	if (!cm_message_service_of(message, &service_id, &data))
		return false;
	space = service_id >> 16;	/* a port space of rdma_cma.h stands above the port */
	if (space != 0x0106 && space != 0x0111 && space != 0x0002 && space != 0x013f)
		return false;
	version = data[1] >> 4;
	if (data[0] || (version != 4 && version != 6))
		return false;
	addresses->ipv6 = version == 6;
	addresses->source_port = get_be16(data + 2);
	read_ip(data + 4, addresses->ipv6, addresses->source);
	read_ip(data + 20, addresses->ipv6, addresses->destination);
	return true;
}

enum cm_target_kind cm_message_target(const uint8_t mad[MAD_BYTES], struct cm_target *target)
{
	struct cm_ip_addresses addresses;
	struct cm_message message;
	const uint8_t *data;

	*target = (struct cm_target){ .kind = CM_TARGET_NONE };
	if (!cm_message_parse(mad, &message))
		return target->kind;
	target->sender_id = cm_message_sender_id(&message);
	if (cm_message_service_of(&message, &target->service_id, &data)) {
		target->kind = CM_TARGET_SERVICE;
		target->has_address = cm_message_ip(&message, &addresses);
		if (target->has_address)
			memcpy(target->address, addresses.destination, 16);
		return target->kind;
	}
	target->comm_id = cm_message_receiver_id(&message);
	target->kind = message.kind == CM_MESSAGE_REJ && !target->comm_id ? CM_TARGET_UNKNOWN :
									    CM_TARGET_ID;
	return target->kind;
}

/* ---- the answer of a host where nobody is there for a message ---- */

bool cm_message_refuse(const struct cm_message *message, struct cm_message *answer)
{
	*answer = (struct cm_message){ .transaction_id = message->transaction_id };
	switch (message->kind) {
	case CM_MESSAGE_REQ:
		answer->kind = CM_MESSAGE_REJ;
		answer->rej.remote_comm_id = message->req.local_comm_id;
		answer->rej.message = CM_ABOUT_REQ;
		answer->rej.reason = CM_REJECT_INVALID_SERVICE_ID;
		return true;
	case CM_MESSAGE_SIDR_REQ:
		answer->kind = CM_MESSAGE_SIDR_REP;
		answer->sidr_rep.request_id = message->sidr_req.request_id;
		answer->sidr_rep.status = CM_SIDR_UNSUPPORTED;
		answer->sidr_rep.service_id = message->sidr_req.service_id;
		return true;
	case CM_MESSAGE_DREQ:
		answer->kind = CM_MESSAGE_DREP;
		answer->drep.local_comm_id = message->dreq.remote_comm_id;
		answer->drep.remote_comm_id = message->dreq.local_comm_id;
		return true;
	default:
		return false;
	}
}

/* ---- transports ---- */

#define SERVICE_TYPE_EXTENDED	3u
#define EXTENDED_XRC		1u

enum cm_transport cm_req_transport(const struct cm_req *req)
{
	if (req->transport_service != SERVICE_TYPE_EXTENDED)
		return (enum cm_transport)req->transport_service;
	return req->extended_transport == EXTENDED_XRC ? CM_TRANSPORT_XRC : CM_TRANSPORT_NONE;
}

void cm_req_set_transport(struct cm_req *req, enum cm_transport transport)
{
	req->transport_service = (uint8_t)transport;
	req->extended_transport = transport == CM_TRANSPORT_XRC ? EXTENDED_XRC : 0;
}

uint32_t cm_rep_qpn(const struct cm_rep *rep, enum cm_transport transport)
{
	return transport == CM_TRANSPORT_XRC ? rep->local_eecn : rep->local_qpn;
}

uint32_t cm_rep_vendor_id(const struct cm_rep *rep)
{
	return (uint32_t)rep->vendor_id_high << 16 | (uint32_t)rep->vendor_id_middle << 8 |
	       rep->vendor_id_low;
}

void cm_rep_set_vendor_id(struct cm_rep *rep, uint32_t vendor_id)
{
	rep->vendor_id_high = (uint8_t)(vendor_id >> 16);
	rep->vendor_id_middle = (uint8_t)(vendor_id >> 8);
	rep->vendor_id_low = (uint8_t)vendor_id;
}

/* ---- names ---- */

struct status {
	const char *name, *text;
};

static const struct status reject_table[] = {
#define CM_REJECT(number, id, sentence) [number] = { #id, sentence },
#define CM_SIDR(number, id, sentence)
#define CM_APR(number, id, sentence)
#include "wire/cm_status.def"
#undef CM_REJECT
#undef CM_SIDR
};

static const struct status sidr_table[] = {
#define CM_REJECT(number, id, sentence)
#define CM_SIDR(number, id, sentence) [number] = { #id, sentence },
#include "wire/cm_status.def"
#undef CM_SIDR
#undef CM_APR
};

static const struct status apr_table[] = {
#define CM_SIDR(number, id, sentence)
#define CM_APR(number, id, sentence) [number] = { #id, sentence },
#include "wire/cm_status.def"
#undef CM_REJECT
#undef CM_SIDR
#undef CM_APR
};

#define LOOK_UP(table, number, member) \
	((number) < sizeof(table) / sizeof(*(table)) ? (table)[number].member : NULL)

const char *cm_message_name(enum cm_message_kind kind)
{
	return (unsigned)kind < CM_MESSAGE_KINDS ? layouts[kind].name : NULL;
}

const char *cm_reject_name(uint16_t reason)
{
	return LOOK_UP(reject_table, reason, name);
}

const char *cm_reject_text(uint16_t reason)
{
	return LOOK_UP(reject_table, reason, text);
}

const char *cm_sidr_name(uint8_t status)
{
	return LOOK_UP(sidr_table, status, name);
}

const char *cm_sidr_text(uint8_t status)
{
	return LOOK_UP(sidr_table, status, text);
}

const char *cm_apr_name(uint8_t status)
{
	return LOOK_UP(apr_table, status, name);
}

const char *cm_apr_text(uint8_t status)
{
	return LOOK_UP(apr_table, status, text);
}

const char *cm_transport_name(enum cm_transport transport)
{
	static const char *const names[] = { "RC", "UC", "RD", "XRC" };

	return (unsigned)transport < 4 ? names[transport] : "no known transport";
}
