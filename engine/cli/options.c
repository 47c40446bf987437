/* engine/cli/options.c — parses the command line with the table of commands.
 *
 * Parsing has two passes. parse_command() finds the words that name command and subcommand: the
 * first words that are no options of the program. parse_words() then reads every word with that
 * command's table. Both passes know options of the program that take a value, so that the value
 * isn't taken for the command.
 *
 * An option is looked for among the command's own, then --json, then those of the program: a
 * command may use a letter that the program uses as well. `given` keeps every option in the order
 * of the command line; asking for a value takes the last one.
 *
 * An option with `bare` takes the next word only when that is neither an option nor a pipeline
 * file: `--force pipeline.yaml` leaves the file an operand.
 *
 * Invariants: strings are argv's and nothing is copied. The rules of the table (number of operands,
 * choices) are checked here; numbers and durations only when a command asks for them. With --help
 * or --version the number and choices of operands aren't checked.
 *
 * Threads: one. What it doesn't do: apply options of the program (cli.c).
 */
#include <assert.h>
#include <string.h>
#include "base/mem.h"
#include "base/text/text.h"
#include "cli/cli.h"

const struct cli_command *cli_find_command(const struct cli_command *table, const char *name)
{
	for (; table && table->name; table++)
		if (strcmp(table->name, name) == 0)
			return table;
	return NULL;
}

/* Looking up options. */

static const struct cli_option *find_in(const struct cli_option *o, const char *name, size_t len,
					char letter)
{
	for (; o && o->name; o++)
		if (letter ? o->letter == letter
			   : strlen(o->name) == len && memcmp(o->name, name, len) == 0)
			return o;
	return NULL;
}

/* By long name, or by letter unless that is 0. */
static const struct cli_option *find_option(const struct cli_command *c, const char *name,
					    size_t len, char letter)
{
	const struct cli_option *o = c ? find_in(c->options, name, len, letter) : NULL;

	if (o)
		return o;
	if (c && c->json && !letter && len == 4 && memcmp(name, "json", 4) == 0)
		return &cli_json_option;
	return find_in(cli_global_options, name, len, letter);
}

static int unknown_option(const struct cli_command *c, const char *word, size_t len,
			  struct err *err)
{
	_cleanup_(str_deinit) struct str m = { 0 }, typed = { 0 };
	const char *names[64];
	size_t n = 0;

	for (const struct cli_option *o = c ? c->options : NULL;
	     o && o->name && n < ARRAY_LEN(names) - 8; o++)
		names[n++] = o->name;
	for (const struct cli_option *o = cli_global_options; o->name && n < ARRAY_LEN(names) - 2;
	     o++)
		names[n++] = o->name;
	if (c && c->json)
		names[n++] = "json";
	if (!c)
		names[n++] = "version";
	str_addn(&typed, word, len);
	if (len > 2 && word[1] == '-') {
		const char *near = text_nearest(typed.s + 2, names, n);
		if (near)
			str_addf(&m, " (did you mean `--%s`?)", near);
	}
	return err_set(err, ERR_USAGE, "unknown option `%s`%s", typed.s, m.s ? m.s : "");
}

/* Options given. */

static bool is_choice(const char *choices, const char *value)
{
	size_t n = strlen(value);

	for (const char *p = choices; *p;) {
		size_t len = strcspn(p, "|");
		if (len == n && memcmp(p, value, n) == 0)
			return true;
		p += len + (p[len] == '|');
	}
	return false;
}

static int wrong_choice(const char *what, const char *choices, const char *value, struct err *err)
{
	_cleanup_(str_deinit) struct str m = { 0 }, copy = { 0 };
	const char *words[16];
	size_t n = 0;

	str_add(&copy, choices);
	for (char *rest, *p = strtok_r(copy.s, "|", &rest); p && n < ARRAY_LEN(words);
	     p = strtok_r(NULL, "|", &rest))
		words[n++] = p;
	for (size_t i = 0; i < n; i++)
		str_addf(&m, "%s%s", i == 0 ? "" : i + 1 == n ? " or " : ", ", words[i]);
	str_addf(&m, ", not `%s`", value);
	text_add_suggestion(&m, value, words, n);
	return err_set(err, ERR_USAGE, "%s must be %s", what, m.s);
}

