/* runners/image/archive.c — reads an existing OCI layout: its one image as a list of blobs, and as
 * one tar.
 *
 * image_layout_read() goes from index.json to the only manifest, or to an index of one for each
 * processor, and from there to configurations and layers. Somebody else may have written the
 * layout: sizes are bounded, digests parsed, and the lengths of media types checked. It doesn't
 * hash the blobs; a registry does that when they are pushed.
 *
 * image_tar_write() puts the same files into a tar that `docker load` reads: blobs in the order of
 * their digests, without duplicates, then index.json, Docker's own manifest.json, and oci-layout.
 * So the bytes depend only on the layout and `ref`. layout.c writes layouts; tar.c writes entries.
 */
#include <stdio.h>
#include <string.h>
#include "base/crypto/digest.h"
#include "base/os/fs.h"
#include "base/text/json.h"
#include "runners/image/layout.h"
#include "runners/image/tar.h"

#define DOCUMENT_MAX (4 * MIB) /* the largest manifest that registries take */
#define LAYERS_MAX   1024

/* Reading. */

static int read_descriptor(const json_t *j, struct image_blob *ret, struct err *err)
{
	struct image_blob b = { .size = 0 };
	const char *digest, *type;
	struct digest d;
	char hex[DIGEST_HEX_MAX];

	if (json_get_str(j, "digest", &digest, err) < 0 ||
	    json_get_str(j, "mediaType", &type, err) < 0 ||
	    json_get_uint(j, "size", &b.size, err) < 0)
		return -1;
	if (digest_parse(digest, &d, err) < 0)
		return -1;
	if (strlen(type) >= sizeof(b.media_type))
		return err_set(err, ERR_INVALID, "`mediaType` is too long");
	snprintf(b.digest, sizeof(b.digest), "sha256:%s", digest_hex(&d, hex));
	memcpy(b.media_type, type, strlen(type) + 1);
	*ret = b;
	return 0;
}

/* The only element of an array of descriptors. */
static int read_only_one(const json_t *j, const char *key, struct image_blob *ret, struct err *err)
{
	json_t *list;

	if (json_get_array(j, key, &list, err) < 0)
		return -1;
	if (json_array_size(list) != 1)
		return err_set(err, ERR_UNSUPPORTED, "`%s` has %zu entries instead of one", key,
			       json_array_size(list));
	return read_descriptor(json_array_get(list, 0), ret, err);
}

static int read_manifest(const json_t *j, struct arena *arena, struct image_part *ret,
			 struct err *err)
{
	json_t *config, *layers, *layer;
	size_t i;

	if (json_get_object(j, "config", &config, err) < 0 ||
	    json_get_array(j, "layers", &layers, err) < 0)
		return -1;
	if (json_array_size(layers) > LAYERS_MAX)
		return err_set(err, ERR_TOO_LARGE, "more than %d layers", LAYERS_MAX);
	ret->n_blobs = 1 + json_array_size(layers);
	ret->blobs = arena_alloc(arena, ret->n_blobs * sizeof(*ret->blobs));
	if (read_descriptor(config, &ret->blobs[0], err) < 0)
		return -1;
	json_array_foreach(layers, i, layer) if (read_descriptor(layer, &ret->blobs[1 + i], err) <
						 0) return -1;
	return 0;
}

static int read_part(const char *dir, struct arena *arena, struct image_part *part, struct err *err)
{
	_cleanup_(freep) char *path = image_blob_path(dir, part->manifest.digest);
	json_t *j;
	int r;

	if (json_read_file(path, DOCUMENT_MAX, &j, err) < 0)
		return -1;
	r = read_manifest(j, arena, part, err);
	json_decref(j);
	return r < 0 ? err_wrap(err, "%s", path) : 0;
}

/* The manifests of an index: descriptors only. */
static int read_index(const json_t *j, struct arena *arena, struct image_layout *ret,
		      struct err *err)
{
	json_t *list, *entry;
	size_t i;

	if (json_get_array(j, "manifests", &list, err) < 0)
		return -1;
	ret->n_parts = json_array_size(list);
	if (ret->n_parts == 0 || ret->n_parts > IMAGE_PARTS_MAX)
		return err_set(err, ERR_UNSUPPORTED, "an index of %zu images instead of 1 to %d",
			       ret->n_parts, IMAGE_PARTS_MAX);
	ret->parts = arena_alloc(arena, ret->n_parts * sizeof(*ret->parts));
	json_array_foreach(list, i, entry) if (read_descriptor(entry, &ret->parts[i].manifest,
							       err) < 0) return -1;
	return 0;
}

