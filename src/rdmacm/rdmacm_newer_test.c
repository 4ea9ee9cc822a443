/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls that rdma-core 60 added: names looked up with an event, and events of the application. */
#include "rdmacm/newer.h"
#include "rdmacm/rdmacm_test.h"

static void assert_fails(int rc, int err)
{
	assert_int_equal(rc, -1);
	assert_int_equal(errno, err);
}

static void assert_address(const struct rdma_addrinfo *info, const char *ip, uint16_t port)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)info->ai_dst_addr;

	assert_int_equal(info->ai_dst_len, sizeof(*in));
	assert_int_equal(in->sin_addr.s_addr, inet_addr(ip));
	assert_int_equal(in->sin_port, htons(port));
}

static void a_name_arrives_with_an_event(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = NEWER_RAI_DNS, .ai_port_space = RDMA_PS_TCP }, *info;

	assert_fails(rdma_query_addrinfo(id, &info), ENOENT);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", &hints), 0);
	assert_fails(rdma_resolve_addrinfo(id, "127.0.0.2", "7471", &hints), EBUSY);
	expect_event((enum rdma_cm_event_type)NEWER_EVENT_ADDRINFO_RESOLVED, 0);
	assert_int_equal(rdma_query_addrinfo(id, &info), 0);
	assert_address(info, "127.0.0.1", 7471);
	rdma_freeaddrinfo(info);
	assert_fails(rdma_query_addrinfo(id, &info), ENOENT);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.2", "1", NULL), 0);
	expect_event((enum rdma_cm_event_type)NEWER_EVENT_ADDRINFO_RESOLVED, 0);
	/* Never fetched: the id frees it. */
}

static void a_name_that_nobody_has_is_an_error_event(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP }, *info;

	assert_int_equal(rdma_resolve_addrinfo(id, "no address", "7471", &hints), 0);
	expect_event((enum rdma_cm_event_type)NEWER_EVENT_ADDRINFO_ERROR, -ENOENT);
	assert_fails(rdma_query_addrinfo(id, &info), ENOENT);
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", &hints), 0);
	expect_event((enum rdma_cm_event_type)NEWER_EVENT_ADDRINFO_RESOLVED, 0);
}

static void what_cannot_begin_brings_no_event(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = NEWER_RAI_SA }, *info;

	assert_fails(rdma_resolve_addrinfo(NULL, "127.0.0.1", NULL, NULL), EINVAL);
	assert_fails(rdma_resolve_addrinfo(id, NULL, NULL, NULL), EINVAL);
	assert_fails(rdma_resolve_addrinfo(id, NULL, "service", &hints), EOPNOTSUPP);
	assert_fails(rdma_query_addrinfo(NULL, &info), EINVAL);
	assert_fails(rdma_query_addrinfo(id, NULL), EINVAL);
	fake.raise_error = EBADF;
	assert_fails(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", NULL), EBADF);
	fake.raise_error = 0;
	expect_no_event();
	assert_int_equal(rdma_resolve_addrinfo(id, "127.0.0.1", "7471", NULL), 0);	/* none is left over */
	expect_event((enum rdma_cm_event_type)NEWER_EVENT_ADDRINFO_RESOLVED, 0);
}

static void a_synchronous_id_waits_for_the_name(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST }, *info;
	struct rdma_cm_id *alone;

	assert_int_equal(rdma_create_id(NULL, &alone, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addrinfo(alone, "127.0.0.1", "7471", &hints), 0);
	assert_int_equal((int)alone->event->event, NEWER_EVENT_ADDRINFO_RESOLVED);
	assert_int_equal(rdma_query_addrinfo(alone, &info), 0);
	assert_address(info, "127.0.0.1", 7471);
	rdma_freeaddrinfo(info);
	assert_fails(rdma_resolve_addrinfo(alone, "no address", "7471", &hints), ENOENT);
	assert_int_equal(rdma_destroy_id(alone), 0);
}

static void an_application_writes_events_of_its_own(void **state)
{
	const enum rdma_cm_event_type user = (enum rdma_cm_event_type)NEWER_EVENT_USER;
	struct rdma_cm_event *event;
	uint64_t arg;

	assert_int_equal(rdma_write_cm_event(id, user, -3, 0x123456789abcdef0), 0);
	event = next_event();
	assert_int_equal(event->event, user);
	assert_int_equal(event->status, -3);
	assert_ptr_equal(event->id, id);
	memcpy(&arg, &event->param, sizeof(arg));
	assert_true(arg == 0x123456789abcdef0);
	assert_int_equal(rdma_ack_cm_event(event), 0);
	assert_fails(rdma_write_cm_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), EINVAL);
	assert_fails(rdma_write_cm_event(NULL, user, 0, 0), EINVAL);
	fake.raise_error = EBADF;
	assert_fails(rdma_write_cm_event(id, user, 0, 0), EBADF);
	expect_no_event();
}

static void the_new_events_have_names(void **state)
{
	assert_string_equal(rdma_event_str((enum rdma_cm_event_type)16), "RDMA_CM_EVENT_ADDRINFO_RESOLVED");
	assert_string_equal(rdma_event_str((enum rdma_cm_event_type)17), "RDMA_CM_EVENT_ADDRINFO_ERROR");
	assert_string_equal(rdma_event_str((enum rdma_cm_event_type)18), "RDMA_CM_EVENT_USER");
	assert_string_equal(rdma_event_str((enum rdma_cm_event_type)19), "UNKNOWN EVENT");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_name_arrives_with_an_event),
		TEST(a_name_that_nobody_has_is_an_error_event),
		TEST(what_cannot_begin_brings_no_event),
		TEST(a_synchronous_id_waits_for_the_name),
		TEST(an_application_writes_events_of_its_own),
		TEST(the_new_events_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
