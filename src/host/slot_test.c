/* SPDX-License-Identifier: BSD-2-Clause */
/* Claiming slots, and forwarding packets between sockets of this process. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/forward.h"
#include "host/slot.h"
#include "platform/fail.h"
#include "platform/netns_test.h"

static bool alone;			/* in a network namespace of our own */
static uint8_t buffer[65536], payload[65536];
static struct slot_proof proof;

static void a_claimed_slot_is_claimed_until_released(void **state)
{
	struct slot slot, other;
	uint32_t number;

	assert_int_equal(slot_claim(&slot), 0);
	assert_int_equal(slot_claim(&other), 0);
	number = slot.number;
	assert_in_range(number, 1, SLOT_COUNT - 2);
	assert_int_not_equal(other.number, number);
	assert_true(slot_is_claimed(number));
	slot_release(&slot);
	assert_false(slot_is_claimed(number));
	assert_true(slot_is_claimed(other.number));
	slot_release(&other);
}

static void a_slot_is_released_when_its_process_is_killed(void **state)
{
	int pipe_fds[2];
	uint32_t number;
	pid_t child;

	assert_int_equal(pipe(pipe_fds), 0);
	child = fork();
	if (!child) {
		struct slot slot = { 0 };

		if (!slot_claim(&slot) && write(pipe_fds[1], &slot.number, 4) == 4)
			pause();
		_exit(1);
	}
	assert_int_equal(read(pipe_fds[0], &number, 4), 4);
	assert_true(slot_is_claimed(number));
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_false(slot_is_claimed(number));
	close(pipe_fds[0]);
	close(pipe_fds[1]);
}

static void a_datagram_arrives_with_all_that_is_known_of_it(void **state)
{
	struct datagram sent = { .interface = 7, .flow_label = 0xabcde, .spread = 99,
				 .source_port = 0xc123, .traffic_class = 0xb9, .hop_limit = 33,
				 .segment_number = 5, .data = payload, .bytes = 3000,
				 .segment_bytes = 1000 };
	struct datagram received;
	struct slot slot;
	unsigned i;

	for (i = 0; i < 16; i++) {
		sent.source[i] = (uint8_t)(i + 1);
		sent.destination[i] = (uint8_t)(i + 101);
	}
	for (i = 0; i < sent.bytes; i++)
		payload[i] = (uint8_t)(i * 7);
	assert_int_equal(slot_claim(&slot), 0);
	assert_int_equal(slot_forward(slot.number, &sent), 0);
	memset(&received, 0xee, sizeof(received));
	assert_int_equal(slot_receive(&slot, &received, buffer, sizeof(buffer), &proof), 0);
	assert_ptr_equal(received.data, buffer);
	assert_memory_equal(received.data, payload, 3000);
	assert_true(received.forwarded);
	assert_false(received.sealed);
	assert_memory_equal(received.source, sent.source, 16);
	assert_memory_equal(received.destination, sent.destination, 16);
	assert_int_equal(received.interface, 7);
	assert_int_equal(received.flow_label, 0xabcde);
	assert_int_equal(received.spread, 99);
	assert_int_equal(received.source_port, 0xc123);
	assert_int_equal(received.traffic_class, 0xb9);
	assert_int_equal(received.hop_limit, 33);
	assert_int_equal(received.segment_number, 5);
	assert_int_equal(received.bytes, 3000);
	assert_int_equal(received.segment_bytes, 1000);
	assert_int_equal(slot_receive(&slot, &received, buffer, sizeof(buffer), &proof), EAGAIN);
	slot_release(&slot);
}

static void the_largest_datagram_arrives(void **state)
{
	struct datagram sent = { .data = payload, .bytes = 65507 }, received;
	struct slot slot;

	assert_int_equal(slot_claim(&slot), 0);
	assert_int_equal(slot_forward(slot.number, &sent), 0);
	assert_int_equal(slot_receive(&slot, &received, buffer, sizeof(buffer), &proof), 0);
	assert_int_equal(received.bytes, 65507);
	slot_release(&slot);
}

static void nobody_to_hand_on_to_is_said(void **state)
{
	struct datagram sent = { .data = payload, .bytes = 64 };
	struct slot slot;

	assert_int_equal(slot_claim(&slot), 0);
	slot_release(&slot);
	assert_int_equal(slot_forward(slot.number, &sent), ECONNREFUSED);
	assert_int_equal(slot_forward(0, &sent), ECONNREFUSED);
	assert_int_equal(slot_forward(SLOT_COUNT - 1, &sent), ECONNREFUSED);
}

