/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a process needs of the limits that it runs under: for explanations, and for `verbatim doctor`.
 * A process with one open device and stdio has 25 descriptors (/proc/PID/fd) and 100 MiB
 * (VmSize); each peer of this
 * host takes a descriptor, and some while it connects.
 */
#ifndef VERBATIM_DEVICE_NEED_H
#define VERBATIM_DEVICE_NEED_H

#define NEED_DESCRIPTORS	40u	/* RLIMIT_NOFILE */
#define NEED_ADDRESS_MIB	256u	/* RLIMIT_AS, beside the program's own */

#endif
