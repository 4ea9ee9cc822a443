/* SPDX-License-Identifier: BSD-2-Clause */
/* Two processes with connected queue pairs (pair.h). In a network namespace of the test. */
#include "pair.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>

#include "device/internal.h"
#include "device/snapshot.h"
#include "object/dm.h"
#include "platform/netns_test.h"
#include "verbs/verbs.h"

#define CQ_ENTRIES 1024
#define QP_DEPTH 64
#define QP_SGE 4
#define QP_INLINE 256

bool long_run;
static const char *skipped;
static struct ibv_context *opened;
static struct ibv_dm *blocks[4]; /* of the end */
static unsigned block_count;

/* ---- small things ---- */

double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

void fail_at(const char *file, int line, const char *what, const char *format, ...)
{
	char text[512];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	fprintf(stderr, "# %s:%d: process %d: %s:%s\n", file, line, (int)getpid(), what, text);
	fflush(stderr);
	_exit(1);
}

void tell(int socket, const void *what, size_t bytes)
{
	CHECK(send(socket, what, bytes, MSG_NOSIGNAL) == (ssize_t)bytes, "%m");
}

bool hear(int socket, void *what, size_t bytes)
{
	ssize_t got;

	do
		got = recv(socket, what, bytes, MSG_WAITALL);
	while (got < 0 && errno == EINTR);
	return got == (ssize_t)bytes;
}

void meet(struct end *end)
{
	char byte = 'm', theirs;

	tell(end->peer, &byte, 1);
	CHECK(hear(end->peer, &theirs, 1) && theirs == 'm', "the ends are at different places");
}

unsigned map_lines(const char *text)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned count = 0;
	char line[512];

	while (maps && fgets(line, sizeof(line), maps))
		count += strstr(line, text) != NULL;
	if (maps)
		fclose(maps);
	return count;
}

bool find_mapping(const char *text, const char *rights, char **start, size_t *bytes)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	unsigned long first, end;
	bool found = false;
	char line[512];

	while (maps && !found && fgets(line, sizeof(line), maps))
		if (strstr(line, text) && strstr(line, rights) &&
		    sscanf(line, "%lx-%lx", &first, &end) == 2) {
			*start = (char *)first;
			*bytes = end - first;
			found = true;
		}
	if (maps)
		fclose(maps);
	return found;
}

/* The text of that file of a thread of ours; "" where it has ended. */
static void read_of_thread(const char *thread, const char *name, char *text, size_t bytes)
{
	char path[300];
	size_t got = 0;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/self/task/%s/%s", thread, name);
	file = fopen(path, "r");
	if (file) {
		got = fread(text, 1, bytes - 1, file);
		fclose(file);
	}
	text[got] = '\0';
}

/* False: no thread has its name, which it gives itself when it first runs. */
static bool find_worker(unsigned long *sleeps)
{
	DIR *threads = opendir("/proc/self/task");
	struct dirent *thread;
	unsigned workers = 0;
	char text[4096], *at;

	CHECK(threads, "%m");
	while ((thread = readdir(threads))) {
		read_of_thread(thread->d_name, "comm", text, sizeof(text));
		if (strcmp(text, "verbatim\n"))
			continue;
		read_of_thread(thread->d_name, "status", text, sizeof(text));
		at = strstr(text, "\nvoluntary_ctxt_switches:");
		CHECK(at && sscanf(at, "\nvoluntary_ctxt_switches: %lu", sleeps) == 1);
		workers++;
	}
	closedir(threads);
	CHECK(workers <= 1, "%u workers", workers);
	return workers == 1;
}

unsigned long worker_sleeps(void)
{
	unsigned long sleeps = 0;
	double until_s = now() + LIMIT_S;

	while (!find_worker(&sleeps)) {
		CHECK(now() < until_s, "no worker");
		usleep(1000);
	}
	return sleeps;
}

uint64_t counter_here(enum counter counter)
{
	CHECK(opened, "no device is open");
	return counter_get(to_hca(opened)->hca->engine.counters, counter);
}

const char *counters_here(void)
{
	static char text[2000];
	size_t at = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < COUNTER_COUNT && at < sizeof(text); i++)
		if (counter_here((enum counter)i))
			at += (size_t)snprintf(text + at, sizeof(text) - at, " %s %llu",
					       counter_name((enum counter)i),
					       (unsigned long long)counter_here((enum counter)i));
	return text;
}

