/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections a second between two processes, by rdma_cm or by TCP: each is set up, and torn down at
 * once. By rdma_cm also how long each step takes, on either side; with several connections under
 * way that includes waiting for the others.
 *
 *	connect_rate [-T] [-p PORT] [-c COUNT]			the server, ends after COUNT
 *	connect_rate [-T] [-p PORT] [-c COUNT] [-j N] HOST	N under way at once
 *
 * -T: TCP. Either way a connection has ended when the client has the server's answer to its end.
 * Plain API: it runs on any RDMA stack.
 */
#include <getopt.h>
#include <string.h>

#include "connect.h"

void step_end(struct step *step, uint64_t *since_ns)
{
	uint64_t now = now_ns();

	if (step->taken_ns)
		step->taken_ns[step->count++] = now - *since_ns;
	*since_ns = now;
}

static int compare(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static void report_step(const struct step *step)
{
	uint64_t sum_ns = 0;

	qsort(step->taken_ns, step->count, sizeof(*step->taken_ns), compare);
	for (unsigned i = 0; i < step->count; i++)
		sum_ns += step->taken_ns[i];
	printf("step %-26s median %8.2f us  mean %8.2f us  p99 %8.2f us  max %8.2f us\n",
	       step->name, (double)step->taken_ns[step->count / 2] / 1e3,
	       (double)sum_ns / 1e3 / step->count,
	       (double)step->taken_ns[(uint64_t)step->count * 99 / 100] / 1e3,
	       (double)step->taken_ns[step->count - 1] / 1e3);
}

void report_steps(const struct step *steps, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (steps[i].count)
			report_step(&steps[i]);
}

void report_listening(void)
{
	puts("listening");
	fflush(stdout);
}

static int usage(void)
{
	fprintf(stderr, "usage: connect_rate [-T] [-p PORT] [-c COUNT] [-j INFLIGHT] [HOST]\n");
	return 2;
}

int main(int argc, char **argv)
{
	struct connect_options options = { .port = "18515", .count = 1000, .inflight = 1 };
	int option, tcp = 0;
	uint64_t begin_ns;

	while ((option = getopt(argc, argv, "Tp:c:j:")) != -1) {
		if (option == 'T')
			tcp = 1;
		else if (option == 'p')
			options.port = optarg;
		else if (option == 'c')
			options.count = (unsigned)strtoul(optarg, NULL, 10);
		else if (option == 'j')
			options.inflight = (unsigned)strtoul(optarg, NULL, 10);
		else
			return usage();
	}
	if (argc - optind > 1 || !options.count || options.count > 1000000 || !options.inflight)
		return usage();
	options.host = argv[optind];
	if (!options.host) {
		(tcp ? tcp_serve : rdma_serve)(&options);
		return 0;
	}
	begin_ns = now_ns();
	(tcp ? tcp_client : rdma_client)(&options);
	printf("connects per second %.0f\n",
	       options.count / ((double)(now_ns() - begin_ns) / 1e9));
	return 0;
}
