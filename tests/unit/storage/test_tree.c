/* Tree listings: random ones against a naive encoder, hostile ones with one thing wrong each;
 * look-ups and globs against a naive walk. */
#include <fnmatch.h>
#include <stdio.h>
#include "storage/internal.h"
#include "unit.h"

static uint64_t rnd_state;
static uint32_t rnd(uint32_t n)
{
	rnd_state = rnd_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(rnd_state >> 33) % n;
}

/* Encoding. */

struct plain {
	char name[8];
	enum tree_entry_kind kind;
};

static struct tree_entry entry_of(const struct plain *p)
{
	struct tree_entry e = { .name = p->name, .name_len = strlen(p->name), .kind = p->kind };

	if (p->kind == TREE_SYMLINK) {
		e.target = "target";
		e.target_len = 6;
		return e;
	}
	e.id.kind = tree_entry_content_kind(p->kind);
	e.id.size_bytes = 0x0102030405060708;
	memset(e.id.digest.b, p->name[0], DIGEST_BYTES);
	return e;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct plain *)a)->name, ((const struct plain *)b)->name);
}

/* As FORMAT.md says it, byte by byte. */
static size_t naive_encode(const struct plain *p, size_t n, uint8_t *out)
{
	size_t at = 13;

	memcpy(out, "cairn-tree/1\n", 13);
	for (size_t i = 0; i < n; i++) {
		uint8_t len = (uint8_t)strlen(p[i].name);

		out[at++] = (uint8_t)p[i].kind;
		memcpy(out + at, (uint8_t[]){ len, 0, 0, 0 }, 4);
		memcpy(out + at + 4, p[i].name, len + 1u);
		at += 5u + len;
		if (p[i].kind == TREE_SYMLINK) {
			memcpy(out + at, "\6\0\0\0target", 11);
			at += 11;
		} else {
			memcpy(out + at, "\x08\x07\x06\x05\x04\x03\x02\x01", 8);
			memset(out + at + 8, p[i].name[0], DIGEST_BYTES);
			at += 8 + DIGEST_BYTES;
		}
	}
	return at;
}

static size_t random_plains(struct plain p[64])
{
	size_t n = 0, want = rnd(40);

	for (size_t i = 0; i < want; i++) {
		struct plain e = { .kind = (enum tree_entry_kind)(1 + rnd(4)) };
		size_t len = 1 + rnd(4);
		bool is_new = true;

		for (size_t k = 0; k < len; k++)
			e.name[k] = "ab.\x7f\x80\xff-A"[rnd(8)];
		for (size_t k = 0; k < n; k++)
			is_new &= strcmp(p[k].name, e.name) != 0;
		if (is_new && strcmp(e.name, ".") && strcmp(e.name, ".."))
			p[n++] = e;
	}
	return n;
}

static void check_decoded(const struct plain *p, size_t n, const uint8_t *bytes, size_t len)
{
	_cleanup_(tree_freep) struct tree *t = NULL;

	assert_int_equal(tree_decode(bytes, len, &t, NULL), 0);
	assert_int_equal(tree_len(t), n);
	for (size_t i = 0; i < n; i++) {
		struct tree_entry want = entry_of(&p[i]);
		const struct tree_entry *e = tree_at(t, i);

		assert_string_equal(e->name, p[i].name);
		assert_int_equal(e->kind, p[i].kind);
		assert_ptr_equal(tree_find(t, p[i].name, strlen(p[i].name)), e);
		if (e->kind == TREE_SYMLINK)
			assert_string_equal(e->target, "target");
		else
			assert_true(content_id_eq(&e->id, &want.id));
	}
	assert_null(tree_find(t, "zz", 2));
	assert_null(tree_find(t, "", 0));
}

