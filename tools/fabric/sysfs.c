/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Files that programs read of InfiniBand devices: the table sysfs.def, and those of a port's
 * tables. A path is what stands behind /sys/class/:
 *
 *	infiniband/vb_ib0/ports/1/state		.../ports/1/{pkeys,gids,gid_attrs/types}/0
 *	.../ports/1/counters/symbol_error
 *	infiniband_mad/abi_version		infiniband_mad/{umad,issm}0/{ibdev,port}
 */
#include "fabric/room.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/text.h"

#define TEXT_BYTES	64
#define COMPONENTS	8
#define UMAD_ABI	5

static const char *const states[] = { "NOP", "DOWN", "INIT", "ARMED", "ACTIVE" };
static const char *const phys_states[] = {
	"<unknown>",	    "Sleep", "Polling", "Disabled", "PortConfigurationTraining", "LinkUp",
	"LinkErrorRecovery"
};

#define name_of(names, number) \
	((number) < sizeof(names) / sizeof((names)[0]) ? (names)[number] : "<unknown>")

static const char *guid_text(uint64_t guid, char text[TEXT_BYTES])
{
	snprintf(text, TEXT_BYTES, "%04x:%04x:%04x:%04x", (unsigned)(guid >> 48),
		 (unsigned)(guid >> 32) & 0xffff, (unsigned)(guid >> 16) & 0xffff,
		 (unsigned)guid & 0xffff);
	return text;
}

/* "100 Gb/sec (4X EDR)", "2.5 Gb/sec (1X)" */
static const char *rate_text(const struct ctl_port *port, char text[TEXT_BYTES])
{
	snprintf(text, TEXT_BYTES, "%u%s Gb/sec (%uX%s%s)", port->rate_mbps / 1000,
		 port->rate_mbps % 1000 ? ".5" : "", port->lanes, *port->speed ? " " : "",
		 port->speed);
	return text;
}

/* False: there is no such file. */
static bool write_node(const struct ctl_port *port, const char *name, FILE *out)
{
	char text[TEXT_BYTES] = "";

	(void)text;
#define NODE(file, ...) if (!strcmp(name, file)) { fprintf(out, __VA_ARGS__); return true; }
#define PORT(file, ...)
#define COUNTER(file, counter, bits)
#include "fabric/sysfs.def"
	return false;
}

static bool write_port(const struct ctl_port *port, const char *name, FILE *out)
{
	char text[TEXT_BYTES] = "";

	(void)text;
#define NODE(file, ...)
#define PORT(file, ...) if (!strcmp(name, file)) { fprintf(out, __VA_ARGS__); return true; }
#define COUNTER(file, counter, bits)
#include "fabric/sysfs.def"
	return false;
}

static const char *const node_files[] = {
#define NODE(file, ...) file,
#define PORT(file, ...)
#define COUNTER(file, counter, bits)
#include "fabric/sysfs.def"
	"ports/", NULL,
};

static const char *const port_files[] = {
#define NODE(file, ...)
#define PORT(file, ...) file,
#define COUNTER(file, counter, bits)
#include "fabric/sysfs.def"
	"pkeys/", "gids/", "gid_attrs/", "counters/", NULL,
};

static const struct counter_file {
	const char *file, *counter;
	unsigned bits;
} counter_files[] = {
#define NODE(file, ...)
#define PORT(file, ...)
#define COUNTER(file, counter, bits) { file, counter, bits },
#include "fabric/sysfs.def"
};
#define COUNTER_FILES (sizeof(counter_files) / sizeof(*counter_files))

static int list_names(const char *const *name, FILE *out)
{
	for (; *name; name++)
		fprintf(out, "%s\n", *name);
	return 0;
}

/* ---- one port ---- */

struct lookup {
	const struct room *room;
	const char *component[COMPONENTS];
	int count;
	FILE *out;
	bool directory, found;
	char last[CTL_DEVICE_MAX];
};

static bool write_gid(const struct lookup *lookup, uint32_t node, uint32_t port, unsigned index)
{
	uint8_t gid[16];

	if (!fabric_gid(lookup->room->fabric, node, port, index, gid))
		return false;
	for (unsigned i = 0; i < 8; i++)
		fprintf(lookup->out, "%04x%s", get_be16(gid + 2 * i), i < 7 ? ":" : "");
	return true;
}

/* The tables behind ports/NUMBER: component[0] is the table's name. */
static bool look_table(struct lookup *lookup, const struct ctl_port *port, uint32_t node,
		       const char *const *component, int count)
{
	bool types = !strcmp(component[0], "gid_attrs"), pkeys = !strcmp(component[0], "pkeys");
	struct fabric_port_info info;
	unsigned entries;
	uint64_t index;

	if (!types && !pkeys && strcmp(component[0], "gids"))
		return false;
	if (types) {
		component++;
		count--;
		if (!count) {
			lookup->directory = true;
			fputs("types/\n", lookup->out);
			return true;
		}
		if (strcmp(component[0], "types"))
			return false;
	}
	fabric_port_info(lookup->room->fabric, node, port->number, &info);
	entries = pkeys ? info.pkeys : info.gids;
	if (count == 1) {
		lookup->directory = true;
		for (unsigned i = 0; i < entries; i++)
			fprintf(lookup->out, "%u\n", i);
		return true;
	}
	if (count != 2 || !entries || !text_number(component[1], 0, entries - 1, &index))
		return false;
	if (pkeys)
		fprintf(lookup->out, "0x%04x",
			fabric_pkey(lookup->room->fabric, node, port->number, (unsigned)index));
	else if (types)
		fputs("IB/RoCE v1", lookup->out);
	else
		return write_gid(lookup, node, port->number, (unsigned)index);
	return true;
}

