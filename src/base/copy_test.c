/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * copy_user() at all small lengths and alignments, at the very end of mapped memory, and into
 * memory that is not there, with a fault handler as platform/memory_fault.c has one.
 */
#include "base/copy.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/test_random.h"

#define AREA 8192u
static const size_t long_lengths[] = { 300, 511, 2047, 2048, 4095, 4096, 4097, 4160, 8000, AREA };

typedef int copy_function(void *to, const void *from, size_t length);

static void check_copy(copy_function *copy, size_t length, size_t to_offset, size_t from_offset)
{
	static uint8_t from[AREA + 64], to[AREA + 192], expected[sizeof(to)];
	static uint64_t random = 5;

	for (size_t i = 0; i < length + 64; i++)
		from[i] = (uint8_t)test_random(&random);
	memset(to, 0xa5, length + 192);
	memset(expected, 0xa5, length + 192);
	memcpy(expected + 64 + to_offset, from + from_offset, length);
	assert_int_equal(copy(to + 64 + to_offset, from + from_offset, length), 0);
	assert_memory_equal(to, expected, length + 192);
}

static void copies_exactly_the_bytes_at_every_small_length_and_alignment(void **unused)
{
	for (size_t length = 0; length <= 260; length++)
		for (size_t offset = 0; offset < 4; offset++) {
			check_copy(copy_user, length, offset, 3 * offset);
			check_copy(copy_user_ordered, length, 5 * offset, offset);
		}
}

static void copies_exactly_the_bytes_at_long_lengths(void **unused)
{
	for (size_t i = 0; i < sizeof(long_lengths) / sizeof(*long_lengths); i++)
		for (size_t offset = 0; offset < 64; offset += 7) {
			check_copy(copy_user, long_lengths[i], offset, 0);
			check_copy(copy_user_ordered, long_lengths[i], 0, offset);
		}
}

/* AREA bytes of memory with unmapped memory on both sides. */
static uint8_t *island(void)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *map = mmap(NULL, AREA + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(map, MAP_FAILED);
	assert_int_equal(mprotect(map + page, AREA, PROT_READ | PROT_WRITE), 0);
	return map + page;
}

static void free_island(uint8_t *memory)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	munmap(memory - page, AREA + 2 * page);
}

/* Without a handler: one byte too many and the test is dead. */
static void touches_nothing_before_or_after_the_range(void **unused)
{
	uint8_t *from = island(), *to = island();

	for (size_t length = 0; length <= 300; length++) {
		assert_int_equal(copy_user(to, from, length), 0);
		assert_int_equal(copy_user(to + AREA - length, from + AREA - length, length), 0);
	}
	for (size_t length = 4000; length <= AREA; length += 61)
		assert_int_equal(copy_user(to + AREA - length, from + AREA - length, length), 0);
	free_island(from);
	free_island(to);
}

static void fetch_add_returns_the_original(void **unused)
{
	uint64_t value = UINT64_MAX - 1, original = 0;

	assert_int_equal(user_fetch_add(&value, 3, &original), 0);
	assert_int_equal(original, UINT64_MAX - 1);
	assert_int_equal(value, 1);
}

static void compare_swap_swaps_only_what_is_equal(void **unused)
{
	uint64_t value = 7, original = 0;

	assert_int_equal(user_compare_swap(&value, 8, 9, &original), 0);
	assert_int_equal(original, 7);
	assert_int_equal(value, 7);
	assert_int_equal(user_compare_swap(&value, 7, UINT64_MAX, &original), 0);
	assert_int_equal(original, 7);
	assert_int_equal(value, UINT64_MAX);
}

static void *add_many(void *value)
{
	uint64_t original;

	for (int i = 0; i < 20000; i++)
		user_fetch_add(value, 1, &original);
	return NULL;
}

static void fetch_add_is_atomic(void **unused)
{
	_Alignas(8) uint64_t value = 0;
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, add_many, &value), 0);
	add_many(&value);
	pthread_join(thread, NULL);
	assert_int_equal(value, 40000);
}

#define ROUND_LENGTH 4500u
static uint8_t polled[ROUND_LENGTH];
static _Atomic unsigned seen_round;

/* Two-core machines with other work: both sides yield. */
static void *poll_last_byte(void *wrong)
{
	volatile uint8_t *last = &polled[ROUND_LENGTH - 1];

	for (unsigned round = 1; round <= 250; round++) {
		for (unsigned tries = 0; *last != (uint8_t)round; tries++)
			if (tries % 1000 == 999)
				sched_yield();
		for (size_t i = 0; i < ROUND_LENGTH; i++)
			*(int *)wrong += ((volatile uint8_t *)polled)[i] != (uint8_t)round;
		atomic_store(&seen_round, round);
	}
	return NULL;
}

