/* engine/cli/reproduce/cmd_reproduce.c — `cairn reproduce`.
 *
 * The order: options; a working directory (-o changes to it, so paths of the command line are made
 * absolute before); the session; the past run; the check whether it may be executed;
 * run_reproduce(); the report (end.c).
 *
 * find_original() asks the database first. An unknown run is looked for in the store's manifests,
 * here and in the remote behind it: by the beginning of its hash, or by its id, for which every
 * manifest must be read.
 *
 * Invariants: a run that this project didn't begin is shown and needs --trust (run/foreign.h)
 * before any part of it is executed. When the past run was found, but what it needs is gone or
 * damaged and no new run was created, the exit code is REPRODUCE_UNKNOWN.
 *
 * Threads: the loop's. What it doesn't do: execute and compare (run/reproduce/).
 */
#include <errno.h>
#include "base/os/fs.h"
#include "cli/reproduce/reproduce.h"
#include "cli/run/foreign.h"
#include "record/manifest/manifest.h"
#include "record/rows/reproductions.h"
#include "storage/remote/tier.h"

/* The working directory. */

/* Makes a path of the command line absolute, since the working directory changes. */
static const char *absolute(struct cli *cli, const char *path)
{
	_cleanup_(freep) char *cwd = getcwd(NULL, 0), *joined = NULL, *normal = NULL;

	if (!path || strstr(path, "://") || !cwd)
		return path;
	joined = fs_join(cwd, path);
	normal = fs_normalise(joined);
	return arena_strdup(cli->arena, normal);
}

/* A store is enough: if the directory is no project, it becomes one. */
static int prepare_place(struct cli *cli, const char *dir, struct err *err)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	struct config *config = NULL;
	struct err why = { 0 };

	if (dir) {
		cli->store_option = absolute(cli, cli->store_option);
		if (fs_mkdir_p(dir, err) < 0)
			return -1;
		if (chdir(dir) < 0)
			return err_errno(err, "cannot go to %s", dir);
		return fs_mkdir_p(".cairn", err);
	}
	if (config_load(".", diags, &config, &why) < 0 && why.code == ERR_NOT_FOUND) {
		if (!cli->store_option && !getenv("CAIRN_STORE"))
			return err_set(err, ERR_USAGE,
				       "this is not a project: name the store that has the run "
				       "(--store URI)");
		return fs_mkdir_p(".cairn", err);
	}
	config_free(config);
	return 0;
}

/* The past run. */

struct search {
	struct cli *cli;
	struct store *store;
	const char *prefix; /* of a run hash; NULL: by id */
	const char *id;
	VEC(struct digest) found; /* without duplicates: a manifest may be here and in the remote */
};

static int look_at(void *arg, const struct digest *name, uint64_t size, int64_t mtime_ns)
{
	struct search *s = arg;

	for (size_t i = 0; i < s->found.n; i++)
		if (digest_eq(&s->found.v[i], name))
			return 0;
	if (s->prefix) {
		char hex[DIGEST_HEX_MAX];

		if (str_has_prefix(digest_hex(name, hex), s->prefix))
			VEC_PUSH(&s->found, *name);
	} else {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		struct manifest m;

		if (manifest_load(s->store, name, arena, &m, &(struct err){ 0 }) == 0 &&
		    str_eq(m.run->id, s->id))
			VEC_PUSH(&s->found, *name);
	}
	return 0;
}

/* The database doesn't know the run: reads the manifests in the store. */
static int search_store(struct cli *cli, struct store *store, const char *what, struct digest *ret,
			struct err *err)
{
	size_t n = strlen(what);
	bool hash = n >= 4 && n <= 64 && strspn(what, "0123456789abcdef") == n;
	struct search s = { .cli = cli, .store = store, .prefix = hash ? what : NULL, .id = what };
	struct remote *remote = tier_remote(store);
	int r = store_list(store, STORE_RUN, look_at, &s, err);

	if (r == 0 && remote)
		r = remote_list(remote, STORE_RUN, look_at, &s, err);
	if (r == 0 && s.found.n > 1)
		r = err_set(err, ERR_INVALID,
			    "`%s` could be any of %zu runs in %s: type more of it", what, s.found.n,
			    store_uri(store));
	else if (r == 0 && s.found.n == 0)
		r = err_set(err, ERR_NOT_FOUND, "no run `%s`, neither in this project nor in %s",
			    what, store_uri(store));
	else if (r == 0)
		*ret = s.found.v[0];
	VEC_FREE(&s.found);
	return r;
}

/* *ret_own: this project began the run. */
static int find_original(struct cli *cli, const struct session *s, const char *what,
			 struct digest *ret, bool *ret_own, struct err *err)
{
	struct err why = { 0 }, unknown = { 0 };
	bool newest = str_eq(what, "last") || str_has_prefix(what, "last:");
	struct run_row row, past;
	char hex[DIGEST_HEX_MAX];

