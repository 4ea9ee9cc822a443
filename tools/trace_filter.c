/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * --filter KEY=VALUE[|VALUE]...[,KEY=VALUE...]: what is recorded has to match each KEY, by one of its values.
 *
 *	qp=0x000123		own QP, or the one that a packet is sent to
 *	device=vb_eth0		packets from and to addresses of its interface
 *	peer=192.0.2.1		packets to and from that address
 *	process=rping		a program's name, or a process ID
 *	kind=packets|drops	packets calls completions drops states cm async explain faults
 *
 * Device and peer are of packets: events pass.
 */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"
#include "trace.h"

static const struct { const char *name; uint32_t want; } kinds[] = {
	{ "packets", TRACE_PACKETS }, { "calls", TRACE_CALLS }, { "completions", TRACE_COMPLETIONS },
	{ "drops", TRACE_DROPS }, { "states", TRACE_STATES }, { "cm", TRACE_CM }, { "async", TRACE_ASYNC },
	{ "explain", TRACE_EXPLAIN }, { "faults", TRACE_FAULTS },
};

static bool wrong(const char *key, const char *value, const char *right)
{
	usage_error("trace", "--filter: invalid %s '%s': %s", key, value, right);
	return false;
}

static bool parse_kind(struct filter *filter, const char *value)
{
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strcmp(kinds[i].name, value))
			continue;
		filter->kinds |= kinds[i].want;
		return true;
	}
	return wrong("kind", value, "one of packets, calls, completions, drops, states, cm, async, explain, "
		     "faults");
}

static bool parse_qp(struct filter *filter, const char *value)
{
	char *end;
	unsigned long qpn = strtoul(value, &end, 0);

	if (*value < '0' || *value > '9' || *end || qpn > 0xffffff)
		return wrong("qp", value, "a QP number, 0x000123 or 291, at most 0xffffff");
	filter->qp[filter->qps++] = (uint32_t)qpn;
	return true;
}

static bool parse_peer(struct filter *filter, const char *value)
{
	uint8_t *address = filter->peer[filter->peers];

	memset(address, 0, 10);
	memset(address + 10, 0xff, 2);
	if (inet_pton(AF_INET, value, address + 12) != 1 && inet_pton(AF_INET6, value, address) != 1)
		return wrong("peer", value, "an IPv4 or IPv6 address, as 'verbatim list' shows them");
	filter->peers++;
	return true;
}

static bool parse_process(struct filter *filter, const char *value)
{
	snprintf(filter->process[filter->processes++], sizeof(filter->process[0]), "%s", value);
	return true;
}

static bool parse_device(struct filter *filter, const char *value)
{
	const char *interface = strncmp(value, "vb_", 3) ? value : value + 3;

	if (!if_nametoindex(interface))
		return wrong("device", value, "a device that 'verbatim list' shows, vb_eth0");
	snprintf(filter->device[filter->devices++], sizeof(filter->device[0]), "%s", interface);
	return true;
}

static const struct {
	const char *name;
	bool (*parse)(struct filter *filter, const char *value);
	size_t count;			/* offset in struct filter; 0: no limit */
} filter_keys[] = {
	{ "qp", parse_qp, offsetof(struct filter, qps) },
	{ "device", parse_device, offsetof(struct filter, devices) },
	{ "peer", parse_peer, offsetof(struct filter, peers) },
	{ "process", parse_process, offsetof(struct filter, processes) },
	{ "kind", parse_kind, 0 },
};

static bool parse_values(struct filter *filter, size_t key, char *values)
{
	char *rest = values, *value;

	while ((value = strsep(&rest, "|"))) {
		if (!*value)
			return wrong(filter_keys[key].name, value, "a value");
		unsigned *count = (unsigned *)((char *)filter + filter_keys[key].count);

		if (filter_keys[key].count && *count == FILTER_VALUES)
			return wrong(filter_keys[key].name, value, "at most 16 values");
		if (!filter_keys[key].parse(filter, value))
			return false;
	}
	return true;
}

