/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim fabric FILE [--sm] [--name NAME] [--mode MODE] [--script FILE] [--trace FILE]
 *                 [-- COMMAND [ARGUMENT]...]: a virtual InfiniBand fabric, until it is ended: Ctrl-C,
 * "quit", a signal, or the end of the command. See room.h.
 *
 *	--make RECIPE...	prints the file of a generated topology, with what it costs
 *	--list			the fabrics that run, and their hosts
 *	--say LINE		to the console of one that runs
 */
#include "fabric/room.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "fabric/trace.h"
#include "ib/client.h"
#include "platform/clock.h"
#include "tool.h"

#define NS_PER_US	1000u
#define US_PER_MS	1000u
#define EVENTS		64
#define GOODBYE_US	3000000u
#define RECIPE_MAX	512
#define FILE_MAX	(256u << 20)
#define LONG_MESSAGE	(8 << 20)

/* ---- what the rest of the room asks ---- */

int room_watch(struct room *room, int fd, struct watch *watch, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.ptr = watch };

	if (!epoll_ctl(room->epoll, EPOLL_CTL_ADD, fd, &event))
		return 0;
	return errno == EEXIST && !epoll_ctl(room->epoll, EPOLL_CTL_MOD, fd, &event) ? 0 : errno;
}

void room_unwatch(struct room *room, int fd)
{
	epoll_ctl(room->epoll, EPOLL_CTL_DEL, fd, NULL);
}

void room_say(struct room *room, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
}

void room_host_name(const struct room *room, uint32_t node, char name[CTL_NODE_MAX])
{
	struct fabric_node_info info;
	size_t length;

	if (!fabric_node_info(room->fabric, node, &info)) {
		name[0] = '\0';
		return;
	}
	length = strcspn(info.given, " ");
	if (length)
		snprintf(name, CTL_NODE_MAX, "%.*s", (int)length, info.given);
	else
		snprintf(name, CTL_NODE_MAX, "%s", info.id);
}

/* Of the HCAs with a common host name each is one of the host's. */
static bool is_of_host(const struct room *room, uint32_t node, uint32_t host, const char *host_name)
{
	struct fabric_node_info info;
	char name[CTL_NODE_MAX];

	if (node == host)
		return true;
	if (!fabric_node_info(room->fabric, node, &info) || info.type != FABRIC_CA)
		return false;
	room_host_name(room, node, name);
	return !strcmp(name, host_name);
}

/* "host1, host2, ..." as far as there is room. */
static void list_hosts(const struct room *room, char *text, size_t size)
{
	char name[CTL_NODE_MAX], last[CTL_NODE_MAX] = "";
	size_t used = 0;

	text[0] = '\0';
	for (uint32_t node = 0; node < fabric_nodes(room->fabric); node++) {
		struct fabric_node_info info;

		if (!fabric_node_info(room->fabric, node, &info) || info.type != FABRIC_CA)
			continue;
		room_host_name(room, node, name);
		if (!strcmp(name, last))
			continue;
		strcpy(last, name);
		if (used + strlen(name) + 8 > size) {
			snprintf(text + used, size - used, ", ...");
			return;
		}
		used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", name);
	}
}

uint32_t room_find_host(const struct room *room, const char *name, char *why, size_t size)
{
	uint32_t node = FABRIC_NONE, found = FABRIC_NONE;
	struct fabric_node_info info;
	char hosts[240], first[CTL_NODE_MAX], other[CTL_NODE_MAX];
	bool one = true;

	if (*name) {
		node = fabric_find_node(room->fabric, name);
	} else {
		for (uint32_t i = 0; i < fabric_nodes(room->fabric) && one; i++) {
			if (!fabric_node_info(room->fabric, i, &info) || info.type != FABRIC_CA)
				continue;
			if (found == FABRIC_NONE) {
				found = i;
				room_host_name(room, i, first);
			}
			room_host_name(room, i, other);
			one = !strcmp(first, other);
		}
		node = one ? found : FABRIC_NONE;
	}
	if (node != FABRIC_NONE)
		return node;
	list_hosts(room, hosts, sizeof(hosts));
	if (*name)
		snprintf(why, size,
			 "VERBATIM_NODE: the fabric has no node '%.60s': expected one of %s", name,
			 hosts);
	else
		snprintf(why, size, "VERBATIM_NODE is not set: expected one of %s", hosts);
	return FABRIC_NONE;
}

