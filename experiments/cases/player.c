// SPDX-License-Identifier: GPL-2.0
/*
 * player - makes the intervals of a case happen on a CPU
 *
 * player FILE SKIP TEXT: each line of the file has three times in ns. A thread
 * on CPU 1 sleeps until a thread on CPU 0 wakes it after the first time, or
 * until its own timer after the second one. Then it computes for the third one.
 * 0 is a time that never comes. Both times count from the call to sleep. The
 * text goes into the kernel's trace after SKIP lines, "phase end" after all.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S	1000000000ULL
#define SLEEPER_CPU	1
#define WAKER_CPU	0
#define MARKER		"/sys/kernel/tracing/trace_marker"

/**
 * struct interval - what is to happen
 * @wake_ns: until the other CPU wakes the sleeper; 0: it does not
 * @timer_ns: until the sleeper's timer; 0: it has none
 * @busy_ns: work after the sleep
 */
struct interval {
	uint64_t wake_ns, timer_ns, busy_ns;
};

static struct interval *intervals;
static size_t count;

/* The number of intervals that were asked for, and of those whose wake-up came. */
static atomic_uint asked, woken;
/* The waker is on its CPU. */
static atomic_uint ready;
static uint64_t wake_at_ns;

static void die(const char *what)
{
	fprintf(stderr, "player: %s\n", what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static struct timespec at(uint64_t ns)
{
	return (struct timespec){
		.tv_sec = (time_t)(ns / NS_PER_S),
		.tv_nsec = (long)(ns % NS_PER_S),
	};
}

static void sleep_until(uint64_t ns)
{
	const struct timespec end = at(ns);

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}

/* Waits while *word is value, until a time that 0 says never comes. */
static void wait_at(atomic_uint *word, unsigned int value, uint64_t end_ns)
{
	const struct timespec end = at(end_ns);

	syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, value,
		end_ns ? &end : NULL, NULL, FUTEX_BITSET_MATCH_ANY);
}

static void store_and_wake(atomic_uint *word, unsigned int value)
{
	atomic_store(word, value);
	syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, 1, NULL, NULL, 0);
}

static void stay_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("the machine lacks a CPU");
	/* Timers of other programs shall not decide when ours expire. */
	prctl(PR_SET_TIMERSLACK, 1);
}

static void *wake(void *unused)
{
	unsigned int seen = 0, now;

	(void)unused;
	stay_on(WAKER_CPU);
	store_and_wake(&ready, 1);
	for (;;) {
		while ((now = atomic_load(&asked)) == seen)
			wait_at(&asked, seen, 0);
		seen = now;
		sleep_until(wake_at_ns);
		store_and_wake(&woken, seen);
	}
	return NULL;
}

static void sleep_through(const struct interval *one, unsigned int number)
{
	const uint64_t begin = now_ns();
	uint64_t end = one->timer_ns ? begin + one->timer_ns : 0;
	const unsigned int before = number - 1;

	if (!one->wake_ns) {
		sleep_until(end);
		atomic_store(&woken, number);
		return;
	}
	wake_at_ns = begin + one->wake_ns;
	store_and_wake(&asked, number);
	while (atomic_load(&woken) == before) {
		wait_at(&woken, before, end);
		/* A timer that came before a late wake-up has passed. */
		end = 0;
	}
}

static void mark(const char *text)
{
	int file = open(MARKER, O_WRONLY | O_CLOEXEC);

	if (file < 0 || write(file, text, strlen(text)) < 0)
		die("the kernel's trace cannot be marked");
	close(file);
}

static void play(unsigned long skip, const char *text)
{
	uint64_t end;
	size_t i;

	stay_on(SLEEPER_CPU);
	while (!atomic_load(&ready))
		wait_at(&ready, 0, 0);
	for (i = 0; i < count; i++) {
		if (i == skip)
			mark(text);
		sleep_through(&intervals[i], (unsigned int)i + 1);
		end = now_ns() + intervals[i].busy_ns;
		while (now_ns() < end)
			;
	}
	mark("phase end");
}

static void read_intervals(const char *path)
{
	FILE *file = fopen(path, "r");
	struct interval one;
	size_t room = 0;
	int found;

	if (!file)
		die("no such file");
	while ((found = fscanf(file, "%" SCNu64 " %" SCNu64 " %" SCNu64,
			       &one.wake_ns, &one.timer_ns, &one.busy_ns)) == 3) {
		if (!one.wake_ns && !one.timer_ns)
			die("an interval has no end");
		/* A timer that comes first is the end. */
		if (one.timer_ns && one.timer_ns <= one.wake_ns)
			one.wake_ns = 0;
		if (count == room) {
			room = room ? 2 * room : 1024;
			intervals = realloc(intervals, room * sizeof(one));
			if (!intervals)
				die("no memory");
		}
		intervals[count++] = one;
	}
	if (found != EOF || !count)
		die("the file has a line without three numbers, or none");
	fclose(file);
}

int main(int argc, char **argv)
{
	pthread_t waker;
	unsigned long skip;
	char *end;

	if (argc != 4) {
		fputs("usage: player FILE SKIP TEXT\n", stderr);
		return 2;
	}
	read_intervals(argv[1]);
	skip = strtoul(argv[2], &end, 10);
	if (end == argv[2] || *end || skip >= count)
		die("SKIP is no number below that of the lines");
	if (pthread_create(&waker, NULL, wake, NULL))
		die("cannot make a thread");
	play(skip, argv[3]);
	return 0;
}
