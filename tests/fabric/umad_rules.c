/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What programs rely on of libibumad, rule by rule, on a host of a fabric whose subnet is up and
 * whose SM is elsewhere. Prints TAP. Other jobs, for tests/fabric/run:
 *
 *	umad_rules --crowd N	N processes at once, which ask their own node and sw1
 *	umad_rules --serve	answers SMInfo requests that come to this host, until killed
 *	umad_rules --ask PATH	asks for SMInfo along a directed route ("0,1,2")
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/umad.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAD = 256, HEADER = 64 };
enum {
	CLASS_LID = 0x01,
	CLASS_SA = 0x03,
	CLASS_PERF = 0x04,
	CLASS_CM = 0x07,
	CLASS_DIRECTED = 0x81,
	CLASS_PING = 0x32
};
enum { GET = 1, SET = 2, SEND = 3, GET_TABLE = 0x12, RESPONSE = 0x80 };
enum { NODE_INFO = 0x11, SM_INFO = 0x20, PORT_INFO_RECORD = 0x12 };

static int count, failed;
static const char *problem;

/* Ends the test that it stands in. */
#define must(condition) do { if (!(condition)) { problem = #condition; return; } } while (0)

struct message {
	ib_user_mad_t umad;
	uint8_t mad[MAD];
	uint8_t beyond[64];
};

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void put16(uint8_t *at, unsigned value)
{
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static unsigned get16(const uint8_t *at)
{
	return (unsigned)at[0] << 8 | at[1];
}

static uint32_t tid_low(const struct message *message)
{
	uint32_t value;

	memcpy(&value, message->mad + 12, sizeof(value));
	return ntohl(value);
}

static uint32_t tid_high(const struct message *message)
{
	uint32_t value;

	memcpy(&value, message->mad + 8, sizeof(value));
	return ntohl(value);
}

static void set_tid(struct message *message, uint32_t low)
{
	uint32_t value = htonl(low);

	memcpy(message->mad + 12, &value, sizeof(value));
}

static uint32_t next_tid = 1000;

/* A request of QP0 or QP1; directed ones to the node itself. */
static void build(struct message *message, unsigned class, unsigned version, unsigned method,
		  unsigned attribute)
{
	memset(message, 0, sizeof(*message));
	memset(message->beyond, 0xa5, sizeof(message->beyond));
	message->mad[0] = 1;
	message->mad[1] = (uint8_t)class;
	message->mad[2] = (uint8_t)version;
	message->mad[3] = (uint8_t)method;
	set_tid(message, ++next_tid);
	put16(message->mad + 16, attribute);
	if (class == CLASS_DIRECTED) {
		put16(message->mad + 32, 0xffff);
		put16(message->mad + 34, 0xffff);
	}
	umad_set_addr(&message->umad, 0xffff, class == CLASS_DIRECTED || class == CLASS_LID ? 0 : 1,
		      0, class == CLASS_DIRECTED || class == CLASS_LID ? 0 : 0x80010000);
}

static void set_path(struct message *message, const uint8_t *path, unsigned hops)
{
	message->mad[7] = (uint8_t)hops;
	memcpy(message->mad + 128, path, hops + 1);
}

static int port = -1, directed = -1;
static unsigned own_lid, sm_lid;

static int send_message(int fd, int agent, struct message *message, int timeout_ms, int retries)
{
	return umad_send(fd, agent, &message->umad, MAD, timeout_ms, retries);
}

static int receive(int fd, struct message *message, int timeout_ms, int *length)
{
	*length = MAD;
	memset(message, 0, sizeof(*message));
	return umad_recv(fd, &message->umad, length, timeout_ms);
}

static long mask[16 / sizeof(long)];

static long *mask_of(unsigned method)
{
	memset(mask, 0, sizeof(mask));
	((uint64_t *)mask)[method / 64] = 1ull << (method % 64);
	return mask;
}

/* ---- devices ---- */

static void lists_its_hcas(void)
{
	char names[32][UMAD_CA_NAME_LEN];
	struct umad_device_node *list;

	must(umad_init() == 0);
	must(umad_get_cas_names(names, 32) == 1);
	must(!strcmp(names[0], "vb_ib0"));
	list = umad_get_ca_device_list();
	must(list && !strcmp(list->ca_name, "vb_ib0") && !list->next);
	must(!umad_sort_ca_device_list(&list, 0));
	umad_free_ca_device_list(list);
}

static void describes_an_hca(void)
{
	umad_ca_t ca;
	__be64 guids[8];

	must(umad_get_ca(NULL, &ca) == 0);
	must(!strcmp(ca.ca_name, "vb_ib0") && ca.node_type == 1 && ca.numports == 1);
	must(!ca.ports[0] && ca.ports[1] && ca.node_guid && ca.system_guid);
	must(umad_get_ca_portguids("vb_ib0", guids, 8) == 2);
	must(guids[0] == 0 && guids[1] == ca.ports[1]->port_guid);
	must(umad_get_ca_portguids("vb_ib0", guids, 1) == -ENOMEM);
	must(umad_release_ca(&ca) == 0);
	must(umad_get_ca("vb_ib7", &ca) < 0);
}

static void describes_a_port(void)
{
	umad_port_t at;

	must(umad_get_port(NULL, 0, &at) == 0);
	must(at.portnum == 1 && at.state == 4 && at.phys_state == 5 && at.base_lid && at.sm_lid);
	must(!strcmp(at.link_layer, "InfiniBand") && at.rate >= 2);
	must(at.gid_prefix == htobe64(0xfe80000000000000ull) && at.port_guid);
	must(at.pkeys_size && at.pkeys && (at.pkeys[0] & 0x7fff) == 0x7fff);
	own_lid = at.base_lid;
	sm_lid = at.sm_lid;
	umad_release_port(&at);
	must(umad_get_port("vb_ib0", 9, &at) < 0);
}

static void open_says_what_is_not_there(void)
{
	must(umad_open_port("vb_ib7", 0) == -ENODEV);
	must(umad_open_port("vb_ib0", 2) == -EINVAL);
}

/* ---- agents ---- */

static void agents_are_numbered_from_0(void)
{
	int fd = umad_open_port(NULL, 0);

	must(fd >= 0 && umad_get_fd(fd) == fd);
	for (int i = 0; i < 32; i++)
		must(umad_register(fd, CLASS_DIRECTED, 1, 0, NULL) == i);
	must(umad_register(fd, CLASS_DIRECTED, 1, 0, NULL) == -EPERM);
	must(umad_unregister(fd, 7) == 0);
	must(umad_register(fd, CLASS_LID, 1, 0, NULL) == 7);
	umad_close_port(fd);
}

static void a_method_has_one_agent_on_a_port(void)
{
	uint8_t oui[3] = { 0x00, 0x14, 0x05 }, other[3] = { 0x00, 0x06, 0x6a };
	int one = umad_open_port(NULL, 0), two = umad_open_port(NULL, 0);

	must(one >= 0 && two >= 0 && one != two);
	must(umad_register_oui(one, 0x40, 0, oui, mask_of(GET)) == 0);
	must(umad_register_oui(two, 0x40, 0, oui, mask_of(GET)) == -EPERM);
	must(umad_register_oui(two, 0x40, 0, oui, mask_of(SET)) == 0);
	must(umad_register_oui(two, 0x40, 0, other, mask_of(GET)) == 1);
	must(umad_register_oui(two, 0x40, 0, oui, NULL) == 2);
	must(umad_register_oui(two, 0x10, 0, oui, NULL) == -EINVAL);
	/* What a descriptor held is free when it is closed, in whatever way. */
	close(one);
	must(umad_register_oui(two, 0x40, 0, oui, mask_of(GET)) == 3);
	umad_close_port(two);
}

static void connection_management_is_taken(void)
{
	must(umad_register(port, CLASS_CM, 2, 0, mask_of(SEND)) == -EPERM);
}

static void register2_returns_errnos(void)
{
	struct umad_reg_attr attr = { .mgmt_class = 0x2f,
				      .mgmt_class_version = 1,
				      .flags = 0x80000000u };
	uint32_t id = 99;

	must(umad_register2(port, NULL, &id) == EINVAL);
	must(umad_register2(port, &attr, NULL) == EINVAL);
	must(umad_register2(port, &attr, &id) == EINVAL && attr.flags == UMAD_USER_RMPP &&
	     id == 99);
	attr = (struct umad_reg_attr){ .mgmt_class = CLASS_SA,
				       .mgmt_class_version = 2,
				       .rmpp_version = 2 };
	must(umad_register2(port, &attr, &id) == EINVAL);
	attr = (struct umad_reg_attr){ .mgmt_class = CLASS_PERF,
				       .mgmt_class_version = 1,
				       .rmpp_version = 1 };
	must(umad_register2(port, &attr, &id) == EINVAL);
	attr = (struct umad_reg_attr){ .mgmt_class = 0x4f,
				       .mgmt_class_version = 1,
				       .oui = 0x0100066a };
	must(umad_register2(port, &attr, &id) == EINVAL);
	attr = (struct umad_reg_attr){ .mgmt_class = 0x4f,
				       .mgmt_class_version = 1,
				       .oui = 0x066a,
				       .flags = UMAD_USER_RMPP,
				       .method_mask = { 0x80000000000000deull,
							0xad00000000000001ull } };
	must(umad_register2(port, &attr, &id) == 0 && id < 32);
	must(umad_register2(port, &attr, &id) == EINVAL);
	must(umad_unregister(port, (int)id) == 0);
}

static void unregister_of_garbage_is_refused(void)
{
	errno = 0;
	must(umad_unregister(port, 31) == -1 && errno == EINVAL);
	must(umad_unregister(port, -1) == -1 && errno == EINVAL);
	must(umad_unregister(port, 1 << 20) == -1 && errno == EINVAL);
	must(umad_unregister(1000, 0) == -1 && errno == EINVAL);
	must(umad_register(1000, CLASS_LID, 1, 0, NULL) == -EPERM);
}

/* ---- messages ---- */

static void an_answer_has_the_transaction_of_its_request(void)
{
	struct message message;
	uint32_t tid;
	int length;

	build(&message, CLASS_DIRECTED, 1, GET, NODE_INFO);
	tid = tid_low(&message);
	must(send_message(port, directed, &message, 1000, 0) == 0);
	must(receive(port, &message, 1000, &length) == directed);
	must(length == MAD && umad_status(&message.umad) == 0 &&
	     message.umad.length == HEADER + MAD);
	must(message.mad[3] == (RESPONSE | GET) && tid_low(&message) == tid &&
	     tid_high(&message) != 0);
	must((get16(message.mad + 4) & 0x7fff) == 0 &&
	     message.mad[64] == 1); /* base version in NodeInfo */
	must(umad_get_mad(&message.umad) == message.mad && umad_size() == HEADER);
}

static void receiving_writes_no_byte_beyond_the_message(void)
{
	struct message message;
	int length = HEADER + MAD;

	build(&message, CLASS_DIRECTED, 1, GET, NODE_INFO);
	must(send_message(port, directed, &message, 1000, 0) == 0);
	/* As libibnetdisc does it: the length has the header in it once more. */
	must(umad_recv(port, &message.umad, &length, 1000) == directed && length == MAD);
	for (unsigned i = 0; i < sizeof(message.beyond); i++)
		must(message.beyond[i] == 0xa5);
}

static void what_is_too_long_stays_the_first(void)
{
	struct message message;
	int length = 100;

	build(&message, CLASS_DIRECTED, 1, GET, NODE_INFO);
	must(send_message(port, directed, &message, 1000, 0) == 0);
	must(umad_poll(port, 1000) == 0);
	errno = 0;
	must(umad_recv(port, &message.umad, &length, 1000) == -EINVAL && errno == EINVAL &&
	     length == MAD);
	must(umad_recv(port, &message.umad, &length, 1000) == directed && length == MAD);
}

static void receiving_waits_as_long_as_it_was_told(void)
{
	struct pollfd pollfd = { .fd = port, .events = POLLIN };
	struct message message;
	uint64_t begin = now_ms();
	int length;

	must(receive(port, &message, 100, &length) == -ETIMEDOUT && errno == ETIMEDOUT);
	must(now_ms() - begin >= 100 && now_ms() - begin < 5000);
	must(receive(port, &message, 0, &length) == -EAGAIN);
	must(umad_poll(port, 20) == -ETIMEDOUT);
	must(poll(&pollfd, 1, 0) == 0);
	must(umad_recv(port, NULL, &length, 0) == -EINVAL &&
	     umad_recv(port, &message.umad, NULL, 0) == -EINVAL);
}

/* A request to a LID that nobody has. */
static void build_for_nobody(struct message *message)
{
	build(message, CLASS_LID, 1, GET, NODE_INFO);
	umad_set_addr(&message->umad, 0xbff0, 0, 0, 0);
}

static void silence_becomes_a_timeout(void)
{
	int agent = umad_register(port, CLASS_LID, 1, 0, NULL), length;
	struct message message;
	uint64_t begin = now_ms();
	uint32_t tid;

	must(agent >= 0);
	build_for_nobody(&message);
	tid = tid_low(&message);
	must(send_message(port, agent, &message, 50, 2) == 0);
	must(receive(port, &message, 5000, &length) == agent);
	must(umad_status(&message.umad) == ETIMEDOUT && length == 24);
	must(tid_low(&message) == tid && message.mad[1] == CLASS_LID &&
	     get16(message.mad + 16) == NODE_INFO);
	must(now_ms() - begin >= 150);
	umad_unregister(port, agent);
}

static void one_transaction_waits_once(void)
{
	int agent = umad_register(port, CLASS_LID, 1, 0, NULL), length;
	struct message message, again;

	must(agent >= 0);
	build_for_nobody(&message);
	again = message;
	must(send_message(port, agent, &message, 100, 0) == 0);
	errno = 0;
	must(send_message(port, agent, &again, 100, 0) == -EIO && errno == EINVAL);
	must(receive(port, &message, 5000, &length) == agent &&
	     umad_status(&message.umad) == ETIMEDOUT);
	must(send_message(port, agent, &again, 50, 0) == 0);
	must(receive(port, &message, 5000, &length) == agent &&
	     umad_status(&message.umad) == ETIMEDOUT);
	umad_unregister(port, agent);
}

/* Of 32 bits each: their product is more, and no time that has passed. */
static void the_longest_timeout_does_not_end_at_once(void)
{
	int agent = umad_register(port, CLASS_LID, 1, 0, NULL), length;
	struct message message, again;

	must(agent >= 0);
	build_for_nobody(&message);
	again = message;
	must(send_message(port, agent, &message, -1, -1) == 0);
	must(receive(port, &message, 100, &length) == -ETIMEDOUT);
	errno = 0;
	must(send_message(port, agent, &again, -1, 1) == -EIO && errno == EINVAL);
	must(umad_unregister(port, agent) == 0);
}

static void an_agent_that_is_gone_waits_for_nothing(void)
{
	int agent = umad_register(port, CLASS_LID, 1, 0, NULL), length;
	struct message message, again;

	must(agent >= 0);
	build_for_nobody(&message);
	again = message;
	must(send_message(port, agent, &message, -1, -1) == 0);
	must(umad_unregister(port, agent) == 0);
	must(umad_register(port, CLASS_LID, 1, 0, NULL) == agent);
	must(send_message(port, agent, &again, 50, 0) == 0);
	must(receive(port, &message, 5000, &length) == agent &&
	     umad_status(&message.umad) == ETIMEDOUT);
	must(umad_unregister(port, agent) == 0);
}

static void without_a_timeout_no_answer_is_awaited(void)
{
	struct message message;
	int length;

	build(&message, CLASS_DIRECTED, 1, GET, NODE_INFO);
	must(send_message(port, directed, &message, 0, 0) == 0);
	must(receive(port, &message, 100, &length) == -ETIMEDOUT);
}

static void wrong_messages_are_refused(void)
{
	struct message message;

	build(&message, CLASS_DIRECTED, 1, GET, NODE_INFO);
	errno = 0;
	must(send_message(port, 30, &message, 100, 0) == -EIO && errno == EINVAL);
	must(send_message(port, -1, &message, 100, 0) == -EIO && errno == EINVAL);
	must(send_message(port, 32, &message, 100, 0) == -EIO && errno == EINVAL);
	must(umad_send(port, directed, &message.umad, 20, 100, 0) == -EIO && errno == EINVAL);
	must(send_message(1000, 0, &message, 100, 0) == -EIO && errno == EBADF);
}

/* A MAD through QP1 to the own LID. */
static void what_nobody_serves_is_answered(void)
{
	int agent = umad_register(port, 0x0a, 1, 0, NULL), length;
	struct message message;

	must(agent >= 0);
	build(&message, 0x0a, 1, GET, 0x77);
	umad_set_addr(&message.umad, (int)own_lid, 1, 0, (int)0x80010000);
	must(send_message(port, agent, &message, 1000, 0) == 0);
	must(receive(port, &message, 1000, &length) == agent && umad_status(&message.umad) == 0);
	must(message.mad[3] == (RESPONSE | GET) && get16(message.mad + 4) == 0x000c);
	/* Other methods are not. */
	build(&message, 0x0a, 1, 0x10, 0x77);
	umad_set_addr(&message.umad, (int)own_lid, 1, 0, (int)0x80010000);
	must(send_message(port, agent, &message, 100, 0) == 0);
	must(receive(port, &message, 1000, &length) == agent &&
	     umad_status(&message.umad) == ETIMEDOUT);
	umad_unregister(port, agent);
}

static void a_request_finds_the_program_that_serves_it(void)
{
	uint8_t oui[3] = { 0x00, 0x14, 0x05 };
	int server = umad_open_port(NULL, 0), serving, agent, length;
	struct message message;
	uint32_t tid, high;

	must(server >= 0);
	serving = umad_register_oui(server, CLASS_PING, 0, oui, mask_of(GET));
	agent = umad_register_oui(port, CLASS_PING, 0, oui, NULL);
	must(serving == 0 && agent >= 0);
	build(&message, CLASS_PING, 1, GET, 0);
	memcpy(message.mad + 37, oui, 3);
	memcpy(message.mad + 40, "there", 6);
	umad_set_addr(&message.umad, (int)own_lid, 1, 0, (int)0x80010000);
	tid = tid_low(&message);
	must(send_message(port, agent, &message, 1000, 0) == 0);
	must(receive(server, &message, 1000, &length) == serving);
	must(!memcmp(message.mad + 40, "there", 6) && ntohs(message.umad.addr.lid) == own_lid &&
	     ntohl(message.umad.addr.qpn) == 1);
	high = tid_high(&message);
	/* The answer keeps the transaction of the other. */
	message.mad[3] |= RESPONSE;
	memcpy(message.mad + 40, "back", 5);
	umad_set_addr(&message.umad, (int)own_lid, 1, 0, (int)0x80010000);
	must(send_message(server, serving, &message, 0, 0) == 0);
	must(receive(port, &message, 1000, &length) == agent);
	must(tid_low(&message) == tid && tid_high(&message) == high &&
	     !memcmp(message.mad + 40, "back", 5));
	/* By another OUI nobody is found. */
	build(&message, CLASS_PING, 1, GET, 0);
	message.mad[38] = 0x99;
	umad_set_addr(&message.umad, (int)own_lid, 1, 0, (int)0x80010000);
	must(send_message(port, agent, &message, 1000, 0) == 0);
	must(receive(port, &message, 1000, &length) == agent && get16(message.mad + 4) == 0x000c);
	umad_unregister(port, agent);
	umad_close_port(server);
}

static void the_sa_answers_a_query(void)
{
	int agent = umad_register(port, CLASS_SA, 2, 1, NULL), length;
	struct message message;

	must(agent >= 0);
	build(&message, CLASS_SA, 2, GET_TABLE, PORT_INFO_RECORD);
	message.mad[55] = 1;		/* component mask: EndportLID */
	put16(message.mad + 56, own_lid);
	umad_set_addr(&message.umad, (int)sm_lid, 1, 0, (int)0x80010000);
	must(send_message(port, agent, &message, 1000, 3) == 0);
	must(receive(port, &message, 5000, &length) == agent && umad_status(&message.umad) == 0);
	must(message.mad[3] == (RESPONSE | GET_TABLE) && get16(message.mad + 4) == 0);
	/* One segment that is the first and the last; its length is that of header and record. */
	must((message.mad[26] & 7) == 7 && message.mad[25] == 1);
	must(length == 56 + 8 * (int)get16(message.mad + 44) && get16(message.mad + 56) == own_lid);
	umad_unregister(port, agent);
}

/* ---- threads and processes ---- */

static void *wait_for_ever(void *argument)
{
	struct message message;
	int length;

	receive(*(int *)argument, &message, -1, &length);
	return NULL;
}

static void a_thread_can_be_cancelled_while_it_receives(void)
{
	struct message message;
	pthread_t thread;
	void *result;
	int length;

	must(!pthread_create(&thread, NULL, wait_for_ever, &port));
	usleep(50000);
	must(!pthread_cancel(thread) && !pthread_join(thread, &result) &&
	     result == PTHREAD_CANCELED);
	/* It kept no lock. */
	build(&message, CLASS_DIRECTED, 1, GET, NODE_INFO);
	must(send_message(port, directed, &message, 1000, 0) == 0);
	must(receive(port, &message, 1000, &length) == directed);
}

static void a_child_has_the_descriptor(void)
{
	struct message message;
	int length, status;
	pid_t child = fork();

	if (!child) {
		build(&message, CLASS_DIRECTED, 1, GET, NODE_INFO);
		_exit(send_message(port, directed, &message, 1000, 0) ||
		      receive(port, &message, 1000, &length) != directed);
	}
	must(waitpid(child, &status, 0) == child && status == 0);
	build(&message, CLASS_DIRECTED, 1, GET, NODE_INFO);
	must(send_message(port, directed, &message, 1000, 0) == 0);
	must(receive(port, &message, 1000, &length) == directed);
}

static bool is_sm(void)
{
	umad_port_t at;
	bool is;

	if (umad_get_port(NULL, 0, &at))
		return false;
	is = ntohl(at.capmask) & 2;
	umad_release_port(&at);
	return is;
}

static bool becomes(bool (*what)(void), bool value)
{
	for (int i = 0; i < 200 && what() != value; i++)
		usleep(10000);
	return what() == value;
}

static void issm_is_set_while_its_file_is_open(void)
{
	char path[256];
	int fd, status;
	pid_t child;

	must(umad_get_issm_path("vb_ib0", 1, path, sizeof(path)) == 0);
	must(!is_sm());
	fd = open(path, O_NONBLOCK);
	must(fd >= 0 && becomes(is_sm, true));
	close(fd);
	must(becomes(is_sm, false));
	child = fork();
	if (!child) {
		if (open(path, O_NONBLOCK) < 0)
			_exit(1);
		pause();
	}
	must(becomes(is_sm, true));
	kill(child, SIGKILL);
	must(waitpid(child, &status, 0) == child && becomes(is_sm, false));
}

static void messages_are_read_in_their_order(void)
{
	struct message message;
	uint32_t first = next_tid + 1;
	int length;

	for (int i = 0; i < 500; i++) {
		build(&message, CLASS_DIRECTED, 1, GET, NODE_INFO);
		must(send_message(port, directed, &message, 10000, 0) == 0);
	}
	for (uint32_t i = 0; i < 500; i++) {
		must(receive(port, &message, 5000, &length) == directed);
		must(tid_low(&message) == first + i);
	}
}

static void names_are_known(void)
{
	const char *umad_class_str(uint8_t), *umad_method_str(uint8_t, uint8_t),
		*umad_attribute_str(uint8_t, __be16), *umad_common_mad_status_str(__be16),
		*umad_sa_mad_status_str(__be16);

	must(!strcmp(umad_class_str(0x81), "Subn") && !strcmp(umad_class_str(0x35), "Vendor"));
	must(!strcmp(umad_method_str(3, 0x92), "GetTableResp") &&
	     !strcmp(umad_method_str(1, 0x81), "GetResp"));
	must(!strcmp(umad_attribute_str(0x81, htons(0x15)), "PortInfo"));
	must(!strcmp(umad_attribute_str(3, htons(0x35)), "PathRecord"));
	must(!strcmp(umad_common_mad_status_str(htons(0x1c)), "Invalid attribute/modifier field"));
	must(!strcmp(umad_sa_mad_status_str(htons(0x0300)), "No Records"));
}

static const struct test {
	const char *name;
	void (*run)(void);
} tests[] = {
#define TEST(name) { #name, name }
	TEST(lists_its_hcas),
	TEST(describes_an_hca),
	TEST(describes_a_port),
	TEST(open_says_what_is_not_there),
	TEST(agents_are_numbered_from_0),
	TEST(a_method_has_one_agent_on_a_port),
	TEST(connection_management_is_taken),
	TEST(register2_returns_errnos),
	TEST(unregister_of_garbage_is_refused),
	TEST(an_answer_has_the_transaction_of_its_request),
	TEST(receiving_writes_no_byte_beyond_the_message),
	TEST(what_is_too_long_stays_the_first),
	TEST(receiving_waits_as_long_as_it_was_told),
	TEST(silence_becomes_a_timeout),
	TEST(one_transaction_waits_once),
	TEST(the_longest_timeout_does_not_end_at_once),
	TEST(an_agent_that_is_gone_waits_for_nothing),
	TEST(without_a_timeout_no_answer_is_awaited),
	TEST(wrong_messages_are_refused),
	TEST(what_nobody_serves_is_answered),
	TEST(a_request_finds_the_program_that_serves_it),
	TEST(the_sa_answers_a_query),
	TEST(a_thread_can_be_cancelled_while_it_receives),
	TEST(a_child_has_the_descriptor),
	TEST(issm_is_set_while_its_file_is_open),
	TEST(messages_are_read_in_their_order),
	TEST(names_are_known),
};

static int run_tests(void)
{
	port = umad_open_port(NULL, 0);
	directed = port < 0 ? -1 : umad_register(port, CLASS_DIRECTED, 1, 0, NULL);
	if (directed < 0) {
		printf("Bail out! no port: %s\n", strerror(errno));
		return 1;
	}
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		problem = NULL;
		tests[i].run();
		count++;
		failed += problem != NULL;
		if (problem)
			printf("# %s (errno %s)\n", problem, strerror(errno));
		printf("%sok %d - %s\n", problem ? "not " : "", count, tests[i].name);
		fflush(stdout);
	}
	printf("1..%d\n", count);
	return failed != 0;
}

