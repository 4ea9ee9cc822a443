/* SPDX-License-Identifier: BSD-2-Clause */
/* madvise(), munmap() and mmap(MAP_FIXED) on blocks and parts of them. */
#include "local/block/block_test.h"

static bool is_zero(const uint8_t *memory, size_t bytes)
{
	size_t i = 0;

	while (i < bytes && !memory[i])
		i++;
	return i == bytes;
}

static int advise(void *memory, size_t bytes, int advice)
{
	int err = -5;

	return block_advise(memory, bytes, advice, &err) ? err : -1;
}

static size_t pages_in_use(const struct block *block)
{
	size_t from = 0, to, count = 0;

	for (; block_next_data(block, &from, &to); from = to)
		count += (to - from) / PAGE;
	return count;
}

static void dontneed_gives_the_pages_back_and_leaves_zeros(void **state)
{
	uint8_t *memory = new_block(8 * PAGE);
	struct block *block = block_get(memory, 8 * PAGE);

	memset(memory, 1, 8 * PAGE);
	assert_int_equal(pages_in_use(block), 8);
	assert_int_equal(advise(memory + 2 * PAGE, 3 * PAGE - 5, MADV_DONTNEED), 0);
	assert_int_equal(pages_in_use(block), 5);
	assert_int_equal(memory[2 * PAGE - 1], 1);
	assert_true(is_zero(memory + 2 * PAGE, 3 * PAGE));
	assert_int_equal(memory[5 * PAGE], 1);
	assert_int_equal(advise(memory, 8 * PAGE, MADV_FREE), 0);
	assert_true(is_zero(memory, 8 * PAGE));
	block_put(block);
	block_free(memory);
}

static void dontneed_works_on_what_a_peer_may_only_read(void **state)
{
	uint8_t *memory = new_block(8 * PAGE);
	struct block *block = block_get(memory, 8 * PAGE);
	int fd;

	assert_int_equal(block_grant(block, false, &fd), 0);
	memset(memory, 1, 4 * PAGE);
	assert_int_equal(advise(memory + PAGE, 6 * PAGE, MADV_DONTNEED), 0);
	assert_int_equal(pages_in_use(block), 4);		/* holes are still holes */
	assert_int_equal(memory[PAGE - 1], 1);
	assert_true(is_zero(memory + PAGE, 7 * PAGE));
	close(block->fd);			/* and once more without the descriptor */
	memset(memory, 1, 4 * PAGE);
	assert_int_equal(advise(memory + PAGE, 6 * PAGE, MADV_DONTNEED), 0);
	assert_int_equal(memory[PAGE - 1], 1);
	assert_true(is_zero(memory + PAGE, 6 * PAGE));
	close(fd);
	block_put(block);
	block_free(memory);
}

static void dontneed_works_on_read_only_pages(void **state)
{
	uint8_t *memory = new_block(2 * PAGE);

	memset(memory, 1, 2 * PAGE);
	assert_int_equal(mprotect(memory, 2 * PAGE, PROT_READ), 0);
	assert_int_equal(advise(memory, PAGE, MADV_DONTNEED), 0);
	assert_true(is_zero(memory, PAGE));
	assert_int_equal(memory[PAGE], 1);
	block_free(memory);
}

static void other_advice_is_for_the_kernel(void **state)
{
	uint8_t *memory = new_block(2 * PAGE);

	assert_int_equal(advise(memory, PAGE, MADV_WILLNEED), -1);
	assert_int_equal(advise(memory + 1, PAGE, MADV_DONTNEED), -1);
	assert_int_equal(advise(memory, 3 * PAGE, MADV_DONTNEED), -1);
	assert_int_equal(advise(&memory, 1, MADV_DONTNEED), -1);
	assert_int_equal(advise(memory, 0, MADV_DONTNEED), -1);
	assert_int_equal(madvise(memory, PAGE, MADV_WIPEONFORK), -1);
	assert_int_equal(errno, EINVAL);			/* docs/blocks.md */
	block_free(memory);
	assert_int_equal(advise(memory, PAGE, MADV_DONTNEED), -1);
}

static void unmapping_all_of_a_block_frees_it(void **state)
{
	uint8_t *memory = new_block(2 * PAGE);

	assert_true(block_unmap(memory, 2 * PAGE - 7));
	assert_false(block_free(memory));
	assert_false(is_readable(memory));
	assert_int_equal(blocks_now(), 0);
	assert_false(block_unmap(memory, 2 * PAGE));
}

