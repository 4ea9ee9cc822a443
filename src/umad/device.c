/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The HCAs of the node that the process is at, and their ports, as the fabric has them at this
 * moment. RoCE devices are not among them: their ports have no QP0, and programs that take one for
 * InfiniBand wait for an SM that never comes.
 */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "umad/umad.h"

#define MBPS_PER_GBPS	1000u

enum { STATE_ACTIVE = 4, PHYS_DISABLED = 3, PHYS_LINK_UP = 5 };

struct port_list {
	struct ctl_port *port;
	unsigned count;
	bool failed;
};

static void port_take(void *context, const struct ctl_head *head, const char *body)
{
	struct port_list *list = context;
	struct ctl_port *larger;

	if (head->kind != CTL_PORT || head->bytes != sizeof(*larger) ||
	    list->count == UMAD_PORTS_MAX)
		return;
	larger = reallocarray(list->port, list->count + 1, sizeof(*larger));
	if (!larger) {
		list->failed = true;
		return;
	}
	list->port = larger;
	larger += list->count++;
	memcpy(larger, body, sizeof(*larger));
	/* The fabric may be that of another user: its texts end where they have to. */
	larger->device[sizeof(larger->device) - 1] = '\0';
	larger->description[sizeof(larger->description) - 1] = '\0';
	larger->model[sizeof(larger->model) - 1] = '\0';
	larger->firmware[sizeof(larger->firmware) - 1] = '\0';
	larger->revision[sizeof(larger->revision) - 1] = '\0';
	larger->speed[sizeof(larger->speed) - 1] = '\0';
	if (larger->pkeys > CTL_PKEYS_MAX)
		larger->pkeys = CTL_PKEYS_MAX;
}

int umad_ports(struct ctl_port **ports, unsigned *count)
{
	struct ctl_place place = { .port = 0 };
	struct port_list list = { 0 };
	char why[PLACE_WHY_MAX];
	struct ib_binding binding;
	int err = ib_bind(&binding);

	*ports = NULL;
	*count = 0;
	if (err == ENODEV)
		return umad_roce_ports(ports, count);
	if (err)
		return err;
	strcpy(place.node, binding.node);
	err = ib_question(&binding, CTL_PORTS, &place, sizeof(place), port_take, &list, NULL, why);
	if (!err && list.failed)
		err = ENOMEM;
	if (err) {
		free(list.port);
		/*
		 * A wrong setting is said in any case; that the fabric does not run may be on
		 * purpose.
		 */
		if (err == EINVAL)
			complain("%s", why);
		else
			explain("no InfiniBand device: %s", why);
		return err == EINVAL || err == ENOMEM ? err : ENODEV;
	}
	*ports = list.port;
	*count = list.count;
	return 0;
}

/* Higher is better; 0: it is disabled, or has no QP0. */
static unsigned port_rank(const struct ctl_port *port)
{
	if (port->ethernet)
		return 0;
	if (port->state == STATE_ACTIVE)
		return 3;
	if (port->phys_state == PHYS_LINK_UP)
		return 2;
	return port->phys_state != PHYS_DISABLED;
}

int umad_resolve(const char *call, const char *device, int number, bool open,
		 struct ctl_port *found)
{
	const struct ctl_port *best = NULL;
	struct ctl_port *ports;
	bool named = false;
	unsigned count;
	int err = umad_ports(&ports, &count);

	if (err)
		return err;
	for (unsigned i = 0; i < count; i++) {
		const struct ctl_port *port = &ports[i];

		if (device && strcmp(port->device, device))
			continue;
		named = true;
		if (number > 0 && port->number != (uint32_t)number)
			continue;
		/* A port that is asked for by its number may be disabled: it is there. */
		if (!port_rank(port) && (!(device && number > 0) || (open && port->ethernet)))
			continue;
		if (!best || port_rank(port) > port_rank(best))
			best = port;
	}
	if (best) {
		*found = *best;
	} else {
		err = named && number > 0 ? EINVAL : ENODEV;
		if (count && ports->ethernet)
			explain_refused(
				call, err,
				"%s: no InfiniBand device: VERBATIM_FABRIC names no "
				"fabric; verbatim fabric FILE --name NAME starts one, then "
				"VERBATIM_FABRIC=NAME VERBATIM_NODE=HOST verbatim run PROGRAM",
				call);
		else
			explain_refused(call, err,
					"%s: no InfiniBand device%s%s%s that could be used: "
					"ibstat shows them",
					call, device ? " " : "", device ? device : "",
					number > 0 ? " with this port" : "");
	}
	free(ports);
	return err;
}

