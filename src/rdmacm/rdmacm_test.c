/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids, events, QPs: what this layer does between the connection manager and the application. */
#include <fcntl.h>

#include "rdmacm/fake_endpoint_test.h"

static struct sockaddr_in local = { .sin_family = AF_INET };
static struct rdma_event_channel *channel;
static struct rdma_cm_id *id;

static struct ibv_qp_init_attr small(enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = type,
	};
}

static int set_up(void **state)
{
	memset(&fake, 0, sizeof(fake));
	local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	channel = rdma_create_event_channel();
	assert_non_null(channel);
	return rdma_create_id(channel, &id, &local, RDMA_PS_TCP);
}

/* Nothing is left behind, whatever the test did. */
static int tear_down(void **state)
{
	if (id) {
		rdma_destroy_qp(id);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	rdma_destroy_event_channel(channel);
	assert_int_equal(fake.open_channels, 0);
	assert_int_equal(fake.endpoints, 0);
	return 0;
}

static void resolve(void)
{
	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&local), 0);
}

static void make_qp(void)
{
	struct ibv_qp_init_attr attr = small(id->qp_type);

	resolve();
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	fake.qp = id->qp;
}

static struct rdma_cm_event *next_event(void)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(channel, &event), 0);
	return event;
}

static void expect_event(enum rdma_cm_event_type kind, int status)
{
	struct rdma_cm_event *event = next_event();

	assert_string_equal(rdma_event_str(event->event), rdma_event_str(kind));
	assert_int_equal(event->status, status);
	assert_ptr_equal(event->id, id);
	assert_int_equal(rdma_ack_cm_event(event), 0);
}

static void expect_no_event(void)
{
	struct rdma_cm_event *event;

	errno = 0;
	assert_int_equal(rdma_get_cm_event(channel, &event), -1);
	assert_int_equal(errno, EAGAIN);
}

static enum ibv_qp_state qp_state(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(id->qp, &attr, IBV_QP_STATE, &init), 0);
	return attr.qp_state;
}

/* ---- ids and addresses ---- */

static void an_id_has_what_it_was_created_with(void **state)
{
	struct rdma_cm_id *datagram;

	assert_ptr_equal(id->channel, channel);
	assert_ptr_equal(id->context, &local);
	assert_int_equal(id->ps, RDMA_PS_TCP);
	assert_int_equal(id->qp_type, IBV_QPT_RC);
	assert_int_equal(rdma_create_id(channel, &datagram, NULL, RDMA_PS_IPOIB), 0);
	assert_int_equal(datagram->qp_type, IBV_QPT_UD);
	assert_int_equal(rdma_destroy_id(datagram), 0);
}

static void what_cannot_be_created_leaves_nothing(void **state)
{
	struct rdma_cm_id *none = NULL;

	assert_int_equal(rdma_create_id(NULL, &none, NULL, RDMA_PS_IB + 1), -1);
	assert_int_equal(errno, EPROTONOSUPPORT);
	assert_null(none);
	assert_int_equal(fake.open_channels, 1);
}

static void binding_to_an_address_gives_a_device_to_any_none(void **state)
{
	struct sockaddr_in any = { .sin_family = AF_INET };

	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	assert_null(id->verbs);
	assert_null(id->pd);
	resolve();
	assert_non_null(id->verbs);
	assert_non_null(id->pd);
	assert_ptr_equal(id->pd->context, id->verbs);
	assert_int_equal(id->port_num, 1);
	assert_int_equal(rdma_get_src_port(id), htons(7471));
	assert_int_equal(id->route.addr.addr.ibaddr.pkey, htons(0xffff));
}

static void ids_share_an_open_device_and_its_domain(void **state)
{
	struct ibv_context **list = rdma_get_devices(NULL);
	struct rdma_cm_id *first = id;
	bool listed = false;

	resolve();
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	resolve();
	assert_ptr_equal(first->verbs, id->verbs);
	assert_ptr_equal(first->pd, id->pd);
	for (unsigned i = 0; list[i]; i++)
		listed |= list[i] == id->verbs;
	assert_true(listed);
	rdma_free_devices(list);
	assert_int_equal(rdma_destroy_id(first), 0);
}

