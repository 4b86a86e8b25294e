// SPDX-License-Identifier: GPL-2.0
/*
 * How many hints the tasks of each user have.
 */
#include <linux/atomic.h>
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/slab.h>

#include "hints/lock.h"
#include "hints/users.h"
#include "state.h"

/**
 * struct cil_user - a user who pays for hints
 * @node: in the table
 * @uid: real user id of the tasks when their hint was set, or of whoever gave
 *	a group its value
 * @hints: how many he pays for, values of groups included
 * @found: how many a recount has met
 *
 * One without hints is freed when another comes to its bucket.
 */
struct cil_user {
	struct hlist_node node;
	kuid_t uid;
	atomic_t hints;
	int found;
};

/* Protected by cil_hints_lock. */
static DEFINE_HASHTABLE(users, 8);

static int hints_per_user(void)
{
	const struct gate_tunables *tunables;
	int most;

	rcu_read_lock_sched();
	tunables = (const void *)rcu_dereference_sched(cil_gate.tunables)->value;
	most = tunables->hints_per_user;
	rcu_read_unlock_sched();
	return most;
}

static bool charge_up_to(struct cil_user *user, int most)
{
	int hints = atomic_read(&user->hints);

	do {
		if (hints >= most)
			return false;
	} while (!atomic_try_cmpxchg(&user->hints, &hints, hints + 1));
	return true;
}

/**
 * cil_user_is_over() - does a user pay for more than hints_per_user?
 * @user: the user
 *
 * Context: any.
 */
bool cil_user_is_over(const struct cil_user *user)
{
	return atomic_read(&user->hints) > hints_per_user();
}

/**
 * cil_user_charge_more() - a user pays for one more hint
 * @user: a user who pays for one
 *
 * Context: any.
 * Return: false, changing nothing, if that is more than hints_per_user.
 */
bool cil_user_charge_more(struct cil_user *user)
{
	return charge_up_to(user, hints_per_user());
}

/**
 * cil_user_charge_member() - a user pays for one more member of his groups
 * @user: a user who pays for one
 *
 * Others may start tasks in a group. A quarter of what he may have is not
 * theirs to use up.
 *
 * Context: any.
 * Return: false, changing nothing, if that is more than members may take.
 */
bool cil_user_charge_member(struct cil_user *user)
{
	int most = hints_per_user();

	return charge_up_to(user, most - most / 4);
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
	__must_hold(&cil_hints_lock)
{
	struct hlist_node *next;
	struct cil_user *found = NULL;
	struct cil_user *user;

	lockdep_assert_held(&cil_hints_lock);
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
 * cil_user_charge() - a user pays for one more hint, however many he has
 * @uid: the user
 *
 * If it turns out to be a new hint, cil_user_is_over() tells whether he may.
 *
 * Context: process, atomic; cil_hints_lock is held.
 * Return: the user, NULL if there is no memory.
 */
struct cil_user *cil_user_charge(kuid_t uid)
{
	struct cil_user *user;

	lockdep_assert_held(&cil_hints_lock);
	user = look_up(uid) ?: add_user(uid);
	if (user)
		atomic_inc(&user->hints);
	return user;
}

/**
 * cil_user_uncharge() - a user pays for one hint less
 * @user: the user
 *
 * Context: any.
 */
void cil_user_uncharge(struct cil_user *user)
{
	atomic_dec(&user->hints);
}

/**
 * cil_user_found() - a recount meets a hint
 * @user: who pays for it
 *
 * Context: the machine is stopped.
 */
void cil_user_found(struct cil_user *user)
{
	user->found++;
}

/**
 * cil_users_compare() - end a recount
 * @difference: filled with the first user for whom the counts differ
 *
 * Context: the machine is stopped.
 * Return: for how many users they do.
 */
u32 cil_users_compare(struct cil_user_difference *difference)
{
	struct cil_user *user;
	u32 differ = 0;
	int i;

	hash_for_each(users, i, user, node) {
		int counted = atomic_read(&user->hints);

		if (counted != user->found && !differ++) {
			difference->uid = __kuid_val(user->uid);
			difference->counted = counted;
			difference->found = user->found;
		}
		user->found = 0;
	}
	return differ;
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
