/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The simulated matrix: message size x loss x delay -> goodput and packets sent per packet
 * needed, in virtual time. It depends on the code alone, not on the machine, so a snapshot is
 * checked in (bench/results/sim-matrix.txt) and a change of the transport shows as a difference.
 *
 *	sim_matrix			prints the table
 *	sim_matrix --check FILE		compares with a snapshot: goodput within 20 %, packets
 *					within 10 %, the tolerance for changes that are no regression
 *	sim_matrix --loss SEEDS		goodput of WRITEs of 64 KiB without loss and with 1 %, for
 *					each seed: a line of bench/run --goals
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "measure.h"

#define SEEDS		3u
#define BYTES_PER_RUN	(8u << 20)
#define MESSAGES_MAX	400u
#define GOODPUT_OFF_MAX	0.20
#define RATIO_OFF_MAX	0.10
#define LOSS_BYTES	65536u
#define LOSS_PPM	10000u
#define LOSS_SEEDS_MAX	100

static const uint32_t sizes[] = { 64, 1024, 4096, 65536, 1u << 20 };
static const uint32_t losses[] = { 0, 1000, 10000, 50000 };
static const uint64_t delays_ns[] = { 3 * US, 50 * US, MS };

struct cell {
	enum ibv_wr_opcode opcode;
	uint32_t bytes, loss;
	uint64_t delay_ns;
	double goodput_gbps, ratio;
};

static const char *opcode_text(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_RDMA_READ ? "read" : "write";
}

/* False, and told on stderr: the simulation did not end well. */
static bool run_cell(const struct cell *cell, uint64_t seed, struct measure_result *result)
{
	struct measure_options options = {
		.opcode = cell->opcode, .message_bytes = cell->bytes, .depth = 16, .qps = 1,
		.mtu = IBV_MTU_4096, .loss = cell->loss, .delay_ns = cell->delay_ns, .seed = seed,
		.socket_bytes = 425984,
		.messages = BYTES_PER_RUN / cell->bytes < MESSAGES_MAX ?
			    BYTES_PER_RUN / cell->bytes : MESSAGES_MAX };

	*result = measure(&options);
	if (!result->ok)
		fprintf(stderr, "%s of %u bytes, loss %u ppm, delay %llu ns, seed %llu: %s\n",
			opcode_text(cell->opcode), cell->bytes, cell->loss,
			(unsigned long long)cell->delay_ns, (unsigned long long)seed,
			result->failure);
	return result->ok;
}

static bool fill_cell(struct cell *cell)
{
	struct measure_result result;
	uint64_t seed;

	cell->goodput_gbps = cell->ratio = 0;
	for (seed = 1; seed <= SEEDS; seed++) {
		if (!run_cell(cell, seed, &result))
			return false;
		cell->goodput_gbps += result.goodput_gbps / SEEDS;
		cell->ratio += result.ratio / SEEDS;
	}
	return true;
}

static bool is_same_cell(const struct cell *a, const struct cell *b)
{
	return a->opcode == b->opcode && a->bytes == b->bytes && a->loss == b->loss &&
	       a->delay_ns == b->delay_ns;
}

static bool agrees(const struct cell *now, const struct cell *then)
{
	if (fabs(now->goodput_gbps - then->goodput_gbps) <= GOODPUT_OFF_MAX * then->goodput_gbps &&
	    fabs(now->ratio - then->ratio) <= RATIO_OFF_MAX * then->ratio)
		return true;
	printf("# %s of %u bytes, loss %u ppm, delay %llu ns: %.3f Gb/s, %.3f packets; the snapshot "
	       "has %.3f Gb/s, %.3f packets\n", opcode_text(now->opcode), now->bytes, now->loss,
	       (unsigned long long)now->delay_ns, now->goodput_gbps, now->ratio,
	       then->goodput_gbps, then->ratio);
	return false;
}

