/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_DEBUGFS_H
#define CIL_DEBUGFS_H

void cil_debugfs_init(void);
void cil_debugfs_exit(void);

#endif /* CIL_DEBUGFS_H */
