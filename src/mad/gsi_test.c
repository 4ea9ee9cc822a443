/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP1 of one process, against plain sockets at the other end of a veth pair: what MADs look like on
 * the wire, which packets are taken, what comes back by ICMP; ports, routes; a QP that gives up.
 *
 * Needs network namespaces (root, or unprivileged user namespaces); skipped loudly otherwise.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "engine/arrival.h"
#include "mad/fake_consumer_test.h"
#include "mad/gsi.h"
#include "mad/qp1.h"
#include "device/internal.h"
#include "platform/netdev.h"
#include "platform/netns_test.h"
#include "wire/icrc.h"
#include "wire/packet.h"

#define WIRE_BYTES	280u		/* BTH, DETH, MAD, ICRC */
#define SOME_CLASS	0x09		/* of a vendor */

static bool real_root;
static const uint8_t any[16];
static int here_ns, there_ns;		/* ours; that of the other end */
static struct mad_agent *consumer;
static struct gsi *gsi;			/* open as long as that */
static struct hca *hca;

/* What the consumer was called with. */
static struct heard {
	_Atomic unsigned received, unreachable, failed;
	struct mad_address address;
	uint8_t mad[MAD_BYTES];
	uint64_t at_ns;
	uint32_t qpn;
} heard, smi_heard;
/* What was heard so far has been read. (Behind a socket ThreadSanitizer does not see what comes first.) */
static _Atomic unsigned turn;

static enum drop received(void *owner, const struct mad_address *from, const struct mad_header *header,
			  const uint8_t mad[MAD_BYTES], uint64_t now_ns)
{
	struct heard *by = owner;

	(void)atomic_load(&turn);
	by->address = *from;
	memcpy(by->mad, mad, MAD_BYTES);
	by->received++;
	return DROP_NONE;
}

static void unreachable(void *owner, const struct mad_address *to, const struct mad_header *header,
			const uint8_t mad[MAD_BYTES], uint64_t now_ns)
{
	(void)atomic_load(&turn);
	heard.address = *to;
	memcpy(heard.mad, mad, MAD_BYTES);
	heard.at_ns = clock_now_ns();
	heard.unreachable++;
}

static void qp_failed(void *owner, uint32_t qpn, uint64_t now_ns)
{
	heard.qpn = qpn;
	heard.failed++;
}

static const struct mad_ops ops = { .received = received, .unreachable = unreachable, .tick = ignore_tick,
				    .qp_failed = qp_failed };
static const struct mad_key key = { .port = MAD_ANY_PORT, .qpn = QPN_GSI, .class = SOME_CLASS,
				    .class_version = MAD_ANY_VERSION, .methods = MAD_ALL_METHODS };

static const uint8_t *address_of(const char *text)
{
	static uint8_t ring[8][16];
	static unsigned next;
	uint8_t *address = ring[next++ % 8];

	memset(address, 0, 16);
	if (strchr(text, ':')) {
		assert_int_equal(inet_pton(AF_INET6, text, address), 1);
	} else {
		memset(address + 10, 0xff, 2);
		assert_int_equal(inet_pton(AF_INET, text, address + 12), 1);
	}
	return address;
}

static bool shell(const char *command)
{
	return !system(command);
}

static int open_ns(void)
{
	return open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
}

/* va (10.9.0.1, fd09::1) here, vb (10.9.0.2, fd09::2) there. */
static bool make_pair(void)
{
	char command[128];
	bool made;

	if (!netns_renew())
		return false;
	there_ns = open_ns();
	if (!netns_renew())
		return false;
	here_ns = open_ns();
	snprintf(command, sizeof(command), "ip link add va type veth peer name vb netns /proc/%d/fd/%d",
		 (int)getpid(), there_ns);
	made = shell(command) && !setns(there_ns, CLONE_NEWNET) &&
	       shell("ip address add 10.9.0.2/24 dev vb; ip address add fd09::2/64 dev vb nodad; "
		     "ip link set vb up") && !setns(here_ns, CLONE_NEWNET) &&
	       shell("ip address add 10.9.0.1/24 dev va; ip address add fd09::1/64 dev va nodad; "
		     "ip link set va up");
	return made && comes_true(netdev_is_local(NULL, address_of("fd09::1"), 0));
}

static int setup(void **state)
{
	memset(&heard, 0, sizeof(heard));
	if (!make_pair() || hca_get(&hca) || mad_open(&hca->qp1, &key, &ops, &heard, &consumer))
		return -1;
	gsi = mad_gsi(consumer);
	return 0;
}

static int teardown(void **state)
{
	mad_close(consumer);
	hca_put(hca);
	close(here_ns);
	close(there_ns);
	return 0;
}

