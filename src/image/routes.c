/* SPDX-License-Identifier: BSD-2-Clause */
/* Walked routes by what decides them: routes.h. One that is refused is kept, too. */
#include "image/routes.h"

#include <string.h>

#define LID_GROUP	0xc000u

bool image_routes_open(struct image_routes *routes, const void *image, size_t bytes,
		       struct tally *tally)
{
	memset(routes, 0, sizeof(*routes));
	routes->tally = tally;
	return image_open(&routes->image, image, bytes);
}

void image_routes_forget(struct image_routes *routes)
{
	memset(routes->row, 0, sizeof(routes->row));
	routes->full = false;
}

static struct image_route *route_row(struct image_routes *routes,
				     const struct image_question *question)
{
	uint32_t hash = question->port * 16777619u ^ question->dlid;

	hash = (hash * 16777619u ^ question->slid) * 16777619u ^ question->pkey;
	hash = hash * 16777619u ^ question->sl;
	return &routes->row[(hash ^ hash >> 15) % IMAGE_ROUTES];
}

static void route_walk(struct image_routes *routes, const struct image_question *question,
		       struct image_route *row)
{
	struct image_path path;
	bool good = image_walk(&routes->image, question, &path) && path.ends == 1;

	*row = (struct image_route){ .question = *question, .epoch = path.epoch, .walked = true,
				     .good = good, .vl = path.vl };
	if (!good)
		return;
	row->end = path.end[0];
	row->host = image_host(&routes->image, row->end);
	if (!path.crossings)
		return;
	row->entry = tally_find(routes->tally, &path, false);
	if (!row->entry) {
		routes->full = true;
		row->good = false;
	}
}

const struct image_route *image_route_find(struct image_routes *routes,
					   const struct image_question *question)
{
	struct image_route *row = route_row(routes, question);
	const struct image_question *asked = &row->question;
	bool same;

	if (question->dlid >= LID_GROUP)
		return NULL;
	same = row->walked && row->epoch == image_epoch(&routes->image) &&
	       asked->port == question->port && asked->slid == question->slid &&
	       asked->dlid == question->dlid && asked->pkey == question->pkey && asked->sl == question->sl;
	/* More is refused where less was, and less goes where more did. */
	if (!same || (row->good ? question->payload > asked->payload : question->payload < asked->payload))
		route_walk(routes, question, row);
	return row->good ? row : NULL;
}
