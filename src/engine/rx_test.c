/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From datagrams to QPs: which packets are taken, what becomes of the others, how a batch is taken
 * apart. The QP here is that of transport/test_support.h; its peer writes to its memory.
 */
#include "engine/fake_link_test.h"
#include "engine/ip_id.h"
#include "engine/receive.h"

#include "base/ip_addr.h"
#include "base/test_random.h"
#include "link/udp.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "trace/file.h"
#include "trace/trace.h"
#include "wire/icrc.h"
#include "wire/mad.h"

#define WIRE_BYTES	8192u
#define OTHER_SLOT_BY_LID 77u

static uint8_t wire[INCOMING_MAX][WIRE_BYTES];

static int begin(void **state)
{
	struct qp_table *qps;

	if (engine_begin(state))
		return -1;
	station = station_here(IBV_QPT_RC);
	qps = &engine->qps;
	qps->slot[0] = (struct slot){ .number = qpn_slot(OUR_QPN), .fd = -1, .channel_fd = -1 };
	qps->table[0] = calloc(QP_PER_SLOT, sizeof(*qps->table[0]));
	if (!qps->table[0])
		return -1;
	qps->table[0][qpn_index(OUR_QPN)] = &station->qp;
	qps->slot_count = 1;
	engine->rx.rounds = 1;		/* no turn of the slot sockets */
	return 0;
}

static int end(void **state)
{
	station_leave(station);
	free(engine->qps.table[0]);
	return engine_end(state);
}

/* A datagram of the peer that will come; packets are appended. */
static struct datagram *arrive(void)
{
	struct datagram *datagram = &fake.incoming[fake.incoming_count];

	*datagram = (struct datagram){ .source_port = 0xc123, .data = wire[fake.incoming_count++] };
	memcpy(datagram->source, peer_address, 16);
	memcpy(datagram->destination, our_address, 16);
	return datagram;
}

/* A WRITE of @bytes to our memory, sealed for its place in the datagram. Returns where it lies. */
static uint8_t *append(struct datagram *datagram, uint32_t qpn, uint32_t psn, size_t bytes)
{
	struct packet packet = packet_of(OPCODE_RC_WRITE_ONLY, psn);
	unsigned segment = datagram->segment_bytes ?
				   (unsigned)(datagram->bytes / datagram->segment_bytes) : 0;
	struct icrc_header header = icrc_header_of(datagram, datagram->segment_number + segment);
	uint8_t *start = datagram->data + datagram->bytes;
	size_t length;

	packet.dest_qpn = qpn;
	packet.payload_bytes = bytes;
	packet.reth.address = (uintptr_t)station->memory;
	packet.reth.rkey = station->mr.ibv.rkey;
	packet.reth.length = (uint32_t)bytes;
	length = packet_write_headers(&packet, start);
	memset(start + length, (int)psn, bytes);
	length += bytes;
	icrc_seal(&header, start, length);
	datagram->bytes += length + ICRC_BYTES;
	return start;
}

static unsigned receive_all(void)
{
	unsigned packets;

	lock_acquire(&engine->progress);
	packets = rx_poll(engine, NULL, station->now_ns);
	lock_release(&engine->progress);
	assert_true(is_free(&station->qp.lock));
	return packets;
}

/* How many of the peer's packets the QP has taken. */
static uint32_t taken(void)
{
	return station->qp.responder.expected_psn - PEER_PSN;
}

static void a_good_packet_reaches_its_qp(void **state)
{
	append(arrive(), OUR_QPN, PEER_PSN, 64);
	assert_int_equal(receive_all(), 1);
	assert_int_equal(taken(), 1);
	assert_int_equal(station->memory[63], (uint8_t)PEER_PSN);
	assert_int_equal(station->memory[64], 0);
	assert_int_equal(counted(COUNTER_RX_PACKETS), 1);
	assert_int_equal(receive_all(), 0);
}

static void expect_dropped(enum counter counter)
{
	uint64_t before = counted(counter);

	receive_all();
	assert_int_equal(counted(counter), before + 1);
	assert_int_equal(taken(), 0);
}

