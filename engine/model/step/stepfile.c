/* engine/model/step/stepfile.c — files that steps name by `uses`: step files, one step with its own
 * params in its own YAML, and whole pipelines (model/use.c). Each is fetched and parsed once,
 * however many steps use it.
 *
 * A file may lie elsewhere: in a git commit, or in a past run (model/external.h). Then the loader
 * has its root made first, and everything that the file names by a path lies in that root, too: a
 * doc has its root, and hands it on to the files that it uses. What a run read is in a file of its
 * root. That file is one of the model's like any other, so that what the run says can't change
 * between a run and its reproduction.
 */
#include "base/os/fs.h"
#include "model/read.h"

bool step_file_looks_like(const char *uses)
{
	return external_looks_like(uses) || str_has_prefix(uses, "./") ||
	       str_has_prefix(uses, "../") || str_has_suffix(uses, ".yaml") ||
	       str_has_suffix(uses, ".yml");
}

static void check_head(struct step_file *f)
{
	const struct doc *d = &f->doc;
	const struct yaml_node *root = d->tree->root, *name;

	if (!doc_want_map(d, root, "a step file")) {
		f->broken = true;
		return;
	}
	f->is_pipeline = yaml_get(root, "pipeline") != NULL;
	if (f->is_pipeline) {
		read_params(d, yaml_get(root, "params"), &f->params, &f->n_params);
		return;
	}
	name = yaml_get(root, "step");
	if (!name)
		doc_error(d, root,
			  yaml_get(root, "steps")
				  ? "`pipeline` is missing: a pipeline has a name"
				  : "`step` is missing: a step file begins with `step: NAME`");
	else if (doc_check_name(d, name, NAME_STEP, "step"))
		f->name = doc_text(d, name);
	if (!yaml_get(root, "run"))
		doc_error(d, root, "the step file has no `run`");
	read_params(d, yaml_get(root, "params"), &f->params, &f->n_params);
}

/* Reads and parses it; what it says isn't looked at yet. */
static int read_file(struct step_file *f, struct err *err)
{
	struct doc *d = &f->doc;
	struct loader *l = d->l;
	int r = l->files.fetch(l->files.arg, d->path, &d->bytes, &d->len, err);

	if (r == 1)
		return err_set(err, ERR_NOT_FOUND, "step file `%s` does not exist%s%s",
			       d->root ? d->path + strlen(d->root) + 1 : d->path,
			       d->origin ? " in " : "", d->origin ? d->origin : "");
	if (r < 0)
		return r;
	if (yaml_tree_parse(d->file, d->bytes, d->len, l->diags, &d->tree, err) < 0)
		f->broken = true;
	return 0;
}

static struct step_file *new_file(struct loader *l, const char *path, const struct pos *user)
{
	struct step_file *f = arena_alloc(l->arena, sizeof(*f));

	f->doc.l = l;
	f->doc.path = path;
	f->doc.file = path;
	f->doc.dir = ".";
	f->first_use = *user;
	return f;
}

static struct step_file *broken_file(const struct doc *d, const struct yaml_node *uses)
{
	const struct pos at = doc_pos(d, uses);
	struct step_file *f = new_file(d->l, uses->text, &at);

	f->broken = true;
	return f;
}

/* The file at `path` of what `like` lies in. */
static struct step_file *get(const struct doc *like, const struct doc *user,
			     const struct yaml_node *uses, const char *path, const char *shown)
{
	struct loader *l = user->l;
	_cleanup_(freep) char *dir = fs_dirname(path);
	const struct pos at = doc_pos(user, uses);
	struct err err = { 0 };
	struct step_file *f;
	void **slot;

	if (like->root)
		path = arena_printf(l->arena, "%s/%s", like->root, path);
	slot = map_slot_str(l->files.steps, path);
	if (*slot)
		return *slot;
	f = new_file(l, path, &at);
	f->doc.root = like->root;
	f->doc.origin = like->origin;
	f->doc.content = like->content;
	f->doc.dir = arena_strdup(l->arena, dir);
	f->doc.file = arena_strdup(l->arena, shown);
	*slot = f;
	VEC_PUSH(&l->files.list, f);
	if (read_file(f, &err) < 0) {
		doc_error(user, uses, "%s", err.msg);
		f->broken = true;
	} else if (!f->broken) {
		check_head(f);
	}
	return f;
}

