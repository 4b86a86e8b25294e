// SPDX-License-Identifier: GPL-2.0
/*
 * Stands in for libFuzzer where there is no clang: random inputs from a seed.
 *
 * usage: NAME [-seconds=N] [-seed=N] [-runs=N] [-input=FILE] [FILE...]
 *
 * With files: runs each once, as libFuzzer does. -input names a file that holds the
 * random input that runs, and so the one that failed.
 */
#include <time.h>
#include <unistd.h>

#include "input.h"

#define LONGEST		4096

static u64 state;

static u64 next_random(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static int run_file(const char *path)
{
	static u8 data[1 << 20];
	FILE *file = fopen(path, "rb");
	size_t size;

	if (!file) {
		perror(path);
		return 1;
	}
	size = fread(data, 1, sizeof(data), file);
	fclose(file);
	return LLVMFuzzerTestOneInput(data, size);
}

static void save(FILE *file, const u8 *data, size_t size)
{
	DEMAND(!ftruncate(fileno(file), 0));
	DEMAND(pwrite(fileno(file), data, size, 0) == (ssize_t)size);
}

static void run_random(FILE *input)
{
	size_t i, size = next_random() % LONGEST;
	/* Of the exact size, so that a read behind it is seen. */
	u8 *data = malloc(size);

	DEMAND(data || !size);
	for (i = 0; i < size; i++)
		data[i] = next_random() >> 24;
	/* Bytes that are mostly zero reach other places than noise does. */
	for (i = 0; next_random() % 2 && i < size; i++)
		data[i] = i % 8 < 2 ? data[i] : 0;
	if (input)
		save(input, data, size);
	LLVMFuzzerTestOneInput(data, size);
	free(data);
}

int main(int argc, char **argv)
{
	unsigned long long seconds = 0, seed = 1, limit = 0, runs = 0;
	FILE *input = NULL;
	time_t end;
	int i, files = 0;

	for (i = 1; i < argc; i++) {
		if (sscanf(argv[i], "-seconds=%llu", &seconds) == 1 ||
		    sscanf(argv[i], "-seed=%llu", &seed) == 1 ||
		    sscanf(argv[i], "-runs=%llu", &limit) == 1)
			continue;
		if (!strncmp(argv[i], "-input=", 7)) {
			input = fopen(argv[i] + 7, "wb");
			DEMAND(input);
			continue;
		}
		files++;
		if (run_file(argv[i]))
			return 1;
	}
	state = seed * 2654435761u + 1;
	end = time(NULL) + seconds;
	while (!files && (limit ? runs < limit : time(NULL) < end)) {
		run_random(input);
		runs++;
	}
	printf("%llu runs\n", runs + files);
	return 0;
}
