/* Signature version 4 against what AWS has published: the examples of the S3 documentation and the
 * test suite of the algorithm. */
#include <string.h>
#include "base/text/text.h"
#include "storage/bucket/s3/sigv4.h"
#include "unit.h"

#define EMPTY        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
#define S3_SECRET    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
#define SUITE_SECRET "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
#define S3_HOST                                          \
	{                                                \
		"host", "examplebucket.s3.amazonaws.com" \
	}
#define S3_DATE                                  \
	{                                        \
		"x-amz-date", "20130524T000000Z" \
	}
#define SUITE_HOST                              \
	{                                       \
		"host", "example.amazonaws.com" \
	}
#define SUITE_DATE                               \
	{                                        \
		"x-amz-date", "20150830T123600Z" \
	}

static const struct {
	const char *name, *service, *method, *path, *query;
	struct sigv4_header headers[6];
	const char *payload_hash, *signature;
} published[] = {
	{ "GET Object",
	  "s3",
	  "GET",
	  "/test.txt",
	  NULL,
	  { S3_HOST, { "range", "bytes=0-9" }, { "x-amz-content-sha256", EMPTY }, S3_DATE },
	  EMPTY,
	  "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41" },
	{ "PUT Object",
	  "s3",
	  "PUT",
	  "/test%24file.text",
	  NULL,
	  { { "date", "Fri, 24 May 2013 00:00:00 GMT" },
	    S3_HOST,
	    { "x-amz-content-sha256",
	      "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072" },
	    S3_DATE,
	    { "x-amz-storage-class", "REDUCED_REDUNDANCY" } },
	  "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072",
	  "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd" },
	{ "GET Bucket Lifecycle",
	  "s3",
	  "GET",
	  "/",
	  "lifecycle",
	  { S3_HOST, { "x-amz-content-sha256", EMPTY }, S3_DATE },
	  EMPTY,
	  "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543" },
	{ "List Objects",
	  "s3",
	  "GET",
	  "/",
	  "prefix=J&max-keys=2",
	  { S3_HOST, { "x-amz-content-sha256", EMPTY }, S3_DATE },
	  EMPTY,
	  "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7" },
	{ "get-vanilla",
	  "service",
	  "GET",
	  "/",
	  NULL,
	  { SUITE_HOST, SUITE_DATE },
	  EMPTY,
	  "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31" },
	{ "get-vanilla-query-order-key-case",
	  "service",
	  "GET",
	  "/",
	  "Param2=value2&Param1=value1",
	  { SUITE_HOST, SUITE_DATE },
	  EMPTY,
	  "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500" },
	{ "get-utf8",
	  "service",
	  "GET",
	  "/\xe1\x88\xb4",
	  NULL,
	  { SUITE_HOST, SUITE_DATE },
	  EMPTY,
	  "8318018e0b0f223aa2bbf98705b62bb787dc9c0e678f255a891fd03141be5d85" },
	{ "get-header-value-trim",
	  "service",
	  "GET",
	  "/",
	  NULL,
	  { SUITE_HOST,
	    { "my-header1", " value1" },
	    { "my-header2", " \"a   b   c\"" },
	    SUITE_DATE },
	  EMPTY,
	  "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736" },
	{ "get-header-key-duplicate",
	  "service",
	  "GET",
	  "/",
	  NULL,
	  { SUITE_HOST,
	    { "my-header1", "value2" },
	    { "my-header1", "value2" },
	    { "my-header1", "value1" },
	    SUITE_DATE },
	  EMPTY,
	  "c9d5ea9f3f72853aea855b47ea873832890dbdd183b4468f858259531a5138ea" },
	{ "post-vanilla",
	  "service",
	  "POST",
	  "/",
	  NULL,
	  { SUITE_HOST, SUITE_DATE },
	  EMPTY,
	  "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b" },
	{ "post-x-www-form-urlencoded",
	  "service",
	  "POST",
	  "/",
	  NULL,
	  { { "content-type", "application/x-www-form-urlencoded" }, SUITE_HOST, SUITE_DATE },
	  "9095672bbd1f56dfc5b65f3e153adc8731a4a654192329106275f4c7b24d0b6e",
	  "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a" },
};

