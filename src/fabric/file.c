/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Reads the file of a subnet line by line into nodes and cable ends, of which build.c makes it.
 * After an error it goes on with the next line, so that one run tells all.
 */
#include "fabric/file.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/file_internal.h"
#include "fabric/make.h"

#define NODES_MAX	65536u
#define INCLUDES_MAX	8u
#define FILES_MAX	256u
#define MFT_MAX		16384u
#define VENDOR_DEFAULT	0x020000u	/* a locally administered OUI */
#define GUID_LOCAL	(UINT64_C(0x02) << 56)

/* ---- nodes ---- */

/* ibnetdiscover's IDs say the GUID: "S-0002c90200421e28". 0: another name. */
static uint64_t guid_in_name(const char *name)
{
	const char *p = name + 2;
	uint64_t guid;

	if (!strchr("SHRC", name[0]) || name[1] != '-' || strlen(name) != 18)
		return 0;
	return file_read_number(&p, 16, UINT64_MAX, &guid) && !*p ? guid : 0;
}

/* What stands in the first quotes of a comment. */
static void describe_node(struct reader *reader, struct fabric_node *node, const char *comment)
{
	const char *begin = comment ? strchr(comment, '"') : NULL,
		   *end = begin ? strchr(begin + 1, '"') : NULL;
	size_t bytes;

	if (!end)
		return;
	bytes = (size_t)(end - begin - 1);
	if (bytes > DESCRIPTION_BYTES) {
		COMPLAIN(reader,
			 "the description has %zu characters; NodeDescription has room for %u",
			 bytes, DESCRIPTION_BYTES);
		return;
	}
	memset(node->description, 0, DESCRIPTION_BYTES + 1);
	memcpy(node->description, begin + 1, bytes);
}

static void read_node(struct reader *reader, const char *p, const char *comment,
		      enum fabric_node_type type)
{
	size_t room = reader->drafts_room;
	struct draft draft = { .line = reader->line };
	uint64_t ports;
	char *name;

	reader->current = FABRIC_NONE;
	reader->skips = true;
	p = file_skip_blanks(p);
	if (!file_read_number(&p, 10, PORTS_MAX, &ports) || !ports) {
		COMPLAIN(reader,
			 "no number of ports: write, for example, Switch 36 \"sw1\" (1 to %u)",
			 PORTS_MAX);
		return;
	}
	name = file_read_name(reader, &p, "the node's name");
	if (!name)
		return;
	if (reader_find(reader, name) != FABRIC_NONE) {
		COMPLAIN(reader, "\"%.64s\" is there already, in line %u; rename one of both", name,
			 reader->draft[reader_find(reader, name)].line);
		free(name);
		return;
	}
	if (reader->drafts == NODES_MAX) {
		COMPLAIN(reader, "more than %u nodes; leave some out", NODES_MAX);
		free(name);
		return;
	}
	if (!reader->guid && type == FABRIC_SWITCH && reader->switch_guids) {
		reader->guid = reader->switch_guids++;
	} else if (!reader->guid && type == FABRIC_CA && reader->hca_guids) {
		reader->guid = reader->hca_guids;
		reader->hca_guids += ports + 1;	/* its ports' are in between */
	}
	draft.node = (struct fabric_node){
		.id = name, .description = calloc(1, DESCRIPTION_BYTES + 1), .type = type,
		.ports = (unsigned)ports, .guid = reader->guid ? reader->guid : guid_in_name(name),
		.system_guid = reader->system_guid, .vendor_id = reader->vendor_id,
		/* Some tools take nodes of one device ID for the same. */
		.device_id = reader->device_id ? reader->device_id : (uint16_t)type,
		.powered = true,
	};
	draft.first_port_guid = reader->port_guid;
	draft.options = reader->options;
	if (!draft.node.description || !reader_room(reader, (void **)&reader->draft, room,
						    reader->drafts, sizeof(draft), &room)) {
		reader->no_memory = true;
		node_free(&draft.node);
		return;
	}
	reader->drafts_room = (uint32_t)room;
	memcpy(draft.node.description, name, strnlen(name, DESCRIPTION_BYTES));
	describe_node(reader, &draft.node, comment);
	if (comment && type == FABRIC_SWITCH) {
		const char *behind = strrchr(comment, '"');	/* the description */

		behind = behind ? behind : comment;
		if (strstr(behind, "enhanced port 0"))
			draft.options.esp0 = true;
		else if (strstr(behind, "base port 0"))
			draft.options.esp0 = false;
	}
	if (!draft.node.guid)
		draft.node.guid = GUID_LOCAL | (reader_hash(name) & UINT64_C(0x00fffffffffffe00));
	reader->draft[reader->drafts] = draft;
	if (reader_names_grow(reader)) {
		reader->names[reader_names_place(reader, name)] = reader->drafts + 1;
		reader->current = reader->drafts;
		reader->skips = false;
	}
	reader->drafts++;
	reader->guid = reader->port_guid = reader->system_guid = 0;
}

