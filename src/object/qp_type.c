/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of QP types. */
#include "object/qp_type.h"

const struct qp_type qp_types[QP_TYPES] = {
#define QP_TYPE(name, traits, service) [IBV_QPT_##name] = { #name, traits, service, QP_KIND_##name },
#include "object/qp_type.def"
#undef QP_TYPE
};

bool qp_type_is_supported(enum ibv_qp_type type)
{
	return (unsigned)type < QP_TYPES && qp_types[type].name;
}

const char *qp_type_name(enum ibv_qp_type type)
{
	return qp_type_is_supported(type) ? qp_types[type].name : "unsupported type";
}
