/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What we were granted of a peer's memory (peer_memory.h): entries by key and by grant, blocks that
 * stay mapped while a thread of ours uses them, a peer that names the same grant again and again,
 * and threads that look while another one changes.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "local/grant/peer_memory.h"
#include "platform/memory.h"

#define PAGE 4096u

static struct grant_page *page;		/* the peer's */
static struct hazard_table *hazards;	/* ours */
static struct peer_memory *memory;

static int begin(void **state)
{
	page = calloc(1, sizeof(*page));
	hazards = aligned_alloc(64, sizeof(*hazards));
	if (!page || !hazards)
		return -1;
	*hazards = (struct hazard_table){ 0 };
	memory = peer_memory_new(page, hazards);
	return memory ? 0 : -1;
}

static int end(void **state)
{
	peer_memory_free(memory);
	free(hazards);
	free(page);
	return 0;
}

static uint32_t id_of(uint32_t serial, uint32_t index)
{
	return serial << GRANT_INDEX_BITS | index;
}

/* The peer grants it, and says so. */
static struct control granted(uint32_t id, uint32_t key)
{
	atomic_store(&page->alive[grant_index(id)], id);
	return (struct control){ .kind = CONTROL_KEY, .region = id, .key = key, .pd = 3, .access = 5,
				 .start = 0x1000, .length = 64, .host = 0x7000 };
}

static void add(uint32_t id, uint32_t key)
{
	struct control control = granted(id, key);

	peer_region_add(memory, &control, -1);
}

