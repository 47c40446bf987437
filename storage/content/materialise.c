/* storage/content/materialise.c — reads contents, and materialises files and directories.
 *
 * A file is a reflink where the file system has them, else a copy. It is a hard link only with
 * CONTENT_HARD_LINK: unless the kernel prevents it, a program of the same user, or of root, could
 * make a link writable and so write into the store. All links share one mode, so an executable is
 * never a link. Of equal files in one content only the first is a link, because an archiver would
 * store the second one as a link to the first. Every copy is hashed. A reflink or link shares the
 * store's bytes, so a process hashes them once. Only the first copy of a blob that was just fetched
 * isn't hashed, because it was hashed as it arrived. So a damaged blob never reaches a program; it
 * is set aside.
 *
 * Trees come from strangers: a listing may state a wrong size for an intact blob. Then the listing
 * is wrong, so the blob stays.
 *
 * A shared store fetches all that the content reaches before the first file is made. Only the large
 * blobs of a copy for the user (CONTENT_COPY_WRITABLE) come later, straight into their files:
 * make_file() opens PLACES_AT_ONCE of them, place_all() fetches them together. The store gets no
 * copy of these. The first directory with references fetches the bytes of all references of the
 * whole tree at once. After a failure the top directory is removed; one that existed before
 * (in_place) stays as it is.
 *
 * A call uses one thread; only the copy of a large file uses more.
 */
#include "storage/content/materialise.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "storage/origin/origin.h"

/* Below this size a reflink saves less than its calls cost. */
#define REFLINK_MIN (16 * KIB)

/* Files whose bytes are fetched at once; each needs a descriptor. */
#define PLACES_AT_ONCE 64

/* Bytes. */

/* The object's size differs from the id's: decides whether the object is damaged or the id is
 * wrong. */
static int wrong_size(struct store *s, const struct content_id *id, int fd, uint64_t size,
		      struct err *err)
{
	char hex[DIGEST_HEX_MAX];
	struct digest d;

	if (content_hash_fd(fd, size, 1, &d, err) < 0)
		return -1;
	if (!digest_eq(&d, &id->digest))
		return store_damaged(s, STORE_BLOB, &id->digest, err);
	return err_set(err, ERR_CORRUPT,
		       "sha256:%s has %llu bytes, but whatever names it says %llu",
		       digest_hex(&id->digest, hex), (unsigned long long)size,
		       (unsigned long long)id->size_bytes);
}

int content_fetch(struct store *s, const struct content_id *id, struct err *err)
{
	return store_bring(s, id, 1, BRING_ALL, err);
}

int content_read(struct store *s, const struct content_id *id, uint64_t max_bytes, struct str *ret,
		 struct err *err)
{
	char hex[DIGEST_HEX_MAX];
	enum store_space space = content_space(id);
	size_t from = ret->len;

	if (space == STORE_SPACES)
		return err_set(err, ERR_NOT_FOUND, "there is no content to read");
	if (id->size_bytes > max_bytes) /* before it is fetched from a bucket */
		return err_set(err, ERR_TOO_LARGE,
			       "sha256:%s has %llu bytes; at most %llu are read here",
			       digest_hex(&id->digest, hex), (unsigned long long)id->size_bytes,
			       (unsigned long long)max_bytes);
	if (store_get(s, space, &id->digest, max_bytes, ret, err) < 0)
		return -1;
	if (ret->len - from == id->size_bytes)
		return 0;
	err_set(err, ERR_CORRUPT, "sha256:%s has %zu bytes, but whatever names it says %llu",
		digest_hex(&id->digest, hex), ret->len - from, (unsigned long long)id->size_bytes);
	ret->len = from;
	return -1;
}

int content_find(struct store *s, const struct digest *digest, struct content_id *ret,
		 struct err *err)
{
	struct content_id ids[] = {
		{ .digest = *digest, .size_bytes = UINT64_MAX, .kind = CONTENT_TREE },
		{ .digest = *digest, .size_bytes = UINT64_MAX, .kind = CONTENT_BLOB }
	};
	_cleanup_(str_deinit) struct str listing = { 0 };
	_cleanup_(fd_closep) int fd = -1;
	char hex[DIGEST_HEX_MAX];
	bool there[2];

