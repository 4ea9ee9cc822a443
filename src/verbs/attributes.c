/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The attribute files of our devices, as the kernel would have them in
 *
 *	/sys/class/infiniband/vb_eth0/...	(its Documentation/ABI/stable/sysfs-class-infiniband)
 *	/sys/class/infiniband_verbs/uverbs0/...
 *
 * A table names each file and the function that writes its text; a '#' in a name stands for a
 * number. What is not in the table is absent. Some need an open device: one that
 * the program has open, or one opened for this.
 */
#include <endian.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/counters.h"
#include "base/text.h"
#include "verbs/check.h"
#include "verbs/verbs.h"

struct source {
	const struct verbs_device *device;
	struct hca_context *hca;	/* NULL unless the row asks for it */
	unsigned port;			/* of rows below ports/# */
};

typedef int attribute_writer(const struct source *source, unsigned index, char *text, size_t size);

static int write_text(char *text, size_t size, const char *value)
{
	snprintf(text, size, "%s", value);
	return 0;
}

static int node_type(const struct source *source, unsigned index, char *text, size_t size)
{
	return write_text(text, size, "1: CA");
}

static int node_guid_text(const struct source *source, unsigned index, char *text, size_t size)
{
	uint64_t value = be64toh(source->device->guid);

	snprintf(text, size, "%04x:%04x:%04x:%04x", (unsigned)(value >> 48),
		 (unsigned)(value >> 32) & 0xffff, (unsigned)(value >> 16) & 0xffff,
		 (unsigned)value & 0xffff);
	return 0;
}

static int node_desc(const struct source *source, unsigned index, char *text, size_t size)
{
	snprintf(text, size, "verbatim on %s", source->device->interface);
	return 0;
}

static int hca_model(const struct source *source, unsigned index, char *text, size_t size)
{
	return write_text(text, size, "verbatim");
}

/* An HCA of a fabric is of no interface. */
static int interface_name(const struct source *source, unsigned index, char *text, size_t size)
{
	if (!source->device->interface[0])
		return ENOENT;
	return write_text(text, size, source->device->interface);
}

/* No PCI device, so no node that it would be near to. */
static int numa_node(const struct source *source, unsigned index, char *text, size_t size)
{
	return write_text(text, size, "-1");
}

static int ibdev_name(const struct source *source, unsigned index, char *text, size_t size)
{
	return write_text(text, size, source->device->ibv.name);
}

/* ABI version of driver-specific commands: none exist; 1, as in rxe. */
static int driver_abi(const struct source *source, unsigned index, char *text, size_t size)
{
	return write_text(text, size, "1");
}

/* Of /dev/infiniband/uverbsN, as the kernel numbers them. */
static int device_numbers(const struct source *source, unsigned index, char *text, size_t size)
{
	snprintf(text, size, "231:%d", 192 + source->device->number);
	return 0;
}

static int fw_ver(const struct source *source, unsigned index, char *text, size_t size)
{
	struct ibv_device_attr_ex attr = { 0 };
	int err = hca_query_device(source->hca, &attr);

	snprintf(text, size, "%s", attr.orig_attr.fw_ver);
	return err;
}

static int hw_rev(const struct source *source, unsigned index, char *text, size_t size)
{
	struct ibv_device_attr_ex attr = { 0 };
	int err = hca_query_device(source->hca, &attr);

	snprintf(text, size, "%x", attr.orig_attr.hw_ver);
	return err;
}

static int port_state(const struct source *source, unsigned index, char *text, size_t size)
{
	static const char *const names[] = { "NOP", "DOWN", "INIT", "ARMED", "ACTIVE",
					     "ACTIVE_DEFER" };
	struct ibv_port_attr attr = { 0 };
	int err = hca_query_port(source->hca, source->port, &attr, NULL);
	bool known = (unsigned)attr.state < sizeof(names) / sizeof(names[0]);

	snprintf(text, size, "%u: %s", attr.state, known ? names[attr.state] : "UNKNOWN");
	return err;
}

/* IBTA 14.2.5.6, PortPhysicalState */
static int phys_state(const struct source *source, unsigned index, char *text, size_t size)
{
	static const char *const names[] = { "<unknown>", "Sleep", "Polling", "Disabled",
					     "PortConfigurationTraining", "LinkUp",
					     "LinkErrorRecovery", "Phy Test" };
	struct ibv_port_attr attr = { 0 };
	int err = hca_query_port(source->hca, source->port, &attr, NULL);

	snprintf(text, size, "%u: %s", attr.phys_state,
		 names[attr.phys_state < sizeof(names) / sizeof(names[0]) ? attr.phys_state : 0]);
	return err;
}

struct coded {
	unsigned code, value;
	const char *name;
};

static const struct coded *find_code(const struct coded *row, unsigned code)
{
	while (row->code && row->code != code)
		row++;
	return row;
}

