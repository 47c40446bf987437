/* engine/cli/what.c — what a user means by WHAT.
 *
 * what_find() first cuts off a known @word and what follows it. search() then tries, in this order:
 * a path that begins with ./, ../ or /; a run named in full, with what follows it; something of
 * --run or the newest run; a content id; the beginning of a run's name; any other path. The first
 * that is found and allowed wins. With --run the two lookups of runs are skipped, except for a full
 * name where a run itself is allowed.
 *
 * with_run() splits the text at each / and :, longest name of a run first, and looks the rest up
 * among that run's tasks (in_run()). A full name is tried before beginnings, so that `cairn get
 * train` doesn't become a run of the pipeline `training`.
 *
 * A miss doesn't end the search. note() keeps the first ambiguity and the first "not found";
 * nothing() makes the final error of them, preferring an ambiguity. Only an error of another kind,
 * such as a database that can't be read, ends the search at once (looked()).
 *
 * what_db() is for runs that only the store knows: it finds a run hash at the text's beginning, or
 * through a tag, and imports that run (adopt()) before the search.
 *
 * Invariants: ret->run is set whenever ret->has_run is. What is returned lives in cli->arena.
 *
 * Threads: one. What it doesn't do: read the tasks of a run (record/facts.h), or open content.
 */
#include "cli/what.h"
#include <assert.h>
#include <fcntl.h>
#include "record/lineage/lineage.h"
#include "record/manifest/reindex.h"
#include "record/manifest/tag_store.h"
#include "storage/action.h"
#include "storage/content/content.h"

#define TEXT_MAX           1000
#define CONTENT_DIGITS_MIN 8

enum part { PART_NONE, PART_LOG, PART_CODE, PART_INPUT, PART_METRIC };

struct search {
	struct cli *cli;
	struct db *db;
	const char *text;
	unsigned allowed;
	const char *base; /* text before the @ */
	enum part part;
	const char *part_name;
	struct what *ret;
	struct err ambiguous; /* the first place where several things matched */
	struct err missing;   /* the most helpful "not found" */
};

/* Splitting. */

static bool part_of(const char *word, enum part *ret, const char **ret_name)
{
	static const struct {
		const char *word;
		enum part part;
		bool named;
	} parts[] = {
		{ "log", PART_LOG, false },
		{ "code", PART_CODE, false },
		{ "input.", PART_INPUT, true },
		{ "metric.", PART_METRIC, true },
	};

	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		if (parts[i].named
			    ? str_has_prefix(word, parts[i].word) && word[strlen(parts[i].word)]
			    : str_eq(word, parts[i].word)) {
			*ret = parts[i].part;
			*ret_name = word + (parts[i].named ? strlen(parts[i].word) : 0);
			return true;
		}
	return false;
}

/* Misses. */

static int note(struct search *s, const struct err *e)
{
	if (e->code == ERR_INVALID && !s->ambiguous.code)
		s->ambiguous = *e;
	else if (e->code == ERR_NOT_FOUND && !s->missing.code)
		s->missing = *e;
	return e->code == ERR_INVALID || e->code == ERR_NOT_FOUND ? 0 : -1;
}

/* For a lookup that gave `r` and `e`. 1: found. 0: missing or ambiguous, which is noted. -1: an
 * error that ends the search, such as a database that can't be read. */
static int looked(struct search *s, int r, const struct err *e, struct err *err)
{
	if (r >= 0)
		return 1;
	return note(s, e) < 0 ? err_pass(err, e) : 0;
}

/* Things of a task. */

static bool is_task(const struct facts_task *t, const char *what)
{
	return str_eq(t->task, what) || str_eq(t->step, what);
}

static int one_task(struct search *s, const struct facts_task *tasks, size_t n, const char *what,
		    const struct facts_task **ret, struct err *err)
{
	const struct facts_task *found = NULL;

	for (size_t i = 0; i < n; i++) {
		if (*what && !is_task(&tasks[i], what))
			continue;
		if (str_eq(tasks[i].task,
			   what)) { /* a full label wins over the step of several tasks */
			*ret = &tasks[i];
			return 0;
		}
		if (found)
			return err_set(err, ERR_INVALID, "`%s` could be %s or %s: name the task",
				       s->text, found->task, tasks[i].task);
		found = &tasks[i];
	}
	*ret = found;
	return found ? 0
		     : err_set(err, ERR_NOT_FOUND, "run %s has no task `%s`", s->ret->run.id, what);
}

