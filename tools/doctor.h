/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of `verbatim doctor` share: findings. Each check reports one finding (or a few)
 * and what follows from it; it changes nothing on the machine.
 */
#ifndef VERBATIM_TOOLS_DOCTOR_H
#define VERBATIM_TOOLS_DOCTOR_H

enum verdict {
	VERDICT_GOOD,
	VERDICT_NOTE,		/* works, but slower or in part: said how */
	VERDICT_BAD,		/* something will not work */
};

/* One line, and behind a verdict other than good the consequence, after a dash. */
void report(enum verdict verdict, const char *what, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

void doctor_network(void);	/* doctor_network.c: sockets and interfaces */
void doctor_port(void);		/* doctor_port.c: who has UDP port 4791 */
void doctor_host(void);		/* doctor_host.c: memory, processors, libraries */

#endif
