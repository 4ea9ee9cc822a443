/* SPDX-License-Identifier: BSD-2-Clause */
/* Objects of the model: found by handle, number or key, one after the other, by their names
 * (model.h). */
#include <stdio.h>

#include "check/model.h"

size_t check_place(uint64_t key)
{
	return (size_t)((key * 0x9e3779b97f4a7c15u) >> 52) & (CHECK_TABLE - 1);
}

struct check_object *check_find(const struct check_model *model, uint64_t handle)
{
	struct check_object *object = model->table[check_place(handle)];

	while (object && object->handle != handle)
		object = object->next;
	return object;
}

static struct check_object *object_of_number(struct check_object *const *table, uint32_t number)
{
	struct check_object *object = table[check_place(number)];

	while (object && object->number != number)
		object = object->by_number;
	return object;
}

struct check_object *check_find_qp(const struct check_model *model, uint32_t number)
{
	return object_of_number(model->qps, number);
}

struct check_object *check_find_region(const struct check_model *model, uint32_t lkey)
{
	return object_of_number(model->regions, lkey);
}

struct check_object *check_next(const struct check_model *model, const struct check_object *object)
{
	size_t place = object ? check_place(object->handle) + 1 : 0;

	if (object && object->next)
		return object->next;
	for (; place < CHECK_TABLE; place++)
		if (model->table[place])
			return model->table[place];
	return NULL;
}

const char *check_kind_name(enum check_kind kind)
{
	static const char *const names[] = { [CHECK_NOTHING] = "object",
#define NAME(kind, name) [CHECK_##kind] = name,
					     CHECK_KINDS(NAME)
#undef NAME
	};

	return names[kind];
}

const char *check_name(const struct check_object *object, char text[64])
{
	if (object->kind == CHECK_QP)
		snprintf(text, 64, "qp 0x%06x", object->number);
	else if (object->kind == CHECK_MR)
		snprintf(text, 64, "mr with lkey 0x%08x", object->number);
	else
		snprintf(text, 64, "%s %u", check_kind_name(object->kind), object->number);
	return text;
}
