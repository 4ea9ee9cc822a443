/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A virtual InfiniBand subnet: nodes, ports and cables that a file describes, the SMA of every
 * node, and the way of each management datagram through them, hop by hop. Pure: no I/O, no clock, no
 * thread. Time comes in as an argument, in microseconds from any origin; what leaves the fabric goes
 * through struct fabric_ops.
 *
 *	program of host1   fabric_send(host1, port 1, MAD)
 *	                     host1 --cable--> sw1 --cable--> host2    forward(): LFT, MFT, or the
 * path in the SMP
 *	                                                       |
 *	                                     SMA: Get or Set, the answer goes back in the same call
 *	                                     else ops->deliver(host2, port 1, MAD)
 *
 * It is no subnet manager and knows no programs: whether somebody is registered for a MAD, and
 * TIDs, timeouts and RMPP, are the business of who calls it. Whatever a MAD contains, it is an input
 * like another: it is answered with a status, or dropped and counted.
 *
 * Nodes are numbered from 0 in the order of the file, ports from 1; port 0 is a switch's own.
 */
#ifndef VERBATIM_FABRIC_FABRIC_H
#define VERBATIM_FABRIC_FABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "wire/mad.h"

#define FABRIC_NONE		UINT32_MAX	/* no such node */
#define FABRIC_NEVER		UINT64_MAX	/* nothing is due */
#define FABRIC_ERRORS_MAX	16u
#define FABRIC_PACKET_MAX	4224u	/* LRH to ICRC */

struct fabric;

/* NodeInfo:NodeType. */
enum fabric_node_type { FABRIC_CA = 1, FABRIC_SWITCH = 2, FABRIC_ROUTER = 3 };

/* PortInfo:PortState and PortPhysicalState. */
enum fabric_port_state {
	FABRIC_PORT_NO_CHANGE,
	FABRIC_PORT_DOWN,
	FABRIC_PORT_INIT,
	FABRIC_PORT_ARMED,
	FABRIC_PORT_ACTIVE,
};
enum fabric_phys_state {
	FABRIC_PHYS_NO_CHANGE, FABRIC_PHYS_SLEEP, FABRIC_PHYS_POLLING, FABRIC_PHYS_DISABLED,
	FABRIC_PHYS_TRAINING, FABRIC_PHYS_LINK_UP, FABRIC_PHYS_RECOVERY,
};

/*
 * The other end of a MAD, as ib_user_mad has it. To fabric_send(): where it goes. From deliver():
 * where it came from; path_bits are those of the local LID, gid is the sender's.
 */
struct fabric_address {
	uint16_t lid;			/* 0xffff: permissive, of directed SMPs */
	uint8_t sl, path_bits;
	uint32_t qpn, qkey; /* 0: QP0, the classes 0x01 and 0x81 whatever is given here */
	uint16_t pkey_index;
	uint16_t pkey;			/* from deliver(): of the packet, which the row at pkey_index lets in */
	bool has_grh;
	uint8_t gid_index, hop_limit, traffic_class;
	uint32_t flow_label;
	uint8_t gid[16];
};

/* Asynchronous events of a port of an HCA. */
enum fabric_event {
	FABRIC_EVENT_PORT_ACTIVE, FABRIC_EVENT_PORT_ERROR, FABRIC_EVENT_LID_CHANGE,
	FABRIC_EVENT_SM_CHANGE, FABRIC_EVENT_CLIENT_REREGISTER, FABRIC_EVENT_GID_CHANGE,
	FABRIC_EVENT_PKEY_CHANGE,
	FABRIC_EVENT_OTHER,		/* something else that fabric_port_info() says */
};

/* A packet on a cable, LRH to VCRC. */
struct fabric_packet {
	const uint8_t *data;
	size_t bytes;
	uint64_t now_us;
	uint32_t node, port;		/* it leaves */
	uint32_t peer_node, peer_port;	/* it arrives */
};

/* What becomes of a data packet at its end. */
enum fabric_arrival { FABRIC_TAKEN, FABRIC_NOBODY, FABRIC_FULL };

/*
 * Each may be NULL. All are called during a call of the fabric's, and may call its accessors; only
 * deliver() may also call fabric_send(): the MAD is then sent before the outer call returns.
 */
