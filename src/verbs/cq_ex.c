/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Extended completion queues, ibv_create_cq_ex(3): a cursor instead of an array.
 *
 *	start_poll -> read_*() -> next_poll -> read_*() -> ... -> end_poll
 *
 * The completion under the cursor is cq->current. Between a successful start_poll and end_poll
 * the CQ belongs to one thread: poll_lock is held, except for CQs that were created for a single
 * thread (IBV_CREATE_CQ_ATTR_SINGLE_THREADED). All fields are readable, also those
 * that wc_flags did not request.
 */
#include <stdatomic.h>
#include <time.h>

#include "verbs/check.h"
#include "verbs/trace.h"
#include "verbs/verbs.h"

static struct cq *to_cq_ex(struct ibv_cq_ex *ibv)
{
	return (struct cq *)ibv;
}

static int show_current(struct ibv_cq_ex *ibv, int got)
{
	const struct ibv_wc *wc = &to_cq_ex(ibv)->current.wc;

	if (!got)
		return ENOENT;
	ibv->wr_id = wc->wr_id;
	ibv->status = wc->status;
	if (trace_wants(TRACE_COMPLETIONS))
		verbs_trace_completion(to_cq_ex(ibv), wc);
	return 0;
}

static int next_poll(struct ibv_cq_ex *ibv)
{
	CALL_TWIN();

	return show_current(ibv, hca_next_completion(to_cq_ex(ibv), &to_cq_ex(ibv)->current));
}

typedef int poll_one(struct cq *cq, struct completion *completion);

static inline int start_poll_unlocked(struct ibv_cq_ex *ibv, struct ibv_poll_cq_attr *attr, poll_one *poll)
{
	if (attr && attr->comp_mask) {
		explain_refused("ibv_start_poll", EINVAL,
				"ibv_start_poll: comp_mask 0x%x must be 0",
			attr->comp_mask);
		return EINVAL;
	}
	return show_current(ibv, poll(to_cq_ex(ibv), &to_cq_ex(ibv)->current));
}

static int start_poll_alone(struct ibv_cq_ex *ibv, struct ibv_poll_cq_attr *attr)
{
	CALL_TWIN();

	return start_poll_unlocked(ibv, attr, hca_poll_cq_one);
}

static void end_poll_alone(struct ibv_cq_ex *ibv)
{
}

/* Returns with the lock held when it returns 0, and in a call: it ends with end_poll. */
static inline int start_poll_locked(struct ibv_cq_ex *ibv, struct ibv_poll_cq_attr *attr, poll_one *poll)
	TRY_ACQUIRES(0, to_cq_ex(ibv)->poll_lock)
{
	struct cq *cq = to_cq_ex(ibv);
	int err;

	call_enter(1);
	lock_acquire(&cq->poll_lock);
	err = start_poll_unlocked(ibv, attr, poll);
	if (!err)
		return 0;
	lock_release(&cq->poll_lock);
	call_leave(1);
	return err;
}

static int start_poll(struct ibv_cq_ex *ibv, struct ibv_poll_cq_attr *attr)
	TRY_ACQUIRES(0, to_cq_ex(ibv)->poll_lock)
{
	return start_poll_locked(ibv, attr, hca_poll_cq_one);
}

static void end_poll(struct ibv_cq_ex *ibv) RELEASES(to_cq_ex(ibv)->poll_lock)
{
	lock_release(&to_cq_ex(ibv)->poll_lock);
	call_leave(1);
}

/* Twins for a program with ThreadSanitizer. What the application does between them is looked at. */

static int next_poll_tsan(struct ibv_cq_ex *ibv)
{
	CALL();

	return show_current(ibv, hca_tsan_next_completion(to_cq_ex(ibv), &to_cq_ex(ibv)->current));
}

static int start_poll_alone_tsan(struct ibv_cq_ex *ibv, struct ibv_poll_cq_attr *attr)
{
	CALL();

	return start_poll_unlocked(ibv, attr, hca_tsan_poll_cq_one);
}

static int start_poll_tsan(struct ibv_cq_ex *ibv, struct ibv_poll_cq_attr *attr)
	TRY_ACQUIRES(0, to_cq_ex(ibv)->poll_lock)
{
	CALL();

	return start_poll_locked(ibv, attr, hca_tsan_poll_cq_one);
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ibv)
{
	return to_cq_ex(ibv)->current.wc.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ibv)
{
	return to_cq_ex(ibv)->current.wc.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ibv)
{
	return to_cq_ex(ibv)->current.wc.byte_len;
}

