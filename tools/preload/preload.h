/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libverbatim-preload.so: programs read /sys/class/infiniband behind the library's back; under
 * `verbatim run` these reads are answered here. Nothing is written anywhere: files are memfds
 * with their text, directories are memfds without, whose name says which directory they stand
 * for, so that a descriptor keeps its meaning across dup, fork and exec, and nothing is left
 * behind however a process ends.
 *
 *	open stat access ...	hooks_open.c, hooks_stat.c	calls of the C library, replaced
 *	opendir readdir ...	hooks_directory.c
 *	chdir getcwd		hooks_cwd.c
 *	execve posix_spawn ...	hooks_exec.c
 *	sigaction signal ...	hooks_signal.c	another matter: handlers wait until calls end (base/call.h)
 *	      |
 *	      path.c		is this path, or what this descriptor stands for, ours?
 *	      tree.c		what is there: names and kinds, text from libibverbs
 *	      fabric.c		and of InfiniBand devices, from a fabric
 *	      node.c		a descriptor for it
 *
 * Paths that are not ours go to the C library untouched, after a look at their first letters.
 */
#ifndef VERBATIM_TOOLS_PRELOAD_H
#define VERBATIM_TOOLS_PRELOAD_H

#include <dlfcn.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define NODE_PATH_MAX	200	/* with the prefix of node.c it fits into the name of a memfd */
#define NODE_TEXT_MAX	4096	/* of a file; a page, as in sysfs */

enum node_kind { NODE_ABSENT, NODE_DIRECTORY, NODE_FILE, NODE_DEVICE };

/* The function of the C library (or of a sanitizer) that ours stands in front of. */
#define REAL(function)                                                                  \
	({                                                                              \
		static _Atomic(void *) cached;                                          \
		void *found = atomic_load_explicit(&cached, memory_order_relaxed);      \
		if (!found) {                                                           \
			found = dlsym(RTLD_NEXT, #function);                            \
			atomic_store_explicit(&cached, found, memory_order_relaxed);    \
		}                                                                       \
		(__typeof__(&function))found;                                           \
	})

/* ---- path.c ---- */

/*
 * Does *path, relative to the directory descriptor @dirfd, name something that we answer for?
 * Then @canonical (room for NODE_PATH_MAX) is its absolute path, without "." ".." and "//".
 * If it leads from one of our directories to somewhere else, *path is replaced by where to.
 */
bool path_is_ours(int dirfd, const char **path, char *canonical);

/* Where the kernel believes us to be when we are in @path, one of our directories. */
const char *path_nearest(const char *path);
/* The working directory is one of ours: @path, canonical; NULL: no longer. */
void path_enter(const char *path);
/* Is it? Then @path (room for NODE_PATH_MAX) is which. */
bool path_inside(char *path);

/* ---- tree.c: @path is canonical ---- */

/* While this thread asks libibverbs for a text, the tree must not be consulted for it. */
bool tree_is_busy(void);
enum node_kind tree_kind(const char *path);
/* The text of a file: its length, or -1 when there is none. errno is kept. */
long tree_read(const char *path, char *text, size_t size);

struct tree_entry {
	char name[64];
	enum node_kind kind;
};

/* What directory @path holds, without "." and ".."; *entries is malloc'ed. 0 or errno. */
int tree_list(const char *path, struct tree_entry **entries, size_t *count);

/* ---- fabric.c: for tree.c, which is busy meanwhile ---- */

/* Is the program in a fabric? */
bool fabric_is_there(void);
/*
 * What the fabric has at @path: a text, or names of a directory, a line each, "x/" one of its own.
 * False: nothing.
 */
bool fabric_read(const char *path, bool *directory, char *text, size_t size);

/* ---- node.c ---- */

/* As open(2) of @path with @flags: a descriptor, or -1 and errno. */
int node_open(const char *path, int flags);
/* The path that descriptor @fd stands for, if it is one of ours. */
bool node_path(int fd, char *path);
bool node_is_directory(int fd, char *path);
/* Something that tells two paths apart, as inode numbers do. */
unsigned long node_number(const char *path);

#endif
