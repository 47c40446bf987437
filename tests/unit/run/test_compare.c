/* Contents against each other: random trees with random edits against a naive comparison of the
 * same trees, where files part, what is gone or damaged, and a normaliser that answers, lies,
 * crashes or isn't there. */
#include <stdio.h>
#include "base/map.h"
#include "base/os/fs.h"
#include "run/reproduce/compare.h"
#include "unit.h"

static char dir[TEST_DIR_MAX];
static uint64_t rnd_state;

static uint32_t rnd(uint32_t n)
{
	rnd_state = rnd_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(rnd_state >> 33) % n;
}

struct place {
	struct store *store;
	struct arena *arena;
	struct comparer c;
};

static int set_up(void **state)
{
	struct place *p = xcalloc(1, sizeof(*p));
	_cleanup_(freep) char *path = NULL;

	test_dir(dir, sizeof(dir), "compare");
	path = xasprintf("%s/store", dir);
	if (store_open(path, true, &p->store, NULL) < 0)
		return -1;
	p->arena = arena_new();
	p->c = (struct comparer){ .store = p->store,
				  .steps_program = "/nonexistent/cairn-steps",
				  .temp_dir = dir,
				  .arena = p->arena };
	*state = p;
	return 0;
}

static int tear_down(void **state)
{
	struct place *p = *state;

	store_free(p->store);
	arena_free(p->arena);
	free(p);
	return fs_remove_tree(dir, NULL);
}

static struct content_id put(struct place *p, const char *bytes, size_t n)
{
	struct content_id id;
	struct err err = { 0 };

	assert_int_equal(content_put_bytes(p->store, bytes, n, &id, &err), 0);
	return id;
}

static struct compare_result compare(struct place *p, const struct content_id *a,
				     const struct content_id *b)
{
	struct compare_result r;
	struct err err = { 0 };

	if (compare_contents(&p->c, a, b, &r, &err) < 0)
		fail_msg("%s", err.msg);
	return r;
}

/* Trees against a naive comparison. */

/* A directory as a flat list of paths: 26 files over three directories. */
#define FILES 26
struct flat {
	char text[FILES][8]; /* "" absent */
	bool executable[FILES];
};

static void path_of(unsigned i, char *ret, size_t n)
{
	static const char *const dirs[] = { "", "d/", "d/e/", "x/" };

	snprintf(ret, n, "%s%c", dirs[i % 4], 'a' + (int)i);
}

/* The listing of the files whose path begins with `prefix`. */
static struct content_id put_tree(struct place *p, const struct flat *f, const char *prefix)
{
	_cleanup_(map_freep) struct map *seen = map_new();
	struct tree_builder *b = tree_builder_new();
	struct content_id id;
	char path[16], below[24];
	struct err err = { 0 };

	for (unsigned i = 0; i < FILES; i++) {
		const char *name = path + strlen(prefix);
		size_t len;
		bool is_new;

		path_of(i, path, sizeof(path));
		if (!f->text[i][0] || !str_has_prefix(path, prefix))
			continue;
		len = strcspn(name, "/");
		*map_slot(seen, name, len, &is_new) = b;
		struct tree_entry e = { .name = name,
					.name_len = len,
					.kind = f->executable[i] ? TREE_EXECUTABLE : TREE_FILE };

		if (name[len] == '/' && is_new) {
			snprintf(below, sizeof(below), "%s%.*s/", prefix, (int)len, name);
			e.kind = TREE_DIR;
			e.id = put_tree(p, f, below);
		} else if (name[len] == '/') {
			continue;
		} else {
			e.id = put(p, f->text[i], strlen(f->text[i]));
			e.id.kind = tree_entry_content_kind(e.kind);
		}
		if (tree_builder_add(b, &e, &err) < 0)
			fail_msg("%s", err.msg);
	}
	if (tree_builder_store(b, p->store, &id, &err) < 0)
		fail_msg("%s", err.msg);
	tree_builder_free(b);
	return id;
}

static int by_component(const char *a, const char *b)
{
	size_t na = strcspn(a, "/"), nb = strcspn(b, "/");
	int r = memcmp(a, b, MIN(na, nb));

	if (r || na != nb)
		return r ? r : na < nb ? -1 : 1;
	return !a[na] ? 0 : by_component(a + na + 1, b + nb + 1);
}

static void check_against_naive(struct place *p, const struct flat *a, const struct flat *b)
{
	struct content_id ia = put_tree(p, a, ""), ib = put_tree(p, b, "");
	struct compare_result r = compare(p, &ia, &ib);
	uint64_t files = 0, different = 0, missing = 0, extra = 0;
	char first[16] = "", path[16];

	for (unsigned i = 0; i < FILES; i++) {
		bool in_a = a->text[i][0], in_b = b->text[i][0];
		bool same = in_a == in_b && str_eq(a->text[i], b->text[i]) &&
			    (!in_a || a->executable[i] == b->executable[i]);

		files += in_a || in_b;
		missing += in_a && !in_b;
		extra += in_b && !in_a;
		different += in_a && in_b && !same;
		path_of(i, path, sizeof(path));
		if (!same && (!*first || by_component(path, first) < 0))
			snprintf(first, sizeof(first), "%s", path);
	}
	assert_int_equal(r.n_files, files);
	assert_int_equal(r.n_different, different);
	assert_int_equal(r.n_missing, missing);
	assert_int_equal(r.n_extra, extra);
	assert_int_equal(r.verdict,
			 different + missing + extra ? VERDICT_DIFFERENT : VERDICT_IDENTICAL);
	if (different + missing + extra)
		assert_string_equal(r.path, first);
	else
		assert_null(r.path);
}

