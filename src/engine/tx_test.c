/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * From a batch to datagrams: what may share one, and that a run which the link hands back leaves
 * packet by packet with the ICRCs that fit that. The link here is a list of what it was given.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/test_random.h"
#include "engine/internal.h"
#include "engine/out.h"
#include "engine/receive.h"
#include "link/udp.h"
#include "trace/file.h"
#include "trace/trace.h"
#include "wire/icrc.h"

#define GIVEN_MAX 32

static struct given {
	struct datagram datagram;
	uint8_t data[16384];
} *given;
static unsigned given_count, segments_max, refusals;
static struct counters counters;
static struct engine *engine;
static struct tx_batch *batch;

static uint16_t port_of_link;

static unsigned prepare(struct link *link, struct datagram *datagram)
{
	datagram->source_port = (uint16_t)(port_of_link + datagram->spread % 8);
	return segments_max;
}

static int take(struct link *link, struct datagram *datagram, unsigned count, unsigned *sent)
{
	for (*sent = 0; *sent < count; ++*sent) {
		struct given *place = &given[given_count];

		if (datagram[*sent].segment_bytes && refusals) {
			refusals--;
			return EOPNOTSUPP;
		}
		assert_true(given_count < GIVEN_MAX);
		place->datagram = datagram[*sent];
		memcpy(place->data, datagram[*sent].data, datagram[*sent].bytes);
		given_count++;
	}
	return 0;
}

static const struct link_ops list_ops = { .prepare = prepare, .send = take };
static struct link list_link = { .ops = &list_ops };

static int set_up(void **state)
{
	engine = calloc(1, sizeof(*engine));
	batch = tx_batch_new();
	given = calloc(GIVEN_MAX, sizeof(*given));
	memset(&counters, 0, sizeof(counters));
	given_count = refusals = 0;
	segments_max = LINK_SEGMENTS_MAX;
	port_of_link = 0xc123 - qpn_slot(0x654321) % 8;
	atomic_store(&list_link.epoch, 0);
	engine->counters = &counters;
	engine->links[ROUTE_ROCE_V2] = &list_link;
	return engine && batch && given ? loopback_open(&engine->loopback, &counters) : ENOMEM;
}

static int tear_down(void **state)
{
	engine->loopback->ops->close(engine->loopback);
	free(given);
	free(batch);
	free(engine);
	return 0;
}

/* A packet of @bytes, a multiple of 4, from 192.0.2.1 to 192.0.2.2. */
static void add(size_t bytes)
{
	struct tx_packet *packet = &batch->packet[batch->count++];

	memset(packet, 0, sizeof(*packet));
	packet->offset = (uint32_t)batch->used;
	packet->bytes = (uint32_t)bytes;
	packet->source_qpn = 0x123456;
	packet->dest_qpn = 0x654321;
	packet->route.link = ROUTE_ROCE_V2;
	memcpy(packet->route.source, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\1", 16);
	memcpy(packet->route.destination, "\0\0\0\0\0\0\0\0\0\0\xff\xff\xc0\0\2\2", 16);
	memset(batch->data + batch->used, (int)batch->count, bytes);
	batch->used += bytes + ICRC_BYTES;
}

static void assert_sealed(const struct given *place, uint16_t ip_id, size_t offset, size_t bytes)
{
	struct icrc_header header = { .source = { 192, 0, 2, 1 }, .destination = { 192, 0, 2, 2 },
				      .source_port = 0xc123, .destination_port = ROCE_UDP_PORT,
				      .ip_id = ip_id, .dont_fragment = true };

	assert_int_equal(icrc_check(&header, place->data + offset, bytes + ICRC_BYTES), ICRC_GOOD);
}

static void a_run_ends_with_its_first_shorter_packet(void **state)
{
	unsigned i;

	for (i = 0; i < 3; i++)
		add(1000);
	add(500);
	add(1000);
	tx_send(engine, batch);
	assert_int_equal(given_count, 2);
	assert_int_equal(given[0].datagram.segment_bytes, 1000 + ICRC_BYTES);
	assert_int_equal(given[0].datagram.bytes, 3 * (1000 + ICRC_BYTES) + 500 + ICRC_BYTES);
	for (i = 0; i < 4; i++)		/* the kernel counts the identification up */
		assert_sealed(&given[0], (uint16_t)i, i * (1000 + ICRC_BYTES), i < 3 ? 1000 : 500);
	assert_sealed(&given[1], 0, 0, 1000);
}

static void without_offload_each_packet_is_a_datagram(void **state)
{
	unsigned i;

	segments_max = 1;
	for (i = 0; i < 3; i++)
		add(1000);
	tx_send(engine, batch);
	assert_int_equal(given_count, 3);
	for (i = 0; i < 3; i++)
		assert_sealed(&given[i], 0, 0, 1000);
}

static void packets_to_different_peers_share_no_datagram(void **state)
{
	unsigned i;

	for (i = 0; i < 3; i++)
		add(1000);
	batch->packet[1].dest_qpn++;
	batch->packet[2].route.destination[15]++;
	tx_send(engine, batch);
	assert_int_equal(given_count, 3);
	for (i = 0; i < 3; i++) {
		assert_int_equal(given[i].datagram.bytes, 1000 + ICRC_BYTES);
		assert_int_equal(given[i].datagram.destination[15], i == 2 ? 3 : 2);
	}
}

static void a_refused_run_leaves_packet_by_packet_sealed_anew(void **state)
{
	unsigned i;

	refusals = 1;
	for (i = 0; i < 3; i++)
		add(1000);
	add(500);
	add(800);
	tx_send(engine, batch);
	assert_int_equal(given_count, 5);
	for (i = 0; i < 5; i++) {
		size_t bytes = i < 3 ? 1000 : i == 3 ? 500 : 800;

		assert_int_equal(given[i].datagram.bytes, bytes + ICRC_BYTES);
		assert_int_equal(given[i].datagram.segment_bytes, 0);
		assert_int_equal(given[i].data[0], i + 1);
		assert_sealed(&given[i], 0, 0, bytes);
	}
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 0);
}

