/* engine/cli/run/preflight.c — what `cairn check` looks for outside of the pipeline file.
 *
 * Everything is a name that is looked up: nothing is run or hashed, and only lock files of
 * environments are read. So it is quick, and true only for now. Names with a `${{ }}` aren't known
 * yet and aren't looked up.
 *
 * A script counts as missing only where it is certain: it is the first command of `run`, so nothing
 * before it can have made it or changed the directory, and it is under no path of the workspace
 * that the step itself fills.
 *
 * A pattern of `each` over an input in the project is matched as the planner does it. A directory
 * that has too many files, or can't be read, counts as one that has a match.
 *
 * Threads: the caller's. What it doesn't do: tell whether the planner finds everything else (inputs
 * at a bucket, images). `cairn plan` does. Imports: which modules Python finds depends on the
 * environment that a step runs in, on PYTHONPATH and on what a script does to sys.path, so a module
 * that isn't in the project is no fault that can be told here.
 */
#include "cli/run/preflight.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/os/process/command.h"
#include "base/text/text.h"
#include "plan/environment.h"
#include "run/slots.h"
#include "run/task/secret.h"
#include "runners/image/registry.h"
#include "runners/kubernetes/job/job.h"

struct preflight {
	const struct config *config;
	const struct pipeline *pipeline;
	struct diag_list *diags;
	struct slots slots;
	bool local;
};

/* `root`: of the input or the step that names it. */
static bool exists(const struct preflight *h, const char *root, const char *path, struct stat *ret)
{
	_cleanup_(freep) char *dir = config_root(h->config, root), *whole = fs_join(dir, path);

	return lstat(whole, ret) == 0;
}

static void check_inputs(struct preflight *h)
{
	struct stat st;

	for (size_t i = 0; i < h->pipeline->n_inputs; i++) {
		const struct input_decl *in = &h->pipeline->inputs[i];

		if (in->origin != INPUT_PATH)
			continue;
		if (!exists(h, in->root, in->uri, &st))
			diag_warning(h->diags, in->pos.file, in->pos.line, in->pos.col,
				     "input `%s`: %s isn't %s", in->name, in->uri,
				     in->root ? "in the commit or run that uses it"
					      : "here now; a run needs it");
		else if (in->must_be_dir && S_ISREG(st.st_mode))
			diag_error(h->diags, in->pos.file, in->pos.line, in->pos.col,
				   "input `%s`: %s is a file, but is written as a directory",
				   in->name, in->uri);
	}
}

/* Patterns of `each`. */

#define LOOKED_AT_MAX 20000 /* names; more would take longer than a person waits */
#define GLOB_DEPTH    64
#define EXAMPLES      3 /* names that a warning has */

static bool is_there(const char *dir, const char *pattern, int depth, int64_t *budget);

static bool entry_matches(const char *dir, const char *name, const char *pattern, int depth,
			  int64_t *budget)
{
	size_t n = strcspn(pattern, "/");
	const char *rest = pattern + n + (pattern[n] == '/');
	_cleanup_(freep) char *part = xstrndup(pattern, n), *below = fs_join(dir, name);
	bool deep = str_eq(part, "**");

	if (deep)
		return is_there(below, pattern, depth + 1, budget);
	if (fnmatch(part, name, FNM_PERIOD | FNM_NOESCAPE) != 0)
		return false;
	return !*rest || is_there(below, rest, depth + 1, budget);
}

/* Whether something below `dir` matches, as far as it can be known: true if not. */
static bool is_there(const char *dir, const char *pattern, int depth, int64_t *budget)
{
	bool deep = str_has_prefix(pattern, "**") && (!pattern[2] || pattern[2] == '/'),
	     found = false;
	struct dirent *e;
	DIR *d;
	int r = 0;

	if (deep && is_there(dir, pattern[2] && pattern[3] ? pattern + 3 : "*", depth + 1, budget))
		return true;
	d = depth < GLOB_DEPTH ? opendir(dir) : NULL;
	if (!d)
		return depth >= GLOB_DEPTH || errno != ENOTDIR;
	while (!found && (r = fs_next(d, dir, &e, NULL)) > 0)
		found = (*budget)-- <= 0 || entry_matches(dir, e->d_name, pattern, depth, budget);
	closedir(d);
	return found || r < 0;
}