const char *way_here(const char **why)
{
	static struct snapshot_qp qps[SNAPSHOT_BATCH];
	uint64_t from = 0;
	unsigned count = 0;

	CHECK(opened, "no device is open");
	while (!count && from != SNAPSHOT_END)
		count = hca_snapshot_qps(to_hca(opened)->hca, &from, qps);
	CHECK(count == 1 && qps[0].path.way, "%u QPs", count);
	*why = qps[0].path.why;
	return qps[0].path.way;
}

/* ---- processes ---- */

static void be_end(enum side side, int peer, int test, const char *mode, end_fn *run,
		   void *argument)
{
	struct end end = {.side = side,
			  .peer = peer,
			  .test = test,
			  .mtu = IBV_MTU_4096,
			  .rnr_retry = 7,
			  .timeout = PATIENT,
			  .retry_count = 7,
			  .has_blocks = !strcmp(mode, "mapped")};

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setenv("VERBATIM_MEMORY", mode, 1);
	run(&end, argument);
	exit(0);
}

void pair_start(struct pair *pair, const char *mode, end_fn *left, end_fn *right, void *argument)
{
	end_fn *const run[2] = {left, right};
	int between[2], up[2][2], i;

	fflush(stdout);
	CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, between), "%m");
	for (i = 0; i < 2; i++)
		CHECK(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, up[i]), "%m");
	for (i = 0; i < 2; i++) {
		pair->pid[i] = fork();
		CHECK(pair->pid[i] >= 0, "%m");
		if (!pair->pid[i]) {
			close(between[!i]);
			close(up[0][0]);
			close(up[1][0]);
			close(up[!i][1]);
			be_end((enum side)i, between[i], up[i][1], mode, run[i], argument);
		}
		pair->socket[i] = up[i][0];
	}
	close(between[0]);
	close(between[1]);
	close(up[0][1]);
	close(up[1][1]);
}

void pair_stop(const struct pair *pair, enum side side)
{
	siginfo_t info;

	kill(pair->pid[side], SIGSTOP);
	waitid(P_PID, (id_t)pair->pid[side], &info, WSTOPPED);
}

int pair_wait(struct pair *pair, enum side side, double limit_s)
{
	double until = now() + PATIENCE * limit_s;
	int status = -1;

	if (!pair->pid[side])
		return 0;
	while (waitpid(pair->pid[side], &status, WNOHANG) != pair->pid[side]) {
		status = -1;
		if (now() > until) {
			printf("# end %d (process %d) has not ended after %.0f s\n", side,
			       (int)pair->pid[side], PATIENCE * limit_s);
			kill(pair->pid[side], SIGKILL);
			waitpid(pair->pid[side], NULL, 0);
			break;
		}
		usleep(1000);
	}
	pair->pid[side] = 0;
	close(pair->socket[side]);
	return status;
}

bool pair_end(struct pair *pair, double limit_s)
{
	double until = now() + PATIENCE * limit_s;
	int i, status;
	bool good = true;

	for (i = 0; i < 2; i++) {
		double left = until - now();

		status = pair_wait(pair, (enum side)i, left > 0.1 ? left / PATIENCE : 0.1);
		if (status && status != -1)
			printf("# end %d: %s %d\n", i, WIFSIGNALED(status) ? "signal" : "status",
			       WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
		good = good && !status;
	}
	return good;
}

bool pair_run(const char *mode, end_fn *left, end_fn *right, void *argument, double limit_s)
{
	struct pair pair;

	pair_start(&pair, mode, left, right, argument);
	return pair_end(&pair, limit_s);
}

bool pair_run_in_each_mode(end_fn *left, end_fn *right, void *argument, double limit_s)
{
	static const char *const modes[] = {"off", "auto", "mapped", "copy", "ring"};
	unsigned i;

	for (i = 0; i < sizeof(modes) / sizeof(modes[0]); i++)
		if (!pair_run(modes[i], left, right, argument, limit_s)) {
			printf("# mode %s\n", modes[i]);
			return false;
		}
	return true;
}

/* ---- verbs ---- */

void end_make_qp(struct end *end)
{
	end_make_qp_with(end, NULL);
}

void end_make_qp_with(struct end *end, struct ibv_srq *srq)
{
	struct ibv_qp_init_attr attr = {.send_cq = end->cq,
					.recv_cq = end->cq,
					.srq = srq,
					.qp_type = end->type ? end->type : IBV_QPT_RC,
					.cap = {.max_send_wr = QP_DEPTH,
						.max_recv_wr = QP_DEPTH,
						.max_send_sge = QP_SGE,
						.max_recv_sge = QP_SGE,
						.max_inline_data = QP_INLINE}};

	end->qp = ibv_create_qp(end->pd, &attr);
	CHECK(end->qp, "%m");
}

/*
 * Device memory is a block where there can be any, and so a page-aligned allocation of malloc() may be. Its
 * address is no secret of the device's: /proc/self/maps has it.
 */
static char *block_of(struct ibv_context *context, size_t bytes)
{
	struct ibv_alloc_dm_attr attr = {.length = bytes, .log_align_req = 12};
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr);

	CHECK(dm && block_count < 4, "%m");
	blocks[block_count++] = dm;
	return (char *)to_dm(dm)->memory;
}

