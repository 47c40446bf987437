/* steps/program.c — the command line of a built-in step, and its help, both from its table.
 *
 * 	cairn step shard -i data=photos/ -o train=train/ -o val=val/ -w split.train=0.9
 *
 * step_main() finds the step's table (step_spec_find()), reads the words into a struct line,
 * completes the settings (step_spec_complete()), checks ports, makes the directories of outputs,
 * and calls the step's run(). It writes the metrics file only after success. There is one error
 * message, on standard error, and the exit status tells its kind: 2 wrong usage, 3 bad input or
 * settings, 143 stopped by a signal, 1 anything else.
 *
 * Settings are combined in the order in which they are given: `-w a.b=1` makes nested objects,
 * --with-json replaces whole keys. VALUE is JSON if it parses as JSON, else text.
 *
 * Everything runs on the main thread; steps start their own threads. main() decides which steps a
 * program has (steps/main.c, steps/train/main.c): the tables contain all of them.
 */
#include <assert.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/os/machine.h"
#include "base/text/text.h"
#include "steps/step.h"

#define THREADS_MAX 1024 /* our own threads; a step may start more */
#define WITH_MAX    (16 * MIB)

struct line {
	struct arena *arena;
	VEC(struct step_port) inputs, outputs;
	json_t *with;
	const char *metrics;
	unsigned threads;
	const char *const *command;
	bool help, complete;
};

/* Help. */

static void add_option_help(struct str *s, const struct spec_option *o, unsigned depth);

static void add_sub_help(struct str *s, const struct spec_option *o, unsigned depth)
{
	for (const struct spec_option *sub = o->sub; sub && sub->name; sub++)
		if (o->type == SPEC_TABLE || o->type == SPEC_VARIANT)
			add_option_help(s, sub, depth + 1);
		else if (sub->sub)
			add_sub_help(s, sub, depth);
}

static void add_option_help(struct str *s, const struct spec_option *o, unsigned depth)
{
	static const char *const types[] = { "BOOL",     "INT",  "NUMBER", "TEXT", NULL, "SIZE",
					     "DURATION", "LIST", "MAP",    NULL,   NULL, "VALUE" };
	_cleanup_(str_deinit) struct str head = { 0 };

	assert(o->type < ARRAY_LEN(types));
	str_addf(&head, "%*s%s", (int)depth * 2 + 2, "", o->name);
	if (o->type == SPEC_CHOICE)
		str_addf(&head, ": %s", o->choices);
	else if (types[o->type])
		str_addf(&head, ": %s", types[o->type]);
	str_addf(s, "%-34s  %s", head.s, o->help ? o->help : "");
	if (o->required)
		str_add(s, " (required)");
	else if (o->def)
		str_addf(s, " (default %s)", o->def);
	str_addc(s, '\n');
	add_sub_help(s, o, depth);
}

static void add_port_help(struct str *s, const char *title, const struct spec_port *ports)
{
	if (!ports || !ports->name)
		return;
	str_addf(s, "\n%s:\n", title);
	for (const struct spec_port *p = ports; p->name; p++)
		str_addf(s, "  %-32s  %s%s\n", strcmp(p->name, "*") == 0 ? "NAME" : p->name,
			 p->help, p->required ? " (required)" : "");
}

static void print_help(const struct step_spec *spec)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	str_addf(&s,
		 "cairn step %s: %s (version %u)\n\nUsage: cairn step %s [-i [NAME=]PATH]... [-o "
		 "[NAME=]PATH]... [-w KEY=VALUE]...%s\n",
		 spec->name, spec->summary, spec->version, spec->name,
		 spec->wraps_command ? " -- COMMAND..." : "");
	if (spec->about && *spec->about)
		str_addf(&s, "\n%s\n", spec->about);
	add_port_help(&s, "Inputs (-i)", spec->inputs);
	add_port_help(&s, "Outputs (-o; a directory's path ends in /)", spec->outputs);
	str_add(&s,
		"\nSettings (`with:` in a pipeline; -w here, keys with dots go down into maps):\n");
	for (const struct spec_option *o = spec->options; o && o->name; o++)
		add_option_help(&s, o, 0);
	str_add(&s,
		"\nOptions:\n  -i, --input [NAME=]PATH             an input\n  -o, --output "
		"[NAME=]PATH            an output\n"
		"  -w, --with KEY=VALUE                a setting; VALUE is JSON, or text\n"
		"      --with-json JSON                all settings as one object; @FILE reads it\n"
		"      --metrics FILE                  write metrics there, as JSON\n"
		"      --threads N                     at most N threads (default: one a cpu; the "
		"bytes don't depend on it)\n"
		"      --show-settings                 print the settings with all defaults, as "
		"JSON, and do nothing\n"
		"      --help                          this page\n");
	if (spec->example)
		str_addf(&s, "\nIn a pipeline:\n%s", spec->example);
	fwrite(s.s, 1, s.len, stdout);
}

