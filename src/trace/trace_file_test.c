/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file of VERBATIM_TRACE, read back block by block: headers, lengths, checksums, ids, directions, comments;
 * the size limit; what comes too fast; names; two processes with one name; what cannot be written.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "base/counters.h"
#include "platform/fail.h"
#include "trace/file.h"
#include "trace/trace.h"
#include "wire/opcode.h"
#include "wire/packet.h"

#define FILLER	0x80566264u	/* the type of the last block of a window */
#define FILE_MAX (24u << 20)

static char directory[] = "/tmp/verbatim-trace-XXXXXX";
static char path[128];
static uint8_t contents[FILE_MAX];

static int setup(void **state)
{
	memset(directory + sizeof(directory) - 7, 'X', 6);
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof(path), "%s/t.pcapng", directory);
	setenv("VERBATIM_TRACE", path, 1);
	return 0;
}

static int teardown(void **state)
{
	char command[200];

	snprintf(command, sizeof(command), "rm -r %s", directory);
	return system(command);
}

static void begin(void)
{
	assert_int_equal(trace_file_open(), 0);
	trace_connect();
	assert_true(trace_wants(TRACE_FILE));
}

static int saved_stderr = -1;

static void listen_to_stderr(void)
{
	char name[160];
	int fd;

	snprintf(name, sizeof(name), "%s/said", directory);
	fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	saved_stderr = dup(STDERR_FILENO);
	assert_true(fd >= 0 && saved_stderr >= 0 && dup2(fd, STDERR_FILENO) >= 0);
	close(fd);
}

/* How many lines with @text were written meanwhile. */
static unsigned lines_said(const char *text)
{
	char name[160], line[1100];
	unsigned count = 0;
	FILE *file;

	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	snprintf(name, sizeof(name), "%s/said", directory);
	file = fopen(name, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		count += strstr(line, text) != NULL;
	fclose(file);
	return count;
}

/* A SEND Only of RC, @bytes with the ICRC, as sent or as received. */
static void record_packet(bool ipv6, bool outbound, uint16_t ip_id, size_t bytes)
{
	static uint8_t data[4096];
	struct trace_record record = { .kind = TRACE_IS_PACKET, .flow_label = 0x54321, .traffic_class = 0x11,
				       .hop_limit = 33, .path = TRACE_UDP, .ip_id = ip_id, .qpn = 0x123,
				       .flags = TRACE_HAS_ICRC | TRACE_DONT_FRAGMENT |
						(outbound ? TRACE_OUTBOUND : 0) };

	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 3);
	data[0] = 4;
	data[1] = 0;
	if (!ipv6)
		memset(record.source + 10, 0xff, 2), memset(record.destination + 10, 0xff, 2);
	record.source[15] = 1;
	record.destination[15] = 2;
	trace_packet(&record, data, bytes, NULL);
}

static uint32_t word(size_t at)
{
	uint32_t value;

	memcpy(&value, contents + at, 4);
	return value;
}

static size_t filler;		/* at the end of the file that was read last */