char *end_memory(struct end *end, size_t bytes)
{
	char *memory;

	if (end->has_blocks)
		return block_of(end->context, bytes);
	memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(memory != MAP_FAILED, "%m");
	memset(memory, 0, bytes);
	return memory;
}

void end_open(struct end *end, size_t bytes, unsigned access)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	CHECK(list && list[0], "no device");
	end->context = ibv_open_device(list[0]);
	CHECK(end->context, "%m");
	opened = end->context;
	block_count = 0; /* those that a parent had are not of this context */
	ibv_free_device_list(list);
	end->pd = ibv_alloc_pd(end->context);
	end->channel = ibv_create_comp_channel(end->context);
	CHECK(end->pd && end->channel, "%m");
	end->cq = ibv_create_cq(end->context, CQ_ENTRIES, NULL, end->channel, 0);
	CHECK(end->cq, "%m");
	end->bytes = bytes;
	if (!bytes)
		return;
	end->memory = end_memory(end, bytes);
	end->mr = ibv_reg_mr(end->pd, end->memory, bytes, (int)access);
	CHECK(end->mr, "%m");
}

void end_close(struct end *end)
{
	if (end->qp)
		CHECK(!ibv_destroy_qp(end->qp));
	if (end->mr)
		CHECK(!ibv_dereg_mr(end->mr));
	while (block_count)
		CHECK(!ibv_free_dm(blocks[--block_count]));
	CHECK(!ibv_destroy_cq(end->cq));
	CHECK(!ibv_destroy_comp_channel(end->channel));
	CHECK(!ibv_dealloc_pd(end->pd));
	CHECK(!ibv_close_device(end->context));
}

void end_exchange(struct end *end)
{
	struct address here = {.qpn = end->qp->qp_num,
			       .rkey = end->mr ? end->mr->rkey : 0,
			       .psn = (uint32_t)rand() & 0xffffff,
			       .memory = (uintptr_t)end->memory};

	CHECK(!ibv_query_gid(end->context, 1, 1, &here.gid), "%m");
	tell(end->peer, &here, sizeof(here));
	CHECK(hear(end->peer, &end->there, sizeof(end->there)), "the other end is gone");
	end->psn = here.psn;
}

void end_raise(struct end *end, int up_to)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
	bool reliable = end->type != IBV_QPT_UC;
	int err;

	CHECK(!ibv_modify_qp(end->qp, &attr, IBV_QP_STATE), "%m");
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_INIT, .port_num = 1,
		.qp_access_flags = reliable ? ALL_ACCESS : IBV_ACCESS_REMOTE_WRITE};
	CHECK(!ibv_modify_qp(end->qp, &attr,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
	      "%m");
	if (up_to == IBV_QPS_INIT)
		return;
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = end->mtu,
		.dest_qp_num = end->there.qpn,
		.rq_psn = end->there.psn,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 1,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = end->there.gid, .sgid_index = 1, .hop_limit = 64}}};
	err = ibv_modify_qp(end->qp, &attr,
			    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				    (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0));
	end->lacks_descriptors = err == EMFILE && end->may_lack_descriptors;
	if (end->lacks_descriptors)
		return;
	CHECK(!err, "%s", strerror(err));
	attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
				    .timeout = end->timeout,
				    .retry_cnt = end->retry_count,
				    .rnr_retry = end->rnr_retry,
				    .sq_psn = end->psn,
				    .max_rd_atomic = 16};
	CHECK(!ibv_modify_qp(end->qp, &attr,
			     IBV_QP_STATE | IBV_QP_SQ_PSN |
				     (reliable ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
							 IBV_QP_MAX_QP_RD_ATOMIC : 0)),
	      "%m");
}

