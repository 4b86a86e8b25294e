/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A governor of the kernel, and the part of the kernel that calls it: the idle
 * loop's order of events and what it leaves in the device between them.
 */
#ifndef CIL_MAINLINE_H
#define CIL_MAINLINE_H

#include <stdbool.h>
#include <stdint.h>

/**
 * struct mainline_state - one idle state, see struct cpuidle_state
 * @exit_latency_ns: exit latency
 * @target_residency_ns: target residency
 * @polling: the state polls
 */
struct mainline_state {
	int64_t exit_latency_ns;
	int64_t target_residency_ns;
	bool polling;
};

/**
 * struct mainline_inputs - what the kernel's functions will answer
 * @now_ns: local clock
 * @latency_req_ns: the latency request
 * @sleep_length_ns: time to the next timer event if the tick is stopped
 * @delta_tick_ns: time to the next timer event, the tick included
 * @disabled: bit k is set if state k is disabled
 * @tick_stopped: the tick is stopped
 * @left: another task ran since the last call
 */
struct mainline_inputs {
	uint64_t now_ns;
	int64_t latency_req_ns;
	int64_t sleep_length_ns;
	int64_t delta_tick_ns;
	uint32_t disabled;
	bool tick_stopped;
	bool left;
};

/**
 * struct mainline_answer - what the governor decided
 * @index: the idle state
 * @stop_tick: the tick may be stopped
 * @asked: the governor asked for the sleep length
 * @poll_limit_ns: how long the governor wants to poll, 0 if it does not say
 */
struct mainline_answer {
	int index;
	bool stop_tick;
	bool asked;
	uint64_t poll_limit_ns;
};

bool mainline_use(const char *name);
void mainline_enable(int64_t tick_ns, unsigned int state_count,
		     const struct mainline_state *states);
struct mainline_answer mainline_select(const struct mainline_inputs *inputs);
void mainline_entered(int index, uint64_t residency_ns, bool tick_wakeup,
		      bool poll_time_limit);
void mainline_not_entered(void);
void mainline_leave_behind(int index, uint64_t residency_ns,
			   bool poll_time_limit);

#endif /* CIL_MAINLINE_H */
