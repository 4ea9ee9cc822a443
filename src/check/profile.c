/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of adapters (profile.h). */
#include "check/profile.h"

#include <infiniband/verbs.h>
#include <stdio.h>
#include <string.h>

#define SOURCE(name, words) static const char source_##name[] = words;
#include "check/profile.def"

#define V1_LINK_LOCAL CHECK_GID_V1_LINK_LOCAL
#define V2_LINK_LOCAL CHECK_GID_V2_LINK_LOCAL
#define V1_ADDRESS CHECK_GID_V1_ADDRESS
#define V2_ADDRESS CHECK_GID_V2_ADDRESS
#define TYPE(type) (UINT64_C(1) << IBV_QPT_##type)
#define RC TYPE(RC)
#define UC TYPE(UC)
#define UD TYPE(UD)
#define RAW TYPE(RAW_PACKET)
#define XRC (TYPE(XRC_SEND) | TYPE(XRC_RECV))
/* IBV_QPT_DRIVER is 0xff: a bit that no other type has. */
#define DRIVER (UINT64_C(1) << 63)

#define PROFILE(name, named, about) [CHECK_PROFILE_##name].option = named,
#define FACT(profile, kind, number, from)                                                          \
	[CHECK_PROFILE_##profile].fact[CHECK_FACT_##kind] = { source_##from, number },
const struct check_profile check_profiles[CHECK_PROFILES] = {
#include "check/profile.def"
#define PROFILE(name, named, about) [CHECK_PROFILE_##name].words = about,
#include "check/profile.def"
};

const struct check_profile *check_profile_find(const char *option)
{
	for (unsigned i = 0; i < CHECK_PROFILES; i++)
		if (!strcmp(check_profiles[i].option, option))
			return &check_profiles[i];
	return NULL;
}

const char *check_profile_names(char *text, unsigned size)
{
	unsigned used = 0;

	for (unsigned i = 0; i < CHECK_PROFILES && used < size; i++)
		used += (unsigned)snprintf(text + used, size - used, "%s%s", i ? ", " : "",
					   check_profiles[i].option);
	return text;
}

bool check_profile_may_refuse(const struct check_profile *profile)
{
	return profile && profile != &check_profiles[CHECK_PROFILE_IB];
}
