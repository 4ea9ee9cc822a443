/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The list of devices: one for each interface (net/naming.c), with its GUID.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "device/hca.h"
#include "net/naming.h"
#include "net/port.h"

int hca_device_list(struct hca_device **devices, int *count)
{
	struct named_netdev *named;
	struct hca_device *list;
	int i, found, err = naming_list(&named, &found);

	if (err)
		return err;
	list = calloc((size_t)found + 1, sizeof(*list));
	for (i = 0; list && i < found; i++) {
		memcpy(list[i].name, named[i].name, sizeof(list[i].name));
		memcpy(list[i].interface, named[i].netdev.name, sizeof(list[i].interface));
		list[i].interface_index = named[i].netdev.index;
		list[i].guid = port_guid(&named[i].netdev);
		list[i].index = i;
	}
	free(named);
	if (!list)
		return ENOMEM;
	if (!found)
		explain("get_device_list: no device: no network interface is up, has an address "
			"and is allowed by VERBATIM_DEVICES; 'ip link set lo up' gives vb_lo");
	*devices = list;
	*count = found;
	return 0;
}