/* ---- jobs ---- */

static int one_of_a_crowd(int number, int go)
{
	struct message message;
	int fd = umad_open_port(NULL, 0), agent, length;
	char byte;

	agent = fd < 0 ? -1 : umad_register(fd, CLASS_DIRECTED, 1, 0, NULL);
	/* All are there before the first one asks. */
	if (agent < 0 || read(go, &byte, 1) != 0)
		return 1;
	for (int i = 0; i < 20; i++) {
		uint8_t path[2] = { 0, 1 };

		build(&message, CLASS_DIRECTED, 1, GET, i % 2 ? NODE_INFO : 0x15);
		set_path(&message, path, i % 3 ? 1 : 0);
		message.mad[23] = (uint8_t)(i % 3 ? 1 + number % 4 : 1);
		if (send_message(fd, agent, &message, 10000, 0) ||
		    receive(fd, &message, 20000, &length) != agent || umad_status(&message.umad) ||
		    tid_low(&message) != next_tid)
			return 1;
	}
	return 0;
}

static int crowd(int size)
{
	int go[2], there = 0, bad = 0, status;

	if (pipe(go))
		return 1;
	for (int i = 0; i < size; i++) {
		pid_t child = fork();

		if (!child) {
			close(go[1]);
			_exit(one_of_a_crowd(i, go[0]));
		}
		there += child > 0;
	}
	usleep(500000);
	close(go[1]);
	while (wait(&status) > 0)
		bad += status != 0;
	printf("%d of %d were answered\n", there - bad, size);
	return bad || there != size;
}

