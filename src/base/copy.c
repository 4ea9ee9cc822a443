/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The routines that touch application memory. On x86-64 they are leaf functions in assembler
 * that never move the stack pointer, so that from any instruction between the labels
 * copy_text_start and copy_text_end the code at copy_text_fault ("return EFAULT") is a
 * right continuation. Elsewhere they are plain C and a fault there is the application's own.
 *
 * All copies store in ascending order, and the store that holds the last byte comes last:
 * a reader that waits for the last byte finds the last 64 bytes complete.
 */
#include "base/copy.h"

#include <errno.h>
#include <stdbool.h>

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif

#ifdef WITH_ASAN
#include <sanitizer/asan_interface.h>
#include <string.h>
/*
 * The assembler below is not instrumented: touch the first poisoned byte, so that ASan reports it.
 * Addresses that ASan calls poisoned because no memory is mapped there are left to the fault handler.
 */
static void check_poison(const void *memory, size_t length)
{
	char *bad = __asan_region_is_poisoned((void *)memory, length);
	char name[8];
	void *region;
	size_t bytes;

	if (bad && strstr("heap stack-fake global",
			  __asan_locate_address(bad, name, sizeof(name), &region, &bytes)))
		(void)*(volatile char *)bad;
}
#else
static void check_poison(const void *memory, size_t length)
{
}
#endif

/* copy_user() without the look at ASan's shadow. */
int copy_raw(void *to, const void *from, size_t length);

int touch_read(const uint8_t *first, const uint8_t *last);
int touch_write(uint8_t *first, const uint8_t *last);

#if defined(__x86_64__)

#include <cpuid.h>

#define CPUID_7_EBX_ERMS (1u << 9)

extern const char copy_text_start[], copy_text_end[], copy_text_fault[];

/*
 * copy_raw(rdi to, rsi from, rdx length). Up to 64 bytes: two or four loads that overlap,
 * chosen by length. More: 64 bytes a round, then the last 64. From copy_rep_min on: the bulk by
 * "rep movsb", then the last 64 bytes; stores after a
 * string instruction are ordered behind it (Intel SDM 3A 9.2.4.2).
 */