void room_fill_port(const struct room *room, uint32_t node, uint32_t number, struct ctl_port *port)
{
	struct fabric_node_info info;
	struct fabric_port_info state;
	uint8_t gid[16];

	fabric_node_info(room->fabric, node, &info);
	fabric_port_info(room->fabric, node, number, &state);
	port->number = number;
	port->ports = info.ports;
	port->node_type = info.type;
	port->node_guid = info.guid;
	port->system_guid = info.system_guid;
	snprintf(port->description, sizeof(port->description), "%s", info.description);
	snprintf(port->model, sizeof(port->model), "verbatim");
	snprintf(port->firmware, sizeof(port->firmware), "0.1.0");
	snprintf(port->revision, sizeof(port->revision), "%x", info.revision);
	port->lid = state.lid;
	port->lmc = state.lmc;
	port->sm_lid = state.sm_lid;
	port->sm_sl = state.sm_sl;
	port->state = state.state;
	port->phys_state = state.phys_state;
	port->rate_mbps = (uint32_t)state.rate_mbps;
	port->cap_mask = state.cap_mask;
	snprintf(port->speed, sizeof(port->speed), "%s", state.speed_name ? state.speed_name : "");
	port->lanes = state.width_lanes;
	port->gid_prefix = state.gid_prefix;
	port->guid = state.guid;
	port->pkeys = state.pkeys < CTL_PKEYS_MAX ? state.pkeys : CTL_PKEYS_MAX;
	for (unsigned i = 0; i < port->pkeys; i++)
		port->pkey[i] = fabric_pkey(room->fabric, node, number, i);
	port->vendor_id = info.vendor_id;
	port->device_id = info.device_id;
	port->cap_mask2 = state.cap_mask2;
	port->mtu_cap = state.mtu_cap;
	port->mtu_active = state.mtu_active;
	port->vl_cap = state.vl_cap;
	port->subnet_timeout = state.subnet_timeout;
	port->init_type_reply = state.init_type_reply;
	port->active_width = state.width_active;
	port->active_speed = state.speed_active;
	port->active_speed_ex = state.speed_active_ex;
	port->mkey_violations = state.mkey_violations;
	port->pkey_violations = state.pkey_violations;
	port->qkey_violations = state.qkey_violations;
	port->gids = state.gids < CTL_GIDS_MAX ? state.gids : CTL_GIDS_MAX;
	memset(port->gid, 0, sizeof(port->gid));
	for (unsigned i = 0; i < port->gids; i++)
		if (fabric_gid(room->fabric, node, number, i, gid) && get_be64(gid + 8))
			memcpy(port->gid[i], gid, sizeof(gid));
}

void room_ports(const struct room *room, uint32_t host,
		bool (*take)(void *context, const struct ctl_port *port, uint32_t node),
		void *context)
{
	char host_name[CTL_NODE_MAX];
	unsigned device = 0, umad = 0;

	room_host_name(room, host, host_name);
	for (uint32_t node = 0; node < fabric_nodes(room->fabric); node++) {
		struct fabric_node_info info;
		uint32_t first, last;

		if (!is_of_host(room, node, host, host_name) ||
		    !fabric_node_info(room->fabric, node, &info))
			continue;
		first = info.type == FABRIC_SWITCH ? 0 : 1;
		last = info.type == FABRIC_SWITCH ? 0 : info.ports;
		for (uint32_t number = first; number <= last; number++) {
			struct ctl_port port = { .umad = umad++, .hca = device };

			snprintf(port.device, sizeof(port.device), "vb_ib%u", device);
			room_fill_port(room, node, number, &port);
			if (!take(context, &port, node))
				return;
		}
		device++;
	}
}

