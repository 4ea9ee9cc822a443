/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GIDs: ibv_query_gid(3), ibv_query_gid_ex(3), ibv_query_gid_table(3), and ibv_query_gid_type()
 * of IBVERBS_PRIVATE_*, which ibv_devinfo calls. Of the two older ones an empty entry of the
 * table is no error but reads as zeros.
 */
#include "verbs/check.h"
#include "verbs/private.h"
#include "verbs/verbs.h"

static bool is_empty(int err)
{
	return err == ENOENT || err == ENODATA;
}

int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	CALL();
	struct hca_gid entry;
	int err;

	if (!context || !gid)
		return minus_one(refuse_null("ibv_query_gid", context ? "gid" : "context"));
	err = hca_query_gid(to_hca(context), port, (uint32_t)index, &entry);
	if (err && !is_empty(err))
		return minus_one(err);
	if (err)
		memset(gid, 0, sizeof(*gid));
	else
		*gid = entry.gid;
	return 0;
}

int ibv_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index,
		       enum gid_type_sysfs *type)
{
	CALL();
	struct hca_gid entry;
	int err;

	if (!context || !type)
		return minus_one(refuse_null("ibv_query_gid_type", context ? "type" : "context"));
	err = hca_query_gid(to_hca(context), port, index, &entry);
	if (err && !is_empty(err))
		return minus_one(err);
	verbs_checked(.what = CHECK_LOOK, .call = "ibv_query_gid_type");
	*type = !err && entry.type == IBV_GID_TYPE_ROCE_V2 ? GID_TYPE_SYSFS_ROCE_V2
							   : GID_TYPE_SYSFS_IB_ROCE_V1;
	return 0;
}
PRIVATE_IN_ALL_NODES(ibv_query_gid_type);

/*
 * Programs built with older or newer headers have another size of entry: what both know is
 * filled, the rest zeroed. An entry has at least a GID.
 */
static void entry_fill(void *entry, size_t entry_size, const struct hca_gid *gid, uint32_t port)
{
	const struct ibv_gid_entry full = {
		.gid = gid->gid,
		.gid_index = gid->index,
		.port_num = port,
		.gid_type = gid->type,
		.ndev_ifindex = gid->interface_index,
	};
	size_t known = entry_size < sizeof(full) ? entry_size : sizeof(full);

	memset(entry, 0, entry_size);
	memcpy(entry, &full, known);
}

static int entry_check(const char *call, const struct ibv_context *context, const void *entry,
		       uint32_t flags, size_t entry_size)
{
	if (!context || !entry)
		return refuse_null(call, context ? "entry" : "context");
	if (!flags && entry_size >= sizeof(union ibv_gid))
		return 0;
	explain("%s: flags 0x%x must be 0, entry_size %zu at least 16", call, flags,
		entry_size);
	return EINVAL;
}

int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
		      struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	CALL();
	int err = entry_check("ibv_query_gid_ex", context, entry, flags, entry_size);
	struct hca_gid gid;

	verbs_checked(.what = CHECK_LOOK, .call = "ibv_query_gid_ex");
	if (!err)
		err = hca_query_gid(to_hca(context), port, index, &gid);
	if (is_empty(err))
		return ENODATA;
	if (!err)
		entry_fill(entry, entry_size, &gid, port);
	return err;
}

ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			     size_t max_entries, uint32_t flags, size_t entry_size)
{
	CALL();
	int err = entry_check("ibv_query_gid_table", context, entries, flags, entry_size);
	struct hca_gid gid;
	uint32_t ports = err ? 0 : hca_ports(to_hca(context)), port = 1;
	size_t count = 0;

	verbs_checked(.what = CHECK_LOOK, .call = "ibv_query_gid_table");
	for (uint32_t i = 0; !err && port <= ports; i++) {
		if (i == hca_gids(to_hca(context), port)) {
			port++;
			i = UINT32_MAX;
			continue;
		}
		err = hca_query_gid(to_hca(context), port, i, &gid);
		if (is_empty(err)) {
			err = 0;
			continue;
		}
		if (!err && count == max_entries) {
			explain("ibv_query_gid_table: the table has more than max_entries %zu entries",
				max_entries);
			err = EINVAL;
		}
		if (!err)
			entry_fill((char *)entries + count++ * entry_size, entry_size, &gid, port);
	}
	if (!err)
		return (ssize_t)count;
	errno = err;
	return -err;
}
