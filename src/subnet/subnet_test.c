/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A process at a fabric: what it sends is what an HCA would, what comes is believed as far as an
 * HCA would, ports say what the fabric says, also after it has ended and come back. The fabric is a
 * thread here, with one HCA of two ports.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "link/loopback.h"
#include "net/net.h"
#include "platform/clock.h"
#include "subnet/internal.h"
#include "wire/ib_packet.h"
#include "wire/qpn.h"

#define FILE_HASH UINT64_C(77)
#define OUR_SLOT 5u
#define OTHER_SLOT 9u
#define OUR_LID 16u
#define LMC 1u
#define WAIT_MS 5000

static struct {
	char directory[64], socket[90];
	int listener, client;
	pthread_t thread;
	_Atomic bool stop, deaf; /* deaf: it reads nothing of data */
	uint64_t hash;
	struct ctl_port port[2];
	int told; /* [1] of a pair: messages that the fabric got, but for questions */
	int heard;
	uint32_t busy_slot;
} fake;

static struct config config;
static struct net net;
static struct counters counters;
static struct subnet *subnet;
static enum ibv_event_type raised[16];
static unsigned raised_count;

static void on_change(void *owner, struct port *port, enum ibv_event_type type)
{
	assert_true(raised_count < 16);
	raised[raised_count++] = type;
}

/* ---- the fabric ---- */

static void fake_say(int fd, enum ctl_kind kind, uint32_t status, uint64_t value, const void *body,
		     size_t bytes)
{
	uint8_t message[sizeof(struct ctl_head) + sizeof(struct ctl_port) + CTL_PACKET_MAX];
	const struct ctl_head head = { .magic = CTL_MAGIC,
				       .version = CTL_VERSION,
				       .kind = (uint16_t)kind,
				       .status = status,
				       .bytes = (uint32_t)bytes,
				       .value = value };

	memcpy(message, &head, sizeof(head));
	memcpy(message + sizeof(head), body, bytes);
	send(fd, message, sizeof(head) + bytes, MSG_NOSIGNAL);
}

static void fake_take(int fd, const uint8_t *message, size_t bytes)
{
	struct ctl_head head;

	memcpy(&head, message, sizeof(head));
	switch (head.kind) {
	case CTL_PORTS:
	case CTL_ATTACH:
		for (unsigned i = 0; i < 2; i++)
			fake_say(fd, CTL_PORT, 0, 0, &fake.port[i], sizeof(fake.port[i]));
		fake_say(fd, CTL_END, 0, fake.hash, "", 0);
		break;
	case CTL_SLOT:
		fake_say(fd, CTL_END, head.value == fake.busy_slot ? EBUSY : 0, 0, "taken", 6);
		break;
	default:
		send(fake.told, message, bytes, 0);
	}
}

/* One connection of data, questions beside it. */
static void *fake_main(void *unused)
{
	uint8_t message[8192];
	struct pollfd set[4] = { { .fd = fake.listener, .events = POLLIN } };
	unsigned count = 1;

	while (!fake.stop) {
		if (poll(set, count, 20) <= 0)
			continue;
		if (set[0].revents && count < 4)
			set[count++] = (struct pollfd){ .fd = accept(fake.listener, NULL, NULL),
							.events = POLLIN };
		for (unsigned i = 1; i < count; i++) {
			bool is_read = set[i].revents && !(fake.deaf && set[i].fd == fake.client);
			ssize_t got = is_read ? recv(set[i].fd, message, sizeof(message), 0) : -1;

			if (got >= (ssize_t)sizeof(struct ctl_head)) {
				if (((struct ctl_head *)message)->kind == CTL_ATTACH)
					fake.client = set[i].fd;
				fake_take(set[i].fd, message, (size_t)got);
			} else if (!got) {
				close(set[i].fd);
				set[i--] = set[--count];
			}
		}
	}
	while (count-- > 1)
		close(set[count].fd);
	return NULL;
}

