/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * verbatim link: which interfaces are devices, under which names: what rxe_cfg and `rdma link` do for rdma_rxe.
 * Here: its command line and its completion. Changes are settings in the user's file (config/file.h): they
 * concern programs that list devices afterwards.
 */
#include "link_command.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net/naming.h"
#include "tool.h"

#define OPERANDS_MAX 8

const char *const link_verbs[] = { "show", "add", "delete", "rename", NULL };

/* "add NAME netdev INTERFACE", also with the "type" that `rdma link add` wants. */
static int parse_add(int count, char **operand)
{
	const char *interface = NULL;
	int i = 2;

	for (; i + 1 < count; i += 2)
		if (!strcmp(operand[i], "netdev"))
			interface = operand[i + 1];
		else if (strcmp(operand[i], "type") ||
			 (strcmp(operand[i + 1], "verbatim") && strcmp(operand[i + 1], "rxe")))
			break;
	if (count < 2 || i != count || !interface)
		return usage_error("link", "expected: verbatim link add NAME netdev INTERFACE");
	return link_add(operand[1], interface);
}

static int run_verb(int count, char **operand, bool json)
{
	const char *verb = count ? operand[0] : "show";
	struct nearest_word nearest = nearest_begin(verb);

	if (!strcmp(verb, "show"))
		return count > 2 ? usage_error("link", "expected: verbatim link show [NAME] [--json]")
				 : link_show(count > 1 ? operand[1] : NULL, json);
	if (json)
		return usage_error("link", "--json is of show: verbatim link show --json");
	if (!strcmp(verb, "add"))
		return parse_add(count, operand);
	if (!strcmp(verb, "delete") || !strcmp(verb, "del"))
		return count != 2 ? usage_error("link", "expected: verbatim link delete NAME")
				  : link_delete(operand[1]);
	if (!strcmp(verb, "rename"))
		return count != 3 ? usage_error("link", "expected: verbatim link rename NAME NEW")
				  : link_rename(operand[1], operand[2]);
	for (const char *const *known = link_verbs; *known; known++)
		nearest_offer(&nearest, *known);
	return usage_error("link", "no command '%s'%s%s; expected show, add, delete or rename; see 'verbatim link "
			   "--help'", verb, nearest.best ? "; the nearest: " : "",
			   nearest.best ? nearest.best : "");
}

int link_command(int argc, char **argv)
{
	struct option_reader reader = option_read(argc, argv);
	char *operand[OPERANDS_MAX];
	const char *word;
	bool json = false;
	int count = 0;

	while ((word = option_next(&reader))) {
		if (*word)
			json = true;
		else if (count == OPERANDS_MAX)
			return usage_error("link", "unexpected argument '%s'", reader.value);
		else
			operand[count++] = (char *)reader.value;
	}
	return reader.wrong ? EXIT_USAGE : run_verb(count, operand, json);
}

static void offer_devices(const char *prefix)
{
	struct named_netdev *named;
	int count;

	if (naming_list(&named, &count))
		return;
	for (int i = 0; i < count; i++)
		offer(named[i].name, prefix);
	free(named);
}

static void offer_interfaces(const char *prefix)
{
	struct netdev *list;
	int count;

	if (netdev_list(&list, &count))
		return;
	for (int i = 0; i < count; i++)
		offer(list[i].name, prefix);
	free(list);
}

void link_offer(int count, char **operand, const char *prefix)
{
	bool is_add = !strcmp(operand[0], "add");

	if (count == 1 && !is_add)
		offer_devices(prefix);
	else if (is_add && count == 2)
		offer("netdev", prefix);
	else if (is_add && count == 3)
		offer_interfaces(prefix);
}
