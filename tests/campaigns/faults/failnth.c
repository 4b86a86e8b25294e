// SPDX-License-Identifier: GPL-2.0
/*
 * Make the N-th allocation of one call into the kernel fail, for N from 1 on,
 * until the call needs no more than N - 1.
 *
 *	failnth load FILE [PARAMETERS]	loads a module (unloaded again each time)
 *	failnth write FILE TEXT [BACK]	writes a text; BACK undoes it each time
 *	failnth open FILE		opens a file to write, and closes it
 *	failnth task VALUE		asks for a hint for itself
 *	failnth thread VALUE		asks for one for a new child, by pidfd
 *	failnth group FOLDER VALUE	asks for a value for a group
 *	failnth fork			a hinted task has a child
 *
 * After each call that failed nothing may be left of it: see after(). Prints
 * how many calls there were and what they said; ends with 1 if something was
 * left, or if an error came that a lack of memory does not explain.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "../../lab/hints/call.h"

#define MODULE		"cpuidle_lab"
#define KNOBS		"/sys/kernel/debug/cpuidle_lab"
#define LAST		4000
#define ERRORS		134

static const char *const traces_of_it[] = {
	KNOBS, "/dev/cpuidle_latency", "/sys/module/cpuidle_lab",
	"/sys/kernel/tracing/events/cpuidle_lab",
};

static unsigned int seen[ERRORS];

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int ret = 0;

	if (fd < 0)
		return errno;
	if (write(fd, text, strlen(text)) < 0)
		ret = errno;
	close(fd);
	return ret;
}

static void end_badly(const char *what, int error)
{
	printf("%s: %s\n", what, strerror(error));
	exit(1);
}

/* The N-th allocation of this task fails from now on; 0: none. */
static void arm(unsigned int n)
{
	char text[16];
	int ret;

	snprintf(text, sizeof(text), "%u", n);
	ret = write_text("/proc/thread-self/fail-nth", text);
	if (ret)
		end_badly("fail-nth", ret);
}

/* Returns how many allocations were still to come; 0: one has failed. */
static int disarm(void)
{
	char text[16] = "";
	int fd = open("/proc/thread-self/fail-nth", O_RDWR | O_CLOEXEC);
	int rest;

	/* An open that fails was the one that was to fail. */
	if (fd < 0)
		return 0;
	/* The same file: to open it again might be what fails. */
	if (read(fd, text, sizeof(text) - 1) < 0 || pwrite(fd, "0", 1, 0) != 1)
		end_badly("fail-nth", errno);
	rest = atoi(text);
	close(fd);
	return rest;
}

static void check_nothing_left(void)
{
	static char names[4096];
	size_t i;
	int fd;

	for (i = 0; i < sizeof(traces_of_it) / sizeof(*traces_of_it); i++)
		if (!access(traces_of_it[i], F_OK))
			end_badly(traces_of_it[i], EEXIST);
	fd = open("/sys/devices/system/cpu/cpuidle/available_governors", O_RDONLY);
	if (fd < 0 || read(fd, names, sizeof(names) - 1) < 0)
		end_badly("available_governors", errno);
	close(fd);
	if (strstr(names, "wteo") || strstr(names, "gate") || strstr(names, "_ng"))
		end_badly("a governor is left", EEXIST);
}

/**
 * struct call - a call into the kernel that is repeated
 * @name: as on the command line
 * @words: how many more words it takes there, at least
 * @prepare: what may not fail; returns what @once is given
 * @once: the call; returns an errno
 * @after: undo it; checks that nothing is left if it had failed
 */
struct call {
	const char *name;
	int words;
	int (*prepare)(char **words);
	int (*once)(int fd, char **words);
	void (*after)(int fd, char **words, int error);
};

