/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Messages of communication management (IBTA chapter 12): MADs <-> struct cm_message. Pure. The
 * structures are made of the rows of cm_message.def: struct cm_req, struct cm_rep ... with a member
 * for each field, integers in host order, and at last `uint8_t private_data[N]`, always whole: its
 * length does not travel.
 *
 * Behind cm_message_parse() every number is within the width of its field and nothing else is sure:
 * lengths (info_bytes), enumerations and communication IDs are the sender's.
 */
#ifndef VERBATIM_WIRE_CM_MESSAGE_H
#define VERBATIM_WIRE_CM_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/mad.h"

#define CM_CLASS_VERSION	2u
#define CM_INFO_BYTES		72u	/* additional information of REJ, APR, SIDR_REP */

enum cm_message_kind {
#define CM_MESSAGE(kind, member, attribute) CM_MESSAGE_##kind,
#define CM_FIELD(member, field, type, byte, bit, width)
#define CM_BYTES(member, field, byte, count)
#define CM_PRIVATE(member, byte, count)
#define CM_END(member)
#include "wire/cm_message.def"
#undef CM_MESSAGE
#undef CM_FIELD
#undef CM_BYTES
#undef CM_PRIVATE
	CM_MESSAGE_KINDS
};

#define CM_MESSAGE(kind, member, attribute) struct cm_##member {
#define CM_FIELD(member, field, type, byte, bit, width) uint##type##_t field;
#define CM_BYTES(member, field, byte, count) uint8_t field[count];
#define CM_PRIVATE(member, byte, count) uint8_t private_data[count];
#undef CM_END
#define CM_END(member) };
#include "wire/cm_message.def"
#undef CM_MESSAGE
#undef CM_FIELD
#undef CM_BYTES
#undef CM_PRIVATE
#undef CM_END

struct cm_message {
	enum cm_message_kind kind;
	uint64_t transaction_id;
	uint32_t attribute_modifier;	/* 0, or options beside a vendor ID */
	union {
#define CM_MESSAGE(kind, member, attribute) struct cm_##member member;
#define CM_FIELD(member, field, type, byte, bit, width)
#define CM_BYTES(member, field, byte, count)
#define CM_PRIVATE(member, byte, count)
#define CM_END(member)
#include "wire/cm_message.def"
#undef CM_MESSAGE
#undef CM_FIELD
#undef CM_BYTES
#undef CM_PRIVATE
#undef CM_END
	};
};

enum cm_reject_reason {
#define CM_REJECT(number, id, text) CM_REJECT_##id = number,
#define CM_SIDR(number, id, text)
#define CM_APR(number, id, text)
#include "wire/cm_status.def"
#undef CM_REJECT
};

enum cm_sidr_status {
#define CM_REJECT(number, id, text)
#undef CM_SIDR
#define CM_SIDR(number, id, text) CM_SIDR_##id = number,
#include "wire/cm_status.def"
#undef CM_SIDR
};

enum cm_apr_status {
#define CM_SIDR(number, id, text)
#undef CM_APR
#define CM_APR(number, id, text) CM_APR_##id = number,
#include "wire/cm_status.def"
#undef CM_REJECT
#undef CM_SIDR
#undef CM_APR
};

/* The message that an MRA or a REJ refers to (12.6.6.1, 12.6.7.1). */
enum cm_about { CM_ABOUT_REQ, CM_ABOUT_REP, CM_ABOUT_OTHER };

/* Transport of a connection: service type and extended type of a REQ (12.6.5, annex A14). */
enum cm_transport {
	CM_TRANSPORT_RC, CM_TRANSPORT_UC, CM_TRANSPORT_RD, CM_TRANSPORT_XRC,
	CM_TRANSPORT_NONE,	/* reserved numbers */
};
enum cm_transport cm_req_transport(const struct cm_req *req);
void cm_req_set_transport(struct cm_req *req, enum cm_transport transport);
/* The QP that a REP names: that of an XRC target stands in the field of the EE context. */
uint32_t cm_rep_qpn(const struct cm_rep *rep, enum cm_transport transport);
uint32_t cm_rep_vendor_id(const struct cm_rep *rep);
void cm_rep_set_vendor_id(struct cm_rep *rep, uint32_t vendor_id);

/* False: not a MAD of the class, version and method, or of no known attribute. */
bool cm_message_parse(const uint8_t mad[MAD_BYTES], struct cm_message *message);
/* The whole MAD. Numbers are cut to the width of their field. */
void cm_message_write(const struct cm_message *message, uint8_t mad[MAD_BYTES]);

/*
 * What a host answers where nobody serves what is asked for, or has the connection. False: nothing.
 */
bool cm_message_refuse(const struct cm_message *message, struct cm_message *answer);

uint8_t *cm_message_private_data(struct cm_message *message, size_t *bytes);
size_t cm_private_data_bytes(enum cm_message_kind kind);
/* Communication ID of the sender (0: the message has none), and of the receiver. */
uint32_t cm_message_sender_id(const struct cm_message *message);
uint32_t cm_message_receiver_id(const struct cm_message *message);

/* "REQ"; "CONSUMER_DEFINED"; NULL where there is no such number. Sentences: cm_status.def. */
const char *cm_message_name(enum cm_message_kind kind);
const char *cm_reject_name(uint16_t reason);
const char *cm_reject_text(uint16_t reason);
const char *cm_sidr_name(uint8_t status);
const char *cm_sidr_text(uint8_t status);
const char *cm_apr_name(uint8_t status);
const char *cm_apr_text(uint8_t status);
const char *cm_transport_name(enum cm_transport transport);

/*
 * The addresses of the RDMA IP CM service (annex A11), at the beginning of the private data of REQ
 * and SIDR_REQ whose service ID is of one of its port spaces. IPv4 is v4-mapped. They are claims of the
 * sender, not verified.
 */
struct cm_ip_addresses {
	uint8_t source[16], destination[16];
	uint16_t source_port;
	bool ipv6;
};
/* False: another service ID, another message, or no such header. */
bool cm_message_ip(const struct cm_message *message, struct cm_ip_addresses *addresses);

/* Destination of a MAD, from its bytes alone; used to forward it between processes. */
enum cm_target_kind {
	CM_TARGET_NONE,		/* malformed */
	CM_TARGET_SERVICE,	/* REQ, SIDR_REQ: the process that serves service_id */
	CM_TARGET_ID,		/* all others: the process that chose comm_id */
	/* A REJ of a REQ that was never answered: no communication ID is known, its comm_id is 0. */
	CM_TARGET_UNKNOWN,
};
struct cm_target {
	enum cm_target_kind kind;
	uint64_t service_id;
	bool has_address;	/* the IP CM header says so: */
	uint8_t address[16];	/* v4-mapped */
	uint32_t comm_id;
	uint32_t sender_id;	/* 0: it names none */
};
/* @mad: of class CM or not. Returns target->kind. */
enum cm_target_kind cm_message_target(const uint8_t mad[MAD_BYTES], struct cm_target *target);

#endif
