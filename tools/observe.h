/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What processes answer to "stats", as records of named values (docs/stats.md), for `verbatim stats` and
 * `verbatim top`. Their answers are checked: a value is a number, true, false, or text without control
 * characters.
 */
#ifndef VERBATIM_TOOLS_OBSERVE_H
#define VERBATIM_TOOLS_OBSERVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "inspect/client.h"

/* @text as in JSON: of a text what stands between the quotes, with escapes \u00XX only. */
struct observed_value {
	const char *name, *text;
	bool quoted;
};

struct observed_record {
	const char *kind;		/* "qp" */
	struct observed_value *value;
	unsigned count;
	bool hidden;			/* of another device than was asked for */
};

struct observed_process {
	struct inspected process;
	bool shown;			/* it has answered; else process.why */
	bool cut;			/* but not to the end */
	char *text;
	struct observed_value *values;
	struct observed_record *record;
	unsigned count;
};

struct observed {
	struct observed_process *process;
	unsigned count;
	unsigned shown;
	char why[256];			/* after a failure */
};

/*
 * Ask all processes (@what NULL), the one of a PID, those of a program, or those that have a device open, by
 * @command: "stats", "stats process" or "stats qps". Waits @wait_ms for the proofs of all, and as
 * long for the answer of each. 0; ESRCH: there is none; errno: observed->why. To be freed in both cases.
 */
int observe(const char *what, const char *command, unsigned wait_ms, struct observed *observed);
void observed_free(struct observed *observed);

enum observed_field {
#define PROCESS(type, field, ...) OBSERVED_process_##field,
#define DEVICE(type, field, ...) OBSERVED_device_##field,
#define QP(type, field, ...) OBSERVED_qp_##field,
#define CQ(type, field, ...) OBSERVED_cq_##field,
#define SRQ(type, field, ...) OBSERVED_srq_##field,
#define MR(type, field, ...) OBSERVED_mr_##field,
#define CM_ID(type, field, ...) OBSERVED_cm_id_##field,
#include "inspect/stats.def"
	OBSERVED_FIELDS
};
/* The name of a field: a row of inspect/stats.def, or the compiler says that there is none. */
#define OBSERVED(kind, field) (&#field[0 * OBSERVED_##kind##_##field])

/* Fields of a record; "" and 0: it has none of that name. */
const char *observed_text(const struct observed_record *record, const char *name);
uint64_t observed_number(const struct observed_record *record, const char *name);
/* The first record of a kind, or NULL. */
const struct observed_record *observed_first(const struct observed_process *process, const char *kind);

/* The width of the terminal; 120 if the output goes elsewhere, and COLUMNS does not say otherwise. */
unsigned output_columns(void);

/* "1.5M": at most 5 characters. */
void short_number(uint64_t number, char text[static 8]);
/* "1.5 GiB" */
void short_bytes(uint64_t bytes, char text[static 12]);

/* ---- observe_text.c, observe_json.c, observe_prometheus.c: to stdout ---- */

/* @all: counters that are 0, too. */
void observed_print(const struct observed *observed, bool all);
void observed_print_json(const struct observed *observed, bool all);
void observed_print_prometheus(const struct observed *observed, bool all);

#endif
