/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * SENDs in a row (message.h), against the rules that they leave out: two stations have received one
 * message, the same changes behind it at both, and the next message is received by
 * transport_message_receive() at the one, in a row at the other, for nobody or for one who polls. Completions,
 * memory, queues and state are the same, whatever has changed.
 */
#include <pthread.h>
#include <sched.h>

#include "base/test_random.h"
#include "transport/local.h"
#include "transport/message_test_support.h"

#define RECEIVES	5u
#define RECEIVE_BYTES	64u

struct scene {
	struct station *s;
	struct carried carried;		/* the next message, to be changed */
	struct srq srq;
	struct comp_channel channel;
	bool in_row;
	unsigned rows;			/* messages that were received in one */
	struct cq_poll poll;		/* of how many completions; 0: there is none */
	struct ibv_wc polled[8];
};

struct change {
	const char *name;
	void (*make)(struct scene *scene);
	enum { ONE_BY_ONE, IN_ROW, UNLESS_SHARED } then;	/* how a message behind it is received */
};

static void receive_at(struct station *s, uint64_t wr_id, size_t offset, uint32_t bytes, uint32_t lkey, int sges)
	UNCHECKED_LOCKS
{
	struct ibv_sge sge[2] = { { (uintptr_t)s->memory + offset, bytes, lkey }, { 0 } };
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = sges }, *bad;

	if (s->qp.srq)
		assert_int_equal(srq_post(s->qp.srq, &wr, &bad), 0);
	else
		assert_int_equal(recv_queue_post_for(&s->qp.rq, &wr, &bad, EXPLAIN_QP, 1), 0);
}

/* Receives that come behind those which were there are gone. */
static void receive_instead(struct scene *scene, uint32_t bytes, uint32_t lkey, int sges)
{
	struct recv_wqe *taken = calloc(1, sizeof(*taken) + 4 * sizeof(taken->sge[0]));
	struct recv_queue *queue = scene->s->qp.srq ? &scene->srq.queue : &scene->s->qp.rq;

	while (recv_queue_take(queue, taken))
		;
	free(taken);
	receive_at(scene->s, 50, 40960, bytes, lkey, sges);
}

/* ---- what changes ---- */

static void nothing(struct scene *scene) {}
static void to_sqd(struct scene *scene) { station_move(scene->s, IBV_QPS_SQD); }
static void to_err(struct scene *scene) { station_move(scene->s, IBV_QPS_ERR); }
static void to_reset(struct scene *scene) { station_move(scene->s, IBV_QPS_RESET); }
static void region_gone(struct scene *scene) { mr_deregister(&scene->s->mrs, &scene->s->mr); }
static void short_receive(struct scene *scene) { receive_instead(scene, 42, scene->s->mr.ibv.lkey, 1); }
static void exact_receive(struct scene *scene) { receive_instead(scene, 43, scene->s->mr.ibv.lkey, 1); }
static void two_sges(struct scene *scene) { receive_instead(scene, RECEIVE_BYTES, scene->s->mr.ibv.lkey, 2); }
static void bad_lkey(struct scene *scene) { receive_instead(scene, RECEIVE_BYTES, scene->s->mr.ibv.lkey ^ 1, 1); }
static void no_lkey(struct scene *scene) { receive_instead(scene, RECEIVE_BYTES, 0, 1); }
static void other_grant(struct scene *scene) { scene->carried.head[0]++; }
static void other_sender(struct scene *scene) { scene->carried.head[1]++; }
static void pieces(struct scene *scene) { scene->carried.head[1] |= 7u << MESSAGE_FLAGS_SHIFT; }
static void later(struct scene *scene) { scene->carried.head[2]++; }
static void flag(struct scene *scene, uint32_t flag) { scene->carried.head[2] |= flag << MESSAGE_FLAGS_SHIFT; }
static void immediate(struct scene *scene) { flag(scene, MESSAGE_IMM); }
static void solicited(struct scene *scene) { flag(scene, MESSAGE_SOLICITED); }
static void invalidate(struct scene *scene) { flag(scene, MESSAGE_INVALIDATE); }
static void cut(struct scene *scene) { scene->carried.bytes--; }
static void of_no_bytes(struct scene *scene) { scene->carried.head[4] = scene->carried.bytes = 0; }

