/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The software HCA of this process: the interface of the ABI libraries. One per process; it starts
 * with the first opened context and stops with the last.
 *
 * Functions return 0 or a positive errno unless their comment says otherwise, set their outputs
 * only on success, and explain a refusal (VERBATIM_EXPLAIN). Objects are those of object/, whose
 * first member is the structure that the application holds (struct ibv_*); the caller (verbs
 * layer) fills in ibv.context and other public members (cq_context, qp_context, functions).
 */
#ifndef VERBATIM_DEVICE_HCA_H
#define VERBATIM_DEVICE_HCA_H

#include <infiniband/verbs.h>
#include <stdint.h>
#include <sys/stat.h>

#include "base/counters.h"
#include "net/port.h"
#include "object/ah.h"
#include "object/comp_counter.h"
#include "object/cq.h"
#include "object/dm.h"
#include "object/event.h"
#include "object/flow.h"
#include "object/mr.h"
#include "object/pd.h"
#include "object/placement.h"
#include "object/qp.h"
#include "object/srq.h"
#include "object/wq.h"
#include "object/xrcd.h"

struct hca_context;

/* ---- devices (list.c) ---- */

/* A device as in ibv_get_device_list() and sysfs; a snapshot. */
struct hca_device {
	char name[IBV_SYSFS_NAME_MAX];		/* vb_eth0 */
	char interface[16];			/* eth0; "": an HCA of a virtual InfiniBand fabric */
	uint32_t interface_index;
	uint64_t guid;				/* network order, as ibv_get_device_guid gives it */
	int index;				/* position in the list, unique */
};

/*
 * HCAs of the fabric that the process is at; then interfaces that are up and have an address, routable ones
 * first, then lo, as the configuration (VERBATIM_DEVICES ...) allows. *devices is malloc'ed. 0; EINVAL: the
 * configuration is wrong (said on stderr); ENOMEM; errno of netlink.
 */
int hca_device_list(struct hca_device **devices, int *count);
/* What the fabric says of an attribute file of such an HCA, below /sys/class/: 0; ENOENT, ENODEV. */
int hca_read_sysfs(const char *path, char *text, size_t size);

/* ---- blocks.c ---- */

/* From now on page-aligned allocations of the application can be shared (local/block/allocator.h). */
void hca_enable_blocks(void);

/* ---- process.c ---- */

struct qp1;
/* QP1 of this process (mad/mad.h), with a reference to the HCA. 0 or errno, explained. */
int hca_get_qp1(struct qp1 **qp1);
void hca_put_qp1(struct qp1 *qp1);

/* ---- contexts (context.c) ---- */

int hca_open(const char *device_name, struct hca_context **context);
/*
 * Another context of the file of @of (file.c), which stays open meanwhile. On success @command_fd, a duplicate
 * of that of @of, is the new context's.
 */
int hca_import_device(struct hca_context *of, int command_fd, struct hca_context **context);
/* Has it the file of a descriptor with this status? */
bool hca_has_file(const struct hca_context *context, const struct stat *status);
/* No open context has the file of @fd: why, explained. EINVAL, ENODEV (closed), EOPNOTSUPP (another process). */
int hca_refuse_import(int fd);
/* The same for contexts of one file, and never again for another one. */
uint64_t hca_file_number(const struct hca_context *context);
/*
 * Close. With the last context of a file (true) all of them end, and every object that the application left is
 * destroyed; the others keep their objects until then.
 */
bool hca_close(struct hca_context *context);

/* eventfd of asynchronous events, readable when there is one; and the descriptor to duplicate for imports. */
int hca_async_fd(const struct hca_context *context);
int hca_command_fd(const struct hca_context *context);
/* The application may set O_NONBLOCK on the fd: EAGAIN then. */
int hca_get_async_event(struct hca_context *context, struct ibv_async_event *event);
/* Is there one that has not been got, of those types (1 << type)? *type: the oldest. @object: of
 * that QP, CQ, SRQ or WQ; NULL: of any. */
bool hca_has_async_event(struct hca_context *context, const void *object, uint64_t types,
			 enum ibv_event_type *type);
void hca_ack_async_event(struct ibv_async_event *event);
/* The CQ, SRQ, QP or work queue that it tells of. NULL: a port, or the device. */
const void *hca_async_object(const struct ibv_async_event *event);

