/* SPDX-License-Identifier: BSD-2-Clause */
/* The two refusals that calls of every kind give: explained, and as the errno to answer with. */
#include "verbs/verbs.h"

int refuse_null(const char *call, const char *what)
{
	explain("%s: no %s given (null pointer)", call, what);
	return EINVAL;
}

int refuse_verb(const char *call, const char *why)
{
	explain("%s: not supported: %s", call, why);
	return EOPNOTSUPP;
}

void verb_note(int err)
{
	if (err > 0)
		errno = err;
}
