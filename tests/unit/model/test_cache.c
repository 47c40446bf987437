/* The cache of parsed models: what comes back is what went in; what is damaged, foreign or outdated
 * is ignored. */
#include "core/seeds.h"
#include "unit.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "model/cache/cache.h"

static char *home;
static char dir[TEST_DIR_MAX];

static int enter_temp(void **state)
{
	test_dir(dir, sizeof(dir), "cache");
	return 0;
}

static int leave_temp(void **state)
{
	assert_int_equal(chdir(home), 0);
	return fs_remove_tree(dir, NULL);
}

static struct pipeline *load(const char *path, const char *cache_dir, char **ret_said)
{
	struct pipeline_load_options o = { .project_root = ".", .cache_dir = cache_dir };
	struct diag_list *diags = diag_list_new();
	struct pipeline *p = NULL;
	struct str said = { 0 };

	str_add(&said, "");
	pipeline_load(path, &o, diags, &p, NULL);
	diag_render(diags, &said);
	diag_list_free(diags);
	if (ret_said)
		*ret_said = str_take(&said);
	str_deinit(&said);
	return p;
}

static void encode(const struct pipeline *p, struct str *out)
{
	assert_true(model_encode(p, out));
	str_addc(out, '\0');
	out->len--;
}

static void assert_same(const struct pipeline *a, const struct pipeline *b)
{
	struct str x = { 0 }, y = { 0 };

	encode(a, &x);
	encode(b, &y);
	assert_int_equal(x.len, y.len);
	assert_memory_equal(x.s, y.s, x.len);
	str_deinit(&x);
	str_deinit(&y);
}

static const char *const examples[] = { "fashion.yaml", "everything.yaml", "smallest.yaml",
					"when.yaml" };

static void test_round_trip(void **state)
{
	assert_int_equal(chdir("tests/unit/model/good"), 0);
	for (size_t i = 0; i < ARRAY_LEN(examples); i++) {
		struct pipeline *p = load(examples[i], NULL, NULL), *q = NULL;
		struct arena *arena = arena_new();
		struct str bytes = { 0 };

		encode(p, &bytes);
		assert_true(model_decode(bytes.s, bytes.len, arena, &q));
		assert_same(p, q);
		assert_string_equal(p->name, q->name);
		assert_int_equal(p->n_steps, q->n_steps);
		for (size_t k = 0; k < p->n_steps; k++) {
			assert_int_equal(q->steps[k].index, k);
			assert_string_equal(q->steps[k].name, p->steps[k].name);
			assert_string_equal(q->steps[k].program.shell, p->steps[k].program.shell);
			assert_memory_equal(&q->steps[k].policy->retry, &p->steps[k].policy->retry,
					    sizeof(p->steps[k].policy->retry));
			assert_int_equal(q->steps[k].machine->resources.memory_bytes,
					 p->steps[k].machine->resources.memory_bytes);
			assert_string_equal(q->steps[k].pos.file, examples[i]);
		}
		pipeline_free(p);
		pipeline_free(q);
		str_deinit(&bytes);
	}
}

/* A model that decoded, however it came to be, must be safe to walk. */
static void walk(const struct pipeline *p)
{
	struct str out = { 0 };

	model_encode(p, &out);
	str_deinit(&out);
}

static void try_decode(const char *bytes, size_t len)
{
	struct arena *arena = arena_new();
	char *copy = xmalloc(len + 1); /* exactly as long as it is, for the sanitizer */
	struct pipeline *p = NULL;

	memcpy(copy, bytes, len);
	if (model_decode(copy, len, arena, &p))
		walk(p);
	free(copy);
	arena_free(arena);
}

static void test_hostile(void **state)
{
	static const unsigned char values[] = { 0x00, 0x01, 0x7f, 0x80, 0xff };

	assert_int_equal(chdir("tests/unit/model/good"), 0);
	for (size_t i = 0; i < ARRAY_LEN(examples); i++) {
		struct pipeline *p = load(examples[i], NULL, NULL);
		struct str bytes = { 0 };

		encode(p, &bytes);
		for (size_t at = 0; at < bytes.len; at += seeds_stride(17)) {
			char was = bytes.s[at];

			try_decode(bytes.s, at);
			for (size_t k = 0; k < ARRAY_LEN(values); k++) {
				bytes.s[at] = (char)values[k];
				try_decode(bytes.s, bytes.len);
			}
			bytes.s[at] = (char)(was + 1);
			try_decode(bytes.s, bytes.len);
			bytes.s[at] = was;
		}
		pipeline_free(p);
		str_deinit(&bytes);
	}
}

static void put(const char *path, const char *text)
{
	struct err err = { 0 };

	if (fs_write_atomic(path, text, strlen(text), &err) < 0)
		fail_msg("%s", err.msg);
}

static size_t count_files(const char *suffix, char *ret_path)
{
	DIR *d = opendir("cache");
	struct dirent *e;
	size_t n = 0;

	while (d && (e = readdir(d)))
		if (str_has_suffix(e->d_name, suffix)) {
			n++;
			if (ret_path)
				snprintf(ret_path, 120, "cache/%.100s", e->d_name);
		}
	if (d)
		closedir(d);
	return n;
}

#define MAIN "pipeline: p\nparams: {unused: 1}\nsteps: {a: {uses: ./s.yaml}}\n"

/* What a cached model says is told apart from what the files say by changing the cached bytes, with
 * their checksum. */
