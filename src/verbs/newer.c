/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that rdma-core 59 to 64 added (IBVERBS_1.15 to 1.17), for programs that were linked to
 * those: ibv_query_port_speed(3), ibv_alloc_buf(3) and, refused, those for PCIe and DMA-BUFs. Our
 * headers may be older than the calls: verbs.h declares them, and no structure of newer headers is
 * read.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "verbs/verbs.h"

int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed)
{
	CALL();

	if (!context || !speed)
		return refuse_null("query_port_speed", context ? "port_speed" : "context");
	return hca_query_port_speed(to_hca(context), port, speed);
}

/* Memory that the program registers as any other; whole pages, as is promised. */
struct ibv_buf {
	struct ibv_pd *pd;
	uint8_t *address;
	size_t size;
};

void *ibv_alloc_buf(struct ibv_pd *pd, size_t size, struct ibv_buf **result)
{
	CALL();
	struct ibv_buf *buf;

	if (!pd || !result)
		return fail(refuse_null("alloc_buf", pd ? "buf" : "pd"));
	if (!size) {
		explain("alloc_buf: size must not be 0");
		return fail(EINVAL);
	}
	buf = calloc(1, sizeof(*buf));
	if (!buf)
		return fail(ENOMEM);
	buf->pd = pd;
	buf->size = size;
	buf->address = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (buf->address == MAP_FAILED) {
		free(buf);
		return fail(ENOMEM);
	}
	*result = buf;
	return buf->address;
}

void ibv_free_buf(struct ibv_buf *buf)
{
	CALL();

	if (!buf)
		return;
	munmap(buf->address, buf->size);
	free(buf);
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *address, size_t length,
			      int access)
{
	CALL();
	uintptr_t offset;

	if (!pd || !buf)
		return fail(refuse_null("reg_buf_mr", pd ? "buf" : "pd"));
	offset = (uintptr_t)address - (uintptr_t)buf->address;
	if (pd != buf->pd || offset > buf->size || length > buf->size - offset) {
		explain("reg_buf_mr: %s", pd != buf->pd ? "the buffer was allocated on another pd" :
			"the range is not inside the buffer");
		return fail(EINVAL);
	}
	return ibv_reg_mr_iova2(pd, address, length, (uintptr_t)address, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *attr)
{
	CALL();

	return fail(refuse_verb("reg_mr_ex", "DMA handles and DMA-BUFs; register memory with "
				"ibv_reg_mr or ibv_reg_mr_iova"));
}

static const char no_hints[] = "PCIe processing hints";

struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr)
{
	return fail(refuse_verb("alloc_dmah", no_hints));
}

int ibv_dealloc_dmah(struct ibv_dmah *dmah)
{
	return refuse_verb("dealloc_dmah", no_hints);
}

int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	return minus_one(refuse_verb("dm_export_dmabuf_fd", "device memory is process memory, not "
				     "a DMA-BUF"));
}