/* A socket of the other end, bound to @port of any address. */
static int socket_there(bool ipv6, uint16_t port)
{
	struct sockaddr_in6 name6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	struct sockaddr_in name4 = { .sin_family = AF_INET, .sin_port = htons(port) };
	int fd, yes = 1;

	assert_int_equal(setns(there_ns, CLONE_NEWNET), 0);
	fd = socket(ipv6 ? AF_INET6 : AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
	assert_int_equal(bind(fd, ipv6 ? (struct sockaddr *)&name6 : (struct sockaddr *)&name4,
			      ipv6 ? sizeof(name6) : sizeof(name4)), 0);
	yes = IP_PMTUDISC_DO;
	setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &yes, sizeof(yes));
	assert_int_equal(setns(here_ns, CLONE_NEWNET), 0);
	return fd;
}

static struct mad_address way(const char *local, const char *remote)
{
	struct mad_address address = { 0 };

	memcpy(address.local, address_of(local), 16);
	memcpy(address.remote, address_of(remote), 16);
	return address;
}

static void make_mad(uint8_t mad[MAD_BYTES], uint8_t seed)
{
	unsigned i;

	turn++;
	for (i = 0; i < MAD_BYTES; i++)
		mad[i] = (uint8_t)(seed + i * 7);
	mad[0] = MAD_BASE_VERSION;
	mad[1] = SOME_CLASS;
}

static uint64_t counted(enum counter counter)
{
	return counter_get(hca->engine.counters, counter);
}

/* ---- on the wire ---- */

static void check_on_the_wire(int fd, const struct mad_address *to, const uint8_t mad[MAD_BYTES],
			      uint32_t *psn)
{
	/* As rxe fills in BTH and DETH (tests/golden), but for the PSN. */
	static const uint8_t head[20] = { 0x64, 0, 0xff, 0xff, 0, 0, 0, 1, 0x80, 0, 0, 0,
					  0x80, 1, 0, 0, 0, 0, 0, 1 };
	bool ipv6 = !ip_addr_is_ipv4(to->remote);
	struct icrc_header header = { .ipv6 = ipv6, .destination_port = 4791,
				      .dont_fragment = true };
	struct sockaddr_in6 from = { 0 };
	socklen_t from_bytes = sizeof(from);
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	uint8_t wire[512];

	assert_int_equal(poll(&poll_fd, 1, 2000), 1);
	assert_int_equal(recvfrom(fd, wire, sizeof(wire), 0, (struct sockaddr *)&from, &from_bytes),
			 WIRE_BYTES);
	assert_memory_equal(wire, head, 9);
	assert_memory_equal(wire + 12, head + 12, 8);
	assert_memory_equal(wire + 20, mad, MAD_BYTES);
	*psn = get_be24(wire + 9);
	memcpy(header.source, to->local + (ipv6 ? 0 : 12), ipv6 ? 16 : 4);
	memcpy(header.destination, to->remote + (ipv6 ? 0 : 12), ipv6 ? 16 : 4);
	header.source_port = ntohs(from.sin6_port);
	assert_in_range(header.source_port, 0xc000, 0xffff);
	assert_int_equal(icrc_check(&header, wire, WIRE_BYTES), ICRC_GOOD);
}

static void a_mad_leaves_as_rxe_sends_it(void **state)
{
	struct mad_address to[2] = { way("10.9.0.1", "10.9.0.2"), way("fd09::1", "fd09::2") };
	uint8_t mad[MAD_BYTES];
	uint32_t psn = 0, last;
	unsigned f, i;

	for (f = 0; f < 2; f++) {
		int fd = socket_there(f, 4791);

		for (i = 0; i < 5; i++) {
			make_mad(mad, (uint8_t)i);
			last = psn;
			assert_int_equal(gsi_send(gsi, &to[f], mad), 0);
			check_on_the_wire(fd, &to[f], mad, &psn);
			if (i)
				assert_int_equal(psn, (last + 1) & 0xffffff);
		}
		close(fd);
	}
	assert_int_equal(counted(COUNTER_TX_MAD), 10);
}

struct wire {
	uint8_t opcode;
	uint32_t qkey;
	uint16_t pkey;
	size_t bytes;			/* of payload */
	bool damaged;
	bool to_smi;			/* QP0, not QP1 */
};