/* IBTA 14.2.5.6, LinkWidthActive (lanes) and LinkSpeedActive (a lane's speed, in 0.1 Gb/s) */
static const struct coded widths[] = {
	{ 1, 1, "1X" }, { 2, 4, "4X" }, { 4, 8, "8X" }, { 8, 12, "12X" }, { 16, 2, "2X" },
	{ 0, 1, "1X" },
};
static const struct coded speeds[] = {
	{ 1, 25, "SDR" }, { 2, 50, "DDR" }, { 4, 100, "QDR" }, { 8, 100, "FDR10" },
	{ 16, 140, "FDR" }, { 32, 250, "EDR" }, { 64, 500, "HDR" }, { 128, 1000, "NDR" },
	{ 0, 25, "SDR" },
};

static int port_rate(const struct source *source, unsigned index, char *text, size_t size)
{
	struct ibv_port_attr attr = { 0 };
	int err = hca_query_port(source->hca, source->port, &attr, NULL);
	const struct coded *width = find_code(widths, attr.active_width);
	const struct coded *speed = find_code(speeds, attr.active_speed);
	unsigned rate = width->value * speed->value;

	snprintf(text, size, "%u%s Gb/sec (%s %s)", rate / 10, rate % 10 ? ".5" : "", width->name,
		 speed->name);
	return err;
}

static int link_layer(const struct source *source, unsigned index, char *text, size_t size)
{
	struct ibv_port_attr attr = { 0 };
	int err = hca_query_port(source->hca, source->port, &attr, NULL);

	return err ? err : write_text(text, size, attr.link_layer == IBV_LINK_LAYER_INFINIBAND ? "InfiniBand"
											       : "Ethernet");
}

/* LIDs belong to InfiniBand links. */
static int port_lid(const struct source *source, unsigned index, char *text, size_t size)
{
	return write_text(text, size, "0x0");
}

static int always_zero(const struct source *source, unsigned index, char *text, size_t size)
{
	return write_text(text, size, "0");
}

static int cap_mask(const struct source *source, unsigned index, char *text, size_t size)
{
	struct ibv_port_attr attr = { 0 };
	int err = hca_query_port(source->hca, source->port, &attr, NULL);

	snprintf(text, size, "0x%08x", attr.port_cap_flags);
	return err;
}

static int port_pkey(const struct source *source, unsigned index, char *text, size_t size)
{
	__be16 value;
	int err = hca_query_pkey(source->hca, source->port, (int)index, &value);

	if (!err)
		snprintf(text, size, "0x%04x", be16toh(value));
	return err;
}

/* An empty entry of the table reads as zeros, but has no type and no interface. */
static int port_gid(const struct source *source, unsigned index, char *text, size_t size)
{
	struct hca_gid entry = { 0 };
	int err = hca_query_gid(source->hca, source->port, index, &entry);
	const uint8_t *raw = entry.gid.raw;

	if (err && err != ENOENT && err != ENODATA)
		return err;
	for (unsigned i = 0; i < 8; i++)
		snprintf(text + 5 * i, size - 5 * i, "%02x%02x%s", raw[2 * i], raw[2 * i + 1],
			 i < 7 ? ":" : "");
	return 0;
}

static int gid_type(const struct source *source, unsigned index, char *text, size_t size)
{
	struct hca_gid entry;
	int err = hca_query_gid(source->hca, source->port, index, &entry);

	verbs_checked(.what = CHECK_LOOK, .call = "gid_attrs/types");
	return err ? err : write_text(text, size, entry.type == IBV_GID_TYPE_ROCE_V2
					      ? "RoCE v2" : "IB/RoCE v1");
}

static int gid_interface(const struct source *source, unsigned index, char *text, size_t size)
{
	struct hca_gid entry;
	int err = hca_query_gid(source->hca, source->port, index, &entry);

	return err ? err : interface_name(source, index, text, size);
}

/*
 * Counters are those of the processes of this host that have the device open, as far as we may look at them: of
 * all their devices together, since a process counts once.
 */
static int host_counter(const struct source *source, enum counter which, char *text, size_t size)
{
	uint64_t values[COUNTER_COUNT];

	hca_read_host_counters(source->hca, values);
	snprintf(text, size, "%llu", (unsigned long long)values[which]);
	return 0;
}

static int host_hardware(const struct source *source, enum hardware_counter which, char *text, size_t size)
{
	uint64_t values[COUNTER_COUNT];

	hca_read_host_counters(source->hca, values);
	snprintf(text, size, "%llu", (unsigned long long)hardware_value(which, values));
	return 0;
}

/* Milliseconds for which the kernel keeps what an adapter said; here each read asks. */
static int counter_lifespan(const struct source *source, unsigned index, char *text, size_t size)
{
	return write_text(text, size, "0");
}

