/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The subnet as data, for the files of this folder. A port is what its PortInfo says, kept as it
 * goes on the wire; tables that a subnet manager may fill (forwarding, P_Keys, SL to VL,
 * arbitration) take memory when it does.
 */
#ifndef VERBATIM_FABRIC_INTERNAL_H
#define VERBATIM_FABRIC_INTERNAL_H

#include "fabric/fabric.h"
#include "fabric/port_state.h"
#include "wire/ib_packet.h"
#include "wire/packet.h"
#include "wire/record.h"
#include "wire/smp.h"

#define PORTS_MAX		254u
#define LFT_BLOCK		64u
#define MFT_BLOCK		32u	/* MLIDs in a block */
#define MFT_PORTS		16u	/* ports in a mask of it */
#define PKEY_BLOCK		32u
#define VLARB_ENTRIES		64u	/* of each priority */
#define DESCRIPTION_BYTES	64u

/* IBTA 14.2.5.6, CapabilityMask and CapabilityMask2. */
#define CAP_IS_SM		0x00000002u
#define CAP_TRAP		0x00000008u
#define CAP_SL_MAP		0x00000040u
#define CAP_EXTENDED_SPEEDS	0x00004000u
#define CAP_CA 0x0641c848u /* traps, SL map, CapMask2, CM, client reregister ...; no automatic path migration */
#define CAP_SWITCH		0x4440c848u	/* traps, SL map, CapMask2, MulticastFDBTop ... */
#define CAP2_SET_DESCRIPTION	0x0001u
#define CAP2_WIDTH_2X		0x0010u
#define CAP2_HDR		0x0020u
#define CAP2_NDR		0x0400u
#define CAP2_EXTENDED_SPEEDS_2	0x0800u
#define CAP2_XDR		0x1000u

#define WIDTH_1X		1u
#define WIDTH_4X		2u
#define WIDTH_8X		4u
#define WIDTH_12X		8u
#define WIDTH_2X		16u
#define WIDTHS_ALL		31u

enum trap_kind {
	TRAP_LINK_STATE, TRAP_CAPABILITY, TRAP_MKEY, TRAP_PKEY, TRAP_QKEY, TRAP_SWITCH_PKEY,
	TRAP_KINDS
};

/* A notice on its way to the subnet manager, repeated until it is repressed. */
struct trap {
	uint64_t tid;
	uint64_t next_us;		/* FABRIC_NEVER: nothing to do */
	uint64_t last_us;		/* when one of this kind was sent; 0: never */
	uint8_t notice[SMP_DATA_BYTES];
	uint8_t sent;			/* times, of this notice */
	bool again;			/* it happened again since: another notice follows */
};

enum port_counter {
#define COUNTER(counter, field, bits, select, extended) COUNTER_##counter,
#define EXTENDED(counter, field, extended) COUNTER_##counter,
#define DETAIL(counter, field, attribute, bit) COUNTER_##counter,
#include "fabric/counter.def"
#undef COUNTER
#undef EXTENDED
#undef DETAIL
	COUNTERS
};

/* A counter that rises by itself: what it has risen by until then is in it. */
struct counter_rise {
	uint64_t since_us, per_second;
};

