/* SPDX-License-Identifier: BSD-2-Clause */
/* Waits that cannot end, events that are held, and objects that are left: what is said of them. */
#include "device/device_test.h"

#include "base/log.h"
#include "platform/clock.h"

static struct comp_channel *channel;
static struct qp *left, *right;
static char words[IDLE_WORDS], heard[1024];

static void hear(const struct explained *explained)
{
	snprintf(heard, sizeof(heard), "%.*s", (int)explained->bytes, explained->line);
}

/* The pair's CQ has a channel; nothing else is in the process. */
static void idle_begin(bool signal_all)
{
	struct ibv_qp_init_attr_ex attr;

	assert_int_equal(hca_destroy_cq(context, cq), 0);
	assert_int_equal(hca_create_comp_channel(context, &channel), 0);
	assert_int_equal(cq_make(&channel->ibv, &cq), 0);
	attr = qp_attr(IBV_QPT_RC);
	attr.sq_sig_all = signal_all;
	assert_int_equal(hca_create_qp(context, &attr, &left), 0);
	assert_int_equal(hca_create_qp(context, &attr, &right), 0);
	assert_int_equal(to_init(left), 0);
	assert_int_equal(to_init(right), 0);
}

static void idle_connect(void)
{
	assert_int_equal(to_rtr(left, right->number, IBV_MTU_1024), 0);
	assert_int_equal(to_rtr(right, left->number, IBV_MTU_1024), 0);
	assert_int_equal(to_rts(left), 0);
	assert_int_equal(to_rts(right), 0);
}

static void receive(struct qp *qp)
{
	struct ibv_sge sge = {(uintptr_t)memory + 4096, 64, mr->ibv.lkey};
	struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};

	assert_int_equal(hca_post_recv(qp, &wr, &bad), 0);
}

static void send_one(struct qp *qp)
{
	struct ibv_sge sge = {(uintptr_t)memory, 64, mr->ibv.lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};

	assert_int_equal(hca_post_send(qp, &wr, &bad), 0);
}

