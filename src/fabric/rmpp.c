/* SPDX-License-Identifier: BSD-2-Clause */
/* Messages of more than a MAD, segment by segment: rmpp.h. */
#include "fabric/rmpp.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define METHOD		3u
#define METHOD_RESPONSE	0x80u
#define VERSION		1u
#define PAYLOAD_MAX	(MAD_BYTES - RMPP_HEADER_END)
#define ROOM_FIRST	(16u * MAD_BYTES)
#define TRAIN_LEAST	2u
#define CLAIM_MAX	8u

/* What goes the other way: the header is that of the segment, the method's R bit is not. */
static void rmpp_answer(const uint8_t *mad, enum rmpp_type type, uint8_t status, uint32_t segment,
			uint32_t window, uint8_t answer[MAD_BYTES])
{
	memset(answer, 0, MAD_BYTES);
	memcpy(answer, mad, RMPP_HEADER_END + 4);	/* to the OUI of a vendor's class */
	answer[METHOD] ^= METHOD_RESPONSE;
	answer[RMPP_VERSION] = VERSION;
	answer[RMPP_TYPE] = type;
	answer[RMPP_FLAGS] = RMPP_ACTIVE;
	answer[RMPP_STATUS] = status;
	put_be32(answer + RMPP_SEGMENT, segment);
	put_be32(answer + RMPP_LENGTH, window);
}

void rmpp_refuse(const uint8_t mad[MAD_BYTES], enum rmpp_status status, uint8_t answer[MAD_BYTES])
{
	rmpp_answer(mad, status == RMPP_NO_RESOURCES ? RMPP_STOP : RMPP_ABORT, (uint8_t)status, 0,
		    0, answer);
}

static enum rmpp_result rmpp_refused(const uint8_t *mad, enum rmpp_status status, uint8_t *answer)
{
	rmpp_refuse(mad, status, answer);
	return RMPP_REFUSE;
}

/* ---- sending ---- */

static size_t data_bytes(unsigned offset)
{
	return MAD_BYTES - offset;
}

void rmpp_send_begin(struct rmpp_sender *sender, const uint8_t *message, size_t bytes,
		     unsigned offset)
{
	size_t segments = (bytes - offset + data_bytes(offset) - 1) / data_bytes(offset);

	assert(bytes >= offset && bytes <= RMPP_MESSAGE_MAX);
	*sender = (struct rmpp_sender){ .message = message, .head = message, .bytes = bytes, .offset = offset,
					.segments = segments ? (uint32_t)segments : 1,
					.window = 1 };
}

bool rmpp_send_next(struct rmpp_sender *sender, uint8_t mad[MAD_BYTES])
{
	uint32_t most = sender->window < sender->segments ? sender->window : sender->segments;
	size_t from = sender->offset + sender->sent * data_bytes(sender->offset);
	size_t bytes = data_bytes(sender->offset), length = 0;
	uint32_t pad;

	if (sender->sent >= most)
		return false;
	sender->sent++;
	if (bytes > sender->bytes - from)
		bytes = sender->bytes - from;
	pad = (uint32_t)(sender->segments * data_bytes(sender->offset) + sender->offset -
			 sender->bytes);
	memset(mad, 0, MAD_BYTES);
	memcpy(mad, sender->head, sender->offset);
	memcpy(mad + sender->offset, sender->message + from, bytes);
	mad[RMPP_VERSION] = VERSION;
	mad[RMPP_TYPE] = RMPP_DATA;
	mad[RMPP_FLAGS] = (uint8_t)((mad[RMPP_FLAGS] & RMPP_TIMES) | RMPP_ACTIVE);
	mad[RMPP_STATUS] = 0;
	if (sender->sent == 1) {	/* of the whole message; header bytes count in each */
		mad[RMPP_FLAGS] |= RMPP_FIRST;
		length = sender->segments * (size_t)PAYLOAD_MAX - pad;
	}
	if (sender->sent == sender->segments) {
		mad[RMPP_FLAGS] |= RMPP_LAST;
		length = PAYLOAD_MAX - pad;
	}
	put_be32(mad + RMPP_SEGMENT, sender->sent);
	put_be32(mad + RMPP_LENGTH, (uint32_t)length);
	return true;
}

