/* Files that steps name by `uses`: step files, one step with its own params in its own YAML, and
 * whole pipelines (use.c). Each is fetched and parsed once, however many steps use it. */
#include "base/os/fs.h"
#include "model/read.h"

bool step_is_elsewhere(const char *uses)
{
	size_t n = strlen(uses);

	return strstr(uses, "://") || str_has_prefix(uses, "git+") ||
	       str_has_prefix(uses, "run:") || str_has_prefix(uses, "sha256:") ||
	       (n >= 12 && strspn(uses, "0123456789abcdef") == n);
}

bool step_file_looks_like(const char *uses)
{
	return !step_is_elsewhere(uses) &&
	       (str_has_prefix(uses, "./") || str_has_prefix(uses, "../") ||
		str_has_suffix(uses, ".yaml") || str_has_suffix(uses, ".yml"));
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

static int load(struct loader *l, struct step_file *f, const char *user, const char *uses,
		struct err *err)
{
	struct doc *d = &f->doc;
	_cleanup_(freep) char *shown = NULL, *dir = fs_dirname(d->path),
			      *user_dir = fs_dirname(user), *joined = NULL;
	int r = l->fetch(l->fetch_arg, d->path, &d->bytes, &d->len, err);

	if (r == 1)
		return err_set(err, ERR_NOT_FOUND, "step file `%s` does not exist", d->path);
	if (r < 0)
		return r;
	joined = fs_join(strcmp(user_dir, ".") == 0 ? "" : user_dir, uses);
	shown = fs_normalise(joined);
	d->file = arena_strdup(l->arena, shown);
	d->dir = arena_strdup(l->arena, dir);
	if (yaml_tree_parse(d->file, d->bytes, d->len, l->diags, &d->tree, err) < 0)
		f->broken = true;
	else
		check_head(f);
	return 0;
}

struct step_file *step_file_get(const struct doc *d, const struct yaml_node *uses)
{
	struct loader *l = d->l;
	const char *path = read_path(d, uses, uses->text, d->dir, "step file", false, NULL);
	struct err err = { 0 };
	struct step_file *f;
	void **slot;

	if (!path) {
		f = arena_alloc(l->scratch, sizeof(*f));
		*f = (struct step_file){
			.doc = { .l = l, .path = uses->text, .file = uses->text, .dir = "." },
			.broken = true
		};
		return f;
	}
	slot = map_slot_str(l->step_files, path);
	if (*slot)
		return *slot;
	f = arena_alloc(l->arena, sizeof(*f));
	f->doc.l = l;
	f->doc.path = path;
	f->doc.file = path;
	f->first_use = doc_pos(d, uses);
	*slot = f;
	VEC_PUSH(&l->step_file_list, f);
	if (load(l, f, d->file, uses->text, &err) < 0) {
		doc_error(d, uses, "%s", err.msg);
		f->broken = true;
	}
	return f;
}
