/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A peer that writes anything into everything it shares: its side of the channel (rings, hazards, grants),
 * control messages, descriptors on the socket, its hello and what comes with it. The survivor neither
 * crashes nor hangs, and writes nowhere but where it was told to. And of the survivor's the peer can
 * write nothing at all.
 *
 * The scribbler is a process like any other; what it shares it finds in its own tables.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "device/internal.h"
#include "local/channel/ring_internal.h"
#include "local/channel/peer.h"
#include "transport/refusal.h"
#include "pair.h"
#include "transport/message.h"
#include "verbs/verbs.h"

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

/* The channel to the other end. */
static struct peer *peer_of(const struct end *end)
{
	struct peer *peer = peer_of_slot(&to_hca(end->context)->hca->engine.local,
					 qpn_slot(end->there.qpn));

	CHECK(peer, "no memory is shared");
	return peer;
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

/* Cells, made to look valid: what is wrong is what they say. */
static void scribble_cells(const struct peer *peer)
{
	struct channel_side *side = (struct channel_side *)peer->ours;
	unsigned i;

	for (i = 0; i < 200; i++) {
		struct channel_cell *cell = &side->cell[random_u() % CHANNEL_CELLS];

		cell->bytes_route = random_u() % 2 ? (uint32_t)random_u()
						   : (uint32_t)(random_u() % 70000) |
							     (uint32_t)(random_u() % 3) << 24;
		cell->segment_bytes = (uint32_t)random_u() % 5000;
		cell->offset = (uint32_t)random_u() % (2u << 20);
		if (random_u() % 4 == 0)
			cell->sequence = (uint32_t)random_u() % 3000;
	}
	scribble((struct shared){(uint8_t *)side, offsetof(struct channel_side, cell)}, 20);
	scribble((struct shared){side->data, CHANNEL_DATA_BYTES}, 2000);
}

/* All of it: hazards and grants too. */
static void scribble_side(const struct peer *peer)
{
	uint8_t *hazards = (uint8_t *)peer->hazards;

	scribble((struct shared){hazards, sizeof(struct hazard_table)}, 10);
	scribble((struct shared){(uint8_t *)peer->grants.page, sizeof(struct grant_page)}, 100);
	if (random_u() % 4 == 0)
		scribble((struct shared){peer->ours, peer_side_bytes()}, 1000);
}

/* One that lives, most often; the other end's, or ours. */
static uint32_t some_grant(const struct grant_page *page)
{
	uint32_t index = (uint32_t)random_u() % 4;

	return random_u() % 8 ? page->alive[index] : (uint32_t)random_u();
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

/* What a message's data begins with: the target of a WRITE, or pieces of our memory. */
static void forge_data(const struct end *end, const struct peer *peer, uint8_t *data)
{
	uint32_t target_key[2] = {random_u() % 8 ? end->there.rkey : (uint32_t)random_u(), 0};
	uint64_t target = some_target(end);
	struct message_piece piece;
	unsigned i;

	memcpy(data, &target, 8);
	memcpy(data + 8, target_key, 8);
	for (i = random_u() % 2; i < 8; i++) {
		piece = (struct message_piece){
			.address = random_u() % 8 ? (uintptr_t)end->memory + random_u() % BYTES
						  : random_u(),
			.region = some_grant(peer->grants.page),
			.length = some_length()};
		memcpy(data + i * sizeof(piece), &piece, sizeof(piece));
	}
}

static uint32_t forge_head(const struct end *end, const struct peer *peer, uint32_t head[5])
{
	uint32_t flags = (uint32_t)random_u() & 0x3f, length = some_length(), bytes = length,
		 pieces = (uint32_t)random_u() % (random_u() % 8 ? 9 : 256);

	if (flags & MESSAGE_RENDEZVOUS)
		bytes = pieces * sizeof(struct message_piece);
	if (flags & MESSAGE_WRITE)
		bytes += MESSAGE_TARGET_BYTES;
	head[0] = random_u() % 16 ? some_grant(peer->alive) : 0;
	head[1] = end->qp->qp_num | pieces << 24;
	/* As many as have been executed: that is not known here. */
	head[2] = (uint32_t)(random_u() % (1 + random_u() % 40)) | flags << 24;
	head[3] = random_u() % 2 ? end->there.rkey : (uint32_t)random_u();
	head[4] = length;
	return random_u() % 8 ? bytes : some_length();
}

/* A control message that could be meant, but for this or that. */
static void forge_control(const struct end *end, const struct peer *peer, uint8_t *data)
{
	static const uint64_t wild[] = {0, UINT64_MAX, UINT64_MAX - 64, 0x7ffffffff000, 1};
	uint64_t place = random_u() % 2 ? (uintptr_t)end->memory : wild[random_u() % 5];
	struct control control = {
		.kind = (uint32_t)random_u() % (CONTROL_KINDS + 1),
		.qpn = random_u() % 8 ? end->qp->qp_num : (uint32_t)random_u(),
		.owner_qpn = random_u() % 8 ? end->there.qpn : (uint32_t)random_u(),
		.qp = some_grant(random_u() % 2 ? peer->alive : peer->grants.page),
		.requester_qp = some_grant(random_u() % 2 ? peer->alive : peer->grants.page),
		.key = random_u() % 2 ? end->there.rkey : end->mr->rkey,
		.region = some_grant(peer->grants.page),
		.pd = (uint32_t)random_u() % 4,
		.access = (uint32_t)random_u() % 32,
		.psn = random_u() % 2 ? end->psn : (uint32_t)random_u(),
		.mtu = 4096,
		.refusal = random_u() % 2 ? 0 : (uint32_t)random_u() % 8,
		.value = random_u() % 2 ? (uint32_t)random_u() % 8 : (uint32_t)random_u(),
		.mapped = (uint32_t)random_u() % 3,
		.start = place,
		.length = random_u() % 2 ? BYTES : random_u() >> random_u() % 64,
		.host = place + random_u() % 3 * 64,
		.block = place,
		.block_bytes = random_u() % 2 ? BYTES : random_u() >> random_u() % 64};

	memcpy(data, &control, sizeof(control));
}

/* A message that could be meant, in the place that is looked at next. */
static void forge_message(const struct end *end, const struct peer *peer, uint32_t number,
			  bool controls)
{
	struct channel_side *side = (struct channel_side *)peer->ours;
	struct channel_cell *cell = &side->cell[number % CHANNEL_CELLS];
	bool is_control = controls && random_u() % 4;
	uint32_t head[5] = {0}, bytes = CONTROL_BYTES, offset;

	if (!is_control)
		bytes = forge_head(end, peer, head);
	else if (random_u() % 16 == 0)
		bytes = some_length();
	cell->bytes_route = bytes & 0xffffff;
	cell->taken = (uint32_t)random_u() % 3000;
	memcpy(cell->message.head, head, sizeof(head));
	if (bytes > RING_INSIDE) {
		offset = random_u() % 8 ? (uint32_t)(random_u() % CHANNEL_DATA_BYTES & ~63ul)
					: (uint32_t)random_u();
		cell->message.offset = offset;
		if (offset <= CHANNEL_DATA_BYTES - 256 && is_control)
			forge_control(end, peer, side->data + offset);
		else if (offset <= CHANNEL_DATA_BYTES - 256)
			forge_data(end, peer, side->data + offset);
	}
	cell->sequence = random_u() % 16 ? number + 1 : (uint32_t)random_u();
}

/* Messages, and all that is said of those that the other end tells. */
static void scribble_messages(const struct end *end, const struct peer *peer, unsigned seed,
			      bool controls)
{
	struct channel_side *side = (struct channel_side *)peer->ours;
	uint32_t number = ((const struct channel_side *)peer->theirs)->consumed;
	unsigned i;

	for (i = 0; i < 20; i++)
		forge_message(end, peer, number + i, controls);
	scribble((struct shared){(uint8_t *)side->refused, sizeof(side->refused)}, 5);
	side->parts = (uint32_t)random_u();
	if (random_u() % 4 == 0)
		side->reach = (uint32_t)random_u();
	if (random_u() % 4 == 0)
		side->asleep = (uint32_t)random_u() % 5;
	/* In every other round what is consumed is left as it is, so that more is told. */
	if (seed % 2 && random_u() % 8 == 0)
		side->consumed += (uint32_t)random_u() % 4;
	if (seed % 2 && random_u() % 64 == 0)
		side->consumed = (uint32_t)random_u();
}

/* ---- descriptors ---- */

static int some_fd(size_t bytes)
{
	int fd, pipes[2];

	switch (random_u() % 8) {
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
	if (fd >= 0 && !ftruncate(fd, (off_t)(random_u() % 4 ? bytes : random_u() % 100000)))
		fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW |
				       (random_u() % 2 ? F_SEAL_SEAL | 0x10 /* FUTURE_WRITE */ : 0));
	return fd >= 0 ? fd : open("/dev/null", O_RDONLY | O_CLOEXEC);
}

#define FDS_SENT 8u

static void send_fds(int socket, const void *text, size_t bytes, unsigned count, size_t fd_bytes)
{
	union {
		struct cmsghdr header;
		char space[CMSG_SPACE(FDS_SENT * sizeof(int))];
	} control = {0};
	struct iovec iov = {(void *)text, bytes};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control};
	int fds[FDS_SENT];
	unsigned i;

	for (i = 0; i < count; i++)
		fds[i] = some_fd(fd_bytes);
	control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
					  .cmsg_type = SCM_RIGHTS,
					  .cmsg_len = CMSG_LEN(count * sizeof(int))};
	memcpy(CMSG_DATA(&control.header), fds, count * sizeof(int));
	message.msg_controllen = count ? CMSG_SPACE(count * sizeof(int)) : 0;
	if (!count)
		message.msg_control = NULL;
	sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	for (i = 0; i < count; i++)
		close(fds[i]);
}

