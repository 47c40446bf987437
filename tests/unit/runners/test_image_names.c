/* Names of images, challenges of registries, and Docker's configuration. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "runners/image/registry_internal.h"
#include "unit.h"

#define D64 "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Names. */

static void test_names(void **state)
{
	static const struct {
		const char *text, *want;
	} rows[] = {
		{ "python", "docker.io/library/python:latest" },
		{ "python:3.11", "docker.io/library/python:3.11" },
		{ "team/train", "docker.io/team/train:latest" },
		{ "docker.io/python", "docker.io/library/python:latest" },
		{ "index.docker.io/team/train:1", "docker.io/team/train:1" },
		{ "registry.example/team/train:2.4", "registry.example/team/train:2.4" },
		{ "registry.example:5000/train", "registry.example:5000/train:latest" },
		{ "localhost/train", "localhost/train:latest" },
		{ "localhost:5000/a/b/c:x", "localhost:5000/a/b/c:x" },
		{ "[::1]:5000/a", "[::1]:5000/a:latest" },
		{ "Host/a", "Host/a:latest" },
		{ "a@sha256:" D64, "docker.io/library/a@sha256:" D64 },
		{ "registry.example/a:1@sha256:" D64, "registry.example/a:1@sha256:" D64 },
		{ "team/a.b-c__d---e", "docker.io/team/a.b-c__d---e:latest" },
		{ "r.example/a:_.-", "r.example/a:_.-" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		_cleanup_(str_deinit) struct str out = { 0 };
		struct image_ref r;

		assert_int_equal(image_ref_parse(rows[i].text, arena, &r, NULL), 0);
		image_ref_add(&out, &r);
		assert_string_equal(out.s, rows[i].want);
	}
}

static void test_what_is_no_name(void **state)
{
	static const char *const bad[] = {
		"",
		":",
		"@",
		"/",
		"a/",
		"/a",
		"a//b",
		"A",
		"team/Train",
		"a:",
		"a: b",
		"a b",
		"a:b:c",
		"a:b/c",
		"a:-x",
		"a:.x",
		"-a",
		"a-",
		"a..b",
		"a___b",
		"a.-b",
		"_a",
		"r.example:/a",
		"r.example:99999/a",
		"r.example:0/a",
		"-r.example/a",
		"r-.example/a",
		".r.example/a",
		"r..example/a",
		"r.example./a",
		"[::1/a",
		"[]/a",
		"r_r.example/a",
		"[zz]:1/a",
		"a@",
		"a@sha256:",
		"a@sha256:" D64 "0",
		"a@sha512:" D64,
		"a@sha256:" D64 "@x",
		"a@SHA256:" D64,
		"a\n",
		"a:1\n",
		"\xff",
		"https://r.example/a",
		"a@sha256:0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef"
	};
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	char long_tag[140] = "a:", long_name[300];
	struct image_ref r;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err err = { 0 };

		if (image_ref_parse(bad[i], arena, &r, &err) == 0)
			fail_msg("`%s` is a name", bad[i]);
		assert_int_equal(err.code, ERR_INVALID);
	}
	memset(long_tag + 2, 'x', 129);
	assert_int_equal(image_ref_parse(long_tag, arena, &r, NULL), -1);
	long_tag[130] = '\0';
	assert_int_equal(image_ref_parse(long_tag, arena, &r, NULL), 0);
	memset(long_name, 'x', sizeof(long_name));
	long_name[248] = '\0'; /* with "library/": 256 */
	assert_int_equal(image_ref_parse(long_name, arena, &r, NULL), -1);
	long_name[247] = '\0';
	assert_int_equal(image_ref_parse(long_name, arena, &r, NULL), 0);
}

/* Challenges. */

