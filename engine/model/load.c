/* engine/model/load.c — from files to a model, and the model's life.
 *
 * The order follows from what refers to what: params, inputs, the files that steps use, defaults,
 * steps, schedules (use.c); then references (resolve.c); then the order of steps (graph.c). The
 * later passes run even after errors, so that all errors of a file are reported at once. A model is
 * handed out only when there was none.
 *
 * A loader has two arenas: `arena` becomes the model's, `scratch` is freed with the loader.
 * hand_out() moves the vectors into the first one. Step files are read through `fetch`, so that the
 * same code works on files and on bytes of the caller's. The digest covers the pipeline's bytes and
 * those of its step files, with their paths.
 *
 * pipeline_load() looks in the cache of parsed models first (cache/cache.c). Threads share nothing
 * here: a model belongs to the caller that loaded it, and is read-only from then on.
 */
#include <assert.h>
#include "base/os/fs.h"
#include "base/text/yaml_json.h"
#include "model/cache/cache.h"
#include "model/read.h"

struct source {
	const char *display; /* as the user named it */
	const char *path;    /* relative to the project root */
	const char *bytes;
	size_t len;
	fetch_fn fetch;
	void *fetch_arg;
	const char *root; /* of the project, absolute; NULL: unknown */
	int (*bring)(void *arg, const struct external *what, struct err *err);
};

static void loader_init(struct loader *l, const struct source *src, struct diag_list *diags)
{
	_cleanup_(freep) char *dir = fs_dirname(src->path);

	*l = (struct loader){ .arena = arena_new(),
			      .scratch = arena_new(),
			      .diags = diags,
			      .files.fetch = src->fetch,
			      .files.arg = src->fetch_arg };
	l->p = arena_alloc(l->arena, sizeof(*l->p));
	l->p->arena = l->arena;
	l->p->path = arena_strdup(l->arena, src->display);
	l->doc = (struct doc){ .l = l,
			       .file = l->p->path,
			       .path = arena_strdup(l->arena, src->path),
			       .dir = arena_strdup(l->arena, dir),
			       .bytes = src->bytes,
			       .len = src->len };
	l->input_names = map_new();
	l->implicit_inputs = map_new();
	l->files.steps = map_new();
	l->files.contents = map_new();
	l->root = src->root;
	l->files.bring = src->bring;
}

static void loader_deinit(struct loader *l)
{
	for (size_t i = 0; i < l->n_steps; i++) {
		VEC_FREE(&l->builds[i].needs);
		VEC_FREE(&l->builds[i].deps);
		map_free(l->builds[i].input_names);
		map_free(l->builds[i].output_names);
	}
	for (size_t i = 0; i < l->files.list.n; i++)
		yaml_tree_free(l->files.list.v[i]->doc.tree);
	yaml_tree_free(l->doc.tree);
	VEC_FREE(&l->params);
	VEC_FREE(&l->inputs);
	VEC_FREE(&l->schedules);
	VEC_FREE(&l->sweeps);
	VEC_FREE(&l->files.list);
	for (size_t i = 0; i < l->uses.n; i++)
		use_deinit(l->uses.v[i]);
	VEC_FREE(&l->uses);
	VEC_FREE(&l->using.opened);
	map_free(l->input_names);
	map_free(l->implicit_inputs);
	map_free(l->files.steps);
	for (size_t i = 0; i < map_len(l->files.contents); i++)
		map_free(map_at(l->files.contents, i, NULL, NULL));
	map_free(l->files.contents);
	arena_free(l->scratch);
	arena_free(l->arena); /* NULL when the model was handed out */
}

static void digest_file(struct digester *dg, const char *path, const char *bytes, size_t len)
{
	_cleanup_(str_deinit) struct str head = { 0 };
	struct digest of;

	digest_bytes(bytes, len, &of);
	str_add_field(&head, path, strlen(path));
	str_addn(&head, &of, sizeof(of));
	digester_update(dg, head.s, head.len);
}

/* What the pipeline file says, without the words that decide no run. */
static void add_core(const struct yaml_node *root, struct str *out)
{
	static const char *const without[] = { "sweeps", "schedules", "notify", "description" };
	json_t *j = yaml_to_json(root);

	for (size_t i = 0; i < ARRAY_LEN(without); i++)
		json_object_del(j, without[i]);
	json_add_canonical(out, j);
	json_decref(j);
}

/* Digests the pipeline's bytes and those of its step files, with their paths. */
static void digest_sources(struct loader *l)
{
	struct digester *all = digester_new(), *core = digester_new();
	_cleanup_(str_deinit) struct str text = { 0 };

	if (l->sweeps.n)
		add_core(l->doc.tree->root, &text);
	for (size_t i = 0; i <= l->files.list.n; i++) {
		const struct doc *d = i ? &l->files.list.v[i - 1]->doc : &l->doc;

		digest_file(all, d->path, d->bytes, d->len);
		digest_file(core, d->path,
			    i          ? d->bytes
			    : text.len ? text.s
				       : "",
			    i ? d->len : text.len);
	}
	digester_final(all, &l->p->digest);
	if (l->sweeps.n)
		digester_final(core, &l->p->core_digest);
	digester_free(all);
	digester_free(core);
}

