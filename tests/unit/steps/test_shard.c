/* steps/shard: the assignment against its formula and a naive model, rules, and what must hold of
 * any set of samples. */
#include <stdio.h>
#include <string.h>
#include "base/os/fs.h"
#include "steps/shard/internal.h"
#include "unit.h"

static char dir[TEST_DIR_MAX];

static int set_up(void **state)
{
	test_dir(dir, sizeof(dir), "shard");
	return 0;
}

static int tear_down(void **state)
{
	return fs_remove_tree(dir, NULL);
}

/* Hashes. */

/* From another implementation: python3 -c "import hashlib; print(hashlib.sha256(b'cairn shard 1\0'
 * + (7).to_bytes(8, 'little') + b'cat/001').hexdigest())" */
static const struct {
	const char *key;
	int64_t seed;
	uint64_t u[3];
} hashes[] = {
	{ "cat/001", 7, { 0xcf396616360f5ef2, 0x95b78179c1bb28bf, 0x27cfb92df90920a1 } },
	{ "", 0, { 0x229c501a7fa94cec, 0xdf9ece5d3eaf78f5, 0x48eb1ad15b37129e } },
	{ "\303\274ber mich/\303\274",
	  -1,
	  { 0x32477cf74c362f28, 0xc08ea1d1193ff4bd, 0xb7d8ac54a145a281 } },
};

static void the_formula_is_kept(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(hashes); i++) {
		uint64_t u[3];

		sample_hash(hashes[i].seed, hashes[i].key, strlen(hashes[i].key), u);
		assert_memory_equal(u, hashes[i].u, sizeof(u));
	}
}

/* Rules. */

static bool two_columns(void *arg, const char *name, const char **ret, size_t *ret_n)
{
	*ret = strcmp(name, "label") == 0 ? " cat\n" : strcmp(name, "empty") == 0 ? "" : NULL;
	*ret_n = *ret ? strlen(*ret) : 0;
	return *ret;
}

static const struct {
	const char *rule, *key, *want;
} rules[] = {
	{ "{\"folder\": {\"depth\": 1}}", "a/b/c/x", "a" },
	{ "{\"folder\": {\"depth\": 2}}", "a/b/c/x", "b" },
	{ "{\"folder\": {\"depth\": 3}}", "a/b/c/x", "c" },
	{ "{\"folder\": {\"depth\": 4}}", "a/b/c/x", NULL },
	{ "{\"folder\": {\"depth\": -1}}", "a/b/c/x", "c" },
	{ "{\"folder\": {\"depth\": -3}}", "a/b/c/x", "a" },
	{ "{\"folder\": {\"depth\": -4}}", "a/b/c/x", NULL },
	{ "{\"folder\": {\"depth\": 1}}", "x", NULL },
	{ "{\"pattern\": {\"regex\": \"^([a-z]+)_\"}}", "dog_12", "dog" },
	{ "{\"pattern\": {\"regex\": \"[0-9]+\"}}", "dog_12", "12" },
	{ "{\"pattern\": {\"regex\": \"^([a-z]+)_\"}}", "12", NULL },
	{ "{\"pattern\": {\"regex\": \"x*\"}}", "12", NULL },
	{ "{\"column\": {\"name\": \"label\"}}", "x", "cat" },
	{ "{\"column\": {\"name\": \"empty\"}}", "x", NULL },
	{ "{\"column\": {\"name\": \"other\"}}", "x", NULL },
	{ "{\"field\": {\"name\": \"cls\"}}", "x", "7" },
	{ "{\"field\": {\"name\": \"txt\"}}", "x", NULL },
	{ "{\"auto\": {}}", "a/x", "7" },
};

static void rules_find_words(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
		struct part cls = { .field = "cls", .where = PART_MEMORY, .at = "7\n", .n = 2 };
		struct draft d = {
			.key = rules[i].key, .parts = &cls, .n_parts = 1, .column = two_columns
		};
		struct set s = { 0 };
		struct rule r;
		struct str word = { 0 };
		struct err err = { 0 };
		json_t *rule, *with;
		int found;

		assert_int_equal(
			json_parse("rule", rules[i].rule, strlen(rules[i].rule), &rule, &err), 0);
		with = json_pack("{so}", "class", rule);
		assert_int_equal(rule_read(&r, with, "class", &err), 0);
		found = rule_word(&s, &r, &d, &word, &err);
		assert_int_equal(found, rules[i].want != NULL);
		if (rules[i].want)
			assert_string_equal(word.s, rules[i].want);
		rule_deinit(&r);
		str_deinit(&word);
		json_decref(with);
	}
}

/* Assignment against a naive model. */

struct fixture {
	struct set s;
	struct step_args a;
	struct step_port outputs[3], data;
	json_t *with;
};

