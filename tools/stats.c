/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim stats [--all] [--json | --prometheus] [PID | PROGRAM]: the counters of running processes, through
 * their control sockets (inspect.h). Only processes whose memory the kernel lets us read are shown; of the
 * others it is said how many there are. What a process answers is its own word: names and numbers are checked
 * for form.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "inspect.h"
#include "tool.h"

enum { COUNTERS_MAX = 512, NAME_MAX_BYTES = 48 };

struct counter_read {
	char name[NAME_MAX_BYTES];
	unsigned long long value;
};

struct answer {
	struct counter_read counter[COUNTERS_MAX];
	unsigned count;
};

static const struct {
	const char *name, *text;
} known[] = {
#define COUNTER(id, name, text) { name, text },
#include "base/counter.def"
#undef COUNTER
};

static const char *text_of(const char *name)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!strcmp(known[i].name, name))
			return known[i].text;
	return "a counter of another release";
}

/* ---- answers ---- */

static bool is_name(const char *name)
{
	if (!islower((unsigned char)*name))
		return false;
	while (islower((unsigned char)*name) || isdigit((unsigned char)*name) || *name == '_')
		name++;
	return !*name;
}

/* "NAME VALUE"; the process ID is known already. */
static int take_line(struct answer *answer, const char *line)
{
	struct counter_read *counter = &answer->counter[answer->count];
	int end = 0;

	if (answer->count == COUNTERS_MAX ||
	    sscanf(line, "%47s %llu%n", counter->name, &counter->value, &end) != 2 || line[end] ||
	    !is_name(counter->name))
		return EPROTO;
	if (strcmp(counter->name, "pid"))
		answer->count++;
	return 0;
}

/* An inspect_take: whole lines. */
static int take_lines(void *context, const char *text, size_t bytes)
{
	char line[128];
	int err = 0;

	while (bytes && !err) {
		const char *end = memchr(text, '\n', bytes);
		size_t length = end ? (size_t)(end - text) : bytes;

		if (!end || length >= sizeof(line))
			return EPROTO;
		memcpy(line, text, length);
		line[length] = '\0';
		err = take_line(context, line);
		text += length + 1;
		bytes -= length + 1;
	}
	return err;
}

/* 0 or errno; then process->why has the reason. */
static int ask(struct inspected *process, uint64_t deadline_ns, struct answer *answer)
{
	int err = process->fd < 0 ? ECONNREFUSED : inspect_prove(process, deadline_ns);

	answer->count = 0;
	if (!err)
		err = inspect_ask(process, "stats", NULL, 0, take_lines, answer);
	if (err == EPROTO && !*process->why)
		snprintf(process->why, sizeof(process->why), "process %d answers in another form",
			 (int)process->pid);
	return err;
}

/* ---- forms of output ---- */

struct form {
	void (*begin)(void);
	void (*process)(const struct inspected *process, const struct answer *answer, bool all);
	void (*end)(unsigned not_shown);
};

static unsigned shown;

static void nothing(void)
{
}

static void text_process(const struct inspected *process, const struct answer *answer, bool all)
{
	unsigned zero = 0;

	printf("%s%s (%d)\n", shown ? "\n" : "", process->program, (int)process->pid);
	for (unsigned i = 0; i < answer->count; i++) {
		const struct counter_read *counter = &answer->counter[i];

		if (counter->value || all)
			printf("  %-24s %12llu  %s\n", counter->name, counter->value, text_of(counter->name));
		else
			zero++;
	}
	if (zero)
		printf("  (%u counters are 0: --all shows them)\n", zero);
}

static void text_end(unsigned not_shown)
{
	if (!shown && !not_shown)
		printf("no process of this network namespace uses Verbatim\n");
	if (not_shown)
		printf("%s%u not shown: the reasons are above\n", shown ? "\n" : "", not_shown);
}

/* Names of programs are printable ASCII: inspect.c sees to it. */
static void print_quoted(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			putchar('\\');
		putchar(*text);
	}
	putchar('"');
}

static void json_begin(void)
{
	printf("{\"version\":1,\"processes\":[");
}

static void json_process(const struct inspected *process, const struct answer *answer, bool all)
{
	(void)all;
	printf("%s\n{\"pid\":%d,\"uid\":%u,\"program\":", shown ? "," : "", (int)process->pid,
	       (unsigned)process->uid);
	print_quoted(process->program);
	printf(",\"counters\":{");
	for (unsigned i = 0; i < answer->count; i++)
		printf("%s\"%s\":%llu", i ? "," : "", answer->counter[i].name, answer->counter[i].value);
	printf("}}");
}

static void json_end(unsigned not_shown)
{
	printf("\n],\"not_shown\":%u}\n", not_shown);
}

