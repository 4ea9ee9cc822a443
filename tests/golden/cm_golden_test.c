/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Every message of connection management in the captures (Linux rdma_cm over rxe): parsed and
 * written as the same bytes; conversations in the order in which they went over the wire; and the
 * protocol, asked for what Linux's applications asked for, writes what Linux wrote. The argument is
 * the directory of the captures.
 */
#include <glob.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/bytes.h"
#include "capture.h"
#include "cm/protocol/internal.h"
#include "wire/dump.h"
#include "wire/packet.h"

#define MESSAGES_KNOWN	54	/* so that an unreadable capture is not a passed test */

static const char *directory;

/* A management datagram of a capture. */
struct datagram_seen {
	uint8_t mad[MAD_BYTES];
	struct mad_address from;	/* as its receiver sees it */
	struct cm_message message;
};

struct conversation {
	struct datagram_seen seen[64];
	unsigned count;
};

static void put_address(uint8_t address[16], const uint8_t *ip, bool ipv6)
{
	memset(address, 0, 16);
	address[10] = address[11] = 0xff;
	memcpy(ipv6 ? address : address + 12, ip, ipv6 ? 16 : 4);
}

static void read_conversation(const char *path, struct conversation *conversation)
{
	struct capture capture;
	struct captured captured;
	struct packet packet;
	int more;

	conversation->count = 0;
	assert_int_equal(capture_open(&capture, path), 0);
	while ((more = capture_next(&capture, &captured)) > 0) {
		struct datagram_seen *seen = &conversation->seen[conversation->count];

		assert_int_equal(packet_parse(captured.data, captured.length, &packet), PARSE_OK);
		if (packet.dest_qpn != 1)
			continue;
		assert_true(conversation->count++ < 64);
		assert_int_equal(packet.payload_bytes, MAD_BYTES);
		memcpy(seen->mad, packet.payload, MAD_BYTES);
		memset(&seen->from, 0, sizeof(seen->from));
		put_address(seen->from.remote, captured.header.source, captured.header.ipv6);
		put_address(seen->from.local, captured.header.destination, captured.header.ipv6);
		if (!cm_message_parse(seen->mad, &seen->message))
			fail_msg("%s, frame %u: no message", path, capture.number);
	}
	assert_int_equal(more, 0);
	capture_close(&capture);
}

static void read_named(const char *name, struct conversation *conversation)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s.pcap", directory, name);
	read_conversation(path, conversation);
}