static void send_there(int fd, bool ipv6, const struct wire *wire, const uint8_t *mad)
{
	struct sockaddr_in6 to6 = { .sin6_family = AF_INET6, .sin6_port = htons(4791) };
	struct sockaddr_in to4 = { .sin_family = AF_INET, .sin_port = htons(4791) };
	struct icrc_header header = { .ipv6 = ipv6, .source_port = 0xc111, .destination_port = 4791,
				      .dont_fragment = true };
	struct packet packet = { .op = opcode_get(wire->opcode), .pkey = wire->pkey, .dest_qpn = !wire->to_smi,
				 .psn = 99, .deth = { .qkey = wire->qkey, .source_qpn = 1 },
				 .payload_bytes = wire->bytes };
	uint8_t bytes[512] = { 0 };
	size_t length = packet_write_headers(&packet, bytes);

	memcpy(bytes + length, mad, wire->bytes < MAD_BYTES ? wire->bytes : MAD_BYTES);
	length += wire->bytes;
	memcpy(header.source, address_of(ipv6 ? "fd09::2" : "10.9.0.2") + (ipv6 ? 0 : 12), ipv6 ? 16 : 4);
	memcpy(header.destination, address_of(ipv6 ? "fd09::1" : "10.9.0.1") + (ipv6 ? 0 : 12),
	       ipv6 ? 16 : 4);
	icrc_seal(&header, bytes, length);
	bytes[length] ^= wire->damaged;
	memcpy(&to6.sin6_addr, address_of("fd09::1"), 16);
	memcpy(&to4.sin_addr, address_of("10.9.0.1") + 12, 4);
	assert_int_equal(sendto(fd, bytes, length + ICRC_BYTES, 0,
				ipv6 ? (struct sockaddr *)&to6 : (struct sockaddr *)&to4,
				ipv6 ? sizeof(to6) : sizeof(to4)), length + ICRC_BYTES);
}

static void what_is_no_mad_for_qp1_is_counted_and_dropped(void **state)
{
	static const struct {
		struct wire wire;
		enum counter counter;
	} bad[] = {
		{ { 0x64, 0x80010001, 0xffff, 256, false }, COUNTER_RX_QKEY },
		{ { 0x64, QKEY_GSI, 0xffff, 252, false }, COUNTER_RX_MAD_MALFORMED },
		{ { 0x64, QKEY_GSI, 0xffff, 260, false }, COUNTER_RX_MAD_MALFORMED },
		{ { 0x65, QKEY_GSI, 0xffff, 256, false }, COUNTER_RX_MAD_MALFORMED },
		{ { 0x04, QKEY_GSI, 0xffff, 256, false }, COUNTER_RX_MAD_MALFORMED },
		{ { 0x64, QKEY_GSI, 0x1234, 256, false }, COUNTER_RX_PKEY },
		{ { 0x64, QKEY_GSI, 0xffff, 256, true }, COUNTER_RX_ICRC },
	};
	static const struct wire good = { 0x64, QKEY_GSI, 0xffff, 256, false };
	unsigned i, f, got = 0;
	uint8_t mad[MAD_BYTES];

	for (f = 0; f < 2; f++) {
		int fd = socket_there(f, 0xc111);

		for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
			uint64_t before = counted(bad[i].counter);

			make_mad(mad, (uint8_t)i);
			send_there(fd, f, &bad[i].wire, mad);
			send_there(fd, f, &good, mad);
			assert_true(comes(&heard.received, ++got));
			assert_int_equal(counted(bad[i].counter), before + 1);
			assert_memory_equal(heard.mad, mad, MAD_BYTES);
			assert_memory_equal(heard.address.remote,
					    address_of(f ? "fd09::2" : "10.9.0.2"), 16);
			assert_memory_equal(heard.address.local,
					    address_of(f ? "fd09::1" : "10.9.0.1"), 16);
		}
		close(fd);
	}
	assert_int_equal(counted(COUNTER_RX_MAD), got);
}

/* ---- P_Keys by the row of the port's table ---- */

#define IB_PORT	IB_WAY_PORT(1, 2)

static struct net_ib_port ib_now;
static struct packet ib_sent;

static bool look(void *owner, uint16_t port, struct net_ib_port *now)
{
	*now = ib_now;
	return port == IB_PORT;
}

static unsigned prepare(struct link *link, struct datagram *datagram)
{
	return 1;
}

static int send_one(struct link *link, struct datagram *datagram, unsigned count, unsigned *sent)
{
	assert_int_equal(packet_parse(datagram->data, datagram->bytes - ICRC_BYTES, &ib_sent), PARSE_OK);
	*sent = 1;
	return 0;
}

static const struct link_ops ib_link_ops = { .unsealed = true, .prepare = prepare, .send = send_one };
static struct link ib_link = { .ops = &ib_link_ops };

