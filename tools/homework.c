/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim homework check PROGRAM: is the program what docs/tutorial/homework.md asks for? Each run
 *has a server and a client on lo, and memory of random bytes, so that what must be in the server's
 *afterwards is known from the layout that the program prints. Which requests had lists is known
 *from a trace. The times are the program's.
 *
 *	PROGRAM layout BYTES		PROGRAM -p PORT pack|lists BYTES MEMORY [SERVER]
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "capture.h"
#include "ladder.h"
#include "plot.h"
#include "progress.h"
#include "tool.h"

#define RUN_S 30     /* of a program; then it hangs */
#define REFUSED_S 10 /* a client that nobody serves comes again for so long */
#define TRACED_BYTES 65536u
#define MEMORY_MAX (256u << 20)
#define PIECES_MAX 65536u
#define SHARE 50u /* percent of the bytes, from which on lists were used */
#define WORDS_MAX 4096u
#define HOMEWORK_PATH 512

static const uint32_t homework_sizes[] = {1024, 4096, 16384, 65536, 262144, 1048576};
static const char *const homework_methods[] = {"pack", "lists"};
const char *const homework_verbs[] = {"check", NULL};

enum { SIZES = sizeof(homework_sizes) / sizeof(*homework_sizes), METHODS = 2 };

struct homework_piece {
	uint64_t from, bytes, to;
};

struct homework_layout {
	struct homework_piece *piece;
	unsigned pieces;
	uint64_t from_bytes, to_bytes; /* memory that it takes at the client and at the server */
};

/* What a trace says of requests. */
struct homework_use {
	uint64_t bytes, list_bytes; /* posted, and by requests with more than one element */
	uint64_t taken_by_lists;    /* room of receives with more than one element */
	unsigned elements;	    /* of the longest list */
	char opcode[32];	    /* of that request; empty: a receive */
};

struct homework {
	const char *program;
	char directory[HOMEWORK_PATH -
		       32]; /* memory and what the programs say: ours, removed in the end */
	unsigned failed, port;
	double us[METHODS][SIZES];
};

/* ---- verdicts ---- */

static bool __attribute__((format(printf, 3, 4)))
homework_say(struct homework *h, bool right, const char *format, ...)
{
	va_list arguments;

	progress_hide();
	fputs(right ? "ok    " : "wrong ", stdout);
	va_start(arguments, format);
	vprintf(format, arguments);
	va_end(arguments);
	putchar('\n');
	fflush(stdout);
	h->failed += !right;
	return right;
}

/* ---- programs ---- */

static const char *homework_path(const struct homework *h, const char *name,
				 char out[HOMEWORK_PATH])
{
	snprintf(out, HOMEWORK_PATH, "%s/%s", h->directory, name);
	return out;
}

/* Starts this command with @words; its output goes to the file @log. The process, or -1. */
static pid_t homework_start(const struct homework *h, const char *log, const char *const *words)
{
	char path[HOMEWORK_PATH];
	pid_t child = fork();
	int fd;

	if (child)
		return child;
	setpgid(0, 0); /* with all that it starts */
	fd = open(homework_path(h, log, path), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd >= 0 && dup2(fd, STDOUT_FILENO) >= 0 && dup2(fd, STDERR_FILENO) >= 0)
		execv("/proc/self/exe", (char **)(uintptr_t)words);
	_exit(127);
}

static uint64_t homework_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* The status of waitpid() when it ends, by itself or at @until_ms: then -1. */
static int homework_wait(pid_t child, uint64_t until_ms)
{
	int status;

	while (waitpid(child, &status, WNOHANG) == 0) {
		if (homework_now_ms() >= until_ms) {
			kill(-child, SIGKILL);
			waitpid(child, &status, 0);
			return -1;
		}
		poll(NULL, 0, 2);
	}
	return status;
}

static void homework_end(pid_t child)
{
	kill(-child, SIGKILL);
	waitpid(child, NULL, 0);
}

static const char *homework_ended(int status, char out[64])
{
	if (status < 0)
		snprintf(out, 64, "does not end in %d s", RUN_S);
	else if (WIFSIGNALED(status))
		snprintf(out, 64, "is ended by %s", strsignal(WTERMSIG(status)));
	else
		snprintf(out, 64, "ends with status %d", WEXITSTATUS(status));
	return out;
}