static void who_sees_the_last_byte_sees_them_all(void **unused)
{
	uint8_t from[ROUND_LENGTH];
	pthread_t thread;
	int wrong = 0;

	assert_int_equal(pthread_create(&thread, NULL, poll_last_byte, &wrong), 0);
	for (unsigned round = 1; round <= 250; round++) {
		memset(from, (int)round, sizeof(from));
		copy_user_ordered(polled, from, sizeof(from));
		while (atomic_load(&seen_round) != round)
			sched_yield();
	}
	pthread_join(thread, NULL);
	assert_int_equal(wrong, 0);
}

static void program_counters_elsewhere_have_no_fixup(void **unused)
{
	assert_int_equal(copy_fixup(0), 0);
	assert_int_equal(copy_fixup((uintptr_t)copy_fixup), 0);
	assert_int_equal(copy_fixup((uintptr_t)check_copy), 0);
}

#if defined(__x86_64__)

static void handle_fault(int number, siginfo_t *info, void *context)
{
	greg_t *pc = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
	uintptr_t fixup = copy_fixup((uintptr_t)*pc);

	if (!fixup)
		abort();
	*pc = (greg_t)fixup;
}

/* In the tests themselves: cmocka puts its own handlers in place just before each of them. */
static void install_handler(void)
{
	struct sigaction action = { .sa_sigaction = handle_fault, .sa_flags = SA_SIGINFO };

	assert_int_equal(sigaction(SIGSEGV, &action, NULL), 0);
	assert_int_equal(sigaction(SIGBUS, &action, NULL), 0);
}

static void memory_that_is_not_there_is_efault_at_every_length(void **unused)
{
	uint8_t *memory = island(), other[AREA] = { 0 };

	install_handler();
	for (size_t length = 1; length <= AREA; length += length < 300 ? 1 : 331) {
		uint8_t *over = memory + AREA - length + 1, *under = memory - 1;

		assert_int_equal(copy_user(over, other, length), EFAULT);
		assert_int_equal(copy_user(other, over, length), EFAULT);
		assert_int_equal(copy_user(under, other, length), EFAULT);
		assert_int_equal(copy_user_ordered(over, other, length), EFAULT);
		assert_int_equal(copy_user_ordered(other, under, length), EFAULT);
	}
	free_island(memory);
}

static void addresses_no_process_can_have_are_efault(void **unused)
{
	uint8_t other[256] = { 0 };

	install_handler();
	assert_int_equal(copy_user(NULL, other, 8), EFAULT);
	assert_int_equal(copy_user((void *)(uintptr_t)0x8000000000000000, other, 256), EFAULT);
	assert_int_equal(copy_user(NULL, NULL, 0), 0);
}

static void atomics_on_missing_memory_are_efault_and_return_nothing(void **unused)
{
	uint8_t *memory = island();
	uint64_t original = 77;

	install_handler();
	assert_int_equal(user_fetch_add(memory + AREA, 1, &original), EFAULT);
	assert_int_equal(user_compare_swap(memory - 8, 0, 1, &original), EFAULT);
	assert_int_equal(original, 77);
	free_island(memory);
}

static void a_copy_after_a_fault_works(void **unused)
{
	uint8_t byte = 0;

	install_handler();
	assert_int_equal(copy_user(NULL, &byte, 1), EFAULT);
	check_copy(copy_user, 5000, 1, 2);
}

#endif

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copies_exactly_the_bytes_at_every_small_length_and_alignment),
		cmocka_unit_test(copies_exactly_the_bytes_at_long_lengths),
		cmocka_unit_test(touches_nothing_before_or_after_the_range),
		cmocka_unit_test(fetch_add_returns_the_original),
		cmocka_unit_test(compare_swap_swaps_only_what_is_equal),
		cmocka_unit_test(fetch_add_is_atomic),
		cmocka_unit_test(who_sees_the_last_byte_sees_them_all),
		cmocka_unit_test(program_counters_elsewhere_have_no_fixup),
#if defined(__x86_64__)
		cmocka_unit_test(memory_that_is_not_there_is_efault_at_every_length),
		cmocka_unit_test(addresses_no_process_can_have_are_efault),
		cmocka_unit_test(atomics_on_missing_memory_are_efault_and_return_nothing),
		cmocka_unit_test(a_copy_after_a_fault_works),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
