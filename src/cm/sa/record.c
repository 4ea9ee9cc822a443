/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of subnet administration: what of an answer is believed, and the GIDs of groups that are made
 * of IP addresses.
 */
#include <string.h>

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "cm/sa/sa.h"
#include "wire/packet.h"
#include "wire/smp.h"

#define MTU_MIN		1u	/* 256 bytes */
#define MTU_MAX		5u	/* 4096 */
#define LIFE_TIME_MAX	31u	/* 4.096 us * 2^n, of five bits */

const char *sa_path_read(const uint8_t *record, const struct ib_path_record *asked,
			 struct ib_path_record *path)
{
	struct ib_path_record read;

	record_read(RECORD_PATH_RECORD, record, &read);
	if (memcmp(read.dgid, asked->dgid, sizeof(read.dgid)) ||
	    memcmp(read.sgid, asked->sgid, sizeof(read.sgid)))
		return "its path is between other GIDs";
	if (!read.dlid || read.dlid >= LID_MULTICAST || !read.slid || read.slid >= LID_MULTICAST)
		return "its path has no LIDs of ports";
	if ((read.p_key ^ asked->p_key) & ~PKEY_FULL)
		return "its path is of another partition";
	if (read.mtu < MTU_MIN || read.mtu > MTU_MAX)
		return "its path has an MTU that there is not";
	if (read.packet_life_time > LIFE_TIME_MAX)
		return "its path has a life time that there is not";
	*path = read;
	return NULL;
}

const char *sa_group_read(const uint8_t *record, const struct ib_mc_member_record *asked,
			  struct ib_mc_member_record *group)
{
	struct ib_mc_member_record read;

	record_read(RECORD_MC_MEMBER_RECORD, record, &read);
	/* Zero: the manager chose one. */
	if (!ip_addr_is_zero(asked->mgid) && memcmp(read.mgid, asked->mgid, sizeof(read.mgid)))
		return "it is another group's";
	if (!ip_addr_is_multicast(read.mgid) || ip_addr_is_ipv4(read.mgid))
		return "its MGID is not of a group";
	if (!lid_is_multicast(read.mlid))
		return "its LID is not of a group";
	if ((read.p_key ^ asked->p_key) & ~PKEY_FULL)
		return "it is of another partition";
	if (read.mtu && (read.mtu < MTU_MIN || read.mtu > MTU_MAX))
		return "it has an MTU that there is not";
	*group = read;
	return NULL;
}

/*
 *	ff 12 40|60 1b|01  PKEY  00 ... group	of IPv4 the lower 28 bits, of IPv6 80
 */
void sa_group_of_ip(const uint8_t address[16], uint16_t pkey, bool udp_space, uint8_t mgid[16])
{
	bool ipv4 = ip_addr_is_ipv4(address);

	if (!ipv4 && address[0] == 0xff && (address[1] & 0xf0) == 0x10 && address[2] == 0xa0 &&
	    address[3] == 0x1b) {
		memcpy(mgid, address, 16);	/* an MGID as it is, which IPv6 writes */
		return;
	}
	memset(mgid, 0, 16);
	mgid[0] = 0xff;
	mgid[1] = 0x12;
	mgid[2] = ipv4 ? 0x40 : 0x60;
	mgid[3] = udp_space ? 0x01 : 0x1b;
	put_be16(mgid + 4, pkey | 0x8000u);
	if (ipv4) {
		memcpy(mgid + 12, address + 12, 4);
		mgid[12] &= 0x0f;
	} else {
		memcpy(mgid + 6, address + 6, 10);
	}
}

void sa_group_broadcast(uint16_t pkey, uint8_t mgid[16])
{
	static const uint8_t all[4] = { 0xff, 0xff, 0xff, 0xff };

	memset(mgid, 0, 16);
	mgid[0] = 0xff;
	mgid[1] = 0x12;
	mgid[2] = 0x40;
	mgid[3] = 0x1b;
	put_be16(mgid + 4, pkey | 0x8000u);
	memcpy(mgid + 12, all, sizeof(all));
}