static void ends_of_a_block_can_be_unmapped(void **state)
{
	uint8_t *memory = new_block(8 * PAGE), *middle = memory + 2 * PAGE, *behind;

	for (unsigned i = 0; i < 8; i++)
		memory[i * PAGE] = (uint8_t)(i + 1);
	assert_true(block_unmap(memory, 2 * PAGE));
	assert_true(block_unmap(memory + 6 * PAGE, 2 * PAGE));
	assert_false(is_readable(memory + PAGE));
	assert_false(is_readable(memory + 6 * PAGE));
	assert_int_equal(block_size(memory), 0);
	assert_int_equal(block_size(middle), 4 * PAGE);
	assert_int_equal(bytes_now(), 4 * PAGE);
	assert_null(block_get(middle, 4 * PAGE));		/* its file has other pages, too */
	assert_int_equal(middle[0], 3);
	assert_int_equal(advise(middle, PAGE, MADV_DONTNEED), 0);
	assert_int_equal(middle[0], 0);
	assert_int_equal(middle[PAGE], 4);
	assert_int_equal(middle[3 * PAGE], 6);
	behind = mmap(middle + 4 * PAGE, PAGE, PROT_READ,
		      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	assert_ptr_equal(behind, middle + 4 * PAGE);
	assert_true(block_free(middle));
	assert_true(is_readable(behind));			/* it was not the block's */
	munmap(behind, PAGE);
	assert_int_equal(bytes_now(), 0);
}

/* The middle stays reserved: other memory there would be unmapped with the block. */
static void the_middle_of_a_block_can_be_unmapped(void **state)
{
	uint8_t *memory = new_block(8 * PAGE), *probe;

	memset(memory, 1, 8 * PAGE);
	assert_true(block_unmap(memory + 3 * PAGE, 2 * PAGE));
	assert_false(is_readable(memory + 3 * PAGE));
	assert_int_equal(memory[3 * PAGE - 1], 1);
	assert_int_equal(memory[5 * PAGE], 1);
	assert_null(block_get(memory, 8 * PAGE));
	probe = mmap(memory + 3 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(probe, memory + 3 * PAGE);
	munmap(probe, PAGE);
	assert_true(block_free(memory));
}

/*
 * Two blocks side by side, the lower one behind a page of something else: the kernel maps
 * downwards, if there is room.
 */
static bool map_in_a_row(uint8_t **before, uint8_t **lower, uint8_t **upper)
{
	*upper = new_block(3 * PAGE);
	*lower = new_block(3 * PAGE);
	*before = mmap(*lower - PAGE, PAGE, PROT_READ,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	if (*before != MAP_FAILED && *upper == *lower + 4 * PAGE)
		return true;
	if (*before != MAP_FAILED)
		munmap(*before, PAGE);
	return false;			/* the blocks stay where they fill a gap */
}

static void a_range_may_hold_blocks_and_other_memory(void **state)
{
	uint8_t *before, *lower, *upper;
	unsigned blocks, tries = 1;

	while (!map_in_a_row(&before, &lower, &upper))
		assert_true(tries++ < 50);
	blocks = blocks_now();
	assert_true(block_unmap(before, 6 * PAGE));
	assert_false(is_readable(before));
	assert_int_equal(block_size(lower), 0);
	assert_int_equal(block_size(upper + PAGE), 2 * PAGE);
	assert_int_equal(blocks_now(), blocks - 1);
	assert_true(block_free(upper + PAGE));
}

static void what_was_mapped_over_is_not_granted(void **state)
{
	uint8_t *memory = new_block(4 * PAGE);
	struct block *block = block_get(memory, 4 * PAGE);
	int fd = -5;

	assert_false(block_replaced(memory + 4 * PAGE, PAGE));
	assert_true(block_replaced(memory + PAGE, PAGE));
	assert_null(block_get(memory, 4 * PAGE));
	assert_int_equal(block_grant(block, true, &fd), ENOENT);
	block_put(block);
	assert_true(block_free(memory));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dontneed_gives_the_pages_back_and_leaves_zeros),
		cmocka_unit_test(dontneed_works_on_what_a_peer_may_only_read),
		cmocka_unit_test(dontneed_works_on_read_only_pages),
		cmocka_unit_test(other_advice_is_for_the_kernel),
		cmocka_unit_test(unmapping_all_of_a_block_frees_it),
		cmocka_unit_test(ends_of_a_block_can_be_unmapped),
		cmocka_unit_test(the_middle_of_a_block_can_be_unmapped),
		cmocka_unit_test(a_range_may_hold_blocks_and_other_memory),
		cmocka_unit_test(what_was_mapped_over_is_not_granted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
