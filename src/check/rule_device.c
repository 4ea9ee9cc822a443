/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Rules of the adapter that a program is meant for (--device, profile.h): what it asks for would
 * not fit there. What a program sized by the limits that our device told is left out: on that
 * adapter it would be told others.
 */
#include <errno.h>
#include <infiniband/verbs.h>

#include "check/finding.h"

/* Is told, and with --strict refused with @err. */
#define refuse(model, rule, object, err, ...)                                                      \
	do {                                                                                       \
		if ((model)->strict)                                                               \
			(model)->refusal = (err);                                                  \
		check_report((model), (rule), (object), NULL, 0, NULL, __VA_ARGS__);               \
	} while (0)

static bool is_beyond(const struct check_model *model, enum check_fact fact, uint64_t wanted)
{
	return check_profile_knows(model->profile, fact) &&
	       wanted > model->profile->fact[fact].value &&
	       (!model->own[fact] || wanted != model->own[fact]);
}

static uint64_t value_of(const struct check_model *model, enum check_fact fact)
{
	return model->profile->fact[fact].value;
}

static bool has_not(const struct check_model *model, enum check_fact fact)
{
	return check_profile_knows(model->profile, fact) && !value_of(model, fact);
}

struct wish {
	enum check_fact fact;
	uint64_t wanted;
	const char *words;
};

static unsigned wishes_of(const struct check_record *ask, struct wish wishes[6])
{
	unsigned count = 0;

	/* What of a WQE is left for data depends on the operations. */
	if (ask->kind == CHECK_QP && ask->type && !ask->has_operations)
		wishes[count++] = (struct wish){
			ask->type == IBV_QPT_UD ? CHECK_FACT_MAX_INLINE_UD : CHECK_FACT_MAX_INLINE,
			ask->max_inline, "bytes of inline data",
		};
	if (ask->kind == CHECK_QP && ask->type) {
		wishes[count++] = (struct wish){ CHECK_FACT_MAX_QP_WR, ask->max_send_wr,
						 "sends in its queue" };
		wishes[count++] = (struct wish){ CHECK_FACT_MAX_SGE, ask->max_send_sge,
						 "SGEs of a send" };
	}
	if (ask->kind == CHECK_QP && ask->type && !ask->srq) {
		wishes[count++] = (struct wish){ CHECK_FACT_MAX_QP_WR, ask->max_recv_wr,
						 "receives in its queue" };
		wishes[count++] =
			(struct wish){ CHECK_FACT_MAX_SGE, ask->max_recv_sge, "SGEs of a receive" };
	}
	if (ask->kind == CHECK_CQ)
		wishes[count++] = (struct wish){ CHECK_FACT_MAX_CQE, ask->count, "entries" };
	if (ask->kind == CHECK_SRQ) {
		wishes[count++] = (struct wish){ CHECK_FACT_MAX_SRQ_WR, ask->max_recv_wr,
						 "receives in its queue" };
		wishes[count++] = (struct wish){ CHECK_FACT_MAX_SRQ_SGE, ask->max_recv_sge,
						 "SGEs of a receive" };
	}
	return count;
}

void rule_device_limits(struct check_model *model, const struct check_record *ask)
{
	struct wish wishes[6];
	unsigned count = model->profile && ask->what == CHECK_ASK ? wishes_of(ask, wishes) : 0;
	const struct check_object *qp;
	char name[64];

	if (model->profile && ask->what == CHECK_POST_SEND) {
		/* Told only: of the adapters whose limit is known none looks at it at the post. */
		qp = check_find(model, ask->object);
		if (qp && ask->opcode == IBV_WR_RDMA_READ &&
		    is_beyond(model, CHECK_FACT_MAX_SGE_RD, ask->sges))
			check_report(model, RULE_DEVICE_001, qp, NULL, 0, NULL,
				     "%s: a READ into %u SGEs, and %s has at most %llu",
				     check_name(qp, name), ask->sges, model->profile->option,
				     (unsigned long long)value_of(model, CHECK_FACT_MAX_SGE_RD));
	}

	for (unsigned i = 0; i < count; i++)
		if (is_beyond(model, wishes[i].fact, wishes[i].wanted))
			refuse(model, RULE_DEVICE_001, NULL, EINVAL,
			       "%s: %llu %s are asked for, and %s has at most %llu", ask->call,
			       (unsigned long long)wishes[i].wanted, wishes[i].words,
			       model->profile->option,
			       (unsigned long long)value_of(model, wishes[i].fact));
}

void rule_device_rd_atomic(struct check_model *model, const struct check_record *ask)
{
	const struct check_object *qp = check_find(model, ask->object);
	uint64_t sum = ask->dest_rd_atomic;
	char name[64];

	if (!model->profile || ask->kind != CHECK_QP || !qp)
		return;
	check_name(qp, name);
	if (is_beyond(model, CHECK_FACT_INIT_RD_ATOM, ask->rd_atomic))
		refuse(model, RULE_DEVICE_002, qp, EINVAL,
		       "%s: max_rd_atomic %u, and %s has at most %llu", name, ask->rd_atomic,
		       model->profile->option,
		       (unsigned long long)value_of(model, CHECK_FACT_INIT_RD_ATOM));
	if (is_beyond(model, CHECK_FACT_RD_ATOM, ask->dest_rd_atomic))
		refuse(model, RULE_DEVICE_002, qp, EINVAL,
		       "%s: max_dest_rd_atomic %u, and %s has at most %llu", name,
		       ask->dest_rd_atomic, model->profile->option,
		       (unsigned long long)value_of(model, CHECK_FACT_RD_ATOM));
	if (!ask->dest_rd_atomic || !check_profile_knows(model->profile, CHECK_FACT_RES_RD_ATOM))
		return;
	for (const struct check_object *one = check_next(model, NULL); one;
	     one = check_next(model, one))
		if (one->kind == CHECK_QP && one != qp)
			sum += one->dest_rd_atomic;
	if (is_beyond(model, CHECK_FACT_RES_RD_ATOM, sum))
		refuse(model, RULE_DEVICE_002, qp, ENOMEM,
		       "%s: max_dest_rd_atomic of all QPs is %llu together, and %s has %llu", name,
		       (unsigned long long)sum, model->profile->option,
		       (unsigned long long)value_of(model, CHECK_FACT_RES_RD_ATOM));
}

