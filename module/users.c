// SPDX-License-Identifier: GPL-2.0
/*
 * How many hints the tasks of each user have.
 */
#include <linux/atomic.h>
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/lockdep.h>
#include <linux/slab.h>

#include "glue.h"
#include "hints.h"
#include "users.h"

/**
 * struct cil_user - a user whose tasks have hints
 * @node: in the table
 * @uid: real user id of the tasks when their hint was set
 * @hints: how many
 *
 * One without hints is freed when another comes to its bucket.
 */
struct cil_user {
	struct hlist_node node;
	kuid_t uid;
	atomic_t hints;
};

/* Protected by cil_hints_lock. */
static DEFINE_HASHTABLE(users, 8);

/**
 * cil_user_charge_more() - a user gets one more hint
 * @user: a user who has one
 *
 * Context: any.
 * Return: false, changing nothing, if that is more than hints_per_user.
 */
bool cil_user_charge_more(struct cil_user *user)
{
	const struct gate_tunables *tunables;
	u32 most;

	rcu_read_lock_sched();
	tunables = (const void *)rcu_dereference_sched(cil_gate.tunables)->value;
	most = tunables->hints_per_user;
	rcu_read_unlock_sched();
	if (atomic_inc_return(&user->hints) <= most)
		return true;
	atomic_dec(&user->hints);
	return false;
}

static struct cil_user *add_user(kuid_t uid)
{
	struct cil_user *user = kzalloc(sizeof(*user), GFP_ATOMIC);

	if (!user)
		return NULL;
	user->uid = uid;
	hash_add(users, &user->node, __kuid_val(uid));
	return user;
}

static struct cil_user *look_up(kuid_t uid)
{
	struct hlist_node *next;
	struct cil_user *found = NULL;
	struct cil_user *user;

	hash_for_each_possible_safe(users, user, next, node, __kuid_val(uid)) {
		if (uid_eq(user->uid, uid)) {
			found = user;
		} else if (!atomic_read(&user->hints)) {
			hash_del(&user->node);
			kfree(user);
		}
	}
	return found;
}

/**
 * cil_user_charge() - a user gets a hint
 * @uid: the user
 *
 * Context: process, within an RCU read section; cil_hints_lock is held.
 * Return: the user, ERR_PTR(-EDQUOT) if that is more than hints_per_user, or
 * ERR_PTR(-ENOMEM).
 */
struct cil_user *cil_user_charge(kuid_t uid)
{
	struct cil_user *user;

	lockdep_assert_held(&cil_hints_lock);
	user = look_up(uid) ?: add_user(uid);
	if (!user)
		return ERR_PTR(-ENOMEM);
	return cil_user_charge_more(user) ? user : ERR_PTR(-EDQUOT);
}

/**
 * cil_user_discharge() - a hint of a user is gone
 * @user: the user, NULL for a hint that counts for nobody
 *
 * Context: any.
 */
void cil_user_discharge(struct cil_user *user)
{
	if (user)
		atomic_dec(&user->hints);
}

/**
 * cil_users_exit() - forget all users
 *
 * Context: process; there are no hints any more.
 */
void cil_users_exit(void)
{
	struct hlist_node *next;
	struct cil_user *user;
	int i;

	hash_for_each_safe(users, i, next, user, node) {
		hash_del(&user->node);
		kfree(user);
	}
}
