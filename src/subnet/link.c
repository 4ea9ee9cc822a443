/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Packets to and from the fabric: what the engine has from BTH to ICRC, with an LRH and maybe a GRH
 * before it, in a DATA message. The SLID is that of the port at this moment. What goes to a QP of
 * this process at the port that it leaves from, the HCA loops back: it goes by the loopback link.
 */
#include <errno.h>
#include <poll.h>
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
#define WAIT_MS 10
/* For so long the fabric is waited for when it reads nothing; then packets are lost until it does.
 */
#define PATIENCE_NS 500000000ull

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

/* Waits a while for room. False: there is none, and has not been for long. */
static bool wait_for_room(struct subnet *subnet)
{
	struct pollfd pollfd = { .fd = subnet->fd, .events = POLLOUT };
	uint64_t since_ns = atomic_load(&subnet->full_ns), now_ns = clock_now_ns();

	if (!since_ns) {
		since_ns = now_ns;
		atomic_store(&subnet->full_ns, since_ns);
	}
	return poll(&pollfd, 1, now_ns - since_ns < PATIENCE_NS ? WAIT_MS : 0) > 0 ||
	       now_ns - since_ns < PATIENCE_NS;
}

static void sender_flush(struct sender *sender)
{
	struct subnet *subnet = sender->subnet;
	unsigned done = 0;

	while (done < sender->count && atomic_load_explicit(&subnet->up, memory_order_relaxed)) {
		int sent = sendmmsg(subnet->fd, sender->message + done, sender->count - done,
				    MSG_NOSIGNAL | MSG_DONTWAIT);

		if (sent > 0) {
			done += (unsigned)sent;
			if (atomic_load_explicit(&subnet->full_ns, memory_order_relaxed))
				atomic_store(&subnet->full_ns, 0);
		} else if (errno == EPIPE || errno == ECONNRESET) {
			subnet_note_end(subnet);
		} else if (errno != EINTR && (errno != EAGAIN || !wait_for_room(subnet))) {
			break;
		}
	}
	if (done < sender->count)
		drop_count(subnet->counters, DROP_LINK, sender->count - done);
	sender->count = 0;
	if (sender->tracked)
		plane_relayed(&subnet->plane, sender->tracked);
	sender->tracked = 0;
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
	.close = subnet_link_close,
	.prepare = subnet_prepare,
	.send = subnet_send,
	.tell = subnet_tell,
	.receive = subnet_receive,
	.event_fds = subnet_event_fds,
};
