/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Socket options. Most options are a number that is kept and given back: what they ask
 * for is either so by nature (TCP_NODELAY: nothing is delayed) or not done here (SO_KEEPALIVE).
 * Those about sizes count until the connection is made, for then the memory is.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/time.h>

#include "base/log.h"
#include "rsockets/rsocket.h"

enum when { ALWAYS, BEFORE_CONNECT };

/* Options that are a number in struct rs_options. */
static const struct number_option {
	int level, name;
	size_t offset, size;		/* of the field */
	uint32_t least, greatest;	/* other values become these */
	enum when when;
	uint32_t scale;			/* kept = given * scale */
} number_options[] = {
#define FIELD(field) offsetof(struct rs_options, field), sizeof(((struct rs_options *)0)->field)
	{ SOL_SOCKET, SO_RCVBUF, FIELD(receive_bytes), RS_RING_MIN, RS_RING_MAX, BEFORE_CONNECT },
	{ SOL_SOCKET, SO_SNDBUF, FIELD(send_bytes), RS_RING_MIN, RS_RING_MAX, BEFORE_CONNECT },
	{ SOL_SOCKET, SO_RCVBUFFORCE, FIELD(receive_bytes), RS_RING_MIN, RS_RING_MAX,
		BEFORE_CONNECT },
	{ SOL_SOCKET, SO_SNDBUFFORCE, FIELD(send_bytes), RS_RING_MIN, RS_RING_MAX, BEFORE_CONNECT },
	{ SOL_SOCKET, SO_REUSEADDR, FIELD(reuse_address), 0, 1, ALWAYS },
	{ SOL_SOCKET, SO_KEEPALIVE, FIELD(keep_alive), 0, 1, ALWAYS },
	{ SOL_SOCKET, SO_OOBINLINE, FIELD(oob_inline), 0, 1, ALWAYS },
	{ IPPROTO_TCP, TCP_NODELAY, FIELD(no_delay), 0, 1, ALWAYS },
	{ IPPROTO_TCP, TCP_MAXSEG, FIELD(segment), 0, UINT16_MAX, ALWAYS },
	{ IPPROTO_TCP, TCP_KEEPIDLE, FIELD(keep_idle), 1, 32767, ALWAYS },
	{ IPPROTO_TCP, TCP_KEEPINTVL, FIELD(keep_interval), 1, 32767, ALWAYS },
	{ IPPROTO_TCP, TCP_KEEPCNT, FIELD(keep_count), 1, 127, ALWAYS },
	{ IPPROTO_IP, IP_TOS, FIELD(tos), 0, 255, ALWAYS },
	{ IPPROTO_IPV6, IPV6_TCLASS, FIELD(tos), 0, 255, ALWAYS },
	{ IPPROTO_IPV6, IPV6_V6ONLY, FIELD(v6_only), 0, 1, BEFORE_CONNECT },
	{ SOL_RDMA, RDMA_SQSIZE, FIELD(send_requests), 16, 32768, BEFORE_CONNECT },
	{ SOL_RDMA, RDMA_RQSIZE, FIELD(receive_requests), 16, 32768, BEFORE_CONNECT },
	{ SOL_RDMA, RDMA_INLINE, FIELD(inline_bytes), 0, 2048, BEFORE_CONNECT },
	{ SOL_RDMA, RDMA_IOMAPSIZE, FIELD(iomaps), 0, UINT16_MAX, BEFORE_CONNECT },
#undef FIELD
};

static const struct number_option *rs_option_find_number(int level, int name)
{
	for (size_t i = 0; i < sizeof(number_options) / sizeof(number_options[0]); i++)
		if (number_options[i].level == level && number_options[i].name == name)
			return &number_options[i];
	return NULL;
}

static int rs_option_set_number(struct rsocket *rs, const struct number_option *option,
				const void *value, socklen_t length)
{
	bool has_memory = rs->type == SOCK_STREAM ? rs->stream.qp != NULL : rs->datagram.bound;
	uint32_t number;
	int given;
	char *field;

	if (length < sizeof(given))
		return EINVAL;
	memcpy(&given, value, sizeof(given));
	if (option->when == BEFORE_CONNECT && has_memory) {
		/* As the kernel: sizes are wishes, taken when they can be. */
		if (option->level == SOL_SOCKET)
			return 0;
		explain_of(OF(RSOCKET, (unsigned)rs->fd),
			"rsocket %d: option %d of level 0x%x is fixed after connect and accept: "
			"set it on the new socket, or on the listening one", rs->fd, option->name,
			(unsigned)option->level);
		return EINVAL;
	}
	if (given < 0)
		return EINVAL;
	number = (uint32_t)given;
	if (option->greatest == 1)
		number = number != 0;
	if (number < option->least)
		number = option->least;
	if (number > option->greatest)
		number = option->greatest;
	field = (char *)&rs->options + option->offset;
	if (option->size == 1)
		*(bool *)field = number != 0;
	else
		*(uint32_t *)field = number;
	return 0;
}

/* ---- the others ---- */

static int set_timeout(int *timeout_ms, const void *value, socklen_t length)
{
	struct timeval time;
	int64_t ms;

	if (length < sizeof(time))
		return EINVAL;
	memcpy(&time, value, sizeof(time));
	if (time.tv_usec < 0 || time.tv_usec >= 1000000)
		return EDOM;
	if (time.tv_sec < 0)
		ms = 1;
	else if (time.tv_sec > INT_MAX / 1000 - 1)
		ms = 0;				/* longer than anyone waits */
	else
		ms = (int64_t)time.tv_sec * 1000 + (time.tv_usec + 999) / 1000;
	*timeout_ms = (int)ms;
	return 0;
}

