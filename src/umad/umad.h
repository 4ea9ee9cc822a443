/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libibumad: management datagrams of programs, over a fabric (`verbatim fabric`) in the place of
 * /dev/infiniband. Negative errnos at the ABI; libibverbs and librdmacm have nothing to do with it.
 *
 *	umad_open_port()	a socket to the fabric: it carries MADs, struct ib_user_mad before
 *				each, can be polled, is inherited by fork(), and gives up what it
 *				holds however it is closed
 *	umad_register()		over a connection of its own, which names the socket by a token
 *	umad_send(), _recv()	one message each
 *
 * Agents, transaction IDs, timeouts and retries are the fabric's (fabric/agents.h), because they
 * are a matter of the port and not of the process. What is here of a descriptor, struct umad_file,
 * is for the day when the fabric ends: virtual hardware without power. The descriptor then is
 * another socket, of which nobody holds the other end but the library; requests time out when they
 * would have; each second the library looks whether the fabric is back, and registers all agents
 * again under their old numbers.
 */
#ifndef VERBATIM_UMAD_UMAD_H
#define VERBATIM_UMAD_UMAD_H

#include <errno.h>
#include <infiniband/umad.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/call.h"
#include "base/lock.h"
#include "ib/client.h"

#define UMAD_NEVER_NS UINT64_MAX

/* What rdma-core 54 and later have in umad.h; ours may be compiled with an older one. */
#ifndef HAVE_UMAD_CA_PAIR
struct umad_ca_pair {
	char smi_name[UMAD_CA_NAME_LEN];
	uint32_t smi_preferred_port;
	char gsi_name[UMAD_CA_NAME_LEN];
	uint32_t gsi_preferred_port;
};
int umad_open_smi_port(const char *ca_name, int portnum);
int umad_get_smi_gsi_pairs(struct umad_ca_pair pairs[], size_t max);
int umad_get_smi_gsi_pair_by_ca_name(const char *ca_name, uint8_t portnum,
				     struct umad_ca_pair *pair, unsigned enforce_smi);
#endif
enum { UMAD_DEVICES_MAX = 128, UMAD_PORTS_MAX = 192 };

/* A request that waits for its answer, as the fabric knows it too. */
struct umad_waiting {
	uint64_t until_ns;		/* it times out */
	ib_user_mad_t header;
	uint8_t mad[24];
};

struct umad_file {
	unsigned references;		/* under files_lock: the table's, and those of calls */
	struct lock lock;
	struct ib_binding binding;
	struct ctl_place place;
	uint64_t token GUARDED_BY_MEMBER(lock);
	bool dead GUARDED_BY_MEMBER(lock);
	int keeper GUARDED_BY_MEMBER(lock);	/* while dead: where the library writes; -1 */
	uint64_t retry_ns GUARDED_BY_MEMBER(lock);
	struct {
		bool used;
		struct ctl_agent request;
	} agent[UMAD_CA_MAX_AGENTS] GUARDED_BY_MEMBER(lock);
	struct umad_waiting *waiting GUARDED_BY_MEMBER(lock);
	size_t count GUARDED_BY_MEMBER(lock), room GUARDED_BY_MEMBER(lock);
};

/* ---- file.c: what is known of descriptors ---- */

/* NULL: umad_open_port() did not return it, or it was closed by umad_close_port(). */
struct umad_file *umad_file_get(int fd);
void umad_file_put(struct umad_file *file);
/* From now on @fd is @file, which is released with it. 0 or ENOMEM. */
int umad_file_enter(int fd, struct umad_file *file);
/* NULL: there was none. The caller has its reference. */
struct umad_file *umad_file_remove(int fd);

/* ---- transfer.c ---- */

/* It is no more: its requests wait for nothing, and their transaction IDs are free. */
void umad_file_forget_agent(struct umad_file *file, uint32_t agent) REQUIRES(file->lock);

/* ---- dead.c: fabrics that end, and come back ---- */

/* The socket @fd has no other end any more. */
void umad_file_lost(struct umad_file *file, int fd) REQUIRES(file->lock);
/*
 * Of a dead one: what is due times out, and if it is time to, the fabric is looked for. Returns
 * when to do it again.
 */
uint64_t umad_file_revive(struct umad_file *file, int fd, uint64_t now_ns) REQUIRES(file->lock);

/* ---- device.c: HCAs and ports ---- */

/* Of the node that this process is at; to be freed. 0, ENODEV and others, explained. */
int umad_ports(struct ctl_port **ports, unsigned *count);
/* The same of RoCE devices, for processes that are at no fabric (roce.c). */
int umad_roce_ports(struct ctl_port **ports, unsigned *count);
/*
 * The device and port that NULL and 0 stand for. A port with a number may be one that is disabled,
 * or of a RoCE device, but for @open. 0, ENODEV, EINVAL.
 */
int umad_resolve(const char *call, const char *device, int number, bool open,
		 struct ctl_port *found);

/* ---- transfer.c ---- */

static inline int umad_fail(int err)
{
	errno = err;
	return -err;
}

#endif
