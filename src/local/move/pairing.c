/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Pairing: two connected queue pairs agree that requests need no packets, and a requester learns
 * which region a key names. Requests that would fail as packets are never agreed on: the owner
 * compares type, state, destination QP, path MTU and PSN, protection domain and rights, as its
 * responder would. Before an agreement, and after a refusal, requests go as packets, and the
 * transport explains failures.
 *
 * A UC QP pairs for its WRITEs alone, and where packets precede them the question is also the proof
 * that the peer has received those (transport/barrier.h).
 *
 * A requester asks when nothing of its QP is unanswered. The question goes through the ring behind
 * the packets that it sent before, so that both ends mean the same PSN. Both then count messages
 * from 0.
 */
#include "local/move/internal.h"

#include "base/log.h"
#include "object/guesses.h"
#include "platform/clock.h"
#include "transport/local.h"

#define PATIENCE_MIN 1u			/* requests between questions that were answered no ... */
#define PATIENCE_MAX 4096u
#define HOPEFUL_MAX 16u			/* after so many a stream of packets is interrupted seldom ... */
#define PATIENCE_NS 1000000u		/* ... a millisecond later for each */

#define DROPPED_EVERY_NS 8000000u	/* to a peer and from it; retries are 16 ms apart, or more */

#define ACCESS_REMOTE \
	(IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

/* ---- QPs: the requester ---- */

/* A pairing over a former channel is forgotten. */
static struct pairing *pairing_of(struct qp *qp, struct peer *peer) REQUIRES(qp->lock)
{
	uint32_t life = atomic_load_explicit(&peer->life, memory_order_acquire);

	if (qp->pairing.life != life) {
		qp_end_pairing(qp);
		qp->pairing.life = life;
		qp->pairing.patience = PATIENCE_MIN;
	}
	return &qp->pairing;
}

uint32_t pairing_grant_qp(struct local *local, struct qp *qp, struct peer *peer)
{
	struct pairing *pairing = pairing_of(qp, peer);
	bool fresh;

	if (pairing->ours && grant_is_alive(peer->grants.page, pairing->ours))
		return pairing->ours;
	pairing->ours = grant_get(&peer->grants, GRANT_QP, qp->number, &fresh);
	/* A grant that has ended may not be drained yet. */
	if (pairing->ours && !grant_is_alive(peer->grants.page, pairing->ours))
		pairing->ours = 0;
	if (!pairing->ours)
		return 0;
	pairing->alive = &peer->grants.page->alive[grant_index(pairing->ours)];
	atomic_fetch_add_explicit(&local->peers->granted, 1, memory_order_relaxed);
	return pairing->ours;
}

/* Types of a requester whose requests a QP of type @type serves; -1: it serves none. */
static int served_type(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
		return (int)type;
	case IBV_QPT_XRC_RECV:
		return IBV_QPT_XRC_SEND;
	default:
		return -1;
	}
}

static void pairing_request(struct local *local, struct qp *qp, struct peer *peer)
	REQUIRES(qp->lock)
{
	struct pairing *pairing = &qp->pairing;
	struct control control = {
		.kind = CONTROL_ASK_QP, .qpn = qp->number, .owner_qpn = qp->attr.dest_qp_num,
		.requester_qp = pairing_grant_qp(local, qp, peer),
		.psn = qp->requester.next_psn, .mtu = qp->mtu, .type = qp->type,
	};

	pairing->asked = control.requester_qp && control_send(local, peer, &control, qp->number);
}

static bool pairing_may_ask(struct pairing *pairing)
{
	if (!pairing->wait || clock_coarse_ns() >= pairing->again_ns)
		return true;
	pairing->wait--;
	return false;
}

bool pairing_establish(struct local *local, struct qp *qp, struct peer *peer)
{
	struct pairing *pairing = pairing_of(qp, peer);

	qp->shortcut = 0;
	/* The peer's QP may have ended the pairing: ask it again. */
	if (pairing->agreed && !grant_is_alive(peer->alive, pairing->theirs))
		pairing->agreed = false;
	if (pairing->agreed || pairing->asked || !transport_may_pair(qp))
		return pairing->agreed;
	if (qp->ib_port)		/* by a fabric: its switches see each packet */
		return false;
	if (pairing_may_ask(pairing))
		pairing_request(local, qp, peer);
	return false;
}

