/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a completion says of a received datagram, and the answer that a program makes from it: with
 * ibv_init_ah_from_wc(), ibv_create_ah_from_wc(), and by copying the fields itself. On a UD QP of
 * the loopback device that sends to itself; what leaves is read from a socket.
 */
#include "fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define QKEY		0x1234u
#define GRH_BYTES	40u
#define ROCE_PORT	4791
#define TYPE_IPV4	0xau	/* what mlx5 says: UDP (bit 3), IPv4 (2) or IPv6 (1) */
#define TYPE_IPV6	0x9u
#define RESERVED_BYTE	4	/* of the BTH: not the same in each packet, outside of the ICRC */
#define NOBODYS_QPN	0xfffffeu	/* its slot, the last, is never claimed */

struct station {
	struct ibv_context *context;
	struct ibv_pd *pd;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t memory[256];
};

static void modify(struct ibv_qp *qp, enum ibv_qp_state state, int mask)
{
	struct ibv_qp_attr attr = { .qp_state = state, .port_num = 1, .qkey = QKEY };

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | mask), 0);
}

static void to_rts(struct ibv_qp *qp)
{
	modify(qp, IBV_QPS_INIT, IBV_QP_PORT | IBV_QP_QKEY | IBV_QP_PKEY_INDEX);
	modify(qp, IBV_QPS_RTR, 0);
	modify(qp, IBV_QPS_RTS, IBV_QP_SQ_PSN);
}

static void station_open(struct station *s, struct ibv_context *context)
{
	struct ibv_cq_init_attr_ex cq = { .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS };
	struct ibv_qp_init_attr qp = { .qp_type = IBV_QPT_UD, .cap = { 4, 4, 1, 1, 64 },
				       .sq_sig_all = 1 };

	memset(s, 0, sizeof(*s));
	s->context = context;
	s->pd = ibv_alloc_pd(context);
	s->cq = ibv_create_cq_ex(context, &cq);
	assert_non_null(s->cq);
	qp.send_cq = qp.recv_cq = ibv_cq_ex_to_cq(s->cq);
	s->qp = ibv_create_qp(s->pd, &qp);
	assert_non_null(s->qp);
	s->mr = ibv_reg_mr(s->pd, s->memory, sizeof(s->memory), IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(s->mr);
	to_rts(s->qp);
}

static void station_close(struct station *s)
{
	assert_int_equal(ibv_destroy_qp(s->qp), 0);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(s->cq)), 0);
	assert_int_equal(ibv_dereg_mr(s->mr), 0);
	assert_int_equal(ibv_dealloc_pd(s->pd), 0);
}

/* Index of the device's first GID that is a v4-mapped address, or is none; or a skipped test. */
static uint8_t find_gid(struct ibv_context *context, bool ipv4, union ibv_gid *gid)
{
	for (int i = 1; i < 16; i++)
		if (!ibv_query_gid(context, 1, i, gid) &&
		    (gid->global.subnet_prefix || gid->global.interface_id) &&
		    IN6_IS_ADDR_V4MAPPED((struct in6_addr *)gid) == ipv4)
			return (uint8_t)i;
	skip();
	return 0;
}

static void post_recv(struct station *s)
{
	struct ibv_sge sge = { (uintptr_t)s->memory, sizeof(s->memory), s->mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = 1, .sg_list = &sge, .num_sge = 1 };

	assert_int_equal(ibv_post_recv(s->qp, &wr, &bad), 0);
}

static void send_text(struct station *s, struct ibv_ah *ah, uint32_t qpn, const char *text)
{
	struct ibv_sge sge = { (uintptr_t)text, (uint32_t)strlen(text), 0 };
	struct ibv_send_wr *bad, wr = {
		.wr_id = 2, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE, .wr.ud = { ah, qpn, QKEY } };

	assert_int_equal(ibv_post_send(s->qp, &wr, &bad), 0);
}

/* The next completion within two seconds, read field by field. */
static struct ibv_wc next_wc(struct station *s)
{
	struct ibv_poll_cq_attr attr = { 0 };
	time_t end = time(NULL) + 2;
	struct ibv_wc wc;
	int err;