static int read_parts(const char *dir, struct arena *arena, struct image_layout *l, struct err *err)
{
	_cleanup_(freep) char *path = image_blob_path(dir, l->top.digest);
	json_t *j;
	int r;

	if (!str_eq(l->top.media_type, IMAGE_INDEX_TYPE)) {
		l->n_parts = 1;
		l->parts = arena_alloc(arena, sizeof(*l->parts));
		l->parts[0].manifest = l->top;
		return 0;
	}
	if (json_read_file(path, DOCUMENT_MAX, &j, err) < 0)
		return -1;
	r = read_index(j, arena, l, err);
	json_decref(j);
	return r < 0 ? err_wrap(err, "%s", path) : 0;
}

int image_layout_read(const char *dir, struct arena *arena, struct image_layout *ret,
		      struct err *err)
{
	_cleanup_(freep) char *index_path = fs_join(dir, "index.json");
	struct image_layout l = { .n_parts = 0 };
	json_t *j;
	int r;

	if (json_read_file(index_path, DOCUMENT_MAX, &j, err) < 0)
		return -1;
	r = read_only_one(j, "manifests", &l.top, err);
	json_decref(j);
	if (r < 0)
		return err_wrap(err, "%s", index_path);
	if (read_parts(dir, arena, &l, err) < 0)
		return -1;
	for (size_t i = 0; i < l.n_parts; i++)
		if (read_part(dir, arena, &l.parts[i], err) < 0)
			return -1;
	*ret = l;
	return 0;
}

/* One tar. */

static int to_fd(void *arg, const void *bytes, size_t n, struct err *err)
{
	return fs_write_all(*(int *)arg, bytes, n, err);
}

static const char *hex_of(const struct image_blob *b)
{
	return b->digest + strlen("sha256:");
}

static int by_digest(const void *a, const void *b)
{
	return strcmp(((const struct image_blob *)a)->digest,
		      ((const struct image_blob *)b)->digest);
}

static int add_blobs(struct tar_writer *w, const char *dir, const struct image_layout *l,
		     struct arena *arena, struct err *err)
{
	struct image_blob *all;
	size_t n = 1, at = 0;
	int r = 0;

	for (size_t i = 0; i < l->n_parts; i++)
		n += l->parts[i].n_blobs + 1;
	all = arena_alloc(arena, n * sizeof(*all));
	all[at++] = l->top;
	for (size_t i = 0; i < l->n_parts; i++) {
		const struct image_part *p = &l->parts[i];

		all[at++] = p->manifest;
		memcpy(&all[at], p->blobs, p->n_blobs * sizeof(*all));
		at += p->n_blobs;
	}
	qsort(all, n, sizeof(*all), by_digest);
	for (size_t i = 0; i < n && r == 0; i++) {
		_cleanup_(freep) char *source = image_blob_path(dir, all[i].digest),
				      *path = xasprintf("blobs/sha256/%s", hex_of(&all[i]));

		if (i == 0 || by_digest(&all[i - 1], &all[i]) != 0)
			r = tar_add_file(w, path, 0644, source, err);
	}
	return r;
}

/* What `docker load` reads: Docker Image Specification v1.2, "Combined Image JSON + Filesystem
 * Changeset Format". */
static int add_docker_manifest(struct tar_writer *w, const struct image_part *p, const char *ref,
			       struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	json_t *layers = json_array(), *j;

	for (size_t i = 1; i < p->n_blobs; i++)
		json_array_append_new(layers,
				      json_sprintf("blobs/sha256/%s", hex_of(&p->blobs[i])));
	j = json_pack("[{s:o, s:o, s:o}]", "Config",
		      json_sprintf("blobs/sha256/%s", hex_of(&p->blobs[0])), "RepoTags",
		      ref ? json_pack("[s]", ref) : json_array(), "Layers", layers);
	json_add_canonical(&text, j);
	json_decref(j);
	return tar_add_bytes(w, "manifest.json", 0644, text.s, text.len, err);
}

int image_tar_write(const char *layout_dir, const char *ref, int fd, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(freep) char *index = fs_join(layout_dir, "index.json"),
			      *version = fs_join(layout_dir, "oci-layout");
	struct tar_writer w = { to_fd, &fd };
	struct image_layout l;

	if (image_layout_read(layout_dir, arena, &l, err) < 0 ||
	    tar_add_dir(&w, "blobs", 0755, err) < 0 ||
	    tar_add_dir(&w, "blobs/sha256", 0755, err) < 0 ||
	    add_blobs(&w, layout_dir, &l, arena, err) < 0 ||
	    tar_add_file(&w, "index.json", 0644, index, err) < 0 ||
	    add_docker_manifest(&w, &l.parts[0], ref, err) < 0 ||
	    tar_add_file(&w, "oci-layout", 0644, version, err) < 0)
		return -1;
	return tar_end(&w, err);
}
