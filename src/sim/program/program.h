/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs in virtual time: functions that call verbs as any program does, one after the other, and
 * wait. Each has a stack of its own; one runs at a time, and only it can give way. Time goes on by
 * what calls cost and by waiting, never by computing: a loop that looks at memory has to call
 * something.
 *
 * sim_program_start -> run() -> sim_spend, sim_wait ... -> its return, or sim_exit
 */
#ifndef VERBATIM_SIM_PROGRAM_PROGRAM_H
#define VERBATIM_SIM_PROGRAM_PROGRAM_H

#include "sim/world/sim.h"

#define SIM_PROGRAMS_MAX 8u

struct sim_program;

/* It begins when the world runs. Never NULL. */
struct sim_program *sim_program_start(struct sim_host *host, int (*run)(void *argument), void *argument);
/* Until all have ended. False: one cannot go on, or the world failed: sim->failure. */
bool sim_programs_run(struct sim *sim);
/* Its status, when it has ended. */
int sim_program_status(const struct sim_program *program);
void sim_programs_free(struct sim *sim);

/* All below are called by programs. */

struct sim_host *sim_here(void);
struct sim_program *sim_program_self(void);
bool sim_program_ended(const struct sim_program *program);
/*
 * Zeroed memory until sim_programs_free(), at the same address in each run: addresses go on the wire. Never NULL.
 */
void *sim_memory(size_t bytes);
/* So much time passes. */
void sim_spend(uint64_t ns);
/* Until something happens: to a packet, a timer, another program. */
void sim_wait(void);
/* What others may wait for has happened: they look. */
void sim_happened(void);
void sim_exit(int status) __attribute__((noreturn));

#endif
