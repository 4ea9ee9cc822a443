/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an attacker does with what it has been given: find it in /proc, make it writable by every
 * way that the kernel knows, write anything there, fill and truncate what has a descriptor, say
 * anything to what listens.
 */
#include "hostile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

/* ---- mappings ---- */

unsigned spans_of(pid_t pid, struct span *span, bool shared_only)
{
	unsigned long start, end, offset, major_number, minor_number, inode;
	char path[64], line[512];
	unsigned count = 0;
	FILE *maps;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "r");
	CHECK(maps, "%s: %m", path);
	while (fgets(line, sizeof(line), maps)) {
		struct span *s = &span[count];

		memset(s, 0, sizeof(*s));
		if (sscanf(line, "%lx-%lx %4s %lx %lx:%lx %lu %127[^\n]", &start, &end, s->rights,
			   &offset, &major_number, &minor_number, &inode, s->name) < 7 ||
		    (shared_only && s->rights[3] != 's'))
			continue;
		s->start = (char *)start;
		s->bytes = end - start;
		s->offset = offset;
		s->inode = inode;
		s->device = (unsigned)makedev(major_number, minor_number);
		CHECK(++count < SPANS_MAX, "too many mappings");
	}
	fclose(maps);
	return count;
}

unsigned shared_between(pid_t a, pid_t b, char *name, size_t bytes)
{
	static struct span of_a[SPANS_MAX], of_b[SPANS_MAX];
	unsigned i, j, count = 0, as = spans_of(a, of_a, true), bs = spans_of(b, of_b, true);

	for (i = 0; i < as; i++)
		for (j = 0; j < bs; j++)
			if (of_a[i].inode && of_a[i].inode == of_b[j].inode &&
			    of_a[i].device == of_b[j].device) {
				snprintf(name, bytes, "%s", of_a[i].name);
				count++;
				break;
			}
	return count;
}

/* A way in through /proc, for the file of this inode: a descriptor, or -1. */
static int reopen_descriptor(uint64_t inode, int rights)
{
	DIR *directory = opendir("/proc/self/fd");
	struct dirent *entry;
	struct stat status;
	char path[300];
	int found = -1;

	while (directory && found < 0 && (entry = readdir(directory))) {
		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		if (!stat(path, &status) && S_ISREG(status.st_mode) && status.st_ino == inode)
			found = open(path, rights | O_CLOEXEC);
	}
	if (directory)
		closedir(directory);
	return found;
}

/* False: nothing was learned from the file. */
static bool each_page_of_file(const struct span *span, page_fn *visit, void *argument)
{
	off_t at = (off_t)span->offset, first = at, last = at + (off_t)span->bytes, end;
	int fd = reopen_descriptor(span->inode, O_RDONLY);

	if (fd < 0)
		return false;
	while ((at = lseek(fd, at, SEEK_DATA)) >= 0 && at < last) {
		end = lseek(fd, at, SEEK_HOLE);
		for (; at < end && at < last; at += (off_t)PAGE)
			visit(span->start + (at - first), argument);
	}
	close(fd);
	return true;
}

/* By mincore(), which tells it of shared memory without making pages. */
static void each_page_in_core(const struct span *span, page_fn *visit, void *argument)
{
	static unsigned char there[65536];
	size_t at, step = sizeof(there) * PAGE, i;

	for (at = 0; at < span->bytes; at += step) {
		size_t bytes = span->bytes - at < step ? span->bytes - at : step;

		if (mincore(span->start + at, bytes, there))
			return;
		for (i = 0; i < bytes / PAGE; i++)
			if (there[i] & 1)
				visit(span->start + at + i * PAGE, argument);
	}
}

/* Memory may be huge and almost empty. */
void span_each_page(const struct span *span, page_fn *visit, void *argument)
{
	if (span->rights[0] == 'r' && !each_page_of_file(span, visit, argument))
		each_page_in_core(span, visit, argument);
}

struct wanted {
	const void *what;
	size_t bytes;
	unsigned found;
};

static void look_at_page(char *page, void *argument)
{
	struct wanted *wanted = argument;

	wanted->found += memmem(page, PAGE, wanted->what, wanted->bytes) != NULL;
}

