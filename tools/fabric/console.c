/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a person says to the fabric: on its terminal, in a script, or from elsewhere by `verbatim
 * cable` and `verbatim node`. Words of ibsim are taken too, in its spelling: a port is "sw1"[3];
 * here sw1[3] is enough.
 */
#include "fabric/console.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ip_addr.h"
#include "base/nearest.h"
#include "base/text.h"
#include "wire/packet.h"
#include "wire/smp.h"

#define WORDS		12
#define LINE_BYTES	1024
#define US_PER_S	1000000u
#define WAIT_UP_S	60u
#define CONSOLES_MAX	16u

struct console {
	struct list node;
	struct watch watch;
	struct room *room;
	int fd;
	char *name;			/* of a script; NULL: a person, or a pipe */
	bool watched, terminal, ended;
	bool wait_up;
	uint64_t wait_us;		/* 0: for nothing */
	unsigned number;		/* of the line */
	size_t used;
	char line[LINE_BYTES];
};

/* ---- what is named ---- */

int console_end_parse(struct room *room, const char *text, struct end *end, FILE *out)
{
	const char *bracket = strrchr(text, '[');
	size_t length = strlen(text);
	char name[LINE_BYTES];
	uint64_t port = 0;

	*end = (struct end){ fabric_find_node(room->fabric, text), FABRIC_NONE };
	if (end->node != FABRIC_NONE)
		return 0;
	if (bracket && text[length - 1] == ']') {
		const char *number = bracket + 1;

		snprintf(name, sizeof(name), "%.*s", (int)(bracket - text), text);
		if (!text_scan_number(&number, UINT8_MAX, &port) || strcmp(number, "]")) {
			fprintf(out, "'%s' is no port of a node: expected NODE[NUMBER]\n", text);
			return EINVAL;
		}
		end->node = fabric_find_node(room->fabric, name);
		end->port = (uint32_t)port;
	} else {
		snprintf(name, sizeof(name), "%s", text);
	}
	if (end->node == FABRIC_NONE) {
		fprintf(out, "no node '%s': show lists them\n", name);
		return EINVAL;
	}
	return 0;
}

const char *console_node_name(const struct room *room, uint32_t node)
{
	struct fabric_node_info info;

	return fabric_node_info(room->fabric, node, &info) ? info.id : "?";
}

static unsigned node_ports(const struct room *room, uint32_t node)
{
	struct fabric_node_info info;

	return fabric_node_info(room->fabric, node, &info) ? info.ports : 0;
}

bool console_end_exists(const struct room *room, const struct end *end, FILE *out)
{
	struct fabric_port_info port;

	if (end->port == FABRIC_NONE || fabric_port_info(room->fabric, end->node, end->port, &port))
		return true;
	fprintf(out, "%s has ports 1 to %u, and not %u\n", console_node_name(room, end->node),
		node_ports(room, end->node), end->port);
	return false;
}

/* ---- words ---- */

/* One cable, or all of a node. */
static int set_cables(struct room *room, const char *text, bool plugged, FILE *out)
{
	unsigned changed = 0;
	struct end end;
	int err = console_end_parse(room, text, &end, out);

	if (err)
		return err;
	if (end.port != FABRIC_NONE) {
		err = fabric_set_cable(room->fabric, end.node, end.port, plugged, room->now_us);
		if (err)
			fprintf(out, "%s[%u] has no cable: the file names none there\n",
				console_node_name(room, end.node), end.port);
		return err;
	}
	for (uint32_t port = 1; port <= node_ports(room, end.node); port++)
		changed += !fabric_set_cable(room->fabric, end.node, port, plugged, room->now_us);
	if (changed)
		return 0;
	fprintf(out, "%s has no cable\n", console_node_name(room, end.node));
	return ENOENT;
}

static int word_cable(struct room *room, int count, char **word, FILE *out)
{
	if (count == 3 && !strcasecmp(word[2], "pull"))
		return set_cables(room, word[1], false, out);
	if (count == 3 && !strcasecmp(word[2], "plug"))
		return set_cables(room, word[1], true, out);
	if (count == 4 && (!strcasecmp(word[2], "ber") || !strcasecmp(word[2], "degraded")))
		return console_cable_fault(room, word, out);
	fprintf(out, "expected cable NODE[PORT] pull, plug, ber RATE, or degraded 1xSDR\n");
	return EINVAL;
}