/* More stuck holders than the cache has sockets, then one that is not. */
static void stuck_holders_do_not_hinder_the_others(void **state)
{
	struct datagram sent = { .data = payload, .bytes = 60000 }, received;
	struct slot stuck[20], slot;
	unsigned i, n;

	for (i = 0; i < 20; i++) {
		assert_int_equal(slot_claim(&stuck[i]), 0);
		for (n = 0; n < 2000 && !slot_forward(stuck[i].number, &sent); n++)
			;
		assert_in_range(n, 1, 1999);
		assert_int_equal(slot_forward(stuck[i].number, &sent), EAGAIN);
	}
	assert_int_equal(slot_claim(&slot), 0);
	for (n = 0; n < 100; n++) {
		assert_int_equal(slot_forward(slot.number, &sent), 0);
		assert_int_equal(slot_receive(&slot, &received, buffer, sizeof(buffer), &proof), 0);
	}
	slot_release(&slot);
	for (i = 0; i < 20; i++)
		slot_release(&stuck[i]);
}

static void send_raw(uint32_t number, const void *data, size_t bytes)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int length = snprintf(name.sun_path + 1, 64, SLOT_NAME "%u", number);

	assert_int_equal(sendto(fd, data, bytes, 0, (struct sockaddr *)&name,
				(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
					    (size_t)length)), (ssize_t)bytes);
	close(fd);
}

static void strangers_messages_are_refused(void **state)
{
	struct datagram sent = { .data = payload, .bytes = 100 }, received;
	uint8_t whole[64 + 100], bytes[65536];
	struct slot slot;
	unsigned i;

	assert_int_equal(slot_claim(&slot), 0);
	assert_int_equal(slot_forward(slot.number, &sent), 0);
	assert_int_equal(recv(slot.fd, whole, sizeof(whole), 0), sizeof(whole));
	for (i = 0; i < sizeof(whole); i++) {		/* cut */
		send_raw(slot.number, whole, i);
		assert_int_equal(slot_receive(&slot, &received, buffer, sizeof(buffer), &proof), EBADMSG);
	}
	memset(bytes, 0x5a, sizeof(bytes));		/* noise */
	send_raw(slot.number, bytes, sizeof(bytes));
	assert_int_equal(slot_receive(&slot, &received, buffer, sizeof(buffer), &proof), EBADMSG);
	memcpy(bytes, whole, sizeof(whole));		/* longer than the buffer */
	send_raw(slot.number, whole, sizeof(whole));
	assert_int_equal(slot_receive(&slot, &received, buffer, 50, &proof), EBADMSG);
	memcpy(bytes, whole, sizeof(whole));		/* segments longer than the whole */
	bytes[48] = 1;
	send_raw(slot.number, bytes, sizeof(whole));
	assert_int_equal(slot_receive(&slot, &received, buffer, sizeof(buffer), &proof), EBADMSG);
	send_raw(slot.number, whole, sizeof(whole));	/* and the original */
	assert_int_equal(slot_receive(&slot, &received, buffer, sizeof(buffer), &proof), 0);
	slot_release(&slot);
}

static void send_nonce_as(const char *name, uint32_t number)
{
	struct abstract_name to = name_of_slot(SLOT_NAME, number), from = name_of(name);
	int fd = name_socket(SOCK_DGRAM);

	assert_true(fd >= 0);
	if (name[0])
		assert_int_equal(name_bind(fd, &from), 0);
	assert_int_equal(forward_send_nonce(fd, &to, 5), 0);
	close(fd);
}

