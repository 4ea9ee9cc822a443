/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Control groups, of version 1 or 2, whichever has the controller. The hierarchy is mounted in the
 * case's own mount namespace, for as long as it takes to open two directories.
 */
#include "hostile.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>

static struct cgroup *live; /* one at a time */

static bool write_at(int directory, const char *file, const char *text)
{
	int fd = openat(directory, file, O_WRONLY | O_CLOEXEC);
	bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	int err = errno;

	if (fd >= 0)
		close(fd);
	errno = err;
	return good;
}

/* Where we are in the hierarchy of the controller (version 1), or in that of version 2. */
static bool own_path(const char *controller, char *path, size_t bytes)
{
	FILE *file = fopen("/proc/self/cgroup", "r");
	char line[512], *names, *at;
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		names = strchr(line, ':');
		at = names ? strchr(names + 1, ':') : NULL;
		if (!at)
			continue;
		*at++ = '\0';
		found = !strcmp(names + 1, controller);
		if (found)
			snprintf(path, bytes, "%s", at + 1);
	}
	if (file)
		fclose(file);
	return found;
}

/* A directory of the hierarchy, which stays mounted for as long as that is open. */
static int open_hierarchy(const char *type, const char *options, const char *path)
{
	char place[] = "/tmp/hostile-cgroup-XXXXXX";
	int top, fd = -1;

	CHECK(mkdtemp(place), "%m");
	if (!mount("hostile", place, type, 0, options)) {
		top = open(place, O_PATH | O_DIRECTORY | O_CLOEXEC);
		fd = openat(top, *path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(top);
		umount2(place, MNT_DETACH);
	}
	rmdir(place);
	return fd;
}

static bool make_below(struct cgroup *cgroup)
{
	snprintf(cgroup->name, sizeof(cgroup->name), "verbatim-hostile-%d", (int)getpid());
	if (mkdirat(cgroup->parent, cgroup->name, 0755)) {
		close(cgroup->parent);
		return false;
	}
	cgroup->group = openat(cgroup->parent, cgroup->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	CHECK(cgroup->group >= 0, "%m");
	live = cgroup;
	return true;
}

const char *cgroup_try(struct cgroup *cgroup, const char *controller)
{
	const char *file = strcmp(controller, "memory") ? "cgroup.freeze" : "memory.max";
	char path[512];

	memset(cgroup, 0, sizeof(*cgroup));
	if (own_path("", path, sizeof(path))) {
		cgroup->parent = open_hierarchy("cgroup2", NULL, path);
		if (cgroup->parent >= 0 && make_below(cgroup)) {
			if (!faccessat(cgroup->group, file, W_OK, 0))
				return NULL;
			cgroup_remove(cgroup);
		}
	}
	cgroup->v1 = true;
	if (!own_path(controller, path, sizeof(path)))
		return "no control group has the controller";
	cgroup->parent = open_hierarchy("cgroup", controller, path);
	if (cgroup->parent < 0)
		return "its control groups cannot be mounted";
	return make_below(cgroup) ? NULL : "no control group can be made here";
}

void cgroup_make(struct cgroup *cgroup, const char *controller)
{
	const char *why = cgroup_try(cgroup, controller);

	if (why)
		skip("%s: %s: %m", controller, why);
}

void cgroup_add(const struct cgroup *cgroup, pid_t pid)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", (int)pid);
	CHECK(write_at(cgroup->group, "cgroup.procs", text), "%m");
}

void cgroup_limit(const struct cgroup *cgroup, size_t bytes)
{
	char text[32];

	snprintf(text, sizeof(text), "%zu", bytes);
	CHECK(write_at(cgroup->group, cgroup->v1 ? "memory.limit_in_bytes" : "memory.max", text),
	      "%m");
	/* Swap would hide what memory is used; where it is not counted there is none, mostly. */
	if (!write_at(cgroup->group, cgroup->v1 ? "memory.memsw.limit_in_bytes" : "memory.swap.max",
		      cgroup->v1 ? text : "0"))
		say("swap is not limited: %s", strerror(errno));
}

static bool is_frozen(const struct cgroup *cgroup)
{
	const char *frozen = cgroup->v1 ? "FROZEN" : "frozen 1";
	int fd = openat(cgroup->group, cgroup->v1 ? "freezer.state" : "cgroup.events",
			O_RDONLY | O_CLOEXEC);
	char text[256];
	ssize_t bytes = read(fd, text, sizeof(text) - 1);

	close(fd);
	text[bytes > 0 ? bytes : 0] = '\0';
	return strstr(text, frozen) != NULL;
}

void cgroup_freeze(const struct cgroup *cgroup, bool frozen)
{
	double until_s = now() + 5;

	if (cgroup->v1)
		CHECK(write_at(cgroup->group, "freezer.state", frozen ? "FROZEN" : "THAWED"), "%m");
	else
		CHECK(write_at(cgroup->group, "cgroup.freeze", frozen ? "1" : "0"), "%m");
	while (is_frozen(cgroup) != frozen) {
		CHECK(now() < until_s, "the control group does not %s", frozen ? "freeze" : "thaw");
		usleep(1000);
	}
}

void cgroup_remove(struct cgroup *cgroup)
{
	double until_s = now() + 5;

	live = NULL;
	close(cgroup->group);
	while (unlinkat(cgroup->parent, cgroup->name, AT_REMOVEDIR) && errno == EBUSY &&
	       now() < until_s)
		usleep(1000);
	close(cgroup->parent);
}

void cgroup_abandon(void)
{
	if (live)
		cgroup_remove(live);
}
