/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets to and from the fabric: what the engine has from BTH to ICRC, with an LRH and maybe a GRH
 * before it, in a DATA message. The SLID is that of the port at this moment. What goes to a QP of
 * this process at the port that it leaves from, the HCA loops back: it goes by the loopback link.
 *
 * No send waits. What the fabric does not read, because a receiver has no room or because it is stopped
 * itself, is held here in its order, and QPs give no more until it has left (link_ops.is_full): so this
 * process receives meanwhile, whoever of its threads sends, and no two that send to each other wait in a circle.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/ip_addr.h"
#include "platform/clock.h"
#include "subnet/internal.h"
#include "tracepoint/drop.h"
#include "wire/ib_packet.h"
#include "wire/qpn.h"
#include "wire/smp.h"

#define SEND_MAX 64u
#define HELD_MAX 8192u /* QPs stop long before: what others send is lost beyond it */
/* Between tries to pass on what is held, while the fabric reads nothing: twice as long each time. */
#define TRY_NS 200000u
#define TRY_MAX_NS 6400000u

/* ---- sending ---- */

struct send_slot {
	struct ctl_head head;
	uint8_t headers[IB_HEADERS_MAX];
	struct iovec iov[2];
};

struct sender {
	struct subnet *subnet;
	struct mmsghdr message[SEND_MAX];
	struct send_slot slot[SEND_MAX];
	unsigned count;
	unsigned tracked; /* datagrams of which plane_choose() has said that they go by the relay */
};

/* Through memory a run goes as one; if that turns out not to be, packet by packet (relay_add). */
static unsigned subnet_prepare(struct link *link, struct datagram *datagram)
{
	struct subnet *subnet = (struct subnet *)link;

	return plane_channel(&subnet->plane, datagram->spread) == SUBNET_NO_CHANNEL ?
		       1 : LINK_SEGMENTS_MAX;
}

static bool link_serves(const struct subnet *subnet, uint32_t qpn)
{
	for (unsigned i = 0; i < CTL_SLOTS_MAX; i++)
		if (atomic_load_explicit(&subnet->slots_seen[i], memory_order_relaxed) ==
		    qpn_slot(qpn) + 1)
			return true;
	return false;
}

static void sender_add(struct sender *sender, struct datagram *datagram, uint16_t slid)
{
	struct send_slot *slot = &sender->slot[sender->count];
	struct ib_route route = { .sl = datagram->ib.sl,
				  .dlid = datagram->ib.lid,
				  .slid = slid,
				  .has_grh = datagram->ib.has_grh };
	size_t headers;

	if (route.has_grh) {
		route.grh = (struct ib_grh){ .tclass = datagram->traffic_class,
					     .flowlabel = datagram->flow_label,
					     .hoplmt = datagram->hop_limit };
		memcpy(route.grh.sgid, datagram->source, sizeof(route.grh.sgid));
		memcpy(route.grh.dgid, datagram->destination, sizeof(route.grh.dgid));
	}
	headers = ib_packet_write_headers(&route, datagram->bytes, slot->headers);
	ib_packet_seal(slot->headers, datagram->data, datagram->bytes - ICRC_BYTES);
	slot->head = (struct ctl_head){ .magic = CTL_MAGIC,
					.version = CTL_VERSION,
					.kind = CTL_DATA,
					.bytes = (uint32_t)(headers + datagram->bytes),
					.value = datagram->ib.port };
	/* One piece with the other: both are in the slot, without a gap. */
	slot->iov[0] =
		(struct iovec){ .iov_base = &slot->head, .iov_len = sizeof(slot->head) + headers };
	slot->iov[1] = (struct iovec){ .iov_base = datagram->data, .iov_len = datagram->bytes };
	sender->message[sender->count].msg_hdr =
		(struct msghdr){ .msg_iov = slot->iov, .msg_iovlen = 2 };
	sender->count++;
}

