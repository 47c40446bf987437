/* Exports to a bucket, cut off or failing at each single operation: whoever believes the mark reads
 * the bytes that it names, and the next export that succeeds leaves exactly its own files. */
#include <string.h>
#include "base/mem.h"
#include "base/text/json.h"
#include "storage/bucket/memory.h"
#include "storage/export.h"
#include "storage/internal.h"
#include "unit.h"

#define PLACE "mem-bucket://exp/data/model"

/* Versions of the output: a name and its text each. The names of the first stay in the second with
 * other bytes of the same length. */
static const char *const versions[][8] = {
	{ "a", "aaaa", "b", "one-", "only-first", "x" },
	{ "a", "aaaa", "b", "two-", "only-second", "y" },
	{ "b", "two-" },
};

static struct store *store;
static struct content_id ids[ARRAY_LEN(versions)];

static int add(struct tree_builder *b, const char *name, const char *text)
{
	struct tree_entry e = { .name = name, .name_len = strlen(name), .kind = TREE_FILE };

	return content_put_bytes(store, text, strlen(text), &e.id, NULL) < 0
		       ? -1
		       : tree_builder_add(b, &e, NULL);
}

static int setup(void **state)
{
	store = store_memory_new();
	for (size_t i = 0; i < ARRAY_LEN(versions); i++) {
		struct tree_builder *b = tree_builder_new();

		for (size_t k = 0; versions[i][k]; k += 2)
			assert_int_equal(add(b, versions[i][k], versions[i][k + 1]), 0);
		assert_int_equal(tree_builder_store(b, store, &ids[i], NULL), 0);
		tree_builder_free(b);
	}
	return 0;
}

static int teardown(void **state)
{
	store_free(store);
	bucket_memory_forget("exp");
	return 0;
}

static int export_id(const struct content_id *id, struct export_done *done, struct err *err)
{
	const struct export_request request = { .uri = PLACE,
						.name = "model",
						.id = *id,
						.pipeline = "p",
						.task = "t",
						.output = "o",
						.run = "r",
						.now_ns = 1 };

	return content_export(store, &request, done, err);
}

/* Failures: the n-th operation from now, alone or with all after it. */

struct plan {
	unsigned n;
	bool cut_off;
	unsigned done;
};

static void before(void *arg, const char *what, const char *key)
{
	struct plan *p = arg;
	bool fails = p->done == p->n || (p->cut_off && p->done > p->n);

	p->done++;
	bucket_memory_faults(
		"exp", &(struct bucket_memory_faults){ .down = fails, .before = before, .arg = p });
}

static void fail_at(struct plan *p)
{
	bucket_memory_faults(
		"exp", &(struct bucket_memory_faults){ .before = p ? before : NULL, .arg = p });
}

/* What a reader sees. */

static bool read_object(struct bucket *b, const char *name, struct str *ret)
{
	_cleanup_(freep) char *key = xasprintf("data/model/%s", name);
	struct bucket_get g = { .key = key, .size = UINT64_MAX, .fd = -1 }, *v = &g;
	bool there = bucket_get_many(b, &v, 1, NULL) == 0 && g.result == 0;

	str_reset(ret);
	if (there)
		str_addn(ret, g.body.s ? g.body.s : "", g.body.len);
	str_deinit(&g.body);
	return there;
}

static int count(void *arg, const struct bucket_object *o)
{
	++*(size_t *)arg;
	return 0;
}

/* A mark that can be read is true. Says whether there is one. */
static bool check_reader(struct bucket *b)
{
	_cleanup_(str_deinit) struct str mark = { 0 }, bytes = { 0 };
	json_t *j, *f;
	size_t i;

	if (!read_object(b, EXPORT_MARK, &mark))
		return false;
	assert_int_equal(json_parse("mark", mark.s, mark.len, &j, NULL), 0);
	json_array_foreach(json_object_get(j, "files"), i, f)
	{
		char hex[DIGEST_HEX_MAX];
		struct digest d;

		assert_true(read_object(b, json_string_value(json_object_get(f, "name")), &bytes));
		digest_bytes(bytes.s ? bytes.s : "", bytes.len, &d);
		assert_string_equal(digest_hex(&d, hex),
				    json_string_value(json_object_get(f, "sha256")));
	}
	json_decref(j);
	return true;
}