static void an_unknown_family_is_refused(void **state)
{
	struct sockaddr strange = { .sa_family = AF_UNIX };

	assert_int_equal(rdma_bind_addr(id, &strange), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_resolve_addr(id, NULL, &strange, 100), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_resolve_addr(id, &strange, (struct sockaddr *)&local, 100), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_resolve_addr(id, NULL, NULL, 100), -1);
	assert_int_equal(errno, EINVAL);
}

/* ---- events ---- */

static void an_asynchronous_call_returns_before_its_event(void **state)
{
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&local, 100), 0);
	assert_null(id->verbs);
	tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	expect_event(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_non_null(id->verbs);
	assert_int_equal(rdma_resolve_route(id, 100), 0);
	tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	assert_int_equal(id->route.num_paths, 1);
	assert_int_equal(id->route.path_rec->mtu, 5);
}

static void an_address_without_a_device_is_an_error(void **state)
{
	fake.without_device = true;
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&local, 100), 0);
	tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	expect_event(RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
}

static void a_channel_without_events_says_so(void **state)
{
	expect_no_event();
	assert_int_equal(rdma_get_cm_event(channel, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_ack_cm_event(NULL), -1);
	assert_int_equal(errno, EINVAL);
}

static void a_synchronous_call_waits_and_leaves_its_event(void **state)
{
	struct rdma_cm_id *own;

	fake.answers = true;
	assert_int_equal(rdma_create_id(NULL, &own, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(fake.open_channels, 2);
	assert_int_equal(rdma_resolve_addr(own, NULL, (struct sockaddr *)&local, 100), 0);
	assert_int_equal(own->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(own, 100), 0);
	assert_int_equal(own->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	fake.answer = RDMA_CM_EVENT_ROUTE_ERROR;
	fake.answer_status = -EHOSTUNREACH;
	assert_int_equal(rdma_resolve_route(own, 100), -1);
	assert_int_equal(errno, EHOSTUNREACH);
	fake.answer = RDMA_CM_EVENT_REJECTED;
	fake.answer_status = 28;
	assert_int_equal(rdma_resolve_route(own, 100), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_int_equal(rdma_destroy_id(own), 0);
}

static void migration_changes_the_mode(void **state)
{
	struct rdma_cm_id *own;

	fake.answers = true;
	assert_int_equal(rdma_create_id(NULL, &own, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(own, NULL, (struct sockaddr *)&local, 100), 0);
	assert_int_equal(rdma_migrate_id(own, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_migrate_id(own, channel), 0);
	assert_ptr_equal(own->channel, channel);
	assert_null(own->event);
	assert_int_equal(fake.open_channels, 1);
	assert_int_equal(rdma_resolve_route(own, 100), 0);
	assert_null(own->event);
	rdma_ack_cm_event(next_event());
	assert_int_equal(rdma_migrate_id(own, NULL), 0);
	assert_int_equal(fake.open_channels, 2);
	assert_int_equal(rdma_resolve_route(own, 100), 0);
	assert_non_null(own->event);
	assert_int_equal(rdma_destroy_id(own), 0);
}

/* ---- QPs ---- */

static void a_qp_needs_a_device(void **state)
{
	struct ibv_qp_init_attr attr = small(IBV_QPT_RC);

	assert_int_equal(rdma_create_qp(id, NULL, &attr), -1);
	assert_int_equal(errno, EINVAL);
}

static void a_qp_gets_what_the_application_does_not_give(void **state)
{
	struct ibv_qp_init_attr attr = small(IBV_QPT_RC);

	resolve();
	assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
	assert_int_equal(qp_state(), IBV_QPS_INIT);
	assert_ptr_equal(id->qp->pd, id->pd);
	assert_ptr_equal(attr.send_cq, id->send_cq);
	assert_ptr_equal(attr.recv_cq, id->recv_cq);
	assert_ptr_not_equal(id->send_cq, id->recv_cq);
	assert_ptr_equal(id->send_cq->cq_context, id);
	assert_ptr_equal(id->send_cq->channel, id->send_cq_channel);
	assert_ptr_equal(id->recv_cq->channel, id->recv_cq_channel);
	assert_int_equal(rdma_create_qp(id, NULL, &attr), -1);
	assert_int_equal(errno, EINVAL);
	rdma_destroy_qp(id);
	assert_null(id->qp);
	assert_null(id->send_cq);
	assert_null(id->recv_cq_channel);
}

static void what_the_application_gives_stays_its_own(void **state)
{
	struct ibv_qp_init_attr attr = small(IBV_QPT_RC);
	struct ibv_cq *cq;
	struct ibv_pd *pd;

	resolve();
	cq = ibv_create_cq(id->verbs, 8, NULL, NULL, 0);
	pd = ibv_alloc_pd(id->verbs);
	assert_non_null(cq);
	attr.send_cq = attr.recv_cq = cq;
	assert_int_equal(rdma_create_qp(id, pd, &attr), 0);
	assert_null(id->send_cq);
	assert_null(id->recv_cq_channel);
	assert_ptr_equal(id->pd, pd);
	rdma_destroy_qp(id);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void a_domain_of_another_opening_is_refused(void **state)
{
	struct ibv_qp_init_attr attr = small(IBV_QPT_RC);
	struct ibv_context *verbs;
	struct ibv_pd *pd;

	resolve();
	verbs = ibv_open_device(id->verbs->device);
	pd = ibv_alloc_pd(verbs);
	assert_non_null(pd);
	assert_int_equal(rdma_create_qp(id, pd, &attr), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(verbs), 0);
}

static void a_qp_that_cannot_be_made_leaves_no_cq(void **state)
{
	struct ibv_qp_init_attr attr = small(IBV_QPT_RC);

	resolve();
	attr.cap.max_send_sge = 1u << 20;
	assert_int_equal(rdma_create_qp(id, NULL, &attr), -1);
	assert_int_equal(errno, EINVAL);
	assert_null(id->qp);
	assert_null(id->send_cq);
	assert_null(id->send_cq_channel);
}

static void a_datagram_qp_is_ready_at_once(void **state)
{
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	make_qp();
	assert_int_equal(qp_state(), IBV_QPS_RTS);
}

static void an_srq_of_the_id_is_used_by_its_qp(void **state)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };

	resolve();
	assert_int_equal(rdma_create_srq(id, NULL, &attr), 0);
	assert_ptr_equal(id->srq->pd, id->pd);
	assert_int_equal(rdma_create_srq(id, NULL, &attr), -1);
	make_qp();
	assert_ptr_equal(id->qp->srq, id->srq);
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	assert_null(id->srq);
}

/* ---- connections ---- */

static void the_library_completes_a_connection_of_its_qp(void **state)
{
	make_qp();
	assert_int_equal(rdma_connect(id, NULL), 0);
	tell(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	expect_event(RDMA_CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(qp_state(), IBV_QPS_RTS);
	assert_int_equal(to_id(id)->endpoint->established, 1);
}

static void without_a_qp_the_application_completes_it(void **state)
{
	struct rdma_conn_param parameters = { .qp_num = 0x1234, .srq = 1 };

	resolve();
	assert_int_equal(rdma_connect(id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_connect(id, &parameters), 0);
	assert_int_equal(to_id(id)->endpoint->parameters.qp_num, 0x1234);
	assert_int_equal(to_id(id)->endpoint->parameters.srq, 1);
	tell(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	expect_event(RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	assert_int_equal(to_id(id)->endpoint->established, 0);
	assert_int_equal(rdma_establish(id), 0);
	assert_int_equal(to_id(id)->endpoint->established, 1);
}

static void a_qp_that_cannot_follow_ends_the_connection(void **state)
{
	make_qp();
	assert_int_equal(rdma_establish(id), -1);
	fake.attributes_error = EINVAL;
	tell(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	tell(id, RDMA_CM_EVENT_REJECTED, 28);
	tell(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	tell(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	expect_event(RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
	assert_int_equal(qp_state(), IBV_QPS_ERR);
	assert_int_equal(to_id(id)->endpoint->established, 0);
	expect_event(RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	assert_int_equal(to_id(id)->endpoint->held, 0);
}

static void a_rejection_moves_the_qp_to_error(void **state)
{
	make_qp();
	tell(id, RDMA_CM_EVENT_REJECTED, 28);
	expect_event(RDMA_CM_EVENT_REJECTED, 28);
	assert_int_equal(qp_state(), IBV_QPS_ERR);
}

static void parameters_are_checked_and_completed(void **state)
{
	struct rdma_conn_param parameters = {
		.private_data = "tail", .private_data_len = 4,
		.responder_resources = RDMA_MAX_RESP_RES, .initiator_depth = 3,
		.retry_count = 5, .rnr_retry_count = 6, .qp_num = 99,
	};
	struct endpoint *endpoint = to_id(id)->endpoint;

	make_qp();
	to_id(id)->connect_data = strdup("head");
	to_id(id)->connect_bytes = 4;
	assert_int_equal(rdma_connect(id, &parameters), 0);
	assert_int_equal(endpoint->parameters.private_data_len, 8);
	assert_memory_equal(endpoint->private_data, "headtail", 8);
	assert_int_equal(endpoint->parameters.qp_num, id->qp->qp_num);
	assert_int_equal(endpoint->parameters.initiator_depth, 3);
	assert_int_equal(endpoint->parameters.responder_resources,
			 to_id(id)->device->max_responder_resources);
	assert_int_equal(endpoint->parameters.retry_count, 5);
	parameters.private_data_len = 255;
	to_id(id)->connect_bytes = 4;
	assert_int_equal(rdma_connect(id, &parameters), -1);
	assert_int_equal(errno, EINVAL);
	parameters.private_data_len = 0;
	parameters.initiator_depth = RDMA_MAX_INIT_DEPTH - 1;
	assert_int_equal(rdma_connect(id, &parameters), -1);
	assert_int_equal(errno, EINVAL);
}

/* A request on @listener; its id is the event's. */
static struct rdma_cm_event request(struct rdma_cm_id *listener)
{
	struct endpoint_event offer = { .kind = RDMA_CM_EVENT_CONNECT_REQUEST };
	struct rdma_cm_event *event, copy;

	endpoint_create(to_id(listener)->endpoint->channel, RDMA_PS_TCP, IBV_QPT_RC, NULL,
			&offer.endpoint);
	bind_device(offer.endpoint);
	offer.endpoint->info.has_route = true;
	offer.listener = to_id(listener)->endpoint;
	offer.user = listener;
	offer.connection.initiator_depth = 9;
	offer.connection.responder_resources = 255;
	offer.ece.vendor_id = 0x15b3;
	put_event(to_id(listener)->endpoint, offer);
	assert_int_equal(rdma_get_cm_event(listener->channel, &event), 0);
	copy = *event;
	rdma_ack_cm_event(event);
	return copy;
}

static void a_request_brings_an_id(void **state)
{
	struct rdma_cm_event event = request(id);

	assert_int_equal(event.event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(event.listen_id, id);
	assert_ptr_not_equal(event.id, id);
	assert_ptr_equal(event.id->channel, channel);
	assert_ptr_equal(event.id->context, id->context);
	assert_non_null(event.id->verbs);
	assert_int_equal(event.id->port_num, 1);
	assert_int_equal(event.id->route.num_paths, 1);
	assert_int_equal(event.param.conn.initiator_depth, 9);
	assert_int_equal(rdma_reject(event.id, NULL, 0), 0);
	assert_int_equal(to_id(event.id)->endpoint->reject_reason, 28);
	assert_int_equal(rdma_reject_ece(event.id, NULL, 0), 0);
	assert_int_equal(to_id(event.id)->endpoint->reject_reason, 35);
	assert_int_equal(rdma_destroy_id(event.id), 0);
}

static void an_accepted_qp_is_ready_before_the_answer(void **state)
{
	struct rdma_cm_event event = request(id);

	assert_int_equal(rdma_destroy_id(id), 0);
	id = event.id;
	make_qp();
	assert_int_equal(rdma_accept(id, NULL), 0);
	assert_int_equal(to_id(id)->endpoint->state_at_accept, IBV_QPS_RTS);
	assert_int_equal(to_id(id)->endpoint->parameters.initiator_depth, 9);
	assert_int_equal(to_id(id)->endpoint->parameters.responder_resources,
			 to_id(id)->device->max_responder_resources);
	assert_int_equal(to_id(id)->endpoint->ece.vendor_id, 0x15b3);
	assert_int_equal(to_id(id)->endpoint->ece.options, 0);
}

static void an_accept_that_fails_moves_the_qp_to_error(void **state)
{
	struct rdma_cm_event event = request(id);

	assert_int_equal(rdma_destroy_id(id), 0);
	id = event.id;
	make_qp();
	fake.accept_error = EINVAL;
	assert_int_equal(rdma_accept(id, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(qp_state(), IBV_QPS_ERR);
}

static void a_request_is_silent_until_it_is_accepted(void **state)
{
	struct rdma_cm_event event = request(id);

	assert_int_equal(rdma_destroy_id(id), 0);
	id = event.id;
	tell(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
	expect_no_event();
	assert_int_equal(to_id(id)->endpoint->held, 0);
	make_qp();
	assert_int_equal(rdma_accept(id, NULL), 0);
	tell(id, RDMA_CM_EVENT_ESTABLISHED, 0);
	expect_event(RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void disconnecting_flushes_the_qp(void **state)
{
	struct ibv_wc wc;
	struct ibv_mr *mr;
	char buffer[16];

	make_qp();
	mr = rdma_reg_msgs(id, buffer, sizeof(buffer));
	assert_non_null(mr);
	assert_int_equal(rdma_post_recv(id, buffer, buffer, sizeof(buffer), mr), 0);
	assert_int_equal(rdma_disconnect(id), 0);
	assert_int_equal(to_id(id)->endpoint->disconnects, 1);
	assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(wc.wr_id, (uintptr_t)buffer);
	assert_int_equal(rdma_dereg_mr(mr), 0);
}

static void the_inline_calls_move_data(void **state)
{
	char from[16] = "fifteen letters", to[16] = "";
	struct ibv_mr *out, *in;
	struct ibv_wc wc;

	make_qp();
	tell(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	expect_event(RDMA_CM_EVENT_ESTABLISHED, 0);
	out = rdma_reg_msgs(id, from, sizeof(from));
	in = rdma_reg_write(id, to, sizeof(to));
	assert_int_equal(rdma_post_recv(id, to, to, sizeof(to), in), 0);
	assert_int_equal(rdma_post_send(id, from, from, sizeof(from), out, IBV_SEND_SIGNALED), 0);
	assert_int_equal(rdma_get_send_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(rdma_get_recv_comp(id, &wc), 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_string_equal(to, from);
	assert_int_equal(rdma_dereg_mr(out), 0);
	assert_int_equal(rdma_dereg_mr(in), 0);
}

static void enhanced_establishment_is_for_foreign_qps(void **state)
{
	struct ibv_ece ece = { .vendor_id = 5, .options = 6 };
	struct rdma_cm_event event = request(id);

	assert_int_equal(rdma_get_remote_ece(event.id, &ece), 0);
	assert_int_equal(ece.vendor_id, 0x15b3);
	ece.options = 6;
	assert_int_equal(rdma_set_local_ece(event.id, &ece), 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	id = event.id;
	make_qp();
	assert_int_equal(rdma_set_local_ece(id, &ece), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_get_remote_ece(id, &ece), -1);
	assert_int_equal(errno, EINVAL);
}

/* ---- multicast ---- */

static struct sockaddr_in group = { .sin_family = AF_INET };

static void joined(enum rdma_cm_event_type kind, int status)
{
	struct endpoint *endpoint = to_id(id)->endpoint;
	struct endpoint_event event = {
		.kind = kind, .status = status, .datagram = true,
		.multicast = endpoint->multicast,
	};

	event.ud.qp_num = 0xffffff;
	event.ud.ah_attr.grh.dgid = group_gid;
	put_event(endpoint, event);
}

static void use_datagrams(void)
{
	group.sin_addr.s_addr = htonl(0xef090909);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_UDP), 0);
	make_qp();
}

static void a_join_attaches_the_qp(void **state)
{
	struct rdma_cm_event *event;

	use_datagrams();
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, &group), 0);
	joined(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	event = next_event();
	assert_int_equal(event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_ptr_equal(event->param.ud.private_data, &group);
	assert_int_equal(event->param.ud.qp_num, 0xffffff);
	rdma_ack_cm_event(event);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
	/* The library detached it: it cannot be detached again. */
	assert_int_not_equal(ibv_detach_mcast(id->qp, &group_gid, 0), 0);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
}

static void who_only_sends_is_not_attached(void **state)
{
	struct rdma_cm_join_mc_attr_ex attr = {
		.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
		.join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
		.addr = (struct sockaddr *)&group,
	};

	use_datagrams();
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), 0);
	joined(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	expect_event(RDMA_CM_EVENT_MULTICAST_JOIN, 0);
	assert_int_not_equal(ibv_detach_mcast(id->qp, &group_gid, 0), 0);
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS;
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(errno, EINVAL);
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_RESERVED;
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(errno, ENOTSUP);
}

static void leaving_withdraws_the_event_that_waits(void **state)
{
	use_datagrams();
	fake.join_error = EINVAL;
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), -1);
	assert_int_equal(errno, EINVAL);
	fake.join_error = 0;
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, NULL), 0);
	joined(RDMA_CM_EVENT_MULTICAST_ERROR, -ENODEV);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
	expect_no_event();
	assert_int_equal(to_id(id)->endpoint->held, 0);
}

/* ---- rdma_create_ep, rdma_get_request ---- */

static void an_active_endpoint_is_ready_to_connect(void **state)
{
	struct rdma_addrinfo info = {
		.ai_qp_type = IBV_QPT_RC, .ai_port_space = RDMA_PS_TCP,
		.ai_dst_addr = (struct sockaddr *)&local, .ai_dst_len = sizeof(local),
		.ai_connect = (void *)"head", .ai_connect_len = 4,
	};
	struct ibv_qp_init_attr attr = small(0);
	struct rdma_cm_id *ep;

	fake.answers = true;
	assert_int_equal(rdma_create_ep(&ep, &info, NULL, &attr), 0);
	assert_int_equal(ep->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	fake.qp = ep->qp;
	assert_int_equal(rdma_connect(ep, NULL), 0);
	assert_int_equal(ep->event->event, RDMA_CM_EVENT_ESTABLISHED);
	assert_memory_equal(to_id(ep)->endpoint->private_data, "head", 4);
	rdma_destroy_ep(ep);
	fake.answer = RDMA_CM_EVENT_ADDR_ERROR;
	fake.answer_status = -ENETUNREACH;
	assert_int_equal(rdma_create_ep(&ep, &info, NULL, &attr), -1);
	assert_int_equal(errno, ENETUNREACH);
}

static void requests_get_the_qp_of_the_passive_endpoint(void **state)
{
	struct rdma_addrinfo info = {
		.ai_flags = RAI_PASSIVE, .ai_qp_type = IBV_QPT_RC, .ai_port_space = RDMA_PS_TCP,
		.ai_src_addr = (struct sockaddr *)&local, .ai_src_len = sizeof(local),
	};
	struct endpoint_event offer = { .kind = RDMA_CM_EVENT_CONNECT_REQUEST };
	struct ibv_qp_init_attr attr = small(0);
	struct rdma_cm_id *listener, *got;

	assert_int_equal(rdma_create_ep(&listener, &info, NULL, &attr), 0);
	assert_int_equal(rdma_listen(listener, 4), 0);
	endpoint_create(to_id(listener)->endpoint->channel, RDMA_PS_TCP, IBV_QPT_RC, NULL,
			&offer.endpoint);
	bind_device(offer.endpoint);
	offer.listener = to_id(listener)->endpoint;
	offer.user = listener;
	put_event(to_id(listener)->endpoint, offer);
	assert_int_equal(rdma_get_request(listener, &got), 0);
	assert_non_null(got->qp);
	assert_ptr_not_equal(got->channel, listener->channel);
	assert_int_equal(got->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	fake.qp = got->qp;
	fake.answers = true;
	assert_int_equal(rdma_accept(got, NULL), 0);
	assert_int_equal(got->event->event, RDMA_CM_EVENT_ESTABLISHED);
	rdma_destroy_ep(got);
	tell(listener, RDMA_CM_EVENT_DEVICE_REMOVAL, -ENODEV);
	assert_int_equal(rdma_get_request(listener, &got), -1);
	assert_int_equal(errno, ENODEV);
	rdma_destroy_ep(listener);
	assert_int_equal(rdma_get_request(id, &got), -1);
	assert_int_equal(errno, EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_id_has_what_it_was_created_with),
		TEST(what_cannot_be_created_leaves_nothing),
		TEST(binding_to_an_address_gives_a_device_to_any_none),
		TEST(ids_share_an_open_device_and_its_domain),
		TEST(an_unknown_family_is_refused),
		TEST(an_asynchronous_call_returns_before_its_event),
		TEST(an_address_without_a_device_is_an_error),
		TEST(a_channel_without_events_says_so),
		TEST(a_synchronous_call_waits_and_leaves_its_event),
		TEST(migration_changes_the_mode),
		TEST(a_qp_needs_a_device),
		TEST(a_qp_gets_what_the_application_does_not_give),
		TEST(what_the_application_gives_stays_its_own),
		TEST(a_domain_of_another_opening_is_refused),
		TEST(a_qp_that_cannot_be_made_leaves_no_cq),
		TEST(a_datagram_qp_is_ready_at_once),
		TEST(an_srq_of_the_id_is_used_by_its_qp),
		TEST(the_library_completes_a_connection_of_its_qp),
		TEST(without_a_qp_the_application_completes_it),
		TEST(a_qp_that_cannot_follow_ends_the_connection),
		TEST(a_rejection_moves_the_qp_to_error),
		TEST(parameters_are_checked_and_completed),
		TEST(a_request_brings_an_id),
		TEST(an_accepted_qp_is_ready_before_the_answer),
		TEST(an_accept_that_fails_moves_the_qp_to_error),
		TEST(a_request_is_silent_until_it_is_accepted),
		TEST(disconnecting_flushes_the_qp),
		TEST(the_inline_calls_move_data),
		TEST(enhanced_establishment_is_for_foreign_qps),
		TEST(a_join_attaches_the_qp),
		TEST(who_only_sends_is_not_attached),
		TEST(leaving_withdraws_the_event_that_waits),
		TEST(an_active_endpoint_is_ready_to_connect),
		TEST(requests_get_the_qp_of_the_passive_endpoint),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
