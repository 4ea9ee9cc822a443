/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Fuzz target: what other processes of the host, and its users, may say to a process. The first byte says what
 * the rest is:
 *
 *	messages of the port group, from any host on port 4791	(host/group_program.h)
 *	what is handed on over the socket of a slot		(host/forward.h, host/slot.h)
 *	a file of settings, and a variable			(config/config.h)
 *	faults on purpose					(inject/inject.h)
 *
 * What is accepted is in bounds, and is the same when it is written and read again; the selector that is built
 * from it is one that the kernel takes. Refusals are said on stderr, each time: ./run closes it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "config/config.h"
#include "host/group_internal.h"
#include "host/forward.h"
#include "input.h"
#include "inject/inject.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length);

#define require(truth) require_that((truth), #truth, __LINE__)

static void require_that(bool truth, const char *text, int line)
{
	if (truth)
		return;
	dprintf(STDOUT_FILENO, "fuzz_host.c:%d: not so: %s\n", line, text);
	abort();
}

/* ---- the port group ---- */

static void check_message(const struct group_message *message)
{
	unsigned i;

	require(message->kind == GROUP_PROBE || message->kind == GROUP_ANSWER);
	require(message->family == 4 || message->family == 6);
	require(message->slot < SLOT_COUNT && message->slot_count <= SLOT_COUNT);
	require(message->service_count <= GROUP_SERVICES);
	for (i = 0; i < message->slot_count; i++)
		require(message->slots[i] < SLOT_COUNT);
}

static void check_same(const struct group_message *a, const struct group_message *b)
{
	require(a->kind == b->kind && a->family == b->family && a->slot == b->slot);
	require(a->index == b->index && a->nonce == b->nonce && a->program_known == b->program_known);
	require(a->slot_count == b->slot_count && a->service_count == b->service_count);
	require(!memcmp(a->slots, b->slots, a->slot_count * sizeof(a->slots[0])));
	require(!memcmp(a->services, b->services, a->service_count * sizeof(a->services[0])));
}

static void attach(const struct group_map *map)
{
	static struct sock_filter program[BPF_MAXINSNS];
	struct sock_fprog attached = { .filter = program };
	static int fd = -1;

	if (fd < 0)
		fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	attached.len = (unsigned short)group_program_build(map, program);
	require(attached.len <= BPF_MAXINSNS);
	require(!setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &attached, sizeof(attached)));
}

/* Messages one behind the other, each with its length in front; all answers go to one derivation. */
static void group(struct input *input)
{
	static struct group_message message, again;
	static uint8_t written[GROUP_MESSAGE_MAX];
	static struct family family;
	uint8_t *exact;
	unsigned i;

	memset(&family, 0, sizeof(family));
	family.fd = family.probe_fd = -1;
	family.number = 4;
	family.state = PROBING;
	family.size = 1 + next8(input);
	group_map_clear(&family.found);
	family.found.size = (uint16_t)family.size;
	while (input->left) {
		size_t bytes = next8(input) * 16u + next8(input) % 16;

		bytes = bytes < input->left ? bytes : input->left;
		exact = malloc(bytes ? bytes : 1);
		require(exact != NULL);
		for (i = 0; i < bytes; i++)
			exact[i] = next8(input);
		if (!group_message_parse(exact, bytes, &message)) {
			check_message(&message);
			require(!group_message_parse(written, group_message_write(&message, written), &again));
			check_same(&message, &again);
			/* As port_group_takes(). */
			if (message.kind == GROUP_ANSWER && message.index < family.size)
				group_record(&family, &message, 1);
		}
		free(exact);
	}
	require(family.answered <= family.size && family.found.service_count <= GROUP_SERVICES);
	for (i = 0; i < SLOT_COUNT; i++)
		require(family.found.index[i] < family.size || family.found.index[i] == GROUP_HASH);
	attach(&family.found);
}

/* ---- what is handed on ---- */

