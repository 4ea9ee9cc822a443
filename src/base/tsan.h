/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ThreadSanitizer of a program that uses us: what it is told, by its public functions, which are
 * looked up when we are loaded. A program without it pays nothing on its data path: posting and
 * polling have twins for it (device/tsan.c), which its contexts call in place of the usual
 * functions.
 *
 *	our own accesses	are not looked at: our locks are unknown to it (tsan_enter(), tsan_leave())
 *	tsan_before, _after	what a thread did before the one happens before what another does after the other
 *	the adapter		accesses memory of the application between the post of a request and the
 *				poll of its completion (device/tsan_adapter.h)
 *
 * Not for builds of ours that have the sanitizer themselves: it sees all in them.
 */
#ifndef VERBATIM_BASE_TSAN_H
#define VERBATIM_BASE_TSAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The functions of the sanitizer; those of <sanitizer/tsan_interface.h>, but for the first two. */
struct tsan_runtime {
	void (*ignore_begin)(const char *file, int line);
	void (*ignore_end)(const char *file, int line);
	void (*acquire)(void *address);
	void (*release)(void *address);
	void (*read_range)(void *address, unsigned long bytes);
	void (*write_range)(void *address, unsigned long bytes);
	void (*func_entry)(void *caller);
	void (*func_exit)(void);
	void *(*current_fiber)(void);
	void *(*create_fiber)(unsigned flags);
	void (*switch_to_fiber)(void *fiber, unsigned flags);
	void (*set_fiber_name)(void *fiber, const char *name);
};

/* Found when the library was loaded. */
extern bool tsan_present;
extern struct tsan_runtime tsan_runtime;

static inline bool tsan_is_on(void)
{
	return __builtin_expect(tsan_present, 0);
}

/* For tests: NULL ends it. */
void tsan_attach(const struct tsan_runtime *runtime);

/* A call of ours, or a thread: until it ends, what this thread reads and writes is not looked at. They nest. */
void tsan_enter(void);
void tsan_leave(void);
/* The same of a post; @caller: the return address of the function of ours that the application called. */
void tsan_enter_from(void *caller);
void *tsan_caller(void);
/* The thread is in no call any more. */
void tsan_abandon(void);

/* @key: an address of ours, that stands for what is handed over. Nothing where there is no sanitizer. */
void tsan_before(void *key);
void tsan_after(void *key);
/* The key of all calls but posts and polls, each of which hands over what was done before it. */
extern uint64_t tsan_calls;

/* This thread reads or writes memory of the application now. Not between tsan_enter() and tsan_leave(). */
void tsan_reads(const void *memory, size_t bytes);
void tsan_writes(void *memory, size_t bytes);

#endif