bool rmpp_send_train(const struct rmpp_sender *sender, uint32_t most, struct rmpp_train *train)
{
	uint32_t last = sender->window < sender->segments ? sender->window : sender->segments;

	*train = (struct rmpp_train){ .sender = sender, .first = sender->sent + 1 };
	if (!sender->sent || last < sender->sent + 1 + TRAIN_LEAST || most < TRAIN_LEAST)
		return false;
	train->count = last - sender->sent - 1 < most ? last - sender->sent - 1 : most;
	return true;
}

void rmpp_send_departed(struct rmpp_sender *sender, const struct rmpp_train *train)
{
	sender->sent = train->first + train->count - 1;
}

void rmpp_send_again(struct rmpp_sender *sender)
{
	sender->sent = sender->acknowledged;
}

enum rmpp_result rmpp_send_input(struct rmpp_sender *sender, const uint8_t mad[MAD_BYTES],
				 uint8_t answer[MAD_BYTES])
{
	uint32_t segment = get_be32(mad + RMPP_SEGMENT), window = get_be32(mad + RMPP_LENGTH);

	if (mad[RMPP_VERSION] != VERSION)
		return rmpp_refused(mad, RMPP_BAD_VERSION, answer);
	if (mad[RMPP_TYPE] == RMPP_STOP || mad[RMPP_TYPE] == RMPP_ABORT)
		return RMPP_ENDED;
	if (mad[RMPP_TYPE] != RMPP_ACK)
		return rmpp_refused(mad, RMPP_BAD_TYPE, answer);
	if (mad[RMPP_STATUS])
		return rmpp_refused(mad, RMPP_BAD_STATUS, answer);
	if (window < segment)
		return rmpp_refused(mad, RMPP_WINDOW_SMALL, answer);
	if (segment > sender->segments || segment > sender->sent) {
		/* After a new beginning what was sent before may be acknowledged late. */
		if (segment > sender->segments || segment > sender->window)
			return rmpp_refused(mad, RMPP_SEGMENT_BIG, answer);
		sender->sent = segment;
	}
	if (segment < sender->acknowledged || rmpp_send_is_over(sender))
		return RMPP_NOTHING;		/* an old one */
	/* Behind the last segment no window is needed: that one may be smaller. */
	if (segment < sender->segments &&
	    (window < sender->window ||
	     (segment == sender->acknowledged && window == sender->window)))
		return RMPP_NOTHING;
	sender->acknowledged = segment;
	sender->window = window;
	return rmpp_send_is_over(sender) ? RMPP_SENT : RMPP_GO_ON;
}

/* ---- receiving ---- */

void rmpp_receive_begin(struct rmpp_receiver *receiver, unsigned offset)
{
	*receiver = (struct rmpp_receiver){ .offset = offset, .window = 1 };
}

void rmpp_receive_end(struct rmpp_receiver *receiver)
{
	free(receiver->message);
	receiver->message = NULL;
	receiver->room = 0;
	rmpp_sealed_put(receiver->sealed);
	receiver->sealed = NULL;
}

/* What it has to have for a segment; 0: too much. */
static size_t receive_room_for(const struct rmpp_receiver *receiver, uint32_t segment)
{
	size_t needed = receiver->offset + segment * data_bytes(receiver->offset);
	size_t room = receiver->room ? receiver->room : ROOM_FIRST;

	if (needed > RMPP_MESSAGE_MAX)
		return 0;
	while (room < needed)
		room *= 2;
	/* Believed when a good part of it is there: a claim alone takes no memory. */
	return room > receiver->room && receiver->announced > room && receiver->announced / CLAIM_MAX < needed ?
		receiver->announced : room;
}

/* 0: its place is there. */
static enum rmpp_status receive_room(struct rmpp_receiver *receiver, uint32_t segment)
{
	size_t room = receive_room_for(receiver, segment);
	uint8_t *message;

	if (!room)
		return RMPP_NO_RESOURCES;
	if (room == receiver->room)
		return 0;
	message = realloc(receiver->message, room);
	if (!message)
		return RMPP_NO_RESOURCES;
	receiver->message = message;
	receiver->room = room;
	return 0;
}

