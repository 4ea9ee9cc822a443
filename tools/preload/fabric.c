/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The files of InfiniBand devices, which are in a fabric (VERBATIM_FABRIC): below
 * /sys/class/infiniband beside those of RoCE devices, and all of /sys/class/infiniband_mad. The
 * fabric has their texts; the core, which is loaded for it, asks for them.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload.h"

#define CLASSES	"/sys/class/"
#define CORE	"libverbatim-core.so"

static int (*sysfs)(const char *path, bool *directory, char *text, size_t size);

static void load_core(void)
{
	const char *slash;
	char path[4096];
	void *library;
	Dl_info us;

	if (!dladdr(&sysfs, &us) || !(slash = strrchr(us.dli_fname, '/')))
		return;
	snprintf(path, sizeof(path), "%.*s/" CORE, (int)(slash - us.dli_fname), us.dli_fname);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (library)
		sysfs = (__typeof__(sysfs))dlsym(library, "ib_sysfs");
}

bool fabric_is_there(void)
{
	const char *name = secure_getenv("VERBATIM_FABRIC");

	return name && *name;
}

bool fabric_read(const char *path, bool *directory, char *text, size_t size)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	if (!fabric_is_there() || strncmp(path, CLASSES, strlen(CLASSES)))
		return false;
	pthread_once(&once, load_core);
	return sysfs && !sysfs(path + strlen(CLASSES), directory, text, size);
}
