/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Explains refused calls of this layer (VERBATIM_EXPLAIN=1). cm/endpoint/explain.c explains
 * refusals of the connection manager and events that report a failure.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/log.h"
#include "rdmacm/rdmacm.h"

int refuse(int err, const char *format, ...)
{
	char text[320];
	va_list arguments;

	if (explaining()) {
		va_start(arguments, format);
		vsnprintf(text, sizeof(text), format, arguments);
		va_end(arguments);
		explain_print("%s", text);
	}
	return result(err);
}
