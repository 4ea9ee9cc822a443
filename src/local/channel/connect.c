/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connects to peer processes, accepts their connections, and handles their end (peer.h).
 *
 * Two processes may connect to each other at the same time. The process with the lower first slot
 * wins: the other one accepts its attempt, and its own attempt gets EALREADY; its thread then waits
 * for the channel to appear. No thread waits with a lock held, and every wait is bounded. The
 * worker retries attempts that fail (reconnect.c).
 *
 * A peer that hangs up has ended. Cells that it sent before are still received; then the channel is
 * closed and its slots are unknown again: another process may claim them.
 */
#include "local/channel/peer.h"
#include "local/channel/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "platform/clock.h"
#include "wire/qpn.h"

#define CONNECT_NS	250000000u	/* to wait for a peer: its worker may wait for a core */
#define CONNECT_TRIES	3u
#define CONNECT_STEP_NS	50000u
#define FULL_STEP_NS	1000000u
#define AGAIN_NS	1000000000u	/* between datagrams that make the worker try */
#define DRAIN_PASSES	256u

/* ---- our hello ---- */

static void write_hello(const struct local *local, const struct peer *peer, uint64_t nonce, bool late,
			struct hello *hello)
{
	const struct peers *peers = local->peers;
	unsigned count = peers_slots(peers), i;

	*hello = (struct hello){ .slot_count = count, .side_bytes = peer_side_bytes(),
				 .guard = peer ? peer->guard : 0, .nonce = nonce, .late = late };
	for (i = 0; i < count; i++)
		hello->slot[i] = peers->slot[i]->number;
}

/* ---- connecting ---- */

/* Would a channel to the holder of @slot be useful, and is there none yet? */
static bool is_unknown(const struct local *local, uint32_t slot)
{
	return local->peers && slot != 0 && slot < SLOT_COUNT - 1 &&
	       !peers_has_own_slot(local->peers, slot) &&
	       local_channel(local, slot) == LOCAL_NO_CHANNEL;
}

static void unclaim_attempt(struct peers *peers, uint32_t slot)
{
	lock_acquire(&peers->lock);
	peers->connecting[slot] = false;
	lock_release(&peers->lock);
}

/*
 * Send proofs to trusted processes only, and at once: the listener waits only milliseconds for the
 * hello.
 */
static int attempt_send(struct local *local, struct attempt *attempt, bool late)
{
	struct hello hello;
	int side_fd, err = peer_reserve(local, &attempt->peer, &side_fd);

	if (err)
		return err;
	attempt->nonce = random_u64() | 1;
	write_hello(local, attempt->peer, attempt->nonce, late, &hello);
	err = handshake_connect(attempt->slot, &attempt->process);
	if (!err) {
		err = proofs_send(local->peers, attempt->slot, attempt->nonce);
		if (err)
			handshake_close(&attempt->process);
		else
			err = handshake_greet(&attempt->process, &hello, side_fd);
	}
	close(side_fd);
	if (err)
		peer_release(local, attempt->peer);
	return err;
}

int attempt_begin(struct local *local, uint32_t slot, struct attempt *attempt)
{
	struct peers *peers = local->peers;
	bool first, late;
	int err;

	/* One of the threads that want the same channel connects, the others wait for it. */
	lock_acquire(&peers->lock);
	first = !peers->connecting[slot] && local_channel(local, slot) == LOCAL_NO_CHANNEL;
	if (first)
		peers->connecting[slot] = true;
	late = peers->missed[slot];
	lock_release(&peers->lock);
	if (!first)
		return EALREADY;
	*attempt = (struct attempt){ .slot = slot };
	err = attempt_send(local, attempt, late);
	if (err)
		unclaim_attempt(peers, slot);
	return err;
}

