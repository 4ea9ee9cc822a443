/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What rdma-core 59 to 65 added to <infiniband/verbs.h>, laid out as programs compiled with those
 * releases have it; ours may be compiled with an older header. The names are not those of the header,
 * which may have them: tests/abi/layout.c compares the two where it does.
 */
#ifndef VERBATIM_VERBS_NEWER_H
#define VERBATIM_VERBS_NEWER_H

#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>

struct ibv_buf;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_mr_init_attr;
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_qp_attach_comp_cntr_attr;

int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed);
void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **result);
void ibv_free_buf(struct ibv_buf *buf);
struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *address, size_t length,
			      int access);
struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
int ibv_dealloc_dmah(struct ibv_dmah *dmah);
int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm);
int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf);
int _ibv_query_comp_cntr_caps(struct ibv_context *context, struct ibv_comp_cntr_caps *caps, size_t size);
struct ibv_comp_cntr *ibv_create_comp_cntr(struct ibv_context *context, struct ibv_comp_cntr_init_attr *attr);
int ibv_destroy_comp_cntr(struct ibv_comp_cntr *counter);
int ibv_set_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value);
int ibv_set_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t value);
int ibv_inc_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount);
int ibv_inc_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t amount);
int ibv_read_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value);
int ibv_read_err_comp_cntr(struct ibv_comp_cntr *counter, uint64_t *value);
int ibv_qp_attach_comp_cntr(struct ibv_qp *qp, struct ibv_comp_cntr *counter,
			    struct ibv_qp_attach_comp_cntr_attr *attr);

/*
 * Of ibv_parent_domain_init_attr.comp_mask: buffers may be memory that a confidential guest shares with its host.
 * Ours need no such memory: allowed, it changes nothing.
 */
#define NEWER_PARENT_DOMAIN_SHARED_ALLOC	(1 << 2)

/* struct ibv_comp_cntr_caps, _init_attr and ibv_qp_attach_comp_cntr_attr, in this order. */
struct newer_comp_caps {
	uint64_t max_value;
	uint32_t max_counters, operations;
};

enum { NEWER_COMP_WRS, NEWER_COMP_BYTES };
struct newer_comp_attr {
	uint32_t comp_mask, type, flags;
};

struct newer_comp_attach {
	uint32_t comp_mask, operations;
};

/* Of struct ibv_port_attr: the offset of active_speed_ex, 4 bytes behind what rdma-core 44 has. */
#define NEWER_ACTIVE_SPEED_EX	52

/* struct ibv_mr_init_attr: FIELDS says which members are to be looked at. */
enum newer_mr_field {
	NEWER_MR_IOVA = 1 << 0, NEWER_MR_ADDRESS = 1 << 1, NEWER_MR_FD = 1 << 2,
	NEWER_MR_FD_OFFSET = 1 << 3, NEWER_MR_DMAH = 1 << 4, NEWER_MR_BUF = 1 << 5,
};

struct newer_mr_attr {
	size_t length;
	int access;
	uint64_t fields;
	uint64_t iova;
	void *address;
	int fd;
	uint64_t fd_offset;
	struct ibv_dmah *dmah;
	struct ibv_buf *buf;		/* since 64; to be looked at only if the field says so */
};

/*
 * The slots that struct verbs_context has in front of query_port, its first one in rdma-core 44. It
 * grows towards lower addresses, so the newest comes first.
 */
struct newer_ops {
	void (*free_buf)(struct ibv_buf *buf);
	void *(*alloc_buf)(struct ibv_pd *pd, size_t size, struct ibv_buf **buf);
	int (*dm_export_dmabuf_fd)(struct ibv_dm *dm);
	struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *pd, struct ibv_mr_init_attr *attr);
	int (*dealloc_dmah)(struct ibv_dmah *dmah);
	struct ibv_dmah *(*alloc_dmah)(struct ibv_context *context, struct ibv_dmah_init_attr *attr);
};

#endif
