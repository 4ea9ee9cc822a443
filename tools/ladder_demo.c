/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim ladder --demo: runs the stories (tools/ladder/story.c) as `verbatim trace` does, two processes each,
 * makes a page of each and an index. The traces stay beside the pages, for Wireshark.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ladder.h"
#include "ladder_template.h"
#include "tool.h"

#define STORY_PROGRAM	"ladder-story"
#define TRACES		"traces"
#define TRIES		10
#define PICTURE_ROWS	14u
#define PICTURE_WIDTH	220
#define PICTURE_HEIGHT	150

struct demo_story { const char *name, *title, *text; unsigned lost; bool again; enum ladder_kind kind; };

/* Of one run: its picture, and whether it went as it is told. */
struct demo_made {
	const struct demo_story *story;
	FILE *picture;
	bool fits;
};

static const struct demo_story demo_stories[] = {
#define STORY(id, name, title, client_fault, server_fault, lost, again, kind, text) \
	{ name, title, text, lost, again, kind },
#include "ladder/story.def"
#undef STORY
};

/* ---- running ---- */

/* In the child. Packets by UDP, so that they are those of a network; one device with 127.0.0.1. */
static void __attribute__((noreturn)) demo_exec(const char *program, const char *story, const char *trace)
{
	const char *words[] = { "trace", "--output", trace, "--payload", "all", "--", program, story };
	char *arguments[sizeof(words) / sizeof(*words) + 1] = { NULL };

	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		if (!(arguments[i] = strdup(words[i])))
			_exit(1);
	setenv("VERBATIM_DEVICES", "lo", 1);
	setenv("VERBATIM_MEMORY", "off", 1);
	unsetenv("VERBATIM_FAULT");
	unsetenv("VERBATIM_MTU");
	unsetenv("VERBATIM_TRACE");
	exit(trace_command(sizeof(words) / sizeof(*words), arguments));
}

static int demo_run(const char *program, const char *story, const char *trace)
{
	int status;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (!child)
		demo_exec(program, story, trace);
	if (child < 0 || waitpid(child, &status, 0) != child) {
		fprintf(stderr, "verbatim ladder: cannot run %s: %s\n", program, strerror(errno));
		return 1;
	}
	if (status) {
		fprintf(stderr, "verbatim ladder: the story '%s' went wrong: VERBATIM_EXPLAIN=1 verbatim ladder "
			"--demo says why; verbatim doctor looks at this machine\n", story);
		return 1;
	}
	return 0;
}

/* ---- files ---- */

static int demo_directory(const char *path)
{
	struct stat status;

	if (!mkdir(path, 0777))
		return 0;
	if (errno == EEXIST && !stat(path, &status) && S_ISDIR(status.st_mode))
		return 0;
	fprintf(stderr, "verbatim ladder: %s: %s\n", path, strerror(errno));
	return 1;
}

/* ---- the index ---- */

/* A small ladder of the first packets, in SVG. */
static void demo_picture(const struct ladder *ladder, FILE *out)
{
	unsigned rows = ladder->packets < PICTURE_ROWS ? ladder->packets : PICTURE_ROWS;
	unsigned lanes = ladder->lanes ? ladder->lanes : 1;
	double gap = lanes > 1 ? (PICTURE_WIDTH - 40.0) / (lanes - 1) : 0;
	double step = (PICTURE_HEIGHT - 26.0) / (rows ? rows : 1);

	fprintf(out, "<svg viewBox=\"0 0 %d %d\" aria-hidden=\"true\">", PICTURE_WIDTH, PICTURE_HEIGHT);
	for (unsigned i = 0; i < lanes; i++)
		fprintf(out, "<line class=\"life\" x1=\"%.1f\" x2=\"%.1f\" y1=\"4\" y2=\"%d\"/>", 20 + i * gap,
			20 + i * gap, PICTURE_HEIGHT - 4);
	for (unsigned i = 0; i < rows; i++) {
		const struct ladder_packet *packet = &ladder->packet[i];
		bool lost = packet->flags & (LADDER_LOST | LADDER_DROPPED);
		double part = packet->flags & LADDER_LOST ? .62 : packet->flags & LADDER_DROPPED ? .9 : 1;
		double x0 = 20 + packet->from * gap, x1 = x0 + (20 + packet->to * gap - x0) * part;
		double y0 = 10 + i * step, y1 = y0 + step * .75 * part;

		fprintf(out, "<line class=\"k%u%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>",
			packet->kind, packet->flags & LADDER_RETRANSMISSION ? " again" : "", x0, y0, x1, y1);
		if (lost)
			fprintf(out, "<path class=\"lost\" d=\"M%.1f %.1fl8 8m0 -8l-8 8\"/>", x1 - 4, y1 - 4);
		else
			fprintf(out, "<circle class=\"k%u\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\"/>", packet->kind,
				x1, y1);
	}
	fputs("</svg>", out);
}

