// SPDX-License-Identifier: GPL-2.0
/*
 * Prints the frequency of this machine's time-stamp counter in kHz, 0 if it has
 * none. Runs on the host.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#define WAIT_NS		100000000
#define TRIES		20

#if defined(__x86_64__) || defined(__i386__)
#include <x86intrin.h>

struct instant {
	uint64_t ns;
	uint64_t ticks;
};

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC_RAW, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Both clocks at one instant: of several readings the quickest, which nothing interrupted. */
static struct instant look(void)
{
	struct instant best = { 0 };
	uint64_t shortest = UINT64_MAX;
	int n;

	for (n = 0; n < TRIES; n++) {
		uint64_t before = __rdtsc();
		uint64_t ns = clock_ns();
		uint64_t took = __rdtsc() - before;

		if (took < shortest) {
			shortest = took;
			best.ns = ns;
			best.ticks = before + took / 2;
		}
	}
	return best;
}

static uint64_t khz(void)
{
	const struct timespec wait = { .tv_nsec = WAIT_NS };
	struct instant begin = look();
	struct instant end;

	nanosleep(&wait, NULL);
	end = look();
	return (end.ticks - begin.ticks) * 1000000 / (end.ns - begin.ns);
}
#else
static uint64_t khz(void)
{
	return 0;
}
#endif

int main(void)
{
	printf("%llu\n", (unsigned long long)khz());
	return 0;
}
