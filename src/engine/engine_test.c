/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine of a whole HCA: its links, port 4791, and that the worker hears of what comes. */
#include <arpa/inet.h>

#include "device/device_test.h"

static bool has_port(void)
{
	bool has;

	lock_acquire(&hca->engine.progress);
	has = hca->engine.group != NULL;
	lock_release(&hca->engine.progress);
	return has;
}

static bool port_comes(void)
{
	uint64_t end_ns = clock_now_ns() + PATIENCE_NS;

	while (!has_port() && clock_now_ns() < end_ns)
		thread_sleep_ns(MS);
	return has_port();
}

static void say_junk(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(ROCE_UDP_PORT),
				  .sin_addr = { htonl(INADDR_LOOPBACK) } };
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	uint8_t zeros[24] = { 0 };

	assert_int_equal(sendto(fd, zeros, 24, 0, (struct sockaddr *)&to, sizeof(to)), 24);
	close(fd);
}

static bool comes(enum counter counter, uint64_t wanted)
{
	uint64_t end_ns = clock_now_ns() + PATIENCE_NS;

	while (counted(counter) < wanted && clock_now_ns() < end_ns)
		thread_sleep_ns(MS / 5);
	return counted(counter) == wanted;
}

/* Nobody polls. */
static void what_comes_to_the_port_is_received_by_the_worker(void **state)
{
	unsigned i;

	assert_true(has_port());
	for (i = 1; i <= 3; i++) {
		say_junk();
		assert_true(comes(COUNTER_RX_PACKETS, i));
		thread_sleep_ns(5 * MS);
	}
}

static void a_port_that_another_one_has_is_taken_when_it_is_free(void **state)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(ROCE_UDP_PORT) };
	int fd;

	hca_close(context);
	assert_true(netns_renew());
	fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(hca_open("vb_lo", &context), 0);
	hca = context->hca;
	thread_sleep_ns(100 * MS);	/* the worker has tried, too */
	assert_false(has_port());
	close(fd);
	assert_true(port_comes());
	say_junk();
	assert_true(comes(COUNTER_RX_PACKETS, 1));
}

/* Faults are done to packets: inside the host everything goes as packets, through memory. */
static void with_faults_on_purpose_everything_goes_as_packets(void **state)
{
	assert_null(hca->engine.injection);
	assert_true(hca->engine.local.direct);
	hca_close(context);
	setenv("VERBATIM_FAULT", "loss=0.5,seed=1", 1);
	assert_int_equal(hca_open("vb_lo", &context), 0);
	unsetenv("VERBATIM_FAULT");
	hca = context->hca;
	assert_non_null(hca->engine.injection);
	assert_non_null(hca->engine.local.peers);
	assert_false(hca->engine.local.direct);
}

static void wrong_rules_are_refused_when_the_device_is_opened(void **state)
{
	hca_close(context);
	setenv("VERBATIM_FAULT", "los=0.5", 1);
	assert_int_equal(hca_open("vb_lo", &context), EINVAL);
	setenv("VERBATIM_FAULT", "@/nowhere/rules", 1);
	assert_int_equal(hca_open("vb_lo", &context), EINVAL);
	unsetenv("VERBATIM_FAULT");
	assert_int_equal(hca_open("vb_lo", &context), 0);
	hca = context->hca;
}

/* A buffer to transmit from is there although memory may be short later. */
static void the_first_buffer_is_there_from_the_beginning(void **state)
{
	lock_acquire(&hca->engine.batches.lock);
	assert_int_equal(hca->engine.batches.count, 1);
	lock_release(&hca->engine.batches.lock);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		DEVICE_TEST(what_comes_to_the_port_is_received_by_the_worker),
		DEVICE_TEST(a_port_that_another_one_has_is_taken_when_it_is_free),
		DEVICE_TEST(with_faults_on_purpose_everything_goes_as_packets),
		DEVICE_TEST(wrong_rules_are_refused_when_the_device_is_opened),
		DEVICE_TEST(the_first_buffer_is_there_from_the_beginning),
	};

	DEVICE_TESTS(tests);
}
