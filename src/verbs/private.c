/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IBVERBS_PRIVATE_*: symbols that vendor libraries (libmlx5, libmlx4, libefa ...) need to load, at each
 * version that releases gave them (private.h). Some were added without a new version: all symbols of 44 to
 * 65 are here at each.
 * Programs link to those libraries for their extensions (mlx5dv_*, efadv_*); their constructors
 * register a driver, which is never given a device; its requests to the kernel are refused. (Of the
 * same versions and used by programs: ibv_query_gid_type in gid.c, ibv_wr_opcode_str in names.c.)
 *
 * The kind of each symbol is that of the original: all are functions but
 * verbs_allow_disassociate_destroy.
 */
#include <stdarg.h>
#include <stdio.h>

#include "verbs/private.h"
#include "verbs/verbs.h"

/* Not to be instrumented: AddressSanitizer of clang 19 defines the aliases of a variable itself. */
extern bool verbs_allow_disassociate_destroy;
#ifdef __clang__
__attribute__((no_sanitize("address")))
#endif
bool verbs_allow_disassociate_destroy;
PRIVATE_IN_ALL_NODES(verbs_allow_disassociate_destroy);

static int refuse_private(const char *call)
{
	log_init();
	return refuse_verb(call, "this library uses no hardware drivers and has no kernel device");
}