static struct sigv4_request request_of(size_t i)
{
	bool s3 = strcmp(published[i].service, "s3") == 0;
	struct sigv4_request r = { .method = published[i].method,
				   .path = published[i].path,
				   .query = published[i].query,
				   .headers = published[i].headers,
				   .payload_hash = published[i].payload_hash,
				   .region = "us-east-1",
				   .service = published[i].service,
				   .key_id = s3 ? "AKIAIOSFODNN7EXAMPLE" : "AKIDEXAMPLE",
				   .secret = s3 ? S3_SECRET : SUITE_SECRET };

	while (r.n_headers < ARRAY_LEN(published[i].headers) &&
	       published[i].headers[r.n_headers].name)
		r.n_headers++;
	assert_int_equal(text_parse_time(s3 ? "2013-05-24T00:00:00Z" : "2015-08-30T12:36:00Z",
					 &r.time_ns, NULL),
			 0);
	return r;
}

static void test_published(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(published); i++) {
		struct sigv4_request r = request_of(i);
		struct str s = { 0 };
		const char *at;

		sigv4_authorization(&r, &s);
		at = strstr(s.s, "Signature=");
		if (!at || strcmp(at + 10, published[i].signature) != 0) {
			struct str c = { 0 };

			sigv4_canonical(&r, &c);
			print_message("%s: %s\n%s\n", published[i].name, s.s, c.s);
			str_deinit(&c);
			fail();
		}
		str_deinit(&s);
	}
}

static void test_authorization_header(void **state)
{
	struct sigv4_request r = request_of(0);
	struct str s = { 0 };

	sigv4_authorization(&r, &s);
	assert_string_equal(
		s.s, "AWS4-HMAC-SHA256 "
		     "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
		     "aws4_request,SignedHeaders=host;range;x-amz-content-sha256;x-amz-date,"
		     "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
	str_deinit(&s);
}

/* Anything that is signed, changed by a bit, gives another signature. */
static void test_every_bit_counts(void **state)
{
	static const struct sigv4_header other[] = {
		S3_HOST, { "range", "bytes=0-8" }, { "x-amz-content-sha256", EMPTY }, S3_DATE
	};
	struct str first = { 0 }, s = { 0 };
	struct sigv4_request good = request_of(0), bad[8];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		bad[i] = good;
	bad[0].method = "PUT";
	bad[1].path = "/tesu.txt";
	bad[2].query = "a=";
	bad[3].headers = other;
	bad[4].payload_hash = "f3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
	bad[5].region = "us-east-2";
	bad[6].secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEZ";
	bad[7].time_ns += NS_PER_S;
	sigv4_authorization(&good, &first);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		str_reset(&s);
		sigv4_authorization(&bad[i], &s);
		assert_string_not_equal(strstr(s.s, "Signature="), strstr(first.s, "Signature="));
	}
	str_deinit(&s);
	str_deinit(&first);
}

/* Parameters are sorted by name before value ("a=" before "a-b="), and one without a value is
 * signed with its '='. */
static void test_query_order(void **state)
{
	struct sigv4_request r = request_of(2);
	struct str s = { 0 };

	r.query = "uploads&a-b=1&a=2&a=1&B=3&partNumber=10";
	sigv4_canonical(&r, &s);
	assert_non_null(strstr(s.s, "\nB=3&a=1&a=2&a-b=1&partNumber=10&uploads=\n"));
	str_deinit(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_published),
		cmocka_unit_test(test_authorization_header),
		cmocka_unit_test(test_every_bit_counts),
		cmocka_unit_test(test_query_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