/* ---- ports of a node ---- */

/* The best speed of PortInfo's bits; @extended: of those beyond QDR, 0: @otherwise. */
static int speed_of_bits(uint64_t bits, bool extended, int otherwise)
{
	for (unsigned i = SPEEDS; i-- > 0;)
		if ((extended ? speeds[i].extended : i <= SPEED_QDR ? speeds[i].legacy : 0) & bits)
			return (int)i;
	return otherwise;
}

/* ibsim's "w=4 s=1": enabled, as PortInfo counts. */
static void read_port_options(struct reader *reader, struct cable_end *end, const char *p)
{
	for (p = file_skip_blanks(p); *p; p = file_skip_blanks(p)) {
		const char *value = strchr(p, '=');
		uint64_t number;

		if (value != p + 1 || !strchr("wse", *p) ||
		    (value++, !file_read_number(&value, 0, *p == 'w' ? WIDTHS_ALL : 15, &number)) ||
		    (*value && *value != ' ' && *value != '\t')) {
			COMPLAIN(reader,
				 "\"%.20s\" behind the cable is no option; w=1 to 31, s= and e=0 "
				 "to 15 are, and # begins a comment",
				 p);
			return;
		}
		if (*p == 'w') {
			end->width = (uint8_t)number;
		} else {
			end->speed = speed_of_bits(number, *p == 'e', end->speed);
		}
		p = value;
	}
}

/* "4xEDR" at the end of a comment. */
static void file_read_rate(struct cable_end *end, const char *comment)
{
	const char *p, *behind;

	for (p = comment; p && *p; p++) {
		uint8_t width =
			p > comment && isalnum((unsigned char)p[-1]) ? 0 : file_width_of(p, &behind);

		if (!width || *p == '"')
			continue;
		if (file_speed_of(behind) >= 0) {
			end->speed = file_speed_of(behind);
			end->width = width;
		}
	}
}

/* "(2c9000100d051)", the GUID of a port, and "[ext 3]", the number on the chassis. */
static const char *read_parentheses(const char *p, uint64_t *guid)
{
	const char *at = file_skip_blanks(p);
	uint64_t value;

	if (!strncmp(at, "[ext ", 5) && strchr(at, ']'))
		at = file_skip_blanks(strchr(at, ']') + 1);
	if (*at != '(' || (at++, !file_read_number(&at, 16, UINT64_MAX, &value)) || *at != ')')
		return *at == '(' ? p : at;
	if (guid)
		*guid = value;
	return at + 1;
}

static void read_cable(struct reader *reader, const char *p, const char *comment)
{
	struct cable_end end = {
		.node = reader->current, .line = reader->line, .speed = reader->speed,
		.width = reader->width, .peer_port = 1};
	const struct fabric_node *node;

	if (reader->current == FABRIC_NONE && reader->skips)
		return;
	if (reader->current == FABRIC_NONE) {
		COMPLAIN(reader, "a port without a node; put it below its Switch, Ca or Rt line, "
				 "without blank lines between");
		return;
	}
	node = &reader->draft[reader->current].node;
	if (!file_read_port(reader, &p, &end.port))
		return;
	p = file_skip_blanks(read_parentheses(p, &end.guid));
	if (!end.port || end.port > node->ports) {
		COMPLAIN(reader,
			 "port %u: \"%.64s\" has ports 1 to %u; raise the number in line %u",
			 end.port, node->id, node->ports, reader->draft[reader->current].line);
		return;
	}
	end.peer_name = file_read_name(reader, &p, "the node at the other end");
	if (!end.peer_name)
		return;
	p = file_skip_blanks(p);
	if (*p == '[' && !file_read_port(reader, &p, &end.peer_port)) {
		free(end.peer_name);
		return;
	}
	p = read_parentheses(p, NULL);
	file_read_rate(&end, comment);
	read_port_options(reader, &end, p);
	if (!reader_room(reader, (void **)&reader->end, reader->ends_room, reader->ends,
			 sizeof(end), &reader->ends_room)) {
		free(end.peer_name);
		return;
	}
	reader->end[reader->ends++] = end;
}

