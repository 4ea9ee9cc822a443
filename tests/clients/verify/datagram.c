// SPDX-License-Identifier: BSD-2-Clause
/*
 * UD: the 40 bytes before each message, addresses from a completion, Q_Keys, sizes, multicast.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <string.h>

#include "verify.h"

#define GRH 40
static const struct link_options ud = { .type = IBV_QPT_UD };

/* A link-local GID of ours that no interface has as an address (lo): inside the host, over 127.0.0.1. */
static bool is_host_only(const union ibv_gid *gid)
{
	struct ifaddrs *all, *one;
	bool found = false;

	if (gid->raw[0] != 0xfe || gid->raw[1] != 0x80)
		return false;
	OK(getifaddrs(&all));
	for (one = all; one; one = one->ifa_next)
		found |= one->ifa_addr && one->ifa_addr->sa_family == AF_INET6 &&
			 !memcmp(&((struct sockaddr_in6 *)one->ifa_addr)->sin6_addr, gid, 16);
	freeifaddrs(all);
	return !found;
}

/*
 * The IP header that the packet came with: version 6 in all 40 bytes, version 4 in the last 20. By a GID that no
 * interface has as an address the packet goes over 127.0.0.1, and the header has the GIDs.
 */
static void check_grh(const struct side *side, const uint8_t *grh)
{
	const uint8_t *gid = side->peer_gid.raw;
	struct iphdr v4;

	if (!memcmp(gid, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12)) {
		memcpy(&v4, grh + 20, sizeof(v4));
		CHECK(v4.version == 4 && v4.protocol == IPPROTO_UDP, "IPv4 header in the last 20 "
		      "bytes: version %u, protocol %u", v4.version, v4.protocol);
		CHECK(!memcmp(&v4.saddr, gid + 12, 4), "source address of the IPv4 header");
	} else {
		CHECK(grh[0] >> 4 == 6, "version %u in the GRH", grh[0] >> 4);
		CHECK(!memcmp(grh + 8, gid, 16), "source GID of the GRH");
		CHECK(!memcmp(grh + 24, side->gid.raw, 16), "destination GID of the GRH");
	}
}

/* Our devices tell the kind of packet in sl, as mlx5 does: UDP (8) over IPv4 (2) or IPv6 (1). */
static void check_sl(const struct side *side, const struct ibv_wc *wc, const uint8_t *grh)
{
	unsigned expected = grh[0] >> 4 == 6 ? 0x9 : 0xa;

	if (!strncmp(ibv_get_device_name(side->context->device), "vb_", 3))
		CHECK(wc->sl == expected, "sl %u, not %u", wc->sl, expected);
}

static void ud_send(struct side *side)
{
	struct region out, in;
	struct link link;
	size_t sizes[32], count = interesting_sizes(side, sizes, side->mtu_bytes);

	region_create(side, &out, 4096, 0);
	region_create(side, &in, 8192, IBV_ACCESS_LOCAL_WRITE);
	link_open(side, &link, &ud);
	for (size_t i = 0; i < 2 * count; i++) {
		size_t len = sizes[i / 2];
		bool imm = i % 2;
		struct ibv_wc wc;

		pattern_fill(out.mem, len, i * 2 + side->server);
		memset(in.mem, 0xee, in.size);
		recv_region(&link, i, &in, 0, in.size);
		barrier(side);
		send_op(&link, &(struct op){ .id = i, .sges = 1, .sge = { sge_of(&out, 0, len) },
			.opcode = imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, .imm = i });
		good_wc(link.send_cq, i);
		wc = good_wc(link.recv_cq, i);
		CHECK(wc.byte_len == len + GRH, "byte_len %u, not %zu", wc.byte_len, len + GRH);
		CHECK(wc.src_qp == link.peer_qpn, "src_qp 0x%x", wc.src_qp);
		CHECK(wc.wc_flags == (IBV_WC_GRH | (imm ? IBV_WC_WITH_IMM : 0u)), "wc_flags 0x%x",
		      wc.wc_flags);
		CHECK(!imm || be32toh(wc.imm_data) == i, "immediate 0x%x", be32toh(wc.imm_data));
		check_grh(side, in.mem);
		check_sl(side, &wc, in.mem);
		pattern_check(in.mem + GRH, len, i * 2 + !side->server, "datagram");
		byte_check(in.mem + GRH + len, 64, 0xee, "behind a datagram");
		barrier(side);
	}
	link_close(&link);
	region_destroy(&in);
	region_destroy(&out);
}

