/* Key records: what is written is read back, the bytes are fixed for ever, and damaged ones are
 * refused. */
#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "plan/key/difference.h"
#include "unit.h"

#define FACTS_MAX 40
#define ROUNDS    3000

static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	return *seed ^= *seed << 17;
}

struct naive_fact {
	uint8_t kind;
	char name[24];
	char value[64];
	size_t value_len;
};

static size_t random_facts(uint64_t *seed, struct naive_fact *v)
{
	size_t n = next(seed) % FACTS_MAX;

	for (size_t i = 0; i < n; i++) {
		struct naive_fact *f = &v[i];
		size_t name_len = next(seed) % (sizeof(f->name) - 1);

		f->kind = 1 + next(seed) % KEY_RESOURCES;
		for (size_t k = 0; k < name_len; k++)
			f->name[k] = (char)(1 + next(seed) % 255);
		f->name[name_len] = '\0';
		f->value_len = next(seed) % sizeof(f->value);
		for (size_t k = 0; k < f->value_len; k++)
			f->value[k] = (char)next(seed); /* NUL too */
	}
	return n;
}

/* Stable, as the order is defined: kind, then name, byte by byte. */
static void sort_naively(struct naive_fact *v, size_t n)
{
	for (size_t i = 1; i < n; i++)
		for (size_t k = i;
		     k && (v[k - 1].kind > v[k].kind ||
			   (v[k - 1].kind == v[k].kind && strcmp(v[k - 1].name, v[k].name) > 0));
		     k--) {
			struct naive_fact t = v[k];

			v[k] = v[k - 1];
			v[k - 1] = t;
		}
}

static void test_round_trip(void **state)
{
	uint64_t seed = 42;

	for (int round = 0; round < ROUNDS; round++) {
		_cleanup_(str_deinit) struct str record = { 0 };
		struct naive_fact want[FACTS_MAX];
		struct key_fact *got = NULL;
		size_t n = random_facts(&seed, want), n_got;

		key_record_init(&record);
		for (size_t i = 0; i < n; i++)
			key_record_add(&record, want[i].kind, want[i].name, want[i].value,
				       want[i].value_len);
		if (round % 2) /* without: as older versions wrote it */
			key_record_end(&record);
		sort_naively(want, n);
		assert_int_equal(key_record_decode(record.s, record.len, &got, &n_got, NULL), 0);
		assert_int_equal(n_got, n);
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(got[i].kind, want[i].kind);
			assert_int_equal(got[i].name_len, strlen(want[i].name));
			assert_memory_equal(got[i].name, want[i].name, got[i].name_len);
			assert_int_equal(got[i].value_len, want[i].value_len);
			assert_memory_equal(got[i].value, want[i].value, got[i].value_len);
		}
		free(got);
	}
}

static void make_record(struct str *record, const struct naive_fact *v, size_t n)
{
	key_record_init(record);
	for (size_t i = 0; i < n; i++)
		key_record_add(record, v[i].kind, v[i].name, v[i].value, v[i].value_len);
}

/* The order in which facts are added is in no key; those of a sorted list keep the bytes that they
 * had before there was a key_record_end(). */
static void test_any_order_gives_one_record(void **state)
{
	uint64_t seed = 7;

	for (int round = 0; round < ROUNDS / 10; round++) {
		_cleanup_(str_deinit) struct str want = { 0 }, got = { 0 };
		struct naive_fact v[FACTS_MAX];
		size_t n = random_facts(&seed, v);

		for (size_t i = 0; i < n; i++) /* no name twice */
			snprintf(v[i].name, sizeof(v[i].name), "%zu", i * 7 % 40);
		sort_naively(v, n);
		make_record(&want, v, n);
		for (size_t i = n; i > 1; i--) {
			size_t k = next(&seed) % i;
			struct naive_fact t = v[i - 1];

			v[i - 1] = v[k];
			v[k] = t;
		}
		make_record(&got, v, n);
		key_record_end(&got);
		assert_int_equal(got.len, want.len);
		assert_memory_equal(got.s, want.s, want.len);
		key_record_end(&want);
		assert_int_equal(got.len, want.len);
		assert_memory_equal(got.s, want.s, want.len);
	}
}

static void note(void *arg, const struct key_fact *was, const struct key_fact *now)
{
	const struct key_fact *f = was ? was : now;

	str_addf(arg, "%c%.*s ", was && now ? '=' : was ? '-' : '+', (int)f->name_len, f->name);
}

