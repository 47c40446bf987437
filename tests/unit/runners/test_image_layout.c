/* The image builder: what tar(1) reads of what the tar writer writes; the same bytes for the same
 * files; libraries found as the loader finds them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/os/process/command.h"
#include "base/text/json.h"
#include "runners/image/elf.h"
#include "runners/image/layout.h"
#include "runners/image/tar.h"
#include "unit.h"

struct place {
	char *dir;
	struct arena *arena;
};

static const char *in_place(struct place *p, const char *name)
{
	return arena_printf(p->arena, "%s/%s", p->dir, name);
}

static void put(struct place *p, const char *name, const char *text)
{
	assert_int_equal(fs_write_atomic(in_place(p, name), text, strlen(text), NULL), 0);
}

static void output(const char *const *argv, struct str *out)
{
	struct command c = { .argv = argv, .timeout_ns = 30 * NS_PER_S, .max_bytes = 4 * MIB };
	int status;

	str_reset(out);
	str_add(out, "");
	assert_int_equal(command_output(&c, out, &status, NULL), 0);
	assert_int_equal(status, 0);
}

/* Tar. */

static int to_str(void *arg, const void *bytes, size_t n, struct err *err)
{
	str_addn(arg, bytes, n);
	return 0;
}

/* Names at every length around what the fields of a header take. */
static void test_names_of_any_length(void **state)
{
	struct place *p = *state;
	_cleanup_(str_deinit) struct str tar = { 0 }, want = { 0 }, got = { 0 };
	struct tar_writer w = { to_str, &tar };
	const char *file = in_place(p, "names.tar");
	const char *const list[] = { "tar", "--quoting-style=literal", "-tf", file, NULL };

	for (size_t n = 90; n < 400;
	     n += n < 110 || (n > 150 && n < 160) || (n > 250 && n < 262) ? 1 : 17) {
		char *name = arena_alloc(p->arena, n + 1);

		memset(name, 'a' + (int)(n % 26), n);
		for (size_t i = 60; i + 1 < n; i += 70 + n % 40)
			name[i] = '/';
		assert_int_equal(tar_add_bytes(&w, name, 0644, name, n, NULL), 0);
		str_addf(&want, "%s\n", name);
	}
	assert_int_equal(tar_end(&w, NULL), 0);
	assert_int_equal(tar.len % 512, 0);
	assert_int_equal(fs_write_atomic(file, tar.s, tar.len, NULL), 0);
	output(list, &got);
	assert_string_equal(got.s, want.s);
}

static void test_entries(void **state)
{
	struct place *p = *state;
	_cleanup_(str_deinit) struct str tar = { 0 }, got = { 0 };
	struct tar_writer w = { to_str, &tar };
	const char *file = in_place(p, "entries.tar");
	const char *const list[] = { "tar", "--utc", "--full-time", "-tvf", file, NULL };
	char long_target[200];

	memset(long_target, 't', sizeof(long_target));
	long_target[180] = '\0';
	put(p, "content", "12345");
	assert_int_equal(tar_add_dir(&w, "d", 01777, NULL), 0);
	assert_int_equal(tar_add_link(&w, "l", "d/f", NULL), 0);
	assert_int_equal(tar_add_link(&w, "m", long_target, NULL), 0);
	assert_int_equal(tar_add_file(&w, "d/f", 0755, in_place(p, "content"), NULL), 0);
	assert_int_equal(tar_end(&w, NULL), 0);
	assert_int_equal(fs_write_atomic(file, tar.s, tar.len, NULL), 0);
	output(list, &got);
	assert_non_null(strstr(got.s, "drwxrwxrwt 0/0               0 1970-01-01 00:00:00 d/\n"));
	assert_non_null(
		strstr(got.s, "lrwxrwxrwx 0/0               0 1970-01-01 00:00:00 l -> d/f\n"));
	assert_non_null(strstr(got.s, long_target));
	assert_non_null(strstr(got.s, "-rwxr-xr-x 0/0               5 1970-01-01 00:00:00 d/f\n"));
}

