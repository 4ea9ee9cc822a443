/* SPDX-License-Identifier: BSD-2-Clause */
/* Findings as lines of JSON, as JUnit, and as annotations of GitHub's workflows (docs/check.md). */
#include <string.h>

#include "check.h"

void check_write_quoted(FILE *file, const char *text)
{
	fputc('"', file);
	for (; *text; text++) {
		if (*text == '"' || *text == '\\')
			fprintf(file, "\\%c", *text);
		else if ((unsigned char)*text < ' ')
			fprintf(file, "\\u%04x", (unsigned)(unsigned char)*text);
		else
			fputc(*text, file);
	}
	fputc('"', file);
}

static void json_member(FILE *file, const char *name, const char *text)
{
	fprintf(file, ",\"%s\":", name);
	check_write_quoted(file, text);
}

static void json_stack(FILE *file, const char *name, const struct check_line_stack *stack)
{
	if (!stack->count)
		return;
	fprintf(file, ",\"%s\":[", name);
	for (int i = 0; i < stack->count; i++) {
		const struct check_line_frame *frame = &stack->frame[i];

		fprintf(file, "%s{\"function\":", i ? "," : "");
		check_write_quoted(file, frame->function);
		if (*frame->file) {
			json_member(file, "file", frame->file);
			fprintf(file, ",\"line\":%d", frame->line);
		}
		json_member(file, "module", frame->module);
		fprintf(file, ",\"offset\":\"0x%s\"}", frame->offset);
	}
	fputc(']', file);
}

void check_write_json(FILE *file, const struct check_results *results)
{
	for (int i = 0; i < results->count; i++) {
		const struct check_found *found = &results->found[i];

		fprintf(file, "{\"rule\":\"%s\",\"pid\":%d", found->rule->id, found->pid);
		json_member(file, "program", found->program);
		json_member(file, "sentence", found->rule->sentence);
		json_member(file, "text", found->text);
		if (*found->object)
			json_member(file, "object", found->object);
		if (strcmp(found->wr_id, "-"))
			fprintf(file, ",\"wr_id\":%s", found->wr_id);
		json_stack(file, "here", &found->here);
		if (*found->cause_is)
			json_member(file, "cause_is", found->cause_is);
		json_stack(file, "cause", &found->cause);
		json_member(file, "source", found->rule->source);
		json_member(file, "remedy", found->rule->remedy);
		fputs("}\n", file);
	}
}

/* ---- JUnit ---- */

static void xml_text(FILE *file, const char *text)
{
	for (; *text; text++)
		switch (*text) {
		case '<':
			fputs("&lt;", file);
			break;
		case '>':
			fputs("&gt;", file);
			break;
		case '&':
			fputs("&amp;", file);
			break;
		case '"':
			fputs("&quot;", file);
			break;
		default:
			fputc((unsigned char)*text < ' ' && *text != '\n' && *text != '\t' ? '?'
											   : *text,
			      file);
		}
}

static void xml_stack(FILE *file, const char *name, const struct check_line_stack *stack)
{
	if (!stack->count)
		return;
	xml_text(file, name);
	fputs(":\n", file);
	for (int i = 0; i < stack->count; i++) {
		const struct check_line_frame *frame = &stack->frame[i];

		fprintf(file, "  #%d ", i);
		xml_text(file, *frame->function ? frame->function : "?");
		if (*frame->file) {
			fputs(" at ", file);
			xml_text(file, frame->file);
			fprintf(file, ":%d\n", frame->line);
		} else {
			fputs(" in ", file);
			xml_text(file, frame->module);
			fprintf(file, "+0x%s\n", frame->offset);
		}
	}
}

/* A test case for each rule: those of which something was found have failed. */
void check_write_junit(FILE *file, const struct check_results *results)
{
	int rules = 0, failed = 0;

	for (const struct check_rule_text *rule = check_rule_texts; rule->id; rule++) {
		bool is = false;

		for (int i = 0; i < results->count; i++)
			is |= results->found[i].rule == rule;
		rules++;
		failed += is;
	}
	fprintf(file,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
		"<testsuite name=\"verbatim check\" tests=\"%d\" failures=\"%d\" errors=\"0\">\n",
		rules, failed);
	for (const struct check_rule_text *rule = check_rule_texts; rule->id; rule++) {
		bool open = false;

		fprintf(file, "<testcase classname=\"verbatim.check\" name=\"%s\">", rule->id);
		for (int i = 0; i < results->count; i++) {
			const struct check_found *found = &results->found[i];

			if (found->rule != rule)
				continue;
			if (!open) {
				fputs("<failure message=\"", file);
				xml_text(file, rule->sentence);
				fputs("\">", file);
			}
			open = true;
			fputs("\n", file);
			xml_text(file, found->program);
			fprintf(file, "(%d): ", found->pid);
			xml_text(file, found->text);
			fputs("\n", file);
			xml_stack(file, "here", &found->here);
			xml_stack(file, found->cause_is, &found->cause);
		}
		fputs(open ? "</failure></testcase>\n" : "</testcase>\n", file);
	}
	fputs("</testsuite>\n</testsuites>\n", file);
}

/* ---- GitHub ---- */

static void github_text(FILE *file, const char *text, bool property)
{
	for (; *text; text++)
		if (*text == '%' || *text == '\n' || *text == '\r' ||
		    (property && (*text == ':' || *text == ',')))
			fprintf(file, "%%%02X", (unsigned)(unsigned char)*text);
		else
			fputc(*text, file);
}

void check_write_github(FILE *file, const struct check_results *results)
{
	char path[4096];

	for (int i = 0; i < results->count; i++) {
		const struct check_found *found = &results->found[i];
		const struct check_line_frame *frame = check_main_frame(found);

		fputs("::error ", file);
		if (frame) {
			fputs("file=", file);
			github_text(file, check_relative(frame->file, path, sizeof(path)), true);
			fprintf(file, ",line=%d,", frame->line > 0 ? frame->line : 1);
		}
		fprintf(file, "title=%s::", found->rule->id);
		github_text(file, found->rule->sentence, false);
		github_text(file, ": ", false);
		github_text(file, found->text, false);
		github_text(file, "\nTo do: ", false);
		github_text(file, found->rule->remedy, false);
		fputc('\n', file);
	}
}
