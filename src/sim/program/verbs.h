/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Verbs of programs in virtual time (program.h): those that stories and the tutorial's programs
 * call, over object/ and transport/. Programs get them under their usual names from names.h.
 *
 * sim_ibv_NAME, sim_rdma_NAME     ibv_NAME(3), rdma_NAME(3): arguments, results, records in a trace
 *
 * What is no matter of a story is left out: attributes of devices, extended calls, the checks of
 * device/.
 */
#ifndef VERBATIM_SIM_PROGRAM_VERBS_H
#define VERBATIM_SIM_PROGRAM_VERBS_H

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "sim/world/sim.h"

struct ibv_device **sim_ibv_get_device_list(int *count);
void sim_ibv_free_device_list(struct ibv_device **list);
const char *sim_ibv_get_device_name(struct ibv_device *device);
__be64 sim_ibv_get_device_guid(struct ibv_device *device);
struct ibv_context *sim_ibv_open_device(struct ibv_device *device);
int sim_ibv_close_device(struct ibv_context *context);
int sim_ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
int sim_ibv_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
int sim_ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
int sim_ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event);
void sim_ibv_ack_async_event(struct ibv_async_event *event);
struct ibv_pd *sim_ibv_alloc_pd(struct ibv_context *context);
int sim_ibv_dealloc_pd(struct ibv_pd *pd);
struct ibv_mr *sim_ibv_reg_mr(struct ibv_pd *pd, void *address, size_t length, int access);
int sim_ibv_dereg_mr(struct ibv_mr *mr);
struct ibv_comp_channel *sim_ibv_create_comp_channel(struct ibv_context *context);
int sim_ibv_destroy_comp_channel(struct ibv_comp_channel *channel);
struct ibv_cq *sim_ibv_create_cq(struct ibv_context *context, int entries, void *cq_context,
				 struct ibv_comp_channel *channel, int vector);
int sim_ibv_destroy_cq(struct ibv_cq *cq);
int sim_ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void sim_ibv_ack_cq_events(struct ibv_cq *cq, unsigned count);
struct ibv_srq *sim_ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int sim_ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int sim_ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int sim_ibv_destroy_srq(struct ibv_srq *srq);
struct ibv_qp *sim_ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int sim_ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int sim_ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init);
int sim_ibv_destroy_qp(struct ibv_qp *qp);
struct ibv_ah *sim_ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr);
struct ibv_ah *sim_ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port);
int sim_ibv_destroy_ah(struct ibv_ah *ah);

int sim_rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
			 struct rdma_addrinfo **info);
void sim_rdma_freeaddrinfo(struct rdma_addrinfo *info);
int sim_rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *info, struct ibv_pd *pd,
		       struct ibv_qp_init_attr *attr);
void sim_rdma_destroy_ep(struct rdma_cm_id *id);
int sim_rdma_listen(struct rdma_cm_id *id, int backlog);
__be16 sim_rdma_get_src_port(struct rdma_cm_id *id);
int sim_rdma_get_request(struct rdma_cm_id *listener, struct rdma_cm_id **id);
int sim_rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int sim_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int sim_rdma_disconnect(struct rdma_cm_id *id);

/* What a program's host has beside the world's tables; made at its first verb. */
struct sim_process {
	struct sim_host *host;
	struct ibv_device device;
	struct ibv_context context;
	struct ibv_device *list[2];
	uint32_t numbers;		/* of objects */
	struct ibv_async_event event[16];
	unsigned events;
	struct sim_cm *cm;		/* rdmacm.c; NULL: not used yet */
};

struct sim_process *sim_process_here(void);
void sim_process_free(struct sim_host *host);
void sim_cm_free(struct sim_cm *cm);

#endif
