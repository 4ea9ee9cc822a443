/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of `verbatim doctor` share: findings. A check reports what it found; where that is not
 * good, also what follows from it and what to type. It changes nothing on the machine.
 */
#ifndef VERBATIM_TOOLS_DOCTOR_H
#define VERBATIM_TOOLS_DOCTOR_H

#include <stdbool.h>

enum verdict {
	VERDICT_GOOD,
	VERDICT_NOTE,		/* works, but slower or in part: said how */
	VERDICT_BAD,		/* something will not work */
	VERDICT_UNKNOWN,	/* could not look */
	VERDICT_COUNT,
};

/*
 * A finding. @check: its name in --json, which stays. The text may end in ": CONSEQUENCE"; a consequence
 * and a command of their own are added by the two below.
 */
void report(enum verdict verdict, const char *check, const char *what, const char *format, ...)
	__attribute__((format(printf, 4, 5)));
void report_consequence(const char *format, ...) __attribute__((format(printf, 1, 2)));
void report_remedy(const char *format, ...) __attribute__((format(printf, 1, 2)));

void doctor_trial(void);	/* doctor_trial.c: opens the devices, as a program does */
void doctor_settings(void);	/* doctor_settings.c: VERBATIM_* */
void doctor_limits(void);	/* doctor_limits.c: of the process and of its container */
void doctor_network(void);	/* doctor_network.c: sockets and interfaces */
void doctor_port(void);		/* doctor_port.c: who has UDP port 4791 */
void doctor_host(void);		/* doctor_host.c: memory, processors, libraries */
void doctor_program(const char *name);		/* doctor_program.c: what it would load */
void doctor_peer(const char *address);		/* doctor_peer.c: a host, by IP and by CM */

/*
 * doctor_icrc.c: what the host at @address (with port 4791) does with right and wrong ICRCs. @cm_answers: its
 * connection manager does. Says nothing where that says all.
 */
struct sockaddr_storage;
void doctor_icrc(const char *peer, const struct sockaddr_storage *address, unsigned length, bool cm_answers);

/* Of the trial: whether what programs do first worked. Before doctor_trial(): true. */
bool trial_worked(void);

/*
 * Runs @child in a process of its own with stderr and stdout as one pipe, for at most @seconds; *output is
 * malloc'ed, at most 64 KiB. Its exit status; 128 + the signal that ended it; -1: it could not be started.
 */
int run_child(int (*child)(const void *argument), const void *argument, unsigned seconds, char **output);

#endif
