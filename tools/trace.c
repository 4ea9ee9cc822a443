/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim trace [OPTION]... [--] PROGRAM [ARGUMENT]...: runs it on Verbatim and records what it, and all that it
 * starts, does with RDMA. Processes find us by VERBATIM_TRACER, a socket in a directory that only this user
 * may enter; each gets a share (trace/record.h), which is read here until the process has ended.
 *
 * It ends when the program and all processes that are traced have ended, with the program's status.
 *
 * verbatim trace [OPTION]... -p PID: the same of processes that run already (trace_attach.c), which go on.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tool.h"
#include "trace.h"
#include "trace/block.h"

#define LATE_NS		100000000ull	/* records are held so long, in case an older one comes */
#define LOOK_MAX	32768u		/* records of a process and look, ... */
#define MANY		4096u		/* ... and of all after which the next look is due at once */
#define LAST_LOOKS	64u		/* at a process that has ended, or goes on while we end */
#define RELEASE_EVERY	256u		/* records: whoever waits for room goes on while we read */
#define BUSY_MS		10		/* between looks while records come, ... */
#define IDLE_MS		50		/* ... and while none do */
#define FAILURE_NS	100000000ull	/* a ring is written so long after a failure */
#define NICE		10		/* who spins goes first, until its ring is nearly full */
#define SOURCES_MAX	1024u
#define PIDS_MAX	16u

enum { EXIT_CANNOT_EXECUTE = 126, EXIT_NOT_FOUND = 127 };

struct options {
	struct filter filter;
	struct output_options output;
	struct share_options share;
	bool rsockets, summary;
	char temporary[80];		/* the file that --summary alone needs */
	pid_t pid[PIDS_MAX];		/* processes that run already */
	unsigned pids;
	int first;			/* index of the program */
};

/* Large: what one run of the command knows. */
struct tracer {
	struct options options;
	struct output *output;
	struct sorter sorter;
	struct source *sources;
	unsigned count, living;		/* of them, and those that have not ended */
	char directory[64], socket[96];
	int listener, signals;
	pid_t child;
	bool child_ended, stopping, seen_any;
	int status;
	uint64_t failed_ns;		/* 0: nothing failed, or it was written */
};

static uint64_t wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- options ---- */

static bool parse_size(const char *text, uint64_t *bytes)
{
	static const char units[] = "kMG";
	char *end;
	unsigned long long value = strtoull(text, &end, 10);
	const char *unit = *end ? strchr(units, *end) : NULL;

	if (*text < '0' || *text > '9' || value > 1ull << 40)
		return false;
	if (unit) {
		value <<= 10 * (unit - units + 1);
		end++;
	}
	*bytes = value;
	return !*end;
}

static bool bad_size(const char *option, const char *text)
{
	usage_error("trace", "%s: invalid size '%s': expected a number of bytes, 65536 or more, or 64k, 16M, 1G",
		    option, text);
	return false;
}

static bool parse_big(const char *option, const char *text, uint64_t *bytes)
{
	return (parse_size(text, bytes) && *bytes >= 65536) || bad_size(option, text);
}

static bool parse_payload(struct options *options, const char *text)
{
	uint64_t bytes = 65535;

	if (strcmp(text, "all") && (!parse_size(text, &bytes) || !bytes || bytes > 65535)) {
		usage_error("trace", "--payload: invalid value '%s': expected 1 to 65535, bytes of each packet, "
			    "or all", text);
		return false;
	}
	options->share.payload_bytes = (uint32_t)bytes;
	options->share.wanted |= TRACE_PAYLOAD;
	options->output.version = TRACE_AS_PACKETS;
	return true;
}

static bool parse_pid(struct options *options, const char *text)
{
	char *end;
	long pid = strtol(text, &end, 10);

	if (*text < '1' || *text > '9' || *end || pid > INT32_MAX) {
		usage_error("trace", "-p: invalid process ID '%s': expected a number, as 'verbatim stats' or "
			    "ps show it", text);
		return false;
	}
	if (options->pids == PIDS_MAX) {
		usage_error("trace", "-p: at most 16 processes");
		return false;
	}
	options->pid[options->pids++] = (pid_t)pid;
	return true;
}

