// SPDX-License-Identifier: GPL-2.0
/*
 * latnice - run a command with a latency hint, or change the hints of others
 *
 * A hint is set through /dev/cpuidle_latency. Processes are named to it by
 * pidfd: a number that has passed to another process meanwhile cannot be hit
 * between the look at it and the call.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../../module/uapi/cpuidle_latency.h"

#ifndef LATNICE_DEVICE
#define LATNICE_DEVICE	"/dev/cpuidle_latency"
#endif

/* Of Linux 6.9; older headers do not have it. */
#ifndef PIDFD_THREAD
#define PIDFD_THREAD	O_EXCL
#endif

/* As nice(1) has them; EXIT_FAILURE says that some target was left out. */
#define EXIT_SELF	125
#define EXIT_NOT_RUN	126
#define EXIT_NOT_FOUND	127

enum target {
	TARGET_COMMAND,
	TARGET_PID,
	TARGET_THREAD,
	TARGET_GROUP,
};

enum action {
	ACTION_NONE,
	ACTION_SET,
	ACTION_SHOW,
};

/**
 * struct request - what the command line asks for
 * @action: set (or remove), or show
 * @target: what @names are
 * @hint: the hint to set
 * @names: processes, threads or groups as given
 * @count: number of @names
 * @command: the command and its arguments, NULL without one
 */
struct request {
	enum action action;
	enum target target;
	struct cpuidle_latency hint;
	char **names;
	int count;
	char **command;
};

static const char help[] =
"usage: latnice {-n VALUE | -l TIME | -r} COMMAND [ARGUMENT...]\n"
"       latnice {-n VALUE | -l TIME | -r} {-p PID... | -t TID... | -g DIR...}\n"
"       latnice [-s] [-p PID... | -t TID... | -g DIR...]\n"
"\n"
"Tell the idle governor 'gate' how quickly a task must be woken. On a CPU on\n"
"which the task runs, waits or has lately slept, idle states that take longer to\n"
"leave are not entered. Children inherit the hint; it is kept over exec.\n"
"\n"
"  -n, --value VALUE   -20 (most sensitive) to 19 (does not care); 0: no limit\n"
"  -l, --limit TIME    longest time to leave an idle state: 50us, 2ms, 800ns; a\n"
"                      number alone is microseconds\n"
"  -k, --keep          keep the hint if the task changes its user\n"
"  -f, --reset-on-fork children do not inherit the hint\n"
"  -r, --remove        remove the hint\n"
"  -s, --show          show the hint; of the caller if nothing is named\n"
"  -p, --pid PID...    processes, with all their threads\n"
"  -t, --thread TID... single threads (Linux 6.9 or newer)\n"
"  -g, --group DIR...  control groups (v2), by their directories\n"
"  -h, --help          this text\n"
"  -V, --version       the version\n"
"\n"
"examples:\n"
"  latnice -n -20 my-server --port 80    start a server that must be quick\n"
"  latnice -l 50us my-server             the same, by a limit\n"
"  latnice -n 5 -p 1234 1235             make running processes less sensitive\n"
"  latnice -g /sys/fs/cgroup/web -n -5   all tasks of a control group\n"
"  latnice --show -p 1234                what has been set\n"
"  latnice -r -p 1234                    take it back\n"
"\n"
"A value below the present one needs CAP_SYS_NICE, as do tasks of other users.\n"
"\n"
"exit codes: that of COMMAND; without one 0 done, 1 not done for some that were\n"
"named; 125 latnice itself failed, 126 COMMAND cannot be run, 127 not found\n";

