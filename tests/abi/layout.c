/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The layout that programs were compiled with, in numbers: a header of a release that is not known,
 * or a structure of ours that does not begin with the public one, fails here and not in somebody's
 * program. Where releases differ (rdma-core 45 added FLUSH, 49 the extended speed) the build asks the
 * header which of them it is. What a header does not have is in verbs/newer.h, and is compared with
 * the header's where it has it (59, 64). Programs of either have to find what they look for in the
 * library, whichever it was compiled with: post_test.c and device_test.c.
 *
 * The slots of struct verbs_context are found by their distance from the struct ibv_context behind
 * them. The numbers are those of 64-bit machines.
 */
#include <infiniband/verbs.h>
#include <stddef.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

#include "device/hca.h"
#include "object/placement.h"
#include "verbs/newer.h"

/* The numbers are those of x86-64: structures with a mutex are larger where that is. */
#define MUTEX (sizeof(pthread_mutex_t) - 40)

#define SIZE(type, bytes) \
	_Static_assert(sizeof(struct type) == (bytes), "programs have struct " #type " of this size")
#define AT(type, member, offset) \
	_Static_assert(offsetof(struct type, member) == (offset), "programs find " #member " there")
#define BEFORE(member, distance)                                                          \
	_Static_assert(offsetof(struct verbs_context, context) -                          \
		       offsetof(struct verbs_context, member) == (distance),              \
		       "programs find " #member " there")
/* An object of ours is what the program holds: the public structure comes first. */
#define FIRST(type, member) \
	_Static_assert(offsetof(struct type, member) == 0, "programs hold pointers to " #member)

FIRST(pd, ibv);
FIRST(mr, ibv);
FIRST(mw, ibv);
FIRST(ah, ibv);
FIRST(cq, ibv);
FIRST(srq, ibv);
FIRST(qp, ibv);
FIRST(comp_channel, ibv);

#if UINTPTR_MAX == UINT64_MAX
SIZE(ibv_device, 664);
AT(ibv_device, node_type, 16);
AT(ibv_device, transport_type, 20);
AT(ibv_device, name, 24);
AT(ibv_device, dev_name, 88);
AT(ibv_device, dev_path, 152);
AT(ibv_device, ibdev_path, 408);
SIZE(ibv_context, 328 + MUTEX);
AT(ibv_context, ops, 8);
AT(ibv_context, ops.alloc_mw, 64);
AT(ibv_context, ops.poll_cq, 96);
AT(ibv_context, ops.req_notify_cq, 104);
AT(ibv_context, ops.post_srq_recv, 168);
AT(ibv_context, ops.post_send, 208);
AT(ibv_context, ops.post_recv, 216);
AT(ibv_context, cmd_fd, 264);
AT(ibv_context, async_fd, 268);
AT(ibv_context, num_comp_vectors, 272);
AT(ibv_context, mutex, 280);
AT(ibv_context, abi_compat, 320 + MUTEX);
_Static_assert(sizeof(struct verbs_context) - offsetof(struct verbs_context, query_port) == 648 + MUTEX,
	       "programs compare this size");
BEFORE(sz, 8);
BEFORE(close_xrcd, 24);
BEFORE(open_xrcd, 32);
BEFORE(create_srq_ex, 40);
BEFORE(get_srq_num, 48);
BEFORE(create_qp_ex, 56);
BEFORE(open_qp, 64);
BEFORE(ibv_create_flow, 80);
BEFORE(ibv_destroy_flow, 96);
BEFORE(query_device_ex, 104);
BEFORE(create_cq_ex, 120);
BEFORE(query_rt_values, 128);
BEFORE(create_wq, 136);
BEFORE(alloc_td, 192);
BEFORE(alloc_parent_domain, 208);
BEFORE(alloc_dm, 256);
BEFORE(read_counters, 296);
BEFORE(alloc_null_mr, 304);
BEFORE(advise_mr, 312);
BEFORE(query_port, 320);
SIZE(ibv_pd, 16);
SIZE(ibv_mr, 48);
AT(ibv_mr, lkey, 36);
AT(ibv_mr, rkey, 40);
SIZE(ibv_mw, 32);
SIZE(ibv_ah, 24);
SIZE(ibv_srq, 128 + MUTEX);
SIZE(ibv_comp_channel, 16);
AT(ibv_comp_channel, fd, 8);
SIZE(ibv_cq, 128 + MUTEX);
AT(ibv_cq, cqe, 28);
AT(ibv_cq, mutex, 32);
SIZE(ibv_cq_ex, 288 + MUTEX);
AT(ibv_cq_ex, comp_mask, 128 + MUTEX);
AT(ibv_cq_ex, status, 132 + MUTEX);
AT(ibv_cq_ex, wr_id, 136 + MUTEX);
AT(ibv_cq_ex, start_poll, 144 + MUTEX);
AT(ibv_cq_ex, read_completion_wallclock_ns, 280 + MUTEX);
SIZE(ibv_qp, 160 + MUTEX);
AT(ibv_qp, qp_num, 52);
AT(ibv_qp, state, 56);
AT(ibv_qp, events_completed, 152 + MUTEX);
#ifdef HAVE_WR_FLUSH
SIZE(ibv_qp_ex, 360 + MUTEX);
AT(ibv_qp_ex, wr_flush, 352 + MUTEX);
#define SAME(ours, theirs) static_assert((unsigned)(ours) == (unsigned)(theirs), "object/placement.h: " #theirs)
SAME(WR_FLUSH, IBV_WR_FLUSH);
SAME(WR_ATOMIC_WRITE, IBV_WR_ATOMIC_WRITE);
SAME(WC_FLUSH, IBV_WC_FLUSH);
SAME(WC_ATOMIC_WRITE, IBV_WC_ATOMIC_WRITE);
SAME(ACCESS_FLUSH_GLOBAL, IBV_ACCESS_FLUSH_GLOBAL);
SAME(ACCESS_FLUSH_PERSISTENT, IBV_ACCESS_FLUSH_PERSISTENT);
SAME(QP_EX_WITH_FLUSH, IBV_QP_EX_WITH_FLUSH);
SAME(QP_EX_WITH_ATOMIC_WRITE, IBV_QP_EX_WITH_ATOMIC_WRITE);
SAME(FLUSH_GLOBAL, IBV_FLUSH_GLOBAL);
SAME(FLUSH_PERSISTENT, IBV_FLUSH_PERSISTENT);
SAME(FLUSH_LEVEL_RANGE, IBV_FLUSH_RANGE);
SAME(FLUSH_LEVEL_MR, IBV_FLUSH_MR);
#else
SIZE(ibv_qp_ex, 352 + MUTEX);
#endif
AT(ibv_qp_ex, comp_mask, 160 + MUTEX);
AT(ibv_qp_ex, wr_id, 168 + MUTEX);
AT(ibv_qp_ex, wr_flags, 176 + MUTEX);
AT(ibv_qp_ex, wr_atomic_cmp_swp, 184 + MUTEX);
AT(ibv_qp_ex, wr_complete, 328 + MUTEX);
AT(ibv_qp_ex, wr_atomic_write, 344 + MUTEX);
SIZE(ibv_wc, 48);
AT(ibv_wc, imm_data, 24);
AT(ibv_wc, wc_flags, 36);
SIZE(ibv_send_wr, 128);
AT(ibv_send_wr, wr, 40);
AT(ibv_send_wr, bind_mw, 80);
SIZE(ibv_recv_wr, 32);
SIZE(ibv_sge, 16);
#ifdef HAVE_ACTIVE_SPEED_EX
SIZE(ibv_port_attr, 56);
AT(ibv_port_attr, active_speed_ex, 52);
#else
SIZE(ibv_port_attr, 52);
#endif
AT(ibv_port_attr, link_layer, 46);
AT(ibv_port_attr, port_cap_flags2, 48);
SIZE(ibv_device_attr, 232);
SIZE(ibv_device_attr_ex, 400);
SIZE(ibv_qp_attr, 144);
SIZE(ibv_qp_init_attr, 64);
SIZE(ibv_qp_init_attr_ex, 136);
SIZE(ibv_ah_attr, 32);
SIZE(ibv_gid_entry, 32);
SIZE(ibv_async_event, 16);
SIZE(newer_mr_attr, 72);
AT(newer_mr_attr, access, 8);
AT(newer_mr_attr, fields, 16);
AT(newer_mr_attr, iova, 24);
AT(newer_mr_attr, address, 32);
AT(newer_mr_attr, fd, 40);
AT(newer_mr_attr, fd_offset, 48);
AT(newer_mr_attr, dmah, 56);
AT(newer_mr_attr, buf, 64);
SIZE(newer_ops, 48);
AT(newer_ops, alloc_buf, 8);
AT(newer_ops, dm_export_dmabuf_fd, 16);
AT(newer_ops, reg_mr_ex, 24);
AT(newer_ops, dealloc_dmah, 32);
AT(newer_ops, alloc_dmah, 40);
/* The header's own, where it has them; slots are counted from query_port. */
#define SLOT_AS_OURS(slot)                                                                       \
	_Static_assert(offsetof(struct verbs_context, query_port) -                              \
		       offsetof(struct verbs_context, slot) ==                                   \
		       sizeof(struct newer_ops) - offsetof(struct newer_ops, slot), "as in newer.h")
#define MEMBER_AS_OURS(theirs, ours)                                                             \
	_Static_assert(offsetof(struct ibv_mr_init_attr, theirs) ==                              \
		       offsetof(struct newer_mr_attr, ours), "as in newer.h")
#ifdef HAVE_ALLOC_DMAH
SLOT_AS_OURS(alloc_dmah);
SLOT_AS_OURS(dealloc_dmah);
SLOT_AS_OURS(reg_mr_ex);
MEMBER_AS_OURS(comp_mask, fields);
MEMBER_AS_OURS(addr, address);
MEMBER_AS_OURS(fd_offset, fd_offset);
MEMBER_AS_OURS(dmah, dmah);
#endif
#ifdef HAVE_ALLOC_BUF
SLOT_AS_OURS(alloc_buf);
SLOT_AS_OURS(free_buf);
MEMBER_AS_OURS(buf, buf);
#endif
SIZE(ibv_srq_init_attr_ex, 64);
SIZE(ibv_cq_init_attr_ex, 56);
#endif

int main(void)
{
#if UINTPTR_MAX == UINT64_MAX
	puts("ok 1 - structures are laid out as programs were compiled with");
#else
	puts("ok 1 - structures are laid out as programs were compiled with # SKIP not 64-bit");
#endif
	return 0;
}
