/* SPDX-License-Identifier: BSD-2-Clause */
/* What the UDP sockets and network interfaces of this machine can do. */
#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/filter.h>
#include <linux/udp.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "doctor.h"

#define RECEIVE_BUFFER_WANTED	(4 << 20)
#define RECEIVE_BUFFER_DEFAULT	212992

static int set_option(int fd, int level, int option, int value)
{
	return setsockopt(fd, level, option, &value, sizeof(value)) ? errno : 0;
}

static void check_offloads(int fd)
{
	int err = set_option(fd, IPPROTO_UDP, UDP_SEGMENT, 1024);

	if (err)
		report(VERDICT_NOTE, "offload", "segmentation offload (UDP GSO)", "%s: packets are sent one "
		       "by one, about four times slower", strerror(err));
	else
		report(VERDICT_GOOD, "offload", "segmentation offload (UDP GSO)", "works");
	err = set_option(fd, IPPROTO_UDP, UDP_GRO, 1);
	if (err)
		report(VERDICT_NOTE, "offload", "receive offload (UDP GRO)", "%s: packets are received one "
		       "by one, slower", strerror(err));
	else
		report(VERDICT_GOOD, "offload", "receive offload (UDP GRO)", "works");
}

/* The program that every process attaches, reduced to its form: answer with a socket's index. */
static void check_selector(int fd)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 4),
		BPF_STMT(BPF_RET | BPF_A, 0),
	};
	struct sock_fprog program = { .len = 2, .filter = code };
	struct sockaddr_in any = { .sin_family = AF_INET };
	int err = set_option(fd, SOL_SOCKET, SO_REUSEPORT, 1);

	if (!err && bind(fd, (struct sockaddr *)&any, sizeof(any)))
		err = errno;
	if (!err && setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)))
		err = errno;
	if (err)
		report(VERDICT_NOTE, "selector", "selection of the receiver by QP number (reuseport BPF)",
		       "%s: packets reach any process of the port and are forwarded, slower",
		       strerror(err));
	else
		report(VERDICT_GOOD, "selector", "selection of the receiver by QP number (reuseport BPF)",
		       "works without privilege");
}

static void check_receive_buffer(int fd)
{
	socklen_t length = sizeof(int);
	int granted = 0;

	set_option(fd, SOL_SOCKET, SO_RCVBUF, RECEIVE_BUFFER_WANTED / 2);
	getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &granted, &length);
	granted /= 2;		/* the kernel counts its own overhead: it doubles what it grants */
	if (granted > RECEIVE_BUFFER_DEFAULT)
		report(VERDICT_GOOD, "buffer", "receive buffer", "up to %d KiB", granted >> 10);
	else
		report(VERDICT_NOTE, "buffer", "receive buffer", "%d KiB: fewer bytes in flight; to raise "
		       "it, as root: sysctl -w net.core.rmem_max=%d", granted >> 10,
		       RECEIVE_BUFFER_WANTED);
}

/* A datagram to ourselves over @family's loopback address, with the don't-fragment rule. */
static int try_loopback(int family)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	struct sockaddr_in four = { .sin_family = AF_INET };
	bool ipv6 = family == AF_INET6;
	struct sockaddr *address = ipv6 ? (struct sockaddr *)&six : (struct sockaddr *)&four;
	socklen_t length = ipv6 ? sizeof(six) : sizeof(four);
	struct timeval second = { .tv_sec = 1 };
	char byte = 1;
	int err = 0, fd = socket(family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return errno;
	four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	set_option(fd, ipv6 ? IPPROTO_IPV6 : IPPROTO_IP,
		   ipv6 ? IPV6_MTU_DISCOVER : IP_MTU_DISCOVER, IP_PMTUDISC_DO);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &second, sizeof(second));
	if (bind(fd, address, length) || getsockname(fd, address, &length) ||
	    sendto(fd, &byte, 1, 0, address, length) != 1 || recv(fd, &byte, 1, 0) != 1)
		err = errno;
	close(fd);
	return err;
}

static void check_loopback(void)
{
	int err = try_loopback(AF_INET);

	if (err)
		report(VERDICT_BAD, "loopback", "UDP over 127.0.0.1", "%s: check that lo is up and no firewall "
		       "drops UDP", strerror(err));
	else
		report(VERDICT_GOOD, "loopback", "UDP over 127.0.0.1", "works");
	err = try_loopback(AF_INET6);
	if (err)
		report(VERDICT_NOTE, "loopback", "UDP over ::1", "%s: IPv6 GIDs will not work", strerror(err));
	else
		report(VERDICT_GOOD, "loopback", "UDP over ::1", "works");
}

/* Largest path MTU whose packets fit: 40 IPv6 + 8 UDP + 12 BTH + 16 RETH + 4 ICRC. */
static int path_mtu(int interface_mtu)
{
	int mtu = 4096;

	while (mtu >= 256 && mtu + 80 > interface_mtu)
		mtu /= 2;
	return mtu >= 256 ? mtu : 0;
}

static void check_interface(const char *name)
{
	struct ifreq request = { 0 };
	char what[IF_NAMESIZE + 16];
	int mtu, fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	snprintf(what, sizeof(what), "interface %s", name);
	snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
	if (fd < 0 || ioctl(fd, SIOCGIFMTU, &request)) {
		report(VERDICT_NOTE, "interface", what, "cannot query its MTU: %s", strerror(errno));
	} else {
		mtu = path_mtu(request.ifr_mtu);
		if (!mtu)
			report(VERDICT_NOTE, "interface", what, "MTU %d is too small for any path MTU",
			       request.ifr_mtu);
		else
			report(VERDICT_GOOD, "interface", what, "MTU %d, path MTU %d%s", request.ifr_mtu, mtu,
			       mtu < 4096 ? "; an MTU of 4176 or more would give 4096" : "");
	}
	if (fd >= 0)
		close(fd);
}

/* Each interface once: getifaddrs() has a row for each address. */
static void check_interfaces(void)
{
	struct ifaddrs *all, *one, *before;
	unsigned count = 0;

	if (getifaddrs(&all)) {
		report(VERDICT_BAD, "interfaces", "interfaces", "cannot be listed: %s", strerror(errno));
		return;
	}
	for (one = all; one; one = one->ifa_next) {
		if (!one->ifa_addr || !(one->ifa_flags & IFF_UP) ||
		    (one->ifa_addr->sa_family != AF_INET && one->ifa_addr->sa_family != AF_INET6))
			continue;
		for (before = all; before != one; before = before->ifa_next)
			if (before->ifa_addr && !strcmp(before->ifa_name, one->ifa_name) &&
			    (before->ifa_addr->sa_family == AF_INET ||
			     before->ifa_addr->sa_family == AF_INET6))
				break;
		if (before != one)
			continue;
		check_interface(one->ifa_name);
		count++;
	}
	freeifaddrs(all);
	if (!count)
		report(VERDICT_BAD, "interfaces", "interfaces", "none is up and has an address: no devices; to "
		       "get one: ip link set lo up");
}

void doctor_network(void)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0) {
		report(VERDICT_BAD, "sockets", "UDP sockets", "%s", strerror(errno));
		return;
	}
	check_offloads(fd);
	check_receive_buffer(fd);
	check_selector(fd);
	close(fd);
	check_loopback();
	check_interfaces();
}
