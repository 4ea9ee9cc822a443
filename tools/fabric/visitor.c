/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Programs that are connected to the room: ib/protocol.h. Nothing that a program does or leaves
 * undone holds up the others:
 *
 *	one that sends much		a share of each turn, VISITOR_MESSAGES
 *	one that reads nothing		a queue of its own, bounded; the rest is lost, and counted
 *					(packets of data: data.c)
 *	one that sends nonsense		its connection ends
 *	too many			those that have opened nothing go first; of another user
 *					than the fabric's, at most VISITORS_OF_OTHER
 *	one that is killed		its connection ends, and with it what it had
 */
#include "fabric/visitor.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "fabric/rmpp.h"
#include "ib/parcel.h"
#include "platform/clock.h"
#include "wire/smp.h"

#define VISITOR_MESSAGES	64u		/* in one turn */
#define DATA_BATCHES		4u		/* of packets, likewise */
#define LETTERS_AT_ONCE		32u
#define QUEUE_MADS		8192u		/* that a program has not read */
#define QUEUE_TEXT		(64u << 20)	/* bytes of answers that it has not read */
#define MESSAGE_MAX		(sizeof(struct ctl_head) + CTL_BODY_MAX)
#define PAUSE_US		1000000u
#define VISITORS_OF_OTHER	(VISITORS_MAX / 4)	/* of a user who does not run the fabric */
#define BACKLOG			256

/* ---- to a program ---- */

void visitor_leave(struct visitor *visitor)
{
	visitor->gone = true;
}

void visitor_watch(struct visitor *visitor)
{
	unsigned events = (visitor->paused ? 0 : EPOLLIN) |
			  (list_empty(&visitor->queue) ? 0 : EPOLLOUT);

	if (visitor->events == events || visitor->hung)
		return;
	visitor->events = events;
	if (room_watch(visitor->room, visitor->fd, &visitor->watch, events))
		visitor_leave(visitor);
}

void visitor_queue(struct visitor *visitor, struct letter *letter)
{
	list_add_tail(&visitor->queue, &letter->node);
	visitor->letters++;
	visitor->queued += letter->bytes + LETTER_BYTES;
	if (visitor->attached)
		visitor->room->data_queued += letter->bytes + LETTER_BYTES;
}

static void letter_free(struct visitor *visitor, struct letter *letter)
{
	list_remove(&letter->node);
	visitor->letters--;
	visitor->queued -= letter->bytes + LETTER_BYTES;
	if (visitor->attached)
		visitor->room->data_queued -= letter->bytes + LETTER_BYTES;
	free(letter);
}

/* 0; EAGAIN: its socket is full. What ended the connection shows when it is read. */
static int visitor_write(struct visitor *visitor, const struct iovec *iov, int count)
{
	int err = parcel_send(visitor->fd, iov, count);

	if (!err || err == EAGAIN || err == ENOBUFS)
		return err ? EAGAIN : 0;
	visitor->lost += visitor->file != NULL;
	return 0;
}

/* Letters at the head of the queue that go as they are. Returns how many were written. */
static unsigned visitor_write_many(struct visitor *visitor)
{
	struct mmsghdr message[LETTERS_AT_ONCE];
	struct iovec iov[LETTERS_AT_ONCE];
	unsigned count = 0;
	struct list *at;
	int sent;

	list_for_each(at, &visitor->queue) {
		struct letter *letter = list_entry(at, struct letter, node);

		if (count == LETTERS_AT_ONCE || letter->bytes > PARCEL_INLINE_MAX)
			break;
		iov[count] = (struct iovec){ .iov_base = letter->data, .iov_len = letter->bytes };
		message[count] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &iov[count],
								.msg_iovlen = 1 } };
		count++;
	}
	sent = count > 1 ? sendmmsg(visitor->fd, message, count, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
	return sent > 0 ? (unsigned)sent : 0;
}

