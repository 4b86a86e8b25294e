// SPDX-License-Identifier: GPL-2.0
/*
 * sleepers - a process with a given number of threads besides its first, all
 * asleep until it is killed
 */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *sleep_for_ever(void *unused)
{
	for (;;)
		pause();
	return unused;
}

int main(int argc, char **argv)
{
	long count = argc == 2 ? strtol(argv[1], NULL, 10) : 0;
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
	for (; count > 0; count--) {
		if (pthread_create(&thread, &attributes, sleep_for_ever, NULL)) {
			fprintf(stderr, "sleepers: cannot make %ld more threads\n", count);
			return 1;
		}
	}
	sleep_for_ever(NULL);
	return 0;
}
