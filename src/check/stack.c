/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Stacks of calls (stack.h). libdw is loaded when the first one is named: a process that is not
 * checked, or in which nothing is found, never has it.
 */
#include "check/stack.h"

#include <dlfcn.h>
#if __has_include(<elfutils/libdwfl.h>)
#define HAVE_LIBDW
#include <dwarf.h>
#include <elfutils/libdwfl.h>
#endif
#include <execinfo.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STACKS 8192u /* that differ; later ones have none */
#define SITES 4096u
#define DEPTH (CHECK_STACK_FRAMES + 8)	/* with ours in front */

struct stack {
	uint32_t next, depth;	/* next: of the same place in places[] */
	void *address[DEPTH];
};

struct stack_site {
	uintptr_t site, frame;
	uint32_t stack;
};

static struct stack *stacks;	/* [STACKS]; 0 is none */
static uint32_t stack_count = 1, stack_places[STACKS];
static struct stack_site stack_sites[SITES];

void check_stack_init(void)
{
	void *address[2];

	if (stacks)
		return;
	stacks = calloc(STACKS, sizeof(*stacks));
	backtrace(address, 2);	/* it loads libgcc_s now */
}

static uint32_t stack_keep(void *const *address, uint32_t depth)
{
	uint64_t key = depth;
	uint32_t *place, at;

	for (uint32_t i = 0; i < depth; i++)
		key = (key ^ (uintptr_t)address[i]) * 0x9e3779b97f4a7c15u;
	place = &stack_places[key >> 40 & (STACKS - 1)];
	for (at = *place; at; at = stacks[at].next)
		if (stacks[at].depth == depth &&
		    !memcmp(stacks[at].address, address, depth * sizeof(*address)))
			return at;
	if (stack_count == STACKS)
		return 0;
	at = stack_count++;
	stacks[at].depth = depth;
	memcpy(stacks[at].address, address, depth * sizeof(*address));
	stacks[at].next = *place;
	*place = at;
	return at;
}

uint32_t check_stack_take(void)
{
	void *address[DEPTH];
	int depth;

	if (!stacks)
		return 0;
	depth = backtrace(address, DEPTH);
	return depth > 0 ? stack_keep(address, (uint32_t)depth) : 0;
}

uint32_t check_stack_take_at(const void *site, const void *frame)
{
	uintptr_t key = (uintptr_t)site * 31 + (uintptr_t)frame / 16;
	struct stack_site *at = &stack_sites[(key * 0x9e3779b97f4a7c15u) >> 52 & (SITES - 1)];

	if (at->site == (uintptr_t)site && at->frame == (uintptr_t)frame && at->stack)
		return at->stack;
	at->site = (uintptr_t)site;
	at->frame = (uintptr_t)frame;
	at->stack = check_stack_take();
	return at->stack;
}

/* ---- names, of libdw ---- */

#ifdef HAVE_LIBDW

/* The functions of libdw that are used. */
#define DW_FUNCTIONS(X)                                                                            \
	X(dwfl_begin)                                                                              \
	X(dwfl_end)                                                                                \
	X(dwfl_linux_proc_report)                                                                  \
	X(dwfl_report_end)                                                                         \
	X(dwfl_addrmodule)                                                                         \
	X(dwfl_module_addrinfo)                                                                    \
	X(dwfl_module_getsrc)                                                                      \
	X(dwfl_lineinfo)                                                                           \
	X(dwfl_module_addrdie)                                                                     \
	X(dwarf_getscopes)                                                                         \
	X(dwarf_getscopes_die)                                                                     \
	X(dwarf_tag)                                                                               \
	X(dwarf_diename)                                                                           \
	X(dwarf_attr_integrate)                                                                    \
	X(dwarf_formudata)                                                                         \
	X(dwarf_getsrcfiles)                                                                       \
	X(dwarf_filesrc)                                                                           \
	X(dwfl_linux_proc_find_elf)                                                                \
	X(dwfl_build_id_find_debuginfo)

static struct {
	bool tried;
	Dwfl *dwfl;	/* NULL: not there */
#define DW_POINTER(name) __typeof__(&name) name;
	DW_FUNCTIONS(DW_POINTER)
#undef DW_POINTER
} dw;

