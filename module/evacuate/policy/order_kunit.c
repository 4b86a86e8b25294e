// SPDX-License-Identifier: GPL-2.0
/*
 * The order of evacuation on recorded topologies: whole cores and packages go,
 * the boot CPU's core last, isolated CPUs never unless they are named.
 */
#include <kunit/test.h>

#include "order.h"

#define CPUS_MAX	256

/**
 * struct topology - a machine as the kernel tells of it
 * @cpus: number of CPUs
 * @threads: CPUs of a core
 * @stride: distance between the numbers of two CPUs of a core
 * @per_package: CPUs of a package
 */
struct topology {
	u32 cpus;
	u32 threads;
	u32 stride;
	u32 per_package;
};

static struct evacuate_cpu list[CPUS_MAX];

/* x86 numbers first threads before second ones; POWER numbers a core in a row. */
static u32 fill(const struct topology *topology)
{
	u32 cores = topology->cpus / topology->threads;
	u32 per_package = topology->per_package / topology->threads;
	u32 n, core;

	for (n = 0; n < topology->cpus; n++) {
		core = topology->stride == 1 ? n / topology->threads : n % cores;
		list[n] = (struct evacuate_cpu) {
			.cpu = n,
			.core = topology->stride == 1 ? core * topology->threads : core,
			.package = core / per_package,
			.capacity = 1024,
		};
	}
	return topology->cpus;
}

static const struct evacuate_wish half = { .max_capacity_pct = 50 };

static u32 choose(u32 count, u32 pct)
{
	const struct evacuate_wish wish = { .max_capacity_pct = pct };

	return evacuate_choose(list, count, &wish);
}

/* The numbers of those that go, as text; they have two digits at most. */
static const char *text_of(u32 go)
{
	static char text[3 * CPUS_MAX];
	char *end = text;
	u32 n;

	for (n = 0; n < go; n++) {
		if (n)
			*end++ = ' ';
		if (list[n].cpu >= 10)
			*end++ = (char)('0' + list[n].cpu / 10);
		*end++ = (char)('0' + list[n].cpu % 10);
	}
	*end = '\0';
	return text;
}

/* The rule of the patch of 2009. */
static void percentage_leaves(struct kunit *test)
{
	u32 online, pct;

	KUNIT_EXPECT_EQ(test, evacuate_left(8, 100), 8u);
	KUNIT_EXPECT_EQ(test, evacuate_left(8, 87), 7u);
	KUNIT_EXPECT_EQ(test, evacuate_left(8, 75), 6u);
	KUNIT_EXPECT_EQ(test, evacuate_left(8, 62), 5u);
	KUNIT_EXPECT_EQ(test, evacuate_left(8, 50), 4u);
	KUNIT_EXPECT_EQ(test, evacuate_left(8, 1), 1u);
	for (online = 1; online <= 8192; online *= 2) {
		for (pct = 1; pct <= 100; pct++) {
			u32 left = evacuate_left(online, pct);

			KUNIT_EXPECT_GE(test, left, 1u);
			KUNIT_EXPECT_LE(test, left, online);
			KUNIT_EXPECT_GE(test, left, evacuate_left(online, pct - 1));
		}
		KUNIT_EXPECT_EQ(test, evacuate_left(online, 100), online);
	}
}

/* Two quad-core packages without threads: the machine of the patch of 2009. */
static void package_by_package(struct kunit *test)
{
	static const struct topology two = { 8, 1, 1, 4 };

	KUNIT_EXPECT_EQ(test, choose(fill(&two), 50), 4u);
	KUNIT_EXPECT_STREQ(test, text_of(8), "7 6 5 4 3 2 1 0");
	KUNIT_EXPECT_EQ(test, choose(fill(&two), 87), 1u);
	KUNIT_EXPECT_EQ(test, choose(fill(&two), 1), 7u);
	KUNIT_EXPECT_EQ(test, choose(fill(&two), 100), 0u);
}

/* Every prefix of the order ends at most one core and one package in between. */
static void expect_whole(struct kunit *test, u32 count)
{
	u32 n, m, opened;

	for (n = 1; n < count; n++) {
		if (list[n].core == list[n - 1].core)
			continue;
		for (opened = 0, m = n; m < count; m++)
			opened += list[m].core == list[n - 1].core;
		KUNIT_EXPECT_EQ_MSG(test, opened, 0u, "core %u is cut", list[n - 1].core);
	}
	for (n = 1; n < count; n++) {
		if (list[n].package == list[n - 1].package)
			continue;
		for (opened = 0, m = n; m < count; m++)
			opened += list[m].package == list[n - 1].package;
		KUNIT_EXPECT_EQ_MSG(test, opened, 0u, "package %u is cut",
				    list[n - 1].package);
	}
}

