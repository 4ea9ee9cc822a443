/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that writes anything into everything it shares: its half of the rings, its hazards, the
 * tables of its arena, its pool, its card and what it hands over with it. The survivor neither
 * crashes nor hangs, and writes nowhere but where it was told to.
 *
 * The scribbler is a process like any other; it finds what it shares in /proc/self/maps.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "host/hazard.h"
#include "host/rendezvous.h"
#include "link/memory_internal.h"
#include "object/arena.h"
#include "transport/message.h"
#include "pair.h"

#define BYTES (1u << 18)

static uint64_t random_state;

static uint64_t random_u(void)
{
	uint64_t z = random_state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

struct shared {
	uint8_t *start;
	size_t bytes;
};

/* Our own arena, or the channel: writable and shared. */
static struct shared find(const char *name)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	struct shared found = {NULL, 0};
	unsigned long start, end;
	char line[512];

	while (fgets(line, sizeof(line), maps))
		if (strstr(line, name) && strstr(line, " rw-s ") &&
		    sscanf(line, "%lx-%lx", &start, &end) == 2)
			found = (struct shared){(uint8_t *)start, end - start};
	fclose(maps);
	CHECK(found.start, "no %s", name);
	return found;
}

static void scribble(struct shared where, unsigned times)
{
	static const uint64_t special[] = {0,
					   1,
					   UINT64_MAX,
					   UINT32_MAX,
					   UINT64_C(1) << 63,
					   UINT64_C(1) << 36,
					   4096,
					   0x7fffffffffff};

	while (times--) {
		size_t at = random_u() % (where.bytes / 8) * 8;
		uint64_t value = random_u() % 2 ? random_u() : special[random_u() % 8];
		unsigned width = 1u << random_u() % 4;

		memcpy(where.start + at + (8 - width) / 8 * 8, &value, width);
	}
}

/* ---- what is scribbled on ---- */

static struct channel_half *half_of_channel(unsigned half)
{
	static struct shared channel;
	size_t bytes = channel_half_bytes();

	if (!channel.start)
		channel = find("memfd:verbatim-channel");
	CHECK(channel.bytes >= 2 * bytes);
	return (struct channel_half *)(channel.start + half * bytes);
}

/* Cells, made to look valid: what is wrong is what they say. */
static void scribble_cells(void)
{
	unsigned k, i;

	for (k = 0; k < 2; k++) {
		struct channel_half *half = half_of_channel(k);

		for (i = 0; i < 200; i++) {
			struct channel_cell *cell = &half->cell[random_u() % CHANNEL_CELLS];

			cell->bytes_route = random_u() % 2
						    ? (uint32_t)random_u()
						    : (uint32_t)(random_u() % 70000) |
							      (uint32_t)(random_u() % 3) << 24;
			cell->segment_bytes = (uint32_t)random_u() % 5000;
			cell->offset = (uint32_t)random_u() % (2u << 20);
			if (random_u() % 4 == 0)
				cell->sequence = (uint32_t)random_u() % 3000;
		}
		scribble((struct shared){(uint8_t *)half, offsetof(struct channel_half, cell)}, 20);
		scribble((struct shared){half->data, CHANNEL_DATA_BYTES}, 2000);
	}
}

/* An address in the other end's memory, or close to it, or anywhere. */
static uint64_t some_target(const struct end *end)
{
	uint64_t address = end->there.memory - 4096 + random_u() % (BYTES + 8192);

	return random_u() % 8 ? address : random_u();
}

static uint32_t some_length(void)
{
	static const uint32_t length[] = {0,	 1,	28,	   29,	       64,
					  40000, BYTES, BYTES + 1, UINT32_MAX, 1u << 31};

	return random_u() % 2 ? length[random_u() % 10] : (uint32_t)random_u() % 70000;
}

/* What a message's data begins with: the target of a WRITE, or SGEs of ours. */
static void forge_data(const struct end *end, uint8_t *data)
{
	uint32_t target_key[2] = {random_u() % 8 ? end->there.rkey : (uint32_t)random_u(), 0};
	uint64_t target = some_target(end);
	struct ibv_sge sge;
	unsigned i;

	memcpy(data, &target, 8);
	memcpy(data + 8, target_key, 8);
	for (i = random_u() % 2; i < 8; i++) {
		sge = (struct ibv_sge){
			.addr = random_u() % 8 ? (uintptr_t)end->memory + random_u() % BYTES
					       : random_u(),
			.length = some_length(),
			.lkey = random_u() % 8 ? end->mr->lkey : (uint32_t)random_u()};
		memcpy(data + i * sizeof(sge), &sge, sizeof(sge));
	}
}