static void what_is_wrong_is_counted_and_dropped(void **state)
{
	struct datagram *datagram = arrive();

	append(datagram, OUR_QPN, PEER_PSN, 64)[40] ^= 1;
	expect_dropped(COUNTER_RX_ICRC);
	append(arrive(), OUR_QPN, PEER_PSN, 64)[0] = 0xff;
	expect_dropped(COUNTER_RX_OPCODE);
	datagram = arrive();
	append(datagram, OUR_QPN, PEER_PSN, 0);
	datagram->bytes = 8;
	expect_dropped(COUNTER_RX_SHORT);
	append(arrive(), OUR_QPN + 1, PEER_PSN, 64);
	expect_dropped(COUNTER_RX_QPN);
	append(arrive(), 5, PEER_PSN, 64);	/* in the slot of nobody */
	expect_dropped(COUNTER_RX_QPN);
}

static void another_partition_is_not_ours(void **state)
{
	struct datagram *datagram = arrive();
	struct icrc_header header = icrc_header_of(datagram, 0);
	uint8_t *start = append(datagram, OUR_QPN, PEER_PSN, 64);

	start[2] = 0x12;
	icrc_seal(&header, start, datagram->bytes - ICRC_BYTES);
	expect_dropped(COUNTER_RX_PKEY);
}

/* Each is sealed for its place in the batch, as the kernel numbers them (docs/field-notes.md). */
static void a_batch_is_taken_apart(void **state)
{
	struct datagram *datagram = arrive();
	unsigned i;

	append(datagram, OUR_QPN, PEER_PSN, 1000);
	datagram->segment_bytes = datagram->bytes;
	for (i = 1; i < 4; i++)
		append(datagram, OUR_QPN, PEER_PSN + i, i == 3 ? 500 : 1000);
	assert_int_equal(receive_all(), 4);
	assert_int_equal(taken(), 4);
	assert_int_equal(counted(COUNTER_RX_BYTES), datagram->bytes);
	assert_int_equal(station->qp.id_streak, 4);
}

static void a_part_of_a_batch_knows_its_place(void **state)
{
	struct datagram *datagram = arrive();

	datagram->segment_number = 5;
	datagram->forwarded = true;
	append(datagram, OUR_QPN, PEER_PSN, 1000);
	assert_int_equal(receive_all(), 1);
	assert_int_equal(taken(), 1);
	assert_int_equal(station->qp.id_streak, 1);
}

/* As of a peer that counts its packets: the ICRC says which identification it gave this one. */
static void append_identified(uint32_t psn, uint16_t id)
{
	struct datagram *datagram = arrive();
	struct icrc_header header = icrc_header_of(datagram, id);
	uint8_t *start = append(datagram, OUR_QPN, psn, 64);

	icrc_seal(&header, start, datagram->bytes - ICRC_BYTES);
}

static void an_identification_that_no_verbatim_sends_ends_the_streak(void **state)
{
	append(arrive(), OUR_QPN, PEER_PSN, 64);
	receive_all();
	assert_int_equal(station->qp.id_streak, 1);
	append_identified(PEER_PSN + 1, 4711);
	receive_all();
	assert_int_equal(taken(), 2);
	assert_int_equal(station->qp.id_streak, 0);
	station->qp.id_streak = IP_ID_STREAK;
	append_identified(PEER_PSN + 2, 4711);
	receive_all();
	assert_int_equal(counted(COUNTER_RX_IP_ID), 1);
	assert_int_equal(taken(), 2);
}

static void what_comes_from_this_process_needs_no_icrc(void **state)
{
	struct datagram *datagram = arrive();

	append(datagram, OUR_QPN, PEER_PSN, 64);
	datagram->data[datagram->bytes - 1] ^= 1;
	datagram->sealed = true;
	station->qp.way = BY_LOOPBACK;
	receive_all();
	assert_int_equal(taken(), 1);
}

/* Its payload is where it was, its headers are a copy. */
static void memory_of_the_sender_is_read_in_place(void **state)
{
	struct datagram *datagram = arrive();

	append(datagram, OUR_QPN, PEER_PSN, 64);
	datagram->sealed = datagram->shared = true;
	station->qp.way = BY_LOOPBACK;
	receive_all();
	assert_int_equal(taken(), 1);
	assert_int_equal(station->memory[0], (uint8_t)PEER_PSN);
	assert_int_equal(station->memory[63], (uint8_t)PEER_PSN);
}

