/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleeping for the device: the worker (worker.c), and an application thread that waits for a completion
 * and does the worker's part meanwhile (wait_progress.c), so that one thread is woken and not two.
 *
 * No wake-up is lost: who sleeps publishes until when (sleep_until_ns), and to peers that it sleeps,
 * and then looks for work once more; who adds work or an earlier deadline does so first and then
 * reads what was published, with a full fence between (worker_notice; local/ring_internal.h).
 */
#ifndef VERBATIM_ENGINE_SLEEP_H
#define VERBATIM_ENGINE_SLEEP_H

#include "engine/engine.h"

/* Publish; returns how long to sleep until @deadline_ns: 0 when there is work, UINT64_MAX for ever. */
uint64_t sleep_begin(struct engine *engine, uint64_t deadline_ns);
void sleep_end(struct engine *engine);
/* The next one of the worker's own, that other threads asked for. */
uint64_t sleep_asked_for(struct engine *engine);

#endif
