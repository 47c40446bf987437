/* engine/run/task/files.c — the pipeline's own files (the YAML and its step files) in the store.
 * resume and reproduce read these instead of the project.
 *
 * They are one tree, which names each file by its number and their paths in a list. Files are read
 * again for it, and must be those that were parsed: their digest is the model's (model/load.c).
 * What the last run kept is only looked for: its row names it, so it is durable.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/os/fs.h"
#include "run/internal.h"

/* The error when the parsed file isn't found below the project's root. */
static int not_the_same(const struct pipeline *p, const char *project_root, struct err *err)
{
	_cleanup_(freep) char *dir = fs_dirname(p->path), *real = realpath(dir, NULL),
			      *root = realpath(project_root, NULL);
	_cleanup_(freep) char *inside = real && root ? fs_relative(root, real) : NULL;

	if (inside)
		return err_set(err, ERR_CHANGED, "%s changed since it was read; run it again",
			       p->path);
	return err_set(err, ERR_INVALID,
		       "%s lies outside of the project %s: move it there, or link to it", p->path,
		       project_root);
}

/* One file's content, stored unless `s` is NULL. Adds it to the digest that the model computes of
 * all (model/load.c). */
static int add_file(const struct pipeline *p, size_t i, const struct config *config,
		    struct store *s, struct digester *all, struct content_id *ret, struct err *err)
{
	_cleanup_(freep) char *path = config_path(config, p->files[i]);
	_cleanup_(str_deinit) struct str bytes = { 0 }, named = { 0 };
	struct digest of;

	if (strchr(p->files[i], '\n'))
		return err_set(
			err, ERR_INVALID,
			"%s: a pipeline's file can't have a line break in its name; rename it",
			p->files[i]);
	str_add(&bytes, "");
	if (fs_read_file(path, 64 * MIB, &bytes, err) < 0)
		return err && err->code == ERR_NOT_FOUND
			       ? not_the_same(p, config->project_root, err)
			       : -1;
	content_id_of_bytes(bytes.s, bytes.len, ret);
	of = ret->digest;
	if (bytes.len > CONTENT_PART_BYTES) /* a blob's digest is that of its parts */
		digest_bytes(bytes.s, bytes.len, &of);
	str_add_field(&named, p->files[i], strlen(p->files[i]));
	str_addn(&named, &of, sizeof(of));
	digester_update(all, named.s, named.len);
	return s && store_put(s, STORE_BLOB, &ret->digest, bytes.s, bytes.len, err) < 0 ? -1 : 0;
}

/* A tree with files named 0, 1, … and a file `paths`, with one line for the path of each. Files are
 * read again, and their digest must equal that of the parsed ones. */
static int make_tree(const struct pipeline *p, const struct config *config, struct store *s,
		     struct content_id *ret, struct err *err)
{
	struct tree_entry listing = { .kind = TREE_FILE, .name = "paths", .name_len = 5 };
	struct tree_builder *b = tree_builder_new();
	struct digester *all = digester_new();
	_cleanup_(str_deinit) struct str paths = { 0 };
	struct digest digest;
	int r = 0;

	str_add(&paths, "");
	for (size_t i = 0; i < p->n_files && r == 0; i++) {
		struct tree_entry e = { .kind = TREE_FILE };
		char name[24];

		snprintf(name, sizeof(name), "%zu", i);
		e.name = name;
		e.name_len = strlen(name);
		r = add_file(p, i, config, s, all, &e.id, err);
		if (r == 0)
			r = tree_builder_add(b, &e, err);
		str_addf(&paths, "%s\n", p->files[i]);
	}
	digester_final(all, &digest);
	digester_free(all);
	if (r == 0 && !digest_eq(&digest, &p->digest))
		r = not_the_same(p, config->project_root, err);
	content_id_of_bytes(paths.s, paths.len, &listing.id);
	if (r == 0 && s &&
	    store_put(s, STORE_BLOB, &listing.id.digest, paths.s, paths.len, err) < 0)
		r = -1;
	if (r == 0)
		r = tree_builder_add(b, &listing, err);
	if (r == 0)
		r = tree_builder_store(b, s, ret, err);
	tree_builder_free(b);
	return r;
}

int pipeline_files_store(const struct pipeline *p, const struct config *config, struct store *s,
			 const struct content_id *last, struct content_id *ret, struct err *err)
{
	bool there = false;
	int r = last ? make_tree(p, config, NULL, ret, err) : 0;

	if (r == 0 && last && digest_eq(&last->digest, &ret->digest))
		r = content_complete(s, ret, 1, &there, err);
	if (r == 0 && !there)
		r = make_tree(p, config, s, ret, err);
	return r < 0 ? err_wrap(err, "keeping the pipeline's files") : 0;
}

static int read_entry(struct store *s, const struct content_id *tree, const char *name,
		      struct arena *arena, struct str *out, struct err *err)
{
	struct tree_entry e;

	if (tree_lookup(s, tree, name, arena, &e, err) < 0)
		return -1;
	return content_read(s, &e.id, 64 * MIB, out, err);
}

int pipeline_files_load(struct store *s, const struct content_id *tree, const char *path,
			struct pipeline **ret, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	VEC(struct pipeline_source) files = { 0 };
	struct str paths = { 0 };
	int r = read_entry(s, tree, "paths", arena, &paths, err);

	for (char *line = r == 0 ? paths.s : NULL, *end; line && *line && r == 0; line = end + 1) {
		struct str bytes = { 0 };
		char name[24];

		end = strchr(line, '\n');
		if (!end)
			break;
		*end = '\0';
		snprintf(name, sizeof(name), "%zu", files.n);
		r = read_entry(s, tree, name, arena, &bytes, err);
		if (r == 0)
			VEC_PUSH(&files,
				 ((struct pipeline_source){
					 line,
					 arena_strndup(arena, bytes.len ? bytes.s : "", bytes.len),
					 bytes.len }));
		str_deinit(&bytes);
	}
	if (r == 0 && files.n == 0)
		r = err_set(err, ERR_CORRUPT, "the run's pipeline is not on record");
	if (r == 0)
		r = pipeline_parse(files.v, files.n, diags, ret, err);
	VEC_FREE(&files);
	str_deinit(&paths);
	return r < 0 ? err_wrap(err, "the run's pipeline") : 0;
}
