/* SPDX-License-Identifier: BSD-2-Clause */
/* Which row of a table takes a management datagram, and which rows cannot be in one table. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/bytes.h"
#include "wire/mad_table.h"

enum { GET = 0x01, SEND = 0x03, TRAP = 0x05, TRAP_REPRESS = 0x07, GET_ANSWER = 0x81, SA = 0x03, VENDOR = 0x32 };

static struct list table;

static void add(struct mad_row *row, struct mad_key key)
{
	row->key = key;
	assert_false(mad_table_is_taken(&table, &key));
	list_add_tail(&table, &row->node);
}

static const uint8_t *mad_of(uint8_t class, uint8_t method, uint64_t transaction, uint32_t oui)
{
	static uint8_t mad[MAD_BYTES];
	const struct mad_header header = { .base_version = 1, .class = class, .class_version = 2, .method = method,
					   .transaction_id = transaction };

	mad_write(&header, mad);
	put_be24(mad + 37, oui);
	return mad;
}

static int setup(void **state)
{
	list_init(&table);
	return 0;
}

#define GSI_KEY(...)	((struct mad_key){ .port = 1, .qpn = QPN_GSI, .class_version = 2, __VA_ARGS__ })

static void a_request_goes_by_class_and_method(void **state)
{
	struct mad_row get, rest, cm;

	add(&get, GSI_KEY(.class = SA, .methods = { 1u << GET }, .transaction = 1));
	add(&rest, GSI_KEY(.class = SA, .methods = { ~(1ull << GET), UINT64_MAX }, .transaction = 2));
	add(&cm, (struct mad_key){ .port = 1, .qpn = QPN_GSI, .class = MAD_CLASS_CM,
				   .class_version = MAD_ANY_VERSION, .methods = MAD_ALL_METHODS });
	assert_ptr_equal(mad_table_find(&table, 1, QPN_GSI, mad_of(SA, GET, 9, 0)), &get);
	assert_ptr_equal(mad_table_find(&table, 1, QPN_GSI, mad_of(SA, TRAP, 9, 0)), &rest);
	assert_ptr_equal(mad_table_find(&table, 1, QPN_GSI, mad_of(SA, 0x7f, 9, 0)), &rest);
	assert_ptr_equal(mad_table_find(&table, 1, QPN_GSI, mad_of(MAD_CLASS_CM, SEND, 9, 0)), &cm);
	assert_null(mad_table_find(&table, 1, QPN_GSI, mad_of(0x04, GET, 9, 0)));
}

static void an_answer_goes_to_who_asked(void **state)
{
	struct mad_row one, two, any;

	add(&one, GSI_KEY(.class = SA, .transaction = 0x10));
	add(&two, GSI_KEY(.class = SA, .transaction = 0x20));
	add(&any, GSI_KEY(.class = SA));
	assert_ptr_equal(mad_table_find(&table, 1, QPN_GSI, mad_of(SA, GET_ANSWER, 0x2000000007, 0)), &two);
	assert_ptr_equal(mad_table_find(&table, 1, QPN_GSI, mad_of(SA, TRAP_REPRESS, 0x1000000007, 0)), &one);
	assert_ptr_equal(mad_table_find(&table, 1, QPN_GSI, mad_of(SA, GET_ANSWER, 0x3000000007, 0)), &any);
	assert_null(mad_table_find(&table, 1, QPN_GSI, mad_of(SA, GET, 0x2000000007, 0)));
	list_remove(&any.node);
	assert_null(mad_table_find(&table, 1, QPN_GSI, mad_of(SA, GET_ANSWER, 0x3000000007, 0)));
	assert_null(mad_table_find(&table, 1, QPN_GSI, mad_of(SA, GET_ANSWER, 7, 0)));
}

static void each_port_and_each_qp_has_its_own(void **state)
{
	struct mad_row smi, gsi, second, each;
	struct mad_key key = GSI_KEY(.class = SA, .methods = MAD_ALL_METHODS);

	add(&gsi, key);
	key.port = 2;
	add(&second, key);
	key.qpn = QPN_SMI;
	add(&smi, key);
	assert_ptr_equal(mad_table_find(&table, 1, QPN_GSI, mad_of(SA, GET, 0, 0)), &gsi);
	assert_ptr_equal(mad_table_find(&table, 2, QPN_GSI, mad_of(SA, GET, 0, 0)), &second);
	assert_ptr_equal(mad_table_find(&table, 2, QPN_SMI, mad_of(SA, GET, 0, 0)), &smi);
	assert_null(mad_table_find(&table, 1, QPN_SMI, mad_of(SA, GET, 0, 0)));
	key.port = MAD_ANY_PORT;
	assert_true(mad_table_is_taken(&table, &key));
	key.class = MAD_CLASS_CM;
	add(&each, key);
	assert_ptr_equal(mad_table_find(&table, 1, QPN_SMI, mad_of(MAD_CLASS_CM, GET, 0, 0)), &each);
	assert_ptr_equal(mad_table_find(&table, 7, QPN_SMI, mad_of(MAD_CLASS_CM, GET, 0, 0)), &each);
	assert_int_equal(mad_class_qpn(MAD_CLASS_SUBNET_LID), QPN_SMI);
	assert_int_equal(mad_class_qpn(MAD_CLASS_SUBNET_DIRECTED), QPN_SMI);
	assert_int_equal(mad_class_qpn(MAD_CLASS_CM), QPN_GSI);
}

static void what_two_would_take_is_taken(void **state)
{
	struct mad_row row, vendor;
	struct mad_key key = GSI_KEY(.class = SA, .methods = { 1u << GET | 1u << TRAP }, .transaction = 5);

	add(&row, key);
	add(&vendor, GSI_KEY(.class = VENDOR, .oui = 0x1405, .methods = MAD_ALL_METHODS));
	assert_true(mad_table_is_taken(&table, &key));
	key.transaction = 6;
	assert_true(mad_table_is_taken(&table, &key));
	key.methods[0] = 1u << SEND;
	assert_false(mad_table_is_taken(&table, &key));
	key.methods[1] = 1;
	assert_false(mad_table_is_taken(&table, &key));
	key.methods[0] |= 1u << TRAP;
	assert_true(mad_table_is_taken(&table, &key));
	key.class_version = 1;
	assert_false(mad_table_is_taken(&table, &key));
	key.class_version = MAD_ANY_VERSION;
	assert_true(mad_table_is_taken(&table, &key));
	/* Answers of any are one row's. */
	key = GSI_KEY(.class = VENDOR, .oui = 0x1405);
	assert_true(mad_table_is_taken(&table, &key));
	key.oui = 0x1406;
	assert_false(mad_table_is_taken(&table, &key));
	assert_ptr_equal(mad_table_find(&table, 1, QPN_GSI, mad_of(VENDOR, GET, 0, 0x1405)), &vendor);
	assert_null(mad_table_find(&table, 1, QPN_GSI, mad_of(VENDOR, GET, 0, 0x1406)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(a_request_goes_by_class_and_method, setup),
		cmocka_unit_test_setup(an_answer_goes_to_who_asked, setup),
		cmocka_unit_test_setup(each_port_and_each_qp_has_its_own, setup),
		cmocka_unit_test_setup(what_two_would_take_is_taken, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
