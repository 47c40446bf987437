/* engine/cli/past/get_run.c — a run as a directory, part by part.
 *
 * put_all() reads the manifest and writes what it names; metrics are gathered meanwhile and written
 * last. Everything is placed below `dir` by its descriptor, so that no name in the record can lead
 * out of it.
 *
 * Names of tasks, steps and outputs become one component of a path (file_name()). Paths of pipeline
 * files have several components, so they are normalised and refused when they lead outside.
 *
 * Invariants: a part that is gone or damaged is named in ret->missing and the rest is restored
 * (lacks()); any other error ends it. Nothing is synced: the copy can be made again.
 *
 * Threads: one. What it doesn't do: choose the name, or clean up after a failure (cmd_get.c).
 */
#include "cli/past/get_run.h"
#include <errno.h>
#include <fcntl.h>
#include "base/os/fs.h"
#include "record/manifest/manifest.h"
#include "storage/content/content.h"

struct getter {
	struct cli *cli;
	struct db *db;
	struct store *s;
	const struct run_row *run;
	struct manifest m;
	int dir;
	json_t *metrics;
	struct got_run *ret;
};

/* Makes a task's label, or another name in the manifest, one name in a directory. */
static const char *file_name(struct getter *g, const char *label)
{
	_cleanup_(freep) char *name = fs_file_name(label);

	return arena_strdup(g->cli->arena, name);
}

/* Lists a part that is gone or damaged, and returns 0; -1 for any other error. */
static int lacks(struct getter *g, const char *path, const struct err *why, struct err *err)
{
	json_t *text = json_sprintf("%s: %s", path, why->msg);

	if (why->code != ERR_NOT_FOUND && why->code != ERR_CORRUPT) {
		json_decref(text);
		return err_pass(err, why);
	}
	json_array_append_new(g->ret->missing, text ? text : json_string("a name that isn't text"));
	return 0;
}

static int put(struct getter *g, const struct content_id *id, const char *path, struct err *err)
{
	struct err e = { 0 };

	if (id->kind == CONTENT_NONE)
		return 0;
	if (content_materialise_beneath(g->s, id, CONTENT_COPY_WRITABLE, g->dir, path, &e) < 0)
		return lacks(g, path, &e, err);
	g->ret->contents++;
	g->ret->bytes += id->size_bytes;
	return 0;
}

/* The parts. */

/* They are stored as files 0, 1, … and a list of their paths (run/task/files.c). */
static int put_pipeline(struct getter *g, struct err *err)
{
	_cleanup_(str_deinit) struct str paths = { 0 };
	struct arena *arena = g->cli->arena;
	const struct content_id *tree = &g->m.pipeline_tree;
	struct tree_entry e;
	struct err gone = { 0 };
	size_t n = 0;

	if (tree_lookup(g->s, tree, "paths", arena, &e, &gone) < 0 ||
	    content_read(g->s, &e.id, MIB, &paths, &gone) < 0)
		return lacks(g, "pipeline", &gone, err);
	for (char *line = paths.s, *end; line && (end = strchr(line, '\n')); line = end + 1) {
		_cleanup_(freep) char *path = NULL;

		*end = '\0';
		path = fs_normalise(line);
		if (path[0] == '/' || !fs_is_inside(".", path) || str_eq(path, "."))
			return err_set(err, ERR_CORRUPT,
				       "the pipeline of run %s has a file outside of its project",
				       g->run->id);
		if (tree_lookup(g->s, tree, arena_printf(arena, "%zu", n++), arena, &e, &gone) < 0)
			return lacks(g, "pipeline", &gone, err);
		if (e.kind != TREE_FILE && e.kind != TREE_EXECUTABLE)
			return err_set(err, ERR_CORRUPT,
				       "the pipeline of run %s has something that isn't a file",
				       g->run->id);
		if (put(g, &e.id, arena_printf(arena, "pipeline/%s", path), err) < 0)
			return -1;
	}
	return 0;
}

static int put_task(struct getter *g, const struct results *res, const struct result_entry *e,
		    struct err *err)
{
	const char *name = file_name(g, e->task);
	const struct facts_task t = { .task = e->task, .step = e->step, .key = e->key };
	json_t *metrics = json_object();
	struct content_id log;
	struct err why = { 0 };