/* Answer to whoever sent, knowing it from the completion and the GRH only. */
static void ud_reply(struct side *side)
{
	struct region out, in;
	struct link link;

	region_create(side, &out, 256, 0);
	region_create(side, &in, 512, IBV_ACCESS_LOCAL_WRITE);
	link_open(side, &link, &ud);
	pattern_fill(out.mem, 200, 31 + side->server);
	recv_region(&link, 1, &in, 0, in.size);
	barrier(side);
	if (!side->server) {
		send_op(&link, &(struct op){ .id = 2, .opcode = IBV_WR_SEND, .sges = 1,
			.sge = { sge_of(&out, 0, 200) } });
		good_wc(link.send_cq, 2);
		good_wc(link.recv_cq, 1);
	} else {
		struct ibv_wc wc = good_wc(link.recv_cq, 1);
		struct ibv_ah *ah = ibv_create_ah_from_wc(side->pd, &wc,
							  (struct ibv_grh *)in.mem, 1);

		CHECK(ah, "ibv_create_ah_from_wc: %m");
		send_op(&link, &(struct op){ .id = 2, .opcode = IBV_WR_SEND, .sges = 1, .ah = ah,
			.qpn = wc.src_qp, .sge = { sge_of(&out, 0, 200) } });
		good_wc(link.send_cq, 2);
		OK(ibv_destroy_ah(ah));
	}
	pattern_check(in.mem + GRH, 200, 31 + !side->server, "datagram");
	link_close(&link);
	region_destroy(&in);
	region_destroy(&out);
}

/* What a UD QP drops without a word: a wrong Q_Key, a message too long for its receive. */
static void ud_drops(struct side *side)
{
	struct region out, in;
	struct link link;

	region_create(side, &out, 256, 0);
	region_create(side, &in, 256, IBV_ACCESS_LOCAL_WRITE);
	link_open(side, &link, &ud);
	memset(in.mem, 0, in.size);
	recv_region(&link, 1, &in, 0, GRH + 8);
	barrier(side);
	pattern_fill(out.mem, 8, 3);
	send_op(&link, &(struct op){ .id = 1, .opcode = IBV_WR_SEND, .sges = 1,
		.sge = { sge_of(&out, 0, 8) }, .qkey = QKEY + 1 });
	send_op(&link, &(struct op){ .id = 2, .opcode = IBV_WR_SEND, .sges = 1,
		.sge = { sge_of(&out, 0, 9) } });
	good_wc(link.send_cq, 1);		/* the sender learns nothing */
	good_wc(link.send_cq, 2);
	expect_no_wc(link.recv_cq, 50);
	barrier(side);
	/* The receive is still there for one that fits; the high bit takes the QP's own Q_Key. */
	send_op(&link, &(struct op){ .id = 3, .opcode = IBV_WR_SEND, .sges = 1,
		.sge = { sge_of(&out, 0, 8) }, .qkey = 0x80000001 });
	good_wc(link.send_cq, 3);
	CHECK(good_wc(link.recv_cq, 1).byte_len == GRH + 8, "byte_len");
	pattern_check(in.mem + GRH, 8, 3, "datagram");
	CHECK(link_state(&link) == IBV_QPS_RTS, "state %d after drops", link_state(&link));
	link_close(&link);
	region_destroy(&in);
	region_destroy(&out);
}

/* A datagram above the path MTU cannot be sent: an error, and the QP goes to SQE or ERR. */
static void ud_too_long_to_send(struct side *side)
{
	struct region out;
	struct link link;
	struct op op = { .id = 1, .opcode = IBV_WR_SEND, .sges = 1 };
	int err;

	region_create(side, &out, 8192, 0);
	link_open(side, &link, &ud);
	op.sge[0] = sge_of(&out, 0, side->mtu_bytes + 1);
	err = try_send(&link, &op);
	if (!err)
		expect_wc(link.send_cq, 1, IBV_WC_LOC_LEN_ERR);
	else
		CHECK(err == EINVAL || err == EMSGSIZE, "ibv_post_send gave %d", err);
	link_close(&link);
	region_destroy(&out);
}