static uint32_t generation_of(const struct end *end)
{
	static struct arena *arena;

	if (!arena)
		arena = (struct arena *)find("memfd:verbatim-arena").start;
	return arena_qp(arena)[end->qp->qp_num & (QP_PER_SLOT - 1)].generation;
}

/* A message that could be meant, but for this or that, in the place that is looked at next. */
static void forge_message(const struct end *end, struct channel_half *half, uint32_t number)
{
	struct channel_cell *cell = &half->cell[number % CHANNEL_CELLS];
	uint32_t flags = (uint32_t)random_u() & 0x3f,
		 sges = (uint32_t)random_u() % (random_u() % 8 ? 9 : 256), length = some_length(),
		 bytes = length;

	if (flags & MESSAGE_PULL)
		bytes = sges * sizeof(struct ibv_sge);
	if (flags & MESSAGE_WRITE)
		bytes += MESSAGE_TARGET_BYTES;
	if (random_u() % 8 == 0)
		bytes = some_length();
	cell->bytes_route = bytes & 0xffffff;
	cell->taken = (uint32_t)random_u() % 3000;
	cell->message.head[0] = end->there.qpn | flags << 24;
	cell->message.head[1] = end->qp->qp_num | sges << 24;
	/* As many as have been executed: that is not known here. */
	cell->message.head[2] =
		(end->psn + (uint32_t)(random_u() % (1 + random_u() % 40))) & 0xffffff;
	cell->message.head[2] |= (generation_of(end) + !(random_u() % 16)) << 24;
	cell->message.head[3] = random_u() % 2 ? end->there.rkey : (uint32_t)random_u();
	cell->message.head[4] = length;
	if (bytes > MEMORY_INSIDE) {
		cell->message.offset = random_u() % 8
					       ? (uint32_t)(random_u() % CHANNEL_DATA_BYTES & ~63ul)
					       : (uint32_t)random_u();
		if (cell->message.offset <= CHANNEL_DATA_BYTES - 256)
			forge_data(end, half->data + cell->message.offset);
	}
	cell->sequence = random_u() % 16 ? number + 1 : (uint32_t)random_u();
}

/*
 * Messages, and all that is said of those that the other end tells. In one of the halves what is
 * consumed is left as it is: so that messages are forged where they are looked for.
 */
static void scribble_messages(const struct end *end, unsigned seed)
{
	unsigned k, i;

	for (k = 0; k < 2; k++) {
		struct channel_half *half = half_of_channel(k);
		uint32_t number = half->consumed;

		for (i = 0; i < 20; i++)
			forge_message(end, half, number + i);
		scribble((struct shared){(uint8_t *)half->refused, sizeof(half->refused)}, 5);
		half->parts = (uint32_t)random_u();
		if (random_u() % 4 == 0)
			half->reach = (uint32_t)random_u();
		if (random_u() % 4 == 0)
			half->asleep = (uint32_t)random_u() % 5;
		if (k == seed % 2 && random_u() % 8 == 0)
			half->consumed += (uint32_t)random_u() % 4;
		if (k == seed % 2 && random_u() % 64 == 0)
			half->consumed = (uint32_t)random_u();
	}
}