static void fake_start(void)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	strcpy(address.sun_path, fake.socket);
	unlink(fake.socket);
	fake.listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fake.listener, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(listen(fake.listener, 8), 0);
	fake.stop = false;
	assert_int_equal(pthread_create(&fake.thread, NULL, fake_main, NULL), 0);
}

static void fake_stop(void)
{
	fake.stop = true;
	pthread_join(fake.thread, NULL);
	close(fake.listener);
}

static struct ctl_port port_of(uint32_t number, uint32_t lid, uint32_t state)
{
	struct ctl_port port = { .device = "vb_ib0",
				 .number = number,
				 .ports = 2,
				 .node_type = 1,
				 .node_guid = 0x0a0b0c0d0e0f1011,
				 .system_guid = 0x0a0b0c0d0e0f1012,
				 .lid = lid,
				 .lmc = LMC,
				 .sm_lid = 3,
				 .sm_sl = 2,
				 .state = state,
				 .phys_state = 5,
				 .rate_mbps = 100000,
				 .cap_mask = 0x651c868,
				 .guid = 0x0a0b0c0d0e0f2000 + number,
				 .pkeys = 4,
				 .pkey = { 0xffff, 0x8001 },
				 .mtu_cap = 5,
				 .mtu_active = 4,
				 .vl_cap = 4,
				 .subnet_timeout = 18,
				 .active_width = 2,
				 .active_speed = 32,
				 .gids = 2 };

	put_be64(port.gid[0], UINT64_C(0xfe80000000000000));
	put_be64(port.gid[0] + 8, port.guid);
	return port;
}

static int set_up(void **state)
{
	int pair[2];

	snprintf(fake.directory, sizeof(fake.directory), "/tmp/subnet-test-XXXXXX");
	assert_non_null(mkdtemp(fake.directory));
	snprintf(fake.socket, sizeof(fake.socket), "%s/" CTL_FILE, fake.directory);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	fake.told = pair[1];
	fake.heard = pair[0];
	fake.hash = FILE_HASH;
	fake.busy_slot = 0;
	fake.port[0] = port_of(1, OUR_LID, PORT_STATE_ACTIVE);
	fake.port[1] = port_of(2, 0, 2);
	setenv("VERBATIM_FABRIC", fake.directory, 1);
	setenv("VERBATIM_NODE", "host1", 1);
	fake_start();
	memset(&counters, 0, sizeof(counters));
	raised_count = 0;
	net_init(&net, &config);
	net.changed = on_change;
	assert_int_equal(subnet_open(&subnet, &counters), 0);
	assert_non_null(subnet);
	net.maker = (struct port_maker){ .make = subnet_make_ports, .owner = subnet };
	return 0;
}

static int tear_down(void **state)
{
	if (subnet->loopback)
		subnet->loopback->ops->close(subnet->loopback);
	subnet_close(subnet);
	net_fini(&net);
	fake_stop();
	close(fake.told);
	close(fake.heard);
	unlink(fake.socket);
	rmdir(fake.directory);
	return 0;
}

/* What the fabric heard next; its packet. */
static size_t heard(struct ctl_head *head, uint8_t *body, size_t size)
{
	struct pollfd pollfd = { .fd = fake.heard, .events = POLLIN };
	uint8_t message[8192];
	ssize_t got;

	assert_int_equal(poll(&pollfd, 1, WAIT_MS), 1);
	got = recv(fake.heard, message, sizeof(message), 0);
	assert_true(got >= (ssize_t)sizeof(*head));
	memcpy(head, message, sizeof(*head));
	assert_int_equal(head->bytes, (size_t)got - sizeof(*head));
	assert_true(head->bytes <= size);
	memcpy(body, message + sizeof(*head), head->bytes);
	return head->bytes;
}

static bool is_heard(int within_ms)
{
	struct pollfd pollfd = { .fd = fake.heard, .events = POLLIN };

	return poll(&pollfd, 1, within_ms) > 0;
}

