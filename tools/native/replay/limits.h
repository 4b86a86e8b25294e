/* SPDX-License-Identifier: GPL-2.0 */
/* Policies that no kernel can run. */
#ifndef CIL_REPLAY_LIMITS_H
#define CIL_REPLAY_LIMITS_H

#include "../../../governors/common/policy.h"

extern const struct cil_policy base_policy;
extern const struct cil_policy oracle_policy;
extern const struct cil_policy bayes_policy;

#endif /* CIL_REPLAY_LIMITS_H */
