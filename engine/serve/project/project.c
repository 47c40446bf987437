/* engine/serve/project/project.c — a project: its configuration, and handles of its database and
 * store.
 *
 * project_open() makes one that owns all of these, for the daemon. project_borrow() makes one for
 * the notices of a single run, whose configuration and database belong to that run. Readers are
 * kept for the next request, up to PROJECT_READERS_MAX.
 *
 * Threads: `lock` protects readers and store; all else belongs to the loop's thread. Not here:
 * which projects there are (discover.c).
 */
#include "serve/project/project.h"
#include "base/os/fs.h"
#include "base/text/json.h"
#include "run/project/store.h"

/* Small, since up to PROJECT_READERS_MAX readers stay open for months. The system caches it too. */
#define READER_CACHE_BYTES (8 * MIB)

void project_add_errors(struct str *out, struct diag_list *diags, size_t max)
{
	for (size_t i = 0; i < diag_len(diags) && out->len < max; i++) {
		const struct diag *d = diag_at(diags, i);

		if (d->severity == DIAG_ERROR)
			str_addf(out, "%s%s:%d:%d: %s", out->len ? "; " : "", d->file, d->line,
				 d->col, d->message);
	}
}

static int load_config(const char *dir, struct config **ret, struct err *err)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	_cleanup_(str_deinit) struct str errors = { 0 };

	if (config_load(dir, diags, ret, err) == 0)
		return 0;
	project_add_errors(&errors, diags, 800);
	return errors.len ? err_set(err, ERR_INVALID, "%s", errors.s) : err_wrap(err, "%s", dir);
}

static struct project *project_new(struct config *config)
{
	struct project *p = xcalloc(1, sizeof(*p));
	_cleanup_(str_deinit) struct str name = { 0 };
	const char *base;

	pthread_mutex_init(&p->lock, NULL);
	p->arena = arena_new();
	p->config = config;
	p->root = arena_strdup(p->arena, config->project_root);
	base = *fs_basename(p->root) ? fs_basename(p->root) : "root";
	json_name_encode(&name, base, strlen(base)); /* it appears in JSON, logs and addresses */
	p->name = arena_strdup(p->arena, name.s);
	p->db_path = fs_join(config->state_dir, "cairn.db");
	return p;
}

struct project *project_borrow(const struct config *config, struct db *db)
{
	struct project *p = project_new((struct config *)(uintptr_t)config);

	p->borrowed = true;
	p->db = db;
	return p;
}

int project_open(const char *dir, struct project **ret, struct err *err)
{
	_cleanup_(freep) char *absolute = realpath(dir, NULL);
	struct project *p;
	struct config *config;

	if (!absolute)
		return err_errno(err, "cannot serve %s", dir);
	if (load_config(absolute, &config, err) < 0)
		return -1;
	p = project_new(config);
	if (fs_mkdir_p(config->state_dir, err) < 0 ||
	    db_open(p->db_path, DB_WRITE, &p->db, err) < 0) {
		project_free(p);
		return -1;
	}
	*ret = p;
	return 0;
}

void project_free(struct project *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->n_readers; i++)
		db_close(p->readers[i]);
	if (!p->borrowed) {
		db_close(p->db);
		config_free(p->config);
	}
	store_free(p->store);
	arena_free(p->arena);
	pthread_mutex_destroy(&p->lock);
	free(p->db_path);
	free(p);
}

void project_rename(struct project *p, unsigned number)
{
	p->name = arena_printf(p->arena, "%s-%u", p->name, number);
}

int project_reload(struct project *p, struct err *err)
{
	struct config *fresh;

	if (load_config(p->root, &fresh, err) < 0)
		return -1;
	config_free(fresh); /* only checked here: each run reads cairn.yaml itself */
	return 0;
}

/* Readers for other threads. */

int project_reader(struct project *p, struct db **ret, struct err *err)
{
	struct db *db = NULL;

	pthread_mutex_lock(&p->lock);
	if (p->n_readers)
		db = p->readers[--p->n_readers];
	pthread_mutex_unlock(&p->lock);
	if (!db) {
		if (db_open(p->db_path, DB_READ, &db, err) < 0)
			return -1;
		db_limit_cache(db, READER_CACHE_BYTES);
	}
	*ret = db;
	return 0;
}

void project_reader_return(struct project *p, struct db *db)
{
	if (!db)
		return;
	pthread_mutex_lock(&p->lock);
	if (p->n_readers < PROJECT_READERS_MAX) {
		p->readers[p->n_readers++] = db;
		db = NULL;
	}
	pthread_mutex_unlock(&p->lock);
	db_close(db);
}

int project_store(struct project *p, struct store **ret, struct err *err)
{
	int r = 0;

	pthread_mutex_lock(&p->lock);
	if (!p->store)
		r = run_open_store(p->config, false, &p->store, err);
	*ret = p->store;
	pthread_mutex_unlock(&p->lock);
	return r;
}
