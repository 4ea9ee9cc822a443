/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Endpoints at a port of a fabric, over a faked link: what is asked of subnet administration, and what
 * follows.
 */
#include "cm/endpoint/fake_peers_test.h"

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "wire/smp.h"

#define SM_LID	1u
#define LID	4u
#define PEER	9u
#define RECORD	56u

static int open_by_fabric(void **test)
{
	memset(&fake, 0, sizeof(fake));
	fake.by_fabric = true;
	fake.ib = (struct net_ib_port){ .lid = LID, .sm_lid = SM_LID, .sm_sl = 3, .state = IBV_PORT_ACTIVE,
					.active_mtu = IBV_MTU_4096, .pkeys = 3, .pkey = { 0x8005, 0xffff, 0x8006 },
					.gid.raw = { 0xfe, 0x80, [15] = 1 } };
	return cm_channel_open(&channel);
}

/* What was sent, which leaves the queue. */
static struct mad_address sent_to;
static const uint8_t *sent(void)
{
	static uint8_t mad[MAD_BYTES];

	assert_true(fake.first != fake.last);
	sent_to = fake.queue[fake.first % FAKE_QUEUE].to;
	memcpy(mad, fake.queue[fake.first++ % FAKE_QUEUE].mad, MAD_BYTES);
	return mad;
}

static void expect_asked(const uint8_t *mad, uint8_t method, uint16_t attribute)
{
	assert_int_equal(mad[1], MAD_CLASS_ADMINISTRATION);
	assert_int_equal(mad[3], method);
	assert_int_equal(get_be16(mad + 16), attribute);
	assert_int_equal(sent_to.ib.lid, SM_LID);
	assert_int_equal(sent_to.ib.sl, 3);
	assert_int_equal(sent_to.ib.port, FAKE_IB_PORT);
	assert_int_equal(sent_to.pkey_index, 1);
}

static void sa_answers(const uint8_t *question, uint16_t status, enum record kind, const void *record)
{
	const struct mad_address from = { .link = ROUTE_IB, .ib = { .port = FAKE_IB_PORT, .lid = SM_LID } };
	struct mad_header header;
	uint8_t mad[MAD_BYTES];

	memcpy(mad, question, MAD_BYTES);
	mad[3] = mad[3] == MAD_METHOD_DELETE ? 0x95 : MAD_METHOD_GET_RESPONSE;
	put_be16(mad + 4, status);
	if (record)
		record_write(kind, record, mad + RECORD);
	assert_true(mad_parse(mad, MAD_BYTES, &header));
	fake.sa_ops->received(NULL, &from, &header, mad, clock_now_ns());
}

static const struct ib_path_record path = {
	.dgid = { 0xfe, 0x80, [15] = 2 }, .sgid = { 0xfe, 0x80, [15] = 1 }, .dlid = PEER, .slid = LID,
	.p_key = 0xffff, .sl = 6, .mtu = IBV_MTU_2048, .rate = IBV_RATE_100_GBPS, .packet_life_time = 14,
};

static void resolve_by_fabric(struct endpoint *endpoint)
{
	assert_int_equal(endpoint_resolve_address(endpoint, NULL, ip("10.7.7.2", 7174), 1000), 0);
	take(RDMA_CM_EVENT_ADDR_RESOLVED);
}

static void the_path_is_the_managers(void **test)
{
	struct endpoint *endpoint = create();
	struct ib_path_record asked;
	struct endpoint_info info;
	struct cm_message message;
	const uint8_t *mad;

	resolve_by_fabric(endpoint);
	assert_int_equal(endpoint_resolve_route(endpoint, 2000), 0);
	expect_none();
	assert_int_equal(endpoint_resolve_route(endpoint, 2000), EINVAL);	/* one at a time */
	mad = sent();
	expect_asked(mad, MAD_METHOD_GET, 0x35);
	record_read(RECORD_PATH_RECORD, mad + RECORD, &asked);
	assert_memory_equal(asked.dgid, path.dgid, 16);
	assert_memory_equal(asked.sgid, path.sgid, 16);
	assert_int_equal(asked.p_key, 0xffff);
	sa_answers(mad, 0, RECORD_PATH_RECORD, &path);
	take(RDMA_CM_EVENT_ROUTE_RESOLVED);
	endpoint_query(endpoint, &info);
	assert_int_equal(be16toh(info.path.dlid), PEER);
	assert_int_equal(be16toh(info.path.slid), LID);
	assert_int_equal(info.path.sl, 6);
	assert_int_equal(info.path.mtu, IBV_MTU_2048);
	assert_int_equal(start_connecting(endpoint, NULL, 0), 0);
	assert_true(cm_message_parse(sent(), &message));
	assert_int_equal(message.kind, CM_MESSAGE_REQ);
	assert_int_equal(sent_to.ib.lid, PEER);
	assert_int_equal(sent_to.ib.sl, 6);
	assert_int_equal(message.req.local_lid, LID);
	assert_int_equal(message.req.remote_lid, PEER);
	assert_int_equal(message.req.service_level, 6);
	assert_int_equal(message.req.subnet_local, 1);
	endpoint_destroy(endpoint);
}

