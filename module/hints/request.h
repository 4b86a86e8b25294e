/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_REQUEST_H
#define CIL_REQUEST_H

#include "hints/levels.h"

struct task_struct;

/**
 * struct cil_target - whose hint is meant
 * @task: the task; a reference is held
 * @process: all threads of its process are meant
 * @trusted: whoever asks need not be privileged
 */
struct cil_target {
	struct task_struct *task;
	bool process;
	bool trusted;
};

int cil_request_set(const struct cil_target *target,
		    const struct cil_request *wanted);
int cil_request_get(const struct cil_target *target, struct cil_request *found);

#endif /* CIL_REQUEST_H */
