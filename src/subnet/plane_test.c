/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fast plane: what goes through memory and what does not, in which order, and what is believed.
 * The image is of two HCAs with a cable between them; the rings and the fabric are this file's.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/ip_addr.h"
#include "platform/clock.h"
#include "subnet/internal.h"
#include "wire/packet.h"
#include "wire/qpn.h"

#define OUR_LID 16u
#define THEIR_LID 20u
#define THEIR_SLOT 9u
#define OUR_HOST 4u
#define THEIR_HOST 7u
#define CHANNEL 3u
enum { OUR_PORT = 1, THEIR_PORT = 3, PORTS = 4 };

struct small_image {
	struct image_head head;
	struct image_node node[2];
	struct image_port port[PORTS];
	uint8_t sl_to_vl[8];	/* all VL 0 */
};

static struct subnet subnet;
static struct small_image *image;
static struct tally *tally;
static int fabric;
static uint32_t channel;
static unsigned told_behind;

static uint32_t way_channel(void *owner, uint32_t slot)
{
	return slot == THEIR_SLOT ? channel : SUBNET_NO_CHANNEL;
}

static bool way_behind(void *owner, uint32_t at)
{
	assert_int_equal(at, CHANNEL);
	told_behind++;
	return true;
}

static void way_tell(void *owner, uint64_t number)
{
}

static const struct subnet_ways ways = { .channel = way_channel, .behind = way_behind, .tell = way_tell };

static int file_of(size_t bytes, bool sealed)
{
	int fd = memfd_create("plane-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	if (sealed)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	return fd;
}

static void map(size_t image_bytes, bool sealed, size_t tally_bytes)
{
	struct ib_files files = { .fd = { file_of(image_bytes, sealed), file_of(tally_bytes, true) },
				  .count = IB_FILES };

	image = mmap(NULL, sizeof(*image), PROT_READ | PROT_WRITE, MAP_SHARED, files.fd[0], 0);
	tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED, files.fd[1], 0);
	assert_true(image != MAP_FAILED && tally != MAP_FAILED);
	if (image_bytes >= sizeof(*image)) {
		image->head = (struct image_head){
			.magic = IMAGE_MAGIC, .version = IMAGE_VERSION, .nodes = 2, .ports = PORTS,
			.bytes = sizeof(*image), .node_offset = offsetof(struct small_image, node),
			.port_offset = offsetof(struct small_image, port), .epoch = 1,
		};
		image->head.slot[THEIR_SLOT] = THEIR_HOST + 1;
		for (uint32_t i = 0; i < 2; i++)
			image->node[i] = (struct image_node){ .first_port = 2 * i, .powered = 1,
							      .ports = 1,
							      .host = i ? THEIR_HOST : OUR_HOST };
		for (uint32_t i = 0; i < PORTS; i++)
			image->port[i] = (struct image_port){
				.node = i / 2, .peer = (i & 1) ? (i ^ 2) : IMAGE_NONE, .mtu = 5,
				.lid = i / 2 ? THEIR_LID : OUR_LID, .lmc = 1, .vls = 1,
				.state = IMAGE_ACTIVE,
				.sl_to_vl = offsetof(struct small_image, sl_to_vl),
			};
	}
	plane_map(&subnet.plane, &files);
	ib_files_close(&files);
}

static int set_up(void **state)
{
	int pair[2];

	memset(&subnet, 0, sizeof(subnet));
	channel = CHANNEL;
	told_behind = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, pair), 0);
	subnet.fd = pair[0];
	fabric = pair[1];
	subnet.end_count = 1;
	subnet.end[0].port = IB_WAY_PORT(0, 1);
	atomic_store(&subnet.end[0].address, OUR_LID | 1 << 16 | 1 << 24);
	atomic_store(&subnet.end[0].image_port, OUR_PORT);
	plane_begin(&subnet.plane);
	subnet_set_ways(&subnet, &ways);
	map(sizeof(*image), true, sizeof(*tally));
	return 0;
}

static int tear_down(void **state)
{
	plane_end(&subnet.plane);
	munmap(image, sizeof(*image));
	munmap(tally, sizeof(*tally));
	close(subnet.fd);
	close(fabric);
	return 0;
}

static struct datagram datagram_of(uint8_t data[64], uint8_t opcode)
{
	const struct packet packet = { .op = opcode_get(opcode), .pkey = 0xffff,
				       .dest_qpn = THEIR_SLOT << QP_INDEX_BITS | 3,
				       .payload_bytes = 8 };
	size_t bytes = packet_write_headers(&packet, data) + 8 + ICRC_BYTES;

	return (struct datagram){ .ib = { .port = IB_WAY_PORT(0, 1), .lid = THEIR_LID + 1,
					  .sl = 2, .path_bits = 1 },
				  .data = data, .bytes = bytes };
}

