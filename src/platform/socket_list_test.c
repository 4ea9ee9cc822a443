/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists of sockets: both ways say the same of the same sockets, whatever else the namespace is full of. */
#include "platform/socket_list.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "platform/fail.h"
#include "platform/netns_test.h"

#define PORT		4791
#define PREFIX		"socket-list-test/"
#define STRANGER	4321u
#define SEEN_MAX	64u
#define MANY		2000u
#define NEVER		1000000u	/* an nth call that does not come: those that came are missing of it */

static bool real_root;

static int setup(void **state)
{
	fail_clear();
	return !netns_renew();
}

static int teardown(void **state)
{
	fail_clear();
	return 0;
}

/* ---- one way or the other ---- */

enum way { BY_DIAG, BY_PROC };

/* The other way fails: what is listed has come by this one. */
static void take_way(enum way way)
{
	fail_clear();
	if (way == BY_DIAG)
		fail_set(FAIL_PROC, 1, EACCES);
	else
		fail_set(FAIL_NETLINK, 1, EMFILE);
}

static unsigned calls(enum fail_point point)
{
	return NEVER - atomic_load(&fail_table[point].countdown);
}

struct udp_list {
	struct udp_seen seen[SEEN_MAX];
	unsigned count;
};

static void note_udp(void *context, const struct udp_seen *seen)
{
	struct udp_list *list = context;

	if (list->count < SEEN_MAX)
		list->seen[list->count++] = *seen;
}

static void check_same(const struct udp_seen *one, const struct udp_seen *two)
{
	assert_int_equal(one->inode, two->inode);
	assert_int_equal(one->any, two->any);
	assert_int_equal(one->uid, two->uid);
	assert_memory_equal(one->address, two->address, 16);
}

static int by_inode(const void *a, const void *b)
{
	const struct udp_seen *one = a, *two = b;

	return (one->inode > two->inode) - (one->inode < two->inode);
}

static struct udp_list udp_by(enum way way, int family)
{
	struct udp_list list = { .count = 0 };

	take_way(way);
	assert_int_equal(socket_list_udp(family, PORT, note_udp, &list), 0);
	fail_clear();
	qsort(list.seen, list.count, sizeof(list.seen[0]), by_inode);
	return list;
}

struct name_list {
	char name[SEEN_MAX][120];
	unsigned count;
};

static void note_name(void *context, const struct socket_seen *seen)
{
	struct name_list *list = context;

	if (list->count < SEEN_MAX)
		strcpy(list->name[list->count++], seen->name);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

static struct name_list names_by(enum way way, int type)
{
	struct name_list list = { .count = 0 };

	take_way(way);
	assert_int_equal(socket_list_names(type, PREFIX, note_name, &list), 0);
	fail_clear();
	qsort(list.name, list.count, sizeof(list.name[0]), by_text);
	return list;
}

/* ---- sockets ---- */

static uint32_t inode_of(int fd)
{
	char path[64], text[64];
	ssize_t length;
	unsigned inode;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	length = readlink(path, text, sizeof(text) - 1);
	assert_true(length > 0);
	text[length] = '\0';
	assert_int_equal(sscanf(text, "socket:[%u]", &inode), 1);
	return inode;
}

static int bound4(uint32_t address, uint16_t port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(port),
				  .sin_addr.s_addr = htonl(address) };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

static int bound6(const struct in6_addr *address, uint16_t port, int only)
{
	struct sockaddr_in6 to = { .sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = *address };
	int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;

	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof(only));
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	assert_int_equal(bind(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	return fd;
}

/* An abstract name of @bytes (0: a C string). */
static int named(int type, const char *text, size_t bytes)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (!bytes)
		bytes = strlen(text);
	memcpy(name.sun_path + 1, text, bytes);
	assert_int_equal(bind(fd, (struct sockaddr *)&name,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + bytes)), 0);
	return fd;
}

static int listening(int type, const char *text)
{
	int fd = named(type, text, 0);

	assert_int_equal(listen(fd, 128), 0);
	return fd;
}

static int connected_to(int type, const char *text)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	strcpy(name.sun_path + 1, text);
	assert_int_equal(connect(fd, (struct sockaddr *)&name,
				 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(text))), 0);
	return fd;
}

/* More descriptors than the limit has as a rule; false: it is not to be raised. */
static bool many_descriptors(void)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	return !setrlimit(RLIMIT_NOFILE, &limit) && limit.rlim_cur > 2 * MANY + 64;
}