void pairing_ask_barrier(struct local *local, struct qp *qp)
{
	struct peer *peer = peer_of_slot(local, qpn_slot(qp->attr.dest_qp_num));
	struct pairing *pairing = peer ? pairing_of(qp, peer) : NULL;
	bool open = pairing && pairing->asked, asked;

	if (pairing && !open && pairing_may_ask(pairing))
		pairing_request(local, qp, peer);
	asked = pairing && !open && pairing->asked;
	transport_barrier_asked(qp, asked, asked ? clock_now_ns() : 0);
}

static void be_patient(struct pairing *pairing)
{
	pairing->wait = pairing->patience;
	pairing->again_ns = clock_coarse_ns() + pairing->patience * PATIENCE_NS;
	if (pairing->patience < PATIENCE_MAX)
		pairing->patience = (uint16_t)(pairing->patience * 2);
}

static void take_qp_answer(struct qp *qp, const struct control *control) REQUIRES(qp->lock)
{
	const struct refusal refusal = { .why = (uint8_t)control->refusal, .value = control->value,
					 .psn = control->psn };
	struct pairing *pairing = &qp->pairing;

	/* An answer to a question of a former life of the QP. */
	if (!pairing->asked || control->requester_qp != pairing->ours)
		return;
	qp_close_shortcuts(qp);
	pairing->asked = false;
	transport_pairing_answered(qp, control->qp ? NULL : &refusal);
	if (!control->qp) {
		be_patient(pairing);
		return;
	}
	pairing->theirs = control->qp;
	pairing->pd = control->pd;
	pairing->access = control->access;
	pairing->place = control->layout == commit_layout() ? control->place : 0;
	pairing->agreed = true;
	pairing->asked_srqn = 0;
	if (qp->targets)
		memset(qp->targets, 0, sizeof(*qp->targets));
}

static void receive_qp(struct local *local, struct peer *peer, const struct control *control,
		       void (*take)(struct qp *, const struct control *))
{
	struct qp *qp = local->ops->find_qp(local->owner, control->qpn);

	if (!qp)
		return;
	lock_acquire(&qp->lock);
	if (qp->route.loopback && qp->attr.dest_qp_num == control->owner_qpn &&
	    qp->pairing.life == atomic_load(&peer->life))
		take(qp, control);
	lock_release(&qp->lock);
}

void pairing_ask_again(struct local *local, uint32_t qpn)
{
	struct qp *qp = local->ops->find_qp(local->owner, qpn);

	if (!qp)
		return;
	lock_acquire(&qp->lock);
	qp->pairing.asked = false;
	qp->pairing.asked_srqn = 0;
	lock_release(&qp->lock);
}

/* ---- QPs: the owner ---- */

static bool is_connected_to(const struct qp *qp, const struct peer *peer, uint32_t qpn) REQUIRES(qp->lock)
{
	return qp->attr.dest_qp_num == qpn && peer_has_slot(peer, qpn_slot(qpn));
}

/* Why requests of that QP have to go as packets; NULL: they need not, and the transport expects messages. */
static const char *pairing_objection(struct qp *qp, const struct peer *peer,
				     const struct control *control) REQUIRES(qp->lock)
{
	if (served_type(qp->type) != (int)control->type || !qp->route.loopback)
		return "it is not of the same type, or not connected inside this host";
	if (!is_connected_to(qp, peer, control->qpn))
		return "it is connected to another QP";
	if (qp->ib_port)
		return "its port is one of a fabric, whose switches see each packet";
	if (qp->mtu != control->mtu)
		return "their path MTUs differ";
	return transport_pairing_asked(qp, control->psn);
}