static bool goes(uint8_t opcode, struct plane_choice *choice)
{
	uint8_t data[64] = { 0 };
	struct datagram datagram = datagram_of(data, opcode);

	return plane_choose(&subnet, &subnet.end[0], atomic_load(&subnet.end[0].address), &datagram,
			    choice);
}

static bool fold_was_said(void)
{
	struct ctl_head head;

	return recv(fabric, &head, sizeof(head), MSG_DONTWAIT) == sizeof(head) &&
	       head.kind == CTL_FOLD;
}

static void a_packet_goes_through_memory_as_it_would_arrive(void **state)
{
	uint8_t data[64] = { 0 };
	struct datagram datagram = datagram_of(data, OPCODE_RC_SEND_ONLY), out;
	struct plane_choice choice;
	uint8_t from[16];

	assert_true(goes(OPCODE_RC_SEND_ONLY, &choice));
	assert_int_equal(tally->used, 1);
	assert_int_equal(tally->entry[0].packets, 1);
	assert_int_equal(tally->entry[0].words, (datagram.bytes + 8) / 4);
	plane_address(&choice, &datagram, &out);
	assert_int_equal(out.ib_end, THEIR_PORT + 1);
	assert_int_equal(out.ib_from, OUR_PORT + 1);
	assert_int_equal(out.ib.lid, OUR_LID + 1);
	assert_int_equal(out.channel, CHANNEL);
	ip_addr_of_lid(from, OUR_LID + 1);
	assert_memory_equal(out.source, from, sizeof(from));
	plane_uncount(&subnet.plane, &choice, &datagram);
	assert_int_equal(tally->entry[0].packets, 0);
	assert_int_equal(tally->entry[0].words, 0);
}

/* From the attempt that found no room to the next one, whoever makes it; of a pause no more than can be a wait. */
static void a_packet_waits_for_room_in_the_ring(void **state)
{
	uint64_t begin_ns = clock_now_ns(), most_ns;
	uint8_t data[64] = { 0 };
	struct datagram datagram = datagram_of(data, OPCODE_RC_SEND_ONLY);
	struct plane_choice choice;

	assert_true(goes(OPCODE_RC_SEND_ONLY, &choice));
	assert_int_equal(tally->entry[0].full_ns, 0);
	for (unsigned tries = 0; tries < 3; tries++) {
		plane_uncount(&subnet.plane, &choice, &datagram);
		assert_in_range(tally->entry[0].full_ns, begin_ns, clock_now_ns());
		while (clock_now_ns() - tally->entry[0].full_ns < 1000000)
			;
		assert_true(goes(OPCODE_RC_SEND_ONLY, &choice));
		assert_int_equal(tally->entry[0].full_ns, 0);
	}
	most_ns = clock_now_ns() - begin_ns;
	assert_in_range(tally->entry[0].waited_ns, 3000000, most_ns);
	/* It went: what follows does not wait. */
	most_ns = tally->entry[0].waited_ns;
	assert_true(goes(OPCODE_RC_SEND_ONLY, &choice));
	assert_int_equal(tally->entry[0].waited_ns, most_ns);
	/* It was given up long ago. */
	tally->entry[0].full_ns = clock_now_ns() - 3600ull * 1000000000;
	assert_true(goes(OPCODE_RC_SEND_ONLY, &choice));
	assert_int_equal(tally->entry[0].waited_ns, most_ns + TALLY_WAIT_MAX_NS);
}

static void what_the_image_does_not_lead_to_goes_by_the_relay(void **state)
{
	struct plane_choice choice;

	image->port[THEIR_PORT].state = IMAGE_ACTIVE - 1;
	image->head.epoch++;
	assert_false(goes(OPCODE_RC_SEND_ONLY, &choice));
	image->port[THEIR_PORT].state = IMAGE_ACTIVE;
	image->head.epoch++;
	assert_true(goes(OPCODE_RC_SEND_ONLY, &choice));
	assert_int_equal(told_behind, 1);
	image->head.slot[THEIR_SLOT] = OUR_HOST + 1;
	assert_false(goes(OPCODE_RC_SEND_ONLY, &choice));
	image->head.slot[THEIR_SLOT] = THEIR_HOST + 1;
	channel = SUBNET_NO_CHANNEL;
	assert_false(goes(OPCODE_RC_SEND_ONLY, &choice));
	assert_int_equal(tally->entry[0].packets, 1);
}