/* ---- assignments: vendid=, devid=, switchguid=, and ibsim's ---- */

/* True: it was one. */
static bool read_assignment(struct reader *reader, const char *line)
{
	enum { VENDOR, DEVICE, SYSTEM, SWITCH, CA, ROUTER, SWITCHES, CAS, WIDTH, SPEED, EXTENDED };
	static const struct { const char *name; uint64_t most; } known[] = {
		[VENDOR] = { "vendid", 0xffffff }, [DEVICE] = { "devid", 0xffff },
		[SYSTEM] = { "sysimgguid", UINT64_MAX }, [SWITCH] = { "switchguid", UINT64_MAX },
		[CA] = { "caguid", UINT64_MAX }, [ROUTER] = { "rtguid", UINT64_MAX },
		[SWITCHES] = { "switchguids", UINT64_MAX }, [CAS] = { "hcaguids", UINT64_MAX },
		[WIDTH] = { "width", WIDTHS_ALL }, [SPEED] = { "speed", 7 },
		[EXTENDED] = { "extspeed", 15 },
	};
	const char *value;
	uint64_t number;
	unsigned i;

	for (i = 0; i < sizeof(known) / sizeof(*known); i++)
		if (!strncmp(line, known[i].name, strlen(known[i].name)) &&
		    line[strlen(known[i].name)] == '=')
			break;
	if (i == sizeof(known) / sizeof(*known))
		return false;
	reader->current = FABRIC_NONE;
	value = line + strlen(known[i].name) + 1;
	if (!file_read_number(&value, 0, known[i].most, &number)) {
		COMPLAIN(reader, "%s= needs a number up to 0x%llx", known[i].name,
			 (unsigned long long)known[i].most);
		return true;
	}
	switch (i) {
	case VENDOR:
		reader->vendor_id = (uint32_t)number;
		break;
	case DEVICE:
		reader->device_id = (uint16_t)number;
		break;
	case SYSTEM:
		reader->system_guid = number;
		break;
	case SWITCHES:
		reader->switch_guids = number;
		break;
	case CAS:
		reader->hca_guids = number;
		break;
	case WIDTH:
		reader->width = (uint8_t)number;
		break;
	case SPEED:
	case EXTENDED:
		reader->speed = speed_of_bits(number, i == EXTENDED, reader->speed);
		break;
	default:
		reader->guid = number;
		if (i == SWITCH)
			read_parentheses(value, &reader->port_guid);
	}
	return true;
}

/* ---- verbs ---- */

static bool option_number(struct reader *reader, const char *name, const char *value,
			  uint64_t least, uint64_t most, unsigned *number)
{
	const char *p = value;
	uint64_t read;

	if (!file_read_number(&p, 0, most, &read) || *p || read < least) {
		COMPLAIN(reader, "%s=%.20s: give a number from %llu to %llu", name, value,
			 (unsigned long long)least, (unsigned long long)most);
		return false;
	}
	*number = (unsigned)read;
	return true;
}

static bool option_bool(struct reader *reader, const char *name, const char *value, bool *flag)
{
	if (strcmp(value, "yes") && strcmp(value, "no")) {
		COMPLAIN(reader, "%s=%.20s: say yes or no", name, value);
		return false;
	}
	*flag = value[0] == 'y';
	return true;
}

static void verb_switch(struct reader *reader, const char *p)
{
	struct switch_options *options = &reader->options;
	char name[16], value[80];

	p = file_skip_blanks(p);
	if (*p == '*') {
		p++;
	} else {
		struct draft *draft = file_verb_node(reader, &p);

		if (!draft)
			return;
		options = &draft->options;
	}
	while (file_read_option(reader, &p, name, value)) {
		if (!strcmp(name, "lft"))
			option_number(reader, name, value, 64, LFT_MAX, &options->lft);
		else if (!strcmp(name, "mft"))
			option_number(reader, name, value, 0, MFT_MAX, &options->mft);
		else if (!strcmp(name, "pkeys"))
			option_number(reader, name, value, 1, 4096, &options->pkeys);
		else if (!strcmp(name, "vls"))
			option_number(reader, name, value, 1, 15, &options->vls);
		else if (!strcmp(name, "esp0"))
			option_bool(reader, name, value, &options->esp0);
		else if (!strcmp(name, "slvl"))
			option_bool(reader, name, value, &options->sl_map_optimized);
		else
			COMPLAIN(reader,
				 "switch has no option %s; it has lft, mft, pkeys, vls, esp0, slvl",
				 name);
	}
}

