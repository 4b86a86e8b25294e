/* SPDX-License-Identifier: GPL-2.0 */
/* The end of what guard.h began. */
#pragma GCC visibility pop
#undef for
#undef while