/* What the requester may execute by itself: nothing that is counted here. */
static uint32_t pairing_rights(const struct qp *qp) REQUIRES(qp->lock)
{
	uint32_t access = qp->attr.qp_access_flags;

	if (qp_counts(qp, COMP_REMOTE_WRITE))
		access &= ~(uint32_t)IBV_ACCESS_REMOTE_WRITE;
	if (qp_counts(qp, COMP_REMOTE_READ))
		access &= ~(uint32_t)IBV_ACCESS_REMOTE_READ;
	return access;
}

static bool answer_ask_qp(struct local *local, struct peer *peer, const struct control *ask)
{
	struct qp *qp = local->ops->find_qp(local->owner, ask->owner_qpn);
	struct control answer = { .kind = CONTROL_QP, .qpn = ask->qpn, .owner_qpn = ask->owner_qpn,
				  .requester_qp = ask->requester_qp };
	const char *why;

	if (qp) {
		lock_acquire(&qp->lock);
		why = pairing_objection(qp, peer, ask);
		if (why) {
			/*
			 * Packets of that QP may be executed here, and answered to another one: nothing is
			 * dropped, and the requester would not learn why it gets no answer.
			 */
			if ((qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD) &&
			    !is_connected_to(qp, peer, ask->qpn)) {
				answer.refusal = DROP_OTHER_QP;
				answer.value = qp->attr.dest_qp_num;
				answer.psn = ask->psn;
			}
			log_debug("qp 0x%06x: qp 0x%06x has to send packets: %s", qp->number, ask->qpn, why);
		} else {
			answer.qp = pairing_grant_qp(local, qp, peer);
			answer.pd = qp->pd ? qp->pd->number : 0;
			answer.access = pairing_rights(qp);
			answer.place = (uintptr_t)qp;
			answer.layout = commit_layout();
			qp_close_shortcuts(qp);
			/* The agreement was with a former life of the requester's QP. */
			if (qp->pairing.theirs != ask->requester_qp)
				qp->pairing.agreed = false;
			qp->pairing.theirs = ask->requester_qp;
		}
		lock_release(&qp->lock);
	}
	return control_send(local, peer, &answer, 0);
}

/* Behind it the peer's packets go on coming: so many messages are enough, also of one that floods us. */
static bool is_too_soon(uint64_t *last_ns)
{
	uint64_t now_ns = clock_coarse_ns();

	if (now_ns - *last_ns < DROPPED_EVERY_NS)
		return true;
	*last_ns = now_ns;
	return false;
}

void local_dropped(struct local *local, uint32_t channel, uint32_t qpn, const struct refusal *refusal)
{
	struct control control = { .kind = CONTROL_DROPPED, .owner_qpn = qpn, .psn = refusal->psn,
				   .refusal = refusal->why, .value = refusal->value };
	struct peer *peer = peer_at(local, channel);

	if (peer && !is_too_soon(&peer->dropped_sent_ns))
		control_send(local, peer, &control, 0);
}

static void receive_dropped(struct local *local, struct peer *peer, const struct control *control)
{
	struct refusal refusal = { .why = (uint8_t)control->refusal, .value = control->value,
				   .psn = control->psn };

	if (peer_has_slot(peer, qpn_slot(control->owner_qpn)) && !is_too_soon(&peer->dropped_received_ns))
		local->ops->dropped(local->owner, control->owner_qpn, &refusal);
}

/* ---- streams of packets ---- */

static bool is_hopeful(const struct pairing *pairing)
{
	if (pairing->asked || !pairing->life)
		return pairing->asked;
	return pairing->patience <= HOPEFUL_MAX || clock_coarse_ns() >= pairing->again_ns;
}

void pairing_judge(struct qp *qp, enum pairing_verdict verdict)
{
	struct pairing *pairing = &qp->pairing;
	bool hopeful = true;

	if (verdict == PAIRING_DONE && pairing->patience != PATIENCE_MIN)
		pairing->patience = PATIENCE_MIN;
	if (verdict == PAIRING_OBJECTS) {
		hopeful = is_hopeful(pairing);
		if (pairing->agreed)
			be_patient(pairing);
	}
	transport_direct_prefer(qp, hopeful);
}

