/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Whose a slot is (peer.h). A hello names the slots of the process that says it, and who lies there would be
 * sent what is for another process. So each side says the number of the attempt from the sockets
 * of its slots as well, to a slot of the other side, before the hello that names them: nobody else can send
 * from there, nor listen where the connector has connected to (host/slot.h). The connector's numbers are odd, the
 * listener answers with the even one below: both sides may be connecting to each other.
 */
#include "local/peer.h"

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

/* They count once: the slot may be another one's the next time. */
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

/* They were sent before the hello: if nobody has taken them yet they are in the sockets. */
bool proofs_hold(struct local *local, const struct hello *hello, uint64_t nonce)
{
	if (have_come(local->peers, hello, nonce))
		return true;
	progress_lock(local);
	local->ops->receive_slots(local->device);
	progress_unlock(local);
	return have_come(local->peers, hello, nonce);
}
