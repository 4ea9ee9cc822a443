/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two QPs that exchange messages, direct requests and packets at random (message.h, direct.h): all
 * requests complete in order, each is carried out once and in its turn, whatever went which way.
 *
 *	a: requests	-> one queue: messages and packets ->	b: receives, memory
 *			<- packets; answers, in any order <-
 *
 * As local/move/shortcut.c does, posts and runs note at times that the next SEND could only be a
 * message; while the note stands SENDs are sent without a look at the rules, which have to agree.
 * So it is, as in local/move/receive.c, where they are received.
 *
 * Each request has a number. A SEND brings it, a WRITE leaves it in b's memory, a READ fetches what
 * the last WRITE left, an atomic counts how many there were.
 */
#include "transport/direct.h"
#include "transport/message_test_support.h"

#define REQUESTS	3000u
#define SEND_BYTES_MAX	3000u
#define WRITTEN_AT	0u	/* in b's memory */
#define COUNTED_AT	8u
#define RECEIVE_AT	4096u
#define SOURCE_AT	4096u	/* in a's */
#define RESULT_AT	262144u
#define WAY_MAX		256u

struct item {
	bool is_message;
	struct carried message;
	uint8_t bytes[PATH_MTU_MAX + 128];
	size_t length;
};

struct way {
	struct item item[WAY_MAX];
	unsigned put, taken;
};

struct answer {
	uint64_t token;
	bool refused;
};

struct request {
	enum ibv_wr_opcode opcode;
	uint32_t writes, atomics;	/* before it */
	uint32_t bytes;
};

struct world {
	struct station *a, *b;
	struct way there, back;
	struct answer answer[WAY_MAX];
	unsigned answers, answered;
	struct request request[REQUESTS];
	uint32_t posted, completed;
	uint32_t taken;			/* requests with a receive up to this one were received */
	uint32_t writes, atomics;
	uint64_t token, receives, random;
	unsigned reads_in;		/* of forty */
	struct { unsigned sent, refused, direct, packets, lost, short_ones, at_once, short_writes, rows; } sum;
};

static uint32_t below(struct world *world, uint32_t n)
{
	return random_below(&world->random, n);
}

/* ---- a ---- */

static uint32_t number_at(const uint8_t *memory)
{
	uint32_t number;

	memcpy(&number, memory, sizeof(number));
	return number;
}