static int set_option(struct rsocket *rs, int level, int name, const void *value, socklen_t length)
{
	const struct number_option *number = rs_option_find_number(level, name);
	void *route;

	if (number)
		return rs_option_set_number(rs, number, value, length);
	if (level == SOL_SOCKET && name == SO_RCVTIMEO)
		return set_timeout(&rs->options.receive_timeout_ms, value, length);
	if (level == SOL_SOCKET && name == SO_SNDTIMEO)
		return set_timeout(&rs->options.send_timeout_ms, value, length);
	if (level == SOL_SOCKET && name == SO_LINGER) {
		if (length < sizeof(struct linger))
			return EINVAL;
		memcpy(&rs->options.linger, value, sizeof(struct linger));
		return 0;
	}
	if (level == SOL_RDMA && name == RDMA_ROUTE) {
		if (!length || length % sizeof(struct ibv_path_data))
			return EINVAL;
		route = malloc(length);
		if (!route)
			return ENOMEM;
		memcpy(route, value, length);
		free(rs->route);
		rs->route = route;
		rs->route_bytes = length;
		return 0;
	}
	return ENOPROTOOPT;
}

int rsetsockopt(int socket, int level, int optname, const void *optval, socklen_t optlen)
{
	CALL_HOLDING();
	struct rsocket *rs = rs_get(socket);
	int err;

	if (!rs)
		return -1;
	lock_acquire(&rs->lock);
	err = optval ? set_option(rs, level, optname, optval, optlen) : EFAULT;
	lock_release(&rs->lock);
	rs_put(rs);
	return rs_result(err);
}

/* As the kernel: what does not fit is cut off. */
static int rs_option_give(void *to, socklen_t *length, const void *value, size_t bytes)
{
	*length = (socklen_t)rs_least(*length, bytes);
	memcpy(to, value, *length);
	return 0;
}

static int rs_option_give_timeout(void *to, socklen_t *length, int timeout_ms)
{
	struct timeval time = { .tv_sec = timeout_ms / 1000,
				.tv_usec = (suseconds_t)(timeout_ms % 1000) * 1000 };

	return rs_option_give(to, length, &time, sizeof(time));
}

static int give_number(void *to, socklen_t *length, int number)
{
	return rs_option_give(to, length, &number, sizeof(number));
}

static int get_socket_option(struct rsocket *rs, int name, void *value, socklen_t *length)
	REQUIRES(rs->lock)
{
	switch (name) {
	case SO_ERROR:
		rs_progress_locked(rs, true);
		return give_number(value, length, rs_take_error_locked(rs, 0));
	case SO_TYPE:
		return give_number(value, length, rs->type);
	case SO_DOMAIN:
		return give_number(value, length, rs->domain);
	case SO_PROTOCOL:
		return give_number(value, length,
				   rs->type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP);
	case SO_ACCEPTCONN:
		return give_number(value, length, rs->state == RS_LISTENING);
	case SO_LINGER:
		return rs_option_give(value, length, &rs->options.linger,
				      sizeof(rs->options.linger));
	case SO_RCVTIMEO:
		return rs_option_give_timeout(value, length, rs->options.receive_timeout_ms);
	case SO_SNDTIMEO:
		return rs_option_give_timeout(value, length, rs->options.send_timeout_ms);
	}
	return ENOPROTOOPT;
}

/* The path records of the route, or what rdma_resolve_route() found. */
static int get_route(struct rsocket *rs, void *value, socklen_t *length)
{
	struct ibv_path_data found = { 0 };

	if (rs->route)
		return rs_option_give(value, length, rs->route, rs->route_bytes);
	if (!rs->id || !rs->id->route.num_paths)
		return ENODATA;
	found.flags = IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL;
	found.path.flowlabel_hoplimit = htonl(rs->id->route.path_rec->hop_limit);
	found.path.dgid = rs->id->route.path_rec->dgid;
	found.path.sgid = rs->id->route.path_rec->sgid;
	found.path.pkey = rs->id->route.path_rec->pkey;
	found.path.mtu = (uint8_t)(rs->id->route.path_rec->mtu | 2 << 6);
	found.path.reversible_numpath = 1 << 7;
	return rs_option_give(value, length, &found, sizeof(found));
}

static int get_option(struct rsocket *rs, int level, int name, void *value, socklen_t *length)
	REQUIRES(rs->lock)
{
	const struct number_option *number = rs_option_find_number(level, name);
	const void *field = number ? (const char *)&rs->options + number->offset : NULL;

	if (number)
		return give_number(value, length, number->size == 1 ? *(const uint8_t *)field :
								      (int)*(const uint32_t *)field);
	if (level == SOL_SOCKET)
		return get_socket_option(rs, name, value, length);
	if (level == SOL_RDMA && name == RDMA_ROUTE)
		return get_route(rs, value, length);
	if (level == SOL_RDMA && name == SIOCATMARK) {
		/* What ioctl(2) tells of a socket under that number; there is no rioctl(). */
		if (rs->type != SOCK_STREAM || rs->state == RS_LISTENING)
			return EINVAL;
		rs_progress_locked(rs, false);
		return give_number(value, length,
				   rs_urgent_is_next(&rs->stream.urgent, rs->stream.in.taken));
	}
	return ENOPROTOOPT;
}

int rgetsockopt(int socket, int level, int optname, void *optval, socklen_t *optlen)
{
	CALL_HOLDING();
	struct rsocket *rs = rs_get(socket);
	int err;

	if (!rs)
		return -1;
	lock_acquire(&rs->lock);
	err = optval && optlen ? get_option(rs, level, optname, optval, optlen) : EFAULT;
	lock_release(&rs->lock);
	rs_put(rs);
	return rs_result(err);
}
