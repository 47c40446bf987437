/* engine/run/uses/past.c — a past run as files: its pipeline's and those of its steps' code, each
 * at the path that it had in the project, and a list of the content that the run read
 * (EXTERNAL_RUN_FILE).
 *
 * A run keeps the code of each step in a tree. They are parts of one project at one time, so
 * together they are that project as far as the run needed it, and a step finds the same code there
 * again: same keys. Steps that the run used from elsewhere keep their own roots, which are brought
 * for themselves. Environments' lock files stand in their pins.
 *
 * The run hash is a digest of the manifest, which names everything by digest: nobody can forge what
 * a hash in the project's own file names. But whoever ran it may have been hostile, so paths are
 * made beneath the directory.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/text/json.h"
#include "record/manifest/manifest.h"
#include "run/internal.h"
#include "run/project/store.h"
#include "run/uses/uses.h"
#include "storage/content/content.h"

#define LOCK_PIN  "lock:"
#define INPUT_PIN "input:"
#define PATH_PIN  "path:"

struct past {
	struct store *store;
	struct arena *arena;
	struct manifest manifest;
	int dir;
	struct map *written; /* digests of trees */
};

/* Adds a tree's members. What is there already is the same file, of another step. */
static int add_tree(struct past *p, const struct content_id *id, int dir, unsigned depth,
		    struct err *err)
{
	_cleanup_(tree_freep) struct tree *t = NULL;

