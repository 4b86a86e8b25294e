// SPDX-License-Identifier: GPL-2.0
/*
 * wakebench - how long does a thread wait for a CPU after it was woken?
 *
 * Messenger threads sleep, then wake each of their workers that waits; a
 * worker takes the time since its messenger woke up, computes for a while and
 * waits again. That is the pattern, and these are the parameters, by which
 * schbench looks at a scheduler. As there, a sleep is up to a quarter longer
 * than asked for. A generator with a seed draws it, so every run is the same.
 * With -w the worker's time is work of the emulated machine: several busy CPUs
 * then do not slow each other in virtual time.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX	1024
#define NS_PER_US	1000ULL
#define NS_PER_S	1000000000ULL
#define WORK_FILE	"/sys/kernel/debug/cpuidle_emul/work"

enum { WORKING, WAITING, CALLED };

/**
 * struct worker - a thread that is woken
 * @state: one of the above; the word that it waits at
 * @called_ns: when its messenger began to call
 * @taken_ns: latencies seen
 * @count: number of latencies
 * @room: latencies that fit
 */
struct worker {
	atomic_uint state;
	uint64_t called_ns;
	uint64_t *taken_ns;
	size_t count;
	size_t room;
};

/**
 * struct messenger - a thread that wakes
 * @workers: the first of its workers
 * @random: state of its generator, not 0
 */
struct messenger {
	struct worker *workers;
	uint64_t random;
};

static struct {
	unsigned long messengers, workers, sleep_us, compute_us, seconds, seed;
} config = {
	.messengers = 2, .workers = 1, .sleep_us = 30000, .compute_us = 100,
	.seconds = 10, .seed = 1,
};

static struct worker workers[THREADS_MAX];
static struct messenger messengers[THREADS_MAX];
static uint64_t end_ns;
static atomic_bool stopping;
static int work_file = -1;

