/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file behind a command descriptor. Linux opens /dev/infiniband/uverbsN for each context, and
 * duplicates of the descriptor lead to the same objects (ibv_import_device(3)). Here it is an empty
 * memfd, or a socket, which is recognised by its inode; the contexts that were opened by one share it,
 * and their objects live until the last of them is closed.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "device/internal.h"
#include "platform/memory.h"

#define FILE_NAME	"verbatim-device-"	/* and the process that opened it */

int context_file_open(struct context_file **opened, int *command_fd)
{
	static _Atomic uint64_t last_number;
	struct context_file *file = calloc(1, sizeof(*file));
	char name[sizeof(FILE_NAME) + 10];
	struct stat status;
	int fd;

	if (!file)
		return ENOMEM;
	snprintf(name, sizeof(name), FILE_NAME "%d", (int)getpid());
	fd = memory_file_open(name);
	if (fd < 0)
		fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);	/* where memfds are forbidden */
	if (fd < 0 || fstat(fd, &status)) {
		int err = errno;

		explain("ibv_open_device: no command descriptor: %s", strerror(err));
		if (fd >= 0)
			close(fd);
		free(file);
		return err;
	}
	file->number = atomic_fetch_add(&last_number, 1) + 1;
	file->device = status.st_dev;
	file->inode = status.st_ino;
	list_init(&file->contexts);
	*opened = file;
	*command_fd = fd;
	return 0;
}

uint64_t hca_file_number(const struct hca_context *context)
{
	return context->file->number;
}

bool hca_has_file(const struct hca_context *context, const struct stat *status)
{
	return context->file->device == status->st_dev && context->file->inode == status->st_ino;
}

int hca_refuse_import(int fd)
{
	char path[32], target[64], *opener = NULL;
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	length = readlink(path, target, sizeof(target) - 1);
	if (length > 0) {
		target[length] = '\0';
		opener = strstr(target, FILE_NAME);
	}
	if (!opener) {
		explain_refused_of("ibv_import_device", EINVAL, OF(FD, (unsigned)fd),
				"ibv_import_device: cmd_fd %d is not a descriptor of a device: "
				"pass a duplicate of ibv_context.cmd_fd", fd);
		return EINVAL;
	}
	if (atoi(opener + strlen(FILE_NAME)) == (int)getpid()) {
		explain_refused_of("ibv_import_device", ENODEV, OF(FD, (unsigned)fd),
				"ibv_import_device: cmd_fd %d is of a device that this process "
				"has closed: import it before the last ibv_close_device", fd);
		return ENODEV;
	}
	explain_refused_of("ibv_import_device", EOPNOTSUPP, OF(FD, (unsigned)fd),
			"ibv_import_device: cmd_fd %d is of a device that process %d opened: "
			"objects are shared within a process only", fd, atoi(opener + strlen(FILE_NAME)));
	return EOPNOTSUPP;
}
