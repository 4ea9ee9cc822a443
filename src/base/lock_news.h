/* SPDX-License-Identifier: BSD-2-Clause */
/* What concerns the locks of the process (base/lock.h), in a word that one look tells to who releases one. */
#ifndef VERBATIM_BASE_LOCK_NEWS_H
#define VERBATIM_BASE_LOCK_NEWS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* 0 mostly. No part of a lock, which its next holder may destroy once that is free. */
extern _Atomic uint32_t lock_news;
#ifdef LOCK_NEWS_HERE	/* In the library that has it (meson.build), by a name that needs no table of addresses. */
extern _Atomic uint32_t lock_news_here __attribute__((visibility("hidden")));
#define lock_news lock_news_here
#endif

enum lock_news_bits {
	LOCK_COUNTED = 1,	/* log_hold() and log_let_go() are called */
	LOCK_OWN_BARRIER = 2,	/* who releases a lock makes a barrier (lock.c) */
	LOCK_SLEEPER = 4	/* and a multiple of it: threads sleep for locks */
};

/* From now on locks are counted (base/log.h), or no longer. */
void lock_set_counted(bool counted);

#endif
