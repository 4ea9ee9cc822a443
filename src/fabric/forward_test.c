/* SPDX-License-Identifier: BSD-2-Clause */
/* The way of data packets: tables, states, MTU, P_Keys, groups, and what each port counts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/test_random.h"
#include "fabric/test_fabric.h"
#include "wire/qpn.h"

#define QPN		0x123456u
#define PAYLOAD		64u
#define GROUP		0xc001u
#define BYTES_MAX	FABRIC_PACKET_MAX

/* Packets that arrived. */
struct data_world {
	struct test_world world;
	unsigned count, at[8];		/* by node */
	uint32_t port;
	uint8_t packet[BYTES_MAX];
	size_t bytes;
	enum fabric_arrival answer;
	unsigned shown, lost;
};

static struct data_world data;

static enum fabric_arrival data_arrive(void *context, uint32_t node, uint32_t port,
				       const uint8_t *packet, size_t bytes)
{
	struct data_world *to = context;

	to->count++;
	to->at[node]++;
	to->port = port;
	to->bytes = bytes;
	memcpy(to->packet, packet, bytes);
	return to->answer;
}

static void data_show(void *context, const struct fabric_packet *packet)
{
	struct data_world *to = context;
	struct ib_packet parsed;

	assert_int_equal(ib_packet_parse(packet->data, packet->bytes, &parsed), IB_PARSE_OK);
	assert_true(parsed.vcrc_good);
	to->shown++;
}

static void data_lost(void *context, uint32_t node, uint32_t port, const uint8_t *mad,
		      const char *why)
{
	struct data_world *to = context;

	to->lost += !mad;
}

static int data_begin(void **unused)
{
	static const struct fabric_ops ops = { .deliver = test_deliver, .arrive = data_arrive,
					       .lost = data_lost };

	memset(&data, 0, sizeof(data));
	test_open(&data.world, TWO_SWITCHES);
	test_bring_up(&data.world);
	fabric_set_ops(data.world.fabric, &ops, &data);
	for (uint32_t node = 0; node < 6; node++)
		for (unsigned port = 0; port <= data.world.fabric->node[node].ports; port++)
			memset(data.world.fabric->node[node].port[port].counter, 0,
			       sizeof(data.world.fabric->node->port->counter));
	return 0;
}

static int data_end(void **unused)
{
	fabric_free(data.world.fabric);
	return 0;
}

static struct fabric_port *port_of(uint32_t node, unsigned port)
{
	return &data.world.fabric->node[node].port[port];
}

static uint64_t counted(uint32_t node, unsigned port, enum port_counter counter)
{
	return port_of(node, port)->counter[counter];
}

/* LRH, BTH, payload, ICRC; with a GRH if it is for a group. */
static size_t data_packet(uint8_t *out, uint16_t slid, uint16_t dlid, uint8_t sl, uint16_t pkey,
			  size_t payload)
{
	bool grh = dlid >= LID_MULTICAST;
	size_t bth = IB_LRH_BYTES + (grh ? IB_GRH_BYTES : 0), bytes = bth + BTH_BYTES + payload + 4;

	memset(out, 0, bytes);
	out[0] = 0xf0;		/* a VL that the fabric does not believe */
	out[1] = (uint8_t)(sl << 4 | (grh ? IB_LNH_GRH : IB_LNH_BTH));
	put_be16(out + 2, dlid);
	put_be16(out + 4, (uint16_t)(bytes / 4));
	put_be16(out + 6, slid);
	if (grh) {
		out[8] = 0x60;
		put_be16(out + 12, (uint16_t)(bytes - bth));
		out[14] = IB_NEXT_HEADER_BTH;
		out[32] = 0xff;
	}
	out[bth] = 0x04;	/* RC SEND ONLY */
	put_be16(out + bth + 2, pkey);
	put_be32(out + bth + 4, grh ? QPN_MULTICAST : QPN);
	return bytes;
}

static int data_send(uint32_t node, uint16_t slid, uint16_t dlid, uint8_t sl, uint16_t pkey,
		     size_t payload)
{
	uint8_t packet[BYTES_MAX];
	size_t bytes = data_packet(packet, slid, dlid, sl, pkey, payload);

	data.count = data.lost = 0;
	memset(data.at, 0, sizeof(data.at));
	return fabric_send_packet(data.world.fabric, node, 1, packet, bytes, data.world.now_us);
}

