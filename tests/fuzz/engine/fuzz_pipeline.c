/* Pipelines from bytes. Up to the first 0x1e the pipeline, behind it the step file `s.yaml`; input
 * that begins with `M` is an encoded model. Whatever is accepted must encode, come back the same,
 * and be safe to walk. */
#include <stdio.h>
#include <string.h>
#include "model/cache/cache.h"

static void ignore_ref(void *arg, const struct ref *ref)
{
	*(size_t *)arg += ref->line >= 0;
}

static void walk(const struct pipeline *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->n_steps; i++) {
		const struct step *s = &p->steps[i];

		if (s->program.run)
			template_refs(s->program.run, ignore_ref, &n);
		for (size_t k = 0; k < s->reads->n_env; k++)
			template_refs(s->reads->env[k].value, ignore_ref, &n);
		for (size_t k = 0; k < s->n_deps; k++)
			n += strlen(p->steps[s->deps[k].step].name);
	}
}

static void decode_twice(const char *bytes, size_t len)
{
	struct arena *arena = arena_new(), *again = arena_new();
	char *copy = arena_alloc(arena, len + 1);
	struct pipeline *p = NULL, *q = NULL;
	struct str x = { 0 }, y = { 0 };

	if (len)
		memcpy(copy, bytes, len);
	if (model_decode(copy, len, arena, &p) && model_encode(p, &x)) {
		walk(p);
		if (!model_decode(x.s, x.len, again, &q) || !model_encode(q, &y) ||
		    x.len != y.len || memcmp(x.s, y.s, x.len) != 0)
			abort();
	}
	str_deinit(&x);
	str_deinit(&y);
	arena_free(arena);
	arena_free(again);
}

#define COMMIT "git@0000000000000000000000000000000000000001"
#define RUN    "run@0000000000000000000000000000000000000000000000000000000000000002"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *bytes = (const char *)data, *split;
	/* The second file is there for `uses` of the project, of a commit, and of a run. */
	struct pipeline_source src[5] = { { "p.yaml", bytes, size },
					  { "s.yaml", "", 0 },
					  { COMMIT "/s.yaml", "", 0 },
					  { RUN "/s.yaml", "", 0 },
					  { RUN "/" EXTERNAL_RUN_FILE, "", 0 } };
	struct diag_list *diags;
	struct pipeline *p = NULL;
	struct str out = { 0 };

	if (size && *bytes == 'M') {
		decode_twice(bytes + 1, size - 1);
		return 0;
	}
	split = size ? memchr(bytes, 0x1e, size) : NULL;
	if (split) {
		src[0].len = (size_t)(split - bytes);
		src[1].bytes = split + 1;
		src[1].len = size - src[0].len - 1;
		split = memchr(src[1].bytes, 0x1e, src[1].len);
	}
	if (split) {
		src[4].bytes = split + 1;
		src[4].len = src[1].len - (size_t)(split + 1 - src[1].bytes);
		src[1].len -= src[4].len + 1;
	}
	src[2].bytes = src[3].bytes = src[1].bytes;
	src[2].len = src[3].len = src[1].len;
	diags = diag_list_new();
	if (pipeline_parse(src, ARRAY_LEN(src), diags, &p, NULL) == 0) {
		walk(p);
		if (!model_encode(p, &out))
			abort();
		decode_twice(out.s, out.len);
		pipeline_free(p);
	} else if (diag_errors(diags) == 0) {
		abort(); /* refused without a reason */
	}
	str_reset(&out);
	diag_render(diags, &out);
	str_deinit(&out);
	diag_list_free(diags);
	return 0;
}