/* Also the invalidated rkey: the same place in struct ibv_wc. */
static __be32 read_imm_data(struct ibv_cq_ex *ibv)
{
	return to_cq_ex(ibv)->current.wc.imm_data;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ibv)
{
	return to_cq_ex(ibv)->current.wc.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ibv)
{
	return to_cq_ex(ibv)->current.wc.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ibv)
{
	return to_cq_ex(ibv)->current.wc.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ibv)
{
	return to_cq_ex(ibv)->current.wc.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ibv)
{
	return to_cq_ex(ibv)->current.wc.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ibv)
{
	return to_cq_ex(ibv)->current.wc.dlid_path_bits;
}

static uint64_t read_completion_ts(struct ibv_cq_ex *ibv)
{
	return to_cq_ex(ibv)->current.timestamp_ns;
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now = { 0 };

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/*
 * From one clock to the other, measured once in a process: a completion has one wall clock time, however often
 * it is read, and later ones have no earlier one, even if the clock is set back meanwhile.
 */
static uint64_t wallclock_offset_ns(void)
{
	static _Atomic uint64_t offset;
	uint64_t measured, found = atomic_load_explicit(&offset, memory_order_relaxed);

	if (found)
		return found;
	measured = clock_ns(CLOCK_REALTIME) - clock_ns(CLOCK_MONOTONIC);
	return atomic_compare_exchange_strong(&offset, &found, measured) ? measured : found;
}

static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ibv)
{
	return to_cq_ex(ibv)->current.timestamp_ns + wallclock_offset_ns();
}

static uint16_t read_cvlan(struct ibv_cq_ex *ibv)
{
	return to_cq_ex(ibv)->current.frame.cvlan;
}

static uint32_t read_flow_tag(struct ibv_cq_ex *ibv)
{
	return to_cq_ex(ibv)->current.frame.flow_tag;
}

/* Only a match has it: the header of any other message is in its buffer. */
static void read_tm_info(struct ibv_cq_ex *ibv, struct ibv_wc_tm_info *info)
{
	const struct completion *current = &to_cq_ex(ibv)->current;
	bool matched = current->wc.wc_flags & IBV_WC_TM_MATCH;

	info->tag = matched ? current->tag : 0;
	info->priv = matched ? current->wc.src_qp : 0;
}

/* Twins for a program that is checked. */

static int poll_told(struct ibv_cq_ex *ibv, int err, uint64_t other)
{
	if (!err)
		verbs_check_completion(to_cq_ex(ibv), &to_cq_ex(ibv)->current.wc);
	if (!err || err == ENOENT)
		verbs_check_polled(to_cq_ex(ibv), 1, !err, other);
	check_leave();
	return err;
}

static int next_poll_checked(struct ibv_cq_ex *ibv)
{
	uint64_t other = check_enter(CHECK_HANDLE(ibv));

	return poll_told(ibv, (tsan_is_on() ? next_poll_tsan : next_poll)(ibv), other);
}

static int start_poll_checked(struct ibv_cq_ex *ibv, struct ibv_poll_cq_attr *attr)
	TRY_ACQUIRES(0, to_cq_ex(ibv)->poll_lock)
{
	uint64_t other = check_enter(CHECK_HANDLE(ibv));

	return poll_told(ibv, (tsan_is_on() ? start_poll_tsan : start_poll)(ibv, attr), other);
}

static int start_poll_alone_checked(struct ibv_cq_ex *ibv, struct ibv_poll_cq_attr *attr)
{
	uint64_t other = check_enter(CHECK_HANDLE(ibv));

	return poll_told(ibv, (tsan_is_on() ? start_poll_alone_tsan : start_poll_alone)(ibv, attr),
			 other);
}

