/* engine/run/task/git.c — reads the git facts of the project with libgit2, on a thread of its own.
 *
 * Whether files differ is told by the times in the index where these can tell (work_tree.c), else
 * by libgit2, which loads all of the index.
 *
 * look() loads the library (base/os/library.h), so that a process without a repository never pays
 * for it; SYMBOLS lists the functions that are called. look() fills the struct git_query;
 * git_query_end() joins the thread and copies the facts. Remotes and submodules are read as entries
 * of configuration files, and each submodule is opened as a repository.
 *
 * Invariants: between start and end only the thread touches the struct. No URL is kept before
 * git_url_without_secrets(). The state directory never makes a project dirty. No error here fails a
 * run: a fact that can't be read stays unknown.
 *
 * Threads: one look at a time, since the table of functions is shared. Not here: reading code for
 * keys (plan/sources/sources.c).
 */
#include "run/task/git.h"
#include <git2.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/os/library.h"
#include "base/os/thread.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "run/task/libgit2.h"
#include "run/task/work_tree.h"

struct git_query {
	pthread_t thread;
	char *root, *state_dir;
	char commit[GIT_OID_HEXSZ + 1];
	bool dirty;
	char *author, *remote;
	json_t *submodules;
};

/* Usual repositories have a few. With more than this, they aren't described. */
#define SUBMODULES_MAX 1000

/* The library. */

/* clang-format off */
#define SYMBOLS(X) \
	X(git_libgit2_init) X(git_libgit2_shutdown) X(git_repository_open_ext) \
	X(git_repository_free) X(git_repository_workdir) X(git_reference_name_to_id) \
	X(git_oid_tostr) X(git_status_list_new) X(git_status_list_entrycount) \
	X(git_status_byindex) X(git_status_list_free) X(git_repository_config_snapshot) \
	X(git_config_open_ondisk) X(git_config_iterator_new) X(git_config_next) \
	X(git_config_iterator_free) X(git_config_free) X(git_commit_lookup) X(git_commit_tree) \
	X(git_commit_free) X(git_commit_author) \
	X(git_tree_entry_bypath) X(git_tree_entry_id) X(git_tree_entry_free) \
	X(git_tree_free) X(git_repository_path) X(git_commit_tree_id) \
	X(git_ignore_path_is_ignored)
/* clang-format on */

static struct {
#define FIELD(name) __typeof__(&name) name;
	SYMBOLS(FIELD)
} lib;

static bool load(void)
{
	static const struct library_function functions[] = {
#define FIND(name) { #name, offsetof(__typeof__(lib), name), LIBRARY_LINKED(name) },
		SYMBOLS(FIND)
	};
	const char *missing;

	return library_open(libgit2_names, functions, ARRAY_LEN(functions), &lib, &missing) == 0;
}

/* Configuration. */

/* Calls fn for each entry. git_remote_* and git_submodule_* use regular expressions, and libgit2
 * 1.5 leaks memory with each one that doesn't match. */
static void each_entry(git_config *config,
		       void (*fn)(void *arg, const char *name, const char *value), void *arg)
{
	git_config_iterator *it;
	git_config_entry *e;

	if (lib.git_config_iterator_new(&it, config) < 0)
		return;
	while (lib.git_config_next(&e, it) == 0)
		if (e->name && e->value)
			fn(arg, e->name, e->value);
	lib.git_config_iterator_free(it);
}

/* Reading the work tree. */

/* Whether this path (from the top of the work tree) is in the state directory. */
static bool in_state_dir(const struct git_query *l, const char *workdir, const char *path)
{
	_cleanup_(freep) char *full = xasprintf("%s%s", workdir, path);
	size_t n = strlen(l->state_dir);

	return strncmp(full, l->state_dir, n) == 0 && (full[n] == '\0' || full[n] == '/');
}

static bool is_ignored(void *arg, const char *path)
{
	int ignored;

	return lib.git_ignore_path_is_ignored(&ignored, arg, path) == 0 && ignored;
}

