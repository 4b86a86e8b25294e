/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The only place that knows the architecture: how a CPU halts.
 */
#ifndef EMUL_HALT_H
#define EMUL_HALT_H

#include <linux/cpu.h>
#include <linux/irqflags.h>

/*
 * Halt until an interrupt has been served. Called and left with interrupts
 * disabled; enabling them and halting is one step, so none is missed.
 */
static __always_inline void emul_arch_halt(void)
{
#ifdef CONFIG_X86
	/*
	 * Not arch_cpu_idle(): it is not exported by every kernel supported,
	 * and may choose MWAIT, which wakes up on need_resched without an
	 * interrupt.
	 */
	raw_safe_halt();
	raw_local_irq_disable();
#else
	arch_cpu_idle();
	if (!raw_irqs_disabled())
		raw_local_irq_disable();
#endif
}

#endif
