/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A tag-matching SRQ (ibv_post_srq_ops(3)) between two processes of one host, on every way that data takes: eager
 * messages that are matched, unexpected or without a tag, and rendezvous, whose data the receiver's
 * device fetches by itself.
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/tm_types.h>

#include "pair.h"

#define BYTES (1u << 21)
#define PART (1u << 17)		/* of the memory, for a message */
#define HEADER (sizeof(struct ibv_tmh))
#define TAG(i) (0xabcd000000000000ull + (i))

/* Sizes of eager data: nothing, a cell, several packets, more than a message inside a host carries. */
static const uint32_t eager[] = {0, 100, 9000, 100000};
#define EAGER (sizeof(eager) / sizeof(eager[0]))

static const uint32_t rendezvous[] = {0, 1, 5000, 120000};
#define RENDEZVOUS (sizeof(rendezvous) / sizeof(rendezvous[0]))

static char pattern(unsigned message, uint32_t i)
{
	return (char)(message * 31 + i % 251 + 1);
}

static void check_data(const char *data, unsigned message, uint32_t bytes)
{
	for (uint32_t i = 0; i < bytes; i++)
		CHECK(data[i] == pattern(message, i), "message %u differs at byte %u", message, i);
}

/* ---- the sender ---- */

static void write_header(struct end *end, enum ibv_tmh_op opcode, unsigned message)
{
	struct ibv_tmh header = {.opcode = opcode, .app_ctx = htobe32(message), .tag = htobe64(TAG(message))};

	memcpy(end->memory, &header, sizeof(header));
}

static void send_eager(struct end *end, enum ibv_tmh_op opcode, unsigned message, uint32_t bytes)
{
	write_header(end, opcode, message);
	for (uint32_t i = 0; i < bytes; i++)
		end->memory[HEADER + i] = pattern(message, i);
	CHECK(transfer(end, IBV_WR_SEND, 0, HEADER + bytes, 0) == IBV_WC_SUCCESS);
}

static void expect_fin(struct end *end, const char *request)
{
	char *fin = end->memory + PART;
	struct ibv_wc wc;

	CHECK(get(end, &wc, LIMIT_S), "no FIN");
	CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV, "%s", ibv_wc_status_str(wc.status));
	CHECK(wc.byte_len == HEADER + sizeof(struct ibv_rvh), "FIN of %u bytes", wc.byte_len);
	CHECK(fin[0] == IBV_TMH_FIN && !memcmp(fin + 1, request + 1, wc.byte_len - 1));
}

static void send_rendezvous(struct end *end, unsigned message, uint32_t bytes)
{
	char *data = end->memory + 2 * PART;
	struct ibv_rvh where = {.va = htobe64((uintptr_t)data), .rkey = htobe32(end->mr->rkey),
				.len = htobe32(bytes)};

	for (uint32_t i = 0; i < bytes; i++)
		data[i] = pattern(message, i);
	CHECK(!post_receive(end, PART, 64, 1), "%m");
	write_header(end, IBV_TMH_RNDV, message);
	memcpy(end->memory + HEADER, &where, sizeof(where));
	CHECK(transfer(end, IBV_WR_SEND, 0, HEADER + sizeof(where), 0) == IBV_WC_SUCCESS);
}

static void sends_by_tag(struct end *end, void *argument)
{
	unsigned message = 0, i;

	end_open(end, BYTES, ALL_ACCESS);
	end->timeout = PATIENT;
	end_make_qp(end);
	end_connect(end);
	meet(end);
	for (i = 0; i < EAGER; i++)
		send_eager(end, IBV_TMH_EAGER, message++, eager[i]);
	for (i = 0; i < RENDEZVOUS; i++, message++) {
		send_rendezvous(end, message, rendezvous[i]);
		expect_fin(end, end->memory);
		memset(end->memory + 2 * PART, 0, rendezvous[i]);	/* it may be used again */
	}
	send_eager(end, IBV_TMH_NO_TAG, message, 50);
	send_eager(end, IBV_TMH_EAGER, 99, 60);		/* unexpected */
	meet(end);
	meet(end);
	send_eager(end, IBV_TMH_EAGER, 100, 70);	/* its tag was deleted: unexpected */
	send_eager(end, IBV_TMH_EAGER, 101, 80);
	/* More data than the buffer holds: software's. */
	send_rendezvous(end, 102, 10000);
	meet(end);
	end_close(end);
}

/* ---- the receiver ---- */

#define UNTAGGED (8 * PART)	/* in its memory, behind the buffers of tags */

