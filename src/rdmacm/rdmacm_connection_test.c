/* SPDX-License-Identifier: BSD-2-Clause */
/* Connections: what happens to the QP, on both sides. */
#include "rdmacm/rdmacm_test.h"

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
	tell(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	expect_event(RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
	assert_true(to_id(id)->endpoint->muted);	/* no REJECTED, no DISCONNECTED */
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_library_completes_a_connection_of_its_qp),
		TEST(without_a_qp_the_application_completes_it),
		TEST(a_qp_that_cannot_follow_ends_the_connection),
		TEST(a_rejection_moves_the_qp_to_error),
		TEST(parameters_are_checked_and_completed),
		TEST(a_request_brings_an_id),
		TEST(an_accepted_qp_is_ready_before_the_answer),
		TEST(an_accept_that_fails_moves_the_qp_to_error),
		TEST(disconnecting_flushes_the_qp),
		TEST(the_inline_calls_move_data),
		TEST(enhanced_establishment_is_for_foreign_qps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
