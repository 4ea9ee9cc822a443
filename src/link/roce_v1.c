/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * RoCE v1 by packet sockets (roce_v1.h). An interface has
 *
 *	a socket for QPs, whose filter lets in what is for the slots of this process;
 *	one for QP1, in a fanout group of all processes: a management datagram comes to one of them;
 *	while groups are joined, one that sees what this host sends to groups, which no other socket does.
 *
 * All send by one socket, which is bound to none.
 */
#include "link/roce_v1.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/ip_addr.h"
#include "base/lock.h"
#include "base/log.h"
#include "platform/clock.h"
#include "platform/neighbour.h"
#include "tracepoint/drop.h"
#include "wire/ib_packet.h"

#define SLOTS_MAX	16u
#define NEIGHBOURS	256u
#define NEIGHBOUR_NS	1000000000u	/* after so long the kernel is asked again */
#define BATCH		16u
#define FRAME_ROOM	4352u		/* longer than any frame of ours */
#define RECEIVE_BUFFER	(4 << 20)
#define GROUPS_MAX	256u		/* of an interface: addresses of groups */

_Static_assert(FRAME_ROOM > PACKET_BYTES_MAX + ROCE_V1_HEADERS, "a packet fits");

enum v1_socket { V1_DATA, V1_GSI, V1_GROUPS, V1_SOCKETS };

struct v1_port {
	uint32_t interface;
	uint8_t mac[6];
	int fd[V1_SOCKETS];		/* -1: not open */
	unsigned gids;
	uint8_t (*gid)[16];
};

/* Where a GID is on its interface; entries take each other's place. */
struct v1_neighbour {
	uint32_t interface;
	uint8_t gid[16], mac[6];
	bool has_mac;
	uint64_t asked_ns;		/* 0: never */
};

struct v1_link {
	struct link link;
	struct counters *counters;
	uint8_t tag;
	int send_fd;
	struct netlink netlink;
	/*
	 * Leaf; writers of ports hold what keeps others from receiving, too, and so receivers read them
	 * without it.
	 */
	struct lock lock;
	struct v1_port *port;
	unsigned ports;
	uint32_t slot[SLOTS_MAX];
	unsigned slots;
	struct link_group group[GROUPS_MAX];
	unsigned groups;
	struct v1_neighbour neighbour[NEIGHBOURS];
	uint8_t (*buffer)[FRAME_ROOM];	/* [BATCH], of who receives */
	unsigned next;			/* where to look first */
};

#define v1_of(l) ((struct v1_link *)(l))

/* ---- what comes in: filters ---- */

#define LOAD_BYTE(at)	BPF_STMT(BPF_LD | BPF_B | BPF_ABS, (at))
#define LOAD_HALF(at)	BPF_STMT(BPF_LD | BPF_H | BPF_ABS, (at))
#define LOAD_WORD(at)	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (at))
#define RETURN(bytes)	BPF_STMT(BPF_RET | BPF_K, (bytes))
#define IF_EQUAL(value, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (value), (then), (otherwise))
#define IF_LESS(value, then, otherwise) BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, (value), (otherwise), (then))
#define PACKET_TYPE	((uint32_t)SKF_AD_OFF + SKF_AD_PKTTYPE)
#define PACKET_INTERFACE ((uint32_t)SKF_AD_OFF + SKF_AD_IFINDEX)
#define PACKET_TAGGED	((uint32_t)SKF_AD_OFF + SKF_AD_VLAN_TAG_PRESENT)
#define NEXT_HEADER_AT	20u
#define DEST_QPN_AT	58u	/* a byte of others, then 24 bits */

/*
 * What all have in common, then the QPN; the last two instructions are "no" and "yes". A socket that is
 * bound to an interface is also shown the frames of the VLANs and macvlans above it: they are not for it.
 */