/* A function for each row of base/counter.def and base/hardware_counter.def. */
#define COUNTER(id, name, what)                                                                    \
	static int hw_##id(const struct source *source, unsigned index, char *text, size_t size)   \
	{                                                                                          \
		return host_counter(source, COUNTER_##id, text, size);                             \
	}
#include "base/counter.def"
#undef COUNTER
#define HARDWARE(directory, name, divisor, a, b, c)                                                \
	static int hardware_##name(const struct source *source, unsigned index, char *text, size_t size) \
	{                                                                                          \
		return host_hardware(source, HARDWARE_##name, text, size);                         \
	}
#include "base/hardware_counter.def"
#undef HARDWARE

static const struct attribute {
	const char *class, *name;
	bool opened;
	attribute_writer *write;
} attributes[] = {
#define ATTRIBUTE(class, name, opened, writer) { class, name, opened, writer },
#include "verbs/attribute.def"
#undef ATTRIBUTE
};

/*
 * Does @path match a @name in which each '#' is a number? *index: the last one; *port: the one behind
 * "ports/", 1 of rows that have none.
 */
static bool name_matches(const char *name, const char *path, unsigned *port, unsigned *index)
{
	const char *begin = name;
	uint64_t number;

	*port = 1;
	*index = 0;
	for (;; name++) {
		char digits[12];
		size_t length;

		if (*name != '#') {
			if (*name != *path)
				return false;
			if (!*name)
				return true;
			path++;
			continue;
		}
		length = strcspn(path, "/");
		if (length >= sizeof(digits))
			return false;
		memcpy(digits, path, length);
		digits[length] = '\0';
		if (!text_number(digits, 0, UINT_MAX, &number))
			return false;
		path += length;
		*index = (unsigned)number;
		if (name == begin + strlen("ports/"))
			*port = (unsigned)number;
	}
}

static int attribute_write(const struct attribute *row, const struct verbs_device *device, unsigned port,
			   unsigned index, char *text, size_t size)
{
	struct source source = { .device = device, .port = port };
	struct context *context = NULL;
	int err;

	if (!row->opened)
		return row->write(&source, index, text, size);
	context = context_find(device->ibv.name);
	if (context) {
		source.hca = context->hca;
		err = row->write(&source, index, text, size);
		context_put(context);
		return err;
	}
	err = hca_open(device->ibv.name, &source.hca);
	if (err)
		return err;
	err = row->write(&source, index, text, size);
	hca_close(source.hca);
	return err;
}

/* The fabric knows of an HCA what its SM and its cables do, an open device or not. */
static bool read_of_fabric(const char *class, const struct verbs_device *device, const char *path, char *text,
			   size_t size)
{
	char whole[256], answer[512];

	snprintf(whole, sizeof(whole), "%s/%s/%s", class, device->ibv.name, path);
	if (hca_read_sysfs(whole, answer, sizeof(answer)))
		return false;
	answer[strcspn(answer, "\n")] = '\0';
	snprintf(text, size, "%s", answer);
	return true;
}

/* Cut the first component off *path into @name; false when it does not fit or is the last. */
static bool cut_component(const char **path, char *name, size_t size)
{
	size_t length;

	while (**path == '/')
		(*path)++;
	length = strcspn(*path, "/");
	if (!(*path)[length] || length >= size)
		return false;
	memcpy(name, *path, length);
	name[length] = '\0';
	*path += length;
	while (**path == '/')
		(*path)++;
	return true;
}

enum attribute_found attribute_read(const char *path, char *text, size_t size)
{
	const struct attribute *row = attributes, *end = row + sizeof(attributes) / sizeof(attributes[0]);
	char class[32], name[IBV_SYSFS_NAME_MAX];
	struct verbs_device *device;
	unsigned port, index;
	bool written;

	if (!strcmp(path, "infiniband_verbs/abi_version")) {
		snprintf(text, size, "6");
		return ATTRIBUTE_TEXT;
	}
	if (!cut_component(&path, class, sizeof(class)) ||
	    !cut_component(&path, name, sizeof(name)))
		return ATTRIBUTE_FOREIGN;
	if (strcmp(class, "infiniband") && strcmp(class, "infiniband_verbs"))
		return ATTRIBUTE_FOREIGN;
	device = verbs_device_find(name);
	if (!device)
		return ATTRIBUTE_FOREIGN;
	written = !device->interface[0] && read_of_fabric(class, device, path, text, size);
	if (!written) {
		while (row < end && (strcmp(row->class, class) || !name_matches(row->name, path, &port, &index)))
			row++;
		written = row < end && !attribute_write(row, device, port, index, text, size);
	}
	verbs_device_put(device);
	return written ? ATTRIBUTE_TEXT : ATTRIBUTE_ABSENT;
}
