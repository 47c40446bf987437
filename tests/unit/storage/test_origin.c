/* Origins: references as records and in trees, pins of prefixes and globs, fetching only what was
 * pinned, checks, exports; against a bucket in memory. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/text/json.h"
#include "storage/bucket/memory.h"
#include "storage/export.h"
#include "storage/internal.h"
#include "storage/local/maintain.h"
#include "storage/origin/internal.h"
#include "storage/origin/origin.h"
#include "unit.h"

#define BUCKET "mem-bucket://world"

struct fixture {
	char dir[TEST_DIR_MAX];
	int fd;
	struct store *s;
	struct bucket *b;
};

static void open_store(struct fixture *f)
{
	_cleanup_(freep) char *path = xasprintf("%s/store", f->dir);

	assert_int_equal(store_open(path, true, &f->s, NULL), 0);
}

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	test_dir(f->dir, sizeof(f->dir), "origin");
	f->fd = open(f->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	open_store(f);
	assert_int_equal(bucket_open(BUCKET, NULL, &f->b, NULL), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	store_free(f->s);
	bucket_free(f->b);
	bucket_memory_forget("world");
	close(f->fd);
	fs_remove_tree(f->dir, NULL);
	free(f);
	return 0;
}

static void put(struct fixture *f, const char *key, const char *text)
{
	struct bucket_put p = { .key = key, .bytes = text, .fd = -1, .size = strlen(text) },
			  *v = &p;

	assert_int_equal(bucket_put_many(f->b, &v, 1, NULL), 0);
	assert_int_equal(p.result, 0);
}

static void drop(struct fixture *f, const char *key)
{
	assert_int_equal(bucket_delete_many(f->b, &key, 1, NULL), 0);
}

static struct origin_pinned pin(struct fixture *f, const char *uri, enum origin_mode mode)
{
	struct origin_request request = { .uri = uri, .options = "", .mode = mode, .copy_max = 20 };
	struct origin_pinned p;
	struct err err = { 0 };

	if (origin_pin(f->s, &request, &p, &err) < 0)
		fail_msg("%s", err.msg);
	return p;
}

static void must_fail(struct fixture *f, const char *uri, enum err_code code, const char *says)
{
	struct origin_request request = { .uri = uri, .options = "" };
	struct origin_pinned p;
	struct err err = { 0 };

	assert_int_equal(origin_pin(f->s, &request, &p, &err), -1);
	assert_int_equal(err.code, code);
	if (!strstr(err.msg, says))
		fail_msg("%s", err.msg);
}

static uint64_t n_gets(void)
{
	struct bucket_memory_counts c;

	bucket_memory_count("world", &c);
	return c.gets;
}

static void content_is(struct fixture *f, const char *path, const char *want)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err err = { 0 };

	if (fs_read_file_at(f->fd, path, MIB, &text, &err) < 0)
		fail_msg("%s", err.msg);
	assert_string_equal(text.s ? text.s : "", want);
}

static void lay_out(struct fixture *f, const struct content_id *id, const char *path)
{
	struct err err = { 0 };

	if (content_materialise_at(f->s, id, CONTENT_COPY_WRITABLE, f->fd, path, &err) < 0)
		fail_msg("%s", err.msg);
}

/* Records. */

static void test_record(void **state)
{
	struct fixture *f = *state;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct reference r = { "s3://bucket/a/b.csv", "\"abc\"", "endpoint=http://h\nregion=eu\n",
			       42 },
			 back;
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct content_id id;
	char hex[DIGEST_HEX_MAX];

	assert_int_equal(reference_check(&r, NULL), 0);
	assert_int_equal(reference_put(f->s, &r, &id, NULL), 0);
	assert_int_equal(id.kind, CONTENT_REFERENCE);
	assert_string_equal(
		digest_hex(&id.digest, hex),
		"2f1f8d354c3e84376678212e1c800d0fe1ecd21b6d8ec89efbf6b153bc426641"); /* golden */
	assert_int_equal(reference_load(f->s, &id, arena, &back, NULL), 0);
	assert_string_equal(back.uri, r.uri);
	assert_string_equal(back.version, r.version);
	assert_string_equal(back.options, r.options);
	assert_int_equal(back.size_bytes, 42);
	reference_encode(&r, &bytes);
	for (size_t n = 0; n < bytes.len; n++)
		assert_int_equal(reference_decode(bytes.s, n, arena, &back, NULL), -1);
	str_addc(&bytes, 'x');
	assert_int_equal(reference_decode(bytes.s, bytes.len, arena, &back, NULL), -1);
}

