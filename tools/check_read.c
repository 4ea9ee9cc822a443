/* SPDX-License-Identifier: BSD-2-Clause */
/* What processes have found, as src/check/report.c writes it: a line each, fields with tabs
 * between. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

const struct check_rule_text check_rule_texts[] = {
#define RULE(name, id, on, function, sentence, source, remedy) { id, sentence, source, remedy },
#include "check/rule.def"
#undef RULE
	{ NULL, NULL, NULL, NULL },
};

enum { FIELDS_MAX = 12 };

static const struct check_rule_text *rule_of(const char *id)
{
	for (const struct check_rule_text *rule = check_rule_texts; rule->id; rule++)
		if (!strcmp(rule->id, id))
			return rule;
	return NULL;
}

/* "post|ring.c|40|/usr/bin/app|1f;main|..." */
static void read_stack(char *text, struct check_line_stack *stack)
{
	char *rest = text, *word;

	while (*text && (word = strsep(&rest, ";")) && stack->count < CHECK_FRAMES_MAX) {
		struct check_line_frame *frame = &stack->frame[stack->count];
		char *part[5] = { NULL };

		for (int i = 0; i < 5 && word; i++)
			part[i] = strsep(&word, "|");
		if (!part[4])
			return;
		*frame = (struct check_line_frame){ part[0], part[1], part[3], atoi(part[2]),
						    part[4] };
		stack->count++;
	}
}

static void read_finding(struct check_results *results, char **field)
{
	struct check_found *found;
	const struct check_rule_text *rule = rule_of(field[1]);

	if (!rule)
		return;
	found = realloc(results->found, (size_t)(results->count + 1) * sizeof(*found));
	if (!found)
		return;
	results->found = found;
	found += results->count++;
	*found = (struct check_found){
		.rule = rule,
		.pid = atoi(field[2]),
		.program = field[3],
		.object = field[4],
		.wr_id = field[5],
		.text = field[6],
		.cause_is = field[7],
	};
	read_stack(field[8], &found->here);
	read_stack(field[9], &found->cause);
}

/* A suppression, summed over the processes. */
struct used {
	const char *text;
	int line, count;
	struct used *next;
};
static struct used *used;

static void read_used(char **field)
{
	struct used **at = &used;

	while (*at && (*at)->line != atoi(field[2]))
		at = &(*at)->next;
	if (!*at)
		*at = calloc(1, sizeof(**at));
	if (!*at)
		return;
	(*at)->text = field[4];
	(*at)->line = atoi(field[2]);
	(*at)->count += atoi(field[3]);
}

static void read_line(struct check_results *results, char *line)
{
	char *field[FIELDS_MAX] = { NULL };
	int count = 0;

	while (line && count < FIELDS_MAX)
		field[count++] = strsep(&line, "\t");
	if (!strcmp(field[0], "finding") && count >= 10)
		read_finding(results, field);
	else if (!strcmp(field[0], "begin"))
		results->processes++;
	else if (!strcmp(field[0], "more") && count >= 5)
		results->more += atoi(field[4]);
	else if (!strcmp(field[0], "used") && count >= 5)
		read_used(field);
	else if (!strcmp(field[0], "end") && count >= 5) {
		results->ended++;
		results->suppressed += atoi(field[4]);
	}
}

int check_read(const char *path, struct check_results *results)
{
	FILE *file = fopen(path, "r");
	char *line, *rest;
	size_t size = 0;

	if (!file || (getdelim(&results->text, &size, '\0', file) < 0 && ferror(file))) {
		fprintf(stderr, "verbatim check: %s: %s\n", path, strerror(errno));
		if (file)
			fclose(file);
		return -1;
	}
	fclose(file);
	rest = results->text;
	while ((line = strsep(&rest, "\n")))
		read_line(results, line);
	return 0;
}

void check_results_free(struct check_results *results)
{
	while (used) {
		struct used *next = used->next;

		free(used);
		used = next;
	}
	free(results->found);
	free(results->text);
}

const char *check_relative(const char *file, char *path, size_t size)
{
	char directory[4096];
	size_t length;

	if (getcwd(directory, sizeof(directory))) {
		length = strlen(directory);
		if (!strncmp(file, directory, length) && file[length] == '/')
			file += length + 1;
	}
	while (!strncmp(file, "./", 2))
		file += 2;
	snprintf(path, size, "%s", file);
	return path;
}

const struct check_line_frame *check_main_frame(const struct check_found *found)
{
	const struct check_line_stack *const stacks[] = { &found->here, &found->cause };
	const struct check_line_frame *any = NULL;
	char path[4096];

	for (int i = 0; i < 2; i++)
		for (int j = 0; j < stacks[i]->count; j++) {
			const struct check_line_frame *frame = &stacks[i]->frame[j];

			if (!*frame->file)
				continue;
			if (check_relative(frame->file, path, sizeof(path))[0] != '/')
				return frame;
			any = any ? any : frame;
		}
	return any;
}

void check_summary(const struct check_results *results)
{
	int killed = results->processes - results->ended;

	for (const struct used *one = used; one; one = one->next)
		if (one->count)
			fprintf(stderr,
				"verbatim check: suppression of line %d, used %d times: %s\n",
				one->line, one->count, one->text);
		else
			fprintf(stderr, "verbatim check: suppression of line %d, never used: %s\n",
				one->line, one->text);
	for (const struct check_rule_text *rule = check_rule_texts; rule->id; rule++) {
		int count = 0;

		for (int i = 0; i < results->count; i++)
			count += results->found[i].rule == rule;
		if (count)
			fprintf(stderr, "verbatim check: %s: %d\n", rule->id, count);
	}
	if (killed > 0)
		fprintf(stderr,
			"verbatim check: %d process%s did not end by exit(): leaks were not looked "
			"for there\n",
			killed, killed == 1 ? "" : "es");
	if (!results->processes)
		fprintf(stderr,
			"verbatim check: no process opened a device: nothing was checked\n");
	fprintf(stderr, "verbatim check: %d finding%s in %d process%s", results->count,
		results->count == 1 ? "" : "s", results->processes,
		results->processes == 1 ? "" : "es");
	if (results->suppressed)
		fprintf(stderr, ", %d suppressed", results->suppressed);
	if (results->more)
		fprintf(stderr, ", %d more at the same places", results->more);
	fputc('\n', stderr);
}
