/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma_create_qp(3), rdma_create_qp_ex(3), rdma_destroy_qp(3). Objects that the application
 * does not pass are created: the default protection domain, CQs and their channels. They are stored
 * in the id, where the inline functions of rdma_verbs.h find them; the context of such a CQ is
 * the id.
 */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/lock.h"
#include "rdmacm/rdmacm.h"

/* CQs of ids that went with their QP: attributes may still name them (qp_attr_is_used_again()). */
enum { DESTROYED_CQS = 64 };

static struct lock destroyed_cqs_lock = LOCK_INITIALIZER;
static const struct ibv_cq *destroyed_cqs[DESTROYED_CQS] GUARDED_BY(destroyed_cqs_lock);

static bool cq_was_destroyed(const struct ibv_cq *cq)
{
	bool found = false;

	lock_acquire(&destroyed_cqs_lock);
	for (int i = 0; cq && i < DESTROYED_CQS; i++)
		found |= destroyed_cqs[i] == cq;
	lock_release(&destroyed_cqs_lock);
	return found;
}

static int create_cq(struct rdma_cm_id *id, uint32_t entries, struct ibv_comp_channel **channel,
		     struct ibv_cq **cq)
{
	*channel = ibv_create_comp_channel(id->verbs);
	if (!*channel)
		return -1;
	*cq = ibv_create_cq(id->verbs, entries, id, *channel, 0);
	if (*cq)
		return 0;
	ibv_destroy_comp_channel(*channel);
	*channel = NULL;
	return -1;
}

static void destroy_cq(struct ibv_comp_channel **channel, struct ibv_cq **cq, struct ibv_cq **made)
{
	static unsigned next GUARDED_BY(destroyed_cqs_lock);

	if (*made && *cq == *made) {
		lock_acquire(&destroyed_cqs_lock);
		destroyed_cqs[next++ % DESTROYED_CQS] = *cq;
		lock_release(&destroyed_cqs_lock);
		ibv_destroy_cq(*cq);
		ibv_destroy_comp_channel(*channel);
		*cq = NULL;
		*channel = NULL;
	}
	*made = NULL;
}

int id_create_cqs(struct id *id, uint32_t send, uint32_t recv)
{
	struct rdma_cm_id *public = &id->public;

	if (recv) {
		if (create_cq(public, recv, &public->recv_cq_channel, &public->recv_cq))
			return -1;
		id->recv_cq = public->recv_cq;
	}
	if (send) {
		if (create_cq(public, send, &public->send_cq_channel, &public->send_cq)) {
			int err = errno;

			if (recv)
				destroy_cq(&public->recv_cq_channel, &public->recv_cq,
					   &id->recv_cq);
			return result(err);
		}
		id->send_cq = public->send_cq;
	}
	return 0;
}

void id_destroy_cqs(struct id *id)
{
	struct rdma_cm_id *public = &id->public;

	/* Its SRQ was made with that CQ and goes later. */
	if (public->qp_type == IBV_QPT_XRC_RECV && public->srq)
		return;
	destroy_cq(&public->recv_cq_channel, &public->recv_cq, &id->recv_cq);
	destroy_cq(&public->send_cq_channel, &public->send_cq, &id->send_cq);
}

static int qp_check(struct id *id, const struct ibv_qp_init_attr_ex *attr)
{
	const struct rdma_cm_id *public = &id->public;

	if (public->qp)
		return refuse(EINVAL, "rdma_create_qp: the id has QP 0x%06x already",
			      public->qp->qp_num);
	if (!id->device)
		return refuse(EINVAL, "rdma_create_qp: the id is not bound to a device: call "
			      "rdma_resolve_addr or rdma_bind_addr first");
	if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) && attr->pd &&
	    attr->pd->context != public->verbs)
		return refuse(EINVAL, "rdma_create_qp: the pd is of another context: allocate it "
			      "on id->verbs or a context of rdma_get_devices");
	if ((public->recv_cq && attr->recv_cq && public->recv_cq != attr->recv_cq) ||
	    (public->send_cq && attr->send_cq && public->send_cq != attr->send_cq))
		return refuse(EINVAL, "rdma_create_qp: the id has another CQ already");
	return 0;
}

