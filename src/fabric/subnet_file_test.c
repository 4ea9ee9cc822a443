/* SPDX-License-Identifier: BSD-2-Clause */
/* Files: what ibnetdiscover and ibsim write is read, what is wrong is refused with its line and a
 * remedy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#include "base/test_random.h"
#include "fabric/test_fabric.h"

/* In the form of ibnetdiscover's output. */
static const char snapshot[] =
	"#\n# Topology file: generated on a day\n#\n# Initiated from node 0002c90300000100 port "
	"0002c90300000101\n"
	"\nvendid=0x2c9\ndevid=0xcb20\nsysimgguid=0x2c90200421e28\nswitchguid=0x2c90200421e28("
	"2c90200421e29)\n"
	"Switch\t36 \"S-0002c90200421e28\"\t\t# \"MF0;sw:IS5030/U1\" enhanced port 0 lid 2 lmc 0\n"
	"[1]\t\"H-0002c90300000100\"[1](2c90300000101) \t\t# \"host one HCA-1\" lid 1 4xFDR\n"
	"[7]\t\"H-0002c90300000200\"[2](2c90300000202) \t\t# \"host two HCA-1\" lid 3 1xEDR\n"
	"\nvendid=0x2c9\ndevid=0x1003\nsysimgguid=0x2c90300000103\ncaguid=0x2c90300000100\n"
	"Ca\t1 \"H-0002c90300000100\"\t\t# \"host one HCA-1\"\n"
	"[1](2c90300000101) \t\"S-0002c90200421e28\"[1]\t\t# lid 1 lmc 0 \"MF0;sw:IS5030/U1\" lid "
	"2 4xFDR\n"
	"\nvendid=0x2c9\ndevid=0x1003\nsysimgguid=0x2c90300000203\ncaguid=0x2c90300000200\n"
	"Ca\t2 \"H-0002c90300000200\"\t\t# \"host two HCA-1\"\n"
	"[2](2c90300000202) \t\"S-0002c90200421e28\"[7]\t\t# lid 3 lmc 0 \"MF0;sw:IS5030/U1\" lid "
	"2 1xEDR\n";

static void a_snapshot_of_a_fabric_is_that_fabric(void **unused)
{
	struct fabric_errors errors;
	struct fabric *fabric = fabric_new_from_file(snapshot, &errors);
	struct fabric_node_info node;
	struct fabric_port_info port;

	assert_non_null(fabric);
	assert_int_equal(fabric_nodes(fabric), 3);
	assert_true(fabric_node_info(fabric, 0, &node));
	assert_int_equal(node.guid, 0x2c90200421e28);
	assert_int_equal(node.device_id, 0xcb20);
	assert_string_equal(node.description, "MF0;sw:IS5030/U1");
	fabric_port_info(fabric, 0, 0, &port);
	assert_int_equal(port.guid, 0x2c90200421e29);
	fabric_port_info(fabric, 0, 7, &port);
	assert_string_equal(port.speed_name, "EDR");
	assert_int_equal(port.width_lanes, 1);
	assert_int_equal(port.peer_node, 2);
	assert_int_equal(port.peer_port, 2);
	assert_true(fabric_port_info(fabric, 2, 2, &port));
	assert_int_equal(port.guid, 0x2c90300000202);
	assert_int_equal(port.state, FABRIC_PORT_INIT);
	fabric_port_info(fabric, 1, 1, &port);
	assert_string_equal(port.speed_name, "FDR");
	assert_int_equal(fabric_find_node(fabric, "H-0002c90300000200"), 2);
	assert_int_equal(fabric_find_node(fabric, "host two HCA-1"), 2);
	assert_int_equal(fabric_find_node(fabric, "host"), 1);
	assert_int_equal(fabric_find_node(fabric, "hos"), FABRIC_NONE);
	fabric_free(fabric);
}

/* Printed, read, and printed: the same text. */
static void printed_and_read_again_it_is_the_same(const char *text)
{
	struct fabric_errors errors;
	struct fabric *fabric = fabric_new_from_file(text, &errors), *again;
	char *first, *second;

	assert_non_null(fabric);
	first = fabric_print(fabric);
	again = fabric_new_from_file(first, &errors);
	if (!again)
		fail_msg("line %u: %s", errors.error[0].line, errors.error[0].text);
	second = fabric_print(again);
	assert_string_equal(first, second);
	free(first);
	free(second);
	fabric_free(fabric);
	fabric_free(again);
}

