// SPDX-License-Identifier: GPL-2.0
/*
 * The governor bpf: a program in BPF decides. teo_ng does while there is none,
 * and where the program took too long. attach.c puts the program there.
 *
 * A program keeps its state in slots of its own memory, one for a governor in use
 * and one for a shadow on each CPU. Each policy state here remembers for which
 * program its slot was initialised; another program does not decide there before.
 *
 * init may take long, so the idle loop does not call it. Where the policy is to
 * start afresh, the CPU asks for an init of the slot, and teo_ng decides. A work
 * calls init and lets the CPU start afresh once more, with the program.
 *
 * All else runs in select, with interrupts off and RCU watching. A program that
 * goes is freed after a grace period.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": bpf: " fmt

#include <linux/irq_work.h>
#include <linux/preempt.h>
#include <linux/sched/clock.h>
#include <linux/workqueue.h>

#include "../governors/teo_ng/teo_ng.h"
#include "bpf/kfuncs.h"
#include "bpf/ops.h"
#include "bpf/program.h"

/* A program is taken off after so many calls that took too long... */
#define EXCESSES_MAX	3

/* ...among so many on one CPU. */
#define EXCESS_PERIOD	1024

/* So long may a call take. */
#define CALL_MAX_NS	(10 * NSEC_PER_MSEC)

/* A host may stop a guest: so many other calls after a slow one clear it. */
#define SLOW_PERIOD	16

/**
 * struct bpf_state - what the governor knows on one CPU
 * @teo: of teo_ng; the first member, for checkpoints
 * @of: the program that was initialised here; NULL: teo_ng decides
 * @slot: where @of keeps its state
 * @calls: counts down to the end of the period for @excesses
 * @excesses: calls that took too long
 */
struct bpf_state {
	struct teo_ng teo;
	const struct cil_bpf_ops *of;
	u32 slot;
	u32 calls;
	u32 excesses;
};

/**
 * struct bpf_slot - memory of the program in which a policy state keeps its own
 * @machine: what init is told
 * @of: the program whose init ran last
 * @era: when that was; 0: the program has been in use since then
 * @generation: of the tunables that init was told
 * @wanted: init is to run
 *
 * The work owns the others while @wanted is set, the CPU's idle task otherwise.
 */
struct bpf_slot {
	struct cil_machine machine;
	const struct cil_bpf_ops *of;
	u32 era;
	u32 generation;
	bool wanted;
};

static DEFINE_PER_CPU(struct bpf_slot [CIL_BPF_SLOTS], slots);

/* Programs come and go, and another may have the address of an earlier one. */
static u32 present_era = 1;

static DEFINE_PER_CPU(struct cil_bpf_counts, counts);

struct cil_bpf_ops __rcu *cil_bpf_active;

/* The program that took too long, as cil_bpf_active then. */
static const struct cil_bpf_ops *taken_off;
static const char *taken_off_why;

/* Queued then, and where an init is wanted. */
static struct work_struct *off_work, *prepare_work;

static struct cil_governor *governor_bpf(void)
{
	return &cil_governors[CIL_GOVERNOR_bpf];
}

/* The idle path queues no work; the interrupt that follows does. */
static void queue_off_work(struct irq_work *work)
{
	schedule_work(off_work);
}

static void queue_prepare_work(struct irq_work *work)
{
	schedule_work(prepare_work);
}

static struct irq_work off_irq_work = IRQ_WORK_INIT(queue_off_work);
static struct irq_work prepare_irq_work = IRQ_WORK_INIT(queue_prepare_work);

static noinline void take_off(const struct cil_bpf_ops *p, const char *why)
{
	if (cmpxchg(&taken_off, NULL, p))
		return;
	WRITE_ONCE(taken_off_why, why);
	irq_work_queue(&off_irq_work);
}

/* The program that decides here; NULL: teo_ng does. */
static const struct cil_bpf_ops *program_of(const struct bpf_state *s)
{
	const struct cil_bpf_ops *p = rcu_dereference_sched(cil_bpf_active);

	return p && p == s->of && p != READ_ONCE(taken_off) ? p : NULL;
}

static noinline void count_excess(struct bpf_state *s,
				  const struct cil_bpf_ops *p, const char *why)
{
	this_cpu_inc(counts.excesses);
	if (++s->excesses >= EXCESSES_MAX)
		take_off(p, why);
}

