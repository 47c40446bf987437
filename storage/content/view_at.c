/* storage/content/view_at.c — views that the caller keeps: which files of the store needn't be
 * hashed for them.
 *
 * The stat cache notes a file of the store after a view was made of it, when its bytes are known to
 * be right: they were hashed for the view, or as they arrived. Before the next view it is looked
 * up, and what is as it was counts as verified in this process (store_note_verified()), so that
 * materialise.c links it unread. A file system whose times don't tell of changes has all of them
 * hashed. The bytes of references aren't noted, either.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/time/clock.h"
#include "storage/content/view.h"
#include "storage/internal.h"
#include "storage/local/statcache.h"

struct looking {
	struct store *s;
	struct statcache *known;
	int64_t right_ns;  /* note files: their bytes were right then; 0: look them up */
	int64_t newest_ns; /* answered: the newest mtime of a file that wasn't known */
};

/* Opens the file in the store's own directory, wherever else the blob may be. */
static int open_here(struct store *s, const struct content_id *id, struct stat *ret)
{
	uint64_t size;
	int fd;

	if (s->here->ops->open(s->here, &id->digest, id->size_bytes, &fd, &size, NULL) < 0)
		return -1;
	if (fstat(fd, ret) == 0 && size == id->size_bytes && S_ISREG(ret->st_mode))
		return fd;
	close(fd);
	return -1;
}

static bool is_known(struct statcache *known, const struct content_id *id, const struct stat *st)
{
	struct content_id got;
	char hex[DIGEST_HEX_MAX];

	return statcache_get_linked(known, digest_hex(&id->digest, hex), st, &got) &&
	       digest_eq(&got.digest, &id->digest) && got.size_bytes == id->size_bytes;
}

static void look(struct looking *l, const struct content_id *id)
{
	char hex[DIGEST_HEX_MAX];
	struct stat st;
	_cleanup_(fd_closep) int fd = open_here(l->s, id, &st);

	if (fd < 0 || st.st_nlink == 0) /* out of a pack: no file of the store's */
		return;
	if (!is_known(l->known, id, &st)) {
		l->newest_ns = MAX(l->newest_ns, ns_of(st.st_mtim));
		if (l->right_ns)
			statcache_put(l->known, digest_hex(&id->digest, hex), &st, l->right_ns, id);
	} else if (!l->right_ns) {
		store_note_verified(l->s, &id->digest);
	}
}

static int look_at_listing(void *arg, const struct tree *t, struct err *err)
{
	for (size_t i = 0; i < tree_len(t); i++) {
		const struct tree_entry *e = tree_at(t, i);

		if (e->kind == TREE_FILE || e->kind == TREE_EXECUTABLE)
			look(arg, &e->id);
	}
	return 0;
}

static int look_at_all(struct looking *l, const struct content_id *id, struct err *err)
{
	if (id->kind == CONTENT_TREE)
		return tree_each_listing(l->s, id, look_at_listing, l, err);
	if (content_is_file(id))
		look(l, id);
	return 0;
}

/* What arrived a moment ago would be taken for racy, and hashed for the next view. */
static int64_t after(int64_t newest_ns)
{
	int64_t until_ns = newest_ns + ns_of_tick(false), now_ns = clock_wall_ns();

	if (newest_ns <= now_ns && now_ns <= until_ns) {
		clock_sleep(until_ns - now_ns + NS_PER_MS);
		now_ns = clock_wall_ns();
	}
	return now_ns;
}

int view_fill_at(struct store *s, const struct content_id *id, struct statcache *known, int dir_fd,
		 const char *path, struct err *err)
{
	struct looking l = { .s = s, .known = known && content_times_tell(dir_fd) ? known : NULL };
	int64_t began_ns;

	if (l.known && look_at_all(&l, id, err) < 0)
		return -1;
	began_ns = after(l.newest_ns);
	if (content_fill_at(s, id,
			    id->kind == CONTENT_TREE ? CONTENT_HARD_LINK : CONTENT_LINK_READONLY,
			    dir_fd, path, err) < 0)
		return -1;
	l.right_ns = began_ns;
	return l.known ? look_at_all(&l, id, err) : 0;
}

bool view_link_at(struct store *s, const struct content_id *id, struct statcache *known, int dir_fd,
		  const char *path)
{
	const struct store_file_ops *files = s->here->ops->files;
	char open_file[64];
	struct stat st;
	_cleanup_(fd_closep) int fd = content_is_file(id) && id->kind != CONTENT_EXECUTABLE &&
						      known && content_times_tell(dir_fd)
					      ? open_here(s, id, &st)
					      : -1;

	if (fd < 0 || (st.st_mode & 07777) != 0444 || !is_known(known, id, &st))
		return false;
	/* The very file that was looked at, whatever happens to its name meanwhile. */
	snprintf(open_file, sizeof(open_file), "/proc/self/fd/%d", fd);
	if (linkat(AT_FDCWD, open_file, dir_fd, path, AT_SYMLINK_FOLLOW) < 0)
		return false;
	if (files && files->touch)
		files->touch(s->here, STORE_BLOB, &id->digest);
	return true;
}
