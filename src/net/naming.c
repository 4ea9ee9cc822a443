/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VERBATIM_DEVICES is a comma-separated list of PATTERN, PATTERN:NAME or !PATTERN (none of these). A pattern
 * is matched against interface names as a shell would; the first entry that an interface matches decides;
 * the order of the list is the order of the devices, and of one entry's interfaces lo is the last.
 * Without it: all interfaces, each as vb_INTERFACE.
 */
#include "net/naming.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/text.h"

struct naming {
	const struct netdev *list;
	int count;
	struct named_netdev *named;
	int named_count;
	bool *taken;
};

static int naming_take(struct naming *naming, int i, const char *name)
{
	struct named_netdev *named = &naming->named[naming->named_count];

	if (name)
		snprintf(named->name, sizeof(named->name), "%s", name);
	else
		snprintf(named->name, sizeof(named->name), "vb_%s", naming->list[i].name);
	for (int other = 0; other < naming->named_count; other++)
		if (!strcmp(naming->named[other].name, named->name)) {
			complain("VERBATIM_DEVICES: two interfaces have the name '%s': give each its own",
				 named->name);
			return EINVAL;
		}
	named->netdev = naming->list[i];
	naming->taken[i] = true;
	naming->named_count++;
	return 0;
}

bool naming_is_valid(const char *name)
{
	const char *c;

	for (c = name; *c; c++)
		if (!isalnum((unsigned char)*c) && *c != '_' && *c != '-' && *c != '.')
			return false;
	return c > name && c - name < DEVICE_NAME_MAX && name[0] != '.';
}

/* All that match, those that lead to other hosts first. @name NULL: each as vb_INTERFACE. */
static int take_matching(struct naming *naming, const char *pattern, const char *name)
{
	int pass, i, err;

	for (pass = 0; pass < 2; pass++)
		for (i = 0; i < naming->count; i++) {
			if (naming->taken[i] || !naming->list[i].up || !naming->list[i].address_count ||
			    naming->list[i].loopback != (pass == 1) ||
			    fnmatch(pattern, naming->list[i].name, 0))
				continue;
			err = naming_take(naming, i, name);
			if (err)
				return err;
		}
	return 0;
}

/* One entry. A pattern that no interface matches now is no error: it may come later. */
static int apply_entry(struct naming *naming, char *entry)
{
	bool is_none = *(entry = text_trim(entry)) == '!';
	char *pattern = entry + is_none, *name = strchr(pattern, ':');

	if (name)
		*name++ = '\0';
	if (name && (is_none || !naming_is_valid(name))) {
		complain("VERBATIM_DEVICES: invalid device name '%s': expected 1 to %d "
			 "letters, digits, '_', '-' or '.'%s", name, DEVICE_NAME_MAX - 1,
			 is_none ? ", and none behind !PATTERN" : "");
		return EINVAL;
	}
	if (!*pattern) {
		complain("VERBATIM_DEVICES: empty entry: expected PATTERN, PATTERN:NAME or !PATTERN, comma "
			 "separated, e.g. eth0,lo or eth*:roce0 or !docker*,*");
		return EINVAL;
	}
	if (!is_none)
		return take_matching(naming, pattern, name);
	for (int i = 0; i < naming->count; i++)
		if (!fnmatch(pattern, naming->list[i].name, 0))
			naming->taken[i] = true;
	return 0;
}

int naming_apply(const struct config *config, const struct netdev *list, int count,
		 struct named_netdev **named, int *named_count)
{
	struct naming naming = { .list = list, .count = count };
	char *copy, *rest, *entry;
	int err = ENOMEM;

	/* In a virtual fabric there are its HCAs, and those interfaces that somebody asks for. */
	if (config->fabric[0] && !config->devices[0])
		count = naming.count = 0;
	naming.named = calloc((size_t)count + 1, sizeof(*naming.named));
	naming.taken = calloc((size_t)count + 1, sizeof(*naming.taken));
	if (naming.named && naming.taken && config->devices[0]) {
		rest = copy = strdup(config->devices);
		err = copy ? 0 : ENOMEM;
		while (!err && (entry = strsep(&rest, ",")))
			err = apply_entry(&naming, entry);
		free(copy);
	} else if (naming.named && naming.taken) {
		err = take_matching(&naming, "*", NULL);
	}
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
		return err;
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
