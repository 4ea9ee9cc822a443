/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The defaults of rsocket(7): files under /etc/rdma/rsocket, each with one number on its first line.
 * The built-in value remains when a file is missing; with an explanation when that line is anything
 * but a number in range.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"
#include "rsockets/rsocket.h"

#define CONFIG_FOLDER	"/etc/rdma/rsocket/"

static struct rs_options defaults = {
	.receive_bytes = 256 << 10,
	.send_bytes = 256 << 10,
	.send_requests = 384,
	.receive_requests = 384,
	.inline_bytes = 256,
	.iomaps = 0,
	.polling_us = 100,
	.wake_up_ms = 5000,
	.keep_idle = 7200,
	.keep_interval = 75,
	.keep_count = 9,
};

static const struct setting {
	const char *file;
	uint32_t *value;
	uint32_t least, greatest;
} settings[] = {
	{ "mem_default",	&defaults.receive_bytes,	RS_RING_MIN, RS_RING_MAX },
	{ "wmem_default",	&defaults.send_bytes,		RS_RING_MIN, RS_RING_MAX },
	{ "sqsize_default",	&defaults.send_requests,	16, 32768 },
	{ "rqsize_default",	&defaults.receive_requests,	16, 32768 },
	{ "inline_default",	&defaults.inline_bytes,		0, 2048 },
	{ "iomap_size",		&defaults.iomaps,		0, 65535 },
	{ "polling_time",	&defaults.polling_us,		0, 1000000 },
	{ "wake_up_interval",	&defaults.wake_up_ms,		1, 1000000 },
};

static void read_setting(const struct setting *setting)
{
	struct text_line line = { 0 };
	char path[128];
	uint64_t value;
	FILE *file;
	bool found;

	snprintf(path, sizeof(path), CONFIG_FOLDER "%s", setting->file);
	file = fopen(path, "re");
	if (!file)
		return;
	found = text_next_line(file, &line) && line.is_whole &&
		text_number(line.text, setting->least, setting->greatest, &value);
	fclose(file);
	if (found)
		*setting->value = (uint32_t)value;
	else
		complain("%s: expected an integer from %u to %u, using %u", path, setting->least,
			 setting->greatest, *setting->value);
}

static void read_settings(void)
{
	log_init();
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++)
		read_setting(&settings[i]);
}

const struct rs_options *rs_defaults(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_settings);
	return &defaults;
}
