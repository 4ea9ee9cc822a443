/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * tutorial-pictures STEP TRACE: a program of the tutorial in the simulated world, and what happened as
 * a trace, the same to the byte on each machine. `make pictures` draws it. A program that is two
 * processes runs on two hosts: its main() on both, where fork() says which one it is.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/program/program.h"
#include "sim/program/record.h"
#include "sim/program/verbs.h"
#include "tutorial/program.h"

#undef printf
#undef free
#undef exit

enum { SEED = 1, WIRE_NS = 4000, PACKET_NS = 400, BYTE_PS = 80, PIPE_BYTES = 64, LINGER_US = 1000 };
/* A line on a terminal. Whoever looks at memory after one finds what was on its way before. */
enum { PRINT_US = 20 };

#define STEP(name, processes) int tutorial_##name(void);
#include "tutorial/step.def"
#undef STEP

static const struct step {
	const char *name;
	unsigned processes;
	int (*run)(void);
} steps[] = {
#define STEP(name, processes) { #name, processes, tutorial_##name },
#include "tutorial/step.def"
#undef STEP
};

/* Of the one program that runs. */
static struct {
	const struct step *step;
	struct sim_program *process[2];
	uint8_t pipe[PIPE_BYTES];
	size_t piped;
} tutorial;

/* ---- what programs ask of the system ---- */

static void tutorial_pause(unsigned us)
{
	sim_spend(us * 1000ull);
}

int tutorial_printf(const char *format, ...)
{
	tutorial_pause(PRINT_US);
	return 0;
}

void *tutorial_aligned_alloc(size_t alignment, size_t bytes)
{
	return sim_memory(bytes);
}

void tutorial_free(void *memory)
{
}

void tutorial_exit(int status)
{
	if (status)
		sim_fail(sim_here()->sim, "%s ends with status %d", tutorial.step->name, status);
	tutorial_pause(LINGER_US);
	sim_record_process(sim_here(), "end");
	sim_exit(status);
}

int tutorial_usleep(unsigned us)
{
	tutorial_pause(us);
	return 0;
}

struct thread {
	void *(*run)(void *argument);
	void *argument;
	struct sim_program *program;
};

static int tutorial_thread(void *argument)
{
	struct thread *thread = argument;

	thread->run(thread->argument);
	return 0;
}

int tutorial_pthread_create(pthread_t *made, const pthread_attr_t *attr, void *(*run)(void *), void *argument)
{
	struct thread *thread = sim_memory(sizeof(*thread));

	*thread = (struct thread){ .run = run, .argument = argument };
	thread->program = sim_program_start(sim_here(), tutorial_thread, thread);
	*made = (pthread_t)thread;
	return 0;
}

int tutorial_pthread_join(pthread_t thread, void **result)
{
	while (!sim_program_ended(((struct thread *)thread)->program))
		sim_wait();
	return 0;
}

int tutorial_fork(void)
{
	return sim_program_self() == tutorial.process[0];
}

int tutorial_pipe(int ends[2])
{
	ends[0] = 100;
	ends[1] = 101;
	return 0;
}

ssize_t tutorial_read(int fd, void *data, size_t bytes)
{
	while (tutorial.piped < bytes)
		sim_wait();
	memcpy(data, tutorial.pipe, bytes);
	tutorial.piped -= bytes;
	memmove(tutorial.pipe, tutorial.pipe + bytes, tutorial.piped);
	return (ssize_t)bytes;
}

ssize_t tutorial_write(int fd, const void *data, size_t bytes)
{
	if (bytes > sizeof(tutorial.pipe) - tutorial.piped)
		return -1;
	memcpy(tutorial.pipe + tutorial.piped, data, bytes);
	tutorial.piped += bytes;
	sim_happened();
	return (ssize_t)bytes;
}

int tutorial_wait(int *status)
{
	while (!sim_program_ended(tutorial.process[1]))
		sim_wait();
	*status = 0;
	return 0;
}

/* ---- a run ---- */

static int tutorial_main(void *argument)
{
	sim_record_process(sim_here(), "start");
	tutorial_exit(tutorial.step->run());
}

static struct sim_host *tutorial_host(struct sim *sim)
{
	struct sim_host *host = host_create(sim);

	host->rates.delay_ns = WIRE_NS;
	host->tx_packet_ns = host->rx_packet_ns = PACKET_NS;
	host->tx_byte_ps = host->rx_byte_ps = BYTE_PS;
	host->wake_ns = PACKET_NS;
	host->serial = host->deaf = true;
	host->transport.recoveries = NULL;	/* the specification's way to repair a loss */
	return host;
}

static bool tutorial_run(const struct step *step, FILE *out)
{
	const char *names[SIM_HOSTS_MAX] = { step->processes > 1 ? "client" : step->name, "server" };
	struct sim *sim = sim_create(SEED);
	bool good;

	tutorial.step = step;
	sim_record_begin(sim, names);
	for (unsigned i = 0; i < step->processes; i++)
		tutorial.process[i] = sim_program_start(tutorial_host(sim), tutorial_main, NULL);
	good = sim_programs_run(sim);
	if (!good)
		fprintf(stderr, "tutorial-pictures: %s: %s\n", step->name, sim->failure);
	good = good && sim_record_write(out);
	sim_record_end();
	for (unsigned i = 0; i < sim->host_count; i++)
		sim_process_free(sim->host[i]);
	sim_destroy(sim);
	sim_programs_free(sim);
	return good;
}

int main(int argc, char **argv)
{
	FILE *out;

	for (size_t i = 0; argc == 3 && i < sizeof(steps) / sizeof(*steps); i++) {
		if (strcmp(steps[i].name, argv[1]))
			continue;
		out = fopen(argv[2], "we");
		if (!out || !tutorial_run(&steps[i], out) || fclose(out)) {
			fprintf(stderr, "tutorial-pictures: %s: no trace in %s\n", argv[1], argv[2]);
			return 1;
		}
		return 0;
	}
	fprintf(stderr, "usage: tutorial-pictures STEP TRACE\n");
	return 2;
}
