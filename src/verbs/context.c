/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_open_device(3), ibv_close_device(3), and queries of an open device: attributes, ports, P_Keys
 * and clock. (GIDs: gid.c.)
 *
 * Open contexts are listed, so that an attribute file of a device can be answered from one
 * (attributes.c) without starting the HCA for it; such a reader holds the context open.
 * contexts_lock is taken alone.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/lock.h"
#include "verbs/verbs.h"

static struct lock contexts_lock = LOCK_INITIALIZER;
static struct condition no_reader = CONDITION_INITIALIZER;
static struct list contexts GUARDED_BY(contexts_lock) = { &contexts, &contexts };

static void contexts_before_fork(void) ACQUIRES(contexts_lock)
{
	lock_acquire(&contexts_lock);
}

static void contexts_after_fork(void) RELEASES(contexts_lock)
{
	lock_release(&contexts_lock);
}

/* The readers of the parent do not exist in the child. */
static void contexts_after_fork_child(void) RELEASES(contexts_lock)
{
	struct list *node;

	list_for_each(node, &contexts)
		list_entry(node, struct context, node)->readers = 0;
	condition_init(&no_reader);
	lock_release(&contexts_lock);
}

static const struct fork_handlers fork_handlers = {
	.prepare = contexts_before_fork, .parent = contexts_after_fork, .child = contexts_after_fork_child,
};

struct context *context_find(const char *name)
{
	struct context *found = NULL;
	struct list *node;

	fork_register(FORK_CONTEXTS, &fork_handlers);
	lock_acquire(&contexts_lock);
	list_for_each(node, &contexts) {
		struct context *context = list_entry(node, struct context, node);

		if (strcmp(context->device->ibv.name, name))
			continue;
		found = context;
		found->readers++;
		break;
	}
	lock_release(&contexts_lock);
	return found;
}

void context_put(struct context *context)
{
	lock_acquire(&contexts_lock);
	if (!--context->readers)
		condition_say(&no_reader);
	lock_release(&contexts_lock);
}

static void context_unlist(struct context *context)
{
	lock_acquire(&contexts_lock);
	list_remove(&context->node);
	while (context->readers)
		condition_wait(&no_reader, &contexts_lock, UINT64_MAX);
	lock_release(&contexts_lock);
}

static void context_init(struct context *context, struct verbs_device *device)
{
	struct ibv_context *ibv = &context->ibv.context;
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	lock_init(&context->lock);
	list_init(&context->parent_domains);
	list_init(&context->thread_domains);
	list_init(&context->builders);
	context->device = device;
	context_fill_ops(context);
	ibv->device = &device->ibv;
	ibv->abi_compat = __VERBS_ABI_IS_EXTENDED;
	ibv->cmd_fd = hca_command_fd(context->hca);
	ibv->async_fd = hca_async_fd(context->hca);
	ibv->num_comp_vectors = processors > 0 ? (int)processors : 1;
	pthread_mutex_init(&ibv->mutex, NULL);
}

struct ibv_context *ibv_open_device(struct ibv_device *ibv)
{
	CALL();
	struct context *context;
	int err;

	if (!ibv)
		return fail(refuse_null("open_device", "device"));
	context = calloc(1, sizeof(*context));
	if (!context)
		return fail(ENOMEM);
	err = hca_open(ibv->name, &context->hca);
	if (err) {
		free(context);
		return fail(err);
	}
	verbs_device_get(to_device(ibv));
	context_init(context, to_device(ibv));
	fork_register(FORK_CONTEXTS, &fork_handlers);
	lock_acquire(&contexts_lock);
	list_add_tail(&contexts, &context->node);
	lock_release(&contexts_lock);
	return &context->ibv.context;
}

int ibv_close_device(struct ibv_context *ibv)
{
	CALL();
	struct context *context;

	if (!ibv)
		return minus_one(refuse_null("close_device", "context"));
	context = to_context(ibv);
	context_unlist(context);
	hca_close(context->hca);
	wr_builders_free(context);
	domains_free(context);
	verbs_device_put(context->device);
	pthread_mutex_destroy(&ibv->mutex);
	lock_destroy(&context->lock);
	free(context);
	return 0;
}

