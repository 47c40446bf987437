#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "run/task/secret.h"
#include "unit.h"

static char root[4096];
static struct config config = { .project_root = root, .state_dir = root };

static int setup(void **state)
{
	test_dir(root, sizeof(root), "secret");
	return 0;
}

static int teardown(void **state)
{
	return fs_remove_tree(root, NULL);
}

static mode_t mode_of(const char *name)
{
	_cleanup_(freep) char *path = fs_join(root, name);
	struct stat st;

	return stat(path, &st) < 0 ? 0 : st.st_mode & 07777;
}

static void test_names(void **state)
{
	static const char *const good[] = { "A", "_", "TOKEN_2", "lower" }, *const bad[] = {
		"", "2A", "A-B", "A/B", "../x", "A B", "Ä", "A=B"
	};
	char longest[SECRET_NAME_MAX + 2];

	for (size_t i = 0; i < ARRAY_LEN(good); i++)
		assert_true(secret_name_is_valid(good[i]));
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err err = { 0 };
		assert_false(secret_name_is_valid(bad[i]));
		assert_int_equal(secret_set(&config, bad[i], "x", 1, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
	}
	memset(longest, 'A', sizeof(longest));
	longest[SECRET_NAME_MAX + 1] = 0;
	assert_false(secret_name_is_valid(longest));
	longest[SECRET_NAME_MAX] = 0;
	assert_true(secret_name_is_valid(longest));
}

static void test_set_get_remove(void **state)
{
	_cleanup_(str_wipe) struct str value = { 0 };
	struct err err = { 0 };
	mode_t old = umask(0);

	assert_int_equal(secret_set(&config, "TOKEN", "first", 5, &err), 0);
	assert_int_equal(secret_set(&config, "TOKEN", "tw o\n", 5, &err), 0); /* replaces */
	umask(old);
	assert_int_equal(mode_of("secrets"), 0700);
	assert_int_equal(mode_of("secrets/TOKEN"), 0600);
	str_add(&value, "before:");
	assert_int_equal(secret_get(&config, "TOKEN", &value, &err), 0);
	assert_string_equal(value.s, "before:tw o\n");
	assert_int_equal(secret_remove(&config, "TOKEN", &err), 0);
	assert_int_equal(secret_remove(&config, "TOKEN", &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(secret_get(&config, "TOKEN", &value, &err), -1);
	assert_string_equal(err.msg, "secret TOKEN is not set; set it with `cairn secret set "
				     "TOKEN`, or as CAIRN_SECRET_TOKEN in the environment");
}

static void test_environment_wins(void **state)
{
	_cleanup_(str_wipe) struct str value = { 0 };
	struct secret_entry *v;
	size_t n;

	assert_int_equal(secret_set(&config, "B", "file", 4, NULL), 0);
	assert_int_equal(secret_set(&config, "A", "file", 4, NULL), 0);
	setenv("CAIRN_SECRET_B", "environment", 1);
	setenv("CAIRN_SECRET_", "no name", 1);
	assert_int_equal(secret_get(&config, "B", &value, NULL), 0);
	assert_string_equal(value.s, "environment");
	assert_int_equal(secret_list(&config, &v, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_string_equal(v[0].name, "A");
	assert_false(v[0].from_environment);
	assert_string_equal(v[1].name, "B");
	assert_true(v[1].from_environment);
	for (size_t i = 0; i < n; i++)
		free(v[i].name);
	free(v);
	unsetenv("CAIRN_SECRET_B");
	unsetenv("CAIRN_SECRET_");
}

static void test_refused(void **state)
{
	_cleanup_(str_wipe) struct str value = { 0 };
	_cleanup_(freep) char *path = fs_join(root, "secrets/OPEN"),
			      *link_path = fs_join(root, "secrets/LINK");
	char *big = calloc(1, SECRET_VALUE_MAX + 2);
	struct err err = { 0 };

	assert_int_equal(secret_set(&config, "NUL", "a\0b", 3, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	memset(big, 'x', SECRET_VALUE_MAX + 1);
	assert_int_equal(secret_set(&config, "BIG", big, SECRET_VALUE_MAX + 1, &err), -1);
	assert_int_equal(err.code, ERR_TOO_LARGE);
	free(big);
	assert_int_equal(secret_set(&config, "SHORT", "abc\n", 4, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_non_null(strstr(err.msg, "too short"));
	assert_int_equal(secret_set(&config, "OPEN", "long", 4, &err), 0);
	assert_int_equal(chmod(path, 0640), 0);
	assert_int_equal(secret_get(&config, "OPEN", &value, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_non_null(strstr(err.msg, "others may read"));
	assert_int_equal(symlink("/etc/hostname", link_path), 0);
	assert_int_equal(secret_get(&config, "LINK", &value, &err), -1);
	assert_non_null(strstr(err.msg, "not a regular file"));
	assert_int_equal(value.len, 0);
}

/* A repository may bring a link along: what is set would go where it leads, and what lies there
 * would be a secret. */
static void test_a_link_is_no_directory(void **state)
{
	_cleanup_(str_wipe) struct str value = { 0 };
	_cleanup_(freep) char *dir = fs_join(root, "secrets");
	_cleanup_(freep) char *elsewhere = fs_join(root, "elsewhere");
	struct secret_entry *v;
	struct err err = { 0 };
	size_t n;

	assert_int_equal(mkdir(elsewhere, 0700), 0);
	assert_int_equal(symlink(elsewhere, dir), 0);
	assert_int_equal(secret_set(&config, "TOKEN", "value", 5, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_non_null(strstr(err.msg, "must be a directory"));
	assert_int_equal(secret_get(&config, "TOKEN", &value, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(secret_list(&config, &v, &n, &err), -1);
	assert_int_equal(secret_remove(&config, "TOKEN", &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(unlink(dir), 0);
	assert_int_equal(rmdir(elsewhere), 0); /* nothing was written there */
	assert_int_equal(mkdir(dir, 0700), 0);
	assert_int_equal(chmod(dir, 0770), 0);
	assert_int_equal(secret_set(&config, "TOKEN", "value", 5, &err), -1);
	assert_non_null(strstr(err.msg, "others may write"));
	if (geteuid() == 0) {
		assert_int_equal(chmod(dir, 0700), 0);
		assert_int_equal(chown(dir, 65534, (gid_t)-1), 0);
		assert_int_equal(secret_set(&config, "TOKEN", "value", 5, &err), -1);
		assert_non_null(strstr(err.msg, "another user"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_names, setup, teardown),
		cmocka_unit_test_setup_teardown(test_set_get_remove, setup, teardown),
		cmocka_unit_test_setup_teardown(test_environment_wins, setup, teardown),
		cmocka_unit_test_setup_teardown(test_refused, setup, teardown),
		cmocka_unit_test_setup_teardown(test_a_link_is_no_directory, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