/* Elsewhere. */

/* Takes what the run read: *ret_path is its pipeline's. The file isn't an author's, so that only
 * damage is a reason for an error. */
static bool read_run_file(struct doc *in, const struct doc *user, const struct yaml_node *uses,
			  const char **ret_path)
{
	struct loader *l = user->l;
	const struct pos at = doc_pos(user, uses);
	const char *path = arena_printf(l->arena, "%s/" EXTERNAL_RUN_FILE, in->root);
	void **slot = map_slot_str(l->files.steps, path);
	struct step_file *f = *slot;
	const struct yaml_node *root, *pipeline, *content;
	struct map *map;
	struct err err = { 0 };

	if (!f) {
		f = *slot = new_file(l, path, &at);
		f->doc.root = in->root;
		VEC_PUSH(&l->files.list, f);
		if (read_file(f, &err) < 0) {
			doc_error(user, uses, "%s", err.msg);
			f->broken = true;
		}
	}
	if (f->broken) /* and said so */
		return false;
	root = f->doc.tree->root;
	if (root->kind != YAML_KIND_MAP || !(pipeline = yaml_get(root, "pipeline")) ||
	    pipeline->kind != YAML_KIND_SCALAR || !(content = yaml_get(root, "content")) ||
	    content->kind != YAML_KIND_MAP) {
		doc_error(user, uses,
			  "what was fetched of the run is damaged: remove .cairn/uses/%s",
			  in->root);
		f->broken = true;
		return false;
	}
	*ret_path = pipeline->text;
	in->content = map_get_str(l->files.contents, in->root);
	if (in->content)
		return true;
	*map_slot_str(l->files.contents, in->root) = map = map_new();
	for (size_t i = 0; i < content->len; i++)
		if (content->pairs[i].value->kind == YAML_KIND_SCALAR)
			*map_slot_str(map, content->pairs[i].key->text) =
				(void *)(uintptr_t)doc_text(&f->doc, content->pairs[i].value);
	in->content = map;
	return true;
}

static struct step_file *get_elsewhere(const struct doc *d, const struct yaml_node *uses)
{
	struct loader *l = d->l;
	struct external what;
	const char *problem = external_parse(uses->text, l->arena, &what), *path;
	struct doc in = { .l = l, .file = d->file };
	struct err err = { 0 };

	if (problem) { /* it may hold a password */
		doc_error(d, uses, "`uses: %.*s`: %s",
			  strchr(uses->text, ':') && strchr(uses->text, '@')
				  ? (int)(strchr(uses->text, ':') - uses->text)
				  : 80,
			  uses->text, problem);
		return broken_file(d, uses);
	}
	in.root = what.root;
	in.origin = what.text;
	path = what.path;
	if (l->files.bring && l->files.bring(l->files.arg, &what, &err) < 0) {
		doc_error(d, uses, "%s: %s", what.text, err.msg);
		return broken_file(d, uses);
	}
	if (what.kind == EXTERNAL_RUN && !read_run_file(&in, d, uses, &path))
		return broken_file(d, uses);
	path = read_path(&in, uses, path, ".", "the file in it", false, NULL);
	return path ? get(&in, d, uses, path, arena_printf(l->scratch, "%s#%s", what.text, path))
		    : broken_file(d, uses);
}

/* How messages name the file: by the path that leads there from the working directory. */
static char *shown_path(const struct doc *user, const char *uses, const char *path)
{
	_cleanup_(freep) char *dir = fs_dirname(user->file), *joined = NULL;

	if (user->root)
		return xasprintf("%s#%s", user->origin, path);
	joined = fs_join(strcmp(dir, ".") == 0 ? "" : dir, uses);
	return fs_normalise(joined);
}

struct step_file *step_file_get(const struct doc *d, const struct yaml_node *uses)
{
	_cleanup_(freep) char *shown = NULL;
	const char *path;

	if (external_looks_like(uses->text))
		return get_elsewhere(d, uses);
	path = read_path(d, uses, uses->text, d->dir, "step file", false, NULL);
	if (!path)
		return broken_file(d, uses);
	shown = shown_path(d, uses->text, path);
	return get(d, d, uses, path, shown);
}
