/* The credential chain: each source, their order, renewal, and that no secret shows in an error.
 * STS and metadata services are a table here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/text/text.h"
#include "storage/bucket/s3/credentials.h"
#include "storage/bucket/s3/sigv4.h"
#include "unit.h"

#define SECRET "s3cr3t/that+shows=nowhere"

/* A world of answers. */

struct answer {
	const char *method, *url; /* of the request; url: how it begins */
	const char *needs;        /* a header that it must have, or NULL */
	const char *body_has;     /* a part of its body, or NULL */
	long status;
	const char *body;
};

static struct world {
	const struct answer *answers;
	size_t n;
	unsigned asked;
	struct clock clock;
	char dir[TEST_DIR_MAX];
	struct credentials_chain *chain;
} world;

static bool has_header(const struct http_request *r, const char *header)
{
	for (const char *const *p = r->headers; p && *p; p++)
		if (strncmp(*p, header, strlen(header)) == 0)
			return true;
	return false;
}

static int fetch(void *arg, struct http_request *r, struct err *err)
{
	world.asked++;
	for (size_t i = 0; i < world.n; i++) {
		const struct answer *a = &world.answers[i];

		if (strcmp(a->method, r->method) != 0 ||
		    strncmp(a->url, r->url, strlen(a->url)) != 0)
			continue;
		if (a->needs && !has_header(r, a->needs))
			continue;
		if (a->body_has &&
		    (!r->body || !memmem(r->body, r->body_len, a->body_has, strlen(a->body_has))))
			continue;
		r->reply.status = a->status;
		str_add(&r->reply.body, a->body);
		return 0;
	}
	return err_set(err, ERR_IO, "nobody listens");
}

static const char *const variables[] = {
	"AWS_ACCESS_KEY_ID",
	"AWS_SECRET_ACCESS_KEY",
	"AWS_SESSION_TOKEN",
	"AWS_PROFILE",
	"AWS_DEFAULT_PROFILE",
	"AWS_REGION",
	"AWS_DEFAULT_REGION",
	"AWS_SHARED_CREDENTIALS_FILE",
	"AWS_CONFIG_FILE",
	"AWS_WEB_IDENTITY_TOKEN_FILE",
	"AWS_ROLE_ARN",
	"AWS_ROLE_SESSION_NAME",
	"AWS_ENDPOINT_URL",
	"AWS_ENDPOINT_URL_STS",
	"AWS_ENDPOINT_URL_S3",
	"AWS_IGNORE_CONFIGURED_ENDPOINT_URLS",
	"AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
	"AWS_CONTAINER_CREDENTIALS_FULL_URI",
	"AWS_CONTAINER_AUTHORIZATION_TOKEN",
	"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE",
	"AWS_EC2_METADATA_DISABLED",
	"AWS_EC2_METADATA_SERVICE_ENDPOINT",
};

static int set_up(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(variables); i++)
		unsetenv(variables[i]);
	world = (struct world){ 0 };
	clock_virtual_init(&world.clock, 1700000000 * NS_PER_S); /* 2023-11-14T22:13:20Z */
	test_dir(world.dir, sizeof(world.dir), "credentials");
	setenv("HOME", world.dir, 1);
	return 0;
}

static int tear_down(void **state)
{
	credentials_chain_free(world.chain);
	return fs_remove_tree(world.dir, NULL);
}

static void set_answers(const struct answer *a, size_t n)
{
	world.answers = a;
	world.n = n;
}

static char *write_file(const char *name, const char *text)
{
	char *path = fs_join(world.dir, name), *dir = fs_dirname(path);

	assert_int_equal(fs_mkdir_p(dir, NULL), 0);
	assert_int_equal(fs_write_atomic(path, text, strlen(text), NULL), 0);
	free(dir);
	return path;
}

static void write_only(const char *name, const char *text)
{
	free(write_file(name, text));
}

static void chain(const char *profile)
{
	struct credentials_options o = { .profile = profile,
					 .clock = &world.clock,
					 .fetch = fetch };

	credentials_chain_free(world.chain);
	world.chain = credentials_chain_new(&o);
}

static void gives(const char *key_id, const char *token)
{
	struct credentials c = { 0 };
	struct err err = { 0 };

	if (credentials_get(world.chain, NULL, &c, &err) < 0)
		fail_msg("%s", err.msg);
	assert_string_equal(c.key_id, key_id);
	assert_string_equal(c.secret, SECRET);
	if (token)
		assert_string_equal(c.token, token);
	else
		assert_null(c.token);
	credentials_deinit(&c);
}

