/* SPDX-License-Identifier: BSD-2-Clause */
/* What both programs connect: an address on lo, and small queues. */
#ifndef TESTS_SIGNALS_ENDS_H
#define TESTS_SIGNALS_ENDS_H

#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <stdint.h>

static inline struct sockaddr_in loopback(uint16_t port)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_port = htons(port) };

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	return address;
}

static inline struct ibv_qp_init_attr queues(void)
{
	return (struct ibv_qp_init_attr){ .qp_type = IBV_QPT_RC, .cap = {
		.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 } };
}

#endif
