/* SPDX-License-Identifier: BSD-2-Clause */
/* What processes of this machine may do with each other's memory, and what they run on. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "doctor.h"
#include "tool.h"

/* A child that allows it and waits: can we read a word of its memory? 0 or errno. */
static int read_other_process(void)
{
	static volatile uint64_t word = 0x7665726261746d21u;
	uint64_t copy = 0;
	struct iovec here = { &copy, sizeof(copy) }, there = { (void *)&word, sizeof(word) };
	int status, err = 0, ready[2];
	char byte;
	pid_t child;

	if (pipe(ready))
		return errno;
	child = fork();
	if (child < 0) {
		err = errno;
		close(ready[0]);
		close(ready[1]);
		return err;
	}
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
		if (write(ready[1], "", 1) == 1)
			pause();
		_exit(0);
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		err = EIO;
	else if (process_vm_readv(child, &here, 1, &there, 1, 0) != sizeof(copy))
		err = errno;
	else if (copy != word)
		err = EIO;
	close(ready[0]);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	return err;
}

static void check_memory_of_others(void)
{
	int err = read_other_process();

	if (err)
		report(VERDICT_NOTE, "process-memory", "memory of other processes (process_vm_readv)", "%s "
		       "(ptrace_scope or a sandbox forbids it): processes of one host will use UDP",
		       strerror(err));
	else
		report(VERDICT_GOOD, "process-memory", "memory of other processes (process_vm_readv)", "readable");
}

static void check_shared_memory(void)
{
	int fd = memfd_create("verbatim-doctor", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, 4096))
		report(trial_worked() ? VERDICT_NOTE : VERDICT_BAD, "memfd", "shared memory (memfd)", "%s: %s",
		       strerror(errno), trial_worked() ? "other ways are used" : "no device can be opened");
	else
		report(VERDICT_GOOD, "memfd", "shared memory (memfd)", "works");
	if (fd >= 0)
		close(fd);
}

/* Names of processes are abstract unix sockets. */
static void check_names(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	/* A zero first byte: a name in no file system. */
	snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "verbatim-doctor-%d", getpid());
	if (fd < 0 || bind(fd, (struct sockaddr *)&name, sizeof(name)))
		report(trial_worked() ? VERDICT_NOTE : VERDICT_BAD, "names", "abstract unix sockets", "%s: %s",
		       strerror(errno), trial_worked() ? "other ways are used" : "no device can be opened");
	else
		report(VERDICT_GOOD, "names", "abstract unix sockets", "works");
	if (fd >= 0)
		close(fd);
}

static void check_processors(void)
{
	long count = sysconf(_SC_NPROCESSORS_ONLN);

	if (count < 2)
		report(VERDICT_NOTE, "processors", "processors", "%ld: two processes that poll take turns, each "
		       "message costs a context switch", count);
	else
		report(VERDICT_GOOD, "processors", "processors", "%ld", count);
}

static void check_libraries(void)
{
	char path[PATH_MAX];

	if (library_directory(path, sizeof(path)))
		report(VERDICT_BAD, "libraries", "libraries", "not found: verbatim run cannot work");
	else
		report(VERDICT_GOOD, "libraries", "libraries", "%s", path);
}

void doctor_host(void)
{
	check_memory_of_others();
	check_shared_memory();
	check_names();
	check_processors();
	check_libraries();
}
