/* SPDX-License-Identifier: BSD-2-Clause */
/* Questions to subnet administration: sa.h. What the MAD has where: wire/sa.h. */
#include "cm/sa/sa.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/counters.h"
#include "base/list.h"
#include "base/timer_heap.h"
#include "wire/rmpp.h"
#include "wire/smp.h"

#define BUCKETS		256u
#define FIRST_WAIT_NS	40000000u	/* an answer takes less than a millisecond, if the SA has time */
#define LAST_WAIT_NS	1000000000u

#define ANSWERED	256u		/* questions of which another answer is known as one */

/* What tells its answer from others. */
struct sa_asked {
	uint32_t tid;
	uint16_t port, lid;		/* lid: asked last; 0: nobody so far */
	uint16_t attribute;
	uint8_t method;			/* of the answer */
};

struct sa_query {
	struct timer timer;		/* first */
	struct list node;		/* of its bucket */
	struct sa *sa;
	struct sa_asked asked;
	bool sent;
	uint64_t wait_ns, end_ns;
	void (*done)(void *owner, const struct sa_answer *answer);
	void *owner;
	uint8_t mad[MAD_BYTES];
};

struct sa {
	const struct sa_ops *ops;
	void *host;
	uint32_t last_tid;
	unsigned pending;
	struct timer_heap timers;
	struct list bucket[BUCKETS];
	struct sa_asked answered[ANSWERED];	/* the last ones, by number */
	unsigned answers;
};

struct sa *sa_new(const struct sa_ops *ops, void *host, uint32_t first_tid)
{
	struct sa *sa = calloc(1, sizeof(*sa));

	if (!sa)
		return NULL;
	sa->ops = ops;
	sa->host = host;
	sa->last_tid = first_tid;
	for (unsigned i = 0; i < BUCKETS; i++)
		list_init(&sa->bucket[i]);
	return sa;
}

void sa_cancel(struct sa_query *query)
{
	timer_set(&query->sa->timers, &query->timer, TIME_NEVER);
	list_remove(&query->node);
	query->sa->pending--;
	free(query);
}

void sa_free(struct sa *sa)
{
	if (!sa)
		return;
	for (unsigned i = 0; i < BUCKETS; i++)
		while (!list_empty(&sa->bucket[i]))
			sa_cancel(list_entry(sa->bucket[i].next, struct sa_query, node));
	timer_heap_free(&sa->timers);
	free(sa);
}

static struct sa_query *sa_find(const struct sa *sa, uint32_t tid)
{
	const struct list *bucket = &sa->bucket[tid % BUCKETS];
	struct list *node;

	list_for_each(node, bucket)
		if (list_entry(node, struct sa_query, node)->asked.tid == tid)
			return list_entry(node, struct sa_query, node);
	return NULL;
}

/* Sends it, and says when the next time is. */
static void query_send(struct sa_query *query, uint64_t now_ns)
{
	struct sa *sa = query->sa;
	uint16_t lid = sa->ops->send(sa->host, query->asked.port, query->mad);
	uint64_t next_ns = now_ns + query->wait_ns;

	if (lid) {
		if (query->sent)
			sa->ops->count(sa->host, COUNTER_SA_RETRY);
		query->asked.lid = lid;
		query->sent = true;
	}
	query->wait_ns = query->wait_ns < LAST_WAIT_NS / 2 ? 2 * query->wait_ns : LAST_WAIT_NS;
	timer_set(&sa->timers, &query->timer, next_ns < query->end_ns ? next_ns : query->end_ns);
}

static void query_end(struct sa_query *query, const struct sa_answer *answer)
{
	void (*done)(void *owner, const struct sa_answer *answer) = query->done;
	void *owner = query->owner;

	sa_cancel(query);
	done(owner, answer);
}

int sa_ask(struct sa *sa, const struct sa_question *question,
	   void (*done)(void *owner, const struct sa_answer *answer), void *owner, uint64_t now_ns,
	   struct sa_query **asked)
{
	struct mad_header header = {
		.base_version = MAD_BASE_VERSION, .class = MAD_CLASS_ADMINISTRATION,
		.class_version = SA_CLASS_VERSION, .method = question->method,
		.attribute_id = record_layout(question->record)->attribute,
	};
	struct sa_query *query;

