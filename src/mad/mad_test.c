/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Agents by class, on the real QP1 over lo in a network namespace: who gets what, whose deadline
 * passes when, opening and closing, fork().
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "device/internal.h"
#include "mad/fake_consumer_test.h"
#include "platform/rest_test.h"
#include "mad/mad.h"
#include "platform/netns_test.h"

#define OTHER	0x35		/* some other class */

static const uint8_t loopback[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };

struct owner {
	struct mad_agent *agent;
	_Atomic unsigned received, ticks;
	_Atomic uint64_t tick_ns;
	uint64_t period_ns;		/* the next deadline after a tick */
	struct mad_header header;
};

static struct owner cm, other;
static struct qp1 *qp1;
/* What came so far has been read. (Behind a socket ThreadSanitizer does not see what comes first.) */
static _Atomic unsigned turn;

static enum drop received(void *context, const struct mad_address *from, const struct mad_header *header,
			  const uint8_t mad[MAD_BYTES], uint64_t now_ns)
{
	struct owner *owner = context;

	(void)atomic_load(&turn);
	owner->header = *header;
	owner->received++;
	return DROP_NONE;
}

static void tick(void *context, uint64_t now_ns)
{
	struct owner *owner = context;

	owner->tick_ns = clock_now_ns();
	if (owner->period_ns)
		mad_set_deadline(owner->agent, now_ns + owner->period_ns);
	owner->ticks++;
}

static const struct mad_ops ops = { .received = received, .tick = tick };

static int open_class(struct qp1 *at, uint8_t class, struct owner *owner)
{
	const struct mad_key key = { .port = MAD_ANY_PORT, .qpn = QPN_GSI, .class = class,
				     .class_version = MAD_ANY_VERSION, .methods = MAD_ALL_METHODS };

	return mad_open(at, &key, &ops, owner, &owner->agent);
}

static int setup(void **state)
{
	memset(&cm, 0, sizeof(cm));
	memset(&other, 0, sizeof(other));
	if (!netns_renew() || hca_get_qp1(&qp1) || open_class(qp1, MAD_CLASS_CM, &cm))
		return -1;
	return open_class(qp1, OTHER, &other);
}

static int teardown(void **state)
{
	mad_close(cm.agent);
	mad_close(other.agent);
	hca_put_qp1(qp1);
	return 0;
}

static int send_to_ourselves(uint8_t class, uint8_t version)
{
	struct mad_header header = { .base_version = version, .class = class, .class_version = 2,
				     .method = MAD_METHOD_SEND, .transaction_id = 4711,
				     .attribute_id = 0x99 };
	struct mad_address to = { 0 };
	uint8_t mad[MAD_BYTES] = { 0 };

	turn++;
	memcpy(to.local, loopback, 16);
	memcpy(to.remote, loopback, 16);
	mad_write(&header, mad);
	return mad_send(cm.agent, &to, mad);
}

static void each_class_gets_its_own(void **state)
{
	struct counters *counters;
	struct hca *hca;
	unsigned i;

	assert_int_equal(hca_get(&hca), 0);
	counters = hca->engine.counters;
	for (i = 1; i <= 10; i++) {
		assert_int_equal(send_to_ourselves(MAD_CLASS_CM, 1), 0);
		assert_int_equal(send_to_ourselves(OTHER, 1), 0);
		assert_true(comes(&cm.received, i) && comes(&other.received, i));
	}
	assert_int_equal(cm.header.class, MAD_CLASS_CM);
	assert_int_equal(other.header.transaction_id, 4711);
	assert_int_equal(other.header.attribute_id, 0x99);
	assert_int_equal(send_to_ourselves(OTHER + 1, 1), 0);	/* nobody's */
	assert_int_equal(send_to_ourselves(OTHER, 7), 0);	/* no such version */
	assert_int_equal(send_to_ourselves(OTHER, 1), 0);
	assert_true(comes(&other.received, 11));
	assert_int_equal(counter_get(counters, COUNTER_RX_MAD_CLASS), 2);
	assert_int_equal(cm.received, 10);
	hca_put(hca);
}

