/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All that the rest of the module sees of CPU evacuation. A build without it
 * (CIL_EVACUATE=0) has the functions at the end in their place.
 */
#ifndef CIL_EVACUATE_H
#define CIL_EVACUATE_H

struct dentry;

#if CIL_EVACUATE

int cil_evacuate_init(void);
void cil_evacuate_exit(void);
void cil_evacuate_make_files(struct dentry *root);

#else

static inline int cil_evacuate_init(void)
{
	return 0;
}

static inline void cil_evacuate_exit(void)
{
}

static inline void cil_evacuate_make_files(struct dentry *root)
{
}

#endif

#endif /* CIL_EVACUATE_H */
