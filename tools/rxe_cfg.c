/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rxe_cfg: the commands by which courses and old scripts set up Soft-RoCE, on `verbatim link`. The
 * executable is the same under another name. Nothing has to be loaded, and devices are there without
 * it: it names them rxe0, rxe1, ... and shows them in the columns that the old script had.
 */
#include "rxe_cfg.h"

#include <arpa/inet.h>
#include <libgen.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "link_command.h"
#include "net/naming.h"
#include "tool.h"

#define RXE_NAMES_MAX 256

static int rxe_usage(FILE *to)
{
	fprintf(to, "rxe_cfg [status]           interfaces and their devices\n"
		    "rxe_cfg add INTERFACE      name its device rxe0, rxe1, ...\n"
		    "rxe_cfg remove INTERFACE   it is no device any more; or the name: rxe0\n"
		    "rxe_cfg start              nothing to load here; status\n"
		    "rxe_cfg stop               devices named rxeN get their usual names back\n\n"
		    "Programs run on these devices under verbatim run. More: verbatim link --help\n");
	return to == stdout ? 0 : EXIT_USAGE;
}

static bool rxe_is_name(const char *name)
{
	return !strncmp(name, "rxe", 3) && name[3] && !name[3 + strspn(name + 3, "0123456789")];
}

/* The device that @word names, itself or by its interface; or NULL. */
static const struct named_netdev *rxe_find(const struct named_netdev *named, int count,
					    const char *word)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(named[i].name, word) || !strcmp(named[i].netdev.name, word))
			return &named[i];
	return NULL;
}

/* The kernel's driver of the interface, or "" where it has none, as lo and veth. */
static void rxe_driver(const char *interface, char driver[NAME_MAX + 1])
{
	char path[64], target[PATH_MAX];
	ssize_t length;

	snprintf(path, sizeof(path), "/sys/class/net/%s/device/driver", interface);
	length = readlink(path, target, sizeof(target) - 1);
	target[length > 0 ? length : 0] = '\0';
	snprintf(driver, NAME_MAX + 1, "%s", length > 0 ? basename(target) : "");
}

static void rxe_ipv4(const struct netdev *netdev, char text[INET_ADDRSTRLEN])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	text[0] = '\0';
	for (unsigned i = 0; !text[0] && i < netdev->address_count; i++)
		if (!memcmp(netdev->address[i].address, mapped, sizeof(mapped)))
			inet_ntop(AF_INET, netdev->address[i].address + 12, text, INET_ADDRSTRLEN);
}

/* One line of status. @mtu: of the device's path, 0 where there is no device. */
static void rxe_row(const struct netdev *netdev, const char *device, unsigned mtu)
{
	char driver[NAME_MAX + 1], address[INET_ADDRSTRLEN], speed[24] = "", path_mtu[32] = "";
	char line[NAME_MAX + 256];
	int code = 0, length;

	rxe_driver(netdev->name, driver);
	rxe_ipv4(netdev, address);
	if (netdev->speed_mbps)
		snprintf(speed, sizeof(speed), "%gGigE", netdev->speed_mbps / 1000.0);
	while (mtu >> (code + 7) > 1)
		code++;
	if (mtu)
		snprintf(path_mtu, sizeof(path_mtu), "%u  (%d)", mtu, code);
	length = snprintf(line, sizeof(line), "  %-10s %-4s  %-10s %-9s %-5u %-15s %-8s %s",
			  netdev->name, netdev->up && netdev->running ? "yes" : "no", driver, speed,
			  netdev->mtu, address, device, path_mtu);
	while (length > 0 && length < (int)sizeof(line) && line[length - 1] == ' ')
		line[--length] = '\0';
	puts(line);
}

static int rxe_status(const struct named_netdev *named, int count)
{
	struct netdev *list;
	int netdevs;

	if (netdev_list(&list, &netdevs)) {
		fprintf(stderr, "rxe_cfg: cannot list the network interfaces\n");
		return EXIT_FAILURE;
	}
	printf("  %-10s %-4s  %-10s %-9s %-5s %-15s %-8s %s\n", "Name", "Link", "Driver", "Speed",
	       "NMTU", "IPv4_addr", "RDEV", "RMTU");
	for (int i = 0; i < netdevs; i++) {
		const struct named_netdev *device = rxe_find(named, count, list[i].name);

		rxe_row(&list[i], device ? device->name : "", device ? link_path_mtu(device->name) : 0);
	}
	free(list);
	return 0;
}

static int rxe_add(const struct named_netdev *named, int count, const char *interface)
{
	const struct named_netdev *device = rxe_find(named, count, interface);
	char name[16], of[IF_NAMESIZE];

	if (device && rxe_is_name(device->name)) {
		fprintf(stderr, "rxe_cfg: %s is the device %s already\n", device->netdev.name, device->name);
		return EXIT_FAILURE;
	}
	for (int i = 0; i < RXE_NAMES_MAX; i++) {
		snprintf(name, sizeof(name), "rxe%d", i);
		if (!link_interface(name, of))
			return device ? link_rename(device->name, name) : link_add(name, interface);
	}
	fprintf(stderr, "rxe_cfg: the names rxe0 to rxe%d are taken\n", RXE_NAMES_MAX - 1);
	return EXIT_FAILURE;
}

static int rxe_remove(const struct named_netdev *named, int count, const char *word)
{
	const struct named_netdev *device = rxe_find(named, count, word);

	return link_delete(device ? device->name : word);
}

static int rxe_stop(const struct named_netdev *named, int count)
{
	int status = 0;

	for (int i = 0; i < count; i++) {
		char usual[DEVICE_NAME_MAX];

		if (!rxe_is_name(named[i].name))
			continue;
		snprintf(usual, sizeof(usual), "vb_%s", named[i].netdev.name);
		if (link_rename(named[i].name, usual))
			status = EXIT_FAILURE;
	}
	return status;
}

int rxe_cfg(int argc, char **argv)
{
	const char *verb = argc > 1 ? argv[1] : "status";
	struct named_netdev *named = NULL;
	int count = 0, status;

	if (!strcmp(verb, "-h") || !strcmp(verb, "--help") || !strcmp(verb, "help"))
		return rxe_usage(stdout);
	if (argc > 3 || (argc == 3) != (!strcmp(verb, "add") || !strcmp(verb, "remove")))
		return rxe_usage(stderr);
	if (naming_list(&named, &count))
		return EXIT_FAILURE;
	if (!strcmp(verb, "status") || !strcmp(verb, "start"))
		status = rxe_status(named, count);
	else if (!strcmp(verb, "add"))
		status = rxe_add(named, count, argv[2]);
	else if (!strcmp(verb, "remove"))
		status = rxe_remove(named, count, argv[2]);
	else if (!strcmp(verb, "stop"))
		status = rxe_stop(named, count);
	else
		status = rxe_usage(stderr);
	free(named);
	return status;
}
