/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What lies below /sys/class/infiniband, /sys/class/infiniband_verbs and /dev/infiniband, beside
 * what a fabric has there (fabric.c):
 *
 *	CLASS/DEVICE/ATTRIBUTE	names from the table that libibverbs answers from
 *				(verbs/attribute.def), text from ibv_read_sysfs_file()
 *	/dev/infiniband/uverbsN	one for each device; beside them rdma_cm: character devices of the user
 *
 * libibverbs is loaded when the first of these paths is asked for: most programs of a pipeline
 * never do. It is asked for the list of devices each time, as interfaces come and go.
 */
#include <ctype.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "preload.h"

#undef ibv_query_port
#undef ibv_get_device_list

#define LIBRARY	"libibverbs.so.1"
#define LISTING_BYTES	65536

static const struct attribute {
	const char *class, *name;
} attributes[] = {
#define ATTRIBUTE(class, name, opened, writer) { class, name },
#include "verbs/attribute.def"
#undef ATTRIBUTE
};
#define ATTRIBUTE_COUNT (sizeof(attributes) / sizeof(attributes[0]))

enum class { CLASS_INFINIBAND, CLASS_VERBS, CLASS_DEV, CLASS_COUNT };

static const struct {
	const char *root, *attributes;
} classes[CLASS_COUNT] = {
	[CLASS_INFINIBAND] = { "/sys/class/infiniband", "infiniband" },
	[CLASS_VERBS] = { "/sys/class/infiniband_verbs", "infiniband_verbs" },
	[CLASS_DEV] = { "/dev/infiniband", "" },
};

/* Beside the devices of its class: a file, a character device. */
static const char abi_version[] = "abi_version", rdma_cm[] = "rdma_cm";

/* What we need of libibverbs. */
static struct {
	struct ibv_device **(*get_device_list)(int *count);
	void (*free_device_list)(struct ibv_device **list);
	int (*read_sysfs_file)(const char *dir, const char *file, char *buffer, size_t size);
	const char *(*get_sysfs_path)(void);
	struct ibv_context *(*open_device)(struct ibv_device *device);
	int (*close_device)(struct ibv_context *context);
	int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
	int (*query_gid)(struct ibv_context *context, uint32_t port, uint32_t index,
			 struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size);
} verbs;
static bool verbs_loaded;

static __thread bool busy;

bool tree_is_busy(void)
{
	return busy;
}

/* The library beside ours, wherever the program's own search would have led. */
static void *open_library(void)
{
	char path[4096];
	const char *slash;
	Dl_info us;

	if (!dladdr(&verbs, &us) || !(slash = strrchr(us.dli_fname, '/')))
		return dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
	snprintf(path, sizeof(path), "%.*s/" LIBRARY, (int)(slash - us.dli_fname), us.dli_fname);
	return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static void load_verbs(void)
{
	void *library = open_library();

	if (!library) {
		fprintf(stderr, "verbatim: %s\n", dlerror());
		return;
	}
	verbs.get_device_list = dlsym(library, "ibv_get_device_list");
	verbs.free_device_list = dlsym(library, "ibv_free_device_list");
	verbs.read_sysfs_file = dlsym(library, "ibv_read_sysfs_file");
	verbs.get_sysfs_path = dlsym(library, "ibv_get_sysfs_path");
	verbs.open_device = dlsym(library, "ibv_open_device");
	verbs.close_device = dlsym(library, "ibv_close_device");
	verbs.query_port = dlsym(library, "ibv_query_port");
	verbs.query_gid = dlsym(library, "_ibv_query_gid_ex");
	verbs_loaded = verbs.get_device_list && verbs.free_device_list && verbs.read_sysfs_file &&
		       verbs.get_sysfs_path && verbs.open_device && verbs.close_device &&
		       verbs.query_port && verbs.query_gid;
}

/* Enter libibverbs: its own use of files goes past us. errno is the program's. */
static bool enter(int *saved_errno)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	*saved_errno = errno;
	busy = true;
	pthread_once(&once, load_verbs);
	if (!verbs_loaded)
		busy = false;
	return verbs_loaded;
}

static void leave(int saved_errno)
{
	busy = false;
	errno = saved_errno;
}

