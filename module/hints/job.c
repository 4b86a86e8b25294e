// SPDX-License-Identifier: GPL-2.0
/*
 * Work of the hints that needs a task of its own: one job, of which parts can
 * be queued from anywhere. The function that does it stands above all that
 * queue it.
 */
#include <linux/bitops.h>

#include "hints/job.h"

static struct delayed_work job;
static unsigned long job_parts;

/**
 * cil_job_queue() - let the job do a part of its work
 * @part: the part
 * @delay: when, in jiffies; a job that is queued for an earlier time stays so
 *
 * Context: any that may wake a task.
 * Return: false if the part was queued already.
 */
bool cil_job_queue(enum cil_job_part part, unsigned long delay)
{
	bool is_new = !test_and_set_bit(part, &job_parts);

	if (delay)
		queue_delayed_work(system_long_wq, &job, delay);
	else
		mod_delayed_work(system_long_wq, &job, 0);
	return is_new;
}

/**
 * cil_job_take() - is a part to be done?
 * @part: the part; it can be queued again from now on
 *
 * Context: the job.
 */
bool cil_job_take(enum cil_job_part part)
{
	return test_and_clear_bit(part, &job_parts);
}

/**
 * cil_job_wait() - wait until what is queued without a delay is done
 *
 * Context: process, may sleep; cil_hints_lock is not held.
 */
void cil_job_wait(void)
{
	flush_delayed_work(&job);
}

/**
 * cil_job_init() - before anything is queued
 * @function: does the work
 *
 * Context: process.
 */
void cil_job_init(work_func_t function)
{
	INIT_DELAYED_WORK(&job, function);
	job_parts = 0;
}

/**
 * cil_job_exit() - wait for the job, and forget what is queued
 *
 * Context: process, may sleep; cil_hints_lock is not held, nothing is queued
 * any more but by the job itself.
 */
void cil_job_exit(void)
{
	cancel_delayed_work_sync(&job);
}