int umad_init(void)
{
	CALL();
	struct ib_binding binding;
	int err = ib_bind(&binding);

	if (!err || err == ENODEV)
		return 0;
	errno = err;
	return -1;
}

int umad_done(void)
{
	return 0;
}

/* The devices by name, without those that have more ports: ports of a device follow each other. */
static unsigned device_names(const struct ctl_port *ports, unsigned count,
			     char names[][UMAD_CA_NAME_LEN], unsigned max)
{
	unsigned found = 0;

	for (unsigned i = 0; i < count && found < max; i++)
		if (!i || strcmp(ports[i].device, ports[i - 1].device))
			memcpy(names[found++], ports[i].device, UMAD_CA_NAME_LEN);
	return found;
}

_Static_assert(UMAD_CA_NAME_LEN == CTL_DEVICE_MAX, "names fit");

int umad_get_cas_names(char cas[][UMAD_CA_NAME_LEN], int max)
{
	CALL();
	struct ctl_port *ports;
	unsigned count, found;

	if (!cas || max < 0 || umad_ports(&ports, &count))
		return 0;
	found = device_names(ports, count, cas, (unsigned)max);
	free(ports);
	return (int)found;
}

/* Its keys are allocated. False: no memory. */
static bool port_fill(umad_port_t *port, const struct ctl_port *from)
{
	memset(port, 0, sizeof(*port));
	port->pkeys = calloc(from->pkeys ? from->pkeys : 1, sizeof(port->pkeys[0]));
	if (!port->pkeys)
		return false;
	memcpy(port->ca_name, from->device, sizeof(port->ca_name));
	port->portnum = (int)from->number;
	port->base_lid = from->lid;
	port->lmc = from->lmc;
	port->sm_lid = from->sm_lid;
	port->sm_sl = from->sm_sl;
	port->state = from->state;
	port->phys_state = from->phys_state;
	port->rate = from->rate_mbps / MBPS_PER_GBPS;
	port->capmask = htobe32(from->cap_mask);
	port->gid_prefix = htobe64(from->gid_prefix);
	port->port_guid = htobe64(from->guid);
	port->pkeys_size = from->pkeys;
	for (unsigned i = 0; i < from->pkeys && i < CTL_PKEYS_MAX; i++)
		port->pkeys[i] = from->pkey[i];
	strcpy(port->link_layer, from->ethernet ? "Ethernet" : "InfiniBand");
	return true;
}

static void ca_release(umad_ca_t *ca)
{
	for (int i = 0; i < UMAD_CA_MAX_PORTS; i++) {
		if (ca->ports[i])
			free(ca->ports[i]->pkeys);
		free(ca->ports[i]);
		ca->ports[i] = NULL;
	}
}

static int ca_fill(umad_ca_t *ca, const char *device, const struct ctl_port *ports, unsigned count)
{
	memset(ca, 0, sizeof(*ca));
	for (unsigned i = 0; i < count; i++) {
		const struct ctl_port *from = &ports[i];
		umad_port_t *port;

		if (strcmp(from->device, device) || from->number >= UMAD_CA_MAX_PORTS)
			continue;
		memcpy(ca->ca_name, from->device, sizeof(ca->ca_name));
		ca->node_type = from->node_type;
		snprintf(ca->fw_ver, sizeof(ca->fw_ver), "%s", from->firmware);
		snprintf(ca->ca_type, sizeof(ca->ca_type), "%s", from->model);
		snprintf(ca->hw_ver, sizeof(ca->hw_ver), "%s", from->revision);
		ca->node_guid = htobe64(from->node_guid);
		ca->system_guid = htobe64(from->system_guid);
		port = malloc(sizeof(*port));
		if (!port || !port_fill(port, from)) {
			free(port);
			ca_release(ca);
			return ENOMEM;
		}
		ca->ports[from->number] = port;
		if (ca->numports < port->portnum)
			ca->numports = port->portnum;
	}
	return ca->ca_name[0] ? 0 : ENODEV;
}

