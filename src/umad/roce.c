/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Where no fabric is, the devices of network interfaces, so that ibstat shows what there is, as it
 * does on a host with RoCE adapters. They can be looked at, and not opened: they have no QP0. What
 * they say is read below /sys/class/infiniband, as by any program (tools/preload).
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "umad/umad.h"

#define SYSFS		"/sys/class/infiniband"
#define SYSFS_BYTES	512
#define PORT		1		/* of all that there are */

/* The first line of a file, without its end; "" if it cannot be read. */
static void roce_text(const char *directory, const char *name, char *text, size_t size)
{
	char path[SYSFS_BYTES];
	FILE *file;

	text[0] = '\0';
	snprintf(path, sizeof(path), "%.400s/%.100s", directory, name);
	file = fopen(path, "re");
	if (!file)
		return;
	if (fgets(text, (int)size, file))
		text[strcspn(text, "\n")] = '\0';
	fclose(file);
}

static uint32_t roce_number(const char *directory, const char *name)
{
	char text[64];

	roce_text(directory, name, text, sizeof(text));
	return (uint32_t)strtoul(text, NULL, 0);
}

/* Of groups of four digits, the last four groups. */
static uint64_t roce_digits(const char *text)
{
	uint64_t value = 0;

	for (; *text; text++)
		if (isxdigit((unsigned char)*text))
			value = value << 4 |
				(uint64_t)(isdigit((unsigned char)*text)
						   ? *text - '0'
						   : tolower((unsigned char)*text) - 'a' + 10);
	return value;
}

static uint64_t roce_guid(const char *directory, const char *name)
{
	char text[64];

	roce_text(directory, name, text, sizeof(text));
	return roce_digits(text);
}

static bool roce_fill(const char *device, uint32_t umad, struct ctl_port *port)
{
	char directory[SYSFS_BYTES], ports[SYSFS_BYTES], text[64];

	memset(port, 0, sizeof(*port));
	if (strlen(device) >= sizeof(port->device))
		return false;
	strcpy(port->device, device);
	snprintf(directory, sizeof(directory), SYSFS "/%s", device);
	snprintf(ports, sizeof(ports), SYSFS "/%s/ports/%d", device, PORT);
	port->number = PORT;
	port->ports = PORT;
	port->umad = umad;
	port->ethernet = 1;
	port->node_type = roce_number(directory, "node_type");
	port->node_guid = roce_guid(directory, "node_guid");
	port->system_guid = roce_guid(directory, "sys_image_guid");
	roce_text(directory, "hca_type", port->model, sizeof(port->model));
	roce_text(directory, "fw_ver", port->firmware, sizeof(port->firmware));
	roce_text(directory, "hw_rev", port->revision, sizeof(port->revision));
	port->state = roce_number(ports, "state");
	port->phys_state = roce_number(ports, "phys_state");
	port->cap_mask = roce_number(ports, "cap_mask");
	roce_text(ports, "rate", text, sizeof(text));
	port->rate_mbps = (uint32_t)(strtod(text, NULL) * 1000);
	port->guid = roce_guid(ports, "gids/0");
	roce_text(ports, "gids/0", text, sizeof(text));
	text[19] = '\0';	/* four groups with three colons: the prefix */
	port->gid_prefix = roce_digits(text);
	port->pkeys = 1;
	port->pkey[0] = (uint16_t)roce_number(ports, "pkeys/0");
	return port->node_type != 0;
}

static int roce_is_name(const struct dirent *entry)
{
	return entry->d_name[0] != '.';
}

int umad_roce_ports(struct ctl_port **ports, unsigned *count)
{
	struct dirent **entry;
	int found = scandir(SYSFS, &entry, roce_is_name, alphasort);

	*ports = NULL;
	*count = 0;
	if (found < 0)
		return ENODEV;
	*ports = calloc((size_t)found + 1, sizeof(**ports));
	for (int i = 0; i < found; i++) {
		if (*ports && *count < UMAD_PORTS_MAX &&
		    roce_fill(entry[i]->d_name, *count, &(*ports)[*count]))
			++*count;
		free(entry[i]);
	}
	free(entry);
	if (!*ports)
		return ENOMEM;
	if (*count)
		return 0;
	free(*ports);
	*ports = NULL;
	return ENODEV;
}
