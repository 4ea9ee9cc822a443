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
 *	ROUTE struct ctl_route	->
 *				<-	TEXT ..., then END: status 0 if it arrives, EHOSTUNREACH
 *	ADDRESS struct ctl_address ->
 *				<-	NEIGHBOUR for each that there is, then END
 *	SERVICE struct ctl_service ->
 *				<-	END: the program that has the slot, of this process, has the
 *					service ID at its node, or no more. EADDRINUSE: another one has
 *
 * A process whose QPs are at the node's HCAs has one more connection, of data:
 *
 *	ATTACH node		->
 *				<-	PORT for each port of its HCAs, then END: value is a hash of
 *					the subnet's file. Then at any time:
 *	SLOT number		->
 *				<-	END: packets to QPNs of this slot, at whichever HCA of the
 *					node, are for this connection. EBUSY: a live process has
 *					it; EPERM: it is another user's; ENOSPC: CTL_SLOTS_MAX
 *	GROUP 1 or 0, group	->	copies of packets to this group at this port are wanted, or
 *					no more. No answer: a program has at most CTL_GROUPS_MAX,
 *					and counts them itself; with one more its connection ends
 *	DATA HCA and port, packet ->	from that port, as the HCA would send it. No answer
 *				<-	DATA HCA and port, packet: it arrived there, for a QPN of
 *					the connection's slots, or for a group
 *	VIOLATION struct	->	a QP refused a packet for its key: counted at the port
 *				<-	CHANGED events, struct ctl_port: what a port is from now on
 *				<-	GONE slot, struct ctl_gone: the program that had it has ended,
 *					as a kernel tells the peers of its connections
 *	FOLD			->
 *				<-	FOLDED: what was tallied is counted, and all entries are free.
 *					Value 0: what was sent before is in the sockets of its
 *					receivers; else so many bytes wait for some that are slow
 *
 * With the END of ATTACH come two descriptors: the image, to be mapped for reading, and a tally, for
 * reading and writing (image/image.h, image/tally.h). Packets whose path the image knows a program
 * may hand over by itself; it tallies them. Without descriptors there is no image: all is DATA.
 *
 * DATA's packet is whole, LRH to ICRC. The fabric writes its VL, and believes nothing else: SLID is
 * one of the port's, PktLen fits, neither end is QP0, and a datagram's source QP is of the
 * connection's slots; what is not so is dropped and counted. Between QP1 and QP1 there are MADs of
 * connection management, and what is asked of subnet administration: the fabric is a kernel's ib_mad
 * to them. Its answers find the connection by the transaction ID, of which the fabric writes the
 * upper half; those of connection management by the slot in the communication ID, requests by the
 * claim on their service ID (SERVICE). What nobody is there for the fabric refuses. A
 * packet that its sender's HCA loops back, to a LID of the port itself or to a group, reaches other
 * connections at that port; for QPs of its own the sender's process has it already.
 * Backpressure is the socket's: it is full, and nothing is lost, as long as the receivers read, or wait
 * for a processor to read with. What one that is stopped or asleep has not read for HOQLife, VLStallCount
 * times, is discarded, and counted at the switch before it (tools/fabric/data.c).
 *
 * A connection is a lease: when it ends, however it ends, what was opened, registered, claimed and
 * joined by it is closed. A message of another version is answered with an END of status EPROTO,
 * whose text names both.
 */
#ifndef VERBATIM_IB_PROTOCOL_H
#define VERBATIM_IB_PROTOCOL_H

#include <stdint.h>

#define CTL_FILE		"ctl"
#define CTL_MAGIC		0x76624642u
#define CTL_VERSION		6u
#define CTL_BODY_MAX		4096u		/* of what a program sends, MADs apart */
#define CTL_TEXT_MAX		16384u		/* of one TEXT */
#define CTL_NODE_MAX		128u		/* with its 0 */
#define CTL_DEVICE_MAX		20u
#define CTL_PKEYS_MAX		128u
#define CTL_PORTS_MAX		2u		/* of an HCA */
#define CTL_GIDS_MAX		16u
#define CTL_SLOTS_MAX		4u		/* of a connection, as all that follow */
#define CTL_GROUPS_MAX		1024u
#define CTL_SERVICES_MAX	16384u
/* Of a packet: LRH, GRH, BTH with the longest extensions, 4096 bytes, ICRC; rounded up. */
#define CTL_PACKET_MAX		4224u
#define CTL_ANY_AGENT		UINT32_MAX