/* One thing that a datagram is made of is another, as a rule; or all stays as it was. */
static void change_way(uint64_t *random, struct route *route, uint32_t *dest_qpn)
{
	switch (test_random(random) % 12) {
	case 0:
		route->destination[15] ^= 1;
		break;
	case 1:
		route->source[15] ^= 1;
		break;
	case 2:
		route->hop_limit ^= 1;
		break;
	case 3:
		route->traffic_class ^= 4;
		break;
	case 4:
		route->roce.from_slot ^= 1;
		break;
	case 5:
		*dest_qpn ^= 1u << (test_random(random) % 24);
		break;
	case 6:		/* the link has other sockets */
		port_of_link++;
		atomic_fetch_add(&list_link.epoch, 1);
		break;
	case 7:		/* or has learnt that a way takes runs, or none */
		segments_max = segments_max == 1 ? 3 : 1;
		atomic_fetch_add(&list_link.epoch, 1);
		break;
	default:
		break;
	}
}

/* What is kept of one is what would be asked for the next: addresses, ports, the length of runs, the ICRC. */
static void a_datagram_is_as_if_the_first_to_its_way(void **state)
{
	uint64_t random = 40;
	uint32_t dest_qpn = 0x654321;
	struct route route;
	unsigned tries, i, n;

	atomic_store(&list_link.epoch, 1);
	add(4);
	route = batch->packet[0].route;
	tx_batch_reset(batch);
	for (tries = 0; tries < 5000; tries++) {
		size_t bytes = 4 + 4 * (test_random(&random) % 4);

		change_way(&random, &route, &dest_qpn);
		n = 1 + test_random(&random) % 4;
		for (i = 0; i < n; i++) {
			struct tx_packet *packet = &batch->packet[batch->count];

			add(20 + bytes);
			packet->route = route;
			packet->dest_qpn = dest_qpn;
		}
		given_count = 0;
		tx_send(engine, batch);
		assert_int_equal(given_count, (n + segments_max - 1) / segments_max);
		for (i = 0; i < given_count; i++) {
			struct datagram fresh, *sent = &given[i].datagram;
			unsigned k, segments = link_segments(sent);

			out_address(&fresh, &route, dest_qpn);
			assert_int_equal(list_ops.prepare(&list_link, &fresh), segments_max);
			fresh.data = sent->data;
			fresh.bytes = sent->bytes;
			fresh.segment_bytes = sent->segment_bytes;
			assert_memory_equal(sent, &fresh, sizeof(fresh));
			for (k = 0; k < segments; k++) {
				struct icrc_header header = icrc_header_of(&fresh, k);

				assert_int_equal(icrc_check(&header, given[i].data + k * (20 + bytes + ICRC_BYTES),
							    20 + bytes + ICRC_BYTES), ICRC_GOOD);
			}
		}
	}
}

