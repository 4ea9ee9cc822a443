/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Findings as text, and for the command as lines of fields with tabs between (tools/check.c reads
 * them):
 *
 *	begin	PID PROGRAM
 *	finding	RULE PID PROGRAM OBJECT WR_ID|- TEXT CAUSE-IS HERE CAUSE
 *	more	RULE PID PROGRAM COUNT			that were not shown
 *	used	PID LINE COUNT SUPPRESSION
 *	end	PID PROGRAM FINDINGS SUPPRESSED
 *
 * HERE and CAUSE are frames, function|file|line|module|offset with ; between. What would be a tab,
 * a bar, a semicolon or the end of a line is a blank.
 */
#include "check/report.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/small_file.h"
#include "base/text.h"
#include "check/rule.h"
#include "check/stack.h"

#define TEXT_BYTES 16384u
#define PLACES 1024u
#define MAX_REPORTS 10u

struct check_place {
	uint64_t key;
	unsigned rule, count;
};

static struct check_options options;
static struct check_suppressions suppressions;
static struct check_place places[PLACES];
static unsigned place_count, findings, suppressed;

/* ---- options ---- */

static int option_refuse(const char *word)
{
	complain("VERBATIM_CHECK: '%s' is not understood: expected 0, 1, or words with commas "
		 "between: tier=state, max-reports=N, suppress=FILE, report=FILE, device=PROFILE, "
		 "strict",
		 word);
	return EINVAL;
}

static int option_read_one(const char *word, struct check_options *to)
{
	uint64_t number;
	const char *name;
	char names[256];

	if (!strcmp(word, "1") || !strcmp(word, "tier=state") || !*word)
		return 0;
	if (!strcmp(word, "strict")) {
		to->strict = true;
		return 0;
	}
	if (!strncmp(word, "device=", 7)) {
		name = word + 7;
		to->profile = check_profile_find(name);
		if (to->profile)
			return 0;
		complain("VERBATIM_CHECK: device=%s: expected one of %s", name,
			 check_profile_names(names, sizeof(names)));
		return EINVAL;
	}
	if (!strncmp(word, "suppress=", 9) && strlen(word + 9) < sizeof(to->suppress) && word[9]) {
		strcpy(to->suppress, word + 9);
		return 0;
	}
	if (!strncmp(word, "report=", 7) && strlen(word + 7) < sizeof(to->file) && word[7]) {
		strcpy(to->file, word + 7);
		return 0;
	}
	if (strncmp(word, "max-reports=", 12) || !text_number(word + 12, 1, UINT32_MAX, &number))
		return option_refuse(word);
	to->max_reports = (unsigned)number;
	return 0;
}

int check_options_read(const char *text, struct check_options *to)
{
	char copy[1024], *rest = copy, *word;
	int err = 0;

	*to = (struct check_options){ .max_reports = MAX_REPORTS };
	if (strlen(text) >= sizeof(copy))
		return option_refuse("a value of more than 1023 characters");
	strcpy(copy, text);
	while (!err && (word = strsep(&rest, ",")))
		err = option_read_one(word, to);
	if (!err && to->strict && !check_profile_may_refuse(to->profile)) {
		complain("VERBATIM_CHECK: strict needs device=PROFILE, and ib reports only");
		err = EINVAL;
	}
	return err;
}

/* NULL: *why says why. */
static char *suppressions_text(const char *path, const char **why)
{
	int fd = small_file_open(path, why);
	FILE *stream = fd < 0 ? NULL : small_file_stream(fd, why);
	char *text = NULL;
	size_t room = 0;
	ssize_t bytes;

	if (!stream)
		return NULL;
	bytes = getdelim(&text, &room, '\0', stream);
	*why = bytes > 0 && !text[bytes - 1] ? "it is no text: it has a byte of 0" :
	       bytes < 0 && !feof(stream)    ? strerror(errno) : NULL;
	fclose(stream);
	if (bytes < 0 || *why) {
		free(text);
		text = *why ? NULL : strdup("");
	}
	return text;
}