/* ---- UDP ---- */

static void check_udp(int family, const struct udp_seen *expected, unsigned count)
{
	struct udp_list diag = udp_by(BY_DIAG, family), proc = udp_by(BY_PROC, family);
	unsigned i, n;

	assert_int_equal(diag.count, count);
	assert_int_equal(proc.count, count);
	for (i = 0; i < count; i++) {
		check_same(&diag.seen[i], &proc.seen[i]);
		for (n = 0; n < count && diag.seen[n].inode != expected[i].inode; n++)
			;
		assert_true(n < count);
		check_same(&diag.seen[n], &expected[i]);
	}
}

static void both_ways_list_the_sockets_of_a_port(void **state)
{
	static const struct in6_addr mapped = { .s6_addr = { [10] = 0xff, 0xff, 127, 0, 0, 7 } };
	struct udp_seen four[5] = { { .any = true }, { .any = true }, { .any = false } };
	struct udp_seen six[3] = { { .any = true } };
	struct sockaddr_in peer = { .sin_family = AF_INET, .sin_port = htons(9),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd[10], i;

	fd[0] = bound4(INADDR_ANY, PORT);
	fd[1] = bound4(INADDR_ANY, PORT);
	fd[2] = bound4(INADDR_LOOPBACK + 2, PORT);
	fd[3] = bound4(INADDR_LOOPBACK, PORT);		/* connected, not as others are */
	assert_int_equal(connect(fd[3], (struct sockaddr *)&peer, sizeof(peer)), 0);
	fd[4] = bound4(0xe0000105, PORT);
	fd[5] = bound6(&in6addr_any, PORT, 1);
	fd[6] = bound6(&in6addr_loopback, PORT, 1);
	fd[7] = bound6(&mapped, PORT, 0);
	fd[8] = bound4(INADDR_ANY, PORT + 1);
	fd[9] = bound6(&in6addr_any, PORT + 256, 1);	/* in network order its neighbour */
	for (i = 0; i < 5; i++) {
		four[i].uid = geteuid();
		four[i].inode = inode_of(fd[i]);
		memset(four[i].address + 10, 0xff, 2);
	}
	memcpy(four[2].address + 12, (uint8_t[]){ 127, 0, 0, 3 }, 4);
	memcpy(four[3].address + 12, (uint8_t[]){ 127, 0, 0, 1 }, 4);
	memcpy(four[4].address + 12, (uint8_t[]){ 224, 0, 1, 5 }, 4);
	for (i = 0; i < 3; i++) {
		six[i].uid = geteuid();
		six[i].inode = inode_of(fd[5 + i]);
	}
	six[1].address[15] = 1;
	memcpy(six[2].address, &mapped, 16);
	check_udp(AF_INET, four, 5);
	check_udp(AF_INET6, six, 3);
	for (i = 0; i < 10; i++)
		close(fd[i]);
	check_udp(AF_INET, NULL, 0);
	check_udp(AF_INET6, NULL, 0);
}

static void both_ways_name_the_user(void **state)
{
	struct udp_seen expected = { .address = { [10] = 0xff, 0xff }, .any = true, .uid = STRANGER };
	int fd;

	if (!real_root) {
		print_message("SKIPPED: other users take root\n");
		skip();
	}
	assert_int_equal(seteuid(STRANGER), 0);
	fd = bound4(INADDR_ANY, PORT);
	assert_int_equal(seteuid(0), 0);
	expected.inode = inode_of(fd);
	check_udp(AF_INET, &expected, 1);
	close(fd);
}

static void *list_elsewhere(void *unused)
{
	bool right = netns_renew();
	enum way way;
	int fd;

	for (way = BY_DIAG; right && way <= BY_PROC; way++)
		right = udp_by(way, AF_INET).count == 0 && names_by(way, SOCK_SEQPACKET).count == 0;
	fd = right ? bound4(INADDR_ANY, PORT) : -1;
	for (way = BY_DIAG; right && way <= BY_PROC; way++)
		right = udp_by(way, AF_INET).count == 1;
	close(fd);
	return right ? NULL : (void *)"wrong";
}

static void it_is_the_threads_own_namespace(void **state)
{
	int one = bound4(INADDR_ANY, PORT), two = bound4(INADDR_ANY, PORT);
	int name = listening(SOCK_SEQPACKET, PREFIX "1");
	pthread_t thread;
	void *wrong;

	assert_int_equal(pthread_create(&thread, NULL, list_elsewhere, NULL), 0);
	assert_int_equal(pthread_join(thread, &wrong), 0);
	assert_null(wrong);
	assert_int_equal(udp_by(BY_DIAG, AF_INET).count, 2);
	assert_int_equal(udp_by(BY_PROC, AF_INET).count, 2);
	close(name);
	close(two);
	close(one);
}

/* The kernel leaves them out: the answer has one message and its end. */
static void many_sockets_of_other_ports_are_not_in_the_answer(void **state)
{
	static int fd[MANY];
	struct udp_list list = { .count = 0 };
	int own;
	unsigned i;

	if (!many_descriptors()) {
		print_message("SKIPPED: the limit of descriptors is too low\n");
		skip();
	}
	own = bound4(INADDR_ANY, PORT);
	for (i = 0; i < MANY; i++)
		fd[i] = bound4(INADDR_ANY, (uint16_t)(PORT + 1 + i));
	fail_set(FAIL_NETLINK_RECEIVE, NEVER, EIO);
	assert_int_equal(socket_list_udp(AF_INET, PORT, note_udp, &list), 0);
	assert_in_range(calls(FAIL_NETLINK_RECEIVE), 1, 2);
	assert_int_equal(list.count, 1);
	assert_int_equal(udp_by(BY_PROC, AF_INET).count, 1);
	for (i = 0; i < MANY; i++)
		close(fd[i]);
	close(own);
}

/* ---- names ---- */

static void check_names(int type, const char *const *expected, unsigned count)
{
	struct name_list diag = names_by(BY_DIAG, type), proc = names_by(BY_PROC, type);
	unsigned i;

	assert_int_equal(diag.count, count);
	assert_int_equal(proc.count, count);
	for (i = 0; i < count; i++) {
		assert_string_equal(diag.name[i], expected[i]);
		assert_string_equal(proc.name[i], expected[i]);
	}
}

static void both_ways_list_names_of_a_type(void **state)
{
	static const char *const packets[] = { PREFIX "", PREFIX "1", PREFIX "1/with a space" };
	static const char *const streams[] = { PREFIX "stream" };
	static const char *const datagrams[] = { PREFIX "connected", PREFIX "datagram" };
	struct sockaddr_un own = { .sun_family = AF_UNIX };
	socklen_t own_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + sizeof(PREFIX "connected"));
	int fd[16], i;

	fd[0] = listening(SOCK_SEQPACKET, PREFIX "1");
	fd[1] = listening(SOCK_SEQPACKET, PREFIX "");
	fd[2] = listening(SOCK_SEQPACKET, PREFIX "1/with a space");
	fd[3] = listening(SOCK_SEQPACKET, "a-" PREFIX "1");
	fd[4] = listening(SOCK_SEQPACKET, "socket-list-tesT/1");
	fd[5] = listening(SOCK_SEQPACKET, " @" PREFIX "2");
	fd[6] = named(SOCK_SEQPACKET, PREFIX "silent", 0);	/* it does not listen */
	fd[7] = listening(SOCK_STREAM, PREFIX "stream");
	fd[8] = named(SOCK_DGRAM, PREFIX "datagram", 0);
	fd[9] = connected_to(SOCK_SEQPACKET, PREFIX "1");	/* waits */
	fd[10] = connected_to(SOCK_SEQPACKET, PREFIX "1");
	fd[11] = accept(fd[0], NULL, NULL);
	assert_true(fd[11] >= 0);
	fd[12] = named(SOCK_DGRAM, PREFIX "connected", 0);	/* to itself, as a claim that nobody may send to */
	strcpy(own.sun_path + 1, PREFIX "connected");
	assert_int_equal(connect(fd[12], (struct sockaddr *)&own, own_bytes), 0);
	fd[13] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);	/* without a name */
	check_names(SOCK_SEQPACKET, packets, 3);
	check_names(SOCK_STREAM, streams, 1);
	check_names(SOCK_DGRAM, datagrams, 2);
	for (i = 0; i < 14; i++)
		close(fd[i]);
	check_names(SOCK_SEQPACKET, NULL, 0);
}

