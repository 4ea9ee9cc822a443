/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What rsockets of two Verbatims say to each other; everything big-endian.
 *
 *	hello		in the private data of REQ and REP: magic, version, where the ring of the
 *			one who says it is
 *	data		RDMA WRITE with immediate into that ring; the immediate is the length, with
 *			RS_URGENT if the last byte is urgent
 *	control		SEND of RS_CONTROL_BYTES into the receive that it takes: credits, ends,
 *			mappings
 *	datagram header	before each datagram: the sender's own address and port
 *
 * rdma-core's rsockets begin their private data with a version byte 1: neither takes the other
 * for its own, and refuses.
 */
#ifndef VERBATIM_RSOCKETS_WIRE_H
#define VERBATIM_RSOCKETS_WIRE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

enum {
	RS_VERSION = 2,			/* of streams: 1 had no urgent data */
	RS_DATAGRAM_VERSION = 1,
	RS_HELLO_BYTES = 32,
	RS_CONTROL_BYTES = 32,
	RS_DATAGRAM_HEADER_BYTES = 20,
	RS_RING_MIN = 4096,
	RS_RING_MAX = 1 << 28,		/* a length fits in the immediate with room to spare */
};

#define RS_URGENT	0x80000000u

struct rs_hello {
	uint64_t ring_address;
	uint32_t ring_key;
	uint32_t ring_bytes;
	uint32_t messages;		/* limit of struct rs_flow_out for the receiver of it */
	uint32_t iomaps;		/* mappings that the sender of this has room for */
};

void rs_hello_write(const struct rs_hello *hello, uint8_t bytes[RS_HELLO_BYTES]);
/* 0; EPROTONOSUPPORT: another version, returned in @version; EPROTO: not an rsocket of Verbatim. */
int rs_hello_read(const uint8_t *bytes, size_t length, struct rs_hello *hello, unsigned *version);

enum rs_control_kind { RS_CREDIT = 1, RS_SHUTDOWN, RS_IOMAP, RS_IOUNMAP };
enum rs_shutdown_how { RS_NO_MORE_DATA = 1, RS_GONE = 2 };

struct rs_control {
	enum rs_control_kind kind;
	enum rs_shutdown_how how;	/* SHUTDOWN */
	uint32_t messages;		/* CREDIT */
	uint64_t bytes;			/* CREDIT */
	uint16_t index;			/* IOMAP, IOUNMAP: slot of the peer's table */
	uint32_t key;			/* IOMAP */
	uint64_t offset, length, address;
};

void rs_control_write(const struct rs_control *control, uint8_t bytes[RS_CONTROL_BYTES]);
/* 0 or EPROTO. */
int rs_control_read(const uint8_t *bytes, size_t length, struct rs_control *control);

/* @address is IPv4 or IPv6. */
void rs_datagram_header_write(const struct sockaddr_storage *address, uint8_t *bytes);
/* 0 or EPROTO. */
int rs_datagram_header_read(const uint8_t *bytes, size_t length, struct sockaddr_storage *address);

#endif
