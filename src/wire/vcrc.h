/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The variant CRC of an InfiniBand packet (IBTA 7.8.2): CRC-16 of the polynomial 0x100B, over all
 * from the LRH to the ICRC; stored least significant byte first, as the ICRC is.
 */
#ifndef VERBATIM_WIRE_VCRC_H
#define VERBATIM_WIRE_VCRC_H

#include <stddef.h>
#include <stdint.h>

uint16_t vcrc_compute(const uint8_t *data, size_t length);

#endif