static void long_message(struct scene *scene)
{
	receive_instead(scene, 4096, scene->s->mr.ibv.lkey, 1);
	scene->carried.head[4] = scene->carried.bytes = 3000;
}

/* Registered anew, with the receives that are posted. */
static void region_anew(struct scene *scene)
{
	struct station *s = scene->s;

	assert_int_equal(mr_deregister(&s->mrs, &s->mr), 0);
	assert_int_equal(mr_register(&s->mrs, &s->pd, s->memory, MEMORY_BYTES, (uintptr_t)s->memory,
				     IBV_ACCESS_LOCAL_WRITE, &s->mr), 0);
}

static void other_domain(struct scene *scene)
{
	static struct pd elsewhere = { .number = 77 };
	struct station *s = scene->s;

	assert_int_equal(mr_reregister(&s->mrs, &s->mr, IBV_REREG_MR_CHANGE_PD, &elsewhere, NULL, 0, 0), 0);
}

static void without_rights(struct scene *scene)
{
	struct station *s = scene->s;

	assert_int_equal(mr_deregister(&s->mrs, &s->mr), 0);
	assert_int_equal(mr_register(&s->mrs, &s->pd, s->memory, MEMORY_BYTES, (uintptr_t)s->memory, 0,
				     &s->mr), 0);
	receive_instead(scene, RECEIVE_BYTES, s->mr.ibv.lkey, 1);
}

static void past_the_end(struct scene *scene)
{
	struct station *s = scene->s;

	assert_int_equal(mr_deregister(&s->mrs, &s->mr), 0);
	assert_int_equal(mr_register(&s->mrs, &s->pd, s->memory, 40960 + 42, (uintptr_t)s->memory,
				     IBV_ACCESS_LOCAL_WRITE, &s->mr), 0);
	receive_instead(scene, RECEIVE_BYTES, s->mr.ibv.lkey, 1);
}

static void no_receive(struct scene *scene)
{
	receive_instead(scene, 0, 0, 1);
	receive_instead(scene, 0, 0, 0);
}

static void a_packet(struct scene *scene)
{
	receive_data(scene->s, OPCODE_RC_SEND_FIRST, PEER_PSN, MTU);
}

static void a_whole_packet(struct scene *scene)
{
	receive_data(scene->s, OPCODE_RC_SEND_ONLY, PEER_PSN, 8);
}

/* It keeps the receive that it took. */
static void a_refused_message(struct scene *scene)
{
	struct local_message message = next_message(scene->s, RECEIVE_BYTES + 1);

	assert_int_equal(receive_message(scene->s, &message), MESSAGE_REFUSED);
}

static void pairing_ended(struct scene *scene) UNCHECKED_LOCKS
{
	qp_end_pairing(&scene->s->qp);
}

static void a_post(struct scene *scene)
{
	post(scene->s, IBV_WR_SEND, 9, 8);
}

static void full_cq(struct scene *scene) UNCHECKED_LOCKS
{
	struct ibv_wc wc = { .wr_id = 1000 };

	while (scene->s->recv_cq.head - scene->s->recv_cq.tail < 1024)
		assert_true(cq_push(&scene->s->recv_cq, &wc, false, 0, &scene->s->effects));
}

static void arm(struct scene *scene, bool solicited_only)
{
	event_queue_init(&scene->channel.queue, -1, nothing_to_release);
	scene->s->recv_cq.channel = &scene->channel;
	cq_arm(&scene->s->recv_cq, solicited_only, &scene->s->effects);
}

static void armed(struct scene *scene)
{
	arm(scene, false);
}

