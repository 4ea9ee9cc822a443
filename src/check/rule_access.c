/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of the memory that a request names itself. What the peer must permit: rule_queue.c, by its
 * completion. */
#include <infiniband/verbs.h>

#include "check/finding.h"

static void look_at_sges(struct check_model *model, const struct check_record *post,
			 enum check_rule rule)
{
	const struct check_object *object = check_find(model, post->object);
	char name[64];

	if (!object || post->inlined)
		return;
	check_name(object, name);
	for (uint32_t i = 0; i < post->sges; i++) {
		const struct check_sge *sge = &post->sge[i];
		const struct check_object *mr;

		if (!sge->bytes)
			continue;
		mr = check_find_region(model, sge->lkey);
		if (!mr || mr->ending)
			check_report(model, rule, object, NULL, 0, NULL,
				     "%s: SGE %u has lkey 0x%08x, which no region has", name, i,
				     sge->lkey);
		else if (sge->address < mr->address || sge->address - mr->address > mr->bytes ||
			 mr->bytes - (sge->address - mr->address) < sge->bytes)
			check_report(model, rule, object, NULL, mr->made, "registered here",
				     "%s: SGE %u, %u bytes at 0x%llx, leaves the region of lkey "
				     "0x%08x, %llu bytes at 0x%llx",
				     name, i, sge->bytes, (unsigned long long)sge->address,
				     sge->lkey, (unsigned long long)mr->bytes,
				     (unsigned long long)mr->address);
		else if (mr->pd && object->pd && mr->pd != object->pd)
			check_report(model, rule, object, NULL, mr->made, "registered here",
				     "%s: SGE %u names the region of lkey 0x%08x, which is of "
				     "another PD",
				     name, i, sge->lkey);
		else if (post->reads && !(mr->access & IBV_ACCESS_LOCAL_WRITE))
			check_report(model, rule, object, NULL, mr->made, "registered here",
				     "%s: SGE %u is written to, and the region of lkey 0x%08x "
				     "lacks IBV_ACCESS_LOCAL_WRITE",
				     name, i, sge->lkey);
		else
			continue;
		return;
	}
}

void rule_sge_of_send(struct check_model *model, const struct check_record *post)
{
	look_at_sges(model, post, RULE_ACCESS_001);
}

void rule_sge_of_receive(struct check_model *model, const struct check_record *post)
{
	look_at_sges(model, post, RULE_ACCESS_002);
}

void rule_atomic_misaligned(struct check_model *model, const struct check_record *post)
{
	const struct check_object *qp = check_find(model, post->object);
	char name[64];

	if (!qp || !(post->remote & 7) ||
	    (post->opcode != IBV_WR_ATOMIC_CMP_AND_SWP &&
	     post->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD))
		return;
	check_report(model, RULE_ACCESS_004, qp, NULL, 0, NULL,
		     "%s: an atomic of remote address 0x%llx, which is no multiple of 8",
		     check_name(qp, name), (unsigned long long)post->remote);
}
