// SPDX-License-Identifier: GPL-2.0
/*
 * Wakes CPUs up and measures how late they are, for cpuidle-lab calibrate.
 *
 *	calibrate-wake latency timer|ipi CPU OTHER AWAKE PERIOD_US COUNT
 *	calibrate-wake load PERIOD_US MILLISECONDS CPU...
 *
 * latency prints COUNT times in ns, one a line: how long after its due time (timer), or after the
 * wake-up by a thread on OTHER (ipi), a thread on CPU runs again. With AWAKE 1 a thread keeps OTHER
 * from sleeping meanwhile. load wakes each CPU every PERIOD_US for a while; 0: it never sleeps. It
 * prints how the hardware's residency counters grew, as residency.c has it.
 *
 * Exit codes: 0 done, 1 the system refuses, 2 wrong usage.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>
#include "residency.h"

#define NSEC_PER_SEC	1000000000LL
#define NSEC_PER_USEC	1000LL
#define NSEC_PER_MSEC	1000000LL
#define COUNT_MAX	100000

static atomic_bool done;
static atomic_llong sent_ns;
static atomic_int received;

static void fail(const char *what)
{
	fprintf(stderr, "calibrate-wake: %s: %s\n", what, strerror(errno));
	exit(1);
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NSEC_PER_SEC + t.tv_nsec;
}

static void sleep_until(int64_t when_ns)
{
	struct timespec t = { when_ns / NSEC_PER_SEC, when_ns % NSEC_PER_SEC };

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
		;
}

/* Before other threads of its CPU, and nowhere else. */
static void stay_on(int cpu, int priority)
{
	struct sched_param param = { .sched_priority = priority };
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	errno = pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
	if (errno)
		fail("cannot run on the CPU");
	errno = pthread_setschedparam(pthread_self(), priority ? SCHED_FIFO : SCHED_OTHER, &param);
	if (errno)
		fail("cannot use SCHED_FIFO");
}

/**
 * struct job - what a thread does
 * @cpu: where it runs
 * @count: how often; 0: until done
 * @event: eventfd of an IPI
 * @period_ns: time between two wake-ups
 * @start_ns: first wake-up
 */
struct job {
	int cpu;
	int count;
	int event;
	int64_t period_ns;
	int64_t start_ns;
};

/* Wake-ups are spread over a quarter of the period, or they would keep in step with the tick. */
static int64_t due(const struct job *job, int i)
{
	return job->start_ns + i * job->period_ns + i * 7919LL % 1000 * job->period_ns / 4000;
}

static void *spin(void *data)
{
	const struct job *job = data;

	stay_on(job->cpu, 0);
	while (!atomic_load(&done))
		;
	return NULL;
}

static void *send_wakeups(void *data)
{
	const struct job *job = data;
	uint64_t one = 1;
	int tick = 0;
	int i;

	stay_on(job->cpu, 20);
	for (i = 0; i < job->count; i++) {
		/* An eventfd would make one wake-up of two: skip a turn while the last is under way. */
		do
			sleep_until(due(job, tick++));
		while (atomic_load(&received) < i);
		atomic_store(&sent_ns, now_ns());
		if (write(job->event, &one, sizeof(one)) != sizeof(one))
			fail("cannot wake the other CPU");
	}
	return NULL;
}

static void *wake_now_and_then(void *data)
{
	const struct job *job = data;
	int64_t due_ns = job->start_ns;

	stay_on(job->cpu, 10);
	while (!atomic_load(&done)) {
		sleep_until(due_ns);
		due_ns += job->period_ns;
	}
	return NULL;
}

static long number(const char *text, long least, long most)
{
	char *end;
	long value;

	errno = 0;
	value = strtol(text, &end, 10);
	if (errno || end == text || *end || value < least || value > most) {
		fprintf(stderr, "calibrate-wake: '%s' is no number from %ld to %ld\n", text, least,
			most);
		exit(2);
	}
	return value;
}

