/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory and QPs of a peer process (peers.h), as its arena tells of them. It may write anything there
 * at any time: each field is read once, and checked after.
 */
#ifndef VERBATIM_HCA_FOREIGN_H
#define VERBATIM_HCA_FOREIGN_H

#include "hca/peers.h"

/* What it says of its QP @qpn; NULL: it has no such slot. */
const struct qp_access *foreign_qp(const struct peer *peer, uint32_t qpn);
/*
 * Where @length bytes at @host of its address space, of the region @key, are mapped here; NULL: not
 * all of them are. With a hazard that names the key.
 */
uint8_t *foreign_find(const struct peer *peer, uint32_t key, uint64_t host, uint64_t length);

#endif