static void add_examples(const char *dir, struct str *out)
{
	struct dirent **v;
	int n = scandir(dir, &v, NULL, alphasort), shown = 0;

	for (int i = 0; i < n; i++) {
		if (v[i]->d_name[0] != '.' && shown < EXAMPLES)
			str_addf(out, "%s%s", shown++ ? ", " : "which has ", v[i]->d_name);
		free(v[i]);
	}
	if (n >= 0)
		free(v);
	if (!shown)
		str_add(out, "which is empty");
}

static void check_each(struct preflight *h, const struct step *s)
{
	_cleanup_(str_deinit) struct str there = { 0 };
	_cleanup_(freep) char *root = NULL, *dir = NULL;
	int64_t budget = LOOKED_AT_MAX;
	const struct input_decl *in;
	struct stat st;

	if (!s->tasks->each || s->tasks->each->is_list ||
	    s->tasks->each->from.kind != REF_PIPELINE_INPUT)
		return;
	in = &h->pipeline->inputs[s->tasks->each->from.index];
	if (in->origin != INPUT_PATH)
		return;
	root = config_root(h->config, in->root);
	dir = fs_join(root, in->uri);
	if (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode) ||
	    is_there(dir, s->tasks->each->glob, 0, &budget))
		return;
	add_examples(dir, &there);
	diag_warning(h->diags, s->pos.file, s->pos.line, s->pos.col,
		     "`each` of step `%s`: `%s` matches nothing in input `%s`, %s", s->name,
		     s->tasks->each->glob, in->name, there.s);
}

/* Only a cluster uses images; here a wrong name is none yet. */
static void check_image(struct preflight *h, const struct step *s)
{
	struct arena *arena = arena_new();
	struct image_ref ref;
	struct err err = { 0 };

	if (s->machine->place.image &&
	    image_ref_parse(s->machine->place.image, arena, &ref, &err) < 0) {
		if (h->local)
			diag_warning(h->diags, s->pos.file, s->pos.line, s->pos.col,
				     "step `%s`: %s", s->name, err.msg);
		else
			diag_error(h->diags, s->pos.file, s->pos.line, s->pos.col, "step `%s`: %s",
				   s->name, err.msg);
	}
	arena_free(arena);
}

/* An account may be cairn.yaml's, so the file alone doesn't tell. */
static void check_kind(struct preflight *h, const struct step *s)
{
	const struct kube_profile p = { .placement = h->config->kubernetes.placement,
					.store_account = h->config->kubernetes.store.account };
	const struct runner_attempt a = { .on.placement_json = s->machine->place.json,
					  .on.gang.nodes = s->machine->distributed.nodes,
					  .on.gang.min_nodes = s->machine->distributed.min_nodes };
	struct err err = { 0 };

	if (!s->machine->place.json || kube_job_check_kind(&p, &a, &err) == 0)
		return;
	if (h->local)
		diag_warning(h->diags, s->pos.file, s->pos.line, s->pos.col,
			     "step `%s` can't run on a cluster: %s", s->name, err.msg);
	else
		diag_error(h->diags, s->pos.file, s->pos.line, s->pos.col, "step `%s`: %s", s->name,
			   err.msg);
}

static const char *place_of(const struct step *s)
{
	return !s->root                       ? "project"
	       : str_has_prefix(s->root, "g") ? "commit that is used"
					      : "code of the run that is used";
}

static void check_paths(struct preflight *h, const struct step *s, const char *key,
			const char *const *paths, size_t n)
{
	struct stat st;

	for (size_t i = 0; i < n; i++)
		if (!exists(h, s->root, paths[i], &st))
			diag_error(h->diags, s->pos.file, s->pos.line, s->pos.col,
				   "step `%s`: `%s` names %s, which isn't in the %s", s->name, key,
				   paths[i], place_of(s));
}