__asm__(
	"	.text\n"
	"	.p2align 6\n"
	"	.globl copy_text_start, copy_text_end, copy_text_fault\n"
	"	.hidden copy_text_start, copy_text_end, copy_text_fault\n"
	"	.globl copy_raw, user_fetch_add, user_compare_swap, touch_read, touch_write\n"
	"	.hidden copy_raw, user_fetch_add, user_compare_swap, touch_read, touch_write\n"
	"copy_text_start:\n"
	"	.type copy_raw, @function\n"
	"copy_raw:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	xorl %eax, %eax\n"
	"	cmpq $16, %rdx\n"
	"	jb 10f\n"
	"	cmpq $32, %rdx\n"
	"	jbe 20f\n"
	"	cmpq $64, %rdx\n"
	"	jbe 30f\n"
	"	cmpq copy_rep_min(%rip), %rdx\n"
	"	jae 50f\n"
	/* rcx: how many bytes are left for the rounds; they stop 1..64 bytes before the end */
	"	leaq -1(%rdx), %rcx\n"
	"	andq $-64, %rcx\n"
	"	subq %rcx, %rdx\n"
	"1:	movups (%rsi), %xmm0\n"
	"	movups 16(%rsi), %xmm1\n"
	"	movups 32(%rsi), %xmm2\n"
	"	movups 48(%rsi), %xmm3\n"
	"	movups %xmm0, (%rdi)\n"
	"	movups %xmm1, 16(%rdi)\n"
	"	movups %xmm2, 32(%rdi)\n"
	"	movups %xmm3, 48(%rdi)\n"
	"	addq $64, %rsi\n"
	"	addq $64, %rdi\n"
	"	subq $64, %rcx\n"
	"	jnz 1b\n"
	/* The last 64 bytes again as a whole: rdx of them are new. */
	"2:	movups -64(%rsi,%rdx), %xmm0\n"
	"	movups -48(%rsi,%rdx), %xmm1\n"
	"	movups -32(%rsi,%rdx), %xmm2\n"
	"	movups -16(%rsi,%rdx), %xmm3\n"
	"	movups %xmm0, -64(%rdi,%rdx)\n"
	"	movups %xmm1, -48(%rdi,%rdx)\n"
	"	movups %xmm2, -32(%rdi,%rdx)\n"
	"	movups %xmm3, -16(%rdi,%rdx)\n"
	"	ret\n"
	/* 33..64 */
	"30:	movups (%rsi), %xmm0\n"
	"	movups 16(%rsi), %xmm1\n"
	"	movups -32(%rsi,%rdx), %xmm2\n"
	"	movups -16(%rsi,%rdx), %xmm3\n"
	"	movups %xmm0, (%rdi)\n"
	"	movups %xmm1, 16(%rdi)\n"
	"	movups %xmm2, -32(%rdi,%rdx)\n"
	"	movups %xmm3, -16(%rdi,%rdx)\n"
	"	ret\n"
	/* 16..32 */
	"20:	movups (%rsi), %xmm0\n"
	"	movups -16(%rsi,%rdx), %xmm1\n"
	"	movups %xmm0, (%rdi)\n"
	"	movups %xmm1, -16(%rdi,%rdx)\n"
	"	ret\n"
	/* 0..15 */
	"10:	testb $8, %dl\n"
	"	jz 11f\n"
	"	movq (%rsi), %rcx\n"
	"	movq -8(%rsi,%rdx), %r8\n"
	"	movq %rcx, (%rdi)\n"
	"	movq %r8, -8(%rdi,%rdx)\n"
	"	ret\n"
	"11:	testb $4, %dl\n"
	"	jz 12f\n"
	"	movl (%rsi), %ecx\n"
	"	movl -4(%rsi,%rdx), %r8d\n"
	"	movl %ecx, (%rdi)\n"
	"	movl %r8d, -4(%rdi,%rdx)\n"
	"	ret\n"
	"12:	testb $2, %dl\n"
	"	jz 13f\n"
	"	movzwl (%rsi), %ecx\n"
	"	movzwl -2(%rsi,%rdx), %r8d\n"
	"	movw %cx, (%rdi)\n"
	"	movw %r8w, -2(%rdi,%rdx)\n"
	"	ret\n"
	"13:	testb %dl, %dl\n"
	"	jz 14f\n"
	"	movzbl (%rsi), %ecx\n"
	"	movb %cl, (%rdi)\n"
	"14:	ret\n"
	/* rep movsb of all but the last 64, which rdx = 64 then makes 2: copy. */
	"50:	leaq -64(%rdx), %rcx\n"
	"	rep movsb\n"
	"	movl $64, %edx\n"
	"	jmp 2b\n"
	"	.cfi_endproc\n"
	"	.size copy_raw, .-copy_raw\n"

	/* user_fetch_add(rdi address, rsi add, rdx original) */
	"	.type user_fetch_add, @function\n"
	"user_fetch_add:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	lock xaddq %rsi, (%rdi)\n"
	"	movq %rsi, (%rdx)\n"
	"	xorl %eax, %eax\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size user_fetch_add, .-user_fetch_add\n"

	/* user_compare_swap(rdi address, rsi compare, rdx swap, rcx original) */
	"	.type user_compare_swap, @function\n"
	"user_compare_swap:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	movq %rsi, %rax\n"
	"	lock cmpxchgq %rdx, (%rdi)\n"
	"	movq %rax, (%rcx)\n"
	"	xorl %eax, %eax\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size user_compare_swap, .-user_compare_swap\n"

	/* touch_read(rdi first byte, rsi last byte): that byte, then the first of each page behind it */
	"	.type touch_read, @function\n"
	"touch_read:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"1:	movzbl (%rdi), %ecx\n"
	"	orq $4095, %rdi\n"
	"	incq %rdi\n"
	"	cmpq %rsi, %rdi\n"
	"	jbe 1b\n"
	"	xorl %eax, %eax\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size touch_read, .-touch_read\n"

	/* touch_write: the same. A locked "or 0" changes nothing, even beside other writers. */
	"	.type touch_write, @function\n"
	"touch_write:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"1:	lock orb $0, (%rdi)\n"
	"	orq $4095, %rdi\n"
	"	incq %rdi\n"
	"	cmpq %rsi, %rdi\n"
	"	jbe 1b\n"
	"	xorl %eax, %eax\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size touch_write, .-touch_write\n"
	"copy_text_end:\n"

	"	.type copy_text_fault, @function\n"
	"copy_text_fault:\n"
	"	.cfi_startproc\n"
	"	movl $14, %eax\n"
	"	ret\n"
	"	.cfi_endproc\n"
	"	.size copy_text_fault, .-copy_text_fault\n"
);
_Static_assert(EFAULT == 14, "copy_text_fault returns this number");

