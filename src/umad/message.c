/* SPDX-License-Identifier: BSD-2-Clause */
/* What programs read and write in the header before a MAD; and the header, printed. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "umad/umad.h"

static int debug_level;

void *umad_get_mad(void *umad)
{
	return ((ib_user_mad_t *)umad)->data;
}

size_t umad_size(void)
{
	return sizeof(ib_user_mad_t);
}

int umad_status(void *umad)
{
	return (int)((ib_user_mad_t *)umad)->status;
}

ib_mad_addr_t *umad_get_mad_addr(void *umad)
{
	return &((ib_user_mad_t *)umad)->addr;
}

/* The flow label of @mad_addr is in the host's order. NULL: no GRH. */
int umad_set_grh(void *umad, void *mad_addr)
{
	ib_mad_addr_t *to = umad_get_mad_addr(umad), *from = mad_addr;

	to->grh_present = from != NULL;
	if (!from)
		return 0;
	memcpy(to->gid, from->gid, sizeof(to->gid));
	to->flow_label = htonl(from->flow_label);
	to->hop_limit = from->hop_limit;
	to->traffic_class = from->traffic_class;
	return 0;
}

int umad_set_pkey(void *umad, int pkey_index)
{
	umad_get_mad_addr(umad)->pkey_index = (uint16_t)pkey_index;
	return 0;
}

int umad_get_pkey(void *umad)
{
	return umad_get_mad_addr(umad)->pkey_index;
}

/* Of numbers in the network's order. */
int umad_set_addr_net(void *umad, __be16 dlid, __be32 dqp, int sl, __be32 qkey)
{
	ib_mad_addr_t *to = umad_get_mad_addr(umad);

	to->lid = dlid;
	to->qpn = dqp;
	to->sl = (uint8_t)sl;
	to->qkey = qkey;
	return 0;
}

int umad_set_addr(void *umad, int dlid, int dqp, int sl, int qkey)
{
	return umad_set_addr_net(umad, htons((uint16_t)dlid), htonl((uint32_t)dqp), sl,
				 htonl((uint32_t)qkey));
}

/* Negative: it is only asked for. */
int umad_debug(int level)
{
	if (level >= 0)
		debug_level = level;
	return debug_level;
}

void umad_addr_dump(ib_mad_addr_t *addr)
{
	char gid[INET6_ADDRSTRLEN];

	fprintf(stderr,
		"umad address: LID %u, QP %u, Q_Key 0x%x, SL %u, path bits %u, P_Key index %u",
		ntohs(addr->lid), ntohl(addr->qpn), ntohl(addr->qkey), addr->sl, addr->path_bits,
		addr->pkey_index);
	if (addr->grh_present)
		fprintf(stderr,
			", GRH: GID %s from index %u, hop limit %u, class %u, flow label 0x%x",
			inet_ntop(AF_INET6, addr->gid, gid, sizeof(gid)), addr->gid_index,
			addr->hop_limit, addr->traffic_class, ntohl(addr->flow_label));
	fputc('\n', stderr);
}

void umad_dump(void *umad)
{
	ib_user_mad_t *header = umad;

	fprintf(stderr, "umad: agent %u, status %u, timeout %u ms, %u retries, %u bytes\n",
		header->agent_id, header->status, header->timeout_ms, header->retries,
		header->length);
	umad_addr_dump(&header->addr);
}