void visitor_flush(struct visitor *visitor)
{
	unsigned before = visitor->letters;

	while (!list_empty(&visitor->queue)) {
		struct letter *letter = list_entry(visitor->queue.next, struct letter, node);
		struct iovec iov = { .iov_base = letter->data, .iov_len = letter->bytes };
		unsigned written = visitor_write_many(visitor);

		if (!written && visitor_write(visitor, &iov, 1))
			break;
		for (written += !written; written; written--)
			letter_free(visitor, list_entry(visitor->queue.next, struct letter, node));
	}
	visitor_watch(visitor);
	if (visitor->attached)
		data_drained(visitor, visitor->letters < before);
}

/* In its order, behind what it has not read. False: it does not fit. */
static bool visitor_send(struct visitor *visitor, const struct iovec *iov, int count)
{
	struct letter *letter;
	size_t bytes = 0;

	if (visitor->gone)
		return true;
	if (list_empty(&visitor->queue) && !visitor_write(visitor, iov, count))
		return true;
	for (int i = 0; i < count; i++)
		bytes += iov[i].iov_len;
	if ((!visitor->attached && visitor->letters >= QUEUE_MADS) ||
	    visitor->queued + bytes > QUEUE_TEXT)
		return false;
	letter = malloc(sizeof(*letter) + bytes);
	if (!letter)
		return false;
	letter->bytes = 0;
	for (int i = 0; i < count; i++) {
		memcpy(letter->data + letter->bytes, iov[i].iov_base, iov[i].iov_len);
		letter->bytes += iov[i].iov_len;
	}
	visitor_queue(visitor, letter);
	visitor_watch(visitor);
	return true;
}

/* @iov: the header, and the MAD in one piece or two. */
static void visitor_give(struct visitor *visitor, const struct iovec *iov, int count)
{
	const uint8_t *mad = iov[1].iov_base;

	if (visitor_send(visitor, iov, count))
		return;
	visitor->lost++;
	visitor->room->lost_mads++;
	fabric_count_dropped(visitor->room->fabric, visitor->at, visitor->port, mad_class_is_smp(mad[1]));
	if (visitor->told)
		return;
	visitor->told = true;
	room_say(visitor->room, "%s (%d) does not read its MADs: what does not fit is lost",
		 visitor->program, (int)visitor->pid);
}

void visitors_receive(void *user, const struct agent_header *header, const uint8_t *mad, size_t bytes)
{
	const struct iovec iov[2] = { { .iov_base = (void *)(uintptr_t)header, .iov_len = sizeof(*header) },
				      { .iov_base = (void *)(uintptr_t)mad, .iov_len = bytes } };

	visitor_give(user, iov, 2);
}

void visitors_receive_sealed(void *user, const struct agent_header *header, const uint8_t *first,
			     struct rmpp_sealed *rest)
{
	struct iovec iov[3] = { { .iov_base = (void *)(uintptr_t)header, .iov_len = sizeof(*header) },
				{ .iov_base = (void *)(uintptr_t)first, .iov_len = MAD_BYTES },
				{ .iov_base = (void *)(uintptr_t)(rest->message + MAD_BYTES),
				  .iov_len = rest->bytes - MAD_BYTES } };
	struct visitor *visitor = user;
	uint8_t head[PARCEL_HEAD];

	memcpy(head, header, sizeof(*header));
	memcpy(head + sizeof(*header), first, MAD_BYTES);
	/* What has to wait is a copy: descriptors are few. */
	if (visitor->gone || !list_empty(&visitor->queue) || sealed_file(rest) < 0 ||
	    parcel_pass(visitor->fd, head, sealed_file(rest)))
		visitor_give(visitor, iov, 3);
}

_Static_assert(PARCEL_HEAD == sizeof(struct agent_header) + MAD_BYTES, "the first MAD of a parcel is whole");

void visitor_answer(struct visitor *visitor, enum ctl_kind kind, int status, uint64_t value,
		    const void *body, size_t bytes)
{
	struct ctl_head head = { .magic = CTL_MAGIC,
				 .version = CTL_VERSION,
				 .kind = (uint16_t)kind,
				 .status = (uint32_t)status,
				 .bytes = (uint32_t)bytes,
				 .value = value };
	struct iovec iov[2] = { { .iov_base = &head, .iov_len = sizeof(head) },
				{ .iov_base = (void *)(uintptr_t)body, .iov_len = bytes } };

	if (!visitor_send(visitor, iov, 2))
		visitor_leave(visitor);		/* an answer with a hole is none */
}

