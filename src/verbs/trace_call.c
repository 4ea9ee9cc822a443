/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What is recorded of requests that are posted, of completions and events that are taken. Also of
 * those in simulated programs (sim/program/verbs.c).
 */
#include "verbs/trace.h"

#include <stdio.h>

/* ---- names of numbers ---- */

struct trace_bit { unsigned bit; const char *name; };

/* What has no name is a number at the end. */
static const char *trace_bits(const struct trace_bit *bits, size_t count, unsigned value,
			      char text[TRACE_NAMES_MAX])
{
	size_t used = 0;

	snprintf(text, TRACE_NAMES_MAX, "none");
	for (size_t i = 0; i < count && used < TRACE_NAMES_MAX; i++) {
		if (!(value & bits[i].bit))
			continue;
		used += (size_t)snprintf(text + used, TRACE_NAMES_MAX - used, "%s%s", used ? "|" : "",
					 bits[i].name);
		value &= ~bits[i].bit;
	}
	if (value && used < TRACE_NAMES_MAX)
		snprintf(text + used, TRACE_NAMES_MAX - used, "%s0x%x", used ? "|" : "", value);
	return text;
}

const char *verbs_trace_mask(int mask, char text[TRACE_NAMES_MAX])
{
#define BIT(name) { IBV_QP_##name, #name }
	static const struct trace_bit bits[] = {
		BIT(STATE), BIT(CUR_STATE), BIT(EN_SQD_ASYNC_NOTIFY), BIT(ACCESS_FLAGS),
		BIT(PKEY_INDEX), BIT(PORT), BIT(QKEY), BIT(AV), BIT(PATH_MTU), BIT(TIMEOUT),
		BIT(RETRY_CNT), BIT(RNR_RETRY), BIT(RQ_PSN), BIT(MAX_QP_RD_ATOMIC), BIT(ALT_PATH),
		BIT(MIN_RNR_TIMER), BIT(SQ_PSN), BIT(MAX_DEST_RD_ATOMIC), BIT(PATH_MIG_STATE),
		BIT(CAP), BIT(DEST_QPN), BIT(RATE_LIMIT),
	};
#undef BIT

	return trace_bits(bits, sizeof(bits) / sizeof(*bits), (unsigned)mask, text);
}

const char *verbs_trace_access(unsigned access, char text[TRACE_NAMES_MAX])
{
	static const struct trace_bit bits[] = {
		{ IBV_ACCESS_LOCAL_WRITE, "LOCAL_WRITE" }, { IBV_ACCESS_REMOTE_WRITE, "REMOTE_WRITE" },
		{ IBV_ACCESS_REMOTE_READ, "REMOTE_READ" }, { IBV_ACCESS_REMOTE_ATOMIC, "REMOTE_ATOMIC" },
		{ IBV_ACCESS_MW_BIND, "MW_BIND" }, { IBV_ACCESS_ZERO_BASED, "ZERO_BASED" },
		{ IBV_ACCESS_ON_DEMAND, "ON_DEMAND" }, { IBV_ACCESS_HUGETLB, "HUGETLB" },
		{ 1 << 8, "FLUSH_GLOBAL" }, { 1 << 9, "FLUSH_PERSISTENT" },	/* newer than the header */
		{ IBV_ACCESS_RELAXED_ORDERING, "RELAXED_ORDERING" },
	};

	return trace_bits(bits, sizeof(bits) / sizeof(*bits), access, text);
}

const char *verbs_trace_type(enum ibv_qp_type type, char text[TRACE_NAMES_MAX])
{
	switch (type) {
	case IBV_QPT_RC:
		return "RC";
	case IBV_QPT_UC:
		return "UC";
	case IBV_QPT_UD:
		return "UD";
	case IBV_QPT_RAW_PACKET:
		return "RAW_PACKET";
	case IBV_QPT_XRC_SEND:
		return "XRC_SEND";
	case IBV_QPT_XRC_RECV:
		return "XRC_RECV";
	case IBV_QPT_DRIVER:
		return "DRIVER";
	}
	snprintf(text, TRACE_NAMES_MAX, "%d", (int)type);
	return text;
}

