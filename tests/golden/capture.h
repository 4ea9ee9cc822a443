/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the RoCEv2 packets of a capture: little-endian pcap files of Ethernet frames, as all
 * files here are. Its own reading of IP and UDP headers, independent of the library's.
 */
#ifndef VERBATIM_TESTS_CAPTURE_H
#define VERBATIM_TESTS_CAPTURE_H

#include <stddef.h>
#include <stdint.h>

#include "wire/icrc.h"

struct capture {
	const char *path;
	uint8_t *file;
	size_t file_bytes, offset;	/* @offset: of the next record */
	unsigned number;		/* of the last frame read, from 1 as Wireshark counts */
};

struct captured {
	struct icrc_header header;	/* as seen: real identification and DF */
	const uint8_t *data;		/* BTH to ICRC, in the capture's memory */
	size_t length;
};

/* 0, or an errno; EINVAL when it is no such file. */
int capture_open(struct capture *capture, const char *path);
void capture_close(struct capture *capture);

/* 1: *packet is the next packet to UDP port 4791. 0: there are no more. -1: damaged file. */
int capture_next(struct capture *capture, struct captured *packet);

#endif