/* What a program printed, its end if that is long; "" when nothing. */
static const char *homework_words(const struct homework *h, const char *log, char out[WORDS_MAX])
{
	char path[HOMEWORK_PATH];
	FILE *file = fopen(homework_path(h, log, path), "r");
	size_t got = 0;

	if (file) {
		if (!fseek(file, 0, SEEK_END) && ftell(file) >= (long)WORDS_MAX)
			fseek(file, -(long)WORDS_MAX + 1, SEEK_END);
		else
			rewind(file);
		got = fread(out, 1, WORDS_MAX - 1, file);
		fclose(file);
	}
	while (got && out[got - 1] == '\n')
		got--;
	out[got] = '\0';
	return out;
}

/* ---- the layout ---- */

static int homework_by_target(const void *a, const void *b)
{
	const struct homework_piece *one = a, *other = b;

	return one->to < other->to ? -1 : one->to > other->to;
}

/* Why it is none, or NULL. Sorts by target. */
static const char *homework_layout_fault(struct homework_layout *layout, uint64_t bytes)
{
	uint64_t sum = 0;
	unsigned beside = 0;

	layout->from_bytes = layout->to_bytes = 0;
	qsort(layout->piece, layout->pieces, sizeof(*layout->piece), homework_by_target);
	for (unsigned i = 0; i < layout->pieces; i++) {
		const struct homework_piece *piece = &layout->piece[i],
					    *before = i ? piece - 1 : NULL;

		if (!piece->bytes || piece->from + piece->bytes > MEMORY_MAX ||
		    piece->to + piece->bytes > MEMORY_MAX)
			return "a piece is empty, or ends behind 256 MiB";
		if (before && before->to + before->bytes > piece->to)
			return "two pieces go to the same place";
		beside += before && before->to + before->bytes == piece->to &&
			  before->from + before->bytes == piece->from;
		sum += piece->bytes;
		if (piece->from + piece->bytes > layout->from_bytes)
			layout->from_bytes = piece->from + piece->bytes;
		if (piece->to + piece->bytes > layout->to_bytes)
			layout->to_bytes = piece->to + piece->bytes;
	}
	if (sum != bytes)
		return "its pieces are not so many bytes in all";
	if (layout->pieces - beside < 2)
		return "all of it lies side by side: task 1";
	return NULL;
}

/* Asks the program. False after saying what is wrong. */
static bool homework_layout(struct homework *h, uint32_t bytes, struct homework_layout *layout)
{
	char number[16], path[HOMEWORK_PATH], words[WORDS_MAX], ended[64];
	const char *const command[] = {"verbatim", "run", "--", h->program, "layout", number, NULL},
			  *fault;
	struct homework_piece piece;
	pid_t child;
	FILE *file;
	int status;

	snprintf(number, sizeof(number), "%" PRIu32, bytes);
	child = homework_start(h, "layout", command);
	status = child < 0 ? -1 : homework_wait(child, homework_now_ms() + RUN_S * 1000);
	if (status)
		return homework_say(h, false,
				    "the layout of %" PRIu32 " bytes: `%s layout %s` %s: %s", bytes,
				    h->program, number, homework_ended(status, ended),
				    homework_words(h, "layout", words));
	layout->pieces = 0;
	file = fopen(homework_path(h, "layout", path), "r");
	while (file && layout->pieces < PIECES_MAX &&
	       fscanf(file, "%" SCNu64 " %" SCNu64 " %" SCNu64, &piece.from, &piece.bytes,
		      &piece.to) == 3)
		layout->piece[layout->pieces++] = piece;
	fault = !file || !feof(file) ? "lines FROM LENGTH TO are expected"
				     : homework_layout_fault(layout, bytes);
	if (file)
		fclose(file);
	return !fault ||
	       homework_say(h, false, "the layout of %" PRIu32 " bytes: %s", bytes, fault);
}

/* ---- a run ---- */

static uint8_t *homework_memory(const struct homework *h, const char *name, uint64_t bytes)
{
	uint8_t *memory = malloc(bytes);
	char path[HOMEWORK_PATH];
	FILE *file = fopen(homework_path(h, name, path), "wb");
	uint64_t got = 0;
	ssize_t part;

	for (; memory && got < bytes; got += (uint64_t)part)
		if ((part = getrandom(memory + got, bytes - got, 0)) <= 0)
			break;
	if (!memory || !file || got < bytes || fwrite(memory, 1, bytes, file) != bytes ||
	    fclose(file)) {
		fprintf(stderr, "verbatim homework: %s: %s\n", path, strerror(errno));
		exit(EXIT_FAILURE);
	}
	return memory;
}

