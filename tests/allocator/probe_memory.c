/* SPDX-License-Identifier: BSD-2-Clause */
/* What programs do with memory of malloc() and mmap(), done with blocks. */
#include "probe.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#define HUGE ((size_t)2 << 20)

static void test_realloc(void)
{
	char *memory = pages(3 * PAGE), *grown, *shrunk;

	memset(memory, 3, 3 * PAGE);
	report(malloc_usable_size(memory) == 3 * PAGE, "malloc_usable_size() knows blocks");
	grown = realloc(memory, 100 * PAGE);
	report(grown && all_are(grown, 3 * PAGE, 3) && is_block(grown), "realloc() grows a block");
	memset(grown, 4, 100 * PAGE);
	shrunk = reallocarray(grown, 5, 1000);
	report(shrunk && all_are(shrunk, 5000, 4), "reallocarray() shrinks a block");
	errno = 0;
	report(!reallocarray(shrunk, SIZE_MAX, 2) && errno == ENOMEM && all_are(shrunk, 5000, 4),
	       "a size that cannot be leaves the block");
	report(!realloc(shrunk, SIZE_MAX / 2) && all_are(shrunk, 5000, 4),
	       "so does one that cannot be had");
	report(!realloc(shrunk, 0) && !count_blocks(), "realloc() to nothing frees a block");
}

static void test_free_keeps_errno(void)
{
	void *memory = pages(PAGE);

	errno = ERANGE;
	free(memory);
	report(errno == ERANGE, "free() keeps errno");
}

static void test_advice(void)
{
	char *memory = pages(8 * PAGE);

	memset(memory, 1, 8 * PAGE);
	report(!madvise(memory + PAGE, 2 * PAGE, MADV_DONTNEED) &&
		       all_are(memory + PAGE, 2 * PAGE, 0) && memory[PAGE - 1] == 1 &&
		       memory[3 * PAGE] == 1,
	       "MADV_DONTNEED leaves zeros");
	report(!madvise(memory, 8 * PAGE, MADV_FREE) &&
		       (all_are(memory, PAGE, 0) || memory[0] == 1),
	       "MADV_FREE is taken");
	report(madvise(memory, PAGE, MADV_WIPEONFORK) == -1 && errno == EINVAL,
	       "MADV_WIPEONFORK is refused");
	report(!madvise(memory, 8 * PAGE, MADV_WILLNEED) &&
		       !madvise(memory, 8 * PAGE, MADV_HUGEPAGE),
	       "other advice reaches the kernel");
	report(!mlock(memory, 8 * PAGE) && !munlock(memory, 8 * PAGE), "mlock() works");
	report(!mprotect(memory, PAGE, PROT_NONE) &&
		       !mprotect(memory, PAGE, PROT_READ | PROT_WRITE),
	       "mprotect() works");
	free(memory);
}

static void *map_huge(size_t bytes, int more)
{
	return mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | more, -1, 0);
}

static void test_huge(void)
{
	char *memory = map_huge(2 * HUGE, 0), *one, *other;

	report(memory != MAP_FAILED && is_block(memory) && (uintptr_t)memory % HUGE == 0 &&
	       all_are(memory, 2 * HUGE, 0), "MAP_HUGETLB memory is a block");
	report(!munmap(memory, 2 * HUGE) && !count_blocks(), "munmap() frees it");
	memory = map_huge(5 * PAGE, MAP_NORESERVE);
	report(memory != MAP_FAILED && !munmap(memory, HUGE) && !count_blocks(),
	       "it is whole huge pages");
	memory = map_huge(3 * HUGE, 0);
	memory[HUGE] = 5;
	report(!munmap(memory, HUGE) && !munmap(memory + 2 * HUGE, HUGE) && memory[HUGE] == 5 &&
	       count_blocks() == 1, "its ends can be unmapped");
	report(!munmap(memory + HUGE, HUGE) && !count_blocks(), "and the rest");
	one = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	other = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	report(!is_block(one) && !is_block(other), "other mappings are as ever");
	munmap(one, PAGE);
	munmap(other, PAGE);
}

static void test_mremap(void)
{
	char *memory = map_huge(HUGE, 0), *moved, *place;

	memset(memory, 1, HUGE);
	errno = 0;
	report(mremap(memory, HUGE, 2 * HUGE, 0) == MAP_FAILED && errno == ENOMEM,
	       "mremap() cannot grow it in place");
	moved = mremap(memory, HUGE, 2 * HUGE, MREMAP_MAYMOVE);
	report(moved != MAP_FAILED && is_block(moved) && all_are(moved, HUGE, 1) &&
		       all_are(moved + HUGE, HUGE, 0) && count_blocks() == 1,
	       "mremap() moves and grows it");
	report(mremap(moved, 2 * HUGE, HUGE, 0) == moved && all_are(moved, HUGE, 1),
	       "mremap() shrinks it");
	place = mmap(NULL, HUGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	report(mremap(moved, HUGE, HUGE, MREMAP_MAYMOVE | MREMAP_FIXED, place) == place &&
		       all_are(place, HUGE, 1) && !count_blocks(),
	       "mremap() moves it to an address: it is ordinary then");
	munmap(place, HUGE);
	memory = map_huge(HUGE, 0);
	memset(memory, 2, HUGE);
	moved = mremap(memory + 4 * PAGE, 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE);
	report(moved != MAP_FAILED && all_are(moved, 2 * PAGE, 2) && moved[2 * PAGE] == 0 &&
		       memory[3 * PAGE] == 2 && memory[6 * PAGE] == 2,
	       "mremap() moves a part of it");
	munmap(moved, 3 * PAGE);
	munmap(memory, HUGE);
}

static void test_mapped_over(void)
{
	char *memory = pages(4 * PAGE);

	memset(memory, 1, 4 * PAGE);
	report(mmap(memory + PAGE, PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory + PAGE &&
		       memory[PAGE] == 0 && memory[2 * PAGE] == 1,
	       "other memory can be mapped over a part");
	free(memory);
}

/* 2000 of them: blocks as far as the budget goes, then ordinary memory. */
static void test_budget(void)
{
	static char *memory[2000];
	unsigned blocks;
	bool good = true;

	for (unsigned i = 0; i < 2000; i++) {
		memory[i] = pages(PAGE);
		good &= memory[i] && (uintptr_t)memory[i] % PAGE == 0;
		memory[i][0] = memory[i][PAGE - 1] = (char)i;
	}
	blocks = count_blocks();
	for (unsigned i = 0; i < 2000; i++) {
		good &= memory[i][0] == (char)i && memory[i][PAGE - 1] == (char)i;
		free(memory[i]);
	}
	report(good && blocks >= 16 && blocks <= 512 && !count_blocks(),
	       "beyond the budget memory is ordinary");
}

static void test_without_descriptors(void)
{
	struct rlimit old, none;
	char *block = pages(PAGE), *memory, *moved;

	block[0] = 9;
	getrlimit(RLIMIT_NOFILE, &old);
	none = old;
	none.rlim_cur = 0;
	setrlimit(RLIMIT_NOFILE, &none);
	memory = pages(PAGE);
	moved = realloc(block, 3 * PAGE);
	setrlimit(RLIMIT_NOFILE, &old);
	report(memory && !is_block(memory) && moved && moved[0] == 9 && !is_block(moved),
	       "without descriptors memory is ordinary, and a block that grows becomes so");
	free(memory);
	free(moved);
}

void test_memory(void)
{
	test_realloc();
	test_free_keeps_errno();
	test_advice();
	test_huge();
	test_mremap();
	test_mapped_over();
	test_budget();
	test_without_descriptors();
}
