/* SPDX-License-Identifier: BSD-2-Clause */
/* The word of lock_news.h. Until the kernel was asked for a barrier (lock.c), releases make their own. */
#include "base/lock_news.h"

#ifdef LOCK_NEWS_HERE
#undef lock_news
extern _Atomic uint32_t lock_news_here __attribute__((alias("lock_news")));
#endif
_Atomic uint32_t lock_news = LOCK_OWN_BARRIER;

void lock_set_counted(bool counted)
{
	if (counted)
		atomic_fetch_or(&lock_news, LOCK_COUNTED);
	else
		atomic_fetch_and(&lock_news, ~(uint32_t)LOCK_COUNTED);
}
