/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Handles of PDs, MRs and DMs, as the contexts of a file (file.c) share them: ibv_import_pd(3),
 * ibv_import_mr(3), ibv_import_dm(3). What becomes of the objects themselves is in pd.c, mr.c and dm.c.
 */
#include <errno.h>

#include "base/log.h"
#include "device/internal.h"

void handle_init(struct hca_context *context, struct list *head, struct handle *handle, uint32_t number)
{
	handle->number = number;
	handle->count = 1;
	object_enlist(context, head, &handle->node);
}

static struct handle *handle_find(const struct context_file *file, size_t list_offset, uint32_t number)
{
	struct list *context_node, *node;

	list_for_each(context_node, &file->contexts) {
		struct hca_context *context = list_entry(context_node, struct hca_context, file_node);
		struct list *head = (struct list *)((char *)context + list_offset);

		list_for_each(node, head) {
			struct handle *handle = list_entry(node, struct handle, node);

			if (handle->number == number && !handle->of && !handle->destroyed)
				return handle;
		}
	}
	return NULL;
}

int handle_import(struct hca_context *context, size_t list_offset, struct handle *made, uint32_t number,
		  const char *call)
{
	struct handle *original;

	lock_acquire(&context->hca->objects);
	original = handle_find(context->file, list_offset, number);
	if (original) {
		original->count++;
		made->of = original;
		list_add_tail((struct list *)((char *)context + list_offset), &made->node);
	}
	lock_release(&context->hca->objects);
	if (original)
		return 0;
	explain_of(OF(HANDLE, number),
		"%s: no object has the handle %u: expected that of an object that was made in "
		"a context with the same file behind cmd_fd, and that is not destroyed", call, number);
	return ENOENT;
}

int handle_destroy(struct hca *hca, struct handle *handle, const _Atomic uint32_t *users, const char *call)
{
	struct handle *original = handle_original(handle);
	int err = 0;

	lock_acquire(&hca->objects);
	if (original->destroyed)
		err = ENOENT;
	else if (users && atomic_load(users))
		err = EBUSY;
	else
		original->destroyed = true;
	lock_release(&hca->objects);
	if (err == ENOENT)
		explain("%s: another handle to the object has destroyed it: this one can only be unimported",
			call);
	return err;
}

bool handle_drop(struct hca *hca, struct handle *handle, const _Atomic uint32_t *users)
{
	struct handle *original = handle_original(handle);
	bool is_over;

	lock_acquire(&hca->objects);
	is_over = --original->count == 0 && original->destroyed && !(users && atomic_load(users));
	if (original != handle)
		list_remove(&handle->node);
	if (is_over)
		list_remove(&original->node);
	lock_release(&hca->objects);
	return is_over;
}
