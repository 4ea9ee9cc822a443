/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * InfiniBand packets for other readers (ib_cross_check.py):
 *
 *	ib_golden build FILE	a capture (pcap of ERF records) of each header and attribute, with
 *values that are random but the same each time: infiniband.erf is one ib_golden fields FILE what
 *our tables read in each packet of a capture: "3 port_info lid 17" ib_golden seeds FILE DIR	the
 *packets, LRH to VCRC, as files: for tests/fuzz
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/test_random.h"
#include "wire/ib_packet.h"
#include "wire/smp.h"

#define LINKTYPE_ERF	197u
#define ERF_HEADER	16u
#define ERF_INFINIBAND	21u
#define VARIANTS	12u

/* What carries a record: class of the MAD, and where its bytes begin. */
struct carrier {
	enum record record;
	uint8_t class;
	uint8_t method;
	uint16_t attribute, trap;	/* 0: the record's own */
};

static const struct carrier carriers[] = {
	{ RECORD_SMP_DIRECTED, MAD_CLASS_SUBNET_DIRECTED, MAD_METHOD_GET, 0x10, 0 },
	{ RECORD_NODE_DESCRIPTION, MAD_CLASS_SUBNET_LID, MAD_METHOD_GET_RESPONSE, 0, 0 },
	{ RECORD_NODE_INFO, MAD_CLASS_SUBNET_LID, MAD_METHOD_GET_RESPONSE, 0, 0 },
	{ RECORD_SWITCH_INFO, MAD_CLASS_SUBNET_LID, MAD_METHOD_GET_RESPONSE, 0, 0 },
	{ RECORD_GUID_INFO, MAD_CLASS_SUBNET_LID, MAD_METHOD_GET_RESPONSE, 0, 0 },
	{ RECORD_PORT_INFO, MAD_CLASS_SUBNET_DIRECTED, MAD_METHOD_GET_RESPONSE, 0, 0 },
	{ RECORD_PORT_INFO, MAD_CLASS_SUBNET_LID, MAD_METHOD_SET, 0, 0 },
	{ RECORD_PKEY_TABLE, MAD_CLASS_SUBNET_LID, MAD_METHOD_GET_RESPONSE, 0, 0 },
	{ RECORD_SL_TO_VL, MAD_CLASS_SUBNET_LID, MAD_METHOD_GET_RESPONSE, 0, 0 },
	{ RECORD_VL_ARBITRATION, MAD_CLASS_SUBNET_LID, MAD_METHOD_SET, 0, 0 },
	{ RECORD_LINEAR_FORWARDING, MAD_CLASS_SUBNET_DIRECTED, MAD_METHOD_SET, 0, 0 },
	{ RECORD_MULTICAST_FORWARDING, MAD_CLASS_SUBNET_LID, MAD_METHOD_SET, 0, 0 },
	{ RECORD_SM_INFO, MAD_CLASS_SUBNET_LID, MAD_METHOD_GET_RESPONSE, 0, 0 },
	{ RECORD_NOTICE, MAD_CLASS_SUBNET_LID, MAD_METHOD_TRAP, 0, 0 },
	{ RECORD_TRAP_128, MAD_CLASS_SUBNET_LID, MAD_METHOD_TRAP, 2, 128 },
	{ RECORD_TRAP_144, MAD_CLASS_SUBNET_LID, MAD_METHOD_TRAP, 2, 144 },
	{ RECORD_TRAP_256, MAD_CLASS_SUBNET_LID, MAD_METHOD_TRAP, 2, 256 },
	{ RECORD_TRAP_257, MAD_CLASS_SUBNET_LID, MAD_METHOD_TRAP, 2, 257 },
	{ RECORD_TRAP_259, MAD_CLASS_SUBNET_LID, MAD_METHOD_TRAP, 2, 259 },
	{ RECORD_CLASS_PORT_INFO, MAD_CLASS_PERFORMANCE, MAD_METHOD_GET_RESPONSE, 0, 0 },
	{ RECORD_PORT_COUNTERS, MAD_CLASS_PERFORMANCE, MAD_METHOD_GET_RESPONSE, 0, 0 },
	{ RECORD_PORT_COUNTERS_EXT, MAD_CLASS_PERFORMANCE, MAD_METHOD_GET_RESPONSE, 0, 0 },
	{ RECORD_RMPP, MAD_CLASS_ADMINISTRATION, MAD_METHOD_GET_RESPONSE, 0x35, 0 },
	{ RECORD_SA, MAD_CLASS_ADMINISTRATION, MAD_METHOD_GET, 0x35, 0 },
	{ RECORD_NODE_RECORD, MAD_CLASS_ADMINISTRATION, MAD_METHOD_GET_RESPONSE, 0, 0 },
	{ RECORD_PORT_INFO_RECORD, MAD_CLASS_ADMINISTRATION, MAD_METHOD_GET_RESPONSE, 0, 0 },
	{ RECORD_INFORM_INFO, MAD_CLASS_ADMINISTRATION, MAD_METHOD_SET, 0, 0 },
	{ RECORD_LINK_RECORD, MAD_CLASS_ADMINISTRATION, MAD_METHOD_GET_RESPONSE, 0, 0 },
	{ RECORD_SERVICE_RECORD, MAD_CLASS_ADMINISTRATION, MAD_METHOD_SET, 0, 0 },
	{ RECORD_PATH_RECORD, MAD_CLASS_ADMINISTRATION, MAD_METHOD_GET_RESPONSE, 0, 0 },
	{ RECORD_MC_MEMBER_RECORD, MAD_CLASS_ADMINISTRATION, MAD_METHOD_GET_RESPONSE, 0, 0 },
};
#define CARRIERS (sizeof(carriers) / sizeof(*carriers))

