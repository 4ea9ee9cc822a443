/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs as programs call them: each looks whether the handles that it is given are good
 * (live.h), calls the function that its own file defines (inner.h), sets errno as errno.def says,
 * and notes what was made or ended. The call begins here: no handler leaves it while a handle is
 * looked up.
 */
#define VERBS_OUTER
#include "verbs/live.h"
#include "verbs/verbs.h"

/* Each of at most six arguments, a pointer or not. */
#define TAKE(a)	live_take(&call, LIVE_KIND(a), LIVE_KIND(a) == LIVE_NONE ? NULL : (const void *)(uintptr_t)(a))
#define TAKE_1(a)			TAKE(a)
#define TAKE_2(a, b)			TAKE(a); TAKE(b)
#define TAKE_3(a, b, c)			TAKE_2(a, b); TAKE(c)
#define TAKE_4(a, b, c, d)		TAKE_3(a, b, c); TAKE(d)
#define TAKE_5(a, b, c, d, e)		TAKE_4(a, b, c, d); TAKE(e)
#define TAKE_6(a, b, c, d, e, f)	TAKE_5(a, b, c, d, e); TAKE(f)
#define TAKE_N(a, b, c, d, e, f, name, ...)	name
#define TAKE_ALL(...)	TAKE_N(__VA_ARGS__, TAKE_6, TAKE_5, TAKE_4, TAKE_3, TAKE_2, TAKE_1)(__VA_ARGS__)
#define FIRST_OF(a, ...)	(a)
#define FIRST(...)		FIRST_OF(__VA_ARGS__, )

#define FAILED_ERRNO(result)	((intptr_t)(result) > 0)
#define FAILED_END		FAILED_ERRNO
#define FAILED_MINUS(result)	((intptr_t)(result) < 0)
#define FAILED_POINTER(result)	(!(result))
#define FAILED_OPEN		FAILED_POINTER
#define FAILED_POST		FAILED_ERRNO

/* What it answers if an argument is not good. */
#define REFUSED_ERRNO	call.err
#define REFUSED_END	call.err
#define REFUSED_POST	call.err
#define REFUSED_MINUS	-1
#define REFUSED_POINTER	NULL
#define REFUSED_OPEN	NULL

/* errno of a failure: that of the answer, or what the verb has set. */
#define REASON_ERRNO(result)	(int)(intptr_t)(result)
#define REASON_END		REASON_ERRNO
#define REASON_POST		REASON_ERRNO
#define REASON_MINUS(result)	errno
#define REASON_POINTER(result)	errno
#define REASON_OPEN(result)	errno

/* Does an adapter's kernel look the objects up by their numbers? */
#define NUMBERS_ERRNO	true
#define NUMBERS_END	true
#define NUMBERS_MINUS	true
#define NUMBERS_POINTER	true
#define NUMBERS_OPEN	true
#define NUMBERS_POST	false

/* What a success does to the handles. */
#define NOTE_ERRNO(result, first)
#define NOTE_POST(result, first)
#define NOTE_MINUS(result, first)
#define NOTE_POINTER(result, first)	live_add(&call, LIVE_KIND(result), (const void *)(intptr_t)(result))
#define NOTE_OPEN(result, first)	live_share(LIVE_KIND(result), (const void *)(intptr_t)(result))
#define NOTE_END(result, first)		live_remove(&call, LIVE_KIND(first), first)

#define SLOT(kind, type, function, verb, parameters, arguments)                  \
	type inner_##function parameters;                                        \
	type function parameters                                                 \
	{                                                                        \
		CALL();                                                          \
		struct live_call call = { .name = #verb, .by_number = NUMBERS_##kind };\
		int before = errno;                                              \
		type result;                                                     \
										 \
		TAKE_ALL arguments;                                              \
		if (call.err) {                                                  \
			errno = call.err;                                        \
			return REFUSED_##kind;                                   \
		}                                                                \
		result = inner_##function arguments;                             \
		if (FAILED_##kind(result)) {                                     \
			errno = REASON_##kind(result);                           \
			return result;                                           \
		}                                                                \
		NOTE_##kind(result, FIRST arguments);                            \
		errno = before;                                                  \
		return result;                                                   \
	}
#define VERB(kind, type, verb, parameters, arguments) SLOT(kind, type, verb, verb, parameters, arguments)
#define VOID(verb, parameters, arguments)                                        \
	void inner_##verb parameters;                                            \
	void verb parameters                                                     \
	{                                                                        \
		CALL();                                                          \
		struct live_call call = { .name = #verb, .by_number = true };    \
										 \
		TAKE_ALL arguments;                                              \
		if (call.err) {                                                  \
			errno = call.err;                                        \
			return;                                                  \
		}                                                                \
		inner_##verb arguments;                                          \
		live_remove(&call, LIVE_KIND(FIRST arguments), FIRST arguments); \
	}
#include "verbs/errno.def"