static void test_bad_references(void **state)
{
	static const struct reference bad[] = {
		{ "", "v", "", 0 },
		{ "ftp://x/y", "v", "", 0 },
		{ "s3://b/a\nb", "v", "", 0 },
		{ "s3://b/a/", "v", "", 0 },
		{ "s3://b/a", "", "", 0 },
		{ "s3://b/a", "v\x01", "", 0 },
		{ "s3://b/a", "v", "region=x", 0 },
		{ "s3://b/a", "v", "region=x\nendpoint=y\n", 0 },
		{ "s3://b/a", "v", "secret=x\n", 0 },
		{ "s3://b/a", "v", "anonymous=false\n", 0 },
		{ "s3://b/a", "v", "region=x\nregion=x\n", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (reference_check(&bad[i], NULL) == 0)
			fail_msg("case %zu passes", i);
}

/* In whichever order they are added, in places that change to and fro. */
static void test_listing(void **state)
{
	struct fixture *f = *state;
	static const struct reference refs[] = {
		{ "s3://b/p/a", "1", "", 1 },        { "s3://b/p/b", "2", "", 2 },
		{ "s3://b/q/c", "3", "", 3 },        { "s3://b/q/d", "4", "region=x\n", 4 },
		{ "https://h/x/other", "5", "", 5 }, { "s3://b/p/f", "6", "", 6 },
	};
	struct content_id ids[2];
	_cleanup_(tree_freep) struct tree *t = NULL;
	char hex[DIGEST_HEX_MAX], name[2] = "";

	for (int turn = 0; turn < 2; turn++) {
		struct tree_builder *b = tree_builder_new();

		for (size_t i = 0; i < ARRAY_LEN(refs); i++) {
			size_t k = turn ? ARRAY_LEN(refs) - 1 - i : i;

			name[0] = (char)('a' + (int)k);
			assert_int_equal(
				tree_builder_add(b,
						 &(struct tree_entry){ .name = name,
								       .name_len = 1,
								       .kind = TREE_REFERENCE,
								       .ref = &refs[k] },
						 NULL),
				0);
		}
		assert_int_equal(tree_builder_store(b, f->s, &ids[turn], NULL), 0);
		tree_builder_free(b);
	}
	assert_true(content_id_eq(&ids[0], &ids[1]));
	assert_string_equal(
		digest_hex(&ids[0].digest, hex),
		"1e6e0d964eb6559b3d2f304bfcadba5f3438af7ee000646e5fc71d86c7bc8645"); /* golden */
	assert_int_equal(tree_load(f->s, &ids[0], &t, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(refs); i++) {
		const struct reference *r = tree_at(t, i)->ref;

		assert_string_equal(r->uri, refs[i].uri);
		assert_string_equal(r->version, refs[i].version);
		assert_string_equal(r->options, refs[i].options);
		assert_int_equal(r->size_bytes, refs[i].size_bytes);
	}
}

/* The fuzzer's corpus: what is called good is accepted, what is called bad is not. */
static void test_corpus(void **state)
{
	static const char *const dirs[] = { "tests/fuzz/corpus/tree",
					    "tests/fuzz/corpus/reference" };
	unsigned seen[2] = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		DIR *d = opendir(dirs[i]);
		struct dirent *e;

		assert_non_null(d);
		while ((e = readdir(d))) {
			_cleanup_(arena_freep) struct arena *arena = arena_new();
			_cleanup_(str_deinit) struct str bytes = { 0 };
			_cleanup_(tree_freep) struct tree *t = NULL;
			bool good = str_has_prefix(e->d_name, "good");
			struct reference r;
			int got;

			if (!good && !str_has_prefix(e->d_name, "bad"))
				continue;
			assert_int_equal(fs_read_file_at(dirfd(d), e->d_name, MIB, &bytes, NULL),
					 0);
			got = i ? reference_decode(bytes.s ? bytes.s : "", bytes.len, arena, &r,
						   NULL)
				: tree_decode(bytes.s ? bytes.s : "", bytes.len, &t, NULL);
			if ((got == 0) != good)
				fail_msg("%s/%s: %d", dirs[i], e->d_name, got);
			seen[good]++;
		}
		closedir(d);
	}
	assert_true(seen[0] > 20 && seen[1] > 10);
}

/* Pins. */

static void fill(struct fixture *f)
{
	put(f, "p/a.txt", "a");
	put(f, "p/a/b.txt", "b");
	put(f, "p/a-b/c.csv", "ccc");
	put(f, "p/a/deep/d.txt", "dd");
	put(f, "p/a/", ""); /* a mark for a directory */
	put(f, "p/.hidden/x.txt", "x");
	put(f, "other/x", "0123456789012345678901234567890123456789");
}

static void test_prefix(void **state)
{
	struct fixture *f = *state;
	struct origin_pinned copy, ref, again;

	fill(f);
	copy = pin(f, BUCKET "/p/", ORIGIN_AUTO);
	assert_false(copy.by_reference);
	assert_int_equal(copy.objects, 5);
	assert_int_equal(copy.bytes, 8);
	assert_int_equal(copy.fetched, 5);
	assert_int_equal(n_gets(), 5);
	again = pin(f, BUCKET "/p/", ORIGIN_AUTO);
	assert_true(content_id_eq(&copy.id, &again.id));
	assert_int_equal(n_gets(), 5);
	ref = pin(f, BUCKET "/p/", ORIGIN_REFERENCE);
	assert_true(ref.by_reference);
	assert_int_equal(n_gets(), 5);
	lay_out(f, &copy.id, "copy");
	lay_out(f, &ref.id, "ref");
	assert_int_equal(n_gets(), 5); /* the copy's bytes serve */
	content_is(f, "copy/a/deep/d.txt", "dd");
	content_is(f, "ref/a/deep/d.txt", "dd");
	content_is(f, "ref/a-b/c.csv", "ccc");
	content_is(f, "ref/.hidden/x.txt", "x");
	assert_true(pin(f, BUCKET "/other/", ORIGIN_AUTO).by_reference);
}

static void test_globs(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *pattern;
		uint64_t n;
	} cases[] = { { "*.txt", 1 },      { "**/*.txt", 3 },     { "**", 4 },
		      { "a/*", 1 },        { "a*/*.csv", 1 },     { ".hidden/*", 1 },
		      { "*/*", 2 },        { "a/**", 2 },         { "[a-b].txt", 1 },
		      { "**/deep/**", 1 }, { "a/deep/d.tx?", 1 }, { "**/**/**/d.txt", 1 } };

	fill(f);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(freep) char *uri = xasprintf(BUCKET "/p/%s", cases[i].pattern);
		struct origin_pinned p = pin(f, uri, ORIGIN_REFERENCE);

		if (p.objects != cases[i].n)
			fail_msg("%s matches %llu", cases[i].pattern,
				 (unsigned long long)p.objects);
	}
	must_fail(f, BUCKET "/p/*.nope", ERR_NOT_FOUND, "no object matches");
}