void visitor_end(struct visitor *visitor, int status, uint64_t value, const char *why)
{
	visitor_answer(visitor, CTL_END, status, value, why, status ? strlen(why) + 1 : 0);
}

/* Text in pieces. */
static void visitor_text(struct visitor *visitor, const char *text, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += CTL_TEXT_MAX) {
		size_t piece = bytes - at < CTL_TEXT_MAX ? bytes - at : CTL_TEXT_MAX;

		visitor_answer(visitor, CTL_TEXT, 0, 0, text + at, piece);
	}
}

/* ---- what a program asks ---- */

static bool ports_take(void *context, const struct ctl_port *port, uint32_t node)
{
	visitor_answer(context, CTL_PORT, 0, 0, port, sizeof(*port));
	return true;
}

/* FABRIC_NONE: it was told why. */
static uint32_t visitor_host(struct visitor *visitor, const struct ctl_place *place)
{
	char why[PATH_MAX];
	uint32_t host = room_find_host(visitor->room, place->node, why, sizeof(why));

	if (host == FABRIC_NONE)
		visitor_end(visitor, EINVAL, 0, why);
	return host;
}

static void visitor_ports(struct visitor *visitor, const struct ctl_place *place)
{
	uint32_t host = visitor_host(visitor, place);

	if (host == FABRIC_NONE)
		return;
	room_ports(visitor->room, host, ports_take, visitor);
	visitor_end(visitor, 0, 0, NULL);
}

static void visitor_open(struct visitor *visitor, const struct ctl_place *place)
{
	uint32_t host = visitor_host(visitor, place);
	struct ctl_port port;

	if (host == FABRIC_NONE)
		return;
	if (!room_find_device(visitor->room, host, place->device, place->port, &visitor->at, &port))
		return visitor_end(visitor, ENODEV, 0, "the node has no such device and port");
	visitor->file = agents_open(visitor->room->agents, visitor->at, place->port, visitor);
	if (!visitor->file)
		return visitor_end(visitor, ENOMEM, 0, "no memory");
	visitor->port = place->port;
	strcpy(visitor->device, place->device);
	do
		visitor->token = random_u64();
	while (!visitor->token);
	visitor_end(visitor, 0, visitor->token, NULL);
}

static void visitor_attach(struct visitor *visitor, const struct ctl_place *place)
{
	uint32_t host = visitor_host(visitor, place);

	if (host != FABRIC_NONE)
		data_attach(visitor, host);
}

static void visitor_route(struct visitor *visitor, const struct ctl_route *asked)
{
	uint32_t host = visitor_host(visitor, &asked->place), node;
	struct fabric_question question = {
		.dlid = (uint16_t)asked->dlid, .sl = asked->sl & 0xf,
		.pkey = (uint16_t)asked->pkey, .payload = asked->payload,
	};
	const char *device = *asked->place.device ? asked->place.device : "vb_ib0";
	char *text = NULL, *last;
	struct ctl_port port;
	size_t bytes = 0;
	bool arrives;
	FILE *out;

	if (host == FABRIC_NONE)
		return;
	if (!room_find_device(visitor->room, host, device, asked->place.port, &node, &port))
		return visitor_end(visitor, ENODEV, 0, "the node has no such device and port");
	out = open_memstream(&text, &bytes);
	if (!out)
		return visitor_end(visitor, ENOMEM, 0, "no memory");
	question.node = node;
	question.port = asked->place.port;
	arrives = fabric_print_route(visitor->room->fabric, &question, out);
	fclose(out);
	visitor_text(visitor, text, bytes);
	if (bytes && text[bytes - 1] == '\n')
		text[bytes - 1] = '\0';
	last = strrchr(text, '\n');
	visitor_end(visitor, arrives ? 0 : EHOSTUNREACH, 0,
		    arrives ? NULL : last ? last + 1 : text);
	free(text);
}

