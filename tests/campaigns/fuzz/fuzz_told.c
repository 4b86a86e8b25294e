// SPDX-License-Identifier: GPL-2.0
/*
 * fuzz_trace.c on a recording without the module, whose idle states are given by
 * --machine. FUZZ_TOLD names a file that formats/writer.py makes, of two CPUs.
 */
#define FILE_VARIABLE	"FUZZ_TOLD"
#define OPTIONS								\
	"--machine=0-0;4000000;9223372036854775807;0;1;POLL,0,0,4000;"	\
	"C1,2000,2000,1500;C6,133000,600000,100",			\
	"--governor=1000;0;menu", "--governor=1000000;1;teo",		\
	"--kernel=6.12.9", "--migrates"

#include "fuzz_trace.c"
