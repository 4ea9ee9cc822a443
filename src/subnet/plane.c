/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The fast plane: a packet by LID to a process of this host goes through the memory that both share
 * (local/), if the image of the fabric's switches (image/image.h) says that it would arrive at that
 * process's host, and nothing on its way would discard, lose or show it. It is counted in the tally,
 * from which the fabric has the counters of all ports that it has crossed; while a ring is full, as time that it
 * waited there. All else is DATA, for the
 * fabric's process: the relay.
 *
 * Order. From the rings to the relay a packet may change over at once: a receiver takes its rings
 * before what the relay has brought (engine/receive.c). From the relay to the rings a datagram, or a
 * packet of UC, waits until FOLDED says that all that the process gave to the relay is in the sockets
 * of its receivers; RC would have it sent again, and does not wait. Either way BEHIND comes first:
 * the receiver takes what the relay has brought before it goes on in that ring.
 */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/ip_addr.h"
#include "object/route.h"
#include "platform/clock.h"
#include "platform/memory.h"
#include "subnet/internal.h"
#include "wire/opcode.h"
#include "wire/packet.h"
#include "wire/qpn.h"
#include "wire/record.h"
#include "wire/smp.h"

#define FOLD_NS 1000000u /* between attempts, where receivers are slow */

static void plane_unmap(struct subnet_plane *plane) REQUIRES(plane->lock)
{
	memory_release(plane->image, plane->image_bytes, -1);
	memory_release(plane->tally, sizeof(struct tally), -1);
	plane->image = plane->tally = NULL;
}

void plane_begin(struct subnet_plane *plane)
{
	lock_init(&plane->lock);
}

void plane_end(struct subnet_plane *plane)
{
	lock_acquire(&plane->lock);
	plane_unmap(plane);
	lock_release(&plane->lock);
	lock_destroy(&plane->lock);
}

/*
 * Of the fabric that the process has just attached to. Files whose size is not sealed, or is wrong,
 * are not touched: whoever made them could take the pages away under us.
 */
void plane_map(struct subnet_plane *plane, const struct ib_files *files)
{
	void *image = NULL, *tally = NULL;
	struct stat stat;
	bool maps = files->count == IB_FILES && !fstat(files->fd[0], &stat) &&
		    stat.st_size >= (off_t)sizeof(struct image_head);
	uint64_t number = maps ? stat.st_ino : 0;
	size_t bytes = maps ? (size_t)stat.st_size : 0;

	maps = maps && !memory_map_sealed(files->fd[0], bytes, false, &image) &&
	       !memory_map_sealed(files->fd[1], sizeof(struct tally), true, &tally);
	lock_acquire(&plane->lock);
	plane_unmap(plane);
	plane->image = image;
	plane->image_bytes = bytes;
	plane->tally = tally;
	maps = maps && image_routes_open(&plane->routes, image, bytes, tally);
	plane->folding = false;
	plane->folds++;
	plane->drained = plane->relayed; /* by the former one, which is gone */
	atomic_store(&plane->fabric, maps ? number : 0);
	lock_release(&plane->lock);
	if (plane->ways.tell)
		plane->ways.tell(plane->ways.owner, maps ? number : 0);
}

uint32_t plane_channel(const struct subnet_plane *plane, uint32_t slot)
{
	return plane->ways.channel && atomic_load_explicit(&plane->fabric, memory_order_relaxed)
		       ? plane->ways.channel(plane->ways.owner, slot)
		       : SUBNET_NO_CHANNEL;
}

/* ---- folding ---- */

/* With a packet that some thread is about to give to the relay the fabric would answer too soon. */
static void plane_fold(struct subnet *subnet) REQUIRES(subnet->plane.lock)
{
	struct subnet_plane *plane = &subnet->plane;

	if (plane->folding || plane->leaving || clock_now_ns() < plane->fold_again_ns ||
	    subnet_say_fold(subnet))
		return;
	plane->folding = true;
	plane->folding_to = plane->relayed;
}

void plane_folded(struct subnet_plane *plane, uint64_t waiting)
{
	lock_acquire(&plane->lock);
	if (plane->folding) {
		plane->folding = false;
		if (waiting)
			plane->fold_again_ns = clock_now_ns() + FOLD_NS;
		else
			plane->drained = plane->folding_to;
		plane->folds++;
		if (atomic_load(&plane->fabric))
			image_routes_forget(&plane->routes);
	}
	lock_release(&plane->lock);
}

/* ---- sending ---- */

static bool plane_is_unreliable(const struct datagram *datagram)
{
	const struct opcode *op = opcode_get(datagram->data[0]);

	return op && (op->service == SERVICE_UC || op->service == SERVICE_UD);
}

