/* SPDX-License-Identifier: BSD-2-Clause */
/* Opening and closing ports, and the agents on them. */
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "umad/umad.h"

#define OPENIB_OUI	0x001405u
#define OUI_MAX		0xffffffu

enum {
	CLASS_LID_ROUTED = 0x01,
	CLASS_DIRECTED = 0x81,
	VENDOR_2_FIRST = 0x30,
	VENDOR_2_LAST = 0x4f
};

/* Bits of umad_reg_attr.flags that are served. */
enum { FLAGS = UMAD_USER_RMPP };

static struct umad_file *file_new(const struct ib_binding *binding, const struct ctl_port *port)
{
	struct umad_file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	lock_init(&file->lock);
	file->references = 1;
	file->binding = *binding;
	strcpy(file->place.node, binding->node);
	memcpy(file->place.device, port->device, sizeof(file->place.device));
	file->place.port = port->number;
	file->keeper = -1;
	return file;
}

/* A descriptor that programs started by this one inherit, as that of a device is. */
static int port_open(const char *call, const char *device, int number)
{
	char why[PLACE_WHY_MAX];
	struct ib_binding binding;
	struct umad_file *file;
	struct ctl_port found;
	uint64_t token;
	int fd, err = umad_resolve(call, device, number, true, &found);

	if (!err)
		err = ib_bind(&binding);
	if (err)
		return umad_fail(err);
	file = file_new(&binding, &found);
	if (!file)
		return umad_fail(ENOMEM);
	err = ib_connect(binding.fabric, &fd, why);
	if (err)
		goto put_file;
	err = ib_ask(fd, CTL_OPEN, &file->place, sizeof(file->place), NULL, NULL, &token, why);
	if (err)
		goto close_fd;
	lock_acquire(&file->lock);
	file->token = token;
	lock_release(&file->lock);
	if (fcntl(fd, F_SETFD, 0)) {
		err = errno;
		goto close_fd;
	}
	err = umad_file_enter(fd, file);
	if (!err)
		return fd;
	snprintf(why, sizeof(why), "%s", strerror(err));
close_fd:
	close(fd);
put_file:
	umad_file_put(file);
	explain_refused(call, err, "%s: %s port %u: %s", call, found.device, found.number, why);
	return umad_fail(err == EMFILE || err == ENOMEM ? err : EIO);
}

int umad_open_port(const char *ca_name, int portnum)
{
	CALL();

	return port_open("umad_open_port", ca_name, portnum);
}

/* Of a device that has a QP0: all have. */
int umad_open_smi_port(const char *ca_name, int portnum)
{
	CALL();

	return port_open("umad_open_smi_port", ca_name, portnum);
}

int umad_close_port(int fd)
{
	CALL();
	struct umad_file *file = umad_file_remove(fd);

	close(fd);
	if (file)
		umad_file_put(file);
	return 0;
}

int umad_get_fd(int fd)
{
	return fd;
}

/* ---- agents ---- */

static int agent_enter(struct umad_file *file, const char *call, struct ctl_agent *request)
{
	char why[PLACE_WHY_MAX];
	uint64_t id;
	int err;

	lock_acquire(&file->lock);
	request->token = file->token;
	lock_release(&file->lock);
	request->id = CTL_ANY_AGENT;
	err = ib_question(&file->binding, CTL_REGISTER, request, sizeof(*request), NULL, NULL, &id,
			  why);
	if (!err && id >= UMAD_CA_MAX_AGENTS)
		err = EPROTO;
	if (err) {
		explain_refused(call, err, "%s: class 0x%02x version %u: %s", call, request->class,
				request->class_version,
				err == EPROTO ? "no fabric answers like this" : why);
		return err;
	}
	request->id = (uint32_t)id;
	lock_acquire(&file->lock);
	file->agent[id].used = true;
	file->agent[id].request = *request;
	lock_release(&file->lock);
	return 0;
}

/* Its ID, or -EPERM whatever is wrong, as programs expect. */
static int agent_register(const char *call, int fd, struct ctl_agent *request)
{
	struct umad_file *file = umad_file_get(fd);
	int err;

	if (!file) {
		explain_refused(call, EPERM, "%s: descriptor %d is not one of umad_open_port()",
				call, fd);
		return umad_fail(EPERM);
	}
	err = agent_enter(file, call, request);
	umad_file_put(file);
	if (!err)
		return (int)request->id;
	errno = err == EBUSY ? EINVAL : err;
	return -EPERM;
}