/* Arguments are left where the caller put them: none is looked at. */
#define REFUSE(type, name, answer)                              \
	type name(void);                                        \
	type name(void)                                         \
	{                                                       \
		int err = refuse_private(#name);                \
								\
		answer;                                         \
	}                                                       \
	PRIVATE_IN_ALL_NODES(name);
#define REFUSE_COMMAND(name)	REFUSE(int, name, return verb_result(err))

REFUSE_COMMAND(execute_ioctl)
REFUSE_COMMAND(ibv_cmd_advise_mr)
REFUSE_COMMAND(ibv_cmd_alloc_dm)
REFUSE_COMMAND(ibv_cmd_alloc_dmah)
REFUSE_COMMAND(ibv_cmd_alloc_mw)
REFUSE_COMMAND(ibv_cmd_alloc_pd)
REFUSE_COMMAND(ibv_cmd_attach_mcast)
REFUSE_COMMAND(ibv_cmd_close_xrcd)
REFUSE_COMMAND(ibv_cmd_create_ah)
REFUSE_COMMAND(ibv_cmd_create_comp_cntr)
REFUSE_COMMAND(ibv_cmd_create_counters)
REFUSE_COMMAND(ibv_cmd_create_cq)
REFUSE_COMMAND(ibv_cmd_create_cq_ex)
REFUSE_COMMAND(ibv_cmd_create_cq_ex2)
REFUSE_COMMAND(ibv_cmd_create_flow)
REFUSE_COMMAND(ibv_cmd_create_flow_action_esp)
REFUSE_COMMAND(ibv_cmd_create_qp)
REFUSE_COMMAND(ibv_cmd_create_qp_ex)
REFUSE_COMMAND(ibv_cmd_create_qp_ex2)
REFUSE_COMMAND(ibv_cmd_create_rwq_ind_table)
REFUSE_COMMAND(ibv_cmd_create_srq)
REFUSE_COMMAND(ibv_cmd_create_srq_ex)
REFUSE_COMMAND(ibv_cmd_create_wq)
REFUSE_COMMAND(ibv_cmd_dealloc_mw)
REFUSE_COMMAND(ibv_cmd_dealloc_pd)
REFUSE_COMMAND(ibv_cmd_dereg_mr)
REFUSE_COMMAND(ibv_cmd_destroy_ah)
REFUSE_COMMAND(ibv_cmd_destroy_comp_cntr)
REFUSE_COMMAND(ibv_cmd_destroy_counters)
REFUSE_COMMAND(ibv_cmd_destroy_cq)
REFUSE_COMMAND(ibv_cmd_destroy_flow)
REFUSE_COMMAND(ibv_cmd_destroy_flow_action)
REFUSE_COMMAND(ibv_cmd_destroy_qp)
REFUSE_COMMAND(ibv_cmd_destroy_rwq_ind_table)
REFUSE_COMMAND(ibv_cmd_destroy_srq)
REFUSE_COMMAND(ibv_cmd_destroy_wq)
REFUSE_COMMAND(ibv_cmd_detach_mcast)
REFUSE(int, ibv_cmd_export_dmabuf_fd, return minus_one(err))	/* else a descriptor */
REFUSE_COMMAND(ibv_cmd_free_dm)
REFUSE_COMMAND(ibv_cmd_free_dmah)
REFUSE_COMMAND(ibv_cmd_get_context)
REFUSE_COMMAND(ibv_cmd_inc_comp_cntr)
REFUSE_COMMAND(ibv_cmd_inc_err_comp_cntr)
REFUSE_COMMAND(ibv_cmd_modify_cq)
REFUSE_COMMAND(ibv_cmd_modify_flow_action_esp)
REFUSE_COMMAND(ibv_cmd_modify_qp)
REFUSE_COMMAND(ibv_cmd_modify_qp_ex)
REFUSE_COMMAND(ibv_cmd_modify_srq)
REFUSE_COMMAND(ibv_cmd_modify_wq)
REFUSE_COMMAND(ibv_cmd_open_qp)
REFUSE_COMMAND(ibv_cmd_open_xrcd)
REFUSE(int, ibv_cmd_poll_cq, return minus_one(err))	/* else a count */
REFUSE_COMMAND(ibv_cmd_post_recv)
REFUSE_COMMAND(ibv_cmd_post_send)
REFUSE_COMMAND(ibv_cmd_post_srq_recv)
REFUSE_COMMAND(ibv_cmd_qp_attach_comp_cntr)
REFUSE_COMMAND(ibv_cmd_query_comp_cntr_caps)
REFUSE_COMMAND(ibv_cmd_query_context)
REFUSE_COMMAND(ibv_cmd_query_device)
REFUSE_COMMAND(ibv_cmd_query_device_any)
REFUSE_COMMAND(ibv_cmd_query_mr)
REFUSE_COMMAND(ibv_cmd_query_port)
REFUSE_COMMAND(ibv_cmd_query_port_speed)
REFUSE_COMMAND(ibv_cmd_query_qp)
REFUSE_COMMAND(ibv_cmd_query_srq)
REFUSE_COMMAND(ibv_cmd_read_comp_cntr)
REFUSE_COMMAND(ibv_cmd_read_counters)
REFUSE_COMMAND(ibv_cmd_read_err_comp_cntr)
REFUSE_COMMAND(ibv_cmd_reg_dm_mr)
REFUSE_COMMAND(ibv_cmd_reg_dmabuf_mr)
REFUSE_COMMAND(ibv_cmd_reg_mr)
REFUSE_COMMAND(ibv_cmd_reg_mr_ex)
REFUSE_COMMAND(ibv_cmd_req_notify_cq)
REFUSE_COMMAND(ibv_cmd_rereg_mr)
REFUSE_COMMAND(ibv_cmd_resize_cq)
REFUSE_COMMAND(ibv_cmd_set_comp_cntr)
REFUSE_COMMAND(ibv_cmd_set_err_comp_cntr)
REFUSE(void *, _verbs_init_and_alloc_context, return fail(err))
REFUSE(void *, verbs_open_device, return fail(err))
REFUSE(void, verbs_uninit_context, errno = err)
REFUSE(void, verbs_set_ops, errno = err)
REFUSE(void, verbs_init_cq, errno = err)
REFUSE(void *, ibv_dmabuf_heap_alloc, return fail(err))
REFUSE(void *, ibv_dmabuf_heap_cc_shared_init, return fail(err))
REFUSE(void, ibv_dmabuf_heap_destroy, errno = err)
REFUSE(void, ibv_dmabuf_heap_free, errno = err)
REFUSE(unsigned, __ioctl_final_num_attrs, errno = err; return 0)
/* Of a device's private handle on sysfs, which only a driver could have got. */
REFUSE(int, ibv_read_ibdev_sysfs_file, return minus_one(err))

/*
 * Called by the constructor of every vendor library, on each start of programs that link them. Its name has
 * the number of its version.
 */
#define REGISTER_DRIVER(node)                                   \
	void verbs_register_driver_##node(const void *ops);     \
	void verbs_register_driver_##node(const void *ops)      \
	{                                                       \
	}
REGISTER_DRIVER(34)
REGISTER_DRIVER(57)
REGISTER_DRIVER(59)
REGISTER_DRIVER(64)
REGISTER_DRIVER(65)

void __verbs_log(const void *context, uint32_t level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void __verbs_log(const void *context, uint32_t level, const char *format, ...)
{
	char line[256];
	va_list args;

	if (log_level < LOG_DEBUG)
		return;
	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	log_debug("vendor library (level %u): %s", level, line);
}
PRIVATE_IN_ALL_NODES(__verbs_log);
