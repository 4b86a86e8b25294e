/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_SYMBOLS_H
#define CIL_SYMBOLS_H

#include <linux/cpuidle.h>
#include <linux/static_call.h>
#include <linux/tick.h>

struct bpf_prog;
struct pid;
struct seq_file;

/*
 * Functions of the kernel that modules cannot link to. A static call is a
 * direct call on x86, so neither a retpoline nor a sealed ENDBR is in the way.
 */
s64 cil_stub_latency_req(unsigned int cpu);
ktime_t cil_stub_sleep_length(ktime_t *delta_next);
bool cil_stub_tick_stopped(void);
bool cil_stub_got_tick(void);
int cil_stub_register(struct cpuidle_governor *governor);
int cil_stub_switch(struct cpuidle_governor *governor);
struct pid *cil_stub_pidfd_get_pid(unsigned int fd, unsigned int *flags);
int cil_stub_idle_cpu(int cpu);
int cil_stub_kfunc_addr(const struct bpf_prog *prog, u32 id, u16 btf, u8 **addr);

DECLARE_STATIC_CALL(cil_latency_req, cil_stub_latency_req);
DECLARE_STATIC_CALL(cil_sleep_length, cil_stub_sleep_length);
DECLARE_STATIC_CALL(cil_tick_stopped, cil_stub_tick_stopped);
DECLARE_STATIC_CALL(cil_got_tick, cil_stub_got_tick);
DECLARE_STATIC_CALL(cil_register, cil_stub_register);
DECLARE_STATIC_CALL(cil_switch, cil_stub_switch);
DECLARE_STATIC_CALL(cil_pidfd_get_pid, cil_stub_pidfd_get_pid);
DECLARE_STATIC_CALL(cil_idle_cpu, cil_stub_idle_cpu);
DECLARE_STATIC_CALL(cil_kfunc_addr, cil_stub_kfunc_addr);

/**
 * struct cil_kernel - data of the kernel's cpuidle core
 * @governors: list of registered governors
 * @curr: the current governor
 * @prev: the governor that a driver with a governor of its own displaced
 * @devices: list of cpuidle devices
 * @cpu_scale: performance of each CPU, NULL where the architecture has no such
 *	table
 * @throttles_realtime: the kernel limits the time of real-time tasks
 * @finds_kfuncs: cil_kfunc_addr is aimed at the kernel's function
 *
 * The first four are protected by the cpuidle lock: cpuidle_pause_and_lock().
 * The others never change.
 */
struct cil_kernel {
	struct list_head *governors;
	struct cpuidle_governor **curr;
	struct cpuidle_governor **prev;
	struct list_head *devices;
	unsigned long __percpu *cpu_scale;
	bool throttles_realtime;
	bool finds_kfuncs;
};

extern struct cil_kernel cil_kernel;

int cil_symbols_resolve(void);
void cil_symbols_show(struct seq_file *seq);

#endif /* CIL_SYMBOLS_H */
