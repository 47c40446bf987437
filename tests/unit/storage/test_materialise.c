/* What goes in and comes out at the edges: links that lead elsewhere, what is left out, holes,
 * files over 4 GiB, deep trees, damage that shows late. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "core/seeds.h"
#include "storage/internal.h"
#include "storage/local/statcache.h"
#include "unit/storage/store_fixture.h"

static bool quota; /* it is found out when a file that was written is closed, as on NFS */

int close(int fd)
{
	static int (*next)(int fd);
	struct stat st;
	bool over = quota && (fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDONLY && fstat(fd, &st) == 0 &&
		    st.st_size > 0;
	int r;

	if (!next)
		next = (int (*)(int))dlsym(RTLD_NEXT, "close");
	r = next(fd);
	if (over)
		errno = EDQUOT;
	return over ? -1 : r;
}

static void make_dir(struct fixture *f, const char *name)
{
	assert_int_equal(mkdirat(f->fd, name, 0755), 0);
}

static void make_file(struct fixture *f, const char *name, const char *text)
{
	assert_int_equal(
		fs_write_atomic_at(f->fd, name, text, strlen(text), 0644, FS_WRITE_NO_SYNC, NULL),
		0);
}

static bool exists(struct fixture *f, const char *name)
{
	return faccessat(f->fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static bool tree_has(struct fixture *f, const struct content_id *id, const char *path)
{
	struct arena *arena = arena_new();
	struct tree_entry e;
	bool r = tree_lookup(f->s, id, path, arena, &e, NULL) == 0;

	arena_free(arena);
	return r;
}

/* What may be taken. */

/* A task makes a link out of its workspace and declares what is behind it as its output. */
static void test_links_that_lead_out(void **state)
{
	static const char *const paths[] = { "ws/dir/file", "ws/dir", "ws/dir/", "ws/file",
					     "ws/far/file" };
	struct fixture *f = *state;
	int ws;

	make_dir(f, "mine");
	make_file(f, "mine/file", "not yours");
	make_dir(f, "ws");
	assert_int_equal(symlinkat("../mine", f->fd, "ws/dir"), 0);
	assert_int_equal(symlinkat("../mine/file", f->fd, "ws/file"), 0);
	assert_int_equal(symlinkat("dir", f->fd, "ws/far"), 0);
	ws = openat(f->fd, "ws", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_LEN(paths); i++) {
		struct content_id id = { 0 };
		struct err err = { 0 };

		assert_int_equal(
			content_put_at(f->s, ws, paths[i] + 3,
				       &(struct content_put_options){ .flags = CONTENT_PUT_MOVE },
				       &id, &err),
			-1);
		assert_int_equal(err.code, ERR_INVALID);
		assert_non_null(strstr(err.msg, paths[i] + 3));
		assert_true(exists(f, "mine/file"));
	}
	close(ws);
}

static void test_links_that_stay_inside(void **state)
{
	struct fixture *f = *state;
	struct content_id id, want;

	make_dir(f, "real");
	make_file(f, "real/file", "text");
	assert_int_equal(symlinkat("real", f->fd, "link"), 0);
	assert_int_equal(symlinkat("real/file", f->fd, "one"), 0);
	content_id_of_bytes("text", 4, &want);
	assert_int_equal(content_put_at(f->s, f->fd, "one", NULL, &id, NULL), 0);
	assert_true(content_id_eq(&id, &want));
	assert_int_equal(content_put_at(f->s, f->fd, "link", NULL, &id, NULL), 0);
	assert_true(id.kind == CONTENT_TREE && tree_has(f, &id, "file"));
	assert_int_equal(content_put_at(f->s, f->fd, "link/file",
					&(struct content_put_options){ .flags = CONTENT_PUT_MOVE },
					&id, NULL),
			 0);
	assert_true(content_id_eq(&id, &want));
	assert_false(exists(f, "real/file")); /* moved */
}

static void test_left_out(void **state)
{
	static const char *const names[] = { ".cairn", ".git", NULL };
	struct fixture *f = *state;
	struct content_id id;

	make_dir(f, "t");
	make_dir(f, "t/.cairn");
	make_dir(f, "t/.git");
	make_dir(f, "t/sub");
	make_dir(f, "t/sub/.cairn");
	make_dir(f, "t/sub/.git");
	assert_int_equal(content_put_at(f->s, f->fd, "t",
					&(struct content_put_options){ .exclude = names }, &id,
					NULL),
			 0);
	assert_false(tree_has(f, &id, ".cairn") || tree_has(f, &id, ".git") ||
		     tree_has(f, &id, "sub/.cairn"));
	assert_true(tree_has(f, &id, "sub/.git")); /* somebody's data */
	assert_int_equal(content_put_at(f->s, f->fd, "t", NULL, &id, NULL), 0);
	assert_true(tree_has(f, &id, ".cairn") && tree_has(f, &id, ".git") &&
		    tree_has(f, &id, "sub/.cairn"));
}

/* By pattern, at any depth, in every thread; the top itself is what was asked for. */
static void test_ignored(void **state)
{
	static const char *const patterns[] = { "*~",    "__pycache__", "[ab]?.tmp",
						"*.b*k", ".x",          NULL };
	static const struct {
		const char *name;
		bool kept;
	} rows[] = {
		{ "a~", false },          { "~", false },           { ".a~", false },
		{ "~a", true },           { "__pycache__", false }, { "x__pycache__", true },
		{ "__pycache__x", true }, { "a1.tmp", false },      { "c1.tmp", true },
		{ "a.tmp", true },        { "o.bak", false },       { ".bk", false },
		{ "x.b", true },          { ".x", false },          { "x", true },
		{ ".xx", true },
	};
	struct content_put_options o = { .ignore = patterns, .n_threads = 4 };
	struct fixture *f = *state;
	struct content_id id;
	char path[64];

	make_dir(f, "a~");
	for (unsigned i = 0; i < 70; i++) {
		snprintf(path, sizeof(path), "a~/d%u", i);
		make_dir(f, path);
		for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
			snprintf(path, sizeof(path), "a~/d%u/%s", i, rows[k].name);
			k % 2 ? make_dir(f, path) : make_file(f, path, "");
		}
	}
	assert_int_equal(content_put_at(f->s, f->fd, "a~", &o, &id, NULL), 0);
	for (unsigned i = 0; i < 70; i++)
		for (size_t k = 0; k < ARRAY_LEN(rows); k++) {
			snprintf(path, sizeof(path), "d%u/%s", i, rows[k].name);
			if (tree_has(f, &id, path) != rows[k].kept)
				fail_msg("%s", path);
		}
}

/* A hit in the stat cache is worth nothing when the store has lost the blob. */
static void test_cache_hit_of_a_lost_blob(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *path = xasprintf("%s/cache", f->dir);
	struct content_put_options o = { 0 };
	struct content_id id, again;
	struct statcache *c;
	struct stat st;
	bool present = false;

	make_file(f, "in", "bytes");
	assert_int_equal(statcache_open(path, &c, NULL), 0);
	o.cache = c;
	assert_int_equal(content_put_at(f->s, f->fd, "in", &o, &id, NULL), 0);
	assert_int_equal(fstatat(f->fd, "in", &st, 0), 0);
	statcache_put(c, "in", &st, st.st_ctim.tv_sec * NS_PER_S + 9 * NS_PER_S,
		      &id); /* as if it had been quiet */
	assert_true(statcache_get(c, "in", &st, &again));
	assert_int_equal(store_delete(f->s, STORE_BLOB, &id.digest, NULL), 0);
	assert_int_equal(content_put_at(f->s, f->fd, "in", &o, &again, NULL), 0);
	assert_true(content_id_eq(&id, &again));
	assert_int_equal(store_has(f->s, &id, 1, &present, NULL), 0);
	assert_true(present);
	statcache_free(c);
}

/* Large and sparse. */

static void make_sparse(struct fixture *f, const char *name, off_t size, const char *at_end)
{
	int fd = openat(f->fd, name, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
	assert_int_equal(pwrite(fd, at_end, strlen(at_end), size - (off_t)strlen(at_end)),
			 strlen(at_end));
	close(fd);
}

static void test_holes_stay(void **state)
{
	struct fixture *f = *state;
	struct content_id id;
	struct stat st;

	make_sparse(f, "in", 100 * (off_t)MIB, "end");
	assert_int_equal(content_put_at(f->s, f->fd, "in",
					&(struct content_put_options){ .n_threads = 2 }, &id, NULL),
			 0);
	assert_int_equal(
		content_materialise_at(f->s, &id, CONTENT_LINK_READONLY, f->fd, "out", NULL), 0);
	assert_int_equal(fstatat(f->fd, "out", &st, 0), 0);
	assert_int_equal(st.st_size, 100 * MIB);
	assert_true(st.st_blocks * 512 < (blkcnt_t)MIB);
	assert_int_equal(content_put_at(f->s, f->fd, "in",
					&(struct content_put_options){ .flags = CONTENT_PUT_MOVE },
					&id, NULL),
			 0);
	assert_int_equal(content_verify(f->s, &id, NULL), 0);
}

/* Offsets over 32 bits. The naive digest needs no 4 GiB: all parts but the last are the same zeros.
 */
static void test_over_4_gib(void **state)
{
	if (seeds_quick())
		skip();

	const uint64_t size = 4 * GIB + 5;
	struct fixture *f = *state;
	uint8_t *zeros = xcalloc(1, CONTENT_PART_BYTES);
	struct digest parts[257], want;
	struct content_id id;
	make_sparse(f, "in", (off_t)size, "!");
	digest_bytes(zeros, CONTENT_PART_BYTES, &parts[0]);
	for (size_t i = 1; i < 256; i++)
		parts[i] = parts[0];
	digest_bytes("\0\0\0\0!", 5, &parts[256]);
	digest_bytes(parts, sizeof(parts), &want);
	assert_int_equal(content_put_at(f->s, f->fd, "in",
					&(struct content_put_options){
						.flags = CONTENT_PUT_HASH_ONLY, .n_threads = 2 },
					&id, NULL),
			 0);
	assert_int_equal(id.size_bytes, size);
	assert_true(digest_eq(&id.digest, &want));
	free(zeros);
}

/* Deep. */

static struct content_id nest(struct store *s, int depth, const struct content_id *leaf)
{
	struct content_id at = *leaf;

	for (int i = 0; i < depth; i++) {
		struct tree_builder *b = tree_builder_new();
		struct tree_entry e = {
			.name = "d", .name_len = 1, .kind = i ? TREE_DIR : TREE_FILE, .id = at
		};

		assert_int_equal(tree_builder_add(b, &e, NULL), 0);
		assert_int_equal(tree_builder_store(b, s, &at, NULL), 0);
		tree_builder_free(b);
	}
	return at;
}

/* Nobody's stack ends at what a stranger nested. */
static void test_nested_without_end(void **state)
{
	struct fixture *f = *state;
	struct store *s = store_memory_new();
	struct content_id leaf, top;
	struct err err = { 0 };
	bool complete = false;

	assert_int_equal(content_put_bytes(s, "leaf", 4, &leaf, NULL), 0);
	top = nest(s, 30000, &leaf);
	assert_int_equal(content_complete(s, &top, 1, &complete, NULL), 0);
	assert_true(complete);
	assert_int_equal(content_verify(s, &top, NULL), 0);
	assert_int_equal(store_delete(s, STORE_BLOB, &leaf.digest, NULL), 0);
	assert_int_equal(content_complete(s, &top, 1, &complete, NULL), 0);
	assert_false(complete);
	assert_int_equal(content_verify(s, &top, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(content_materialise_at(s, &top, CONTENT_COPY_WRITABLE, f->fd, "out", &err),
			 -1);
	assert_false(exists(f, "out"));
	store_free(s);
}

static void test_deep_enough(void **state)
{
	struct fixture *f = *state;
	struct content_id leaf, top, again;

	assert_int_equal(content_put_bytes(f->s, "leaf", 4, &leaf, NULL), 0);
	top = nest(f->s, 200, &leaf);
	assert_int_equal(
		content_materialise_at(f->s, &top, CONTENT_COPY_WRITABLE, f->fd, "out", NULL), 0);
	assert_int_equal(content_put_at(f->s, f->fd, "out", NULL, &again, NULL), 0);
	assert_true(content_id_eq(&top, &again));
}

/* Damage. */

static void damage(struct fixture *f, const struct content_id *id, const char *what, off_t at)
{
	char hex[DIGEST_HEX_MAX], path[128];
	int fd;

	digest_hex(&id->digest, hex);
	snprintf(path, sizeof(path), "store/blobs/%.2s/%s", hex, hex);
	assert_int_equal(fchmodat(f->fd, path, 0644, 0), 0);
	fd = openat(f->fd, path, O_RDWR | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, what, strlen(what), at), strlen(what));
	assert_int_equal(fchmod(fd, 0444), 0);
	close(fd);
}

/* A copy is checked each time: the first one says nothing about a disk that fails later. */
static void test_damage_after_first_use(void **state)
{
	static const size_t sizes[] = { 1000, 300 * KIB, 20 * MIB };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		_cleanup_(freep) char *bytes = xcalloc(1, sizes[i]);
		struct content_id id;
		struct err err = { 0 };
		bool shared;
		struct stat st;

		bytes[0] = (char)i;
		assert_int_equal(content_put_bytes(f->s, bytes, sizes[i], &id, NULL), 0);
		assert_int_equal(content_materialise_at(f->s, &id, CONTENT_LINK_READONLY, f->fd,
							"first", NULL),
				 0);
		assert_int_equal(unlinkat(f->fd, "first", 0), 0);
		damage(f, &id, "damage", (off_t)sizes[i] / 2);
		shared = content_materialise_at(f->s, &id, CONTENT_LINK_READONLY, f->fd, "second",
						&err) == 0;
		if (shared) /* only where the file system shares bytes, which are checked once a
			       process */
			skip();
		assert_int_equal(err.code, ERR_CORRUPT);
		assert_int_equal(fstatat(f->fd, "second", &st, 0), -1);
		assert_int_equal(errno, ENOENT);
	}
}

/* All of a directory, or nothing of it. */
static bool take_arrived(struct fixture *f, const struct content_id *id)
{
	_cleanup_(fd_closep) int fd = -1;

	assert_int_equal(content_open(f->s, id, &fd, NULL), 0);
	return store_take_arrived(f->s, &id->digest, fd);
}

/* A large file is hashed as it is copied into the store, so its first link is made without another
 * look. What was there already, moves in, or is written to afterwards, has not been looked at. */
static void test_taken_in_is_hashed_once(void **state)
{
	static const int ways[] = { 0, CONTENT_PUT_BENEATH, CONTENT_PUT_MOVE };
	struct fixture *f = *state;
	const size_t n = 2 * CONTENT_PART_BYTES + 5;
	_cleanup_(freep) char *bytes = xcalloc(n, 1), *blob = NULL;
	const struct timespec times[2] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = 1 } };
	char hex[DIGEST_HEX_MAX];
	struct content_id id;

	for (size_t i = 0; i < ARRAY_LEN(ways); i++) {
		const struct content_put_options o = { .flags = ways[i], .n_threads = 2 };
		const bool copied = ways[i] != CONTENT_PUT_MOVE;

		bytes[4711] = (char)('a' + i);
		for (int again = 0; again < 2; again++) {
			assert_int_equal(fs_write_atomic_at(f->fd, "large", bytes, n, 0644,
							    FS_WRITE_NO_SYNC, NULL),
					 0);
			assert_int_equal(content_put_at(f->s, f->fd, "large", &o, &id, NULL), 0);
			assert_int_equal(take_arrived(f, &id), copied && !again);
			assert_false(take_arrived(f, &id));
		}
	}
	bytes[4711] = 'z';
	assert_int_equal(fs_write_atomic_at(f->fd, "large", bytes, n, 0644, FS_WRITE_NO_SYNC, NULL),
			 0);
	assert_int_equal(content_put_at(f->s, f->fd, "large",
					&(struct content_put_options){ .n_threads = 2 }, &id, NULL),
			 0);
	digest_hex(&id.digest, hex);
	blob = xasprintf("store/blobs/%.2s/%s", hex, hex);
	assert_int_equal(utimensat(f->fd, blob, times, 0), 0); /* as a write does */
	assert_false(take_arrived(f, &id));
}

static void test_half_a_directory(void **state)
{
	struct fixture *f = *state;
	struct content_id id, b;
	struct err err = { 0 };

	make_dir(f, "t");
	make_dir(f, "t/sub");
	make_file(f, "t/a", "a");
	make_file(f, "t/sub/b", "bbbbbbbb");
	assert_int_equal(content_put_at(f->s, f->fd, "t", NULL, &id, NULL), 0);
	content_id_of_bytes("bbbbbbbb", 8, &b);
	damage(f, &b, "x", 3);
	assert_int_equal(
		content_materialise_at(f->s, &id, CONTENT_LINK_READONLY, f->fd, "out", &err), -1);
	assert_int_equal(err.code, ERR_CORRUPT);
	assert_non_null(strstr(err.msg, "out/sub/b: "));
	assert_false(exists(f, "out"));
	make_dir(f, "out"); /* what was there isn't ours to remove */
	make_file(f, "out/keep", "");
	assert_int_equal(
		content_materialise_at(f->s, &id, CONTENT_LINK_READONLY, f->fd, "out", &err), -1);
	assert_int_equal(err.code, ERR_EXISTS);
	assert_true(exists(f, "out/keep"));
}

static void test_modes(void **state)
{
	static const struct {
		enum content_materialise_mode mode;
		enum content_kind kind;
		mode_t want;
	} rows[] = {
		{ CONTENT_COPY_WRITABLE, CONTENT_BLOB, 0644 },
		{ CONTENT_COPY_WRITABLE, CONTENT_EXECUTABLE, 0755 },
		{ CONTENT_COPY_WORKSPACE, CONTENT_BLOB, 0644 },
		{ CONTENT_COPY_WORKSPACE, CONTENT_EXECUTABLE, 0755 },
		{ CONTENT_COPY_FOR_ALL, CONTENT_BLOB, 0666 },
		{ CONTENT_COPY_FOR_ALL, CONTENT_EXECUTABLE, 0777 },
		{ CONTENT_LINK_READONLY, CONTENT_BLOB, 0444 },
		{ CONTENT_LINK_READONLY, CONTENT_EXECUTABLE, 0555 },
		{ CONTENT_COPY_WRITABLE, CONTENT_TREE, 0777 },
		{ CONTENT_COPY_WORKSPACE, CONTENT_TREE, 0755 },
		{ CONTENT_COPY_FOR_ALL, CONTENT_TREE, 0777 },
		{ CONTENT_LINK_READONLY, CONTENT_TREE, 0555 },
		{ CONTENT_HARD_LINK, CONTENT_BLOB, 0444 },
		{ CONTENT_HARD_LINK, CONTENT_EXECUTABLE, 0555 },
		{ CONTENT_HARD_LINK, CONTENT_TREE, 0555 },
	};
	static const mode_t masks[] = { 022, 077, 0, 027 };
	struct fixture *f = *state;
	mode_t before = umask(022);
	struct content_id blob, tree;
	struct stat st;

	assert_int_equal(content_put_bytes(f->s, "x", 1, &blob, NULL), 0);
	make_dir(f, "modes");
	make_dir(f, "modes/d");
	make_file(f, "modes/d/x", "x");
	assert_int_equal(content_put_at(f->s, f->fd, "modes", NULL, &tree, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows) * ARRAY_LEN(masks); i++) {
		const mode_t mask = masks[i / ARRAY_LEN(rows)];
		struct content_id id = rows[i % ARRAY_LEN(rows)].kind == CONTENT_TREE ? tree : blob;
		enum content_materialise_mode mode = rows[i % ARRAY_LEN(rows)].mode;
		mode_t want = rows[i % ARRAY_LEN(rows)].want;

		id.kind = rows[i % ARRAY_LEN(rows)].kind;
		umask(mask);
		assert_int_equal(content_materialise_at(f->s, &id, mode, f->fd, "x", NULL), 0);
		assert_int_equal(fstatat(f->fd, id.kind == CONTENT_TREE ? "x/d" : "x", &st, 0), 0);
		assert_int_equal(st.st_mode & 07777,
				 mode == CONTENT_COPY_WRITABLE ? want & ~mask : want);
		if (id.kind != CONTENT_TREE)
			assert_int_equal(st.st_nlink,
					 mode == CONTENT_HARD_LINK && id.kind == CONTENT_BLOB ? 2
											      : 1);
		assert_int_equal(fs_remove_tree_at(f->fd, "x", NULL), 0);
		/* Directories on the way are the program's as well. */
		assert_int_equal(
			content_materialise_beneath(f->s, &id, mode, f->fd, "way/to/x", NULL), 0);
		assert_int_equal(fstatat(f->fd, "way/to", &st, 0), 0);
		assert_int_equal(st.st_mode & 07777,
				 mode >= CONTENT_LINK_READONLY ? 0755 : 0777 & ~mask);
		assert_int_equal(fs_remove_tree_at(f->fd, "way", NULL), 0);
	}
	umask(before);
}

static nlink_t links_of(const struct fixture *f, const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(f->fd, name, &st, 0), 0);
	return st.st_nlink;
}

