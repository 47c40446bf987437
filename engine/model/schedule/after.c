/* engine/model/schedule/after.c — pipelines that start one another (`on: {pipeline: …}`): the file
 * is there, and no chain of them leads back to itself.
 *
 * The model of a pipeline has only the names of those that start it. This looks into their files,
 * and from there on as far as it goes, and reads only `schedules.*.on.pipeline` there. It runs for
 * each load, also of a model from the cache: another file may have changed. Each change that closes
 * a circle changes a file of it, whose load finds it.
 *
 * A file that can't be parsed ends its branch: its own check tells what is wrong with it.
 */
#include "base/map.h"
#include "base/os/fs.h"
#include "model/read.h"

#define FILES_MAX 1000 /* looked at for one pipeline; longer chains aren't followed */

/* A file on the way back from the pipeline to what starts it. */
struct link {
	const char *path;
	size_t by; /* the link that it starts */
};

struct search {
	const struct after_files *files;
	struct map *seen;
	struct arena *arena;
	VEC(struct link) links;
};

static void add_link(struct search *s, const char *path, size_t by)
{
	void **slot = map_slot_str(s->seen, path);

	if (*slot || s->links.n == FILES_MAX)
		return;
	*slot = s;
	VEC_PUSH(&s->links, ((struct link){ path, by }));
}

/* What starts the pipeline at `path`, as its file says. 1: it isn't there; 2: it is no pipeline. */
static int follow(struct search *s, size_t at)
{
	const char *path = s->links.v[at].path;
	_cleanup_(freep) char *dir = fs_dirname(path);
	_cleanup_(diag_list_freep) struct diag_list *ignored = diag_list_new();
	struct yaml_tree *tree = NULL;
	const struct yaml_node *schedules;
	const char *bytes;
	struct err err = { 0 };
	size_t len;
	int r = s->files->fetch(s->files->arg, path, &bytes, &len, &err);

	if (r != 0)
		return r == 1;
	if (yaml_tree_parse(path, bytes, len, ignored, &tree, &err) < 0)
		return 0;
	if (tree->root->kind != YAML_KIND_MAP || !yaml_get(tree->root, "pipeline"))
		r = 2;
	schedules = r == 0 ? yaml_get(tree->root, "schedules") : NULL;
	for (size_t i = 0; schedules && schedules->kind == YAML_KIND_MAP && i < schedules->len;
	     i++) {
		const struct yaml_node *v = schedules->pairs[i].value;
		_cleanup_(freep) char *joined = NULL, *normal = NULL;

		for (size_t k = 0; k < 2 && v; k++)
			v = v->kind == YAML_KIND_MAP ? yaml_get(v, k ? "pipeline" : "on") : NULL;
		if (!v || v->kind != YAML_KIND_SCALAR || !*v->text || *v->text == '/')
			continue;
		joined = fs_join(strcmp(dir, ".") == 0 ? "" : dir, v->text);
		normal = fs_normalise(joined);
		add_link(s, arena_strdup(s->arena, normal), at);
	}
	yaml_tree_free(tree);
	return r;
}

/* "a.yaml starts b.yaml, which starts a.yaml": links[at] is the pipeline itself. */
static void report_circle(const struct search *s, size_t at, const struct event_decl *on,
			  struct diag_list *diags)
{
	const char *self = s->links.v[at].path;
	_cleanup_(str_deinit) struct str text = { 0 };

	for (size_t i = at; i; i = s->links.v[i].by)
		str_addf(&text, "%s, which starts ", s->links.v[s->links.v[i].by].path);
	doc_error_at(diags, &on->pos,
		     "pipelines start each other in a circle, without an end: %s starts %s%s", self,
		     text.s ? text.s : "", self);
}

static void look(const struct pipeline *p, const struct event_decl *on,
		 const struct after_files *files, struct diag_list *diags)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct search s = { .files = files, .seen = map_new(), .arena = arena };

	add_link(&s, on->pipeline, 0);
	for (size_t i = 0; i < s.links.n; i++) {
		int r;

		if (strcmp(s.links.v[i].path, p->files[0]) == 0) {
			report_circle(&s, i, on, diags);
			break;
		}
		r = follow(&s, i);
		if (i == 0 && r == 1)
			doc_error_at(diags, &on->pos, "there is no pipeline file `%s`",
				     on->pipeline);
		else if (i == 0 && r == 2)
			doc_error_at(diags, &on->pos,
				     "`%s` is no pipeline file: it has no "
				     "`pipeline`",
				     on->pipeline);
	}
	map_free(s.seen);
	VEC_FREE(&s.links);
}

void after_check(const struct pipeline *p, const struct after_files *files, struct diag_list *diags)
{
	for (size_t i = 0; i < p->n_schedules; i++)
		if (p->schedules[i].on.pipeline)
			look(p, &p->schedules[i].on, files, diags);
}
