/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The subcommands and their options: one table for the command line, --help, the completion of shells and
 * what is said of a misspelt word. Each has a man page verbatim-NAME(1) that names all of its options.
 */
#include <string.h>

#include "tool.h"

static const struct command_option run_options[] = {
	{ "--rsockets",		0, NULL, "its TCP connections use RDMA, too" },
	{ "--no-shared-malloc",	0, NULL, "peers of this host never map its malloc'ed memory" },
	{ "--fault",		0, "RULES", "loss=0.01 and the like on purpose, as VERBATIM_FAULT" },
	{ NULL, 0, NULL, NULL },
};

static const struct command_option check_options[] = {
	{ "--error-exitcode",	0, "N", "end with that status if something was found" },
	{ "--suppress",		0, "FILE", "rules, with functions, modules and objects, to leave out" },
	{ "--max-reports",	0, "N", "of one rule at one place; 10" },
	{ "--json",		0, "FILE", "a line for each finding" },
	{ "--sarif",		0, "FILE", "for GitHub's code scanning and editors" },
	{ "--junit",		0, "FILE", "for GitLab and others" },
	{ "--github",		0, NULL, "annotations of a workflow, on stdout" },
	{ "--device",		0, "PROFILE", "the adapter it is meant for: what would not fit there" },
	{ "--strict",		0, NULL, "with --device: refuse it, as that adapter would" },
	{ "--tier",		0, "LIST", "which rules; state, the only one" },
	{ "--seed",		0, "N", "of tiers that are not there yet: refused" },
	{ NULL, 0, NULL, NULL },
};

static const struct command_option doctor_options[] = {
	{ "--peer",	0, "ADDRESS", "is that host reachable: route, MTU, port 4791, connections" },
	{ "--json",	0, NULL, "the findings for programs: verbatim-doctor(1)" },
	{ NULL, 0, NULL, NULL },
};

static const struct command_option stats_options[] = {
	{ "--all",		0, NULL, "counters that are 0, too" },
	{ "--json",		0, NULL, "for programs: docs/stats.md" },
	{ "--prometheus",	0, NULL, "in the exposition format of Prometheus" },
	{ "--wait",		0, "SECONDS", "for processes that are slow to answer; 1" },
	{ NULL, 0, NULL, NULL },
};

static const struct command_option fabric_options[] = {
	{ "--sm",	0, NULL, "opensm manages it, on the first host" },
	{ "--name",	0, "NAME", "for VERBATIM_FABRIC; the file's without its ending" },
	{ "--mode",	0, "0755", "others may use it, of a --name that is a directory" },
	{ "--script",	0, "FILE", "lines for the console, done at the beginning" },
	{ "--trace",	0, "FILE", "every packet on every cable, for tshark and Wireshark" },
	{ "--make",	0, "RECIPE", "print the file of a topology: fattree leaves=4, ring, torus ..." },
	{ "--list",	0, NULL, "the fabrics that run, and their hosts" },
	{ "--say",	0, "LINE", "to the console of one that runs, of --name or the only one" },
	{ NULL, 0, NULL, NULL },
};

static const struct command_option control_options[] = {
	{ "--fabric",	0, "NAME", "which one; VERBATIM_FABRIC, or the only one that runs" },
	{ NULL, 0, NULL, NULL },
};

static const struct command_option route_options[] = {
	{ "--sl",	0, "N", "service level of the packet, 0 to 15; otherwise 0" },
	{ "--pkey",	0, "N", "its P_Key; otherwise 0xffff" },
	{ "--bytes",	0, "N", "of its payload, for the MTUs; otherwise 256" },
	{ "--fabric",	0, "NAME", "which one; VERBATIM_FABRIC, or the only one that runs" },
	{ NULL, 0, NULL, NULL },
};

static const struct command_option link_options[] = {
	{ "--json",	'j', NULL, "of show: for programs, with the keys of rdma -j link show" },
	{ NULL, 0, NULL, NULL },
};

static const struct command_option top_options[] = {
	{ "--batch",	'b', "ROUNDS", "as text, so many times; for scripts and files" },
	{ "--delay",	'd', "SECONDS", "between looks; 1" },
	{ NULL, 0, NULL, NULL },
};