static char *buffer_of(struct end *end, unsigned message)
{
	return end->memory + message % 8 * PART;
}

struct receiver {
	struct end *end;
	struct ibv_cq_ex *cq;
	struct ibv_srq *srq;
	uint32_t unexpected;
};

struct seen {
	uint64_t wr_id, tag;
	uint32_t priv, bytes;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	unsigned flags;
};

static struct seen next_seen(struct receiver *receiver)
{
	struct ibv_poll_cq_attr attr = {0};
	struct ibv_cq_ex *cq = receiver->cq;
	double until = now() + LIMIT_S;
	struct ibv_wc_tm_info info;
	struct seen seen;

	while (ibv_start_poll(cq, &attr) == ENOENT)
		CHECK(now() < until, "no completion; %s", counters_here());
	ibv_wc_read_tm_info(cq, &info);
	seen = (struct seen){.wr_id = cq->wr_id, .tag = info.tag, .priv = info.priv, .status = cq->status,
			     .opcode = ibv_wc_read_opcode(cq), .flags = ibv_wc_read_wc_flags(cq),
			     .bytes = ibv_wc_read_byte_len(cq)};
	ibv_end_poll(cq);
	return seen;
}

static struct seen expect_seen(struct receiver *receiver, uint64_t wr_id, enum ibv_wc_opcode opcode)
{
	struct seen seen = next_seen(receiver);

	CHECK(seen.status == IBV_WC_SUCCESS, "%s", ibv_wc_status_str(seen.status));
	CHECK(seen.wr_id == wr_id && seen.opcode == opcode, "wr_id %d opcode %d and not %d, %d", (int)seen.wr_id,
	      seen.opcode, (int)wr_id, opcode);
	return seen;
}

static uint32_t add_tag(struct receiver *receiver, unsigned message, uint32_t bytes, unsigned flags)
{
	struct end *end = receiver->end;
	struct ibv_sge sge = {(uintptr_t)buffer_of(end, message), bytes, end->mr->lkey};
	struct ibv_ops_wr *bad, wr = {.wr_id = 1000 + message, .opcode = IBV_WR_TAG_ADD,
				      .flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC,
				      .tm = {.unexpected_cnt = receiver->unexpected,
					     .add = {.recv_wr_id = message, .sg_list = &sge, .num_sge = 1,
						     .tag = TAG(message), .mask = UINT64_MAX}}};

	CHECK(!ibv_post_srq_ops(receiver->srq, &wr, &bad), "%m");
	CHECK(expect_seen(receiver, 1000 + message, IBV_WC_TM_ADD).flags == flags);
	return wr.tm.handle;
}

static void synchronize(struct receiver *receiver)
{
	struct ibv_ops_wr *bad, wr = {.wr_id = 5, .opcode = IBV_WR_TAG_SYNC,
				      .flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC,
				      .tm.unexpected_cnt = receiver->unexpected};

	CHECK(!ibv_post_srq_ops(receiver->srq, &wr, &bad), "%m");
	CHECK(expect_seen(receiver, 5, IBV_WC_TM_SYNC).flags == 0);
}

static void delete_tag(struct receiver *receiver, uint32_t handle, enum ibv_wc_status status)
{
	struct ibv_ops_wr *bad, wr = {.wr_id = 6, .opcode = IBV_WR_TAG_DEL, .flags = IBV_OPS_SIGNALED,
				      .tm.handle = handle};
	struct seen seen;

	CHECK(!ibv_post_srq_ops(receiver->srq, &wr, &bad), "%m");
	seen = next_seen(receiver);
	CHECK(seen.opcode == IBV_WC_TM_DEL && seen.status == status, "%s", ibv_wc_status_str(seen.status));
	CHECK(ibv_post_srq_ops(receiver->srq, &wr, &bad) == (status == IBV_WC_SUCCESS ? EINVAL : 0));
	if (status != IBV_WC_SUCCESS)
		next_seen(receiver);
}

