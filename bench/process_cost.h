/* SPDX-License-Identifier: BSD-2-Clause */
/* What this process costs: memory, and time of processors. */
#ifndef VERBATIM_BENCH_PROCESS_COST_H
#define VERBATIM_BENCH_PROCESS_COST_H

#include <stdio.h>
#include <sys/resource.h>

/* Resident memory, shared mappings included, in bytes. */
static inline long resident(void)
{
	FILE *file = fopen("/proc/self/status", "r");
	char line[128];
	long kib = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "VmRSS: %ld kB", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib * 1024;
}

static inline double cpu_seconds(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
	       (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
}

#endif
