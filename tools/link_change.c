/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim link add, delete, rename: checks what was asked for against the interfaces and the user's file of
 * settings, changes the list of devices (link_list.c) and writes it (link_file.c). VERBATIM_DEVICES, which
 * wins over the file, is named and otherwise ignored.
 */
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "link_command.h"
#include "net/naming.h"
#include "tool.h"

/* The settings of the file, and the interfaces as they make devices of them. */
struct change {
	struct link_file file;
	struct link_list list;
	struct netdev *netdevs;
	struct named_netdev *named;
	int netdev_count, named_count;
};

static int change_begin(struct change *change)
{
	memset(change, 0, sizeof(*change));
	if (link_file_open(&change->file))
		return -1;
	link_list_read(&change->list, change->file.config.devices);
	if (!netdev_list(&change->netdevs, &change->netdev_count) &&
	    !naming_apply(&change->file.config, change->netdevs, change->netdev_count, &change->named,
			  &change->named_count))
		return 0;
	fprintf(stderr, "verbatim link: cannot list the network interfaces\n");
	free(change->netdevs);
	link_file_close(&change->file);
	return -1;
}

static int change_end(struct change *change, int status)
{
	free(change->named);
	free(change->netdevs);
	link_file_close(&change->file);
	return status;
}

/* Interface of the device @name: one that there is now, or that the file names. */
static bool interface_of(const struct change *change, const char *name, char interface[IF_NAMESIZE])
{
	for (int i = 0; i < change->named_count; i++)
		if (!strcmp(change->named[i].name, name)) {
			snprintf(interface, IF_NAMESIZE, "%s", change->named[i].netdev.name);
			return true;
		}
	return link_list_find(&change->list, name, interface, IF_NAMESIZE);
}

/* The name of the device that the interface is, or NULL. */
static const char *device_of(const struct change *change, const char *interface)
{
	for (int i = 0; i < change->named_count; i++)
		if (!strcmp(change->named[i].netdev.name, interface))
			return change->named[i].name;
	return NULL;
}

static int refuse_unknown_device(const struct change *change, const char *name)
{
	struct nearest_word nearest = nearest_begin(name);

	fprintf(stderr, "verbatim link: no device '%s'; there %s", name, change->named_count ? "is" : "is none");
	for (int i = 0; i < change->named_count; i++) {
		nearest_offer(&nearest, change->named[i].name);
		fprintf(stderr, "%s %s", i ? "," : "", change->named[i].name);
	}
	fprintf(stderr, "%s%s\n", nearest.best ? "; the nearest: " : "", nearest.best ? nearest.best : "");
	return EXIT_FAILURE;
}

static int change_write(struct change *change, bool fits)
{
	const char *variable = getenv("VERBATIM_DEVICES");

	if (!fits) {
		fprintf(stderr, "verbatim link: the list of devices would be longer than %d characters: write "
			"'devices = ' with patterns into %s\n", CONFIG_TEXT_MAX - 1, change->file.which.path);
		return EXIT_FAILURE;
	}
	if (link_file_write(&change->file, change->list.text))
		return EXIT_FAILURE;
	printf("%s: devices = %s\n", change->file.which.path, change->list.text);
	if (variable && *variable)
		fprintf(stderr, "verbatim link: VERBATIM_DEVICES=%s wins over the file: unset "
			"VERBATIM_DEVICES\n", variable);
	return 0;
}

/* May a device get the name? */
static bool name_is_allowed(const struct change *change, const char *name)
{
	char interface[IF_NAMESIZE];

	if (!naming_is_valid(name)) {
		usage_error("link", "'%s' is no name of a device: expected 1 to %d letters, digits, '_', '-' or "
			    "'.', and no '.' at the beginning", name, DEVICE_NAME_MAX - 1);
		return false;
	}
	if (!interface_of(change, name, interface))
		return true;
	fprintf(stderr, "verbatim link: %s is a device already, on %s: verbatim link rename %s NEW, or verbatim "
		"link delete %s\n", name, interface, name, name);
	return false;
}

static const struct netdev *interface_find(const struct change *change, const char *interface)
{
	for (int i = 0; i < change->netdev_count; i++)
		if (!strcmp(change->netdevs[i].name, interface))
			return &change->netdevs[i];
	return NULL;
}

static int refuse_interface(const char *interface)
{
	char all[512];

	naming_describe(all, sizeof(all));
	fprintf(stderr, "verbatim link: no network interface '%s'; there is %s\n", interface, all);
	return EXIT_FAILURE;
}

static void note_sleeping(const struct netdev *netdev, const char *name)
{
	if (!netdev->up)
		fprintf(stderr, "verbatim link: %s is down: %s is there once it is up and has an address: "
			"ip link set %s up\n", netdev->name, name, netdev->name);
	else if (!netdev->address_count)
		fprintf(stderr, "verbatim link: %s has no address: %s is there once it has: ip addr add "
			"ADDRESS/BITS dev %s\n", netdev->name, name, netdev->name);
}

static int change_add(struct change *change, const char *name, const char *interface)
{
	const struct netdev *netdev = interface_find(change, interface);
	const char *device = device_of(change, interface);
	int status;

	if (!netdev)
		return refuse_interface(interface);
	if (strpbrk(interface, ",:*?[\\!")) {
		fprintf(stderr, "verbatim link: %s: the setting 'devices' cannot name it: ip link set %s "
			"name NEW\n", interface, interface);
		return EXIT_FAILURE;
	}
	if (!name_is_allowed(change, name))
		return EXIT_FAILURE;
	if (link_list_names(&change->list, interface)) {
		fprintf(stderr, "verbatim link: %s is the device %s already: verbatim link rename %s %s\n",
			interface, device ? device : "that the file names", device ? device : "NAME", name);
		return EXIT_FAILURE;
	}
	status = change_write(change, link_list_set(&change->list, interface, name));
	if (!status)
		note_sleeping(netdev, name);
	return status;
}

int link_add(const char *name, const char *interface)
{
	struct change change;

	if (change_begin(&change))
		return EXIT_FAILURE;
	return change_end(&change, change_add(&change, name, interface));
}

bool link_interface(const char *name, char interface[])
{
	struct change change;
	bool found;

	if (change_begin(&change))
		return false;
	found = interface_of(&change, name, interface);
	change_end(&change, 0);
	return found;
}

int link_delete(const char *name)
{
	char interface[IF_NAMESIZE];
	struct change change;

	if (change_begin(&change))
		return EXIT_FAILURE;
	if (!interface_of(&change, name, interface))
		return change_end(&change, refuse_unknown_device(&change, name));
	return change_end(&change, change_write(&change, link_list_clear(&change.list, interface)));
}

int link_rename(const char *name, const char *new_name)
{
	char interface[IF_NAMESIZE];
	struct change change;

	if (change_begin(&change))
		return EXIT_FAILURE;
	if (!interface_of(&change, name, interface))
		return change_end(&change, refuse_unknown_device(&change, name));
	if (!name_is_allowed(&change, new_name))
		return change_end(&change, EXIT_FAILURE);
	return change_end(&change, change_write(&change, link_list_set(&change.list, interface, new_name)));
}
