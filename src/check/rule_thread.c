/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules of threads: only what happens at the same time is a mistake, as a program may order its
 * threads by locks that nobody sees here.
 */
#include "check/finding.h"

void rule_destroyed_under_call(struct check_model *model, const struct check_record *ending)
{
	const struct check_object *object = check_find(model, ending->object);
	char name[64];

	if (object && ending->inside)
		check_report(model, RULE_THREADS_001, object, NULL, object->made, "made here",
			     "%s: %s, and thread %llu is in a call on it", check_name(object, name),
			     ending->call, (unsigned long long)ending->inside);
}

void rule_used_by_two(struct check_model *model, const struct check_record *record)
{
	struct check_object *object = check_find(model, record->object);
	char name[64];

	if (!object || !object->one_thread || !record->inside || object->told_threads)
		return;
	object->told_threads = true;
	check_report(model, RULE_THREADS_002, object, NULL, object->made, "made here",
		     "%s is for one thread at a time: %s, and thread %llu is in a call on it",
		     check_name(object, name), record->call, (unsigned long long)record->inside);
}