/* One sentence on the terminal. */
#define complain(format, ...) \
	fprintf(stderr, "latnice: " format "\n", ##__VA_ARGS__)

/* A whole number between two bounds, NULL or where its digits end. */
static const char *parse_number(const char *text, long long low, long long high,
				long long *number)
{
	char *end;

	if (!*text || strchr(" \t\n\v\f\r+", *text))
		return NULL;
	errno = 0;
	*number = strtoll(text, &end, 10);
	if (end == text || errno || *number < low || *number > high)
		return NULL;
	return end;
}

static bool parse_value(const char *text, struct cpuidle_latency *hint)
{
	long long value;
	const char *end = parse_number(text, CPUIDLE_LATENCY_MIN,
				       CPUIDLE_LATENCY_MAX, &value);

	if (!end || *end) {
		complain("'%s' is not a value from %d to %d", text,
			 CPUIDLE_LATENCY_MIN, CPUIDLE_LATENCY_MAX);
		return false;
	}
	hint->kind = CPUIDLE_LATENCY_VALUE;
	hint->value = (int)value;
	return true;
}

static bool parse_limit(const char *text, struct cpuidle_latency *hint)
{
	static const struct unit {
		const char *name;
		long long ns;
	} units[] = {
		{ "", 1000 }, { "ns", 1 }, { "us", 1000 },
		{ "ms", 1000000 }, { "s", 1000000000 },
	};
	long long number;
	const char *end = parse_number(text, 0, LLONG_MAX, &number);
	size_t i;

	for (i = 0; end && i < sizeof(units) / sizeof(*units); i++) {
		if (strcmp(end, units[i].name) || number > LLONG_MAX / units[i].ns)
			continue;
		hint->kind = CPUIDLE_LATENCY_LIMIT;
		hint->limit_ns = (unsigned long long)(number * units[i].ns);
		return true;
	}
	complain("'%s' is not a time such as 50us, 2ms or 800ns", text);
	return false;
}

/* One way to say what to do; a second one contradicts it. */
static bool take_action(struct request *request, enum action action)
{
	if (request->action != ACTION_NONE) {
		complain("give one of -n, -l, -r and -s");
		return false;
	}
	request->action = action;
	return true;
}

static bool take_target(struct request *request, enum target target, char *name)
{
	if (request->target != TARGET_COMMAND && request->target != target) {
		complain("give one of -p, -t and -g");
		return false;
	}
	request->target = target;
	request->names[request->count++] = name;
	return true;
}

static bool take_option(struct request *request, int option)
{
	switch (option) {
	case 'n':
		return take_action(request, ACTION_SET) &&
		       parse_value(optarg, &request->hint);
	case 'l':
		return take_action(request, ACTION_SET) &&
		       parse_limit(optarg, &request->hint);
	case 'k':
		request->hint.flags |= CPUIDLE_LATENCY_KEEP;
		return true;
	case 'f':
		request->hint.flags |= CPUIDLE_LATENCY_RESET_ON_FORK;
		return true;
	case 'r':
		return take_action(request, ACTION_SET);
	case 's':
		return take_action(request, ACTION_SHOW);
	case 'p':
		return take_target(request, TARGET_PID, optarg);
	case 't':
		return take_target(request, TARGET_THREAD, optarg);
	case 'g':
		return take_target(request, TARGET_GROUP, optarg);
	default:
		fputs("Try 'latnice --help'.\n", stderr);
		return false;
	}
}

/* Meaning of options and words, taken together. */
static bool settle(struct request *request, int argc, char **argv)
{
	const bool command = request->target == TARGET_COMMAND && optind < argc;

	if (request->hint.flags && (request->hint.kind == CPUIDLE_LATENCY_NONE ||
				    request->target == TARGET_GROUP)) {
		complain("-k and -f go with -n or -l, for tasks");
		return false;
	}
	if (command && request->action != ACTION_SET) {
		complain("a command needs -n, -l or -r before it");
		return false;
	}
	if (command) {
		request->command = argv + optind;
		return true;
	}
	while (optind < argc)
		request->names[request->count++] = argv[optind++];
	if (request->action == ACTION_SET && !request->count) {
		complain("what is the hint for? Give a command, -p, -t or -g");
		return false;
	}
	if (request->action == ACTION_NONE)
		request->action = ACTION_SHOW;
	return true;
}

static bool parse(int argc, char **argv, struct request *request)
{
	static const struct option options[] = {
		{ "value",	required_argument,	NULL, 'n' },
		{ "limit",	required_argument,	NULL, 'l' },
		{ "keep",	no_argument,		NULL, 'k' },
		{ "reset-on-fork", no_argument,		NULL, 'f' },
		{ "remove",	no_argument,		NULL, 'r' },
		{ "show",	no_argument,		NULL, 's' },
		{ "pid",	required_argument,	NULL, 'p' },
		{ "thread",	required_argument,	NULL, 't' },
		{ "group",	required_argument,	NULL, 'g' },
		{ "help",	no_argument,		NULL, 'h' },
		{ "version",	no_argument,		NULL, 'V' },
		{ }
	};
	int option;

	/* '+': what follows the command belongs to the command. */
	while ((option = getopt_long(argc, argv, "+n:l:kfrsp:t:g:hV", options,
				     NULL)) != -1) {
		if (option == 'h' || option == 'V') {
			fputs(option == 'h' ? help : "latnice " VERSION "\n",
			      stdout);
			exit(fflush(stdout) ? EXIT_SELF : EXIT_SUCCESS);
		}
		if (!take_option(request, option))
			return false;
		/* After -p PID more options may follow the further numbers. */
		while (request->target != TARGET_COMMAND && optind < argc &&
		       *argv[optind] != '-')
			request->names[request->count++] = argv[optind++];
	}
	return settle(request, argc, argv);
}

static int open_device(void)
{
	int device = open(LATNICE_DEVICE, O_RDWR | O_CLOEXEC);

	if (device >= 0)
		return device;
	if (errno == ENOENT && access("/sys/module/cpuidle_lab", F_OK))
		complain("the module cpuidle_lab is not loaded (modprobe cpuidle_lab)");
	else if (errno == ENOENT || errno == ENXIO || errno == ENODEV)
		complain("there is no device %s", LATNICE_DEVICE);
	else
		complain("cannot open %s: %s", LATNICE_DEVICE, strerror(errno));
	return -1;
}

/* A file descriptor of what is named, or -1 after one sentence. */
static int open_target(enum target target, const char *name)
{
	const bool thread = target == TARGET_THREAD;
	long long pid;
	const char *end;
	int fd;

	if (target == TARGET_GROUP) {
		fd = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0)
			complain("%s: %s", name, strerror(errno));
		return fd;
	}
	end = parse_number(name, 1, INT_MAX, &pid);
	if (!end || *end) {
		complain("'%s' is not the number of a %s", name,
			 thread ? "thread" : "process");
		return -1;
	}
	fd = (int)syscall(SYS_pidfd_open, (pid_t)pid, thread ? PIDFD_THREAD : 0);
	if (fd >= 0)
		return fd;
	if (errno == ESRCH)
		complain("%s: no such %s", name, thread ? "thread" : "process");
	else if (errno == EINVAL && thread)
		complain("%s: this kernel cannot name a single thread (Linux 6.9 can)",
			 name);
	else if (errno == EINVAL || errno == ENOENT)
		complain("%s: is a thread, not a process; -t names threads", name);
	else
		complain("%s: %s", name, strerror(errno));
	return -1;
}

