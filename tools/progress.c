/* SPDX-License-Identifier: BSD-2-Clause */
/* The bar (progress.h). */
#include "progress.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_NS	500000000u	/* work that takes no longer has no bar */
#define EVERY_NS	100000000u
#define CELLS_MAX	40u
#define COLUMNS_OTHER	80u		/* of a terminal that does not tell */
#define AROUND		sizeof(" []  99% ")

static struct {
	const char *what;		/* NULL: nothing is under way */
	uint64_t began_ns, drawn_ns;	/* drawn 0: not yet */
} bar;

static uint64_t coarse_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static unsigned columns(void)
{
	struct winsize size;

	return !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col ? size.ws_col : COLUMNS_OTHER;
}

/* Narrow terminals have fewer cells, or none. */
static void draw(const char *what, unsigned percent)
{
	unsigned room = columns(), needed = (unsigned)(strlen(what) + AROUND);
	unsigned cells = room > needed ? room - needed : 0, full;
	char line[CELLS_MAX + 1];

	if (cells > CELLS_MAX)
		cells = CELLS_MAX;
	full = cells * percent / 100;
	memset(line, '#', full);
	memset(line + full, '.', cells - full);
	line[cells] = '\0';
	if (cells)
		fprintf(stderr, "\r%s [%s] %3u%%", what, line, percent);
	else
		fprintf(stderr, "\r%3u%%", percent);
	fflush(stderr);
}

void progress_show(const char *what, uint64_t done, uint64_t total)
{
	uint64_t now_ns = coarse_ns();
	int saved = errno;

	if (what != bar.what) {
		progress_hide();
		bar.what = what;
		bar.began_ns = now_ns;
	}
	if (total && now_ns - bar.began_ns >= PATIENCE_NS && now_ns - bar.drawn_ns >= EVERY_NS &&
	    isatty(STDERR_FILENO)) {
		bar.drawn_ns = now_ns;
		draw(what, done >= total ? 100 : (unsigned)(done * 100 / total));
	}
	errno = saved;
}

void progress_hide(void)
{
	if (bar.drawn_ns)
		fputs("\r\033[K", stderr);
	bar.what = NULL;
	bar.drawn_ns = 0;
}