/* Regions whose keys are right and all else is not. */
static void scribble_regions(const struct end *end)
{
	struct arena *arena = (struct arena *)find("memfd:verbatim-arena").start;
	struct mr_entry *entry = (struct mr_entry *)((char *)arena + arena->mr_offset) +
				 end->mr->rkey / (1u << (32 - MR_INDEX_BITS));
	struct mr_mapping *mapping = (struct mr_mapping *)((char *)arena + arena->mapping_offset) +
				     end->mr->rkey / (1u << (32 - MR_INDEX_BITS));
	static const uint64_t wild[] = {0,
					UINT64_MAX,
					UINT64_C(1) << 36,
					(UINT64_C(1) << 36) - 64,
					0x7ffffffff000,
					UINT64_C(1) << 63,
					1};

	switch (random_u() % 4) {
	case 0:
		mapping->pool = random_u() % 2 ? random_u() : wild[random_u() % 7];
		mapping->bytes = random_u() % 2 ? UINT64_MAX : mapping->bytes;
		break;
	case 1:
		mapping->first = random_u() % 2 ? random_u() : wild[random_u() % 7];
		mapping->bytes = UINT64_MAX;
		break;
	case 2:
		entry->host = random_u() % 2 ? random_u() : wild[random_u() % 7];
		break;
	default:
		entry->start = 0;
		entry->length = UINT64_MAX;
		entry->kind = (uint32_t)random_u() % 6;
		entry->parent = (uint32_t)random_u();
		entry->access = UINT32_MAX;
	}
}

/* Where tables lie, how large they are, counters, queue pairs: everything, in the end. */
static void scribble_arena(void)
{
	struct shared arena = find("memfd:verbatim-arena");
	struct arena *header = (struct arena *)arena.start;

	header->mr_offset = random_u();
	header->qp_offset = random_u();
	header->mapping_offset = UINT64_MAX - 8;
	header->mr_count = header->qp_count = UINT32_MAX;
	scribble((struct shared){arena.start + sizeof(*header), arena.bytes - sizeof(*header)},
		 100000);
}

struct plan {
	enum { RINGS, MESSAGES, REGIONS, ARENA } what;
	unsigned seed;
};

/* Its own library may well fall over what it does; then that was its end, as at the end of its
 * time. */
static void scribbler(struct end *end, void *argument)
{
	const struct plan *plan = argument;
	double until;

	random_state = plan->seed;
	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	meet(end);
	until = now() + (long_run ? 1 : 0.25);
	while (now() < until) {
		if (plan->what == RINGS)
			scribble_cells();
		else if (plan->what == MESSAGES)
			scribble_messages(end, plan->seed);
		else if (plan->what == REGIONS)
			scribble_regions(end);
		else
			scribble_arena();
		usleep(plan->what == MESSAGES ? 20 : 500);
	}
	raise(SIGKILL);
}

#define RECEIVE 2
#define RECEIVES 8u

static unsigned received; /* of those that were given last */

static void give_receives(struct end *end)
{
	static const uint32_t size[] = {0, 64, 40000, BYTES / 2};
	unsigned i;

	received = 0;
	for (i = 0; i < RECEIVES; i++)
		CHECK(!post_receive(end, random_u() % 1000 * 8, size[i % 4], RECEIVE), "%m");
}

/* The completion of the request that was posted; receives complete as they like. */
static enum ibv_wc_status wait_for_request(struct end *end)
{
	struct ibv_wc wc;

	for (;;) {
		CHECK(get(end, &wc, 20), "no completion");
		if (wc.wr_id != RECEIVE)
			return wc.status;
		if (wc.status == IBV_WC_SUCCESS && ++received == RECEIVES)
			give_receives(end);
	}
}

