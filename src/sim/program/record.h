/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A simulated run as a trace. Linked in place of trace/trace.c, whose functions it defines: what
 * object/, transport/ and verbs/ record goes here instead of to a tracer, with virtual time, as of
 * the host whose code runs.
 *
 * the same program, the same seed -> the same bytes, on each machine
 */
#ifndef VERBATIM_SIM_PROGRAM_RECORD_H
#define VERBATIM_SIM_PROGRAM_RECORD_H

#include <stdio.h>

#include "sim/world/sim.h"

/* One at a time. @name: of each host's process, by its index; kept by the caller. */
void sim_record_begin(struct sim *sim, const char *const name[SIM_HOSTS_MAX]);
/* The process on @host: "start" or "end". */
void sim_record_process(const struct sim_host *host, const char *what);
/* All that was recorded, as pcapng; false: it does not all stand in @out. */
bool sim_record_write(FILE *out);
void sim_record_end(void);

#endif