static int v1_filter(const struct v1_link *v1, uint32_t interface, int fd, enum v1_socket which, bool groups)
{
	const struct sock_filter head[] = {
		LOAD_HALF(12),
		IF_EQUAL(ETHERTYPE_ROCE, 1, 0),
		RETURN(0),
		LOAD_WORD(PACKET_INTERFACE),
		IF_EQUAL(interface, 1, 0),
		RETURN(0),
		LOAD_WORD(PACKET_TAGGED),
		IF_EQUAL(0, 1, 0),
		RETURN(0),
		LOAD_WORD(PACKET_TYPE),
		which == V1_GROUPS ? (struct sock_filter)IF_EQUAL(PACKET_OUTGOING, 1, 0) :
				     (struct sock_filter)IF_LESS(PACKET_OTHERHOST, 1, 0),
		RETURN(0),
		LOAD_BYTE(NEXT_HEADER_AT),
		IF_EQUAL(IB_NEXT_HEADER_BTH, 1, 0),
		RETURN(0),
		LOAD_WORD(DEST_QPN_AT),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, QPN_MASK),
	};
	struct sock_filter code[sizeof(head) / sizeof(head[0]) + SLOTS_MAX + 4];
	unsigned n = sizeof(head) / sizeof(head[0]), slots = which == V1_DATA ? v1->slots : 0, i;
	struct sock_fprog program = { .filter = code };

	memcpy(code, head, sizeof(head));
	if (which == V1_GSI)
		code[n++] = (struct sock_filter)IF_EQUAL(QPN_GSI, 1, 0);
	else if (groups)
		code[n++] = (struct sock_filter)IF_EQUAL(QPN_MULTICAST, slots + (slots ? 2 : 1), 0);
	if (slots)
		code[n++] = (struct sock_filter)BPF_STMT(BPF_ALU | BPF_RSH | BPF_K, QP_INDEX_BITS);
	for (i = 0; i < slots; i++)
		code[n++] = (struct sock_filter)IF_EQUAL(v1->slot[i], slots - i, 0);
	code[n++] = (struct sock_filter)RETURN(0);
	code[n++] = (struct sock_filter)RETURN(UINT32_MAX);
	program.len = (unsigned short)n;
	return setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) ? errno : 0;
}

static bool v1_has_groups(const struct v1_link *v1, uint32_t interface)
{
	for (unsigned i = 0; i < v1->groups; i++)
		if (v1->group[i].interface == interface)
			return true;
	return false;
}

/* Slots or groups have changed. */
static void v1_renew_filters(const struct v1_link *v1)
{
	for (unsigned i = 0; i < v1->ports; i++) {
		const struct v1_port *port = &v1->port[i];

		(void)v1_filter(v1, port->interface, port->fd[V1_DATA], V1_DATA,
				v1_has_groups(v1, port->interface));
	}
}

/* ---- sockets ---- */

/* The group of all processes of this network namespace, which take turns. */
static uint32_t v1_fanout(uint32_t interface)
{
	return (ETHERTYPE_ROCE + interface) & 0xffff;
}

static int v1_socket_open(const struct v1_link *v1, uint32_t interface, enum v1_socket which, int *opened)
{
	const struct sockaddr_ll address = {
		.sll_family = AF_PACKET, .sll_ifindex = (int)interface,
		.sll_protocol = htons(which == V1_GROUPS ? ETH_P_ALL : ETHERTYPE_ROCE),
	};
	const int fanout = (int)(v1_fanout(interface) | PACKET_FANOUT_LB << 16);
	const int bytes = RECEIVE_BUFFER;
	int err, fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno;
	err = v1_filter(v1, interface, fd, which, v1_has_groups(v1, interface) || which == V1_GROUPS);
	if (!err && bind(fd, (const struct sockaddr *)&address, sizeof(address)))
		err = errno;
	if (!err && which == V1_GSI && setsockopt(fd, SOL_PACKET, PACKET_FANOUT, &fanout, sizeof(fanout)))
		err = errno;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		(void)setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
	if (err)
		close(fd);
	else
		*opened = fd;
	return err;
}

static void v1_port_close(struct v1_port *port)
{
	for (unsigned i = 0; i < V1_SOCKETS; i++)
		if (port->fd[i] >= 0)
			close(port->fd[i]);
	free(port->gid);
}

static struct v1_port *v1_find(const struct v1_link *v1, uint32_t interface)
{
	for (unsigned i = 0; i < v1->ports; i++)
		if (v1->port[i].interface == interface)
			return &v1->port[i];
	return NULL;
}

