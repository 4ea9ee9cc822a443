/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim link show: the devices by the public calls of libibverbs, as a table or with the keys of
 * rdma -j link show; and interfaces that are no device, with the reason.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link_command.h"
#include "net/naming.h"
#include "tool.h"

#define PORT 1

typedef int port_speed_fn(struct ibv_context *context, uint32_t port, uint64_t *speed);

struct shown {
	const char *name;
	struct ibv_context *context;
	struct ibv_port_attr port;
	uint64_t speed;			/* in 100 Mb/s */
	uint32_t netdev;		/* index */
	char interface[IF_NAMESIZE];
	int position;
};

static int show_open(struct ibv_device *device, int position, struct shown *shown)
{
	/* By name: the command starts with the system's libibverbs, too, which may be older. */
	port_speed_fn *speed_of = (port_speed_fn *)dlsym(RTLD_DEFAULT, "ibv_query_port_speed");
	struct ibv_gid_entry entry;

	*shown = (struct shown){ .name = ibv_get_device_name(device), .position = position,
				 .interface = "-", .context = ibv_open_device(device) };
	if (!shown->context) {
		fprintf(stderr, "verbatim link: %s: cannot open the device: %s\n", shown->name, strerror(errno));
		return -1;
	}
	errno = ibv_query_port(shown->context, PORT, &shown->port);
	if (!errno && speed_of)
		errno = speed_of(shown->context, PORT, &shown->speed);
	if (errno) {
		fprintf(stderr, "verbatim link: %s: cannot query the port: %s\n", shown->name, strerror(errno));
		ibv_close_device(shown->context);
		return -1;
	}
	for (int i = 0; !shown->netdev && i < shown->port.gid_tbl_len; i++)
		if (!ibv_query_gid_ex(shown->context, PORT, (uint32_t)i, &entry, 0))
			shown->netdev = entry.ndev_ifindex;
	if (shown->netdev && !if_indextoname(shown->netdev, shown->interface))
		strcpy(shown->interface, "-");
	return 0;
}

static unsigned mtu_bytes_of(enum ibv_mtu mtu)
{
	return 128u << mtu;
}

static const char *state_name(enum ibv_port_state state)
{
	return state == IBV_PORT_ACTIVE ? "ACTIVE" : "DOWN";
}

static void gid_text(const union ibv_gid *gid, bool as_address, char text[INET6_ADDRSTRLEN])
{
	if (as_address && IN6_IS_ADDR_V4MAPPED((const struct in6_addr *)gid->raw))
		inet_ntop(AF_INET, gid->raw + 12, text, INET6_ADDRSTRLEN);
	else
		inet_ntop(AF_INET6, gid->raw, text, INET6_ADDRSTRLEN);
}

static void row(const char *name, const char *state, const char *interface, const char *mtu, const char *speed,
		const char *gid)
{
	char line[256];
	int length = snprintf(line, sizeof(line), "%-12s %-7s %-10s %-9s %-9s %s", name, state, interface, mtu,
			      speed, gid);

	while (length > 0 && length < (int)sizeof(line) && line[length - 1] == ' ')
		line[--length] = '\0';
	puts(line);
}

static void show_text(const struct shown *shown)
{
	char mtu[24], speed[32], gid[INET6_ADDRSTRLEN + 16], text[INET6_ADDRSTRLEN];
	struct ibv_gid_entry entry;
	bool first = true;

	snprintf(mtu, sizeof(mtu), "%u/%u", mtu_bytes_of(shown->port.active_mtu),
		 mtu_bytes_of(shown->port.max_mtu));
	snprintf(speed, sizeof(speed), shown->speed % 10 ? "%.1f Gb/s" : "%.0f Gb/s", (double)shown->speed / 10);
	for (int i = 0; i < shown->port.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(shown->context, PORT, (uint32_t)i, &entry, 0))
			continue;
		gid_text(&entry.gid, true, text);
		snprintf(gid, sizeof(gid), "%-3d %s", i, text);
		if (first)
			row(shown->name, state_name(shown->port.state), shown->interface, mtu, speed, gid);
		else
			row("", "", "", "", "", gid);
		first = false;
	}
	if (first)
		row(shown->name, state_name(shown->port.state), shown->interface, mtu, speed, "");
}

