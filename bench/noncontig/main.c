/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The scatter/gather study: which way moves blocks that do not lie side by side fastest, and is it worth
 * packing them first? docs/noncontig.md explains what comes out. Runs on any RDMA device:
 *	noncontig			both sides on this host
 *	noncontig --server [ADDRESS]	waits for a client, serves it, ends
 *	noncontig SERVER		measures, prints the table
 * Exit status: 0 all bytes right; 1 not, or a failure, said on stderr; 2 used wrongly.
 */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "noncontig.h"
#include "progress.h"

#define SETTLE_US	300000.0
#define POINTS_MAX	32u
#define ITERATIONS_MAX	10000u
#define PASSES		5u

struct options {
	uint32_t messages[POINTS_MAX], blocks[POINTS_MAX];
	unsigned message_count, block_count;
	unsigned stride, iterations, sge, methods;
	uint16_t port;
	bool serve, bandwidth;
	const char *peer, *csv, *plot;
};

static const char usage[] =
"usage: noncontig [OPTION]...			both sides on this host\n"
"       noncontig [OPTION]... --server [ADDRESS]	serve one client\n"
"       noncontig [OPTION]... SERVER		measure\n"
"  --messages LIST	bytes of data, 4K,64K,1M\n"
"  --blocks LIST		bytes of a block, 64,256,1K,4K,16K\n"
"  --stride N		blocks begin N block sizes apart, 2\n"
"  --methods LIST	pack,pieces,gather-write,scatter-read,gather-send,write-each,read-each\n"
"  --sge N		elements of a list, at most and by default 32\n"
"  --iterations N	transfers for each number, 50\n"
"  --bandwidth		GB/s instead of microseconds\n"
"  --csv FILE		all numbers\n"
"  --plot FILE.svg	GB/s over the block size\n"
"  --port N		of the server, 7473\n"
"examples: noncontig --messages 1M --blocks 64,1K,16K --bandwidth\n"
"          noncontig --server 192.0.2.1 &   on the other host:  noncontig 192.0.2.1 --csv out.csv\n";

static int wrong(const char *what, const char *text, const char *right)
{
	fprintf(stderr, "noncontig: %s '%s': expected %s\n", what, text, right);
	return 2;
}

/* ---- options ---- */

/* A number with K, M behind it; 0 when it is none. */
static uint32_t parse_size(const char *text, char **end)
{
	unsigned long long value;

	errno = 0;
	if (*text < '0' || *text > '9')
		return 0;
	value = strtoull(text, end, 10);
	if (**end == 'K' || **end == 'k')
		value <<= 10, ++*end;
	else if (**end == 'M' || **end == 'm')
		value <<= 20, ++*end;
	return errno || value > BYTES_MAX ? 0 : (uint32_t)value;
}

static int parse_sizes(const char *option, const char *text, uint32_t *sizes, unsigned *count)
{
	static const char right[] = "sizes up to 64M, as in 64,4K,1M, at most 32 of them";
	const char *at = text;
	char *end;

	for (*count = 0; *count < POINTS_MAX; at = end + 1) {
		sizes[*count] = parse_size(at, &end);
		if (!sizes[*count] || sizes[*count] > 64u << 20)
			return wrong(option, text, right);
		++*count;
		if (!*end)
			return 0;
		if (*end != ',')
			break;
	}
	return wrong(option, text, right);
}

static int parse_number(const char *option, const char *text, unsigned most, unsigned *value)
{
	char right[48], *end;

	*value = parse_size(text, &end);
	if (*value && !*end && *value <= most)
		return 0;
	snprintf(right, sizeof(right), "a whole number from 1 to %u", most);
	return wrong(option, text, right);
}

static int parse_methods(const char *text, unsigned *set)
{
	char names[256], *rest = names, *name;

	snprintf(names, sizeof(names), "%s", text);
	*set = 0;
	while ((name = strsep(&rest, ","))) {
		unsigned m = 0;

		while (m < METHOD_COUNT && strcmp(methods[m].name, name))
			m++;
		if (m == METHOD_COUNT)
			return wrong("--methods", name, "names from: pack, pieces, gather-write, "
				     "scatter-read, gather-send, write-each, read-each");
		*set |= 1u << m;
	}
	return 0;
}