bool filter_parse(struct filter *filter, const char *text)
{
	char copy[1024], *rest = copy, *term;

	if (snprintf(copy, sizeof(copy), "%s", text) >= (int)sizeof(copy))
		return wrong("filter", "...", "less than 1024 characters");
	while ((term = strsep(&rest, ","))) {
		char *values = strchr(term, '=');
		size_t i;

		if (values)
			*values++ = '\0';
		for (i = 0; i < sizeof(filter_keys) / sizeof(filter_keys[0]); i++)
			if (!strcmp(term, filter_keys[i].name))
				break;
		if (!values || i == sizeof(filter_keys) / sizeof(filter_keys[0]))
			return wrong("term", term, "KEY=VALUE[|VALUE]... with a KEY of qp, device, peer, "
						 "process, kind");
		if (!parse_values(filter, i, values))
			return false;
	}
	return true;
}

bool filter_takes_process(const struct filter *filter, const char *program, pid_t pid)
{
	char number[16];

	snprintf(number, sizeof(number), "%d", (int)pid);
	for (unsigned i = 0; i < filter->processes; i++)
		if (!strcmp(filter->process[i], program) || !strcmp(filter->process[i], number))
			return true;
	return !filter->processes;
}

static bool address_is_of(const char *interface, const uint8_t address[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	struct ifaddrs *list, *each;
	bool found = false;

	if (getifaddrs(&list))
		return false;
	for (each = list; each && !found; each = each->ifa_next) {
		if (!each->ifa_addr || strcmp(each->ifa_name, interface))
			continue;
		if (each->ifa_addr->sa_family == AF_INET)
			found = !memcmp(address, mapped, 12) &&
				!memcmp(address + 12, &((struct sockaddr_in *)each->ifa_addr)->sin_addr, 4);
		else if (each->ifa_addr->sa_family == AF_INET6)
			found = !memcmp(address, &((struct sockaddr_in6 *)each->ifa_addr)->sin6_addr, 16);
	}
	freeifaddrs(list);
	return found;
}

/* Asking the kernel for each packet would be slow: the last answer is remembered. */
static bool takes_device(const struct filter *filter, const uint8_t address[16])
{
	static uint8_t last[16];
	static bool answer, asked;

	if (!filter->devices)
		return true;
	if (asked && !memcmp(last, address, 16))
		return answer;
	answer = false;
	for (unsigned i = 0; i < filter->devices && !answer; i++)
		answer = address_is_of(filter->device[i], address);
	memcpy(last, address, 16);
	asked = true;
	return answer;
}

static bool takes_qp(const struct filter *filter, const struct trace_record *record, const uint8_t *data)
{
	uint32_t to = record->kind == TRACE_IS_PACKET && record->captured >= 12 ?
			      (uint32_t)(data[5] << 16 | data[6] << 8 | data[7]) : record->qpn;

	if (record->kind == TRACE_IS_OPERATION && record->captured >= sizeof(struct trace_operation))
		memcpy(&to, data + offsetof(struct trace_operation, dest_qpn), sizeof(to));
	for (unsigned i = 0; i < filter->qps; i++)
		if (filter->qp[i] == record->qpn || filter->qp[i] == to)
			return true;
	return !filter->qps;
}

bool filter_takes(const struct filter *filter, const struct trace_record *record, const uint8_t *data)
{
	bool outbound = record->flags & TRACE_OUTBOUND;
	const uint8_t *remote = outbound ? record->destination : record->source;
	bool peer = !filter->peers;

	if (!takes_qp(filter, record, data))
		return false;
	if (record->kind == TRACE_IS_POINT || record->kind == TRACE_IS_EVENT)
		return true;
	for (unsigned i = 0; i < filter->peers; i++)
		peer |= !memcmp(filter->peer[i], remote, 16);
	return peer && takes_device(filter, outbound ? record->source : record->destination);
}
