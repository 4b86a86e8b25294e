/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Idle periods of a trace for KernelShark: what collect.c finds, draw.cpp draws.
 */
#ifndef CIL_KSHARK_IDLE_H
#define CIL_KSHARK_IDLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "libkshark.h"

#ifdef __cplusplus
extern "C" {
#endif

/* States beyond this are drawn as this one; the kernel allows ten. */
#define IDLE_STATES	16

/* Losses up to this part of the cheapest cost are not marked, in thousandths. */
#define IDLE_LOSS_SHOWN	10

enum idle_verdict {
	IDLE_UNKNOWN,
	IDLE_RIGHT,
	IDLE_ABOVE,
	IDLE_BELOW,
};

/**
 * struct idle_period - one stay in an idle state
 * @start_ns: beginning, by the clock of the trace
 * @end_ns: end; @start_ns while it is open
 * @residency_ns: residency that the kernel measured; 0 if unknown
 * @entry: where it begins in the trace
 * @decision: the decision behind it; NULL if the trace has none
 * @loss: cost beyond that of the best state, in thousandths of the latter
 * @state: number of the idle state
 * @best: number of the cheapest state that was allowed; valid with a verdict
 * @verdict: of type enum idle_verdict
 */
struct idle_period {
	int64_t start_ns;
	int64_t end_ns;
	int64_t residency_ns;
	const struct kshark_entry *entry;
	const struct kshark_entry *decision;
	uint32_t loss;
	uint8_t state;
	uint8_t best;
	uint8_t verdict;
};

/**
 * struct idle_decision - what a decision says to people
 * @governor: its governor
 * @reason: its reason
 * @sleep_length_ns: time to the next timer
 */
struct idle_decision {
	const char *governor;
	const char *reason;
	int64_t sleep_length_ns;
};

struct idle_cpu;
struct idle_events;

/**
 * struct idle_trace - the idle periods of one trace
 * @cpus: one for each CPU
 * @cpu_count: number of @cpus
 * @deepest: number of the deepest state that was named
 * @out_of_memory: some periods are missing
 * @events: numbers and fields of the events
 */
struct idle_trace {
	struct idle_cpu *cpus;
	int cpu_count;
	int deepest;
	bool out_of_memory;
	struct idle_events *events;
};

const struct idle_period *idle_periods(const struct idle_trace *trace, int cpu, size_t *count);
bool idle_decision_read(const struct idle_trace *trace, const struct kshark_entry *entry,
			struct idle_decision *decision);
int idle_deepest(const struct idle_trace *trace);
void idle_state_name(const struct idle_trace *trace, int cpu, int state, char *name, size_t size);
struct idle_trace *idle_trace_of(int stream);

/* draw.cpp */
void idle_draw(struct kshark_cpp_argv *argv, int stream, int cpu, int action);
void idle_forget(void);
void *idle_set_window(void *window);

#ifdef __cplusplus
}
#endif

#endif /* CIL_KSHARK_IDLE_H */