int what_task_log(struct cli *cli, struct db *db, const struct run_row *run,
		  const struct facts_task *t, struct content_id *ret, struct err *err)
{
	struct store *store = NULL;
	struct attempt_row a;
	int r;

	if (cli_store(cli, false, &store, NULL) < 0)
		store = NULL;
	r = facts_logged_by(db, store, run, t, cli->arena, &a, err);
	*ret = r > 0 ? a.log : (struct content_id){ 0 };
	if (r < 0)
		return -1;
	return ret->kind ? 0 : err_set(err, ERR_NOT_FOUND, "no log of %s is on record", t->task);
}

/* A task's code is a tree among its inputs. */
static int task_code(struct search *s, const struct facts_task *t, struct content_id *ret,
		     struct err *err)
{
	struct named_content *in;
	struct attempt_row a;
	size_t n;
	int r = facts_made_by(s->db, &s->ret->run, t, s->cli->arena, &a, err);

	if (r < 0 || (r > 0 && record_inputs(s->db, a.id, s->cli->arena, &in, &n, err) < 0))
		return -1;
	for (size_t i = 0; r > 0 && i < n; i++)
		if (str_eq(in[i].name, "(code)")) {
			*ret = in[i].id;
			return 0;
		}
	return err_set(err, ERR_NOT_FOUND, "no code of %s is on record: it was given none",
		       t->task);
}

static int run_input(struct search *s, const char *name, struct content_id *ret, struct err *err)
{
	struct run_input_row *in;
	size_t n;

	if (record_run_inputs(s->db, s->ret->run.rowid, s->cli->arena, &in, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (str_has_prefix(in[i].name, "input:") && str_eq(in[i].name + 6, name)) {
			*ret = in[i].id;
			return 0;
		}
	return err_set(err, ERR_NOT_FOUND, "run %s has no input `%s`", s->ret->run.id, name);
}

static int metric_of(struct search *s, const struct facts_task *tasks, size_t n, const char *task,
		     struct err *err)
{
	const char *name = s->part_name;
	const struct facts_task *found = NULL;
	double value = 0;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < tasks[i].n_metrics; k++) {
			if ((*task && !is_task(&tasks[i], task)) ||
			    !str_eq(tasks[i].metrics[k].name, name))
				continue;
			if (found && !str_eq(found->task, tasks[i].task))
				return err_set(err, ERR_INVALID,
					       "`%s` could be of %s or %s: write TASK@metric.%s",
					       s->text, found->task, tasks[i].task, name);
			found = &tasks[i];
			value = tasks[i].metrics[k].value;
		}
	if (!found)
		return err_set(err, ERR_NOT_FOUND, "run %s has no metric `%s`%s%s", s->ret->run.id,
			       name, *task ? " of " : "", task);
	s->ret->kind = WHAT_METRIC;
	s->ret->task = found;
	s->ret->metric = name;
	s->ret->value = value;
	s->ret->name = name;
	return 0;
}

static int content_part(struct search *s, const struct facts_task *t, struct err *err)
{
	struct arena *arena = s->cli->arena;
	int r = s->part == PART_LOG
			? what_task_log(s->cli, s->db, &s->ret->run, t, &s->ret->id, err)
			: task_code(s, t, &s->ret->id, err);

	s->ret->kind = WHAT_CONTENT;
	s->ret->task = t;
	s->ret->name = s->part == PART_LOG ? arena_printf(arena, "%s.log", t->task)
					   : arena_printf(arena, "%s-code", t->step);
	return r;
}

/* Outputs. */

static void take_output(struct search *s, const struct facts_task *t, const struct named_content *o)
{
	s->ret->kind = WHAT_CONTENT;
	s->ret->task = t;
	s->ret->id = o->id;
	s->ret->name = o->name;
}

/* Reads TASK.OUTPUT as TASK/OUTPUT. Labels and outputs may have dots themselves: tries each dot. */
static int with_dot(struct search *s, const struct facts_task *tasks, size_t n, const char *what)
{
	for (const char *dot = strrchr(what, '.'); dot;
	     dot = memrchr(what, '.', (size_t)(dot - what))) {
		_cleanup_(freep) char *slashed = xstrdup(what);
		const struct facts_task *t;
		const struct named_content *o;
		struct err e = { 0 };

		slashed[dot - what] = '/';
		if (named_find_output(tasks, n, slashed, &t, &o, &e) == 0) {
			take_output(s, t, o);
			return 1;
		}
		if (e.code == ERR_INVALID)
			note(s, &e);
	}
	return 0;
}

/* Finds an output by its name alone, when only one task has it: `fashion/best:model`. */
static int by_output_name(struct search *s, const struct facts_task *tasks, size_t n,
			  const char *what)
{
	const struct facts_task *found = NULL;
	const struct named_content *output = NULL;
	struct err e = { 0 };

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < tasks[i].n_outputs; k++) {
			const struct named_content *o = &tasks[i].outputs[k];

			if (!str_eq(o->name, what) || o->id.kind == CONTENT_NONE)
				continue;
			if (found) {
				err_set(&e, ERR_INVALID, "`%s` could be %s/%s or %s/%s", s->text,
					found->task, what, tasks[i].task, what);
				note(s, &e);
				return 0;
			}
			found = &tasks[i];
			output = o;
		}
	if (found)
		take_output(s, found, output);
	return found != NULL;
}