static struct visitor *visitor_find(struct room *room, uint64_t token)
{
	struct list *at;

	list_for_each(at, &room->visitors) {
		struct visitor *found = list_entry(at, struct visitor, node);

		if (found->file && found->token == token && !found->gone)
			return found;
	}
	return NULL;
}

static void visitor_register(struct visitor *visitor, const struct ctl_agent *agent)
{
	struct visitor *of = visitor_find(visitor->room, agent->token);
	struct agent_request request = { .class = agent->class,
					 .class_version = agent->class_version,
					 .rmpp_version = agent->rmpp_version,
					 .flags = agent->flags,
					 .oui = agent->oui,
					 .methods = { agent->methods[0], agent->methods[1] } };
	uint32_t id = agent->id;
	int err = of ? agents_register(of->file, &request, &id) : EBADF;

	visitor_end(
		visitor, err, id,
		err == EBUSY ? "one of its methods is taken on this port by another program"
		: err == EINVAL
			? "no such class, version, flag or OUI, or RMPP with a class that has none"
		: err == EBADF	? "no such descriptor"
		: err == ENOMEM ? "32 agents are there"
				: "");
}

static void visitor_unregister(struct visitor *visitor, const struct ctl_agent *agent)
{
	struct visitor *of = visitor_find(visitor->room, agent->token);
	int err = of ? agents_unregister(of->file, agent->id) : EBADF;

	visitor_end(visitor, err, 0, err ? "no such agent" : NULL);
}

static void visitor_issm(struct visitor *visitor, const struct ctl_place *place)
{
	uint32_t host = visitor_host(visitor, place), node;
	char path[PATH_MAX];
	struct ctl_port port;
	int err;

	if (host == FABRIC_NONE)
		return;
	if (!room_find_device(visitor->room, host, place->device, place->port, &node, &port))
		return visitor_end(visitor, ENODEV, 0, "the node has no such device and port");
	err = issm_path(visitor->room, node, place->port, path);
	if (!err)
		visitor_text(visitor, path, strlen(path) + 1);
	visitor_end(visitor, err, 0, err ? strerror(err) : NULL);
}

static void visitor_sysfs(struct visitor *visitor, const struct ctl_place *place, const char *path)
{
	char *text = NULL, why[PATH_MAX];
	size_t bytes = 0;
	bool directory = false;
	uint32_t host = room_find_host(visitor->room, place->node, why, sizeof(why));
	FILE *out = open_memstream(&text, &bytes);
	int err;

	if (!out)
		return visitor_end(visitor, ENOMEM, 0, "no memory");
	err = host == FABRIC_NONE ? ENODEV
				  : sysfs_answer(visitor->room, host, path, &directory, out);
	fclose(out);
	if (!err)
		visitor_text(visitor, text, bytes);
	free(text);
	visitor_end(visitor, err, directory, err ? "no such file" : NULL);
}

static void visitor_command(struct visitor *visitor, char *line)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);
	int err;

	if (!out)
		return visitor_end(visitor, ENOMEM, 0, "no memory");
	err = console_line(visitor->room, line, !visitor->owner, out);
	fclose(out);
	/* Of what failed the text is the reason; but that a route ends is an answer. */
	if (!err || err == EHOSTUNREACH)
		visitor_text(visitor, text, bytes);
	if (err && bytes && text[bytes - 1] == '\n')
		text[bytes - 1] = '\0';
	visitor_end(visitor, err, 0, err == EHOSTUNREACH ? "" : err ? text : NULL);
	free(text);
}

/* Texts within what a program sent end there. */
static bool place_is_sound(const struct ctl_place *place)
{
	return memchr(place->node, '\0', sizeof(place->node)) &&
	       memchr(place->device, '\0', sizeof(place->device));
}

