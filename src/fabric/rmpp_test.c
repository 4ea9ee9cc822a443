/* SPDX-License-Identifier: BSD-2-Clause */
/* Both ends of a long message, and between them whatever may be lost; and what no end should believe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/test_random.h"
#include "fabric/rmpp.h"

#define SA_OFFSET	56u
#define SA_DATA		(MAD_BYTES - SA_OFFSET)
#define RETRIES		12u

/* A message of class 3 whose every byte tells where it stands. */
static uint8_t *message_make(size_t bytes, unsigned offset)
{
	uint8_t *message = calloc(1, bytes > MAD_BYTES ? bytes : MAD_BYTES);

	assert_non_null(message);
	for (size_t i = 0; i < bytes; i++)
		message[i] = (uint8_t)(i * 7 + i / 251);
	memset(message, 0, offset);
	message[0] = 1;
	message[1] = 3;
	message[2] = 2;
	message[3] = 0x92;
	put_be64(message + 8, 77);
	return message;
}

struct wire {
	uint64_t lost;			/* bit n: the packet number n is */
	unsigned packets;
};

static bool wire_loses(struct wire *wire)
{
	unsigned number = wire->packets++;

	return number < 64 && wire->lost >> number & 1;
}

/*
 * Until both are at their end. Returns the number of timeouts, or fails. What is on its way arrives in
 * its order: a window of segments, then the answers to them.
 */
static unsigned converse(const uint8_t *message, size_t bytes, unsigned offset, uint64_t lost)
{
	uint8_t mad[MAD_BYTES], answers[RMPP_WINDOW][MAD_BYTES], refusal[MAD_BYTES];
	unsigned timeouts = 0, retries = RETRIES, completed = 0;
	struct wire wire = { .lost = lost };
	struct rmpp_receiver receiver;
	struct rmpp_sender sender;

	rmpp_send_begin(&sender, message, bytes, offset);
	rmpp_receive_begin(&receiver, offset);
	while (!rmpp_send_is_over(&sender)) {
		unsigned count = 0;
		bool moved = false;

		while (count < RMPP_WINDOW && rmpp_send_next(&sender, mad)) {
			enum rmpp_result result;

			if (wire_loses(&wire))
				continue;
			result = rmpp_receive_input(&receiver, mad, answers[count]);
			assert_int_not_equal(result, RMPP_REFUSE);
			completed += result == RMPP_COMPLETE;
			count += result != RMPP_NOTHING;
		}
		for (unsigned i = 0; i < count; i++) {
			enum rmpp_result result = RMPP_NOTHING;

			if (!wire_loses(&wire))
				result = rmpp_send_input(&sender, answers[i], refusal);
			assert_true(result == RMPP_NOTHING || result == RMPP_GO_ON ||
				    result == RMPP_SENT);
			moved |= result != RMPP_NOTHING;
		}
		if (moved) {
			retries = RETRIES;
			continue;
		}
		assert_int_not_equal(retries--, 0);
		timeouts++;
		rmpp_send_again(&sender);
	}
	assert_int_equal(completed, 1);
	assert_true(receiver.complete);
	assert_int_equal(rmpp_receive_bytes(&receiver), bytes);
	/* The header is the first segment's; the data are the message's. */
	assert_memory_equal(receiver.message, message, 24);
	assert_memory_equal(receiver.message + 36, message + 36, bytes - 36);
	rmpp_receive_end(&receiver);
	return timeouts;
}

static void any_length_arrives_whole(void **unused)
{
	static const unsigned offsets[] = { 36, 40, 56, 64 };

	for (unsigned o = 0; o < 4; o++)
		for (size_t bytes = offsets[o]; bytes < 1000; bytes++) {
			uint8_t *message = message_make(bytes, offsets[o]);

			assert_int_equal(converse(message, bytes, offsets[o], 0), 0);
			free(message);
		}
	for (unsigned segments = 60; segments < 70; segments++) {
		uint8_t *message = message_make(SA_OFFSET + segments * SA_DATA, SA_OFFSET);

		assert_int_equal(converse(message, SA_OFFSET + segments * SA_DATA, SA_OFFSET, 0),
				 0);
		free(message);
	}
}