/* Of a message whose last segment is that one. */
static size_t message_bytes(unsigned offset, uint32_t last, uint32_t last_length)
{
	return offset + last * data_bytes(offset) - (PAYLOAD_MAX - last_length);
}

/* Has it these data in the place of a segment? */
static bool sealed_has(const struct rmpp_sealed *sealed, unsigned offset, uint32_t segment, const uint8_t *data)
{
	size_t at = offset + (segment - 1) * data_bytes(offset), bytes = data_bytes(offset);

	if (at >= sealed->bytes)
		return false;
	if (bytes > sealed->bytes - at)
		bytes = sealed->bytes - at;
	return !memcmp(sealed->message + at, data, bytes);
}

/* What comes is another message after all: that of which a part is there is copied. 0: it is. */
static enum rmpp_status receive_copy(struct rmpp_receiver *receiver)
{
	uint32_t high = receiver->ahead ? receiver->window - (uint32_t)__builtin_ctzll(receiver->ahead) :
					  receiver->received;
	size_t bytes = receiver->offset + high * data_bytes(receiver->offset), from = receiver->offset;
	enum rmpp_status status = receive_room(receiver, high);

	if (status)
		return status;
	if (bytes > receiver->sealed->bytes)
		bytes = receiver->sealed->bytes;
	memcpy(receiver->message + from, receiver->sealed->message + from, bytes - from);
	rmpp_sealed_put(receiver->sealed);
	receiver->sealed = NULL;
	return 0;
}

/* 0: it is in its place, or was. */
static enum rmpp_status receive_keep(struct rmpp_receiver *receiver, const uint8_t *mad,
				     uint32_t segment)
{
	uint32_t length = get_be32(mad + RMPP_LENGTH), place = receiver->window - segment;
	bool last = mad[RMPP_FLAGS] & RMPP_LAST, same = false;
	enum rmpp_status status;

	if (last && (length > PAYLOAD_MAX || length < receiver->offset - RMPP_HEADER_END))
		return RMPP_BAD_LENGTH;
	if (receiver->last ? segment > receiver->last || last != (segment == receiver->last) : 0)
		return RMPP_BAD_LENGTH;
	if (place < RMPP_WINDOW && receiver->ahead >> place & 1)
		return 0;
	/* One that is the last behind which others came already. */
	if (last && place && receiver->ahead & ((UINT64_C(1) << place) - 1))
		return RMPP_BAD_LENGTH;
	if (!receive_room_for(receiver, segment))
		return RMPP_NO_RESOURCES;
	if (receiver->sealed && sealed_has(receiver->sealed, receiver->offset, segment, mad + receiver->offset)) {
		size_t end = message_bytes(receiver->offset, segment, last ? length : PAYLOAD_MAX);

		same = last ? end == receiver->sealed->bytes : end < receiver->sealed->bytes;
	}
	if (!same) {
		status = receiver->sealed ? receive_copy(receiver) : 0;
		if (!status)
			status = receive_room(receiver, segment);
		if (status)
			return status;
		memcpy(receiver->message + receiver->offset + (segment - 1) * data_bytes(receiver->offset),
		       mad + receiver->offset, data_bytes(receiver->offset));
	}
	if (segment == 1) {
		size_t segments = ((size_t)length + PAYLOAD_MAX - 1) / PAYLOAD_MAX;

		memcpy(receiver->message, mad, receiver->offset);
		if (segments < RMPP_MESSAGE_MAX / data_bytes(receiver->offset))
			receiver->announced = receiver->offset + segments * data_bytes(receiver->offset);
	}
	receiver->ahead |= UINT64_C(1) << place;
	if (last) {
		receiver->last = segment;
		receiver->last_length = length;
	}
	return 0;
}

static enum rmpp_result rmpp_acknowledge(const struct rmpp_receiver *receiver, const uint8_t *mad,
					 enum rmpp_result result, uint8_t *answer)
{
	rmpp_answer(mad, RMPP_ACK, 0, receiver->received, receiver->window, answer);
	return result;
}

