/* Bearer tokens of Google Cloud Storage: the JWT is verified with the public half of its key; each
 * source; renewal. And CRC-32C. */
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/text/json.h"
#include "storage/bucket/gcs/crc32c.h"
#include "storage/bucket/gcs/token.h"
#include "unit.h"

#define SECRET "s3cr3t-refresh"

static struct world {
	const char *url, *body_has, *header;
	long status;
	const char *body;
	unsigned asked;
	char *last_body;
	struct clock clock;
	char dir[TEST_DIR_MAX];
	struct token_source *source;
} world;

static EVP_PKEY *key;
static char *key_file; /* a service account's JSON */

static int fetch(void *arg, struct http_request *r, struct err *err)
{
	world.asked++;
	if (!world.url || strcmp(world.url, r->url) != 0 ||
	    (world.body_has &&
	     (!r->body || !memmem(r->body, r->body_len, world.body_has, strlen(world.body_has)))))
		return err_set(err, ERR_IO, "nobody listens");
	free(world.last_body);
	world.last_body = r->body ? xstrndup(r->body, r->body_len) : NULL;
	r->reply.status = world.status;
	str_add(&r->reply.body, world.body);
	if (world.header)
		str_addf(&r->reply.headers, "%s\r\n", world.header);
	return 0;
}

static int make_key(void **state)
{
	BIO *bio = BIO_new(BIO_s_mem());
	json_t *j;
	char *pem;
	long n;

	key = EVP_RSA_gen(2048);
	assert_non_null(key);
	assert_int_equal(PEM_write_bio_PKCS8PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), 1);
	n = BIO_get_mem_data(bio, &pem);
	j = json_pack("{s:s, s:s, s:s#, s:s, s:s}", "type", "service_account", "client_email",
		      "robot@example.org", "private_key", pem, (int)n, "private_key_id", "k1",
		      "token_uri", "https://oauth.example.org/token");
	key_file = json_dumps(j, 0);
	json_decref(j);
	BIO_free(bio);
	return 0;
}

static int drop_key(void **state)
{
	EVP_PKEY_free(key);
	free(key_file);
	return 0;
}

static int set_up(void **state)
{
	struct token_options o = { .clock = &world.clock, .fetch = fetch };

	world = (struct world){
		.status = 200,
		.body = "{\"access_token\":\"T1\",\"expires_in\":3600,\"token_type\":\"Bearer\"}"
	};
	clock_virtual_init(&world.clock, 1700000000 * NS_PER_S);
	test_dir(world.dir, sizeof(world.dir), "token");
	setenv("HOME", world.dir, 1);
	unsetenv("CLOUDSDK_CONFIG");
	unsetenv("GOOGLE_APPLICATION_CREDENTIALS");
	unsetenv("GCE_METADATA_HOST");
	unsetenv("NO_GCE_CHECK");
	world.source = token_source_new(&o);
	return 0;
}

static int tear_down(void **state)
{
	token_source_free(world.source);
	free(world.last_body);
	return fs_remove_tree(world.dir, NULL);
}

static void use_file(const char *text)
{
	_cleanup_(freep) char *path = fs_join(world.dir, "key.json");

	assert_int_equal(fs_write_atomic(path, text, strlen(text), NULL), 0);
	setenv("GOOGLE_APPLICATION_CREDENTIALS", path, 1);
}

static void gives(const char *want)
{
	struct err err = { 0 };
	char *token = NULL;

	if (token_get(world.source, NULL, &token, &err) < 0)
		fail_msg("%s", err.msg);
	assert_string_equal(token, want);
	free(token);
}

static void refuses(const char *why)
{
	struct err err = { 0 };
	char *token = NULL;

	assert_int_equal(token_get(world.source, NULL, &token, &err), -1);
	if (!strstr(err.msg, why))
		fail_msg("%s", err.msg);
	assert_null(strstr(err.msg, "s3cr3t"));
}

/* JWT. */

static size_t decode(const char *s, size_t n, unsigned char *out)
{
	char text[4096];
	size_t m = 0;
	int len;

	for (; m < n; m++)
		text[m] = s[m] == '-' ? '+' : s[m] == '_' ? '/' : s[m];
	for (; m % 4; m++)
		text[m] = '=';
	len = EVP_DecodeBlock(out, (unsigned char *)text, (int)m);
	assert_true(len >= 0);
	return (size_t)len - (m - n);
}

