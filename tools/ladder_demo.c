/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim ladder --demo: runs the stories (tools/ladder/story.c) in the simulated world, makes a
 * page of each and an index: the same bytes on each machine. The traces stay beside the pages, for
 * Wireshark.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ladder.h"
#include "ladder/story.h"
#include "ladder_template.h"
#include "tool.h"

#define TRACES		"traces"
#define PICTURE_ROWS	14u
#define PICTURE_WIDTH	220
#define DEMO_LANES_MAX	16u
#define PICTURE_HEIGHT	150

struct demo_story { const char *name, *title, *text; bool lost, again; enum ladder_kind kind; };

/* Of one run: its picture, and whether it went as it is told. */
struct demo_made {
	const struct demo_story *story;
	FILE *picture;
	bool fits;
};

static const struct demo_story demo_stories[] = {
#define STORY(id, name, title, loses, nth, again, kind, text) { name, title, text, nth > 0, again, kind },
#include "ladder/story.def"
#undef STORY
};

#define STORIES (sizeof(demo_stories) / sizeof(*demo_stories))

/* ---- running ---- */

static int demo_run(unsigned number, const char *trace)
{
	FILE *file = fopen(trace, "we");
	char why[512] = "";
	bool good = file && story_run(number, file, why, sizeof(why));

	if (!file || (fclose(file) && good)) {
		good = false;
		snprintf(why, sizeof(why), "%s", strerror(errno));
	}
	if (!good)
		fprintf(stderr, "verbatim ladder: the story '%s' left no trace in %s: %s\n",
			demo_stories[number].name, trace, why);
	return !good;
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

/* Queue pairs side by side, the client's left, those that talk to each other inside. Returns how many. */
static unsigned demo_columns(const struct ladder *ladder, unsigned column[DEMO_LANES_MAX])
{
	unsigned count = 0, lanes = ladder->lanes < DEMO_LANES_MAX ? ladder->lanes : DEMO_LANES_MAX;

	for (int process = 0; process < (int)ladder->processes; process++)
		for (unsigned i = 0; i < lanes; i++) {
			unsigned lane = process ? lanes - 1 - i : i;

			if (ladder->lane[lane].process == process && ladder->lane[lane].qpn != LADDER_NO_QP)
				column[lane] = count++;
		}
	return count;
}

/* A small ladder of the first packets, in SVG. */
static void demo_picture(const struct ladder *ladder, FILE *out)
{
	unsigned rows = ladder->packets < PICTURE_ROWS ? ladder->packets : PICTURE_ROWS;
	unsigned column[DEMO_LANES_MAX] = { 0 }, lanes = demo_columns(ladder, column);
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
		double x0 = 20 + column[packet->from % DEMO_LANES_MAX] * gap;
		double x1 = x0 + (20 + column[packet->to % DEMO_LANES_MAX] * gap - x0) * part;
		double y0 = 10 + i * step, y1 = y0 + step * .75 * part;

		fprintf(out, "<line class=\"k%u%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>",
			packet->kind, packet->flags & LADDER_RETRANSMISSION ? " again" : "", x0, y0, x1, y1);
		if (lost)
			fprintf(out, packet->flags & LADDER_LOST ?
				"<path class=\"lost\" d=\"M%.1f %.1fl8 8m0 -8l-8 8\"/>" :
				"<path class=\"lost\" d=\"M%.1f %.1fm4 -2v12\"/>", x1 - 4, y1 - 4);
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
static int demo_story_files(const char *directory, unsigned number, struct demo_made *made)
{
	char trace[PATH_MAX + 64], page_path[PATH_MAX + 64], title[128], *paths[] = { trace }, *shown[1];
	const struct demo_story *story = &demo_stories[number];
	struct ladder_page page = { .title = title, .about = story->text, .home = "index.html", .made = demo_made,
				    .context = made, .paths = shown };

	snprintf(trace, sizeof(trace), "%s/" TRACES "/%s.pcapng", directory, story->name);
	shown[0] = trace + strlen(directory) + 1;	/* as seen from the page, wherever that is made */
	snprintf(page_path, sizeof(page_path), "%s/%s.html", directory, story->name);
	snprintf(title, sizeof(title), "%u. %s", number + 1, story->title);
	return demo_run(number, trace) || ladder_make_page(paths, 1, &page, page_path);
}

static int demo_story_page(const char *directory, unsigned number, FILE *index)
{
	char *picture = NULL;
	size_t bytes;
	struct demo_made made = { .story = &demo_stories[number], .picture = open_memstream(&picture, &bytes) };
	int status;

	if (!made.picture)
		return 1;
	status = demo_story_files(directory, number, &made);
	if (!status && !made.fits) {
		fprintf(stderr, "verbatim ladder: %s/%s.html: not as it is told: this is a mistake in Verbatim\n",
			directory, made.story->name);
		status = 1;
	}
	fclose(made.picture);
	if (!status) {
		printf("%s/%s.html: %s\n", directory, made.story->name, made.story->title);
		demo_card(index, number + 1, made.story, picture);
	}
	free(picture);
	return status;
}

/* Of those named, or of all. */
static bool demo_is_wanted(const struct demo_story *story, char *const *names, int count)
{
	for (int i = 0; i < count; i++)
		if (!strcmp(names[i], story->name))
			return true;
	return !count;
}

static int demo_pages(const char *directory, char *const *names, int count, FILE *index)
{
	int status = 0;

	fwrite(ladder_index_begin, 1, ladder_index_begin_bytes, index);
	for (unsigned i = 0; !status && i < STORIES; i++)
		if (demo_is_wanted(&demo_stories[i], names, count))
			status = demo_story_page(directory, i, index);
	fwrite(ladder_index_end, 1, ladder_index_end_bytes, index);
	return status;
}

/* The first name that is no story's; NULL: all are. */
static const char *demo_unknown(char *const *names, int count)
{
	for (int i = 0; i < count; i++) {
		bool found = false;

		for (unsigned j = 0; j < STORIES; j++)
			found = found || !strcmp(names[i], demo_stories[j].name);
		if (!found)
			return names[i];
	}
	return NULL;
}

static int demo_refuse(const char *name)
{
	fprintf(stderr, "verbatim ladder: no story is called '%s'; there are:", name);
	for (unsigned i = 0; i < STORIES; i++)
		fprintf(stderr, " %s", demo_stories[i].name);
	fputc('\n', stderr);
	return EXIT_USAGE;
}

int ladder_demo(const char *directory, char *const *names, int count)
{
	char path[PATH_MAX];
	const char *unknown = demo_unknown(names, count);
	FILE *index;
	int status;

	if (unknown)
		return demo_refuse(unknown);
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
	status = demo_pages(directory, names, count, index);
	if (ferror(index) | fclose(index) && !status) {
		fprintf(stderr, "verbatim ladder: %s: %s\n", path, strerror(errno));
		status = 1;
	}
	if (!status)
		printf("%s: open it in a browser\n", path);
	return status;
}
