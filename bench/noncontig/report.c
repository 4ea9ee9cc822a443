/* SPDX-License-Identifier: BSD-2-Clause */
/* What was measured: a table on stdout, a CSV file, and a plot that gnuplot draws from the same points. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "noncontig.h"

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

static unsigned fastest(const struct report *report, const struct result *result)
{
	unsigned best = METHOD_COUNT;

	for (unsigned m = 0; m < METHOD_COUNT; m++)
		if (report->methods >> m & 1 && result->median_us[m] > 0 &&
		    (best == METHOD_COUNT || result->median_us[m] < result->median_us[best]))
			best = m;
	return best;
}

static void print_row(const struct report *report, const struct result *result)
{
	unsigned best = fastest(report, result);
	char block[16], number[32];

	printf("  %8s %8u", size_text(result->layout.block, block), result->layout.count);
	for (unsigned m = 0; m < METHOD_COUNT; m++) {
		if (!(report->methods >> m & 1))
			continue;
		if (result->median_us[m] <= 0)
			snprintf(number, sizeof(number), "-");
		else if (report->bandwidth)
			snprintf(number, sizeof(number), "%.2f", gigabytes_per_s(result, result->median_us[m]));
		else
			snprintf(number, sizeof(number), "%.1f", result->median_us[m]);
		printf(" %12s%c", number, m == best ? '*' : ' ');
	}
	putchar('\n');
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
			printf("\n%s bytes of data, %s (*: the best)\n     block    count",
			       size_text(message, bytes), report->bandwidth ? "GB/s" : "median us");
			for (unsigned m = 0; m < METHOD_COUNT; m++)
				if (report->methods >> m & 1)
					printf(" %12s ", methods[m].name);
			putchar('\n');
		}
		print_row(report, result);
	}
	printf("\nThe times contain the server's answer; a message each way without data took %.1f us. "
	       "Every byte was checked.\n",
	       report->notice_us);
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

int report_csv(const struct report *report, const char *path)
{
	FILE *file = fopen(path, "w");

	if (!file) {
		fprintf(stderr, "noncontig: %s: %s\n", path, strerror(errno));
		return -1;
	}
	fprintf(file, "method,bytes,block,count,stride,median_us,least_us,GBps\n");
	for (unsigned i = 0; i < report->count; i++) {
		const struct result *result = &report->results[i];

		for (unsigned m = 0; m < METHOD_COUNT; m++)
			if (result->median_us[m] > 0)
				fprintf(file, "%s,%zu,%u,%u,%u,%.3f,%.3f,%.4f\n", methods[m].name,
					layout_bytes(&result->layout), result->layout.block,
					result->layout.count, result->layout.stride,
					result->median_us[m], result->least_us[m],
					gigabytes_per_s(result, result->median_us[m]));
	}
	return close_file(file, path);
}

/* ---- the plot ---- */

static unsigned messages(const struct report *report)
{
	unsigned count = 0;

	for (unsigned i = 0; i < report->count; i++)
		count += !i || layout_bytes(&report->results[i].layout) !=
			       layout_bytes(&report->results[i - 1].layout);
	return count;
}

/* Inline data of one message size: a block of lines per method, in the order of the plot command. */
static void write_points(FILE *gnuplot, const struct report *report, unsigned begin, unsigned end)
{
	for (unsigned m = 0; m < METHOD_COUNT; m++) {
		if (!(report->methods >> m & 1))
			continue;
		for (unsigned i = begin; i < end; i++) {
			const struct result *result = &report->results[i];

			if (result->median_us[m] > 0)
				fprintf(gnuplot, "%u %.6f\n", result->layout.block,
					gigabytes_per_s(result, result->median_us[m]));
		}
		fprintf(gnuplot, "e\n");
	}
}

static void write_plot(FILE *gnuplot, const struct report *report, unsigned begin, unsigned end)
{
	char bytes[16];
	const char *separator = "plot";

	fprintf(gnuplot, "set title '%s bytes of data'\n",
		size_text(layout_bytes(&report->results[begin].layout), bytes));
	for (unsigned m = 0; m < METHOD_COUNT; m++) {
		if (!(report->methods >> m & 1))
			continue;
		fprintf(gnuplot, "%s '-' with linespoints title '%s'", separator, methods[m].name);
		separator = ",";
	}
	fputc('\n', gnuplot);
	write_points(gnuplot, report, begin, end);
}

static void write_plots(FILE *gnuplot, const struct report *report)
{
	unsigned begin = 0;

	for (unsigned i = 1; i <= report->count; i++) {
		if (i < report->count && layout_bytes(&report->results[i].layout) ==
					 layout_bytes(&report->results[begin].layout))
			continue;
		write_plot(gnuplot, report, begin, i);
		begin = i;
	}
}

int report_plot(const struct report *report, const char *path)
{
	size_t length = strlen(path);
	bool png = length > 4 && !strcmp(path + length - 4, ".png");
	unsigned plots = messages(report);
	FILE *gnuplot;

	if (strchr(path, '\'')) {
		fprintf(stderr, "noncontig: %s: no quotation marks in the name of a plot\n", path);
		return -1;
	}
	gnuplot = popen("gnuplot", "w");
	if (!gnuplot) {
		fprintf(stderr, "noncontig: gnuplot: %s\n", strerror(errno));
		return -1;
	}
	fprintf(gnuplot, "set terminal %s size %u,420\nset output '%s'\n", png ? "png" : "svg",
		520 * plots, path);
	fprintf(gnuplot, "set multiplot layout 1,%u\nset logscale x 2\nset key left top\nset grid\n"
		"set xlabel 'block, bytes'\nset ylabel 'GB/s'\nset yrange [0:*]\n", plots);
	write_plots(gnuplot, report);
	fprintf(gnuplot, "unset multiplot\n");
	if (pclose(gnuplot)) {
		fprintf(stderr, "noncontig: gnuplot failed; is the package gnuplot-nox installed?\n");
		return -1;
	}
	return 0;
}
