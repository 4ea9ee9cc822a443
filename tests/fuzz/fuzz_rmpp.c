/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: both ends of a long message, to which come segments, ACKs, STOPs and ABORTs of any
 * kind and in any order: 12 bytes each. By bits of the last of them the sender's own segments come to the
 * receiver, too, one by one or as trains, and its answers go back. Memory stays in bounds (ASan), a message
 * has the length that its segments gave, a sender sends nothing beyond its window, and a train leaves the
 * receiver where it owes no answer, and the next segment has not come.
 */
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "fabric/rmpp.h"
#include "input.h"

#define MESSAGE	20000u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

static uint32_t small_or_any(struct input *input)
{
	uint8_t kind = next8(input);
	uint32_t low = next8(input);

	return kind < 0xf0 ? low + (kind & 1) * 64 : low << 24 | (uint32_t)kind << 8 | low;
}

static enum rmpp_result receive(struct rmpp_receiver *receiver, const uint8_t *mad, uint8_t answer[MAD_BYTES])
{
	uint8_t copy[MAD_BYTES];
	bool before = receiver->complete;
	enum rmpp_result result = rmpp_receive_input(receiver, mad, answer);
	size_t bytes;

	if (result != RMPP_COMPLETE)
		return result;
	bytes = rmpp_receive_bytes(receiver);
	if (before || bytes < receiver->offset ||
	    (receiver->sealed ? bytes != receiver->sealed->bytes || receiver->room < MAD_BYTES :
				bytes > receiver->room))
		abort();
	for (size_t i = 0; i < (receiver->sealed ? MAD_BYTES : bytes); i += 64)		/* ASan looks */
		copy[i % MAD_BYTES] ^= receiver->message[i];
	rmpp_receive_end(receiver);
	return result;
}

static void send_train(struct rmpp_sender *sender, struct rmpp_receiver *receiver, unsigned most)
{
	struct rmpp_train train;
	size_t memory;

	if (!rmpp_send_train(sender, most, &train))
		return;
	memory = rmpp_receive_train_memory(receiver, &train);
	if (!memory || !rmpp_receive_train(receiver, &train))
		return;
	rmpp_send_departed(sender, &train);
	if (receiver->complete || rmpp_receive_memory(receiver) != memory || receiver->received != sender->sent ||
	    receiver->received >= receiver->window || sender->sent >= sender->window ||
	    sender->sent >= sender->segments ||
	    receiver->ahead >> (receiver->window - receiver->received - 1) & 1)		/* the next one is there */
		abort();
}

/* @how: to the receiver, as trains, and how many. */
static void send_more(struct rmpp_sender *sender, struct rmpp_receiver *receiver, uint8_t how)
{
	uint8_t mad[MAD_BYTES], answer[MAD_BYTES], more[MAD_BYTES];

	for (unsigned left = how & 0x3f; left; left--) {
		if ((how & 0xc0) == 0xc0)
			send_train(sender, receiver, how & 0x3f);
		if (!rmpp_send_next(sender, mad))
			return;
		if (get_be32(mad + RMPP_SEGMENT) > sender->window ||
		    get_be32(mad + RMPP_SEGMENT) > sender->segments)
			abort();
		if (how & 0x80 && receive(receiver, mad, answer) != RMPP_NOTHING)
			rmpp_send_input(sender, answer, more);
	}
}

static void sealed_release(struct rmpp_sealed *sealed)
{
	abort();		/* it is ours */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	static const unsigned offsets[] = { 36, 40, 56, 64 };
	static uint8_t message[MESSAGE];
	struct input input = { data, length };
	unsigned offset = offsets[next8(&input) % 4];
	size_t bytes = offset + (size_t)next8(&input) * 77;
	struct rmpp_sealed sealed = { .message = message, .bytes = bytes, .holders = 1,
				      .release = sealed_release };
	struct rmpp_receiver receiver;
	struct rmpp_sender sender;

	rmpp_send_begin(&sender, message, bytes, offset);
	sender.sealed = bytes % 2 ? &sealed : NULL;
	rmpp_receive_begin(&receiver, offset);
	send_more(&sender, &receiver, next8(&input));
	while (input.left) {
		uint8_t mad[MAD_BYTES] = { 1, 3, 2, 0x92 }, answer[MAD_BYTES];
		uint8_t what = next8(&input), odd = next8(&input);

		mad[RMPP_VERSION] = odd == 1 ? next8(&input) : 1;
		mad[RMPP_TYPE] = odd == 2 ? next8(&input) : what & 3 ? RMPP_DATA : RMPP_ACK;
		mad[RMPP_FLAGS] = (what >> 2 & 7) | RMPP_ACTIVE;
		mad[RMPP_STATUS] = odd == 3 ? next8(&input) : 0;
		put_be32(mad + RMPP_SEGMENT, small_or_any(&input));
		put_be32(mad + RMPP_LENGTH, small_or_any(&input));
		if (what & 0x20)
			rmpp_send_again(&sender);
		if (mad[RMPP_TYPE] == RMPP_DATA)
			receive(&receiver, mad, answer);
		else
			rmpp_send_input(&sender, mad, answer);
		send_more(&sender, &receiver, next8(&input));
		if (sender.acknowledged > sender.segments)
			abort();
	}
	rmpp_receive_end(&receiver);
	if (sealed.holders != 1)
		abort();
	return 0;
}
