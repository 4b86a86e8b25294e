// SPDX-License-Identifier: GPL-2.0
/* A module with a kfunc of its own for programs of the type struct_ops. */
#include <linux/bpf.h>
#include <linux/btf.h>
#include <linux/btf_ids.h>
#include <linux/module.h>

__bpf_kfunc_start_defs();

__bpf_kfunc s64 cil_foreign_number(void)
{
	return 1;
}

__bpf_kfunc_end_defs();

BTF_KFUNCS_START(foreign_kfuncs)
BTF_ID_FLAGS(func, cil_foreign_number)
BTF_KFUNCS_END(foreign_kfuncs)

static const struct btf_kfunc_id_set foreign_set = {
	.owner = THIS_MODULE,
	.set = &foreign_kfuncs,
};

static int __init foreign_init(void)
{
	return register_btf_kfunc_id_set(BPF_PROG_TYPE_STRUCT_OPS, &foreign_set);
}

static void __exit foreign_exit(void)
{
}

module_init(foreign_init);
module_exit(foreign_exit);

MODULE_DESCRIPTION("A kfunc that programs of the governor bpf may not call");
MODULE_LICENSE("GPL");
