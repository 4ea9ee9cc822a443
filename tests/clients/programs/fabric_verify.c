// SPDX-License-Identifier: BSD-2-Clause
/*
 * libfabric between hosts, where fi_pingpong's msg and rdm cannot be told an address: sends blocks, which come
 * back with each byte inverted.
 *
 * fabric_verify msg|rdm server ADDRESS: prints the port that it listens on. (fi_getinfo() of libfabric 1.17
 * forgets one that is asked for with an address.)
 * fabric_verify msg|rdm client ADDRESS PORT
 *
 * msg: a connection of the provider verbs; rdm: verbs;ofi_rxm, which connects by itself.
 */
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BLOCK	65536
#define ROUNDS	200
#define WAIT_MS	20000
#define NAME_MAX_BYTES 64

static struct fid_fabric *fabric;
static struct fid_domain *domain;
static struct fid_eq *eq;
static struct fid_cq *cq;
static struct fid_ep *ep;
static struct fid_mr *mr;
static char *memory;		/* a block to send, one to receive into */

static void end_if(int failed, const char *what, long result)
{
	if (!failed)
		return;
	fprintf(stderr, "fabric_verify: %s: %s\n", what, fi_strerror((int)-result));
	exit(1);
}

static void expect(const char *what, long result)
{
	end_if(result < 0, what, result);
}

static struct fi_info *find(int rdm, int server, const char *address, const char *port)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;

	hints->ep_attr->type = rdm ? FI_EP_RDM : FI_EP_MSG;
	hints->caps = FI_MSG;
	hints->mode = FI_CONTEXT;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->addr_format = FI_SOCKADDR_IN;
	hints->fabric_attr->prov_name = strdup(rdm ? "verbs;ofi_rxm" : "verbs");
	expect("fi_getinfo", fi_getinfo(FI_VERSION(1, 15), address, port, server ? FI_SOURCE : 0, hints, &info));
	fi_freeinfo(hints);
	return info;
}

