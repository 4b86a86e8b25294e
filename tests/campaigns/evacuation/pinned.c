// SPDX-License-Identifier: GPL-2.0
/*
 * Works on one CPU and prints how much of it this task had: a line for each
 * second, with the times in ns in which the task ran, in which it did not, and in
 * which the CPU was held.
 *
 *	pinned CPU FILE OUTPUT		FILE: the holders' counts
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SECOND_NS	1000000000ULL

struct counts {
	unsigned long long at_ns;
	unsigned long long run_ns;
	unsigned long long held_ns;
};

static unsigned long long read_clock(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * SECOND_NS + time.tv_nsec;
}

static void read_counts(struct counts *counts, int cpu, const char *path)
{
	FILE *file = fopen(path, "r");
	char line[512], name[16];
	char *held;

	counts->at_ns = read_clock(CLOCK_MONOTONIC);
	counts->run_ns = read_clock(CLOCK_PROCESS_CPUTIME_ID);
	snprintf(name, sizeof(name), "cpu%d:", cpu);
	while (file && fgets(line, sizeof(line), file)) {
		held = strstr(line, "held_ns=");
		if (!strncmp(line, name, strlen(name)) && held)
			counts->held_ns = strtoull(held + strlen("held_ns="), NULL, 10);
	}
	if (file)
		fclose(file);
}

int main(int argc, char **argv)
{
	struct counts before = { 0 }, after = { 0 };
	unsigned long long end_ns, run_ns;
	cpu_set_t set;
	FILE *output;
	int cpu;

	if (argc != 4)
		return 2;
	cpu = atoi(argv[1]);
	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	output = fopen(argv[3], "w");
	if (!output || sched_setaffinity(0, sizeof(set), &set))
		return 1;
	read_counts(&before, cpu, argv[2]);
	for (;;) {
		end_ns = before.at_ns + SECOND_NS;
		while (read_clock(CLOCK_MONOTONIC) < end_ns)
			;
		read_counts(&after, cpu, argv[2]);
		run_ns = after.run_ns - before.run_ns;
		fprintf(output, "%llu %llu %llu\n", run_ns,
			after.at_ns - before.at_ns - run_ns, after.held_ns - before.held_ns);
		fflush(output);
		before = after;
	}
}