/* The card lets the group in. What it does not is lost, as with any group that was not joined. */
static void v1_membership(const struct v1_port *port, const struct link_group *group, bool joins)
{
	struct packet_mreq request = { .mr_ifindex = (int)port->interface, .mr_type = PACKET_MR_MULTICAST,
				       .mr_alen = 6 };

	roce_v1_group_mac(group->gid, request.mr_address);
	if (setsockopt(port->fd[V1_DATA], SOL_PACKET, joins ? PACKET_ADD_MEMBERSHIP : PACKET_DROP_MEMBERSHIP,
		       &request, sizeof(request)) && joins)
		log_info("interface %u: a group's frames may not come in: %s", port->interface, strerror(errno));
}

/* What has been joined on an interface that is open from now on. */
static int v1_join_all(struct v1_link *v1, struct v1_port *port)
{
	int err = 0;

	if (v1_has_groups(v1, port->interface))
		err = v1_socket_open(v1, port->interface, V1_GROUPS, &port->fd[V1_GROUPS]);
	for (unsigned i = 0; !err && i < v1->groups; i++)
		if (v1->group[i].interface == port->interface)
			v1_membership(port, &v1->group[i], true);
	return err;
}

/* @was: it has been open, and its sockets are taken over; NULL: it is opened. */
static int v1_port_open(struct v1_link *v1, const struct roce_v1_port *asked, struct v1_port *was,
			struct v1_port *port)
{
	int err = 0, gsi;

	*port = (struct v1_port){ .interface = asked->interface, .fd = { -1, -1, -1 }, .gids = asked->gids };
	memcpy(port->mac, asked->mac, sizeof(port->mac));
	port->gid = malloc(asked->gids * sizeof(*port->gid) + 1);
	if (!port->gid)
		return ENOMEM;
	memcpy(port->gid, asked->gid, asked->gids * sizeof(*port->gid));
	for (unsigned i = 0; was && i < V1_SOCKETS; i++) {
		port->fd[i] = was->fd[i];
		was->fd[i] = -1;
	}
	if (!was)
		err = v1_socket_open(v1, port->interface, V1_DATA, &port->fd[V1_DATA]);
	if (!was && !err)
		err = v1_join_all(v1, port);
	gsi = was || err ? 0 : v1_socket_open(v1, port->interface, V1_GSI, &port->fd[V1_GSI]);
	if (gsi)
		explain_about("RoCE v1 fanout", OF_NOTHING,
			      "ibv_open_device: interface %u: no socket for management datagrams of RoCE v1: "
			      "%s (another program has PACKET_FANOUT group %u?): rdma_cm needs another process "
			      "of this host that has one",
			      port->interface, strerror(gsi), v1_fanout(port->interface));
	if (err)
		v1_port_close(port);
	return err;
}

int roce_v1_set_ports(struct link *link, const struct roce_v1_port *ports, unsigned count)
{
	struct v1_link *v1 = v1_of(link);
	struct v1_port *made = calloc(count + 1, sizeof(*made)), *old;
	unsigned i, n = 0, old_count;
	int err = 0, one;

	if (!made)
		return ENOMEM;
	lock_acquire(&v1->lock);
	for (i = 0; i < count; i++) {
		one = v1_port_open(v1, &ports[i], v1_find(v1, ports[i].interface), &made[n]);
		if (one)
			err = one;
		else
			n++;
	}
	old = v1->port;
	old_count = v1->ports;
	v1->port = made;
	v1->ports = n;
	lock_release(&v1->lock);
	for (i = 0; i < old_count; i++)
		v1_port_close(&old[i]);
	free(old);
	return err;
}

/* ---- neighbours ---- */

static struct v1_neighbour *v1_neighbour_place(struct v1_link *v1, uint32_t interface, const uint8_t gid[16])
{
	return &v1->neighbour[(ip_addr_hash(gid) ^ interface) % NEIGHBOURS];
}

static struct v1_neighbour *v1_neighbour(struct v1_link *v1, uint32_t interface, const uint8_t gid[16])
{
	struct v1_neighbour *entry = v1_neighbour_place(v1, interface, gid);

	if (entry->interface != interface || memcmp(entry->gid, gid, 16)) {
		*entry = (struct v1_neighbour){ .interface = interface };
		memcpy(entry->gid, gid, 16);
	}
	return entry;
}

