/* SPDX-License-Identifier: BSD-2-Clause */
/* What the scheduler does with the threads of this process (proc(5), clock_gettime(2)). */
#ifndef VERBATIM_PLATFORM_THREAD_CPU_H
#define VERBATIM_PLATFORM_THREAD_CPU_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

pid_t thread_id(void);		/* of the calling one; cheap */
void thread_id_forget(void);	/* after fork(), in the child: it is another one */

/*
 * It could run, but for @ns, which this call takes, there was no processor for it. False if it runs,
 * sleeps, has ended or is not one of ours.
 */
bool thread_is_preempted(pid_t thread, uint64_t ns);

#endif
