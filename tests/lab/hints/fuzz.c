// SPDX-License-Identifier: GPL-2.0
/*
 * Random calls of the device.
 *
 *	fuzz SEED CALLS
 *
 * Most are nearly right: a known command with one thing wrong, or nothing.
 * Among the targets are the program itself, children that come and go, threads,
 * groups (all folders below /sys/fs/cgroup/fuzz), and files of other kinds.
 * Prints how often each error came; ends with 1 if one came that no call may
 * give.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "call.h"

#define CHILDREN	16
#define GROUPS		4
#define ERRORS		134

static int device;
static uint64_t state;
static int pids[CHILDREN];
static int fds[CHILDREN];
static unsigned int seen[ERRORS];

static uint32_t draw(uint32_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)((state * 0x2545f4914f6cdd1dULL) >> 33) % below;
}

static int is_allowed(int error)
{
	static const int allowed[] = {
		0, EPERM, ESRCH, EBADF, ENOMEM, EACCES, EFAULT, EINVAL, ENOTTY,
		ENOSPC, EDQUOT, EOPNOTSUPP, E2BIG,
	};
	size_t i;

	for (i = 0; i < sizeof(allowed) / sizeof(*allowed); i++)
		if (allowed[i] == error)
			return 1;
	return 0;
}

static void replace_child(uint32_t i)
{
	if (pids[i]) {
		kill(pids[i], SIGKILL);
		/* Half of them stay zombies for a while, behind their pidfd. */
		if (draw(2))
			waitpid(pids[i], NULL, 0);
		if (draw(2))
			close(fds[i]);
	}
	pids[i] = fork();
	if (!pids[i]) {
		if (draw(2))
			_exit(0);
		for (;;)
			pause();
	}
	fds[i] = open_pidfd(pids[i], draw(4) ? 0 : PIDFD_THREAD);
	while (waitpid(-1, NULL, WNOHANG) > 0)
		;
}

static int open_group(void)
{
	char name[64];

	snprintf(name, sizeof(name), "/sys/fs/cgroup/fuzz/%u", draw(GROUPS));
	switch (draw(8)) {
	case 0:
		rmdir(name);
		break;
	case 1:
		mkdir(name, 0755);
		break;
	}
	return open(name, draw(4) ? O_RDONLY : O_PATH);
}

static int open_any(void)
{
	static const char *const names[] = {
		"/", "/dev/null", "/proc/self", "/proc/1", "/sys/fs/cgroup",
		"/proc/self/exe", "/dev/cpuidle_latency",
	};

	return open(names[draw(sizeof(names) / sizeof(*names))], O_RDONLY);
}

/* Returns a target; @mine says whether it is to be closed. */
static int open_target(int *mine)
{
	uint32_t i = draw(CHILDREN);

	*mine = 0;
	switch (draw(16)) {
	case 0:
		return CPUIDLE_LATENCY_SELF;
	case 1:
		return (int)draw(UINT32_MAX);
	case 2:
		replace_child(i);
		return fds[i];
	case 3:
		*mine = 1;
		return open_any();
	case 4:
	case 5:
	case 6:
		*mine = 1;
		return open_group();
	case 7:
		*mine = 1;
		return open_pidfd(1, 0);
	}
	return fds[i];
}

static unsigned long draw_command(void)
{
	static const unsigned long commands[] = {
		CPUIDLE_LATENCY_SET_TASK, CPUIDLE_LATENCY_SET_TASK,
		CPUIDLE_LATENCY_GET_TASK, CPUIDLE_LATENCY_SET_GROUP,
		CPUIDLE_LATENCY_GET_GROUP,
	};

	if (!draw(16))
		return commands[draw(5)] ^ (1UL << draw(32));
	return commands[draw(5)];
}

static void fill(struct cpuidle_latency *arg)
{
	memset(arg, 0, sizeof(*arg));
	arg->kind = draw(16) ? draw(3) : draw(UINT32_MAX);
	if (arg->kind == CPUIDLE_LATENCY_VALUE)
		arg->value = (int)draw(40) - 20;
	if (arg->kind == CPUIDLE_LATENCY_LIMIT)
		arg->limit_ns = (uint64_t)draw(200) * 1000;
	switch (draw(32)) {
	case 0:
		arg->value = (int)draw(UINT32_MAX);
		break;
	case 1:
		arg->limit_ns = (uint64_t)draw(UINT32_MAX) << draw(34);
		break;
	case 2:
		arg->flags = draw(8);
		break;
	}
}

static void call_once(void *bad)
{
	struct cpuidle_latency arg;
	int mine;
	int ret;

	fill(&arg);
	arg.fd = open_target(&mine);
	ret = ioctl(device, draw_command(), draw(64) ? (void *)&arg : bad);
	ret = ret ? errno : 0;
	seen[ret < ERRORS ? ret : 0]++;
	if (!is_allowed(ret)) {
		printf("unexpected: %s\n", strerrorname_np(ret));
		exit(1);
	}
	if (mine && arg.fd >= 0)
		close(arg.fd);
}

int main(int argc, char **argv)
{
	unsigned long calls;
	void *bad;
	int i;

	if (argc != 3)
		return 2;
	state = strtoull(argv[1], NULL, 0) * 2 + 1;
	device = open_device();
	bad = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (i = 0; i < CHILDREN; i++)
		replace_child((uint32_t)i);
	for (calls = strtoul(argv[2], NULL, 0); calls; calls--)
		call_once(bad);
	for (i = 0; i < CHILDREN; i++)
		kill(pids[i], SIGKILL);
	for (i = 0; i < ERRORS; i++)
		if (seen[i])
			printf("%s=%u ", i ? strerrorname_np(i) : "ok", seen[i]);
	puts("");
	return 0;
}