_Static_assert(offsetof(struct send_slot, headers) == sizeof(struct ctl_head), "without a gap");

/* As it arrives where it came from. */
static void loop_back(struct subnet *subnet, const struct datagram *datagram, uint32_t address)
{
	uint16_t base = (uint16_t)address;
	struct datagram copy = *datagram;
	unsigned sent;

	copy.ib.lid = base | (datagram->ib.path_bits & lid_mask(address));
	copy.ib.path_bits =
		lid_is_multicast(datagram->ib.lid) ? 0 : (uint8_t)(datagram->ib.lid ^ base);
	copy.dlid = datagram->ib.lid;
	if (!copy.ib.has_grh) {
		ip_addr_of_lid(copy.source, copy.ib.lid);
		memset(copy.destination, 0, sizeof(copy.destination));
	}
	subnet->loopback->ops->send(subnet->loopback, &copy, 1, &sent);
}

/* False: it is for no other process. */
static bool goes_out(struct subnet *subnet, const struct datagram *datagram, uint32_t address)
{
	uint16_t lmc = (uint16_t)(address >> 16 & 7);
	uint32_t qpn = packet_peek_qpn(datagram->data, datagram->bytes);

	if (lid_is_multicast(datagram->ib.lid)) {
		if (subnet_is_joined(subnet, datagram->ib.port, datagram->ib.lid))
			loop_back(subnet, datagram, address);
		return true;
	}
	if ((datagram->ib.lid ^ (address & 0xffff)) >> lmc || !link_serves(subnet, qpn))
		return true;
	loop_back(subnet, datagram, address);
	return false;
}

/* A message that the fabric's socket had no room for. */
struct held_message {
	struct list node;
	size_t bytes;
	uint8_t data[];
};

/* Returns how many were taken; fewer than @count: its socket is full (*err EAGAIN), or it is gone. */
static unsigned write_messages(struct subnet *subnet, struct mmsghdr *message, unsigned count, int *err)
{
	unsigned done = 0;

	*err = atomic_load_explicit(&subnet->up, memory_order_relaxed) ? 0 : EPIPE;
	while (done < count && !*err) {
		int sent = sendmmsg(subnet->fd, message + done, count - done, MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent > 0)
			done += (unsigned)sent;
		else if (errno != EINTR)
			*err = errno == ENOBUFS ? EAGAIN : errno;
	}
	if (*err && *err != EAGAIN)
		subnet_note_end(subnet);
	return done;
}

static void held_free(struct subnet *subnet, unsigned count) REQUIRES(subnet->held_lock)
{
	for (unsigned i = 0; i < count; i++) {
		struct list *node = list_pop(&subnet->held);

		free(list_entry(node, struct held_message, node));
	}
	/* H1: pairs with H2 in tx_is_held(). */
	atomic_fetch_sub(&subnet->held_count, count);
}

/* What is held leaves, as far as there is room for it. */
static void held_flush(struct subnet *subnet) REQUIRES(subnet->held_lock)
{
	struct mmsghdr message[SEND_MAX];
	struct iovec iov[SEND_MAX];
	int err = 0;

	while (!err && !list_empty(&subnet->held)) {
		unsigned count = 0, done;
		struct list *at;

		for (at = subnet->held.next; at != &subnet->held && count < SEND_MAX; at = at->next) {
			struct held_message *held = list_entry(at, struct held_message, node);

			iov[count] = (struct iovec){ .iov_base = held->data, .iov_len = held->bytes };
			message[count].msg_hdr = (struct msghdr){ .msg_iov = &iov[count], .msg_iovlen = 1 };
			count++;
		}
		done = write_messages(subnet, message, count, &err);
		if (err && err != EAGAIN) {
			drop_count(subnet->counters, DROP_LINK, count - done);
			done = count;
			err = 0;
		}
		held_free(subnet, done);
	}
	if (list_empty(&subnet->held) && subnet->held_tracked) {
		plane_relayed(&subnet->plane, subnet->held_tracked);
		subnet->held_tracked = 0;
	}
}

