/* SPDX-License-Identifier: BSD-2-Clause */
/* Parsing of control messages (control.h): no other code reads their bytes. */
#include "local/grant/control.h"

#include <string.h>

#include "base/range.h"
#include "transport/refusal.h"

static bool key_is_sound(const struct control *control)
{
	uint64_t skip = control->host - control->block;

	if (!control->region)
		return !control->mapped;
	if (range_wraps(control->start, control->length) ||
	    range_wraps(control->host, control->length))
		return false;
	return !control->mapped ||
	       (!range_wraps(control->block, control->block_bytes) &&
		control->host >= control->block && skip <= control->block_bytes &&
		control->length <= control->block_bytes - skip);
}

bool control_parse(const uint8_t *data, size_t bytes, struct control *control)
{
	if (bytes != sizeof(*control))
		return false;
	memcpy(control, data, sizeof(*control));
	if (control->kind < CONTROL_ASK_QP || control->kind >= CONTROL_KINDS || control->mapped > 2)
		return false;
	if ((control->refusal || control->kind == CONTROL_DROPPED) && !drop_is_told(control->refusal))
		return false;
	return control->kind != CONTROL_KEY || key_is_sound(control);
}
