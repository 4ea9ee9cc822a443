/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Calls that rdma-core 59 to 65 added (IBVERBS_1.15 to 1.18; counters: comp_cntr.c), for programs that
 * were linked to those: ibv_query_port_speed(3), ibv_alloc_buf(3), ibv_reg_mr_ex() of ibv_reg_mr(3) and, refused,
 * those for PCIe and DMA-BUFs. Our headers may be older than the calls: see newer.h.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "verbs/verbs.h"

static const char no_hints[] = "PCIe processing hints (DMA handles)";

int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed)
{
	CALL();

	if (!context || !speed)
		return refuse_null("ibv_query_port_speed", context ? "port_speed" : "context");
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
		return fail(refuse_null("ibv_alloc_buf", pd ? "buf" : "pd"));
	if (!size) {
		explain("ibv_alloc_buf: size must not be 0");
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

/* Why [@address, + @length) is not to be registered as a part of @buf; NULL: it is. */
static const char *buf_objection(const struct ibv_pd *pd, const struct ibv_buf *buf, const void *address,
				 size_t length)
{
	uintptr_t offset = (uintptr_t)address - (uintptr_t)buf->address;

	if (pd != buf->pd)
		return "the buffer was allocated on another pd";
	return offset > buf->size || length > buf->size - offset ? "the range is not inside the buffer" : NULL;
}

struct ibv_mr *ibv_reg_buf_mr(struct ibv_pd *pd, struct ibv_buf *buf, void *address, size_t length,
			      int access)
{
	CALL();
	const char *objection;

	if (!pd || !buf)
		return fail(refuse_null("ibv_reg_buf_mr", pd ? "buf" : "pd"));
	objection = buf_objection(pd, buf, address, length);
	if (objection) {
		explain("ibv_reg_buf_mr: %s", objection);
		return fail(EINVAL);
	}
	return mr_register_verb("ibv_reg_buf_mr", pd, address, length, (uintptr_t)address,
			(unsigned)access);
}

/* Why the fields do not fit each other; NULL: they do. A field that we do not know comes from later headers. */
static const char *mr_attr_objection(const struct ibv_pd *pd, const struct newer_mr_attr *attr)
{
	const uint64_t fd = NEWER_MR_FD | NEWER_MR_FD_OFFSET;

	if (attr->fields & NEWER_MR_FD) {
		if (attr->fields & NEWER_MR_ADDRESS || (attr->fields & fd) != fd ||
		    !(attr->fields & NEWER_MR_IOVA))
			return "FD goes with FD_OFFSET and IOVA, and not with ADDR";
	} else if (attr->fields & NEWER_MR_FD_OFFSET || !(attr->fields & NEWER_MR_ADDRESS)) {
		return "without FD it needs ADDR, and takes no FD_OFFSET";
	}
	if (!(attr->fields & NEWER_MR_BUF))
		return NULL;
	if (attr->fields & NEWER_MR_FD || !attr->buf)
		return attr->buf ? "BUF does not go with FD" : "no buf (null pointer)";
	return buf_objection(pd, attr->buf, attr->address, attr->length);
}

struct ibv_mr *ibv_reg_mr_ex(struct ibv_pd *pd, struct ibv_mr_init_attr *init_attr)
{
	CALL();
	const uint64_t known = 2 * NEWER_MR_BUF - 1;
	const struct newer_mr_attr *attr = (const void *)init_attr;
	const char *objection;

	if (!pd || !attr)
		return fail(refuse_null("ibv_reg_mr_ex", pd ? "mr_init_attr" : "pd"));
	if (attr->fields & ~known) {
		explain("ibv_reg_mr_ex: comp_mask 0x%llx has fields beyond BUF",
			(unsigned long long)attr->fields);
		return fail(EOPNOTSUPP);
	}
	objection = mr_attr_objection(pd, attr);
	if (objection) {
		explain("ibv_reg_mr_ex: comp_mask 0x%llx: %s", (unsigned long long)attr->fields,
				objection);
		return fail(EINVAL);
	}
	if (attr->fields & NEWER_MR_FD)
		return ibv_reg_dmabuf_mr(pd, attr->fd_offset, attr->length, attr->iova, attr->fd, attr->access);
	if (attr->fields & NEWER_MR_DMAH)
		return fail(refuse_verb("ibv_reg_mr_ex", no_hints));
	return mr_register_verb("ibv_reg_mr_ex", pd, attr->address, attr->length,
			attr->fields & NEWER_MR_IOVA ?
				attr->iova : (uintptr_t)attr->address, (unsigned)attr->access);
}

struct ibv_dmah *ibv_alloc_dmah(struct ibv_context *context, struct ibv_dmah_init_attr *attr)
{
	return fail(refuse_verb("ibv_alloc_dmah", no_hints));
}

int ibv_dealloc_dmah(struct ibv_dmah *dmah)
{
	return refuse_verb("ibv_dealloc_dmah", no_hints);
}

int ibv_export_buf_dmabuf_fd(struct ibv_buf *buf)
{
	CALL();

	if (!buf)
		return minus_one(refuse_null("ibv_export_buf_dmabuf_fd", "buf"));
	explain("ibv_export_buf_dmabuf_fd: buffers are process memory here, not DMA-BUFs");
	return minus_one(ENODATA);
}

int ibv_dm_export_dmabuf_fd(struct ibv_dm *dm)
{
	return minus_one(refuse_verb("ibv_dm_export_dmabuf_fd", "device memory is process memory, not "
				     "a DMA-BUF"));
}
