/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Variables VERBATIM_* of the environment: is each one known? Whether their values are good is tried by
 * opening a device (doctor_trial.c), with the library's own words.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/file.h"
#include "doctor.h"
#include "tool.h"

extern char **environ;

static const char *const setting_variables[] = {
#define CONFIG_NUMBER(field, key, variable, least, greatest, standard, text) variable,
#define CONFIG_TEXT(field, key, variable, text) variable,
#include "config/config.def"
#undef CONFIG_NUMBER
#undef CONFIG_TEXT
	"VERBATIM_CONFIG", "VERBATIM_LOG", "VERBATIM_EXPLAIN", "VERBATIM_FAULT", "VERBATIM_TRACE",
	"VERBATIM_CHECK",
};

static void check_variable(const char *entry)
{
	char name[NEAREST_WORD_MAX];
	int length = (int)strcspn(entry, "=");
	struct nearest_word nearest;

	snprintf(name, sizeof(name), "%.*s", length, entry);
	nearest = nearest_begin(name);
	for (size_t i = 0; i < sizeof(setting_variables) / sizeof(setting_variables[0]); i++)
		nearest_offer(&nearest, setting_variables[i]);
	if (nearest.best && !strcmp(nearest.best, name)) {
		report(trial_worked() ? VERDICT_GOOD : VERDICT_NOTE, "setting", name, "%s",
		       entry[length] ? entry + length + 1 : "");
		return;
	}
	report(VERDICT_BAD, "setting", name, "there is no such setting%s%s",
	       nearest.best ? "; the nearest: " : "", nearest.best ? nearest.best : "");
	report_consequence("no device can be listed or opened");
	if (nearest.best)
		report_remedy("unset %s; export %s=%s", name, nearest.best,
			      entry[length] ? entry + length + 1 : "");
	else
		report_remedy("unset %s", name);
}

/* The user's file, which nothing in the environment tells of. */
static void check_file(void)
{
	struct config_file file;
	const char *refused;

	if (!config_file_find(&file) || !file.by_default || access(file.path, F_OK))
		return;
	refused = config_file_refused(&file);
	if (!refused) {
		report(VERDICT_GOOD, "settings-file", file.path, "read by every program of this user");
		return;
	}
	report(VERDICT_NOTE, "settings-file", file.path, "not read: %s", refused);
	report_consequence("its settings have no effect");
}

void doctor_settings(void)
{
	check_file();
	for (char **entry = environ; entry && *entry; entry++)
		if (!strncmp(*entry, "VERBATIM_", 9))
			check_variable(*entry);
}
