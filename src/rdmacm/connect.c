/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Connections: rdma_connect(3), rdma_accept(3), rdma_reject(3), rdma_establish(3),
 * rdma_notify(3), rdma_disconnect(3), rdma_init_qp_attr(3).
 *
 * A passive QP moves to RTS before the REP is sent, since the peer may send as soon as it has the
 * REP.
 */
#include <string.h>

#include "rdmacm/rdmacm.h"

/* Reasons of a REJ (IBTA 12.6.7.2). */
#define REJECT_CONSUMER_DEFINED		28
#define REJECT_VENDOR_OPTION		35

/* Private data of one call, behind what rdma_create_ep() was given. */
struct assembled {
	struct rdma_conn_param parameters;
	uint8_t private_data[UINT8_MAX];
};

static int connect_check(const struct id *id, const char *call,
			 const struct rdma_conn_param *parameters)
{
	const struct cm_device *device = id->device;

	if (!device)
		return refuse(EINVAL, "%s: the id is not bound to a device: call rdma_resolve_addr "
			      "first", call);
	if (!id->public.qp && !parameters)
		return refuse(EINVAL, "%s: the id has no QP: call rdma_create_qp first, or pass "
			      "parameters with qp_num", call);
	if (id->public.ps != RDMA_PS_TCP || !parameters)
		return 0;
	if (parameters->responder_resources != RDMA_MAX_RESP_RES &&
	    parameters->responder_resources > device->max_responder_resources)
		return refuse(EINVAL, "%s: responder_resources %u exceeds the device's %u "
			      "(max_qp_rd_atom)", call, parameters->responder_resources,
			      device->max_responder_resources);
	if (parameters->initiator_depth != RDMA_MAX_INIT_DEPTH &&
	    parameters->initiator_depth > device->max_initiator_depth)
		return refuse(EINVAL, "%s: initiator_depth %u exceeds the device's %u "
			      "(max_qp_init_rd_atom)", call, parameters->initiator_depth,
			      device->max_initiator_depth);
	return 0;
}

/* The parameters of the application, or the defaults, made complete. 0, or -1 and errno. */
static int connect_assemble(const struct id *id, const char *call,
			    const struct rdma_conn_param *parameters, struct assembled *assembled)
{
	struct rdma_conn_param *out = &assembled->parameters;
	size_t bytes = id->connect_bytes;

	*out = parameters ? *parameters :
			    (struct rdma_conn_param){ .retry_count = 7, .rnr_retry_count = 7 };
	out->responder_resources = id->responder_resources;
	out->initiator_depth = id->initiator_depth;
	if (id->public.qp) {
		out->qp_num = id->public.qp->qp_num;
		out->srq = id->public.qp->srq != NULL;
	}
	if (!out->private_data)
		out->private_data_len = 0;
	if (bytes + out->private_data_len > sizeof(assembled->private_data))
		return refuse(EINVAL, "%s: %zu bytes of private data exceed 255", call,
			      bytes + out->private_data_len);
	if (bytes)
		memcpy(assembled->private_data, id->connect_data, bytes);
	if (out->private_data_len)
		memcpy(assembled->private_data + bytes, out->private_data, out->private_data_len);
	bytes += out->private_data_len;
	out->private_data = bytes ? assembled->private_data : NULL;
	out->private_data_len = bytes;
	return 0;
}

static int connect_begin(struct rdma_cm_id *public, struct rdma_conn_param *parameters)
{
	static const char call[] = "rdma_connect";
	struct id *id = to_id(public);
	struct assembled assembled;
	size_t connect_bytes;
	bool synchronous;
	int err;

	if (!id)
		return refuse(EINVAL, "%s: no id (null pointer)", call);
	if (connect_check(id, call, parameters))
		return -1;
	id->initiator_depth = id->device->max_initiator_depth;
	if (parameters && parameters->initiator_depth != RDMA_MAX_INIT_DEPTH)
		id->initiator_depth = parameters->initiator_depth;
	id->responder_resources = id->device->max_responder_resources;
	if (parameters && parameters->responder_resources != RDMA_MAX_RESP_RES)
		id->responder_resources = parameters->responder_resources;
	if (connect_assemble(id, call, parameters, &assembled))
		return -1;
	connect_bytes = id->connect_bytes;
	id->connect_bytes = 0;
	/* Once the REQ is out, another thread may take the event that follows and destroy the id. */
	synchronous = id->synchronous;
	err = endpoint_connect(id->endpoint, &assembled.parameters, &id->local_ece);
	if (err) {
		id->connect_bytes = connect_bytes;
		return result(err);
	}
	return synchronous ? id_complete(id) : 0;
}

