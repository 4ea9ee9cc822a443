/* SPDX-License-Identifier: BSD-2-Clause */
/* Adapters that a program may be meant for, and what is known of them: profile.def. */
#ifndef VERBATIM_CHECK_PROFILE_H
#define VERBATIM_CHECK_PROFILE_H

#include <stdbool.h>
#include <stdint.h>

enum check_fact {
#define KIND(name, words) CHECK_FACT_##name,
#include "check/profile.def"
	CHECK_FACTS
};

enum check_profile_id {
#define PROFILE(name, named, about) CHECK_PROFILE_##name,
#include "check/profile.def"
	CHECK_PROFILES
};

/* Values of GID_0 to GID_3. */
enum check_gid {
	CHECK_GID_V1_LINK_LOCAL,
	CHECK_GID_V2_LINK_LOCAL,
	CHECK_GID_V1_ADDRESS,
	CHECK_GID_V2_ADDRESS,
};

struct check_profile {
	const char *option, *words;
	struct {
		const char *source;	/* NULL: not known */
		uint64_t value;
	} fact[CHECK_FACTS];
};

extern const struct check_profile check_profiles[CHECK_PROFILES];

/* NULL: there is none of that name. */
const struct check_profile *check_profile_find(const char *option);
/* "connectx-4, connectx-5, ..." */
const char *check_profile_names(char *text, unsigned size);
/* NULL, and one of InfiniBand, may not: this device is none of such. */
bool check_profile_may_refuse(const struct check_profile *profile);
static inline bool check_profile_knows(const struct check_profile *profile, enum check_fact fact)
{
	return profile && profile->fact[fact].source;
}

#endif
