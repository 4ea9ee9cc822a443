/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the transport keeps per QP: the requester (our requests, until they are answered) and the
 * responder (the peer's requests). Data only; the rules are in transport/.
 */
#ifndef VERBATIM_OBJECT_QP_STREAM_H
#define VERBATIM_OBJECT_QP_STREAM_H

#include <stdbool.h>
#include <stdint.h>

struct requester {
	uint32_t next_psn;		/* of the next new request */
};

struct responder {
	uint32_t expected_psn;
};

#endif