static int attempt_admit(struct local *local, struct attempt *attempt)
{
	const struct hello *hello = &attempt->process.hello;
	int err;

	err = !hello_has_slot(hello, attempt->slot) ? EPROTO :
	      !proofs_hold(local, hello, attempt->nonce & ~1ull) ? EBUSY : 0;
	if (err) {
		handshake_close(&attempt->process);
		peer_release(local, attempt->peer);
		return err;
	}
	err = peer_admit(local, attempt->peer, &attempt->process);
	if (err)
		return err;
	peer_publish(local, attempt->peer);
	agree_open(local, attempt->peer);
	/* A sleeping worker does not know of this channel: nothing would wake it for the peer. */
	waiter_ring(local->waiter);
	return 0;
}

int attempt_end(struct local *local, struct attempt *attempt, uint64_t timeout_ns)
{
	int err = handshake_receive(&attempt->process, timeout_ns);

	if (err == EAGAIN)
		return err;
	if (err)
		peer_release(local, attempt->peer);
	else
		err = attempt_admit(local, attempt);
	unclaim_attempt(local->peers, attempt->slot);
	return err;
}

void attempt_give_up(struct local *local, struct attempt *attempt)
{
	handshake_close(&attempt->process);
	peer_release(local, attempt->peer);
	unclaim_attempt(local->peers, attempt->slot);
}

/*
 * EALREADY: the peer is connecting to us, or another thread to it; EEXIST: the channel was just
 * opened; EAGAIN: the worker awaits the answer.
 */
static int connect_to_slot(struct local *local, uint32_t slot)
{
	uint64_t until_ns = clock_now_ns() + CONNECT_NS, step_ns = CONNECT_STEP_NS;
	struct attempt attempt;
	unsigned tries = 0;
	int err;

	/*
	 * ECONNRESET, EBUSY: the peer was too busy or refused, or a proof arrived too late;
	 * ENOBUFS: many processes connect to the same slot.
	 */
	for (;;) {
		err = attempt_begin(local, slot, &attempt);
		if (!err) {
			err = attempt_end(local, &attempt, CONNECT_NS);
			if (err == EAGAIN)
				err = attempt_leave(local, &attempt);
		}
		if (err == ENOBUFS && clock_now_ns() < until_ns) {
			thread_sleep_ns(step_ns);
			if (step_ns < FULL_STEP_NS)
				step_ns *= 2;
		} else if ((err != ECONNRESET && err != EBUSY) || ++tries == CONNECT_TRIES) {
			break;
		}
	}
	if (err != EALREADY && err != EEXIST)
		return err;
	until_ns = clock_now_ns() + CONNECT_NS;
	while (local_channel(local, slot) == LOCAL_NO_CHANNEL && clock_now_ns() < until_ns)
		thread_sleep_ns(CONNECT_STEP_NS);
	return local_channel(local, slot) != LOCAL_NO_CHANNEL ? 0 : err;
}

const char *connect_reason(int err)
{
	return err == EPERM  ? "it belongs to another user" :
	       err == EAGAIN ? "it has not answered yet" :
	       err == ENOSPC ? "this process has no channel left" :
	       strerror(err);
}

void local_connect(struct local *local, uint32_t slot)
{
	int err = is_unknown(local, slot) ? connect_to_slot(local, slot) : 0;

	if (!err || err == EALREADY || err == EEXIST) {
		agree_await(local, slot);
		return;
	}
	counter_add(local->counters, COUNTER_NO_MEMORY_PATH, 1);
	explain_of(OF(SLOT, slot),
		"no shared memory with the process of this host that has QPs from 0x%06x on: %s: "
			"packets go %s",
		slot * QP_PER_SLOT, connect_reason(err),
		atomic_load(&local->fabric) ? "over UDP, or by the fabric's process" : "over UDP");
	atomic_store_explicit(&local->peers->refusal[slot], err, memory_order_relaxed);
	reconnect_later(local, slot, err);
}

void local_connect_for_datagram(struct local *local, uint32_t slot)
{
	uint64_t now_ns, again_ns;

	if (!is_unknown(local, slot))
		return;
	now_ns = clock_now_ns();
	again_ns = atomic_load_explicit(&local->peers->again_ns[slot], memory_order_relaxed);
	if (now_ns < again_ns)
		return;
	atomic_store_explicit(&local->peers->again_ns[slot], now_ns + AGAIN_NS,
			      memory_order_relaxed);
	if (!again_ns)
		local_connect(local, slot);
	else
		reconnect_soon(local, slot);
}

