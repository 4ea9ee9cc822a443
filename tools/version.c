/* SPDX-License-Identifier: BSD-2-Clause */
/* verbatim version */
#include <stdio.h>

#include "tool.h"

int version_command(int argc, char **argv)
{
	if (expect_no_arguments(argc, argv))
		return EXIT_USAGE;
	printf("verbatim %s\n", VERBATIM_VERSION);
	return 0;
}