/* A canonical path, taken apart: root of @class, then @device, then @rest. */
struct place {
	enum class class;
	char device[64];		/* "": the root itself */
	const char *rest;		/* "": the device's directory */
};

static bool take_apart(const char *path, struct place *place)
{
	size_t length;

	for (place->class = 0; place->class < CLASS_COUNT; place->class++) {
		length = strlen(classes[place->class].root);
		if (!strncmp(path, classes[place->class].root, length) &&
		    (path[length] == '/' || !path[length]))
			break;
	}
	if (place->class == CLASS_COUNT)
		return false;
	path += length + (path[length] == '/');
	length = strcspn(path, "/");
	if (length >= sizeof(place->device))
		return false;
	memcpy(place->device, path, length);
	place->device[length] = '\0';
	place->rest = path + length + (path[length] == '/');
	return true;
}

/* The name of @device's entry in the root of @class. */
static const char *name_in(enum class class, const struct ibv_device *device)
{
	return class == CLASS_INFINIBAND ? device->name : device->dev_name;
}

static struct ibv_device *find_device(struct ibv_device **list, const struct place *place)
{
	for (; list && *list; list++)
		if (!strcmp(name_in(place->class, *list), place->device))
			return *list;
	return NULL;
}

static bool is_abi_version(const struct place *place)
{
	return place->class == CLASS_VERBS && !*place->rest && !strcmp(place->device, abi_version);
}

static bool is_rdma_cm(const struct place *place)
{
	return place->class == CLASS_DEV && !*place->rest && !strcmp(place->device, rdma_cm);
}

/*
 * What @path is to an attribute called @name, in which each '#' is a number. *port: the one behind
 * "ports/"; *index: the last one.
 */
static enum node_kind attribute_kind(const char *name, const char *path, unsigned *port, unsigned *index)
{
	const char *begin = name;

	*port = *index = 0;
	for (; *path; name++) {
		if (*name != '#') {
			if (*name != *path++)
				return NODE_ABSENT;
			continue;
		}
		if (!isdigit((unsigned char)*path))
			return NODE_ABSENT;
		for (*index = 0; isdigit((unsigned char)*path); path++)
			*index = *index * 10 + (unsigned)(*path - '0');
		if (name == begin + strlen("ports/"))
			*port = *index;
	}
	if (!*name)
		return NODE_FILE;
	return name == begin || *name == '/' ? NODE_DIRECTORY : NODE_ABSENT;
}

/* How many numbers may stand for '#' in @name: a table of the device's port. */
static unsigned table_length(struct ibv_context *context, const char *name, unsigned number)
{
	struct ibv_port_attr port;

	memset(&port, 0, sizeof(port));
	if (number > UINT8_MAX || verbs.query_port(context, (uint8_t)number, &port))
		return 0;
	return (unsigned)(strstr(name, "pkeys") ? port.pkey_tbl_len : port.gid_tbl_len);
}

static bool ends_in_number(const char *name)
{
	return name[strlen(name) - 1] == '#';
}

/* A GID that is empty can be read, as zeros; it has no type and no interface. */
static bool entry_is_file(struct ibv_context *context, const char *name, unsigned port, unsigned index)
{
	struct ibv_gid_entry entry;

	return !strstr(name, "gid_attrs") ||
	       !verbs.query_gid(context, port, index, &entry, 0, sizeof(entry));
}

/* The numbers fit the attribute @name: are there such a port, and such an entry of its table? */
static bool numbers_are_there(struct ibv_device *device, const char *name, unsigned port, unsigned index)
{
	struct ibv_context *context;
	bool is;

	if (!strchr(name, '#') || (port == 1 && !ends_in_number(name)))
		return true;			/* each device has a port 1 */
	context = verbs.open_device(device);
	if (!context)
		return false;
	is = table_length(context, name, port) &&
	     (!ends_in_number(name) ||
	      (index < table_length(context, name, port) && entry_is_file(context, name, port, index)));
	verbs.close_device(context);
	return is;
}

