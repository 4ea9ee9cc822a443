/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stacks of calls: taken by libgcc's unwinder, named by libdw of elfutils, if it is there
 * (docs/decisions/0022-stacks-of-a-program.md). Where a call is made again and again its stack is
 * taken once. Under check.lock.
 */
#ifndef VERBATIM_CHECK_STACK_H
#define VERBATIM_CHECK_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CHECK_STACK_FRAMES 16u

struct check_frame {
	char function[128], file[256], module[256];	/* "": not known */
	int line;
	uint64_t offset;	/* in the module */
};

/* May allocate: before the first call that is checked. */
void check_stack_init(void);
/* This thread's. */
uint32_t check_stack_take(void);
/* The same, of a place that is called often; @site and @frame tell one way to it from another. */
uint32_t check_stack_take_at(const void *site, const void *frame);
/* Frames of the program, without ours in front, inlined ones too: at most @max. Returns how many.
 */
unsigned check_stack_name(uint32_t stack, struct check_frame *frames, unsigned max);
/* The call was made by librdmacm, for itself or for the program. */
bool check_stack_is_of_manager(uint32_t stack);
/* The address in the program that it comes from. 0: none. */
uint64_t check_stack_place(uint32_t stack);

#endif