static int open_first(char **words)
{
	int fd = open(words[0], O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		end_badly(words[0], errno);
	return fd;
}

static int load_once(int fd, char **words)
{
	return syscall(SYS_finit_module, fd, words[1] ? words[1] : "", 0) ?
	       errno : 0;
}

static void load_after(int fd, char **words, int error)
{
	(void)words;
	close(fd);
	if (!error && syscall(SYS_delete_module, MODULE, O_NONBLOCK))
		end_badly("delete_module", errno);
	check_nothing_left();
}

static int open_to_write(char **words)
{
	int fd = open(words[0], O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		end_badly(words[0], errno);
	return fd;
}

static int write_once(int fd, char **words)
{
	return write(fd, words[1], strlen(words[1])) < 0 ? errno : 0;
}

static void write_after(int fd, char **words, int error)
{
	(void)error;
	close(fd);
	if (words[2])
		write_text(words[0], words[2]);
}

static int prepare_nothing(char **words)
{
	(void)words;
	return -1;
}

static int open_once(int fd, char **words)
{
	fd = open(words[0], O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return errno;
	close(fd);
	return 0;
}

static void nothing_after(int fd, char **words, int error)
{
	(void)fd;
	(void)words;
	(void)error;
}

static int prepare_device(char **words)
{
	(void)words;
	return open_device();
}

static int set_task(int device, int fd, const char *value)
{
	return set_value(device, fd, atoi(value)) ? errno : 0;
}

static void forget_task(int device, int fd)
{
	struct cpuidle_latency arg = { .fd = fd };

	if (ioctl(device, CPUIDLE_LATENCY_SET_TASK, &arg))
		end_badly("a hint that cannot be removed", errno);
}

static int task_once(int device, char **words)
{
	return set_task(device, CPUIDLE_LATENCY_SELF, words[0]);
}

static void task_after(int device, char **words, int error)
{
	(void)words;
	(void)error;
	forget_task(device, CPUIDLE_LATENCY_SELF);
	close(device);
}

static int child;
static int child_fd;

static int prepare_child(char **words)
{
	(void)words;
	child = fork();
	if (!child)
		for (;;)
			pause();
	child_fd = open_pidfd(child, 0);
	if (child < 0 || child_fd < 0)
		end_badly("child", errno);
	return open_device();
}

static int child_once(int device, char **words)
{
	return set_task(device, child_fd, words[0]);
}

static void child_after(int device, char **words, int error)
{
	(void)words;
	(void)error;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	close(child_fd);
	close(device);
}

static int group_fd;

static int prepare_group(char **words)
{
	group_fd = open_first(words);
	return open_device();
}

static int set_group(int device, unsigned int kind, int value)
{
	struct cpuidle_latency arg = {
		.fd = group_fd, .kind = kind, .value = value,
	};

	return ioctl(device, CPUIDLE_LATENCY_SET_GROUP, &arg) ? errno : 0;
}

static int group_once(int device, char **words)
{
	return set_group(device, CPUIDLE_LATENCY_VALUE, atoi(words[1]));
}

static void group_after(int device, char **words, int error)
{
	(void)words;
	(void)error;
	if (set_group(device, CPUIDLE_LATENCY_NONE, 0))
		end_badly("a value that cannot be removed", errno);
	close(group_fd);
	close(device);
}

static int prepare_hinted(char **words)
{
	int device = prepare_device(words);

	if (set_value(device, CPUIDLE_LATENCY_SELF, -7))
		end_badly("hint", errno);
	return device;
}

/* A child that dies at once, without allocations of its own after the fork. */
static int fork_once(int device, char **words)
{
	int pid = fork();

	(void)device;
	(void)words;
	if (!pid)
		_exit(0);
	if (pid < 0)
		return errno;
	waitpid(pid, NULL, 0);
	return 0;
}

static const struct call calls[] = {
	{ "load", 1, open_first, load_once, load_after },
	{ "write", 2, open_to_write, write_once, write_after },
	{ "open", 1, prepare_nothing, open_once, nothing_after },
	{ "task", 1, prepare_device, task_once, task_after },
	{ "thread", 1, prepare_child, child_once, child_after },
	{ "group", 2, prepare_group, group_once, group_after },
	{ "fork", 0, prepare_hinted, fork_once, task_after },
};

/*
 * A refused allocation may be answered so; a module's errors are its own. ELOOP
 * is of the kernel's check of a module's types ("Max chain length or cycle
 * detected" in the log), before the module runs.
 */
static int is_allowed(int error)
{
	return !error || error == ENOMEM || error == EAGAIN || error == ENOSPC ||
	       error == EEXIST || error == ENOENT || error == ELOOP;
}

static int sweep(const struct call *call, char **words)
{
	unsigned int n;

	for (n = 1; n < LAST; n++) {
		int fd = call->prepare(words);
		int error;
		int rest;

		arm(n);
		error = call->once(fd, words);
		rest = disarm();
		call->after(fd, words, error);
		seen[error < ERRORS ? error : 0]++;
		if (!is_allowed(error))
			end_badly("an error that no lack of memory explains", error);
		if (rest && error)
			end_badly("it fails although nothing failed", error);
		if (rest)
			return (int)n - 1;
	}
	end_badly("no end of allocations", 0);
	return 0;
}

int main(int argc, char **argv)
{
	size_t i;
	int n;

	for (i = 0; i < sizeof(calls) / sizeof(*calls); i++) {
		if (argc < 2 || strcmp(argv[1], calls[i].name))
			continue;
		if (argc < 2 + calls[i].words)
			break;
		n = sweep(&calls[i], argv + 2);
		printf("%d allocations failed:", n);
		for (n = 0; n < ERRORS; n++)
			if (seen[n])
				printf(" %s=%u", n ? strerrorname_np(n) : "ok", seen[n]);
		puts("");
		return 0;
	}
	return 2;
}
