/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the files of `verbatim link` share: the setting "devices" as a list (link_list.c), and its place in
 * the file of settings (link_file.c).
 */
#ifndef VERBATIM_TOOLS_LINK_COMMAND_H
#define VERBATIM_TOOLS_LINK_COMMAND_H

#include <stdbool.h>
#include <stddef.h>

#include "config/config.h"

/* A list of entries PATTERN, PATTERN:NAME and !PATTERN; an empty one says "*": all interfaces. */
struct link_list {
	char text[CONFIG_TEXT_MAX];
};

void link_list_read(struct link_list *list, const char *devices);
/*
 * @netdev becomes the device @name; or none. Entries that decide of other interfaces stay as they are. False:
 * the list would be longer than a setting may be; nothing is changed.
 */
bool link_list_set(struct link_list *list, const char *netdev, const char *name);
bool link_list_clear(struct link_list *list, const char *netdev);
/* Has the interface an entry of its own that makes it a device? */
bool link_list_names(const struct link_list *list, const char *netdev);
/* The interface of the entry that gives it the name @name, also if it is not up or not there. */
bool link_list_find(const struct link_list *list, const char *name, char *netdev, size_t size);

/*
 * The user's file of settings, locked until link_file_close(): of those who change it with this command only
 * one does. 0, or -1 after a line on stderr.
 */
struct link_file {
	struct config_file which;
	struct config config;	/* what is in it */
	int lock;		/* of its directory */
};

int link_file_open(struct link_file *file);
/* Replaces the file in one step; its other lines, comments and mode stay. The same errors. */
int link_file_write(struct link_file *file, const char *devices);
void link_file_close(struct link_file *file);

/* The commands; each returns the exit status. @name NULL: all (link_show.c, link_change.c). */
int link_show(const char *name, bool json);
int link_add(const char *name, const char *interface);
int link_delete(const char *name);
int link_rename(const char *name, const char *new_name);
/* The interface of the device @name, there now or named by the file of settings. False: none. */
bool link_interface(const char *name, char interface[]);
/* Active MTU of the device's port in bytes; 0: it cannot be opened. */
unsigned link_path_mtu(const char *name);

#endif
