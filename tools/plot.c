/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Curves as SVG (plot.h). Widths of words are those of 7 pixels a character, more than any font of
 * this size takes.
 */
#include "plot.h"

#include <math.h>
#include <string.h>

#define MARGIN 16
#define TITLE 30
#define ROW 20 /* of the legend */
#define LETTER 7.0
#define LEFT 56 /* of a panel: the values */
#define WIDTH 340
#define HEIGHT 240
#define HEAD 26
#define FOOT 44
#define GAP 14
#define TICK_GAP 46.0 /* at least so far apart */

static const char plot_style[] =
	"text{font:12px "
	"system-ui,sans-serif;fill:#16191d}.h{font-size:15px;font-weight:600}.c{text-anchor:middle}"
	".y{text-anchor:end}.s{fill:#5b636d;font-size:11px}.paper{fill:#fcfcfb}.grid{stroke:#"
	"d9dcdf}.axis{stroke:#9aa1a9}"
	"path,line{fill:none}.line{stroke-width:2}.l0{stroke:#1d5fd6}.l1{stroke:#0f7b41}.l2{stroke:"
	"#7a3fd0}.l3{stroke:#b5176f}"
	".l4{stroke:#b35c00}.l5{stroke:#05708c}.l6{stroke:#cf2222}.l7{stroke:#69727d}.l4,.l5,.l6,."
	"l7{stroke-dasharray:6 3}"
	".bar{stroke-dasharray:none;stroke-opacity:.5}"
	"@media(prefers-color-scheme:dark){text{fill:#e8eaed}.s{fill:#a2abb6}.paper{fill:#14171b}."
	"grid{stroke:#343b44}"
	".axis{stroke:#6d7681}.l0{stroke:#74a7ff}.l1{stroke:#5fcf8f}.l2{stroke:#b99bff}.l3{stroke:#"
	"ff86c3}.l4{stroke:#ffb057}"
	".l5{stroke:#5bc8e6}.l6{stroke:#ff7b72}.l7{stroke:#98a2ae}}";

/* Where the values of one panel are. */
struct plot_frame {
	double left, top, first, last, most; /* first, last: logarithms of the sizes */
};

