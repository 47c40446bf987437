/* engine/run/uses/git.c — the files of a commit, by libgit2.
 *
 * All branches and tags are fetched into a repository of its own, because libgit2 1.5 can't ask for
 * one commit. It has no remote, no hooks and no work tree, and is thrown away. libgit2 checks that
 * each object has the digest by which it is named, so the commit's id vouches for all of its files.
 *
 * The work tree is written here, not by libgit2, which would follow attributes and filters: a name
 * is one component, each file and directory is new (O_EXCL, O_NOFOLLOW), links are kept as text,
 * and sizes are asked before bytes are read. Submodules become empty directories, as in a clone.
 * What would be state of Cairn or git is left out, or refused.
 *
 * One thread, in a process that is only for this (cli/run/cmd_fetch_commit.c). No credentials are
 * given to a server: none that asks for them is of use.
 */
#include <errno.h>
#include <fcntl.h>
#include <git2.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/os/library.h"
#include "run/task/libgit2.h"
#include "run/uses/uses.h"

/* clang-format off */
#define SYMBOLS(X) \
	X(git_libgit2_init) X(git_libgit2_shutdown) X(git_repository_init) X(git_repository_free) \
	X(git_remote_create_with_opts) X(git_remote_free) X(git_fetch_options_init) \
	X(git_remote_fetch) X(git_error_last) X(git_oid_fromstr) X(git_odb_free) \
	X(git_commit_lookup) X(git_commit_tree_id) X(git_commit_free) X(git_tree_lookup) \
	X(git_tree_free) X(git_tree_entrycount) X(git_tree_entry_byindex) \
	X(git_tree_entry_name) X(git_tree_entry_filemode_raw) X(git_tree_entry_id) \
	X(git_repository_odb) X(git_odb_read_header) X(git_blob_lookup) X(git_blob_rawcontent) \
	X(git_blob_rawsize) X(git_blob_free)
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

static int git_failed(struct err *err, const char *what)
{
	const git_error *e = lib.git_error_last();

	return err_set(err, ERR_IO, "%s: %s", what,
		       e && e->message ? e->message : "git gives no reason");
}

/* Fetching. */

static int on_progress(const git_indexer_progress *p, void *arg)
{
	bool *too_large = arg;

	*too_large = p->received_bytes > USES_RECEIVED_MAX;
	return *too_large ? -1 : 0;
}

static int fetch(git_repository *repo, const char *url, struct err *err)
{
	char *specs[] = { (char *)(uintptr_t) "+refs/heads/*:refs/heads/*",
			  (char *)(uintptr_t) "+refs/tags/*:refs/tags/*" };
	git_strarray refs = { specs, ARRAY_LEN(specs) };
	/* Another version of the library may know more options than our headers. Only the first
	 * callbacks are set, whose places are the same in all. */
	union {
		git_fetch_options o;
		char room[4096];
	} options = { 0 };
	/* The URL is asked as it stands in the pipeline, whatever the user's git settings put in
	 * its place (`insteadOf`). The search for those also leaks in libgit2 1.5. */
	git_remote_create_options how = { .version = GIT_REMOTE_CREATE_OPTIONS_VERSION,
					  .repository = repo,
					  .flags = GIT_REMOTE_CREATE_SKIP_INSTEADOF };
	git_remote *remote;
	bool too_large = false;
	int r = 0;

	if (lib.git_remote_create_with_opts(&remote, url, &how) < 0)
		return git_failed(err, url);
	if (lib.git_fetch_options_init(&options.o, GIT_FETCH_OPTIONS_VERSION) < 0) {
		r = git_failed(err, url);
	} else {
		options.o.callbacks.transfer_progress = on_progress;
		options.o.callbacks.payload = &too_large;
		if (lib.git_remote_fetch(remote, &refs, &options.o, NULL) < 0)
			r = too_large ? err_set(err, ERR_TOO_LARGE,
						"the repository has more than %d GiB",
						(int)(USES_RECEIVED_MAX / GIB))
				      : git_failed(err, "it can't be fetched");
	}
	lib.git_remote_free(remote);
	return r;
}

/* Writing. */

struct writer {
	git_repository *repo;
	git_odb *odb;
	uint64_t bytes;
	size_t entries;
	struct err *err;
};

static int refuse(struct writer *w, const char *name, const char *what)
{
	return err_set(w->err, ERR_INVALID, "the commit has `%.200s`, %s", name, what);
}

static const char *problem_of_name(const char *name)
{
	if (!*name || strchr(name, '/') || str_eq(name, ".") || str_eq(name, ".."))
		return "which is no name of a file";
	return strcasecmp(name, ".git") == 0 ? "which would be git's own state" : NULL;
}

/* Reads a blob after a look at its size. */
static int blob_of(struct writer *w, const char *name, const git_oid *oid, uint64_t max,
		   git_blob **ret)
{
	git_object_t type;
	size_t size;

	if (lib.git_odb_read_header(&size, &type, w->odb, oid) < 0)
		return git_failed(w->err, name);
	w->bytes += size;
	if (size > max || w->bytes > USES_BYTES_MAX)
		return refuse(w, name, "and with it more bytes than a step may use");
	if (lib.git_blob_lookup(ret, w->repo, oid) < 0)
		return git_failed(w->err, name);
	return 0;
}

