/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Address handles: ibv_create_ah(3), ibv_create_ah_from_wc(3), and
 * ibv_resolve_eth_l2_from_gid().
 */
#include <arpa/inet.h>

#include "base/ip_addr.h"
#include "verbs/check.h"
#include "verbs/trace.h"
#include "verbs/verbs.h"

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	CALL();
	uint64_t began_ns = tracepoint_began_ns();
	struct pd *domain;
	struct ah *ah;
	int err;

	if (!pd || !attr)
		return fail(refuse_null("ibv_create_ah", pd ? "attr" : "pd"));
	err = domain_pd("ibv_create_ah", pd, &domain);
	if (!err)
		err = verbs_check_asked_ah(pd->context, attr);
	if (!err)
		err = hca_create_ah(to_hca(pd->context), domain, attr, &ah);
	verbs_traced("ibv_create_ah", began_ns, err);
	if (err)
		return fail(err);
	ah->ibv.context = pd->context;
	verbs_checked(.what = CHECK_MADE, .kind = CHECK_AH, .call = "ibv_create_ah",
		      .object = CHECK_HANDLE(ah), .context = CHECK_HANDLE(pd->context),
		      .pd = CHECK_HANDLE(domain));
	return &ah->ibv;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	CALL();
	uint64_t began_ns = tracepoint_began_ns();
	int err;

	if (!ah)
		return refuse_null("ibv_destroy_ah", "ah");
	verbs_checked_ending(AH, "ibv_destroy_ah", ah);
	err = hca_destroy_ah(to_hca(ah->context), to_ah(ah));
	verbs_checked_ended(AH, "ibv_destroy_ah", ah, err);
	verbs_traced("ibv_destroy_ah", began_ns, err);
	return err;
}

int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
			struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
	CALL();

	if (!context || !wc || !attr)
		return minus_one(refuse_null("ibv_init_ah_from_wc",
					     !context ? "context" : wc ? "attr" : "wc"));
	if (!grh && (wc->wc_flags & IBV_WC_GRH))
		return minus_one(refuse_null("ibv_init_ah_from_wc",
					     "grh (the first 40 bytes of the receive buffer)"));
	return minus_one(hca_ah_attr_from_wc(to_hca(context), port, wc, grh, attr));
}

struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
				     uint8_t port)
{
	CALL();
	struct ibv_ah_attr attr;

	if (!pd)
		return fail(refuse_null("ibv_create_ah_from_wc", "pd"));
	if (ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr))
		return NULL;
	return ibv_create_ah(pd, &attr);
}

/* The MAC address that an EUI-64 link-local or a multicast GID spells out. */
static bool gid_mac(const uint8_t gid[16], uint8_t mac[ETHERNET_LL_SIZE])
{
	const uint8_t ipv4_multicast[] = { 0x01, 0x00, 0x5e, gid[13] & 0x7f, gid[14], gid[15] };
	const uint8_t ipv6_multicast[] = { 0x33, 0x33, gid[12], gid[13], gid[14], gid[15] };

	if (gid[0] == 0xff)
		memcpy(mac, ipv6_multicast, ETHERNET_LL_SIZE);
	else if (ip_addr_is_ipv4(gid) && (gid[12] & 0xf0) == 0xe0)
		memcpy(mac, ipv4_multicast, ETHERNET_LL_SIZE);
	else
		return ip_addr_link_local_mac(gid, mac);
	return true;
}

/*
 * Drivers of NICs put MAC addresses into their address vectors and ask this for them. Here the
 * kernel's own IP stack resolves neighbours when packets are sent, so only what the GID itself
 * spells out is answered.
 */
int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
				uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	char text[INET6_ADDRSTRLEN];

	if (!context || !attr || !eth_mac)
		return minus_one(refuse_null("ibv_resolve_eth_l2_from_gid",
					     !context ? "context" : attr ? "eth_mac" : "attr"));
	if (!gid_mac(attr->grh.dgid.raw, eth_mac)) {
		explain("ibv_resolve_eth_l2_from_gid: GID %s does not contain a MAC "
			"address; the kernel resolves it when packets are sent, no caller needs it",
			inet_ntop(AF_INET6, attr->grh.dgid.raw, text, sizeof(text)));
		return minus_one(EOPNOTSUPP);
	}
	if (vid)
		*vid = 0xffff;	/* no VLAN tag of ours: the interface is the VLAN's */
	return 0;
}