static void random_trees(void **state)
{
	struct place *p = *state;

	for (unsigned round = 0; round < 150; round++) {
		struct flat a = { 0 }, b;

		for (unsigned i = 0; i < FILES; i++)
			if (rnd(4))
				snprintf(a.text[i], sizeof(a.text[i]), "t%u", rnd(5));
		b = a;
		for (unsigned edits = rnd(4); edits > 0; edits--) {
			unsigned i = rnd(FILES);

			switch (rnd(3)) {
			case 0:
				b.text[i][0] = '\0';
				break;
			case 1:
				snprintf(b.text[i], sizeof(b.text[i]), "n%u", rnd(3));
				break;
			default:
				b.executable[i] = !b.executable[i];
			}
		}
		check_against_naive(p, &a, &b);
	}
}

/* Files. */

static void offsets(void **state)
{
	struct place *p = *state;
	size_t n = 5 * MIB;
	char *a = xcalloc(1, n), *b = xcalloc(1, n);
	static const size_t places[] = { 0, 1, 4095, MIB - 1, MIB, MIB + 1, 5 * MIB - 1 };

	for (size_t i = 0; i < ARRAY_LEN(places); i++) {
		struct content_id ia = put(p, a, n), ib;
		struct compare_result r;

		b[places[i]] = 1;
		ib = put(p, b, n);
		r = compare(p, &ia, &ib);
		assert_int_equal(r.verdict, VERDICT_DIFFERENT);
		assert_true(r.has_offset && r.offset == places[i]);
		assert_string_equal(r.path, "");
		b[places[i]] = 0;
		ib = put(p, b, places[i]); /* the beginning of the other */
		r = compare(p, &ia, &ib);
		assert_true(r.verdict == VERDICT_DIFFERENT && r.has_offset &&
			    r.offset == places[i]);
		assert_non_null(strstr(r.detail, "bytes → "));
		r = compare(p, &ia, &ia);
		assert_true(r.verdict == VERDICT_IDENTICAL && r.n_files == 1 && !r.path);
	}
	free(a);
	free(b);
}

static void one_side(void **state)
{
	struct place *p = *state;
	struct content_id a = put(p, "a", 1), none = { 0 };
	struct flat f = { .text = { "x" } };
	struct content_id tree = put_tree(p, &f, "");

	assert_int_equal(compare(p, &a, &none).verdict, VERDICT_MISSING);
	assert_int_equal(compare(p, &none, &a).verdict, VERDICT_EXTRA);
	assert_int_equal(compare(p, &none, &none).verdict, VERDICT_IDENTICAL);
	assert_int_equal(compare(p, &a, &tree).verdict, VERDICT_DIFFERENT);
}

static void gone_and_damaged(void **state)
{
	struct place *p = *state;
	struct content_id a = put(p, "was", 3), b = put(p, "is", 2);
	struct flat f = { .text = { "x", "y" } }, g = { .text = { "x", "z" } };
	struct content_id tf = put_tree(p, &f, ""), tg = put_tree(p, &g, "");
	char hex[DIGEST_HEX_MAX];
	_cleanup_(freep) char *path = NULL;
	struct compare_result r;

	digest_hex(&a.digest, hex);
	assert_int_equal(store_delete(p->store, STORE_BLOB, &a.digest, NULL), 0);
	r = compare(p, &a, &b);
	assert_int_equal(r.verdict, VERDICT_UNKNOWN);
	assert_non_null(strstr(r.detail, "is not in the store"));
	assert_non_null(strstr(r.detail, "sha256:"));
	assert_int_equal(compare(p, &a, &a).verdict, VERDICT_IDENTICAL); /* the ids say so */

	/* In a tree: the rest is compared all the same. */
	content_id_of_bytes("y", 1, &a);
	assert_int_equal(store_delete(p->store, STORE_BLOB, &a.digest, NULL), 0);
	r = compare(p, &tf, &tg);
	assert_int_equal(r.verdict, VERDICT_UNKNOWN);
	assert_string_equal(r.path, "d/b");
	assert_int_equal(r.n_files, 2);

	assert_int_equal(store_delete(p->store, STORE_TREE, &tf.digest, NULL), 0);
	assert_int_equal(compare(p, &tf, &tg).verdict, VERDICT_UNKNOWN);

	/* Bytes that somebody edited in the store. */
	a = put(p, "honest", 6);
	digest_hex(&a.digest, hex);
	path = xasprintf("%s/store/blobs/%.2s/%s", dir, hex, hex);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(fs_write_atomic(path, "hacked", 6, NULL), 0);
	r = compare(p, &a, &b);
	assert_int_equal(r.verdict, VERDICT_UNKNOWN);
	assert_non_null(strstr(r.detail, "damaged"));
}