static void armed_for_solicited(struct scene *scene)
{
	arm(scene, true);
	solicited(scene);
}

/* It is below its limit behind the next message. */
static void a_limit(struct scene *scene)
{
	struct ibv_srq_attr limit = { .srq_limit = RECEIVES - 2 };

	if (scene->s->qp.srq)
		assert_int_equal(srq_modify(&scene->srq, &limit, IBV_SRQ_LIMIT, &scene->s->effects), 0);
}

static void counted(struct scene *scene) UNCHECKED_LOCKS
{
	static struct comp_counters none;

	scene->s->qp.counted = &none;
}

static const struct change changes[] = {
	{ "nothing", nothing, IN_ROW }, { "SQD", to_sqd }, { "ERR", to_err }, { "RESET", to_reset },
	{ "the region is deregistered", region_gone }, { "the region is registered anew", region_anew },
	{ "the region grants no writes", without_rights }, { "the receive ends behind the region", past_the_end },
	{ "another protection domain", other_domain }, { "the receive is too short", short_receive },
	{ "the receive is just long enough", exact_receive, IN_ROW }, { "the receive has two SGEs", two_sges },
	{ "the receive names no region", bad_lkey }, { "its key is 0", no_lkey }, { "no receive", no_receive },
	{ "another grant", other_grant }, { "another sender", other_sender },
	{ "pieces are counted", pieces, IN_ROW },
	{ "another sequence", later }, { "immediate data", immediate }, { "solicited", solicited, IN_ROW },
	{ "invalidate", invalidate }, { "less data than it says", cut }, { "no data", of_no_bytes, IN_ROW },
	{ "much data", long_message }, { "the first of several packets", a_packet },
	{ "a whole packet", a_whole_packet }, { "a message that was refused", a_refused_message },
	{ "the pairing has ended", pairing_ended }, { "a post", a_post, IN_ROW }, { "the CQ is full", full_cq },
	{ "the CQ is armed", armed }, { "the CQ is armed for solicited ones", armed_for_solicited },
	{ "a limit of the SRQ", a_limit, UNLESS_SHARED }, { "operations are counted", counted },
};

/* ---- both ways ---- */

static void station_end_kept(void *station, uint32_t qpn, uint32_t key) UNCHECKED_LOCKS
{
	struct station *s = station;

	assert_int_equal(qpn, s->qp.number);
	mr_kept_clear(&qp_notes(&s->qp)->receive, key);
}

static void scene_begin(struct scene *scene, bool with_srq, bool in_row)
{
	struct station *s = station_inside();
	uint64_t i;

	*scene = (struct scene){ .s = s, .in_row = in_row,
				 .srq = { .async = &s->async, .pd = s->pd.number } };
	list_init(&scene->srq.limit_event.node);
	s->mrs.end_kept = station_end_kept;
	s->mrs.keeper = s;
	if (with_srq) {
		assert_int_equal(recv_queue_init(&scene->srq.queue, 8, 4), 0);
		s->qp.srq = &scene->srq;
	}
	for (i = 0; i < RECEIVES; i++)
		receive_at(s, i, 4096 + 1024 * i, RECEIVE_BYTES, s->mr.ibv.lkey, 1);
}

static void scene_end(struct scene *scene) UNCHECKED_LOCKS
{
	scene->s->qp.counted = NULL;
	if (scene->s->qp.srq)
		recv_queue_fini(&scene->srq.queue);
	station_free(scene->s);
}

static void scene_next(struct scene *scene, uint32_t bytes) UNCHECKED_LOCKS
{
	const uint32_t head[MESSAGE_WORDS] = { OUR_GRANT, PEER_QPN, scene->s->qp.responder.message_sequence, 0,
					       bytes };

	memcpy(scene->carried.head, head, sizeof(head));
	memcpy(scene->carried.data, some_bytes, 3000);
	scene->carried.bytes = bytes;
}

