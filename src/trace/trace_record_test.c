/* SPDX-License-Identifier: BSD-2-Clause */
/* The process's end of a trace: shares that are refused, records, what does not fit, payload, blocks. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/log.h"
#include "trace/block.h"
#include "trace/trace.h"
#include "tracepoint/drop.h"
#include "wire/opcode.h"

#define RING_BYTES (64u << 10)
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED
#endif
#endif

static struct trace_share *share;
static int far_end;
static uint32_t tracer;		/* the last that was attached */

static int share_new(uint32_t wanted, uint32_t payload_bytes, unsigned seals)
{
	int memfd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(memfd >= 0);
	assert_int_equal(ftruncate(memfd, TRACE_SHARE_BYTES + RING_BYTES), 0);
	share = mmap(NULL, TRACE_SHARE_BYTES + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	assert_ptr_not_equal(share, MAP_FAILED);
	*share = (struct trace_share){ .magic = TRACE_MAGIC, .version = TRACE_VERSION, .ring_bytes = RING_BYTES,
				       .wanted = wanted, .payload_bytes = payload_bytes,
				       .record_bytes = sizeof(struct trace_record) };
	assert_int_equal(fcntl(memfd, F_ADD_SEALS, seals), 0);
	return memfd;
}

static int attach(int memfd)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	far_end = ends[0];
	return trace_attach(memfd, ends[1], &tracer);
}

static void end(void)
{
	trace_detach(tracer);
	close(far_end);
	munmap(share, TRACE_SHARE_BYTES + RING_BYTES);
}

static const struct trace_record *record_at(uint64_t at)
{
	return (const struct trace_record *)((uint8_t *)share + TRACE_SHARE_BYTES + at);
}

static void shares_that_could_harm_the_process_are_refused(void **state)
{
	assert_int_equal(attach(share_new(TRACE_KINDS, 0, 0)), EINVAL);	/* it could shrink: SIGBUS */
	end();
	int memfd = share_new(TRACE_KINDS, 0, F_SEAL_SHRINK);
	share->ring_bytes = RING_BYTES * 2;
	assert_int_equal(attach(memfd), EINVAL);
	end();
	memfd = share_new(TRACE_KINDS, 0, F_SEAL_SHRINK);
	share->version++;
	assert_int_equal(attach(memfd), EPROTO);
	assert_false(trace_wants(UINT32_MAX));
	end();
}

static void only_one_tracer_is_served_and_the_next_one_after_it(void **state)
{
	struct trace_share *first;
	int first_end;

	assert_int_equal(attach(share_new(TRACE_CALLS, 0, F_SEAL_SHRINK)), 0);
	first = share;
	first_end = far_end;
	assert_int_equal(attach(share_new(TRACE_CALLS, 0, F_SEAL_SHRINK)), EBUSY);
	end();		/* detaches the first */
	munmap(first, TRACE_SHARE_BYTES + RING_BYTES);
	close(first_end);
	assert_int_equal(attach(share_new(TRACE_DROPS, 0, F_SEAL_SHRINK)), 0);
	assert_true(trace_wants(TRACE_DROPS));
	assert_false(trace_wants(TRACE_CALLS));
	end();
	assert_false(trace_wants(UINT32_MAX));
}