/* Right in all that a packet can be right in: who sends it knows addresses, numbers and PSNs. */
static void nothing_enters_by_another_way_than_the_peers(void **state)
{
	static const uint32_t ways[] = { BY_LOOPBACK, BY_LOST_CHANNEL, 1, 77 };
	unsigned i;

	for (i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		station->qp.way = ways[i];
		append(arrive(), OUR_QPN, PEER_PSN, 64);
		expect_dropped(COUNTER_RX_WAY);
		append(arrive(), OUR_QPN, PEER_PSN, 64);
		fake.incoming[fake.incoming_count - 1].forwarded = true;
		expect_dropped(COUNTER_RX_WAY);
		assert_int_equal(station->qp.id_streak, 0);	/* nothing is learnt of it */
	}
	station->qp.way = BY_NETWORK;
	append(arrive(), OUR_QPN, PEER_PSN, 64);
	fake.incoming[fake.incoming_count - 1].sealed = true;
	expect_dropped(COUNTER_RX_WAY);
}

static void a_peer_on_this_host_is_known_by_its_port(void **state)
{
	uint16_t right = udp_slot_port(qpn_slot(station->qp.attr.dest_qp_num));
	static const uint16_t wrong[] = { 0xc000, 0xf000, 4791, 0 };
	struct datagram *datagram;
	unsigned i;

	station->qp.way = BY_SOURCE_PORT;
	for (i = 0; i < 2 * sizeof(wrong) / sizeof(wrong[0]); i++) {
		datagram = arrive();
		datagram->source_port = wrong[i / 2];
		datagram->forwarded = i % 2;
		append(datagram, OUR_QPN, PEER_PSN, 64);
		expect_dropped(COUNTER_RX_WAY);
		assert_int_equal(station->qp.id_streak, 0);
	}
	datagram = arrive();
	datagram->source_port = right;
	datagram->sealed = true;		/* by a way that it is not */
	append(datagram, OUR_QPN, PEER_PSN, 64);
	expect_dropped(COUNTER_RX_WAY);
	datagram = arrive();
	datagram->source_port = right;
	append(datagram, OUR_QPN, PEER_PSN, 64);
	receive_all();
	assert_int_equal(taken(), 1);
}

/* A channel that was closed while a packet of it was held back, and its number given to another process. */
static void what_came_by_a_channel_keeps_its_way(void **state)
{
	struct datagram *datagram;

	station->qp.way = 5;
	append(arrive(), OUR_QPN, PEER_PSN, 64);
	datagram = &fake.incoming[fake.incoming_count - 1];
	datagram->sealed = datagram->from_channel = true;
	expect_dropped(COUNTER_RX_WAY);
	append(arrive(), OUR_QPN, PEER_PSN, 64);
	datagram = &fake.incoming[fake.incoming_count - 1];
	datagram->sealed = datagram->from_channel = true;
	datagram->way = 5;
	receive_all();
	assert_int_equal(taken(), 1);
}

static void a_dead_state_is_told_before_a_wrong_way(void **state)
{
	station->qp.way = BY_LOOPBACK;
	station->qp.state = IBV_QPS_ERR;
	append(arrive(), OUR_QPN, PEER_PSN, 64);
	receive_all();
	assert_int_equal(counted(COUNTER_RX_WAY), 0);
	assert_int_equal(station_counter(station, COUNTER_RX_QP_STATE), 1);
}

static void qp1_and_multicast_are_for_those_above(void **state)
{
	append(arrive(), QPN_GSI, 1, 64);
	append(arrive(), QPN_MULTICAST, 1, 64);
	append(arrive(), QPN_MULTICAST, 2, 64);
	append(arrive(), OUR_QPN, PEER_PSN, 64);
	assert_int_equal(receive_all(), 4);
	assert_int_equal(fake.management, 1);
	assert_int_equal(fake.multicast, 2);
	assert_int_equal(taken(), 1);
}

static bool is_of_wire(const void *data)
{
	return data >= (const void *)wire && data < (const void *)(wire + INCOMING_MAX);
}