static int serve(void)
{
	struct message message;
	int fd = umad_open_port(NULL, 0), agent, length, got;

	agent = fd < 0 ? -1 : umad_register(fd, CLASS_DIRECTED, 1, 0, mask_of(GET));
	if (agent < 0)
		return 1;
	printf("ready\n");
	fflush(stdout);
	for (;;) {
		got = receive(fd, &message, -1, &length);
		if (got < 0) {
			printf("umad_recv: %s\n", strerror(-got));
			return 1;
		}
		if (umad_status(&message.umad)) {
			printf("status %d\n", umad_status(&message.umad));
			fflush(stdout);
			continue;
		}
		message.mad[3] |= RESPONSE;
		put16(message.mad + 4, 0x8000);
		memcpy(message.mad + 64, "served", 7);
		if (umad_send(fd, agent, &message.umad, MAD, 0, 0))
			printf("umad_send: %s\n", strerror(errno));
		printf("served\n");
		fflush(stdout);
	}
}

static int ask(const char *text)
{
	uint8_t path[64] = { 0 };
	struct message message;
	unsigned hops = 0;
	int fd = umad_open_port(NULL, 0), agent, length, got;

	for (; *text && hops < 63; hops++) {
		path[hops] = (uint8_t)strtoul(text, (char **)&text, 10);
		text += *text == ',';
	}
	agent = fd < 0 ? -1 : umad_register(fd, CLASS_DIRECTED, 1, 0, NULL);
	build(&message, CLASS_DIRECTED, 1, GET, SM_INFO);
	set_path(&message, path, hops - 1);
	if (agent < 0 || send_message(fd, agent, &message, 500, 2))
		return 1;
	got = receive(fd, &message, 5000, &length);
	if (got != agent || umad_status(&message.umad)) {
		printf("no answer: %d, status %d\n", got, umad_status(&message.umad));
		return 1;
	}
	printf("status 0x%04x, %.8s\n", get16(message.mad + 4), message.mad + 64);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "--crowd"))
		return crowd(atoi(argv[2]));
	if (argc == 2 && !strcmp(argv[1], "--serve"))
		return serve();
	if (argc == 3 && !strcmp(argv[1], "--ask"))
		return ask(argv[2]);
	return run_tests();
}