/* Keys 0..n-1 but `without`; class by key % 3, group by key / 5. */
static void begin(struct fixture *f, const char *with, size_t n_outputs, size_t n, size_t without)
{
	static const char *const names[] = { "a", "b", "c" };
	json_t *given;
	struct err err = { 0 };

	*f = (struct fixture){
		.a = { .spec = step_spec_find("shard"), .threads = 2, .metrics = json_object() }
	};
	f->s = (struct set){ .args = &f->a, .files_fd = -1, .spool.fd = -1, .arena = arena_new() };
	pthread_mutex_init(&f->s.bad_lock, NULL);
	for (size_t i = 0; i < n_outputs; i++)
		f->outputs[i] = (struct step_port){ names[i], dir, true };
	f->data = (struct step_port){ "data", "none", true };
	f->a.outputs = f->outputs;
	f->a.n_outputs = n_outputs;
	f->a.inputs = &f->data;
	f->a.n_inputs = 1;
	assert_int_equal(json_parse("with", with, strlen(with), &given, &err), 0);
	assert_int_equal(step_spec_complete(f->a.spec, given, &f->with, &err), 0);
	json_decref(given);
	f->a.with = f->with;
	assert_int_equal(settings_read(&f->s.with, &f->a, &err), 0);
	assert_int_equal(set_read_splits(&f->s, &err), 0);
	for (size_t i = n;
	     i-- > 0;) { /* backwards: the order in which they are found says nothing */
		char key[64];
		struct part txt = { .field = "txt", .where = PART_MEMORY, .at = "x", .n = 1 };
		struct draft d = { .key = key, .parts = &txt, .n_parts = 1 };

		snprintf(key, sizeof(key), "c%zu/g%zu/%zu", i % 3, i / 5, i);
		if (i != without)
			assert_int_equal(set_add(&f->s, &d, &err), 0);
	}
	assert_int_equal(set_assign(&f->s, &err), 0);
}

static void end(struct fixture *f)
{
	settings_deinit(&f->s.with);
	map_free(f->s.classes.ids);
	map_free(f->s.groups.ids);
	VEC_FREE(&f->s.samples);
	free(f->s.class_numbers);
	free(f->s.splits);
	arena_free(f->s.arena);
	json_decref(f->with);
	json_decref(f->a.metrics);
}

static void split_by_fractions(void **state)
{
	struct fixture f;
	uint64_t counts[3] = { 0 };

	begin(&f, "{\"split\": {\"a\": 0.5, \"b\": 0.3, \"c\": 0.2}, \"shards\": 5, \"seed\": -3}",
	      3, 2000, SIZE_MAX);
	assert_int_equal(f.s.samples.n, 2000);
	for (size_t i = 0; i < f.s.samples.n; i++) {
		const struct sample *x = &f.s.samples.v[i];
		uint64_t u[3];
		double at;

		sample_hash(-3, x->key, strlen(x->key), u);
		at = (double)(u[0] >> 11) / (double)(1ULL << 53);
		assert_int_equal(x->split, at < 0.5 ? 0 : at < 0.8 ? 1 : 2);
		assert_int_equal(x->shard, (uint32_t)(((unsigned __int128)u[1] * 5) >> 64));
		counts[x->split]++;
		if (i) /* as they are written: by split, shard, key */
			assert_true(x[-1].split < x->split ||
				    (x[-1].split == x->split &&
				     (x[-1].shard < x->shard ||
				      (x[-1].shard == x->shard && strcmp(x[-1].key, x->key) < 0))));
	}
	assert_in_range(counts[0], 900, 1100);
	assert_in_range(counts[1], 520, 680);
	assert_in_range(counts[2], 320, 480);
	end(&f);
}

static void groups_stay_together(void **state)
{
	struct fixture f;
	uint32_t split_of[400];

	memset(split_of, 0xff, sizeof(split_of));
	begin(&f, "{\"split\": {\"a\": 0.7, \"b\": 0.3}, \"group_by\": {\"folder\": 2}}", 2, 2000,
	      SIZE_MAX);
	for (size_t i = 0; i < f.s.samples.n; i++) {
		const struct sample *x = &f.s.samples.v[i];
		size_t g = strtoul(strstr(x->key, "/g") + 2, NULL, 10);

		assert_true(split_of[g] == UINT32_MAX || split_of[g] == x->split);
		split_of[g] = x->split;
	}
	end(&f);
}

static void strata_are_exact(void **state)
{
	struct fixture f;
	size_t counts[3][2] = { { 0 } };

	begin(&f, "{\"split\": {\"a\": 0.9, \"b\": 0.1}, \"stratify\": true}", 2, 300, SIZE_MAX);
	for (size_t i = 0; i < f.s.samples.n; i++)
		counts[f.s.samples.v[i].key[1] - '0'][f.s.samples.v[i].split]++;
	for (size_t c = 0; c < 3; c++) {
		assert_int_equal(counts[c][0], 90);
		assert_int_equal(counts[c][1], 10);
	}
	end(&f);
}

/* Take each of some samples away in turn: by fractions nobody else moves; by strata at most one of
 * its class does over the one cut. */