static bool find_in(FILE *snapshot, const struct cell *now)
{
	char line[160], opcode[8];
	struct cell then;
	double delay_us, loss;

	rewind(snapshot);
	while (fgets(line, sizeof(line), snapshot)) {
		if (sscanf(line, "%7s %u %lf %lf %lf %lf", opcode, &then.bytes, &loss, &delay_us,
			   &then.goodput_gbps, &then.ratio) != 6)
			continue;
		then.opcode = strcmp(opcode, "read") ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
		then.loss = (uint32_t)lround(loss * MILLION / 100);
		then.delay_ns = (uint64_t)llround(delay_us * US);
		if (is_same_cell(&then, now))
			return agrees(now, &then);
	}
	printf("# the snapshot has no line for %s of %u bytes, loss %u ppm, delay %llu ns\n",
	       opcode_text(now->opcode), now->bytes, now->loss, (unsigned long long)now->delay_ns);
	return false;
}

static void print_cell(const struct cell *cell)
{
	printf("%-6s %8u %8.2f %8.0f %12.5f %10.3f\n", opcode_text(cell->opcode), cell->bytes,
	       (double)cell->loss * 100 / MILLION, (double)cell->delay_ns / US,
	       cell->goodput_gbps, cell->ratio);
}

static void print_head(void)
{
	printf("# Simulated matrix (bench/sim_matrix.c): one RC QP, 16 requests deep, MTU 4096,\n"
	       "# 416 KiB socket buffer, mean of %u seeds; loss in either direction, delay one way.\n"
	       "# Virtual time: the same on every machine.\n"
	       "# verb     bytes   loss %% delay us goodput Gb/s packets sent/needed\n", SEEDS);
}

static bool do_cell(struct cell *cell, FILE *snapshot)
{
	if (!fill_cell(cell))
		return false;
	if (snapshot)
		return find_in(snapshot, cell);
	print_cell(cell);
	return true;
}

static unsigned do_all(FILE *snapshot)
{
	static const enum ibv_wr_opcode opcodes[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };
	unsigned wrong = 0, o, s, l, d;

	for (o = 0; o < 2; o++)
		for (s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
			for (l = 0; l < sizeof(losses) / sizeof(losses[0]); l++)
				for (d = 0; d < sizeof(delays_ns) / sizeof(delays_ns[0]); d++) {
					struct cell cell = { .opcode = opcodes[o], .bytes = sizes[s],
							     .loss = losses[l],
							     .delay_ns = delays_ns[d] };

					wrong += !do_cell(&cell, snapshot);
				}
	return wrong;
}

static int print_losses(uint64_t seeds)
{
	struct cell none = { .opcode = IBV_WR_RDMA_WRITE, .bytes = LOSS_BYTES }, lost;
	struct measure_result without, with;
	uint64_t seed;
	size_t d;

	for (d = 0; d < sizeof(delays_ns) / sizeof(delays_ns[0]); d++) {
		none.delay_ns = delays_ns[d];
		lost = none;
		lost.loss = LOSS_PPM;
		for (seed = 1; seed <= seeds; seed++) {
			if (!run_cell(&none, seed, &without) || !run_cell(&lost, seed, &with))
				return 1;
			printf("delay %.0f us seed %llu none %.5f lost %.5f\n",
			       (double)none.delay_ns / US, (unsigned long long)seed,
			       without.goodput_gbps, with.goodput_gbps);
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	FILE *snapshot = NULL;
	unsigned wrong;

	if (argc == 3 && !strcmp(argv[1], "--check")) {
		snapshot = fopen(argv[2], "r");
		if (!snapshot) {
			fprintf(stderr, "%s: %m\n", argv[2]);
			return 2;
		}
	} else if (argc == 3 && !strcmp(argv[1], "--loss") && atoi(argv[2]) > 0 &&
		   atoi(argv[2]) <= LOSS_SEEDS_MAX) {
		return print_losses((uint64_t)atoi(argv[2]));
	} else if (argc != 1) {
		fprintf(stderr, "usage: sim_matrix [--check FILE | --loss SEEDS]\n");
		return 2;
	} else {
		print_head();
	}
	wrong = do_all(snapshot);
	if (!snapshot)
		return wrong != 0;
	fclose(snapshot);
	printf("%sok 1 - the simulated matrix agrees with its snapshot\n1..1\n", wrong ? "not " : "");
	if (wrong)
		printf("# to accept the change: sim_matrix > bench/results/sim-matrix.txt\n");
	return wrong != 0;
}