static void what_is_parsed_is_written_as_the_same_bytes(void **unused)
{
	struct conversation conversation;
	uint8_t again[MAD_BYTES];
	char pattern[4096];
	unsigned messages = 0;
	glob_t files;

	snprintf(pattern, sizeof(pattern), "%s/*.pcap", directory);
	assert_int_equal(glob(pattern, 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		read_conversation(files.gl_pathv[i], &conversation);
		for (unsigned j = 0; j < conversation.count; j++) {
			cm_message_write(&conversation.seen[j].message, again);
			if (memcmp(again, conversation.seen[j].mad, MAD_BYTES))
				fail_msg("%s: message %u rebuilt differently",
					 files.gl_pathv[i], j);
		}
		messages += conversation.count;
	}
	globfree(&files);
	assert_int_equal(messages, MESSAGES_KNOWN);
}

/* ---- order ---- */

static void check_lines(const char *name, const char *const *expected, unsigned count)
{
	struct conversation conversation;
	char line[DUMP_LINE_MAX];

	read_named(name, &conversation);
	assert_int_equal(conversation.count, count);
	for (unsigned i = 0; i < count; i++) {
		mad_dump(conversation.seen[i].mad, line, sizeof(line));
		assert_string_equal(line, expected[i]);
	}
}

#define CHECK_LINES(name, ...)                                                   \
	check_lines(name, (const char *const[]){ __VA_ARGS__ },                  \
		    sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

static void conversations_read_as_lines(void **unused)
{
	CHECK_LINES("rping",
		"CM REQ id 0xeb7e850c RC qpn 0x00003d psn 606766 service 0x0000000001061c06 "
		"ip 10.77.0.1 port 49285 to 10.77.0.2",
		"CM REP id 0xe87e850c to 0xeb7e850c qpn 0x00003d psn 46cc55",
		"CM RTU id 0xeb7e850c to 0xe87e850c",
		"CM DREQ id 0xeb7e850c to 0xe87e850c qpn 0x00003d",
		"CM DREP id 0xe87e850c to 0xeb7e850c");
	CHECK_LINES("cm-reject",
		"CM REQ id 0xf67e850c RC qpn 0x000048 psn cb1100 service 0x000000000106270f "
		"ip 10.77.0.1 port 45583 to 10.77.0.2",
		"CM REJ to 0xf67e850c about REQ reason 8 INVALID_SERVICE_ID");
	CHECK_LINES("udaddy",
		"CM SIDR_REQ id 0xe67e850c service 0x0000000001111c06 ip 10.77.0.1 port 45381 "
		"to 10.77.0.2",
		"CM SIDR_REP to 0xe67e850c status 0 SUCCESS qpn 0x000041 qkey 0x01234567");
}

static void check_order(const char *name, const char *expected)
{
	struct conversation conversation;
	char order[512] = "";

	read_named(name, &conversation);
	for (unsigned i = 0; i < conversation.count; i++) {
		strcat(order, i ? " " : "");
		strcat(order, cm_message_name(conversation.seen[i].message.kind));
	}
	assert_string_equal(order, expected);
}

static void conversations_go_in_the_order_of_the_specification(void **unused)
{
	check_order("rping-v6", "REQ REP RTU DREQ DREP");
	check_order("rdma_server", "REQ REP RTU DREQ DREP");
	check_order("ucmatose", "REQ REQ REP RTU REP RTU DREQ DREQ DREP DREP");
	check_order("cmtime", "REQ REQ REQ REQ REQ REP REP RTU RTU REP RTU REP RTU REP RTU "
			      "DREQ DREP DREQ DREQ DREP DREQ DREP DREQ DREP DREP");
	check_order("mckey", "");
}

/* ---- the protocol in the place of Linux ---- */

/* One side of a captured conversation, with the IDs that Linux chose. */
struct side {
	struct cm_protocol *protocol;
	struct cm_connection *connection;
	uint32_t id;
	struct cm_message sent;
	bool has_sent;
};

static void side_send(void *host, const struct mad_address *to, const struct cm_message *message)
{
	struct side *side = host;

	assert_false(side->has_sent);
	side->sent = *message;
	side->has_sent = true;
}

static void side_event(void *host, const struct cm_event *event)
{
	struct side *side = host;

	side->connection = event->connection;
	cm_set_owner(event->connection, side);
}

static uint32_t side_random(void *host)
{
	return ((struct side *)host)->id;
}

static void side_count(void *host, int counter)
{
}

static const struct cm_ops side_ops = {
	.send = side_send, .event = side_event, .random = side_random, .count = side_count,
};

static void side_open(struct side *side, uint32_t id)
{
	*side = (struct side){ .id = id };
	side->protocol = cm_protocol_new(&side_ops, side, id & ~0xffu, 8);
	assert_non_null(side->protocol);
	/* The first one is to be Linux's. */
	for (side->protocol->next_id = 0; cm_permute(side->protocol, side->protocol->next_id) != (id & 0xff);)
		assert_true(side->protocol->next_id++ < 255);
}

/* @transaction: compare it too; IDs of what begins an exchange are everybody's own. */
static void check_sent(struct side *side, const struct datagram_seen *seen, bool transaction)
{
	uint8_t mad[MAD_BYTES];

	assert_true(side->has_sent);
	side->has_sent = false;
	if (!transaction)
		side->sent.transaction_id = seen->message.transaction_id;
	cm_message_write(&side->sent, mad);
	if (memcmp(mad, seen->mad, MAD_BYTES)) {
		for (unsigned i = 0; i < MAD_BYTES; i++)
			if (mad[i] != seen->mad[i])
				print_message("byte %u: 0x%02x, Linux 0x%02x\n", i, mad[i],
					      seen->mad[i]);
		fail_msg("%s differs", cm_message_name(seen->message.kind));
	}
}

static uint64_t wire_guid(uint64_t guid)
{
	uint8_t bytes[8];

	put_be64(bytes, guid);
	memcpy(&guid, bytes, 8);
	return guid;
}

static void connect_as(struct side *side, const struct datagram_seen *seen)
{
	const struct cm_req *req = &seen->message.req;
	struct cm_connect connect = {
		.service_id = req->service_id, .local_ca_guid = wire_guid(req->local_ca_guid),
		.local_qpn = req->local_qpn, .starting_psn = req->starting_psn,
		.transport = cm_req_transport(req), .responder_resources = req->responder_resources,
		.initiator_depth = req->initiator_depth, .retry_count = req->retry_count,
		.rnr_retry_count = req->rnr_retry_count, .flow_control = req->flow_control,
		.srq = req->srq, .path_mtu = req->path_mtu, .packet_rate = req->packet_rate,
		.local_ack_timeout = req->local_ack_timeout, .hop_limit = req->hop_limit,
		.service_level = req->service_level, .traffic_class = req->traffic_class,
		.flow_label = req->flow_label, .pkey = req->pkey,
		.response_timeout = req->local_response_timeout, .max_retries = req->max_retries,
		.private_data = req->private_data, .private_data_bytes = 92,
	};

	assert_int_equal(req->local_response_timeout, req->remote_response_timeout);
	memcpy(connect.address.local, seen->from.remote, 16);
	memcpy(connect.address.remote, seen->from.local, 16);
	memcpy(connect.local_gid, req->local_gid, 16);
	memcpy(connect.remote_gid, req->remote_gid, 16);
	assert_int_equal(cm_connect(side->protocol, &connect, side, 1, &side->connection), 0);
}

static void accept_as(struct side *side, const struct cm_rep *rep)
{
	const struct cm_accept accept = {
		.local_qpn = rep->local_qpn, .starting_psn = rep->starting_psn,
		.local_ca_guid = wire_guid(rep->local_ca_guid),
		.responder_resources = rep->responder_resources,
		.initiator_depth = rep->initiator_depth, .rnr_retry_count = rep->rnr_retry_count,
		.target_ack_delay = rep->target_ack_delay,
		.failover_accepted = rep->failover_accepted, .flow_control = rep->flow_control,
		.srq = rep->srq, .private_data = rep->private_data, .private_data_bytes = 196,
	};

	assert_int_equal(cm_accept(side->connection, &accept, 1), 0);
}

/* What makes the side that sent @seen send it; what the other side sent arrives first. */
static void act(struct side *side, const struct datagram_seen *seen)
{
	switch (seen->message.kind) {
	case CM_MESSAGE_REQ:
		connect_as(side, seen);
		break;
	case CM_MESSAGE_REP:
		accept_as(side, &seen->message.rep);
		break;
	case CM_MESSAGE_RTU:
		assert_int_equal(cm_ready_to_use(side->connection, NULL, 0, 1), 0);
		break;
	case CM_MESSAGE_DREQ:
		assert_int_equal(cm_disconnect(side->connection, NULL, 0, 1), 0);
		break;
	default:		/* sent by itself when the other's message arrived */
		break;
	}
}

/* A conversation of one connection: each side writes what Linux wrote on that side. */
static void check_replay(const char *name)
{
	struct conversation conversation;
	struct side sides[2];
	struct cm_listener *listener;
	static const uint8_t any[16];

	read_named(name, &conversation);
	side_open(&sides[0], conversation.seen[0].message.req.local_comm_id);
	side_open(&sides[1], cm_message_sender_id(&conversation.seen[1].message));
	if (conversation.seen[1].message.kind == CM_MESSAGE_REP)
		assert_int_equal(cm_listen(sides[1].protocol,
					   conversation.seen[0].message.req.service_id, any, 0,
					   &sides[1], &listener), 0);
	for (unsigned i = 0; i < conversation.count; i++) {
		const struct datagram_seen *seen = &conversation.seen[i];
		enum cm_message_kind kind = seen->message.kind;
		bool passive = memcmp(seen->from.remote, conversation.seen[0].from.remote, 16);

		act(&sides[passive], seen);
		check_sent(&sides[passive], seen,
			   kind != CM_MESSAGE_REQ && kind != CM_MESSAGE_DREQ);
		/* Ours, so that transaction IDs are echoed as Linux would. */
		cm_receive(sides[!passive].protocol, &seen->from, seen->mad, 1);
		if (kind == CM_MESSAGE_REQ)	/* what comes back names Linux's transaction */
			sides[0].connection->transaction_id = seen->message.transaction_id;
	}
	cm_protocol_free(sides[0].protocol);
	cm_protocol_free(sides[1].protocol);
}

static void asked_for_the_same_the_protocol_writes_what_linux_wrote(void **unused)
{
	check_replay("rping");
	check_replay("rping-v6");
	check_replay("rdma_server");
	check_replay("cm-reject");
}

static void service_ids_are_resolved_in_the_words_of_linux(void **unused)
{
	static const uint8_t any[16];
	struct conversation conversation;
	const struct cm_sidr_req *request;
	const struct cm_sidr_rep *reply;
	struct cm_listener *listener;
	struct side client, server;
	struct cm_sidr sidr;

	read_named("udaddy", &conversation);
	request = &conversation.seen[0].message.sidr_req;
	reply = &conversation.seen[1].message.sidr_rep;
	side_open(&client, request->request_id);
	side_open(&server, 0x100);
	sidr = (struct cm_sidr){
		.service_id = request->service_id, .pkey = request->pkey, .response_timeout = 20,
		.private_data = request->private_data, .private_data_bytes = 216,
	};
	assert_int_equal(cm_sidr(client.protocol, &sidr, &client, 1, &client.connection), 0);
	check_sent(&client, &conversation.seen[0], false);
	assert_int_equal(cm_listen(server.protocol, request->service_id, any, 0, &server, &listener),
			 0);
	cm_receive(server.protocol, &conversation.seen[0].from, conversation.seen[0].mad, 1);
	assert_int_equal(cm_sidr_answer(server.connection, reply->status, reply->qpn, reply->qkey,
					reply->private_data, 136, 1), 0);
	check_sent(&server, &conversation.seen[1], true);
	cm_protocol_free(client.protocol);
	cm_protocol_free(server.protocol);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_parsed_is_written_as_the_same_bytes),
		cmocka_unit_test(conversations_read_as_lines),
		cmocka_unit_test(conversations_go_in_the_order_of_the_specification),
		cmocka_unit_test(asked_for_the_same_the_protocol_writes_what_linux_wrote),
		cmocka_unit_test(service_ids_are_resolved_in_the_words_of_linux),
	};

	if (argc != 2) {
		fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
		return 2;
	}
	directory = argv[1];
	return cmocka_run_group_tests(tests, NULL, NULL);
}
