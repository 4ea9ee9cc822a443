/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reading the settings of config.def: first the file (config/file.h; lines "key = value", '#' starts a
 * comment, also behind a value), then the environment. Every refusal says which name, which value, where,
 * and what it may be. In a set-id program the environment and the user's file are ignored: all settings
 * have their defaults.
 */
#include "config/config.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/log.h"
#include "base/nearest.h"
#include "base/text.h"

extern char **environ;

struct setting {
	const char *key, *variable;
	size_t offset;
	bool is_number;
	uint32_t least, greatest, standard;
};

static const struct setting settings[] = {
#define CONFIG_NUMBER(field, key, variable, least, greatest, standard, text) \
	{ key, variable, offsetof(struct config, field), true, least, greatest, standard },
#define CONFIG_TEXT(field, key, variable, text) \
	{ key, variable, offsetof(struct config, field), false, 0, 0, 0 },
#include "config/config.def"
#undef CONFIG_NUMBER
#undef CONFIG_TEXT
};

/* For messages: ", devices, memory", from the second character on. */
#define CONFIG_NUMBER(field, key, variable, least, greatest, standard, text) ", " key
#define CONFIG_TEXT(field, key, variable, text) ", " key
static const char keys[] =
#include "config/config.def"
	;
#undef CONFIG_NUMBER
#undef CONFIG_TEXT
#define CONFIG_NUMBER(field, key, variable, least, greatest, standard, text) ", " variable
#define CONFIG_TEXT(field, key, variable, text) ", " variable
static const char variables[] =
#include "config/config.def"
	;
#undef CONFIG_NUMBER
#undef CONFIG_TEXT

/* Variables read by base/log.c, engine/injection.c, trace/ and check/; and the file's. */
#define OTHER_VARIABLES(X) \
	X("VERBATIM_CONFIG") X("VERBATIM_LOG") X("VERBATIM_EXPLAIN") X("VERBATIM_FAULT") \
	X("VERBATIM_TRACE") X("VERBATIM_CHECK")
#define PREFIX		"VERBATIM_"
#define PREFIX_LENGTH	(sizeof(PREFIX) - 1)
#define OTHER_ENTRY(name) name,
#define OTHER_TEXT(name) ", " name
static const char *const other_variables[] = {
	OTHER_VARIABLES(OTHER_ENTRY)
	"VERBATIM_TRACER",	/* set by verbatim trace alone (trace/trace.c) */
};

#define SETTING_COUNT (sizeof(settings) / sizeof(settings[0]))
/* The first ones, those that are for users. */
#define OTHER_COUNT (sizeof(other_variables) / sizeof(other_variables[0]) - 1)

static int config_set(struct config *config, const struct setting *setting, const char *value,
		      const char *where)
{
	char *to = (char *)config + setting->offset;
	uint64_t number;

	if (!setting->is_number && strlen(value) >= CONFIG_TEXT_MAX) {
		complain("%s: value is longer than %d characters", where, CONFIG_TEXT_MAX - 1);
		return EINVAL;
	}
	if (!setting->is_number) {
		strcpy(to, value);
		return 0;
	}
	if (!text_number(value, setting->least, setting->greatest, &number)) {
		complain("%s: invalid value '%s': expected an integer from %u to %u",
			 where, value, setting->least, setting->greatest);
		return EINVAL;
	}
	*(uint32_t *)to = (uint32_t)number;
	return 0;
}

static int set_line(struct config *config, struct text_line *line, const char *path)
{
	char where[PATH_MAX + 64], *key, *value;
	struct config_line parts;
	size_t i;

	if (!line->is_whole) {
		complain("%s:%u: line is longer than %d characters", path, line->number,
			 TEXT_LINE_MAX);
		return EINVAL;
	}
	if (!config_line_parse(line->text, &parts))
		return 0;
	key = line->text + parts.key;
	line->text[parts.key_end] = '\0';
	if (!parts.has_value) {
		complain("%s:%u: '%s': expected 'key = value'", path, line->number, key);
		return EINVAL;
	}
	value = line->text + parts.value;
	line->text[parts.value_end] = '\0';
	snprintf(where, sizeof(where), "%s:%u: %.40s", path, line->number, key);
	for (i = 0; i < SETTING_COUNT; i++)
		if (!strcmp(settings[i].key, key))
			return config_set(config, &settings[i], value, where);
	complain("%s: unknown setting: expected one of%s", where, keys + 1);
	return EINVAL;
}

