/* SPDX-License-Identifier: BSD-2-Clause */
/* Asks the other processes of this host for their counters (host.h), with the client of verbatim stats. */
#include "inspect/host.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/counters.h"
#include "inspect/client.h"

#define HOST_WAIT_MS	250u
#define DEVICE_MAX	64u

struct asked {
	const char *device;
	bool has_device;
	uint64_t values[COUNTER_COUNT];
};

/* The number behind "NAME": in a record; 0: there is none. */
static uint64_t host_number(const char *line, const char *name)
{
	char key[96];
	const char *found;

	snprintf(key, sizeof(key), "\"%s\":", name);
	found = strstr(line, key);
	return found ? strtoull(found + strlen(key), NULL, 10) : 0;
}

static void host_read_line(struct asked *asked, const char *line)
{
	char device[DEVICE_MAX + 32];
	unsigned i;

	snprintf(device, sizeof(device), "{\"record\":\"device\",\"device\":\"%.64s\"", asked->device);
	asked->has_device |= !strncmp(line, device, strlen(device));
	if (strncmp(line, "{\"record\":\"counters\"", 20))
		return;
	for (i = 0; i < COUNTER_COUNT; i++)
		asked->values[i] = host_number(line, counter_name(i));
}

static int host_take(void *context, const char *text, size_t bytes)
{
	char *copy = strndup(text, bytes), *rest = copy, *line;

	if (!copy)
		return ENOMEM;
	while ((line = strsep(&rest, "\n")))
		host_read_line(context, line);
	free(copy);
	return 0;
}

static void host_add_process(struct inspected *process, const char *device, uint64_t *values)
{
	struct asked asked = { .device = device };
	unsigned i;

	if (process->stage != INSPECTED_PROVEN ||
	    inspect_ask(process, "stats process", NULL, 0, HOST_WAIT_MS, host_take, &asked) || !asked.has_device)
		return;
	for (i = 0; i < COUNTER_COUNT; i++)
		values[i] += asked.values[i];
}

void host_add_counters(const char *device, uint64_t *values)
{
	struct inspected *list;
	unsigned count = 0, i;
	char why[256];

	if (inspect_begin_all(NULL, &list, &count, why, sizeof(why)))
		return;
	for (i = 0; i < count; i++)
		if (list[i].pid == getpid()) {
			inspect_end(&list[i]);
			list[i].stage = INSPECTED_FAILED;
		}
	inspect_prove_all(list, count, HOST_WAIT_MS);
	for (i = 0; i < count; i++) {
		host_add_process(&list[i], device, values);
		inspect_end(&list[i]);
	}
	free(list);
}
