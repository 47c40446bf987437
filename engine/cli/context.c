/* engine/cli/context.c — what commands need: configuration, database, store, a pipeline, params.
 *
 * Each is opened when a command first asks, so that a command pays only for what it needs. `struct
 * cli` owns it until cli_deinit(); callers borrow.
 *
 * --store, --on and --cache are written into the configuration right after it is loaded, so that
 * everything later reads one place. A --store path is relative to the working directory, not to the
 * project's root.
 *
 * Errors of files come as a list of diagnostics. They are printed here, each with its line and a
 * caret; the error that the command gets only counts them. `struct source` keeps the last file,
 * since diagnostics come sorted by file.
 *
 * Invariants: the database is reopened when DB_WRITE follows DB_READ, and never the other way.
 *
 * Threads: one, and a second one that tells the user about a store that doesn't answer while the
 * first one waits for it. What it doesn't do: open loop and runner (session.c), or decide what a
 * name means (what.c).
 */
#include <assert.h>
#include <errno.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/os/machine.h"
#include "base/os/process/command.h"
#include "base/os/thread.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "cli/cli.h"
#include "model/cache/cache.h"
#include "run/project/store.h"
#include "run/uses/uses.h"

#define LINE_SHOWN_MAX 160 /* bytes of a source line: read longer ones in an editor */

/* Diagnostics. */

/* The file whose lines the diagnostics show. It is kept between them: they come sorted by file. */
struct source {
	char *path;
	struct str bytes;
};

static void source_deinit(struct source *s)
{
	free(s->path);
	str_deinit(&s->bytes);
}

static const char *source_line(struct source *s, const char *path, int line, size_t *ret_len)
{
	const char *p, *nl;

	if (!s->path || strcmp(s->path, path) != 0) {
		free(s->path);
		s->path = xstrdup(path);
		str_reset(&s->bytes);
		if (fs_read_file(path, 64 * MIB, &s->bytes, NULL) < 0)
			str_reset(&s->bytes);
	}
	if (s->bytes.len == 0)
		return NULL;
	p = s->bytes.s;
	for (int i = 1; i < line; i++) {
		p = memchr(p, '\n', (size_t)(s->bytes.s + s->bytes.len - p));
		if (!p || ++p >= s->bytes.s + s->bytes.len)
			return NULL;
	}
	nl = memchr(p, '\n', (size_t)(s->bytes.s + s->bytes.len - p));
	*ret_len = nl ? (size_t)(nl - p) : (size_t)(s->bytes.s + s->bytes.len - p);
	if (*ret_len && p[*ret_len - 1] == '\r')
		--*ret_len;
	return p;
}

/* Prints the line, and a caret under its col-th character. Each tab is shown as one space, so that
 * the caret is in the right place. */
static void print_caret(struct cli *cli, const char *line, size_t len, int col)
{
	_cleanup_(str_deinit) struct str shown = { 0 }, before = { 0 };
	size_t i = 0, caret;

	for (int c = 1; i < len && i < LINE_SHOWN_MAX; c++) {
		uint32_t cp;
		size_t n = MAX(text_utf8_decode(line + i, len - i, &cp), (size_t)1);
		if (line[i] == '\t')
			str_addc(&shown, ' ');
		else
			text_add_printable(&shown, line + i, n);
		i += n;
		if (c < col)
			str_reset(&before), str_addn(&before, shown.s, shown.len);
	}
	if (i < len)
		str_add(&shown, cli->utf8 ? "…" : "...");
	caret = before.s ? text_width(before.s, before.len) : 0;
	fprintf(cli->err, "    %s\n", shown.s ? shown.s : "");
	if (i < len && caret >= LINE_SHOWN_MAX - 1)
		return;
	fprintf(cli->err, "    %*s%s^%s\n", (int)caret, "", cli_style_err(cli, STYLE_GREEN),
		cli_style_err(cli, STYLE_PLAIN));
}