static void refuses(const char *why)
{
	struct credentials c = { 0 };
	struct err err = { 0 };

	assert_int_equal(credentials_get(world.chain, NULL, &c, &err), -1);
	if (!strstr(err.msg, why))
		fail_msg("%s", err.msg);
	assert_null(strstr(err.msg, "s3cr3t"));
	assert_null(c.key_id);
}

/* Sources. */

static void test_environment(void **state)
{
	setenv("AWS_ACCESS_KEY_ID", "ENVKEY", 1);
	chain(NULL);
	refuses("AWS_SECRET_ACCESS_KEY");
	setenv("AWS_SECRET_ACCESS_KEY", SECRET, 1);
	gives("ENVKEY", NULL);
	setenv("AWS_SESSION_TOKEN", "tok", 1);
	chain(NULL);
	gives("ENVKEY", "tok");
	assert_int_equal(world.asked, 0);
}

static void test_shared_files(void **state)
{
	char *region = NULL;
	struct credentials_options o = { .profile = "other",
					 .clock = &world.clock,
					 .fetch = fetch };

	write_only(".aws/credentials", "# comment\n[default]\r\naws_access_key_id = "
				       "FILEKEY\r\nAWS_SECRET_ACCESS_KEY=" SECRET
				       " # my key\n\n[other]\naws_access_key_id=OTHER\n");
	write_only(".aws/config",
		   "[default]\nregion = eu-west-1\ns3 =\n  addressing_style = path\n[profile "
		   "other]\naws_access_key_id=SHADOWED\naws_secret_access_key=" SECRET
		   "\naws_session_token = t\nregion=eu-north-1\n[sso-session x]\nregion=nowhere\n");
	chain(NULL);
	gives("FILEKEY", NULL);
	chain("other");
	gives("OTHER", "t"); /* what both files say is taken from the first */
	setenv("AWS_PROFILE", "other", 1);
	chain(NULL);
	gives("OTHER", "t");
	setenv("AWS_PROFILE", "missing", 1);
	chain(NULL);
	refuses("profile `missing` is in neither");
	assert_int_equal(credentials_profile_setting(&o, "region", &region, NULL), 0);
	assert_string_equal(region, "eu-north-1");
	free(region);
	/* A profile that is asked for by option goes before the environment's keys. */
	setenv("AWS_ACCESS_KEY_ID", "ENVKEY", 1);
	setenv("AWS_SECRET_ACCESS_KEY", SECRET, 1);
	chain(NULL);
	gives("ENVKEY", NULL);
	chain("other");
	gives("OTHER", "t");
}

static void test_bad_profiles(void **state)
{
	write_only(".aws/config",
		   "[profile half]\naws_access_key_id = X\n[profile sso]\nsso_start_url = "
		   "u\n[profile role]\nrole_arn = r\n[profile loop]\nrole_arn = r\n"
		   "source_profile = loop2\n[profile loop2]\nrole_arn = r\nsource_profile = "
		   "loop\n[profile mfa]\nrole_arn=r\nsource_profile=keys\nmfa_serial=m\n"
		   "[profile keys]\naws_access_key_id=K\naws_secret_access_key=" SECRET "\n");
	chain("half");
	refuses("only one of");
	chain("sso");
	refuses("export-credentials");
	chain("role");
	refuses("no source_profile");
	chain("loop");
	refuses("circle");
	chain("mfa");
	refuses("MFA");
}

static void test_process(void **state)
{
	write_only(".aws/config",
		   "[profile good]\ncredential_process = printf "
		   "'{\"Version\":1,\"AccessKeyId\":\"PROC\",\"SecretAccessKey\":\"" SECRET
		   "\",\"SessionToken\":\"t\",\"Expiration\":\"2023-11-14T23:13:20Z\"}'\n"
		   "[profile fails]\ncredential_process = echo " SECRET
		   "; exit 3\n[profile odd]\ncredential_process = echo " SECRET "\n"
		   "[profile empty]\ncredential_process = printf "
		   "'{\"AccessKeyId\":\"\",\"SecretAccessKey\":\"" SECRET "\"}'\n"
		   "[profile much]\ncredential_process = head -c 2000000 /dev/zero\n"
		   "[profile over]\nrole_arn = r\nsource_profile = fails\n");
	chain("good");
	gives("PROC", "t");
	chain("fails");
	refuses("exit code 3");
	chain("odd");
	refuses("JSON");
	chain("empty");
	refuses("empty");
	chain("much");
	refuses("too much");
	chain("over");
	refuses("credential_process of the profile `fails` failed");
}

