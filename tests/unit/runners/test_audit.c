/* runners/audit: what is said of files that nothing declares. */
#include <string.h>
#include <sys/stat.h>
#include "base/mem.h"
#include "runners/audit.h"
#include "unit.h"

#define HOME "/home"

struct row {
	const char *paths[12];
	bool packages;
	size_t untold;
	const char *want;
};

static const struct row rows[] = {
	{ { NULL }, false, 0, "" },
	{ { "/etc/passwd", "/lib/x86_64-linux-gnu/libc.so.6",
	    "/usr/lib/python3/dist-packages/yaml.py", "/usr/local/lib/libx.so",
	    "/nix/store/abc/lib.so" },
	  false,
	  0,
	  "" },
	{ { "/library/x.csv", "/other/y", "/other/z/a", "/other/z/b/c", HOME "/u/d/e",
	    HOME "/u/d/f", HOME "/v/d" },
	  false,
	  0,
	  HOME
	  "/u/d/ (2 files) isn't declared: it lies outside of the project; bring it in and "
	  "add it "
	  "to `inputs:`\n" HOME
	  "/v/d isn't declared: it lies outside of the project; bring it in and add it to "
	  "`inputs:`\n"
	  "/library/x.csv isn't declared: it lies outside of the project; bring it in and add it "
	  "to "
	  "`inputs:`\n"
	  "/other/y isn't declared: it lies outside of the project; bring it in and add it to "
	  "`inputs:`\n"
	  "/other/z/ (2 files) isn't declared: it lies outside of the project; bring it in and add "
	  "it "
	  "to `inputs:`\n" },
	{ { "/p/data/extra-1.csv", "/p/src/util.py" },
	  false,
	  0,
	  "data/extra-1.csv isn't declared: add `inputs: {extra_1: data/extra-1.csv}`\n"
	  "src/util.py isn't declared: add `code: [src/util.py]`\n" },
	{ { "/p/1.csv", "/p/a b/ü.csv", "/p/x\ny" },
	  false,
	  0,
	  "1.csv isn't declared: add `inputs: {data: 1.csv}`\n"
	  "x\\ny isn't declared: add `inputs: {x_y: x\\ny}`\n"
	  "a b/ü.csv isn't declared: add `inputs: {data: a b/ü.csv}`\n" },
	/* A compiled module is its source, said once. */
	{ { "/p/src/__pycache__/util.cpython-311.pyc", "/p/src/util.py" },
	  false,
	  0,
	  "src/util.py isn't declared: add `code: [src/util.py]`\n" },
	{ { "/p/.venv/lib/python3.11/site-packages/a/b.py",
	    "/p/.venv/lib/python3.11/site-packages/c.py", "/p/.venv/pyvenv.cfg",
	    "/usr/local/lib/python3.11/dist-packages/x.py" },
	  false,
	  0,
	  "/p/.venv/lib/python3.11/site-packages holds packages that aren't declared: add their "
	  "lock "
	  "file (`env_file: requirements.txt`)\n"
	  "/usr/local/lib/python3.11/dist-packages holds packages that aren't declared: add their "
	  "lock "
	  "file (`env_file: requirements.txt`)\n" },
	{ { "/p/.venv/lib/python3.11/site-packages/a/b.py", "/p/.venv/pyvenv.cfg" }, true, 0, "" },
	/* Many in a directory are said as one. */
	{ { "/p/d/1.csv", "/p/d/2.csv", "/p/d/3.csv", "/p/d/4/x.csv", "/p/d/4.csv", "/p/d/5.csv",
	    "/p/d/6.csv", "/p/d/7.csv", "/p/d/8.csv" },
	  false,
	  0,
	  "d/ (8 files) isn't declared: add `inputs: {d: d/}`\n"
	  "d/4/x.csv isn't declared: add `inputs: {x: d/4/x.csv}`\n" },
	{ { "/bin/sh" }, false, 3, "3 more files were opened, and can't be told\n" },
	{ { "/opt/cairn/x", "/q/cairn-steps" }, false, 0, "" },
};

static void what_is_said(void **state)
{
	const struct runner_audit a = { .project_dir = "/p", .program = "/q/cairn-steps" };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(str_deinit) struct str got = { 0 };
		struct runner_audit b = a;
		size_t n = 0;

		b.packages = rows[i].packages;
		while (rows[i].paths[n])
			n++;
		audit_say(&b, rows[i].paths, n, rows[i].untold, &got);
		str_addn(&got, "", 0);
		assert_string_equal(got.s, rows[i].want);
	}
}

static void a_program_is_a_tool(void **state)
{
	const struct runner_audit a = { .project_dir = "/p" },
				  covered = { .project_dir = "/p", .packages = true };
	_cleanup_(str_deinit) struct str got = { 0 }, none = { 0 };
	_cleanup_(freep) char *path = NULL, *want = NULL;
	char dir[TEST_DIR_MAX];
	const char *paths[1];
	FILE *f;

	/* Not TMPDIR, which may be below /dev, and so of the system. */
	test_dir_below("/tmp", dir, sizeof(dir), "audit");
	paths[0] = path = xasprintf("%s/tool", dir);
	f = fopen(path, "we");
	assert_non_null(f);
	fclose(f);
	assert_int_equal(chmod(path, 0755), 0);
	audit_say(&a, paths, 1, 0, &got);
	str_addn(&got, "", 0);
	want = xasprintf("%s holds programs that aren't declared: add what prints their version "
			 "(`tools: [python3 --version]`)\n",
			 path);
	assert_string_equal(got.s, want);
	audit_say(&covered, paths, 1, 0, &none);
	assert_int_equal(none.len, 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(dir), 0);
}

static void a_project_below_a_directory_of_the_system(void **state)
{
	const struct runner_audit a = { .project_dir = "/opt/p" };
	const char *paths[] = { "/opt/p/data/x.csv", "/opt/tool/y" };
	_cleanup_(str_deinit) struct str got = { 0 };

	audit_say(&a, paths, ARRAY_LEN(paths), 0, &got);
	str_addn(&got, "", 0);
	assert_string_equal(got.s, "data/x.csv isn't declared: add `inputs: {x: data/x.csv}`\n");
}

static void there_is_an_end_of_lines(void **state)
{
	const struct runner_audit a = { .project_dir = "/p" };
	_cleanup_(str_deinit) struct str got = { 0 };
	size_t lines = 0, n = 20000;
	char **paths = xcalloc(n, sizeof(*paths));

	for (size_t i = 0; i < n; i++)
		paths[i] = xasprintf("/p/%05zu/x.csv", i);
	audit_say(&a, (const char *const *)paths, n, 0, &got);
	for (size_t i = 0; i < got.len; i++)
		lines += got.s[i] == '\n';
	assert_int_equal(lines, 101);
	assert_non_null(strstr(got.s, "19900 more files aren't declared\n"));
	for (size_t i = 0; i < n; i++)
		free(paths[i]);
	free(paths);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_said), cmocka_unit_test(a_program_is_a_tool),
		cmocka_unit_test(a_project_below_a_directory_of_the_system),
		cmocka_unit_test(there_is_an_end_of_lines)
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
