/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Faults on purpose, carried out by an engine without sockets: what is lost does not leave or does not reach the
 * QP, what is held comes when it is due, and traces are told.
 */
#include "engine/fake_link_test.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "engine/injection.h"
#include "platform/clock.h"
#include "trace/trace.h"
#include "tracepoint/tracepoint.h"
#include "wire/icrc.h"

#define WIRE_BYTES	8192u
#define RING_BYTES	(64u << 10)

static uint8_t wire[INCOMING_MAX][WIRE_BYTES];
static struct trace_share *share;
static uint32_t tracer;

/* Traced from now on; the connection hangs up at the end of the test. */
static void begin_trace(void)
{
	int ends[2], memfd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(memfd >= 0);
	assert_int_equal(ftruncate(memfd, TRACE_SHARE_BYTES + RING_BYTES), 0);
	share = mmap(NULL, TRACE_SHARE_BYTES + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	assert_ptr_not_equal(share, MAP_FAILED);
	*share = (struct trace_share){ .magic = TRACE_MAGIC, .version = TRACE_VERSION, .ring_bytes = RING_BYTES,
				       .wanted = TRACE_FAULTS | TRACE_PACKETS,
				       .record_bytes = sizeof(struct trace_record) };
	assert_int_equal(fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	assert_int_equal(trace_attach(memfd, ends[1], &tracer), 0);
	close(ends[0]);
}

/* The record that stands @at in the ring, which is not full; NULL: none. */
static const struct trace_record *record_next(uint64_t *at)
{
	const struct trace_record *record = (const void *)((uint8_t *)share + TRACE_SHARE_BYTES + *at);

	if (*at >= share->head)
		return NULL;
	*at += record->bytes;
	return record;
}

/* How many events have @text. */
static unsigned told(const char *text)
{
	const struct trace_record *record;
	char json[TRACEPOINT_BYTES];
	unsigned count = 0;
	size_t bytes;

	for (uint64_t at = 0; (record = record_next(&at));) {
		if (record->kind != TRACE_IS_POINT)
			continue;
		bytes = tracepoint_members(record + 1, record->captured, json);
		count += memmem(json, bytes, text, strlen(text)) != NULL;
	}
	return count;
}

/* Packets that left, or (@lost) did so for the trace alone. */
static unsigned shown(bool lost)
{
	const struct trace_record *record;
	unsigned count = 0;

	for (uint64_t at = 0; (record = record_next(&at));)
		count += record->kind == TRACE_IS_PACKET && record->flags & TRACE_OUTBOUND &&
			 (record->drop == TRACE_DROP_FAULT) == lost;
	return count;
}

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
	station->qp.ordinal = 1;
	engine->rx.rounds = 1;		/* no turn of the slot sockets */
	begin_trace();
	return 0;
}

static int end(void **state)
{
	injection_close(engine);
	trace_detach(tracer);
	munmap(share, TRACE_SHARE_BYTES + RING_BYTES);
	station_leave(station);
	free(engine->qps.table[0]);
	return engine_end(state);
}

static void rules(const char *text)
{
	setenv("VERBATIM_FAULT", text, 1);
	assert_int_equal(injection_open(engine), 0);
	unsetenv("VERBATIM_FAULT");
}

/* A WRITE of 100 bytes that comes from the peer. */
static void arrive(uint32_t psn)
{
	struct datagram *datagram = &fake.incoming[fake.incoming_count];
	struct packet packet = packet_of(OPCODE_RC_WRITE_ONLY, psn);
	struct icrc_header header;
	size_t length;

	*datagram = (struct datagram){ .source_port = 0xc123, .data = wire[fake.incoming_count++] };
	memcpy(datagram->source, peer_address, 16);
	memcpy(datagram->destination, our_address, 16);
	header = icrc_header_of(datagram, 0);
	packet.dest_qpn = OUR_QPN;
	packet.payload_bytes = 100;
	packet.reth.address = (uintptr_t)station->memory;
	packet.reth.rkey = station->mr.ibv.rkey;
	packet.reth.length = 100;
	length = packet_write_headers(&packet, datagram->data);
	memset(datagram->data + length, 0x5a, 100);
	icrc_seal(&header, datagram->data, length + 100);
	datagram->bytes = length + 100 + ICRC_BYTES;
}

static uint32_t expected(void)
{
	return station->qp.responder.expected_psn;
}

static void poll_at(uint64_t now_ns)
{
	lock_acquire(&engine->progress);
	rx_poll(engine, NULL, now_ns);
	progress_unlock(engine);
}

/* In their place (src/meson.build): how often a packet is read. */
static unsigned parsed, checked;
enum parse __real_packet_parse(const uint8_t *data, size_t length, struct packet *packet);
uint32_t __real_icrc_of_begun(uint32_t begun, uint8_t *data, size_t length);
enum parse __wrap_packet_parse(const uint8_t *data, size_t length, struct packet *packet);
uint32_t __wrap_icrc_of_begun(uint32_t begun, uint8_t *data, size_t length);

enum parse __wrap_packet_parse(const uint8_t *data, size_t length, struct packet *packet)
{
	parsed++;
	return __real_packet_parse(data, length, packet);
}

uint32_t __wrap_icrc_of_begun(uint32_t begun, uint8_t *data, size_t length)
{
	checked++;
	return __real_icrc_of_begun(begun, data, length);
}

static void a_packet_is_read_once_with_a_trace_and_faults_or_without(void **state)
{
	uint32_t psn = PEER_PSN;

	for (int traced = 1; traced >= 0; traced--) {
		if (!traced)
			trace_detach(tracer);
		for (int faults = 0; faults < 2; faults++) {
			if (faults)
				rules("drop=write:9,seed=1");
			parsed = checked = 0;
			arrive(psn++);
			poll_at(station->now_ns);
			assert_int_equal(expected(), psn);
			assert_int_equal(parsed, 1);
			assert_int_equal(checked, 1);
			injection_close(engine);
		}
	}
}

static void without_the_variable_there_is_nothing(void **state)
{
	unsetenv("VERBATIM_FAULT");
	assert_int_equal(injection_open(engine), 0);
	assert_null(engine->injection);
	setenv("VERBATIM_FAULT", "", 1);
	assert_int_equal(injection_open(engine), 0);
	assert_null(engine->injection);
	injection_report(engine);
	injection_close(engine);
}

static void what_is_lost_on_the_way_in_does_not_reach_the_qp(void **state)
{
	uint32_t psn = expected();

	rules("drop=request:2,seed=1");
	arrive(psn);
	arrive(psn + 1);
	poll_at(1000);
	assert_int_equal(expected(), psn + 1);
	assert_int_equal(told("\"event\":\"fault\""), 1);
	assert_int_equal(told("\"name\":\"loss\""), 1);
	assert_int_equal(told("\"direction\":\"in\""), 1);
	arrive(psn + 1);
	poll_at(1000);
	assert_int_equal(expected(), psn + 2);
}

static void what_is_lost_on_the_way_out_does_not_leave(void **state)
{
	rules("drop=write:2,direction=out,seed=1");
	post(station, IBV_WR_RDMA_WRITE, 1, 100);
	post(station, IBV_WR_RDMA_WRITE, 2, 100);
	post(station, IBV_WR_RDMA_WRITE, 3, 100);
	tx_run(engine, &station->qp);
	assert_int_equal(fake.sent, 2);
	assert_int_equal(told("\"direction\":\"out\""), 1);
	assert_int_equal(shown(false), 2);
	assert_int_equal(shown(true), 1);
}

static void a_delayed_packet_comes_when_it_is_due(void **state)
{
	uint32_t psn = expected();

	rules("delay=5ms,seed=1");
	arrive(psn);
	poll_at(1000);
	assert_int_equal(expected(), psn);
	assert_int_equal(timers_next(engine), 5001000);
	memset(wire, 0, sizeof(wire));		/* the link may use its memory again */
	poll_at(5000999);
	assert_int_equal(expected(), psn);
	poll_at(5001000);
	assert_int_equal(expected(), psn + 1);
}

static void a_delayed_packet_leaves_when_it_is_due(void **state)
{
	rules("delay=5ms,direction=out,seed=1");
	post(station, IBV_WR_RDMA_WRITE, 1, 100);
	tx_run(engine, &station->qp);
	assert_int_equal(fake.sent, 0);
	poll_at(clock_now_ns());
	assert_int_equal(fake.sent, 0);
	poll_at(clock_now_ns() + 5000000);
	assert_int_equal(fake.sent, 1);
}

/* As if on the wire: the process that sent it may end. */
static void a_delayed_packet_leaves_before_the_end(void **state)
{
	rules("delay=5s,direction=out,seed=1");
	post(station, IBV_WR_RDMA_WRITE, 1, 100);
	post(station, IBV_WR_RDMA_WRITE, 2, 100);
	tx_run(engine, &station->qp);
	assert_int_equal(fake.sent, 0);
	port_drain(engine);
	assert_int_equal(fake.sent, 2);
	assert_false(injection_holds(engine));
}

static void what_comes_twice_is_a_duplicate_for_the_qp(void **state)
{
	uint32_t psn = expected();

	rules("dup=1,seed=1");
	arrive(psn);
	poll_at(1000);
	assert_int_equal(expected(), psn + 1);
	poll_at(1000);
	assert_int_equal(counter_get(station->transport.counters, COUNTER_RX_DUPLICATE), 1);
}

static void a_damaged_packet_fails_its_check(void **state)
{
	uint32_t psn = expected();

	rules("corrupt=request:1,seed=1");
	arrive(psn);
	poll_at(1000);
	assert_int_equal(expected(), psn);
	arrive(psn);
	poll_at(1000);
	assert_int_equal(expected(), psn + 1);
}

static void a_qp_is_killed_with_an_event(void **state)
{
	rules("kill-qp=1,seed=1");
	arrive(expected());
	arrive(expected() + 1);
	poll_at(1000);
	assert_int_equal(station->qp.state, IBV_QPS_ERR);
	assert_true(is_free(&station->qp.lock));
}

static void an_overtaken_packet_comes_after_the_others(void **state)
{
	uint32_t psn = expected();

	rules("reorder=request:1,seed=1");
	arrive(psn);
	poll_at(1000);
	assert_int_equal(expected(), psn);
	poll_at(1000 + INJECT_REORDER_NS);
	assert_int_equal(expected(), psn + 1);
}

#define INJECTION_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		INJECTION_TEST(a_packet_is_read_once_with_a_trace_and_faults_or_without),
		INJECTION_TEST(without_the_variable_there_is_nothing),
		INJECTION_TEST(what_is_lost_on_the_way_in_does_not_reach_the_qp),
		INJECTION_TEST(what_is_lost_on_the_way_out_does_not_leave),
		INJECTION_TEST(a_delayed_packet_comes_when_it_is_due),
		INJECTION_TEST(a_delayed_packet_leaves_when_it_is_due),
		INJECTION_TEST(a_delayed_packet_leaves_before_the_end),
		INJECTION_TEST(what_comes_twice_is_a_duplicate_for_the_qp),
		INJECTION_TEST(a_damaged_packet_fails_its_check),
		INJECTION_TEST(a_qp_is_killed_with_an_event),
		INJECTION_TEST(an_overtaken_packet_comes_after_the_others),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
