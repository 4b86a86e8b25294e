// SPDX-License-Identifier: GPL-2.0
/*
 * Count of the hints charged to each uid, and to each user namespace: a user
 * may own many uids in a namespace of its own.
 */
#include <linux/atomic.h>
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/slab.h>
#include <linux/user_namespace.h>

#include "hints/lock.h"
#include "hints/users.h"
#include "state.h"

/**
 * struct cil_quota - the hints that a uid, or a user namespace, may have
 * @node: in the table
 * @key: see quota_key()
 * @users: how many users share it
 * @hints: how many hints are charged to it, values of groups included
 * @groups: of how many groups
 * @found: how many a recount has met
 */
struct cil_quota {
	struct hlist_node node;
	u64 key;
	int users;
	atomic_t hints;
	u32 groups;
	int found;
};

/**
 * struct cil_user - a uid in a user namespace
 * @node: in the table
 * @uid: real user id of the tasks when their hint was set, or of the task that
 *	gave a group its value
 * @space: the namespace; a reference is held, so no other one gets its address,
 *	nor the number of the outermost one around it
 * @quota: of the uid, and of the outermost namespace below the initial one; the
 *	latter may be NULL
 * @hints: how many are charged to this user
 * @found: how many a recount has met
 *
 * A user without hints is freed when another comes to its bucket, or after the
 * last hint of all.
 */
struct cil_user {
	struct hlist_node node;
	kuid_t uid;
	struct user_namespace *space;
	struct cil_quota *quota[2];
	atomic_t hints;
	int found;
};

/* Protected by cil_hints_lock. */
static DEFINE_HASHTABLE(users, 10);
static DEFINE_HASHTABLE(quotas, 8);

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

static bool quota_charge(struct cil_quota *quota, int most)
{
	int hints = atomic_read(&quota->hints);

	do {
		if (hints >= most)
			return false;
	} while (!atomic_try_cmpxchg(&quota->hints, &hints, hints + 1));
	return true;
}

static bool charge_up_to(struct cil_user *user, int most)
{
	if (!quota_charge(user->quota[0], most))
		return false;
	if (user->quota[1] && !quota_charge(user->quota[1], most)) {
		atomic_dec(&user->quota[0]->hints);
		return false;
	}
	atomic_inc(&user->hints);
	return true;
}

/**
 * cil_user_is_over() - are more than hints_per_user charged to a user's uid, or
 *	to its namespace?
 * @user: the user
 *
 * Context: any.
 */
bool cil_user_is_over(const struct cil_user *user)
{
	int most = hints_per_user();

	return atomic_read(&user->quota[0]->hints) > most ||
	       (user->quota[1] && atomic_read(&user->quota[1]->hints) > most);
}

/**
 * cil_user_groups() - how many groups are charged to a user's uid, or to its
 *	namespace, whichever has more?
 * @user: the user
 *
 * Context: process; cil_hints_lock is held.
 */
u32 cil_user_groups(const struct cil_user *user)
{
	lockdep_assert_held(&cil_hints_lock);
	return max(user->quota[0]->groups, user->quota[1] ? user->quota[1]->groups : 0);
}

/**
 * cil_user_count_group() - one more group is charged to a user, or one less
 * @user: the user
 * @more: 1 or -1
 *
 * Context: process; cil_hints_lock is held.
 */
void cil_user_count_group(struct cil_user *user, int more)
{
	lockdep_assert_held(&cil_hints_lock);
	user->quota[0]->groups += more;
	if (user->quota[1])
		user->quota[1]->groups += more;
}

/**
 * cil_user_charge_more() - a user pays for one more hint
 * @user: a user that pays for one
 *
 * Context: any.
 * Return: false, changing nothing, if that is more than hints_per_user.
 */
bool cil_user_charge_more(struct cil_user *user)
{
	return charge_up_to(user, hints_per_user());
}

/*
 * Others may start tasks in a group. They cannot use up the last quarter of what
 * its owner may have.
 */
static int most_members(void)
{
	int most = hints_per_user();

	return most - most / 4;
}

/**
 * cil_user_may_charge_member() - has a user room for a member of its groups?
 * @user: a user that pays for one
 *
 * Context: any; the answer may be wrong a moment later.
 */
bool cil_user_may_charge_member(const struct cil_user *user)
{
	int most = most_members();

	return atomic_read(&user->quota[0]->hints) < most &&
	       !(user->quota[1] && atomic_read(&user->quota[1]->hints) >= most);
}

/**
 * cil_user_charge_member() - a user pays for one more member of its groups
 * @user: a user that pays for one
 *
 * Context: any.
 * Return: false, changing nothing, if that is more than members may take.
 */
bool cil_user_charge_member(struct cil_user *user)
{
	return charge_up_to(user, most_members());
}

/* Uids and namespaces in one table. */
static u64 quota_key(u32 number, bool is_space)
{
	return (u64)is_space << 32 | number;
}

static struct cil_quota *add_quota(u64 key)
{
	struct cil_quota *quota = kzalloc(sizeof(*quota), GFP_ATOMIC);

	if (!quota)
		return NULL;
	quota->key = key;
	hash_add(quotas, &quota->node, key);
	return quota;
}

static struct cil_quota *quota_get(u64 key)
	__must_hold(&cil_hints_lock)
{
	struct cil_quota *quota;

	lockdep_assert_held(&cil_hints_lock);
	hash_for_each_possible(quotas, quota, node, key)
		if (quota->key == key)
			break;
	if (!quota)
		quota = add_quota(key);
	if (quota)
		quota->users++;
	return quota;
}