static enum drop comes_by_lid(uint16_t pkey) UNCHECKED_LOCKS
{
	uint8_t mad[MAD_BYTES];
	struct datagram datagram = { .ib = { .port = IB_PORT, .lid = 9 } };
	struct arrival arrival = {
		.datagram = &datagram,
		.packet = { .op = opcode_get(OPCODE_UD_SEND_ONLY), .pkey = pkey, .dest_qpn = QPN_GSI,
			    .deth = { .qkey = QKEY_GSI, .source_qpn = QPN_GSI }, .payload = mad,
			    .payload_bytes = MAD_BYTES },
	};
	enum drop why;

	make_mad(mad, 1);
	lock_acquire(&hca->engine.progress);
	why = qp1_receive(&hca->qp1, &arrival, clock_now_ns());
	lock_release(&hca->engine.progress);
	return why;
}

static void a_mad_by_lid_has_the_pkey_of_its_row(void **state)
{
	static const struct {
		uint16_t pkey;
		int row;		/* -1: none lets it in */
	} arrivals[] = {
		{ 0x8005, 2 }, { 0x0005, 2 }, { 0x8006, 3 }, { 0x0006, -1 }, { 0xffff, 1 }, { 0x7fff, 1 },
		{ 0x8007, -1 }, { 0x8000, -1 }, { 0, -1 },
	};
	struct mad_address to = { .link = ROUTE_IB, .ib = { .port = IB_PORT, .lid = 9 } };
	struct link *links = hca->engine.links[ROUTE_IB];
	typeof(hca->net.maker.look) maker = hca->net.maker.look;
	uint64_t dropped = counted(COUNTER_RX_PKEY);
	uint8_t mad[MAD_BYTES];

	ib_now = (struct net_ib_port){ .pkeys = 5, .pkey = { 0, 0xffff, 0x8005, 0x0006 } };
	hca->net.maker.look = look;
	hca->engine.links[ROUTE_IB] = &ib_link;
	make_mad(mad, 3);
	for (unsigned i = 0; i < PKEY_TABLE_SIZE + 2; i++) {
		bool has = i >= 1 && i <= 3;

		to.pkey_index = (uint16_t)i;
		ib_sent.pkey = 0;
		assert_int_equal(gsi_send(gsi, &to, mad), has ? 0 : EINVAL);
		assert_int_equal(ib_sent.pkey, has ? ib_now.pkey[i] : 0);
	}
	for (unsigned i = 0; i < sizeof(arrivals) / sizeof(arrivals[0]); i++) {
		unsigned before = heard.received;

		assert_int_equal(comes_by_lid(arrivals[i].pkey), arrivals[i].row < 0 ? DROP_PKEY : DROP_NONE);
		assert_int_equal(heard.received, before + (arrivals[i].row >= 0));
		dropped += arrivals[i].row < 0;
		if (arrivals[i].row >= 0)
			assert_int_equal(heard.address.pkey_index, arrivals[i].row);
	}
	assert_int_equal(counted(COUNTER_RX_PKEY), dropped);
	ib_now.pkey[2] = 0x8009;		/* the subnet manager has changed the row */
	to.pkey_index = 2;
	assert_int_equal(gsi_send(gsi, &to, mad), 0);
	assert_int_equal(ib_sent.pkey, 0x8009);
	assert_int_equal(comes_by_lid(0x8005), DROP_PKEY);
	hca->net.maker.look = maker;
	hca->engine.links[ROUTE_IB] = links;
}

static void what_comes_to_qp0_is_its_consumers_alone(void **state)
{
	static const struct wire smp = { 0x64, 0, 0x1234, 256, false, true };
	static const struct wire gmp = { 0x64, QKEY_GSI, 0xffff, 256, false, false };
	struct mad_key smi_key = key;
	struct mad_agent *smi;
	int fd = socket_there(false, 0xc111);
	uint8_t mad[MAD_BYTES];

	memset(&smi_heard, 0, sizeof(smi_heard));
	make_mad(mad, 1);
	send_there(fd, false, &smp, mad);
	send_there(fd, false, &gmp, mad);
	assert_true(comes(&heard.received, 1));
	assert_int_equal(counted(COUNTER_RX_QPN), 1);
	smi_key.qpn = QPN_SMI;
	assert_int_equal(mad_open(&hca->qp1, &smi_key, &ops, &smi_heard, &smi), 0);
	make_mad(mad, 2);
	send_there(fd, false, &smp, mad);
	assert_true(comes(&smi_heard.received, 1));
	assert_memory_equal(smi_heard.mad, mad, MAD_BYTES);
	mad[1]++;			/* of another class */
	send_there(fd, false, &smp, mad);
	send_there(fd, false, &gmp, mad);
	mad[1]--;
	send_there(fd, false, &gmp, mad);
	assert_true(comes(&heard.received, 2));
	assert_int_equal(counted(COUNTER_RX_QPN), 2);
	assert_int_equal(counted(COUNTER_RX_MAD_CLASS), 1);
	mad_close(smi);
	send_there(fd, false, &smp, mad);
	send_there(fd, false, &gmp, mad);
	assert_true(comes(&heard.received, 3));
	assert_int_equal(counted(COUNTER_RX_QPN), 3);
	assert_int_equal(smi_heard.received, 1);
	close(fd);
}