struct fabric_train;
struct fabric_ops {
	/*
	 * The MAD reached a port, and is not for its SMA: GMPs, SMInfo, traps, answers. A Get or
	 * Set that nobody is registered for has to be answered by fabric_refuse().
	 */
	void (*deliver)(void *context, uint32_t node, uint32_t port, const uint8_t mad[MAD_BYTES],
			const struct fabric_address *from);
	/* As so many calls of deliver() that answer nothing. False: it takes none of them so. */
	bool (*deliver_train)(void *context, uint32_t node, uint32_t port,
			      const struct fabric_train *train, const struct fabric_address *from);
	void (*event)(void *context, uint32_t node, uint32_t port, enum fabric_event event);
	/*
	 * A data packet, LRH to ICRC, is at a port that it is for. FULL: whoever has its QP or
	 * group has no room for it. It counts then as discarded by the switch before this port.
	 */
	enum fabric_arrival (*arrive)(void *context, uint32_t node, uint32_t port,
				      const uint8_t *packet, size_t bytes);
	/* Counters of ports are about to be read or set: fabric_count_path() what has not been. */
	void (*fold)(void *context);
	/* A packet is lost at a node, into which it came by this port. @mad: NULL if it is data. */
	void (*lost)(void *context, uint32_t node, uint32_t port, const uint8_t mad[MAD_BYTES],
		     const char *why);
	/* For a trace. CRCs are computed only where this is set. */
	void (*packet)(void *context, const struct fabric_packet *packet);
};

/* What is wrong with a file or a recipe. Further errors are counted, and not kept. */
struct fabric_errors {
	unsigned count;
	struct fabric_error {
		unsigned line;		/* from 1; 0: of the whole */
		char text[160]; /* "port 9: \"sw1\" has 8 ports; raise the number behind Switch" */
	} error[FABRIC_ERRORS_MAX];
};

/*
 * The subnet that the text describes (file.h has the syntax), its cables plugged, its links up in
 * Init. NULL: *errors says why, or there is no memory (errors->count is 0).
 */
struct fabric_files;
struct fabric *fabric_new_from_files(const char *text, const struct fabric_files *files,
				     struct fabric_errors *errors);
static inline struct fabric *fabric_new_from_file(const char *text, struct fabric_errors *errors)
{
	return fabric_new_from_files(text, NULL, errors);
}

/* For lines that include another file: its text, to be freed; NULL: it cannot be read. */
struct fabric_files {
	char *(*read)(void *context, const char *name);
	void *context;
};
void fabric_free(struct fabric *fabric);
void fabric_set_ops(struct fabric *fabric, const struct fabric_ops *ops, void *context);

/*
 * Sends a MAD from a port of a node, as a program there does by its umad device. All that follows
 * from it within the subnet happens before this returns. Returns 0, also when the MAD is lost on
 * its way, or EINVAL: no such node or port, or no P_Key or GID of this index.
 */
int fabric_send(struct fabric *fabric, uint32_t node, uint32_t port, const uint8_t mad[MAD_BYTES],
		const struct fabric_address *to, uint64_t now_us);
/* GMPs that differ in nothing that a node on their way looks at. */
struct fabric_train {
	const uint8_t *mad;		/* MAD_BYTES of one of them */
	unsigned count;
	const void *content;		/* for deliver_train() */
};
/*
 * Sends them as so many calls of fabric_send() would, at the price of one. False: nothing has happened, and
 * they have to go one by one: one of them may be lost, or looked at, on their way, or deliver_train()
 * takes none. Not from deliver().
 */
bool fabric_send_train(struct fabric *fabric, uint32_t node, uint32_t port,
		       const struct fabric_train *train, const struct fabric_address *to, uint64_t now_us);
/* Answers a request that deliver() was given with status 0x000c: this method or attribute is not
 * served. */
void fabric_refuse(struct fabric *fabric, uint32_t node, uint32_t port,
		   const uint8_t mad[MAD_BYTES], const struct fabric_address *from,
		   uint64_t now_us);

/*
 * Sends a data packet, LRH to ICRC, by a port as its HCA does; its VL is written. All that follows
 * from it happens before this returns; ops do not call it. Returns 0, also when it is lost on its
 * way, EINVAL: there is no such port, or it is no packet, or one to QP0 or QP1; EADDRNOTAVAIL: its
 * SLID is none of the port's. A copy of multicast for others at this port arrives first.
 */
