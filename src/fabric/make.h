/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Recipes for subnets, which become the text of a file (file.h):
 *
 *	pair						two hosts, one cable
 *	star hosts=8					one switch
 *	ring switches=6 hosts=2				hosts on each switch
 *	torus 4x4x2 hosts=1				hosts on each switch
 *	fattree leaves=12 spines=8 hosts=12 cables=1	two levels; hosts on a leaf, cables from
 *							each leaf to each spine
 *	clos radix=36 hosts=5000			three levels of switches of that many ports,
 *							pods as needed
 *	dragonfly groups=9 switches=4 hosts=2 global=2	switches of a group, hosts and global cables
 *							of a switch
 *
 * Each takes speed=EDR and width=4x, of all cables. What is left out has the number that stands
 * here.
 */
#ifndef VERBATIM_FABRIC_MAKE_H
#define VERBATIM_FABRIC_MAKE_H

#include "fabric/fabric.h"

#define MAKE_HOSTS_MAX		50000u
#define MAKE_SWITCHES_MAX	10000u

#endif
