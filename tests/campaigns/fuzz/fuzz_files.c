// SPDX-License-Identifier: GPL-2.0
/*
 * Random calls on all files below some folders.
 *
 *	fuzz_files SEED OPERATIONS PROCESSES [-FILE] ROOT...
 *
 * FILE is one that takes long to read, and is read seldom.
 *
 * Every process walks all files, each from elsewhere. Once they have been at all
 * files together, they are at the same one for half of the time; which one that
 * is changes when they meet. A file is used through a descriptor of one's own,
 * or through one that all processes share.
 *
 * An input is made from the file's contents when it was read, from words
 * and names that were met anywhere, from numbers near limits, and from inputs
 * that had an answer which the file had not given before.
 *
 * The draws depend on the seed and on the answers of the files. Prints
 *
 *	operation NAME RESULT COUNT
 *	input KIND RESULT COUNT
 *	file PATH MODE OPERATIONS READS WRITES
 *
 * (reads and writes that succeeded). Ends with 1 after an error number that no
 * program may see, or if a process dies.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "../../lab/hints/call.h"
#include "file_inputs.h"

#define PROCESSES_MAX	16
#define ERRORS		134
#define ROUND		64		/* operations before all meet */
#define SESSION		8		/* with a file, differ by less */
#define ROOM		(1U << 20)

/**
 * struct target - a file
 * @path: its path
 * @shared: descriptor that all processes share, -1 if there is none
 * @mode: type and permissions
 * @seldom: it is not read often
 */
struct target {
	char *path;
	int shared;
	mode_t mode;
	int seldom;
};

/**
 * struct answers - what all processes count
 * @meeting: where they meet after each round
 * @results: by operation and error number
 * @inputs: by kind, accepted or refused
 * @touched: operations on an open file
 * @reads: reads that gave something
 * @writes: writes that were accepted
 */
struct answers {
	pthread_barrier_t meeting;
	unsigned long results[16][ERRORS];
	unsigned long inputs[INPUTS][2];
	unsigned long touched[FILES_MAX];
	unsigned long reads[FILES_MAX];
	unsigned long writes[FILES_MAX];
};

static struct target files[FILES_MAX];
static uint32_t file_count;
static struct answers *answers;
static const char *seldom = "";

/* Each process's own. */
static char *room;			/* the page behind it is not mapped */
static unsigned char known[FILES_MAX][ERRORS];
static int fds[5];			/* arguments of ioctl() */

