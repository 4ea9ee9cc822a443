/* SPDX-License-Identifier: BSD-2-Clause */
/* Rules of paths: what an address vector has to say, on a port of Ethernet above all. */
#include "check/finding.h"

#define report(rule, ...) check_report(model, (rule), object, NULL, 0, NULL, __VA_ARGS__)

void rule_path_without_grh(struct check_model *model, const struct check_record *ask)
{
	const struct check_object *object = check_find(model, ask->object);

	if (ask->has_path && ask->needs_grh && !ask->is_global)
		report(RULE_ADDRESS_001, "%s: is_global is 0, and port %u takes no path without",
		       ask->call, ask->port);
}

void rule_path_from_nowhere(struct check_model *model, const struct check_record *ask)
{
	const struct check_object *object = check_find(model, ask->object);

	if ((ask->has_path || ask->has_port) && ask->port - 1 >= ask->ports)
		report(RULE_ADDRESS_002, "%s: port %u: they are counted from 1, and there are %u",
		       ask->call, ask->port, ask->ports);
	else if (ask->has_path && ask->is_global && !ask->has_sgid)
		report(RULE_ADDRESS_002, "%s: sgid_index %u: the port has no GID there", ask->call,
		       ask->sgid_index);
}

void rule_path_to_nowhere(struct check_model *model, const struct check_record *ask)
{
	const struct check_object *object = check_find(model, ask->object);

	if (ask->has_path && ask->is_global && !ask->has_dgid)
		report(RULE_ADDRESS_003, "%s: the GID of the peer (grh.dgid) is all zeros",
		       ask->call);
}