/* Bells, or blocks for the grants that the control messages name. */
static void scribble_socket(const struct peer *peer)
{
	uint32_t text[4] = {some_grant(peer->grants.page), (uint32_t)random_u()};
	size_t bytes = random_u() % 4 ? 4 : 1 + random_u() % sizeof(text);

	send_fds(peer->process.fd, text, bytes, random_u() % 4 ? 1 : (unsigned)random_u() % 9,
		 BYTES);
}

/* ---- the scribbler ---- */

struct plan {
	enum { RINGS, SIDE, MESSAGES, CONTROLS } what;
	unsigned seed;
};

static void scribble_once(const struct end *end, const struct peer *peer, const struct plan *plan)
{
	switch (plan->what) {
	case RINGS:
		scribble_cells(peer);
		break;
	case SIDE:
		scribble_side(peer);
		break;
	case CONTROLS:
		if (random_u() % 4 == 0)
			scribble_socket(peer);
		/* fall through */
	case MESSAGES:
		scribble_messages(end, peer, plan->seed, plan->what == CONTROLS);
	}
}

/* Both ends have asked for what there is to be granted. */
static void use_all(struct end *end)
{
	unsigned i;

	for (i = 0; i < 20; i++) {
		CHECK(transfer(end, IBV_WR_RDMA_READ, 0, 64, 0) == IBV_WC_SUCCESS);
		usleep(500);
	}
	meet(end);
}

