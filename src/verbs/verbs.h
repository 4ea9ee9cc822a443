/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Internal interface of the libibverbs layer. The layer is thin: it refuses null pointers, calls
 * device/hca.h, and returns the errno in the way that the man page of each call says:
 *
 *	struct ibv_x *ibv_...()		NULL, and errno
 *	int ibv_...()			0 or a positive errno
 *	a few (events, GIDs, P_Keys)	-1, and errno
 *
 * errno.c sets errno for those that answer it, too, and keeps it where a call succeeds.
 *
 * Objects are those of object/, reached through hca.h. Only this layer uses their members
 * qp.wr_builder, cq.current and cq.poll_lock.
 *
 * Functions with a name of the ABI are exported by libibverbs.map; everything else is local.
 */
#ifndef VERBATIM_VERBS_VERBS_H
#define VERBATIM_VERBS_VERBS_H

#include "verbs/inner.h"	/* first */

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdbool.h>

#include "base/call.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "device/hca.h"
#include "device/tsan_adapter.h"
#include "verbs/newer.h"

/* The header wraps these in macros of the same name; here the functions themselves are written. */
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

/*
 * A device as programs hold it. Vendor libraries (mlx5dv_is_supported) are handed any device and
 * compare the pointer behind struct ibv_device with the address of a table of theirs: there
 * stands a pointer that can never be equal.
 */
struct verbs_device {
	struct ibv_device ibv;		/* first */
	const void *not_a_driver;	/* must follow: see above */
	struct list node;		/* in the registry (device.c) */
	unsigned references;		/* lists and contexts; under the registry's lock */
	bool present;			/* in the newest list of the hca */
	int number;			/* N of uverbsN; stable while the device exists */
	uint64_t guid;			/* network order */
	char interface[16];
};
static_assert(sizeof(struct ibv_device) == 664, "programs compute with this size");
static_assert(offsetof(struct verbs_device, not_a_driver) == sizeof(struct ibv_device),
	      "vendor libraries read a pointer there");

struct wr_builder;

/*
 * An open device. struct verbs_context ends with the struct ibv_context that programs hold; in front of
 * it there is room for the slots that our header does not have (ops.c).
 */
struct context {
	struct newer_ops newer;		/* first; not by this name if the header has them */
	struct verbs_context ibv;	/* must follow */
	struct hca_context *hca;
	struct verbs_device *device;	/* holds a reference */
	struct list node;		/* in the list of open contexts, or of closed ones (context.c) */
	bool closed;			/* its file is still open by another one */
	uint64_t file;			/* of a closed one: hca_file_number() */
	unsigned readers GUARDED;		/* of context_find(); under its lock */
	struct list parent_domains GUARDED_BY_MEMBER(lock);	/* domain.c */
	struct list thread_domains GUARDED_BY_MEMBER(lock);
	struct list builders GUARDED_BY_MEMBER(lock);		/* qp_ex.c */
	struct lock lock;
};

static inline struct context *to_context(struct ibv_context *ibv)
{
	return container_of(ibv, struct context, ibv.context);
}

static inline struct hca_context *to_hca(struct ibv_context *ibv)
{
	return to_context(ibv)->hca;
}

static inline struct verbs_device *to_device(struct ibv_device *ibv)
{
	return (struct verbs_device *)ibv;
}

/* The end of a pointer function that failed. */
static inline void *fail(int err)
{
	errno = err;
	return NULL;
}

/* The end of a function that answers -1 and errno, or 0. */
static inline int minus_one(int err)
{
	if (!err)
		return 0;
	errno = err;
	return -1;
}

void verb_note(int err);	/* refuse.c: errno, if it is one */
/* The end of a post or a notification, which errno.def leaves out: nothing more is done on success. */
static inline int verb_result(int err)
{
	if (__builtin_expect(err, 0))
		verb_note(err);
	return err;
}

/* refuse.c: the caller passed a null pointer (or an object without its context): explained EINVAL. */
int refuse_null(const char *call, const char *what);
/* A verb that this device does not have: explained EOPNOTSUPP. @why completes "because ...". */
int refuse_verb(const char *call, const char *why);

/* device.c */
void verbs_device_put(struct verbs_device *device);
void verbs_device_get(struct verbs_device *device);
/* By name ("vb_eth0") or as the device of "uverbsN"; holds a reference. NULL: none. */
struct verbs_device *verbs_device_find(const char *name);

/* context.c: an open context of the device of this name, which stays open until put; or NULL. */
struct context *context_find(const char *name);
void context_put(struct context *context);

/* ops.c: fill every slot of the two tables of verbs, and the size of the larger one. */
void context_fill_ops(struct context *context);

/* domain.c: parent and thread domains. */
struct ibv_td *td_alloc(struct ibv_context *context, struct ibv_td_init_attr *attr);
int td_dealloc(struct ibv_td *td);
struct ibv_pd *parent_domain_alloc(struct ibv_context *context,
				   struct ibv_parent_domain_init_attr *attr);
/*
 * The original of the protection domain that @ibv is, or that it stands for as a parent domain. EINVAL,
 * explained for @call: that was deallocated.
 */
int domain_pd(const char *call, struct ibv_pd *ibv, struct pd **pd);
bool domain_is_parent(const struct ibv_pd *ibv);
/* Of a parent domain: counts what is made in it; it may have none (alloc is NULL). Else NULL. */
struct ring_allocator *domain_allocator(struct ibv_pd *ibv);
/* A parent domain with a thread domain: its objects are used by one thread. */
bool domain_is_of_one_thread(const struct ibv_pd *ibv);
int parent_domain_dealloc(struct ibv_pd *ibv);
void domains_free(struct context *context);

