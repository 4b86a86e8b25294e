/* SPDX-License-Identifier: GPL-2.0 */
#ifndef CIL_LINE_H
#define CIL_LINE_H

#include <linux/uaccess.h>

/**
 * cil_copy_line() - a line that is written to a file, without its newline
 * @line: where it goes
 * @room: room in @line
 * @from: what is written
 * @size: number of characters
 *
 * Context: process, may sleep.
 * Return: 0, -EINVAL (it is too long) or -EFAULT.
 */
static inline int cil_copy_line(char *line, size_t room,
				const char __user *from, size_t size)
{
	if (size >= room)
		return -EINVAL;
	if (copy_from_user(line, from, size))
		return -EFAULT;
	line[size] = '\0';
	if (size && line[size - 1] == '\n')
		line[size - 1] = '\0';
	return 0;
}

#endif /* CIL_LINE_H */
