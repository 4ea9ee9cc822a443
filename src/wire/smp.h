/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Subnet management packets (IBTA 14.2): where the parts of a MAD of the classes 0x01 (LID routed)
 * and 0x81 (directed route) stand, and the numbers that appear in them. The attributes themselves:
 * subnet.def.
 *
 *	LID routed       24 M_Key  64..127 attribute
 *	directed route    4 D bit, status  6 hop pointer  7 hop count  24 M_Key  32 DrSLID  34
 * DrDLID 64..127 attribute  128 initial path  192 return path
 */
#ifndef VERBATIM_WIRE_SMP_H
#define VERBATIM_WIRE_SMP_H

#include "wire/mad.h"

#define SMP_STATUS		4u
#define SMP_HOP_POINTER		6u
#define SMP_HOP_COUNT		7u
#define SMP_MKEY		24u
#define SMP_DR_SLID		32u
#define SMP_DR_DLID		34u
#define SMP_DATA		64u
#define SMP_DATA_BYTES		64u
#define SMP_INITIAL_PATH	128u
#define SMP_RETURN_PATH		192u
#define SMP_HOPS_MAX		63u

#define SMP_DIRECTION		0x8000u	/* in the status: on its way back */
#define LID_PERMISSIVE		0xffffu
#define LID_MULTICAST		0xc000u	/* the first one */

static inline bool lid_is_multicast(uint16_t lid)
{
	return lid >= LID_MULTICAST && lid != LID_PERMISSIVE;
}

enum smp_class {
	MAD_CLASS_SUBNET_LID = 0x01,
	MAD_CLASS_SUBNET_DIRECTED = 0x81,
	MAD_CLASS_ADMINISTRATION = 0x03,
	MAD_CLASS_PERFORMANCE = 0x04,
	MAD_CLASS_BASEBOARD = 0x05,
};

/* Directed or by LID: those of QP0. */
static inline bool mad_class_is_smp(uint8_t class)
{
	return class == MAD_CLASS_SUBNET_LID || class == MAD_CLASS_SUBNET_DIRECTED;
}

enum smp_method {
	MAD_METHOD_GET = 0x01,
	MAD_METHOD_SET = 0x02,
	MAD_METHOD_TRAP = 0x05,
	MAD_METHOD_REPORT = 0x06,
	MAD_METHOD_TRAP_REPRESS = 0x07,
	MAD_METHOD_GET_TABLE = 0x12,
	MAD_METHOD_GET_TRACE = 0x13,
	MAD_METHOD_GET_MULTI = 0x14,
	MAD_METHOD_DELETE = 0x15,
	MAD_METHOD_RESPONSE = 0x80, /* the R bit */
	MAD_METHOD_GET_RESPONSE = 0x81,
	MAD_METHOD_REPORT_RESPONSE = 0x86,
};

/* Status of the class-independent kind (13.4.7). */
enum mad_status {
	MAD_STATUS_BUSY = 0x01, MAD_STATUS_REDIRECT = 0x02,
	MAD_STATUS_BAD_VERSION = 0x04, MAD_STATUS_BAD_METHOD = 0x08,
	MAD_STATUS_BAD_ATTRIBUTE = 0x0c, MAD_STATUS_BAD_FIELD = 0x1c,
};

#endif