/* From host1, LID 3, to host4, LID 6, behind both switches: whether it arrived. */
static bool arrives(uint8_t sl, uint16_t pkey, size_t payload)
{
	assert_int_equal(data_send(HOST1, 3, 6, sl, pkey, payload), 0);
	assert_int_equal(data.count + data.lost, 1);
	return data.count == 1;
}

static void a_packet_counts_at_both_ends_of_each_cable(void **unused)
{
	const unsigned words = (IB_LRH_BYTES + BTH_BYTES + PAYLOAD + 4) / 4;
	const struct { uint32_t node; unsigned port; bool sends; } ends[] = {
		{ HOST1, 1, true }, { SW1, 1, false }, { SW1, 3, true }, { SW2, 3, false },
		{ SW2, 2, true }, { HOST4, 1, false },
	};

	assert_true(arrives(0, PKEY_DEFAULT, PAYLOAD));
	assert_int_equal(data.at[HOST4], 1);
	assert_int_equal(data.packet[0], 0);		/* VL 0 */
	assert_int_equal(data.bytes, words * 4);
	for (unsigned i = 0; i < 6; i++) {
		bool sends = ends[i].sends;

		assert_int_equal(counted(ends[i].node, ends[i].port, COUNTER_XMIT_PKTS), sends);
		assert_int_equal(counted(ends[i].node, ends[i].port, COUNTER_RCV_PKTS), !sends);
		assert_int_equal(counted(ends[i].node, ends[i].port, sends ?
					 COUNTER_XMIT_DATA : COUNTER_RCV_DATA), words);
		assert_int_equal(counted(ends[i].node, ends[i].port, sends ?
					 COUNTER_UNICAST_XMIT_PKTS : COUNTER_UNICAST_RCV_PKTS), 1);
		assert_int_equal(counted(ends[i].node, ends[i].port, COUNTER_MULTICAST_XMIT_PKTS),
				 0);
	}
	assert_int_equal(data.world.fabric->statistics.data_sent, 1);
	assert_int_equal(data.world.fabric->statistics.data_delivered, 1);
}

static void what_is_no_packet_of_data_is_refused(void **unused)
{
	const struct { unsigned byte; uint8_t value; int err; } wrong[] = {
		{ 0, 0x01, EINVAL },			/* LVer */
		{ 1, 0x00, EINVAL }, { 1, 0x01, EINVAL },	/* raw */
		{ 1, 0x03, EINVAL },			/* a GRH that is none */
		{ 5, 21, EINVAL }, { 5, 23, EINVAL }, { 4, 1, EINVAL },	/* PktLen */
		{ 14, 0, 0 }, { 7, 9, EADDRNOTAVAIL }, { 6, 1, EADDRNOTAVAIL },
		{ 3, 0, EINVAL },			/* DLID 0 */
		{ 0, 0xf0, 0 },
	};
	uint8_t packet[BYTES_MAX];
	size_t bytes;

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		bytes = data_packet(packet, 3, 6, 0, PKEY_DEFAULT, PAYLOAD);
		packet[wrong[i].byte] = wrong[i].value;
		assert_int_equal(fabric_send_packet(data.world.fabric, HOST1, 1, packet, bytes, 1),
				 wrong[i].err);
	}
	for (uint32_t qpn = 0; qpn < 3; qpn++) {	/* MADs go another way */
		bytes = data_packet(packet, 3, 6, 0, PKEY_DEFAULT, PAYLOAD);
		put_be32(packet + 12, qpn);
		assert_int_equal(fabric_send_packet(data.world.fabric, HOST1, 1, packet, bytes, 1),
				 qpn < 2 ? EINVAL : 0);
	}
	for (size_t cut = 0; cut < bytes; cut++)
		assert_int_equal(fabric_send_packet(data.world.fabric, HOST1, 1, packet, cut, 1),
				 EINVAL);
	assert_int_equal(data_send(HOST1, 3, LID_PERMISSIVE, 0, PKEY_DEFAULT, 64), EINVAL);
	assert_int_equal(fabric_send_packet(data.world.fabric, HOST1, 2, packet, bytes, 1), EINVAL);
	assert_int_equal(fabric_send_packet(data.world.fabric, SW1, 1, packet, bytes, 1), EINVAL);
	assert_int_equal(fabric_send_packet(data.world.fabric, 99, 1, packet, bytes, 1), EINVAL);
	assert_int_equal(counted(HOST4, 1, COUNTER_RCV_PKTS), 3);
}

