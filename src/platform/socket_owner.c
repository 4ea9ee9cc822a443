/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's dump of Unix sockets, with names and users (socket_owner.h). */
#include "platform/socket_owner.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "platform/netlink.h"

#ifndef UDIAG_SHOW_UID			/* Linux 5.3 */
#define UDIAG_SHOW_UID	0x40
#define UNIX_DIAG_UID	7
#endif

#define UNIX_NAME_MAX	sizeof(((struct sockaddr_un *)0)->sun_path)

struct search {
	const char *prefix;
	size_t length;
	uint32_t states, show;		/* of struct unix_diag_req */
	int type;			/* 0: any */
	void (*visit)(void *context, const struct socket_seen *seen);
	void *context;
	bool *visited;			/* or NULL */
	int err;			/* EOPNOTSUPP: the kernel lists names without users */
};

static int socket_owner_take(const struct nlmsghdr *header, void *context)
{
	const struct unix_diag_msg *unix_socket = mnl_nlmsg_get_payload(header);
	const struct nlattr *attribute, *name = NULL, *uid = NULL;
	struct search *search = context;
	char text[UNIX_NAME_MAX + 1];
	size_t length;

	if (search->type && unix_socket->udiag_type != search->type)
		return MNL_CB_OK;
	mnl_attr_for_each(attribute, header, sizeof(*unix_socket)) {
		if (mnl_attr_get_type(attribute) == UNIX_DIAG_NAME)
			name = attribute;
		if (mnl_attr_get_type(attribute) == UNIX_DIAG_UID)
			uid = attribute;
	}
	length = name ? mnl_attr_get_payload_len(name) : 0;
	if (length < search->length + 1 || length > sizeof(text) || *(const char *)mnl_attr_get_payload(name) ||
	    memcmp((const char *)mnl_attr_get_payload(name) + 1, search->prefix, search->length))
		return MNL_CB_OK;
	memcpy(text, (const char *)mnl_attr_get_payload(name) + 1, length - 1);
	text[length - 1] = '\0';
	if (strlen(text) != length - 1)
		return MNL_CB_OK;	/* a zero within: none of ours */
	if (uid && mnl_attr_get_payload_len(uid) != sizeof(uint32_t))
		uid = NULL;
	if (!uid && search->show & UDIAG_SHOW_UID) {
		search->err = EOPNOTSUPP;
		return MNL_CB_OK;
	}
	if (search->visited)
		*search->visited = true;
	search->visit(search->context,
		      &(struct socket_seen){ text, unix_socket->udiag_type, uid ? mnl_attr_get_u32(uid) : 0,
					     unix_socket->udiag_ino });
	return MNL_CB_OK;
}

static int socket_owner_search(struct search *search)
{
	char buffer[MNL_NLMSG_HDRLEN + sizeof(struct unix_diag_req)];
	struct nlmsghdr *question = mnl_nlmsg_put_header(buffer);
	struct unix_diag_req *request;
	int err;

	question->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	question->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	request = mnl_nlmsg_put_extra_header(question, sizeof(*request));
	request->sdiag_family = AF_UNIX;
	request->udiag_states = search->states;
	request->udiag_show = search->show;
	err = netlink_ask_once(NETLINK_SOCK_DIAG, question, socket_owner_take, search);
	return err ? err : search->err;
}

int socket_owners(const char *prefix, void (*visit)(void *context, const struct socket_seen *seen), void *context)
{
	struct search search = { .prefix = prefix, .length = strlen(prefix), .states = UINT32_MAX,
				 .show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID, .visit = visit, .context = context };

	return socket_owner_search(&search);
}

int socket_names(uint32_t states, int type, const char *prefix,
		 void (*visit)(void *context, const struct socket_seen *seen), void *context, bool *visited)
{
	struct search search = { .prefix = prefix, .length = strlen(prefix), .states = states, .type = type,
				 .show = UDIAG_SHOW_NAME, .visit = visit, .context = context,
				 .visited = visited };

	return socket_owner_search(&search);
}

struct exact {
	const char *name;
	uid_t uid;
	bool found;
};

static void socket_owner_compare(void *context, const struct socket_seen *seen)
{
	struct exact *exact = context;

	if (seen->type != SOCK_DGRAM || strcmp(seen->name, exact->name))
		return;
	exact->uid = seen->uid;
	exact->found = true;
}

int socket_owner(const char *name, uid_t *uid)
{
	struct exact exact = { .name = name };
	int err = socket_owners(name, socket_owner_compare, &exact);

	*uid = exact.uid;
	return err ? err : exact.found ? 0 : ENOENT;
}
