// SPDX-License-Identifier: GPL-2.0
/*
 * talk - a request and an answer between two CPUs, again and again
 *
 *   talk RESTS ROUNDS
 *
 * CPU 0 asks by a pipe, CPU 1 works and answers by another. Before each of the
 * first RESTS requests CPU 0 sleeps for 3 ms, so that both know deep sleep.
 * ROUNDS requests follow without a rest.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define REST_US		3000
/* Turns of a loop; in virtual time one takes 2 ns. */
#define ASK_TURNS	1000
#define ANSWER_TURNS	4000

static int request[2], answer[2];
static long rounds;

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void stay_on(size_t cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		die("affinity");
}

static void work(unsigned long turns)
{
	asm volatile("1:\tdec %0\n\tjnz 1b" : "+r"(turns) : : "cc");
}

static void pass(int to, int from)
{
	char byte = 0;

	if (to >= 0 && write(to, &byte, 1) != 1)
		die("write");
	if (from >= 0 && read(from, &byte, 1) != 1)
		die("read");
}

static void *serve(void *unused)
{
	long i;

	stay_on(1);
	for (i = 0; i < rounds; i++) {
		pass(-1, request[0]);
		work(ANSWER_TURNS);
		pass(answer[1], -1);
	}
	return unused;
}

int main(int argc, char **argv)
{
	long i, rests;
	pthread_t server;

	if (argc != 3)
		return 2;
	rests = strtol(argv[1], NULL, 10);
	rounds = rests + strtol(argv[2], NULL, 10);
	stay_on(0);
	if (pipe(request) || pipe(answer) || pthread_create(&server, NULL, serve, NULL))
		die("start");
	for (i = 0; i < rounds; i++) {
		if (i < rests)
			usleep(REST_US);
		work(ASK_TURNS);
		pass(request[1], answer[0]);
	}
	return 0;
}