static int word_node(struct room *room, int count, char **word, FILE *out)
{
	struct end end;
	bool on = count == 3 && !strcasecmp(word[2], "on");
	int err;

	if (count != 3 || (!on && strcasecmp(word[2], "off"))) {
		fprintf(out, "expected node NODE on, or off\n");
		return EINVAL;
	}
	err = console_end_parse(room, word[1], &end, out);
	return err ? err : fabric_set_power(room->fabric, end.node, on, room->now_us);
}

static const char *state_name(enum fabric_port_state state)
{
	static const char *const names[] = { "?", "Down", "Init", "Armed", "Active" };

	return (unsigned)state < sizeof(names) / sizeof(names[0]) ? names[state] : "?";
}

static void show_addresses(const struct room *room, uint32_t node, uint32_t port, FILE *out)
{
	char text[INET6_ADDRSTRLEN];
	uint8_t ip[16];

	for (unsigned i = 0; fabric_ip(room->fabric, node, port, i, ip); i++) {
		bool ipv4 = ip_addr_is_ipv4(ip);

		fprintf(out, ", %s", inet_ntop(ipv4 ? AF_INET : AF_INET6, ip + (ipv4 ? 12 : 0), text,
					       sizeof(text)));
		if (fabric_ip_pkey(room->fabric, ip))
			fprintf(out, "@0x%04x", fabric_ip_pkey(room->fabric, ip));
	}
}

static void show_node(const struct room *room, uint32_t node, FILE *out)
{
	static const char *const types[] = { "?", "Hca", "Switch", "Router" };
	struct fabric_node_info info;
	struct fabric_port_info port;

	if (!fabric_node_info(room->fabric, node, &info))
		return;
	fprintf(out, "%s \"%s\" %u ports, GUID 0x%016llx, \"",
		types[info.type <= 3 ? info.type : 0], info.id, info.ports,
		(unsigned long long)info.guid);
	fabric_print_text(info.description, out);
	fprintf(out, "\"%s", info.powered ? "" : ", off");
	if (info.type == FABRIC_SWITCH && fabric_port_info(room->fabric, node, 0, &port))
		fprintf(out, ", LID %u", port.lid);
	fputc('\n', out);
	for (uint32_t number = 1; number <= info.ports; number++) {
		if (!fabric_port_info(room->fabric, node, number, &port) ||
		    port.peer_node == FABRIC_NONE)
			continue;
		fprintf(out, "  [%u] %s", number, state_name(port.state));
		if (port.state > FABRIC_PORT_DOWN)
			fprintf(out, " %ux%s%s", port.width_lanes, *port.speed_name ? " " : "",
				port.speed_name);
		if (info.type != FABRIC_SWITCH)
			fprintf(out, " LID %u", port.lid);
		show_addresses(room, node, number, out);
		fprintf(out, " -> \"%s\"[%u]%s\n", console_node_name(room, port.peer_node), port.peer_port,
			room_is_cabled(room, &port) ? "" : ", pulled");
	}
}

static int word_show(struct room *room, int count, char **word, FILE *out)
{
	struct end end;
	int err;

	if (count > 1) {
		err = console_end_parse(room, word[1], &end, out);
		if (!err)
			show_node(room, end.node, out);
		return err;
	}
	for (uint32_t node = 0; node < fabric_nodes(room->fabric); node++)
		show_node(room, node, out);
	return 0;
}

/* A name, or a LID as ibsim has it. *port: one that has a LID. */
static int lid_end(struct room *room, const char *text, uint32_t *node, uint32_t *port, FILE *out)
{
	struct fabric_node_info info;
	struct end end;
	uint64_t lid;
	int err;

	if (console_number(text, 1, 0xbfff, &lid) &&
	    fabric_find_node(room->fabric, text) == FABRIC_NONE) {
		*node = fabric_find_lid(room->fabric, (uint16_t)lid, port);
		if (*node == FABRIC_NONE)
			fprintf(out, "no port has LID %llu\n", (unsigned long long)lid);
		return *node == FABRIC_NONE ? EINVAL : 0;
	}
	err = console_end_parse(room, text, &end, out);
	if (err)
		return err;
	fabric_node_info(room->fabric, end.node, &info);
	*node = end.node;
	*port = info.type == FABRIC_SWITCH ? 0 : end.port == FABRIC_NONE ? 1 : end.port;
	return console_end_exists(room, &end, out) ? 0 : EINVAL;
}