/* Its own library may well fall over what it does; then that was its end, as at the end of its
 * time. */
static void scribbler(struct end *end, void *argument)
{
	const struct plan *plan = argument;
	const struct peer *peer;
	double until;

	random_state = plan->seed;
	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	use_all(end);
	peer = peer_of(end);
	until = now() + (long_run ? 1 : 0.25);
	while (now() < until) {
		scribble_once(end, peer, plan);
		usleep(plan->what >= MESSAGES ? 20 : 500);
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
	double until = now() + (long_run ? 2 : 0.7);
	size_t i;

	random_state = plan->seed + 1000;
	memset(guarded, 0x5a, 3 * BYTES);
	end->timeout = 12;
	end->retry_count = 1;
	if (plan->what >= MESSAGES)
		end->rnr_retry = 1;
	end_open(end, end->has_blocks ? BYTES : 0, ALL_ACCESS);
	if (!end->has_blocks) {
		end->memory = guarded + BYTES;
		end->mr = ibv_reg_mr(end->pd, end->memory, BYTES, ALL_ACCESS);
		CHECK(end->mr, "%m");
	}
	end_connect(end);
	use_all(end);
	give_receives(end);
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
	static const char *const mode[] = {"mapped", "copy", "ring", "auto"};
	unsigned i, rounds = long_run ? 16 : what >= MESSAGES ? 4 : 2;

#ifdef THREAD_SANITIZER
	return skip("scribbling is a race, which ends the scribbler");
#endif
	for (i = 0; i < rounds; i++) {
		struct plan plan = {.what = what, .seed = i};
		struct pair pair;
		int status;

		pair_start(&pair, mode[i % 4], endure, scribbler, &plan);
		status = pair_wait(&pair, LEFT, 60);
		pair_wait(&pair, RIGHT, 5);
		if (status) {
			printf("# mode %s seed %u: 0x%x\n", mode[i % 4], i, status);
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

static bool garbage_in_control_messages_does_no_harm(void)
{
	return endures(CONTROLS);
}

static bool garbage_in_hazards_and_grants_does_no_harm(void)
{
	return endures(SIDE);
}

/* ---- hazards ---- */

/* A region and a QP that the other end has granted; 0: not both yet. */
static uint64_t granted(const struct end *end)
{
	const struct peer *peer = peer_of(end);
	uint64_t use = 0;
	unsigned i;

	for (i = 0; i < GRANTS_MAX; i++) {
		uint32_t id = peer->alive->alive[i];

		if (id)
			use = use << 32 | id;
	}
	return use >> 32 ? use : 0;
}

/* All that the other end has granted is in use, it says, for ever. */
static void name_grants(struct end *end, void *argument)
{
	struct hazard_table *hazards;
	double until = now() + LIMIT_S;
	uint64_t use;
	unsigned i;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	use_all(end);
	while (!(use = granted(end))) {
		CHECK(now() < until, "no region and no QP is granted");
		CHECK(transfer(end, IBV_WR_RDMA_READ, 0, 64, 0) == IBV_WC_SUCCESS);
		usleep(500);
	}
	hazards = peer_of(end)->hazards;
	for (i = 0; i < HAZARDS; i++)
		hazards->slot[i].use = use; /* our own library reads there too */
	meet(end);
	(void)hear(end->peer, &use, 1);
	CHECK(end->memory[100] == 'u', "nothing came by another way");
}

static void deregister(struct end *end, bool is_stopped)
{
	struct local *local = &to_hca(end->context)->hca->engine.local;
	double begin_s = now(), took_s;
	struct ibv_mr *other;

	other = ibv_reg_mr(end->pd, end->memory, BYTES, ALL_ACCESS);
	CHECK(other, "%m");
	CHECK(!ibv_dereg_mr(end->mr));
	took_s = now() - begin_s;
	CHECK(took_s > 0.9 && took_s < 4, "%.1f s", took_s);
	end->mr = other;
	/* Once is enough: it has lost its channel. */
	begin_s = now();
	while (peer_of_slot(local, qpn_slot(end->there.qpn)) && now() < begin_s + 5)
		usleep(1000);
	CHECK(!peer_of_slot(local, qpn_slot(end->there.qpn)), "the channel is still there");
	if (is_stopped) {
		tell(end->test, "s", 1);
		CHECK(hear(end->test, &took_s, 1)); /* it goes on */
	}
	end->memory[0] = 'u';
	CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 1, 100) == IBV_WC_SUCCESS);
	begin_s = now();
	CHECK(!ibv_destroy_qp(end->qp));
	CHECK(now() - begin_s < 0.9, "%.1f s", now() - begin_s);
	end->qp = NULL;
	close(end->peer);
	end_close(end);
}

static void deregisters(struct end *end, void *argument)
{
	end->timeout = 18; /* 1 s: the other end waits for its own hazards, before it gives up the channel */
	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	use_all(end);
	meet(end);
	if (argument) {
		tell(end->test, "m", 1);
		CHECK(hear(end->test, &end->rnr_retry, 1)); /* it is stopped */
	}
	deregister(end, argument);
}

static bool a_peer_that_names_grants_for_ever_loses_its_channel(void)
{
	return pair_run("mapped", deregisters, name_grants, NULL, 40) &&
	       pair_run("copy", deregisters, name_grants, NULL, 40);
}

/* The same of one that is honest, but stopped in the middle of it. */
static bool so_does_one_that_is_stopped(void)
{
	struct pair pair;
	char byte;
	bool good;

	pair_start(&pair, "copy", deregisters, name_grants, &pair);
	good = hear(pair.socket[LEFT], &byte, 1);
	pair_stop(&pair, RIGHT);
	tell(pair.socket[LEFT], "s", 1);
	good = good && hear(pair.socket[LEFT], &byte, 1);
	kill(pair.pid[RIGHT], SIGCONT);
	tell(pair.socket[LEFT], "c", 1);
	return pair_end(&pair, 30) && good;
}

/* ---- what of the other end's can be written ---- */

static void owns(struct end *end, void *argument)
{
	end_open(end, BYTES, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	end_connect(end);
	use_all(end);
	meet(end);
	end_close(end);
}

/* Not by mprotect(), nor by opening what is mapped there anew, which root may. */
static void cannot_be_made_writable(char *start, size_t bytes)
{
	char path[100];
	void *mapped;
	int fd;

	CHECK(mprotect(start, bytes, PROT_READ | PROT_WRITE) && errno == EACCES, "%m");
	snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", (unsigned long)start,
		 (unsigned long)start + bytes);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return;
	mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(mapped == MAP_FAILED && errno == EPERM, "%m");
	CHECK(write(fd, "x", 1) < 0 && errno == EPERM, "%m");
	CHECK(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 4096), "a hole");
	CHECK(ftruncate(fd, 0) && ftruncate(fd, 1 << 30), "another size");
	close(fd);
}

/* An attempt to connect that crossed the other's is given up a moment later, and its side with it. */
static void await_map_lines(const char *rights, unsigned count)
{
	unsigned i;

	for (i = 0; i < 100 && map_lines(rights) != count; i++)
		usleep(10000);
}

static void looks_for_more(struct end *end, void *argument)
{
	size_t bytes;
	char *start;

	end_open(end, BYTES, ALL_ACCESS);
	end_connect(end);
	use_all(end);
	await_map_lines(" rw-s ", 2);
	/* Of the channel our side, and of blocks our own; theirs are for reading. */
	CHECK(map_lines(" rw-s ") == 2, "%u shared mappings are writable", map_lines(" rw-s "));
	CHECK(find_mapping(CHANNEL_MAPPING, " rw-s ", &start, &bytes) &&
	      start == (char *)peer_of(end)->ours);
	CHECK(find_mapping(BLOCK_MAPPING, " rw-s ", &start, &bytes) && start == end->memory);
	CHECK(map_lines(" r--s ") == 2, "%u shared mappings are readable", map_lines(" r--s "));
	CHECK(find_mapping(CHANNEL_MAPPING, " r--s ", &start, &bytes));
	cannot_be_made_writable(start, bytes);
	CHECK(find_mapping(BLOCK_MAPPING, " r--s ", &start, &bytes));
	cannot_be_made_writable(start, bytes);
	meet(end);
	end_close(end);
}

static bool a_peer_can_write_its_own_side_only(void)
{
	return pair_run("mapped", owns, looks_for_more, NULL, 30);
}

/* ---- hellos ---- */

#define VISITORS_SLOTS 32u

static struct slot visitors[VISITORS_SLOTS];

/* Most name slots that are the visitor's, and prove it. */
static struct hello random_hello(uint32_t listener)
{
	const struct slot *slot;
	struct hello hello = {.magic = HANDSHAKE_MAGIC,
			      .version = HANDSHAKE_VERSION,
			      .slot_count = (uint32_t)random_u() % 6,
			      .side_bytes = peer_side_bytes(),
			      .guard = random_u() >> random_u() % 64,
			      .nonce = random_u() | 1,
			      .late = random_u() % 2};
	unsigned i;

	for (i = 0; i < HANDSHAKE_SLOTS; i++) {
		slot = &visitors[random_u() % VISITORS_SLOTS];
		hello.slot[i] = random_u() % 16 ? slot->number : 2 + (uint32_t)random_u() % 1021;
		if (random_u() % 16)
			slot_prove(slot, listener, hello.nonce);
	}
	for (i = 0; i < 2 && random_u() % 2; i++)
		((uint8_t *)&hello)[random_u() % sizeof(hello)] = (uint8_t)random_u();
	return hello;
}

/* An answer with a side of theirs; else it was refused. */
static bool is_admitted(int fd)
{
	struct handshake_peer peer = {.fd = dup(fd), .side_fd = -1};
	bool admitted = !handshake_receive(&peer, 20000000);

	if (admitted)
		handshake_close(&peer);
	else if (peer.fd >= 0)
		close(peer.fd);
	return admitted;
}

static void visitor(struct end *end, void *argument)
{
	unsigned i, visits = long_run ? 1500 : 150, admitted = 0;
	int held[16];

	random_state = 5;
	memset(held, -1, sizeof(held));
	for (i = 0; i < VISITORS_SLOTS; i++)
		CHECK(!slot_claim(&visitors[i]), "%m");
	meet(end);
	for (i = 0; i < visits; i++) {
		uint32_t listener = 0;
		int fd = connect_to_a_listener(&listener), *hold = &held[i % 16];
		struct hello hello = random_hello(listener);

		if (fd < 0)
			continue;
		setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &(int){1}, sizeof(int));
		if (random_u() % 16)
			send_fds(fd, &hello, random_u() % 8 ? sizeof(hello) : random_u() % 100,
				 random_u() % 8 ? 1 : (unsigned)random_u() % 9, hello.side_bytes);
		admitted += is_admitted(fd);
		if (random_u() % 2)
			send_fds(fd, &hello, random_u() % 100, (unsigned)random_u() % 9, BYTES);
		if (*hold >= 0)
			close(*hold);
		*hold = fd;
	}
	CHECK(admitted, "all were refused: there is little in it");
	meet(end);
}

