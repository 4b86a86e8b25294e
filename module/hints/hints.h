/* SPDX-License-Identifier: GPL-2.0 */
/*
 * All that the rest of the module sees of latency hints. Each function is
 * defined where it belongs in this folder. A build without hints (CIL_HINTS=0)
 * has the functions at the end in their place.
 */
#ifndef CIL_HINTS_H
#define CIL_HINTS_H

#include "state.h"

struct dentry;
struct task_struct;

#if CIL_HINTS

int cil_hints_init(void);
void cil_hints_exit(void);
int cil_hints_open(void);
void cil_hints_close(void);
void cil_hints_make_files(struct dentry *folder);
int cil_hints_set_map(const char *text);
int cil_hints_print_map(char *text, size_t size);

s64 cil_hints_limit(u64 now_ns);
s64 cil_hints_limit_of(const struct task_struct *task);
void cil_hints_look_again(const struct cil_record *record);
void cil_hints_gate(bool is_current);

#else

static inline int cil_hints_init(void)
{
	return 0;
}

static inline void cil_hints_exit(void)
{
}

static inline int cil_hints_open(void)
{
	return 0;
}

static inline void cil_hints_close(void)
{
}

static inline void cil_hints_make_files(struct dentry *folder)
{
}

static inline s64 cil_hints_limit(u64 now_ns)
{
	return CIL_HINT_NONE;
}

static inline s64 cil_hints_limit_of(const struct task_struct *task)
{
	return CIL_HINT_NONE;
}

static inline void cil_hints_look_again(const struct cil_record *record)
{
}

static inline void cil_hints_gate(bool is_current)
{
}

#endif

#endif /* CIL_HINTS_H */
