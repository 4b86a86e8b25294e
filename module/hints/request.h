/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_REQUEST_H
#define CIL_REQUEST_H

#include "hints/levels.h"

struct cgroup;
struct task_struct;

/**
 * struct cil_target - the tasks, or the group, that are meant
 * @task: the task, unless a group is meant; a reference is held
 * @process: all threads of its process are meant
 * @trusted: the caller need not be privileged; for tasks only
 * @cgroup: the group, NULL if tasks are meant; a reference is held
 * @fd: the descriptor of its directory
 */
struct cil_target {
	struct task_struct *task;
	bool process;
	bool trusted;
	struct cgroup *cgroup;
	int fd;
};

int cil_request_set(const struct cil_target *target,
		    const struct cil_request *request);
int cil_request_get(const struct cil_target *target, struct cil_request *request);

void cil_request_flush_groups(void);

#endif /* CIL_REQUEST_H */
