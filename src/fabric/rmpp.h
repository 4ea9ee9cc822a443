/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reliable multi-packet transactions (IBTA 13.6): a message of more than a MAD goes in segments, of
 * which the receiver acknowledges the first, the last, and each end of a window. Pure: MADs in, MADs
 * out; who sends them, and when time is up, is up to who calls.
 *
 *	sender				receiver
 *	DATA 1 (First)		-->
 *				<--	ACK 1, window up to 65
 *	DATA 2 .. 65		-->
 *				<--	ACK 65, window up to 129
 *	DATA 66 (Last)		-->
 *				<--	ACK 66
 *
 * A sender without an ACK begins again behind what was acknowledged. A segment that came before is
 * acknowledged again, one out of its order within the window is kept. Whoever sees what cannot be
 * right says ABORT, and both end.
 *
 * A message is the header of its first MAD, up to the offset of the data, and then the data of all.
 */
#ifndef VERBATIM_FABRIC_RMPP_H
#define VERBATIM_FABRIC_RMPP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/rmpp.h"

#define RMPP_MESSAGE_MAX	(32u << 20)
#define RMPP_WINDOW		64u

/* RMPPStatus: 1 goes with STOP, the others with ABORT. */
enum rmpp_status {
	RMPP_NO_RESOURCES = 1, RMPP_TOO_LONG = 118, RMPP_BAD_LENGTH = 119, RMPP_BAD_FIRST = 120,
	RMPP_BAD_TYPE = 121, RMPP_WINDOW_SMALL = 122, RMPP_SEGMENT_BIG = 123, RMPP_BAD_STATUS = 124,
	RMPP_BAD_VERSION = 125, RMPP_TOO_MANY_RETRIES = 126,
};

/* What came of a MAD; of the first three *answer has to be sent where it came from. */
enum rmpp_result {
	RMPP_ANSWER,		/* an ACK */
	RMPP_COMPLETE,		/* an ACK, and now the message is whole */
	RMPP_REFUSE,		/* an ABORT or STOP: it is over */
	RMPP_NOTHING,
	RMPP_GO_ON,		/* to a sender: more may be sent */
	RMPP_SENT,		/* to a sender: all is acknowledged */
	RMPP_ENDED,		/* the other end aborted or stopped it */
};

/* The answer to @mad of the other end of a transaction: an ABORT, or with 1 a STOP. */
void rmpp_refuse(const uint8_t mad[MAD_BYTES], enum rmpp_status status, uint8_t answer[MAD_BYTES]);

/*
 * A message in memory that nobody changes any more. Whoever holds it may hand it on instead of a copy; the last
 * one to put it releases it.
 */
struct rmpp_sealed {
	const uint8_t *message;
	size_t bytes;
	unsigned holders;
	void (*release)(struct rmpp_sealed *sealed);
};

static inline struct rmpp_sealed *rmpp_sealed_get(struct rmpp_sealed *sealed)
{
	sealed->holders++;
	return sealed;
}

/* NULL is none. */
static inline void rmpp_sealed_put(struct rmpp_sealed *sealed)
{
	if (sealed && !--sealed->holders)
		sealed->release(sealed);
}

/* ---- sending ---- */

struct rmpp_sender {
	const uint8_t *message;		/* the caller's, until it is over */
	const uint8_t *head;		/* likewise: its header, up to the offset; the message itself or not */
	struct rmpp_sealed *sealed;	/* where the message is, if that is one: receivers may keep it; or NULL */
	size_t bytes;
	unsigned offset;		/* of the data in a MAD */
	uint32_t segments, sent, acknowledged, window;
};

/* @bytes: at least the offset. The header is the message's, and this is no sealed one; both may be set then. */
void rmpp_send_begin(struct rmpp_sender *sender, const uint8_t *message, size_t bytes,
		     unsigned offset);
/* The next segment that the window allows. False: an ACK has to come before. */
bool rmpp_send_next(struct rmpp_sender *sender, uint8_t mad[MAD_BYTES]);
/*
 * Segments one behind the other, from a number on, on their way together. That they were one at a time no
 * receiver can tell: none of them is the last of the message, or of those that the window allows.
 */
struct rmpp_train {
	const struct rmpp_sender *sender;
	uint32_t first, count;
};
/* The next ones that may go so, at most @most. False: there are not enough to be worth it. */
bool rmpp_send_train(const struct rmpp_sender *sender, uint32_t most, struct rmpp_train *train);
/* They went. */
void rmpp_send_departed(struct rmpp_sender *sender, const struct rmpp_train *train);
/* No ACK came in time: from the first segment on that is not acknowledged. */
void rmpp_send_again(struct rmpp_sender *sender);
static inline bool rmpp_send_is_over(const struct rmpp_sender *sender)
{
	return sender->acknowledged == sender->segments;
}
/* An ACK, a STOP or an ABORT. */
enum rmpp_result rmpp_send_input(struct rmpp_sender *sender, const uint8_t mad[MAD_BYTES],
				 uint8_t answer[MAD_BYTES]);

/* ---- receiving ---- */

/*
 * From a sender with a sealed message nothing is copied as long as what comes is what is there: `message` then has
 * the first MAD alone, and is whole again when something else comes.
 */
struct rmpp_receiver {
	uint8_t *message;		/* of `room` bytes; NULL: nothing so far, or it was taken */
	struct rmpp_sealed *sealed;	/* the rest of it; or NULL */
	size_t room, announced;		/* announced: what the first segment says of all, if it is true */
	unsigned offset;
	uint32_t last;			/* the number of the last one; 0: it has not come */
	uint32_t last_length;		/* its PayloadLength */
	uint32_t received, window;	/* up to which there is no hole; which may come */
	uint64_t ahead;			/* those within the window that came before their turn */
	bool complete;
};

void rmpp_receive_begin(struct rmpp_receiver *receiver, unsigned offset);
void rmpp_receive_end(struct rmpp_receiver *receiver);
/* A DATA. Of a message that is complete, its segments are acknowledged again. */
enum rmpp_result rmpp_receive_input(struct rmpp_receiver *receiver, const uint8_t mad[MAD_BYTES],
				    uint8_t answer[MAD_BYTES]);
/* The memory that it has then, as below; 0: it does not take them together, but one by one. */
size_t rmpp_receive_train_memory(const struct rmpp_receiver *receiver, const struct rmpp_train *train);
/* As many calls of rmpp_receive_input(), of which each says that there is nothing to do. False: no memory. */
bool rmpp_receive_train(struct rmpp_receiver *receiver, const struct rmpp_train *train);
/* That it keeps from others. */
static inline size_t rmpp_receive_memory(const struct rmpp_receiver *receiver)
{
	return receiver->room + (receiver->sealed ? receiver->sealed->bytes : 0);
}
/* Of a message that is complete. */
size_t rmpp_receive_bytes(const struct rmpp_receiver *receiver);

#endif