	if (depth > USES_DEPTH_MAX)
		return err_set(err, ERR_INVALID, "its code has folders more than %d deep",
			       USES_DEPTH_MAX);
	if (tree_load(p->store, id, &t, err) < 0)
		return -1;
	for (size_t i = 0; i < tree_len(t); i++) {
		const struct tree_entry *e = tree_at(t, i);
		_cleanup_(fd_closep) int below = -1;
		struct err why = { 0 };

		if (e->kind == TREE_SYMLINK) {
			if (symlinkat(e->target, dir, e->name) < 0 && errno != EEXIST)
				return err_errno(err, "cannot make %s", e->name);
		} else if (e->kind != TREE_DIR) {
			if (content_materialise_at(p->store, &e->id, CONTENT_COPY_WORKSPACE, dir,
						   e->name, &why) < 0 &&
			    why.code != ERR_EXISTS)
				return err_pass(err, &why);
		} else {
			if (mkdirat(dir, e->name, 0755) < 0 && errno != EEXIST)
				return err_errno(err, "cannot make %s", e->name);
			below = openat(dir, e->name,
				       O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
			if (below < 0)
				return err_errno(err, "cannot open %s", e->name);
			if (add_tree(p, &e->id, below, depth + 1, err) < 0)
				return -1;
		}
	}
	return 0;
}

/* Adds a tree once, in the directory of this name. */
static int add_once(struct past *p, const struct content_id *id, const char *path, struct err *err)
{
	_cleanup_(str_deinit) struct str name = { 0 };
	_cleanup_(fd_closep) int at = -1, dir = -1;
	void **slot;

	str_addn(&name, id->digest.b, DIGEST_BYTES);
	str_add(&name, path);
	slot = map_slot(p->written, name.s, name.len, NULL);
	if (*slot)
		return 0;
	*slot = p;
	if (id->kind != CONTENT_TREE)
		return err_set(err, ERR_CORRUPT, "the run's code is no directory");
	at = fs_make_beneath(p->dir, path, 0755, err);
	if (at < 0)
		return -1;
	dir = openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dir < 0 ? err_errno(err, "cannot open %s", path) : add_tree(p, id, dir, 0, err);
}

/* The pipeline's own files, as the tree of pipeline_files_store() has them. */
static int add_files(struct past *p, const struct pipeline *pl, struct err *err)
{
	for (size_t i = 0; i < pl->n_files; i++) {
		char name[24];
		struct tree_entry e;

		if (external_root_len(pl->files[i]))
			continue;
		snprintf(name, sizeof(name), "%zu", i);
		if (tree_lookup(p->store, &p->manifest.pipeline_tree, name, p->arena, &e, err) < 0)
			return -1;
		if (content_materialise_beneath(p->store, &e.id, CONTENT_COPY_WORKSPACE, p->dir,
						pl->files[i], err) < 0)
			return -1;
	}
	return 0;
}

static int add_code(struct past *p, const struct pipeline *pl, struct err *err)
{
	_cleanup_(map_freep) struct map *steps = pipeline_steps_by_name(pl);
	const struct manifest *m = &p->manifest;

	for (size_t i = 0; i < m->n_code; i++) {
		const struct step *s = map_get_str(steps, m->code[i].step);

		if (s && !s->root && add_once(p, &m->code[i].tree, ".", err) < 0)
			return err_wrap(err, "the code of step `%s`", s->name);
	}
	for (size_t i = 0; i < m->n_inputs; i++) {
		const char *path = m->inputs[i].name + strlen(LOCK_PIN);
		_cleanup_(freep) char *dir = NULL;

		if (!str_has_prefix(m->inputs[i].name, LOCK_PIN) || external_root_len(path))
			continue;
		dir = fs_dirname(path);
		if (add_once(p, &m->inputs[i].id, dir, err) < 0)
			return err_wrap(err, "the lock file %s", path);
	}
	return 0;
}

static int add_list(struct past *p, struct err *err)
{
	const struct manifest *m = &p->manifest;
	json_t *content = json_object(), *all;
	_cleanup_(str_deinit) struct str text = { 0 };
	_cleanup_(fd_closep) int dir = -1;

	for (size_t i = 0; i < m->n_inputs; i++) {
		const struct manifest_input *in = &m->inputs[i];
		const char *origin = in->origin;
		char hex[DIGEST_HEX_MAX];
		bool pinned; /* a digest alone would name a plain file */

		if (!str_has_prefix(in->name, INPUT_PIN))
			continue;
		origin += str_has_prefix(origin, PATH_PIN) ? strlen(PATH_PIN) : 0;
		pinned = in->id.kind == CONTENT_EXECUTABLE || in->id.kind == CONTENT_REFERENCE;
		json_object_set_new(
			content, origin,
			json_sprintf("%s:%s", pinned ? content_kind_name(in->id.kind) : "artifact",
				     digest_hex(&in->id.digest, hex)));
	}
	all = json_pack("{s:s, s:o}", "pipeline", m->run->path, "content", content);
	json_add_canonical(&text, all);
	json_decref(all);
	dir = fs_make_beneath(p->dir, ".cairn", 0755, err);
	if (dir < 0)
		return -1;
	return fs_write_atomic_at(dir, fs_basename(EXTERNAL_RUN_FILE), text.s, text.len, 0644,
				  FS_WRITE_NO_SYNC | FS_WRITE_NEW, err);
}

int uses_take_run(const struct config *config, const struct external *what, int dir,
		  struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(pipeline_freep) struct pipeline *pl = NULL;
	_cleanup_(map_freep) struct map *written = map_new();
	struct past p = { .arena = arena, .dir = dir, .written = written };
	struct digest hash;
	int r;

	if (digest_parse(what->id, &hash, err) < 0 ||
	    run_open_store(config, false, &p.store, err) < 0)
		return -1;
	r = manifest_load(p.store, &hash, arena, &p.manifest, err);
	if (r < 0 && err && err->code == ERR_NOT_FOUND)
		r = err_set(err, ERR_NOT_FOUND, "the store has no run of this hash");
	if (r == 0)
		r = pipeline_files_load(p.store, &p.manifest.pipeline_tree, p.manifest.run->path,
					&pl, err);
	if (r == 0)
		r = add_files(&p, pl, err);
	if (r == 0)
		r = add_code(&p, pl, err);
	if (r == 0)
		r = add_list(&p, err);
	store_free(p.store);
	return r < 0 ? -1 : 0;
}