/* Of messages of 1 to 12 segments any of the first 12 packets is lost, segments and ACKs alike. */
static void under_every_mask_of_losses_it_arrives_once(void **unused)
{
	unsigned most = 0;

	for (unsigned segments = 1; segments <= 12; segments++) {
		size_t bytes = SA_OFFSET + segments * SA_DATA - segments * 3;
		uint8_t *message = message_make(bytes, SA_OFFSET);

		for (uint64_t mask = 0; mask < 1u << 12; mask++) {
			unsigned timeouts = converse(message, bytes, SA_OFFSET, mask);

			most = timeouts > most ? timeouts : most;
			assert_true(timeouts <= (unsigned)__builtin_popcountll(mask));
		}
		free(message);
	}
	assert_in_range(most, 10, 12);
}

/* Around the ends of windows, where ACKs stand. */
static void losses_of_long_messages_by_chance(void **unused)
{
	for (uint64_t seed = 1; seed <= 300; seed++) {
		uint64_t random = seed, mask;
		size_t bytes = SA_OFFSET + 1 + test_random(&random) % (200 * SA_DATA);
		uint8_t *message = message_make(bytes, SA_OFFSET);

		mask = test_random(&random) & test_random(&random) & test_random(&random);
		converse(message, bytes, SA_OFFSET, mask);
		free(message);
	}
}

static void segments_may_come_in_any_order(void **unused)
{
	size_t bytes = SA_OFFSET + 20 * SA_DATA - 5;
	uint8_t *message = message_make(bytes, SA_OFFSET), answer[MAD_BYTES];
	uint8_t segment[20][MAD_BYTES];
	struct rmpp_receiver receiver;
	struct rmpp_sender sender;

	rmpp_send_begin(&sender, message, bytes, SA_OFFSET);
	sender.window = 20;
	for (unsigned i = 0; i < 20; i++)
		assert_true(rmpp_send_next(&sender, segment[i]));
	rmpp_receive_begin(&receiver, SA_OFFSET);
	assert_int_equal(rmpp_receive_input(&receiver, segment[1], answer), RMPP_NOTHING);
	assert_int_equal(rmpp_receive_input(&receiver, segment[0], answer), RMPP_ANSWER);
	for (unsigned i = 19; i > 1; i--) {
		assert_int_equal(rmpp_receive_input(&receiver, segment[i], answer), RMPP_NOTHING);
		assert_int_equal(rmpp_receive_input(&receiver, segment[i], answer), RMPP_NOTHING);
	}
	assert_int_equal(rmpp_receive_input(&receiver, segment[1], answer), RMPP_COMPLETE);
	assert_int_equal(get_be32(answer + RMPP_SEGMENT), 20);
	assert_int_equal(answer[3], 0x12);
	assert_int_equal(rmpp_receive_bytes(&receiver), bytes);
	assert_memory_equal(receiver.message + SA_OFFSET, message + SA_OFFSET, bytes - SA_OFFSET);
	/* Afterwards each is acknowledged again. */
	assert_int_equal(rmpp_receive_input(&receiver, segment[7], answer), RMPP_ANSWER);
	assert_int_equal(get_be32(answer + RMPP_SEGMENT), 20);
	rmpp_receive_end(&receiver);
	free(message);
}

static void what_cannot_be_right_is_refused(void **unused)
{
	static const struct {
		unsigned byte;
		uint8_t value;
		enum rmpp_status status;
	} wrong[] = {
		{ RMPP_VERSION, 2, RMPP_BAD_VERSION }, { RMPP_TYPE, 7, RMPP_BAD_TYPE },
		{ RMPP_STATUS, 5, RMPP_BAD_STATUS }, { RMPP_SEGMENT + 3, 0, RMPP_BAD_FIRST },
		{ RMPP_SEGMENT + 3, 2, RMPP_BAD_FIRST }, { RMPP_FLAGS, 1, RMPP_BAD_FIRST },
		{ RMPP_LENGTH + 3, 221, RMPP_BAD_LENGTH }, { RMPP_LENGTH + 3, 19, RMPP_BAD_LENGTH },
	};
	uint8_t *message = message_make(MAD_BYTES, SA_OFFSET), mad[MAD_BYTES], answer[MAD_BYTES];
	struct rmpp_receiver receiver;
	struct rmpp_sender sender;

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		rmpp_send_begin(&sender, message, MAD_BYTES, SA_OFFSET);
		assert_true(rmpp_send_next(&sender, mad));
		assert_false(rmpp_send_next(&sender, answer));
		mad[wrong[i].byte] = wrong[i].value;
		rmpp_receive_begin(&receiver, SA_OFFSET);
		assert_int_equal(rmpp_receive_input(&receiver, mad, answer), RMPP_REFUSE);
		assert_int_equal(answer[RMPP_TYPE], RMPP_ABORT);
		assert_int_equal(answer[RMPP_STATUS], wrong[i].status);
		assert_int_equal(rmpp_send_input(&sender, answer, mad), RMPP_ENDED);
		rmpp_receive_end(&receiver);
	}
	free(message);
}