struct device_search {
	const char *device;
	uint32_t number, node;
	bool found;
	struct ctl_port *port;
};

static bool search_take(void *context, const struct ctl_port *port, uint32_t node)
{
	struct device_search *search = context;

	search->found = port->number == search->number && !strcmp(port->device, search->device);
	if (search->found) {
		*search->port = *port;
		search->node = node;
	}
	return !search->found;
}

bool room_find_device(const struct room *room, uint32_t host, const char *device, uint32_t port,
		      uint32_t *node, struct ctl_port *found)
{
	struct device_search search = { .device = device, .number = port, .port = found };

	room_ports(room, host, search_take, &search);
	*node = search.node;
	return search.found;
}

bool room_is_cabled(const struct room *room, const struct fabric_port_info *port)
{
	struct fabric_port_info peer;

	return port->peer_node != FABRIC_NONE && port->plugged &&
	       fabric_port_info(room->fabric, port->peer_node, port->peer_port, &peer) &&
	       peer.plugged;
}

bool room_is_up(const struct room *room)
{
	for (uint32_t node = 0; node < fabric_nodes(room->fabric); node++) {
		struct fabric_node_info info;
		struct fabric_port_info port;

		if (!fabric_node_info(room->fabric, node, &info) || info.type != FABRIC_CA ||
		    !info.powered)
			continue;
		for (uint32_t number = 1; number <= info.ports; number++)
			if (fabric_port_info(room->fabric, node, number, &port) &&
			    port.state != FABRIC_PORT_ACTIVE && room_is_cabled(room, &port))
				return false;
	}
	return true;
}

/* ---- the fabric's own calls ---- */

static void room_deliver(void *context, uint32_t node, uint32_t port, const uint8_t mad[MAD_BYTES],
			 const struct fabric_address *from)
{
	struct room *room = context;

	if (!gmp_deliver(room, node, port, mad, from))
		agents_deliver(room->agents, node, port, mad, from, room->now_us);
}

/* What programs' QPs get has no segments: all that has is for agents. */
static bool room_deliver_train(void *context, uint32_t node, uint32_t port,
			       const struct fabric_train *train, const struct fabric_address *from)
{
	struct room *room = context;

	return agents_deliver_train(room->agents, node, port, train, from);
}

static void room_event(void *context, uint32_t node, uint32_t port, enum fabric_event event)
{
	struct room *room = context;

	if (event == FABRIC_EVENT_PORT_ACTIVE)
		room->look = true;
	if (event == FABRIC_EVENT_PORT_ERROR)
		room->is_up = false;
	data_event(room, node, port, event);
}

static enum fabric_arrival room_arrive(void *context, uint32_t node, uint32_t port,
				       const uint8_t *packet, size_t bytes)
{
	return data_arrive(context, node, port, packet, bytes);
}

static void room_fold(void *context)
{
	data_fold(context);
}

static void room_packet(void *context, const struct fabric_packet *packet)
{
	struct room *room = context;

	fabric_trace_packet(room->trace, packet);
}

static void room_lost(void *context, uint32_t node, uint32_t port, const uint8_t mad[MAD_BYTES],
		      const char *why)
{
	struct room *room = context;
	struct fabric_node_info info;

	if (!room->verbose || !fabric_node_info(room->fabric, node, &info))
		return;
	if (mad)
		room_say(room, "lost at %s[%u]: %s: class 0x%02x, method 0x%02x, attribute 0x%04x",
			 info.id, port, why, mad[1], mad[3], get_be16(mad + 16));
	else
		room_say(room, "lost at %s[%u]: %s: a packet of data", info.id, port, why);
}

static const struct fabric_ops fabric_calls = { .deliver = room_deliver,
						.deliver_train = room_deliver_train,
						.event = room_event,
						.arrive = room_arrive,
						.fold = room_fold,
						.lost = room_lost };
static const struct fabric_ops traced_calls = { .deliver = room_deliver,
						.event = room_event,
						.arrive = room_arrive,
						.fold = room_fold,
						.lost = room_lost,
						.packet = room_packet };
