/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Noticing that the process that holds a slot has ended, for any reason and of any user.
 *
 * Each process listens on an abstract Unix socket per slot of its own. A watcher is connected to
 * it: the kernel hangs up when the process ends.
 */
#ifndef VERBATIM_HOST_SLOT_WATCH_H
#define VERBATIM_HOST_SLOT_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct slot_watch;

/* 0 or errno. */
int slot_watch_open(struct slot_watch **watch);
void slot_watch_close(struct slot_watch *watch);
/* Readable when slot_watch_turn() has something to do. */
int slot_watch_event_fd(const struct slot_watch *watch);

/*
 * Be watchable as the holder of @slot. 0; EADDRINUSE: the kernel is still closing the sockets of
 * an earlier holder; errno of the socket calls.
 */
int slot_watch_listen(struct slot_watch *watch, uint32_t slot);

/* Counted per slot. 0, also for a slot of our own; ESRCH: no process holds it; errno. */
int slot_watch_add(struct slot_watch *watch, uint32_t slot);
/* Once for each slot_watch_add(), also after the slot was found to be gone. */
void slot_watch_remove(struct slot_watch *watch, uint32_t slot);

/*
 * The process that holds @slot, as seen in this PID namespace (0: not visible there): the one that
 * listens there. Never blocks. 0; ESRCH: no process holds it; errno.
 */
int slot_watch_pid(struct slot_watch *watch, uint32_t slot, pid_t *pid);

/* Never blocks. Returns how many slots are gone, at most @max: call again when it is @max. */
unsigned slot_watch_turn(struct slot_watch *watch, uint32_t *gone, unsigned max);

/* Around fork(); in the child every descriptor is closed and nothing else touched. */
void slot_watch_before_fork(struct slot_watch *watch);
void slot_watch_after_fork(struct slot_watch *watch);
void slot_watch_abandon(struct slot_watch *watch);

#endif
