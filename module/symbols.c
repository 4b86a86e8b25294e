// SPDX-License-Identifier: GPL-2.0
/*
 * Symbols of the kernel that are not exported: one table, resolved once.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/bpf.h>
#include <linux/err.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/pid.h>
#include <linux/sched.h>
#include <linux/seq_file.h>

#include "compat/compat.h"
#include "symbols.h"

/* Never called: they only give the static calls their type. */
s64 cil_stub_latency_req(unsigned int cpu)
{
	return 0;
}

ktime_t cil_stub_sleep_length(ktime_t *delta_next)
{
	*delta_next = 0;
	return 0;
}

bool cil_stub_tick_stopped(void)
{
	return false;
}

bool cil_stub_got_tick(void)
{
	return false;
}

int cil_stub_register(struct cpuidle_governor *governor)
{
	return -ENODEV;
}

int cil_stub_switch(struct cpuidle_governor *governor)
{
	return -ENODEV;
}

/* The one that may stay: without pidfds a task can ask only for itself. */
struct pid *cil_stub_pidfd_get_pid(unsigned int fd, unsigned int *flags)
{
	return ERR_PTR(-EOPNOTSUPP);
}

/* This one may stay, too: a CPU whose entry was aborted then counts as idle. */
int cil_stub_idle_cpu(int cpu)
{
	return 1;
}

/* Without it no program in BPF can be attached. */
int cil_stub_kfunc_addr(const struct bpf_prog *prog, u32 id, u16 btf, u8 **addr)
{
	return -EOPNOTSUPP;
}

static unsigned long cil_stub_lookup(const char *name)
{
	return 0;
}

DEFINE_STATIC_CALL(cil_latency_req, cil_stub_latency_req);
DEFINE_STATIC_CALL(cil_sleep_length, cil_stub_sleep_length);
DEFINE_STATIC_CALL(cil_tick_stopped, cil_stub_tick_stopped);
DEFINE_STATIC_CALL(cil_got_tick, cil_stub_got_tick);
DEFINE_STATIC_CALL(cil_register, cil_stub_register);
DEFINE_STATIC_CALL(cil_switch, cil_stub_switch);
DEFINE_STATIC_CALL(cil_pidfd_get_pid, cil_stub_pidfd_get_pid);
DEFINE_STATIC_CALL(cil_idle_cpu, cil_stub_idle_cpu);
DEFINE_STATIC_CALL(cil_kfunc_addr, cil_stub_kfunc_addr);
DEFINE_STATIC_CALL(cil_lookup, cil_stub_lookup);

/*
 * A static call is aimed at an address, which has no type. So a kernel whose
 * header declares the function otherwise does not build. No header of modules
 * declares cpuidle_switch_governor().
 */
