/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The check of this process: its one model, and the lock around it. Beginning and end: the first
 * device that is opened, and exit(), when all that the program does at its end is done.
 */
#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/call.h"
#include "base/fork.h"
#include "base/lock.h"
#include "check/check.h"
#include "check/report.h"
#include "check/rule.h"
#include "check/stack.h"
#include "check/watch.h"
#include "platform/thread_cpu.h"
#include "platform/wait.h"

static struct check_model checked;
static struct lock check_lock = LOCK_INITIALIZER;
static int exit_status;	/* of exit() */

/* This thread has the lock: memory that it frees is none of the program's, or goes unseen (fork()). */
static __thread bool is_inside __attribute__((tls_model("initial-exec")));

static void check_before_fork(void) ACQUIRES(check_lock)
{
	lock_acquire(&check_lock);
	is_inside = true;
}

static void check_after_fork_parent(void) RELEASES(check_lock)
{
	is_inside = false;
	lock_release(&check_lock);
}

/* Its parent's objects are none of a child's. What they take is left: nothing is freed between
 * fork() and exec(). */
static void check_after_fork_child(void) RELEASES(check_lock)
{
	const struct check_device *device = checked.device;
	check_manager *manager = checked.manager;
	const struct check_profile *profile = checked.profile;
	bool strict = checked.strict;

	memset(&checked, 0, sizeof(checked));
	checked.look = check_rules_look;
	checked.report = check_report_finding;
	checked.device = device;
	checked.manager = manager;
	checked.profile = profile;
	checked.strict = strict;
	check_report_forget();
	is_inside = false;
	lock_release(&check_lock);
}

static const struct fork_handlers check_fork = {
	.prepare = check_before_fork,
	.parent = check_after_fork_parent,
	.child = check_after_fork_child,
};

static void note_status(int status, void *unused)
{
	exit_status = status;
}

/* Where regions have been: most memory that goes is elsewhere. */
static _Atomic uint64_t regions_from = UINT64_MAX, regions_to;

/* Requests that were posted so far; changes under check_lock. */
static _Atomic uint64_t posts;

static uint64_t memory_now(void)
{
	return atomic_load(&posts);
}

/*
 * By a thread of the program, in no call of ours: what we free is ours, and may be under locks
 * that come behind this one. Signal handlers are put off, as they may call verbs.
 */
static void memory_gone(const char *call, const void *address, uint64_t bytes, uint64_t before)
{
	struct check_record gone = { .what = CHECK_GONE, .call = call, .address = (uintptr_t)address,
				     .bytes = bytes, .sequence = before };
	int saved = errno;

	if (!check_is_on() || is_inside || call_thread.depth || thread_is_worker() || !bytes ||
	    gone.address >= atomic_load(&regions_to) ||
	    gone.address + bytes <= atomic_load(&regions_from))
		return;
	call_enter(1);
	gone.thread = (uint64_t)thread_id();
	lock_acquire(&check_lock);
	is_inside = true;
	check_model_take(&checked, &gone);
	is_inside = false;
	lock_release(&check_lock);
	call_leave(1);
	errno = saved;
}

int check_start(void)
{
	static bool begun;
	static const struct check_watcher watcher = { .now = memory_now, .gone = memory_gone };
	const char *value = secure_getenv("VERBATIM_CHECK");
	struct check_options options;
	check_watch *watch;
	int err;

	if (!value || !*value || !strcmp(value, "0"))
		return 0;
	lock_acquire(&check_lock);
	err = begun ? 0 : check_options_read(value, &options);
	if (!err && !begun)
		err = check_report_start(&options);
	if (!err && !begun) {
		begun = true;
		check_stack_init();
		checked.look = check_rules_look;
		checked.report = check_report_finding;
		checked.profile = options.profile;
		checked.strict = options.strict;
		on_exit(note_status, NULL);
		check_report_begin();
		/* The library of `verbatim run` tells what is freed, moved and unmapped, if it is there. */
		watch = (check_watch *)dlsym(RTLD_DEFAULT, CHECK_WATCH_HOOK);
		if (watch)
			watch(&watcher);
		fork_register(FORK_CHECK, &check_fork);
		atomic_fetch_or(&trace_wanted, TRACE_CHECK);
	}
	lock_release(&check_lock);
	return err;
}

void check_take(struct check_record *record)
{
	int saved = errno;

	record->thread = (uint64_t)thread_id();
	lock_acquire(&check_lock);
	is_inside = true;
	if (record->what == CHECK_MADE && record->kind == CHECK_MR && record->bytes != UINT64_MAX) {
		if (record->address < atomic_load(&regions_from))
			atomic_store(&regions_from, record->address);
		if (record->address + record->bytes > atomic_load(&regions_to))
			atomic_store(&regions_to, record->address + record->bytes);
	}
	if (!record->stack && record->what == CHECK_MADE)
		record->stack = check_stack_take();
	if (record->what == CHECK_ENDED && record->error)
		record->stack = check_stack_take();
	if (record->kind == CHECK_ID || record->kind == CHECK_CM_CHANNEL)
		record->of_manager = call_thread.depth > 1;	/* librdmacm's own call */
	else if (record->what == CHECK_MADE || record->what == CHECK_ENDED)
		record->of_manager = check_stack_is_of_manager(record->stack);
	check_model_take(&checked, record);
	is_inside = false;
	lock_release(&check_lock);
	errno = saved;
}

int check_ask(struct check_record *record)
{
	int saved = errno, err;

	record->thread = (uint64_t)thread_id();
	lock_acquire(&check_lock);
	is_inside = true;
	if (record->what == CHECK_ARM)
		record->stack = check_stack_take();
	if (checked.profile && record->what == CHECK_ASK)
		record->of_manager = check_stack_is_of_manager(check_stack_take());
	check_model_take(&checked, record);
	err = checked.refusal;
	is_inside = false;
	lock_release(&check_lock);
	errno = saved;
	return err;
}

uint64_t check_lowered(enum check_fact fact, uint64_t own)
{
	uint64_t least = own;

	lock_acquire(&check_lock);
	if (checked.strict && check_profile_knows(checked.profile, fact) &&
	    checked.profile->fact[fact].value < own)
		least = checked.profile->fact[fact].value;
	lock_release(&check_lock);
	return least;
}

int check_take_at(struct check_record *record, const void *site, const void *frame)
{
	int saved = errno, err;

	record->thread = (uint64_t)thread_id();
	lock_acquire(&check_lock);
	is_inside = true;
	record->stack = check_stack_take_at(site, frame);
	record->sequence = atomic_load_explicit(&posts, memory_order_relaxed) + 1;
	atomic_store_explicit(&posts, record->sequence, memory_order_release);
	check_model_take(&checked, record);
	err = checked.refusal;
	is_inside = false;
	lock_release(&check_lock);
	errno = saved;
	return err;
}

void check_set_device(const struct check_device *device)
{
	lock_acquire(&check_lock);
	checked.device = device;
	lock_release(&check_lock);
}

void check_set_manager(check_manager *manager)
{
	lock_acquire(&check_lock);
	checked.manager = manager;
	lock_release(&check_lock);
}

/* exit() may run in a handler that interrupted a call: then the lock may be this thread's. */
void check_finish(void)
{
	struct check_record end = { .what = CHECK_END, .error = exit_status };

	if (!check_is_on() || !lock_try(&check_lock))
		return;
	is_inside = true;
	atomic_fetch_and(&trace_wanted, ~(uint32_t)TRACE_CHECK);
	check_model_take(&checked, &end);
	check_report_end();
	lock_release(&check_lock);
}
