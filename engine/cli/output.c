/* Text for people and for programs: escapes, numbers, JSON. */
#include <string.h>
#include <sys/ioctl.h>
#include "base/clock.h"
#include "base/text.h"
#include "cli/cli.h"

const char *style_escape(enum cli_style s)
{
	static const char *const escapes[] = { [STYLE_PLAIN] = "\033[0m",   [STYLE_BOLD] = "\033[1m",	  [STYLE_DIM] = "\033[2m",
					       [STYLE_RED] = "\033[31m",    [STYLE_GREEN] = "\033[32m",  [STYLE_YELLOW] = "\033[33m",
					       [STYLE_BLUE] = "\033[34m",   [STYLE_MAGENTA] = "\033[35m", [STYLE_CYAN] = "\033[36m" };
	return escapes[s];
}

const char *cli_style(const struct cli *cli, enum cli_style s)
{
	return cli->color_out ? style_escape(s) : "";
}

const char *cli_style_err(const struct cli *cli, enum cli_style s)
{
	return cli->color_err ? style_escape(s) : "";
}

enum cli_style cli_run_state_style(enum run_state s)
{
	switch (s) {
	case RUN_RUNNING:
		return STYLE_BLUE;
	case RUN_SUCCEEDED:
		return STYLE_GREEN;
	case RUN_FAILED:
		return STYLE_RED;
	default:
		return STYLE_YELLOW;
	}
}

static void add_pretty(struct str *s, const json_t *j, int depth);

static void add_member(struct str *s, const char *key, const json_t *value, bool first, int depth)
{
	str_addf(s, "%s\n%*s", first ? "" : ",", depth * 2, "");
	if (key) {
		json_add_string(s, key, strlen(key));
		str_add(s, ": ");
	}
	add_pretty(s, value, depth);
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static void add_pretty_object(struct str *s, const json_t *j, int depth)
{
	size_t n = json_object_size(j), i = 0;
	_cleanup_(freep) const char **keys = xcalloc(n, sizeof(*keys));
	const char *key;
	json_t *value;

	json_object_foreach ((json_t *)(uintptr_t)j, key, value)
		keys[i++] = key;
	qsort(keys, n, sizeof(*keys), by_bytes);
	str_addc(s, '{');
	for (i = 0; i < n; i++)
		add_member(s, keys[i], json_object_get(j, keys[i]), i == 0, depth + 1);
	str_addf(s, "\n%*s}", depth * 2, "");
}

/* Indented for a reader; scalars, and what is empty, as in the canonical form. */
static void add_pretty(struct str *s, const json_t *j, int depth)
{
	size_t n = json_array_size(j);

	if (json_is_object(j) && json_object_size(j)) {
		add_pretty_object(s, j, depth);
	} else if (n) {
		str_addc(s, '[');
		for (size_t i = 0; i < n; i++)
			add_member(s, NULL, json_array_get(j, i), i == 0, depth + 1);
		str_addf(s, "\n%*s]", depth * 2, "");
	} else {
		json_add_canonical(s, j);
	}
}

void cli_print_json(struct cli *cli, json_t *j)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	add_pretty(&s, j, 0);
	str_addc(&s, '\n');
	fwrite(s.s, 1, s.len, cli->out);
	json_decref(j);
}

/* Moves a string into the arena. */
static const char *keep(struct cli *cli, struct str *s)
{
	const char *kept = arena_strndup(cli->arena, s->s ? s->s : "", s->len);

	str_deinit(s);
	return kept;
}

const char *cli_text(struct cli *cli, const char *text)
{
	struct str s = { 0 };

	if (!text)
		return "-";
	text_add_printable(&s, text, strlen(text));
	return keep(cli, &s);
}

const char *cli_duration(struct cli *cli, int64_t ns)
{
	struct str s = { 0 };

	text_add_duration(&s, MAX(ns, (int64_t)0));
	return keep(cli, &s);
}

const char *cli_bytes(struct cli *cli, uint64_t n)
{
	struct str s = { 0 };

	text_add_bytes(&s, n);
	return keep(cli, &s);
}

const char *cli_ago(struct cli *cli, int64_t wall_ns)
{
	struct clock *c = clock_system();
	struct str s = { 0 };

	text_add_relative(&s, wall_ns, c->wall_ns(c));
	return keep(cli, &s);
}

const char *cli_hash(struct cli *cli, const struct digest *d)
{
	char hex[DIGEST_HEX_MAX];

	digest_hex(d, hex);
	return arena_strndup(cli->arena, hex, 12);
}

/* A variable that a user may have set to anything. */
static unsigned size_from_env(const char *name)
{
	const char *v = getenv(name);
	int64_t n;

	return v && text_parse_int(v, &n) && n >= 1 && n <= 10000 ? (unsigned)n : 0;
}

void cli_terminal_size(FILE *stream, unsigned *ret_columns, unsigned *ret_lines)
{
	struct winsize ws = { 0 };
	int fd = fileno(stream);

	if (fd >= 0 && ioctl(fd, TIOCGWINSZ, &ws) < 0)
		ws = (struct winsize){ 0 };
	*ret_columns = size_from_env("COLUMNS");
	*ret_lines = size_from_env("LINES");
	if (!*ret_columns)
		*ret_columns = ws.ws_col ? ws.ws_col : 80;
	if (!*ret_lines)
		*ret_lines = ws.ws_row ? ws.ws_row : 24;
}

/* Bytes of the sequence at `s` that sets colours (ECMA-48 SGR), 0 when it is another one or is cut off. */
static size_t colour_length(const char *s, size_t n)
{
	size_t len = 2;

	if (n < 3 || s[0] != '\033' || s[1] != '[')
		return 0;
	while (len < n && len < 40 && ((s[len] >= '0' && s[len] <= '9') || s[len] == ';' || s[len] == ':'))
		len++;
	return len < n && s[len] == 'm' ? len + 1 : 0;
}

/* Programs may colour what they print, indent it and end lines as Windows does. Nothing else of what a terminal obeys
 * reaches it: titles, the clipboard, the cursor, answers that it would type for the user. */
void cli_print_log(struct cli *cli, const char *bytes, size_t n)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	bool coloured = false;

	if (!cli->tty_out) {
		fwrite(bytes, 1, n, cli->out);
		return;
	}
	while (n) {
		size_t len = 0, colour = colour_length(bytes, n);

		if (colour) {
			if (cli->color_out)
				str_addn(&text, bytes, colour);
			coloured = cli->color_out;
		} else if (*bytes == '\n' || *bytes == '\t') {
			str_addc(&text, *bytes);
			len = 1;
		} else if (*bytes == '\r' && n > 1 && bytes[1] == '\n') {
			len = 1;
		} else {
			len = 1;
			while (len < n && !memchr("\n\t\r\033", bytes[len], 4))
				len++;
			text_add_printable(&text, bytes, len);
		}
		n -= colour + len;
		bytes += colour + len;
	}
	if (coloured)
		str_add(&text, style_escape(STYLE_PLAIN));
	if (text.len)
		fwrite(text.s, 1, text.len, cli->out);
}