/* A record of an older version may have the same facts in another order. */
static void test_differences_of_a_reordered_record(void **state)
{
	static const struct {
		const char *was, *now, *want;
	} cases[] = {
		{ "ab", "ba", "" },       { "ba", "ab", "" },     { "abc", "ca", "-b " },
		{ "ca", "abc", "+b " },   { "bXa", "abX", "" },   { "baX", "Xba", "" },
		{ "ba", "aB", "+B -b " }, { "", "ba", "+a +b " },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(str_deinit) struct str said = { 0 };
		struct str records[2] = { 0 };
		struct key_fact *v[2];
		size_t n[2];

		for (int k = 0; k < 2; k++) {
			key_record_init(&records[k]);
			for (const char *c = k ? cases[i].now : cases[i].was; *c; c++)
				key_record_add(&records[k], KEY_INPUT, (char[]){ *c, '\0' }, "v",
					       1);
			if (k)
				key_record_end(&records[k]);
			assert_int_equal(
				key_record_decode(records[k].s, records[k].len, &v[k], &n[k], NULL),
				0);
		}
		str_add(&said, "");
		key_differences(v[0], n[0], v[1], n[1], note, &said);
		assert_string_equal(said.s, cases[i].want);
		for (int k = 0; k < 2; k++) {
			free(v[k]);
			str_deinit(&records[k]);
		}
	}
}

/* Lengths come first, so what moves from one field to the next makes other bytes. */
static void test_no_two_facts_look_the_same(void **state)
{
	static const struct {
		const char *name, *value;
	} facts[] = {
		{ "", "" },    { "a", "" },   { "", "a" },    { "ab", "c" },  { "a", "bc" },
		{ "abc", "" }, { "", "abc" }, { "a=b", "c" }, { "a", "b=c" },
	};
	struct str records[ARRAY_LEN(facts) * 2] = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(records); i++) {
		size_t f = i % ARRAY_LEN(facts);

		key_record_init(&records[i]);
		key_record_add(&records[i], i < ARRAY_LEN(facts) ? KEY_ENV : KEY_PARAM,
			       facts[f].name, facts[f].value, strlen(facts[f].value));
	}
	for (size_t i = 0; i < ARRAY_LEN(records); i++)
		for (size_t k = 0; k < i; k++)
			assert_false(records[i].len == records[k].len &&
				     memcmp(records[i].s, records[k].s, records[i].len) == 0);
	for (size_t i = 0; i < ARRAY_LEN(records); i++)
		str_deinit(&records[i]);
}

/* Golden: a cache that was filled by an earlier build must stay good. Change these bytes only with
 * the record's version. */
static void test_bytes_are_fixed(void **state)
{
	static const char want[] =
		"\x0b\0\0\0cairn-key/1"
		"\x05\x04\0\0\0HOME\x02\0\0\0/x"
		"\x0c\x01\0\0\0d\x2b\0\0\0p\0\x02\x08\x07\x06\x05\x04\x03\x02\x01\xaa\xaa\xaa\xaa"
		"\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa"
		"\xaa\xaa\xaa\xaa\xaa\xaa\xaa\xaa";
	_cleanup_(str_deinit) struct str record = { 0 };
	struct content_id id = { .kind = CONTENT_TREE, .size_bytes = 0x0102030405060708ULL };

	memset(id.digest.b, 0xaa, DIGEST_BYTES);
	key_record_init(&record);
	key_record_add(&record, KEY_ENV, "HOME", "/x", 2);
	key_record_add_content(&record, KEY_INPUT, "d", "p", &id);
	assert_int_equal(record.len, sizeof(want) - 1);
	assert_memory_equal(record.s, want, sizeof(want) - 1);
}

static void test_content(void **state)
{
	_cleanup_(str_deinit) struct str record = { 0 };
	struct content_id ids[2] = { { .kind = CONTENT_BLOB, .size_bytes = 7 },
				     { .kind = CONTENT_TREE, .size_bytes = UINT64_MAX } },
			  got;
	static const char *const paths[] = { "", "a path/with \xff bytes" };
	struct key_fact *f;
	const char *path;
	size_t n;

	key_record_init(&record);
	for (size_t i = 0; i < 2; i++) {
		memset(ids[i].digest.b, (int)i + 1, DIGEST_BYTES);
		key_record_add_content(&record, KEY_INPUT, "n", paths[i], &ids[i]);
	}
	assert_int_equal(key_record_decode(record.s, record.len, &f, &n, NULL), 0);
	assert_int_equal(n, 2);
	for (size_t i = 0; i < n; i++) {
		assert_true(key_fact_content(&f[i], &path, &got));
		assert_string_equal(path, paths[i]);
		assert_true(content_id_eq(&got, &ids[i]));
		f[i].value_len--;
		assert_false(key_fact_content(&f[i], &path, &got));
	}
	free(f);
}