static bool garbage_at_the_door_does_no_harm(void)
{
	return pair_run("mapped", end_stays, visitor, NULL, 60);
}

/* ---- what a peer says of requests that it dropped ---- */

static void say_dropped(struct end *end, uint32_t owner, enum drop why)
{
	struct local *local = &to_hca(end->context)->hca->engine.local;
	struct control control = { .kind = CONTROL_DROPPED, .owner_qpn = owner, .refusal = why,
				   .value = IBV_QPS_ERR, .psn = end->there.psn & 0xffffff };
	double until = now() + LIMIT_S;
	struct ibv_wc wc;

	while (!control_send(local, peer_of_slot(local, qpn_slot(end->there.qpn)), &control, 0)) {
		CHECK(now() < until, "the ring is full");
		CHECK(!ibv_poll_cq(end->cq, 1, &wc));
	}
}

/* Of a QP that is not its own; a flood; then the truth. */
static void says_why(struct end *end, void *argument)
{
	unsigned i;

	end_open(end, BYTES, ALL_ACCESS);
	end_make_qp(end);
	end_connect(end);
	CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 8, 0) == IBV_WC_SUCCESS);
	say_dropped(end, end->there.qpn, DROP_QP_STATE);
	meet(end);
	meet(end);
	for (i = 0; i < 10000; i++)
		say_dropped(end, end->qp->qp_num, i % 2 ? DROP_QP_STATE : DROP_QP_TYPE);
	meet(end);
	CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 8, 0) == IBV_WC_SUCCESS);
	meet(end);
	end_close(end);
}

