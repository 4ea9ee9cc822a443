/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs of one packet that are received at once (responder_send_at_once()), against the checks and the
 * execution of all requests: two stations have received one, the same changes behind it at both, and the
 * next comes to both. One of them has a CQ with times, for which each is executed the long way; a
 * completion without one was written at once. Completions, memory, queues, answers and state are the
 * same, whatever has changed.
 */
#include "transport/test_support.h"

#define RECEIVES	6u
#define RECEIVE_BYTES	64u
#define WIDE		(3u * 1024u)	/* memory behind that of the receives */

struct scene {
	struct station *s;
	struct srq srq;
	struct comp_channel channel;
	struct packet packet;		/* the next one, to be changed */
	unsigned at_once;		/* completions without a time */
};

struct change {
	const char *name;
	void (*make)(struct scene *scene);
	enum { ALL_CHECKS, AT_ONCE, UNLESS_SHARED } then;	/* how the next one is received */
};

static void receive_at(struct scene *scene, uint64_t wr_id, size_t offset, uint32_t bytes, int sges)
	UNCHECKED_LOCKS
{
	struct ibv_sge sge[2] = { station_sge(scene->s, offset, bytes), { 0 } };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = sges }, *bad;

	if (scene->s->qp.srq)
		assert_int_equal(srq_post(&scene->srq, &wr, &bad), 0);
	else
		assert_int_equal(recv_queue_post_for(&scene->s->qp.rq, &wr, &bad, EXPLAIN_QP, 1), 0);
}

static void no_receive(struct scene *scene) UNCHECKED_LOCKS
{
	struct recv_wqe *taken = calloc(1, sizeof(*taken) + 4 * sizeof(taken->sge[0]));

	assert_non_null(taken);
	while (recv_queue_take(scene->s->qp.srq ? &scene->srq.queue : &scene->s->qp.rq, taken))
		;
	free(taken);
}

/* Of receives one is left, of @sges. */
static void receive_instead(struct scene *scene, uint32_t bytes, int sges)
{
	no_receive(scene);
	receive_at(scene, 50, WIDE, bytes, sges);
}

/* ---- what changes ---- */

static void nothing(struct scene *scene) {}
static void to_sqd(struct scene *scene) { station_move(scene->s, IBV_QPS_SQD); }
static void to_err(struct scene *scene) { station_move(scene->s, IBV_QPS_ERR); }
static void region_gone(struct scene *scene) { assert_int_equal(mr_deregister(&scene->s->mrs, &scene->s->mr), 0); }
static void short_receive(struct scene *scene) { receive_instead(scene, 42, 1); }
static void exact_receive(struct scene *scene) { receive_instead(scene, 43, 1); }
static void two_sges(struct scene *scene) { receive_instead(scene, RECEIVE_BYTES, 2); }
static void no_sges(struct scene *scene) { receive_instead(scene, 0, 0); }
static void later(struct scene *scene) { scene->packet.psn++; }
static void again(struct scene *scene) { scene->packet.psn--; }
static void solicited(struct scene *scene) { scene->packet.solicited = true; }
static void unanswered(struct scene *scene) { scene->packet.ack_request = false; }
static void marked(struct scene *scene) { scene->packet.fecn = true; }
static void of_no_bytes(struct scene *scene) { scene->packet.payload_bytes = 0; }
static void stranger(struct scene *scene) { scene->s->info.route.source[15]++; }
static void denied(struct scene *scene) { scene->s->info.deny_receive = true; }
static void a_post(struct scene *scene) { post(scene->s, IBV_WR_SEND, 9, 8); }

static void immediate(struct scene *scene)
{
	scene->packet.op = opcode_get(OPCODE_RC_SEND_ONLY_IMM);
	scene->packet.imm = 77;
}

static void invalidate(struct scene *scene)
{
	scene->packet.op = opcode_get(OPCODE_RC_SEND_ONLY_INV);
	scene->packet.invalidate_rkey = scene->s->mr.ibv.rkey;
}