static bool takes_receive(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* What a request gathers or fills: places come round when the queue has. */
static uint8_t *place_of(struct world *world, uint32_t number, bool result)
{
	return world->a->memory + (result ? RESULT_AT + number % 64 * 8 :
				   SOURCE_AT + number % 64 * SEND_BYTES_MAX);
}

static bool has_room(const struct way *way)
{
	return way->put - way->taken < WAY_MAX - 80;
}

static void send_one_message(struct world *world)
{
	struct item *item = &world->there.item[world->there.put++ % WAY_MAX];

	item->is_message = true;
	send_message(world->a, ++world->token, &item->message);
	world->sum.sent++;
}

/* Nothing may have changed that the rules ask for, while the note stands. */
static void check_shortcut(const struct world *world) UNCHECKED_LOCKS
{
	assert_true(!world->a->qp.shortcut || transport_message_always_next(&world->a->qp));
	/* Nor is anything to be sent: an answer to a message does not ask. */
	assert_true(!world->a->qp.shortcut || !transport_ready(&world->a->qp));
}

static void open_shortcut(struct world *world) UNCHECKED_LOCKS
{
	world->a->qp.shortcut = transport_message_always_next(&world->a->qp);
}

/* True: sent, and that is what the rules say. */
static bool take_shortcut(struct world *world, struct ibv_send_wr *wr) UNCHECKED_LOCKS
{
	uint32_t head[2][MESSAGE_WORDS];
	uint8_t data[2][SEND_BYTES_MAX];
	struct qp *qp = &world->a->qp;
	const struct send_wqe *wqe;

	if (!qp->shortcut || !has_room(&world->there))
		return false;
	if (qp_post_is_write(qp, wr) && !qp->requester.local_messages && wr->wr_id % 2) {
		memcpy(world->b->memory + WRITTEN_AT, (const void *)(uintptr_t)wr->sg_list->addr,
		       wr->sg_list->length);
		effects_init(&world->a->effects);
		transport_direct_done(qp, wr, world->a->now_ns, &world->a->effects);
		world->sum.at_once++;
		return true;
	}
	wqe = qp_post_plain(qp, wr);
	if (!wqe)
		return false;
	world->sum.short_ones++;
	if (wqe->opcode == IBV_WR_RDMA_WRITE && !qp->requester.local_messages) {
		assert_null(transport_message_next(qp));
		assert_ptr_equal(transport_direct_next(qp), wqe);
		assert_true(transport_gather_one(qp, wqe, world->b->memory + WRITTEN_AT));
		effects_init(&world->a->effects);
		transport_direct_done(qp, NULL, world->a->now_ns, &world->a->effects);
		world->sum.short_writes++;
		return true;
	}
	assert_ptr_equal(transport_message_next(qp), wqe);
	if (wqe->opcode == IBV_WR_RDMA_WRITE) {	/* behind messages, as any other */
		transport_posted_send(qp, world->a->now_ns, &world->a->effects);
		return true;
	}
	transport_message_head(qp, wqe, false, head[0]);
	transport_send_head(qp, wqe, head[1]);
	assert_memory_equal(head[0], head[1], sizeof(head[0]));
	assert_true(transport_gather(qp, wqe, data[0]) && transport_gather_one(qp, wqe, data[1]));
	assert_memory_equal(data[0], data[1], wqe->length);
	send_one_message(world);
	return true;
}

static void post_one(struct world *world)
{
	/* READs and atomics wait for messages, and messages for them: at times there are few. */
	static const enum ibv_wr_opcode kind[] = {
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND, IBV_WR_SEND,
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM };
	bool any = below(world, 40) < world->reads_in;
	struct send_queue *queue = &world->a->qp.sq;
	uint32_t number = world->posted;
	struct request *request = &world->request[number];
	bool in, sends;
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	if (number == REQUESTS || queue->head - queue->tail == queue->size)
		return;
	request->opcode = any ? kind[below(world, 9)] : kind[2 + below(world, 7)];
	in = request->opcode == IBV_WR_RDMA_READ || request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	sends = request->opcode == IBV_WR_SEND || request->opcode == IBV_WR_SEND_WITH_IMM;
	request->writes = world->writes;
	request->atomics = world->atomics;
	request->bytes = sends ? 4 + below(world, SEND_BYTES_MAX - 3) : in ? 8 : 4;
	request_init(&wr, &sge, world->a, request->opcode, number, request->bytes);
	sge.addr = (uintptr_t)place_of(world, number, in);
	memcpy(place_of(world, number, false), &number, sizeof(number));
	if (request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = (uintptr_t)world->b->memory + COUNTED_AT;
		wr.wr.atomic.rkey = world->b->mr.ibv.rkey;
		wr.wr.atomic.compare_add = 1;
		world->atomics++;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)world->b->memory + WRITTEN_AT;
		wr.wr.rdma.rkey = world->b->mr.ibv.rkey;
	}
	wr.imm_data = __builtin_bswap32(number);
	wr.send_flags |= below(world, 5) ? 0 : IBV_SEND_FENCE;
	if (!in && request->bytes <= world->a->qp.sq.max_inline && below(world, 4) == 0)
		wr.send_flags |= IBV_SEND_INLINE;
	if (request->opcode == IBV_WR_RDMA_WRITE || request->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		world->writes = number + 1;
	if (!take_shortcut(world, &wr))
		post_wr(world->a, &wr);
	world->posted++;
}

/* As local/move/onesided.c: by messages, or by hand, as far as it goes. */
static void run_direct(struct world *world) UNCHECKED_LOCKS
{
	struct station *a = world->a, *b = world->b;
	unsigned n = 1 + below(world, 20);

	while (n-- && has_room(&world->there)) {
		struct send_wqe *wqe = transport_message_next(&a->qp);

		if (wqe) {
			transport_direct_prefer(&a->qp, true);
			send_one_message(world);
			continue;
		}
		wqe = transport_direct_next(&a->qp);
		if (!wqe)
			return;
		if (wqe->opcode == IBV_WR_RDMA_WRITE)
			assert_true(transport_gather(&a->qp, wqe, b->memory + WRITTEN_AT));
		else if (wqe->opcode == IBV_WR_RDMA_READ)
			memcpy((void *)(uintptr_t)wqe->sge[0].addr, b->memory + WRITTEN_AT, 8);
		else
			return;
		transport_direct_prefer(&a->qp, true);
		effects_init(&a->effects);
		transport_direct_done(&a->qp, NULL, a->now_ns, &a->effects);
		world->sum.direct++;
	}
}

static void check_sends(struct world *world)
{
	struct ibv_wc wc;

	while (cq_take(&world->a->send_cq, 1, &wc)) {
		const struct request *request = &world->request[world->completed];
		uint8_t *result = place_of(world, world->completed, true);

		assert_int_equal(wc.wr_id, world->completed);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		/* A WRITE that is posted later may come first: no fence keeps it back. */
		if (request->opcode == IBV_WR_RDMA_READ)
			assert_true(number_at(result) + 1 >= request->writes);
		else if (request->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			assert_int_equal(number_at(result), request->atomics);
		world->completed++;
	}
}

/* ---- b ---- */

static void give_receive(struct world *world)
{
	uint32_t at = RECEIVE_AT + (uint32_t)(world->receives % 64) * SEND_BYTES_MAX;
	struct ibv_sge sge = station_sge(world->b, at, SEND_BYTES_MAX);
	struct ibv_recv_wr wr = { .wr_id = world->receives, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (recv_queue_count(&world->b->qp.rq) > 40)
		return;
	assert_int_equal(qp_post_recv(&world->b->qp, &wr, &bad), 0);
	world->receives++;
}

/* The next request that takes a receive is this one; the WRITEs before it have been written. */
static void check_receives(struct world *world)
{
	struct station *b = world->b;
	struct ibv_wc wc;

	while (cq_take(&b->recv_cq, 1, &wc)) {
		const struct request *request;

		while (!takes_receive(world->request[world->taken].opcode))
			world->taken++;
		assert_true(world->taken < world->posted);
		request = &world->request[world->taken];
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, request->bytes);
		assert_int_equal(wc.opcode, request->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ?
				 IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
		if (request->opcode != IBV_WR_SEND)
			assert_int_equal(__builtin_bswap32(wc.imm_data), world->taken);
		if (request->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
			assert_int_equal(number_at(b->memory + RECEIVE_AT +
						   wc.wr_id % 64 * SEND_BYTES_MAX), world->taken);
		assert_true(number_at(b->memory + WRITTEN_AT) + 1 >= request->writes);
		assert_true(number_at(b->memory + COUNTED_AT) >= request->atomics);
		world->taken++;
	}
}

/* ---- on the way ---- */

static void send_packets(struct world *world, struct station *from, struct way *way)
{
	unsigned i;

	if (!has_room(way))
		return;
	from->quantum = 1 + below(world, 64);
	transmit(from);
	for (i = 0; i < from->batch->count; i++) {
		const struct tx_packet *packet = &from->batch->packet[i];
		struct item *item = &way->item[way->put++ % WAY_MAX];

		item->is_message = false;
		item->length = packet->bytes + ICRC_BYTES;
		assert_true(item->length <= sizeof(item->bytes));
		memcpy(item->bytes, from->batch->data + packet->offset, item->length);
		world->sum.packets++;
	}
}

/* Likewise at b. */
static void check_receiver(const struct world *world) UNCHECKED_LOCKS
{
	assert_true(!world->b->qp.responder.shortcut || transport_always_receives(&world->b->qp));
}

static bool receive_in_row(struct world *world, const struct carried *message) UNCHECKED_LOCKS
{
	struct qp *qp = &world->b->qp;
	struct message_row row;
	bool done;

	if (!qp->responder.shortcut || !transport_row_begin(&row, qp, NULL))
		return false;
	done = transport_row_receive(&row, message->head, message->data, message->bytes);
	transport_row_end(&row);
	world->sum.rows += done;
	return done;
}

static void receive_one_message(struct world *world, struct item *item) UNCHECKED_LOCKS
{
	struct answer *answer = &world->answer[world->answers++ % WAY_MAX];
	struct local_message message;
	enum message_fate fate;

	answer->token = item->message.token;
	answer->refused = false;
	if (receive_in_row(world, &item->message))
		return;
	assert_true(message_parse(item->message.head, item->message.data, item->message.bytes, &message));
	fate = receive_message(world->b, &message);
	assert_int_not_equal(fate, MESSAGE_FETCH);
	world->b->qp.responder.shortcut = fate == MESSAGE_EXECUTED && transport_always_receives(&world->b->qp);
	answer->refused = fate == MESSAGE_REFUSED;
	world->sum.refused += answer->refused;
}

static void deliver(struct world *world, struct way *way, struct station *to)
{
	struct item *item = &way->item[way->taken % WAY_MAX];
	struct packet packet;

	if (way->taken == way->put || world->answers - world->answered == WAY_MAX)
		return;
	way->taken++;
	if (item->is_message) {
		receive_one_message(world, item);
	} else if (below(world, 100) == 0) {
		world->sum.lost++;
	} else {
		assert_int_equal(packet_parse(item->bytes, item->length, &packet), PARSE_OK);
		receive(to, &packet);
	}
}

static void answer_one_message(struct world *world)
{
	struct answer *answer = &world->answer[world->answered % WAY_MAX];

	if (world->answered == world->answers)
		return;
	world->answered++;
	answer_message(world->a, answer->token, answer->refused);
}

/* A drained QP goes on at once. */
static void drain(struct world *world)
{
	struct qp *qp = &world->a->qp;

	if (qp->state == IBV_QPS_RTS && below(world, 20) == 0)
		station_move(world->a, IBV_QPS_SQD);
	else if (qp->state == IBV_QPS_SQD && !qp->attr.sq_draining)
		station_move(world->a, IBV_QPS_RTS);
}

static void step(struct world *world, unsigned receives_in)
{
	unsigned i;

	switch (below(world, 12)) {
	case 0:
	case 1:
		post_one(world);
		break;
	case 2:
		run_direct(world);
		open_shortcut(world);
		break;
	case 3:
		send_packets(world, world->a, &world->there);
		break;
	case 4:
		send_packets(world, world->b, &world->back);
		break;
	case 5:
	case 6:
		deliver(world, &world->there, world->b);
		break;
	case 7:
		deliver(world, &world->back, world->a);
		break;
	case 8:
		answer_one_message(world);
		break;
	case 9:
		if (below(world, 12) < receives_in)
			give_receive(world);
		break;
	case 10:
		drain(world);
		break;
	default:
		for (i = 0; i < 2; i++)
			pass_time(i ? world->a : world->b, MILLISECOND / 10);
		break;
	}
	check_shortcut(world);
	check_receiver(world);
	if (below(world, 4) == 0)
		open_shortcut(world);
	check_receives(world);
	check_sends(world);
}

/* Until everything is answered, as far as that goes soon; then single requests, each when the last one is over. */
static void post_in_peace(struct world *world)
{
	unsigned n;

	for (n = 0; n < 300; n++) {
		give_receive(world);
		run_direct(world);
		send_packets(world, world->a, &world->there);
		send_packets(world, world->b, &world->back);
		deliver(world, &world->there, world->b);
		deliver(world, &world->back, world->a);
		answer_one_message(world);
		check_shortcut(world);
		check_receiver(world);
		open_shortcut(world);
		check_receives(world);
		check_sends(world);
		if (world->completed == world->posted)
			post_one(world);
	}
}

static void begin(struct world *world, uint64_t seed)
{
	static const unsigned reads_in[] = { 0, 1, 40 };

	*world = (struct world){ .sum = world->sum, .reads_in = reads_in[seed % 3],
				 .random = seed * 0x9e3779b97f4a7c15u + 1 };
	world->a = station_inside();
	world->b = station_opposite();
	world->a->qp.pairing.theirs = world->b->qp.pairing.ours;
	world->a->qp.attr.rnr_retry = 7;
	world->a->qp.attr.retry_cnt = world->a->qp.requester.loss.retry_left = 7;
}

/* @receives_in: of twelve, how often there is a receive when one could be given. */
static void exchange_at_random(struct world *world, uint64_t seed, unsigned receives_in)
{
	unsigned steps = 0;

	begin(world, seed);
	while (world->completed < REQUESTS) {
		if (below(world, 500) == 0)
			post_in_peace(world);
		step(world, receives_in);
		assert_true(++steps < 5000000);
	}
	assert_int_equal(number_at(world->b->memory + WRITTEN_AT) + 1, world->writes);
	assert_int_equal(number_at(world->b->memory + COUNTED_AT), world->atomics);
	station_free(world->a);
	station_free(world->b);
}

/* All ways were gone, and all that can become of messages and packets became of some. */
static void exchange_for_long(unsigned receives_in)
{
	struct world *world = calloc(1, sizeof(*world));
	uint64_t seed;

	assert_non_null(world);
	for (seed = 1; seed <= 24; seed++)
		exchange_at_random(world, seed, receives_in);
	assert_true(world->sum.sent - world->sum.refused > 5000);
	assert_true(world->sum.refused > 100);
	assert_true(world->sum.direct > 500);
	assert_true(world->sum.packets > 5000);
	assert_true(world->sum.lost > 50);
	assert_true(world->sum.short_ones > 1000);
	assert_true(world->sum.short_writes > 500);
	assert_true(world->sum.at_once > 500);
	assert_true(world->sum.rows > 1000);
	free(world);
}

static void requests_keep_their_order_whatever_way_they_go(void **state)
{
	exchange_for_long(11);
}

static void requests_keep_their_order_where_receives_come_late(void **state)
{
	exchange_for_long(3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(requests_keep_their_order_whatever_way_they_go),
		TEST(requests_keep_their_order_where_receives_come_late),
	};

	return cmocka_run_group_tests_name("message, random", tests, NULL, NULL);
}