static void plane_ask(const struct subnet_end *end, uint32_t address,
		      const struct datagram *datagram, struct image_question *question)
{
	const struct opcode *op = opcode_get(datagram->data[0]);
	size_t bytes = datagram->segment_bytes ? datagram->segment_bytes : datagram->bytes;
	size_t headers = (op ? op->header_bytes : BTH_BYTES) + ICRC_BYTES;

	*question = (struct image_question){
		.port = atomic_load_explicit(&end->image_port, memory_order_relaxed),
		.slid = (uint16_t)address | (datagram->ib.path_bits & lid_mask(address)),
		.dlid = datagram->ib.lid,
		.pkey = get_be16(datagram->data + 2),
		.sl = datagram->ib.sl,
		.payload = bytes > headers ? (unsigned)(bytes - headers) : 0,
	};
}

/* NULL: by the relay. */
static const struct image_route *plane_find(struct subnet *subnet, uint32_t slot,
					    const struct image_question *question)
	REQUIRES(subnet->plane.lock)
{
	struct subnet_plane *plane = &subnet->plane;
	const struct image_route *route;

	if (plane->folding || !atomic_load_explicit(&plane->fabric, memory_order_relaxed))
		return NULL;
	route = image_route_find(&plane->routes, question);
	if (plane->routes.full)
		plane_fold(subnet);
	/* Another host's process may have that slot, in another network namespace. */
	return route && image_host_has(&plane->routes.image, route->host, slot) ? route : NULL;
}

/* May it go through the ring now, as far as what went before it says? */
static bool plane_is_in_order(struct subnet *subnet, uint32_t slot, uint32_t channel,
			      const struct datagram *datagram) REQUIRES(subnet->plane.lock)
{
	struct subnet_plane *plane = &subnet->plane;
	struct plane_peer *peer = &plane->peer[slot];

	if (peer->unreliable > plane->drained && plane_is_unreliable(datagram)) {
		plane_fold(subnet);
		return false;
	}
	if (peer->relayed > peer->behind) {
		if (!plane->ways.behind(plane->ways.owner, channel))
			return false;
		peer->behind = peer->relayed;
	}
	return true;
}

static unsigned plane_packets(const struct datagram *datagram, size_t *bytes)
{
	unsigned packets = link_segments(datagram);

	*bytes = datagram->bytes +
		 packets * (IB_LRH_BYTES + (datagram->ib.has_grh ? IB_GRH_BYTES : 0));
	return packets;
}

bool plane_choose(struct subnet *subnet, const struct subnet_end *end, uint32_t address,
		  const struct datagram *datagram, struct plane_choice *choice)
{
	uint32_t slot = qpn_slot(packet_peek_qpn(datagram->data, datagram->bytes));
	uint32_t channel = plane_channel(&subnet->plane, slot);
	struct subnet_plane *plane = &subnet->plane;
	const struct image_route *route = NULL;
	struct image_question question;
	bool fast = false;

	plane_ask(end, address, datagram, &question);
	lock_acquire(&subnet->plane.lock);
	if (channel != SUBNET_NO_CHANNEL)
		route = plane_find(subnet, slot, &question);
	if (route && plane_is_in_order(subnet, slot, channel, datagram)) {
		size_t bytes;
		unsigned packets = plane_packets(datagram, &bytes);

		if (route->entry)
			tally_try(route->entry, clock_now_ns);
		image_route_count(route, packets, bytes);
		choice->entry = route->entry;
		choice->folds = plane->folds;
		choice->channel = channel;
		choice->end = route->end;
		choice->from = question.port;
		choice->slid = question.slid;
		fast = true;
	} else {
		plane->peer[slot].relayed = ++plane->relayed;
		if (plane_is_unreliable(datagram))
			plane->peer[slot].unreliable = plane->relayed;
		plane->leaving++;
	}
	lock_release(&subnet->plane.lock);
	return fast;
}

/* The ring was full: who has the packet tries again until it gives it up. */
void plane_uncount(struct subnet_plane *plane, const struct plane_choice *choice,
		   const struct datagram *datagram)
{
	size_t bytes;
	unsigned packets = plane_packets(datagram, &bytes);

	lock_acquire(&plane->lock);
	if (choice->entry && choice->folds == plane->folds)
		tally_uncount(choice->entry, packets, bytes, clock_now_ns());
	lock_release(&plane->lock);
}

void plane_relayed(struct subnet_plane *plane, unsigned count)
{
	lock_acquire(&plane->lock);
	plane->leaving -= count;
	lock_release(&plane->lock);
}