/* Large: all that a subnet manager, an operator and traffic do to a port; each row is of one of them. */
struct fabric_port {
	struct ib_port_info info;	/* what is in force */
	uint64_t guid;
	uint64_t lease_end_us;		/* of the M_Key; 0: not running */
	uint64_t *guids;		/* alias GUIDs, entries 1 to 7; NULL: none */
	uint16_t *pkeys;		/* NULL: the first is 0xffff, others 0 */
	uint8_t (*sl_to_vl)[8]; /* by port of entry (a switch), or one; NULL: as sl_to_vl_default()
				 */
	uint8_t *vlarb;		/* low, then high priority: VL, weight; NULL: none was set */
	struct trap *trap;	/* [TRAP_KINDS], of ports that send any; NULL: none so far */
	uint64_t counter[COUNTERS];	/* but for what has risen since in them */
	struct counter_rise *rise;	/* [COUNTERS]; NULL: nothing does */
	unsigned waits;			/* for room at its receiver: so many of what it has to send */
	uint64_t waits_since_us;	/* PortXmitWait has what was before */
	uint64_t waited_us, waited_left_us;	/* fabric_port_waited(): the last time; what may count of then */
	struct bit_errors *bit_errors;	/* of what comes in; NULL: a sound cable */
	uint32_t peer;			/* node; FABRIC_NONE: no cable */
	uint8_t peer_port, speed_max;	/* enum link_speed */
	uint8_t vl_cap;			/* code */
	uint8_t error_percent;		/* of what comes in */
	uint16_t error_attribute;	/* 0: whatever it is */
	uint8_t cable_widths;		/* that the cable has lanes for; 0: all */
	uint8_t cable_speed;		/* its best, if it is degraded to one */
	bool cable_degraded;
	bool stuck;			/* does not leave Init */
	uint16_t held_lid;		/* whatever the manager says; 0: what it says */
	bool plugged;
	bool rated;			/* file.c: a line gave this end its speed and width */
	enum port_state state;
};

struct fabric_node {
	char *id, *description;		/* the description may be set; given: as the file has it */
	char *given;
	enum fabric_node_type type;
	unsigned ports;			/* without port 0 */
	uint64_t guid, system_guid;
	uint32_t vendor_id, revision;
	uint16_t device_id, pkeys;	/* entries of the P_Key table of an end port */
	uint32_t ca_number;		/* of an HCA, by the order of the file from 1; else 0 */
	bool powered;
	bool dirty;			/* the image has not what is in force */
	struct fabric_port *port;	/* [ports + 1] */
	struct samples *samples;	/* of one of the ports; NULL: never asked for */
	struct hold *hold;		/* NULL: nothing is held */
	/* of a switch */
	struct ib_switch_info switch_info;
	uint8_t **lft;			/* blocks of LFT_BLOCK; NULL: all 255 */
	uint16_t **mft; /* [block * positions + position], of MFT_BLOCK masks; NULL: none */
	unsigned positions;
};

/* A packet on its way: a MAD, or data, whose bytes are its sender's and there until it has ended. */
struct flight {
	uint32_t node, port; /* where it is; port: of entry, or of a program that sends */
	bool from_program, from_sma;	/* it starts here */
	uint8_t sl, vl;
	uint16_t slid, dlid, pkey;
	uint32_t source_qpn, dest_qpn, qkey;
	bool has_grh;
	struct ib_grh grh;		/* of a MAD, as the QPs and the Q_Key; data has its own */
	unsigned hops;
	uint8_t *data;			/* LRH to ICRC; NULL: a MAD */
	unsigned bytes, payload;	/* of data: all, and what the MTU limits */
	uint8_t mad[MAD_BYTES];
};

/* An IP address that the file gives to a port of an HCA. */
struct fabric_ip {
	uint32_t node;
	uint16_t pkey;			/* of its partition; 0: the default one */
	uint8_t port, ip[16];
};

struct fabric {
	struct fabric_node *node;
	uint32_t nodes;
	struct fabric_ops ops;
	void *context;
	uint64_t now_us;
	uint64_t next_tid;
	uint64_t deadline_us;		/* no later than the next trap or lease */
	uint32_t psn;
	uint32_t error_random;		/* state of a generator: which MADs are lost by errors */
	unsigned timed;			/* ports with bit errors, nodes with samples */
	/* MADs that wait, a ring that grows; `busy`: somebody is at work on it */
	struct flight *queue;
	size_t queue_room, queue_head, queue_count;
	bool busy;
	struct fabric_statistics statistics;
	struct image_place *place;	/* image.c: by node; NULL: there is no image */
	bool dirty;			/* some node is */
	uint32_t *by_name;		/* hash of IDs and descriptions: node + 1 */
	size_t names_room;
	struct fabric_ip *ip;
	unsigned ips;
};