static void show_json(const struct shown *shown, bool first)
{
	char text[INET6_ADDRSTRLEN];
	struct ibv_gid_entry entry;
	bool first_gid = true;

	printf("%s\n{\"ifindex\":%d,\"port\":%d,", first ? "" : ",", shown->position, PORT);
	print_json_text("ifname", shown->name, ",");
	printf("\"state\":\"%s\",\"physical_state\":\"%s\",", state_name(shown->port.state),
	       shown->port.phys_state == 5 ? "LINK_UP" : "DISABLED");
	print_json_text("netdev", shown->netdev ? shown->interface : NULL, ",");
	printf("\"netdev_index\":%u,\"mtu\":%u,\"max_mtu\":%u,\"speed_gbps\":%g,\"gids\":[", shown->netdev,
	       mtu_bytes_of(shown->port.active_mtu), mtu_bytes_of(shown->port.max_mtu),
	       (double)shown->speed / 10);
	for (int i = 0; i < shown->port.gid_tbl_len; i++) {
		if (ibv_query_gid_ex(shown->context, PORT, (uint32_t)i, &entry, 0))
			continue;
		gid_text(&entry.gid, false, text);
		printf("%s{\"index\":%d,\"gid\":\"%s\",\"type\":\"RoCE %s\"}", first_gid ? "" : ",", i, text,
		       entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? "v2" : "v1");
		first_gid = false;
	}
	printf("]}");
}

/* Interfaces that are no device, and why: what `add` may be told. */
static void show_others(void)
{
	struct named_netdev *named;
	struct netdev *list;
	int named_count, count;

	if (naming_list(&named, &named_count))
		return;
	if (!netdev_list(&list, &count)) {
		for (int i = 0; i < count; i++) {
			bool is_device = false;

			for (int j = 0; j < named_count; j++)
				is_device |= named[j].netdev.index == list[i].index;
			if (!is_device)
				row("-", "-", list[i].name, "", "", !list[i].up ? "no device: it is down" :
				    !list[i].address_count ? "no device: it has no address" :
				    "no device: left out by 'devices'");
		}
		free(list);
	}
	free(named);
}

static int unknown_device(const char *name, struct ibv_device **list)
{
	struct nearest_word nearest = nearest_begin(name);

	fprintf(stderr, "verbatim link: no device '%s'; there %s", name, list[0] ? "is" : "is none");
	for (int i = 0; list[i]; i++) {
		nearest_offer(&nearest, ibv_get_device_name(list[i]));
		fprintf(stderr, "%s %s", i ? "," : "", ibv_get_device_name(list[i]));
	}
	fprintf(stderr, "%s%s\n", nearest.best ? "; the nearest: " : "", nearest.best ? nearest.best : "");
	return EXIT_FAILURE;
}

/* As rdma link: DEVICE or DEVICE/PORT. */
static bool is_named(const struct ibv_device *device, const char *name)
{
	const char *device_name = ibv_get_device_name((struct ibv_device *)device);
	size_t length = strlen(device_name);

	return !name || (!strncmp(device_name, name, length) && (!name[length] || !strcmp(name + length, "/1")));
}

static int show_list(struct ibv_device **list, const char *name, bool json)
{
	struct shown shown;
	int count = 0, status = 0;

	for (int i = 0; list[i]; i++)
		count += is_named(list[i], name);
	if (name && !count)
		return unknown_device(name, list);
	if (json)
		printf("[");
	else
		row("DEVICE", "STATE", "NETDEV", "MTU/MAX", "SPEED", "GID");
	count = 0;
	for (int i = 0; list[i]; i++) {
		if (!is_named(list[i], name))
			continue;
		if (show_open(list[i], i, &shown)) {
			status = EXIT_FAILURE;
			continue;
		}
		if (json)
			show_json(&shown, !count);
		else
			show_text(&shown);
		count++;
		ibv_close_device(shown.context);
	}
	if (json)
		printf("\n]\n");
	else if (!name)
		show_others();
	return status;
}

unsigned link_path_mtu(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct shown shown;
	unsigned mtu = 0;

	for (int i = 0; list && list[i]; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name) && !show_open(list[i], i, &shown)) {
			mtu = mtu_bytes_of(shown.port.active_mtu);
			ibv_close_device(shown.context);
		}
	if (list)
		ibv_free_device_list(list);
	return mtu;
}

int link_show(const char *name, bool json)
{
	struct ibv_device **list;
	int status;

	setenv("VERBATIM_EXPLAIN", "1", false);
	list = ibv_get_device_list(NULL);
	if (!list) {
		fprintf(stderr, "verbatim link: %s\n", strerror(errno));
		return EXIT_FAILURE;
	}
	status = show_list(list, name, json);
	ibv_free_device_list(list);
	return status;
}