/* Whose sender may change it between two looks. */
static void a_mad_in_shared_memory_is_copied_first(void **state)
{
	struct datagram *datagram = arrive();

	append(datagram, QPN_GSI, 1, MAD_BYTES);
	datagram->sealed = datagram->from_channel = datagram->shared = true;
	memcpy(datagram->source, datagram->destination, 16);
	receive_all();
	assert_int_equal(fake.management, 1);
	assert_false(is_of_wire(fake.mad));
	append(arrive(), QPN_GSI, 1, MAD_BYTES);
	receive_all();
	assert_int_equal(fake.management, 2);
	assert_true(is_of_wire(fake.mad));
}

/* Both ends are here, and have one address. */
static void a_mad_through_memory_is_from_no_other_address(void **state)
{
	struct datagram *datagram = arrive();

	append(datagram, QPN_GSI, 1, MAD_BYTES);
	datagram->sealed = datagram->from_channel = true;
	expect_dropped(COUNTER_RX_FORGED);
	assert_int_equal(fake.management, 0);
}

static void what_is_anothers_is_handed_on_in_runs(void **state)
{
	static uint8_t buffer[65536];
	struct datagram *datagram = arrive(), got;
	struct slot_proof proof;
	struct slot other;
	uint32_t qpn;
	unsigned i;

	assert_int_equal(slot_claim(&other), 0);
	qpn = other.number << QP_INDEX_BITS | 3;
	append(datagram, OUR_QPN, PEER_PSN, 1000);
	datagram->segment_bytes = datagram->bytes;
	for (i = 1; i < 4; i++)
		append(datagram, i < 3 ? qpn : OUR_QPN, PEER_PSN + (i == 3), 1000);
	assert_int_equal(receive_all(), 3);
	assert_int_equal(taken(), 2);
	assert_int_equal(counted(COUNTER_RX_FOREIGN), 1);
	assert_int_equal(slot_receive(&other, &got, buffer, sizeof(buffer), &proof), 0);
	assert_int_equal(got.bytes, 2 * datagram->segment_bytes);
	assert_int_equal(got.segment_bytes, datagram->segment_bytes);
	assert_int_equal(got.segment_number, 1);
	assert_memory_equal(buffer, datagram->data + datagram->segment_bytes, got.bytes);
	assert_int_equal(slot_receive(&other, &got, buffer, sizeof(buffer), &proof), EAGAIN);
	slot_release(&other);
	append(arrive(), qpn, 1, 64);
	receive_all();
	assert_int_equal(counted(COUNTER_RX_FOREIGN_LOST), 1);
}

static void what_was_handed_on_is_not_handed_on_again(void **state)
{
	static uint8_t buffer[65536];
	struct datagram *datagram = arrive(), got;
	struct slot_proof proof;
	struct slot other;

	assert_int_equal(slot_claim(&other), 0);
	append(datagram, other.number << QP_INDEX_BITS, 1, 64);
	datagram->forwarded = true;
	expect_dropped(COUNTER_RX_QPN);
	assert_int_equal(slot_receive(&other, &got, buffer, sizeof(buffer), &proof), EAGAIN);
	slot_release(&other);
}

/* Any process of the host can send to the socket of a slot. */
static void what_is_no_forwarded_packet_is_counted(void **state)
{
	static const uint8_t garbage[200] = { 1 };
	static uint8_t buffer[RECEIVE_BUFFER];
	struct sockaddr_un name;
	socklen_t bytes = sizeof(name);
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	struct slot none = engine->qps.slot[0];

	assert_int_equal(slot_claim(&engine->qps.slot[0]), 0);
	assert_int_equal(getsockname(engine->qps.slot[0].fd, (struct sockaddr *)&name, &bytes), 0);
	engine->rx.slot_buffer = buffer;
	for (size_t n = 1; n <= sizeof(garbage); n += 199)
		assert_int_equal(sendto(fd, garbage, n, 0, (struct sockaddr *)&name, bytes), n);
	source_set_due(&engine->source.all, &engine->source.slots);
	assert_int_equal(receive_all(), 0);
	assert_int_equal(counted(COUNTER_RX_FORGED), 2);
	engine->rx.slot_buffer = NULL;
	slot_release(&engine->qps.slot[0]);
	engine->qps.slot[0] = none;
	close(fd);
}