/* For a program that does not count its loop turns. */
static void watch_clock(struct bpf_state *s, const struct cil_bpf_ops *p,
			u64 start_ns)
{
	if (likely(local_clock() - start_ns <= CALL_MAX_NS))
		return;
	s->calls = SLOW_PERIOD;
	count_excess(s, p, "its calls took more than 10 ms");
}

/* Were the loops of a call cut short? Also counts a call that took too long. */
static bool is_cut_short(struct bpf_state *s, const struct cil_bpf_ops *p,
			 u64 answer, u64 start_ns)
{
	u32 turns = answer >> 32;

	if (unlikely(turns > this_cpu_read(counts.turns)))
		this_cpu_write(counts.turns, turns);
	if (unlikely(!s->calls--)) {
		s->calls = EXCESS_PERIOD;
		s->excesses = 0;
	}
	if (unlikely(answer & CIL_BPF_OVER)) {
		count_excess(s, p, "its loops took more turns than the tunable budget allows");
		return true;
	}
	watch_clock(s, p, start_ns);
	return false;
}

static struct cil_tunable_set *set_of(const void *tunables)
{
	return container_of(tunables, struct cil_tunable_set, value[0]);
}

static u32 slot_number(u32 cpu, bool is_shadow)
{
	return CIL_BPF_SLOTS * cpu + is_shadow;
}

/* Has init of the program run with just this, and nothing since? */
static bool is_prepared(const struct bpf_slot *slot, const struct cil_bpf_ops *p,
			const struct cil_machine *machine,
			const struct cil_tunable_set *set)
{
	return slot->of == p && slot->era == READ_ONCE(present_era) &&
	       slot->generation == set->generation &&
	       !memcmp(&slot->machine, machine, sizeof(*machine));
}

/* The program may decide, or NULL: teo_ng does until init has run. */
static const struct cil_bpf_ops *take_slot(struct bpf_slot *slot,
					   const struct cil_machine *machine,
					   const struct cil_tunable_set *set)
{
	const struct cil_bpf_ops *p = rcu_dereference_sched(cil_bpf_active);
	bool prepared;

	/* Pairs with cil_bpf_prepare(). */
	if (!p || p == READ_ONCE(taken_off) || smp_load_acquire(&slot->wanted))
		return NULL;
	prepared = is_prepared(slot, p, machine, set);
	slot->era = 0;
	if (prepared)
		return p;
	memcpy(&slot->machine, machine, sizeof(*machine));
	/* Pairs with cil_bpf_prepare(). */
	smp_store_release(&slot->wanted, true);
	irq_work_queue(&prepare_irq_work);
	return NULL;
}

static void bpf_init(void *state, const struct cil_machine *machine,
		     const void *tunables)
{
	struct bpf_state *s = state;
	bool is_shadow = state != per_cpu_ptr(governor_bpf()->state, machine->cpu);

	memset(s, 0, sizeof(*s));
	teo_ng_init(&s->teo);
	s->slot = slot_number(machine->cpu, is_shadow);
	s->of = take_slot(&per_cpu(slots, machine->cpu)[is_shadow], machine,
			  set_of(tunables));
}

static void bpf_select(void *state, const struct cil_machine *machine,
		       const void *tunables, struct cil_query *query,
		       struct cil_decision *decision)
{
	struct bpf_state *s = state;
	const struct cil_bpf_ops *p = program_of(s);
	u64 answer, start_ns;

	if (!p)
		goto fall_back;
	start_ns = local_clock();
	this_cpu_write(cil_bpf_governs, true);
	this_cpu_write(cil_bpf_asking, query);
	answer = p->select(query, set_of(tunables), s->slot);
	this_cpu_write(cil_bpf_asking, NULL);
	this_cpu_write(cil_bpf_governs, false);
	if (is_cut_short(s, p, answer, start_ns))
		goto fall_back;
	decision->index = answer;
	decision->stop_tick = !!(answer & CIL_BPF_STOP_TICK);
	decision->row = answer >> 16;
	decision->reason = answer >> 24;
	this_cpu_inc(counts.decisions);
	return;

fall_back:
	teo_ng_select(&s->teo, machine, query, decision);
	this_cpu_inc(counts.fallbacks);
}

