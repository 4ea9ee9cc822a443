/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The list of devices: one for each HCA of the fabric (subnet/list.c) and for each interface (net/naming.c), with
 * its GUID.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "device/hca.h"
#include "engine/injection.h"
#include "local/local.h"
#include "net/naming.h"
#include "net/port.h"
#include "subnet/subnet.h"
#include "trace/file.h"

#define INTERFACES_BYTES 512

/* A setting that leaves no device is a mistake, and said unasked; a machine without one may be meant. */
static void explain_no_device(const struct config *config)
{
	char interfaces[INTERFACES_BYTES];

	if (!config->devices[0] && !explaining())
		return;
	naming_describe(interfaces, sizeof(interfaces));
	if (config->devices[0])
		complain("no device: VERBATIM_DEVICES=%s matches none that is up and has an address; "
			 "interfaces of this network namespace: %s", config->devices, interfaces);
	else
		explain_about("VERBATIM_DEVICES", OF_NOTHING,
				    "ibv_get_device_list: no device: no interface is up and has an address: "
				    "'ip link set lo up' gives vb_lo; interfaces of this network namespace: %s",
				    interfaces);
}

int hca_device_list(struct hca_device **devices, int *count)
{
	struct subnet_device *hcas = NULL;
	struct named_netdev *named;
	struct hca_device *list;
	enum local_mode mode;
	struct config config;
	int i, found, of_fabric = 0, err = naming_list(&named, &found);

	if (err)
		return err;
	/* What the engine would refuse when a device is opened is refused here, before. */
	err = config_load(&config);
	if (!err)
		err = local_mode_of(config.memory, &mode);
	if (!err)
		err = injection_check();
	if (!err)
		err = trace_file_check();
	if (!err)
		err = subnet_list(&hcas, &of_fabric);
	if (err) {
		free(named);
		return err;
	}
	list = calloc((size_t)(of_fabric + found) + 1, sizeof(*list));
	for (i = 0; list && i < of_fabric; i++) {
		memcpy(list[i].name, hcas[i].name, sizeof(list[i].name));
		list[i].guid = hcas[i].guid;
		list[i].index = i;
	}
	for (; list && i < of_fabric + found; i++) {
		const struct named_netdev *from = &named[i - of_fabric];

		memcpy(list[i].name, from->name, sizeof(list[i].name));
		memcpy(list[i].interface, from->netdev.name, sizeof(list[i].interface));
		list[i].interface_index = from->netdev.index;
		list[i].guid = port_guid(&from->netdev);
		list[i].index = i;
	}
	free(named);
	free(hcas);
	if (!list)
		return ENOMEM;
	/* A fabric's absence is explained where it is asked. */
	if (!i && (!config.fabric[0] || config.devices[0]))
		explain_no_device(&config);
	*devices = list;
	*count = i;
	return 0;
}

int hca_read_sysfs(const char *path, char *text, size_t size)
{
	return subnet_sysfs(path, text, size);
}
