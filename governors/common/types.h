/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The plain types of the decision logic, in the kernel and outside it.
 *
 * This is the only file below governors/ that knows where it is compiled.
 */
#ifndef CIL_TYPES_H
#define CIL_TYPES_H

#ifdef __KERNEL__
#include <linux/build_bug.h>
#include <linux/types.h>
#include <linux/limits.h>
#else
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int32_t s32;
typedef int64_t s64;

#ifndef static_assert
#define static_assert _Static_assert
#endif

#ifndef noinline
#define noinline __attribute__((__noinline__))
#ifndef __always_inline
#define __always_inline inline __attribute__((__always_inline__))
#endif
#endif

#ifndef U32_MAX
#define S32_MAX INT32_MAX
#define U32_MAX UINT32_MAX
#define U64_MAX UINT64_MAX
#define S64_MAX INT64_MAX
#endif

/* Freestanding: the environment provides them, no header is needed. */
int memcmp(const void *s1, const void *s2, size_t n);
void *memset(void *s, int c, size_t n);
void *memcpy(void *dest, const void *src, size_t n);
void *memmove(void *dest, const void *src, size_t n);
#endif

#ifdef __KERNEL__
#include <linux/string.h>
#endif

#endif /* CIL_TYPES_H */
