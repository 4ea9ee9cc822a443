/* SPDX-License-Identifier: BSD-2-Clause */
/* Several contexts of one file, and several handles to an object: what ends when, in every order. */
#include "device/device_test.h"

static struct hca_context *other;	/* imported from context */

static int begin(void **state)
{
	int err = device_begin(state);

	return err ? err : hca_import_device(context, dup(hca_command_fd(context)), &other);
}

/* Whoever closes last ends the file: the tests that close other set it to NULL. */
static int end(void **state)
{
	if (other)
		hca_close(other);
	return device_end(state);
}

static void contexts_of_a_file_are_known_by_it(void **state)
{
	struct hca_context *foreign;
	struct stat status;

	assert_int_equal(hca_file_number(context), hca_file_number(other));
	assert_ptr_equal(context->hca, other->hca);
	assert_int_equal(fstat(other->command_fd, &status), 0);
	assert_true(hca_has_file(context, &status));
	assert_int_equal(hca_open("vb_lo", &foreign), 0);
	assert_int_not_equal(hca_file_number(foreign), hca_file_number(context));
	assert_false(hca_has_file(foreign, &status));
	hca_close(foreign);
}

static void an_object_of_another_file_is_not_found(void **state)
{
	struct hca_context *foreign;
	struct pd *made;

	assert_int_equal(hca_open("vb_lo", &foreign), 0);
	assert_int_equal(hca_import_pd(foreign, pd->ibv.handle, &made), ENOENT);
	assert_int_equal(hca_import_pd(other, 0, &made), ENOENT);
	/* Of another kind. */
	assert_int_equal(hca_import_pd(other, mr->ibv.handle, &made), ENOENT);
	hca_close(foreign);
}

static void an_import_uses_what_the_original_is(void **state)
{
	struct pd *imported, *original;
	struct mr *region;
	struct mr *same;

	assert_int_equal(hca_import_pd(other, pd->ibv.handle, &imported), 0);
	assert_int_equal(imported->ibv.handle, pd->ibv.handle);
	assert_int_equal(hca_pd_of("test", imported, &original), 0);
	assert_ptr_equal(original, pd);
	assert_int_equal(hca_reg_mr(other, original, memory, 64, 0, IBV_ACCESS_LOCAL_WRITE, &region), 0);
	assert_int_equal(hca_import_mr(context, region->ibv.handle, &same), 0);
	assert_int_equal(same->ibv.lkey, region->ibv.lkey);
	assert_int_equal(same->ibv.rkey, region->ibv.rkey);
	assert_int_equal(same->ibv.length, 64);
	assert_null(same->ibv.addr);
	/* An import of an import is one of the original. */
	assert_int_equal(hca_import_mr(other, same->ibv.handle, &region), 0);
	assert_ptr_equal(handle_original(&region->handle), handle_original(&same->handle));
}

static void who_destroys_does_it_for_all(void **state)
{
	const uint32_t lkey = mr->ibv.lkey;
	struct mr_accessor own = { .pd = pd->number };
	struct pd *imported, *second, *original;
	struct mr *region;
	struct mr_access access;

	assert_int_equal(hca_import_pd(other, pd->ibv.handle, &imported), 0);
	assert_int_equal(hca_import_pd(other, pd->ibv.handle, &second), 0);
	assert_int_equal(hca_import_mr(other, mr->ibv.handle, &region), 0);
	assert_int_equal(hca_dealloc_pd(other, imported), EBUSY);
	assert_int_equal(hca_dereg_mr(other, region), 0);
	assert_int_equal(mr_access_begin(&hca->mrs, &own, lkey, 0, (uintptr_t)memory, 1, &access), MR_KEY);
	assert_int_equal(hca_dereg_mr(context, mr), ENOENT);
	assert_int_equal(hca_rereg_mr(context, mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), EINVAL);
	hca_unimport_mr(context, mr);
	assert_true(list_empty(&context->mrs) && list_empty(&other->mrs));
	assert_int_equal(hca_dealloc_pd(other, imported), 0);
	assert_int_equal(hca_pd_of("test", second, &original), EINVAL);
	assert_int_equal(hca_pd_of("test", pd, &original), EINVAL);
	assert_int_equal(hca_import_pd(other, pd->ibv.handle, &imported), ENOENT);
	hca_unimport_pd(other, second);
	hca_unimport_pd(context, pd);
	assert_true(list_empty(&context->pds) && list_empty(&other->pds));
}

/* The original's own handle may be unimported first: the object lives by the others. */
static void the_object_outlives_the_handle_that_made_it(void **state)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	char got[4] = "";
	struct dm *dm, *imported;

	assert_int_equal(hca_alloc_dm(context, &attr, &dm), 0);
	assert_int_equal(hca_import_dm(other, dm->ibv.handle, &imported), 0);
	assert_int_equal(hca_copy_to_dm(dm, 8, "abc", 4), 0);
	hca_unimport_dm(context, dm);
	assert_int_equal(hca_copy_from_dm(got, imported, 8, 4), 0);
	assert_string_equal(got, "abc");
	assert_int_equal(hca_free_dm(other, imported), 0);
	assert_int_equal(hca->dm_bytes, 0);
	assert_true(list_empty(&context->dms) && list_empty(&other->dms));
}

