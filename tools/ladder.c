/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim ladder FILE... -o PAGE.html|PICTURE.svg: captures as a message sequence chart. The options; what is
 * made of the files is in ladder_*.c. The page is written beside its place and renamed: a full disk
 * leaves no half page, and the old one. Devices and pipes are written to.
 */
#include "ladder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/small_file.h"
#include "progress.h"
#include "tool.h"

#define ABOUT_MAX	65536u

struct ladder_options {
	const char *output, *title, *about_file, *home;
	bool demo, plain;
};

static char *ladder_read_text(const char *path)
{
	const char *why = NULL;
	int fd = small_file_open(path, &why);
	FILE *file = fd < 0 ? NULL : small_file_stream(fd, &why);
	char *text = malloc(ABOUT_MAX);
	size_t bytes;

	if (!file || !text) {
		fprintf(stderr, "verbatim ladder: %s: %s\n", path, why ? why : strerror(errno));
		if (file)
			fclose(file);
		free(text);
		return NULL;
	}
	bytes = fread(text, 1, ABOUT_MAX - 1, file);
	text[bytes] = '\0';
	fclose(file);
	return text;
}

static int ladder_write_failed(const char *path, FILE *file, const char *temporary)
{
	int err = errno ? errno : EIO;

	fprintf(stderr, "verbatim ladder: %s: %s: no page was written\n", path, strerror(err));
	if (file)
		fclose(file);
	if (temporary)
		unlink(temporary);
	return 1;
}

typedef int ladder_write_fn(const struct ladder *ladder, const struct ladder_page *page, FILE *out);

/* By the ending of its name. */
static ladder_write_fn *ladder_writer(const char *path)
{
	size_t length = strlen(path);

	return length > 4 && !strcmp(path + length - 4, ".svg") ? ladder_svg_write : ladder_page_write;
}

/* Not devices and pipes: root would have a file in place of /dev/stdout. */
static bool ladder_may_be_replaced(const char *path)
{
	struct stat status;

	return stat(path, &status) || S_ISREG(status.st_mode);
}

/* False: errno, of whichever write failed. */
static bool ladder_put(const struct ladder *ladder, const struct ladder_page *page, const char *path, FILE *file)
{
	int err;

	errno = 0;
	err = ladder_writer(path)(ladder, page, file);
	if (err)
		errno = err;
	return !err && !fflush(file) && !ferror(file);
}

static int ladder_write_there(const struct ladder *ladder, const struct ladder_page *page, const char *path)
{
	FILE *file = fopen(path, "we");

	if (!file)
		return ladder_write_failed(path, NULL, NULL);
	if (!ladder_put(ladder, page, path, file))
		return ladder_write_failed(path, file, NULL);
	return fclose(file) ? ladder_write_failed(path, NULL, NULL) : 0;
}

static int ladder_write_file(const struct ladder *ladder, const struct ladder_page *page, const char *path)
{
	char temporary[4096];
	FILE *file;

	if (!strcmp(path, "-")) {
		ladder_page_write(ladder, page, stdout);
		return fflush(stdout) || ferror(stdout) ? ladder_write_failed("standard output", NULL, NULL) : 0;
	}
	if (!ladder_may_be_replaced(path))
		return ladder_write_there(ladder, page, path);
	if (snprintf(temporary, sizeof(temporary), "%s.%d.part", path, (int)getpid()) >= (int)sizeof(temporary)) {
		errno = ENAMETOOLONG;
		return ladder_write_failed(path, NULL, NULL);
	}
	file = fopen(temporary, "we");
	if (!file)
		return ladder_write_failed(path, NULL, NULL);
	if (!ladder_put(ladder, page, path, file))
		return ladder_write_failed(path, file, temporary);
	if (fclose(file) || rename(temporary, path))
		return ladder_write_failed(path, NULL, temporary);
	return 0;
}

static void ladder_say_problems(const struct ladder *ladder)
{
	unsigned count[LADDER_CAUSES] = { 0 };
	const char *comma = "";

	for (unsigned i = 0; i < ladder->problems; i++)
		count[ladder->problem[i].cause]++;
	printf("problems: %u", ladder->problems);
	for (unsigned i = 0; i < LADDER_CAUSES; i++)
		if (count[i]) {
			printf("%s %u %s", *comma ? comma : ":", count[i],
			       ladder_cause_name((enum ladder_cause)i));
			comma = ",";
		}
	putchar('\n');
}

static void ladder_say(const struct ladder *ladder, const struct ladder_page *page)
{
	const struct capture *capture = ladder->capture;

	for (unsigned i = 0; i < capture->warnings; i++)
		fprintf(stderr, "verbatim ladder: %s: %s\n", page->paths[capture->warning[i].file],
			capture->warning[i].text);
	if (ladder->too_many)
		fprintf(stderr, "verbatim ladder: only the first %u packets and events are shown\n",
			LADDER_PACKETS_MAX);
	if (ladder->missing)
		fprintf(stderr, "verbatim ladder: %llu records are missing: the tracer was too slow or the disk "
			"full\n", (unsigned long long)ladder->missing);
	if (ladder->cut)
		fprintf(stderr, "verbatim ladder: %u packets left out: their headers were not captured whole\n",
			ladder->cut);
	if (ladder->unread)
		fprintf(stderr, "verbatim ladder: %u packets left out: link type %u is not read (tcpdump -L "
			"lists an interface's; -y EN10MB is)\n", ladder->unread, ladder->unread_linktype);
	if (ladder->rests && ladder->packets)
		fprintf(stderr, "verbatim ladder: %u later fragments of IP datagrams left out: the first ones "
			"have the headers\n", ladder->rests);
}

