/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control socket (protocol.h). Strangers may connect to it: nothing that they send is believed, they
 * hold descriptors of ours for a second at most, and half of them each user. What is refused is closed
 * without a word, but for requests of clients that have proven themselves.
 *
 * The worker alone touches a server between open and close, so there is no lock. Descriptors are recorded
 * before they are used and forgotten before they are closed: a child closes those that are recorded.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "host/name.h"
#include "inspect/inspect.h"
#include "platform/clock.h"
#include "platform/fail.h"
#include "platform/wait.h"

#define CLIENTS		8u
#define PER_USER	4u		/* of those, without proof */
#define BACKLOG		16
#define ACCEPTS		4u		/* in one turn */
#define PROOF_NS	1000000000ull	/* for HELLO and PROOF */
#define RETRY_NS	1000000000ull	/* without descriptors */

enum stage { STAGE_FREE, STAGE_HELLO, STAGE_PROOF, STAGE_PROVEN };

struct inspect_client {
	enum stage stage;
	int fd;
	uid_t uid;
	uint64_t until_ns;			/* by then it has proven itself */
	uint8_t nonce[INSPECT_NONCE_BYTES];	/* what the client reads */
	struct inspect_session session;
};

struct inspect_server {
	int listen_fd;
	uint32_t tag;
	struct waiter *waiter;
	struct hca *hca;
	int (*run)(struct inspect_session *, char *, struct inspect_request *, struct inspect_answer *);
	uint64_t retry_ns;			/* INSPECT_NEVER: the waiter watches listen_fd */
	_Atomic uint64_t deadline_ns;
	struct inspect_client client[CLIENTS];
};

/* A message as it was received. */
struct letter {
	struct inspect_head head;
	char text[INSPECT_COMMAND_MAX + 1];
	int fd[INSPECT_FDS];
	unsigned fds;
};

/* ---- clients come and go ---- */

static void client_close(struct inspect_server *server, struct inspect_client *client)
{
	int fd = client->fd;

	if (client->session.owner && client->session.owner->leave)
		client->session.owner->leave(&client->session);
	client->stage = STAGE_FREE;
	client->fd = -1;
	explicit_bzero(client->nonce, sizeof(client->nonce));
	waiter_remove(server->waiter, fd);
	name_disconnect(fd);
}

static bool is_waiting_for_proof(const struct inspect_client *client)
{
	return client->stage == STAGE_HELLO || client->stage == STAGE_PROOF;
}

/* A place for a client of that user. NULL: there is none, or he has his share. */
static struct inspect_client *client_place(struct inspect_server *server, uid_t uid)
{
	struct inspect_client *free_place = NULL;
	unsigned waiting = 0, i;

	for (i = 0; i < CLIENTS; i++) {
		struct inspect_client *client = &server->client[i];

		waiting += is_waiting_for_proof(client) && client->uid == uid;
		if (client->stage == STAGE_FREE)
			free_place = client;
	}
	return waiting < PER_USER ? free_place : NULL;
}

/* Our user and root are served although others hold all places without a proof. */
static struct inspect_client *client_make_place(struct inspect_server *server, uid_t uid)
{
	struct inspect_client *place = client_place(server, uid);
	unsigned i;

	for (i = 0; !place && (uid == 0 || uid == geteuid()) && i < CLIENTS; i++)
		if (is_waiting_for_proof(&server->client[i]) && server->client[i].uid != uid) {
			client_close(server, &server->client[i]);
			place = client_place(server, uid);
		}
	return place;
}

static void client_enter(struct inspect_server *server, int fd, uint64_t now_ns)
{
	struct ucred ucred = { .uid = (uid_t)-1 };
	socklen_t bytes = sizeof(ucred);
	struct inspect_client *client;

	getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &ucred, &bytes);
	client = client_make_place(server, ucred.uid);
	if (!client) {
		name_disconnect(fd);
		return;
	}
	*client = (struct inspect_client){ .stage = STAGE_HELLO, .fd = fd, .uid = ucred.uid,
					   .until_ns = now_ns + PROOF_NS, .session.hca = server->hca };
	if (waiter_add(server->waiter, fd, server->tag))
		client_close(server, client);
}

static void server_accept(struct inspect_server *server, uint64_t now_ns)
{
	unsigned i;
	int fd;

	for (i = 0; i < ACCEPTS; i++) {
		fd = fail_now(FAIL_SOCKET) ? -1 :
		     accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
		if (fd >= 0) {
			client_enter(server, fd, now_ns);
			continue;
		}
		if (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED)
			return;
		/* Out of descriptors: not watched for a while, or the worker would spin. */
		waiter_remove(server->waiter, server->listen_fd);
		server->retry_ns = now_ns + RETRY_NS;
		log_info("out of file descriptors: nobody can look at this process");
		return;
	}
}