	for (size_t i = 0; i < e->n_metrics; i++) {
		struct metric_value m;

		results_metric(e, i, &m);
		json_object_set_new_nocheck(metrics, m.name, facts_number(m.value));
	}
	if (e->n_metrics)
		json_object_set_nocheck(g->metrics, e->task, metrics);
	json_decref(metrics);
	for (size_t i = 0; i < e->n_outputs; i++) {
		struct content_id id;

		results_output(e, i, &id);
		if (put(g, &id,
			arena_printf(g->cli->arena, "outputs/%s/%s", name,
				     file_name(g, results_output_name(res, e, i))),
			err) < 0)
			return -1;
	}
	if (e->state != RESULT_SUCCEEDED && e->state != RESULT_FAILED)
		return 0;
	if (what_task_log(g->cli, g->db, g->run, &t, &log, &why) < 0)
		return why.code == ERR_NOT_FOUND ? 0 : err_pass(err, &why);
	return put(g, &log, arena_printf(g->cli->arena, "logs/%s.log", name), err);
}

static int put_tasks(struct getter *g, struct err *err)
{
	struct results_cursor c;
	struct result_entry e;
	struct results *res;
	int r = 0;

	if (results_open(g->s, &g->m.results, &res, err) < 0)
		return err_wrap(err, "results of run %s", g->run->id);
	results_first(res, &c);
	while (r == 0 && results_next(&c, &e))
		r = put_task(g, res, &e, err);
	results_free(res);
	return r;
}

static int put_all(struct getter *g, bool inputs, struct err *err)
{
	_cleanup_(str_deinit) struct str manifest = { 0 }, text = { 0 };

	if (store_get(g->s, STORE_RUN, &g->run->hash, JSON_FILE_MAX, &manifest, err) < 0 ||
	    manifest_load(g->s, &g->run->hash, g->cli->arena, &g->m, err) < 0)
		return err_wrap(err, "the manifest of run %s", g->run->id);
	if (fs_write_atomic_at(g->dir, "manifest.json", manifest.s, manifest.len, 0644,
			       FS_WRITE_NO_SYNC, err) < 0 ||
	    put_pipeline(g, err) < 0)
		return -1;
	for (size_t i = 0; i < g->m.n_steps; i++)
		if (put(g, &g->m.steps[i].code,
			arena_printf(g->cli->arena, "code/%s", file_name(g, g->m.steps[i].name)),
			err) < 0)
			return -1;
	for (size_t i = 0; inputs && i < g->m.n_inputs; i++)
		if (str_has_prefix(g->m.inputs[i].name, "input:") &&
		    put(g, &g->m.inputs[i].id,
			arena_printf(g->cli->arena, "inputs/%s",
				     file_name(g, g->m.inputs[i].name + 6)),
			err) < 0)
			return -1;
	if (g->m.results.kind && put_tasks(g, err) < 0)
		return -1;
	json_add_canonical(&text, g->metrics);
	str_addc(&text, '\n');
	return fs_write_atomic_at(g->dir, "metrics.json", text.s, text.len, 0644, FS_WRITE_NO_SYNC,
				  err);
}

int get_run(struct cli *cli, struct db *db, const struct run_row *run, const char *dir, bool inputs,
	    struct got_run *ret, struct err *err)
{
	struct getter g = { .cli = cli, .db = db, .run = run, .ret = ret };
	_cleanup_(fd_closep) int fd = -1;
	int r;

	*ret = (struct got_run){ .missing = json_array() };
	if (!run->has_hash)
		return err_set(err, ERR_INVALID,
			       "run %s has no run hash: it hasn't ended; name one of its outputs "
			       "(%s/TASK/OUTPUT)",
			       run->id, run->id);
	if (cli_store(cli, false, &g.s, err) < 0)
		return -1;
	if (mkdir(dir, 0777) < 0)
		return err_errno(err, "cannot make %s", dir);
	fd = g.dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "cannot open %s", dir);
	g.metrics = json_object();
	r = put_all(&g, inputs, err);
	json_decref(g.metrics);
	return r;
}
