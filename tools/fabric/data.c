/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Data of programs whose QPs are at HCAs of the fabric: ib/protocol.h, from ATTACH on. A packet
 * that a program sends goes its way in fabric_send_packet(), and comes out at data_arrive(): by
 * the slot in its QPN, or by its group, it belongs to a program of that host, whose queue it joins.
 *
 *	a queue beyond QUEUE_HIGH	its port gives no credits: who sends to it is not read until
 *					it is below QUEUE_LOW. That one's socket gets full, and
 *					nothing is lost. Meanwhile PortXmitWait rises at its
 *					port and at the one before the receiver
 *	and nothing is read of it for	its VL is stalled: what it has no room for is discarded
 *	HOQLife * VLStallCount, or too	until it does, and who waited goes on
 *	little for HELD_US
 *	beyond QUEUE_HARD, QUEUES_ALL	discarded in any case
 *
 * Both times are the program's own (data_look()): an adapter needs no processor of the host, so one
 * that waits for a processor is not late, and nothing is lost of it. One that is stopped, sleeps, or
 * computes and does not read, is. HOQLife and VLStallCount are those that the subnet manager gave the
 * switch's port before it (IBTA 18.2.5.4): a switch discards a packet each HOQLife, and after so many
 * all of them. It tries again after 8 HOQLife, since it sees no sooner whether credits came; we do.
 *
 * Packets to one program are written together, when those of the sender's batch are all on their
 * way. Events of ports are told at the end of the turn: a port's in one message.
 */
#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "fabric/data.h"
#include "host/slot.h"
#include "image/image.h"
#include "platform/process_state.h"
#include "platform/socket_owner.h"
#include "wire/ib_packet.h"
#include "wire/smp.h"

#define BATCH		16u		/* messages of one recvmmsg() */
#define QUEUE_HIGH	(1u << 20)	/* bytes, with LETTER_BYTES each */
#define QUEUE_LOW	(QUEUE_HIGH / 2)
#define QUEUE_HARD	(32u << 20)
#define QUEUES_ALL	(256u << 20)
#define STALL_US	500000u		/* at least: no finer clock judges a program */
#define HELD_US		5000000u
#define LOOK_US		50000u		/* between looks at programs with full queues */
#define HUNGRY_US	60000000u	/* without a processor for so long, it is stalled as well */
#define CPU_UNKNOWN	UINT64_MAX
#define HOQ_LIFE_ENDLESS 20u		/* 18.2.5.4: no packet is discarded for its time */
#define UD_SERVICE	3u		/* the upper three bits of an opcode */
#define DETH_SOURCE_QP	5u		/* byte of the DETH */
#define GRH_DGID	24u

/* A program's wish for copies. */
struct data_group {
	struct data_group *next;	/* of the bucket */
	struct list of_attached;
	struct visitor *visitor;
	uint32_t node, port;
	uint16_t mlid;
	uint8_t mgid[16];
};

/* ---- hosts and their ports ---- */

struct data_port *data_port_find(struct data_host *host, uint32_t hca, uint32_t port)
{
	for (unsigned i = 0; i < host->ports; i++)
		if (host->port[i].last.hca == hca && host->port[i].last.number == port)
			return &host->port[i];
	return NULL;
}

struct data_port *data_port_at(struct data_host *host, uint32_t node, uint32_t port)
{
	for (unsigned i = 0; i < host->ports; i++)
		if (host->port[i].node == node && host->port[i].last.number == port)
			return &host->port[i];
	return NULL;
}

static bool data_port_add(void *context, const struct ctl_port *port, uint32_t node)
{
	struct data_host *host = context;
	struct data_port *larger = realloc(host->port, (host->ports + 1) * sizeof(*larger));

	if (!larger)
		return false;
	host->port = larger;
	larger[host->ports++] = (struct data_port){ .node = node, .last = *port };
	return true;
}

static struct data_plane *data_plane_get(struct room *room)
{
	struct data_plane *plane = room->plane;

