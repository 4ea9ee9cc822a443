/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Ports and partitions: a device whose second port is none of an interface, with P_Key tables of three. What is
 * asked of port 2 is answered by its operations; a QP has the P_Key at its index, which packets carry and are
 * compared by.
 */
#include "device/device_test.h"

#define PKEY_ONE	0x8001u
#define PKEY_ONE_LIMITED 0x0001u
#define LID		7u

static struct port second;
static unsigned resolved;
static uint16_t pkey_to_come;	/* at index 1, while a route is looked for; 0: the same */

static void own_query(const struct port *port, struct port_state *state)
{
	*state = (struct port_state){ .state = IBV_PORT_ARMED, .physical = 5, .mtu = IBV_MTU_2048,
				      .speed_mbps = 100000, .link_layer = IBV_LINK_LAYER_INFINIBAND, .lid = LID };
}

/* By LID: its own leads here, by the loopback of this process. */
static int own_resolve(struct net *net, const struct port *port, const struct ibv_ah_attr *attr, const char *who,
		       struct route *route)
{
	static const uint8_t address[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };

	resolved++;
	if (pkey_to_come) {
		lock_acquire(&net->lock);
		second.pkey[1] = pkey_to_come;
		contexts_raise(net->owner, &second, IBV_EVENT_PKEY_CHANGE);
		lock_release(&net->lock);
	}
	if (attr->dlid != LID || attr->is_global)
		return ENETUNREACH;
	*route = (struct route){ .link = ROUTE_ROCE_V2, .port = port->number, .loopback = true, .hop_limit = 1 };
	memcpy(route->source, address, 16);
	memcpy(route->destination, address, 16);
	return 0;
}

static const struct port_ops own_ops = { .query = own_query, .resolve = own_resolve };

static void own_pkeys(struct port *port)
{
	port->pkeys = 3;
	port->pkey[0] = 0xffff;
	port->pkey[1] = PKEY_ONE;
	port->pkey[2] = PKEY_ONE_LIMITED;
}

static int ports_begin(void **state)
{
	int err = device_begin(state);

	if (err)
		return err;
	memset(&second, 0, sizeof(second));
	second.ops = &own_ops;
	second.number = 2;
	second.config = context->port->config;
	second.interface_index = context->port->interface_index;
	second.guid = context->port->guid + 1;
	second.gids = GID_TABLE_SIZE;
	second.references = 2;		/* it is ours */
	second.gid[0].type = PORT_GID_IB;
	own_pkeys(&second);
	own_pkeys(context->port);
	context->ports[1] = &second;
	context->port_count = 2;
	resolved = pkey_to_come = 0;
	return 0;
}

static struct ibv_ah_attr by_lid(uint16_t lid)
{
	return (struct ibv_ah_attr){ .port_num = 2, .dlid = lid };
}

static int init_at(struct qp *qp, uint8_t port, uint16_t pkey_index)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = port, .pkey_index = pkey_index,
				    .qkey = QKEY, .qp_access_flags = ALL_ACCESS };

	return hca_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			     (qp->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static int rtr_by_lid(struct qp *qp, uint32_t peer, uint16_t lid, enum ibv_mtu mtu)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = mtu, .dest_qp_num = peer,
				    .max_dest_rd_atomic = 4, .min_rnr_timer = 1, .ah_attr = by_lid(lid) };

	return hca_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
			     IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static struct qp *datagrams_at(uint16_t pkey_index)
{
	struct qp *qp = qp_make(IBV_QPT_UD);

	assert_int_equal(init_at(qp, 2, pkey_index), 0);
	assert_int_equal(to_rtr(qp, 0, IBV_MTU_1024), 0);
	assert_int_equal(to_rts(qp), 0);
	return qp;
}

static void send_datagram(struct qp *from, struct ah *ah, const struct qp *to)
{
	struct ibv_sge sge = { (uintptr_t)memory, 8, mr->ibv.lkey };
	struct ibv_send_wr wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
				  .wr.ud = { .ah = &ah->ibv, .remote_qpn = to->number, .remote_qkey = QKEY } };
	struct ibv_send_wr *bad;

	assert_int_equal(hca_post_send(from, &wr, &bad), 0);
	expect_wc(1, IBV_WC_SUCCESS);	/* its packet has left: before it arrives */
}

/* ---- ports ---- */

