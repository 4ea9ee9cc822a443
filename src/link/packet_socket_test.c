/* SPDX-License-Identifier: BSD-2-Clause */
/* Frames over lo, in a network namespace of its own: whole, with their tags, and none that came too early. */
#include "link/packet_socket.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include <cmocka.h>

#include "platform/netns_test.h"

#define FRAME_BYTES	60u
#define LO		1u	/* its index in every network namespace */

static struct packet_socket packets;
static uint8_t frame[65536];
static struct packet_socket_frame got[PACKET_SOCKET_BATCH];

static int begin(void **state)
{
	static const uint8_t header[14] = { 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5 };

	memset(frame, 0, sizeof(frame));
	memcpy(frame, header, sizeof(header));
	return !netns_renew() || packet_socket_open(&packets, LO);
}

static int end(void **state)
{
	packet_socket_close(&packets);
	assert_int_equal(packets.send_fd, -1);
	assert_int_equal(packets.receive_fd, -1);
	return 0;
}

static void send_one(size_t bytes)
{
	const struct iovec one = { frame, bytes };
	int err = -1;

	assert_int_equal(packet_socket_send(&packets, &one, 1, &err), 1);
	assert_int_equal(err, 0);
}

/* Of what was sent on lo, the copies that come in. */
static unsigned receive_in(void)
{
	struct pollfd ready = { .fd = packets.receive_fd, .events = POLLIN };
	unsigned count, kept = 0, i;

	assert_int_equal(poll(&ready, 1, 5000), 1);
	count = packet_socket_receive(&packets, got);
	for (i = 0; i < count; i++)
		if (!got[i].outgoing)
			got[kept++] = got[i];
	return kept;
}

static void frames_come_back_whole(void **state)
{
	assert_int_equal(packet_socket_listen(&packets), 0);
	frame[FRAME_BYTES - 1] = 7;
	send_one(FRAME_BYTES);
	assert_int_equal(receive_in(), 1);
	assert_int_equal(got[0].bytes, FRAME_BYTES);
	assert_memory_equal(got[0].data, frame, FRAME_BYTES);
}

static void many_leave_in_order(void **state)
{
	uint8_t copies[40][FRAME_BYTES];
	struct iovec all[40];
	unsigned seen = 0;
	int err;

	assert_int_equal(packet_socket_listen(&packets), 0);
	for (unsigned i = 0; i < 40; i++) {
		memcpy(copies[i], frame, FRAME_BYTES);
		copies[i][20] = (uint8_t)i;
		all[i] = (struct iovec){ copies[i], FRAME_BYTES };
	}
	assert_int_equal(packet_socket_send(&packets, all, 40, &err), 40);
	while (seen < 40) {
		unsigned count = receive_in();

		for (unsigned i = 0; i < count; i++)
			assert_int_equal(got[i].data[20], seen++);
	}
}

static void what_was_sent_before_is_not_received(void **state)
{
	send_one(FRAME_BYTES);
	assert_int_equal(packet_socket_receive(&packets, got), 0);
	assert_int_equal(packet_socket_listen(&packets), 0);
	assert_int_equal(packet_socket_listen(&packets), 0);	/* once more is nothing */
	assert_int_equal(packet_socket_receive(&packets, got), 0);
	packet_socket_deafen(&packets);
	send_one(FRAME_BYTES);
	assert_int_equal(packet_socket_listen(&packets), 0);
	assert_int_equal(packet_socket_receive(&packets, got), 0);
}

static void tags_are_where_they_were(void **state)
{
	static const uint8_t tag[6] = { 0x81, 0x00, 0x20, 0x05, 0x88, 0xb5 };

	assert_int_equal(packet_socket_listen(&packets), 0);
	memcpy(frame + 12, tag, sizeof(tag));
	send_one(FRAME_BYTES);
	assert_int_equal(receive_in(), 1);
	assert_int_equal(got[0].bytes, FRAME_BYTES);
	assert_memory_equal(got[0].data, frame, FRAME_BYTES);
}

static void a_frame_may_be_as_long_as_the_interface_takes(void **state)
{
	assert_int_equal(packet_socket_listen(&packets), 0);
	frame[65000] = 9;
	send_one(65001);
	assert_int_equal(receive_in(), 1);
	assert_int_equal(got[0].bytes, 65001);
	assert_int_equal(got[0].data[65000], 9);
}

/* Too long for the interface: what follows can still be sent. */
static void a_frame_that_is_refused_is_named(void **state)
{
	static uint8_t huge[70000];
	struct iovec two[2] = { { huge, sizeof(huge) }, { frame, FRAME_BYTES } };
	int err = 0;

	assert_int_equal(packet_socket_send(&packets, two, 2, &err), 0);
	assert_int_equal(err, EMSGSIZE);
	assert_int_equal(packet_socket_send(&packets, two + 1, 1, &err), 1);
	assert_int_equal(err, 0);
}

static void an_interface_that_is_not_there_is_an_error(void **state)
{
	struct packet_socket other;

	assert_int_equal(packet_socket_open(&other, 7777), ENODEV);
	assert_int_equal(other.send_fd, -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(frames_come_back_whole),
		TEST(many_leave_in_order),
		TEST(what_was_sent_before_is_not_received),
		TEST(tags_are_where_they_were),
		TEST(a_frame_may_be_as_long_as_the_interface_takes),
		TEST(a_frame_that_is_refused_is_named),
		TEST(an_interface_that_is_not_there_is_an_error),
	};
	bool real_root;

	return netns_enter(&real_root) ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}