static void add(unsigned long *counter)
{
	__atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* -- operations ------------------------------------------------------------ */

/* An address at which little or nothing can be read or written. */
static void *bad_address(void)
{
	switch (draw(5)) {
	case 0:
		return NULL;
	case 1:
		return room + ROOM;			/* not mapped */
	case 2:
		return (void *)0xffff888000000000UL;	/* the kernel's */
	case 3:
		return (void *)(0x7ffffffff000UL - draw(16));
	}
	return room + ROOM - 1 - draw(32);		/* reaches into nothing */
}

static uint32_t draw_size(void)
{
	static const uint32_t sizes[] = {
		0, 1, 2, 3, 7, 16, 63, 64, 255, PAGE - 1, PAGE, PAGE + 1,
		2 * PAGE, 65536, ROOM - 64,
	};

	return draw(2) ? sizes[draw(COUNT(sizes))] : draw(512);
}

static off_t draw_offset(void)
{
	static const off_t offsets[] = {
		0, 1, PAGE - 1, PAGE, PAGE + 1, 1L << 31, 1L << 32, INT64_MAX,
		-1, INT64_MIN,
	};

	return draw(2) ? offsets[draw(COUNT(offsets))] : (off_t)draw(1024);
}

static long take(uint32_t file, char *at, long got)
{
	if (got <= 0)
		return got;
	add(&answers->reads[file]);
	if (at < room || at + got > room + ROOM)
		return got;
	sample_size[file] = got < SAMPLE ? (uint32_t)got : SAMPLE;
	memcpy(sample[file], at, sample_size[file]);
	learn_text(at, (uint32_t)got);
	return got;
}

static long do_read(int fd, uint32_t file)
{
	char *at = draw(16) ? room + draw(64) : bad_address();

	return take(file, at, read(fd, at, draw_size()));
}

static long do_pread(int fd, uint32_t file)
{
	char *at = draw(16) ? room + draw(64) : bad_address();

	return take(file, at, pread(fd, at, draw_size(), draw_offset()));
}

static long put(int fd, uint32_t file, int anywhere)
{
	enum input kind = draw(INPUTS);
	char *at = room + draw(64);
	uint32_t size = put_input(file, kind, at);
	const void *from = draw(16) ? at : bad_address();
	long done = anywhere ? pwrite(fd, from, size, draw_offset()) :
			       write(fd, from, size);
	int error = done < 0 ? errno : 0;

	add(&answers->inputs[kind][!!error]);
	if (!error)
		add(&answers->writes[file]);
	if (error < ERRORS && !known[file][error]) {
		known[file][error] = 1;
		keep(at, size);
	}
	errno = error;
	return done;
}

static long do_write(int fd, uint32_t file)
{
	return put(fd, file, 0);
}

static long do_pwrite(int fd, uint32_t file)
{
	return put(fd, file, 1);
}

static long do_seek(int fd, uint32_t file)
{
	(void)file;
	return lseek(fd, draw_offset(), (int)draw(6));
}

static long do_poll(int fd, uint32_t file)
{
	struct pollfd wanted = { .fd = fd, .events = (short)draw(65536) };

	(void)file;
	return poll(&wanted, 1, 0);
}

static long do_ioctl(int fd, uint32_t file)
{
	static const unsigned long commands[] = {
		CPUIDLE_LATENCY_SET_TASK, CPUIDLE_LATENCY_GET_TASK,
		CPUIDLE_LATENCY_SET_GROUP, CPUIDLE_LATENCY_GET_GROUP,
	};
	struct cpuidle_latency arg = {
		.fd = draw(8) ? fds[draw(COUNT(fds))] : (int)step(&state),
		.kind = draw(16) ? draw(3) : step(&state),
		.flags = draw(32) ? 0 : draw(8),
	};
	unsigned long command = commands[draw(COUNT(commands))];

	(void)file;
	if (arg.kind == CPUIDLE_LATENCY_VALUE)
		arg.value = draw(16) ? (int)draw(40) - 20 : (int)step(&state);
	if (arg.kind == CPUIDLE_LATENCY_LIMIT)
		arg.limit_ns = (uint64_t)draw(200) << draw(56);
	if (!draw(8))
		command ^= 1UL << draw(32);
	return ioctl(fd, command, draw(16) ? &arg : bad_address());
}

static long do_mmap(int fd, uint32_t file)
{
	size_t size = draw(3) * PAGE + draw(2);
	void *at = mmap(NULL, size, (int)draw(8), draw(2) ? MAP_SHARED : MAP_PRIVATE,
			fd, draw(4) ? 0 : draw_offset());

	(void)file;
	if (at == MAP_FAILED)
		return -1;
	munmap(at, size);
	return 0;
}

static long do_sendfile(int fd, uint32_t file)
{
	(void)file;
	return sendfile(fds[2], fd, NULL, draw_size());
}

static long do_stat(int fd, uint32_t file)
{
	struct stat about;

	(void)file;
	return fstat(fd, &about);
}

static long do_truncate(int fd, uint32_t file)
{
	(void)file;
	return ftruncate(fd, draw_offset());
}

enum operation {
	OPEN, READ, PREAD, WRITE, PWRITE, SEEK, POLL, IOCTL, MMAP, SENDFILE, STAT,
	TRUNCATE
};

/* The first is not drawn, but comes before the others. */
static const struct {
	const char *name;
	long (*call)(int fd, uint32_t file);
	uint32_t weight;
	int reads;
} operations[] = {
	[OPEN] = { "open", NULL, 0 },
	[READ] = { "read", do_read, 20, 1 },
	[PREAD] = { "pread", do_pread, 10, 1 },
	[WRITE] = { "write", do_write, 30 },
	[PWRITE] = { "pwrite", do_pwrite, 5 },
	[SEEK] = { "lseek", do_seek, 5, 1 },
	[POLL] = { "poll", do_poll, 2 },
	[IOCTL] = { "ioctl", do_ioctl, 5 },
	[MMAP] = { "mmap", do_mmap, 2 },
	[SENDFILE] = { "sendfile", do_sendfile, 2, 1 },
	[STAT] = { "fstat", do_stat, 1 },
	[TRUNCATE] = { "ftruncate", do_truncate, 1 },
};

static void count(uint32_t operation, uint32_t file, long ret)
{
	int error = ret < 0 ? errno : 0;

	if (error >= ERRORS) {
		printf("unexpected: error %d of %s, %s\n", error,
		       operations[operation].name, files[file].path);
		fflush(stdout);
		_exit(1);
	}
	add(&answers->results[operation][error]);
}

static uint32_t draw_operation(uint32_t file)
{
	uint32_t i, weight = 0;

	/* Where nothing can be written, that need not be tried as often. */
	if (!(files[file].mode & 0222) && draw(2))
		return READ;
	if (S_ISCHR(files[file].mode) && draw(2))
		return IOCTL;

	for (i = 0; i < COUNT(operations); i++)
		weight += operations[i].weight;
	weight = draw(weight);
	for (i = 0; weight >= operations[i].weight; i++)
		weight -= operations[i].weight;
	if (files[file].seldom && operations[i].reads && draw(16))
		return WRITE;
	return i;
}

static int draw_flags(void)
{
	static const int extra[] = {
		O_APPEND, O_CREAT, O_CREAT | O_EXCL, O_DIRECT, O_DIRECTORY,
		O_NOATIME, O_NOFOLLOW, O_NONBLOCK, O_PATH, O_SYNC, O_TRUNC,
	};
	int flags = draw(8) ? O_RDWR : (int)draw(4);

	return O_CLOEXEC | flags | (draw(2) ? 0 : extra[draw(COUNT(extra))]);
}

/* Open a file and use it; returns how many operations that were. */
static uint32_t session(uint32_t file, uint32_t most)
{
	uint32_t left = draw(SESSION) + 3;
	int fd = -1;
	uint32_t done = 0;

	left = left < most ? left : most;
	if (draw(4)) {
		fd = open(files[file].path, draw_flags(), 0600);
		count(OPEN, file, fd);
		done++;
	}
	for (; done < left; done++) {
		uint32_t i = draw_operation(file);
		int used = fd >= 0 ? fd : files[file].shared;

		errno = 0;
		count(i, file, operations[i].call(used, file));
		if (errno != EBADF)
			add(&answers->touched[file]);
	}
	if (fd >= 0)
		close(fd);
	return done;
}

/* -- processes ------------------------------------------------------------- */

static void shuffle(uint32_t *order, uint64_t seed)
{
	uint32_t i;

	for (i = 0; i < file_count; i++) {
		uint32_t k = step(&seed) % (i + 1);

		order[i] = order[k];
		order[k] = i;
	}
}

/* All draw the same order, in which each begins elsewhere, and the same file. */
static void work(uint64_t seed, uint32_t number, uint32_t processes,
		 unsigned long left)
{
	uint64_t common = seed;
	uint32_t order[FILES_MAX];
	uint32_t next = number * file_count / processes;
	uint32_t others = (number + 1) * file_count / processes;

	state = seed + (number + 1) * 0x9e3779b97f4a7c15ULL;
	shuffle(order, seed);
	fds[0] = CPUIDLE_LATENCY_SELF;
	fds[1] = open_pidfd(getpid(), 0);
	while (left) {
		uint32_t round = left < ROUND ? (uint32_t)left : ROUND;
		uint32_t together = step(&common) % file_count;

		left -= round;
		pthread_barrier_wait(&answers->meeting);
		while (round)
			round -= session(next >= others && draw(2) ? together :
					 order[next++ % file_count], round);
	}
	_exit(0);
}

static int found(const char *path, const struct stat *about, int type,
		 struct FTW *where)
{
	struct target *file = &files[file_count];

	(void)where;
	if (type != FTW_F || (!S_ISREG(about->st_mode) && !S_ISCHR(about->st_mode)))
		return 0;
	if (file_count == FILES_MAX)
		return -1;
	file->path = strdup(path);
	file->mode = about->st_mode;
	file->seldom = !strcmp(path, seldom);
	file->shared = open(path, O_RDWR | O_CLOEXEC);
	if (file->shared < 0)
		file->shared = open(path, O_RDONLY | O_CLOEXEC);
	if (file->shared < 0)
		file->shared = open(path, O_WRONLY | O_CLOEXEC);
	learn_path(path);
	take(file_count, room, pread(file->shared, room, ROOM, 0));
	file_count++;
	return 0;
}

static void *shared_memory(size_t size, int rest)
{
	char *at = mmap(NULL, size + PAGE, PROT_READ | PROT_WRITE,
			rest | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED) {
		perror("mmap");
		exit(2);
	}
	munmap(at + size, PAGE);
	return at;
}

static void prepare(char **roots)
{
	const struct rlimit descriptors = { 2 * FILES_MAX, 2 * FILES_MAX };
	const size_t size = (sizeof(*answers) + PAGE - 1) / PAGE * PAGE;

	setrlimit(RLIMIT_NOFILE, &descriptors);
	answers = shared_memory(size, MAP_SHARED);
	room = shared_memory(ROOM, MAP_PRIVATE);
	state = 1;
	if (**roots == '-')
		seldom = *roots++ + 1;
	for (; *roots; roots++) {
		learn_path(*roots);
		if (nftw(*roots, found, 32, FTW_PHYS)) {
			fprintf(stderr, "%s: cannot be walked\n", *roots);
			exit(2);
		}
	}
	if (!file_count) {
		fputs("no files\n", stderr);
		exit(2);
	}
	fds[2] = open("/dev/null", O_RDWR | O_CLOEXEC);
	fds[3] = open_pidfd(getpid(), 0);
	fds[4] = open("/sys/fs/cgroup/fuzz", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

static int run(uint64_t seed, unsigned long each, uint32_t processes)
{
	pthread_barrierattr_t shared;
	pid_t pids[PROCESSES_MAX];
	int status;
	uint32_t i;

	pthread_barrierattr_init(&shared);
	pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_barrier_init(&answers->meeting, &shared, processes);
	for (i = 0; i < processes; i++) {
		pids[i] = fork();
		if (!pids[i])
			work(seed, i, processes, each);
	}
	for (i = 0; i < processes; i++) {
		if (wait(&status) >= 0 && !status)
			continue;
		/* The others would wait for it for ever. */
		printf("unexpected: a process ended with %#x\n", status);
		for (i = 0; i < processes; i++)
			kill(pids[i], SIGKILL);
		return 1;
	}
	return 0;
}

static void tell(void)
{
	uint32_t i, k;

	for (i = 0; i < COUNT(operations); i++)
		for (k = 0; k < ERRORS; k++)
			if (answers->results[i][k])
				printf("operation %s %s %lu\n", operations[i].name,
				       k ? strerrorname_np((int)k) : "ok",
				       answers->results[i][k]);
	for (i = 0; i < INPUTS; i++)
		printf("input %s accepted %lu\ninput %s refused %lu\n",
		       input_names[i], answers->inputs[i][0], input_names[i],
		       answers->inputs[i][1]);
	for (i = 0; i < file_count; i++)
		printf("file %s %o %lu %lu %lu\n", files[i].path,
		       files[i].mode & 0777, answers->touched[i],
		       answers->reads[i], answers->writes[i]);
}

int main(int argc, char **argv)
{
	unsigned long operations_each;
	uint32_t processes;
	int ret;

	if (argc < 5)
		return 2;
	processes = (uint32_t)atoi(argv[3]);
	if (!processes || processes > PROCESSES_MAX)
		return 2;
	operations_each = strtoul(argv[2], NULL, 0) / processes;
	setlinebuf(stdout);
	prepare(argv + 4);
	ret = run(strtoull(argv[1], NULL, 0) * 2 + 1, operations_each, processes);
	tell();
	return ret;
}