/* ---- what comes back ---- */

static void where_nobody_has_the_port_is_known_within_milliseconds(void **state)
{
	struct mad_address to[2] = { way("10.9.0.1", "10.9.0.2"), way("fd09::1", "fd09::2") };
	uint64_t then_ns, took_ns[2] = { TIME_NEVER, TIME_NEVER };
	uint8_t mad[MAD_BYTES];
	unsigned f, i, count = 0;

	for (i = 0; i < 2 || took_ns[0] > 50 * MS || took_ns[1] > 50 * MS; i++)
		for (f = 0; f < 2; f++) {
			assert_in_range(i, 0, SOON_TRIES);
			make_mad(mad, (uint8_t)(i * 2 + f));
			then_ns = clock_now_ns();
			assert_int_equal(gsi_send(gsi, &to[f], mad), 0);
			assert_true(comes(&heard.unreachable, ++count));
			if (heard.at_ns - then_ns < took_ns[f])
				took_ns[f] = heard.at_ns - then_ns;
			assert_memory_equal(heard.mad, mad, MAD_BYTES);
			assert_memory_equal(heard.address.remote, to[f].remote, 16);
			assert_memory_equal(heard.address.local, to[f].local, 16);
		}
	assert_int_equal(counted(COUNTER_RX_MAD_ERROR), count);
	assert_int_equal(counted(COUNTER_TX_LINK), 0);
}

/* A pair that is new may lose its first question of ARP; the kernel asks again after a second. */
static void neighbour_is_known(void)
{
	struct mad_address to = way("10.9.0.1", "10.9.0.2");
	uint8_t mad[MAD_BYTES] = { MAD_BASE_VERSION, SOME_CLASS };

	assert_int_equal(gsi_send(gsi, &to, mad), 0);
	assert_true(comes(&heard.unreachable, 1));
}

/* An error that waits on the socket is not that of the next MAD. */
static void errors_of_one_destination_do_not_disturb_another(void **state)
{
	struct mad_address bad = way("10.9.0.1", "10.9.0.2"), good = way("127.0.0.1", "127.0.0.1");
	uint8_t mad[MAD_BYTES] = { MAD_BASE_VERSION, SOME_CLASS };
	unsigned i;

	neighbour_is_known();
	for (i = 0; i < 200; i++) {
		assert_int_equal(gsi_send(gsi, &bad, mad), 0);
		assert_int_equal(gsi_send(gsi, &good, mad), 0);
		assert_true(comes(&heard.received, i + 1));
	}
	assert_true(comes_true(heard.unreachable > 1));
	assert_int_equal(counted(COUNTER_TX_LINK), 0);
}

static void without_a_route_the_call_says_so(void **state)
{
	struct mad_address to = way("10.9.0.1", "10.77.0.1");
	uint8_t mad[MAD_BYTES] = { 0 };

	assert_int_equal(gsi_send(gsi, &to, mad), ENETUNREACH);
	assert_int_equal(counted(COUNTER_TX_LINK), 1);
	assert_int_equal(counted(COUNTER_TX_MAD), 0);
	to = way("10.9.0.3", "10.9.0.2");
	assert_int_not_equal(gsi_send(gsi, &to, mad), 0);
}

/* Nobody answers to ARP: the kernel says so after its tries, here made short. */
static void a_host_that_is_not_there_is_unreachable(void **state)
{
	struct mad_address to = way("10.9.0.1", "10.9.0.99");
	uint8_t mad[MAD_BYTES] = { MAD_BASE_VERSION, SOME_CLASS, 9 };

	if (!shell("echo 1 2>/dev/null >/proc/sys/net/ipv4/neigh/va/mcast_solicit && "
		   "echo 20 2>/dev/null >/proc/sys/net/ipv4/neigh/va/retrans_time_ms")) {
		print_message("SKIPPED: /proc/sys cannot be written\n");
		skip();
	}
	assert_int_equal(gsi_send(gsi, &to, mad), 0);
	assert_true(comes(&heard.unreachable, 1));
	assert_memory_equal(heard.address.remote, to.remote, 16);
	assert_memory_equal(heard.mad, mad, MAD_BYTES);
}