static void test_random(void **state)
{
	for (rnd_state = 1; rnd_state < 300; rnd_state++) {
		uint64_t seed = rnd_state;
		struct tree_builder *b = tree_builder_new();
		struct store *s = store_memory_new();
		uint8_t *want = xmalloc(65536);
		struct str got = { 0 };
		struct content_id id;
		struct plain p[64];
		size_t n = random_plains(p), len;

		for (size_t i = 0; i < n; i++) { /* in any order */
			struct tree_entry e = entry_of(&p[i]);

			assert_int_equal(tree_builder_add(b, &e, NULL), 0);
		}
		qsort(p, n, sizeof(*p), by_name);
		len = naive_encode(p, n, want);
		assert_int_equal(tree_builder_store(b, s, &id, NULL), 0);
		assert_int_equal(content_read(s, &id, 65536, &got, NULL), 0);
		assert_int_equal(got.len, len);
		assert_memory_equal(got.s, want, len);
		check_decoded(p, n, want, len);
		str_deinit(&got);
		free(want);
		store_free(s);
		tree_builder_free(b);
		rnd_state = seed;
	}
}

static void test_builder_refuses(void **state)
{
	static const struct tree_entry bad[] = {
		{ .name = "", .name_len = 0, .kind = TREE_FILE, .id.kind = CONTENT_BLOB },
		{ .name = ".", .name_len = 1, .kind = TREE_FILE, .id.kind = CONTENT_BLOB },
		{ .name = "..", .name_len = 2, .kind = TREE_DIR, .id.kind = CONTENT_TREE },
		{ .name = "a/b", .name_len = 3, .kind = TREE_FILE, .id.kind = CONTENT_BLOB },
		{ .name = "a\0b", .name_len = 3, .kind = TREE_FILE, .id.kind = CONTENT_BLOB },
		{ .name = "a", .name_len = 1, .kind = TREE_FILE, .id.kind = CONTENT_TREE },
		{ .name = "a", .name_len = 1, .kind = TREE_DIR, .id.kind = CONTENT_BLOB },
		{ .name = "a", .name_len = 1, .kind = TREE_FILE, .id.kind = CONTENT_NONE },
		{ .name = "a", .name_len = 1, .kind = TREE_SYMLINK, .target = "", .target_len = 0 },
	};
	const struct tree_entry good = {
		.name = "a", .name_len = 1, .kind = TREE_FILE, .id.kind = CONTENT_BLOB
	};
	struct tree_builder *b = tree_builder_new();
	struct content_id id;
	struct err err = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		err.code = ERR_NONE;
		assert_int_equal(tree_builder_add(b, &bad[i], &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
	}
	assert_int_equal(tree_builder_add(b, &good, NULL), 0);
	assert_int_equal(tree_builder_add(b, &good, NULL), 0);
	err.code = ERR_NONE;
	assert_int_equal(tree_builder_store(b, NULL, &id, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	tree_builder_free(b);
}

/* A good listing of two files and a link, with one change a row. */
static void test_hostile(void **state)
{
	static const struct plain good[] = { { "ab", TREE_FILE },
					     { "cd", TREE_DIR },
					     { "ef", TREE_SYMLINK } };
	enum { SECOND = 13 + 8 + 40, THIRD = SECOND + 8 + 40, END = THIRD + 8 + 11 };
	static const struct {
		size_t at;
		uint8_t byte;
	} rows[] = {
		{ 0, 'C' },
		{ 11, '2' },
		{ 13, 0 },
		{ 13, 5 },
		{ 14, 3 },
		{ 14, 1 },
		{ 14, 0 },
		{ 17, 1 },
		{ 18, '/' },
		{ 19, 0 },
		{ 20, 'x' },
		{ 18, 'd' /* out of order */ },
		{ SECOND + 5, 'A' /* before the first */ },
		{ SECOND + 6, '/' },
		{ THIRD + 8, 5 },
		{ THIRD + 8, 7 },
		{ THIRD + 12, 0 },
		{ THIRD + 18, 'x' },
		{ THIRD + 9, 1 },
	};
	uint8_t bytes[256];
	struct tree *t;

	assert_int_equal(naive_encode(good, 3, bytes), END);
	check_decoded(good, 3, bytes, END);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct err err = { 0 };
		uint8_t was = bytes[rows[i].at];

		bytes[rows[i].at] = rows[i].byte;
		assert_int_equal(tree_decode(bytes, END, &t, &err), -1);
		assert_int_equal(err.code, ERR_CORRUPT);
		bytes[rows[i].at] = was;
	}
	for (size_t n = 0; n < END;
	     n++) /* whole entries are a listing of their own, cut ones are not */
		assert_int_equal(tree_decode(bytes, n, &t, NULL) == 0 ? (tree_free(t), 1) : 0,
				 n == 13 || n == SECOND || n == THIRD);
	memcpy(bytes + SECOND + 5, "ab", 2); /* the same name twice */
	assert_int_equal(tree_decode(bytes, END, &t, NULL), -1);
}

/* Paths. */

/* A forest kept as a list of paths beside the real tree. */
struct forest {
	struct store *s;
	struct content_id root;
	struct {
		char path[64];
		enum tree_entry_kind kind;
	} all[512];
	size_t n;
};

static struct content_id grow(struct forest *f, const char *prefix, int depth)
{
	static const char *const names[] = { "a", "b.txt", ".hid", "dir", "[x]", "b", "c.tar" };
	struct tree_builder *b = tree_builder_new();
	struct content_id blob, ret;

	content_put_bytes(f->s, "x", 1, &blob, NULL);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct tree_entry e = { .name = names[i],
					.name_len = strlen(names[i]),
					.kind = TREE_FILE,
					.id = blob };

		if (rnd(3) == 0 || f->n >= ARRAY_LEN(f->all))
			continue;
		snprintf(f->all[f->n].path, sizeof(f->all[f->n].path), "%s%s", prefix, names[i]);
		if (rnd(3) == 0) {
			e.kind = TREE_SYMLINK;
			e.target = "a";
			e.target_len = 1;
		}
		if (depth && rnd(2)) {
			size_t at = f->n++;
			char sub[64];

			snprintf(sub, sizeof(sub), "%.60s/", f->all[at].path);
			e.kind = f->all[at].kind = TREE_DIR;
			e.id = grow(f, sub, depth - 1);
		} else {
			f->all[f->n++].kind = e.kind;
		}
		assert_int_equal(tree_builder_add(b, &e, NULL), 0);
	}
	assert_int_equal(tree_builder_store(b, f->s, &ret, NULL), 0);
	tree_builder_free(b);
	return ret;
}

/* Component by component; `**` is any number of visible directories, and at the end also any
 * visible member. */
static bool matches(const char *pattern, const char *path)
{
	size_t np = strcspn(pattern, "/"), n = strcspn(path, "/");
	const char *more_p = pattern[np] ? pattern + np + 1 : NULL,
		   *more = path[n] ? path + n + 1 : NULL;
	char p[64], c[64];

	snprintf(p, sizeof(p), "%.*s", (int)np, pattern);
	snprintf(c, sizeof(c), "%.*s", (int)n, path);
	if (strcmp(p, "**") == 0) {
		if (matches(more_p ? more_p : "*", path))
			return true;
		return more && c[0] != '.' && matches(pattern, more);
	}
	if (fnmatch(p, c, FNM_PERIOD | FNM_NOESCAPE) != 0)
		return false;
	return !more_p ? !more : more && matches(more_p, more);
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static void check_glob(const struct forest *f, const char *pattern, bool dirs_only)
{
	_cleanup_(freep) char *given = xasprintf("%s%s", pattern, dirs_only ? "/" : "");
	struct arena *arena = arena_new();
	const char *want[ARRAY_LEN(f->all)];
	size_t n_want = 0, n;
	struct tree_match *m;

	for (size_t i = 0; i < f->n; i++)
		if (matches(pattern, f->all[i].path) && (!dirs_only || f->all[i].kind == TREE_DIR))
			want[n_want++] = f->all[i].path;
	qsort(want, n_want, sizeof(*want), by_text);
	assert_int_equal(tree_glob(f->s, &f->root, given, arena, &m, &n, NULL), 0);
	if (n != n_want)
		fail_msg("`%s` gives %zu members, not %zu", given, n, n_want);
	for (size_t i = 0; i < n; i++) {
		struct tree_entry e;

		assert_string_equal(m[i].path, want[i]);
		assert_int_equal(tree_lookup(f->s, &f->root, m[i].path, arena, &e, NULL), 0);
		assert_int_equal(e.kind, m[i].entry.kind);
		assert_true(content_id_eq(&e.id, &m[i].entry.id));
	}
	arena_free(arena);
}

static void test_globs(void **state)
{
	static const char *const patterns[] = {
		"*",       "a",         "*/*",       "**",        "**/b.txt",
		"dir/**",  "dir/**/b",  "**/**/b",   "**/dir/**", "**/dir/**/*.t??",
		".*",      "**/.hid",   ".hid/*",    "[ab]*",     "[[]x]",
		"nothing", "*/nothing", "a/b/c/d/e", "?",         "*.txt",
		"*/.h*",   "**/**",     "**x",       "*\\*"
	};
	size_t found = 0;

	for (uint64_t seed = 1; seed <= 20; seed++) {
		struct forest *f = xcalloc(1, sizeof(*f));

		rnd_state = seed * 77;
		f->s = store_memory_new();
		f->root = grow(f, "", 3);
		found += f->n;
		for (size_t i = 0; i < ARRAY_LEN(patterns); i++)
			for (int dirs = 0; dirs < 2; dirs++)
				check_glob(f, patterns[i], dirs);
		store_free(f->s);
		free(f);
	}
	assert_true(found > 500); /* the forests aren't bare */
}

static void test_lookup(void **state)
{
	struct forest *f = xcalloc(1, sizeof(*f));
	struct arena *arena = arena_new();
	struct tree_entry e;
	struct err err = { 0 };
	size_t i;

	rnd_state = 5;
	f->s = store_memory_new();
	f->root = grow(f, "", 3);
	for (i = 0; i < f->n; i++) {
		_cleanup_(freep) char *below = xasprintf("/%s//nothing", f->all[i].path);

		assert_int_equal(tree_lookup(f->s, &f->root, f->all[i].path, arena, &e, NULL), 0);
		assert_int_equal(e.kind, f->all[i].kind);
		assert_int_equal(tree_lookup(f->s, &f->root, below, arena, &e, &err), -1);
		assert_int_equal(err.code, ERR_NOT_FOUND);
	}
	assert_true(i > 10);
	assert_int_equal(tree_lookup(f->s, &f->root, "", arena, &e, NULL), 0);
	assert_true(content_id_eq(&e.id, &f->root));
	store_free(f->s);
	arena_free(arena);
	free(f);
}

/* Many stars in a row cost one walk each, not all combinations. */
static void test_stars_are_bounded(void **state)
{
	struct store *s = store_memory_new();
	struct arena *arena = arena_new();
	struct content_id at = { 0 }, blob;
	struct tree_match *m;
	char pattern[256] = "";
	size_t n;

	content_put_bytes(s, "x", 1, &blob, NULL);
	for (int depth = 0; depth < 60; depth++) {
		struct tree_builder *b = tree_builder_new();

		tree_builder_add(
			b,
			&(struct tree_entry){
				.name = "f", .name_len = 1, .kind = TREE_FILE, .id = blob },
			NULL);
		if (depth)
			tree_builder_add(
				b,
				&(struct tree_entry){
					.name = "d", .name_len = 1, .kind = TREE_DIR, .id = at },
				NULL);
		assert_int_equal(tree_builder_store(b, s, &at, NULL), 0);
		tree_builder_free(b);
	}
	for (int i = 0; i < 40; i++)
		strcat(pattern, "**/"); /* lint: strcat because 40 times 3 fit */
	strcat(pattern, "f");           /* lint: strcat because it fits too */
	assert_int_equal(tree_glob(s, &at, pattern, arena, &m, &n, NULL), 0);
	assert_int_equal(n, 60);
	arena_free(arena);
	store_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random),  cmocka_unit_test(test_builder_refuses),
		cmocka_unit_test(test_hostile), cmocka_unit_test(test_globs),
		cmocka_unit_test(test_lookup),  cmocka_unit_test(test_stars_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