static void of_a_whole_mtu(struct scene *scene)
{
	receive_instead(scene, 2 * MTU, 1);
	scene->packet.payload_bytes = MTU;
}

static void above_the_mtu(struct scene *scene)
{
	receive_instead(scene, 2 * MTU, 1);
	scene->packet.payload_bytes = MTU + 4;
}

static void a_first_packet(struct scene *scene)
{
	receive_instead(scene, 2 * MTU, 1);
	receive_data(scene->s, OPCODE_RC_SEND_FIRST, scene->packet.psn++, MTU);
}

static void a_first_of_a_write(struct scene *scene)
{
	struct packet first = packet_of(OPCODE_RC_WRITE_FIRST, scene->packet.psn++);

	first.payload = some_bytes;
	first.payload_bytes = MTU;
	first.reth.address = (uintptr_t)scene->s->memory;
	first.reth.rkey = scene->s->mr.ibv.rkey;
	first.reth.length = 2 * MTU;
	receive(scene->s, &first);
	assert_int_equal(scene->s->qp.state, IBV_QPS_RTS);
}

/* By a message that failed, and is repeated. */
static void a_receive_is_taken(struct scene *scene) UNCHECKED_LOCKS
{
	receive_instead(scene, 2 * MTU, 1);
	assert_true(recv_queue_take(scene->s->qp.srq ? &scene->srq.queue : &scene->s->qp.rq,
				    scene->s->qp.responder.recv));
	scene->s->qp.responder.recv_taken = true;
	scene->s->qp.responder.recv_bytes = 2 * MTU;
	receive_at(scene, 51, 0, RECEIVE_BYTES, 1);
}

static void without_rights(struct scene *scene)
{
	struct station *s = scene->s;

	assert_int_equal(mr_deregister(&s->mrs, &s->mr), 0);
	assert_int_equal(mr_register(&s->mrs, &s->pd, s->memory, MEMORY_BYTES, (uintptr_t)s->memory, 0,
				     &s->mr), 0);
	receive_instead(scene, RECEIVE_BYTES, 1);
}

static void past_the_end(struct scene *scene)
{
	struct station *s = scene->s;

	assert_int_equal(mr_deregister(&s->mrs, &s->mr), 0);
	assert_int_equal(mr_register(&s->mrs, &s->pd, s->memory, WIDE + 42, (uintptr_t)s->memory,
				     IBV_ACCESS_LOCAL_WRITE, &s->mr), 0);
	receive_instead(scene, RECEIVE_BYTES, 1);
}

static void full_cq(struct scene *scene) UNCHECKED_LOCKS
{
	struct ibv_wc wc = { .wr_id = 1000 };

	while (scene->s->recv_cq.head - scene->s->recv_cq.tail < 1024)
		assert_true(cq_push(&scene->s->recv_cq, &wc, false, 1, &scene->s->effects));
}

static void armed(struct scene *scene) UNCHECKED_LOCKS
{
	event_queue_init(&scene->channel.queue, -1, nothing_to_release);
	scene->s->recv_cq.channel = &scene->channel;
	cq_arm(&scene->s->recv_cq, false, &scene->s->effects);
}

/* It is below its limit behind the next one. */
static void a_limit(struct scene *scene)
{
	struct ibv_srq_attr limit = { .srq_limit = RECEIVES - 1 };

	if (scene->s->qp.srq)
		assert_int_equal(srq_modify(&scene->srq, &limit, IBV_SRQ_LIMIT, &scene->s->effects), 0);
}

static void counted(struct scene *scene) UNCHECKED_LOCKS
{
	static struct comp_counters none;

	scene->s->qp.counted = &none;
}

static void held_early(struct scene *scene)
{
	struct packet ahead = scene->packet;

	station_holds(scene->s);
	ahead.psn++;
	receive(scene->s, &ahead);
}

