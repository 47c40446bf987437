/* What scripts ask for, from bytes: whatever they are, names are names, told in the order of their
 * lines. */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include "base/macros.h"
#include "plan/code/scan.h"

struct told {
	unsigned line, lines;
	size_t n;
};

static void check_line(struct told *t, unsigned line)
{
	if (line < t->line || line > t->lines)
		__builtin_trap();
	t->line = line;
	t->n++;
}

static void check_name(const char *name, bool dots)
{
	size_t n = strlen(name);

	if (n > SCAN_NAME_MAX || (n && (*name == '.' || name[n - 1] == '.')) ||
	    strstr(name, "..") || strpbrk(name, "/ \n") || (!dots && strchr(name, '.')))
		__builtin_trap();
}

static void note_import(void *arg, const struct scan_import *i)
{
	check_line(arg, i->line);
	check_name(i->module, true);
	if (i->name)
		check_name(i->name, false);
	if (!*i->module && (!i->level || !i->name))
		__builtin_trap();
}

static void note_source(void *arg, const char *path, unsigned line)
{
	check_line(arg, line);
	if (!*path || strlen(path) > SCAN_NAME_MAX)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct told python = { .lines = 1 }, shell;

	for (size_t i = 0; i < size; i++)
		python.lines += data[i] == '\n' || data[i] == '\r';
	shell = python;
	scan_python((const char *)data, size, note_import, &python);
	scan_shell((const char *)data, size, note_source, &shell);
	if (python.n + shell.n > size)
		__builtin_trap();
	return 0;
}