/* Where a node is in the image. */
struct image_place {
	uint32_t first_port;
	uint64_t table;			/* of its ports */
};

/* Something that packets meet at this node is another. */
static inline void fabric_changed(struct fabric *fabric, uint32_t node)
{
	fabric->node[node].dirty = fabric->dirty = true;
}

/* Time does not go back. */
static inline void fabric_pass(struct fabric *fabric, uint64_t now_us)
{
	if (now_us > fabric->now_us)
		fabric->now_us = now_us;
}

/* Something is due then. */
static inline void fabric_due(struct fabric *fabric, uint64_t due_us)
{
	if (due_us < fabric->deadline_us)
		fabric->deadline_us = due_us;
}

/* ---- model.c ---- */

enum link_speed {
	SPEED_SDR,
	SPEED_DDR,
	SPEED_QDR,
	SPEED_FDR,
	SPEED_EDR,
	SPEED_HDR,
	SPEED_NDR,
	SPEED_XDR,
	SPEEDS
};

struct speed {
	const char *name;
	unsigned lane_mbps;		/* as sysfs counts */
	uint8_t legacy, extended, extended_2;	/* bits of PortInfo's three fields */
	uint16_t verbs;			/* ibv_port_attr */
};
extern const struct speed speeds[SPEEDS];

struct switch_options {
	unsigned lft, mft, vls, pkeys;
	bool esp0, sl_map_optimized;
};

static inline bool node_is_switch(const struct fabric_node *node)
{
	return node->type == FABRIC_SWITCH;
}

/* The port whose PortInfo an SMP or a program means by a port of entry: a switch has one for
 * itself. */
static inline unsigned node_own_port(const struct fabric_node *node, unsigned port)
{
	return node_is_switch(node) ? 0 : port;
}

struct fabric_node *fabric_node_at(const struct fabric *fabric, uint32_t node);
/* NULL: no such port. */
struct fabric_port *fabric_port_at(const struct fabric *fabric, uint32_t node, uint32_t port);
/* Everything a reset or the lack of power makes a port forget. */
void port_reset(struct fabric_node *node, unsigned port);
/* Offers speeds up to this one and these widths; what is enabled follows. */
void port_offer(struct fabric_node *node, unsigned port, enum link_speed speed, uint8_t widths);
/* All that was said to a node as a whole: routes, the description. */
void node_forget(struct fabric_node *node);
void node_free(struct fabric_node *node);
unsigned port_lanes(uint8_t width);
/* Of the data, all lanes together. */
uint64_t port_mbps(const struct ib_port_info *info);
bool port_has_lid(const struct fabric_port *port, uint16_t lid);
uint16_t port_pkey(const struct fabric_node *node, const struct fabric_port *port, unsigned index);
unsigned port_pkeys(const struct fabric_node *node, unsigned port);
/* The table that a Set fills. False: no memory. */
bool port_pkeys_make(struct fabric_node *node, unsigned port);
uint8_t port_sl_to_vl(const struct fabric_port *port, unsigned in, uint8_t sl);
unsigned port_vls(const struct fabric_port *port);	/* operational ones, without VL15 */
unsigned port_mtu(const struct fabric_port *port);	/* NeighborMTU, in bytes */
/* The row of a port's table that lets a P_Key through; the size of the table: none does. */
unsigned port_find_pkey(const struct fabric_node *node, unsigned port, uint16_t pkey);
/* The same, of any member of the partition. */
unsigned port_find_partition(const struct fabric_node *node, unsigned port, uint16_t pkey);
uint8_t node_lft(const struct fabric_node *node, uint16_t lid);
/* The ports to which a switch copies packets to an MLID; false: it has none. @mask: a bit a port.
 */
bool node_mft(const struct fabric_node *node, uint16_t mlid, uint64_t mask[4]);
void fabric_event_at(struct fabric *fabric, uint32_t node, unsigned port, enum fabric_event event);