/* A field that a completion with an error does not have. */
#define READ_CHECKED(type, name)                                                                   \
	static type read_##name##_checked(struct ibv_cq_ex *ibv)                                   \
	{                                                                                          \
		verbs_check_read("ibv_wc_read_" #name, ibv);                                       \
		return read_##name(ibv);                                                           \
	}
READ_CHECKED(enum ibv_wc_opcode, opcode)
READ_CHECKED(uint32_t, byte_len)
READ_CHECKED(__be32, imm_data)
READ_CHECKED(uint32_t, src_qp)
READ_CHECKED(unsigned, wc_flags)
READ_CHECKED(uint32_t, slid)
READ_CHECKED(uint8_t, sl)
READ_CHECKED(uint8_t, dlid_path_bits)

static void cq_ex_fill(struct ibv_cq_ex *ibv, bool single_threaded)
{
	ibv->start_poll = single_threaded ? start_poll_alone : start_poll;
	ibv->next_poll = next_poll;
	ibv->end_poll = single_threaded ? end_poll_alone : end_poll;
	if (tsan_is_on()) {
		ibv->start_poll = single_threaded ? start_poll_alone_tsan : start_poll_tsan;
		ibv->next_poll = next_poll_tsan;
	}
	ibv->read_opcode = read_opcode;
	ibv->read_vendor_err = read_vendor_err;
	ibv->read_byte_len = read_byte_len;
	ibv->read_imm_data = read_imm_data;
	ibv->read_qp_num = read_qp_num;
	ibv->read_src_qp = read_src_qp;
	ibv->read_wc_flags = read_wc_flags;
	ibv->read_slid = read_slid;
	ibv->read_sl = read_sl;
	ibv->read_dlid_path_bits = read_dlid_path_bits;
	ibv->read_completion_ts = read_completion_ts;
	ibv->read_completion_wallclock_ns = read_completion_wallclock_ns;
	ibv->read_cvlan = read_cvlan;
	ibv->read_flow_tag = read_flow_tag;
	ibv->read_tm_info = read_tm_info;
	if (check_is_on()) {
		ibv->start_poll = single_threaded ? start_poll_alone_checked : start_poll_checked;
		ibv->next_poll = next_poll_checked;
		ibv->read_opcode = read_opcode_checked;
		ibv->read_byte_len = read_byte_len_checked;
		ibv->read_imm_data = read_imm_data_checked;
		ibv->read_src_qp = read_src_qp_checked;
		ibv->read_wc_flags = read_wc_flags_checked;
		ibv->read_slid = read_slid_checked;
		ibv->read_sl = read_sl_checked;
		ibv->read_dlid_path_bits = read_dlid_path_bits_checked;
	}
}

static int cq_ex_check(const struct ibv_cq_init_attr_ex *attr)
{
	const uint64_t wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
				  IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK |
				  IBV_WC_EX_WITH_CVLAN | IBV_WC_EX_WITH_FLOW_TAG |
				  IBV_WC_EX_WITH_TM_INFO;
	const uint32_t flags = IBV_CREATE_CQ_ATTR_SINGLE_THREADED |
			       IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	const uint32_t mask = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;

	if (attr->cqe < 1 || attr->cqe > INT32_MAX) {
		explain_refused("ibv_create_cq_ex", EINVAL,
				"ibv_create_cq_ex: invalid cqe %d: expected at least 1",
			(int)attr->cqe);
		return EINVAL;
	}
	if (attr->wc_flags & ~wc_flags)
		return refuse_verb("ibv_create_cq_ex", "wc_flags that no release has");
	if (attr->comp_mask & ~mask) {
		explain_refused("ibv_create_cq_ex", EINVAL,
				"ibv_create_cq_ex: comp_mask 0x%x has unknown bits", attr->comp_mask);
		return EINVAL;
	}
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) && (attr->flags & ~flags))
		return refuse_verb("ibv_create_cq_ex", "flags beyond SINGLE_THREADED and "
				"IGNORE_OVERRUN");
	if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
	    (!attr->parent_domain || !domain_is_parent(attr->parent_domain))) {
		explain_refused("ibv_create_cq_ex", EINVAL,
				"ibv_create_cq_ex: parent_domain is not from ibv_alloc_parent_domain");
		return EINVAL;
	}
	return 0;
}

struct ibv_cq_ex *cq_create_ex_verb(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	CALL();
	struct ibv_cq_init_attr_ex full;
	struct cq *cq;
	int err;

	if (!context || !attr)
		return fail(refuse_null("ibv_create_cq_ex", context ? "cq_attr" : "context"));
	err = cq_ex_check(attr);
	if (err)
		return fail(err);
	full = *attr;
	if (!(attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS))
		full.flags = 0;
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD && domain_is_of_one_thread(attr->parent_domain))
		full.flags |= IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	full.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	full.parent_domain = NULL;
	cq = cq_create(context, &full, attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ?
				       domain_allocator(attr->parent_domain) : NULL);
	if (!cq)
		return NULL;
	cq_ex_fill(&cq->ibv, full.flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED);
	return &cq->ibv;
}