static void start(pthread_t *thread, void *(*run)(void *), struct job *job)
{
	errno = pthread_create(thread, NULL, run, job);
	if (errno)
		fail("cannot start a thread");
}

static int latency(char **argv)
{
	bool is_ipi = !strcmp(argv[0], "ipi");
	struct job job = { .cpu = number(argv[1], 0, CPU_SETSIZE - 1) };
	struct job other = { .cpu = number(argv[2], 0, CPU_SETSIZE - 1) };
	bool is_awake = number(argv[3], 0, 1);
	pthread_t sender, keeper;
	int64_t *late_ns;
	uint64_t value;
	int i;

	job.period_ns = number(argv[4], 1, 10000000) * NSEC_PER_USEC;
	job.count = number(argv[5], 1, COUNT_MAX);
	late_ns = calloc(job.count, sizeof(*late_ns));
	job.event = eventfd(0, 0);
	if (!late_ns || job.event < 0)
		fail("cannot begin");
	other.event = job.event;
	other.count = job.count;
	other.period_ns = job.period_ns;
	job.start_ns = now_ns() + 50 * NSEC_PER_MSEC;
	other.start_ns = job.start_ns;
	stay_on(job.cpu, 30);
	if (is_awake)
		start(&keeper, spin, &other);
	if (is_ipi)
		start(&sender, send_wakeups, &other);
	for (i = 0; i < job.count; i++) {
		int64_t due_ns = due(&job, i);

		if (is_ipi) {
			if (read(job.event, &value, sizeof(value)) != sizeof(value))
				fail("cannot wait");
			late_ns[i] = now_ns() - atomic_load(&sent_ns);
			atomic_store(&received, i + 1);
		} else {
			sleep_until(due_ns);
			late_ns[i] = now_ns() - due_ns;
		}
	}
	atomic_store(&done, true);
	if (is_ipi)
		pthread_join(sender, NULL);
	if (is_awake)
		pthread_join(keeper, NULL);
	for (i = 0; i < job.count; i++)
		printf("%" PRId64 "\n", late_ns[i]);
	return ferror(stdout) || fflush(stdout);
}

static int load(int count, char **argv)
{
	int64_t period_ns = number(argv[0], 0, 100000000) * NSEC_PER_USEC;
	int64_t end_ns = now_ns() + number(argv[1], 1, 3600000) * NSEC_PER_MSEC;
	struct job *jobs = calloc(count, sizeof(*jobs));
	pthread_t *threads = calloc(count, sizeof(*threads));
	int i;

	if (!jobs || !threads)
		fail("cannot begin");
	residency_open();
	for (i = 0; i < count - 2; i++) {
		jobs[i].cpu = number(argv[2 + i], 0, CPU_SETSIZE - 1);
		jobs[i].period_ns = period_ns;
		jobs[i].start_ns = now_ns() + (i + 1) * period_ns / count;
		start(&threads[i], period_ns ? wake_now_and_then : spin, &jobs[i]);
	}
	sleep_until(end_ns);
	residency_print();
	atomic_store(&done, true);
	for (i = 0; i < count - 2; i++)
		pthread_join(threads[i], NULL);
	return ferror(stdout) || fflush(stdout);
}

int main(int argc, char **argv)
{
	/* A calibration that was killed must not leave its load behind. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (argc == 8 && !strcmp(argv[1], "latency") &&
	    (!strcmp(argv[2], "timer") || !strcmp(argv[2], "ipi"))) {
		if (mlockall(MCL_CURRENT | MCL_FUTURE))
			fail("cannot lock its memory");
		return latency(argv + 2);
	}
	if (argc >= 5 && !strcmp(argv[1], "load"))
		return load(argc - 2, argv + 2);
	fputs("usage: calibrate-wake latency timer|ipi CPU OTHER AWAKE PERIOD_US COUNT\n"
	      "       calibrate-wake load PERIOD_US MILLISECONDS CPU...\n", stderr);
	return 2;
}
