/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_get_device_list(3), and queries of a device without opening it.
 *
 * The registry holds one struct verbs_device per device that the hca offers, so that a device
 * has the same address in every list, and pointers outlive ibv_free_device_list() as long as the
 * interface is there: many programs free the list first and open the device afterwards. A device
 * whose interface went away is freed when no list and no context holds it.
 *
 * registry_lock is taken alone: nothing of the hca is called under it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/fork.h"
#include "base/lock.h"
#include "verbs/verbs.h"

static struct lock registry_lock = LOCK_INITIALIZER;
static struct list registry GUARDED_BY(registry_lock) = { &registry, &registry };

/* Only its address matters: see struct verbs_device. */
static const char not_a_driver[] = "verbatim";

/* fork() while another thread holds the lock must not leave it locked in the child. */
static void registry_before_fork(void) ACQUIRES(registry_lock)
{
	lock_acquire(&registry_lock);
}

static void registry_after_fork(void) RELEASES(registry_lock)
{
	lock_release(&registry_lock);
}

static const struct fork_handlers fork_handlers = {
	.prepare = registry_before_fork, .parent = registry_after_fork, .child = registry_after_fork,
};

/* Smallest N such that no device is uverbsN. */
static int free_number(void) REQUIRES(registry_lock)
{
	int number = 0;
	struct list *node = registry.next;

	while (node != &registry) {
		if (list_entry(node, struct verbs_device, node)->number == number) {
			number++;
			node = registry.next;
		} else {
			node = node->next;
		}
	}
	return number;
}

static struct verbs_device *device_new(const struct hca_device *found) REQUIRES(registry_lock)
{
	struct verbs_device *device = calloc(1, sizeof(*device));

	if (!device)
		return NULL;
	device->not_a_driver = not_a_driver;
	device->number = free_number();
	device->guid = found->guid;
	memcpy(device->interface, found->interface, sizeof(device->interface));
	device->ibv.node_type = IBV_NODE_CA;
	device->ibv.transport_type = IBV_TRANSPORT_IB;
	memcpy(device->ibv.name, found->name, sizeof(device->ibv.name));
	device->ibv.name[sizeof(device->ibv.name) - 1] = '\0';
	snprintf(device->ibv.dev_name, sizeof(device->ibv.dev_name), "uverbs%d", device->number);
	snprintf(device->ibv.dev_path, sizeof(device->ibv.dev_path),
		 "%s/class/infiniband_verbs/uverbs%d", ibv_get_sysfs_path(), device->number);
	snprintf(device->ibv.ibdev_path, sizeof(device->ibv.ibdev_path),
		 "%s/class/infiniband/%s", ibv_get_sysfs_path(), device->ibv.name);
	list_add_tail(&registry, &device->node);
	return device;
}

/* The device that @found was in an earlier list, or a new one; NULL: no memory. */
static struct verbs_device *registry_take(const struct hca_device *found) REQUIRES(registry_lock)
{
	struct verbs_device *device;
	struct list *node;

	list_for_each(node, &registry) {
		device = list_entry(node, struct verbs_device, node);
		if (device->guid == found->guid && !strcmp(device->ibv.name, found->name))
			return device;
	}
	return device_new(found);
}

static void registry_prune(void) REQUIRES(registry_lock)
{
	struct list *node, *following;

	list_for_each_safe(node, following, &registry) {
		struct verbs_device *device = list_entry(node, struct verbs_device, node);

		if (device->present || device->references)
			continue;
		list_remove(&device->node);
		free(device);
	}
}

/*
 * Bring the registry up to date with @count devices of the hca; @list (room for @count) gets
 * them in that order with a reference each, unless it is NULL. 0 or ENOMEM.
 */
static int registry_update(const struct hca_device *found, int count, struct ibv_device **list)
{
	struct verbs_device *device;
	struct list *node;
	int i, err = 0;

	fork_register(FORK_REGISTRY, &fork_handlers);
	lock_acquire(&registry_lock);
	list_for_each(node, &registry)
		list_entry(node, struct verbs_device, node)->present = false;
	for (i = 0; i < count; i++) {
		device = registry_take(&found[i]);
		if (!device) {
			err = ENOMEM;
			break;
		}
		device->present = true;
		if (list) {
			device->references++;
			list[i] = &device->ibv;
		}
	}
	while (err && list && i--)
		to_device(list[i])->references--;
	registry_prune();
	lock_release(&registry_lock);
	return err;
}

struct ibv_device **ibv_get_device_list(int *num_devices)
{
	CALL();
	struct ibv_device **list = NULL;
	struct hca_device *found;
	int count, err;

	if (num_devices)
		*num_devices = 0;
	err = hca_device_list(&found, &count);
	if (err)
		return fail(err);
	hca_enable_blocks();
	list = calloc((size_t)count + 1, sizeof(*list));
	err = list ? registry_update(found, count, list) : ENOMEM;
	free(found);
	if (err) {
		free(list);
		return fail(err);
	}
	if (num_devices)
		*num_devices = count;
	return list;
}

void ibv_free_device_list(struct ibv_device **list)
{
	CALL();

	if (!list)
		return;
	for (struct ibv_device **device = list; *device; device++)
		verbs_device_put(to_device(*device));
	free(list);
}

void verbs_device_get(struct verbs_device *device)
{
	lock_acquire(&registry_lock);
	device->references++;
	lock_release(&registry_lock);
}

void verbs_device_put(struct verbs_device *device)
{
	lock_acquire(&registry_lock);
	device->references--;
	registry_prune();
	lock_release(&registry_lock);
}

static struct verbs_device *registry_search(const char *name)
{
	struct verbs_device *device = NULL;
	struct list *node;

	fork_register(FORK_REGISTRY, &fork_handlers);
	lock_acquire(&registry_lock);
	list_for_each(node, &registry) {
		struct verbs_device *candidate = list_entry(node, struct verbs_device, node);

		if (!candidate->present ||
		    (strcmp(candidate->ibv.name, name) && strcmp(candidate->ibv.dev_name, name)))
			continue;
		device = candidate;
		device->references++;
		break;
	}
	lock_release(&registry_lock);
	return device;
}

struct verbs_device *verbs_device_find(const char *name)
{
	struct verbs_device *device = registry_search(name);
	struct hca_device *found;
	int count;

	if (device || hca_device_list(&found, &count))
		return device;
	if (!registry_update(found, count, NULL))
		device = registry_search(name);
	free(found);
	return device;
}

const char *ibv_get_device_name(struct ibv_device *device)
{
	return device ? device->name : NULL;
}

/*
 * An index of the kernel's (ibv_get_device_index(3)), by which programs ask it about a device over
 * NETLINK_RDMA. It does not know this one, and with a number of ours would answer for another.
 */
int ibv_get_device_index(struct ibv_device *device)
{
	return -1;
}

__be64 ibv_get_device_guid(struct ibv_device *device)
{
	return device ? to_device(device)->guid : 0;
}