static void a_printed_fabric_is_read_as_the_same(void **unused)
{
	printed_and_read_again_it_is_the_same(snapshot);
	printed_and_read_again_it_is_the_same(TWO_SWITCHES);
	printed_and_read_again_it_is_the_same(
		"switch * lft=1024 mft=64 pkeys=16 slvl=yes vls=2\n" TWO_SWITCHES
		"\nlink \"sw2\"[2] down\n");
	printed_and_read_again_it_is_the_same(TWO_SWITCHES
		"\nlink \"sw1\"[3] ber=1e-09 degraded=1x\ncounter \"sw1\"[0] VL15Dropped+=1\n");
	printed_and_read_again_it_is_the_same("make torus 3x3 hosts=2 speed=XDR width=8x\n");
	/* What is said behind the description is no part of a name. */
	printed_and_read_again_it_is_the_same("Switch 1 \"S-00enhanced port 0\"\n");
}

/* Printed, a subnet has the options of its switches and the cables that are pulled. */
static void a_printed_fabric_keeps_what_our_own_lines_say(void **unused)
{
	struct fabric_errors errors;
	struct fabric *fabric = fabric_new_from_file(
		"switch * lft=1024 mft=64 pkeys=16 slvl=yes vls=2\n" TWO_SWITCHES
		"\nlink \"sw2\"[2] down\n", &errors), *again;
	char *text;

	assert_non_null(fabric);
	strcpy(fabric->node[HOST1].description, "a\"b\nc\033");	/* set by an SMP */
	text = fabric_print(fabric);
	again = fabric_new_from_file(text, &errors);
	if (!again)
		fail_msg("line %u: %s", errors.error[0].line, errors.error[0].text);
	assert_int_equal(again->node[SW1].switch_info.linear_fdb_cap, 1024);
	assert_int_equal(again->node[SW2].switch_info.multicast_fdb_cap, 64);
	assert_int_equal(again->node[SW2].switch_info.partition_enforcement_cap, 16);
	assert_int_equal(again->node[SW2].switch_info.optimized_sl_to_vl_mapping_programming, 1);
	assert_int_equal(again->node[SW2].port[1].vl_cap, 2);
	assert_false(again->node[HOST4].port[1].plugged);
	assert_true(again->node[HOST3].port[1].plugged);
	assert_string_equal(again->node[HOST1].description, "a?b?c?");
	free(text);
	fabric_free(fabric);
	fabric_free(again);
}

static char *read_known(void *context, const char *name)
{
	++*(unsigned *)context;
	if (!strcmp(name, "hosts"))
		return strdup("Ca 1 \"host1\"\n\nCa 1 \"host2\"\nwrong\n\nmake pair\n");
	return strcmp(name, "circle") ? NULL : strdup("include \"circle\"\ninclude \"circle\"\n");
}

static void words_of_ibsims_files_are_understood(void **unused)
{
	static const char text[] =
		"switchguids=0x100\nhcaguids=0x2000\nwidth=8\nspeed=2\n"
		"Switch 4 \"a\"\n[1] \"x\"[1]\n[2] \"b\"[1] w=2 s=4\n\n"
		"Switch 4 \"b\"\n[2] \"y\"[2] # 4xHDR\n\nextspeed=3\n"
		"Hca 1 \"x\"\n\nHca 2 \"y\"\n[1] \"b\"[3]\n";
	struct fabric_errors errors;
	struct fabric *fabric = fabric_new_from_file(text, &errors);
	struct fabric_port_info port;
	unsigned reads = 0;
	const struct fabric_files files = { .read = read_known, .context = &reads };

	if (!fabric)
		fail_msg("line %u: %s", errors.error[0].line, errors.error[0].text);
	assert_int_equal(fabric->node[0].guid, 0x100);
	assert_int_equal(fabric->node[1].guid, 0x101);
	assert_int_equal(fabric->node[2].guid, 0x2000);
	assert_int_equal(fabric->node[3].guid, 0x2002);
	fabric_port_info(fabric, 0, 1, &port);
	assert_int_equal(port.width_lanes, 12);
	assert_string_equal(port.speed_name, "DDR");
	fabric_port_info(fabric, 0, 2, &port);
	assert_int_equal(port.width_lanes, 4);
	assert_string_equal(port.speed_name, "QDR");
	fabric_port_info(fabric, 1, 2, &port);
	assert_string_equal(port.speed_name, "HDR");
	fabric_port_info(fabric, 1, 3, &port);
	assert_string_equal(port.speed_name, "EDR");
	fabric_free(fabric);

	assert_null(fabric_new_from_files("include \"hosts\"\nSwitch 0 \"a\"\n", &files, &errors));
	assert_int_equal(errors.count, 4);
	assert_int_equal(errors.error[0].line, 1);
	assert_non_null(strstr(errors.error[0].text, "hosts:4: \"wrong\""));
	assert_non_null(strstr(errors.error[1].text, "hosts:6: \"host1\" is there already"));
	assert_int_equal(errors.error[3].line, 2);
	assert_null(fabric_new_from_files("include \"none\"\n", &files, &errors));
	assert_non_null(strstr(errors.error[0].text, "cannot be read"));
	reads = 0;
	assert_null(fabric_new_from_files("include \"circle\"\n", &files, &errors));
	assert_non_null(strstr(errors.error[0].text, "circle?"));
	assert_in_range(reads, 8, 256);
	assert_null(fabric_new_from_file("include \"hosts\"\n", &errors));
	assert_int_equal(errors.error[0].line, 1);
}