static void whole_cores_and_packages(struct kunit *test)
{
	static const struct topology machines[] = {
		{ 8, 1, 1, 8 }, { 8, 1, 1, 4 },		/* SMT 1 */
		{ 8, 2, 4, 8 }, { 16, 2, 8, 8 },	/* SMT 2, x86 */
		{ 8, 2, 1, 4 },				/* SMT 2, in a row */
		{ 16, 4, 1, 16 }, { 32, 4, 1, 16 },	/* SMT 4, POWER9 */
		{ 64, 8, 1, 64 }, { 128, 8, 1, 64 },	/* SMT 8 */
		{ 192, 2, 96, 24 },			/* eight packages */
	};
	u32 n, count;

	for (n = 0; n < sizeof(machines) / sizeof(*machines); n++) {
		count = fill(&machines[n]);
		KUNIT_EXPECT_EQ(test, choose(count, 50), count / 2);
		expect_whole(test, count);
		/* The boot CPU and its siblings are the last. */
		KUNIT_EXPECT_EQ(test, list[count - 1].cpu, 0u);
		KUNIT_EXPECT_EQ(test, list[count - machines[n].threads].core, 0u);
	}
}

/* x86 numbers: 0 and 4 are siblings. */
static void siblings_go_together(struct kunit *test)
{
	static const struct topology smt = { 8, 2, 4, 8 };

	KUNIT_EXPECT_EQ(test, choose(fill(&smt), 50), 4u);
	KUNIT_EXPECT_STREQ(test, text_of(8), "7 3 6 2 5 1 4 0");
}

/* A boot CPU that is not the first one; one that is offline. */
static void boot_core_goes_last(struct kunit *test)
{
	static const struct topology two = { 8, 2, 1, 4 };
	struct evacuate_wish wish = { .boot_cpu = 6, .max_capacity_pct = 50 };

	fill(&two);
	KUNIT_EXPECT_EQ(test, evacuate_choose(list, 8, &wish), 4u);
	KUNIT_EXPECT_STREQ(test, text_of(8), "3 2 1 0 5 4 7 6");
	fill(&two);
	wish.boot_cpu = 99;
	evacuate_choose(list, 8, &wish);
	KUNIT_EXPECT_STREQ(test, text_of(8), "7 6 5 4 3 2 1 0");
}

/* Offline CPUs are not in the list; what is left is ordered as before. */
static void offline_cpus_are_missing(struct kunit *test)
{
	static const struct topology two = { 8, 2, 1, 4 };

	fill(&two);
	/* 5 and 7 are offline: both cores of package 1 have one thread. */
	list[5] = list[6];
	KUNIT_EXPECT_EQ(test, evacuate_choose(list, 6, &half), 3u);
	KUNIT_EXPECT_STREQ(test, text_of(6), "6 4 3 2 1 0");
	fill(&two);
	KUNIT_EXPECT_EQ(test, evacuate_choose(list, 1, &half), 0u);
}

/* A package without memory is a package; its CPUs have a number of their own. */
static void node_without_memory(struct kunit *test)
{
	static const struct topology two = { 8, 1, 1, 4 };
	u32 n;

	fill(&two);
	/* The kernel may number packages as it likes. */
	for (n = 4; n < 8; n++)
		list[n].package = 4096;
	KUNIT_EXPECT_EQ(test, evacuate_choose(list, 8, &half), 4u);
	KUNIT_EXPECT_STREQ(test, text_of(4), "7 6 5 4");
}

/* Four performance cores with two threads, eight efficient ones without. */
static u32 fill_hybrid(void)
{
	u32 n;

	for (n = 0; n < 16; n++)
		list[n] = (struct evacuate_cpu) {
			.cpu = n,
			.core = n < 8 ? n & ~1u : n,
			.capacity = n < 8 ? 1024 : 640,
		};
	return 16;
}

static void hybrid_order_is_a_choice(struct kunit *test)
{
	struct evacuate_wish wish = { .max_capacity_pct = 50 };

	fill_hybrid();
	KUNIT_EXPECT_EQ(test, evacuate_choose(list, 16, &wish), 8u);
	/* The boot CPU is a performance core, and stays. */
	KUNIT_EXPECT_STREQ(test, text_of(8), "7 6 5 4 3 2 15 14");
	fill_hybrid();
	wish.order = EVACUATE_EFFICIENT_FIRST;
	KUNIT_EXPECT_EQ(test, evacuate_choose(list, 16, &wish), 8u);
	KUNIT_EXPECT_STREQ(test, text_of(9), "15 14 13 12 11 10 9 8 7");
	/* Capacities beyond the field of the key do not spill over. */
	fill_hybrid();
	list[0].capacity = U32_MAX;
	list[1].capacity = U32_MAX;
	KUNIT_EXPECT_EQ(test, evacuate_choose(list, 16, &wish), 8u);
	KUNIT_EXPECT_STREQ(test, text_of(8), "15 14 13 12 11 10 9 8");
}

/* The greatest class does not spill over into the place of the boot CPU's core. */
static void class_is_within_its_field(struct kunit *test)
{
	static const struct topology one = { 8, 1, 1, 8 };
	struct evacuate_wish wish = { .boot_cpu = 7, .max_capacity_pct = 1 };
	u32 n;

	fill(&one);
	for (n = 0; n < 8; n++)
		list[n].capacity = n == 7 ? U32_MAX : 0;
	KUNIT_EXPECT_EQ(test, evacuate_choose(list, 8, &wish), 7u);
	KUNIT_EXPECT_STREQ(test, text_of(8), "6 5 4 3 2 1 0 7");
}

