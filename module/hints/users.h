/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_USERS_H
#define CIL_USERS_H

#include <linux/types.h>

struct cil_user;
struct cred;

/**
 * struct cil_user_difference - what a recount found wrong with a user
 * @uid: the uid, or the number of the namespace
 * @counted: hints that are said to be charged to it
 * @found: hints that are charged to it
 */
struct cil_user_difference {
	u32 uid;
	int counted;
	int found;
};

struct cil_user *cil_user_charge(const struct cred *cred);
u32 cil_user_groups(const struct cil_user *user);
void cil_user_count_group(struct cil_user *user, int more);
bool cil_user_charge_more(struct cil_user *user);
bool cil_user_may_charge_member(const struct cil_user *user);
bool cil_user_charge_member(struct cil_user *user);
bool cil_user_is_over(const struct cil_user *user);
bool cil_user_is(const struct cil_user *user, const struct cred *cred);
void cil_user_uncharge(struct cil_user *user);
void cil_user_found(struct cil_user *user);
u32 cil_users_compare(struct cil_user_difference *difference);
void cil_users_free_unused(void);

#endif /* CIL_USERS_H */
