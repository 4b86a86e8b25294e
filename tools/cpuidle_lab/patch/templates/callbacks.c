/**
 * struct @name_cpu - data of a CPU
 * @memory: what is remembered
 * @outcome: what became of the last decision
 * @switches: how often the idle task had given way at the last decision
 * @entered: an idle period followed the last decision
 */
struct @name_cpu {
	@state memory;
	struct @name_outcome outcome;
	unsigned long switches;
	bool entered;
};

static DEFINE_PER_CPU_ALIGNED(struct @name_cpu, @name_cpus);

/* The states that must not be used, as a mask. */
static u32 @name_disabled_states(const struct cpuidle_driver *drv,
				  const struct cpuidle_device *dev)
{
	u32 disabled = 0;
	int i;

	for (i = 0; i < drv->state_count; i++)
		if (dev->states_usage[i].disable)
			disabled |= BIT(i);
	return disabled;
}

/**
 * @name_select - choose the idle state to enter
 * @drv: cpuidle driver
 * @dev: device of this CPU
 * @stop_tick: cleared if the tick must go on
 *
 * Learning from the last idle period waits until now, because @name_reflect()
 * delays the work that ended it.
 *
 * Return: index of the state.
 */
static int @name_select(struct cpuidle_driver *drv, struct cpuidle_device *dev,
			bool *stop_tick)
{
	struct @name_cpu *cpu = this_cpu_ptr(&@name_cpus);
	/* The idle task counts a switch each time that it gives way. */
	unsigned long switches = current->nvcsw + current->nivcsw;
	struct @name_query query = {
		.now_ns = local_clock(), //query.now_ns
		.latency_req_ns = cpuidle_governor_latency_req(dev->cpu), //query.latency_req_ns
		.disabled = @name_disabled_states(drv, dev), //query.disabled
		.tick_stopped = tick_nohz_tick_stopped(), //query.tick_stopped
		.rejected = !cpu->entered && !dev->last_residency_ns, //query.rejected
		.left = switches != cpu->switches, //query.left
	};
	struct @name_decision decision;

	if (cpu->entered) {
		cpu->outcome.now_ns = query.now_ns; //outcome.now_ns
		cpu->outcome.left = query.left; //outcome.left
		@update();
	}
	cpu->entered = false;
	cpu->switches = switches;
	@select();
	if (!decision.stop_tick)
		*stop_tick = false;
	return decision.index;
}

/**
 * @name_reflect - note what became of a decision
 * @dev: device of this CPU
 * @index: state that was entered
 */
static void @name_reflect(struct cpuidle_device *dev, int index)
{
	struct @name_cpu *cpu = this_cpu_ptr(&@name_cpus);

	cpu->outcome.residency_ns = dev->last_residency_ns; //outcome.residency_ns
	cpu->outcome.index = index; //outcome.index
	cpu->outcome.tick_wakeup = tick_nohz_idle_got_tick(); //outcome.tick_wakeup
	cpu->outcome.poll_time_limit = dev->poll_time_limit; //outcome.poll_time_limit
	cpu->entered = true;
	dev->poll_time_limit = false;
	dev->last_state_idx = index;
}

/**
 * @name_enable_device - start learning afresh
 * @drv: cpuidle driver
 * @dev: device of the CPU
 *
 * Return: 0.
 */
static int @name_enable_device(struct cpuidle_driver *drv,
			       struct cpuidle_device *dev)
{
	struct @name_cpu *cpu = per_cpu_ptr(&@name_cpus, dev->cpu);

	memset(cpu, 0, sizeof(*cpu));
	@init();
	return 0;
}

static struct cpuidle_governor @name_governor = {
	.name =		"@name",
	.rating =	18,
	.enable =	@name_enable_device,
	.select =	@name_select,
	.reflect =	@name_reflect,
};

static int __init @name_governor_init(void)
{
	return cpuidle_register_governor(&@name_governor);
}

postcore_initcall(@name_governor_init);
