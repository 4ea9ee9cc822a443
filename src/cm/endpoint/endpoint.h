/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The connection manager below librdmacm: event channels and endpoints. An endpoint is the object
 * behind an rdma_cm_id: addresses, port space, device, connection; of its QP it has the number only.
 * It behaves towards src/rdmacm as Linux's rdma_cm does towards librdmacm.
 *
 *	endpoint.c	states of an endpoint (state.def), create, destroy, migrate, query
 *	address.c	addresses of AF_INET, AF_INET6, AF_IB; bind;  resolve.c: devices and routes
 *	ports.c		port spaces: service IDs, claims on them, ephemeral ports, REUSEADDR, AFONLY
 *	connect.c	connect, accept, reject, disconnect; events of the protocol -> events here
 *	request.c	requests that come to listeners
 *	datagram.c	the same for UD (SIDR);  multicast.c: join, leave
 *	ip_cm.c		the header of the RDMA IP CM service in private data (annex A11)
 *	attributes.c	QP attributes for a state (rdma_init_qp_attr)
 *	channel.c	event channels
 *	ib.c		paths through a virtual InfiniBand fabric, from subnet administration
 *	agent.c		the struct cm_protocol of this process, its lock, the MAD agent
 *	list.c		a table of them
 *	explain.c	why an address, a route, a connection failed, and what would work
 *
 * Functions return 0 or a positive errno, explain a refusal, and may be called by any thread.
 * The errno are those that the kernel gives to librdmacm, but EADDRINUSE for every conflict of
 * ports.
 */
#ifndef VERBATIM_CM_ENDPOINT_ENDPOINT_H
#define VERBATIM_CM_ENDPOINT_ENDPOINT_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

struct cm_channel;
struct endpoint;

/* ---- event channels ---- */

int cm_channel_open(struct cm_channel **channel);	/* also starts the process's agent */
int cm_channel_fd(const struct cm_channel *channel);	/* readable while an event waits */
/*
 * The channel as applications know it, and back; also of a closed one, since the memory of channels
 * is never freed.
 */
struct rdma_event_channel *cm_channel_public(struct cm_channel *channel);
struct cm_channel *cm_channel_of(struct rdma_event_channel *public);
/* Drops events that were not taken. A thread in cm_channel_take() gets EBADF. */
void cm_channel_close(struct cm_channel *channel);
/*
 * Until an event may wait. 0, or what read(2) would say of the fd: EAGAIN if it is O_NONBLOCK, EINTR.
 */
int cm_channel_wait(struct cm_channel *channel);

/* An event, as the library hands it on; private data is copied here. */
struct endpoint_event {
	struct endpoint *endpoint;	/* CONNECT_REQUEST: the new one */
	struct endpoint *listener;	/* CONNECT_REQUEST: else NULL */
	void *user;			/* of endpoint; CONNECT_REQUEST: of the listener */
	enum rdma_cm_event_type kind;
	int status;			/* -errno, or the CM's reason of a REJECTED, or SIDR status */
	bool datagram;			/* which of the two below */
	struct rdma_conn_param connection;	/* as the application is to see them: roles swapped */
	struct rdma_ud_param ud;
	struct { uint32_t vendor_id, options; } ece;	/* the peer's */
	void *multicast;		/* MULTICAST_*: the user pointer of the join */
	uint64_t argument;		/* of endpoint_raise() */
	uint8_t private_data[256];	/* connection.private_data and ud.private_data point here */
};

/*
 * Take the next event. 0; EAGAIN: none (cm_channel_wait(), or not). The event counts as
 * held by its endpoint until endpoint_event_ack().
 */
int cm_channel_take(struct cm_channel *channel, struct endpoint_event *event);
/* Also while endpoint_destroy() of its endpoint waits for it. */
void endpoint_event_ack(struct endpoint_event *event);
/*
 * Does an event of a failure wait, which nobody has taken? Of an @endpoint, or of any of the @channel.
 * No, where the agent's lock is in use: locks of the caller's do not matter.
 */
bool cm_channel_has_failure(const struct cm_channel *channel, enum rdma_cm_event_type *kind);
bool endpoint_has_failure(const struct endpoint *endpoint, enum rdma_cm_event_type *kind);

/* ---- endpoints ---- */

int endpoint_create(struct cm_channel *channel, enum rdma_port_space space,
		    enum ibv_qp_type qp_type, void *user, struct endpoint **endpoint);
/* For endpoints that came with a CONNECT_REQUEST. */
void endpoint_set_user(struct endpoint *endpoint, void *user);
/*
 * Ends what is under way (REJ, DREQ), drops its events in the channel, waits until those taken
 * are acknowledged (all, those of a listener's CONNECT_REQUESTs included), frees it.
 */
void endpoint_destroy(struct endpoint *endpoint);
/*
 * Its events go to @channel from now on, waiting ones too. *taken: for endpoint_await_acks(), which
 * waits until all events taken before are acknowledged.
 */
