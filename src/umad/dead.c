/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fabric that ends, by kill -9 or because its console was left, is hardware that lost its power:
 * nothing answers, and nothing says so. The descriptor of a port becomes one end of a pair of
 * sockets, so that programs sleep in it; the other end, the keeper, is the library's, which tells
 * of timeouts through it.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "platform/clock.h"
#include "umad/umad.h"

#define RETRY_NS	1000000000ull
#define MAD_HEADER	24

/* True: it is told. False: there is no room for it in the socket. */
static bool waiting_tell(struct umad_file *file, const struct umad_waiting *waiting)
	REQUIRES(file->lock)
{
	uint8_t message[sizeof(waiting->header) + MAD_HEADER];
	ib_user_mad_t header = waiting->header;

	header.status = ETIMEDOUT;
	header.length = sizeof(message);
	memcpy(message, &header, sizeof(header));
	memcpy(message + sizeof(header), waiting->mad, MAD_HEADER);
	return send(file->keeper, message, sizeof(message), MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/* Those that are due by @now_ns time out. When the next one is. */
static uint64_t waiting_expire(struct umad_file *file, uint64_t now_ns) REQUIRES(file->lock)
{
	uint64_t next_ns = UMAD_NEVER_NS;

	for (size_t i = 0; i < file->count; ) {
		if (file->waiting[i].until_ns > now_ns || !waiting_tell(file, &file->waiting[i])) {
			if (file->waiting[i].until_ns < next_ns)
				next_ns = file->waiting[i].until_ns;
			i++;
		} else {
			file->waiting[i] = file->waiting[--file->count];
		}
	}
	return next_ns;
}

void umad_file_lost(struct umad_file *file, int fd)
{
	int pair[2];

	if (file->dead)
		return;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return;		/* the next call finds it again */
	if (dup2(pair[0], fd) < 0) {
		close(pair[0]);
		close(pair[1]);
		return;
	}
	close(pair[0]);
	file->keeper = pair[1];
	file->dead = true;
	file->retry_ns = clock_now_ns() + RETRY_NS;
	complain("the fabric %s ended: port %u of %s is without a link until it is started again",
		 file->binding.fabric, file->place.port, file->place.device);
}

/* Opens the port again, and registers what was registered. The socket, or -1. */
static int file_attach(struct umad_file *file) REQUIRES(file->lock)
{
	char why[PLACE_WHY_MAX];
	uint64_t token;
	int fd, err = ib_connect(file->binding.fabric, &fd, why);

	if (err)
		return -1;
	err = ib_ask(fd, CTL_OPEN, &file->place, sizeof(file->place), NULL, NULL, &token, why);
	for (unsigned i = 0; !err && i < UMAD_CA_MAX_AGENTS; i++) {
		struct ctl_agent *request = &file->agent[i].request;

		if (!file->agent[i].used)
			continue;
		request->token = token;
		request->id = i;
		err = ib_question(&file->binding, CTL_REGISTER, request, sizeof(*request), NULL,
				  NULL, NULL, why);
	}
	if (!err) {
		file->token = token;
		return fd;
	}
	explain("the fabric %s is back, but port %u of %s is not: %s", file->binding.fabric,
		file->place.port, file->place.device, why);
	close(fd);
	return -1;
}

uint64_t umad_file_revive(struct umad_file *file, int fd, uint64_t now_ns)
{
	uint64_t next_ns = waiting_expire(file, now_ns);
	int attached;

	if (now_ns >= file->retry_ns) {
		/*
		 * Requests of before have no answer any more: they are told of first. A manager that sweeps each
		 * second has one under way whenever a second is over, so what is due is done when the last of them
		 * is told of. What was told and not read yet would be lost with the pair.
		 */
		if (file->count || recv(fd, NULL, 0, MSG_PEEK | MSG_DONTWAIT) >= 0)
			return next_ns;
		file->retry_ns = now_ns + RETRY_NS;
		attached = file_attach(file);
		if (attached >= 0 && dup2(attached, fd) >= 0) {
			close(file->keeper);
			file->keeper = -1;
			file->dead = false;
			complain("the fabric %s is back", file->binding.fabric);
			next_ns = now_ns;
		}
		if (attached >= 0)
			close(attached);
	}
	return next_ns < file->retry_ns ? next_ns : file->retry_ns;
}
