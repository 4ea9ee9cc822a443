/* SPDX-License-Identifier: BSD-2-Clause */
/* Numbers and lines of settings (text.h). Without a locale: digits are '0' to '9'. */
#include "base/text.h"

#include <ctype.h>
#include <string.h>

bool text_scan_number(const char **text, uint64_t greatest, uint64_t *number)
{
	const char *at = *text;
	uint64_t value = 0;

	for (; *at >= '0' && *at <= '9'; at++) {
		uint64_t digit = (uint64_t)(*at - '0');

		if (digit > greatest || value > (greatest - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	if (at == *text)
		return false;
	*text = at;
	*number = value;
	return true;
}

bool text_number(const char *text, uint64_t least, uint64_t greatest, uint64_t *number)
{
	uint64_t value;

	if (!text_scan_number(&text, greatest, &value) || *text || value < least)
		return false;
	*number = value;
	return true;
}

char *text_trim(char *text)
{
	char *end;

	while (isspace((unsigned char)*text))
		text++;
	end = text + strlen(text);
	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	return text;
}

bool text_next_line(FILE *file, struct text_line *line)
{
	size_t length;
	int c;

	if (!fgets(line->bytes, sizeof(line->bytes), file))
		return false;
	line->number++;
	length = strlen(line->bytes);
	line->is_whole = length < sizeof(line->bytes) - 1 || line->bytes[length - 1] == '\n';
	if (!line->is_whole)
		while ((c = getc(file)) != '\n' && c != EOF)
			;
	line->text = text_trim(line->bytes);
	return true;
}