static void services_are_looked_at_once_when_they_are_due(void **state)
{
	receive_all();
	assert_int_equal(fake.services, 0);
	source_set_due(&engine->source.all, &fake.chores);
	receive_all();
	receive_all();
	assert_int_equal(fake.services, 1);
}

static unsigned flushes;

void __wrap_trace_file_flush(void);

void __wrap_trace_file_flush(void)
{
	flushes++;
}

/* The process may sleep from then on, and be killed: where a file is not mapped, a round ends with a flush. */
static void what_was_received_is_in_the_file_of_a_trace(void **state)
{
	char name[] = "/tmp/verbatim-rx-XXXXXX";
	int fd = mkstemp(name);
	struct stat status;

	assert_true(fd >= 0);
	setenv("VERBATIM_TRACE", name, 1);
	assert_int_equal(trace_file_open(), 0);
	trace_connect();
	append(arrive(), OUR_QPN, PEER_PSN, 512);
	assert_int_equal(receive_all(), 1);
	assert_int_equal(fstat(fd, &status), 0);
	assert_true(status.st_size > 512);
	assert_int_equal(flushes, 1);
	close(fd);
	unlink(name);
}

/* ---- of a virtual fabric ---- */

#define LID_OF_PEER	40u
#define PORT_1		IB_WAY_PORT(0, 1)

static struct datagram *arrive_by_lid(uint16_t port, uint16_t lid)
{
	struct datagram *datagram = arrive();

	datagram->ib = (struct ib_way){ .port = port, .lid = lid };
	datagram->forwarded = datagram->checked = true;
	datagram->link = ROUTE_IB;
	ip_addr_of_lid(datagram->source, lid);
	memset(datagram->destination, 0, sizeof(datagram->destination));
	append(datagram, OUR_QPN, PEER_PSN, 64);
	return datagram;
}

static void connect_by_lid(void)
{
	struct route *route = &station->qp.route;

	*route = (struct route){ .link = ROUTE_IB, .port = 1, .ib = { .port = PORT_1, .lid = LID_OF_PEER } };
	ip_addr_of_lid(route->destination, LID_OF_PEER);
	station->qp.ib_port = PORT_1;
}

static void a_packet_by_lid_reaches_the_qp_of_its_port(void **state)
{
	connect_by_lid();
	arrive_by_lid(PORT_1, LID_OF_PEER);
	assert_int_equal(receive_all(), 1);
	assert_int_equal(taken(), 1);
}

/* Its ICRC covers what only the link sees. */
static void of_a_packet_by_lid_the_link_looks_at_the_icrc(void **state)
{
	connect_by_lid();
	arrive_by_lid(PORT_1, LID_OF_PEER)->bad_icrc = true;
	expect_dropped(COUNTER_RX_ICRC);
}

static void a_packet_by_lid_of_another_port_or_peer_is_dropped(void **state)
{
	connect_by_lid();
	arrive_by_lid(IB_WAY_PORT(0, 2), LID_OF_PEER);
	expect_dropped(COUNTER_RX_ADDRESS);
	arrive_by_lid(IB_WAY_PORT(1, 1), LID_OF_PEER);
	expect_dropped(COUNTER_RX_ADDRESS);
	arrive_by_lid(PORT_1, LID_OF_PEER + 1);
	receive_all();			/* the transport counts it */
	assert_int_equal(taken(), 0);
	append(arrive(), OUR_QPN, PEER_PSN, 64);	/* by UDP */
	expect_dropped(COUNTER_RX_ADDRESS);
}

static void a_qp_of_an_interface_takes_nothing_by_lid(void **state)
{
	struct datagram *datagram = arrive_by_lid(PORT_1, LID_OF_PEER);

	memcpy(datagram->source, peer_address, 16);
	memcpy(datagram->destination, our_address, 16);
	expect_dropped(COUNTER_RX_ADDRESS);
}

static void by_lid_to(uint32_t qpn)
{
	struct datagram *datagram = arrive_by_lid(PORT_1, LID_OF_PEER);

	datagram->bytes = 0;
	append(datagram, qpn, PEER_PSN, 64);
}

