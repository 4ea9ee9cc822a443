/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_create_ep() and rdma_get_request(). */
#include "rdmacm/rdmacm_test.h"

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

/* A passive endpoint with a request, whose QP will be as @attr says. */
static struct rdma_cm_id *requested(struct ibv_qp_init_attr attr)
{
	struct rdma_addrinfo info = {
		.ai_flags = RAI_PASSIVE, .ai_qp_type = IBV_QPT_RC, .ai_port_space = RDMA_PS_TCP,
		.ai_src_addr = (struct sockaddr *)&local, .ai_src_len = sizeof(local),
	};
	struct endpoint_event offer = { .kind = RDMA_CM_EVENT_CONNECT_REQUEST };
	struct rdma_cm_id *listener;

	assert_int_equal(rdma_create_ep(&listener, &info, NULL, &attr), 0);
	assert_int_equal(rdma_listen(listener, 4), 0);
	endpoint_create(to_id(listener)->endpoint->channel, RDMA_PS_TCP, IBV_QPT_RC, NULL,
			&offer.endpoint);
	bind_device(offer.endpoint);
	offer.listener = to_id(listener)->endpoint;
	offer.user = listener;
	put_event(to_id(listener)->endpoint, offer);
	return listener;
}

static void requests_get_the_qp_of_the_passive_endpoint(void **state)
{
	struct rdma_cm_id *listener = requested(small(0)), *got;

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

/* Its id and its event are given back: the endpoint that stands for it is not left (tear_down()). */
static void a_request_whose_qp_cannot_be_made_is_not_handed_out(void **state)
{
	struct ibv_qp_init_attr attr = small(0);
	struct rdma_cm_id *listener, *got = NULL;

	attr.cap.max_send_sge = 1u << 20;
	listener = requested(attr);
	assert_int_equal(rdma_get_request(listener, &got), -1);
	assert_int_equal(errno, EINVAL);
	assert_null(got);
	assert_null(listener->event);
	rdma_destroy_ep(listener);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_active_endpoint_is_ready_to_connect),
		TEST(requests_get_the_qp_of_the_passive_endpoint),
		TEST(a_request_whose_qp_cannot_be_made_is_not_handed_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