/* Compares the server's file with what it must hold. False after saying what is wrong. */
static bool homework_compare(struct homework *h, const char *method, uint32_t bytes,
			     const struct homework_layout *layout, const uint8_t *wanted)
{
	uint8_t *found = malloc(layout->to_bytes + 1);
	char path[HOMEWORK_PATH];
	FILE *file = fopen(homework_path(h, "server", path), "rb");
	uint64_t got = file && found ? fread(found, 1, layout->to_bytes + 1, file) : 0, at = 0;
	unsigned piece = 0;
	bool right;

	if (file)
		fclose(file);
	while (got == layout->to_bytes && at < got && found[at] == wanted[at])
		at++;
	while (piece < layout->pieces && layout->piece[piece].to + layout->piece[piece].bytes <= at)
		piece++;
	right = at == layout->to_bytes;
	if (got != layout->to_bytes)
		homework_say(h, false,
			     "%s, %" PRIu32 " bytes: the server's memory has %" PRIu64
			     " bytes afterwards, not %" PRIu64,
			     method, bytes, got, layout->to_bytes);
	else if (!right && piece < layout->pieces && at >= layout->piece[piece].to)
		homework_say(h, false,
			     "%s, %" PRIu32 " bytes: the byte at %" PRIu64
			     " of the server's memory is wrong: of the piece %" PRIu64 " %" PRIu64
			     " %" PRIu64,
			     method, bytes, at, layout->piece[piece].from,
			     layout->piece[piece].bytes, layout->piece[piece].to);
	else if (!right)
		homework_say(h, false,
			     "%s, %" PRIu32 " bytes: the byte at %" PRIu64
			     " of the server's memory has changed: it is of "
			     "no piece",
			     method, bytes, at);
	free(found);
	return right;
}

/* The client comes again until the server listens: a client that ends at once was refused. */
static int homework_pair(struct homework *h, const char *const *server, const char *const *client,
			 int *server_status)
{
	uint64_t until = homework_now_ms() + RUN_S * 1000,
		 refused_until = homework_now_ms() + REFUSED_S * 1000;
	pid_t serving = homework_start(h, "server.log", server), child;
	int status, ended;

	for (;;) {
		child = serving < 0 ? -1 : homework_start(h, "client.log", client);
		if (child < 0)
			return -1;
		status = homework_wait(child, until);
		if (!status)
			break;
		if (status < 0 || homework_now_ms() >= refused_until) {
			homework_end(serving);
			return status;
		}
		if (waitpid(serving, &ended, WNOHANG) == serving) {
			*server_status = ended;
			return status;
		}
		poll(NULL, 0, 20);
	}
	*server_status = homework_wait(serving, until);
	return status;
}

/* One transfer, checked; *us: what the client printed. @traced: both record calls, into
 * client.pcapng, server.pcapng. */
static bool homework_run(struct homework *h, const char *method, uint32_t bytes,
			 const struct homework_layout *layout, bool traced, double *us)
{
	char port[16], number[16], path[2][HOMEWORK_PATH], trace[2][HOMEWORK_PATH],
		words[WORDS_MAX], ended[64], *end;
	const char *command[2][20];
	uint8_t *from = homework_memory(h, "client", layout->from_bytes),
		*to = homework_memory(h, "server", layout->to_bytes);
	uint64_t begin = homework_now_ms();
	int status, server_status = 0;
	bool right = false;

	snprintf(port, sizeof(port), "%u", h->port++);
	snprintf(number, sizeof(number), "%" PRIu32, bytes);
	homework_path(h, "server", path[0]), homework_path(h, "client", path[1]);
	homework_path(h, "server.pcapng", trace[0]), homework_path(h, "client.pcapng", trace[1]);
	for (int side = 0; side < 2; side++) {
		const char *const words_of[] = {
			"-p", port, method, number, path[side], side ? "127.0.0.1" : NULL, NULL};
		unsigned n = 0;

		command[side][n++] = "verbatim";
		command[side][n++] = traced ? "trace" : "run";
		if (traced) {
			command[side][n++] = "-o", command[side][n++] = trace[side];
			command[side][n++] = "--filter", command[side][n++] = "kind=calls";
		}
		command[side][n++] = "--";
		command[side][n++] = h->program;
		memcpy(command[side] + n, words_of, sizeof(words_of));
	}
	status = homework_pair(h, command[0], command[1], &server_status);
	if (status || server_status) {
		homework_say(
			h, false, "%s, %" PRIu32 " bytes: the %s %s: %s", method, bytes,
			server_status > 0 ? "server" : "client",
			homework_ended(server_status > 0 ? server_status : status, ended),
			homework_words(h, server_status > 0 ? "server.log" : "client.log", words));
		goto out;
	}
	for (unsigned i = 0; i < layout->pieces; i++)
		memcpy(to + layout->piece[i].to, from + layout->piece[i].from,
		       layout->piece[i].bytes);
	right = homework_compare(h, method, bytes, layout, to);
	*us = strtod(homework_words(h, "client.log", words), &end);
	if (right && !traced &&
	    (end == words || *us <= 0 || *us > 1e3 * (double)(homework_now_ms() - begin + 1)))
		right = homework_say(
			h, false,
			"%s, %" PRIu32
			" bytes: the client prints \"%s\", which is no time of a transfer in us",
			method, bytes, words);
out:
	free(from);
	free(to);
	return right;
}