static void a_second_consumer_is_refused(void **state)
{
	struct mad_agent *second;

	assert_int_equal(mad_open(&hca->qp1, &key, &ops, NULL, &second), EBUSY);
	assert_int_equal(gsi_slot(gsi), hca->engine.qps.slot[0].number);
}

/* ---- ports and routes ---- */

static void ports_are_found_by_their_addresses(void **state)
{
	static const struct {
		const char *address, *device;
	} known[] = {
		{ "10.9.0.1", "vb_va" }, { "fd09::1", "vb_va" }, { "127.0.0.1", "vb_lo" },
		{ "127.5.0.9", "vb_lo" }, { "::1", "vb_lo" },
	};
	struct net_gid port;
	unsigned i;

	for (i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		assert_int_equal(net_find_gid(gsi_net(gsi), address_of(known[i].address), 0, &port), 0);
		assert_string_equal(port.device, known[i].device);
		assert_string_equal(port.interface, known[i].device + 3);
		assert_int_equal(port.interface_index, if_nametoindex(port.interface));
		assert_int_equal(port.port, 1);
		assert_int_equal(port.pkey, 0xffff);
		assert_true(port.gid_index >= 1 && port.guid);
		assert_int_equal(port.active_mtu, strcmp(port.interface, "lo") ? IBV_MTU_1024 :
										IBV_MTU_4096);
		assert_memory_equal(port.address, port.gid.raw, 16);
	}
	assert_int_equal(net_find_gid(gsi_net(gsi), address_of("10.9.0.2"), 0, &port), EADDRNOTAVAIL);
	assert_int_equal(net_find_gid(gsi_net(gsi), address_of("8.8.8.8"), 0, &port), EADDRNOTAVAIL);
	assert_true(net_is_local(gsi_net(gsi), address_of("10.9.0.1"), 0));
	assert_true(net_is_local(gsi_net(gsi), address_of("127.5.0.9"), 0));
	assert_false(net_is_local(gsi_net(gsi), address_of("10.9.0.2"), 0));
}

/* The link-local GID 0 of lo is no address of lo. */
static void a_gid_without_an_address_is_reached_inside_the_host(void **state)
{
	struct mad_address to = { 0 };
	struct net_gid port;
	uint8_t mad[MAD_BYTES] = { MAD_BASE_VERSION, SOME_CLASS };

	assert_int_equal(net_find_gid(gsi_net(gsi), address_of("fe80::200:ff:fe00:0"), 0, &port), 0);
	assert_string_equal(port.device, "vb_lo");
	assert_int_equal(port.gid_index, 0);
	assert_memory_equal(port.address, address_of("127.0.0.1"), 16);
	assert_true(net_is_local(gsi_net(gsi), port.gid.raw, 0));
	assert_int_equal(net_find_route(gsi_net(gsi), any, port.gid.raw, 0, &port), 0);
	memcpy(to.local, port.gid.raw, 16);
	memcpy(to.remote, port.gid.raw, 16);
	assert_int_equal(gsi_send(gsi, &to, mad), 0);
	assert_true(comes(&heard.received, 1));
	assert_memory_equal(heard.address.remote, address_of("127.0.0.1"), 16);
}

static void addresses_of_interfaces_without_a_device_are_told_apart(void **state)
{
	struct net_gid port;
	char text[64];

	setenv("VERBATIM_DEVICES", "lo", 1);
	assert_int_equal(net_find_gid(gsi_net(gsi), address_of("10.9.0.1"), 0, &port), ENODEV);
	assert_int_equal(net_find_route(gsi_net(gsi), any, address_of("10.9.0.2"), 0, &port), ENODEV);
	assert_string_equal(net_describe_devices(NULL, text, sizeof(text)), "vb_lo (127.0.0.1, ::1)");
	assert_int_equal(strlen(net_describe_devices(NULL, text, 8)), 7);
	setenv("VERBATIM_DEVICES", "none", 1);
	assert_int_equal(net_find_gid(gsi_net(gsi), address_of("127.0.0.1"), 0, &port), ENODEV);
	assert_non_null(strstr(net_describe_devices(NULL, text, sizeof(text)), "no device"));
	unsetenv("VERBATIM_DEVICES");
}

