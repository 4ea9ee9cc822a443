/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * XRC domains of a context (ibv_open_xrcd(3)). Opens of one file, by whatever context of the process, share a
 * domain for each device; another process that opens the file has its own, as its QPs are its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/log.h"
#include "device/internal.h"

static struct xrc_domain *find_domain(struct hca *hca, const struct xrc_domain *like)
	REQUIRES(hca->objects)
{
	struct list *node;

	list_for_each(node, &hca->xrc_domains) {
		struct xrc_domain *domain = list_entry(node, struct xrc_domain, node);

		if (like->has_inode && domain->has_inode && domain->port == like->port &&
		    domain->device == like->device && domain->inode == like->inode)
			return domain;
	}
	return NULL;
}

/* What the kernel answers: no such domain and none to be made, or one and it had to be new. */
static int check_oflags(const struct xrc_domain *found, bool has_file, int oflags)
{
	if (has_file && !found && !(oflags & O_CREAT)) {
		explain_refused("ibv_open_xrcd", EAGAIN,
				"ibv_open_xrcd: the file has no XRC domain in this process: open "
				"it with O_CREAT first");
		return EAGAIN;
	}
	if (found && (oflags & O_EXCL)) {
		explain_refused("ibv_open_xrcd", EINVAL,
				"ibv_open_xrcd: the file has an XRC domain already, and O_EXCL "
				"asks for a new one");
		return EINVAL;
	}
	return 0;
}

static int xrcd_join(struct hca *hca, struct xrcd *xrcd, const struct xrc_domain *like, int oflags)
	REQUIRES(hca->objects)
{
	struct xrc_domain *domain = find_domain(hca, like);
	int err = check_oflags(domain, like->has_inode, oflags);

	if (err)
		return err;
	if (!domain) {
		domain = calloc(1, sizeof(*domain));
		if (!domain)
			return ENOMEM;
		domain->port = like->port;
		domain->has_inode = like->has_inode;
		domain->device = like->device;
		domain->inode = like->inode;
		lock_init(&domain->lock);
		list_init(&domain->srqs);
		list_add_tail(&hca->xrc_domains, &domain->node);
	}
	domain->handles++;
	xrcd->domain = domain;
	return 0;
}

/* @fd: -1 for a domain that nobody else can open. */
int hca_open_xrcd(struct hca_context *context, int fd, int oflags, struct xrcd **opened)
{
	struct hca *hca = context->hca;
	struct xrc_domain like = { .port = context->port, .has_inode = fd != -1 };
	struct xrcd *xrcd;
	struct stat status;
	int err;

	if (context_is_dead(context, "ibv_open_xrcd"))
		return EIO;
	if (like.has_inode) {
		if (fstat(fd, &status)) {
			explain_refused_of("ibv_open_xrcd", EBADF, OF(FD, (unsigned)fd),
					"ibv_open_xrcd: fd %d is not open", fd);
			return EBADF;
		}
		like.device = status.st_dev;
		like.inode = status.st_ino;
	}
	xrcd = calloc(1, sizeof(*xrcd));
	if (!xrcd)
		return ENOMEM;
	lock_acquire(&hca->objects);
	err = xrcd_join(hca, xrcd, &like, oflags);
	if (!err)
		list_add_tail(&context->xrcds, &xrcd->node);
	lock_release(&hca->objects);
	if (err) {
		free(xrcd);
		return err;
	}
	*opened = xrcd;
	return 0;
}

int hca_close_xrcd(struct hca_context *context, struct xrcd *xrcd)
{
	struct xrc_domain *domain = xrcd->domain;
	uint32_t users = atomic_load(&xrcd->users);
	bool last;

	if (context_is_dead(context, "ibv_close_xrcd"))
		return EIO;
	if (users) {
		explain_refused("ibv_close_xrcd", EBUSY,
				"ibv_close_xrcd: %u XRC_RECV QPs and XRC SRQs use it: destroy "
				"them first", users);
		return EBUSY;
	}
	lock_acquire(&context->hca->objects);
	list_remove(&xrcd->node);
	last = --domain->handles == 0;
	if (last)
		list_remove(&domain->node);
	lock_release(&context->hca->objects);
	free(xrcd);
	if (last) {
		lock_destroy(&domain->lock);
		free(domain);
	}
	return 0;
}