static void die(const char *what)
{
	fprintf(stderr, "wakebench: %s\n", what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void futex(atomic_uint *word, int what, unsigned int value)
{
	syscall(SYS_futex, word, what | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

static void sleep_us(uint64_t us)
{
	const struct timespec time = {
		.tv_sec = (time_t)(us / 1000000),
		.tv_nsec = (long)(us % 1000000 * NS_PER_US),
	};

	nanosleep(&time, NULL);
}

/* Marsaglia's xorshift. */
static uint64_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static void note(struct worker *worker, uint64_t latency_ns)
{
	if (worker->count == worker->room) {
		worker->room = worker->room ? 2 * worker->room : 1024;
		worker->taken_ns = realloc(worker->taken_ns,
					   worker->room * sizeof(*worker->taken_ns));
		if (!worker->taken_ns)
			die("no memory");
	}
	worker->taken_ns[worker->count++] = latency_ns;
}

static void compute(uint64_t now)
{
	const uint64_t done_ns = now + config.compute_us * NS_PER_US;
	char text[24];
	int size = snprintf(text, sizeof(text), "%lu", config.compute_us);

	/* write() would hold the position of the file, which all workers share. */
	if (work_file >= 0 && config.compute_us) {
		if (pwrite(work_file, text, (size_t)size, 0) != size)
			die("the emulated machine does no work");
		return;
	}
	while (now_ns() < done_ns)
		;
}

static void *work(void *argument)
{
	struct worker *worker = argument;
	uint64_t now;

	while (!atomic_load(&stopping)) {
		atomic_store(&worker->state, WAITING);
		while (atomic_load(&worker->state) == WAITING &&
		       !atomic_load(&stopping))
			futex(&worker->state, FUTEX_WAIT, WAITING);
		if (atomic_load(&stopping))
			break;
		now = now_ns();
		note(worker, now - worker->called_ns);
		compute(now);
	}
	return NULL;
}

/* Only its messenger calls a worker: one that waits goes on waiting until then. */
static void wake(struct worker *worker, uint64_t now)
{
	if (atomic_load(&worker->state) != WAITING)
		return;
	worker->called_ns = now;
	atomic_store(&worker->state, CALLED);
	futex(&worker->state, FUTEX_WAKE, 1);
}

static void *message(void *argument)
{
	struct messenger *messenger = argument;
	uint64_t now;
	unsigned long i;

	/* Timers of other programs shall not decide when ours expire. */
	prctl(PR_SET_TIMERSLACK, 1);
	while (now_ns() < end_ns) {
		sleep_us(config.sleep_us +
			 draw(&messenger->random) % (config.sleep_us / 4 + 1));
		now = now_ns();
		for (i = 0; i < config.workers; i++)
			wake(&messenger->workers[i], now);
	}
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* All latencies in ns, one a line, smallest first. */
static void print_all(unsigned long count)
{
	struct worker all = { 0 };
	unsigned long i;
	size_t k;

	for (i = 0; i < count; i++)
		for (k = 0; k < workers[i].count; k++)
			note(&all, workers[i].taken_ns[k]);
	if (!all.count)
		die("no thread was woken");
	qsort(all.taken_ns, all.count, sizeof(*all.taken_ns), compare);
	for (k = 0; k < all.count; k++)
		printf("%llu\n", (unsigned long long)all.taken_ns[k]);
}

static void start(pthread_t *thread, void *(*function)(void *), void *argument)
{
	if (pthread_create(thread, NULL, function, argument))
		die("cannot make a thread");
}

/* The first thread is a messenger: all that are woken belong to the pattern. */
static void run(void)
{
	const unsigned long total = config.messengers * config.workers;
	pthread_t waking[THREADS_MAX], woken[THREADS_MAX];
	unsigned long i;

	end_ns = now_ns() + config.seconds * NS_PER_S;
	for (i = 0; i < total; i++)
		start(&woken[i], work, &workers[i]);
	for (i = 0; i < config.messengers; i++) {
		messengers[i].workers = &workers[i * config.workers];
		messengers[i].random = (config.seed + i) * 0x9e3779b97f4a7c15ULL | 1;
		if (i)
			start(&waking[i], message, &messengers[i]);
	}
	message(&messengers[0]);
	for (i = 1; i < config.messengers; i++)
		pthread_join(waking[i], NULL);
	atomic_store(&stopping, true);
	for (i = 0; i < total; i++) {
		atomic_store(&workers[i].state, CALLED);
		futex(&workers[i].state, FUTEX_WAKE, 1);
		pthread_join(woken[i], NULL);
	}
	print_all(total);
}

static void parse(int argc, char **argv)
{
	static const struct {
		char letter;
		unsigned long *number;
		unsigned long least;
	} options[] = {
		{ 'm', &config.messengers, 1 }, { 't', &config.workers, 1 },
		{ 's', &config.sleep_us, 1 }, { 'c', &config.compute_us, 0 },
		{ 'r', &config.seconds, 1 }, { 'S', &config.seed, 0 },
	};
	int letter;
	size_t i;
	char *end;

	while ((letter = getopt(argc, argv, "m:t:s:c:r:S:w")) != -1) {
		if (letter == 'w') {
			work_file = open(WORK_FILE, O_WRONLY | O_CLOEXEC);
			if (work_file < 0)
				die("no file " WORK_FILE);
		}
		for (i = 0; i < sizeof(options) / sizeof(*options); i++) {
			if (options[i].letter != letter)
				continue;
			*options[i].number = strtoul(optarg, &end, 10);
			if (*end || *options[i].number < options[i].least)
				die("a number is wrong");
		}
		if (letter == '?')
			exit(2);
	}
	if (optind < argc || config.messengers > THREADS_MAX ||
	    config.workers > THREADS_MAX ||
	    config.messengers * config.workers > THREADS_MAX)
		die("too many threads, or words that are no options");
}

int main(int argc, char **argv)
{
	parse(argc, argv);
	run();
	return 0;
}