	do
		err = ibv_start_poll(s->cq, &attr);
	while (err == ENOENT && time(NULL) <= end);
	assert_int_equal(err, 0);
	wc = (struct ibv_wc){
		.wr_id = s->cq->wr_id, .status = s->cq->status,
		.opcode = ibv_wc_read_opcode(s->cq), .byte_len = ibv_wc_read_byte_len(s->cq),
		.src_qp = ibv_wc_read_src_qp(s->cq), .wc_flags = ibv_wc_read_wc_flags(s->cq),
		.sl = ibv_wc_read_sl(s->cq) };
	ibv_end_poll(s->cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	return wc;
}

/* The same with ibv_poll_cq(). */
static struct ibv_wc next_wc_polled(struct station *s)
{
	time_t end = time(NULL) + 2;
	struct ibv_wc wc;
	int count;

	do
		count = ibv_poll_cq(ibv_cq_ex_to_cq(s->cq), 1, &wc);
	while (!count && time(NULL) <= end);
	assert_int_equal(count, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	return wc;
}

/* Sends @text to ourselves; the completion of its receive. */
static struct ibv_wc exchange(struct station *s, struct ibv_ah *ah, uint32_t qpn, const char *text,
			      struct ibv_wc (*next)(struct station *s))
{
	struct ibv_wc wc = { 0 }, received = { 0 };

	post_recv(s);
	send_text(s, ah, qpn, text);
	for (int i = 0; i < 2; i++) {
		wc = next(s);
		if (wc.opcode == IBV_WC_RECV)
			received = wc;
		else
			assert_int_equal(wc.sl, 0);
	}
	assert_int_equal(received.wr_id, 1);
	assert_int_equal(received.wc_flags, IBV_WC_GRH);
	assert_int_equal(received.byte_len, GRH_BYTES + strlen(text));
	assert_memory_equal(s->memory + GRH_BYTES, text, strlen(text));
	return received;
}

static struct ibv_ah *make_ah(struct station *s, struct ibv_ah_attr *attr)
{
	struct ibv_ah *ah = ibv_create_ah(s->pd, attr);

	assert_non_null(ah);
	return ah;
}

static void check_type_and_answers(struct station *s, bool ipv4)
{
	uint8_t type = ipv4 ? TYPE_IPV4 : TYPE_IPV6;
	struct ibv_ah_attr copied = { .is_global = 1, .port_num = 1, .grh.hop_limit = 64 };
	struct ibv_wc wc;
	struct ibv_ah *ah;

	copied.grh.sgid_index = find_gid(s->context, ipv4, &copied.grh.dgid);
	ah = make_ah(s, &copied);
	assert_int_equal(exchange(s, ah, s->qp->qp_num, "polled", next_wc_polled).sl, type);
	wc = exchange(s, ah, s->qp->qp_num, "question", next_wc);
	assert_int_equal(wc.sl, type);
	assert_int_equal(ibv_destroy_ah(ah), 0);

	ah = ibv_create_ah_from_wc(s->pd, &wc, (struct ibv_grh *)s->memory, 1);
	assert_non_null(ah);
	assert_int_equal(exchange(s, ah, wc.src_qp, "answer", next_wc).sl, type);
	assert_int_equal(ibv_destroy_ah(ah), 0);

	copied.sl = wc.sl;
	ah = make_ah(s, &copied);
	assert_int_equal(exchange(s, ah, wc.src_qp, "another", next_wc).sl, type);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void a_receive_over_ipv4_says_so_and_is_answered(void **state)
{
	struct station s;

	station_open(&s, context_of(state));
	check_type_and_answers(&s, true);
	station_close(&s);
}

static void a_receive_over_ipv6_says_so_and_is_answered(void **state)
{
	struct station s;

	station_open(&s, context_of(state));
	check_type_and_answers(&s, false);
	station_close(&s);
}

static void check_way_back(struct station *s, bool ipv4)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh.hop_limit = 64,
				    .grh.traffic_class = 0x6b, .grh.flow_label = 0x54321 }, back;
	struct ibv_wc wc;
	struct ibv_ah *ah;

