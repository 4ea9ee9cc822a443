/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection of data to the fabric (ib/protocol.h): attached when the first device is opened,
 * and again after the fabric was started anew; what this process has claimed and joined is said
 * again then.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "net/net.h"
#include "platform/clock.h"
#include "subnet/internal.h"
#include "tracepoint/drop.h"

#define RETRY_NS 1000000000ull
#define RETRY_PATIENCE_MS 1000u /* the worker has other work, too */
#define SAY_PATIENCE_MS 1000

/* ---- ports ---- */

struct subnet_end *subnet_find_end(struct subnet *subnet, uint16_t port)
{
	for (unsigned i = 0; i < subnet->end_count; i++)
		if (subnet->end[i].port == port)
			return &subnet->end[i];
	return NULL;
}

static void end_set(struct subnet *subnet, struct subnet_end *end, const struct ctl_port *now)
	REQUIRES(subnet->lock)
{
	end->now = *now;
	atomic_store(&end->address, (now->lid & 0xffff) | (now->lmc & 7) << 16 |
					    (uint32_t)(now->state == PORT_STATE_ACTIVE) << 24);
	atomic_store(&end->image_port, now->image_port);
}

void subnet_note_change(struct subnet *subnet, uint64_t events, const struct ctl_port *port)
{
	struct subnet_end *end = subnet_find_end(subnet, IB_WAY_PORT(port->hca, port->number));

	if (!end)
		return;
	lock_acquire(&subnet->lock);
	end_set(subnet, end, port);
	end->events |= (uint32_t)events;
	end->changed = true;
	lock_release(&subnet->lock);
	atomic_store(&subnet->due, true);
}

void subnet_note_gone(struct subnet *subnet, uint64_t slot, const struct ctl_gone *said)
{
	_Static_assert(sizeof(said->lid) == sizeof(subnet->gone[0].lid), "as many ports");
	struct subnet_gone *gone;

	lock_acquire(&subnet->lock);
	if (subnet->gone_count < SUBNET_GONE) {
		gone = &subnet->gone[subnet->gone_count++];
		gone->slot = (uint32_t)slot;
		memcpy(gone->lid, said->lid, sizeof(gone->lid));
		memcpy(gone->lmc, said->lmc, sizeof(gone->lmc));
	}
	lock_release(&subnet->lock);
	atomic_store(&subnet->due, true);
}

bool subnet_take_gone(struct subnet *subnet, struct subnet_gone *gone)
{
	bool any;

	lock_acquire(&subnet->lock);
	any = subnet->gone_count;
	if (any)
		*gone = subnet->gone[--subnet->gone_count];
	lock_release(&subnet->lock);
	return any;
}

void subnet_note_end(struct subnet *subnet)
{
	if (!atomic_exchange(&subnet->up, false))
		return;
	atomic_store(&subnet->retry_ns, clock_now_ns() + RETRY_NS);
	atomic_store(&subnet->due, true);
}

/* ---- attaching ---- */

struct attached {
	struct ctl_port port[ENDS_MAX];
	uint32_t events[ENDS_MAX]; /* that were told since */
	unsigned count;
	struct ib_files files; /* the image and the tally, if there are any */
};

static void attach_take(void *context, const struct ctl_head *head, const char *body)
{
	struct attached *attached = context;
	struct ctl_port port;

	if (head->bytes != sizeof(port))
		return;
	memcpy(&port, body, sizeof(port));
	subnet_bound_port(&port);
	if (head->kind == CTL_PORT && port.node_type == 1 && attached->count < ENDS_MAX)
		attached->port[attached->count++] = port;
	for (unsigned i = 0; head->kind == CTL_CHANGED && i < attached->count; i++)
		if (attached->port[i].hca == port.hca && attached->port[i].number == port.number) {
			attached->port[i] = port;
			attached->events[i] |= (uint32_t)head->value;
		}
}

static int subnet_attach(const struct subnet *subnet, unsigned patience_ms, int *fd,
			 struct attached *attached, uint64_t *file_hash, char why[PLACE_WHY_MAX])
{
	const struct ctl_head head = { .kind = CTL_ATTACH, .bytes = sizeof(struct ctl_place) };
	struct ctl_place place = { .port = 0 };
	int err = ib_connect(subnet->binding.fabric, fd, why);