static void each_port_answers_for_itself(void **state)
{
	struct ibv_device_attr_ex device;
	struct ibv_port_attr attr;
	struct hca_gid gid;
	uint64_t speed;
	__be16 pkey;

	assert_int_equal(hca_query_device(context, &device), 0);
	assert_int_equal(device.orig_attr.phys_port_cnt, 2);
	assert_int_equal(device.orig_attr.max_pkeys, 3);
	assert_int_equal(hca_query_port(context, 1, &attr, NULL), 0);
	assert_int_equal(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(attr.state, IBV_PORT_ACTIVE);
	assert_int_equal(hca_query_port(context, 2, &attr, NULL), 0);
	assert_int_equal(attr.link_layer, IBV_LINK_LAYER_INFINIBAND);
	assert_int_equal(attr.state, IBV_PORT_ARMED);
	assert_int_equal(attr.active_mtu, IBV_MTU_2048);
	assert_int_equal(attr.lid, LID);
	assert_int_equal(attr.pkey_tbl_len, 3);
	assert_int_equal(attr.flags & IBV_QPF_GRH_REQUIRED, 0);
	assert_int_equal(hca_query_port_speed(context, 2, &speed), 0);
	assert_int_equal(speed, 1000);
	assert_int_equal(hca_query_pkey(context, 2, 1, &pkey), 0);
	assert_int_equal(be16toh(pkey), PKEY_ONE);
	assert_int_equal(hca_query_pkey(context, 2, 3, &pkey), EINVAL);
	assert_int_equal(hca_query_gid(context, 2, 0, &gid), ENODATA);
	assert_int_equal(hca_query_gid(context, 1, 0, &gid), 0);
	assert_int_equal(hca_query_port(context, 3, &attr, NULL), EINVAL);
	assert_int_equal(hca_query_pkey(context, 3, 0, &pkey), EINVAL);
	assert_int_equal(hca_query_gid(context, 0, 0, &gid), EINVAL);
}

static void a_route_is_made_by_the_port_that_it_leaves(void **state)
{
	struct ibv_ah_attr attr = by_lid(LID);
	struct ah *ah;

	assert_int_equal(hca_create_ah(context, pd, &attr, &ah), 0);
	assert_int_equal(resolved, 1);
	assert_int_equal(ah->route.port, 2);
	hca_destroy_ah(context, ah);
	attr.dlid = LID + 1;
	assert_int_equal(hca_create_ah(context, pd, &attr, &ah), ENETUNREACH);
	attr = here();
	assert_int_equal(hca_create_ah(context, pd, &attr, &ah), 0);
	assert_int_equal(resolved, 2);
	assert_int_equal(ah->route.port, 1);
	hca_destroy_ah(context, ah);
	attr.port_num = 3;
	assert_int_equal(hca_create_ah(context, pd, &attr, &ah), EINVAL);
}

static void a_qp_is_at_its_port_and_index(void **state)
{
	struct qp *qp = qp_make(IBV_QPT_RC);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(init_at(qp, 3, 0), EINVAL);
	assert_int_equal(init_at(qp, 0, 0), EINVAL);
	assert_int_equal(init_at(qp, 2, 3), EINVAL);
	assert_int_equal(init_at(qp, 2, 2), 0);
	/* The MTU is that of port 2, which port 1 has more of. */
	assert_int_equal(rtr_by_lid(qp, 5, LID, IBV_MTU_4096), EINVAL);
	assert_int_equal(rtr_by_lid(qp, 5, LID, IBV_MTU_2048), 0);
	assert_int_equal(hca_query_qp(qp, &attr, IBV_QP_PORT | IBV_QP_PKEY_INDEX, &init), 0);
	assert_int_equal(attr.port_num, 2);
	assert_int_equal(attr.pkey_index, 2);
	assert_int_equal(attr.ah_attr.port_num, 2);
	assert_int_equal(qp->route.port, 2);
	assert_int_equal(qp->pkey, PKEY_ONE_LIMITED);
}

static void an_event_says_of_which_port(void **state)
{
	struct ibv_async_event event;

	contexts_raise(hca, &second, IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(hca_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(event.element.port_num, 2);
}

/* ---- partitions ---- */

static void packets_have_the_pkey_of_their_qp(void **state)
{
	struct qp *pair[2];
	uint64_t packets;
	unsigned i;

	for (i = 0; i < 2; i++)
		pair[i] = qp_make(IBV_QPT_RC);
	for (i = 0; i < 2; i++) {
		assert_int_equal(init_at(pair[i], 2, (uint16_t)(1 + i)), 0);
		assert_int_equal(rtr_by_lid(pair[i], pair[!i]->number, LID, IBV_MTU_1024), 0);
		assert_int_equal(to_rts(pair[i]), 0);
	}
	/* Each of them goes as packets: what is done without could not be compared. */
	for (i = 0; i < 20; i++) {
		packets = counted(COUNTER_TX_PACKETS);
		assert_int_equal(post_recv(pair[1], 2), 0);
		assert_int_equal(post_send(pair[0], 2, 64), 0);
		expect_wc(2, IBV_WC_SUCCESS);
		expect_wc(2, IBV_WC_SUCCESS);
		assert_true(counted(COUNTER_TX_PACKETS) > packets);
	}
	assert_int_equal(counted(COUNTER_RX_PKEY), 0);
}

static void a_datagram_of_another_partition_is_dropped(void **state)
{
	/* Full and limited members of partition 1 and those of the default one, by index. */
	static const bool together[3][3] = { { true, false, false }, { false, true, true },
					     { false, true, false } };
	struct ibv_ah_attr attr = by_lid(LID);
	struct qp *from[3], *to[3];
	struct ah *ah;
	uint16_t i, j;

	assert_int_equal(hca_create_ah(context, pd, &attr, &ah), 0);
	for (i = 0; i < 3; i++) {
		from[i] = datagrams_at(i);
		to[i] = datagrams_at(i);
		for (j = 0; j < 3; j++)
			assert_int_equal(post_recv(to[i], 3), 0);
	}
	for (i = 0; i < 3; i++)
		for (j = 0; j < 3; j++) {
			uint64_t dropped = counted(COUNTER_RX_PKEY);
			struct ibv_wc wc;
			bool came = false;

			send_datagram(from[i], ah, to[j]);
			while (!came && counted(COUNTER_RX_PKEY) == dropped)
				came = hca_poll_cq(cq, 1, &wc) == 1;
			assert_int_equal(came, together[i][j]);
			if (came)
				assert_int_equal(wc.pkey_index, j);
		}
	hca_destroy_ah(context, ah);
}

static void a_qp_keeps_its_index_when_the_table_changes(void **state)
{
	struct qp *qp = datagrams_at(1), *other = datagrams_at(0);

	assert_int_equal(qp->pkey, PKEY_ONE);
	lock_acquire(&hca->net.lock);
	second.pkey[1] = 0x8003;
	contexts_raise(hca, &second, IBV_EVENT_PKEY_CHANGE);
	lock_release(&hca->net.lock);
	assert_int_equal(qp->pkey, 0x8003);
	assert_int_equal(qp->attr.pkey_index, 1);
	assert_int_equal(other->pkey, 0xffff);
}

/* A modify asks for the route in its middle, without the QP's lock. */
static void a_table_that_changes_during_a_modify_is_read_after_it(void **state)
{
	struct qp *qp = qp_make(IBV_QPT_RC), *peer = qp_make(IBV_QPT_RC);
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer->number,
				    .max_dest_rd_atomic = 4, .min_rnr_timer = 1, .ah_attr = by_lid(LID),
				    .pkey_index = 1 };

	assert_int_equal(init_at(qp, 2, 0), 0);
	pkey_to_come = 0x8004;
	assert_int_equal(hca_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER |
				       IBV_QP_PKEY_INDEX), 0);
	assert_int_equal(qp->pkey, 0x8004);
}

#define PORT_TEST(name) cmocka_unit_test_setup_teardown(name, ports_begin, device_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		PORT_TEST(each_port_answers_for_itself),
		PORT_TEST(a_route_is_made_by_the_port_that_it_leaves),
		PORT_TEST(a_qp_is_at_its_port_and_index),
		PORT_TEST(an_event_says_of_which_port),
		PORT_TEST(packets_have_the_pkey_of_their_qp),
		PORT_TEST(a_datagram_of_another_partition_is_dropped),
		PORT_TEST(a_qp_keeps_its_index_when_the_table_changes),
		PORT_TEST(a_table_that_changes_during_a_modify_is_read_after_it),
	};

	DEVICE_TESTS(tests);
}
