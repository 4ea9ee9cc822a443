/* SPDX-License-Identifier: BSD-2-Clause */
/* For tests of descriptors whose events are withdrawn. */
#ifndef VERBATIM_PLATFORM_WITHDRAWN_TEST_H
#define VERBATIM_PLATFORM_WITHDRAWN_TEST_H

#include <errno.h>
#include <unistd.h>

#include "platform/wait.h"

/*
 * Whether the kernel can read an eventfd without ever blocking (Linux 5.8, and no emulator of arm64): what nobody
 * can get any more leaves it readable elsewhere.
 */
static inline bool is_withdrawn_from_fds(void)
{
	int fd = event_fd_open(), err = event_fd_take_now(fd);

	close(fd);
	return err == EAGAIN;
}

#endif