static enum node_kind kind_below(const struct place *place, struct ibv_device *device)
{
	if (place->class == CLASS_DEV)
		return *place->rest ? NODE_ABSENT : NODE_DEVICE;
	for (size_t i = 0; i < ATTRIBUTE_COUNT; i++) {
		const char *name = attributes[i].name;
		enum node_kind kind;
		unsigned port, index;

		if (strcmp(attributes[i].class, classes[place->class].attributes))
			continue;
		kind = attribute_kind(name, place->rest, &port, &index);
		if ((kind == NODE_FILE || (kind == NODE_DIRECTORY && port)) &&
		    !numbers_are_there(device, kind == NODE_FILE ? name : "ports/#/", port, index))
			return NODE_ABSENT;
		if (kind != NODE_ABSENT)
			return kind;
	}
	return NODE_ABSENT;
}

static enum node_kind fabric_kind(const char *path)
{
	char text[NODE_TEXT_MAX];
	bool directory, found;
	int saved = errno;

	if (!fabric_is_there())
		return NODE_ABSENT;
	busy = true;
	found = fabric_read(path, &directory, text, sizeof(text));
	busy = false;
	errno = saved;
	return !found ? NODE_ABSENT : directory ? NODE_DIRECTORY : NODE_FILE;
}

static enum node_kind verbs_kind(const char *path)
{
	enum node_kind kind = NODE_ABSENT;
	struct ibv_device **list, *device;
	struct place place;
	int saved;

	if (!take_apart(path, &place))
		return NODE_ABSENT;
	if (!place.device[0])
		return NODE_DIRECTORY;
	if (is_abi_version(&place))
		return NODE_FILE;
	if (is_rdma_cm(&place))
		return NODE_DEVICE;
	if (!enter(&saved))
		return NODE_ABSENT;
	list = verbs.get_device_list(NULL);
	device = find_device(list, &place);
	if (device)
		kind = kind_below(&place, device);
	verbs.free_device_list(list);
	leave(saved);
	return kind;
}

enum node_kind tree_kind(const char *path)
{
	enum node_kind kind = verbs_kind(path);

	return kind == NODE_ABSENT ? fabric_kind(path) : kind;
}

/* Its length, or -1. */
static long fabric_text(const char *path, char *text, size_t size)
{
	bool directory, found;
	int saved = errno;

	busy = true;
	found = fabric_read(path, &directory, text, size) && !directory;
	busy = false;
	errno = saved;
	return found ? (long)strlen(text) : -1;
}

static int read_attribute(const struct place *place, char *text, size_t size)
{
	struct ibv_device **list, *device;
	char directory[512];
	int length = -1;

	if (is_abi_version(place)) {
		snprintf(directory, sizeof(directory), "%s/class/infiniband_verbs",
			 verbs.get_sysfs_path());
		return verbs.read_sysfs_file(directory, abi_version, text, size);
	}
	list = verbs.get_device_list(NULL);
	device = find_device(list, place);
	if (device)
		length = verbs.read_sysfs_file(place->class == CLASS_INFINIBAND
					       ? device->ibdev_path : device->dev_path,
					       place->rest, text, size);
	verbs.free_device_list(list);
	return length;
}

long tree_read(const char *path, char *text, size_t size)
{
	struct place place;
	long length = -1;
	int saved;

	if (take_apart(path, &place) && enter(&saved)) {
		length = read_attribute(&place, text, size - 1);
		leave(saved);
	}
	if (length < 0 && fabric_is_there())
		length = fabric_text(path, text, size - 1);
	if (length >= 0)
		text[length++] = '\n';		/* ibv_read_sysfs_file() takes it off */
	return length;
}

/* ---- listing ---- */

struct listing {
	struct tree_entry *entries;
	size_t count, room;
	bool failed;
};

static void list_add(struct listing *listing, const char *name, size_t length, enum node_kind kind)
{
	struct tree_entry *larger;

	if (length >= sizeof(listing->entries[0].name))
		return;
	for (size_t i = 0; i < listing->count; i++)
		if (strlen(listing->entries[i].name) == length &&
		    !memcmp(listing->entries[i].name, name, length))
			return;
	if (listing->count == listing->room) {
		listing->room += 32;
		larger = realloc(listing->entries, listing->room * sizeof(listing->entries[0]));
		if (!larger) {
			listing->failed = true;
			listing->room -= 32;
			return;
		}
		listing->entries = larger;
	}
	memcpy(listing->entries[listing->count].name, name, length);
	listing->entries[listing->count].name[length] = '\0';
	listing->entries[listing->count++].kind = kind;
}

