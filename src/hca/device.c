/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The list of devices: what interfaces there are now, named by naming.c; and the GUID of each.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "hca/device.h"
#include "hca/hca.h"

uint64_t device_guid(const struct netdev *netdev)
{
	static const uint8_t no_mac[6];
	uint8_t guid[8] = { 0x02, 0, 0, 0xff, 0xfe, 0, 0, 0 };
	uint64_t value;

	if (memcmp(netdev->mac, no_mac, 6) || netdev->loopback) {
		memcpy(guid, netdev->mac, 3);
		memcpy(guid + 5, netdev->mac + 3, 3);
		guid[0] ^= 0x02;
	} else {
		/* No hardware address (tun, ip tunnels): the interface index tells them apart. */
		put_be24(guid + 5, netdev->index);
	}
	memcpy(&value, guid, sizeof(value));
	return value;
}

int device_find_all(struct named_netdev **named, int *count)
{
	struct config config;
	struct netdev *list;
	int listed, err = log_init();

	if (!err)
		err = config_load(&config);
	if (err)
		return err == ENOENT ? EINVAL : err;
	err = netdev_list(&list, &listed);
	if (err) {
		explain("get_device_list: asking the kernel for its network interfaces failed: %s",
			strerror(err));
		return err;
	}
	err = naming_apply(&config, list, listed, named, count);
	free(list);
	return err;
}

int hca_device_list(struct hca_device **devices, int *count)
{
	struct named_netdev *named;
	struct hca_device *list;
	int i, found, err = device_find_all(&named, &found);

	if (err)
		return err;
	list = calloc((size_t)found + 1, sizeof(*list));
	for (i = 0; list && i < found; i++) {
		memcpy(list[i].name, named[i].name, sizeof(list[i].name));
		memcpy(list[i].interface, named[i].netdev.name, sizeof(list[i].interface));
		list[i].interface_index = named[i].netdev.index;
		list[i].guid = device_guid(&named[i].netdev);
		list[i].index = i;
	}
	free(named);
	if (!list)
		return ENOMEM;
	if (!found)
		explain("get_device_list: no device: no network interface is both up and has an "
			"address (and is allowed by VERBATIM_DEVICES); 'ip link set lo up' gives vb_lo");
	*devices = list;
	*count = found;
	return 0;
}