/* Without what stands behind its last block while it is written. */
static size_t read_file(const char *name)
{
	FILE *file = fopen(name, "re");
	size_t bytes;

	filler = 0;
	if (!file)
		return 0;
	bytes = fread(contents, 1, sizeof(contents), file);
	fclose(file);
	if (bytes < 12 || word(bytes - 4) > bytes || word(bytes - word(bytes - 4)) != 0x80566264u)
		return bytes;
	filler = word(bytes - 4);
	assert_int_equal(word(bytes - filler + 4), filler);
	return bytes - filler;
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

/*
 * The packets of a file, which is whole blocks. @killed: but for the filler behind them, in which the file may
 * end, or its second length, which may still be that of a longer one.
 */
static unsigned count_packets(size_t file_bytes, bool killed)
{
	unsigned count = 0;
	size_t at = 0;

	while (at < file_bytes) {
		uint32_t block = word(at + 4), again;

		if (killed && word(at) == FILLER && at + block > file_bytes)
			break;
		assert_true(block % 4 == 0 && block >= 12 && at + block <= file_bytes);
		again = word(at + block - 4);
		if (!killed || word(at) != FILLER || at + block < file_bytes || again < block)
			assert_int_equal(again, block);
		count += word(at) == 6;
		at += block;
	}
	return count;
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
	size_t bytes;

	begin();
	bytes = read_file(path);
	assert_true(bytes > 40);
	assert_int_equal(word(0), 0x0a0d0d0a);
	assert_int_equal(word(8), 0x1a2b3c4d);
	assert_int_equal(word(word(4)), 1);
	assert_int_equal(word(word(4) + 8) & 0xffff, 101);
}

static void ipv4_packets_have_right_headers(void **state)
{
	size_t bytes = 0, file, at;
	uint32_t flags = 0;

	begin();
	for (uint16_t i = 0; i < 4; i++)
		record_packet(false, i < 2, i, 101);
	trace_file_flush();
	file = read_file(path);
	for (unsigned i = 0; i < 4; i++) {
		at = find_packet(file, i, &bytes, &flags);
		assert_true(at);
		assert_int_equal(bytes, 28 + 101);
		assert_int_equal(flags, i < 2 ? 2 : 1);		/* outbound, then inbound */
		assert_int_equal(contents[at], 0x45);
		assert_int_equal(contents[at + 1], 0x11);
		assert_int_equal(get_be16(contents + at + 2), bytes);
		assert_int_equal(get_be16(contents + at + 4), i);
		assert_int_equal(get_be16(contents + at + 6), 0x4000);
		assert_int_equal(contents[at + 8], 33);
		assert_int_equal(sum16(0, contents + at, 20), 0xffff);
		assert_int_equal(get_be16(contents + at + 22), 4791);
		assert_int_equal(sum16(sum16(17 + 109, contents + at + 12, 8), contents + at + 20,
				       109), 0xffff);
		assert_int_equal(contents[at + 28 + 50], 150);	/* payload, too */
	}
	assert_int_equal(find_packet(file, 4, &bytes, &flags), 0);
}

static void ipv6_packets_have_right_headers(void **state)
{
	uint32_t flags = 0;
	size_t bytes = 0, at;

	begin();
	record_packet(true, true, 0, 100);
	trace_file_flush();
	at = find_packet(read_file(path), 0, &bytes, &flags);
	assert_true(at);
	assert_int_equal(bytes, 48 + 100);
	assert_int_equal(get_be32(contents + at), 0x61154321);
	assert_int_equal(get_be16(contents + at + 4), 108);
	assert_int_equal(contents[at + 6], 17);
	assert_int_equal(sum16(sum16(17 + 108, contents + at + 8, 32), contents + at + 40, 108),
			 0xffff);
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

static void comments_are_those_of_verbatim_trace(void **state)
{
	struct trace_record record = { .kind = TRACE_IS_PACKET, .path = TRACE_LOOPBACK, .qpn = 0x42, .state = 4,
				       .flags = TRACE_OUTBOUND | TRACE_HAS_WR_ID, .wr_id = 77,
				       .retransmission = 2, .drop = COUNTER_RX_QKEY + 1 };
	uint8_t packet[BTH_BYTES + 4 + ICRC_BYTES] = { 4 };
	size_t file;

	begin();
	trace_packet(&record, packet, sizeof(packet), NULL);
	trace_file_flush();
	file = read_file(path);
	assert_int_equal(count_text(file, "path loopback; qp 0x000042; state RTS; wr_id 77; retransmission 2; "
					  "dropped "), 1);
}

static void record_operation(void)
{
	struct trace_record record = { .path = TRACE_DIRECT,
				       .manner = TRACE_STORED,
				       .qpn = 0x123,
				       .wr_id = 7,
				       .flags = TRACE_OUTBOUND | TRACE_HAS_WR_ID,
				       .source = { [10] = 0xff, 0xff, 127, 0, 0, 1 },
				       .destination = { [10] = 0xff, 0xff, 127, 0, 0, 2 } };
	const struct trace_operation write = { .verb = VERB_WRITE,
					       .service = SERVICE_RC,
					       .mtu = 1024,
					       .bytes = 65536,
					       .dest_qpn = 0x456,
					       .rkey = 0x789,
					       .address = 0xabcd };

	trace_operation(&record, &write);
}

static void what_goes_through_memory_is_recorded_as_what_it_is(void **state)
{
	size_t bytes = 0, file, at;
	uint32_t flags = 0;

	begin();
	assert_false(trace_wants(TRACE_PAYLOAD));
	assert_false(trace_file_as_packets());
	record_operation();
	trace_file_flush();
	file = read_file(path);
	assert_int_equal(count_text(file, " events"), 1);
	at = find_packet(file, 0, &bytes, &flags);
	assert_int_equal(word(at - 20), 1);
	assert_int_equal(flags, 2);
	assert_int_equal(count_text(file, "{\"v\":2,\"thread\":"), 1);
	assert_int_equal(
		count_text(file,
			   ",\"event\":\"operation\",\"qp\":\"0x000123\",\"opcode\":\"RDMA_WRITE\","
			   "\"bytes\":65536,\"source\":\"127.0.0.1\",\"destination\":\"127.0.0.2\","
			   "\"dest_qp\":\"0x000456\",\"address\":\"0xabcd\",\"rkey\":\"0x789\"}"),
		1);
	assert_int_equal(count_text(file, "path direct; qp 0x000123; wr_id 7; by store"), 1);
	assert_int_equal(find_packet(file, 1, &bytes, &flags), 0);
}

/* The file is what it was before there were such records. */
static void as_packets_there_are_packets_alone_and_that_is_said(void **state)
{
	static const char *const settings[] = { "%s,as-packets", "%s,as-packets,limit=1M",
						"%s,limit=1M,as-packets" };
	char setting[160];
	size_t bytes;
	uint32_t flags;

	for (unsigned i = 0; i < 3; i++) {
		unlink(path);
		snprintf(setting, sizeof(setting), settings[i], path);
		setenv("VERBATIM_TRACE", setting, 1);
		listen_to_stderr();
		begin();
		/* Said once: the same line again is counted. */
		assert_int_equal(lines_said("inside this host go as packets, and are slower"), !i);
		assert_true(trace_wants(TRACE_PAYLOAD));
		assert_true(trace_file_as_packets());
		record_operation();
		record_packet(false, true, 0, 100);
		trace_file_flush();
		assert_int_equal(count_text(read_file(path), " events"), 0);
		assert_int_equal(count_text(read_file(path), "operation"), 0);
		assert_true(find_packet(read_file(path), 0, &bytes, &flags));
		assert_int_equal(bytes, 28 + 100);
		assert_int_equal(find_packet(read_file(path), 1, &bytes, &flags), 0);
	}
}

static void the_limit_ends_the_trace_and_not_the_program(void **state)
{
	char setting[160];
	size_t bytes, file;
	uint32_t flags;

	snprintf(setting, sizeof(setting), "%s,limit=16k", path);
	setenv("VERBATIM_TRACE", setting, 1);
	begin();
	listen_to_stderr();
	for (unsigned i = 0; i < 100; i++) {
		record_packet(false, true, 0, 1000);
		trace_file_flush();
	}
	assert_int_equal(lines_said("limit=N or ulimit -f): the trace ends here, the program goes on"), 1);
	assert_false(trace_file_is_open());
	file = read_file(path);
	assert_in_range(file, 12 * 1024, 16 * 1024);
	assert_true(find_packet(file, 0, &bytes, &flags));
	assert_int_equal(find_packet(file, 1000, &bytes, &flags), 0);	/* whole blocks */
	/* It is not begun anew when the next device opens. */
	assert_int_equal(trace_file_open(), 0);
	assert_int_equal(read_file(path), file);
}

static void the_kernels_limit_of_files_ends_the_trace_and_not_the_program(void **state)
{
	static const unsigned limits[] = { 0, 50, 20000 };
	struct rlimit saved, limit;
	size_t bytes;
	uint32_t flags;

	assert_int_equal(getrlimit(RLIMIT_FSIZE, &saved), 0);
	limit = saved;
	for (unsigned i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		limit.rlim_cur = limits[i];
		setenv("VERBATIM_TRACE", "/dev/null", 1);
		begin();
		setenv("VERBATIM_TRACE", path, 1);
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
		begin();
		for (unsigned n = 0; n < 100; n++) {
			record_packet(false, true, 0, 1000);
			trace_file_flush();
		}
		assert_int_equal(setrlimit(RLIMIT_FSIZE, &saved), 0);
		assert_false(trace_file_is_open());
		assert_true(read_file(path) <= limits[i]);
	}
	assert_true(find_packet(read_file(path), 10, &bytes, &flags));
	assert_int_equal(find_packet(read_file(path), 1000, &bytes, &flags), 0);	/* whole blocks */
}

static void a_full_disk_ends_the_trace_and_that_is_said(void **state)
{
	setenv("VERBATIM_TRACE", "/dev/full", 1);
	listen_to_stderr();
	assert_int_equal(trace_file_open(), 0);
	trace_connect();
	for (unsigned i = 0; i < 10; i++) {
		record_packet(false, true, 0, 1000);
		trace_file_flush();
	}
	assert_int_equal(lines_said("VERBATIM_TRACE: No space left on device: the trace ends here"), 1);
	assert_false(trace_file_is_open());
}

static void what_comes_faster_than_it_is_written_is_missing_and_that_is_said(void **state)
{
	size_t file;
	unsigned count;
	const char *at;

	begin();
	listen_to_stderr();
	for (unsigned i = 0; i < 12000; i++)	/* no thread is where it may write */
		record_packet(false, true, 0, 1000);
	trace_file_flush();
	assert_int_equal(lines_said("some are missing in the trace"), 1);
	file = read_file(path);
	assert_in_range(file, 8u * 1024 * 1024 - 16384, 8u * 1024 * 1024);
	assert_int_equal(count_text(file, "\"event\":\"lost\",\"records\":"), 1);
	count = count_packets(file, false);
	at = memmem(contents, file, "\"records\":", 10);
	assert_int_equal(strtoul(at + 10, NULL, 10), 12000 - (count - 1));	/* and its event */
	assert_in_range(count, 6000, 8400);
	record_packet(false, true, 0, 1000);	/* it goes on */
	assert_true(read_file(path) > file);	/* at once */
	listen_to_stderr();
	trace_file_finish();
	assert_int_equal(lines_said("packets are missing in the trace"), 1);
	assert_true(read_file(path) > file);
	assert_int_equal(filler, 0);
}

/* Nobody has flushed it, and nothing of the process runs any more. */
static void a_process_that_is_killed_loses_nothing(void **state)
{
	static const int signals[] = { SIGKILL, SIGSEGV, SIGTERM, 0 };
	unsigned number;
	size_t file;
	pid_t child;

	for (unsigned i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		unlink(path);
		child = fork();
		if (!child) {
			begin();
			for (number = 0; number < 5000; number++)
				record_packet(false, true, 0, 1000);
			signal(SIGSEGV, SIG_DFL);
			if (signals[i])
				raise(signals[i]);
			_exit(0);
		}
		assert_int_equal(waitpid(child, NULL, 0), child);
		file = read_file(path);
		assert_true(filler);
		assert_int_equal(count_packets(file, false), 5000);
	}
}

/* At whatever moment: all blocks but the filler are whole, and each record that was put before is there. */
static void a_process_may_be_killed_at_any_time(void **state)
{
	volatile unsigned *put = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned before;
	size_t file;
	pid_t child;

	for (unsigned i = 0; i < 20; i++) {
		unlink(path);
		*put = 0;
		child = fork();
		if (!child) {
			begin();
			for (unsigned number = 1;; number++) {
				record_packet(false, true, 0, 1000);
				trace_file_flush();
				*put = number;
				if (number == 15000)
					pause();
			}
		}
		while (!*put)
			usleep(100);
		usleep(i * 500);
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, NULL, 0), child);
		before = *put;
		file = read_file(path);
		assert_true(count_packets(file, true) >= before);
	}
	munmap((void *)put, 4096);
}