static void data_passes_active_ports_alone_and_armed_ones_receive(void **unused)
{
	link_event(data.world.fabric, HOST4, 1, PORT_LOST, true);	/* trains again: Init */
	assert_int_equal(port_of(HOST4, 1)->state, PORT_INIT);
	assert_false(arrives(0, PKEY_DEFAULT, 4));
	assert_int_equal(counted(SW2, 2, COUNTER_XMIT_DISCARDS), 1);
	link_event(data.world.fabric, SW2, 2, PORT_SET_ARM, true);
	assert_false(arrives(0, PKEY_DEFAULT, 4));
	assert_int_equal(counted(SW2, 2, COUNTER_XMIT_DISCARDS), 2);
	link_event(data.world.fabric, SW2, 2, PORT_SET_ACTIVE, true);
	assert_false(arrives(0, PKEY_DEFAULT, 4));		/* host4 is in Init */
	assert_int_equal(counted(SW2, 2, COUNTER_XMIT_DISCARDS), 2);
	assert_int_equal(counted(HOST4, 1, COUNTER_RCV_PKTS), 1);
	link_event(data.world.fabric, HOST4, 1, PORT_SET_ARM, true);
	assert_int_equal(data_send(HOST4, 6, 3, 0, PKEY_DEFAULT, 4), 0);
	assert_int_equal(data.count, 0);		/* Armed: it sends nothing */
	assert_int_equal(counted(HOST4, 1, COUNTER_XMIT_DISCARDS), 1);
	assert_true(arrives(0, PKEY_DEFAULT, 4));
	assert_int_equal(port_of(HOST4, 1)->state, PORT_ACTIVE);
	fabric_set_cable(data.world.fabric, SW1, 3, false, 1);
	assert_false(arrives(0, PKEY_DEFAULT, 4));
	assert_int_equal(counted(SW1, 3, COUNTER_XMIT_DISCARDS), 1);
	fabric_set_power(data.world.fabric, HOST1, false, 1);
	assert_int_equal(data_send(HOST1, 0, 6, 0, PKEY_DEFAULT, 4), EADDRNOTAVAIL);
}

static void a_payload_over_the_mtu_of_a_link_is_discarded_before_it(void **unused)
{
	for (unsigned mtu = 1; mtu <= 5; mtu++) {
		port_of(SW1, 3)->info.neighbor_mtu = (uint8_t)mtu;
		assert_true(arrives(0, PKEY_DEFAULT, 128u << mtu));
		if (mtu == 5)
			break;
		assert_false(arrives(0, PKEY_DEFAULT, (128u << mtu) + 4));
		assert_int_equal(counted(SW1, 3, COUNTER_XMIT_DISCARDS), mtu);
		assert_int_equal(counted(SW1, 3, COUNTER_NEIGHBOR_MTU), mtu);
	}
	port_of(HOST1, 1)->info.neighbor_mtu = 1;
	assert_false(arrives(0, PKEY_DEFAULT, 260));
	assert_int_equal(counted(HOST1, 1, COUNTER_XMIT_DISCARDS), 1);
	assert_int_equal(data.world.fabric->statistics.lost_mtu, 5);
}

/* Maps one SL at an exit, and for a switch at an entry. */
static void map_sl(uint32_t node, unsigned in, unsigned out, unsigned sl, uint8_t vl)
{
	struct fabric_port *port = port_of(node, out);

	if (!port->sl_to_vl) {
		port->sl_to_vl = calloc(data.world.fabric->node[node].ports + 1,
					sizeof(*port->sl_to_vl));
		assert_non_null(port->sl_to_vl);
	}
	port->sl_to_vl[in][sl / 2] &= sl & 1 ? 0xf0 : 0x0f;
	port->sl_to_vl[in][sl / 2] |= (uint8_t)(sl & 1 ? vl : vl << 4);
}