/* A UD datagram for a QP of @slot, with room for the ICRC. */
static void make_datagram(struct datagram *datagram, uint8_t data[64], uint32_t slot, uint16_t lid)
{
	const struct packet packet = { .op = opcode_get(OPCODE_UD_SEND_ONLY),
				       .migrated = true,
				       .pkey = 0xffff,
				       .dest_qpn = slot << QP_INDEX_BITS | 3,
				       .psn = 9,
				       .payload_bytes = 8 };
	size_t bytes = packet_write_headers(&packet, data);

	memset(data + bytes, 0x55, 8);
	*datagram = (struct datagram){
		.ib = { .port = IB_WAY_PORT(0, 1), .lid = lid, .sl = 6, .path_bits = 1 },
		.data = data,
		.bytes = bytes + 8 + ICRC_BYTES
	};
}

static void send_one(struct datagram *datagram)
{
	struct link *link = subnet_link(subnet);
	unsigned sent = 0;

	assert_int_equal(link->ops->prepare(link, datagram), 1);
	assert_int_equal(link->ops->send(link, datagram, 1, &sent), 0);
	assert_int_equal(sent, 1);
}

static unsigned receive_for(struct datagram *datagram, unsigned max)
{
	struct link *link = subnet_link(subnet);
	struct pollfd pollfd = { .fd = subnet_fd(subnet), .events = POLLIN };
	unsigned received = 0;

	assert_int_equal(poll(&pollfd, 1, WAIT_MS), 1);
	assert_int_equal(link->ops->receive(link, datagram, max, &received), 0);
	return received;
}

/* Datagrams with numbers from *next on, until some are held; none is lost, and no send waits. */
static void send_until_held(uint32_t *next)
{
	struct link *link = subnet_link(subnet);
	struct datagram datagram;
	uint8_t data[64];

	for (unsigned more = 0; more < 100; more += link->ops->is_full(link)) {
		make_datagram(&datagram, data, OTHER_SLOT, 40);
		put_be32(data + datagram.bytes - ICRC_BYTES - 4, (*next)++);
		send_one(&datagram);
		assert_true(*next < 100000);
	}
}

static void hear_number(uint32_t number)
{
	struct ctl_head head;
	uint8_t body[256];
	size_t bytes = heard(&head, body, sizeof(body));

	assert_int_equal(head.kind, CTL_DATA);
	assert_int_equal(get_be32(body + bytes - ICRC_BYTES - 4), number);
}

/* ---- tests ---- */

