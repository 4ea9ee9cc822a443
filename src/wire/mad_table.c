/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of those who take management datagrams: mad_table.h. */
#include "wire/mad_table.h"

#include "base/bytes.h"

enum { METHOD_AT = 3, TRANSACTION_AT = 8, OUI_AT = 37 };	/* bytes of a MAD */

bool mad_is_answer(const uint8_t mad[MAD_BYTES])
{
	return (mad[METHOD_AT] & MAD_METHOD_RESPONSE) || mad[METHOD_AT] == MAD_METHOD_TRAP_REPRESS;
}

static bool ports_meet(uint32_t a, uint32_t b)
{
	return a == b || a == MAD_ANY_PORT || b == MAD_ANY_PORT;
}

static bool versions_meet(uint8_t a, uint8_t b)
{
	return a == b || a == MAD_ANY_VERSION || b == MAD_ANY_VERSION;
}

bool mad_table_is_taken(const struct list *table, const struct mad_key *key)
{
	const struct list *node;

	list_for_each(node, table) {
		const struct mad_key *row = &list_entry(node, struct mad_row, node)->key;

		if (!ports_meet(row->port, key->port) || row->qpn != key->qpn || row->class != key->class ||
		    !versions_meet(row->class_version, key->class_version) ||
		    (mad_class_has_oui(key->class) && row->oui != key->oui))
			continue;
		if (row->methods[0] & key->methods[0] || row->methods[1] & key->methods[1] ||
		    (!row->transaction && !key->transaction))
			return true;
	}
	return false;
}

/* Of a row of the port: its class, and with a request its method. */
static bool key_has(const struct mad_key *key, const uint8_t *mad, bool answer)
{
	unsigned method = mad[METHOD_AT] & (MAD_METHOD_RESPONSE - 1u);

	if (key->class != mad[1] || !versions_meet(key->class_version, mad[2]) ||
	    (mad_class_has_oui(key->class) && key->oui != get_be24(mad + OUI_AT)))
		return false;
	return answer ? !key->transaction : key->methods[method / 64] >> (method % 64) & 1;
}

struct mad_row *mad_table_find(const struct list *table, uint32_t port, uint32_t qpn,
			       const uint8_t mad[MAD_BYTES])
{
	uint32_t transaction = get_be32(mad + TRANSACTION_AT);
	bool answer = mad_is_answer(mad);
	struct mad_row *found = NULL;
	struct list *node;

	list_for_each(node, table) {
		struct mad_row *row = list_entry(node, struct mad_row, node);

		if (!ports_meet(row->key.port, port))
			continue;
		/* By whatever QP, of whatever class: nobody else has begun it. */
		if (answer && row->key.transaction && row->key.transaction == transaction)
			return row;
		if (!found && row->key.qpn == qpn && key_has(&row->key, mad, answer))
			found = row;
	}
	return found;
}
