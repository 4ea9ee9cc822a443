/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What objects have in common, and those without a test of their own: address handles, SRQs,
 * multicast groups; and that closing a context leaves nothing of them.
 */
#include <sys/resource.h>

#include "base/ip_addr.h"
#include "device/device_test.h"

/* ---- all of them ---- */

static void numbers_are_never_zero_nor_given_twice(void **state)
{
	uint32_t number;

	hca->next_number = UINT32_MAX - 1;
	assert_int_equal(object_number(hca), UINT32_MAX);
	number = object_number(hca);
	assert_int_equal(number, 1);
	assert_int_equal(object_number(hca), 2);
}

static void in_a_child_nothing_is_touched(void **state)
{
	struct list node;

	assert_false(context_is_dead(context, "test"));
	context->abandoned = true;
	assert_true(context_is_dead(context, "test"));
	assert_int_equal(hca_dealloc_pd(context, pd), EIO);
	assert_int_equal(hca_dereg_mr(context, mr), EIO);
	context->abandoned = false;
	object_enlist(context, &context->pds, &node);
	assert_ptr_equal(context->pds.prev, &node);
	object_delist(context, &node);
	assert_ptr_not_equal(context->pds.prev, &node);
	assert_true(is_free(&hca->objects));
}

static struct {
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	uint32_t acked, got;
	_Atomic bool over;
} acks = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, 1, 3, false };

static void *waits_for_acks(void *unused)
{
	object_wait_for_acks(&acks.mutex, &acks.cond, &acks.acked, &acks.got,
			&(struct ack_names){ "ibv_destroy_x", "ibv_ack_x" });
	atomic_store(&acks.over, true);
	return NULL;
}

static void ack(void)
{
	pthread_mutex_lock(&acks.mutex);
	acks.acked++;
	pthread_cond_signal(&acks.cond);
	pthread_mutex_unlock(&acks.mutex);
	thread_sleep_ns(20 * MS);
}

static void all_acknowledgements_are_waited_for(void **state)
{
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, waits_for_acks, NULL), 0);
	thread_sleep_ns(20 * MS);
	ack();
	assert_false(atomic_load(&acks.over));
	ack();
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(atomic_load(&acks.over));
}

/* ---- address handles ---- */

static void an_ah_knows_its_way_and_holds_its_pd(void **state)
{
	uint32_t users = atomic_load(&pd->users);
	struct ibv_ah_attr attr = here();
	struct ah *ah = NULL;

	attr.grh.traffic_class = 0x40;
	assert_int_equal(hca_create_ah(context, pd, &attr, &ah), 0);
	assert_int_equal(atomic_load(&pd->users), users + 1);
	assert_true(ah->route.loopback);
	assert_memory_equal(ah->route.destination, attr.grh.dgid.raw, 16);
	assert_int_equal(hca_destroy_ah(context, ah), 0);
	assert_int_equal(atomic_load(&pd->users), users);
	ah = NULL;
	attr.grh.sgid_index = 200;
	assert_int_not_equal(hca_create_ah(context, pd, &attr, &ah), 0);
	assert_null(ah);
	assert_int_equal(atomic_load(&pd->users), users);
}

/* An IPv4 header in the last 20 of the 40 bytes (annex A17.4.5.2). */
static void ipv4_grh(uint8_t grh[40], uint8_t traffic_class, const char *from, const char *to)
{
	memset(grh, 0, 40);
	grh[20] = 0x45;
	grh[21] = traffic_class;
	memcpy(grh + 32, from, 4);
	memcpy(grh + 36, to, 4);
}

static void an_answer_takes_the_way_back(void **state)
{
	struct ibv_ah_attr attr, ours = here();
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	uint8_t grh[40];

	ipv4_grh(grh, 0x42 | 3, "\x7f\0\0\x09", "\x7f\0\0\1");
	assert_int_equal(hca_ah_attr_from_wc(context, 1, &wc, (void *)grh, &attr), 0);
	assert_int_equal(attr.is_global, 1);
	assert_int_equal(attr.port_num, 1);
	assert_int_equal(attr.grh.sgid_index, ours.grh.sgid_index);
	assert_memory_equal(attr.grh.dgid.raw + 10, "\xff\xff\x7f\0\0\x09", 6);
	assert_int_equal(attr.grh.traffic_class, 0x40);	/* answers have met no congestion */
	wc.wc_flags = 0;
	assert_int_equal(hca_ah_attr_from_wc(context, 1, &wc, (void *)grh, &attr), EINVAL);
}