static bool find_of_step(struct search *s, const struct facts_task *tasks, size_t n,
			 const char *what)
{
	struct named_output *v = arena_alloc(s->cli->arena, (n + 1) * sizeof(*v));
	size_t of, found = named_find_outputs(tasks, n, what, v, &of);

	if (!found || of < 2)
		return false;
	s->ret->kind = WHAT_STEP;
	s->ret->parts = v;
	s->ret->n_parts = found;
	s->ret->n_tasks = of;
	s->ret->name = str_eq(v[0].task->step, what) ? v[0].task->step : v[0].output->name;
	return true;
}

static int find_output(struct search *s, const struct facts_task *tasks, size_t n, const char *what)
{
	const struct facts_task *t;
	const struct named_content *o;
	struct err e = { 0 };

	if (s->allowed & WHAT_STEP && find_of_step(s, tasks, n, what))
		return 1;
	if (named_find_output(tasks, n, what, &t, &o, &e) == 0) {
		take_output(s, t, o);
		return 1;
	}
	if (with_dot(s, tasks, n, what) || by_output_name(s, tasks, n, what))
		return 1;
	note(s, &e);
	return 0;
}

/* In a run. */

/* Looks for `what` ("": the run alone) in s->ret->run. 1 found, 0 not, -1 error. */
static int in_run(struct search *s, const char *what, struct err *err)
{
	const struct facts_task *t;
	struct facts_task *tasks;
	struct err e = { 0 };
	size_t n;
	int r;

	if (s->part == PART_INPUT) {
		s->ret->kind = WHAT_CONTENT;
		s->ret->name = s->part_name;
		if (*what || !(s->allowed & WHAT_CONTENT))
			return 0;
		return looked(s, run_input(s, s->part_name, &s->ret->id, &e), &e, err);
	}
	if (s->part == PART_NONE && !*what) {
		s->ret->kind = WHAT_RUN;
		s->ret->name = s->ret->run.id;
		return (s->allowed & WHAT_RUN) != 0;
	}
	if (named_run_tasks(s->cli, s->db, &s->ret->run, &tasks, &n, err) < 0)
		return -1;
	if (s->part == PART_METRIC && !(s->allowed & WHAT_METRIC))
		return 0;
	if (s->part == PART_METRIC)
		return looked(s, metric_of(s, tasks, n, what, &e), &e, err);
	if (s->part != PART_NONE && s->allowed & WHAT_CONTENT) {
		r = looked(s, one_task(s, tasks, n, what, &t, &e), &e, err);
		return r <= 0 ? r : looked(s, content_part(s, t, &e), &e, err);
	}
	if (s->allowed & WHAT_TASK) {
		r = looked(s, one_task(s, tasks, n, what, &t, &e), &e, err);
		if (r > 0) {
			s->ret->kind = WHAT_TASK;
			s->ret->task = t;
			s->ret->name = t->task;
		}
		if (r != 0)
			return r;
	}
	return s->allowed & WHAT_CONTENT ? find_output(s, tasks, n, what) : 0;
}