static void test_challenges(void **state)
{
	static const struct {
		const char *headers;
		int scheme;
		const char *realm, *service, *scope;
	} rows[] = {
		{ "", AUTH_NONE },
		{ "WWW-Authenticate: Basic realm=\"r\"\r\n", AUTH_BASIC, "r" },
		{ "www-authenticate: Bearer "
		  "realm=\"https://a.example/t\",service=\"s\",scope=\"repository:a/"
		  "b:pull,push\"\r\n",
		  AUTH_BEARER, "https://a.example/t", "s", "repository:a/b:pull,push" },
		{ "WWW-Authenticate: bearer REALM=x , service = s\r\n", AUTH_BEARER, "x", "s" },
		{ "WWW-Authenticate: Basic realm=\"b\", Bearer realm=\"t\"\r\n", AUTH_BEARER, "t" },
		{ "WWW-Authenticate: Bearer realm=\"t\"\r\nWWW-Authenticate: Basic realm=\"b\"\r\n",
		  AUTH_BEARER, "t" },
		{ "WWW-Authenticate: Negotiate abc==, Basic realm=\"b\"\r\n", AUTH_BASIC, "b" },
		{ "WWW-Authenticate: Bearer realm=\"a \\\"b\\\"\"\r\n", AUTH_BEARER, "a \"b\"" },
		{ "WWW-Authenticate: Bearer service=\"no realm\"\r\nWWW-Authenticate: Basic\r\n",
		  AUTH_BASIC },
		{ "WWW-Authenticate: Bearer realm=\"never ends\r\n", AUTH_NONE },
		{ "WWW-Authenticate: Digest realm=\"x\"\r\n", AUTH_NONE },
		{ "X-WWW-Authenticate: Basic realm=\"x\"\r\n", AUTH_NONE },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		struct auth_challenge c;

		registry_challenge_parse(rows[i].headers, strlen(rows[i].headers), arena, &c);
		assert_int_equal(c.scheme, rows[i].scheme);
		if (rows[i].realm)
			assert_string_equal(c.realm, rows[i].realm);
		if (rows[i].service)
			assert_string_equal(c.service, rows[i].service);
		if (rows[i].scope)
			assert_string_equal(c.scope, rows[i].scope);
	}
}

/* Docker's configuration. */

/* "user:password", "token", … of an image by this configuration; "" when there is nothing. */
static void find(const char *config, const char *host, const char *path, char *out, size_t size)
{
	const struct docker_text texts[] = { { "a secret", config }, { 0 } };
	const struct image_ref ref = { .host = host, .path = path };
	struct registry_credential who = { 0 };
	struct docker_config *c;
	struct err err = { 0 };
	size_t which;

	assert_int_equal(docker_config_new(texts, &c, &err), 0);
	if (docker_config_find(c, &ref, 0, &who, &which, &err) < 0)
		snprintf(out, size, "error %d", err.code);
	else
		snprintf(out, size, "%s%s%s%s%s", who.user.len ? who.user.s : "",
			 who.user.len ? ":" : "", who.password.len ? who.password.s : "",
			 who.identity.len ? who.identity.s : "",
			 who.bearer.len ? who.bearer.s : "");
	registry_credential_wipe(&who);
	docker_config_free(c);
}

