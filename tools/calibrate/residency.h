/* SPDX-License-Identifier: GPL-2.0 */
/* The hardware's residency counters, as perf's PMUs show them. */
#ifndef RESIDENCY_H
#define RESIDENCY_H

void residency_open(void);
void residency_print(void);

#endif
