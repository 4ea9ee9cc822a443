/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Claims on services (service.h). Names of the sockets:
 *
 *	verbatim/service/ID/ADDRESS	32 digits: one address
 *	verbatim/service/ID/4 and /6	all addresses of a family
 *	verbatim/service/ID/any		all addresses
 *	.../NONCE			16 more digits: a stranger has the name, of a port below 1024
 *
 * For ports below 1024 only claims of root and of our own user count (service_owner.h): no others are
 * collided with, nor get requests. All names of such a service are read from the kernel's list.
 *
 * A claim binds its name first, then looks for a name that collides: of two concurrent claims, at
 * least one sees the other. The look is a connect(), which for datagram sockets only looks up the
 * name. Claims of single addresses are read from the kernel's list of names; without it, the addresses
 * of the host are looked up.
 *
 * A claim that does not serve yet is connected to a socket that is gone, so that no other can send to
 * it: EPERM means "claimed, but not served". Serving dissolves that connection, with which the kernel
 * drops what was sent to the claim: so it is made before the name.
 */
#include "host/service.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/ip_addr.h"
#include "base/list.h"
#include "base/lock.h"
#include "base/log.h"
#include "host/forward.h"
#include "host/holder.h"
#include "host/service_owner.h"
#include "platform/fail.h"
#include "platform/clock.h"
#include "platform/netdev.h"
#include "platform/socket_list.h"
#include "platform/socket_owner.h"

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

static enum scope family_scope(const uint8_t address[16])
{
	return ip_addr_is_ipv4(address) ? SCOPE_IPV4 : SCOPE_IPV6;
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
	return !err || err == EPERM ? EADDRINUSE : err;	/* EPERM: it does not serve */
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
	return text[32] == '\0';
}

struct service_collision {
	enum scope scope;
	size_t prefix_bytes;
	bool found;
};

static void service_compare(void *context, const struct socket_seen *seen)
{
	struct service_collision *collision = context;
	uint8_t address[16];

	if (service_parse_address(seen->name + collision->prefix_bytes, address) &&
	    is_in_scope(collision->scope, address))
		collision->found = true;
}

/* ENOENT: there is no list. */
static int search_list(uint64_t id, enum scope scope)
{
	struct service_collision collision = { .scope = scope };
	char prefix[NAME_MAX_BYTES];
	int err;

	collision.prefix_bytes = (size_t)snprintf(prefix, sizeof(prefix), SERVICE_NAME "%016" PRIx64 "/", id);
	err = socket_list_names(SOCK_DGRAM, prefix, service_compare, &collision);
	if (collision.found)
		return EADDRINUSE;
	return err ? ENOENT : 0;
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
	if (!err && scope != SCOPE_ADDRESS) {
		err = search_list(id, scope);
		if (err == ENOENT)
			err = search_host(id, scope);
	}
	return err;
}

/* ---- ports below 1024: claims that are believed ---- */

/* The claims that a claim collides with, or that a request is for: the narrowest of them. */
struct believed_search {
	enum scope scope;
	const uint8_t *address;
	const struct abstract_name *own;	/* which does not count; or NULL */
	size_t prefix_bytes;
	bool is_request;		/* a claim on it has to cover the address */
	unsigned found_scope;		/* SCOPE_ANY + 1: none */
	struct abstract_name found;
};

/* Behind "verbatim/service/ID/". */
static bool parse_claim(const char *text, enum scope *scope, uint8_t address[16])
{
	char digits[33];
	size_t bytes = strcspn(text, "/");

	memset(address, 0, 16);
	*scope = SCOPE_IPV4;
	if (bytes == 1 && *text == '4')
		return true;
	*scope = SCOPE_IPV6;
	if (bytes == 1 && *text == '6')
		return true;
	*scope = SCOPE_ANY;
	if (bytes == 3 && !memcmp(text, "any", 3))
		return true;
	*scope = SCOPE_ADDRESS;
	if (bytes != 32)
		return false;
	memcpy(digits, text, 32);
	digits[32] = '\0';
	return service_parse_address(digits, address);
}

