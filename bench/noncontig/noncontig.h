/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of the study share: a layout of blocks, a connection, a table of methods. The study
 * moves blocks that do not lie side by side from the client's memory to the server's, by each
 * method that verbs offer and by packing, and checks every byte. Public verbs and rdma_cm only: it
 * runs on any RDMA device.
 *
 *	source (client)			 target (server)
 *	[block] gap [block] gap ...	 [block] gap [block] gap ...
 *		staging: the blocks side by side, on either side where the method needs it
 */
#ifndef VERBATIM_BENCH_NONCONTIG_H
#define VERBATIM_BENCH_NONCONTIG_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define STAGING_PIECE	65536u		/* bytes that "pieces" packs before it sends them */
#define SGE_MAX		32u
#define TIMEOUT_S	30

/* Bytes: @count blocks of @block, the beginnings @stride apart. */
struct layout {
	uint32_t block, count, stride;
};

static inline size_t layout_bytes(const struct layout *layout)
{
	return (size_t)layout->block * layout->count;
}

static inline size_t layout_span(const struct layout *layout)
{
	return (size_t)layout->stride * layout->count;
}

/* layout.c. Bytes are a function of seed and place, so that both sides know them. */
void layout_fill(uint8_t *memory, const struct layout *layout, uint32_t seed);
void layout_erase(uint8_t *memory, const struct layout *layout);
/* Blocks as filled with the seed, and gaps still as erased? Else *where is the first wrong offset. */
bool layout_verify(const uint8_t *memory, const struct layout *layout, uint32_t seed, size_t *where);
/* Blocks @first .. @first + @count side by side, and back. */
void layout_pack(uint8_t *packed, const uint8_t *memory, const struct layout *layout,
		 uint32_t first, uint32_t count);
void layout_unpack(uint8_t *memory, const uint8_t *packed, const struct layout *layout,
		   uint32_t first, uint32_t count);

struct region {
	uint8_t *memory;
	struct ibv_mr *mr;
	size_t bytes;
};

/* The two control messages. Both sides are this program, of one byte order. */
struct order {			/* client: the next transfer; METHOD_END ends the study */
	uint32_t method, seed;
	uint32_t sge;			/* elements in a list of the client's */
	struct layout layout;
	uint32_t source_rkey, staging_rkey;
	uint64_t source_address, staging_address;
};

struct answer {			/* server: ready for it; done; and what verification found */
	uint32_t is_refused;	/* more requests than its queue holds */
	uint32_t is_wrong;
	uint64_t wrong_offset;
	uint32_t target_rkey, staging_rkey;
	uint64_t target_address, staging_address;
};

#define HELLO_MAGIC	0x4e434f4eu	/* "NCON" */
#define BYTES_MAX	(1u << 30)

/* Private data of the connection request, of the client's byte order. */
struct hello {
	uint32_t magic, sge;
	uint64_t bytes;
};

/* Receive slots of control messages: three answers on their way at once, or one order. */
enum { SLOT_READY, SLOT_DONE, SLOT_VERDICT, SLOTS, SLOT_ORDER = SLOT_READY, SLOT_BYTES = 128 };

struct connection {
	struct rdma_event_channel *channel;
	struct rdma_cm_id *listener, *id;
	struct ibv_cq *cq;
	unsigned depth;			/* requests that each queue holds */
	unsigned send_sge, recv_sge, read_sge;
	struct region blocks, staging, control;	/* control: SLOTS to receive, SLOTS to send */
	struct hello hello;		/* the client's */
	unsigned receives;		/* completed, and not yet asked for */
	unsigned outstanding;		/* sends without a completion */
};

/* connection.c. 0, or -1 after a line on stderr. */
/* *port: where it listens; 0 lets the kernel choose. Serves the first client. */
int connection_listen(struct connection *c, const char *address, uint16_t *port);
/* The client says how many bytes; a request that is not this program's is rejected. */
int connection_accept(struct connection *c);
/* @bytes: of the largest layout, gaps included; @sge: at most so many elements in a list. */
int connection_connect(struct connection *c, const char *address, uint16_t port, size_t bytes,
		       unsigned sge);
void connection_close(struct connection *c);
/* Every request is signaled; waits while the send queue is full. */
int connection_post(struct connection *c, struct ibv_send_wr *wr);
int connection_post_receive(struct connection *c, struct ibv_sge *sge, int count);
/* Until all requests have completed; until @count receives have. */
int connection_drain(struct connection *c);
int connection_receive(struct connection *c, unsigned count);
/* Control messages, at most SLOT_BYTES: a receive for one, the message, and sending one. */
int connection_expect(struct connection *c, unsigned slot);
void connection_message(const struct connection *c, unsigned slot, void *message, size_t bytes);
int connection_send(struct connection *c, unsigned slot, const void *message, size_t bytes);

/*
 * methods.c: one way to move a layout, as the client and as the server. The client's time is from
 * send() to the server's answer that receive() has returned: all data is in the blocks then.
 */
struct method {
	const char *name, *text;
	/* Client: all requests posted, not necessarily completed. */
	int (*send)(struct connection *c, const struct order *order, const struct answer *ready);
	/* Server, before the client is told to begin: receives. */
	int (*prepare)(struct connection *c, const struct order *order);
	int (*receive)(struct connection *c, const struct order *order);
	/* Receives that prepare() posts. */
	unsigned (*receives)(const struct connection *c, const struct layout *layout);
};

enum { METHOD_COUNT = 7, METHOD_END = 255 };
extern const struct method methods[METHOD_COUNT];

/* report.c */
struct result {
	struct layout layout;
	double median_us[METHOD_COUNT], least_us[METHOD_COUNT];	/* 0: not measured */
	double low_us[METHOD_COUNT], high_us[METHOD_COUNT];	/* half of the transfers took between them */
};

struct report {
	struct result *results;
	unsigned count, methods;	/* methods: bit N stands for method N */
	double notice_us;		/* a message each way and no data: part of all times */
	bool bandwidth;			/* GB/s instead of us */
	unsigned iterations;
	double others;			/* the part of the processors that other programs had; < 0: not known */
	FILE *csv, *plot;		/* open before it is measured; or NULL */
	const char *csv_path, *plot_path;
};

void report_table(const struct report *report);
/* 0, or -1 after a line on stderr. The files are closed. */
int report_csv(const struct report *report);
int report_plot(const struct report *report);

#endif