/* ---- lists ---- */

static uint64_t homework_number(const char *json, size_t bytes, const char *key)
{
	char value[32];

	return ladder_json_value(json, bytes, key, value, sizeof(value)) ? strtoull(value, NULL, 10)
									 : 0;
}

static void homework_count_call(struct homework_use *use, const char *json, size_t bytes)
{
	uint64_t elements = homework_number(json, bytes, "sges"),
		 posted = homework_number(json, bytes, "bytes");
	char opcode[32];
	bool sends = ladder_json_value(json, bytes, "opcode", opcode, sizeof(opcode));

	if (!elements)
		return;
	if (sends)
		use->bytes += posted;
	if (elements < 2)
		return;
	if (sends)
		use->list_bytes += posted;
	else
		use->taken_by_lists += posted;
	if (elements >= use->elements) {
		use->elements = (unsigned)elements;
		snprintf(use->opcode, sizeof(use->opcode), "%s", sends ? opcode : "");
	}
}

static void homework_read_trace(const struct homework *h, const char *name,
				struct homework_use *use)
{
	struct capture capture = {0};
	char path[HOMEWORK_PATH];

	if (!capture_read(&capture, homework_path(h, name, path)))
		for (size_t i = 0; i < capture.records; i++) {
			const struct capture_record *record = &capture.record[i];
			const uint8_t *json =
				capture.source[record->source].linktype == LINKTYPE_EXPORTED_PDU
					? memchr(record->data, '{', record->bytes)
					: NULL;

			if (json)
				homework_count_call(use, (const char *)json,
						    record->bytes - (size_t)(json - record->data));
		}
	capture_free(&capture);
}

/* Percent of the bytes that requests with lists moved, on either side. */
static unsigned homework_share(const struct homework *h, struct homework_use *use)
{
	uint64_t moved;

	*use = (struct homework_use){0};
	homework_read_trace(h, "client.pcapng", use);
	homework_read_trace(h, "server.pcapng", use);
	moved = use->list_bytes > use->taken_by_lists ? use->list_bytes : use->taken_by_lists;
	return !use->bytes ? 0 : moved >= use->bytes ? 100 : (unsigned)(moved * 100 / use->bytes);
}

static void homework_check_lists(struct homework *h, const struct homework_layout *layout)
{
	struct homework_use use;
	double us;
	unsigned share;

	if (!homework_run(h, "lists", TRACED_BYTES, layout, true, &us))
		return;
	share = homework_share(h, &use);
	if (share < SHARE)
		homework_say(h, false,
			     "lists: requests with more than one element move %u %% of the bytes: "
			     "tasks 2 and 3",
			     share);
	else
		homework_say(h, true, "lists: %s with up to %u elements, %u %% of the bytes",
			     *use.opcode ? use.opcode : "receives", use.elements, share);
	if (!homework_run(h, "pack", TRACED_BYTES, layout, true, &us))
		return;
	share = homework_share(h, &use);
	homework_say(h, share < SHARE,
		     share < SHARE ? "pack: no lists"
				   : "pack: requests with more than one element move %u %% of the "
				     "bytes: that is no packing",
		     share);
}

/* ---- the comparison ---- */