/* False: nobody knows, and the kernel is looking for it. */
static bool v1_find_mac(struct v1_link *v1, const struct datagram *datagram, uint8_t mac[6])
{
	struct v1_neighbour *entry;
	uint64_t now_ns;
	bool known, found;

	if (ip_addr_is_multicast(datagram->destination)) {
		roce_v1_group_mac(datagram->destination, mac);
		return true;
	}
	if (ip_addr_link_local_mac(datagram->destination, mac))
		return true;
	now_ns = clock_now_ns();
	lock_acquire(&v1->lock);
	entry = v1_neighbour(v1, datagram->interface, datagram->destination);
	known = entry->has_mac;
	found = entry->asked_ns && now_ns - entry->asked_ns < NEIGHBOUR_NS;
	memcpy(mac, entry->mac, 6);
	if (!found && known)
		entry->asked_ns = now_ns;	/* one thread asks */
	lock_release(&v1->lock);
	if (known && found)
		return true;
	found = neighbour_mac(&v1->netlink, datagram->interface, datagram->source, datagram->destination, mac);
	lock_acquire(&v1->lock);
	entry = v1_neighbour(v1, datagram->interface, datagram->destination);
	if (found) {
		memcpy(entry->mac, mac, 6);
		entry->has_mac = true;
		entry->asked_ns = now_ns;
	} else {
		memcpy(mac, entry->mac, 6);
		found = entry->has_mac;
	}
	lock_release(&v1->lock);
	return found;
}

/*
 * A packet that came from there: for those that the kernel has not looked for. It may be forged, and takes no
 * place of what the kernel has said.
 */
static void v1_learn(struct v1_link *v1, const struct datagram *datagram, const uint8_t mac[6])
{
	struct v1_neighbour *entry = v1_neighbour_place(v1, datagram->interface, datagram->source);

	lock_acquire(&v1->lock);
	if (!entry->asked_ns) {
		entry = v1_neighbour(v1, datagram->interface, datagram->source);
		if (!entry->has_mac) {
			memcpy(entry->mac, mac, 6);
			entry->has_mac = true;
		}
	}
	lock_release(&v1->lock);
}

/* ---- sending ---- */

static unsigned v1_prepare(struct link *link, struct datagram *datagram)
{
	return 1;
}

struct v1_batch {
	struct mmsghdr message[BATCH];
	struct sockaddr_ll to[BATCH];
	struct iovec iov[BATCH][2];
	uint8_t headers[BATCH][ROCE_V1_HEADERS];
};

/* False: no way there. */
static bool v1_add(struct v1_link *v1, struct v1_batch *batch, unsigned n, struct datagram *datagram)
{
	const struct v1_port *port;
	uint8_t own[6], mac[6];

	lock_acquire(&v1->lock);
	port = v1_find(v1, datagram->interface);
	if (port)
		memcpy(own, port->mac, 6);
	lock_release(&v1->lock);
	if (!port || !v1_find_mac(v1, datagram, mac))
		return false;
	roce_v1_write(datagram, own, mac, batch->headers[n]);
	batch->to[n] = (struct sockaddr_ll){ .sll_family = AF_PACKET, .sll_ifindex = (int)datagram->interface,
					     .sll_protocol = htons(ETHERTYPE_ROCE), .sll_halen = 6 };
	memcpy(batch->to[n].sll_addr, mac, 6);
	batch->iov[n][0] = (struct iovec){ batch->headers[n], ROCE_V1_HEADERS };
	batch->iov[n][1] = (struct iovec){ datagram->data, datagram->bytes };
	batch->message[n].msg_hdr = (struct msghdr){ .msg_name = &batch->to[n],
						     .msg_namelen = sizeof(batch->to[n]),
						     .msg_iov = batch->iov[n], .msg_iovlen = 2 };
	return true;
}