static int write_file(struct writer *w, int dir, const char *name, const git_oid *oid,
		      bool executable)
{
	_cleanup_(fd_closep) int fd = -1;
	git_blob *blob;
	int r;

	if (blob_of(w, name, oid, USES_FILE_MAX, &blob) < 0)
		return -1;
	fd = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return err_errno(w->err, "cannot write %s", name);
	r = fs_write_all(fd, lib.git_blob_rawcontent(blob), (size_t)lib.git_blob_rawsize(blob),
			 w->err);
	lib.git_blob_free(blob);
	if (r == 0 && fs_set_mode(fd, executable ? 0755 : 0644) < 0)
		r = err_errno(w->err, "cannot write %s", name);
	return r;
}

static int write_link(struct writer *w, int dir, const char *name, const git_oid *oid)
{
	_cleanup_(freep) char *target = NULL;
	git_blob *blob;
	size_t n;

	if (blob_of(w, name, oid, PATH_MAX - 1, &blob) < 0)
		return -1;
	n = (size_t)lib.git_blob_rawsize(blob);
	target = xstrndup(lib.git_blob_rawcontent(blob), n);
	lib.git_blob_free(blob);
	if (strlen(target) != n || n == 0)
		return refuse(w, name, "a symbolic link that is none");
	return symlinkat(target, dir, name) < 0 ? err_errno(w->err, "cannot make %s", name) : 0;
}

static int write_tree(struct writer *w, const git_oid *oid, int dir, unsigned depth);

static int write_entry(struct writer *w, const git_tree_entry *e, int dir, unsigned depth)
{
	const char *name = lib.git_tree_entry_name(e), *problem = problem_of_name(name);
	const git_oid *oid = lib.git_tree_entry_id(e);
	unsigned mode = (unsigned)lib.git_tree_entry_filemode_raw(e);
	_cleanup_(fd_closep) int below = -1;

	if (problem)
		return refuse(w, name, problem);
	if (++w->entries > USES_ENTRIES_MAX)
		return refuse(w, name, "and with it more files than a step may use");
	if (depth == 0 && str_eq(name, ".cairn"))
		return 0;
	if (S_ISREG(mode))
		return write_file(w, dir, name, oid, mode & 0100);
	if (S_ISLNK(mode))
		return write_link(w, dir, name, oid);
	if (mkdirat(dir, name, 0755) < 0)
		return err_errno(w->err, "cannot make %s", name);
	if (!S_ISDIR(mode))
		return 0;
	below = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (below < 0)
		return err_errno(w->err, "cannot open %s", name);
	return write_tree(w, oid, below, depth + 1);
}

static int write_tree(struct writer *w, const git_oid *oid, int dir, unsigned depth)
{
	git_tree *tree;
	int r = 0;

	if (depth > USES_DEPTH_MAX)
		return err_set(w->err, ERR_INVALID, "the commit has folders more than %d deep",
			       USES_DEPTH_MAX);
	if (lib.git_tree_lookup(&tree, w->repo, oid) < 0)
		return git_failed(w->err, "reading the commit's files");
	for (size_t i = 0; i < lib.git_tree_entrycount(tree) && r == 0; i++)
		r = write_entry(w, lib.git_tree_entry_byindex(tree, i), dir, depth);
	lib.git_tree_free(tree);
	return r;
}

/* The tree of a commit that a branch or tag leads to. */
static int tree_of(git_repository *repo, const char *commit, git_oid *ret, struct err *err)
{
	git_commit *found;
	git_oid oid;

	if (lib.git_oid_fromstr(&oid, commit) < 0)
		return git_failed(err, commit);
	if (lib.git_commit_lookup(&found, repo, &oid) < 0)
		return err_set(err, ERR_NOT_FOUND,
			       "no branch or tag of the repository leads to a commit %s", commit);
	*ret = *lib.git_commit_tree_id(found);
	lib.git_commit_free(found);
	return 0;
}

static int write_commit(git_repository *repo, const char *commit, const char *dir, struct err *err)
{
	_cleanup_(freep) char *path = fs_join(dir, "tree");
	_cleanup_(fd_closep) int fd = -1;
	struct writer w = { .repo = repo, .err = err };
	git_oid oid;
	int r;

	if (tree_of(repo, commit, &oid, err) < 0)
		return -1;
	if (mkdir(path, 0755) < 0 ||
	    (fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
		return err_errno(err, "cannot make %s", path);
	if (lib.git_repository_odb(&w.odb, repo) < 0)
		return git_failed(err, commit);
	r = write_tree(&w, &oid, fd, 0);
	lib.git_odb_free(w.odb);
	return r;
}

int uses_fetch_commit(const char *url, const char *commit, const char *dir, struct err *err)
{
	_cleanup_(freep) char *git = fs_join(dir, "git");
	git_repository *repo;
	int r;

	if (!load())
		return err_set(err, ERR_UNSUPPORTED, "libgit2 isn't installed here");
	if (lib.git_libgit2_init() < 0)
		return git_failed(err, "starting libgit2");
	if (lib.git_repository_init(&repo, git, 1) < 0) {
		r = git_failed(err, "making a repository");
	} else {
		r = fetch(repo, url, err);
		if (r == 0)
			r = write_commit(repo, commit, dir, err);
		lib.git_repository_free(repo);
	}
	lib.git_libgit2_shutdown();
	return r;
}
