// SPDX-License-Identifier: GPL-2.0
#include "kernel.h"
#include "mainline.h"

#define MAX_GOVERNORS	8

static struct cpuidle_governor *governors[MAX_GOVERNORS];
static __thread struct cpuidle_governor *governor;
static __thread struct cpuidle_driver driver;
static __thread struct cpuidle_device device;

/* Answers of the kernel's functions during the current call. */
static __thread struct mainline_inputs now;
static __thread bool asked, got_tick;
static __thread u64 clock_ns;

__thread long shim_tick_nsec;
__thread struct task_struct shim_idle_task;

int cpuidle_register_governor(struct cpuidle_governor *new)
{
	int i;

	for (i = 0; i < MAX_GOVERNORS; i++) {
		if (!governors[i]) {
			governors[i] = new;
			return 0;
		}
	}
	return -1;
}

s64 cpuidle_governor_latency_req(unsigned int cpu)
{
	(void)cpu;
	return now.latency_req_ns;
}

u64 local_clock(void)
{
	return clock_ns;
}

bool tick_nohz_tick_stopped(void)
{
	return now.tick_stopped;
}

/* Reading clears it, as in the kernel. */
bool tick_nohz_idle_got_tick(void)
{
	bool answer = got_tick;

	got_tick = false;
	return answer;
}

ktime_t tick_nohz_get_sleep_length(ktime_t *delta_next)
{
	asked = true;
	*delta_next = now.delta_tick_ns;
	return now.sleep_length_ns;
}

/**
 * mainline_use() - choose among the governors that are linked in
 * @name: its name
 *
 * Return: whether there is one of that name.
 */
bool mainline_use(const char *name)
{
	int i;

	for (i = 0; i < MAX_GOVERNORS && governors[i]; i++) {
		if (!strcmp(governors[i]->name, name)) {
			governor = governors[i];
			return true;
		}
	}
	return false;
}

/**
 * mainline_enable() - a new device, the governor enabled for it
 * @tick_ns: period of the tick
 * @state_count: number of states
 * @states: the states
 */
void mainline_enable(int64_t tick_ns, unsigned int state_count,
		     const struct mainline_state *states)
{
	unsigned int i;

	shim_tick_nsec = tick_ns;
	memset(&driver, 0, sizeof(driver));
	memset(&device, 0, sizeof(device));
	/* No idle period came before, so there is none to learn from. */
	device.last_state_idx = -1;

	driver.state_count = state_count;
	for (i = 0; i < state_count; i++) {
		struct cpuidle_state *state = &driver.states[i];

		state->exit_latency_ns = states[i].exit_latency_ns;
		state->target_residency_ns = states[i].target_residency_ns;
		state->flags = states[i].polling ? CPUIDLE_FLAG_POLLING : 0;
	}
	got_tick = false;
	if (governor->enable)
		governor->enable(&driver, &device);
}

/**
 * mainline_leave_behind() - a device that another governor has used before
 * @index: state of the last idle period
 * @residency_ns: its residency
 * @poll_time_limit: the polling state gave up
 *
 * To be called after mainline_enable(). The governor was not there to reflect.
 */
void mainline_leave_behind(int index, uint64_t residency_ns,
			   bool poll_time_limit)
{
	device.last_state_idx = index;
	device.last_residency_ns = residency_ns;
	device.poll_time_limit = poll_time_limit;
}

/**
 * mainline_select() - ask the governor
 * @inputs: what the kernel's functions answer meanwhile
 *
 * Return: the answer.
 */
struct mainline_answer mainline_select(const struct mainline_inputs *inputs)
{
	/* The idle loop starts from "may be stopped". */
	struct mainline_answer answer = { .stop_tick = true };
	int i;

	now = *inputs;
	clock_ns = inputs->now_ns;
	asked = false;
	shim_idle_task.nvcsw += inputs->left;
	/* Of states beyond the table, too: what is there must not matter. */
	for (i = 0; i < CPUIDLE_STATE_MAX; i++)
		device.states_usage[i].disable = now.disabled >> i & 1;
	answer.index = governor->select(&driver, &device, &answer.stop_tick);
	answer.asked = asked;
	answer.poll_limit_ns = device.poll_limit_ns;
	return answer;
}

/**
 * mainline_entered() - an idle period is over
 * @index: state that was entered
 * @residency_ns: time spent there
 * @tick_wakeup: the tick ended it
 * @poll_time_limit: the polling state gave up
 */
void mainline_entered(int index, uint64_t residency_ns, bool tick_wakeup,
		      bool poll_time_limit)
{
	device.last_residency_ns = residency_ns;
	device.poll_time_limit = poll_time_limit;
	got_tick = tick_wakeup;
	clock_ns += residency_ns;
	governor->reflect(&device, index);
}

/**
 * mainline_not_entered() - the driver refused, or there was work to do
 */
void mainline_not_entered(void)
{
	device.last_residency_ns = 0;
}
