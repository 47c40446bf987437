/* unit/model/corpus.h — the corpus of pipeline files for the tests of the model, and looks at what
 * was read. A group that enters folders begins with remember_home() and ends with forget_home(). */
#ifndef CAIRN_TESTS_UNIT_MODEL_CORPUS_H
#define CAIRN_TESTS_UNIT_MODEL_CORPUS_H

#include "unit.h"

#include "model/pipeline.h"

#define CORPUS "tests/unit/model/"
#define P      "pipeline: p\n"

static char *home;

static inline void enter(const char *dir)
{
	assert_int_equal(chdir(home), 0);
	assert_int_equal(chdir(dir), 0);
}

static inline int remember_home(void **state)
{
	home = getcwd(NULL, 0);
	return home ? 0 : -1;
}

static inline int forget_home(void **state)
{
	free(home);
	return 0;
}

/* All messages about a file; *ret may be NULL. */
static inline char *load(const char *path, struct pipeline **ret)
{
	struct pipeline_load_options o = { .project_root = ".", .uses_dir = "uses" };
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	struct str text = { 0 };
	struct err err = { 0 };
	int r = pipeline_load(path, &o, diags, &p, &err);

	assert_true((r < 0) == (diag_errors(diags) > 0));
	assert_int_equal(r < 0, p == NULL);
	if (r < 0)
		assert_int_equal(err.code, ERR_INVALID);
	str_add(&text, "");
	diag_render(diags, &text);
	if (ret)
		*ret = TAKE_PTR(p);
	return str_take(&text);
}

static inline const struct step_dep *dep_on(const struct pipeline *p, const struct step *s,
					    const char *needed)
{
	for (size_t i = 0; i < s->n_deps; i++)
		if (strcmp(p->steps[s->deps[i].step].name, needed) == 0)
			return &s->deps[i];
	return NULL;
}

static inline const char *env_of(const struct step *s, const char *name)
{
	for (size_t i = 0; i < s->reads->n_env; i++)
		if (strcmp(s->reads->env[i].name, name) == 0)
			return template_literal(s->reads->env[i].value)
				       ? template_literal(s->reads->env[i].value)
				       : "(expression)";
	return NULL;
}

#endif
