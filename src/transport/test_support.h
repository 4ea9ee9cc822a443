/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * For the unit tests of this folder: a station is a process with one QP, its memory and its
 * tables. Packets are handed to it one by one and what it sends is looked at; or two stations
 * are wired together and talk until both are silent.
 *
 * The station's QP is 0x004011, its peer's 0x008022; PSNs start at 0x000100 (ours) and 0x000500
 * (the peer's). The station's memory is registered whole, with all rights.
 */
#ifndef VERBATIM_TRANSPORT_TEST_SUPPORT_H
#define VERBATIM_TRANSPORT_TEST_SUPPORT_H

#include "object/placement.h"
#include "object/test_support.h"
#include "transport/recovery.h"
#include "transport/internal.h"
#include "wire/gaps.h"
#include "wire/aeth.h"

#define OUR_QPN		0x004011u
#define PEER_QPN	0x008022u
#define OUR_PSN		0x000100u
#define PEER_PSN	0x000500u
#define MEMORY_BYTES	(512u * 1024u)
#define MTU		1024u
#define MILLISECOND	1000000ull

static const uint8_t our_address[16] = { [10] = 0xff, 0xff, 192, 0, 2, 1 };
static const uint8_t peer_address[16] = { [10] = 0xff, 0xff, 192, 0, 2, 2 };

struct station {
	struct arena *arena;
	struct mr_table mrs;
	struct path_table paths;
	struct recovery_pool *recoveries;	/* of station_holds() */
	struct run_queue run_queue;
	struct transport transport;
	struct pd pd;
	struct cq send_cq, recv_cq;
	struct event_queue async;
	struct mr mr;
	struct qp qp;
	uint8_t *memory;
	struct tx_batch *batch;
	struct effects effects;
	struct rx_info info;
	uint64_t now_ns;
	unsigned quantum;
	bool cut;			/* by the last transmit() */
};

static inline void nothing_to_release(struct event_queue *queue)
{
}

static inline void station_objects(struct station *station, enum ibv_qp_type type)
{
	struct qp *qp = &station->qp;

	assert_int_equal(cq_init(&station->send_cq, 1024), 0);
	assert_int_equal(cq_init(&station->recv_cq, 1024), 0);
	event_queue_init(&station->async, -1, nothing_to_release);
	station->pd.number = 1;
	qp->transport = &station->transport;
	qp->pd = &station->pd;
	qp->send_cq = &station->send_cq;
	qp->recv_cq = &station->recv_cq;
	qp->async = &station->async;
	qp->type = type;
	qp->number = OUR_QPN;
	qp->access = arena_qp(station->arena);
	qp->state = IBV_QPS_INIT;
	lock_init(&qp->lock);
	(void)lock_take(&qp->lock);	/* whatever follows is a call of the transport */
	assert_int_equal(send_queue_init(&qp->sq, 64, 4, 256), 0);
	assert_int_equal(recv_queue_init(&qp->rq, 64, 4), 0);
	assert_int_equal(transport_init(qp), 0);
}

static inline void station_attributes(struct station *station)
{
	struct path_key key = { .slot = PEER_QPN >> 14 };
	struct qp *qp = &station->qp;

	qp->mtu = MTU;
	qp->pkey = PKEY_DEFAULT;
	qp->attr = (struct ibv_qp_attr){ .dest_qp_num = PEER_QPN, .sq_psn = OUR_PSN,
		.rq_psn = PEER_PSN, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
			IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | ACCESS_FLUSH_GLOBAL,
		.max_rd_atomic = 4, .max_dest_rd_atomic = 4, .timeout = 14, .retry_cnt = 2,
		.rnr_retry = 2, .min_rnr_timer = 12, .qkey = 0x1234 };
	qp->route.link = station->info.route.link = ROUTE_ROCE_V2;
	memcpy(qp->route.source, our_address, 16);
	memcpy(qp->route.destination, peer_address, 16);
	memcpy(key.destination, peer_address, 16);
	memcpy(station->info.route.source, peer_address, 16);
	memcpy(station->info.route.destination, our_address, 16);
	qp->path = path_get(&station->paths, &key);
	assert_non_null(qp->path);
}

static inline void station_move(struct station *station, enum ibv_qp_state to) UNCHECKED_LOCKS
{
	enum ibv_qp_state from = station->qp.state;

	qp_set_state(&station->qp, to);
	transport_modified(&station->qp, from, IBV_QP_STATE, station->now_ns, &station->effects);
}

static inline struct station *station_new(enum ibv_qp_type type)
{
	struct station *station = calloc(1, sizeof(*station));

	assert_non_null(station);
	station->arena = test_arena();
	station->memory = calloc(1, MEMORY_BYTES);
	station->batch = malloc(sizeof(*station->batch) + TX_BYTES_MAX);
	assert_non_null(station->memory);
	assert_non_null(station->batch);
	station->batch->data = (uint8_t *)(station->batch + 1);
	tx_batch_reset(station->batch);
	assert_int_equal(mr_table_init(&station->mrs, station->arena, 7), 0);
	path_table_init(&station->paths);
	run_queue_init(&station->run_queue);
	station->transport = (struct transport){ .mrs = &station->mrs,
		.counters = arena_counters(station->arena), .run_queue = &station->run_queue,
		.probe_min_ns = MILLISECOND };
	station->now_ns = 1000 * MILLISECOND;
	station->quantum = 256;
	station_objects(station, type);
	assert_int_equal(mr_register(&station->mrs, &station->pd, station->memory, MEMORY_BYTES,
				     (uintptr_t)station->memory, IBV_ACCESS_LOCAL_WRITE |
				     IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				     IBV_ACCESS_REMOTE_ATOMIC | ACCESS_FLUSH_GLOBAL |
			     IBV_ACCESS_MW_BIND, &station->mr), 0);
	station_attributes(station);
	return station;
}

/* Selective repeat is possible: the station's process has places for what comes early. */
static inline void station_holds(struct station *station)
{
	station->recoveries = station->transport.recoveries = recovery_pool_new();
	assert_non_null(station->recoveries);
}

/* qp_rts(): connected and ready. */
static inline struct station *station_rts(enum ibv_qp_type type)
{
	struct station *station = station_new(type);

	station_move(station, IBV_QPS_RTR);
	station_move(station, IBV_QPS_RTS);
	return station;
}

/* As a modify does: a station that answers more READs and atomics than a QP has room for by itself. */
static inline void station_reserve(struct station *station, uint32_t reads) UNCHECKED_LOCKS
{
	struct transport_room room;

	assert_int_equal(transport_reserve(&room, reads), 0);
	transport_install(&station->qp, &room);
	transport_unreserve(&room);
	assert_null(room.resource);
}

static inline uint64_t station_counter(const struct station *station, enum counter counter)
{
	return counter_get(station->transport.counters, counter);
}

static inline void station_free(struct station *station) UNCHECKED_LOCKS
{
	transport_fini(&station->qp);
	recovery_pool_free(station->recoveries);
	lock_assert_held(&station->qp.lock);
	lock_release(&station->qp.lock);
	if (station->qp.path) {
		assert_int_equal(station->qp.path->in_flight_bytes, 0);
		path_put(&station->paths, station->qp.path);
	}
	send_queue_fini(&station->qp.sq);
	recv_queue_fini(&station->qp.rq);
	cq_fini(&station->send_cq);
	cq_fini(&station->recv_cq);
	path_table_fini(&station->paths);
	mr_table_free(&station->mrs);
	free(station->arena);
	free(station->memory);
	free(station->batch);
	free(station);
}

/* ---- posting ---- */

static inline struct ibv_sge station_sge(const struct station *station, size_t offset, size_t length)
{
	return (struct ibv_sge){ .addr = (uintptr_t)station->memory + offset,
				 .length = (uint32_t)length, .lkey = station->mr.ibv.lkey };
}

/* A signaled request; @wr_id doubles as the local offset in KiB. Change *wr before posting. */
static inline void request_init(struct ibv_send_wr *wr, struct ibv_sge *sge,
				const struct station *station, enum ibv_wr_opcode opcode,
				uint64_t wr_id, size_t length)
{
	*sge = station_sge(station, wr_id * 1024, length);
	*wr = (struct ibv_send_wr){ .wr_id = wr_id, .sg_list = sge, .num_sge = 1, .opcode = opcode,
				    .send_flags = IBV_SEND_SIGNALED };
	if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr->wr.atomic.remote_addr = 0x10000;
		wr->wr.atomic.rkey = 0x77;
	} else {
		wr->wr.rdma.remote_addr = 0x10000;
		wr->wr.rdma.rkey = 0x77;
	}
}

