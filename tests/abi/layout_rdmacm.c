/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * layout.c for librdmacm: the structures that programs of Debian 12 share with it, in numbers, and
 * that ours begin with them. rdma_verbs.h compiles accesses to struct rdma_cm_id into programs.
 */
#include <rdma/rdma_cma.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "rdmacm/newer.h"
#include "rdmacm/rdmacm.h"

#define SIZE(type, bytes) \
	_Static_assert(sizeof(struct type) == (bytes), "programs have struct " #type " of this size")
#define AT(type, member, offset) \
	_Static_assert(offsetof(struct type, member) == (offset), "programs find " #member " there")
/* What the program holds is the beginning of an object of ours. */
#define FIRST(type) \
	_Static_assert(offsetof(struct type, public) == 0, "programs hold pointers to it")
/* rdma_create_qp() and rdma_create_srq() copy one into the other. */
#define SAME(type, extended, member)                                                      \
	_Static_assert(offsetof(struct type, member) == offsetof(struct extended, member), \
		       "struct " #extended " begins as struct " #type)

FIRST(id);
FIRST(event);

SAME(ibv_qp_init_attr, ibv_qp_init_attr_ex, send_cq);
SAME(ibv_qp_init_attr, ibv_qp_init_attr_ex, cap);
SAME(ibv_qp_init_attr, ibv_qp_init_attr_ex, qp_type);
SAME(ibv_qp_init_attr, ibv_qp_init_attr_ex, sq_sig_all);
SAME(ibv_srq_init_attr, ibv_srq_init_attr_ex, srq_context);
SAME(ibv_srq_init_attr, ibv_srq_init_attr_ex, attr);

#ifdef HAVE_EVENT_USER
_Static_assert(NEWER_EVENT_ADDRINFO_RESOLVED == RDMA_CM_EVENT_ADDRINFO_RESOLVED &&
	       NEWER_EVENT_ADDRINFO_ERROR == RDMA_CM_EVENT_ADDRINFO_ERROR &&
	       NEWER_EVENT_USER == RDMA_CM_EVENT_USER, "as in newer.h");
_Static_assert(NEWER_RAI_SA == RAI_SA && NEWER_RAI_DNS == RAI_DNS, "as in newer.h");
AT(rdma_cm_event, param.arg, offsetof(struct rdma_cm_event, param));
#endif
#if UINTPTR_MAX == UINT64_MAX
SIZE(rdma_cm_id, 416);
AT(rdma_cm_id, verbs, 0);
AT(rdma_cm_id, channel, 8);
AT(rdma_cm_id, context, 16);
AT(rdma_cm_id, qp, 24);
AT(rdma_cm_id, route, 32);
AT(rdma_cm_id, ps, 344);
AT(rdma_cm_id, port_num, 348);
AT(rdma_cm_id, event, 352);
AT(rdma_cm_id, send_cq_channel, 360);
AT(rdma_cm_id, send_cq, 368);
AT(rdma_cm_id, recv_cq_channel, 376);
AT(rdma_cm_id, recv_cq, 384);
AT(rdma_cm_id, srq, 392);
AT(rdma_cm_id, pd, 400);
AT(rdma_cm_id, qp_type, 408);
SIZE(rdma_route, 312);
AT(rdma_route, path_rec, 296);
AT(rdma_route, num_paths, 304);
SIZE(rdma_addr, 296);
AT(rdma_addr, dst_addr, 128);
AT(rdma_addr, addr, 256);
SIZE(rdma_ib_addr, 40);
AT(rdma_ib_addr, dgid, 16);
AT(rdma_ib_addr, pkey, 32);
SIZE(rdma_event_channel, 4);
SIZE(rdma_cm_event, 80);
AT(rdma_cm_event, listen_id, 8);
AT(rdma_cm_event, event, 16);
AT(rdma_cm_event, status, 20);
AT(rdma_cm_event, param, 24);
SIZE(rdma_conn_param, 24);
AT(rdma_conn_param, private_data_len, 8);
AT(rdma_conn_param, responder_resources, 9);
AT(rdma_conn_param, initiator_depth, 10);
AT(rdma_conn_param, flow_control, 11);
AT(rdma_conn_param, retry_count, 12);
AT(rdma_conn_param, rnr_retry_count, 13);
AT(rdma_conn_param, srq, 14);
AT(rdma_conn_param, qp_num, 16);
SIZE(rdma_ud_param, 56);
AT(rdma_ud_param, ah_attr, 16);
AT(rdma_ud_param, qp_num, 48);
AT(rdma_ud_param, qkey, 52);
SIZE(rdma_addrinfo, 96);
AT(rdma_addrinfo, ai_qp_type, 8);
AT(rdma_addrinfo, ai_port_space, 12);
AT(rdma_addrinfo, ai_src_len, 16);
AT(rdma_addrinfo, ai_src_addr, 24);
AT(rdma_addrinfo, ai_dst_addr, 32);
AT(rdma_addrinfo, ai_src_canonname, 40);
AT(rdma_addrinfo, ai_route_len, 56);
AT(rdma_addrinfo, ai_route, 64);
AT(rdma_addrinfo, ai_connect_len, 72);
AT(rdma_addrinfo, ai_connect, 80);
AT(rdma_addrinfo, ai_next, 88);
SIZE(rdma_cm_join_mc_attr_ex, 16);
AT(rdma_cm_join_mc_attr_ex, join_flags, 4);
AT(rdma_cm_join_mc_attr_ex, addr, 8);
SIZE(ibv_sa_path_rec, 64);
AT(ibv_sa_path_rec, sgid, 16);
AT(ibv_sa_path_rec, dlid, 32);
AT(ibv_sa_path_rec, hop_limit, 44);
AT(ibv_sa_path_rec, pkey, 54);
AT(ibv_sa_path_rec, mtu, 58);
AT(ibv_sa_path_rec, packet_life_time, 62);
AT(ibv_sa_path_rec, preference, 63);
#endif

int main(void)
{
#if UINTPTR_MAX == UINT64_MAX
	puts("ok 1 - structures of librdmacm are laid out as programs were compiled with");
#else
	puts("ok 1 - structures of librdmacm are laid out as programs were compiled with # SKIP not 64-bit");
#endif
	return 0;
}
