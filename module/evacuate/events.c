// SPDX-License-Identifier: GPL-2.0
/*
 * The tracepoints of CPU evacuation themselves.
 */
#define CREATE_TRACE_POINTS
#include "evacuate/events.h"
