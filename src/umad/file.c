/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The table of open ports by descriptor. A descriptor that was closed by close() stays in it until
 * the number is used again: the fabric has seen its end.
 */
#include <stdlib.h>
#include <unistd.h>

#include "base/fd_table.h"
#include "base/fork.h"
#include "umad/umad.h"

static struct lock files_lock = LOCK_INITIALIZER;
static struct fd_table files GUARDED_BY(files_lock);

/* A child has the descriptors, and so the ports. */
static void files_before_fork(void) ACQUIRES(files_lock)
{
	lock_acquire(&files_lock);
}

static void files_after_fork(void) RELEASES(files_lock)
{
	lock_release(&files_lock);
}

static const struct fork_handlers files_fork = {
	.prepare = files_before_fork, .parent = files_after_fork, .child = files_after_fork,
};

struct umad_file *umad_file_get(int fd)
{
	struct umad_file *file = NULL;
	void **entry;

	lock_acquire(&files_lock);
	entry = fd_table_entry(&files, fd);
	if (entry)
		file = *entry;
	if (file)
		file->references++;
	lock_release(&files_lock);
	return file;
}

void umad_file_put(struct umad_file *file)
{
	bool last;

	lock_acquire(&files_lock);
	last = !--file->references;
	lock_release(&files_lock);
	if (!last)
		return;
	lock_acquire(&file->lock);
	if (file->keeper >= 0)
		close(file->keeper);
	free(file->waiting);
	lock_release(&file->lock);
	lock_destroy(&file->lock);
	free(file);
}

int umad_file_enter(int fd, struct umad_file *file)
{
	struct umad_file *old = NULL;
	void **entry;

	fork_register(FORK_UMAD, &files_fork);
	lock_acquire(&files_lock);
	entry = fd_table_make(&files, fd);
	if (entry)
		old = fd_table_exchange(entry, file);
	lock_release(&files_lock);
	if (old)
		umad_file_put(old);
	return entry ? 0 : ENOMEM;
}

struct umad_file *umad_file_remove(int fd)
{
	struct umad_file *old = NULL;
	void **entry;

	lock_acquire(&files_lock);
	entry = fd_table_entry(&files, fd);
	if (entry)
		old = fd_table_exchange(entry, NULL);
	lock_release(&files_lock);
	return old;
}
