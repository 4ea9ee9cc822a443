/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rates of paths by their code, of PathRecords, REQs and static_rate (IBTA 15.2.5.16, 9.11; ibv_rate):
 * Mb/s of a link by its lanes' signalling rates: FDR has 14.0625 Gb/s a lane, EDR 25.78125, HDR 53.125.
 */
#ifndef VERBATIM_BASE_LINK_RATE_H
#define VERBATIM_BASE_LINK_RATE_H

#include <stdint.h>

/* 0: no rate has this code. */
static inline uint32_t link_rate_mbps(unsigned code)
{
	static const uint32_t mbps[] = { 0, 0, 2500, 10000, 30000, 5000, 20000, 40000, 60000, 80000,
					 120000, 14062, 56250, 112500, 168750, 25781, 103125, 206250,
					 309375, 28125, 53125, 425000, 637500, 850000, 1275000 };

	return code < sizeof(mbps) / sizeof(mbps[0]) ? mbps[code] : 0;
}

#endif