static void group_gid(const struct side *side, union ibv_gid *gid, struct ibv_ah_attr *attr)
{
	bool v4 = !memcmp(side->gid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff", 12);

	if (v4) {
		memcpy(gid->raw, side->gid.raw, 12);
		inet_pton(AF_INET, "239.77.1.2", gid->raw + 12);
	} else {
		inet_pton(AF_INET6, "ff15::7712", gid->raw);
	}
	*attr = (struct ibv_ah_attr){ .is_global = 1, .port_num = 1 };
	attr->grh.dgid = *gid;
	attr->grh.sgid_index = side->gid_index;
	attr->grh.hop_limit = 1;
}

/* Both ends join, each with two QPs: all get what one of them sends, its own QP too. */
static void ud_multicast(struct side *side)
{
	struct region out, in;
	struct link link[2];
	struct ibv_ah_attr attr;
	union ibv_gid group;
	struct ibv_ah *ah;
	struct ibv_wc wc;

	group_gid(side, &group, &attr);
	if (is_host_only(&side->gid)) {		/* groups are elsewhere, too */
		CHECK(!ibv_create_ah(side->pd, &attr) && errno == EINVAL, "of a group: %m");
		return;
	}
	region_create(side, &out, 256, 0);
	region_create(side, &in, 1024, IBV_ACCESS_LOCAL_WRITE);
	for (int q = 0; q < 2; q++) {
		link_open(side, &link[q], &ud);
		OK(ibv_attach_mcast(link[q].qp, &group, 0));
		recv_region(&link[q], 1, &in, q * 512, 256);
		recv_region(&link[q], 2, &in, q * 512 + 256, 256);
	}
	ah = ibv_create_ah(side->pd, &attr);
	CHECK(ah, "ibv_create_ah of a group: %m");
	REFUSED(ibv_destroy_qp(link[0].qp), EBUSY);
	pattern_fill(out.mem, 100, 40);
	barrier(side);
	if (!side->server) {
		send_op(&link[0], &(struct op){ .id = 9, .opcode = IBV_WR_SEND, .sges = 1, .ah = ah,
			.qpn = 0xffffff, .sge = { sge_of(&out, 0, 100) } });
		good_wc(link[0].send_cq, 9);
	}
	for (int q = 0; q < 2; q++) {
		wc = good_wc(link[q].recv_cq, 1);
		CHECK(wc.byte_len == 100 + GRH, "byte_len %u", wc.byte_len);
		pattern_check(in.mem + q * 512 + GRH, 100, 40, "multicast datagram");
	}
	barrier(side);
	for (int q = 0; q < 2; q++)
		OK(ibv_detach_mcast(link[q].qp, &group, 0));
	CHECK(ibv_detach_mcast(link[0].qp, &group, 0) == EINVAL, "detached twice");
	barrier(side);
	if (side->server) {			/* nobody is a member any more */
		send_op(&link[1], &(struct op){ .id = 8, .opcode = IBV_WR_SEND, .sges = 1, .ah = ah,
			.qpn = 0xffffff, .sge = { sge_of(&out, 0, 100) } });
		good_wc(link[1].send_cq, 8);
	}
	expect_no_wc(link[0].recv_cq, 50);
	OK(ibv_destroy_ah(ah));
	for (int q = 0; q < 2; q++)
		link_close(&link[q]);
	region_destroy(&in);
	region_destroy(&out);
}

const struct test datagram_tests[] = {
	{ "ud_send", ud_send, TAG_DATA | TAG_LOSSLESS },
	{ "ud_reply", ud_reply, TAG_LOSSLESS },
	{ "ud_drops", ud_drops, TAG_LOSSLESS },
	{ "ud_too_long_to_send", ud_too_long_to_send, 0 },
	{ "ud_multicast", ud_multicast, TAG_LOSSLESS },
	{ 0 }
};
