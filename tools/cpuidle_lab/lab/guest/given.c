// SPDX-License-Identifier: GPL-2.0
/*
 * given - writes what the lab gave this guest to standard output
 *
 * It lies in the memory of a PCI device (QEMU's ivshmem), behind a page that
 * begins with its size in bytes. The first argument is the file of that memory.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE	4096

static int fail(const char *what)
{
	perror(what);
	return 1;
}

int main(int argc, char **argv)
{
	int file = argc == 2 ? open(argv[1], O_RDWR) : -1;
	struct stat about;
	const char *memory;
	size_t done, size;

	if (file < 0 || fstat(file, &about))
		return fail("given");
	memory = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, file, 0);
	if (memory == MAP_FAILED)
		return fail("given: mmap");

	size = strtoul(memory, NULL, 10);
	if (size > (size_t)about.st_size - PAGE) {
		fprintf(stderr, "given: more than the memory holds\n");
		return 1;
	}
	for (done = 0; done < size;) {
		ssize_t written = write(STDOUT_FILENO, memory + PAGE + done, size - done);

		if (written <= 0)
			return fail("given: write");
		done += (size_t)written;
	}
	return 0;
}