static void check_whole(struct bucket *b, size_t version)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	size_t n = 0, files = 0;

	assert_true(check_reader(b));
	for (; versions[version][2 * files]; files++) {
		assert_true(read_object(b, versions[version][2 * files], &bytes));
		assert_string_equal(bytes.s, versions[version][2 * files + 1]);
	}
	assert_int_equal(bucket_list(b, "data/model/", NULL, 0, count, &n, NULL), 0);
	assert_int_equal(n, files + 1); /* and the mark: nothing is left over */
}

/* First one version, whole; then another, failing at operation n; then a third, whole. False when
 * the second had no operation n. */
static bool one_order(size_t first, size_t second, size_t third, unsigned n, bool cut_off)
{
	struct plan p = { .n = n, .cut_off = cut_off };
	struct export_done done;
	struct err err = { 0 };
	struct bucket *b;

	assert_int_equal(bucket_open("mem-bucket://exp", NULL, &b, NULL), 0);
	if (export_id(&ids[first], &done, &err) < 0)
		fail_msg("%s", err.msg);
	check_whole(b, first);
	fail_at(&p);
	export_id(&ids[second], &done, &err);
	fail_at(NULL);
	check_reader(b);
	if (export_id(&ids[third], &done, &err) < 0)
		fail_msg("%s", err.msg);
	check_whole(b, third);
	bucket_free(b);
	return p.done > n;
}

static void test_every_order_of_failure(void **state)
{
	unsigned orders = 0;

	for (size_t i = 0; i < ARRAY_LEN(versions); i++)
		for (size_t k = 0; k < ARRAY_LEN(versions); k++)
			for (size_t m = 0; m < ARRAY_LEN(versions); m++)
				for (int cut_off = 0; cut_off < 2; cut_off++)
					for (unsigned n = 0; one_order(i, k, m, n, cut_off); n++)
						orders++;
	assert_true(orders > 300);
}

static void test_what_is_there_is_not_sent_again(void **state)
{
	struct export_done done;
	struct bucket *b;

	assert_int_equal(bucket_open("mem-bucket://exp", NULL, &b, NULL), 0);
	assert_int_equal(export_id(&ids[0], &done, NULL), 0);
	assert_int_equal(done.sent, 3);
	assert_int_equal(export_id(&ids[1], &done, NULL), 0);
	assert_int_equal(done.sent, 2);
	/* Somebody else writes to it, with as many bytes: it isn't what the mark knows any more. */
	bucket_memory_damage("exp", "data/model/a", 0);
	{
		struct bucket_put p = { .key = "data/model/a",
					.bytes = "AAAA",
					.fd = -1,
					.size = 4 },
				  *v = &p;

		assert_int_equal(bucket_put_many(b, &v, 1, NULL), 0);
	}
	assert_int_equal(export_id(&ids[1], &done, NULL), 0);
	assert_int_equal(done.sent, 1);
	check_whole(b, 1);
	bucket_free(b);
}

static void test_what_is_not_a_mark(void **state)
{
	struct bucket_put p = { .key = "data/model/" EXPORT_MARK,
				.bytes = "{}",
				.fd = -1,
				.size = 2 },
			  *v = &p;
	struct export_done done;
	struct err err = { 0 };
	struct bucket *b;

	assert_int_equal(bucket_open("mem-bucket://exp", NULL, &b, NULL), 0);
	assert_int_equal(bucket_put_many(b, &v, 1, NULL), 0);
	assert_int_equal(export_id(&ids[0], &done, &err), -1);
	assert_int_equal(err.code, ERR_EXISTS);
	bucket_free(b);
}

static void test_an_output_with_the_name_of_the_mark(void **state)
{
	static const char *const names[] = { EXPORT_MARK, EXPORT_PENDING };

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		struct tree_builder *builder = tree_builder_new();
		struct export_done done;
		struct content_id id;
		struct err err = { 0 };

		assert_int_equal(add(builder, names[i], "mine"), 0);
		assert_int_equal(tree_builder_store(builder, store, &id, NULL), 0);
		tree_builder_free(builder);
		assert_int_equal(export_id(&id, &done, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		assert_non_null(strstr(err.msg, names[i]));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_every_order_of_failure, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_there_is_not_sent_again, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_what_is_not_a_mark, setup, teardown),
		cmocka_unit_test_setup_teardown(test_an_output_with_the_name_of_the_mark, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