/* As local/move/receive.c. */
static enum message_fate scene_receive(struct scene *scene) UNCHECKED_LOCKS
{
	const struct carried *carried = &scene->carried;
	struct station *s = scene->s;
	struct local_message message;
	enum message_fate fate;
	struct message_row row;
	bool done;

	effects_init(&s->effects);
	if (scene->in_row && s->qp.responder.shortcut &&
	    transport_row_begin(&row, &s->qp, scene->poll.count ? &scene->poll : NULL)) {
		assert_true(transport_always_receives(&s->qp));
		done = transport_row_receive(&row, carried->head, carried->data, carried->bytes);
		transport_row_end(&row);
		scene->rows += done;
		if (done)
			return MESSAGE_EXECUTED;
	}
	/* The grant is local/'s to look at, as for all messages. */
	if (carried->head[0] != s->qp.pairing.ours ||
	    !message_parse(carried->head, carried->data, carried->bytes, &message))
		return MESSAGE_REFUSED;
	fate = receive_message(s, &message);
	s->qp.responder.shortcut = fate == MESSAGE_EXECUTED && transport_always_receives(&s->qp);
	return fate;
}

/* Those that were polled precede those of the ring. */
static bool take_next(struct scene *scene, int *taken, struct completion *completion)
{
	if (*taken == scene->poll.got)
		return cq_take_one(&scene->s->recv_cq, completion);
	completion->wc = scene->polled[(*taken)++];
	return true;
}

static void expect_the_same(struct scene *one, struct scene *other) UNCHECKED_LOCKS
{
	struct completion of_one, of_other;
	struct station *a = one->s, *b = other->s;
	struct recv_queue *qa = a->qp.srq ? &one->srq.queue : &a->qp.rq;
	struct recv_queue *qb = b->qp.srq ? &other->srq.queue : &b->qp.rq;
	int taken = 0;

	assert_int_equal(a->qp.state, b->qp.state);
	assert_int_equal(a->qp.responder.message_sequence, b->qp.responder.message_sequence);
	assert_int_equal(a->qp.responder.recv_taken, b->qp.responder.recv_taken);
	assert_int_equal(recv_queue_count(qa), recv_queue_count(qb));
	assert_int_equal(a->effects.count, b->effects.count);
	assert_int_equal(a->recv_cq.armed, b->recv_cq.armed);
	if (!other->poll.count)
		assert_int_equal(a->recv_cq.solicited_end, b->recv_cq.solicited_end);
	assert_int_equal(list_empty(&one->srq.limit_event.node), list_empty(&other->srq.limit_event.node));
	assert_memory_equal(a->memory, b->memory, MEMORY_BYTES);
	while (cq_take_one(&a->recv_cq, &of_one)) {
		bool polled = taken < other->poll.got;

		assert_true(take_next(other, &taken, &of_other));
		assert_memory_equal(&of_one.wc, &of_other.wc, sizeof(of_one.wc));
		assert_ptr_equal(of_one.slot.of, of_one.slot.of ? &qa->slots : NULL);
		if (polled)
			continue;
		assert_int_equal(of_one.slot.number, of_other.slot.number);
		assert_int_equal(of_one.slot.shared, of_other.slot.shared);
		assert_ptr_equal(of_other.slot.of, of_other.slot.of ? &qb->slots : NULL);
		assert_int_equal(qa->slots.freed, qb->slots.freed);
	}
	assert_false(take_next(other, &taken, &of_other));
	assert_int_equal(qa->slots.freed, qb->slots.freed);
	other->poll.got = 0;
}

