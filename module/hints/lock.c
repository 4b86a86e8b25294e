// SPDX-License-Identifier: GPL-2.0
#include "hints/lock.h"

/* See the header. */
DEFINE_RT_MUTEX(cil_hints_lock);