static void what_comes_by_lid_is_for_no_other_process(void **state)
{
	connect_by_lid();
	by_lid_to(OTHER_SLOT_BY_LID << QP_INDEX_BITS);
	expect_dropped(COUNTER_RX_QPN);
	assert_int_equal(fake.management, 0);
	assert_int_equal(counted(COUNTER_RX_FOREIGN), 0);
}

/* The fabric hands them to the process that they are for. */
static void mads_by_lid_are_for_those_above(void **state)
{
	connect_by_lid();
	by_lid_to(QPN_GSI);
	receive_all();
	assert_int_equal(fake.management, 1);
	assert_int_equal(counted(COUNTER_RX_QPN), 0);
}

/* Of few peers, ports, lengths and places: each is like others in all but one. */
static void a_random_datagram(uint64_t random, struct datagram *datagram)
{
	static const uint8_t address[4][16] = {
		{ [10] = 0xff, 0xff, 192, 0, 2, 1 }, { [10] = 0xff, 0xff, 192, 0, 2, 2 },
		{ 0xfe, 0x80, [15] = 1 }, { 0xfe, 0x80, [15] = 2 },
	};
	unsigned v6 = random & 2;

	*datagram = (struct datagram){ .data = wire[0], .source_port = (uint16_t)(0xc000 + (random >> 2 & 1)),
				       .segment_number = random >> 3 & 17 };
	memcpy(datagram->source, address[v6 | (random >> 8 & 1)], 16);
	memcpy(datagram->destination, address[v6 | (random >> 9 & 1)], 16);
	append(datagram, OUR_QPN, PEER_PSN, 16 + (random >> 10 & 64));
}

/* On its way behind the ICRC. */
static void damage(uint64_t random, struct datagram *datagram)
{
	switch (random % 8) {
	case 1:		/* of a peer that counts its packets */
		datagram->segment_number++;
		break;
	case 2:
		datagram->source_port ^= 1;
		break;
	case 3:
		datagram->source[14] ^= 1;
		break;
	case 4:
		datagram->destination[14] ^= 1;
		break;
	case 5:
		datagram->data[BTH_BYTES + (random >> 8) % (datagram->bytes - BTH_BYTES)] ^= 1;
		break;
	}
}

/* What is kept of them (struct icrc_memo): packets read one after another, and each by itself. */
static void headers_of_other_packets_make_no_packet_right(void **state)
{
	struct icrc_memo memo[ICRC_MEMOS] = { 0 };
	unsigned verdicts[3] = { 0 }, i;
	uint8_t was[256];
	uint64_t seed = 7;

	for (i = 0; i < 20000; i++) {
		struct arrival arrival = { 0 };
		enum icrc_verdict verdict;
		struct icrc_header header;
		struct datagram datagram;

		a_random_datagram(test_random(&seed), &datagram);
		damage(test_random(&seed), &datagram);
		memcpy(was, datagram.data, datagram.bytes);
		header = icrc_header_of(&datagram, datagram.segment_number);
		verdict = icrc_check(&header, datagram.data, datagram.bytes);
		arrival_read(&arrival, memo, &datagram, datagram.data, datagram.bytes, datagram.segment_number);
		assert_memory_equal(was, datagram.data, datagram.bytes);
		assert_int_equal(arrival.icrc, verdict);
		assert_int_equal(arrival.why, verdict == ICRC_BAD ? DROP_ICRC : DROP_NONE);
		verdicts[verdict]++;
		if (verdict == ICRC_BAD)
			continue;
		assert_int_equal(arrival.header.ip_id, header.ip_id);
		assert_int_equal(arrival.header.dont_fragment, header.dont_fragment);
	}
	for (i = 0; i < 3; i++)
		assert_true(verdicts[i] > 500);
}

/* Those of one datagram together: it is in the run queue behind the last, if there is something to send. */
static void what_is_to_be_answered_is_queued(void **state)
{
	struct datagram *datagram = arrive();
	struct icrc_header header;
	uint8_t *second;

	append(datagram, OUR_QPN, PEER_PSN, 64);
	assert_int_equal(receive_all(), 1);
	assert_int_equal(engine->run_queue.count, 0);
	datagram = arrive();
	append(datagram, OUR_QPN, PEER_PSN + 1, 64);
	datagram->segment_bytes = datagram->bytes;
	header = icrc_header_of(datagram, 1);
	second = append(datagram, OUR_QPN, PEER_PSN + 2, 64);
	second[8] |= 0x80;		/* AckReq */
	icrc_seal(&header, second, datagram->segment_bytes - ICRC_BYTES);
	assert_int_equal(receive_all(), 2);
	assert_int_equal(taken(), 3);
	assert_int_equal(engine->run_queue.count, 1);
}

