/* engine/cli/past/cmd_get.c — `cairn get`: copies content out of the store for the user.
 *
 * what_find() says whether WHAT is a run, a content, an output of all tasks of a step, or a metric.
 * A run becomes a directory (get_run.c), and so does an output of several tasks: its entries are
 * named as in the directory that a step gets as its input.
 *
 * Everything is written under a temporary name next to its place and then renamed, so that an
 * interrupted copy leaves the old file in place. With --replace the old one is removed when the new
 * one is in place.
 *
 * Invariants: content is verified before its first byte goes to standard output. Copies are
 * writable, and changing one never changes the store. The default name of a content is made one
 * component of a path (fs_file_name()).
 *
 * Exit code 1 says that a run was restored, but some of its content is gone.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "cli/past/get_run.h"
#include "plan/plan.h"
#include "run/reproduce/reproduce.h"
#include "storage/content/content.h"

static int to_stdout(struct cli *cli, struct store *s, const struct content_id *id, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	char buf[65536];
	ssize_t n;

	if (!content_is_file(id))
		return err_set(err, ERR_USAGE, "this is a directory: give -o PATH");
	if (content_verify(s, id, err) < 0 || content_open(s, id, &fd, err) < 0)
		return -1;
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		fwrite(buf, 1, (size_t)n, cli->out);
	return n < 0 ? err_errno(err, "cannot read from the store") : 0;
}

/* A temporary name next to `path`: an interrupted copy leaves the old file in place. */
static char *beside(const char *path, const char *what)
{
	return xasprintf("%s.%s-%d", path, what, (int)getpid());
}