/* Memory behind the list is not read and not written. */
static void the_list_has_an_end(struct kunit *test)
{
	static const struct topology two = { 8, 1, 1, 4 };
	/* The bit of a CPU that stays. */
	static const struct evacuate_cpu behind = {
		.key = 1ULL << 62, .cpu = 99, .core = 3, .asked = true,
	};
	const struct evacuate_wish wish = { .boot_cpu = 99, .max_capacity_pct = 50 };

	fill(&two);
	list[4].isolated = true;
	list[8] = behind;
	KUNIT_EXPECT_EQ(test, evacuate_choose(list, 8, &wish), 4u);
	KUNIT_EXPECT_STREQ(test, text_of(8), "3 2 1 0 7 6 5 4");
	KUNIT_EXPECT_EQ(test, list[8].key, behind.key);
}

static void isolated_cpus_stay(struct kunit *test)
{
	static const struct topology two = { 8, 1, 1, 4 };
	struct evacuate_wish wish = { .max_capacity_pct = 1 };

	fill(&two);
	list[6].isolated = true;
	list[7].isolated = true;
	/* All but these two and the boot CPU. */
	KUNIT_EXPECT_EQ(test, evacuate_choose(list, 8, &wish), 6u);
	KUNIT_EXPECT_STREQ(test, text_of(6), "5 4 3 2 1 0");
	fill(&two);
	list[7].isolated = true;
	list[7].asked = true;
	wish.max_capacity_pct = 100;
	KUNIT_EXPECT_EQ(test, evacuate_choose(list, 8, &wish), 1u);
	KUNIT_EXPECT_STREQ(test, text_of(1), "7");
}

/* A package that cannot become empty goes after one that can. */
static void package_that_can_sleep_goes_first(struct kunit *test)
{
	static const struct topology three = { 12, 1, 1, 4 };

	fill(&three);
	list[9].isolated = true;
	KUNIT_EXPECT_EQ(test, choose(12, 67), 4u);
	KUNIT_EXPECT_STREQ(test, text_of(4), "7 6 5 4");
}

static void named_cpus_go_first(struct kunit *test)
{
	static const struct topology two = { 8, 1, 1, 4 };
	struct evacuate_wish wish = { .max_capacity_pct = 100 };
	u32 n;

	fill(&two);
	list[1].asked = true;
	list[4].asked = true;
	KUNIT_EXPECT_EQ(test, evacuate_choose(list, 8, &wish), 2u);
	KUNIT_EXPECT_STREQ(test, text_of(2), "4 1");
	/* The percentage counts them. */
	fill(&two);
	list[1].asked = true;
	wish.max_capacity_pct = 75;
	KUNIT_EXPECT_EQ(test, evacuate_choose(list, 8, &wish), 2u);
	KUNIT_EXPECT_STREQ(test, text_of(2), "1 7");
	/* One stays even if all are named, as after the last other CPU went. */
	fill(&two);
	for (n = 0; n < 8; n++)
		list[n].asked = true;
	KUNIT_EXPECT_EQ(test, evacuate_choose(list, 8, &wish), 7u);
	KUNIT_EXPECT_STREQ(test, text_of(7), "7 6 5 4 3 2 1");
}

static void cooling_counts_cpus(struct kunit *test)
{
	static const struct topology two = { 8, 1, 1, 4 };
	struct evacuate_wish wish = { .max_capacity_pct = 87, .cooling = 3 };

	KUNIT_EXPECT_EQ(test, evacuate_choose(list, fill(&two), &wish), 3u);
	wish.max_capacity_pct = 50;
	KUNIT_EXPECT_EQ(test, evacuate_choose(list, fill(&two), &wish), 4u);
	wish.cooling = 1000;
	KUNIT_EXPECT_EQ(test, evacuate_choose(list, fill(&two), &wish), 7u);
}

static struct kunit_case order_cases[] = {
	KUNIT_CASE(percentage_leaves),
	KUNIT_CASE(package_by_package),
	KUNIT_CASE(whole_cores_and_packages),
	KUNIT_CASE(siblings_go_together),
	KUNIT_CASE(boot_core_goes_last),
	KUNIT_CASE(offline_cpus_are_missing),
	KUNIT_CASE(node_without_memory),
	KUNIT_CASE(hybrid_order_is_a_choice),
	KUNIT_CASE(class_is_within_its_field),
	KUNIT_CASE(the_list_has_an_end),
	KUNIT_CASE(isolated_cpus_stay),
	KUNIT_CASE(package_that_can_sleep_goes_first),
	KUNIT_CASE(named_cpus_go_first),
	KUNIT_CASE(cooling_counts_cpus),
	{}
};

static struct kunit_suite order_suite = {
	.name = "evacuate_order",
	.test_cases = order_cases,
};

kunit_test_suite(order_suite);