/* Finds RUN, and RUN with something after it. beginnings: a prefix of its name will do. */
static int with_run(struct search *s, bool beginnings, struct err *err)
{
	size_t n = strlen(s->base);
	struct err named_before =
		s->missing; /* earlier notes: that a part is no run says nothing */

	for (size_t at = n; at > 0; at--) {
		struct err e = { 0 };
		const char *name;
		int r;

		if (at < n && s->base[at] != '/' && s->base[at] != ':')
			continue;
		name = arena_strndup(s->cli->arena, s->base, at);
		r = beginnings
			    ? record_find_run(s->db, name, s->cli->arena, &s->ret->run, &e)
			    : record_find_run_named(s->db, name, s->cli->arena, &s->ret->run, &e);
		if (r < 0 && note(s, &e) < 0)
			return err_pass(err, &e);
		if (r >= 0)
			s->ret->has_run = beginnings || r > 0;
		if (r < 0 || !s->ret->has_run) {
			s->missing = named_before;
			continue;
		}
		r = in_run(s, at < n ? s->base + at + 1 : "", err);
		named_before = s->missing;
		if (r != 0)
			return r;
	}
	return 0;
}

/* Content and files. */

static int by_id(struct search *s, struct err *err)
{
	const char *hex = str_has_prefix(s->text, "sha256:") ? s->text + 7 : s->text;
	size_t n = strlen(hex);
	struct err e = { 0 };
	int r;

	if (n < CONTENT_DIGITS_MIN || n > 64 || strspn(hex, "0123456789abcdef") != n)
		return 0;
	r = looked(s, lineage_find(s->db, hex, &s->ret->id, &e), &e, err);
	if (r > 0)
		*s->ret = (struct what){ .kind = WHAT_CONTENT,
					 .id = s->ret->id,
					 .name = arena_strdup(s->cli->arena, hex) };
	return r;
}

static int by_path(struct search *s, struct err *err)
{
	struct content_put_options hash = { .flags = CONTENT_PUT_HASH_ONLY,
					    .exclude = config_not_content };
	const struct config *config;
	struct content_id id;
	struct store *store;

	if (access(s->text, F_OK) != 0)
		return 0;
	if (cli_config(s->cli, &config, err) < 0)
		return -1;
	hash.ignore = config->ignore; /* as in a run */
	if (cli_store(s->cli, false, &store, err) < 0 ||
	    content_put_at(store, AT_FDCWD, s->text, &hash, &id, err) < 0)
		return -1;
	*s->ret = (struct what){ .kind = WHAT_FILE, .id = id, .name = s->text };
	return 1;
}

static int search(struct search *s, const char *run, struct err *err)
{
	struct err e = { 0 };
	int r = 0;

	if (s->allowed & WHAT_FILE &&
	    (str_has_prefix(s->text, "./") || str_has_prefix(s->text, "../") || s->text[0] == '/'))
		return by_path(s, err);
	if (!run || s->allowed & WHAT_RUN)
		r = with_run(s, false, err);
	if (r == 0) { /* TASK, TASK/OUTPUT, TASK@log: of --run, or of the newest run */
		r = record_find_run(s->db, run ? run : "last", s->cli->arena, &s->ret->run, &e);
		if (r < 0 && run)
			return err_pass(err, &e);
		s->ret->has_run |= r == 0;
		r = r < 0 ? note(s, &e) : in_run(s, s->base, err);
	}
	if (r == 0 && s->allowed & WHAT_CONTENT)
		r = by_id(s, err);
	if (r == 0 && !run)
		r = with_run(s, true, err);
	if (r == 0 && s->allowed & WHAT_FILE)
		r = by_path(s, err);
	return r;
}

static int nothing(struct search *s, struct err *err)
{
	_cleanup_(str_deinit) struct str kinds = { 0 };
	static const struct {
		unsigned kind;
		const char *words;
	} all[] = {
		{ WHAT_RUN, "a run" },
		{ WHAT_TASK, "a task" },
		{ WHAT_CONTENT, "an output or a content id" },
		{ WHAT_METRIC, "a metric" },
		{ WHAT_FILE, "a file" },
	};

	if (s->ambiguous.code)
		return err_set(err, ERR_INVALID, "%s", s->ambiguous.msg);
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (s->allowed & all[i].kind)
			str_addf(&kinds, "%s%s", kinds.len ? " nor " : "", all[i].words);
	return err_set(err, ERR_NOT_FOUND, "`%s` is not %s%s%s", s->text,
		       kinds.s ? kinds.s : "known", s->missing.code ? ": " : "",
		       s->missing.code ? s->missing.msg : "");
}

