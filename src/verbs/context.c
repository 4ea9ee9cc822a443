/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_open_device(3), ibv_import_device(3), ibv_close_device(3), and queries of an open device:
 * attributes, ports, P_Keys and clock. (GIDs: gid.c.)
 *
 * Open contexts are listed, so that an attribute file of a device can be answered from one
 * (attributes.c) without starting the HCA for it; such a reader holds the context open.
 * contexts_lock is taken alone.
 */
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/fork.h"
#include "base/lock.h"
#include "verbs/live.h"
#include "verbs/check.h"
#include "verbs/trace.h"
#include "verbs/verbs.h"

static struct lock contexts_lock = LOCK_INITIALIZER;
static struct condition no_reader = CONDITION_INITIALIZER;
static struct list contexts GUARDED_BY(contexts_lock) = { &contexts, &contexts };
static struct list closed_contexts GUARDED_BY(contexts_lock) = { &closed_contexts, &closed_contexts };

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

/* From the list of open contexts to that of closed ones. False: it is there already. */
static bool context_close(struct context *context, uint64_t file)
{
	bool open;

	lock_acquire(&contexts_lock);
	open = !context->closed;
	if (open) {
		context->closed = true;
		context->file = file;
		list_remove(&context->node);
		while (context->readers)
			condition_wait(&no_reader, &contexts_lock, UINT64_MAX);
		list_add_tail(&closed_contexts, &context->node);
	}
	lock_release(&contexts_lock);
	return open;
}

static void context_free(struct context *context)
{
	wr_builders_free(context);
	domains_free(context);
	verbs_device_put(context->device);
	pthread_mutex_destroy(&context->ibv.context.mutex);
	lock_destroy(&context->lock);
	free(context);
}

/* A trace began or ended. */
static void contexts_trace(bool on)
{
	struct list *node;

	lock_acquire(&contexts_lock);
	list_for_each(node, &contexts)
		verbs_trace_context(&list_entry(node, struct context, node)->ibv.context.ops, on);
	list_for_each(node, &closed_contexts)
		verbs_trace_context(&list_entry(node, struct context, node)->ibv.context.ops, on);
	lock_release(&contexts_lock);
}

/* Of @device from now on; its hca_context is open. */
static struct ibv_context *context_publish(struct context *context, struct verbs_device *device)
{
	struct ibv_context *ibv = &context->ibv.context;
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	verbs_device_get(device);
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

	fork_register(FORK_CONTEXTS, &fork_handlers);
	trace_set_switch(contexts_trace);
	lock_acquire(&contexts_lock);
	list_add_tail(&contexts, &context->node);
	if (trace_wants(TRACE_KINDS | TRACE_CHECK))
		verbs_trace_context(&ibv->ops, true);
	lock_release(&contexts_lock);
	check_set_device(&verbs_check_device);
	verbs_checked(.what = CHECK_MADE, .kind = CHECK_CONTEXT, .call = "ibv_open_device",
		      .object = CHECK_HANDLE(ibv));
	return ibv;
}

struct ibv_context *ibv_open_device(struct ibv_device *ibv)
{
	CALL();
	uint64_t began_ns = tracepoint_began_ns();
	struct context *context;
	int err;

	if (!ibv)
		return fail(refuse_null("ibv_open_device", "device"));
	context = calloc(1, sizeof(*context));
	if (!context)
		return fail(ENOMEM);
	err = hca_open(ibv->name, &context->hca);
	verbs_traced("ibv_open_device", began_ns, err, .device = ibv->name);
	if (err) {
		free(context);
		return fail(err);
	}
	return context_publish(context, to_device(ibv));
}

/* An open context whose cmd_fd leads to the same file as @fd, held as by context_find(). */
static int context_find_file(int fd, struct context **found)
{
	struct context *context, *other = NULL;
	struct stat status;
	struct list *node;
	int err = 0;

	if (fstat(fd, &status)) {
		explain_refused_of("ibv_import_device", EINVAL, OF(FD, (unsigned)fd),
				"ibv_import_device: cmd_fd %d is not open", fd);
		return EINVAL;
	}
	lock_acquire(&contexts_lock);
	list_for_each(node, &contexts) {
		context = list_entry(node, struct context, node);
		if (!hca_has_file(context->hca, &status))
			continue;
		other = context;
		if (context->ibv.context.cmd_fd == fd)
			err = EINVAL;
	}
	if (other && !err)
		other->readers++;
	lock_release(&contexts_lock);
	if (!other)
		return hca_refuse_import(fd);
	if (err)
		explain_of(OF(FD, (unsigned)fd),
			"ibv_import_device: cmd_fd %d belongs to an open context, which will "
				"close it: import a duplicate (dup(2), SCM_RIGHTS)", fd);
	else
		*found = other;
	return err;
}