static void test_single(void **state)
{
	struct fixture *f = *state;
	struct origin_pinned ref, copy, tree;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct tree_entry e;

	fill(f);
	ref = pin(f, BUCKET "/other/x", ORIGIN_AUTO);
	copy = pin(f, BUCKET "/p/a.txt", ORIGIN_AUTO);
	assert_int_equal(ref.id.kind, CONTENT_REFERENCE);
	assert_int_equal(copy.id.kind, CONTENT_BLOB);
	lay_out(f, &ref.id, "x");
	content_is(f, "x", "0123456789012345678901234567890123456789");
	/* the same object out of a listing has the same id */
	tree = pin(f, BUCKET "/other/", ORIGIN_AUTO);
	assert_int_equal(tree_lookup(f->s, &tree.id, "x", arena, &e, NULL), 0);
	assert_int_equal(tree_entry_resolve(f->s, &e, NULL), 0);
	assert_true(content_id_eq(&e.id, &ref.id));
}

static void test_impossible(void **state)
{
	struct fixture *f = *state;

	must_fail(f, BUCKET "/none/", ERR_NOT_FOUND, "no object under it");
	must_fail(f, BUCKET "/none", ERR_NOT_FOUND, "no such object");
	put(f, "both/a", "1");
	put(f, "both/a/b", "2");
	must_fail(f, BUCKET "/both/", ERR_INVALID, "an object and a prefix have one name");
	must_fail(f, BUCKET "/both", ERR_NOT_FOUND, "write it with a slash");
	put(f, "empty//part", "1");
	must_fail(f, BUCKET "/empty/", ERR_INVALID, "empty part");
	put(f, "up/../x", "1");
	must_fail(f, BUCKET "/up/", ERR_INVALID, "can't be the name of a file");
	bucket_memory_faults("world", &(struct bucket_memory_faults){ .down = true });
	must_fail(f, BUCKET "/up/", ERR_IO, "reset");
}

