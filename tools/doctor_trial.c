/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs do first, tried in processes of its own by the public calls of libibverbs: list and open
 * the devices; then one process writes into another's memory. What else the doctor finds explains why a
 * trial failed; whether it fails is decided here.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <net/if.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "doctor.h"

enum { PORT = 1, LIST_SECONDS = 10, WRITE_SECONDS = 8, POLL_SECONDS = 5, WRITTEN_BYTES = 4096 };

static bool trial_failed;

bool trial_worked(void)
{
	return !trial_failed;
}

/* ---- in the child: lines that begin with '@' are for doctor_trial(), others are the libraries' ---- */

static int tell_failure(const char *step, const char *name, int err)
{
	printf("@failed %s %s: %s\n", step, name, strerror(err));
	return 1;
}

static void tell_gid(const char *device, const struct ibv_gid_entry *entry)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };
	char text[INET6_ADDRSTRLEN], interface[IF_NAMESIZE];

	if (!memcmp(entry->gid.raw, mapped, sizeof(mapped)))
		inet_ntop(AF_INET, entry->gid.raw + 12, text, sizeof(text));
	else
		inet_ntop(AF_INET6, entry->gid.raw, text, sizeof(text));
	printf("@gid %s %u %s %s\n", device, entry->gid_index, text,
	       entry->ndev_ifindex && if_indextoname(entry->ndev_ifindex, interface) ? interface : "-");
}

static int tell_device(struct ibv_device *device)
{
	struct ibv_context *context = ibv_open_device(device);
	const char *name = ibv_get_device_name(device);
	struct ibv_gid_entry entry;
	struct ibv_port_attr port;
	int err;

	if (!context)
		return tell_failure("opening", name, errno);
	err = ibv_query_port(context, PORT, &port);
	if (!err)
		printf("@device %s %s %d\n", name, ibv_port_state_str(port.state), 128 << port.active_mtu);
	for (uint32_t i = 0; !err && i < (uint32_t)port.gid_tbl_len; i++)
		if (!ibv_query_gid_ex(context, PORT, i, &entry, 0))
			tell_gid(name, &entry);
	ibv_close_device(context);
	return err ? tell_failure("asking the port of", name, err) : 0;
}

static int list_child(const void *unused)
{
	struct ibv_device **list;
	int count, failed = 0;

	setenv("VERBATIM_EXPLAIN", "1", 1);
	list = ibv_get_device_list(&count);
	if (!list)
		return tell_failure("listing", "the devices", errno);
	for (int i = 0; i < count; i++)
		failed |= tell_device(list[i]);
	ibv_free_device_list(list);
	return failed;
}

struct end {		/* of a connection, as one process tells the other */
	uint32_t qpn, rkey;
	uint64_t address;
	union ibv_gid gid;
	uint16_t lid;			/* 0 on RoCE */
};

struct trial {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint8_t *buffer;
};

struct place {
	char device[64];
	unsigned gid;
};

static struct ibv_context *open_named(const char *name)
{
	struct ibv_context *context = NULL;
	struct ibv_device **list = ibv_get_device_list(NULL);

	for (struct ibv_device **one = list; one && *one && !context; one++)
		if (!strcmp(ibv_get_device_name(*one), name))
			context = ibv_open_device(*one);
	if (list)
		ibv_free_device_list(list);
	return context;
}

