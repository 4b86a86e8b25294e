/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_DEVICE_H
#define CIL_DEVICE_H

int cil_device_init(void);
void cil_device_exit(void);

#endif /* CIL_DEVICE_H */