	*ret_own = false;
	if (record_find_run(s->db, what, cli->arena, &row, &why) == 0) {
		if (!row.has_hash)
			return err_set(err, ERR_INVALID, "run %s has no run hash: it has not ended",
				       row.id);
		/* The newest run may be a reproduction: then its original is meant. */
		if (row.has_reproduces && newest) {
			*ret = row.reproduces;
			*ret_own = record_find_run(s->db, digest_hex(ret, hex), cli->arena, &past,
						   &unknown) == 0 &&
				   foreign_is_own(&past);
		} else {
			*ret = row.hash;
			*ret_own = foreign_is_own(&row);
		}
		return 0;
	}
	if (why.code != ERR_NOT_FOUND)
		return err_pass(err, &why);
	return search_store(cli, s->store, str_has_prefix(what, "sha256:") ? what + 7 : what, ret,
			    err);
}

/* Dropping. */

static int drop(struct cli *cli, const char *what)
{
	struct err err = { 0 };
	struct run_row row;
	struct db *db;
	int n;

	if (cli_db(cli, DB_WRITE, &db, &err) < 0 ||
	    record_find_run(db, what, cli->arena, &row, &err) < 0 || db_begin(db, &err) < 0)
		return cli_fail(cli, &err);
	n = record_reproduction_drop(db, &row, &err);
	if (n < 0) {
		db_rollback(db);
		return cli_fail(cli, &err);
	}
	if (db_commit(db, &err) < 0)
		return cli_fail(cli, &err);
	if (n == 0)
		err_set(&err, ERR_NOT_FOUND,
			"run %s is neither a reproduction nor was it reproduced here", row.id);
	if (n == 0)
		return cli_fail(cli, &err);
	if (cli->json)
		cli_print_json(cli, "cairn.reproduce-drop/1", json_pack("{s:i}", "dropped", n));
	else
		cli_printf(cli,
			   "%d reproduction%s dropped: `cairn store gc` treats the runs like "
			   "others now\n",
			   n, n == 1 ? "" : "s");
	return CLI_OK;
}

/* The command. */

static int options_of(struct cli *cli, const struct cli_args *args, struct reproduce_options *ret,
		      struct err *err)
{
	uint64_t jobs = 0;

	*ret = (struct reproduce_options){ .mode = cli_flag(args, "chained") ? REPRODUCE_CHAINED
									     : REPRODUCE_ISOLATED,
					   .keep_workspace = cli_flag(args, "keep-workspace") };
	ret->only = cli_values(args, "step", cli->arena, &ret->n_only);
	ret->skip = cli_values(args, "skip", cli->arena, &ret->n_skip);
	if (cli_uint(args, "jobs", 1, 10000, &jobs, err) < 0)
		return -1;
	ret->jobs = (unsigned)jobs;
	return 0;
}

static int check_stranger(struct cli *cli, const struct cli_args *args, struct store *s,
			  const struct digest *hash, const struct reproduce_options *o,
			  struct err *err)
{
	char hex[DIGEST_HEX_MAX];
	struct manifest m;
	struct run_row row;

	if (manifest_load(s, hash, cli->arena, &m, err) < 0)
		return err_wrap(err, "the manifest of run %.12s", digest_hex(hash, hex));
	row = *m.run;
	row.pipeline_blob = m.pipeline_tree;
	return foreign_check(cli, args, s, &row, o, err);
}

int cmd_reproduce(struct cli *cli, const struct cli_args *args)
{
	const char *html = absolute(cli, cli_value(args, "html"));
	struct reproduction *rep = NULL;
	struct reproduce_options o;
	struct run_row row = { 0 };
	struct digest original;
	struct err err = { 0 };
	struct execution e;
	bool found = false, own = false;
	int result, code;

	if (cli_flag(args, "drop"))
		return drop(cli, cli_operand(args, 0));
	if (options_of(cli, args, &o, &err) < 0 ||
	    prepare_place(cli, cli_value(args, "output"), &err) < 0)
		return cli_fail(cli, &err);
	result = execution_open(&e, cli, &err);
	if (result == 0)
		result = find_original(cli, &e.s, cli_operand(args, 0), &original, &own, &err);
	found = result == 0;
	if (found && !own)
		result = check_stranger(cli, args, e.s.store, &original, &o, &err);
	if (result == 0)
		result = run_reproduce(&e.ctx, &original, &o, cli->arena, &row, &rep, &err);
	code = reproduce_conclude(cli, &e, result, &row, rep, html, &err);
	/* Nothing could be executed: the manifest, the pipeline or the results are gone or
	 * damaged. */
	if (result < 0 && found && !row.id &&
	    (err.code == ERR_NOT_FOUND || err.code == ERR_CORRUPT || err.code == ERR_NEWER))
		return REPRODUCE_UNKNOWN;
	return code;
}
