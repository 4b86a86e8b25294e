/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_EVACUATE_FILES_H
#define CIL_EVACUATE_FILES_H

struct dentry;

void cil_evac_files_make(struct dentry *root);

#endif /* CIL_EVACUATE_FILES_H */