static void complain_of_call(enum target target, const char *name, int error)
{
	static const struct reason {
		int error;
		const char *words;
	} reasons[] = {
		{ EPERM, "is of another user, for which CAP_SYS_NICE is needed" },
		{ EACCES, "to ask for more than before, or to keep it, needs CAP_SYS_NICE" },
		{ E2BIG, "the module is older than latnice and does not know this request" },
		{ ESRCH, "no such process" },
		{ EDQUOT, "this user has as many hints as are allowed" },
		{ ENOSPC, "the table of hints, or of different limits, is full" },
		{ ENOMEM, "the kernel has no memory for another hint" },
		{ EOPNOTSUPP, "this kernel does not offer it" },
		{ ENOTTY, "the device does not know this request; do latnice and the module fit?" },
	};
	const char *words = strerror(error);
	size_t i;

	for (i = 0; i < sizeof(reasons) / sizeof(*reasons); i++)
		if (reasons[i].error == error)
			words = reasons[i].words;
	if (target == TARGET_GROUP && error == EBADF)
		words = "is not a control group (v2)";
	if (target == TARGET_GROUP && error == EPERM)
		words = "the group may not be written to";
	complain("%s: %s", name, words);
}

static void show(enum target target, const char *name,
		 const struct cpuidle_latency *hint)
{
	static const char * const nouns[] = {
		[TARGET_PID] = "pid", [TARGET_THREAD] = "thread",
		[TARGET_GROUP] = "group",
	};

	if (target != TARGET_COMMAND)
		printf("%s %s: ", nouns[target], name);
	if (hint->kind == CPUIDLE_LATENCY_VALUE)
		printf("value %d", hint->value);
	else if (hint->kind == CPUIDLE_LATENCY_LIMIT && hint->limit_ns % 1000)
		printf("limit %llu ns", (unsigned long long)hint->limit_ns);
	else if (hint->kind == CPUIDLE_LATENCY_LIMIT)
		printf("limit %llu us", (unsigned long long)hint->limit_ns / 1000);
	else
		printf("no hint");
	printf("%s%s\n",
	       hint->flags & CPUIDLE_LATENCY_KEEP ? ", kept" : "",
	       hint->flags & CPUIDLE_LATENCY_RESET_ON_FORK ? ", not inherited" : "");
}