static size_t record_begins(const struct carrier *carrier)
{
	if (carrier->record < RECORD_NOTICE) /* a header, counted from the beginning of the MAD */
		return 0;
	return carrier->class == MAD_CLASS_ADMINISTRATION ? 56 : SMP_DATA;
}

/* ---- build ---- */

static void random_record(uint64_t *random, const struct carrier *carrier, uint8_t mad[MAD_BYTES])
{
	const struct record_layout *layout = record_layout(carrier->record);
	uint64_t values[RECORD_BYTES_MAX / 8];
	uint8_t bytes[RECORD_BYTES_MAX], written[RECORD_BYTES_MAX];
	size_t begin = record_begins(carrier);

	test_random_fill(random, bytes, layout->bytes);
	record_read(carrier->record, bytes, values);
	record_write(carrier->record, values, written);
	for (size_t i = 0; i < layout->bytes && begin + i < MAD_BYTES; i++)
		mad[begin + i] |= written[i];
	if (carrier->record == RECORD_NODE_DESCRIPTION)
		snprintf((char *)mad + begin, 64, "host%u vb_ib0", (unsigned)bytes[0]);
	if (carrier->record == RECORD_NOTICE) {
		mad[begin] |= 0x80; /* generic, and of no trap that has fields of its own */
		put_be16(mad + begin + 4, 500);
	}
}

