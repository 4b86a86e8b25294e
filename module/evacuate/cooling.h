/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_EVACUATE_COOLING_H
#define CIL_EVACUATE_COOLING_H

void cil_cooling_init(void);
void cil_cooling_exit(void);

#endif /* CIL_EVACUATE_COOLING_H */