	if (plane)
		return plane;
	plane = calloc(1, sizeof(*plane));
	if (plane)
		plane->host = calloc(fabric_nodes(room->fabric), sizeof(*plane->host));
	if (!plane || !plane->host) {
		free(plane);
		return NULL;
	}
	list_init(&plane->hosts);
	list_init(&plane->dirty);
	list_init(&plane->full);
	room->plane = plane;
	plane->image = plane_image_new(room);
	return plane;
}

/* NULL: no memory. */
static struct data_host *data_host_get(struct room *room, uint32_t node)
{
	struct data_plane *plane = data_plane_get(room);
	struct data_host *host = plane ? plane->host[node] : NULL;

	if (host || !plane)
		return host;
	host = calloc(1, sizeof(*host));
	if (!host)
		return NULL;
	list_init(&host->attached);
	list_init(&host->services);
	room_ports(room, node, data_port_add, host);
	if (!host->ports) {
		free(host);
		return NULL;
	}
	host->number = plane->host_count++;
	for (unsigned i = 0; i < host->ports; i++) {
		struct ctl_port *last = &host->port[i].last;

		last->image_port = plane_port(plane->image, host->port[i].node, last->number);
		plane->host[host->port[i].node] = host;
		if (plane->image)
			plane_set_host(plane->image, host->port[i].node, host->number);
	}
	list_add_tail(&plane->hosts, &host->node);
	return host;
}

void data_attach(struct visitor *visitor, uint32_t node)
{
	struct data_host *host = data_host_get(visitor->room, node);
	struct attached *attached = host ? calloc(1, sizeof(*attached)) : NULL;

	if (!attached) {
		visitor_end(visitor, ENOMEM, 0, "no memory");
		return;
	}
	attached->visitor = visitor;
	attached->host = host;
	list_init(&attached->group);
	list_init(&attached->service);
	list_init(&attached->member);
	list_init(&attached->waiters);
	list_add_tail(&host->attached, &attached->node);
	visitor->attached = attached;
	visitor->room->data_queued += visitor->queued;
	for (unsigned i = 0; i < host->ports; i++) {
		struct ctl_port *last = &host->port[i].last;

		room_fill_port(visitor->room, host->port[i].node, last->number, last);
		visitor_answer(visitor, CTL_PORT, 0, 0, last, sizeof(*last));
	}
	attached->tally = plane_give(visitor);
	if (!attached->tally)
		visitor_end(visitor, 0, visitor->room->hash, NULL);
}

/* ---- slots ---- */

/*
 * Which host's program the image says to have a slot: that of one that has ended as well, until
 * another one claims it. What it has sent may still lie in the memory that it shared with a peer,
 * who looks here whether it is believed.
 */
static void data_slot_show(struct data_plane *plane, uint32_t slot)
{
	uint32_t owner = 0;
	struct list *at;

	if (!plane->image)
		return;
	list_for_each(at, &plane->hosts) {
		struct data_host *host = list_entry(at, struct data_host, node);

		if (host->slot[slot])
			owner = owner ? IMAGE_NONE : host->number + 1;
	}
	if (owner)
		plane_set_slot(plane->image, slot, owner);
}

/* All programs are told, of whatever node: who of them has a peer there knows it. */
static void data_tell_gone(struct attached *attached, uint32_t slot)
{
	struct data_plane *plane = attached->visitor->room->plane;
	struct data_host *host = attached->host;
	struct ctl_gone gone = { { 0 } };
	struct list *at, *of;
	unsigned ports = 0;

	for (unsigned i = 0; i < host->ports && ports < CTL_GONE_PORTS; i++)
		if (host->port[i].last.lid) {
			gone.lid[ports] = (uint16_t)host->port[i].last.lid;
			gone.lmc[ports++] = (uint16_t)host->port[i].last.lmc;
		}
	list_for_each(at, &plane->hosts) {
		struct data_host *other = list_entry(at, struct data_host, node);

		list_for_each(of, &other->attached)
			if (list_entry(of, struct attached, node) != attached)
				visitor_answer(list_entry(of, struct attached, node)->visitor, CTL_GONE,
					       0, slot, &gone, sizeof(gone));
	}
}

