/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Statistics in the text format that Prometheus scrapes (version 0.0.4): each metric once, with its help and
 * type, then a sample for each process or QP.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/counters.h"
#include "observe.h"

/* Metrics of records: the field "name" of each record of the kind, of the rows that have one. */
static const struct metric {
	const char *kind, *field, *name, *type, *help;
} metrics[] = {
#define METRIC_NONE(...)
#define METRIC_GAUGE(kind, field, name, help) { kind, field, name, "gauge", help },
#define METRIC_COUNTER(kind, field, name, help) { kind, field, name, "counter", help },
#define PROCESS(type, field, value, metric, name, help) METRIC_##metric("process", #field, name, help)
#define QP(type, field, value, metric, name, help) METRIC_##metric("qp", #field, name, help)
#define CQ(type, field, value, metric, name, help) METRIC_##metric("cq", #field, name, help)
#define SRQ(type, field, value, metric, name, help) METRIC_##metric("srq", #field, name, help)
#include "inspect/stats.def"
};

static void print_head(const char *name, const char *type, const char *help)
{
	printf("# HELP verbatim_%s %s\n# TYPE verbatim_%s %s\n", name, help, name, type);
}

/* Text of a record, with escapes \u00XX, or of inspect/client.c, as a label's value. */
static void print_label(const char *name, const char *text)
{
	char hex[3] = "";

	printf("%s=\"", name);
	for (; *text; text++) {
		unsigned code = (unsigned char)*text;

		if (*text == '\\' && text[1] == 'u' && strlen(text) >= 6) {
			memcpy(hex, text + 4, 2);
			code = (unsigned)strtoul(hex, NULL, 16);
			text += 5;
		}
		if (code == '"' || code == '\\')
			printf("\\%c", (int)code);
		else
			printf("%c", code >= 0x20 && code < 0x7f ? (int)code : '?');
	}
	printf("\"");
}

static void print_process_labels(const struct observed_process *process)
{
	printf("pid=\"%d\",", (int)process->process.pid);
	print_label("program", process->process.program);
}

static void print_record_labels(const struct observed_record *record)
{
	const char *kind = record->kind;

	if (!strcmp(kind, "process"))
		return;
	printf(",");
	print_label("device", observed_text(record, "device"));
	printf(",");
	print_label(kind, observed_text(record, kind));
	if (strcmp(kind, "qp"))
		return;
	printf(",");
	print_label("type", observed_text(record, "type"));
	printf(",");
	print_label("state", observed_text(record, "state"));
	printf(",");
	print_label("path", observed_text(record, "path"));
}

static void print_metric(const struct observed *observed, const struct metric *metric)
{
	unsigned i, j;

	print_head(metric->name, metric->type, metric->help);
	for (i = 0; i < observed->count; i++)
		for (j = 0; j < observed->process[i].count; j++) {
			const struct observed_record *record = &observed->process[i].record[j];

			if (!observed->process[i].shown || record->hidden || strcmp(record->kind, metric->kind))
				continue;
			printf("verbatim_%s{", metric->name);
			print_process_labels(&observed->process[i]);
			print_record_labels(record);
			printf("} %llu\n", (unsigned long long)observed_number(record, metric->field));
		}
}

static void print_counter(const struct observed *observed, const char *kind, const char *field, const char *prefix,
			  const char *help)
{
	char name[96];
	unsigned i;

	snprintf(name, sizeof(name), "%s%s_total", prefix, field);
	print_head(name, "counter", help);
	for (i = 0; i < observed->count; i++) {
		if (!observed->process[i].shown)
			continue;
		printf("verbatim_%s{", name);
		print_process_labels(&observed->process[i]);
		printf("} %llu\n", (unsigned long long)observed_number(observed_first(&observed->process[i], kind),
									 field));
	}
}

void observed_print_prometheus(const struct observed *observed, bool all)
{
	unsigned i;

	(void)all;
	for (i = 0; i < COUNTER_COUNT; i++)
		print_counter(observed, "counters", counter_name(i), "", counter_text(i));
	for (i = 0; i < HARDWARE_COUNT; i++)
		print_counter(observed, "hardware", hardware_row(i)->name, "hw_", "as adapters name it");
	for (i = 0; i < sizeof(metrics) / sizeof(metrics[0]); i++)
		print_metric(observed, &metrics[i]);
	print_head("processes_not_shown", "gauge", "processes that may not be looked at, or do not answer");
	printf("verbatim_processes_not_shown %u\n", observed->count - observed->shown);
}
