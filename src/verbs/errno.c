/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The verbs as programs call them: each calls the function that its own file defines (inner.h), and sets errno
 * as errno.def says.
 */
#define VERBS_OUTER
#include "verbs/verbs.h"

static int end_errno(int result, int before)
{
	errno = result > 0 ? result : before;
	return result;
}

static ssize_t end_minus(ssize_t result, int before)
{
	if (result >= 0)
		errno = before;
	return result;
}

static void *end_pointer(void *result, int before)
{
	if (result)
		errno = before;
	return result;
}

#define END_ERRNO	end_errno
#define END_MINUS	end_minus
#define END_POINTER	end_pointer

#define VERB(kind, type, name, parameters, arguments)                    \
	type inner_##name parameters;                                    \
	type name parameters                                             \
	{                                                                \
		int before = errno;                                      \
									 \
		return (type)END_##kind(inner_##name arguments, before); \
	}
#define SLOT VERB
#include "verbs/errno.def"
