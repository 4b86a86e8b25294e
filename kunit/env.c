// SPDX-License-Identifier: GPL-2.0
/*
 * The environment of policies under test, in the kernel and in userspace.
 */
#ifdef __KERNEL__
#include <linux/kernel.h>
#else
#include <stdarg.h>
#include <stdio.h>
#endif

#include "include/cil_test_env.h"

/* The largest dump, a matrix of ten states, takes about 6 KiB. */
#define TEXT_SIZE	(32 * 1024)

struct cil_sink {
	size_t length;
	char text[TEXT_SIZE];
};

static struct cil_sink sink;
static s64 next_sleep_length_ns, next_delta_tick_ns;
static u32 asked;

void cil_test_env_timer(s64 sleep_length_ns, s64 delta_tick_ns)
{
	next_sleep_length_ns = sleep_length_ns;
	next_delta_tick_ns = delta_tick_ns;
	asked = 0;
}

u32 cil_test_env_asked(void)
{
	return asked;
}

struct cil_sink *cil_test_env_sink(void)
{
	sink.length = 0;
	sink.text[0] = '\0';
	return &sink;
}

const char *cil_test_env_text(void)
{
	return sink.text;
}

void cil_env_sleep_length(struct cil_query *query)
{
	query->sleep_length_ns = next_sleep_length_ns;
	query->delta_tick_ns = next_delta_tick_ns;
	asked++;
}

void cil_env_print(struct cil_sink *to, const char *format, ...)
{
	size_t room = TEXT_SIZE - to->length;
	va_list args;
	int wanted;

	va_start(args, format);
	wanted = vsnprintf(to->text + to->length, room, format, args);
	va_end(args);
	if (wanted > 0)
		to->length += (size_t)wanted < room ? (size_t)wanted : room - 1;
}
