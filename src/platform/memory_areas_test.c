/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Areas as the kernel tells them and as they are read from text: both are the same, and are what this
 * test has mapped. Where the kernel cannot be asked the text is compared with itself.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cmocka.h>

#include "platform/fail.h"
#include "platform/memory_areas.h"

#define PAGE	4096u
#define ALL_MAX	1000u

static int clear(void **state)
{
	areas_by_text = false;
	fail_clear();
	return 0;
}

/* A file's three pages, in the middle of four that are nobody's. */
static char *map_file(int fd, int rights, int flags, off_t offset)
{
	char *around = mmap(NULL, 5 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(around, MAP_FAILED);
	munmap(around, 5 * PAGE);
	assert_ptr_equal(mmap(around + PAGE, 3 * PAGE, rights, flags | MAP_FIXED, fd, offset),
			 around + PAGE);
	return around + PAGE;
}

static bool find(enum areas_kind kind, const void *at, struct area *found)
{
	static struct areas areas;	/* the name that is found lies in it */
	bool there = false;

	assert_int_equal(areas_open(&areas, kind, (uintptr_t)at), 0);
	if (areas_next(&areas, found))
		there = found->start <= (uintptr_t)at;
	assert_int_equal(areas_close(&areas), 0);
	return there;
}

static void check_file_mappings(void)
{
	int fd = memfd_create("areas", MFD_CLOEXEC);
	char *shared, *private;
	struct file_id id;
	struct area area;

	assert_int_equal(ftruncate(fd, 16 * PAGE), 0);
	assert_int_equal(file_identify(fd, &id), 0);
	shared = map_file(fd, PROT_READ | PROT_WRITE, MAP_SHARED, 2 * PAGE);
	private = map_file(fd, PROT_READ, MAP_PRIVATE, 7 * PAGE);
	assert_true(find(AREAS_SHARED, shared + PAGE, &area));
	assert_int_equal(area.start, (uintptr_t)shared);
	assert_int_equal(area.end, (uintptr_t)shared + 3 * PAGE);
	assert_int_equal(area.rights, PROT_READ | PROT_WRITE);
	assert_int_equal(area.offset, 2 * PAGE);
	assert_true(area.shared && area_is_of(&area, &id));
	assert_false(find(AREAS_SHARED, private, &area));
	assert_true(find(AREAS_OF_FILES, private + 3 * PAGE - 1, &area));
	assert_int_equal(area.rights, PROT_READ);
	assert_int_equal(area.offset, 7 * PAGE);
	assert_true(!area.shared && area_is_of(&area, &id));
	id.inode++;
	assert_false(area_is_of(&area, &id));
	munmap(shared, 3 * PAGE);
	munmap(private, 3 * PAGE);
	assert_false(find(AREAS_ALL, shared, &area));
	close(fd);
}

static void mappings_of_files_are_told_apart(void **state)
{
	check_file_mappings();
	areas_by_text = true;
	check_file_mappings();
}

static void check_anonymous(void)
{
	char *memory = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct area area;

	assert_int_equal(mprotect(memory + PAGE, PAGE, PROT_READ | PROT_EXEC), 0);
	assert_true(find(AREAS_ALL, memory + PAGE, &area));
	assert_int_equal(area.start, (uintptr_t)memory + PAGE);
	assert_int_equal(area.end, (uintptr_t)memory + 2 * PAGE);
	assert_int_equal(area.rights, PROT_READ | PROT_EXEC);
	assert_int_equal(area.inode, 0);
	assert_string_equal(area.name, "");
	assert_false(find(AREAS_OF_FILES, memory + PAGE, &area));
	/* The kernel may have been built without names. */
	if (!prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, memory + PAGE, PAGE, "some name")) {
		assert_true(find(AREAS_ALL, memory + PAGE, &area));
		assert_string_equal(area.name, "[anon:some name]");
	}
	/* The frame itself: sanitizers keep variables elsewhere. */
	assert_true(find(AREAS_ALL, __builtin_frame_address(0), &area));
	assert_string_equal(area.name, "[stack]");
	munmap(memory, 3 * PAGE);
}

static void anonymous_memory_has_its_name(void **state)
{
	check_anonymous();
	areas_by_text = true;
	check_anonymous();
}

static unsigned all_of(enum areas_kind kind, struct area list[ALL_MAX])
{
	struct areas areas;
	unsigned count = 0;

	assert_int_equal(areas_open(&areas, kind, 0), 0);
	while (count < ALL_MAX && areas_next(&areas, &list[count])) {
		list[count].name = NULL;
		/* The last of the text: no memory of the process, and the kernel does not tell of it. */
		count += list[count].start < UINTPTR_MAX / 2;
	}
	assert_int_equal(areas_close(&areas), 0);
	return count;
}

static void assert_same(const struct area *a, const struct area *b)
{
	assert_int_equal(a->start, b->start);
	assert_int_equal(a->end, b->end);
	assert_int_equal(a->rights, b->rights);
	assert_int_equal(a->shared, b->shared);
	assert_int_equal(a->offset, b->offset);
	assert_int_equal(a->major, b->major);
	assert_int_equal(a->minor, b->minor);
	assert_int_equal(a->inode, b->inode);
}

static void asking_and_reading_give_the_same(void **state)
{
	static struct area asked[ALL_MAX], read[ALL_MAX];
	enum areas_kind kind;

	for (kind = AREAS_ALL; kind <= AREAS_SHARED; kind++) {
		unsigned count = all_of(kind, asked), i;

		areas_by_text = true;
		assert_int_equal(all_of(kind, read), count);
		areas_by_text = false;
		assert_in_range(count, kind == AREAS_SHARED ? 0 : 5, ALL_MAX - 1);
		for (i = 0; i < count; i++)
			assert_same(&asked[i], &read[i]);
	}
}

static void without_descriptors_nothing_is_seen(void **state)
{
	struct areas areas;

	fail_set(FAIL_PROC, 1, EMFILE);
	assert_int_equal(areas_open(&areas, AREAS_ALL, 0), EMFILE);
	assert_int_equal(areas_close(&areas), EMFILE);
}

/* A descriptor of something else, as if the application had closed ours. */
static void what_cannot_be_read_is_an_error(void **state)
{
	struct areas areas;
	struct area area;

	areas_by_text = true;
	assert_int_equal(areas_open(&areas, AREAS_ALL, 0), 0);
	close(areas.fd);
	assert_false(areas_next(&areas, &area));
	areas.fd = -1;
	assert_int_equal(areas_close(&areas), EBADF);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, clear, clear)
	const struct CMUnitTest tests[] = {
		TEST(mappings_of_files_are_told_apart),
		TEST(anonymous_memory_has_its_name),
		TEST(asking_and_reading_give_the_same),
		TEST(without_descriptors_nothing_is_seen),
		TEST(what_cannot_be_read_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