bool pairing_is_settled(const struct qp *qp, const struct peer *peer)
{
	const struct pairing *pairing = &qp->pairing;

	return pairing->life &&
	       pairing->life == atomic_load_explicit(&peer->life, memory_order_acquire) &&
	       pairing->agreed && grant_is_alive(peer->alive, pairing->theirs) &&
	       pairing->patience == PATIENCE_MIN;
}

void pairing_reconsider(struct qp *qp)
{
	if (is_hopeful(&qp->pairing))
		transport_direct_prefer(qp, true);
}

/* ---- SRQs: the requester ---- */

bool pairing_find_pd(struct local *local, struct qp *qp, struct peer *peer, const struct send_wqe *wqe,
		     uint32_t *pd, bool *asked)
{
	unsigned at = wqe->remote_srqn % PAIRING_TARGETS;
	struct pairing *pairing = &qp->pairing;
	struct control control;

	if (!qp->targets) {
		*pd = pairing->pd;
		return true;
	}
	if (wqe->remote_srqn && qp->targets->entry[at].srqn == wqe->remote_srqn) {
		*pd = qp->targets->entry[at].pd;
		return true;
	}
	control = (struct control){ .kind = CONTROL_ASK_SRQ, .qpn = qp->number, .srqn = wqe->remote_srqn,
				    .owner_qpn = qp->attr.dest_qp_num, .qp = pairing->theirs };
	*asked = !pairing->asked_srqn && wqe->remote_srqn && control_send(local, peer, &control, qp->number);
	if (*asked)
		pairing->asked_srqn = wqe->remote_srqn;
	return false;
}

static void take_srq_answer(struct qp *qp, const struct control *control) REQUIRES(qp->lock)
{
	struct pairing *pairing = &qp->pairing;
	unsigned at = control->srqn % PAIRING_TARGETS;

	/* An answer to a question of a former agreement. */
	if (!qp->targets || control->srqn != pairing->asked_srqn || control->qp != pairing->theirs)
		return;
	pairing->asked_srqn = 0;
	if (!control->pd)
		return;
	qp->targets->entry[at].srqn = control->srqn;
	qp->targets->entry[at].pd = control->pd;
}

/* ---- SRQs: the owner ---- */

/*
 * The protection domain of requests of a peer to @qp: its own or (XRC) that of an SRQ of its XRC
 * domain; 0: it has no such SRQ.
 */
static uint32_t pd_of_requests(const struct qp *qp, uint32_t srqn) REQUIRES(qp->lock)
{
	const struct srq *srq;

	if (!qp->xrcd)
		return qp->pd ? qp->pd->number : 0;
	srq = xrc_domain_find(qp->xrcd->domain, srqn);
	return srq ? srq->pd : 0;
}

/* The QP that a question is about. NULL: the peer has no grant of it, or it is gone. */
static struct qp *pairing_asked_qp(struct local *local, struct peer *peer, const struct control *ask)
{
	uint32_t qpn;

	return grant_find(&peer->grants, GRANT_QP, ask->qp, &qpn) ? local->ops->find_qp(local->owner, qpn) : NULL;
}

/* 0: there is none. Wrong numbers count as wrong keys do. */
static bool answer_ask_srq(struct local *local, struct peer *peer, const struct control *ask)
{
	struct control answer = { .kind = CONTROL_SRQ, .qpn = ask->qpn, .owner_qpn = ask->owner_qpn,
				  .qp = ask->qp, .srqn = ask->srqn };
	struct qp *qp = pairing_asked_qp(local, peer, ask);
	uint64_t now_ns = clock_now_ns();

	if (qp) {
		lock_acquire(&qp->lock);
		if (qp->xrcd && !guesses_are_used_up(&qp->responder.key_probes, now_ns)) {
			answer.pd = pd_of_requests(qp, ask->srqn);
			if (!answer.pd)
				guesses_add(&qp->responder.key_probes, now_ns);
		}
		lock_release(&qp->lock);
	}
	return control_send(local, peer, &answer, 0);
}

/* ---- keys: the requester ---- */

