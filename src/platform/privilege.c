/* SPDX-License-Identifier: BSD-2-Clause */
/* Privileges (privilege.h). */
#include "platform/privilege.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define OVERFLOW_UID 65534u	/* without /proc */

#ifndef IPPROTO_UDPLITE
#define IPPROTO_UDPLITE 136
#endif

int may_open_packet_sockets(void)
{
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

uid_t overflow_uid(void)
{
	unsigned uid = OVERFLOW_UID;
	FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");

	if (file && fscanf(file, "%u", &uid) != 1)
		uid = OVERFLOW_UID;
	if (file)
		fclose(file);
	return uid;
}

/* The kernel checks the privilege before it checks whether the port is in use. */
bool may_bind_port(uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port),
				       .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	bool may;
	int fd;

	if (!port || port >= IPPORT_RESERVED)
		return true;
	/* Nobody uses ports of UDP-Lite, so probing one disturbs nobody. Without it: a UDP port, for a moment. */
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, IPPROTO_UDPLITE);
	if (fd < 0)
		fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return false;
	may = !bind(fd, (const struct sockaddr *)&address, sizeof(address)) || errno != EACCES;
	close(fd);
	return may;
}