/* The one file that is read: what isn't a lock file is known before a run. */
static void check_environment(struct preflight *h, const struct step *s)
{
	const char *path = s->reads->environment, *name;
	_cleanup_(lock_deinit) struct lock l = { 0 };
	_cleanup_(freep) char *tool = NULL, *root = config_root(h->config, s->root);
	struct err err = { 0 };

	if (!environment_is_first(h->pipeline, (size_t)(s - h->pipeline->steps)))
		return;
	if (lock_read(root, path, &l, &err) < 0) {
		diag_error(h->diags, s->pos.file, s->pos.line, s->pos.col,
			   "step `%s`: `environment`: %s", s->name, err.msg);
		return;
	}
	tool = lock_tool(l.kind, &name);
	if (!tool && h->local)
		diag_warning(h->diags, s->pos.file, s->pos.line, s->pos.col,
			     "step `%s`: its environment is made with %s, which isn't on this "
			     "machine",
			     s->name, name);
}

/* The script. */

static bool is_word(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       strchr("_./-+@", c);
}

/* Takes the next word of the first command. False: the command has ended, or the word has something
 * that the shell may replace. */
static bool next_word(const char **at, const char *end, struct str *ret)
{
	const char *from;

	while (*at < end && (**at == ' ' || **at == '\t'))
		++*at;
	for (from = *at; *at < end && **at && is_word(**at);)
		++*at;
	str_reset(ret);
	str_addn(ret, from, (size_t)(*at - from));
	return *at > from && *at < end && **at && strchr(" \t\n;&|", **at);
}

static bool is_interpreter(const char *word)
{
	static const char *const programs[] = { "sh",    "bash", "dash", "zsh", "Rscript",
						"julia", "node", "perl", "ruby" };
	const char *digits = str_has_prefix(word, "python") ? word + strlen("python") : NULL;

	return (digits && strspn(digits, "0123456789.") == strlen(digits)) ||
	       text_is_one_of(word, programs, ARRAY_LEN(programs));
}

/* What the step finds in its workspace besides its code. */
static bool is_filled(const struct step *s, const char *path)
{
	for (size_t i = 0; i < s->n_outputs; i++)
		if (fs_is_inside(s->outputs[i].path, path))
			return true;
	return (s->checkpoint && fs_is_inside(s->checkpoint, path)) ||
	       (s->n_inputs && str_has_prefix(path, "inputs/"));
}

static void check_script(struct preflight *h, const struct step *s)
{
	_cleanup_(str_deinit) struct str word = { 0 }, text = { 0 };
	_cleanup_(freep) char *path = NULL;
	const struct expr_template *run = s->program.run;
	const char *at, *end;
	struct stat st;
	bool named;

	if (!run || run->n_parts == 0 || run->parts[0].expr)
		return;
	str_addn(&text, run->parts[0].text, run->parts[0].len);
	if (run->n_parts == 1)
		str_addc(&text, '\n');
	at = text.s;
	end = text.s + text.len;
	named = next_word(&at, end, &word);
	if (named && is_interpreter(word.s))
		named = next_word(&at, end, &word) && word.s[0] != '-' && strchr(word.s, '.');
	else
		named = named && str_has_prefix(word.s, "./");
	if (!named || word.s[0] == '/')
		return;
	path = fs_normalise(word.s);
	if (str_has_prefix(path, "..") || is_filled(s, path) || exists(h, s->root, path, &st))
		return;
	diag_error(h->diags, run->file ? run->file : s->pos.file,
		   run->line ? run->line : s->pos.line, run->line ? run->col : s->pos.col,
		   "step `%s` runs %s, which isn't in the %s", s->name, path, place_of(s));
}

/* This machine. */

