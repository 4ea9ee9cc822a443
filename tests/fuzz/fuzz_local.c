/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: what a peer process on this host may say to us, in any order: hellos, control
 * messages, heads of messages, anything at all in its side of the channel. The input is read as a
 * script: an operation, then its operands.
 *
 * What is accepted is in bounds, by rules written out here; data that is given out lies in the
 * peer's side; a region that holds can be read from end to end; what we sent completes once and in
 * order; a peer finds only the grants that it has. Nothing is kept of a hello that is refused.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "input.h"
#include "local/channel/ring_internal.h"
#include "local/grant/control.h"
#include "transport/refusal.h"
#include "local/grant/grant.h"
#include "local/channel/handshake.h"
#include "local/grant/peer_memory.h"
#include "transport/message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

#define STEPS_MAX	400u
#define PAGE_BYTES	4096u
#define BLOCK_MAX	(4 * PAGE_BYTES)
#define CHANNEL		2u
#define KEYS		16u
#define SEALS		(F_SEAL_SHRINK | F_SEAL_GROW | 0x0010 /* F_SEAL_FUTURE_WRITE */ | F_SEAL_SEAL)

__extension__ typedef unsigned __int128 wide;

struct world {
	struct grant_page *alive;	/* the peer's, of its grants to us */
	struct grant_page *page;	/* ours */
	struct grants grants;
	struct hazard_table *hazards;
	struct peer_memory *regions;
	struct link *link;
	struct counters counters;
	uint32_t sent, completed;
	uint32_t granted[KEYS];		/* ids; 0: none */
	uint32_t last_key;		/* that the peer named */
};

static struct channel_side *ours, *theirs;

#define require(truth) require_that((truth), #truth, __LINE__)

static void require_that(bool truth, const char *text, int line)
{
	if (truth)
		return;
	fprintf(stderr, "fuzz_local.c:%d: not so: %s\n", line, text);
	abort();
}

static uint32_t next32(struct input *input)
{
	uint32_t value = 0;
	unsigned i;

	for (i = 0; i < 4; i++)
		value = value << 8 | next8(input);
	return value;
}

/* So many bytes, in memory of just that size. */
static uint8_t *next_bytes(struct input *input, size_t bytes)
{
	uint8_t *exact = malloc(bytes ? bytes : 1);
	size_t i;

	require(exact != NULL);
	for (i = 0; i < bytes; i++)
		exact[i] = next8(input);
	return exact;
}

/* ---- control messages ---- */

static bool fits(uint64_t start, uint64_t bytes)
{
	return (wide)start + bytes <= (wide)1 << 64;
}

static void check_key(const struct control *control)
{
	if (!control->region) {
		require(!control->mapped);
		return;
	}
	require(fits(control->start, control->length) && fits(control->host, control->length));
	if (!control->mapped)
		return;
	require(fits(control->block, control->block_bytes) && control->host >= control->block);
	require((wide)control->host + control->length <= (wide)control->block + control->block_bytes);
}

