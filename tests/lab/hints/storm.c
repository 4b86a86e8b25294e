// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks with hints that appear, move and die in great numbers.
 *
 *	storm crowd N	N children that inherit and sleep; says "ready", and at
 *			the first byte on its input kills them in random order,
 *			a new one being born for each until they are gone
 *	storm race N	N children, each given a hint in the moment that it dies
 *	storm exec WHO	a process of two threads, of which the second becomes
 *			`sleep 1000`; WHO of them (leader, other) has the hint
 *	storm threads N	a process of N threads that sleep; says "ready"
 *
 * Children share the memory of their parent, so there is room for many.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "call.h"

#define STACK	4096

static int device;
static unsigned long long state = 1;

static unsigned int draw(void)
{
	state = state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned int)(state >> 33);
}

static void end_badly(const char *what)
{
	perror(what);
	exit(2);
}

static int sleeps(void *unused)
{
	(void)unused;
	for (;;)
		syscall(SYS_pause);
	return 0;
}

static int dies(void *unused)
{
	(void)unused;
	syscall(SYS_exit, 0);
	return 0;
}

static int child(int (*what)(void *), char *stack)
{
	int pid = clone(what, stack + STACK, CLONE_VM | CLONE_FS | CLONE_FILES |
			SIGCHLD, NULL);

	if (pid < 0)
		end_badly("clone");
	return pid;
}

static int crowd(int count)
{
	int *pids = calloc((size_t)count, sizeof(*pids));
	char *stacks = calloc((size_t)count, STACK);
	static char spare[STACK];
	char byte;
	int i;

	if (!pids || !stacks)
		end_badly("calloc");
	for (i = 0; i < count; i++)
		pids[i] = child(sleeps, stacks + (size_t)i * STACK);
	puts("ready");
	fflush(stdout);
	if (read(0, &byte, 1) < 0)
		end_badly("read");
	for (; count; count--) {
		int born = child(dies, spare);

		i = (int)(draw() % (unsigned int)count);
		kill(pids[i], SIGKILL);
		waitpid(pids[i], NULL, 0);
		pids[i] = pids[count - 1];
		waitpid(born, NULL, 0);
	}
	return 0;
}

static int waits_a_little(void *how_long)
{
	volatile unsigned int n = *(unsigned int *)how_long;

	while (n)
		n--;
	syscall(SYS_exit, 0);
	return 0;
}

static int race(int count)
{
	static char stack[STACK];
	int refused = 0;
	int lost = 0;
	int set = 0;

	while (count--) {
		unsigned int wait = draw() % 20000;
		unsigned int mine = draw() % 20000;
		int pid = clone(waits_a_little, stack + STACK,
				CLONE_VM | SIGCHLD, &wait);
		int fd = open_pidfd(pid, 0);

		while (mine--)
			__asm__ volatile("" ::: "memory");
		if (!set_value(device, fd, -(int)(draw() % 20) - 1))
			set++;
		else if (errno == ESRCH)
			lost++;
		else
			refused++;
		close(fd);
		waitpid(pid, NULL, 0);
	}
	printf("set=%d too late=%d refused=%d\n", set, lost, refused);
	return refused != 0;
}

static void *becomes_sleep(void *hinted)
{
	char *const command[] = { "sleep", "1000", NULL };

	if (hinted && set_value(device, CPUIDLE_LATENCY_SELF, -7))
		end_badly("set");
	execvp(command[0], command);
	end_badly(command[0]);
	return NULL;
}

static int exec_by_other(const char *who)
{
	pthread_t thread;
	int leader = !strcmp(who, "leader");

	/* Before the other one has a hint, lest it inherits. */
	if (pthread_create(&thread, NULL, becomes_sleep, leader ? NULL : &leader))
		return 2;
	if (leader && set_value(device, CPUIDLE_LATENCY_SELF, -7))
		return 2;
	return sleeps(NULL);
}

static void *thread_sleeps(void *unused)
{
	sleeps(unused);
	return NULL;
}

static int threads(int count)
{
	pthread_attr_t small;
	pthread_t thread;

	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 16384);
	while (--count)
		if (pthread_create(&thread, &small, thread_sleeps, NULL))
			return 2;
	puts("ready");
	fflush(stdout);
	return sleeps(NULL);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	device = open_device();
	if (!strcmp(argv[1], "crowd"))
		return crowd(atoi(argv[2]));
	if (!strcmp(argv[1], "race"))
		return race(atoi(argv[2]));
	if (!strcmp(argv[1], "exec"))
		return exec_by_other(argv[2]);
	if (!strcmp(argv[1], "threads"))
		return threads(atoi(argv[2]));
	return 2;
}
