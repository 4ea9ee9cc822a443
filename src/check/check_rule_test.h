/* SPDX-License-Identifier: BSD-2-Clause */
/* A program of records, for unit tests of rules: what it does line by line, and what was found. */
#ifndef VERBATIM_CHECK_CHECK_RULE_TEST_H
#define VERBATIM_CHECK_CHECK_RULE_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <infiniband/verbs.h>

#include "check/rule.h"

enum {
	CONTEXT = 1,
	PD = 2,
	MR = 3,
	CQ = 4,
	CHANNEL = 5,
	QP = 6,
	SRQ = 7,
	AH = 8,
	OTHER_PD = 9,
	OTHER_MR = 10,
	OTHER_CQ = 11
};
#define LKEY 0x100u
#define QPN 0x11u
#define DO_AS(by, ...)                                                                             \
	check_model_take(&program,                                                                 \
			 &(struct check_record){ .thread = by, .call = "a call", __VA_ARGS__ })
#define DO(...) DO_AS(1, __VA_ARGS__)
#define SGE(at, length, key) .sge = &(const struct check_sge){ at, length, key }, .sges = 1
#define BUFFER SGE(0x1000, 64, LKEY)
#define SEND(...) DO(.what = CHECK_POST_SEND, .object = QP, __VA_ARGS__)
#define RECEIVE(...)                                                                               \
	DO(.what = CHECK_POST_RECV, .object = QP, .receive = true, .signaled = true,               \
	   .reads = true, __VA_ARGS__)
#define COMPLETE(...) DO(.what = CHECK_COMPLETION, .object = CQ, .number = QPN, __VA_ARGS__)
#define ENDING(of) DO(.what = CHECK_ENDING, .object = of)

static struct check_model program;
static unsigned found[CHECK_RULES];
static struct check_finding last;

static void note(struct check_model *model, const struct check_finding *finding)
{
	found[finding->rule]++;
	last = *finding;
}

/* Fails if anything else was found than @rule, or that not @times. */
static void assert_found(unsigned rule, unsigned times)
{
	for (unsigned i = 0; i < CHECK_RULES; i++)
		if (found[i] != (i == rule ? times : 0))
			fail_msg("%s was found %u times: %s", check_rule_row(i)->id, found[i],
				 last.text);
}

static void assert_silent(void)
{
	assert_found(0, 0);
}

/* A connected QP of @type with its objects: one CQ of @entries with a channel, a region of 4096
 * bytes at 0x1000. */
static void begin(uint32_t type, uint32_t entries)
{
	check_model_free(&program);
	program = (struct check_model){ .look = check_rules_look, .report = note };
	memset(found, 0, sizeof(found));
	DO(.what = CHECK_MADE, .kind = CHECK_CONTEXT, .object = CONTEXT);
	DO(.what = CHECK_MADE, .kind = CHECK_PD, .object = PD, .context = CONTEXT);
	DO(.what = CHECK_MADE, .kind = CHECK_CHANNEL, .object = CHANNEL, .context = CONTEXT);
	DO(.what = CHECK_MADE, .kind = CHECK_CQ, .object = CQ, .context = CONTEXT,
	   .channel = CHANNEL, .count = entries);
	DO(.what = CHECK_MADE, .kind = CHECK_MR, .object = MR, .context = CONTEXT, .pd = PD,
	   .number = LKEY, .address = 0x1000, .bytes = 4096, .access = IBV_ACCESS_LOCAL_WRITE);
	DO(.what = CHECK_MADE, .kind = CHECK_QP, .object = QP, .context = CONTEXT, .pd = PD,
	   .send_cq = CQ, .recv_cq = CQ, .number = QPN, .type = type, .max_send_wr = 4,
	   .max_send_sge = 2, .max_recv_sge = 1, .max_inline = 64, .stack = 77);
	DO(.what = CHECK_STATE, .object = QP, .state = IBV_QPS_RTS);
}

#endif