static bool parse_word(struct options *options, const char *word, const char *value)
{
	if (!strcmp(word, "--output"))
		options->output.file = value;
	else if (!strcmp(word, "--text"))
		options->output.text = true;
	else if (!strcmp(word, "--summary"))
		options->summary = true;
	else if (!strcmp(word, "--rsockets"))
		options->rsockets = true;
	else if (!strcmp(word, "--as-packets"))
		options->output.version = TRACE_AS_PACKETS;
	else if (!strcmp(word, "--filter"))
		return filter_parse(&options->filter, value);
	else if (!strcmp(word, "--ring"))
		return parse_big("--ring", value, &options->output.ring_bytes);
	else if (!strcmp(word, "--limit"))
		return parse_big("--limit", value, &options->output.limit_bytes);
	else if (!strcmp(word, "--payload"))
		return parse_payload(options, value);
	else if (!strcmp(word, "--pid"))
		return parse_pid(options, value);
	return true;
}

static bool check(const struct options *options, int argc)
{
	if (!options->output.file && !options->output.text && !options->summary)
		usage_error("trace", "say where it is to go: -o FILE (for Wireshark), --text (lines "
			    "here), --summary, or several");
	else if (options->output.ring_bytes && !options->output.file)
		usage_error("trace", "--ring needs a file to be written to: -o FILE");
	else if (options->pids && options->first < argc)
		usage_error("trace", "either a process that runs (-p %d) or a program to start, not both",
			    (int)options->pid[0]);
	else if (options->pids && options->rsockets)
		usage_error("trace", "--rsockets is for a program to start: a process that runs has its "
			    "libraries");
	else if (!options->pids && options->first >= argc)
		usage_error("trace", "no program given: verbatim trace -o FILE [--] PROGRAM [ARGUMENT]..., "
			    "or -p PID");
	else
		return true;
	return false;
}

static bool parse(struct options *options, int argc, char **argv)
{
	struct option_reader reader = option_read(argc, argv);
	const char *word;

	options->first = argc;
	options->output.version = TRACE_AS_OPERATIONS;
	while ((word = option_next(&reader))) {
		if (!*word) {
			options->first = reader.at - 1;
			break;
		}
		if (!parse_word(options, word, reader.value))
			return false;
	}
	options->share.wanted |= options->filter.kinds ? options->filter.kinds : TRACE_KINDS;
	if (reader.wrong || !check(options, argc))
		return false;
	if (options->share.wanted & TRACE_PAYLOAD && isatty(STDERR_FILENO))
		fprintf(stderr,
			"verbatim trace: with --payload requests inside this host go as packets, "
			"and are slower\n");
	return true;
}

/* ---- processes ---- */

static int send_memfd(int connection, int memfd)
{
	union { struct cmsghdr header; char bytes[CMSG_SPACE(sizeof(int))]; } control = { 0 };
	char byte = 0;
	struct iovec piece = { .iov_base = &byte, .iov_len = 1 };
	struct msghdr message = { .msg_iov = &piece, .msg_iovlen = 1, .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	struct cmsghdr *header = CMSG_FIRSTHDR(&message);

	header->cmsg_level = SOL_SOCKET;
	header->cmsg_type = SCM_RIGHTS;
	header->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(header), &memfd, sizeof(memfd));
	return sendmsg(connection, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == 1 ? 0 : -1;
}

/* One more traced process; @connection is the tracer's from now on. */
static void add_source(struct tracer *tracer, int connection, pid_t pid)
{
	int memfd = tracer->count < SOURCES_MAX ? share_create(&tracer->options.share) : -1;
	struct source *source = memfd >= 0 ? source_open(memfd, pid, connection) : NULL;

	if (!source || send_memfd(connection, memfd)) {
		fprintf(stderr, "verbatim trace: process %d is not traced: %s\n", (int)pid,
			tracer->count >= SOURCES_MAX ? "there are 1024 already" : strerror(errno));
		if (source)
			source_close(source);
		else
			close(connection);
	} else {
		source->next = tracer->sources;
		tracer->sources = source;
		tracer->count++;
		tracer->living++;
	}
	if (memfd >= 0)
		close(memfd);
}

static void accept_process(struct tracer *tracer)
{
	int connection = accept4(tracer->listener, NULL, NULL, SOCK_CLOEXEC);
	struct ucred peer;
	socklen_t size = sizeof(peer);

	if (connection < 0)
		return;
	if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size))
		close(connection);
	else
		add_source(tracer, connection, peer.pid);
}