/* "--sl 3", "--pkey 0x8001", "--bytes 2048": each behind the ends. False: it is none. */
static bool route_option(struct fabric_question *question, const char *name, const char *text)
{
	uint64_t value;

	if (!strcmp(name, "--sl") && text_number(text, 0, 15, &value))
		question->sl = (uint8_t)value;
	else if (!strcmp(name, "--pkey") && console_number(text, 1, UINT16_MAX, &value))
		question->pkey = (uint16_t)value;
	else if (!strcmp(name, "--bytes") && text_number(text, 0, 4096, &value))
		question->payload = (unsigned)value;
	else
		return false;
	return true;
}

/* Hop by hop, with the rows of the tables that decide. EHOSTUNREACH: it ends before. */
static int word_route(struct room *room, int count, char **word, FILE *out)
{
	struct fabric_question question = { .pkey = PKEY_DEFAULT, .payload = 256 };
	struct fabric_port_info target = { 0 };
	uint32_t to_node, to_port;
	bool right = count >= 3 && count % 2;
	uint64_t lid;

	for (int i = 3; right && i < count; i += 2)
		right = route_option(&question, word[i], word[i + 1]);
	if (!right) {
		fprintf(out, "expected route FROM TO [--sl 0..15] [--pkey N] [--bytes 0..4096]: "
			"nodes, ports or LIDs, TO also that of a group\n");
		return EINVAL;
	}
	if (lid_end(room, word[1], &question.node, &question.port, out))
		return EINVAL;
	/* A LID that no port has shows where it ends, that of a group its tree; of a port's LIDs this is meant. */
	if (console_number(word[2], 1, UINT16_MAX, &lid) &&
	    fabric_find_node(room->fabric, word[2]) == FABRIC_NONE) {
		question.dlid = (uint16_t)lid;
		to_node = fabric_find_lid(room->fabric, question.dlid, &to_port);
	} else {
		if (lid_end(room, word[2], &to_node, &to_port, out))
			return EINVAL;
		fabric_port_info(room->fabric, to_node, to_port, &target);
		question.dlid = target.lid;
		if (!target.lid) {
			fprintf(out, "%s has no LID: no subnet manager has given it one; does "
				"opensm run?\n", console_node_name(room, to_node));
			return EHOSTUNREACH;
		}
	}
	if (lid_is_multicast(question.dlid))
		fprintf(out, "from %s to the group at LID 0x%04x", console_node_name(room, question.node),
			question.dlid);
	else
		fprintf(out, "from %s to LID %u of %s", console_node_name(room, question.node), question.dlid,
			to_node == FABRIC_NONE ? "no port" : console_node_name(room, to_node));
	fprintf(out, ", SL %u, P_Key 0x%04x, %u bytes\n", question.sl, question.pkey, question.payload);
	return fabric_print_route(room->fabric, &question, out) ? 0 : EHOSTUNREACH;
}

static int word_hosts(struct room *room, int count, char **word, FILE *out)
{
	char name[CTL_NODE_MAX], last[CTL_NODE_MAX] = "";
	struct fabric_node_info info;
	const char *comma = "";

	for (uint32_t node = 0; node < fabric_nodes(room->fabric); node++) {
		if (!fabric_node_info(room->fabric, node, &info) || info.type != FABRIC_CA)
			continue;
		room_host_name(room, node, name);
		if (!strcmp(name, last))
			continue;
		fprintf(out, "%s%s", comma, name);
		comma = ", ";
		strcpy(last, name);
	}
	fputc('\n', out);
	return 0;
}

static int word_print(struct room *room, int count, char **word, FILE *out)
{
	char *text = fabric_print(room->fabric);

	if (!text)
		return ENOMEM;
	fputs(text, out);
	free(text);
	return 0;
}

static int word_programs(struct room *room, int count, char **word, FILE *out)
{
	visitors_list(room, out);
	return 0;
}

