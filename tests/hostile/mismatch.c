/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Queue pairs that do not fit: the wrong PSN, another path MTU, a peer that is connected to
 * somebody else or not at all, rights that are missing. What then comes of a request, and of its
 * data, is the same whichever way it goes: each scene is played over UDP and through memory, and
 * compared.
 */
#include "hostile.h"

#include <sys/mman.h>

#define REGION_BYTES (64 * KIB)
#define FILL 'f'

enum misfit {
	NOTHING,
	PSN_AHEAD,
	PSN_BEHIND,
	SMALL_MTU,
	LARGE_MTU,
	OTHER_QP,
	NOT_READY,
	WAS_RESET,
	NO_QP_RIGHTS,
	NO_MR_RIGHTS,
	WRONG_KEY,
	MISFITS
};
static const char *const misfit_name[MISFITS] = {
	"all that fits",
	"a PSN that is ahead",
	"a PSN that is behind",
	"a smaller MTU",
	"a larger MTU",
	"a peer that has another peer",
	"a peer in INIT",
	"a peer that was reset",
	"a QP without remote rights",
	"a key without rights",
	"a key that does not exist",
};

static const enum ibv_wr_opcode opcode[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_SEND,
					    IBV_WR_RDMA_WRITE_WITH_IMM,
					    IBV_WR_ATOMIC_FETCH_AND_ADD};
#define OPCODES (sizeof(opcode) / sizeof(opcode[0]))
#define REQUESTS 3

/* What came of a scene: of the requests, of the target's receives and of its memory. */
struct outcome {
	uint32_t status[REQUESTS], received, receive_status[REQUESTS];
	uint64_t memory, result;
};

struct scene {
	const char *mode;
	enum misfit misfit;
	enum ibv_wr_opcode opcode;
	uint32_t bytes;
	struct outcome *outcome; /* shared with the director */
};

static uint64_t digest(const char *memory, size_t bytes)
{
	uint64_t sum = 14695981039346656037ull;
	size_t i;

	for (i = 0; i < bytes; i++)
		sum = (sum ^ (uint8_t)memory[i]) * 1099511628211ull;
	return sum;
}

static bool is_silent(enum misfit misfit)
{
	return misfit == PSN_AHEAD || misfit == PSN_BEHIND || misfit == OTHER_QP ||
	       misfit == NOT_READY || misfit == WAS_RESET;
}

static void begin(const struct scene *scene, struct node *node, struct link *link)
{
	become_user(0);
	CHECK(!setenv("VERBATIM_MEMORY", scene->mode, 1));
	node_open(node);
	link_make(link, node);
	if (is_silent(scene->misfit)) { /* nobody answers: that is soon known */
		link->timeout = 9;
		link->retry_count = 2;
	}
	link->mtu = scene->misfit == LARGE_MTU ? IBV_MTU_4096 : IBV_MTU_2048;
}

static void requester(struct cast *cast)
{
	const struct scene *scene = cast->argument;
	struct outcome *outcome = scene->outcome;
	struct node node;
	struct link link;
	struct ibv_mr *mr;
	char *memory;
	unsigned i;

	begin(scene, &node, &link);
	if (scene->misfit == SMALL_MTU)
		link.mtu = IBV_MTU_4096;
	else if (scene->misfit == LARGE_MTU)
		link.mtu = IBV_MTU_1024;
	memory = memory_make(MEMORY_MMAP, REGION_BYTES);
	memset(memory, FILL, REGION_BYTES);
	mr = region_make(&node, memory, REGION_BYTES, REMOTE_ALL);
	link_set_region(&link, mr);
	link_exchange(cast, 1, &link);
	if (scene->misfit == WRONG_KEY)
		link.there.rkey ^= 0x100;
	if (scene->misfit == PSN_AHEAD)
		link.here.psn = (link.here.psn + 1000) & 0xffffff;
	if (scene->misfit == PSN_BEHIND)
		link.here.psn = (link.here.psn - 1000) & 0xffffff;
	link_raise(&link, IBV_QPS_RTS);
	meet(cast, 1);
	for (i = 0; i < REQUESTS; i++)
		outcome->status[i] = transfer(&link, scene->opcode, mr, 0, scene->bytes, 0);
	outcome->result = digest(memory, REGION_BYTES);
	meet(cast, 1);
}

static void make_misfit(const struct scene *scene, struct node *node, struct link *link)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	struct link third;

	if (scene->misfit == NO_QP_RIGHTS)
		link->access = IBV_ACCESS_LOCAL_WRITE;
	if (scene->misfit == OTHER_QP) {
		link_make(&third, node); /* which exists, and is nobody's */
		link->there.qpn = third.here.qpn;
	}
	link_raise(link, scene->misfit == NOT_READY ? IBV_QPS_INIT : IBV_QPS_RTS);
	if (scene->misfit == WAS_RESET)
		CHECK(!ibv_modify_qp(link->qp, &attr, IBV_QP_STATE), "%m");
}

