/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * CRC-32 of Ethernet (reflected polynomial 0xEDB88320), as the ICRC uses it: a glue over isa-l.
 * crc32_update(0, ...) starts; feeding its result back continues (zlib's convention).
 */
#ifndef VERBATIM_BASE_CRC32_H
#define VERBATIM_BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

uint32_t crc32_update(uint32_t crc, const void *data, size_t length);

/*
 * Reverse of feeding @length zero bytes to a CRC *difference* (no initial value or final
 * complement): D * x^(-8*length) mod P. Used to recover a header field that was not seen.
 */
uint32_t crc32_difference_unshift(uint32_t difference, size_t length);

#endif
