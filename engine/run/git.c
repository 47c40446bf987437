/* Commit and state of the project's repository, by libgit2. */
#include <dlfcn.h>
#include <git2.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fs.h"
#include "base/thread.h"
#include "run/git.h"

struct git_look {
	pthread_t thread;
	char *root, *state_dir;
	char commit[GIT_OID_HEXSZ + 1];
	bool dirty;
};

/* --- the library ---------------------------------------------------------------------------------------------------------- */

#define SYMBOLS(X)                                                                                                                                \
	X(git_libgit2_init) X(git_libgit2_shutdown) X(git_repository_open_ext) X(git_repository_free) X(git_repository_workdir) X(git_reference_name_to_id) \
	X(git_oid_tostr) X(git_status_list_new) X(git_status_list_entrycount) X(git_status_byindex) X(git_status_list_free)

static struct {
#define FIELD(name) __typeof__(&name) name;
	SYMBOLS(FIELD)
} lib;

static bool load(void)
{
	/* The soname of Debian 12 first; another one has the same few functions. */
	static const char *const names[] = { "libgit2.so.1.5", "libgit2.so", "libgit2.so.1.9", "libgit2.so.1.8", "libgit2.so.1.7", "libgit2.so.1.6" };
	void *handle = NULL;
	bool all = true;

	for (size_t i = 0; i < ARRAY_LEN(names) && !handle; i++)
		handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
	if (!handle)
		return false;
#define FIND(name)                                   \
	*(void **)&lib.name = dlsym(handle, #name); \
	all &= lib.name != NULL;
	SYMBOLS(FIND)
	return all;
}

/* --- looking ---------------------------------------------------------------------------------------------------------------- */

/* Is this path (from the top of the work tree) ours? */
static bool in_state_dir(const struct git_look *l, const char *workdir, const char *path)
{
	_cleanup_(freep) char *full = xasprintf("%s%s", workdir, path);
	size_t n = strlen(l->state_dir);

	return strncmp(full, l->state_dir, n) == 0 && (full[n] == '\0' || full[n] == '/');
}

static bool differs(const struct git_look *l, git_repository *repo, const char *workdir)
{
	git_status_options o = { .version = GIT_STATUS_OPTIONS_VERSION, .show = GIT_STATUS_SHOW_INDEX_AND_WORKDIR };
	git_status_list *list;
	bool dirty = false;

	o.flags = GIT_STATUS_OPT_INCLUDE_UNTRACKED;
	if (lib.git_status_list_new(&list, repo, &o) < 0)
		return false;
	for (size_t i = 0; i < lib.git_status_list_entrycount(list) && !dirty; i++) {
		const git_status_entry *e = lib.git_status_byindex(list, i);
		const git_diff_delta *d = e->index_to_workdir ? e->index_to_workdir : e->head_to_index;

		dirty = !d || !in_state_dir(l, workdir, d->new_file.path);
	}
	lib.git_status_list_free(list);
	return dirty;
}

static void *look(void *arg)
{
	struct git_look *l = arg;
	git_repository *repo;
	git_oid oid;

	if (!load() || lib.git_libgit2_init() < 0)
		return NULL;
	if (lib.git_repository_open_ext(&repo, l->root, 0, NULL) == 0) {
		const char *workdir = lib.git_repository_workdir(repo);

		if (lib.git_reference_name_to_id(&oid, repo, "HEAD") == 0)
			lib.git_oid_tostr(l->commit, sizeof(l->commit), &oid);
		l->dirty = workdir && differs(l, repo, workdir);
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

struct git_look *git_look_start(const char *root, const char *state_dir)
{
	struct git_look *l;

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

void git_look_end(struct git_look *l, struct arena *arena, const char **ret_commit, bool *ret_dirty)
{
	*ret_commit = NULL;
	*ret_dirty = false;
	if (!l)
		return;
	pthread_join(l->thread, NULL);
	if (*l->commit) {
		*ret_commit = arena_strdup(arena, l->commit);
		*ret_dirty = l->dirty;
	}
	free(l->root);
	free(l->state_dir);
	free(l);
}