int rdma_connect(struct rdma_cm_id *public, struct rdma_conn_param *parameters)
{
	CALL();
	struct traced traced;

	traced_begin(&traced, public, NULL);
	if (parameters && parameters->private_data)
		traced.private_bytes = parameters->private_data_len;
	return traced_end(&traced, "rdma_connect", connect_begin(public, parameters));
}

static uint8_t connect_min(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static int connect_accept(struct rdma_cm_id *public, struct rdma_conn_param *parameters)
{
	static const char call[] = "rdma_accept";
	struct id *id = to_id(public);
	bool synchronous, datagram;
	struct assembled assembled;
	struct endpoint_ece ece;
	int err;

	if (!id)
		return refuse(EINVAL, "%s: no id (null pointer)", call);
	if (connect_check(id, call, parameters))
		return -1;
	/* What was offered, cut to what the device can, or what the application wants instead. */
	if (!parameters || parameters->initiator_depth == RDMA_MAX_INIT_DEPTH)
		id->initiator_depth =
			connect_min(id->initiator_depth, id->device->max_initiator_depth);
	else
		id->initiator_depth = parameters->initiator_depth;
	if (!parameters || parameters->responder_resources == RDMA_MAX_RESP_RES)
		id->responder_resources =
			connect_min(id->responder_resources, id->device->max_responder_resources);
	else
		id->responder_resources = parameters->responder_resources;
	if (connect_assemble(id, call, parameters, &assembled))
		return -1;
	datagram = is_datagram(id);
	synchronous = id->synchronous;	/* as in rdma_connect() */
	err = datagram ? 0 : qp_to_rts(id, id->responder_resources, id->initiator_depth);
	if (err)
		return result(err);
	ece = (struct endpoint_ece){ .vendor_id = id->remote_ece.vendor_id, .options = id->local_ece.options };
	err = endpoint_accept(id->endpoint, &assembled.parameters,
			      datagram ? endpoint_qkey(id->endpoint) : 0, &ece);
	if (err) {
		qp_to_error(id);
		return result(err);
	}
	if (!synchronous)
		return 0;
	if (!datagram)
		return id_complete(id);
	id_drop_event(id);
	return 0;
}

int rdma_accept(struct rdma_cm_id *public, struct rdma_conn_param *parameters)
{
	CALL();
	struct traced traced;

	traced_begin(&traced, public, NULL);
	if (parameters && parameters->private_data)
		traced.private_bytes = parameters->private_data_len;
	return traced_end(&traced, "rdma_accept", connect_accept(public, parameters));
}

static int connect_reject(struct rdma_cm_id *id, const void *private_data, uint8_t bytes,
			  uint16_t reason)
{
	if (!id)
		return refuse(EINVAL, "rdma_reject: no id (null pointer)");
	return result(endpoint_reject(to_id(id)->endpoint, private_data, private_data ? bytes : 0,
				      reason));
}

int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	CALL();
	struct traced traced;

	traced_begin(&traced, id, NULL);
	traced.private_bytes = private_data ? private_data_len : 0;
	return traced_end(&traced, "rdma_reject", connect_reject(id, private_data, private_data_len,
								 REJECT_CONSUMER_DEFINED));
}

int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
	CALL();

	return connect_reject(id, private_data, private_data_len, REJECT_VENDOR_OPTION);
}

int rdma_establish(struct rdma_cm_id *id)
{
	CALL();

	if (!id || id->qp)
		return refuse(EINVAL, "rdma_establish: %s", id ? "the id has a QP: the library "
			      "establishes its connection" : "no id (null pointer)");
	return result(endpoint_established(to_id(id)->endpoint));
}

int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
	CALL();

	if (!id)
		return refuse(EINVAL, "rdma_notify: no id (null pointer)");
	return result(endpoint_notify(to_id(id)->endpoint, event));
}

int rdma_disconnect(struct rdma_cm_id *public)
{
	CALL();
	struct id *id = to_id(public);
	struct traced traced;
	int rc, err;

	traced_begin(&traced, public, NULL);
	if (!id || !id->device) {
		rc = refuse(EINVAL, "rdma_disconnect: %s", id ? "the id is not connected" :
			    "no id (null pointer)");
	} else {
		err = qp_to_error(id);
		if (!err)
			err = endpoint_disconnect(id->endpoint);
		rc = err ? result(err) : id_complete(id);
	}
	return traced_end(&traced, "rdma_disconnect", rc);
}

int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	CALL();

	if (!id || !attr || !mask)
		return refuse(EINVAL, "rdma_init_qp_attr: a null pointer");
	return result(endpoint_qp_attributes(to_id(id)->endpoint, attr, mask));
}