/* The command line. */

static int add_port(struct arena *arena, struct step_port *ret, const char *text,
		    const struct spec_port *known, struct err *err)
{
	const char *eq = strchr(text, '=');
	size_t n;

	if (!eq && (!known || !known->name || strcmp(known->name, "*") == 0))
		return err_set(err, ERR_USAGE, "`%s`: say which one: NAME=PATH", text);
	ret->name = eq ? arena_strndup(arena, text, (size_t)(eq - text)) : known->name;
	ret->path = eq ? eq + 1 : text;
	n = strlen(ret->path);
	ret->is_dir = n && ret->path[n - 1] == '/';
	for (const struct spec_port *p = known; p && p->name; p++)
		if (strcmp(p->name, "*") == 0 || strcmp(p->name, ret->name) == 0)
			return n ? 0 : err_set(err, ERR_USAGE, "`%s` has no path", text);
	return err_set(err, ERR_USAGE, "`%s` is none of this step's", ret->name);
}

static int set_with(json_t *with, const char *text, struct err *err)
{
	const char *eq = strchr(text, '='), *at = text, *dot;
	struct err ignored = { 0 };
	json_t *v, *inner = with;

	if (!eq || eq == text)
		return err_set(err, ERR_USAGE, "-w %s: a setting is KEY=VALUE", text);
	if (json_parse(text, eq + 1, strlen(eq + 1), &v, &ignored) < 0)
		v = json_string(eq + 1);
	if (!v)
		return err_set(err, ERR_USAGE, "-w %s: not UTF-8", text);
	while ((dot = memchr(at, '.', (size_t)(eq - at)))) {
		_cleanup_(freep) char *key = xstrndup(at, (size_t)(dot - at));

		if (!json_is_object(json_object_get(inner, key)))
			json_object_set_new(inner, key, json_object());
		inner = json_object_get(inner, key);
		at = dot + 1;
	}
	_cleanup_(freep) char *key = xstrndup(at, (size_t)(eq - at));
	return json_object_set_new(inner, key, v) < 0
		       ? err_set(err, ERR_USAGE, "-w %s: not UTF-8", text)
		       : 0;
}

static int set_with_json(struct line *l, const char *text, struct err *err)
{
	json_t *v;

	if (*text == '@' ? json_read_file(text + 1, WITH_MAX, &v, err) < 0
			 : json_parse("--with-json", text, strlen(text), &v, err) < 0)
		return -1;
	if (!json_is_object(v)) {
		json_decref(v);
		return err_set(err, ERR_USAGE, "--with-json must be an object");
	}
	json_object_update(l->with, v);
	json_decref(v);
	return 0;
}

static int read_option(struct line *l, const struct step_spec *spec, const char *name,
		       const char *v, struct err *err)
{
	struct step_port p = { 0 };
	int64_t n;

	if (strcmp(name, "-i") == 0 || strcmp(name, "--input") == 0) {
		if (add_port(l->arena, &p, v, spec->inputs, err) < 0)
			return -1;
		VEC_PUSH(&l->inputs, p);
		return 0;
	}
	if (strcmp(name, "-o") == 0 || strcmp(name, "--output") == 0) {
		if (add_port(l->arena, &p, v, spec->outputs, err) < 0)
			return -1;
		VEC_PUSH(&l->outputs, p);
		return 0;
	}
	if (strcmp(name, "-w") == 0 || strcmp(name, "--with") == 0)
		return set_with(l->with, v, err);
	if (strcmp(name, "--with-json") == 0)
		return set_with_json(l, v, err);
	if (strcmp(name, "--threads") == 0) {
		/* A program that runs on many nodes gets the threads of all. */
		if (!text_parse_int(v, &n) || n < 1 || n > INT32_MAX)
			return err_set(err, ERR_USAGE, "--threads %s: a number from 1 to %d", v,
				       INT32_MAX);
		l->threads = (unsigned)n;
		return 0;
	}
	if (strcmp(name, "--metrics") == 0) {
		l->metrics = v;
		return 0;
	}
	return err_set(err, ERR_USAGE, "unknown option %s; see `cairn step %s --help`", name,
		       spec->name);
}