static void a_datagram_waits_for_what_the_relay_has(void **state)
{
	struct plane_choice choice;

	channel = SUBNET_NO_CHANNEL;
	assert_false(goes(OPCODE_UD_SEND_ONLY, &choice));
	channel = CHANNEL;
	/* It is not given to the fabric yet. */
	assert_false(goes(OPCODE_UD_SEND_ONLY, &choice));
	assert_false(fold_was_said());
	plane_relayed(&subnet.plane, 2);
	assert_false(goes(OPCODE_UD_SEND_ONLY, &choice));
	assert_true(fold_was_said());
	plane_relayed(&subnet.plane, 1);
	plane_folded(&subnet.plane, 0);
	/* The one that was sent behind FOLD. */
	assert_false(goes(OPCODE_UD_SEND_ONLY, &choice));
	assert_true(fold_was_said());
	/* Meanwhile nothing is tallied. */
	assert_false(goes(OPCODE_RC_SEND_ONLY, &choice));
	plane_relayed(&subnet.plane, 2);
	plane_folded(&subnet.plane, 0);
	assert_int_equal(told_behind, 0);
	assert_true(goes(OPCODE_RC_SEND_ONLY, &choice));
	assert_int_equal(told_behind, 1);
}

static bool arrives(uint32_t end, uint32_t from, uint16_t lid, uint32_t slot)
{
	struct datagram datagram = { .ib = { .lid = lid, .path_bits = 0x7f }, .ib_end = end,
				     .ib_from = from };
	bool arrived = subnet_arrives(&subnet, &datagram, slot);

	assert_true(!arrived || (datagram.ib.port == IB_WAY_PORT(0, 1) && datagram.ib.path_bits == 1));
	return arrived;
}

static void nonsense_is_not_believed(void **state)
{
	struct plane_choice choice;

	assert_true(arrives(OUR_PORT + 1, THEIR_PORT + 1, THEIR_LID, THEIR_SLOT));
	assert_true(arrives(OUR_PORT + 1, THEIR_PORT + 1, THEIR_LID + 1, THEIR_SLOT));
	assert_false(arrives(THEIR_PORT + 1, THEIR_PORT + 1, THEIR_LID, THEIR_SLOT));
	assert_false(arrives(UINT32_MAX, THEIR_PORT + 1, THEIR_LID, THEIR_SLOT));
	assert_false(arrives(OUR_PORT + 1, THEIR_PORT + 1, THEIR_LID + 2, THEIR_SLOT));
	assert_false(arrives(OUR_PORT + 1, THEIR_PORT + 1, 0, THEIR_SLOT));
	assert_false(arrives(OUR_PORT + 1, OUR_PORT + 1, OUR_LID, THEIR_SLOT));
	assert_false(arrives(OUR_PORT + 1, 0, THEIR_LID, THEIR_SLOT));
	assert_false(arrives(OUR_PORT + 1, UINT32_MAX, THEIR_LID, THEIR_SLOT));
	assert_false(arrives(OUR_PORT + 1, THEIR_PORT + 1, THEIR_LID, THEIR_SLOT + 1));
	assert_false(arrives(OUR_PORT + 1, THEIR_PORT + 1, THEIR_LID, 0));
	assert_false(arrives(OUR_PORT + 1, THEIR_PORT + 1, THEIR_LID, UINT32_MAX));
	/* A node without a program, and a program without a claimed slot, are not each other's. */
	image->node[1].host = IMAGE_NONE;
	assert_false(arrives(OUR_PORT + 1, THEIR_PORT + 1, THEIR_LID, THEIR_SLOT + 1));
	image->head.slot[THEIR_SLOT] = 0;
	image->head.epoch++;
	assert_false(goes(OPCODE_RC_SEND_ONLY, &choice));
}

/* Of a hostile fabric: pages may go under us, or are not there. */
static void files_of_a_wrong_size_are_not_used(void **state)
{
	static const struct {
		size_t image, tally;
		bool sealed;
	} wrong[] = {
		{ sizeof(struct small_image), sizeof(struct tally), false },
		{ sizeof(struct small_image), sizeof(struct tally) - 4096, true },
		{ sizeof(struct small_image), 0, true },
		{ sizeof(struct image_head) - 8, sizeof(struct tally), true },
		{ 0, sizeof(struct tally), true },
		{ sizeof(struct small_image) + 4096, sizeof(struct tally), true },
	};
	struct plane_choice choice;

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		munmap(image, sizeof(*image));
		munmap(tally, sizeof(*tally));
		map(wrong[i].image, wrong[i].sealed, wrong[i].tally);
		assert_true((atomic_load(&subnet.plane.fabric) != 0) == (i == 5));
		assert_true(goes(OPCODE_RC_SEND_ONLY, &choice) == (i == 5));
		assert_true(arrives(OUR_PORT + 1, THEIR_PORT + 1, THEIR_LID, THEIR_SLOT) == (i == 5));
	}
}

int main(void)
{
#define AT_PLANE(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		AT_PLANE(a_packet_goes_through_memory_as_it_would_arrive),
		AT_PLANE(what_the_image_does_not_lead_to_goes_by_the_relay),
		AT_PLANE(a_packet_waits_for_room_in_the_ring),
		AT_PLANE(a_datagram_waits_for_what_the_relay_has),
		AT_PLANE(nonsense_is_not_believed),
		AT_PLANE(files_of_a_wrong_size_are_not_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
