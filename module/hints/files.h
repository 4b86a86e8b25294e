/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_HINT_FILES_H
#define CIL_HINT_FILES_H

struct dentry;

void cil_hint_files_make(struct dentry *folder);

#endif /* CIL_HINT_FILES_H */