/* The normaliser. */

static void answers(void **state)
{
	static const struct {
		const char *script;
		enum compare_verdict verdict;
		const char *normaliser, *detail;
	} rows[] = {
		{ "echo '{\"verdict\":\"same\",\"normaliser\":\"tar\",\"detail\":\"mtime of member "
		  "a\"}'",
		  VERDICT_NORMALISED, "tar", "mtime of member a" },
		{ "echo "
		  "'{\"verdict\":\"different\",\"normaliser\":\"npz\",\"member\":\"w.npy\","
		  "\"detail\":\"value at [3]\"}'",
		  VERDICT_DIFFERENT, NULL, "npz: w.npy: value at [3]" },
		{ "echo '{\"verdict\":\"none\",\"normaliser\":null}'", VERDICT_DIFFERENT, NULL,
		  NULL },
		{ "echo '{\"verdict\":\"same\"}'", VERDICT_DIFFERENT, NULL,
		  NULL }, /* without a name it is no answer */
		{ "echo '{\"verdict\":\"same\",\"normaliser\":7}'", VERDICT_DIFFERENT, NULL, NULL },
		{ "echo '{\"verdict\":\"same\",\"normaliser\":\"tar\"}'; exit 1", VERDICT_DIFFERENT,
		  NULL, NULL },
		{ "echo '{\"verdict\":\"same\",\"normaliser\":\"tar\"}'; kill -SEGV $$",
		  VERDICT_DIFFERENT, NULL, NULL },
		{ "echo nonsense", VERDICT_DIFFERENT, NULL, NULL },
		{ ":", VERDICT_DIFFERENT, NULL, NULL },
		{ "yes", VERDICT_DIFFERENT, NULL, NULL }, /* prints without end */
		{ "[ \"$(cat $4)$(cat $5)\" = 'one ftwo files' ] && [ $1 = normalise ] && [ -d "
		  "\"$TMPDIR\" ] && echo '{\"verdict\":\"same\",\"normaliser\":\"x\"}'",
		  VERDICT_NORMALISED, "x", NULL },
	};
	struct place *p = *state;
	struct content_id a = put(p, "one f", 5), b = put(p, "two files", 9);
	_cleanup_(freep) char *path = xasprintf("%s/fake", dir);

	p->c.steps_program = path;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(freep) char *text = xasprintf("#!/bin/sh\n%s\n", rows[i].script);
		struct compare_result r;

		unlink(path);
		assert_int_equal(
			fs_write_atomic_at(AT_FDCWD, path, text, strlen(text), 0755, 0, NULL), 0);
		r = compare(p, &a, &b);
		assert_int_equal(r.verdict, rows[i].verdict);
		assert_true(str_eq(r.normaliser, rows[i].normaliser));
		if (rows[i].detail)
			assert_string_equal(r.detail, rows[i].detail);
		assert_int_equal(r.n_normalised, rows[i].verdict == VERDICT_NORMALISED);
		assert_true(r.has_offset && r.offset == 0);
	}
}

/* One that is only normalised doesn't hide one that differs. */
static void the_worst_is_told(void **state)
{
	static const char script[] = "#!/bin/sh\ngrep -q same $4 && echo "
				     "'{\"verdict\":\"same\",\"normaliser\":\"x\"}'\nexit 0\n";
	struct place *p = *state;
	struct flat a = { .text = { "same1", "q1", "same3", "q2" } },
		    b = { .text = { "same2", "q1", "same4", "r2" } };
	struct content_id ia = put_tree(p, &a, ""), ib = put_tree(p, &b, "");
	_cleanup_(freep) char *path = xasprintf("%s/fake", dir);
	struct compare_result r;

	p->c.steps_program = path;
	assert_int_equal(fs_write_atomic_at(AT_FDCWD, path, script, strlen(script), 0755, 0, NULL),
			 0);
	r = compare(p, &ia, &ib);
	assert_int_equal(r.verdict, VERDICT_DIFFERENT);
	assert_string_equal(r.path, "x/d");
	assert_null(r.normaliser);
	assert_true(r.n_normalised == 2 && r.n_different == 1 && r.n_files == 4);
	memcpy(b.text[3], "q2", 3);
	ib = put_tree(p, &b, "");
	r = compare(p, &ia, &ib);
	assert_int_equal(r.verdict, VERDICT_NORMALISED);
	assert_string_equal(r.path, "a");
	assert_string_equal(r.normaliser, "x");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(random_trees, set_up, tear_down),
		cmocka_unit_test_setup_teardown(offsets, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_side, set_up, tear_down),
		cmocka_unit_test_setup_teardown(gone_and_damaged, set_up, tear_down),
		cmocka_unit_test_setup_teardown(answers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_worst_is_told, set_up, tear_down),
	};

	rnd_state = 20261121;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