/* Changes. */

static void test_changed(void **state)
{
	struct fixture *f = *state;
	struct origin_pinned p;
	struct err err = { 0 };

	fill(f);
	p = pin(f, BUCKET "/p/", ORIGIN_REFERENCE);
	put(f, "p/a/b.txt", "B"); /* of the same size */
	assert_int_equal(
		content_materialise_at(f->s, &p.id, CONTENT_COPY_WRITABLE, f->fd, "out", &err), -1);
	assert_int_equal(err.code, ERR_CHANGED);
	assert_non_null(strstr(err.msg, BUCKET
			       "/p/a/b.txt: the origin has changed since the run pinned it"));
	assert_int_equal(faccessat(f->fd, "out", F_OK, 0), -1);
	drop(f, "p/a/b.txt");
	assert_int_equal(
		content_materialise_at(f->s, &p.id, CONTENT_COPY_WRITABLE, f->fd, "out", &err), -1);
	assert_non_null(strstr(err.msg, "it is gone"));
}

static void test_memo(void **state)
{
	struct fixture *f = *state;
	struct origin_pinned p, again;
	_cleanup_(freep) char *memo = xasprintf("%s/store/origins", f->dir);
	struct stat st;

	fill(f);
	p = pin(f, BUCKET "/p/", ORIGIN_COPY);
	/* another process */
	store_free(f->s);
	open_store(f);
	assert_int_equal(pin(f, BUCKET "/p/", ORIGIN_COPY).fetched, 0);
	/* a torn end, and what follows it in another process */
	assert_int_equal(stat(memo, &st), 0);
	assert_int_equal(truncate(memo, st.st_size - 5), 0);
	store_free(f->s);
	open_store(f);
	assert_int_equal(pin(f, BUCKET "/p/", ORIGIN_COPY).fetched, 1);
	store_free(f->s);
	open_store(f);
	assert_int_equal(pin(f, BUCKET "/p/", ORIGIN_COPY).fetched, 0);
	/* rubbish */
	assert_int_equal(fs_write_atomic(memo, "rubbish", 7, NULL), 0);
	store_free(f->s);
	open_store(f);
	assert_int_equal(pin(f, BUCKET "/p/", ORIGIN_COPY).fetched, 5);
	/* bytes that the store has lost */
	{
		_cleanup_(freep) char *blobs = xasprintf("%s/store/blobs", f->dir);

		assert_int_equal(fs_remove_tree(blobs, NULL), 0);
		store_free(f->s);
		open_store(f);
		again = pin(f, BUCKET "/p/", ORIGIN_COPY);
		assert_true(content_id_eq(&p.id, &again.id));
		assert_int_equal(content_verify(f->s, &p.id, NULL), 0);
	}
}

static int no_space(struct store *s, enum store_space space, const struct digest *name,
		    const void *bytes, size_t n, bool replace, struct err *err)
{
	return err_set(err, ERR_NO_SPACE, "the disk is full");
}

/* Why a listing can't be stored is said as it is. */
static void test_pin_that_fails(void **state)
{
	struct origin_request request = { .uri = BUCKET "/n/",
					  .options = "",
					  .mode = ORIGIN_REFERENCE };
	struct origin_pinned pinned;
	struct fixture *f = *state;
	const struct store_ops *own = f->s->ops;
	struct store_ops ops = *own;
	struct err err = { 0 };

	put(f, "n/a", "1");
	ops.put = no_space;
	f->s->ops = &ops;
	assert_int_equal(origin_pin(f->s, &request, &pinned, &err), -1);
	f->s->ops = own;
	assert_int_equal(err.code, ERR_NO_SPACE);
	assert_non_null(strstr(err.msg, "the disk is full"));
	assert_null(strstr(err.msg, "one name"));
	put(f, "n/a/b", "2");
	err = (struct err){ 0 };
	assert_int_equal(origin_pin(f->s, &request, &pinned, &err), -1);
	assert_non_null(strstr(err.msg, "an object and a prefix have one name"));
}

