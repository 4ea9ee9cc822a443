/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Sleep of the threads that serve the engine: the worker (worker.c), and an application thread that
 * waits for a completion and does the worker's part meanwhile (wait.c), so that one thread is woken
 * and not two.
 *
 * No wake-up is lost. A sleeper publishes its deadline (sleep.until_ns), and to peers that it
 * sleeps, then looks for work. A thread that adds work or an earlier deadline does so first, then
 * reads that deadline, with a full fence between (worker_wake_at; local/channel/ring_internal.h).
 */
#ifndef VERBATIM_ENGINE_SLEEP_H
#define VERBATIM_ENGINE_SLEEP_H

#include "engine/engine.h"

/* Publish; returns the time to sleep until @deadline_ns; 0: there is work; UINT64_MAX: for ever. */
uint64_t sleep_begin(struct engine *engine, uint64_t deadline_ns);
void sleep_end(struct engine *engine);

#endif
