/* SPDX-License-Identifier: BSD-2-Clause */
/* Agents of the programs on the ports of a fabric: agents.h. */
#include "fabric/agents_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

enum { CLASS_DEVICE = 0x06, CLASS_DEVICE_ADMIN = 0x10, CLASS_BIS = 0x12 };
enum { CLASSES = 0x50, VERSIONS = 8 };

/* ---- classes ---- */

bool agents_class_has_rmpp(uint8_t class)
{
	return class == MAD_CLASS_ADMINISTRATION || class == CLASS_DEVICE || class == CLASS_DEVICE_ADMIN ||
	       class == CLASS_BIS || mad_class_has_oui(class);
}

unsigned agents_data_offset(uint8_t class)
{
	if (class == MAD_CLASS_ADMINISTRATION)
		return 56;
	if (class == CLASS_DEVICE || class == CLASS_DEVICE_ADMIN || class == CLASS_BIS)
		return 64;
	return mad_class_has_oui(class) ? 40 : MAD_HEADER_BYTES;
}

/* ---- ports and files ---- */

static struct list *port_bucket(struct agents *agents, uint32_t node, uint32_t port)
{
	return &agents->ports[(node * 31 + port) % PORT_BUCKETS];
}

static struct agents_port *port_find(struct agents *agents, uint32_t node, uint32_t port)
{
	struct list *bucket = port_bucket(agents, node, port), *at;

	list_for_each(at, bucket) {
		struct agents_port *found = list_entry(at, struct agents_port, of_bucket);

		if (found->node == node && found->port == port)
			return found;
	}
	return NULL;
}

struct agents *agents_new(struct fabric *fabric, const struct agents_ops *ops)
{
	struct agents *agents = calloc(1, sizeof(*agents));

	if (!agents)
		return NULL;
	agents->fabric = fabric;
	agents->ops = *ops;
	list_init(&agents->files);
	list_init(&agents->ready);
	for (unsigned i = 0; i < PORT_BUCKETS; i++)
		list_init(&agents->ports[i]);
	return agents;
}

void agents_free(struct agents *agents)
{
	if (!agents)
		return;
	while (!list_empty(&agents->files))
		agents_close(list_entry(agents->files.next, struct agents_file, of_all));
	timer_heap_free(&agents->timers);
	free(agents);
}

struct agents_file *agents_open(struct agents *agents, uint32_t node, uint32_t port_number,
				void *user)
{
	struct agents_port *port = port_find(agents, node, port_number);
	struct agents_file *file = calloc(1, sizeof(*file));

	if (file && !port) {
		port = calloc(1, sizeof(*port));
		if (port) {
			port->node = node;
			port->port = port_number;
			list_init(&port->table);
			list_add_tail(port_bucket(agents, node, port_number), &port->of_bucket);
		}
	}
	if (!file || !port) {
		free(file);
		return NULL;
	}
	port->files++;
	file->all = agents;
	file->port = port;
	file->user = user;
	list_add_tail(&agents->files, &file->of_all);
	return file;
}

bool agent_timed(struct agents *agents, struct agent_timer *timer,
		 void (*expire)(struct agent_timer *timer, uint64_t now_us))
{
	if (timer_heap_reserve(&agents->timers, agents->timed + 1))
		return false;
	agents->timed++;
	timer_init(&timer->timer);
	timer->expire = expire;
	return true;
}

void agent_untimed(struct agents *agents, struct agent_timer *timer)
{
	timer_set(&agents->timers, &timer->timer, TIME_NEVER);
	agents->timed--;
}

void agent_arm(struct agents *agents, struct agent_timer *timer, uint64_t now_us, uint64_t ms)
{
	timer_set(&agents->timers, &timer->timer, (now_us + ms * US_PER_MS) * NS_PER_US);
}

static void agent_request_end(struct request *request)
{
	struct agents_file *file = request->agent->file;

	if (request->sending)
		sending_end(request->sending);
	agent_untimed(file->all, &request->timer);
	list_remove(&request->of_tid);
	file->waiting--;
	free(request);
}

static void agent_end(struct agent *agent)
{
	agent_rmpp_end(agent);
	for (unsigned i = 0; i < REQUEST_BUCKETS; i++)
		while (!list_empty(&agent->waiting[i]))
			agent_request_end(
				list_entry(agent->waiting[i].next, struct request, of_tid));
	list_remove(&agent->row.node);
	agent->file->agent[agent->id] = NULL;
	free(agent);
}

void agents_close(struct agents_file *file)
{
	struct agents_port *port = file->port;

	for (unsigned i = 0; i < AGENTS_PER_FILE; i++)
		if (file->agent[i])
			agent_end(file->agent[i]);
	list_remove(&file->of_all);
	free(file);
	if (--port->files)
		return;
	list_remove(&port->of_bucket);
	free(port);
}