static void data_slots_release(struct attached *attached)
{
	for (unsigned i = 0; i < attached->slots; i++) {
		attached->host->slot[attached->slot[i]] = NULL;
		data_tell_gone(attached, attached->slot[i]);
		data_slot_show(attached->visitor->room->plane, attached->slot[i]);
	}
	attached->slots = 0;
}

static bool data_is_hung_up(const struct visitor *visitor)
{
	struct pollfd pollfd = { .fd = visitor->fd, .events = POLLRDHUP };

	return poll(&pollfd, 1, 0) > 0 && pollfd.revents & (POLLHUP | POLLERR | POLLRDHUP);
}

/*
 * Whose slot it is says the socket that it is claimed by (host/slot.h): one that is in another
 * network namespace is not seen. 0 or errno.
 */
static int data_slot_owner(const struct visitor *visitor, uint32_t slot)
{
	char name[32];
	uid_t uid;
	int err;

	snprintf(name, sizeof(name), SLOT_NAME "%u", slot);
	err = socket_owner(name, &uid);
	if (err == ENOENT)
		return 0;
	if (err)
		return visitor->owner ? 0 : EPERM;
	return uid == visitor->uid || !visitor->uid ? 0 : EPERM;
}

static void data_slot(struct visitor *visitor, uint64_t value)
{
	struct attached *attached = visitor->attached;
	struct visitor *holder;
	int err;

	if (!value || value >= SLOT_COUNT - 1) {
		visitor_end(visitor, EINVAL, 0, "slots are 1 to 1022");
		return;
	}
	holder = attached->host->slot[value];
	if (holder == visitor) {
		visitor_end(visitor, 0, 0, NULL);
		return;
	}
	if (attached->slots == CTL_SLOTS_MAX) {
		visitor_end(visitor, ENOSPC, 0, "a program has four slots at most");
		return;
	}
	err = data_slot_owner(visitor, (uint32_t)value);
	if (err) {
		visitor_end(visitor, err, 0, "the slot is another user's");
		if (++attached->wrong_claims > CTL_SLOTS_MAX)
			visitor_leave(visitor);
		return;
	}
	if (holder && !holder->gone && !data_is_hung_up(holder)) {
		visitor_end(visitor, EBUSY, 0, "another program at this node has the slot");
		return;
	}
	if (holder) {			/* its end has not been looked at so far */
		data_slots_release(holder->attached);
		visitor_leave(holder);
	}
	attached->host->slot[value] = visitor;
	attached->slot[attached->slots++] = (uint32_t)value;
	data_slot_show(visitor->room->plane, (uint32_t)value);
	visitor_end(visitor, 0, 0, NULL);
}

bool data_has_slot(const struct attached *attached, uint32_t slot)
{
	for (unsigned i = 0; i < attached->slots; i++)
		if (attached->slot[i] == slot)
			return true;
	return false;
}

/* ---- groups ---- */

static struct data_group **data_bucket(struct data_plane *plane, uint32_t node, uint32_t port,
				       uint16_t mlid, const uint8_t mgid[16])
{
	uint32_t hash = 2166136261u ^ node;

	hash = (hash * 16777619u ^ port) * 16777619u ^ mlid;
	for (unsigned i = 0; i < 16; i++)
		hash = hash * 16777619u ^ mgid[i];
	return &plane->bucket[(hash ^ hash >> 16) % DATA_BUCKETS];
}

static bool data_group_is(const struct data_group *group, uint32_t node, uint32_t port,
			  uint16_t mlid, const uint8_t mgid[16])
{
	return group->node == node && group->port == port && group->mlid == mlid &&
	       !memcmp(group->mgid, mgid, sizeof(group->mgid));
}

static void data_group_leave(struct data_group **at)
{
	struct data_group *group = *at;

	*at = group->next;
	list_remove(&group->of_attached);
	group->visitor->attached->groups--;
	free(group);
}

static void data_groups_leave(struct data_plane *plane, struct attached *attached)
{
	while (!list_empty(&attached->group)) {
		struct data_group *group = list_entry(attached->group.next, struct data_group,
						      of_attached);
		struct data_group **at = data_bucket(plane, group->node, group->port, group->mlid,
						     group->mgid);

		while (*at != group)
			at = &(*at)->next;
		data_group_leave(at);
	}
}

