/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The user of UDP port 4791, by the kernel's lists of sockets (port_owner.h): of those on all
 * addresses only, since any user may bind the port on a single address that is free.
 */
#include "host/port_owner.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/datagram.h"
#include "base/lock.h"
#include "platform/socket_list.h"

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

static void port_owner_take(void *context, const struct udp_seen *seen) REQUIRES(port_owner_lock)
{
	const uint64_t *now_ns = context;

	if (seen->any)
		port_owner_learn(seen->uid, *now_ns);
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
		(void)socket_list_udp(AF_INET, ROCE_UDP_PORT, port_owner_take, &now_ns);
		(void)socket_list_udp(AF_INET6, ROCE_UDP_PORT, port_owner_take, &now_ns);
		may = port_owner_is_known(uid, now_ns);
	}
	lock_release(&port_owner_lock);
	return may;
}
