// SPDX-License-Identifier: GPL-2.0
/*
 * Opening a trace.dat, and its records one after the other.
 *
 * The events of a packed recording are unpacked in memory, some 100 KiB at a
 * time. libtracecmd before 3.3 keeps all of that until the file is closed,
 * and looks through it for each page. So such a file is opened anew after a
 * while, and read on from the same event.
 *
 * Where a CPU has 2 GiB of events, the size of libtracecmd's maps overflows:
 * it maps each page apart. It never unmaps a page of a file that is not
 * packed, and takes the limit of the kernel (65,530 maps, 256 MiB) for the end
 * of the data. Where it cannot map a first page, it reads all. So it may not
 * map a large file.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "trace_formats.h"

/* Opening takes as long as to unpack some 10 MiB. */
#ifndef UNPACKED_MAX
#define UNPACKED_MAX		(128ull * 1024 * 1024)
#endif
#define PAGE_BYTES		4096
/* Larger files are read, not mapped. */
#ifndef MAPPED_MAX
#define MAPPED_MAX		0x7fffffff
#endif

/* Exported by libtracecmd, but in none of its headers; older ones lack them. */
extern const char *tracecmd_get_trace_clock(struct tracecmd_input *input)
	__attribute__((weak));
extern int tracecmd_get_file_compress_proto(struct tracecmd_input *input,
					    const char **name, const char **version)
	__attribute__((weak));

static bool is_large;

#if defined(__LP64__) && !defined(__s390x__) && !defined(__SANITIZE_ADDRESS__)
/* In place of the C library's, for libtracecmd. */
void *mmap(void *start, size_t size, int access, int flags, int fd, off_t at)
{
	if (is_large && fd >= 0) {
		errno = ENODEV;
		return MAP_FAILED;
	}
	return (void *)syscall(SYS_mmap, start, size, access, flags, fd, at);
}

void *mmap64(void *start, size_t size, int access, int flags, int fd, off_t at)
	__attribute__((alias("mmap"), leaf, nothrow));
#endif

/* A file that is no trace is refused before the library looks. */
static void check_file(struct reader *r, const char *path)
{
	static const char magic[] = "\x17\x08\x44tracing";
	char start[sizeof(magic) - 1];
	struct stat st;
	ssize_t got;

	r->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (r->fd < 0)
		cil_fail(r, "cannot be read: %s", strerror(errno));
	if (fstat(r->fd, &st) || !S_ISREG(st.st_mode))
		cil_fail(r, "is not a regular file");
	is_large = st.st_size > MAPPED_MAX;
	got = pread(r->fd, start, sizeof(start), 0);
	if (got == 0)
		cil_fail(r, "is empty");
	if (got != sizeof(start) || memcmp(start, magic, sizeof(start)))
		cil_fail(r, "is not a trace.dat file as trace-cmd writes it");
}

static bool is_empty(struct tracecmd_input *input, int cpus)
{
	struct tep_record *record = NULL;
	int cpu;

	for (cpu = 0; cpu < cpus && !record; cpu++)
		record = tracecmd_read_cpu_first(input, cpu);
	tracecmd_free_record(record);
	return !record;
}

/* A recording of one instance (trace-cmd -B) leaves the top-level buffer empty. */
static struct tracecmd_input *used_buffer(struct tracecmd_input *top)
{
	struct tracecmd_input *instance;

	if (tracecmd_buffer_instances(top) != 1 ||
	    !is_empty(top, tep_get_cpus(tracecmd_get_tep(top))))
		return top;
	instance = tracecmd_buffer_instance_handle(top, 0);
	return instance ? instance : top;
}

/* Some clocks of the kernel do not count ns. */
static void check_clock(struct reader *r)
{
	static const char *const clocks[] = { "counter", "x86-tsc", "ppc-tb" };
	const char *clock = tracecmd_get_trace_clock ?
			    tracecmd_get_trace_clock(r->top) : NULL;
	size_t i;

	for (i = 0; clock && i < sizeof(clocks) / sizeof(*clocks); i++) {
		if (!strcmp(clock, clocks[i]))
			cil_fail(r, "was recorded by the clock %s, which does not count ns; record with trace-cmd record -C mono",
				 clock);
	}
}

/* Lets another file be the standard error; returns the one that it was. */
static int swap_stderr(int fd)
{
	int old = dup(STDERR_FILENO);

	fflush(stderr);
	dup2(fd, STDERR_FILENO);
	close(fd);
	return old;
}