	if (store_has(s, ids, 2, there, err) < 0)
		return -1;
	if (!there[0] && !there[1])
		return err_set(err, ERR_NOT_FOUND, "sha256:%s is not in the store %s",
			       digest_hex(digest, hex), s->uri);
	if (there[0] && store_get(s, STORE_TREE, digest, TREE_LISTING_MAX, &listing, err) < 0)
		return -1;
	if (!there[0] && s->ops->open(s, digest, UINT64_MAX, &fd, &ids[1].size_bytes, err) < 0)
		return -1;
	ids[0].size_bytes = listing.len;
	*ret = ids[there[0] ? 0 : 1];
	return 0;
}

int content_open(struct store *s, const struct content_id *id, int *ret_fd, struct err *err)
{
	uint64_t size;
	int fd;

	if (s->ops->open(s, &id->digest, id->size_bytes, &fd, &size, err) < 0)
		return -1;
	if (size != id->size_bytes) {
		wrong_size(s, id, fd, size, err);
		close(fd);
		return -1;
	}
	*ret_fd = fd;
	return 0;
}

static int verify_fd(struct store *s, const struct content_id *id, int fd, struct err *err)
{
	struct digest d;

	if (content_hash_fd(fd, id->size_bytes, content_threads(), &d, err) < 0)
		return err_wrap(err, "reading the store");
	if (!digest_eq(&d, &id->digest))
		return store_damaged(s, STORE_BLOB, &id->digest, err);
	store_note_verified(s, &id->digest);
	return 0;
}

/* One file. */

/* Small blobs: one read, hash, one write. */
static int copy_small(struct store *s, const struct content_id *id, int in, int out,
		      struct err *err)
{
	uint8_t stack[16384];
	size_t n = (size_t)id->size_bytes;
	_cleanup_(freep) uint8_t *heap = n > sizeof(stack) ? xmalloc(n) : NULL;
	uint8_t *buf = heap ? heap : stack;
	ssize_t done = fs_read_at(in, buf, n, 0);
	struct content_id got;

	if (done < 0)
		return err_errno(err, "cannot read from the store %s", s->uri);
	content_id_of_bytes(buf, (size_t)done, &got);
	if (!digest_eq(&got.digest, &id->digest))
		return store_damaged(s, STORE_BLOB, &id->digest, err);
	return fs_write_all(out, buf, n, err);
}

static int copy_blob(struct materialise *m, const struct content_id *id, int in, int out,
		     struct err *err)
{
	struct digest d;

	if (id->size_bytes == 0)
		return 0;
	if (id->size_bytes >= REFLINK_MIN && !m->no_reflink) {
		m->no_reflink = fs_reflink(in, out) != 0;
		if (!m->no_reflink)
			return store_is_verified(m->store, &id->digest) ||
					       store_take_arrived(m->store, &id->digest, in)
				       ? 0
				       : verify_fd(m->store, id, out, err);
	}
	if (id->size_bytes <= CONTENT_SMALL_BYTES)
		return copy_small(m->store, id, in, out, err);
	if (store_take_arrived(m->store, &id->digest, in))
		return fs_copy_fd(in, out, err);
	if (content_copy_fd(in, out, id->size_bytes, content_threads(), false, &d, err) < 0)
		return err_wrap(err, "copying out of the store");
	if (!digest_eq(&d, &id->digest))
		return store_damaged(m->store, STORE_BLOB, &id->digest, err);
	store_note_verified(m->store, &id->digest);
	return 0;
}

static int exists_or_errno(const struct materialise *m, const char *what, struct err *err)
{
	return errno == EEXIST ? err_set(err, ERR_EXISTS, "%s exists already", m->path.s)
			       : err_errno(err, "cannot make %s%s", what, m->path.s);
}

static bool is_in_place(const struct materialise *m)
{
	return m->in_place && m->depth == 0;
}

/* 0: linked, 1: must be copied, -1: error. Links the very file that was checked, whatever happens
 * to its name in the store meanwhile. */