static void bpf_update(void *state, const struct cil_machine *machine,
		       const void *tunables, const struct cil_outcome *outcome)
{
	struct bpf_state *s = state;
	const struct cil_bpf_ops *p = program_of(s);
	u64 answer, start_ns;

	if (!p) {
		teo_ng_update(&s->teo, machine, outcome);
		return;
	}
	start_ns = local_clock();
	this_cpu_write(cil_bpf_governs, true);
	answer = p->update((struct cil_outcome *)outcome, set_of(tunables),
			   s->slot);
	this_cpu_write(cil_bpf_governs, false);
	is_cut_short(s, p, answer, start_ns);
}

static void bpf_dump(const void *state, const struct cil_machine *machine,
		     const void *tunables, u64 now_ns, struct cil_sink *sink)
{
	const struct bpf_state *s = state;

	/* The program may be gone; the pointer says only that there was one. */
	if (s->of)
		cil_env_print(sink, "a program in BPF decides: cpuidle-lab bpf dump\n");
	else
		teo_ng_dump(&s->teo, machine, sink);
}

#define VALUE(n) {							\
	.name = "t" #n,							\
	.unit = "",							\
	.what = "Tunable " #n " of the program in BPF.",		\
	.why = "The program gives the default when it is attached.",	\
	.min = 0, .max = U32_MAX, .def = 0,				\
}

static const struct cil_tunable bpf_tunables[] = {
	{
		.name = "budget",
		.unit = "loop turns",
		.what = "A call of the program with more loop turns is ended, and teo_ng decides.",
		.why = "A turn takes about 19 instructions: 20 us at one a nanosecond.",
		.min = 16, .max = 1000000, .def = 1000,
	},
	VALUE(0), VALUE(1), VALUE(2), VALUE(3), VALUE(4), VALUE(5), VALUE(6),
	VALUE(7), VALUE(8), VALUE(9), VALUE(10), VALUE(11), VALUE(12),
	VALUE(13), VALUE(14), VALUE(15), VALUE(16), VALUE(17), VALUE(18),
	VALUE(19), VALUE(20), VALUE(21), VALUE(22),
};

static_assert(ARRAY_SIZE(bpf_tunables) == CIL_TUNABLE_MAX,
	      "a tunable for each value");

const struct cil_policy bpf_policy = {
	.name = "bpf",
	.state_size = sizeof(struct bpf_state),
	.tunables = bpf_tunables,
	.tunable_count = CIL_TUNABLE_MAX,
	.init = bpf_init,
	.select = bpf_select,
	.update = bpf_update,
	.dump = bpf_dump,
};

/**
 * cil_bpf_decides() - is a governor the one whose programs are in BPF?
 * @governor: the governor, or NULL
 *
 * Context: any.
 */
bool cil_bpf_decides(const struct cil_governor *governor)
{
	return governor == governor_bpf();
}

/**
 * cil_bpf_name() - which policy a state is of
 * @state: of the governor bpf
 * @text: receives "bpf:NAME@HASH", or "bpf:teo_ng" and why
 * @size: room in @text, at least CIL_BPF_NAME
 *
 * Context: idle task, interrupts off.
 */
void cil_bpf_name(const void *state, char *text, size_t size)
{
	const struct bpf_state *s = state;
	const struct cil_bpf_ops *p = program_of(s);
	const struct cil_bpf_ops *off = READ_ONCE(taken_off);

	if (p)
		scnprintf(text, size, "bpf:%s@%016llx", p->name, p->hash);
	else if (off && off == rcu_dereference_sched(cil_bpf_active))
		scnprintf(text, size, "bpf:teo_ng (%s@%016llx took too long)",
			  off->name, off->hash);
	else
		scnprintf(text, size, "bpf:teo_ng");
}

/**
 * cil_bpf_state_size() - bytes that cil_bpf_read_state() can read
 * @state: of the governor bpf
 *
 * Context: idle task, interrupts off.
 */
u32 cil_bpf_state_size(const void *state)
{
	const struct bpf_state *s = state;
	const struct cil_bpf_ops *p = program_of(s);

	return p ? p->state_size : sizeof(s->teo);
}

/**
 * cil_bpf_read_state() - a part of what the policy in use has learned
 * @state: of the governor bpf
 * @offset: where the part begins, a multiple of 8
 * @to: receives it
 * @size: its bytes, within cil_bpf_state_size() as it was for the first part
 *
 * A program may have gone since then, or take too long. What is left is 0.
 *
 * Context: idle task, interrupts off.
 */