static void guids_are_those_of_the_name_in_each_run(void **unused)
{
	struct fabric_errors errors;
	struct fabric *one = fabric_new_from_file(TWO_SWITCHES, &errors);
	struct fabric *other = fabric_new_from_file(
		"Ca 1 \"host3\"\n[1] \"sw9\"[1]\n\nSwitch 2 \"sw9\"\n", &errors);
	struct fabric_node_info a, b;

	fabric_node_info(one, HOST3, &a);
	fabric_node_info(other, 0, &b);
	assert_int_equal(a.guid, b.guid);
	assert_int_equal(a.guid >> 56, 0x02);	/* locally administered */
	fabric_free(one);
	fabric_free(other);
}

static void lines_of_our_own_say_what_a_snapshot_cannot(void **unused)
{
	struct fabric_errors errors;
	struct fabric *fabric = fabric_new_from_file(
		"switch * lft=1024 mft=64 pkeys=16 esp0=yes vls=2\n" TWO_SWITCHES
		"\nlink \"sw1\"[3] speed=FDR width=1x\nlink \"sw2\"[2] down\nhost \"host1\" "
		"desc=\"host1 vb_ib0\"\n"
		"make star hosts=2\n",
		&errors);
	struct fabric_port_info port;
	struct fabric_node_info node;

	assert_null(fabric);		/* the recipe has a sw1 and hosts of the same names */
	assert_int_equal(errors.count, 3);
	fabric = fabric_new_from_file(
		"switch * lft=1024 mft=64 pkeys=16 esp0=yes vls=2\n" TWO_SWITCHES
		"\nlink \"sw1\"[3] speed=FDR width=1x\nlink \"sw2\"[2] down\nhost \"host1\" "
		"desc=\"host1 vb_ib0\"\n",
		&errors);
	assert_non_null(fabric);
	assert_int_equal(fabric->node[SW1].switch_info.linear_fdb_cap, 1024);
	assert_int_equal(fabric->node[SW1].switch_info.enhanced_port_zero, 1);
	fabric_port_info(fabric, SW1, 1, &port);
	assert_int_equal(port.pkeys, 16);
	assert_int_equal(port.vl_cap, 2);
	fabric_port_info(fabric, SW2, 3, &port);
	assert_string_equal(port.speed_name, "FDR");
	assert_int_equal(port.width_lanes, 1);
	fabric_port_info(fabric, HOST4, 1, &port);
	assert_int_equal(port.state, FABRIC_PORT_DOWN);
	assert_false(port.plugged);
	fabric_node_info(fabric, HOST1, &node);
	assert_string_equal(node.description, "host1 vb_ib0");
	fabric_free(fabric);
}

