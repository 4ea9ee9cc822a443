/* SPDX-License-Identifier: BSD-2-Clause */
/* The GID table of a port: which address stands at which index (gid_table.c says in what order). */
#ifndef VERBATIM_HCA_GID_TABLE_H
#define VERBATIM_HCA_GID_TABLE_H

#include "hca/internal.h"

/* Bring the table in line with port->netdev's addresses; whether anything changed. */
bool gid_table_update(struct port *port);
/* NULL: no GID at that index. */
const struct gid_entry *gid_table_get(const struct port *port, uint32_t index);

#endif