/* The list of /proc shows a file, and a NUL, as an @: only the other way tells them apart. */
static void a_file_or_a_nul_does_not_make_a_name(void **state)
{
	struct sockaddr_un file = { .sun_family = AF_UNIX, .sun_path = "@socket-list-test" };
	char directory[] = "/tmp/socket-list-XXXXXX";
	int home = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0), nul;
	struct name_list list = { .count = 0 };

	assert_non_null(mkdtemp(directory));
	assert_int_equal(chdir(directory), 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&file, sizeof(file)), 0);
	assert_int_equal(listen(fd, 1), 0);
	nul = named(SOCK_SEQPACKET, "socket-list-test\0x", sizeof("socket-list-test\0x") - 1);
	assert_int_equal(listen(nul, 1), 0);
	fail_set(FAIL_PROC, 1, EACCES);
	assert_int_equal(socket_list_names(SOCK_SEQPACKET, "socket-list-test", note_name, &list), 0);
	assert_int_equal(list.count, 0);
	assert_int_equal(unlink(file.sun_path), 0);
	assert_int_equal(fchdir(home), 0);
	assert_int_equal(rmdir(directory), 0);
	close(nul);
	close(home);
	close(fd);
}

static void many_connections_are_not_in_the_answer(void **state)
{
	struct name_list list = { .count = 0 };
	static int fd[2 * MANY];
	int own;
	unsigned i;

	if (!many_descriptors()) {
		print_message("SKIPPED: the limit of descriptors is too low\n");
		skip();
	}
	own = listening(SOCK_SEQPACKET, PREFIX "1");
	for (i = 0; i < MANY; i++) {
		fd[2 * i] = connected_to(SOCK_SEQPACKET, PREFIX "1");
		fd[2 * i + 1] = accept(own, NULL, NULL);
		assert_true(fd[2 * i + 1] >= 0);
	}
	fail_set(FAIL_NETLINK_RECEIVE, NEVER, EIO);
	assert_int_equal(socket_list_names(SOCK_SEQPACKET, PREFIX, note_name, &list), 0);
	assert_in_range(calls(FAIL_NETLINK_RECEIVE), 1, 2);
	assert_int_equal(list.count, 1);
	assert_int_equal(names_by(BY_PROC, SOCK_SEQPACKET).count, 1);
	for (i = 0; i < 2 * MANY; i++)
		close(fd[i]);
	close(own);
}