unsigned attack_find(const void *what, size_t bytes)
{
	static struct span span[SPANS_MAX];
	struct wanted wanted = {.what = what, .bytes = bytes};
	unsigned i, count = attack_map_everything(span);

	for (i = 0; i < count; i++)
		span_each_page(&span[i], look_at_page, &wanted);
	count = spans_of(getpid(), span, true);
	for (i = 0; i < count; i++) /* what can be read, if not written */
		if (span[i].rights[1] != 'w')
			span_each_page(&span[i], look_at_page, &wanted);
	return wanted.found;
}

/* ---- making them writable ---- */

static int reopen_mapping(const struct span *span)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", (unsigned long)span->start,
		 (unsigned long)(span->start + span->bytes));
	return open(path, O_RDWR | O_CLOEXEC);
}

static bool make_writable(struct span *span)
{
	void *mapped = MAP_FAILED;
	struct stat status;
	int fd;

	if (span->rights[1] == 'w' || !mprotect(span->start, span->bytes, PROT_READ | PROT_WRITE))
		goto writable;
	fd = reopen_descriptor(span->inode, O_RDWR);
	if (fd < 0)
		fd = reopen_mapping(span);
	if (fd < 0)
		return false;
	if (!fstat(fd, &status) && status.st_size > 0)
		mapped = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_NORESERVE, fd, 0);
	close(fd);
	if (mapped == MAP_FAILED)
		return false;
	span->start = mapped;
	span->offset = 0;
	span->bytes = (size_t)status.st_size;
writable:
	strcpy(span->rights, "rw-s");
	return true;
}

/* A memfd that came with a descriptor and was not mapped. */
static void map_descriptors(void)
{
	DIR *directory = opendir("/proc/self/fd");
	char path[300], target[300];
	struct dirent *entry;
	struct stat status;

	while (directory && (entry = readdir(directory))) {
		ssize_t bytes;
		int fd;

		snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name);
		bytes = readlink(path, target, sizeof(target) - 1);
		target[bytes > 0 ? bytes : 0] = '\0';
		if (!strstr(target, "memfd:"))
			continue;
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && !fstat(fd, &status) && status.st_size > 0 &&
		    mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_NORESERVE, fd, 0) == MAP_FAILED &&
		    mmap(NULL, (size_t)status.st_size, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd,
			 0) == MAP_FAILED)
			say("%s cannot be mapped: %m", target);
		if (fd >= 0)
			close(fd);
	}
	if (directory)
		closedir(directory);
}

/* Once is enough. */
static bool is_among(const struct span *span, unsigned count, const struct span *one)
{
	unsigned i;

	for (i = 0; i < count; i++)
		if (span[i].inode == one->inode && span[i].device == one->device &&
		    span[i].offset <= one->offset &&
		    span[i].offset + span[i].bytes >= one->offset + one->bytes)
			return true;
	return false;
}

unsigned attack_map_everything(struct span *span)
{
	static bool descriptors_mapped;
	unsigned i, count, kept = 0;

	if (!descriptors_mapped)
		map_descriptors();
	descriptors_mapped = true;
	count = spans_of(getpid(), span, true);
	for (i = 0; i < count; i++)
		if (!is_among(span, kept, &span[i]) && make_writable(&span[i]))
			span[kept++] = span[i];
	return kept;
}

/* ---- a process for it ---- */

/*
 * The honest library in us must not fall over what we do, or the attack would end with it. So it is
 * done by a child made behind its back: no handler of fork() runs.
 */
pid_t attack_fork(void (*run)(void *argument), void *argument)
{
	static struct span span[SPANS_MAX];
	unsigned i, count = spans_of(getpid(), span, false);
	pid_t pid;

	for (i = 0; i < count; i++)
		madvise(span[i].start, span[i].bytes, MADV_DOFORK);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	CHECK(pid >= 0, "%m");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_IGN);
	run(argument);
	_exit(0);
}

/* ---- writing anything ---- */

struct pages {
	char *page[65536];
	unsigned count;
};

/* Pages with something on them: there it is that values matter. */
static void keep_page(char *page, void *argument)
{
	static const char zeros[PAGE];
	struct pages *pages = argument;

	if (!memcmp(page, zeros, PAGE) && random_below(64))
		return;
	if (pages->count < sizeof(pages->page) / sizeof(pages->page[0]))
		pages->page[pages->count++] = page;
	else
		pages->page[random_below(pages->count)] = page;
}

/* Values that look like what stands there do more harm than chance. */
static uint64_t hostile_value(const char *page, uint64_t old)
{
	uint64_t neighbour;

	memcpy(&neighbour, page + random_below(PAGE / 8) * 8, sizeof(neighbour));
	switch (random_below(8)) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return old + 1;
	case 3:
		return old - 1;
	case 4:
		return old ^ 1ull << random_below(64);
	case 5:
		return neighbour;
	case 6:
		return 1ull << random_below(64);
	default:
		return random_u();
	}
}

