/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of classes, methods, attributes and statuses, from the table name.def. */
#include <endian.h>
#include <infiniband/umad.h>
#include <infiniband/umad_str.h>

enum { CLASS_LID_ROUTED = 0x01, CLASS_DIRECTED = 0x81 };
enum { STATUS_BUSY = 0x1, STATUS_REDIRECT = 0x2 };

static const struct class_name {
	uint8_t first, last;
	const char *name;
} classes[] = {
#define CLASS(first, last, name) { first, last, name },
#define METHOD(class, number, name)
#define ATTRIBUTE(class, number, name)
#define STATUS(code, name)
#define SA_STATUS(code, name)
#include "umad/name.def"
};

struct name {
	uint16_t class, number;
	const char *name;
};

static const struct name methods[] = {
#define CLASS(first, last, name)
#define METHOD(class, number, name) { class, number, name },
#define ATTRIBUTE(class, number, name)
#define STATUS(code, name)
#define SA_STATUS(code, name)
#include "umad/name.def"
};

static const struct name attributes[] = {
#define CLASS(first, last, name)
#define METHOD(class, number, name)
#define ATTRIBUTE(class, number, name) { class, number, name },
#define STATUS(code, name)
#define SA_STATUS(code, name)
#include "umad/name.def"
};

static const char *const statuses[8] = {
#define CLASS(first, last, name)
#define METHOD(class, number, name)
#define ATTRIBUTE(class, number, name)
#define STATUS(code, name) [code] = name,
#define SA_STATUS(code, name)
#include "umad/name.def"
};

static const char *const sa_statuses[] = {
#define CLASS(first, last, name)
#define METHOD(class, number, name)
#define ATTRIBUTE(class, number, name)
#define STATUS(code, name)
#define SA_STATUS(code, name) [code] = name,
#include "umad/name.def"
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const char *name_find(const struct name *row, size_t count, uint8_t class, uint16_t number)
{
	const char *common = "<unknown>";

	for (; count--; row++) {
		if (row->number != number)
			continue;
		if (row->class && row->class == class)
			return row->name;
		if (!row->class)
			common = row->name;
	}
	return common;
}

const char *umad_class_str(uint8_t mgmt_class)
{
	for (size_t i = 0; i < COUNT(classes); i++)
		if (mgmt_class >= classes[i].first && mgmt_class <= classes[i].last)
			return classes[i].name;
	return "<unknown>";
}

const char *umad_method_str(uint8_t mgmt_class, uint8_t method)
{
	return name_find(methods, COUNT(methods), mgmt_class, method);
}

const char *umad_attribute_str(uint8_t mgmt_class, __be16 attr_id)
{
	if (mgmt_class == CLASS_DIRECTED)
		mgmt_class = CLASS_LID_ROUTED;
	return name_find(attributes, COUNT(attributes), mgmt_class, be16toh(attr_id));
}

const char *umad_common_mad_status_str(__be16 status)
{
	unsigned value = be16toh(status);

	if (value & STATUS_BUSY)
		return "Busy";
	if (value & STATUS_REDIRECT)
		return "Redirection required";
	return statuses[value >> 2 & 7] ? statuses[value >> 2 & 7] : "Success";
}

const char *umad_sa_mad_status_str(__be16 status)
{
	unsigned code = be16toh(status) >> 8;

	return code < COUNT(sa_statuses) ? sa_statuses[code] : "Undefined Error";
}