static const struct change changes[] = {
	{ "nothing", nothing, AT_ONCE }, { "SQD", to_sqd, AT_ONCE }, { "ERR", to_err },
	{ "the region is deregistered", region_gone }, { "the region grants no writes", without_rights },
	{ "the receive ends behind the region", past_the_end }, { "the receive is too short", short_receive },
	{ "the receive is just long enough", exact_receive, AT_ONCE }, { "the receive has two SGEs", two_sges },
	{ "the receive has no SGEs", no_sges }, { "no receive", no_receive },
	{ "a receive is taken", a_receive_is_taken }, { "a later PSN", later }, { "a former PSN", again },
	{ "solicited", solicited, AT_ONCE }, { "no answer is asked for", unanswered, AT_ONCE },
	{ "congested", marked, AT_ONCE }, { "no data", of_no_bytes, AT_ONCE }, { "another sender", stranger },
	{ "a receive is denied", denied }, { "a post", a_post, AT_ONCE }, { "immediate data", immediate },
	{ "invalidate", invalidate }, { "a whole MTU", of_a_whole_mtu, AT_ONCE },
	{ "more than the MTU", above_the_mtu }, { "the first of several packets", a_first_packet },
	{ "the first of a WRITE", a_first_of_a_write }, { "the CQ is full", full_cq },
	{ "the CQ is armed", armed }, { "a limit of the SRQ", a_limit, UNLESS_SHARED },
	{ "operations are counted", counted }, { "the one behind it is held", held_early, AT_ONCE },
};

/* ---- both ways ---- */

static void scene_end_kept(void *station, uint32_t qpn, uint32_t key) UNCHECKED_LOCKS
{
	mr_kept_clear(&qp_notes(&((struct station *)station)->qp)->receive, key);
}

static void scene_begin(struct scene *scene, bool with_srq, bool with_times)
{
	struct station *s = station_rts(IBV_QPT_RC);
	uint64_t i;

	*scene = (struct scene){ .s = s, .srq = { .async = &s->async, .pd = s->pd.number } };
	list_init(&scene->srq.limit_event.node);
	s->mrs.end_kept = scene_end_kept;
	s->mrs.keeper = s;
	s->recv_cq.stamped = with_times;
	if (with_srq) {
		assert_int_equal(recv_queue_init(&scene->srq.queue, 8, 4), 0);
		s->qp.srq = &scene->srq;
	}
	for (i = 0; i < RECEIVES; i++)
		receive_at(scene, i, 256 * i, RECEIVE_BYTES, 1);
	scene->packet = packet_of(OPCODE_RC_SEND_ONLY, PEER_PSN);
	scene->packet.ack_request = true;
	scene->packet.payload = some_bytes;
	scene->packet.payload_bytes = 43;
}

static void scene_next(struct scene *scene)
{
	effects_init(&scene->s->effects);
	receive(scene->s, &scene->packet);
	scene->packet.psn++;
}

static void scene_end(struct scene *scene) UNCHECKED_LOCKS
{
	scene->s->qp.counted = NULL;
	if (scene->s->qp.state == IBV_QPS_RTS || scene->s->qp.state == IBV_QPS_SQD)
		station_move(scene->s, IBV_QPS_ERR);
	if (scene->s->qp.srq)
		recv_queue_fini(&scene->srq.queue);
	station_free(scene->s);
}

