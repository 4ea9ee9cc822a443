/* SPDX-License-Identifier: BSD-2-Clause */
/* The word that somebody may have meant who wrote another. Nothing is allocated. */
#ifndef VERBATIM_BASE_NEAREST_H
#define VERBATIM_BASE_NEAREST_H

#include <stddef.h>

enum { NEAREST_WORD_MAX = 128 };

/* Letters to insert, delete, replace or swap with a neighbour; INT_MAX for words over NEAREST_WORD_MAX. */
int edit_distance(const char *a, size_t a_length, const char *b, size_t b_length);

struct nearest_word {
	const char *word, *best;	/* best: NULL while nothing is near enough */
	int distance;
};

struct nearest_word nearest_begin(const char *word);
void nearest_offer(struct nearest_word *nearest, const char *candidate);

#endif
