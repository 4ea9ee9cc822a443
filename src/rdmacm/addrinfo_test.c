/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma_getaddrinfo(3): names and hints to addresses, QP types and port spaces. */
#include <arpa/inet.h>
#include <endian.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
/* After those that it needs. */
#include <cmocka.h>

#include "rdmacm/rdmacm.h"

static void a_service_to_listen_on_is_any_address(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP }, *info;
	struct sockaddr_in *source;

	assert_int_equal(rdma_getaddrinfo(NULL, "7471", &hints, &info), 0);
	source = (struct sockaddr_in *)info->ai_src_addr;
	assert_int_equal(info->ai_flags, RAI_PASSIVE);
	assert_int_equal(info->ai_family, AF_INET);
	assert_int_equal(info->ai_src_len, sizeof(*source));
	assert_int_equal(source->sin_addr.s_addr, htonl(INADDR_ANY));
	assert_int_equal(source->sin_port, htons(7471));
	assert_int_equal(info->ai_qp_type, IBV_QPT_RC);
	assert_int_equal(info->ai_port_space, RDMA_PS_TCP);
	assert_null(info->ai_dst_addr);
	assert_null(info->ai_next);
	rdma_freeaddrinfo(info);
}

static void a_node_is_a_destination(void **state)
{
	struct rdma_addrinfo hints = { .ai_port_space = RDMA_PS_UDP }, *info;
	struct sockaddr_in6 *destination;

	assert_int_equal(rdma_getaddrinfo("::1", "7174", &hints, &info), 0);
	destination = (struct sockaddr_in6 *)info->ai_dst_addr;
	assert_int_equal(info->ai_family, AF_INET6);
	assert_int_equal(destination->sin6_port, htons(7174));
	assert_int_equal(info->ai_qp_type, IBV_QPT_UD);
	assert_int_equal(info->ai_port_space, RDMA_PS_UDP);
	assert_int_equal(info->ai_route_len, 0);
	assert_null(info->ai_src_addr);
	rdma_freeaddrinfo(info);
}

static void without_hints_the_first_answer_decides(void **state)
{
	struct rdma_addrinfo *info;

	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "1", NULL, &info), 0);
	assert_int_equal(info->ai_family, AF_INET);
	assert_int_equal(info->ai_qp_type, IBV_QPT_RC);
	assert_int_equal(info->ai_port_space, RDMA_PS_TCP);
	rdma_freeaddrinfo(info);
}

static void a_number_is_wanted_and_a_name_refused(void **state)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_TCP };
	struct rdma_addrinfo *info = NULL;

	assert_int_equal(rdma_getaddrinfo("localhost", "1", &hints, &info), EAI_NONAME);
	assert_null(info);
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "1", &hints, &info), 0);
	rdma_freeaddrinfo(info);
}

static void a_gid_is_written_as_an_ipv6_address(void **state)
{
	struct rdma_addrinfo hints = {
		.ai_flags = RAI_NUMERICHOST | RAI_FAMILY, .ai_family = AF_IB,
		.ai_port_space = RDMA_PS_TCP, .ai_qp_type = IBV_QPT_RC,
	}, *info;
	struct sockaddr_ib *destination;

	assert_int_equal(rdma_getaddrinfo("::ffff:127.0.0.1", "7471", &hints, &info), 0);
	destination = (struct sockaddr_ib *)info->ai_dst_addr;
	assert_int_equal(info->ai_family, AF_IB);
	assert_int_equal(info->ai_dst_len, sizeof(*destination));
	assert_int_equal(destination->sib_family, AF_IB);
	assert_int_equal(destination->sib_pkey, htobe16(0xffff));
	assert_int_equal(be64toh(destination->sib_sid), 0x0000000001061d2fULL);
	assert_int_equal(be64toh(destination->sib_sid_mask), UINT64_MAX);
	assert_int_equal(destination->sib_addr.sib_raw[15], 1);
	rdma_freeaddrinfo(info);
	hints.ai_flags |= RAI_PASSIVE;
	assert_int_equal(rdma_getaddrinfo("::", NULL, &hints, &info), 0);
	assert_int_equal(info->ai_family, AF_IB);
	assert_int_equal(be64toh(((struct sockaddr_ib *)info->ai_src_addr)->sib_sid_mask),
			 RDMA_IB_IP_PS_MASK);
	assert_null(info->ai_dst_addr);
	rdma_freeaddrinfo(info);
}

static void hints_alone_are_an_answer(void **state)
{
	struct sockaddr_in source = { .sin_family = AF_INET, .sin_port = 5 };
	struct sockaddr_in destination = { .sin_family = AF_INET, .sin_port = 6 };
	struct rdma_addrinfo hints = {
		.ai_family = AF_INET, .ai_qp_type = IBV_QPT_UC, .ai_port_space = RDMA_PS_TCP,
		.ai_src_addr = (struct sockaddr *)&source, .ai_src_len = sizeof(source),
		.ai_dst_addr = (struct sockaddr *)&destination, .ai_dst_len = sizeof(destination),
	}, *info;

	assert_int_equal(rdma_getaddrinfo(NULL, NULL, &hints, &info), 0);
	assert_int_equal(info->ai_qp_type, IBV_QPT_UC);
	assert_memory_equal(info->ai_src_addr, &source, sizeof(source));
	assert_memory_equal(info->ai_dst_addr, &destination, sizeof(destination));
	assert_ptr_not_equal(info->ai_dst_addr, hints.ai_dst_addr);
	rdma_freeaddrinfo(info);
	/* The source to bind to before resolving a destination by name. */
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", "7", &hints, &info), 0);
	assert_memory_equal(info->ai_src_addr, &source, sizeof(source));
	assert_int_equal(address_port(info->ai_dst_addr), htons(7));
	rdma_freeaddrinfo(info);
}

static void nothing_to_resolve_is_refused(void **state)
{
	struct rdma_addrinfo *info;

	assert_int_equal(rdma_getaddrinfo(NULL, NULL, NULL, &info), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, NULL, NULL), -1);
	assert_int_equal(errno, EINVAL);
	rdma_freeaddrinfo(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_service_to_listen_on_is_any_address),
		cmocka_unit_test(a_node_is_a_destination),
		cmocka_unit_test(without_hints_the_first_answer_decides),
		cmocka_unit_test(a_number_is_wanted_and_a_name_refused),
		cmocka_unit_test(a_gid_is_written_as_an_ipv6_address),
		cmocka_unit_test(hints_alone_are_an_answer),
		cmocka_unit_test(nothing_to_resolve_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