static void print_diag(struct cli *cli, struct source *source, const struct diag *d)
{
	const char *kind = d->severity == DIAG_WARNING ? "warning: " : "";
	enum cli_style style = d->severity == DIAG_WARNING ? STYLE_YELLOW : STYLE_RED;
	_cleanup_(str_deinit) struct str message = { 0 };
	size_t len = 0;
	const char *line;

	cli_add_signs(&message, d->message, strlen(d->message), cli->utf8);
	fprintf(cli->err, "%s%s", cli_style_err(cli, STYLE_BOLD), cli_text(cli, d->file));
	if (d->line > 0)
		fprintf(cli->err, ":%d:%d", d->line, d->col);
	fprintf(cli->err, ":%s %s%s%s%s\n", cli_style_err(cli, STYLE_PLAIN),
		cli_style_err(cli, style), kind, message.s ? message.s : "",
		cli_style_err(cli, STYLE_PLAIN));
	line = d->line > 0 ? source_line(source, d->file, d->line, &len) : NULL;
	if (line && len > 0)
		print_caret(cli, line, len, d->col);
}

void cli_print_diags(struct cli *cli, struct diag_list *diags)
{
	_cleanup_(source_deinit) struct source source = { 0 };
	size_t n = diag_len(diags), total = diag_errors(diags) + diag_warnings(diags);

	fflush(cli->out);
	for (size_t i = 0; i < n; i++) {
		const struct diag *d = diag_at(diags, i);

		if (d->severity != DIAG_ERROR && cli->verbosity < 0)
			continue;
		if (cli->json)
			cli_add_finding(cli, d);
		else
			print_diag(cli, &source, d);
	}
	cli->printed_errors = cli->json && diag_errors(diags);
	if (total > n && !cli->json)
		fprintf(cli->err, "and %zu more\n", total - n);
}

/* Every error was printed with its place. The loader's message counts several errors, but repeats a
 * single one: for that case a count replaces it. */
static int said_all(struct diag_list *diags, const char *file, struct err *err)
{
	if (diag_errors(diags) == 1)
		err_set(err, ERR_INVALID, "%s: 1 error", file);
	return -1;
}

/* Project. */

/* Applies --store, relative to the user's working directory. The store checks the form of an object
 * store's URI. */
static int apply_store(struct cli *cli, const char *cwd, struct err *err)
{
	_cleanup_(freep) char *joined = NULL, *normal = NULL;
	const char *uri = cli->store_option;

	if (!*uri)
		return err_set(err, ERR_USAGE, "--store needs a directory or a URI");
	if (!strstr(uri, "://") && (str_has_prefix(uri, "s3:") || str_has_prefix(uri, "gs:")))
		return err_set(err, ERR_USAGE, "--store `%s`: two slashes follow the scheme", uri);
	if (!strstr(uri, "://")) {
		joined = fs_join(cwd, uri);
		normal = fs_normalise(joined);
		uri = normal;
	}
	cli->config->store.uri = arena_strdup(cli->config->arena, uri);
	return 0;
}

int cli_config(struct cli *cli, const struct config **ret, struct err *err)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = NULL;

	if (!cli->config) {
		_cleanup_(freep) char *cwd = getcwd(NULL, 0);
		int r;

		if (!cwd)
			return err_errno(err, "cannot tell the working directory");
		diags = diag_list_new();
		r = config_load(cwd, diags, &cli->config, err);
		cli_print_diags(cli, diags);
		if (r < 0)
			return said_all(diags, "cairn.yaml", err);
		if (cli->runner_option &&
		    config_choose_runner(cli->config, cli->runner_option, err) < 0)
			return err_wrap(err, "--on");
		if (cli->cache_option)
			cli->config->store.cache = cli->cache_option;
		if (cli->store_option && apply_store(cli, cwd, err) < 0)
			return -1;
	}
	*ret = cli->config;
	return 0;
}

const char *cli_program(struct cli *cli)
{
	_cleanup_(freep) char *path = command_self();

	return path ? arena_strdup(cli->arena, path) : "cairn";
}