/* A program that says what cannot be has its connection ended. */
static void data_group(struct visitor *visitor, uint64_t join, const struct ctl_group *asked)
{
	struct data_plane *plane = visitor->room->plane;
	struct attached *attached = visitor->attached;
	struct data_port *port = data_port_find(attached->host, asked->hca, asked->port);
	struct data_group **at, *group;

	if (join > 1 || !port || !lid_is_multicast(asked->mlid) ||
	    asked->mgid[0] != 0xff) {
		visitor_leave(visitor);
		return;
	}
	at = data_bucket(plane, port->node, asked->port, asked->mlid, asked->mgid);
	while (*at && ((*at)->visitor != visitor ||
		       !data_group_is(*at, port->node, asked->port, asked->mlid, asked->mgid)))
		at = &(*at)->next;
	if (!join) {
		if (*at)
			data_group_leave(at);
		return;
	}
	if (*at)
		return;
	group = attached->groups < CTL_GROUPS_MAX ? calloc(1, sizeof(*group)) : NULL;
	if (!group) {
		visitor_leave(visitor);
		return;
	}
	group->visitor = visitor;
	group->node = port->node;
	group->port = asked->port;
	group->mlid = asked->mlid;
	memcpy(group->mgid, asked->mgid, sizeof(group->mgid));
	*at = group;			/* the last of the bucket */
	list_add_tail(&attached->group, &group->of_attached);
	attached->groups++;
}

/* ---- senders wait, and go on ---- */

/*
 * It has packets that its port does not send, and the port before the receiver would not, which gets no
 * credits. If both are the same no cable is between them.
 */
static void data_waits(const struct attached *sender, bool begins)
{
	struct room *room = sender->visitor->room;

	for (unsigned i = 0; i < 2; i++)
		fabric_port_waits(room->fabric, sender->wait_node[i], sender->wait_port[i], begins, room->now_us);
}

static void data_resume(struct attached *sender)
{
	struct attached *receiver = sender->waits_for;

	data_waits(sender, false);
	list_remove(&sender->waiting);
	sender->waits_for = NULL;
	sender->visitor->paused = false;
	sender->visitor->hung = false;
	visitor_watch(sender->visitor);
	if (list_empty(&receiver->waiters))
		list_remove(&receiver->full);
}

static void data_resume_all(struct attached *receiver)
{
	while (!list_empty(&receiver->waiters))
		data_resume(list_entry(receiver->waiters.next, struct attached, waiting));
}

/* @at: where what it sent arrives. */
static void data_pause(struct attached *sender, struct attached *receiver, const struct data_port *at)
{
	struct room *room = sender->visitor->room;
	struct data_plane *plane = room->plane;
	struct fabric_port_info info;

	if (sender->waits_for)
		return;
	sender->wait_node[0] = sender->wait_node[1] = FABRIC_NONE;
	if ((at->node != plane->sender_node || at->last.number != plane->sender_port) &&
	    fabric_port_info(room->fabric, at->node, at->last.number, &info)) {
		sender->wait_node[0] = plane->sender_node;
		sender->wait_port[0] = plane->sender_port;
		sender->wait_node[1] = info.peer_node;
		sender->wait_port[1] = info.peer_port;
	}
	if (list_empty(&receiver->waiters)) {
		list_add_tail(&room->plane->full, &receiver->full);
		receiver->looked_us = receiver->read_us = room->now_us;
		receiver->idle_us = receiver->held_us = 0;
		receiver->cpu_us = CPU_UNKNOWN;
	}
	data_waits(sender, true);
	sender->waits_for = receiver;
	list_add_tail(&receiver->waiters, &sender->waiting);
	sender->visitor->paused = true;
	visitor_watch(sender->visitor);
}

void data_drained(struct visitor *visitor, bool some)
{
	struct attached *attached = visitor->attached;

	if (some) {
		attached->read_us = visitor->room->now_us;
		attached->idle_us = 0;
	}
	if (visitor->queued > QUEUE_LOW)
		return;
	attached->stalled = false;
	data_resume_all(attached);
}

