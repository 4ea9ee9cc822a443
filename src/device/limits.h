/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits reported by ibv_query_device() and enforced at creation; rxe's values where it has them.
 */
#ifndef VERBATIM_DEVICE_LIMITS_H
#define VERBATIM_DEVICE_LIMITS_H

#include <stdint.h>

#define VERBATIM_FIRMWARE	"0.1.0"
#define VERBATIM_VENDOR		0x565242	/* "VRB", locally administered: nobody's; not rxe's */
#define VERBATIM_PART		1

#define LIMIT_QP_WR		65536
#define LIMIT_SRQ_WR		65536
#define LIMIT_SGE		RECV_SGE_MAX	/* object/recv_queue.h */
#define LIMIT_INLINE		2048
#define LIMIT_RD_ATOMIC		RD_ATOMIC_MAX	/* object/qp_transport.h */
#define LIMIT_CQ		65536
#define LIMIT_SRQ		65536
#define LIMIT_TAGS		1024u	/* of a tag-matching SRQ: each message looks through them */
#define LIMIT_TAG_OPS		1024u
#define LIMIT_PD		65536
#define LIMIT_AH		65536
#define LIMIT_WQ		65536
#define LIMIT_RWQ_TABLES	4096
#define LIMIT_RWQ_TABLE_LOG	9u	/* entries of a table */
#define LIMIT_COMP_COUNTERS	65536
#define LIMIT_FRAME_BYTES	9234u	/* of 9216 bytes of IP, with addresses, type and a VLAN tag */
#define LIMIT_RATE_KBPS		100000000u
#define LIMIT_MULTICAST_GROUPS	8192
#define LIMIT_MULTICAST_QPS	56
#define LIMIT_DM_BYTES		(UINT64_C(1) << 28)	/* of a process, whole pages; used when touched */
#define LIMIT_DM_LOG_ALIGN	21u			/* 2 MiB: a huge page */

#endif
