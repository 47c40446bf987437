/* storage/local/packs.c — makes, finds, merges and removes the packs of a directory store.
 *
 * Why packs: a small task leaves two small objects, the record of its key and its action record. As
 * files of their own, their making, naming and flushing costs more than all else that a store does
 * for such a task.
 *
 * Making: the pack is written under a temporary name, flushed and renamed; then the same for its
 * index. A crash leaves a temporary or a pack without an index, which gc removes. A reader checks
 * the whole index by its name, and that the pack is as long as it says; one that isn't so counts as
 * absent.
 *
 * Finding: the indexes are in memory. Before each look the directory's time is compared, and new
 * packs are opened. A time that is as young as the clock is coarse isn't trusted.
 *
 * Removing, and merging many small packs into one: the new pack is durable before the old ones lose
 * their names. Who writes packs again holds packs.lock and looks at the directory anew, so that
 * nobody brings back a member that another one just removed. Merged packs get the time of the
 * newest, so a merge never runs beside gc (gc.lock), which compares times.
 *
 * `lock` guards everything; it is held while bytes are read. packs.lock and gc.lock are between
 * processes.
 */
#include "storage/local/packs.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/time/clock.h"
#include "storage/local/flush.h"
#include "storage/remote/pack.h"

/* Larger packs aren't merged. */
#define MERGE_BYTES (4 * MIB)
/* Two changes of a directory within this time may show as one. */
#define COARSE_NS (100 * NS_PER_MS)
/* A younger pack may belong to a run that goes on: its members stay young for themselves. */
#define MERGE_AGE_NS (2 * STORE_FRESH_NS)
/* Somebody removes packs while we list them: more tries mean that something is wrong. */
#define LIST_TRIES 16
#define SUFFIX     ".idx"
#define PATH_MAX_  (sizeof(PACKS_DIR) + DIGEST_HEX_MAX + sizeof(SUFFIX))

struct pack {
	struct digest name;
	struct str index; /* checked */
	int fd;
	uint64_t bytes;
	int64_t made_ns;
	bool there; /* in the listing */
};

/* Members to remove, unless their pack was made since. */
struct dead {
	struct digest_set *names[STORE_SPACES];
	size_t n;
	int64_t unless_since_ns;
};

struct packs {
	struct store *s;
	int root;
	pthread_mutex_t lock;
	VEC(struct pack) v;
	struct timespec listed; /* the directory's time; zero: list again */
	struct dead condemned;  /* by gc */
	bool version_written;
};

struct packs *packs_new(struct store *s, int root)
{
	struct packs *p = xcalloc(1, sizeof(*p));

	p->s = s;
	p->root = root;
	pthread_mutex_init(&p->lock, NULL);
	return p;
}

static void add_dead(struct dead *d, enum store_space space, const struct digest *name,
		     int64_t unless_since_ns)
{
	if (!d->names[space])
		d->names[space] = digest_set_new();
	digest_set_add(d->names[space], name);
	d->unless_since_ns = d->n++ ? MIN(d->unless_since_ns, unless_since_ns) : unless_since_ns;
}

static void dead_deinit(struct dead *d)
{
	for (int space = 0; space < STORE_SPACES; space++)
		digest_set_free(d->names[space]);
	*d = (struct dead){ 0 };
}

static void close_pack(struct pack *k)
{
	close(k->fd);
	str_deinit(&k->index);
}

void packs_free(struct packs *p)
{
	if (!p)
		return;
	for (size_t i = 0; i < p->v.n; i++)
		close_pack(&p->v.v[i]);
	dead_deinit(&p->condemned);
	VEC_FREE(&p->v);
	pthread_mutex_destroy(&p->lock);
	free(p);
}

/* Listing. */

static const char *pack_path(char buf[PATH_MAX_], const struct digest *name, const char *suffix)
{
	char hex[DIGEST_HEX_MAX];

	snprintf(buf, PATH_MAX_, PACKS_DIR "/%s%s", digest_hex(name, hex), suffix);
	return buf;
}

/* 0: opened, or damaged and not there for us; 1: it was removed meanwhile. A pack that only can't
 * be opened now is an error: gc would leave its records and remove what they point at. */
