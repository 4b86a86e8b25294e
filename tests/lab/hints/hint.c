// SPDX-License-Identifier: GPL-2.0
/*
 * Ask for a hint, or what it is, and say what the kernel answers.
 *
 *	hint WHO set WHAT	prints "ok" or the name of the error
 *	hint WHO get		prints WHAT or the name of the error
 *	hint WHAT run COMMAND	sets its own hint and becomes the command
 *	hint UID as COMMAND	becomes the command, run by another user
 *	hint UID effective COMMAND  likewise, but its real user stays
 *	hint NICE nice COMMAND	becomes the command, with another nice value
 *	hint COUNT repeat WHAT	sets its own hint so often, inherited and not in turn
 *	hint COUNT quiet WHAT [PID]  likewise, on CPU 0, or the hint of a process,
 *				each time one more; prints how many function-call
 *				interrupts CPU 1 had meanwhile
 *	hint COUNT fifo PID	sets the hint of a process so often, as SCHED_FIFO;
 *				prints how many ns a request took on average, the
 *				median, and the longest
 *	hint SIZE sized TAIL	sets its own value to 5 and reads it as a program
 *				does whose struct has SIZE bytes; those that this
 *				one does not know are TAIL
 *
 * WHO is self, the number of a process, thread:NUMBER, group:FOLDER, file:PATH.
 * WHAT is none, a value, or a limit such as 5000ns; 5k is kept whatever user the
 * task becomes, 5f is not inherited.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "call.h"

static int say_error(void)
{
	puts(strerrorname_np(errno));
	return 1;
}

static int open_target(const char *who)
{
	if (!strcmp(who, "self"))
		return CPUIDLE_LATENCY_SELF;
	if (!strncmp(who, "group:", 6))
		return open(who + 6, O_RDONLY | O_DIRECTORY);
	if (!strncmp(who, "file:", 5))
		return open(who + 5, O_RDONLY);
	if (!strncmp(who, "thread:", 7))
		return open_pidfd(atoi(who + 7), PIDFD_THREAD);
	return open_pidfd(atoi(who), 0);
}

static void parse(const char *what, struct cpuidle_latency *arg)
{
	char *end;
	long long number = strtoll(what, &end, 10);

	if (!strcmp(what, "none"))
		return;
	if (*end == 'k' || *end == 'f')
		arg->flags = *end++ == 'k' ? CPUIDLE_LATENCY_KEEP :
					    CPUIDLE_LATENCY_RESET_ON_FORK;
	arg->kind = *end ? CPUIDLE_LATENCY_LIMIT : CPUIDLE_LATENCY_VALUE;
	if (*end)
		arg->limit_ns = (unsigned long long)number;
	else
		arg->value = (int)number;
}

static int set(int device, int group, struct cpuidle_latency *arg,
	       const char *what)
{
	parse(what, arg);
	if (ioctl(device, group ? CPUIDLE_LATENCY_SET_GROUP :
				  CPUIDLE_LATENCY_SET_TASK, arg))
		return say_error();
	puts("ok");
	return 0;
}

static int get(int device, int group, struct cpuidle_latency *arg)
{
	if (ioctl(device, group ? CPUIDLE_LATENCY_GET_GROUP :
				  CPUIDLE_LATENCY_GET_TASK, arg))
		return say_error();
	if (arg->kind == CPUIDLE_LATENCY_NONE)
		puts("none");
	else if (arg->kind == CPUIDLE_LATENCY_VALUE)
		printf("%d\n", arg->value);
	else
		printf("%lluns\n", (unsigned long long)arg->limit_ns);
	return 0;
}

static int ask_often(int device, int fd, int count, const char *what)
{
	struct cpuidle_latency arg = { .fd = fd };

	parse(what, &arg);
	for (; count > 0; count--) {
		if (ioctl(device, CPUIDLE_LATENCY_SET_TASK, &arg))
			return say_error();
		if (arg.kind == CPUIDLE_LATENCY_NONE)
			continue;
		/* Each request is another one. */
		if (fd == CPUIDLE_LATENCY_SELF)
			arg.flags ^= CPUIDLE_LATENCY_RESET_ON_FORK;
		else if (arg.limit_ns)
			arg.limit_ns++;
		else
			arg.value++;
	}
	return 0;
}

static int repeat(int device, int count, const char *what)
{
	int ret = ask_often(device, CPUIDLE_LATENCY_SELF, count, what);

	if (!ret)
		puts("ok");
	return ret;
}

/* Function-call interrupts of CPU 1 so far, -1 if the kernel does not tell. */
static long calls_of_cpu1(void)
{
	FILE *file = fopen("/proc/interrupts", "r");
	char line[256];
	long calls = -1;

	while (file && fgets(line, sizeof(line), file))
		sscanf(line, " CAL: %*d %ld", &calls);
	if (file)
		fclose(file);
	return calls;
}