static const struct command_option bench_options[] = {
	{ "--hardware",	0, NULL, "on the adapters that the system has, not on Verbatim" },
	{ NULL, 0, NULL, NULL },
};

static const struct command_option homework_options[] = {
	{ "--output",	'o', "PICTURE.svg", "the comparison; homework.svg" },
	{ NULL, 0, NULL, NULL },
};

static const struct command_option ladder_options[] = {
	{ "--output",	'o', "PAGE.html|PICTURE.svg", "where to; - for the standard output" },
	{ "--title",	0, "TEXT", "heading of the page" },
	{ "--about",	0, "FILE", "text above the chart: paragraphs" },
	{ "--home",	0, "URL", "page to go back to" },
	{ "--plain",	0, NULL, "numbers and texts as JSON, however many" },
	{ "--demo",	0, NULL, "ten stories in a simulated network, a page of each" },
	{ NULL, 0, NULL, NULL },
};

static const struct command_option trace_options[] = {
	{ "--output",	'o', "FILE", "pcapng for Wireshark, tshark and verbatim ladder" },
	{ "--text",	0, NULL, "a line for each packet and event on standard output" },
	{ "--summary",	0, NULL, "where the time went, at the end; or of FILE..., without a program" },
	{ "--pid",	'p', "PID", "a process that runs already, instead of PROGRAM" },
	{ "--filter",	0, "KEY=VALUE[|VALUE]...[,...]", "only what matches: qp, peer, device, process, kind" },
	{ "--as-packets", 0, NULL, "what goes through memory as the packets that it stands for" },
	{ "--payload",	0, "BYTES", "of each packet, or all; one-sided operations become packets then" },
	{ "--ring",	0, "SIZE", "keep the last SIZE bytes, written when something fails" },
	{ "--limit",	0, "SIZE", "the file ends there" },
	{ "--rsockets",	0, NULL, "its TCP connections use RDMA, too" },
	{ NULL, 0, NULL, NULL },
};

