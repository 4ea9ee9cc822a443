/* SPDX-License-Identifier: BSD-2-Clause */
/* Only the user of the port forwards packets; in a network namespace of the test's own. */
#include "host/port_owner.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/slot.h"
#include "platform/clock.h"
#include "platform/netns_test.h"

#define OWNER		65533u
#define STRANGER	65534u
#define SECOND		1000000000u

static struct slot_proof proof;
static uint8_t payload[64] = "packet", buffer[70000];
static uint64_t time_ns;

/* Beyond all that was learnt in the tests before. */
static int setup(void **state)
{
	time_ns += 100ull * SECOND;
	return geteuid() ? 0 : !netns_renew();
}

static void need_root(void)
{
	if (geteuid()) {
		print_message("SKIPPED: other users take root\n");
		skip();
	}
}

/* A socket of @uid on the port: of all addresses, or of one. */
static int bind_as(uid_t uid, uint32_t address)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(4791),
				  .sin_addr.s_addr = htonl(address) };
	int fd;

	assert_int_equal(seteuid(uid), 0);
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	assert_int_equal(seteuid(0), 0);
	return fd;
}

static void root_and_our_own_user_may(void **state)
{
	assert_true(port_owner_may_forward(0, time_ns));
	assert_true(port_owner_may_forward(geteuid(), time_ns));
}

static void whoever_has_the_port_may_and_for_a_second_more(void **state)
{
	int fd;

	need_root();
	fd = bind_as(OWNER, INADDR_ANY);
	assert_true(port_owner_may_forward(OWNER, time_ns));
	assert_false(port_owner_may_forward(STRANGER, time_ns + SECOND / 2));
	close(fd);
	assert_true(port_owner_may_forward(OWNER, time_ns + SECOND / 2));
	assert_false(port_owner_may_forward(OWNER, time_ns + 2ull * SECOND));
}

static void the_port_of_one_address_is_not_the_port(void **state)
{
	int fd;

	need_root();
	fd = bind_as(STRANGER, INADDR_LOOPBACK);
	assert_false(port_owner_may_forward(STRANGER, time_ns));
	close(fd);
}

/* It is looked for seldom, so a new owner is known a moment later. */
static void a_flood_of_strangers_costs_few_looks(void **state)
{
	int fd;

	need_root();
	assert_false(port_owner_may_forward(OWNER, time_ns));
	fd = bind_as(OWNER, INADDR_ANY);
	assert_false(port_owner_may_forward(OWNER, time_ns + SECOND / 20));
	assert_true(port_owner_may_forward(OWNER, time_ns + SECOND / 5));
	close(fd);
}

/* ---- the whole way ---- */

static void forward_as(uid_t uid, uint32_t slot)
{
	struct datagram datagram = { .data = payload, .bytes = sizeof(payload) };
	int status;
	pid_t pid = fork();

	if (!pid)
		_exit(setresuid(uid, uid, uid) || slot_forward(slot, &datagram));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void what_others_hand_on_is_refused(void **state)
{
	struct datagram received;
	struct slot slot;
	int fd;

	need_root();
	assert_int_equal(slot_claim(&slot), 0);
	forward_as(STRANGER, slot.number);
	assert_int_equal(slot_receive(&slot, &received, buffer, sizeof(buffer), &proof), EPERM);
	usleep(150000);
	fd = bind_as(OWNER, INADDR_ANY);
	forward_as(OWNER, slot.number);
	assert_int_equal(slot_receive(&slot, &received, buffer, sizeof(buffer), &proof), 0);
	forward_as(STRANGER, slot.number);
	assert_int_equal(slot_receive(&slot, &received, buffer, sizeof(buffer), &proof), EPERM);
	forward_as(0, slot.number);
	assert_int_equal(slot_receive(&slot, &received, buffer, sizeof(buffer), &proof), 0);
	slot_release(&slot);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		/* By the real clock: before the others, whose time is far ahead. */
		cmocka_unit_test_setup(what_others_hand_on_is_refused, setup),
		cmocka_unit_test_setup(root_and_our_own_user_may, setup),
		cmocka_unit_test_setup(whoever_has_the_port_may_and_for_a_second_more, setup),
		cmocka_unit_test_setup(the_port_of_one_address_is_not_the_port, setup),
		cmocka_unit_test_setup(a_flood_of_strangers_costs_few_looks, setup),
	};

	time_ns = clock_now_ns() + 1000ull * SECOND;	/* what is learnt here is of no use elsewhere */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
