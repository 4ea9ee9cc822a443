/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Who takes which management datagrams: a table of rows, by the port and the QP that they come
 * to, and by class, method and transaction. A process has one (mad/mad.h), and so has each port of
 * a virtual fabric (fabric/agents.h). Pure: a lock is the owner's business.
 *
 *	request		to the row of its class that has its method
 *	answer		to the row with the upper half of its transaction ID; else to the row of
 *			its class that takes answers of any
 *
 * Two rows of a table never take the same datagram: mad_table_is_taken().
 */
#ifndef VERBATIM_WIRE_MAD_TABLE_H
#define VERBATIM_WIRE_MAD_TABLE_H

#include "base/list.h"
#include "wire/mad.h"
#include "wire/qpn.h"
#include "wire/smp.h"

#define MAD_ANY_PORT		UINT32_MAX
#define MAD_ANY_VERSION		0xffu

/* What a row takes. */
struct mad_key {
	uint32_t port;			/* of the owner's counting; MAD_ANY_PORT: each */
	uint32_t qpn;			/* QPN_SMI or QPN_GSI */
	uint8_t class;
	uint8_t class_version;		/* MAD_ANY_VERSION: each */
	uint32_t oui;			/* of the vendors' classes 0x30 to 0x4f */
	uint64_t methods[2];		/* bit m: requests of method m */
	uint32_t transaction;		/* upper half of the IDs of its own requests; 0: answers of any */
};

#define MAD_ALL_METHODS		{ UINT64_MAX, UINT64_MAX }

struct mad_row {
	struct list node;		/* of the table, a list */
	struct mad_key key;
};

static inline uint32_t mad_class_qpn(uint8_t class)
{
	return mad_class_is_smp(class) ? QPN_SMI : QPN_GSI;
}

/* The vendors' classes that have an OUI, and may have RMPP. */
static inline bool mad_class_has_oui(uint8_t class)
{
	return class >= 0x30 && class <= 0x4f;
}

/* TrapRepress answers a Trap, though it has no response bit. */
bool mad_is_answer(const uint8_t mad[MAD_BYTES]);
/* Does a row take some of what @key takes? */
bool mad_table_is_taken(const struct list *table, const struct mad_key *key);
/* NULL: nobody takes it. */
struct mad_row *mad_table_find(const struct list *table, uint32_t port, uint32_t qpn,
			       const uint8_t mad[MAD_BYTES]);

#endif
