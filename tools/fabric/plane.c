/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fast plane's half of the fabric: one image of the subnet (image/image.h), which programs may
 * read alone, and a tally (image/tally.h) for each attached program. Both are memory files that we
 * have made, and whose size is sealed: nobody can pull them away. Nothing that a program writes
 * into its tally is believed: a path that is none, or does not begin at its host, counts nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/data.h"
#include "image/image.h"
#include "image/tally.h"

#define SEALS	(F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

struct plane_image {
	struct image_head *head;	/* mapped */
	size_t bytes;
	int fd;
};

struct plane_tally {
	struct tally *tally;		/* mapped; its program writes it */
	/* what of each entry has been counted */
	struct { uint64_t packets, words, waited_us; } done[TALLY_ENTRIES];
	uint64_t folded_us;		/* when it was, or began */
};

/* -1 and errno; else a file that is mapped at *memory, with these seals beside that of its size. */
static int plane_file(const char *name, size_t bytes, int seals, void **memory)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING), err;

	if (fd < 0)
		return -1;
	*memory = MAP_FAILED;
	if (!ftruncate(fd, (off_t)bytes))
		*memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (*memory != MAP_FAILED && !fcntl(fd, F_ADD_SEALS, SEALS | seals))
		return fd;
	err = errno;
	if (*memory != MAP_FAILED)
		munmap(*memory, bytes);
	close(fd);
	errno = err;
	return -1;
}

struct plane_image *plane_image_new(struct room *room)
{
	struct plane_image *image = calloc(1, sizeof(*image));
	void *memory;

	if (!image)
		return NULL;
	image->bytes = fabric_image_bytes(room->fabric);
	image->fd = image->bytes ? plane_file("verbatim-image", image->bytes, F_SEAL_FUTURE_WRITE,
					      &memory) : -1;
	if (image->fd < 0) {
		free(image);
		return NULL;
	}
	image->head = memory;
	fabric_image_begin(room->fabric, memory);
	/* A trace shows each packet: they all come by here. */
	atomic_store_explicit(&image->head->relay, room->trace != NULL, memory_order_relaxed);
	fabric_image_update(room->fabric, memory);
	return image;
}

void plane_image_free(struct plane_image *image)
{
	if (!image)
		return;
	munmap(image->head, image->bytes);
	close(image->fd);
	free(image);
}

void plane_update(struct room *room, struct plane_image *image)
{
	if (image)
		fabric_image_update(room->fabric, image->head);
}

void plane_set_host(struct plane_image *image, uint32_t node, uint32_t host)
{
	uint8_t *base = (uint8_t *)image->head;
	struct image_node *nodes = (struct image_node *)(base + image->head->node_offset);

	nodes[node].host = host;
	atomic_fetch_add_explicit(&image->head->epoch, 1, memory_order_release);
}

uint32_t plane_port(const struct plane_image *image, uint32_t node, uint32_t port)
{
	struct image view;

	return image && image_open(&view, image->head, image->bytes)
		       ? image_port_number(&view, node, port) : IMAGE_NONE;
}

void plane_set_slot(struct plane_image *image, uint32_t slot, uint32_t host)
{
	atomic_store_explicit(&image->head->slot[slot], host, memory_order_relaxed);
}

/* ---- tallies ---- */

/* Its descriptor, and *tally; -1: none. */
static int plane_tally_new(uint64_t now_us, struct plane_tally **tally)
{
	struct plane_tally *made = calloc(1, sizeof(*made));
	void *memory;
	int fd;

	if (!made)
		return -1;
	fd = plane_file("verbatim-tally", sizeof(struct tally), 0, &memory);
	if (fd < 0) {
		free(made);
		return -1;
	}
	made->tally = memory;
	made->folded_us = now_us;
	*tally = made;
	return fd;
}

void plane_tally_free(struct plane_tally *tally)
{
	if (!tally)
		return;
	munmap(tally->tally, sizeof(*tally->tally));
	free(tally);
}

void plane_fold(struct room *room, struct plane_tally *tally, const struct data_host *host)
{
	struct plane_image *image = room->plane->image;
	uint64_t passed_us = tally ? room->now_us - tally->folded_us : 0;
	uint32_t used;

	if (!tally || !image)
		return;
	/* T2: pairs with T1 in tally_find(). */
	used = atomic_load_explicit(&tally->tally->used, memory_order_acquire);
	for (uint32_t i = 0; i < used && i < TALLY_ENTRIES; i++) {
		struct tally_entry *entry = &tally->tally->entry[i];
		uint64_t dwords = atomic_load_explicit(&entry->words, memory_order_relaxed);
		uint64_t packets = atomic_load_explicit(&entry->packets, memory_order_relaxed);
		uint64_t more_packets = packets - tally->done[i].packets;
		uint64_t more_words = dwords - tally->done[i].words;
		uint64_t waited_us = atomic_load_explicit(&entry->waited_ns, memory_order_relaxed) / 1000;
		uint64_t more_us = waited_us - tally->done[i].waited_us;
		uint32_t exit[IMAGE_CROSSINGS], node, port;
		unsigned crossings = entry->crossings;

		if (!more_packets && !more_words && !more_us)
			continue;
		tally->done[i].packets = packets;
		tally->done[i].words = dwords;
		tally->done[i].waited_us = waited_us;
		if (!crossings || crossings > IMAGE_CROSSINGS)
			continue;
		memcpy(exit, entry->exit, sizeof(exit));	/* it may write meanwhile */
		if (!fabric_image_port(room->fabric, exit[0], &node, &port) ||
		    room->plane->host[node] != host ||
		    !fabric_count_path(room->fabric, exit, crossings, entry->is_multicast,
				       more_packets, more_words) || !more_us)
			continue;
		/* At the port of who sends, and at the one before the receiver: data.c. */
		if (more_us > passed_us)
			more_us = passed_us;
		fabric_port_waited(room->fabric, node, port, more_us, room->now_us);
		if (crossings > 1 && fabric_image_port(room->fabric, exit[crossings - 1], &node, &port))
			fabric_port_waited(room->fabric, node, port, more_us, room->now_us);
	}
	tally->folded_us = room->now_us;
}

void plane_tally_reset(struct plane_tally *tally)
{
	if (!tally)
		return;
	memset(tally->done, 0, sizeof(tally->done));
	atomic_store_explicit(&tally->tally->used, 0, memory_order_relaxed);
}

/* ---- to a program ---- */

struct plane_tally *plane_give(struct visitor *visitor)
{
	struct plane_image *image = visitor->room->plane->image;
	struct ctl_head head = { .magic = CTL_MAGIC, .version = CTL_VERSION, .kind = CTL_END,
				 .value = visitor->room->hash };
	struct iovec iov = { .iov_base = &head, .iov_len = sizeof(head) };
	union {
		struct cmsghdr head;
		char bytes[CMSG_SPACE(2 * sizeof(int))];
	} control = { 0 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct plane_tally *tally = NULL;
	int fds[2] = { image ? image->fd : -1, -1 };

	/* Behind answers that it has not read, descriptors would have to wait. */
	if (image && list_empty(&visitor->queue))
		fds[1] = plane_tally_new(visitor->room->now_us, &tally);
	if (fds[1] < 0)
		return NULL;
	control.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(fds)),
					 .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS };
	memcpy(CMSG_DATA(&control.head), fds, sizeof(fds));
	if (sendmsg(visitor->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
		plane_tally_free(tally);
		tally = NULL;
	}
	close(fds[1]);
	return tally;
}
