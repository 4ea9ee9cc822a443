/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Open devices: rdma_get_devices(3), and the device that an id is bound to. Each is opened once
 * and shared, so that programs can share protection domains and CQs among ids. A device
 * whose interface went away, or that was open before fork(), is never used again: its name may
 * come back as another device.
 *
 * devices_lock is held while devices are opened.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fork.h"
#include "rdmacm/rdmacm.h"

static struct lock devices_lock = LOCK_INITIALIZER;
static struct list devices GUARDED_BY(devices_lock) = { &devices, &devices };

static void devices_before_fork(void) ACQUIRES(devices_lock)
{
	lock_acquire(&devices_lock);
}

static void devices_after_fork(void) RELEASES(devices_lock)
{
	lock_release(&devices_lock);
}

/* The child's copies of what was open are dead. */
static void devices_after_fork_child(void) RELEASES(devices_lock)
{
	struct list *node;

	list_for_each(node, &devices)
		list_entry(node, struct cm_device, node)->gone = true;
	lock_release(&devices_lock);
}

static const struct fork_handlers fork_handlers = {
	.prepare = devices_before_fork, .parent = devices_after_fork, .child = devices_after_fork_child,
};

static uint8_t at_most_255(int limit)
{
	return limit > UINT8_MAX ? UINT8_MAX : limit;
}

static struct cm_device *device_open(struct ibv_device *found)
{
	struct cm_device *device = calloc(1, sizeof(*device));
	struct ibv_device_attr attr;

	if (!device)
		return NULL;
	device->verbs = ibv_open_device(found);
	if (!device->verbs || ibv_query_device(device->verbs, &attr)) {
		if (device->verbs)
			ibv_close_device(device->verbs);
		free(device);
		return NULL;
	}
	fork_register(FORK_DEVICES, &fork_handlers);
	device->max_responder_resources = at_most_255(attr.max_qp_rd_atom);
	device->max_initiator_depth = at_most_255(attr.max_qp_init_rd_atom);
	return device;
}

static struct cm_device *find_name(const char *name) REQUIRES(devices_lock)
{
	struct list *node;

	list_for_each(node, &devices) {
		struct cm_device *device = list_entry(node, struct cm_device, node);

		if (!device->gone && !strcmp(ibv_get_device_name(device->verbs->device), name))
			return device;
	}
	return NULL;
}

/*
 * Compare with the machine; open the device of this name, or all (NULL). Those that cannot be
 * opened are left out. 0 or errno.
 */
static int devices_update(const char *name) REQUIRES(devices_lock)
{
	struct ibv_device **present = ibv_get_device_list(NULL);
	struct list *node;

	if (!present)
		return errno;
	list_for_each(node, &devices) {
		struct cm_device *device = list_entry(node, struct cm_device, node);
		unsigned i = 0;

		while (present[i] && present[i] != device->verbs->device)
			i++;
		if (!present[i])
			device->gone = true;
	}
	for (unsigned i = 0; present[i]; i++) {
		struct cm_device *device;

		if (find_name(present[i]->name) || (name && strcmp(present[i]->name, name)))
			continue;
		device = device_open(present[i]);
		if (device)
			list_add_tail(&devices, &device->node);
	}
	ibv_free_device_list(present);
	return 0;
}

int cm_device_get(const char *name, struct cm_device **got)
{
	struct cm_device *device;
	int err = 0;

	lock_acquire(&devices_lock);
	device = find_name(name);
	if (!device) {
		err = devices_update(name);
		device = err ? NULL : find_name(name);
	}
	if (!err && !device)
		err = ENODEV;
	if (!err && !device->pd) {
		device->pd = ibv_alloc_pd(device->verbs);
		err = device->pd ? 0 : errno;
	}
	if (!err) {
		device->ids++;
		*got = device;
	}
	lock_release(&devices_lock);
	return err;
}

/* With the last id go the default objects, unless the application still uses them. */
void cm_device_put(struct cm_device *device)
{
	lock_acquire(&devices_lock);
	if (--device->ids == 0) {
		if (device->xrcd && !ibv_close_xrcd(device->xrcd))
			device->xrcd = NULL;
		if (!ibv_dealloc_pd(device->pd))
			device->pd = NULL;
	}
	lock_release(&devices_lock);
}

void cm_device_is_gone(struct cm_device *device)
{
	lock_acquire(&devices_lock);
	device->gone = true;
	lock_release(&devices_lock);
}

struct ibv_xrcd *cm_device_xrcd(struct cm_device *device)
{
	struct ibv_xrcd_init_attr attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_xrcd *xrcd;

	lock_acquire(&devices_lock);
	if (!device->xrcd)
		device->xrcd = ibv_open_xrcd(device->verbs, &attr);
	xrcd = device->xrcd;
	lock_release(&devices_lock);
	return xrcd;
}

static struct ibv_context **list_contexts(int *count) REQUIRES(devices_lock)
{
	struct ibv_context **list;
	struct list *node;

	*count = 0;
	list_for_each(node, &devices)
		*count += !list_entry(node, struct cm_device, node)->gone;
	list = calloc((size_t)*count + 1, sizeof(*list));
	if (!list)
		return NULL;
	*count = 0;
	list_for_each(node, &devices) {
		struct cm_device *device = list_entry(node, struct cm_device, node);

		if (!device->gone)
			list[(*count)++] = device->verbs;
	}
	return list;
}

struct ibv_context **rdma_get_devices(int *num_devices)
{
	CALL();
	struct ibv_context **list = NULL;
	int count = 0, err;

	lock_acquire(&devices_lock);
	err = devices_update(NULL);
	if (!err)
		list = list_contexts(&count);
	lock_release(&devices_lock);
	if (err)
		errno = err;
	if (num_devices)
		*num_devices = list ? count : 0;
	return list;
}

/* The devices stay open: only the array is given back. */
void rdma_free_devices(struct ibv_context **list)
{
	CALL();

	free(list);
}
