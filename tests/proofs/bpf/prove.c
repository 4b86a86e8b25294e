// SPDX-License-Identifier: GPL-2.0
/*
 * The native policy beside the program in BPF, in the kernel, on the idle
 * periods of tests/proofs/equality/stream.c. The proof adds this file to the module's
 * sources; no other build has it.
 *
 *	echo SEED PERIODS >/sys/module/cpuidle_lab/parameters/bpf_prove
 *	cat /sys/module/cpuidle_lab/parameters/bpf_prove
 */
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/sched/clock.h>
#include <linux/slab.h>

#include "bpf/kfuncs.h"
#include "bpf/ops.h"
#include "bpf/program.h"
#include "bpf/stream.h"

/**
 * struct spent - time in calls of one function; virtual time counts instructions
 * @sum_ns: of all calls, with what reading the clock takes
 * @most_ns: of one call
 * @calls: number of calls
 */
struct spent {
	u64 sum_ns;
	u64 most_ns;
	u64 calls;
};

/**
 * struct proof - a comparison that goes on
 * @stream: the idle periods
 * @period: the present one
 * @p: the program
 * @policy: the native one
 * @state: of the native one
 * @set: tunables of both
 * @rejected: no idle period followed the last decision
 * @compared: decisions, and how many differed
 * @states: comparisons of the whole state, and how many differed
 * @turns: most loop turns of a call
 * @spent: in select and in update, of the native one and of the program
 * @first: the first difference
 */
struct proof {
	struct stream stream;
	struct period period;
	const struct cil_bpf_ops *p;
	const struct cil_policy *policy;
	void *state;
	struct cil_tunable_set set;
	bool rejected;
	u64 compared[2], states[2];
	u32 turns;
	struct spent spent[2][2];
	char first[256];
};

enum { SELECT, UPDATE };
enum { NATIVE, PROGRAM };

static const struct cil_bpf_ops *proved_program(void)
{
	return rcu_dereference_protected(cil_bpf_active, true);
}

static char result[1024] = "nothing was compared\n";

/* The module's environment finds the timer in the record. */
static void set_timer(const struct cil_query *query)
{
	struct cil_record *r = &this_cpu_ptr(cil_cpus)->record;

	r->timers_seq = r->seq;
	r->sleep_length_ns = query->sleep_length_ns;
	r->delta_tick_ns = query->delta_tick_ns;
}

static u32 slot_of(void)
{
	return 2 * smp_processor_id() + 1;
}

/* Any values that the policy accepts, all of them at once. */
static void draw_tunables(struct proof *t)
{
	u32 i;

	t->set.generation++;
	for (i = 0; i < t->policy->tunable_count; i++) {
		const struct cil_tunable *one = &t->policy->tunables[i];
		u64 width = (u64)one->max - one->min + 1;
		u64 drawn = t->period.draw[i % 4] >> (i % 7);

		t->set.value[CIL_BPF_OWN_TUNABLES + i] =
			t->set.generation % 2 ? one->def : one->min + drawn % width;
	}
}

static void begin_afresh(struct proof *t)
{
	t->rejected = false;
	draw_tunables(t);
	t->stream.machine.cpu = smp_processor_id();
	t->policy->init(t->state, &t->stream.machine,
			&t->set.value[CIL_BPF_OWN_TUNABLES]);
	t->p->init(&t->stream.machine, &t->set, slot_of());
}

static void differ(struct proof *t, const struct cil_decision *native,
		   bool native_asked, u64 answer, bool asked)
{
	if (!t->compared[1]++)
		scnprintf(t->first, sizeof(t->first),
			  "period %llu on %s: native index %u stop_tick %u row %u reason %u asked %u, in BPF %016llx asked %u",
			  t->compared[0], t->stream.machine_name, native->index,
			  native->stop_tick, native->row, native->reason,
			  native_asked, answer, asked);
}

static void count_spent(struct spent *spent, u64 start_ns)
{
	u64 took_ns = local_clock() - start_ns;

	spent->sum_ns += took_ns;
	spent->most_ns = max(spent->most_ns, took_ns);
	spent->calls++;
}

static void decide(struct proof *t, struct cil_decision *native)
{
	struct cil_query told = t->period.query, told_bpf;
	u64 answer, same, start_ns;

	told.rejected = t->rejected;
	told_bpf = told;
	set_timer(&t->period.query);
	told.sleep_length_ns = 0;
	told.delta_tick_ns = 0;
	start_ns = local_clock();
	t->policy->select(t->state, &t->stream.machine,
			  &t->set.value[CIL_BPF_OWN_TUNABLES], &told, native);
	count_spent(&t->spent[SELECT][NATIVE], start_ns);
	this_cpu_write(cil_bpf_asking, &told_bpf);
	start_ns = local_clock();
	answer = t->p->select(&told_bpf, &t->set, slot_of());
	count_spent(&t->spent[SELECT][PROGRAM], start_ns);
	this_cpu_write(cil_bpf_asking, NULL);
	same = native->index | (u64)native->stop_tick << 8 |
	       (u64)native->row << 16 | (u64)native->reason << 24;
	t->turns = max_t(u32, t->turns, answer >> 32);
	t->compared[0]++;
	if ((u32)answer != same || told.asked != told_bpf.asked)
		differ(t, native, told.asked, answer, told_bpf.asked);
}