static int link_blob(struct materialise *m, const struct content_id *id, int in, int dir_fd,
		     const char *name, struct err *err)
{
	char open_file[64];
	struct stat st;

	if (m->mode != CONTENT_HARD_LINK || m->no_link || id->kind == CONTENT_EXECUTABLE ||
	    id->size_bytes == 0 || fstat(in, &st) < 0 || (st.st_mode & 07777) != 0444 ||
	    (m->linked && digest_set_has(m->linked, &id->digest)))
		return 1;
	if (!store_is_verified(m->store, &id->digest) &&
	    !store_take_arrived(m->store, &id->digest, in) && verify_fd(m->store, id, in, err) < 0)
		return err_wrap(err, "%s", m->path.s);
	snprintf(open_file, sizeof(open_file), "/proc/self/fd/%d", in);
	if (linkat(AT_FDCWD, open_file, dir_fd, name, AT_SYMLINK_FOLLOW) == 0) {
		if (!m->linked)
			m->linked = digest_set_new();
		digest_set_add(m->linked, &id->digest);
		return 0;
	}
	if (errno == EEXIST)
		return exists_or_errno(m, "", err);
	/* EMLINK and ENOENT concern this file only: no link left, or no name. */
	m->no_link = errno != EMLINK && errno != ENOENT;
	return 1;
}

/* Large blobs that only the bucket has. */
static bool is_fetched_into_place(const struct materialise *m, const struct content_id *id)
{
	bool here;

	return m->mode == CONTENT_COPY_WRITABLE && !m->in_place &&
	       id->size_bytes >= REMOTE_LOOSE_MIN && store_is_shared(m->store) &&
	       store_has_object(m->store->here, STORE_BLOB, &id->digest, id->size_bytes, &here,
				NULL) == 0 &&
	       !here;
}

/* Fetches a blob that couldn't be placed through the store. */
static int place_copy(struct materialise *m, const struct store_place *p, struct err *err)
{
	_cleanup_(fd_closep) int in = -1;

	if (content_open(m->store, &p->id, &in, err) < 0)
		return -1;
	if (ftruncate(p->fd, 0) < 0) /* what a failed try left */
		return err_errno(err, "cannot write");
	return copy_blob(m, &p->id, in, p->fd, err);
}

/* Fetches into all files that wait for their bytes, and closes them. */
static int place_all(struct materialise *m, struct err *err)
{
	int r = m->places.n ? store_place_blobs(m->store, m->places.v, m->places.n, err) : 0;

	for (size_t i = 0; i < m->places.n; i++) {
		struct store_place *p = &m->places.v[i];

		if (r == 0 && !p->placed && place_copy(m, p, err) < 0)
			r = err_wrap(err, "%s", m->paths.v[i]);
		/* NFS and quotas may report only now that the write failed */
		if (close(TAKE_FD(p->fd)) < 0 && r == 0)
			r = err_errno(err, "cannot write %s", m->paths.v[i]);
		free(m->paths.v[i]);
	}
	m->places.n = m->paths.n = 0;
	return r;
}

static int differs(const struct materialise *m, struct err *err)
{
	return err_set(err, ERR_CORRUPT, "%s isn't what the store has", m->path.s);
}

/* Tells whether nobody can have written to the file since all was sound. */
static bool is_as_it_was(const struct materialise *m, const struct stat *st)
{
	return ns_of(st->st_ctim) + ns_of_tick(st->st_ctim.tv_nsec == 0) < m->verified_ns;
}

/* Compares a file that is there; hashes it unless its times tell that it is as it was. */
static int check_file(struct materialise *m, const struct content_id *id, mode_t mode, int dir_fd,
		      const char *name, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct digest d;
	struct stat st;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || !S_ISREG(st.st_mode) ||
	    (uint64_t)st.st_size != id->size_bytes || (st.st_mode & 07777) != mode)
		return differs(m, err);
	if (m->linked && st.st_nlink > 1)
		digest_set_add(m->linked, &id->digest);
	if (is_as_it_was(m, &st))
		return 0;
	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || content_hash_fd(fd, id->size_bytes, content_threads(), &d, NULL) < 0 ||
	    !digest_eq(&d, &id->digest)) {
		store_forget(m->store, &id->digest); /* it may be a link to a damaged blob */
		return differs(m, err);
	}
	return 0;
}