/* ---- messages ---- */

static void letter_close_fds(struct letter *letter)
{
	while (letter->fds)
		if (letter->fd[--letter->fds] >= 0)
			close(letter->fd[letter->fds]);
}

/* Descriptors beyond INSPECT_FDS were not received: the kernel drops what control has no room for. */
static void letter_take_fds(struct letter *letter, struct msghdr *message)
{
	struct cmsghdr *header;
	size_t count, i;
	int fd;

	for (header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < count; i++) {
			memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(fd));
			if (letter->fds < INSPECT_FDS)
				letter->fd[letter->fds++] = fd;
			else
				close(fd);
		}
	}
}

/*
 * 0; EAGAIN: there is none; EPROTO: the client went, or sent what no client sends. Descriptors only after a
 * proof.
 */
static int letter_receive(const struct inspect_client *client, struct letter *letter)
{
	struct iovec iov[2] = { { .iov_base = &letter->head, .iov_len = sizeof(letter->head) },
				{ .iov_base = letter->text, .iov_len = INSPECT_COMMAND_MAX } };
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(INSPECT_FDS * sizeof(int))];
	} control;
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2 };
	ssize_t got;

	letter->fds = 0;
	if (client->stage == STAGE_PROVEN) {
		message.msg_control = control.bytes;
		message.msg_controllen = sizeof(control.bytes);
	}
	got = fail_now(FAIL_RECVMSG) ? -1 : recvmsg(client->fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	if (got < 0)
		return errno == EAGAIN || errno == EINTR ? EAGAIN : EPROTO;
	letter_take_fds(letter, &message);
	if (got < (ssize_t)sizeof(letter->head) || message.msg_flags & (MSG_TRUNC | MSG_CTRUNC) ||
	    letter->head.magic != INSPECT_MAGIC || letter->head.version != INSPECT_VERSION ||
	    letter->head.bytes != (size_t)got - sizeof(letter->head)) {
		letter_close_fds(letter);
		return EPROTO;
	}
	letter->text[letter->head.bytes] = '\0';
	return 0;
}