/* Only the holder of a slot can prove it. */
static void a_slot_is_proven_by_who_holds_it(void **state)
{
	static const char *const liar[] = { "", "verbatim/slot/", "verbatim/slot/0", "verbatim/slot/0000000001",
					    "verbatim/slot/1x", "verbatim/slot/1023", "verbatim/slot/4294967297",
					    "verbatim/memory/1", "x" };
	struct slot slot, other;
	unsigned i;

	assert_int_equal(slot_claim(&slot), 0);
	assert_int_equal(slot_claim(&other), 0);
	assert_int_equal(slot_prove(&other, slot.number, 0x123456789abcdef0), 0);
	assert_int_equal(slot_receive(&slot, &(struct datagram){ 0 }, buffer, sizeof(buffer), &proof), ENOMSG);
	assert_int_equal(proof.number, other.number);
	assert_int_equal(proof.nonce, 0x123456789abcdef0);
	for (i = 0; i < sizeof(liar) / sizeof(liar[0]); i++) {
		if (!strcmp(liar[i], "verbatim/memory/1") && !alone)
			continue;
		send_nonce_as(liar[i], slot.number);
		assert_int_equal(slot_receive(&slot, &(struct datagram){ 0 }, buffer, sizeof(buffer), &proof),
				 EBADMSG);
	}
	slot_release(&other);
	assert_int_equal(slot_prove(&slot, other.number, 1), ECONNREFUSED);
	slot_release(&slot);
}

/* A slot whose second name is taken by another process cannot be claimed. */
static void both_names_of_a_slot_are_its_holders(void **state)
{
	static struct slot all[SLOT_COUNT];
	struct abstract_name squatted = name_of_slot(SLOT_CHANNEL_NAME, 500);
	unsigned count = 0, i;
	int fd = name_socket(SOCK_SEQPACKET), err;

	if (!alone) {
		print_message("SKIPPED: would take the slots of others on this host\n");
		skip();
	}
	assert_int_equal(name_bind(fd, &squatted), 0);
	while (!(err = slot_claim(&all[count])))
		assert_int_not_equal(all[count++].number, 500);
	assert_in_set(err, ((unsigned long[]){ EUSERS, EMFILE }), 2);
	if (err == EUSERS)
		assert_int_equal(count, SLOT_COUNT - 3);
	assert_false(slot_is_claimed(500));
	for (i = 0; i < count; i++)
		slot_release(&all[i]);
	close(fd);
}

static void failures_of_the_kernel_are_passed_on(void **state)
{
	struct datagram sent = { .data = payload, .bytes = 64 };
	struct slot slot;

	fail_set(FAIL_SOCKET, 1, EMFILE);
	assert_int_equal(slot_claim(&slot), EMFILE);
	fail_set(FAIL_BIND, 1, EPERM);
	assert_int_equal(slot_claim(&slot), EPERM);
	assert_int_equal(slot_claim(&slot), 0);
	fail_set(FAIL_SOCKET, 1, EMFILE);
	assert_int_equal(slot_forward(slot.number, &sent), EMFILE);
	fail_set(FAIL_SENDMSG, 1, ENOBUFS);
	assert_int_equal(slot_forward(slot.number, &sent), EAGAIN);
	assert_int_equal(slot_forward(slot.number, &sent), 0);
	slot_release(&slot);
	fail_clear();
}

static void all_slots_can_be_claimed_and_no_more(void **state)
{
	static struct slot all[SLOT_COUNT];
	unsigned count = 0, i;
	int err;

	if (!alone) {
		print_message("SKIPPED: would take the slots of others on this host\n");
		skip();
	}
	while (!(err = slot_claim(&all[count])))
		count++;
	if (err == EMFILE) {
		print_message("SKIPPED: fewer descriptors allowed than there are slots\n");
	} else {
		assert_int_equal(err, EUSERS);
		assert_int_equal(count, SLOT_COUNT - 2);
	}
	for (i = 0; i < count; i++)
		slot_release(&all[i]);
}

int main(void)
{
	bool real_root;
	const struct CMUnitTest tests[] = {
		/* The first: nothing was sent yet, no sending socket is kept. */
		cmocka_unit_test(failures_of_the_kernel_are_passed_on),
		cmocka_unit_test(a_claimed_slot_is_claimed_until_released),
		cmocka_unit_test(a_slot_is_released_when_its_process_is_killed),
		cmocka_unit_test(a_datagram_arrives_with_all_that_is_known_of_it),
		cmocka_unit_test(the_largest_datagram_arrives),
		cmocka_unit_test(nobody_to_hand_on_to_is_said),
		cmocka_unit_test(stuck_holders_do_not_hinder_the_others),
		cmocka_unit_test(strangers_messages_are_refused),
		cmocka_unit_test(all_slots_can_be_claimed_and_no_more),
		cmocka_unit_test(a_slot_is_proven_by_who_holds_it),
		cmocka_unit_test(both_names_of_a_slot_are_its_holders),
	};

	alone = netns_enter(&real_root);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