/* With these, times in the index don't mean what work_tree.c takes them for. */
static void see_setting(void *arg, const char *name, const char *value)
{
	static const char *const usual[][2] = {
		{ "core.filemode", "true" },          { "core.trustctime", "true" },
		{ "core.checkstat", "default" },      { "core.ignorecase", "false" },
		{ "core.symlinks", "true" },          { "core.sparsecheckout", "false" },
		{ "core.splitindex", "false" },       { "core.precomposeunicode", "false" },
		{ "extensions.objectformat", "sha1" }
	};
	bool *all_usual = arg;

	for (size_t i = 0; i < ARRAY_LEN(usual); i++)
		*all_usual &= !str_eq(name, usual[i][0]) || strcasecmp(value, usual[i][1]) == 0;
}

/* Most often times and sizes tell. */
static enum work_tree_state look_at_index(const struct git_query *l, git_repository *repo,
					  const char *workdir)
{
	_cleanup_(freep) char *index = fs_join(lib.git_repository_path(repo), "index");
	enum work_tree_state state = WORK_TREE_UNSURE;
	git_config *config;
	git_commit *commit;
	git_oid oid;
	bool usual = true;

	if (lib.git_repository_config_snapshot(&config, repo) < 0)
		return state;
	each_entry(config, see_setting, &usual);
	lib.git_config_free(config);
	if (!usual || lib.git_reference_name_to_id(&oid, repo, "HEAD") < 0 ||
	    lib.git_commit_lookup(&commit, repo, &oid) < 0)
		return state;
	state = work_tree_scan(
		&(struct work_tree_scan){ .index = index,
					  .workdir = workdir,
					  .state_dir = l->state_dir,
					  .head_tree = lib.git_commit_tree_id(commit)->id,
					  .is_ignored = is_ignored,
					  .arg = repo });
	lib.git_commit_free(commit);
	return state;
}

static bool differs(const struct git_query *l, git_repository *repo, const char *workdir)
{
	enum work_tree_state state = look_at_index(l, repo, workdir);
	git_status_options o = { .version = GIT_STATUS_OPTIONS_VERSION,
				 .show = GIT_STATUS_SHOW_INDEX_AND_WORKDIR };
	git_status_list *list;
	bool dirty = false;

	if (state != WORK_TREE_UNSURE)
		return state == WORK_TREE_DIRTY;
	/* Submodules are read here, because libgit2 finds them with regular expressions (see
	 * each_entry). */
	o.flags = GIT_STATUS_OPT_INCLUDE_UNTRACKED | GIT_STATUS_OPT_EXCLUDE_SUBMODULES;
	if (lib.git_status_list_new(&list, repo, &o) < 0)
		return false;
	for (size_t i = 0; i < lib.git_status_list_entrycount(list) && !dirty; i++) {
		const git_status_entry *e = lib.git_status_byindex(list, i);
		const git_diff_delta *d =
			e->index_to_workdir ? e->index_to_workdir : e->head_to_index;

		dirty = !d || !in_state_dir(l, workdir, d->new_file.path);
	}
	lib.git_status_list_free(list);
	return dirty;
}

/* Remote and submodules. */

/* Drops user and secret of scheme://user:secret@host/path?token=…, and everything after `?` or `#`.
 * The user of an ssh URL stays: it is no secret and part of the address. A URL without a scheme is
 * a path, or host:path for ssh. */
char *git_url_without_secrets(const char *url)
{
	const char *host = strstr(url, "://"), *end, *at, *colon;
	bool ssh;

	if (!host)
		return xstrdup(url);
	host += 3;
	end = host + strcspn(host, "/?#");
	at = memrchr(host, '@', (size_t)(end - host));
	ssh = str_has_prefix(url, "ssh://") || str_has_prefix(url, "git+ssh://");
	colon = at ? memchr(host, ':', (size_t)(at - host)) : NULL;
	end += strcspn(end, "?#");
	if (!at)
		return xstrndup(url, (size_t)(end - url));
	if (ssh)
		return xasprintf("%.*s%.*s", (int)((colon ? colon : at) - url), url,
				 (int)(end - at), at);
	return xasprintf("%.*s%.*s", (int)(host - url), url, (int)(end - at - 1), at + 1);
}

