// SPDX-License-Identifier: GPL-2.0
/*
 * The hardware's residency counters: what a machine really did, whatever the kernel asked for.
 *
 * Intel's machines have one PMU for cores and one for packages, cpuidle_emul has one. Each counter
 * counts ticks of the time stamp counter, so that counter is read beside it. What cannot be opened
 * is left out: the counters may be unknown, or not be allowed.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <inttypes.h>
#include <limits.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "residency.h"

#define PMUS		"/sys/bus/event_source/devices"
#define COUNTERS_MAX	8192
#define TEXT_MAX	4096

static const char *const pmus[] = { "cstate_core", "cstate_pkg", "cpuidle_emul" };

/**
 * struct counter - an open counter
 * @name: PMU and event
 * @cpu: the CPU that it is read on, one of the core or package
 * @fd: the counter
 * @ticks_fd: the time stamp counter of this CPU
 */
static struct counter {
	char name[NAME_MAX + 20];
	int cpu;
	int fd;
	int ticks_fd;
} *counters;
static int count;

static bool read_text(char *text, const char *pmu, const char *folder, const char *name)
{
	char path[512];
	size_t length;
	FILE *file;

	snprintf(path, sizeof(path), PMUS "/%s/%s/%s", pmu, folder, name);
	file = fopen(path, "re");
	if (!file)
		return false;
	length = fread(text, 1, TEXT_MAX - 1, file);
	text[length] = '\0';
	fclose(file);
	return length > 0;
}

/* Opens an event that sysfs describes, on a CPU. */
static int open_event(const char *pmu, const char *event, int cpu)
{
	struct perf_event_attr attr = { .size = sizeof(attr) };
	char text[TEXT_MAX];

	if (!read_text(text, pmu, ".", "type"))
		return -1;
	attr.type = strtoul(text, NULL, 10);
	if (!read_text(text, pmu, "events", event) || strncmp(text, "event=", 6))
		return -1;
	attr.config = strtoull(text + 6, NULL, 0);
	return syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

static void open_counter(const char *pmu, const char *event, int cpu)
{
	struct counter *counter = &counters[count];

	if (count == COUNTERS_MAX)
		return;
	counter->fd = open_event(pmu, event, cpu);
	if (counter->fd < 0)
		return;
	counter->ticks_fd = open_event("msr", "tsc", cpu);
	if (counter->ticks_fd < 0) {
		close(counter->fd);
		return;
	}
	counter->cpu = cpu;
	snprintf(counter->name, sizeof(counter->name), "%s/%s", pmu, event);
	count++;
}

/* Opens an event on all CPUs of a list such as "0,2-4". */
static void open_on(const char *pmu, const char *event, const char *cpus)
{
	while (*cpus >= '0' && *cpus <= '9') {
		char *end;
		long first = strtol(cpus, &end, 10);
		long last = *end == '-' ? strtol(end + 1, &end, 10) : first;

		for (; first <= last && count < COUNTERS_MAX; first++)
			open_counter(pmu, event, first);
		cpus = end + (*end == ',');
	}
}

static void open_pmu(const char *pmu)
{
	char path[512], cpus[TEXT_MAX];
	struct dirent *entry;
	DIR *folder;

	snprintf(path, sizeof(path), PMUS "/%s/events", pmu);
	folder = opendir(path);
	if (!folder)
		return;
	if (read_text(cpus, pmu, ".", "cpumask"))
		while ((entry = readdir(folder)))
			if (strstr(entry->d_name, "-residency"))
				open_on(pmu, entry->d_name, cpus);
	closedir(folder);
}

/* Opens all counters; they count from here on. */
void residency_open(void)
{
	struct rlimit files;
	size_t i;

	counters = calloc(COUNTERS_MAX, sizeof(*counters));
	if (!counters)
		return;
	/* Two for each core and event. */
	if (!getrlimit(RLIMIT_NOFILE, &files)) {
		files.rlim_cur = files.rlim_max;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	for (i = 0; i < sizeof(pmus) / sizeof(*pmus); i++)
		open_pmu(pmus[i]);
}

/* Prints a line for each counter: PMU/EVENT CPU COUNT TICKS. */
void residency_print(void)
{
	uint64_t value, ticks;
	int i;

	for (i = 0; i < count; i++) {
		const struct counter *counter = &counters[i];

		if (read(counter->fd, &value, sizeof(value)) == sizeof(value) &&
		    read(counter->ticks_fd, &ticks, sizeof(ticks)) == sizeof(ticks))
			printf("%s %d %" PRIu64 " %" PRIu64 "\n", counter->name, counter->cpu,
			       value, ticks);
	}
}