static void homework_draw(struct homework *h, const char *path)
{
	static struct plot_panel panel = {.title = "one transfer, both sides on this host",
					  .points = SIZES};
	struct plot plot = {.title = "Packing and lists",
			    .across = "bytes",
			    .up = "GB/s",
			    .lines = METHODS,
			    .panels = 1,
			    .line = {"pack", "lists"},
			    .panel = &panel};
	FILE *file = fopen(path, "w");

	printf("\n      %10s %10s %10s\n", "bytes", "pack, us", "lists, us");
	for (unsigned i = 0; i < SIZES; i++) {
		panel.size[i] = homework_sizes[i];
		for (unsigned m = 0; m < METHODS; m++)
			panel.point[m][i].value = homework_sizes[i] / h->us[m][i] * 1e-3;
		printf("      %10" PRIu32 " %10.1f %10.1f\n", homework_sizes[i], h->us[0][i],
		       h->us[1][i]);
	}
	putchar('\n');
	if (file)
		plot_write(file, &plot);
	if (!file || ferror(file) || fclose(file))
		homework_say(h, false, "the comparison: %s: %s", path, strerror(errno));
	else
		homework_say(h, true, "the comparison over %d sizes: %s", SIZES, path);
}

static void homework_check(struct homework *h, const char *picture)
{
	struct homework_layout layout = {.piece = calloc(PIECES_MAX, sizeof(*layout.piece))};
	unsigned sizes = 0, failed;

	if (!layout.piece) {
		homework_say(h, false, "%s", strerror(ENOMEM));
		return;
	}
	for (unsigned i = 0; i < SIZES; i++, sizes++)
		if (!homework_layout(h, homework_sizes[i], &layout))
			break;
	if (sizes == SIZES)
		homework_say(h, true, "the layout: %u pieces of %" PRIu32 " bytes", layout.pieces,
			     homework_sizes[SIZES - 1]);
	for (unsigned m = 0; m < METHODS && sizes == SIZES; m++) {
		failed = h->failed;
		for (unsigned i = 0; i < SIZES && h->failed == failed; i++) {
			progress_show("runs", m * SIZES + i, METHODS * SIZES + 2);
			if (homework_layout(h, homework_sizes[i], &layout))
				homework_run(h, homework_methods[m], homework_sizes[i], &layout,
					     false, &h->us[m][i]);
		}
		if (h->failed == failed)
			homework_say(h, true,
				     "%s: every byte is where it belongs, and no other has changed",
				     homework_methods[m]);
	}
	if (!h->failed && homework_layout(h, TRACED_BYTES, &layout))
		homework_check_lists(h, &layout);
	if (!h->failed)
		homework_draw(h, picture);
	free(layout.piece);
}

static void homework_clean(const struct homework *h)
{
	static const char *const names[] = {"layout",	    "client",	  "server",
					    "client.log",   "server.log", "client.pcapng",
					    "server.pcapng"};
	char path[HOMEWORK_PATH];

	for (unsigned i = 0; i < sizeof(names) / sizeof(*names); i++)
		unlink(homework_path(h, names[i], path));
	rmdir(h->directory);
}

int homework_command(int argc, char **argv)
{
	struct option_reader reader = option_read(argc, argv);
	struct homework h = {.port = 20000 + (unsigned)getpid() % 10000};
	const char *word, *picture = "homework.svg", *verb = NULL, *program = NULL;
	char path[4096];

	while ((word = option_next(&reader))) {
		if (!strcmp(word, "--output"))
			picture = reader.value;
		else if (!verb)
			verb = reader.value;
		else if (!program)
			program = reader.value;
		else
			return usage_error("homework", "one program, not two: %s", reader.value);
	}
	if (reader.wrong)
		return EXIT_USAGE;
	if (!verb || strcmp(verb, homework_verbs[0]) || !program)
		return usage_error("homework", "expected: verbatim homework check PROGRAM");
	h.program = realpath(program, path);
	if (!h.program || access(h.program, X_OK)) {
		fprintf(stderr, "verbatim homework: %s: %s\n", program, strerror(errno));
		return EXIT_FAILURE;
	}
	snprintf(h.directory, sizeof(h.directory), "%s/verbatim-homework-XXXXXX",
		 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	if (!mkdtemp(h.directory)) {
		fprintf(stderr, "verbatim homework: %s: %s\n", h.directory, strerror(errno));
		return EXIT_FAILURE;
	}
	homework_check(&h, picture);
	homework_clean(&h);
	puts(h.failed ? "\nNot yet." : "\nAll of it is right.");
	return h.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