static int complete_attributes(struct id *id, struct ibv_qp_init_attr_ex *attr)
{
	struct rdma_cm_id *public = &id->public;

	if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
		attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
		attr->pd = public->pd;
	}
	if (public->qp_type == IBV_QPT_XRC_RECV &&
	    (!(attr->comp_mask & IBV_QP_INIT_ATTR_XRCD) || !attr->xrcd)) {
		attr->xrcd = cm_device_xrcd(id->device);
		if (!attr->xrcd)
			return -1;
		attr->comp_mask |= IBV_QP_INIT_ATTR_XRCD;
	}
	if (id_create_cqs(id, attr->send_cq || public->send_cq ? 0 : attr->cap.max_send_wr,
			  attr->recv_cq || public->recv_cq ? 0 : attr->cap.max_recv_wr))
		return -1;
	if (!attr->send_cq)
		attr->send_cq = public->send_cq;
	if (!attr->recv_cq)
		attr->recv_cq = public->recv_cq;
	if (!attr->srq)
		attr->srq = public->srq;
	return 0;
}

/*
 * The attributes come back from each call with the CQs that it made: a program that uses them for its next id
 * names CQs that may be gone by then. They are made anew, as the program means it, and it is told.
 */
static bool qp_attr_is_used_again(struct ibv_qp_init_attr_ex *attr)
{
	bool send = cq_was_destroyed(attr->send_cq), recv = cq_was_destroyed(attr->recv_cq);

	if (!send && !recv)
		return false;
	explain("rdma_create_qp: %s of the attributes is a CQ that an earlier call made and "
		"rdma_destroy_qp has freed since: a new one is made; adapters fail or crash here: set "
		"send_cq and recv_cq to NULL before each call", send ? "send_cq" : "recv_cq");
	if (send)
		attr->send_cq = NULL;
	if (recv)
		attr->recv_cq = NULL;
	return true;
}

static int id_create_qp(struct rdma_cm_id *public, struct ibv_qp_init_attr_ex *attr)
{
	struct id *id = to_id(public);
	struct ibv_qp *qp;
	int err;

	if (!id || !attr)
		return refuse(EINVAL, "rdma_create_qp: no %s (null pointer)",
			      id ? "attributes" : "id");
	if (qp_check(id, attr) || complete_attributes(id, attr))
		return -1;
	qp = ibv_create_qp_ex(public->verbs, attr);
	if (!qp && errno == EINVAL && qp_attr_is_used_again(attr) && !complete_attributes(id, attr))
		qp = ibv_create_qp_ex(public->verbs, attr);
	err = qp ? qp_to_init(id, qp) : errno;
	if (err) {
		if (qp)
			ibv_destroy_qp(qp);
		id_destroy_cqs(id);
		return result(err);
	}
	/* Enhanced connection establishment is a matter of vendors' devices; ours has none. */
	memset(&id->local_ece, 0, sizeof(id->local_ece));
	if (qp->pd)	/* XRC_RECV: none */
		public->pd = qp->pd;
	public->qp = qp;
	return 0;
}

int rdma_create_qp_ex(struct rdma_cm_id *public, struct ibv_qp_init_attr_ex *attr)
{
	CALL();
	struct traced traced;

	traced_begin(&traced, public, NULL);
	return traced_end(&traced, "rdma_create_qp_ex", id_create_qp(public, attr));
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	CALL();
	struct ibv_qp_init_attr_ex extended = { 0 };
	int rc;

	if (!id || !attr)
		return refuse(EINVAL, "rdma_create_qp: no %s (null pointer)",
			      id ? "attributes" : "id");
	/* The extended structure begins as the simple one (a test looks after that). */
	memcpy(&extended, attr, sizeof(*attr));
	extended.comp_mask = IBV_QP_INIT_ATTR_PD;
	extended.pd = pd ? pd : id->pd;
	rc = rdma_create_qp_ex(id, &extended);
	memcpy(attr, &extended, sizeof(*attr));
	return rc;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	CALL();

	if (!id || !id->qp)
		return;
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
	id_destroy_cqs(to_id(id));
}
