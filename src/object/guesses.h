/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Keys that a peer names and may not use. RC stops at the first one that a packet names; a peer that
 * is told nothing (UC), asks instead (local/move/pairing.c), or names them in messages, which are refused,
 * could try all of them in minutes. So there are GUESSES_MAX a second, of messages altogether.
 */
#ifndef VERBATIM_OBJECT_GUESSES_H
#define VERBATIM_OBJECT_GUESSES_H

#include <stdbool.h>

#include "object/qp_transport.h"

#define GUESSES_MAX	16u
#define GUESSES_NS	1000000000u

/* True: there were as many as there may be. */
static inline bool guesses_are_used_up(const struct guesses *guesses, uint64_t now_ns)
{
	return guesses->count >= GUESSES_MAX && now_ns - guesses->since_ns <= GUESSES_NS;
}

/* Another one. True: it is one too many. */
static inline bool guesses_add(struct guesses *guesses, uint64_t now_ns)
{
	bool used_up = guesses_are_used_up(guesses, now_ns);

	if (now_ns - guesses->since_ns > GUESSES_NS)
		*guesses = (struct guesses){ .since_ns = now_ns };
	guesses->count++;
	return used_up;
}

#endif
