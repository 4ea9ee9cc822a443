/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What page-aligned memory costs that peers may map, beside ordinary memory:
 *
 *	verbatim run allocate_blocks [SECONDS]
 *
 * Each row is measured before the program asks for devices, and after: then posix_memalign() is served by
 * blocks. SECONDS (default 0.2) go into each figure.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PAGE		4096u
#define FORK_BYTES	((size_t)64 << 20)

struct row {
	const char *what;
	size_t bytes;
	double (*once)(size_t bytes);		/* seconds */
	double before_s, after_s;
};

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static char *pages(size_t bytes)
{
	void *memory;

	if (!posix_memalign(&memory, PAGE, bytes))
		return memory;
	perror("posix_memalign");
	exit(1);
}

static double one_page_touched(size_t bytes)
{
	double begin = now_s();
	char *memory = pages(bytes);

	*(volatile char *)memory = 1;
	free(memory);
	return now_s() - begin;
}

static double all_touched(size_t bytes)
{
	double begin = now_s();
	char *memory = pages(bytes);

	for (size_t at = 0; at < bytes; at += PAGE)
		((volatile char *)memory)[at] = 1;
	free(memory);
	return now_s() - begin;
}

/* Memory that is never served: what standing in front of free() costs. A thousand, for the clock's sake. */
static double small(size_t bytes)
{
	double begin = now_s();

	for (unsigned i = 0; i < 1000; i++) {
		char *volatile memory = malloc(bytes);

		free(memory);
	}
	return (now_s() - begin) / 1000;
}

/* fork() with @bytes of memory in pieces of 1 MiB, all touched; the child ends at once. */
static double forked(size_t bytes)
{
	char *memory[FORK_BYTES >> 20];
	double begin, took;
	pid_t pid;

	for (size_t i = 0; i < bytes >> 20; i++) {
		memory[i] = pages(1u << 20);
		memset(memory[i], 1, 1u << 20);
	}
	begin = now_s();
	pid = fork();
	if (!pid)
		_exit(0);
	took = now_s() - begin;
	waitpid(pid, NULL, 0);
	for (size_t i = 0; i < bytes >> 20; i++)
		free(memory[i]);
	return took;
}

static double median(struct row *row, double seconds)
{
	static double took[100001];
	double end = now_s() + seconds;
	unsigned count = 0;

	do
		took[count++] = row->once(row->bytes);
	while (now_s() < end && count < 100001);
	for (unsigned gap = count / 2; gap; gap /= 2)
		for (unsigned i = gap; i < count; i++)
			for (unsigned j = i; j >= gap && took[j - gap] > took[j]; j -= gap) {
				double swap = took[j];

				took[j] = took[j - gap];
				took[j - gap] = swap;
			}
	return took[count / 2];
}

int main(int argc, char **argv)
{
	struct row rows[] = {
		{ "posix_memalign, 1 page touched, free", 4u << 10, one_page_touched, 0, 0 },
		{ "posix_memalign, 1 page touched, free", 1u << 20, one_page_touched, 0, 0 },
		{ "posix_memalign, all touched, free", 64u << 10, all_touched, 0, 0 },
		{ "posix_memalign, all touched, free", 1u << 20, all_touched, 0, 0 },
		{ "posix_memalign, all touched, free", 64u << 20, all_touched, 0, 0 },
		{ "malloc, free", 64, small, 0, 0 },
		{ "fork with that many bytes in pieces of 1 MiB", FORK_BYTES, forked, 0, 0 },
	};
	unsigned count = sizeof(rows) / sizeof(rows[0]);
	double seconds = argc > 1 ? atof(argv[1]) : 0.2;
	struct ibv_device **list;

	for (unsigned i = 0; i < count; i++)
		rows[i].before_s = median(&rows[i], seconds);
	list = ibv_get_device_list(NULL);
	if (!list) {
		perror("ibv_get_device_list");
		return 1;
	}
	ibv_free_device_list(list);
	for (unsigned i = 0; i < count; i++)
		rows[i].after_s = median(&rows[i], seconds);
	printf("%-40s %10s %12s %12s %7s\n", "median, us", "bytes", "ordinary", "blocks", "ratio");
	for (unsigned i = 0; i < count; i++)
		printf("%-40s %10zu %12.3f %12.3f %7.2f\n", rows[i].what, rows[i].bytes,
		       rows[i].before_s * 1e6, rows[i].after_s * 1e6,
		       rows[i].after_s / rows[i].before_s);
	return 0;
}
