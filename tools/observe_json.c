/* SPDX-License-Identifier: BSD-2-Clause */
/* Statistics as JSON; docs/stats.md is the schema. Values are those of the processes, which were checked. */
#include <stdio.h>
#include <string.h>

#include "observe.h"

static const struct {
	const char *kind, *list;
} lists[] = {
	{ "device", "devices" }, { "qp", "qps" }, { "cq", "cqs" }, { "srq", "srqs" }, { "mr", "mrs" },
	{ "cm_id", "cm_ids" },
};

static void print_value(const struct observed_value *value)
{
	printf(value->quoted ? "\"%s\": \"%s\"" : "\"%s\": %s", value->name, value->text);
}

static void print_object(const struct observed_record *record)
{
	unsigned i;

	printf("{");
	for (i = 1; i < record->count; i++) {
		printf("%s", i > 1 ? ", " : "");
		print_value(&record->value[i]);
	}
	printf("}");
}

static void print_list(const struct observed_process *process, const char *kind, const char *list)
{
	const char *between = "\n        ";
	unsigned i;

	printf(",\n      \"%s\": [", list);
	for (i = 0; i < process->count; i++) {
		const struct observed_record *record = &process->record[i];

		if (record->hidden || strcmp(record->kind, kind))
			continue;
		printf("%s", between);
		print_object(record);
		between = ",\n        ";
	}
	printf("]");
}

static void print_process_json(const struct observed_process *process)
{
	const struct observed_record *record = observed_first(process, "process");
	unsigned i;

	printf("    {\"complete\": %s, ", process->cut ? "false" : "true");
	for (i = 1; record && i < record->count; i++) {
		/* The kernel's word counts: in a PID namespace the process has another number. */
		if (!strcmp(record->value[i].name, "pid"))
			printf("\"pid\": %d", (int)process->process.pid);
		else
			print_value(&record->value[i]);
		printf("%s", i + 1 < record->count ? ", " : "");
	}
	for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		print_list(process, lists[i].kind, lists[i].list);
	for (i = 0; i < 2; i++) {
		const char *name = i ? "hardware" : "counters";

		record = observed_first(process, name);
		if (!record)
			continue;
		printf(",\n      \"%s\": ", name);
		print_object(record);
	}
	printf("}");
}

/* Texts of inspect/client.c: printable ASCII. */
static void print_plain(const char *name, const char *text)
{
	printf("\"%s\": \"", name);
	for (; *text; text++)
		printf(*text == '"' || *text == '\\' ? "\\%c" : "%c", *text);
	printf("\"");
}

static void print_not_shown(const struct observed *observed)
{
	const char *between = "\n    ";
	unsigned i;

	printf("],\n  \"not_shown\": [");
	for (i = 0; i < observed->count; i++) {
		const struct inspected *process = &observed->process[i].process;

		if (observed->process[i].shown)
			continue;
		printf("%s{\"pid\": %d, \"user\": %u, ", between, (int)process->pid, (unsigned)process->uid);
		print_plain("program", process->program);
		printf(", ");
		print_plain("why", process->why);
		printf("}");
		between = ",\n    ";
	}
	printf("]\n}\n");
}

void observed_print_json(const struct observed *observed, bool all)
{
	const char *between = "\n";
	unsigned i;

	(void)all;
	printf("{\n  \"version\": 1,\n  \"processes\": [");
	for (i = 0; i < observed->count; i++) {
		if (!observed->process[i].shown)
			continue;
		printf("%s", between);
		print_process_json(&observed->process[i]);
		between = ",\n";
	}
	print_not_shown(observed);
}
