/* SPDX-License-Identifier: GPL-2.0 */
/* The fuzzers' input, taken piece by piece; it never ends, it turns to zeros. */
#ifndef CIL_FUZZ_INPUT_H
#define CIL_FUZZ_INPUT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../governors/common/types.h"

/* Not assert(): it must be there whatever the flags are. */
#define DEMAND(condition)						\
	do {								\
		if (!(condition)) {					\
			fprintf(stderr, "%s:%d: not true: %s\n",	\
				__FILE__, __LINE__, #condition);	\
			abort();					\
		}							\
	} while (0)

/**
 * struct input - what is left of it
 * @data: next byte
 * @size: bytes left
 */
struct input {
	const u8 *data;
	size_t size;
};

/* The function that libFuzzer calls, and driver.c. */
int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

static inline void take_bytes(struct input *in, void *to, size_t size)
{
	size_t got = size < in->size ? size : in->size;

	memset(to, 0, size);
	if (!got)
		return;
	memcpy(to, in->data, got);
	in->data += got;
	in->size -= got;
}

static inline u8 take_u8(struct input *in)
{
	u8 value;

	take_bytes(in, &value, sizeof(value));
	return value;
}

static inline u64 take_u64(struct input *in)
{
	u64 value;

	take_bytes(in, &value, sizeof(value));
	return value;
}

/* Less than @limit, which is at most 2^16. */
static inline u32 take_below(struct input *in, u32 limit)
{
	u16 value;

	take_bytes(in, &value, sizeof(value));
	return value % limit;
}

/* A time of up to 2^@bits ns, small ones as likely as great ones. */
static inline u64 take_time(struct input *in, u32 bits)
{
	u64 value = take_u64(in) >> (64 - bits);

	return value >> take_below(in, bits);
}

/* Any time at all, the borders of what a number can be included. */
static inline u64 take_wild(struct input *in)
{
	static const u64 borders[] = {
		0, 1, S64_MAX, S64_MAX - 1, 1ull << 63, U64_MAX,
		1ull << 62, (1ull << 62) - 1, U32_MAX, 20000,
	};
	u32 which = take_below(in, 24);

	if (which < sizeof(borders) / sizeof(borders[0]))
		return borders[which];
	return which < 16 ? take_u64(in) : take_time(in, 40);
}

#endif /* CIL_FUZZ_INPUT_H */