/*
 * Length from which "rep movsb" beats the loop: found by bench/micro on machines that announce
 * enhanced rep movsb (ERMS); on the others it never does.
 */
extern size_t copy_rep_min;
__attribute__((visibility("hidden"), used)) size_t copy_rep_min = SIZE_MAX;

static __attribute__((constructor)) void copy_choose(void)
{
	unsigned eax, ebx, ecx, edx;

	if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx & CPUID_7_EBX_ERMS))
		copy_rep_min = 4096;
}

uintptr_t copy_fixup(uintptr_t pc)
{
	if (pc >= (uintptr_t)copy_text_start && pc < (uintptr_t)copy_text_end)
		return (uintptr_t)copy_text_fault;
	return 0;
}

int copy_user_ordered(void *to, const void *from, size_t length)
{
	return copy_user(to, from, length);
}

#else /* any other architecture */

int copy_raw(void *to, const void *from, size_t length)
{
	__builtin_memcpy(to, from, length);
	return 0;
}

static uintptr_t next_page(const uint8_t *at)
{
	return ((uintptr_t)at | 4095) + 1;
}

int touch_read(const uint8_t *first, const uint8_t *last)
{
	for (; first <= last; first = (const uint8_t *)next_page(first))
		(void)*(const volatile uint8_t *)first;
	return 0;
}

int touch_write(uint8_t *first, const uint8_t *last)
{
	for (; first <= last; first = (uint8_t *)next_page(first))
		__atomic_fetch_or(first, 0, __ATOMIC_RELAXED);
	return 0;
}

int user_fetch_add(void *address, uint64_t add, uint64_t *original)
{
	*original = __atomic_fetch_add((uint64_t *)address, add, __ATOMIC_SEQ_CST);
	return 0;
}

int user_compare_swap(void *address, uint64_t compare, uint64_t swap, uint64_t *original)
{
	__atomic_compare_exchange_n((uint64_t *)address, &compare, swap, false, __ATOMIC_SEQ_CST,
				    __ATOMIC_SEQ_CST);
	*original = compare;
	return 0;
}

uintptr_t copy_fixup(uintptr_t pc)
{
	return 0;
}

int copy_user_ordered(void *to, const void *from, size_t length)
{
	size_t bulk = length > 64 ? length - 64 : 0;
	int err = copy_user(to, from, bulk);

	if (err)
		return err;
	__atomic_thread_fence(__ATOMIC_RELEASE);
	return copy_user((char *)to + bulk, (const char *)from + bulk, length - bulk);
}

#endif

int copy_user(void *to, const void *from, size_t length)
{
	check_poison(from, length);
	check_poison(to, length);
	return copy_raw(to, from, length);
}

int user_touch(const void *address, size_t length)
{
	const uint8_t *first = address;

	return touch_read(first, first + (length - 1));
}

int user_touch_write(void *address, size_t length)
{
	uint8_t *first = address;

	return touch_write(first, first + (length - 1));
}