static void quota_put(struct cil_quota *quota)
{
	if (!quota || --quota->users)
		return;
	hash_del(&quota->node);
	kfree(quota);
}

static void free_user(struct cil_user *user)
{
	quota_put(user->quota[0]);
	quota_put(user->quota[1]);
	put_user_ns(user->space);
	kfree(user);
}

static void free_unused(struct cil_user *user)
{
	/* Pairs with cil_user_uncharge(). */
	if (atomic_read_acquire(&user->hints))
		return;
	hash_del(&user->node);
	free_user(user);
}

/* A user can nest namespaces as it likes; those inside count as the outermost. */
static unsigned int outermost_space(const struct user_namespace *space)
{
	unsigned int number = 0;

	for (; space != &init_user_ns; space = space->parent)
		number = space->ns.inum;
	return number;
}

static unsigned long user_key(const struct cred *cred)
{
	return (unsigned long)cred->user_ns + __kuid_val(cred->uid);
}

static struct cil_user *add_user(const struct cred *cred)
{
	unsigned int outermost = outermost_space(cred->user_ns);
	struct cil_user *user = kzalloc(sizeof(*user), GFP_ATOMIC);

	if (!user)
		return NULL;
	user->uid = cred->uid;
	user->space = get_user_ns(cred->user_ns);
	user->quota[0] = quota_get(quota_key(__kuid_val(cred->uid), false));
	if (outermost)
		user->quota[1] = quota_get(quota_key(outermost, true));
	if (!user->quota[0] || (outermost && !user->quota[1])) {
		free_user(user);
		return NULL;
	}
	hash_add(users, &user->node, user_key(cred));
	return user;
}

static struct cil_user *look_up(const struct cred *cred)
	__must_hold(&cil_hints_lock)
{
	struct hlist_node *next;
	struct cil_user *found = NULL;
	struct cil_user *user;

	lockdep_assert_held(&cil_hints_lock);
	hash_for_each_possible_safe(users, user, next, node, user_key(cred)) {
		if (uid_eq(user->uid, cred->uid) && user->space == cred->user_ns)
			found = user;
		else
			free_unused(user);
	}
	return found;
}

/**
 * cil_user_charge() - charge one more hint to a user, however many there are
 * @cred: of the user; it cannot be freed
 *
 * If it turns out to be a new hint, cil_user_is_over() tells whether it may be.
 *
 * Context: process, atomic; cil_hints_lock is held.
 * Return: the user, NULL if there is no memory.
 */
struct cil_user *cil_user_charge(const struct cred *cred)
{
	struct cil_user *user;

	lockdep_assert_held(&cil_hints_lock);
	user = look_up(cred) ?: add_user(cred);
	if (!user)
		return NULL;
	atomic_inc(&user->quota[0]->hints);
	if (user->quota[1])
		atomic_inc(&user->quota[1]->hints);
	atomic_inc(&user->hints);
	return user;
}

/**
 * cil_user_is() - would something be charged to this user?
 * @user: the user
 * @cred: of the one that asks
 *
 * Context: process, atomic; cil_hints_lock is held.
 * Return: true if it would.
 */
bool cil_user_is(const struct cil_user *user, const struct cred *cred)
{
	lockdep_assert_held(&cil_hints_lock);
	return look_up(cred) == user;
}

/**
 * cil_user_uncharge() - charge one hint less to a user
 * @user: the user
 *
 * Context: any.
 */
void cil_user_uncharge(struct cil_user *user)
{
	atomic_dec(&user->quota[0]->hints);
	if (user->quota[1])
		atomic_dec(&user->quota[1]->hints);
	/* Last: without any the user may be freed. */
	(void)atomic_dec_return_release(&user->hints);
}

/**
 * cil_user_found() - a recount meets a hint
 * @user: the user that pays for it
 *
 * Context: the machine is stopped.
 */
void cil_user_found(struct cil_user *user)
{
	user->found++;
	user->quota[0]->found++;
	if (user->quota[1])
		user->quota[1]->found++;
}

static void compare_counts(struct cil_user_difference *difference, u32 *differ,
			   u32 id, int counted, int *found)
{
	if (counted != *found && !(*differ)++) {
		difference->uid = id;
		difference->counted = counted;
		difference->found = *found;
	}
	*found = 0;
}

/**
 * cil_users_compare() - end a recount
 * @difference: filled with the first user, or quota, for which the counts differ
 *
 * Context: the machine is stopped.
 * Return: for how many they do.
 */
u32 cil_users_compare(struct cil_user_difference *difference)
{
	struct cil_quota *quota;
	struct cil_user *user;
	u32 differ = 0;
	int i;

	hash_for_each(users, i, user, node)
		compare_counts(difference, &differ, __kuid_val(user->uid),
			       atomic_read(&user->hints), &user->found);
	hash_for_each(quotas, i, quota, node)
		compare_counts(difference, &differ, (u32)quota->key,
			       atomic_read(&quota->hints), &quota->found);
	return differ;
}

/**
 * cil_users_free_unused() - forget the users that pay for no hint
 *
 * Context: process, may sleep; cil_hints_lock is not held.
 */
void cil_users_free_unused(void)
{
	struct hlist_node *next;
	struct cil_user *user;
	int i;

	/* A user can have many, one for each namespace of its own. */
	for (i = 0; i < HASH_SIZE(users); i++) {
		rt_mutex_lock(&cil_hints_lock);
		hlist_for_each_entry_safe(user, next, &users[i], node)
			free_unused(user);
		rt_mutex_unlock(&cil_hints_lock);
	}
}