/*
 * The file itself, also where its name has meanwhile become another's. The
 * library says that it cannot map it.
 */
static void open_input(struct reader *r)
{
	int old = swap_stderr(open("/dev/null", O_WRONLY | O_CLOEXEC));
	char path[32];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", r->fd);
	r->top = tracecmd_open(path, TRACECMD_FL_LOAD_NO_PLUGINS);
	if (r->top)
		r->input = used_buffer(r->top);
	close(swap_stderr(old));
	if (!r->top)
		cil_fail(r, "is a trace.dat file, but truncated or damaged");
}

static void close_input(struct reader *r)
{
	if (r->input != r->top)
		tracecmd_close(r->input);
	tracecmd_close(r->top);
}

/**
 * cil_open() - open a trace.dat
 * @r: the run, which fails where the file is none
 * @path: the file
 */
void cil_open(struct reader *r, const char *path)
{
	const char *name = NULL, *version = NULL;

	check_file(r, path);
	tracecmd_set_loglevel(TEP_LOG_NONE);
	tep_set_loglevel(TEP_LOG_NONE);
	open_input(r);
	check_clock(r);
	r->is_packed = tracecmd_get_file_compress_proto &&
		       !tracecmd_get_file_compress_proto(r->top, &name, &version);
	/* It outlives the inputs. */
	r->tep = tracecmd_get_tep(r->input);
	tep_ref(r->tep);
	r->swap = tep_is_file_bigendian(r->tep) !=
		  tep_is_local_bigendian(r->tep);
	r->last = calloc(tep_get_cpus(r->tep), sizeof(*r->last));
	if (!r->last)
		cil_fail(r, "needs more memory than there is");
}

/**
 * cil_close() - close it
 * @r: the run
 */
void cil_close(struct reader *r)
{
	close_input(r);
	close(r->fd);
	free(r->last);
	tep_unref(r->tep);
}

/*
 * The library ends where it cannot read on: at the end of the data, where they
 * cannot be unpacked, or without memory for that.
 */
static struct tep_record *checked(struct reader *r, int cpu,
				  struct tep_record *record)
{
	if (!record && errno == ENOMEM)
		cil_fail(r, "needs more memory than there is to unpack CPU %d", cpu);
	if (!record && errno)
		cil_fail(r, "is damaged: the events of CPU %d cannot be unpacked", cpu);
	if (record) {
		if (record->offset / PAGE_BYTES != r->last[cpu] / PAGE_BYTES)
			r->unpacked += PAGE_BYTES;
		r->last[cpu] = record->offset;
	}
	return record;
}

/**
 * cil_first_record() - the first event of a CPU
 * @r: the run
 * @cpu: its number
 *
 * Return: the event, to be freed, or NULL.
 */
struct tep_record *cil_first_record(struct reader *r, int cpu)
{
	errno = 0;
	return checked(r, cpu, tracecmd_read_cpu_first(r->input, cpu));
}

/**
 * cil_next_record() - the next event of a CPU
 * @r: the run
 * @cpu: its number
 *
 * Return: the event, to be freed, or NULL.
 */
struct tep_record *cil_next_record(struct reader *r, int cpu)
{
	errno = 0;
	return checked(r, cpu, tracecmd_read_data(r->input, cpu));
}

/* The last event of a CPU, from a new input that goes on behind it. */
static struct tep_record *read_again(struct reader *r, int cpu)
{
	struct tep_record *record = tracecmd_read_at(r->input, r->last[cpu], NULL);

	if (!record || record->cpu != cpu || record->offset != r->last[cpu])
		cil_fail(r, "is damaged: the events of CPU %d cannot be unpacked again",
			 cpu);
	return record;
}

/**
 * cil_renew_if_due() - give back what was unpacked
 * @r: the run; no event of @cpu is in use that is not in @held
 * @cpu: the CPU whose next event is read
 * @held: events that are in use, by CPU; they are read again
 * @count: number of entries of @held
 */
void cil_renew_if_due(struct reader *r, int cpu, struct tep_record **held,
		      int count)
{
	int other;

	if (!r->is_packed || r->unpacked < UNPACKED_MAX)
		return;
	for (other = 0; other < count; other++)
		tracecmd_free_record(held[other]);
	close_input(r);
	open_input(r);
	r->unpacked = 0;
	tracecmd_free_record(read_again(r, cpu));
	for (other = 0; other < count; other++) {
		if (held[other])
			held[other] = read_again(r, other);
	}
}