/* Without its directory, the content would seem to be missing. */
static int check_free(const char *path, bool replace, struct err *err)
{
	_cleanup_(freep) char *dir = fs_dirname(path);

	if (access(dir, F_OK) < 0)
		return err_errno(err, "%s: the directory %s", path, dir);
	if (!replace && faccessat(AT_FDCWD, path, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
		return err_set(err, ERR_EXISTS,
			       "%s exists already: give another -o PATH, or --replace", path);
	return 0;
}

/* Some file systems (NFS) can't tell whether the name is free; for those it was checked before. */
static int rename_to_free(const char *temp, const char *path)
{
	if (renameat2(AT_FDCWD, temp, AT_FDCWD, path, RENAME_NOREPLACE) == 0)
		return 0;
	return errno == EINVAL || errno == ENOSYS ? rename(temp, path) : -1;
}

/* A file replaces a file in one step. A directory is moved away first, and removed when the new one
 * is in place; if that fails, it is moved back. */
static int rename_over(const char *temp, const char *path, struct err *err)
{
	_cleanup_(freep) char *old = beside(path, "old");
	int failure;

	if (rename(temp, path) == 0)
		return 0;
	if (errno != EISDIR && errno != ENOTDIR && errno != ENOTEMPTY && errno != EEXIST)
		return -1;
	if (rename_to_free(path, old) < 0)
		return -1;
	if (rename(temp, path) < 0) {
		failure = errno;
		rename(old, path);
		errno = failure;
		return -1;
	}
	if (fs_remove_tree(old, err) < 0)
		return err_wrap(err, "%s is replaced; what it was is now %s", path, old);
	return 0;
}

/* Afterwards `temp` is gone, even after a failure. */
static int put_in_place(const char *temp, const char *path, bool replace, struct err *err)
{
	int r = replace ? rename_over(temp, path, err) : rename_to_free(temp, path);

	if (r < 0 && !err->code) {
		err_errno(err, "cannot make %s", path);
		fs_remove_tree(temp, NULL);
	}
	return r;
}

/* The output as the pipeline of the run declares it; NULL when that isn't known any more. */
static const struct step_output *declared(const struct pipeline *p, const struct named_output *o)
{
	const struct step *s = p ? pipeline_find_step(p, o->task->step) : NULL;

	for (size_t i = 0; s && i < s->n_outputs; i++)
		if (str_eq(s->outputs[i].name, o->output->name))
			return &s->outputs[i];
	return NULL;
}

/* "fold=0.csv": what the label has behind the step's name, in brackets. */
static void entry_name(const struct pipeline *p, const struct named_output *o, struct str *out)
{
	const struct step_output *decl = declared(p, o);
	size_t step = strlen(o->task->step), n = strlen(o->task->task);

	str_reset(out);
	if (n > step + 2)
		str_addn(out, o->task->task + step + 1, n - step - 2);
	else
		str_add(out, o->task->task);
	if (decl && content_is_file(&o->output->id))
		plan_entry_add_suffix(decl, out);
}

static int put_parts(struct store *s, const struct what *w, const char *dir, struct err *err)
{
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	_cleanup_(str_deinit) struct str name = { 0 };
	_cleanup_(fd_closep) int fd = -1;

	/* Without it files have no suffix. */
	if (pipeline_files_load(s, &w->run.pipeline_blob, w->run.path, &p, NULL) < 0)
		p = NULL;
	if (mkdir(dir, 0777) < 0)
		return err_errno(err, "cannot make %s", dir);
	fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "cannot open %s", dir);
	for (size_t i = 0; i < w->n_parts; i++) {
		entry_name(p, &w->parts[i], &name);
		if (content_materialise_beneath(s, &w->parts[i].output->id, CONTENT_COPY_WRITABLE,
						fd, name.s, err) < 0)
			return err_wrap(err, "the output of %s", w->parts[i].task->task);
	}
	return 0;
}

static uint64_t size_of(const struct what *w)
{
	uint64_t n = w->kind == WHAT_STEP ? 0 : w->id.size_bytes;

	for (size_t i = 0; i < w->n_parts; i++)
		n += w->parts[i].output->id.size_bytes;
	return n;
}

static json_t *got_json(const struct what *w, const char *path)
{
	json_t *o = json_pack("{s:o, s:I}", "path", json_name(path, strlen(path)), "bytes",
			      (json_int_t)size_of(w));

	if (w->kind == WHAT_STEP)
		json_object_set_new(o, "contents", json_integer((json_int_t)w->n_parts));
	else
		json_object_set_new(o, "id", facts_id(&w->id));
	return o;
}

static int content(struct cli *cli, const struct cli_args *args, const struct what *w)
{
	const char *path = cli_new_dir(args, "output", cli->arena);
	_cleanup_(freep) char *own = NULL, *temp = NULL;
	bool replace = cli_flag(args, "replace");
	struct err err = { 0 };
	struct store *s;

	if (cli_store(cli, false, &s, &err) < 0)
		return cli_fail(cli, &err);
	if (path && str_eq(path, "-") && w->kind == WHAT_STEP) {
		err_set(&err, ERR_USAGE, "%zu tasks have this output: name one, or give -o PATH",
			w->n_parts);
		return cli_fail(cli, &err);
	}
	if (path && !*fs_basename(cli_value(args, "output")) && w->kind != WHAT_STEP &&
	    content_is_file(&w->id)) {
		err_set(&err, ERR_USAGE, "%s is a file: give -o PATH without a slash at its end",
			w->name);
		return cli_fail(cli, &err);
	}
	if (path && str_eq(path, "-"))
		return to_stdout(cli, s, &w->id, &err) < 0 ? cli_fail(cli, &err) : CLI_OK;
	if (!path) /* it comes from the record */
		path = own = fs_file_name(w->name);
	temp = beside(path, "tmp");
	if (check_free(path, replace, &err) < 0)
		return cli_fail(cli, &err);
	if ((w->kind == WHAT_STEP ? put_parts(s, w, temp, &err)
				  : content_materialise_at(s, &w->id, CONTENT_COPY_WRITABLE,
							   AT_FDCWD, temp, &err)) < 0) {
		fs_remove_tree(temp, NULL);
		if (err.code == ERR_NOT_FOUND && w->has_run)
			err_set(&err, ERR_NOT_FOUND,
				"%s of run %s is no longer in the store: gc frees outputs that are "
				"`temp`, and those of runs that aren't kept. `cairn reproduce %s` "
				"makes them again",
				w->name, w->run.id, w->run.id);
		return cli_fail(cli, &err);
	}
	if (put_in_place(temp, path, replace, &err) < 0)
		return cli_fail(cli, &err);
	if (w->n_parts < w->n_tasks)
		cli_warn(cli, "%zu of %zu tasks have no such output: `cairn status -v %s`",
			 w->n_tasks - w->n_parts, w->n_tasks, w->run.id);
	if (cli->json)
		cli_print_json(cli, w->kind == WHAT_STEP ? "cairn.get-step/1" : "cairn.get/1",
			       got_json(w, path));
	else
		cli_note(cli, "%s", cli_text(cli, path));
	return CLI_OK;
}

static int run(struct cli *cli, const struct cli_args *args, struct db *db, const struct what *w)
{
	const char *given = cli_new_dir(args, "output", cli->arena),
		   *path = given ? given : w->run.id;
	_cleanup_(freep) char *temp = beside(path, "tmp");
	bool replace = cli_flag(args, "replace");
	struct got_run got = { 0 };
	struct err err = { 0 };
	char hex[DIGEST_HEX_MAX];
	size_t missing;
	int r = 0;

	if (str_eq(path, "-"))
		r = err_set(&err, ERR_USAGE, "a run is a directory: give -o PATH");
	else
		r = check_free(path, replace, &err);
	if (r == 0 &&
	    (r = get_run(cli, db, &w->run, temp, cli_flag(args, "inputs"), &got, &err)) < 0)
		fs_remove_tree(temp, NULL);
	if (r == 0)
		r = put_in_place(temp, path, replace, &err);
	if (r < 0) {
		json_decref(got.missing);
		return cli_fail(cli, &err);
	}
	missing = json_array_size(got.missing);
	for (size_t i = 0; i < missing && !cli->json; i++)
		cli_warn(cli, "not restored: %s",
			 json_string_value(json_array_get(got.missing, i)));
	if (cli->json)
		cli_print_json(cli, "cairn.get-run/1",
			       json_pack("{s:s+, s:o, s:o, s:I, s:I, s:O}", "id",
					 "sha256:", digest_hex(&w->run.hash, hex), "run",
					 facts_text(w->run.id), "path",
					 json_name(path, strlen(path)), "contents",
					 (json_int_t)got.contents, "bytes", (json_int_t)got.bytes,
					 "missing", got.missing));
	else
		cli_note(cli, "%s", cli_text(cli, path));
	json_decref(got.missing);
	return missing ? CLI_TASK_FAILED : CLI_OK;
}

static int metric(struct cli *cli, const struct what *w)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	text_add_double(&text, w->value);
	if (cli->json)
		cli_print_json(cli, "cairn.get-metric/1",
			       json_pack("{s:o, s:o, s:o, s:o}", "run", facts_text(w->run.id),
					 "task", facts_text(w->task->task), "metric",
					 facts_text(w->metric), "value", facts_number(w->value)));
	else
		cli_printf(cli, "%s\n", text.s);
	return CLI_OK;
}

int cmd_get(struct cli *cli, const struct cli_args *args)
{
	const char *text = cli_operand(args, 0);
	struct err err = { 0 };
	struct what w;
	struct db *db;

	if (what_db(cli, text, &db, &err) < 0 ||
	    what_find(cli, db, text, WHAT_RUN | WHAT_CONTENT | WHAT_STEP | WHAT_METRIC,
		      cli_value(args, "run"), &w, &err) < 0)
		return cli_fail(cli, &err);
	if (w.kind == WHAT_RUN)
		return run(cli, args, db, &w);
	return w.kind == WHAT_METRIC ? metric(cli, &w) : content(cli, args, &w);
}
