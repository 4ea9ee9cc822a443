/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long messages that programs have sent (ib/parcel.h), as the agents hold them: the sender's memory file, mapped,
 * which a receiver is given in its turn. A file that had better not be touched, or one more than SEALED_FILES of
 * them, is read and closed, so that nobody takes the descriptors of others by messages that are not acknowledged.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fabric/rmpp.h"
#include "fabric/visitor.h"
#include "ib/parcel.h"

#define SEALED_FILES	32u

struct sealed {
	struct rmpp_sealed of;
	struct room *room;
	int file;			/* -1: the memory is a copy */
	uint8_t *memory;		/* header and MAD */
	size_t bytes;
};

void sealed_close_later(struct room *room, int file)
{
	if (room->closing)
		close(room->closing - 1);
	room->closing = file + 1;
}

static void sealed_release(struct rmpp_sealed *of)
{
	struct sealed *sealed = container_of(of, struct sealed, of);

	if (sealed->file >= 0) {
		munmap(sealed->memory, sealed->bytes);
		sealed_close_later(sealed->room, sealed->file);
		sealed->room->sealed_files--;
	} else {
		free(sealed->memory);
	}
	free(sealed);
}

struct rmpp_sealed *sealed_open(struct room *room, const uint8_t *first, size_t bytes, int *file)
{
	struct sealed *sealed = malloc(sizeof(*sealed));
	void *memory;

	if (!sealed)
		return NULL;
	*sealed = (struct sealed){ .of = { .bytes = bytes - sizeof(struct agent_header), .holders = 1,
					   .release = sealed_release },
				   .room = room, .file = -1, .bytes = bytes };
	if (room->sealed_files < SEALED_FILES && !parcel_map(*file, bytes, &memory)) {
		room->sealed_files++;
		sealed->file = *file;
		*file = -1;
	} else {
		memory = malloc(bytes);
		if (!memory || parcel_read(*file, memory, bytes)) {
			free(memory);
			free(sealed);
			return NULL;
		}
		memcpy(memory, first, PARCEL_HEAD);
	}
	sealed->memory = memory;
	sealed->of.message = sealed->memory + sizeof(struct agent_header);
	return &sealed->of;
}

int sealed_file(const struct rmpp_sealed *of)
{
	return container_of(of, const struct sealed, of)->file;
}