static void a_call_stands_in_the_ring_with_its_error(void **state)
{
	const struct trace_record *record;
	char text[TRACE_TEXT_MAX] = "";
	uint64_t began_ns;

	/* Whoever was held up meanwhile has waited for long, which is the other half of this. */
	for (;;) {
		assert_int_equal(attach(share_new(TRACE_CALLS, 0, F_SEAL_SHRINK)), 0);
		began_ns = tracepoint_now_ns() - 1000;
		tracepoint(post_send, .name = "ibv_post_send", .qp = 0x123, .ns = began_ns, .error = ENOMEM,
			   .wr_id = 7);
		record = record_at(0);
		if (record->time_ns == began_ns || tracepoint_now_ns() - began_ns < 10000000)
			break;
		end();
	}
	assert_int_equal(share->head, record->bytes);
	assert_int_equal(record->time_ns, began_ns);
	assert_int_equal(record->kind, TRACE_IS_POINT);
	assert_true(trace_event_members(record, record + 1, text));
	assert_non_null(strstr(text, "\"name\":\"ibv_post_send\",\"qp\":\"0x000123\",\"wr_id\":7,"));
	assert_non_null(strstr(text, "\"error\":\"ENOMEM\""));
	/* One that waited for long would be in front of what was written already. */
	tracepoint(call, .name = "ibv_get_cq_event", .ns = began_ns - 60000000000u);
	assert_true(record_at(record->bytes)->time_ns > began_ns);
	end();
}

static void records_without_room_are_lost_and_counted_and_nothing_is_overwritten(void **state)
{
	uint64_t full;

	assert_int_equal(attach(share_new(TRACE_CALLS, 0, F_SEAL_SHRINK)), 0);
	for (int i = 0; i < 2000; i++)
		tracepoint(call, .name = "call");
	full = share->head;
	assert_true(full <= RING_BYTES);
	assert_true(share->lost > 0);
	assert_int_equal(full / record_at(0)->bytes + share->lost, 2000);
	share->tail = full;
	tracepoint(call, .name = "call");
	assert_true(share->head > full);
	share->tail = UINT64_MAX;	/* nonsense: full */
	full = share->head;
	tracepoint(call, .name = "call");
	assert_int_equal(share->head, full);
	end();
}

static long page_faults(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
	return usage.ru_minflt;
}

static void no_record_waits_for_a_page_of_the_ring(void **state)
{
	long faults = 0;

#ifdef SANITIZED
	skip();			/* by what has memory of its own for each page */
#endif
	/* Often: a sanitizer goes round in memory of its own, which is there then. */
	for (int round = 0; round < 40; round++) {
		assert_int_equal(attach(share_new(TRACE_CALLS, 0, F_SEAL_SHRINK)), 0);
		trace_touch();
		faults = page_faults();
		while (!share->lost)
			tracepoint(call, .name = "call");
		faults = page_faults() - faults;
		end();
	}
	/* Nobody read it: its 16 pages were written. */
	assert_in_range(faults, 0, RING_BYTES / 4096 / 2);
}

/* An RC SEND Only of 100 bytes to QP 0x11. */
static size_t make_packet(uint8_t packet[128], uint8_t qpn)
{
	memset(packet, 0xaa, 128);
	memcpy(packet, (uint8_t[]){ OPCODE_RC_SEND_ONLY, 0, 0xff, 0xff, 0, 0, 0, qpn, 0, 0, 0, 1 }, 12);
	return 12 + 100 + 4;
}

static void payload_is_left_out_but_of_management_datagrams(void **state)
{
	struct datagram datagram = { .source_port = 0xc000 };
	struct trace_record record;
	uint8_t packet[128];

	assert_int_equal(attach(share_new(TRACE_PACKETS, 10, F_SEAL_SHRINK)), 0);
	trace_record_init(&record, TRACE_IS_PACKET, &datagram);
	record.flags = TRACE_HAS_ICRC;
	trace_packet(&record, packet, make_packet(packet, 0x11), NULL);
	assert_int_equal(record.captured, 12 + 10);
	assert_int_equal(record.length, 116);
	trace_packet(&record, packet, make_packet(packet, 1), NULL);
	assert_int_equal(record.captured, 116);
	record.flags = 0;		/* no ICRC on this way */
	trace_packet(&record, packet, make_packet(packet, 1), NULL);
	assert_int_equal(record.captured, 112);
	end();
}

