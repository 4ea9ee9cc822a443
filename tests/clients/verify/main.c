// SPDX-License-Identifier: BSD-2-Clause
/*
 * verify [-d DEVICE] [-g GIDINDEX] [-p PORT] [-t REGEX] [-S SEED] [SERVER]
 * verify --local ...: both ends in this process; verify --list: the tests and their tags.
 * --aligned: page-aligned memory; --counters: the device's hw_counters that are not 0, at the end.
 * Prints TAP; ends with 1 at the first check that fails.
 */
#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <regex.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "verify.h"

static const struct test *const lists[] = {
	connected_tests, stream_tests, datagram_tests, window_tests, remote_error_tests,
	local_error_tests, queue_tests, event_tests, object_tests, process_tests, tag_tests, counter_tests,
};
#define LISTS (sizeof(lists) / sizeof(lists[0]))

static struct {
	const char *device, *host, *pattern;
	int gid_index, port;
	uint32_t seed;
	bool local, list, counters;
	regex_t regex;
	bool long_tests;
} options = { .gid_index = 1, .port = 18514, .pattern = "", .seed = 1 };

static __thread const char *current = "start";
static __thread const char *role = "";
static __thread jmp_buf skipped;

void check_failed(const char *file, int line, const char *what, const char *format, ...)
{
	char text[512];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	printf("not ok - %s\n# %s %s:%d: %s (%s)\n", current, role, strrchr(file, '/') ?
	       strrchr(file, '/') + 1 : file, line, text, what);
	fflush(stdout);
	_exit(1);
}

void call_failed(const char *file, int line, const char *what, int err)
{
	int code = err < 0 ? errno : err;

	check_failed(file, line, what, "error %d, %s", err, strerror(code));
}

void skip(struct side *side, const char *why)
{
	barrier(side);
	printf("ok 1 - %s # SKIP %s\n", current, why);
	longjmp(skipped, 1);
}

static struct ibv_context *open_device(void)
{
	struct ibv_context *context = NULL;
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);

	CHECK(list && count > 0, "no RDMA device: %m");
	for (int i = 0; i < count && !context; i++)
		if (!options.device || !strcmp(ibv_get_device_name(list[i]), options.device))
			context = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	CHECK(context, "cannot open %s: %m", options.device ? options.device : "a device");
	return context;
}

static void side_open(struct side *side)
{
	enum ibv_mtu theirs;

	side->context = open_device();
	side->pd = ibv_alloc_pd(side->context);
	CHECK(side->pd, "ibv_alloc_pd: %m");
	OK(ibv_query_port(side->context, 1, &side->port));
	OK(ibv_query_gid(side->context, 1, side->gid_index, &side->gid));
	exchange(side, &side->gid, &side->peer_gid, sizeof(side->gid));
	theirs = exchange_u64(side, side->port.active_mtu);
	side->mtu = theirs < side->port.active_mtu ? theirs : side->port.active_mtu;
	side->mtu_bytes = 128u << side->mtu;
}

/* As they are in /sys; a line for each. */
static void print_counters(struct ibv_context *context)
{
	char directory[128], path[512];
	unsigned long long value;
	struct dirent *entry;
	DIR *names;

	snprintf(directory, sizeof(directory), "/sys/class/infiniband/%s/ports/1/hw_counters",
		 ibv_get_device_name(context->device));
	names = opendir(directory);
	CHECK(names, "%s: %m", directory);
	while ((entry = readdir(names))) {
		FILE *file;

		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		file = fopen(path, "r");
		if (file && fscanf(file, "%llu", &value) == 1 && value)
			printf("# %s %llu\n", entry->d_name, value);
		if (file)
			fclose(file);
	}
	closedir(names);
}

static void side_close(struct side *side)
{
	barrier(side);
	if (options.counters)
		print_counters(side->context);
	OK(ibv_dealloc_pd(side->pd));
	OK(ibv_close_device(side->context));
}

static bool chosen(const struct test *test)
{
	return !regexec(&options.regex, test->name, 0, NULL, 0) &&
	       (*options.pattern || !(test->tags & TAG_LONG));
}

static void run_test(struct side *side, const struct test *test, volatile int *number)
{
	current = test->name;
	side->test = test->name;
	patience_ms = test->tags & TAG_LONG ? LONG_PATIENCE_MS : PATIENCE_MS;
	side->random = options.seed * 2654435761u + side->server + 1;
	if (setjmp(skipped))
		return;
	side_open(side);
	test->run(side);
	side_close(side);
	++*number;
	if (!side->local || side->server)
		printf("ok %d - %s\n", *number, test->name);
	fflush(stdout);
}

static void *run_side(void *arg)
{
	struct side *side = arg;
	int number = 0;

	role = side->server ? "server" : "client";
	for (size_t l = 0; l < LISTS; l++)
		for (const struct test *test = lists[l]; test->name; test++)
			if (chosen(test))
				run_test(side, test, &number);
	if (!side->local || side->server)
		printf("1..%d\n", number);
	return NULL;
}

static int run_local(void)
{
	struct side server = { .server = true, .local = true }, client = { .local = true };
	int listening = peer_listen(options.port);
	pthread_t thread;

	server.gid_index = client.gid_index = options.gid_index;
	client.sock = peer_connect("::1", options.port);
	server.sock = peer_accept(listening);
	close(listening);
	OK(pthread_create(&thread, NULL, run_side, &client));
	run_side(&server);
	pthread_join(thread, NULL);
	return 0;
}

static int run_remote(void)
{
	struct side side = { .server = !options.host, .gid_index = options.gid_index };

	if (side.server) {
		int listening = peer_listen(options.port);

		side.sock = peer_accept(listening);
		close(listening);
	} else {
		side.sock = peer_connect(options.host, options.port);
	}
	run_side(&side);
	return 0;
}

static int list_tests(void)
{
	for (size_t l = 0; l < LISTS; l++)
		for (const struct test *test = lists[l]; test->name; test++)
			printf("%s%s%s%s\n", test->name, test->tags & TAG_DATA ? " data" : "",
			       test->tags & TAG_LOSSLESS ? " lossless" : "",
			       test->tags & TAG_LONG ? " long" : "");
	return 0;
}

static void parse(int argc, char **argv)
{
	static const struct option longs[] = { { "local", 0, NULL, 'l' }, { "list", 0, NULL, 'L' },
					       { "aligned", 0, NULL, 'A' },
					       { "counters", 0, NULL, 'C' }, { 0 } };
	int option;

	while ((option = getopt_long(argc, argv, "d:g:p:t:S:", longs, NULL)) != -1) {
		switch (option) {
		case 'd': options.device = optarg; break;
		case 'g': options.gid_index = atoi(optarg); break;
		case 'p': options.port = atoi(optarg); break;
		case 't': options.pattern = optarg; break;
		case 'S': options.seed = atoi(optarg); break;
		case 'l': options.local = true; break;
		case 'L': options.list = true; break;
		case 'A': regions_are_aligned = true; break;
		case 'C': options.counters = true; break;
		default: exit(2);
		}
	}
	options.host = argv[optind];
	if (regcomp(&options.regex, options.pattern, REG_EXTENDED | REG_NOSUB))
		exit(2);
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (options.list)
		return list_tests();
	return options.local ? run_local() : run_remote();
}