#define STS_ANSWER(name, key)                                                             \
	"<" name "Response xmlns=\"x\"><" name "Result><Credentials><AccessKeyId>" key    \
	"</AccessKeyId><SecretAccessKey>" SECRET "</SecretAccessKey>"                     \
	"<SessionToken>tok</SessionToken><Expiration>2023-11-14T23:13:20Z</Expiration></" \
	"Credentials></" name "Result></" name "Response>"

static void test_web_identity(void **state)
{
	static const struct answer answers[] = {
		{ "POST",
		  "https://"
		  "sts.eu-west-1.amazonaws.com/",
		  "Content-Type: application/x-www-form-urlencoded",
		  "Action=AssumeRoleWithWebIdentity&Version=2011-06-15&RoleArn=arn%3Aaws%3Aiam%3A%"
		  "3A1%3Arole%2Fr&RoleSessionName=me&WebIdentityToken=jwt.jwt.jwt",
		  200, STS_ANSWER("AssumeRoleWithWebIdentity", "WEB") },
	};
	static const struct answer refused[] = {
		{ "POST", "https://sts.", NULL, NULL, 400,
		  "<ErrorResponse><Error><Code>InvalidIdentityToken</Code><Message>not "
		  "yours</Message></Error></ErrorResponse>" }
	};
	char *path = write_file("token", "jwt.jwt.jwt\n");

	setenv("AWS_WEB_IDENTITY_TOKEN_FILE", path, 1);
	setenv("AWS_ROLE_ARN", "arn:aws:iam::1:role/r", 1);
	setenv("AWS_ROLE_SESSION_NAME", "me", 1);
	setenv("AWS_REGION", "eu-west-1", 1);
	set_answers(answers, 1);
	chain(NULL);
	gives("WEB", "tok");
	set_answers(refused, 1);
	chain(NULL);
	refuses("InvalidIdentityToken: not yours");
	unlink(path);
	chain(NULL);
	refuses("token");
	free(path);
}

static void test_assumed_role(void **state)
{
	static const struct answer answers[] = {
		{ "POST", "http://127.0.0.1:1/",
		  "Authorization: AWS4-HMAC-SHA256 "
		  "Credential=BASE/20231114/us-east-1/sts/aws4_request",
		  "Action=AssumeRole&", 200, STS_ANSWER("AssumeRole", "ROLE") },
	};

	write_only(".aws/config",
		   "[profile role]\nrole_arn = arn:aws:iam::1:role/r\nsource_profile = "
		   "base\nexternal_id = x\n"
		   "[profile base]\naws_access_key_id = BASE\naws_secret_access_key = other\n");
	setenv("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:1/", 1);
	set_answers(answers, 1);
	chain("role");
	gives("ROLE", "tok");
}

/* What is signed is what is sent: the host as the Host header names it, and the whole path. */
static void test_signed_for_the_endpoint(void **state)
{
	static const struct {
		const char *endpoint, *url, *host, *path;
	} cases[] = {
		{ "https://sts.example.org", "https://sts.example.org/", "sts.example.org", "/" },
		{ "https://STS.example.org:443/", "https://sts.example.org/", "sts.example.org",
		  "/" },
		{ "http://127.0.0.1:80", "http://127.0.0.1/", "127.0.0.1", "/" },
		{ "http://127.0.0.1:443", "http://127.0.0.1:443/", "127.0.0.1:443", "/" },
		{ "http://127.0.0.1:1/sts//", "http://127.0.0.1:1/sts/", "127.0.0.1:1", "/sts/" },
	};
	static const char body[] =
		"Action=AssumeRole&Version=2011-06-15&RoleArn=r&RoleSessionName=me";

	write_only(".aws/config",
		   "[profile role]\nrole_arn = r\nsource_profile = base\nrole_session_name = me\n"
		   "[profile base]\naws_access_key_id = BASE\naws_secret_access_key = other\n");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char date[SIGV4_DATE_BYTES], hash[DIGEST_HEX_MAX];
		struct sigv4_header headers[] = { { "content-type",
						    "application/x-www-form-urlencoded" },
						  { "host", cases[i].host },
						  { "x-amz-date", date } };
		struct sigv4_request q = { .method = "POST",
					   .path = cases[i].path,
					   .headers = headers,
					   .n_headers = 3,
					   .payload_hash = hash,
					   .region = "us-east-1",
					   .service = "sts",
					   .key_id = "BASE",
					   .secret = "other",
					   .time_ns = 1700000000 * NS_PER_S };
		_cleanup_(str_deinit) struct str want = { 0 };
		struct answer a = { "POST", cases[i].url, NULL,
				    body,   200,          STS_ANSWER("AssumeRole", "ROLE") };
		struct digest d;

		sigv4_date(q.time_ns, date);
		digest_bytes(body, sizeof(body) - 1, &d);
		digest_hex(&d, hash);
		str_add(&want, "Authorization: ");
		sigv4_authorization(&q, &want);
		a.needs = want.s;
		setenv("AWS_ENDPOINT_URL_STS", cases[i].endpoint, 1);
		set_answers(&a, 1);
		chain("role");
		gives("ROLE", "tok");
	}
	setenv("AWS_ENDPOINT_URL_STS", "sts.example.org", 1);
	chain("role");
	refuses("must be http");
}

