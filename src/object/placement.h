/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * FLUSH and ATOMIC_WRITE (IBTA annex A19, memory placement extensions) as rdma-core 46 to 48 added them to
 * <infiniband/verbs.h>; ours may be compiled with an older header. tests/abi/layout.c compares the values
 * where the header has them.
 *
 * Memory of a process is globally visible once it is stored: FLUSH with global placement is then a question of
 * order alone, and persistence, which would take memory that keeps its contents, is refused at registration.
 */
#ifndef VERBATIM_OBJECT_PLACEMENT_H
#define VERBATIM_OBJECT_PLACEMENT_H

#define WR_FLUSH		14		/* enum ibv_wr_opcode */
#define WR_ATOMIC_WRITE		15
#define WC_FLUSH		8		/* enum ibv_wc_opcode */
#define WC_ATOMIC_WRITE		9
#define ACCESS_FLUSH_GLOBAL	(1u << 8)	/* enum ibv_access_flags */
#define ACCESS_FLUSH_PERSISTENT	(1u << 9)
#define QP_EX_WITH_FLUSH	(1u << 11)	/* enum ibv_qp_create_send_ops_flags */
#define QP_EX_WITH_ATOMIC_WRITE	(1u << 12)
#define DEVICE_FLUSH_GLOBAL	(1ull << 38)	/* device_cap_flags_ex */
#define DEVICE_ATOMIC_WRITE	(1ull << 40)

#define FLUSH_GLOBAL		1u		/* placement types: FETH, enum ibv_placement_type */
#define FLUSH_PERSISTENT	2u
#define FLUSH_LEVEL_RANGE	0u		/* FETH, enum ibv_selectivity_level */
#define FLUSH_LEVEL_MR		1u

/*
 * In ibv_send_wr.send_flags, of requests that ibv_wr_*() built: wr.atomic has remote_addr and rkey, and in
 * compare_add the word to write; or, of a FLUSH, its bytes, and in swap the level << 8 | type.
 */
#define SEND_BUILT		(1u << 31)

#define PLACEMENT_WORD		8u		/* bytes that ATOMIC_WRITE writes */

#endif
