/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults on purpose: the rules of this process, and the packets that are held back (injection.h). */
#include "engine/injection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/small_file.h"
#include "engine/arrival.h"
#include "engine/wake.h"
#include "platform/clock.h"
#include "platform/fail.h"
#include "trace/trace.h"
#include "tracepoint/drop.h"

#define VARIABLE	"VERBATIM_FAULT"
#define WHY_BYTES	512u
#define LINE_BYTES	900u		/* of the summary; log.c cuts longer lines */

struct injection {
	struct lock lock;		/* leaf */
	struct injector injector GUARDED_BY_MEMBER(lock);
	struct hold hold GUARDED_BY_MEMBER(lock);
	_Atomic uint64_t next_ns;	/* the earliest packet that is held; read without the lock */
	bool reported;			/* by the thread that ends the process or closes the device */
	uint8_t damaged[HOLD_BYTES];	/* under progress */
};

/* ---- beginning ---- */

static int read_all(int fd, char *text, size_t size)
{
	size_t used = 0;
	ssize_t got;

	while (used < size && (got = read(fd, text + used, size - used)) != 0) {
		if (got < 0 && errno != EINTR)
			return errno;
		used += got > 0 ? (size_t)got : 0;
	}
	if (used == size)
		return EFBIG;
	text[used] = '\0';
	return 0;
}

/* The file that @FILE names, into @text of INJECT_TEXT_MAX + 1. */
static int read_rules(const char *name, char *text)
{
	const char *why = NULL;
	int err, fd = small_file_open(name, &why);

	err = fd < 0 ? errno : read_all(fd, text, INJECT_TEXT_MAX + 1);
	if (err)
		complain(VARIABLE ": cannot read the rules in '%s': %s", name,
			 why ? why : err == EFBIG ? "more than 16 KiB" : strerror(err));
	if (fd >= 0)
		close(fd);
	return err ? EINVAL : 0;
}

static int parse_rules(struct injector *injector, const char *value)
{
	char *text = NULL, why[WHY_BYTES] = "";
	int err = 0;

	if (value[0] == '@') {
		text = malloc(INJECT_TEXT_MAX + 1);
		err = text ? read_rules(value + 1, text) : ENOMEM;
	}
	if (!err)
		err = inject_init(injector, text ? text : value, random_u64(), clock_now_ns(), why,
				  sizeof(why));
	if (*why)
		complain(VARIABLE ": %s%s%s", text ? value + 1 : "", text ? ": " : "", why);
	free(text);
	return err;
}

static void injection_free(struct injection *injection)
{
	hold_fini(&injection->hold);
	lock_destroy(&injection->lock);
	free(injection);
}

int injection_check(void)
{
	const char *value = secure_getenv(VARIABLE);
	struct injector *injector;
	int err;

	if (!value || !*value)
		return 0;
	injector = calloc(1, sizeof(*injector));
	err = injector ? parse_rules(injector, value) : ENOMEM;
	free(injector);
	return err;
}

int injection_open(struct engine *engine)
{
	const char *value = secure_getenv(VARIABLE);
	struct injection *injection;
	int err;

	if (!value || !*value)
		return 0;
	injection = fail_now(FAIL_ALLOCATE) ? NULL : calloc(1, sizeof(*injection));
	if (!injection)
		return ENOMEM;
	lock_init(&injection->lock);
	atomic_init(&injection->next_ns, TIME_NEVER);
	err = hold_init(&injection->hold);
	if (!err)
		err = parse_rules(&injection->injector, value);
	if (err) {
		injection_free(injection);
		return err;
	}
	/* Who is killed cannot say it later. */
	if (!injection->injector.seed_given)
		complain(VARIABLE ": seed %llu",
			 (unsigned long long)injection->injector.seed);
	engine->injection = injection;
	source_poll(&engine->source.all, &engine->source.held, true);
	return 0;
}

/* ---- end ---- */

/* One line, or more if it would be too long. */
void injection_report(struct engine *engine)
{
	struct injection *injection = engine->injection;
	char line[LINE_BYTES] = "", rule[LINE_BYTES / 2];
	const struct injector *injector;
	size_t used = 0;
	unsigned i;

	if (!injection || injection->reported)
		return;
	injection->reported = true;
	lock_acquire(&injection->lock);
	injector = &injection->injector;
	for (i = 0; i < injector->count; i++) {
		size_t length = inject_report(injector, i, rule, sizeof(rule));

		if (used + length + 3 > sizeof(line)) {
			complain(VARIABLE ": seed %llu%s; ...",
				 (unsigned long long)injector->seed, line);
			used = 0;
		}
		used += (size_t)snprintf(line + used, sizeof(line) - used, "; %s", rule);
	}
	complain(VARIABLE ": seed %llu%s", (unsigned long long)injector->seed, line);
	lock_release(&injection->lock);
}

void injection_close(struct engine *engine)
{
	if (!engine->injection)
		return;
	injection_report(engine);
	inject_fini(&engine->injection->injector);
	injection_free(engine->injection);
	engine->injection = NULL;
	source_poll(&engine->source.all, &engine->source.held, false);
}

/* ---- packets ---- */

static bool uses_receive(const struct packet *packet)
{
	if (packet->op->verb == VERB_SEND)
		return opcode_starts(packet->op);
	return packet->op->verb == VERB_WRITE && (packet->op->headers & HDR_IMM);
}