static void another_device_stands_in_for_lo(void **state)
{
	struct net_gid port;

	setenv("VERBATIM_DEVICES", "va", 1);
	assert_int_equal(net_find_gid(gsi_net(gsi), address_of("127.0.0.1"), 0, &port), 0);
	assert_string_equal(port.device, "vb_va");
	assert_memory_equal(port.gid.raw, address_of("10.9.0.1"), 16);
	assert_int_equal(net_find_gid(gsi_net(gsi), address_of("::1"), 0, &port), 0);
	assert_memory_equal(port.gid.raw, address_of("fd09::1"), 16);
	assert_int_equal(net_find_gid(gsi_net(gsi), address_of("127.5.0.9"), 0, &port), ENODEV);
	assert_int_equal(net_find_route(gsi_net(gsi), address_of("127.0.0.1"), address_of("10.9.0.1"), 0, &port),
			 0);
	assert_int_equal(net_find_route(gsi_net(gsi), address_of("127.0.0.1"), address_of("10.9.0.2"), 0, &port),
			 ENETUNREACH);
	setenv("VERBATIM_DEVICES", "va,lo", 1);
	assert_int_equal(net_find_gid(gsi_net(gsi), address_of("127.0.0.1"), 0, &port), 0);
	assert_string_equal(port.device, "vb_lo");
	unsetenv("VERBATIM_DEVICES");
}

static void routes_are_those_of_the_kernel(void **state)
{
	struct net_gid port;

	assert_int_equal(net_find_route(gsi_net(gsi), any, address_of("10.9.0.2"), 0, &port), 0);
	assert_string_equal(port.device, "vb_va");
	assert_memory_equal(port.address, address_of("10.9.0.1"), 16);
	assert_int_equal(net_find_route(gsi_net(gsi), any, address_of("fd09::2"), 0, &port), 0);
	assert_memory_equal(port.gid.raw, address_of("fd09::1"), 16);
	/* To ourselves: by the device that has the address, not by lo. */
	assert_int_equal(net_find_route(gsi_net(gsi), any, address_of("10.9.0.1"), 0, &port), 0);
	assert_string_equal(port.device, "vb_va");
	assert_int_equal(net_find_route(gsi_net(gsi), any, address_of("127.0.0.1"), 0, &port), 0);
	assert_string_equal(port.device, "vb_lo");
	assert_int_equal(net_find_route(gsi_net(gsi), any, address_of("10.77.0.1"), 0, &port), ENETUNREACH);
	assert_int_equal(net_find_route(gsi_net(gsi), any, address_of("2001:db8::1"), 0, &port), ENETUNREACH);
	assert_true(shell("ip route add 10.77.0.0/16 via 10.9.0.2"));
	assert_int_equal(net_find_route(gsi_net(gsi), any, address_of("10.77.0.1"), 0, &port), 0);
	assert_memory_equal(port.address, address_of("10.9.0.1"), 16);
	assert_true(shell("ip route add unreachable 10.78.0.0/16"));
	assert_int_equal(net_find_route(gsi_net(gsi), any, address_of("10.78.0.1"), 0, &port), EHOSTUNREACH);
}

static void a_source_is_kept(void **state)
{
	struct net_gid port;

	assert_true(shell("ip address add 10.9.0.5/24 dev va"));
	assert_int_equal(net_find_route(gsi_net(gsi), address_of("10.9.0.5"), address_of("10.9.0.2"), 0, &port),
			 0);
	assert_memory_equal(port.address, address_of("10.9.0.5"), 16);
	assert_int_equal(net_find_route(gsi_net(gsi), address_of("10.9.0.5"), address_of("10.9.0.1"), 0, &port),
			 0);
	assert_memory_equal(port.address, address_of("10.9.0.5"), 16);
	assert_int_equal(net_find_route(gsi_net(gsi), address_of("10.9.0.6"), address_of("10.9.0.2"), 0, &port),
			 EADDRNOTAVAIL);
	assert_int_equal(net_find_route(gsi_net(gsi), address_of("127.0.0.1"), address_of("10.9.0.2"), 0, &port),
			 ENETUNREACH);
	assert_int_equal(net_find_route(gsi_net(gsi), address_of("10.9.0.5"), address_of("fd09::2"), 0, &port),
			 ENETUNREACH);
}

