/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What `verbatim ladder` makes of captures: lifelines (lanes), packets between them and events on
 * them. A packet that two processes recorded, one leaving and one arriving, is one packet here.
 *
 *	capture.c  files -> records
 *	frame.c    record -> packet
 *	ladder_model.c   records -> packets, events; retransmissions, what an ACK acknowledges
 *	ladder_pair.c    what one process sent and another one received is one
 *	ladder_memory.c  operations through memory, which have no packets
 *	ladder_problem.c losses; what went wrong, each cause once
 *	ladder_lanes.c   which queue pair each end is
 *	ladder_order.c   moments by time, what is folded, lanes from left to right
 *	ladder_page.c    all of it, and the tables that explain it, into the page
 *	ladder_svg.c     a picture of it, for documents
 */
#ifndef VERBATIM_TOOLS_LADDER_H
#define VERBATIM_TOOLS_LADDER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "capture.h"
#include "frame.h"

#define LADDER_QP_UNKNOWN	0xfffffffeu	/* a queue pair whose number no packet told */
#define LADDER_NO_QP		0xffffffffu	/* the process itself */
#define LADDER_NONE		UINT32_MAX	/* no such packet, lane */
#define LADDER_NO_PSN		UINT32_MAX	/* of an operation through memory */
#define LADDER_PACKETS_MAX	1000000u

enum ladder_flag {
	LADDER_LOST		= 1 << 0,	/* sent, never received by a process that was recorded, too */
	LADDER_DROPPED		= 1 << 1,	/* received and dropped: the comment says why */
	LADDER_RETRANSMISSION	= 1 << 2,
	LADDER_DIRECT		= 1 << 3,	/* no packet: a store, load or copy in memory */
	LADDER_RING		= 1 << 4,	/* in a ring in shared memory */
	LADDER_DUPLICATE	= 1 << 5,	/* received once more, or by another member of a group */
	LADDER_GUESSED		= 1 << 6,	/* the source QP follows from answers, no record names it */
	LADDER_INSTANT		= 1 << 7,	/* captured in between: one time, not two */
	LADDER_MESSAGE		= 1 << 8,	/* no packet: a message in a ring */
	LADDER_FRAGMENT		= 1 << 11,	/* the first fragment of it, by IP */
	LADDER_LATE		= 1 << 10,	/* an answer that nobody waits for any more: its QP is gone */
	LADDER_PLANTED		= 1 << 9,	/* the sender lost or broke it on purpose (VERBATIM_FAULT) */
};

enum ladder_kind {
	LADDER_SEND, LADDER_WRITE, LADDER_READ, LADDER_ATOMIC, LADDER_FLUSH, LADDER_ACK, LADDER_NAK, LADDER_RNR,
	LADDER_CM, LADDER_CNP, LADDER_KINDS,
};

/* Large: a packet, its two records and what was found out about it. */
struct ladder_packet {
	const struct capture_record *sent, *received;	/* either may be NULL */
	uint64_t time_ns;			/* the earlier of both */
	uint32_t bth;				/* offset in the record that is shown */
	uint16_t header_bytes;
	uint8_t opcode, syndrome;
	uint8_t form;				/* enum frame_form */
	int8_t cm;				/* enum cm_message_kind, or -1 */
	uint8_t kind;				/* enum ladder_kind */
	uint16_t flags;
	uint32_t psn, dest_qpn, source_qpn;	/* source_qpn: LADDER_QP_UNKNOWN until known */
	uint32_t payload_bytes;
	uint8_t source[16], destination[16];
	uint32_t flow;				/* index of what goes from one address to one QP */
	uint32_t from, to;			/* lanes */
	uint32_t acked_by;			/* packet, or LADDER_NONE */
	/* Of an ACK: how many packets it answers for, repetitions apart, and the first. */
	uint32_t acks, acks_first;
	uint32_t operation;			/* of those through memory, or LADDER_NONE: a packet */
};

/*
 * A request that went through memory: its packets are none that were sent, nor has it PSNs. What the header
 * extensions would tell is true: addresses, keys, operands, immediate data.
 */
struct ladder_operation {
	/* As behind the BTH of a single packet; of an atomic, what memory held, too. */
	uint8_t extension[PACKET_HEADER_MAX];
	uint8_t bytes;
	uint32_t message;			/* its number, or LADDER_NONE */
	uint64_t taken_ns;			/* when the sender saw that it was consumed; 0: not */
};

/* What went wrong, once for each cause; what followed from it has its flags alone. */
enum ladder_cause {
	LADDER_CAUSE_LOST,		/* a packet got lost */
	LADDER_CAUSE_DROPPED,		/* a packet arrived and was dropped */
	LADDER_CAUSE_RNR,		/* no receive was posted */
	LADDER_CAUSE_NAK,		/* a request was refused */
	LADDER_CAUSE_AGAIN,		/* sent again: nothing tells why */
	LADDER_CAUSES
};

struct ladder_problem {
	uint64_t time_ns;
	uint32_t item;			/* a packet; from ladder.packets on an event */
	uint8_t cause;			/* enum ladder_cause */
	uint32_t times;			/* 1, and what followed from it */
};

