/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A walk through the image: image.h. It says what forward() of the fabric says, as long as nothing
 * is in the way (src/fabric/image_test.c compares both). Numbers of the image are looked at once,
 * and bounded where they are used.
 */
#include "image/image.h"

#include <stdatomic.h>
#include <string.h>

#include "base/print.h"
#include "wire/packet.h"

#define LID_GROUP	0xc000u
#define LID_ALL_ONES	0xffffu
#define VL_NONE		15u

/* A packet at a port that it has come to, or begins at. */
struct walk {
	const struct image *image;
	const struct image_question *question;
	struct image_path *path;
};

static bool image_has(const struct image *image, uint64_t offset, uint64_t bytes)
{
	return offset <= image->bytes && bytes <= image->bytes - offset;
}

bool image_open(struct image *image, const void *base, size_t bytes)
{
	const struct image_head *head = base;

	if (bytes < sizeof(*head) || head->magic != IMAGE_MAGIC || head->version != IMAGE_VERSION ||
	    head->bytes > bytes)
		return false;
	*image = (struct image){ .head = head, .base = base, .bytes = head->bytes,
				 .nodes = head->nodes, .ports = head->ports,
				 .node_offset = head->node_offset,
				 .port_offset = head->port_offset };
	return image_has(image, image->node_offset, image->nodes * sizeof(struct image_node)) &&
	       image_has(image, image->port_offset, image->ports * sizeof(struct image_port)) &&
	       !(image->node_offset % 8) && !(image->port_offset % 8);
}

uint32_t image_epoch(const struct image *image)
{
	/* E1: pairs with E2 in image_publish(): tables that are read afterwards are no older. */
	return atomic_load_explicit(&image->head->epoch, memory_order_acquire);
}

uint32_t image_slot(const struct image *image, uint32_t slot)
{
	return slot < IMAGE_SLOTS ? atomic_load_explicit(&image->head->slot[slot],
							 memory_order_relaxed) : 0;
}

bool image_host_has(const struct image *image, uint32_t host, uint32_t slot)
{
	return host != IMAGE_NONE && host + 1 == image_slot(image, slot);
}

/* A copy: the fabric may write meanwhile. False: there is no such node. */
static bool image_node_get(const struct image *image, uint32_t number, struct image_node *node)
{
	if (number >= image->nodes)
		return false;
	memcpy(node, image->base + image->node_offset + number * sizeof(*node), sizeof(*node));
	return true;
}

static bool image_port_get(const struct image *image, uint32_t number, struct image_port *port)
{
	if (number >= image->ports)
		return false;
	memcpy(port, image->base + image->port_offset + number * sizeof(*port), sizeof(*port));
	return true;
}

uint32_t image_port_number(const struct image *image, uint32_t node, uint32_t port)
{
	struct image_node at;

	if (!image_node_get(image, node, &at) || port > at.ports ||
	    at.first_port >= image->ports || port >= image->ports - at.first_port)
		return IMAGE_NONE;
	return at.first_port + port;
}

uint32_t image_host(const struct image *image, uint32_t port)
{
	struct image_port at;
	struct image_node node;

	return image_port_get(image, port, &at) && image_node_get(image, at.node, &node)
		       ? node.host : IMAGE_NONE;
}

/* A byte of a table; 0: it is none. */
static uint8_t image_byte(const struct image *image, uint64_t offset)
{
	return offset && offset < image->bytes ? image->base[offset] : 0;
}

static bool image_pkey_passes(const struct image *image, const struct image_port *port,
			      uint16_t pkey, bool inbound)
{
	for (unsigned i = 0; i < port->pkeys; i++) {
		uint16_t row;

		if (!image_has(image, port->pkey + 2u * i, sizeof(row)))
			return false;
		memcpy(&row, image->base + port->pkey + 2u * i, sizeof(row));
		if (row & ~PKEY_FULL && !((row ^ pkey) & ~PKEY_FULL) &&
		    (inbound || (row | pkey) & PKEY_FULL))
			return true;
	}
	return false;
}

