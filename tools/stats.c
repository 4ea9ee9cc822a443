/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim stats [--all] [--json | --prometheus] [--wait SECONDS] [PID | PROGRAM | DEVICE]: what the
 * processes that use Verbatim do, seen from outside (observe.h). Why a process is not shown goes to stderr.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "observe.h"
#include "tool.h"

typedef void print_fn(const struct observed *observed, bool all);

struct options {
	print_fn *print;
	const char *what;
	unsigned wait_ms;
	bool all;
};

static int print_observed(const struct options *options)
{
	struct observed observed;
	int err = observe(options->what, "stats", options->wait_ms, &observed);
	bool none;

	for (unsigned i = 0; i < observed.count; i++)
		if (!observed.process[i].shown)
			fprintf(stderr, "verbatim stats: %s\n", observed.process[i].process.why);
	if (err)
		fprintf(stderr, "verbatim stats: %s\n", observed.why);
	else
		options->print(&observed, options->all);
	none = options->what && !observed.shown;
	observed_free(&observed);
	return err || none ? EXIT_FAILURE : 0;
}

static bool read_seconds(const char *text, unsigned *ms)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds >= 0.1 && seconds <= 3600))
		return false;
	*ms = (unsigned)(seconds * 1000);
	return true;
}

int stats_command(int argc, char **argv)
{
	struct option_reader reader = option_read(argc, argv);
	struct options options = { .print = observed_print, .wait_ms = INSPECT_WAIT_MS };
	const char *word;

	while ((word = option_next(&reader))) {
		if (!strcmp(word, "--all"))
			options.all = true;
		else if (!strcmp(word, "--json"))
			options.print = observed_print_json;
		else if (!strcmp(word, "--prometheus"))
			options.print = observed_print_prometheus;
		else if (!strcmp(word, "--wait")) {
			if (!read_seconds(reader.value, &options.wait_ms))
				return usage_error("stats", "--wait '%s': expected seconds, 0.1 to 3600",
						   reader.value);
		} else if (options.what)
			return usage_error("stats", "one PID, PROGRAM or DEVICE at most, not '%s' as well",
					   reader.value);
		else
			options.what = reader.value;
	}
	return reader.wrong ? EXIT_USAGE : print_observed(&options);
}