static void what_is_no_path_is_a_route_error(void **test)
{
	struct ib_path_record wrong = path;
	struct endpoint *endpoint = create();

	resolve_by_fabric(endpoint);
	assert_int_equal(endpoint_resolve_route(endpoint, 2000), 0);
	sa_answers(sent(), 0x0300, RECORD_PATH_RECORD, NULL);
	assert_int_equal(take(RDMA_CM_EVENT_ROUTE_ERROR).status, -EINVAL);
	assert_int_equal(endpoint_resolve_route(endpoint, 2000), 0);	/* it may be tried again */
	wrong.dlid = 0xc000;
	sa_answers(sent(), 0, RECORD_PATH_RECORD, &wrong);
	assert_int_equal(take(RDMA_CM_EVENT_ROUTE_ERROR).status, -EINVAL);
	assert_int_equal(endpoint_resolve_route(endpoint, 2000), 0);
	fake_tick(3 * SECOND);
	assert_int_equal(take(RDMA_CM_EVENT_ROUTE_ERROR).status, -ETIMEDOUT);
	fake.ib.sm_lid = 0;		/* nobody is asked */
	fake.first = fake.last;
	assert_int_equal(endpoint_resolve_route(endpoint, 2000), 0);
	assert_true(fake.first == fake.last);
	fake_tick(3 * SECOND);
	assert_int_equal(take(RDMA_CM_EVENT_ROUTE_ERROR).status, -ETIMEDOUT);
	assert_int_equal(endpoint_resolve_route(endpoint, 2000), 0);
	endpoint_destroy(endpoint);	/* while it is asked */
	fake_tick(3 * SECOND);
	expect_none();
}

static int give_path(struct endpoint *endpoint, const struct ibv_path_data *data)
{
	return endpoint_set_option(endpoint, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, data, sizeof(*data));
}

static void a_path_can_be_given(void **test)
{
	struct ibv_path_data data = {
		.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL,
		.path = { .mtu = IBV_MTU_1024, .pkey = htobe16(0x8006), .slid = htobe16(LID) },
	};
	struct endpoint *endpoint = create();
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT };
	int mask;

	resolve_by_fabric(endpoint);
	assert_int_equal(give_path(endpoint, &data), EINVAL);	/* no LID */
	data.path.dlid = htobe16(PEER);
	assert_int_equal(give_path(endpoint, &data), 0);
	take(RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(endpoint_qp_attributes(endpoint, &attr, &mask), 0);
	assert_int_equal(attr.pkey_index, 2);
	assert_int_equal(start_connecting(endpoint, NULL, 0), 0);
	sent();
	assert_int_equal(sent_to.ib.lid, PEER);
	assert_int_equal(sent_to.pkey_index, 2);
	attr.pkey_index = 9;
	fake.ib.pkeys = 2;		/* it is in that partition no longer */
	attr.qp_state = IBV_QPS_INIT;
	assert_int_equal(endpoint_qp_attributes(endpoint, &attr, &mask), EINVAL);
	assert_int_equal(attr.pkey_index, 9);
	endpoint_destroy(endpoint);
}

/* Until the group is asked for; what was sent then. */
static const uint8_t *join_group(struct endpoint *endpoint, void *user, struct ib_mc_member_record *asked)
{
	const uint8_t *mad;

	assert_int_equal(endpoint_join(endpoint, ip("239.7.7.7", 0), RDMA_MC_JOIN_FLAG_FULLMEMBER, user), 0);
	mad = sent();
	expect_asked(mad, MAD_METHOD_GET, 0x38);
	sa_answers(mad, 0x0300, RECORD_MC_MEMBER_RECORD, NULL);	/* no group of all */
	mad = sent();
	expect_asked(mad, MAD_METHOD_SET, 0x38);
	record_read(RECORD_MC_MEMBER_RECORD, mad + RECORD, asked);
	assert_int_equal(asked->join_state, SA_JOIN_FULL);
	assert_int_equal(asked->q_key, RDMA_UDP_QKEY);
	asked->mlid = 0xc005;
	return mad;
}

