/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For scripts: two hosts, one conversation between them, and a rule that drops packets picked by
 * what they are. A script plans messages, says what goes wrong, runs, and asserts.
 */
#ifndef VERBATIM_SIM_SCENE_H
#define VERBATIM_SIM_SCENE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "talk.h"

#define DROPS_MAX 8u

/* Drops occurrences @from .. @from + @count - 1 of packets with that opcode. */
struct planned_drop {
	enum opcode_number code;
	unsigned from, count;
	unsigned seen;
};

struct scene {
	struct sim *sim;
	struct sim_host *a, *b;
	struct talk *talk;
	struct side *left, *right;
	struct planned_drop drop[DROPS_MAX];
	unsigned drops;
	unsigned sent[256];		/* packets by opcode */
	void (*on_packet)(struct flight *flight, struct scene *scene);
};

static inline struct talk_options scene_options(enum ibv_qp_type type)
{
	return (struct talk_options){ .type = type, .connect = connect_defaults() };
}

static inline void scene_rule(struct flight *flight, void *argument)
{
	struct scene *scene = argument;
	unsigned i;

	scene->sent[flight->packet.op->code]++;
	for (i = 0; i < scene->drops; i++) {
		struct planned_drop *drop = &scene->drop[i];

		if (drop->code != flight->packet.op->code)
			continue;
		flight->drop |= drop->seen >= drop->from && drop->seen < drop->from + drop->count;
		drop->seen++;
	}
	if (scene->on_packet)
		scene->on_packet(flight, scene);
}

static inline void scene_begin(struct scene *scene, const struct talk_options *options)
{
	memset(scene, 0, sizeof(*scene));
	scene->sim = sim_create(7);
	scene->a = host_create(scene->sim);
	scene->b = host_create(scene->sim);
	scene->sim->rule = scene_rule;
	scene->sim->rule_argument = scene;
	scene->talk = talk_create(scene->a, scene->b, options);
	scene->left = &scene->talk->side[0];
	scene->right = &scene->talk->side[1];
}

static inline void scene_drop(struct scene *scene, enum opcode_number code, unsigned from,
			      unsigned count)
{
	scene->drop[scene->drops++] = (struct planned_drop){ .code = code, .from = from, .count = count };
}

static inline void scene_run(struct scene *scene)
{
	if (!talk_run(scene->talk))
		fail_msg("%s", scene->sim->failure);
}

static inline void scene_end(struct scene *scene)
{
	talk_destroy(scene->talk);
	if (scene->sim->failed)
		fail_msg("%s", scene->sim->failure);
	sim_destroy(scene->sim);
}

/* Since the scene began. */
static inline double scene_ms(const struct scene *scene)
{
	return (double)(scene->sim->now_ns - SECOND) / 1e6;
}

static inline uint64_t counted(const struct sim_host *host, enum counter counter)
{
	return counter_get(host->counters, counter);
}

#endif