static bool held_append(struct subnet *subnet, const struct iovec iov[2]) REQUIRES(subnet->held_lock)
{
	size_t bytes = iov[0].iov_len + iov[1].iov_len;
	struct held_message *held = NULL;

	if (atomic_load(&subnet->held_count) < HELD_MAX)
		held = malloc(sizeof(*held) + bytes);
	if (!held)
		return false;
	held->bytes = bytes;
	memcpy(held->data, iov[0].iov_base, iov[0].iov_len);
	memcpy(held->data + iov[0].iov_len, iov[1].iov_base, iov[1].iov_len);
	list_add_tail(&subnet->held, &held->node);
	atomic_fetch_add(&subnet->held_count, 1);
	return true;
}

/*
 * Behind what is held: a QP's packets before these may be. Only subnet_pump() ends what has begun here, or nobody
 * would give QPs that saw it their turn (tx_release()).
 */
static void sender_hold(struct sender *sender, unsigned done)
{
	struct subnet *subnet = sender->subnet;
	unsigned lost = 0;
	int err = EAGAIN;

	lock_acquire(&subnet->held_lock);
	if (list_empty(&subnet->held))
		done += write_messages(subnet, sender->message + done, sender->count - done, &err);
	for (; done < sender->count; done++)
		lost += (err && err != EAGAIN) || !held_append(subnet, sender->slot[done].iov);
	if (list_empty(&subnet->held)) {
		if (sender->tracked)
			plane_relayed(&subnet->plane, sender->tracked);
	} else {
		subnet->held_tracked += sender->tracked;
		if (!atomic_load(&subnet->held_try_ns)) {
			subnet->held_wait_ns = TRY_NS;
			atomic_store(&subnet->held_try_ns, clock_now_ns() + TRY_NS);
		}
	}
	lock_release(&subnet->held_lock);
	if (lost)
		drop_count(subnet->counters, DROP_LINK, lost);
}

static void sender_flush(struct sender *sender)
{
	struct subnet *subnet = sender->subnet;
	unsigned done = 0;
	int err = EAGAIN;

	if (!atomic_load(&subnet->held_count))
		done = write_messages(subnet, sender->message, sender->count, &err);
	if (done < sender->count && err == EAGAIN) {
		sender_hold(sender, done);
	} else {
		if (done < sender->count)
			drop_count(subnet->counters, DROP_LINK, sender->count - done);
		if (sender->tracked)
			plane_relayed(&subnet->plane, sender->tracked);
	}
	sender->count = 0;
	sender->tracked = 0;
}

bool subnet_pump(struct subnet *subnet, uint64_t now_ns)
{
	bool left;

	if (atomic_load_explicit(&subnet->held_try_ns, memory_order_relaxed) > now_ns)
		return false;
	lock_acquire(&subnet->held_lock);
	held_flush(subnet);
	left = !list_empty(&subnet->held);
	if (left && subnet->held_wait_ns < TRY_MAX_NS)
		subnet->held_wait_ns *= 2;
	atomic_store(&subnet->held_try_ns, left ? now_ns + subnet->held_wait_ns : 0);
	lock_release(&subnet->held_lock);
	return !left;
}

void subnet_held_end(struct subnet *subnet)
{
	lock_acquire(&subnet->held_lock);
	held_free(subnet, atomic_load(&subnet->held_count));
	lock_release(&subnet->held_lock);
	lock_destroy(&subnet->held_lock);
}

static bool subnet_is_full(struct link *link)
{
	return atomic_load(&((struct subnet *)link)->held_count);
}

static void relay_add(struct sender *sender, const struct datagram *datagram, uint16_t slid)
{
	struct datagram one = *datagram;
	size_t each = datagram->segment_bytes ? datagram->segment_bytes : datagram->bytes;

	for (size_t left = datagram->bytes; left; left -= one.bytes, one.data += one.bytes) {
		one.bytes = left < each ? left : each;
		sender_add(sender, &one, slid);
		if (sender->count == SEND_MAX)
			sender_flush(sender);
	}
}

