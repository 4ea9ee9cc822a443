/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The paths of an address handle: one per peer process at its address that datagrams are sent to. A
 * list that only grows, so it is read without a lock; it has at most one entry for each process at
 * that address, since a path belongs to the slot bits of a QPN. A multicast group has one path.
 */
#ifndef VERBATIM_TRANSPORT_AH_PATH_H
#define VERBATIM_TRANSPORT_AH_PATH_H

#include "object/ah.h"
#include "transport/path.h"

/* Find or make the path for @qpn; held until the AH is freed. May allocate. */
void ah_path_prepare(struct ah *ah, uint32_t qpn, struct path_table *table);
/* NULL: none was prepared. */
struct path *ah_path_find(const struct ah *ah, uint32_t qpn);

#endif