static void device_memory_that_was_freed_is_not_touched(void **state)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct dm *dm, *imported;
	struct mr *region;
	char got[4];

	assert_int_equal(hca_alloc_dm(context, &attr, &dm), 0);
	assert_int_equal(hca_import_dm(other, dm->ibv.handle, &imported), 0);
	assert_int_equal(hca_reg_dm_mr(other, pd, imported, 0, 64, IBV_ACCESS_ZERO_BASED, &region), 0);
	assert_int_equal(hca_free_dm(context, dm), EBUSY);
	assert_int_equal(hca_dereg_mr(other, region), 0);
	assert_int_equal(hca_free_dm(context, dm), 0);
	assert_int_equal(hca_copy_to_dm(imported, 0, "abc", 4), EINVAL);
	assert_int_equal(hca_copy_from_dm(got, imported, 0, 4), EINVAL);
	assert_int_equal(hca_reg_dm_mr(other, pd, imported, 0, 64, IBV_ACCESS_ZERO_BASED, &region), EINVAL);
	assert_int_equal(hca_free_dm(other, imported), ENOENT);
	hca_unimport_dm(other, imported);
	assert_int_equal(hca->dm_bytes, 0);
}

/* Nobody holds a handle, and peers may use it: it ends with the file. */
static void an_object_that_nobody_destroyed_stays(void **state)
{
	struct mr_accessor own = { .pd = pd->number };
	const uint32_t lkey = mr->ibv.lkey;
	struct mr_access access;
	struct mr *region;

	assert_int_equal(hca_import_mr(other, mr->ibv.handle, &region), 0);
	hca_unimport_mr(other, region);
	hca_unimport_mr(context, mr);
	assert_false(list_empty(&context->mrs));
	assert_int_equal(mr_access_begin(&hca->mrs, &own, lkey, 0, (uintptr_t)memory, 1, &access), MR_OK);
	mr_access_end(&access);
}

/* The context that made an object is closed first, and the object goes on; the last one takes all along. */
static void objects_live_until_the_last_context_is_closed(void **state)
{
	struct mr_accessor own = { .pd = pd->number };
	const uint32_t lkey = mr->ibv.lkey;
	struct hca_context *last = other;
	struct mr_access access;
	struct pd *imported;

	other = NULL;
	assert_false(hca_close(context));
	assert_int_equal(hca_import_pd(last, pd->ibv.handle, &imported), 0);
	assert_int_equal(mr_access_begin(&hca->mrs, &own, lkey, 0, (uintptr_t)memory, 1, &access), MR_OK);
	mr_access_end(&access);
	context = last;
}

/* As a program may that shares a device memory: the file ends with all kinds of handles in it. */
static void closing_ends_every_handle(void **state)
{
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct pd *imported;
	struct mr *region, *own;
	struct dm *dm, *memory_too;
	struct cq *queue;
	struct qp *qp;
	struct ibv_cq_init_attr_ex cq_attr = { .cqe = 10 };
	struct ibv_qp_init_attr_ex qp_attr = {
		.qp_type = IBV_QPT_RC, .cap = { .max_send_wr = 1, .max_send_sge = 1 },
		.comp_mask = IBV_QP_INIT_ATTR_PD, .pd = &pd->ibv,
	};

	assert_int_equal(hca_import_pd(other, pd->ibv.handle, &imported), 0);
	assert_int_equal(hca_import_mr(other, mr->ibv.handle, &region), 0);
	assert_int_equal(hca_alloc_dm(other, &attr, &dm), 0);
	assert_int_equal(hca_import_dm(context, dm->ibv.handle, &memory_too), 0);
	assert_int_equal(hca_reg_dm_mr(context, pd, memory_too, 0, 64, IBV_ACCESS_ZERO_BASED, &own), 0);
	/* Its CQ is of the other context. */
	assert_int_equal(hca_create_cq(other, &cq_attr, &queue), 0);
	qp_attr.send_cq = qp_attr.recv_cq = (struct ibv_cq *)&queue->ibv;
	assert_int_equal(hca_create_qp(context, &qp_attr, &qp), 0);
	hca_unimport_mr(context, mr);
	hca_unimport_dm(other, dm);
}

/* A closed context gets no events of its port. */
static void a_closed_context_hears_nothing(void **state)
{
	struct event_queue *closed;

	assert_int_equal(hca_close(other), false);
	closed = other->async;
	other = NULL;
	contexts_raise(hca, context->port, IBV_EVENT_PORT_ERR);
	assert_true(list_empty(&closed->events));
	assert_false(list_empty(&context->async->events));
}

/* What an imported context leads to is not an eventfd or a pipe of the application. */
static void what_is_no_device_is_refused(void **state)
{
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	assert_int_equal(hca_refuse_import(fds[0]), EINVAL);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(hca_refuse_import(fds[0]), EINVAL);
	/* One of this process: asked for only when no open context has it. */
	assert_int_equal(hca_refuse_import(context->command_fd), ENODEV);
}

#define IMPORT_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		IMPORT_TEST(contexts_of_a_file_are_known_by_it),
		IMPORT_TEST(an_object_of_another_file_is_not_found),
		IMPORT_TEST(an_import_uses_what_the_original_is),
		IMPORT_TEST(who_destroys_does_it_for_all),
		IMPORT_TEST(the_object_outlives_the_handle_that_made_it),
		IMPORT_TEST(device_memory_that_was_freed_is_not_touched),
		IMPORT_TEST(an_object_that_nobody_destroyed_stays),
		IMPORT_TEST(objects_live_until_the_last_context_is_closed),
		IMPORT_TEST(closing_ends_every_handle),
		IMPORT_TEST(a_closed_context_hears_nothing),
		IMPORT_TEST(what_is_no_device_is_refused),
	};

	DEVICE_TESTS(tests);
}
