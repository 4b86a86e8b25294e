// SPDX-License-Identifier: GPL-2.0
/*
 * switches - how many ns does a context switch take?
 *
 * Two processes pass a byte back and forth through pipes, on one CPU. Each round trip
 * is timed by itself; prints the median for one of its two switches, and how often
 * this process stopped running in a round trip. The first eighth is not counted.
 * With a second argument the other process first writes "0" there: a cgroup to join.
 * Both are SCHED_FIFO: what the fair class does at a switch depends on the past.
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static long switches(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_nvcsw + usage.ru_nivcsw;
}

/* Ends the process that finds the other one gone. */
static void pass(int from, int to)
{
	char byte = 0;

	if (read(from, &byte, 1) != 1 || write(to, &byte, 1) != 1)
		_exit(1);
}

static int compare(const void *a, const void *b)
{
	const long long *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void join(const char *procs)
{
	FILE *file = fopen(procs, "w");

	if (!file || fputs("0", file) < 0 || fclose(file))
		_exit(1);
}

/* The other process; it ends with this one. */
static void answer(int there[2], int back[2], const char *procs)
{
	close(there[1]);
	if (procs)
		join(procs);
	for (;;)
		pass(there[0], back[1]);
}

int main(int argc, char **argv)
{
	const long rounds = argc == 2 || argc == 3 ? strtol(argv[1], NULL, 10) : 0;
	const long warm = rounds / 8;
	const struct sched_param param = { .sched_priority = 1 };
	long long *took;
	long long before;
	long count = 0;
	int there[2];
	int back[2];
	long i;

	if (rounds < 8 || pipe(there) || pipe(back) ||
	    sched_setscheduler(0, SCHED_FIFO, &param))
		return 2;
	took = calloc((size_t)(rounds + warm), sizeof(*took));
	if (!took)
		return 2;
	if (!fork())
		answer(there, back, argc == 3 ? argv[2] : NULL);
	if (write(back[1], "", 1) != 1)
		return 1;
	for (i = 0; i < rounds + warm; i++) {
		if (i == warm)
			count = switches();
		before = now_ns();
		pass(back[0], there[1]);
		took[i] = now_ns() - before;
	}
	count = switches() - count;
	qsort(took + warm, (size_t)rounds, sizeof(*took), compare);
	printf("%.1f %.3f\n", (double)took[warm + rounds / 2] / 2,
	       (double)count / (double)rounds);
	return 0;
}
