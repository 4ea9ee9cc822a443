/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included in front of a program of examples/tutorial, which runs in virtual time then, unchanged: verbs by
 * sim/program/names.h, and what else it asks of the system. For pictures.c; no program includes it.
 */
#ifndef VERBATIM_TOOLS_TUTORIAL_PROGRAM_H
#define VERBATIM_TOOLS_TUTORIAL_PROGRAM_H

#include "sim/program/names.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int tutorial_printf(const char *format, ...) __attribute__((format(printf, 1, 2)));
void *tutorial_aligned_alloc(size_t alignment, size_t bytes);
void tutorial_free(void *memory);
void tutorial_exit(int status) __attribute__((noreturn));
int tutorial_usleep(unsigned us);
int tutorial_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *argument);
int tutorial_pthread_join(pthread_t thread, void **result);
int tutorial_fork(void);
int tutorial_pipe(int ends[2]);
ssize_t tutorial_read(int fd, void *data, size_t bytes);
ssize_t tutorial_write(int fd, const void *data, size_t bytes);
int tutorial_wait(int *status);

#define printf tutorial_printf
#define aligned_alloc tutorial_aligned_alloc
#define free tutorial_free
#define exit tutorial_exit
#define usleep tutorial_usleep
#define pthread_create tutorial_pthread_create
#define pthread_join tutorial_pthread_join
#define fork tutorial_fork
#define pipe tutorial_pipe
#define read tutorial_read
#define write tutorial_write
#define wait tutorial_wait

#endif
