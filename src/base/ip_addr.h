/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * IP addresses as 16 bytes, as GIDs of RoCE have them (IBTA A17.4.5): IPv6, or IPv4 as ::ffff:a.b.c.d.
 */
#ifndef VERBATIM_BASE_IP_ADDR_H
#define VERBATIM_BASE_IP_ADDR_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define IP_ADDR_LOOPBACK_IPV4	{ [10] = 0xff, 0xff, 127, 0, 0, 1 }

/* @ipv4: 4 bytes, at any alignment. */
static inline void ip_addr_map_ipv4(uint8_t address[16], const void *ipv4)
{
	memset(address, 0, 10);
	memset(address + 10, 0xff, 2);
	memcpy(address + 12, ipv4, 4);
}

static inline bool ip_addr_is_ipv4(const uint8_t address[16])
{
	static const uint8_t mapped[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

	return __builtin_memcmp(address, mapped, sizeof(mapped)) == 0;
}

static inline bool ip_addr_is_zero(const uint8_t address[16])
{
	static const uint8_t zero[16];

	return !memcmp(address, zero, sizeof(zero));
}

/*
 * A LID in an address's place, of InfiniBand packets without a GRH: 100::LID, which is no GID, nor anybody's IP
 * address (RFC 6666).
 */
static inline void ip_addr_of_lid(uint8_t address[16], uint16_t lid)
{
	memset(address, 0, 16);
	address[0] = 1;
	address[14] = (uint8_t)(lid >> 8);
	address[15] = (uint8_t)lid;
}

static inline bool ip_addr_is_lid(const uint8_t address[16])
{
	static const uint8_t prefix[14] = { 1 };

	return !memcmp(address, prefix, sizeof(prefix));
}

/* 127.0.0.0/8. */
static inline bool ip_addr_is_loopback_ipv4(const uint8_t address[16])
{
	return ip_addr_is_ipv4(address) && address[12] == 127;
}

/* 127.0.0.1, ::1. */
static inline bool ip_addr_is_localhost(const uint8_t address[16])
{
	static const uint8_t v4[16] = IP_ADDR_LOOPBACK_IPV4, v6[16] = { [15] = 1 };

	return !memcmp(address, v4, sizeof(v4)) || !memcmp(address, v6, sizeof(v6));
}

/* fe80::/10 (RFC 4291, 2.4): IPv6 alone, for which a sender has to name the interface. */
static inline bool ip_addr_is_link_local_ipv6(const uint8_t address[16])
{
	return address[0] == 0xfe && (address[1] & 0xc0) == 0x80;
}

/* That, or 169.254.0.0/16 (RFC 3927). */
static inline bool ip_addr_is_link_local(const uint8_t address[16])
{
	return ip_addr_is_ipv4(address) ? address[12] == 169 && address[13] == 254 :
					  ip_addr_is_link_local_ipv6(address);
}

/* The MAC address in a link-local address that was made of one (EUI-64; RFC 4291, appendix A). False: none. */
static inline bool ip_addr_link_local_mac(const uint8_t address[16], uint8_t mac[6])
{
	if (!ip_addr_is_link_local_ipv6(address) || address[11] != 0xff || address[12] != 0xfe)
		return false;
	memcpy(mac, address + 8, 3);
	memcpy(mac + 3, address + 13, 3);
	mac[0] ^= 0x02;
	return true;
}

/* ff00::/8, 224.0.0.0/4. */
static inline bool ip_addr_is_multicast(const uint8_t address[16])
{
	return ip_addr_is_ipv4(address) ? address[12] >> 4 == 0xe : address[0] == 0xff;
}

/* FNV-1a: the same on every host, since multicast addresses are made of it (net_multicast_alias). */
static inline uint32_t ip_addr_hash(const uint8_t address[16])
{
	uint32_t hash = 2166136261u;
	unsigned i;

	for (i = 0; i < 16; i++)
		hash = (hash ^ address[i]) * 16777619u;
	return hash;
}

#endif