static void test_content_of_no_kind_is_refused(void **state)
{
	static const uint8_t kinds[] = { CONTENT_NONE, CONTENT_KIND_MAX + 1, 255 };
	struct content_id id = { 0 }, got;
	struct key_fact *f;
	const char *path;
	size_t n;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		_cleanup_(str_deinit) struct str record = { 0 };

		id.kind = kinds[i];
		key_record_init(&record);
		key_record_add_content(&record, KEY_CODE, "c", "p", &id);
		assert_int_equal(key_record_decode(record.s, record.len, &f, &n, NULL), 0);
		assert_false(key_fact_content(&f[0], &path, &got));
		free(f);
	}
}

/* Cut anywhere but between two facts: an error that says so, and out parameters untouched. */
static void test_every_cut(void **state)
{
	_cleanup_(str_deinit) struct str record = { 0 };
	size_t whole[3], n_whole = 0;

	key_record_init(&record);
	whole[n_whole++] = record.len;
	key_record_add(&record, KEY_PARAM, "lr", "0.1", 3);
	whole[n_whole++] = record.len;
	key_record_add(&record, KEY_SEED, "", "7", 1);
	whole[n_whole++] = record.len;
	for (size_t cut = 0, k = 0; cut <= record.len; cut++) {
		uint8_t *copy =
			malloc(cut ? cut : 1); /* its own end: a sanitizer sees a byte too many */
		struct key_fact *f = NULL;
		struct err err = { 0 };
		size_t n = 99;

		assert_non_null(copy);
		memcpy(copy, record.s, cut);
		if (cut == whole[k]) {
			assert_int_equal(key_record_decode(copy, cut, &f, &n, &err), 0);
			assert_int_equal(n, k++);
			free(f);
		} else {
			assert_true(key_record_decode(copy, cut, &f, &n, &err) < 0);
			assert_int_equal(err.code, ERR_CORRUPT);
			assert_true(f == NULL && n == 99);
		}
		free(copy);
	}
}

static void test_lying_lengths(void **state)
{
	static const uint32_t lies[] = { 4, 1000, 0x7fffffff, 0x80000000, UINT32_MAX };

	for (size_t i = 0; i < ARRAY_LEN(lies); i++) {
		_cleanup_(str_deinit) struct str record = { 0 };
		struct key_fact *f;
		struct err err = { 0 };
		size_t n;

		key_record_init(&record);
		str_addc(&record, KEY_PARAM);
		str_add_u32(&record, lies[i]);
		str_add(&record, "abc");
		assert_true(key_record_decode(record.s, record.len, &f, &n, &err) < 0);
		assert_int_equal(err.code, ERR_CORRUPT);
	}
}

static void test_too_many_facts(void **state)
{
	_cleanup_(str_deinit) struct str record = { 0 };
	struct key_fact *f;
	struct err err = { 0 };
	size_t n;

	key_record_init(&record);
	for (int i = 0; i < 100000; i++)
		key_record_add(&record, KEY_ENV, "", "", 0);
	assert_int_equal(key_record_decode(record.s, record.len, &f, &n, &err), 0);
	assert_int_equal(n, 100000);
	free(f);
	key_record_add(&record, KEY_ENV, "", "", 0);
	assert_true(key_record_decode(record.s, record.len, &f, &n, &err) < 0);
}

static void test_every_kind_has_a_name_of_its_own(void **state)
{
	for (int i = 1; i <= KEY_RESOURCES; i++)
		for (int k = 1; k <= i; k++)
			assert_int_equal(strcmp(key_fact_kind_name((uint8_t)i),
						key_fact_kind_name((uint8_t)k)) == 0,
					 i == k);
	assert_string_equal(key_fact_kind_name(0), key_fact_kind_name(255));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_any_order_gives_one_record),
		cmocka_unit_test(test_differences_of_a_reordered_record),
		cmocka_unit_test(test_no_two_facts_look_the_same),
		cmocka_unit_test(test_bytes_are_fixed),
		cmocka_unit_test(test_content),
		cmocka_unit_test(test_content_of_no_kind_is_refused),
		cmocka_unit_test(test_every_cut),
		cmocka_unit_test(test_lying_lengths),
		cmocka_unit_test(test_too_many_facts),
		cmocka_unit_test(test_every_kind_has_a_name_of_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
