/* SPDX-License-Identifier: BSD-2-Clause */
/* What the two halves of connect_rate share: the options, and how long each step took. */
#ifndef VERBATIM_BENCH_CONNECT_H
#define VERBATIM_BENCH_CONNECT_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct connect_options {
	const char *host, *port;	/* host NULL: the server */
	unsigned count;			/* connections, after which both sides end */
	unsigned inflight;		/* that the client has under way at once */
};

/* One step of a connection: how long it took, each time. */
struct step {
	const char *name;
	uint64_t *taken_ns;
	unsigned count;
};

static inline uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static inline void must(int failed, const char *what)
{
	if (failed) {
		fprintf(stderr, "connect_rate: %s: %m\n", what);
		exit(1);
	}
}

/* The step that began at *@since_ns ends now, and the next one begins. */
void step_end(struct step *step, uint64_t *since_ns);

void rdma_serve(const struct connect_options *options);
void rdma_client(const struct connect_options *options);
void tcp_serve(const struct connect_options *options);
void tcp_client(const struct connect_options *options);

/* Both print a line for each of @steps, and say "listening" before they wait. */
void report_steps(const struct step *steps, unsigned count);
void report_listening(void);

#endif
