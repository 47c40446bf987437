/* engine/serve/schedule/inputs.c — the state of the inputs of `on_change` as one digest, computed
 * by a worker.
 *
 * The digest covers name, kind, inode, size and mtime of every file below the inputs, in the order
 * of names. Content isn't read: the run does that, and finds out when nothing has changed after
 * all.
 *
 * Invariants: a struct input_check owns all that the worker touches. scheduler_inputs_forget()
 * clears its pointer to the schedule (`sc`), so that a schedule can be freed while the worker runs;
 * look_done() frees it in any case. Links below an input aren't followed. Files and depth are
 * bounded.
 *
 * Threads: look() on the pool's worker, everything else on the loop's. Not here: when a change
 * fires (fire.c).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include "base/os/fs.h"
#include "serve/schedule/internal.h"

#define INPUT_FILES_MAX 10000000 /* more than a look every minute can do */
#define INPUT_DEPTH_MAX 256

/* Owns all that the worker touches. */
struct input_check {
	struct schedule *sc; /* NULL: the result isn't wanted any more */
	void (*done)(struct schedule *sc, const char *hex, const struct err *err);
	char **paths;
	size_t n_paths, n_files;
	struct digester *digester;
	char hex[DIGEST_HEX_MAX];
	struct err err;
	bool failed;
};

static void add(struct input_check *k, const char *name, const struct stat *st)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	str_add_field(&s, name, strlen(name));
	str_add_u64(&s, st->st_mode);
	if (!S_ISDIR(st->st_mode)) { /* a directory's state is its entries */
		str_add_u64(&s, (uint64_t)st->st_ino);
		str_add_u64(&s, (uint64_t)st->st_size);
		str_add_u64(&s, (uint64_t)st->st_mtim.tv_sec);
		str_add_u64(&s, (uint64_t)st->st_mtim.tv_nsec);
	}
	digester_update(k->digester, s.s, s.len);
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list(int dir_fd, char ***ret, size_t *ret_n)
{
	_cleanup_(closedirp) DIR *d = fs_list_at(dir_fd, ".", 0);
	VEC(char *) names = { 0 };
	struct dirent *e;
	int r;

	if (!d)
		return -1;
	while ((r = fs_next(d, "", &e, NULL)) == 1)
		VEC_PUSH(&names, xstrdup(e->d_name));
	if (names.n)
		qsort(names.v, names.n, sizeof(*names.v), by_name);
	*ret = names.v;
	*ret_n = names.n;
	return r;
}

static int walk(struct input_check *k, int dir_fd, const char *name, int depth);

static int walk_dir(struct input_check *k, int fd, int depth)
{
	char **names = NULL;
	size_t n = 0;
	int r = list(fd, &names, &n);

	for (size_t i = 0; i < n; i++) {
		if (r == 0)
			r = walk(k, fd, names[i], depth + 1);
		free(names[i]);
	}
	free(names);
	digester_update(k->digester, "", 1); /* the end of a directory */
	return r;
}

/* A file that vanishes after it was listed is a change; the next look will see it. */
static int walk(struct input_check *k, int dir_fd, const char *name, int depth)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;

	if (fstatat(dir_fd, name, &st, depth ? AT_SYMLINK_NOFOLLOW : 0) < 0)
		return errno == ENOENT ? 0 : -1;
	if (++k->n_files > INPUT_FILES_MAX || depth > INPUT_DEPTH_MAX) {
		errno = EFBIG;
		return -1;
	}
	add(k, depth ? name : "", &st);
	if (!S_ISDIR(st.st_mode))
		return 0;
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (depth ? O_NOFOLLOW : 0));
	return fd < 0 ? -1 : walk_dir(k, fd, depth);
}

static void look(void *arg)
{
	struct input_check *k = arg;
	struct digest d;

	k->digester = digester_new();
	for (size_t i = 0; i < k->n_paths && !k->failed; i++) {
		digester_update(k->digester, k->paths[i], strlen(k->paths[i]) + 1);
		if (walk(k, AT_FDCWD, k->paths[i], 0) < 0) {
			err_errno(&k->err, "cannot look at %s", k->paths[i]);
			k->failed = true;
		}
	}
	digester_final(k->digester, &d);
	digester_free(k->digester);
	digest_hex(&d, k->hex);
}

static void look_done(void *arg)
{
	struct input_check *k = arg;

	if (k->sc) {
		k->sc->looking = NULL;
		k->done(k->sc, k->failed ? NULL : k->hex, &k->err);
	}
	for (size_t i = 0; i < k->n_paths; i++)
		free(k->paths[i]);
	free(k->paths);
	free(k);
}

void scheduler_inputs_poll(struct schedule *sc, void (*done)(struct schedule *sc, const char *hex,
							     const struct err *err))
{
	struct scheduler_project *p = sc->file->project;
	struct input_check *k = xcalloc(1, sizeof(*k));

	*k = (struct input_check){ .sc = sc, .done = done, .n_paths = sc->decl->n_on_change };
	k->paths = xcalloc(k->n_paths + 1, sizeof(*k->paths));
	for (size_t i = 0; i < k->n_paths; i++)
		k->paths[i] = xasprintf("%s/%s", p->root,
					sc->file->pipeline->inputs[sc->decl->on_change[i]].uri);
	sc->looking = k;
	pool_submit(p->s->pool, look, look_done, k);
}

void scheduler_inputs_forget(struct schedule *sc)
{
	if (sc->looking)
		sc->looking->sc = NULL;
	sc->looking = NULL;
}
