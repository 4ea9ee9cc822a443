/* SPDX-License-Identifier: BSD-2-Clause */
/* ibv_attach_mcast(3), ibv_detach_mcast(3). */
#include "verbs/verbs.h"

int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	CALL();

	if (!qp || !gid)
		return refuse_null("ibv_attach_mcast", qp ? "gid" : "qp");
	return hca_attach_mcast(to_qp(qp), gid, lid);
}

int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	CALL();

	if (!qp || !gid)
		return refuse_null("ibv_detach_mcast", qp ? "gid" : "qp");
	return hca_detach_mcast(to_qp(qp), gid, lid);
}
