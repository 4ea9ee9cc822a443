/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Gives the verbs of errno.def, as their files define them, other symbols: inner_NAME. What programs call by NAME
 * is in errno.c, and calls those. To be included before <infiniband/verbs.h>, whose inline functions use some.
 */
#ifndef VERBATIM_VERBS_INNER_H
#define VERBATIM_VERBS_INNER_H

#include <linux/types.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct _compat_ibv_port_attr;
struct ibv_ah;
struct ibv_ah_attr;
struct ibv_async_event;
struct ibv_buf;
struct ibv_comp_channel;
struct ibv_context;
struct ibv_cq;
struct ibv_device;
struct ibv_device_attr;
struct ibv_dm;
struct ibv_dmah;
struct ibv_dmah_init_attr;
struct ibv_ece;
struct ibv_gid_entry;
struct ibv_grh;
struct ibv_mr;
struct ibv_comp_cntr;
struct ibv_comp_cntr_caps;
struct ibv_comp_cntr_init_attr;
struct ibv_qp_attach_comp_cntr_attr;
struct ibv_mr_init_attr;
struct ibv_pd;
struct ibv_qp;
struct ibv_qp_attr;
struct ibv_qp_init_attr;
struct ibv_srq;
struct ibv_srq_attr;
struct ibv_srq_init_attr;
struct ibv_wc;
union ibv_gid;

#ifndef VERBS_OUTER
#define VOID(name, parameters, arguments) void name parameters __asm__("inner_" #name);
#define SLOT(kind, type, function, name, parameters, arguments)
#define VERB(kind, type, name, parameters, arguments) type name parameters __asm__("inner_" #name);
#include "verbs/errno.def"
#endif

#endif