void injection_describe(const struct packet *packet, const struct datagram *datagram, const struct qp *qp,
			struct inject_packet *what)
{
	memset(what, 0, sizeof(*what));
	what->op = packet->op;
	what->kinds = inject_kinds(packet->op, packet->dest_qpn,
				   packet->op->headers & HDR_AETH ? packet->aeth.syndrome : 0);
	what->psn = packet->psn;
	what->own_qpn = packet->dest_qpn;
	what->peer_qpn = packet->op->headers & HDR_DETH ? packet->deth.source_qpn : 0;
	memcpy(what->peer, datagram->source, 16);
	what->bytes = packet_bytes(packet->op, packet->payload_bytes);
	if (!qp)
		return;
	lock_assert_held((struct owned_lock *)&qp->lock);
	what->qp = qp->ordinal;
	what->own_qpn = qp->number;
	if (!qp_is(qp, QP_DATAGRAM)) {
		what->is_sequenced = true;
		what->first_psn = opcode_is_response(packet->op) ? qp->attr.sq_psn : qp->attr.rq_psn;
		what->peer_qpn = qp->attr.dest_qp_num;
	}
	what->takes_receive = uses_receive(packet) &&
			      (!qp_is(qp, QP_RELIABLE) || packet->psn == qp->responder.expected_psn);
}

static void note_next_held(struct injection *injection) REQUIRES(injection->lock)
{
	uint64_t in_ns = hold_next(&injection->hold, false), out_ns = hold_next(&injection->hold, true);

	atomic_store_explicit(&injection->next_ns, in_ns < out_ns ? in_ns : out_ns, memory_order_relaxed);
}

void injection_judge(struct engine *engine, const struct inject_packet *what, uint64_t now_ns,
		     struct inject_verdict *verdict)
{
	struct injection *injection = engine->injection;

	lock_acquire(&injection->lock);
	inject_decide(&injection->injector, what, now_ns, verdict);
	if (!verdict->lost && !injection_delays(verdict, now_ns)) {
		hold_passed(&injection->hold, what->outbound, what->qp);
		note_next_held(injection);
	}
	lock_release(&injection->lock);
	if (verdict->rule)
		tracepoint(fault, .name = inject_action_name(verdict->action), .qp = what->own_qpn,
			   .direction = what->outbound ? "out" : "in", .psn = what->psn,
			   .opcode = what->op->name, .rule = verdict->rule);
}

void injection_hold(struct engine *engine, const struct datagram *one, const struct inject_packet *what,
		    const struct inject_verdict *verdict, bool again, struct link *way, uint64_t now_ns)
{
	struct injection *injection = engine->injection;
	uint64_t due_ns = again ? now_ns : verdict->overtakers ? now_ns + INJECT_REORDER_NS : verdict->due_ns;
	struct held *held;

	lock_acquire(&injection->lock);
	held = hold_add(&injection->hold, one, what->outbound, what->qp, due_ns, again ? 0 : verdict->overtakers);
	if (held) {
		held->way = way;
		held->dest_qpn = packet_peek_qpn(one->data, one->bytes);
		held->datagram.fault_exempt = true;
		held->datagram.from_channel = false;	/* which may be another one's by then */
	} else {
		inject_overflowed(&injection->injector, verdict, what->kinds);
	}
	note_next_held(injection);
	lock_release(&injection->lock);
	worker_wake_after_unlock(engine, due_ns);
}

struct held *injection_take(struct engine *engine, bool outbound, uint64_t now_ns)
{
	struct injection *injection = engine->injection;
	struct held *held;

	if (now_ns < injection_next(engine))
		return NULL;
	lock_acquire(&injection->lock);
	held = hold_take(&injection->hold, outbound, now_ns);
	note_next_held(injection);
	lock_release(&injection->lock);
	return held;
}

void injection_release(struct engine *engine, struct held *held)
{
	lock_acquire(&engine->injection->lock);
	hold_release(&engine->injection->hold, held);
	lock_release(&engine->injection->lock);
}

uint64_t injection_next(struct engine *engine)
{
	return atomic_load_explicit(&engine->injection->next_ns, memory_order_relaxed);
}

bool injection_holds(struct engine *engine)
{
	return engine->injection && injection_next(engine) != TIME_NEVER;
}

uint8_t *injection_damaged(struct engine *engine, const struct inject_verdict *verdict, const uint8_t *data,
			   size_t bytes)
{
	uint8_t *copy = engine->injection->damaged;

	if (bytes > HOLD_BYTES)
		bytes = HOLD_BYTES;
	memcpy(copy, data, bytes);
	inject_damage(verdict, copy, bytes);
	return copy;
}

bool injection_admit_management(struct engine *engine, const struct arrival *arrival,
				uint64_t now_ns, enum drop *why)
{
	const struct datagram one = arrival_datagram(arrival);
	struct inject_verdict verdict;
	struct inject_packet what;

	if (one.fault_exempt)
		return true;
	injection_describe(&arrival->packet, &one, NULL, &what);
	injection_judge(engine, &what, now_ns, &verdict);
	if (verdict.corrupt)
		*why = drop_count(engine->counters, DROP_ICRC, 1);
	if (verdict.lost || verdict.corrupt)
		return false;
	if (verdict.twice)
		injection_hold(engine, &one, &what, &verdict, true, NULL, now_ns);
	if (!injection_delays(&verdict, now_ns))
		return true;
	injection_hold(engine, &one, &what, &verdict, false, NULL, now_ns);
	return false;
}
