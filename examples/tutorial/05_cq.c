/* SPDX-License-Identifier: BSD-2-Clause */
/* Step 5: a completion queue tells which requests are done. Here it is empty: nothing was asked yet. */
#include <infiniband/verbs.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
	struct ibv_comp_channel *channel;
	struct ibv_context *context;
	struct ibv_cq *cq, *quiet;
	struct ibv_wc wc[4];

	must(!list || !list[0], "ibv_get_device_list");
	context = ibv_open_device(list[0]);
	must(!context, "ibv_open_device");
	ibv_free_device_list(list);

	/* A CQ has room for so many completions; the device may give more. It must never overflow. */
	quiet = ibv_create_cq(context, 10, NULL, NULL, 0);
	must(!quiet, "ibv_create_cq");
	printf("asked for 10 entries, got %s\n", quiet->cqe >= 10 ? "at least 10" : "fewer");

	/* Polling never waits: it returns how many completions it found, or a negative number. */
	printf("completions in it: %d\n", ibv_poll_cq(quiet, 4, wc));

	/* With a channel, a program may sleep until there is something: step 9 does. */
	channel = ibv_create_comp_channel(context);
	must(!channel, "ibv_create_comp_channel");
	cq = ibv_create_cq(context, 10, NULL, channel, 0);
	must(!cq, "ibv_create_cq");
	printf("its events come through a descriptor to poll(): %s\n",
	       channel->fd >= 0 ? "yes" : "no");
	printf("destroy the channel before its CQ: %s\n", strerror(ibv_destroy_comp_channel(channel)));

	must((errno = ibv_destroy_cq(cq)), "ibv_destroy_cq");
	must((errno = ibv_destroy_cq(quiet)), "ibv_destroy_cq");
	must((errno = ibv_destroy_comp_channel(channel)), "ibv_destroy_comp_channel");
	must(ibv_close_device(context), "ibv_close_device");
	return 0;
}