/* ---- registering ---- */

static bool request_is_sound(const struct agent_request *request)
{
	uint8_t class = request->class;

	if (request->class_version >= VERSIONS || request->rmpp_version > 1 ||
	    (request->flags & ~AGENT_USER_RMPP) || request->oui > 0xffffff)
		return false;
	if (class == 0 || (class >= CLASSES && class != MAD_CLASS_SUBNET_DIRECTED))
		return false;
	if (mad_class_has_oui(class) && !request->oui)
		return false;
	return !request->rmpp_version || agents_class_has_rmpp(class);
}

static bool tid_is_used(const struct agents *agents, uint32_t tid)
{
	const struct list *at;

	list_for_each(at, &agents->files) {
		const struct agents_file *file = list_entry(at, struct agents_file, of_all);

		for (unsigned i = 0; i < AGENTS_PER_FILE; i++)
			if (file->agent[i] && file->agent[i]->row.key.transaction == tid)
				return true;
	}
	return false;
}

int agents_register(struct agents_file *file, const struct agent_request *request, uint32_t *id)
{
	struct mad_key key = {
		.port = file->port->port, .qpn = mad_class_qpn(request->class), .class = request->class,
		.class_version = request->class_version, .oui = request->oui,
		.methods = { request->methods[0], request->methods[1] },
	};
	struct agents *agents = file->all;
	struct agent *agent;
	uint32_t wanted = *id;

	if (!request_is_sound(request) || (wanted != AGENTS_ANY && wanted >= AGENTS_PER_FILE))
		return EINVAL;
	if (wanted == AGENTS_ANY)
		for (wanted = 0; wanted < AGENTS_PER_FILE && file->agent[wanted]; wanted++)
			;
	if (wanted == AGENTS_PER_FILE)
		return ENOMEM;
	do
		key.transaction = ++agents->last_tid;
	while (!key.transaction || tid_is_used(agents, key.transaction));
	/* Connection management is the fabric's own, as it is a kernel's. */
	if (key.class == MAD_CLASS_CM && key.class_version == 2 && (key.methods[0] >> MAD_METHOD_SEND & 1))
		return EBUSY;
	if (file->agent[wanted] || mad_table_is_taken(&file->port->table, &key))
		return EBUSY;
	agent = calloc(1, sizeof(*agent));
	if (!agent)
		return ENOMEM;
	agent->row.key = key;
	agent->file = file;
	agent->id = wanted;
	agent->request = *request;
	for (unsigned i = 0; i < REQUEST_BUCKETS; i++)
		list_init(&agent->waiting[i]);
	list_init(&agent->sendings);
	list_init(&agent->assemblies);
	list_add_tail(&file->port->table, &agent->row.node);
	file->agent[wanted] = agent;
	*id = wanted;
	return 0;
}

int agents_unregister(struct agents_file *file, uint32_t id)
{
	if (id >= AGENTS_PER_FILE || !file->agent[id])
		return EINVAL;
	agent_end(file->agent[id]);
	return 0;
}

/* ---- from a program ---- */

static struct list *tid_bucket(struct agent *agent, const uint8_t *mad)
{
	return &agent->waiting[get_be32(mad + 12) % REQUEST_BUCKETS];
}

/* The request with the TID and class of @mad. */
static struct request *request_find(struct agent *agent, const uint8_t *mad)
{
	struct list *bucket = tid_bucket(agent, mad), *at;

	list_for_each(at, bucket) {
		struct request *request = list_entry(at, struct request, of_tid);

		if (request->mad[1] == mad[1] && !memcmp(request->mad + 8, mad + 8, 8))
			return request;
	}
	return NULL;
}

void agent_address(const struct agent_header *header, struct fabric_address *to)
{
	*to = (struct fabric_address){
		.lid = get_be16(header->lid),
		.sl = header->sl & 0xf,
		.path_bits = header->path_bits,
		.qpn = get_be32(header->qpn) & 0xffffff,
		.qkey = QKEY_GSI,	/* the QP's own, whatever the program says */
		.pkey_index = header->pkey_index,
		.has_grh = header->grh_present != 0,
		.gid_index = header->gid_index,
		.hop_limit = header->hop_limit,
		.traffic_class = header->traffic_class,
		.flow_label = get_be32(header->flow_label) & 0xfffff,
	};
	memcpy(to->gid, header->gid, sizeof(to->gid));
}

int agent_send(struct agents_file *file, const struct agent_header *header,
	       const uint8_t mad[MAD_BYTES], uint64_t now_us)
{
	struct fabric_address to;

	agent_address(header, &to);
	return fabric_send(file->all->fabric, file->port->node, file->port->port, mad, &to, now_us);
}