/* The end of the trace is the last block, whoever ends it. */
static void a_file_that_cannot_be_mapped_is_written(void **state)
{
	size_t file;

	setenv("VERBATIM_TRACE", "/dev/null", 1);
	begin();
	for (unsigned i = 0; i < 3; i++) {
		record_packet(false, true, 0, 1000);
		trace_file_flush();
	}
	assert_true(trace_file_is_open());
	setenv("VERBATIM_TRACE", path, 1);
	begin();
	for (unsigned i = 0; i < 12000; i++) {	/* through three windows */
		record_packet(false, true, 0, 1000);
		trace_file_flush();
	}
	file = read_file(path);
	assert_in_range(filler, 4u << 20, 8u << 20);
	assert_int_equal(count_packets(file, false), 12000);
	trace_file_finish();
	assert_int_equal(read_file(path), file);
	assert_int_equal(filler, 0);
}

static void *record_many(void *unused)
{
	static uint8_t packet[1000] = { 4 };

	for (unsigned i = 0; i < 1500; i++) {
		struct trace_record record = { .kind = TRACE_IS_PACKET, .qpn = 0x777 };

		trace_packet(&record, packet, sizeof(packet), NULL);
		if (i % 8 == 0)
			trace_throttle();
		if (i % 64 == 0)
			trace_file_flush();
	}
	return NULL;
}

