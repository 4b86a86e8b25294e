// SPDX-License-Identifier: GPL-2.0
/*
 * naps COUNT - sleep so often, 37, 74, 111 us and so on, modulo 1500: idle periods of many lengths
 * without the start of a process for each
 */
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long count = argc == 2 ? strtol(argv[1], NULL, 10) : 0;

	for (long i = 1; i <= count; i++)
		usleep(i * 37 % 1500);
	return count <= 0;
}
