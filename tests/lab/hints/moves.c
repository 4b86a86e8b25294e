// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks that move between groups while they are switched.
 *
 *	moves ring FOLDER...	a process in each group; they run in turn, each woken
 *				by the one before, until one of them gets SIGUSR1.
 *				Prints their numbers
 *	moves PID SECONDS FOLDER FOLDER  moves a process from group to group as
 *				often as it can; says how often. It ends in the
 *				second one
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int is_over(double seconds)
{
	static double start;
	struct timespec time;
	double now;

	clock_gettime(CLOCK_MONOTONIC, &time);
	now = (double)time.tv_sec + (double)time.tv_nsec / 1e9;
	if (start == 0)
		start = now;
	return now - start >= seconds;
}

static int procs_of(const char *folder)
{
	char path[256];

	snprintf(path, sizeof(path), "%s/cgroup.procs", folder);
	return open(path, O_WRONLY);
}

static volatile sig_atomic_t tired;

static void rest(int unused)
{
	(void)unused;
	tired = 1;
}

/* Wakes the next one each time that it is woken; keeps the byte when it is tired. */
static _Noreturn void take_turns(int from, int to)
{
	char byte;

	signal(SIGUSR1, rest);
	for (;;)
		if (read(from, &byte, 1) == 1 && !tired && write(to, &byte, 1) != 1)
			exit(1);
}

static int ring(int count, char **folders)
{
	int (*pipes)[2] = calloc((size_t)count, sizeof(*pipes));
	int i;

	for (i = 0; i < count; i++)
		if (pipe(pipes[i]))
			return 1;
	for (i = 0; i < count; i++) {
		int pid = fork();

		if (!pid) {
			if (write(procs_of(folders[i]), "0", 1) != 1)
				exit(1);
			take_turns(pipes[i][0], pipes[(i + 1) % count][1]);
		}
		printf("%d ", pid);
	}
	puts("");
	fflush(stdout);
	return write(pipes[0][1], "", 1) != 1;
}

static int move(const char *pid, double seconds, char **folders)
{
	int procs[] = { procs_of(folders[0]), procs_of(folders[1]) };
	unsigned long count = 0;

	do {
		if (write(procs[count % 2], pid, strlen(pid)) < 0) {
			perror("write");
			return 1;
		}
		count++;
	} while (count % 2 || !is_over(seconds));
	printf("%lu\n", count);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "ring"))
		return ring(argc - 2, argv + 2);
	if (argc == 5)
		return move(argv[1], atof(argv[2]), argv + 3);
	return 2;
}