static void the_vl_is_of_entry_exit_and_sl_at_each_node(void **unused)
{
	assert_true(arrives(5, PKEY_DEFAULT, 4));
	assert_int_equal(data.packet[0] >> 4, 5);
	map_sl(HOST1, 0, 1, 5, 2);
	map_sl(SW1, 1, 3, 5, 1);
	map_sl(SW1, 2, 3, 5, 15);		/* by another entry: not ours */
	map_sl(SW2, 3, 2, 5, 7);
	assert_true(arrives(5, PKEY_DEFAULT, 4));
	assert_int_equal(data.packet[0] >> 4, 7);
	assert_int_equal(data.packet[1] >> 4, 5);
	assert_int_equal(data_send(HOST2, 4, 6, 5, PKEY_DEFAULT, 4), 0);
	assert_int_equal(data.count, 0);
	/* Where it came in. */
	assert_int_equal(counted(SW1, 2, COUNTER_RCV_SWITCH_RELAY), 1);
	assert_int_equal(counted(SW1, 2, COUNTER_VL_MAPPING), 1);
	assert_int_equal(data.world.fabric->statistics.lost_vl, 1);
	port_of(SW2, 2)->info.operational_vls = 3;		/* VL0 to VL3 */
	assert_false(arrives(5, PKEY_DEFAULT, 4));
	assert_int_equal(counted(SW2, 3, COUNTER_VL_MAPPING), 1);
	map_sl(HOST1, 0, 1, 5, 15);
	assert_false(arrives(5, PKEY_DEFAULT, 4));
	assert_int_equal(counted(HOST1, 1, COUNTER_XMIT_DISCARDS), 1);
	/* What nobody has mapped goes to the VLs that are there. */
	port_of(HOST1, 1)->info.operational_vls = 1;
	free(port_of(HOST1, 1)->sl_to_vl);
	port_of(HOST1, 1)->sl_to_vl = NULL;
	assert_int_equal(port_sl_to_vl(port_of(HOST1, 1), 0, 5), 0);
}

/* IBTA 10.9.4: the row and the packet's key, full or limited, of one partition or not. */
static void a_switch_that_enforces_keys_lets_those_of_its_table_through(void **unused)
{
	for (unsigned cell = 0; cell < 16; cell++) {
		bool row_full = cell & 1, packet_full = cell & 2, same = cell & 4, out = cell & 8;
		uint16_t row = (uint16_t)(5 | row_full << 15);
		uint16_t key = (uint16_t)((same ? 5 : 6) | packet_full << 15);
		uint32_t node = out ? SW1 : SW2;
		/* Who sends may be a limited member. */
		bool passes = same && (!out || row_full || packet_full);
		struct fabric_port *port;

		data_begin(NULL);
		port = port_of(node, 3);
		port->pkeys = calloc(port_pkeys(&data.world.fabric->node[node], 3), 2);
		assert_non_null(port->pkeys);
		port->pkeys[7] = row;
		assert_true(arrives(0, key, 4));	/* not enforced */
		port->info.partition_enforcement_outbound = out;
		port->info.partition_enforcement_inbound = !out;
		assert_int_equal(arrives(0, key, 4), passes);
		assert_int_equal(counted(SW1, 3, COUNTER_XMIT_CONSTRAINT), out && !passes);
		assert_int_equal(counted(SW2, 3, COUNTER_RCV_CONSTRAINT), !out && !passes);
		assert_int_equal(counted(SW2, 3, COUNTER_RCV_PKTS), out && !passes ? 1 : 2);
		assert_int_equal(data.world.fabric->statistics.lost_pkey, !passes);
		/* The other direction is not enforced. */
		assert_int_equal(data_send(HOST4, 6, 3, 0, key, 4), 0);
		assert_int_equal(data.count, 1);
		data_end(NULL);
	}
	data_begin(NULL);
}

static void set_group(uint32_t node, uint16_t mask)
{
	struct fabric_node *at = &data.world.fabric->node[node];

	if (!at->mft[0])
		at->mft[0] = calloc(MFT_BLOCK, sizeof(**at->mft));
	assert_non_null(at->mft[0]);
	at->mft[0][GROUP - LID_MULTICAST] = mask;
}

static void a_group_has_a_copy_at_each_port_of_its_tree(void **unused)
{
	set_group(SW1, 1 << 1 | 1 << 2 | 1 << 3);
	set_group(SW2, 1 << 1 | 1 << 2 | 1 << 3);
	for (unsigned host = HOST1; host <= HOST4; host++) {
		assert_int_equal(data_send(host, (uint16_t)(host + 1), GROUP, 0, PKEY_DEFAULT, 4), 0);
		/* At the sender's port it is its HCA's copy, for others that are there. */
		assert_int_equal(data.count, 4);
		for (unsigned at = HOST1; at <= HOST4; at++)
			assert_int_equal(data.at[at], 1);
		assert_int_equal(counted(host, 1, COUNTER_MULTICAST_RCV_PKTS), host - HOST1);
		assert_int_equal(counted(host, 1, COUNTER_MULTICAST_XMIT_PKTS), 1);
	}
	assert_int_equal(counted(SW1, 3, COUNTER_MULTICAST_XMIT_PKTS), 2);
	assert_int_equal(counted(SW1, 3, COUNTER_MULTICAST_RCV_PKTS), 2);
	assert_int_equal(counted(HOST1, 1, COUNTER_UNICAST_RCV_PKTS), 0);
	/* Without a row, and no default port, it ends at the first switch. */
	assert_int_equal(data_send(HOST1, 3, GROUP + 1, 0, PKEY_DEFAULT, 4), 0);
	assert_int_equal(data.count, 1);
	assert_int_equal(counted(SW1, 1, COUNTER_RCV_SWITCH_RELAY), 1);
}

