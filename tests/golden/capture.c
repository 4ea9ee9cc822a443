/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The pcap reader of the golden tests. Frames that are not UDP to port 4791 are passed over.
 */
#include "capture.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define FILE_HEADER	24u
#define RECORD_HEADER	16u
#define ETHERNET_HEADER	14u
#define UDP_HEADER	8u

static uint32_t get_le32(const uint8_t *p)
{
	return (uint32_t)p[3] << 24 | (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}

static int read_whole(FILE *stream, struct capture *capture)
{
	long length;

	if (fseek(stream, 0, SEEK_END) || (length = ftell(stream)) < 0 ||
	    fseek(stream, 0, SEEK_SET))
		return errno;
	capture->file = malloc((size_t)length + 1);
	if (!capture->file)
		return ENOMEM;
	capture->file_bytes = fread(capture->file, 1, (size_t)length, stream);
	return capture->file_bytes == (size_t)length ? 0 : EIO;
}

int capture_open(struct capture *capture, const char *path)
{
	FILE *stream = fopen(path, "rb");
	int err;

	if (!stream)
		return errno;
	*capture = (struct capture){ .path = path, .offset = FILE_HEADER };
	err = read_whole(stream, capture);
	fclose(stream);
	if (!err && (capture->file_bytes < FILE_HEADER || get_le32(capture->file) != 0xa1b2c3d4 ||
		     get_le32(capture->file + 20) != 1))
		err = EINVAL;
	if (err)
		capture_close(capture);
	return err;
}

void capture_close(struct capture *capture)
{
	free(capture->file);
	capture->file = NULL;
}

/* The IP header at @ip: fills in what it says, returns its length, 0 when it is not UDP. */
static size_t read_ip(const uint8_t *ip, size_t length, struct icrc_header *header)
{
	*header = (struct icrc_header){ 0 };
	if (length >= 20 && ip[0] == 0x45 && ip[9] == 17) {
		header->ip_id = get_be16(ip + 4);
		header->dont_fragment = ip[6] & 0x40;
		memcpy(header->source, ip + 12, 4);
		memcpy(header->destination, ip + 16, 4);
		return 20;
	}
	if (length >= 40 && ip[0] >> 4 == 6 && ip[6] == 17) {
		header->ipv6 = true;
		memcpy(header->source, ip + 8, 16);
		memcpy(header->destination, ip + 24, 16);
		return 40;
	}
	return 0;
}

static bool read_frame(const uint8_t *frame, size_t length, struct captured *packet)
{
	const uint8_t *udp;
	size_t ip_bytes, udp_bytes;

	if (length < ETHERNET_HEADER)
		return false;
	length -= ETHERNET_HEADER;
	ip_bytes = read_ip(frame + ETHERNET_HEADER, length, &packet->header);
	if (!ip_bytes || length < ip_bytes + UDP_HEADER)
		return false;
	udp = frame + ETHERNET_HEADER + ip_bytes;
	packet->header.source_port = get_be16(udp);
	packet->header.destination_port = get_be16(udp + 2);
	udp_bytes = get_be16(udp + 4);		/* frames may be padded behind it */
	packet->data = udp + UDP_HEADER;
	packet->length = udp_bytes - UDP_HEADER;
	return packet->header.destination_port == 4791 && udp_bytes >= UDP_HEADER &&
	       udp_bytes <= length - ip_bytes;
}

int capture_next(struct capture *capture, struct captured *packet)
{
	while (capture->offset < capture->file_bytes) {
		const uint8_t *record = capture->file + capture->offset;
		size_t left = capture->file_bytes - capture->offset, length;

		if (left < RECORD_HEADER)
			return -1;
		length = get_le32(record + 8);
		if (length > left - RECORD_HEADER)
			return -1;
		capture->offset += RECORD_HEADER + length;
		capture->number++;
		if (read_frame(record + RECORD_HEADER, length, packet))
			return 1;
	}
	return 0;
}
