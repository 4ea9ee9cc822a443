/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * May blocks be served in this process? Only between a program and the C library's allocator:
 * another allocator in front of ours would be given our memory to free, one behind ours has to see
 * all that there is (sanitizers, valgrind), or knows better where memory should be. Then everything
 * is as without us.
 */
#include <dlfcn.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "preload.h"

#include "allocator.h"

/* Exported to the core alone: allocator_hook. */
enum allocator_answer verbatim_preload_serve(const struct allocator_calls *calls,
					     const char **reason);
/* Exported to the check alone: CHECK_WATCH_HOOK. */
void verbatim_preload_watcher(const struct check_watcher *watcher);

const struct allocator_calls *_Atomic allocator_calls;
const struct check_watcher *_Atomic memory_watch;

/* What free() calls is looked up before: dlsym() frees the words of its last error, and would do so twice. */
void verbatim_preload_watcher(const struct check_watcher *watcher)
{
	void *some = malloc(1);

	if (malloc_usable_size(some))
		atomic_store_explicit(&memory_watch, watcher, memory_order_release);
	free(some);
}

/*
 * Hooks of mmap() that others have installed may allocate while a block is made: not by blocks
 * again.
 */
static __thread bool serving __attribute__((tls_model("initial-exec")));
/*
 * Volatile: dlsym() is declared as a leaf, so that the compiler thinks that nobody looks at it
 * meanwhile.
 */
static __thread volatile bool resolving __attribute__((tls_model("initial-exec")));

void *allocator_serve(size_t alignment, size_t size)
{
	const struct allocator_calls *calls = allocator();
	void *memory = NULL;

	if (!calls || alignment < PAGE_BYTES || (alignment & (alignment - 1)) || serving)
		return NULL;
	serving = true;
	if (calls->alloc(size, alignment, &memory))
		memory = NULL;
	serving = false;
	return memory;
}

void *allocator_next(const char *name)
{
	void *found;

	if (resolving)
		return NULL;
	resolving = true;
	found = dlsym(RTLD_NEXT, name);
	resolving = false;
	return found;
}

/* In a program at a fixed address a function may seem to be where the program jumps to it. */
static bool is_stub(const void *function)
{
	const ElfW(Sym) *symbol = NULL;
	Dl_info info;

	return dladdr1(function, &info, (void **)&symbol, RTLD_DL_SYMENT) && symbol &&
	       symbol->st_shndx == SHN_UNDEF;
}

static const struct link_map *library_of(const void *function)
{
	struct link_map *map = NULL;
	Dl_info info;

	return function && dladdr1(function, &info, (void **)&map, RTLD_DL_LINKMAP) ? map : NULL;
}

static bool defines(const struct link_map *map, const char *name)
{
	void *handle = dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD);
	bool found = handle && library_of(dlsym(handle, name)) == map;

	if (handle)
		dlclose(handle);
	return found;
}

/* The library whose function of this name programs get, in the order in which they are searched. */
static const struct link_map *first_with(const char *name)
{
	const void *function = dlsym(RTLD_DEFAULT, name);
	const struct link_map *map = library_of(function);

	if (!map || !is_stub(function))
		return map;
	do
		map = map->l_next;
	while (map && !defines(map, name));
	return map;
}

/*
 * The library that stands between programs and this function of the C library, or in its place; for
 * functions of @ours beside ourselves. NULL: none does.
 */
static const struct link_map *stranger(const char *name, bool ours)
{
	const struct link_map *libc = library_of((void *)gnu_get_libc_version);
	const struct link_map *first = first_with(name), *next = first;

	if (ours && first == library_of(&allocator_calls))
		next = library_of(dlsym(RTLD_NEXT, name));
	else if (ours)
		return first;
	return next == libc ? NULL : next;
}

static const char *foreign_allocator(void)
{
	static const struct {
		const char *name;
		bool ours;
	} function[] = {
		{ "free", true }, { "realloc", true }, { "reallocarray", true },
		{ "malloc_usable_size", true }, { "posix_memalign", true },
		{ "aligned_alloc", true }, { "memalign", true }, { "valloc", true },
		{ "pvalloc", true }, { "malloc", false }, { "calloc", false },
	};
	static char text[512];

	for (unsigned i = 0; i < sizeof(function) / sizeof(function[0]); i++) {
		const struct link_map *map = stranger(function[i].name, function[i].ours);

		if (!map)
			continue;
		snprintf(text, sizeof(text), "%s() is from %s", function[i].name,
			 *map->l_name ? map->l_name : "the program itself");
		return text;
	}
	return NULL;
}

static const char *checking_tool(void)
{
	static const char *const mark[][2] = {
		{ "__asan_init", "the program is built with AddressSanitizer" },
		{ "__tsan_init", "the program is built with ThreadSanitizer" },
		{ "__msan_init", "the program is built with MemorySanitizer" },
		{ "__lsan_init", "the program is built with LeakSanitizer" },
		{ "__hwasan_init", "the program is built with HWAddressSanitizer" },
		{ "_vgnU_freeres", "the program runs under valgrind" },
	};

	for (unsigned i = 0; i < sizeof(mark) / sizeof(mark[0]); i++)
		if (dlsym(RTLD_DEFAULT, mark[i][0]))
			return mark[i][1];
	return NULL;
}

enum allocator_answer verbatim_preload_serve(const struct allocator_calls *calls,
					     const char **reason)
{
	if (tree_is_busy())
		return ALLOCATOR_LATER; /* the program looks at /sys/class/infiniband, no more */
	*reason = calls->version == ALLOCATOR_VERSION ? checking_tool() :
		  "libverbatim-preload.so is of another version";
	if (!*reason)
		*reason = foreign_allocator();
	if (*reason)
		return ALLOCATOR_REFUSES;
	atomic_store_explicit(&allocator_calls, calls, memory_order_release);
	return ALLOCATOR_SERVES;
}
