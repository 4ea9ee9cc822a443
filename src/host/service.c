/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Claims on services (service.h). Names of the sockets:
 *
 *	verbatim/service/ID/ADDRESS	32 digits: one address
 *	verbatim/service/ID/4 and /6	all addresses of a family
 *	verbatim/service/ID/any		all addresses
 *
 * A claim binds its name first, then looks for a name that collides: of two concurrent claims, at
 * least one sees the other. The look is a connect(), which for datagram sockets only looks up the
 * name. Claims of single addresses are read from the kernel's list of names; without it (no /proc),
 * the addresses of the host are looked up.
 *
 * A claim that does not serve yet is connected to itself, so that no other socket can send to it:
 * EPERM means "claimed, but not served". Serving dissolves that connection.
 */
#include "host/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/list.h"
#include "base/lock.h"
#include "host/group_watch.h"
#include "host/forward.h"
#include "host/service_owner.h"
#include "platform/fail.h"
#include "platform/netdev.h"

#define SERVICE_NAME	"verbatim/service/"
#define NAME_MAX_BYTES	80u

enum scope { SCOPE_ADDRESS, SCOPE_IPV4, SCOPE_IPV6, SCOPE_ANY };

struct service_claim {
	struct list node;
	uint64_t id;
	enum scope scope;
	uint8_t address[16];
	int fd;
	bool serving;
};

struct services {
	struct lock lock;
	int epoll_fd;			/* the claims that serve */
	struct list claims GUARDED_BY_MEMBER(lock);
};

/* ---- names ---- */

static bool service_is_ipv4(const uint8_t address[16])
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	return !memcmp(address, mapped, sizeof(mapped));
}

static enum scope family_scope(const uint8_t address[16])
{
	return service_is_ipv4(address) ? SCOPE_IPV4 : SCOPE_IPV6;
}

static enum scope scope_of(const uint8_t address[16], int family)
{
	static const uint8_t zero[16];

	if (memcmp(address, zero, 16))
		return SCOPE_ADDRESS;
	return family == AF_INET ? SCOPE_IPV4 : family == AF_INET6 ? SCOPE_IPV6 : SCOPE_ANY;
}

static struct abstract_name service_name(uint64_t id, enum scope scope, const uint8_t address[16])
{
	static const char *const suffix[] = { [SCOPE_IPV4] = "4", [SCOPE_IPV6] = "6",
					      [SCOPE_ANY] = "any" };
	char text[NAME_MAX_BYTES];
	int at = snprintf(text, sizeof(text), SERVICE_NAME "%016" PRIx64 "/", id);
	unsigned i;

	if (scope != SCOPE_ADDRESS)
		snprintf(text + at, sizeof(text) - (size_t)at, "%s", suffix[scope]);
	for (i = 0; scope == SCOPE_ADDRESS && i < 16; i++)
		at += snprintf(text + at, sizeof(text) - (size_t)at, "%02x", address[i]);
	return name_of(text);
}

/* ---- other claims ---- */

/* 0: free; EADDRINUSE; errno of the socket calls. */
static int look_up(uint64_t id, enum scope scope, const uint8_t address[16])
{
	struct abstract_name name = service_name(id, scope, address);
	int fd, err = name_connect(&name, SOCK_DGRAM, &fd);

	if (!err)
		close(fd);
	if (err == ECONNREFUSED)
		return 0;
	return !err || err == EPERM ? EADDRINUSE : err;	/* EPERM: it is connected to itself */
}

static bool is_in_scope(enum scope scope, const uint8_t address[16])
{
	return scope == SCOPE_ANY || scope == family_scope(address);
}

static bool service_parse_address(const char *text, uint8_t address[16])
{
	unsigned i, value;

	for (i = 0; i < 16; i++) {
		if (sscanf(text + 2 * i, "%2x", &value) != 1)
			return false;
		address[i] = (uint8_t)value;
	}
	return text[32] == '\n';
}

/* ENOENT: there is no list. */
static int search_list(uint64_t id, enum scope scope)
{
	FILE *file = kernel_list("unix");
	char line[512], prefix[NAME_MAX_BYTES];
	uint8_t address[16];
	int err = 0;

	if (!file)
		return ENOENT;
	snprintf(prefix, sizeof(prefix), " @" SERVICE_NAME "%016" PRIx64 "/", id);
	while (!err && fgets(line, sizeof(line), file)) {
		const char *name = strstr(line, prefix);

		if (name && service_parse_address(name + strlen(prefix), address) &&
		    is_in_scope(scope, address))
			err = EADDRINUSE;
	}
	fclose(file);
	return err;
}

