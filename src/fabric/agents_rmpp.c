/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Long messages of the agents: which transaction a segment belongs to, when it is sent again, and
 * when it is given up. The protocol itself is rmpp.c.
 *
 * An ACK never sends anything by itself: it makes its message ready, and agents_timer() sends a
 * window of each that is. So a program with a long message holds up nobody, and what arrives while
 * a segment is on its way finds nothing half done.
 */
#include "fabric/agents_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"

#define ACK_WAIT_MS	2000u
#define ASSEMBLE_MS	40000u
#define REMEMBER_MS	10000u		/* a message that was complete */
#define SENDINGS_MAX	1024u		/* of a descriptor */
#define ASSEMBLIES_MAX	256u
#define TURN_SENDINGS	64u		/* in one call of agents_timer() a window each, at most */
#define TURN_WINDOWS	8u		/* and of few so many together */

struct sending {
	struct agent_timer timer;	/* the first; an ACK is late */
	struct list of_agent, of_ready;
	struct agent *agent;
	struct request *request;	/* waits for the answer; NULL: there is none */
	struct agent_header header;
	uint32_t retries;		/* left, since the last ACK */
	struct rmpp_sender sender;
	uint8_t head[MAD_BYTES];	/* the message's own, with its TID */
	uint8_t *copy;			/* of the message; NULL: it is a sealed one */
};

struct assembly {
	struct agent_timer timer;	/* the first */
	struct list of_agent;
	struct agent *agent;
	uint8_t head[MAD_HEADER_BYTES];	/* of its segments: class, version, method, TID */
	uint16_t lid;
	uint32_t qpn;
	size_t memory;			/* as counted */
	struct rmpp_receiver receiver;
};

/* ---- sending ---- */

void sending_end(struct sending *sending)
{
	struct agents_file *file = sending->agent->file;

	if (sending->request)
		sending->request->sending = NULL;
	if (file->all->current == sending)
		file->all->current = NULL;
	agent_untimed(file->all, &sending->timer);
	list_remove(&sending->of_agent);
	list_remove(&sending->of_ready);
	file->sendings--;
	file->memory -= sending->sender.bytes;
	free(sending->copy);
	rmpp_sealed_put(sending->sender.sealed);
	free(sending);
}

static void sending_arm(struct sending *sending, uint64_t now_us)
{
	uint32_t ms = sending->header.timeout_ms;

	agent_arm(sending->agent->file->all, &sending->timer, now_us,
		  ms && ms < ACK_WAIT_MS ? ms : ACK_WAIT_MS);
}

/* It will not arrive. The program is told, of an answer as well. */
static void sending_fail(struct sending *sending)
{
	struct agent_header header = sending->header;
	struct agent *agent = sending->agent;
	uint8_t mad[MAD_HEADER_BYTES];

	if (sending->request) {
		request_fail(sending->request);		/* and with it this */
		return;
	}
	memcpy(mad, sending->head, sizeof(mad));
	sending_end(sending);
	agent->file->all->statistics.timeouts++;
	header.status = ETIMEDOUT;
	header.length = sizeof(header) + MAD_HEADER_BYTES;
	agent_receive(agent, &header, mad, sizeof(mad));
}

static void sending_ready(struct sending *sending)
{
	if (list_empty(&sending->of_ready))
		list_add_tail(&sending->agent->file->all->ready, &sending->of_ready);
}

static void sending_expire(struct agent_timer *timer, uint64_t now_us)
{
	struct sending *sending = (struct sending *)timer;

	if (!sending->retries) {
		sending_fail(sending);
		return;
	}
	sending->retries--;
	sending->agent->file->all->statistics.retries++;
	rmpp_send_again(&sending->sender);
	sending_arm(sending, now_us);
	sending_ready(sending);
}

/* NULL: none with the TID and class of @mad. */
static struct sending *sending_find(const struct agent *agent, const uint8_t *mad, uint8_t method, uint16_t lid)
{
	struct list *at;

	list_for_each(at, &agent->sendings) {
		struct sending *sending = list_entry(at, struct sending, of_agent);

		if (!memcmp(sending->head + 8, mad + 8, 8) && sending->head[1] == mad[1] &&
		    sending->head[3] == method && get_be16(sending->header.lid) == lid)
			return sending;
	}
	return NULL;
}