static void test_hard_links(void **state)
{
	struct fixture *f = *state;
	struct content_id id, empty;
	struct err err = { 0 };

	/* What doesn't have the store's mode would show that mode. */
	assert_int_equal(content_put_bytes(f->s, "shared", 6, &id, NULL), 0);
	make_dir(f, "d");
	assert_int_equal(content_materialise_at(f->s, &id, CONTENT_HARD_LINK, f->fd, "a", NULL), 0);
	assert_int_equal(links_of(f, "a"), 2);
	assert_int_equal(fchmodat(f->fd, "a", 0400, 0), 0);
	assert_int_equal(content_materialise_at(f->s, &id, CONTENT_HARD_LINK, f->fd, "b", NULL), 0);
	assert_int_equal(links_of(f, "b"), 1);
	assert_int_equal(fchmodat(f->fd, "a", 0444, 0), 0);
	assert_int_equal(content_materialise_at(f->s, &id, CONTENT_HARD_LINK, f->fd, "b", &err),
			 -1);
	assert_int_equal(err.code, ERR_EXISTS);
	/* An output that is such a file is no file of ours to move. */
	assert_int_equal(content_put_at(f->s, f->fd, "a",
					&(struct content_put_options){ .flags = CONTENT_PUT_MOVE },
					&empty, NULL),
			 0);
	assert_int_equal(links_of(f, "a"), 2);
	/* One that has all the links that it can have is copied. */
	for (unsigned i = 0; i < 66000; i++) {
		char name[32];

		snprintf(name, sizeof(name), "d/%u", i);
		if (linkat(f->fd, "a", f->fd, name, 0) < 0) {
			assert_int_equal(errno, EMLINK);
			assert_int_equal(content_materialise_at(f->s, &id, CONTENT_HARD_LINK, f->fd,
								"c", &err),
					 0);
			assert_int_equal(links_of(f, "c"), 1);
			break;
		}
	}
	/* A damaged one reaches nobody. */
	assert_int_equal(content_put_bytes(f->s, "damaged", 7, &id, NULL), 0);
	damage(f, &id, "x", 2);
	assert_int_equal(content_materialise_at(f->s, &id, CONTENT_HARD_LINK, f->fd, "e", &err),
			 -1);
	assert_int_equal(err.code, ERR_CORRUPT);
	assert_false(exists(f, "e"));
}