	attr.grh.sgid_index = find_gid(s->context, ipv4, &attr.grh.dgid);
	ah = make_ah(s, &attr);
	wc = exchange(s, ah, s->qp->qp_num, "question", next_wc);
	memset(&back, 0xff, sizeof(back));
	assert_int_not_equal(ibv_init_ah_from_wc(s->context, 2, &wc, (struct ibv_grh *)s->memory, &back), 0);
	assert_int_equal(ibv_init_ah_from_wc(s->context, 1, &wc, (struct ibv_grh *)s->memory,
					     &back), 0);
	assert_int_equal(back.sl, 0);			/* what the completion has is none */
	assert_int_equal(back.grh.traffic_class, 0x68);	/* without congestion marks */
	assert_int_equal(back.grh.flow_label, ipv4 ? 0 : 0x54321);	/* IPv4 has none */
	assert_memory_equal(&back.grh.dgid, &attr.grh.dgid, 16);
	assert_int_equal(back.grh.sgid_index, attr.grh.sgid_index);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void an_answer_has_traffic_class_and_flow_label_and_no_service_level(void **state)
{
	struct station s;

	station_open(&s, context_of(state));
	check_way_back(&s, true);
	check_way_back(&s, false);
	station_close(&s);
}

/* ---- on the wire ---- */

/* A socket on the RoCE port of an address of lo that nobody else uses. */
static int wire_open(struct sockaddr_in *address)
{
	struct timeval patience = { .tv_sec = 2 };
	int on = 1, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	*address = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(ROCE_PORT) };
	address->sin_addr.s_addr = htonl(127u << 24 | ((uint32_t)getpid() & 0x3fffff) << 1);
	assert_true(fd >= 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on)), 0);
	assert_int_equal(setsockopt(fd, IPPROTO_IP, IP_RECVTOS, &on, sizeof(on)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)address, sizeof(*address)), 0);
	return fd;
}

static size_t wire_read(int fd, uint8_t *bytes, size_t size, uint8_t *tos)
{
	union { char bytes[CMSG_SPACE(sizeof(int))]; struct cmsghdr align; } control;
	struct iovec iov = { bytes, size };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	ssize_t got = recvmsg(fd, &message, 0);
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	assert_true(got > RESERVED_BYTE);
	assert_true(header && header->cmsg_type == IP_TOS);
	*tos = *CMSG_DATA(header);
	return (size_t)got;
}

/* The packet of the first send of a QP through an AH with this service level. */
static size_t packet_with_sl(struct station *s, int fd, struct ibv_ah_attr *attr, uint8_t sl,
			     uint8_t bytes[256], uint8_t *tos)
{
	struct ibv_ah *ah;
	size_t size;

	modify(s->qp, IBV_QPS_RESET, 0);
	to_rts(s->qp);
	attr->sl = sl;
	ah = make_ah(s, attr);
	/* Another process would get it through memory, and not by a socket. */
	send_text(s, ah, NOBODYS_QPN, "to the wire");
	assert_int_equal(next_wc(s).opcode, IBV_WC_SEND);
	size = wire_read(fd, bytes, 256, tos);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	bytes[RESERVED_BYTE] = 0;
	return size;
}

static void a_service_level_changes_no_byte(void **state)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .grh.hop_limit = 64,
				    .grh.traffic_class = 0x28 };
	struct ibv_context *context = context_of(state);
	uint8_t without[256], with[256], tos[2];
	struct sockaddr_in address;
	struct station s;
	size_t size;
	int fd;

	if (strcmp(ibv_get_device_name(context->device), "vb_lo"))
		skip();
	fd = wire_open(&address);
	station_open(&s, context);
	attr.grh.sgid_index = find_gid(context, true, &attr.grh.dgid);
	memcpy(attr.grh.dgid.raw + 12, &address.sin_addr, 4);
	size = packet_with_sl(&s, fd, &attr, 0, without, &tos[0]);
	assert_int_equal(packet_with_sl(&s, fd, &attr, TYPE_IPV4, with, &tos[1]), size);
	assert_memory_equal(with, without, size);
	assert_int_equal(tos[0], 0x28);
	assert_int_equal(tos[1], 0x28);
	station_close(&s);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_with_device(a_receive_over_ipv4_says_so_and_is_answered),
		test_with_device(a_receive_over_ipv6_says_so_and_is_answered),
		test_with_device(an_answer_has_traffic_class_and_flow_label_and_no_service_level),
		test_with_device(a_service_level_changes_no_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