static void target(struct cast *cast)
{
	const struct scene *scene = cast->argument;
	struct outcome *outcome = scene->outcome;
	struct node node;
	struct link link;
	struct ibv_mr *mr;
	struct ibv_wc wc;
	char *memory;
	unsigned i;

	begin(scene, &node, &link);
	memory = memory_make(MEMORY_MMAP, REGION_BYTES);
	mr = region_make(&node, memory, REGION_BYTES,
			 scene->misfit == NO_MR_RIGHTS ? IBV_ACCESS_LOCAL_WRITE : REMOTE_ALL);
	link_set_region(&link, mr);
	link_exchange(cast, 0, &link);
	make_misfit(scene, &node, &link);
	for (i = 0; i < REQUESTS && scene->misfit != WAS_RESET; i++)
		CHECK(!post_receive(&link, mr, 32 * KIB, 16 * KIB, i));
	meet(cast, 0);
	meet(cast, 0);
	while (outcome->received < REQUESTS && ibv_poll_cq(node.cq, 1, &wc) > 0)
		outcome->receive_status[outcome->received++] = wc.status;
	outcome->memory = digest(memory, REGION_BYTES);
}

static void play_scene(struct scene *scene, const char *mode, struct outcome *outcome)
{
	actor_fn *const actor[] = {requester, target};
	struct cast cast;

	memset(scene->outcome, 0, sizeof(*outcome));
	scene->mode = mode;
	cast_start(&cast, 2, actor, scene);
	cast_end(&cast, 20);
	*outcome = *scene->outcome;
}

static unsigned compare(const struct scene *scene, const char *mode, const struct outcome *udp,
			const struct outcome *memory)
{
	unsigned i;

	if (!memcmp(udp, memory, sizeof(*udp)))
		return 0;
	say("%s, opcode %d of %u bytes:", misfit_name[scene->misfit], (int)scene->opcode,
	    scene->bytes);
	for (i = 0; i < REQUESTS; i++)
		say("  request %u: over UDP %s, %s: %s", i, ibv_wc_status_str(udp->status[i]), mode,
		    ibv_wc_status_str(memory->status[i]));
	say("  received %u and %u; the target's memory is %s; the requester's is %s", udp->received,
	    memory->received, udp->memory == memory->memory ? "the same" : "another",
	    udp->result == memory->result ? "the same" : "another");
	return 1;
}

static void compare_ways(enum misfit misfit)
{
	static const char *const mode[] = {"auto", "copy", "ring"};
	struct outcome udp, memory;
	struct scene scene = {.misfit = misfit};
	unsigned i, m, differences = 0;

	scene.outcome = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(scene.outcome != MAP_FAILED, "%m");
	for (i = 0; i < OPCODES; i++) {
		scene.opcode = opcode[i];
		scene.bytes = opcode[i] == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : 7000;
		play_scene(&scene, "off", &udp);
		for (m = 0; m < (long_run ? 3 : 1); m++) {
			play_scene(&scene, mode[m], &memory);
			differences += compare(&scene, mode[m], &udp, &memory);
		}
	}
	CHECK(!differences, "%u differences", differences);
}

#define MISMATCH(function, misfit)                                                                 \
	static void function(void)                                                                 \
	{                                                                                          \
		compare_ways(misfit);                                                              \
	}

MISMATCH(fits, NOTHING)
MISMATCH(psn_ahead, PSN_AHEAD)
MISMATCH(psn_behind, PSN_BEHIND)
MISMATCH(small_mtu, SMALL_MTU)
MISMATCH(large_mtu, LARGE_MTU)
MISMATCH(other_qp, OTHER_QP)
MISMATCH(not_ready, NOT_READY)
MISMATCH(was_reset, WAS_RESET)
MISMATCH(no_qp_rights, NO_QP_RIGHTS)
MISMATCH(no_mr_rights, NO_MR_RIGHTS)
MISMATCH(wrong_key, WRONG_KEY)

const struct hostile_case mismatch_cases[] = {
	{"fits", "requests through memory are as over UDP", fits},
	{"psn-ahead", "so they are when the PSN is ahead of what is expected", psn_ahead},
	{"psn-behind", "when it is behind", psn_behind},
	{"small-mtu", "when the target's path MTU is smaller", small_mtu},
	{"large-mtu", "when it is larger", large_mtu},
	{"other-qp", "when the target is connected to another QP", other_qp},
	{"not-ready", "when it is in INIT", not_ready},
	{"was-reset", "when it has been reset", was_reset},
	{"no-qp-rights", "when it gives no remote rights", no_qp_rights},
	{"no-mr-rights", "when the region gives none", no_mr_rights},
	{"wrong-key", "when the key does not exist", wrong_key},
	{0},
};