static int give(struct cli_args *a, const struct cli_option *o, const char *value, struct err *err)
{
	if (o->choices && !is_choice(o->choices, value)) {
		_cleanup_(freep) char *what = xasprintf("--%s", o->name);
		return wrong_choice(what, o->choices, value, err);
	}
	if (strcmp(o->name, "help") == 0)
		a->help = true;
	a->given = xreallocarray(a->given, a->n_given + 1, sizeof(*a->given));
	a->given[a->n_given++] = (struct cli_given){ o, value };
	return 0;
}

/* Gives an option without a value in its own word the next word (NULL after the last one), or its
 * bare value. `typed` is shown in the error. */
static int give_next(struct cli_args *a, const struct cli_option *o, const char *typed, char **argv,
		     int *i, struct err *err)
{
	const char *next = argv[*i + 1];

	if (next && (!o->bare || (*next && *next != '-' && !cli_is_pipeline_path(next))))
		return give(a, o, argv[++*i], err);
	if (o->bare)
		return give(a, o, o->bare, err);
	return err_set(err, ERR_USAGE, "%s needs a value: %s %s", typed, typed, o->arg);
}

static int parse_long(struct cli_args *a, char **argv, int *i, struct err *err)
{
	const char *word = argv[*i] + 2, *eq = strchr(word, '=');
	size_t len = eq ? (size_t)(eq - word) : strlen(word);
	const struct cli_option *o = find_option(a->command, word, len, 0);

	if (!o)
		return unknown_option(a->command, argv[*i], len + 2, err);
	if (!o->arg)
		return eq ? err_set(err, ERR_USAGE, "--%s takes no value", o->name)
			  : give(a, o, "", err);
	if (eq)
		return give(a, o, eq + 1, err);
	return give_next(a, o, argv[*i], argv, i, err);
}

static int parse_letters(struct cli_args *a, char **argv, int *i, struct err *err)
{
	for (const char *p = argv[*i] + 1; *p; p++) {
		const struct cli_option *o = find_option(a->command, NULL, 0, *p);
		char typed[3] = { '-', *p, 0 };

		if (!o)
			return unknown_option(a->command, typed, 2, err);
		if (!o->arg) {
			if (give(a, o, "", err) < 0)
				return -1;
			continue;
		}
		if (p[1])
			return give(a, o, p + 1, err);
		return give_next(a, o, typed, argv, i, err);
	}
	return 0;
}

/* The command. */

static int unknown_command(struct cli_args *a, const struct cli_command *table, const char *word,
			   struct err *err)
{
	_cleanup_(str_deinit) struct str m = { 0 };
	const char *names[64];
	size_t n = 0;

	for (const struct cli_command *c = table; c->name && n < ARRAY_LEN(names); c++)
		names[n++] = c->name;
	if (!a->parent && (str_has_suffix(word, ".yaml") || str_has_suffix(word, ".yml")))
		str_addf(&m, " (did you mean `cairn run %s`?)", word);
	else
		text_add_suggestion(&m, word, names, n);
	return err_set(err, ERR_USAGE, "unknown command `%s%s%s`%s; see `cairn%s%s --help`",
		       CLI_PARENT(a->parent), word, m.s ? m.s : "", a->parent ? " " : "",
		       a->parent ? a->parent->name : "");
}

/* Whether this word takes the next one as its value. Only options of the program may stand before
 * the command. */
static bool takes_next(const char *word)
{
	const struct cli_option *o;

	if (word[1] == '-') {
		o = find_in(cli_global_options, word + 2, strlen(word + 2), 0);
		return o && o->arg;
	}
	for (const char *p = word + 1; *p; p++) {
		o = find_in(cli_global_options, NULL, 0, *p);
		if (!o)
			return false;
		if (o->arg)
			return p[1] == 0;
	}
	return false;
}

