/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The routes that a program has walked: of a packet like one before, as long as the epoch is the
 * same, it takes a look at the epoch and at one row. Who asks takes turns with others.
 */
#ifndef VERBATIM_IMAGE_ROUTES_H
#define VERBATIM_IMAGE_ROUTES_H

#include "image/image.h"
#include "image/tally.h"

#define IMAGE_ROUTES		256u

struct image_route {
	struct image_question question;	/* payload: of what was walked; less goes the same way */
	uint32_t epoch;
	bool walked, good;
	uint8_t vl;
	uint32_t end, host;		/* the port where it arrives, and whose it is */
	struct tally_entry *entry;	/* NULL: it crosses no cable */
};

struct image_routes {
	struct image image;
	struct tally *tally;
	bool full;			/* the tally is: FOLD, then image_routes_forget() */
	struct image_route row[IMAGE_ROUTES];
};

/* False: these bytes are no image. */
bool image_routes_open(struct image_routes *routes, const void *image, size_t bytes,
		       struct tally *tally);
/* All entries of the tally have been given back. */
void image_routes_forget(struct image_routes *routes);
/* NULL: by the fabric's process, as all that is for a group. Until the next call. */
const struct image_route *image_route_find(struct image_routes *routes,
					   const struct image_question *question);
/* So many packets have gone that way; @bytes: of all, LRH to ICRC. */
static inline void image_route_count(const struct image_route *route, unsigned packets, size_t bytes)
{
	if (route->entry)
		tally_count(route->entry, packets, bytes);
}

#endif