/* Its last ACK may be lost: whatever comes then has the same answer, and changes nothing. */
static void a_message_that_is_whole_stays_as_it_is(void **unused)
{
	uint8_t *message = message_make(SA_OFFSET + 10, SA_OFFSET), mad[MAD_BYTES], answer[MAD_BYTES];
	struct rmpp_receiver receiver;
	struct rmpp_sender sender;

	rmpp_send_begin(&sender, message, SA_OFFSET + 10, SA_OFFSET);
	assert_true(rmpp_send_next(&sender, mad));
	rmpp_receive_begin(&receiver, SA_OFFSET);
	assert_int_equal(rmpp_receive_input(&receiver, mad, answer), RMPP_COMPLETE);
	assert_int_equal(rmpp_receive_input(&receiver, mad, answer), RMPP_ANSWER);
	mad[RMPP_FLAGS] = RMPP_ACTIVE;
	put_be32(mad + RMPP_SEGMENT, 2);
	assert_int_equal(rmpp_receive_input(&receiver, mad, answer), RMPP_ANSWER);
	assert_int_equal(answer[RMPP_TYPE], RMPP_ACK);
	assert_int_equal(get_be32(answer + RMPP_SEGMENT), 1);
	assert_int_equal(rmpp_receive_bytes(&receiver), SA_OFFSET + 10);
	rmpp_receive_end(&receiver);
	free(message);
}

static void an_ack_of_what_was_not_sent_is_refused_and_an_old_one_is_not(void **unused)
{
	size_t bytes = SA_OFFSET + 100 * SA_DATA;
	uint8_t *message = message_make(bytes, SA_OFFSET), mad[MAD_BYTES], answer[MAD_BYTES];
	struct rmpp_sender sender;

	rmpp_send_begin(&sender, message, bytes, SA_OFFSET);
	assert_true(rmpp_send_next(&sender, mad));
	mad[RMPP_TYPE] = RMPP_ACK;
	put_be32(mad + RMPP_SEGMENT, 1);
	put_be32(mad + RMPP_LENGTH, 65);
	assert_int_equal(rmpp_send_input(&sender, mad, answer), RMPP_GO_ON);
	assert_int_equal(rmpp_send_input(&sender, mad, answer), RMPP_NOTHING);
	put_be32(mad + RMPP_SEGMENT, 66);
	assert_int_equal(rmpp_send_input(&sender, mad, answer), RMPP_REFUSE);
	assert_int_equal(answer[RMPP_STATUS], RMPP_WINDOW_SMALL);
	put_be32(mad + RMPP_LENGTH, 200);
	assert_int_equal(rmpp_send_input(&sender, mad, answer), RMPP_REFUSE);
	assert_int_equal(answer[RMPP_STATUS], RMPP_SEGMENT_BIG);
	free(message);
}

/* What a sender without end can make a receiver keep. */
static void a_message_without_end_is_stopped(void **unused)
{
	uint8_t mad[MAD_BYTES] = { 1, 3, 2, 0x92 }, answer[MAD_BYTES];
	struct rmpp_receiver receiver;
	enum rmpp_result result;
	uint32_t segment = 0;

	rmpp_receive_begin(&receiver, SA_OFFSET);
	do {
		segment++;
		mad[RMPP_VERSION] = 1;
		mad[RMPP_TYPE] = RMPP_DATA;
		mad[RMPP_FLAGS] = segment == 1 ? RMPP_ACTIVE | RMPP_FIRST : RMPP_ACTIVE;
		put_be32(mad + RMPP_SEGMENT, segment);
		result = rmpp_receive_input(&receiver, mad, answer);
	} while (result != RMPP_REFUSE);
	assert_in_range(segment * SA_DATA, RMPP_MESSAGE_MAX - SA_DATA, RMPP_MESSAGE_MAX + SA_DATA);
	assert_int_equal(answer[RMPP_TYPE], RMPP_STOP);
	assert_true(receiver.room <= RMPP_MESSAGE_MAX);
	rmpp_receive_end(&receiver);
}

