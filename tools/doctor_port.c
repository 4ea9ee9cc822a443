/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * UDP port 4791: can it be bound as Verbatim binds it, and if not, who has it. The kernel's list
 * of UDP sockets names the user; the process is found when its descriptors may be read.
 */
#include <dirent.h>
#include <errno.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "doctor.h"

#define ROCE_PORT 4791

/* Of /proc/net/udp: local port, user and inode among what does not matter. */
#define LINE_FORMAT	" %*u: %*[0-9A-Fa-f]:%x %*x:%*x %*x %*x:%*x %*x:%*x %*x %u %*u %lu"

struct holder {
	unsigned uid;
	unsigned long inode;
	unsigned count;		/* sockets of the port */
};

static int bind_port(int family, bool shared)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons(ROCE_PORT) };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons(ROCE_PORT) };
	bool ipv6 = family == AF_INET6;
	int on = 1, err = 0, fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno;
	if (ipv6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (shared)
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	if (bind(fd, ipv6 ? (struct sockaddr *)&six : (struct sockaddr *)&four,
		 ipv6 ? sizeof(six) : sizeof(four)))
		err = errno;
	close(fd);
	return err;
}

/* The sockets of the port in /proc/net/udp or udp6: *holder is the last of them. */
static void find_holder(const char *path, struct holder *holder)
{
	char line[512];
	unsigned port, uid;
	unsigned long inode;
	FILE *file = fopen(path, "re");

	memset(holder, 0, sizeof(*holder));
	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, LINE_FORMAT, &port, &uid, &inode) != 3 || port != ROCE_PORT)
			continue;
		holder->uid = uid;
		holder->inode = inode;
		holder->count++;
	}
	if (file)
		fclose(file);
}

/* Whether process @pid has the socket @inode open, as far as we may look. */
static bool process_has_socket(const char *pid, unsigned long inode)
{
	char path[320], target[64], wanted[64];
	struct dirent *entry;
	bool has = false;
	ssize_t length;
	DIR *directory;

	snprintf(wanted, sizeof(wanted), "socket:[%lu]", inode);
	snprintf(path, sizeof(path), "/proc/%.32s/fd", pid);
	directory = opendir(path);
	while (directory && !has && (entry = readdir(directory))) {
		length = readlinkat(dirfd(directory), entry->d_name, target, sizeof(target) - 1);
		if (length <= 0)
			continue;
		target[length] = '\0';
		has = !strcmp(target, wanted);
	}
	if (directory)
		closedir(directory);
	return has;
}

/* "perftest (process 1234)", or "" when no process that we may look into has it. */
static void name_process(unsigned long inode, char *name, size_t size)
{
	char path[320], command[64] = "?";
	struct dirent *entry;
	DIR *processes = opendir("/proc");
	FILE *file;

	name[0] = '\0';
	while (processes && !name[0] && (entry = readdir(processes))) {
		if (entry->d_name[0] < '0' || entry->d_name[0] > '9' ||
		    !process_has_socket(entry->d_name, inode))
			continue;
		snprintf(path, sizeof(path), "/proc/%.32s/comm", entry->d_name);
		file = fopen(path, "re");
		if (file && fgets(command, sizeof(command), file))
			command[strcspn(command, "\n")] = '\0';
		if (file)
			fclose(file);
		snprintf(name, size, "%s (process %.32s)", command, entry->d_name);
	}
	if (processes)
		closedir(processes);
}

/* Somebody else has the port: who, and what that means. */
static void report_holder(const char *what, const struct holder *holder)
{
	struct passwd *user = getpwuid(holder->uid);
	char process[160];

	name_process(holder->inode, process, sizeof(process));
	if (!process[0] && holder->uid == 0 && !access("/sys/module/rdma_rxe", F_OK)) {
		report(VERDICT_BAD, "port", what, "taken by the kernel's rdma_rxe, which gets all packets "
		       "from other hosts: remove its devices (rdma link delete NAME) or use "
		       "another network namespace");
		return;
	}
	report(VERDICT_NOTE, "port", what, "taken by user %s%s%s: packets from other hosts arrive only if "
	       "that is a Verbatim process, which forwards them; peers on this host can be reached",
	       user ? user->pw_name : "unknown", process[0] ? ", " : "", process);
}

static void check_family(const char *what, int family, const char *list)
{
	struct holder holder;
	int err;

	find_holder(list, &holder);
	err = bind_port(family, true);
	if (!err && !holder.count)
		report(VERDICT_GOOD, "port", what, "free");
	else if (!err)
		report(VERDICT_GOOD, "port", what, "shared with %u more socket%s of this user",
		       holder.count, holder.count == 1 ? "" : "s");
	else if (err == EADDRINUSE)
		report_holder(what, &holder);
	else if (family == AF_INET6 && (err == EAFNOSUPPORT || err == EADDRNOTAVAIL))
		report(VERDICT_NOTE, "port", what, "no IPv6: IPv4 only");
	else
		report(VERDICT_BAD, "port", what, "cannot bind it: %s", strerror(err));
}

void doctor_port(void)
{
	check_family("UDP port 4791, IPv4", AF_INET, "/proc/net/udp");
	check_family("UDP port 4791, IPv6", AF_INET6, "/proc/net/udp6");
}
