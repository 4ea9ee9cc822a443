/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Proof of slots (peer.h). A hello names the slots of its process, and a process that lies would
 * receive packets for another one. So before its hello each side also sends the nonce of the
 * attempt from the sockets of its slots to a slot of the other side: no other process can send from
 * them, nor listen at the slot that the connector has connected to (host/slot.h). The connector's
 * nonces are odd, the listener answers with the even one below: both sides may be connecting to
 * each other.
 */
#include "local/channel/peer.h"
#include "local/channel/progress.h"

#include <errno.h>

void local_note_proof(struct local *local, const struct slot_proof *proof)
{
	if (local->peers)
		atomic_store(&local->peers->proof[proof->number][proof->nonce & 1], proof->nonce);
}

int proofs_send(const struct peers *peers, uint32_t slot, uint64_t nonce)
{
	unsigned i;
	int err = 0;

	for (i = 0; !err && i < peers_slots(peers); i++)
		err = slot_prove(peers->slot[i], slot, nonce);
	return err == EAGAIN ? ENOBUFS : err;
}

/* A proof counts once: next time the slot may be another process's. */
static bool have_come(struct peers *peers, const struct hello *hello, uint64_t nonce)
{
	unsigned i;

	for (i = 0; i < hello->slot_count; i++)
		if (atomic_load(&peers->proof[hello->slot[i]][nonce & 1]) != nonce)
			return false;
	for (i = 0; i < hello->slot_count; i++)
		atomic_store(&peers->proof[hello->slot[i]][nonce & 1], 0);
	return true;
}

/* Proofs are sent before the hello: those not taken yet are in the sockets. */
bool proofs_hold(struct local *local, const struct hello *hello, uint64_t nonce)
{
	if (have_come(local->peers, hello, nonce))
		return true;
	progress_take(local);
	local->ops->receive_slots(local->owner);
	progress_drop(local);
	return have_come(local->peers, hello, nonce);
}
