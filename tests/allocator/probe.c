/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * probe [served|private|channel|sysfs|exec]: what is served to a program that asks for devices
 * (served), where it should not be (private), to one that creates an event channel, to one that
 * looks at /sys/class/infiniband only at first.
 */
#include "probe.h"

#include <errno.h>
#include <infiniband/verbs.h>
#include <malloc.h>
#include <rdma/rdma_cma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int count, failed;

void report(bool good, const char *name)
{
	printf("%sok %d - %s\n", good ? "" : "not ", ++count, name);
	if (!good) {
		printf("# errno %d %s\n", errno, strerror(errno));
		failed++;
	}
	fflush(stdout);
}

/* Lines of /proc/self/maps that name a block; *@has_it: @memory lies in one of them. */
static unsigned read_maps(const void *memory, bool *has_it)
{
	FILE *file = fopen("/proc/self/maps", "r");
	unsigned blocks = 0;
	uintptr_t start, end;
	char line[512];

	*has_it = false;
	while (file && fgets(line, sizeof(line), file)) {
		if (!strstr(line, "/memfd:verbatim-block") ||
		    sscanf(line, "%lx-%lx", &start, &end) != 2)
			continue;
		blocks++;
		*has_it |= start <= (uintptr_t)memory && (uintptr_t)memory < end;
	}
	if (file)
		fclose(file);
	return blocks;
}

bool is_block(const void *memory)
{
	bool has_it;

	read_maps(memory, &has_it);
	return has_it;
}

unsigned count_blocks(void)
{
	bool has_it;

	return read_maps(NULL, &has_it);
}

void *pages(size_t bytes)
{
	void *memory;

	return posix_memalign(&memory, PAGE, bytes) ? NULL : memory;
}

bool all_are(const void *memory, size_t bytes, int byte)
{
	const uint8_t *at = memory;

	for (size_t i = 0; i < bytes; i++)
		if (at[i] != byte)
			return false;
	return true;
}

static bool ask_for_devices(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (list)
		ibv_free_device_list(list);
	return list;
}

/*
 * The calls that allocate at pages, each checked for whether it is served, and freed. Allocators of
 * others may not have pvalloc().
 */
static bool calls_are(bool served)
{
	void *made[] = {
		pages(10000), aligned_alloc(PAGE, 2 * PAGE), memalign(8 * PAGE, 5), valloc(1),
		aligned_alloc(2u << 20, 4u << 20), served ? pvalloc(PAGE + 1) : NULL,
	};
	bool good = true;

	for (unsigned i = 0; i < 5u + served; i++) {
		good &= made[i] && (uintptr_t)made[i] % PAGE == 0 && is_block(made[i]) == served;
		memset(made[i], 1, malloc_usable_size(made[i]));
		free(made[i]);
	}
	return good && !count_blocks();
}

/* In a program at a fixed address these are addresses of its own, which jump to the functions. */
static void *(*volatile allocate)(size_t bytes) = malloc;
static void *(*volatile resize)(void *memory, size_t bytes) = realloc;
static void (*volatile release)(void *memory) = free;

static void test_other_memory(void)
{
	void *made[] = { malloc(100), malloc(1u << 20), calloc(5, PAGE), memalign(2048, PAGE),
			 resize(allocate(5), PAGE), NULL };
	bool good = !posix_memalign(&made[5], 64, 1u << 20);

	for (unsigned i = 0; i < 6; i++) {
		good &= made[i] && !is_block(made[i]);
		release(made[i]);
	}
	free(NULL);
	report(good, "memory that need not begin at a page is malloc's");
}

/* Sanitizers end programs that do this. */
static void test_wrong_alignments(void)
{
	void *odd = &odd;

	report(posix_memalign(&odd, 3 * PAGE, 1) == EINVAL && odd == &odd &&
		       posix_memalign(&odd, 0, 1) == EINVAL && malloc_usable_size(NULL) == 0,
	       "wrong alignments are refused as ever");
}

static void test_served(const char *self)
{
	char *before = pages(3 * PAGE);

	report(before && !is_block(before) && calls_are(false),
	       "nothing is served before there is a question for devices");
	report(ask_for_devices(), "there is a device");
	report(calls_are(true), "page-aligned memory is blocks from then on");
	test_other_memory();
	test_wrong_alignments();
	memset(before, 7, 3 * PAGE);
	before = realloc(before, 5 * PAGE);
	report(all_are(before, 3 * PAGE, 7), "memory from before can be resized and freed");
	free(before);
	test_memory();
	test_processes(self);
	report(!count_blocks(), "no block is left");
}

static void test_private(void)
{
	report(ask_for_devices(), "there is a device");
	report(calls_are(false), "page-aligned memory is ordinary");
	test_other_memory();
}

static void test_channel(void)
{
	struct rdma_event_channel *channel;

	report(calls_are(false), "nothing is served before there is an event channel");
	channel = rdma_create_event_channel();
	report(channel && calls_are(true), "page-aligned memory is blocks from then on");
	rdma_destroy_event_channel(channel);
}

static void test_sysfs(void)
{
	report(!access("/sys/class/infiniband/vb_lo/node_guid", R_OK),
	       "there is a device in /sys/class/infiniband");
	report(calls_are(false), "to look at it is no use of RDMA");
	report(ask_for_devices() && calls_are(true), "to ask libibverbs is");
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "served";

	if (!strcmp(mode, "exec"))
		return calls_are(false) && ask_for_devices() && calls_are(true) ? 0 : 1;
	if (!strcmp(mode, "served"))
		test_served(argv[0]);
	else if (!strcmp(mode, "private"))
		test_private();
	else if (!strcmp(mode, "channel"))
		test_channel();
	else if (!strcmp(mode, "sysfs"))
		test_sysfs();
	return failed || !count;
}