static void verb_host(struct reader *reader, const char *p)
{
	struct draft *draft = file_verb_node(reader, &p);
	char name[16], value[80];

	while (draft && file_read_option(reader, &p, name, value)) {
		if (!strcmp(name, "desc") && strlen(value) <= DESCRIPTION_BYTES) {
			memset(draft->node.description, 0, DESCRIPTION_BYTES + 1);
			memcpy(draft->node.description, value, strlen(value));
		} else if (!strcmp(name, "desc")) {
			COMPLAIN(reader,
				 "desc= has %zu characters; NodeDescription has room for %u",
				 strlen(value), DESCRIPTION_BYTES);
		} else if (!strcmp(name, "ip")) {
			file_plant_addresses(reader, draft, 1, value);
		} else {
			COMPLAIN(reader, "host has no option %s; it has desc and ip", name);
		}
	}
}

/* Of both ends, as far as lines above have them. */
static void verb_link(struct reader *reader, const char *p)
{
	struct draft *draft = file_verb_node(reader, &p);
	struct cable_end asked = { .speed = -1 };
	char name[16], value[80];
	const char *behind;
	bool found = false;
	unsigned port;

	if (!draft || !file_read_port(reader, &p, &port))
		return;
	while (file_read_option(reader, &p, name, value)) {
		if (!strcmp(name, "down"))
			asked.pulled = true;
		else if (!strcmp(name, "speed") && file_speed_of(value) >= 0)
			asked.speed = file_speed_of(value);
		else if (!strcmp(name, "width") && file_width_of(value, &behind) && !*behind)
			asked.width = file_width_of(value, &behind);
		else if (file_link_fault(reader, draft, port, name, value))
			continue;
		else if (!strcmp(name, "speed") || !strcmp(name, "width"))
			COMPLAIN(reader,
				 "%s=%.20s: speeds are SDR DDR QDR FDR EDR HDR NDR XDR, widths 1x "
				 "2x 4x 8x 12x",
				 name, value);
		else
			COMPLAIN(reader, "link has no option %s; it has speed, width, down, ber, "
				 "degraded", name);
	}
	for (size_t i = 0; i < reader->ends; i++) {
		struct cable_end *end = &reader->end[i];

		if (!(&reader->draft[end->node] == draft && end->port == port) &&
		    !(!strcmp(end->peer_name, draft->node.id) && end->peer_port == port))
			continue;
		found = true;
		end->pulled |= asked.pulled;
		if (asked.speed >= 0)
			end->speed = asked.speed;
		if (asked.width)
			end->width = asked.width;
	}
	if (!found)
		COMPLAIN(reader,
			 "no cable in \"%.64s\"[%u] so far; move this line behind the one that has "
			 "it",
			 draft->node.id, port);
}

static void file_read_text(struct reader *reader, const char *text);

static void verb_make(struct reader *reader, const char *recipe)
{
	struct fabric_errors errors = { 0 };
	char *text;

	if (reader->makes) {
		COMPLAIN(reader, "make inside of make");
		return;
	}
	text = fabric_make(recipe, &errors);
	if (!text) {
		reader->no_memory |= !errors.count;
		for (unsigned i = 0; i < errors.count && i < FABRIC_ERRORS_MAX; i++)
			COMPLAIN(reader, "%s", errors.error[i].text);
		return;
	}
	reader->makes = true;
	file_read_text(reader, text);
	reader->makes = false;
	free(text);
}

/* Its lines, as if they stood here. */
static void verb_include(struct reader *reader, const char *p)
{
	const char *outer = reader->included;
	unsigned outer_line = reader->included_line;
	char *name = file_read_name(reader, &p, "the file's name"), *text = NULL;

	if (!name)
		return;
	if (reader->includes == INCLUDES_MAX || reader->included_files == FILES_MAX)
		COMPLAIN(reader,
			 "include: more than %u files within files, or %u in all; is there a "
			 "circle?",
			 INCLUDES_MAX, FILES_MAX);
	else if (!reader->files || !(text = reader->files->read(reader->files->context, name)))
		COMPLAIN(reader, "include \"%.60s\": it cannot be read", name);
	if (text) {
		reader->includes++;
		reader->included_files++;
		reader->included = name;
		file_read_text(reader, text);
		reader->included = outer;
		reader->included_line = outer_line;
		reader->includes--;
	}
	reader->current = FABRIC_NONE;
	reader->skips = false;
	free(text);
	free(name);
}