static void build_mad(uint64_t *random, const struct carrier *carrier, uint8_t mad[MAD_BYTES])
{
	const struct record_layout *layout = record_layout(carrier->record);
	const struct mad_header header = {
		.base_version = 1,
		.class = carrier->class,
		.class_version = carrier->class == MAD_CLASS_ADMINISTRATION ? 2 : 1,
		.method = carrier->method,
		.transaction_id = test_random(random),
		.attribute_id = carrier->attribute ? carrier->attribute : layout->attribute,
	};

	memset(mad, 0, MAD_BYTES);
	mad_write(&header, mad);
	if (carrier->trap) {
		const struct ib_notice notice = { .is_generic = 1, .type = 1, .producer_type = 2,
						  .trap_number = carrier->trap, .issuer_lid = 9 };

		record_write(RECORD_NOTICE, &notice, mad + SMP_DATA);
	}
	random_record(random, carrier, mad);
	if (carrier->class == MAD_CLASS_ADMINISTRATION) {
		mad[24] = 1;				/* RMPP, one segment, or none */
		mad[25] = carrier->record == RECORD_RMPP;
		mad[26] = carrier->record == RECORD_RMPP ? mad[26] | 1 : 0;
		if (carrier->record == RECORD_RMPP)
			put_be32(mad + 28, 1);
		mad[27] = 0;
	}
	if (carrier->class == MAD_CLASS_SUBNET_DIRECTED && carrier->record != RECORD_SMP_DIRECTED)
		put_be32(mad + SMP_DR_SLID, 0xffffffff);
}

static size_t build_packet(uint64_t *random, const struct carrier *carrier, unsigned variant,
			   uint8_t *out)
{
	bool smp = carrier->class == MAD_CLASS_SUBNET_LID ||
		   carrier->class == MAD_CLASS_SUBNET_DIRECTED;
	struct ib_route route = {
		.vl = smp ? 15 : variant % 8,
		.sl = (uint8_t)(variant % 16),
		.dlid = (uint16_t)(1 + test_random(random) % 0xbffe),
		.slid = (uint16_t)(1 + test_random(random) % 0xbffe),
		.has_grh = !smp && variant % 3 == 0,
	};
	const struct ib_mad_ends ends = {
		.source_qpn = smp ? 0 : 1,
		.destination_qpn = smp ? 0 : 1,
		.qkey = smp ? 0 : QKEY_GSI,
		.psn = (uint32_t)test_random(random) & 0xffffff,
		.pkey = 0xffff,
	};
	uint8_t mad[MAD_BYTES], grh[IB_GRH_BYTES];

	test_random_fill(random, grh, sizeof(grh));
	record_read(RECORD_GRH, grh, &route.grh);
	build_mad(random, carrier, mad);
	return ib_packet_write_mad(&route, &ends, mad, out);
}

static void put_le32(uint8_t *p, uint32_t value)
{
	for (unsigned i = 0; i < 4; i++)
		p[i] = (uint8_t)(value >> 8 * i);
}

static int build(const char *path)
{
	FILE *out = fopen(path, "wb");
	uint8_t head[24] = { 0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4 };
	uint64_t random = 20080514;

	if (!out)
		return 1;
	put_le32(head + 16, 65535);
	put_le32(head + 20, LINKTYPE_ERF);
	fwrite(head, sizeof(head), 1, out);
	for (unsigned i = 0; i < CARRIERS * VARIANTS; i++) {
		uint8_t record[16 + ERF_HEADER + IB_MAD_PACKET_MAX] = { 0 }, *erf = record + 16;
		size_t bytes = build_packet(&random, &carriers[i % CARRIERS], i / CARRIERS,
					    erf + ERF_HEADER);

		put_le32(record, 1700000000 + i);
		put_le32(record + 8, (uint32_t)(ERF_HEADER + bytes));
		put_le32(record + 12, (uint32_t)(ERF_HEADER + bytes));
		put_le32(erf + 4, 1700000000 + i);
		erf[8] = ERF_INFINIBAND;
		erf[9] = 4;				/* of varying length */
		put_be16(erf + 10, (uint16_t)(ERF_HEADER + bytes));
		put_be16(erf + 14, (uint16_t)bytes);
		fwrite(record, 16 + ERF_HEADER + bytes, 1, out);
	}
	return fclose(out) != 0;
}

/* ---- fields, seeds ---- */

