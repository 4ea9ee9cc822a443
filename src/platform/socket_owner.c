/* SPDX-License-Identifier: BSD-2-Clause */
/* The kernel's dump of Unix sockets, with names and users (socket_owner.h). */
#include "platform/socket_owner.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/unix_diag.h>
#include <string.h>
#include <sys/socket.h>

#include "platform/netlink.h"

#ifndef UDIAG_SHOW_UID			/* Linux 5.3 */
#define UDIAG_SHOW_UID	0x40
#define UNIX_DIAG_UID	7
#endif

struct search {
	const char *name;
	size_t length;
	uid_t uid;
	int err;			/* ENOENT: not met so far */
};

static int socket_owner_take(const struct nlmsghdr *header, void *context)
{
	const struct unix_diag_msg *unix_socket = mnl_nlmsg_get_payload(header);
	const struct nlattr *attribute, *name = NULL, *uid = NULL;
	struct search *search = context;

	if (unix_socket->udiag_type != SOCK_DGRAM)
		return MNL_CB_OK;
	mnl_attr_for_each(attribute, header, sizeof(*unix_socket)) {
		if (mnl_attr_get_type(attribute) == UNIX_DIAG_NAME)
			name = attribute;
		if (mnl_attr_get_type(attribute) == UNIX_DIAG_UID)
			uid = attribute;
	}
	if (!name || mnl_attr_get_payload_len(name) != search->length + 1 ||
	    *(const char *)mnl_attr_get_payload(name) ||
	    memcmp((const char *)mnl_attr_get_payload(name) + 1, search->name, search->length))
		return MNL_CB_OK;
	search->err = uid && mnl_attr_get_payload_len(uid) == sizeof(uint32_t) ? 0 : EOPNOTSUPP;
	if (!search->err)
		search->uid = mnl_attr_get_u32(uid);
	return MNL_CB_OK;
}

int socket_owner(const char *name, uid_t *uid)
{
	struct search search = { .name = name, .length = strlen(name), .err = ENOENT };
	char buffer[MNL_NLMSG_HDRLEN + sizeof(struct unix_diag_req)];
	struct nlmsghdr *question = mnl_nlmsg_put_header(buffer);
	struct unix_diag_req *request;
	int err;

	question->nlmsg_type = SOCK_DIAG_BY_FAMILY;
	question->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
	request = mnl_nlmsg_put_extra_header(question, sizeof(*request));
	request->sdiag_family = AF_UNIX;
	request->udiag_states = UINT32_MAX;
	request->udiag_show = UDIAG_SHOW_NAME | UDIAG_SHOW_UID;
	err = netlink_ask_once(NETLINK_SOCK_DIAG, question, socket_owner_take, &search);
	*uid = search.uid;
	return err ? err : search.err;
}
