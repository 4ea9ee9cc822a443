/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The bytes of wire.h, written and read. Pure: no state, no verbs. What is read comes from
 * a peer: every field is checked here or has no meaning that could hurt.
 */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "base/bytes.h"
#include "rsockets/wire.h"

static const uint8_t magic[4] = { 'V', 'b', 'R', 'S' };

/*
 *	 0	4	6	8	   12	      16	     24      28
 *	 magic	version	0	messages   iomaps     ring address   key     ring bytes
 */
void rs_hello_write(const struct rs_hello *hello, uint8_t bytes[RS_HELLO_BYTES])
{
	memcpy(bytes, magic, sizeof(magic));
	put_be16(bytes + 4, RS_VERSION);
	put_be16(bytes + 6, 0);
	put_be32(bytes + 8, hello->messages);
	put_be32(bytes + 12, hello->iomaps);
	put_be64(bytes + 16, hello->ring_address);
	put_be32(bytes + 24, hello->ring_key);
	put_be32(bytes + 28, hello->ring_bytes);
}

int rs_hello_read(const uint8_t *bytes, size_t length, struct rs_hello *hello, unsigned *version)
{
	struct rs_hello read;

	if (length < 6 || memcmp(bytes, magic, sizeof(magic)))
		return EPROTO;
	*version = get_be16(bytes + 4);
	if (*version != RS_VERSION)
		return EPROTONOSUPPORT;
	if (length < RS_HELLO_BYTES)
		return EPROTO;
	read.messages = get_be32(bytes + 8);
	read.iomaps = get_be32(bytes + 12);
	read.ring_address = get_be64(bytes + 16);
	read.ring_key = get_be32(bytes + 24);
	read.ring_bytes = get_be32(bytes + 28);
	if (read.ring_bytes < RS_RING_MIN || read.ring_bytes > RS_RING_MAX || !read.messages)
		return EPROTO;
	*hello = read;
	return 0;
}

/*
 *	0	1	2	4	8	16	24
 *	kind	how	index	number	bytes	length	address
 *
 * number: messages of a CREDIT, key of an IOMAP. bytes: of a CREDIT, offset of an IOMAP.
 */
void rs_control_write(const struct rs_control *control, uint8_t bytes[RS_CONTROL_BYTES])
{
	memset(bytes, 0, RS_CONTROL_BYTES);
	bytes[0] = (uint8_t)control->kind;
	bytes[1] = (uint8_t)control->how;
	put_be16(bytes + 2, control->index);
	if (control->kind == RS_CREDIT) {
		put_be32(bytes + 4, control->messages);
		put_be64(bytes + 8, control->bytes);
	} else if (control->kind == RS_IOMAP) {
		put_be32(bytes + 4, control->key);
		put_be64(bytes + 8, control->offset);
		put_be64(bytes + 16, control->length);
		put_be64(bytes + 24, control->address);
	}
}

int rs_control_read(const uint8_t *bytes, size_t length, struct rs_control *control)
{
	struct rs_control read = { 0 };

	if (length != RS_CONTROL_BYTES)
		return EPROTO;
	if (bytes[0] < RS_CREDIT || bytes[0] > RS_IOUNMAP)
		return EPROTO;
	read.kind = (enum rs_control_kind)bytes[0];
	if (read.kind == RS_SHUTDOWN && bytes[1] != RS_NO_MORE_DATA && bytes[1] != RS_GONE)
		return EPROTO;
	read.how = read.kind == RS_SHUTDOWN ? (enum rs_shutdown_how)bytes[1] : 0;
	read.index = get_be16(bytes + 2);
	if (read.kind == RS_CREDIT) {
		read.messages = get_be32(bytes + 4);
		read.bytes = get_be64(bytes + 8);
	} else if (read.kind == RS_IOMAP) {
		read.key = get_be32(bytes + 4);
		read.offset = get_be64(bytes + 8);
		read.length = get_be64(bytes + 16);
		read.address = get_be64(bytes + 24);
		if (!read.length || read.offset + read.length < read.offset ||
		    read.address + read.length < read.address)
			return EPROTO;
	}
	*control = read;
	return 0;
}

enum { FAMILY_IPV4 = 4, FAMILY_IPV6 = 6 };

/*
 *	0		1	2	4
 *	version		family	port	address (IPv4: the first four bytes)
 */
void rs_datagram_header_write(const struct sockaddr_storage *address, uint8_t *bytes)
{
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

	memset(bytes, 0, RS_DATAGRAM_HEADER_BYTES);
	bytes[0] = RS_DATAGRAM_VERSION;
	if (address->ss_family == AF_INET6) {
		bytes[1] = FAMILY_IPV6;
		memcpy(bytes + 2, &v6->sin6_port, 2);
		memcpy(bytes + 4, &v6->sin6_addr, 16);
	} else {
		bytes[1] = FAMILY_IPV4;
		memcpy(bytes + 2, &v4->sin_port, 2);
		memcpy(bytes + 4, &v4->sin_addr, 4);
	}
}

int rs_datagram_header_read(const uint8_t *bytes, size_t length, struct sockaddr_storage *address)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)address;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)address;

	if (length < RS_DATAGRAM_HEADER_BYTES || bytes[0] != RS_DATAGRAM_VERSION)
		return EPROTO;
	if (bytes[1] != FAMILY_IPV4 && bytes[1] != FAMILY_IPV6)
		return EPROTO;
	memset(address, 0, sizeof(*address));
	if (bytes[1] == FAMILY_IPV6) {
		v6->sin6_family = AF_INET6;
		memcpy(&v6->sin6_port, bytes + 2, 2);
		memcpy(&v6->sin6_addr, bytes + 4, 16);
	} else {
		v4->sin_family = AF_INET;
		memcpy(&v4->sin_port, bytes + 2, 2);
		memcpy(&v4->sin_addr, bytes + 4, 4);
	}
	return 0;
}
