/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The paths of an address handle: one per peer process at its address that datagrams are sent to.
 * A list that only grows, so that it is read without a lock; as long as there are processes at
 * that address at most, for a path belongs to the slot bits of a QPN. A multicast group has one.
 */
#ifndef VERBATIM_TRANSPORT_AH_PATH_H
#define VERBATIM_TRANSPORT_AH_PATH_H

#include "object/ah.h"
#include "transport/path.h"

/* See that there is a path for @qpn; holds it until the AH is freed. May allocate. */
void ah_path_prepare(struct ah *ah, uint32_t qpn, struct path_table *table);
/* NULL: none was prepared. */
struct path *ah_path_find(const struct ah *ah, uint32_t qpn);

#endif