void end_connect(struct end *end)
{
	if (!end->qp)
		end_make_qp(end);
	end_exchange(end);
	end_raise(end, IBV_QPS_RTS);
	meet(end);
}

int post(struct end *end, enum ibv_wr_opcode opcode, size_t offset, uint32_t bytes, size_t there,
	 uint64_t wr_id)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)end->memory + offset, .length = bytes, .lkey = end->mr->lkey};
	struct ibv_send_wr *bad, wr = {.wr_id = wr_id,
				       .sg_list = &sge,
				       .num_sge = 1,
				       .opcode = opcode,
				       .send_flags = IBV_SEND_SIGNALED};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = end->there.memory + there;
		wr.wr.atomic.rkey = end->there.rkey;
		wr.wr.atomic.compare_add = 1;
	} else {
		wr.wr.rdma.remote_addr = end->there.memory + there;
		wr.wr.rdma.rkey = end->there.rkey;
	}
	return ibv_post_send(end->qp, &wr, &bad);
}

int post_receive(struct end *end, size_t offset, uint32_t bytes, uint64_t wr_id)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)end->memory + offset, .length = bytes, .lkey = end->mr->lkey};
	struct ibv_recv_wr *bad, wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};

	return ibv_post_recv(end->qp, &wr, &bad);
}

bool get(struct end *end, struct ibv_wc *wc, double limit_s)
{
	double begin = now(), at;
	unsigned tries = 0;
	int got;

	while (!(got = ibv_poll_cq(end->cq, 1, wc)))
		if (++tries % 64 == 0) {
			at = now();
			if (at > begin + limit_s)
				return false;
			if (at > begin + 0.05)	/* it is another's turn */
				usleep(200);
			else
				sched_yield();
		}
	CHECK(got == 1, "poll_cq: %d", got);
	return true;
}

enum ibv_wc_status transfer(struct end *end, enum ibv_wr_opcode opcode, size_t offset,
			    uint32_t bytes, size_t there)
{
	struct ibv_wc wc;

	CHECK(!post(end, opcode, offset, bytes, there, 1), "%m");
	CHECK(get(end, &wc, LIMIT_S), "no completion");
	return wc.status;
}

/* ---- the main program ---- */

bool skip(const char *why)
{
	skipped = why;
	return true;
}

static bool is_chosen(int argc, char **argv, const char *name)
{
	int i;

	for (i = 1; i < argc; i++)
		if (argv[i][0] != '-' && strstr(name, argv[i]))
			return true;
	return argc < 2 || argv[1][0] == '-';
}

int run_tests(int argc, char **argv, const struct test *tests, unsigned count)
{
	unsigned i, failed = 0;
	bool real_root;

	long_run = getenv("TEST_LONG") != NULL;
	if (!netns_enter(&real_root))
		return 77;
	for (i = 0; i < count; i++) {
		double begin = now();
		bool good;

		if (!is_chosen(argc, argv, tests[i].name))
			continue;
		skipped = NULL;
		good = netns_renew() && tests[i].run();
		failed += !good;
		printf("%s %u - %s%s%s\n", good ? "ok" : "not ok", i + 1, tests[i].name,
		       skipped ? " # SKIP " : "", skipped ? skipped : "");
		printf("# %.1f s\n", now() - begin);
		fflush(stdout);
	}
	printf("1..%u\n", count);
	return failed ? 1 : 0;
}

void end_stays(struct end *end, void *unused)
{
	end_open(end, 4096, ALL_ACCESS);
	meet(end);
	meet(end);
	usleep(100000);
	end_close(end);
}

int connect_to_a_listener(uint32_t *number)
{
	FILE *sockets = fopen("/proc/net/unix", "r");
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	char line[512], *at;
	int fd = -1;

	while (fd < 0 && fgets(line, sizeof(line), sockets)) {
		at = strstr(line, "@" SLOT_CHANNEL_NAME);
		if (!at)
			continue;
		at[strcspn(at, "\n")] = '\0';
		*number = (uint32_t)strtoul(at + strlen("@" SLOT_CHANNEL_NAME), NULL, 10);
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