static uint8_t heard_refusal(struct end *end, double limit_s)
{
	struct qp *qp = to_qp(end->qp);
	double until = now() + limit_s;
	struct ibv_wc wc;
	uint8_t why = DROP_NONE;

	while (why == DROP_NONE && now() < until) {
		CHECK(!ibv_poll_cq(end->cq, 1, &wc));
		pair_lock(&qp->lock);
		why = qp->refusal.why;
		pair_unlock(&qp->lock);
	}
	return why;
}

/* @other: its peer is a QP of its own process. */
static void hears_why(struct end *end, void *argument)
{
	struct end other;

	end_open(end, BYTES, ALL_ACCESS);
	end_make_qp(end);
	end_connect(end);
	other = *end;
	CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 8, 0) == IBV_WC_SUCCESS);
	end_make_qp(&other);
	other.there.qpn = end->qp->qp_num;
	end_raise(&other, IBV_QPS_RTS);
	meet(end);
	CHECK(heard_refusal(&other, 0.2) == DROP_NONE, "of a QP that is not the peer's own");
	meet(end);
	CHECK(heard_refusal(end, 20) != DROP_NONE);
	meet(end);
	CHECK(transfer(end, IBV_WR_RDMA_WRITE, 0, 8, 0) == IBV_WC_SUCCESS, "it decides nothing");
	meet(end);
	CHECK(!ibv_destroy_qp(other.qp));
	end_close(end);
}

static bool a_peer_explains_its_own_queue_pairs_and_nothing_else(void)
{
	return pair_run("auto", says_why, hears_why, NULL, 60);
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
		TEST(garbage_in_control_messages_does_no_harm),
		TEST(garbage_in_hazards_and_grants_does_no_harm),
		TEST(a_peer_that_names_grants_for_ever_loses_its_channel),
		TEST(so_does_one_that_is_stopped),
		TEST(a_peer_can_write_its_own_side_only),
		TEST(garbage_at_the_door_does_no_harm),
		TEST(a_peer_explains_its_own_queue_pairs_and_nothing_else),
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