#define KEEP(field) \
	(l->field.n ? arena_memdup(l->arena, l->field.v, l->field.n * sizeof(*l->field.v)) : NULL)

static void take_given(struct loader *l)
{
	struct pipeline *p = l->p;
	struct given_param *given;

	p->n_given = l->params.n - l->n_own_params;
	given = arena_alloc(l->arena, p->n_given * sizeof(*given));
	for (size_t u = 0; u < l->uses.n; u++) {
		const struct use *use = l->uses.v[u];
		size_t n = strlen(use->prefix);

		for (size_t i = 0; use->by && i < use->by->s->program.n_locals; i++) {
			size_t at = use->first_param + i - l->n_own_params;

			given[at] =
				(struct given_param){ l->given[at],
						      arena_strndup(l->arena, use->prefix, n - 1) };
		}
	}
	p->given = given;
}

static void hand_out(struct loader *l, struct pipeline **ret)
{
	struct pipeline *p = l->p;
	const char **files = arena_alloc(l->arena, (1 + l->files.list.n) * sizeof(*files));
	_cleanup_(map_freep) struct map *kept = map_new();

	files[0] = l->doc.path;
	for (size_t i = 0; i < l->files.list.n; i++)
		files[i + 1] = l->files.list.v[i]->doc.path;
	p->files = files;
	p->n_files = 1 + l->files.list.n;
	p->params = KEEP(params);
	p->n_params = l->n_own_params;
	take_given(l);
	p->inputs = KEEP(inputs);
	p->n_inputs = l->inputs.n;
	p->schedules = KEEP(schedules);
	p->n_schedules = l->schedules.n;
	p->sweeps = KEEP(sweeps);
	p->n_sweeps = l->sweeps.n;
	for (size_t i = 0; i < l->n_steps; i++)
		step_keep_parts(l, kept, &l->steps[i]);
	p->steps = l->steps;
	p->n_steps = l->n_steps;
	digest_sources(l);
	l->arena = NULL;
	*ret = p;
}

static int parse(const struct source *src, struct diag_list *diags, struct pipeline **ret,
		 struct err *err)
{
	size_t before = diag_errors(diags), kept = diag_len(diags);
	struct loader l;
	int r;

	loader_init(&l, src, diags);
	r = yaml_tree_parse(l.doc.file, src->bytes, src->len, diags, &l.doc.tree, err);
	if (r == 0) {
		read_pipeline(&l);
		use_note(&l, kept);
		if (diag_errors(diags) > before)
			r = diag_to_err(diags, src->display, err);
		else
			hand_out(&l, ret);
	}
	loader_deinit(&l);
	return r;
}

/* From bytes. */

struct file_set {
	const struct pipeline_source *files;
	size_t n;
};

static int fetch_from_set(void *arg, const char *path, const char **ret_bytes, size_t *ret_len,
			  struct err *err)
{
	const struct file_set *set = arg;

	for (size_t i = 1; i < set->n; i++)
		if (strcmp(set->files[i].path, path) == 0) {
			*ret_bytes = set->files[i].bytes;
			*ret_len = set->files[i].len;
			return 0;
		}
	return 1;
}

int pipeline_parse(const struct pipeline_source *files, size_t n_files, struct diag_list *diags,
		   struct pipeline **ret, struct err *err)
{
	struct file_set set = { files, n_files };
	struct source src = { .display = files->path,
			      .path = files->path,
			      .bytes = files->bytes,
			      .len = files->len,
			      .fetch = fetch_from_set,
			      .fetch_arg = &set };

	assert(n_files > 0);
	return parse(&src, diags, ret, err);
}

void pipeline_free(struct pipeline *p)
{
	if (p)
		arena_free(p->arena);
}

/* From disk. */

struct disk {
	const char *root;
	const struct pipeline_load_options *options;
	VEC(struct str) contents; /* fetched files, lent to the loader */
};

/* Brings what lies elsewhere, unless it is there. */
static int bring_to_disk(void *arg, const struct external *what, struct err *err)
{
	const struct pipeline_load_options *o = ((struct disk *)arg)->options;
	_cleanup_(freep) char *dir = o->uses_dir ? fs_join(o->uses_dir, what->root) : NULL;

	if (!dir)
		return err_set(
			err, ERR_INVALID,
			"what lies elsewhere is kept in a project, and this file is in none: "
			"see `cairn init`");
	if (access(dir, F_OK) == 0)
		return 0;
	if (!o->bring)
		return err_set(err, ERR_NOT_FOUND,
			       "it isn't here yet: `cairn check FILE` in the project brings it");
	return o->bring(o->bring_arg, what, err);
}

/* A clone must not make cairn read other files of the user's. */
static bool leads_out(const char *root, const char *path)
{
	_cleanup_(freep) char *real = realpath(path, NULL), *real_root = realpath(root, NULL),
			      *inside = real && real_root ? fs_relative(real_root, real) : NULL;

	return real && real_root && !inside;
}