static void ports_are_as_the_fabric_says(void **state)
{
	struct port *ports[PORTS_MAX];
	struct port_state query;
	unsigned count;

	assert_int_equal(net_get_ports(&net, "vb_ib0", ports, &count), 0);
	assert_int_equal(count, 2);
	assert_int_equal(ports[0]->number, 1);
	assert_int_equal(ports[1]->number, 2);
	assert_int_equal(ports[0]->gid[0].type, PORT_GID_IB);
	assert_int_equal(ports[0]->gids, 2);
	assert_int_equal(ports[0]->pkeys, 4);
	assert_int_equal(ports[0]->pkey[1], 0x8001);
	assert_non_null(gid_table_get(ports[0], 0));
	assert_null(gid_table_get(ports[0], 1));
	port_query(ports[0], &query);
	assert_int_equal(query.state, IBV_PORT_ACTIVE);
	assert_int_equal(query.lid, OUR_LID);
	assert_int_equal(query.lmc, LMC);
	assert_int_equal(query.sm_lid, 3);
	assert_int_equal(query.sm_sl, 2);
	assert_int_equal(query.mtu, IBV_MTU_2048);
	assert_int_equal(query.width, 2);
	assert_int_equal(query.speed, 32);
	assert_int_equal(query.vls, 4);
	assert_int_equal(query.link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_false(query.needs_grh);
	port_query(ports[1], &query);
	assert_int_equal(query.state, IBV_PORT_INIT);
	for (unsigned i = 0; i < count; i++)
		net_put_port(&net, ports[i]);
}

static void routes_need_a_lid_and_a_grh_needs_gids_of_this_link(void **state)
{
	struct ibv_ah_attr attr = {
		.dlid = 5, .sl = 3, .src_path_bits = 1, .static_rate = 2, .port_num = 1
	};
	struct port *ports[PORTS_MAX];
	struct route route;
	uint8_t by_lid[16];
	unsigned count;

	assert_int_equal(net_get_ports(&net, "vb_ib0", ports, &count), 0);
	assert_int_equal(ports[0]->ops->resolve(&net, ports[0], &attr, "test", &route), 0);
	assert_int_equal(route.link, ROUTE_IB);
	assert_int_equal(route.port, 1);
	assert_int_equal(route.ib.port, IB_WAY_PORT(0, 1));
	assert_int_equal(route.ib.lid, 5);
	assert_int_equal(route.ib.sl, 3);
	assert_int_equal(route.ib.path_bits, 1);
	assert_int_equal(route.ib.static_rate, 2);
	assert_false(route.ib.has_grh);
	assert_false(route.loopback);
	assert_int_equal(route_pace_kbps(&route), 2500000);
	attr.static_rate = IBV_RATE_100_GBPS; /* that of the port */
	assert_int_equal(ports[0]->ops->resolve(&net, ports[0], &attr, "test", &route), 0);
	assert_int_equal(route_pace_kbps(&route), 0);
	attr.static_rate = IBV_RATE_1200_GBPS;
	assert_int_equal(ports[0]->ops->resolve(&net, ports[0], &attr, "test", &route), 0);
	assert_int_equal(route_pace_kbps(&route), 0);
	for (unsigned i = 0; i < 3; i++) {
		static const uint8_t none[] = { 1, IBV_RATE_1200_GBPS + 1, 255 };

		attr.static_rate = none[i];
		assert_int_equal(ports[0]->ops->resolve(&net, ports[0], &attr, "test", &route),
				 EINVAL);
	}
	attr.static_rate = 0;
	ip_addr_of_lid(by_lid, 5);
	assert_memory_equal(route.destination, by_lid, 16);
	for (unsigned i = 0; i < 3; i++) {
		static const uint16_t wrong[] = { 0, 0xffff, 0xc001 };

		attr.dlid = wrong[i];
		assert_int_equal(ports[0]->ops->resolve(&net, ports[0], &attr, "test", &route),
				 EINVAL);
	}
	attr.dlid = 5;
	attr.is_global = 1;
	memset(attr.grh.dgid.raw, 0xfe, 16);
	assert_int_equal(ports[0]->ops->resolve(&net, ports[0], &attr, "test", &route), 0);
	assert_true(route.ib.has_grh);
	assert_memory_equal(route.source, fake.port[0].gid[0], 16);
	assert_memory_equal(route.destination, attr.grh.dgid.raw, 16);
	attr.grh.sgid_index = 1; /* empty, and as programs for RoCE have it */
	assert_int_equal(ports[0]->ops->resolve(&net, ports[0], &attr, "test", &route), EINVAL);
	attr.grh.sgid_index = 0;
	memset(attr.grh.dgid.raw, 0xff, 16);
	assert_int_equal(ports[0]->ops->resolve(&net, ports[0], &attr, "test", &route), EINVAL);
	attr.dlid = 0xc001;
	assert_int_equal(ports[0]->ops->resolve(&net, ports[0], &attr, "test", &route), 0);
	ip_addr_map_ipv4(attr.grh.dgid.raw, "\x7f\0\0\1");
	attr.dlid = 5;
	assert_int_equal(ports[0]->ops->resolve(&net, ports[0], &attr, "test", &route), EINVAL);
	for (unsigned i = 0; i < count; i++)
		net_put_port(&net, ports[i]);
}

static void a_packet_leaves_with_the_lid_of_its_port(void **state)
{
	for (int has_grh = 0; has_grh < 2; has_grh++) {
		uint8_t data[64], body[256];
		struct ib_packet packet;
		struct datagram datagram;
		struct ctl_head head;
		size_t bytes;

		make_datagram(&datagram, data, OTHER_SLOT, 40);
		datagram.ib.has_grh = has_grh;
		datagram.ib.path_bits = 3; /* of which the LMC leaves one */
		memset(datagram.source, 0xfe, 16);
		memset(datagram.destination, 0xfd, 16);
		datagram.hop_limit = 7;
		send_one(&datagram);
		bytes = heard(&head, body, sizeof(body));
		assert_int_equal(head.kind, CTL_DATA);
		assert_int_equal(head.value, ctl_data_value(0, 1));
		assert_int_equal(ib_packet_parse_headers(body, bytes, &packet), IB_PARSE_OK);
		assert_true(ib_packet_is_sealed(body, bytes));
		assert_int_equal(packet.route.dlid, 40);
		assert_int_equal(packet.route.slid, OUR_LID | 1);
		assert_int_equal(packet.route.sl, 6);
		assert_int_equal(packet.route.has_grh, has_grh);
		if (has_grh) {
			assert_memory_equal(packet.route.grh.sgid, datagram.source, 16);
			assert_memory_equal(packet.route.grh.dgid, datagram.destination, 16);
			assert_int_equal(packet.route.grh.hoplmt, 7);
		}
		assert_int_equal(packet.transport_bytes, datagram.bytes);
		assert_memory_equal(packet.transport, data, datagram.bytes);
	}
}

static void nothing_leaves_a_port_that_is_not_active(void **state)
{
	struct datagram datagram;
	uint8_t data[64];

	make_datagram(&datagram, data, OTHER_SLOT, 40);
	datagram.ib.port = IB_WAY_PORT(0, 2);
	send_one(&datagram);
	assert_false(is_heard(50));
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 1);
}