static void count(void *arg, const struct reference *r, enum origin_state s, const char *why)
{
	str_addf(arg, "%d %s\n", s, strrchr(r->uri, '/') + 1);
}

static void test_check(void **state)
{
	struct fixture *f = *state;
	_cleanup_(str_deinit) struct str said = { 0 };
	struct origin_check c = { .on_problem = count, .arg = &said };
	struct content_id ids[3];

	for (int i = 0; i < 20; i++) {
		char key[32];

		snprintf(key, sizeof(key), "many/%02d", i);
		put(f, key, "x");
	}
	fill(f);
	ids[0] = pin(f, BUCKET "/many/", ORIGIN_REFERENCE).id;
	ids[1] = pin(f, BUCKET "/p/", ORIGIN_REFERENCE).id;
	ids[2] = pin(f, BUCKET "/other/x", ORIGIN_REFERENCE).id;
	put(f, "many/05", "y");
	drop(f, "many/06");
	drop(f, "other/x");
	put(f, "p/a.txt", "aa");
	for (int i = 0; i < 3; i++)
		assert_int_equal(origin_check(f->s, &ids[i], &c, NULL), 0);
	assert_int_equal(c.n[ORIGIN_UNCHANGED], 18 + 4);
	assert_string_equal(said.s, "1 05\n2 06\n1 a.txt\n2 x\n");
	memset(c.n, 0, sizeof(c.n));
	bucket_memory_faults("world", &(struct bucket_memory_faults){ .down = true });
	assert_int_equal(origin_check(f->s, &ids[0], &c, NULL), 0);
	assert_int_equal(c.n[ORIGIN_UNREACHABLE], 20);
}

/* Each reference is told once: of a place that may not be asked, and when several mean one object.
 */
static void test_check_counts_each(void **state)
{
	static const struct reference strange = { "s3://bucket/d/k", "\"v\"",
						  "endpoint=http://127.0.0.1:2\nregion=eu\n", 5 };
	struct fixture *f = *state;

	for (int there = 0; there < 2; there++) {
		_cleanup_(str_deinit) struct str strings = { 0 };
		struct tree_builder *b = tree_builder_new();
		struct origin_check c = { .arg = NULL };
		struct reference r = strange;
		struct bucket_object o;
		struct content_id id;

		if (there) {
			put(f, "d/k", "x");
			assert_int_equal(bucket_head(f->b, "d/k", &o, &strings, NULL), 0);
			r = (struct reference){ BUCKET "/d/k", o.etag, "", 1 };
		}
		for (char name = 'a'; name < 'a' + 20; name++) {
			const struct tree_entry e = {
				.name = &name, .name_len = 1, .kind = TREE_REFERENCE, .ref = &r
			};

			assert_int_equal(tree_builder_add(b, &e, NULL), 0);
		}
		assert_int_equal(tree_builder_store(b, f->s, &id, NULL), 0);
		tree_builder_free(b);
		assert_int_equal(origin_check(f->s, &id, &c, NULL), 0);
		assert_int_equal(c.n[there ? ORIGIN_UNCHANGED : ORIGIN_UNREACHABLE], 20);
	}
}

/* gc keeps records that something names, and forgets bytes that only references mean; they come
 * again. */
static void test_gc(void **state)
{
	struct fixture *f = *state;
	struct origin_pinned single, tree;
	struct content_id roots[2];
	struct store_gc_result res;
	struct store_gc_options o = { .contents = roots, .n_contents = 2 };
	bool complete[2];

	fill(f);
	roots[0] = (single = pin(f, BUCKET "/other/x", ORIGIN_REFERENCE)).id;
	roots[1] = (tree = pin(f, BUCKET "/p/", ORIGIN_REFERENCE)).id;
	lay_out(f, &tree.id, "before");
	o.now_ns = 4000000000LL * NS_PER_S;
	o.grace_ns = o.mark_gap_ns = 3600 * NS_PER_S;
	assert_int_equal(store_gc(f->s, &o, &res, NULL), 0);
	o.now_ns += 7200 * NS_PER_S;
	assert_int_equal(store_gc(f->s, &o, &res, NULL), 0);
	assert_true(res.deleted >= 5);
	store_free(f->s);
	open_store(f);
	assert_int_equal(content_complete(f->s, roots, 2, complete, NULL), 0);
	assert_true(complete[0] && complete[1]);
	lay_out(f, &tree.id, "after");
	lay_out(f, &single.id, "single");
	content_is(f, "after/a/b.txt", "b");
}

