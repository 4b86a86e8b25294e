// SPDX-License-Identifier: GPL-2.0
/*
 * evacuate - which CPUs go, and how many
 */

/**
 * DOC: the order of evacuation
 *
 * A core saves most when all of its threads sleep, and a package when all of
 * its cores do. So CPUs go in an order that empties whole cores and packages.
 * Each step decides among CPUs that the steps before it leave equal:
 *
 * 1. CPUs that the user named go before all others. Isolated CPUs that the
 *    user did not name stay.
 * 2. The core of the boot CPU goes last: interrupts that cannot be moved
 *    arrive there.
 * 3. On hybrid machines one class goes before the others; the user says which.
 * 4. Packages that can become empty go before those that cannot, because the
 *    boot CPU or an isolated CPU stays there.
 * 5. The package with the highest number goes first, in it the core with the
 *    highest number, and in it the thread with the highest number.
 *
 * The number of CPUs that stay is the percentage of the online CPUs, rounded to
 * the nearest number. Of 8 CPUs 87, 75, 62 and 50 % leave 7, 6, 5 and 4. One
 * CPU always stays.
 */

#include "order.h"

#define KEY_BIT(n)	((u64)1 << (n))

/* Fields of the key, most significant first; numbers are turned round. */
#define KEY_NOT_ASKED	KEY_BIT(63)
#define KEY_STAYS	KEY_BIT(62)
#define KEY_BOOT_CORE	KEY_BIT(61)
#define KEY_CLASS(n)	((u64)(n) << 50)
#define KEY_KEPT	KEY_BIT(49)
#define KEY_PACKAGE(n)	((u64)(0xffff - ((n) & 0xffff)) << 32)
#define KEY_CORE(n)	((u64)(0xffff - ((n) & 0xffff)) << 16)
#define KEY_CPU(n)	((u64)(0xffff - ((n) & 0xffff)))

/* Classes that are told apart; machines have two or three. */
#define CLASS_MAX	0x7ffU

/**
 * evacuate_left() - how many CPUs stay in use
 * @online: number of online CPUs
 * @max_capacity_pct: share that stays, 1 to 100
 *
 * Return: the number, at least 1.
 */
u32 evacuate_left(u32 online, u32 max_capacity_pct)
{
	u32 left = (online * max_capacity_pct + 50) / 100;

	return left ? left : 1;
}

static void sift(struct evacuate_cpu *cpus, u32 from, u32 count)
{
	struct evacuate_cpu moved = cpus[from];
	u32 child;

	while ((child = 2 * from + 1) < count) {
		if (child + 1 < count && cpus[child].key < cpus[child + 1].key)
			child++;
		if (cpus[child].key <= moved.key)
			break;
		cpus[from] = cpus[child];
		from = child;
	}
	cpus[from] = moved;
}

/* By key, smallest first: a heap needs no memory, and no time to fear. */
static void sort_by_key(struct evacuate_cpu *cpus, u32 count)
{
	struct evacuate_cpu last;
	u32 n;

	for (n = count / 2; n-- > 0;)
		sift(cpus, n, count);
	for (n = count; n-- > 1;) {
		last = cpus[n];
		cpus[n] = cpus[0];
		cpus[0] = last;
		sift(cpus, 0, n);
	}
}

static u32 core_of(const struct evacuate_cpu *cpus, u32 count, u32 cpu)
{
	u32 n;

	for (n = 0; n < count; n++)
		if (cpus[n].cpu == cpu)
			return cpus[n].core;
	/* The boot CPU may be offline. */
	return U32_MAX;
}

static u64 class_key(const struct evacuate_cpu *cpu, u32 order)
{
	u32 capacity = cpu->capacity < CLASS_MAX ? cpu->capacity : CLASS_MAX;

	return KEY_CLASS(order == EVACUATE_EFFICIENT_FIRST ? capacity :
							     CLASS_MAX - capacity);
}

/* CPUs are sorted by package; those of a package that cannot sleep are marked. */
static void mark_kept_packages(struct evacuate_cpu *cpus, u32 count)
{
	u32 first = 0;
	u64 kept;
	u32 n;

	while (first < count) {
		kept = 0;
		for (n = first; n < count && cpus[n].package == cpus[first].package; n++)
			if (cpus[n].key & (KEY_STAYS | KEY_BOOT_CORE))
				kept = KEY_KEPT;
		for (; first < n; first++)
			cpus[first].key |= kept;
	}
}

static void sort_by_package(struct evacuate_cpu *cpus, u32 count)
{
	u32 n;

	for (n = 0; n < count; n++)
		cpus[n].key = KEY_PACKAGE(cpus[n].package);
	sort_by_key(cpus, count);
}

/**
 * evacuate_choose() - put CPUs into the order in which they go
 * @cpus: all online CPUs; sorted afterwards
 * @count: number of them, at least 1
 * @wish: how many shall go
 *
 * Context: any.
 * Return: number of CPUs at the start of @cpus that go; less than @count.
 */
u32 evacuate_choose(struct evacuate_cpu *cpus, u32 count,
		    const struct evacuate_wish *wish)
{
	u32 boot_core = core_of(cpus, count, wish->boot_cpu);
	u32 go = count - evacuate_left(count, wish->max_capacity_pct);
	u32 asked = 0, movable = 0;
	u32 n;

	sort_by_package(cpus, count);
	for (n = 0; n < count; n++) {
		struct evacuate_cpu *cpu = &cpus[n];
		bool stays = cpu->isolated && !cpu->asked;

		asked += cpu->asked;
		movable += !stays;
		cpu->key = (cpu->asked ? 0 : KEY_NOT_ASKED) |
			   (stays ? KEY_STAYS : 0) |
			   (cpu->core == boot_core ? KEY_BOOT_CORE : 0);
	}
	mark_kept_packages(cpus, count);
	for (n = 0; n < count; n++)
		cpus[n].key |= class_key(&cpus[n], wish->order) |
			       KEY_PACKAGE(cpus[n].package) |
			       KEY_CORE(cpus[n].core) | KEY_CPU(cpus[n].cpu);
	sort_by_key(cpus, count);

	go = go > wish->cooling ? go : wish->cooling;
	go = go > asked ? go : asked;
	go = go < movable ? go : movable;
	return go < count ? go : count - 1;
}