static void to_itself_the_hca_loops_back(void **state)
{
	struct datagram datagram, got;
	uint8_t data[64], source[16];
	unsigned received;

	assert_int_equal(subnet_claim(subnet, OUR_SLOT), 0);
	assert_int_equal(loopback_open(&subnet->loopback, &counters), 0);
	make_datagram(&datagram, data, OUR_SLOT, OUR_LID | 1);
	send_one(&datagram);
	assert_false(is_heard(50));
	assert_int_equal(subnet->loopback->ops->receive(subnet->loopback, &got, 1, &received), 0);
	assert_int_equal(received, 1);
	assert_int_equal(got.ib.lid, OUR_LID | 1);
	assert_int_equal(got.ib.path_bits, 1);
	ip_addr_of_lid(source, OUR_LID | 1);
	assert_memory_equal(got.source, source, 16);
	/* Another process at the port has the slot: the fabric knows whose. */
	make_datagram(&datagram, data, OTHER_SLOT, OUR_LID);
	send_one(&datagram);
	assert_true(is_heard(WAIT_MS));
}

static void what_comes_is_a_datagram_of_its_port(void **state)
{
	static const uint8_t none[16];
	uint8_t transport[64], whole[256];
	struct datagram made, got[4];
	struct ib_route route = { .sl = 4, .slid = 40, .dlid = OUR_LID | 1 };
	uint8_t by_lid[16];
	size_t bytes;

	make_datagram(&made, transport, OUR_SLOT, 0);
	bytes = ib_packet_write(&route, transport, made.bytes - ICRC_BYTES, whole) - IB_VCRC_BYTES;
	fake_say(fake.client, CTL_DATA, 0, ctl_data_value(0, 1), whole, bytes);
	assert_int_equal(receive_for(got, 4), 1);
	assert_int_equal(got[0].ib.port, IB_WAY_PORT(0, 1));
	assert_int_equal(got[0].ib.lid, 40);
	assert_int_equal(got[0].ib.path_bits, 1);
	assert_int_equal(got[0].ib.sl, 4);
	assert_false(got[0].ib.has_grh);
	assert_false(got[0].bad_icrc);
	assert_int_equal(got[0].bytes, made.bytes);
	assert_memory_equal(got[0].data, transport, made.bytes - ICRC_BYTES);
	ip_addr_of_lid(by_lid, 40);
	assert_memory_equal(got[0].source, by_lid, 16);
	assert_memory_equal(got[0].destination, none, 16);
	/* Damaged; of no port; too short. */
	whole[bytes - 6] ^= 1;
	fake_say(fake.client, CTL_DATA, 0, ctl_data_value(0, 1), whole, bytes);
	assert_int_equal(receive_for(got, 4), 1);
	assert_true(got[0].bad_icrc);
	fake_say(fake.client, CTL_DATA, 0, ctl_data_value(3, 1), whole, bytes);
	assert_int_equal(receive_for(got, 4), 0);
	for (size_t shorter = 0; shorter < bytes; shorter++) {
		fake_say(fake.client, CTL_DATA, 0, ctl_data_value(0, 1), whole, shorter);
		assert_int_equal(receive_for(got, 4), 0);
	}
	assert_int_equal(counter_get(&counters, COUNTER_RX_MALFORMED), bytes + 1);
}

