/* SPDX-License-Identifier: BSD-2-Clause */
/* Protection domain: a number that keys, QPs and AHs must share, and a count of its users. */
#ifndef VERBATIM_OBJECT_PD_H
#define VERBATIM_OBJECT_PD_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdint.h>

#include "base/list.h"
#include "object/handle.h"

struct pd {
	struct ibv_pd ibv;		/* first: what the application holds */
	uint32_t number;		/* unique in the process, never 0 */
	/*
	 * MRs, MWs, QPs, SRQs, AHs: destroy gives EBUSY unless 0. A count that publishes nothing.
	 */
	_Atomic uint32_t users;
	struct handle handle;
};

static inline struct pd *to_pd(struct ibv_pd *ibv)
{
	return (struct pd *)ibv;
}

#endif