static void data_stall(struct attached *attached)
{
	struct visitor *visitor = attached->visitor;

	attached->stalled = true;
	data_resume_all(attached);
	if (visitor->told)
		return;
	visitor->told = true;
	room_say(visitor->room, "%s (%d) does not read its packets: what does not fit is discarded",
		 visitor->program, (int)visitor->pid);
}

/* The switch before the port of a program; one cable between two HCAs, and its own HCA, have none. */
static uint64_t data_hoq_us(const struct attached *attached)
{
	const struct fabric *fabric = attached->visitor->room->fabric;
	const struct data_port *port = attached->host->port;
	struct fabric_port_info info;
	struct fabric_node_info node;
	uint64_t limit_us;

	if (!fabric_port_info(fabric, port->node, port->last.number, &info) ||
	    !fabric_node_info(fabric, info.peer_node, &node) || node.type != FABRIC_SWITCH ||
	    !fabric_port_info(fabric, info.peer_node, info.peer_port, &info))
		return STALL_US;
	if (info.hoq_life >= HOQ_LIFE_ENDLESS)
		return FABRIC_NEVER;
	limit_us = (4096ull << info.hoq_life) / 1000 * (info.vl_stall_count ? info.vl_stall_count : 1);
	return limit_us < STALL_US ? STALL_US : limit_us;
}

/* A look at a program with a full queue: has it had the time to read? */
static void data_look(struct attached *attached)
{
	struct visitor *visitor = attached->visitor;
	uint64_t now_us = visitor->room->now_us, own_us = LOOK_US, cpu_us, hoq_us;

	if (now_us - attached->looked_us < LOOK_US)
		return;
	/* A late look counts as one: meanwhile the program could read no more than its socket held. */
	visitor_flush(visitor);
	if (list_empty(&attached->waiters))
		return;
	if (process_is_busy(visitor->pid, &cpu_us)) {
		uint64_t used_us = attached->cpu_us == CPU_UNKNOWN ? 0 : cpu_us - attached->cpu_us;

		own_us = used_us < own_us ? used_us : own_us;
	}
	attached->cpu_us = cpu_us;
	attached->looked_us = now_us;
	attached->idle_us += own_us;
	attached->held_us += own_us;
	hoq_us = data_hoq_us(attached);
	if (hoq_us != FABRIC_NEVER && (attached->idle_us >= hoq_us || attached->held_us >= HELD_US ||
				       now_us - attached->read_us >= HUNGRY_US))
		data_stall(attached);
}

uint64_t data_deadline_us(const struct room *room)
{
	uint64_t next_us = FABRIC_NEVER;
	struct list *at;

	if (!room->plane)
		return next_us;
	list_for_each(at, &room->plane->full) {
		uint64_t due_us = list_entry(at, struct attached, full)->looked_us + LOOK_US;

		next_us = due_us < next_us ? due_us : next_us;
	}
	return next_us;
}

/* ---- packets ---- */

enum fabric_arrival data_deliver(struct room *room, struct visitor *visitor,
				 const struct ctl_port *port, const uint8_t *packet, size_t bytes)
{
	struct attached *attached = visitor->attached;
	struct data_plane *plane = room->plane;
	const struct ctl_head head = {
		.magic = CTL_MAGIC, .version = CTL_VERSION, .kind = CTL_DATA,
		.bytes = (uint32_t)bytes, .value = ctl_data_value(port->hca, port->number),
	};
	size_t cost = sizeof(head) + bytes + LETTER_BYTES;
	struct letter *letter = NULL;

	if (visitor->gone)
		return FABRIC_NOBODY;
	if (visitor->queued + cost <= (attached->stalled ? QUEUE_HIGH : QUEUE_HARD) &&
	    room->data_queued + cost <= QUEUES_ALL)
		letter = malloc(sizeof(*letter) + sizeof(head) + bytes);
	if (!letter) {
		attached->discarded++;
		return FABRIC_FULL;
	}
	letter->bytes = sizeof(head) + bytes;
	memcpy(letter->data, &head, sizeof(head));
	memcpy(letter->data + sizeof(head), packet, bytes);
	visitor_queue(visitor, letter);
	attached->received++;
	if (!attached->is_dirty) {
		attached->is_dirty = true;
		list_add_tail(&plane->dirty, &attached->dirty);
	}
	if (visitor->queued > QUEUE_HIGH && plane->sender && !attached->stalled)
		data_pause(plane->sender->attached, attached,
			   container_of(port, const struct data_port, last));
	return FABRIC_TAKEN;
}