enum { OPT_MESSAGES = 256, OPT_BLOCKS, OPT_STRIDE, OPT_METHODS, OPT_SGE, OPT_ITERATIONS,
       OPT_BANDWIDTH, OPT_CSV, OPT_PLOT, OPT_PORT, OPT_SERVER, OPT_HELP };

static const struct option long_options[] = {
	{ "messages", 1, NULL, OPT_MESSAGES }, { "blocks", 1, NULL, OPT_BLOCKS },
	{ "stride", 1, NULL, OPT_STRIDE }, { "methods", 1, NULL, OPT_METHODS },
	{ "sge", 1, NULL, OPT_SGE }, { "iterations", 1, NULL, OPT_ITERATIONS },
	{ "bandwidth", 0, NULL, OPT_BANDWIDTH }, { "csv", 1, NULL, OPT_CSV },
	{ "plot", 1, NULL, OPT_PLOT }, { "port", 1, NULL, OPT_PORT },
	{ "server", 0, NULL, OPT_SERVER }, { "help", 0, NULL, OPT_HELP }, { NULL, 0, NULL, 0 },
};

static int parse_plot(struct options *o, const char *path)
{
	size_t length = strlen(path);

	if (length < 5 || strcmp(path + length - 4, ".svg"))
		return wrong("--plot", path, "a name that ends in .svg");
	o->plot = path;
	return 0;
}

/* 0; 2 after a line on stderr; -1: help was printed. */
static int take_option(struct options *o, int option)
{
	unsigned port;

	switch (option) {
	case OPT_MESSAGES:
		return parse_sizes("--messages", optarg, o->messages, &o->message_count);
	case OPT_BLOCKS:
		return parse_sizes("--blocks", optarg, o->blocks, &o->block_count);
	case OPT_STRIDE:
		return parse_number("--stride", optarg, 64, &o->stride);
	case OPT_METHODS:
		return parse_methods(optarg, &o->methods);
	case OPT_SGE:
		return parse_number("--sge", optarg, SGE_MAX, &o->sge);
	case OPT_ITERATIONS:
		return parse_number("--iterations", optarg, ITERATIONS_MAX, &o->iterations);
	case OPT_PORT:
		if (parse_number("--port", optarg, 65535, &port))
			return 2;
		o->port = (uint16_t)port;
		return 0;
	case OPT_BANDWIDTH:
		o->bandwidth = true;
		return 0;
	case OPT_CSV:
		o->csv = optarg;
		return 0;
	case OPT_PLOT:
		return parse_plot(o, optarg);
	case OPT_SERVER:
		o->serve = true;
		return 0;
	case OPT_HELP:
		fputs(usage, stdout);
		return -1;
	}
	fputs("noncontig --help says what there is\n", stderr);
	return 2;
}

static int parse_options(struct options *o, int argc, char **argv)
{
	int option, status;

	while ((option = getopt_long(argc, argv, "h", long_options, NULL)) != -1)
		if ((status = take_option(o, option == 'h' ? OPT_HELP : option)))
			return status;
	if (argc - optind > 1)
		return wrong("argument", argv[optind + 1], "one address at most");
	if (argc > optind)
		o->peer = argv[optind];
	return 0;
}

/* ---- the server ---- */

static unsigned receives_of(const struct connection *c, const struct order *order)
{
	return methods[order->method].receives(c, &order->layout);
}

/* What the other side says is checked: it may be another version, or no friend. */
static bool order_fits(const struct connection *c, const struct order *order)
{
	const struct layout *layout = &order->layout;

	return order->method < METHOD_COUNT && layout->block && layout->count &&
	       layout->stride >= layout->block && layout_span(layout) <= c->hello.bytes &&
	       order->sge && order->sge <= c->recv_sge && receives_of(c, order) < c->depth;
}

