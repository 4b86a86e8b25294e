// SPDX-License-Identifier: GPL-2.0
/**
 * DOC: oracle
 *
 * The policy that knows how long the CPU will stay idle, and takes the state
 * of least modelled cost for it. It keeps the tick only where that costs
 * nothing: in the polling state, and where something else comes first. Its
 * regret is 0 by the definition of regret, which is how the engine is tested.
 */
#include "limits.h"
#include "run.h"

static void oracle_init(void *state, const struct cil_machine *machine,
			const void *tunables)
{
}

static void oracle_select(void *state, const struct cil_machine *machine,
			  const void *tunables, struct cil_query *query,
			  struct cil_decision *decision)
{
	cil_sleep_length(query);
	decision->index = rp_best(machine, rp_now.model, query->latency_req_ns,
				  query->disabled, rp_now.charge_ns);
	decision->stop_tick = !machine->states[decision->index].polling &&
			      rp_now.left_ns > query->delta_tick_ns;
	decision->row = CIL_ROW_NONE;
	decision->reason = RP_REASON_ORACLE;
}

const struct cil_policy oracle_policy = {
	.name = "oracle",
	.init = oracle_init,
	.select = oracle_select,
};