enum fabric_arrival data_arrive(struct room *room, uint32_t node, uint32_t port,
				const uint8_t *packet, size_t bytes)
{
	struct data_plane *plane = room->plane;
	struct data_host *host = plane ? plane->host[node] : NULL;
	struct data_port *at = host ? data_port_at(host, node, port) : NULL;
	bool has_grh = (packet[1] & 3) == IB_LNH_GRH;
	uint16_t dlid = get_be16(packet + 2);
	const uint8_t *bth = packet + IB_LRH_BYTES + (has_grh ? IB_GRH_BYTES : 0);
	enum fabric_arrival arrival = FABRIC_NOBODY, one;
	const uint8_t *mgid = packet + IB_LRH_BYTES + GRH_DGID;
	uint32_t qpn = get_be24(bth + 5);
	bool loops = plane && plane->sender && plane->sender_node == node &&
		     plane->sender_port == port;

	if (!at)
		return FABRIC_NOBODY;
	if (dlid < LID_MULTICAST) {
		struct visitor *visitor = host->slot[qpn_slot(qpn)];

		return visitor ? data_deliver(room, visitor, &at->last, packet, bytes)
			       : FABRIC_NOBODY;
	}
	if (!has_grh || qpn != QPN_MULTICAST)
		return FABRIC_NOBODY;
	for (struct data_group *group = *data_bucket(plane, node, port, dlid, mgid); group;
	     group = group->next) {
		if (!data_group_is(group, node, port, dlid, mgid) ||
		    (loops && group->visitor == plane->sender))
			continue;
		one = data_deliver(room, group->visitor, &at->last, packet, bytes);
		arrival = one == FABRIC_TAKEN || arrival == FABRIC_NOBODY ? one : arrival;
	}
	return arrival;
}

static bool data_source_is_right(const struct attached *attached, const uint8_t *packet,
				 size_t bytes)
{
	size_t bth = IB_LRH_BYTES + ((packet[1] & 3) == IB_LNH_GRH ? IB_GRH_BYTES : 0);
	size_t source = bth + BTH_BYTES + DETH_SOURCE_QP;

	if (bytes < bth + BTH_BYTES)
		return false;
	return packet[bth] >> 5 != UD_SERVICE ||
	       (bytes >= source + 3 &&
		data_has_slot(attached, qpn_slot(get_be24(packet + source))));
}

static bool data_is_gmp(const uint8_t *packet, size_t bytes)
{
	size_t bth = IB_LRH_BYTES + ((packet[1] & 3) == IB_LNH_GRH ? IB_GRH_BYTES : 0);

	return bytes >= bth + BTH_BYTES && get_be24(packet + bth + 5) == QPN_GSI;
}

static void data_send(struct visitor *visitor, uint64_t value, uint8_t *packet, size_t bytes)
{
	struct attached *attached = visitor->attached;
	struct data_plane *plane = visitor->room->plane;
	struct data_port *port = value >> 40 ? NULL : data_port_find(attached->host,
						       (uint32_t)(value >> 8), value & 0xff);

	if (!port) {
		visitor_leave(visitor);
		return;
	}
	attached->sent++;
	plane->sender = visitor;
	plane->sender_node = port->node;
	plane->sender_port = port->last.number;
	if (data_is_gmp(packet, bytes)) {
		attached->refused += !gmp_send(visitor, port, packet, bytes);
	} else if (!data_source_is_right(attached, packet, bytes) ||
	    fabric_send_packet(visitor->room->fabric, port->node, port->last.number, packet, bytes,
			       visitor->room->now_us)) {
		attached->refused++;
	}
	plane->sender = NULL;
}

