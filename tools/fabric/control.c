/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim cable NODE[PORT] pull|plug|ber RATE|degraded RATE, verbatim node NODE on|off, verbatim
 * route FROM TO, and any words by verbatim fabric --say: said to a fabric that runs, from elsewhere
 * than its console. Which fabric: --fabric NAME, or the setting VERBATIM_FABRIC, or the only one
 * that runs.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"
#include "ib/client.h"
#include "tool.h"

const char *const cable_words[] = { "pull", "plug", NULL };
/* That want a value. */
static const char *const cable_faults[] = { "ber", "degraded", NULL };
static const char *const no_words[] = { NULL };
const char *const node_words[] = { "on", "off", NULL };

/* 0, or -1 after a line on stderr. */
static int choose_fabric(const char *command, const char *given, char name[PATH_MAX])
{
	char running[1024];
	struct config config;

	if (given) {
		snprintf(name, PATH_MAX, "%s", given);
		return 0;
	}
	if (config_load(&config))
		return -1;
	if (config.fabric[0]) {
		snprintf(name, PATH_MAX, "%s", config.fabric);
		return 0;
	}
	place_list(running, sizeof(running));
	if (*running && !strchr(running, ',')) {
		snprintf(name, PATH_MAX, "%s", running);
		return 0;
	}
	if (*running)
		fprintf(stderr, "verbatim %s: which fabric? --fabric NAME, one of %s\n", command,
			running);
	else
		fprintf(stderr, "verbatim %s: no fabric runs: verbatim fabric FILE starts one\n",
			command);
	return -1;
}

static void print_answer(void *context, const struct ctl_head *head, const char *body)
{
	if (head->kind == CTL_TEXT)
		fputs(body, stdout);
}

int control_say(const char *command, const char *given, const char *line)
{
	char name[PATH_MAX], why[PLACE_WHY_MAX];
	int fd, err;

	if (choose_fabric(command, given, name))
		return EXIT_FAILURE;
	err = ib_connect(name, &fd, why);
	if (!err) {
		err = ib_ask(fd, CTL_COMMAND, line, strlen(line) + 1, print_answer, NULL, NULL,
			     why);
		close(fd);
	}
	if (err && err != EHOSTUNREACH)		/* a route that ends is printed */
		fprintf(stderr, "verbatim %s: %s\n", command, *why ? why : strerror(err));
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}

static bool is_one_of(const char *word, const char *const *list)
{
	for (; *list; list++)
		if (!strcmp(word, *list))
			return true;
	return false;
}

static int control_command(int argc, char **argv, const char *const *actions,
			   const char *const *with_value, const char *what)
{
	struct option_reader reader = option_read(argc, argv);
	const char *word, *fabric = NULL, *operand[3] = { NULL, NULL, "" };
	char line[CTL_BODY_MAX];
	int count = 0;

	while ((word = option_next(&reader))) {
		if (!strcmp(word, "--fabric"))
			fabric = reader.value;
		else if (count < 3)
			operand[count++] = reader.value;
		else
			return usage_error(argv[0], "unexpected argument '%s'", reader.value);
	}
	if (reader.wrong)
		return EXIT_USAGE;
	if (!(count == 2 && is_one_of(operand[1], actions)) &&
	    !(count == 3 && is_one_of(operand[1], with_value)))
		return usage_error(argv[0], "expected %s", what);
	if (strchr(operand[0], '"') || strpbrk(operand[2], "\" \t\n") ||
	    snprintf(line, sizeof(line), "%s \"%s\" %s %s", argv[0], operand[0], operand[1],
		     operand[2]) >= (int)sizeof(line))
		return usage_error(argv[0], "'%.60s' is no name of a node", operand[0]);
	return control_say(argv[0], fabric, line);
}

int cable_command(int argc, char **argv)
{
	return control_command(argc, argv, cable_words, cable_faults,
			       "verbatim cable 'NODE[PORT]' pull, plug, ber RATE, or degraded 1xSDR");
}

int node_command(int argc, char **argv)
{
	return control_command(argc, argv, node_words, no_words, "verbatim node NODE on, or off");
}

int route_command(int argc, char **argv)
{
	struct option_reader reader = option_read(argc, argv);
	const char *word, *fabric = NULL, *end[2] = { "", "" };
	char line[CTL_BODY_MAX], options[CTL_BODY_MAX / 2] = "";
	size_t used = 0;
	int ends = 0;

	while ((word = option_next(&reader))) {
		if (!strcmp(word, "--fabric")) {
			fabric = reader.value;
		} else if (*word && used < sizeof(options)) {
			used += (size_t)snprintf(options + used, sizeof(options) - used,
						 " %s \"%s\"", word, reader.value);
		} else if (ends < 2) {
			end[ends++] = reader.value;
		} else {
			return usage_error(argv[0], "unexpected argument '%s'", reader.value);
		}
	}
	if (reader.wrong)
		return EXIT_USAGE;
	if (ends != 2)
		return usage_error(argv[0],
				   "expected verbatim route FROM TO: nodes, ports or LIDs, TO also a group's");
	if (strchr(end[0], '"') || strchr(end[1], '"') || used >= sizeof(options) ||
	    snprintf(line, sizeof(line), "route \"%s\" \"%s\"%s", end[0], end[1], options) >=
		    (int)sizeof(line))
		return usage_error(argv[0], "'%.60s' and '%.60s' are no names of nodes", end[0],
				   end[1]);
	return control_say(argv[0], fabric, line);
}
