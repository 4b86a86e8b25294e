/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The environment of a policy under test: the test says what the next timer
 * is and reads what the policy printed. Calls are not serialised; KUnit runs
 * one test at a time.
 */
#ifndef CIL_TEST_ENV_H
#define CIL_TEST_ENV_H

#include "../../governors/common/policy.h"

/* The policies that are tested. The kernel has no former ones. */
#ifdef CIL_TEST_FORMER
#define CIL_TEST_GOVERNORS(X)	CIL_GOVERNORS(X) CIL_FORMER_GOVERNORS(X)
#else
#define CIL_TEST_GOVERNORS(X)	CIL_GOVERNORS(X)
#endif

/**
 * cil_test_env_timer() - set the answer of cil_env_sleep_length()
 * @sleep_length_ns: time to the next timer event without the tick
 * @delta_tick_ns: time to the next timer event, the tick included
 *
 * The count of questions starts again from 0.
 */
void cil_test_env_timer(s64 sleep_length_ns, s64 delta_tick_ns);

/**
 * cil_test_env_asked() - how often was the sleep length asked for?
 *
 * Return: calls of cil_env_sleep_length() since cil_test_env_timer().
 */
u32 cil_test_env_asked(void);

/**
 * cil_test_env_sink() - an empty place for a dump
 *
 * Return: a sink for cil_env_print(); what it held before is gone.
 */
struct cil_sink *cil_test_env_sink(void);

/**
 * cil_test_env_text() - what was printed into the sink
 *
 * Return: the text, ended by a zero byte; cut off if there was no more room.
 */
const char *cil_test_env_text(void);

#endif /* CIL_TEST_ENV_H */