/* @data may be changed. What is no question ends the connection. */
static void visitor_question(struct visitor *visitor, uint8_t *data, size_t bytes)
{
	struct ctl_place place;
	struct ctl_agent agent;
	struct ctl_address address;
	struct ctl_service service;
	struct ctl_route route;
	struct ctl_head head;
	char text[160];
	uint32_t host;

	if (bytes < sizeof(head))
		return visitor_leave(visitor);
	memcpy(&head, data, sizeof(head));
	data += sizeof(head);
	bytes -= sizeof(head);
	if (head.magic != CTL_MAGIC || head.bytes != bytes)
		return visitor_leave(visitor);
	if (head.version != CTL_VERSION) {
		snprintf(text, sizeof(text),
			 "the fabric is of another Verbatim (it speaks version %u, and not %u): end it, and start "
			 "it with the verbatim fabric of this one",
			 CTL_VERSION, head.version);
		return visitor_end(visitor, EPROTO, 0, text);
	}
	memset(&place, 0, sizeof(place));
	memset(&agent, 0, sizeof(agent));
	switch (head.kind) {
	case CTL_ROUTE:
		if (bytes != sizeof(route))
			return visitor_leave(visitor);
		memcpy(&route, data, sizeof(route));
		break;
	case CTL_ADDRESS:
		if (bytes != sizeof(address))
			return visitor_leave(visitor);
		memcpy(&address, data, sizeof(address));
		break;
	case CTL_SERVICE:
		if (bytes != sizeof(service))
			return visitor_leave(visitor);
		memcpy(&service, data, sizeof(service));
		break;
	case CTL_COMMAND:
	case CTL_SYSFS:
		if (!bytes || data[bytes - 1])
			return visitor_leave(visitor);
		break;
	case CTL_REGISTER:
	case CTL_UNREGISTER:
		if (bytes != sizeof(agent))
			return visitor_leave(visitor);
		memcpy(&agent, data, sizeof(agent));
		break;
	case CTL_PORTS:
	case CTL_ATTACH:
	case CTL_OPEN:
	case CTL_ISSM:
		if (bytes != sizeof(place))
			return visitor_leave(visitor);
		break;
	default:
		return visitor_leave(visitor);
	}
	if (head.kind == CTL_SYSFS || head.kind == CTL_PORTS || head.kind == CTL_ATTACH ||
	    head.kind == CTL_OPEN || head.kind == CTL_ISSM || head.kind == CTL_ROUTE ||
	    head.kind == CTL_ADDRESS || head.kind == CTL_SERVICE) {
		if (bytes < sizeof(place))
			return visitor_leave(visitor);
		memcpy(&place, data, sizeof(place));
		if (!place_is_sound(&place))
			return visitor_leave(visitor);
	}
	switch (head.kind) {
	case CTL_COMMAND:
		return visitor_command(visitor, (char *)data);
	case CTL_SYSFS:
		return visitor_sysfs(visitor, &place,
				     bytes > sizeof(place) ? (char *)data + sizeof(place) : "");
	case CTL_REGISTER:
		return visitor_register(visitor, &agent);
	case CTL_UNREGISTER:
		return visitor_unregister(visitor, &agent);
	case CTL_PORTS:
		return visitor_ports(visitor, &place);
	case CTL_OPEN:
		return visitor_open(visitor, &place);
	case CTL_ATTACH:
		return visitor_attach(visitor, &place);
	case CTL_ROUTE:
		return visitor_route(visitor, &route);
	case CTL_ADDRESS:
		return gmp_address(visitor, &address);
	case CTL_SERVICE:
		host = visitor_host(visitor, &place);
		return host == FABRIC_NONE ? (void)0 : gmp_service(visitor, host, &service);
	default:
		return visitor_issm(visitor, &place);
	}
}

/* ---- turns ---- */

/* A MAD that is refused is lost, as one on a bad cable is; what is too long, too. */
static void visitor_mad(struct visitor *visitor, const uint8_t *data, size_t bytes, int *file)
{
	struct rmpp_sealed *sealed;
	struct agent_header header;

	if (*file < 0) {
		agents_write(visitor->file, data, bytes, visitor->room->now_us);
		return;
	}
	if (bytes != PARCEL_HEAD)
		return;
	memcpy(&header, data, sizeof(header));
	if (header.length <= PARCEL_INLINE_MAX || header.length > sizeof(header) + RMPP_MESSAGE_MAX)
		return;
	sealed = sealed_open(visitor->room, data, header.length, file);
	if (!sealed)
		return;
	agents_write_sealed(visitor->file, data, sealed, visitor->room->now_us);
	rmpp_sealed_put(sealed);
}