static void test_jwt(void **state)
{
	struct str jwt = { 0 };
	struct err err = { 0 };
	char *uri = NULL;
	unsigned char out[4096];
	const char *dot1, *dot2;
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t n;

	assert_int_equal(token_sign_jwt("key", key_file, strlen(key_file), 1700000000 * NS_PER_S,
					&jwt, &uri, &err),
			 0);
	assert_string_equal(uri, "https://oauth.example.org/token");
	dot1 = strchr(jwt.s, '.');
	dot2 = strchr(dot1 + 1, '.');
	n = decode(jwt.s, (size_t)(dot1 - jwt.s), out);
	out[n] = '\0';
	assert_string_equal((char *)out, "{\"alg\":\"RS256\",\"kid\":\"k1\",\"typ\":\"JWT\"}");
	n = decode(dot1 + 1, (size_t)(dot2 - dot1 - 1), out);
	out[n] = '\0';
	assert_non_null(strstr(
		(char *)out,
		"\"aud\":\"https://oauth.example.org/"
		"token\",\"exp\":1700003600,\"iat\":1700000000,\"iss\":\"robot@example.org\""));
	n = decode(dot2 + 1, strlen(dot2 + 1), out);
	assert_int_equal(EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key), 1);
	assert_int_equal(
		EVP_DigestVerify(ctx, out, n, (unsigned char *)jwt.s, (size_t)(dot2 - jwt.s)), 1);
	EVP_MD_CTX_free(ctx);
	str_deinit(&jwt);
	free(uri);
}

/* Sources. */

static void test_service_account(void **state)
{
	use_file(key_file);
	world.url = "https://oauth.example.org/token";
	world.body_has =
		"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";
	gives("T1");
	gives("T1");
	assert_int_equal(world.asked, 1);
}

static void test_user(void **state)
{
	use_file("{\"type\":\"authorized_user\",\"client_id\":\"id\",\"client_secret\":\"x\","
		 "\"refresh_token\":\"" SECRET "\",\"token_uri\":\"https://oauth.example.org/t\"}");
	world.url = "https://oauth.example.org/t";
	world.body_has =
		"grant_type=refresh_token&client_id=id&client_secret=x&refresh_token=" SECRET;
	gives("T1");
}

static void test_metadata_server(void **state)
{
	world.url = "http://"
		    "metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/"
		    "token";
	refuses("no credentials for Google Cloud Storage"); /* somebody else answers there */
	world.header = "Metadata-Flavor: Google";
	gives("T1");
}

static void test_what_is_wrong(void **state)
{
	setenv("GOOGLE_APPLICATION_CREDENTIALS", "/nonexistent.json", 1);
	refuses("which doesn't exist");
	use_file("not JSON, but " SECRET);
	refuses("isn't JSON");
	use_file("{\"type\":\"external_account\"}");
	refuses("aren't supported");
	use_file("{\"type\":\"service_account\",\"client_email\":\"a\",\"private_key\":\"" SECRET
		 "\"}");
	refuses("no RSA key");
	use_file("{\"type\":\"authorized_user\",\"client_id\":\"id\",\"client_secret\":\"x\","
		 "\"refresh_token\":\"" SECRET "\",\"token_uri\":\"http://oauth.example.org/t\"}");
	world.url = "http://oauth.example.org/t";
	refuses("must be https");
	use_file(key_file);
	world.url = "https://oauth.example.org/token";
	world.status = 400;
	world.body = "{\"error\":\"invalid_grant\",\"error_description\":\"account gone\"}";
	refuses("invalid_grant: account gone");
	world.status = 200;
	world.body = "{\"access_token\":\"T\\r\\nX: y\",\"expires_in\":3600}";
	refuses("without a usable token");
}

static void test_renewal(void **state)
{
	char *token = NULL;

	use_file(key_file);
	world.url = "https://oauth.example.org/token";
	gives("T1");
	world.body = "{\"access_token\":\"T2\",\"expires_in\":3600}";
	clock_virtual_advance(&world.clock, 54 * 60 * NS_PER_S);
	gives("T1");
	clock_virtual_advance(&world.clock, 2 * 60 * NS_PER_S);
	world.url = NULL; /* can't be renewed now */
	gives("T1");
	clock_virtual_advance(&world.clock, NS_PER_S);
	world.url = "https://oauth.example.org/token";
	gives("T1");
	clock_virtual_advance(&world.clock, 30 * NS_PER_S);
	gives("T2");
	world.body = "{\"access_token\":\"T3\",\"expires_in\":3600}";
	assert_int_equal(token_get(world.source, "T2", &token, NULL),
			 0); /* refused by the server */
	assert_string_equal(token, "T3");
	free(token);
}

/* CRC-32C (RFC 3720 B.4). */

static void test_crc32c(void **state)
{
	uint8_t b[32];
	char text[9];

	memset(b, 0, sizeof(b));
	assert_int_equal(crc32c(0, b, 32), 0x8a9136aa);
	memset(b, 0xff, sizeof(b));
	assert_int_equal(crc32c(0, b, 32), 0x62a8ab43);
	for (int i = 0; i < 32; i++)
		b[i] = (uint8_t)i;
	assert_int_equal(crc32c(0, b, 32), 0x46dd794e);
	assert_int_equal(crc32c(crc32c(0, b, 13), b + 13, 19), 0x46dd794e);
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
	crc32c_base64(0xe3069283, text);
	assert_string_equal(text, "4waSgw==");
	crc32c_base64(0, text);
	assert_string_equal(text, "AAAAAA==");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(test_jwt),           T(test_service_account),
		T(test_user),          T(test_metadata_server),
		T(test_what_is_wrong), T(test_renewal),
		T(test_crc32c),
	};
	return cmocka_run_group_tests(tests, make_key, drop_key);
}
