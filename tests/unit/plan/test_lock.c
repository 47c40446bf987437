/* Which files are lock files, line by line; and that no bytes break what reads them. */
#include <string.h>
#include "base/mem.h"
#include "base/text/str.h"
#include "plan/environment.h"
#include "unit.h"

#define HEX "0123456789abcdef0123456789abcdef"

static const struct row {
	const char *path, *text;
	const char *want; /* the kind, or the begin of the message */
} rows[] = {
	/* uv. */
	{ "uv.lock", "", "uv" },
	{ "a/uv.lock", "version = 1\n[[package]]\nname = \"x\"\n", "uv" },
	{ "uv.lock", "wheels = [\n  { url = \"u\", hash = \"sha256:0\" },\n]", "uv" },
	{ "uv.lock", "sdist = { url = \"u\", hash = \"sha256:0\", size = 1 }", "uv" },
	{ "uv.lock", "source = { virtual = \".\" }\ndependencies = [\n { name = \"a\" },\n]",
	  "uv" },
	{ "uv.lock", "\nwheels = [\n    { path = \"x.whl\" },\n]",
	  "uv.lock:3: the package has no hash" },
	{ "uv.lock", "sdist = { url = \"u\" }", "uv.lock:1: the package has no hash" },
	/* pip. */
	{ "r.txt", "", "pip" },
	{ "r.txt", "# only a comment", "pip" },
	{ "r.txt", "a==1 --hash=sha256:00", "pip" },
	{ "r.txt", "a==1 --hash sha256:00", "pip" },
	{ "r.txt",
	  "a==1 \\\n    --hash=sha256:00 \\\n    --hash=sha256:11\n    # via b\nb==1 --hash=x\n",
	  "pip" },
	{ "r.txt", "a==1 \\\r\n    --hash=sha256:00\r\n", "pip" },
	{ "r.txt", "--index-url https://example.org/#x\n-i https://example.org\n", "pip" },
	{ "r.txt", "a @ https://example.org/a.whl#sha256=0 --hash=sha256:00", "pip" },
	{ "r.txt", "a==1", "r.txt:1: the requirement has no --hash" },
	{ "r.txt", "\n\n  a==1 # --hash=sha256:00", "r.txt:3: the requirement has no --hash" },
	{ "r.txt", "a==1 \\\n  --hash=x\nb", "r.txt:3: the requirement has no --hash" },
	{ "r.txt", "a==1\\", "r.txt:1: the requirement has no --hash" },
	{ "r.txt", "-r b.txt", "r.txt:1: a lock file stands alone" },
	{ "r.txt", "--requirement=b.txt", "r.txt:1: a lock file stands alone" },
	{ "r.txt", "-cb.txt", "r.txt:1: a lock file stands alone" },
	{ "r.txt", "--constraint b", "r.txt:1: a lock file stands alone" },
	{ "r.txt", "-e .", "r.txt:1: an environment is made of packages" },
	{ "r.txt", "./a.whl --hash=sha256:00", "r.txt:1: an environment is made of packages" },
	{ "r.txt", "a @ file:///a.whl --hash=sha256:00", "r.txt:1: an environment is made of" },
	/* conda. */
	{ "c.txt", "@EXPLICIT", "conda" },
	{ "c.txt", "# platform: x\n@EXPLICIT\nhttps://x/a.conda#" HEX "\n", "conda" },
	{ "c.txt", "@EXPLICIT\r\nhttps://x/a.conda#sha256:" HEX HEX "\r\n", "conda" },
	{ "c.txt", "@EXPLICIT\nhttps://x/a.conda", "c.txt:2: the package has no digest" },
	{ "c.txt", "@EXPLICIT\n\nhttps://x/a.conda#1234", "c.txt:3: the package has no digest" },
	{ "c.txt", "a==1 # not @EXPLICIT", "c.txt:1: the requirement has no --hash" },
};

static void test_rows(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		enum lock_kind kind;
		struct err err = { 0 };
		int r = lock_check(rows[i].path, rows[i].text, &kind, &err);
		const char *got = r == 0 ? lock_kind_name(kind) : err.msg;

		if (strncmp(got, rows[i].want, strlen(rows[i].want)) != 0)
			fail_msg("%s: %s\ngot:  %s\nwant: %s", rows[i].path, rows[i].text, got,
				 rows[i].want);
		assert_int_equal(r, strchr(rows[i].want, ':') ? -1 : 0);
		if (r < 0)
			assert_int_equal(err.code, ERR_INVALID);
	}
}

/* Each beginning of each text, in memory that ends where it ends. */
static void test_beginnings(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		for (size_t n = 0; n <= strlen(rows[i].text); n++) {
			char *text = xstrndup(rows[i].text, n);
			enum lock_kind kind;
			struct err err = { 0 };

			lock_check(rows[i].path, text, &kind, &err);
			free(text);
		}
}

static const char alphabet[] = "a=#\\ \n\r-ecr.@/{}\"hs:0E";

static void test_random(void **state)
{
	uint64_t x = 88172645463325252ULL;
	char text[48];

	for (size_t round = 0; round < 20000; round++) {
		size_t n = round % (sizeof(text) - 1);
		enum lock_kind kind;
		struct err err = { 0 };

		for (size_t i = 0; i < n; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			x ^= x << 17;
			text[i] = alphabet[x % (sizeof(alphabet) - 1)];
		}
		text[n] = '\0';
		lock_check(round % 2 ? "r.txt" : "uv.lock", text, &kind, &err);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_beginnings),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
