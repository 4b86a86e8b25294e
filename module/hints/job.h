/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_JOB_H
#define CIL_JOB_H

#include <linux/workqueue.h>

/**
 * enum cil_job_part - what the hints' job may have to do
 * @CIL_JOB_FLUSH: take out the values of cgroups that are gone
 * @CIL_JOB_SETTLE: compare the CPUs of all hints with those of their tasks
 * @CIL_JOB_UPDATE: attach probes since the gate has become current
 * @CIL_JOB_DETACH: detach the probes that are of no use any more
 */
enum cil_job_part {
	CIL_JOB_FLUSH,
	CIL_JOB_SETTLE,
	CIL_JOB_UPDATE,
	CIL_JOB_DETACH,
};

void cil_job_init(work_func_t function);
void cil_job_exit(void);
bool cil_job_queue(enum cil_job_part part, unsigned long delay);
bool cil_job_take(enum cil_job_part part);
void cil_job_wait(void);

#endif /* CIL_JOB_H */