uint32_t hca_ports(const struct hca_context *context);
/* Length of a port's GID table; 0: there is no such port. */
uint32_t hca_gids(const struct hca_context *context, uint32_t port);
int hca_query_device(struct hca_context *context, struct ibv_device_attr_ex *attr);
/* @speed: active_speed_ex, which the structure of our headers may lack; may be NULL. */
int hca_query_port(struct hca_context *context, uint32_t port, struct ibv_port_attr *attr, uint32_t *speed);
/* In 100 Mb/s, as the interface or VERBATIM_SPEED says it, not rounded to a width and a speed. */
int hca_query_port_speed(struct hca_context *context, uint32_t port, uint64_t *speed);
int hca_query_pkey(struct hca_context *context, uint32_t port, int index, __be16 *pkey);

struct hca_gid {
	union ibv_gid gid;
	uint32_t index;
	uint32_t type;				/* enum ibv_gid_type */
	uint32_t interface_index;
};
/* ENOENT / ENODATA: no entry at that index; EINVAL: no such port or index out of the table. */
int hca_query_gid(struct hca_context *context, uint32_t port, uint32_t index,
		  struct hca_gid *gid);

/* Counters of the process (base/counters.h), all its devices together. */
const struct counters *hca_counters(const struct hca_context *context);
/*
 * The same, summed over the processes of this host that have the context's device open and whose memory the
 * kernel lets us read. What a process has counted goes when it ends. Asks them, which takes a moment.
 */
void hca_read_host_counters(const struct hca_context *context, uint64_t values[COUNTER_COUNT]);

/* ---- objects (one file each) ---- */

/*
 * PDs, MRs and DMs have handles (object/handle.h). Any of them destroys the object: EBUSY; ENOENT, if another one
 * has. hca_import_*() makes one to the object of that number in the contexts of the file: ENOENT.
 * hca_unimport_*() ends one, and leaves the object. Functions that use an object take any handle of
 * MRs and DMs, and of PDs what hca_pd_of() says.
 */
int hca_alloc_pd(struct hca_context *context, struct pd **pd);
int hca_dealloc_pd(struct hca_context *context, struct pd *pd);
int hca_import_pd(struct hca_context *context, uint32_t number, struct pd **pd);
void hca_unimport_pd(struct hca_context *context, struct pd *pd);
/* The original of a handle. EINVAL, explained: the PD was deallocated. */
int hca_pd_of(const char *call, struct pd *handle, struct pd **pd);

int hca_reg_mr(struct hca_context *context, struct pd *pd, void *address, size_t length,
	       uint64_t iova, unsigned access, struct mr **mr);
int hca_rereg_mr(struct hca_context *context, struct mr *mr, int flags, struct pd *pd,
		 void *address, size_t length, unsigned access);
int hca_dereg_mr(struct hca_context *context, struct mr *mr);
/* The caller fills in ibv.pd, too. */
int hca_import_mr(struct hca_context *context, uint32_t number, struct mr **mr);
void hca_unimport_mr(struct hca_context *context, struct mr *mr);
/* ibv_alloc_null_mr: reads get zeros, what is written is gone; for local SGEs. ENOMEM. */
int hca_alloc_null_mr(struct hca_context *context, struct pd *pd, struct mr **mr);
/*
 * ibv_advise_mr: pages of the elements are made present. EFAULT: a key, a right, bounds, or memory
 * that is not mapped; EINVAL: flags; ENOTSUP: another advice.
 */
int hca_advise_mr(struct hca_context *context, const struct pd *pd,
		  enum ibv_advise_mr_advice advice, uint32_t flags, const struct ibv_sge *list,
		  uint32_t count);

/* Device memory (dm.c). Freed when no region is registered in it (EBUSY); zeros at first. */
int hca_alloc_dm(struct hca_context *context, const struct ibv_alloc_dm_attr *attr, struct dm **dm);
int hca_free_dm(struct hca_context *context, struct dm *dm);
int hca_import_dm(struct hca_context *context, uint32_t number, struct dm **dm);
void hca_unimport_dm(struct hca_context *context, struct dm *dm);
int hca_reg_dm_mr(struct hca_context *context, struct pd *pd, struct dm *dm, uint64_t offset,
		  size_t length, unsigned access, struct mr **mr);
/* EINVAL: out of bounds; EFAULT: the application's side is not there. */
int hca_copy_to_dm(struct dm *dm, uint64_t offset, const void *from, size_t length);
int hca_copy_from_dm(void *to, const struct dm *dm, uint64_t offset, size_t length);

/*
 * Completion counters (comp_counter.c). Destroyed when no QP has it (EBUSY). @operations: bits of enum
 * comp_operation. EINVAL: not in RESET or INIT, or nothing to count; EOPNOTSUPP: unknown operations; EBUSY: one of
 * them has a counter. @failed: the count of errors is meant.
 */
