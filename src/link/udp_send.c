/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sending: datagrams of one sender leave by sendmmsg, runs of equal segments as one message with
 * UDP_SEGMENT.
 *
 * A sender is bound to the source address of its first datagram, and has its hop limit. Others
 * leave by it too, with theirs in control messages, which cost some 100 ns.
 *
 * The ICRC covers the IPv4 identification, which the kernel writes. On an unconnected socket with
 * IP_MTU_DISCOVER set to DO it is 0, and k in segment k of a run, with DF set. So a run that the
 * kernel refuses (older ones do on an interface without checksum offload) goes back to the
 * caller, which seals its packets anew, and the destination gets no further runs.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/call.h"
#include "base/inline.h"
#include "base/ip_addr.h"
#include "link/udp_internal.h"
#include "platform/clock.h"
#include "platform/fail.h"
#include "tracepoint/drop.h"

#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

#define MESSAGES_MAX	16u
#define PORT_FIRST	0xc000u
#define PORT_COUNT	(UDP_SLOT_PORTS - PORT_FIRST)
#define PORT_TRIES	64u
#define REPORTING_TRIES	4

struct message {
	union {
		struct sockaddr_in ipv4;
		struct sockaddr_in6 ipv6;
	} name;
	struct iovec iov;
	union {
		struct cmsghdr align;
		uint8_t bytes[192];
	} control;
};

/* ---- senders ---- */

/*
 * These sockets receive nothing: a filter drops all datagrams to them before they are queued.
 * (A classic BPF program of one instruction: return 0 bytes.)
 */
int udp_set_send_options(int fd, enum udp_family family, struct udp_sender *sender)
{
	struct sock_filter drop = BPF_STMT(BPF_RET | BPF_K, 0);
	struct sock_fprog program = { .len = 1, .filter = &drop };

	(void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
	if (family == UDP_IPV6) {
		if (udp_set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, sender->hop_limit))
			sender->hop_limit = 0;
		return udp_set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO);
	}
	if (udp_set(fd, IPPROTO_IP, IP_TTL, sender->hop_limit))
		sender->hop_limit = 0;
	return udp_set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO);
}

/* Any free port from PORT_FIRST on, below those of slots. An address that is not ours: any address then. */
int udp_bind_sender(int fd, enum udp_family family, struct udp_sender *sender)
{
	unsigned tries;
	int err = EADDRINUSE;

	for (tries = 0; tries < PORT_TRIES; tries++) {
		sender->port = (uint16_t)(PORT_FIRST + random_u64() % PORT_COUNT);
		err = udp_bind_to(fd, family, sender->source, sender->port);
		if (err == EADDRNOTAVAIL) {
			memset(sender->source, 0, sizeof(sender->source));
			err = udp_bind_to(fd, family, sender->source, sender->port);
		}
		if (err != EADDRINUSE)
			break;
	}
	return err;
}

/* A packet with hop limit 0 does not leave a socket: 1 is the nearest. */
static uint8_t hop_limit_of(const struct datagram *datagram)
{
	return datagram->hop_limit ? datagram->hop_limit : 1;
}

/* No two links have had the same epoch, wherever they are in memory. 0 is none. */
void udp_senders_changed(struct udp_link *udp)
{
	static _Atomic uint32_t epochs;
	uint32_t epoch = 0;

	while (!epoch)
		epoch = atomic_fetch_add(&epochs, 1) + 1;
	/* E1: behind the change; pairs with E2 in engine/tx.c */
	atomic_store_explicit(&udp->link.epoch, epoch, memory_order_release);
}

static int open_sender_locked(struct udp_link *udp, struct udp_sender *sender, const struct datagram *datagram)
{
	enum udp_family family = udp_family_of(datagram->destination);
	int err, fd = udp_socket(family);

	if (fd < 0)
		return errno;
	memset(sender->source, 0, sizeof(sender->source));
	/* Bound to a link-local address a socket can use the interface of its scope alone. */
	if (udp_family_of(datagram->source) == family &&
	    (ip_addr_is_ipv4(datagram->source) || !ip_addr_is_link_local_ipv6(datagram->source)))
		memcpy(sender->source, datagram->source, sizeof(sender->source));
	sender->hop_limit = hop_limit_of(datagram);
	err = udp_set_send_options(fd, family, sender);
	if (!err)
		err = udp_bind_sender(fd, family, sender);
	if (err) {
		close(fd);
		return err;
	}
	/* S1: publishes port, source and hop limit; pairs with S2 in sender_for */
	atomic_store_explicit(&sender->fd, fd, memory_order_release);
	udp_senders_changed(udp);
	return 0;
}

