/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VERBATIM_EXPLAIN: why an address, a port or a peer cannot be used, the devices of the host, and
 * advice.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "cm/endpoint/internal.h"

#define DEVICES_BYTES	1024
#define ADDRESS_BYTES	(INET6_ADDRSTRLEN + 24)

static const char *address_text(const struct endpoint_address *address, char *text, size_t bytes)
{
	char ip[INET6_ADDRSTRLEN] = "?";

	if (address->family == AF_INET)
		inet_ntop(AF_INET, address->bytes + 12, ip, sizeof(ip));
	else
		inet_ntop(AF_INET6, address->bytes, ip, sizeof(ip));
	if (address->family == AF_IB)
		snprintf(text, bytes, "GID %s, port %u", ip, address->port);
	else if (address->scope)
		snprintf(text, bytes, "%s%%%u, port %u", ip, address->scope, address->port);
	else
		snprintf(text, bytes, "%s, port %u", ip, address->port);
	return text;
}

static const char *explain_reason(int err)
{
	bool by_fabric = agent.gsi && net_has_ib(gsi_net(agent.gsi)) && !net_has_interfaces();

	switch (err) {
	case ENODEV:
		return "the address or the route to it belongs to an interface without an RDMA "
		       "device (check VERBATIM_DEVICES)";
	case EADDRNOTAVAIL:
		return "it is not an address of this host, or no port is left";
	case EADDRINUSE:
		return "the port is taken by a process of this host: choose another port, or end "
		       "that process";
	case ENETUNREACH:
	case EHOSTUNREACH:
		if (by_fabric)
			return "no port of the fabric has this address, or this host has none in its "
			       "partition: they are given in the fabric's file: host \"NAME\" ip=ADDRESS, "
			       "ip=ADDRESS@PKEY; without that hosts have 127.77.0.1, 127.77.0.2 and "
			       "so on (verbatim fabric --say show)";
		return "there is no route to it (see 'ip route get ADDRESS')";
	case ETIMEDOUT:
		return "the next hop to it answered no ARP or neighbour discovery within the timeout: "
		       "that host is down, or it is not its address (look at ip neigh)";
	case EINVAL:
		return "a link-local address needs its interface (fe80::1%eth0), and source and "
		       "destination need one address family";
	case EPROTONOSUPPORT:
		return "the service ID does not match the port space given to rdma_create_id()";
	default:
		return strerror(err);
	}
}

static const char *explain_devices(char devices[DEVICES_BYTES])
{
	return net_describe_devices(agent.gsi ? gsi_net(agent.gsi) : NULL, devices, DEVICES_BYTES);
}

int explain_address(const char *what, const struct endpoint_address *address, int err)
{
	char devices[DEVICES_BYTES], text[ADDRESS_BYTES];

	if (!err)
		return 0;
	if (!explaining()) {
		explain_missed(err);
		return err;
	}
	explain_refused(what, err, "%s: %s: %s. Devices: %s", what, address_text(address, text, sizeof(text)),
			explain_reason(err), explain_devices(devices));
	return err;
}

void explain_backlog(const struct endpoint *listener)
{
	char text[ADDRESS_BYTES];

	explain("rdma_listen: %s: the backlog of %d is full, a request is refused: call rdma_get_cm_event "
		"sooner, or give rdma_listen a larger backlog (0: 1024)",
		address_text(&listener->source, text, sizeof(text)), listener->backlog);
}

static void explain_unreachable(const struct endpoint *endpoint, int status)
{
	char about[16], devices[DEVICES_BYTES], text[ADDRESS_BYTES];
	const char *peer = address_text(&endpoint->destination, text, sizeof(text));

	if (status > 0) {
		snprintf(about, sizeof(about), "sidr %d", status);
		explain_about(about, OF_NOTHING, "unreachable: %s: %s (SIDR status %d)", peer,
				    cm_sidr_text((uint8_t)status), status);
		return;
	}
	explain_about("UNREACHABLE", OF_NOTHING,
			    "unreachable: %s: no answer to packets from %s: check the address, that the "
			    "server runs and is not stopped, and that %s; local devices: %s",
			    peer, endpoint->port ? endpoint->port->gid.device : "no device",
			    endpoint_is_ib(endpoint) ? "there is a way (verbatim route)" :
						       "UDP port 4791 is open",
			    explain_devices(devices));
}

static void explain_rejected(const struct endpoint *endpoint, int status)
{
	char about[16] = "REJECTED", text[ADDRESS_BYTES];
	const char *why = cm_reject_text((uint16_t)status);

	if (why)
		snprintf(about, sizeof(about), "reject %d", status);
	explain_about(about, OF_NOTHING, "rejected: %s: %s (reason %d)",
			    address_text(&endpoint->destination, text, sizeof(text)),
			    why ? why : "unknown reason", status);
}

