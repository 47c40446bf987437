/* engine/cli/render/output.c — text for people and for programs: escapes, JSON, values, logs.
 *
 * Small functions without state. Those that return text keep it in cli->arena, so that callers
 * never free.
 *
 * JSON is printed indented with keys in the order of their bytes, so that the same facts give the
 * same document; scalars are written as in the canonical form.
 *
 * cli_print_log() is the border to hostile bytes. To a terminal it lets through newlines, tabs and
 * colour sequences; everything else that a terminal could obey is made visible. When colours were
 * let through, the text of a piece ends with a reset. A sequence or character that is cut at the
 * end of a piece waits in struct cli_log for the next piece.
 */
#include <assert.h>
#include <string.h>
#include <sys/ioctl.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "cli/cli.h"

const char *cli_style_escape(enum cli_style s)
{
	static const char *const escapes[] = {
		[STYLE_PLAIN] = "\033[0m",  [STYLE_BOLD] = "\033[1m",
		[STYLE_DIM] = "\033[2m",    [STYLE_RED] = "\033[31m",
		[STYLE_GREEN] = "\033[32m", [STYLE_YELLOW] = "\033[33m",
		[STYLE_BLUE] = "\033[34m",  [STYLE_MAGENTA] = "\033[35m",
		[STYLE_CYAN] = "\033[36m"
	};
	assert(s < ARRAY_LEN(escapes));
	return escapes[s];
}

const char *cli_style(const struct cli *cli, enum cli_style s)
{
	return cli->color_out ? cli_style_escape(s) : "";
}

const char *cli_style_err(const struct cli *cli, enum cli_style s)
{
	return cli->color_err ? cli_style_escape(s) : "";
}

enum cli_style cli_state_style(const char *state)
{
	return str_eq(state, "succeeded") ? STYLE_GREEN
	       : str_eq(state, "running") ? STYLE_BLUE
	       : str_eq(state, "failed") || str_eq(state, "died") || str_eq(state, "lost")
		       ? STYLE_RED
		       : STYLE_YELLOW;
}

const char *cli_member(struct cli *cli, const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? cli_text(cli, s) : NULL;
}

int64_t cli_member_int(const json_t *o, const char *key)
{
	return json_integer_value(json_object_get(o, key));
}

const char *cli_short_hash(struct cli *cli, const char *hash)
{
	return arena_printf(cli->arena, "%.12s", hash + (str_has_prefix(hash, "sha256:") ? 7 : 0));
}

const char *cli_cause(struct cli *cli, const json_t *run)
{
	const json_t *by = json_object_get(run, "caused_by");
	const char *from = cli_member(cli, by, "run"), *delivery = cli_member(cli, by, "delivery");

	if (!from && !delivery)
		return NULL;
	return arena_printf(cli->arena, "caused by %s %s", from ? "run" : "delivery",
			    from ? from : delivery);
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

/* Indented for a reader; scalars, and empty lists and objects, as in the canonical form. */
static void add_pretty(struct str *s, const json_t *j, int depth)
{
	size_t n = json_array_size(j), n_keys = json_object_size(j), i = 0;
	_cleanup_(freep) const char **keys = xcalloc(n_keys + 1, sizeof(*keys));
	const char *key;
	json_t *value;

	if (n_keys) {
		json_object_foreach((json_t *)(uintptr_t)j, key, value) keys[i++] = key;
		qsort(keys, n_keys, sizeof(*keys), by_bytes);
		str_addc(s, '{');
		for (i = 0; i < n_keys; i++)
			add_member(s, keys[i], json_object_get(j, keys[i]), i == 0, depth + 1);
		str_addf(s, "\n%*s}", depth * 2, "");
	} else if (n) {
		str_addc(s, '[');
		for (; i < n; i++)
			add_member(s, NULL, json_array_get(j, i), i == 0, depth + 1);
		str_addf(s, "\n%*s]", depth * 2, "");
	} else {
		json_add_canonical(s, j);
	}
}

void cli_print_json(struct cli *cli, const char *schema, json_t *j)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	assert(j);
	if (cli->inside) {
		json_decref(j);
		return;
	}
	assert(!schema || !cli->command || strstr(cli->command->json, schema));
	if (schema)
		json_object_set_new(j, "schema", json_string(schema));
	add_pretty(&s, j, 0);
	str_addc(&s, '\n');
	fwrite(s.s, 1, s.len, cli->out);
	json_decref(j);
}

int cli_write_to(struct cli *cli, const char *path, const struct str *s, struct err *err)
{
	if (!str_eq(path, "-"))
		return fs_write_atomic(path, s->s ? s->s : "", s->len, err);
	fwrite(s->s ? s->s : "", 1, s->len, cli->out);
	return 0;
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
	struct str s = { 0 };

	text_add_relative(&s, wall_ns, clock_wall_ns());
	return keep(cli, &s);
}

const char *cli_hash(struct cli *cli, const struct digest *d)
{
	char hex[DIGEST_HEX_MAX];

	digest_hex(d, hex);
	return arena_strndup(cli->arena, hex, 12);
}