/* NULL for @device: the best one. */
static int ca_load(const char *call, const char *device, umad_ca_t *ca)
{
	struct ctl_port found, *ports;
	unsigned count;
	int err;

	if (!device) {
		err = umad_resolve(call, NULL, 0, false, &found);
		if (err)
			return err;
		device = found.device;
	}
	err = umad_ports(&ports, &count);
	if (err)
		return err;
	err = ca_fill(ca, device, ports, count);
	free(ports);
	if (err == ENODEV)
		explain_refused(call, err, "%s: no InfiniBand device %s: ibstat -l lists them",
				call, device);
	return err;
}

int umad_get_ca(const char *ca_name, umad_ca_t *ca)
{
	CALL();
	int err = ca ? ca_load("umad_get_ca", ca_name, ca) : EINVAL;

	return err ? umad_fail(err) : 0;
}

int umad_release_ca(umad_ca_t *ca)
{
	if (!ca)
		return umad_fail(ENODEV);
	ca_release(ca);
	return 0;
}

int umad_get_ca_portguids(const char *ca_name, __be64 *portguids, int max)
{
	CALL();
	umad_ca_t ca;
	int err = ca_load("umad_get_ca_portguids", ca_name, &ca), ports;

	if (err)
		return umad_fail(err);
	ports = ca.numports + 1;
	if (portguids && ports > max)
		err = ENOMEM;
	for (int i = 0; portguids && !err && i < ports; i++)
		portguids[i] = ca.ports[i] ? ca.ports[i]->port_guid : 0;
	ca_release(&ca);
	if (err)
		return umad_fail(err);
	return portguids ? ports : 0;
}

int umad_get_port(const char *ca_name, int portnum, umad_port_t *port)
{
	CALL();
	struct ctl_port found;
	int err = port ? umad_resolve("umad_get_port", ca_name, portnum, false, &found) : EINVAL;

	if (!err && !port_fill(port, &found))
		err = ENOMEM;
	return err ? umad_fail(err) : 0;
}

int umad_release_port(umad_port_t *port)
{
	if (!port)
		return umad_fail(ENODEV);
	free(port->pkeys);
	port->pkeys = NULL;
	port->pkeys_size = 0;
	return 0;
}

static void path_take(void *context, const struct ctl_head *head, const char *body)
{
	if (head->kind == CTL_TEXT)
		snprintf(context, PATH_MAX, "%s", body);
}

int umad_get_issm_path(const char *ca_name, int portnum, char path[], int max)
{
	CALL();
	struct ctl_place place = { .port = 0 };
	char why[PLACE_WHY_MAX], full[PATH_MAX] = "";
	struct ib_binding binding;
	struct ctl_port found;
	int err =
		path ? umad_resolve("umad_get_issm_path", ca_name, portnum, true, &found) : EINVAL;

	if (!err)
		err = ib_bind(&binding);
	if (err)
		return umad_fail(err);
	strcpy(place.node, binding.node);
	memcpy(place.device, found.device, sizeof(place.device));
	place.port = found.number;
	err = ib_question(&binding, CTL_ISSM, &place, sizeof(place), path_take, full, NULL, why);
	if (err)
		explain_refused("umad_get_issm_path", err, "umad_get_issm_path: %s", why);
	if (!err && (int)strlen(full) >= max)
		err = ENAMETOOLONG;
	if (err)
		return umad_fail(err);
	strcpy(path, full);
	return 0;
}

/* ---- lists ---- */

static void list_free(struct umad_device_node *head)
{
	while (head) {
		struct umad_device_node *next = head->next;

		free(head);
		head = next;
	}
}