/* ---- where a way is closed ---- */

static int list_both(unsigned *sockets, unsigned *names)
{
	struct name_list name_list = { .count = 0 };
	struct udp_list list = { .count = 0 };
	int err = socket_list_udp(AF_INET, PORT, note_udp, &list);

	if (!err)
		err = socket_list_names(SOCK_SEQPACKET, PREFIX, note_name, &name_list);
	*sockets = list.count;
	*names = name_list.count;
	return err;
}

static void each_failure_leads_to_proc(void **state)
{
	static const enum fail_point point[] = { FAIL_NETLINK, FAIL_NETLINK_SEND, FAIL_NETLINK_RECEIVE,
						 FAIL_ALLOCATE };
	static const int error[] = { EPERM, EPROTONOSUPPORT, EAFNOSUPPORT, EMFILE, ENOMEM };
	int fd = bound4(INADDR_ANY, PORT), name = listening(SOCK_SEQPACKET, PREFIX "1");
	unsigned p, e;

	for (p = 0; p < 4; p++)
		for (e = 0; e < 5; e++) {
			struct name_list names = { .count = 0 };
			struct udp_list list = { .count = 0 };

			fail_set(point[p], 1, error[e]);
			assert_int_equal(socket_list_udp(AF_INET, PORT, note_udp, &list), 0);
			assert_int_equal(list.count, 1);
			fail_set(point[p], 1, error[e]);
			assert_int_equal(socket_list_names(SOCK_SEQPACKET, PREFIX, note_name, &names), 0);
			assert_int_equal(names.count, 1);
		}
	close(name);
	close(fd);
}

static void without_either_way_there_is_an_error(void **state)
{
	struct name_list names = { .count = 0 };
	struct udp_list list = { .count = 0 };

	fail_set(FAIL_NETLINK, 1, EPERM);
	fail_set(FAIL_PROC, 1, EACCES);
	assert_int_equal(socket_list_udp(AF_INET, PORT, note_udp, &list), EACCES);
	fail_set(FAIL_NETLINK, 1, EPERM);
	fail_set(FAIL_PROC, 1, EACCES);
	assert_int_equal(socket_list_names(SOCK_SEQPACKET, PREFIX, note_name, &names), EACCES);
	assert_int_equal(list.count + names.count, 0);
}