static void a_class_has_one_agent(void **state)
{
	struct owner owner = { 0 };

	assert_int_equal(open_class(qp1, MAD_CLASS_CM, &owner), EBUSY);
	assert_ptr_equal(mad_gsi(cm.agent), mad_gsi(other.agent));
	mad_close(cm.agent);
	assert_int_equal(open_class(qp1, MAD_CLASS_CM, &cm), 0);
	assert_int_equal(send_to_ourselves(MAD_CLASS_CM, 1), 0);
	assert_true(comes(&cm.received, 1));
}

/* Two deadlines, the second set first; was each kept, within 30 ms? */
static bool two_are_kept_soon(void)
{
	unsigned cm_ticks = cm.ticks, other_ticks = other.ticks;
	uint64_t now_ns = clock_now_ns();

	mad_set_deadline(cm.agent, now_ns + 60 * MS);
	mad_set_deadline(other.agent, now_ns + 20 * MS);
	assert_true(comes(&other.ticks, other_ticks + 1));
	assert_true(other.tick_ns >= now_ns + 20 * MS);
	assert_true(comes(&cm.ticks, cm_ticks + 1));
	assert_true(cm.tick_ns >= now_ns + 60 * MS);
	return other.tick_ns <= now_ns + 50 * MS && cm.tick_ns <= now_ns + 90 * MS;
}

static void deadlines_are_each_agents_own(void **state)
{
	unsigned tries = 0, ticks;

	while (!two_are_kept_soon())
		assert_in_range(++tries, 0, SOON_TRIES);
	/* Taken back, and moved nearer: the other's comes, behind it. */
	mad_set_deadline(cm.agent, clock_now_ns() + 40 * MS);
	mad_set_deadline(cm.agent, TIME_NEVER);
	assert_true(comes_true(others_rest()));
	ticks = cm.ticks;
	tries = other.ticks;
	mad_set_deadline(other.agent, clock_now_ns() + 1000 * SECOND);
	mad_set_deadline(other.agent, clock_now_ns() + 60 * MS);
	assert_true(comes(&other.ticks, tries + 1));
	assert_int_equal(cm.ticks, ticks);
	/* Set anew by the tick itself. */
	cm.period_ns = 2 * MS;
	mad_set_deadline(cm.agent, 0);
	assert_true(comes_true(cm.ticks >= ticks + 20));
	mad_close(cm.agent);
	ticks = cm.ticks;
	thread_sleep_ns(20 * MS);
	assert_int_equal(cm.ticks, ticks);
	assert_int_equal(open_class(qp1, MAD_CLASS_CM, &cm), 0);
}

/* ThreadSanitizer knows no threads of a child whose parent had some. */
#if defined(__has_feature)
#define THREADS_AFTER_FORK (!__has_feature(thread_sanitizer))
#elif defined(__SANITIZE_THREAD__)
#define THREADS_AFTER_FORK false
#else
#define THREADS_AFTER_FORK true
#endif

static int use_in_child(void)
{
	struct owner mine = { 0 };
	struct qp1 *own;
	struct mad_agent *inherited = cm.agent;

	if (send_to_ourselves(MAD_CLASS_CM, 1) != ENODEV)
		return 1;
	mad_set_deadline(inherited, 0);
	mad_close(inherited);
	if (!THREADS_AFTER_FORK)
		return 0;
	if (hca_get_qp1(&own) || open_class(own, MAD_CLASS_CM, &mine))
		return 2;
	cm.agent = mine.agent;		/* what send_to_ourselves() uses */
	if (gsi_slot(mad_gsi(mine.agent)) == gsi_slot(mad_gsi(other.agent)))
		return 3;
	mad_close(mine.agent);
	hca_put_qp1(own);
	return 0;
}

static void a_child_has_its_own(void **state)
{
	int status = -1;
	pid_t pid;

	/* The worker has begun then, and sleeps: AddressSanitizer's allocator must not be in use at a fork(). */
	assert_int_equal(send_to_ourselves(MAD_CLASS_CM, 1), 0);
	assert_true(comes(&cm.received, 1));
	assert_true(comes_true(others_rest()));
	pid = fork();
	if (!pid)
		_exit(use_in_child());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	assert_int_equal(send_to_ourselves(MAD_CLASS_CM, 1), 0);
	assert_true(comes(&cm.received, 2));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(each_class_gets_its_own),
		TEST(a_class_has_one_agent),
		TEST(deadlines_are_each_agents_own),
		TEST(a_child_has_its_own),
	};
	bool real_root;

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
