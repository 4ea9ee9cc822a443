/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A client of subnet administration (IBTA 15): questions whose answer is one MAD. It has no clock,
 * socket, thread or randomness, as cm/protocol: calls, MADs and the time come in; MADs, answers and
 * the next deadline come out. The caller serialises all calls on one struct sa.
 *
 *	sa.c		questions, and what becomes of them
 *	record.c	path records and multicast groups: what is asked, what of an answer is believed
 *
 * A question is repeated less and less often, until its time is over: also where nothing could be
 * sent, since a subnet manager may come meanwhile. An answer counts if it comes by the port that was
 * asked, from the LID that was asked, for the transaction; what else comes changes nothing. An answer that comes
 * again, since its question was repeated, is told from what nobody has asked.
 */
#ifndef VERBATIM_CM_SA_SA_H
#define VERBATIM_CM_SA_SA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tracepoint/drop.h"
#include "wire/mad.h"
#include "wire/record.h"
#include "wire/sa.h"

#define SA_PENDING_MAX		65536u

struct sa;
struct sa_query;

enum sa_outcome {
	SA_ANSWERED,		/* sa_answer.record is there */
	SA_REFUSED,		/* sa_answer.status says why */
	SA_TIMED_OUT,		/* no answer in time; sa_answer.sent: somebody was asked */
};

struct sa_answer {
	enum sa_outcome outcome;
	uint16_t status;
	bool sent;
	const uint8_t *record;	/* SA_RECORD_BYTES, whatever they are */
};

struct sa_ops {
	/*
	 * Sends to the administration of the subnet that the port is in; the transaction ID's lower half
	 * is ours. Returns the LID that it went to; 0: there is none now.
	 */
	uint16_t (*send)(void *host, uint16_t port, const uint8_t mad[MAD_BYTES]);
	void (*count)(void *host, int counter);
};

struct sa_question {
	uint16_t port;		/* struct ib_way's */
	uint8_t method;		/* Get, Set, Delete */
	enum record record;
	uint64_t components;	/* which of it count */
	const void *value;	/* struct ib_... of the record */
	uint64_t timeout_ns;
};

/* @first_tid: any number, another one in each process. NULL: no memory. */
struct sa *sa_new(const struct sa_ops *ops, void *host, uint32_t first_tid);
void sa_free(struct sa *sa);	/* with what has not been answered; nobody is told */

/*
 * Asks. @done is called once, by sa_receive() or sa_tick(), and may ask again; *query is gone then. 0,
 * ENOMEM, EBUSY: SA_PENDING_MAX wait.
 */
int sa_ask(struct sa *sa, const struct sa_question *question,
	   void (*done)(void *owner, const struct sa_answer *answer), void *owner, uint64_t now_ns,
	   struct sa_query **query);
void sa_cancel(struct sa_query *query);	/* done() is not called any more */

/* A MAD of the class has come by the port, from the LID. Why it is dropped. */
enum drop sa_receive(struct sa *sa, uint16_t port, uint16_t lid, const uint8_t mad[MAD_BYTES]);
uint64_t sa_deadline(const struct sa *sa);
void sa_tick(struct sa *sa, uint64_t now_ns);

/* "no such record", or another of 15.2.4's words; never NULL. */
const char *sa_status_text(uint16_t status);

/* ---- record.c ---- */

/*
 * A record of an answer, if it is one for what was asked. NULL; else what is wrong with it. Numbers
 * that passed can be used: LIDs are of an end or a group, MTU and life time are codes that there are.
 */
const char *sa_path_read(const uint8_t *record, const struct ib_path_record *asked,
			 struct ib_path_record *path);
const char *sa_group_read(const uint8_t *record, const struct ib_mc_member_record *asked,
			  struct ib_mc_member_record *group);

/* The groups of IP multicast over InfiniBand (RFC 4391), and of RDMA_PS_UDP. @address: v4-mapped or IPv6. */
void sa_group_of_ip(const uint8_t address[16], uint16_t pkey, bool udp_space, uint8_t mgid[16]);
/* The group of all in the partition: what others take their Q_Key, rate and MTU from. */
void sa_group_broadcast(uint16_t pkey, uint8_t mgid[16]);

#endif
