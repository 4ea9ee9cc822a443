/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 2: open a device, and ask what it can do, in which state its port is, and what it is called. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void must(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(1);
	}
}

static void print_gids(struct ibv_context *context, const struct ibv_port_attr *port)
{
	for (int i = 0; i < port->gid_tbl_len; i++) {
		static const union ibv_gid none;
		union ibv_gid gid;
		char text[INET6_ADDRSTRLEN];

		/* An empty entry of the table is all zeros. */
		must(ibv_query_gid(context, 1, i, &gid), "ibv_query_gid");
		if (memcmp(&gid, &none, sizeof(gid)))
			printf("  GID %d: %s\n", i,
			       inet_ntop(AF_INET6, gid.raw, text, sizeof(text)));
	}
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_device_attr device;
	struct ibv_port_attr port;

	must(!list || !list[0], "ibv_get_device_list");
	context = ibv_open_device(list[0]);
	must(!context, "ibv_open_device");
	ibv_free_device_list(list);

	must((errno = ibv_query_device(context, &device)), "ibv_query_device");
	printf("%s: up to %d QPs, %d requests in a queue, %d pieces in a request\n",
	       ibv_get_device_name(context->device), device.max_qp, device.max_qp_wr,
	       device.max_sge);

	/* Ports are counted from 1. The MTU is an enumeration: 1 is 256 bytes, 5 is 4096. */
	must((errno = ibv_query_port(context, 1, &port)), "ibv_query_port");
	printf("port 1: %s, MTU %d bytes, %s\n", ibv_port_state_str(port.state),
	       128 << port.active_mtu,
	       port.link_layer == IBV_LINK_LAYER_ETHERNET ? "Ethernet (RoCE)" : "InfiniBand");
	print_gids(context, &port);

	must(ibv_close_device(context), "ibv_close_device");
	return 0;
}