static void read_verb(struct reader *reader, const char *line)
{
	static const struct {
		const char *word;
		void (*read)(struct reader *, const char *);
	} verbs[] = {
		{"switch", verb_switch},
		{"host", verb_host},
		{"link", verb_link},
		{"port", file_verb_port},
		{"counter", file_verb_counter},
		{"make", verb_make},
		{"include", verb_include},
	};

	reader->current = FABRIC_NONE;
	for (unsigned i = 0; i < sizeof(verbs) / sizeof(*verbs); i++)
		if (file_word_is(line, verbs[i].word)) {
			verbs[i].read(reader, line + strlen(verbs[i].word));
			return;
		}
	COMPLAIN(reader,
		 "\"%.*s\" is nothing that can stand here: Switch, Ca, Hca, Rt, [port], vendid= "
		 "..., switch, host, link, port, counter, make, include",
		 (int)strcspn(line, " \t="), line);
}

/* ---- lines ---- */

static void file_read_line(struct reader *reader, char *line)
{
	static const struct { const char *word; enum fabric_node_type type;
	} types[] = {
		{"Switch", FABRIC_SWITCH},
		{"Ca", FABRIC_CA},
		{"Hca", FABRIC_CA},
		{"Rt", FABRIC_ROUTER},
	};
	bool quoted = false;
	char *comment = NULL;
	size_t end;

	for (char *p = line; *p && !comment; p++) {
		quoted ^= *p == '"';
		if (*p == '#' && !quoted) {
			*p = '\0';
			comment = p + 1;
		}
	}
	for (end = strlen(line); end && isspace((unsigned char)line[end - 1]); end--)
		line[end - 1] = '\0';
	if (!*line) {
		if (!comment)
			reader->current = FABRIC_NONE, reader->skips = false;
		return;
	}
	if (*line == '[') {
		read_cable(reader, line, comment);
		return;
	}
	/* What ibnetdiscover -g says of chassis, and ibsim's names for ports. */
	if (file_word_is(line, "Chassis") || !strncmp(line, "Hostname:", 9) || *line == '@')
		return;
	for (unsigned i = 0; i < sizeof(types) / sizeof(*types); i++)
		if (file_word_is(line, types[i].word)) {
			read_node(reader, line + strlen(types[i].word), comment, types[i].type);
			return;
		}
	if (!read_assignment(reader, line))
		read_verb(reader, line);
}

static void file_read_text(struct reader *reader, const char *text)
{
	const char *end = text + strlen(text);
	unsigned line = 0;

	while (text < end && !reader->no_memory) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t bytes = (size_t)((newline ? newline : end) - text);
		char *copy = malloc(bytes + 1);

		if (!copy) {
			reader->no_memory = true;
			return;
		}
		memcpy(copy, text, bytes);
		copy[bytes] = '\0';
		line++;
		if (reader->included && !reader->makes)
			reader->included_line = line;
		else if (!reader->makes)
			reader->line = line;
		file_read_line(reader, copy);
		free(copy);
		text += bytes + !!newline;
	}
}

struct fabric *fabric_new_from_files(const char *text, const struct fabric_files *files,
				     struct fabric_errors *errors)
{
	struct reader reader = {
		.errors = errors,
		.files = files,
		.speed = -1,
		.current = FABRIC_NONE,
		.vendor_id = VENDOR_DEFAULT,
		.options = {.lft = LFT_MAX, .mft = MFT_DEFAULT, .vls = VLS_DEFAULT,
			    .pkeys = PKEYS_SWITCH},
	};
	struct fabric *fabric = NULL;

	*errors = (struct fabric_errors){ 0 };
	file_read_text(&reader, text);
	if (!reader.drafts && !errors->count && !reader.no_memory) {
		reader.line = 0;
		COMPLAIN(&reader, "there is no node in it; write, for example, make pair");
	}
	if (reader.drafts && !reader.no_memory)
		fabric = file_build(&reader);
	for (uint32_t i = 0; i < reader.drafts; i++) {
		if (fabric)
			reader.draft[i].node.id = NULL;	/* the subnet has it */
		node_free(&reader.draft[i].node);
	}
	for (size_t i = 0; i < reader.ends; i++)
		free(reader.end[i].peer_name);
	free(reader.draft);
	free(reader.end);
	free(reader.planted);
	free(reader.names);
	return fabric;
}