	if (sa->pending == SA_PENDING_MAX)
		return EBUSY;
	query = calloc(1, sizeof(*query));
	if (!query || timer_heap_reserve(&sa->timers, sa->pending + 1)) {
		free(query);
		return ENOMEM;
	}
	do
		sa->last_tid++;
	while (!sa->last_tid || sa_find(sa, sa->last_tid));
	query->sa = sa;
	header.transaction_id = sa->last_tid;
	query->asked = (struct sa_asked){ .tid = sa->last_tid, .port = question->port,
					  .attribute = header.attribute_id,
					  .method = MAD_METHOD_GET_RESPONSE };	/* of Set, too (15.2.2) */
	if (question->method == MAD_METHOD_DELETE)
		query->asked.method = MAD_METHOD_DELETE | MAD_METHOD_RESPONSE;
	query->done = done;
	query->owner = owner;
	query->wait_ns = FIRST_WAIT_NS;
	query->end_ns = now_ns + question->timeout_ns;
	if (query->end_ns < now_ns)
		query->end_ns = TIME_NEVER - 1;
	mad_write(&header, query->mad);
	put_be64(query->mad + SA_COMPONENTS, question->components);
	record_write(question->record, question->value, query->mad + SA_RECORD);
	timer_init(&query->timer);
	list_add_tail(&sa->bucket[query->asked.tid % BUCKETS], &query->node);
	sa->pending++;
	*asked = query;
	query_send(query, now_ns);
	return 0;
}

/* @answer: what came. */
static bool sa_is_asked(const struct sa_asked *asked, const struct sa_asked *answer)
{
	return asked->lid && asked->tid == answer->tid && asked->port == answer->port &&
	       asked->lid == answer->lid && asked->attribute == answer->attribute &&
	       asked->method == answer->method;
}

enum drop sa_receive(struct sa *sa, uint16_t port, uint16_t lid, const uint8_t mad[MAD_BYTES])
{
	struct sa_answer answer = { .outcome = SA_ANSWERED, .sent = true, .record = mad + SA_RECORD };
	struct sa_asked came = { .port = port, .lid = lid };
	enum drop drop = DROP_SA_UNASKED;
	struct sa_query *query = NULL;
	struct mad_header header;

	if (mad_parse(mad, MAD_BYTES, &header) && header.class == MAD_CLASS_ADMINISTRATION &&
	    header.class_version == SA_CLASS_VERSION && !rmpp_is_active(mad)) {
		came.tid = (uint32_t)header.transaction_id;
		came.attribute = header.attribute_id;
		came.method = header.method;
		query = sa_find(sa, came.tid);
	}
	if (!query || !sa_is_asked(&query->asked, &came)) {
		for (unsigned i = 0; i < ANSWERED; i++)
			if (sa_is_asked(&sa->answered[i], &came))
				drop = DROP_SA_DUPLICATE;
		sa->ops->count(sa->host, (int)drop_row(drop)->counter);
		return drop;
	}
	/* It has no time now: the question is repeated when it would be, had the answer been lost. */
	if (header.status == MAD_STATUS_BUSY)
		return DROP_NONE;
	answer.status = header.status;
	if (header.status)
		answer.outcome = SA_REFUSED;
	sa->answered[sa->answers++ % ANSWERED] = query->asked;
	query_end(query, &answer);
	return DROP_NONE;
}

uint64_t sa_deadline(const struct sa *sa)
{
	return timer_heap_next(&sa->timers);
}

void sa_tick(struct sa *sa, uint64_t now_ns)
{
	struct timer *timer;

	while ((timer = timer_heap_expire(&sa->timers, now_ns))) {
		struct sa_query *query = (struct sa_query *)timer;
		struct sa_answer answer = { .outcome = SA_TIMED_OUT, .sent = query->sent };

		if (now_ns < query->end_ns)
			query_send(query, now_ns);
		else
			query_end(query, &answer);
	}
}

const char *sa_status_text(uint16_t status)
{
	switch (status) {
	case 0x0100:
		return "the subnet manager has no resources for it";
	case 0x0200:
		return "the subnet manager finds the request invalid";
	case 0x0300:
		return "the subnet manager has no such record";
	case 0x0400:
		return "the subnet manager finds several where one was asked for";
	case 0x0500:
		return "the subnet manager does not know the GID";
	case 0x0600:
		return "the subnet manager misses a component of the request";
	case 0x0700:
		return "the subnet manager denies it";
	default:
		return (status & 0x1f) == MAD_STATUS_REDIRECT ?
			       "the subnet manager sends us to another one, which is not supported" :
			       "the subnet manager refuses it";
	}
}