static int word_statistics(struct room *room, int count, char **word, FILE *out)
{
	struct agents_statistics agents;
	struct fabric_statistics fabric;

	data_fold(room);
	fabric_statistics(room->fabric, &fabric);
	agents_statistics(room->agents, &agents);
#define NUMBER(of, member) fprintf(out, "%-20s %llu\n", #member, (unsigned long long)(of).member)
	NUMBER(fabric, smps);
	NUMBER(fabric, gmps);
	NUMBER(fabric, hops);
	NUMBER(fabric, sma_requests);
	NUMBER(fabric, sma_answers);
	NUMBER(fabric, delivered);
	NUMBER(fabric, traps);
	NUMBER(fabric, lost_down);
	NUMBER(fabric, lost_route);
	NUMBER(fabric, lost_smi);
	NUMBER(fabric, lost_mkey);
	NUMBER(fabric, lost_port);
	NUMBER(fabric, lost_other);
	NUMBER(fabric, lost_error);
	NUMBER(fabric, data_sent);
	NUMBER(fabric, data_delivered);
	NUMBER(fabric, data_counted);
	NUMBER(fabric, lost_vl);
	NUMBER(fabric, lost_mtu);
	NUMBER(fabric, lost_pkey);
	NUMBER(fabric, lost_nobody);
	NUMBER(fabric, lost_full);
	NUMBER(agents, written);
	NUMBER(agents, received);
	NUMBER(agents, timeouts);
	NUMBER(agents, retries);
	NUMBER(agents, late);
	NUMBER(agents, refused);
	NUMBER(agents, unserved);
	NUMBER(agents, segments);
	NUMBER(agents, aborted);
	NUMBER(*room, lost_mads);
#undef NUMBER
	return 0;
}

static int word_unlink(struct room *room, int count, char **word, FILE *out)
{
	if (count == 2)
		return set_cables(room, word[1], false, out);
	fprintf(out, "expected Unlink NODE, or NODE[PORT]\n");
	return EINVAL;
}

static int word_relink(struct room *room, int count, char **word, FILE *out)
{
	if (count == 2)
		return set_cables(room, word[1], true, out);
	for (uint32_t node = 0; node < fabric_nodes(room->fabric); node++)
		for (uint32_t port = 1; port <= node_ports(room, node); port++)
			fabric_set_cable(room->fabric, node, port, true, room->now_us);
	return 0;
}

/* The cable that the file has there; others would be another file. */
static int word_link(struct room *room, int count, char **word, FILE *out)
{
	struct fabric_port_info port;
	struct end one, other;

	if (count != 3) {
		fprintf(out, "expected Link NODE[PORT] NODE[PORT]\n");
		return EINVAL;
	}
	if (console_end_parse(room, word[1], &one, out) || console_end_parse(room, word[2], &other, out))
		return EINVAL;
	if (!fabric_port_info(room->fabric, one.node, one.port, &port) ||
	    port.peer_node != other.node ||
	    (other.port != FABRIC_NONE && port.peer_port != other.port)) {
		fprintf(out,
			"the file has no cable from %s to %s: change the file, and start again\n",
			word[1], word[2]);
		return ENOENT;
	}
	return fabric_set_cable(room->fabric, one.node, one.port, true, room->now_us);
}

/* ibsim's: of 100 MADs that come in there so many are lost, of all attributes or of one. */
static int word_error(struct room *room, int count, char **word, FILE *out)
{
	uint64_t percent = 0, attribute = 0;
	struct end end;

	if (count < 3 || count > 4 || !text_number(word[2], 0, 100, &percent) ||
	    (count == 4 && !text_number(word[3], 0, UINT16_MAX, &attribute))) {
		fprintf(out, "expected Error NODE, or NODE[PORT], 0 to 100 [ATTRIBUTE]\n");
		return EINVAL;
	}
	if (console_end_parse(room, word[1], &end, out) || !console_end_exists(room, &end, out))
		return EINVAL;
	for (uint32_t port = 0; port <= node_ports(room, end.node); port++)
		if (end.port == FABRIC_NONE || end.port == port)
			fabric_set_errors(room->fabric, end.node, port, (unsigned)percent,
					  (uint16_t)attribute);
	return 0;
}

