/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_GLUE_H
#define CIL_GLUE_H

#include "state.h"

int cil_glue_init(void);
void cil_glue_exit(void);

int cil_glue_enable(struct cil_governor *governor, struct cpuidle_driver *drv,
		    struct cpuidle_device *dev);
void cil_glue_disable(struct cpuidle_driver *drv, struct cpuidle_device *dev);
int cil_glue_select(struct cpuidle_driver *drv, struct cpuidle_device *dev,
		    bool *stop_tick);
void cil_glue_reflect(struct cpuidle_device *dev, int index);
void cil_glue_restart(const struct cil_governor *governor,
		      const struct cpumask *cpus);

#endif /* CIL_GLUE_H */