/* What was longer before. Only then: ext4 writes a file that was cut to nothing, and filled again,
 * to the disk at once. */
static int cut(int fd, uint64_t size)
{
	struct stat st;

	return fstat(fd, &st) < 0 || ((uint64_t)st.st_size > size && ftruncate(fd, (off_t)size) < 0)
		       ? -1
		       : 0;
}

static int make_file(struct materialise *m, const struct content_id *id, int dir_fd,
		     const char *name, struct err *err)
{
	static const mode_t modes[] = { [CONTENT_COPY_WRITABLE] = 0644,
					[CONTENT_COPY_WORKSPACE] = 0644,
					[CONTENT_COPY_FOR_ALL] = 0666,
					[CONTENT_LINK_READONLY] = 0444,
					[CONTENT_HARD_LINK] = 0444 };
	mode_t mode =
		modes[m->mode] | (id->kind == CONTENT_EXECUTABLE ? modes[m->mode] >> 2 & 0111 : 0);
	bool later = !m->check && is_fetched_into_place(m, id);
	_cleanup_(fd_closep) int in = -1, out = -1;
	int r;

	if (m->check)
		return check_file(m, id, mode, dir_fd, name, err);
	if (!later && content_open(m->store, id, &in, err) < 0)
		return err_wrap(err, "%s", m->path.s);
	r = later ? 1 : link_blob(m, id, in, dir_fd, name, err);
	if (r <= 0)
		return r;
	out = openat(dir_fd, name,
		     O_RDWR | (is_in_place(m) ? 0 : O_CREAT | O_EXCL) | O_CLOEXEC | O_NOFOLLOW,
		     mode);
	if (out < 0)
		return exists_or_errno(m, "", err);
	if (later) {
		VEC_PUSH(&m->places, ((struct store_place){ .id = *id, .fd = TAKE_FD(out) }));
		VEC_PUSH(&m->paths, xstrdup(m->path.s));
		return m->places.n < PLACES_AT_ONCE ? 0 : place_all(m, err);
	}
	if (copy_blob(m, id, in, out, err) < 0) {
		err_wrap(err, "%s", m->path.s);
	} else if (is_in_place(m) && cut(out, id->size_bytes) < 0) {
		err_errno(err, "cannot write %s", m->path.s);
	} else if ((is_in_place(m) || m->mode != CONTENT_COPY_WRITABLE) &&
		   fs_set_mode(out, mode) < 0) {
		err_errno(err, "cannot protect %s", m->path.s);
	} else if (close(TAKE_FD(out)) <
		   0) { /* NFS and quotas may report only now that the write failed */
		err_errno(err, "cannot write %s", m->path.s);
	} else {
		return 0;
	}
	if (!is_in_place(m))
		unlinkat(dir_fd, name, 0);
	return -1;
}

/* Directories. */

static int make_dir(struct materialise *m, const struct content_id *id, int dir_fd,
		    const char *name, struct err *err);

static int check_link(const struct materialise *m, const struct tree_entry *e, int fd,
		      struct err *err)
{
	_cleanup_(freep) char *text = xmalloc(e->target_len + 2);
	ssize_t n = readlinkat(fd, e->name, text, e->target_len + 1);

	return n == (ssize_t)e->target_len && memcmp(text, e->target, e->target_len) == 0
		       ? 0
		       : differs(m, err);
}

int materialise_check_count(const struct materialise *m, const struct tree *t, int dir_fd,
			    mode_t mode, struct err *err)
{
	_cleanup_(closedirp) DIR *d = fs_list_at(dir_fd, ".", 0);
	struct dirent *e;
	struct stat st;
	size_t n = 0;
	int r = -1;

	if (d && fstat(dirfd(d), &st) == 0 && (st.st_mode & 07777) == mode)
		while ((r = fs_next(d, m->path.s, &e, NULL)) > 0)
			n++;
	return r == 0 && n == tree_len(t) ? 0 : differs(m, err);
}