static inline void post_wr(struct station *station, struct ibv_send_wr *wr) UNCHECKED_LOCKS
{
	struct ibv_send_wr *bad;

	assert_int_equal(qp_post_send(&station->qp, wr, &bad), 0);
	transport_posted_send(&station->qp, station->now_ns, &station->effects);
}

/* As if a signaled request had been polled: the slots of what has completed are free. */
static inline void free_slots(struct station *station) UNCHECKED_LOCKS
{
	wqe_slots_free_to(&station->qp.sq.slots, station->qp.sq.tail);
}

static inline void post(struct station *station, enum ibv_wr_opcode opcode, uint64_t wr_id,
			size_t length)
{
	struct ibv_send_wr wr;
	struct ibv_sge sge;

	request_init(&wr, &sge, station, opcode, wr_id, length);
	post_wr(station, &wr);
}

static inline void post_recv(struct station *station, uint64_t wr_id, size_t length) UNCHECKED_LOCKS
{
	struct ibv_sge sge = station_sge(station, wr_id * 1024, length);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(qp_post_recv(&station->qp, &wr, &bad), 0);
	transport_posted_recv(&station->qp, station->now_ns, &station->effects);
}

/* An SRQ of another protection domain than the QP's, and the station's memory registered in that. */
struct other_domain {
	struct pd pd;
	struct mr mr;
	struct srq srq;
};