/* Requests of all kinds, whatever becomes of them; guard pages around all that may be written. */
static void endure(struct end *end, void *argument)
{
	const struct plan *plan = argument;
	char *guarded =
		mmap(NULL, 3 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	double until = now() + (long_run ? 4 : 0.7);
	size_t i;

	random_state = plan->seed + 1000;
	memset(guarded, 0x5a, 3 * BYTES);
	end->timeout = 12;
	end->retry_count = 1;
	if (plan->what == MESSAGES)
		end->rnr_retry = 1;
	end_open(end, 0, 0);
	end->memory = guarded + BYTES;
	end->bytes = BYTES;
	end->mr = ibv_reg_mr(end->pd, end->memory, BYTES, ALL_ACCESS);
	CHECK(end->mr, "%m");
	end_connect(end);
	give_receives(end);
	meet(end);
	while (now() < until) {
		static const enum ibv_wr_opcode kind[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ,
							  IBV_WR_SEND, IBV_WR_ATOMIC_FETCH_AND_ADD};
		enum ibv_wr_opcode opcode = kind[random_u() % 4];
		uint32_t bytes = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8
				 : random_u() % 2		       ? 64
								       : 40000;

		if (post(end, opcode, random_u() % 1000 * 8, bytes, random_u() % 1000 * 8, 1))
			continue;
		if (wait_for_request(end) != IBV_WC_SUCCESS) {
			end_raise(end, IBV_QPS_RTS);
			give_receives(end);
		}
	}
	for (i = 0; i < BYTES; i++)
		CHECK(guarded[i] == 0x5a && guarded[2 * BYTES + i] == 0x5a,
		      "written out of bounds");
	end_close(end);
}

static bool endures(int what)
{
	static const char *const mode[] = {MAPPED_MODE, "copy", "ring"};
	unsigned i, rounds = long_run ? 30 : what == MESSAGES ? 6 : 3;

#ifdef THREAD_SANITIZER
	return skip("scribbling is a race, which ends the scribbler");
#endif
	for (i = 0; i < rounds; i++) {
		struct plan plan = {.what = what, .seed = i};
		struct pair pair;
		int status;

		pair_start(&pair, mode[i % 3], endure, scribbler, &plan);
		status = pair_wait(&pair, LEFT, 60);
		pair_wait(&pair, RIGHT, 5);
		if (status) {
			printf("# mode %s seed %u: 0x%x\n", mode[i % 3], i, status);
			return false;
		}
	}
	return true;
}

static bool garbage_in_rings_does_no_harm(void)
{
	return endures(RINGS);
}

static bool garbage_in_messages_does_no_harm(void)
{
	return endures(MESSAGES);
}

static bool garbage_in_the_region_table_does_no_harm(void)
{
	return endures(REGIONS);
}

static bool garbage_in_the_arena_does_no_harm(void)
{
	return endures(ARENA);
}

/* ---- hazards ---- */

static void name_keys(struct end *end, void *argument)
{
	struct shared channel;
	uint64_t use;
	unsigned i;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	channel = find("memfd:verbatim-channel");
	use = (uint64_t)end->there.rkey << 32 | end->there.qpn;
	for (i = 0; i < 2 * PAGE / 64; i++)
		__atomic_store_n((uint64_t *)(channel.start + channel.bytes - 2 * PAGE + i * 64),
				 use, __ATOMIC_RELAXED); /* our own library reads there too */
	meet(end);
	(void)hear(end->peer, &use, 1);
}

static void deregisters(struct end *end, void *argument)
{
	double begin_s, took_s;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	meet(end);
	begin_s = now();
	CHECK(!ibv_dereg_mr(end->mr));
	took_s = now() - begin_s;
	CHECK(took_s > 4 && took_s < 12, "%.1f s", took_s);
	end->mr = NULL;
	/* Once is enough: it is not believed any more. */
	begin_s = now();
	CHECK(!ibv_destroy_qp(end->qp));
	CHECK(now() - begin_s < 2, "%.1f s", now() - begin_s);
	end->qp = NULL;
	end_close(end);
	close(end->peer);
}

static bool a_peer_that_names_keys_for_ever_is_not_waited_for(void)
{
	return pair_run(MAPPED_MODE, deregisters, name_keys, NULL, 40);
}

/* A stopped one may be in the middle of it: it is waited for, until it goes on or ends. */
static void deregisters_stopped(struct end *end, void *argument)
{
	double begin_s;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	meet(end);
	tell(end->test, "m", 1);
	begin_s = now();
	CHECK(!ibv_dereg_mr(end->mr));
	CHECK(now() - begin_s > 6, "%.1f s", now() - begin_s);
	end->mr = NULL;
	end_close(end);
}

static bool a_stopped_peer_is_waited_for(void)
{
	struct pair pair;
	char byte;
	bool good;

	pair_start(&pair, MAPPED_MODE, deregisters_stopped, name_keys, NULL);
	good = hear(pair.socket[LEFT], &byte, 1);
	kill(pair.pid[RIGHT], SIGSTOP);
	usleep(7000000);
	kill(pair.pid[RIGHT], SIGKILL);
	pair_wait(&pair, RIGHT, 5);
	return pair_wait(&pair, LEFT, 20) == 0 && good;
}

/* ---- cards ---- */

static int connect_to_a_listener(void)
{
	FILE *sockets = fopen("/proc/net/unix", "r");
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	char line[512], *at;
	int fd = -1;

	while (fd < 0 && fgets(line, sizeof(line), sockets)) {
		at = strstr(line, "@" RENDEZVOUS_NAME);
		if (!at)
			continue;
		at[strcspn(at, "\n")] = '\0';
		memcpy(name.sun_path + 1, at + 1, strlen(at + 1));
		fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
		if (connect(fd, (struct sockaddr *)&name,
			    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
					strlen(at + 1)))) {
			close(fd);
			fd = -1;
		}
	}
	fclose(sockets);
	return fd;
}

