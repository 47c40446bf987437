/* The set of digests: random operations against a plain array, and digests that are alike. */
#include "base/crypto/digest_set.h"
#include "base/mem.h"
#include "unit.h"

static uint64_t rng = 88172645463325252ULL;

static uint64_t next_random(void)
{
	rng ^= rng << 13;
	rng ^= rng >> 7;
	rng ^= rng << 17;
	return rng;
}

/* Number 0 is the digest of zeros. */
static struct digest numbered(uint64_t i)
{
	struct digest d = { 0 };

	if (i)
		digest_bytes(&i, sizeof(i), &d);
	return d;
}

static void test_against_an_array(void **state)
{
	for (int round = 0; round < 20; round++) {
		struct digest_set *s = digest_set_new();
		bool in[600] = { false };
		size_t n = 0;

		for (int k = 0; k < 5000; k++) {
			uint64_t i = next_random() % ARRAY_LEN(in);
			struct digest d = numbered(i);

			if (next_random() % 5 < 3) {
				assert_int_equal(digest_set_add(s, &d), !in[i]);
				n += !in[i];
				in[i] = true;
			} else {
				digest_set_remove(s, &d);
				n -= in[i];
				in[i] = false;
			}
			assert_int_equal(digest_set_len(s), n);
		}
		for (size_t i = 0; i < ARRAY_LEN(in); i++) {
			struct digest d = numbered(i);

			assert_int_equal(digest_set_has(s, &d), in[i]);
		}
		digest_set_free(s);
	}
}

/* A stranger's choice: they differ in their last byte only. */
static void test_alike(void **state)
{
	struct digest_set *s = digest_set_new();
	struct digest d;

	memset(&d, 7, sizeof(d));
	for (int i = 0; i < 256; i++) {
		d.b[31] = (uint8_t)i;
		assert_true(digest_set_add(s, &d));
		assert_false(digest_set_add(s, &d));
	}
	for (int i = 0; i < 256; i += 2) {
		d.b[31] = (uint8_t)i;
		digest_set_remove(s, &d);
	}
	for (int i = 0; i < 256; i++) {
		d.b[31] = (uint8_t)i;
		assert_int_equal(digest_set_has(s, &d), i % 2);
	}
	assert_int_equal(digest_set_len(s), 128);
	digest_set_free(s);
}

static void test_empty(void **state)
{
	struct digest_set *s = digest_set_new();
	struct digest d = numbered(1);

	assert_false(digest_set_has(s, &d));
	digest_set_remove(s, &d);
	assert_int_equal(digest_set_len(s), 0);
	digest_set_free(s);
	digest_set_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_against_an_array),
		cmocka_unit_test(test_alike),
		cmocka_unit_test(test_empty),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
