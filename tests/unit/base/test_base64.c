#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include "base/crypto/base64.h"
#include "base/mem.h"
#include "unit.h"

/* RFC 4648, section 10, and what padding allows. */
static const struct {
	const char *text, *want; /* NULL: refused */
} rows[] = {
	{ "", "" },        { "Zg==", "f" },        { "Zm8=", "fo" },
	{ "Zm9v", "foo" }, { "Zm9vYg==", "foob" }, { "Zm9v\n YmFy\r\n", "foobar" },
	{ "Z", NULL },     { "Zg", NULL },         { "Zg=", NULL },
	{ "Zg===", NULL }, { "=", NULL },          { "====", NULL },
	{ "Zm9v=", NULL }, { "Zg==Zg==", NULL },   { "Zm-v", NULL },
	{ "Zh==", NULL },  { "Zm9=", NULL },       { "Zv==", NULL },
};

static void known_texts(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(str_deinit) struct str out = { 0 };
		int r = base64_decode(&out, rows[i].text, strlen(rows[i].text), NULL);

		assert_int_equal(r, rows[i].want ? 0 : -1);
		if (rows[i].want)
			assert_string_equal(out.len ? out.s : "", rows[i].want);
	}
}

static void random_bytes_as_openssl_writes_them(void **state)
{
	srandom(7);
	for (int i = 0; i < 2000; i++) {
		unsigned char in[100], want[200];
		size_t n = (size_t)random() % sizeof(in);
		_cleanup_(str_deinit) struct str out = { 0 }, back = { 0 }, url = { 0 };

		for (size_t k = 0; k < n; k++)
			in[k] = (unsigned char)random();
		EVP_EncodeBlock(want, in, (int)n);
		base64_add(&out, in, n);
		assert_string_equal(out.len ? out.s : "", want);
		assert_int_equal(base64_decode(&back, out.s ? out.s : "", out.len, NULL), 0);
		assert_int_equal(back.len, n);
		assert_true(n == 0 || memcmp(back.s, in, n) == 0);
		base64_add_url(&url, in, n);
		for (size_t k = 0; k < url.len; k++)
			assert_int_equal(url.s[k], want[k] == '+'   ? '-'
						   : want[k] == '/' ? '_'
								    : want[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(known_texts),
					    cmocka_unit_test(random_bytes_as_openssl_writes_them) };

	return cmocka_run_group_tests_name("base64", tests, NULL, NULL);
}
