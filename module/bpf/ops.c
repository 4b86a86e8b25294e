// SPDX-License-Identifier: GPL-2.0
/*
 * The type of struct_ops by which programs in BPF become a governor. It lists
 * the memory and functions that a program may touch and call, and the kernel's
 * checks before it is attached.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": bpf: " fmt

#include <linux/bpf.h>
#include <linux/bpf_verifier.h>
#include <linux/btf.h>
#include <linux/filter.h>
#include <linux/module.h>

#include "bpf/kfuncs.h"
#include "bpf/ops.h"
#include "state.h"
#include "symbols.h"

/* bpf/cil_bpf.h has two pointers in place of the rcu_head. */
static_assert(offsetof(struct cil_tunable_set, generation) == 2 * sizeof(void *) &&
	      offsetof(struct cil_tunable_set, value) == 2 * sizeof(void *) + sizeof(u32));

static int (*ops_replace)(struct cil_bpf_ops *now, struct cil_bpf_ops *old,
			  bool attach);
static bool has_btf;

/* Nothing that waits, wakes, keeps time or draws lots: replay could not. */
static const struct bpf_func_proto *get_func_proto(enum bpf_func_id id,
						   const struct bpf_prog *prog)
{
	switch (id) {
	case BPF_FUNC_get_smp_processor_id:
	case BPF_FUNC_map_lookup_elem:
		return bpf_base_func_proto(id, prog);
	default:
		return NULL;
	}
}

static bool is_valid_access(int offset, int size, enum bpf_access_type type,
			    const struct bpf_prog *prog,
			    struct bpf_insn_access_aux *info)
{
	if (offset < 0 || offset >= sizeof(u64) * MAX_BPF_FUNC_ARGS)
		return false;
	if (type != BPF_READ || offset % size)
		return false;
	return btf_ctx_access(offset, size, type, prog, info);
}

static const struct bpf_verifier_ops verifier_ops = {
	.get_func_proto = get_func_proto,
	.is_valid_access = is_valid_access,
};

/* The core calls it only if it has the BTF of this module. */
static int ops_init(struct btf *btf)
{
	has_btf = true;
	return 0;
}

/*
 * The kernel, and any module, may offer kfuncs to every struct_ops program. An
 * instruction names the BTF by its place in a list of the loader's, so it says
 * nothing of the owner. The address does, and the verifier has found it before
 * it checks a member.
 */
static bool is_ours(const struct bpf_prog *prog, const struct bpf_insn *insn)
{
	u8 *addr;

	return !static_call(cil_kfunc_addr)(prog, insn->imm, insn->off, &addr) &&
	       cil_bpf_has_kfunc(addr);
}

static bool calls_others(const struct bpf_prog *prog)
{
	u32 i;

	for (i = 0; i < prog->len; i++) {
		const struct bpf_insn *insn = &prog->insnsi[i];

		if (insn->code == (BPF_JMP | BPF_CALL) &&
		    insn->src_reg == BPF_PSEUDO_KFUNC_CALL &&
		    !is_ours(prog, insn))
			return true;
	}
	return false;
}

static int ops_check_member(const struct btf_type *t,
			    const struct btf_member *member,
			    const struct bpf_prog *prog)
{
	if (prog->sleepable) {
		pr_err("a program may not sleep\n");
		return -EINVAL;
	}
	if (calls_others(prog)) {
		pr_err("a program may call the kfuncs of this module only\n");
		return -EACCES;
	}
	return 0;
}

/* The first member that is no function stands for all of them. */
static int ops_init_member(const struct btf_type *t,
			   const struct btf_member *member, void *kdata,
			   const void *udata)
{
	const size_t data = offsetof(struct cil_bpf_ops, name);
	u32 offset = __btf_member_bit_offset(t, member) / 8;

	if (offset < data)
		return 0;
	if (offset == data)
		memcpy(kdata + data, udata + data,
		       sizeof(struct cil_bpf_ops) - data);
	return 1;
}

static const char *fault_of(const struct cil_bpf_ops *p)
{
	if (p->abi != CIL_BPF_ABI)
		return "it was built for another version of this module";
	if (!p->init || !p->select || !p->update || !p->read)
		return "init, select, update and read must all be there";
	if (!p->name[0] || strnlen(p->name, sizeof(p->name)) == sizeof(p->name))
		return "its name has 1 to 15 characters";
	if (p->cpus < nr_cpu_ids)
		return "it has memory for fewer CPUs than this machine";
	if (!p->state_size || p->state_size > CIL_STATE_SIZE_MAX ||
	    p->tunable_count > CIL_BPF_TUNABLES)
		return "its state or its tunables are too many";
	return NULL;
}

static int ops_validate(void *kdata)
{
	const struct cil_bpf_ops *p = kdata;
	const char *fault = fault_of(p);

	if (!fault)
		return 0;
	pr_err("%.15s is refused: %s\n", p->name, fault);
	return -EINVAL;
}

static int ops_reg(void *kdata, struct bpf_link *link)
{
	return ops_replace(kdata, NULL, true);
}

static void ops_unreg(void *kdata, struct bpf_link *link)
{
	ops_replace(NULL, kdata, false);
}

static int ops_update(void *kdata, void *old, struct bpf_link *link)
{
	return ops_replace(kdata, old, false);
}

/* The kernel calls programs through copies of these. */
static void init_stub(struct cil_machine *machine, struct cil_tunable_set *set,
		      u32 slot)
{
}

static u64 select_stub(struct cil_query *query, struct cil_tunable_set *set,
		       u32 slot)
{
	return 0;
}

static u64 update_stub(struct cil_outcome *outcome, struct cil_tunable_set *set,
		       u32 slot)
{
	return 0;
}

static u64 read_stub(u32 slot, u32 offset)
{
	return 0;
}

static struct cil_bpf_ops stubs = {
	.init = init_stub,
	.select = select_stub,
	.update = update_stub,
	.read = read_stub,
};

static struct bpf_struct_ops struct_ops = {
	.verifier_ops = &verifier_ops,
	.init = ops_init,
	.check_member = ops_check_member,
	.init_member = ops_init_member,
	.reg = ops_reg,
	.unreg = ops_unreg,
	.update = ops_update,
	.validate = ops_validate,
	.cfi_stubs = &stubs,
	.owner = THIS_MODULE,
	.name = "cil_bpf_ops",
};

/**
 * cil_bpf_ops_register() - let programs in BPF be attached
 * @replace: called in a process when a program comes (@now), goes (@old) or is
 *	replaced by another; refuses with an error
 *
 * Context: process, may sleep; once. There is no way back but the module's end.
 * Return: 0, -ENOENT (the kernel did not take the module's BTF), -EOPNOTSUPP
 * (kfuncs cannot be told apart), or the error of the BPF core.
 */
int cil_bpf_ops_register(int (*replace)(struct cil_bpf_ops *now,
					struct cil_bpf_ops *old, bool attach))
{
	int ret;

	if (!cil_kernel.finds_kfuncs)
		return -EOPNOTSUPP;
	ops_replace = replace;
	ret = register_bpf_struct_ops(&struct_ops, cil_bpf_ops);
	/* Without BTF of the module the core answers 0, too. */
	return ret ?: has_btf ? 0 : -ENOENT;
}