static void test_takes(void **state)
{
	struct fixture *f = *state;
	struct content_id tree, blob;
	char large[20 * KIB];
	bool enough;

	memset(large, 'x', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	make_dir(f, "t");
	make_dir(f, "t/sub");
	make_dir(f, "t/same");
	make_file(f, "t/a", large);
	make_file(f, "t/sub/b", "123");  /* counts as 16 KiB */
	make_file(f, "t/same/b", "123"); /* one listing, which counts once */
	assert_int_equal(content_put_at(f->s, f->fd, "t", NULL, &tree, NULL), 0);
	assert_int_equal(content_put_bytes(f->s, "12345678", 8, &blob, NULL), 0);
	for (uint64_t n = 7; n < 10; n++) {
		const uint64_t both = sizeof(large) - 1 + 16 * KIB - 8 + n;

		assert_int_equal(content_takes(f->s, &tree, both, &enough, NULL), 0);
		assert_int_equal(enough, n <= 8);
		assert_int_equal(content_takes(f->s, &blob, n, &enough, NULL), 0);
		assert_int_equal(enough, n <= 8);
	}
}

/* Who closes what he wrote hears of it: nothing is called written then. */
static void test_lost_at_close(void **state)
{
	struct fixture *f = *state;
	struct content_id id, big, other;
	char *bytes = xcalloc(1, 3 * MIB);
	struct err err = { 0 };

	assert_int_equal(content_put_bytes(f->s, "text", 4, &id, &err), 0);
	memset(bytes, 'x', 3 * MIB);
	assert_int_equal(content_put_bytes(f->s, bytes, 3 * MIB, &big, &err), 0);
	quota = true;
	assert_int_equal(
		content_materialise_at(f->s, &id, CONTENT_COPY_WRITABLE, f->fd, "small", &err), -1);
	assert_int_equal(err.code, ERR_NO_SPACE);
	assert_int_equal(
		content_materialise_at(f->s, &big, CONTENT_COPY_WRITABLE, f->fd, "big", NULL), -1);
	assert_int_equal(content_put_bytes(f->s, "other", 5, &other, NULL), -1);
	quota = false;
	assert_false(exists(f, "small") || exists(f, "big"));
	assert_int_equal(
		content_materialise_at(f->s, &big, CONTENT_COPY_WRITABLE, f->fd, "big", &err), 0);
	free(bytes);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, store_setup, store_teardown)
	const struct CMUnitTest tests[] = {
		T(test_links_that_lead_out),
		T(test_links_that_stay_inside),
		T(test_left_out),
		T(test_ignored),
		T(test_cache_hit_of_a_lost_blob),
		T(test_holes_stay),
		T(test_over_4_gib),
		T(test_nested_without_end),
		T(test_deep_enough),
		T(test_damage_after_first_use),
		T(test_taken_in_is_hashed_once),
		T(test_half_a_directory),
		T(test_modes),
		T(test_hard_links),
		T(test_takes),
		T(test_lost_at_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