int sending_begin(struct agent *agent, const struct agent_header *header, const struct agent_message *from,
		  struct request *request, uint64_t now_us)
{
	struct agents_file *file = agent->file;
	struct sending *sending;
	uint8_t mad[MAD_BYTES];

	/* Two answers with one TID to one place could not be told from each other there. */
	if (!request && sending_find(agent, from->mad, from->mad[3], get_be16(header->lid)))
		return EINVAL;
	if (file->sendings == SENDINGS_MAX || from->bytes > AGENTS_MEMORY_MAX - file->memory)
		return ENOBUFS;
	sending = calloc(1, sizeof(*sending));
	if (sending && !from->sealed)
		sending->copy = malloc(from->bytes);
	if (!sending || !(sending->copy || from->sealed) ||
	    !agent_timed(file->all, &sending->timer, sending_expire)) {
		if (sending)
			free(sending->copy);
		free(sending);
		return ENOBUFS;
	}
	if (sending->copy)
		memcpy(sending->copy, from->mad, from->bytes);
	memcpy(sending->head, from->mad, from->bytes < MAD_BYTES ? from->bytes : MAD_BYTES);
	sending->agent = agent;
	sending->request = request;
	sending->header = *header;
	sending->retries = header->retries;
	if (!(from->mad[3] & MAD_METHOD_RESPONSE))
		put_be32(sending->head + 8, agent->row.key.transaction);
	rmpp_send_begin(&sending->sender, from->sealed ? from->sealed->message : sending->copy, from->bytes,
			agents_data_offset(sending->head[1]));
	sending->sender.head = sending->head;
	if (from->sealed)
		sending->sender.sealed = rmpp_sealed_get(from->sealed);
	list_init(&sending->of_ready);
	list_add_tail(&agent->sendings, &sending->of_agent);
	file->sendings++;
	file->memory += from->bytes;
	if (request)
		request->sending = sending;
	rmpp_send_next(&sending->sender, mad);
	sending_arm(sending, now_us);
	/* It may be acknowledged, and be over, before this returns. */
	return agent_send(file, header, mad, now_us);
}

/*
 * Segments that are not answered, if nothing on their way treats one by itself. Returns how many went; 0:
 * the next one goes alone.
 */
static unsigned sending_train(struct sending *sending, unsigned most, uint64_t now_us)
{
	struct agents_file *file = sending->agent->file;
	struct fabric_train train = { .mad = sending->head };
	struct fabric_address to;
	struct rmpp_train segments;

	if (!rmpp_send_train(&sending->sender, most, &segments))
		return 0;
	train.count = segments.count;
	train.content = &segments;
	agent_address(&sending->header, &to);
	if (!fabric_send_train(file->all->fabric, file->port->node, file->port->port, &train, &to, now_us))
		return 0;
	rmpp_send_departed(&sending->sender, &segments);
	sending_arm(sending, now_us);
	file->all->statistics.segments += segments.count;
	return segments.count;
}

/* A window of them. */
static void sending_go_on(struct sending *sending, uint64_t now_us)
{
	struct agents_file *file = sending->agent->file;
	struct agents *agents = file->all;
	struct agent_header header = sending->header;
	unsigned count = sending_train(sending, RMPP_WINDOW, now_us);
	uint8_t mad[MAD_BYTES];

	agents->current = sending;
	for (; count < RMPP_WINDOW && rmpp_send_next(&sending->sender, mad); count++) {
		sending_arm(sending, now_us);
		agents->statistics.segments++;
		agent_send(file, &header, mad, now_us);
		if (!agents->current)
			return;
	}
	agents->current = NULL;
	if (sending->sender.sent < sending->sender.segments &&
	    sending->sender.sent < sending->sender.window)
		sending_ready(sending);
}

void sendings_go_on(struct agents *agents, uint64_t now_us)
{
	struct list *at;
	unsigned count = 0;

	list_for_each(at, &agents->ready)
		count++;
	if (count > TURN_SENDINGS)
		count = TURN_SENDINGS;
	if (count < TURN_WINDOWS)
		count = TURN_WINDOWS;
	while (count-- && (at = list_pop(&agents->ready)))
		sending_go_on(list_entry(at, struct sending, of_ready), now_us);
}