static void plot_text(FILE *out, double x, double y, const char *classes, const char *text)
{
	fprintf(out, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", classes, x, y);
	for (; *text; text++) {
		if (*text == '<' || *text == '&')
			fputs(*text == '<' ? "&lt;" : "&amp;", out);
		else
			putc(*text, out);
	}
	fputs("</text>\n", out);
}

static double plot_x(const struct plot_frame *frame, double size)
{
	return frame->left + (log2(size) - frame->first) / (frame->last - frame->first) * WIDTH;
}

static double plot_y(const struct plot_frame *frame, double value)
{
	return frame->top + HEIGHT * (1 - value / frame->most);
}

/* 1, 2 or 5 times a power of ten, so that at most five such steps reach @most. */
static double plot_step(double most)
{
	double power = pow(10, floor(log10(most / 5)));
	double steps = most / 5 / power;

	return power * (steps <= 1 ? 1 : steps <= 2 ? 2 : steps <= 5 ? 5 : 10);
}

static void plot_rows(FILE *out, struct plot_frame *frame, double most)
{
	double step = plot_step(most > 0 ? most : 1);
	char text[24];

	frame->most = step * ceil((most > 0 ? most : 1) / step);
	for (double value = 0; value <= frame->most + step / 2; value += step) {
		double y = plot_y(frame, value);

		fprintf(out,
			"<line class=\"%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n",
			value > 0 ? "grid" : "axis", frame->left, frame->left + WIDTH, y, y);
		snprintf(text, sizeof(text), "%g", fabs(value) < step / 2 ? 0 : value);
		plot_text(out, frame->left - 6, y + 4, "s y", text);
	}
}

static void plot_columns(FILE *out, const struct plot_frame *frame, const struct plot_panel *panel)
{
	double before = -TICK_GAP;
	char text[24];

	for (unsigned i = 0; i < panel->points; i++) {
		double x = plot_x(frame, panel->size[i]), size = panel->size[i];
		unsigned unit = 0;

		fprintf(out,
			"<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n",
			x, x, frame->top, frame->top + HEIGHT);
		if (x - before < TICK_GAP)
			continue;
		before = x;
		for (; size >= 1024 && fmod(size, 1024) == 0 && unit < 3; size /= 1024)
			unit++;
		snprintf(text, sizeof(text), "%.0f%s", size,
			 unit == 1   ? "K"
			 : unit == 2 ? "M"
			 : unit	     ? "G"
				     : "");
		plot_text(out, x, frame->top + HEIGHT + 16, "s c", text);
	}
}

static void plot_line(FILE *out, const struct plot_frame *frame, const struct plot_panel *panel,
		      unsigned line)
{
	const char *step = "M";

	fprintf(out, "<path class=\"line l%u\" d=\"", line);
	for (unsigned i = 0; i < panel->points; i++)
		if (panel->point[line][i].value > 0) {
			fprintf(out, "%s%.1f %.1f", step, plot_x(frame, panel->size[i]),
				plot_y(frame, panel->point[line][i].value));
			step = "L";
		}
	fputs("\"/>\n", out);
	for (unsigned i = 0; i < panel->points; i++)
		if (panel->point[line][i].high > panel->point[line][i].low)
			fprintf(out, "<path class=\"bar l%u\" d=\"M%.1f %.1fV%.1f\"/>\n", line,
				plot_x(frame, panel->size[i]),
				plot_y(frame, panel->point[line][i].low),
				plot_y(frame, panel->point[line][i].high));
}

static double plot_most(const struct plot *plot, const struct plot_panel *panel)
{
	double most = 0;

	for (unsigned line = 0; line < plot->lines; line++)
		for (unsigned i = 0; i < panel->points; i++)
			most = fmax(most,
				    fmax(panel->point[line][i].value, panel->point[line][i].high));
	return most;
}

static void plot_panel(FILE *out, const struct plot *plot, const struct plot_panel *panel,
		       double left, double top)
{
	struct plot_frame frame = {.left = left + LEFT, .top = top + HEAD};

	frame.first = log2(panel->size[0]) - 0.25;
	frame.last = log2(panel->size[panel->points - 1]) + 0.25;
	plot_text(out, frame.left + WIDTH / 2.0, top + 14, "c", panel->title);
	plot_rows(out, &frame, plot_most(plot, panel));
	plot_columns(out, &frame, panel);
	for (unsigned line = 0; line < plot->lines; line++)
		plot_line(out, &frame, panel, line);
	plot_text(out, frame.left + WIDTH / 2.0, frame.top + HEIGHT + 36, "s c", plot->across);
	plot_text(out, left, top + 14, "s", plot->up);
}

/* Draws the legend, or with no @out counts its rows. */
static unsigned plot_legend(FILE *out, const struct plot *plot, double width, double top)
{
	double x = MARGIN;
	unsigned row = 0;

	for (unsigned line = 0; line < plot->lines; line++) {
		double needed = 26 + LETTER * (double)strlen(plot->line[line]) + 16;

		if (x + needed > width - MARGIN && x > MARGIN) {
			x = MARGIN;
			row++;
		}
		if (out) {
			fprintf(out, "<path class=\"line l%u\" d=\"M%.1f %.1fh20\"/>\n", line, x,
				top + ROW * row - 4.0);
			plot_text(out, x + 26, top + ROW * row, "n", plot->line[line]);
		}
		x += needed;
	}
	return row + 1;
}

void plot_write(FILE *out, const struct plot *plot)
{
	double width = 2.0 * MARGIN + plot->panels * (double)(LEFT + WIDTH + GAP);
	unsigned rows = plot_legend(NULL, plot, width, 0);
	double top = MARGIN + TITLE + ROW * (double)rows,
	       height = top + HEAD + HEIGHT + FOOT + MARGIN;

	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
		"width=\"%.0f\" height=\"%.0f\">\n"
		"<style>%s</style>\n<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n",
		width, height, width, height, plot_style);
	plot_text(out, MARGIN, MARGIN + 14, "h", plot->title);
	plot_legend(out, plot, width, MARGIN + TITLE + 10);
	for (unsigned i = 0; i < plot->panels; i++)
		if (plot->panel[i].points)
			plot_panel(out, plot, &plot->panel[i],
				   MARGIN + i * (double)(LEFT + WIDTH + GAP), top);
	fputs("</svg>\n", out);
}