static int some_fd(size_t bytes)
{
	int fd, pipes[2];

	switch (random_u() % 6) {
	case 0:
		return eventfd(0, EFD_CLOEXEC);
	case 1:
		if (pipe(pipes))
			return -1;
		close(pipes[0]);
		return pipes[1];
	case 2:
		return open("/dev/zero", O_RDWR | O_CLOEXEC);
	case 3:
		fd = memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB);
		break;
	default:
		fd = memfd_create("some", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	}
	if (fd >= 0 && !ftruncate(fd, (off_t)bytes))
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
	return fd >= 0 ? fd : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

static void send_card(int socket, const struct rendezvous_card *card, size_t bytes)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(8 * sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)card, bytes};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control};
	unsigned count = random_u() % 8 ? 4 : (unsigned)(random_u() % 8), i;
	int fds[8];
	const size_t size[4] = {card->arena_bytes, 8, card->pool_bytes, card->channel_bytes};

	for (i = 0; i < count; i++)
		fds[i] = i == 1 && random_u() % 2 ? eventfd(0, EFD_CLOEXEC) : some_fd(size[i % 4]);
	control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
					  .cmsg_type = SCM_RIGHTS,
					  .cmsg_len = CMSG_LEN(count * sizeof(int))};
	memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	message.msg_controllen = count ? CMSG_SPACE(count * sizeof(int)) : 0;
	sendmsg(socket, &message, MSG_NOSIGNAL);
	for (i = 0; i < count; i++)
		close(fds[i]);
}

static struct rendezvous_card random_card(void)
{
	struct rendezvous_card card = {.magic = 0x56624d52,
				       .version = 2,
				       .slot_count = (uint32_t)random_u() % 6,
				       .arena_bytes = arena_bytes(),
				       .pool_bytes = UINT64_C(1) << 36,
				       .channel_bytes = 2 * (channel_half_bytes() + PAGE),
				       .guard_address = random_u()};
	unsigned i;

	for (i = 0; i < RENDEZVOUS_SLOTS; i++)
		card.slot[i] = (uint32_t)random_u() % 1100;
	for (i = 0; i < 2 && random_u() % 2; i++)
		((uint8_t *)&card)[random_u() % sizeof(card)] = (uint8_t)random_u();
	return card;
}

static void visitor(struct end *end, void *argument)
{
	unsigned i, visits = long_run ? 3000 : 150;
	int held[16];

	random_state = 5;
	memset(held, -1, sizeof(held));
	meet(end);
	for (i = 0; i < visits; i++) {
		struct rendezvous_card card = random_card();
		int fd = connect_to_a_listener(), *hold = &held[i % 16];

		if (fd < 0)
			continue;
		if (random_u() % 16)
			send_card(fd, &card, random_u() % 8 ? sizeof(card) : random_u() % 100);
		if (*hold >= 0)
			close(*hold);
		*hold = fd;
	}
	meet(end);
}

static void host(struct end *end, void *argument)
{
	end_open(end, BYTES, ALL_ACCESS);
	meet(end);
	meet(end);
	usleep(100000);
	end_close(end);
}

static bool garbage_at_the_door_does_no_harm(void)
{
	return pair_run(MAPPED_MODE, host, visitor, NULL, 60);
}

int main(int argc, char **argv)
{
#define TEST(name)                                                                                 \
	{                                                                                          \
#name, name                                                                        \
	}
	const struct test tests[] = {
		TEST(garbage_in_rings_does_no_harm),
		TEST(garbage_in_messages_does_no_harm),
		TEST(garbage_in_the_region_table_does_no_harm),
		TEST(garbage_in_the_arena_does_no_harm),
		TEST(a_peer_that_names_keys_for_ever_is_not_waited_for),
		TEST(a_stopped_peer_is_waited_for),
		TEST(garbage_at_the_door_does_no_harm),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