#define SAME_TYPE(stub, function)					\
	static_assert(__same_type(stub, function),			\
		      "this kernel has another " #function "()")

SAME_TYPE(cil_stub_latency_req, cpuidle_governor_latency_req);
SAME_TYPE(cil_stub_sleep_length, tick_nohz_get_sleep_length);
SAME_TYPE(cil_stub_tick_stopped, tick_nohz_tick_stopped);
SAME_TYPE(cil_stub_got_tick, tick_nohz_idle_got_tick);
SAME_TYPE(cil_stub_register, cpuidle_register_governor);
SAME_TYPE(cil_stub_pidfd_get_pid, pidfd_get_pid);
SAME_TYPE(cil_stub_idle_cpu, idle_cpu);
SAME_TYPE(cil_stub_kfunc_addr, bpf_get_kfunc_addr);

struct cil_kernel cil_kernel;

enum cil_symbol_id {
	SYM_GOVERNORS,
	SYM_CURR,
	SYM_PREV,
	SYM_DEVICES,
	SYM_LATENCY_REQ,
	SYM_SLEEP_LENGTH,
	SYM_TICK_STOPPED,
	SYM_GOT_TICK,
	SYM_REGISTER,
	SYM_SWITCH,
	SYM_PIDFD_GET_PID,
	SYM_IDLE_CPU,
	SYM_CPU_SCALE,
	SYM_RT_PERIOD,
	SYM_KFUNC_ADDR,
};

/**
 * struct cil_symbol - a symbol of the kernel
 * @name: as in kallsyms
 * @required: without it the module refuses to load
 * @address: 0 until it is resolved
 */
struct cil_symbol {
	const char *name;
	bool required;
	unsigned long address;
};

static struct cil_symbol symbols[] = {
	[SYM_GOVERNORS] = { "cpuidle_governors", true },
	[SYM_CURR] = { "cpuidle_curr_governor", true },
	[SYM_PREV] = { "cpuidle_prev_governor", false },
	[SYM_DEVICES] = { "cpuidle_detected_devices", true },
	[SYM_LATENCY_REQ] = { "cpuidle_governor_latency_req", true },
	[SYM_SLEEP_LENGTH] = { "tick_nohz_get_sleep_length", true },
	[SYM_TICK_STOPPED] = { "tick_nohz_tick_stopped", true },
	[SYM_GOT_TICK] = { "tick_nohz_idle_got_tick", true },
	[SYM_REGISTER] = { "cpuidle_register_governor", true },
	[SYM_SWITCH] = { "cpuidle_switch_governor", true },
	[SYM_PIDFD_GET_PID] = { "pidfd_get_pid", false },
	[SYM_IDLE_CPU] = { "idle_cpu", false },
	[SYM_CPU_SCALE] = { "cpu_scale", false },
	/* Its timer gives throttled tasks their time back. */
	[SYM_RT_PERIOD] = { "sched_rt_period_timer", false },
	/* It tells our kfuncs from those of other modules. */
	[SYM_KFUNC_ADDR] = { "bpf_get_kfunc_addr", false },
};

/*
 * A kprobe is the one exported way to an address by name. The probe is removed
 * before the address is used. It is never armed: to disarm it takes memory, and
 * without that the kernel would keep it, though its place is on this stack.
 */
static int find_lookup(void)
{
	struct kprobe probe = {
		.symbol_name = "kallsyms_lookup_name",
		.flags = KPROBE_FLAG_DISABLED,
	};
	int ret = register_kprobe(&probe);

	if (ret) {
		pr_err("cannot look up kernel symbols: no kprobe on kallsyms_lookup_name (error %d; KPROBES and KALLSYMS_ALL are needed)\n",
		       ret);
		return ret;
	}
	static_call_update(cil_lookup, (void *)cil_function_of(probe.addr));
	unregister_kprobe(&probe);
	return 0;
}

#define AIM(call, id) \
	static_call_update(call, (void *)symbols[id].address)

/**
 * cil_symbols_resolve() - find all symbols and aim the static calls at them
 *
 * Context: process, may sleep; once, at load.
 * Return: 0, or -ENOENT (a required symbol is missing, one log line names it),
 * or the error of the kprobe.
 */
int cil_symbols_resolve(void)
{
	struct cil_symbol *s;
	int ret = find_lookup();

	if (ret)
		return ret;

	for (s = symbols; s < symbols + ARRAY_SIZE(symbols); s++) {
		s->address = static_call(cil_lookup)(s->name);
		if (!s->address && s->required) {
			pr_err("this kernel lacks the symbol %s\n", s->name);
			return -ENOENT;
		}
	}

	cil_kernel.governors = (void *)symbols[SYM_GOVERNORS].address;
	cil_kernel.curr = (void *)symbols[SYM_CURR].address;
	cil_kernel.prev = (void *)symbols[SYM_PREV].address;
	cil_kernel.devices = (void *)symbols[SYM_DEVICES].address;
	cil_kernel.cpu_scale =
		(unsigned long __percpu __force *)symbols[SYM_CPU_SCALE].address;
	cil_kernel.throttles_realtime = symbols[SYM_RT_PERIOD].address;
	cil_kernel.finds_kfuncs = symbols[SYM_KFUNC_ADDR].address;
	AIM(cil_latency_req, SYM_LATENCY_REQ);
	AIM(cil_sleep_length, SYM_SLEEP_LENGTH);
	AIM(cil_tick_stopped, SYM_TICK_STOPPED);
	AIM(cil_got_tick, SYM_GOT_TICK);
	AIM(cil_register, SYM_REGISTER);
	AIM(cil_switch, SYM_SWITCH);
	if (symbols[SYM_PIDFD_GET_PID].address)
		AIM(cil_pidfd_get_pid, SYM_PIDFD_GET_PID);
	if (symbols[SYM_IDLE_CPU].address)
		AIM(cil_idle_cpu, SYM_IDLE_CPU);
	if (cil_kernel.finds_kfuncs)
		AIM(cil_kfunc_addr, SYM_KFUNC_ADDR);
	return 0;
}

/**
 * cil_symbols_show() - list what was resolved
 * @seq: where to print
 *
 * Context: process.
 */
void cil_symbols_show(struct seq_file *seq)
{
	const struct cil_symbol *s;

	for (s = symbols; s < symbols + ARRAY_SIZE(symbols); s++)
		seq_printf(seq, "%-30s %s %s\n", s->name,
			   s->required ? "required" : "optional",
			   s->address ? "found" : "missing");
}
