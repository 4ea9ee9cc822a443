/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers and texts of large pages, compressed. */
#ifndef VERBATIM_TOOLS_LADDER_PACK_H
#define VERBATIM_TOOLS_LADDER_PACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* All zeros: empty. What finds no memory is told by pack_write(). */
struct pack {
	uint8_t *data;
	size_t bytes, room;
	int64_t before;		/* number of this column */
	bool failed;
};

void pack_bytes(struct pack *pack, const void *data, size_t bytes);
/* As the difference from the one before. */
void pack_number(struct pack *pack, int64_t value);
/* As it is; @list: 0 to 3. */
void pack_step(struct pack *pack, int64_t step, unsigned list);
/* NULL is told apart from "". */
void pack_text(struct pack *pack, const char *text, size_t bytes);
/* As [bytes, "base64"], and empties it. 0 or ENOMEM. */
int pack_write(struct pack *pack, FILE *out);
void pack_free(struct pack *pack);

#endif