/* ---- accepting ---- */

/* The verdict for the connector: 0 or errno. */
static int connect_judge(struct local *local, const struct hello *hello)
	REQUIRES(local->peers->lock)
{
	bool connecting = false;
	unsigned i;

	if (!hello->slot_count)
		return EPROTO;
	for (i = 0; i < hello->slot_count; i++) {
		if (peers_has_own_slot(local->peers, hello->slot[i]))
			return EPROTO;
		if (local_channel(local, hello->slot[i]) != LOCAL_NO_CHANNEL)
			return EEXIST;
		connecting |= local->peers->connecting[hello->slot[i]];
	}
	if (connecting && local->peers->slot[0]->number < hello->slot[0])
		return EALREADY;
	return 0;
}

/*
 * Judge it, and keep our threads from connecting to it until it has got an answer: otherwise both
 * ends might accept each other's attempt, and share memory twice. *claimed: bit i: slot[i] was
 * claimed here.
 */
static int claim_welcome(struct local *local, const struct hello *hello, uint32_t *claimed)
{
	int verdict;
	unsigned i;

	*claimed = 0;
	lock_acquire(&local->peers->lock);
	verdict = connect_judge(local, hello);
	for (i = 0; !verdict && i < hello->slot_count; i++) {
		if (local->peers->connecting[hello->slot[i]])
			continue;
		local->peers->connecting[hello->slot[i]] = true;
		*claimed |= 1u << i;
	}
	lock_release(&local->peers->lock);
	return verdict;
}

static void connect_refuse(struct local *local, struct handshake_peer *process, int verdict)
{
	struct hello hello;

	write_hello(local, NULL, 0, false, &hello);
	handshake_answer(process, &hello, verdict, -1);
	handshake_close(process);
}

/* Admit the peer before the answer: its channel is ready when it sends. */
static int connect_admit(struct local *local, struct handshake_peer *process, bool late)
{
	uint64_t nonce = process->hello.nonce;
	struct hello hello;
	struct peer *peer;
	int side_fd, err = peer_reserve(local, &peer, &side_fd);

	if (err) {
		connect_refuse(local, process, err);
		return err;
	}
	write_hello(local, peer, nonce, late, &hello);
	err = proofs_send(local->peers, process->hello.slot[0], nonce & ~1ull);
	if (err) {
		connect_refuse(local, process, err);
		peer_release(local, peer);
		close(side_fd);
		return err;
	}
	err = peer_admit(local, peer, process);
	if (!err) {
		err = handshake_answer(&peer->process, &hello, 0, side_fd);
		if (err)
			peer_dismiss(local, peer);
		else
			peer_publish(local, peer);
	}
	if (!err)
		agree_open(local, peer);
	close(side_fd);
	return err;
}

/*
 * End channels of other processes that hold slots of @process, which has proven its slots: a former
 * holder gave them up but kept its connection. Returns whether there was one.
 */
static bool end_former_holders(struct local *local, const struct handshake_peer *process)
{
	struct peer *peer;
	bool found = false;
	unsigned i;

	for (i = 0; i < process->hello.slot_count; i++) {
		peer = peer_of_slot(local, process->hello.slot[i]);
		/* Where PIDs are not visible it may be the same process, connected twice. */
		if (!peer || peer->process.pid == process->pid)
			continue;
		log_warn("process %d gave up slot %u but kept its channel: closing the channel",
			 (int)peer->process.pid, process->hello.slot[i]);
		peer_end(peer);
		found = true;
	}
	if (found)
		atomic_store(&local->peers_due, true);
	return found;
}