static int serve_order(struct connection *c, const struct order *order)
{
	const struct method *method = &methods[order->method];
	struct answer answer = { .target_rkey = c->blocks.mr->rkey,
				 .staging_rkey = c->staging.mr->rkey,
				 .target_address = (uintptr_t)c->blocks.memory,
				 .staging_address = (uintptr_t)c->staging.memory };
	size_t where = 0;

	layout_erase(c->blocks.memory, &order->layout);
	if (method->prepare(c, order) ||
	    connection_send(c, SLOT_READY, &answer, sizeof(answer)) || method->receive(c, order) ||
	    connection_expect(c, SLOT_ORDER) ||
	    connection_send(c, SLOT_DONE, &answer, sizeof(answer)))
		return -1;
	answer.is_wrong = !layout_verify(c->blocks.memory, &order->layout, order->seed, &where);
	answer.wrong_offset = where;
	return connection_send(c, SLOT_VERDICT, &answer, sizeof(answer)) || connection_drain(c) ? -1 : 0;
}

static int refuse_order(struct connection *c)
{
	struct answer answer = { .is_refused = 1 };

	return connection_expect(c, SLOT_ORDER) ||
	       connection_send(c, SLOT_READY, &answer, sizeof(answer)) || connection_drain(c) ? -1 : 0;
}

static int serve(const struct options *o, int report_port)
{
	struct connection c = { 0 };
	uint16_t port = report_port >= 0 ? 0 : o->port;
	struct order order;
	int err = connection_listen(&c, o->peer ? o->peer : "0.0.0.0", &port);

	if (!err && report_port >= 0)
		err = write(report_port, &port, sizeof(port)) != sizeof(port);
	if (!err)
		err = connection_accept(&c);
	while (!err) {
		if ((err = connection_receive(&c, 1)))
			break;
		connection_message(&c, SLOT_ORDER, &order, sizeof(order));
		if (order.method == METHOD_END)
			break;
		err = order_fits(&c, &order) ? serve_order(&c, &order) : refuse_order(&c);
	}
	connection_close(&c);
	return err ? 1 : 0;
}

/* ---- the client ---- */

static double now_us(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return 1e6 * (double)time.tv_sec + 1e-3 * (double)time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	double left = *(const double *)a, right = *(const double *)b;

	return (left > right) - (left < right);
}

static int await_answer(struct connection *c, unsigned slot, struct answer *answer)
{
	if (connection_receive(c, 1))
		return -1;
	connection_message(c, slot, answer, sizeof(*answer));
	return 0;
}

/* One transfer. *us: its time, 0 where the server refuses the layout. */
static int transfer(struct connection *c, struct order *order, double *us)
{
	const struct method *method = &methods[order->method];
	struct answer answer;
	double begin;

	layout_fill(c->blocks.memory, &order->layout, order->seed);
	*us = 0;
	if (connection_expect(c, SLOT_READY) || connection_expect(c, SLOT_DONE) ||
	    connection_expect(c, SLOT_VERDICT) ||
	    connection_send(c, SLOT_ORDER, order, sizeof(*order)) ||
	    await_answer(c, SLOT_READY, &answer))
		return -1;
	if (answer.is_refused) {
		fprintf(stderr, "noncontig: %s: %u blocks take more requests than a queue of the "
			"server holds\n", method->name, order->layout.count);
		return -1;
	}
	begin = now_us();
	if (method->send(c, order, &answer) || await_answer(c, SLOT_DONE, &answer))
		return -1;
	*us = now_us() - begin;
	if (await_answer(c, SLOT_VERDICT, &answer) || connection_drain(c))
		return -1;
	if (!answer.is_wrong)
		return 0;
	fprintf(stderr, "noncontig: %s, blocks of %u: wrong byte at offset %llu of the target\n",
		method->name, order->layout.block, (unsigned long long)answer.wrong_offset);
	return -1;
}

static double times[METHOD_COUNT][ITERATIONS_MAX];

