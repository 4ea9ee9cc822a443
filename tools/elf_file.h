/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What an ELF file says about the libraries that it would load, without running any of it. The file may
 * be hostile: every offset is checked against its size, every count has a limit, and nothing is loaded.
 */
#ifndef VERBATIM_TOOLS_ELF_FILE_H
#define VERBATIM_TOOLS_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ELF_TEXT_MAX = 1024, ELF_NEEDED_MAX = 64, ELF_NAME_MAX = 128 };

enum elf_kind {
	ELF_NONE,		/* another format */
	ELF_BROKEN,		/* begins as ELF and is none */
	ELF_FOREIGN,		/* of another machine, word size or byte order */
	ELF_STATIC,		/* loads nothing */
	ELF_DYNAMIC,
};

struct elf_file {
	enum elf_kind kind;
	uint16_t machine;	/* EM_* */
	bool is_64;
	bool go;		/* built by Go: system calls without the C library */
	char interpreter[ELF_TEXT_MAX];
	char rpath[ELF_TEXT_MAX], runpath[ELF_TEXT_MAX];	/* "": none */
	unsigned needed_count;	/* at most ELF_NEEDED_MAX are kept */
	char needed[ELF_NEEDED_MAX][ELF_NAME_MAX];
};

/* @fd: a regular file of @size bytes; one that shrinks meanwhile is broken. */
void elf_read(int fd, size_t size, struct elf_file *file);
/* "x86-64"; "machine 17". */
const char *elf_machine_name(uint16_t machine, char text[32]);
uint16_t elf_own_machine(void);

#endif