static int quiet(int device, int fd, int count, const char *what)
{
	cpu_set_t first;
	long before;

	CPU_ZERO(&first);
	CPU_SET(0, &first);
	if (sched_setaffinity(0, sizeof(first), &first))
		return say_error();
	/* The calls that the program itself causes are over. */
	usleep(100000);
	before = calls_of_cpu1();
	if (before < 0 || ask_often(device, fd, count, what))
		return 2;
	printf("%ld\n", calls_of_cpu1() - before);
	return 0;
}

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	const long long *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Sets the hint of a process so many times, with a priority above all but the kernel's. */
static int run_fifo(int device, int count, int fd)
{
	const struct sched_param param = { .sched_priority = 10 };
	long long *took = calloc((size_t)count, sizeof(*took));
	long long begin, sum = 0;
	int i;

	/* The first request is another one: the task has no hint yet. */
	if (!took || set_value(device, fd, -5) ||
	    sched_setscheduler(0, SCHED_FIFO, &param))
		return say_error();
	for (i = 0; i < count; i++) {
		begin = now_ns();
		if (set_value(device, fd, -5 - i % 2))
			return say_error();
		took[i] = now_ns() - begin;
		sum += took[i];
		/* Lets the others run, and so into the lock. */
		usleep(500);
	}
	qsort(took, (size_t)count, sizeof(*took), compare);
	printf("%lld %lld %lld\n", sum / count, took[count / 2], took[count - 1]);
	return 0;
}

static int call_sized(int device, unsigned int call, unsigned int size,
		      void *arg)
{
	return ioctl(device, _IOC(_IOC_DIR(call), _IOC_TYPE(call),
				  _IOC_NR(call), size), arg);
}

static int sized(int device, unsigned int size, int tail)
{
	union {
		struct cpuidle_latency known;
		unsigned char bytes[512];
	} arg;
	const struct cpuidle_latency wanted = {
		.fd = CPUIDLE_LATENCY_SELF,
		.kind = CPUIDLE_LATENCY_VALUE,
		.value = 5,
	};
	const struct cpuidle_latency asked = { .fd = CPUIDLE_LATENCY_SELF };

	memset(&arg, tail, sizeof(arg));
	arg.known = wanted;
	if (call_sized(device, CPUIDLE_LATENCY_SET_TASK, size, &arg))
		return say_error();
	arg.known = asked;
	if (call_sized(device, CPUIDLE_LATENCY_GET_TASK, size, &arg))
		return say_error();
	printf("%d\n", arg.known.value);
	return 0;
}

static int run(int device, const char *what, char **command)
{
	struct cpuidle_latency arg = { .fd = CPUIDLE_LATENCY_SELF };

	parse(what, &arg);
	if (ioctl(device, CPUIDLE_LATENCY_SET_TASK, &arg))
		return say_error();
	execvp(command[0], command);
	perror(command[0]);
	return 2;
}

static int run_as(const char *user, char **command)
{
	unsigned int id = (unsigned int)atoi(user);

	if (setgroups(0, NULL) || setgid(id) || setuid(id))
		return say_error();
	execvp(command[0], command);
	perror(command[0]);
	return 2;
}

static int run_as_effective(const char *user, char **command)
{
	if (seteuid((unsigned int)atoi(user)))
		return say_error();
	execvp(command[0], command);
	perror(command[0]);
	return 2;
}

static int run_nice(const char *nice, char **command)
{
	if (setpriority(PRIO_PROCESS, 0, atoi(nice)))
		return say_error();
	execvp(command[0], command);
	perror(command[0]);
	return 2;
}

int main(int argc, char **argv)
{
	struct cpuidle_latency arg = { 0 };
	int device;
	int group;

	if (argc >= 4 && !strcmp(argv[2], "as"))
		return run_as(argv[1], argv + 3);
	if (argc >= 4 && !strcmp(argv[2], "effective"))
		return run_as_effective(argv[1], argv + 3);
	if (argc >= 4 && !strcmp(argv[2], "nice"))
		return run_nice(argv[1], argv + 3);
	device = open_device();
	if (argc >= 4 && !strcmp(argv[2], "run"))
		return run(device, argv[1], argv + 3);
	if (argc == 4 && !strcmp(argv[2], "repeat"))
		return repeat(device, atoi(argv[1]), argv[3]);
	if (argc == 4 && !strcmp(argv[2], "quiet"))
		return quiet(device, CPUIDLE_LATENCY_SELF, atoi(argv[1]), argv[3]);
	if (argc == 5 && !strcmp(argv[2], "quiet")) {
		arg.fd = open_pidfd(atoi(argv[4]), 0);
		return arg.fd < 0 ? say_error() :
				    quiet(device, arg.fd, atoi(argv[1]), argv[3]);
	}
	if (argc == 4 && !strcmp(argv[2], "fifo"))
		return run_fifo(device, atoi(argv[1]), open_pidfd(atoi(argv[3]), 0));
	if (argc == 4 && !strcmp(argv[2], "sized"))
		return sized(device, (unsigned int)atoi(argv[1]), atoi(argv[3]));
	if (argc < 3 || argc != 3 + !strcmp(argv[2], "set"))
		return 2;
	group = !strncmp(argv[1], "group:", 6);
	arg.fd = open_target(argv[1]);
	if (arg.fd < 0 && strcmp(argv[1], "self"))
		return say_error();
	return argc == 4 ? set(device, group, &arg, argv[3]) :
			   get(device, group, &arg);
}
