/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The console's words that plant faults, which hold against the subnet manager: a cable that flips
 * bits or is degraded, a port that stays in Init, rows of forwarding tables, P_Keys, LIDs, GUIDs.
 */
#include "fabric/console.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *said(int err)
{
	return err == ENOENT ? "it was not held" : strerror(err);
}

bool console_number(const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
	char *behind;

	errno = 0;
	*value = strtoull(text, &behind, 0);
	return *text >= '0' && *text <= '9' && !*behind && !errno && *value >= least &&
	       *value <= most;
}

/* "1x", "SDR", "1xSDR", "off". False: none of them. */
static bool parse_degraded(const char *text, unsigned *lanes, const char **speed)
{
	char *behind;
	unsigned long number = strtoul(text, &behind, 10);

	*lanes = 0;
	*speed = NULL;
	if (!strcasecmp(text, "off"))
		return true;
	if (behind != text && (*behind == 'x' || *behind == 'X')) {
		*lanes = number < 12 ? (unsigned)number : 12;
		text = behind + 1;
	}
	if (*text)
		*speed = text;
	return *lanes || *speed;
}

/* cable NODE[PORT] ber 1e-9, cable NODE[PORT] degraded 1xSDR */
int console_cable_fault(struct room *room, char **word, FILE *out)
{
	bool errors = !strcasecmp(word[2], "ber");
	const char *speed;
	unsigned lanes;
	struct end end;
	double rate;
	char *behind;
	int err;

	rate = strtod(word[3], &behind);
	if (console_end_parse(room, word[1], &end, out) || !console_end_exists(room, &end, out))
		return EINVAL;
	if (end.port == FABRIC_NONE) {
		fprintf(out, "%s: which cable? %s[1]\n", word[1], word[1]);
		return EINVAL;
	}
	if (errors ? *behind || behind == word[3] : !parse_degraded(word[3], &lanes, &speed))
		err = EINVAL;
	else if (errors)
		err = fabric_set_bit_errors(room->fabric, end.node, end.port, rate, room->now_us);
	else
		err = fabric_set_degraded(room->fabric, end.node, end.port, lanes, speed,
					  room->now_us);
	if (err == ENOENT)
		fprintf(out, "%s[%u] has no cable: the file names none there\n",
			console_node_name(room, end.node), end.port);
	else if (err)
		fprintf(out, errors ? "ber %s: expected a bit error rate up to 1e-3, as 1e-9, or 0\n" :
				      "degraded %s: expected 1x, SDR, 1xSDR and the like, or off\n",
			word[3]);
	return err;
}

int console_word_port(struct room *room, int count, char **word, FILE *out)
{
	bool on = count < 4 || strcasecmp(word[3], "off");
	struct end end;

	if (count < 3 || count > 4 || strcasecmp(word[2], "stuck") ||
	    (count == 4 && on && strcasecmp(word[3], "on"))) {
		fprintf(out, "expected port NODE[PORT] stuck [on|off]\n");
		return EINVAL;
	}
	if (console_end_parse(room, word[1], &end, out) || !console_end_exists(room, &end, out))
		return EINVAL;
	if (end.port == FABRIC_NONE ||
	    fabric_set_stuck(room->fabric, end.node, end.port, on, room->now_us)) {
		fprintf(out, "%s: which port? %s[1]\n", word[1], word[1]);
		return EINVAL;
	}
	return 0;
}

/* lft SWITCH LID PORT|none|free */
int console_word_lft(struct room *room, int count, char **word, FILE *out)
{
	uint64_t lid = 0, port = FABRIC_RELEASE;
	struct end end;
	int err;

	if (count != 4 || !console_number(word[2], 1, 0xbfff, &lid) ||
	    (strcasecmp(word[3], "free") && strcasecmp(word[3], "none") &&
	     !console_number(word[3], 0, UINT8_MAX, &port))) {
		fprintf(out, "expected lft SWITCH LID PORT, none (unreachable), or free\n");
		return EINVAL;
	}
	if (!strcasecmp(word[3], "none"))
		port = 255;
	if (console_end_parse(room, word[1], &end, out))
		return EINVAL;
	err = fabric_hold_route(room->fabric, end.node, (uint16_t)lid, (unsigned)port);
	if (err)
		fprintf(out, "%s: %s\n", word[1],
			err == EINVAL ? "no switch, or it has no such port or LID" : said(err));
	return err;
}

/* pkey NODE[PORT] INDEX KEY|free */
int console_word_pkey(struct room *room, int count, char **word, FILE *out)
{
	uint64_t index = 0, key = FABRIC_RELEASE;
	struct end end;
	int err;

	if (count != 4 || !console_number(word[2], 0, UINT16_MAX, &index) ||
	    (strcasecmp(word[3], "free") && !console_number(word[3], 0, UINT16_MAX, &key))) {
		fprintf(out, "expected pkey NODE[PORT] INDEX KEY, or free\n");
		return EINVAL;
	}
	if (console_end_parse(room, word[1], &end, out) || !console_end_exists(room, &end, out))
		return EINVAL;
	err = fabric_hold_pkey(room->fabric, end.node, end.port == FABRIC_NONE ? 1 : end.port,
			       (unsigned)index, (unsigned)key);
	if (err)
		fprintf(out, "%s: %s\n", word[1],
			err == EINVAL ? "its table has no such index" : said(err));
	return err;
}

/* ibsim's: shows it, or sets it. */
int console_word_guid(struct room *room, int count, char **word, FILE *out)
{
	struct fabric_node_info info;
	struct fabric_port_info port;
	struct end end;
	uint64_t guid = 0;

	if (count < 2 || count > 3 || (count == 3 && !console_number(word[2], 1, UINT64_MAX, &guid))) {
		fprintf(out, "expected Guid NODE, or NODE[PORT], or Guid NODE GUID\n");
		return EINVAL;
	}
	if (console_end_parse(room, word[1], &end, out) || !console_end_exists(room, &end, out))
		return EINVAL;
	if (count == 3)
		return fabric_set_guid(room->fabric, end.node, guid);
	fabric_node_info(room->fabric, end.node, &info);
	if (end.port == FABRIC_NONE)
		fprintf(out, "0x%016llx\n", (unsigned long long)info.guid);
	else if (fabric_port_info(room->fabric, end.node, end.port, &port))
		fprintf(out, "0x%016llx\n", (unsigned long long)port.guid);
	return 0;
}

/* ibsim's: shows it, or sets it, whatever the manager says; 0: what the manager says. */
int console_word_baselid(struct room *room, int count, char **word, FILE *out)
{
	struct fabric_port_info port;
	struct fabric_node_info info;
	struct end end;
	uint64_t lid = 0;

	if (count < 2 || count > 3 || (count == 3 && !console_number(word[2], 0, 0xbfff, &lid))) {
		fprintf(out, "expected Baselid NODE, or NODE[PORT], and a LID to hold, or 0\n");
		return EINVAL;
	}
	if (console_end_parse(room, word[1], &end, out) || !console_end_exists(room, &end, out))
		return EINVAL;
	fabric_node_info(room->fabric, end.node, &info);
	if (end.port == FABRIC_NONE)
		end.port = info.type == FABRIC_SWITCH ? 0 : 1;
	if (count == 3 && fabric_hold_lid(room->fabric, end.node, end.port, (uint16_t)lid)) {
		fprintf(out, "%s: a port of a switch has no LID: its port 0 has\n", word[1]);
		return EINVAL;
	}
	if (count == 2 && fabric_port_info(room->fabric, end.node, end.port, &port))
		fprintf(out, "LID %u, LMC %u\n", port.lid, port.lmc);
	return 0;
}
