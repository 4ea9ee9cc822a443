/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Limits of this process, and what its container or sandbox takes away. A low limit is bad only where the
 * trial failed: then it is a likely cause.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "device/need.h"
#include "doctor.h"

enum { DESCRIPTORS_ENOUGH = NEED_DESCRIPTORS + 24 };	/* and the program's own */
#define ADDRESS_SPACE_ENOUGH	(2ull << 30)
#define FILE_SIZE_ENOUGH	(64ull << 20)
#define SHM_ENOUGH		(256ull << 20)

static void check_limit(int resource, const char *what, unsigned long long enough, const char *consequence,
			const char *remedy)
{
	struct rlimit limit;

	if (getrlimit((__rlimit_resource_t)resource, &limit))
		return;
	if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= enough) {
		report(VERDICT_GOOD, "limit", what, limit.rlim_cur == RLIM_INFINITY ? "none" : "%llu",
		       (unsigned long long)limit.rlim_cur);
		return;
	}
	report(trial_worked() ? VERDICT_NOTE : VERDICT_BAD, "limit", what, "%llu is little: %llu or more are "
	       "wanted", (unsigned long long)limit.rlim_cur, enough);
	report_consequence("%s", consequence);
	report_remedy("%s", remedy);
}

/* The number behind @name in a file of lines "NAME NUMBER"; -1: there is none. */
static long file_number(const char *path, const char *name)
{
	size_t length = strlen(name);
	char line[512];
	long number = -1;
	FILE *file = fopen(path, "re");

	while (file && number < 0 && fgets(line, sizeof(line), file))
		if (!strncmp(line, name, length))
			sscanf(line + length, "%ld", &number);
	if (file)
		fclose(file);
	return number;
}

static void check_yama(void)
{
	long scope = file_number("/proc/sys/kernel/yama/ptrace_scope", "");

	if (scope < 2)
		return;
	report(VERDICT_NOTE, "yama", "Yama's ptrace_scope", "%ld", scope);
	report_consequence("processes without CAP_SYS_PTRACE never read each other's memory: they use rings, or "
			   "UDP");
	report_remedy("sudo sysctl kernel.yama.ptrace_scope=%s", scope == 2 ? "1" : "1    (3 needs a reboot)");
}

static void check_sandbox(void)
{
	long seccomp = file_number("/proc/self/status", "Seccomp:");
	unsigned long first, outside, count;
	FILE *map = fopen("/proc/self/uid_map", "re");

	if (seccomp > 0)
		report(VERDICT_NOTE, "seccomp", "seccomp", "a filter is set: what it forbids is in the lines of "
		       "the trial and of memory");
	if (map && fscanf(map, "%lu %lu %lu", &first, &outside, &count) == 3 && count != 4294967295ul)
		report(VERDICT_NOTE, "user-namespace", "user namespace", "user %lu here is %lu outside, %lu "
		       "users: users that are not mapped cannot share a host's memory path",
		       first, outside, count);
	if (map)
		fclose(map);
}

static void check_cgroup(void)
{
	long processes = file_number("/sys/fs/cgroup/pids.max", "");
	long bytes = file_number("/sys/fs/cgroup/memory.max", "");

	if (processes >= 0 && processes < 64) {
		report(VERDICT_NOTE, "cgroup", "cgroup's pids.max", "%ld threads", processes);
		report_consequence("each process has a worker thread: few processes can open a device");
	}
	if (bytes >= 0 && bytes < 256l << 20) {
		report(VERDICT_NOTE, "cgroup", "cgroup's memory.max", "%ld MiB", bytes >> 20);
		report_consequence("rings and blocks count as memory: processes may be killed");
	}
}

static void check_shm(void)
{
	struct statvfs space;
	unsigned long long bytes;

	if (statvfs("/dev/shm", &space)) {
		report(VERDICT_NOTE, "shm", "/dev/shm", "%s", strerror(errno));
		report_consequence("Verbatim does not need it; MPI and UCX do");
		report_remedy("sudo mount -t tmpfs tmpfs /dev/shm");
		return;
	}
	bytes = (unsigned long long)space.f_bavail * space.f_frsize;
	if (bytes < SHM_ENOUGH) {
		report(VERDICT_NOTE, "shm", "/dev/shm", "%llu MiB free", bytes >> 20);
		report_consequence("Verbatim does not need it; MPI and UCX do, and end with SIGBUS when it "
				   "is full");
		report_remedy("docker run --shm-size=1g ...    or: sudo mount -o remount,size=1g /dev/shm");
	} else {
		report(VERDICT_GOOD, "shm", "/dev/shm", "%llu MiB free", bytes >> 20);
	}
}

static void check_proc(void)
{
	if (!access("/proc/self/status", R_OK))
		return;
	report(trial_worked() ? VERDICT_NOTE : VERDICT_BAD, "proc", "/proc", "is not mounted");
	report_consequence("%sowners of the port, Yama and seccomp cannot be looked at",
			   trial_worked() ? "" : "that alone can keep programs from devices, and ");
	report_remedy("sudo mount -t proc proc /proc");
}

void doctor_limits(void)
{
	check_limit(RLIMIT_NOFILE, "open files (RLIMIT_NOFILE)", DESCRIPTORS_ENOUGH,
		    "a device needs about 40 descriptors, each peer of this host some more: without them opening "
		    "fails, or a WRITE ends with retry exceeded", "ulimit -n 1024");
	check_limit(RLIMIT_AS, "address space (RLIMIT_AS)", ADDRESS_SPACE_ENOUGH,
		    "tables are reserved by address: without room opening a device fails with ENOMEM",
		    "ulimit -v unlimited");
	check_limit(RLIMIT_FSIZE, "size of files (RLIMIT_FSIZE)", FILE_SIZE_ENOUGH,
		    "shared memory is files in memory: blocks, rings and devices may fail with EFBIG",
		    "ulimit -f unlimited");
	check_proc();
	check_yama();
	check_sandbox();
	check_cgroup();
	check_shm();
}