enum ctl_kind {
	CTL_COMMAND = 1, CTL_PORTS, CTL_OPEN, CTL_REGISTER, CTL_UNREGISTER, CTL_ISSM, CTL_SYSFS,
	CTL_ATTACH, CTL_SLOT, CTL_GROUP, CTL_DATA, CTL_VIOLATION, CTL_ROUTE,
	CTL_FOLD, CTL_ADDRESS, CTL_SERVICE,
	CTL_TEXT = 64, CTL_PORT, CTL_END, CTL_CHANGED, CTL_NEIGHBOUR,
	CTL_FOLDED, CTL_GONE,
};

/* Of CHANGED: its value is a mask of 1 << event; 0: something else of the port is another. */
enum ctl_event {
	CTL_EVENT_PORT_ACTIVE, CTL_EVENT_PORT_ERROR, CTL_EVENT_LID_CHANGE, CTL_EVENT_SM_CHANGE,
	CTL_EVENT_CLIENT_REREGISTER, CTL_EVENT_GID_CHANGE, CTL_EVENT_PKEY_CHANGE,
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

/* The value of DATA: HCAs of a node count from 0 (ctl_port's hca), ports from 1. */
static inline uint64_t ctl_data_value(uint32_t hca, uint32_t port)
{
	return (uint64_t)hca << 8 | port;
}

/* PORTS, ATTACH, OPEN, ISSM; SYSFS: the path below /sys/class/ follows. Texts end with a 0. */
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
 * ADDRESS: which port has this IP address (v4-mapped) or GID; all zero: all addresses of the node.
 * place.node counts only then.
 */
struct ctl_address {
	struct ctl_place place;
	uint8_t address[16];
};

/* NEIGHBOUR: what ARP would find. */
struct ctl_neighbour {
	char node[CTL_NODE_MAX];
	uint32_t hca, port;		/* of the node */
	uint8_t ip[16], gid[16];	/* ip: zero if it has none */
	uint16_t lid, pkey;		/* lid: now; pkey: of the address; 0: it has none of its own */
	uint32_t state;			/* now */
};

/* GONE: of the node that had these LIDs, from each on so many (1 << LMC). */
#define CTL_GONE_PORTS		8u
struct ctl_gone {
	uint16_t lid[CTL_GONE_PORTS], lmc[CTL_GONE_PORTS];	/* lid 0: there are no more */
};

enum { CTL_SERVICE_RELEASE, CTL_SERVICE_CLAIM, CTL_SERVICE_SERVE };

/*
 * SERVICE: requests for the service ID, to this IP address or GID of the node; zero: to any, of that
 * family, 4 or 6; 0: both. Only one that is served gets requests; those for others are lost.
 */
struct ctl_service {
	struct ctl_place place;
	uint32_t slot, what, family, reserved;
	uint64_t service_id;
	uint8_t address[16];
};

/* GROUP. A port has a group once for a connection, however many of its QPs are attached. */
struct ctl_group {
	uint32_t hca, port;
	uint16_t mlid, reserved;
	uint8_t mgid[16];
};

/* VIOLATION: what trap 257 or 258 says of it. */
struct ctl_violation {
	uint32_t hca, port;		/* where it arrived */
	uint32_t is_qkey;		/* 0: a P_Key */
	uint32_t key, source_qpn, dest_qpn;
	uint16_t slid, dlid;
	uint8_t sl, has_gids, reserved[2];
	uint8_t source_gid[16], dest_gid[16];
};

/* ROUTE: of a packet that a port sends. place.device "": the node's first one. */
struct ctl_route {
	struct ctl_place place;
	uint32_t dlid, sl, pkey;
	uint32_t payload;		/* bytes: what the MTU limits */
};

/*
 * PORT and CHANGED: what a kernel would show of a port of an HCA, or of port 0 of a switch.
 * Large: one message with all that verbs, libibumad and sysfs show.
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
	uint32_t pkeys;			/* size of the table, as gids */
	uint16_t pkey[CTL_PKEYS_MAX];
	/* verbs alone show these */
	uint32_t hca;			/* number of the HCA at its node, from 0 */
	uint32_t vendor_id, device_id, cap_mask2;
	uint32_t mtu_cap, mtu_active;	/* enum ibv_mtu: 5 is 4096 */
	uint32_t vl_cap;		/* code: 4 is VL0 to VL7 */
	uint32_t subnet_timeout, init_type_reply;
	uint32_t active_width, active_speed, active_speed_ex;	/* as ibv_port_attr has them */
	uint32_t mkey_violations, pkey_violations, qkey_violations;
	uint32_t gids;
	uint8_t gid[CTL_GIDS_MAX][16];	/* zero: there is none of this index */
	uint32_t image_port;		/* its number in the image; UINT32_MAX: there is none */
	uint32_t reserved_2;
};

#endif