/* Spreads get classes in the order they come up, so that the first UDP_CLASSES are kept apart. */
static unsigned class_for(struct udp_link *udp, uint32_t spread)
{
	_Atomic uint8_t *entry = &udp->class_of[spread % UDP_SPREADS];
	uint8_t class = atomic_load_explicit(entry, memory_order_relaxed), none = 0;

	if (!class) {
		class = (uint8_t)(atomic_fetch_add(&udp->next_class, 1) % UDP_CLASSES + 1);
		if (!atomic_compare_exchange_strong(entry, &none, class))
			class = none;
	}
	return class - 1u;
}

/* NULL: of no slot, or the kernel gave us no socket. */
static struct udp_sender *slot_sender_of(struct udp_link *udp, const struct datagram *datagram)
{
	struct udp_sender *sender = udp->slot_sender[udp_family_of(datagram->destination)];
	unsigned i;

	for (i = 0; datagram->from_slot && i < UDP_SLOTS; i++)
		/* S2: pairs with S1 in open_slot */
		if (atomic_load_explicit(&sender[i].fd, memory_order_acquire) >= 0 &&
		    sender[i].port == udp_slot_port(datagram->from_slot))
			return &sender[i];
	return NULL;
}

static struct udp_sender *sender_place(struct udp_link *udp, const struct datagram *datagram)
{
	enum udp_family family = udp_family_of(datagram->destination);
	struct udp_sender *sender = slot_sender_of(udp, datagram);

	if (sender)
		return sender;
	return &udp->sender[family][class_for(udp, datagram->spread)];
}

/*
 * Of a slot's sender, which is opened before any datagram is known. Up to now all of its datagrams say their hop
 * limit themselves, so none of another thread leaves with this one.
 */
static APART void settle_hop_limit(struct udp_link *udp, struct udp_sender *sender,
				   const struct datagram *datagram)
{
	bool ipv6 = udp_family_of(datagram->destination) == UDP_IPV6;
	uint8_t hop_limit = hop_limit_of(datagram);

	lock_acquire(&udp->lock);
	if (sender->unsettled && !udp_set(sender->fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
					  ipv6 ? IPV6_UNICAST_HOPS : IP_TTL, hop_limit))
		/* H1: the socket has it; pairs with H2 in has_hop_limit */
		atomic_store_explicit(&sender->hop_limit, hop_limit, memory_order_release);
	sender->unsettled = false;
	udp_senders_changed(udp);
	lock_release(&udp->lock);
}

int udp_open_sender(struct link *link, const struct datagram *datagram)
{
	struct udp_link *udp = udp_of(link);
	struct udp_sender *sender = sender_place(udp, datagram);
	int err;

	/* S2: pairs with S1 in open_sender_locked and open_slot */
	if (atomic_load_explicit(&sender->fd, memory_order_acquire) >= 0)
		return 0;
	call_shield();
	lock_acquire(&udp->lock);
	err = sender->fd >= 0 ? 0 : open_sender_locked(udp, sender, datagram);
	lock_release(&udp->lock);
	return err;
}

/* Descriptors are used up. Ports keep flows apart; another one carries them as well. */
static struct udp_sender *any_sender(struct udp_link *udp, enum udp_family family)
{
	unsigned class;

	for (class = 0; class < UDP_CLASSES; class++)
		/* S2: pairs with S1 in open_sender_locked */
		if (atomic_load_explicit(&udp->sender[family][class].fd, memory_order_acquire) >= 0)
			return &udp->sender[family][class];
	return NULL;
}

/* NULL: it cannot be opened. */
static APART struct udp_sender *sender_for(struct udp_link *udp, const struct datagram *datagram)
{
	enum udp_family family = udp_family_of(datagram->destination);
	struct udp_sender *sender = sender_place(udp, datagram);
	int err;

	if (datagram->errors_wanted)
		return udp->reporting[family].fd >= 0 ? &udp->reporting[family] : NULL;
	/* S2: pairs with S1 in open_sender_locked */
	if (atomic_load_explicit(&sender->fd, memory_order_acquire) >= 0)
		return sender;
	err = udp_open_sender(&udp->link, datagram);
	if (!err)
		return sender;
	/* The next datagram may have better luck. */
	udp_senders_changed(udp);
	sender = err == EMFILE || err == ENFILE ? any_sender(udp, family) : NULL;
	if (!sender)
		explain("packets are lost: cannot open a socket to send from: %s%s", strerror(err),
			err == EMFILE ? "; ulimit -n 1024 (RLIMIT_NOFILE)" : "");
	return sender;
}

