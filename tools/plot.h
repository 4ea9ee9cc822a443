/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Curves over sizes as a picture: SVG without scripts, in the colours of verbatim ladder's pages, light and dark.
 * Panels side by side; the sizes on a logarithmic axis, the values on one from 0; above them what each line is.
 */
#ifndef VERBATIM_TOOLS_PLOT_H
#define VERBATIM_TOOLS_PLOT_H

#include <stdio.h>

enum { PLOT_LINES_MAX = 8, PLOT_POINTS_MAX = 32 };

struct plot_point {
	double value, low, high;	/* low to high: a bar; value 0: there is none */
};

struct plot_panel {
	char title[48];
	unsigned points;
	double size[PLOT_POINTS_MAX];	/* bytes, ascending */
	struct plot_point point[PLOT_LINES_MAX][PLOT_POINTS_MAX];
};

struct plot {
	const char *title, *across, *up;	/* of all, of the axes */
	unsigned lines, panels;
	const char *line[PLOT_LINES_MAX];
	const struct plot_panel *panel;
};

void plot_write(FILE *out, const struct plot *plot);

#endif
