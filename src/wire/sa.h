/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * MADs of subnet administration (15.2.1.1), for those that ask it and those that relay them:
 *
 *	0 header  24 RMPP header, 0: one MAD is all  36 SM_Key  44 attribute offset
 *	48 component mask  56 .. 255 record
 */
#ifndef VERBATIM_WIRE_SA_H
#define VERBATIM_WIRE_SA_H

#include "wire/mad.h"

#define SA_CLASS_VERSION	2u

enum { SA_COMPONENTS = 48, SA_RECORD = 56, SA_RECORD_BYTES = MAD_BYTES - SA_RECORD };

/* A bit a component, in the order of the record (15.2.5.16, 15.2.5.17). */
enum sa_path_component {
	SA_PATH_SERVICE_ID = 3, SA_PATH_DGID = 1 << 2, SA_PATH_SGID = 1 << 3,
	SA_PATH_TCLASS = 1 << 10, SA_PATH_REVERSIBLE = 1 << 11, SA_PATH_NUMB_PATH = 1 << 12,
	SA_PATH_PKEY = 1 << 13, SA_PATH_QOS_CLASS = 1 << 14,
};
enum sa_group_component {
	SA_GROUP_MGID = 1, SA_GROUP_PORT_GID = 1 << 1, SA_GROUP_QKEY = 1 << 2, SA_GROUP_TCLASS = 1 << 6,
	SA_GROUP_PKEY = 1 << 7, SA_GROUP_SL = 1 << 12, SA_GROUP_FLOW_LABEL = 1 << 13,
	SA_GROUP_JOIN_STATE = 1 << 16,
};
enum sa_join_state { SA_JOIN_FULL = 1, SA_JOIN_NON = 2, SA_JOIN_SEND_ONLY = 4, SA_JOIN_SEND_ONLY_FULL = 8 };

#endif