static void an_answer_to_a_group_comes_from_an_address_of_the_family(void **state)
{
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
	struct ibv_ah_attr attr;
	struct hca_gid gid;
	uint8_t grh[40];

	ipv4_grh(grh, 0, "\x7f\0\0\x09", "\xe0\1\2\3");
	assert_int_equal(hca_ah_attr_from_wc(context, 1, &wc, (void *)grh, &attr), 0);
	assert_int_equal(hca_query_gid(context, 1, attr.grh.sgid_index, &gid), 0);
	assert_true(ip_addr_is_ipv4(gid.gid.raw));
	memset(grh, 0, sizeof(grh));
	grh[0] = 0x60;
	memcpy(grh + 8, "\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1", 16);
	memcpy(grh + 24, "\xff\x0e\0\0\0\0\0\0\0\0\0\0\0\0\0\1", 16);
	assert_int_equal(hca_ah_attr_from_wc(context, 1, &wc, (void *)grh, &attr), 0);
	assert_int_equal(hca_query_gid(context, 1, attr.grh.sgid_index, &gid), 0);
	assert_false(ip_addr_is_ipv4(gid.gid.raw));
}

/* ---- SRQs ---- */

static int create_srq(uint32_t max_wr, uint32_t max_sge, struct srq **srq)
{
	struct ibv_srq_init_attr_ex attr = { .attr = { max_wr, max_sge, 0 }, .pd = &pd->ibv };

	return hca_create_srq(context, &attr, srq);
}

static void an_srq_has_bounds(void **state)
{
	uint32_t users = atomic_load(&pd->users);
	struct ibv_srq_attr attr = { .max_wr = LIMIT_SRQ_WR + 1 };
	struct srq *srq = NULL;

	assert_int_equal(create_srq(0, 1, &srq), EINVAL);
	assert_int_equal(create_srq(LIMIT_SRQ_WR + 1, 1, &srq), EINVAL);
	assert_int_equal(create_srq(1, LIMIT_SGE + 1, &srq), EINVAL);
	assert_null(srq);
	assert_int_equal(atomic_load(&pd->users), users);
	assert_int_equal(create_srq(16, LIMIT_SGE, &srq), 0);
	assert_int_equal(atomic_load(&pd->users), users + 1);
	assert_int_equal(hca_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	attr.max_wr = 0;
	assert_int_equal(hca_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
	attr.max_wr = 32;
	assert_int_equal(hca_modify_srq(srq, &attr, IBV_SRQ_MAX_WR), 0);
	memset(&attr, 0, sizeof(attr));
	assert_int_equal(hca_query_srq(srq, &attr), 0);
	assert_int_equal(attr.max_wr, 32);
	assert_int_equal(attr.max_sge, LIMIT_SGE);
	assert_true(is_free(&srq->queue.lock));
	assert_int_equal(hca_destroy_srq(context, srq), 0);
	assert_int_equal(atomic_load(&pd->users), users);
}

static void an_srq_in_use_stays(void **state)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_RC);
	struct srq *srq;
	struct qp *qp;

	assert_int_equal(create_srq(16, 1, &srq), 0);
	attr.srq = &srq->ibv;
	assert_int_equal(hca_create_qp(context, &attr, &qp), 0);
	assert_int_equal(hca_destroy_srq(context, srq), EBUSY);
	assert_int_equal(hca_destroy_qp(context, qp), 0);
	assert_int_equal(hca_destroy_srq(context, srq), 0);
}

/* A limit above what is there is an event at once. */
static void an_event_of_an_srq_that_is_gone_is_not_got(void **state)
{
	struct ibv_srq_attr attr = { .srq_limit = 5 };
	struct srq *srq;

	assert_int_equal(create_srq(16, 1, &srq), 0);
	assert_int_equal(hca_modify_srq(srq, &attr, IBV_SRQ_LIMIT), 0);
	assert_true(event_queue_pending(context->async));
	assert_int_equal(hca_destroy_srq(context, srq), 0);
	assert_false(event_queue_pending(context->async));
}