/* The user may have set the variable to anything. */
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

/* Signs. */

void cli_add_signs(struct str *out, const char *s, size_t n, bool utf8)
{
	static const struct {
		const char *sign, *ascii;
	} all[] = { { "…", "..." }, { "→", "->" }, { "·", "-" }, { "—", "-" } };

	for (size_t i = 0, k; i < n;) {
		for (k = 0; !utf8 && k < ARRAY_LEN(all); k++)
			if (n - i >= strlen(all[k].sign) &&
			    memcmp(s + i, all[k].sign, strlen(all[k].sign)) == 0)
				break;
		if (utf8 || k == ARRAY_LEN(all)) {
			str_addc(out, s[i++]);
		} else {
			str_add(out, all[k].ascii);
			i += strlen(all[k].sign);
		}
	}
}

/* Logs. */

enum found { FOUND_NONE, FOUND_COLOUR, FOUND_CUT };

/* A sequence at `s` that sets colours (ECMA-48 SGR); cut: the next bytes may complete one. */
static enum found find_colour(const char *s, size_t n, size_t *ret_len)
{
	size_t len = 2;

	if (s[0] != '\033' || (n > 1 && s[1] != '['))
		return FOUND_NONE;
	while (len < n && len < CLI_LOG_HELD - 1 &&
	       ((s[len] >= '0' && s[len] <= '9') || s[len] == ';' || s[len] == ':'))
		len++;
	*ret_len = len + 1;
	if (len >= n)
		return n < CLI_LOG_HELD ? FOUND_CUT : FOUND_NONE;
	return s[len] == 'm' ? FOUND_COLOUR : FOUND_NONE;
}

/* Counts the bytes at the end of `s` that begin a UTF-8 character and don't complete it. */
static size_t cut_character(const char *s, size_t n)
{
	for (size_t k = 1; k <= 3 && k <= n; k++) {
		unsigned char c = (unsigned char)s[n - k];

		if (c >= 0xc2 && c <= 0xf4)
			return k < (c >= 0xf0 ? 4u : c >= 0xe0 ? 3u : 2u) ? k : 0;
		if (c < 0x80 || c > 0xbf)
			return 0;
	}
	return 0;
}

/* Programs may colour their output, indent it and end lines as Windows does. No other control
 * reaches the terminal: titles, the clipboard, the cursor, answers that it would type for the user.
 * Returns how much of it is printed; the rest waits for the next piece. */
static size_t add_visible(struct str *out, struct cli *cli, struct cli_log *l, const char *s,
			  size_t n, bool more)
{
	size_t at = 0, len;

	for (; at < n; at += len) {
		enum found found = find_colour(s + at, n - at, &len);

		if (found == FOUND_COLOUR) {
			/* ESC [ m and ESC [ 0 m end all colours */
			bool plain = len == 3 || (len == 4 && s[at + 2] == '0');

			if (!cli->color_out)
				continue;
			str_addn(out, s + at, len);
			if (plain || l->n_colour + len > sizeof(l->colour))
				l->n_colour = 0;
			if (!plain) {
				memcpy(l->colour + l->n_colour, s + at, len);
				l->n_colour += len;
			}
			continue;
		}
		if (more && (found == FOUND_CUT || (s[at] == '\r' && n - at == 1)))
			break;
		len = 1;
		if (s[at] == '\n' || s[at] == '\t') {
			str_addc(out, s[at]);
		} else if (s[at] != '\r' || n - at == 1 || s[at + 1] != '\n') {
			while (at + len < n && !memchr("\n\t\r\033", s[at + len], 4))
				len++;
			if (more && at + len == n)
				len -= cut_character(s + at, len);
			if (len == 0)
				break;
			text_add_printable(out, s + at, len);
		}
	}
	return at;
}

static void print_visible(struct cli *cli, struct cli_log *l, const char *bytes, size_t n,
			  bool more)
{
	_cleanup_(str_deinit) struct str in = { 0 }, out = { 0 };
	size_t done;

	str_addn(&in, l->held, l->n_held);
	str_addn(&in, bytes, n);
	str_addn(&out, l->colour, l->n_colour);
	done = add_visible(&out, cli, l, in.s, in.len, more);
	l->n_held = in.len - done;
	assert(l->n_held <= sizeof(l->held));
	memcpy(l->held, in.s + done, l->n_held);
	if (l->n_colour)
		str_add(&out, cli_style_escape(STYLE_PLAIN));
	if (done)
		fwrite(out.s, 1, out.len, cli->out);
}

void cli_print_log(struct cli *cli, struct cli_log *l, const char *bytes, size_t n)
{
	if (!cli->tty_out)
		fwrite(bytes, 1, n, cli->out);
	else if (n)
		print_visible(cli, l, bytes, n, true);
}

void cli_end_log(struct cli *cli, struct cli_log *l)
{
	if (l->n_held)
		print_visible(cli, l, "", 0, false);
	*l = (struct cli_log){ 0 };
}
