/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whose the slots are that a hello names: processes that come to the door and say what is not so, by hand.
 */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "device/internal.h"
#include "host/name.h"
#include "local/channel/peer.h"
#include "pair.h"
#include "platform/memory.h"

/* A door that waited too long for the hello of one that had no processor hangs up, and is asked again. */
static int ask(uint32_t listener, const struct hello *hello, int side_fd, struct handshake_peer *peer)
{
	int err, tries = 0;

	do {
		CHECK(!handshake_connect(listener, peer), "%m");
		err = handshake_greet(peer, hello, side_fd);
		if (!err)
			err = handshake_receive(peer, 5000000000);
	} while (err == ECONNRESET && ++tries < 100);
	return err;
}

/* Of a hello with this slot, said with that nonce; 0: it is let in. */
static int verdict_of_kept(uint32_t slot, uint64_t nonce, int *kept)
{
	struct hello hello = {.slot_count = 1, .slot = {slot}, .side_bytes = peer_side_bytes(), .nonce = nonce};
	struct handshake_peer peer = {.side_fd = -1};
	uint32_t listener = 0;
	uint8_t *side;
	int side_fd, err;

	hello.magic = HANDSHAKE_MAGIC;
	hello.version = HANDSHAKE_VERSION;
	CHECK(!memory_private(peer_side_bytes(), (void **)&side));
	CHECK(!memory_shared("side", peer_side_bytes(), side, &side_fd));
	peer.fd = connect_to_a_listener(&listener);
	CHECK(peer.fd >= 0);
	close(peer.fd);
	err = ask(listener, &hello, side_fd, &peer);
	if (!err && kept)
		*kept = peer.fd;
	else if (!err)
		handshake_close(&peer);
	memory_release(side, peer_side_bytes(), side_fd);
	return err;
}

static int verdict_of(uint32_t slot, uint64_t nonce)
{
	return verdict_of_kept(slot, nonce, NULL);
}

/* One that is another's, one that is nobody's, its own with another number than it said. */
static void liar(struct end *end, void *argument)
{
	struct slot own, others;
	uint32_t listener = 0;
	int fd;

	CHECK(!slot_claim(&own) && !slot_claim(&others), "%m");
	meet(end);
	fd = connect_to_a_listener(&listener);
	CHECK(fd >= 0);
	close(fd);
	CHECK(verdict_of(own.number, 77) == EBUSY);
	CHECK(!slot_prove(&own, listener, 78), "%m");
	CHECK(verdict_of(own.number, 77) == EBUSY);
	CHECK(!slot_prove(&own, listener, 75), "%m");
	CHECK(verdict_of(own.number, 77) == EBUSY);
	CHECK(verdict_of(others.number, 79) == EBUSY);
	CHECK(!slot_prove(&own, listener, 79), "%m");
	CHECK(verdict_of(own.number, 78) == EBUSY);
	CHECK(verdict_of(own.number, 79) == 0);
	CHECK(verdict_of(own.number, 79) == EBUSY); /* it counts once */
	slot_release(&own);
	slot_release(&others);
	meet(end);
}

/* In another process: claim the slot of that number, which was given up, and come in. */
static void come_in_as(uint32_t number)
{
	struct abstract_name name = name_of_slot(SLOT_NAME, number);
	struct abstract_name channel = name_of_slot(SLOT_CHANNEL_NAME, number);
	struct slot slot = {number, name_socket(SOCK_DGRAM), name_socket(SOCK_SEQPACKET)};
	uint32_t listener = 0;
	uint64_t nonce;
	int fd, err = EBUSY;

	CHECK(!name_bind(slot.fd, &name) && !name_bind(slot.channel_fd, &channel), "%m");
	fd = connect_to_a_listener(&listener);
	CHECK(fd >= 0);
	close(fd);
	for (nonce = 101; err == EBUSY && nonce < 501; nonce += 2) {
		CHECK(!slot_prove(&slot, listener, nonce), "%m");
		err = verdict_of(number, nonce);
		CHECK(nonce > 101 || err == EBUSY, "at once: %d", err);
		usleep(5000);
	}
	CHECK(!err, "%d", err);
	_exit(0);
}

/* Who gives up a slot and keeps its connection is not taken for the next holder. */
static void former_holder(struct end *end, void *argument)
{
	struct pollfd hung_up = {.fd = -1};
	struct slot own;
	uint32_t listener = 0;
	int fd, status;
	pid_t pid;

	CHECK(!slot_claim(&own), "%m");
	meet(end);
	fd = connect_to_a_listener(&listener);
	CHECK(fd >= 0);
	close(fd);
	CHECK(!slot_prove(&own, listener, 91), "%m");
	CHECK(!verdict_of_kept(own.number, 91, &hung_up.fd));
	slot_release(&own);
	pid = fork();
	if (!pid)
		come_in_as(own.number);
	CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status) && !WEXITSTATUS(status));
	CHECK(poll(&hung_up, 1, 1000) == 1 && (hung_up.revents & POLLHUP));
	meet(end);
}

static bool nobody_has_a_slot_by_saying_so(void)
{
	return pair_run("mapped", end_stays, liar, NULL, 60);
}

static bool who_gave_up_a_slot_is_not_its_next_holder(void)
{
	return pair_run("mapped", end_stays, former_holder, NULL, 60);
}

int main(int argc, char **argv)
{
#define TEST(name) {#name, name}
	const struct test tests[] = {
		TEST(nobody_has_a_slot_by_saying_so),
		TEST(who_gave_up_a_slot_is_not_its_next_holder),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