/* What it makes is the process's, and ends with it. */
static const char *trial_prepare(struct trial *trial, const struct place *place, struct end *end)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC, .sq_sig_all = 1,
					 .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = PORT,
				    .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };
	struct ibv_port_attr port;

	trial->context = open_named(place->device);
	if (!trial->context)
		return "opening the device";
	if (posix_memalign((void **)&trial->buffer, 4096, WRITTEN_BYTES))
		return "allocating a page";
	memset(trial->buffer, 0, WRITTEN_BYTES);
	trial->pd = ibv_alloc_pd(trial->context);
	trial->mr = trial->pd ? ibv_reg_mr(trial->pd, trial->buffer, WRITTEN_BYTES, IBV_ACCESS_LOCAL_WRITE |
					   IBV_ACCESS_REMOTE_WRITE) : NULL;
	if (!trial->mr)
		return "registering memory";
	trial->cq = ibv_create_cq(trial->context, 16, NULL, NULL, 0);
	if (!trial->cq)
		return "creating a completion queue";
	init.send_cq = init.recv_cq = trial->cq;
	trial->qp = ibv_create_qp(trial->pd, &init);
	if (!trial->qp)
		return "creating a queue pair";
	errno = ibv_modify_qp(trial->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			      IBV_QP_ACCESS_FLAGS);
	if (!errno && !ibv_query_port(trial->context, PORT, &port))
		end->lid = port.lid;
	if (errno || ibv_query_gid(trial->context, PORT, (int)place->gid, &end->gid))
		return "modifying the queue pair to INIT";
	end->qpn = trial->qp->qp_num;
	end->rkey = trial->mr->rkey;
	end->address = (uintptr_t)trial->buffer;
	return NULL;
}

static int trial_connect(struct trial *trial, const struct place *place, const struct end *peer)
{
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_256, .dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = 1, .min_rnr_timer = 12,
		.ah_attr = { .is_global = 1, .port_num = PORT, .dlid = peer->lid,
			     .grh = { .dgid = peer->gid, .sgid_index = (uint8_t)place->gid,
				      .hop_limit = 64 } },
	};
	struct ibv_qp_attr rts = { .qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7,
				   .max_rd_atomic = 1 };
	int err = ibv_modify_qp(trial->qp, &rtr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
				IBV_QP_MIN_RNR_TIMER);

	return err ? err : ibv_modify_qp(trial->qp, &rts, IBV_QP_STATE | IBV_QP_TIMEOUT |
					 IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
					 IBV_QP_MAX_QP_RD_ATOMIC);
}

static int trial_write(struct trial *trial, const struct end *peer)
{
	struct ibv_sge sge = { (uintptr_t)trial->buffer, WRITTEN_BYTES, trial->mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE,
					.wr.rdma = { peer->address, peer->rkey } };
	time_t end = time(NULL) + POLL_SECONDS;
	struct ibv_wc completion;
	int err, got = 0;

	memset(trial->buffer, 0x5a, WRITTEN_BYTES);
	err = ibv_post_send(trial->qp, &wr, &bad);
	if (err)
		return tell_failure("posting", "a WRITE", err);
	while (!got && time(NULL) <= end) {
		got = ibv_poll_cq(trial->cq, 1, &completion);
		if (!got)
			poll(NULL, 0, 1);
	}
	if (got == 1 && completion.status == IBV_WC_SUCCESS)
		return 0;
	printf("@failed a WRITE between two processes: %s\n",
	       got == 1 ? ibv_wc_status_str(completion.status) : "no completion");
	return 1;
}

/* Both processes meet here: -1 if the other one has ended. */
static int exchange(int fd, const void *ours, void *theirs, size_t size)
{
	return send(fd, ours, size, MSG_NOSIGNAL) == (ssize_t)size &&
	       recv(fd, theirs, size, MSG_WAITALL) == (ssize_t)size ? 0 : -1;
}

static int trial_side(int fd, const struct place *place, bool writes)
{
	struct end ours = { 0 }, theirs;
	struct trial trial = { 0 };
	const char *wrong = trial_prepare(&trial, place, &ours);
	int err;

	if (wrong)
		return tell_failure(wrong, "for a WRITE", errno);
	if (exchange(fd, &ours, &theirs, sizeof(ours)))
		return 1;
	err = trial_connect(&trial, place, &theirs);
	if (err)
		return tell_failure("connecting", "two queue pairs", err);
	if (exchange(fd, &ours, &theirs, sizeof(ours)))
		return 1;
	err = writes ? trial_write(&trial, &theirs) : 0;
	if (exchange(fd, &ours, &theirs, sizeof(ours)))
		return 1;
	if (!err && !writes && trial.buffer[WRITTEN_BYTES - 1] != 0x5a) {
		printf("@failed a WRITE between two processes: completed, and the bytes are not there\n");
		err = 1;
	}
	return err;
}

