/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Idle periods that both forms of the governor meet: many tables, all octaves of durations,
 * disabled states, latency requests, ticks that are stopped, that end a period or not, refusals.
 *
 * The including file defines QUERY, OUTCOME, DECISION (types), STATES (of a table), proof_state(),
 * proof_decide(), proof_update(), proof_begin(), and proof_say().
 */
#define TABLES		16
#define BLOCKS		64
#define PERIODS		1024
#define MOST_STATES	10
#define TICK		4000000
#define NO_REQUEST	0x7fffffffffffffffLL

static u64 proof_seed;

static u32 proof_below(u32 limit)
{
	proof_seed = proof_seed * 6364136223846793005ULL + 1442695040888963407ULL;
	return (u32)(proof_seed >> 33) % limit;
}

/* Any octave from 1 us to 2^most us, in ns. */
static s64 proof_duration(u32 most)
{
	u32 octave = proof_below(most);

	return ((s64)1000 << octave) + proof_below((u32)1000 << (octave < 20 ? octave : 20));
}

/* Ascending tables, some with equal residencies; each third one is in no order. */
static u32 proof_table(u32 table)
{
	u32 states = 1 + table % MOST_STATES, k;
	u32 residency_us = 0;

	for (k = 0; k < states; k++) {
		if (k && proof_below(8))
			residency_us = residency_us * (1 + proof_below(8)) + 1 + proof_below(40);
		if (k && table % 3 == 2)
			residency_us = proof_below(20000);
		proof_state(k, residency_us / (1 + proof_below(4)), residency_us, !k && table % 4 != 3);
	}
	return states;
}

static u64 proof_mixed(u64 hash, u32 value)
{
	return (hash ^ value) * 0x100000001b3ULL;
}

static u64 proof_block(u32 states, u64 *now_ns, bool *stopped)
{
	u64 hash = 0xcbf29ce484222325ULL;
	/* A load: how long its periods last, and how far its timers are. */
	u32 most_slept = 1 + proof_below(20), most_timer = 1 + proof_below(26);
	u32 n;

	for (n = 0; n < PERIODS; n++) {
		s64 sleep_ns = proof_duration(proof_below(4) ? most_timer : 26);
		s64 slept_ns = proof_duration(proof_below(8) ? most_slept : 20);
		s64 tick_ns = *stopped ? sleep_ns : 1 + proof_below(TICK);
		QUERY query = { 0 };
		OUTCOME outcome = { 0 };
		DECISION decision = { 0 };

		if (tick_ns > sleep_ns)
			tick_ns = sleep_ns;
		query.now_ns = *now_ns;
		query.latency_req_ns = proof_below(8) ? NO_REQUEST : proof_duration(14);
		query.disabled = proof_below(8) ? 0 : proof_below((u32)1 << states);
		query.tick_stopped = *stopped;
		query.left = proof_below(8) != 0;
		query.asked = true;
		query.sleep_length_ns = sleep_ns;
		query.delta_tick_ns = tick_ns;
		proof_decide(&query, &decision);
		hash = proof_mixed(hash, decision.index * 2u + decision.stop_tick);
		/* The driver refused. */
		if (!proof_below(64))
			continue;
		*stopped = decision.stop_tick && proof_below(16);
		outcome.index = decision.index;
		if (slept_ns >= sleep_ns)
			slept_ns = sleep_ns;
		if (!decision.stop_tick && slept_ns >= tick_ns) {
			slept_ns = tick_ns;
			outcome.tick_wakeup = true;
		}
		outcome.poll_time_limit = !decision.index && !proof_below(16);
		outcome.left = query.left;
		outcome.residency_ns = (u64)slept_ns;
		*now_ns += (u64)slept_ns + proof_below(20000);
		outcome.now_ns = *now_ns;
		proof_update(&outcome);
	}
	return hash;
}

static void proof_play(void)
{
	u32 table, block;

	for (table = 0; table < TABLES; table++) {
		u64 now_ns = 1000000000;
		bool stopped = false;
		u32 states;

		proof_seed = table + 1;
		states = proof_table(table);
		proof_begin(states);
		for (block = 0; block < BLOCKS; block++)
			proof_say(table, block, proof_block(states, &now_ns, &stopped));
	}
}