/* A port's cable is pulled; a node's are all, and it forgets what it was told. */
static int word_clear(struct room *room, int count, char **word, FILE *out)
{
	struct end end;
	int err = word_unlink(room, count, word, out);

	if (err)
		return err;
	console_end_parse(room, word[1], &end, out);
	if (end.port != FABRIC_NONE)
		return 0;
	fabric_set_power(room->fabric, end.node, false, room->now_us);
	return fabric_set_power(room->fabric, end.node, true, room->now_us);
}

static int word_verbose(struct room *room, int count, char **word, FILE *out)
{
	uint64_t level = room->verbose;

	if (count > 2 || (count == 2 && !text_number(word[1], 0, UINT8_MAX, &level))) {
		fprintf(out, "expected Verbose 0, or 1\n");
		return EINVAL;
	}
	room->verbose = level;
	fprintf(out, "MADs that are lost are %s\n", room->verbose ? "told" : "counted alone");
	return 0;
}

/* ibsim's fabric waits for it. */
static int word_start(struct room *room, int count, char **word, FILE *out)
{
	return 0;
}

static int word_quit(struct room *room, int count, char **word, FILE *out)
{
	room->ended = true;
	return 0;
}

static int word_help(struct room *room, int count, char **word, FILE *out);

/* Where the console itself acts: console_wait(). */
static int word_wait(struct room *room, int count, char **word, FILE *out)
{
	fprintf(out, "wait is for scripts and the fabric's own console\n");
	return EINVAL;
}

static const struct word {
	const char *name, *arguments;
	int (*run)(struct room *room, int count, char **word, FILE *out);
	const char *text;
	bool looks;			/* changes nothing: for everybody */
} words[] = {
	{ "cable", "NODE[PORT] pull|plug", word_cable, "without [PORT]: all of the node", false },
	{ "cable", "NODE[PORT] ber RATE", word_cable, "bits that flip: 1e-9; 0: none", false },
	{ "cable", "NODE[PORT] degraded 1xSDR", word_cable, "what it trains to at best; off", false },
	{ "node", "NODE on|off", word_node, "its power; when it is back it has forgotten all", false },
	{ "show", "[NODE]", word_show, "nodes, ports, states, LIDs, IP addresses", true },
	{ "route", "FROM TO [--sl N]", word_route, "hop by hop, as tables say; --pkey, --bytes", true },
	{ "counter", "NODE[PORT] [NAME[+]=N ...]", console_word_counter,
	  "+=: so many more each second; alone: those that are not 0", false },
	{ "metrics", "", console_word_metrics, "of all ports, for Prometheus", true },
	{ "port", "NODE[PORT] stuck [on|off]", console_word_port, "it stays in Init", false },
	{ "lft", "SWITCH LID PORT|none|free", console_word_lft, "a row, held against the SM", false },
	{ "pkey", "NODE[PORT] INDEX KEY|free", console_word_pkey, "the same of a P_Key", false },
	{ "hosts", "", word_hosts, "names for VERBATIM_NODE", true },
	{ "programs", "", word_programs, "that have a port open", true },
	{ "statistics", "", word_statistics, "MADs since the start", true },
	{ "print", "", word_print, "the fabric as a file", true },
	{ "wait", "SECONDS | up", word_wait, "up: until every host port is Active", false },
	{ "help", "", word_help, "!FILE: lines of a file", true },
	{ "quit", "", word_quit, "ends the fabric", false },
	/* ibsim's */
	{ "Link", "NODE[PORT] NODE[PORT]", word_link, "plugs the cable in", false },
	{ "Relink", "[NODE[PORT]]", word_relink, "plugs in all, or those of a node", false },
	{ "Unlink", "NODE[PORT]", word_unlink, "pulls", false },
	{ "Clear", "NODE[PORT]", word_clear, "pulls, and restarts a node", false },
	{ "Error", "NODE[PORT] PERCENT [ATTR]", word_error, "of what comes in is lost", false },
	{ "PerformanceSet", "NODE[PORT] NAME=N", console_word_counter, "as counter", false },
	{ "Verbose", "[0|1]", word_verbose, "1: each MAD that is lost", false },
	{ "Start", "", word_start, "it has begun already", false },
	{ "Guid", "NODE[PORT] [GUID]", console_word_guid, "shows it, or gives the node another", false },
	{ "Baselid", "NODE[PORT] [LID]", console_word_baselid, "shows it, or holds one; 0: the SM's", false },
	{ "Dump", "[NODE]", word_show, "as show", true },
	{ "Attached", "", word_programs, "as programs", true },
	{ NULL, NULL, NULL, NULL, false },
};

