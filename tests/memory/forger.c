/* SPDX-License-Identifier: BSD-2-Clause */
/* Somebody who sends what others expect of each other (forger.h). */
#include "forger.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "host/slot.h"
#include "pair.h"
#include "wire/icrc.h"
#include "wire/packet.h"
#include "wire/psn.h"

#define STRANGER 65534u		/* its user */
#define NEAR	 512u		/* packets that the ends may have sent meanwhile */
#define BURST	 64u
#define PAUSE_US 1000u

struct forger {
	pid_t pid;
	enum forger_kind kind;
	enum ibv_qp_type type;
	_Atomic bool ready;
	_Atomic uint64_t sent;
	_Atomic uint32_t near;	/* PSNs that are tried, from the one on that is due */
	struct {
		_Atomic uint32_t qpn;	/* 0: none */
		uint32_t psn[2];	/* of requests, of answers */
	} aim[2];
};

/* What is believed would be seen: as a message with a wrong number, as an error, as a result. */
static const uint8_t codes[] = {
	0x04, 0x04, 0x05, 0x00, 0x02, /* SENDs */
	0x0a, 0x0b, 0x0c, 0x13,	      /* WRITEs, READ, atomic */
	0x11, 0x11, 0x11, 0x10, 0x12, /* ACKs, responses */
	0x81,			      /* CNP */
};
/* A receiver of UC takes any PSN at the beginning of a message. */
static const uint8_t uc_codes[] = {0x24, 0x25, 0x20, 0x22, 0x26, 0x2a, 0x2b, 0x81};
static const uint8_t syndromes[] = {0x1f, 0x60, 0x61, 0x62, 0x63, 0x21};

static size_t forge(struct forger *forger, unsigned end, unsigned turn, uint16_t port, uint8_t *out)
{
	static const uint8_t payload[1024] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	bool uc = forger->type == IBV_QPT_UC;
	const struct opcode *op = opcode_get(uc ? uc_codes[turn % sizeof(uc_codes)] : codes[turn % sizeof(codes)]);
	uint32_t base = forger->aim[end].psn[opcode_is_response(op)];
	struct packet packet = {
		.op = op,
		.pkey = PKEY_DEFAULT,
		.migrated = true,
		.psn = psn_add(base, turn / sizeof(codes) % atomic_load(&forger->near)),
		.dest_qpn = atomic_load(&forger->aim[end].qpn),
		.ack_request = turn % 2,
		.aeth = {.syndrome = syndromes[turn / 7 % sizeof(syndromes)], .msn = turn & 0xffffff},
		.reth = {.address = 4096, .rkey = turn * 2654435761u, .length = 16},
		.atomic = {.address = 4096, .rkey = turn * 2654435761u},
	};
	struct icrc_header header = {
		.source_port = port, .destination_port = ROCE_UDP_PORT, .dont_fragment = true};
	uint32_t local = htonl(INADDR_LOOPBACK);
	size_t bytes;

	if (opcode_has_payload(op)) {
		packet.payload = payload;
		packet.payload_bytes = opcode_ends(op) ? 16 : 1024;
	} else if (turn % 5 == 0) {	/* one that the opcode does not have */
		packet.payload = payload;
		packet.payload_bytes = 16;
	}
	bytes = packet_write_headers(&packet, out);
	memcpy(out + bytes, payload, packet.payload_bytes);
	bytes += packet.payload_bytes;
	memcpy(header.source, &local, 4);
	memcpy(header.destination, &local, 4);
	icrc_seal(&header, out, bytes);
	return bytes + ICRC_BYTES;
}

static int udp_socket_on(in_addr_t address, uint16_t *port)
{
	struct sockaddr_in name = {.sin_family = AF_INET,
				   .sin_addr.s_addr = htonl(address),
				   .sin_port = htons(*port)};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), discover = IP_PMTUDISC_DO;
	socklen_t bytes = sizeof(name);

	CHECK(fd >= 0 && !bind(fd, (struct sockaddr *)&name, sizeof(name)) &&
	      !setsockopt(fd, IPPROTO_IP, IP_MTU_DISCOVER, &discover, sizeof(discover)) &&
	      !getsockname(fd, (struct sockaddr *)&name, &bytes), "%m");
	*port = ntohs(name.sin_port);
	return fd;
}

static void send_by_udp(int fd, const uint8_t *data, size_t bytes)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
				 .sin_port = htons(ROCE_UDP_PORT)};

	(void)sendto(fd, data, bytes, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to));
}

static void hand_on(uint32_t slot, uint8_t *data, size_t bytes, uint16_t port)
{
	static const uint8_t local[16] = {[10] = 0xff, 0xff, 127, 0, 0, 1};
	struct datagram datagram = {
		.source_port = port, .hop_limit = 64, .interface = 1, .data = data, .bytes = bytes};

	memcpy(datagram.source, local, 16);
	memcpy(datagram.destination, local, 16);
	(void)slot_forward(slot, &datagram);
}

static void be_forger(struct forger *forger)
{
	uint16_t port = 0, owned = ROCE_UDP_PORT;
	uint8_t data[PACKET_BYTES_MAX];
	unsigned turn, end;
	int fd;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!geteuid())
		CHECK(!setresuid(STRANGER, STRANGER, STRANGER), "%m");
	if (forger->kind == FORGER_OWNER)
		udp_socket_on(INADDR_ANY, &owned);
	fd = udp_socket_on(INADDR_LOOPBACK, &port);
	atomic_store(&forger->ready, true);
	for (turn = 0;; turn++) {
		for (end = 0; end < 2; end++) {
			uint32_t qpn = atomic_load(&forger->aim[end].qpn);
			size_t bytes;

			if (!qpn)
				continue;
			bytes = forge(forger, end, turn, port, data);
			if (forger->kind == FORGER_OWNER)
				hand_on(qpn_slot(qpn), data, bytes, port);
			else
				send_by_udp(fd, data, bytes);
			atomic_fetch_add(&forger->sent, 1);
		}
		if (turn % BURST == 0)
			usleep(PAUSE_US);
	}
}

struct forger *forger_start(enum forger_kind kind, enum ibv_qp_type type)
{
	struct forger *forger = mmap(NULL, sizeof(*forger), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double until_s = now() + 10;
	pid_t pid;

	CHECK(forger != MAP_FAILED, "%m");
	forger->kind = kind;
	forger->type = type;
	forger->near = NEAR;
	fflush(stdout);
	pid = fork();
	CHECK(pid >= 0, "%m");
	if (!pid)
		be_forger(forger);
	forger->pid = pid;
	while (!atomic_load(&forger->ready) && now() < until_s)
		usleep(100);
	return forger;
}

void forger_aim(struct forger *forger, unsigned end, uint32_t qpn, uint32_t request_psn, uint32_t answer_psn)
{
	forger->aim[end].psn[false] = request_psn;
	forger->aim[end].psn[true] = answer_psn;
	atomic_store(&forger->aim[end].qpn, qpn);
}

void forger_try(struct forger *forger, uint32_t psns)
{
	atomic_store(&forger->near, psns);
}

uint64_t forger_sent(const struct forger *forger)
{
	return atomic_load(&forger->sent);
}

bool forger_end(struct forger *forger)
{
	int status;
	bool alive = !waitpid(forger->pid, &status, WNOHANG);

	if (alive) {
		kill(forger->pid, SIGKILL);
		waitpid(forger->pid, &status, 0);
	}
	munmap(forger, sizeof(*forger));
	return alive;
}
