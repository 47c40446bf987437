#include <string.h>
#include "base/map.h"
#include "unit.h"

static void test_empty(void **state)
{
	_cleanup_(map_freep) struct map *m = map_new();

	assert_int_equal(map_len(m), 0);
	assert_null(map_get(m, "", 0));
	assert_false(map_has(m, "x", 1));
	map_free(NULL);
}

static void test_keys_are_bytes(void **state)
{
	_cleanup_(map_freep) struct map *m = map_new();
	int a, b, c;
	bool is_new;

	*map_slot(m, "a\0b", 3, &is_new) = &a;
	assert_true(is_new);
	*map_slot(m, "a\0c", 3, &is_new) = &b;
	assert_true(is_new);
	*map_slot(m, "", 0, NULL) = &c;
	assert_ptr_equal(map_get(m, "a\0b", 3), &a);
	assert_ptr_equal(map_get(m, "a\0c", 3), &b);
	assert_ptr_equal(map_get_str(m, ""), &c);
	assert_null(map_get_str(m, "a"));
	assert_int_equal(map_len(m), 3);
}

static void test_key_is_copied(void **state)
{
	_cleanup_(map_freep) struct map *m = map_new();
	char key[] = "key";

	*map_slot_str(m, key) = m;
	key[0] = 'x';
	assert_ptr_equal(map_get_str(m, "key"), m);
	assert_false(map_has(m, "xey", 3));
}

#define N_KEYS 700

/* Random puts of few different keys against an array; order of first insertion is kept. */
static void test_random(void **state)
{
	for (unsigned seed = 1; seed <= 30; seed++) {
		_cleanup_(map_freep) struct map *m = map_new();
		void *model[N_KEYS] = { 0 };
		uint32_t order[N_KEYS];
		bool there[N_KEYS] = { 0 };
		size_t n = 0;

		srand(seed);
		for (int i = 0; i < 3000; i++) {
			uint32_t k = (uint32_t)rand() % N_KEYS;
			bool is_new;
			void **slot = map_slot(m, &k, sizeof(k), &is_new);

			assert_int_equal(is_new, !there[k]);
			assert_ptr_equal(*slot, model[k]);
			if (is_new)
				order[n++] = k;
			there[k] = true;
			*slot = model[k] = (void *)(uintptr_t)(i + 1);
		}
		assert_int_equal(map_len(m), n);
		for (size_t i = 0; i < n; i++) {
			const void *key;
			size_t len;

			assert_ptr_equal(map_at(m, i, &key, &len), model[order[i]]);
			assert_int_equal(len, sizeof(uint32_t));
			assert_memory_equal(key, &order[i], len);
		}
		for (uint32_t k = 0; k < N_KEYS; k++) {
			assert_int_equal(map_has(m, &k, sizeof(k)), there[k]);
			assert_ptr_equal(map_get(m, &k, sizeof(k)), model[k]);
		}
	}
}

/* Keys of every length up to 40 that share all but one byte. */
static void test_near_keys(void **state)
{
	_cleanup_(map_freep) struct map *m = map_new();
	char key[40] = { 0 };
	uintptr_t n = 0;

	for (size_t len = 1; len <= sizeof(key); len++)
		for (size_t at = 0; at < len; at++) {
			key[at] = 1;
			*map_slot(m, key, len, NULL) = (void *)++n;
			key[at] = 0;
		}
	assert_int_equal(map_len(m), n);
	n = 0;
	for (size_t len = 1; len <= sizeof(key); len++)
		for (size_t at = 0; at < len; at++) {
			key[at] = 1;
			assert_int_equal((uintptr_t)map_get(m, key, len), ++n);
			key[at] = 0;
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),         cmocka_unit_test(test_keys_are_bytes),
		cmocka_unit_test(test_key_is_copied), cmocka_unit_test(test_random),
		cmocka_unit_test(test_near_keys),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