static void test_docker_config(void **state)
{
	static const struct {
		const char *config, *host, *path, *want;
	} rows[] = {
		{ "{}", "r.example", "a", "" },
		{ "{\"auths\": {\"r.example\": {\"auth\": \"dTpw\"}}}", "r.example", "a", "u:p" },
		{ "{\"auths\": {\"r.example\": {\"auth\": \"dTpw\"}}}", "s.example", "a", "" },
		{ "{\"auths\": {\"r.example\": {\"auth\": \"dTpw\"}}}", "r.example:5000", "a", "" },
		{ "{\"auths\": {\"r.example:5000\": {\"auth\": \"dTpwOnE=\"}}}", "r.example:5000",
		  "a", "u:p:q" },
		{ "{\"auths\": {\"https://r.example/v2/\": {\"auth\": \"dTpw\"}}}", "r.example",
		  "a", "u:p" },
		{ "{\"auths\": {\"https://index.docker.io/v1/\": {\"auth\": \"dTpw\"}}}",
		  "docker.io", "library/a", "u:p" },
		{ "{\"auths\": {\"docker.io\": {\"username\": \"x\", \"password\": \"y\"}}}",
		  "docker.io", "library/a", "x:y" },
		{ "{\"auths\": {\"r.example\": {\"auth\": \"dTpw\"}, \"r.example/team\": "
		  "{\"username\": \"t\", \"password\": \"t\"}}}",
		  "r.example", "team/a", "t:t" },
		{ "{\"auths\": {\"r.example\": {\"auth\": \"dTpw\"}, \"r.example/team\": "
		  "{\"username\": \"t\", \"password\": \"t\"}}}",
		  "r.example", "teams/a", "u:p" },
		{ "{\"auths\": {\"*.example\": {\"auth\": \"dTpw\"}}}", "r.example", "a", "u:p" },
		{ "{\"auths\": {\"*.example\": {\"auth\": \"dTpw\"}}}", "a.r.example", "a", "" },
		{ "{\"auths\": {\"*.*.example\": {\"auth\": \"dTpw\"}}}", "a.r.example", "a",
		  "u:p" },
		{ "{\"auths\": {\"r*y.example\": {\"auth\": \"dTpw\"}}}", "registry.example", "a",
		  "u:p" },
		{ "{\"auths\": {\"r.example\": {\"identitytoken\": \"T\"}}}", "r.example", "a",
		  "T" },
		{ "{\"auths\": {\"r.example\": {\"registrytoken\": \"B\"}}}", "r.example", "a",
		  "B" },
		{ "{\"r.example\": {\"auth\": \"dTpw\"}}", "r.example", "a",
		  "u:p" }, /* kubernetes.io/dockercfg */
		{ "{\"auths\": {\"r.example\": {\"auth\": \"!\"}}}", "r.example", "a", "error 2" },
		{ "{\"auths\": {\"r.example\": {\"auth\": \"bm9jb2xvbg==\"}}}", "r.example", "a",
		  "error 2" },
		{ "{\"auths\": {\"r.example\": 7}}", "r.example", "a", "" },
		{ "{\"auths\": []}", "r.example", "a", "" },
		{ "{\"credHelpers\": {\"r.example\": \"here\"}}", "r.example", "a",
		  "helped:r.example" },
		{ "{\"credHelpers\": {\"r.example\": \"here\"}}", "s.example", "a", "" },
		{ "{\"auths\": {\"r.example\": {}}, \"credsStore\": \"here\"}", "r.example", "a",
		  "helped:r.example" },
		{ "{\"credsStore\": \"here\"}", "r.example", "a", "helped:r.example" },
		{ "{\"auths\": {\"s.example\": {}}, \"credsStore\": \"here\"}", "r.example", "a",
		  "helped:r.example" },
		{ "{\"credsStore\": \"nobody\"}", "r.example", "a", "" },
		{ "{\"credsStore\": \"broken\"}", "r.example", "a", "error 2" },
		{ "{\"credsStore\": \"missing\"}", "r.example", "a", "" },
		{ "{\"auths\": {\"r.example\": {}}, \"credsStore\": \"missing\"}", "r.example", "a",
		  "error 3" },
		{ "{\"auths\": {\"r.example\": {}}, \"credsStore\": \"token\"}", "r.example", "a",
		  "idt" },
		{ "{\"credHelpers\": {\"docker.io\": \"here\"}}", "docker.io", "library/a",
		  "helped:https://index.docker.io/v1/" },
		{ "{\"credHelpers\": {\"r.example\": \"nobody\"}}", "r.example", "a", "" },
		{ "{\"credHelpers\": {\"r.example\": \"broken\"}}", "r.example", "a", "error 2" },
		{ "{\"credHelpers\": {\"r.example\": \"rubbish\"}}", "r.example", "a", "error 2" },
		{ "{\"credHelpers\": {\"r.example\": \"missing\"}}", "r.example", "a", "error 3" },
		{ "{\"credHelpers\": {\"r.example\": \"../here\"}}", "r.example", "a", "error 2" },
	};
	char out[200];

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		find(rows[i].config, rows[i].host, rows[i].path, out, sizeof(out));
		if (strcmp(out, rows[i].want) != 0)
			fail_msg("%s for %s/%s: `%s` instead of `%s`", rows[i].config, rows[i].host,
				 rows[i].path, out, rows[i].want);
	}
}