struct ibv_context *ibv_import_device(int cmd_fd)
{
	CALL();
	struct context *context, *other = NULL;
	struct ibv_context *ibv = NULL;
	int err;

	err = context_find_file(cmd_fd, &other);
	if (err)
		return fail(err);
	context = calloc(1, sizeof(*context));
	err = context ? hca_import_device(other->hca, cmd_fd, &context->hca) : ENOMEM;
	if (!err)
		ibv = context_publish(context, other->device);
	else
		free(context);
	context_put(other);
	return err ? fail(err) : ibv;
}

/* A closed context of this file; NULL: there is none. */
static struct context *context_take_closed(uint64_t file)
{
	struct context *found = NULL;
	struct list *node;

	lock_acquire(&contexts_lock);
	list_for_each(node, &closed_contexts) {
		struct context *context = list_entry(node, struct context, node);

		if (context->file != file)
			continue;
		found = context;
		list_remove(&found->node);
		break;
	}
	lock_release(&contexts_lock);
	return found;
}

/*
 * As with Linux, what was made in a context stays until all contexts of its file are closed
 * (device/file.c); objects lead to their struct ibv_context, so it stays, too.
 */
int ibv_close_device(struct ibv_context *ibv)
{
	CALL();
	struct context *context;
	uint64_t file;

	if (!ibv)
		return minus_one(refuse_null("ibv_close_device", "context"));
	context = to_context(ibv);
	file = hca_file_number(context->hca);
	verbs_checked_ending(CONTEXT, "ibv_close_device", ibv);
	if (!context_close(context, file)) {
		explain("ibv_close_device: the context was closed before");
		return minus_one(EINVAL);
	}
	verbs_checked_ended(CONTEXT, "ibv_close_device", ibv, 0);
	if (hca_close(context->hca)) {
		live_forget_file(file);
		while ((context = context_take_closed(file)))
			context_free(context);
	}
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
		return refuse_null("ibv_query_device_ex", context ? "attr" : "context");
	if (input && input->comp_mask) {
		explain_refused("ibv_query_device_ex", EINVAL,
				"ibv_query_device_ex: input comp_mask 0x%x must be 0",
			input->comp_mask);
		return EINVAL;
	}
	err = hca_query_device(to_hca(context), &full);
	if (err)
		return err;
	if (check_is_on())
		verbs_check_limits(&full.orig_attr);
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
		return refuse_null("ibv_query_device", context ? "attr" : "context");
	err = hca_query_device(to_hca(context), &full);
	if (!err && check_is_on())
		verbs_check_limits(&full.orig_attr);
	if (!err)
		*attr = full.orig_attr;
	return err;
}

int port_query_verb(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		    size_t attr_size)
{
	CALL();
	struct { struct ibv_port_attr attr; uint32_t room[2]; } full = { 0 };
	uint32_t speed;
	int err;

	if (!context || !attr)
		return refuse_null("ibv_query_port", context ? "attr" : "context");
	err = hca_query_port(to_hca(context), port, &full.attr, &speed);
	if (err)
		return err;
	if (check_is_on())
		verbs_check_port(&full.attr);
	memcpy((char *)&full + NEWER_ACTIVE_SPEED_EX, &speed, sizeof(speed));
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
		return refuse_null("ibv_query_rt_values_ex", context ? "values" : "context");
	if (values->comp_mask & ~IBV_VALUES_MASK_RAW_CLOCK) {
		explain_refused("ibv_query_rt_values_ex", EINVAL,
				"ibv_query_rt_values_ex: comp_mask 0x%x must be "
				"IBV_VALUES_MASK_RAW_CLOCK (1)",
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
		return minus_one(refuse_null("ibv_query_pkey", context ? "pkey" : "context"));
	return minus_one(hca_query_pkey(to_hca(context), port, index, pkey));
}

int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	CALL();
	struct ibv_port_attr attr;
	__be16 entry;
	int err;

	if (!context)
		return minus_one(refuse_null("ibv_get_pkey_index", "context"));
	err = hca_query_port(to_hca(context), port, &attr, NULL);
	for (int i = 0; !err && i < attr.pkey_tbl_len; i++) {
		err = hca_query_pkey(to_hca(context), port, i, &entry);
		if (!err && entry == pkey)
			return i;
	}
	if (!err) {
		explain("ibv_get_pkey_index: P_Key 0x%04x is not in the table of port %u; RoCE "
				"uses 0xffff",
			__builtin_bswap16(pkey), port);
		err = ENOENT;
	}
	return minus_one(err);
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