static void a_port_has_all_lids_of_its_mask(void **unused)
{
	struct fabric_node *sw1 = &data.world.fabric->node[SW1], *sw2 = &data.world.fabric->node[SW2];

	port_of(HOST4, 1)->info.lid = 16;
	port_of(HOST4, 1)->info.lmc = 2;
	sw1->switch_info.linear_fdb_top = sw2->switch_info.linear_fdb_top = 63;
	for (unsigned lid = 16; lid < 24; lid++) {
		sw1->lft[0][lid] = 3;
		sw2->lft[0][lid] = 2;
		assert_int_equal(data_send(HOST1, 3, (uint16_t)lid, 0, PKEY_DEFAULT, 4), 0);
		assert_int_equal(data.count, lid < 20);
		assert_int_equal(data_send(HOST4, (uint16_t)lid, 3, 0, PKEY_DEFAULT, 4),
				 lid < 20 ? 0 : EADDRNOTAVAIL);
	}
	assert_int_equal(data.world.fabric->statistics.lost_port, 4);
}

static void to_its_own_lid_it_does_not_leave_the_hca(void **unused)
{
	assert_int_equal(data_send(HOST1, 3, 3, 0, PKEY_DEFAULT, 4), 0);
	assert_int_equal(data.at[HOST1], 1);
	assert_int_equal(counted(HOST1, 1, COUNTER_XMIT_PKTS), 0);
	assert_int_equal(counted(SW1, 1, COUNTER_RCV_PKTS), 0);
	link_event(data.world.fabric, HOST1, 1, PORT_LOST, true);
	assert_int_equal(data_send(HOST1, 3, 3, 0, PKEY_DEFAULT, 4), 0);
	assert_int_equal(data.count, 0);
	assert_int_equal(counted(HOST1, 1, COUNTER_XMIT_DISCARDS), 1);
}

static void what_a_host_has_no_room_for_the_switch_before_it_discards(void **unused)
{
	data.answer = FABRIC_FULL;
	assert_int_equal(data_send(HOST1, 3, 6, 0, PKEY_DEFAULT, 4), 0);
	assert_int_equal(data.lost, 1);
	assert_int_equal(counted(SW2, 2, COUNTER_XMIT_DISCARDS), 1);
	assert_int_equal(counted(SW2, 2, COUNTER_XMIT_PKTS), 0);
	assert_int_equal(counted(SW2, 2, COUNTER_XMIT_DATA), 0);
	assert_int_equal(counted(HOST4, 1, COUNTER_RCV_PKTS), 0);
	assert_int_equal(counted(SW2, 3, COUNTER_RCV_PKTS), 1);
	assert_int_equal(data_send(HOST1, 3, 3, 0, PKEY_DEFAULT, 4), 0);
	assert_int_equal(counted(HOST1, 1, COUNTER_XMIT_DISCARDS), 1);
	data.answer = FABRIC_NOBODY;
	assert_int_equal(data_send(HOST1, 3, 6, 0, PKEY_DEFAULT, 4), 0);
	assert_int_equal(counted(HOST4, 1, COUNTER_RCV_PKTS), 1);
	assert_int_equal(data.world.fabric->statistics.lost_nobody, 1);
	assert_int_equal(data.world.fabric->statistics.lost_full, 2);
}

static void tables_that_lead_nowhere_or_back_are_counted_where_it_came_in(void **unused)
{
	data.world.fabric->node[SW2].lft[0][6] = 3;
	assert_false(arrives(0, PKEY_DEFAULT, 4));
	data.world.fabric->node[SW2].lft[0][6] = 255;
	assert_false(arrives(0, PKEY_DEFAULT, 4));
	assert_int_equal(counted(SW2, 3, COUNTER_RCV_SWITCH_RELAY), 2);
	data.world.fabric->node[SW2].lft[0][6] = 1;		/* to host3 */
	assert_false(arrives(0, PKEY_DEFAULT, 4));
	assert_int_equal(data.world.fabric->statistics.lost_port, 1);
}