static void a_group_has_a_lid_and_is_left(void **test)
{
	struct endpoint *endpoint = create_ud();
	struct ib_mc_member_record group;
	const struct net_change change = { .ib_port = FAKE_IB_PORT };
	struct endpoint_event event;
	union ibv_gid gid;
	const uint8_t *mad;
	uint16_t lid;
	int user;

	resolve_by_fabric(endpoint);
	mad = join_group(endpoint, &user, &group);
	expect_none();
	sa_answers(mad, 0, RECORD_MC_MEMBER_RECORD, &group);
	event = take(RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_ptr_equal(event.multicast, &user);
	assert_int_equal(event.ud.ah_attr.dlid, 0xc005);
	assert_int_equal(event.ud.ah_attr.is_global, 1);
	assert_int_equal(event.ud.ah_attr.grh.dgid.raw[3], 0x01);
	fake.ops->interface_changed(fake.owner, &change, 0);	/* the manager has forgotten it */
	mad = sent();
	expect_asked(mad, MAD_METHOD_SET, 0x38);
	sa_answers(mad, 0, RECORD_MC_MEMBER_RECORD, &group);
	expect_none();
	fake.ops->interface_changed(fake.owner, &change, 0);
	group.mlid = 0xc006;
	sa_answers(sent(), 0, RECORD_MC_MEMBER_RECORD, &group);
	assert_int_equal(take(RDMA_CM_EVENT_MULTICAST_ERROR).status, -ENETRESET);
	assert_int_equal(endpoint_leave(endpoint, ip("239.7.7.7", 0), &gid, &lid), 0);
	assert_int_equal(lid, 0xc005);
	expect_asked(sent(), MAD_METHOD_DELETE, 0x38);
	mad = join_group(endpoint, &user, &group);
	sa_answers(mad, 0, RECORD_MC_MEMBER_RECORD, &group);
	take(RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_int_equal(endpoint_leave(endpoint, ip("239.7.7.7", 0), &gid, &lid), 0);
	expect_asked(sent(), MAD_METHOD_DELETE, 0x38);
	endpoint_destroy(endpoint);
}

static void the_port_stays_in_a_group_until_its_last_id_leaves(void **test)
{
	struct endpoint *first = create_ud(), *second = create_ud();
	struct endpoint *both[] = { first, second };
	struct ib_mc_member_record group;
	union ibv_gid gid;
	uint16_t lid;

	for (unsigned i = 0; i < 2; i++) {
		resolve_by_fabric(both[i]);
		sa_answers(join_group(both[i], NULL, &group), 0, RECORD_MC_MEMBER_RECORD, &group);
		take(RDMA_CM_EVENT_MULTICAST_JOIN);
	}
	assert_int_equal(endpoint_leave(first, ip("239.7.7.7", 0), &gid, &lid), 0);
	assert_true(fake.first == fake.last);		/* nothing is sent */
	assert_int_equal(endpoint_leave(second, ip("239.7.7.7", 0), &gid, &lid), 0);
	expect_asked(sent(), MAD_METHOD_DELETE, 0x38);
	endpoint_destroy(first);
	endpoint_destroy(second);
}

static void a_join_that_fails_is_told(void **test)
{
	struct endpoint *endpoint = create_ud();
	struct ib_mc_member_record group;
	int user;

	resolve_by_fabric(endpoint);
	sa_answers(join_group(endpoint, &user, &group), 0x0200, RECORD_MC_MEMBER_RECORD, NULL);
	assert_int_equal(take(RDMA_CM_EVENT_MULTICAST_ERROR).status, -EINVAL);
	join_group(endpoint, &user, &group);
	fake_tick(4 * SECOND);
	assert_int_equal(take(RDMA_CM_EVENT_MULTICAST_ERROR).status, -ETIMEDOUT);
	assert_int_equal(endpoint_join(endpoint, ip("239.7.7.8", 0), 0, NULL), 0);
	endpoint_destroy(endpoint);	/* while it is asked */
	fake_tick(9 * SECOND);
	expect_none();
}

static void a_program_that_ended_disconnects(void **test)
{
	struct endpoint *endpoint = create();
	struct cm_message message, reply = { .kind = CM_MESSAGE_REP };
	struct mad_address from = { .link = ROUTE_IB, .ib = { .port = FAKE_IB_PORT, .lid = PEER } };
	struct mad_remote gone = { .lid = PEER };
	uint8_t mad[MAD_BYTES];

	resolve_by_fabric(endpoint);
	assert_int_equal(endpoint_resolve_route(endpoint, 2000), 0);
	sa_answers(sent(), 0, RECORD_PATH_RECORD, &path);
	take(RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(start_connecting(endpoint, NULL, 0), 0);
	assert_true(cm_message_parse(sent(), &message));
	reply.transaction_id = message.transaction_id;
	reply.rep.remote_comm_id = message.req.local_comm_id;
	reply.rep.local_comm_id = 77;
	reply.rep.local_qpn = 7u << 14 | 3;
	cm_message_write(&reply, mad);
	ip_addr_of_lid(from.remote, PEER);
	fake.ops->received(fake.owner, &from, NULL, mad, clock_now_ns());
	take(RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(endpoint_established(endpoint), 0);
	gone.slot = qpn_slot(reply.rep.local_qpn) + 1;		/* another program */
	fake.ops->remote_gone(fake.owner, &gone, 0);
	gone.slot--;
	gone.lid++;						/* of another node */
	fake.ops->remote_gone(fake.owner, &gone, 0);
	expect_none();
	gone.lid--;
	fake.ops->remote_gone(fake.owner, &gone, 0);
	take(RDMA_CM_EVENT_DISCONNECTED);
	endpoint_destroy(endpoint);
}

/* A request of a peer in this partition, which comes by one that both have. */
static void request_comes(struct endpoint *client, uint16_t pkey)
{
	struct mad_address from = { .link = ROUTE_IB, .pkey_index = 1,
				    .ib = { .port = FAKE_IB_PORT, .lid = PEER } };
	struct cm_message message;
	uint8_t mad[MAD_BYTES];

	assert_int_equal(endpoint_resolve_route(client, 2000), 0);
	sa_answers(sent(), 0, RECORD_PATH_RECORD, &path);
	take(RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_int_equal(start_connecting(client, NULL, 0), 0);
	assert_true(cm_message_parse(sent(), &message));
	message.req.pkey = pkey;
	cm_message_write(&message, mad);
	ip_addr_of_lid(from.remote, PEER);
	fake.ops->received(fake.owner, &from, NULL, mad, clock_now_ns());
}

static void a_request_for_a_partition_that_the_port_lacks_is_refused(void **test)
{
	struct endpoint *listener = listen_on(ip("0.0.0.0", 7174), 10), *client = create();
	struct cm_message answer;

	resolve_by_fabric(client);
	request_comes(client, 0x8077);
	assert_true(cm_message_parse(sent(), &answer));
	assert_int_equal(answer.kind, CM_MESSAGE_REJ);
	assert_int_equal(answer.rej.reason, CM_REJECT_INVALID_GID);
	assert_int_equal(answer.rej.info_bytes, 16);
	assert_memory_equal(answer.rej.info, fake.ib.gid.raw, 16);
	assert_int_equal(sent_to.ib.lid, PEER);
	expect_none();
	endpoint_destroy(client);
	endpoint_destroy(listener);
}

/* Full or limited: whether both may talk was seen when the packet came. */
static void a_request_for_a_partition_of_the_port_is_taken(void **test)
{
	struct endpoint *listener = listen_on(ip("0.0.0.0", 7174), 10), *client = create();

	resolve_by_fabric(client);
	request_comes(client, 0x0005);
	assert_true(fake.first == fake.last);
	assert_true(is_readable(channel));
	endpoint_destroy(client);
	endpoint_destroy(listener);
}

#define fabric_test(name) cmocka_unit_test_setup_teardown(name, open_by_fabric, close_channel)

int main(void)
{
	const struct CMUnitTest tests[] = {
		fabric_test(the_path_is_the_managers),
		fabric_test(what_is_no_path_is_a_route_error),
		fabric_test(a_path_can_be_given),
		fabric_test(a_group_has_a_lid_and_is_left),
		fabric_test(the_port_stays_in_a_group_until_its_last_id_leaves),
		fabric_test(a_join_that_fails_is_told),
		fabric_test(a_program_that_ended_disconnects),
		fabric_test(a_request_for_a_partition_that_the_port_lacks_is_refused),
		fabric_test(a_request_for_a_partition_of_the_port_is_taken),
	};

	return cmocka_run_group_tests_name("endpoint at a fabric", tests, NULL, NULL);
}
