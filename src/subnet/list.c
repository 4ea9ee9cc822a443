/* SPDX-License-Identifier: BSD-2-Clause */
/* The HCAs of the node, as ibv_get_device_list() and sysfs show them: the fabric is asked each
 * time. */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "subnet/internal.h"

struct device_list {
	struct subnet_device device[ENDS_MAX];
	int count;
};

void subnet_bound_port(struct ctl_port *port)
{
	port->device[sizeof(port->device) - 1] = '\0';
	port->description[sizeof(port->description) - 1] = '\0';
	if (port->pkeys > CTL_PKEYS_MAX)
		port->pkeys = CTL_PKEYS_MAX;
	if (!port->pkeys)
		port->pkeys = 1;
	if (port->gids > CTL_GIDS_MAX)
		port->gids = CTL_GIDS_MAX;
	if (!port->gids)
		port->gids = 1;
	if (port->mtu_active < IBV_MTU_256 || port->mtu_active > IBV_MTU_4096)
		port->mtu_active = IBV_MTU_256;
	if (port->mtu_cap < IBV_MTU_256 || port->mtu_cap > IBV_MTU_4096)
		port->mtu_cap = IBV_MTU_256;
	if (port->state > IBV_PORT_ACTIVE_DEFER)
		port->state = PORT_STATE_DOWN;
}

static void list_take(void *context, const struct ctl_head *head, const char *body)
{
	struct device_list *list = context;
	struct ctl_port port;

	if (head->kind != CTL_PORT || head->bytes != sizeof(port) || list->count == (int)ENDS_MAX)
		return;
	memcpy(&port, body, sizeof(port));
	subnet_bound_port(&port);
	if (port.node_type != 1) /* a switch has no QPs but 0 and 1 */
		return;
	for (int i = 0; i < list->count; i++)
		if (!strcmp(list->device[i].name, port.device))
			return;
	snprintf(list->device[list->count].name, sizeof(list->device[0].name), "%s", port.device);
	list->device[list->count++].guid = htobe64(port.node_guid);
}

int subnet_list(struct subnet_device **devices, int *count)
{
	struct device_list list = { .count = 0 };
	struct ctl_place place = { .port = 0 };
	char why[PLACE_WHY_MAX];
	struct ib_binding binding;
	int err = ib_bind(&binding);

	*devices = NULL;
	*count = 0;
	if (err)
		return err == ENODEV ? 0 : err;
	strcpy(place.node, binding.node);
	err = ib_question(&binding, CTL_PORTS, &place, sizeof(place), list_take, &list, NULL, why);
	if (err == EINVAL) {
		complain("%s", why);
		return err;
	}
	if (err)
		explain_about("VERBATIM_FABRIC", OF_NOTHING,
			      "ibv_get_device_list: no InfiniBand device: %s", why);
	else if (!list.count)
		explain_about("VERBATIM_FABRIC", OF_NOTHING,
			      "ibv_get_device_list: no InfiniBand device: node %s of the fabric %s has no "
			      "HCA: set VERBATIM_NODE to a host (verbatim fabric --list)",
			      binding.node, binding.fabric);
	*devices = malloc(sizeof(list.device));
	if (!*devices)
		return ENOMEM;
	memcpy(*devices, list.device, sizeof(list.device));
	*count = list.count;
	return 0;
}

int subnet_sysfs(const char *path, char *text, size_t size)
{
	bool directory = false;
	int err = ib_sysfs(path, &directory, text, size);

	return !err && directory ? ENOENT : err;
}