static int write_child(const void *argument)
{
	int fds[2], status = 0, result;
	pid_t pid;

	setenv("VERBATIM_EXPLAIN", "1", 1);
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds))
		return tell_failure("making", "a socket pair", errno);
	fflush(stdout);
	pid = fork();
	if (pid < 0)
		return tell_failure("starting", "a second process", errno);
	close(fds[pid ? 0 : 1]);
	result = trial_side(fds[pid ? 1 : 0], argument, !pid);
	fflush(stdout);
	if (!pid)
		_exit(result);
	close(fds[1]);
	if (waitpid(pid, &status, 0) != pid || status)
		return 1;
	return result;
}

/* ---- in the doctor ---- */

/* The lines of the libraries, and those of failures; each once. */
static void report_failures(const char *check, const char *what, char *output, int status)
{
	char *said = NULL, *failed = NULL, *rest;

	for (char *line = strtok_r(output, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		if (!strncmp(line, "@failed ", 8) && !failed)
			failed = line + 8;
		else if (line[0] != '@' && !said)
			said = line;
	}
	trial_failed = true;
	if (status > 128)
		report(VERDICT_BAD, check, what, "a process that tried it was ended by signal %d%s%s",
		       status - 128, status == 128 + 9 ? " or did not come to an end" : "",
		       status == 128 + 31 ? " (a seccomp filter forbids a call)" : "");
	else
		report(VERDICT_BAD, check, what, "%s", failed ? failed : "it failed without a word");
	if (said)
		report_consequence("programs get that too: %s", said);
	else
		report_consequence("programs fail the same way");
}

static void report_gid(const char *line, struct place *best)
{
	char device[64], address[64], interface[32];
	unsigned index;

	if (sscanf(line, "@gid %63s %u %63s %31s", device, &index, address, interface) != 4)
		return;
	report(VERDICT_GOOD, "gid", device, "GID %u is %s on %s: ibv_rc_pingpong -d %s -g %u, ib_write_bw -d %s "
	       "-x %u", index, address, interface, device, index, device, index);
	/* Index 0 may be an address that the interface does not have. */
	if (!best->device[0] || (!strcmp(best->device, device) && !best->gid && index)) {
		snprintf(best->device, sizeof(best->device), "%s", device);
		best->gid = index;
	}
}

static void try_list(struct place *best)
{
	char *output, *copy, *rest, device[64], state[32];
	int mtu, status = run_child(list_child, NULL, LIST_SECONDS, &output);
	unsigned devices = 0;

	copy = output ? strdup(output) : NULL;
	for (char *line = copy ? strtok_r(copy, "\n", &rest) : NULL; line; line = strtok_r(NULL, "\n", &rest)) {
		if (sscanf(line, "@device %63s %31s %d", device, state, &mtu) == 3) {
			devices++;
			report(strcmp(state, "active") ? VERDICT_NOTE : VERDICT_GOOD, "device", device,
			       "opens; port %s, path MTU %d", state, mtu);
			if (strcmp(state, "active"))
				report_consequence("nothing can be sent until the interface is up");
		}
		report_gid(line, best);
	}
	free(copy);
	if (status) {
		report_failures("open", "opening the devices", output, status);
	} else if (!devices) {
		trial_failed = true;
		report(VERDICT_BAD, "open", "devices", "there are none");
		report_consequence("no interface is up, has an address and is named by VERBATIM_DEVICES%s%s",
				   getenv("VERBATIM_DEVICES") ? ": " : " (not set)",
				   getenv("VERBATIM_DEVICES") ? getenv("VERBATIM_DEVICES") : "");
		report_remedy(getenv("VERBATIM_DEVICES") ? "unset VERBATIM_DEVICES" : "ip link set lo up");
	}
	free(output);
}

void doctor_trial(void)
{
	struct place best = { .device = "" };
	char *output;
	int status;

	try_list(&best);
	if (trial_failed || !best.device[0])
		return;
	status = run_child(write_child, &best, WRITE_SECONDS, &output);
	if (status)
		report_failures("write", "a WRITE between two processes", output, status);
	else
		report(VERDICT_GOOD, "write", "a WRITE between two processes", "works, over %s", best.device);
	free(output);
}
