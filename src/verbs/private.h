/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A private symbol is there at several versions, as a vendor library is linked to that of its release:
 *
 *	IBVERBS_PRIVATE_34	rdma-core 33 to 56; the default
 *	IBVERBS_PRIVATE_57	57, 58
 *	IBVERBS_PRIVATE_59	59 to 63
 *	IBVERBS_PRIVATE_64	64
 *	IBVERBS_PRIVATE_65	65
 *
 * The number changes when a structure or an argument does. So one function may stand for all of them only if
 * it looks at none: it refuses, or takes what is the same in all releases.
 */
#ifndef VERBATIM_VERBS_PRIVATE_H
#define VERBATIM_VERBS_PRIVATE_H

#define PRIVATE_AT(name, node)                                                           \
	extern __typeof__(name) name##_##node __attribute__((alias(#name)));             \
	__asm__(".symver " #name "_" #node "," #name "@IBVERBS_PRIVATE_" #node)

/*
 * Behind the definition of @name. The linker takes a name without a version, at the address of one that has
 * some, for a means to this end, and hides it: so the default is bound here as well (@@@: instead of it).
 */
#define PRIVATE_IN_ALL_NODES(name)                                                       \
	__asm__(".symver " #name "," #name "@@@IBVERBS_PRIVATE_34");                     \
	PRIVATE_AT(name, 57);                                                            \
	PRIVATE_AT(name, 59);                                                            \
	PRIVATE_AT(name, 64);                                                            \
	PRIVATE_AT(name, 65)

#endif