/* While the process forks. */
static void threads_lose_nothing_that_has_room(void **state)
{
	pthread_t thread[4];
	size_t file;

	begin();
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, record_many, NULL), 0);
	for (unsigned i = 0; i < 5; i++) {
		pid_t child = fork();
		int status;

		if (!child) {
			trace_file_finish();
			_exit(trace_file_is_open());
		}
		assert_int_equal(waitpid(child, &status, 0), child);
		assert_int_equal(status, 0);
	}
	for (unsigned i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
	trace_file_finish();
	file = read_file(path);
	assert_int_equal(count_text(file, "qp 0x000777"), 4 * 1500);
}

static void a_device_that_opens_again_goes_on_with_the_file(void **state)
{
	size_t bytes, file;
	uint32_t flags;

	begin();
	record_packet(false, true, 0, 100);
	begin();
	record_packet(false, true, 0, 200);
	trace_file_flush();
	file = read_file(path);
	find_packet(file, 0, &bytes, &flags);
	assert_int_equal(bytes, 128);
	find_packet(file, 1, &bytes, &flags);
	assert_int_equal(bytes, 228);
	assert_int_equal(find_packet(file, 2, &bytes, &flags), 0);
}

static void a_child_writes_a_file_of_its_own(void **state)
{
	char name[160];
	int status;
	pid_t child;
	size_t bytes, file;
	uint32_t flags;

	begin();
	child = fork();
	if (!child) {
		record_packet(false, true, 0, 300);	/* nobody has opened a device yet */
		begin();
		record_packet(false, true, 0, 400);
		trace_file_flush();
		_exit(0);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	record_packet(false, true, 0, 100);
	trace_file_flush();
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
	struct stat status;

	snprintf(setting, sizeof(setting), "%s/a-%%p-b", directory);
	snprintf(name, sizeof(name), "%s/a-%d-b", directory, (int)getpid());
	setenv("VERBATIM_TRACE", setting, 1);
	begin();
	assert_int_equal(stat(name, &status), 0);
}

static void what_cannot_be_written_is_said(void **state)
{
	static const char *const wrong[] = { "",
					     ",limit=5",
					     "/tmp/x,limit=",
					     "/tmp/x,limit=1T",
					     "/tmp/x,limit=-5",
					     "/tmp/x,limit=100",
					     "/tmp/x,limti=64M",
					     ",as-packets",
					     "/tmp/x,as-packets,limit=",
					     "/tmp/x,limit=5,as-packets" };

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		setenv("VERBATIM_TRACE", wrong[i], 1);
		assert_int_equal(trace_file_check(), EINVAL);
		assert_int_equal(trace_file_open(), EINVAL);
	}
	setenv("VERBATIM_TRACE", "/nonexistent/directory/file", 1);
	assert_int_equal(trace_file_open(), ENOENT);
	unsetenv("VERBATIM_TRACE");
	assert_int_equal(trace_file_open(), 0);
	assert_int_equal(trace_file_check(), 0);
}

