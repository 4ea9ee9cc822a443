/* SPDX-License-Identifier: BSD-2-Clause */
/* The words of a subnet's file: numbers, names, ports, rates, name=value; nodes by name; complaints. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fabric/file_internal.h"

#define NAME_MAX_BYTES	128u

void fabric_error_add(struct fabric_errors *errors, unsigned line, const char *format, ...)
{
	va_list arguments;

	if (errors->count < FABRIC_ERRORS_MAX) {
		struct fabric_error *error = &errors->error[errors->count];

		error->line = line;
		va_start(arguments, format);
		vsnprintf(error->text, sizeof(error->text), format, arguments);
		va_end(arguments);
	}
	errors->count++;
}

void reader_complain(struct reader *reader, const char *format, ...)
{
	char text[sizeof(((struct fabric_error *)NULL)->text)];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	if (reader->included)
		fabric_error_add(reader->errors, reader->line, "%.60s:%u: %s", reader->included,
				 reader->included_line, text);
	else
		fabric_error_add(reader->errors, reader->line, "%s", text);
}

bool reader_room(struct reader *reader, void **array, size_t room, size_t count, size_t size,
			size_t *new_room)
{
	void *bigger;

	if (count < room)
		return true;
	*new_room = room ? 2 * room : 64;
	bigger = realloc(*array, *new_room * size);
	if (!bigger) {
		reader->no_memory = true;
		return false;
	}
	*array = bigger;
	return true;
}

/* ---- words ---- */

const char *file_skip_blanks(const char *p)
{
	while (*p == ' ' || *p == '\t')
		p++;
	return p;
}

bool file_word_is(const char *p, const char *word)
{
	size_t bytes = strlen(word);

	return !strncmp(p, word, bytes) && !isalnum((unsigned char)p[bytes]) && p[bytes] != '_';
}

/* A number at *p, which is moved behind it. False: none, or over @most. */
bool file_read_number(const char **p, int base, uint64_t most, uint64_t *value)
{
	char *end;

	if (!isxdigit((unsigned char)**p))
		return false;
	errno = 0;
	*value = strtoull(*p, &end, base);
	if (end == *p || errno || *value > most)
		return false;
	*p = end;
	return true;
}

/* A quoted name at *p. NULL: complained of. To be freed. */
char *file_read_name(struct reader *reader, const char **p, const char *what)
{
	const char *begin = file_skip_blanks(*p), *end;
	char *name;

	end = *begin == '"' ? strchr(begin + 1, '"') : NULL;
	if (!end) {
		COMPLAIN(reader, "%s is not in quotes; write \"name\"", what);
		return NULL;
	}
	if (end == begin + 1 || end - begin - 1 > (ptrdiff_t)NAME_MAX_BYTES) {
		COMPLAIN(reader, "%s has %zd characters; give it 1 to %u", what, end - begin - 1,
			 NAME_MAX_BYTES);
		return NULL;
	}
	name = strndup(begin + 1, (size_t)(end - begin - 1));
	reader->no_memory |= !name;
	*p = end + 1;
	return name;
}

/* "[N]". False: complained of. */
bool file_read_port(struct reader *reader, const char **p, unsigned *port)
{
	const char *at = file_skip_blanks(*p);
	uint64_t value;

	if (*at != '[' || (at++, !file_read_number(&at, 10, PORTS_MAX, &value)) || *at != ']') {
		COMPLAIN(reader, "no port number here: \"%.20s\"; write [1] to [%u]",
			 file_skip_blanks(*p), PORTS_MAX);
		return false;
	}
	*port = (unsigned)value;
	*p = at + 1;
	return true;
}

int file_speed_of(const char *text)
{
	if (file_word_is(text, "FDR10"))	/* a vendor's own, which counts as QDR */
		return SPEED_QDR;
	for (unsigned i = 0; i < SPEEDS; i++)
		if (file_word_is(text, speeds[i].name))
			return (int)i;
	return -1;
}

/* "4x": one of the widths; 0: none. */
uint8_t file_width_of(const char *text, const char **behind)
{
	static const struct { const char *text; uint8_t width; } widths[] = {
		{ "12x", WIDTH_12X }, { "1x", WIDTH_1X }, { "2x", WIDTH_2X }, { "4x", WIDTH_4X },
		{ "8x", WIDTH_8X },
	};

	for (unsigned i = 0; i < sizeof(widths) / sizeof(*widths); i++)
		if (!strncasecmp(text, widths[i].text, strlen(widths[i].text))) {
			*behind = text + strlen(widths[i].text);
			return widths[i].width;
		}
	return 0;
}

/* ---- names ---- */

uint64_t reader_hash(const char *name)
{
	uint64_t hash = UINT64_C(14695981039346656037);

	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * UINT64_C(1099511628211);
	return hash ^ hash >> 32;
}

size_t reader_names_place(const struct reader *reader, const char *name)
{
	size_t place = reader_hash(name) % reader->names_room;

	while (reader->names[place] &&
	       strcmp(reader->draft[reader->names[place] - 1].node.id, name))
		place = (place + 1) % reader->names_room;
	return place;
}

uint32_t reader_find(const struct reader *reader, const char *name)
{
	return reader->names_room ? reader->names[reader_names_place(reader, name)] - 1 : FABRIC_NONE;
}

/* False: no memory. */
bool reader_names_grow(struct reader *reader)
{
	if (2 * (size_t)reader->drafts < reader->names_room)
		return true;
	free(reader->names);
	reader->names_room = reader->names_room ? 4 * reader->names_room : 256;
	reader->names = calloc(reader->names_room, sizeof(*reader->names));
	if (!reader->names) {
		reader->no_memory = true;
		reader->names_room = 0;
		return false;
	}
	for (uint32_t i = 0; i < reader->drafts; i++)
		reader->names[reader_names_place(reader, reader->draft[i].node.id)] = i + 1;
	return true;
}

/* ---- what lines of our own say ---- */

/* name=value at *p, which is moved behind it. False: there is no more, or it was complained of. */
bool file_read_option(struct reader *reader, const char **p, char name[16], char value[80])
{
	const char *at = file_skip_blanks(*p), *end;
	size_t name_bytes = strcspn(at, "= \t"), value_bytes;

	if (!*at)
		return false;
	if (!name_bytes || name_bytes > 15) {
		COMPLAIN(reader, "\"%.20s\" is not name=value", at);
		return false;
	}
	memcpy(name, at, name_bytes);
	name[name_bytes] = '\0';
	at += name_bytes;
	value[0] = '\0';
	if (*at != '=') {
		*p = at;
		return true;
	}
	at++;
	end = *at == '"' ? strchr(at + 1, '"') : NULL;
	if (*at == '"' && end)
		at++;
	else
		end = at + strcspn(at, " \t");
	value_bytes = (size_t)(end - at);
	if (value_bytes > 79) {
		COMPLAIN(reader, "%s= is too long: at most 79 characters", name);
		return false;
	}
	memcpy(value, at, value_bytes);
	value[value_bytes] = '\0';
	*p = *end == '"' ? end + 1 : end;
	return true;
}

/* The node of a verb. NULL: complained of. */
struct draft *file_verb_node(struct reader *reader, const char **p)
{
	char *name = file_read_name(reader, p, "the node's name");
	uint32_t found = name ? reader_find(reader, name) : FABRIC_NONE;

	if (name && found == FABRIC_NONE)
		COMPLAIN(reader,
			 "\"%.64s\" is not described above; move this line behind the node's own",
			 name);
	free(name);
	return found == FABRIC_NONE ? NULL : &reader->draft[found];
}