	if (err)
		return err;
	memset(attached, 0, sizeof(*attached));
	strcpy(place.node, subnet->binding.node);
	err = ib_ask_for_files(*fd, patience_ms, &head, &place, attach_take, attached, file_hash,
			       &attached->files, why);
	if (err) {
		ib_files_close(&attached->files);
		close(*fd);
	}
	return err;
}

int subnet_open(struct subnet **opened, struct counters *counters)
{
	struct subnet *subnet = calloc(1, sizeof(*subnet));
	struct attached *attached = calloc(1, sizeof(*attached));
	char why[PLACE_WHY_MAX];
	int err = subnet && attached ? ib_bind(&subnet->binding) : ENOMEM;

	*opened = NULL;
	if (err) {
		free(attached);
		free(subnet);
		return err == ENODEV ? 0 : err;
	}
	subnet->link.ops = &subnet_link_ops;
	subnet->counters = counters;
	lock_init(&subnet->lock);
	lock_init(&subnet->held_lock);
	list_init(&subnet->held);
	subnet->buffer = malloc(RECEIVE_MAX * MESSAGE_MAX);
	err = subnet->buffer ? subnet_attach(subnet, IB_PATIENCE_MS, &subnet->fd, attached,
					     &subnet->file_hash, why)
			     : ENOMEM;
	if (err) {
		if (err != ENOMEM)
			explain_refused("ibv_open_device", ENODEV,
					"ibv_open_device: the fabric %s: %s",
					subnet->binding.fabric, why);
		free(subnet->buffer);
		free(subnet);
		free(attached);
		return err == ENOMEM || err == EMFILE || err == ENFILE ? err : ENODEV;
	}
	subnet->end_count = attached->count;
	for (unsigned i = 0; i < attached->count; i++) {
		subnet->end[i].port = IB_WAY_PORT(attached->port[i].hca, attached->port[i].number);
		end_set(subnet, &subnet->end[i], &attached->port[i]);
	}
	plane_begin(&subnet->plane);
	plane_map(&subnet->plane, &attached->files);
	ib_files_close(&attached->files);
	free(attached);
	atomic_store(&subnet->up, true);
	*opened = subnet;
	return 0;
}

void subnet_close(struct subnet *subnet)
{
	subnet_held_end(subnet);
	plane_end(&subnet->plane);
	close(subnet->fd);
	lock_destroy(&subnet->lock);
	free(subnet->group);
	free(subnet->service);
	free(subnet->buffer);
	free(subnet);
}

void subnet_abandon(struct subnet *subnet)
{
	close(subnet->fd);
}

void subnet_set_loopback(struct subnet *subnet, struct link *loopback)
{
	subnet->loopback = loopback;
}

void subnet_set_ways(struct subnet *subnet, const struct subnet_ways *ways)
{
	subnet->plane.ways = *ways;
	ways->tell(ways->owner, atomic_load(&subnet->plane.fabric));
}

int subnet_fd(const struct subnet *subnet)
{
	return subnet->fd;
}

struct link *subnet_link(struct subnet *subnet)
{
	return &subnet->link;
}

/* ---- slots ---- */

static void claim_take(void *context, const struct ctl_head *head, const char *body)
{
	struct subnet *subnet = context;
	struct ctl_gone gone;
	struct ctl_port port;

	if (head->kind == CTL_CHANGED && head->bytes == sizeof(port)) {
		memcpy(&port, body, sizeof(port));
		subnet_bound_port(&port);
		subnet_note_change(subnet, head->value, &port);
	} else if (head->kind == CTL_FOLDED) {
		plane_folded(&subnet->plane, head->value);
	} else if (head->kind == CTL_GONE && head->bytes == sizeof(gone)) {
		memcpy(&gone, body, sizeof(gone));
		subnet_note_gone(subnet, head->value, &gone);
	} else if (head->kind == CTL_DATA) {
		drop_count(subnet->counters, DROP_LINK, 1);
	}
}

static int claim_at(int fd, uint32_t slot, unsigned patience_ms, ib_take *take, void *context,
		    char why[PLACE_WHY_MAX])
{
	const struct ctl_head head = { .kind = CTL_SLOT, .value = slot };

	return ib_ask_within(fd, patience_ms, &head, NULL, take, context, NULL, why);
}