static int search_host(uint64_t id, enum scope scope)
{
	struct netdev *list;
	int i, count, err = netdev_list(&list, &count);
	unsigned a;

	if (err)
		return err;
	for (i = 0; !err && i < count; i++)
		for (a = 0; !err && a < list[i].address_count; a++)
			if (is_in_scope(scope, list[i].address[a].address))
				err = look_up(id, SCOPE_ADDRESS, list[i].address[a].address);
	free(list);
	return err;
}

static int search_addresses(uint64_t id, enum scope scope)
{
	int err = search_list(id, scope);

	return err == ENOENT ? search_host(id, scope) : err;
}

/* 0; EADDRINUSE: another claim collides with one of that scope. */
static int service_search(uint64_t id, enum scope scope, const uint8_t address[16])
{
	int err = 0;

	if (scope == SCOPE_ADDRESS)
		err = look_up(id, family_scope(address), address);
	if (!err && scope == SCOPE_ANY)
		err = look_up(id, SCOPE_IPV4, address);
	if (!err && scope == SCOPE_ANY)
		err = look_up(id, SCOPE_IPV6, address);
	if (!err && scope != SCOPE_ANY)
		err = look_up(id, SCOPE_ANY, address);
	if (!err && scope != SCOPE_ADDRESS)
		err = search_addresses(id, scope);
	return err;
}

/* ---- claims ---- */

static int bind_claim(struct service_claim *claim)
{
	struct abstract_name name = service_name(claim->id, claim->scope, claim->address);
	int err;

	claim->fd = name_socket(SOCK_DGRAM);
	if (claim->fd < 0)
		return errno;
	err = forward_prepare(claim->fd);
	if (!err)
		err = name_bind(claim->fd, &name);
	if (err)
		return err;
	if (fail_now(FAIL_CONNECT) ||
	    connect(claim->fd, (struct sockaddr *)&name.address, name.bytes))
		return errno;
	return service_search(claim->id, claim->scope, claim->address);
}

static void free_claim(struct service_claim *claim)
{
	if (claim->fd >= 0)
		close(claim->fd);
	free(claim);
}

int service_claim(struct services *services, uint64_t id, const uint8_t address[16], int family,
		  struct service_claim **claim)
{
	struct service_claim *made = fail_now(FAIL_ALLOCATE) ? NULL : calloc(1, sizeof(*made));
	int err;

	if (!made)
		return ENOMEM;
	made->id = id;
	made->scope = scope_of(address, family);
	memcpy(made->address, address, 16);
	err = bind_claim(made);
	if (err) {
		free_claim(made);
		return err;
	}
	lock_acquire(&services->lock);
	list_add_tail(&services->claims, &made->node);
	lock_release(&services->lock);
	*claim = made;
	return 0;
}

int service_serve(struct services *services, struct service_claim *claim)
{
	struct sockaddr nobody = { .sa_family = AF_UNSPEC };
	struct epoll_event event = { .events = EPOLLIN, .data.ptr = claim };
	int err = 0;

	lock_acquire(&services->lock);
	if (!claim->serving) {
		if (fail_now(FAIL_EPOLL_ADD) ||
		    epoll_ctl(services->epoll_fd, EPOLL_CTL_ADD, claim->fd, &event) ||
		    fail_now(FAIL_CONNECT) || connect(claim->fd, &nobody, sizeof(nobody)))
			err = errno;
		claim->serving = !err;
		if (err)
			epoll_ctl(services->epoll_fd, EPOLL_CTL_DEL, claim->fd, NULL);
	}
	lock_release(&services->lock);
	return err;
}

void service_release(struct services *services, struct service_claim *claim)
{
	lock_acquire(&services->lock);
	list_remove(&claim->node);
	free_claim(claim);		/* its socket leaves the epoll set by that */
	lock_release(&services->lock);
}

static bool service_serves(const struct service_claim *claim, uint64_t id,
			   const uint8_t address[16])
{
	if (!claim->serving || claim->id != id)
		return false;
	return claim->scope == SCOPE_ADDRESS ? !memcmp(claim->address, address, 16) :
					       is_in_scope(claim->scope, address);
}

bool service_is_ours(struct services *services, uint64_t id, const uint8_t address[16])
{
	struct list *node;
	bool found = false;

	lock_acquire(&services->lock);
	list_for_each(node, &services->claims)
		found |= service_serves(list_entry(node, struct service_claim, node), id, address);
	lock_release(&services->lock);
	return found;
}