static int v1_send(struct link *link, struct datagram *datagram, unsigned count, unsigned *sent)
{
	struct v1_link *v1 = v1_of(link);
	struct v1_batch batch;
	unsigned done = 0, n, of[BATCH], next;
	int took;

	while (done < count) {
		for (n = 0, next = done; next < count && n < BATCH; next++) {
			of[n] = next;
			if (v1_add(v1, &batch, n, &datagram[next]))
				n++;
			else
				drop_count(v1->counters, DROP_LINK, 1);
		}
		took = n ? sendmmsg(v1->send_fd, batch.message, n, MSG_DONTWAIT) : 0;
		if (took < 0 && errno == EAGAIN) {
			*sent = of[0];	/* of the rest, those without a way are counted again */
			return EAGAIN;
		}
		if (took < 0) {		/* too long for the interface, or it is down: as on a wire */
			drop_count(v1->counters, DROP_LINK, 1);
			took = 1;
		}
		done = (unsigned)took < n ? of[took] : next;
	}
	*sent = done;
	return 0;
}

/* ---- receiving ---- */

static bool v1_is_ours(const struct v1_port *port, const uint8_t gid[16])
{
	if (ip_addr_is_multicast(gid))
		return true;
	for (unsigned i = 0; i < port->gids; i++)
		if (!memcmp(port->gid[i], gid, 16))
			return true;
	return false;
}

static bool v1_take(struct v1_link *v1, const struct v1_port *port, uint8_t *frame, size_t bytes,
		    struct datagram *datagram)
{
	uint8_t from[6];

	memcpy(from, frame + 6, sizeof(from));
	if (!roce_v1_read(frame, bytes, datagram)) {
		drop_count(v1->counters, DROP_MALFORMED, 1);
		return false;
	}
	if (!v1_is_ours(port, datagram->destination)) {
		drop_count(v1->counters, DROP_ADDRESS, 1);
		return false;
	}
	datagram->link = v1->tag;
	datagram->interface = port->interface;
	/* The filters have it that QPs are ours; a management datagram may be another process's. */
	datagram->forwarded = packet_peek_qpn(datagram->data, datagram->bytes) != QPN_GSI;
	if (!datagram->bad_icrc && !ip_addr_is_multicast(datagram->source))
		v1_learn(v1, datagram, from);
	return true;
}

/* At most @max. Returns whether it has been emptied. */
static bool v1_receive_from(struct v1_link *v1, const struct v1_port *port, int fd, struct datagram *datagram,
			    unsigned max, unsigned *received)
{
	struct mmsghdr message[BATCH];
	struct iovec iov[BATCH];
	int got;

	max = max < BATCH ? max : BATCH;
	for (unsigned i = 0; i < max; i++) {
		iov[i] = (struct iovec){ v1->buffer[i], FRAME_ROOM };
		message[i].msg_hdr = (struct msghdr){ .msg_iov = &iov[i], .msg_iovlen = 1 };
	}
	got = recvmmsg(fd, message, max, MSG_DONTWAIT, NULL);
	for (int i = 0; i < got; i++)
		*received += v1_take(v1, port, v1->buffer[i], message[i].msg_len, &datagram[*received]);
	return got < (int)max;
}

/*
 * The buffers are those of one socket. The next call begins with it again, unless there may be more in it:
 * who floods one does not keep the others from their turn.
 */
static int v1_receive(struct link *link, struct datagram *datagram, unsigned max, unsigned *received)
{
	struct v1_link *v1 = v1_of(link);
	unsigned i, all = v1->ports * V1_SOCKETS;
	bool empty = false;

	*received = 0;
	for (i = 0; i < all && !*received; i++) {
		const unsigned at = v1->next++ % all;
		const struct v1_port *port = &v1->port[at / V1_SOCKETS];

		if (port->fd[at % V1_SOCKETS] >= 0)
			empty = v1_receive_from(v1, port, port->fd[at % V1_SOCKETS], datagram, max, received);
	}
	if (*received && empty)
		v1->next--;
	return 0;
}

/* ---- slots and groups ---- */

static int v1_claim(struct link *link, uint32_t slot)
{
	struct v1_link *v1 = v1_of(link);
	int err = ENOMEM;

	lock_acquire(&v1->lock);
	if (v1->slots < SLOTS_MAX) {
		v1->slot[v1->slots++] = slot;
		v1_renew_filters(v1);
		err = 0;
	}
	lock_release(&v1->lock);
	return err;
}