static void open_receiver(struct receiver *receiver, struct end *end)
{
	struct ibv_cq_init_attr_ex cq = {.cqe = 64, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO};
	struct ibv_srq_init_attr_ex srq = {.attr = {.max_wr = 16, .max_sge = 1}, .srq_type = IBV_SRQT_TM,
					   .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
							IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
					   .tm_cap = {.max_num_tags = 8, .max_ops = 8}};

	end_open(end, BYTES, ALL_ACCESS);
	end->timeout = PATIENT;
	*receiver = (struct receiver){.end = end};
	receiver->cq = ibv_create_cq_ex(end->context, &cq);
	CHECK(receiver->cq, "%m");
	srq.pd = end->pd;
	srq.cq = ibv_cq_ex_to_cq(receiver->cq);
	receiver->srq = ibv_create_srq_ex(end->context, &srq);
	CHECK(receiver->srq, "%m");
	end->qp = ibv_create_qp(end->pd, &(struct ibv_qp_init_attr){.send_cq = end->cq, .recv_cq = end->cq,
								    .srq = receiver->srq, .qp_type = IBV_QPT_RC});
	CHECK(end->qp, "%m");
}

/* Receives without a tag: wr_id 200 and on. */
static void post_untagged(struct receiver *receiver, unsigned count)
{
	struct end *end = receiver->end;

	for (unsigned i = 0; i < count; i++) {
		struct ibv_sge sge = {(uintptr_t)end->memory + UNTAGGED + i * 4096, 4096, end->mr->lkey};
		struct ibv_recv_wr *bad, wr = {.wr_id = 200 + i, .sg_list = &sge, .num_sge = 1};

		CHECK(!ibv_post_srq_recv(receiver->srq, &wr, &bad), "%m");
	}
}

/* With a match, and (in the same or in another completion) with its data. */
static void expect_data(struct receiver *receiver, unsigned message, uint32_t bytes)
{
	struct seen seen = expect_seen(receiver, message, IBV_WC_TM_RECV);

	CHECK(seen.flags & IBV_WC_TM_MATCH && seen.tag == TAG(message) && seen.priv == message);
	if (!(seen.flags & IBV_WC_TM_DATA_VALID)) {
		seen = expect_seen(receiver, message, IBV_WC_TM_RECV);
		CHECK(seen.flags == IBV_WC_TM_DATA_VALID && !seen.tag);
	}
	CHECK(seen.bytes == bytes, "%u bytes and not %u", seen.bytes, bytes);
	check_data(buffer_of(receiver->end, message), message, bytes);
}

static void expect_untagged(struct receiver *receiver, unsigned message, uint64_t wr_id, enum ibv_wc_opcode opcode,
			    uint32_t bytes)
{
	struct seen seen = expect_seen(receiver, wr_id, opcode);

	CHECK(!seen.flags && !seen.tag && seen.bytes == bytes + HEADER, "%u bytes", seen.bytes);
	check_data(receiver->end->memory + UNTAGGED + (wr_id - 200) * 4096 + HEADER, message, bytes);
	receiver->unexpected += opcode == IBV_WC_TM_RECV;
}

static void receives_by_tag(struct end *end, void *argument)
{
	struct receiver receiver;
	unsigned message = 0, i;
	uint32_t handle = 0, other;
	struct seen seen;

	open_receiver(&receiver, end);
	end_connect(end);
	post_untagged(&receiver, 6);
	for (i = 0; i < EAGER + RENDEZVOUS; i++)
		handle = add_tag(&receiver, i, i < EAGER ? eager[i] : rendezvous[i - EAGER], 0);
	meet(end);
	for (i = 0; i < EAGER; i++)
		expect_data(&receiver, message++, eager[i]);
	for (i = 0; i < RENDEZVOUS; i++)
		expect_data(&receiver, message++, rendezvous[i]);
	expect_untagged(&receiver, message, 200, IBV_WC_TM_NO_TAG, 50);
	meet(end);
	expect_untagged(&receiver, 99, 201, IBV_WC_TM_RECV, 60);
	delete_tag(&receiver, handle, IBV_WC_TM_ERR);
	/* Not reported yet: an entry that is added now sleeps, and the completion asks for the report. */
	receiver.unexpected--;
	handle = add_tag(&receiver, 100, 70, IBV_WC_TM_SYNC_REQ);
	receiver.unexpected++;
	synchronize(&receiver);
	other = add_tag(&receiver, 101, 80, 0);
	CHECK(other != handle);
	delete_tag(&receiver, handle, IBV_WC_SUCCESS);
	add_tag(&receiver, 102, 9999, 0);
	meet(end);
	expect_untagged(&receiver, 100, 202, IBV_WC_TM_RECV, 70);
	expect_data(&receiver, 101, 80);
	seen = next_seen(&receiver);
	CHECK(seen.status == IBV_WC_TM_RNDV_INCOMPLETE && seen.wr_id == 102, "%s", ibv_wc_status_str(seen.status));
	CHECK(seen.tag == TAG(102) && buffer_of(end, 102)[0] == IBV_TMH_RNDV);
	meet(end);
	CHECK(!ibv_destroy_qp(end->qp));
	end->qp = NULL;
	CHECK(ibv_destroy_cq(ibv_cq_ex_to_cq(receiver.cq)) == EBUSY);
	CHECK(!ibv_destroy_srq(receiver.srq));
	CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(receiver.cq)));
	end_close(end);
}

