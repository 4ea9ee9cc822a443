/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The trace of a loopback link, read back block by block: headers, lengths, checksums, ids,
 * directions; the size limit; names; two processes with one name.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "link/loopback.h"
#include "link/trace.h"
#include "platform/fail.h"

#define FILE_MAX (1u << 20)

static struct counters counters;
static char directory[] = "/tmp/verbatim-trace-XXXXXX";
static char path[128];
static uint8_t contents[FILE_MAX];
static uint8_t first_psn = 1;		/* of what send_run() sends */

static int setup(void **state)
{
	memset(directory + sizeof(directory) - 7, 'X', 6);
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/t.pcapng", directory);
	setenv("VERBATIM_TRACE", path, 1);
	trace_set_ip_id(NULL);
	return 0;
}

static int teardown(void **state)
{
	char command[200];

	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

static struct link *open_traced(void)
{
	struct link *link;

	assert_int_equal(loopback_open(&link, &counters), 0);
	assert_int_equal(trace_wrap(&link, TRACE_LOOPBACK), 0);
	return link;
}

static void send_run(struct link *link, bool ipv6, unsigned segments, size_t bytes)
{
	static uint8_t data[4096];
	struct datagram run = { .data = data, .bytes = bytes * segments,
				.segment_bytes = segments > 1 ? bytes : 0, .traffic_class = 0x11,
				.hop_limit = 33, .flow_label = 0x54321 };
	unsigned sent, i;

	for (i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 3);
	data[11] = first_psn;
	if (!ipv6)
		memset(run.source + 10, 0xff, 2), memset(run.destination + 10, 0xff, 2);
	run.source[15] = 1;
	run.destination[15] = 2;
	link->ops->prepare(link, &run);
	assert_int_equal(link->ops->send(link, &run, 1, &sent), 0);
}

static unsigned receive_all(struct link *link)
{
	struct datagram in[8];
	unsigned received, total = 0;

	do {
		link->ops->receive(link, in, 8, &received);
		total += received;
	} while (received);
	return total;
}

static size_t read_file(const char *name)
{
	FILE *file = fopen(name, "re");
	size_t bytes;

	if (!file)
		return 0;
	bytes = fread(contents, 1, sizeof(contents), file);
	fclose(file);
	return bytes;
}

static uint32_t word(size_t at)
{
	uint32_t value;

	memcpy(&value, contents + at, 4);
	return value;
}

/* Of the options that begin @at. */
static uint32_t flags_option(size_t at)
{
	uint16_t head[2];

	for (;;) {
		memcpy(head, contents + at, sizeof(head));
		if (head[0] == 2 || !head[0])
			return head[0] ? word(at + 4) : 0;
		at += 4 + (head[1] + 3u) / 4 * 4;
	}
}

/* Start of the @number-th packet block's IP header, *bytes its length; 0: there is none. */
static size_t find_packet(size_t file_bytes, unsigned number, size_t *bytes, uint32_t *flags)
{
	size_t at = 0;

	while (at + 12 <= file_bytes) {
		uint32_t block = word(at + 4);

		assert_true(block % 4 == 0 && block >= 12 && at + block <= file_bytes);
		assert_int_equal(word(at + block - 4), block);
		if (word(at) == 6 && number-- == 0) {
			*bytes = word(at + 20);
			assert_int_equal(word(at + 24), *bytes);
			*flags = flags_option(at + 28 + (*bytes + 3) / 4 * 4);
			return at + 28;
		}
		at += block;
	}
	assert_int_equal(at, file_bytes);
	return 0;
}

static uint32_t sum16(uint32_t sum, const uint8_t *data, size_t bytes)
{
	size_t i;

	for (i = 0; i < bytes; i++)
		sum += i & 1 ? data[i] : (uint32_t)data[i] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static void the_file_begins_as_pcapng_of_raw_ip(void **state)
{
	struct link *link = open_traced();
	size_t bytes;

	receive_all(link);
	bytes = read_file(path);	/* written as soon as there is nothing to receive */
	assert_true(bytes > 40);
	assert_int_equal(word(0), 0x0a0d0d0a);
	assert_int_equal(word(8), 0x1a2b3c4d);
	assert_int_equal(word(word(4)), 1);
	assert_int_equal(word(word(4) + 8) & 0xffff, 101);
	link->ops->close(link);
	assert_int_equal(read_file(path), bytes);
}

static void ipv4_packets_have_right_headers(void **state)
{
	struct link *link = open_traced();
	size_t bytes = 0, file, at, i;
	uint32_t flags = 0;

	send_run(link, false, 3, 101);
	assert_int_equal(receive_all(link), 1);
	file = read_file(path);
	for (i = 0; i < 6; i++) {
		at = find_packet(file, (unsigned)i, &bytes, &flags);
		assert_true(at);
		assert_int_equal(bytes, 28 + 101);
		assert_int_equal(flags, i < 3 ? 2 : 1);		/* outbound, then inbound */
		assert_int_equal(contents[at], 0x45);
		assert_int_equal(contents[at + 1], 0x11);
		assert_int_equal(get_be16(contents + at + 2), bytes);
		assert_int_equal(get_be16(contents + at + 4), i % 3);
		assert_int_equal(get_be16(contents + at + 6), 0x4000);
		assert_int_equal(contents[at + 8], 33);
		assert_int_equal(sum16(0, contents + at, 20), 0xffff);
		assert_int_equal(get_be16(contents + at + 22), 4791);
		assert_int_equal(sum16(sum16(17 + 109, contents + at + 12, 8), contents + at + 20,
				       109), 0xffff);
		assert_int_equal(contents[at + 28], (uint8_t)(i % 3 * 101 * 3));
	}
	assert_int_equal(find_packet(file, 6, &bytes, &flags), 0);
	link->ops->close(link);
}

static void ipv6_packets_have_right_headers(void **state)
{
	struct link *link = open_traced();
	uint32_t flags = 0;
	size_t bytes = 0, at;

	send_run(link, true, 1, 100);
	receive_all(link);
	at = find_packet(read_file(path), 0, &bytes, &flags);
	assert_true(at);
	assert_int_equal(bytes, 48 + 100);
	assert_int_equal(get_be32(contents + at), 0x61154321);
	assert_int_equal(get_be16(contents + at + 4), 108);
	assert_int_equal(contents[at + 6], 17);
	assert_int_equal(sum16(sum16(17 + 108, contents + at + 8, 32), contents + at + 40, 108),
			 0xffff);
	link->ops->close(link);
}

static bool id_is_7000(const struct datagram *datagram, const uint8_t *packet, size_t bytes,
		       unsigned segment, uint16_t *ip_id, bool *dont_fragment)
{
	*ip_id = (uint16_t)(7000 + segment);
	*dont_fragment = false;
	return segment != 1;
}

static void identifications_of_received_packets_can_be_told(void **state)
{
	struct link *link = open_traced();
	static const uint16_t id[6] = { 0, 1, 2, 7000, 1, 7002 };
	size_t bytes, file, at, i;
	uint32_t flags;

	trace_set_ip_id(id_is_7000);
	send_run(link, false, 3, 100);
	receive_all(link);
	file = read_file(path);
	for (i = 0; i < 6; i++) {
		at = find_packet(file, (unsigned)i, &bytes, &flags);
		assert_int_equal(get_be16(contents + at + 4), id[i]);
		assert_int_equal(get_be16(contents + at + 6), id[i] >= 7000 ? 0 : 0x4000);
	}
	link->ops->close(link);
}

/* How often @text stands in the first @bytes of the file. */
static unsigned count_text(size_t bytes, const char *text)
{
	const uint8_t *at = contents, *end = contents + bytes;
	unsigned count = 0;

	while ((at = memmem(at, (size_t)(end - at), text, strlen(text)))) {
		at += strlen(text);
		count++;
	}
	return count;
}

/* What send_run() sends first is a SEND of RC, always the same. */
static void comments_say_the_way_and_what_is_repeated(void **state)
{
	struct link *link = open_traced();
	size_t file;

	first_psn = 2;
	for (unsigned i = 0; i < 3; i++)
		send_run(link, false, 1, 100);
	assert_int_equal(receive_all(link), 3);
	file = read_file(path);
	assert_int_equal(count_text(file, "path loopback"), 6);
	assert_int_equal(count_text(file, "retransmission"), 2);
	assert_int_equal(count_text(file, "path loopback; retransmission 2"), 1);
	link->ops->close(link);
}

static bool is_200_bytes(const uint8_t *data, size_t bytes)
{
	return bytes == 200;
}

static void what_processes_tell_each_other_is_left_out(void **state)
{
	struct link *link = open_traced();
	uint32_t flags;
	size_t bytes, file;

	trace_set_internal(is_200_bytes);
	send_run(link, false, 1, 200);
	send_run(link, false, 1, 100);
	assert_int_equal(receive_all(link), 2);
	trace_set_internal(NULL);
	file = read_file(path);
	assert_true(find_packet(file, 2, &bytes, &flags));
	assert_int_equal(bytes, 128);
	assert_int_equal(flags, 1);
	assert_int_equal(find_packet(file, 3, &bytes, &flags), 0);
	link->ops->close(link);
}

static void the_limit_ends_the_trace_and_not_the_traffic(void **state)
{
	char setting[160];
	struct link *link;
	size_t bytes, file;
	uint32_t flags;
	unsigned i;

	snprintf(setting, sizeof(setting), "%s,limit=16k", path);
	setenv("VERBATIM_TRACE", setting, 1);
	link = open_traced();
	for (i = 0; i < 100; i++) {
		send_run(link, false, 1, 1000);
		assert_int_equal(receive_all(link), 1);
	}
	link->ops->close(link);
	file = read_file(path);
	assert_in_range(file, 12 * 1024, 16 * 1024);
	assert_true(find_packet(file, 0, &bytes, &flags));
	assert_int_equal(find_packet(file, 1000, &bytes, &flags), 0);	/* whole blocks */
}

static void links_of_a_process_share_the_file(void **state)
{
	struct link *a = open_traced(), *b = open_traced();
	size_t bytes, file;
	uint32_t flags;

	send_run(a, false, 1, 100);
	send_run(b, false, 1, 200);
	a->ops->close(a);
	receive_all(b);
	b->ops->close(b);
	file = read_file(path);
	find_packet(file, 0, &bytes, &flags);
	assert_int_equal(bytes, 128);
	find_packet(file, 1, &bytes, &flags);
	assert_int_equal(bytes, 228);
	assert_true(find_packet(file, 2, &bytes, &flags));
	assert_int_equal(find_packet(file, 3, &bytes, &flags), 0);
}

static void a_child_writes_a_file_of_its_own(void **state)
{
	struct link *link = open_traced(), *own;
	char name[160];
	int status;
	pid_t child;
	size_t bytes, file;
	uint32_t flags;

	child = fork();
	if (!child) {
		send_run(link, false, 1, 300);		/* the parent's link: not written */
		receive_all(link);
		own = open_traced();
		send_run(own, false, 1, 400);
		receive_all(own);
		_exit(0);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	send_run(link, false, 1, 100);
	link->ops->close(link);
	file = read_file(path);
	find_packet(file, 0, &bytes, &flags);
	assert_int_equal(bytes, 128);
	snprintf(name, sizeof(name), "%s.%d", path, (int)child);
	file = read_file(name);
	find_packet(file, 0, &bytes, &flags);
	assert_int_equal(bytes, 428);
}

static void the_process_id_goes_into_the_name(void **state)
{
	char setting[160], name[160];
	struct stat stat_;
	struct link *link;

	snprintf(setting, sizeof(setting), "%s/a-%%p-b", directory);
	snprintf(name, sizeof(name), "%s/a-%d-b", directory, (int)getpid());
	setenv("VERBATIM_TRACE", setting, 1);
	link = open_traced();
	assert_int_equal(stat(name, &stat_), 0);
	link->ops->close(link);
}

static void what_cannot_be_written_is_said(void **state)
{
	static const char *const wrong[] = { "", ",limit=5", "/tmp/x,limit=", "/tmp/x,limit=1T",
					     "/tmp/x,limit=-5", "/tmp/x,limit=100" };
	struct link *inner, *link;
	unsigned i;

	assert_int_equal(loopback_open(&inner, &counters), 0);
	link = inner;
	for (i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		setenv("VERBATIM_TRACE", wrong[i], 1);
		assert_int_equal(trace_wrap(&link, TRACE_LOOPBACK), EINVAL);
	}
	setenv("VERBATIM_TRACE", "/nonexistent/directory/file", 1);
	assert_int_equal(trace_wrap(&link, TRACE_LOOPBACK), ENOENT);
	setenv("VERBATIM_TRACE", path, 1);
	for (i = 1; i <= 2; i++) {
		fail_set(FAIL_ALLOCATE, i, ENOMEM);
		assert_int_equal(trace_wrap(&link, TRACE_LOOPBACK), ENOMEM);
	}
	fail_clear();
	unsetenv("VERBATIM_TRACE");
	assert_int_equal(trace_wrap(&link, TRACE_LOOPBACK), 0);
	assert_ptr_equal(link, inner);
	link->ops->close(link);
}

static void a_trace_is_for_its_user_alone(void **state)
{
	struct link *link = open_traced();
	struct stat status;

	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	link->ops->close(link);
}

/* What somebody has put where our trace is to be. */
static void links_and_files_of_others_are_not_written(void **state)
{
	struct link *inner, *link;
	char target[160];
	struct stat status;
	FILE *file;

	snprintf(target, sizeof(target), "%s/precious", directory);
	file = fopen(target, "we");
	assert_non_null(file);
	fputs("text", file);
	fclose(file);
	assert_int_equal(symlink(target, path), 0);
	assert_int_equal(loopback_open(&inner, &counters), 0);
	link = inner;
	assert_int_equal(trace_wrap(&link, TRACE_LOOPBACK), ELOOP);
	if (!geteuid()) {
		setenv("VERBATIM_TRACE", target, 1);
		assert_int_equal(chown(target, 65534, 65534), 0);
		assert_int_equal(trace_wrap(&link, TRACE_LOOPBACK), EPERM);
	}
	assert_int_equal(stat(target, &status), 0);
	assert_int_equal(status.st_size, 4);
	assert_ptr_equal(link, inner);
	link->ops->close(link);
	setenv("VERBATIM_TRACE", "/dev/null", 1);
	link = open_traced();
	link->ops->close(link);
}

static void tshark_reads_it(void **state)
{
	char command[300];
	struct link *link;

	if (system("tshark --version >/dev/null 2>&1")) {
		print_message("SKIPPED: tshark is not installed\n");
		skip();
	}
	link = open_traced();
	send_run(link, false, 3, 100);
	send_run(link, true, 1, 100);
	receive_all(link);
	link->ops->close(link);
	snprintf(command, sizeof(command),
		 "test $(HOME=%s tshark -r %s -Y 'udp.dstport == 4791 && infiniband' 2>/dev/null | "
		 "wc -l) = 8", directory, path);
	assert_int_equal(system(command), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_file_begins_as_pcapng_of_raw_ip),
		TEST(ipv4_packets_have_right_headers),
		TEST(ipv6_packets_have_right_headers),
		TEST(identifications_of_received_packets_can_be_told),
		TEST(comments_say_the_way_and_what_is_repeated),
		TEST(what_processes_tell_each_other_is_left_out),
		TEST(the_limit_ends_the_trace_and_not_the_traffic),
		TEST(links_of_a_process_share_the_file),
		TEST(a_child_writes_a_file_of_its_own),
		TEST(the_process_id_goes_into_the_name),
		TEST(what_cannot_be_written_is_said),
		TEST(a_trace_is_for_its_user_alone),
		TEST(links_and_files_of_others_are_not_written),
		TEST(tshark_reads_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
