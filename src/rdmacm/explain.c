/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Why a call of this layer was refused (VERBATIM_EXPLAIN=1). What the connection manager refuses,
 * and events that tell of a failure, are explained by cm/endpoint/explain.c.
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