bool pairing_ask_key(struct local *local, struct qp *qp, struct peer *peer, const struct send_wqe *wqe)
{
	struct control control = { .kind = CONTROL_ASK_KEY, .key = wqe->rkey, .qp = qp->pairing.theirs,
				   .srqn = wqe->remote_srqn };

	if (!peer_key_try_ask(peer->regions, wqe->rkey))
		return false;
	if (control_send(local, peer, &control, 0))
		return true;
	peer_keys_ask_again(peer->regions);
	return false;
}

static void receive_key(struct local *local, struct peer *peer, const struct control *control)
{
	int fd = control->mapped ? peer_take_block(peer, control->region) : -1;

	if (peer_took_bell(peer))
		local->ops->note(local->owner, 0);
	if (control->region)
		peer_region_add(peer->regions, control, fd);
}

/* ---- keys: the owner ---- */

uint32_t pairing_grant_region(struct local *local, struct peer *peer, uint32_t key)
{
	bool fresh;
	uint32_t id = grant_get(&peer->grants, GRANT_REGION, key, &fresh);

	if (id)
		atomic_fetch_add_explicit(&local->peers->granted, 1, memory_order_relaxed);
	return id;
}

/* The rights of both the key and the QP that the question names. 0: none. */
static unsigned rights_of(struct local *local, struct peer *peer, const struct control *ask,
			  struct mr_description *region)
{
	uint64_t now_ns = clock_now_ns();
	unsigned rights = 0, flags;
	struct qp *qp = pairing_asked_qp(local, peer, ask);
	uint32_t pd;

	if (!qp)
		return 0;
	lock_acquire(&qp->lock);
	flags = guesses_are_used_up(&qp->responder.key_probes, now_ns) ? 0 : qp->attr.qp_access_flags;
	pd = pd_of_requests(qp, ask->srqn);
	lock_release(&qp->lock);
	if (flags && mr_describe(local->mrs, ask->key, region)) {
		rights = pd && region->pd == pd ? region->access & flags & ACCESS_REMOTE : 0;
		if (rights)
			return rights;
		mr_describe_end(region);
	}
	drop_count(local->counters, DROP_KEY, 1);
	lock_acquire(&qp->lock);
	guesses_add(&qp->responder.key_probes, now_ns);
	lock_release(&qp->lock);
	return 0;
}

static bool answer_ask_key(struct local *local, struct peer *peer, const struct control *ask)
{
	struct control answer = { .kind = CONTROL_KEY, .key = ask->key };
	struct mr_description region;
	unsigned rights = rights_of(local, peer, ask, &region);

	if (rights) {
		describe_grant(&region, pairing_grant_region(local, peer, ask->key), &answer);
		if (answer.region)
			grant_block(local, peer, &region, rights, &answer);
		/* From here on deregistration finds the grant. */
		mr_describe_end(&region);
	}
	return control_send(local, peer, &answer, 0);
}

bool pairing_receive(struct local *local, struct peer *peer, const struct control *control)
{
	switch ((enum control_kind)control->kind) {
	case CONTROL_ASK_QP:
		return answer_ask_qp(local, peer, control);
	case CONTROL_QP:
		receive_qp(local, peer, control, take_qp_answer);
		return true;
	case CONTROL_ASK_SRQ:
		return answer_ask_srq(local, peer, control);
	case CONTROL_SRQ:
		receive_qp(local, peer, control, take_srq_answer);
		return true;
	case CONTROL_ASK_KEY:
		return answer_ask_key(local, peer, control);
	case CONTROL_KEY:
		receive_key(local, peer, control);
		return true;
	case CONTROL_KEY_GONE:
		peer_region_remove(peer->regions, control->region);
		return true;
	case CONTROL_DROPPED:
		receive_dropped(local, peer, control);
		return true;
	case CONTROL_OPENED:
		agree_receive(local, peer, control);
		return true;
	case CONTROL_BEHIND:
		if (local->ops->receive_fabric)
			local->ops->receive_fabric(local->owner);
		return true;
	case CONTROL_KINDS:
		break;
	}
	return false;
}
