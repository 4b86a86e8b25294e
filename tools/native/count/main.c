// SPDX-License-Identifier: GPL-2.0
/*
 * count POLICY FILE: play the intervals in FILE, and say how many decisions
 * that took. FILE holds the structs and columns as they lie in memory: machine,
 * model, tunables, number of rows, then the columns in the order of struct
 * rp_intervals. It is made by the program that runs this one, see
 * cpuidle_lab/replay/instructions.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../replay/replay.h"
#include "count.h"

static void *get(FILE *file, size_t size)
{
	void *data = malloc(size ? size : 1);

	if (!data || (size && fread(data, size, 1, file) != 1)) {
		fputs("count: the file ends too early\n", stderr);
		exit(1);
	}
	return data;
}

static const struct cil_policy *find(const char *name)
{
	u32 i;

	for (i = 0; i < rp_policy_count(); i++) {
		const struct cil_policy *policy = rp_policy(i);

		if (policy && !strcmp(policy->name, name))
			return count_wrapped(policy);
	}
	fprintf(stderr, "count: no policy %s\n", name);
	exit(1);
}

static struct rp_intervals columns(FILE *file)
{
	size_t count = *(u64 *)get(file, sizeof(u64));
	struct rp_intervals in = { .count = count };
	size_t answers = 0, i;

	in.start_ns = get(file, count * sizeof(*in.start_ns));
	in.length_ns = get(file, count * sizeof(*in.length_ns));
	in.timer_ns = get(file, count * sizeof(*in.timer_ns));
	in.tick_phase_ns = get(file, count * sizeof(*in.tick_phase_ns));
	in.latency_req_ns = get(file, count * sizeof(*in.latency_req_ns));
	in.disabled = get(file, count * sizeof(*in.disabled));
	in.flags = get(file, count * sizeof(*in.flags));
	in.last_index = get(file, count * sizeof(*in.last_index));
	in.answers = get(file, count * sizeof(*in.answers));
	for (i = 0; i < count; i++)
		answers += in.answers[i];
	in.answer_at_ns = get(file, answers * sizeof(*in.answer_at_ns));
	in.answer_timer_ns = get(file, answers * sizeof(*in.answer_timer_ns));
	in.answer_served_ns = get(file, answers * sizeof(*in.answer_served_ns));
	in.answer_back_ns = get(file, answers * sizeof(*in.answer_back_ns));
	in.answer_phase_ns = get(file, answers * sizeof(*in.answer_phase_ns));
	return in;
}

int main(int argc, char **argv)
{
	const struct cil_machine *machine;
	const struct rp_model *model;
	struct rp_intervals intervals;
	struct rp_totals totals;
	const u32 *tunables;
	struct rp_run *run;
	FILE *file;

	if (argc != 3) {
		fputs("usage: count POLICY FILE\n", stderr);
		return 2;
	}
	file = fopen(argv[2], "rb");
	if (!file) {
		perror(argv[2]);
		return 1;
	}
	machine = get(file, sizeof(*machine));
	model = get(file, sizeof(*model));
	tunables = get(file, CIL_TUNABLE_MAX * sizeof(*tunables));
	intervals = columns(file);
	run = rp_open(find(argv[1]), machine, model, tunables);
	if (!run)
		return 1;
	rp_play(run, &intervals, NULL);
	rp_totals(run, &totals);
	rp_close(run);
	printf("%llu\n", (unsigned long long)totals.decisions);
	return 0;
}