static void data_violation(struct visitor *visitor, const struct ctl_violation *said)
{
	struct data_port *port = data_port_find(visitor->attached->host, said->hca, said->port);
	struct fabric_violation violation = {
		.is_qkey = said->is_qkey, .key = said->key, .sl = said->sl,
		.source_lid = said->slid, .dest_lid = said->dlid,
		.source_qpn = said->source_qpn, .dest_qpn = said->dest_qpn,
	};

	if (!port) {
		visitor_leave(visitor);
		return;
	}
	if (said->has_gids) {
		memcpy(violation.source_gid, said->source_gid, sizeof(said->source_gid));
		memcpy(violation.dest_gid, said->dest_gid, sizeof(said->dest_gid));
	}
	fabric_violated(visitor->room->fabric, port->node, said->port, &violation,
			visitor->room->now_us);
}

/* ---- from a program ---- */

/* What its packets have come to. */
void data_flush(struct data_plane *plane)
{
	while (!list_empty(&plane->dirty)) {
		struct attached *attached = list_entry(plane->dirty.next, struct attached, dirty);

		list_remove(&attached->dirty);
		attached->is_dirty = false;
		visitor_flush(attached->visitor);
	}
}

static void data_message(struct visitor *visitor, uint8_t *data, size_t bytes)
{
	struct ctl_violation violation;
	struct ctl_group group;
	struct ctl_head head;

	if (bytes < sizeof(head))
		return visitor_leave(visitor);
	memcpy(&head, data, sizeof(head));
	data += sizeof(head);
	bytes -= sizeof(head);
	if (head.magic != CTL_MAGIC || head.version != CTL_VERSION || head.bytes != bytes)
		return visitor_leave(visitor);
	if (head.kind == CTL_DATA && bytes) {
		data_send(visitor, head.value, data, bytes);
	} else if (head.kind == CTL_SLOT && !bytes) {
		data_slot(visitor, head.value);
	} else if (head.kind == CTL_FOLD && !bytes) {
		plane_fold(visitor->room, visitor->attached->tally, visitor->attached->host);
		plane_tally_reset(visitor->attached->tally);
		data_flush(visitor->room->plane);
		visitor_answer(visitor, CTL_FOLDED, 0, visitor->room->data_queued, NULL, 0);
	} else if (head.kind == CTL_GROUP && bytes == sizeof(group)) {
		memcpy(&group, data, sizeof(group));
		data_group(visitor, head.value, &group);
	} else if (head.kind == CTL_VIOLATION && bytes == sizeof(violation)) {
		memcpy(&violation, data, sizeof(violation));
		data_violation(visitor, &violation);
	} else {
		visitor_leave(visitor);
	}
}

bool data_read(struct visitor *visitor)
{
	static uint8_t data[BATCH][sizeof(struct ctl_head) + CTL_PACKET_MAX];	/* one thread's */
	struct mmsghdr message[BATCH];
	struct iovec iov[BATCH];
	int got;

	for (unsigned i = 0; i < BATCH; i++) {
		iov[i] = (struct iovec){ .iov_base = data[i], .iov_len = sizeof(data[i]) };
		message[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &iov[i], .msg_iovlen = 1 } };
	}
	got = recvmmsg(visitor->fd, message, BATCH, MSG_DONTWAIT, NULL);
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (got <= 0)
		visitor_leave(visitor);
	for (int i = 0; i < got && !visitor->gone; i++) {
		/* Nothing: it hung up. Cut off, or with descriptors: no message of ours. */
		if (!message[i].msg_len ||
		    message[i].msg_hdr.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
			visitor_leave(visitor);
		else
			data_message(visitor, data[i], message[i].msg_len);
	}
	data_flush(visitor->room->plane);
	return got == BATCH && !visitor->gone && !visitor->paused;
}

/* ---- events ---- */