static void sealed_release(struct rmpp_sealed *sealed)
{
	sealed->release = NULL;
}

/*
 * A sealed message is not copied as long as each segment is what it has in its place. One that is not (of some
 * other sender with the same transaction) is kept all the same, and nothing of the sealed one in its place.
 */
static void a_sealed_message_stays_where_it_is_until_something_else_comes(void **unused)
{
	size_t bytes = SA_OFFSET + 140 * SA_DATA + 7;

	for (unsigned other = 0; other <= 141; other += 47) {	/* 0: none; in the midst; the last */
		uint8_t *message = message_make(bytes, SA_OFFSET);
		uint8_t head[MAD_BYTES], mad[MAD_BYTES], answer[MAD_BYTES];
		struct rmpp_sealed sealed = { .message = message, .bytes = bytes, .holders = 1,
					      .release = sealed_release };
		enum rmpp_result result = RMPP_NOTHING;
		struct rmpp_receiver receiver;
		struct rmpp_sender sender;
		struct rmpp_train train;
		uint8_t *expected;

		memcpy(head, message, MAD_BYTES);
		rmpp_send_begin(&sender, message, bytes, SA_OFFSET);
		sender.head = head;
		sender.sealed = &sealed;
		rmpp_receive_begin(&receiver, SA_OFFSET);
		while (result != RMPP_COMPLETE) {
			uint32_t most = other > sender.sent + 1 ? other - sender.sent - 1 : RMPP_WINDOW;

			if (rmpp_send_train(&sender, most, &train)) {
				assert_true(rmpp_receive_train_memory(&receiver, &train) > 0);
				assert_true(rmpp_receive_train(&receiver, &train));
				rmpp_send_departed(&sender, &train);
				assert_int_equal(receiver.sealed != NULL, !other || sender.sent < other);
			}
			assert_true(rmpp_send_next(&sender, mad));
			if (sender.sent == other)
				mad[SA_OFFSET + 3] ^= 1;
			result = rmpp_receive_input(&receiver, mad, answer);
			if (result != RMPP_NOTHING)
				rmpp_send_input(&sender, answer, mad);
		}
		assert_int_equal(rmpp_receive_bytes(&receiver), bytes);
		expected = malloc(bytes);
		memcpy(expected, message, bytes);
		if (other)
			expected[SA_OFFSET + (other - 1) * SA_DATA + 3] ^= 1;
		if (receiver.sealed) {
			assert_int_equal(other, 0);
			assert_int_equal(rmpp_receive_memory(&receiver), receiver.room + bytes);
			assert_true(receiver.room < 8192);
			assert_memory_equal(receiver.message + SA_OFFSET, expected + SA_OFFSET, SA_DATA);
		} else {
			assert_memory_equal(receiver.message + SA_OFFSET, expected + SA_OFFSET, bytes - SA_OFFSET);
		}
		rmpp_receive_end(&receiver);
		assert_int_equal(rmpp_receive_memory(&receiver), 0);
		assert_int_equal(sealed.holders, 1);
		rmpp_sealed_put(&sealed);
		assert_null(sealed.release);
		free(expected);
		free(message);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_length_arrives_whole),
		cmocka_unit_test(under_every_mask_of_losses_it_arrives_once),
		cmocka_unit_test(losses_of_long_messages_by_chance),
		cmocka_unit_test(segments_may_come_in_any_order),
		cmocka_unit_test(what_cannot_be_right_is_refused),
		cmocka_unit_test(an_ack_of_what_was_not_sent_is_refused_and_an_old_one_is_not),
		cmocka_unit_test(a_message_that_is_whole_stays_as_it_is),
		cmocka_unit_test(a_message_without_end_is_stopped),
		cmocka_unit_test(a_sealed_message_stays_where_it_is_until_something_else_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