/* counters/NAME of a port. */
static bool look_counter(struct lookup *lookup, uint32_t node, uint32_t port, const char *name)
{
	uint64_t value, per_second;

	for (unsigned i = 0; i < COUNTER_FILES; i++) {
		const struct counter_file *row = &counter_files[i];

		if (!name)
			fprintf(lookup->out, "%s\n", row->file);
		if (!name || strcmp(name, row->file))
			continue;
		fabric_counter(lookup->room->fabric, node, port, fabric_find_counter(row->counter),
			       lookup->room->now_us, &value, &per_second);
		if (row->bits < 64 && value >> row->bits)
			value = (UINT64_C(1) << row->bits) - 1;
		fprintf(lookup->out, "%llu", (unsigned long long)value);
		return true;
	}
	lookup->directory = !name;
	return !name;
}

static bool look_device(struct lookup *lookup, const struct ctl_port *port, uint32_t node)
{
	const char *const *component = lookup->component + 2;
	int count = lookup->count - 2;
	uint64_t number;

	if (!count) {
		lookup->directory = true;
		return !list_names(node_files, lookup->out);
	}
	if (strcmp(component[0], "ports"))
		return count == 1 && write_node(port, component[0], lookup->out);
	if (count == 1) {
		lookup->directory = true;
		for (uint32_t i = port->node_type == FABRIC_SWITCH ? 0 : 1;
		     i <= (port->node_type == FABRIC_SWITCH ? 0 : port->ports); i++)
			fprintf(lookup->out, "%u/\n", i);
		return true;
	}
	if (!text_number(component[1], 0, UINT8_MAX, &number) || number != port->number)
		return false;
	if (count == 2) {
		lookup->directory = true;
		return !list_names(port_files, lookup->out);
	}
	if (count == 3 && write_port(port, component[2], lookup->out))
		return true;
	if (!strcmp(component[2], "counters") && count <= 4)
		return look_counter(lookup, node, port->number, count == 4 ? component[3] : NULL);
	return look_table(lookup, port, node, component + 2, count - 2);
}

static bool take_infiniband(void *context, const struct ctl_port *port, uint32_t node)
{
	struct lookup *lookup = context;

	if (lookup->count == 1) {
		if (strcmp(lookup->last, port->device))
			fprintf(lookup->out, "%s/\n", port->device);
		strcpy(lookup->last, port->device);
		return true;
	}
	if (!strcmp(port->device, lookup->component[1]))
		lookup->found = look_device(lookup, port, node);
	return !lookup->found;
}

static bool take_mad(void *context, const struct ctl_port *port, uint32_t node)
{
	struct lookup *lookup = context;
	char umad[32], issm[32];

	snprintf(umad, sizeof(umad), "umad%u", port->umad);
	snprintf(issm, sizeof(issm), "issm%u", port->umad);
	if (lookup->count == 1) {
		fprintf(lookup->out, "%s/\n%s/\n", umad, issm);
		return true;
	}
	if (strcmp(lookup->component[1], umad) && strcmp(lookup->component[1], issm))
		return true;
	lookup->found = true;
	if (lookup->count == 2) {
		lookup->directory = true;
		fputs("ibdev\nport\n", lookup->out);
	} else if (lookup->count == 3 && !strcmp(lookup->component[2], "ibdev")) {
		fputs(port->device, lookup->out);
	} else if (lookup->count == 3 && !strcmp(lookup->component[2], "port")) {
		fprintf(lookup->out, "%u", port->number);
	} else {
		lookup->found = false;
	}
	return false;
}

int sysfs_answer(const struct room *room, uint32_t host, const char *path, bool *directory,
		 FILE *out)
{
	struct lookup lookup = { .room = room, .out = out };
	char copy[1024], *save, *component;
	bool mad;

	if (strlen(path) >= sizeof(copy))
		return ENOENT;
	strcpy(copy, path);
	for (component = strtok_r(copy, "/", &save); component && lookup.count < COMPONENTS;
	     component = strtok_r(NULL, "/", &save))
		lookup.component[lookup.count++] = component;
	if (!lookup.count || component)
		return ENOENT;
	mad = !strcmp(lookup.component[0], "infiniband_mad");
	if (!mad && strcmp(lookup.component[0], "infiniband"))
		return ENOENT;
	if (lookup.count == 1) {
		lookup.found = lookup.directory = true;
		if (mad)
			fputs("abi_version\n", out);
	} else if (mad && lookup.count == 2 && !strcmp(lookup.component[1], "abi_version")) {
		fprintf(out, "%u", UMAD_ABI);
		return 0;
	}
	room_ports(room, host, mad ? take_mad : take_infiniband, &lookup);
	*directory = lookup.directory;
	return lookup.found ? 0 : ENOENT;
}
