/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Explains refused calls of this layer (VERBATIM_EXPLAIN=1). cm/endpoint/explain.c explains
 * refusals of the connection manager and events that report a failure.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "rdmacm/rdmacm.h"

/* The name of the call, which ends with ": ", becomes part of the hint to `verbatim explain`. */
int refuse(int err, const char *format, ...)
{
	char call[64];
	va_list arguments;

	if (explaining()) {
		va_start(arguments, format);
		vsnprintf(call, sizeof(call), format, arguments);
		va_end(arguments);
		call[strcspn(call, ":")] = '\0';
		va_start(arguments, format);
		explain_vprint(&(const struct explanation){ .call = call, .err = err }, format, arguments);
		va_end(arguments);
	} else {
		explain_missed(err);
	}
	return result(err);
}