/* The process has connected and mapped its share: its name stands there. */
static void describe(struct tracer *tracer, struct source *source, uint64_t time_ns)
{
	char program[sizeof(source->share->program)];

	memcpy(program, source->share->program, sizeof(program));
	program[sizeof(program) - 1] = '\0';
	for (char *c = program; *c; c++)
		if (*c < ' ' || *c == '"' || *c == '\\' || *c == 0x7f)
			*c = '?';
	snprintf(source->name, sizeof(source->name), "%s(%d)", program[0] ? program : "?", (int)source->pid);
	source->is_wanted = filter_takes_process(&tracer->options.filter, program, source->pid);
	tracer->seen_any = true;
	if (!source->is_wanted) {
		source->is_described = true;
		return;
	}
	output_describe(tracer->output, source);
	output_event(tracer->output, source, process, .time_ns = time_ns, .name = "start",
		     .program = program, .pid = (uint64_t)source->pid,
		     .parent = SOME(source->share->parent));
}

static void take_record(void *owner, struct source *source, const struct trace_record *record)
{
	struct tracer *tracer = owner;
	const uint8_t *data = (const uint8_t *)(record + 1);

	if (!source->is_described)
		describe(tracer, source, record->time_ns);
	if (!source->is_wanted || !filter_takes(&tracer->options.filter, record, data))
		return;
	output_record(tracer->output, source, record, data);
	if (record->flags & TRACE_FAILURE && !tracer->failed_ns)
		tracer->failed_ns = record->time_ns;
}

static uint64_t source_lost(const struct source *source)
{
	return atomic_load_explicit(&source->share->lost, memory_order_relaxed);
}

static void tell_lost(struct tracer *tracer, struct source *source, uint64_t time_ns)
{
	uint64_t lost = source_lost(source);

	source->lost_ns = 0;
	if (lost == source->lost || !source->is_described || !source->is_wanted)
		return;
	output_event(tracer->output, source, lost, .time_ns = time_ns, .records = lost - source->lost);
	source->lost = lost;
}

/* How many records came. None is of the future, whatever the process wrote. */
static unsigned read_source(struct tracer *tracer, struct source *source)
{
	static union { uint8_t bytes[TRACE_RECORD_MAX]; struct trace_record head; } buffer;
	const struct trace_record *record;
	uint64_t now_ns = 0;
	unsigned n;

	for (n = 0; n < LOOK_MAX && (record = source_read(source, buffer.bytes)); n++) {
		if (record->time_ns > now_ns)
			now_ns = wall_ns();
		if (record->time_ns > now_ns)
			buffer.head.time_ns = now_ns;
		if (record->time_ns > source->newest_ns)
			source->newest_ns = record->time_ns;
		if (!sorter_add(&tracer->sorter, source, record))
			source->lost--;	/* one more is missing */
		if (n % RELEASE_EVERY == 0)
			source_release(source);
	}
	source_release(source);
	return n;
}

