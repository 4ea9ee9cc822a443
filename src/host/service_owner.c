/* SPDX-License-Identifier: BSD-2-Clause */
/* The owners of claims, cached for a moment: a flood of requests must not become a flood of dumps. */
#include "host/service_owner.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <unistd.h>

#include "base/lock.h"
#include "base/log.h"
#include "platform/clock.h"
#include "platform/privilege.h"
#include "platform/socket_owner.h"

#define IP_SPACES	0x01u		/* bits 31..24 of their service IDs; 16 bits of port at the end */
#define KNOWN_MAX	16u
#define WINDOW_NS	100000000u
#define LOOKS_MAX	32u		/* in a window, of all names */
#define LOOKS_NAME_MAX	4u		/* of one */

struct known {
	struct abstract_name name, found;
	uint64_t window_ns;		/* begin of the last one with a look */
	unsigned looks;			/* in it */
	bool believed;
};

static struct lock service_owner_lock = LOCK_INITIALIZER;
static struct known known[KNOWN_MAX] GUARDED_BY(service_owner_lock);
static uint64_t window_ns GUARDED_BY(service_owner_lock);
static unsigned looks GUARDED_BY(service_owner_lock);

bool service_is_reserved(uint64_t id)
{
	return id >> 24 == IP_SPACES && (id & 0xffff) < IPPORT_RESERVED;
}

bool service_owner_is_trusted(uid_t uid)
{
	return !uid || (uid == geteuid() && uid != overflow_uid());
}

static bool service_owner_judge(const struct abstract_name *claim, void *unused, struct abstract_name *found)
{
	const char *text = claim->address.sun_path + 1;
	uid_t uid = 0;
	int err = socket_owner(text, &uid);

	*found = *claim;
	if (!err && service_owner_is_trusted(uid))
		return true;
	if (err)
		explain("%s: not trusted: cannot find out which user owns it: %s", text,
			strerror(err));
	else
		explain_of(OF(USER, uid), "%s: not trusted: user %u owns it", text, (unsigned)uid);
	return false;
}

static bool may_look(struct known *place, uint64_t now_ns) REQUIRES(service_owner_lock)
{
	if (now_ns - window_ns >= WINDOW_NS) {
		window_ns = now_ns;
		looks = 0;
	}
	if (place->window_ns != window_ns)
		place->looks = 0;
	if (place->looks == LOOKS_NAME_MAX || looks == LOOKS_MAX)
		return false;
	place->window_ns = window_ns;
	place->looks++;
	looks++;
	return true;
}

/* Its place, or that of the least recently asked one. */
static struct known *place_of(const struct abstract_name *claim) REQUIRES(service_owner_lock)
{
	struct known *oldest = known;
	unsigned i;

	for (i = 0; i < KNOWN_MAX; i++) {
		if (known[i].name.bytes == claim->bytes &&
		    !memcmp(&known[i].name.address, &claim->address, claim->bytes))
			return &known[i];
		if (known[i].window_ns < oldest->window_ns)
			oldest = &known[i];
	}
	*oldest = (struct known){ .name = *claim };
	return oldest;
}

int service_owner_ask(const struct abstract_name *key,
		      bool (*judge)(const struct abstract_name *key, void *context, struct abstract_name *found),
		      void *context, bool *believed, struct abstract_name *found)
{
	uint64_t now_ns = clock_now_ns();
	struct known *place;
	int err = 0;

	lock_acquire(&service_owner_lock);
	place = place_of(key);
	if (may_look(place, now_ns))
		place->believed = judge(key, context, &place->found);
	else if (!place->window_ns || now_ns - place->window_ns > 2 * WINDOW_NS)
		err = EAGAIN;
	*believed = place->believed;
	*found = place->found;
	lock_release(&service_owner_lock);
	return err;
}

int service_is_believed(const struct abstract_name *claim, bool *believed)
{
	struct abstract_name found;

	return service_owner_ask(claim, service_owner_judge, NULL, believed, &found);
}

void service_owners_forget(void)
{
	lock_init(&service_owner_lock);
	memset(known, 0, sizeof(known));
}
