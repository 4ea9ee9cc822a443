/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * modify_qp: checks the transition, its required and optional attributes (qp_state.def) and the ranges of
 * values; then applies the attributes.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "object/qp_internal.h"
#include "wire/packet.h"
#include "wire/psn.h"

/*
 * Permission for a peer's FLUSH (rdma-core 45), which the device does not support: accepted,
 * without effect.
 */
#define ACCESS_FLUSH	(3u << 8)	/* IBV_ACCESS_FLUSH_GLOBAL, _PERSISTENT */
#define QP_ACCESS_KNOWN \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | \
	 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | ACCESS_FLUSH | IBV_ACCESS_OPTIONAL_RANGE)

/* "IBV_QP_AV (ah_attr), IBV_QP_PORT (port_num)" for the bits of @mask. */
static const char *attributes_text(int mask, char *text, size_t size)
{
	static const struct {
		int bit;
		const char *text;
	} names[] = {
#define ATTRIBUTE(bit, member) { bit, #bit " (" member ")" },
#include "object/qp_attribute.def"
#undef ATTRIBUTE
	};
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (!(mask & names[i].bit) || used >= size)
			continue;
		used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
					 names[i].text);
		mask &= ~names[i].bit;
	}
	if (mask && used < size)
		snprintf(text + used, size - used, "%sunknown bits 0x%x", used ? ", " : "",
			 (unsigned)mask);
	return text;
}

/* Say that there is no such transition, and which there are. */
static void explain_no_move(const struct qp *qp, enum ibv_qp_state from, enum ibv_qp_state to)
{
	char text[128];
	size_t used = 0;

	text[0] = '\0';
	for (unsigned i = 0; i < QP_STATES; i++) {
		if (qp_move_get(from, (enum ibv_qp_state)i, qp->type)->allowed)
			used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s",
						 used ? ", " : "",
						 qp_state_name((enum ibv_qp_state)i));
	}
	explain("ibv_modify_qp: qp 0x%06x %s cannot go from %s to %s, only to %s", qp->number,
		qp_type_name(qp->type), qp_state_name(from), qp_state_name(to), text);
}

static int check_mask(const struct qp *qp, enum ibv_qp_state to, int mask) REQUIRES(qp->lock)
{
	const struct qp_move *move = qp_move_get(qp->state, to, qp->type);
	int lacking = move->required & ~mask;
	int forbidden = mask & ~(move->required | move->optional | IBV_QP_STATE);
	char text[1024];

	if (!move->allowed) {
		explain_no_move(qp, qp->state, to);
		return EINVAL;
	}
	if (lacking)
		explain("ibv_modify_qp: qp 0x%06x %s to %s lacks %s", qp->number,
			qp_state_name(qp->state), qp_state_name(to),
			attributes_text(lacking, text, sizeof(text)));
	if (forbidden)
		explain("ibv_modify_qp: qp 0x%06x (%s) %s to %s does not take %s", qp->number,
			qp_type_name(qp->type), qp_state_name(qp->state), qp_state_name(to),
			attributes_text(forbidden, text, sizeof(text)));
	return lacking || forbidden ? EINVAL : 0;
}

static int check_value(const struct qp *qp, bool given, const char *member, uint32_t value,
		       uint32_t least, uint32_t most)
{
	if (!given || (value >= least && value <= most))
		return 0;
	if (least == most)
		explain("ibv_modify_qp: qp 0x%06x: %s is %u, must be %u", qp->number, member,
			value, most);
	else
		explain_refused("ibv_modify_qp", EINVAL,
				"ibv_modify_qp: qp 0x%06x: %s is %u, outside %u..%u", qp->number,
				member, value,
			least, most);
	return EINVAL;
}