/*
 * The one that the datagram was prepared for: its ICRC covers that port. Another could be had by now where
 * descriptors were used up then. A slot may have been given up since, and its place be another's.
 */
static struct udp_sender *sender_of(struct udp_link *udp, const struct datagram *datagram)
{
	struct udp_sender *sender = (struct udp_sender *)((uint8_t *)udp + datagram->sender);

	/* S2: pairs with S1 in open_sender_locked and open_slot */
	if (__builtin_expect(datagram->sender && atomic_load_explicit(&sender->fd, memory_order_acquire) >= 0 &&
			     sender->port == datagram->source_port, 1))
		return sender;
	return sender_for(udp, datagram);
}

/* ---- destinations that take no GSO ---- */

static unsigned refusal_place(const uint8_t address[16])
{
	return ip_addr_hash(address) % UDP_REFUSALS;
}

static bool takes_gso(struct udp_link *udp, const uint8_t destination[16])
{
	bool refused;

	if (!udp->gso)
		return false;
	if (!atomic_load_explicit(&udp->refusal_count, memory_order_relaxed))
		return true;
	lock_acquire(&udp->lock);
	refused = !memcmp(udp->refusal[refusal_place(destination)], destination, 16);
	lock_release(&udp->lock);
	return !refused;
}

static APART void remember_refusal(struct udp_link *udp, const uint8_t destination[16])
{
	lock_acquire(&udp->lock);
	memcpy(udp->refusal[refusal_place(destination)], destination, 16);
	atomic_fetch_add_explicit(&udp->refusal_count, 1, memory_order_relaxed);
	udp_senders_changed(udp);
	lock_release(&udp->lock);
	log_info("the route to a destination has no segmentation offload (UDP GSO): packets go one "
		 "by one");
}

/* ---- one message ---- */

static void put_control(struct msghdr *header, int level, int type, const void *data, size_t bytes)
{
	struct cmsghdr *control =
		(struct cmsghdr *)((uint8_t *)header->msg_control + header->msg_controllen);

	memset(control, 0, CMSG_SPACE(bytes));
	control->cmsg_level = level;
	control->cmsg_type = type;
	control->cmsg_len = CMSG_LEN(bytes);
	memcpy(CMSG_DATA(control), data, bytes);
	header->msg_controllen += CMSG_SPACE(bytes);
}

/* The kernel gives packets of an unbound socket to 127.0.0.1 or ::1 that source: no need to name it. */
static bool has_loopback_source(const struct udp_sender *sender, const struct datagram *datagram)
{
	static const uint8_t none[16], ipv4[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 }, ipv6[16] = { [15] = 1 };

	return !memcmp(datagram->source, datagram->destination, 16) && !memcmp(sender->source, none, 16) &&
	       (!memcmp(datagram->source, ipv4, 16) || !memcmp(datagram->source, ipv6, 16));
}

/* Other destinations take the machine's routes, even if the sender names an interface. */
static uint32_t interface_of(const struct datagram *datagram)
{
	return ip_addr_is_multicast(datagram->destination) || ip_addr_is_link_local(datagram->destination) ?
	       datagram->interface : 0;
}

/* The socket does not have that source already. */
static bool names_source(const struct udp_sender *sender, const struct datagram *datagram, uint32_t interface)
{
	return interface ||
	       (memcmp(sender->source, datagram->source, 16) && !has_loopback_source(sender, datagram));
}

static bool has_hop_limit(const struct udp_sender *sender, const struct datagram *datagram)
{
	/* H2 */
	return hop_limit_of(datagram) == atomic_load_explicit(&sender->hop_limit, memory_order_acquire) &&
	       !ip_addr_is_multicast(datagram->destination);
}

unsigned udp_prepare(struct link *link, struct datagram *datagram)
{
	struct udp_link *udp = udp_of(link);
	struct udp_sender *sender = sender_for(udp, datagram);

	datagram->sender = sender ? (uint32_t)((uint8_t *)sender - (uint8_t *)udp) : 0;
	datagram->source_port = sender ? sender->port : PORT_FIRST;
	datagram->plain = sender && udp_family_of(datagram->destination) == UDP_IPV4 && !datagram->traffic_class &&
			  !names_source(sender, datagram, interface_of(datagram)) &&
			  has_hop_limit(sender, datagram);
	return sender && takes_gso(udp, datagram->destination) ? LINK_SEGMENTS_MAX : 1;
}