void cil_bpf_read_state(void *state, u32 offset, void *to, u32 size)
{
	struct bpf_state *s = state;
	const struct cil_bpf_ops *p = program_of(s);
	u64 start_ns = local_clock();
	u32 i;

	memset(to, 0, size);
	if (!p) {
		if (offset < sizeof(s->teo))
			memcpy(to, (const void *)&s->teo + offset,
			       min_t(u32, size, sizeof(s->teo) - offset));
		return;
	}
	for (i = 0; i < size && local_clock() - start_ns <= CALL_MAX_NS;
	     i += sizeof(u64)) {
		u64 word = p->read(s->slot, offset + i);

		memcpy(to + i, &word, min_t(u32, size - i, sizeof(word)));
	}
	watch_clock(s, p, start_ns);
}

/**
 * cil_bpf_taken_off() - the program that took too long
 * @why: receives the reason, if there is such a program
 *
 * Context: any.
 * Return: the program, or NULL.
 */
const struct cil_bpf_ops *cil_bpf_taken_off(const char **why)
{
	*why = READ_ONCE(taken_off_why) ?: "it took too long";
	return READ_ONCE(taken_off);
}

/**
 * cil_bpf_begin_era() - forget what earlier programs did
 *
 * The program that was taken off may decide again, but no program before its
 * next init.
 *
 * Context: process; serialised by the caller, as cil_bpf_prepare() is.
 */
void cil_bpf_begin_era(void)
{
	WRITE_ONCE(taken_off, NULL);
	WRITE_ONCE(present_era, present_era + 1 ?: 1);
}

/**
 * cil_bpf_prepare() - call init for a slot if that is wanted
 * @p: the active program, NULL if there is none
 * @cpu: number of the CPU
 * @is_shadow: which of its slots
 *
 * The CPU's idle task uses the program's memory of this CPU, too: no switch to
 * it may come in between.
 *
 * Context: process; serialised by the caller, which also keeps @p.
 * Return: true if the CPU must start afresh for the program to decide.
 */
bool cil_bpf_prepare(const struct cil_bpf_ops *p, u32 cpu, bool is_shadow)
{
	struct bpf_slot *slot = &per_cpu(slots, cpu)[is_shadow];
	bool runs = p && p != READ_ONCE(taken_off);
	struct cil_tunable_set *set;

	/* Pairs with take_slot(). */
	if (!smp_load_acquire(&slot->wanted))
		return false;
	if (runs) {
		preempt_disable();
		set = rcu_dereference_sched(governor_bpf()->tunables);
		this_cpu_write(cil_bpf_governs, true);
		p->init(&slot->machine, set, slot_number(cpu, is_shadow));
		this_cpu_write(cil_bpf_governs, false);
		slot->generation = set->generation;
		preempt_enable();
		slot->of = p;
		slot->era = present_era;
	}
	/* Pairs with take_slot(). */
	smp_store_release(&slot->wanted, false);
	return runs;
}

/**
 * cil_bpf_sum_counts() - what happened on all CPUs
 * @sum: receives it
 *
 * Context: any.
 */
void cil_bpf_sum_counts(struct cil_bpf_counts *sum)
{
	int n;

	memset(sum, 0, sizeof(*sum));
	for_each_possible_cpu(n) {
		const struct cil_bpf_counts *here = per_cpu_ptr(&counts, n);

		sum->decisions += here->decisions;
		sum->fallbacks += here->fallbacks;
		sum->excesses += here->excesses;
		sum->turns = max(sum->turns, here->turns);
	}
}

/**
 * cil_bpf_watch() - name the works that the idle loop leaves to processes
 * @off: queued when a program is taken off
 * @prepare: queued when an init is wanted; it calls cil_bpf_prepare() for all slots
 *
 * Context: process; before a program is attached.
 */
void cil_bpf_watch(struct work_struct *off, struct work_struct *prepare)
{
	off_work = off;
	prepare_work = prepare;
}

/**
 * cil_bpf_unwatch() - the works of cil_bpf_watch() are not queued any more
 *
 * Context: process, may sleep; no governor is registered any more.
 */
void cil_bpf_unwatch(void)
{
	irq_work_sync(&off_irq_work);
	irq_work_sync(&prepare_irq_work);
}
