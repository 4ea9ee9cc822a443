/* SPDX-License-Identifier: BSD-2-Clause */
/* Compressed captures. */
#ifndef VERBATIM_TOOLS_CAPTURE_GZIP_H
#define VERBATIM_TOOLS_CAPTURE_GZIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

bool gzip_begins(const uint8_t *data, size_t bytes);
/*
 * Up to @most bytes of what is compressed in @data. *whole: that is all of it; false where it breaks off, is
 * damaged or has more. 0, and the caller frees *expanded; or ENOMEM.
 */
int gzip_expand(const uint8_t *data, size_t bytes, size_t most, uint8_t **expanded, size_t *expanded_bytes,
		bool *whole);
/* What a file that is no capture is, and what to do with it; NULL: not known. */
const char *gzip_other_form(const uint8_t *data, size_t bytes);

#endif