/* The first transfers warm up: addresses are exchanged, pages and caches filled. */
static int measure(struct connection *c, struct order *order, double *into, unsigned count, unsigned warm_up)
{
	for (unsigned i = 0; i < count + warm_up; i++) {
		double us;

		order->seed++;
		if (transfer(c, order, &us))
			return -1;
		if (i >= warm_up)
			into[i - warm_up] = us;
	}
	return 0;
}

static void summarise(struct result *result, unsigned method, unsigned count)
{
	double *sorted = times[method];

	qsort(sorted, count, sizeof(*sorted), compare);
	result->median_us[method] = sorted[count / 2];
	result->least_us[method] = sorted[0];
	result->low_us[method] = sorted[count / 4];
	result->high_us[method] = sorted[count - 1 - count / 4];
}

/* In passes over all methods: what disturbs for a moment disturbs each of them. */
static int measure_layout(struct connection *c, const struct options *o, struct result *result)
{
	struct order order = { .sge = c->send_sge, .layout = result->layout,
			       .source_rkey = c->blocks.mr->rkey, .staging_rkey = c->staging.mr->rkey,
			       .source_address = (uintptr_t)c->blocks.memory,
			       .staging_address = (uintptr_t)c->staging.memory };
	unsigned passes = o->iterations < PASSES ? 1 : PASSES, done = 0;

	for (unsigned pass = 0; pass < passes; pass++) {
		unsigned count = o->iterations * (pass + 1) / passes - done;

		for (order.method = 0; order.method < METHOD_COUNT; order.method++)
			if (o->methods >> order.method & 1 && receives_of(c, &order) < c->depth &&
			    measure(c, &order, times[order.method] + done, count, count / 10 + 1))
				return -1;
		done += count;
	}
	for (order.method = 0; order.method < METHOD_COUNT; order.method++)
		if (o->methods >> order.method & 1 && receives_of(c, &order) < c->depth)
			summarise(result, order.method, done);
	return 0;
}

/*
 * What part of each time is not data: one block of a byte, written. For a while first, since a connection has to
 * settle: processors wake up, and inside a host memory takes over from packets.
 */
static int measure_notice(struct connection *c, const struct options *o, double *us)
{
	struct options one = *o;
	struct result result = { .layout = { 1, 1, 1 } };
	double until = now_us() + SETTLE_US;

	one.methods = 1;
	do
		if (measure_layout(c, &one, &result))
			return -1;
	while (now_us() < until);
	*us = result.median_us[0];
	return 0;
}

static int measure_all(struct connection *c, const struct options *o, struct report *report)
{
	if (measure_notice(c, o, &report->notice_us))
		return -1;
	for (unsigned m = 0; m < o->message_count; m++) {
		for (unsigned b = 0; b < o->block_count; b++) {
			struct result *result = &report->results[report->count];
			uint32_t block = o->blocks[b];

			if (o->messages[m] % block)
				continue;
			result->layout = (struct layout){ block, o->messages[m] / block,
							  block * o->stride };
			progress_show("layouts", m * o->block_count + b, o->message_count * o->block_count);
			if (measure_layout(c, o, result)) {
				progress_hide();
				return -1;
			}
			report->count++;
		}
	}
	progress_hide();
	return 0;
}

/* Seconds that all processors worked since the machine has started; < 0: not known. */
static double machine_worked_s(void)
{
	FILE *file = fopen("/proc/stat", "re");
	unsigned long long user, nice, system, idle, wait, irq, soft, stolen;
	int got = 0;

	if (file)
		got = fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice, &system,
			     &idle, &wait, &irq, &soft, &stolen);
	if (file)
		fclose(file);
	return got == 8 ? (double)(user + nice + system + irq + soft + stolen) / (double)sysconf(_SC_CLK_TCK) : -1;
}