/* True: *answer has to be sent. */
static bool sending_input(struct sending *sending, const uint8_t *mad, uint8_t *answer,
			  uint64_t now_us)
{
	struct agents *agents = sending->agent->file->all;
	struct request *request = sending->request;

	switch (rmpp_send_input(&sending->sender, mad, answer)) {
	case RMPP_GO_ON:
		sending->retries = sending->header.retries;
		sending_arm(sending, now_us);
		sending_ready(sending);
		return false;
	case RMPP_SENT:
		sending_end(sending);
		if (request)
			request_arm(request, now_us);
		return false;
	case RMPP_REFUSE:
		agents->statistics.aborted++;
		sending_fail(sending);
		return true;
	case RMPP_ENDED:
		agents->statistics.aborted++;
		sending_fail(sending);
		return false;
	default:
		return false;
	}
}

/* ---- receiving ---- */

static void assembly_end(struct assembly *assembly)
{
	struct agents_file *file = assembly->agent->file;

	rmpp_receive_end(&assembly->receiver);
	agent_untimed(file->all, &assembly->timer);
	list_remove(&assembly->of_agent);
	file->assemblies--;
	file->memory -= assembly->memory;
	free(assembly);
}

static void assembly_refuse(struct assembly *assembly, enum rmpp_status status, uint64_t now_us)
{
	struct agents_file *file = assembly->agent->file;
	struct agent_header header = { .sl = 0 };
	uint8_t mad[MAD_BYTES] = { 0 }, answer[MAD_BYTES];

	put_be16(header.lid, assembly->lid);
	put_be32(header.qpn, assembly->qpn);
	memcpy(mad, assembly->head, sizeof(assembly->head));
	rmpp_refuse(mad, status, answer);
	file->all->statistics.aborted++;
	assembly_end(assembly);
	agent_send(file, &header, answer, now_us);
}

static void assembly_expire(struct agent_timer *timer, uint64_t now_us)
{
	struct assembly *assembly = (struct assembly *)timer;

	if (assembly->receiver.complete)
		assembly_end(assembly);
	else
		assembly_refuse(assembly, RMPP_TOO_LONG, now_us);
}

static struct assembly *assembly_of(const struct agent *agent, const uint8_t *mad,
				    const struct fabric_address *from)
{
	struct list *at;

	list_for_each(at, &agent->assemblies) {
		struct assembly *assembly = list_entry(at, struct assembly, of_agent);

		if (!memcmp(assembly->head, mad, 4) && !memcmp(assembly->head + 8, mad + 8, 8) &&
		    assembly->lid == from->lid && assembly->qpn == from->qpn)
			return assembly;
	}
	return NULL;
}

/* NULL: there are too many, or no memory. One that is only remembered makes room. */
static struct assembly *assembly_begin(struct agent *agent, const uint8_t *mad,
				       const struct fabric_address *from, uint64_t now_us)
{
	struct agents_file *file = agent->file;
	struct assembly *assembly;

	for (unsigned id = 0; file->assemblies == ASSEMBLIES_MAX && id < AGENTS_PER_FILE; id++) {
		struct list *at;

		if (!file->agent[id])
			continue;
		list_for_each(at, &file->agent[id]->assemblies) {
			assembly = list_entry(at, struct assembly, of_agent);
			if (assembly->receiver.complete && !assembly->receiver.message) {
				assembly_end(assembly);
				break;
			}
		}
	}
	if (file->assemblies == ASSEMBLIES_MAX)
		return NULL;
	assembly = calloc(1, sizeof(*assembly));
	if (!assembly || !agent_timed(file->all, &assembly->timer, assembly_expire)) {
		free(assembly);
		return NULL;
	}
	assembly->agent = agent;
	memcpy(assembly->head, mad, sizeof(assembly->head));
	assembly->lid = from->lid;
	assembly->qpn = from->qpn;
	rmpp_receive_begin(&assembly->receiver, agents_data_offset(mad[1]));
	list_add_tail(&agent->assemblies, &assembly->of_agent);
	file->assemblies++;
	agent_arm(file->all, &assembly->timer, now_us, ASSEMBLE_MS);
	return assembly;
}

/* Would it have so much, and no descriptor more than it may? */
static bool assembly_may_have(const struct assembly *assembly, size_t memory)
{
	return memory <= AGENTS_MEMORY_MAX - (assembly->agent->file->memory - assembly->memory);
}

/* False: it has more than that. */
static bool assembly_account(struct assembly *assembly)
{
	struct agents_file *file = assembly->agent->file;
	size_t memory = rmpp_receive_memory(&assembly->receiver);

	if (!assembly_may_have(assembly, memory))
		return false;
	file->memory += memory - assembly->memory;
	assembly->memory = memory;
	return true;
}

