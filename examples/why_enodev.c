/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why does rdma_bind_addr() say ENODEV, "No such device"? Goes the way that the library goes, and says
 * where it ends.
 *	why_enodev [ADDRESS]		an IPv4 address; without one: 127.0.0.1
 * Build: gcc why_enodev.c -o why_enodev -lrdmacm -libverbs
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <string.h>

static int answer(const char *text)
{
	printf("=> %s\n", text);
	return 1;
}

/* Has the device a GID that is the address? On RoCE it is ::ffff:a.b.c.d. Its index, or -1. */
static int gid_index(struct ibv_context *context, const struct in_addr *address)
{
	struct ibv_port_attr port;
	union ibv_gid gid, wanted = { .raw = { [10] = 0xff, [11] = 0xff } };

	memcpy(&wanted.raw[12], address, sizeof(*address));
	if (ibv_query_port(context, 1, &port))
		return -1;
	for (int i = 0; i < port.gid_tbl_len; i++)
		if (!ibv_query_gid(context, 1, i, &gid) && !memcmp(&gid, &wanted, sizeof(gid)))
			return i;
	return -1;
}

int main(int argc, char **argv)
{
	struct sockaddr_in address = { .sin_family = AF_INET };
	struct ibv_device **list;
	struct rdma_cm_id *id;
	int count, opened = 0, holders = 0, failed;

	if (inet_pton(AF_INET, argc > 1 ? argv[1] : "127.0.0.1", &address.sin_addr) != 1)
		return answer("that is no IPv4 address");

	list = ibv_get_device_list(&count);		/* 1. is there any device? */
	printf("1. devices: %d\n", list ? count : 0);
	if (!list || !count)
		return answer("no RDMA device at all: is the driver, or Verbatim, there?");
	for (int i = 0; i < count; i++) {		/* 2. can they be opened? 3. whose address is it? */
		struct ibv_context *context = ibv_open_device(list[i]);
		int index = context ? gid_index(context, &address.sin_addr) : -1;

		if (!context) {
			printf("2. %s: cannot be opened: %s\n", ibv_get_device_name(list[i]), strerror(errno));
			continue;
		}
		opened++;
		if (index >= 0)
			printf("3. %s has the address, as GID %d\n", ibv_get_device_name(list[i]), index);
		holders += index >= 0;
		ibv_close_device(context);
	}
	ibv_free_device_list(list);
	if (!opened)
		return answer("no device can be opened: dead, or no permission");

	/* 4. What the library says. Without an event channel calls wait for their end. */
	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP))
		return answer("rdma_create_id fails: the connection manager is not there (rdma_ucm)");
	failed = rdma_bind_addr(id, (struct sockaddr *)&address) ? errno : 0;
	printf("4. rdma_bind_addr: %s\n", failed ? strerror(failed) : "done");
	rdma_destroy_id(id);
	if (failed == ENODEV || failed == EADDRNOTAVAIL)
		return answer(holders ? "a device has the address, and the library did not find it"
				      : "no device has this address: another interface or host has it");
	if (failed)
		return answer("another reason than ENODEV");
	printf("=> the device is found\n");
	return 0;
}