static int read_line(struct line *l, const struct step_spec *spec, int argc, char **argv,
		     struct err *err)
{
	for (int i = 0; i < argc; i++) {
		const char *a = argv[i], *eq = str_has_prefix(a, "--") ? strchr(a, '=') : NULL;
		_cleanup_(freep) char *name = eq ? xstrndup(a, (size_t)(eq - a)) : xstrdup(a);

		if (strcmp(a, "--") == 0 && spec->wraps_command) {
			l->command = (const char *const *)argv + i + 1;
			return 0;
		}
		if (strcmp(a, "--help") == 0 || strcmp(a, "-h") == 0) {
			l->help = true;
			return 0;
		}
		if (strcmp(a, "--show-settings") == 0) {
			l->complete = true;
			continue;
		}
		if (*a != '-' || !a[1])
			return err_set(err, ERR_USAGE,
				       "`%s`: inputs are given by -i, outputs by -o; see `cairn "
				       "step %s --help`",
				       a, spec->name);
		if (!eq && i + 1 >= argc)
			return err_set(err, ERR_USAGE,
				       "%s needs a value; see `cairn step %s --help`", a,
				       spec->name);
		if (read_option(l, spec, name, eq ? eq + 1 : argv[++i], err) < 0)
			return -1;
	}
	return 0;
}

static int check_ports(const struct line *l, const struct step_spec *spec, struct err *err)
{
	for (int out = 0; out < 2; out++) {
		const struct spec_port *known = out ? spec->outputs : spec->inputs;
		const struct step_port *v = out ? l->outputs.v : l->inputs.v;
		size_t n = out ? l->outputs.n : l->inputs.n;

		for (const struct spec_port *p = known; p && p->name; p++) {
			size_t i = 0;

			while (p->required && i < n && strcmp(p->name, "*") != 0 &&
			       strcmp(v[i].name, p->name) != 0)
				i++;
			if (p->required && i == n)
				return err_set(err, ERR_USAGE,
					       "%s `%s` is missing (%s): %s %s=PATH",
					       out ? "output" : "input", p->name, p->help,
					       out ? "-o" : "-i", p->name);
		}
		for (size_t i = 0; i < n; i++)
			for (size_t k = i + 1; k < n; k++)
				if (strcmp(v[i].name, v[k].name) == 0)
					return err_set(err, ERR_USAGE, "%s `%s` is given twice",
						       out ? "output" : "input", v[i].name);
	}
	return 0;
}

/* Running. */

static unsigned cpus(void)
{
	struct cpus all;

	return cpus_get(&all) == 0 ? MAX(cpus_count(&all), 1u) : 1;
}

/* If the path is a link, writes to its target: writing a temporary file and renaming it would
 * replace the link, and needs a directory in which names can be created. */
static const char *behind_link(struct arena *arena, const char *path)
{
	_cleanup_(freep) char *dir = NULL, *full = NULL;
	char to[PATH_MAX];
	ssize_t n = path ? readlink(path, to, sizeof(to)) : -1;

	if (n <= 0 || n == sizeof(to))
		return path;
	to[n] = '\0';
	dir = fs_dirname(path);
	full = fs_join(dir, to);
	return arena_strdup(arena, full);
}

static int make_output_places(const struct line *l, struct err *err)
{
	for (size_t i = 0; i < l->outputs.n; i++) {
		const char *path = l->outputs.v[i].path, *slash = strrchr(path, '/');
		_cleanup_(freep) char *dir = slash ? xstrndup(path, (size_t)(slash - path)) : NULL;

		if (dir && *dir && fs_mkdir_p(dir, err) < 0)
			return -1;
	}
	return 0;
}