int endpoint_migrate(struct endpoint *endpoint, struct cm_channel *channel, uint32_t *taken);
void endpoint_await_acks(struct endpoint *endpoint, uint32_t taken);

/* An event of the library or of the application, not of the manager. 0, ENODEV, EBADF, ENOMEM. */
int endpoint_raise(struct endpoint *endpoint, enum rdma_cm_event_type kind, int status,
		   uint64_t argument);

/* The application learns that the connection failed: neither REJECTED nor DISCONNECTED are told any more. */
void endpoint_mute(struct endpoint *endpoint);

/* Addresses: AF_INET, AF_INET6 or AF_IB (struct sockaddr_ib, infiniband/... rdma/rdma_cma_abi). */
int endpoint_bind(struct endpoint *endpoint, const struct sockaddr *address);
/* ADDR_RESOLVED or ADDR_ERROR follows. @source may be NULL. */
int endpoint_resolve_address(struct endpoint *endpoint, const struct sockaddr *source,
			     const struct sockaddr *destination, int timeout_ms);
/* ROUTE_RESOLVED or ROUTE_ERROR follows. */
int endpoint_resolve_route(struct endpoint *endpoint, int timeout_ms);
int endpoint_listen(struct endpoint *endpoint, int backlog);

/* What is known of an endpoint; addresses zero where not known. */
struct endpoint_info {
	struct sockaddr_storage source, destination;	/* with ports */
	char device[IBV_SYSFS_NAME_MAX];		/* "": bound to none (yet) */
	uint8_t port;					/* 1; 0 without a device */
	uint32_t gid_index;
	union ibv_gid sgid, dgid;
	uint16_t pkey;
	bool has_route;
	struct ibv_sa_path_rec path;			/* as the kernel makes one for RoCE */
};
void endpoint_query(struct endpoint *endpoint, struct endpoint_info *info);

/*
 * @parameters as rdma_connect(3) and rdma_accept(3) say, limits checked; qp_num is that of the QP to
 * use. @starting_psn of our QP: chosen by endpoint_create(), part of endpoint_qp_attributes().
 * REQ goes out; CONNECT_RESPONSE follows (or REJECTED, UNREACHABLE, CONNECT_ERROR): then the library
 * moves its QP and calls endpoint_established().
 */
struct endpoint_ece { uint32_t vendor_id, options; };
int endpoint_connect(struct endpoint *endpoint, const struct rdma_conn_param *parameters,
		     const struct endpoint_ece *ece);
/* RC: REP goes out, ESTABLISHED follows. UD: SIDR_REP with @qkey; no event follows. */
int endpoint_accept(struct endpoint *endpoint, const struct rdma_conn_param *parameters,
		    uint32_t qkey, const struct endpoint_ece *ece);
int endpoint_reject(struct endpoint *endpoint, const void *private_data, uint8_t bytes,
		    uint16_t reason);
/* The active side's RTU, after CONNECT_RESPONSE. */
int endpoint_established(struct endpoint *endpoint);
/* rdma_notify: IBV_EVENT_COMM_EST on the QP. */
int endpoint_notify(struct endpoint *endpoint, enum ibv_event_type event);
int endpoint_disconnect(struct endpoint *endpoint);	/* DISCONNECTED follows */

/* Attributes and mask that ibv_modify_qp needs for attr->qp_state. EINVAL: not at this point. */
int endpoint_qp_attributes(struct endpoint *endpoint, struct ibv_qp_attr *attr, int *mask);
/* UD: the Q_Key of the QP (port space, or as joined). */
uint32_t endpoint_qkey(struct endpoint *endpoint);

/* RDMA_OPTION_ID_*, RDMA_OPTION_IB_PATH as rdma_set_option(3). */
int endpoint_set_option(struct endpoint *endpoint, int level, int option, const void *value,
			size_t bytes);

/* MULTICAST_JOIN or MULTICAST_ERROR follows; @user comes back in it. */
int endpoint_join(struct endpoint *endpoint, const struct sockaddr *group, uint16_t flags,
		  void *user);
/* The group's GID and, of a fabric, its LID, for ibv_detach_mcast. ENOENT: not joined. */
int endpoint_leave(struct endpoint *endpoint, const struct sockaddr *group, union ibv_gid *gid,
		   uint16_t *lid);

/* An endpoint in a table of them, for statistics. */
struct endpoint_row {
	uint32_t number;		/* ever-growing */
	uint32_t qp_num;		/* 0: none yet */
	const char *state;		/* state.def */
	const char *space;		/* "tcp" "udp" "ib" "ipoib" */
	char device[IBV_SYSFS_NAME_MAX];
	struct sockaddr_storage source, destination;	/* AF_UNSPEC: none */
};

/* Those with numbers from @from on, in order, @max of them. Any thread. Returns how many. */
unsigned endpoint_list(uint64_t from, struct endpoint_row *rows, unsigned max);

#endif
