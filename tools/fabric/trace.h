/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A capture of all packets on all cables of a fabric, for tshark and Wireshark: pcapng, each packet an ERF
 * record from its LRH to its VCRC, each end of a cable that sends an interface, "sw1[3] > sw2[1]".
 */
#ifndef VERBATIM_TOOLS_FABRIC_TRACE_H
#define VERBATIM_TOOLS_FABRIC_TRACE_H

#include "fabric/fabric.h"

struct fabric_trace;

/* NULL: errno says why. @now_us: the fabric's clock, now. */
struct fabric_trace *fabric_trace_open(const char *path, const struct fabric *fabric, uint64_t now_us);
void fabric_trace_packet(struct fabric_trace *trace, const struct fabric_packet *packet);
/* Returns 0, or the errno of a write that failed. */
int fabric_trace_close(struct fabric_trace *trace);

#endif