void request_arm(struct request *request, uint64_t now_us)
{
	agent_arm(request->agent->file->all, &request->timer, now_us, request->header.timeout_ms);
}

void request_fail(struct request *request)
{
	struct agent_header header = request->header;
	struct agent *agent = request->agent;
	uint8_t mad[MAD_BYTES];

	memcpy(mad, request->mad, MAD_BYTES);
	agent_request_end(request);
	agent->file->all->statistics.timeouts++;
	header.status = ETIMEDOUT;
	header.length = sizeof(header) + MAD_HEADER_BYTES;
	agent_receive(agent, &header, mad, MAD_HEADER_BYTES);
}

static void request_expire(struct agent_timer *timer, uint64_t now_us)
{
	struct request *request = (struct request *)timer;
	struct agent *agent = request->agent;
	struct agent_header header = request->header;
	uint8_t mad[MAD_BYTES];

	if (!request->retries) {
		request_fail(request);
		return;
	}
	memcpy(mad, request->mad, MAD_BYTES);
	request->retries--;
	agent->file->all->statistics.retries++;
	request_arm(request, now_us);
	/* The answer may end the request meanwhile. */
	agent_send(agent->file, &header, mad, now_us);
}

/* It waits before it is sent: the answer comes while it is. NULL: no memory, or too many wait. */
static struct request *agent_request_begin(struct agent *agent, const struct agent_header *header,
					   const uint8_t mad[MAD_BYTES])
{
	struct agents *agents = agent->file->all;
	struct request *request;

	if (agent->file->waiting == AGENTS_REQUESTS_MAX)
		return NULL;
	request = malloc(sizeof(*request));
	if (!request || !agent_timed(agents, &request->timer, request_expire)) {
		free(request);
		return NULL;
	}
	request->agent = agent;
	request->sending = NULL;
	request->retries = header->retries;
	request->header = *header;
	memcpy(request->mad, mad, MAD_BYTES);
	list_add_tail(tid_bucket(agent, mad), &request->of_tid);
	agent->file->waiting++;
	return request;
}

static bool agent_segments(const struct agent *agent)
{
	return agent->request.rmpp_version && !(agent->request.flags & AGENT_USER_RMPP);
}

/* @sealed: the message, of which @message has the beginning; or NULL. */
static int agents_write_from(struct agents_file *file, const uint8_t *message, size_t bytes,
			     struct rmpp_sealed *sealed, uint64_t now_us)
{
	struct agents *agents = file->all;
	struct agent_header header;
	uint8_t mad[MAD_BYTES] = { 0 };
	size_t length = bytes - sizeof(header);
	struct request *request = NULL;
	struct agent *agent;
	bool whole, rmpp;
	int err;

	if (bytes < sizeof(header) + RMPP_HEADER_END)
		return EINVAL;
	memcpy(&header, message, sizeof(header));
	agent = header.agent < AGENTS_PER_FILE ? file->agent[header.agent] : NULL;
	if (!agent)
		return EINVAL;
	message += sizeof(header);
	whole = length <= MAD_BYTES;
	memcpy(mad, message, whole ? length : MAD_BYTES);
	rmpp = agent_segments(agent) && agents_class_has_rmpp(mad[1]) && rmpp_is_active(mad);
	if (rmpp && (length < agents_data_offset(mad[1]) || length > RMPP_MESSAGE_MAX))
		return EINVAL;
	agents->statistics.written++;
	if (!mad_is_answer(mad)) {
		put_be32(mad + 8, agent->row.key.transaction);
		if (request_find(agent, mad))
			return EINVAL;
		if (header.timeout_ms) {
			request = agent_request_begin(agent, &header, mad);
			if (!request)
				return ENOBUFS;
			if (rmpp || !whole)	/* its segments have the retries */
				request->retries = 0;
		}
	}
	if (rmpp) {
		const struct agent_message from = { .mad = message, .bytes = length, .sealed = sealed };

		err = sending_begin(agent, &header, &from, request, now_us);
		if (err && request && !request->sending)
			agent_request_end(request);
		return err;
	}
	if (request)
		request_arm(request, now_us);
	/* What cannot be sent is lost on its way: who waits is told when it is late. */
	return whole ? agent_send(file, &header, mad, now_us) : EINVAL;
}

int agents_write(struct agents_file *file, const uint8_t *message, size_t bytes, uint64_t now_us)
{
	return agents_write_from(file, message, bytes, NULL, now_us);
}