static void one_less_moves_no_other(void **state)
{
	static const struct {
		const char *with;
		size_t moved_max;
	} cases[] = {
		{ "{\"split\": {\"a\": 0.6, \"b\": 0.4}, \"shards\": 7}", 0 },
		{ "{\"split\": {\"a\": 0.6, \"b\": 0.4}, \"shards\": 7, \"group_by\": {\"folder\": "
		  "2}}",
		  0 },
		{ "{\"split\": {\"a\": 0.6, \"b\": 0.4}, \"shards\": 7, \"stratify\": true}", 1 },
	};

	for (size_t c = 0; c < ARRAY_LEN(cases); c++)
		for (size_t without = 0; without < 200; without += 9) {
			struct fixture all, less;
			size_t moved = 0, both = 0;

			begin(&all, cases[c].with, 2, 200, SIZE_MAX);
			begin(&less, cases[c].with, 2, 200, without);
			for (size_t i = 0; i < all.s.samples.n; i++)
				for (size_t k = 0; k < less.s.samples.n; k++) {
					const struct sample *x = &all.s.samples.v[i],
							    *y = &less.s.samples.v[k];

					if (strcmp(x->key, y->key) != 0)
						continue;
					both++;
					moved += x->split != y->split;
					assert_int_equal(x->shard, y->shard);
				}
			assert_int_equal(both, 199);
			assert_in_range(moved, 0, cases[c].moved_max);
			end(&all);
			end(&less);
		}
}

static void shards_are_a_power_of_two(void **state)
{
	static const struct {
		size_t n, per, want;
	} cases[] = {
		{ 1, 10, 1 },  { 10, 10, 1 }, { 13, 10, 1 },  { 14, 10, 2 },   { 26, 10, 2 },
		{ 27, 10, 4 }, { 80, 10, 8 }, { 106, 10, 8 }, { 107, 10, 16 }, { 100, 1, 128 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct fixture f;
		char with[64];

		snprintf(with, sizeof(with), "{\"samples_per_shard\": %zu}", cases[i].per);
		begin(&f, with, 1, cases[i].n, SIZE_MAX);
		assert_int_equal(f.s.splits[0].n_shards, cases[i].want);
		end(&f);
	}
}

/* The spool. */

static void spool_gives_back(void **state)
{
	struct spool s;
	VEC(struct {
		uint64_t at;
		size_t n;
	})
	v = { 0 };
	unsigned seed = 5;
	char *buf = xmalloc(300000);

	assert_int_equal(spool_open(&s, dir, NULL), 0);
	for (int i = 0; i < 60; i++) {
		size_t n = (size_t)rand_r(&seed) % (i % 7 ? 3000 : 300000), k = v.n;

		memset(buf, i, n);
		VEC_GROW(&v);
		v.v[v.n].at = s.size;
		v.v[v.n++].n = n;
		assert_int_equal(spool_add(&s, buf, n, NULL), 0);
		k = (size_t)rand_r(&seed) % (k + 1); /* also what is still in memory */
		assert_int_equal(spool_read(&s, v.v[k].at, buf, v.v[k].n, NULL), 0);
		for (size_t b = 0; b < v.v[k].n; b++)
			assert_int_equal(buf[b], (int)k);
	}
	spool_close(&s);
	assert_int_equal(rmdir(dir), 0); /* it has no name */
	assert_int_equal(mkdir(dir, 0700), 0);
	VEC_FREE(&v);
	free(buf);
}

/* Fingerprints. */

static void fingerprints_tell_apart(void **state)
{
	static const uint8_t key[FINGERPRINT_KEY_BYTES] = { 1, 2, 3, [31] = 9 },
			     other[FINGERPRINT_KEY_BYTES] = { 2 };
	struct fingerprint *f = fingerprint_new(key), *g = fingerprint_new(other);
	uint8_t a[FINGERPRINT_BYTES], b[FINGERPRINT_BYTES];

	fingerprint_begin(f);
	fingerprint_add(f, "one two", 7);
	fingerprint_end(f, a);
	fingerprint_begin(f);
	fingerprint_add(f, "one ", 4);
	fingerprint_add(f, "two", 3);
	fingerprint_end(f, b);
	assert_memory_equal(a, b, sizeof(a));
	fingerprint_begin(f);
	fingerprint_add(f, "one twO", 7);
	fingerprint_end(f, b);
	assert_memory_not_equal(a, b, sizeof(a));
	fingerprint_begin(g);
	fingerprint_add(g, "one two", 7);
	fingerprint_end(g, b);
	assert_memory_not_equal(a, b, sizeof(a));
	fingerprint_free(f);
	fingerprint_free(g);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_formula_is_kept),
		cmocka_unit_test(rules_find_words),
		cmocka_unit_test(split_by_fractions),
		cmocka_unit_test(groups_stay_together),
		cmocka_unit_test(strata_are_exact),
		cmocka_unit_test(one_less_moves_no_other),
		cmocka_unit_test(shards_are_a_power_of_two),
		cmocka_unit_test(spool_gives_back),
		cmocka_unit_test(fingerprints_tell_apart),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