static bool dw_load(void)
{
	void *library = dlopen("libdw.so.1", RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return false;
#define DW_LOOK_UP(name)                                                                           \
	dw.name = (__typeof__(&name))dlsym(library, #name);                                        \
	if (!dw.name)                                                                              \
		return false;
	DW_FUNCTIONS(DW_LOOK_UP)
#undef DW_LOOK_UP
	return true;
}

/* The modules as they are now: more may have been loaded since. */
static void dw_open(void)
{
	/* Not the standard search: it would ask servers of debuginfod. */
	static Dwfl_Callbacks callbacks;

	if (!dw.tried) {
		dw.tried = true;
		if (!dw_load())
			dw.dwfl_begin = NULL;
	}
	if (!dw.dwfl_begin)
		return;
	callbacks.find_elf = dw.dwfl_linux_proc_find_elf;
	callbacks.find_debuginfo = dw.dwfl_build_id_find_debuginfo;
	dw.dwfl = dw.dwfl_begin(&callbacks);
	if (!dw.dwfl)
		return;
	if (dw.dwfl_linux_proc_report(dw.dwfl, getpid()) ||
	    dw.dwfl_report_end(dw.dwfl, NULL, NULL)) {
		dw.dwfl_end(dw.dwfl);
		dw.dwfl = NULL;
	}
}

static void dw_close(void)
{
	if (dw.dwfl)
		dw.dwfl_end(dw.dwfl);
	dw.dwfl = NULL;
}

static void frame_file(struct check_frame *frame, const char *file, int line)
{
	snprintf(frame->file, sizeof(frame->file), "%s", file ? file : "");
	frame->line = line;
}

/* A frame for each function that was inlined at @address, innermost first. Returns how many were
 * made. */
static unsigned name_scopes(Dwfl_Module *module, uint64_t address,
			    const struct check_frame *outline, struct check_frame *frames,
			    unsigned max)
{
	struct check_frame place = *outline;
	Dwarf_Addr bias;
	Dwarf_Die *unit = dw.dwfl_module_addrdie(module, address, &bias), *scopes = NULL;
	int count = unit ? dw.dwarf_getscopes(unit, address - bias, &scopes) : 0, first = 0;
	unsigned made = 0;

	/* Behind an inlined function come the scopes of its definition: those of the place are
	 * asked for by its DIE. */
	while (first < count && dw.dwarf_tag(&scopes[first]) != DW_TAG_inlined_subroutine)
		first++;
	if (first < count) {
		Dwarf_Die *inside = NULL;
		int inner = dw.dwarf_getscopes_die(&scopes[first], &inside);

		free(scopes);
		scopes = inside;
		count = inner;
	}

	for (int i = 0; i < count && made < max; i++) {
		int tag = dw.dwarf_tag(&scopes[i]);
		const char *name = dw.dwarf_diename(&scopes[i]);
		Dwarf_Attribute attribute;
		Dwarf_Word number, line = 0;
		Dwarf_Files *files;
		const char *file = NULL;
		size_t all;

		if (tag != DW_TAG_inlined_subroutine && tag != DW_TAG_subprogram)
			continue;
		frames[made] = place;
		snprintf(frames[made].function, sizeof(frames[made].function), "%s",
			 name ? name : "");
		made++;
		if (tag == DW_TAG_subprogram)
			break;
		if (!dw.dwarf_getsrcfiles(unit, &files, &all) &&
		    !dw.dwarf_formudata(
			    dw.dwarf_attr_integrate(&scopes[i], DW_AT_call_file, &attribute),
			    &number))
			file = dw.dwarf_filesrc(files, number, NULL, NULL);
		dw.dwarf_formudata(dw.dwarf_attr_integrate(&scopes[i], DW_AT_call_line, &attribute),
				   &line);
		frame_file(&place, file, (int)line);
	}
	free(scopes);
	return made;
}

/* What DWARF says of @address; @frame has what the dynamic linker knows. Returns how many frames it
 * is, or 0. */
static unsigned dw_name(uint64_t address, struct check_frame *frames, unsigned max)
{
	Dwfl_Module *module = dw.dwfl ? dw.dwfl_addrmodule(dw.dwfl, address) : NULL;
	struct check_frame outline = *frames;
	Dwfl_Line *line;
	GElf_Off offset;
	GElf_Sym symbol;
	const char *name;
	unsigned made;

	if (!module)
		return 0;
	name = dw.dwfl_module_addrinfo(module, address, &offset, &symbol, NULL, NULL, NULL);
	if (name)
		snprintf(outline.function, sizeof(outline.function), "%s", name);
	line = dw.dwfl_module_getsrc(module, address);
	if (line) {
		int number = 0;

		frame_file(&outline, dw.dwfl_lineinfo(line, NULL, &number, NULL, NULL, NULL), 0);
		outline.line = number;
	}
	made = name_scopes(module, address, &outline, frames, max);
	if (!made)
		*frames = outline;
	return made ? made : 1;
}
#else /* it was built without the headers of libdw: functions and modules alone */
static void dw_open(void)
{
}

static void dw_close(void)
{
}

static unsigned dw_name(uint64_t address, struct check_frame *frames, unsigned max)
{
	return 0;
}
#endif

/* ---- names ---- */

static bool is_of(const void *address, const char *module)
{
	const char *slash;
	Dl_info info;

	if (!dladdr(address, &info) || !info.dli_fname)
		return false;
	slash = strrchr(info.dli_fname, '/');
	return !strncmp(slash ? slash + 1 : info.dli_fname, module, strlen(module));
}

/* Frames of the libraries that a program calls are not where it was called from. */
static unsigned first_of_program(const struct stack *stack)
{
	unsigned first = 0;

	while (first < stack->depth && (is_of(stack->address[first], "libibverbs.so") ||
					is_of(stack->address[first], "libverbatim-") ||
					is_of(stack->address[first], "librdmacm.so") ||
					is_of(stack->address[first], "librspreload.so")))
		first++;
	return first;
}

bool check_stack_is_of_manager(uint32_t stack)
{
	unsigned first = 0;

	if (!stack)	/* without memory there is no table of them */
		return false;
	while (first < stacks[stack].depth &&
	       (is_of(stacks[stack].address[first], "libibverbs.so") ||
		is_of(stacks[stack].address[first], "libverbatim-")))
		first++;
	return first < stacks[stack].depth &&
	       is_of(stacks[stack].address[first], "librdmacm.so");
}

uint64_t check_stack_place(uint32_t stack)
{
	unsigned first;

	if (!stack)
		return 0;
	first = first_of_program(&stacks[stack]);
	return first < stacks[stack].depth ? (uintptr_t)stacks[stack].address[first] : 0;
}

unsigned check_stack_name(uint32_t stack, struct check_frame *frames, unsigned max)
{
	unsigned used = 0;

	if (!stack)
		return 0;
	dw_open();
	for (unsigned i = first_of_program(&stacks[stack]); i < stacks[stack].depth && used < max;
	     i++) {
		uint64_t address = (uintptr_t)stacks[stack].address[i] - 1; /* in the call, not behind it */
		struct check_frame *frame = &frames[used];
		unsigned made;
		Dl_info info;

		memset(frame, 0, sizeof(*frame));
		if (dladdr(stacks[stack].address[i], &info)) {
			snprintf(frame->function, sizeof(frame->function), "%s",
				 info.dli_sname ? info.dli_sname : "");
			snprintf(frame->module, sizeof(frame->module), "%s",
				 info.dli_fname ? info.dli_fname : "");
			frame->offset = address - (uintptr_t)info.dli_fbase;
		}
		made = dw_name(address, frame, max - used);
		/* What calls main() and the functions of threads. */
		if (!strncmp(frame->function, "__libc_start", 12) ||
		    !strcmp(frame->function, "start_thread") || !strcmp(frame->function, "_start"))
			break;
		used += made ? made : 1;
		if (!strcmp(frames[used - 1].function, "main"))
			break;
	}
	dw_close();
	return used;
}