static bool is_listed(const uint64_t *ids, unsigned count, uint64_t id)
{
	while (count && ids[count - 1] != id)
		count--;
	return count;
}

unsigned services_list(struct services *services, uint64_t *ids, unsigned max)
{
	struct list *node;
	unsigned count = 0;

	lock_acquire(&services->lock);
	list_for_each(node, &services->claims) {
		const struct service_claim *claim = list_entry(node, struct service_claim, node);

		if (count == max)
			break;
		if (claim->serving && !is_listed(ids, count, claim->id))
			ids[count++] = claim->id;
	}
	lock_release(&services->lock);
	return count;
}

/* ---- requests ---- */

/* The claims that a request for @id at @address is for, the narrowest first. Returns how many. */
static unsigned find_claims(int fd, uint64_t id, const uint8_t address[16],
			    struct abstract_name claims[3])
{
	const enum scope scope[] = { SCOPE_ADDRESS, family_scope(address), SCOPE_ANY };
	unsigned i, count = 0;

	for (i = 0; i < 3; i++) {
		claims[count] = service_name(id, scope[i], address);
		if (!connect(fd, (struct sockaddr *)&claims[count].address, claims[count].bytes) ||
		    errno == EPERM)
			count++;
	}
	return count;
}

/*
 * Several claims mean that a program made one without looking for collisions, and nothing tells
 * which: a trusted claim gets the request, else the widest. 0; ECONNREFUSED: none may; EAGAIN.
 */
static int choose_claim(uint64_t id, const struct abstract_name claims[3], unsigned count,
			unsigned *chosen)
{
	bool reserved = service_is_reserved(id), believed;
	unsigned i;
	int err;

	if (!count)
		return ECONNREFUSED;
	*chosen = count - 1;
	if (count == 1 && !reserved)
		return 0;
	for (i = 0; i < count; i++) {
		err = service_is_believed(&claims[i], &believed);
		if (err)
			return err;
		if (believed) {
			*chosen = i;
			return 0;
		}
	}
	return reserved ? ECONNREFUSED : 0;
}

int service_forward(uint64_t id, const uint8_t address[16], const struct datagram *datagram)
{
	/* A socket for each: queued datagrams are charged to the sender's socket. */
	int fd = name_socket(SOCK_DGRAM), err;
	struct abstract_name claims[3];
	unsigned chosen;

	if (fd < 0)
		return errno;
	err = choose_claim(id, claims, find_claims(fd, id, address, claims), &chosen);
	if (!err)
		err = forward_send(fd, &claims[chosen], datagram);
	close(fd);
	return err == EPERM ? ECONNREFUSED : err;
}

int services_receive(struct services *services, struct datagram *datagram, uint8_t *buffer,
		     size_t size)
{
	struct service_claim *claim;
	struct epoll_event event;
	int err = EAGAIN;

	lock_acquire(&services->lock);
	if (epoll_wait(services->epoll_fd, &event, 1, 0) == 1) {
		claim = event.data.ptr;
		err = forward_receive(claim->fd, datagram, buffer, size, NULL, NULL);
	}
	lock_release(&services->lock);
	return err;
}

/* ---- all of them ---- */

int services_open(struct services **services)
{
	struct services *made = fail_now(FAIL_ALLOCATE) ? NULL : calloc(1, sizeof(*made));
	int err;

	if (!made)
		return ENOMEM;
	made->epoll_fd = fail_now(FAIL_EPOLL) ? -1 : epoll_create1(EPOLL_CLOEXEC);
	if (made->epoll_fd < 0) {
		err = errno;
		free(made);
		return err;
	}
	lock_init(&made->lock);
	list_init(&made->claims);
	*services = made;
	return 0;
}

void services_close(struct services *services)
{
	struct list *node, *following;

	lock_destroy(&services->lock);
	list_for_each_safe(node, following, &services->claims)
		free_claim(list_entry(node, struct service_claim, node));
	close(services->epoll_fd);
	free(services);
}

int services_event_fd(const struct services *services)
{
	return services->epoll_fd;
}

void services_before_fork(struct services *services) ACQUIRES(services->lock)
{
	lock_acquire(&services->lock);
}

void services_after_fork(struct services *services) RELEASES(services->lock)
{
	lock_release(&services->lock);
}

void services_abandon(struct services *services)
{
	struct list *node;

	lock_init(&services->lock);
	list_for_each(node, &services->claims) {
		struct service_claim *claim = list_entry(node, struct service_claim, node);

		close(claim->fd);
		claim->fd = -1;
	}
	close(services->epoll_fd);
	services->epoll_fd = -1;
}
