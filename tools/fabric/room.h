/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The machine room: the process `verbatim fabric`, which is all switches and the management of all
 * HCAs.
 *
 *	room.c		one thread, asleep until a program, the console or a deadline wakes it
 *	visitor.c	programs: connections, questions (ib/protocol.h), what they have not read
 *	data.c		packets from and to QPs of programs, events of their ports
 *	gmp.c		MADs from and to their QP1, claims on service IDs, addresses
 *	plane.c		what programs read and write in memory: image and tallies
 *	console.c	words of a person or a script, about cables and nodes
 *	issm.c		FIFOs that a subnet manager keeps open: the bit IsSM of its port
 *	sysfs.c		what the kernel would show of HCAs below /sys/class
 *	child.c		opensm and the command, which it starts
 *
 * The model itself is src/fabric, which does no I/O.
 */
#ifndef VERBATIM_TOOLS_FABRIC_ROOM_H
#define VERBATIM_TOOLS_FABRIC_ROOM_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/list.h"
#include "fabric/agents.h"
#include "fabric/fabric.h"
#include "ib/protocol.h"

#define VISITORS_MAX	1024u

/* What epoll watches: the first member of whatever wants to be woken. */
struct watch {
	void (*ready)(struct watch *watch, uint32_t events);
};

/* A console or a script: lines of one source. */
struct console;

struct issm {
	struct list node;
	struct watch watch;
	struct room *room;
	uint32_t place, port;		/* place: the node's number */
	int fd;				/* the write end; -1: nobody reads, the port has no SM */
	char name[64];			/* in the run directory */
};

struct room {
	struct fabric *fabric;
	struct fabric_trace *trace;	/* --trace; or NULL */
	struct agents *agents;
	const char *name;
	char directory[PATH_MAX];
	unsigned mode;			/* of the directory: whether others may come */
	uint64_t now_us;
	int epoll, listener, lock, inotify, signals;
	struct watch listener_watch, inotify_watch, signals_watch;
	struct list visitors, issms, consoles;
	unsigned visitor_count;
	uint64_t pause_us;		/* FABRIC_NEVER, or: out of descriptors until then */
	int closing;			/* sealed.c: a descriptor + 1 that is closed soon; 0: none */
	unsigned sealed_files;		/* that it keeps open */
	uint64_t lost_mads;		/* of visitors that do not read */
	struct data_plane *plane;	/* data.c; NULL: no program is attached */
	size_t data_queued;		/* bytes that attached programs have not read */
	uint64_t hash;			/* of the subnet that the file describes */
	bool ended, is_up;
	bool verbose;			/* each MAD that is lost is told */
	bool look;			/* at whether all host ports are Active */
	int status;			/* of the process */
	/* child.c */
	pid_t sm, command;
	char **command_line;		/* of a command that has not been started; NULL */
	uint64_t command_us;		/* it is started at the latest */
};

/* ---- room.c ---- */

int room_watch(struct room *room, int fd, struct watch *watch, uint32_t events); /* 0 or errno */
void room_unwatch(struct room *room, int fd);
/* A line on stdout, for the person at the console. */
void room_say(struct room *room, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The word before a blank of a node's description, or its whole ID: what a host is called. */
void room_host_name(const struct room *room, uint32_t node, char name[CTL_NODE_MAX]);
/* Is there a cable, and in at both ends? */
bool room_is_cabled(const struct room *room, const struct fabric_port_info *port);
/* Every port of a host that has a cable is Active. */
bool room_is_up(const struct room *room);
/* The nodes that are one host with @name: FABRIC_NONE and *why if there is none. */
uint32_t room_find_host(const struct room *room, const char *name, char *why, size_t size);
/*
 * Calls @take for each port of the HCAs of the host, or port 0 of a switch; until it returns false.
 */
void room_ports(const struct room *room, uint32_t host,
		bool (*take)(void *context, const struct ctl_port *port, uint32_t node),
		void *context);
/* What is now so of a port, but for its device's name and numbers. */
void room_fill_port(const struct room *room, uint32_t node, uint32_t number, struct ctl_port *port);
/* The node and port with this device name, at the host. False: there is none. */
bool room_find_device(const struct room *room, uint32_t host, const char *device, uint32_t port,
		      uint32_t *node, struct ctl_port *found);

/* ---- visitor.c ---- */

int visitors_open(struct room *room);			/* 0 or errno */
void visitors_close(struct room *room);
/* agents_ops */
void visitors_receive(void *visitor, const struct agent_header *header, const uint8_t *mad,
		      size_t bytes);
void visitors_receive_sealed(void *visitor, const struct agent_header *header, const uint8_t *first,
			     struct rmpp_sealed *rest);
/* Those that are done with go. At the end of a turn. */
void visitors_reap(struct room *room);
/* Lines about each, for the console. */
void visitors_list(struct room *room, FILE *out);

/* ---- data.c ---- */

/* fabric_ops: of ports that programs are attached to. */
enum fabric_arrival data_arrive(struct room *room, uint32_t node, uint32_t port,
				const uint8_t *packet, size_t bytes);
void data_event(struct room *room, uint32_t node, uint32_t port, enum fabric_event event);
/* Packets that programs handed over by themselves are counted at the ports. */
void data_fold(struct room *room);
uint64_t data_deadline_us(const struct room *room);
/* At the end of a turn: events are told, and receivers that do not read are given up. */
void data_timer(struct room *room);
/* When no program is there any more. */
void data_close(struct room *room);

/* ---- gmp.c ---- */

/* fabric_ops: a MAD for a program whose QPs are at the port. False: for an agent of the port's. */
bool gmp_deliver(struct room *room, uint32_t node, uint32_t port, const uint8_t mad[MAD_BYTES],
		 const struct fabric_address *from);

/* ---- console.c ---- */

/* Does what a line says; what there is to say goes to @out. @looks: changes nothing. 0 or errno. */
int console_line(struct room *room, char *line, bool looks, FILE *out);
/* Reads lines from @fd, which is closed at its end but for stdin; @name: of a script, or NULL. 0 or
 * errno. */
int console_open(struct room *room, int fd, const char *name);
/* The lines of a file. 0 or errno. */
int console_script(struct room *room, const char *path);
uint64_t console_deadline_us(const struct room *room);
void console_timer(struct room *room);
void console_close_all(struct room *room);

/* ---- issm.c ---- */

int issm_open(struct room *room);			/* 0 or errno */
/* The path of the FIFO of a port, which is made. 0 or errno. */
int issm_path(struct room *room, uint32_t node, uint32_t port, char path[PATH_MAX]);
void issm_close(struct room *room);

/* ---- sysfs.c ---- */

/* 0: *directory, and @out has the text or the names; ENOENT. */
int sysfs_answer(const struct room *room, uint32_t host, const char *path, bool *directory,
		 FILE *out);

/* ---- child.c ---- */

int child_open(struct room *room);			/* SIGCHLD and the signals that end us */
int child_start_sm(struct room *room);
int child_start_command(struct room *room);
uint64_t child_deadline_us(const struct room *room);
void child_timer(struct room *room);
void child_end_all(struct room *room);

#endif