static int word_help(struct room *room, int count, char **word, FILE *out)
{
	for (const struct word *row = words; row->name; row++)
		fprintf(out, "%-10s %-26s%s%s\n", row->name, row->arguments, *row->text ? " " : "",
			row->text);
	return 0;
}

/* ---- lines ---- */

/* Splits @line at blanks; what stands in quotes is one word, and so is what is joined to it. */
static int split(char *line, char **word, int max)
{
	char *to = line;
	int count = 0;

	while (*line) {
		while (*line == ' ' || *line == '\t' || *line == '\r' || *line == '\n')
			line++;
		if (!*line || *line == '#' || count == max)
			break;
		word[count++] = to;
		while (*line && !strchr(" \t\r\n", *line)) {
			if (*line != '"') {
				*to++ = *line++;
				continue;
			}
			for (line++; *line && *line != '"'; )
				*to++ = *line++;
			line += *line == '"';
		}
		if (*line)
			line++;
		*to++ = '\0';
	}
	return count;
}

static const struct word *word_find(const char *name)
{
	for (const struct word *row = words; row->name; row++)
		if (!strcasecmp(row->name, name))
			return row;
	return NULL;
}

static int words_run(struct room *room, int count, char **word, bool looks, FILE *out)
{
	const struct word *row = word_find(strcmp(word[0], "?") ? word[0] : "help");
	struct nearest_word nearest = nearest_begin(word[0]);
	int err;

	if (looks && (word[0][0] == '!' || (row && !row->looks))) {
		fprintf(out, "%s is for the user that runs the fabric\n", word[0]);
		return EPERM;
	}
	if (word[0][0] == '!') {	/* ibsim's: lines of a file, "!FILE" or "! FILE" */
		const char *path = word[0][1] || count < 2 ? word[0] + 1 : word[1];

		err = console_script(room, path);
		if (err)
			fprintf(out, "%s: %s\n", path, strerror(err));
		return err;
	}
	if (row)
		return row->run(room, count, word, out);
	for (row = words; row->name; row++)
		nearest_offer(&nearest, row->name);
	fprintf(out, "no word '%s'%s%s; help lists them\n", word[0],
		nearest.best ? "; the nearest: " : "", nearest.best ? nearest.best : "");
	return EINVAL;
}

int console_line(struct room *room, char *line, bool looks, FILE *out)
{
	char *word[WORDS];
	int count = split(line, word, WORDS);

	return count ? words_run(room, count, word, looks, out) : 0;
}

/* ---- sources of lines ---- */

static void console_prompt(struct console *console)
{
	if (!console->terminal || console->ended)
		return;
	printf("%s> ", console->room->name);
	fflush(stdout);
}

/* "wait 2", "wait up". True: it was one. */
static bool console_wait(struct console *console, int count, char **word)
{
	struct room *room = console->room;
	uint64_t seconds = WAIT_UP_S;

	if (count != 2 || strcasecmp(word[0], "wait"))
		return false;
	console->wait_up = !strcasecmp(word[1], "up");
	if (!console->wait_up && !text_number(word[1], 0, 86400, &seconds))
		return false;
	if (!console->wait_up || !room_is_up(room))
		console->wait_us = room->now_us + seconds * US_PER_S;
	return true;
}

static void console_run(struct console *console, char *line)
{
	struct room *room = console->room;
	char *word[WORDS];
	int count = split(line, word, WORDS), err;

	console->number++;
	if (!count || console_wait(console, count, word))
		return;
	if (console->name) {
		char *text = NULL;
		size_t bytes = 0;
		FILE *out = open_memstream(&text, &bytes);

		if (!out)
			return;
		err = words_run(room, count, word, false, out);
		fclose(out);
		if (err)
			printf("%s:%u: ", console->name, console->number);
		fputs(text, stdout);
		free(text);
	} else {
		words_run(room, count, word, false, stdout);
	}
	fflush(stdout);
}

static bool console_is_waiting(struct console *console)
{
	struct room *room = console->room;

	if (!console->wait_us)
		return false;
	if (console->wait_us > room->now_us && !(console->wait_up && room_is_up(room)))
		return true;
	if (console->wait_up && !room_is_up(room))
		room_say(room,
			 "wait up: not every host port is Active after %u s: show tells which",
			 WAIT_UP_S);
	console->wait_us = 0;
	return false;
}