static void test_endpoints(void **state)
{
	static const struct {
		const char *profile, *service, *variable, *value, *want;
	} cases[] = {
		{ "minio", "s3", NULL, NULL, "http://127.0.0.1:9000" },
		{ "minio", "sts", NULL, NULL,
		  "https://all" }, /* its section doesn't name it: the profile does */
		{ "both", "sts", NULL, NULL, "https://sts" },
		{ "both", "s3", NULL, NULL, "https://s3" },
		{ "plain", "s3", NULL, NULL, NULL },
		{ "lost", "s3", NULL, NULL, NULL }, /* no such section */
		{ "minio", "s3", "AWS_ENDPOINT_URL", "https://environment", "https://environment" },
		{ "minio", "s3", "AWS_ENDPOINT_URL_S3", "https://own", "https://own" },
		{ "both", "sts", "AWS_ENDPOINT_URL_S3", "https://own", "https://sts" },
		{ "minio", "s3", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", "true", NULL },
	};

	write_only(".aws/config",
		   "[profile minio]\nservices = m\nendpoint_url = https://all\n[services m]\n# "
		   "here\ns3 =\n  endpoint_url = http://127.0.0.1:9000 # ours\n"
		   "  addressing_style = path\n[profile both]\nservices=b\n[services "
		   "b]\ns3=\n\tendpoint_url=https://s3\nsts =\n endpoint_url = https://sts\n"
		   "[profile plain]\ns3 =\n  endpoint_url = https://not-in-a-profile\n[profile "
		   "lost]\nservices = nobody\n");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const struct credentials_options o = { .profile = cases[i].profile };
		_cleanup_(freep) char *got = NULL;
		struct err err = { 0 };

		if (cases[i].variable)
			setenv(cases[i].variable, cases[i].value, 1);
		assert_int_equal(credentials_endpoint(&o, cases[i].service, &got, &err), 0);
		if (cases[i].variable)
			unsetenv(cases[i].variable);
		if (!str_eq(got ? got : "none", cases[i].want ? cases[i].want : "none"))
			fail_msg("%s of %s: %s", cases[i].service, cases[i].profile,
				 got ? got : "none");
	}
}

#define METADATA_ANSWER(key)                                                              \
	"{\"Code\":\"Success\",\"AccessKeyId\":\"" key "\",\"SecretAccessKey\":\"" SECRET \
	"\",\"Token\":\"tok\",\"Expiration\":\"2023-11-14T23:13:20Z\"}"

static void test_container(void **state)
{
	static const struct answer answers[] = {
		{ "GET", "http://169.254.170.2/v2/creds", NULL, NULL, 200, METADATA_ANSWER("ECS") },
		{ "GET", "http://169.254.170.23/v1/credentials", "Authorization: pod-token", NULL,
		  200, METADATA_ANSWER("EKS") },
	};
	char *path = write_file("token", "pod-token\n");

	set_answers(answers, 2);
	setenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "/v2/creds", 1);
	chain(NULL);
	gives("ECS", "tok");
	unsetenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI");
	setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials", 1);
	setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", path, 1);
	chain(NULL);
	gives("EKS", "tok");
	setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://127.0.0.1.example.org/v1", 1);
	chain(NULL);
	refuses("must be https");
	setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.23/v1/credentials", 1);
	free(write_file("token", "a\r\nX-Injected: 1"));
	chain(NULL);
	refuses("line break");
	free(path);
}