struct remotes {
	char *origin, *other;
	size_t n_others;
};

static void see_remote(void *arg, const char *name, const char *value)
{
	struct remotes *r = arg;
	bool origin = str_eq(name, "remote.origin.url");
	char **place = origin ? &r->origin : &r->other;

	if (!str_has_prefix(name, "remote.") || !str_has_suffix(name, ".url"))
		return;
	r->n_others += !origin;
	free(*place);
	*place = xstrdup(value);
}

/* `origin`, or the only remote. */
static void look_at_remote(struct git_query *l, git_repository *repo)
{
	struct remotes r = { 0 };
	git_config *config;
	const char *url;

	if (lib.git_repository_config_snapshot(&config, repo) < 0)
		return;
	each_entry(config, see_remote, &r);
	lib.git_config_free(config);
	url = r.origin ? r.origin : r.n_others == 1 ? r.other : NULL;
	l->remote = url ? git_url_without_secrets(url) : NULL;
	free(r.origin);
	free(r.other);
}

struct submodules {
	const struct git_query *look;
	const char *workdir;
	git_tree *tree; /* of HEAD; or NULL */
	json_t *list;
	bool dirty; /* any of them */
};

/* The commit of the submodule at `path` in HEAD. */
static bool committed(const struct submodules *s, const char *path, git_oid *ret)
{
	git_tree_entry *e;

	if (!s->tree || lib.git_tree_entry_bypath(&e, s->tree, path) < 0)
		return false;
	*ret = *lib.git_tree_entry_id(e);
	lib.git_tree_entry_free(e);
	return true;
}

/* Adds what is checked out there. Dirty: another commit than HEAD records, or files that differ. A
 * submodule that isn't checked out has no commit. */
static void see_submodule(void *arg, const char *name, const char *path)
{
	struct submodules *s = arg;
	git_repository *repo;
	char commit[GIT_OID_HEXSZ + 1] = "";
	bool dirty = false;
	git_oid oid = { 0 }, want = { 0 };

	if (!str_has_prefix(name, "submodule.") || !str_has_suffix(name, ".path") ||
	    json_array_size(s->list) >= SUBMODULES_MAX)
		return;
	if (path[0] != '/' && !strstr(path, "..")) {
		_cleanup_(freep) char *full = xasprintf("%s%s", s->workdir, path);

		if (lib.git_repository_open_ext(&repo, full, GIT_REPOSITORY_OPEN_NO_SEARCH, NULL) ==
		    0) {
			const char *workdir = lib.git_repository_workdir(repo);

			if (lib.git_reference_name_to_id(&oid, repo, "HEAD") == 0)
				lib.git_oid_tostr(commit, sizeof(commit), &oid);
			dirty = !committed(s, path, &want) ||
				memcmp(&want, &oid, sizeof(oid)) != 0 ||
				(workdir && differs(s->look, repo, workdir));
			lib.git_repository_free(repo);
		}
	}
	json_array_append_new(s->list,
			      json_pack("{s:o, s:o, s:b}", "path", json_name(path, strlen(path)),
					"commit", *commit ? json_string(commit) : json_null(),
					"dirty", dirty));
	s->dirty |= dirty;
}

static git_tree *head_tree(git_repository *repo)
{
	git_commit *commit;
	git_tree *tree = NULL;
	git_oid oid;

	if (lib.git_reference_name_to_id(&oid, repo, "HEAD") < 0 ||
	    lib.git_commit_lookup(&commit, repo, &oid) < 0)
		return NULL;
	if (lib.git_commit_tree(&tree, commit) < 0)
		tree = NULL;
	lib.git_commit_free(commit);
	return tree;
}