uint32_t hca_max_comp_counters(void);
int hca_create_comp_counter(struct hca_context *context, bool bytes, struct comp_counter **counter);
int hca_destroy_comp_counter(struct hca_context *context, struct comp_counter *counter);
int hca_attach_comp_counter(struct qp *qp, struct comp_counter *counter, uint32_t operations);
int hca_set_comp_counter(struct comp_counter *counter, bool failed, uint64_t value);
int hca_increase_comp_counter(struct comp_counter *counter, bool failed, uint64_t amount);
int hca_read_comp_counter(struct comp_counter *counter, bool failed, uint64_t *value);

int hca_alloc_mw(struct hca_context *context, struct pd *pd, enum ibv_mw_type type,
		 struct mw **mw);
int hca_dealloc_mw(struct hca_context *context, struct mw *mw);
/* ibv_bind_mw: type 1 windows, posted to the send queue of @qp. */
int hca_bind_mw(struct qp *qp, struct mw *mw, struct ibv_mw_bind *bind);

int hca_create_ah(struct hca_context *context, struct pd *pd, const struct ibv_ah_attr *attr,
		  struct ah **ah);
int hca_destroy_ah(struct hca_context *context, struct ah *ah);
/* ibv_init_ah_from_wc: the reverse of the way a UD receive came. */
int hca_ah_attr_from_wc(struct hca_context *context, uint32_t port, const struct ibv_wc *wc,
			const struct ibv_grh *grh, struct ibv_ah_attr *attr);

int hca_create_comp_channel(struct hca_context *context, struct comp_channel **channel);
int hca_destroy_comp_channel(struct hca_context *context, struct comp_channel *channel);
int hca_get_cq_event(struct comp_channel *channel, struct cq **cq);
void hca_ack_cq_events(struct cq *cq, unsigned count);

/* _in: rings in memory of @allocator (NULL: ours). */
int hca_create_cq_in(struct hca_context *context, const struct ibv_cq_init_attr_ex *attr,
		     struct ring_allocator *allocator, struct cq **cq);
static inline int hca_create_cq(struct hca_context *context, const struct ibv_cq_init_attr_ex *attr,
				struct cq **cq)
{
	return hca_create_cq_in(context, attr, NULL, cq);
}

int hca_resize_cq(struct cq *cq, int cqe);
int hca_moderate_cq(struct cq *cq, uint16_t count, uint16_t period_us);	/* 0: not */
int hca_destroy_cq(struct hca_context *context, struct cq *cq);	/* EBUSY; waits for acks */
/*
 * Completions taken, or -1 in a fork()ed child. Makes progress when the CQ is empty (most such
 * polls may look at shared memory only) and on every 16th other poll (cq.c).
 */
int hca_poll_cq(struct cq *cq, int count, struct ibv_wc *wc);
/* The same for one, for cq_ex: 1 or 0; 0 in a fork()ed child. */
int hca_poll_cq_one(struct cq *cq, struct completion *completion);
/* Another one, if it is there already: makes no progress. */
int hca_next_completion(struct cq *cq, struct completion *completion);
int hca_req_notify_cq(struct cq *cq, bool solicited_only);

/* ibv_open_xrcd: @fd may be -1. EBADF, EAGAIN (no domain, no O_CREAT), EINVAL (O_EXCL and there is one). */
int hca_open_xrcd(struct hca_context *context, int fd, int oflags, struct xrcd **xrcd);
int hca_close_xrcd(struct hca_context *context, struct xrcd *xrcd);	/* EBUSY */

int hca_create_srq_in(struct hca_context *context, const struct ibv_srq_init_attr_ex *attr,
		      struct ring_allocator *allocator, struct srq **srq);
static inline int hca_create_srq(struct hca_context *context, const struct ibv_srq_init_attr_ex *attr,
				 struct srq **srq)
{
	return hca_create_srq_in(context, attr, NULL, srq);
}