/* All samples of a metric have to stand together: they are gathered by counter. */
static struct sample {
	char program[64];
	int pid;
	struct answer answer;
} *samples;

static void prometheus_process(const struct inspected *process, const struct answer *answer, bool all)
{
	struct sample *more = realloc(samples, (shown + 1) * sizeof(*samples));

	(void)all;
	if (!more) {
		fprintf(stderr, "verbatim stats: out of memory\n");
		exit(EXIT_FAILURE);
	}
	samples = more;
	snprintf(samples[shown].program, sizeof(samples[shown].program), "%s", process->program);
	samples[shown].pid = (int)process->pid;
	samples[shown].answer = *answer;
}

static void prometheus_counter(const char *name)
{
	bool begun = false;

	for (unsigned p = 0; p < shown; p++) {
		const struct answer *answer = &samples[p].answer;

		for (unsigned i = 0; i < answer->count; i++) {
			if (strcmp(answer->counter[i].name, name))
				continue;
			if (!begun)
				printf("# HELP verbatim_%s %s\n# TYPE verbatim_%s counter\n", name,
				       text_of(name), name);
			begun = true;
			printf("verbatim_%s{pid=\"%d\",program=", name, samples[p].pid);
			print_quoted(samples[p].program);
			printf("} %llu\n", answer->counter[i].value);
		}
	}
}

static void prometheus_end(unsigned not_shown)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		prometheus_counter(known[i].name);
	printf("# HELP verbatim_processes_not_shown processes that may not be looked at, or do not answer\n"
	       "# TYPE verbatim_processes_not_shown gauge\nverbatim_processes_not_shown %u\n", not_shown);
	free(samples);
}

static const struct form text_form = { nothing, text_process, text_end };
static const struct form json_form = { json_begin, json_process, json_end };
static const struct form prometheus_form = { nothing, prometheus_process, prometheus_end };

/* ---- the command ---- */

struct options {
	const struct form *form;
	const char *which;		/* PID or program; NULL: all */
	bool all;
};

/* 0, or EXIT_USAGE after a line on stderr. */
static int parse(int argc, char **argv, struct options *options)
{
	struct option_reader reader = option_read(argc, argv);
	const char *word;

	while ((word = option_next(&reader))) {
		if (!strcmp(word, "--all"))
			options->all = true;
		else if (!strcmp(word, "--json"))
			options->form = &json_form;
		else if (!strcmp(word, "--prometheus"))
			options->form = &prometheus_form;
		else if (options->which)
			return usage_error("stats", "one PID or PROGRAM at most, not '%s' as well", reader.value);
		else
			options->which = reader.value;
	}
	return reader.wrong ? EXIT_USAGE : 0;
}

/* 0, or 1 after a line on stderr. *list is malloc'ed. */
static int begin(const char *which, struct inspected **list, unsigned *count)
{
	char why[256], *end;
	long pid = which ? strtol(which, &end, 10) : 0;

	if (which && pid > 0 && pid <= INT32_MAX && !*end) {
		*count = 1;
		*list = calloc(1, sizeof(**list));
		if (*list && !inspect_begin((pid_t)pid, *list))
			return 0;
		fprintf(stderr, "verbatim stats: %s\n", *list ? (*list)->why : "out of memory");
		free(*list);
		return 1;
	}
	if (inspect_begin_all(which, list, count, why, sizeof(why))) {
		fprintf(stderr, "verbatim stats: %s\n", why);
		return 1;
	}
	if (*count || !which)
		return 0;
	fprintf(stderr, "verbatim stats: no process '%s' has a device of Verbatim open in this network "
		"namespace\n", which);
	free(*list);
	return 1;
}

int stats_command(int argc, char **argv)
{
	struct options options = { .form = &text_form };
	static struct answer answer;
	struct inspected *list;
	unsigned count, not_shown = 0;
	uint64_t deadline_ns;

	if (parse(argc, argv, &options))
		return EXIT_USAGE;
	if (begin(options.which, &list, &count))
		return EXIT_FAILURE;
	deadline_ns = inspect_deadline_ns();
	options.form->begin();
	for (unsigned i = 0; i < count; i++) {
		if (ask(&list[i], deadline_ns, &answer)) {
			fprintf(stderr, "verbatim stats: %s\n", list[i].why);
			not_shown++;
		} else {
			options.form->process(&list[i], &answer, options.all);
			shown++;
		}
		inspect_end(&list[i]);
	}
	options.form->end(not_shown);
	free(list);
	if (fflush(stdout) || ferror(stdout)) {
		fprintf(stderr, "verbatim stats: %s\n", strerror(errno));
		return EXIT_FAILURE;
	}
	return options.which && !shown ? EXIT_FAILURE : 0;
}