int fabric_send_packet(struct fabric *fabric, uint32_t node, uint32_t port, uint8_t *data,
		       size_t bytes, uint64_t now_us);

/* A QP at a port refused a packet for its P_Key or Q_Key: counted there, and told by trap 257 or 258. */
struct fabric_violation {
	bool is_qkey;
	uint8_t sl;
	uint16_t source_lid, dest_lid;
	uint32_t key, source_qpn, dest_qpn;
	uint8_t source_gid[16], dest_gid[16];	/* zero: it had no GRH */
};
int fabric_violated(struct fabric *fabric, uint32_t node, uint32_t port,
		    const struct fabric_violation *violation, uint64_t now_us);

/*
 * Traps to repeat, leases that end: call fabric_timer() no later than at this time. FABRIC_NEVER:
 * nothing. Its first call is when what the file plants begins.
 */
uint64_t fabric_deadline_us(const struct fabric *fabric);
void fabric_timer(struct fabric *fabric, uint64_t now_us);

/* ---- what happens to the hardware; all end with traps and events ---- */

/* The bit IsSM of the capability mask: somebody has the port's issm device open. */
int fabric_set_is_sm(struct fabric *fabric, uint32_t node, uint32_t port, bool on, uint64_t now_us);
/* Pulls the cable out of a port, or plugs it in again where it was. ENOENT: the file has no cable
 * there. */
int fabric_set_cable(struct fabric *fabric, uint32_t node, uint32_t port, bool plugged,
		     uint64_t now_us);
/*
 * Of 100 MADs that come in by a port so many are lost, of any attribute (0) or of one. Which ones
 * is the same in each run. EINVAL: no such port.
 */
int fabric_set_errors(struct fabric *fabric, uint32_t node, uint32_t port, unsigned percent,
		      uint16_t attribute);
/*
 * Counters of a port, by number from 0 (counter.def): their name, value, and what they rise by in a
 * second by themselves. NULL: no such port, or no more counters.
 */
const char *fabric_counter(struct fabric *fabric, uint32_t node, uint32_t port, unsigned counter,
			   uint64_t now_us, uint64_t *value, uint64_t *per_second);
/* "SymbolErrorCounter", "symbol_error_counter": its number; else one that no port has. */
unsigned fabric_find_counter(const char *name);
/* 0; EINVAL: no such port or counter, or too large a rate; ENOMEM. */
#define FABRIC_RISE_MAX	UINT64_C(1000000000000)
int fabric_set_counter(struct fabric *fabric, uint32_t node, uint32_t port, unsigned counter,
		       uint64_t value, uint64_t now_us);
int fabric_set_rise(struct fabric *fabric, uint32_t node, uint32_t port, unsigned counter,
		    uint64_t per_second, uint64_t now_us);
/*
 * Something that a port has to send begins, or ends, to wait because its receiver has no room: meanwhile
 * PortXmitWait rises, in ticks of PortSamplesControl, which are microseconds. Where there is no port: nothing.
 */
void fabric_port_waits(struct fabric *fabric, uint32_t node, uint32_t port, bool begins, uint64_t now_us);
/*
 * The same of a wait that somebody else has measured, and that is over as far as it counts. Of all those at a port
 * no more counts than the time that has passed since it was called last.
 */
void fabric_port_waited(struct fabric *fabric, uint32_t node, uint32_t port, uint64_t us, uint64_t now_us);
/* A node without power answers nothing and its links are down; switched on again it has forgotten
 * all. */
int fabric_set_power(struct fabric *fabric, uint32_t node, bool on, uint64_t now_us);

/* ---- faults ---- */

/* A cable that flips bits, both ways, at this rate: 1e-12, at most 1e-3; 0: no longer. */
#define FABRIC_BIT_ERRORS_MAX	1e-3
int fabric_set_bit_errors(struct fabric *fabric, uint32_t node, uint32_t port, double rate,
			  uint64_t now_us);
/* A cable trains to so many lanes and this speed at best; 0 and NULL: as its ends can. */
int fabric_set_degraded(struct fabric *fabric, uint32_t node, uint32_t port, unsigned lanes,
			const char *speed_name, uint64_t now_us);
/* A port that does not leave Init. */
int fabric_set_stuck(struct fabric *fabric, uint32_t node, uint32_t port, bool stuck,
		     uint64_t now_us);