static void tell_end(struct tracer *tracer, struct source *source, uint64_t time_ns)
{
	bool known = source->pid == tracer->child && tracer->child_ended,
	     killed = WIFSIGNALED(tracer->status);

	if (!source->is_described)
		describe(tracer, source, time_ns);
	tell_lost(tracer, source, time_ns);
	if (!source->is_wanted)
		return;
	if (source->is_broken)
		fprintf(stderr, "verbatim trace: %s wrote what is no trace: the rest of it is left out\n",
			source->name);
	output_event(tracer->output, source, process, .time_ns = time_ns, .name = "end",
		     .pid = (uint64_t)source->pid,
		     .exit = { known && !killed, (uint64_t)WEXITSTATUS(tracer->status) },
		     .signal = { known && killed, (uint64_t)WTERMSIG(tracer->status) });
}

/* ---- the loop ---- */

static void note_failure(struct tracer *tracer, uint64_t now_ns)
{
	if (!tracer->failed_ns || now_ns - tracer->failed_ns < FAILURE_NS)
		return;
	output_keep(tracer->output);
	tracer->failed_ns = 0;
}

/*
 * It has ended, or we do: what it wrote until then is read, and written when its time comes. No record of it
 * is left behind that time, whatever the clock has done.
 */
static void leave_source(struct tracer *tracer, struct source *source)
{
	for (unsigned look = 0; look < LAST_LOOKS && read_source(tracer, source); look++)
		;
	source->ended_ns = wall_ns();
	if (source->ended_ns < source->newest_ns)
		source->ended_ns = source->newest_ns;
	tracer->living--;
}

/* When something has to be told of the source; UINT64_MAX: nothing. */
static uint64_t news_ns(const struct source *source)
{
	return source->lost_ns ? source->lost_ns : source->ended_ns ? source->ended_ns : UINT64_MAX;
}

/* The oldest news, up to @until_ns. False: there is none. */
static bool tell_news(struct tracer *tracer, uint64_t until_ns)
{
	struct source **oldest = NULL, **link, *source;

	for (link = &tracer->sources; *link; link = &(*link)->next)
		if (news_ns(*link) <= until_ns) {
			until_ns = news_ns(*link);
			oldest = link;
		}
	if (!oldest || until_ns == UINT64_MAX)
		return false;
	source = *oldest;
	sorter_take(&tracer->sorter, until_ns, take_record, tracer);
	if (source->lost_ns) {
		tell_lost(tracer, source, until_ns);
		return true;
	}
	tell_end(tracer, source, until_ns);
	*oldest = source->next;
	tracer->count--;
	source_close(source);
	return true;
}

/* What is older, of all processes, in the order of time. */
static void write_until(struct tracer *tracer, uint64_t until_ns)
{
	while (tell_news(tracer, until_ns))
		;
	sorter_take(&tracer->sorter, until_ns, take_record, tracer);
}

static bool hung_up(const struct source *source)
{
	struct pollfd look = { .fd = source->connection };

	return poll(&look, 1, 0) > 0 && look.revents & (POLLHUP | POLLERR | POLLNVAL);
}

/* Nobody is left who could have something to say. */
static bool is_over(const struct tracer *tracer)
{
	return !tracer->living && (tracer->child_ended || !tracer->child);
}

/* Reads all processes, and writes what is old enough. Returns how many records came. */
static unsigned trace_turn(struct tracer *tracer)
{
	uint64_t now_ns = wall_ns();
	struct source *source;
	unsigned records = 0;

	for (source = tracer->sources; source; source = source->next) {
		if (source->ended_ns)
			continue;
		records += read_source(tracer, source);
		if (!source->lost_ns && source_lost(source) != source->lost)
			source->lost_ns = now_ns;
		if (hung_up(source))
			leave_source(tracer, source);
	}
	write_until(tracer, now_ns - LATE_NS);
	note_failure(tracer, now_ns);
	if (!records)
		output_flush(tracer->output);
	return records;
}

static void reap(struct tracer *tracer)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (pid != tracer->child)
			continue;
		tracer->child_ended = true;
		tracer->status = status;
		if (status)
			tracer->failed_ns = 1;	/* now */
	}
}

