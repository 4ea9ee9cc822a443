/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 1: which RDMA devices does this machine have? Nothing is opened yet. */
#include <endian.h>
#include <infiniband/verbs.h>
#include <stdio.h>

int main(void)
{
	int count;
	struct ibv_device **list = ibv_get_device_list(&count);

	if (!list) {
		perror("ibv_get_device_list");
		return 1;
	}
	printf("%d devices\n", count);
	for (int i = 0; i < count; i++)
		printf("%d: %s, node GUID %016llx, %s\n", i, ibv_get_device_name(list[i]),
		       (unsigned long long)be64toh(ibv_get_device_guid(list[i])),
		       ibv_node_type_str(list[i]->node_type));

	/* The list holds references. A device that was opened meanwhile stays valid without it. */
	ibv_free_device_list(list);
	return count ? 0 : 1;
}