static const struct agents_ops agents_calls = { .receive = visitors_receive,
						.receive_sealed = visitors_receive_sealed };

/* ---- the turn ---- */

static uint64_t room_now_us(void)
{
	return clock_now_ns() / NS_PER_US;
}

static uint64_t sooner(uint64_t one, uint64_t other)
{
	return one < other ? one : other;
}

/* -1: for ever. */
static int room_timeout_ms(const struct room *room)
{
	uint64_t deadline_us =
		sooner(fabric_deadline_us(room->fabric), agents_deadline_us(room->agents));
	uint64_t now_us = room_now_us(), ms;

	deadline_us = sooner(deadline_us, console_deadline_us(room));
	deadline_us = sooner(deadline_us, sooner(child_deadline_us(room), room->pause_us));
	deadline_us = sooner(deadline_us, data_deadline_us(room));
	if (deadline_us == FABRIC_NEVER && !room->ended)
		return -1;
	ms = deadline_us <= now_us ? 0 : (deadline_us - now_us + US_PER_MS - 1) / US_PER_MS;
	if (room->ended && ms > GOODBYE_US / US_PER_MS)
		ms = GOODBYE_US / US_PER_MS;
	return ms < INT_MAX ? (int)ms : INT_MAX;
}

static void room_turn(struct room *room)
{
	struct epoll_event event[EVENTS];
	int ready = epoll_wait(room->epoll, event, EVENTS, room_timeout_ms(room));

	room->now_us = room_now_us();
	for (int i = 0; i < ready; i++) {
		struct watch *watch = event[i].data.ptr;

		watch->ready(watch, event[i].events);
	}
	if (fabric_deadline_us(room->fabric) <= room->now_us)
		fabric_timer(room->fabric, room->now_us);
	if (agents_deadline_us(room->agents) <= room->now_us)
		agents_timer(room->agents, room->now_us);
	if (room->look && !room->is_up && room_is_up(room)) {
		room->is_up = true;
		room_say(room, "subnet up: every host port is Active");
	}
	room->look = false;
	console_timer(room);
	child_timer(room);
	data_timer(room);
	visitors_reap(room);
}

/* ---- beginning and end ---- */

/* Under the lock of the directory: what a fabric that was killed left behind is removed. */
static int room_claim(struct room *room)
{
	char path[PATH_MAX + 16];

	snprintf(path, sizeof(path), "%s/lock", room->directory);
	room->lock = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (room->lock < 0) {
		fprintf(stderr, "verbatim fabric: %s: %s\n", path, strerror(errno));
		return -1;
	}
	if (flock(room->lock, LOCK_EX | LOCK_NB)) {
		fprintf(stderr,
			"verbatim fabric: a fabric '%s' runs already: end it, or choose another "
			"name by "
			"--name\n",
			room->name);
		return -1;
	}
	snprintf(path, sizeof(path), "%s/" CTL_FILE, room->directory);
	unlink(path);
	return 0;
}

static void raise_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur >= 4 * VISITORS_MAX)
		return;
	limit.rlim_cur = limit.rlim_max < 4 * VISITORS_MAX ? limit.rlim_max : 4 * VISITORS_MAX;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static int failed(const char *what, int err)
{
	fprintf(stderr, "verbatim fabric: %s: %s\n", what, strerror(err));
	return -1;
}

static int room_open(struct room *room)
{
	char why[PLACE_WHY_MAX];
	int err = place_make(room->name, room->mode, room->directory, why);

	if (err) {
		fprintf(stderr, "verbatim fabric: %s\n", why);
		return -1;
	}
	raise_limit();
	room->agents = agents_new(room->fabric, &agents_calls);
	room->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (!room->agents || room->epoll < 0)
		return failed("no memory", ENOMEM);
	fabric_set_ops(room->fabric, room->trace ? &traced_calls : &fabric_calls, room);
	if (room_claim(room))
		return -1;
	err = issm_open(room);
	if (err)
		return failed("FIFOs cannot be watched", err);
	err = child_open(room);
	if (err)
		return failed("no signals", err);
	err = visitors_open(room);
	return err ? failed("no socket for programs", err) : 0;
}

