/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recipes. A maker declares cables between nodes, by kind and number, in any order; then the text
 * is written: switches first, each with its ports in order, so that the file of a subnet is the
 * same in each run.
 */
#include "fabric/make.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/internal.h"

#define OPTIONS_MAX	8u
#define DIMENSIONS_MAX	6u

struct made_node {
	char id[32];
	unsigned ports, used;		/* declared (0: as many as are used), cabled */
	bool is_switch;
};

struct made_cable {
	uint32_t a, b;
	unsigned a_port, b_port;
};

struct maker {
	struct fabric_errors *errors;
	struct made_node *node;
	uint32_t nodes, nodes_room;
	struct made_cable *cable;
	size_t cables, cables_room;
	bool no_memory;
	/* the recipe */
	struct { char name[12]; unsigned value; bool used; } option[OPTIONS_MAX];
	unsigned options, dimension[DIMENSIONS_MAX], dimensions;
	char rate[12];
};

static uint32_t make_node(struct maker *maker, bool is_switch, unsigned ports, const char *format,
			  unsigned number)
{
	struct made_node *node;

	if (maker->nodes == maker->nodes_room) {
		uint32_t room = maker->nodes_room ? 2 * maker->nodes_room : 64;
		struct made_node *bigger = realloc(maker->node, room * sizeof(*bigger));

		if (!bigger) {
			maker->no_memory = true;
			return 0;
		}
		maker->node = bigger;
		maker->nodes_room = room;
	}
	node = &maker->node[maker->nodes];
	*node = (struct made_node){ .ports = ports, .is_switch = is_switch };
	snprintf(node->id, sizeof(node->id), format, number);
	return maker->nodes++;
}

static void make_cable(struct maker *maker, uint32_t a, uint32_t b)
{
	if (maker->no_memory)
		return;
	if (maker->cables == maker->cables_room) {
		size_t room = maker->cables_room ? 2 * maker->cables_room : 256;
		struct made_cable *bigger = realloc(maker->cable, room * sizeof(*bigger));

		if (!bigger) {
			maker->no_memory = true;
			return;
		}
		maker->cable = bigger;
		maker->cables_room = room;
	}
	maker->cable[maker->cables++] = (struct made_cable){
		a, b, ++maker->node[a].used, ++maker->node[b].used };
}

/* The next hosts on a switch. */
static void make_hosts(struct maker *maker, uint32_t on, unsigned hosts, unsigned *number)
{
	for (unsigned i = 0; i < hosts; i++)
		make_cable(maker, on, make_node(maker, false, 1, "host%u", ++*number));
}

static unsigned make_option(struct maker *maker, const char *name, unsigned otherwise,
			    unsigned least, unsigned most)
{
	for (unsigned i = 0; i < maker->options; i++) {
		if (strcmp(maker->option[i].name, name))
			continue;
		maker->option[i].used = true;
		if (maker->option[i].value >= least && maker->option[i].value <= most)
			return maker->option[i].value;
		fabric_error_add(maker->errors, 0, "%s=%u: give a number from %u to %u", name,
				 maker->option[i].value, least, most);
	}
	return otherwise;
}

/* ---- the recipes ---- */

static void make_pair(struct maker *maker)
{
	uint32_t first = make_node(maker, false, 1, "host%u", 1);

	make_cable(maker, first, make_node(maker, false, 1, "host%u", 2));
}

static void make_star(struct maker *maker)
{
	unsigned hosts = make_option(maker, "hosts", 8, 1, PORTS_MAX), number = 0;

	make_hosts(maker, make_node(maker, true, hosts, "sw%u", 1), hosts, &number);
}

