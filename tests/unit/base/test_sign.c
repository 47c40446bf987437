/* Signatures: a vector of RFC 8032; what is no signature; files that hold no key. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/crypto/sign.h"
#include "base/mem.h"
#include "unit.h"

/* RFC 8032, 7.1, test 1; its secret key in PKCS #8 (RFC 8410). */
static const struct {
	const char *pem, *public_key, *message, *signature;
} vector = {
	"MC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g",
	"d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
	"",
	"e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701c"
	"f9b46bd25bf5f0595bbe24655141438e7a100b",
};

static void unhex(const char *hex, uint8_t *out)
{
	for (; *hex; hex += 2)
		*out++ = (uint8_t)strtoul((char[]){ hex[0], hex[1], 0 }, NULL, 16);
}

static char *write_key(const char *text, mode_t mode)
{
	char *path = xstrdup("/tmp/cairn-sign-XXXXXX");
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
	return path;
}

static struct sign_key *load(const char *text, mode_t mode, struct err *err)
{
	struct sign_key *k = NULL;
	char *path = write_key(text, mode);

	if (sign_key_load(path, &k, err) < 0)
		k = NULL;
	unlink(path);
	free(path);
	return k;
}

static char *pem(const char *base64)
{
	return xasprintf("-----BEGIN "
			 "PRIVATE KEY-----\n%s\n-----END "
			 "PRIVATE KEY-----\n",
			 base64);
}

static void a_vector(void **state)
{
	uint8_t public_key[SIGN_KEY_BYTES], want[SIGN_SIGNATURE_BYTES], got[SIGN_SIGNATURE_BYTES];
	char *text = pem(vector.pem);
	struct sign_key *k = load(text, 0600, NULL);

	assert_non_null(k);
	unhex(vector.public_key, public_key);
	unhex(vector.signature, want);
	assert_memory_equal(sign_key_public(k), public_key, sizeof(public_key));
	sign_bytes(k, vector.message, 0, got);
	assert_memory_equal(got, want, sizeof(want));
	sign_key_free(k);
	free(text);
}

/* Each bit of signature, key and message counts. */
static void every_bit_counts(void **state)
{
	char *text = pem(vector.pem);
	struct sign_key *k = load(text, 0600, NULL);
	uint8_t public_key[SIGN_KEY_BYTES], signature[SIGN_SIGNATURE_BYTES], message[] = "a record";
	struct {
		uint8_t *bytes;
		size_t n;
	} parts[] = { { public_key, sizeof(public_key) },
		      { signature, sizeof(signature) },
		      { message, sizeof(message) } };

	memcpy(public_key, sign_key_public(k), sizeof(public_key));
	sign_bytes(k, message, sizeof(message), signature);
	assert_true(sign_verify(public_key, message, sizeof(message), signature));
	assert_false(sign_verify(public_key, message, sizeof(message) - 1, signature));
	for (size_t p = 0; p < ARRAY_LEN(parts); p++)
		for (size_t bit = 0; bit < 8 * parts[p].n; bit++) {
			parts[p].bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
			assert_false(sign_verify(public_key, message, sizeof(message), signature));
			parts[p].bytes[bit / 8] ^= (uint8_t)(1U << bit % 8);
		}
	sign_key_free(k);
	free(text);
}

static void public_keys_as_text(void **state)
{
	static const char *const bad[] = {
		"",
		"ed25519:",
		"ed25519:AAAA",
		"ED25519:",
		"rsa:AAAA",
		"11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=",
		"ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo",
		"ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURpBQUE="
	};
	static const char good[] = "ed25519:11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=";
	uint8_t key[SIGN_KEY_BYTES], want[SIGN_KEY_BYTES];
	_cleanup_(str_deinit) struct str back = { 0 };

	unhex(vector.public_key, want);
	assert_true(sign_parse_public(good, strlen(good), key));
	assert_memory_equal(key, want, sizeof(want));
	sign_add_public(&back, key);
	assert_string_equal(back.s, good);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_false(sign_parse_public(bad[i], strlen(bad[i]), key));
}

static void what_is_no_key(void **state)
{
	char *good = pem(vector.pem), *cut = xstrndup(good, strlen(good) - 20);
	const struct {
		const char *text;
		mode_t mode;
	} rows[] = { { "", 0600 },   { "no key\n", 0600 }, { cut, 0600 },
		     { good, 0640 }, { good, 0604 },       { good, 0660 } };
	struct sign_key *k;
	struct err err;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		err = (struct err){ 0 };
		assert_null(load(rows[i].text, rows[i].mode, &err));
		assert_int_equal(err.code, ERR_INVALID);
	}
	err = (struct err){ 0 };
	assert_int_equal(sign_key_load("/tmp/cairn-sign-none", &k, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(sign_key_load("/tmp", &k, NULL), -1);
	free(good);
	free(cut);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_vector),
					    cmocka_unit_test(every_bit_counts),
					    cmocka_unit_test(public_keys_as_text),
					    cmocka_unit_test(what_is_no_key) };

	return cmocka_run_group_tests_name("sign", tests, NULL, NULL);
}
