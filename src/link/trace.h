/* SPDX-License-Identifier: BSD-2-Clause */
/* A link that writes each packet to a pcapng file (VERBATIM_TRACE). */
#ifndef VERBATIM_LINK_TRACE_H
#define VERBATIM_LINK_TRACE_H

#include "link/link.h"
#include "trace/record.h"

/*
 * If VERBATIM_TRACE is set, replace *link by one that wraps it (and closes it); the comment of each packet names
 * @path, and how often a request was sent before. Several links of a process write to one file. 0 also when it is
 * not set; else errno, said on stderr.
 *
 * VERBATIM_TRACE=FILE[,limit=N[k|M|G]]: %p in FILE is the process id. A file that another process
 * is writing is left to it: .PID is appended. Default limit: 1G.
 */
int trace_wrap(struct link **link, enum trace_path path);

/* Is the variable's value understood? 0, also when it is not set; EINVAL, said on stderr. */
int trace_check(void);

/*
 * Callback that recovers IP identification and DF from the ICRC: sockets do not show the IPv4 header of a
 * received packet, but the ICRC covers these fields. Without it, or when it returns false, they are
 * assumed as our own sender sets them (segment number, 1).
 */
typedef bool trace_ip_id_fn(const struct datagram *datagram, const uint8_t *packet, size_t bytes,
			    unsigned segment, uint16_t *ip_id, bool *dont_fragment);
void trace_set_ip_id(trace_ip_id_fn *find);
/* Which received datagrams are no packets, but what processes of this host tell each other: they are left out. */
void trace_set_internal(bool (*is_internal)(const uint8_t *data, size_t bytes));

#endif