static void room_close(struct room *room)
{
	child_end_all(room);
	console_close_all(room);
	visitors_close(room);
	data_close(room);
	issm_close(room);
	agents_free(room->agents);
	if (room->trace && fabric_trace_close(room->trace))
		fprintf(stderr, "verbatim fabric: the trace is not whole: %m\n");
	fabric_free(room->fabric);
	if (room->epoll >= 0)
		close(room->epoll);
	if (room->lock >= 0)
		close(room->lock);
}

static void room_greet(struct room *room)
{
	unsigned switches = 0, hosts = 0, cables = 0;
	struct fabric_node_info info;
	struct fabric_port_info port;
	char first[CTL_NODE_MAX] = "";

	for (uint32_t node = 0; node < fabric_nodes(room->fabric); node++) {
		if (!fabric_node_info(room->fabric, node, &info))
			continue;
		switches += info.type == FABRIC_SWITCH;
		hosts += info.type == FABRIC_CA;
		if (info.type == FABRIC_CA && !*first)
			room_host_name(room, node, first);
		for (uint32_t number = 1; number <= info.ports; number++)
			cables += fabric_port_info(room->fabric, node, number, &port) &&
				  port.peer_node != FABRIC_NONE;
	}
	room_say(room, "fabric %s: %u switches, %u HCAs, %u cables; %s", room->name, switches,
		 hosts, cables / 2, room->directory);
	room_say(room,
		 "a program on %s: VERBATIM_FABRIC=%s VERBATIM_NODE=%s verbatim run ibnetdiscover",
		 first, room->name, first);
}

/* ---- the command ---- */

struct options {
	const char *file, *name, *script, *trace, *say;
	bool sm, list, make;
	unsigned mode;
	char recipe[RECIPE_MAX];
};

static void say_errors(const char *what, const struct fabric_errors *errors)
{
	for (unsigned i = 0; i < errors->count && i < FABRIC_ERRORS_MAX; i++) {
		if (errors->error[i].line)
			fprintf(stderr, "verbatim fabric: %s:%u: %s\n", what, errors->error[i].line,
				errors->error[i].text);
		else
			fprintf(stderr, "verbatim fabric: %s: %s\n", what, errors->error[i].text);
	}
	if (errors->count > FABRIC_ERRORS_MAX)
		fprintf(stderr, "verbatim fabric: %s: %u errors more\n", what,
			errors->count - FABRIC_ERRORS_MAX);
	if (!errors->count)
		fprintf(stderr, "verbatim fabric: %s: no memory\n", what);
}

/* All of a file that a person named, of any kind that ends; NULL after a line on stderr. */
static char *read_file(const char *path)
{
	FILE *file = fopen(path, "re");
	size_t used = 0, room = 0, got = 0;
	char *text = NULL, *larger;

	do {
		used += got;
		if (room - used < 2) {
			room += room + 65536;
			larger = room <= FILE_MAX ? realloc(text, room) : NULL;
			if (!larger) {
				errno = room <= FILE_MAX ? ENOMEM : EFBIG;
				break;
			}
			text = larger;
		}
		got = file ? fread(text + used, 1, room - used - 1, file) : 0;
	} while (got);
	if (!file || room > FILE_MAX || ferror(file)) {
		fprintf(stderr, "verbatim fabric: %s: %s\n", path, strerror(errno));
		free(text);
		text = NULL;
	}
	if (file)
		fclose(file);
	if (text)
		text[used] = '\0';
	return text;
}

/* For include: beside the file that was named. */
static char *read_included(void *context, const char *name)
{
	const char *file = context, *slash = strrchr(file, '/');
	char path[PATH_MAX];

	if (*name == '/' || !slash)
		return read_file(name);
	if (snprintf(path, sizeof(path), "%.*s%s", (int)(slash + 1 - file), file, name) >=
	    (int)sizeof(path))
		return NULL;
	return read_file(path);
}