static void test_instance_metadata(void **state)
{
	static const struct answer answers[] = {
		{ "PUT", "http://169.254.169.254/latest/api/token",
		  "X-aws-ec2-metadata-token-ttl-seconds: 21600", NULL, 200, "imds" },
		{ "GET",
		  "http://169.254.169.254/latest/meta-data/iam/security-credentials/node-role",
		  "X-aws-ec2-metadata-token: imds", NULL, 200, METADATA_ANSWER("IMDS") },
		{ "GET", "http://169.254.169.254/latest/meta-data/iam/security-credentials/",
		  "X-aws-ec2-metadata-token: imds", NULL, 200, "node-role" },
	};
	static const struct answer no_role[] = {
		{ "PUT", "http://169.254.169.254/latest/api/token", NULL, NULL, 200, "imds" },
		{ "GET", "http://169.254.169.254/latest/meta-data/iam/security-credentials/", NULL,
		  NULL, 200, "../../escape" },
	};

	chain(NULL);
	refuses("no credentials for S3");
	set_answers(answers, 3);
	gives("IMDS", "tok");
	set_answers(no_role, 2);
	chain(NULL);
	refuses("no credentials for S3");
	set_answers(answers, 3);
	setenv("AWS_EC2_METADATA_DISABLED", "true", 1);
	world.asked = 0;
	chain(NULL);
	refuses("no credentials for S3");
	assert_int_equal(world.asked, 0);
}

/* Renewal. */

static const struct answer first_hour[] = {
	{ "PUT", "http://169.254.169.254/", NULL, NULL, 200, "imds" },
	{ "GET", "http://169.254.169.254/latest/meta-data/iam/security-credentials/r", NULL, NULL,
	  200, METADATA_ANSWER("ONE") },
	{ "GET", "http://169.254.169.254/latest/meta-data/iam/security-credentials/", NULL, NULL,
	  200, "r" },
};
static const struct answer next_hour[] = {
	{ "PUT", "http://169.254.169.254/", NULL, NULL, 200, "imds" },
	{ "GET", "http://169.254.169.254/latest/meta-data/iam/security-credentials/r", NULL, NULL,
	  200,
	  "{\"AccessKeyId\":\"TWO\",\"SecretAccessKey\":\"" SECRET
	  "\",\"Token\":\"tok\",\"Expiration\":\"2023-11-15T00:13:20Z\"}" },
	{ "GET", "http://169.254.169.254/latest/meta-data/iam/security-credentials/", NULL, NULL,
	  200, "r" },
};

static void test_renewed_before_they_expire(void **state)
{
	set_answers(first_hour, 3);
	chain(NULL);
	gives("ONE", "tok");
	set_answers(next_hour, 3);
	clock_virtual_advance(&world.clock, 54 * 60 * NS_PER_S);
	gives("ONE", "tok");
	clock_virtual_advance(&world.clock, 61 * NS_PER_S);
	gives("TWO", "tok");
}

static void test_the_old_are_used_while_renewal_fails(void **state)
{
	unsigned asked;

	set_answers(first_hour, 3);
	chain(NULL);
	gives("ONE", "tok");
	set_answers(NULL, 0);
	clock_virtual_advance(&world.clock, 56 * 60 * NS_PER_S);
	gives("ONE", "tok");
	asked = world.asked;
	gives("ONE", "tok"); /* not asked at every request */
	assert_int_equal(world.asked, asked);
	clock_virtual_advance(&world.clock, 5 * 60 * NS_PER_S);
	refuses("no credentials for S3");
	set_answers(next_hour, 3);
	gives("TWO", "tok");
}

static void test_refused_ones_are_looked_up_anew(void **state)
{
	struct credentials c = { 0 };

	set_answers(first_hour, 3);
	chain(NULL);
	gives("ONE", "tok");
	set_answers(next_hour, 3);
	assert_int_equal(credentials_get(world.chain, "ONE", &c, NULL), 0);
	assert_string_equal(c.key_id, "TWO");
	credentials_deinit(&c);
	world.asked = 0;
	assert_int_equal(credentials_get(world.chain, "ONE", &c, NULL),
			 0); /* another thread was faster */
	assert_string_equal(c.key_id, "TWO");
	assert_int_equal(world.asked, 0);
	credentials_deinit(&c);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(test_environment),
		T(test_shared_files),
		T(test_bad_profiles),
		T(test_process),
		T(test_web_identity),
		T(test_assumed_role),
		T(test_signed_for_the_endpoint),
		T(test_endpoints),
		T(test_container),
		T(test_instance_metadata),
		T(test_renewed_before_they_expire),
		T(test_the_old_are_used_while_renewal_fails),
		T(test_refused_ones_are_looked_up_anew),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
