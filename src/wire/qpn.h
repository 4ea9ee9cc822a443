/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * QP numbers, and communication IDs of the connection manager, begin with the slot of their process
 * (host/slot.h), so that any process of the host that receives a packet can forward it.
 *
 *	QPN, 24 bits (IBTA 3.5.3)		slot 10 | index 14
 *	communication ID, 32 bits (12.6.1)	slot 10 | of the process's choice 22
 */
#ifndef VERBATIM_WIRE_QPN_H
#define VERBATIM_WIRE_QPN_H

#include <stdint.h>

#define SLOT_BITS	10
#define SLOT_COUNT	(1u << SLOT_BITS)

#define QPN_BITS	24
#define QPN_MASK	((1u << QPN_BITS) - 1)
#define QPN_SMI		0u
#define QPN_GSI		1u
#define QPN_MULTICAST	0xffffffu
#define QP_INDEX_BITS	(QPN_BITS - SLOT_BITS)
#define QP_PER_SLOT	(1u << QP_INDEX_BITS)

#define COMM_ID_SLOT_SHIFT (32 - SLOT_BITS)

static inline uint32_t qpn_slot(uint32_t qpn)
{
	return (qpn & QPN_MASK) >> QP_INDEX_BITS;
}

static inline uint32_t qpn_index(uint32_t qpn)
{
	return qpn & (QP_PER_SLOT - 1);
}

static inline uint32_t comm_id_slot(uint32_t comm_id)
{
	return comm_id >> COMM_ID_SLOT_SHIFT;
}

#endif