static void test_what_is_no_file(void **state)
{
	struct place *p = *state;
	_cleanup_(str_deinit) struct str tar = { 0 };
	struct tar_writer w = { to_str, &tar };
	struct err err = { 0 };

	assert_int_equal(tar_add_file(&w, "a", 0644, p->dir, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	err = (struct err){ 0 };
	assert_int_equal(tar_add_file(&w, "a", 0644, in_place(p, "nowhere"), &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

/* Layouts. */

static const char *const entrypoint[] = { "/a", NULL }, *const labels[] = { "v=1", "empty", NULL };

static void write_for(struct place *p, const char *dir, const char *source,
		      const char *architecture, char digest[IMAGE_DIGEST_MAX])
{
	struct image_file files[] = { { .path = "a", .source = in_place(p, source), .mode = 0755 },
				      { .path = "b", .text = "text", .mode = 0644 },
				      { .path = "c", .mode = 0755 },
				      { .path = "d", .target = "c" } };
	struct image_content content = { files, ARRAY_LEN(files), architecture };
	struct image_config c = { architecture, entrypoint, "1:1", NULL, labels };
	struct err err = { 0 };

	if (image_layout_write(in_place(p, dir), &content, &c, "r.example/x:1", digest, &err) < 0)
		fail_msg("%s", err.msg);
}

static void write_one(struct place *p, const char *dir, const char *source,
		      char digest[IMAGE_DIGEST_MAX])
{
	write_for(p, dir, source, "amd64", digest);
}

static void test_same_files_same_digest(void **state)
{
	struct place *p = *state;
	char one[IMAGE_DIGEST_MAX], two[IMAGE_DIGEST_MAX], other[IMAGE_DIGEST_MAX];
	const struct timespec old[2] = { { 1, 0 }, { 1, 0 } };
	mode_t mask;

	put(p, "p1", "program");
	put(p, "p2", "program");
	put(p, "p3", "progran");
	assert_int_equal(utimensat(AT_FDCWD, in_place(p, "p2"), old, 0), 0);
	assert_int_equal(chmod(in_place(p, "p2"), 0600), 0);
	write_one(p, "l1", "p1", one);
	mask = umask(077);
	write_one(p, "l2", "p2", two);
	umask(mask);
	write_one(p, "l3", "p3", other);
	assert_string_equal(one, two);
	assert_string_not_equal(one, other);
}

/* What any zlib of any machine would give isn't promised, what ours gives is: it is part of the
 * program. */
static void test_reads_back(void **state)
{
	struct place *p = *state;
	char digest[IMAGE_DIGEST_MAX];
	struct image_layout l;
	_cleanup_(freep) char *path = NULL;
	json_t *config;

	put(p, "p4", "program");
	write_one(p, "l4", "p4", digest);
	assert_int_equal(image_layout_read(in_place(p, "l4"), p->arena, &l, NULL), 0);
	assert_string_equal(l.top.digest, digest);
	assert_int_equal(l.parts[0].n_blobs, 2);
	path = image_blob_path(in_place(p, "l4"), l.parts[0].blobs[0].digest);
	assert_int_equal(json_read_file(path, 0, &config, NULL), 0);
	assert_string_equal(
		json_string_value(json_object_get(json_object_get(config, "config"), "User")),
		"1:1");
	assert_string_equal(
		json_string_value(json_object_get(
			json_object_get(json_object_get(config, "config"), "Labels"), "v")),
		"1");
	assert_string_equal(
		json_string_value(json_object_get(
			json_object_get(json_object_get(config, "config"), "Labels"), "empty")),
		"");
	json_decref(config);
}

static void test_several_processors(void **state)
{
	struct place *p = *state;
	char own[IMAGE_DIGEST_MAX], others[IMAGE_DIGEST_MAX];
	const char *add[] = { in_place(p, "arm") }, *same[] = { in_place(p, "same") },
		   *none[] = { in_place(p, "nowhere") };
	_cleanup_(freep) char *damaged = NULL;
	struct image_index index;
	struct image_layout l;
	struct err err = { 0 };

	put(p, "p6", "program");
	write_one(p, "amd", "p6", own);
	write_one(p, "same", "p6", others);
	write_for(p, "arm", "p6", "arm64", others);
	assert_int_equal(
		image_layout_add(in_place(p, "amd"), same, 1, "x:1", p->arena, &index, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	err = (struct err){ 0 };
	assert_int_equal(
		image_layout_add(in_place(p, "amd"), none, 1, "x:1", p->arena, &index, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(
		image_layout_add(in_place(p, "amd"), add, 1, "x:1", p->arena, &index, NULL), 0);
	assert_int_equal(index.n, 2);
	assert_string_equal(index.architectures[1], "arm64");
	assert_int_equal(image_layout_read(in_place(p, "amd"), p->arena, &l, NULL), 0);
	assert_string_equal(l.top.digest, index.digest);
	assert_int_equal(l.n_parts, 2);
	assert_string_equal(l.parts[0].manifest.digest, own);
	assert_string_equal(l.parts[1].manifest.digest, others);
	damaged = image_blob_path(in_place(p, "arm"), l.parts[1].blobs[1].digest);
	assert_int_equal(truncate(damaged, 5), 0);
	write_one(p, "amd2", "p6", own);
	err = (struct err){ 0 };
	assert_int_equal(
		image_layout_add(in_place(p, "amd2"), add, 1, "x:1", p->arena, &index, &err), -1);
	assert_int_equal(err.code, ERR_CORRUPT);
}

static void test_a_directory_that_is_full(void **state)
{
	struct place *p = *state;
	struct image_content content = { NULL, 0, "amd64" };
	struct image_config c = { "amd64", entrypoint, "1:1", NULL, NULL };
	char digest[IMAGE_DIGEST_MAX];
	struct err err = { 0 };

	put(p, "something", "");
	assert_int_equal(image_layout_write(p->dir, &content, &c, NULL, digest, &err), -1);
	assert_int_equal(err.code, ERR_EXISTS);
}

static void test_layouts_that_are_none(void **state)
{
	static const char *const bad[] = {
		"",
		"[]",
		"{\"manifests\": []}",
		"{\"manifests\": [{}, {}]}",
		"{\"manifests\": [{\"digest\": \"sha256:00\", \"mediaType\": \"x\", \"size\": 1}]}",
		("{\"manifests\": [{\"digest\": \"../../etc/passwd\", \"mediaType\": \"x\", "
		 "\"size\": 1}]}"),
		"{\"manifests\": {}}"
	};
	struct place *p = *state;
	struct image_layout l;

	/* As the index that index.json names, too. */
	put(p, "none.index",
	    "{\"manifests\": [{\"digest\": "
	    "\"sha256:0000000000000000000000000000000000000000000000000000000000000000\", "
	    "\"mediaType\": \"" IMAGE_INDEX_TYPE "\", \"size\": 1}]}");
	assert_int_equal(mkdir(in_place(p, "none"), 0755), 0);
	assert_int_equal(mkdir(in_place(p, "none/blobs"), 0755), 0);
	assert_int_equal(mkdir(in_place(p, "none/blobs/sha256"), 0755), 0);
	for (size_t i = 0; i < 2 * ARRAY_LEN(bad); i++) {
		struct err err = { 0 };

		put(p,
		    i < ARRAY_LEN(bad)
			    ? "none/index.json"
			    : "none/blobs/sha256/"
			      "0000000000000000000000000000000000000000000000000000000000000000",
		    bad[i % ARRAY_LEN(bad)]);
		if (i == ARRAY_LEN(bad))
			assert_int_equal(
				rename(in_place(p, "none.index"), in_place(p, "none/index.json")),
				0);
		assert_int_equal(image_layout_read(in_place(p, "none"), p->arena, &l, &err), -1);
		assert_true(err.code == ERR_INVALID || err.code == ERR_UNSUPPORTED);
	}
}

/* Libraries. */

static void test_own_libraries(void **state)
{
	struct place *p = *state;
	struct elf_cache *cache = elf_cache_new(NULL), *none = elf_cache_new("/nowhere");
	struct elf_facts self, c, again;
	bool needs_c = false;

	assert_int_equal(elf_read("/proc/self/exe", p->arena, &self, NULL), 0);
	assert_non_null(self.interp);
	for (size_t i = 0; i < self.n_needed; i++)
		needs_c |= strcmp(self.needed[i], "libc.so.6") == 0;
	assert_true(needs_c);
	assert_int_equal(elf_find(cache, "libc.so.6", &self, p->arena, &c, NULL), 0);
	assert_string_equal(c.soname, "libc.so.6");
	assert_int_equal(elf_find(none, "libc.so.6", &self, p->arena, &again, NULL),
			 0); /* in the loader's own directories */
	assert_string_equal(again.soname, "libc.so.6");
	assert_int_equal(elf_find(cache, "libnowhere.so.1", &self, p->arena, &c, NULL), -1);
	elf_cache_free(cache);
	elf_cache_free(none);
}

/* LD_LIBRARY_PATH and $ORIGIN, and a file of that name that is none. */
static void test_search(void **state)
{
	struct place *p = *state;
	struct elf_cache *none = elf_cache_new("/nowhere");
	struct elf_facts self, c, by;

	assert_int_equal(elf_read("/proc/self/exe", p->arena, &self, NULL), 0);
	assert_int_equal(elf_find(none, "libc.so.6", &self, p->arena, &c, NULL), 0);
	assert_int_equal(fs_copy_file_at(AT_FDCWD, arena_strdup(p->arena, c.path), AT_FDCWD,
					 in_place(p, "libours.so.1"), 0644, NULL),
			 0);
	put(p, "libtext.so.1", "no library");
	by = self;
	by.path = in_place(p, "program");
	by.rpath = NULL;
	by.runpath = "/nowhere:${ORIGIN}/.";
	assert_int_equal(elf_find(none, "libours.so.1", &by, p->arena, &c, NULL), 0);
	assert_int_equal(elf_find(none, "libtext.so.1", &by, p->arena, &c, NULL), -1);
	by.runpath = NULL;
	assert_int_equal(elf_find(none, "libours.so.1", &by, p->arena, &c, NULL), -1);
	by.rpath = "$ORIGIN";
	assert_int_equal(elf_find(none, "libours.so.1", &by, p->arena, &c, NULL), 0);
	{
		/* By the rpath of what loaded it: its own loader's rpath counts for what it needs.
		 */
		const struct elf_facts program = by;
		struct elf_facts middle = self;

		middle.path = "/elsewhere/libmiddle.so.1";
		middle.rpath = "/elsewhere";
		middle.runpath = NULL;
		middle.by = &program;
		assert_int_equal(elf_find(none, "libours.so.1", &middle, p->arena, &c, NULL), 0);
		assert_ptr_equal(c.by, &middle);
		assert_true(str_has_prefix(c.path, p->dir));
	}
	by.rpath = NULL;
	setenv("LD_LIBRARY_PATH", p->dir, 1);
	assert_int_equal(elf_find(none, "libours.so.1", &by, p->arena, &c, NULL), 0);
	unsetenv("LD_LIBRARY_PATH");
	elf_cache_free(none);
}

static void test_damaged_programs(void **state)
{
	struct place *p = *state;
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct elf_facts f;
	uint64_t seed = 7;

	assert_int_equal(fs_read_file("/proc/self/exe", 64 * MIB, &bytes, NULL), 0);
	for (unsigned round = 0; round < 200; round++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		char *head = arena_memdup(arena, bytes.s, MIN(bytes.len, 4096));

		for (unsigned i = 0; i < 4; i++) {
			seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
			head[(seed >> 33) % 1024] = (char)(seed >> 56);
		}
		assert_int_equal(fs_write_atomic_at(AT_FDCWD, in_place(p, "damaged"), head,
						    MIN(bytes.len, 4096), 0644, FS_WRITE_NO_SYNC,
						    NULL),
				 0);
		elf_read(in_place(p, "damaged"), arena, &f,
			 NULL); /* says something, and nothing breaks */
	}
}

/* All of it. */

static const struct image_file *file_at(const struct image_content *c, const char *path)
{
	for (size_t i = 0; i < c->n; i++)
		if (strcmp(c->files[i].path, path) == 0)
			return &c->files[i];
	return NULL;
}

static void test_files(void **state)
{
	struct place *p = *state;
	const char *const programs[] = { "/proc/self/exe" }, *const targets[] = { "usr/bin/self" },
			  *const opened[] = { "?libnowhere.so.9", "libnowhere.so.9|libm.so.6",
					      NULL };
	struct image_request request = { .programs = programs,
					 .targets = targets,
					 .n = 1,
					 .dlopened = opened,
					 .certificates = in_place(p, "ca.crt"),
					 .zones = in_place(p, "zones") };
	struct image_content c;
	struct err err = { 0 };

	put(p, "ca.crt", "certificates");
	assert_int_equal(mkdir(in_place(p, "zones"), 0755), 0);
	assert_int_equal(mkdir(in_place(p, "zones/right"), 0755), 0);
	assert_int_equal(mkdir(in_place(p, "zones/Europe"), 0755), 0);
	put(p, "zones/Europe/Berlin", "TZif");
	put(p, "zones/right/UTC", "TZif");
	put(p, "zones/localtime", "TZif");
	if (image_files(&request, p->arena, &c, &err) < 0)
		fail_msg("%s", err.msg);
	for (size_t i = 1; i < c.n; i++)
		assert_true(strcmp(c.files[i - 1].path, c.files[i].path) < 0);
	assert_non_null(file_at(&c, "usr/share/zoneinfo/Europe/Berlin"));
	assert_null(file_at(&c, "usr/share/zoneinfo/right"));
	assert_null(file_at(&c, "usr/share/zoneinfo/localtime"));
	assert_int_equal(file_at(&c, "usr/bin/self")->mode, 0755);
	assert_int_equal(file_at(&c, "tmp")->mode, 01777);
	assert_non_null(file_at(&c, "etc/ssl/certs/ca-certificates.crt"));
	for (size_t i = 0; i < c.n; i++) { /* all parents are there, and are directories */
		_cleanup_(freep) char *dir = fs_dirname(c.files[i].path);
		const struct image_file *parent = file_at(&c, dir);

		if (strcmp(dir, ".") != 0 &&
		    (!parent || parent->source || parent->target || parent->text))
			fail_msg("%s lies in no directory", c.files[i].path);
	}
}

static void test_what_is_missing(void **state)
{
	struct place *p = *state;
	const char *programs[] = { "/proc/self/exe" };
	const char *const targets[] = { "usr/bin/self" }, *const opened[] = { "libnowhere.so.9",
									      NULL };
	struct image_request request = {
		.programs = programs, .targets = targets, .n = 1, .dlopened = opened
	};
	struct image_content c;
	struct err err = { 0 };

	assert_int_equal(image_files(&request, p->arena, &c, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_non_null(strstr(err.msg, "libnowhere.so.9"));
	put(p, "script", "#!/bin/sh\n");
	programs[0] = in_place(p, "script");
	request.dlopened = NULL;
	err = (struct err){ 0 };
	assert_int_equal(image_files(&request, p->arena, &c, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	programs[0] = "/proc/self/exe";
	request.certificates = "/nowhere/ca.crt";
	err = (struct err){ 0 };
	assert_int_equal(image_files(&request, p->arena, &c, &err), -1);
	assert_non_null(strstr(err.msg, "package ca-certificates"));
}

static int set_up(void **state)
{
	struct place *p = xcalloc(1, sizeof(*p));

	p->arena = arena_new();
	p->dir = xcalloc(1, TEST_DIR_MAX);
	test_dir(p->dir, TEST_DIR_MAX, "image");
	*state = p;
	return 0;
}

static int tear_down(void **state)
{
	struct place *p = *state;

	assert_int_equal(fs_remove_tree(p->dir, NULL), 0);
	arena_free(p->arena);
	free(p->dir);
	free(p);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names_of_any_length),
		cmocka_unit_test(test_entries),
		cmocka_unit_test(test_what_is_no_file),
		cmocka_unit_test(test_same_files_same_digest),
		cmocka_unit_test(test_reads_back),
		cmocka_unit_test(test_several_processors),
		cmocka_unit_test(test_a_directory_that_is_full),
		cmocka_unit_test(test_layouts_that_are_none),
		cmocka_unit_test(test_own_libraries),
		cmocka_unit_test(test_search),
		cmocka_unit_test(test_damaged_programs),
		cmocka_unit_test(test_files),
		cmocka_unit_test(test_what_is_missing),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
