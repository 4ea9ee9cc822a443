/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What registering memory and deregistering it costs a program, beside what getting such memory from
 * the system costs: mmap(), a write to each page, munmap(). Interleaved; medians.
 *
 *	register_regions [-s BYTES] [-t SECONDS] [-m MAPPINGS]
 *
 * The memory is in use, and the region has all remote rights, so that peers may map it. -m: the
 * process has so many mappings more, as large programs do.
 */
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS_MAX	100000u
#define ROUNDS_MIN	5u
#define PAGE		4096u
#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
		IBV_ACCESS_REMOTE_ATOMIC)

static double registered_ns[ROUNDS_MAX], mapped_ns[ROUNDS_MAX];

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static char *new_memory(size_t bytes)
{
	char *made = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	size_t at;

	if (made == MAP_FAILED)
		die("mmap");
	for (at = 0; at < bytes; at += PAGE)
		((volatile char *)made)[at] = 1;
	return made;
}

static struct ibv_pd *open_pd(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *context = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = context ? ibv_alloc_pd(context) : NULL;

	if (!pd)
		die("device");
	ibv_free_device_list(list);
	return pd;
}

/* Of one page each, and of alternating rights, so that the kernel joins none. */
static void make_mappings(unsigned long count)
{
	unsigned long i;

	for (i = 0; i < count; i++)
		if (mmap(NULL, PAGE, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
			die("mmap");
}

static double register_once(struct ibv_pd *pd, char *memory, size_t bytes)
{
	double begin_ns = now_ns();
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, bytes, RIGHTS);

	if (!mr || ibv_dereg_mr(mr))
		die("ibv_reg_mr");
	return now_ns() - begin_ns;
}

static double map_once(size_t bytes)
{
	double begin_ns = now_ns();

	munmap(new_memory(bytes), bytes);
	return now_ns() - begin_ns;
}

static int compare(const void *a, const void *b)
{
	const double *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

static double median_us(double *taken_ns, unsigned rounds)
{
	qsort(taken_ns, rounds, sizeof(*taken_ns), compare);
	return taken_ns[rounds / 2] / 1e3;
}

int main(int argc, char **argv)
{
	unsigned long bytes = PAGE, mappings = 0;
	double seconds = 0.3, end_ns;
	struct ibv_pd *pd;
	unsigned rounds;
	char *memory;
	int option;

	while ((option = getopt(argc, argv, "s:t:m:")) != -1) {
		if (option == 's')
			bytes = strtoul(optarg, NULL, 10);
		else if (option == 't')
			seconds = strtod(optarg, NULL);
		else if (option == 'm')
			mappings = strtoul(optarg, NULL, 10);
		else
			return 2;
	}
	if (!bytes || bytes > 1ul << 30 || !(seconds >= 0 && seconds <= 60) || mappings > 50000)
		return 2;
	make_mappings(mappings);
	pd = open_pd();
	memory = new_memory(bytes);
	end_ns = now_ns() + seconds * 1e9;
	for (rounds = 0; rounds < ROUNDS_MAX && (rounds < ROUNDS_MIN || now_ns() < end_ns); rounds++) {
		registered_ns[rounds] = register_once(pd, memory, bytes);
		mapped_ns[rounds] = map_once(bytes);
	}
	printf("register and deregister: median %.2f us, mmap, touch and munmap: median %.2f us\n",
	       median_us(registered_ns, rounds), median_us(mapped_ns, rounds));
	return 0;
}
