/* SPDX-License-Identifier: BSD-2-Clause */
/* Who has names that we could not get: explanations name a user and a process. Internal to host/. */
#ifndef VERBATIM_HOST_HOLDER_H
#define VERBATIM_HOST_HOLDER_H

#include <stddef.h>

/*
 * "user 1000 has 812 (one of them: process 4242, python3), user 0 has 3", of the sockets whose abstract
 * names begin with @prefix, the users with most of them first; "" if the kernel does not tell. Takes time in
 * proportion to the sockets and processes there are. A process of another user is seen by root only. Returns
 * @text.
 */
const char *holders_describe(const char *prefix, char *text, size_t bytes);

#endif
