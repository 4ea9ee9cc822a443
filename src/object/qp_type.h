/* SPDX-License-Identifier: BSD-2-Clause */
/* Types of QPs and their traits (qp_type.def). */
#ifndef VERBATIM_OBJECT_QP_TYPE_H
#define VERBATIM_OBJECT_QP_TYPE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "wire/opcode.h"

enum qp_trait {
	QP_CONNECTED	= 1 << 0,
	QP_RELIABLE	= 1 << 1,
	QP_DATAGRAM	= 1 << 2,
	QP_MULTICAST	= 1 << 3,
	QP_XRC		= 1 << 4,
	QP_RAW		= 1 << 5,
};

/* Rows of qp_type.def, in order. */
enum qp_kind {
#define QP_TYPE(name, traits, service) QP_KIND_##name,
#include "object/qp_type.def"
#undef QP_TYPE
	QP_KIND_COUNT
};

#define QP_TYPES 16u			/* enum ibv_qp_type of all types that could have a row */

struct qp_type {
	const char *name;		/* NULL: no such row */
	uint8_t traits;
	enum service service;
	enum qp_kind kind;
};

extern const struct qp_type qp_types[QP_TYPES];

static inline bool qp_type_has(enum ibv_qp_type type, enum qp_trait trait)
{
	return qp_types[type % QP_TYPES].traits & trait;
}

bool qp_type_is_supported(enum ibv_qp_type type);
const char *qp_type_name(enum ibv_qp_type type);

#endif
