/* SPDX-License-Identifier: BSD-2-Clause */
/* Long messages as memory files: parcel.h. */
#include "ib/parcel.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SEALS	(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

union parcel_control {
	struct cmsghdr head;
	char bytes[CMSG_SPACE(sizeof(int))];
};

/* -1 and errno. */
static int parcel_file(const struct iovec *iov, int count, size_t bytes)
{
	int file = memfd_create("verbatim-mad", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;
	ssize_t written = file < 0 ? -1 : writev(file, iov, count);

	if (written == (ssize_t)bytes && !fcntl(file, F_ADD_SEALS, SEALS))
		return file;
	err = written >= 0 && written != (ssize_t)bytes ? ENOSPC : errno;
	if (file >= 0)
		close(file);
	errno = err;
	return -1;
}

int parcel_pass(int fd, const void *head, int file)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)head, .iov_len = PARCEL_HEAD };
	union parcel_control control;
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };

	memset(&control, 0, sizeof(control));
	control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET,
					 .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.head), &file, sizeof(file));
	return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
}

int parcel_send(int fd, const struct iovec *iov, int count)
{
	const struct msghdr message = { .msg_iov = (struct iovec *)(uintptr_t)iov,
					.msg_iovlen = (size_t)count };
	uint8_t head[PARCEL_HEAD];
	size_t bytes = 0;
	int file, err;

	for (int i = 0; i < count; i++)
		bytes += iov[i].iov_len;
	if (bytes <= PARCEL_INLINE_MAX)
		return sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
	file = parcel_file(iov, count, bytes);
	if (file < 0)
		return errno;
	bytes = 0;
	for (int i = 0; bytes < sizeof(head); i++) {
		size_t part = sizeof(head) - bytes < iov[i].iov_len ? sizeof(head) - bytes : iov[i].iov_len;

		memcpy(head + bytes, iov[i].iov_base, part);
		bytes += part;
	}
	err = parcel_pass(fd, head, file);
	close(file);
	return err;
}

ssize_t parcel_receive(int fd, void *data, size_t bytes, int *file)
{
	struct iovec iov = { .iov_base = data, .iov_len = bytes };
	union parcel_control control;
	/* Of exactly one: in what aligns the buffer a second one would find room, and stay open. */
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
				  .msg_controllen = CMSG_LEN(sizeof(int)) };
	ssize_t got = recvmsg(fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *head = got < 0 ? NULL : CMSG_FIRSTHDR(&message);

	*file = -1;
	if (head && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS &&
	    head->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(file, CMSG_DATA(head), sizeof(*file));
	if (got >= 0 && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC))) {
		if (*file >= 0)
			close(*file);
		*file = -1;
		errno = EMSGSIZE;
		return -1;
	}
	return got;
}

/* Is it a sealed memory file of so many bytes? */
static bool parcel_is_sealed(int file, size_t bytes, struct stat *stat)
{
	int seals = fcntl(file, F_GET_SEALS);

	return seals >= 0 && (seals & SEALS) == SEALS && !fstat(file, stat) && stat->st_size >= 0 &&
	       (size_t)stat->st_size == bytes;
}

int parcel_read(int file, void *data, size_t bytes)
{
	struct stat stat;

	if (!parcel_is_sealed(file, bytes, &stat))
		return EBADF;
	for (size_t at = PARCEL_HEAD; at < bytes; ) {
		ssize_t got = pread(file, (char *)data + at, bytes - at, (off_t)at);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return EBADF;
		at += (size_t)got;
	}
	return 0;
}

/* Is each page of it in memory? */
static bool parcel_is_resident(void *memory, size_t bytes)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE), some;
	unsigned char page[1024];

	for (size_t at = 0; at < bytes; at += some) {
		some = bytes - at < sizeof(page) * page_bytes ? bytes - at : sizeof(page) * page_bytes;
		if (mincore((char *)memory + at, some, page))
			return false;
		for (size_t i = 0; i * page_bytes < some; i++)
			if (!(page[i] & 1))
				return false;
	}
	return true;
}

/*
 * Of holes st_blocks says nothing, since there may be pages behind the end, and SEEK_HOLE waits as long as a
 * program has the file's lock. mincore(2) tells: the file's owner, or whoever may write to it, which the owner
 * can end. So the file of another user is not mapped, but for root's.
 */
int parcel_map(int file, size_t bytes, void **memory)
{
	struct statfs system;
	struct stat stat;
	void *mapped;

	if (!parcel_is_sealed(file, bytes, &stat))
		return EBADF;
	if (fstatfs(file, &system) || system.f_type != TMPFS_MAGIC || (stat.st_uid && stat.st_uid != geteuid()))
		return EOPNOTSUPP;
	/* Private, since a sealed file is not mapped otherwise by every kernel; nobody writes to it. */
	mapped = mmap(NULL, bytes, PROT_READ, MAP_PRIVATE, file, 0);
	if (mapped == MAP_FAILED)
		return EOPNOTSUPP;
	if (!parcel_is_resident(mapped, bytes)) {
		munmap(mapped, bytes);
		return EOPNOTSUPP;
	}
	*memory = mapped;
	return 0;
}
