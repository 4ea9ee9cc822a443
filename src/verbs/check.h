/* SPDX-License-Identifier: BSD-2-Clause */
/* What `verbatim check` is told of the verbs that a program calls. Each function is for
 * check_is_on() to guard. */
#ifndef VERBATIM_VERBS_CHECK_H
#define VERBATIM_VERBS_CHECK_H

#include "verbs/verbs.h" /* first: inner.h */

#include "check/check.h"
#include "check/inside.h"

/* A record off the data path, of fields of struct check_record. */
#define verbs_checked(...)                                                                         \
	do {                                                                                       \
		if (check_is_on())                                                                 \
			check_take(&(struct check_record){ __VA_ARGS__ });                         \
	} while (0)
#define CHECK_HANDLE(pointer) ((uint64_t)(uintptr_t)(pointer))
#define verbs_checked_made(of, name, pointer, ...)                                                 \
	verbs_checked(.what = CHECK_MADE, .kind = CHECK_##of, .call = (name),                      \
		      .object = CHECK_HANDLE(pointer), __VA_ARGS__)
/* The end of an object: before the call, and behind it. */
#define verbs_checked_ending(of, name, pointer)                                                    \
	verbs_checked(.what = CHECK_ENDING, .kind = CHECK_##of, .call = (name),                    \
		      .object = CHECK_HANDLE(pointer),                                             \
		      .inside = check_inside(CHECK_HANDLE(pointer)))
#define verbs_checked_ended(of, name, pointer, err)                                                \
	verbs_checked(.what = CHECK_ENDED, .kind = CHECK_##of, .call = (name), .error = (err),     \
		      .object = CHECK_HANDLE(pointer))

/* What is asked for, before the call. 0, or the errno that the adapter would give. */
int verbs_check_asked_mr(const char *call, uint64_t bytes);
int verbs_check_asked_qp(const char *call, const struct ibv_qp_init_attr_ex *attr, bool builds);
int verbs_check_modified(const struct qp *qp, const struct ibv_qp_attr *attr, int mask);
int verbs_check_asked_ah(struct ibv_context *context, const struct ibv_ah_attr *attr);
#define verbs_asked(...)                                                                           \
	(check_is_on() ? check_ask(&(struct check_record){ .what = CHECK_ASK, __VA_ARGS__ }) : 0)
/* The program looks at the limits of the device or port, and is told those of the adapter. */
void verbs_check_limits(struct ibv_device_attr *attr);
void verbs_check_port(struct ibv_port_attr *attr);
void verbs_check_mr(const char *call, const struct mr *mr, const struct pd *pd, uint64_t address,
		    uint64_t bytes);
/* @domain: the parent domain that it was made in, or its PD, or NULL. */
void verbs_check_qp(const char *call, const struct qp *qp, const struct ibv_qp_init_attr_ex *attr,
		    struct ibv_pd *domain);
/* Before the call, with where it was called from: 0, or the errno that the adapter would give; and
 * if it failed: from @bad on nothing was posted. */
int verbs_check_sends(const char *call, struct ibv_qp *qp, const struct ibv_send_wr *wr,
		      const void *site, const void *frame);
void verbs_check_sends_failed(const char *call, struct ibv_qp *qp, const struct ibv_send_wr *bad,
			      int err);
/* @object: the qp or srq, which takes @max_sge. */
void verbs_check_receives(const char *call, const void *object, uint32_t max_sge,
			  const struct ibv_recv_wr *wr, const void *site, const void *frame);
void verbs_check_receives_failed(const char *call, const void *object,
				 const struct ibv_recv_wr *bad, int err);
/* A poll for @count that got so many; completions are told before it. @other: a thread that was in
 * a call on it, or 0. */
void verbs_check_polled(const struct cq *cq, int count, int got, uint64_t other);
void verbs_check_poison(struct ibv_wc *wc);
/* A field of the completion at hand is read. */
void verbs_check_read(const char *call, const struct ibv_cq_ex *cq);
void verbs_check_completion(const struct cq *cq, const struct ibv_wc *wc);
/* The same; with --strict its event is raised as the adapter does. */
int verbs_check_arm(struct cq *cq, bool solicited);
void verbs_check_wait(const struct ibv_comp_channel *channel);
/* The device, as the rules may ask it. */
extern const struct check_device verbs_check_device;

#endif
