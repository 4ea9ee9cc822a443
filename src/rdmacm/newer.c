/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that rdma-core 60 added (RDMACM_1.4), for programs that were linked to it: names whose addresses
 * arrive as an event, and events of the application's own. Our headers may be older: see newer.h.
 *
 * Names are looked up before rdma_resolve_addrinfo() returns, as in rdma-core.
 */
#include <netdb.h>

#include "base/log.h"
#include "rdmacm/newer.h"
#include "rdmacm/rdmacm.h"

static int lookup_errno(int rc)
{
	switch (rc) {
	case EAI_SYSTEM:
		return errno;
	case EAI_AGAIN:
		return EAGAIN;
	case EAI_MEMORY:
		return ENOMEM;
	case EAI_NONAME:
		return ENOENT;
	default:
		return EINVAL;
	}
}

/* One lookup at a time, from the call to the query that takes its result. */
static bool lookup_begin(struct id *id)
{
	bool first;

	lock_acquire(&id->lock);
	first = !id->looking_up;
	id->looking_up = true;
	lock_release(&id->lock);
	return first;
}

/* With @found, NULL: without a result, and another may begin. */
static void lookup_end(struct id *id, struct rdma_addrinfo *found)
{
	lock_acquire(&id->lock);
	id->found = found;
	id->looking_up = found != NULL;
	lock_release(&id->lock);
}

/* What was found; afterwards another lookup may begin. */
static struct rdma_addrinfo *lookup_take(struct id *id)
{
	struct rdma_addrinfo *found;

	lock_acquire(&id->lock);
	found = id->found;
	if (found)
		id->looking_up = false;
	id->found = NULL;
	lock_release(&id->lock);
	return found;
}

/* The result @rc of rdma_getaddrinfo() becomes an event. */
static int lookup_report(struct id *id, const char *what, int rc, struct rdma_addrinfo *found)
{
	CALL();
	int status = rc ? -lookup_errno(rc) : 0, err;

	if (rc)
		explain("rdma_resolve_addrinfo: %s: %s", what, gai_strerror(rc));
	lookup_end(id, found);
	err = endpoint_raise(id->endpoint, (enum rdma_cm_event_type)(rc ? NEWER_EVENT_ADDRINFO_ERROR :
			     NEWER_EVENT_ADDRINFO_RESOLVED), status, 0);
	if (err) {
		rdma_freeaddrinfo(lookup_take(id));
		return result(err);
	}
	return id_complete(id);
}

int rdma_resolve_addrinfo(struct rdma_cm_id *public, const char *node, const char *service,
			  const struct rdma_addrinfo *hints)
{
	struct id *id = to_id(public);
	struct rdma_addrinfo *found = NULL;
	int rc;

	if (!id)
		return refuse(EINVAL, "rdma_resolve_addrinfo: no id (null pointer)");
	if (hints && hints->ai_flags & NEWER_RAI_SA)
		return refuse(EOPNOTSUPP, "rdma_resolve_addrinfo: RAI_SA is not supported: RoCE has no "
			      "subnet administrator; RAI_DNS, or neither, asks for a name");
	if (!lookup_begin(id))
		return refuse(EBUSY, "rdma_resolve_addrinfo: fetch the last result by "
			      "rdma_query_addrinfo first");
	rc = rdma_getaddrinfo(node, service, hints, &found);
	if (rc == -1) {
		lookup_end(id, NULL);
		return -1;
	}
	return lookup_report(id, node ? node : service, rc, found);
}

int rdma_query_addrinfo(struct rdma_cm_id *public, struct rdma_addrinfo **info)
{
	CALL();
	struct rdma_addrinfo *found;

	if (!public || !info)
		return refuse(EINVAL, "rdma_query_addrinfo: no %s (null pointer)",
			      public ? "place for the result" : "id");
	found = lookup_take(to_id(public));
	if (!found)
		return refuse(ENOENT, "rdma_query_addrinfo: rdma_resolve_addrinfo has found nothing that was "
			      "not fetched");
	*info = found;
	return 0;
}

int rdma_write_cm_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status, uint64_t arg)
{
	CALL();
	int err;

	if (!id)
		return refuse(EINVAL, "rdma_write_cm_event: no id (null pointer)");
	if ((int)event != NEWER_EVENT_USER)
		return refuse(EINVAL, "rdma_write_cm_event: event %d must be RDMA_CM_EVENT_USER (%d)",
			      (int)event, NEWER_EVENT_USER);
	err = endpoint_raise(to_id(id)->endpoint, event, status, arg);
	if (err == EBADF)
		return refuse(err, "rdma_write_cm_event: the event channel was destroyed");
	return result(err);
}