/* A word that is not zero, if that is found in a few tries. */
static void scribble_word(char *page)
{
	size_t width = 1ul << random_below(4), at;
	uint64_t old = 0, value;
	unsigned tries = 16;

	do {
		at = random_below(PAGE / width) * width;
		memcpy(&old, page + at, width);
	} while (!old && --tries);
	value = hostile_value(page, old);
	memcpy(page + at, &value, width);
}

/* What is right in one place is wrong in another. */
static void move_line(char *to, const char *from)
{
	size_t bytes = 16ul << random_below(5);

	memcpy(to + random_below(PAGE / bytes) * bytes, from + random_below(PAGE / bytes) * bytes,
	       bytes);
}

void attack_scribble(const struct span *span, unsigned spans, double seconds)
{
	static struct pages pages;
	double until_s = now() + seconds;
	unsigned i;

	while (now() < until_s) {
		pages.count = 0;
		for (i = 0; i < spans; i++)
			span_each_page(&span[i], keep_page, &pages);
		if (!pages.count)
			return;
		for (i = 0; i < 200000 && (i % 256 || now() < until_s); i++)
			if (random_below(16))
				scribble_word(pages.page[random_below(pages.count)]);
			else
				move_line(pages.page[random_below(pages.count)],
					  pages.page[random_below(pages.count)]);
	}
}

/* ---- descriptors ---- */

#define DESCRIPTORS 1024
static bool spared[DESCRIPTORS];

void attack_spare_descriptors(void)
{
	int fd;

	for (fd = 0; fd < DESCRIPTORS; fd++)
		spared[fd] = fcntl(fd, F_GETFD) >= 0;
}

static void each_descriptor(void (*misuse)(int fd), double seconds)
{
	double until_s = now() + seconds;
	int fd;

	while (now() < until_s) {
		for (fd = 0; fd < DESCRIPTORS; fd++)
			if (!spared[fd] && fcntl(fd, F_GETFD) >= 0)
				misuse(fd);
		usleep(100);
	}
}

static void fill_eventfd(int fd)
{
	uint64_t value = UINT64_MAX - 1;

	fcntl(fd, F_SETFL, 0); /* whoever shares it would block now, */
	if (random_below(2)) {
		fcntl(fd, F_SETFL, O_NONBLOCK); /* as we would, if not for a moment */
		if (read(fd, &value, sizeof(value)) < 0)
			value = UINT64_MAX - 1;
		value = UINT64_MAX - 1;
		if (write(fd, &value, sizeof(value)) < 0)
			value = 0;
		fcntl(fd, F_SETFL, 0);
	}
}

static void misuse_memory(int fd)
{
	struct stat status;
	off_t at;

	if (fstat(fd, &status))
		return;
	switch (random_below(5)) {
	case 0:
		if (ftruncate(fd, (off_t)(random_below(2) * PAGE)))
			return;
		break;
	case 1:
		if (ftruncate(fd, status.st_size + (off_t)MIB))
			return;
		break;
	case 2:
		fcntl(fd, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE);
		break;
	case 3:
		at = (off_t)(random_below((uint64_t)status.st_size / PAGE + 1) * PAGE);
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, PAGE);
		break;
	default:
		at = (off_t)random_below((uint64_t)status.st_size + 1);
		if (pwrite(fd, &at, sizeof(at), at) < 0)
			return;
	}
}