static int block_of(uint64_t bytes, uint8_t shape)
{
	int fd;

	if (bytes > BLOCK_MAX || shape % 4 == 0)
		return -1;
	fd = memfd_create("block", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	require(fd >= 0 && !ftruncate(fd, (off_t)bytes));
	if (shape % 4 != 1)
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	return fd;
}

static void take_control(struct world *world, const struct control *control, uint8_t shape)
{
	require(control->kind >= CONTROL_ASK_QP && control->kind < CONTROL_KINDS);
	require(!control->refusal || drop_is_told(control->refusal));
	require(control->mapped <= 2);
	if (control->kind == CONTROL_KEY)
		check_key(control);
	if (control->kind == CONTROL_KEY && control->region)
		peer_region_add(world->regions, control,
				control->mapped ? block_of(control->block_bytes, shape) : -1);
	if (control->kind == CONTROL_KEY_GONE)
		peer_region_remove(world->regions, control->region);
}

static void hear_bytes(struct world *world, struct input *input)
{
	uint8_t shape = next8(input);
	size_t bytes = shape & 1 ? CONTROL_BYTES : next8(input) * 2u;
	uint8_t *data = next_bytes(input, bytes);
	struct control control;

	if (control_parse(data, bytes, &control))
		take_control(world, &control, shape >> 1);
	free(data);
}

/* Of numbers near what would be right. */
static void hear_control(struct world *world, struct input *input)
{
	uint8_t shape = next8(input), at = next8(input);
	struct control said = { .kind = shape % 8 ? CONTROL_KEY : CONTROL_KEY_GONE,
				.region = (uint32_t)(1 + at % 3) << GRANT_INDEX_BITS | at / 3 % 3,
				.key = next8(input) % KEYS, .mapped = next8(input) % 3 }, control;
	uint8_t *exact;

	world->last_key = said.key;
	said.block = (uint64_t)next8(input) * PAGE_BYTES;
	said.block_bytes = (uint64_t)(1 + next8(input) % 5) * PAGE_BYTES;
	said.length = (uint64_t)next8(input) * (shape & 2 ? 16 : 64);
	said.host = said.block + (shape & 4 ? next8(input) * 64u : said.block_bytes - said.length);
	said.start = shape & 1 ? said.host : (uint64_t)0 - said.length + (shape >> 6);
	if (at < 200)
		atomic_store(&world->alive->alive[grant_index(said.region)], said.region);
	exact = malloc(sizeof(said));
	require(exact != NULL);
	memcpy(exact, &said, sizeof(said));
	if (control_parse(exact, sizeof(said), &control))
		take_control(world, &control, shape >> 1);
	free(exact);
}

static void use_region(struct world *world, struct input *input)
{
	struct peer_region region;
	uint8_t choice = next8(input);
	uint32_t key = choice < 200 ? world->last_key : choice % KEYS;
	volatile uint8_t sum = 0;
	unsigned hazard;
	uint64_t i;

	peer_region_by_id(world->regions, next32(input), &region);
	if (!peer_region_find(world->regions, key, &region))
		return;
	require(region.key == key && fits(region.host, region.length));
	/* What it says in between, before the hazard is there. */
	if (choice % 4 == 0)
		hear_control(world, input);
	require(hazard_begin(world->hazards, region.id, 9, key, &hazard));
	if (choice % 4 == 1)
		hear_control(world, input);
	if (peer_region_holds(world->regions, &region) && region.mapped)
		for (i = 0; i < region.length; i += 64)
			sum = (uint8_t)(sum + region.mapped[i]);
	hazard_end(world->hazards, hazard);
}

/* ---- hellos ---- */

static int side_of(uint8_t shape, uint64_t bytes)
{
	int fd = memfd_create("side", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	require(fd >= 0 && !ftruncate(fd, (off_t)(bytes % (1u << 30))));
	fcntl(fd, F_ADD_SEALS, shape & 1 ? SEALS : shape);
	return fd;
}

static void send_hello(int fd, const void *hello, size_t bytes, int side_fd)
{
	struct iovec iov = { .iov_base = (void *)(uintptr_t)hello, .iov_len = bytes };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = { 0 };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes,
				  .msg_controllen = sizeof(control.bytes) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &side_fd, sizeof(int));
	require(sendmsg(fd, &message, MSG_NOSIGNAL) == (ssize_t)bytes);
}

static void check_hello(const struct handshake_peer *peer)
{
	const struct hello *hello = &peer->hello;
	unsigned i;

	require(hello->magic == HANDSHAKE_MAGIC && hello->version == HANDSHAKE_VERSION);
	require(!hello->verdict && hello->slot_count <= HANDSHAKE_SLOTS);
	for (i = 0; i < hello->slot_count; i++)
		require(hello->slot[i] > 0 && hello->slot[i] < SLOT_COUNT - 1);
	require((fcntl(peer->side_fd, F_GET_SEALS) & SEALS) == SEALS);
	require(lseek(peer->side_fd, 0, SEEK_END) == (off_t)hello->side_bytes);
	require(peer->pid == getpid());
}

static void hear_hello(struct input *input)
{
	struct hello hello = { .magic = HANDSHAKE_MAGIC, .version = HANDSHAKE_VERSION,
			       .slot_count = next8(input) % 6, .side_bytes = PAGE_BYTES };
	uint8_t changes = next8(input) % 8, shape = next8(input);
	struct handshake_peer peer = { .side_fd = -1 };
	uint8_t said[sizeof(hello) + 8] = { 0 };
	int fds[2], on = 1, side, next = dup(0), err;
	unsigned i;

	for (i = 0; i < HANDSHAKE_SLOTS; i++)
		hello.slot[i] = next8(input);
	while (changes--)
		((uint8_t *)&hello)[next8(input) % sizeof(hello)] = next8(input);
	close(next);
	require(!socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds));
	setsockopt(fds[0], SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
	side = side_of(shape, hello.side_bytes);
	memcpy(said, &hello, sizeof(hello));
	send_hello(fds[1], said, shape & 64 ? shape % sizeof(said) : sizeof(hello), side);
	close(side);
	peer.fd = fds[0];
	err = handshake_receive(&peer, 0);
	require(err != EAGAIN);
	if (!err)
		check_hello(&peer);
	handshake_close(&peer);
	close(fds[1]);
	side = dup(0);
	require(side == next);
	close(side);
}

/* ---- heads of messages ---- */

static void parse_message(struct input *input)
{
	uint32_t head[MESSAGE_WORDS], bytes = next8(input) * 4u;
	struct local_message message;
	uint8_t *data;
	unsigned i;

	for (i = 0; i < MESSAGE_WORDS; i++)
		head[i] = next32(input);
	head[2] &= next8(input) & 1 ? UINT32_MAX : 0x1fffffff;
	if (next8(input) & 1)
		head[4] = bytes - (head[2] >> 24 & MESSAGE_WRITE ? MESSAGE_TARGET_BYTES : 0);
	if (next8(input) & 1)
		head[1] = (head[1] & 0xffffff) | bytes / (uint32_t)sizeof(struct message_piece) << 24;
	data = next_bytes(input, bytes);
	if (message_parse(head, data, bytes, &message)) {
		uint32_t behind =
			message.flags & MESSAGE_RENDEZVOUS
				? message.piece_count * (uint32_t)sizeof(struct message_piece)
				: message.length;

		require(message.data >= data && message.data + behind == data + bytes);
		require(message.piece_count <= MESSAGE_PIECES_MAX ||
			!(message.flags & MESSAGE_RENDEZVOUS));
		require(!(message.flags & ~MESSAGE_FLAGS));
	}
	free(data);
}

/* ---- its side of the channel ---- */

static void scribble(struct world *world, struct input *input)
{
	struct ring_link *rings = ring_of(world->link);
	uint32_t next = rings->channel[CHANNEL]->consumer.taken;
	struct channel_cell *cell = &theirs->cell[(next + next8(input) % 3) % CHANNEL_CELLS];
	uint8_t choice = next8(input);

	switch (choice % 8) {
	case 0:
		theirs->consumed = choice & 64 ? next32(input) : theirs->consumed + next8(input) % 4;
		break;
	case 1:
		theirs->refused[next8(input) % (CHANNEL_CELLS / 64)] = next32(input);
		break;
	case 2:
		theirs->asleep = next32(input);
		theirs->reach = next32(input);
		break;
	case 3:
		cell->taken = next32(input);
		break;
	case 4:
		cell->message.offset = cell->offset = next32(input) >> choice / 16;
		break;
	case 5:
		cell->bytes_route = next32(input) & (choice & 64 ? UINT32_MAX : 0x0100ffff);
		break;
	case 6:
		cell->sequence = choice & 64 ? next32(input) : next + 1;
		break;
	default:
		cell->segment_bytes = next32(input);
		break;
	}
}

/* The next cell, as an honest peer fills it, but for what the input changes then. */
static void put(struct world *world, struct input *input)
{
	struct ring_link *rings = ring_of(world->link);
	uint32_t next = rings->channel[CHANNEL]->consumer.taken;
	struct channel_cell *cell = &theirs->cell[next % CHANNEL_CELLS];
	uint8_t choice = next8(input), size = next8(input);
	uint32_t bytes = choice & 2 ? size : size * 257u, offset = next8(input) * 4096u;
	struct control control = { .kind = 1 + size % (CONTROL_KINDS - 1), .key = size % KEYS };

	if (choice & 4 && bytes <= CHANNEL_DATA_BYTES)
		offset = CHANNEL_DATA_BYTES - bytes;
	if (choice % 8 == 1)
		bytes = CONTROL_BYTES;
	cell->bytes_route = bytes | (choice & 1 ? 0 : 1 + choice % 255u) << 24;
	if (choice & 1) {
		cell->taken = world->completed + choice / 64;
		cell->message.offset = offset;
		if (bytes == CONTROL_BYTES && offset <= CHANNEL_DATA_BYTES - CONTROL_BYTES)
			memcpy(theirs->data + offset, &control, CONTROL_BYTES);
	} else {
		cell->segment_bytes = choice & 8 ? size : 0;
		cell->offset = offset;
	}
	if (choice >= 240)
		scribble(world, input);
	cell->sequence = next + 1;
}

static void require_in_side(const uint8_t *data, size_t bytes)
{
	require(data >= theirs->data && bytes <= CHANNEL_DATA_BYTES);
	require(data <= theirs->data + CHANNEL_DATA_BYTES - bytes);
}

static void receive_message(struct world *world, struct input *input)
{
	struct ring_message message;
	struct control control;

	if (!ring_peek(world->link, &message))
		return;
	require(message.channel == CHANNEL);
	if (message.data == message.inside)
		require(message.bytes <= RING_INSIDE);
	else
		require_in_side(message.data, message.bytes);
	if (control_parse(message.data, message.bytes, &control))
		take_control(world, &control, next8(input));
	ring_finish(world->link, &message, next8(input) & 1);
	ring_notify_answers(world->link);
}

static void receive(struct world *world)
{
	struct datagram in[16];
	volatile uint8_t sum = 0;
	unsigned n, i;

	require(!world->link->ops->receive(world->link, in, 16, &n));
	for (i = 0; i < n; i++) {
		require(in[i].channel == CHANNEL && in[i].bytes >= DATAGRAM_BYTES_MIN);
		if (in[i].shared)
			require_in_side(in[i].data, in[i].bytes);
		sum = (uint8_t)(sum + in[i].data[0] + in[i].data[in[i].bytes - 1]);
	}
}

static void send_message(struct world *world, struct input *input)
{
	struct ring_room room;
	size_t bytes = next8(input) * 256u;

	if (ring_send_begin(world->link, CHANNEL, bytes, &room))
		return;
	require(bytes <= RING_INSIDE || (room.data >= ours->data &&
					   room.data + bytes <= ours->data + CHANNEL_DATA_BYTES));
	memset(room.data, 1, bytes);
	ring_send_end(world->link, &room, ++world->sent);
}

static void take_answer(struct world *world)
{
	struct ring_answer answer;

	while (ring_take_answer(world->link, CHANNEL, &answer))
		require(answer.owner == ++world->completed);
	require(world->completed <= world->sent);
}

/* ---- our grants ---- */

static void grant(struct world *world, struct input *input)
{
	uint8_t choice = next8(input);
	uint32_t key = next8(input) % KEYS, found, id;
	enum grant_kind kind = key & 1 ? GRANT_QP : GRANT_REGION;
	bool fresh;

	switch (choice % 4) {
	case 0:
		id = grant_get(&world->grants, kind, key, &fresh);
		require(id && fresh == !world->granted[key]);
		world->granted[key] = id;
		break;
	case 1:
		id = grant_kill(&world->grants, kind, key);
		require(id == world->granted[key]);
		world->granted[key] = 0;
		if (id)
			grant_free(&world->grants, id);
		break;
	default:
		id = choice & 64 ? world->granted[key] : next32(input);
		if (grant_find(&world->grants, choice & 128 ? GRANT_QP : GRANT_REGION, id, &found))
			require(found < KEYS && world->granted[found] == id);
		grant_free(&world->grants, id);	/* that is not dying: no effect */
		break;
	}
}

/* ---- the run ---- */

static void ring_nothing(int bell_fd)
{
	require(bell_fd == 5);
}

static struct channel_side *fresh_side(struct channel_side *side)
{
	void *memory = side;

	if (!side)
		memory = mmap(NULL, channel_side_bytes(), PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	require(memory != MAP_FAILED);
	madvise(memory, channel_side_bytes(), MADV_DONTNEED);
	return memory;
}

static void build(struct world *world)
{
	ours = fresh_side(ours);
	theirs = fresh_side(theirs);
	world->alive = calloc(1, sizeof(*world->alive));
	world->page = calloc(1, sizeof(*world->page));
	world->hazards = aligned_alloc(64, sizeof(*world->hazards));
	require(world->alive && world->page && world->hazards);
	*world->hazards = (struct hazard_table){ 0 };
	grants_init(&world->grants, world->page);
	world->regions = peer_memory_new(world->alive, world->hazards);
	require(world->regions != NULL);
	require(!ring_open(&world->link, &world->counters, ring_nothing));
	require(!ring_add(world->link, CHANNEL, ours, theirs, 5));
}

static void tear_down(struct world *world)
{
	struct ring_answer answer;

	ring_remove(world->link, CHANNEL);
	while (ring_take_answer_lost(world->link, CHANNEL, &answer))
		require(answer.owner == ++world->completed);
	require(world->completed == world->sent);
	world->link->ops->close(world->link);
	peer_memory_free(world->regions);
	grants_fini(&world->grants);
	free(world->hazards);
	free(world->page);
	free(world->alive);
}

static void step(struct world *world, struct input *input)
{
	switch (next8(input) % 20) {
	case 0:
		hear_bytes(world, input);
		break;
	case 1:
	case 2:
		hear_control(world, input);
		break;
	case 3:
	case 4:
		use_region(world, input);
		break;
	case 5:
		hear_hello(input);
		break;
	case 6:
		parse_message(input);
		break;
	case 7:
	case 8:
		scribble(world, input);
		break;
	case 9:
	case 15:
	case 16:
		put(world, input);
		break;
	case 10:
	case 17:
		receive_message(world, input);
		break;
	case 11:
	case 18:
		receive(world);
		break;
	case 12:
		send_message(world, input);
		break;
	case 13:
		take_answer(world);
		break;
	case 14:
		grant(world, input);
		break;
	default:
		ring_wake_peers(world->link);
		ring_sleep(world->link);
		break;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	struct input input = { .data = data, .left = length };
	struct world world = { .alive = NULL };
	unsigned steps = 0;

	build(&world);
	while (input.left && steps++ < STEPS_MAX)
		step(&world, &input);
	tear_down(&world);
	return 0;
}
