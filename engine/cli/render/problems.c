/* engine/cli/render/problems.c — errors and warnings for programs: what --json makes of them.
 *
 * With --json, standard output has the answer and nothing else, or it is empty. Errors and warnings
 * are one document of one line on standard error, when the command has ended. They aren't on
 * standard output, where `cairn … --json | jq` and `kubectl -o json` users expect answers of one
 * shape: a program that reads the answer never meets an error in its place. A command without
 * errors and warnings writes nothing to standard error.
 *
 * `errors` and `warnings` are always lists, so that a reader has one case.
 *
 * An error's text comes as `file:line:column: message` when it tells of a place in a file; the
 * place gets members of its own. The hint is a part of the message, which stays whole.
 *
 * What it doesn't do: text for people (cli.c, context.c).
 */
#include <assert.h>
#include <string.h>
#include "base/text/text.h"
#include "cli/cli.h"
#include "record/facts.h"

/* What stands in brackets at `from`. */
static json_t *in_brackets(const char *message, size_t n, const char *from)
{
	const char *near = memmem(message, n, from, strlen(from)), *end;

	end = near ? memchr(near, ')', n - (size_t)(near - message)) : NULL;
	return end ? json_name(near + 1, (size_t)(end - near - 1)) : NULL;
}

/* What to do stands behind a semicolon, or it is the right name. */
static json_t *hint_of(const char *message)
{
	size_t n = strcspn(message, "\n"); /* behind it: the end of a log */
	json_t *named = in_brackets(message, n, "(did you mean ");
	const char *last = NULL;

	if (!named)
		named = in_brackets(message, n, "(here it is ");
	if (named)
		return named;
	for (const char *p = message; (p = memmem(p, n - (size_t)(p - message), "; ", 2)); p += 2)
		last = p + 2;
	return last ? json_name(last, n - (size_t)(last - message)) : json_null();
}

json_t *cli_finding(const struct diag *d)
{
	bool placed = d->line > 0;

	return json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "severity",
			 d->severity == DIAG_WARNING ? "warning" : "error", "message",
			 facts_text(d->message), "file", facts_text(d->file), "line",
			 placed ? json_integer(d->line) : json_null(), "column",
			 placed ? json_integer(d->col) : json_null(), "hint", hint_of(d->message));
}

void cli_add_finding(struct cli *cli, const struct diag *d)
{
	bool warning = d->severity == DIAG_WARNING;
	json_t **list = warning ? &cli->warnings : &cli->errors;

	assert(cli->json);
	if (!*list)
		*list = json_array();
	/* A pipeline may have as many warnings as it has lines, but nobody reads them. */
	if (json_array_size(*list) < CLI_FINDINGS_MAX)
		json_array_append_new(*list, cli_finding(d));
}

/* Reads ":12" at `s`. */
static bool read_number(const char **s, int *ret)
{
	int64_t v = 0;
	const char *p = *s + 1;

	if (**s != ':' || *p < '1' || *p > '9')
		return false;
	for (; *p >= '0' && *p <= '9' && v < 100000000; p++)
		v = v * 10 + (*p - '0');
	*s = p;
	*ret = (int)v;
	return true;
}

void cli_add_error_text(struct cli *cli, const char *text)
{
	struct diag d = { .severity = DIAG_ERROR, .message = text };

	for (const char *colon = strchr(text, ':'); colon; colon = strchr(colon + 1, ':')) {
		const char *p = colon;
		int line, col;

		if (colon == text || !read_number(&p, &line) || !read_number(&p, &col) ||
		    !str_has_prefix(p, ": "))
			continue;
		d = (struct diag){ arena_strndup(cli->arena, text, (size_t)(colon - text)), line,
				   col, DIAG_ERROR, p + 2 };
		break;
	}
	cli_add_finding(cli, &d);
}

void cli_print_findings(struct cli *cli, int code)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	json_t *o;

	if (!cli->errors && !cli->warnings)
		return;
	o = json_pack("{s:s, s:o, s:o, s:i}", "schema", "cairn.error/1", "errors",
		      cli->errors ? TAKE_PTR(cli->errors) : json_array(), "warnings",
		      cli->warnings ? TAKE_PTR(cli->warnings) : json_array(), "exit", code);
	json_add_canonical(&s, o);
	str_addc(&s, '\n');
	fflush(cli->out);
	fwrite(s.s, 1, s.len, cli->err);
	json_decref(o);
}