int subnet_claim(struct subnet *subnet, uint32_t slot)
{
	char why[PLACE_WHY_MAX];
	int err;

	lock_acquire(&subnet->lock);
	err = subnet->slot_count == CTL_SLOTS_MAX ? ENOMEM : 0;
	lock_release(&subnet->lock);
	if (err)
		return err;
	/* A fabric that is gone is told when it comes back. */
	err = atomic_load(&subnet->up)
		      ? claim_at(subnet->fd, slot, IB_PATIENCE_MS, claim_take, subnet, why)
		      : 0;
	if (err == EBUSY || err == EPERM)
		return EADDRINUSE;
	if (err) {
		explain("ibv_open_device: the fabric %s: %s", subnet->binding.fabric, why);
		return err == ENOSPC ? ENOMEM : err;
	}
	lock_acquire(&subnet->lock);
	subnet->slot[subnet->slot_count] = slot;
	atomic_store(&subnet->slots_seen[subnet->slot_count++], slot + 1);
	lock_release(&subnet->lock);
	return 0;
}

/* ---- groups ---- */

/* 0 or errno. The fabric reads at any time, but for one that is stopped. */
static int connection_say(int fd, enum ctl_kind kind, uint64_t value, const void *body,
			  size_t bytes, int patience_ms)
{
	struct ctl_head head = { .magic = CTL_MAGIC,
				 .version = CTL_VERSION,
				 .kind = (uint16_t)kind,
				 .bytes = (uint32_t)bytes,
				 .value = value };
	struct iovec iov[2] = { { .iov_base = &head, .iov_len = sizeof(head) },
				{ .iov_base = (void *)(uintptr_t)body, .iov_len = bytes } };
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2 };
	struct pollfd pollfd = { .fd = fd, .events = POLLOUT };

	for (;;) {
		if (sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0)
			return 0;
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN || !patience_ms || poll(&pollfd, 1, patience_ms) <= 0)
			return errno;
	}
}

int subnet_say_fold(struct subnet *subnet)
{
	return connection_say(subnet->fd, CTL_FOLD, 0, NULL, 0, 0);
}

static int connection_say_group(int fd, const struct subnet_group *group, bool join)
{
	struct ctl_group body = { .hca = group->port >> 8,
				  .port = group->port & 0xff,
				  .mlid = group->mlid };

	memcpy(body.mgid, group->mgid, sizeof(body.mgid));
	return connection_say(fd, CTL_GROUP, join, &body, sizeof(body), SAY_PATIENCE_MS);
}

static struct subnet_group *find_group(struct subnet *subnet, uint16_t port, uint16_t mlid,
				       const uint8_t mgid[16]) REQUIRES(subnet->lock)
{
	for (unsigned i = 0; i < subnet->group_count; i++)
		if (subnet->group[i].port == port && subnet->group[i].mlid == mlid &&
		    !memcmp(subnet->group[i].mgid, mgid, 16))
			return &subnet->group[i];
	return NULL;
}

int subnet_join(struct subnet *subnet, uint16_t port, uint16_t mlid, const uint8_t mgid[16])
{
	struct subnet_group *group, *larger;
	int err = 0;

	lock_acquire(&subnet->lock);
	group = find_group(subnet, port, mlid, mgid);
	if (group) {
		group->joined++;
		goto unlock;
	}
	err = ENOMEM;
	if (subnet->group_count == CTL_GROUPS_MAX)
		goto unlock;
	larger = reallocarray(subnet->group, subnet->group_count + 1, sizeof(*larger));
	if (!larger)
		goto unlock;
	subnet->group = larger;
	group = &larger[subnet->group_count];
	*group = (struct subnet_group){ .port = port, .mlid = mlid, .joined = 1 };
	memcpy(group->mgid, mgid, sizeof(group->mgid));
	subnet->group_count++;
	if (atomic_load(&subnet->up))
		connection_say_group(subnet->fd, group, true);
	err = 0;
unlock:
	lock_release(&subnet->lock);
	return err;
}

void subnet_leave(struct subnet *subnet, uint16_t port, uint16_t mlid, const uint8_t mgid[16])
{
	struct subnet_group *group;

	lock_acquire(&subnet->lock);
	group = find_group(subnet, port, mlid, mgid);
	if (group && !--group->joined) {
		if (atomic_load(&subnet->up))
			connection_say_group(subnet->fd, group, false);
		*group = subnet->group[--subnet->group_count];
	}
	lock_release(&subnet->lock);
}

bool subnet_is_joined(struct subnet *subnet, uint16_t port, uint16_t mlid)
{
	bool found = false;

	lock_acquire(&subnet->lock);
	for (unsigned i = 0; i < subnet->group_count && !found; i++)
		found = subnet->group[i].port == port && subnet->group[i].mlid == mlid;
	lock_release(&subnet->lock);
	return found;
}