static void repetitions_of_a_packet_are_counted(void **state)
{
	assert_int_equal(attach(share_new(TRACE_PACKETS, 0, F_SEAL_SHRINK)), 0);
	assert_int_equal(trace_repetition(3, 100), 0);
	assert_int_equal(trace_repetition(3, 101), 0);
	assert_int_equal(trace_repetition(3, 100), 1);
	assert_int_equal(trace_repetition(3, 100), 2);
	assert_int_equal(trace_repetition(4, 100), 0);
	trace_forget(3);
	assert_int_equal(trace_repetition(3, 100), 0);
	assert_int_equal(trace_repetition(4, 100), 1);
	end();
}

static void a_comment_says_what_is_known(void **state)
{
	struct trace_record record = { .path = TRACE_RING, .qpn = 0x45, .state = 4, .flags = TRACE_HAS_WR_ID,
				       .wr_id = 9, .retransmission = 2, .drop = DROP_QKEY };
	char comment[TRACE_COMMENT_MAX];

	trace_comment(&record, NULL, comment);
	assert_string_equal(comment, "path ring; qp 0x000045; state RTS; wr_id 9; retransmission 2; "
				     "dropped rx_bad_qkey");
	record = (struct trace_record){ .path = TRACE_DIRECT, .manner = TRACE_STORED };
	trace_comment(&record, NULL, comment);
	assert_string_equal(comment, "path direct; by store");
	record = (struct trace_record){ .path = 77, .state = 200, .drop = TRACE_DROP_FAULT - 1 };
	trace_comment(&record, NULL, comment);
	assert_string_equal(comment, "path unknown; state unknown");
	record = (struct trace_record){ .drop = TRACE_DROP_FAULT };
	trace_comment(&record, NULL, comment);
	assert_string_equal(comment, "path udp; dropped on purpose");
}

/* Whether or not VERBATIM_EXPLAIN is set: the test does not. */
static void explanations_are_events_while_they_are_wanted(void **state)
{
	const struct trace_record *record;
	char text[TRACE_TEXT_MAX] = "";

	assert_false(explaining());
	assert_int_equal(attach(share_new(TRACE_EXPLAIN, 0, F_SEAL_SHRINK)), 0);
	explain_about("EINVAL ibv_post_send", OF_WR(QP, 0x047659, 5), "\"%s\" of qp 0x012345", "why");
	record = record_at(0);
	assert_int_equal(share->head, record->bytes);
	assert_int_equal(record->qpn, 0x047659);
	assert_true(trace_event_members(record, record + 1, text));
	assert_string_equal(text, "\"event\":\"explain\",\"qp\":\"0x047659\","
				  "\"rule\":\"EINVAL ibv_post_send\",\"wr_id\":5,"
				  "\"text\":\"\\\"why\\\" of qp 0x012345 "
				  "(verbatim explain EINVAL ibv_post_send)\"");
	record = record_at(share->head);
	explain_of(OF(SRQ, 7), "full");
	assert_int_equal(record->qpn, 0);
	assert_true(trace_event_members(record, record + 1, text));
	assert_string_equal(text, "\"event\":\"explain\",\"object\":\"srq\",\"number\":7,\"text\":\"full\"");
	end();
	assert_false(explaining());
	assert_int_equal(attach(share_new(TRACE_CALLS, 0, F_SEAL_SHRINK)), 0);
	assert_false(explaining());
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shares_that_could_harm_the_process_are_refused),
		cmocka_unit_test(only_one_tracer_is_served_and_the_next_one_after_it),
		cmocka_unit_test(a_call_stands_in_the_ring_with_its_error),
		cmocka_unit_test(records_without_room_are_lost_and_counted_and_nothing_is_overwritten),
		cmocka_unit_test(no_record_waits_for_a_page_of_the_ring),
		cmocka_unit_test(payload_is_left_out_but_of_management_datagrams),
		cmocka_unit_test(repetitions_of_a_packet_are_counted),
		cmocka_unit_test(a_comment_says_what_is_known),
		cmocka_unit_test(explanations_are_events_while_they_are_wanted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