enum ladder_event_kind {
	LADDER_EVENT_CALL, LADDER_EVENT_COMPLETION, LADDER_EVENT_STATE, LADDER_EVENT_OTHER,
	LADDER_EVENT_DROP, LADDER_EVENT_FAULT, LADDER_EVENT_LOST,	/* shown as others */
	LADDER_EVENT_MEMORY,		/* not kept: through memory, or consumed there */
};

struct ladder_event {
	uint64_t time_ns;
	unsigned process;
	uint32_t qpn, lane;
	const char *json;			/* not terminated, not checked: of the file */
	uint32_t json_bytes;
	uint8_t kind;				/* enum ladder_event_kind */
	bool failed;				/* the program was told of a failure; not of what was flushed */
	int64_t latency_ns;			/* of a completion: since its request was posted; -1: not known */
};

struct ladder_lane {
	int process;				/* -1: an address of a capture in between */
	uint32_t qpn;
	bool has_address;
	uint8_t address[16];
	uint32_t peer_qpn;			/* of a lane of LADDER_QP_UNKNOWN: whom it sends to */
	/* Of its send queue: signaled requests posted, those under way then (their sum, and at most). */
	uint64_t posts, depths;
	unsigned depth_most;
};

struct ladder {
	struct capture *capture;
	struct ladder_packet *packet;
	unsigned packets, packet_room;
	struct ladder_event *event;
	unsigned events, event_room;
	struct ladder_lane *lane;
	unsigned lanes, lane_room;
	char **process;				/* names */
	unsigned processes, process_room;
	int *source_process;			/* by source of the capture; -1: none */
	unsigned left_out, cut, unknown;	/* records that are no packet of RDMA; cut; of no known opcode */
	unsigned rests;				/* later fragments */
	unsigned unread;			/* of a link type that is not read: the latest is */
	uint16_t unread_linktype;
	struct ladder_operation *operation;
	unsigned operations, operation_room;
	struct ladder_problem *problem;		/* by time */
	unsigned problems, problem_room;
	uint64_t missing;			/* records that a tracer could not keep */
	unsigned flows;
	bool too_many;				/* more than LADDER_PACKETS_MAX */
};

/* 0 or ENOMEM. @capture is sorted, and kept as long as *ladder is. */
int ladder_make(struct ladder *ladder, struct capture *capture, char *const *paths);
void ladder_free(struct ladder *ladder);
/* The second half of ladder_make(): sets from and to of packets, lane of events. */
int ladder_assign_lanes(struct ladder *ladder);
/* The last part: losses, problems. */
int ladder_find_problems(struct ladder *ladder);
/* "lost", "dropped" ...: as they are counted for the reader. */
const char *ladder_cause_name(enum ladder_cause cause);

/* Sets latency_ns of all events. 0 or ENOMEM. */
int ladder_find_latencies(struct ladder *ladder);

/* How a page shows it. */
struct ladder_order {
	uint32_t *moment;			/* item * 2, and 1 more: received; by time */
	uint32_t moments;
	uint8_t *folded;			/* of each event: at first it is not shown */
	uint32_t *lane;				/* from left to right */
	uint64_t median_ns;			/* between moments that are not folded */
};

/* 0 or ENOMEM. */
int ladder_order_make(const struct ladder *ladder, struct ladder_order *order);
void ladder_order_free(struct ladder_order *order);
/* When it was. */
uint64_t ladder_moment_ns(const struct ladder *ladder, uint32_t moment);

/* Value of "key" in a flat JSON object, without quotes: false when it is not there or does not fit. */
bool ladder_json_value(const char *json, size_t bytes, const char *key, char *value, size_t size);
/* The word behind "key " in a comment "key value; key value"; NULL: not there. */
const char *ladder_comment_value(const struct capture_record *record, const char *key, size_t *bytes);
bool ladder_comment_is(const struct capture_record *record, const char *key, const char *value);
/* Up to 24 bits, decimal or 0x...; @otherwise: it is none. */
uint32_t ladder_number(const char *text, size_t bytes, uint32_t otherwise);

struct ladder_page {
	const char *title;
	const char *about;			/* paragraphs, an empty line between; NULL: none */
	const char *home;			/* page to go back to; NULL: none */
	bool plain;				/* numbers and texts as JSON, however many */
	char *const *paths;			/* names of the files; NULL: those that are read */
	/* Called with what the page was made of; NULL: not. */
	void (*made)(const struct ladder *ladder, void *context);
	void *context;
};
/* Both: 0 or ENOMEM; errors of the stream are the caller's to look at (ferror). */
int ladder_page_write(const struct ladder *ladder, const struct ladder_page *page, FILE *out);
int ladder_svg_write(const struct ladder *ladder, const struct ladder_page *page, FILE *out);


/* ladder.c: exit status; errors are said on stderr. */
int ladder_make_page(char *const *paths, int count, struct ladder_page *page, const char *output);
/* ladder_demo.c: the stories of @names (@count 0: all), into @directory; exit status. */
int ladder_demo(const char *directory, char *const *names, int count);

#endif