static void expect_the_same(struct scene *one, struct scene *other) UNCHECKED_LOCKS
{
	struct station *a = one->s, *b = other->s;
	struct responder *ra = &a->qp.responder, *rb = &b->qp.responder;
	struct completion of_one, of_other;
	unsigned i;

	assert_int_equal(a->qp.state, b->qp.state);
	assert_int_equal(ra->expected_psn, rb->expected_psn);
	assert_int_equal(ra->msn, rb->msn);
	assert_int_equal(ra->position, rb->position);
	assert_int_equal(ra->answer, rb->answer);
	assert_int_equal(ra->answer_psn, rb->answer_psn);
	assert_int_equal(ra->answer_syndrome, rb->answer_syndrome);
	assert_int_equal(ra->nak_sent, rb->nak_sent);
	assert_int_equal(ra->recv_taken, rb->recv_taken);
	assert_ptr_equal(ra->previous, rb->previous);
	assert_int_equal(recv_queue_count(a->qp.srq ? &one->srq.queue : &a->qp.rq),
			 recv_queue_count(b->qp.srq ? &other->srq.queue : &b->qp.rq));
	assert_int_equal(a->effects.count, b->effects.count);
	assert_int_equal(a->recv_cq.armed, b->recv_cq.armed);
	assert_int_equal(a->recv_cq.solicited_end, b->recv_cq.solicited_end);
	assert_int_equal(list_empty(&one->srq.limit_event.node), list_empty(&other->srq.limit_event.node));
	assert_memory_equal(a->memory, b->memory, WIDE + 2 * MTU);
	for (i = 0; i < COUNTER_COUNT; i++)
		assert_int_equal(station_counter(a, (enum counter)i), station_counter(b, (enum counter)i));
	while (cq_take_one(&a->recv_cq, &of_one)) {
		assert_int_equal(cq_take_one(&b->recv_cq, &of_other), 1);
		assert_memory_equal(&of_one.wc, &of_other.wc, offsetof(struct ibv_wc, dlid_path_bits) + 1);
		assert_int_equal(of_one.slot.number, of_other.slot.number);
		assert_int_equal(of_one.slot.shared, of_other.slot.shared);
		assert_int_not_equal(of_other.timestamp_ns, 0);
		one->at_once += !of_one.timestamp_ns;
	}
	assert_int_equal(cq_take_one(&b->recv_cq, &of_other), 0);
}

static void expect_the_same_answers(struct station *a, struct station *b)
{
	unsigned i;

	assert_int_equal(transmit(a), transmit(b));
	for (i = 0; i < a->batch->count; i++)
		assert_memory_equal(a->batch->data + a->batch->packet[i].offset,
				    b->batch->data + b->batch->packet[i].offset, a->batch->packet[i].bytes);
}

static void compare(const struct change *change, bool with_srq)
{
	struct scene *scene = calloc(2, sizeof(*scene));
	bool at_once = change->then == AT_ONCE || (change->then == UNLESS_SHARED && !with_srq);
	unsigned i, n;

	assert_non_null(scene);
	for (i = 0; i < 2; i++) {
		scene_begin(&scene[i], with_srq, i);
		scene_next(&scene[i]);
	}
	expect_the_same(&scene[0], &scene[1]);
	expect_the_same_answers(scene[0].s, scene[1].s);
	assert_int_equal(scene[0].at_once, 1);
	for (i = 0; i < 2; i++)
		change->make(&scene[i]);
	scene[0].at_once = 0;
	for (n = 0; n < 2; n++) {	/* and one more behind it */
		for (i = 0; i < 2; i++)
			scene_next(&scene[i]);
		expect_the_same(&scene[0], &scene[1]);
		if (!n && at_once != (scene[0].at_once > 0))
			print_message("%s: %u at once\n", change->name, scene[0].at_once);
		assert_true(n || at_once == (scene[0].at_once > 0));
		expect_the_same_answers(scene[0].s, scene[1].s);
	}
	for (i = 0; i < 2; i++)
		scene_end(&scene[i]);
	free(scene);
}

static void what_has_changed_counts_for_a_send_at_once(void **state)
{
	for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
		compare(&changes[i], false);
}

static void so_it_does_where_receives_are_shared(void **state)
{
	for (unsigned i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
		compare(&changes[i], true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_has_changed_counts_for_a_send_at_once),
		cmocka_unit_test(so_it_does_where_receives_are_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
