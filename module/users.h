/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_USERS_H
#define CIL_USERS_H

#include <linux/uidgid.h>

struct cil_user;

struct cil_user *cil_user_charge(kuid_t uid);
bool cil_user_charge_more(struct cil_user *user);
void cil_user_discharge(struct cil_user *user);
void cil_users_exit(void);

#endif /* CIL_USERS_H */
