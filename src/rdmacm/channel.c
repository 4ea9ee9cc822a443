/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_create_event_channel(3), rdma_destroy_event_channel(3). */
#include <errno.h>

#include "rdmacm/rdmacm.h"

/* For a check: the name of an event of a failure that waits; NULL: none does. */
static const char *unread_failure(const struct check_object *object)
{
	void *handle = (void *)(uintptr_t)object->handle;
	enum rdma_cm_event_type kind;
	bool has;

	if (object->kind == CHECK_ID)
		has = endpoint_has_failure(to_id(handle)->endpoint, &kind);
	else
		has = cm_channel_has_failure(cm_channel_of(handle), &kind);
	return has ? rdma_event_str(kind) : NULL;
}

struct rdma_event_channel *rdma_create_event_channel(void)
{
	CALL();
	struct cm_channel *channel;
	int err = check_start();

	if (!err)
		err = cm_channel_open(&channel);
	if (err) {
		errno = err;
		return NULL;
	}
	if (check_is_on()) {
		check_set_manager(unread_failure);
		check_take(&(struct check_record){
			.what = CHECK_MADE, .kind = CHECK_CM_CHANNEL,
			.call = "rdma_create_event_channel",
			.object = (uintptr_t)cm_channel_public(channel) });
	}
	return cm_channel_public(channel);
}

void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	CALL();
	struct check_record record = { .what = CHECK_ENDING, .kind = CHECK_CM_CHANNEL,
				       .call = "rdma_destroy_event_channel",
				       .object = (uintptr_t)channel };

	if (!channel)
		return;
	if (check_is_on())
		check_take(&record);
	record.what = CHECK_ENDED;	/* before the memory may be another channel's */
	if (check_is_on())
		check_take(&record);
	cm_channel_close(cm_channel_of(channel));
}