/* Seconds that this process worked. */
static double we_worked_s(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/*
 * The part of the processors that other programs had, since these were read; the server may be of this host, and
 * has worked as long as it took.
 */
static double others_share(double machine_s, double ours_s, double begin_us)
{
	double passed_s = (now_us() - begin_us) * 1e-6, now_s = machine_worked_s();
	double others_s = now_s - machine_s - (we_worked_s() - ours_s) - passed_s;
	long processors = sysconf(_SC_NPROCESSORS_ONLN);

	if (machine_s < 0 || now_s < 0 || processors < 1 || passed_s <= 0)
		return -1;
	return others_s > 0 ? others_s / (passed_s * (double)processors) : 0;
}

/* Before anything is measured: a file that cannot be written is said at once. */
static FILE *open_file(const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file)
		fprintf(stderr, "noncontig: %s: %s\n", path, strerror(errno));
	return file;
}

static size_t largest_span(const struct options *o)
{
	size_t most = 0;

	for (unsigned m = 0; m < o->message_count; m++)
		if (o->messages[m] > most)
			most = o->messages[m];
	return most * o->stride;
}

/* A layout is a whole number of blocks. */
static bool has_layout(const struct options *o)
{
	for (unsigned m = 0; m < o->message_count; m++)
		for (unsigned b = 0; b < o->block_count; b++)
			if (o->messages[m] % o->blocks[b] == 0)
				return true;
	return false;
}

static int run_client(const struct options *o, const char *server, uint16_t port)
{
	static struct result results[POINTS_MAX * POINTS_MAX];
	struct report report = { .results = results, .methods = o->methods, .bandwidth = o->bandwidth,
				 .iterations = o->iterations, .csv_path = o->csv, .plot_path = o->plot };
	double machine_s, ours_s, begin_us;
	struct order end = { .method = METHOD_END };
	struct connection c = { 0 };
	int err;

	if (!has_layout(o)) {
		fprintf(stderr, "noncontig: none of --messages is a whole number of one of --blocks\n");
		return 2;
	}
	if (largest_span(o) > BYTES_MAX) {
		fprintf(stderr, "noncontig: messages times stride: at most 1 GiB\n");
		return 2;
	}
	if ((o->csv && !(report.csv = open_file(o->csv))) || (o->plot && !(report.plot = open_file(o->plot))))
		return 1;
	machine_s = machine_worked_s();
	ours_s = we_worked_s();
	begin_us = now_us();
	err = connection_connect(&c, server, port, largest_span(o), o->sge) ||
	      measure_all(&c, o, &report);
	report.others = others_share(machine_s, ours_s, begin_us);
	if (!err)
		err = connection_send(&c, SLOT_ORDER, &end, sizeof(end)) || connection_drain(&c);
	connection_close(&c);
	if (err)
		return 1;
	report_table(&report);
	if (report.csv && report_csv(&report))
		err = 1;
	if (report.plot && report_plot(&report))
		err = 1;
	return err;
}

/* ---- both on this host ---- */

static int run_both(const struct options *o)
{
	struct options server = *o;
	uint16_t port;
	int ends[2], status, served;
	pid_t child;

	server.peer = "127.0.0.1";
	if (pipe(ends) || (child = fork()) < 0) {
		perror("noncontig");
		return 1;
	}
	if (!child) {
		close(ends[0]);
		_exit(serve(&server, ends[1]));
	}
	close(ends[1]);
	status = read(ends[0], &port, sizeof(port)) == sizeof(port) ?
		 run_client(o, "127.0.0.1", port) : 1;
	close(ends[0]);
	if (status)
		kill(child, SIGTERM);
	waitpid(child, &served, 0);
	return status ? status : served != 0;
}

int main(int argc, char **argv)
{
	struct options o = {
		.messages = { 4096, 65536, 1u << 20 }, .message_count = 3,
		.blocks = { 64, 256, 1024, 4096, 16384 }, .block_count = 5,
		.stride = 2, .iterations = 50, .sge = SGE_MAX, .port = 7473,
		.methods = (1u << METHOD_COUNT) - 1,
	};
	int status = parse_options(&o, argc, argv);

	if (status)
		return status < 0 ? 0 : status;
	if (o.serve)
		return serve(&o, -1);
	return o.peer ? run_client(&o, o.peer, o.port) : run_both(&o);
}
