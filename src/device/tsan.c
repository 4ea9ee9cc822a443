/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Posting and polling in a program with ThreadSanitizer: what they usually do, and what the
 * sanitizer has to know of it (base/tsan.h). Which requests were accepted is known behind the post
 * only, when they may have completed already: polling waits until they are told.
 */
#include "device/tsan_adapter.h"

#include "base/copy.h"
#include "device/internal.h"
#include "object/srq.h"
#include "object/wq.h"
#include "wire/qpn.h"

#define ACCESSES_MAX	32u
#define QPN_OF_TAGS	0u		/* for what is posted to lists of tags */

/* Where the element lies; false: nowhere, and the request will fail. */
static bool sge_locate(struct hca *hca, const struct ibv_sge *sge, struct tsan_access *access)
{
	struct mr_description region;
	uint64_t offset;
	bool inside;

	if (!sge->length || !mr_describe(&hca->mrs, sge->lkey, &region))
		return false;
	offset = sge->addr - region.start;
	inside = offset <= region.length && sge->length <= region.length - offset;
	*access = (struct tsan_access){ .start = (uintptr_t)(region.host + offset), .bytes = sge->length,
					.lkey = sge->lkey };
	mr_describe_end(&region);
	return inside;
}

struct tsan_post {
	struct hca *hca;
	const void *queue;
	struct lock *lock;		/* held from tsan_post_begin() to tsan_post_end() */
	uint32_t number;		/* of the next request */
	struct tsan_site site;
};

static void tsan_post_begin(struct tsan_post *post, void *context, const void *queue) ACQUIRES(post->lock)
{
	post->hca = ((struct hca_context *)context)->hca;
	post->queue = queue;
	post->lock = tsan_post_lock(queue);
	tsan_find_site(&post->site);
	lock_acquire(post->lock);
}

static void tsan_post_end(const struct tsan_post *post) RELEASES(post->lock)
{
	lock_release(post->lock);
}

/* The next request of the queue; with no data it still hands over what its poster did before. */
static void tsan_request(struct tsan_post *post, const struct ibv_sge *sge, int count, bool writes)
{
	struct tsan_access access[ACCESSES_MAX];
	unsigned used = 0;

	for (int i = 0; i < count; i++) {
		if (used == ACCESSES_MAX) {
			tsan_record(post->queue, post->number, &post->site, access, used);
			used = 0;
		}
		if (sge_locate(post->hca, &sge[i], &access[used]))
			access[used++].writes = writes;
	}
	tsan_record(post->queue, post->number++, &post->site, access, used);
}

/* ---- sends ---- */

static void tsan_post_begin_send(struct tsan_post *post, struct qp *qp, const struct ibv_send_wr *wr)
	ACQUIRES(post->lock)
{
	uint32_t peer;

	tsan_post_begin(post, qp->owner, &qp->sq.slots);
	lock_acquire(&qp->lock);
	post->number = qp->sq.head;
	peer = qp->attr.dest_qp_num;
	lock_release(&qp->lock);
	for (; wr && qp_is(qp, QP_DATAGRAM); wr = wr->next)
		tsan_sending_to(wr->wr.ud.remote_qpn);
	tsan_sending_to(peer);
}

static void tsan_sent(struct tsan_post *post, const struct ibv_send_wr *wr)
{
	const struct wr_row *row = wr_row_of_post(wr->opcode);
	bool scatters = row && row->is & WR_SCATTERS;
	bool gathers = row && row->is & (WR_IS_SEND | WR_WRITES);
	bool by_list = scatters || (gathers && !(wr->send_flags & IBV_SEND_INLINE));

	tsan_request(post, gathers || scatters ? wr->sg_list : NULL, by_list ? wr->num_sge : 0,
		     scatters);
}

void hca_tsan_read_inline(const struct qp *qp, const struct ibv_send_wr *wr)
{
	for (; wr; wr = wr->next) {
		if (!(wr->send_flags & IBV_SEND_INLINE) || wr->num_sge > (int)qp->cap.max_send_sge)
			continue;
		for (int i = 0; i < wr->num_sge; i++) {
			const void *data = (const void *)(uintptr_t)wr->sg_list[i].addr;
			uint32_t bytes = wr->sg_list[i].length;

			/* What is not mapped is not the sanitizer's to look at. */
			if (bytes && bytes <= qp->cap.max_inline_data && !user_touch(data, bytes))
				tsan_reads(data, bytes);
		}
	}
}

