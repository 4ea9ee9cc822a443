/* SPDX-License-Identifier: BSD-2-Clause */
/* The bytes that a fuzzer gives, taken one by one; zeros when they are used up. */
#ifndef VERBATIM_TESTS_FUZZ_INPUT_H
#define VERBATIM_TESTS_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

struct input {
	const uint8_t *data;
	size_t left;
};

static inline uint8_t next8(struct input *input)
{
	if (!input->left)
		return 0;
	input->left--;
	return *input->data++;
}

#endif
