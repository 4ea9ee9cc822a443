/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The owner of a stream, as of fcntl(2), F_SETOWN: a process, process group or thread that gets
 * SIGURG when urgent data arrive and, with O_ASYNC, SIGIO when there is something to do. Whoever
 * finds what has arrived sends the signal; the service thread looks while no other thread does.
 *
 * Watched descriptors: the completion channel, once there is one, and the event channel. Whoever takes an
 * event from them arms the CQ again (rs_take_events_locked()).
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <sys/syscall.h>

#include "rsockets/rsocket.h"

static int owner_tell(const struct f_owner_ex *owner, int signal)
{
	switch (owner->type) {
	case F_OWNER_TID:
		return (int)syscall(SYS_tkill, owner->pid, signal);
	case F_OWNER_PGRP:
		return kill(-owner->pid, signal);
	default:
		return kill(owner->pid, signal);
	}
}

void rs_owner_signal_locked(struct rsocket *rs, int signal)
{
	int saved = errno;

	if (!rs->owner.who.pid || (signal == SIGIO && !rs->owner.async))
		return;
	owner_tell(&rs->owner.who, signal);
	errno = saved;
}

int rs_owner_watch_locked(struct rsocket *rs)
{
	int err;

	if (rs->type != SOCK_STREAM || !rs->owner.who.pid || rs->owner.over)
		return 0;
	rs->owner.watched = true;
	err = rs_service_watch(RS_SERVE_OWNER, rs->events->fd, rs->fd);
	if (!err && rs->stream.channel)
		err = rs_service_watch(RS_SERVE_OWNER, rs->stream.channel->fd, rs->fd);
	return err;
}

void rs_owner_leave_locked(struct rsocket *rs)
{
	if (!rs->owner.watched)
		return;
	if (rs->stream.channel)
		rs_service_forget(rs->stream.channel->fd);
	if (rs->state != RS_LISTENING)		/* it is watched all the same */
		rs_service_forget(rs->events->fd);
	rs->owner.watched = false;
}

/* -ESRCH and so on become positive; nobody is an owner, too. */
int rs_owner_set_locked(struct rsocket *rs, struct f_owner_ex who)
{
	if (who.type != F_OWNER_TID && who.type != F_OWNER_PID && who.type != F_OWNER_PGRP)
		return EINVAL;
	if (who.pid < 0)
		return EINVAL;
	if (who.pid && owner_tell(&who, 0) && errno == ESRCH)
		return ESRCH;
	rs->owner.who = who;
	if (who.pid)
		return rs_owner_watch_locked(rs);
	rs_owner_leave_locked(rs);
	return 0;
}

int rs_owner_number_locked(struct rsocket *rs, long number)
{
	if (number <= INT_MIN || number > INT_MAX)
		return EINVAL;
	return rs_owner_set_locked(rs, (struct f_owner_ex){
		.type = number < 0 ? F_OWNER_PGRP : F_OWNER_PID, .pid = (pid_t)(number < 0 ? -number : number) });
}
