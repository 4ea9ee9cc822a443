/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Counting of repeated lines (repeat.h). A line is known by a hash of 64 bits of its text without the
 * numbers that differ from one request to the next; two lines with one hash would be counted as one.
 */
#include "base/repeat.h"

#include <ctype.h>
#include <string.h>

#define FNV_BASIS 0xcbf29ce484222325u
#define FNV_PRIME 0x100000001b3u

/* Behind these words a number follows that makes no other line. */
static const char *const varying[] = { "wr_id ", "PSN ", "executed: ", "waiting: " };

static bool repeat_varies(const char *text, size_t before)
{
	size_t i, length;

	for (i = 0; i < sizeof(varying) / sizeof(varying[0]); i++) {
		length = strlen(varying[i]);
		if (before >= length && !memcmp(text + before - length, varying[i], length))
			return true;
	}
	return false;
}

static uint64_t repeat_hash(const char *text, size_t bytes)
{
	uint64_t hash = FNV_BASIS;
	size_t i = 0;

	while (i < bytes) {
		if (isdigit((unsigned char)text[i]) && repeat_varies(text, i)) {
			while (i < bytes && isalnum((unsigned char)text[i]))
				i++;
			continue;
		}
		hash = (hash ^ (unsigned char)text[i++]) * FNV_PRIME;
	}
	return hash ? hash : 1;
}

static void repeat_keep(struct repeat_line *line, uint64_t hash, const char *text, size_t bytes,
		uint64_t now_ns)
{
	size_t kept = bytes < REPEAT_TEXT_BYTES ? bytes : REPEAT_TEXT_BYTES - 1;

	line->hash = hash;
	line->told_ns = now_ns;
	line->patience_ns = REPEAT_TELL_NS;
	line->count = 0;
	memcpy(line->text, text, kept);
	line->text[kept] = '\0';
	if (kept < bytes)
		memcpy(line->text + kept - 3, "...", 3);
}

static struct repeat_line *repeat_find(struct repeats *repeats, uint64_t hash)
{
	struct repeat_line *line, *oldest = repeats->line;

	for (line = repeats->line; line < repeats->line + REPEAT_LINES; line++) {
		if (line->hash == hash)
			return line;
		if (line->used < oldest->used)
			oldest = line;
	}
	return oldest;
}

static bool repeat_is_flood(struct repeats *repeats, uint64_t now_ns)
{
	if (now_ns - repeats->remote_ns >= REPEAT_TELL_NS) {
		repeats->remote_ns = now_ns;
		repeats->remote = 0;
	}
	return repeats->remote++ >= REPEAT_REMOTE;
}

bool repeat_admit(struct repeats *repeats, const char *text, size_t bytes, uint64_t now_ns, bool remote,
		  repeat_tell *tell)
{
	uint64_t hash = repeat_hash(text, bytes);
	struct repeat_line *line = repeat_find(repeats, hash);
	bool known = line->hash == hash;

	if (!known && remote && repeat_is_flood(repeats, now_ns))
		return false;
	line->used = ++repeats->uses;
	if (!known) {
		repeat_tell_all(repeats, tell);
		repeat_keep(line, hash, text, bytes, now_ns);
		return true;
	}
	if (line->count || now_ns - line->told_ns < line->patience_ns)
		line->count++;
	if (now_ns - line->told_ns < line->patience_ns)
		return false;
	line->told_ns = now_ns;
	if (line->patience_ns < REPEAT_PATIENCE_NS)
		line->patience_ns *= 2;
	if (!line->count)
		return true;
	repeat_tell_all(repeats, tell);
	return false;
}

void repeat_tell_all(struct repeats *repeats, repeat_tell *tell)
{
	struct repeat_line *line;

	for (line = repeats->line; line < repeats->line + REPEAT_LINES; line++) {
		if (line->count)
			tell(line->count, line->text);
		line->count = 0;
	}
}