/* Of a file that is not mapped. */
static void without_memory_there_is_no_trace(void **state)
{
	setenv("VERBATIM_TRACE", "/dev/null", 1);
	fail_set(FAIL_ALLOCATE, 1, ENOMEM);
	assert_int_equal(trace_file_open(), ENOMEM);
	fail_clear();
	assert_false(trace_file_is_open());
	setenv("VERBATIM_TRACE", path, 1);
	begin();
}

static void a_trace_is_for_its_user_alone(void **state)
{
	struct stat status;

	begin();
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
}

/* What somebody has put where our trace is to be. */
static void links_and_files_of_others_are_not_written(void **state)
{
	char target[160];
	struct stat status;
	FILE *file;

	snprintf(target, sizeof(target), "%s/precious", directory);
	file = fopen(target, "we");
	assert_non_null(file);
	fputs("text", file);
	fclose(file);
	assert_int_equal(symlink(target, path), 0);
	assert_int_equal(trace_file_open(), ELOOP);
	if (!geteuid()) {
		setenv("VERBATIM_TRACE", target, 1);
		assert_int_equal(chown(target, 65534, 65534), 0);
		assert_int_equal(trace_file_open(), EPERM);
	}
	assert_int_equal(stat(target, &status), 0);
	assert_int_equal(status.st_size, 4);
	setenv("VERBATIM_TRACE", "/dev/null", 1);
	begin();
}

/* Nobody may read it, or cease to: the program would hang, or be killed. */
static void pipes_are_not_written(void **state)
{
	int reader;

	assert_int_equal(mkfifo(path, 0600), 0);
	listen_to_stderr();
	assert_int_equal(trace_file_open(), ENXIO);
	reader = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(reader >= 0);
	assert_int_equal(trace_file_open(), ENXIO);
	assert_int_equal(lines_said("it is no file; verbatim trace writes to pipes"), 1);
	close(reader);
}