static void take_signals(struct tracer *tracer)
{
	struct signalfd_siginfo info;

	while (read(tracer->signals, &info, sizeof(info)) == sizeof(info)) {
		if (info.ssi_signo == SIGCHLD)
			reap(tracer);
		/* A terminal sends SIGINT to the program, too: that decides whether it ends. */
		else if (info.ssi_signo == SIGTERM || tracer->child_ended || !tracer->child)
			tracer->stopping = true;
	}
}

static void trace_loop(struct tracer *tracer)
{
	unsigned records = 0;

	setpriority(PRIO_PROCESS, 0, getpriority(PRIO_PROCESS, 0) + NICE);
	while (!tracer->stopping && !is_over(tracer)) {
		struct pollfd fds[] = { { .fd = tracer->signals, .events = POLLIN },
					{ .fd = tracer->listener, .events = POLLIN } };

		poll(fds, 2, records > MANY ? 0 : records ? BUSY_MS : IDLE_MS);
		if (fds[0].revents)
			take_signals(tracer);
		if (fds[1].revents)
			accept_process(tracer);
		records = trace_turn(tracer);
	}
	for (struct source *source = tracer->sources; source; source = source->next)
		if (!source->ended_ns)
			leave_source(tracer, source);
	write_until(tracer, UINT64_MAX);
	sorter_close(&tracer->sorter);
}

/* ---- the program ---- */

static int tracer_listen(struct tracer *tracer)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *temporary = getenv("TMPDIR");

	snprintf(tracer->directory, sizeof(tracer->directory), "%s/verbatim-trace-XXXXXX",
		 temporary && *temporary == '/' && strlen(temporary) < 32 ? temporary : "/tmp");
	if (!mkdtemp(tracer->directory)) {
		fprintf(stderr, "verbatim trace: cannot make %s: %s\n", tracer->directory, strerror(errno));
		return -1;
	}
	snprintf(tracer->socket, sizeof(tracer->socket), "%s/socket", tracer->directory);
	strcpy(address.sun_path, tracer->socket);
	tracer->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (tracer->listener < 0 || bind(tracer->listener, (struct sockaddr *)&address, sizeof(address)) ||
	    listen(tracer->listener, 128)) {
		fprintf(stderr, "verbatim trace: %s: %s\n", tracer->socket, strerror(errno));
		return -1;
	}
	return 0;
}

static void tracer_unlisten(struct tracer *tracer)
{
	if (tracer->listener >= 0)
		close(tracer->listener);
	if (tracer->socket[0])
		unlink(tracer->socket);
	if (tracer->directory[0])
		rmdir(tracer->directory);
}

static int block_signals(struct tracer *tracer, sigset_t *before)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGQUIT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, before);
	signal(SIGPIPE, SIG_IGN);
	tracer->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	return tracer->signals < 0 ? -1 : 0;
}

static bool is_capture(const char *name)
{
	const char *end = strrchr(name, '.');

	return end && (!strcmp(end, ".pcapng") || !strcmp(end, ".pcap"));
}

static void become_program(const struct tracer *tracer, char **argv, const sigset_t *mask)
{
	static struct variable variables[VARIABLE_COUNT];

	if (environment_make(variables, tracer->options.rsockets))
		_exit(EXIT_FAILURE);
	for (int i = 0; i < VARIABLE_COUNT; i++)
		setenv(variables[i].name, variables[i].value, 1);
	setenv("VERBATIM_TRACER", tracer->socket, 1);
	signal(SIGPIPE, SIG_DFL);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(argv[0], argv);
	if (errno != ENOENT && is_capture(argv[0]))
		fprintf(stderr, "verbatim trace: %s is a capture, no program: verbatim ladder makes a page of it, "
			"tshark -r prints it\n", argv[0]);
	else
		fprintf(stderr, "verbatim trace: %s: %s\n", argv[0], strerror(errno));
	_exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_EXECUTE);
}

