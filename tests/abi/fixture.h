/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the C tests of tests/abi share: they are programs against the public header, linked to
 * our libibverbs.so.1, and use the loopback device (any other would do). Where a machine has
 * none, because lo is down, they are skipped.
 */
#ifndef VERBATIM_TESTS_ABI_FIXTURE_H
#define VERBATIM_TESTS_ABI_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>

#include <cmocka.h>
#include <errno.h>
#include <infiniband/verbs.h>

/* An open device in *state, or a skipped test. */
static inline int open_loopback(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device *device = NULL;

	for (int i = 0; list && list[i]; i++)
		if (!device || !strcmp(ibv_get_device_name(list[i]), "vb_lo"))
			device = list[i];
	*state = device ? ibv_open_device(device) : NULL;
	if (list)
		ibv_free_device_list(list);
	return 0;
}

static inline int close_loopback(void **state)
{
	return *state ? ibv_close_device(*state) : 0;
}

static inline struct ibv_context *context_of(void **state)
{
	if (!*state)
		skip();
	return *state;
}

#define test_with_device(function) \
	cmocka_unit_test_setup_teardown(function, open_loopback, close_loopback)

/* A pointer function that has to fail with @err. */
#define assert_refused(call, err)              \
	do {                                   \
		errno = 0;                     \
		assert_null(call);             \
		assert_int_equal(errno, err);  \
	} while (0)

/* A function that answers -1 and errno. */
#define assert_minus_one(call, err)              \
	do {                                     \
		errno = 0;                       \
		assert_int_equal(call, -1);      \
		assert_int_equal(errno, err);    \
	} while (0)

#endif