static bool is_met(const struct believed_search *search, enum scope scope, const uint8_t address[16])
{
	if (scope == SCOPE_ADDRESS && search->scope == SCOPE_ADDRESS)
		return !memcmp(address, search->address, 16);
	if (search->scope == SCOPE_ADDRESS)
		return is_in_scope(scope, search->address);
	if (scope == SCOPE_ADDRESS)
		return !search->is_request && is_in_scope(search->scope, address);
	return scope == search->scope || scope == SCOPE_ANY || search->scope == SCOPE_ANY;
}

static void believed_take(void *context, const struct socket_seen *seen)
{
	struct believed_search *search = context;
	struct abstract_name name = name_of(seen->name);
	uint8_t address[16];
	enum scope scope;

	if (seen->type != SOCK_DGRAM || !service_owner_is_trusted(seen->uid) ||
	    !parse_claim(seen->name + search->prefix_bytes, &scope, address) ||
	    !is_met(search, scope, address) || scope >= search->found_scope)
		return;
	if (search->own && search->own->bytes == name.bytes &&
	    !memcmp(&search->own->address, &name.address, name.bytes))
		return;
	search->found_scope = scope;
	search->found = name;
}

/* 0: *search is filled in; errno: the kernel does not tell. */
static int believed_find(uint64_t id, struct believed_search *search)
{
	char prefix[NAME_MAX_BYTES];

	search->found_scope = SCOPE_ANY + 1;
	search->prefix_bytes = (size_t)snprintf(prefix, sizeof(prefix), SERVICE_NAME "%016" PRIx64 "/", id);
	return socket_owners(prefix, believed_take, search);
}

/* A name beside that of @claim, which a stranger has bound: EADDRINUSE: no stranger. */
static int bind_beside(const struct service_claim *claim, struct abstract_name *name)
{
	char text[NAME_MAX_BYTES + 20];
	uid_t uid;

	if (socket_owner(name->address.sun_path + 1, &uid) || service_owner_is_trusted(uid))
		return EADDRINUSE;
	explain_of(OF(PORT, claim->id & 0xffff),
		"port %u: user %u has bound the name of this service without the right to a port below 1024: "
		"it is not believed, and the port is given nevertheless", (unsigned)(claim->id & 0xffff),
		(unsigned)uid);
	snprintf(text, sizeof(text), "%s/%016" PRIx64, name->address.sun_path + 1, random_u64());
	*name = name_of(text);
	return name_bind(claim->fd, name);
}

/* ---- claims ---- */

/* From now on @fd takes nothing of other sockets. 0 or errno. */
static int connect_to_nobody(int fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	socklen_t bytes = sizeof(address);
	int nobody = name_socket(SOCK_DGRAM), err = 0;

	if (nobody < 0)
		return errno;
	/* Without a name: the kernel gives it one. */
	if (fail_now(FAIL_CONNECT) || bind(nobody, (struct sockaddr *)&address, sizeof(address.sun_family)) ||
	    getsockname(nobody, (struct sockaddr *)&address, &bytes) ||
	    connect(fd, (struct sockaddr *)&address, bytes))
		err = errno;
	close(nobody);
	return err;
}