static void check_secrets(struct preflight *h, const struct step *s)
{
	for (size_t i = 0; i < s->reads->n_secrets; i++) {
		_cleanup_(str_wipe) struct str value = { 0 };
		struct err err = { 0 };

		if (secret_get(h->config, s->reads->secrets[i], &value, &err) < 0)
			diag_warning(h->diags, s->pos.file, s->pos.line, s->pos.col,
				     "step `%s`: %s", s->name, err.msg);
	}
}

/* The server needs them: on this machine, or where it runs. */
static void check_hooks(struct preflight *h)
{
	for (size_t i = 0; i < h->pipeline->n_schedules; i++) {
		const struct schedule_decl *d = &h->pipeline->schedules[i];
		_cleanup_(str_wipe) struct str value = { 0 };
		struct err err = { 0 };

		if (d->on.webhook && secret_get(h->config, d->on.secret, &value, &err) < 0)
			diag_warning(h->diags, d->pos.file, d->pos.line, d->pos.col,
				     "schedule `%s`: %s", d->name, err.msg);
	}
}

static void check_tools(struct preflight *h, const struct step *s)
{
	for (size_t i = 0; i < s->reads->n_tools; i++) {
		const char *tool = s->reads->tools[i];
		_cleanup_(freep) char *word = xstrndup(tool, strcspn(tool, " \t"));
		_cleanup_(freep) char *program = command_find(word);
		bool plain = *word;

		for (const char *c = word; *c; c++)
			plain &= is_word(*c);
		if (plain && !program)
			diag_warning(h->diags, s->pos.file, s->pos.line, s->pos.col,
				     "step `%s`: the tool %s isn't on this machine", s->name, word);
	}
}

/* Locally all nodes of a gang run here at once. slots_want() cuts cpu and memory: such a step runs,
 * but alone and slower than its author meant. */
static void check_resources(struct preflight *h, const struct step *s)
{
	uint32_t nodes = s->machine->distributed.framework
				 ? distributed_nodes_here(&s->machine->distributed)
				 : 1;
	uint64_t cpu_milli = (uint64_t)s->machine->resources.cpu_milli * nodes;
	double memory = (double)s->machine->resources.memory_bytes * nodes;
	struct runner_resources got;
	struct err err = { 0 };

	if (slots_want(&h->slots, &s->machine->resources, nodes, 1, &got, &err) < 0)
		diag_warning(h->diags, s->pos.file, s->pos.line, s->pos.col,
			     "step `%s` can't run here: %s", s->name, err.msg);
	if (cpu_milli > h->slots.cpu_milli)
		diag_warning(h->diags, s->pos.file, s->pos.line, s->pos.col,
			     "step `%s` asks for %g cpus and gets %g here", s->name,
			     (double)cpu_milli / 1000, (double)h->slots.cpu_milli / 1000);
	if (memory > (double)h->slots.memory_bytes) {
		_cleanup_(str_deinit) struct str asked = { 0 }, here = { 0 };

		text_add_bytes(&asked, (uint64_t)memory);
		text_add_bytes(&here, h->slots.memory_bytes);
		diag_warning(h->diags, s->pos.file, s->pos.line, s->pos.col,
			     "step `%s` asks for %s of memory; this machine has %s", s->name,
			     asked.s, here.s);
	}
}

void preflight_check(const struct config *c, const struct pipeline *p, struct diag_list *diags)
{
	struct preflight h = { c, p, diags, .local = str_eq(c->runner, "local") };

	slots_init(&h.slots, c, 0, !h.local);
	check_inputs(&h);
	check_hooks(&h);
	for (size_t i = 0; i < p->n_steps; i++) {
		const struct step *s = &p->steps[i];

		check_paths(&h, s, "code", s->reads->code, s->reads->n_code);
		check_paths(&h, s, "env_file", s->reads->env_files, s->reads->n_env_files);
		check_environment(&h, s);
		check_script(&h, s);
		check_each(&h, s);
		check_image(&h, s);
		check_kind(&h, s);
		if (!h.local)
			continue;
		check_secrets(&h, s);
		check_tools(&h, s);
		if (!step_has_settings(s)) /* else each task has its own */
			check_resources(&h, s);
	}
}
