/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The user of UDP port 4791, from /proc/net/udp and udp6 (port_owner.h): of sockets on all
 * addresses only, since any user may bind the port on a single address that is free.
 */
#include "host/port_owner.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "host/group_watch.h"

#define PORT		4791u
#define TRUSTED_MAX	4u		/* the port changes hands, and IPv6 may be another user's */
#define TRUST_NS	1000000000u
#define LOOK_NS		100000000u	/* between looks */

struct trusted {
	uid_t uid;
	uint64_t until_ns;		/* 0: unused */
};

static struct lock port_owner_lock = LOCK_INITIALIZER;
static struct trusted trusted[TRUSTED_MAX] GUARDED_BY(port_owner_lock);
static uint64_t next_look_ns GUARDED_BY(port_owner_lock);

/* Replaces the entry that was learned longest ago. */
static void port_owner_learn(uid_t uid, uint64_t now_ns) REQUIRES(port_owner_lock)
{
	struct trusted *place = &trusted[0];
	unsigned i;

	for (i = 0; i < TRUSTED_MAX; i++) {
		if (trusted[i].until_ns && trusted[i].uid == uid) {
			place = &trusted[i];
			break;
		}
		if (trusted[i].until_ns < place->until_ns)
			place = &trusted[i];
	}
	*place = (struct trusted){ uid, now_ns + TRUST_NS };
}

/* Lines: number: ADDRESS:PORT remote state queues timer retransmits uid ... */
static void read_list(const char *name, size_t digits, uint64_t now_ns) REQUIRES(port_owner_lock)
{
	FILE *file = kernel_list(name);
	char line[512], address[64];
	unsigned port, uid;

	if (!file)
		return;
	while (fgets(line, sizeof(line), file))
		if (sscanf(line, " %*u: %32[0-9A-F]:%x %*s %*s %*s %*s %*s %u", address, &port, &uid) == 3 &&
		    port == PORT && strspn(address, "0") >= digits)
			port_owner_learn((uid_t)uid, now_ns);
	fclose(file);
}

static bool port_owner_is_known(uid_t uid, uint64_t now_ns) REQUIRES(port_owner_lock)
{
	unsigned i;

	for (i = 0; i < TRUSTED_MAX; i++)
		if (trusted[i].uid == uid && trusted[i].until_ns > now_ns)
			return true;
	return false;
}

void port_owner_forget(void)
{
	lock_init(&port_owner_lock);
	memset(trusted, 0, sizeof(trusted));
	next_look_ns = 0;
}

bool port_owner_may_forward(uid_t uid, uint64_t now_ns)
{
	bool may;

	if (!uid || uid == geteuid())
		return true;
	lock_acquire(&port_owner_lock);
	may = port_owner_is_known(uid, now_ns);
	if (!may && now_ns >= next_look_ns) {
		next_look_ns = now_ns + LOOK_NS;
		read_list("udp", 8, now_ns);
		read_list("udp6", 32, now_ns);
		may = port_owner_is_known(uid, now_ns);
	}
	lock_release(&port_owner_lock);
	return may;
}