int materialise_entry(struct materialise *m, const struct tree_entry *e,
		      const struct content_id *blob, int fd, struct err *err)
{
	size_t len = m->path.len;
	int r = -1; /* each case sets it; a listing has no other kinds */

	str_addc(&m->path, '/');
	str_addn(&m->path, e->name, e->name_len);
	switch (e->kind) {
	case TREE_DIR:
		r = make_dir(m, &e->id, fd, e->name, err);
		break;
	case TREE_SYMLINK:
		if (m->check)
			r = check_link(m, e, fd, err);
		else
			r = symlinkat(e->target, fd, e->name) < 0
				    ? exists_or_errno(m, "symbolic link ", err)
				    : 0;
		break;
	case TREE_REFERENCE:
		r = make_file(m, blob, fd, e->name, err);
		break;
	case TREE_FILE:
	case TREE_EXECUTABLE:
		r = make_file(m, &e->id, fd, e->name, err);
		break;
	}
	m->path.len = len;
	m->path.s[len] = '\0';
	return r;
}

/* Returns the blobs of a listing's references, by index. The first call fetches those of the whole
 * tree, so that many are fetched at once. */
static int bring_references(struct materialise *m, const struct tree *t, struct content_id **ret,
			    struct err *err)
{
	size_t n = tree_len(t), k = 0;
	_cleanup_(freep) struct reference *refs = NULL;
	_cleanup_(freep) struct content_id *blobs = NULL;
	struct content_id *places;

	for (size_t i = 0; i < n; i++)
		k += tree_at(t, i)->kind == TREE_REFERENCE;
	if (k == 0)
		return 0;
	if (!m->brought && m->root->kind == CONTENT_TREE &&
	    origin_bring(m->store, m->root, err) < 0)
		return -1;
	m->brought = true;
	refs = xcalloc(k, sizeof(*refs));
	blobs = xcalloc(k, sizeof(*blobs));
	k = 0;
	for (size_t i = 0; i < n; i++)
		if (tree_at(t, i)->kind == TREE_REFERENCE)
			refs[k++] = *tree_at(t, i)->ref;
	if (origin_fetch(m->store, refs, k, blobs, err) < 0)
		return -1;
	places = *ret = xcalloc(n, sizeof(*places));
	k = 0;
	for (size_t i = 0; i < n; i++)
		if (tree_at(t, i)->kind == TREE_REFERENCE)
			places[i] = blobs[k++];
	return 0;
}

static int make_reference(struct materialise *m, const struct content_id *id, int dir_fd,
			  const char *name, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct reference ref;
	struct content_id blob;

	if (reference_load(m->store, id, arena, &ref, err) < 0 ||
	    origin_fetch(m->store, &ref, 1, &blob, err) < 0)
		return -1;
	return make_file(m, &blob, dir_fd, name, err);
}

static int fill_dir(struct materialise *m, const struct tree *t, int dir_fd, const char *name,
		    struct err *err)
{
	_cleanup_(fd_closep) int fd =
		openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	static const mode_t modes[] = { [CONTENT_COPY_WORKSPACE] = 0755,
					[CONTENT_COPY_FOR_ALL] = 0777,
					[CONTENT_LINK_READONLY] = 0555,
					[CONTENT_HARD_LINK] = 0555 };
	_cleanup_(freep) struct content_id *blobs = NULL;

	if (fd < 0)
		return m->check ? differs(m, err)
				: err_errno(err, "cannot open directory %s", m->path.s);
	if (m->check && materialise_check_count(m, t, fd, modes[m->mode], err) < 0)
		return -1;
	if (bring_references(m, t, &blobs, err) < 0)
		return -1;
	for (size_t i = 0; i < tree_len(t); i++)
		if (materialise_entry(m, tree_at(t, i), blobs ? &blobs[i] : NULL, fd, err) < 0)
			return -1;
	if (m->mode != CONTENT_COPY_WRITABLE && !m->check && fs_set_mode(fd, modes[m->mode]) < 0)
		return err_errno(err, "cannot protect directory %s", m->path.s);
	return 0;
}