static inline void other_domain_open(struct station *station, struct other_domain *other)
{
	*other = (struct other_domain){ .pd.number = 2, .srq = { .pd = 2, .async = &station->async } };
	assert_int_equal(mr_register(&station->mrs, &other->pd, station->memory, MEMORY_BYTES,
				     (uintptr_t)station->memory, IBV_ACCESS_LOCAL_WRITE, &other->mr), 0);
	assert_int_equal(recv_queue_init(&other->srq.queue, 8, 4), 0);
	list_init(&other->srq.limit_event.node);
	station->qp.srq = &other->srq;
}

static inline void other_domain_close(struct station *station, struct other_domain *other)
{
	station->qp.srq = NULL;
	recv_queue_fini(&other->srq.queue);
}

/* A receive of @bytes, by the key of that domain or by the one of the QP's. */
static inline void other_domain_post(struct station *station, struct other_domain *other, uint64_t wr_id,
				     size_t bytes, bool right)
{
	struct ibv_sge sge = station_sge(station, wr_id * 1024, bytes);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	if (right)
		sge.lkey = other->mr.ibv.lkey;
	assert_int_equal(srq_post(&other->srq, &wr, &bad), 0);
}

/* ---- packets out ---- */

/* One call of transport_transmit(); returns how many packets there are. */
static inline unsigned transmit(struct station *station) UNCHECKED_LOCKS
{
	tx_batch_reset(station->batch);
	station->cut = transport_transmit(&station->qp, station->now_ns, station->quantum,
					  station->batch, &station->effects);
	return station->batch->count;
}

static inline struct packet sent(const struct station *station, unsigned index)
{
	const struct tx_packet *entry = &station->batch->packet[index];
	struct packet packet;

	assert_true(index < station->batch->count);
	assert_int_equal(packet_parse(station->batch->data + entry->offset,
				      entry->bytes + ICRC_BYTES, &packet), PARSE_OK);
	return packet;
}

#define expect_sent(station, index, code, psn_)                                        \
	do {                                                                           \
		struct packet packet_ = sent(station, index);                          \
		assert_string_equal(packet_.op->name, opcode_get(code)->name);         \
		assert_int_equal(packet_.psn, psn_);                                   \
		assert_int_equal(packet_.dest_qpn, PEER_QPN);                          \
		assert_true(packet_.migrated);                                         \
		assert_int_equal(packet_.pkey, PKEY_DEFAULT);                          \
	} while (0)

#define expect_silence(station) assert_int_equal(transmit(station), 0)

/* ---- packets in ---- */

static inline struct packet packet_of(uint8_t code, uint32_t psn)
{
	struct packet packet = { .op = opcode_get(code), .psn = psn, .dest_qpn = OUR_QPN,
				 .pkey = PKEY_DEFAULT, .migrated = true };

	assert_non_null(packet.op);
	return packet;
}

static inline void receive(struct station *station, const struct packet *packet) UNCHECKED_LOCKS
{
	effects_init(&station->effects);
	transport_receive(&station->qp, packet, &station->info, station->now_ns, &station->effects);
	assert_true(station->effects.count <= EFFECTS_PER_CALL);
}

static inline void receive_ack(struct station *station, uint32_t psn)
{
	struct packet packet = packet_of(OPCODE_RC_ACKNOWLEDGE, psn);

	packet.aeth.syndrome = aeth_syndrome(AETH_ACK, AETH_CREDITS_INVALID);
	receive(station, &packet);
}

/* What a Verbatim says of gaps. Bit i of @held: it holds the packet with the PSN @psn + 1 + i. */
static inline void receive_gaps(struct station *station, enum gaps_kind kind, uint32_t psn, uint64_t held)
{
	struct packet packet = packet_of(OPCODE_GAPS, psn);
	struct gaps gaps = { .kind = kind, .qpn = PEER_QPN, .held = { held } };
	uint8_t bytes[GAPS_BYTES];

	gaps_write(&gaps, bytes);
	packet.payload = bytes;
	packet.payload_bytes = sizeof(bytes);
	receive(station, &packet);
}