/* Of one datagram, and by the way that is right for the first one alone. */
static void each_qp_of_a_datagram_has_its_way(void **state)
{
	struct qp other = { .number = OUR_QPN + 1, .type = IBV_QPT_RC, .state = IBV_QPS_RTS, .way = 77,
			    .transport = &station->transport };
	struct datagram *datagram = arrive();

	lock_init(&other.lock);
	engine->qps.table[0][qpn_index(OUR_QPN + 1)] = &other;
	append(datagram, OUR_QPN, PEER_PSN, 64);
	datagram->segment_bytes = datagram->bytes;
	append(datagram, OUR_QPN + 1, PEER_PSN, 64);
	append(datagram, OUR_QPN, PEER_PSN + 1, 64);
	receive_all();
	engine->qps.table[0][qpn_index(OUR_QPN + 1)] = NULL;
	assert_int_equal(counted(COUNTER_RX_WAY), 1);
	assert_int_equal(counted(COUNTER_RX_PACKETS), 3);
	assert_int_equal(taken(), 2);
	/* Nor is what is known of one datagram true of the next: of a stranger, and by another way. */
	append(arrive(), OUR_QPN, PEER_PSN, 64);
	datagram = arrive();
	datagram->source[15] ^= 1;
	append(datagram, OUR_QPN, PEER_PSN + 2, 64);
	append(arrive(), OUR_QPN, PEER_PSN, 64);
	append(arrive(), OUR_QPN, PEER_PSN + 2, 64);
	fake.incoming[fake.incoming_count - 1].sealed = true;
	receive_all();
	assert_int_equal(taken(), 2);
	assert_int_equal(counted(COUNTER_RX_WAY), 2);
}

int main(void)
{
#define RX_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		RX_TEST(a_good_packet_reaches_its_qp),
		RX_TEST(a_packet_by_lid_reaches_the_qp_of_its_port),
		RX_TEST(of_a_packet_by_lid_the_link_looks_at_the_icrc),
		RX_TEST(a_packet_by_lid_of_another_port_or_peer_is_dropped),
		RX_TEST(a_qp_of_an_interface_takes_nothing_by_lid),
		RX_TEST(what_comes_by_lid_is_for_no_other_process),
		RX_TEST(mads_by_lid_are_for_those_above),
		RX_TEST(what_is_wrong_is_counted_and_dropped),
		RX_TEST(another_partition_is_not_ours),
		RX_TEST(a_batch_is_taken_apart),
		RX_TEST(a_part_of_a_batch_knows_its_place),
		RX_TEST(an_identification_that_no_verbatim_sends_ends_the_streak),
		RX_TEST(what_comes_from_this_process_needs_no_icrc),
		RX_TEST(memory_of_the_sender_is_read_in_place),
		RX_TEST(nothing_enters_by_another_way_than_the_peers),
		RX_TEST(a_peer_on_this_host_is_known_by_its_port),
		RX_TEST(what_came_by_a_channel_keeps_its_way),
		RX_TEST(a_dead_state_is_told_before_a_wrong_way),
		RX_TEST(qp1_and_multicast_are_for_those_above),
		RX_TEST(a_mad_in_shared_memory_is_copied_first),
		RX_TEST(a_mad_through_memory_is_from_no_other_address),
		RX_TEST(what_is_anothers_is_handed_on_in_runs),
		RX_TEST(what_was_handed_on_is_not_handed_on_again),
		RX_TEST(what_is_no_forwarded_packet_is_counted),
		RX_TEST(services_are_looked_at_once_when_they_are_due),
		RX_TEST(headers_of_other_packets_make_no_packet_right),
		RX_TEST(what_is_to_be_answered_is_queued),
		RX_TEST(each_qp_of_a_datagram_has_its_way),
		RX_TEST(what_was_received_is_in_the_file_of_a_trace),	/* stays open: the last one */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
