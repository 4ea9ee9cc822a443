/* SPDX-License-Identifier: BSD-2-Clause */
/* What was measured: a table on stdout, a CSV file, and a plot of the same points (tools/plot.h).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "noncontig.h"
#include "plot.h"

#define BUSY 0.1	       /* the part of the processors that makes numbers useless */
#define DISTINCT_ITERATIONS 8u /* fewer have no middle half to speak of */

static const char *size_text(uint64_t bytes, char out[16])
{
	static const char units[] = " KMG";
	unsigned unit = 0;

	while (bytes >= 1024 && bytes % 1024 == 0 && unit < 3) {
		bytes /= 1024;
		unit++;
	}
	snprintf(out, 16, unit ? "%llu%c" : "%llu", (unsigned long long)bytes, units[unit]);
	return out;
}

static double gigabytes_per_s(const struct result *result, double us)
{
	return (double)layout_bytes(&result->layout) / us * 1e-3;
}

static bool is_measured(const struct report *report, const struct result *result, unsigned method)
{
	return report->methods >> method & 1 && result->median_us[method] > 0;
}

static unsigned fastest(const struct report *report, const struct result *result)
{
	unsigned best = METHOD_COUNT;

	for (unsigned m = 0; m < METHOD_COUNT; m++)
		if (is_measured(report, result, m) &&
		    (best == METHOD_COUNT || result->median_us[m] < result->median_us[best]))
			best = m;
	return best;
}

/* Half of the transfers of both took times that the other's did not: else the difference may be
 * noise. */
static bool is_distinct(const struct result *result, unsigned best, unsigned other)
{
	return result->high_us[best] < result->low_us[other];
}

/* '*': the best, by more than noise; '=': one of those that cannot be told apart. */
static char mark_of(const struct report *report, const struct result *result, unsigned method)
{
	unsigned best = fastest(report, result), close = 0;

	if (report->iterations < DISTINCT_ITERATIONS || report->others > BUSY)
		return ' ';
	for (unsigned m = 0; m < METHOD_COUNT; m++)
		close += is_measured(report, result, m) && m != best &&
			 !is_distinct(result, best, m);
	if (method == best)
		return close ? '=' : '*';
	return is_measured(report, result, method) && !is_distinct(result, best, method) ? '='
											 : ' ';
}

/* Half of the width of the middle half, in percent of the median. */
static double spread_percent(const struct result *result, unsigned method)
{
	return 50 * (result->high_us[method] - result->low_us[method]) / result->median_us[method];
}

static void print_row(const struct report *report, const struct result *result)
{
	char block[16], number[32];

	printf("  %8s %8u", size_text(result->layout.block, block), result->layout.count);
	for (unsigned m = 0; m < METHOD_COUNT; m++) {
		if (!(report->methods >> m & 1))
			continue;
		if (!is_measured(report, result, m))
			snprintf(number, sizeof(number), "-");
		else
			snprintf(number, sizeof(number), "%.*f %3.0f%%", report->bandwidth ? 2 : 1,
				 report->bandwidth ? gigabytes_per_s(result, result->median_us[m])
						   : result->median_us[m],
				 spread_percent(result, m));
		printf(" %13s%c", number, mark_of(report, result, m));
	}
	putchar('\n');
}

static void report_doubts(const struct report *report)
{
	if (report->others > BUSY)
		printf("Other programs had %.0f %% of the processors: these are no numbers to "
		       "compare, and none is "
		       "marked as the best.\n",
		       100 * report->others);
	else if (report->iterations < DISTINCT_ITERATIONS)
		printf("Of fewer than %u transfers for each number nobody knows which is noise: "
		       "none is marked as the "
		       "best.\n",
		       DISTINCT_ITERATIONS);
}

