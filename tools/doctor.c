/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim doctor [PROGRAM] [--peer ADDRESS] [--json]: what this machine, container or sandbox allows, what
 * PROGRAM would load and whether ADDRESS answers, and what follows from it. Status 0: all is well; 1:
 * there is something to mend; 2: it could not look.
 */
#include "doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "tool.h"

enum { FINDINGS_MAX = 512 };

struct finding {
	enum verdict verdict;
	const char *check;		/* a literal */
	char *what, *found, *consequence, *remedy;
};

static struct finding findings[FINDINGS_MAX];
static unsigned finding_count, counts[VERDICT_COUNT];

static const struct {
	const char *json, *text, *colour;
} verdicts[VERDICT_COUNT] = {
	{ "good", "good", "32" }, { "note", "note", "33" }, { "bad", "BAD ", "31" },
	{ "unknown", "????", "35" },
};

static char *format_text(const char *format, va_list arguments)
{
	char *text;

	return vasprintf(&text, format, arguments) < 0 ? NULL : text;
}

void report(enum verdict verdict, const char *check, const char *what, const char *format, ...)
{
	va_list arguments;

	if (finding_count == FINDINGS_MAX)
		return;
	counts[verdict]++;
	va_start(arguments, format);
	findings[finding_count++] = (struct finding){
		.verdict = verdict, .check = check, .what = strdup(what),
		.found = format_text(format, arguments),
	};
	va_end(arguments);
}

void report_consequence(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	findings[finding_count - 1].consequence = format_text(format, arguments);
	va_end(arguments);
}

void report_remedy(const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	findings[finding_count - 1].remedy = format_text(format, arguments);
	va_end(arguments);
}

static void print_text(void)
{
	bool colour = colour_wanted(STDOUT_FILENO);

	for (unsigned i = 0; i < finding_count; i++) {
		const struct finding *finding = &findings[i];

		if (colour)
			printf("\033[%sm%s\033[0m", verdicts[finding->verdict].colour,
			       verdicts[finding->verdict].text);
		else
			printf("%s", verdicts[finding->verdict].text);
		printf("  %s: %s\n", finding->what, finding->found);
		if (finding->consequence)
			printf("      so: %s\n", finding->consequence);
		if (finding->remedy)
			printf("      type: %s\n", finding->remedy);
	}
	printf("\n%u good, %u to know, %u bad", counts[VERDICT_GOOD], counts[VERDICT_NOTE],
	       counts[VERDICT_BAD]);
	if (counts[VERDICT_UNKNOWN])
		printf(", %u could not be looked at", counts[VERDICT_UNKNOWN]);
	putchar('\n');
}

static void print_json(int status)
{
	printf("{\"v\":1,\"version\":\"%s\",\"status\":%d,\"good\":%u,\"note\":%u,\"bad\":%u,"
	       "\"unknown\":%u,\"findings\":[", VERBATIM_VERSION, status, counts[VERDICT_GOOD],
	       counts[VERDICT_NOTE], counts[VERDICT_BAD], counts[VERDICT_UNKNOWN]);
	for (unsigned i = 0; i < finding_count; i++) {
		const struct finding *finding = &findings[i];

		printf("%s\n{\"check\":\"%s\",\"verdict\":\"%s\",", i ? "," : "", finding->check,
		       verdicts[finding->verdict].json);
		print_json_text("what", finding->what, ",");
		print_json_text("found", finding->found, ",");
		print_json_text("consequence", finding->consequence, ",");
		print_json_text("remedy", finding->remedy, "}");
	}
	printf("\n]}\n");
}

static int doctor_status(void)
{
	if (counts[VERDICT_BAD])
		return 1;
	return counts[VERDICT_UNKNOWN] ? 2 : 0;
}

static void doctor_look(const char *program, const char *peer)
{
	doctor_trial();
	doctor_settings();
	doctor_limits();
	doctor_port();
	doctor_network();
	doctor_host();
	if (program)
		doctor_program(program);
	if (peer)
		doctor_peer(peer);
}

int doctor_command(int argc, char **argv)
{
	struct option_reader reader = option_read(argc, argv);
	const char *word, *program = NULL, *peer = NULL;
	struct utsname kernel;
	bool json = false;

	while ((word = option_next(&reader))) {
		if (!strcmp(word, "--json"))
			json = true;
		else if (!strcmp(word, "--peer"))
			peer = reader.value;
		else if (program)
			return usage_error("doctor", "one PROGRAM at most, without arguments: '%s'", reader.value);
		else
			program = reader.value;
	}
	if (reader.wrong)
		return EXIT_USAGE;
	if (!json && !uname(&kernel))
		printf("verbatim %s on %s %s %s\n\n", VERBATIM_VERSION, kernel.sysname,
		       kernel.release, kernel.machine);
	fflush(stdout);		/* children write nothing of it again */
	doctor_look(program, peer);
	if (json)
		print_json(doctor_status());
	else
		print_text();
	return doctor_status();
}
