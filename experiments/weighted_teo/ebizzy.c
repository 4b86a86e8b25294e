// SPDX-License-Identifier: GPL-2.0
/*
 * ebizzy - threads that search records in copies of memory, as web servers do
 *
 *   ebizzy [-m | -M] [-t THREADS] [-S SECONDS] [-a RECORDS] [-i SLEEP_US]
 *          [-n CHUNKS] [-s BYTES]
 *
 * The options, their defaults and the pattern are those of the benchmark of this
 * name: each record takes a copy of one of the chunks, in memory that is
 * allocated for it, and a binary search in the copy. -m allocates by mmap always,
 * -M never. -a and -i are those of the "sleeping ebizzy" of 2020: a thread sleeps
 * for SLEEP_US after so many records, by default never. SECONDS may have decimals.
 * Prints records/s and the time that passed, in all, in user mode and in the kernel.
 */
#include <pthread.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define THREADS_MAX	256
#define CHUNKS_MAX	1024
#define SECONDS_MAX	1e6
#define NS_PER_S	1000000000ULL

static unsigned long threads, sleep_us = 1000, chunks = 10,
		     size = 512 * 1024, sleep_at;
static double seconds = 10;
static int always_mmap, never_mmap;
static uint64_t *chunk[CHUNKS_MAX];
static atomic_ulong records;
static uint64_t end_ns;

static void die(const char *what)
{
	fprintf(stderr, "ebizzy: %s\n", what);
	exit(1);
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void *get(void)
{
	void *memory;

	if (always_mmap)
		memory = mmap(NULL, size, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	else
		memory = malloc(size);
	if (!memory || memory == MAP_FAILED)
		die("no memory");
	return memory;
}

static void put(void *memory)
{
	if (always_mmap)
		munmap(memory, size);
	else
		free(memory);
}

static int compare(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Each chunk holds its places, so a search finds what it looks for. */
static void search_one(uint64_t draw)
{
	const uint64_t key = draw / chunks % (size / sizeof(key));
	uint64_t *copy = get();

	memcpy(copy, chunk[draw % chunks], size);
	if (!bsearch(&key, copy, size / sizeof(key), sizeof(key), compare))
		die("a record is missing");
	put(copy);
}

static void *search(void *argument)
{
	const struct timespec pause = {
		.tv_sec = (time_t)(sleep_us / 1000000),
		.tv_nsec = (long)(sleep_us % 1000000 * 1000),
	};
	uint64_t state = ((uint64_t)(uintptr_t)argument + 1) * 0x9e3779b97f4a7c15ULL;
	unsigned long i;

	for (i = 0; now_ns() < end_ns; i++) {
		/* Knuth's linear congruential generator; its high bits are the better ones. */
		state = state * 6364136223846793005ULL + 1442695040888963407ULL;
		search_one(state >> 33);
		atomic_fetch_add(&records, 1);
		if (sleep_at && i % sleep_at == 0)
			nanosleep(&pause, NULL);
	}
	return NULL;
}

static void fill(void)
{
	unsigned long i, k;

	for (i = 0; i < chunks; i++) {
		chunk[i] = malloc(size);
		if (!chunk[i])
			die("no memory");
		for (k = 0; k < size / sizeof(**chunk); k++)
			chunk[i][k] = k;
	}
}

static void parse(int argc, char **argv)
{
	static const struct {
		char letter;
		unsigned long *number;
		unsigned long least, most;
	} options[] = {
		{ 't', &threads, 1, THREADS_MAX }, { 'i', &sleep_us, 0, 1000000000 },
		{ 'n', &chunks, 1, CHUNKS_MAX }, { 'a', &sleep_at, 0, 1000000000 },
		{ 's', &size, sizeof(uint64_t), 1UL << 30 },
	};
	int letter;
	size_t i;
	char *end;

	while ((letter = getopt(argc, argv, "mMt:S:i:n:s:a:")) != -1) {
		always_mmap |= letter == 'm';
		never_mmap |= letter == 'M';
		if (letter == '?')
			exit(2);
		if (letter == 'S') {
			seconds = strtod(optarg, &end);
			if (*end || !(seconds > 0 && seconds <= SECONDS_MAX))
				die("a number is wrong");
		}
		for (i = 0; i < sizeof(options) / sizeof(*options); i++) {
			if (options[i].letter != letter)
				continue;
			*options[i].number = strtoul(optarg, &end, 10);
			if (*end || *options[i].number < options[i].least ||
			    *options[i].number > options[i].most)
				die("a number is wrong");
		}
	}
	if (optind < argc || (always_mmap && never_mmap))
		die("-m and -M exclude each other, and words are no options");
}

static void print_time(const char *what, uint64_t ns)
{
	printf("%s %llu.%02llu s\n", what, (unsigned long long)(ns / NS_PER_S),
	       (unsigned long long)(ns % NS_PER_S / 10000000));
}

static uint64_t in_ns(struct timeval time)
{
	return (uint64_t)time.tv_sec * NS_PER_S + (uint64_t)time.tv_usec * 1000;
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS_MAX];
	struct rusage before, after;
	uint64_t start_ns, took_ns;
	unsigned long i;

	threads = 2 * (unsigned long)sysconf(_SC_NPROCESSORS_ONLN);
	parse(argc, argv);
	if (never_mmap)
		mallopt(M_MMAP_MAX, 0);
	fill();
	getrusage(RUSAGE_SELF, &before);
	start_ns = now_ns();
	end_ns = start_ns + (uint64_t)(seconds * NS_PER_S);
	for (i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, search, (void *)(uintptr_t)i))
			die("cannot make a thread");
	for (i = 0; i < threads; i++)
		pthread_join(thread[i], NULL);
	took_ns = now_ns() - start_ns;
	getrusage(RUSAGE_SELF, &after);
	printf("%llu records/s\n",
	       (unsigned long long)(atomic_load(&records) * NS_PER_S / took_ns));
	print_time("real", took_ns);
	print_time("user", in_ns(after.ru_utime) - in_ns(before.ru_utime));
	print_time("sys ", in_ns(after.ru_stime) - in_ns(before.ru_stime));
	return 0;
}
