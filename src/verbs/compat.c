/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The entry points of IBVERBS_1.0: calls with the structures of before 2007, which no current
 * program uses. They keep the set of symbols complete, and refuse with an explanation. Functions
 * that have no version but IBVERBS_1.0 (ibv_create_comp_channel, ibv_get_sysfs_path ...) work, and
 * are in the files of their objects.
 */
#include "verbs/verbs.h"

static int refuse_old(const char *call)
{
	log_init();
	explain("%s: the program needs %s@IBVERBS_1.0, obsolete since 2007: rebuild it against a "
		"current libibverbs", call, call);
	return EOPNOTSUPP;
}

/* A function old_@name, bound to @name@IBVERBS_1.0, that does @body. */
#define OLD(type, name, body)                                              \
	type old_##name(void);                                             \
	__asm__(".symver old_" #name "," #name "@IBVERBS_1.0");            \
	type old_##name(void)                                              \
	{                                                                  \
		int err = refuse_old(#name);                               \
									   \
		body;                                                      \
	}
#define OLD_POINTER(name)	OLD(void *, name, return fail(err))
#define OLD_ERRNO(name)		OLD(int, name, return verb_result(err))
#define OLD_MINUS_ONE(name)	OLD(int, name, return minus_one(err))
#define OLD_VOID(name)		OLD(void, name, errno = err)

OLD_POINTER(ibv_get_device_list)
OLD_VOID(ibv_free_device_list)
OLD_POINTER(ibv_get_device_name)
OLD(uint64_t, ibv_get_device_guid, errno = err; return 0)
OLD_POINTER(ibv_open_device)
OLD_MINUS_ONE(ibv_close_device)
OLD_MINUS_ONE(ibv_get_async_event)
OLD_VOID(ibv_ack_async_event)
OLD_ERRNO(ibv_query_device)
OLD_ERRNO(ibv_query_port)
OLD_MINUS_ONE(ibv_query_gid)
OLD_MINUS_ONE(ibv_query_pkey)
OLD_POINTER(ibv_alloc_pd)
OLD_ERRNO(ibv_dealloc_pd)
OLD_POINTER(ibv_reg_mr)
OLD_ERRNO(ibv_dereg_mr)
OLD_POINTER(ibv_create_cq)
OLD_ERRNO(ibv_resize_cq)
OLD_ERRNO(ibv_destroy_cq)
OLD_MINUS_ONE(ibv_get_cq_event)
OLD_VOID(ibv_ack_cq_events)
OLD_POINTER(ibv_create_srq)
OLD_ERRNO(ibv_modify_srq)
OLD_ERRNO(ibv_query_srq)
OLD_ERRNO(ibv_destroy_srq)
OLD_POINTER(ibv_create_qp)
OLD_ERRNO(ibv_query_qp)
OLD_ERRNO(ibv_modify_qp)
OLD_ERRNO(ibv_destroy_qp)
OLD_POINTER(ibv_create_ah)
OLD_ERRNO(ibv_destroy_ah)
OLD_ERRNO(ibv_attach_mcast)
OLD_ERRNO(ibv_detach_mcast)

/* Drivers of before the private interface announced themselves by this; there is no other use. */
void old_register_driver(const char *name, void *init);
__asm__(".symver old_register_driver,ibv_register_driver@IBVERBS_1.1");
void old_register_driver(const char *name, void *init)
{
	log_init();
	explain("verbs_register_driver: ignored: this library uses no hardware drivers");
}
