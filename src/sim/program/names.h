/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For programs that are to run in virtual time: included first, it gives the usual names to what
 * verbs.h has, also in the inline functions of the public headers. The rest of their names are the
 * libraries'.
 */
#ifndef VERBATIM_SIM_PROGRAM_NAMES_H
#define VERBATIM_SIM_PROGRAM_NAMES_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "sim/program/verbs.h"

#undef ibv_get_device_list
#undef ibv_query_port
#undef ibv_reg_mr
#define ibv_get_device_list sim_ibv_get_device_list
#define ibv_free_device_list sim_ibv_free_device_list
#define ibv_get_device_name sim_ibv_get_device_name
#define ibv_get_device_guid sim_ibv_get_device_guid
#define ibv_open_device sim_ibv_open_device
#define ibv_close_device sim_ibv_close_device
#define ibv_query_device sim_ibv_query_device
#define ibv_query_port sim_ibv_query_port
#define ibv_query_gid sim_ibv_query_gid
#define ibv_get_async_event sim_ibv_get_async_event
#define ibv_ack_async_event sim_ibv_ack_async_event
#define ibv_alloc_pd sim_ibv_alloc_pd
#define ibv_dealloc_pd sim_ibv_dealloc_pd
#define ibv_reg_mr sim_ibv_reg_mr
#define ibv_dereg_mr sim_ibv_dereg_mr
#define ibv_create_comp_channel sim_ibv_create_comp_channel
#define ibv_destroy_comp_channel sim_ibv_destroy_comp_channel
#define ibv_create_cq sim_ibv_create_cq
#define ibv_destroy_cq sim_ibv_destroy_cq
#define ibv_get_cq_event sim_ibv_get_cq_event
#define ibv_ack_cq_events sim_ibv_ack_cq_events
#define ibv_create_srq sim_ibv_create_srq
#define ibv_modify_srq sim_ibv_modify_srq
#define ibv_query_srq sim_ibv_query_srq
#define ibv_destroy_srq sim_ibv_destroy_srq
#define ibv_create_qp sim_ibv_create_qp
#define ibv_modify_qp sim_ibv_modify_qp
#define ibv_query_qp sim_ibv_query_qp
#define ibv_destroy_qp sim_ibv_destroy_qp
#define ibv_create_ah sim_ibv_create_ah
#define ibv_create_ah_from_wc sim_ibv_create_ah_from_wc
#define ibv_destroy_ah sim_ibv_destroy_ah
#define rdma_getaddrinfo sim_rdma_getaddrinfo
#define rdma_freeaddrinfo sim_rdma_freeaddrinfo
#define rdma_create_ep sim_rdma_create_ep
#define rdma_destroy_ep sim_rdma_destroy_ep
#define rdma_listen sim_rdma_listen
#define rdma_get_src_port sim_rdma_get_src_port
#define rdma_get_request sim_rdma_get_request
#define rdma_accept sim_rdma_accept
#define rdma_connect sim_rdma_connect
#define rdma_disconnect sim_rdma_disconnect

/* After the names: its inline functions call them. */
#include <rdma/rdma_verbs.h>

#endif