static void learn(struct proof *t)
{
	u64 answer, start_ns;

	start_ns = local_clock();
	t->policy->update(t->state, &t->stream.machine,
			  &t->set.value[CIL_BPF_OWN_TUNABLES], &t->period.outcome);
	count_spent(&t->spent[UPDATE][NATIVE], start_ns);
	start_ns = local_clock();
	answer = t->p->update(&t->period.outcome, &t->set, slot_of());
	count_spent(&t->spent[UPDATE][PROGRAM], start_ns);
	t->turns = max_t(u32, t->turns, answer >> 32);
	if (answer & CIL_BPF_OVER)
		t->compared[1]++;
}

static void compare_states(struct proof *t)
{
	const u64 *native = t->state;
	u32 words = t->policy->state_size / sizeof(u64);
	u32 i;

	t->states[0]++;
	for (i = 0; i < words; i++)
		if (t->p->read(slot_of(), i * sizeof(u64)) != native[i])
			break;
	t->states[1] += i < words;
}

static void live_period(struct proof *t)
{
	struct cil_decision decision;
	unsigned long flags;

	stream_next(&t->stream, &t->period);
	local_irq_save(flags);
	if (t->period.enabled)
		begin_afresh(t);
	decide(t, &decision);
	stream_live(&t->stream, &t->period, &decision);
	if (t->period.fate == FATE_ENTERED)
		learn(t);
	t->rejected = t->period.fate != FATE_ENTERED;
	if (t->compared[0] % 256 == 0)
		compare_states(t);
	local_irq_restore(flags);
}

/* Time of two readings of the clock, one after the other. */
static u64 clock_ns(void)
{
	u64 least_ns = U64_MAX;
	int i;

	for (i = 0; i < 1000; i++) {
		u64 start_ns = local_clock();

		least_ns = min(least_ns, local_clock() - start_ns);
	}
	return least_ns;
}

static size_t say_spent(const struct proof *t, char *text, size_t size)
{
	static const char *const name[2][2] = {
		{ "native_select", "select" }, { "native_update", "update" },
	};
	u64 clock = clock_ns();
	size_t used = 0;
	int i;

	for (i = 0; i < 4; i++) {
		const struct spent *s = &t->spent[i / 2][i % 2];

		used += scnprintf(text + used, size - used, "%s_ns=%llu %s_most_ns=%llu ",
				  name[i / 2][i % 2],
				  div64_u64(s->sum_ns, max(s->calls, 1ULL)) - clock,
				  name[i / 2][i % 2], s->most_ns - clock);
	}
	return used;
}

static int prove(struct proof *t, const struct cil_bpf_ops *p, u64 seed, u64 periods)
{
	const struct cil_governor *native = cil_governor_find(p->name);
	size_t used;

	if (!native || !native->policy)
		return -ENOENT;
	t->p = p;
	t->policy = native->policy;
	t->set.value[0] = 100000;
	t->state = kzalloc(t->policy->state_size, GFP_KERNEL);
	if (!t->state)
		return -ENOMEM;
	stream_init(&t->stream, seed);
	/* One CPU has the state: the writer is bound to it. */
	while (t->compared[0] < periods) {
		live_period(t);
		cond_resched();
	}
	used = scnprintf(result, sizeof(result),
			 "policy=%s periods=%llu differ=%llu states=%llu states_differ=%llu turns_max=%u\n",
			 p->name, t->compared[0], t->compared[1], t->states[0],
			 t->states[1], t->turns);
	used += say_spent(t, result + used, sizeof(result) - used);
	scnprintf(result + used, sizeof(result) - used, "\n%s\n", t->first);
	kfree(t->state);
	return 0;
}

static int prove_set(const char *text, const struct kernel_param *kp)
{
	/* The script that writes also keeps the program attached. */
	const struct cil_bpf_ops *p = proved_program();
	struct proof *t;
	u64 seed, periods;
	int ret;

	if (sscanf(text, "%llu %llu", &seed, &periods) != 2 || !p)
		return -EINVAL;
	t = kzalloc(sizeof(*t), GFP_KERNEL);
	if (!t)
		return -ENOMEM;
	ret = prove(t, p, seed, periods);
	kfree(t);
	return ret;
}

static int prove_get(char *buffer, const struct kernel_param *kp)
{
	return scnprintf(buffer, PAGE_SIZE, "%s", result);
}

static const struct kernel_param_ops prove_ops = {
	.set = prove_set,
	.get = prove_get,
};
module_param_cb(bpf_prove, &prove_ops, NULL, 0600);