/* ---- port_state.c, link.c: links come up and go down ---- */

/* False: refused. @by_sm: no PortStateChange and no trap on this node. */
bool link_event(struct fabric *fabric, uint32_t node, unsigned port, enum port_event event,
		bool by_sm);
/* Trains the link if both ends poll and nothing is in the way. */
void link_try(struct fabric *fabric, uint32_t node, unsigned port);
/* A port with bit errors: its link falls, or trains again; or when it will. */
void link_errors_due(struct fabric *fabric, uint32_t node, unsigned port);

/* ---- forward.c ---- */

enum verdict { VERDICT_DELIVER, VERDICT_OUT, VERDICT_COPY, VERDICT_DROP };
enum discard {
	DISCARD_NONE,
	DISCARD_DOWN,
	DISCARD_ROUTE,
	DISCARD_SMI,
	DISCARD_MKEY,
	DISCARD_PORT,
	DISCARD_OTHER,
	DISCARD_ERROR,
	DISCARD_VL,
	DISCARD_MTU,
	DISCARD_PKEY,
	DISCARD_NOBODY,
	DISCARD_FULL,
	DISCARDS
};

struct decision {
	enum verdict verdict;
	unsigned port;			/* OUT: to which; DELIVER: by which */
	uint64_t mask[4];		/* COPY: to which; and deliver, too, if bit 0 is set */
	enum discard discard;
};

/* What a node does with a packet; the packet's own path and LIDs may be changed. */
struct decision forward(const struct fabric_node *node, struct flight *flight);
/* Whether a node sends a packet by a port, on *vl; and whether the port at the other end takes it. */
enum discard forward_exit(const struct fabric_node *node, const struct flight *flight, unsigned out,
			  uint8_t *vl);
enum discard forward_entry(const struct fabric_node *node, const struct flight *flight,
			   unsigned in);
/* Packets over a cable. */
void port_count_crossing(struct fabric_port *from, struct fabric_port *to, bool multicast,
			 uint64_t packets, uint64_t words);
/* Words of LRH to ICRC; of a MAD: LRH, GRH, BTH, DETH, MAD. */
unsigned flight_words(const struct flight *flight);
/* What a program there sends. 0; EINVAL: there is no such port, P_Key or GID. (fabric.c) */
int flight_begin(const struct fabric *fabric, uint32_t node, uint32_t port, const uint8_t mad[MAD_BYTES],
		 const struct fabric_address *to, struct flight *flight);
/* For a program at its end: where a MAD came from; or why it is not for it. */
enum discard flight_source(const struct fabric *fabric, const struct flight *flight, unsigned port,
			   struct fabric_address *from);
void flight_start(struct fabric *fabric, const struct flight *flight);
/* Until nothing is on its way. */
void flights_run(struct fabric *fabric);
/* Counts it, and says so. */
void flight_lost(struct fabric *fabric, const struct flight *flight, enum discard discard);

/* ---- smi.c: the way of a directed SMP at one node (14.2.2) ---- */

enum smi_step {
	SMI_DROP,
	SMI_LOCAL,		/* for the SMA or a program here */
	SMI_OUT,		/* by *port */
	SMI_BY_LID,		/* the directed part is over: on to *lid */
};
/* How the SMP came to be at the node. */
enum smi_origin {
	SMI_BEGINS,	 /* a program or the SMA here sends it */
	SMI_CAME_BY_LID, /* to this node's LID: the directed part begins here, or lies behind it */
	SMI_PASSES,	 /* by a link, on the directed part */
};
/* @port: of entry, then of exit. */
enum smi_step smi_route(const struct fabric_node *node, enum smi_origin origin, unsigned *port,
			uint8_t mad[MAD_BYTES], uint16_t *lid);

/* ---- sma.c ---- */

/* True: the flight is for the SMA, not for a program. Then *answer says whether flight->mad is now
 * an answer. */