static int exit_status(const struct tracer *tracer, bool written)
{
	if (tracer->child && !tracer->seen_any && tracer->child_ended && WIFEXITED(tracer->status) &&
	    WEXITSTATUS(tracer->status) < EXIT_CANNOT_EXECUTE)
		fprintf(stderr, "verbatim trace: no process opened an RDMA device of Verbatim: nothing was "
			"recorded (verbatim doctor says what a program would use)\n");
	if (tracer->child_ended && WIFSIGNALED(tracer->status))
		return 128 + WTERMSIG(tracer->status);
	if (tracer->child_ended && WEXITSTATUS(tracer->status))
		return WEXITSTATUS(tracer->status);
	return written ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Those of -p. The file is opened once it is certain that there is something to write. */
static int trace_processes(struct tracer *tracer)
{
	const struct options *options = &tracer->options;
	const uint64_t attached_ns = wall_ns();		/* no record is older */
	sigset_t mask;

	for (unsigned i = 0; i < options->pids; i++) {
		struct source *source = source_attach(options->pid[i], &options->share);

		if (!source)
			return EXIT_FAILURE;
		source->next = tracer->sources;
		tracer->sources = source;
		tracer->count++;
		tracer->living++;
	}
	if (output_open(&tracer->output, &options->output) || block_signals(tracer, &mask))
		return EXIT_FAILURE;
	for (struct source *source = tracer->sources; source; source = source->next) {
		describe(tracer, source, attached_ns);
		source_tell_known(source, attached_ns, take_record, tracer);
	}
	trace_loop(tracer);
	return output_close(tracer->output) ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* What is summed up has to be in a file, be it for a moment. */
static bool trace_to_file(struct options *options)
{
	const char *directory = getenv("TMPDIR");
	int fd;

	if (options->output.file)
		return true;
	snprintf(options->temporary, sizeof(options->temporary), "%s/verbatim-summary-XXXXXX",
		 directory && *directory == '/' && strlen(directory) < 32 ? directory : "/tmp");
	fd = mkstemp(options->temporary);
	if (fd < 0) {
		fprintf(stderr, "verbatim trace: cannot make %s: %s\n", options->temporary, strerror(errno));
		return false;
	}
	close(fd);
	options->output.file = options->temporary;
	return true;
}

static int trace_program(struct tracer *tracer, char **argv);

/* @status: of the program, which goes before. */
static int trace_sum_up(const struct options *options, int status)
{
	char *const paths[] = { (char *)options->output.file };
	int summed = trace_summary(paths, 1);

	if (options->temporary[0])
		unlink(options->temporary);
	return status ? status : summed;
}

int trace_command(int argc, char **argv)
{
	static struct tracer tracer = { .listener = -1, .signals = -1 };
	struct options *options = &tracer.options;
	int status;

	if (!parse(options, argc, argv))
		return EXIT_USAGE;
	if (options->summary && !options->pids && is_capture(argv[options->first]))
		return trace_summary(argv + options->first, argc - options->first);
	if (options->summary && !trace_to_file(options))
		return EXIT_FAILURE;
	status = options->pids ? trace_processes(&tracer) : trace_program(&tracer, argv);
	return options->summary ? trace_sum_up(options, status) : status;
}

static int trace_program(struct tracer *tracer, char **argv)
{
	sigset_t mask;
	bool written;

	if (output_open(&tracer->output, &tracer->options.output))
		return EXIT_FAILURE;
	if (block_signals(tracer, &mask) || tracer_listen(tracer)) {
		tracer_unlisten(tracer);
		return EXIT_FAILURE;
	}
	tracer->child = fork();
	if (tracer->child == 0)
		become_program(tracer, argv + tracer->options.first, &mask);
	if (tracer->child > 0)
		trace_loop(tracer);
	else
		perror("verbatim trace: fork");
	tracer_unlisten(tracer);
	written = output_close(tracer->output);
	return tracer->child > 0 ? exit_status(tracer, written) : EXIT_FAILURE;
}