const char *cli_steps_program(struct cli *cli)
{
	const char *program = cli_program(cli), *slash = strrchr(program, '/');

#ifdef CAIRN_STATIC
	return program; /* they are in it, and it knows such a call (steps/all.h) */
#endif
	return slash ? arena_printf(cli->arena, "%.*s/cairn-steps", (int)(slash - program), program)
		     : "cairn-steps";
}

int cli_db(struct cli *cli, enum db_open_flags flags, struct db **ret, struct err *err)
{
	const struct config *config;
	_cleanup_(freep) char *path = NULL;

	assert(flags == DB_READ || flags == DB_WRITE);
	if (cli_config(cli, &config, err) < 0)
		return -1;
	if (cli->db && flags == DB_WRITE && !cli->db_writable) {
		db_close(cli->db);
		cli->db = NULL;
	}
	if (!cli->db) {
		path = fs_join(config->state_dir, "cairn.db");
		if (flags == DB_READ && access(path, F_OK) < 0 && errno == ENOENT)
			return err_set(err, ERR_NOT_FOUND,
				       "nothing was run in %s yet; see `cairn run --help`",
				       config->project_root);
		if (flags == DB_WRITE && fs_mkdir_p(config->state_dir, err) < 0)
			return -1;
		if (db_open(path, flags, &cli->db, err) < 0)
			return -1;
		cli->db_writable = flags == DB_WRITE;
	}
	*ret = cli->db;
	return 0;
}

int64_t cli_test_duration(const char *name, int64_t normal_ns)
{
	const char *v = getenv(name);
	int64_t ns;

	return v && text_parse_duration(v, &ns, NULL) == 0 ? ns : normal_ns;
}

/* A store that takes connections and says nothing is given up after minutes. */
#define SILENCE_NS (3 * NS_PER_S)

struct slow_open {
	struct cli *cli;
	const char *uri;
	pthread_mutex_t lock;
	pthread_cond_t over;
	bool is_over;
};

static void *note_silence(void *arg)
{
	struct slow_open *p = arg;
	int64_t ns = clock_mono_ns() + cli_test_duration("CAIRN_TEST_SILENCE", SILENCE_NS);
	const struct timespec until = { ns / NS_PER_S, ns % NS_PER_S };
	bool late = false;

	pthread_mutex_lock(&p->lock);
	while (!p->is_over && !late)
		late = pthread_cond_timedwait(&p->over, &p->lock, &until) != 0;
	if (!p->is_over)
		cli_note(p->cli, "waiting for the store %s: it does not answer yet", p->uri);
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

/* The caller prints nothing meanwhile, so the other thread may. */
static int open_shared_store(struct cli *cli, const struct config *config, bool create,
			     struct err *err)
{
	struct slow_open p = { .cli = cli, .uri = config->store.uri };
	pthread_t thread;
	bool threaded;
	int r;

	pthread_mutex_init(&p.lock, NULL);
	thread_cond_init(&p.over);
	threaded = thread_start(&thread, NULL, note_silence, &p) == 0;
	r = run_open_store(config, create, &cli->store, err);
	pthread_mutex_lock(&p.lock);
	p.is_over = true;
	pthread_cond_signal(&p.over);
	pthread_mutex_unlock(&p.lock);
	if (threaded)
		pthread_join(thread, NULL);
	pthread_cond_destroy(&p.over);
	pthread_mutex_destroy(&p.lock);
	return r;
}

int cli_store(struct cli *cli, bool create, struct store **ret, struct err *err)
{
	const struct config *config = NULL;

	if (cli_config(cli, &config, err) < 0)
		return -1;
	if (!cli->store &&
	    (config_store_is_shared(config) ? open_shared_store(cli, config, create, err)
					    : run_open_store(config, create, &cli->store, err)) < 0)
		return -1;
	*ret = cli->store;
	return 0;
}

/* Pipeline. */

bool cli_is_pipeline_path(const char *operand)
{
	struct stat st;

	if (str_has_suffix(operand, ".yaml") || str_has_suffix(operand, ".yml"))
		return true;
	return strpbrk(operand, "./") && stat(operand, &st) == 0 && S_ISREG(st.st_mode);
}

static void note_fetch(void *arg, const struct external *what)
{
	cli_note(arg, "fetching %s", what->text);
}

void cli_uses(struct cli *cli, const struct config *config, struct uses *uses,
	      struct pipeline_load_options *o)
{
	*uses = (struct uses){ config, note_fetch, cli };
	o->uses_dir = config->uses_dir;
	o->bring = uses_bring;
	o->bring_arg = uses;
}

int cli_pipeline(struct cli *cli, const char *path, struct pipeline **ret, struct err *err)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	_cleanup_(freep) char *cache_dir = NULL;
	struct pipeline_load_options o = { 0 };
	const struct config *config;
	struct uses uses;
	int r;

	if (!path && access("pipeline.yaml", F_OK) < 0)
		return err_set(err, ERR_INVALID,
			       "there is no pipeline.yaml here; name a pipeline file, or make one "
			       "with `cairn init`");
	if (cli_config(cli, &config, err) < 0)
		return -1;
	cache_dir = model_cache_dir();
	o.project_root = config->project_root;
	o.cache_dir = cache_dir;
	cli_uses(cli, config, &uses, &o);
	r = pipeline_load(path ? path : "pipeline.yaml", &o, diags, ret, err);
	cli_print_diags(cli, diags);
	if (r < 0 && err && err->code == ERR_NOT_FOUND)
		err->code = ERR_INVALID; /* a missing pipeline counts as an invalid one: exit 3 */
	return r < 0 ? said_all(diags, path ? path : "pipeline.yaml", err) : 0;
}

