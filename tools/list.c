/* SPDX-License-Identifier: BSD-2-Clause */
/* verbatim list: the devices as programs see them, by the public calls of libibverbs alone. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tool.h"

#define PORT 1

static int mtu_bytes(enum ibv_mtu mtu)
{
	return 128 << mtu;
}

static bool is_ipv4_mapped(const union ibv_gid *gid)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(gid->raw, mapped, sizeof(mapped));
}

static void print_gid(const struct ibv_gid_entry *entry)
{
	char text[INET6_ADDRSTRLEN], interface[IF_NAMESIZE];

	if (is_ipv4_mapped(&entry->gid))
		inet_ntop(AF_INET, entry->gid.raw + 12, text, sizeof(text));
	else
		inet_ntop(AF_INET6, entry->gid.raw, text, sizeof(text));
	printf("  gid %-3u %s", entry->gid_index, text);
	if (entry->ndev_ifindex && if_indextoname(entry->ndev_ifindex, interface))
		printf("  on %s", interface);
	printf("  %s\n", entry->gid_type == IBV_GID_TYPE_ROCE_V2 ? "RoCE v2" :
			 entry->gid_type == IBV_GID_TYPE_IB	? "InfiniBand" : "RoCE v1");
}

static void print_gids(struct ibv_context *context, int count)
{
	struct ibv_gid_entry entry;

	for (int i = 0; i < count; i++)
		if (!ibv_query_gid_ex(context, PORT, (uint32_t)i, &entry, 0))
			print_gid(&entry);
}

static int print_device(struct ibv_device *device)
{
	struct ibv_context *context = ibv_open_device(device);
	struct ibv_port_attr port;
	int err;

	if (!context) {
		fprintf(stderr, "verbatim list: %s: cannot open the device: %s\n",
			ibv_get_device_name(device), strerror(errno));
		return -1;
	}
	err = ibv_query_port(context, PORT, &port);
	if (err) {
		fprintf(stderr, "verbatim list: %s: cannot query the port: %s\n",
			ibv_get_device_name(device), strerror(err));
	} else {
		printf("%s: %s, path MTU %d of at most %d\n", ibv_get_device_name(device),
		       ibv_port_state_str(port.state), mtu_bytes(port.active_mtu),
		       mtu_bytes(port.max_mtu));
		print_gids(context, port.gid_tbl_len);
	}
	ibv_close_device(context);
	return err ? -1 : 0;
}

int list_command(int argc, char **argv)
{
	struct ibv_device **list;
	int count, failed = 0;

	if (expect_no_arguments(argc, argv))
		return EXIT_USAGE;
	setenv("VERBATIM_EXPLAIN", "1", false);
	list = ibv_get_device_list(&count);
	if (!list) {
		fprintf(stderr, "verbatim list: %s\n", strerror(errno));
		return EXIT_FAILURE;
	}
	if (!count)
		printf("no devices: no network interface is up, has an address and is allowed by "
		       "VERBATIM_DEVICES; 'ip link set lo up' gives vb_lo\n");
	for (int i = 0; i < count; i++)
		failed |= print_device(list[i]);
	ibv_free_device_list(list);
	return failed ? EXIT_FAILURE : 0;
}
