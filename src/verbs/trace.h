/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of verbs in a trace. Each function is for trace_wants() to guard, but for verbs_traced(). */
#ifndef VERBATIM_VERBS_TRACE_H
#define VERBATIM_VERBS_TRACE_H

#include "verbs/verbs.h"	/* first: inner.h */

#include "trace/trace.h"

/* Each request of the list from @wr to before @bad (NULL: all); @bad failed with @err. */
void verbs_trace_sends(const char *call, struct ibv_qp *qp, const struct ibv_send_wr *wr,
		       const struct ibv_send_wr *bad, uint64_t began_ns, int err);
/* The same of receives; @qpn 0: of an SRQ. */
void verbs_trace_receives(const char *call, uint32_t qpn, const struct ibv_recv_wr *wr,
			  const struct ibv_recv_wr *bad, uint64_t began_ns, int err);
void verbs_trace_completion(const struct cq *cq, const struct ibv_wc *wc);
/* "STATE|PORT" of a mask of ibv_modify_qp(), "LOCAL_WRITE" of access flags, "RC": @text, or a constant. */
#define TRACE_NAMES_MAX 400u
const char *verbs_trace_mask(int mask, char text[TRACE_NAMES_MAX]);
const char *verbs_trace_access(unsigned access, char text[TRACE_NAMES_MAX]);
const char *verbs_trace_type(enum ibv_qp_type type, char text[TRACE_NAMES_MAX]);
void verbs_trace_async(const struct ibv_async_event *event);
/* The operations of a context that programs call through: those that trace, or the others. */
void verbs_trace_context(struct ibv_context_ops *ops, bool on);

/* The end of a call off the data path; @began: tracepoint_began_ns(); more: fields of that row. */
#define verbs_traced(call_name, began, err, ...) \
	tracepoint(call, .name = (call_name), .ns = (began), .error = (err), ##__VA_ARGS__)

#endif
