/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program and a fabric (`verbatim fabric`) say to each other over the socket "ctl" in the
 * fabric's run directory, of type SOCK_SEQPACKET. Both are of one machine: numbers are the host's.
 *
 *	program				fabric
 *	PORTS node		->
 *				<-	PORT for each port of its HCAs, then END
 *	OPEN node, device, port	->
 *				<-	END: value is a token; from here on the connection
 *					carries MADs alone, in both directions, struct
 *					agent_header before each (fabric/agents.h)
 *	(another connection)
 *	REGISTER token, ...	->
 *				<-	END: value is the agent's ID
 *	COMMAND line		->
 *				<-	TEXT ..., then END
 *
 * A connection is a lease: when it ends, however it ends, what was opened and registered by it is
 * closed. A message of another version is answered with an END of status EPROTO, whose text names
 * both.
 */
#ifndef VERBATIM_IB_PROTOCOL_H
#define VERBATIM_IB_PROTOCOL_H

#include <stdint.h>

#define CTL_FILE		"ctl"
#define CTL_MAGIC		0x76624642u
#define CTL_VERSION		1u
#define CTL_BODY_MAX		4096u		/* of what a program sends, MADs apart */
#define CTL_TEXT_MAX		16384u		/* of one TEXT */
#define CTL_NODE_MAX		128u		/* with its 0 */
#define CTL_DEVICE_MAX		20u
#define CTL_PKEYS_MAX		128u
#define CTL_PORTS_MAX		2u		/* of an HCA */
#define CTL_ANY_AGENT		UINT32_MAX

enum ctl_kind {
	CTL_COMMAND = 1, CTL_PORTS, CTL_OPEN, CTL_REGISTER, CTL_UNREGISTER, CTL_ISSM, CTL_SYSFS,
	CTL_TEXT = 64, CTL_PORT, CTL_END,
};

struct ctl_head {
	uint32_t magic;
	uint16_t version, kind;
	uint32_t status;		/* of an END: 0 or errno; then a text says why */
	uint32_t bytes;			/* that follow */
	uint64_t value;
};

_Static_assert(sizeof(struct ctl_head) == 24,
	       "the same in libraries and command, whoever compiled them");

/* PORTS, OPEN, ISSM; SYSFS: the path below /sys/class/ follows. Texts end with a 0. */
struct ctl_place {
	char node[CTL_NODE_MAX], device[CTL_DEVICE_MAX];
	uint32_t port;
};

/* REGISTER and UNREGISTER. */
struct ctl_agent {
	uint64_t token;			/* of the connection that the agent is for */
	uint32_t id;			/* or CTL_ANY_AGENT */
	uint32_t flags, oui;
	uint8_t class, class_version, rmpp_version, reserved;
	uint64_t methods[2];
};

/*
 * PORT: what a kernel would show of a port of an HCA, or of port 0 of a switch.
 * Large: one message with all that libibumad and sysfs show.
 */
struct ctl_port {
	char device[CTL_DEVICE_MAX];
	uint32_t number, ports;		/* ports: of the device */
	uint32_t node_type, umad;	/* umad: number of its umad device */
	uint64_t node_guid, system_guid;
	char description[65], model[16], firmware[16], revision[12];
	uint8_t ethernet;		/* in a library alone: a RoCE device */
	char reserved[2];
	uint32_t lid, lmc, sm_lid, sm_sl, state, phys_state, rate_mbps, cap_mask;
	char speed[8];			/* "EDR" */
	uint32_t lanes;
	uint64_t gid_prefix, guid;
	uint32_t pkeys;
	uint16_t pkey[CTL_PKEYS_MAX];
};

#endif