#define expect_gaps(station, index, kind_, psn_, held_)                                \
	do {                                                                           \
		struct packet gaps_packet_ = sent(station, index);                     \
		struct gaps gaps_;                                                     \
		expect_sent(station, index, OPCODE_GAPS, psn_);                        \
		assert_true(gaps_read(gaps_packet_.payload, gaps_packet_.payload_bytes, &gaps_)); \
		assert_int_equal(gaps_.kind, kind_);                                   \
		assert_int_equal(gaps_.qpn, OUR_QPN);                                  \
		assert_int_equal(gaps_.held[0], held_);                                \
	} while (0)

static inline void receive_nak(struct station *station, uint32_t psn, enum aeth_kind kind,
			       uint8_t value)
{
	struct packet packet = packet_of(OPCODE_RC_ACKNOWLEDGE, psn);

	packet.aeth.syndrome = aeth_syndrome(kind, value);
	receive(station, &packet);
}

static const uint8_t some_bytes[4 * PATH_MTU_MAX] = "the quick brown fox jumps over the lazy dog";

/* A request or response with @bytes of payload. */
static inline void receive_data(struct station *station, uint8_t code, uint32_t psn, size_t bytes)
{
	struct packet packet = packet_of(code, psn);

	packet.payload = some_bytes;
	packet.payload_bytes = bytes;
	packet.ack_request = opcode_ends(packet.op);
	packet.aeth.syndrome = aeth_syndrome(AETH_ACK, AETH_CREDITS_INVALID);
	packet.reth.address = (uintptr_t)station->memory;
	packet.reth.rkey = station->mr.ibv.rkey;
	packet.reth.length = (uint32_t)bytes;
	receive(station, &packet);
}

static inline void receive_read(struct station *station, uint32_t psn, size_t offset, size_t bytes)
{
	struct packet packet = packet_of(OPCODE_RC_READ_REQUEST, psn);

	packet.reth.address = (uintptr_t)station->memory + offset;
	packet.reth.rkey = station->mr.ibv.rkey;
	packet.reth.length = (uint32_t)bytes;
	receive(station, &packet);
}

static inline void receive_fetch_add(struct station *station, uint32_t psn, size_t offset,
				     uint64_t add)
{
	struct packet packet = packet_of(OPCODE_RC_FETCH_ADD, psn);

	packet.atomic.address = (uintptr_t)station->memory + offset;
	packet.atomic.rkey = station->mr.ibv.rkey;
	packet.atomic.swap_add = add;
	receive(station, &packet);
}

/* ---- completions, events, time ---- */

static inline struct ibv_wc expect_wc(struct cq *cq, uint64_t wr_id, enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_int_equal(cq_take(cq, 1, &wc), 1);
	assert_int_equal(wc.status, status);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.qp_num, OUR_QPN);
	return wc;
}

#define expect_no_wc(cq)                                                               \
	do {                                                                           \
		struct ibv_wc wc_;                                                     \
		assert_int_equal(cq_take(cq, 1, &wc_), 0);                             \
	} while (0)

static inline bool event_pending(const struct station *station, enum qp_event event)
{
	const struct list *node = &station->qp.event[event].node;

	return node->next && !list_empty(node);
}

static inline uint64_t deadline_of(struct station *station) UNCHECKED_LOCKS
{
	return transport_deadline(&station->qp);
}

/* Let time pass, calling transport_timeout() at each deadline on the way. */
static inline void pass_time(struct station *station, uint64_t ns) UNCHECKED_LOCKS
{
	uint64_t until_ns = station->now_ns + ns, deadline_ns;

	while ((deadline_ns = transport_deadline(&station->qp)) <= until_ns) {
		if (deadline_ns > station->now_ns)
			station->now_ns = deadline_ns;
		transport_timeout(&station->qp, station->now_ns, &station->effects);
		if (transport_deadline(&station->qp) <= station->now_ns)
			break;
	}
	station->now_ns = until_ns;
}

#define TEST(name)	cmocka_unit_test(name)

/*
 * A window that may be written to, over the first page of the station's memory. Returns its rkey.
 */
static inline uint32_t bind_window(struct station *s, struct mw *mw)
{
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_BIND_MW,
				  .send_flags = IBV_SEND_SIGNALED };

	assert_int_equal(mw_alloc(&s->mrs, &s->pd, IBV_MW_TYPE_2, mw), 0);
	wr.bind_mw.mw = &mw->ibv;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->ibv.rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ .mr = &s->mr.ibv,
		.addr = (uintptr_t)s->memory, .length = 4096,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE };
	post_wr(s, &wr);
	expect_silence(s);
	assert_int_equal(expect_wc(&s->send_cq, 1, IBV_WC_SUCCESS).opcode, IBV_WC_BIND_MW);
	return wr.bind_mw.rkey;
}

#endif