static void name_ipv4(struct message *message, struct msghdr *header, const struct datagram *datagram)
{
	message->name.ipv4 = (struct sockaddr_in){ .sin_family = AF_INET,
						   .sin_port = htons(ROCE_UDP_PORT) };
	memcpy(&message->name.ipv4.sin_addr, datagram->destination + 12, 4);
	header->msg_namelen = sizeof(message->name.ipv4);
}

static APART void address_ipv4(struct message *message, struct msghdr *header,
			       const struct udp_sender *sender, const struct datagram *datagram)
{
	struct in_pktinfo info = { .ipi_ifindex = (int)interface_of(datagram) };
	int traffic_class = datagram->traffic_class, hop_limit = hop_limit_of(datagram);

	name_ipv4(message, header, datagram);
	memcpy(&info.ipi_spec_dst, datagram->source + 12, 4);
	if (names_source(sender, datagram, interface_of(datagram)))
		put_control(header, IPPROTO_IP, IP_PKTINFO, &info, sizeof(info));
	if (traffic_class)
		put_control(header, IPPROTO_IP, IP_TOS, &traffic_class, sizeof(traffic_class));
	if (!has_hop_limit(sender, datagram))
		put_control(header, IPPROTO_IP, IP_TTL, &hop_limit, sizeof(hop_limit));
}

static APART void address_ipv6(struct message *message, struct msghdr *header,
			       const struct udp_sender *sender, const struct datagram *datagram)
{
	uint32_t interface = interface_of(datagram);
	struct in6_pktinfo info = { .ipi6_ifindex = interface };
	int traffic_class = datagram->traffic_class, hop_limit = hop_limit_of(datagram);
	uint32_t flow_label = htonl(datagram->flow_label & 0xfffff);

	message->name.ipv6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
						    .sin6_port = htons(ROCE_UDP_PORT),
						    .sin6_scope_id = interface };
	memcpy(&message->name.ipv6.sin6_addr, datagram->destination, 16);
	header->msg_namelen = sizeof(message->name.ipv6);
	memcpy(&info.ipi6_addr, datagram->source, 16);
	if (names_source(sender, datagram, interface))
		put_control(header, IPPROTO_IPV6, IPV6_PKTINFO, &info, sizeof(info));
	if (flow_label)
		put_control(header, IPPROTO_IPV6, IPV6_FLOWINFO, &flow_label, sizeof(flow_label));
	if (traffic_class)
		put_control(header, IPPROTO_IPV6, IPV6_TCLASS, &traffic_class,
			    sizeof(traffic_class));
	if (!has_hop_limit(sender, datagram))
		put_control(header, IPPROTO_IPV6, IPV6_HOPLIMIT, &hop_limit, sizeof(hop_limit));
}

static void udp_send_build(struct message *message, struct msghdr *header,
			   const struct udp_sender *sender, const struct datagram *datagram)
{
	uint16_t segment_bytes = (uint16_t)datagram->segment_bytes;

	message->iov = (struct iovec){ .iov_base = datagram->data, .iov_len = datagram->bytes };
	*header = (struct msghdr){ .msg_name = &message->name, .msg_iov = &message->iov,
				   .msg_iovlen = 1, .msg_control = message->control.bytes };
	if (datagram->plain)
		name_ipv4(message, header, datagram);
	else if (udp_family_of(datagram->destination) == UDP_IPV4)
		address_ipv4(message, header, sender, datagram);
	else
		address_ipv6(message, header, sender, datagram);
	if (segment_bytes && segment_bytes < datagram->bytes)
		put_control(header, IPPROTO_UDP, UDP_SEGMENT, &segment_bytes,
			    sizeof(segment_bytes));
}

/* ---- refusals ---- */

static bool is_gso_refusal(const struct datagram *datagram, int err)
{
	return datagram->segment_bytes && datagram->segment_bytes < datagram->bytes &&
	       (err == EIO || err == EINVAL || err == EOPNOTSUPP || err == ENOPROTOOPT);
}

/* The kernel refused this datagram with @err. */
static APART void udp_send_refused(struct udp_link *udp, const struct datagram *datagram, int err)
{
	unsigned lost = link_segments(datagram);

	drop_count(udp->counters, DROP_LINK, lost);
	log_debug("%u packets dropped, the kernel refused to send them: %s", lost, strerror(err));
}

