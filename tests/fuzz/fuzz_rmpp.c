/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: both ends of a long message, to which come segments, ACKs, STOPs and ABORTs of any
 * kind and in any order: 11 bytes each. Memory stays in bounds (ASan), a message has the length that
 * its segments gave, and a sender sends nothing beyond its window.
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

static void receive(struct rmpp_receiver *receiver, const uint8_t *mad)
{
	uint8_t answer[MAD_BYTES];
	bool before = receiver->complete;
	enum rmpp_result result = rmpp_receive_input(receiver, mad, answer);
	size_t bytes;

	if (result != RMPP_COMPLETE)
		return;
	bytes = rmpp_receive_bytes(receiver);
	if (before || bytes < receiver->offset || bytes > receiver->room)
		abort();
	for (size_t i = 0; i < bytes; i += 64)		/* ASan looks */
		answer[i % MAD_BYTES] ^= receiver->message[i];
	rmpp_receive_end(receiver);
}

static void send_more(struct rmpp_sender *sender)
{
	uint8_t mad[MAD_BYTES];

	while (rmpp_send_next(sender, mad))
		if (get_be32(mad + RMPP_SEGMENT) > sender->window ||
		    get_be32(mad + RMPP_SEGMENT) > sender->segments)
			abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	static const unsigned offsets[] = { 36, 40, 56, 64 };
	static uint8_t message[MESSAGE];
	struct input input = { data, length };
	unsigned offset = offsets[next8(&input) % 4];
	size_t bytes = offset + (size_t)next8(&input) * 77;
	struct rmpp_receiver receiver;
	struct rmpp_sender sender;

	rmpp_send_begin(&sender, message, bytes, offset);
	rmpp_receive_begin(&receiver, offset);
	send_more(&sender);
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
			receive(&receiver, mad);
		else
			rmpp_send_input(&sender, mad, answer);
		send_more(&sender);
		if (sender.acknowledged > sender.segments)
			abort();
	}
	rmpp_receive_end(&receiver);
	return 0;
}