static void groups_are_said_once_and_loop_back(void **state)
{
	static const uint8_t mgid[16] = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff };
	struct ctl_group body;
	struct datagram datagram, got;
	struct ctl_head head;
	uint8_t data[64], packet[256];
	unsigned received;

	assert_int_equal(loopback_open(&subnet->loopback, &counters), 0);
	assert_int_equal(subnet_join(subnet, IB_WAY_PORT(0, 1), 0xc005, mgid), 0);
	assert_int_equal(subnet_join(subnet, IB_WAY_PORT(0, 1), 0xc005, mgid), 0);
	assert_int_equal(heard(&head, (uint8_t *)&body, sizeof(body)), sizeof(body));
	assert_int_equal(head.kind, CTL_GROUP);
	assert_int_equal(head.value, 1);
	assert_int_equal(body.port, 1);
	assert_int_equal(body.mlid, 0xc005);
	assert_memory_equal(body.mgid, mgid, 16);
	assert_false(is_heard(50));
	make_datagram(&datagram, data, qpn_slot(QPN_MULTICAST), 0xc005);
	datagram.ib.has_grh = true;
	memcpy(datagram.destination, mgid, 16);
	send_one(&datagram);
	heard(&head, packet, sizeof(packet));
	assert_int_equal(head.kind, CTL_DATA);
	assert_int_equal(subnet->loopback->ops->receive(subnet->loopback, &got, 1, &received), 0);
	assert_int_equal(received, 1);
	subnet_leave(subnet, IB_WAY_PORT(0, 1), 0xc005, mgid);
	assert_false(is_heard(50));
	subnet_leave(subnet, IB_WAY_PORT(0, 1), 0xc005, mgid);
	heard(&head, (uint8_t *)&body, sizeof(body));
	assert_int_equal(head.value, 0);
}

static void a_slot_of_another_process_is_busy(void **state)
{
	fake.busy_slot = OUR_SLOT;
	assert_int_equal(subnet_claim(subnet, OUR_SLOT), EADDRINUSE);
	for (unsigned i = 0; i < CTL_SLOTS_MAX; i++)
		assert_int_equal(subnet_claim(subnet, 100 + i), 0);
	assert_int_equal(subnet_claim(subnet, 200), ENOMEM);
}

static void changes_are_raised_after_the_port_says_so(void **state)
{
	struct port *ports[PORTS_MAX];
	struct port_state query;
	struct datagram got[4];
	enum subnet_watch watch;
	unsigned count;

	assert_int_equal(net_get_ports(&net, "vb_ib0", ports, &count), 0);
	fake.port[0].lid = 32;
	fake.port[0].pkey[1] = 0x1234;
	fake_say(fake.client, CTL_CHANGED, 0,
		 1 << CTL_EVENT_LID_CHANGE | 1 << CTL_EVENT_PKEY_CHANGE, &fake.port[0],
		 sizeof(fake.port[0]));
	assert_false(subnet_is_due(subnet));
	assert_int_equal(receive_for(got, 4), 0);
	assert_true(subnet_is_due(subnet));
	subnet_turn(subnet, &net, clock_now_ns(), &watch);
	assert_false(subnet_is_due(subnet));
	assert_int_equal(watch, SUBNET_WATCH_AS_IS);
	assert_int_equal(raised_count, 2);
	assert_int_equal(raised[0], IBV_EVENT_LID_CHANGE);
	assert_int_equal(raised[1], IBV_EVENT_PKEY_CHANGE);
	port_query(ports[0], &query);
	assert_int_equal(query.lid, 32);
	assert_int_equal(ports[0]->pkey[1], 0x1234);
	for (unsigned i = 0; i < count; i++)
		net_put_port(&net, ports[i]);
}

