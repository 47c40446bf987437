/* storage/content/change.c — makes a tree that is laid out already into another one that is nearly
 * the same, so that one changed file of a million costs one file.
 *
 * Both trees are walked together. A directory that both have costs nothing but its check; only
 * directories that differ are written to. First everything that stays is compared with the store
 * (content_check_at() says how), and the blobs that it has links to are noted. Then what differs is
 * removed and made. In between the top is neither tree, so nobody may use it, and after an error it
 * is worth nothing.
 *
 * References have no bytes in the store, so trees with them in a directory that differs are
 * refused. A call uses one thread.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "storage/content/materialise.h"

/* A removed or added entry costs about as much as the hashing of so many bytes. */
#define ENTRY_WORTH_BYTES (64 * KIB)
/* What an entry takes in a listing; with that a directory is weighed without reading it. */
#define LISTED_BYTES 48

static bool is_same(const struct tree_entry *a, const struct tree_entry *b)
{
	if (a->kind != b->kind || a->kind == TREE_REFERENCE)
		return false;
	if (a->kind == TREE_SYMLINK)
		return a->target_len == b->target_len &&
		       memcmp(a->target, b->target, a->target_len) == 0;
	return content_id_eq(&a->id, &b->id);
}

/* The entries of two listings, joined by name. */
struct pairs {
	const struct tree *from, *to;
	size_t i, k;
};

/* Sets one of *from and *to to NULL when only the other listing has the name. */
static bool next_pair(struct pairs *p, const struct tree_entry **from, const struct tree_entry **to)
{
	int order;

	*from = p->i < tree_len(p->from) ? tree_at(p->from, p->i) : NULL;
	*to = p->k < tree_len(p->to) ? tree_at(p->to, p->k) : NULL;
	if (!*from && !*to)
		return false;
	order = !*from ? 1 : !*to ? -1 : strcmp((*from)->name, (*to)->name);
	if (order < 0)
		*to = NULL;
	else if (order > 0)
		*from = NULL;
	p->i += *from != NULL;
	p->k += *to != NULL;
	return true;
}

/* Weighing. */

struct weights {
	uint64_t kept, removed, added;
};

static uint64_t weight(const struct tree_entry *e)
{
	if (e->kind == TREE_DIR)
		return 1 + e->id.size_bytes / LISTED_BYTES;
	return 1 + (e->kind == TREE_SYMLINK ? 0 : e->id.size_bytes / ENTRY_WORTH_BYTES);
}

static int weigh(struct store *s, const struct content_id *from, const struct content_id *to,
		 int depth, struct weights *w)
{
	_cleanup_(tree_freep) struct tree *a = NULL, *b = NULL;
	const struct tree_entry *old, *new;
	struct pairs p;
	int r = 0;

	if (depth >= CONTENT_DEPTH_MAX || tree_load(s, from, &a, NULL) < 0 ||
	    tree_load(s, to, &b, NULL) < 0)
		return -1;
	p = (struct pairs){ .from = a, .to = b };
	while (r == 0 && next_pair(&p, &old, &new)) {
		if ((old && old->kind == TREE_REFERENCE) || (new &&new->kind == TREE_REFERENCE))
			return -1;
		if (old && new &&is_same(old, new)) {
			w->kept += weight(old);
		} else if (old && new && old->kind == TREE_DIR &&new->kind == TREE_DIR) {
			r = weigh(s, &old->id, &new->id, depth + 1, w);
		} else {
			w->removed += old ? weight(old) : 0;
			w->added += new ? weight(new) : 0;
		}
	}
	return r;
}

bool content_is_near(struct store *s, const struct content_id *from, const struct content_id *to)
{
	struct weights w = { 0 };

	return from->kind == CONTENT_TREE && to->kind == CONTENT_TREE &&
	       weigh(s, from, to, 0, &w) == 0 && w.kept >= MAX(w.removed, w.added);
}

/* Changing. */

static int change_dir(struct materialise *m, const struct content_id *from,
		      const struct content_id *to, int dir_fd, const char *name, struct err *err);

static int change_entry(struct materialise *m, const struct tree_entry *old,
			const struct tree_entry *new, int fd, struct err *err)
{
	size_t len = m->path.len;
	int r = 0;

	if (old && new &&is_same(old, new))
		return m->check ? materialise_entry(m, new, NULL, fd, err) : 0;
	if (old && new && old->kind == TREE_DIR &&new->kind == TREE_DIR) {
		str_addf(&m->path, "/%s", new->name);
		r = change_dir(m, &old->id, &new->id, fd, new->name, err);
		m->path.len = len;
		m->path.s[len] = '\0';
		return r;
	}
	if (m->check)
		return 0;
	if (old && old->kind == TREE_DIR)
		r = fs_remove_tree_at(fd, old->name, err);
	else if (old && unlinkat(fd, old->name, 0) < 0)
		r = err_errno(err, "cannot remove %s/%s", m->path.s, old->name);
	return r == 0 && new ? materialise_entry(m, new, NULL, fd, err) : r;
}

static int change_dir(struct materialise *m, const struct content_id *from,
		      const struct content_id *to, int dir_fd, const char *name, struct err *err)
{
	_cleanup_(fd_closep) int fd =
		openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_(tree_freep) struct tree *a = NULL, *b = NULL;
	const struct tree_entry *old, *new;
	struct pairs p;
	int r = 0;

	if (m->depth >= CONTENT_DEPTH_MAX)
		return err_set(err, ERR_TOO_LARGE, "%.300s...: too deep", m->path.s);
	if (fd < 0)
		return err_set(err, ERR_CORRUPT, "%s isn't what the store has", m->path.s);
	if (tree_load(m->store, from, &a, err) < 0 || tree_load(m->store, to, &b, err) < 0)
		return -1;
	if (m->check ? materialise_check_count(m, a, fd, 0555, err) < 0 : fs_set_mode(fd, 0755) < 0)
		return m->check ? -1 : err_errno(err, "cannot write to directory %s", m->path.s);
	p = (struct pairs){ .from = a, .to = b };
	m->depth++;
	while (r == 0 && next_pair(&p, &old, &new))
		r = change_entry(m, old, new, fd, err);
	m->depth--;
	if (r < 0 || m->check)
		return r;
	if (fs_set_mode(fd, 0555) < 0)
		return err_errno(err, "cannot protect directory %s", m->path.s);
	return materialise_check_count(m, b, fd, 0555, err);
}

int content_change_at(struct store *s, const struct content_id *from, const struct content_id *to,
		      int64_t verified_ns, int dir_fd, const char *path, struct err *err)
{
	struct materialise m = { .store = s,
				 .mode = CONTENT_HARD_LINK,
				 .root = to,
				 .linked = digest_set_new(),
				 .check = true,
				 .verified_ns = verified_ns };
	int r;

	assert(from->kind == CONTENT_TREE && to->kind == CONTENT_TREE);
	str_add(&m.path, path);
	r = store_bring(s, to, 1, BRING_ALL, err);
	if (r == 0)
		r = change_dir(&m, from, to, dir_fd, path, err);
	m.check = false;
	if (r == 0)
		r = change_dir(&m, from, to, dir_fd, path, err);
	assert(m.places.n == 0); /* they come with CONTENT_COPY_WRITABLE only */
	digest_set_free(m.linked);
	str_deinit(&m.path);
	return r;
}