void explain_event(const struct endpoint *endpoint, const struct queued_event *event)
{
	if (!explaining() && event->status)
		explain_missed(0);
	if (!explaining())
		return;
	switch (event->kind) {
	case RDMA_CM_EVENT_REJECTED:
		explain_rejected(endpoint, event->status);
		break;
	case RDMA_CM_EVENT_UNREACHABLE:
		explain_unreachable(endpoint, event->status);
		break;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		if (!endpoint_is_ib(endpoint))	/* else it was told why (ib.c) */
			explain_address("rdma_resolve_route", &endpoint->destination, -event->status);
		break;
	default:
		break;
	}
}

/* By enum endpoint_call. Joining explains itself (multicast.c). */
static const char *const call_names[ENDPOINT_CALL_COUNT] = {
	[ENDPOINT_CALL_BIND] = "rdma_bind_addr",
	[ENDPOINT_CALL_ADDRESS] = "rdma_resolve_addr",
	[ENDPOINT_CALL_ROUTE] = "rdma_resolve_route",
	[ENDPOINT_CALL_PATH] = "rdma_set_option(RDMA_OPTION_IB_PATH)",
	[ENDPOINT_CALL_LISTEN] = "rdma_listen",
	[ENDPOINT_CALL_CONNECT] = "rdma_connect",
	[ENDPOINT_CALL_ASK] = "rdma_connect",
	[ENDPOINT_CALL_ACCEPT] = "rdma_accept",
	[ENDPOINT_CALL_REJECT] = "rdma_reject",
	[ENDPOINT_CALL_ESTABLISH] = "rdma_establish",
	[ENDPOINT_CALL_NOTIFY] = "rdma_notify",
	[ENDPOINT_CALL_DISCONNECT] = "rdma_disconnect",
};

int explain_out_of_turn(enum endpoint_call call, const struct endpoint *endpoint, int err)
{
	if (err && call_names[call])
		explain_refused(call_names[call], err, "%s: not allowed while the id is in state "
				"'%s': %s",
				call_names[call], state_name(endpoint->state),
				endpoint->busy ? "another call on it is in progress: let it "
						"return first" :
						 state_next(endpoint->state));
	return err;
}

int explain_too_long(const char *call, size_t bytes, size_t limit)
{
	if (bytes <= limit)
		return 0;
	explain_refused(call, EINVAL, "%s: %zu bytes of private data exceed the limit of %zu", call, bytes,
			limit);
	return EINVAL;
}

void explain_peer_ended(const struct endpoint *endpoint)
{
	char text[ADDRESS_BYTES];

	explain("the peer of the id (%s, to %s) was a process of %s that has ended: it "
			"was killed, has crashed, or "
		"exited without rdma_disconnect", state_name(endpoint->state),
		address_text(&endpoint->destination, text, sizeof(text)),
		endpoint_is_ib(endpoint) ? "a node of the fabric" : "this host");
}

static const char *const event_names[ENDPOINT_EVENTS] = {
#define EVENT(number, name) [number] = #name,
#include "cm/endpoint/event.def"
#undef EVENT
};

void explain_held(const struct endpoint *endpoint, const char *call)
{
	char names[320] = "";
	const char *name;
	size_t used = 0;

	for (unsigned kind = 0; kind < ENDPOINT_EVENTS; kind++) {
		if (!endpoint->held_of[kind] || used >= sizeof(names))
			continue;
		name = event_names[kind];
		/* Which the library turns into ESTABLISHED. */
		if (kind == RDMA_CM_EVENT_CONNECT_RESPONSE && endpoint->state != STATE_REP_RECEIVED)
			name = event_names[RDMA_CM_EVENT_ESTABLISHED];
		used += (size_t)snprintf(names + used, sizeof(names) - used, "%s%s", used ? ", " : "",
					 name ? name : "another event");
	}
	explain("%s has waited for more than a second: events taken and not acknowledged: %u (%s): call "
		"rdma_ack_cm_event for each, before it", call, endpoint->held, names);
}

/* Nothing happens to an id in this state that the application does not ask for. */
static bool is_idle(const struct endpoint *endpoint) REQUIRES(agent.lock)
{
	switch ((enum endpoint_state)endpoint->state) {
	case STATE_NEW:
	case STATE_BOUND:
	case STATE_ADDRESS:
	case STATE_ROUTE:
	case STATE_REP_RECEIVED:
	case STATE_REQUESTED:
	case STATE_FAILED:
	case STATE_TIMEWAIT_OVER:
	case STATE_SIDR_RECEIVED:
		return !endpoint->busy && !endpoint->groups;
	default:
		return false;
	}
}

bool channel_waits_for_calls(const struct cm_channel *channel, char *words, size_t size)
{
	const struct endpoint *first = NULL;
	unsigned count = 0;
	struct list *node;

	list_for_each(node, &agent.endpoints) {
		const struct endpoint *endpoint = list_entry(node, struct endpoint, node);

		if (endpoint->channel != channel)
			continue;
		if (!is_idle(endpoint))
			return false;
		if (!count++)
			first = endpoint;
	}
	if (first)
		snprintf(words, size, "the id of the channel%s is '%s': %s",
			 count == 1 ? "" : ", the first of several,", state_name(first->state),
			 state_next(first->state));
	return first;
}
