/* SPDX-License-Identifier: BSD-2-Clause */
/* Program headers and the dynamic section of an ELF file of this machine's kind. */
#include "elf_file.h"

#include <elf.h>
#include <endian.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SEGMENTS_MAX = 256, SECTIONS_MAX = 512, DYNAMIC_MAX = 4096 };

struct elf_image {
	int fd;
	size_t size;
	ElfW(Ehdr) header;
};

static bool image_get(const struct elf_image *image, uint64_t at, void *to, size_t size)
{
	return at <= image->size && size <= image->size - at &&
	       pread(image->fd, to, size, (off_t)at) == (ssize_t)size;
}

/* The string at @at, which has to end inside the file; what does not fit @to is no string. */
static bool image_text(const struct elf_image *image, uint64_t at, char *to, size_t size)
{
	size_t length = at < image->size && image->size - at < size ? image->size - at : size;

	if (at >= image->size || !image_get(image, at, to, length) || !memchr(to, '\0', length)) {
		to[0] = '\0';
		return false;
	}
	return true;
}

static bool segment_get(const struct elf_image *image, unsigned i, ElfW(Phdr) *segment)
{
	if (image->header.e_phentsize != sizeof(*segment))
		return false;
	if (image->header.e_phoff > image->size)
		return false;
	return image_get(image, image->header.e_phoff + (uint64_t)i * sizeof(*segment), segment,
			 sizeof(*segment));
}

static unsigned segment_count(const struct elf_image *image)
{
	return image->header.e_phnum < SEGMENTS_MAX ? image->header.e_phnum : SEGMENTS_MAX;
}

/* The place in the file of what is loaded at @address. */
static bool file_offset(const struct elf_image *image, uint64_t address, uint64_t *offset)
{
	ElfW(Phdr) segment;

	for (unsigned i = 0; i < segment_count(image) && segment_get(image, i, &segment); i++) {
		if (segment.p_type != PT_LOAD || address < segment.p_vaddr ||
		    address - segment.p_vaddr >= segment.p_filesz)
			continue;
		if (segment.p_offset > image->size)
			return false;
		*offset = segment.p_offset + (address - segment.p_vaddr);
		return true;
	}
	return false;
}

static void read_dynamic(const struct elf_image *image, const ElfW(Phdr) *dynamic, struct elf_file *file)
{
	uint64_t strings = 0;
	ElfW(Dyn) entry;
	int pass;

	for (pass = 0; pass < 2; pass++) {
		for (unsigned i = 0; i < DYNAMIC_MAX && (i + 1) * sizeof(entry) <= dynamic->p_filesz; i++) {
			if (dynamic->p_offset > image->size ||
			    !image_get(image, dynamic->p_offset + i * sizeof(entry), &entry, sizeof(entry)) ||
			    entry.d_tag == DT_NULL)
				break;
			if (pass == 0 && entry.d_tag == DT_STRTAB &&
			    !file_offset(image, entry.d_un.d_ptr, &strings))
				return;
			if (pass == 0 || !strings || entry.d_un.d_val > image->size)
				continue;
			if (entry.d_tag == DT_RPATH)
				image_text(image, strings + entry.d_un.d_val, file->rpath, ELF_TEXT_MAX);
			else if (entry.d_tag == DT_RUNPATH)
				image_text(image, strings + entry.d_un.d_val, file->runpath, ELF_TEXT_MAX);
			else if (entry.d_tag == DT_NEEDED && file->needed_count < ELF_NEEDED_MAX &&
				 image_text(image, strings + entry.d_un.d_val,
					    file->needed[file->needed_count], ELF_NAME_MAX))
				file->needed_count++;
		}
	}
}

/* Go's linker writes a section or a note of its own. */
static bool is_go(const struct elf_image *image)
{
	const ElfW(Ehdr) *header = &image->header;
	ElfW(Shdr) names, section;
	char name[32];

	if (header->e_shentsize != sizeof(section) || header->e_shoff > image->size ||
	    !image_get(image, header->e_shoff + (uint64_t)header->e_shstrndx * sizeof(names), &names,
		       sizeof(names)) || names.sh_offset > image->size)
		return false;
	for (unsigned i = 0; i < header->e_shnum && i < SECTIONS_MAX; i++) {
		if (!image_get(image, header->e_shoff + (uint64_t)i * sizeof(section), &section,
			       sizeof(section)))
			return false;
		if (image_text(image, names.sh_offset + section.sh_name, name, sizeof(name)) &&
		    (!strcmp(name, ".go.buildinfo") || !strcmp(name, ".note.go.buildid")))
			return true;
	}
	return false;
}

static bool is_own_kind(const uint8_t *ident)
{
	return ident[EI_CLASS] == (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) &&
	       ident[EI_DATA] == (BYTE_ORDER == LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB);
}

void elf_read(int fd, size_t size, struct elf_file *file)
{
	struct elf_image image = { .fd = fd, .size = size };
	uint8_t bytes[EI_NIDENT + 4];
	ElfW(Phdr) segment;

	memset(file, 0, sizeof(*file));
	if (!image_get(&image, 0, bytes, SELFMAG) || memcmp(bytes, ELFMAG, SELFMAG))
		return;
	file->kind = ELF_BROKEN;
	if (!image_get(&image, 0, bytes, sizeof(bytes)))
		return;
	file->is_64 = bytes[EI_CLASS] == ELFCLASS64;
	file->machine = bytes[EI_DATA] == ELFDATA2MSB ? (uint16_t)(bytes[18] << 8 | bytes[19]) :
							 (uint16_t)(bytes[19] << 8 | bytes[18]);
	if (!is_own_kind(bytes) || file->machine != elf_own_machine()) {
		file->kind = ELF_FOREIGN;
		return;
	}
	if (!image_get(&image, 0, &image.header, sizeof(image.header)) || !segment_count(&image))
		return;
	file->kind = ELF_STATIC;
	for (unsigned i = 0; i < segment_count(&image); i++) {
		if (!segment_get(&image, i, &segment)) {
			file->kind = ELF_BROKEN;
			return;
		}
		if (segment.p_type == PT_INTERP) {
			if (!image_text(&image, segment.p_offset, file->interpreter, ELF_TEXT_MAX)) {
				file->kind = ELF_BROKEN;
				return;
			}
			file->kind = ELF_DYNAMIC;
		}
		if (segment.p_type == PT_DYNAMIC)
			read_dynamic(&image, &segment, file);
	}
	/* A static PIE has a dynamic section, too, but nobody to read it. */
	file->go = is_go(&image);
}

uint16_t elf_own_machine(void)
{
#if defined(__x86_64__)
	return EM_X86_64;
#elif defined(__aarch64__)
	return EM_AARCH64;
#elif defined(__riscv)
	return EM_RISCV;
#elif defined(__powerpc64__)
	return EM_PPC64;
#elif defined(__s390x__)
	return EM_S390;
#else
	return EM_NONE;
#endif
}

const char *elf_machine_name(uint16_t machine, char text[32])
{
	static const struct { uint16_t machine; const char *name; } names[] = {
		{ EM_X86_64, "x86-64" }, { EM_AARCH64, "arm64" }, { EM_386, "i386" }, { EM_ARM, "arm" },
		{ EM_RISCV, "riscv" }, { EM_PPC64, "ppc64" }, { EM_S390, "s390" },
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].machine == machine)
			return names[i].name;
	snprintf(text, 32, "machine %u", machine);
	return text;
}