static void forward(struct input *input)
{
	static int pair[2] = { -1, -1 };
	static uint8_t sent[70000], buffer[65536];
	size_t bytes, size = next8(input) & 1 ? sizeof(buffer) : 1 + (size_t)next8(input);
	struct datagram datagram = { .bytes = 0 };
	uint64_t nonce = 0;
	struct abstract_name sender;
	bool named = next8(input) & 1;
	int err;

	if (pair[0] < 0)
		require(!socketpair(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0, pair) && !forward_prepare(pair[1]));
	for (bytes = 0; input->left && bytes < sizeof(sent); bytes++)
		sent[bytes] = next8(input);
	require(send(pair[0], sent, bytes, MSG_DONTWAIT) == (ssize_t)bytes);
	err = forward_receive(pair[1], &datagram, buffer, size, named ? &sender : NULL, named ? &nonce : NULL);
	require(err == 0 || err == EBADMSG || (err == ENOMSG && named && bytes == 16));
	if (err)
		return;
	require(datagram.forwarded && datagram.data == buffer && datagram.bytes &&
		datagram.bytes <= size);
	require(datagram.segment_bytes <= datagram.bytes && datagram.bytes < bytes);
}

/* ---- settings ---- */

static char *rest_of(struct input *input)
{
	char *text = malloc(input->left + 1);
	size_t i = 0;

	require(text != NULL);
	while (input->left) {
		char c = (char)next8(input);

		text[i++] = c ? c : ' ';	/* the environment has no NULs */
	}
	text[i] = '\0';
	return text;
}

static void check_config(const struct config *config)
{
#define CONFIG_NUMBER(field, key, variable, least, greatest, standard, text) \
	require(config->field == (standard) || (config->field >= (least) && config->field <= (greatest)));
#define CONFIG_TEXT(field, key, variable, text) \
	require(memchr(config->field, '\0', sizeof(config->field)) != NULL);
#include "config/config.def"
#undef CONFIG_NUMBER
#undef CONFIG_TEXT
}

static void settings(struct input *input)
{
	static const char *const variables[] = { "VERBATIM_MTU", "VERBATIM_DEVICES", "VERBATIM_MAX_QP",
						 "VERBATIM_SPEED" };
	const char *variable = variables[next8(input) % 4];
	bool by_file = next8(input) & 1;
	char *text = rest_of(input), path[40];
	struct config config;
	int fd = -1;

	if (by_file) {
		fd = memfd_create("settings", MFD_CLOEXEC);
		require(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		setenv("VERBATIM_CONFIG", path, 1);
	} else {
		setenv(variable, text, 1);
	}
	if (!config_load(&config))
		check_config(&config);
	unsetenv(variable);
	unsetenv("VERBATIM_CONFIG");
	if (fd >= 0)
		close(fd);
	free(text);
}

/* Rules, and what they make of any packet. */
static void faults(struct input *input)
{
	static struct injector injector;
	struct inject_packet packet = { .qp = 1, .bytes = 100, .outbound = next8(input) & 1 };
	struct inject_verdict verdict;
	char *text, why[256], line[64];
	unsigned i;

	packet.psn = next8(input);
	packet.op = opcode_get(next8(input));
	text = rest_of(input);
	if (!inject_init(&injector, text, 1, 0, why, sizeof(why))) {
		for (i = 0; packet.op && i < 8; i++) {
			packet.kinds = inject_kinds(packet.op, i, (uint8_t)(i << 5));
			inject_decide(&injector, &packet, i * 1000u, &verdict);
		}
		for (i = 0; i < injector.count; i++)
			inject_report(&injector, i, line, sizeof(line));
		inject_fini(&injector);
	}
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t length)
{
	struct input input = { data, length };

	switch (next8(&input) % 4) {
	case 0:
		group(&input);
		break;
	case 1:
		forward(&input);
		break;
	case 2:
		settings(&input);
		break;
	default:
		faults(&input);
	}
	return 0;
}