int hca_modify_srq(struct srq *srq, const struct ibv_srq_attr *attr, int mask);
int hca_query_srq(struct srq *srq, struct ibv_srq_attr *attr);
int hca_destroy_srq(struct hca_context *context, struct srq *srq);
int hca_post_srq_ops(struct srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);
int hca_post_srq_recv(struct srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* Work queues and tables of them (wq.c). max_wr and max_sge are raised to what was granted. */
int hca_create_wq(struct hca_context *context, struct ibv_wq_init_attr *attr, struct wq **wq);
int hca_modify_wq(struct wq *wq, const struct ibv_wq_attr *attr);
int hca_destroy_wq(struct hca_context *context, struct wq *wq);		/* EBUSY; waits for acks */
int hca_post_wq_recv(struct wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int hca_create_rwq_table(struct hca_context *context, const struct ibv_rwq_ind_table_init_attr *attr,
			 struct rwq_table **table);
int hca_destroy_rwq_table(struct hca_context *context, struct rwq_table *table);	/* EBUSY */

/* Flows to a RAW_PACKET QP, and counters (flow.c). */
int hca_create_flow(struct hca_context *context, struct qp *qp, const struct ibv_flow_attr *attr,
		    struct steered_flow **flow);
int hca_destroy_flow(struct hca_context *context, struct steered_flow *flow);
int hca_create_counters(struct hca_context *context, struct flow_counters **counters);
int hca_attach_counters(struct flow_counters *counters, const struct ibv_counter_attach_attr *attr);
int hca_read_counters(const struct flow_counters *counters, uint64_t *values, uint32_t count);
int hca_destroy_counters(struct hca_context *context, struct flow_counters *counters);	/* EBUSY */

/* attr->cap is raised to what was granted. */
int hca_create_qp_in(struct hca_context *context, struct ibv_qp_init_attr_ex *attr,
		     struct ring_allocator *allocator, struct qp **qp);
static inline int hca_create_qp(struct hca_context *context, struct ibv_qp_init_attr_ex *attr, struct qp **qp)
{
	return hca_create_qp_in(context, attr, NULL, qp);
}

/* ibv_open_qp: an XRC_RECV QP of the domain; each open takes a hca_destroy_qp(). */
int hca_open_qp(struct hca_context *context, struct xrcd *xrcd, uint32_t number, struct qp **qp);
int hca_modify_qp(struct qp *qp, struct ibv_qp_attr *attr, int mask);
int hca_query_qp(struct qp *qp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init_attr);
/*
 * Enhanced connection establishment: what two devices of one vendor agree on beyond the
 * specification. Ours have nothing yet: whatever is asked, 0 is accepted. EINVAL: another vendor's
 * options, or later than INIT.
 */
int hca_set_ece(struct qp *qp, uint32_t vendor, uint32_t *options);
int hca_query_ece(struct qp *qp, uint32_t *vendor, uint32_t *options);
/* ibv_modify_qp_rate_limit: of RAW_PACKET, in RTS. EOPNOTSUPP, EINVAL. */
int hca_pace_qp(struct qp *qp, uint32_t kbps, uint32_t burst_bytes);
int hca_destroy_qp(struct hca_context *context, struct qp *qp);	/* EBUSY: multicast attached, flows */
int hca_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
/* All of the list or none (ibv_wr_complete). */
int hca_post_send_all(struct qp *qp, struct ibv_send_wr *wr);
int hca_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/*
 * Twins of those that post and poll, for a program with ThreadSanitizer (tsan.c): the sanitizer is
 * told what the adapter does. In a call of tsan_enter_from(). Cold, so that the others are inlined
 * as without them.
 */
#define TSAN_TWIN __attribute__((cold))
/* Before the post, as the thread's own access: inline data is copied in the post, and no later. */
void hca_tsan_read_inline(const struct qp *qp, const struct ibv_send_wr *wr);
TSAN_TWIN int hca_tsan_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
TSAN_TWIN int hca_tsan_post_send_all(struct qp *qp, struct ibv_send_wr *wr);
TSAN_TWIN int hca_tsan_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
TSAN_TWIN int hca_tsan_post_srq_recv(struct srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
TSAN_TWIN int hca_tsan_post_srq_ops(struct srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);
TSAN_TWIN int hca_tsan_post_wq_recv(struct wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
TSAN_TWIN int hca_tsan_bind_mw(struct qp *qp, struct mw *mw, struct ibv_mw_bind *bind);
TSAN_TWIN int hca_tsan_poll_cq(struct cq *cq, int count, struct ibv_wc *wc);
TSAN_TWIN int hca_tsan_poll_cq_one(struct cq *cq, struct completion *completion);
TSAN_TWIN int hca_tsan_next_completion(struct cq *cq, struct completion *completion);

int hca_attach_mcast(struct qp *qp, const union ibv_gid *gid, uint16_t lid);
int hca_detach_mcast(struct qp *qp, const union ibv_gid *gid, uint16_t lid);

#endif