static int fetch_from_disk(void *arg, const char *path, const char **ret_bytes, size_t *ret_len,
			   struct err *err)
{
	struct disk *disk = arg;
	size_t n = external_root_len(path);
	const char *below = n ? path + n + (path[n] == '/') : path;
	_cleanup_(freep) char *name = xstrndup(path, n);
	_cleanup_(freep) char *root =
		external_dir(disk->root, n ? disk->options->uses_dir : NULL, name);
	_cleanup_(freep) char *full = fs_join(root, below);
	struct str bytes = { 0 };
	struct err e = { 0 };

	if (leads_out(root, full))
		return err_set(err, ERR_INVALID,
			       "`%s` is a symbolic link that leads out of the %s: put the file "
			       "itself into it",
			       below, n ? "commit" : "project");
	str_reserve(&bytes, 1);
	if (fs_read_file(full, YAML_FILE_MAX, &bytes, &e) < 0) {
		str_deinit(&bytes);
		if (e.code == ERR_NOT_FOUND)
			return 1;
		return err_pass(err, &e);
	}
	*ret_bytes = bytes.s;
	*ret_len = bytes.len;
	VEC_PUSH(&disk->contents, bytes);
	return 0;
}

/* The file's path in the project; its bare name when it lies outside (then step files are looked
 * for at the root). */
static char *path_in_project(const char *root, const char *path)
{
	_cleanup_(freep) char *dir = fs_dirname(path), *real_dir = realpath(dir, NULL),
			      *real_root = realpath(root, NULL), *inside = NULL, *joined = NULL;

	if (real_dir && real_root)
		inside = fs_relative(real_root, real_dir);
	if (!inside)
		return xstrdup(fs_basename(path));
	joined = fs_join(inside, fs_basename(path));
	return fs_normalise(joined);
}

int pipeline_note_lack(void *arg, const struct external *what, struct err *err)
{
	*(bool *)arg = true;
	return err_set(err, ERR_NOT_FOUND, "%s isn't here yet", what->root);
}

int pipeline_load(const char *path, const struct pipeline_load_options *o, struct diag_list *diags,
		  struct pipeline **ret, struct err *err)
{
	_cleanup_(freep) char *inside = path_in_project(o->project_root, path);
	struct disk disk = { .root = o->project_root, .options = o };
	struct str bytes = { 0 };
	struct source src = { .display = path,
			      .path = inside,
			      .fetch = fetch_from_disk,
			      .fetch_arg = &disk,
			      .root = o->project_root,
			      .bring = bring_to_disk };
	struct model_cache_key key;
	int r;

	str_reserve(&bytes, 1);
	r = fs_read_file(path, YAML_FILE_MAX, &bytes, err);
	if (r == 0) {
		src.bytes = bytes.s;
		src.len = bytes.len;
		if (o->cache_dir)
			model_cache_key(src.root, src.display, src.path, src.bytes, src.len, &key);
		if (!o->cache_dir ||
		    !model_cache_load(o->cache_dir, &key, src.fetch, src.fetch_arg, diags, ret)) {
			r = parse(&src, diags, ret, err);
			if (r == 0 && o->cache_dir)
				model_cache_store(o->cache_dir, &key, *ret, src.fetch,
						  src.fetch_arg, diags);
		}
	}
	if (r == 0) {
		size_t before = diag_errors(diags);

		after_check(*ret, &(struct after_files){ src.fetch, src.fetch_arg }, diags);
		if (diag_errors(diags) > before) {
			pipeline_free(*ret);
			*ret = NULL;
			r = diag_to_err(diags, path, err);
		}
	}
	for (size_t i = 0; i < disk.contents.n; i++)
		str_deinit(&disk.contents.v[i]);
	VEC_FREE(&disk.contents);
	str_deinit(&bytes);
	return r;
}

const struct step *pipeline_find_step(const struct pipeline *p, const char *name)
{
	for (size_t i = 0; i < p->n_steps; i++)
		if (strcmp(p->steps[i].name, name) == 0)
			return &p->steps[i];
	return NULL;
}

struct map *pipeline_steps_by_name(const struct pipeline *p)
{
	struct map *steps = map_new();

	for (size_t i = 0; i < p->n_steps; i++)
		*map_slot_str(steps, p->steps[i].name) = (void *)(uintptr_t)&p->steps[i];
	return steps;
}

bool step_name_is_in(const char *step, const char *name)
{
	size_t n = strlen(name);

	return strncmp(step, name, n) == 0 && (step[n] == '\0' || (n && step[n] == '/'));
}

const struct step *pipeline_find_steps(const struct pipeline *p, const char *name, size_t *ret_n)
{
	size_t first = 0, end;

	while (first < p->n_steps && !step_name_is_in(p->steps[first].name, name))
		first++;
	for (end = first; end < p->n_steps && step_name_is_in(p->steps[end].name, name);)
		end++;
	*ret_n = end - first;
	return end > first ? &p->steps[first] : NULL;
}