/* Switches in a grid whose ends meet; of a dimension of 2 there is one cable, not two. */
static void make_grid(struct maker *maker, unsigned hosts)
{
	unsigned switches = 1, number = 0, stride = 1;

	for (unsigned d = 0; d < maker->dimensions; d++)
		switches *= maker->dimension[d];
	for (unsigned i = 0; i < switches; i++)
		make_node(maker, true, 0, "sw%u", i + 1);
	for (unsigned d = 0; d < maker->dimensions; stride *= maker->dimension[d++])
		for (unsigned i = 0; i < switches; i++) {
			unsigned along = i / stride % maker->dimension[d];
			bool last = along + 1 == maker->dimension[d];

			if (maker->dimension[d] > 1 && !(last && maker->dimension[d] == 2))
				make_cable(maker, i, last ? i - along * stride : i + stride);
		}
	for (unsigned i = 0; i < switches; i++)
		make_hosts(maker, i, hosts, &number);
}

static void make_ring(struct maker *maker)
{
	maker->dimensions = 1;
	maker->dimension[0] = make_option(maker, "switches", 6, 2, 1000);
	make_grid(maker, make_option(maker, "hosts", 2, 0, 200));
}

static void make_torus(struct maker *maker)
{
	static const unsigned usual[] = { 4, 4, 2 };
	uint64_t switches = 1;

	if (!maker->dimensions) {
		maker->dimensions = 3;
		memcpy(maker->dimension, usual, sizeof(usual));
	}
	for (unsigned d = 0; d < maker->dimensions; d++)
		switches *= maker->dimension[d];
	if (switches > MAKE_SWITCHES_MAX) {
		fabric_error_add(maker->errors, 0, "%llu switches; at most %u",
				 (unsigned long long)switches, MAKE_SWITCHES_MAX);
		return;
	}
	make_grid(maker, make_option(maker, "hosts", 1, 0, 200));
}

static void make_fattree(struct maker *maker)
{
	unsigned leaves = make_option(maker, "leaves", 12, 1, PORTS_MAX);
	unsigned spines = make_option(maker, "spines", 8, 1, PORTS_MAX);
	unsigned hosts = make_option(maker, "hosts", 12, 0, PORTS_MAX);
	unsigned cables = make_option(maker, "cables", 1, 1, 64), number = 0;

	if (hosts + spines * cables > PORTS_MAX || leaves * cables > PORTS_MAX) {
		fabric_error_add(maker->errors, 0,
				 "a leaf would have %u ports and a spine %u; at most %u",
				 hosts + spines * cables, leaves * cables, PORTS_MAX);
		return;
	}
	for (unsigned i = 0; i < leaves; i++)
		make_node(maker, true, 0, "leaf%u", i + 1);
	for (unsigned i = 0; i < spines; i++)
		make_node(maker, true, 0, "spine%u", i + 1);
	for (unsigned leaf = 0; leaf < leaves; leaf++)	/* hosts have the first ports */
		make_hosts(maker, leaf, hosts, &number);
	for (unsigned leaf = 0; leaf < leaves; leaf++)
		for (unsigned i = 0; i < spines * cables; i++)
			make_cable(maker, leaf, leaves + i / cables);
}

/*
 * A fat tree of three levels: a pod has radix/2 leaves with radix/2 hosts each, and radix/2
 * switches above them; radix/2 times radix/2 cores, of which each is cabled to one switch in each
 * pod.
 */
static void make_clos(struct maker *maker)
{
	unsigned radix = make_option(maker, "radix", 36, 2, PORTS_MAX), half = radix / 2;
	unsigned hosts = make_option(maker, "hosts", half * half * 2, 1, MAKE_HOSTS_MAX);
	unsigned pods = (hosts + half * half - 1) / (half * half), number = 0;
	uint32_t first_core;

	if (radix % 2 || pods > radix) {
		fabric_error_add(maker->errors, 0, radix % 2 ? "radix=%u: give an even number" :
				 "radix=%u: for so many hosts switches need more ports", radix);
		return;
	}
	if (pods * radix + half * half > MAKE_SWITCHES_MAX) {
		fabric_error_add(maker->errors, 0, "%u switches; at most %u",
				 pods * radix + half * half, MAKE_SWITCHES_MAX);
		return;
	}
	for (unsigned i = 0; i < pods * half; i++)
		make_node(maker, true, radix, "leaf%u", i + 1);
	for (unsigned i = 0; i < pods * half; i++)
		make_node(maker, true, radix, "spine%u", i + 1);
	first_core = maker->nodes;
	for (unsigned i = 0; i < half * half; i++)
		make_node(maker, true, radix, "core%u", i + 1);
	for (unsigned leaf = 0; leaf < pods * half; leaf++) {
		unsigned left = hosts - number;

		make_hosts(maker, leaf, left < half ? left : half, &number);
		for (unsigned i = 0; i < half; i++)
			make_cable(maker, leaf, pods * half + leaf / half * half + i);
	}
	for (unsigned spine = 0; spine < pods * half; spine++)
		for (unsigned i = 0; i < half; i++)
			make_cable(maker, pods * half + spine,
				   first_core + spine % half * half + i);
}