/* 0; EADDRINUSE: another claim collides with @claim. */
static int bind_claim(struct service_claim *claim)
{
	struct abstract_name name = service_name(claim->id, claim->scope, claim->address);
	struct believed_search search = { .scope = claim->scope, .address = claim->address, .own = &name };
	int err;

	claim->fd = name_socket(SOCK_DGRAM);
	if (claim->fd < 0)
		return errno;
	/* First: a socket that is told of its senders gets a name where it connects without one. */
	err = connect_to_nobody(claim->fd);
	if (!err)
		err = forward_prepare(claim->fd);
	if (!err)
		err = name_bind(claim->fd, &name);
	if (err == EADDRINUSE && service_is_reserved(claim->id))
		err = bind_beside(claim, &name);
	if (err)
		return err;
	if (service_is_reserved(claim->id) && !believed_find(claim->id, &search))
		return search.found_scope <= SCOPE_ANY ? EADDRINUSE : 0;
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
	static const uint8_t zero[16];
	struct service_claim *made = fail_now(FAIL_ALLOCATE) ? NULL : calloc(1, sizeof(*made));
	char prefix[NAME_MAX_BYTES], holders[256];
	int err;

	if (!made)
		return ENOMEM;
	made->id = id;
	made->scope = memcmp(address, zero, 16) ? SCOPE_ADDRESS :
		      family == AF_INET ? SCOPE_IPV4 : family == AF_INET6 ? SCOPE_IPV6 : SCOPE_ANY;
	memcpy(made->address, address, 16);
	err = bind_claim(made);
	if (err) {
		free_claim(made);
		if (err == EADDRINUSE && explaining()) {	/* ours is closed: whom does that leave? */
			snprintf(prefix, sizeof(prefix), SERVICE_NAME "%016" PRIx64 "/", id);
			explain_of(OF(PORT, id & 0xffff),
				"rdma_bind_addr: who has port %u (service ID %016" PRIx64 "), in claims: %s",
				(unsigned)(id & 0xffff), id, holders_describe(prefix, holders, sizeof(holders)));
		}
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

bool service_is_ours(struct services *services, uint64_t id, const uint8_t address[16])
{
	struct list *node;
	bool found = false;

	lock_acquire(&services->lock);
	list_for_each(node, &services->claims) {
		const struct service_claim *claim = list_entry(node, struct service_claim, node);

		if (claim->serving && claim->id == id)
			found |= claim->scope == SCOPE_ADDRESS ? !memcmp(claim->address, address, 16) :
								 is_in_scope(claim->scope, address);
	}
	lock_release(&services->lock);
	return found;
}

unsigned services_list(struct services *services, uint64_t *ids, unsigned max)
{
	struct list *node;
	unsigned count = 0, n;

	lock_acquire(&services->lock);
	list_for_each(node, &services->claims) {
		const struct service_claim *claim = list_entry(node, struct service_claim, node);

		if (count == max)
			break;
		for (n = 0; n < count && ids[n] != claim->id; n++)
			;
		if (claim->serving && n == count)
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
 * which: a trusted claim gets the request, else the widest. 0; ECONNREFUSED: there is none; EAGAIN.
 */
static int choose_claim(const struct abstract_name claims[3], unsigned count,
			unsigned *chosen)
{
	bool believed;
	unsigned i;
	int err;

	if (!count)
		return ECONNREFUSED;
	*chosen = count - 1;
	if (count == 1)
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
	return 0;
}

struct request_for {
	uint64_t id;
	const uint8_t *address;
};

static bool request_judge(const struct abstract_name *key, void *context, struct abstract_name *found)
{
	const struct request_for *request = context;
	struct believed_search search = { .scope = SCOPE_ADDRESS, .address = request->address,
					  .is_request = true };

	if (believed_find(request->id, &search) || search.found_scope > SCOPE_ANY) {
		explain("%s: a request for a port below 1024 is refused: no claim of root or of our user is there",
			key->address.sun_path + 1);
		return false;
	}
	*found = search.found;
	return true;
}

int service_forward(uint64_t id, const uint8_t address[16], const struct datagram *datagram)
{
	/* A socket for each: queued datagrams are charged to the sender's socket. */
	int fd = name_socket(SOCK_DGRAM), err;
	struct abstract_name claims[3];
	unsigned chosen = 0;

	if (fd < 0)
		return errno;
	if (service_is_reserved(id)) {		/* of root or of our own user */
		struct abstract_name key = service_name(id, SCOPE_ADDRESS, address);
		struct request_for request = { id, address };
		bool believed;

		err = service_owner_ask(&key, request_judge, &request, &believed, &claims[0]);
		if (!err && !believed)
			err = ECONNREFUSED;
	} else {
		err = choose_claim(claims, find_claims(fd, id, address, claims), &chosen);
	}
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