static bool messages_find_the_buffers_of_their_tags(void)
{
	return pair_run_in_each_mode(sends_by_tag, receives_by_tag, NULL, LIMIT_S);
}

/* ---- wrong use ---- */

static int create_errno(struct end *end, const struct ibv_srq_init_attr_ex *attr)
{
	struct ibv_srq_init_attr_ex copy = *attr;

	errno = 0;
	CHECK(!ibv_create_srq_ex(end->context, &copy));
	return errno;
}

static int qp_errno(struct end *end, struct ibv_srq *srq, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = {.send_cq = end->cq, .recv_cq = end->cq, .srq = srq, .qp_type = type,
					.cap = {1, 1, 1, 1, 0}};

	errno = 0;
	CHECK(!ibv_create_qp(end->pd, &attr));
	return errno;
}

static void misuses(struct end *end, void *argument)
{
	struct ibv_srq_init_attr_ex attr = {.attr = {.max_wr = 16, .max_sge = 1}, .srq_type = IBV_SRQT_TM,
					    .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
							 IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
					    .tm_cap = {.max_num_tags = 8, .max_ops = 8}};
	struct ibv_srq_init_attr basic = {.attr = {.max_wr = 1, .max_sge = 1}};
	struct ibv_device_attr_ex device;
	struct receiver receiver;
	struct ibv_ops_wr *bad = NULL, wr = {.opcode = IBV_WR_TAG_SYNC};
	struct ibv_send_wr *bad_send, send = {.opcode = IBV_WR_SEND};
	struct ibv_srq *srq;

	open_receiver(&receiver, end);
	CHECK(!ibv_query_device_ex(end->context, NULL, &device));
	CHECK(device.tm_caps.flags == IBV_TM_CAP_RC && device.tm_caps.max_rndv_hdr_size == 64);
	attr.pd = end->pd;
	attr.cq = end->cq;
	CHECK(create_errno(end, &attr) == EINVAL);	/* not an extended CQ */
	attr.cq = ibv_cq_ex_to_cq(receiver.cq);
	attr.tm_cap.max_num_tags = device.tm_caps.max_num_tags + 1;
	CHECK(create_errno(end, &attr) == EINVAL);
	attr.tm_cap.max_num_tags = 0;
	CHECK(create_errno(end, &attr) == EINVAL);
	attr.tm_cap.max_num_tags = device.tm_caps.max_num_tags;
	attr.tm_cap.max_ops = device.tm_caps.max_ops + 1;
	CHECK(create_errno(end, &attr) == EINVAL);
	attr.tm_cap.max_ops = device.tm_caps.max_ops;
	attr.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_TM;
	CHECK(create_errno(end, &attr) == EINVAL);
	attr.comp_mask |= IBV_SRQ_INIT_ATTR_TM;
	attr.comp_mask &= ~(uint32_t)IBV_SRQ_INIT_ATTR_CQ;
	CHECK(create_errno(end, &attr) == EINVAL);
	CHECK(qp_errno(end, receiver.srq, IBV_QPT_UC) == EINVAL);
	CHECK(qp_errno(end, receiver.srq, IBV_QPT_UD) == EINVAL);
	CHECK(ibv_post_send(end->qp, &send, &bad_send) == EINVAL);
	srq = ibv_create_srq(end->pd, &basic);
	CHECK(srq && ibv_post_srq_ops(srq, &wr, &bad) == EINVAL && bad == &wr);
	CHECK(!ibv_destroy_srq(srq) && ibv_destroy_srq(receiver.srq) == EBUSY);
	CHECK(!ibv_destroy_qp(end->qp));
	end->qp = NULL;
	CHECK(!ibv_destroy_srq(receiver.srq));
	CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(receiver.cq)));
	end_close(end);
}

static void does_nothing(struct end *end, void *argument)
{
}

static bool wrong_use_is_refused(void)
{
	return pair_run("auto", does_nothing, misuses, NULL, LIMIT_S);
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{"messages find the buffers of their tags", messages_find_the_buffers_of_their_tags},
		{"wrong use is refused", wrong_use_is_refused},
	};

	return run_tests(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