static void a_bad_link_loses_data_too(void **unused)
{
	unsigned arrived = 0;

	assert_int_equal(fabric_set_errors(data.world.fabric, SW2, 3, 30, 0), 0);
	for (unsigned i = 0; i < 1000; i++)
		arrived += arrives(0, PKEY_DEFAULT, 4);
	assert_in_range(arrived, 650, 750);
	assert_int_equal(counted(SW2, 3, COUNTER_SYMBOL_ERROR), 1000 - arrived);
	/* Errors of one attribute are of MADs. */
	assert_int_equal(fabric_set_errors(data.world.fabric, SW2, 3, 100, 0x15), 0);
	assert_true(arrives(0, PKEY_DEFAULT, 4));
}

static void a_trace_has_each_cable_with_its_crc(void **unused)
{
	static const struct fabric_ops ops = { .arrive = data_arrive, .packet = data_show,
					       .lost = data_lost };

	fabric_set_ops(data.world.fabric, &ops, &data);
	assert_true(arrives(3, PKEY_DEFAULT, 4096));
	assert_int_equal(data.shown, 3);
}

static void a_wrong_key_at_a_qp_is_counted_and_told(void **unused)
{
	struct fabric_violation violation = {
		.key = 0x7fff, .sl = 3, .source_lid = 3, .dest_lid = 6, .source_qpn = 0x1234,
		.dest_qpn = QPN,
	};
	struct test_world *world = &data.world;
	struct ib_trap_257 details;
	struct ib_notice notice;

	for (unsigned qkey = 0; qkey < 2; qkey++) {
		const struct fabric_port *port = port_of(HOST4, 1);

		violation.is_qkey = qkey;
		assert_int_equal(fabric_violated(world->fabric, HOST4, 1, &violation,
						 world->now_us), 0);
		assert_int_equal(port->info.p_key_violations, 1);
		assert_int_equal(port->info.q_key_violations, qkey);
		record_read(RECORD_NOTICE, port->trap[qkey ? TRAP_QKEY : TRAP_PKEY].notice, &notice);
		record_read(RECORD_TRAP_257, port->trap[qkey ? TRAP_QKEY : TRAP_PKEY].notice,
			    &details);
		assert_int_equal(notice.trap_number, 257 + qkey);
		assert_int_equal(notice.issuer_lid, 6);
		assert_int_equal(details.lidaddr1, 3);
		assert_int_equal(details.lidaddr2, 6);
		assert_int_equal(details.key, 0x7fff);
		assert_int_equal(details.sl, 3);
		assert_int_equal(details.qp1, 0x1234);
		assert_int_equal(details.qp2, QPN);
	}
	assert_int_equal(fabric_violated(world->fabric, SW1, 1, &violation, 1), EINVAL);
	assert_int_equal(fabric_violated(world->fabric, HOST4, 2, &violation, 1), EINVAL);
}

/* ---- what fabric_print_route() says, and what packets do ---- */

static char *route(uint32_t from, uint16_t dlid, uint8_t sl, uint16_t pkey, unsigned payload,
		   bool *arrived)
{
	const struct fabric_question question = { .node = from, .port = 1, .dlid = dlid, .sl = sl,
						  .pkey = pkey, .payload = payload };
	char *text = NULL;
	size_t bytes;
	FILE *out = open_memstream(&text, &bytes);

	assert_non_null(out);
	*arrived = fabric_print_route(data.world.fabric, &question, out);
	fclose(out);
	return text;
}

