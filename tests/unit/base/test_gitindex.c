/* Git's index: what git wrote is read, in each version and with both kinds of ids; a path that is
 * longer than any file system has hides nothing; a file that ends early has no shape. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/gitindex.h"
#include "base/mem.h"
#include "base/os/fs.h"

static char dir[TEST_DIR_MAX];

static int sh(const char *script)
{
	_cleanup_(freep) char *line = xasprintf(
		"cd %s/repo && export HOME=%s GIT_CONFIG_NOSYSTEM=1 && { %s; } >../out 2>&1", dir,
		dir, script);

	return system(line); /* lint: system because the scripts are the test's own */
}

static char *index_file(void)
{
	return xasprintf("%s/repo/.git/index", dir);
}

static int setup(void **state)
{
	_cleanup_(freep) char *repo = NULL;

	test_dir(dir, sizeof(dir), "gitindex");
	repo = fs_join(dir, "repo");
	return mkdir(repo, 0755);
}

static int teardown(void **state)
{
	return fs_remove_tree(dir, NULL);
}

/* All paths, a line each; "?" last when the file has another shape. */
static char *paths_of(const char *file, size_t id_bytes)
{
	struct gitindex *x = gitindex_open(file, id_bytes);
	const struct gitindex_entry *e;
	struct str text = { 0 };
	int r = -1;

	str_add(&text, "");
	while (x && (r = gitindex_next(x, &e)) > 0) {
		str_add(&text, e->path);
		str_addc(&text, '\n');
	}
	str_add(&text, r < 0 ? "?" : "");
	gitindex_free(x);
	return str_take(&text);
}

/* `-…-` is before `.cairn`, and longer than what is kept. */
#define LONG_PATH                                                                              \
	"o=$(git hash-object -w --stdin </dev/null) && "                                       \
	"{ printf \"100644 $o\\t\"; head -c 9000 /dev/zero | tr '\\0' -; printf '/x\\n'; } | " \
	"git update-index --index-info"

static void test_read(void **state)
{
	static const struct {
		const char *format, *version;
		size_t id_bytes;
	} kinds[] = {
		{ "sha1", "2", GITINDEX_SHA1 },     { "sha1", "3", GITINDEX_SHA1 },
		{ "sha1", "4", GITINDEX_SHA1 },     { "sha256", "2", GITINDEX_SHA256 },
		{ "sha256", "4", GITINDEX_SHA256 },
	};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		_cleanup_(freep) char *file = index_file(), *got = NULL, *make = NULL;
		uint8_t tree[GITINDEX_SHA256];
		const struct gitindex_entry *e;
		struct gitindex *x;

		make = xasprintf(
			"rm -rf .git .cairn * && git init -q --object-format=%s . && mkdir -p a b "
			"&& touch a/1 a/22 a.c b/1 && git add . && "
			"git update-index --index-version %s && git write-tree",
			kinds[i].format, kinds[i].version);
		assert_int_equal(sh(make), 0);
		if (*kinds[i].version == '3') /* git writes 3 where an entry has the flag */
			assert_int_equal(sh("touch n && git add -N n"), 0);
		got = paths_of(file, kinds[i].id_bytes);
		assert_string_equal(got, *kinds[i].version == '3' ? "a.c\na/1\na/22\nb/1\nn\n"
								  : "a.c\na/1\na/22\nb/1\n");
		x = gitindex_open(file, kinds[i].id_bytes);
		while (gitindex_next(x, &e) > 0)
			assert_true(S_ISREG(e->mode) && e->size == 0);
		if (*kinds[i].version != '3')
			assert_true(gitindex_tree(x, tree));
		gitindex_free(x);
		assert_true(gitindex_has(file, "a/"));
		assert_true(gitindex_has(file, "b/1"));
		assert_false(gitindex_has(file, "1"));
		assert_false(gitindex_has(file, ".cairn/"));

		assert_int_equal(sh(LONG_PATH), 0);
		assert_false(gitindex_has(file, ".cairn/"));
		assert_int_equal(sh("mkdir -p .cairn && touch .cairn/x && git add -f .cairn"), 0);
		assert_true(gitindex_has(file, ".cairn/"));
		assert_true(gitindex_has(file, "b/1"));
	}
}

static void test_no_index(void **state)
{
	_cleanup_(freep) char *file = index_file(), *got = NULL;

	assert_null(gitindex_open("/nowhere", GITINDEX_SHA1));
	assert_null(gitindex_open(dir, GITINDEX_SHA1));
	assert_false(gitindex_has("/nowhere", "a"));
	assert_int_equal(sh("rm -rf .git .cairn * && git init -q . && touch a b c && git add ."),
			 0);
	assert_true(gitindex_has(file, "c"));
	/* 64: an entry with its id, path and padding. */
	for (off_t n = 0; n < 12 + 3 * 64; n += 7) {
		assert_int_equal(truncate(file, n), 0);
		assert_false(gitindex_has(file, "d"));
		free(got);
		got = paths_of(file, GITINDEX_SHA1);
		assert_non_null(strchr(got, '?'));
		assert_int_equal(sh("rm .git/index && git add ."), 0);
	}
	assert_int_equal(sh("printf 'DIRC\\0\\0\\0\\5\\0\\0\\0\\1' >.git/index"), 0);
	assert_null(gitindex_open(file, GITINDEX_SHA1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_read, setup, teardown),
		cmocka_unit_test_setup_teardown(test_no_index, setup, teardown),
	};

	if (system("git --version >/dev/null 2>&1")) /* lint: system because a shell finds it */
		return 0; /* tests/cli/run/git.t says that it is missing */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