/* mr.c: of process memory, by whichever call, named @call. NULL and errno. */
struct ibv_mr *mr_register_verb(const char *call, struct ibv_pd *pd, void *address, size_t length,
				uint64_t iova, unsigned access);

/* Verbs that programs reach through the tables, by object. */
struct ibv_mr *mr_alloc_null_verb(struct ibv_pd *pd);
int mr_advise_verb(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge *list,
		   uint32_t count);

struct ibv_mw *mw_alloc_verb(struct ibv_pd *pd, enum ibv_mw_type type);
int mw_dealloc_verb(struct ibv_mw *mw);
int mw_bind_verb(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

struct ibv_dm *dm_alloc_verb(struct ibv_context *context, struct ibv_alloc_dm_attr *attr);
int dm_free_verb(struct ibv_dm *dm);
struct ibv_mr *dm_reg_mr_verb(struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset, size_t length,
			      unsigned access);

int cq_poll_verb(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int cq_modify_verb(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int cq_notify_verb(struct ibv_cq *cq, int solicited_only);
struct ibv_cq_ex *cq_create_ex_verb(struct ibv_context *context,
				    struct ibv_cq_init_attr_ex *attr);
/* cq.c: for both kinds. NULL and errno. */
struct cq *cq_create(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr,
		     struct ring_allocator *allocator);

/* tsan.c: the operations of the data path, or their twins for a program with ThreadSanitizer. */
struct verbs_data {
	int (*poll_cq)(struct ibv_cq *cq, int count, struct ibv_wc *wc);
	int (*req_notify_cq)(struct ibv_cq *cq, int solicited_only);
	int (*post_srq_recv)(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
	int (*post_send)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
	int (*post_recv)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
};
const struct verbs_data *verbs_data(void);
int wq_post_recv_tsan(struct ibv_wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

struct ibv_xrcd *xrcd_open_verb(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int xrcd_close_verb(struct ibv_xrcd *xrcd);
int srq_number_verb(struct ibv_srq *srq, uint32_t *number);
struct ibv_qp *qp_open_verb(struct ibv_context *context, struct ibv_qp_open_attr *attr);
struct ibv_srq *srq_create_ex_verb(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int srq_post_ops_verb(struct ibv_srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad);
int srq_post_verb(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

struct ibv_qp *qp_create_ex_verb(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
int qp_post_send_verb(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int qp_post_recv_verb(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

int qp_pace_verb(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr);

struct ibv_wq *wq_create_verb(struct ibv_context *context, struct ibv_wq_init_attr *attr);
int wq_modify_verb(struct ibv_wq *wq, struct ibv_wq_attr *attr);
int wq_destroy_verb(struct ibv_wq *wq);
struct ibv_rwq_ind_table *rwq_table_create_verb(struct ibv_context *context,
						struct ibv_rwq_ind_table_init_attr *attr);
int rwq_table_destroy_verb(struct ibv_rwq_ind_table *table);

struct ibv_flow *flow_create_verb(struct ibv_qp *qp, struct ibv_flow_attr *attr);
int flow_destroy_verb(struct ibv_flow *flow);
struct ibv_counters *counters_create_verb(struct ibv_context *context, struct ibv_counters_init_attr *attr);
int counters_destroy_verb(struct ibv_counters *counters);
int counters_attach_verb(struct ibv_counters *counters, struct ibv_counter_attach_attr *attr,
			 struct ibv_flow *flow);
int counters_read_verb(struct ibv_counters *counters, uint64_t *values, uint32_t count, uint32_t flags);

/* qp_ex.c: what ibv_wr_*() builds in. */
int wr_builder_check(enum ibv_qp_type type, uint64_t operations);
int wr_builder_create(struct context *context, struct qp *qp, uint64_t operations, bool of_one_thread);
void wr_builder_destroy(struct context *context, struct wr_builder *builder);	/* NULL: none */
void wr_builders_free(struct context *context);	/* of QPs that the application left */

int device_query_ex_verb(struct ibv_context *context,
			 const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t attr_size);
int port_query_verb(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		    size_t attr_size);
int rt_values_verb(struct ibv_context *context, struct ibv_values_ex *values);

/* names.c: constants without their prefixes, "REM_ACCESS_ERR"; "unknown" for what is none. */
const char *wc_status_word(int status);
const char *wc_opcode_word(int opcode);
const char *wr_opcode_word(int opcode);
const char *event_word(int event);

/* sysfs.c, attributes.c: the text of an attribute file of ours. */
enum attribute_found { ATTRIBUTE_FOREIGN, ATTRIBUTE_ABSENT, ATTRIBUTE_TEXT };
/* @path below /sys/class/. FOREIGN: no device of ours; ABSENT: ours, without such a file. */
enum attribute_found attribute_read(const char *path, char *text, size_t size);

/* What the ABI has and not every release's headers declare. */
enum gid_type_sysfs { GID_TYPE_SYSFS_IB_ROCE_V1, GID_TYPE_SYSFS_ROCE_V2 };
int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index,
		       enum gid_type_sysfs *type);
const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);
const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buffer, size_t size);

#ifndef VERBS_OUTER
#define VERB(kind, type, name, parameters, arguments)
#define VOID(name, parameters, arguments)
#define SLOT(kind, type, function, name, parameters, arguments)                                    \
	type function parameters __asm__("inner_" #function);
#include "verbs/errno.def"
#endif

#endif