static void receive_connector(struct local *local, struct handshake_peer *process)
{
	struct hello hello = process->hello;
	uint32_t claimed = 0;
	unsigned i;
	bool late;
	int verdict;

	lock_acquire(&local->peers->lock);
	late = peers_missed(local->peers, &process->hello);
	verdict = connect_judge(local, &process->hello);
	lock_release(&local->peers->lock);
	if ((!verdict || verdict == EEXIST) && !(process->hello.nonce & 1 &&
						 proofs_hold(local, &process->hello, process->hello.nonce))) {
		explain_of(OF(PROCESS, (unsigned)process->pid),
			"process %d claims QP numbers that are not its own: shared memory is "
			"refused",
			(int)process->pid);
		verdict = EBUSY;
	}
	if (!verdict)
		verdict = claim_welcome(local, &hello, &claimed);
	if (verdict == EEXIST && end_former_holders(local, process))
		verdict = EBUSY;	/* until they are dismissed */
	if (verdict)
		connect_refuse(local, process, verdict);
	/* We are awake, but an application thread may sleep in our place (engine/wait.c). */
	else if (!connect_admit(local, process, late))
		waiter_ring(local->waiter);
	for (i = 0; i < hello.slot_count; i++)
		if (claimed & 1u << i)
			unclaim_attempt(local->peers, hello.slot[i]);
}

/*
 * Out of descriptors: use the spare one to accept and close, otherwise the worker would spin.
 * False: no connection waits, which accept() does not report in this state.
 */
static bool turn_away(struct local *local, int listen_fd)
{
	struct peers *peers = local->peers;
	int fd;

	fd = peers->spare_fd;
	peers->spare_fd = -1;
	if (fd >= 0)
		close(fd);
	fd = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		close(fd);
	peers->spare_fd = fcntl(listen_fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return false;
	counter_add(local->counters, COUNTER_NO_MEMORY_PATH, 1);
	log_info("out of file descriptors: no memory is shared with a process that connects");
	return true;
}

static void receive_connectors(struct local *local)
{
	struct peers *peers = local->peers;
	unsigned i, n;

	for (i = 0; i < peers_slots(peers); i++)
		for (n = 0; n < CHANNELS_MAX; n++) {
			int listen_fd = peers->slot[i]->channel_fd, err;
			struct handshake_peer process;

			err = handshake_accept(listen_fd, &process);
			if (err == EAGAIN ||
			    ((err == EMFILE || err == ENFILE) && !turn_away(local, listen_fd)))
				break;
			if (!err)
				receive_connector(local, &process);
			else
				log_debug("a connecting process was refused: error %d", err);
		}
}

/* ---- the end of peers ---- */

/* Drains the channel of an ended peer, then takes its last answers. */
static void drain_channel(struct local *local, const struct peer *peer)
{
	unsigned n;

	for (n = 0; n < DRAIN_PASSES && !ring_is_empty(local->channel_link, peer->channel); n++) {
		local->peers->ops->receive(local);
		local->ops->receive(local->owner);
	}
	local->ops->receive(local->owner);
	local->peers->ops->receive(local);	/* takes the answers */
}

static void dismiss_ended(struct local *local)
{
	struct hello hello;
	unsigned i, n;

	for (i = 0; i < CHANNELS_MAX; i++) {
		struct peer *peer = peer_at(local, i);

		if (!peer || !(peer->revoked || peer_has_ended(peer)))
			continue;
		/* Only this thread dismisses: the peer is still there. */
		hello = peer->process.hello;
		progress_take(local);
		if (!peer->revoked)
			drain_channel(local, peer);
		peer_dismiss(local, peer);
		local->peers->ops->lost(local, peer->channel);
		progress_drop(local);
		/*
		 * A process that hung up and is still there has disbelieved us, as we do one that is stopped
		 * in a copy. Our QPs hear it by a channel alone (agree.c).
		 */
		for (n = 0; n < hello.slot_count; n++)
			if (local->ops->is_connected_to(local->owner, hello.slot[n]) &&
			    slot_is_claimed(hello.slot[n]))
				reconnect_later(local, hello.slot[n], 0);
	}
}

void local_handle_peers(struct local *local)
{
	if (!local->peers)
		return;
	atomic_store(&local->peers_due, false);
	dismiss_ended(local);
	receive_connectors(local);
	attempts_take_answers(local);
}