/*
 * What the subnet manager cannot change until it is released: a LID (0), a row of a switch's forwarding
 * table, a P_Key (FABRIC_RELEASE; ENOENT: it was not held).
 */
#define FABRIC_RELEASE	UINT32_MAX
int fabric_hold_lid(struct fabric *fabric, uint32_t node, uint32_t port, uint16_t lid);
int fabric_hold_route(struct fabric *fabric, uint32_t node, uint16_t lid, unsigned out);
int fabric_hold_pkey(struct fabric *fabric, uint32_t node, uint32_t port, unsigned index,
		     unsigned key);
/* NodeGUID, and those of the ports; another node may have it. */
int fabric_set_guid(struct fabric *fabric, uint32_t node, uint64_t guid);
/* A program did not take what deliver() gave it for want of room: VL15Dropped, QP1Dropped. */
void fabric_count_dropped(struct fabric *fabric, uint32_t node, uint32_t port, bool smp);

/* ---- looking at it ---- */

struct fabric_node_info {
	const char *id;			/* in quotes in the file; unique */
	const char *description;	/* NodeDescription, at most 64 bytes, of any kind */
	const char *given;		/* the same as the file has it: what a host is called */
	enum fabric_node_type type;
	unsigned ports;			/* without port 0 */
	uint64_t guid, system_guid;
	uint32_t vendor_id, revision;
	uint16_t device_id;
	bool powered;
};

/* Large: what verbs, umad and sysfs say of a port. */
struct fabric_port_info {
	uint64_t guid, gid_prefix;
	enum fabric_port_state state;
	enum fabric_phys_state phys_state;
	uint16_t lid, sm_lid;
	uint8_t lmc, sm_sl, subnet_timeout, init_type_reply;
	uint32_t cap_mask;		/* with IsSM, bit 1 */
	uint16_t cap_mask2;
	uint8_t width_active;		/* 1, 2 (4x), 4 (8x), 8 (12x), 16 (2x) */
	uint8_t speed_active; /* as ibv_port_attr: SDR 1, DDR 2, QDR 4, FDR 16, EDR 32, HDR 64, NDR
				 128 */
	uint16_t speed_active_ex;	/* the same, and XDR 256 */
	uint64_t rate_mbps;		/* of the data, as sysfs shows: 4x EDR 100000 */
	const char *speed_name;		/* "EDR", "" for SDR as sysfs has it */
	unsigned width_lanes;		/* 1, 2, 4, 8, 12 */
	uint8_t mtu_cap, mtu_active;	/* enum ibv_mtu: 5 is 4096 */
	uint8_t vl_cap;			/* code: 4 is VL0..VL7 */
	uint16_t mkey_violations, pkey_violations, qkey_violations;
	unsigned pkeys, gids;		/* sizes of the tables */
	uint32_t peer_node, peer_port;	/* the cable's other end; FABRIC_NONE: no cable */
	bool plugged;
	uint8_t hoq_life, vl_stall_count;	/* as set: of switches alone (18.2.5.4) */
};

uint32_t fabric_nodes(const struct fabric *fabric);
/* By its ID, else by the whole description that the file gives it, else by the first word of that.
 * FABRIC_NONE: no such node. */
uint32_t fabric_find_node(const struct fabric *fabric, const char *name);
/* The node and port that have this LID (and LMC). FABRIC_NONE: none. */
uint32_t fabric_find_lid(const struct fabric *fabric, uint16_t lid, uint32_t *port);
/* False: no such node, or port. Strings are the fabric's. */
bool fabric_node_info(const struct fabric *fabric, uint32_t node, struct fabric_node_info *info);
bool fabric_port_info(const struct fabric *fabric, uint32_t node, uint32_t port,
		      struct fabric_port_info *info);
/* 0 beyond the end of the table, too. */
uint16_t fabric_pkey(const struct fabric *fabric, uint32_t node, uint32_t port, unsigned index);
/* False: beyond the end. */
bool fabric_gid(const struct fabric *fabric, uint32_t node, uint32_t port, unsigned index,
		uint8_t gid[16]);
/*
 * IP addresses of a port of an HCA (address.c), v4-mapped, from index 0 on. False: beyond the end.
 */
bool fabric_ip(const struct fabric *fabric, uint32_t node, uint32_t port, unsigned index,
	       uint8_t ip[16]);