static void link_local_and_multicast_go_by_the_interface(void **state)
{
	uint32_t va = if_nametoindex("va");
	struct net_gid port;
	uint8_t own[16];

	assert_true(shell("ip address add fe80::9:1/64 dev va nodad"));
	assert_int_equal(net_find_route(gsi_net(gsi), any, address_of("fe80::99"), va, &port), 0);
	assert_string_equal(port.device, "vb_va");
	assert_int_equal(port.gid.raw[0], 0xfe);
	memcpy(own, port.gid.raw, 16);
	assert_int_equal(net_find_gid(gsi_net(gsi), own, va, &port), 0);
	assert_int_equal(net_find_gid(gsi_net(gsi), own, if_nametoindex("lo"), &port), EADDRNOTAVAIL);
	assert_int_equal(net_find_route(gsi_net(gsi), own, address_of("fe80::99"), 0, &port), 0);
	assert_int_equal(net_find_route(gsi_net(gsi), any, address_of("ff0e::1"), va, &port), 0);
	assert_string_equal(port.device, "vb_va");
	assert_int_equal(net_find_route(gsi_net(gsi), address_of("10.9.0.1"), address_of("239.1.2.3"), 0, &port),
			 0);
	assert_memory_equal(port.address, address_of("10.9.0.1"), 16);
	assert_int_equal(net_find_route(gsi_net(gsi), any, address_of("239.1.2.3"), 0, &port), ENETUNREACH);
	assert_true(shell("ip route add 224.0.0.0/4 dev va"));
	assert_int_equal(net_find_route(gsi_net(gsi), any, address_of("239.1.2.3"), 0, &port), 0);
	assert_memory_equal(port.address, address_of("10.9.0.1"), 16);
}

/* ---- a QP that gives up ---- */

static void connect_to_nobody(struct qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	assert_int_equal(hca_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS), 0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024,
				     .dest_qp_num = 0x123456, .min_rnr_timer = 12,
				     .ah_attr = { .is_global = 1, .port_num = 1,
						  .grh = { .sgid_index = 1, .hop_limit = 1 } } };
	memcpy(attr.ah_attr.grh.dgid.raw, address_of("10.9.0.2"), 16);
	assert_int_equal(hca_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				       IBV_QP_MIN_RNR_TIMER), 0);
	attr = (struct ibv_qp_attr){ .qp_state = IBV_QPS_RTS, .timeout = 8, .retry_cnt = 1 };
	assert_int_equal(hca_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				       IBV_QP_MAX_QP_RD_ATOMIC), 0);
}

static void a_qp_that_gives_up_its_peer_is_told_of(void **state)
{
	struct ibv_qp_init_attr_ex init = { .cap = { .max_send_wr = 4, .max_recv_wr = 4,
						     .max_send_sge = 1, .max_recv_sge = 1,
						     .max_inline_data = 16 },
					    .qp_type = IBV_QPT_RC,
					    .comp_mask = IBV_QP_INIT_ATTR_PD };
	struct ibv_cq_init_attr_ex cq_init = { .cqe = 16 };
	struct ibv_sge sge = { .addr = (uintptr_t)"lost", .length = 4 };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
					.send_flags = IBV_SEND_INLINE };
	struct hca_context *context;
	struct pd *pd;
	struct cq *cq;
	struct qp *qp;

	assert_int_equal(hca_open("vb_va", &context), 0);
	assert_int_equal(hca_alloc_pd(context, &pd), 0);
	assert_int_equal(hca_create_cq(context, &cq_init, &cq), 0);
	init.pd = (struct ibv_pd *)pd;
	init.send_cq = init.recv_cq = (struct ibv_cq *)cq;
	assert_int_equal(hca_create_qp(context, &init, &qp), 0);
	neighbour_is_known();
	connect_to_nobody(qp);
	assert_int_equal(hca_post_send(qp, &wr, &bad), 0);
	assert_true(comes(&heard.failed, 1));
	assert_int_equal(heard.qpn, qp->number);
	hca_close(context);
	assert_int_equal(heard.failed, 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_mad_leaves_as_rxe_sends_it),
		TEST(what_is_no_mad_for_qp1_is_counted_and_dropped),
		TEST(a_mad_by_lid_has_the_pkey_of_its_row),
		TEST(what_comes_to_qp0_is_its_consumers_alone),
		TEST(where_nobody_has_the_port_is_known_within_milliseconds),
		TEST(errors_of_one_destination_do_not_disturb_another),
		TEST(without_a_route_the_call_says_so),
		TEST(a_host_that_is_not_there_is_unreachable),
		TEST(a_second_consumer_is_refused),
		TEST(ports_are_found_by_their_addresses),
		TEST(a_gid_without_an_address_is_reached_inside_the_host),
		TEST(addresses_of_interfaces_without_a_device_are_told_apart),
		TEST(another_device_stands_in_for_lo),
		TEST(routes_are_those_of_the_kernel),
		TEST(a_source_is_kept),
		TEST(link_local_and_multicast_go_by_the_interface),
		TEST(a_qp_that_gives_up_its_peer_is_told_of),
	};

	if (!netns_enter(&real_root))
		return 77;
	if (!make_pair()) {
		printf("SKIPPED: no veth pair can be made here (needs iproute2)\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