/* @polled: completions that have room where the application polls for them. */
static void compare(const struct change *change, bool with_srq, int polled) UNCHECKED_LOCKS
{
	struct scene *scene = calloc(2, sizeof(*scene));
	bool in_row = change->then == IN_ROW || (change->then == UNLESS_SHARED && !with_srq);
	enum message_fate fate[2];
	unsigned i, n;

	assert_non_null(scene);
	for (i = 0; i < 2; i++) {
		scene_begin(&scene[i], with_srq, i);
		if (i)
			scene[i].poll = (struct cq_poll){ &scene[i].s->recv_cq, scene[i].polled, polled, 0 };
		for (n = 0; n < 2; n++) {
			scene_next(&scene[i], 43);
			assert_int_equal(scene_receive(&scene[i]), MESSAGE_EXECUTED);
		}
		/* The second one in a row: the region of its receive is kept. */
		assert_int_equal(scene[i].rows, i);
		assert_int_equal(qp_notes(&scene[i].s->qp)->receive.key, i ? scene[i].s->mr.ibv.lkey : 0);
		scene[i].rows = 0;
		scene_next(&scene[i], 43);
	}
	expect_the_same(&scene[0], &scene[1]);
	for (i = 0; i < 2; i++)
		change->make(&scene[i]);
	for (n = 0; n < 2; n++) {	/* and one more behind it */
		for (i = 0; i < 2; i++)
			fate[i] = scene_receive(&scene[i]);
		if (fate[0] != fate[1] || (!n && in_row != (scene[1].rows == 1)))
			print_message("%s: %d and %d, %u in a row\n", change->name, fate[0], fate[1],
				      scene[1].rows);
		assert_int_equal(fate[0], fate[1]);
		assert_true(n || in_row == (scene[1].rows == 1));
		assert_true(n || scene[1].poll.got == (polled && in_row));
		expect_the_same(&scene[0], &scene[1]);
		for (i = 0; i < 2; i++)
			scene_next(&scene[i], 43);
	}
	for (i = 0; i < 2; i++)
		scene_end(&scene[i]);
	free(scene);
}

static void compare_all(bool with_srq, int polled)
{
	unsigned i;

	for (i = 0; i < sizeof(changes) / sizeof(changes[0]); i++)
		compare(&changes[i], with_srq, polled);
}

static void what_has_changed_counts_for_a_message_in_a_row(void **state)
{
	compare_all(false, 0);
}

static void so_it_does_where_receives_are_shared(void **state)
{
	compare_all(true, 0);
}

static void so_it_does_for_one_who_polls(void **state)
{
	compare_all(false, 1);
	compare_all(true, 4);
}

/* As many as are asked for, while nothing waits in the ring. */
static void who_polls_an_empty_cq_has_completions_at_once(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_inside();
	uint32_t head[MESSAGE_WORDS] = { OUR_GRANT, PEER_QPN, 0, 0, 8 };
	struct ibv_wc wc[5], other = { .wr_id = 1000 };
	struct cq_poll poll = { &s->recv_cq, wc, 2, 0 }, elsewhere = { &s->send_cq, wc, 2, 0 };
	struct message_row row;
	unsigned i;

	for (i = 0; i < 6; i++)
		post_recv(s, i, 64);
	assert_true(transport_row_begin(&row, &s->qp, &elsewhere));
	assert_null(row.poll);
	transport_row_end(&row);
	assert_true(transport_row_begin(&row, &s->qp, &poll));
	for (; head[2] < 3; head[2]++)
		assert_true(transport_row_receive(&row, head, some_bytes, 8));
	transport_row_end(&row);
	assert_int_equal(poll.got, 2);
	assert_int_equal(s->qp.rq.slots.freed, 2);
	assert_int_equal(wc[0].wr_id, 0);
	assert_int_equal(wc[1].wr_id, 1);
	/* Behind the one in the ring none may be given at once. */
	poll.count = 4;
	assert_true(transport_row_begin(&row, &s->qp, &poll));
	assert_true(transport_row_receive(&row, head, some_bytes, 8));
	transport_row_end(&row);
	assert_int_equal(poll.got, 2);
	assert_int_equal(cq_take(&s->recv_cq, 5, wc), 2);
	assert_int_equal(wc[0].wr_id, 2);
	assert_int_equal(wc[1].wr_id, 3);
	assert_int_equal(s->qp.rq.slots.freed, 4);
	/* Of a CQ in error none is. */
	while (cq_push(&s->recv_cq, &other, false, 0, &s->effects))
		;
	while (cq_take(&s->recv_cq, 5, wc))
		;
	head[2]++;
	assert_true(transport_row_begin(&row, &s->qp, &poll));
	assert_false(transport_row_receive(&row, head, some_bytes, 8));
	transport_row_end(&row);
	assert_int_equal(poll.got, 2);
	station_free(s);
}

