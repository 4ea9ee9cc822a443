/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The console's words for counters of ports: what they are, what they become, what they rise by; all of
 * them for Prometheus.
 */
#include "fabric/console.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

#define BYTES_PER_WORD	4u		/* in which the specification counts data */
#define BYTES_PER_MBIT	125000u

static void counter_show(struct room *room, const struct end *end, bool all, FILE *out)
{
	uint64_t value, per_second;
	const char *name;

	for (unsigned i = 0; (name = fabric_counter(room->fabric, end->node, end->port, i,
						    room->now_us, &value, &per_second)); i++) {
		if (!value && !per_second && !all)
			continue;
		fprintf(out, "%s[%u] %s %llu", console_node_name(room, end->node), end->port, name,
			(unsigned long long)value);
		if (per_second)
			fprintf(out, ", %llu more each second", (unsigned long long)per_second);
		fputc('\n', out);
	}
}

/* "NAME=VALUE", "NAME+=VALUE": each second. ibsim has PortCounters. before the name. */
static int counter_set(struct room *room, const struct end *end, char *text, FILE *out)
{
	char *equals = strchr(text, '='), *dot;
	bool rises = equals && equals > text && equals[-1] == '+';
	unsigned counter;
	uint64_t value;

	if (!equals || !text_number(equals + 1, 0, rises ? FABRIC_RISE_MAX : UINT64_MAX, &value)) {
		fprintf(out, "'%s': expected COUNTER=VALUE, or COUNTER+=VALUE for so many more each "
			"second\n", text);
		return EINVAL;
	}
	equals[rises ? -1 : 0] = '\0';
	dot = strchr(text, '.');
	counter = fabric_find_counter(dot ? dot + 1 : text);
	if (rises ? fabric_set_rise(room->fabric, end->node, end->port, counter, value,
				    room->now_us) :
		    fabric_set_counter(room->fabric, end->node, end->port, counter, value,
				       room->now_us)) {
		fprintf(out, "no counter '%s': counter NODE[PORT] all lists them\n",
			dot ? dot + 1 : text);
		return EINVAL;
	}
	return 0;
}

int console_word_counter(struct room *room, int count, char **word, FILE *out)
{
	struct end end;
	int err = 0;

	if (count < 2) {
		fprintf(out, "expected %s NODE[PORT] [all | COUNTER=VALUE | COUNTER+=VALUE ...]\n",
			word[0]);
		return EINVAL;
	}
	if (console_end_parse(room, word[1], &end, out) || !console_end_exists(room, &end, out))
		return EINVAL;
	if (end.port == FABRIC_NONE) {
		fprintf(out, "%s: which port? %s[1]\n", word[1], word[1]);
		return EINVAL;
	}
	if (count == 2 || (count == 3 && !strcasecmp(word[2], "all")))
		counter_show(room, &end, count == 3, out);
	else
		for (int i = 2; i < count && !err; i++)
			err = counter_set(room, &end, word[i], out);
	return err;
}

/* ---- for Prometheus ---- */

static const char *type_name(enum fabric_node_type type)
{
	return type == FABRIC_SWITCH ? "switch" : type == FABRIC_ROUTER ? "router" : "hca";
}

/* Backslashes, quotes and what breaks a line do not stand in a label as they are. */
static void metric_label(const char *name, const char *value, FILE *out)
{
	fprintf(out, "%s=\"", name);
	for (; *value; value++) {
		if (*value == '\\' || *value == '"')
			fputc('\\', out);
		fputc((unsigned char)*value < ' ' ? '?' : *value, out);
	}
	fputc('"', out);
}

static void metric_value(const char *name, const struct fabric_node_info *node, uint32_t port,
			 uint64_t value, FILE *out)
{
	fprintf(out, "%s{", name);
	metric_label("node", node->id, out);
	fprintf(out, ",guid=\"0x%016llx\",type=\"%s\",port=\"%u\"} %llu\n",
		(unsigned long long)node->guid, type_name(node->type), port,
		(unsigned long long)value);
}

/* Calls @each for all ports of the fabric that have a cable. */
static void metric_ports(struct room *room, const char *name, unsigned counter,
			 void (*each)(struct room *room, const char *name, uint32_t node,
				      uint32_t port, unsigned counter, FILE *out), FILE *out)
{
	struct fabric_node_info info;
	struct fabric_port_info port;

	for (uint32_t node = 0; fabric_node_info(room->fabric, node, &info); node++)
		for (uint32_t number = 1; number <= info.ports; number++)
			if (fabric_port_info(room->fabric, node, number, &port) &&
			    port.peer_node != FABRIC_NONE)
				each(room, name, node, number, counter, out);
}

static void metric_counter(struct room *room, const char *name, uint32_t node, uint32_t port,
			   unsigned counter, FILE *out)
{
	uint64_t value, per_second, unit = strstr(name, "_bytes_") ? BYTES_PER_WORD : 1;
	struct fabric_node_info info;

	fabric_node_info(room->fabric, node, &info);
	fabric_counter(room->fabric, node, port, counter, room->now_us, &value, &per_second);
	metric_value(name, &info, port, value * unit, out);
}

static void metric_state(struct room *room, const char *name, uint32_t node, uint32_t port,
			 unsigned which, FILE *out)
{
	struct fabric_node_info info;
	struct fabric_port_info now;

	fabric_node_info(room->fabric, node, &info);
	fabric_port_info(room->fabric, node, port, &now);
	metric_value(name, &info, port,
		     which == 0 ? (uint64_t)now.state : which == 1 ? (uint64_t)now.phys_state :
		     now.state > FABRIC_PORT_DOWN ? now.rate_mbps * BYTES_PER_MBIT : 0, out);
}

int console_word_metrics(struct room *room, int count, char **word, FILE *out)
{
	static const char *const states[][2] = {
		{ "infiniband_port_state", "1 Down, 2 Init, 3 Armed, 4 Active" },
		{ "infiniband_port_physical_state", "2 Polling, 3 Disabled, 5 LinkUp" },
		{ "infiniband_port_rate_bytes", "bytes in a second; 0: no link" },
	};
	uint64_t value, per_second;
	const char *counter;
	char name[96];

	for (unsigned i = 0; i < sizeof(states) / sizeof(*states); i++) {
		fprintf(out, "# HELP %s %s.\n# TYPE %s gauge\n", states[i][0], states[i][1],
			states[i][0]);
		metric_ports(room, states[i][0], i, metric_state, out);
	}
	/* A port of the first node names them all. */
	for (unsigned i = 0; (counter = fabric_counter(room->fabric, 0, 1, i, room->now_us, &value,
						       &per_second)); i++) {
		bool data = !strcmp(counter, "port_xmit_data") || !strcmp(counter, "port_rcv_data");

		size_t length = strlen(counter);

		/* A metric does not say in its name that it is a counter: promtool check metrics. */
		if (length > 8 && !strcmp(counter + length - 8, "_counter"))
			length -= 8;
		snprintf(name, sizeof(name), "infiniband_%s%.*s%s_total",
			 strncmp(counter, "port_", 5) ? "port_" : "", (int)length, counter,
			 data ? "_bytes" : "");
		fprintf(out, "# HELP %s Counter %s of the port.\n# TYPE %s counter\n", name, counter,
			name);
		metric_ports(room, name, i, metric_counter, out);
	}
	return 0;
}