/* Most processes never send to themselves, and do not look there. */
static void the_first_packet_to_ourselves_has_rounds_look_for_them(void **state)
{
	const struct source *loopback = &engine->source.loopback;

	receive_register(engine);
	engine->qps.slot[0] = (struct slot){ .number = qpn_slot(0x654321), .fd = -1, .channel_fd = -1 };
	engine->qps.slot_count = 1;
	assert_false(source_is_polled(&engine->source.all, loopback));
	add(1000);
	tx_send(engine, batch);
	assert_false(source_is_polled(&engine->source.all, loopback));
	add(1000);
	batch->packet[0].route.loopback = true;
	tx_send(engine, batch);
	assert_true(source_is_polled(&engine->source.all, loopback));
	assert_true(loopback_pending(engine->loopback));
	assert_int_equal(given_count, 1);
}

/* ---- of QP1 ---- */

static int handed_over;

static int hand_over(void *owner, const uint8_t *mad, const struct datagram *datagram)
{
	return handed_over;
}

/* To an address of this host whose port another program has. */
static int send_to_taken(int err)
{
	static const uint8_t lo[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, 0, 0, 1 };
	static const uint8_t bytes[MAD_BYTES];
	const struct out_mad mad = { .bytes = bytes, .pkey = PKEY_DEFAULT };
	struct datagram datagram = { .errors_wanted = true };

	memcpy(datagram.source, lo, 16);
	memcpy(datagram.destination, lo, 16);
	handed_over = err;
	return out_send_mad(engine, &datagram, &mad);
}

/* It would answer in the name of a process that has a full queue. */
static void a_program_that_has_the_port_gets_mads_for_none_of_us_alone(void **state)
{
	static const struct engine_ops ops = { .hand_over = hand_over };
	struct sockaddr_in lo = { .sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int other = socket(AF_INET, SOCK_DGRAM, 0);

	assert_int_equal(bind(other, (struct sockaddr *)&lo, sizeof(lo)), 0);
	assert_int_equal(udp_open(&engine->udp, &counters), 0);
	assert_int_equal(udp_bind(engine->udp), 0);
	engine->ops = &ops;
	assert_int_equal(send_to_taken(0), 0);
	assert_int_equal(given_count, 0);
	assert_int_equal(send_to_taken(EAGAIN), EAGAIN);
	assert_int_equal(given_count, 0);
	assert_int_equal(counter_get(&counters, COUNTER_RX_MAD_LOST), 1);
	assert_int_equal(counter_get(&counters, COUNTER_TX_MAD), 1);
	assert_int_equal(send_to_taken(ECONNREFUSED), 0);
	assert_int_equal(given_count, 1);
	assert_int_equal(counter_get(&counters, COUNTER_RX_MAD_LOST), 1);
	engine->udp->ops->close(engine->udp);
	close(other);
}

static void what_was_sent_is_in_the_file_of_a_trace(void **state)
{
	char name[] = "/tmp/verbatim-tx-XXXXXX";
	int fd = mkstemp(name);
	struct stat status;

	assert_true(fd >= 0);
	setenv("VERBATIM_TRACE", name, 1);
	assert_int_equal(trace_file_open(), 0);
	trace_connect();
	add(1000);
	tx_send(engine, batch);
	assert_int_equal(fstat(fd, &status), 0);
	assert_true(status.st_size > 1000);
	close(fd);
	unlink(name);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_run_ends_with_its_first_shorter_packet, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(without_offload_each_packet_is_a_datagram, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(packets_to_different_peers_share_no_datagram, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_refused_run_leaves_packet_by_packet_sealed_anew,
						set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_datagram_is_as_if_the_first_to_its_way, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_first_packet_to_ourselves_has_rounds_look_for_them, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_program_that_has_the_port_gets_mads_for_none_of_us_alone,
						set_up, tear_down),
		/* Its file stays open: the last one. */
		cmocka_unit_test_setup_teardown(what_was_sent_is_in_the_file_of_a_trace, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