void data_event(struct room *room, uint32_t node, uint32_t port, enum fabric_event event)
{
	_Static_assert((int)CTL_EVENT_PORT_ACTIVE == (int)FABRIC_EVENT_PORT_ACTIVE &&
		       (int)CTL_EVENT_PORT_ERROR == (int)FABRIC_EVENT_PORT_ERROR &&
		       (int)CTL_EVENT_LID_CHANGE == (int)FABRIC_EVENT_LID_CHANGE &&
		       (int)CTL_EVENT_SM_CHANGE == (int)FABRIC_EVENT_SM_CHANGE &&
		       (int)CTL_EVENT_CLIENT_REREGISTER == (int)FABRIC_EVENT_CLIENT_REREGISTER &&
		       (int)CTL_EVENT_GID_CHANGE == (int)FABRIC_EVENT_GID_CHANGE &&
		       (int)CTL_EVENT_PKEY_CHANGE == (int)FABRIC_EVENT_PKEY_CHANGE,
		       "programs are told them by the same number");
	struct data_host *host = room->plane ? room->plane->host[node] : NULL;
	struct data_port *at = host ? data_port_at(host, node, port) : NULL;

	if (!at)
		return;
	if (event != FABRIC_EVENT_OTHER)
		at->events |= 1u << event;
	at->changed = room->plane->changed = true;
}

static void data_tell(struct room *room, struct data_host *host, struct data_port *port)
{
	struct ctl_port now = port->last;
	uint32_t events = port->events;
	struct list *at;

	room_fill_port(room, port->node, now.number, &now);
	port->events = 0;
	port->changed = false;
	if (!events && !memcmp(&now, &port->last, sizeof(now)))
		return;
	port->last = now;
	list_for_each(at, &host->attached)
		visitor_answer(list_entry(at, struct attached, node)->visitor, CTL_CHANGED, 0,
			       events, &now, sizeof(now));
}

void data_timer(struct room *room)
{
	struct data_plane *plane = room->plane;
	struct list *at, *next;

	if (!plane)
		return;
	plane_update(room, plane->image);
	list_for_each_safe(at, next, &plane->full)
		data_look(list_entry(at, struct attached, full));
	if (!plane->changed)
		return;
	plane->changed = false;
	list_for_each(at, &plane->hosts) {
		struct data_host *host = list_entry(at, struct data_host, node);

		for (unsigned i = 0; i < host->ports; i++)
			if (host->port[i].changed)
				data_tell(room, host, &host->port[i]);
	}
}

/* ---- the end ---- */

void data_detach(struct visitor *visitor)
{
	struct attached *attached = visitor->attached;
	struct data_plane *plane = visitor->room->plane;

	plane_fold(visitor->room, attached->tally, attached->host);
	plane_tally_free(attached->tally);
	data_slots_release(attached);
	data_groups_leave(plane, attached);
	gmp_detach(attached);
	data_resume_all(attached);
	if (attached->waits_for)
		data_resume(attached);
	if (attached->is_dirty)
		list_remove(&attached->dirty);
	list_remove(&attached->node);
	free(attached);
	visitor->attached = NULL;
}

void data_describe(const struct visitor *visitor, FILE *out)
{
	const struct attached *attached = visitor->attached;
	char host[CTL_NODE_MAX];

	room_host_name(visitor->room, attached->host->port->node, host);
	fprintf(out,
		"%s (%d) on %s, %u groups, %llu packets sent, %llu received, %llu refused, "
		"%llu discarded, %zu bytes unread%s\n",
		visitor->program, (int)visitor->pid, host, attached->groups,
		(unsigned long long)attached->sent, (unsigned long long)attached->received,
		(unsigned long long)attached->refused, (unsigned long long)attached->discarded,
		visitor->queued, attached->waits_for ? ", waits for a receiver" : "");
}

void data_fold(struct room *room)
{
	struct list *at, *of;

	if (!room->plane)
		return;
	list_for_each(at, &room->plane->hosts) {
		struct data_host *host = list_entry(at, struct data_host, node);

		list_for_each(of, &host->attached)
			plane_fold(room, list_entry(of, struct attached, node)->tally, host);
	}
}

void data_close(struct room *room)
{
	struct data_plane *plane = room->plane;

	while (plane && !list_empty(&plane->hosts)) {
		struct data_host *host = list_entry(plane->hosts.next, struct data_host, node);

		list_remove(&host->node);
		free(host->port);
		free(host);
	}
	if (plane) {
		plane_image_free(plane->image);
		free(plane->host);
	}
	free(plane);
	room->plane = NULL;
}