static void what_is_wrong_is_refused_with_its_line_and_a_remedy(void **unused)
{
	static const struct {
		const char *text;
		unsigned line;
		const char *said, *remedy;
	} rows[] = {
		{"", 0, "no node", "make pair"},
		{"Switch \"sw1\"\n", 1, "number of ports", "Switch 36"},
		{"Switch 0 \"sw1\"\n", 1, "number of ports", "1 to 254"},
		{"Switch 4 sw1\n", 1, "not in quotes", "\"name\""},
		{"Switch 4 \"\"\n", 1, "0 characters", "1 to 128"},
		{"Switch 4 \"a\"\n\nSwitch 4 \"a\"\n", 3, "there already, in line 1", "rename"},
		{"Switch 4 \"a\"\n[5] \"b\"[1]\n", 2, "ports 1 to 4", "raise the number in line 1"},
		{"Switch 4 \"a\"\n[1] \"b\"[1]\n", 2, "not in the file", "add a line"},
		{"Switch 4 \"a\"\n[1] \"b\"[3]\n\nCa 2 \"b\"\n", 2, "ports 1 to 2, and not 3",
		 "line 4"},
		{"Switch 4 \"a\"\n[1] \"a\"[1]\n", 2, "to itself", "name the other end"},
		{"Switch 4 \"a\"\n[1] \"b\"[1]\n[2] \"b\"[1]\n\nCa 1 \"b\"\n", 3, "already",
		 "one cable"},
		{"Switch 4 \"a\"\n\n[1] \"b\"[1]\n", 3, "without a node", "put it below"},
		{"Switch 4 \"a\"\n[x] \"b\"[1]\n", 2, "no port number", "[1] to [254]"},
		{"swich 4\n", 1, "\"swich\"", "Switch, Ca"},
		{"vendid=x\n", 1, "vendid=", "number"},
		{"switch * lft=10\n", 1, "lft=10", "from 64"},
		{"switch * esp0=maybe\n", 1, "esp0=maybe", "yes or no"},
		{"switch * depth=1\n", 1, "no option depth", "it has lft"},
		{"switch \"a\" lft=64\n", 1, "not described above", "move this line"},
		{"Switch 4 \"a\"\n\nlink \"a\"[1] down\n", 3, "no cable", "move this line"},
		{"Switch 4 \"a\"\n[1] \"b\" w=99\n\nCa 1 \"b\"\n", 2, "no option", "w=1 to 31"},
		{"Switch 4 \"a\"\n[1] \"b\" what=4\n\nCa 1 \"b\"\n", 2, "no option", "s= and e="},
		{"width=40\n", 1, "width=", "up to 0x1f"},
		{"make cube\n", 1, "no recipe", "fattree"},
		{"make star hosts=999\n", 1, "hosts=999", "1 to 254"},
		{"make star leaves=2\n", 1, "no leaves=", "make.h"},
		{TWO_SWITCHES "link \"sw1\"[1] ber=2\n", 17, "ber=2", "as 1e-9"},
		{TWO_SWITCHES "link \"sw1\"[1] degraded=fast\n", 17, "degraded=fast", "1xSDR"},
		{TWO_SWITCHES "port \"sw1\"[9] stuck\n", 17, "ports 1 to 4", "not 9"},
		{TWO_SWITCHES "port \"sw1\"[1] slow\n", 17, "no option slow", "it has stuck"},
		{TWO_SWITCHES "counter \"sw1\"[1] Symbols=1\n", 17, "Symbols", "SymbolError"},
		{TWO_SWITCHES "counter \"sw1\"[1] VL15Dropped=x\n", 17, "VL15Dropped=VALUE",
		 "a second"},
		{"switchguid=0x1\nSwitch 4 \"a\"\n\nswitchguid=0x1\nSwitch 4 \"b\"\n", 5,
		 "same GUID", "its own"},
	};

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct fabric_errors errors;
		struct fabric *fabric = fabric_new_from_file(rows[i].text, &errors);

		if (fabric || !errors.count)
			fail_msg("row %u is taken", i);
		if (errors.error[0].line != rows[i].line ||
		    !strstr(errors.error[0].text, rows[i].said) ||
		    !strstr(errors.error[0].text, rows[i].remedy))
			fail_msg("row %u, line %u: %s", i, errors.error[0].line,
				 errors.error[0].text);
	}
}

/* Lines that are cut, doubled and mixed: read or refused, never a crash (the sanitizers look). */
static void any_text_is_read_or_refused(void **unused)
{
	static const char *const texts[] = {snapshot, TWO_SWITCHES,
					    "make pair\nlink \"host1\"[1] down\n"};
	uint64_t random = 5;

	for (unsigned round = 0; round < 3000; round++) {
		const char *source = texts[round % 3];
		struct fabric_errors errors;
		struct fabric *fabric;
		char *text = strdup(source);
		size_t length = strlen(text);

		for (unsigned i = 0; i < 1 + test_random(&random) % 4; i++)
			text[test_random(&random) % length] =
				"\n\"[]()#=019x \t-\x80"[test_random(&random) % 16];
		if (round % 5 == 0)
			text[test_random(&random) % length] = '\0';
		fabric = fabric_new_from_file(text, &errors);
		assert_true(!fabric == (errors.count > 0));
		fabric_free(fabric);
		free(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_snapshot_of_a_fabric_is_that_fabric),
		cmocka_unit_test(a_printed_fabric_is_read_as_the_same),
		cmocka_unit_test(a_printed_fabric_keeps_what_our_own_lines_say),
		cmocka_unit_test(words_of_ibsims_files_are_understood),
		cmocka_unit_test(guids_are_those_of_the_name_in_each_run),
		cmocka_unit_test(lines_of_our_own_say_what_a_snapshot_cannot),
		cmocka_unit_test(what_is_wrong_is_refused_with_its_line_and_a_remedy),
		cmocka_unit_test(any_text_is_read_or_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