static void print_record(unsigned number, enum record record, const uint8_t *data)
{
	const struct record_layout *layout = record_layout(record);

	for (unsigned i = 0; i < layout->fields; i++) {
		const struct wire_field *field = &layout->field[i];

		printf("%u %s %s ", number, layout->name, field->name);
		if (!field->member_bytes) {
			for (unsigned byte = 0; byte < field->width / 8; byte++)
				printf("%02x", data[field->bit / 8 + byte]);
		}
		for (unsigned n = 0; field->member_bytes && n < field->count; n++)
			printf("%s%llu", n ? "," : "",
			       (unsigned long long)field_bits(data, field->bit + n * field->stride,
							      field->width));
		printf("\n");
	}
}

static void print_mad(unsigned number, const uint8_t *mad, size_t left)
{
	struct mad_header header;

	if (!mad_parse(mad, left, &header))
		return;
	if (header.class == MAD_CLASS_SUBNET_DIRECTED)
		print_record(number, RECORD_SMP_DIRECTED, mad);
	if (header.class == MAD_CLASS_ADMINISTRATION) {
		print_record(number, RECORD_RMPP, mad);
		print_record(number, RECORD_SA, mad);
	}
	for (unsigned i = 0; i < CARRIERS; i++) {
		const struct carrier *carrier = &carriers[i];
		bool same_class = carrier->class == header.class ||
				  (carrier->class | header.class) == MAD_CLASS_SUBNET_DIRECTED;
		bool first = true;

		for (unsigned j = 0; j < i; j++)
			first &= carriers[j].record != carrier->record;
		if (!first || !same_class || !record_begins(carrier))
			continue;
		if (carrier->trap
			    ? header.attribute_id == 2 &&
				      get_be16(mad + SMP_DATA + 4) == carrier->trap
			    : header.attribute_id == record_layout(carrier->record)->attribute)
			print_record(number, carrier->record, mad + record_begins(carrier));
	}
}

static void print_packet(unsigned number, const uint8_t *data, size_t bytes)
{
	struct ib_packet packet;
	struct packet transport;

	if (ib_packet_parse(data, bytes, &packet) != IB_PARSE_OK)
		return;
	printf("%u crc icrc %d\n%u crc vcrc %d\n", number, packet.icrc_good, number,
	       packet.vcrc_good);
	print_record(number, RECORD_LRH, data);
	if (packet.route.has_grh)
		print_record(number, RECORD_GRH, data + IB_LRH_BYTES);
	if (packet_parse(packet.transport, packet.transport_bytes, &transport) == PARSE_OK &&
	    transport.dest_qpn < 2)
		print_mad(number, transport.payload, transport.payload_bytes);
}

static int each_packet(const char *path, const char *directory)
{
	FILE *in = fopen(path, "rb"), *out;
	uint8_t head[24], record[16], data[65536];
	unsigned number = 0;

	if (!in || fread(head, sizeof(head), 1, in) != 1)
		return 1;
	while (fread(record, sizeof(record), 1, in) == 1) {
		size_t bytes = record[8] | (size_t)record[9] << 8;
		char name[4096];

		if (bytes < ERF_HEADER || fread(data, bytes, 1, in) != 1)
			return 1;
		number++;
		if (!directory) {
			print_packet(number, data + ERF_HEADER, bytes - ERF_HEADER);
			continue;
		}
		snprintf(name, sizeof(name), "%s/%u", directory, number);
		out = fopen(name, "wb");
		if (!out || fwrite(data + ERF_HEADER, bytes - ERF_HEADER, 1, out) != 1 ||
		    fclose(out))
			return 1;
	}
	return fclose(in) != 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "build"))
		return build(argv[2]);
	if (argc == 3 && !strcmp(argv[1], "fields"))
		return each_packet(argv[2], NULL);
	if (argc == 4 && !strcmp(argv[1], "seeds"))
		return each_packet(argv[2], argv[3]);
	fprintf(stderr, "ib_golden build FILE | fields FILE | seeds FILE DIRECTORY\n");
	return 2;
}