static int check_values(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	const bool path = mask & IBV_QP_AV, alternate = mask & IBV_QP_ALT_PATH;
	const unsigned unknown = attr->qp_access_flags & ~(unsigned)QP_ACCESS_KNOWN;
	const struct {
		bool given;
		const char *member;
		uint32_t value, least, most;
	} checks[] = {
		{ mask & IBV_QP_PORT, "port_num", attr->port_num, 1, qp->ports },
		{ mask & IBV_QP_PKEY_INDEX, "pkey_index", attr->pkey_index, 0, qp->pkeys - 1u },
		{ path, "ah_attr.port_num", attr->ah_attr.port_num, 1, qp->ports },
		{ path, "ah_attr.sl", attr->ah_attr.sl, 0, 15 },
		{ mask & IBV_QP_PATH_MTU, "path_mtu", attr->path_mtu, IBV_MTU_256, IBV_MTU_4096 },
		{ mask & IBV_QP_DEST_QPN, "dest_qp_num", attr->dest_qp_num, 0, QPN_MASK },
		{ mask & IBV_QP_TIMEOUT, "timeout", attr->timeout, 0, 31 },
		{ mask & IBV_QP_RETRY_CNT, "retry_cnt", attr->retry_cnt, 0, 7 },
		{ mask & IBV_QP_RNR_RETRY, "rnr_retry", attr->rnr_retry, 0, 7 },
		{ mask & IBV_QP_MIN_RNR_TIMER, "min_rnr_timer", attr->min_rnr_timer, 0, 31 },
		{ mask & IBV_QP_MAX_QP_RD_ATOMIC, "max_rd_atomic", attr->max_rd_atomic, 0,
		  RD_ATOMIC_MAX },
		{ mask & IBV_QP_MAX_DEST_RD_ATOMIC, "max_dest_rd_atomic", attr->max_dest_rd_atomic,
		  0, RD_ATOMIC_MAX },
		{ alternate, "alt_port_num", attr->alt_port_num, 1, qp->ports },
		{ alternate, "alt_pkey_index", attr->alt_pkey_index, 0, qp->pkeys - 1u },
		{ alternate, "alt_timeout", attr->alt_timeout, 0, 31 },
	};
	int err;

	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++) {
		err = check_value(qp, checks[i].given, checks[i].member, checks[i].value,
				  checks[i].least, checks[i].most);
		if (err)
			return err;
	}
	if (mask & IBV_QP_ACCESS_FLAGS && unknown) {
		explain_refused("ibv_modify_qp", EINVAL,
				"ibv_modify_qp: qp 0x%06x: qp_access_flags 0x%x has unknown bits 0x%x",
				qp->number,
			attr->qp_access_flags, unknown);
		return EINVAL;
	}
	/* There is no automatic path migration (IBV_DEVICE_AUTO_PATH_MIG): a QP is always migrated. */
	if (mask & IBV_QP_PATH_MIG_STATE && attr->path_mig_state != IBV_MIG_MIGRATED) {
		explain_refused("ibv_modify_qp", EINVAL,
				"ibv_modify_qp: qp 0x%06x: path_mig_state %d: the device has no automatic path "
			"migration: use IBV_MIG_MIGRATED", qp->number, (int)attr->path_mig_state);
		return EINVAL;
	}
	return 0;
}

/* As Linux does for all devices: programs (perftest) name the attributes of RC. */
int qp_modify_mask(enum ibv_qp_type type, int mask)
{
	if (type == IBV_QPT_XRC_SEND)
		return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	if (type == IBV_QPT_XRC_RECV)
		return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
	return mask;
}

int qp_modify_check(const struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	enum ibv_qp_state to = mask & IBV_QP_STATE ? attr->qp_state : qp->state;
	int err;

	if (mask & IBV_QP_STATE && (unsigned)attr->qp_state >= QP_STATES) {
		explain_refused("ibv_modify_qp", EINVAL,
				"ibv_modify_qp: qp 0x%06x: invalid qp_state %d", qp->number,
			(int)attr->qp_state);
		return EINVAL;
	}
	if (mask & IBV_QP_CUR_STATE && attr->cur_qp_state != qp->state) {
		explain_refused("ibv_modify_qp", EINVAL,
				"ibv_modify_qp: qp 0x%06x: cur_qp_state says %s but the qp is in %s",
			qp->number, qp_state_name(attr->cur_qp_state), qp_state_name(qp->state));
		return EINVAL;
	}
	err = check_mask(qp, to, mask);
	if (err)
		return err;
	/* IBTA 10.3.1.5: in SQD nothing is modified, nor resumed, before the send queue is drained. */
	if (qp->state == IBV_QPS_SQD && qp->attr.sq_draining && to != IBV_QPS_RESET && to != IBV_QPS_ERR) {
		explain_refused("ibv_modify_qp", EINVAL,
				"ibv_modify_qp: qp 0x%06x SQD to %s: the send queue is not drained: wait for "
			"IBV_EVENT_SQ_DRAINED, or until query_qp returns sq_draining 0", qp->number,
			qp_state_name(to));
		return EINVAL;
	}
	return check_values(qp, attr, mask);
}