static int open_pack(struct packs *p, const struct digest *name, struct err *err)
{
	struct pack k = { .name = *name, .fd = -1, .there = true };
	char path[PATH_MAX_];
	struct err why = { 0 };
	struct stat st;

	if (fs_read_file_at(p->root, pack_path(path, name, SUFFIX), PACK_INDEX_MAX, &k.index,
			    &why) < 0)
		return why.code == ERR_NOT_FOUND   ? 1
		       : why.code == ERR_TOO_LARGE ? 0
						   : err_pass(err, &why);
	if (pack_index_check(name, k.index.s, k.index.len, STORE_ACTION, NULL) < 0) {
		str_deinit(&k.index);
		return 0;
	}
	k.fd = openat(p->root, pack_path(path, name, ""), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (k.fd < 0 || fstat(k.fd, &st) < 0) {
		int r = k.fd < 0 && errno == ENOENT ? 1
			: k.fd < 0 && errno == ELOOP
				? 0
				: err_errno(err, "cannot open %s/%s", p->s->uri, path);

		fd_closep(&k.fd);
		str_deinit(&k.index);
		return r;
	}
	if ((uint64_t)st.st_size < pack_index_pack_size(k.index.s)) {
		close_pack(&k);
		return 0;
	}
	k.bytes = (uint64_t)st.st_size;
	k.made_ns = ns_of(st.st_mtim);
	VEC_PUSH(&p->v, k);
	return 0;
}

static struct pack *known(struct packs *p, const struct digest *name)
{
	for (size_t i = 0; i < p->v.n; i++)
		if (digest_eq(&p->v.v[i].name, name))
			return &p->v.v[i];
	return NULL;
}

/* 0: listed, 1: something was removed meanwhile. */
static int list_once(struct packs *p, struct err *err)
{
	_cleanup_(closedirp) DIR *d = fs_list_at(p->root, PACKS_DIR, O_NOFOLLOW);
	struct dirent *e;
	int r = 0, got = 0;

	if (!d)
		return err_errno(err, "cannot list %s/" PACKS_DIR, p->s->uri);
	for (size_t i = 0; i < p->v.n; i++)
		p->v.v[i].there = false;
	while (r == 0 && (got = fs_next(d, PACKS_DIR, &e, err)) > 0) {
		struct digest name;
		struct pack *k;

		if (!str_has_suffix(e->d_name, SUFFIX))
			continue;
		e->d_name[strlen(e->d_name) - strlen(SUFFIX)] = '\0';
		if (digest_parse(e->d_name, &name, NULL) < 0)
			continue;
		k = known(p, &name);
		if (k)
			k->there = true;
		else
			r = open_pack(p, &name, err);
	}
	return got < 0 ? -1 : r;
}

/* Under the lock. */
static int list(struct packs *p, struct err *err)
{
	int64_t now_ns = clock_wall_ns();
	struct stat st;
	int r = 1;

	if (fstatat(p->root, PACKS_DIR, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT || errno == ENOTDIR
			       ? 0
			       : err_errno(err, "cannot look into %s/" PACKS_DIR, p->s->uri);
	if (!S_ISDIR(st.st_mode))
		return 0;
	if (st.st_mtim.tv_sec == p->listed.tv_sec && st.st_mtim.tv_nsec == p->listed.tv_nsec)
		return 0;
	for (int i = 0; i < LIST_TRIES && r > 0; i++)
		r = list_once(p, err);
	if (r > 0)
		return err_set(err, ERR_IO, "%s/" PACKS_DIR " changes all the time", p->s->uri);
	if (r < 0)
		return -1;
	for (size_t i = 0; i < p->v.n; i++)
		if (!p->v.v[i].there) {
			close_pack(&p->v.v[i]);
			p->v.v[i--] = p->v.v[--p->v.n];
		}
	p->listed = now_ns - ns_of(st.st_mtim) > COARSE_NS ? st.st_mtim : (struct timespec){ 0 };
	return 0;
}

/* Reading. */

static int read_member(struct packs *p, const struct pack *k, const struct pack_member *m,
		       struct str *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str stored = { 0 };
	ssize_t n;

	if (m->stored > PACK_MEMORY_MAX || m->size > PACK_MEMORY_MAX) /* we don't write such */
		return 0;
	str_reserve(&stored, (size_t)m->stored + 1);
	n = fs_read_at(k->fd, stored.s, (size_t)m->stored, (off_t)m->offset);
	if (n < 0)
		return err_errno(err, "cannot read from the store %s", p->s->uri);
	/* What was cut or doesn't decode has other bytes than its name says. */
	(void)pack_decode((enum pack_encoding)m->encoding, stored.s, (size_t)n, m->size, ret, NULL);
	return 0;
}

int packs_get(struct packs *p, enum store_space space, const struct digest *name, struct str *ret,
	      struct packed *ret_what, struct err *err)
{
	struct pack_member m;
	int r;

	if (space > STORE_ACTION) /* no index is read for a run's manifest */
		return 0;
	pthread_mutex_lock(&p->lock);
	r = list(p, err);
	for (size_t i = 0; i < p->v.n && r == 0; i++) {
		const struct pack *k = &p->v.v[i];

		if (!pack_index_find(k->index.s, space, name, &m))
			continue;
		*ret_what = (struct packed){ m.size, k->made_ns };
		r = ret && read_member(p, k, &m, ret, err) < 0 ? -1 : 1;
	}
	pthread_mutex_unlock(&p->lock);
	return r;
}

struct listed {
	struct digest name;
	uint64_t size;
	int64_t made_ns;
};

int packs_list(struct packs *p, enum store_space space, store_list_fn *fn, void *arg,
	       struct err *err)
{
	VEC(struct listed) all = { 0 };
	int r;

	pthread_mutex_lock(&p->lock); /* not held while fn runs, which may read or remove */
	r = list(p, err);
	for (size_t i = 0; i < p->v.n && r == 0; i++)
		for (size_t j = 0; j < pack_index_len(p->v.v[i].index.s); j++) {
			struct pack_member m;

			pack_index_at(p->v.v[i].index.s, j, &m);
			if (m.space == space)
				VEC_PUSH(&all,
					 ((struct listed){ m.name, m.size, p->v.v[i].made_ns }));
		}
	pthread_mutex_unlock(&p->lock);
	for (size_t i = 0; i < all.n && r == 0; i++)
		r = fn(arg, &all.v[i].name, all.v[i].size, all.v[i].made_ns);
	VEC_FREE(&all);
	return r;
}

/* Writing. */

/* Versions of cairn before packs must not use the store: they would collect what records in packs
 * name. */
static int write_version(struct packs *p, struct err *err)
{
	if (mkdirat(p->root, PACKS_DIR, 0777) < 0 && errno != EEXIST)
		return err_errno(err, "cannot make %s/" PACKS_DIR, p->s->uri);
	if (p->version_written)
		return 0;
	if (fs_write_atomic_at(p->root, "version", PACKS_VERSION, strlen(PACKS_VERSION), 0644, 0,
			       err) < 0)
		return -1;
	p->version_written = true;
	return 0;
}

static int write_file(struct packs *p, const struct digest *name, int from, uint64_t size,
		      int64_t made_ns, struct err *err)
{
	const struct timespec t = { made_ns / NS_PER_S, made_ns % NS_PER_S }, times[2] = { t, t };
	_cleanup_(freep) char *bytes = xmalloc((size_t)size), *temp = NULL;
	_cleanup_(fd_closep) int fd = -1;
	char path[PATH_MAX_];

	if (fs_read_at(from, bytes, (size_t)size, 0) != (ssize_t)size)
		return err_errno(err, "cannot make a pack");
	if (fs_temp_at(p->root, pack_path(path, name, ""), 0444, &fd, &temp, err) < 0)
		return -1;
	if (fs_write_all(fd, bytes, (size_t)size, err) == 0) {
		if ((made_ns && futimens(fd, times) < 0) || fsync(fd) < 0 ||
		    renameat(p->root, temp, p->root, path) < 0)
			err_errno(err, "cannot write %s/%s", p->s->uri, path);
		else
			return 0;
	}
	unlinkat(p->root, temp, 0);
	return -1;
}

/* made_ns 0: now. Under the lock. */
static int publish(struct packs *p, struct pack_writer *w, int64_t made_ns, struct err *err)
{
	_cleanup_(str_deinit) struct str index = { 0 };
	struct digest name;
	char path[PATH_MAX_];
	uint64_t size;
	int fd;

	pack_writer_finish(w, &fd, &size, &index, &name);
	if (write_version(p, err) < 0 || write_file(p, &name, fd, size, made_ns, err) < 0)
		return -1;
	if (fs_write_atomic_at(p->root, pack_path(path, &name, SUFFIX), index.s, index.len, 0444, 0,
			       err) < 0) {
		unlinkat(p->root, pack_path(path, &name, ""), 0);
		return -1;
	}
	p->listed = (struct timespec){ 0 };
	return 0;
}

/* d NULL: none is. */
static bool is_dead(const struct dead *d, const struct pack *k, const struct pack_member *m)
{
	return d && d->names[m->space] && k->made_ns < d->unless_since_ns &&
	       digest_set_has(d->names[m->space], &m->name);
}

static int copy_members(struct packs *p, const struct pack *k, const struct dead *d,
			struct pack_writer *w, struct err *err)
{
	for (size_t i = 0; i < pack_index_len(k->index.s); i++) {
		_cleanup_(str_deinit) struct str bytes = { 0 };
		struct pack_member m;

		pack_index_at(k->index.s, i, &m);
		if (is_dead(d, k, &m))
			continue;
		if (read_member(p, k, &m, &bytes, err) < 0)
			return -1;
		/* A member that was cut is lost already. */
		if (bytes.len == m.size &&
		    pack_writer_add(w, (enum store_space)m.space, &m.name, bytes.s ? bytes.s : "",
				    bytes.len, err) < 0)
			return -1;
	}
	return 0;
}

/* The index goes first: without it the pack is nothing but a leftover. A failure is told, because
 * gc goes on to remove what the records in it point at. */
static int unname(struct packs *p, const struct pack *k, struct err *err)
{
	char path[PATH_MAX_];

	p->listed = (struct timespec){ 0 };
	if (unlinkat(p->root, pack_path(path, &k->name, SUFFIX), 0) < 0 && errno != ENOENT)
		return err_errno(err, "cannot remove %s/%s", p->s->uri, path);
	(void)unlinkat(p->root, pack_path(path, &k->name, ""), 0);
	return 0;
}

/* Writes the packs v[0..n) again as one, without the dead. Under the lock and packs.lock. */
static int write_again(struct packs *p, const size_t *v, size_t n, const struct dead *d,
		       struct err *err)
{
	_cleanup_(pack_writer_freep) struct pack_writer *w = NULL;
	int64_t made_ns = 0;

	if (pack_writer_new(-1, &w, err) < 0)
		return -1;
	pack_writer_keep_plain(w);
	for (size_t i = 0; i < n; i++) {
		if (copy_members(p, &p->v.v[v[i]], d, w, err) < 0)
			return -1;
		made_ns = MAX(made_ns, p->v.v[v[i]].made_ns);
	}
	if (pack_writer_members(w) && publish(p, w, made_ns, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (unname(p, &p->v.v[v[i]], err) < 0)
			return -1;
	return 0;
}

static int lock_file(struct packs *p, const char *name, bool wait, int *ret, struct err *err)
{
	_cleanup_(fd_closep) int fd =
		openat(p->root, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
	int r = fd < 0 ? err_errno(err, "cannot lock %s/%s", p->s->uri, name)
		       : fs_lock(fd, wait, err);

	if (r == 0)
		*ret = TAKE_FD(fd);
	return r;
}

/* Best effort: the packs work as they are. Under the lock. */
static void merge(struct packs *p)
{
	_cleanup_(fd_closep) int gc = -1, packs = -1;
	int64_t old_ns = clock_wall_ns() - MERGE_AGE_NS;
	VEC(size_t) small = { 0 };
	uint64_t bytes = 0;

	if (lock_file(p, "gc.lock", false, &gc, NULL) != 0 ||
	    lock_file(p, "packs.lock", false, &packs, NULL) != 0 || list(p, NULL) < 0)
		return;
	for (size_t i = 0; i < p->v.n; i++)
		if (p->v.v[i].bytes < MERGE_BYTES && p->v.v[i].made_ns < old_ns &&
		    bytes + p->v.v[i].bytes <= PACK_BYTES_MAX) {
			bytes += p->v.v[i].bytes;
			VEC_PUSH(&small, i);
		}
	if (small.n >= PACKS_MERGE_AT / 2)
		(void)write_again(p, small.v, small.n, NULL, NULL);
	VEC_FREE(&small);
}

int packs_put(struct packs *p, const struct store_item *v, size_t n, struct err *err)
{
	_cleanup_(pack_writer_freep) struct pack_writer *w = NULL;
	int r = pack_writer_new(-1, &w, err);

	if (r == 0)
		pack_writer_keep_plain(w);
	for (size_t i = 0; i < n && r == 0; i++) {
		assert(v[i].space == STORE_BLOB || v[i].space == STORE_ACTION);
		r = pack_writer_add(w, v[i].space, &v[i].name, v[i].bytes, v[i].n, err);
	}
	pthread_mutex_lock(&p->lock);
	if (r == 0)
		r = publish(p, w, 0, err);
	if (r == 0 && list(p, NULL) == 0 && p->v.n >= PACKS_MERGE_AT)
		merge(p);
	pthread_mutex_unlock(&p->lock);
	return r;
}

/* Removing. */

int packs_condemn(struct packs *p, enum store_space space, const struct digest *name,
		  int64_t unless_since_ns)
{
	bool stays = false, there = false;
	struct pack_member m;

	pthread_mutex_lock(&p->lock);
	for (size_t i = 0; i < p->v.n; i++)
		if (pack_index_find(p->v.v[i].index.s, space, name, &m)) {
			there = true;
			stays |= p->v.v[i].made_ns >= unless_since_ns;
		}
	if (there && !stays)
		add_dead(&p->condemned, space, name, unless_since_ns);
	pthread_mutex_unlock(&p->lock);
	return stays;
}

static bool has_dead(const struct pack *k, const struct dead *d)
{
	for (size_t i = 0; i < pack_index_len(k->index.s); i++) {
		struct pack_member m;

		pack_index_at(k->index.s, i, &m);
		if (is_dead(d, k, &m))
			return true;
	}
	return false;
}

/* Under the lock. */
static int sweep(struct packs *p, const struct dead *d, struct err *err)
{
	_cleanup_(fd_closep) int packs = -1;
	int r = lock_file(p, "packs.lock", true, &packs, err);

	p->listed = (struct timespec){ 0 };
	if (r == 0)
		r = list(p, err);
	for (size_t i = 0; i < p->v.n && r == 0; i++)
		if (has_dead(&p->v.v[i], d))
			r = write_again(p, &i, 1, d, err);
	return r < 0 ? err_wrap(err, "removing small objects") : 0;
}

int packs_sweep(struct packs *p, struct err *err)
{
	int r = 0;

	pthread_mutex_lock(&p->lock);
	if (p->condemned.n)
		r = sweep(p, &p->condemned, err);
	dead_deinit(&p->condemned);
	pthread_mutex_unlock(&p->lock);
	return r;
}

int packs_remove(struct packs *p, enum store_space space, const struct digest *name,
		 struct err *err)
{
	struct dead d = { 0 };
	struct packed what;
	int r = packs_get(p, space, name, NULL, &what, err);

	if (r <= 0)
		return r;
	add_dead(&d, space, name, INT64_MAX);
	pthread_mutex_lock(&p->lock);
	r = sweep(p, &d, err);
	pthread_mutex_unlock(&p->lock);
	dead_deinit(&d);
	return r;
}

/* A pack is there for an instant before its index. */
static int leftover(struct packs *p, int dir, const char *name, int64_t before_ns, bool dry,
		    struct store_leftovers *ret)
{
	_cleanup_(freep) char *index = xasprintf("%s" SUFFIX, name);
	struct stat st, there;

	if (str_has_suffix(name, SUFFIX) || fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
	    !S_ISREG(st.st_mode) || ns_of(st.st_ctim) >= before_ns ||
	    fstatat(dir, index, &there, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
		return 0;
	if (!dry && unlinkat(dir, name, 0) < 0 && errno != ENOENT)
		return -1;
	ret->n++;
	ret->bytes += (uint64_t)st.st_size;
	return 0;
}

int packs_leftovers(struct packs *p, int64_t before_ns, bool dry, struct store_leftovers *ret,
		    struct err *err)
{
	_cleanup_(closedirp) DIR *d = fs_list_at(p->root, PACKS_DIR, O_NOFOLLOW);
	struct dirent *e;
	int r = 0;

	if (!d)
		return errno == ENOENT
			       ? 0
			       : err_errno(err, "cannot look into %s/" PACKS_DIR, p->s->uri);
	while (r == 0 && (r = fs_next(d, PACKS_DIR, &e, err)) > 0)
		if ((r = leftover(p, dirfd(d), e->d_name, before_ns, dry, ret)) < 0)
			err_errno(err, "cannot remove what a crash left in %s", p->s->uri);
	return r;
}
