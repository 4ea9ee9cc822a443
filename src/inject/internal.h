/* SPDX-License-Identifier: BSD-2-Clause */
/* Between the files of inject/. */
#ifndef VERBATIM_INJECT_INTERNAL_H
#define VERBATIM_INJECT_INTERNAL_H

#include "inject/inject.h"

/* parse.c: injector->text to rules, and the seed if it has one. 0, or EINVAL and @why. */
int inject_parse(struct injector *injector, char *why, size_t size);

#endif
