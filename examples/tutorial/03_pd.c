/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 3: a protection domain is the fence around what may be used together. */
#include <infiniband/verbs.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char buffer[4096];

static void must(int failed, const char *what)
{
	if (failed) {
		perror(what);
		exit(1);
	}
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_pd *mine, *theirs;
	struct ibv_mr *mr;
	int err;

	must(!list || !list[0], "ibv_get_device_list");
	context = ibv_open_device(list[0]);
	must(!context, "ibv_open_device");
	ibv_free_device_list(list);

	/* Regions, queue pairs and address handles are made in a domain and work inside it only. */
	mine = ibv_alloc_pd(context);
	theirs = ibv_alloc_pd(context);
	must(!mine || !theirs, "ibv_alloc_pd");
	mr = ibv_reg_mr(mine, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	must(!mr, "ibv_reg_mr");
	printf("the region is of our domain: %s\n", mr->pd == mine ? "yes" : "no");

	/* Verbs return 0 or an errno. A domain cannot go before what was made in it. */
	err = ibv_dealloc_pd(mine);
	printf("deallocate the domain with a region in it: %s\n", strerror(err));
	err = ibv_dealloc_pd(theirs);
	printf("deallocate the empty one: %s\n", strerror(err));

	must((errno = ibv_dereg_mr(mr)), "ibv_dereg_mr");
	must((errno = ibv_dealloc_pd(mine)), "ibv_dealloc_pd");
	printf("the region first, then the domain: Success\n");
	must(ibv_close_device(context), "ibv_close_device");
	return 0;
}
