/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VERBATIM_DEVICES is a comma-separated list of PATTERN or PATTERN:NAME. A pattern is matched
 * against interface names as a shell would; the order of the list is the order of the devices.
 * Without it: all interfaces, lo last, each as vb_INTERFACE.
 */
#include "net/naming.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

struct naming {
	const struct netdev *list;
	int count;
	struct named_netdev *named;
	int named_count;
	bool *taken;
};

static bool naming_is_usable(const struct netdev *netdev)
{
	return netdev->up && netdev->address_count > 0;
}

static bool name_is_free(const struct naming *naming, const char *name)
{
	int i;

	for (i = 0; i < naming->named_count; i++)
		if (!strcmp(naming->named[i].name, name))
			return false;
	return true;
}

static int naming_take(struct naming *naming, int i, const char *name)
{
	struct named_netdev *named = &naming->named[naming->named_count];

	if (name)
		snprintf(named->name, sizeof(named->name), "%s", name);
	else
		snprintf(named->name, sizeof(named->name), "vb_%s", naming->list[i].name);
	if (!name_is_free(naming, named->name)) {
		complain("VERBATIM_DEVICES: two interfaces have the name '%s': give each its own",
			 named->name);
		return EINVAL;
	}
	named->netdev = naming->list[i];
	naming->taken[i] = true;
	naming->named_count++;
	return 0;
}

static bool name_is_good(const char *name)
{
	const char *c;

	for (c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '_' && *c != '-' && *c != '.')
			return false;
	return c > name && c - name < DEVICE_NAME_MAX && name[0] != '.';
}

/* One PATTERN[:NAME]. A pattern that no interface matches now is no error: it may come later. */
static int apply_entry(struct naming *naming, char *entry)
{
	char *name = strchr(entry, ':');
	int i, err;

	if (name) {
		*name++ = '\0';
		if (!name_is_good(name)) {
			complain("VERBATIM_DEVICES: invalid device name '%s': expected 1 to %d "
				 "letters, digits, '_', '-' or '.'", name, DEVICE_NAME_MAX - 1);
			return EINVAL;
		}
	}
	if (!*entry) {
		complain("VERBATIM_DEVICES: empty entry: expected PATTERN or PATTERN:NAME, comma "
			 "separated, e.g. eth0,lo or eth*:roce0");
		return EINVAL;
	}
	for (i = 0; i < naming->count; i++) {
		if (naming->taken[i] || !naming_is_usable(&naming->list[i]) ||
		    fnmatch(entry, naming->list[i].name, 0))
			continue;
		err = naming_take(naming, i, name);
		if (err)
			return err;
	}
	return 0;
}

static int apply_all(struct naming *naming)
{
	int pass, i, err;

	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < naming->count; i++) {
			if (!naming_is_usable(&naming->list[i]) ||
			    naming->list[i].loopback != (pass == 1))
				continue;
			err = naming_take(naming, i, NULL);
			if (err)
				return err;
		}
	return 0;
}

static int apply_list(struct naming *naming, const char *devices)
{
	char *copy = strdup(devices), *rest = copy, *entry;
	int err = copy ? 0 : ENOMEM;

	while (!err && (entry = strsep(&rest, ",")))
		err = apply_entry(naming, entry);
	free(copy);
	return err;
}

int naming_apply(const struct config *config, const struct netdev *list, int count,
		 struct named_netdev **named, int *named_count)
{
	struct naming naming = { .list = list, .count = count };
	int err = ENOMEM;

	naming.named = calloc((size_t)count + 1, sizeof(*naming.named));
	naming.taken = calloc((size_t)count + 1, sizeof(*naming.taken));
	if (naming.named && naming.taken)
		err = config->devices[0] ? apply_list(&naming, config->devices) :
					   apply_all(&naming);
	free(naming.taken);
	if (err) {
		free(naming.named);
		return err;
	}
	*named = naming.named;
	*named_count = naming.named_count;
	return 0;
}

int naming_list(struct named_netdev **named, int *count)
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
		explain("ibv_get_device_list: cannot list the network interfaces: %s",
			strerror(err));
		return err;
	}
	err = naming_apply(&config, list, listed, named, count);
	free(list);
	return err;
}

void naming_describe(char *text, size_t bytes)
{
	struct netdev *list;
	size_t used = 0;
	int i, count;

	snprintf(text, bytes, "none");
	if (netdev_list(&list, &count))
		return;
	for (i = 0; i < count && used < bytes; i++)
		used += (size_t)snprintf(text + used, bytes - used, "%s%s (%s)", i ? ", " : "",
				list[i].name,
					 !list[i].up ? "down" : list[i].address_count ? "up" :
							"no address");
	free(list);
}
