/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Scripts: the rules of VERBATIM_FAULT on a network in virtual time. The same seed loses as many packets, however
 * long the way is and wherever PSNs begin, though ever other packets are in flight, and repeated, at a loss.
 */
#include "inject/inject.h"
#include "scene.h"

static struct injector injector;
static struct talk_options options;
static unsigned lost[INJECT_KINDS];

/* As the receiver judges what comes. */
static void scene_inject(struct flight *flight, struct scene *scene)
{
	const struct packet *packet = &flight->packet;
	bool from_left = flight->from == scene->a, answers = opcode_is_response(packet->op);
	struct inject_packet what = { .op = packet->op, .psn = packet->psn, .is_sequenced = true, .qp = 1,
				      .first_psn = options.connect.psn[from_left == answers],
				      .own_qpn = packet->dest_qpn, .bytes = flight->bytes };
	struct inject_verdict verdict;

	what.kinds = inject_kinds(packet->op, packet->dest_qpn,
				  packet->op->headers & HDR_AETH ? packet->aeth.syndrome : 0);
	inject_decide(&injector, &what, flight->sim->now_ns, &verdict);
	flight->drop |= verdict.lost;
	flight->copies += verdict.twice;
	flight->corrupt_bits = verdict.corrupt;
	if (verdict.due_ns > flight->sim->now_ns)
		flight->delay_ns += verdict.due_ns - flight->sim->now_ns;
	lost[inject_first_kind(what.kinds)] += verdict.lost;
}

static void run_with(const char *rules, uint64_t delay_ns, unsigned messages, uint32_t length)
{
	char why[256] = "";
	struct scene scene;
	unsigned i;

	memset(lost, 0, sizeof(lost));
	scene_begin(&scene, &options);
	scene.a->rates.delay_ns = scene.b->rates.delay_ns = delay_ns;
	scene.on_packet = scene_inject;
	if (inject_init(&injector, rules, 1, scene.sim->now_ns, why, sizeof(why)))
		fail_msg("%s", why);
	for (i = 0; i < messages; i++)
		talk_plan(scene.talk, 0, IBV_WR_RDMA_WRITE, length, IBV_SEND_SIGNALED, 1);
	scene_run(&scene);
	assert_int_equal(scene.left->sends_ok, messages);
	scene_end(&scene);
	inject_fini(&injector);
}

static int begin(void **state)
{
	options = scene_options(IBV_QPT_RC);
	return 0;
}

static void exactly_one_packet_is_lost_and_the_message_arrives(void **state)
{
	run_with("drop=request:2", 1000, 1, 3000);
	assert_int_equal(lost[INJECT_KIND_REQUEST], 1);
	run_with("drop=ack:1", 1000, 1, 3000);
	assert_int_equal(lost[INJECT_KIND_ACK], 1);
}

static void the_same_seed_loses_as_many_however_long_the_way_is(void **state)
{
	unsigned first;

	run_with("loss=0.1,kind=request,seed=3", 1000, 8, 20000);
	first = lost[INJECT_KIND_REQUEST];
	assert_in_range(first, 5, 60);
	run_with("loss=0.1,kind=request,seed=3", 100000, 8, 20000);
	assert_int_equal(lost[INJECT_KIND_REQUEST], first);
	run_with("loss=0.1,kind=request,seed=3; delay=300us,jitter=100us", 5000, 8, 20000);
	assert_int_equal(lost[INJECT_KIND_REQUEST], first);
	options.connect.psn[0] = 0xfffff0;
	run_with("loss=0.1,kind=request,seed=3", 1000, 8, 20000);
	assert_int_equal(lost[INJECT_KIND_REQUEST], first);
	run_with("loss=0.1,kind=request,seed=4", 1000, 8, 20000);
	assert_int_not_equal(lost[INJECT_KIND_REQUEST], first);
}

static void every_fault_at_once_is_survived(void **state)
{
	run_with("loss=0.05,dup=0.1,corrupt=0.05,seed=1; bandwidth=1G; loss=1,from=50,until=60", 1000, 8, 20000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(exactly_one_packet_is_lost_and_the_message_arrives, begin),
		cmocka_unit_test_setup(the_same_seed_loses_as_many_however_long_the_way_is, begin),
		cmocka_unit_test_setup(every_fault_at_once_is_survived, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