static void poll_one(void)
{
	struct ibv_wc wc;

	assert_true(comes_true(hca_poll_cq(cq, 1, &wc) == 1));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static struct explain_object of;

#define assert_idle(text)                                                                          \
	do {                                                                                       \
		assert_true(channel_cannot_complete(channel, words, &of));                              \
		assert_non_null(strstr(words, text));                                              \
	} while (0)

static void nothing_posted_completes_nothing(void **state)
{
	idle_begin(true);
	idle_connect();
	assert_idle("no request and no receive is posted");
	receive(right);
	assert_false(channel_cannot_complete(channel, words, &of));
}

/* As a datagram does that is too long. */
static void a_receive_that_a_dropped_message_took_waits(void **state)
{
	idle_begin(true);
	idle_connect();
	assert_idle("no request and no receive is posted");
	lock_acquire(&right->lock);
	right->responder.recv_taken = true;
	lock_release(&right->lock);
	assert_false(channel_cannot_complete(channel, words, &of));
	lock_acquire(&right->lock);
	right->responder.recv_taken = false;
	lock_release(&right->lock);
}

static void a_cq_of_no_queue_pair_completes_nothing(void **state)
{
	idle_begin(true);
	assert_int_equal(hca_destroy_qp(context, left), 0);
	assert_int_equal(hca_destroy_qp(context, right), 0);
	assert_idle("no queue pair has this CQ");
}

/* As if it had been found empty for two seconds. */
static bool poll_is_explained(void)
{
	heard[0] = 0;
	atomic_store(&cq->empty_explained, false);
	atomic_store(&cq->empty_since_ns, clock_now_ns() - 2000000000u);
	log_listen(hear);
	cq_explain_empty(cq, false);
	log_listen(NULL);
	return strstr(heard, "ibv_poll_cq has found") != NULL;
}

static void a_server_may_poll_before_its_first_client(void **state)
{
	idle_begin(true);
	assert_true(poll_is_explained());
	assert_int_equal(hca_destroy_qp(context, left), 0);
	assert_int_equal(hca_destroy_qp(context, right), 0);
	assert_false(poll_is_explained());
}

static void receives_of_an_unconnected_queue_pair_wait(void **state)
{
	idle_begin(true);
	receive(left);
	assert_idle("is in INIT");
}

static void a_signaled_request_completes(void **state)
{
	idle_begin(true);
	assert_int_equal(to_rtr(left, right->number, IBV_MTU_1024), 0);
	assert_int_equal(to_rts(left), 0);
	send_one(left);
	assert_false(channel_cannot_complete(channel, words, &of));
}

static void unsignaled_requests_complete_nothing(void **state)
{
	idle_begin(false);
	idle_connect();
	receive(right);
	send_one(left);
	poll_one();
	assert_idle("is all unsignaled");
}

static void a_peer_that_is_destroyed_sends_nothing(void **state)
{
	idle_begin(true);
	idle_connect();
	receive(left);
	assert_false(channel_cannot_complete(channel, words, &of));
	assert_int_equal(hca_destroy_qp(context, right), 0);
	assert_idle("is gone");
}

/* Another thread may be at it: somebody else's receives are no business of this wait. */
static void what_may_complete_elsewhere_keeps_it_silent(void **state)
{
	struct cq *other = cq;
	struct qp *busy;

	idle_begin(true);
	idle_connect();
	other = cq;
	assert_int_equal(cq_make(NULL, &cq), 0);
	busy = qp_make(IBV_QPT_UD);
	assert_int_equal(to_init(busy), 0);
	assert_int_equal(to_rtr(busy, 0, IBV_MTU_1024), 0);
	assert_idle("no request and no receive is posted");
	receive(busy);
	assert_false(channel_cannot_complete(channel, words, &of));
	cq = other;
}

static void held_events_are_known_by_kind(void **state)
{
	struct ibv_async_event event;

	idle_begin(true);
	assert_int_equal(to_rtr(left, right->number, IBV_MTU_1024), 0);
	assert_int_equal(to_rtr(right, left->number, IBV_MTU_1024), 0);
	assert_int_equal(to_rts(left), 0);
	receive(right);
	send_one(left);
	poll_one();
	assert_int_equal(hca_get_async_event(context, &event), 0);
	assert_int_equal(event.event_type, IBV_EVENT_COMM_EST);
	assert_int_equal(atomic_load(&right->event[QP_EVENT_COMM_EST].held), 1);
	assert_int_equal(atomic_load(&right->event[QP_EVENT_FATAL].held), 0);
	hca_ack_async_event(&event);
	assert_int_equal(atomic_load(&right->event[QP_EVENT_COMM_EST].held), 0);
}

static void what_is_left_of_a_device_is_said(void **state)
{
	idle_begin(true);
	log_listen(hear);
	file_explain_left(context->file, hca);
	log_listen(NULL);
	assert_non_null(strstr(heard, "ibv_close_device: 2 QPs, 1 CQ, 1 completion channel, 1 "
				      "region, 1 PD of the device"));
	assert_non_null(strstr(heard, "beginning with ibv_destroy_qp"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(nothing_posted_completes_nothing),
		DEVICE_TEST(a_receive_that_a_dropped_message_took_waits),
		DEVICE_TEST(a_cq_of_no_queue_pair_completes_nothing),
		DEVICE_TEST(a_server_may_poll_before_its_first_client),
		DEVICE_TEST(receives_of_an_unconnected_queue_pair_wait),
		DEVICE_TEST(a_signaled_request_completes),
		DEVICE_TEST(unsignaled_requests_complete_nothing),
		DEVICE_TEST(a_peer_that_is_destroyed_sends_nothing),
		DEVICE_TEST(what_may_complete_elsewhere_keeps_it_silent),
		DEVICE_TEST(held_events_are_known_by_kind),
		DEVICE_TEST(what_is_left_of_a_device_is_said),
	};

	DEVICE_TESTS(tests);
}
