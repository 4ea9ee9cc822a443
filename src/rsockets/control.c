/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rfcntl(): whether calls block, and who gets signals (owner.c).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

#include "base/log.h"
#include "rsockets/rsocket.h"

/* In the service thread: the socket has an owner, and something has happened. */
static void owner_serve(int fd)
{
	struct rsocket *rs = rs_get(fd);

	if (!rs)
		return;
	lock_acquire(&rs->lock);
	rs_take_events_locked(rs, true, true);
	lock_release(&rs->lock);
	rs_put(rs);
}

static int set_owner(struct rsocket *rs, int cmd, long argument) REQUIRES(rs->lock)
{
	int err = rs_service_start(RS_SERVE_OWNER, owner_serve);

	if (err)
		return err;
	if (cmd == F_SETOWN_EX && !argument)
		return EFAULT;
	err = cmd == F_SETOWN ? rs_owner_number_locked(rs, argument) :
				rs_owner_set_locked(rs, *(const struct f_owner_ex *)argument);
	/* From now on the CQ tells when something has come; what has come already is looked at. */
	if (!err && rs->owner.watched) {
		rs_arm_locked(rs, RS_READ);
		rs_progress_locked(rs, false);
	}
	return err;
}

static int rs_control_command_locked(struct rsocket *rs, int cmd, long argument, int *result)
	REQUIRES(rs->lock)
{
	const struct f_owner_ex *who = &rs->owner.who;

	*result = 0;
	switch (cmd) {
	case F_GETFL:
		*result = O_RDWR | (rs->nonblocking ? O_NONBLOCK : 0) | (rs->owner.async ? O_ASYNC : 0);
		return 0;
	case F_SETFL:
		if (argument & O_ASYNC && rs->type != SOCK_STREAM) {
			explain_of(OF(RSOCKET, (unsigned)rs->fd),
				"rsocket %d: O_ASYNC is for streams: wait for datagrams in rpoll()",
				rs->fd);
			return EOPNOTSUPP;
		}
		rs->nonblocking = argument & O_NONBLOCK;
		rs->owner.async = argument & O_ASYNC;
		return 0;
	case F_GETFD:
	case F_SETFD:
		*result = fcntl(rs->fd, cmd, argument);
		return *result < 0 ? errno : 0;
	case F_SETOWN:
	case F_SETOWN_EX:
		return set_owner(rs, cmd, argument);
	case F_GETOWN:
		*result = who->type == F_OWNER_PGRP ? -who->pid : who->type == F_OWNER_PID ? who->pid : 0;
		return 0;
	case F_GETOWN_EX:
		if (!argument)
			return EFAULT;
		*(struct f_owner_ex *)argument = *who;
		return 0;
	}
	explain_of(OF(RSOCKET, (unsigned)rs->fd),
		"rsocket %d: rfcntl() supports F_GETFL, F_SETFL, F_GETFD, F_SETFD, F_SETOWN, "
		"F_GETOWN and F_SETOWN_EX, F_GETOWN_EX, not %d", rs->fd, cmd);
	return EINVAL;
}

int rfcntl(int socket, int cmd, ...)
{
	CALL_HOLDING();
	struct rsocket *rs = rs_get(socket);
	va_list arguments;
	int err, result;
	long argument;

	if (!rs)
		return -1;
	va_start(arguments, cmd);
	argument = va_arg(arguments, long);
	va_end(arguments);
	lock_acquire(&rs->lock);
	err = rs_control_command_locked(rs, cmd, argument, &result);
	lock_release(&rs->lock);
	rs_put(rs);
	return err ? rs_result(err) : result;
}
