#include <string.h>
#include "base/crypto/digest.h"
#include "base/mem.h"
#include "unit.h"

/* FIPS 180-4 examples and the empty message. */
static const struct {
	const char *text, *hex;
} vectors[] = {
	{ "", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" },
	{ "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
	{ "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
	  "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
};

static void test_vectors(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(vectors); i++) {
		char hex[DIGEST_HEX_MAX];
		struct digest d;

		digest_bytes(vectors[i].text, strlen(vectors[i].text), &d);
		assert_string_equal(digest_hex(&d, hex), vectors[i].hex);
	}
}

/* A million 'a', in pieces of odd sizes, and the object used again. */
static void test_stream(void **state)
{
	struct digester *d = digester_new();
	struct digest whole, pieces;
	char hex[DIGEST_HEX_MAX];
	char *million = xmalloc(1000000);

	memset(million, 'a', 1000000);
	digest_bytes(million, 1000000, &whole);
	assert_string_equal(digest_hex(&whole, hex),
			    "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
	for (int again = 0; again < 2; again++) {
		for (size_t at = 0, n = 1; at < 1000000; at += n, n = n * 3 % 4999 + 1) {
			n = MIN(n, 1000000 - at);
			digester_update(d, million + at, n);
		}
		digester_final(d, &pieces);
		assert_true(digest_eq(&whole, &pieces));
	}
	free(million);
	digester_free(d);
	digester_free(NULL);
}

static void test_parse(void **state)
{
	static const char *const bad[] = {
		"",
		"sha256:",
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015a",
		"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad0",
		"ga7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
		"sha512:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
		"sha256:sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f200",
		" a7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015add",
	};
	struct digest abc, d;
	struct err err = { 0 };

	digest_bytes("abc", 3, &abc);
	assert_int_equal(digest_parse(vectors[1].hex, &d, &err), 0);
	assert_true(digest_eq(&d, &abc));
	assert_int_equal(
		digest_parse(
			"sha256:BA7816BF8F01CFEA414140DE5DAE2223B00361A396177A9CB410FF61F20015AD",
			&d, &err),
		0);
	assert_true(digest_eq(&d, &abc));
	assert_int_equal(err.code, ERR_NONE);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct digest untouched = abc;

		err.code = ERR_NONE;
		assert_int_equal(digest_parse(bad[i], &untouched, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		assert_true(digest_eq(&untouched, &abc));
	}
}

static void test_kinds(void **state)
{
	struct content_id a = { .size_bytes = 3, .kind = CONTENT_BLOB },
			  b = { .size_bytes = 3, .kind = CONTENT_EXECUTABLE };

	for (unsigned kind = CONTENT_BLOB; kind <= CONTENT_KIND_MAX; kind++)
		assert_int_equal(content_kind_parse(content_kind_name(kind)), kind);
	assert_int_equal(content_kind_parse("none"), CONTENT_NONE);
	assert_string_equal(content_kind_name(CONTENT_KIND_MAX), "executable");
	assert_string_equal(content_kind_name(CONTENT_KIND_MAX + 1), "unknown");
	assert_true(content_is_file(&a) && content_is_file(&b) && content_same_bytes(&a, &b));
	b.digest.b[0] ^= 1;
	assert_false(content_same_bytes(&a, &b));
	b = a;
	b.kind = CONTENT_TREE;
	assert_false(content_is_file(&b) || content_same_bytes(&a, &b));
	b.kind = CONTENT_REFERENCE;
	assert_false(content_is_file(&b) || content_same_bytes(&a, &b));
}

static void test_content_id_eq(void **state)
{
	struct content_id a = { .size_bytes = 3, .kind = CONTENT_BLOB }, b = a;

	assert_true(content_id_eq(&a, &b));
	b.kind = CONTENT_TREE;
	assert_false(content_id_eq(&a, &b));
	b = a;
	b.size_bytes = 4;
	assert_false(content_id_eq(&a, &b));
	b = a;
	b.digest.b[31] ^= 1;
	assert_false(content_id_eq(&a, &b));
}

/* RFC 4231, test cases 1, 2 and 6: a key that is longer than a block. */
static void test_hmac(void **state)
{
	static const struct {
		char byte; /* of the key, n times; 0: the key is a text */
		size_t n;
		const char *key, *text, *hex;
	} cases[] = {
		{ 0x0b, 20, NULL, "Hi There",
		  "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7" },
		{ 0, 4, "Jefe", "what do ya want for nothing?",
		  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843" },
		{ (char)0xaa, 131, NULL, "Test Using Larger Than Block-Size Key - Hash Key First",
		  "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char key[200], hex[DIGEST_HEX_MAX];
		struct digest d;

		memset(key, cases[i].byte, cases[i].n);
		digest_hmac(cases[i].key ? cases[i].key : key, cases[i].n, cases[i].text,
			    strlen(cases[i].text), &d);
		assert_string_equal(digest_hex(&d, hex), cases[i].hex);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors), cmocka_unit_test(test_stream),
		cmocka_unit_test(test_parse),   cmocka_unit_test(test_content_id_eq),
		cmocka_unit_test(test_kinds),   cmocka_unit_test(test_hmac),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