static int subnet_send(struct link *link, struct datagram *datagram, unsigned count, unsigned *sent)
{
	struct subnet *subnet = (struct subnet *)link;
	struct sender sender = { .subnet = subnet };

	for (unsigned i = 0; i < count; i++) {
		const struct subnet_end *end = subnet_find_end(subnet, datagram[i].ib.port);
		uint32_t address = end ? atomic_load(&end->address) : 0;
		struct plane_choice choice;
		struct datagram through;
		bool grouped = lid_is_multicast(datagram[i].ib.lid);
		unsigned taken;
		int err;

		if (!(address >> 24)) { /* not Active */
			drop_count(subnet->counters, DROP_LINK, link_segments(&datagram[i]));
			continue;
		}
		if (!goes_out(subnet, &datagram[i], address))
			continue;
		if (!grouped && plane_choose(subnet, end, address, &datagram[i], &choice)) {
			plane_address(&choice, &datagram[i], &through);
			err = subnet->plane.ways.rings->ops->send(subnet->plane.ways.rings,
								  &through, 1, &taken);
			if (!err)
				continue;
			plane_uncount(&subnet->plane, &choice, &datagram[i]);
			sender_flush(&sender);
			*sent = i;
			return err;
		}
		relay_add(&sender, &datagram[i],
			  (uint16_t)address | (datagram[i].ib.path_bits & lid_mask(address)));
		/* All of its packets were added: a flush between them does not say so. */
		sender.tracked += !grouped;
	}
	if (sender.count || sender.tracked)
		sender_flush(&sender);
	*sent = count;
	return 0;
}

/* ---- receiving ---- */

/* False: it is no packet. */
static bool take_packet(struct subnet *subnet, const struct ctl_head *head, uint8_t *data,
			struct datagram *datagram)
{
	const struct subnet_end *end = subnet_find_end(subnet, (uint16_t)head->value);
	struct ib_packet packet;
	uint32_t address;

	if (!end || ib_packet_parse_headers(data, head->bytes, &packet)) {
		drop_count(subnet->counters, DROP_MALFORMED, 1);
		return false;
	}
	address = atomic_load_explicit(&end->address, memory_order_relaxed);
	*datagram = (struct datagram){
		.ib = { .port = end->port,
			.lid = packet.route.slid,
			.sl = packet.route.sl,
			.has_grh = packet.route.has_grh },
		.flow_label = packet.route.grh.flowlabel,
		.traffic_class = packet.route.grh.tclass,
		.hop_limit = packet.route.grh.hoplmt,
		.forwarded = true,
		.link = ROUTE_IB,
		.dlid = packet.route.dlid,
		.checked = true,
		.bad_icrc = !ib_packet_is_sealed(data, head->bytes),
		.data = data + (packet.transport - data),
		.bytes = packet.transport_bytes,
	};
	if (!lid_is_multicast(packet.route.dlid))
		datagram->ib.path_bits = (uint8_t)(packet.route.dlid ^ (uint16_t)address) & 0x7f;
	if (packet.route.has_grh) {
		memcpy(datagram->source, packet.route.grh.sgid, sizeof(datagram->source));
		memcpy(datagram->destination, packet.route.grh.dgid, sizeof(datagram->destination));
	} else {
		ip_addr_of_lid(datagram->source, packet.route.slid);
	}
	return true;
}

static bool take_message(struct subnet *subnet, uint8_t *message, size_t bytes,
			 struct datagram *datagram)
{
	struct ctl_gone gone;
	struct ctl_port port;
	struct ctl_head head;

