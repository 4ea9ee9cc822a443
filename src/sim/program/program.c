/* SPDX-License-Identifier: BSD-2-Clause */
/* Programs: stacks, and who runs (program.h). Each resumption is an event of the world. */
#include "sim/program/program.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <ucontext.h>

#define STACK_BYTES	(512u << 10)
/* Free in all address spaces of 39 bits and more, and far from where programs are loaded. */
#define MEMORY_AT	0x2000000000ull
#define MEMORY_BYTES	(16u << 20)
#define MEMORY_ALIGN	4096u
#define WAKE_NS		100	/* until one that waits has noticed */

struct sim_program {
	struct sim_host *host;
	int (*run)(void *argument);
	void *argument;
	ucontext_t own, world;
	void *stack;
	bool ended, waits;
	int status;
};

static struct {
	uint8_t *memory;		/* NULL: not mapped yet */
	size_t memory_used;
	struct sim_program *program[SIM_PROGRAMS_MAX], *current;
	unsigned count;
	bool resumed;			/* the last event of the world was that one of them went on */
} programs;

static void program_yield(void)
{
	swapcontext(&programs.current->own, &programs.current->world);
}

static void program_begin(void)
{
	struct sim_program *program = programs.current;

	sim_exit(program->run(program->argument));
}

static void program_resume(struct sim *sim, void *argument)
{
	struct sim_program *program = argument;

	program->waits = false;
	sim->running = program->host;
	programs.current = program;
	programs.resumed = true;
	swapcontext(&program->world, &program->own);
	programs.current = NULL;
}

/* After each event: those that wait look whether it was theirs. */
static void program_notice(struct sim *sim, void *argument)
{
	bool resumed = programs.resumed;

	programs.resumed = false;
	if (resumed)
		return;
	for (unsigned i = 0; i < programs.count; i++) {
		struct sim_program *program = programs.program[i];

		if (!program->waits)
			continue;
		program->waits = false;
		sim_call_at(sim, sim->now_ns + WAKE_NS, program_resume, program);
	}
}

struct sim_program *sim_program_start(struct sim_host *host, int (*run)(void *argument), void *argument)
{
	struct sim_program *program = calloc(1, sizeof(*program));

	if (!program || programs.count == SIM_PROGRAMS_MAX || getcontext(&program->own))
		abort();
	program->stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (program->stack == MAP_FAILED)
		abort();
	program->host = host;
	program->run = run;
	program->argument = argument;
	program->own.uc_stack.ss_sp = program->stack;
	program->own.uc_stack.ss_size = STACK_BYTES;
	makecontext(&program->own, program_begin, 0);
	programs.program[programs.count++] = program;
	host->sim->application = program_notice;
	sim_call_at(host->sim, host->sim->now_ns, program_resume, program);
	return program;
}

bool sim_programs_run(struct sim *sim)
{
	if (!sim_run(sim, TIME_NEVER))
		return false;
	for (unsigned i = 0; i < programs.count; i++)
		if (!programs.program[i]->ended) {
			sim_fail(sim, "a program waits, and nothing will happen");
			return false;
		}
	return true;
}

void sim_programs_free(struct sim *sim)
{
	for (unsigned i = 0; i < programs.count; i++) {
		munmap(programs.program[i]->stack, STACK_BYTES);
		free(programs.program[i]);
	}
	programs.count = 0;
	if (programs.memory)
		munmap(programs.memory, MEMORY_BYTES);
	programs.memory = NULL;
	programs.memory_used = 0;
	sim->application = NULL;
}

int sim_program_status(const struct sim_program *program)
{
	return program->status;
}

bool sim_program_ended(const struct sim_program *program)
{
	return program->ended;
}

struct sim_host *sim_here(void)
{
	return programs.current->host;
}

struct sim_program *sim_program_self(void)
{
	return programs.current;
}

void *sim_memory(size_t bytes)
{
	void *memory;

	if (!programs.memory) {
		programs.memory = mmap((void *)MEMORY_AT, MEMORY_BYTES, PROT_READ | PROT_WRITE,
				       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
		if (programs.memory != (void *)MEMORY_AT)
			abort();
	}
	memory = programs.memory + programs.memory_used;
	programs.memory_used += (bytes + MEMORY_ALIGN - 1) & ~(size_t)(MEMORY_ALIGN - 1);
	if (programs.memory_used > MEMORY_BYTES)
		abort();
	return memory;
}

void sim_spend(uint64_t ns)
{
	struct sim *sim = sim_here()->sim;

	sim_call_at(sim, sim->now_ns + ns, program_resume, programs.current);
	program_yield();
}

void sim_wait(void)
{
	programs.current->waits = true;
	program_yield();
}

void sim_happened(void)
{
	programs.resumed = false;
}

void sim_exit(int status)
{
	struct sim_program *program = programs.current;
	bool all = true;

	program->status = status;
	program->ended = true;
	sim_happened();
	for (unsigned i = 0; i < programs.count; i++)
		all = all && programs.program[i]->ended;
	program->host->sim->stopped = all;
	program_yield();
	abort();
}
