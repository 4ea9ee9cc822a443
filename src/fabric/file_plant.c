/* SPDX-License-Identifier: BSD-2-Clause */
/* Lines of a subnet's file that plant something: counters, ports that are stuck, cables that are bad. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ip_addr.h"
#include "fabric/file_internal.h"
#include "wire/packet.h"

static void reader_plant(struct reader *reader, const struct planted *planted)
{
	if (!reader_room(reader, (void **)&reader->planted, reader->plants_room, reader->plants,
			 sizeof(*planted), &reader->plants_room))
		return;
	reader->planted[reader->plants] = *planted;
	reader->planted[reader->plants++].line = reader->line;
}

/* NODE[PORT] of a verb: what is planted there. False: complained of. */
static bool verb_port(struct reader *reader, const char **p, struct planted *planted)
{
	struct draft *draft = file_verb_node(reader, p);

	*planted = (struct planted){ .speed = -1 };
	if (!draft || !file_read_port(reader, p, &planted->port))
		return false;
	planted->node = (uint32_t)(draft - reader->draft);
	if (planted->port <= draft->node.ports && (planted->port || node_is_switch(&draft->node)))
		return true;
	COMPLAIN(reader, "\"%.64s\" has ports 1 to %u, and not %u", draft->node.id,
		 draft->node.ports, planted->port);
	return false;
}

/* SymbolErrorCounter=5: its value; PortXmitDiscards+=2: so many more each second. */
void file_verb_counter(struct reader *reader, const char *p)
{
	struct planted planted;
	char name[64];

	if (!verb_port(reader, &p, &planted))
		return;
	for (p = file_skip_blanks(p); *p; p = file_skip_blanks(p)) {
		size_t bytes = strcspn(p, "+= \t");

		snprintf(name, sizeof(name), "%.*s", (int)bytes, p);
		planted.counter = fabric_find_counter(name);
		planted.kind = p[bytes] == '+' ? PLANT_RISE : PLANT_COUNTER;
		p += bytes + (p[bytes] == '+');
		if (planted.counter >= COUNTERS) {
			COMPLAIN(reader,
				 "no counter \"%.40s\": names are the specification's, as "
				 "SymbolErrorCounter",
				 name);
			return;
		}
		if (*p != '=' || (p++, !file_read_number(&p, 0, planted.kind == PLANT_RISE ?
								   FABRIC_RISE_MAX : UINT64_MAX,
							 &planted.value))) {
			COMPLAIN(reader, "%s: write %s=VALUE, or %s+=VALUE for so many a second",
				 name, name, name);
			return;
		}
		reader_plant(reader, &planted);
	}
}

static bool plant_read_ip(const char *text, uint8_t ip[16])
{
	uint8_t ipv4[4];

	if (inet_pton(AF_INET, text, ipv4) == 1) {
		ip_addr_map_ipv4(ip, ipv4);
		return !ip_addr_is_multicast(ip) && ipv4[0];
	}
	return inet_pton(AF_INET6, text, ip) == 1 && !ip_addr_is_multicast(ip) &&
	       !ip_addr_is_zero(ip);
}

void file_plant_addresses(struct reader *reader, const struct draft *draft, unsigned port,
			  const char *value)
{
	struct planted planted = { .kind = PLANT_ADDRESS, .port = port,
				   .node = (uint32_t)(draft - reader->draft) };
	char copy[80], *rest = copy, *one;

	if (draft->node.type != FABRIC_CA) {
		COMPLAIN(reader, "\"%.64s\": ip= is of a host: a Ca or Hca", draft->node.id);
		return;
	}
	snprintf(copy, sizeof(copy), "%s", value);
	while ((one = strsep(&rest, ","))) {
		char *key = strchr(one, '@'), *end = key;
		unsigned long pkey = key ? strtoul(key + 1, &end, 16) : 0;

		if (key)
			*key = '\0';
		planted.pkey = pkey ? (uint16_t)(pkey | PKEY_FULL) : 0;
		if (key && (end == key + 1 || *end || pkey > 0xffff || !(pkey & ~PKEY_FULL))) {
			COMPLAIN(reader, "ip=%.46s@%.8s: \"%.8s\" is no P_Key of a partition; write "
				 "ip=10.0.0.1@0x8001", one, key + 1, key + 1);
			return;
		}
		if (!plant_read_ip(one, planted.ip)) {
			COMPLAIN(reader, "ip=%.46s is no address of a host; write ip=10.0.0.1, or more "
				 "with commas between them", one);
			return;
		}
		reader_plant(reader, &planted);
	}
}

void file_verb_port(struct reader *reader, const char *p)
{
	struct planted planted;
	char name[16], value[80];

	if (!verb_port(reader, &p, &planted))
		return;
	while (file_read_option(reader, &p, name, value)) {
		if (!strcmp(name, "stuck") && planted.port) {
			planted.kind = PLANT_STUCK;
			reader_plant(reader, &planted);
		} else if (!strcmp(name, "ip") && planted.port) {
			file_plant_addresses(reader, &reader->draft[planted.node], planted.port, value);
		} else {
			COMPLAIN(reader, "port has no option %s; it has stuck and ip, and ports begin at 1",
				 name);
		}
	}
}

/* "1x", "SDR", "1xSDR" */
static bool read_degraded(const char *text, struct planted *planted)
{
	const char *behind = text;
	uint8_t width = file_width_of(text, &behind);

	planted->lanes = width ? port_lanes(width) : 0;
	planted->speed = *behind ? file_speed_of(behind) : -1;
	return *text && (!*behind || planted->speed >= 0);
}

static bool read_rate(const char *text, double *rate)
{
	char *end;

	*rate = strtod(text, &end);
	return *text && !*end && *rate >= 0 && *rate <= FABRIC_BIT_ERRORS_MAX;
}

/* ber=, degraded=. False: another option. */
bool file_link_fault(struct reader *reader, const struct draft *draft, unsigned port,
		       const char *name, const char *value)
{
	struct planted planted = { .node = (uint32_t)(draft - reader->draft), .port = port };
	bool errors = !strcmp(name, "ber");

	if (!errors && strcmp(name, "degraded"))
		return false;
	planted.kind = errors ? PLANT_BIT_ERRORS : PLANT_DEGRADED;
	if (errors ? read_rate(value, &planted.rate) : read_degraded(value, &planted))
		reader_plant(reader, &planted);
	else
		COMPLAIN(reader, "%s=%.20s: ber= is 0 to 1e-3, as 1e-9; degraded= 1x, SDR or 1xSDR",
			 name, value);
	return true;
}