/* As it arrives, but for the name that its port has there. */
void plane_address(const struct plane_choice *choice, const struct datagram *datagram,
		   struct datagram *out)
{
	*out = *datagram;
	out->ib.lid = choice->slid;
	out->ib.path_bits = (uint8_t)(datagram->ib.lid & 0x7f);
	out->ib.static_rate = 0;
	out->ib_end = choice->end + 1;
	out->ib_from = choice->from + 1;
	out->channel = (uint16_t)choice->channel;
	out->interface = 0;
	if (!out->ib.has_grh) {
		ip_addr_of_lid(out->source, choice->slid);
		memset(out->destination, 0, sizeof(out->destination));
	}
}

_Static_assert(IMAGE_TEXT_MAX == LINK_WAY_MAX, "the words of one are those of the other");

void plane_show(struct subnet *subnet, const struct subnet_end *end, uint32_t address,
		const struct datagram *datagram, char way[LINK_WAY_MAX])
{
	struct subnet_plane *plane = &subnet->plane;
	struct image_question question;

	plane_ask(end, address, datagram, &question);
	lock_acquire(&plane->lock);
	if (atomic_load_explicit(&plane->fabric, memory_order_relaxed))
		image_show(&plane->routes.image, &question, way);
	lock_release(&plane->lock);
}

/* ---- receiving ---- */

bool subnet_arrives(struct subnet *subnet, struct datagram *datagram, uint32_t slot)
{
	struct subnet_plane *plane = &subnet->plane;
	const struct subnet_end *end = NULL;
	uint32_t from = datagram->ib_from - 1, address;
	bool is_its = false;

	for (unsigned i = 0; i < subnet->end_count && !end; i++)
		if (atomic_load_explicit(&subnet->end[i].image_port, memory_order_relaxed) + 1 ==
		    datagram->ib_end)
			end = &subnet->end[i];
	if (!end || !slot)
		return false;
	/* The SLID is one of a port of the sender's host. */
	lock_acquire(&plane->lock);
	if (atomic_load_explicit(&plane->fabric, memory_order_relaxed))
		is_its = image_port_has(&plane->routes.image, from, datagram->ib.lid) &&
			 image_host_has(&plane->routes.image,
					image_host(&plane->routes.image, from), slot);
	lock_release(&plane->lock);
	if (!is_its)
		return false;
	address = atomic_load_explicit(&end->address, memory_order_relaxed);
	datagram->link = ROUTE_IB;
	datagram->ib.port = end->port;
	datagram->ib.path_bits &= (uint8_t)lid_mask(address);
	datagram->dlid = (uint16_t)address | datagram->ib.path_bits;
	return true;
}

/* ---- what is asked of it ---- */

bool subnet_meets(struct subnet *subnet, uint32_t slot)
{
	struct subnet_plane *plane = &subnet->plane;
	uint32_t host = 0;

	lock_acquire(&plane->lock);
	if (atomic_load_explicit(&plane->fabric, memory_order_relaxed))
		host = image_slot(&plane->routes.image, slot);
	lock_release(&plane->lock);
	return host && host != IMAGE_NONE;
}

const char *subnet_relays_why(struct subnet *subnet, const struct subnet_sends *sends)
{
	struct subnet_plane *plane = &subnet->plane;
	const struct subnet_end *end = subnet_find_end(subnet, sends->way.port);
	uint32_t slot = qpn_slot(sends->dest_qpn), address = end ? atomic_load(&end->address) : 0;
	const char *why = NULL;
	struct image_path path;
	struct image_question question = {
		.port = end ? atomic_load(&end->image_port) : IMAGE_NONE,
		.slid = (uint16_t)address | (sends->way.path_bits & lid_mask(address)),
		.dlid = sends->way.lid,
		.pkey = sends->pkey,
		.sl = sends->way.sl,
		.payload = sends->mtu,
	};

	lock_acquire(&plane->lock);
	if (!atomic_load(&plane->fabric))
		why = "the fabric's process gives no image of its switches";
	else if (atomic_load_explicit(&plane->routes.image.head->relay, memory_order_relaxed))
		why = "the fabric's process shows each packet in its trace";
	else if (plane_channel(plane, slot) == SUBNET_NO_CHANNEL)
		why = "no memory is shared with the process of that QP";
	else if (!image_walk(&plane->routes.image, &question, &path) || path.ends != 1 ||
		 !image_host_has(&plane->routes.image, image_host(&plane->routes.image, path.end[0]),
				 slot))
		why = "a port on the way discards, loses or delays it: verbatim route";
	lock_release(&plane->lock);
	return why;
}