static void test_used(void **state)
{
	struct pipeline *p, *q;
	char *first, *second, path[200];
	struct str bytes = { 0 };

	assert_int_equal(chdir(dir), 0);
	put("p.yaml", MAIN);
	put("s.yaml", "step: s\nrun: x\n");
	p = load("p.yaml", "cache", &first);
	assert_string_equal(first, "p.yaml:2:10: warning: param `unused` is used nowhere\n");
	assert_int_equal(count_files(".model", path), 1);
	q = load("p.yaml", "cache", &second);
	assert_same(p, q);
	assert_string_equal(first, second);
	assert_memory_equal(&p->digest, &q->digest, sizeof(p->digest));
	pipeline_free(q);
	free(second);

	/* Damage: parsed again, and written again. */
	assert_int_equal(fs_read_file(path, MIB, &bytes, NULL), 0);
	for (size_t at = 0; at < bytes.len; at += 7) {
		bytes.s[at] ^= 0x40;
		assert_int_equal(fs_write_atomic(path, bytes.s, bytes.len, NULL), 0);
		bytes.s[at] ^= 0x40;
		q = load("p.yaml", "cache", NULL);
		assert_non_null(q);
		assert_same(p, q);
		pipeline_free(q);
	}
	assert_int_equal(truncate(path, 30), 0);
	q = load("p.yaml", "cache", NULL);
	assert_same(p, q);
	pipeline_free(q);
	assert_int_equal(truncate(path, 0), 0);
	q = load("p.yaml", "cache", NULL);
	assert_same(p, q);
	pipeline_free(q);
	pipeline_free(p);
	free(first);
	str_deinit(&bytes);
}

static void test_changes(void **state)
{
	struct pipeline *p, *q;
	char *said;

	assert_int_equal(chdir(dir), 0);
	put("p.yaml", MAIN);
	put("s.yaml", "step: s\nrun: x\n");
	p = load("p.yaml", "cache", NULL);

	put("s.yaml", "step: s\nrun: y\n");
	q = load("p.yaml", "cache", NULL);
	assert_string_equal(template_literal(q->steps[0].program.run), "y");
	assert_false(digest_eq(&p->digest, &q->digest));
	pipeline_free(p);
	pipeline_free(q);

	put("s.yaml", "step: s\nrun: ${{ nothing }}\n");
	assert_null(load("p.yaml", "cache", &said));
	assert_string_equal(said, "s.yaml:2:10: there is nothing called `nothing`\n");
	free(said);
	assert_int_equal(unlink("s.yaml"), 0);
	assert_null(load("p.yaml", "cache", NULL));

	put("s.yaml", "step: s\nrun: x\n");
	put("p.yaml", "pipeline: p\nsteps: {b: {uses: ./s.yaml}}\n");
	p = load("p.yaml", "cache", NULL);
	assert_string_equal(p->steps[0].name, "b");
	pipeline_free(p);
}

/* The file that is really read is the cached one: a second load gives the same without the parser's
 * help. */
static void test_really_cached(void **state)
{
	struct pipeline *p, *q;
	struct str bytes = { 0 }, text = { 0 };
	struct model_cache_key key;
	struct arena *arena = arena_new();
	char path[200];

	assert_int_equal(chdir(dir), 0);
	put("a.yaml", "pipeline: p\nsteps: {one: {run: x}}\n");
	put("b.yaml", "pipeline: p\nsteps: {two: {run: x}}\n");
	p = load("a.yaml", "cache", NULL);
	assert_int_equal(count_files(".model", path), 1);
	assert_int_equal(fs_read_file("b.yaml", MIB, &text, NULL), 0);
	model_cache_key(".", "b.yaml", "b.yaml", text.s, text.len, &key);
	assert_int_equal(fs_read_file(path, MIB, &bytes, NULL), 0);
	{
		char hex[DIGEST_HEX_MAX];
		char *as_b = xasprintf("cache/%s.model", digest_hex(&key.digest, hex));

		assert_int_equal(fs_write_atomic(as_b, bytes.s, bytes.len, NULL), 0);
		free(as_b);
	}
	q = load("b.yaml", "cache", NULL);
	assert_string_equal(q->steps[0].name, "one");
	pipeline_free(p);
	pipeline_free(q);
	str_deinit(&bytes);
	str_deinit(&text);
	arena_free(arena);
}

static void test_bounded(void **state)
{
	assert_int_equal(chdir(dir), 0);
	put("cache-is-a-file", "");
	for (int i = 0; i < MODEL_CACHE_FILES + 5; i++) {
		char *yaml = xasprintf("pipeline: p\nsteps: {s%d: {run: x}}\n", i);

		put("p.yaml", yaml);
		pipeline_free(load("p.yaml", "cache", NULL));
		free(yaml);
	}
	assert_int_equal(count_files(".model", NULL), MODEL_CACHE_FILES);
	assert_int_equal(count_files("", NULL), MODEL_CACHE_FILES + 2); /* . and .. */

	/* A cache that can't be written is no error. */
	pipeline_free(load("p.yaml", "cache-is-a-file", NULL));
	pipeline_free(load("p.yaml", "/proc/nowhere", NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_round_trip, enter_temp, leave_temp),
		cmocka_unit_test_setup_teardown(test_hostile, enter_temp, leave_temp),
		cmocka_unit_test_setup_teardown(test_used, enter_temp, leave_temp),
		cmocka_unit_test_setup_teardown(test_changes, enter_temp, leave_temp),
		cmocka_unit_test_setup_teardown(test_really_cached, enter_temp, leave_temp),
		cmocka_unit_test_setup_teardown(test_bounded, enter_temp, leave_temp),
	};
	int r;

	home = getcwd(NULL, 0);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	free(home);
	return r;
}