static int run_step(const struct step_impl *impl, const struct step_spec *spec,
		    const struct line *l, struct err *err)
{
	struct step_args a = { .spec = spec,
			       .inputs = l->inputs.v,
			       .n_inputs = l->inputs.n,
			       .outputs = l->outputs.v,
			       .n_outputs = l->outputs.n,
			       .metrics_path = l->metrics,
			       .command = l->command,
			       .threads = l->threads ? l->threads : cpus() };
	json_t *with;
	int r;

	for (size_t i = 0; i < l->outputs.n; i++)
		l->outputs.v[i].path = behind_link(l->arena, l->outputs.v[i].path);
	a.metrics_path = behind_link(l->arena, a.metrics_path);
	if (!spec->wraps_command)
		a.threads = MIN(a.threads, THREADS_MAX);
	if (step_spec_complete(spec, l->with, &with, err) < 0)
		return -1;
	if (l->complete) {
		_cleanup_(str_deinit) struct str s = { 0 };

		json_add_canonical(&s, with);
		puts(s.s);
		json_decref(with);
		return 0;
	}
	a.with = with;
	a.metrics = json_object();
	r = check_ports(l, spec, err) < 0 || make_output_places(l, err) < 0 ? -1
									    : impl->run(&a, err);
	step_progress_end();
	if (r == 0 && a.metrics_path)
		r = json_write_file(a.metrics_path, a.metrics, true, err);
	json_decref(with);
	json_decref(a.metrics);
	return r;
}

/* For maintainers of pipelines/schema.json: prints its $defs for `with`, step by step. */
static int print_schemas(void)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	json_t *all = json_object();
	size_t n;
	const struct step_spec *const *v = step_specs(&n);

	for (size_t i = 0; i < n; i++)
		step_spec_schema(v[i], all);
	json_add_canonical(&s, all);
	json_decref(all);
	printf("%s\n", s.s);
	return fflush(stdout) == 0 ? 0 : 1;
}

static void list_steps(FILE *to)
{
	size_t n;
	const struct step_spec *const *v = step_specs(&n);

	fprintf(to, "Usage: cairn step NAME [OPTION]...\n\nThe built-in steps:\n");
	for (size_t i = 0; i < n; i++)
		fprintf(to, "  %-10s  %s\n", v[i]->name, v[i]->summary);
	fprintf(to, "\n`cairn step NAME --help` says what one takes.\n");
}

int step_main(const struct step_impl *const *impls, int argc, char **argv)
{
	const struct step_spec *spec = argc > 0 ? step_spec_find(argv[0]) : NULL;
	const struct sigaction ignore = { .sa_handler = SIG_IGN };
	struct line l = { 0 };
	struct err err = { 0 };
	int r = -1;

	sigaction(SIGPIPE, &ignore, NULL);
	if (argc == 1 && strcmp(argv[0], "--schemas") == 0)
		return print_schemas();
	if (!spec) {
		bool help = argc > 0 && strcmp(argv[0], "--help") == 0;

		if (argc > 0 && !help)
			fprintf(stderr, "cairn step: there is no built-in step `%.60s`\n", argv[0]);
		list_steps(help ? stdout : stderr);
		return help ? 0 : 2;
	}
	while (*impls && strcmp((*impls)->name, spec->name) != 0)
		impls++;
	l = (struct line){ .with = json_object(), .arena = arena_new() };
	if (read_line(&l, spec, argc - 1, argv + 1, &err) == 0) {
		if (l.help) {
			print_help(spec);
			r = 0;
		} else {
			r = *impls ? run_step(*impls, spec, &l, &err)
				   : err_set(&err, ERR_UNSUPPORTED,
					     "this program only starts commands: its steps are "
					     "`train`, `ray` and `spark-submit`");
		}
	}
	if (r == 0 && fflush(stdout) != 0)
		r = err_errno(&err, "cannot write to standard output");
	if (r < 0)
		fprintf(stderr, "%s: error: %s\n", spec->name,
			err.code ? err.msg : "it failed without a reason");
	json_decref(l.with);
	VEC_FREE(&l.inputs);
	VEC_FREE(&l.outputs);
	arena_free(l.arena);
	return r == 0                                                 ? 0
	       : err.code == ERR_USAGE                                ? 2
	       : err.code == ERR_INVALID || err.code == ERR_TOO_LARGE ? 3
	       : err.code == ERR_CANCELLED                            ? 128 + SIGTERM
								      : 1;
}