int device_query_ex_verb(struct ibv_context *context,
			 const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t attr_size)
{
	CALL();
	struct ibv_device_attr_ex full = { 0 };
	int err;

	if (!context || !attr)
		return refuse_null("query_device_ex", context ? "attr" : "context");
	if (input && input->comp_mask) {
		explain("query_device_ex: input comp_mask 0x%x must be 0",
			input->comp_mask);
		return EINVAL;
	}
	err = hca_query_device(to_hca(context), &full);
	if (err)
		return err;
	/* A program built against newer headers has a longer structure: zero what we do not know. */
	if (attr_size > sizeof(full)) {
		memset((char *)attr + sizeof(full), 0, attr_size - sizeof(full));
		attr_size = sizeof(full);
	}
	memcpy(attr, &full, attr_size);
	return 0;
}

int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	CALL();
	struct ibv_device_attr_ex full = { 0 };
	int err;

	if (!context || !attr)
		return refuse_null("query_device", context ? "attr" : "context");
	err = hca_query_device(to_hca(context), &full);
	if (!err)
		*attr = full.orig_attr;
	return err;
}

int port_query_verb(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		    size_t attr_size)
{
	CALL();
	struct ibv_port_attr full = { 0 };
	int err;

	if (!context || !attr)
		return refuse_null("query_port", context ? "attr" : "context");
	err = hca_query_port(to_hca(context), port, &full);
	if (err)
		return err;
	if (attr_size > sizeof(full)) {
		memset((char *)attr + sizeof(full), 0, attr_size - sizeof(full));
		attr_size = sizeof(full);
	}
	memcpy(attr, &full, attr_size);
	return 0;
}

/*
 * Programs reach this only with headers from before query_port was in struct verbs_context;
 * their structure ends before port_cap_flags2.
 */
int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	CALL();

	return port_query_verb(context, port, (struct ibv_port_attr *)attr,
			       offsetof(struct ibv_port_attr, port_cap_flags2));
}

/* Completion timestamps are CLOCK_MONOTONIC in nanoseconds; this is the same clock. */
int rt_values_verb(struct ibv_context *context, struct ibv_values_ex *values)
{
	CALL();

	if (!context || !values)
		return refuse_null("query_rt_values_ex", context ? "values" : "context");
	if (values->comp_mask & ~IBV_VALUES_MASK_RAW_CLOCK) {
		explain("query_rt_values_ex: comp_mask 0x%x must be IBV_VALUES_MASK_RAW_CLOCK (1)",
			values->comp_mask);
		return EINVAL;
	}
	if (values->comp_mask && clock_gettime(CLOCK_MONOTONIC, &values->raw_clock))
		return errno;
	return 0;
}

int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	CALL();

	if (!context || !pkey)
		return minus_one(refuse_null("query_pkey", context ? "pkey" : "context"));
	return minus_one(hca_query_pkey(to_hca(context), port, index, pkey));
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	CALL();
	struct ibv_port_attr attr;
	__be16 entry;
	int err;

	if (!context)
		return minus_one(refuse_null("get_pkey_index", "context"));
	err = hca_query_port(to_hca(context), port, &attr);
	for (int i = 0; !err && i < attr.pkey_tbl_len; i++) {
		err = hca_query_pkey(to_hca(context), port, i, &entry);
		if (!err && entry == pkey)
			return i;
	}
	if (!err) {
		explain("get_pkey_index: P_Key 0x%04x is not in the table of port %u; RoCE uses 0xffff",
			__builtin_bswap16(pkey), port);
		err = ENOENT;
	}
	return minus_one(err);
}

/* Handles of one process mean nothing to another: there is no kernel that both could ask. */
static const char no_sharing[] = "objects are not shared between processes";

struct ibv_context *ibv_import_device(int cmd_fd)
{
	return fail(refuse_verb("import_device", no_sharing));
}

struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	return fail(refuse_verb("import_pd", no_sharing));
}

struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	return fail(refuse_verb("import_mr", no_sharing));
}

struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	return fail(refuse_verb("import_dm", no_sharing));
}

void ibv_unimport_pd(struct ibv_pd *pd)
{
	refuse_verb("unimport_pd", no_sharing);
}

void ibv_unimport_mr(struct ibv_mr *mr)
{
	refuse_verb("unimport_mr", no_sharing);
}

void ibv_unimport_dm(struct ibv_dm *dm)
{
	refuse_verb("unimport_dm", no_sharing);
}

/*
 * Regions are not pinned and no page is ever given to a device, so a fork()ed child has its
 * copy-on-write image of them as of any memory: nothing has to be prepared.
 */
int ibv_fork_init(void)
{
	return 0;
}

enum ibv_fork_status ibv_is_fork_initialized(void)
{
	return IBV_FORK_UNNEEDED;
}

int ibv_dontfork_range(void *base, size_t size)
{
	return 0;
}

int ibv_dofork_range(void *base, size_t size)
{
	return 0;
}