static int make_dir(struct materialise *m, const struct content_id *id, int dir_fd,
		    const char *name, struct err *err)
{
	_cleanup_(tree_freep) struct tree *t = NULL;
	int r;

	if (m->depth >= CONTENT_DEPTH_MAX)
		return err_set(err, ERR_TOO_LARGE,
			       "%.300s...: directories are nested deeper than %d levels", m->path.s,
			       CONTENT_DEPTH_MAX);
	if (tree_load(m->store, id, &t, err) < 0)
		return err_wrap(err, "%s", m->path.s);
	if (!m->check && !is_in_place(m) && mkdirat(dir_fd, name, 0777) < 0)
		return exists_or_errno(m, "directory ", err);
	m->depth++;
	r = fill_dir(m, t, dir_fd, name, err);
	m->depth--;
	if (r == 0 && m->depth == 0)
		r = place_all(m, err);
	if (r < 0 && m->depth == 0 && !m->in_place && !m->check) /* all or nothing */
		fs_remove_tree_at(dir_fd, name, NULL);
	return r;
}

static int make_any(struct materialise *m, int dir_fd, const char *path, struct err *err)
{
	const struct content_id *id = m->root;
	int r = 0;

	assert(m->mode <= CONTENT_HARD_LINK);
	if (store_bring(m->store, id, 1,
			m->mode == CONTENT_COPY_WRITABLE && !m->in_place ? BRING_SMALL : BRING_ALL,
			err) < 0)
		return -1;
	str_add(&m->path, path);
	switch ((enum content_kind)id->kind) {
	case CONTENT_TREE:
		r = make_dir(m, id, dir_fd, path, err);
		break;
	case CONTENT_BLOB:
	case CONTENT_EXECUTABLE:
		r = make_file(m, id, dir_fd, path, err);
		break;
	case CONTENT_REFERENCE:
		r = make_reference(m, id, dir_fd, path, err);
		break;
	case CONTENT_NONE:
		r = err_set(err, ERR_INVALID, "there is no content to put at %s", path);
		break;
	}
	if (r == 0 && (r = place_all(m, err)) < 0) /* a single file */
		unlinkat(dir_fd, path, 0);
	for (size_t i = 0; i < m->places.n; i++) {
		close(m->places.v[i].fd);
		free(m->paths.v[i]);
	}
	VEC_FREE(&m->places);
	VEC_FREE(&m->paths);
	str_deinit(&m->path);
	digest_set_free(m->linked);
	return r;
}

int content_materialise_at(struct store *s, const struct content_id *id,
			   enum content_materialise_mode mode, int dir_fd, const char *path,
			   struct err *err)
{
	struct materialise m = { .store = s, .mode = mode, .root = id };

	return make_any(&m, dir_fd, path, err);
}

int content_materialise_beneath(struct store *s, const struct content_id *id,
				enum content_materialise_mode mode, int dir_fd, const char *path,
				struct err *err)
{
	_cleanup_(freep) char *parent = fs_dirname(path);
	_cleanup_(fd_closep) int fd =
		fs_make_beneath(dir_fd, parent, mode >= CONTENT_LINK_READONLY ? 0755 : 0777, err);
	const char *name = fs_basename(path);

	if (fd < 0)
		return -1;
	if (!*name || str_eq(name, ".") || str_eq(name, ".."))
		return err_set(err, ERR_INVALID, "%s is not a path below the directory", path);
	return content_materialise_at(s, id, mode, fd, name, err);
}

int content_check_at(struct store *s, const struct content_id *id,
		     enum content_materialise_mode mode, int64_t verified_ns, int dir_fd,
		     const char *path, struct err *err)
{
	struct materialise m = {
		.store = s, .mode = mode, .root = id, .check = true, .verified_ns = verified_ns
	};

	assert(mode > CONTENT_COPY_WRITABLE);
	return make_any(&m, dir_fd, path, err);
}

int content_fill_at(struct store *s, const struct content_id *id,
		    enum content_materialise_mode mode, int dir_fd, const char *path,
		    struct err *err)
{
	struct materialise m = { .store = s, .mode = mode, .root = id, .in_place = true };

	return make_any(&m, dir_fd, path, err);
}