/* False: there is nothing more, or it has gone. */
static bool visitor_read(struct visitor *visitor)
{
	static uint8_t data[PARCEL_INLINE_MAX];		/* of the one thread */
	int file;
	ssize_t got = parcel_receive(visitor->fd, data, sizeof(data), &file);

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (got < 0 && errno == EMSGSIZE && visitor->file)
		return true;
	if (got <= 0 || (!visitor->file && (file >= 0 || (size_t)got > MESSAGE_MAX)))
		visitor_leave(visitor);
	else if (visitor->file)
		visitor_mad(visitor, data, (size_t)got, &file);
	else
		visitor_question(visitor, data, (size_t)got);
	if (file >= 0)
		sealed_close_later(visitor->room, file);
	return !visitor->gone;
}

static void visitor_ready(struct watch *watch, uint32_t events)
{
	struct visitor *visitor = container_of(watch, struct visitor, watch);

	if (visitor->gone)
		return;
	if (events & EPOLLOUT)
		visitor_flush(visitor);
	if (visitor->paused && events & (EPOLLHUP | EPOLLERR)) {
		/* What it sent before is read when there is room for it; until then it would only wake us. */
		room_unwatch(visitor->room, visitor->fd);
		visitor->hung = true;
		visitor->events = 0;
	}
	if (visitor->paused || !(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	for (unsigned i = 0; i < (visitor->attached ? DATA_BATCHES : VISITOR_MESSAGES); i++)
		if (!(visitor->attached ? data_read(visitor) : visitor_read(visitor)))
			break;
}

static void visitor_free(struct visitor *visitor)
{
	if (visitor->file)
		agents_close(visitor->file);
	while (!list_empty(&visitor->queue))
		letter_free(visitor, list_entry(visitor->queue.next, struct letter, node));
	if (visitor->attached)
		data_detach(visitor);
	visitor->room->visitor_count--;
	list_remove(&visitor->node);
	close(visitor->fd);
	free(visitor);
}

void visitors_reap(struct room *room)
{
	struct list *at, *next;

	list_for_each_safe(at, next, &room->visitors) {
		struct visitor *visitor = list_entry(at, struct visitor, node);

		if (visitor->gone)
			visitor_free(visitor);
	}
	if (room->closing && agents_deadline_us(room->agents) > room->now_us)
		sealed_close_later(room, -1);
	if (room->pause_us <= room->now_us)
		room->pause_us = room_watch(room, room->listener, &room->listener_watch, EPOLLIN) ?
				 room->now_us + PAUSE_US : FABRIC_NEVER;
}

/* ---- coming and going ---- */

static bool is_owner(const struct ucred *ucred)
{
	return ucred->uid == geteuid() || ucred->uid == 0;
}

static void visitor_name(struct visitor *visitor)
{
	struct ucred ucred = { .uid = (uid_t)-1 };
	socklen_t bytes = sizeof(ucred);
	char path[64];
	FILE *file;

	getsockopt(visitor->fd, SOL_SOCKET, SO_PEERCRED, &ucred, &bytes);
	visitor->pid = ucred.pid;
	visitor->uid = ucred.uid;
	visitor->owner = is_owner(&ucred);
	strcpy(visitor->program, "a program");
	snprintf(path, sizeof(path), "/proc/%d/comm", (int)ucred.pid);
	file = fopen(path, "re");
	if (!file)
		return;
	if (fgets(visitor->program, sizeof(visitor->program), file))
		visitor->program[strcspn(visitor->program, "\n")] = '\0';
	for (char *c = visitor->program; *c; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
	fclose(file);
}

/* The user that runs the fabric, and root; others whom its directory lets in. */
static bool is_welcome(const struct room *room, int fd)
{
	struct ucred ucred = { .uid = (uid_t)-1 };
	socklen_t bytes = sizeof(ucred);

	return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &bytes) &&
	       (room->mode & 0077 || is_owner(&ucred));
}

/* To speak to a socket takes the right to write to it: of all who may look into the directory. */
static unsigned socket_mode(const struct room *room)
{
	return 0600u | (room->mode & 0040 ? 0060u : 0) | (room->mode & 0004 ? 0006u : 0);
}

/* Those that have opened and attached nothing are the ones that can come again. */
static void make_place(struct room *room)
{
	struct list *at;

	list_for_each(at, &room->visitors) {
		struct visitor *visitor = list_entry(at, struct visitor, node);

		if (!visitor->file && !visitor->attached && !visitor->gone) {
			visitor_leave(visitor);
			return;
		}
	}
}

/* Whoever may come by the mode of the directory leaves room for others. */
static bool is_one_too_many(const struct room *room, const struct visitor *visitor)
{
	unsigned same = 0;
	struct list *at;

	if (visitor->owner)
		return false;
	list_for_each(at, &room->visitors)
		same += list_entry(at, struct visitor, node)->uid == visitor->uid;
	return same >= VISITORS_OF_OTHER;
}

static void visitor_enter(struct room *room, int fd)
{
	struct visitor *visitor = NULL;

	if (room->visitor_count >= VISITORS_MAX)
		make_place(room);
	if (is_welcome(room, fd) && room->visitor_count < 2 * VISITORS_MAX)
		visitor = calloc(1, sizeof(*visitor));
	if (!visitor) {
		close(fd);
		return;
	}
	visitor->room = room;
	visitor->fd = fd;
	visitor->watch.ready = visitor_ready;
	visitor->events = EPOLLIN;
	list_init(&visitor->queue);
	visitor_name(visitor);
	if (is_one_too_many(room, visitor) || room_watch(room, fd, &visitor->watch, EPOLLIN)) {
		close(fd);
		free(visitor);
		return;
	}
	list_add_tail(&room->visitors, &visitor->node);
	room->visitor_count++;
}

static void visitors_ready(struct watch *watch, uint32_t events)
{
	struct room *room = container_of(watch, struct room, listener_watch);

	for (unsigned i = 0; i < 16; i++) {
		int fd = accept4(room->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			visitor_enter(room, fd);
			continue;
		}
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return;
		/* Out of descriptors: it would only be told again at once. */
		room_unwatch(room, room->listener);
		room->pause_us = room->now_us + PAUSE_US;
		room_say(room, "no program is let in for a second: %s", strerror(errno));
		return;
	}
}

int visitors_open(struct room *room)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };

	room->listener_watch.ready = visitors_ready;
	if (snprintf(address.sun_path, sizeof(address.sun_path), "%s/" CTL_FILE, room->directory) >=
	    (int)sizeof(address.sun_path))
		return ENAMETOOLONG;
	room->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (room->listener < 0)
		return errno;
	if (bind(room->listener, (struct sockaddr *)&address, sizeof(address)) ||
	    chmod(address.sun_path, socket_mode(room)) || listen(room->listener, BACKLOG))
		return errno;
	return room_watch(room, room->listener, &room->listener_watch, EPOLLIN);
}

void visitors_close(struct room *room)
{
	char path[PATH_MAX + 16];

	while (!list_empty(&room->visitors))
		visitor_free(list_entry(room->visitors.next, struct visitor, node));
	sealed_close_later(room, -1);
	if (room->listener < 0)
		return;
	close(room->listener);
	snprintf(path, sizeof(path), "%s/" CTL_FILE, room->directory);
	unlink(path);
}

void visitors_list(struct room *room, FILE *out)
{
	struct list *at;

	list_for_each(at, &room->visitors) {
		struct visitor *visitor = list_entry(at, struct visitor, node);
		char host[CTL_NODE_MAX];

		if (visitor->attached)
			data_describe(visitor, out);
		if (!visitor->file)
			continue;
		room_host_name(room, visitor->at, host);
		fprintf(out, "%s (%d) on %s, %s port %u, %u MADs unread, %llu lost\n",
			visitor->program, (int)visitor->pid, host, visitor->device, visitor->port,
			visitor->letters, (unsigned long long)visitor->lost);
	}
}