/* ---- limits (tests/abi/limits_test.c makes that many) ---- */

static void what_is_destroyed_makes_room(void **state)
{
	struct ibv_ah_attr attr = here();
	struct ah *ah, *second;

	hca->counts[OBJECT_AH] = LIMIT_AH - 1;
	assert_int_equal(hca_create_ah(context, pd, &attr, &ah), 0);
	assert_int_equal(hca_create_ah(context, pd, &attr, &second), ENOMEM);
	assert_int_equal(hca_destroy_ah(context, ah), 0);
	assert_int_equal(hca_create_ah(context, pd, &attr, &ah), 0);
	hca->counts[OBJECT_AH] = 1;
}

static void what_fails_takes_no_room(void **state)
{
	struct ibv_ah_attr nowhere = here();
	struct ah *ah;

	nowhere.grh.sgid_index = 99;
	assert_int_not_equal(hca_create_ah(context, pd, &nowhere, &ah), 0);
	assert_int_equal(hca->counts[OBJECT_AH], 0);
	assert_int_equal(hca->counts[OBJECT_PD], 1);
	assert_int_equal(hca->counts[OBJECT_CQ], 1);
}

static int ah_to(uint8_t a, uint8_t b, uint8_t c, uint8_t d)
{
	struct ibv_ah_attr attr = here();
	struct ah *ah;
	int err;

	memcpy(attr.grh.dgid.raw + 12, (uint8_t[]){ a, b, c, d }, 4);
	err = hca_create_ah(context, pd, &attr, &ah);
	if (!err)
		assert_int_equal(hca_destroy_ah(context, ah), 0);
	return err;
}

/* Known ones are kept, until the kernel's tables change. */
static void an_address_without_a_route_is_refused_while_it_has_none(void **state)
{
	unsigned i;

	assert_int_equal(ah_to(0, 0, 0, 0), EINVAL);
	assert_int_equal(ah_to(198, 51, 100, 7), ENETUNREACH);
	if (system("ip route add 198.51.100.0/24 dev lo"))
		skip();
	for (i = 0; i < 3; i++)
		assert_int_equal(ah_to(198, 51, 100, 7), 0);
	assert_int_equal(system("ip route replace unreachable 198.51.100.0/24"), 0);
	assert_int_equal(ah_to(198, 51, 100, 7), EHOSTUNREACH);
}

/* A neighbour that does not answer is waited for, and found when it is there. */
static void an_address_whose_neighbour_is_silent_is_refused(void **state)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	uint8_t own[16] = { [10] = 0xff, 0xff, 10, 77, 0, 1 };
	struct hca_context *veth;
	struct pd *veth_pd;
	struct ah *ah;

	if (system("ip link add rt0 type veth peer name rt1 && ip address add 10.77.0.1/24 dev rt0 && "
		   "ip link set rt0 up && ip link set rt1 up"))
		skip();
	assert_int_equal(hca_open("vb_rt0", &veth), 0);
	assert_int_equal(hca_alloc_pd(veth, &veth_pd), 0);
	attr.grh.sgid_index = (uint8_t)gid_table_find(veth->port, PORT_GID_ROCE_V2, own);
	memcpy(attr.grh.dgid.raw, own, 16);
	attr.grh.dgid.raw[15] = 99;
	assert_int_equal(hca_create_ah(veth, veth_pd, &attr, &ah), ETIMEDOUT);
	assert_int_equal(system("ip neigh replace 10.77.0.99 lladdr 02:00:00:00:00:63 dev rt0"), 0);
	assert_int_equal(hca_create_ah(veth, veth_pd, &attr, &ah), 0);
	assert_int_equal(hca_destroy_ah(veth, ah), 0);
	assert_int_equal(hca_dealloc_pd(veth, veth_pd), 0);
	hca_close(veth);
	assert_int_equal(system("ip link del rt0"), 0);
}