int agents_write_sealed(struct agents_file *file, const uint8_t first[sizeof(struct agent_header) + MAD_BYTES],
			struct rmpp_sealed *sealed, uint64_t now_us)
{
	assert(sealed->bytes >= MAD_BYTES);
	return agents_write_from(file, first, sizeof(struct agent_header) + sealed->bytes, sealed, now_us);
}

/* ---- to a program ---- */

void agent_receive(struct agent *agent, const struct agent_header *header, const uint8_t *mad,
		   size_t length)
{
	agent->file->all->statistics.received++;
	agent->file->all->ops.receive(agent->file->user, header, mad, length);
}

/* NULL: no program of the port does. */
static struct agent *agent_that_takes(struct agents *agents, uint32_t node, uint32_t port_number,
				      const uint8_t *mad)
{
	struct agents_port *port = port_find(agents, node, port_number);
	struct mad_row *row = port ? mad_table_find(&port->table, port_number, mad_class_qpn(mad[1]), mad) : NULL;

	return row ? container_of(row, struct agent, row) : NULL;
}

void agents_deliver(struct agents *agents, uint32_t node, uint32_t port_number,
		    const uint8_t mad[MAD_BYTES], const struct fabric_address *from,
		    uint64_t now_us)
{
	struct agent *agent = agent_that_takes(agents, node, port_number, mad);
	bool rmpp = agents_class_has_rmpp(mad[1]) && rmpp_is_active(mad);
	bool answer = mad_is_answer(mad);
	struct agent_message message = { .mad = mad, .bytes = MAD_BYTES };
	struct request *request = NULL;
	struct agent_header header;

	if (!agent && (mad[3] == MAD_METHOD_GET || mad[3] == MAD_METHOD_SET) &&
	    !(rmpp && mad[RMPP_TYPE] != RMPP_DATA)) {
		agents->statistics.refused++;
		fabric_refuse(agents->fabric, node, port_number, mad, from, now_us);
		return;
	}
	if (!agent) {
		agents->statistics.unserved += !answer;
		agents->statistics.late += answer;
		return;
	}
	rmpp = rmpp && agent_segments(agent);
	if (rmpp && !agent_rmpp(agent, mad, from, now_us, &message))
		return;
	if (answer) {
		request = request_find(agent, message.mad);
		/* Segments of a program's own RMPP answer one request many times. */
		if (!request && !(!agent_segments(agent) && agents_class_has_rmpp(mad[1]) &&
				  rmpp_is_active(mad))) {
			agents->statistics.late++;
			if (rmpp)
				agent_rmpp_taken(agent, message.mad);
			return;
		}
		if (request)
			agent_request_end(request);
	}
	header = (struct agent_header){
		.agent = agent->id, .length = (uint32_t)(sizeof(header) + message.bytes), .sl = from->sl,
		.path_bits = from->path_bits, .grh_present = from->has_grh,
		.pkey_index = from->pkey_index,
	};
	put_be32(header.qpn, from->qpn);
	put_be16(header.lid, from->lid);
	if (from->has_grh) {
		header.gid_index = from->gid_index;
		header.hop_limit = from->hop_limit;
		header.traffic_class = from->traffic_class;
		put_be32(header.flow_label, from->flow_label);
		memcpy(header.gid, from->gid, sizeof(header.gid));
	}
	if (message.sealed) {
		agents->statistics.received++;
		agents->ops.receive_sealed(agent->file->user, &header, message.mad, message.sealed);
	} else {
		agent_receive(agent, &header, message.mad, message.bytes);
	}
	if (rmpp)
		agent_rmpp_taken(agent, message.mad);
}

bool agents_deliver_train(struct agents *agents, uint32_t node, uint32_t port_number,
			  const struct fabric_train *train, const struct fabric_address *from)
{
	const uint8_t *mad = train->mad;
	struct agent *agent = agent_that_takes(agents, node, port_number, mad);

	return agent && agent_segments(agent) && agent_rmpp_train(agent, mad, from, train->content);
}

/* ---- time ---- */

uint64_t agents_deadline_us(const struct agents *agents)
{
	uint64_t next = timer_heap_next(&agents->timers);

	if (!list_empty(&agents->ready))
		return 0;
	return next == TIME_NEVER ? FABRIC_NEVER : next / NS_PER_US;
}

void agents_timer(struct agents *agents, uint64_t now_us)
{
	struct timer *timer;

	while ((timer = timer_heap_expire(&agents->timers, now_us * NS_PER_US))) {
		struct agent_timer *at = container_of(timer, struct agent_timer, timer);

		at->expire(at, now_us);
	}
	sendings_go_on(agents, now_us);
}

void agents_statistics(const struct agents *agents, struct agents_statistics *statistics)
{
	*statistics = agents->statistics;
}