/* Finds the next word that names a command from `table`; sets *at to its index (argc: none). */
static int find_word(struct cli_args *a, const struct cli_command *table, int argc, char **argv,
		     int *at, const struct cli_command **ret, struct err *err)
{
	int i = *at;

	for (; i < argc; i++) {
		if (argv[i][0] != '-' || !argv[i][1])
			break;
		if (strcmp(argv[i], "--") == 0) {
			i++;
			break;
		}
		i += takes_next(argv[i]);
	}
	*at = i;
	if (i >= argc)
		return 0;
	*ret = cli_find_command(table, argv[i]);
	if (!*ret && table == cli_commands)
		*ret = cli_find_command(cli_hidden_commands, argv[i]);
	return *ret ? 0 : unknown_command(a, table, argv[i], err);
}

/* `cairn schedule --to X`: the option implies the subcommand. Options of the program may stand
 * before it. */
static const struct cli_command *bare_subcommand(const struct cli_command *parent, int argc,
						 char **argv, int at)
{
	const struct cli_command *c =
		parent->bare ? cli_find_command(parent->subcommands, parent->bare) : NULL;

	for (; c && at < argc && argv[at][0] == '-' && strcmp(argv[at], "--") != 0; at++) {
		const char *name = argv[at] + 2;

		if (argv[at][1] == '-' && find_in(c->options, name, strcspn(name, "="), 0))
			return c;
		at += takes_next(argv[at]);
	}
	return NULL;
}

/* `cairn serve token …`, but not `cairn serve DIR`. */
static bool names_subcommand(const struct cli_command *parent, int argc, char **argv, int at)
{
	for (; at < argc && argv[at][0] == '-' && strcmp(argv[at], "--") != 0; at++)
		at += takes_next(argv[at]);
	return at < argc && cli_find_command(parent->subcommands, argv[at]);
}

/* Sets command and parent; places[] are the indices of the words that named them. */
static int parse_command(struct cli_args *a, int argc, char **argv, int places[2], struct err *err)
{
	places[0] = 1;
	places[1] = argc;
	if (find_word(a, cli_commands, argc, argv, &places[0], &a->command, err) < 0)
		return -1;
	if (!a->command || !a->command->subcommands)
		return 0;
	a->parent = TAKE_PTR(a->command);
	places[1] = places[0] + 1;
	a->command = bare_subcommand(a->parent, argc, argv, places[1]);
	if (a->command) {
		places[1] = argc;
		return 0;
	}
	if (a->parent->run && !names_subcommand(a->parent, argc, argv, places[1])) {
		a->command = TAKE_PTR(a->parent);
		places[1] = argc;
		return 0;
	}
	if (find_word(a, a->parent->subcommands, argc, argv, &places[1], &a->command, err) < 0)
		return -1;
	if (!a->command) /* `cairn store --help`, or wrong usage */
		a->command = TAKE_PTR(a->parent);
	return 0;
}

static int check_operands(const struct cli_args *a, struct err *err)
{
	const struct cli_command *c = a->command;

	if (c->subcommands && !c->run)
		return err_set(err, ERR_USAGE,
			       "`cairn %s` needs a subcommand; see `cairn %s --help`", c->name,
			       c->name);
	if (a->n_operands < c->min)
		return err_set(err, ERR_USAGE, "%s is missing: cairn %s%s%s %s",
			       c->min == 1 ? "an operand" : "something", CLI_PARENT(a->parent),
			       c->name, c->operands);
	if (a->n_operands > c->max)
		return err_set(err, ERR_USAGE, "unexpected `%s`; see `cairn %s%s%s --help`",
			       a->operands[c->max], CLI_PARENT(a->parent), c->name);
	for (size_t i = 0; c->operand_choices && i < a->n_operands; i++)
		if (!is_choice(c->operand_choices, a->operands[i]))
			return wrong_choice(c->operands, c->operand_choices, a->operands[i], err);
	return 0;
}

static int parse_words(struct cli_args *a, int argc, char **argv, const int places[2],
		       struct err *err)
{
	bool only_operands = false;

