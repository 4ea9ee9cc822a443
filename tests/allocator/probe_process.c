/* SPDX-License-Identifier: BSD-2-Clause */
/* Processes with blocks: children, programs that they start, descriptors, threads. */
#include "probe.h"

#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define THREADS		8
#define EACH		64
#define SHARED		256
#define STRESS_S	2

extern char **environ;

static bool ended_well(pid_t pid)
{
	int status;

	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
	       !WEXITSTATUS(status);
}

static bool child_has_its_own(char *memory)
{
	int turn[2];
	bool good;
	pid_t pid;

	if (pipe(turn))
		return false;
	memset(memory, 1, 9 * PAGE);
	pid = fork();
	if (!pid) {
		good = read(turn[0], &(char){ 0 }, 1) == 1 && all_are(memory, 9 * PAGE, 1) &&
		       !is_block(memory);
		memset(memory, 2, 9 * PAGE);
		free(memory);
		memory = pages(PAGE);
		good &= is_block(memory);
		free(memory);
		_exit(!good);
	}
	memset(memory, 3, 9 * PAGE);
	good = write(turn[1], "x", 1) == 1;
	close(turn[0]);
	close(turn[1]);
	return ended_well(pid) && good && all_are(memory, 9 * PAGE, 3);
}

static void test_children(const char *self)
{
	char *memory = pages(9 * PAGE), program[] = "true", mode[] = "exec";
	char *nothing[] = { program, NULL }, *again[] = { (char *)self, mode, NULL };
	pid_t pid;

	report(child_has_its_own(memory), "a child of fork() has a copy, and blocks of its own");
	report(!posix_spawnp(&pid, program, NULL, NULL, nothing, environ) && ended_well(pid) &&
	       all_are(memory, 9 * PAGE, 3), "posix_spawn() works");
	report(!system("exit 0"), "system() works");
	pid = vfork();
	if (!pid) {
		execv(self, again);
		_exit(127);
	}
	report(ended_well(pid), "a program that is executed begins anew");
	free(memory);
}

static void test_descriptors(void)
{
	int lowest = dup(0), next;
	char *memory = pages(9 * PAGE), *later;

	close(lowest);
	next = dup(0);
	close(next);
	report(next == lowest, "low descriptors are the program's");
	memset(memory, 4, 9 * PAGE);
	closefrom(3);
	report(all_are(memory, 9 * PAGE, 4) && child_has_its_own(memory),
	       "closefrom() does no harm");
	free(memory);
	later = pages(PAGE);
	report(is_block(later), "and blocks can be had after it");
	free(later);
}

static struct {
	pthread_mutex_t lock;
	char *memory;
	size_t bytes;
} shared[SHARED];
static _Atomic bool stop;

/* Three bytes of each piece say whether it is whose it should be. */
static void mark(char *memory, size_t bytes, char byte)
{
	memory[0] = memory[bytes / 2] = memory[bytes - 1] = byte;
}

static bool is_marked(const char *memory, size_t bytes)
{
	return memory[0] == memory[bytes / 2] && memory[0] == memory[bytes - 1];
}

static char *allocate(unsigned *seed, size_t bytes)
{
	void *memory;

	if (rand_r(seed) % 3)
		return posix_memalign(&memory, PAGE << rand_r(seed) % 3, bytes) ? NULL : memory;
	return rand_r(seed) % 2 ? malloc(bytes) : calloc(1, bytes);
}

static char *exchange(unsigned i, char *memory, size_t *bytes)
{
	char *old;
	size_t old_bytes;

	pthread_mutex_lock(&shared[i].lock);
	old = shared[i].memory;
	old_bytes = shared[i].bytes;
	shared[i].memory = memory;
	shared[i].bytes = *bytes;
	pthread_mutex_unlock(&shared[i].lock);
	*bytes = old_bytes;
	return old;
}

static void *stress(void *argument)
{
	unsigned seed = (unsigned)(uintptr_t)argument;
	char *memory[EACH] = { NULL };
	size_t bytes[EACH] = { 0 };
	uintptr_t bad = 0;

	while (!atomic_load(&stop)) {
		unsigned i = (unsigned)rand_r(&seed) % EACH, action = (unsigned)rand_r(&seed) % 5;
		size_t size = 1 + (unsigned)rand_r(&seed) % (rand_r(&seed) % 16 ? 20000 : 400000);

		bad += memory[i] && !is_marked(memory[i], bytes[i]);
		if (!memory[i] || !action) {
			free(memory[i]);
			memory[i] = allocate(&seed, size);
			bytes[i] = size;
		} else if (action == 1) {
			memory[i] = realloc(memory[i], size);
			bytes[i] = size;
			bad += malloc_usable_size(memory[i]) < size;
		} else if (action == 2) {
			free(memory[i]);
			memory[i] = NULL;
		} else {
			memory[i] =
				exchange((unsigned)rand_r(&seed) % SHARED, memory[i], &bytes[i]);
			continue;
		}
		if (memory[i])
			mark(memory[i], bytes[i], (char)rand_r(&seed));
	}
	for (unsigned i = 0; i < EACH; i++)
		free(memory[i]);
	return (void *)bad;
}

static bool fork_once(void)
{
	pid_t pid = fork();

	if (!pid) {
		for (unsigned i = 0; i < 20; i++) {
			char *memory = pages(5000);

			memset(memory, 1, 5000);
			free(memory);
		}
		_exit(0);
	}
	return ended_well(pid);
}

static void test_threads(void)
{
	pthread_t thread[THREADS];
	time_t end = time(NULL) + STRESS_S;
	unsigned forks = 0;
	bool good = true;
	void *bad;

	for (unsigned i = 0; i < SHARED; i++)
		pthread_mutex_init(&shared[i].lock, NULL);
	for (uintptr_t i = 0; i < THREADS; i++)
		good &= !pthread_create(&thread[i], NULL, stress, (void *)(i + 1));
	for (; time(NULL) < end; forks++)
		good &= fork_once();
	atomic_store(&stop, true);
	for (unsigned i = 0; i < THREADS; i++)
		good &= !pthread_join(thread[i], &bad) && !bad;
	for (unsigned i = 0; i < SHARED; i++)
		free(shared[i].memory);
	printf("# %u children meanwhile\n", forks);
	report(good && forks,
	       "eight threads allocate, resize, pass on and free, while the process forks");
}

void test_processes(const char *self)
{
	test_children(self);
	test_threads();
	test_descriptors();
}
