/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * ibv_import_device(3), ibv_import_pd(3), ibv_import_mr(3), ibv_import_dm(3), within a process: objects
 * are used by the contexts that share a file, and what another process or nobody made is refused.
 */
#include "fixture.h"

#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define RIGHTS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)

static struct ibv_context *import(struct ibv_context *context)
{
	struct ibv_context *imported = ibv_import_device(dup(context->cmd_fd));

	assert_non_null(imported);
	assert_ptr_not_equal(imported, context);
	assert_ptr_equal(imported->device, context->device);
	return imported;
}

static void a_qp_of_one_context_writes_by_a_region_of_another(void **state)
{
	struct ibv_context *context = context_of(state), *other = import(context);
	struct ibv_pd *pd = ibv_alloc_pd(context), *shared = ibv_import_pd(other, pd->handle);
	static char memory[64] = "what was registered by one";
	struct ibv_mr *mr = ibv_reg_mr(pd, memory, sizeof(memory), RIGHTS);
	struct ibv_mr *same = ibv_import_mr(shared, mr->handle);
	struct ibv_cq *cq = ibv_create_cq(other, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 2, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct ibv_qp *qp;
	struct ibv_qp_attr to = { .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = RIGHTS };
	struct ibv_sge sge = { .addr = (uintptr_t)memory, .length = 32 };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = (uintptr_t)memory + 32 },
	};
	struct ibv_wc wc = { 0 };
	int n = 0;

	assert_non_null(shared);
	assert_non_null(same);
	assert_ptr_equal(shared->context, other);
	assert_ptr_equal(same->pd, shared);
	assert_ptr_equal(same->context, other);
	assert_int_equal(same->lkey, mr->lkey);
	assert_int_equal(same->rkey, mr->rkey);
	assert_int_equal(same->length, sizeof(memory));
	qp = ibv_create_qp(shared, &attr);
	assert_non_null(qp);
	assert_int_equal(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_ACCESS_FLAGS), 0);
	memset(&to, 0, sizeof(to));
	to.qp_state = IBV_QPS_RTR;
	to.path_mtu = IBV_MTU_1024;
	to.dest_qp_num = qp->qp_num;
	to.ah_attr.is_global = 1;
	to.ah_attr.port_num = 1;
	assert_int_equal(ibv_query_gid(other, 1, 1, &to.ah_attr.grh.dgid), 0);
	to.ah_attr.grh.sgid_index = 1;
	assert_int_equal(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER), 0);
	to.qp_state = IBV_QPS_RTS;
	to.timeout = 14;
	assert_int_equal(ibv_modify_qp(qp, &to, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				       IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC), 0);
	/* The pd cannot go while a QP of the other context is in it. */
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	sge.lkey = same->lkey;
	wr.wr.rdma.rkey = same->rkey;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	for (int i = 0; i < 1000000000 && !n; i++)
		n = ibv_poll_cq(cq, 1, &wc);
	assert_int_equal(n, 1);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_memory_equal(memory, memory + 32, 32);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	ibv_unimport_mr(same);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ibv_unimport_pd(shared);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(other), 0);
}

static void device_memory_is_shared(void **state)
{
	struct ibv_context *context = context_of(state), *other = import(context);
	struct ibv_alloc_dm_attr attr = { .length = 64 };
	struct ibv_dm *dm = ibv_alloc_dm(context, &attr), *same = ibv_import_dm(other, dm->handle);
	char got[6];

	assert_non_null(same);
	assert_ptr_equal(same->context, other);
	assert_int_equal(ibv_memcpy_to_dm(dm, 10, "hello", 6), 0);
	assert_int_equal(ibv_memcpy_from_dm(got, same, 10, 6), 0);
	assert_string_equal(got, "hello");
	assert_int_equal(ibv_free_dm(same), 0);
	assert_int_equal(ibv_memcpy_to_dm(dm, 10, "hello", 6), EINVAL);
	ibv_unimport_dm(dm);
	assert_int_equal(ibv_close_device(other), 0);
}

/* In the order that loses the maker first; and what is left ends with the last context. */
static void contexts_are_closed_in_any_order(void **state)
{
	struct ibv_context *context = context_of(state), *first = ibv_open_device(context->device);
	struct ibv_context *second = import(first), *third = import(second);
	struct ibv_pd *pd = ibv_alloc_pd(first), *shared = ibv_import_pd(third, pd->handle);
	static char memory[64];

	assert_non_null(shared);
	assert_int_equal(ibv_close_device(first), 0);
	assert_minus_one(ibv_close_device(first), EINVAL);
	assert_non_null(ibv_reg_mr(shared, memory, sizeof(memory), RIGHTS));
	assert_int_equal(ibv_close_device(third), 0);
	assert_non_null(ibv_import_pd(second, pd->handle));
	assert_int_equal(ibv_close_device(second), 0);
}

static void what_cannot_be_imported_is_refused(void **state)
{
	struct ibv_context *context = context_of(state);
	struct ibv_pd *pd = ibv_alloc_pd(context);
	int fd = open("/dev/null", O_RDWR), late;

	assert_refused(ibv_import_device(-1), EINVAL);
	assert_refused(ibv_import_device(fd), EINVAL);
	assert_refused(ibv_import_device(context->cmd_fd), EINVAL);
	assert_refused(ibv_import_pd(NULL, 0), EINVAL);
	assert_refused(ibv_import_mr(NULL, 0), EINVAL);
	assert_refused(ibv_import_dm(NULL, 0), EINVAL);
	assert_refused(ibv_import_pd(context, pd->handle + 1), ENOENT);
	assert_refused(ibv_import_mr(pd, 0), ENOENT);
	assert_refused(ibv_import_dm(context, 0), ENOENT);
	ibv_unimport_pd(NULL);
	ibv_unimport_mr(NULL);
	ibv_unimport_dm(NULL);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	context = ibv_open_device(context->device);
	late = dup(context->cmd_fd);
	assert_int_equal(ibv_close_device(context), 0);
	assert_refused(ibv_import_device(late), ENODEV);
	close(late);
	close(fd);
}

static void a_device_of_another_process_is_refused(void **state)
{
	struct ibv_context *context = context_of(state);
	int status, fd = dup(context->cmd_fd);
	pid_t child = fork();

	if (child == 0) {
		errno = 0;
		_exit(ibv_import_device(fd) ? 1 : errno);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_in_set(WEXITSTATUS(status), ((uintmax_t[]){ EIO, EOPNOTSUPP, ENODEV }), 3);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		test_with_device(a_qp_of_one_context_writes_by_a_region_of_another),
		test_with_device(device_memory_is_shared),
		test_with_device(contexts_are_closed_in_any_order),
		test_with_device(what_cannot_be_imported_is_refused),
		test_with_device(a_device_of_another_process_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
