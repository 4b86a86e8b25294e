// SPDX-License-Identifier: GPL-2.0
/*
 * given - stops this guest, and writes what the lab then gave it to standard output
 *
 * It lies in the memory of a PCI device (QEMU's ivshmem), behind a page that
 * begins with its size in bytes. The first argument is the file of that memory,
 * the second a file whose byte at STOP stops the guest: /dev/port.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define PAGE	4096
#define STOP	0x505	/* of QEMU's pvpanic */

static int fail(const char *what)
{
	perror(what);
	return 1;
}

/*
 * All other CPUs must be idle. QEMU stops them later than this one, and until
 * then a CPU that waits for this one spins.
 */
static int stop(const char *port)
{
	int file = open(port, O_WRONLY);

	sleep(1);
	return file < 0 || pwrite(file, "\1", 1, STOP) != 1;
}

int main(int argc, char **argv)
{
	int file = argc == 3 ? open(argv[1], O_RDWR) : -1;
	struct stat about;
	const char *memory;
	size_t done, size;

	if (file < 0 || fstat(file, &about))
		return fail("given");
	memory = mmap(NULL, (size_t)about.st_size, PROT_READ, MAP_SHARED, file, 0);
	if (memory == MAP_FAILED)
		return fail("given: mmap");
	if (stop(argv[2]))
		return fail("given: stop");

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