int check_report_start(const struct check_options *from)
{
	const char *path = options.suppress, *why;
	unsigned line;
	char *text;

	options = *from;		/* @path among them */
	if (!*path)
		return 0;
	text = suppressions_text(path, &why);
	line = text ? check_suppress_read(&suppressions, text, &why) : 0;
	free(text);
	if (line)
		complain("VERBATIM_CHECK: suppressions %s, line %u: %s", path, line, why);
	else if (!text)
		complain("VERBATIM_CHECK: suppressions %s: %s", path, why ? why : strerror(ENOMEM));
	return text && !line ? 0 : EINVAL;
}

/* ---- writing ---- */

struct check_text {
	char bytes[TEXT_BYTES];
	size_t used;
};

static void __attribute__((format(printf, 2, 3)))
text_add(struct check_text *text, const char *format, ...)
{
	va_list arguments;
	int length;

	va_start(arguments, format);
	length = vsnprintf(text->bytes + text->used, TEXT_BYTES - text->used, format, arguments);
	va_end(arguments);
	if (length > 0)
		text->used += (size_t)length < TEXT_BYTES - text->used
				      ? (size_t)length
				      : TEXT_BYTES - 1 - text->used;
}

static bool report_write(int fd, const char *bytes, size_t count)
{
	while (count) {
		ssize_t wrote = write(fd, bytes, count);

		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote <= 0)
			return false;
		bytes += wrote;
		count -= (size_t)wrote;
	}
	return true;
}

/*
 * A line of the file, in one piece: other processes write to it, too. Not waited for where it is a pipe that
 * nobody reads; what is lost then is said once.
 */
static void report_line(const struct check_text *text)
{
	static bool told;
	bool wrote;
	int fd;

	if (!options.file[0])
		return;
	fd = open(options.file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
	wrote = fd >= 0 && report_write(fd, text->bytes, text->used);
	if (!wrote && !told)
		complain("VERBATIM_CHECK: report=%s: %m: findings are lost; expected a file that can be written",
			 options.file);
	told |= !wrote;
	if (fd >= 0)
		close(fd);
}

static const char *report_plain(const char *text, char *out, size_t size)
{
	size_t used = 0;

	for (; *text && used + 1 < size; text++)
		out[used++] = (unsigned char)*text < ' ' || strchr("|;", *text) ? ' ' : *text;
	out[used] = '\0';
	return out;
}

static void add_frames(struct check_text *text, const struct check_frame *frames, unsigned count)
{
	char function[128], file[256], module[256];

	for (unsigned i = 0; i < count; i++)
		text_add(text, "%s%s|%s|%d|%s|%llx", i ? ";" : "",
			 report_plain(frames[i].function, function, sizeof(function)),
			 report_plain(frames[i].file, file, sizeof(file)), frames[i].line,
			 report_plain(frames[i].module, module, sizeof(module)),
			 (unsigned long long)frames[i].offset);
}

static void show_frames(struct check_text *text, const struct check_frame *frames, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const struct check_frame *frame = &frames[i];

		text_add(text, "      #%u %s", i, frame->function[0] ? frame->function : "?");
		if (frame->file[0])
			text_add(text, " at %s:%d\n", frame->file, frame->line);
		else
			text_add(text, " in %s+0x%llx\n", frame->module[0] ? frame->module : "?",
				 (unsigned long long)frame->offset);
	}
}

static void report_tell(const struct check_finding *finding, const struct check_frame *frames,
			unsigned here, unsigned cause)
{
	static struct check_text text;	/* under check.lock */
	const struct check_rule_row *rule = check_rule_row(finding->rule);
	char object[64] = "", words[CHECK_TEXT_MAX], wr_id[32] = "-";

	text.used = 0;
	if (finding->has_wr_id)
		snprintf(wr_id, sizeof(wr_id), "%llu", (unsigned long long)finding->wr_id);
	text_add(&text, "verbatim check: %s: %s\n  %s(%d): %s", rule->id, rule->sentence,
		 program_invocation_short_name, (int)getpid(), finding->text);
	if (finding->has_wr_id)
		text_add(&text, " (wr_id %s)", wr_id);
	text_add(&text, "\n");
	if (!finding->at_cause) {
		text_add(&text, "    here:\n");
		show_frames(&text, frames, here);
	}
	if (cause) {
		text_add(&text, "    %s:\n", finding->cause_is);
		show_frames(&text, frames + here, cause);
	}
	text_add(&text, "  rule: %s\n  to do: %s (verbatim explain %s)\n", rule->source,
		 rule->remedy, rule->id);
	report_write(STDERR_FILENO, text.bytes, text.used);
	text.used = 0;
	if (finding->object)
		check_name(finding->object, object);
	text_add(&text, "finding\t%s\t%d\t%s\t%s\t%s\t%s\t%s\t", rule->id, (int)getpid(),
		 program_invocation_short_name, object, wr_id,
		 report_plain(finding->text, words, sizeof(words)),
		 finding->cause_is ? finding->cause_is : "");
	if (!finding->at_cause)
		add_frames(&text, frames, here);
	text_add(&text, "\t");
	add_frames(&text, frames + here, cause);
	text_add(&text, "\n");
	report_line(&text);
}