void subnet_refuse(struct subnet *subnet, const struct subnet_refused *refused)
{
	const struct ib_way *way = &refused->way;
	const struct subnet_end *end = subnet_find_end(subnet, way->port);
	struct ctl_violation body = { .hca = way->port >> 8,
				      .port = way->port & 0xff,
				      .is_qkey = refused->is_qkey,
				      .key = refused->key,
				      .source_qpn = refused->source_qpn,
				      .dest_qpn = refused->dest_qpn,
				      .slid = way->lid,
				      .sl = way->sl,
				      .has_gids = way->has_grh };

	if (!end || !atomic_load(&subnet->up))
		return;
	body.dlid = (uint16_t)((atomic_load(&end->address) & 0xffff) | way->path_bits);
	if (way->has_grh) {
		memcpy(body.source_gid, refused->source, sizeof(body.source_gid));
		memcpy(body.dest_gid, refused->destination, sizeof(body.dest_gid));
	}
	connection_say(subnet->fd, CTL_VIOLATION, 0, &body, sizeof(body), 0);
}

/* ---- its end, and coming back ---- */

bool subnet_is_due(const struct subnet *subnet)
{
	return atomic_load(&subnet->due);
}

uint64_t subnet_deadline_ns(const struct subnet *subnet)
{
	uint64_t try_ns = atomic_load(&subnet->held_try_ns);

	if (!atomic_load(&subnet->up) && !try_ns)
		return atomic_load(&subnet->retry_ns);
	return try_ns ? try_ns : UINT64_MAX;
}

bool subnet_is_drained(const struct subnet *subnet)
{
	return !atomic_load(&subnet->held_count);
}

/* Tells the fabric what this process has. A slot that another one has meanwhile is lost. */
static int claim_again(struct subnet *subnet, int fd, struct attached *attached)
	REQUIRES(subnet->lock)
{
	char why[PLACE_WHY_MAX];
	int err = 0;

	for (unsigned i = 0; !err && i < subnet->slot_count; i++) {
		err = claim_at(fd, subnet->slot[i], RETRY_PATIENCE_MS, attach_take, attached, why);
		if (err == EBUSY || err == EPERM) {
			complain("the fabric %s: another process has QP numbers of this one: %s",
				 subnet->binding.fabric, why);
			err = 0;
		}
	}
	for (unsigned i = 0; !err && i < subnet->group_count; i++)
		err = connection_say_group(fd, &subnet->group[i], true);
	return err;
}

/* With the events of what has happened meanwhile. */
static void ends_come_back(struct subnet *subnet, const struct attached *attached)
	REQUIRES(subnet->lock)
{
	for (unsigned i = 0; i < attached->count; i++) {
		const struct ctl_port *now = &attached->port[i], *before;
		struct subnet_end *end =
			subnet_find_end(subnet, IB_WAY_PORT(now->hca, now->number));
		bool was, is;

		if (!end)
			continue;
		before = &end->now;
		was = before->state == PORT_STATE_ACTIVE;
		is = now->state == PORT_STATE_ACTIVE;
		end->events |= attached->events[i];
		end->events |= (uint32_t)(!was && is) << CTL_EVENT_PORT_ACTIVE |
			       (uint32_t)(was && !is) << CTL_EVENT_PORT_ERROR;
		if (before->lid != now->lid || before->lmc != now->lmc)
			end->events |= 1u << CTL_EVENT_LID_CHANGE;
		if (before->sm_lid != now->sm_lid || before->sm_sl != now->sm_sl)
			end->events |= 1u << CTL_EVENT_SM_CHANGE;
		if (memcmp(before->gid, now->gid, sizeof(now->gid)))
			end->events |= 1u << CTL_EVENT_GID_CHANGE;
		if (memcmp(before->pkey, now->pkey, sizeof(now->pkey)))
			end->events |= 1u << CTL_EVENT_PKEY_CHANGE;
		end_set(subnet, end, now);
		end->changed = true;
	}
}

