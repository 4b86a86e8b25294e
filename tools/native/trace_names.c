// SPDX-License-Identifier: GPL-2.0
/*
 * Names of the kernel's functions: a trace.dat has a list of 170,000. The
 * library parses it whenever it opens a file, and that takes as long as to read
 * as many events. Here it waits until a name is wanted, which is seldom.
 */
#define _GNU_SOURCE	/* RTLD_NEXT */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "trace_formats.h"

typedef int (*parse_names)(struct tep_handle *tep, const char *names);

/* The list of the file, until it is parsed; the file may be opened again. */
static char *waiting;
static bool is_known;

/*
 * In front of the library's own of that name, which libtracecmd calls. Where
 * the linker does not put it there, the library parses the list at once.
 */
int tep_parse_kallsyms(struct tep_handle *tep, const char *names)
{
	(void)tep;
	if (is_known)
		return 0;
	waiting = strdup(names);
	is_known = waiting;
	return waiting ? 0 : -1;
}

/**
 * cil_function_name() - name of the kernel's function at an address
 * @r: the run
 * @address: in it
 *
 * Return: the name, or NULL.
 */
const char *cil_function_name(const struct reader *r, u64 address)
{
	parse_names parse;

	if (waiting) {
		parse = (parse_names)dlsym(RTLD_NEXT, "tep_parse_kallsyms");
		if (parse)
			parse(r->tep, waiting);
		free(waiting);
		waiting = NULL;
	}
	return tep_find_function(r->tep, address);
}
