// SPDX-License-Identifier: GPL-2.0
/*
 * records - threads that search records, as the benchmark ebizzy does
 *
 *   records -t THREADS -S SECONDS [-w WORK_US] [-p PAUSE_US] [-c CPU]
 *
 * Each thread takes WORK_US of a CPU for a record and begins the next one. The
 * work is that of the emulated machine, which takes time instead of
 * instructions, so the throughput of several CPUs can be measured in virtual
 * time. Prints the number of records, and the time from the first one to the
 * last, in ns.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX	256
#define WORK_FILE	"/sys/kernel/debug/cpuidle_emul/work"

static unsigned long threads = 8, seconds = 1, work_us = 1000, pause_us, on_cpu = -1UL;
static atomic_ulong records;
static char text[32];
static uint64_t end_ns;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void *search(void *unused)
{
	int file = open(WORK_FILE, O_WRONLY);
	size_t size = strlen(text);

	if (file < 0)
		die(WORK_FILE);
	while (now_ns() < end_ns) {
		if (write(file, text, size) != (ssize_t)size)
			die("work");
		atomic_fetch_add(&records, 1);
		if (pause_us)
			usleep(pause_us);
	}
	return unused;
}

static void pin(void)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(on_cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		die("sched_setaffinity");
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS_MAX];
	uint64_t start_ns;
	unsigned long i;
	int letter;

	while ((letter = getopt(argc, argv, "t:S:w:p:c:")) != -1) {
		unsigned long *number = letter == 't' ? &threads : letter == 'S' ? &seconds :
					letter == 'w' ? &work_us : letter == 'p' ? &pause_us :
					letter == 'c' ? &on_cpu : NULL;

		if (!number)
			return 2;
		*number = strtoul(optarg, NULL, 10);
	}
	if (!threads || threads > THREADS_MAX || !seconds || !work_us)
		return 2;
	if (on_cpu != -1UL)
		pin();
	snprintf(text, sizeof(text), "%lu", work_us);
	start_ns = now_ns();
	end_ns = start_ns + seconds * 1000000000;
	for (i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, search, NULL))
			die("pthread_create");
	for (i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	printf("%lu %llu\n", atomic_load(&records),
	       (unsigned long long)(now_ns() - start_ns));
	return 0;
}