	for (int i = 1; i < argc; i++) {
		int r = 0;

		only_operands |= a->command && a->command->raw && i > places[0];
		if (i == places[0] || i == places[1])
			continue;
		if (only_operands || argv[i][0] != '-' || !argv[i][1])
			a->operands[a->n_operands++] = argv[i];
		else if (strcmp(argv[i], "--") == 0)
			only_operands = true;
		else if (!a->command && strcmp(argv[i], "--version") == 0)
			a->version = true;
		else if (argv[i][1] == '-')
			r = parse_long(a, argv, &i, err);
		else
			r = parse_letters(a, argv, &i, err);
		if (r < 0)
			return -1;
	}
	return 0;
}

int cli_parse(int argc, char **argv, struct cli_args *ret, struct err *err)
{
	int places[2];

	assert(argc >= 1 && !argv[argc]);
	*ret = (struct cli_args){ 0 };
	ret->operands = xcalloc((size_t)argc + 1, sizeof(*ret->operands));
	if (parse_command(ret, argc, argv, places, err) < 0 ||
	    parse_words(ret, argc, argv, places, err) < 0)
		return -1;
	if (ret->help || ret->version)
		return 0;
	if (!ret->command)
		return err_set(err, ERR_USAGE, "a command is missing; see `cairn --help`");
	return check_operands(ret, err);
}

void cli_args_deinit(struct cli_args *a)
{
	free(a->operands);
	free(a->given);
	*a = (struct cli_args){ 0 };
}

/* Access. */

/* A name that the table doesn't have is a programming error. */
static void check_name(const struct cli_args *a, const char *name)
{
	assert(find_option(a->command, name, strlen(name), 0));
}

unsigned cli_count(const struct cli_args *a, const char *name)
{
	unsigned n = 0;

	check_name(a, name);
	for (size_t i = 0; i < a->n_given; i++)
		n += strcmp(a->given[i].option->name, name) == 0;
	return n;
}

const char *cli_value_at(const struct cli_args *a, const char *name, unsigned at)
{
	check_name(a, name);
	for (size_t i = 0; i < a->n_given; i++)
		if (strcmp(a->given[i].option->name, name) == 0 && at-- == 0)
			return a->given[i].value;
	return NULL;
}

const char *cli_value(const struct cli_args *a, const char *name)
{
	unsigned n = cli_count(a, name);

	return n ? cli_value_at(a, name, n - 1) : NULL;
}

const char *cli_new_dir(const struct cli_args *a, const char *name, struct arena *arena)
{
	const char *value = cli_value(a, name);
	size_t n = value ? strlen(value) : 0;

	while (n > 1 && value[n - 1] == '/')
		n--;
	return value ? arena_strndup(arena, value, n) : NULL;
}

const char *const *cli_values(const struct cli_args *a, const char *name, struct arena *arena,
			      size_t *ret_n)
{
	size_t n = cli_count(a, name);
	const char **v = arena_alloc(arena, (n + 1) * sizeof(*v));

	*ret_n = n;
	for (size_t i = 0, k = 0; i < a->n_given; i++)
		if (strcmp(a->given[i].option->name, name) == 0)
			v[k++] = a->given[i].value;
	return v;
}

int cli_uint(const struct cli_args *a, const char *name, uint64_t min, uint64_t max, uint64_t *ret,
	     struct err *err)
{
	const char *text = cli_value(a, name);
	int64_t v;

	assert(min <= max && max <= INT64_MAX);
	if (!text)
		return 0;
	if (!text_parse_int(text, &v) || v < 0 || (uint64_t)v < min || (uint64_t)v > max)
		return err_set(err, ERR_USAGE,
			       "--%s must be a whole number from %llu to %llu, not `%s`", name,
			       (unsigned long long)min, (unsigned long long)max, text);
	*ret = (uint64_t)v;
	return 0;
}

int cli_duration_value(const struct cli_args *a, const char *name, int64_t *ret_ns, struct err *err)
{
	const char *text = cli_value(a, name);

	if (!text)
		return 0;
	if (text_parse_duration(text, ret_ns, err) < 0) {
		err_wrap(err, "--%s", name);
		if (err)
			err->code = ERR_USAGE;
		return -1;
	}
	return 0;
}