/* URLs. */

/* A reference that somebody put into a shared store must not make us sign requests for a server of
 * his. */
static void test_strange_endpoint(void **state)
{
	const struct reference r = { "s3://bucket/key", "v",
				     "endpoint=http://127.0.0.1:1\nregion=eu\n", 5 };
	const struct reference unsigned_r = { "s3://bucket/key", "v",
					      "anonymous=true\nendpoint=http://127.0.0.1:1\n", 5 };
	const struct bucket_options defaults = { .tries = 1 };
	struct fixture *f = *state;
	struct content_id id;
	struct err err = { 0 };

	store_set_origins(f->s, &defaults);
	assert_int_equal(origin_fetch(f->s, &unsigned_r, 1, &id, &err),
			 -1); /* nor ask what only we can reach */
	if (!strstr(err.msg, "over https:// only"))
		fail_msg("%s", err.msg);
	err = (struct err){ 0 };
	setenv("AWS_ACCESS_KEY_ID", "id", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
	store_set_origins(f->s, &defaults);
	assert_int_equal(origin_fetch(f->s, &r, 1, &id, &err), -1);
	assert_non_null(strstr(err.msg, "no credentials are sent"));
	setenv("CAIRN_TRUST_ENDPOINTS", "http://127.0.0.1:1/", 1);
	store_trust_endpoint(f->s, "http://127.0.0.1:1");
	err = (struct err){ 0 };
	assert_int_equal(origin_fetch(f->s, &r, 1, &id, &err), -1);
	assert_null(strstr(err.msg, "no credentials are sent"));
	assert_int_equal(err.code, ERR_IO);
}

static void test_public(void **state)
{
	static const struct {
		const char *uri, *want;
	} cases[] = {
		{ "s3://b/k?sig=1#x", "s3://b/k?sig=1#x" }, /* a key may have any character */
		{ "https://h/a", "https://h/a" },
		{ "https://h/a?x=1&y=2#frag", "https://h/a?x=1&y=2" },
		{ "https://user:pw@h:8/a", "https://h:8/a" },
		{ "https://h/a?X-Amz-Signature=s&X-Amz-Credential=c&v=2", "https://h/a?v=2" },
		{ "https://h/a?v=2&sig=abc&se=2024", "https://h/a?v=2" },
		{ "https://h/a?Signature=s&Expires=1&AWSAccessKeyId=x", "https://h/a" },
		{ "https://h/a?access_token=x", "https://h/a" },
		{ "https://h", "https://h" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(str_deinit) struct str out = { 0 };

		origin_public_uri(cases[i].uri, &out);
		assert_string_equal(out.s, cases[i].want);
	}
}

/* Exports. */

static struct content_id make_tree(struct fixture *f, const char *a, const char *b)
{
	struct tree_builder *tb = tree_builder_new();
	struct content_id id;
	struct tree_entry e = { .name = "a", .name_len = 1, .kind = TREE_FILE };

	content_put_bytes(f->s, a, strlen(a), &e.id, NULL);
	tree_builder_add(tb, &e, NULL);
	e.name = b;
	content_put_bytes(f->s, "b", 1, &e.id, NULL);
	tree_builder_add(tb, &e, NULL);
	assert_int_equal(tree_builder_store(tb, f->s, &id, NULL), 0);
	tree_builder_free(tb);
	return id;
}

/* What readers may see at each moment: never a mark whose files aren't all there with the bytes
 * that it says. */
struct watcher {
	struct fixture *f;
	struct bucket *b;
	bool inside;
	unsigned looks, marks;
};

static bool fetch_text(struct bucket *b, const char *key, struct str *out)
{
	struct bucket_get g = { .key = key, .size = UINT64_MAX, .fd = -1, .max_bytes = MIB },
			  *v = &g;
	bool there = bucket_get_many(b, &v, 1, NULL) == 0 && g.result == 0;

	if (there)
		str_addn(out, g.body.s ? g.body.s : "", g.body.len);
	str_deinit(&g.body);
	return there;
}

static void look(void *arg, const char *what, const char *key)
{
	struct watcher *w = arg;
	_cleanup_(str_deinit) struct str mark = { 0 };
	json_t *j = NULL, *file;
	size_t i;

	if (w->inside)
		return;
	w->inside = true;
	w->looks++;
	if (fetch_text(w->b, "dir/" EXPORT_MARK, &mark)) {
		w->marks++;
		assert_int_equal(json_parse("mark", mark.s, mark.len, &j, NULL), 0);
		json_array_foreach(json_object_get(j, "files"), i, file)
		{
			_cleanup_(freep) char *at = xasprintf(
				"dir/%s", json_string_value(json_object_get(file, "name")));
			_cleanup_(str_deinit) struct str bytes = { 0 };
			struct digest d;
			char hex[DIGEST_HEX_MAX];

			assert_true(fetch_text(w->b, at, &bytes));
			digest_bytes(bytes.s ? bytes.s : "", bytes.len, &d);
			assert_string_equal(digest_hex(&d, hex),
					    json_string_value(json_object_get(file, "sha256")));
		}
		json_decref(j);
	}
	w->inside = false;
}

static void test_export_order(void **state)
{
	struct fixture *f = *state;
	struct watcher w = { .f = f };
	struct export_request request = { .uri = BUCKET "/dir",
					  .name = "dir",
					  .pipeline = "p",
					  .task = "t",
					  .output = "o",
					  .run = "r" };
	struct export_done done;

	assert_int_equal(bucket_open(BUCKET, NULL, &w.b, NULL), 0);
	bucket_memory_faults("world", &(struct bucket_memory_faults){ .before = look, .arg = &w });
	for (int i = 0; i < 4; i++) {
		request.id = make_tree(f, i % 2 ? "one" : "two", i < 2 ? "b" : "c");
		assert_int_equal(content_export(f->s, &request, &done, NULL), 0);
		assert_int_equal(done.files, 2);
	}
	assert_true(w.looks > 10 && w.marks > 3);
	bucket_memory_faults("world", &(struct bucket_memory_faults){ 0 });
	bucket_free(w.b);
}

/* Cut off after each number of writes: the mark that readers see is always true; and trying again
 * ends well. */
static void test_export_cut(void **state)
{
	struct fixture *f = *state;
	struct watcher w = { .f = f };
	struct export_request request = { .uri = BUCKET "/dir/",
					  .name = "dir",
					  .pipeline = "p",
					  .task = "t",
					  .output = "o",
					  .run = "r" };
	struct export_done done;
	unsigned failed = 0;

	assert_int_equal(bucket_open(BUCKET, NULL, &w.b, NULL), 0);
	for (uint64_t n = 1; n < 12; n++) {
		request.id = make_tree(f, n % 2 ? "one" : "two", n % 3 ? "b" : "c");
		bucket_memory_faults(
			"world", &(struct bucket_memory_faults){ .fail_after_writes = n % 4 + 1 });
		failed += content_export(f->s, &request, &done, NULL) < 0;
		bucket_memory_faults("world", &(struct bucket_memory_faults){ 0 });
		look(&w, "", "");
		assert_int_equal(content_export(f->s, &request, &done, NULL), 0);
		look(&w, "", "");
	}
	assert_true(failed > 0);
	bucket_free(w.b);
}

static void test_export_place(void **state)
{
	static const struct {
		const char *uri;
		bool tree;
		const char *want;
	} cases[] = {
		{ "s3://b/x/", true, "s3://b/x" },       { "s3://b/x/", false, "s3://b/x/n.txt" },
		{ "s3://b/x", false, "s3://b/x" },       { "file:///a/b/", true, "/a/b" },
		{ "/a//b/./c/", false, "/a/b/c/n.txt" }, { "/", false, "/n.txt" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct export_request request = { .uri = cases[i].uri,
						  .name = "n.txt",
						  .id = { .kind = cases[i].tree ? CONTENT_TREE
										: CONTENT_BLOB } };
		_cleanup_(freep) char *place = export_place(&request);

		assert_string_equal(place, cases[i].want);
	}
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_record),
		cmocka_unit_test(test_bad_references),
		T(test_listing),
		T(test_prefix),
		T(test_globs),
		T(test_single),
		T(test_impossible),
		T(test_changed),
		T(test_memo),
		T(test_check),
		T(test_pin_that_fails),
		T(test_check_counts_each),
		T(test_gc),
		T(test_strange_endpoint),
		cmocka_unit_test(test_corpus),
		cmocka_unit_test(test_public),
		T(test_export_order),
		T(test_export_cut),
		cmocka_unit_test(test_export_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
