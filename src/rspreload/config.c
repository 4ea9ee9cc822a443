/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Selection of the programs and sockets that use rsockets, and lookup of the C library's functions.
 *
 * /etc/rdma/rsocket/preload_config has lines "program domain type protocol", where domain is inet,
 * inet6 or ib, type stream or dgram, protocol tcp or udp, and * stands for any; '#' begins a
 * comment. A socket is taken if a line fits it. Without the file, stream sockets of all programs
 * are taken. RS_SQ_SIZE, RS_RQ_SIZE and RS_INLINE set the sizes of rsetsockopt()'s RDMA_SQSIZE and
 * so on.
 */
#include <dlfcn.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <limits.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/text.h"
#include "rspreload/rspreload.h"

#define CONFIG_FILE	"/etc/rdma/rsocket/preload_config"

enum { ANY = -1, LINES_MAX = 256, WORD = 64 };

__thread int inside __attribute__((tls_model("initial-exec")));

void inside_left(const int *before)
{
	inside = *before;
}

/* ---- the C library ---- */

static const char *const real_names[REAL_COUNT] = {
#define REAL_NAME(name) #name,
	REAL_FUNCTIONS(REAL_NAME)
#undef REAL_NAME
};

/* Filled in on first use: constructors of other libraries run before ours. */
static void *real_functions[REAL_COUNT];

static long not_there(void)
{
	errno = ENOSYS;
	return -1;
}

void *real_function(enum real_index index)
{
	void *function = __atomic_load_n(&real_functions[index], __ATOMIC_RELAXED);

	if (function)
		return function;
	function = dlsym(RTLD_NEXT, real_names[index]);
	if (!function)
		function = (void *)not_there;
	__atomic_store_n(&real_functions[index], function, __ATOMIC_RELAXED);
	return function;
}

/* ---- what is taken ---- */

struct rule {
	int domain, type, protocol;
};

static struct rule rules[LINES_MAX];
static int rule_count;
static bool configured;			/* there is a file */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static const struct word {
	const char *text;
	int value;
} domains[] = { { "*", ANY }, { "inet", AF_INET }, { "inet6", AF_INET6 }, { "ib", AF_IB },
		{ NULL, 0 } },
  types[] = { { "*", ANY }, { "stream", SOCK_STREAM }, { "dgram", SOCK_DGRAM }, { NULL, 0 } },
  protocols[] = { { "*", ANY }, { "tcp", IPPROTO_TCP }, { "udp", IPPROTO_UDP }, { NULL, 0 } };

static bool find_word(const struct word *words, const char *text, int *value)
{
	for (; words->text; words++)
		if (!strcasecmp(words->text, text)) {
			*value = words->value;
			return true;
		}
	return false;
}

static void read_line(const struct text_line *line)
{
	char program[WORD], domain[WORD], type[WORD], protocol[WORD];
	struct rule rule;
	int found;

	line->text[strcspn(line->text, "#")] = '\0';
	found = sscanf(line->text, "%63s %63s %63s %63s", program, domain, type, protocol);
	if (found <= 0)
		return;
	if (!line->is_whole || found != 4 || !find_word(domains, domain, &rule.domain) ||
	    !find_word(types, type, &rule.type) ||
	    !find_word(protocols, protocol, &rule.protocol)) {
		fprintf(stderr, "librspreload: " CONFIG_FILE ":%u: expected \"program domain type "
			"protocol\", line ignored\n", line->number);
		return;
	}
	if (strcmp(program, "*") && strcmp(program, program_invocation_short_name))
		return;
	if (rule_count < LINES_MAX)
		rules[rule_count++] = rule;
}

static void read_config(void)
{
	FILE *file = fopen(CONFIG_FILE, "re");
	struct text_line line = { 0 };

	if (!file)
		return;
	configured = true;
	while (text_next_line(file, &line))
		read_line(&line);
	fclose(file);
}

bool config_takes(int domain, int type, int protocol)
{
	pthread_once(&once, read_config);
	if ((domain != AF_INET && domain != AF_INET6) ||
	    (type != SOCK_STREAM && type != SOCK_DGRAM))
		return false;
	if (!protocol)
		protocol = type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP;
	if (protocol != (type == SOCK_STREAM ? IPPROTO_TCP : IPPROTO_UDP))
		return false;
	if (!configured)
		return type == SOCK_STREAM;
	for (int i = 0; i < rule_count; i++)
		if ((rules[i].domain == ANY || rules[i].domain == domain) &&
		    (rules[i].type == ANY || rules[i].type == type) &&
		    (rules[i].protocol == ANY || rules[i].protocol == protocol))
			return true;
	return false;
}

static void apply_number(int rs, const char *variable, int option)
{
	const char *text = getenv(variable);
	uint64_t value;
	int number;

	if (!text || !*text)
		return;
	number = text_number(text, 0, INT_MAX, &value) ? (int)value : -1;
	if (number < 0 ||
	    RDMA_CALL(rsetsockopt(rs, SOL_RDMA, option, &number, sizeof(number))))
		fprintf(stderr, "librspreload: %s: invalid value \"%s\", ignored\n", variable,
			text);
}

void config_apply(int rs)
{
	apply_number(rs, "RS_SQ_SIZE", RDMA_SQSIZE);
	apply_number(rs, "RS_RQ_SIZE", RDMA_RQSIZE);
	apply_number(rs, "RS_INLINE", RDMA_INLINE);
}
