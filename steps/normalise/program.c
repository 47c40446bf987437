/* `cairn-steps normalise [--max BYTES] A B`: for the engine, which reads the one line that it
 * prints. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include "base/macros.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "steps/normalise/normalise.h"

#define MEMORY_MAX (1536 * MIB)

struct file {
	struct span bytes;
	void *map;
};

static int open_file(const char *path, struct file *ret, struct err *err)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot read %s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is not a regular file", path);
	*ret = (struct file){ .bytes = { (const uint8_t *)"", 0 } };
	if (st.st_size == 0)
		return 0;
	ret->map = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (ret->map == MAP_FAILED)
		return err_errno(err, "cannot map %s", path);
	ret->bytes = (struct span){ ret->map, (size_t)st.st_size };
	return 0;
}

static void limit(int what, rlim_t value)
{
	struct rlimit now;

	if (getrlimit(what, &now) == 0 && now.rlim_cur > value) {
		now.rlim_cur = value;
		setrlimit(what, &now);
	}
}

/* Beyond what the formats bound by themselves. */
static void set_limits(void)
{
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, NORMALISE_UNPACKED_MAX);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	limit(RLIMIT_DATA, MEMORY_MAX); /* a sanitizer's own memory counts too */
#endif
}

static void print(const struct normalised *r)
{
	static const char *const verdicts[] = { "none", "same", "different" };
	_cleanup_(str_deinit) struct str s = { 0 };
	json_t *o =
		json_pack("{s:s, s:s?, s:s?, s:s?}", "verdict", verdicts[r->verdict], "normaliser",
			  r->normaliser, "member", r->member, "detail", r->detail);

	if (o)
		json_add_canonical(&s, o);
	json_decref(o);
	printf("%s\n", s.len ? s.s : "{\"verdict\":\"none\"}");
}

int normalise_main(int argc, char **argv)
{
	struct normalise_job j = { .bytes_max = NORMALISE_UNPACKED_MAX };
	struct file a = { 0 }, b = { 0 };
	struct normalised r;
	struct err err = { 0 };
	uint64_t max;

	if (argc == 4 && strcmp(argv[0], "--max") == 0 &&
	    text_parse_bytes(argv[1], &max, NULL) == 0) {
		j.bytes_max = MIN(max, j.bytes_max);
		argv += 2;
	} else if (argc != 2) {
		fputs("usage: cairn-steps normalise [--max BYTES] OLD NEW\n", stderr);
		return 2;
	}
	set_limits();
	if (open_file(argv[0], &a, &err) < 0 || open_file(argv[1], &b, &err) < 0) {
		fprintf(stderr, "normalise: %s\n", err.msg);
		return 1;
	}
	j.arena = arena_new();
	normalise_spans(&j, a.bytes, b.bytes, &r);
	print(&r);
	arena_free(j.arena);
	if (a.map)
		munmap(a.map, a.bytes.n);
	if (b.map)
		munmap(b.map, b.bytes.n);
	return fflush(stdout) == 0 ? 0 : 1;
}
