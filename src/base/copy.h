/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Copy to or from memory that the application owns and may have unmapped under us.
 *
 * copy_user() is one routine with a known range of program counters; platform/memory_fault.c claims
 * SIGSEGV and SIGBUS raised inside that range and makes it return EFAULT; all other faults
 * go on to the previous handler. Without the handler (unit tests, simulator) it is a
 * plain copy.
 */
#ifndef VERBATIM_BASE_COPY_H
#define VERBATIM_BASE_COPY_H

#include <stddef.h>
#include <stdint.h>

/* 0, or EFAULT when some byte could not be accessed (how many were copied is unspecified). */
int copy_user(void *to, const void *from, size_t length);

/* As copy_user(), but the last 64 bytes of @to become visible after all the others. */
int copy_user_ordered(void *to, const void *from, size_t length);

/*
 * 8-byte atomics on application memory, same fault rule. @address is 8-byte aligned; values
 * are in host order. *original is set only on success.
 */
int user_fetch_add(void *address, uint64_t add, uint64_t *original);
int user_compare_swap(void *address, uint64_t compare, uint64_t swap, uint64_t *original);

/*
 * Make every page of [@address, +@length) present, for reading or for writing, without changing it, so that
 * the copy that follows does not wait for a page while another process waits for us. @length is over 0.
 */
int user_touch(const void *address, size_t length);
int user_touch_write(void *address, size_t length);

/*
 * For the signal handler: if @pc lies in one of the routines above, the program counter at
 * which it returns EFAULT; else 0.
 */
uintptr_t copy_fixup(uintptr_t pc);

#endif