/* There would be nothing on the page: say what the files have instead. */
static int ladder_say_empty(const struct ladder *ladder, const struct ladder_page *page)
{
	const struct capture *capture = ladder->capture;

	fprintf(stderr, "verbatim ladder: no packet of RDMA in %s, and no page was written: %zu frames, of which "
		"%u of other protocols, %u of link types that are not read, %u cut before their headers "
		"end, %u of unknown opcodes, %u later fragments; RoCEv2 is UDP port 4791, RoCE v1 Ethernet "
		"type 0x8915\n",
		capture->files == 1 ? page->paths[0] : "these files", capture->records, ladder->left_out,
		ladder->unread, ladder->cut, ladder->unknown, ladder->rests);
	return 1;
}

/* The lanes of processes themselves are none. */
static unsigned queue_pairs(const struct ladder *ladder)
{
	unsigned count = 0;

	for (unsigned i = 0; i < ladder->lanes; i++)
		count += ladder->lane[i].qpn != LADDER_NO_QP;
	return count;
}

int ladder_make_page(char *const *paths, int count, struct ladder_page *page, const char *output)
{
	struct capture capture = { .record = NULL };
	struct ladder ladder;
	int err, status;

	for (int i = 0; i < count; i++) {
		err = capture_read(&capture, paths[i]);
		progress_hide();
		if (!err)
			continue;
		if (err == EINVAL && capture_other_form(paths[i]))
			fprintf(stderr, "verbatim ladder: %s: %s\n", paths[i], capture_other_form(paths[i]));
		else if (err == EINVAL)
			fprintf(stderr, "verbatim ladder: %s: neither pcapng nor pcap: make one with 'verbatim "
				"trace', VERBATIM_TRACE=FILE or tcpdump -w FILE udp port 4791\n", paths[i]);
		else
			fprintf(stderr, "verbatim ladder: %s: %s\n", paths[i], strerror(err));
		capture_free(&capture);
		return 1;
	}
	capture_sort(&capture);
	if (!page->paths)
		page->paths = paths;
	err = ladder_make(&ladder, &capture, paths);
	progress_hide();
	if (err) {
		fprintf(stderr, "verbatim ladder: out of memory: %zu packets\n", capture.records);
		capture_free(&capture);
		return 1;
	}
	ladder_say(&ladder, page);
	if (!ladder.packets && !ladder.events)
		status = ladder_say_empty(&ladder, page);
	else
		status = ladder_write_file(&ladder, page, output);
	progress_hide();
	if (!status && !page->made && strcmp(output, "-")) {
		ladder_say_problems(&ladder);
		printf("%s: %u packets, ", output, ladder.packets - ladder.operations);
		if (ladder.operations)
			printf("%u operations through memory, ", ladder.operations);
		printf("%u events, %u queue pairs\n", ladder.events, queue_pairs(&ladder));
	}
	if (!status && page->made)
		page->made(&ladder, page->context);
	ladder_free(&ladder);
	capture_free(&capture);
	return status;
}

/* Operands go to the front of argv; returns how many, or -1 when an option was wrong. */
static int ladder_read_options(int argc, char **argv, struct ladder_options *options)
{
	struct option_reader reader = option_read(argc, argv);
	const char *word;
	int files = 0;

	while ((word = option_next(&reader))) {
		if (!strcmp(word, "--output"))
			options->output = reader.value;
		else if (!strcmp(word, "--title"))
			options->title = reader.value;
		else if (!strcmp(word, "--about"))
			options->about_file = reader.value;
		else if (!strcmp(word, "--home"))
			options->home = reader.value;
		else if (!strcmp(word, "--plain"))
			options->plain = true;
		else if (!strcmp(word, "--demo"))
			options->demo = true;
		else
			argv[files++] = (char *)reader.value;
	}
	return reader.wrong ? -1 : files;
}

int ladder_command(int argc, char **argv)
{
	struct ladder_options options = { .output = NULL };
	struct ladder_page page;
	int files = ladder_read_options(argc, argv, &options), status;
	char *about = NULL;

	if (files < 0)
		return EXIT_USAGE;
	if (options.demo)
		return ladder_demo(options.output ? options.output : "ladder-demo", argv, files);
	if (!files)
		return usage_error("ladder", "no FILE given; 'verbatim ladder --demo' needs none");
	if (!options.output)
		return usage_error("ladder", "where to? verbatim ladder %s -o PAGE.html", argv[0]);
	if (options.about_file && !(about = ladder_read_text(options.about_file)))
		return 1;
	page = (struct ladder_page){ .title = options.title, .about = about, .home = options.home,
				     .plain = options.plain };
	status = ladder_make_page(argv, files, &page, options.output);
	free(about);
	return status;
}