int hca_tsan_post_send(struct qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct tsan_post post;
	int err;

	tsan_post_begin_send(&post, qp, wr);
	err = hca_post_send(qp, wr, bad);
	for (; wr && !(err && wr == *bad); wr = wr->next)
		tsan_sent(&post, wr);
	tsan_post_end(&post);
	return err;
}

int hca_tsan_post_send_all(struct qp *qp, struct ibv_send_wr *wr)
{
	struct tsan_post post;
	int err;

	tsan_post_begin_send(&post, qp, wr);
	err = hca_post_send_all(qp, wr);
	for (; wr && !err; wr = wr->next)
		tsan_sent(&post, wr);
	tsan_post_end(&post);
	return err;
}

int hca_tsan_bind_mw(struct qp *qp, struct mw *mw, struct ibv_mw_bind *bind)
{
	struct tsan_post post;
	int err;

	tsan_post_begin_send(&post, qp, NULL);
	err = hca_bind_mw(qp, mw, bind);
	if (!err)
		tsan_request(&post, NULL, 0, false);
	tsan_post_end(&post);
	return err;
}

/* ---- receives ---- */

static void tsan_post_begin_recv(struct tsan_post *post, void *context, const struct recv_queue *queue)
	ACQUIRES(post->lock)
{
	tsan_post_begin(post, context, &queue->slots);
	post->number = atomic_load_explicit(&queue->head, memory_order_relaxed);
}

static void tsan_post_end_recv(struct tsan_post *post, const struct ibv_recv_wr *wr,
			       const struct ibv_recv_wr *bad)
	RELEASES(post->lock)
{
	for (; wr && wr != bad; wr = wr->next)
		tsan_request(post, wr->sg_list, wr->num_sge, true);
	tsan_post_end(post);
}

int hca_tsan_post_recv(struct qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct tsan_post post;
	int err;

	tsan_post_begin_recv(&post, qp->owner, &qp->rq);
	err = hca_post_recv(qp, wr, bad);
	tsan_post_end_recv(&post, wr, err ? *bad : NULL);
	return err;
}

int hca_tsan_post_srq_recv(struct srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct tsan_post post;
	int err;

	if (srq->tags)	/* completions of its receives have no numbers */
		tsan_renumber(&srq->queue.slots);
	tsan_post_begin_recv(&post, srq->owner, &srq->queue);
	err = hca_post_srq_recv(srq, wr, bad);
	tsan_post_end_recv(&post, wr, err ? *bad : NULL);
	return err;
}

int hca_tsan_post_wq_recv(struct wq *wq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct tsan_post post;
	int err;

	tsan_post_begin_recv(&post, wq->owner, &wq->queue);
	err = hca_post_wq_recv(wq, wr, bad);
	tsan_post_end_recv(&post, wr, err ? *bad : NULL);
	return err;
}

/* Buffers of tags are not told: who matches one, and when, no number says. */
int hca_tsan_post_srq_ops(struct srq *srq, struct ibv_ops_wr *wr, struct ibv_ops_wr **bad)
{
	tsan_sending_to(QPN_OF_TAGS);
	return hca_post_srq_ops(srq, wr, bad);
}

/* ---- completions ---- */

static void tsan_completed(const struct completion *completion)
{
	const struct ibv_wc *wc = &completion->wc;

	if (completion->slot.of)
		tsan_polled(completion->slot.of, completion->slot.number);
	if (wc->status != IBV_WC_SUCCESS || !(wc->opcode & IBV_WC_RECV))
		return;
	tsan_received_by(wc->qp_num);
	tsan_received_by(QPN_MULTICAST);
	tsan_received_by(QPN_OF_TAGS);
}

int hca_tsan_poll_cq_one(struct cq *cq, struct completion *completion)
{
	int got = hca_poll_cq_one(cq, completion);

	if (got)
		tsan_completed(completion);
	return got;
}

int hca_tsan_next_completion(struct cq *cq, struct completion *completion)
{
	int got = hca_next_completion(cq, completion);

	if (got)
		tsan_completed(completion);
	return got;
}

int hca_tsan_poll_cq(struct cq *cq, int count, struct ibv_wc *wc)
{
	struct completion completion;
	int got = 0;

	if (count < 1 || ((struct hca_context *)cq->owner)->abandoned)
		return hca_poll_cq(cq, count, wc);
	while (got < count && (got ? hca_tsan_next_completion : hca_tsan_poll_cq_one)(cq, &completion))
		wc[got++] = completion.wc;
	return got;
}
