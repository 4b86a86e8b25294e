// SPDX-License-Identifier: GPL-2.0
/*
 * Works on one CPU and prints how much of it this task had: a line for each
 * second, with the times in ns in which the task ran, in which it waited, and in
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
	unsigned long long run_ns;
	unsigned long long wait_ns;
	unsigned long long held_ns;
};

static unsigned long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

static void read_counts(struct counts *counts, int cpu, const char *path)
{
	FILE *file = fopen("/proc/self/schedstat", "r");
	char line[512], name[16];
	char *held;

	if (!file || fscanf(file, "%llu %llu", &counts->run_ns, &counts->wait_ns) != 2)
		exit(1);
	fclose(file);
	snprintf(name, sizeof(name), "cpu%d:", cpu);
	file = fopen(path, "r");
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
	unsigned long long end_ns;
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
		end_ns = now_ns() + SECOND_NS;
		while (now_ns() < end_ns)
			;
		read_counts(&after, cpu, argv[2]);
		fprintf(output, "%llu %llu %llu\n", after.run_ns - before.run_ns,
			after.wait_ns - before.wait_ns, after.held_ns - before.held_ns);
		fflush(output);
		before = after;
	}
}