static void open_all(struct fi_info *info)
{
	struct fi_eq_attr eq_attr = { .wait_obj = FI_WAIT_UNSPEC };

	expect("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
	expect("fi_eq_open", fi_eq_open(fabric, &eq_attr, &eq, NULL));
}

static void open_endpoint(struct fi_info *info)
{
	struct fi_cq_attr cq_attr = { .format = FI_CQ_FORMAT_CONTEXT, .size = 64 };

	expect("fi_domain", fi_domain(fabric, info, &domain, NULL));
	expect("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
	expect("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
	expect("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
	memory = aligned_alloc(4096, 2 * BLOCK);
	expect("fi_mr_reg", fi_mr_reg(domain, memory, 2 * BLOCK, FI_SEND | FI_RECV, 0, 1, 0, &mr, NULL));
}

/* ---- one transfer ---- */

static long milliseconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void complete(const char *what)
{
	struct fi_cq_entry entry;
	long end = milliseconds() + WAIT_MS, got;

	do {
		got = fi_cq_read(cq, &entry, 1);
		end_if(got == -FI_EAGAIN && milliseconds() > end, what, -FI_ETIMEDOUT);
	} while (got == -FI_EAGAIN);
	expect(what, got);
}

static void post_receive(struct fi_context *context)
{
	expect("fi_recv", fi_recv(ep, memory + BLOCK, BLOCK, fi_mr_desc(mr), FI_ADDR_UNSPEC, context));
}

static void send_block(fi_addr_t to, size_t bytes, struct fi_context *context)
{
	long sent, end = milliseconds() + WAIT_MS;

	while ((sent = fi_send(ep, memory, bytes, fi_mr_desc(mr), to, context)) == -FI_EAGAIN) {
		struct fi_cq_entry entry;

		/* rdm connects while its completions are asked for. */
		end_if(fi_cq_read(cq, &entry, 1) > 0 || milliseconds() > end, "fi_send", -FI_ETIMEDOUT);
	}
	expect("fi_send", sent);
	complete("send");
}

/* ---- the two ends ---- */

static struct fi_context receive_context, send_context;

static void answer(fi_addr_t to)
{
	for (int i = 0; i < ROUNDS; i++) {
		complete("receive");
		for (size_t k = 0; k < BLOCK; k++)
			memory[k] = (char)~memory[BLOCK + k];
		post_receive(&receive_context);
		send_block(to, BLOCK, &send_context);
	}
}

static void ask(fi_addr_t to)
{
	for (int i = 0; i < ROUNDS; i++) {
		for (size_t k = 0; k < BLOCK; k++)
			memory[k] = (char)(k * 7 + (size_t)i);
		send_block(to, BLOCK, &send_context);
		complete("receive");
		for (size_t k = 0; k < BLOCK; k++)
			if (memory[BLOCK + k] != (char)~memory[k]) {
				fprintf(stderr, "fabric_verify: round %d: byte %zu of the answer is wrong\n",
					i, k);
				exit(1);
			}
		post_receive(&receive_context);
	}
	printf("%d blocks: right\n", ROUNDS);
}

/* ---- connections ---- */

static void print_port(struct fid *endpoint)
{
	struct sockaddr_in name;
	size_t bytes = sizeof(name);

	expect("fi_getname", fi_getname(endpoint, &name, &bytes));
	printf("port %d\n", ntohs(name.sin_port));
	fflush(stdout);
}

static struct fi_info *await(uint32_t wanted)
{
	struct { struct fi_eq_cm_entry entry; char data[256]; } got;
	struct fi_eq_err_entry error = { 0 };
	uint32_t event = 0;
	long bytes = fi_eq_sread(eq, &event, &got, sizeof(got), WAIT_MS, 0);

	if (bytes == -FI_EAVAIL && fi_eq_readerr(eq, &error, 0) > 0)
		fprintf(stderr, "fabric_verify: %s (%d)\n", fi_strerror(error.err), error.prov_errno);
	expect("fi_eq_sread", bytes);
	end_if(event != wanted, "another event", -FI_EOTHER);
	return got.entry.info;
}

static void serve_connection(struct fi_info *info)
{
	struct fid_pep *pep;

	expect("fi_passive_ep", fi_passive_ep(fabric, info, &pep, NULL));
	expect("fi_pep_bind", fi_pep_bind(pep, &eq->fid, 0));
	expect("fi_listen", fi_listen(pep));
	print_port(&pep->fid);
	info = await(FI_CONNREQ);
	open_endpoint(info);
	expect("fi_ep_bind", fi_ep_bind(ep, &eq->fid, 0));
	expect("fi_enable", fi_enable(ep));
	post_receive(&receive_context);
	expect("fi_accept", fi_accept(ep, NULL, 0));
	await(FI_CONNECTED);
	answer(FI_ADDR_UNSPEC);
	await(FI_SHUTDOWN);
}

static void connect_to(struct fi_info *info)
{
	open_endpoint(info);
	expect("fi_ep_bind", fi_ep_bind(ep, &eq->fid, 0));
	expect("fi_enable", fi_enable(ep));
	post_receive(&receive_context);
	expect("fi_connect", fi_connect(ep, info->dest_addr, NULL, 0));
	await(FI_CONNECTED);
	ask(FI_ADDR_UNSPEC);
	expect("fi_shutdown", fi_shutdown(ep, 0));
}

/* The first message names the sender, whom the server has to know to answer. */
static void reliable_datagrams(struct fi_info *info, int server)
{
	struct fi_av_attr av_attr = { .type = FI_AV_TABLE };
	size_t bytes = NAME_MAX_BYTES;
	struct fid_av *av;
	fi_addr_t peer;

	open_endpoint(info);
	expect("fi_av_open", fi_av_open(domain, &av_attr, &av, NULL));
	expect("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
	expect("fi_enable", fi_enable(ep));
	post_receive(&receive_context);
	if (server) {
		print_port(&ep->fid);
		complete("name");
		end_if(fi_av_insert(av, memory + BLOCK, 1, &peer, 0, NULL) != 1, "fi_av_insert", -FI_EINVAL);
		post_receive(&receive_context);
		answer(peer);
		return;
	}
	end_if(fi_av_insert(av, info->dest_addr, 1, &peer, 0, NULL) != 1, "fi_av_insert", -FI_EINVAL);
	expect("fi_getname", fi_getname(&ep->fid, memory, &bytes));
	send_block(peer, NAME_MAX_BYTES, &send_context);
	ask(peer);
}

int main(int argc, char **argv)
{
	int rdm, server;
	struct fi_info *info;

	server = argc == 4 && !strcmp(argv[2], "server");
	if (!server && (argc != 5 || strcmp(argv[2], "client"))) {
		fprintf(stderr, "usage: fabric_verify msg|rdm server ADDRESS\n"
			"       fabric_verify msg|rdm client ADDRESS PORT\n");
		return 2;
	}
	rdm = !strcmp(argv[1], "rdm");
	info = find(rdm, server, argv[3], server ? "0" : argv[4]);
	open_all(info);
	if (rdm)
		reliable_datagrams(info, server);
	else if (server)
		serve_connection(info);
	else
		connect_to(info);
	return 0;
}