	if (bytes < sizeof(head))
		return false;
	memcpy(&head, message, sizeof(head));
	message += sizeof(head);
	if (head.magic != CTL_MAGIC || head.bytes != bytes - sizeof(head))
		return false;
	if (head.kind == CTL_DATA)
		return take_packet(subnet, &head, message, datagram);
	if (head.kind == CTL_FOLDED)
		plane_folded(&subnet->plane, head.value);
	if (head.kind == CTL_CHANGED && head.bytes == sizeof(port)) {
		memcpy(&port, message, sizeof(port));
		subnet_bound_port(&port);
		subnet_note_change(subnet, head.value, &port);
	}
	if (head.kind == CTL_GONE && head.bytes == sizeof(gone)) {
		memcpy(&gone, message, sizeof(gone));
		subnet_note_gone(subnet, head.value, &gone);
	}
	return false;
}

static int subnet_receive(struct link *link, struct datagram *datagram, unsigned max,
			  unsigned *received)
{
	struct subnet *subnet = (struct subnet *)link;
	struct mmsghdr message[RECEIVE_MAX];
	struct iovec iov[RECEIVE_MAX];
	unsigned count = 0;
	int got;

	*received = 0;
	if (atomic_load_explicit(&subnet->held_try_ns, memory_order_relaxed))
		subnet_pump(subnet, clock_now_ns());
	if (!atomic_load_explicit(&subnet->up, memory_order_relaxed))
		return 0;
	max = max < RECEIVE_MAX ? max : RECEIVE_MAX;
	for (unsigned i = 0; i < max; i++) {
		iov[i] = (struct iovec){ .iov_base = subnet->buffer + i * MESSAGE_MAX,
					 .iov_len = MESSAGE_MAX };
		message[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	got = recvmmsg(subnet->fd, message, max, MSG_DONTWAIT, NULL);
	if (got < 0) {
		if (errno != EAGAIN && errno != EINTR)
			subnet_note_end(subnet);
		return 0;
	}
	for (int i = 0; i < got; i++) {
		if (!message[i].msg_len)
			subnet_note_end(subnet);
		else if (!(message[i].msg_hdr.msg_flags & MSG_TRUNC) &&
			 take_message(subnet, iov[i].iov_base, message[i].msg_len,
				      &datagram[count]))
			count++;
	}
	*received = count;
	return 0;
}

static unsigned subnet_event_fds(struct link *link, int *fds, unsigned max)
{
	fds[0] = ((struct subnet *)link)->fd;
	return 1;
}

static void subnet_link_close(struct link *link)
{
	subnet_close((struct subnet *)link);
}

static int subnet_link_claim(struct link *link, uint32_t slot)
{
	return subnet_claim((struct subnet *)link, slot);
}

static int subnet_link_join(struct link *link, const struct link_group *group)
{
	return group->ib_port ? subnet_join((struct subnet *)link, group->ib_port, group->lid, group->gid) :
				ENODEV;
}

static void subnet_link_leave(struct link *link, const struct link_group *group)
{
	if (group->ib_port)
		subnet_leave((struct subnet *)link, group->ib_port, group->lid, group->gid);
}

static void subnet_tell(struct link *link, const struct datagram *datagram, struct link_told *told)
{
	struct subnet *subnet = (struct subnet *)link;
	const struct subnet_end *end = subnet_find_end(subnet, datagram->ib.port);
	uint32_t address = end ? atomic_load(&end->address) : 0;

	told->lid = (uint16_t)address | (datagram->ib.path_bits & lid_mask(address));
	if (address >> 24)
		plane_show(subnet, end, address, datagram, told->way);
}

const struct link_ops subnet_link_ops = {
	.unsealed = true,
	.claim = subnet_link_claim,
	.join = subnet_link_join,
	.leave = subnet_link_leave,
	.is_full = subnet_is_full,
	.close = subnet_link_close,
	.prepare = subnet_prepare,
	.send = subnet_send,
	.tell = subnet_tell,
	.receive = subnet_receive,
	.event_fds = subnet_event_fds,
};