/* Garbage, at times with descriptors that nobody expects. */
static void send_garbage(int fd)
{
	char data[2048], control[CMSG_SPACE(4 * sizeof(int))];
	struct iovec iov = {.iov_base = data, .iov_len = random_below(sizeof(data)) + 1};
	struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
	unsigned fds = (unsigned)random_below(5), i;
	struct cmsghdr *head;

	for (i = 0; i < iov.iov_len; i++)
		data[i] = random_below(4) ? (char)random_u() : 0;
	memset(control, 0, sizeof(control));
	if (fds) {
		message.msg_control = control;
		message.msg_controllen = CMSG_SPACE(fds * sizeof(int));
		head = CMSG_FIRSTHDR(&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN(fds * sizeof(int));
		for (i = 0; i < fds; i++)
			memcpy(CMSG_DATA(head) + i * sizeof(int), &fd, sizeof(int));
	}
	sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

static void misuse_descriptor(int fd)
{
	char path[64], target[128], byte[256];
	ssize_t bytes;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	bytes = readlink(path, target, sizeof(target) - 1);
	if (bytes <= 0)
		return;
	target[bytes] = '\0';
	if (strstr(target, "[eventfd]")) {
		fill_eventfd(fd);
	} else if (strstr(target, "memfd:")) {
		misuse_memory(fd);
	} else if (!strncmp(target, "socket:", 7)) {
		fcntl(fd, F_SETFL, 0);
		send_garbage(fd);
		if (!random_below(16))
			recv(fd, byte, sizeof(byte), MSG_DONTWAIT);
	} else if (!strncmp(target, "pipe:", 5)) {
		fcntl(fd, F_SETFL, O_NONBLOCK);
		if (write(fd, byte, sizeof(byte)) < 0)
			fcntl(fd, F_SETFL, 0);
	}
}

void attack_descriptors(double seconds)
{
	each_descriptor(misuse_descriptor, seconds);
}

static void fill_descriptor(int fd)
{
	uint64_t most = UINT64_MAX - 1;
	char path[64], target[128];
	ssize_t bytes;
	unsigned i;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	bytes = readlink(path, target, sizeof(target) - 1);
	target[bytes > 0 ? bytes : 0] = '\0';
	if (strstr(target, "[eventfd]")) {
		fcntl(fd, F_SETFL, O_NONBLOCK); /* for us, and for a moment */
		while (most && write(fd, &most, sizeof(most)) != sizeof(most))
			most >>= 1;
		fcntl(fd, F_SETFL, 0);
	} else if (!strncmp(target, "socket:", 7)) {
		fcntl(fd, F_SETFL, 0);
		for (i = 0; i < 1000 && send(fd, path, 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0; i++)
			;
	} else if (!strncmp(target, "pipe:", 5)) {
		fcntl(fd, F_SETFL, O_NONBLOCK);
		for (i = 0; i < 100 && write(fd, target, sizeof(target)) > 0; i++)
			;
		fcntl(fd, F_SETFL, 0);
	}
}

void attack_fill(double seconds)
{
	each_descriptor(fill_descriptor, seconds);
}

/* ---- sockets that can be reached ---- */

struct listener {
	struct sockaddr_un address;
	socklen_t bytes;
	int type;
};

static unsigned find_listeners(struct listener *listener, unsigned most)
{
	FILE *file = fopen("/proc/net/unix", "r");
	unsigned count = 0, type;
	char line[512], *at;

	while (file && count < most && fgets(line, sizeof(line), file)) {
		struct listener *l = &listener[count];

		at = strstr(line, " @verbatim");
		if (!at || sscanf(line, "%*x: %*x %*x %*x %x", &type) != 1)
			continue;
		at[strcspn(at, "\n")] = '\0';
		memset(l, 0, sizeof(*l));
		l->type = (int)type;
		l->address.sun_family = AF_UNIX;
		memcpy(l->address.sun_path + 1, at + 2, strlen(at + 2));
		l->bytes = (socklen_t)(sizeof(sa_family_t) + 1 + strlen(at + 2));
		count++;
	}
	if (file)
		fclose(file);
	return count;
}

static void disturb_listener(const struct listener *listener)
{
	int fd = socket(AF_UNIX, listener->type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unsigned i, times = (unsigned)random_below(4);

	if (fd < 0)
		return;
	if (!connect(fd, (const struct sockaddr *)&listener->address, listener->bytes))
		for (i = 0; i < times; i++)
			send_garbage(fd);
	if (random_below(2))
		shutdown(fd, SHUT_RDWR);
	close(fd);
}

static void disturb_port(int udp)
{
	struct sockaddr_in to = {.sin_family = AF_INET,
				 .sin_port = htons(4791),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	uint8_t data[2048];
	size_t bytes = random_below(sizeof(data)), i;

	for (i = 0; i < bytes; i++)
		data[i] = (uint8_t)random_u();
	sendto(udp, data, bytes, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to));
}

void attack_sockets(double seconds)
{
	static struct listener listener[256];
	double until_s = now() + seconds;
	int udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	unsigned i, count;

	while (now() < until_s) {
		count = find_listeners(listener, 256);
		for (i = 0; i < 64; i++) {
			if (count)
				disturb_listener(&listener[random_below(count)]);
			disturb_port(udp);
		}
	}
	close(udp);
}