static void list_numbers(struct listing *listing, struct ibv_device *device, const char *name, unsigned port)
{
	struct ibv_context *context = verbs.open_device(device);
	bool of_table = ends_in_number(name);
	unsigned first = of_table ? 0 : 1, end;
	char number[16];

	end = !context ? 0 : of_table ? table_length(context, name, port) : UINT8_MAX;
	for (unsigned i = first; i < end; i++) {
		if (!of_table && !table_length(context, name, i))
			break;			/* the last port */
		if (!of_table || entry_is_file(context, name, port, i))
			list_add(listing, number, (size_t)snprintf(number, sizeof(number), "%u", i),
				 of_table ? NODE_FILE : NODE_DIRECTORY);
	}
	if (context)
		verbs.close_device(context);
}

/* Where @name goes on behind the components of @path, in which '#' are numbers. */
static const char *name_behind(const char *name, const char *path)
{
	for (; *path; path++)
		if (*path == '/')
			name += strcspn(name, "/") + 1;
	return name + strcspn(name, "/") + 1;
}

/* The next component of each attribute whose name continues place->rest. */
static void list_attributes(struct listing *listing, const struct place *place,
			    struct ibv_device *device)
{
	bool listed = false;
	size_t n;

	for (size_t i = 0; i < ATTRIBUTE_COUNT; i++) {
		const char *name = attributes[i].name;
		unsigned port, index;

		if (strcmp(attributes[i].class, classes[place->class].attributes) ||
		    attribute_kind(name, place->rest, &port, &index) != NODE_DIRECTORY)
			continue;
		if (*place->rest)
			name = name_behind(name, place->rest);
		n = strcspn(name, "/");
		if (*name != '#')
			list_add(listing, name, n, name[n] ? NODE_DIRECTORY : NODE_FILE);
		else if (!listed || ends_in_number(attributes[i].name))
			list_numbers(listing, device, name[1] ? "ports/#/" : attributes[i].name, port);
		listed |= *name == '#';
	}
}

static void list_root(struct listing *listing, enum class class, struct ibv_device **list)
{
	if (class == CLASS_VERBS)
		list_add(listing, abi_version, strlen(abi_version), NODE_FILE);
	if (class == CLASS_DEV)
		list_add(listing, rdma_cm, strlen(rdma_cm), NODE_DEVICE);
	for (; list && *list; list++)
		list_add(listing, name_in(class, *list), strlen(name_in(class, *list)),
			 class == CLASS_DEV ? NODE_DEVICE : NODE_DIRECTORY);
}

static void list_verbs(struct listing *listing, const struct place *place)
{
	struct ibv_device **list, *device;

	list = verbs.get_device_list(NULL);
	device = find_device(list, place);
	if (!place->device[0])
		list_root(listing, place->class, list);
	else if (device && place->class != CLASS_DEV)
		list_attributes(listing, place, device);
	verbs.free_device_list(list);
}

/* False: the fabric has no such directory. */
static bool list_fabric(struct listing *listing, const char *path)
{
	char *text = malloc(LISTING_BYTES), *name = text;
	int saved = errno;
	bool directory = false, found;

	busy = true;
	found = text && fabric_read(path, &directory, text, LISTING_BYTES) && directory;
	busy = false;
	while (found && *name) {
		size_t length = strcspn(name, "\n"), slash = length && name[length - 1] == '/';

		list_add(listing, name, length - slash, slash ? NODE_DIRECTORY : NODE_FILE);
		name += length + (name[length] == '\n');
	}
	free(text);
	errno = saved;
	return found;
}

int tree_list(const char *path, struct tree_entry **entries, size_t *count)
{
	struct listing listing = { 0 };
	struct place place;
	bool found = false;
	int saved;

	if (take_apart(path, &place) && enter(&saved)) {
		found = true;
		list_verbs(&listing, &place);
		leave(saved);
	}
	if (fabric_is_there())
		found |= list_fabric(&listing, path);
	if (!found)
		return ENOENT;
	if (listing.failed) {
		free(listing.entries);
		return ENOMEM;
	}
	*entries = listing.entries;
	*count = listing.count;
	return 0;
}
