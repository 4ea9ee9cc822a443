/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Findings as SARIF 2.1.0 (OASIS), within the limits of GitHub's code scanning: at most 5,000
 * results; paths below the working directory are relative to it (%SRCROOT%), others whole; each
 * result has a location and a fingerprint that does not change with lines. What was suppressed is
 * not there: GitHub ignores how SARIF says that.
 */
#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "check.h"

enum { RESULTS_MAX = 5000 };

static int rule_index(const struct check_rule_text *rule)
{
	return (int)(rule - check_rule_texts);
}

/* A reference as RFC 3986 has it: what is no letter of a path is %XX. */
static void sarif_uri(FILE *file, const char *path)
{
	fputs(*path == '/' ? "\"file://" : "\"", file);
	for (; *path; path++)
		if ((*path >= 'a' && *path <= 'z') || (*path >= 'A' && *path <= 'Z') ||
		    (*path >= '0' && *path <= '9') || strchr("/._-~+", *path))
			fputc(*path, file);
		else
			fprintf(file, "%%%02X", (unsigned)(unsigned char)*path);
	fputc('"', file);
}

static void sarif_place(FILE *file, const char *name, int line)
{
	char path[4096];

	check_relative(name, path, sizeof(path));
	fputs("\"physicalLocation\":{\"artifactLocation\":{\"uri\":", file);
	sarif_uri(file, path);
	fprintf(file, "%s}", *path == '/' ? "" : ",\"uriBaseId\":\"%SRCROOT%\"");
	if (line > 0)
		fprintf(file, ",\"region\":{\"startLine\":%d}", line);
	fputc('}', file);
}

static void sarif_stack(FILE *file, const char *what, const struct check_line_stack *stack)
{
	fputs("{\"message\":{\"text\":", file);
	check_write_quoted(file, what);
	fputs("},\"frames\":[", file);
	for (int i = 0; i < stack->count; i++) {
		const struct check_line_frame *frame = &stack->frame[i];

		fprintf(file, "%s{\"location\":{", i ? "," : "");
		if (*frame->file) {
			sarif_place(file, frame->file, frame->line);
			fputc(',', file);
		}
		fputs("\"logicalLocations\":[{\"fullyQualifiedName\":", file);
		check_write_quoted(file, *frame->function ? frame->function : "?");
		fputs(",\"kind\":\"function\"}]},\"module\":", file);
		check_write_quoted(file, frame->module);
		fputc('}', file);
	}
	fputs("]}", file);
}

/* Rule and functions, not lines, addresses or numbers. */
static uint64_t fingerprint(const struct check_found *found)
{
	const struct check_line_stack *const stacks[] = { &found->here, &found->cause };
	uint64_t hash = 0xcbf29ce484222325u;

	for (const char *c = found->rule->id; *c; c++)
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < stacks[i]->count; j++)
			for (const char *c = stacks[i]->frame[j].function; *c; c++)
				hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
	return hash;
}

static void sarif_result(FILE *file, const struct check_found *found)
{
	const struct check_line_frame *frame = check_main_frame(found);

	fprintf(file,
		"{\"ruleId\":\"%s\",\"ruleIndex\":%d,\"level\":\"error\",\"message\":{\"text\":",
		found->rule->id, rule_index(found->rule));
	check_write_quoted(file, found->text);
	fputs("},\"locations\":[{", file);
	/* Without debug information: the program itself, which has no lines. */
	sarif_place(file, frame ? frame->file : found->program, frame ? frame->line : 0);
	fprintf(file, "}],\"partialFingerprints\":{\"verbatimCheck/v1\":\"%016" PRIx64 "\"}",
		fingerprint(found));
	if (found->here.count || found->cause.count) {
		fputs(",\"stacks\":[", file);
		if (found->here.count)
			sarif_stack(file, "here", &found->here);
		if (found->here.count && found->cause.count)
			fputc(',', file);
		if (found->cause.count)
			sarif_stack(file, found->cause_is, &found->cause);
		fputc(']', file);
	}
	fputc('}', file);
}

void check_write_sarif(FILE *file, const struct check_results *results)
{
	fputs("{\"$schema\":\"https://json.schemastore.org/"
	      "sarif-2.1.0.json\",\"version\":\"2.1.0\",\"runs\":[{"
	      "\"tool\":{\"driver\":{\"name\":\"verbatim check\",\"version\":\"" VERBATIM_VERSION
	      "\",\"rules\":[",
	      file);
	for (const struct check_rule_text *rule = check_rule_texts; rule->id; rule++) {
		fprintf(file, "%s{\"id\":\"%s\",\"shortDescription\":{\"text\":",
			rule == check_rule_texts ? "" : ",", rule->id);
		check_write_quoted(file, rule->sentence);
		fputs("},\"fullDescription\":{\"text\":", file);
		check_write_quoted(file, rule->source);
		fputs("},\"help\":{\"text\":", file);
		check_write_quoted(file, rule->remedy);
		fputs("},\"defaultConfiguration\":{\"level\":\"error\"}}", file);
	}
	fputs("]}},\"columnKind\":\"utf16CodeUnits\",\"results\":[", file);
	for (int i = 0; i < results->count && i < RESULTS_MAX; i++) {
		if (i)
			fputc(',', file);
		sarif_result(file, &results->found[i]);
	}
	fputs("]}]}\n", file);
}
