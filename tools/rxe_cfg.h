/* SPDX-License-Identifier: BSD-2-Clause */
/* rxe_cfg, which is the command under another name. Not a subcommand: courses type it as it is. */
#ifndef VERBATIM_TOOLS_RXE_CFG_H
#define VERBATIM_TOOLS_RXE_CFG_H

/* The exit status; errors are on stderr. */
int rxe_cfg(int argc, char **argv);

#endif