/* In a group each switch has a cable to each other; each pair of groups has as many cables as there
 * are for it. */
static void make_dragonfly(struct maker *maker)
{
	unsigned groups = make_option(maker, "groups", 9, 2, 1000);
	unsigned switches = make_option(maker, "switches", 4, 1, 200);
	unsigned hosts = make_option(maker, "hosts", 2, 0, 200);
	unsigned global = make_option(maker, "global", 2, 1, 200), number = 0, between;

	if (hosts + switches - 1 + global > PORTS_MAX || groups * switches > MAKE_SWITCHES_MAX) {
		fabric_error_add(maker->errors, 0, "%u switches of %u ports; at most %u of %u",
				 groups * switches, hosts + switches - 1 + global,
				 MAKE_SWITCHES_MAX, PORTS_MAX);
		return;
	}
	between = switches * global / (groups - 1);
	if (!between) {
		fabric_error_add(maker->errors, 0,
				 "%u global cables of a group do not reach %u others; raise "
				 "switches or global",
				 switches * global, groups - 1);
		return;
	}
	for (unsigned i = 0; i < groups * switches; i++)
		make_node(maker, true, 0, "sw%u", i + 1);
	for (unsigned i = 0; i < groups * switches; i++) {
		make_hosts(maker, i, hosts, &number);
		for (unsigned j = i % switches + 1; j < switches; j++)
			make_cable(maker, i, i - i % switches + j);
	}
	/* The k-th cable of a group leaves from its k-th switch, around. */
	for (unsigned a = 0; a < groups; a++)
		for (unsigned b = a + 1; b < groups; b++)
			for (unsigned i = 0; i < between; i++)
				make_cable(maker, a * switches + ((b - 1) * between + i) % switches,
					   b * switches + (a * between + i) % switches);
}

/* ---- words of a recipe ---- */

static bool make_read_dimensions(struct maker *maker, const char *word)
{
	char *end;

	for (maker->dimensions = 0; maker->dimensions < DIMENSIONS_MAX; word = end + 1) {
		unsigned long value = strtoul(word, &end, 10);

		if (end == word || !value || value > 1000)
			return false;
		maker->dimension[maker->dimensions++] = (unsigned)value;
		if (!*end)
			return true;
		if (*end != 'x')
			return false;
	}
	return false;
}

static void make_read_word(struct maker *maker, const char *word, char *speed, char *width)
{
	const char *value = strchr(word, '=');
	size_t bytes = value ? (size_t)(value - word) : 0;
	char *end;

	if (!value && make_read_dimensions(maker, word))
		return;
	if (!strncmp(word, "speed=", 6) && strlen(word) < 11) {
		strcpy(speed, word + 6);
		return;
	}
	if (!strncmp(word, "width=", 6) && strlen(word) < 10) {
		strcpy(width, word + 6);
		return;
	}
	if (!bytes || bytes > 11 || maker->options == OPTIONS_MAX) {
		fabric_error_add(maker->errors, 0, "\"%.30s\": write name=number", word);
		return;
	}
	memcpy(maker->option[maker->options].name, word, bytes);
	errno = 0;
	maker->option[maker->options].value = (unsigned)strtoul(value + 1, &end, 10);
	if (end == value + 1 || *end || errno || strlen(value) > 8)
		fabric_error_add(maker->errors, 0, "\"%.30s\": write name=number", word);
	maker->options++;
}