static void at_the_limit_of_descriptors_there_is_an_error(void **state)
{
	struct rlimit limit, none;
	int fd = bound4(INADDR_ANY, PORT), err;
	struct udp_list list = { .count = 0 };

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	none = limit;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	err = socket_list_udp(AF_INET, PORT, note_udp, &list);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	assert_int_equal(err, EMFILE);
	assert_int_equal(list.count, 0);
	assert_int_equal(udp_by(BY_DIAG, AF_INET).count, 1);	/* it was not for good */
	close(fd);
}

/* What came before is passed on already: no second list behind it, which would show it again. */
static void an_answer_that_breaks_off_is_an_error(void **state)
{
	struct udp_list list = { .count = 0 };
	int fd[SEEN_MAX];
	unsigned i;

	for (i = 0; i < SEEN_MAX; i++)
		fd[i] = bound4(INADDR_ANY, PORT);
	fail_set(FAIL_NETLINK_RECEIVE, 2, ENOBUFS);
	assert_int_equal(socket_list_udp(AF_INET, PORT, note_udp, &list), ENOBUFS);
	assert_in_range(list.count, 1, SEEN_MAX - 1);
	assert_int_equal(udp_by(BY_DIAG, AF_INET).count, SEEN_MAX);
	assert_int_equal(udp_by(BY_PROC, AF_INET).count, SEEN_MAX);
	for (i = 0; i < SEEN_MAX; i++)
		close(fd[i]);
}

/* The question is swallowed: sendto() says that it is sent. 0: as it should be. */
static int in_a_sandbox(void)
{
	struct sock_filter program[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_sendto, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = { .len = sizeof(program) / sizeof(program[0]), .filter = program };
	unsigned sockets, names;

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter))
		return 2;
	if (list_both(&sockets, &names) || sockets != 1 || names != 1)
		return 3;
	fail_set(FAIL_NETLINK, NEVER, EIO);
	if (list_both(&sockets, &names) || sockets != 1 || names != 1)
		return 4;
	return calls(FAIL_NETLINK) ? 5 : 0;
}

static void a_question_that_is_swallowed_is_not_asked_again(void **state)
{
	int fd = bound4(INADDR_ANY, PORT), name = listening(SOCK_SEQPACKET, PREFIX "1"), status;
	pid_t pid = fork();

	if (!pid)
		_exit(in_a_sandbox());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
		print_message("SKIPPED: no filter of system calls can be made here\n");
		skip();
	}
	assert_int_equal(status, 0);
	close(name);
	close(fd);
}

/* A kernel without the module looks for it each time. */
static void a_missing_module_is_not_asked_for_again(void **state)
{
	int fd = bound4(INADDR_ANY, PORT), name = listening(SOCK_SEQPACKET, PREFIX "1"), status;
	unsigned sockets, names;
	struct udp_list list;
	pid_t pid = fork();

	if (!pid) {
		list.count = 0;
		fail_set(FAIL_NETLINK_RECEIVE, 1, ENOENT);
		if (socket_list_udp(AF_INET, PORT, note_udp, &list) || list.count != 1)
			_exit(1);
		fail_set(FAIL_NETLINK, NEVER, EIO);
		if (list_both(&sockets, &names) || sockets != 1 || names != 1)
			_exit(2);
		_exit(calls(FAIL_NETLINK) == 1 ? 0 : 3);	/* for names, which are another module's */
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(name);
	close(fd);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(both_ways_list_the_sockets_of_a_port),
		TEST(both_ways_name_the_user),
		TEST(it_is_the_threads_own_namespace),
		TEST(many_sockets_of_other_ports_are_not_in_the_answer),
		TEST(both_ways_list_names_of_a_type),
		TEST(a_file_or_a_nul_does_not_make_a_name),
		TEST(many_connections_are_not_in_the_answer),
		TEST(each_failure_leads_to_proc),
		TEST(without_either_way_there_is_an_error),
		TEST(at_the_limit_of_descriptors_there_is_an_error),
		TEST(an_answer_that_breaks_off_is_an_error),
		TEST(a_question_that_is_swallowed_is_not_asked_again),
		TEST(a_missing_module_is_not_asked_for_again),
	};

	if (!netns_enter(&real_root))
		return 77;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
