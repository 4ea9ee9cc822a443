/* SPDX-License-Identifier: BSD-2-Clause */
/* What a work request is, by opcode: the table wr.def. Pure. */
#ifndef VERBATIM_OBJECT_WR_H
#define VERBATIM_OBJECT_WR_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "object/placement.h"
#include "object/qp_type.h"
#include "wire/opcode.h"

/*
 * The opcode of a request that adapters take and fail: its status says how, its imm has its own
 * opcode. It fails in its turn, as a local one.
 */
#define WR_FAULTY	((enum ibv_wr_opcode)0x7f)

enum wr_service {
	WR_ON_UC = 1 << QP_KIND_UC,
	WR_ON_UD = 1 << QP_KIND_UD,
	WR_ON_RAW = 1 << QP_KIND_RAW_PACKET,
	WR_ON_RC = 1 << QP_KIND_RC | 1 << QP_KIND_XRC_SEND,	/* reliable */
};

enum wr_property {
	WR_IS_SEND	 = 1 << 0,
	WR_IS_ATOMIC	 = 1 << 1,	/* 8 bytes of the peer, of which the old ones come back */
	WR_IS_LOCAL	 = 1 << 2,	/* no packet */
	WR_WRITES	 = 1 << 3,	/* an RDMA WRITE */
	WR_SCATTERS	 = 1 << 4,	/* its result goes into its SGEs */
	WR_HAS_TARGET	 = 1 << 5,	/* remote address and rkey */
	WR_HAS_IMM	 = 1 << 6,
	WR_HAS_INV	 = 1 << 7,	/* an rkey to invalidate */
	WR_HAS_WORD	 = 1 << 8,	/* 8 bytes to be written */
	WR_HAS_RANGE	 = 1 << 9,	/* to be flushed */
	WR_BINDS	 = 1 << 10,	/* a window */
	WR_TAKES_RECEIVE = 1 << 11,	/* of the peer */
	WR_TAKES_RESOURCE = 1 << 12,	/* of the responder (IBTA 9.7.4.1.4) */
	WR_HAS_DATA	 = WR_IS_SEND | WR_IS_ATOMIC | WR_HAS_TARGET,	/* SGEs, or inline */
	WR_MAY_BE_INLINE = 1 << 13,
	WR_MAY_BE_DIRECT = 1 << 14,	/* inside a host: by a copy, without packet or message */
};

struct wr_row {
	const char *name;		/* "IBV_WR_SEND"; NULL: no such opcode */
	const char *text;		/* of ibv_wr_opcode_str() */
	uint16_t services;		/* enum wr_service; 0: it has a name, and is refused */
	uint16_t is;			/* enum wr_property */
	uint16_t right;			/* enum ibv_access_flags, at the peer */
	uint8_t verb;			/* enum verb */
	uint8_t completion;		/* enum ibv_wc_opcode */
};

extern const struct wr_row wr_rows[WR_FAULTY + 1];

/* Of an opcode that a post has taken, or WR_FAULTY. */
static inline const struct wr_row *wr_row(enum ibv_wr_opcode opcode)
{
	return &wr_rows[opcode];
}

static inline unsigned wr_is(enum ibv_wr_opcode opcode, unsigned properties)
{
	return wr_row(opcode)->is & properties;
}

/* NULL: no opcode has that number. */
static inline const struct wr_row *wr_row_of_name(int opcode)
{
	return opcode >= 0 && opcode < (int)WR_FAULTY && wr_rows[opcode].name ? &wr_rows[opcode] : NULL;
}

/* Of what an application posts. NULL: not an opcode of ours. */
static inline const struct wr_row *wr_row_of_post(enum ibv_wr_opcode opcode)
{
	return (unsigned)opcode < WR_FAULTY && wr_rows[opcode].services ? &wr_rows[opcode] : NULL;
}

#endif