void qp_modify_apply(struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RESET) {
		/* As at creation (IBTA 10.3.1.1); a UD QP keeps the MTU of its port. */
		memset(&qp->attr, 0, sizeof(qp->attr));
		qp->attr.cap = qp->cap;
		memset(&qp->route, 0, sizeof(qp->route));
		if (!qp_is(qp, QP_DATAGRAM) && !qp_is(qp, QP_RAW))
			qp->mtu = 0;
	}
	if (mask & IBV_QP_STATE)
		atomic_store_explicit(&qp->was_reset, attr->qp_state == IBV_QPS_RESET, memory_order_release);
	if (mask & IBV_QP_PORT)
		qp->attr.port_num = attr->port_num;
	if (mask & IBV_QP_PKEY_INDEX)
		qp->attr.pkey_index = attr->pkey_index;
	if (mask & IBV_QP_AV)
		qp->attr.ah_attr = attr->ah_attr;
	if (mask & IBV_QP_DEST_QPN)
		qp->attr.dest_qp_num = attr->dest_qp_num;
	if (mask & IBV_QP_PATH_MTU) {
		qp->attr.path_mtu = attr->path_mtu;
		qp->mtu = 128u << attr->path_mtu;
	}
	if (mask & IBV_QP_ALT_PATH) {
		qp->attr.alt_ah_attr = attr->alt_ah_attr;
		qp->attr.alt_pkey_index = attr->alt_pkey_index;
		qp->attr.alt_port_num = attr->alt_port_num;
		qp->attr.alt_timeout = attr->alt_timeout;
	}
	if (mask & IBV_QP_PATH_MIG_STATE)
		qp->attr.path_mig_state = attr->path_mig_state;
	if (mask & IBV_QP_ACCESS_FLAGS)
		qp->attr.qp_access_flags = attr->qp_access_flags;
	if (mask & IBV_QP_QKEY)
		qp->attr.qkey = attr->qkey;
	if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY)
		qp->attr.en_sqd_async_notify = attr->en_sqd_async_notify;
	if (mask & IBV_QP_RATE_LIMIT)
		qp->attr.rate_limit = attr->rate_limit;
	if (mask & IBV_QP_RQ_PSN)
		qp->attr.rq_psn = attr->rq_psn & PSN_MASK;
	if (mask & IBV_QP_SQ_PSN)
		qp->attr.sq_psn = attr->sq_psn & PSN_MASK;
	if (mask & IBV_QP_TIMEOUT)
		qp->attr.timeout = attr->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		qp->attr.retry_cnt = attr->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		qp->attr.rnr_retry = attr->rnr_retry;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		qp->attr.min_rnr_timer = attr->min_rnr_timer;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		qp->attr.max_rd_atomic = attr->max_rd_atomic;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		qp->attr.max_dest_rd_atomic = attr->max_dest_rd_atomic;
	qp->access->dest_qpn = qp->attr.dest_qp_num;
	atomic_store_explicit(&qp->access->access, qp->attr.qp_access_flags, memory_order_release);
	if (mask & IBV_QP_STATE) {
		qp_move_state(qp, attr->qp_state, "ibv_modify_qp");
		/* What the application asked for: as libibverbs, an error does not change it, and a query does. */
		qp->ibv.qp_base.state = attr->qp_state;
	}
}