/* Params. */

typedef VEC(struct param_override) override_list;

static int param_file(struct cli *cli, const char *path, override_list *v, struct err *err)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	struct param_override *more = NULL;
	size_t n_more = 0;
	int r = params_load_file(path, cli->arena, &more, &n_more, diags, err);

	cli_print_diags(cli, diags);
	if (r < 0)
		return said_all(diags, path, err);
	for (size_t i = 0; i < n_more; i++)
		VEC_PUSH(v, more[i]);
	return 0;
}

int cli_params(struct cli *cli, const struct cli_args *args, struct param_override **ret,
	       size_t *ret_n, struct err *err)
{
	unsigned n_files = cli_count(args, "params-file"), n_words = cli_count(args, "param");
	override_list v = { 0 };
	int r = 0;

	for (unsigned i = 0; r == 0 && i < n_files; i++)
		r = param_file(cli, cli_value_at(args, "params-file", i), &v, err);
	for (unsigned i = 0; r == 0 && i < n_words; i++) {
		const char *word = cli_value_at(args, "param", i), *eq = strchr(word, '=');

		if (!eq || eq == word)
			r = err_set(err, ERR_USAGE, "-p needs NAME=VALUE, not `%s`", word);
		else
			VEC_PUSH(&v, ((struct param_override){
					     .where = "-p",
					     .name = arena_strndup(cli->arena, word,
								   (size_t)(eq - word)),
					     .text = eq + 1 }));
	}
	VEC_TO_ARENA(&v, cli->arena, ret, ret_n);
	return r;
}

/* $USER is empty in containers and under cron. getpwuid() doesn't work in a static binary; then the
 * file is read, which has all users but those of a directory server. */
static const char *user_name(struct cli *cli)
{
	const char *user = getenv("USER"), *name = NULL;
	FILE *f = user && *user ? NULL : fopen("/etc/passwd", "re");
	struct passwd *p;

	if (user && *user)
		return arena_printf(cli->arena, "%.100s", user);
	while (f && !name && (p = fgetpwent(f)))
		if (p->pw_uid == geteuid())
			name = arena_printf(cli->arena, "%.100s", p->pw_name);
	if (f)
		fclose(f);
	return name ? name : arena_printf(cli->arena, "%u", (unsigned)geteuid());
}

const char *cli_author(struct cli *cli)
{
	char host[MACHINE_NAME_BYTES];

	machine_name(host);
	return arena_printf(cli->arena, "%s@%s", user_name(cli), host);
}