/* ---- calls ---- */

/* Of a request that was refused the list may be anything: it is not read. */
static uint64_t sge_bytes(const struct ibv_sge *sge, int count, bool refused)
{
	uint64_t bytes = 0;

	for (int i = 0; i < count && !refused; i++)
		bytes += sge[i].length;
	return bytes;
}

void verbs_trace_sends(const char *call, struct ibv_qp *qp, const struct ibv_send_wr *wr,
		       const struct ibv_send_wr *bad, uint64_t began_ns, int err)
{
	for (; wr; wr = wr->next) {
		bool failed = err && (wr == bad || !bad);

		tracepoint(post_send, .name = call, .qp = to_qp(qp)->number, .wr_id = wr->wr_id,
			   .opcode = wr_opcode_word(wr->opcode),
			   .bytes = sge_bytes(wr->sg_list, wr->num_sge, failed),
			   .sges = wr->num_sge, .ns = began_ns, .error = failed ? err : 0,
			   .unsignaled =
				   !to_qp(qp)->signal_all && !(wr->send_flags & IBV_SEND_SIGNALED));
		if (failed)
			break;
	}
}

void verbs_trace_receives(const char *call, uint32_t qpn, const struct ibv_recv_wr *wr,
			  const struct ibv_recv_wr *bad, uint64_t began_ns, int err)
{
	for (; wr; wr = wr->next) {
		bool failed = err && wr == bad;

		tracepoint(post_receive, .name = call, .qp = qpn, .wr_id = wr->wr_id,
			   .bytes = sge_bytes(wr->sg_list, wr->num_sge, failed),
			   .sges = wr->num_sge, .ns = began_ns, .error = failed ? err : 0);
		if (failed)
			break;
	}
}

void verbs_trace_completion(const struct cq *cq, const struct ibv_wc *wc)
{
	bool good = wc->status == IBV_WC_SUCCESS, receive = wc->opcode & IBV_WC_RECV;
	bool has_bytes = receive || wc->opcode == IBV_WC_RDMA_READ || wc->opcode == IBV_WC_COMP_SWAP ||
			 wc->opcode == IBV_WC_FETCH_ADD;
	const char *name = wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM ? "RECV_RDMA_WITH_IMM" :
			   receive ? "RECV" : wc_opcode_word(wc->opcode);

	tracepoint(
		completion, .failure = !good && wc->status != IBV_WC_WR_FLUSH_ERR, .cq = cq->number,
		.qp = wc->qp_num, .wr_id = wc->wr_id, .status = wc_status_word(wc->status),
		.opcode = good ? name : NULL,
		.bytes = { good && has_bytes, wc->byte_len },
		.imm = { good && wc->wc_flags & IBV_WC_WITH_IMM, __builtin_bswap32(wc->imm_data) });
}

void verbs_trace_async(const struct ibv_async_event *event)
{
	const enum ibv_event_type type = event->event_type;
	bool fatal = type == IBV_EVENT_CQ_ERR || type == IBV_EVENT_QP_FATAL || type == IBV_EVENT_QP_REQ_ERR ||
		     type == IBV_EVENT_QP_ACCESS_ERR || type == IBV_EVENT_DEVICE_FATAL ||
		     type == IBV_EVENT_SRQ_ERR || type == IBV_EVENT_WQ_FATAL;
	bool of_qp = (type >= IBV_EVENT_QP_FATAL && type <= IBV_EVENT_PATH_MIG_ERR) ||
		     type == IBV_EVENT_QP_LAST_WQE_REACHED;
	char name[48];

	snprintf(name, sizeof(name), "IBV_EVENT_%s", event_word(type));
	tracepoint(async, .failure = fatal, .name = name, .qp = of_qp ? event->element.qp->qp_num : 0);
}