/* A block that is full of @content; its address in the peer is @address. */
static int block_of(uint8_t content, size_t bytes)
{
	int fd = memfd_create("block", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	uint8_t *data = malloc(bytes);

	assert_true(fd >= 0 && data);
	memset(data, content, bytes);
	assert_int_equal(write(fd, data, bytes), bytes);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	free(data);
	return fd;
}

static void add_block(uint32_t id, uint32_t key, uint8_t content, size_t bytes)
{
	struct control control = granted(id, key);

	control.mapped = 1;
	control.block = 0x100000;
	control.block_bytes = bytes;
	control.host = control.block;
	control.length = bytes;
	peer_region_add(memory, &control, block_of(content, bytes));
}

static struct peer_region find(uint32_t key)
{
	struct peer_region region;

	assert_true(peer_region_find(memory, key, &region));
	assert_int_equal(region.key, key);
	return region;
}

static void expect_unknown(uint32_t key)
{
	struct peer_region region;

	assert_false(peer_region_find(memory, key, &region));
}

/* ---- entries ---- */

static void a_region_is_found_as_it_was_granted(void **state)
{
	struct control control = granted(id_of(7, 9), 0xabcd);
	struct peer_region region, by_id;

	control.start = 0x1234567890;
	control.length = 0x200000000;
	control.host = 0x7f0000000000;
	expect_unknown(0xabcd);
	peer_region_add(memory, &control, -1);
	region = find(0xabcd);
	assert_int_equal(region.id, id_of(7, 9));
	assert_int_equal(region.pd, 3);
	assert_int_equal(region.access, 5);
	assert_int_equal(region.start, 0x1234567890);
	assert_int_equal(region.length, 0x200000000);
	assert_int_equal(region.host, 0x7f0000000000);
	assert_null(region.mapped);
	assert_null(region.block_mapped);
	assert_true(peer_region_by_id(memory, id_of(7, 9), &by_id));
	assert_int_equal(by_id.key, 0xabcd);
	assert_true(peer_region_holds(memory, &region));
	/* Others at that index, or of no number. */
	assert_false(peer_region_by_id(memory, id_of(8, 9), &by_id));
	assert_false(peer_region_by_id(memory, id_of(7, 8), &by_id));
	assert_false(peer_region_by_id(memory, 0, &by_id));
}

static void what_has_ended_does_not_hold(void **state)
{
	struct peer_region region;

	add(id_of(1, 2), 5);
	region = find(5);
	atomic_store(&page->alive[2], 0);
	assert_false(peer_region_holds(memory, &region));
	atomic_store(&page->alive[2], id_of(2, 2));
	assert_false(peer_region_holds(memory, &region));
	atomic_store(&page->alive[2], id_of(1, 2));
	assert_true(peer_region_holds(memory, &region));
	peer_region_remove(memory, id_of(1, 2));
	assert_false(peer_region_holds(memory, &region));
	expect_unknown(5);
}

static void another_grant_in_its_place_is_another_region(void **state)
{
	struct peer_region before, after;

	add(id_of(1, 2), 5);
	before = find(5);
	add(id_of(2, 2), 6);
	assert_false(peer_region_holds(memory, &before));
	expect_unknown(5);
	after = find(6);
	assert_true(peer_region_holds(memory, &after));
	/* The end of the one before comes late. */
	peer_region_remove(memory, id_of(1, 2));
	assert_true(peer_region_holds(memory, &after));
	assert_int_equal(find(6).id, id_of(2, 2));
}

/* Keys have no chains: the later one is found, the other one can be had again. */
static void of_keys_that_collide_the_later_is_found(void **state)
{
	uint32_t first = 0x1234, second;
	struct peer_region region;

	add(id_of(1, 1), first);
	for (second = first + 1;; second++) {
		add(id_of(1, 2), second);
		if (!peer_region_find(memory, first, &region))
			break;
	}
	assert_int_equal(find(second).id, id_of(1, 2));
	assert_true(peer_region_by_id(memory, id_of(1, 1), &region));
	assert_true(peer_region_holds(memory, &region));
	add(id_of(1, 1), first);
	assert_int_equal(find(first).id, id_of(1, 1));
	expect_unknown(second);
	peer_region_remove(memory, id_of(1, 1));
	expect_unknown(first);
	expect_unknown(second);
}

static void all_entries_can_be_used(void **state)
{
	struct peer_region region;
	unsigned i, found = 0;

	for (i = 0; i < GRANTS_MAX; i++)
		add(id_of(1 + i % 100, i), i << 14 | (i * 2654435761u >> 18));
	for (i = 0; i < GRANTS_MAX; i++) {
		assert_true(peer_region_by_id(memory, id_of(1 + i % 100, i), &region));
		assert_int_equal(region.key, i << 14 | (i * 2654435761u >> 18));
		found += peer_region_find(memory, region.key, &region);
	}
	assert_true(found > GRANTS_MAX / 2);	/* of the others keys collide */
}

static void a_new_life_of_the_channel_knows_nothing(void **state)
{
	struct peer_region region, mapped;
	unsigned i;

	for (i = 0; i < 50; i++)
		add(id_of(1, i), 1000 + i);
	add_block(id_of(1, 60), 2000, 1, PAGE);
	region = find(1007);
	mapped = find(2000);
	peer_memory_reset(memory);
	assert_false(peer_region_holds(memory, &region));
	assert_false(!memory_check(mapped.block_mapped, PAGE, false));
	for (i = 0; i < 50; i++)
		expect_unknown(1000 + i);
	expect_unknown(2000);
	add(id_of(1, 7), 1007);
	region = find(1007);
	assert_true(peer_region_holds(memory, &region));
}

static void a_key_is_asked_for_now_and_then(void **state)
{
	unsigned i, asked = 0;

	assert_true(peer_key_try_ask(memory, 0x55));
	for (i = 0; i < 640; i++)
		asked += peer_key_try_ask(memory, 0x55);
	assert_int_equal(asked, 10);
	assert_true(peer_key_try_ask(memory, 0x66));
	peer_memory_reset(memory);
	assert_true(peer_key_try_ask(memory, 0x66));
	assert_false(peer_key_try_ask(memory, 0x66));
	peer_keys_ask_again(memory);	/* the question was lost */
	assert_true(peer_key_try_ask(memory, 0x66));
}

/* ---- blocks ---- */

static void a_region_lies_within_its_block(void **state)
{
	struct control control = granted(id_of(1, 3), 9);
	struct peer_region region;

	control.mapped = 1;
	control.block = 0x200000;
	control.block_bytes = 4 * PAGE;
	control.host = 0x200000 + PAGE + 100;
	control.length = PAGE;
	peer_region_add(memory, &control, block_of(0x77, 4 * PAGE));
	region = find(9);
	assert_ptr_equal(region.mapped, region.block_mapped + PAGE + 100);
	assert_true(region.writable);
	assert_int_equal(region.block, 0x200000);
	assert_int_equal(region.block_bytes, 4 * PAGE);
	assert_int_equal(region.mapped[0], 0x77);
	region.mapped[0] = 1;
	peer_region_remove(memory, id_of(1, 3));
	assert_false(!memory_check(region.block_mapped, 4 * PAGE, false));
}

static void a_block_for_reading_is_not_writable(void **state)
{
	struct control control = granted(id_of(1, 3), 9);
	struct peer_region region;
	int fd = block_of(3, PAGE);

	assert_int_equal(fcntl(fd, F_ADD_SEALS, 0x0010), 0);	/* F_SEAL_FUTURE_WRITE */
	control.mapped = 2;
	control.block = control.host;
	control.block_bytes = PAGE;
	peer_region_add(memory, &control, fd);
	region = find(9);
	assert_non_null(region.mapped);
	assert_false(region.writable);
	assert_int_equal(mprotect(region.block_mapped, PAGE, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(fcntl(fd, F_GETFD), -1);	/* it was ours to close */
}

/* Anything else in place of a block: the region is known all the same, for copies. */
static void what_is_no_block_is_reached_by_copies(void **state)
{
	struct control control = granted(id_of(1, 3), 9);
	int fds[2];

	control.mapped = 1;
	control.block = control.host;
	control.block_bytes = PAGE;
	assert_int_equal(pipe(fds), 0);
	peer_region_add(memory, &control, fds[0]);
	assert_null(find(9).mapped);
	peer_region_add(memory, &control, -1);
	assert_null(find(9).mapped);
	control.block_bytes = 2 * PAGE;
	peer_region_add(memory, &control, block_of(1, PAGE));
	assert_null(find(9).mapped);
	close(fds[1]);
	assert_int_equal(fcntl(fds[0], F_GETFD), -1);
}

static void a_block_stays_mapped_while_a_hazard_names_it(void **state)
{
	struct peer_region region, other;
	unsigned hazard, qp_hazard;

	add_block(id_of(1, 4), 9, 0x11, PAGE);
	region = find(9);
	assert_true(hazard_begin(hazards, region.id, 77, 0, &hazard));
	assert_true(hazard_begin(hazards, 0, 78, 0, &qp_hazard));
	assert_true(peer_region_holds(memory, &region));
	peer_region_remove(memory, region.id);
	assert_false(peer_region_holds(memory, &region));
	assert_int_equal(region.mapped[5], 0x11);
	/* Another one in its place, and gone again: that has no hazard. */
	add_block(id_of(2, 4), 9, 0x22, PAGE);
	other = find(9);
	assert_int_equal(other.mapped[5], 0x22);
	peer_region_remove(memory, other.id);
	assert_false(!memory_check(other.block_mapped, PAGE, false));
	assert_int_equal(region.mapped[5], 0x11);
	hazard_end(hazards, hazard);
	peer_region_remove(memory, 1);	/* any change takes care of it */
	assert_false(!memory_check(region.block_mapped, PAGE, false));
	hazard_end(hazards, qp_hazard);
}

/* ---- a peer that does not mean well ---- */

/*
 * It says the same of a grant that we know, but another block, of other bounds: what was found
 * before does not hold, or we would read and write where the old one was mapped.
 */
static void a_grant_that_is_said_anew_is_another_one(void **state)
{
	struct peer_region before, after;
	unsigned hazard;

	add_block(id_of(1, 4), 9, 0x11, 16 * PAGE);
	before = find(9);
	add_block(id_of(1, 4), 9, 0x22, PAGE);
	assert_true(hazard_begin(hazards, before.id, 77, 0, &hazard));
	assert_false(peer_region_holds(memory, &before));
	after = find(9);
	assert_true(peer_region_holds(memory, &after));
	assert_int_equal(after.mapped[0], 0x22);
	hazard_end(hazards, hazard);
	/* Nor does it after another one was there meanwhile. */
	add(id_of(2, 4), 9);
	add_block(id_of(1, 4), 9, 0x33, PAGE);
	assert_false(peer_region_holds(memory, &after));
}

/* ---- threads ---- */

#define READERS		2u
#define KEY		0x4321u
#define CHANGES		6000u

static _Atomic bool finished;
static _Atomic unsigned reads;

/* Of each region start, host and block say the same number, and its block is full of it. */
static bool agrees(const struct peer_region *region)
{
	uint64_t number = region->start / PAGE;

	return region->host == region->start && region->pd == (uint32_t)number &&
	       (!region->block_mapped ||
		(region->block == region->start && region->mapped == region->block_mapped &&
		 region->block_bytes == (1 + number % 4) * PAGE &&
		 region->length == region->block_bytes));
}

static void *look_all_the_time(void *argument)
{
	unsigned *wrong = argument, slot;
	struct peer_region region;

	while (!atomic_load(&finished)) {
		if (!peer_region_find(memory, KEY, &region))
			continue;
		*wrong += !agrees(&region);
		if (!hazard_begin(hazards, region.id, 1, 0, &slot))
			continue;
		if (peer_region_holds(memory, &region) && region.mapped) {
			uint8_t content = (uint8_t)(region.start / PAGE);

			*wrong += region.mapped[0] != content ||
				  region.mapped[region.length - 1] != content;
			atomic_fetch_add(&reads, 1);
		}
		hazard_end(hazards, slot);
	}
	return NULL;
}

/* The next region, of @id: with a block, or without. */
static void change(uint32_t id, uint32_t number)
{
	size_t bytes = (1 + number % 4) * PAGE;
	struct control control = granted(id, KEY);

	control.start = control.host = (uint64_t)number * PAGE;
	control.length = bytes;
	control.pd = number;
	if (number % 5) {
		control.mapped = 1;
		control.block = control.start;
		control.block_bytes = bytes;
	}
	peer_region_add(memory, &control, control.mapped ? block_of((uint8_t)number, bytes) : -1);
}

static void look_while_another_changes(bool same_id)
{
	unsigned wrong[READERS] = { 0 }, i, before;
	pthread_t thread[READERS];

	atomic_store(&finished, false);
	atomic_store(&reads, 0);
	for (i = 0; i < READERS; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, look_all_the_time, &wrong[i]), 0);
	for (i = 1; i <= CHANGES; i++) {
		uint32_t id = id_of(same_id ? 1 : i, 5);

		change(id, i);
		before = atomic_load(&reads);
		/* Now and then be sure that readers are active; mostly surprise them. */
		while (i % 64 == 1 && i % 5 && atomic_load(&reads) == before)
			sched_yield();
		if (i % 3 == 0)
			peer_region_remove(memory, id);
	}
	atomic_store(&finished, true);
	for (i = 0; i < READERS; i++) {
		pthread_join(thread[i], NULL);
		assert_int_equal(wrong[i], 0);
	}
	assert_true(atomic_load(&reads) > 0);
	assert_false(hazard_any(hazards));
}

static void who_looks_sees_one_region_or_none(void **state)
{
	look_while_another_changes(false);
}

/* The same where the peer gives all of them one number. */
static void who_looks_sees_one_region_whatever_the_peer_calls_it(void **state)
{
	look_while_another_changes(true);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(a_region_is_found_as_it_was_granted),
		TEST(what_has_ended_does_not_hold),
		TEST(another_grant_in_its_place_is_another_region),
		TEST(of_keys_that_collide_the_later_is_found),
		TEST(all_entries_can_be_used),
		TEST(a_new_life_of_the_channel_knows_nothing),
		TEST(a_key_is_asked_for_now_and_then),
		TEST(a_region_lies_within_its_block),
		TEST(a_block_for_reading_is_not_writable),
		TEST(what_is_no_block_is_reached_by_copies),
		TEST(a_block_stays_mapped_while_a_hazard_names_it),
		TEST(a_grant_that_is_said_anew_is_another_one),
		TEST(who_looks_sees_one_region_or_none),
		TEST(who_looks_sees_one_region_whatever_the_peer_calls_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