/* A client reads each answer before it asks again: one whose socket is full is no client. */
static int client_send(const struct inspect_client *client, struct inspect_head *head, const void *text)
{
	struct iovec iov[2] = { { .iov_base = head, .iov_len = sizeof(*head) },
				{ .iov_base = (void *)(uintptr_t)text, .iov_len = head->bytes } };
	struct msghdr message = { .msg_iov = iov, .msg_iovlen = 2 };

	head->magic = INSPECT_MAGIC;
	head->version = INSPECT_VERSION;
	if (fail_now(FAIL_SENDMSG) || sendmsg(client->fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
		return EPIPE;
	return 0;
}

/* ---- what a client may say, by stage: 0, or the connection ends ---- */

static int client_hello(struct inspect_client *client)
{
	struct inspect_head head = { .kind = INSPECT_HELLO, .value = (uintptr_t)client->nonce };
	uint64_t random;
	size_t i;

	for (i = 0; i < sizeof(client->nonce); i += sizeof(random)) {
		random = random_u64();
		memcpy(client->nonce + i, &random, sizeof(random));
	}
	client->stage = STAGE_PROOF;
	return client_send(client, &head, NULL);
}

static int client_proof(struct inspect_client *client, const struct letter *letter)
{
	struct inspect_head head = { .kind = INSPECT_PROOF };
	uint8_t differs = 0;
	size_t i;

	if (letter->head.bytes != sizeof(client->nonce))
		return EPROTO;
	for (i = 0; i < sizeof(client->nonce); i++)
		differs |= client->nonce[i] ^ (uint8_t)letter->text[i];
	if (differs)
		return EPERM;
	client->stage = STAGE_PROVEN;
	return client_send(client, &head, NULL);
}

static int client_command(struct inspect_server *server, struct inspect_client *client, struct letter *letter)
{
	struct inspect_head head = { .kind = INSPECT_COMMAND };
	struct inspect_request request = { .cursor = letter->head.cursor, .fds = letter->fds };
	struct inspect_answer answer = { .size = INSPECT_ANSWER_MAX, .text = malloc(INSPECT_ANSWER_MAX) };
	int err;

	if (!answer.text)
		return ENOMEM;
	memcpy(request.fd, letter->fd, sizeof(request.fd));
	head.status = (uint32_t)server->run(&client->session, letter->text, &request, &answer);
	memcpy(letter->fd, request.fd, sizeof(request.fd));
	head.bytes = (uint32_t)answer.bytes;
	head.cursor = head.status ? 0 : answer.cursor;
	err = client_send(client, &head, answer.text);
	free(answer.text);
	return err;
}

static int client_handle(struct inspect_server *server, struct inspect_client *client, struct letter *letter)
{
	static const enum inspect_kind expected[] = {
		[STAGE_HELLO] = INSPECT_HELLO, [STAGE_PROOF] = INSPECT_PROOF, [STAGE_PROVEN] = INSPECT_COMMAND,
	};

	if (letter->head.kind != (uint16_t)expected[client->stage])
		return EPROTO;
	switch (client->stage) {
	case STAGE_HELLO:
		return client_hello(client);
	case STAGE_PROOF:
		return client_proof(client, letter);
	default:
		return client_command(server, client, letter);
	}
}

static void client_turn(struct inspect_server *server, struct inspect_client *client, uint64_t now_ns)
{
	struct letter letter;
	int err = letter_receive(client, &letter);

	if (!err) {
		err = client_handle(server, client, &letter);
		letter_close_fds(&letter);
	}
	if ((err && err != EAGAIN) || (is_waiting_for_proof(client) && client->until_ns <= now_ns))
		client_close(server, client);
}

/* ---- the server ---- */

void inspect_server_turn(struct inspect_server *server, uint64_t now_ns)
{
	uint64_t deadline_ns;
	unsigned i;

	if (server->retry_ns <= now_ns)
		server->retry_ns = waiter_add(server->waiter, server->listen_fd, server->tag) ?
					   now_ns + RETRY_NS : INSPECT_NEVER;
	if (server->retry_ns == INSPECT_NEVER)
		server_accept(server, now_ns);
	for (i = 0; i < CLIENTS; i++)
		if (server->client[i].stage != STAGE_FREE)
			client_turn(server, &server->client[i], now_ns);
	deadline_ns = server->retry_ns;
	for (i = 0; i < CLIENTS; i++)
		if (is_waiting_for_proof(&server->client[i]) && server->client[i].until_ns < deadline_ns)
			deadline_ns = server->client[i].until_ns;
	atomic_store(&server->deadline_ns, deadline_ns);
}

uint64_t inspect_server_deadline(const struct inspect_server *server)
{
	return atomic_load_explicit(&server->deadline_ns, memory_order_relaxed);
}

static int server_listen(struct inspect_server *server)
{
	char text[sizeof(INSPECT_PREFIX) + 32];
	int length = snprintf(text, sizeof(text), INSPECT_PREFIX "%d", (int)getpid());
	struct abstract_name name = name_of(text);
	unsigned i;
	int err = name_listen(&name, BACKLOG, &server->listen_fd);

	for (i = 1; err == EADDRINUSE && i < INSPECT_NAMES; i++) {
		snprintf(text + length, sizeof(text) - (size_t)length, "-%u", i);
		name = name_of(text);
		err = name_listen(&name, BACKLOG, &server->listen_fd);
	}
	return err;
}

int inspect_server_open(struct inspect_server **opened, struct hca *hca, struct waiter *waiter, uint32_t tag,
			int (*run)(struct inspect_session *, char *, struct inspect_request *,
				   struct inspect_answer *))
{
	struct inspect_server *server = fail_now(FAIL_ALLOCATE) ? NULL : calloc(1, sizeof(*server));
	int err;

	if (!server)
		return ENOMEM;
	server->tag = tag;
	server->waiter = waiter;
	server->hca = hca;
	server->run = run;
	server->retry_ns = INSPECT_NEVER;
	atomic_init(&server->deadline_ns, INSPECT_NEVER);
	for (unsigned i = 0; i < CLIENTS; i++)
		server->client[i].fd = -1;
	err = server_listen(server);
	if (err)
		goto free_server;
	err = waiter_add(waiter, server->listen_fd, tag);
	if (err)
		goto close_socket;
	*opened = server;
	return 0;
close_socket:
	close(server->listen_fd);
free_server:
	free(server);
	return err;
}

void inspect_server_close(struct inspect_server *server)
{
	unsigned i;

	for (i = 0; i < CLIENTS; i++)
		if (server->client[i].stage != STAGE_FREE)
			client_close(server, &server->client[i]);
	close(server->listen_fd);
	free(server);
}

void inspect_server_abandon(struct inspect_server *server)
{
	unsigned i;

	close(server->listen_fd);
	for (i = 0; i < CLIENTS; i++)
		if (server->client[i].fd >= 0)
			close(server->client[i].fd);
}
