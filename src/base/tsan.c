/* SPDX-License-Identifier: BSD-2-Clause */
/* ThreadSanitizer, if the program has it: looked up, and told where our own code begins and ends (tsan.h). */
#include "base/tsan.h"

#include <dlfcn.h>
#include <stdlib.h>

bool tsan_present;
struct tsan_runtime tsan_runtime;
uint64_t tsan_calls;

/* Of this thread. */
static _Thread_local struct {
	unsigned depth;			/* calls that it is in */
	void *caller;
} own __attribute__((tls_model("initial-exec")));

void tsan_enter(void)
{
	if (!tsan_present || own.depth++)
		return;
	tsan_runtime.release(&tsan_calls);
	tsan_runtime.ignore_begin(__FILE__, __LINE__);
}

void tsan_leave(void)
{
	if (tsan_present && own.depth && !--own.depth)
		tsan_runtime.ignore_end(__FILE__, __LINE__);
}

void tsan_abandon(void)
{
	if (own.depth)
		own.depth = 1;
	tsan_leave();
}

void tsan_enter_from(void *caller)
{
	own.caller = caller;
	tsan_enter();
}

void tsan_before(void *key)
{
	if (tsan_is_on())
		tsan_runtime.release(key);
}

void tsan_after(void *key)
{
	if (tsan_is_on())
		tsan_runtime.acquire(key);
}

void tsan_reads(const void *memory, size_t bytes)
{
	tsan_runtime.read_range((void *)memory, bytes);
}

void tsan_writes(void *memory, size_t bytes)
{
	tsan_runtime.write_range(memory, bytes);
}

void *tsan_caller(void)
{
	return own.caller;
}

void tsan_attach(const struct tsan_runtime *attached)
{
	if (attached)
		tsan_runtime = *attached;
	tsan_present = attached;
}

#if defined(__SANITIZE_THREAD__)
#define HAS_SANITIZER
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAS_SANITIZER
#endif
#endif

#ifndef HAS_SANITIZER
static void tsan_find(void *function, const char *name)
{
	void *found = dlsym(RTLD_DEFAULT, name);

	*(void **)function = found;
}

/* exit() in a handler that interrupted a call: to end in tsan_enter() is a failure to the sanitizer. */
static void leave_at_exit_of_program(void)
{
	tsan_abandon();
}

/* Since 2019 (clang 10, gcc 11) the run-time libraries have all of these. */
__attribute__((constructor)) static void tsan_look_up(void)
{
	struct tsan_runtime found;

	tsan_find(&found.acquire, "__tsan_acquire");
	if (!found.acquire)
		return;
	tsan_find(&found.release, "__tsan_release");
	tsan_find(&found.read_range, "__tsan_read_range");
	tsan_find(&found.write_range, "__tsan_write_range");
	tsan_find(&found.func_entry, "__tsan_func_entry");
	tsan_find(&found.func_exit, "__tsan_func_exit");
	tsan_find(&found.current_fiber, "__tsan_get_current_fiber");
	tsan_find(&found.create_fiber, "__tsan_create_fiber");
	tsan_find(&found.switch_to_fiber, "__tsan_switch_to_fiber");
	tsan_find(&found.set_fiber_name, "__tsan_set_fiber_name");
	tsan_find(&found.ignore_begin, "AnnotateIgnoreWritesBegin");
	tsan_find(&found.ignore_end, "AnnotateIgnoreWritesEnd");
	for (size_t i = 0; i < sizeof(found) / sizeof(void *); i++)
		if (!((void **)&found)[i])
			return;
	if (!atexit(leave_at_exit_of_program))
		tsan_attach(&found);
}
#endif
