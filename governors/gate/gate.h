/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_GATE_H
#define CIL_GATE_H

#include "../common/policy.h"

/* No latency hint applies. */
#define CIL_HINT_NONE	(-1LL)

s64 gate_latency_req(s64 latency_req_ns, s64 hint_ns);
void gate_clamp(const struct cil_machine *machine,
		const struct cil_query *query, s64 hint_ns,
		struct cil_decision *decision);

#endif /* CIL_GATE_H */