/* At once, and not by the first packet. */
static void without_descriptors_nothing_is_connected(void **state)
{
	const uint32_t elsewhere = 0x550005;	/* of another process */
	struct ibv_ah_attr attr = here();
	struct rlimit before, none;
	struct qp *qp = qp_make(IBV_QPT_RC);
	struct ah *ah;
	int next = dup(0);

	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = (struct rlimit){ .rlim_cur = (rlim_t)next, .rlim_max = before.rlim_max };
	assert_int_equal(to_init(qp), 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_int_equal(to_rtr(qp, elsewhere, IBV_MTU_1024), EMFILE);
	assert_int_equal(qp->state, IBV_QPS_INIT);
	assert_int_equal(hca_create_ah(context, pd, &attr, &ah), EMFILE);
	assert_int_equal(hca->counts[OBJECT_AH], 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(hca_create_ah(context, pd, &attr, &ah), 0);
	assert_int_equal(to_rtr(qp, elsewhere, IBV_MTU_1024), 0);
	assert_int_equal(hca_destroy_ah(context, ah), 0);
}

/* ---- multicast ---- */

static union ibv_gid group_gid(uint8_t last)
{
	return (union ibv_gid){ .raw = { [10] = 0xff, 0xff, 239, 1, 2, last } };
}

/* A packet to the group, from a QP of @number that is not here. */
static void deliver_from(uint8_t host, uint8_t last, uint32_t number)
{
	static const uint8_t payload[8] = "to all";
	struct packet packet = { .op = opcode_get(OPCODE_UD_SEND_ONLY), .pkey = PKEY_DEFAULT,
				 .dest_qpn = QPN_MULTICAST, .deth = { QKEY, number },
				 .payload = payload, .payload_bytes = 8 };
	struct rx_info info = { .route.source = { [10] = 0xff, 0xff, 127, 0, 0, host } };
	union ibv_gid gid = group_gid(last);

	memcpy(info.route.destination, gid.raw, 16);
	lock_acquire(&hca->engine.progress);
	multicast_deliver(hca, &packet, &info, clock_now_ns());
	progress_unlock(&hca->engine);
}

static void deliver(uint8_t last, uint32_t number)
{
	deliver_from(9, last, number);
}

static void a_group_is_for_ud_and_multicast_addresses(void **state)
{
	union ibv_gid gid = group_gid(3), unicast = here().grh.dgid;
	struct qp *rc = qp_make(IBV_QPT_RC), *ud = qp_rts(IBV_QPT_UD);

	assert_int_equal(hca_attach_mcast(rc, &gid, 0), EINVAL);
	assert_int_equal(hca_attach_mcast(ud, &unicast, 0), EINVAL);
	assert_int_equal(hca_detach_mcast(ud, &gid, 0), EINVAL);
	assert_true(list_empty(&hca->groups));
	assert_true(is_free(&hca->engine.progress));
	assert_true(is_free(&hca->objects));
}

static void a_qp_that_is_attached_stays(void **state)
{
	union ibv_gid gid = group_gid(3);
	struct qp *qp = qp_rts(IBV_QPT_UD);

	assert_int_equal(hca_attach_mcast(qp, &gid, 0), 0);
	assert_int_equal(hca_attach_mcast(qp, &gid, 0), 0);	/* once is enough */
	assert_int_equal(atomic_load(&qp->multicast), 1);
	assert_int_equal(hca_destroy_qp(context, qp), EBUSY);
	assert_int_equal(hca_detach_mcast(qp, &gid, 0), 0);
	assert_true(list_empty(&hca->groups));
	assert_int_equal(hca_detach_mcast(qp, &gid, 0), EINVAL);
	assert_int_equal(hca_destroy_qp(context, qp), 0);
}

static void all_of_a_group_hear(void **state)
{
	union ibv_gid gid = group_gid(3), other = group_gid(4);
	struct qp *qp[3];
	struct ibv_wc wc;
	unsigned i;

	for (i = 0; i < 3; i++) {
		qp[i] = qp_rts(IBV_QPT_UD);
		assert_int_equal(hca_attach_mcast(qp[i], i < 2 ? &gid : &other, 0), 0);
		assert_int_equal(post_recv(qp[i], i), 0);
	}
	deliver(3, 0x777777);
	for (i = 0; i < 2; i++) {
		assert_int_equal(cq_take(cq, 1, &wc), 1);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_true(is_free(&qp[i]->lock));
	}
	deliver_from(1, 4, qp[2]->number);	/* who said it, too */
	assert_int_equal(cq_take(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 2);
	deliver(5, 0x777777);
	assert_int_equal(counted(COUNTER_RX_MULTICAST), 1);
	multicast_detach_all(hca, qp[0]);
	assert_int_equal(atomic_load(&qp[0]->multicast), 0);
	assert_int_equal(atomic_load(&qp[1]->multicast), 1);
}

/* The GRH names 127.0.0.1 then, in its IPv4 form. */
static void an_ipv6_group_travels_by_ipv4_on_lo(void **state)
{
	static const uint8_t ipv6[16] = { [15] = 1 };
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh.dgid.raw = { 0xff, 0x0e, [15] = 9 } };
	uint8_t alias[16];
	struct ah *ah;
	uint32_t index = gid_table_find(context->port, PORT_GID_ROCE_V2, ipv6);

	if (index == GID_TABLE_SIZE)
		skip();
	attr.grh.sgid_index = (uint8_t)index;
	net_multicast_alias(attr.grh.dgid.raw, alias);
	assert_int_equal(hca_create_ah(context, pd, &attr, &ah), 0);
	assert_memory_equal(ah->route.destination, alias, 16);
	assert_memory_equal(ah->route.source, here().grh.dgid.raw, 16);
	assert_false(ah->route.loopback);
	assert_int_equal(hca_destroy_ah(context, ah), 0);
}

static void who_blocks_its_own_hears_its_number_of_other_hosts(void **state)
{
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_UD);
	union ibv_gid gid = group_gid(3);
	struct ibv_wc wc;
	struct qp *qp;

	attr.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	attr.create_flags = IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
	assert_int_equal(hca_create_qp(context, &attr, &qp), 0);
	assert_int_equal(to_init(qp), 0);
	assert_int_equal(to_rtr(qp, 0, IBV_MTU_1024), 0);
	assert_int_equal(to_rts(qp), 0);
	assert_int_equal(hca_attach_mcast(qp, &gid, 0), 0);
	assert_int_equal(post_recv(qp, 7), 0);
	deliver_from(1, 3, qp->number);
	assert_int_equal(cq_take(cq, 1, &wc), 0);
	deliver_from(9, 3, qp->number);
	assert_int_equal(cq_take(cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, 7);
}

/* ---- closing ---- */

/* Events that were got and not acknowledged do not hold it up. */
static void closing_leaves_nothing(void **state)
{
	struct ibv_alloc_dm_attr dm_attr = { .length = 64 };
	struct ibv_qp_init_attr_ex attr = qp_attr(IBV_QPT_UD);
	union ibv_gid gid = group_gid(3);
	struct ibv_ah_attr ah_attr = here();
	struct comp_channel *channel;
	struct cq *with_channel;
	struct mr *dm_mr;
	struct srq *srq;
	struct ah *ah;
	struct mw *mw;
	struct dm *dm;
	struct qp *qp;

	assert_int_equal(hca_create_comp_channel(context, &channel), 0);
	assert_int_equal(cq_make(&channel->ibv, &with_channel), 0);
	assert_int_equal(create_srq(16, 1, &srq), 0);
	assert_int_equal(hca_alloc_mw(context, pd, IBV_MW_TYPE_2, &mw), 0);
	assert_int_equal(hca_alloc_dm(context, &dm_attr, &dm), 0);
	assert_int_equal(hca_reg_dm_mr(context, pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED, &dm_mr), 0);
	assert_int_equal(hca_create_ah(context, pd, &ah_attr, &ah), 0);
	attr.recv_cq = (struct ibv_cq *)&with_channel->ibv;
	attr.srq = &srq->ibv;
	assert_int_equal(hca_create_qp(context, &attr, &qp), 0);
	assert_int_equal(hca_attach_mcast(qp, &gid, 0), 0);
	qp->async_events_got = srq->async_events_got = 1;
	cq->async_events_got = with_channel->comp_events_got = 1;
	alarm(HANGING_S);
	file_destroy_objects(context->file);
	assert_true(list_empty(&context->qps) && list_empty(&context->srqs));
	assert_true(list_empty(&context->cqs) && list_empty(&context->channels));
	assert_true(list_empty(&context->mws) && list_empty(&context->mrs));
	assert_true(list_empty(&context->dms) && list_empty(&context->ahs));
	assert_true(list_empty(&context->pds));
	assert_true(list_empty(&hca->groups));
	assert_int_equal(hca->dm_bytes, 0);
	assert_int_equal(hca->engine.qps.count, 0);
}

static void a_counter_is_attached_before_use_and_until_the_qp_ends(void **state)
{
	struct qp *qp = qp_make(IBV_QPT_RC);
	struct comp_counter *counter, *other;
	uint64_t value;

	assert_int_equal(hca_create_comp_counter(context, false, &counter), 0);
	assert_int_equal(hca_create_comp_counter(context, true, &other), 0);
	assert_int_equal(hca_attach_comp_counter(qp, counter, 1u << COMP_SEND | 1u << COMP_RECV), 0);
	assert_int_equal(hca_attach_comp_counter(qp, other, 1u << COMP_RECV), EBUSY);
	assert_int_equal(hca_attach_comp_counter(qp, other, 1u << COMP_OPERATIONS), EOPNOTSUPP);
	assert_int_equal(hca_attach_comp_counter(qp, other, 0), EINVAL);
	assert_int_equal(hca_destroy_comp_counter(context, counter), EBUSY);
	assert_int_equal(hca_destroy_qp(context, qp), 0);
	qp = qp_rts(IBV_QPT_UD);
	assert_int_equal(hca_attach_comp_counter(qp, counter, 1u << COMP_SEND), EINVAL);
	assert_int_equal(hca_set_comp_counter(counter, true, 3), 0);
	assert_int_equal(hca_increase_comp_counter(counter, true, 4), 0);
	assert_int_equal(hca_read_comp_counter(counter, true, &value), 0);
	assert_int_equal(value, 7);
	assert_int_equal(hca_read_comp_counter(counter, false, &value), 0);
	assert_int_equal(value, 0);
	assert_int_equal(hca_destroy_comp_counter(context, counter), 0);
	assert_int_equal(hca_destroy_qp(context, qp), 0);
	/* The other one ends with its context. */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(numbers_are_never_zero_nor_given_twice),
		DEVICE_TEST(in_a_child_nothing_is_touched),
		DEVICE_TEST(all_acknowledgements_are_waited_for),
		DEVICE_TEST(an_ah_knows_its_way_and_holds_its_pd),
		DEVICE_TEST(an_answer_takes_the_way_back),
		DEVICE_TEST(an_answer_to_a_group_comes_from_an_address_of_the_family),
		DEVICE_TEST(an_srq_has_bounds),
		DEVICE_TEST(an_srq_in_use_stays),
		DEVICE_TEST(an_event_of_an_srq_that_is_gone_is_not_got),
		DEVICE_TEST(what_is_destroyed_makes_room),
		DEVICE_TEST(what_fails_takes_no_room),
		DEVICE_TEST(an_address_without_a_route_is_refused_while_it_has_none),
		DEVICE_TEST(an_address_whose_neighbour_is_silent_is_refused),
		DEVICE_TEST(without_descriptors_nothing_is_connected),
		DEVICE_TEST(a_group_is_for_ud_and_multicast_addresses),
		DEVICE_TEST(a_qp_that_is_attached_stays),
		DEVICE_TEST(an_ipv6_group_travels_by_ipv4_on_lo),
		DEVICE_TEST(all_of_a_group_hear),
		DEVICE_TEST(who_blocks_its_own_hears_its_number_of_other_hosts),
		DEVICE_TEST(closing_leaves_nothing),
		DEVICE_TEST(a_counter_is_attached_before_use_and_until_the_qp_ends),
	};

	DEVICE_TESTS(tests);
}
