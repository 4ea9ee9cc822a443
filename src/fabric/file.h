/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The file of a subnet: what ibnetdiscover prints and ibsim reads, and lines of our own, which
 * begin with a lower-case verb. Nodes may be named before they are described, and one end of a cable
 * is enough.
 *
 *	vendid=0x2c9				# of the nodes that follow, as devid=
 *	sysimgguid=0x2c9000100d050	# of the next node, as switchguid=0x..(0x..), caguid=
 *	Switch 8 "sw1"		# "description" enhanced port 0 lid 3 lmc 0
 *	[1] "host1"[1]		# "host1" lid 4 4xEDR
 *	[3] "sw2"[3] w=4 s=4	# ibsim's: width (1 1x, 2 4x ..), speed (1 SDR ..) enabled
 *	Ca 2 "host1"		# "description"; also Hca, Rt
 *	[1](2c9000100d051) "sw1"[1]		# the GUID of the port
 *
 * Of ibsim, for all that follows: switchguids=, hcaguids= (the first of GUIDs that count on),
 * width=, speed=, extspeed= (bits, as w=, s=, e= of a port), include "FILE".
 *
 *	switch * lft=49152 mft=1024 pkeys=32 esp0=yes	# of all switches that follow;
 *							# or switch "sw1" ..., of one
 *	link "sw1"[3] speed=HDR width=4x down	# of one end, and of the cable; down: pulled
 *	link "sw1"[3] ber=1e-9 degraded=1xSDR	# its bit error rate; what it trains to at best
 *	host "host1" desc="host1 vb_ib0"		# NodeDescription
 *	host "host1" ip=10.0.0.1,10.1.0.1	# IP addresses of its port 1 (address.c)
 *	port "host1"[2] ip=10.0.0.2,10.2.0.2@0x8001	# of another port; one in a partition
 *	port "sw1"[3] stuck			# does not leave Init
 *	counter "sw1"[3] SymbolErrorCounter=5 PortXmitDiscards+=2	# its value; more each second
 *	make fattree leaves=4 spines=2 hosts=4		# nodes of a recipe (make.h)
 *
 * A GUID that is not given is made of the node's name: the same in each run, and locally
 * administered. LIDs are read over: a subnet manager assigns them.
 */
#ifndef VERBATIM_FABRIC_FILE_H
#define VERBATIM_FABRIC_FILE_H

#include "fabric/fabric.h"

/* Links in the text that ibnetdiscover has not seen up have no rate: they get this one. */
#define FILE_SPEED_DEFAULT	"EDR"

#endif
