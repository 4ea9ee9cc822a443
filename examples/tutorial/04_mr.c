/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 4: a memory region names memory by a key, and says who may do what to it. */
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

static void try_rights(struct ibv_pd *pd, int access, const char *text)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof(buffer), access);

	printf("%-30s %s\n", text, mr ? "registered" : strerror(errno));
	if (mr)
		ibv_dereg_mr(mr);
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context;
	struct ibv_mr *mr, *again;
	struct ibv_pd *pd;

	must(!list || !list[0], "ibv_get_device_list");
	context = ibv_open_device(list[0]);
	must(!context, "ibv_open_device");
	ibv_free_device_list(list);
	pd = ibv_alloc_pd(context);
	must(!pd, "ibv_alloc_pd");

	mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	must(!mr, "ibv_reg_mr");
	printf("%zu bytes, lkey 0x%08x for us, rkey 0x%08x for peers\n", mr->length, mr->lkey,
	       mr->rkey);

	/* The same memory may have several keys, with other rights: one for each peer, say. */
	again = ibv_reg_mr(pd, buffer, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	must(!again, "ibv_reg_mr");
	printf("its first 64 once more, rkey 0x%08x\n", again->rkey);

	/* Who may let others write must be able to write: the first of these is refused. */
	try_rights(pd, IBV_ACCESS_REMOTE_WRITE, "REMOTE_WRITE alone:");
	try_rights(pd, IBV_ACCESS_REMOTE_READ, "REMOTE_READ alone:");
	try_rights(pd, 0, "no right (we read, to send):");

	must((errno = ibv_dereg_mr(again)) || (errno = ibv_dereg_mr(mr)), "ibv_dereg_mr");
	must((errno = ibv_dealloc_pd(pd)), "ibv_dealloc_pd");
	must(ibv_close_device(context), "ibv_close_device");
	return 0;
}
