/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Lists of sockets (socket_list.h). A file of /proc/net gives a page at a time and walks the kernel's
 * table from its beginning for each; a question of sock_diag(7) walks it once, and formats nothing.
 */
#include "platform/socket_list.h"

#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "platform/fail.h"
#include "platform/netlink.h"

#define LIST_BYTES	4096u		/* what a file of /proc/net gives at a time */
#define LINE_BYTES	512u
#define UNIX_LISTENS	10		/* state of a socket: TCP_LISTEN of <netinet/tcp.h> */
#define PROC_LISTENS	0x10000u	/* flag in /proc/net/unix: listen() was called */

/* A question that found no module, or no answer, costs milliseconds: it is not asked again. */
static _Atomic bool udp_is_refused, unix_is_refused;

/* @err of a question. True: read the list of /proc instead; what was seen has not been passed on yet. */
static bool socket_list_falls_back(_Atomic bool *refused, int err, bool seen)
{
	if (err == ENOENT || err == EAGAIN)
		atomic_store(refused, true);
	return err && !seen;
}

/* Of the thread, not of the process: a thread may be in another network namespace. */
static FILE *socket_list_open(const char *name, char buffer[LIST_BYTES])
{
	char path[64];
	FILE *file;

	if (fail_now(FAIL_PROC))
		return NULL;
	snprintf(path, sizeof(path), "/proc/thread-self/net/%s", name);
	file = fopen(path, "re");
	if (!file) {
		snprintf(path, sizeof(path), "/proc/net/%s", name);
		file = fopen(path, "re");
	}
	if (file)
		setvbuf(file, buffer, _IOFBF, LIST_BYTES);
	return file;
}

/* ---- UDP ---- */

struct udp_list {
	int family;
	uint16_t port;
	void (*visit)(void *context, const struct udp_seen *seen);
	void *context;
	bool seen;
};

/* @words: of the address, in network order. */
static void socket_list_pass(struct udp_list *list, const uint32_t *words, uid_t uid, uint32_t inode)
{
	size_t bytes = list->family == AF_INET ? 4 : 16;
	struct udp_seen seen = { .uid = uid, .inode = inode, .any = true };
	size_t i;

	if (list->family == AF_INET)
		memset(seen.address + 10, 0xff, 2);
	memcpy(seen.address + 16 - bytes, words, bytes);
	for (i = 16 - bytes; i < 16; i++)
		seen.any &= !seen.address[i];
	list->seen = true;
	list->visit(list->context, &seen);
}

static int socket_list_take_udp(const struct nlmsghdr *header, void *context)
{
	const struct inet_diag_msg *message = mnl_nlmsg_get_payload(header);
	struct udp_list *list = context;

	if (header->nlmsg_type == SOCK_DIAG_BY_FAMILY && mnl_nlmsg_get_payload_len(header) >= sizeof(*message) &&
	    message->idiag_family == list->family && message->id.idiag_sport == htons(list->port))
		socket_list_pass(list, message->id.idiag_src, message->idiag_uid, message->idiag_inode);
	return MNL_CB_OK;
}

static int socket_list_ask_udp(struct udp_list *list)
{
	char buffer[MNL_NLMSG_HDRLEN + sizeof(struct inet_diag_req_v2)];
	struct nlmsghdr *question = mnl_nlmsg_put_header(buffer);
	struct inet_diag_req_v2 *request;

	question->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	question->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	request = mnl_nlmsg_put_extra_header(question, sizeof(*request));
	request->sdiag_family = (uint8_t)list->family;
	request->sdiag_protocol = IPPROTO_UDP;
	request->idiag_states = UINT32_MAX;
	request->id.idiag_sport = htons(list->port);
	return netlink_ask_once(NETLINK_SOCK_DIAG, question, socket_list_take_udp, list);
}

/* Lines: number: ADDRESS:PORT remote state queues timer retransmits uid timeout inode ... */
static int socket_list_read_udp(struct udp_list *list)
{
	char buffer[LIST_BYTES], line[LINE_BYTES], digits[40];
	size_t word, words = list->family == AF_INET ? 1 : 4;
	unsigned port, uid, inode;
	uint32_t address[4];
	FILE *file = socket_list_open(list->family == AF_INET ? "udp" : "udp6", buffer);

	if (!file)
		return errno;
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, " %*u: %32[0-9A-F]:%x %*s %*s %*s %*s %*s %u %*u %u", digits, &port, &uid,
			   &inode) != 4 ||
		    port != list->port || strlen(digits) != 8 * words)
			continue;
		/* Each word is in network order, and printed as a number of this machine. */
		for (word = 0; word < words; word++)
			if (sscanf(digits + 8 * word, "%8x", &address[word]) != 1)
				address[word] = 0;
		socket_list_pass(list, address, (uid_t)uid, inode);
	}
	fclose(file);
	return 0;
}

int socket_list_udp(int family, uint16_t port, void (*visit)(void *context, const struct udp_seen *seen),
		    void *context)
{
	struct udp_list list = { .family = family, .port = port, .visit = visit, .context = context };
	int err = ENOENT;

	if (!atomic_load(&udp_is_refused))
		err = socket_list_ask_udp(&list);
	return socket_list_falls_back(&udp_is_refused, err, list.seen) ? socket_list_read_udp(&list) : err;
}

/* ---- names ---- */

/* Lines: number: references protocol FLAGS TYPE state INODE @NAME, a NUL in it as another @. */
static int socket_list_read_names(int type, const char *prefix,
				  void (*visit)(void *context, const struct socket_seen *seen), void *context)
{
	char buffer[LIST_BYTES], line[LINE_BYTES], *name;
	FILE *file = socket_list_open("unix", buffer);
	unsigned flags, line_type, inode;
	int at;

	if (!file)
		return errno;
	while (fgets(line, sizeof(line), file)) {
		at = 0;
		if (sscanf(line, "%*s %*x %*x %x %x %*x %u%n", &flags, &line_type, &inode, &at) != 3 || !at ||
		    (int)line_type != type || (type != SOCK_DGRAM && !(flags & PROC_LISTENS)) ||
		    strncmp(line + at, " @", 2))
			continue;
		name = line + at + 2;
		name[strcspn(name, "\n")] = '\0';
		if (!strncmp(name, prefix, strlen(prefix)))
			visit(context, &(struct socket_seen){ .name = name, .type = type, .inode = inode });
	}
	fclose(file);
	return 0;
}

int socket_list_names(int type, const char *prefix,
		      void (*visit)(void *context, const struct socket_seen *seen), void *context)
{
	uint32_t states = type == SOCK_DGRAM ? UINT32_MAX : 1u << UNIX_LISTENS;
	bool seen = false;
	int err = ENOENT;

	if (!atomic_load(&unix_is_refused))
		err = socket_names(states, type, prefix, visit, context, &seen);
	return socket_list_falls_back(&unix_is_refused, err, seen) ?
	       socket_list_read_names(type, prefix, visit, context) : err;
}