/*
 * In the partition @pkey, as that of an IPoIB child interface; 0: the port's first. 0; EINVAL: no such
 * port, or of a switch; EEXIST: a port has it; ENOMEM.
 */
int fabric_add_ip(struct fabric *fabric, uint32_t node, uint32_t port, const uint8_t ip[16],
		  uint16_t pkey);
/* The partition that the address was given in; 0. */
uint16_t fabric_ip_pkey(const struct fabric *fabric, const uint8_t ip[16]);
/* The node and port that have this address, or this GID. FABRIC_NONE: none. */
uint32_t fabric_find_ip(const struct fabric *fabric, const uint8_t ip[16], uint32_t *port);
uint32_t fabric_find_gid(const struct fabric *fabric, const uint8_t gid[16], uint32_t *port);
/* Linear forwarding table of a switch: the port for a LID, 255: unreachable or not a switch. */
uint8_t fabric_route(const struct fabric *fabric, uint32_t node, uint16_t lid);

/* A data packet that a port would send now. */
struct fabric_question {
	uint32_t node, port;		/* port 0: of a switch */
	uint16_t dlid, pkey;
	uint8_t sl;
	unsigned payload;		/* bytes */
};
/*
 * Lines about its way: each node with what decides there, the row of the table, and where and why
 * it ends. Nothing is sent or counted. A group's is a tree. Returns whether it arrives, anywhere.
 */
bool fabric_print_route(const struct fabric *fabric, const struct fabric_question *question,
			FILE *out);

struct fabric_statistics {
	uint64_t smps, gmps;		/* sent by programs, answers of SMAs, traps */
	uint64_t hops;
	uint64_t sma_requests, sma_answers, delivered, traps;
	uint64_t data_sent, data_delivered;	/* packets of programs; copies count */
	uint64_t data_counted;		/* that programs handed over by themselves */
	uint64_t lost_down, lost_route, lost_smi, lost_mkey, lost_port, lost_other, lost_error,
		lost_vl, lost_mtu, lost_pkey, lost_nobody, lost_full;
	size_t bytes;			/* of memory */
};
void fabric_statistics(const struct fabric *fabric, struct fabric_statistics *statistics);

/* ---- the image, for programs (image/image.h) ---- */

/* Its size; 0: it would be too large. */
size_t fabric_image_bytes(const struct fabric *fabric);
/* Begins one in zeroed memory of that size, aligned as a page: hosts are nobody's, slots neither. */
void fabric_image_begin(struct fabric *fabric, void *image);
/* Writes what is another since the last time, and moves the epoch; false: nothing is. */
bool fabric_image_update(struct fabric *fabric, void *image);
/* The node and port of a number in the image. False: there is none. */
bool fabric_image_port(const struct fabric *fabric, uint32_t number, uint32_t *node, uint32_t *port);
/*
 * Counts packets that a program has handed over by itself, over these cables, from a port of an
 * HCA on. False: that is no path, and nothing is counted.
 */
bool fabric_count_path(struct fabric *fabric, const uint32_t *exit, unsigned crossings,
		       bool multicast, uint64_t packets, uint64_t words);

/* ---- making and printing ---- */

/*
 * The text of a file for a recipe, "fattree leaves=4 spines=2 hosts=4" (make.h), to be freed. NULL:
 * *errors says why, or there is no memory.
 */
char *fabric_make(const char *recipe, struct fabric_errors *errors);
/* A description, which may have been set to anything: '?' for what breaks a line or a terminal. */
void fabric_print_text(const char *text, FILE *out);
/* The subnet as a file, to be freed; fabric_new_from_file() makes the same of it. NULL: no memory.
 */
char *fabric_print(const struct fabric *fabric);

/* What a subnet takes: the table that `verbatim fabric --make` prints. */
struct fabric_cost {
	unsigned switches, hosts, host_ports, switch_cables, host_cables, switch_ports,
		free_switch_ports;
	unsigned bisection; /* cables between halves, numbered as the file has the hosts */
	unsigned diameter;		/* switches on the longest shortest path between hosts */
	double mean_switches;		/* on paths between hosts */
	bool connected;
};
/* False: no memory. */
bool fabric_cost(const struct fabric *fabric, struct fabric_cost *cost);

#endif