/* "nets/lab.topo": lab. */
static void name_from_file(const char *path, char name[80])
{
	const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	size_t length = strcspn(base, ".");

	snprintf(name, 80, "%.*s", length < 64 ? (int)length : 64, base);
	if (!place_name_is_right(name))
		strcpy(name, "fabric");
}

static int make_and_print(const char *recipe)
{
	struct fabric_errors errors = { 0 };
	struct fabric_cost cost;
	struct fabric *fabric;
	char *text = fabric_make(recipe, &errors);

	if (!text) {
		say_errors("--make", &errors);
		return EXIT_USAGE;
	}
	fabric = fabric_new_from_file(text, &errors);
	if (fabric && fabric_cost(fabric, &cost))
		printf("# %s\n# %u switches with %u ports, %u of them free; %u hosts with %u "
		       "ports\n"
		       "# %u cables between switches, %u to hosts; bisection %u cables\n"
		       "# diameter %u switches, %.2f on average; %s\n",
		       recipe, cost.switches, cost.switch_ports, cost.free_switch_ports, cost.hosts,
		       cost.host_ports, cost.switch_cables, cost.host_cables, cost.bisection,
		       cost.diameter, cost.mean_switches,
		       cost.connected ? "connected" : "NOT connected");
	fputs(text, stdout);
	free(text);
	if (!fabric) {
		say_errors("--make", &errors);
		return EXIT_FAILURE;
	}
	fabric_free(fabric);
	return EXIT_SUCCESS;
}

static void print_text(void *context, const struct ctl_head *head, const char *body)
{
	if (head->kind == CTL_TEXT)
		fputs(body, stdout);
}

static int list_fabrics(void)
{
	char names[4096], why[PLACE_WHY_MAX], *save, *name;
	int fd;

	place_list(names, sizeof(names));
	for (name = strtok_r(names, ", ", &save); name; name = strtok_r(NULL, ", ", &save)) {
		static const char question[] = "hosts";

		if (ib_connect(name, &fd, why))
			continue;	/* it was killed */
		printf("%s: ", name);
		if (ib_ask(fd, CTL_COMMAND, question, sizeof(question), print_text, NULL, NULL,
			   why))
			printf("%s\n", why);
		close(fd);
	}
	return EXIT_SUCCESS;
}

/* Others may look for a fabric and use it; if they could write, they could be it. */
static bool parse_mode(const char *text, unsigned *mode)
{
	char *end;
	unsigned long value = strtoul(text, &end, 8);

	*mode = (unsigned)value;
	return !*end && (value == 0700 || value == 0750 || value == 0755);
}

/* The index of the command in @argv, argc: none, -1: wrong. */
static int parse(int argc, char **argv, struct options *options)
{
	struct option_reader reader = option_read(argc, argv);
	const char *word;

	while ((word = option_next(&reader))) {
		if (!strcmp(word, "--sm")) {
			options->sm = true;
		} else if (!strcmp(word, "--name")) {
			options->name = reader.value;
		} else if (!strcmp(word, "--script")) {
			options->script = reader.value;
		} else if (!strcmp(word, "--mode")) {
			if (!parse_mode(reader.value, &options->mode)) {
				usage_error("fabric", "--mode %s: expected 0700, 0750 or 0755",
					    reader.value);
				return -1;
			}
		} else if (!strcmp(word, "--trace")) {
			options->trace = reader.value;
		} else if (!strcmp(word, "--say")) {
			options->say = reader.value;
		} else if (!strcmp(word, "--list")) {
			options->list = true;
		} else if (!strcmp(word, "--make")) {
			options->make = true;
			snprintf(options->recipe, RECIPE_MAX, "%s", reader.value);
		} else if (reader.only_operands) {
			return reader.at - 1;
		} else if (options->make) {
			size_t used = strlen(options->recipe);

			snprintf(options->recipe + used, RECIPE_MAX - used, " %s", reader.value);
		} else if (!options->file) {
			options->file = reader.value;
		} else {
			usage_error("fabric",
				    "unexpected argument '%s': a command stands behind --",
				    reader.value);
			return -1;
		}
	}
	return reader.wrong ? -1 : argc;
}