static const struct {
	const char *name;
	void (*make)(struct maker *);
} recipes[] = {
	{"pair", make_pair},	       {"star", make_star},	  {"ring", make_ring},
	{"torus", make_torus},	       {"fattree", make_fattree}, {"clos", make_clos},
	{"dragonfly", make_dragonfly},
};

static void make_read(struct maker *maker, const char *recipe)
{
	char speed[8] = "EDR", width[8] = "4x", *copy = strdup(recipe), *rest = copy, *word,
	     *kind = NULL;
	unsigned i = 0;

	if (!copy) {
		maker->no_memory = true;
		return;
	}
	while ((word = strsep(&rest, " \t"))) {
		if (*word && !kind)
			kind = word;
		else if (*word)
			make_read_word(maker, word, speed, width);
	}
	while (kind && i < sizeof(recipes) / sizeof(*recipes) && strcmp(recipes[i].name, kind))
		i++;
	if (!kind || i == sizeof(recipes) / sizeof(*recipes))
		fabric_error_add(maker->errors, 0,
				 "\"%.20s\" is no recipe; there are pair, star, ring, torus, "
				 "fattree, clos, dragonfly",
				 kind ? kind : "");
	else if (!maker->errors->count)
		recipes[i].make(maker);
	snprintf(maker->rate, sizeof(maker->rate), "%.4s%.4s", width, speed);
	for (unsigned j = 0; j < maker->options; j++)
		if (!maker->option[j].used && !maker->errors->count)
			fabric_error_add(
				maker->errors, 0,
				"%s has no %s=; make.h and verbatim-fabric(1) list what it has",
				kind, maker->option[j].name);
	free(copy);
}

/* ---- the text ---- */

static void make_write(const struct maker *maker, FILE *out)
{
	size_t *first = calloc(maker->nodes + 1, sizeof(*first)), *sorted;
	size_t ends = 2 * maker->cables;

	sorted = calloc(ends + 1, sizeof(*sorted));
	/* Ends by node, in the order in which they were made, which is that of the ports: counted,
	 * then placed. */
	for (size_t i = 0; first && sorted && i < ends; i++)
		first[i % 2 ? maker->cable[i / 2].b : maker->cable[i / 2].a]++;
	for (uint32_t i = 0, sum = 0; first && sorted && i <= maker->nodes; i++) {
		uint32_t count = (uint32_t)first[i];

		first[i] = sum;
		sum += count;
	}
	for (size_t i = 0; first && sorted && i < ends; i++)
		sorted[first[i % 2 ? maker->cable[i / 2].b : maker->cable[i / 2].a]++] = i;
	for (uint32_t i = 0, at = 0; first && sorted && i < maker->nodes; i++) {
		const struct made_node *node = &maker->node[i];
		unsigned ports = node->ports > node->used ? node->ports : node->used;

		fprintf(out, "\n%s %u \"%s\"\n", node->is_switch ? "Switch" : "Ca",
			ports ? ports : 1, node->id);
		for (; at < first[i]; at++) {
			const struct made_cable *cable = &maker->cable[sorted[at] / 2];
			bool second = sorted[at] % 2;

			fprintf(out, "[%u] \"%s\"[%u]\t# %s\n",
				second ? cable->b_port : cable->a_port,
				maker->node[second ? cable->a : cable->b].id,
				second ? cable->a_port : cable->b_port, maker->rate);
		}
	}
	free(first);
	free(sorted);
}

char *fabric_make(const char *recipe, struct fabric_errors *errors)
{
	struct maker maker = { .errors = errors };
	char *text = NULL;
	size_t bytes;
	FILE *out;

	*errors = (struct fabric_errors){ 0 };
	make_read(&maker, recipe);
	if (!errors->count && !maker.no_memory) {
		out = open_memstream(&text, &bytes);
		if (out) {
			fprintf(out, "# verbatim fabric --make %s\n", recipe);
			make_write(&maker, out);
			if (fclose(out)) {
				free(text);
				text = NULL;
			}
		}
	}
	free(maker.node);
	free(maker.cable);
	return text;
}