void umad_free_ca_device_list(struct umad_device_node *head)
{
	list_free(head);
}

/*
 * One allocation for each, the name behind it: that is all that umad_free_ca_device_list() has to
 * know. NULL and errno 0: there are none.
 */
struct umad_device_node *umad_get_ca_device_list(void)
{
	CALL();
	struct umad_device_node *head = NULL, **end = &head;
	char names[UMAD_DEVICES_MAX][UMAD_CA_NAME_LEN];
	struct ctl_port *ports;
	unsigned count, found;
	int err = umad_ports(&ports, &count);

	errno = err == ENODEV ? 0 : err;
	if (err)
		return NULL;
	found = device_names(ports, count, names, UMAD_DEVICES_MAX);
	free(ports);
	for (unsigned i = 0; i < found; i++) {
		struct umad_device_node *node = malloc(sizeof(*node) + UMAD_CA_NAME_LEN);

		if (!node) {
			list_free(head);
			errno = ENOMEM;
			return NULL;
		}
		node->next = NULL;
		node->ca_name = memcpy(node + 1, names[i], UMAD_CA_NAME_LEN);
		*end = node;
		end = &node->next;
	}
	return head;
}

static int node_compare(const void *one, const void *other)
{
	return strcmp((*(struct umad_device_node *const *)one)->ca_name,
		      (*(struct umad_device_node *const *)other)->ca_name);
}

/* 0 or errno. @size: how many there are, 0: all. */
int umad_sort_ca_device_list(struct umad_device_node **head, size_t size)
{
	struct umad_device_node **nodes, *node;
	size_t count = 0;

	if (!head)
		return EINVAL;
	for (node = *head; node; node = node->next)
		count++;
	if (size && count != size)
		return EINVAL;
	if (count < 2)
		return 0;
	nodes = calloc(count, sizeof(*nodes));
	if (!nodes)
		return ENOMEM;
	count = 0;
	for (node = *head; node; node = node->next)
		nodes[count++] = node;
	qsort(nodes, count, sizeof(*nodes), node_compare);
	for (size_t i = 0; i < count; i++)
		nodes[i]->next = i + 1 < count ? nodes[i + 1] : NULL;
	*head = nodes[0];
	free(nodes);
	return 0;
}

/*
 * Since rdma-core 54 diagnostics ask for the device of QP0 and that of QP1, which may be two where
 * a port is made of several planes. Ours are one.
 */
int umad_get_smi_gsi_pairs(struct umad_ca_pair pairs[], size_t max)
{
	CALL();
	char names[UMAD_DEVICES_MAX][UMAD_CA_NAME_LEN];
	struct ctl_port *ports;
	unsigned count, found;

	if (!pairs)
		return umad_fail(EINVAL);
	memset(pairs, 0, max * sizeof(*pairs));
	if (umad_ports(&ports, &count))
		return 0;
	found = device_names(ports, count, names,
			     max < UMAD_DEVICES_MAX ? (unsigned)max : UMAD_DEVICES_MAX);
	for (unsigned i = 0; i < found; i++) {
		memcpy(pairs[i].smi_name, names[i], sizeof(names[i]));
		memcpy(pairs[i].gsi_name, names[i], sizeof(names[i]));
	}
	free(ports);
	return (int)found;
}

/* @enforce_smi: the device has to have a QP0. All have. */
int umad_get_smi_gsi_pair_by_ca_name(const char *ca_name, uint8_t portnum,
				     struct umad_ca_pair *pair, unsigned enforce_smi)
{
	CALL();
	struct ctl_port found;
	int err = pair ? umad_resolve("umad_get_smi_gsi_pair_by_ca_name", ca_name, portnum, false,
				  &found)
		       : EINVAL;

	if (err)
		return umad_fail(err == EINVAL && pair ? ENODEV : err);
	memset(pair, 0, sizeof(*pair));
	memcpy(pair->smi_name, found.device, sizeof(pair->smi_name));
	memcpy(pair->gsi_name, found.device, sizeof(pair->gsi_name));
	pair->smi_preferred_port = pair->gsi_preferred_port = found.number;
	return 0;
}