static void test_configurations_that_are_none(void **state)
{
	static const char *const bad[] = { "", "[]", "{", "7",
					   "{\"auths\": {\"a\": 1, \"a\": 2}}" };
	struct docker_config *c;

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		const struct docker_text texts[] = { { "a secret", bad[i] }, { 0 } };
		struct err err = { 0 };

		assert_int_equal(docker_config_new(texts, &c, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
	}
}

/* Those that say nothing of the image are passed over. */
static void test_one_after_the_other(void **state)
{
	const struct docker_text texts[] = {
		{ "one",
		  "{\"auths\": {\"r.example\": {\"username\": \"a\", \"password\": \"x\"}}}" },
		{ "two",
		  "{\"auths\": {\"s.example\": {\"username\": \"b\", \"password\": \"x\"}}}" },
		{ "three",
		  "{\"auths\": {\"r.example\": {\"username\": \"c\", \"password\": \"x\"}}}" },
		{ 0 }
	};
	static const struct {
		size_t from;
		int found;
		const char *user, *name;
	} rows[] = { { 0, 1, "a", "one" },
		     { 1, 1, "c", "three" },
		     { 2, 1, "c", "three" },
		     { 3, 0 },
		     { 9, 0 } };
	const struct image_ref ref = { .host = "r.example", .path = "team/a" };
	struct docker_config *c;

	assert_int_equal(docker_config_new(texts, &c, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct registry_credential who = { 0 };
		size_t which = 99;

		assert_int_equal(docker_config_find(c, &ref, rows[i].from, &who, &which, NULL),
				 rows[i].found);
		if (rows[i].found) {
			assert_string_equal(who.user.s, rows[i].user);
			assert_string_equal(docker_config_name(c, which), rows[i].name);
		}
		registry_credential_wipe(&who);
	}
	docker_config_free(c);
}

/* A secret's own words come before the file's; the file is DOCKER_CONFIG's. */
static void test_order(void **state)
{
	_cleanup_(freep) char *path = xasprintf("%s/config.json", (char *)*state);
	const char *file = "{\"auths\": {\"r.example\": {\"auth\": \"ZmlsZTpm\"}}}";
	char out[100];

	assert_int_equal(fs_write_atomic(path, file, strlen(file), NULL), 0);
	find("{}", "r.example", "a", out, sizeof(out));
	assert_string_equal(out, "file:f");
	find("{\"auths\": {\"r.example\": {\"auth\": \"dTpw\"}}}", "r.example", "a", out,
	     sizeof(out));
	assert_string_equal(out, "u:p");
	unlink(path);
}

/* Helpers that stand for docker-credential-*. */

static void write_helper(const char *dir, const char *name, const char *script)
{
	_cleanup_(freep) char *path = xasprintf("%s/docker-credential-%s", dir, name),
			      *text = xasprintf("#!/bin/sh\n%s\n", script);

	assert_int_equal(fs_write_atomic_at(AT_FDCWD, path, text, strlen(text), 0755,
					    FS_WRITE_NO_SYNC, NULL),
			 0);
	assert_int_equal(chmod(path, 0755), 0);
}

static int set_up(void **state)
{
	char *dir = xcalloc(1, TEST_DIR_MAX);
	_cleanup_(freep) char *path = NULL;

	test_dir(dir, TEST_DIR_MAX, "names");
	path = xasprintf("%s:%s", dir, getenv("PATH"));
	setenv("PATH", path, 1);
	setenv("DOCKER_CONFIG", dir, 1);
	write_helper(dir, "here",
		     "[ \"$1\" = get ] && read -r url; echo \"{\\\"ServerURL\\\": \\\"$url\\\", "
		     "\\\"Username\\\": \\\"helped\\\", \\\"Secret\\\": \\\"$url\\\"}\"");
	write_helper(dir, "token", "echo '{\"Username\": \"<token>\", \"Secret\": \"idt\"}'");
	write_helper(dir, "nobody", "echo 'credentials not found in native keychain'; exit 1");
	write_helper(dir, "broken", "exit 3");
	write_helper(dir, "rubbish", "echo s3cret");
	*state = dir;
	return 0;
}

static int tear_down(void **state)
{
	assert_int_equal(fs_remove_tree(*state, NULL), 0);
	free(*state);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_what_is_no_name),
		cmocka_unit_test(test_challenges),
		cmocka_unit_test(test_docker_config),
		cmocka_unit_test(test_configurations_that_are_none),
		cmocka_unit_test(test_order),
		cmocka_unit_test(test_one_after_the_other),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
