/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Worlds by seed: everything about them (services, sizes, rates, delays, processors, what the
 * peers do to each other) is drawn from the seed, so a seed is a whole story and replays it.
 *
 *	sim			the seeds of seeds.txt and as many more as is usual
 *	sim SEED		one seed, told in full, packet by packet
 *	sim FROM COUNT		COUNT seeds from FROM on
 *
 * TEST_LONG in the environment runs more of them.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "story.h"

#ifdef SIM_SANITIZED
#define SEEDS_USUAL	60u
#define SEEDS_LONG	5000u
#else
#define SEEDS_USUAL	1200u
#define SEEDS_LONG	20000u
#endif
#define FAILURES_MAX	5u

static bool run_seed(uint64_t seed, bool verbose)
{
	struct story *story = story_create(seed, verbose);
	bool ok = story_run(story);

	if (!ok)
		printf("FAIL: %s\n  sim %" PRIu64 "\t(%s)\n", story_failure(story), seed,
		       story_summary(story));
	else if (verbose)
		printf("ok: %s\n", story_summary(story));
	story_destroy(story);
	return ok;
}

static unsigned run_range(uint64_t from, uint64_t count)
{
	unsigned failures = 0;
	uint64_t i;

	for (i = 0; i < count && failures < FAILURES_MAX; i++)
		failures += !run_seed(from + i, false);
	return failures;
}

/* Lines of "SEED story"; # begins a comment. */
static unsigned run_file(const char *path, unsigned *count)
{
	FILE *file = fopen(path, "r");
	unsigned failures = 0;
	char line[512];

	if (!file) {
		printf("FAIL: %s: %m\n", path);
		return 1;
	}
	*count = 0;
	while (fgets(line, sizeof(line), file)) {
		if (line[0] == '#' || line[0] == '\n')
			continue;
		failures += !run_seed(strtoull(line, NULL, 0), false);
		++*count;
	}
	fclose(file);
	return failures;
}

static void report(unsigned number, unsigned failures, const char *what, uint64_t count)
{
	printf("%sok %u - %s (%" PRIu64 " seeds)\n", failures ? "not " : "", number, what, count);
}

static int run_all(void)
{
	uint64_t count = getenv("TEST_LONG") ? SEEDS_LONG : SEEDS_USUAL;
	unsigned known = 0, failures, more;

	failures = run_file(SEEDS_FILE, &known);
	report(1, failures, "seeds that once failed pass", known);
	more = run_range(1, count);
	report(2, more, "random worlds end as they must", count);
	printf("1..2\n");
	return failures || more;
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 1)
		return run_all();
	if (argc == 3)
		return run_range(strtoull(argv[1], NULL, 0), strtoull(argv[2], NULL, 0)) != 0;
	explain_enabled = true;
	return !run_seed(strtoull(argv[1], NULL, 0), true);
}