/* What is in the buffer, as far as no line waits. */
static void console_drain(struct console *console)
{
	char *end, line[LINE_BYTES];

	while (!console_is_waiting(console) && !console->room->ended) {
		size_t length;

		end = memchr(console->line, '\n', console->used);
		if (!end && !(console->ended && console->used) && console->used < LINE_BYTES - 1)
			break;
		length = end ? (size_t)(end - console->line) + 1 : console->used;
		memcpy(line, console->line, length);
		line[length < LINE_BYTES ? length : LINE_BYTES - 1] = '\0';
		console->used -= length;
		memmove(console->line, console->line + length, console->used);
		console_run(console, line);
		console_prompt(console);
	}
}

static void console_read(struct console *console)
{
	ssize_t got =
		read(console->fd, console->line + console->used, LINE_BYTES - 1 - console->used);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got > 0)
		console->used += (size_t)got;
	else
		console->ended = true;
	if (console->ended && console->watched) {
		room_unwatch(console->room, console->fd);
		console->watched = false;
	}
	/* At a terminal Ctrl-D means: enough. A pipe or a script ends, and the fabric goes on. */
	if (console->ended && console->terminal)
		console->room->ended = true;
}

static void console_ready(struct watch *watch, uint32_t events)
{
	struct console *console = container_of(watch, struct console, watch);

	if (console->wait_us) {
		/* It is read when the wait is over; until then it would only wake us. */
		room_unwatch(console->room, console->fd);
		console->watched = false;
		return;
	}
	console_read(console);
	console_drain(console);
}

static void console_close(struct console *console)
{
	if (console->watched)
		room_unwatch(console->room, console->fd);
	if (console->fd != STDIN_FILENO)
		close(console->fd);
	list_remove(&console->node);
	free(console->name);
	free(console);
}

int console_script(struct room *room, const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), err;
	unsigned count = 0;
	struct list *at;

	if (fd < 0)
		return errno;
	list_for_each(at, &room->consoles)
		count++;
	if (count >= CONSOLES_MAX) {	/* a file that reads itself */
		close(fd);
		return ELOOP;
	}
	err = console_open(room, fd, path);
	if (err)
		close(fd);
	return err;
}

int console_open(struct room *room, int fd, const char *name)
{
	struct console *console;
	bool terminal = isatty(fd);

	/* In the background a terminal is somebody else's. */
	if (terminal && tcgetpgrp(fd) != getpgrp())
		return 0;
	console = calloc(1, sizeof(*console));
	if (!console || (name && !(console->name = strdup(name)))) {
		free(console);
		return ENOMEM;
	}
	console->room = room;
	console->fd = fd;
	console->terminal = terminal;
	console->watch.ready = console_ready;
	console->watched = !room_watch(room, fd, &console->watch, EPOLLIN);	/* not a file */
	list_add_tail(&room->consoles, &console->node);
	console_prompt(console);
	return 0;
}

uint64_t console_deadline_us(const struct room *room)
{
	uint64_t next = FABRIC_NEVER;
	struct list *at;

	list_for_each(at, &room->consoles) {
		const struct console *console = list_entry(at, struct console, node);
		uint64_t due = console->wait_us	  ? console->wait_us
			       : console->watched ? FABRIC_NEVER
						  : 0;

		if (due < next)
			next = due;
	}
	return next;
}

/* Waits that are over, and files, which are always readable. */
void console_timer(struct room *room)
{
	struct list *at, *next;

	list_for_each_safe(at, next, &room->consoles) {
		struct console *console = list_entry(at, struct console, node);

		if (console->wait_us && console_is_waiting(console))
			continue;
		console_drain(console);
		if (console->wait_us || console->watched)
			continue;
		if (console->ended) {
			console_close(console);
			continue;
		}
		console->watched = !room_watch(room, console->fd, &console->watch, EPOLLIN);
		if (!console->watched) {
			console_read(console);
			console_drain(console);
		}
	}
}

void console_close_all(struct room *room)
{
	while (!list_empty(&room->consoles))
		console_close(list_entry(room->consoles.next, struct console, node));
}