static void look_at_submodules(struct git_query *l, git_repository *repo, const char *workdir)
{
	_cleanup_(freep) char *modules = xasprintf("%s.gitmodules", workdir);
	struct submodules s = { .look = l, .workdir = workdir, .list = json_array() };
	git_config *config;

	l->submodules = s.list;
	if (access(modules, F_OK) != 0 || lib.git_config_open_ondisk(&config, modules) < 0)
		return;
	s.tree = head_tree(repo);
	each_entry(config, see_submodule, &s);
	lib.git_tree_free(s.tree);
	lib.git_config_free(config);
	l->dirty |= s.dirty;
}

/* A name that isn't UTF-8 is left out. */
static void look_at_author(struct git_query *l, git_repository *repo, const git_oid *oid)
{
	const git_signature *author;
	git_commit *commit;
	size_t n;

	if (lib.git_commit_lookup(&commit, repo, oid) < 0)
		return;
	author = lib.git_commit_author(commit);
	n = author && author->name ? strlen(author->name) : 0;
	if (n && n <= GIT_AUTHOR_MAX && text_is_utf8(author->name, n))
		l->author = xstrdup(author->name);
	lib.git_commit_free(commit);
}

static void *look(void *arg)
{
	struct git_query *l = arg;
	git_repository *repo;
	git_oid oid;

	if (!load() || lib.git_libgit2_init() < 0)
		return NULL;
	if (lib.git_repository_open_ext(&repo, l->root, 0, NULL) == 0) {
		const char *workdir = lib.git_repository_workdir(repo);

		if (lib.git_reference_name_to_id(&oid, repo, "HEAD") == 0) {
			lib.git_oid_tostr(l->commit, sizeof(l->commit), &oid);
			look_at_author(l, repo, &oid);
		}
		l->dirty = workdir && differs(l, repo, workdir);
		look_at_remote(l, repo);
		if (workdir)
			look_at_submodules(l, repo, workdir);
		lib.git_repository_free(repo);
	}
	lib.git_libgit2_shutdown();
	return NULL;
}

static bool in_repository(const char *root)
{
	_cleanup_(freep) char *dir = xstrdup(root);

	for (;;) {
		_cleanup_(freep) char *git = xasprintf("%s/.git", dir);
		struct stat st;
		char *up;

		if (stat(git, &st) == 0)
			return true;
		if (strcmp(dir, "/") == 0 || strcmp(dir, ".") == 0)
			return false;
		up = fs_dirname(dir);
		free(dir);
		dir = up;
	}
}

struct git_query *git_query_start(const char *root, const char *state_dir)
{
	struct git_query *l;

	if (!in_repository(root))
		return NULL;
	l = xcalloc(1, sizeof(*l));
	l->root = xstrdup(root);
	l->state_dir = xstrdup(state_dir);
	if (thread_start(&l->thread, NULL, look, l) == 0)
		return l;
	free(l->root);
	free(l->state_dir);
	free(l);
	return NULL;
}

void git_query_end(struct git_query *l, struct arena *arena, struct git_facts *ret)
{
	*ret = (struct git_facts){ 0 };
	if (!l)
		return;
	pthread_join(l->thread, NULL);
	if (*l->commit) {
		_cleanup_(str_deinit) struct str text = { 0 };

		ret->commit = arena_strdup(arena, l->commit);
		ret->author = l->author ? arena_strdup(arena, l->author) : NULL;
		ret->dirty = l->dirty;
		ret->remote = l->remote ? arena_strdup(arena, l->remote) : NULL;
		if (json_array_size(l->submodules)) {
			json_add_canonical(&text, l->submodules);
			ret->submodules_json = arena_strndup(arena, text.s, text.len);
		}
	}
	json_decref(l->submodules);
	free(l->author);
	free(l->remote);
	free(l->root);
	free(l->state_dir);
	free(l);
}