bool sma_receive(struct fabric *fabric, struct flight *flight, bool *answer);

/* ---- pma.c ---- */

/* True: it was for the PMA; *answer is to be sent. */
bool pma_receive(struct fabric *fabric, const struct flight *flight, unsigned port,
		 struct flight *answer);


/* ---- counter.c ---- */

/* The attributes that have counters. */
enum counter_attribute { IN_COUNTERS, IN_EXTENDED, IN_RCV_ERROR, IN_XMIT_DISCARD, IN_ATTRIBUTES };
/* 1 + the bit that names it there; 0: it is not there. */
uint8_t port_counter_bit(enum port_counter counter, enum counter_attribute in);
const char *port_counter_name(unsigned counter);
/* What was counted elsewhere. */
void port_counters_fold(struct fabric *fabric);
/* With what has risen in it until now. */
uint64_t port_counter_value(struct fabric *fabric, struct fabric_port *port, enum port_counter counter);

/* ---- samples.c: counters within an interval (16.1.3.2) ---- */

/* PortSamplesControl in place; returns the status. */
uint16_t samples_control(struct fabric *fabric, struct fabric_node *node, unsigned port, bool set,
			 uint8_t *data);
void samples_result(struct fabric *fabric, struct fabric_node *node, uint8_t *data);
/* What has become due; or when something does. Of a node that has samples. */
void samples_due(struct fabric *fabric, struct fabric_node *node);

/* ---- hold.c: faults that hold against the subnet manager ---- */

/* After a Set of a forwarding table, of a P_Key table. */
void hold_routes(struct fabric_node *node);
void hold_pkeys(struct fabric_node *node, unsigned port);

/* ---- bit_errors.c: cables that flip bits ---- */

/* Counts what has happened until now; call it before the link changes. */
void bit_errors_pass(struct fabric *fabric, struct fabric_port *port);
/* The link of this end is up. */
void bit_errors_link_up(struct fabric *fabric, struct fabric_port *port);
/* Is it time for the link to fall? Then it rests before it trains again. */
bool bit_errors_link_falls(struct fabric *fabric, struct fabric_port *port);
/* False: it rests. */
bool bit_errors_may_train(struct fabric *fabric, const struct fabric_port *port);
/* Is a packet of so many bits, which comes in there, hit? */
bool bit_errors_hit(struct fabric *fabric, const struct fabric_port *port, unsigned bits);
/* Of one end of a cable. 0 or ENOMEM. */
int bit_errors_set(struct fabric *fabric, struct fabric_port *port, double rate);
void bit_errors_start(struct fabric *fabric, struct fabric_port *port);
double bit_errors_rate(const struct fabric_port *port);

/* ---- trap.c ---- */

/* Trap 259 of a switch: at a port that enforces partitions. */
void trap_switch_pkey(struct fabric *fabric, uint32_t node, unsigned port,
		      const struct fabric_violation *violation);

void trap_raise(struct fabric *fabric, uint32_t node, unsigned port, enum trap_kind kind,
		const uint8_t notice[SMP_DATA_BYTES]);
void trap_link_state(struct fabric *fabric, uint32_t node);
void trap_capability(struct fabric *fabric, uint32_t node, unsigned port, uint16_t change_flags);
void trap_mkey(struct fabric *fabric, uint32_t node, unsigned port, const struct flight *flight);
void trap_repressed(struct fabric *fabric, uint32_t node, unsigned port, uint64_t tid);
void traps_due(struct fabric *fabric);
/* The lease of a subnet manager that is gone has ended: everybody may read again, and take over. */
void mkey_expire(struct fabric *fabric, struct fabric_port *port);

/* ---- fabric.c ---- */

/* For fabric_find_node(), when all nodes are there. False: no memory. */
bool fabric_index_names(struct fabric *fabric);

/* ---- file.c ---- */

void fabric_error_add(struct fabric_errors *errors, unsigned line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

#endif
