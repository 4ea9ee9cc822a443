/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * VERBATIM_TRACE=FILE[,limit=N[k|M|G]][,as-packets]: this process writes its packets to a pcapng file by
 * itself, and what goes through memory as what it is. %p in FILE is the process ID. A file that another
 * process is writing is left to it: .PID is appended. One that is there is replaced, unless this process
 * wrote it, before exec(). Default limit: 1G. as-packets: requests inside the host are to go as packets.
 */
#ifndef VERBATIM_TRACE_FILE_H
#define VERBATIM_TRACE_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "trace/record.h"

/*
 * The file is there from now on, if the variable is set; else nothing happens. 0 or errno, said on stderr. It is
 * kept until the process ends: a device that is opened again goes on with it.
 */
int trace_file_open(void);
bool trace_file_is_open(void);
bool trace_file_as_packets(void);
/* Is the variable's value understood? 0, also when it is not set; EINVAL, said on stderr. */
int trace_file_check(void);
/* A packet that begins with @data, of which @bytes of record->length are there. Under any lock. */
void trace_file_packet(const struct trace_record *record, const uint8_t *data, size_t bytes);
void trace_file_operation(const struct trace_record *record,
			  const struct trace_operation *operation);
/*
 * Without the lock of a QP: what was gathered is written, or (relieve) if it is much. A process that is killed
 * loses no more than what came after it.
 */
void trace_file_flush(void);
void trace_file_relieve(void);
/* At exit(): other threads may still be at it. */
void trace_file_finish(void);

#endif