static void demo_made(const struct ladder *ladder, void *context)
{
	struct demo_made *made = context;
	unsigned lost = 0, again = 0, seen = 0;

	for (unsigned i = 0; i < ladder->packets; i++) {
		lost += (ladder->packet[i].flags & LADDER_LOST) != 0;
		again += (ladder->packet[i].flags & LADDER_RETRANSMISSION) != 0;
		seen += ladder->packet[i].kind == made->story->kind;
	}
	made->fits = seen && lost == made->story->lost && (again > 0) == made->story->again;
	rewind(made->picture);
	demo_picture(ladder, made->picture);
}

static void demo_html(FILE *out, const char *text, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++) {
		if (text[i] == '<')
			fputs("&lt;", out);
		else if (text[i] == '&')
			fputs("&amp;", out);
		else
			putc(text[i], out);
	}
}

/* The first paragraph of a story. */
static void demo_card(FILE *out, unsigned number, const struct demo_story *story, const char *picture)
{
	const char *end = strstr(story->text, "\n\n");

	fprintf(out, "<a class=\"card\" href=\"%s.html\"><div class=\"picture\">%s</div><h2>%u. ", story->name,
		picture ? picture : "", number);
	demo_html(out, story->title, strlen(story->title));
	fputs("</h2><p>", out);
	demo_html(out, story->text, end ? (size_t)(end - story->text) : strlen(story->text));
	fputs("</p></a>\n", out);
}

/* Runs the story, and makes its page. 0 or 1. */
static int demo_try(const char *directory, const char *program, unsigned number,
		    struct demo_made *made)
{
	char trace[PATH_MAX + 64], page_path[PATH_MAX + 64], title[128], *paths[] = { trace };
	const struct demo_story *story = made->story;
	struct ladder_page page = { .title = title, .about = story->text, .home = "index.html", .made = demo_made,
				    .context = made };
	struct stat found;

	snprintf(trace, sizeof(trace), "%s/" TRACES "/%s.pcapng", directory, story->name);
	snprintf(page_path, sizeof(page_path), "%s/%s.html", directory, story->name);
	snprintf(title, sizeof(title), "%u. %s", number, story->title);
	if (demo_run(program, story->name, trace))
		return 1;
	if (stat(trace, &found) || !found.st_size) {
		fprintf(stderr, "verbatim ladder: the story '%s' left no trace in %s: is there room?\n",
			story->name, trace);
		return 1;
	}
	return ladder_make_page(paths, 1, &page, page_path);
}

static int demo_story_page(const char *directory, const char *program, unsigned number, FILE *index)
{
	char *picture = NULL;
	size_t bytes;
	struct demo_made made = { .story = &demo_stories[number],
				  .picture = open_memstream(&picture, &bytes) };
	int status = 0;

	if (!made.picture)
		return 1;
	for (unsigned i = 0; !status && !made.fits && i < TRIES; i++)
		status = demo_try(directory, program, number + 1, &made);
	if (!status && !made.fits)
		fprintf(stderr, "verbatim ladder: %s/%s.html: not as it is told: this machine is busy\n",
			directory, made.story->name);
	fclose(made.picture);
	if (!status) {
		printf("%s/%s.html: %s\n", directory, made.story->name, made.story->title);
		demo_card(index, number + 1, made.story, picture);
	}
	free(picture);
	return status;
}

static int demo_pages(const char *directory, const char *program, FILE *index)
{
	int status = 0;

	fwrite(ladder_index_begin, 1, ladder_index_begin_bytes, index);
	for (unsigned i = 0; !status && i < sizeof(demo_stories) / sizeof(*demo_stories); i++)
		status = demo_story_page(directory, program, i, index);
	fwrite(ladder_index_end, 1, ladder_index_end_bytes, index);
	return status;
}

int ladder_demo(const char *directory)
{
	char library[PATH_MAX], program[PATH_MAX + 64], path[PATH_MAX];
	FILE *index;
	int status;

	if (library_directory(library, sizeof(library)))
		return 1;
	snprintf(program, sizeof(program), "%s/" STORY_PROGRAM, library);
	if (snprintf(path, sizeof(path), "%s/" TRACES, directory) >= (int)sizeof(path) - 64) {
		fprintf(stderr, "verbatim ladder: %s: %s\n", directory, strerror(ENAMETOOLONG));
		return 1;
	}
	if (demo_directory(directory) || demo_directory(path))
		return 1;
	snprintf(path, sizeof(path), "%s/index.html", directory);
	index = fopen(path, "we");
	if (!index) {
		fprintf(stderr, "verbatim ladder: %s: %s\n", path, strerror(errno));
		return 1;
	}
	status = demo_pages(directory, program, index);
	if (ferror(index) | fclose(index) && !status) {
		fprintf(stderr, "verbatim ladder: %s: %s\n", path, strerror(errno));
		status = 1;
	}
	if (!status)
		printf("%s: open it in a browser\n", path);
	return status;
}