/* Within a row the region stays held, and the next receive may name another one. */
static void a_row_holds_the_region_that_was_last_named(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_inside();
	struct message_row row;
	uint32_t head[MESSAGE_WORDS] = { OUR_GRANT, PEER_QPN, 0, 0, 8 };
	struct mr other = { .ibv.lkey = 0 };
	uint8_t memory[64] = { 0 };
	struct ibv_sge sge = { (uintptr_t)memory, 64, 0 };
	struct ibv_recv_wr wr = { .wr_id = 3, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(mr_register(&s->mrs, &s->pd, memory, 64, (uintptr_t)memory, IBV_ACCESS_LOCAL_WRITE,
				     &other), 0);
	sge.lkey = other.ibv.lkey;
	post_recv(s, 1, 64);
	post_recv(s, 2, 64);
	assert_int_equal(qp_post_recv(&s->qp, &wr, &bad), 0);
	assert_true(transport_row_begin(&row, &s->qp, NULL));
	for (; head[2] < 3; head[2]++)
		assert_true(transport_row_receive(&row, head, some_bytes + head[2], 8));
	assert_int_equal(row.lkey, other.ibv.lkey);
	assert_false(transport_row_receive(&row, head, some_bytes, 8));	/* no receive is left */
	transport_row_end(&row);
	assert_int_equal(mr_deregister(&s->mrs, &other), 0);	/* nothing is held any more */
	assert_memory_equal(s->memory + 2048, some_bytes + 1, 8);
	assert_memory_equal(memory, some_bytes + 2, 8);
	station_free(s);
}

/* ---- answers ---- */

#define ANSWERS 12u

/* Messages that are sent, and what their answers say. */
struct answers {
	unsigned count;
	uint64_t token[ANSWERS];
	bool refused[ANSWERS];
};

static void send_some(struct station *s, struct answers *answers, uint64_t *random) UNCHECKED_LOCKS
{
	unsigned i;

	answers->count = 1 + (unsigned)(test_random(random) % ANSWERS);
	for (i = 0; i < answers->count; i++) {
		struct ibv_sge sge = station_sge(s, 1024, 8);
		struct ibv_send_wr wr = { .wr_id = test_random(random), .sg_list = &sge, .num_sge = 1,
			.opcode = test_random(random) % 8 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM,
			.send_flags = test_random(random) % 4 ? 0 : IBV_SEND_SIGNALED };
		struct carried carried;

		post_wr(s, &wr);
		/* Between them are those of others. */
		answers->token[i] = (i ? answers->token[i - 1] : 100u) + (test_random(random) % 6 ? 1u : 2u);
		answers->refused[i] = !(test_random(random) % 40);
		send_message(s, answers->token[i], &carried);
	}
}

static void answer_each(struct station *s, const struct answers *answers)
{
	unsigned i;

	for (i = 0; i < answers->count; i++)
		answer_message(s, answers->token[i], answers->refused[i]);
}

/* As local/move/receive.c. The last of a row is taken by itself. */
static unsigned answer_rows(struct station *s, const struct answers *answers) UNCHECKED_LOCKS
{
	unsigned i, in_rows = 0;

	for (i = 0; i < answers->count;) {
		struct message_answer taken = { answers->token[i], answers->refused[i], false, 1 };

		while (!taken.refused && i + taken.row < answers->count && !answers->refused[i + taken.row] &&
		       answers->token[i + taken.row] == taken.token + taken.row)
			taken.row++;
		transport_answered(&s->qp, &taken, s->now_ns, &s->effects);
		in_rows += taken.row;
		i += taken.row ? taken.row : 1;
	}
	return in_rows;
}

static void expect_the_same_queue(struct station *one, struct station *other) UNCHECKED_LOCKS
{
	struct requester *a = &one->qp.requester, *b = &other->qp.requester;
	struct ibv_wc of_one, of_other;
	enum counter n;

	assert_int_equal(one->qp.sq.tail, other->qp.sq.tail);
	assert_int_equal(one->qp.sq.sent, other->qp.sq.sent);
	assert_int_equal(one->qp.state, other->qp.state);
	assert_int_equal(a->local_messages, b->local_messages);
	assert_int_equal(a->refused, b->refused);
	assert_int_equal(a->send_wqe, b->send_wqe);
	assert_int_equal(a->stalls, b->stalls);
	assert_int_equal(a->drain_reported, b->drain_reported);
	assert_int_equal(a->loss.progress_ns, b->loss.progress_ns);
	for (n = 0; n < COUNTER_COUNT; n++)
		assert_int_equal(station_counter(one, n), station_counter(other, n));
	while (cq_take(&one->send_cq, 1, &of_one)) {
		assert_int_equal(cq_take(&other->send_cq, 1, &of_other), 1);
		assert_memory_equal(&of_one, &of_other, sizeof(of_one));
	}
	assert_int_equal(cq_take(&other->send_cq, 1, &of_other), 0);
	assert_int_equal(one->qp.sq.slots.freed, other->qp.sq.slots.freed);
}

static void answers_in_a_row_are_as_each_by_itself(void **state) UNCHECKED_LOCKS
{
	struct comp_counter sends[2];
	struct comp_counters counters[2] = { { .of = { [COMP_SEND] = &sends[0] } },
					     { .of = { [COMP_SEND] = &sends[1] } } };
	uint64_t seed, random;
	unsigned i, in_rows = 0;

	for (seed = 1; seed <= 2000; seed++) {
		struct station *s[2] = { station_inside(), station_inside() };
		struct answers answers;

		for (i = 0; i < 2; i++) {
			random = seed;
			s[i]->now_ns = 1000000;
			send_some(s[i], &answers, &random);
			s[i]->qp.requester.stalls = 1;
			if (seed % 16 == 1)
				station_move(s[i], IBV_QPS_SQD);
			memset(&sends[i], 0, sizeof(sends[i]));
			if (seed % 16 == 2)
				s[i]->qp.counted = &counters[i];
			s[i]->now_ns += 1000000;
		}
		answer_each(s[0], &answers);
		in_rows += answer_rows(s[1], &answers);
		expect_the_same_queue(s[0], s[1]);
		assert_int_equal(sends[0].done, sends[1].done);
		for (i = 0; i < 2; i++) {
			s[i]->qp.counted = NULL;
			station_free(s[i]);
		}
	}
	assert_in_range(in_rows, 3000, 12000);
}

/* Of a SEND, to who polls; and through the ring behind others, to who waits for an event, and with no room. */
static void who_polls_has_the_completion_of_a_send_at_once(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_inside();
	struct ibv_wc wc[4];
	struct cq_poll poll = { &s->send_cq, wc, 1, 0 };
	struct comp_channel channel = { 0 };
	unsigned i;

	for (i = 0; i < 5; i++)
		post_and_send(s, IBV_WR_SEND, i, 8, i);
	effects_init(&s->effects);
	s->effects.poll = &poll;
	for (i = 0; i < 2; i++)
		transport_message_answered(&s->qp, i, false, s->now_ns, &s->effects);
	assert_int_equal(poll.got, 1);
	assert_int_equal(wc[0].wr_id, 0);
	assert_int_equal(s->qp.sq.slots.freed, 1);
	poll.count = 4;
	transport_message_answered(&s->qp, 2, false, s->now_ns, &s->effects);
	assert_int_equal(poll.got, 1);
	assert_int_equal(cq_take(&s->send_cq, 4, wc), 2);
	assert_int_equal(wc[1].wr_id, 2);
	event_queue_init(&channel.queue, -1, nothing_to_release);
	s->send_cq.channel = &channel;
	cq_arm(&s->send_cq, false, &s->effects);
	transport_message_answered(&s->qp, 3, false, s->now_ns, &s->effects);
	assert_int_equal(poll.got, 1);
	assert_int_equal(s->effects.count, 1);
	assert_int_equal(cq_take(&s->send_cq, 4, wc), 1);
	poll.cq = &s->recv_cq;
	transport_message_answered(&s->qp, 4, false, s->now_ns, &s->effects);
	assert_int_equal(poll.got, 1);
	expect_wc(&s->send_cq, 4, IBV_WC_SUCCESS);
	s->send_cq.channel = NULL;
	station_free(s);
}

/* ---- two threads ---- */

#define RACE_MESSAGES 5000u

/* Posts receives as slots come back, and takes completions: each has the number of its message. */
static void *post_and_poll(void *argument) UNCHECKED_LOCKS
{
	struct station *s = argument;
	struct ibv_wc wc;
	uint32_t posted = 0, polled = 0, number;

	while (polled < RACE_MESSAGES) {
		struct ibv_sge sge = station_sge(s, 4096 + posted % 64 * 64, 64);
		struct ibv_recv_wr wr = { .wr_id = posted, .sg_list = &sge, .num_sge = 1 }, *bad;

		posted += posted < RACE_MESSAGES && !recv_queue_post_for(&s->qp.rq, &wr, &bad, EXPLAIN_QP, 1);
		for (; cq_take(&s->recv_cq, 1, &wc); polled++) {
			memcpy(&number, s->memory + 4096 + polled % 64 * 64, sizeof(number));
			assert_int_equal(wc.wr_id, polled);
			assert_int_equal(number, polled);
		}
	}
	return NULL;
}

/*
 * The receive is read without the queue's lock, while others are posted; for ThreadSanitizer, too. This thread
 * holds the QP, as all tests do.
 */
static void receives_are_posted_while_a_row_takes_them(void **state) UNCHECKED_LOCKS
{
	struct station *s = station_inside();
	uint32_t head[MESSAGE_WORDS] = { OUR_GRANT, PEER_QPN, 0, 0, 8 }, number[2] = { 0 };
	struct message_row row;
	unsigned n, taken;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, post_and_poll, s), 0);
	while (head[2] < RACE_MESSAGES) {
		assert_true(transport_row_begin(&row, &s->qp, NULL));
		for (n = taken = 0; n < 16 && head[2] < RACE_MESSAGES; n++) {
			number[0] = head[2];
			if (!transport_row_receive(&row, head, (const uint8_t *)number, sizeof(number)))
				break;
			head[2]++;
			taken++;
		}
		transport_row_end(&row);
		if (!taken)
			sched_yield();
	}
	pthread_join(thread, NULL);
	assert_int_equal(recv_queue_count(&s->qp.rq), 0);
	station_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_has_changed_counts_for_a_message_in_a_row),
		TEST(so_it_does_where_receives_are_shared),
		TEST(so_it_does_for_one_who_polls),
		TEST(who_polls_an_empty_cq_has_completions_at_once),
		TEST(a_row_holds_the_region_that_was_last_named),
		TEST(answers_in_a_row_are_as_each_by_itself),
		TEST(who_polls_has_the_completion_of_a_send_at_once),
		TEST(receives_are_posted_while_a_row_takes_them),
	};

	return cmocka_run_group_tests_name("message, in a row", tests, NULL, NULL);
}
