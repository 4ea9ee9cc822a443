/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A traced process: the share is made here, and read here. The process may write anything into it, at any
 * time: a record is copied first and checked then; nonsense ends the reading of that process alone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trace.h"

#define RING_BYTES (8u << 20)
#define SHARE_BYTES (TRACE_SHARE_BYTES + (size_t)RING_BYTES)

static int share_fill(int memfd, const struct share_options *options)
{
	struct trace_share *share = mmap(NULL, TRACE_SHARE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);

	if (share == MAP_FAILED)
		return -1;
	share->magic = TRACE_MAGIC;
	share->version = TRACE_VERSION;
	share->ring_bytes = RING_BYTES;
	share->record_bytes = sizeof(struct trace_record);
	share->wanted = options->wanted;
	share->payload_bytes = options->payload_bytes;
	return munmap(share, TRACE_SHARE_BYTES);
}

/* Its pages are allocated now: a process that writes where there is no memory left would get SIGBUS. */
int share_create(const struct share_options *options)
{
	int memfd = memfd_create("verbatim-trace", MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (memfd < 0)
		return -1;
	err = posix_fallocate(memfd, 0, (off_t)SHARE_BYTES);
	if (!err && !share_fill(memfd, options) &&
	    !fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		return memfd;
	if (!err)
		err = errno;
	close(memfd);
	errno = err;
	return -1;
}

struct source *source_open(int memfd, pid_t pid, int connection)
{
	struct source *source = calloc(1, sizeof(*source));

	if (!source)
		return NULL;
	source->share = mmap(NULL, SHARE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
	if (source->share == MAP_FAILED) {
		free(source);
		return NULL;
	}
	source->pid = pid;
	source->connection = connection;
	source->control = -1;
	source->ring_bytes = RING_BYTES;
	return source;
}

void source_close(struct source *source)
{
	munmap(source->share, SHARE_BYTES);
	if (source->connection >= 0)
		close(source->connection);
	if (source->control >= 0)
		close(source->control);
	free(source->known);
	free(source);
}

static void ring_read(const struct source *source, uint64_t from, void *to, size_t bytes)
{
	const uint8_t *ring = (const uint8_t *)source->share + TRACE_SHARE_BYTES;
	size_t at = from & (source->ring_bytes - 1);
	size_t first = source->ring_bytes - at < bytes ? source->ring_bytes - at : bytes;

	memcpy(to, ring + at, first);
	memcpy((uint8_t *)to + first, ring, bytes - first);
}

const struct trace_record *source_read(struct source *source, uint8_t buffer[TRACE_RECORD_MAX])
{
	/* R1 */
	uint64_t there = atomic_load_explicit(&source->share->head, memory_order_acquire) - source->tail;
	struct trace_record head;

	if (!there || source->is_broken)
		return NULL;
	source->is_broken = there > source->ring_bytes || there < sizeof(head);
	if (source->is_broken)
		return NULL;
	ring_read(source, source->tail, &head, sizeof(head));
	source->is_broken = head.bytes < sizeof(head) || head.bytes > TRACE_RECORD_MAX || head.bytes > there ||
			    head.bytes % 8 || head.captured > head.bytes - sizeof(head) ||
			    head.route > head.bytes - sizeof(head) - head.captured;
	if (source->is_broken)
		return NULL;
	ring_read(source, source->tail, buffer, head.bytes);
	memcpy(buffer, &head, sizeof(head));	/* what was checked */
	source->tail += head.bytes;
	return (const struct trace_record *)buffer;
}

void source_release(struct source *source)
{
	atomic_store_explicit(&source->share->tail, source->tail, memory_order_release);	/* R2 */
}
