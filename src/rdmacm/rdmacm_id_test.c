/* SPDX-License-Identifier: BSD-2-Clause */
/* IDs: their addresses, their events, and how they wait for them. */
#include "rdmacm/rdmacm_test.h"

/* ---- ids and addresses ---- */

static void an_id_has_what_it_was_created_with(void **state)
{
	struct rdma_cm_id *datagram;

	assert_ptr_equal(id->channel, channel);
	assert_ptr_equal(id->context, &local);
	assert_int_equal(id->ps, RDMA_PS_TCP);
	assert_int_equal(id->qp_type, IBV_QPT_RC);
	assert_int_equal(rdma_create_id(channel, &datagram, NULL, RDMA_PS_IPOIB), 0);
	assert_int_equal(datagram->qp_type, IBV_QPT_UD);
	assert_int_equal(rdma_destroy_id(datagram), 0);
}

static void what_cannot_be_created_leaves_nothing(void **state)
{
	struct rdma_cm_id *none = NULL;

	assert_int_equal(rdma_create_id(NULL, &none, NULL, RDMA_PS_IB + 1), -1);
	assert_int_equal(errno, EPROTONOSUPPORT);
	assert_null(none);
	assert_int_equal(fake.open_channels, 1);
}

static void binding_to_an_address_gives_a_device_to_any_none(void **state)
{
	struct sockaddr_in any = { .sin_family = AF_INET };

	assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&any), 0);
	assert_null(id->verbs);
	assert_null(id->pd);
	resolve();
	assert_non_null(id->verbs);
	assert_non_null(id->pd);
	assert_ptr_equal(id->pd->context, id->verbs);
	assert_int_equal(id->port_num, 1);
	assert_int_equal(rdma_get_src_port(id), htons(7471));
	assert_int_equal(id->route.addr.addr.ibaddr.pkey, htons(0xffff));
}

static void ids_share_an_open_device_and_its_domain(void **state)
{
	struct ibv_context **list = rdma_get_devices(NULL);
	struct rdma_cm_id *first = id;
	bool listed = false;

	resolve();
	assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
	resolve();
	assert_ptr_equal(first->verbs, id->verbs);
	assert_ptr_equal(first->pd, id->pd);
	for (unsigned i = 0; list[i]; i++)
		listed |= list[i] == id->verbs;
	assert_true(listed);
	rdma_free_devices(list);
	assert_int_equal(rdma_destroy_id(first), 0);
}

static void an_unknown_family_is_refused(void **state)
{
	struct sockaddr strange = { .sa_family = AF_UNIX };

	assert_int_equal(rdma_bind_addr(id, &strange), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_resolve_addr(id, NULL, &strange, 100), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_resolve_addr(id, &strange, (struct sockaddr *)&local, 100), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_resolve_addr(id, NULL, NULL, 100), -1);
	assert_int_equal(errno, EINVAL);
}

/* ---- events ---- */

static void an_asynchronous_call_returns_before_its_event(void **state)
{
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&local, 100), 0);
	assert_null(id->verbs);
	tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	expect_event(RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_non_null(id->verbs);
	assert_int_equal(rdma_resolve_route(id, 100), 0);
	tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	expect_event(RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	assert_int_equal(id->route.num_paths, 1);
	assert_int_equal(id->route.path_rec->mtu, 5);
}

static void an_address_without_a_device_is_an_error(void **state)
{
	fake.without_device = true;
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&local, 100), 0);
	tell(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	expect_event(RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
}

static void a_channel_without_events_says_so(void **state)
{
	expect_no_event();
	assert_int_equal(rdma_get_cm_event(channel, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_ack_cm_event(NULL), -1);
	assert_int_equal(errno, EINVAL);
}

static void a_synchronous_call_waits_and_leaves_its_event(void **state)
{
	struct rdma_cm_id *own;

	fake.answers = true;
	assert_int_equal(rdma_create_id(NULL, &own, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(fake.open_channels, 2);
	assert_int_equal(rdma_resolve_addr(own, NULL, (struct sockaddr *)&local, 100), 0);
	assert_int_equal(own->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(own, 100), 0);
	assert_int_equal(own->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	fake.answer = RDMA_CM_EVENT_ROUTE_ERROR;
	fake.answer_status = -EHOSTUNREACH;
	assert_int_equal(rdma_resolve_route(own, 100), -1);
	assert_int_equal(errno, EHOSTUNREACH);
	fake.answer = RDMA_CM_EVENT_REJECTED;
	fake.answer_status = 28;
	assert_int_equal(rdma_resolve_route(own, 100), -1);
	assert_int_equal(errno, ECONNREFUSED);
	assert_int_equal(rdma_destroy_id(own), 0);
}

static void migration_changes_the_mode(void **state)
{
	struct rdma_cm_id *own;

	fake.answers = true;
	assert_int_equal(rdma_create_id(NULL, &own, NULL, RDMA_PS_TCP), 0);
	assert_int_equal(rdma_resolve_addr(own, NULL, (struct sockaddr *)&local, 100), 0);
	assert_int_equal(rdma_migrate_id(own, NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_migrate_id(own, channel), 0);
	assert_ptr_equal(own->channel, channel);
	assert_null(own->event);
	assert_int_equal(fake.open_channels, 1);
	assert_int_equal(rdma_resolve_route(own, 100), 0);
	assert_null(own->event);
	rdma_ack_cm_event(next_event());
	assert_int_equal(rdma_migrate_id(own, NULL), 0);
	assert_int_equal(fake.open_channels, 2);
	assert_int_equal(rdma_resolve_route(own, 100), 0);
	assert_non_null(own->event);
	assert_int_equal(rdma_destroy_id(own), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_id_has_what_it_was_created_with),
		TEST(what_cannot_be_created_leaves_nothing),
		TEST(binding_to_an_address_gives_a_device_to_any_none),
		TEST(ids_share_an_open_device_and_its_domain),
		TEST(an_unknown_family_is_refused),
		TEST(an_asynchronous_call_returns_before_its_event),
		TEST(an_address_without_a_device_is_an_error),
		TEST(a_channel_without_events_says_so),
		TEST(a_synchronous_call_waits_and_leaves_its_event),
		TEST(migration_changes_the_mode),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