/* The same for files that describe the same: by it programs know a fabric again. 0: no memory. */
static uint64_t subnet_hash(const struct fabric *fabric)
{
	char *text = fabric_print(fabric);
	uint64_t hash = UINT64_C(14695981039346656037);

	for (const char *c = text; c && *c; c++)
		hash = (hash ^ (uint8_t)*c) * UINT64_C(1099511628211);
	if (!text)
		return 0;
	free(text);
	return hash;
}

static int room_script(struct room *room, const char *path)
{
	int err = console_script(room, path);

	if (err)
		fprintf(stderr, "verbatim fabric: %s: %s\n", path, strerror(err));
	return err;
}

static int run(struct room *room, const struct options *options, int argc, int first, char **argv)
{
	if (options->trace) {
		room->trace = fabric_trace_open(options->trace, room->fabric, room_now_us());
		if (!room->trace) {
			fprintf(stderr, "verbatim fabric: %s: %m\n", options->trace);
			return EXIT_FAILURE;
		}
	}
	/* Memory of a long message is kept for the next one: fresh pages cost more than what is written there. */
	mallopt(M_MMAP_THRESHOLD, LONG_MESSAGE);
	mallopt(M_TRIM_THRESHOLD, 2 * LONG_MESSAGE);
	if (room_open(room))
		return EXIT_FAILURE;
	room->now_us = room_now_us();
	fabric_timer(room->fabric, room->now_us);	/* what the file plants begins */
	room_greet(room);
	if (options->script && room_script(room, options->script))
		return EXIT_FAILURE;
	if (options->sm && child_start_sm(room))
		return EXIT_FAILURE;
	if (first < argc) {
		room->command_line = argv + first;
		room->command_us = options->sm ? room_now_us() + 60000000u : 0;
	} else {
		console_open(room, STDIN_FILENO, NULL);
	}
	while (!room->ended)
		room_turn(room);
	/* The subnet manager says goodbye to ports that are there. */
	if (room->sm && !kill(room->sm, SIGTERM))
		for (uint64_t until_us = room_now_us() + GOODBYE_US;
		     room->sm && room->now_us < until_us;)
			room_turn(room);
	return room->status;
}

int fabric_command(int argc, char **argv)
{
	struct room room = { .epoll = -1, .listener = -1, .lock = -1, .inotify = -1, .signals = -1,
			     .pause_us = FABRIC_NEVER };
	struct options options = { .mode = PLACE_MODE };
	struct fabric_errors errors = { 0 };
	struct fabric_files files = { .read = read_included };
	int first = parse(argc, argv, &options), status;
	char name[80], *text;

	if (first < 0)
		return EXIT_USAGE;
	if (options.make)
		return make_and_print(options.recipe);
	if (options.list)
		return list_fabrics();
	if (options.say && options.file)
		return usage_error("fabric", "--say is for a fabric that runs: --name says which");
	if (options.say)
		return control_say("fabric", options.name, options.say);
	if (!options.file)
		return usage_error(
			"fabric",
			"no file given: verbatim fabric FILE [--sm] [--name NAME] [-- COMMAND]; "
			"verbatim fabric --make fattree prints one");
	text = read_file(options.file);
	files.context = (void *)(uintptr_t)options.file;
	if (!text)
		return EXIT_FAILURE;
	room.fabric = fabric_new_from_files(text, &files, &errors);
	free(text);
	if (!room.fabric) {
		say_errors(options.file, &errors);
		return EXIT_FAILURE;
	}
	room.hash = subnet_hash(room.fabric);
	name_from_file(options.file, name);
	room.mode = options.mode;
	room.name = options.name ? options.name : name;
	list_init(&room.visitors);
	list_init(&room.issms);
	list_init(&room.consoles);
	status = run(&room, &options, argc, first, argv);
	room_close(&room);
	return status;
}
