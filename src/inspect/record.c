/* SPDX-License-Identifier: BSD-2-Clause */
/* Writes records (record.h). */
#include "inspect/record.h"

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>

#include "base/ip_addr.h"
#include "inspect/inspect.h"

static void record_add(struct record *record, bool fits)
{
	record->full |= !fits;
}

void record_begin(struct record *record, struct inspect_answer *answer, const char *kind)
{
	*record = (struct record){ .answer = answer, .begin = answer->bytes };
	record_add(record, inspect_print(answer, "{\"record\":\"%s\"", kind));
}

/* Names of programs and devices are chosen by others: quotes and control characters become escapes. */
void record_text(struct record *record, const char *name, const char *value)
{
	record_add(record, inspect_print(record->answer, ",\"%s\":\"", name));
	for (; *value; value++) {
		unsigned char letter = (unsigned char)*value;

		if (letter == '"' || letter == '\\' || letter < 0x20 || letter >= 0x7f)
			record_add(record, inspect_print(record->answer, "\\u%04x", letter));
		else
			record_add(record, inspect_print(record->answer, "%c", letter));
	}
	record_add(record, inspect_print(record->answer, "\""));
}

void record_number(struct record *record, const char *name, uint64_t value)
{
	record_add(record, inspect_print(record->answer, ",\"%s\":%" PRIu64, name, value));
}

void record_flag(struct record *record, const char *name, bool value)
{
	record_add(record, inspect_print(record->answer, ",\"%s\":%s", name, value ? "true" : "false"));
}

static void record_hex(struct record *record, const char *name, unsigned digits, uint64_t value)
{
	record_add(record, inspect_print(record->answer, ",\"%s\":\"0x%0*" PRIx64 "\"", name, (int)digits, value));
}

void record_qpn(struct record *record, const char *name, uint32_t value)
{
	record_hex(record, name, 6, value);
}

void record_key(struct record *record, const char *name, uint32_t value)
{
	record_hex(record, name, 8, value);
}

void record_pointer(struct record *record, const char *name, uint64_t value)
{
	record_hex(record, name, 1, value);
}

void record_rights(struct record *record, const char *name, unsigned access)
{
	char text[6];

	snprintf(text, sizeof(text), "%s%s%s%s%s", access & IBV_ACCESS_LOCAL_WRITE ? "l" : "",
		 access & IBV_ACCESS_REMOTE_READ ? "r" : "",
		 access & IBV_ACCESS_REMOTE_WRITE ? "w" : "",
		 access & IBV_ACCESS_REMOTE_ATOMIC ? "a" : "",
		 access & IBV_ACCESS_MW_BIND ? "b" : "");
	record_text(record, name, text);
}

void record_address(struct record *record, const char *name, const uint8_t address[16])
{
	bool ipv4 = ip_addr_is_ipv4(address);
	char text[INET6_ADDRSTRLEN] = "";

	if (ip_addr_is_lid(address))
		snprintf(text, sizeof(text), "LID %u", address[14] << 8 | address[15]);
	else
		inet_ntop(ipv4 ? AF_INET : AF_INET6, address + (ipv4 ? 12 : 0), text, sizeof(text));
	record_text(record, name, text);
}

void record_socket(struct record *record, const char *name, const struct sockaddr_storage *storage)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)storage;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)storage;
	char address[INET6_ADDRSTRLEN] = "", text[INET6_ADDRSTRLEN + 16] = "";

	if (storage->ss_family == AF_INET) {
		inet_ntop(AF_INET, &in->sin_addr, address, sizeof(address));
		snprintf(text, sizeof(text), "%s:%u", in->sin_addr.s_addr ? address : "*",
			 ntohs(in->sin_port));
	} else if (storage->ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &in6->sin6_addr, address, sizeof(address));
		snprintf(text, sizeof(text), "[%s]:%u", address, ntohs(in6->sin6_port));
	} else if (storage->ss_family) {
		snprintf(text, sizeof(text), "AF_IB");
	}
	record_text(record, name, text);
}

bool record_end(struct record *record)
{
	record_add(record, inspect_print(record->answer, "}\n"));
	if (record->full)
		record->answer->bytes = record->begin;
	return !record->full;
}