/* Until the link knows that the other end is gone. */
static void wait_for_end(void)
{
	struct datagram got[4];

	assert_int_equal(receive_for(got, 4), 0);
	assert_true(subnet_is_due(subnet));
}

/* It may be another user's. */
static void what_a_port_cannot_be_is_not_believed(void **state)
{
	struct port *ports[PORTS_MAX];
	struct port_state query;
	struct datagram got[4];
	enum subnet_watch watch;
	unsigned count;

	assert_int_equal(net_get_ports(&net, "vb_ib0", ports, &count), 0);
	memset(&fake.port[0], 0xff, sizeof(fake.port[0]));
	fake.port[0].hca = 0;
	fake.port[0].number = 1;
	fake_say(fake.client, CTL_CHANGED, 0, UINT64_MAX, &fake.port[0], sizeof(fake.port[0]));
	assert_int_equal(receive_for(got, 4), 0);
	subnet_turn(subnet, &net, clock_now_ns(), &watch);
	assert_int_equal(raised_count, 7);
	port_query(ports[0], &query);
	assert_in_range(query.mtu, IBV_MTU_256, IBV_MTU_4096);
	assert_in_range(query.mtu_max, IBV_MTU_256, IBV_MTU_4096);
	assert_in_range(query.state, IBV_PORT_NOP, IBV_PORT_ACTIVE_DEFER);
	assert_int_equal(ports[0]->gids, 2);
	assert_int_equal(ports[0]->pkeys, 4);
	for (unsigned i = 0; i < count; i++)
		net_put_port(&net, ports[i]);
}

static void when_the_fabric_ends_ports_are_down_until_it_is_back(void **state)
{
	struct port *ports[PORTS_MAX];
	struct port_state query;
	struct datagram datagram;
	enum subnet_watch watch;
	struct ctl_head head;
	uint8_t data[64], body[256];
	unsigned count;

	assert_int_equal(net_get_ports(&net, "vb_ib0", ports, &count), 0);
	assert_int_equal(subnet_claim(subnet, OUR_SLOT), 0);
	fake_stop();
	wait_for_end();
	subnet_turn(subnet, &net, clock_now_ns(), &watch);
	assert_int_equal(watch, SUBNET_UNWATCH);
	assert_int_equal(raised_count, 1);
	assert_int_equal(raised[0], IBV_EVENT_PORT_ERR);
	port_query(ports[0], &query);
	assert_int_equal(query.state, IBV_PORT_DOWN);
	make_datagram(&datagram, data, OTHER_SLOT, 40);
	send_one(&datagram);
	/* Not before a second has passed, and not while it is not there. */
	assert_true(subnet_deadline_ns(subnet) > clock_now_ns());
	subnet_turn(subnet, &net, subnet_deadline_ns(subnet), &watch);
	assert_int_equal(watch, SUBNET_WATCH_AS_IS);
	fake.hash = FILE_HASH + 1;
	fake_start();
	subnet_turn(subnet, &net, subnet_deadline_ns(subnet), &watch);
	assert_int_equal(watch, SUBNET_WATCH_AS_IS);
	fake.hash = FILE_HASH;
	subnet_turn(subnet, &net, subnet_deadline_ns(subnet), &watch);
	assert_int_equal(watch, SUBNET_WATCH);
	assert_int_equal(raised_count, 2);
	assert_int_equal(raised[1], IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(subnet_deadline_ns(subnet), UINT64_MAX);
	make_datagram(&datagram, data, OTHER_SLOT, 40);
	send_one(&datagram);
	heard(&head, body, sizeof(body));
	assert_int_equal(head.kind, CTL_DATA);
	for (unsigned i = 0; i < count; i++)
		net_put_port(&net, ports[i]);
}

static void what_the_fabric_does_not_read_is_held_in_its_order(void **state)
{
	struct link *link = subnet_link(subnet);
	uint32_t next = 0, number = 0;

	fake.deaf = true;
	send_until_held(&next);
	assert_false(subnet_pump(subnet, UINT64_MAX - 1));
	assert_false(subnet_is_drained(subnet));
	assert_true(subnet_deadline_ns(subnet) < UINT64_MAX);
	fake.deaf = false;
	for (; number < next - 50; number++) {
		hear_number(number);
		subnet_pump(subnet, UINT64_MAX - 1);
	}
	fake.deaf = true; /* again, behind what is held */
	send_until_held(&next);
	fake.deaf = false;
	for (; number < next; number++) {
		hear_number(number);
		subnet_pump(subnet, UINT64_MAX - 1);
	}
	assert_true(subnet_pump(subnet, UINT64_MAX - 1));
	assert_false(link->ops->is_full(link));
	assert_true(subnet_is_drained(subnet));
	assert_int_equal(subnet_deadline_ns(subnet), UINT64_MAX);
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), 0);
	assert_false(is_heard(50));
}