static void set_defaults(struct config *config)
{
	memset(config, 0, sizeof(*config));
	for (size_t i = 0; i < SETTING_COUNT; i++)
		if (settings[i].is_number)
			*(uint32_t *)((char *)config + settings[i].offset) = settings[i].standard;
}

/* Over what is in @config. */
static int load_file(struct config *config, const struct config_file *which)
{
	struct text_line line = { 0 };
	FILE *stream;
	int err = config_file_open(which, &stream);

	if (err || !stream)
		return err;
	while (!err && text_next_line(stream, &line))
		err = set_line(config, &line, which->path);
	fclose(stream);
	return err;
}

static bool config_is_known(const char *variable, size_t length)
{
	size_t i;

	for (i = 0; i < SETTING_COUNT; i++)
		if (strlen(settings[i].variable) == length &&
		    !strncmp(settings[i].variable, variable, length))
			return true;
	for (i = 0; i < sizeof(other_variables) / sizeof(other_variables[0]); i++)
		if (strlen(other_variables[i]) == length &&
		    !strncmp(other_variables[i], variable, length))
			return true;
	return false;
}

/* The one that may have been meant; NULL: none is near. Compared without what all of them begin with. */
static const char *config_nearest(const char *variable, size_t length)
{
	char word[NEAREST_WORD_MAX];
	struct nearest_word nearest;
	size_t i;

	snprintf(word, sizeof(word), "%.*s", (int)(length - PREFIX_LENGTH), variable + PREFIX_LENGTH);
	nearest = nearest_begin(word);
	for (i = 0; i < SETTING_COUNT; i++)
		nearest_offer(&nearest, settings[i].variable + PREFIX_LENGTH);
	for (i = 0; i < OTHER_COUNT; i++)
		nearest_offer(&nearest, other_variables[i] + PREFIX_LENGTH);
	return nearest.best ? nearest.best - PREFIX_LENGTH : NULL;
}

static int refuse_unknown(void)
{
	const char *nearest;
	char **entry;

	if (getauxval(AT_SECURE))
		return 0;
	for (entry = environ; entry && *entry; entry++) {
		size_t length = strcspn(*entry, "=");

		if (strncmp(*entry, PREFIX, PREFIX_LENGTH) || config_is_known(*entry, length))
			continue;
		nearest = config_nearest(*entry, length);
		complain("unknown variable %.*s%s%s: expected one of%s%s", (int)length, *entry,
			 nearest ? "; the nearest: " : "", nearest ? nearest : "", variables + 1,
			 OTHER_VARIABLES(OTHER_TEXT));
		return EINVAL;
	}
	return 0;
}

static int config_check(const struct config *config)
{
	if (config->mtu & (config->mtu - 1)) {
		complain("VERBATIM_MTU (mtu): invalid value %u: expected 256, 512, 1024, 2048 or "
			 "4096",
			 config->mtu);
		return EINVAL;
	}
	if (config->malloc[0] && strcmp(config->malloc, "shared") &&
	    strcmp(config->malloc, "private")) {
		complain("VERBATIM_MALLOC: invalid value '%s': expected shared (peers of this host "
			 "may map page-aligned memory of programs that use RDMA) or private", config->malloc);
		return EINVAL;
	}
	if (config->roce[0] && strcmp(config->roce, "v1") && strcmp(config->roce, "v2") &&
	    strcmp(config->roce, "both")) {
		complain("VERBATIM_ROCE (roce): invalid value '%s': expected v2 (packets in UDP; the default), v1 "
			 "(in Ethernet frames of type 0x8915) or both", config->roce);
		return EINVAL;
	}
	return 0;
}

bool config_has_roce_v1(const struct config *config)
{
	return !strcmp(config->roce, "v1") || !strcmp(config->roce, "both");
}

bool config_has_roce_v2(const struct config *config)
{
	return strcmp(config->roce, "v1");
}

int config_load_file(struct config *config, const struct config_file *which)
{
	struct config loaded;
	int err;

	set_defaults(&loaded);
	err = load_file(&loaded, which);
	if (!err)
		err = config_check(&loaded);
	if (!err)
		*config = loaded;
	return err;
}

int config_load(struct config *config)
{
	struct config_file which;
	struct config loaded;
	size_t i;
	int err = refuse_unknown();

	set_defaults(&loaded);
	if (!err && config_file_find(&which))
		err = load_file(&loaded, &which);
	for (i = 0; !err && i < SETTING_COUNT; i++) {
		const char *value = secure_getenv(settings[i].variable);

		if (value && *value)
			err = config_set(&loaded, &settings[i], value, settings[i].variable);
	}
	if (!err)
		err = config_check(&loaded);
	if (!err)
		*config = loaded;
	return err;
}
