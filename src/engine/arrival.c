/* SPDX-License-Identifier: BSD-2-Clause */
/* Reads a received packet: arrival.h. */
#include "engine/arrival.h"

#include <string.h>

#include "base/inline.h"
#include "engine/internal.h"

/* Shared memory may change: headers are copied before parsing; payload is taken as it comes. */
static enum parse parse_shared(const uint8_t *data, size_t bytes, struct packet *packet)
{
	uint8_t headers[PACKET_HEADER_MAX];
	enum parse verdict;

	memcpy(headers, data, bytes < sizeof(headers) ? bytes : sizeof(headers));
	verdict = packet_parse(headers, bytes, packet);
	if (verdict == PARSE_OK)
		packet->payload = data + (packet->payload - headers);
	return verdict;
}

/* Of the packet at hand, whose headers are then arrival->header. */
static APART enum icrc_verdict arrival_judge(struct arrival *arrival, struct icrc_memo *memo)
{
	const struct datagram *datagram = arrival->datagram;
	const unsigned segment = arrival->segment;

	arrival->header = icrc_header_of(datagram, segment);
	memcpy(memo->source, datagram->source, sizeof(memo->source));
	memcpy(memo->destination, datagram->destination, sizeof(memo->destination));
	memo->source_port = datagram->source_port;
	memo->ip_id = arrival->header.ip_id;
	memo->bytes = arrival->bytes;
	memo->crc = icrc_begin(&arrival->header, arrival->bytes - ICRC_BYTES);
	return icrc_judge(&arrival->header,
			  icrc_of_begun(memo->crc, arrival->data, arrival->bytes - ICRC_BYTES),
			  arrival->data, arrival->bytes);
}

/* The same where the CRC is known. */
static APART enum icrc_verdict arrival_solve(struct arrival *arrival, uint32_t computed)
{
	arrival->header = icrc_header_of(arrival->datagram, arrival->segment);
	return icrc_judge(&arrival->header, computed, arrival->data, arrival->bytes);
}

/* The same for a packet of headers that came before. */
static enum icrc_verdict arrival_check(struct arrival *arrival, struct icrc_memo memo[ICRC_MEMOS])
{
	const struct datagram *datagram = arrival->datagram;
	uint32_t computed;

	memo += (arrival->segment ^ arrival->bytes >> 2) % ICRC_MEMOS;
	if (memo->bytes != arrival->bytes || memo->ip_id != (uint16_t)arrival->segment ||
	    memo->source_port != datagram->source_port ||
	    __builtin_memcmp(memo->source, datagram->source, sizeof(memo->source)) ||
	    __builtin_memcmp(memo->destination, datagram->destination, sizeof(memo->destination)))
		return arrival_judge(arrival, memo);
	computed = icrc_of_begun(memo->crc, arrival->data, arrival->bytes - ICRC_BYTES);
	if (__builtin_expect(computed == icrc_of_packet(arrival->data, arrival->bytes), 1)) {
		arrival->header.ip_id = memo->ip_id;
		arrival->header.dont_fragment = true;
		return ICRC_GOOD;
	}
	return arrival_solve(arrival, computed);
}

void arrival_read(struct arrival *arrival, struct icrc_memo memo[ICRC_MEMOS], struct datagram *datagram,
		  uint8_t *data, size_t bytes, unsigned segment)
{
	struct packet *packet = &arrival->packet;
	enum parse verdict = datagram->shared ? parse_shared(data, bytes, packet) :
						packet_parse(data, bytes, packet);

	arrival->datagram = datagram;
	arrival->segment = segment;
	arrival->data = data;
	arrival->bytes = bytes;
	arrival->why = verdict == PARSE_OK	? DROP_NONE :
		       verdict == PARSE_SHORT	? DROP_SHORT :
		       verdict == PARSE_OPCODE	? DROP_OPCODE :
						  DROP_MALFORMED;
	arrival->icrc = datagram->sealed ? ICRC_GOOD : ICRC_BAD;
	if (datagram->checked && !datagram->bad_icrc)
		arrival->icrc = ICRC_GOOD;
	if (arrival->why || datagram->sealed)
		return;
	if (datagram->checked) {
		arrival->why = datagram->bad_icrc ? DROP_ICRC : DROP_NONE;
		return;
	}
	arrival->icrc = arrival_check(arrival, memo);
	if (arrival->icrc == ICRC_BAD)
		arrival->why = DROP_ICRC;
}

struct datagram arrival_datagram(const struct arrival *arrival)
{
	struct datagram one = *arrival->datagram;

	one.data = arrival->data;
	one.bytes = arrival->bytes;
	one.segment_bytes = 0;
	one.segment_number = arrival->segment;
	return one;
}

enum ip_id_kind arrival_ip_id(const struct arrival *arrival)
{
	return arrival->icrc == ICRC_GOOD ? IP_ID_PREDICTED :
	       ip_id_kind_of(arrival->header.ip_id, arrival->header.dont_fragment);
}