void report_table(const struct report *report)
{
	size_t message = 0;
	char bytes[16];

	for (unsigned m = 0; m < METHOD_COUNT; m++)
		if (report->methods >> m & 1)
			printf("%-13s %s\n", methods[m].name, methods[m].text);
	for (unsigned i = 0; i < report->count; i++) {
		const struct result *result = &report->results[i];

		if (layout_bytes(&result->layout) != message) {
			message = layout_bytes(&result->layout);
			printf("\n%s bytes of data, %s and spread (*: the best, =: the best by no "
			       "more than noise)\n"
			       "     block    count",
			       size_text(message, bytes), report->bandwidth ? "GB/s" : "median us");
			for (unsigned m = 0; m < METHOD_COUNT; m++)
				if (report->methods >> m & 1)
					printf(" %13s ", methods[m].name);
			putchar('\n');
		}
		print_row(report, result);
	}
	printf("\nThe times contain the server's answer; a message each way without data took %.1f "
	       "us. "
	       "Half of the transfers were within the spread. Every byte was checked.\n",
	       report->notice_us);
	report_doubts(report);
}

static int close_file(FILE *file, const char *path)
{
	int bad = ferror(file);

	if (fclose(file) || bad) {
		fprintf(stderr, "noncontig: %s: %s\n", path, strerror(errno ? errno : EIO));
		return -1;
	}
	return 0;
}

int report_csv(const struct report *report)
{
	FILE *file = report->csv;

	fprintf(file,
		"method,bytes,block,count,stride,median_us,least_us,GBps,low_us,high_us,others\n");
	for (unsigned i = 0; i < report->count; i++) {
		const struct result *result = &report->results[i];

		for (unsigned m = 0; m < METHOD_COUNT; m++)
			if (is_measured(report, result, m))
				fprintf(file, "%s,%zu,%u,%u,%u,%.3f,%.3f,%.4f,%.3f,%.3f,%.2f\n",
					methods[m].name, layout_bytes(&result->layout),
					result->layout.block, result->layout.count,
					result->layout.stride, result->median_us[m],
					result->least_us[m],
					gigabytes_per_s(result, result->median_us[m]),
					result->low_us[m], result->high_us[m], report->others);
	}
	return close_file(file, report->csv_path);
}

/* ---- the plot ---- */

static struct plot_point point_of(const struct result *result, unsigned method)
{
	if (result->median_us[method] <= 0)
		return (struct plot_point){.value = 0};
	return (struct plot_point){.value = gigabytes_per_s(result, result->median_us[method]),
				   .low = gigabytes_per_s(result, result->high_us[method]),
				   .high = gigabytes_per_s(result, result->low_us[method])};
}

/* A panel for each size of messages, blocks in ascending order. */
static unsigned fill_panels(const struct report *report, const struct plot *plot,
			    const unsigned *method, struct plot_panel *panel)
{
	unsigned panels = 0;
	char bytes[16];

	for (unsigned i = 0; i < report->count; i++) {
		const struct result *result = &report->results[i];
		struct plot_panel *to;
		unsigned at;

		if (!i ||
		    layout_bytes(&result->layout) != layout_bytes(&report->results[i - 1].layout))
			snprintf(panel[panels++].title, sizeof(panel->title), "%s bytes of data",
				 size_text(layout_bytes(&result->layout), bytes));
		to = &panel[panels - 1];
		if (to->points == PLOT_POINTS_MAX)
			continue;
		for (at = to->points; at && to->size[at - 1] > result->layout.block; at--) {
			to->size[at] = to->size[at - 1];
			for (unsigned line = 0; line < plot->lines; line++)
				to->point[line][at] = to->point[line][at - 1];
		}
		to->size[at] = result->layout.block;
		for (unsigned line = 0; line < plot->lines; line++)
			to->point[line][at] = point_of(result, method[line]);
		to->points++;
	}
	return panels;
}

int report_plot(const struct report *report)
{
	static struct plot_panel panel[PLOT_POINTS_MAX];
	struct plot plot = {.title = "Blocks that do not lie side by side",
			    .across = "block, bytes",
			    .up = "GB/s",
			    .panel = panel};
	unsigned method[METHOD_COUNT];

	for (unsigned m = 0; m < METHOD_COUNT; m++)
		if (report->methods >> m & 1) {
			method[plot.lines] = m;
			plot.line[plot.lines++] = methods[m].name;
		}
	plot.panels = fill_panels(report, &plot, method, panel);
	plot_write(report->plot, &plot);
	return close_file(report->plot, report->plot_path);
}