/* Whoever sends while there is room again: QPs that saw no room are told by who pumps, and by nobody else. */
static void what_is_held_leaves_by_a_pump_alone(void **state)
{
	struct link *link = subnet_link(subnet);
	uint32_t next = 0, number = 0, held;

	fake.deaf = true;
	send_until_held(&next);
	held = atomic_load(&subnet->held_count);
	fake.deaf = false;
	for (; number < next - held; number++)
		hear_number(number);
	send_until_held(&next);
	assert_true(atomic_load(&subnet->held_count) > held);
	assert_true(link->ops->is_full(link));
	assert_true(subnet_deadline_ns(subnet) < UINT64_MAX);
	assert_false(is_heard(50));
	while (!subnet_pump(subnet, UINT64_MAX - 1))
		hear_number(number++);
	for (; number < next; number++)
		hear_number(number);
	assert_true(subnet_is_drained(subnet));
}

static void what_is_held_ends_with_the_fabric(void **state)
{
	struct link *link = subnet_link(subnet);
	uint32_t next = 0, held;

	fake.deaf = true;
	send_until_held(&next);
	held = atomic_load(&subnet->held_count);
	assert_true(held);
	fake_stop();
	fake.deaf = false;
	assert_true(subnet_pump(subnet, UINT64_MAX - 1));
	assert_false(link->ops->is_full(link));
	assert_int_equal(counter_get(&counters, COUNTER_TX_LINK), held);
	fake_start();
}

int main(void)
{
#define AT_FABRIC(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		AT_FABRIC(ports_are_as_the_fabric_says),
		AT_FABRIC(routes_need_a_lid_and_a_grh_needs_gids_of_this_link),
		AT_FABRIC(a_packet_leaves_with_the_lid_of_its_port),
		AT_FABRIC(nothing_leaves_a_port_that_is_not_active),
		AT_FABRIC(to_itself_the_hca_loops_back),
		AT_FABRIC(what_comes_is_a_datagram_of_its_port),
		AT_FABRIC(groups_are_said_once_and_loop_back),
		AT_FABRIC(a_slot_of_another_process_is_busy),
		AT_FABRIC(changes_are_raised_after_the_port_says_so),
		AT_FABRIC(what_a_port_cannot_be_is_not_believed),
		AT_FABRIC(what_the_fabric_does_not_read_is_held_in_its_order),
		AT_FABRIC(what_is_held_leaves_by_a_pump_alone),
		AT_FABRIC(what_is_held_ends_with_the_fabric),
		AT_FABRIC(when_the_fabric_ends_ports_are_down_until_it_is_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