static struct link_group *v1_find_group(struct v1_link *v1, const struct link_group *group)
{
	for (unsigned i = 0; i < v1->groups; i++)
		if (v1->group[i].interface == group->interface &&
		    !memcmp(v1->group[i].gid, group->gid, 16))
			return &v1->group[i];
	return NULL;
}

static int v1_join(struct link *link, const struct link_group *group)
{
	struct v1_link *v1 = v1_of(link);
	struct v1_port *port;
	int err = ENODEV;

	lock_acquire(&v1->lock);
	port = group->ib_port ? NULL : v1_find(v1, group->interface);
	if (port && v1->groups == GROUPS_MAX)
		err = ENOMEM;
	else if (port && port->fd[V1_GROUPS] < 0)
		err = v1_socket_open(v1, port->interface, V1_GROUPS, &port->fd[V1_GROUPS]);
	else if (port)
		err = 0;
	if (!err) {
		v1->group[v1->groups++] = *group;
		v1_membership(port, group, true);
		v1_renew_filters(v1);
	}
	lock_release(&v1->lock);
	return err;
}

static void v1_leave(struct link *link, const struct link_group *group)
{
	struct v1_link *v1 = v1_of(link);
	struct link_group *joined;
	struct v1_port *port;

	lock_acquire(&v1->lock);
	joined = v1_find_group(v1, group);
	port = v1_find(v1, group->interface);
	if (joined) {
		*joined = v1->group[--v1->groups];
		if (port)
			v1_membership(port, group, false);
		v1_renew_filters(v1);
	}
	if (port && port->fd[V1_GROUPS] >= 0 && !v1_has_groups(v1, port->interface)) {
		close(port->fd[V1_GROUPS]);
		port->fd[V1_GROUPS] = -1;
	}
	lock_release(&v1->lock);
}

/* ---- beginning and end ---- */

static unsigned v1_event_fds(struct link *link, int *fds, unsigned max)
{
	const struct v1_link *v1 = v1_of(link);
	unsigned i, n = 0;

	for (i = 0; i < v1->ports * V1_SOCKETS && n < max; i++)
		if (v1->port[i / V1_SOCKETS].fd[i % V1_SOCKETS] >= 0)
			fds[n++] = v1->port[i / V1_SOCKETS].fd[i % V1_SOCKETS];
	return n;
}

static void v1_abandon(struct link *link)
{
	struct v1_link *v1 = v1_of(link);

	for (unsigned i = 0; i < v1->ports * V1_SOCKETS; i++)
		if (v1->port[i / V1_SOCKETS].fd[i % V1_SOCKETS] >= 0)
			close(v1->port[i / V1_SOCKETS].fd[i % V1_SOCKETS]);
	close(v1->send_fd);
	netlink_abandon(&v1->netlink);
}

static void v1_close(struct link *link)
{
	struct v1_link *v1 = v1_of(link);

	for (unsigned i = 0; i < v1->ports; i++)
		v1_port_close(&v1->port[i]);
	free(v1->port);
	free(v1->buffer);
	close(v1->send_fd);
	netlink_close(&v1->netlink);
	lock_destroy(&v1->lock);
	free(v1);
}

static const struct link_ops v1_ops = {
	.unsealed = true,
	.close = v1_close,
	.prepare = v1_prepare,
	.send = v1_send,
	.receive = v1_receive,
	.event_fds = v1_event_fds,
	.abandon = v1_abandon,
	.claim = v1_claim,
	.join = v1_join,
	.leave = v1_leave,
};

int roce_v1_open(struct link **link, struct counters *counters, uint8_t tag)
{
	struct v1_link *v1 = calloc(1, sizeof(*v1));
	int err;

	if (!v1)
		return ENOMEM;
	v1->buffer = malloc(BATCH * sizeof(*v1->buffer));
	v1->send_fd = v1->buffer ? socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, 0) : -1;
	if (v1->send_fd < 0) {
		err = v1->buffer ? errno : ENOMEM;
		free(v1->buffer);
		free(v1);
		return err;
	}
	lock_init(&v1->lock);
	netlink_open(&v1->netlink);
	v1->link.ops = &v1_ops;
	v1->counters = counters;
	v1->tag = tag;
	*link = &v1->link;
	return 0;
}