/* From a node's port to the one at the other end of its cable, as *at; false: not by us. */
static bool walk_cross(struct walk *walk, const struct image_node *node, uint32_t entry,
		       uint32_t exit, uint32_t *at)
{
	const struct image *image = walk->image;
	const struct image_question *question = walk->question;
	struct image_path *path = walk->path;
	struct image_port out, in;
	uint8_t pair, vl;

	if (!image_port_get(image, exit, &out) || out.state != IMAGE_ACTIVE ||
	    !image_port_get(image, out.peer, &in) || in.state != IMAGE_ACTIVE || in.loses ||
	    path->crossings == IMAGE_CROSSINGS)
		return false;
	pair = image_byte(image, out.sl_to_vl + (node->is_switch ? entry * 8u : 0) +
				 question->sl / 2);
	vl = question->sl & 1 ? pair & 0xf : pair >> 4;
	if (vl >= out.vls || vl == VL_NONE || out.mtu > 5 || question->payload > 128u << out.mtu)
		return false;
	if ((node->is_switch && out.enforces_out &&
	     !image_pkey_passes(image, &out, question->pkey, false)) ||
	    (in.enforces_in && !image_pkey_passes(image, &in, question->pkey, true)))
		return false;
	path->vl = vl;
	path->exit[path->crossings++] = exit;
	*at = out.peer;
	return true;
}

static bool walk_end(struct walk *walk, uint32_t port)
{
	if (walk->path->ends == IMAGE_ENDS)
		return false;
	walk->path->end[walk->path->ends++] = port;
	return true;
}

static bool port_has(const struct image_port *port, uint16_t lid)
{
	return port->lid && port->lmc < 8 && !((port->lid ^ lid) >> port->lmc);
}

bool image_port_has(const struct image *image, uint32_t port, uint16_t lid)
{
	struct image_port at;

	return image_port_get(image, port, &at) && port_has(&at, lid);
}

/* From where it has come to by a cable, to its end. */
static bool walk_lid(struct walk *walk, uint32_t at)
{
	const struct image *image = walk->image;
	uint16_t dlid = walk->question->dlid;

	for (;;) {
		struct image_node node;
		struct image_port port, own;
		uint32_t entry, exit;

		if (!image_port_get(image, at, &port) || !image_node_get(image, port.node, &node) ||
		    !node.powered || at < node.first_port)
			return false;
		entry = at - node.first_port;
		if (!image_port_get(image, node.is_switch ? node.first_port : at, &own))
			return false;
		if (port_has(&own, dlid))
			return walk_end(walk, node.is_switch ? node.first_port : at);
		if (!node.is_switch || dlid >= node.lids)
			return false;
		exit = 255u - image_byte(image, node.lft + dlid);
		if (!exit || exit > node.ports || exit == entry ||
		    !walk_cross(walk, &node, entry, node.first_port + exit, &at))
			return false;
	}
}

/* Copies of a group: to all ports of the rows of switches, each once. */
static bool walk_group(struct walk *walk, uint32_t at)
{
	const struct image *image = walk->image;
	unsigned row = walk->question->dlid - LID_GROUP, waiting = 1;
	uint32_t queue[IMAGE_CROSSINGS + 1] = { at };

	while (waiting) {
		uint64_t mask[IMAGE_MFT_WORDS];
		struct image_node node;
		struct image_port port;
		unsigned before;
		uint32_t entry;

		at = queue[--waiting];
		before = waiting;
		if (!image_port_get(image, at, &port) || !image_node_get(image, port.node, &node) ||
		    !node.powered || at < node.first_port)
			return false;
		if (!node.is_switch) {
			if (!walk_end(walk, at))
				return false;
			continue;
		}
		entry = at - node.first_port;
		if (row >= node.mlids || !node.mft ||
		    !image_has(image, node.mft + row * sizeof(mask), sizeof(mask)))
			return false;
		memcpy(mask, image->base + node.mft + row * sizeof(mask), sizeof(mask));
		/* Without a row the default ports decide, and few go to port 0: not by us. */
		if (!(mask[0] | mask[1] | mask[2] | mask[3]) || mask[0] & 1)
			return false;
		for (unsigned exit = 1; exit <= node.ports; exit++) {
			if (!(mask[exit / 64] >> exit % 64 & 1) || exit == entry)
				continue;
			if (!walk_cross(walk, &node, entry, node.first_port + exit,
					&queue[waiting]))
				return false;
			waiting++;
		}
		if (waiting == before)		/* back to where it came from alone */
			return false;
	}
	return walk->path->ends > 0;
}