static void the_lines_of_a_route_have_the_rows_that_decide(void **unused)
{
	bool arrived;
	char *text;

	port_of(SW1, 3)->info.partition_enforcement_outbound = 1;
	text = route(HOST1, 6, 3, PKEY_DEFAULT, 256, &arrived);
	assert_true(arrived);
	assert_string_equal(text,
		"host1: out by [1], SL2VL[3] = VL 3, Active, MTU 4096\n"
		"sw1: LFT[6] = 3, in by [1], SL2VL[1>3][3] = VL 3, Active, MTU 4096, "
		"P_Key out: [3][0] = 0xffff\n"
		"sw2: LFT[6] = 2, in by [3], SL2VL[3>2][3] = VL 3, Active, MTU 4096\n"
		"host4: arrived\n");
	free(text);
	data.world.fabric->node[SW2].lft[0][6] = 255;
	text = route(HOST1, 6, 3, PKEY_DEFAULT, 256, &arrived);
	assert_false(arrived);
	assert_non_null(strstr(text, "\nsw2: LFT[6] = 255: the subnet manager has not programmed it"));
	free(text);
	data.world.fabric->node[SW2].lft[0][6] = 3;
	text = route(HOST1, 6, 3, PKEY_DEFAULT, 256, &arrived);
	assert_non_null(strstr(text, "\nsw2: LFT[6] = 3: back to where it came from\n"));
	free(text);
	data.world.fabric->node[SW2].lft[0][6] = 1;
	text = route(HOST1, 6, 3, PKEY_DEFAULT, 256, &arrived);
	assert_non_null(strstr(text, "\nhost3: a host, which forwards nothing, and LID 6 is not "));
	free(text);
	port_of(SW1, 3)->info.neighbor_mtu = 4;
	text = route(HOST1, 6, 3, PKEY_DEFAULT, 4096, &arrived);
	assert_non_null(strstr(text, "\nsw1[3]: 4096 bytes are more than the MTU of the link, 2048\n"));
	free(text);
	text = route(HOST1, 6, 3, 0x8005, 4, &arrived);
	assert_non_null(strstr(text, "\nsw1[3]: P_Key 0x8005 is not in its table"));
	free(text);
	text = route(HOST1, LID_PERMISSIVE, 0, PKEY_DEFAULT, 4, &arrived);
	assert_false(arrived);
	free(text);
}

static void the_lines_of_a_group_are_a_tree(void **unused)
{
	bool arrived;
	char *text;

	set_group(SW1, 1 << 1 | 1 << 3);
	set_group(SW2, 1 << 0 | 1 << 2 | 1 << 3);
	text = route(HOST1, GROUP, 3, PKEY_DEFAULT, 256, &arrived);
	assert_true(arrived);
	assert_string_equal(text,
		"host1: out by [1], SL2VL[3] = VL 3, Active, MTU 4096\n"
		"sw1: MFT[0xc001] = 3, in by [1]\n"
		"  sw1: out by [3], SL2VL[1>3][3] = VL 3, Active, MTU 4096\n"
		"  sw2: MFT[0xc001] = 0 2, in by [3]\n"
		"    sw2[0]: arrived\n"
		"    sw2: out by [2], SL2VL[3>2][3] = VL 3, Active, MTU 4096\n"
		"    host4: arrived\n");
	free(text);
	link_event(data.world.fabric, SW2, 2, PORT_LOST, true);
	set_group(SW2, 1 << 2 | 1 << 3);
	text = route(HOST1, GROUP, 3, PKEY_DEFAULT, 256, &arrived);
	assert_false(arrived);
	assert_non_null(strstr(text, "\n    sw2[2]: Init, and not Active"));
	free(text);
	set_group(SW2, 1 << 3);
	text = route(HOST1, GROUP, 3, PKEY_DEFAULT, 256, &arrived);
	assert_non_null(strstr(text, "\n  sw2: MFT[0xc001] = 3 alone: back to where it came from\n"));
	free(text);
	text = route(HOST1, GROUP + 1, 3, PKEY_DEFAULT, 256, &arrived);
	assert_false(arrived);
	assert_non_null(strstr(text, "\nsw1: MFT[0xc002] has no port, nor is there a default one"));
	free(text);
	data.world.fabric->node[SW1].switch_info.default_multicast_primary_port = 3;
	text = route(HOST1, GROUP + 1, 3, PKEY_DEFAULT, 256, &arrived);
	assert_non_null(strstr(text, "\nsw1: MFT[0xc002] has no port: default port 3, in by [1]\n"
			       "sw1: out by [3], SL2VL[1>3][3] = VL 3"));
	free(text);
}

/* At hosts, as it says. */
static unsigned arrivals_in(const char *text)
{
	unsigned count = 0;

	for (; (text = strstr(text, ": arrived")); text++)
		count++;
	return count;
}

static unsigned pick(uint64_t *random, unsigned below)
{
	return (unsigned)(test_random(random) % below);
}

