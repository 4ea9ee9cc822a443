/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A program's side of the socket of a fabric (protocol.h): which fabric and node it is bound to, by
 * VERBATIM_FABRIC and VERBATIM_NODE, and what it asks. Every question has a connection of its own
 * and an answer within IB_PATIENCE_MS: a fabric that is stopped holds nobody up for longer. Data
 * has a connection for as long as a device is open (subnet/).
 */
#ifndef VERBATIM_IB_CLIENT_H
#define VERBATIM_IB_CLIENT_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ib/place.h"
#include "ib/protocol.h"

#define IB_PATIENCE_MS	10000

/* The fabric, and the node of it, that this process is at. */
struct ib_binding {
	char fabric[PATH_MAX], node[CTL_NODE_MAX];
};

/*
 * By the settings "fabric" and "node". 0; ENODEV: there is no such setting; EINVAL: a wrong one,
 * said on stderr.
 */
int ib_bind(struct ib_binding *binding);

/*
 * Connects to the fabric called @fabric (place.h). 0; else *why says what is wrong: ENOENT and
 * ECONNREFUSED, it does not run.
 */
int ib_connect(const char *fabric, int *fd, char why[PLACE_WHY_MAX]);

/*
 * Sends a question over @fd and reads answers up to the END, whose value and status count: 0, the
 * errno of the END, or what ended the connection. Before it each answer goes to @take, unless that
 * is NULL. In *why is the text of an END with an errno.
 */
typedef void ib_take(void *context, const struct ctl_head *head, const char *body);
int ib_ask(int fd, enum ctl_kind kind, const void *body, size_t bytes, ib_take *take, void *context,
	   uint64_t *value, char why[PLACE_WHY_MAX]);
/* The same with a value, and less patience. Of @question kind, bytes and value count. */
int ib_ask_within(int fd, unsigned patience_ms, const struct ctl_head *question, const void *body,
		  ib_take *take, void *context, uint64_t *value, char why[PLACE_WHY_MAX]);
/* The same, and what descriptors come with the answers: close-on-exec, the caller's to close. */
#define IB_FILES	2u
struct ib_files {
	int fd[IB_FILES];
	unsigned count;
};
int ib_ask_for_files(int fd, unsigned patience_ms, const struct ctl_head *question,
		     const void *body, ib_take *take, void *context, uint64_t *value,
		     struct ib_files *files, char why[PLACE_WHY_MAX]);
void ib_files_close(struct ib_files *files);
/* The same, over a connection of its own. */
int ib_question(const struct ib_binding *binding, enum ctl_kind kind, const void *body,
		size_t bytes, ib_take *take, void *context, uint64_t *value,
		char why[PLACE_WHY_MAX]);

/*
 * A path below /sys/class/: 0, and *directory tells whether @text is what the file says or the
 * names in the directory, a line each ("x/": a directory). ENOENT: there is none; ENODEV: no
 * fabric.
 */
int ib_sysfs(const char *path, bool *directory, char *text, size_t size);

#endif