void rule_device_message(struct check_model *model, const struct check_record *record)
{
	const struct check_object *qp = check_find(model, record->object);
	char name[64];

	if (!model->profile || !qp)
		return;
	check_name(qp, name);
	if (record->what == CHECK_ASK && is_beyond(model, CHECK_FACT_MAX_MTU, record->mtu))
		refuse(model, RULE_DEVICE_003, qp, EINVAL,
		       "%s: a path MTU of %u bytes, and %s has at most %llu", name, record->mtu,
		       model->profile->option,
		       (unsigned long long)value_of(model, CHECK_FACT_MAX_MTU));
	if (record->what == CHECK_POST_SEND &&
	    is_beyond(model, CHECK_FACT_MAX_MESSAGE, check_bytes(record)))
		check_report(model, RULE_DEVICE_003, qp, NULL, 0, NULL,
			     "%s: a message of %llu bytes, and %s takes %llu at most", name,
			     (unsigned long long)check_bytes(record), model->profile->option,
			     (unsigned long long)value_of(model, CHECK_FACT_MAX_MESSAGE));
}

/* What of @record the adapter has not; NULL: it has all, or nobody knows. */
static const char *device_lacks(const struct check_model *model, const struct check_record *record)
{
	if (record->what == CHECK_ARM)
		return record->solicited && has_not(model, CHECK_FACT_HAS_SOLICITED)
			       ? "notification of solicited completions only"
			       : NULL;
	if (record->what == CHECK_POST_SEND) {
		if ((record->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		     record->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) &&
		    has_not(model, CHECK_FACT_HAS_ATOMICS))
			return "atomics";
		if ((record->opcode == IBV_WR_SEND_WITH_IMM ||
		     record->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) &&
		    has_not(model, CHECK_FACT_HAS_IMMEDIATE))
			return "immediate data";
		return record->opcode == IBV_WR_BIND_MW && has_not(model, CHECK_FACT_HAS_MW)
			       ? "memory windows"
			       : NULL;
	}
	if (record->kind == CHECK_SRQ)
		return has_not(model, CHECK_FACT_HAS_SRQ) ? "SRQs" : NULL;
	if (record->kind == CHECK_MW)
		return has_not(model, CHECK_FACT_HAS_MW) ? "memory windows" : NULL;
	if (record->kind == CHECK_QP && record->type &&
	    check_profile_knows(model->profile, CHECK_FACT_TYPES) &&
	    !(value_of(model, CHECK_FACT_TYPES) >> (record->type & 63) & 1))
		return "QPs of this type";
	return NULL;
}

void rule_device_lacks(struct check_model *model, const struct check_record *record)
{
	const struct check_object *object = check_find(model, record->object);
	const char *what = model->profile ? device_lacks(model, record) : NULL;

	if (what)
		refuse(model, RULE_DEVICE_004, object, EOPNOTSUPP, "%s: %s has no %s", record->call,
		       model->profile->option, what);
}

static const char *const gid_words[] = {
	[CHECK_GID_V1_LINK_LOCAL] = "a link-local one of RoCE v1",
	[CHECK_GID_V2_LINK_LOCAL] = "a link-local one of RoCE v2",
	[CHECK_GID_V1_ADDRESS] = "that of an address, of RoCE v1",
	[CHECK_GID_V2_ADDRESS] = "that of an address, of RoCE v2",
};

/* A program that looked at the table knows what it does, and so does librdmacm. */
void rule_device_path(struct check_model *model, const struct check_record *ask)
{
	enum check_fact fact = (enum check_fact)(CHECK_FACT_GID_0 + ask->sgid_index);
	const struct check_object *qp = check_find(model, ask->object);

	if (!model->profile || !ask->has_path || ask->of_manager)
		return;
	if (check_profile_knows(model->profile, CHECK_FACT_HAS_LIDS) && !ask->dlid)
		check_report(
			model, RULE_DEVICE_005, qp, NULL, 0, NULL,
			"%s: the path has no LID, and inside of a subnet of InfiniBand it needs "
			"one",
			ask->call);
	if (!ask->is_global || ask->sgid_index > 3 || model->has_looked_at_gids ||
	    !check_profile_knows(model->profile, fact) ||
	    value_of(model, fact) == CHECK_GID_V2_ADDRESS)
		return;
	check_report(model, RULE_DEVICE_005, qp, NULL, 0, NULL,
		     "%s: sgid_index %u was not looked for, and on %s it is %s", ask->call,
		     ask->sgid_index, model->profile->option, gid_words[value_of(model, fact)]);
}

void rule_device_memlock(struct check_model *model, const struct check_record *ask)
{
	if (!check_profile_knows(model->profile, CHECK_FACT_PINS) || ask->kind != CHECK_MR ||
	    ask->lockable == UINT64_MAX || model->registered + ask->bytes <= ask->lockable)
		return;
	refuse(model, RULE_DEVICE_006, NULL, ENOMEM,
	       "%s: with these %llu bytes %llu are registered, and RLIMIT_MEMLOCK is %llu",
	       ask->call, (unsigned long long)ask->bytes,
	       (unsigned long long)(model->registered + ask->bytes),
	       (unsigned long long)ask->lockable);
}