static bool assembly_input(struct agent *agent, const uint8_t *mad,
			   const struct fabric_address *from, uint64_t now_us,
			   const struct agent_header *back, struct agent_message *message)
{
	struct assembly *assembly = assembly_of(agent, mad, from);
	struct agents *agents = agent->file->all;
	enum rmpp_result result = RMPP_REFUSE;
	uint8_t answer[MAD_BYTES];

	if (!assembly && get_be32(mad + RMPP_SEGMENT) != 1) {
		agents->statistics.late++;
		return false;
	}
	if (!assembly)
		assembly = assembly_begin(agent, mad, from, now_us);
	if (assembly)
		result = rmpp_receive_input(&assembly->receiver, mad, answer);
	if (!assembly || (result != RMPP_REFUSE && !assembly_account(assembly))) {
		result = RMPP_REFUSE;
		rmpp_refuse(mad, RMPP_NO_RESOURCES, answer);
	}
	if (result == RMPP_COMPLETE) {
		*message = (struct agent_message){ .mad = assembly->receiver.message,
						   .bytes = rmpp_receive_bytes(&assembly->receiver),
						   .sealed = assembly->receiver.sealed };
		agent_arm(agents, &assembly->timer, now_us, REMEMBER_MS);
	} else if (result == RMPP_REFUSE && assembly) {
		agents->statistics.aborted++;
		assembly_end(assembly);
	}
	if (result != RMPP_NOTHING)
		agent_send(agent->file, back, answer, now_us);
	return result == RMPP_COMPLETE;
}

bool agent_rmpp_train(struct agent *agent, const uint8_t *mad, const struct fabric_address *from,
		      const struct rmpp_train *train)
{
	struct assembly *assembly = assembly_of(agent, mad, from);
	size_t memory = assembly ? rmpp_receive_train_memory(&assembly->receiver, train) : 0;

	return memory && assembly_may_have(assembly, memory) &&
	       rmpp_receive_train(&assembly->receiver, train) && assembly_account(assembly);
}

bool agent_rmpp(struct agent *agent, const uint8_t mad[MAD_BYTES],
		const struct fabric_address *from, uint64_t now_us, struct agent_message *message)
{
	bool over = mad[RMPP_TYPE] == RMPP_STOP || mad[RMPP_TYPE] == RMPP_ABORT;
	struct assembly *assembly;
	struct agent_header back;
	struct sending *sending;
	uint8_t answer[MAD_BYTES];

	back = (struct agent_header){
		.sl = from->sl, .path_bits = from->path_bits, .pkey_index = from->pkey_index,
		.grh_present = from->has_grh, .gid_index = from->gid_index,
		.hop_limit = from->hop_limit, .traffic_class = from->traffic_class,
	};
	put_be16(back.lid, from->lid);
	put_be32(back.qpn, from->qpn);
	put_be32(back.flow_label, from->flow_label);
	memcpy(back.gid, from->gid, sizeof(back.gid));
	if (mad[RMPP_TYPE] == RMPP_DATA)
		return assembly_input(agent, mad, from, now_us, &back, message);
	sending = sending_find(agent, mad, mad[3] ^ MAD_METHOD_RESPONSE, from->lid);
	if (sending) {
		if (sending_input(sending, mad, answer, now_us))
			agent_send(agent->file, &back, answer, now_us);
		return false;
	}
	assembly = assembly_of(agent, mad, from);
	if (assembly && over && !assembly->receiver.complete) {
		agent->file->all->statistics.aborted++;
		assembly_end(assembly);
	}
	return false;
}

void agent_rmpp_taken(struct agent *agent, const uint8_t *message)
{
	struct list *at;

	list_for_each(at, &agent->assemblies) {
		struct assembly *assembly = list_entry(at, struct assembly, of_agent);

		if (assembly->receiver.message != message)
			continue;
		rmpp_receive_end(&assembly->receiver);
		agent->file->memory -= assembly->memory;
		assembly->memory = 0;
		return;
	}
}

void agent_rmpp_end(struct agent *agent)
{
	while (!list_empty(&agent->sendings))
		sending_end(list_entry(agent->sendings.next, struct sending, of_agent));
	while (!list_empty(&agent->assemblies))
		assembly_end(list_entry(agent->assemblies.next, struct assembly, of_agent));
}