/* As many copies arrive as it says; one more is the sender's HCA's, for others at its port. */
static void said_of_group(uint32_t from, uint16_t slid, uint8_t sl, uint16_t pkey, unsigned payload)
{
	bool active = port_of(from, 1)->state == PORT_ACTIVE, said;
	char *text = route(from, GROUP, sl, pkey, payload, &said);

	assert_int_equal(data_send(from, slid, GROUP, sl, pkey, payload), 0);
	assert_int_equal(arrivals_in(text) + active, data.count);
	assert_int_equal(said, arrivals_in(text) > 0);
	free(text);
}

/* Tables, states and keys at random: the words and the packets agree. */
static void what_is_said_of_a_route_is_what_packets_do(void **unused)
{
	uint64_t random = 39;
	unsigned arrivals = 0, rounds = 400;

	for (unsigned i = 0; i < rounds; i++) {
		struct fabric *fabric;

		data_end(NULL);
		data_begin(NULL);
		fabric = data.world.fabric;
		for (uint32_t node = 0; node < 6; node++)
			for (unsigned port = 1; port <= fabric->node[node].ports; port++) {
				struct fabric_port *at = &fabric->node[node].port[port];

				if (!pick(&random, 12))
					at->info.neighbor_mtu = 1;
				if (!pick(&random, 12))
					at->info.partition_enforcement_outbound = 1;
				if (!pick(&random, 12))
					at->info.partition_enforcement_inbound = 1;
				if (!pick(&random, 12))
					at->info.operational_vls = 2;
				if (!pick(&random, 20))
					link_event(fabric, node, port, PORT_LOST, true);
				if (!pick(&random, 8))
					map_sl(node, pick(&random,
					       node_is_switch(&fabric->node[node]) ? 4 : 1), port,
					       1, (uint8_t)pick(&random, 16));
			}
		for (unsigned lid = 1; lid <= 6; lid++)
			for (unsigned sw = 0; sw < 2; sw++)
				if (!pick(&random, 10))
					fabric->node[sw].lft[0][lid] =
						(uint8_t)pick(&random, 5);
		set_group(SW1, (uint16_t)(pick(&random, 8) << 1));
		set_group(SW2, (uint16_t)(pick(&random, 8) << 1));
		for (unsigned k = 0; k < 24; k++) {
			unsigned from = HOST1 + pick(&random, 4);
			uint16_t lid = (uint16_t)(3 + pick(&random, 5));
			uint8_t sl = (uint8_t)pick(&random, 3);
			uint16_t pkey = pick(&random, 4) ? PKEY_DEFAULT : 0x7fff;
			unsigned payload = pick(&random, 2) ? 256 : 260;
			bool said;

			free(route(from, lid, sl, pkey, payload, &said));
			assert_int_equal(data_send(from, (uint16_t)(from + 1), lid, sl, pkey,
						   payload), 0);
			assert_int_equal(said, data.count == 1);
			arrivals += said;
			said_of_group(from, (uint16_t)(from + 1), sl, pkey, payload);
		}
	}
	assert_in_range(arrivals, rounds * 2, rounds * 22);
}

int main(void)
{
#define DATA_TEST(name) cmocka_unit_test_setup_teardown(name, data_begin, data_end)
	const struct CMUnitTest tests[] = {
		DATA_TEST(a_packet_counts_at_both_ends_of_each_cable),
		DATA_TEST(what_is_no_packet_of_data_is_refused),
		DATA_TEST(data_passes_active_ports_alone_and_armed_ones_receive),
		DATA_TEST(a_payload_over_the_mtu_of_a_link_is_discarded_before_it),
		DATA_TEST(the_vl_is_of_entry_exit_and_sl_at_each_node),
		DATA_TEST(a_group_has_a_copy_at_each_port_of_its_tree),
		DATA_TEST(a_port_has_all_lids_of_its_mask),
		DATA_TEST(to_its_own_lid_it_does_not_leave_the_hca),
		DATA_TEST(what_a_host_has_no_room_for_the_switch_before_it_discards),
		DATA_TEST(tables_that_lead_nowhere_or_back_are_counted_where_it_came_in),
		DATA_TEST(a_bad_link_loses_data_too),
		DATA_TEST(a_trace_has_each_cable_with_its_crc),
		DATA_TEST(a_wrong_key_at_a_qp_is_counted_and_told),
		DATA_TEST(the_lines_of_a_route_have_the_rows_that_decide),
		DATA_TEST(the_lines_of_a_group_are_a_tree),
		DATA_TEST(what_is_said_of_a_route_is_what_packets_do),
		cmocka_unit_test_teardown(
			a_switch_that_enforces_keys_lets_those_of_its_table_through, data_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
