/* steps/normalise/program.c — `cairn-steps normalise [--max BYTES] A B`: for the engine, which
 * reads its one line of output. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include "base/macros.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "steps/mapped.h"
#include "steps/normalise/normalise.h"

#define MEMORY_MAX (1536 * MIB)

static void limit(int what, rlim_t value)
{
	struct rlimit now;

	if (getrlimit(what, &now) == 0 && now.rlim_cur > value) {
		now.rlim_cur = value;
		setrlimit(what, &now);
	}
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
	_cleanup_(mapped_close) struct mapped a = { 0 }, b = { 0 };
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
	/* Limits beyond those of the formats. */
	limit(RLIMIT_CORE, 0);
	limit(RLIMIT_FSIZE, NORMALISE_UNPACKED_MAX);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	limit(RLIMIT_DATA, MEMORY_MAX); /* a sanitizer's own memory counts too */
#endif
	if (mapped_open(&a, argv[0], 0, &err) < 0 || mapped_open(&b, argv[1], 0, &err) < 0) {
		fprintf(stderr, "normalise: %s\n", err.msg);
		return 1;
	}
	j.arena = arena_new();
	normalise_spans(&j, (struct span){ (const uint8_t *)a.text, a.n },
			(struct span){ (const uint8_t *)b.text, b.n }, &r);
	print(&r);
	arena_free(j.arena);
	return fflush(stdout) == 0 ? 0 : 1;
}