int umad_register(int fd, int mgmt_class, int mgmt_version, uint8_t rmpp_version,
		  long method_mask[16 / sizeof(long)])
{
	CALL();
	struct ctl_agent request = { .class = (uint8_t)mgmt_class,
				     .class_version = (uint8_t)mgmt_version,
				     .rmpp_version = rmpp_version,
				     .oui = OPENIB_OUI };

	if (mgmt_class < 0 || mgmt_class > UINT8_MAX || mgmt_version < 0 ||
	    mgmt_version > UINT8_MAX) {
		explain_refused("umad_register", EPERM,
				"umad_register: no class %d version %d: expected "
				"0 to 255",
				mgmt_class, mgmt_version);
		errno = EINVAL;
		return -EPERM;
	}
	if (method_mask)
		memcpy(request.methods, method_mask, sizeof(request.methods));
	return agent_register("umad_register", fd, &request);
}

int umad_register_oui(int fd, int mgmt_class, uint8_t rmpp_version, uint8_t oui[3],
		      long method_mask[16 / sizeof(long)])
{
	CALL();
	struct ctl_agent request = { .class = (uint8_t)mgmt_class,
				     .class_version = 1,
				     .rmpp_version = rmpp_version };

	if (mgmt_class < VENDOR_2_FIRST || mgmt_class > VENDOR_2_LAST || !oui) {
		explain_refused("umad_register_oui", EINVAL,
				"umad_register_oui: class 0x%02x has no OUI: expected "
				"0x%02x to 0x%02x",
				mgmt_class, VENDOR_2_FIRST, VENDOR_2_LAST);
		return umad_fail(EINVAL);
	}
	request.oui = (uint32_t)oui[0] << 16 | (uint32_t)oui[1] << 8 | oui[2];
	if (method_mask)
		memcpy(request.methods, method_mask, sizeof(request.methods));
	return agent_register("umad_register_oui", fd, &request);
}

/* 0 or a positive errno. Of flags that are unknown, the ones that are known come back. */
int umad_register2(int fd, struct umad_reg_attr *attr, uint32_t *agent_id)
{
	CALL();
	struct ctl_agent request;
	struct umad_file *file;
	int err;

	if (!attr || !agent_id)
		return EINVAL;
	request = (struct ctl_agent){ .class = attr->mgmt_class,
				      .class_version = attr->mgmt_class_version,
				      .rmpp_version = attr->rmpp_version,
				      .flags = attr->flags,
				      .oui = attr->oui & OUI_MAX };
	memcpy(request.methods, attr->method_mask, sizeof(request.methods));
	if (attr->flags & ~(uint32_t)FLAGS) {
		explain_refused("umad_register2", EINVAL,
				"umad_register2: unknown flags 0x%x: expected 0x%x or "
				"none",
				attr->flags & ~(uint32_t)FLAGS, FLAGS);
		attr->flags = FLAGS;
		return EINVAL;
	}
	if (attr->oui > OUI_MAX || (attr->mgmt_class >= VENDOR_2_FIRST &&
				    attr->mgmt_class <= VENDOR_2_LAST && !attr->oui)) {
		explain_refused("umad_register2", EINVAL,
				"umad_register2: class 0x%02x with OUI 0x%x: expected "
				"0x000001 to 0xffffff",
				attr->mgmt_class, attr->oui);
		return EINVAL;
	}
	file = umad_file_get(fd);
	if (!file)
		return EINVAL;
	err = agent_enter(file, "umad_register2", &request);
	umad_file_put(file);
	if (!err)
		*agent_id = request.id;
	return err == EBUSY ? EINVAL : err;
}

/* 0, or -1 and errno. */
int umad_unregister(int fd, int agentid)
{
	CALL();
	struct ctl_agent request = { .id = (uint32_t)agentid };
	struct umad_file *file = umad_file_get(fd);
	bool known = false, dead = false;
	char why[PLACE_WHY_MAX];
	int err = EINVAL;

	if (file) {
		lock_acquire(&file->lock);
		known = agentid >= 0 && agentid < UMAD_CA_MAX_AGENTS && file->agent[agentid].used;
		if (known) {
			file->agent[agentid].used = false;
			umad_file_forget_agent(file, (uint32_t)agentid);
		}
		request.token = file->token;
		dead = file->dead;
		lock_release(&file->lock);
	}
	if (known) {
		err = ib_question(&file->binding, CTL_UNREGISTER, &request, sizeof(request), NULL,
				  NULL, NULL, why);
		/* A fabric that has ended, or was started anew, does not know it. */
		if (dead || err == ECONNREFUSED || err == ECONNRESET || err == ENOENT)
			err = 0;
	}
	if (file)
		umad_file_put(file);
	if (!err)
		return 0;
	errno = err;
	return -1;
}
