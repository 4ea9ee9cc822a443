/* SPDX-License-Identifier: BSD-2-Clause */
/* How the scheduler treats the threads of this process (proc(5), clock_gettime(2)). */
#ifndef VERBATIM_PLATFORM_THREAD_CPU_H
#define VERBATIM_PLATFORM_THREAD_CPU_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

pid_t thread_id(void);		/* of the calling thread; cheap */
void thread_id_forget(void);	/* in a fork()ed child: its thread has another ID */

/*
 * Preempted: runnable, but without a processor for @ns. The call takes that long. False if the thread
 * runs, sleeps, has ended or is not one of ours.
 */
bool thread_is_preempted(pid_t thread, uint64_t ns);

#endif
