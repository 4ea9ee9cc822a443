/* SPDX-License-Identifier: BSD-2-Clause */
/* The programs of corpus_more.c, for the table of corpus.c, and what the two share. */
#ifndef VERBATIM_TESTS_CHECK_CORPUS_H
#define VERBATIM_TESTS_CHECK_CORPUS_H

#include "pair.h"

extern bool wrong;	/* which of the two */
/* Eight bytes, which may be refused. */
void write_to(struct pair *pair, uint64_t address, uint32_t rkey);

void path_without_grh(void);
void index_without_gid(void);
void port_from_zero(void);
void peer_without_gid(void);
void counter_misaligned(void);
void event_unread(void);
void event_kept(void);
void opcode_of_failed(void);
void channel_under_wait(void);
void one_thread_cq(void);
void window_left(void);
void thread_domain_first(void);
void more_inline(void);
void more_reads(void);
void read_into_two(void);
void long_message(void);
void datagrams_of_iwarp(void);
void path_without_lid(void);
void index_of_gid(void);
void memory_unlocked(void);
void private_data_too_long(void);
void connect_without_route(void);
void cm_event_kept(void);
void cm_id_left(void);
void cm_rejection_unread(void);
void memory_freed(void);
void memory_unmapped(void);
void memory_reallocated(void);
void memory_remapped(void);
void memory_mapped_over(void);

#endif