void check_report_begin(void)
{
	static struct check_text text;	/* under check.lock */

	text.used = 0;
	text_add(&text, "begin\t%d\t%s\n", (int)getpid(), program_invocation_short_name);
	report_line(&text);
}

/* How often that rule has spoken at that place, with this time. */
static unsigned count_place(unsigned rule, uint64_t key)
{
	for (unsigned i = 0; i < place_count; i++)
		if (places[i].rule == rule && places[i].key == key)
			return ++places[i].count;
	if (place_count == PLACES)
		return 1;
	places[place_count++] = (struct check_place){ key, rule, 1 };
	return 1;
}

void check_report_finding(struct check_model *model, const struct check_finding *finding)
{
	static struct check_frame frames[2 * CHECK_STACK_FRAMES];	/* under check.lock */
	uint32_t stack = finding->at_cause ? 0 : check_stack_take();
	unsigned here, cause,
		count = count_place(finding->rule,
				    check_stack_place(stack ? stack : finding->cause));
	char object[64] = "";

	if (count > options.max_reports)
		return;
	here = check_stack_name(stack, frames, CHECK_STACK_FRAMES);
	cause = finding->cause_is
			? check_stack_name(finding->cause, frames + here, CHECK_STACK_FRAMES)
			: 0;
	if (finding->object)
		check_name(finding->object, object);
	if (check_suppressed(&suppressions, check_rule_row(finding->rule)->id, object, frames,
			     here + cause)) {
		suppressed++;
		return;
	}
	findings++;
	report_tell(finding, frames, here, cause);
}

void check_report_end(void)
{
	static struct check_text text, lines;

	text.used = lines.used = 0;
	for (unsigned i = 0; i < place_count; i++) {
		unsigned more = places[i].count > options.max_reports
					? places[i].count - options.max_reports
					: 0;
		const char *id = check_rule_row(places[i].rule)->id;

		if (!more)
			continue;
		text_add(&text,
			 "verbatim check: %s(%d): %s: %u more at one place, not shown (max-reports "
			 "%u)\n",
			 program_invocation_short_name, (int)getpid(), id, more,
			 options.max_reports);
		text_add(&lines, "more\t%s\t%d\t%s\t%u\n", id, (int)getpid(),
			 program_invocation_short_name, more);
	}
	for (const struct check_suppression *one = suppressions.first; one; one = one->next)
		text_add(&lines, "used\t%d\t%u\t%u\t%s\n", (int)getpid(), one->line, one->used,
			 one->text);
	text_add(&lines, "end\t%d\t%s\t%u\t%u\n", (int)getpid(), program_invocation_short_name,
		 findings, suppressed);
	report_line(&lines);
	/* The command sums up itself, also what a process that was killed has found. */
	if (!options.file[0]) {
		for (const struct check_suppression *one = suppressions.first; one; one = one->next)
			text_add(&text, "verbatim check: %s(%d): suppression of line %u %s: %s\n",
				 program_invocation_short_name, (int)getpid(), one->line,
				 one->used ? "was used" : "was never used", one->text);
		text_add(&text, "verbatim check: %s(%d): %u finding%s, %u suppressed\n",
			 program_invocation_short_name, (int)getpid(), findings,
			 findings == 1 ? "" : "s", suppressed);
	}
	report_write(STDERR_FILENO, text.bytes, text.used);
}

void check_report_forget(void)
{
	place_count = findings = suppressed = 0;
	for (struct check_suppression *one = suppressions.first; one; one = one->next)
		one->used = 0;
}