static bool walk_all(const struct image *image, const struct image_question *question,
		     struct image_path *path)
{
	struct walk walk = { .image = image, .question = question, .path = path };
	uint16_t dlid = question->dlid;
	struct image_node node;
	struct image_port port;
	uint32_t at;

	path->epoch = image_epoch(image);
	path->crossings = path->ends = path->vl = 0;
	if (question->sl > 15 || !dlid || dlid == LID_ALL_ONES)
		return false;
	if (!image_port_get(image, question->port, &port) ||
	    !image_node_get(image, port.node, &node) || !node.powered || node.is_switch ||
	    port.state != IMAGE_ACTIVE || !port_has(&port, question->slid))
		return false;
	if (dlid < LID_GROUP && port_has(&port, dlid))
		return walk_end(&walk, question->port);
	if (!walk_cross(&walk, &node, 0, question->port, &at))
		return false;
	return dlid < LID_GROUP ? walk_lid(&walk, at) : walk_group(&walk, at);
}

bool image_walk(const struct image *image, const struct image_question *question,
		struct image_path *path)
{
	return !atomic_load_explicit(&image->head->relay, memory_order_relaxed) &&
	       walk_all(image, question, path);
}

/* ---- in words ---- */

/* The node of a port, and its number there. */
static bool port_place(const struct image *image, uint32_t number, uint32_t *node, uint32_t *port)
{
	struct image_port at;
	struct image_node of;

	if (!image_port_get(image, number, &at) || !image_node_get(image, at.node, &of))
		return false;
	*node = at.node;
	*port = number - of.first_port;
	return true;
}

/* The port of the node @node by which the packet came, over one of the cables before; 0: none. */
static uint32_t path_entry(const struct image *image, const struct image_path *path, unsigned crossing,
			   uint32_t node)
{
	struct image_port from;
	uint32_t at, entry;

	while (crossing--)
		if (image_port_get(image, path->exit[crossing], &from) &&
		    port_place(image, from.peer, &at, &entry) && at == node)
			return entry;
	return 0;
}

/*
 * False: it does not fit. What would end a word of a comment (docs/trace-format.md) is no part of a name, nor what
 * is no ASCII: a comment is UTF-8, and a name has any bytes.
 */
static bool print_hop(struct print *text, const struct image *image, uint32_t number, uint32_t entry,
		      uint32_t port)
{
	char name[IMAGE_NAME_MAX] = "", way[16] = "";
	struct print before = { .text = way, .size = sizeof(way) };
	size_t used = text->used;
	struct image_node node;

	if (image_node_get(image, number, &node) && node.name && image_has(image, node.name, sizeof(name)))
		memcpy(name, image->base + node.name, sizeof(name) - 1);
	for (char *at = name; *at; at++)
		if (*at < ' ' || *at == ';' || *at > '~')
			*at = '_';
	if (entry)
		print_format(&before, "%u>", entry);
	print_format(text, "%s%s[%s%u]", used ? ", " : "", name, way, port);
	return text->used > used;
}

void image_show(const struct image *image, const struct image_question *question,
		char text[IMAGE_TEXT_MAX])
{
	struct print out = { .text = text, .size = IMAGE_TEXT_MAX - sizeof(", ...") };
	struct image_path path;
	uint32_t node, port;
	bool fits = true;

	text[0] = 0;
	if (!walk_all(image, question, &path))
		return;
	for (unsigned i = 0; fits && i < path.crossings + path.ends; i++) {
		bool crosses = i < path.crossings;

		fits = port_place(image, crosses ? path.exit[i] : path.end[i - path.crossings], &node, &port) &&
		       print_hop(&out, image, node, crosses ? path_entry(image, &path, i, node) : 0, port);
	}
	if (!fits)
		memcpy(text + out.used, ", ...", sizeof(", ..."));
}