static bool subnet_attach_again(struct subnet *subnet)
{
	struct attached *attached = calloc(1, sizeof(*attached));
	char why[PLACE_WHY_MAX];
	uint64_t file_hash;
	bool back = false;
	int fd;

	if (!attached)
		return false;
	lock_acquire(&subnet->lock);
	if (!subnet_attach(subnet, RETRY_PATIENCE_MS, &fd, attached, &file_hash, why)) {
		if (file_hash != subnet->file_hash)
			explain_about("VERBATIM_FABRIC", OF_NOTHING,
				      "the fabric %s came back with another file: this process stays without "
				      "it; start the program anew",
				      subnet->binding.fabric);
		else if (!claim_again(subnet, fd, attached) && dup2(fd, subnet->fd) >= 0)
			back = true;
		close(fd);
	}
	if (back) {
		subnet_services_again(subnet);
		ends_come_back(subnet, attached);
	}
	lock_release(&subnet->lock);
	if (back)
		plane_map(&subnet->plane, &attached->files);
	ib_files_close(&attached->files);
	free(attached);
	return back;
}

/* Returns the events. */
static uint32_t end_tell(struct subnet *subnet, struct subnet_end *end, struct net *net)
	REQUIRES(net->lock)
{
	static const enum ibv_event_type type[] = {
		[CTL_EVENT_PORT_ACTIVE] = IBV_EVENT_PORT_ACTIVE,
		[CTL_EVENT_PORT_ERROR] = IBV_EVENT_PORT_ERR,
		[CTL_EVENT_LID_CHANGE] = IBV_EVENT_LID_CHANGE,
		[CTL_EVENT_SM_CHANGE] = IBV_EVENT_SM_CHANGE,
		[CTL_EVENT_CLIENT_REREGISTER] = IBV_EVENT_CLIENT_REREGISTER,
		[CTL_EVENT_GID_CHANGE] = IBV_EVENT_GID_CHANGE,
		[CTL_EVENT_PKEY_CHANGE] = IBV_EVENT_PKEY_CHANGE,
	};
	struct ctl_port now;
	struct list *node;
	uint32_t events;
	bool changed;

	lock_acquire(&subnet->lock);
	now = end->now;
	events = end->events;
	changed = end->changed;
	end->events = 0;
	end->changed = false;
	lock_release(&subnet->lock);
	if (!changed)
		return 0;
	list_for_each (node, &net->ports) {
		struct port *port = list_entry(node, struct port, node);

		if (!subnet_port_is(port) || port->ib_port != end->port)
			continue;
		subnet_port_take(port, &now);	/* before the events that tell of it */
		for (unsigned i = 0; i < sizeof(type) / sizeof(type[0]); i++)
			if (events >> i & 1)
				net_raise(net, port, type[i]);
	}
	return events;
}

uint16_t subnet_port_at(const struct subnet *subnet, unsigned place)
{
	return subnet->end[place].port;
}

unsigned subnet_turn(struct subnet *subnet, struct net *net, uint64_t now_ns, enum subnet_watch *watch)
{
	unsigned again = 0;

	*watch = SUBNET_WATCH_AS_IS;
	atomic_store(&subnet->due, false);
	if (!atomic_load(&subnet->up) && !subnet->lost) {
		subnet->lost = true;
		*watch = SUBNET_UNWATCH;
		explain_about("VERBATIM_FABRIC", OF_NOTHING,
			      "the fabric %s has ended: its ports are down until it comes back: verbatim "
			      "fabric FILE --name NAME",
			      subnet->binding.fabric);
		lock_acquire(&subnet->lock);
		/* All are down, as when the other end of each cable has lost its power. */
		for (unsigned i = 0; i < subnet->end_count; i++) {
			struct subnet_end *end = &subnet->end[i];
			struct ctl_port now = end->now;

			if (now.state == PORT_STATE_ACTIVE)
				end->events |= 1u << CTL_EVENT_PORT_ERROR;
			now.state = PORT_STATE_DOWN;
			now.phys_state = PHYS_POLLING;
			end_set(subnet, end, &now);
			end->changed = true;
		}
		lock_release(&subnet->lock);
	} else if (subnet->lost && now_ns >= atomic_load(&subnet->retry_ns)) {
		if (subnet_attach_again(subnet)) {
			subnet->lost = false;
			atomic_store(&subnet->up, true);
			*watch = SUBNET_WATCH;
		} else {
			atomic_store(&subnet->retry_ns, clock_now_ns() + RETRY_NS);
		}
	}
	lock_acquire(&net->lock);
	for (unsigned i = 0; i < subnet->end_count; i++)
		if (end_tell(subnet, &subnet->end[i], net) >> CTL_EVENT_CLIENT_REREGISTER & 1)
			again |= 1u << i;
	lock_release(&net->lock);
	return again;
}
