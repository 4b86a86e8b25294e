/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The governors that decide for themselves, one X(name) for each: folder
 * governors/<name>/, object <name>_policy. Traces carry the position in this
 * list: append only. Keep governors.mk in step.
 */
#ifndef CIL_GOVERNOR_LIST_H
#define CIL_GOVERNOR_LIST_H

#define CIL_GOVERNORS(X)	\
	X(teo_ng)		\
	X(menu_ng)		\
	X(wteo)			\
	X(wteo_rfc)

#endif /* CIL_GOVERNOR_LIST_H */