int what_find(struct cli *cli, struct db *db, const char *text, unsigned allowed, const char *run,
	      struct what *ret, struct err *err)
{
	struct search s = { .cli = cli, .db = db, .text = text, .allowed = allowed, .ret = ret };
	const char *at;
	int r;

	assert(allowed);
	*ret = (struct what){ 0 };
	if (!*text || strlen(text) > TEXT_MAX)
		return err_set(err, ERR_USAGE, "%s",
			       *text ? "this is longer than any name of a run, task or output"
				     : "an empty name names nothing");
	/* Labels may hold an @ themselves: only one before a known word counts. */
	at = strrchr(text, '@');
	s.base = at && part_of(at + 1, &s.part, &s.part_name)
			 ? arena_strndup(cli->arena, text, (size_t)(at - text))
			 : text;
	r = search(&s, run, err);
	if (r == 0)
		r = nothing(&s, err);
	return r < 0 ? -1 : 0;
}

/* Runs that only the store knows. */

/* The hash at the beginning of the text, up to a character that may follow a run. */
static const char *leading_hash(struct cli *cli, const char *text)
{
	const char *hex = str_has_prefix(text, "sha256:") ? text + 7 : text;
	size_t n = strspn(hex, "0123456789abcdef");

	if (n < CONTENT_DIGITS_MIN || n >= DIGEST_HEX_MAX || (hex[n] && !strchr("/:@", hex[n])))
		return NULL;
	return arena_strndup(cli->arena, hex, n);
}

/* The hash of the run that a name means, when this project doesn't know the run. */
static const char *tagged_hash(struct cli *cli, struct db *db, const char *text)
{
	struct run_row row;
	struct tag_row tag;
	char *hex;

	for (size_t at = strlen(text); at > 0; at--) {
		if (text[at] && !strchr("/:@", text[at]))
			continue;
		if (record_tag_find(db, arena_strndup(cli->arena, text, at), cli->arena, &tag,
				    NULL) <= 0 ||
		    !tag.has_run)
			continue;
		if (record_run_by_hash(db, &tag.run, cli->arena, &row, NULL) > 0)
			return NULL;
		hex = arena_alloc(cli->arena, DIGEST_HEX_MAX);
		return digest_hex(&tag.run, hex);
	}
	return NULL;
}

/* 1 a run was imported, 0 none. */
static int adopt(struct cli *cli, const char *hash, struct err *err)
{
	struct digest found[2];
	struct run_row row;
	struct store *s;
	struct db *db;
	size_t n;

	if (cli_store(cli, false, &s, err) < 0 ||
	    record_store_runs(s, hash, found, ARRAY_LEN(found), &n, err) < 0)
		return -1;
	if (n != 1)
		return n == 0 ? 0
			      : err_set(err, ERR_INVALID,
					"`%s` is the beginning of %zu run hashes in %s; type more "
					"of it",
					hash, n, store_uri(s));
	if (cli_db(cli, DB_WRITE, &db, err) < 0 ||
	    record_import_run(db, s, &found[0], cli->arena, &row, err) < 0)
		return -1;
	return 1;
}

int what_db(struct cli *cli, const char *text, struct db **ret, struct err *err)
{
	const char *hash = text ? leading_hash(cli, text) : NULL;
	struct run_row row;
	struct err e = { 0 };
	struct db *db = NULL;
	int r = cli_db(cli, DB_READ, &db, &e);

	if (r < 0 && e.code != ERR_NOT_FOUND)
		return err_pass(err, &e);
	if (r == 0 && hash && record_find_run(db, hash, cli->arena, &row, NULL) == 0)
		hash = NULL;
	else if (r == 0 && !hash && text)
		hash = tagged_hash(cli, db, text);
	if (hash && adopt(cli, hash, err) < 0)
		return -1;
	return cli_db(cli, DB_READ, ret, err);
}
