/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the kernel says of another process: does it run, or is it stopped (SIGSTOP, a debugger), frozen with
 * its control group (docker pause), or gone? Another PID namespace, a /proc with hidepid and a chroot hide
 * it: then that is unknown.
 */
#ifndef VERBATIM_PLATFORM_PROCESS_STATE_H
#define VERBATIM_PLATFORM_PROCESS_STATE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * STOPPED, FROZEN: none of its threads moves. PARTLY: some are stopped, others may run: a debugger in
 * non-stop mode, or strace between two calls. BLOCKED: its first thread is in the kernel and takes no signal: that
 * passes, and the freezer of version 1 of control groups looks like it.
 */
enum process_state {
	PROCESS_UNKNOWN, PROCESS_RUNS, PROCESS_PARTLY, PROCESS_BLOCKED, PROCESS_STOPPED, PROCESS_FROZEN,
	PROCESS_ENDED,
};

/* @pid 0: UNKNOWN. Never blocks; some system calls, and two for each thread. */
enum process_state process_state(pid_t pid);
/*
 * Does a thread of it run, want a processor, or wait for memory or a disk? One that sleeps, is stopped, or has
 * ended does not. *cpu_us: processor time that all its threads have used, in steps of some milliseconds.
 */
bool process_is_busy(pid_t pid, uint64_t *cpu_us);
/* "stopped" ... : for explanations. */
const char *process_state_name(enum process_state state);

#endif