const struct command commands[] = {
	{ .name = "run", .run = run_command, .operand = OPERAND_PROGRAM, .runs_program = true,
	  .arguments = "[--rsockets] [--no-shared-malloc] [--fault RULES] [--] PROGRAM [ARGUMENT]...",
	  .text = "run a program on Verbatim",
	  .options = run_options,
	  .examples = "verbatim run ib_write_bw -d vb_eth0\ta program for RDMA, as it is\n"
		      "verbatim run --rsockets iperf3 -s\ta program for TCP, on RDMA\n"
		      "VERBATIM_EXPLAIN=1 verbatim run ./a.out\twhy a call is refused\n" },
	{ .name = "check", .run = check_command, .operand = OPERAND_PROGRAM, .runs_program = true,
	  .arguments = "[OPTION]... [--] PROGRAM [ARGUMENT]...",
	  .text = "run a program and find what it does wrong with verbs",
	  .options = check_options,
	  .examples = "verbatim check ./server\tlost notifications, memory in use, leaks ..., with stacks\n"
		      "verbatim check --error-exitcode 9 --sarif check.sarif ./test\tin a workflow\n"
		      "verbatim check --device connectx-5 --strict ./server\twould it fit that adapter?\n"
		      "verbatim explain RV-NOTIFY-001\twhat a finding means\n" },
	{ .name = "env", .run = env_command, .arguments = "",
	  .text = "print the environment of verbatim run for a shell: eval \"$(verbatim env)\"",
	  .examples = "eval \"$(verbatim env)\"\tall that this shell starts uses Verbatim\n" },
	{ .name = "list", .run = list_command, .arguments = "",
	  .text = "list the devices: interface, state, path MTU, GIDs",
	  .examples = "verbatim list\n" },
	{ .name = "link", .run = link_command, .operand = OPERAND_WORD, .words = link_verbs, .offer = link_offer,
	  .arguments = "[show [NAME] [--json] | add NAME netdev INTERFACE | delete NAME | rename NAME NEW]",
	  .text = "show the devices, or change which interfaces are devices and their names",
	  .options = link_options,
	  .examples = "verbatim link\tdevices, states, interfaces, GIDs\n"
		      "verbatim link add left netdev eth0\teth0 is the device left\n"
		      "verbatim link delete vb_docker0\tdocker0 is no device\n"
		      "verbatim link rename vb_eth1 mlx5_0\ta name that a script expects\n"
		      "verbatim link show --json\tfor programs\n" },
	{ .name = "fabric", .run = fabric_command, .operand = OPERAND_FILE,
	  .arguments = "FILE [--sm] [--name NAME] [--mode MODE] [--script FILE] [--trace FILE] "
		       "[-- COMMAND [ARGUMENT]...] | --make RECIPE... | --list | --say LINE",
	  .text = "a virtual InfiniBand fabric: switches, cables and HCAs of a file, for\n"
		  "opensm and other programs on this host",
	  .options = fabric_options,
	  .examples = "verbatim fabric lab.topo --sm\tuntil Ctrl-C; help lists the console's words\n"
		      "verbatim fabric lab.topo --sm -- ibnetdiscover\tuntil the command ends\n"
		      "VERBATIM_FABRIC=lab VERBATIM_NODE=host1 verbatim run ibstat\ta program on a host of it\n"
		      "verbatim fabric --make fattree leaves=4 spines=2 hosts=4 >lab.topo\ta topology\n"
		      "verbatim fabric --say 'counter sw1[3]'\ta word for the console of one that runs\n" },
	{ .name = "cable", .run = cable_command,
	  .arguments = "NODE[PORT] pull|plug|ber RATE|degraded RATE [--fabric NAME]",
	  .text = "pull a cable of a virtual fabric, plug it in again, or make it a bad one",
	  .options = control_options,
	  .examples = "verbatim cable 'sw1[3]' pull\tthe subnet manager hears of it by a trap\n"
		      "verbatim cable 'sw1[3]' ber 1e-8\tof so many bits one flips: counters move\n" },
	{ .name = "node", .run = node_command, .arguments = "NODE on|off [--fabric NAME]",
	  .text = "switch a node of a virtual fabric off, or on",
	  .options = control_options,
	  .examples = "verbatim node sw2 off\n" },
	{ .name = "route", .run = route_command,
	  .arguments = "FROM TO [--sl N] [--pkey N] [--bytes N] [--fabric NAME]",
	  .text = "show the way of a packet through a virtual fabric, with the row of each\n"
		  "table that decides, and where and why it ends",
	  .options = route_options,
	  .examples = "verbatim route host1 host2 --sl 3\tnodes, ports as host1[2], or LIDs\n" },
	{ .name = "trace", .run = trace_command, .operand = OPERAND_PROGRAM, .runs_program = true,
	  .arguments = "-o FILE | --text [OPTION]... [--] PROGRAM [ARGUMENT]... | -p PID",
	  .text = "record packets, calls and completions of a program and all that it starts",
	  .options = trace_options,
	  .examples = "verbatim trace -o t.pcapng ib_write_bw\tthen: wireshark t.pcapng\n"
		      "verbatim trace --text ./a.out | less -S\tto read here\n"
		      "verbatim trace --text -p 4711\ta process that runs already\n"
		      "verbatim trace -o t.pcapng --ring 16M ./a.out\tonly what came before a failure\n" },
	{ .name = "doctor", .run = doctor_command, .operand = OPERAND_PROGRAM,
	  .arguments = "[PROGRAM] [--peer ADDRESS] [--json]",
	  .text = "check what this machine allows, what PROGRAM would load and whether a\n"
		  "peer answers; explain what is missing",
	  .options = doctor_options,
	  .examples = "verbatim doctor\twhat this machine or container allows\n"
		      "verbatim doctor ./a.out\twhich libibverbs it would load, and why\n"
		      "verbatim doctor --peer 192.0.2.1\tcan that host be reached?\n" },
	{ .name = "explain", .run = explain_command,
	  .arguments = "[WORD | NUMBER | KIND NUMBER | ERROR CALL]",
	  .text = "what an error, event or state means, its causes, and what to do;\n"
		  "without a word: all that it knows",
	  .examples = "verbatim explain 12\tthe status in \"failed status 12\"\n"
		      "verbatim explain retry_exc\ta name, with its prefix or without\n"
		      "verbatim explain transport retry counter exceeded\n"
		      "verbatim explain reject 8\ta number of one kind\n"
		      "verbatim explain -110\tan errno, as CM events have it\n"
		      "verbatim explain ENODEV rdma_bind_addr\tan errno of one call\n"
		      "verbatim explain ibv_modify_qp\tall errnos of a call\n"
		      "verbatim explain RNR\ta NAK\n"
		      "verbatim explain RTR\ta state of a queue pair\n"
		      "verbatim explain event\tall names of a kind\n" },
	{ .name = "stats", .run = stats_command,
	  .arguments = "[--all] [--json | --prometheus] [--wait SECONDS] [PID | PROGRAM | DEVICE]",
	  .text = "queue pairs, queues, regions, connections and counters of running\n"
		  "processes, seen from outside",
	  .options = stats_options,
	  .examples = "verbatim stats\tevery process that you may look at\n"
		      "verbatim stats ib_write_bw\tthose of a program\n"
		      "verbatim stats vb_eth0\tthose that have a device open\n"
		      "verbatim stats --json 4711\tone, for programs\n" },
	{ .name = "top", .run = top_command,
	  .arguments = "[--batch ROUNDS] [--delay SECONDS] [PID | PROGRAM | DEVICE]",
	  .text = "processes, and the queue pairs of one, live: rates, queues, retransmissions",
	  .options = top_options,
	  .examples = "verbatim top\tall processes; Enter shows the queue pairs of one\n"
		      "verbatim top 4711\tits queue pairs\n"
		      "verbatim top --batch 3\tas text, three times\n" },
	{ .name = "bench", .run = bench_command, .operand = OPERAND_WORD, .runs_program = true,
	  .words = bench_studies, .arguments = "[--hardware] noncontig [OPTION]...",
	  .text = "measure: noncontig, ways to move blocks that do not lie side by side",
	  .options = bench_options,
	  .examples = "verbatim bench noncontig\tboth sides on this host\n"
		      "verbatim bench noncontig --help\tits options\n"
		      "verbatim bench noncontig --server & verbatim bench noncontig 127.0.0.1\ttwo processes\n"
		      "verbatim bench --hardware noncontig --csv out.csv\ton an adapter\n" },
	{ .name = "ladder", .run = ladder_command, .operand = OPERAND_FILE,
	  .arguments = "FILE... -o PAGE.html|PICTURE.svg | --demo [-o DIRECTORY] [STORY]...",
	  .text = "a message sequence chart of captures, as a page for browsers",
	  .options = ladder_options,
	  .examples = "verbatim ladder --demo\tten stories, into ladder-demo/index.html\n"
		      "verbatim ladder --demo lost-packet\tone of them\n"
		      "verbatim ladder a.pcapng -o picture.svg\ta picture, for documents\n"
		      "verbatim ladder a.pcapng b.pcapng -o page.html\ttwo processes in one chart\n" },
	{ .name = "homework", .run = homework_command, .operand = OPERAND_WORD, .words = homework_verbs,
	  .arguments = "check PROGRAM [-o PICTURE.svg]",
	  .text = "check the homework of the tutorial: bytes, lists, a comparison that is drawn",
	  .options = homework_options,
	  .examples = "verbatim homework check ./homework\twhat is right, what is missing\n" },
	{ .name = "version", .run = version_command, .arguments = "",
	  .text = "print the version",
	  .examples = "verbatim version\tfor a report of an error\n" },
	{ .name = "help", .run = help_command, .operand = OPERAND_COMMAND, .arguments = "[SUBCOMMAND]",
	  .text = "list the subcommands, or describe one",
	  .examples = "verbatim help run\tthe same as verbatim run --help\n" },
	{ .name = "complete", .run = complete_command, .arguments = "[WORD]... PREFIX",
	  .examples = "verbatim complete run --r\twhat a shell offers for verbatim run --r<TAB>\n" },
	{ .name = NULL },
};

const struct command *command_find(const char *name)
{
	for (const struct command *command = commands; command->name; command++)
		if (!strcmp(command->name, name))
			return command;
	return NULL;
}