enum rmpp_result rmpp_receive_input(struct rmpp_receiver *receiver, const uint8_t mad[MAD_BYTES],
				    uint8_t answer[MAD_BYTES])
{
	uint32_t segment = get_be32(mad + RMPP_SEGMENT);
	enum rmpp_status status;

	if (mad[RMPP_VERSION] != VERSION)
		return rmpp_refused(mad, RMPP_BAD_VERSION, answer);
	if (mad[RMPP_TYPE] != RMPP_DATA)
		return rmpp_refused(mad, RMPP_BAD_TYPE, answer);
	if (mad[RMPP_STATUS])
		return rmpp_refused(mad, RMPP_BAD_STATUS, answer);
	if (!segment || (segment == 1) != !!(mad[RMPP_FLAGS] & RMPP_FIRST))
		return rmpp_refused(mad, RMPP_BAD_FIRST, answer);
	if (receiver->complete || segment <= receiver->received)
		return rmpp_acknowledge(receiver, mad, RMPP_ANSWER, answer);
	if (segment > receiver->window)
		return RMPP_NOTHING;
	status = receive_keep(receiver, mad, segment);
	if (status)
		return rmpp_refused(mad, status, answer);
	while (receiver->received < receiver->window &&
	       receiver->ahead >> (receiver->window - receiver->received - 1) & 1)
		receiver->received++;
	if (receiver->received == receiver->last) {
		receiver->complete = true;
		return rmpp_acknowledge(receiver, mad, RMPP_COMPLETE, answer);
	}
	if (receiver->received < receiver->window)
		return RMPP_NOTHING;
	receiver->window += RMPP_WINDOW;
	receiver->ahead = 0;
	return rmpp_acknowledge(receiver, mad, RMPP_ANSWER, answer);
}

/* Up to a place within the window, 0: its end, the segments from there on to the one before @segment. */
static uint64_t receive_bits(const struct rmpp_receiver *receiver, uint32_t first, uint32_t behind)
{
	uint32_t high = receiver->window - first, low = receiver->window - (behind - 1);

	return (UINT64_MAX >> (63 - (high - low))) << low;
}

/* Does it take a sealed message instead of a copy, or has it done so? */
static bool receive_seals(const struct rmpp_receiver *receiver, const struct rmpp_sealed *sealed)
{
	return sealed && (receiver->sealed ? receiver->sealed == sealed :
			  receiver->received == 1 &&
			  sealed_has(sealed, receiver->offset, 1, receiver->message + receiver->offset));
}

size_t rmpp_receive_train_memory(const struct rmpp_receiver *receiver, const struct rmpp_train *train)
{
	uint32_t behind = train->first + train->count;
	size_t room;

	/* Nothing came before its turn, and an answer is due only later. */
	if (receiver->complete || receiver->offset != train->sender->offset || train->first < 2 ||
	    train->first != receiver->received + 1 || behind > receiver->window ||
	    (receiver->last && behind > receiver->last) ||
	    receiver->ahead & receive_bits(receiver, train->first, receiver->window + 1))
		return 0;
	room = receive_room_for(receiver, behind - 1);
	if (room && receive_seals(receiver, train->sender->sealed))
		return receiver->room + train->sender->bytes;
	return room;
}

bool rmpp_receive_train(struct rmpp_receiver *receiver, const struct rmpp_train *train)
{
	size_t data = data_bytes(receiver->offset), from = receiver->offset + (train->first - 1) * data;
	struct rmpp_sealed *sealed = train->sender->sealed;

	if (receive_seals(receiver, sealed)) {
		if (!receiver->sealed)
			receiver->sealed = rmpp_sealed_get(sealed);
	} else {
		if ((receiver->sealed && receive_copy(receiver)) ||
		    receive_room(receiver, train->first + train->count - 1))
			return false;
		memcpy(receiver->message + from, train->sender->message + from, train->count * data);
	}
	receiver->ahead |= receive_bits(receiver, train->first, train->first + train->count);
	receiver->received += train->count;
	return true;
}

size_t rmpp_receive_bytes(const struct rmpp_receiver *receiver)
{
	return message_bytes(receiver->offset, receiver->last, receiver->last_length);
}