static void the_standard_output_is_not_the_trace(void **state)
{
	int saved = dup(STDOUT_FILENO);
	ssize_t put;

	fflush(stdout);
	close(STDOUT_FILENO);
	begin();
	put = write(STDOUT_FILENO, "text", 4);
	dup2(saved, STDOUT_FILENO);
	close(saved);
	assert_int_equal(put, -1);
}

static void tshark_reads_it(void **state)
{
	char command[300];

	if (system("tshark --version >/dev/null 2>&1")) {
		print_message("SKIPPED: tshark is not installed\n");
		skip();
	}
	begin();
	for (uint16_t i = 0; i < 3; i++)
		record_packet(false, true, i, 100);
	record_packet(true, true, 0, 100);
	trace_file_flush();
	snprintf(command, sizeof(command),
		 "test $(HOME=%s tshark -r %s -Y 'udp.dstport == 4791 && infiniband' 2>/dev/null | "
		 "wc -l) = 4", directory, path);
	assert_int_equal(system(command), 0);
}

/* As the program that a process becomes: its packet stands behind that of the first one. */
static int go_on(void)
{
	begin();
	record_packet(false, true, 0, 200);
	trace_file_flush();
	return 0;
}

static void a_program_goes_on_with_the_file_after_exec(void **state)
{
	size_t bytes, file;
	uint32_t flags;
	int status;
	pid_t child = fork();

	if (!child) {
		begin();
		record_packet(false, true, 0, 100);
		trace_file_flush();
		execl("/proc/self/exe", "trace_file_test", "go on", NULL);
		_exit(1);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	file = read_file(path);
	find_packet(file, 0, &bytes, &flags);
	assert_int_equal(bytes, 128);
	find_packet(file, 1, &bytes, &flags);
	assert_int_equal(bytes, 228);
	assert_int_equal(find_packet(file, 2, &bytes, &flags), 0);
	/* What the first program had before it for more is gone. */
	for (size_t at = 0; at < file; at += word(at + 4))
		assert_true(word(at) != FILLER || at + word(at + 4) == file);
}

/* However lately it was written. */
static void the_file_of_another_process_is_replaced(void **state)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	fprintf(file, "of process (%d)", (int)getppid());
	fclose(file);
	begin();
	trace_file_flush();
	assert_true(read_file(path) > 40);
	assert_int_equal(word(0), 0x0a0d0d0a);
}

/* Its process had the same number. */
static void a_file_from_before_the_process_is_replaced(void **state)
{
	const struct timespec old[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	fprintf(file, "of process (%d)", (int)getpid());
	fclose(file);
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	begin();
	trace_file_flush();
	assert_true(read_file(path) > 40);
	assert_int_equal(word(0), 0x0a0d0d0a);
}

int main(int argc, char **argv)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(without_memory_there_is_no_trace),
		TEST(the_file_begins_as_pcapng_of_raw_ip),
		TEST(ipv4_packets_have_right_headers),
		TEST(ipv6_packets_have_right_headers),
		TEST(comments_are_those_of_verbatim_trace),
		TEST(what_goes_through_memory_is_recorded_as_what_it_is),
		TEST(as_packets_there_are_packets_alone_and_that_is_said),
		TEST(the_limit_ends_the_trace_and_not_the_program),
		TEST(the_kernels_limit_of_files_ends_the_trace_and_not_the_program),
		TEST(a_full_disk_ends_the_trace_and_that_is_said),
		TEST(what_comes_faster_than_it_is_written_is_missing_and_that_is_said),
		TEST(a_process_that_is_killed_loses_nothing),
		TEST(a_process_may_be_killed_at_any_time),
		TEST(a_file_that_cannot_be_mapped_is_written),
		TEST(threads_lose_nothing_that_has_room),
		TEST(a_device_that_opens_again_goes_on_with_the_file),
		TEST(a_child_writes_a_file_of_its_own),
		TEST(a_program_goes_on_with_the_file_after_exec),
		TEST(the_file_of_another_process_is_replaced),
		TEST(a_file_from_before_the_process_is_replaced),
		TEST(the_process_id_goes_into_the_name),
		TEST(what_cannot_be_written_is_said),
		TEST(a_trace_is_for_its_user_alone),
		TEST(links_and_files_of_others_are_not_written),
		TEST(pipes_are_not_written),
		TEST(the_standard_output_is_not_the_trace),
		TEST(tshark_reads_it),
	};

	if (argc > 1)
		return go_on();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