/* Set or show one hint. */
static bool call(const struct request *request, int device, int fd,
		 const char *name)
{
	const bool group = request->target == TARGET_GROUP;
	struct cpuidle_latency hint = { .fd = fd };
	unsigned long get = group ? CPUIDLE_LATENCY_GET_GROUP :
				    CPUIDLE_LATENCY_GET_TASK;
	unsigned long set = group ? CPUIDLE_LATENCY_SET_GROUP :
				    CPUIDLE_LATENCY_SET_TASK;

	if (request->action == ACTION_SET) {
		hint = request->hint;
		hint.fd = fd;
	}
	if (ioctl(device, request->action == ACTION_SET ? set : get, &hint)) {
		complain_of_call(request->target, name, errno);
		return false;
	}
	if (request->action == ACTION_SHOW)
		show(request->target, name, &hint);
	return true;
}

static int call_all(const struct request *request, int device)
{
	int status = EXIT_SUCCESS;
	int i;

	for (i = 0; i < request->count; i++) {
		int fd = open_target(request->target, request->names[i]);

		if (fd < 0 || !call(request, device, fd, request->names[i]))
			status = EXIT_FAILURE;
		if (fd >= 0)
			close(fd);
	}
	return status;
}

static int run(char **command)
{
	int error;

	execvp(*command, command);
	error = errno;
	complain("%s: %s", *command, strerror(error));
	return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN;
}

int main(int argc, char **argv)
{
	struct request request = { .target = TARGET_COMMAND };
	int status = EXIT_SUCCESS;
	int device;

	request.names = calloc((size_t)argc + 1, sizeof(*request.names));
	if (!request.names || !parse(argc, argv, &request))
		return EXIT_SELF;
	device = open_device();
	if (device < 0)
		return EXIT_SELF;

	if (request.target != TARGET_COMMAND)
		status = call_all(&request, device);
	else if (!call(&request, device, CPUIDLE_LATENCY_SELF, "latnice"))
		status = EXIT_SELF;
	close(device);
	if (status == EXIT_SUCCESS && request.command)
		return run(request.command);
	free(request.names);
	return fflush(stdout) ? EXIT_SELF : status;
}
