/* SPDX-License-Identifier: BSD-2-Clause */
/* The word that somebody may have meant who wrote another. */
#include "base/nearest.h"

#include <limits.h>
#include <string.h>

int edit_distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	int row[3][NEAREST_WORD_MAX + 1];

	if (a_length > NEAREST_WORD_MAX || b_length > NEAREST_WORD_MAX)
		return INT_MAX;
	for (size_t j = 0; j <= b_length; j++)
		row[0][j] = (int)j;
	for (size_t i = 1; i <= a_length; i++) {
		int *now = row[i % 3], *before = row[(i + 2) % 3], *swapped = row[(i + 1) % 3];

		now[0] = (int)i;
		for (size_t j = 1; j <= b_length; j++) {
			int best = before[j - 1] + (a[i - 1] != b[j - 1]);

			if (before[j] + 1 < best)
				best = before[j] + 1;
			if (now[j - 1] + 1 < best)
				best = now[j - 1] + 1;
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    swapped[j - 2] + 1 < best)
				best = swapped[j - 2] + 1;
			now[j] = best;
		}
	}
	return row[a_length % 3][b_length];
}

struct nearest_word nearest_begin(const char *word)
{
	/* One letter may be wrong, of each four one more. */
	int length = (int)strnlen(word, NEAREST_WORD_MAX);

	return (struct nearest_word){ .word = word, .distance = 2 + length / 4 };
}

/* The first of those that are equally near; a word that begins with ours is near, too. */
void nearest_offer(struct nearest_word *nearest, const char *candidate)
{
	size_t length = strlen(nearest->word);
	int distance = edit_distance(nearest->word, length, candidate, strlen(candidate));

	if (length >= 3 && !strncmp(nearest->word, candidate, length))
		distance = 1;
	if (distance >= (int)strlen(candidate) || distance >= nearest->distance)
		return;
	nearest->distance = distance;
	nearest->best = candidate;
}