/* ---- many messages ---- */

/* How many from @datagram on leave by one socket; at most MESSAGES_MAX. */
static unsigned same_sender(const struct datagram *datagram, unsigned count)
{
	unsigned n = 1;

	while (n < count && n < MESSAGES_MAX && datagram[n].sender && datagram[n].sender == datagram->sender &&
	       datagram[n].source_port == datagram->source_port)
		n++;
	return n;
}

/*
 * One message; sendto() is cheapest where no control message is needed. Neither is a cancellation point
 * (base/call.h). -1: errno.
 */
static int udp_send_message(int fd, const struct msghdr *header)
{
	const struct iovec *iov = header->msg_iov;
	int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
	ssize_t bytes;

	if (header->msg_controllen)
		bytes = syscall(SYS_sendmsg, fd, header, flags);
	else
		bytes = syscall(SYS_sendto, fd, iov->iov_base, iov->iov_len, flags, header->msg_name,
				header->msg_namelen);
	return bytes < 0 ? -1 : 1;
}

/* Number of datagrams sent, or -1 with errno of the first. */
static int udp_send_some(const struct udp_sender *sender, const struct datagram *datagram,
			 unsigned count)
{
	struct message message[MESSAGES_MAX];
	struct mmsghdr header[MESSAGES_MAX];
	unsigned i;

	if (fail_now(FAIL_SENDMSG))
		return -1;
	for (i = 0; i < count; i++)
		udp_send_build(&message[i], &header[i].msg_hdr, sender, &datagram[i]);
	if (count > 1)
		return (int)syscall(SYS_sendmmsg, sender->fd, header, count, MSG_DONTWAIT | MSG_NOSIGNAL);
	return udp_send_message(sender->fd, &header[0].msg_hdr);
}

static bool is_full(int err)
{
	return err == EAGAIN || err == EWOULDBLOCK || err == ENOBUFS || err == ENOMEM;
}

/* An error may be that of an earlier datagram, come back by ICMP: the socket tells it once. */
static APART int send_reporting(struct udp_link *udp, struct datagram *datagram, unsigned *sent)
{
	struct udp_sender *sender = sender_for(udp, datagram);
	int tries, err = ENOTCONN;

	*sent = 1;
	for (tries = 0; sender && tries < REPORTING_TRIES; tries++) {
		if (udp_send_some(sender, datagram, 1) > 0)
			return 0;
		err = errno;
		if (is_full(err))
			break;
	}
	*sent = 0;
	if (!is_full(err))
		udp_send_refused(udp, datagram, err);
	return is_full(err) ? EAGAIN : err;
}

/* Rare, and the packets are gone: the other program has them. */
static void note_taken(struct udp_link *udp, const struct datagram *datagram, unsigned count)
{
	enum udp_family family = udp_family_of(datagram->destination);
	unsigned i;

	if (__builtin_expect(!atomic_load_explicit(&udp->addresses[family].taken_count, memory_order_relaxed), 1))
		return;
	for (i = 0; i < count; i++)
		if (udp_address_is_taken(&udp->link, datagram[i].destination))
			counter_add(udp->counters, COUNTER_TX_TAKEN, link_segments(&datagram[i]));
}

FLAT int udp_send(struct link *link, struct datagram *datagram, unsigned count, unsigned *sent)
{
	struct udp_link *udp = udp_of(link);
	unsigned done = 0;

	if (count && datagram->errors_wanted)
		return send_reporting(udp, datagram, sent);

	while (done < count) {
		unsigned n = same_sender(datagram + done, count - done);
		struct udp_sender *sender = sender_of(udp, datagram + done);
		int some = -1, err = ENOTCONN;

		if (sender) {
			if (__builtin_expect(atomic_load_explicit(&sender->unsettled, memory_order_relaxed), 0))
				settle_hop_limit(udp, sender, datagram + done);
			some = udp_send_some(sender, datagram + done, n);
			err = errno;
		}
		if (some > 0) {
			note_taken(udp, &datagram[done], (unsigned)some);
			done += (unsigned)some;
		} else if (sender && is_full(err)) {
			*sent = done;
			return EAGAIN;
		} else if (sender && is_gso_refusal(&datagram[done], err)) {
			remember_refusal(udp, datagram[done].destination);
			*sent = done;
			return EOPNOTSUPP;
		} else if (!sender || err != EINTR) {
			udp_send_refused(udp, &datagram[done], err);
			done++;
		}
	}
	*sent = done;
	return 0;
}
