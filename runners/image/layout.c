/* runners/image/layout.c — writes an OCI layout with one image of one layer, or one for each
 * processor.
 *
 * The order is layer, configuration, manifest, index.json, oci-layout: each document names the
 * digest of the one before. The layer is written once and hashed twice: the tar, whose digest the
 * configuration names, and the gzip stream around it. The layer's file gets its name when its
 * digest is known (write_layer()).
 *
 * image_layout_add() puts images of other processors beside it, and an index over all: index.json
 * then names the index.
 *
 * The same files give the same bytes: tar.c and canonical JSON are fixed, times are EPOCH, and zlib
 * is linked statically, so its version is this program's. image_layout_write() writes only into an
 * empty directory, and leaves its files there when it fails. files.c decides which files there are;
 * archive.c reads a layout. One thread.
 */
#include "runners/image/layout.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>
#include "base/crypto/digest.h"
#include "base/os/fs.h"
#include "base/text/json.h"
#include "runners/image/tar.h"

#define GZIP_LEVEL 6
/* zlib.h, deflateInit2: a gzip header without name and time. */
#define GZIP_WRAPPER      16
#define EPOCH             "1970-01-01T00:00:00Z"
#define OCI               "application/vnd.oci.image."
#define BUFFER            (64 * KIB)
#define VERSION_LABEL     "org.opencontainers.image.version"
#define CONFIGURATION_MAX (1 * MIB)

char *image_blob_path(const char *dir, const char *digest)
{
	assert(str_has_prefix(digest, "sha256:"));
	return xasprintf("%s/blobs/sha256/%s", dir, digest + strlen("sha256:"));
}

/* A layer. */

struct layer {
	int fd;
	z_stream z;
	struct digester *plain, *packed;
	uint64_t n_packed;
	unsigned char out[BUFFER];
};

static int drain(struct layer *l, int flush, struct err *err)
{
	int state;

	do {
		size_t n;

		l->z.next_out = l->out;
		l->z.avail_out = sizeof(l->out);
		state = deflate(&l->z, flush);
		n = sizeof(l->out) - l->z.avail_out;
		digester_update(l->packed, l->out, n);
		l->n_packed += n;
		if (n && fs_write_all(l->fd, l->out, n, err) < 0)
			return -1;
	} while (l->z.avail_out == 0 || (flush == Z_FINISH && state != Z_STREAM_END));
	return 0;
}

static int layer_write(void *arg, const void *bytes, size_t n, struct err *err)
{
	struct layer *l = arg;

	assert(n <= UINT_MAX); /* tar.c's buffer, or a small text */
	digester_update(l->plain, bytes, n);
	l->z.next_in = (unsigned char *)bytes;
	l->z.avail_in = (unsigned)n;
	return drain(l, Z_NO_FLUSH, err);
}

static int add_entry(struct tar_writer *w, const struct image_file *f, struct err *err)
{
	if (f->source)
		return tar_add_file(w, f->path, f->mode, f->source, err);
	if (f->target)
		return tar_add_link(w, f->path, f->target, err);
	if (f->text)
		return tar_add_bytes(w, f->path, f->mode, f->text,
				     f->text_bytes ? f->text_bytes : strlen(f->text), err);
	return tar_add_dir(w, f->path, f->mode, err);
}

static void blob_of(struct digester *d, uint64_t size, const char *type, struct image_blob *ret)
{
	struct digest digest;
	char hex[DIGEST_HEX_MAX];

	digester_final(d, &digest);
	*ret = (struct image_blob){ .size = size };
	snprintf(ret->digest, sizeof(ret->digest), "sha256:%s", digest_hex(&digest, hex));
	snprintf(ret->media_type, sizeof(ret->media_type), OCI "%s", type);
}

static int write_layer(const char *dir, const struct image_content *content, struct image_blob *ret,
		       char ret_diff[IMAGE_DIGEST_MAX], struct err *err)
{
	_cleanup_(freep) char *temporary = xasprintf("%s/blobs/sha256/layer", dir), *path = NULL;
	_cleanup_(freep) struct layer *l = xcalloc(1, sizeof(*l));
	struct tar_writer w = { layer_write, l };
	struct image_blob plain;
	int r = 0;

	l->fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
	if (l->fd < 0)
		return err_errno(err, "cannot make %s", temporary);
	l->plain = digester_new();
	l->packed = digester_new();
	if (deflateInit2(&l->z, GZIP_LEVEL, Z_DEFLATED, GZIP_WRAPPER + MAX_WBITS, 8,
			 Z_DEFAULT_STRATEGY) != Z_OK)
		mem_die(sizeof(*l));
	for (size_t i = 0; i < content->n && r == 0; i++)
		r = add_entry(&w, &content->files[i], err);
	if (r == 0)
		r = tar_end(&w, err);
	if (r == 0)
		r = drain(l, Z_FINISH, err);
	deflateEnd(&l->z);
	if (close(l->fd) < 0 && r == 0)
		r = err_errno(err, "cannot write %s", temporary);
	blob_of(l->plain, 0, "", &plain);
	memcpy(ret_diff, plain.digest, sizeof(plain.digest));
	blob_of(l->packed, l->n_packed, "layer.v1.tar+gzip", ret);
	digester_free(l->plain);
	digester_free(l->packed);
	path = image_blob_path(dir, ret->digest);
	if (r == 0 && rename(temporary, path) < 0)
		r = err_errno(err, "cannot make %s", path);
	return r;
}

/* Documents. */

/* Consumes the reference `j`. */
static int write_document(const char *dir, json_t *j, const char *type, struct image_blob *ret,
			  struct err *err)
{
	struct digester *d = digester_new();
	_cleanup_(str_deinit) struct str text = { 0 };
	_cleanup_(freep) char *path = NULL;

	json_add_canonical(&text, j);
	json_decref(j);
	digester_update(d, text.s, text.len);
	blob_of(d, text.len, type, ret);
	digester_free(d);
	path = image_blob_path(dir, ret->digest);
	return fs_write_atomic(path, text.s, text.len, err);
}

static json_t *string_list(const char *const *v)
{
	json_t *a = json_array();

	for (; v && *v; v++)
		json_array_append_new(a, json_string(*v));
	return a;
}

static json_t *label_map(const char *const *v)
{
	json_t *o = json_object();

	for (; v && *v; v++) {
		const char *eq = strchrnul(*v, '=');

		json_object_setn_new(o, *v, (size_t)(eq - *v), json_string(*eq ? eq + 1 : ""));
	}
	return o;
}

static json_t *configuration(const struct image_config *c, const char *diff)
{
	return json_pack(
		"{s:s, s:s, s:s, s:{s:s, s:o, s:o, s:o, s:s}, s:{s:s, s:[s]}, s:[{s:s, s:s}]}",
		"architecture", c->architecture, "os", "linux", "created", EPOCH, "config", "User",
		c->user, "Env", string_list(c->env), "Entrypoint", string_list(c->entrypoint),
		"Labels", label_map(c->labels), "WorkingDir", "/", "rootfs", "type", "layers",
		"diff_ids", diff, "history", "created", EPOCH, "created_by", "cairn image");
}

static json_t *descriptor(const struct image_blob *b)
{
	return json_pack("{s:s, s:s, s:I}", "mediaType", b->media_type, "digest", b->digest, "size",
			 (json_int_t)b->size);
}

static json_t *platform_descriptor(const struct image_blob *manifest, const char *architecture)
{
	json_t *d = descriptor(manifest);

	json_object_set_new(d, "platform",
			    json_pack("{s:s, s:s}", "architecture", architecture, "os", "linux"));
	return d;
}

/* index.json, with the reference `d`. containerd uses the whole reference as the name, the
 * specification only the tag. */
static json_t *index_of(json_t *d, const char *ref)
{
	const char *tag = ref ? strrchr(fs_basename(ref), ':') : NULL;

	if (ref)
		json_object_set_new(d, "annotations",
				    json_pack("{s:s, s:s}", "io.containerd.image.name", ref,
					      "org.opencontainers.image.ref.name",
					      tag ? tag + 1 : "latest"));
	return json_pack("{s:i, s:s, s:[o]}", "schemaVersion", 2, "mediaType", IMAGE_INDEX_TYPE,
			 "manifests", d);
}

/* The layout. */

static int make_empty(const char *dir, struct err *err)
{
	_cleanup_(freep) char *blobs = xasprintf("%s/blobs/sha256", dir);
	struct dirent *e;
	DIR *d;
	int r;

	if (fs_mkdir_p(dir, err) < 0)
		return -1;
	d = opendir(dir);
	if (!d)
		return err_errno(err, "cannot read %s", dir);
	r = fs_next(d, dir, &e, err);
	closedir(d);
	if (r < 0)
		return -1;
	return r == 0 ? fs_mkdir_p(blobs, err) : err_set(err, ERR_EXISTS, "%s is not empty", dir);
}

static int write_json(const char *dir, const char *name, json_t *j, struct err *err)
{
	_cleanup_(freep) char *path = fs_join(dir, name);
	_cleanup_(str_deinit) struct str text = { 0 };

	json_add_canonical(&text, j);
	json_decref(j);
	return fs_write_atomic(path, text.s, text.len, err);
}

int image_layout_write(const char *dir, const struct image_content *content,
		       const struct image_config *c, const char *ref,
		       char ret_digest[IMAGE_DIGEST_MAX], struct err *err)
{
	struct image_blob layer, config, manifest;
	char diff[IMAGE_DIGEST_MAX];

	if (make_empty(dir, err) < 0 || write_layer(dir, content, &layer, diff, err) < 0 ||
	    write_document(dir, configuration(c, diff), "config.v1+json", &config, err) < 0)
		return -1;
	if (write_document(dir,
			   json_pack("{s:i, s:s, s:o, s:[o]}", "schemaVersion", 2, "mediaType",
				     OCI "manifest.v1+json", "config", descriptor(&config),
				     "layers", descriptor(&layer)),
			   "manifest.v1+json", &manifest, err) < 0)
		return -1;
	if (write_json(dir, "index.json",
		       index_of(platform_descriptor(&manifest, c->architecture), ref), err) < 0 ||
	    write_json(dir, "oci-layout", json_pack("{s:s}", "imageLayoutVersion", "1.0.0"), err) <
		    0)
		return -1;
	memcpy(ret_digest, manifest.digest, sizeof(manifest.digest));
	return 0;
}

/* Several processors. */

/* What the configuration of a part says. */
static int read_configuration(const char *dir, const struct image_part *part, struct arena *arena,
			      const char **ret_architecture, const char **ret_version,
			      struct err *err)
{
	_cleanup_(freep) char *path = image_blob_path(dir, part->blobs[0].digest);
	const char *architecture;
	json_t *j, *config, *labels = NULL, *version;

	if (json_read_file(path, CONFIGURATION_MAX, &j, err) < 0)
		return -1;
	if (json_get_str(j, "architecture", &architecture, err) < 0) {
		json_decref(j);
		return err_wrap(err, "%s", path);
	}
	config = json_object_get(j, "config");
	labels = config ? json_object_get(config, "Labels") : NULL;
	version = labels ? json_object_get(labels, VERSION_LABEL) : NULL;
	*ret_architecture = arena_strdup(arena, architecture);
	*ret_version = arena_strdup(
		arena, version && json_is_string(version) ? json_string_value(version) : "");
	json_decref(j);
	return 0;
}

/* Its bytes are verified: the layout may be anybody's. */
static int copy_blob(const char *from, const char *to, const struct image_blob *b, struct err *err)
{
	_cleanup_(freep) char *source = image_blob_path(from, b->digest),
			      *path = image_blob_path(to, b->digest);
	_cleanup_(fd_closep) int in = open(source, O_RDONLY | O_CLOEXEC), out = -1;
	struct digester *d;
	struct image_blob is;
	uint64_t size = 0;
	char buf[BUFFER];
	ssize_t n = -1;

	if (in < 0)
		return err_errno(err, "cannot read %s", source);
	out = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (out < 0)
		return err_errno(err, "cannot make %s", path);
	d = digester_new();
	while (size <= b->size && (n = read(in, buf, sizeof(buf))) > 0) {
		digester_update(d, buf, (size_t)n);
		size += (uint64_t)n;
		if (fs_write_all(out, buf, (size_t)n, err) < 0) {
			digester_free(d);
			return -1;
		}
	}
	if (n < 0)
		err_errno(err, "cannot read %s", source);
	blob_of(d, size, "", &is);
	digester_free(d);
	if (n < 0)
		return -1;
	if (size != b->size || !str_eq(is.digest, b->digest))
		return err_set(err, ERR_CORRUPT, "%s is not the content that its name says",
			       source);
	return 0;
}

/* Appends the parts of the layout `from` to the index. */
static int add_parts(const char *dir, const char *from, struct arena *arena, const char **version,
		     json_t *manifests, struct image_index *ret, struct err *err)
{
	struct image_layout l;
	const char *its = NULL, *architecture = NULL;

	if (image_layout_read(from, arena, &l, err) < 0)
		return -1;
	for (size_t i = 0; i < l.n_parts; i++) {
		struct image_part *p = &l.parts[i];

		if (read_configuration(from, p, arena, &architecture, &its, err) < 0)
			return -1;
		if (!*version)
			*version = its;
		if (!str_eq(*version, its))
			return err_set(err, ERR_INVALID, "%s is version `%s` of Cairn, not %s",
				       from, its, *version);
		for (size_t j = 0; j < ret->n; j++)
			if (str_eq(ret->architectures[j], architecture))
				return err_set(err, ERR_INVALID,
					       "%s is for linux/%s, and so is another", from,
					       architecture);
		if (ret->n == IMAGE_PARTS_MAX)
			return err_set(err, ERR_TOO_LARGE, "more than %d processors",
				       IMAGE_PARTS_MAX);
		ret->architectures[ret->n++] = architecture;
		json_array_append_new(manifests, platform_descriptor(&p->manifest, architecture));
		if (str_eq(dir, from))
			continue;
		for (size_t j = 0; j < p->n_blobs; j++)
			if (copy_blob(from, dir, &p->blobs[j], err) < 0)
				return -1;
		if (copy_blob(from, dir, &p->manifest, err) < 0)
			return -1;
	}
	return 0;
}

int image_layout_add(const char *dir, const char *const *others, size_t n, const char *ref,
		     struct arena *arena, struct image_index *ret, struct err *err)
{
	json_t *manifests = json_array();
	struct image_index index = { .n = 0 };
	struct image_blob top;
	const char *version = NULL;
	int r = add_parts(dir, dir, arena, &version, manifests, &index, err);

	for (size_t i = 0; i < n && r == 0; i++)
		r = add_parts(dir, others[i], arena, &version, manifests, &index, err);
	if (r < 0) {
		json_decref(manifests);
		return -1;
	}
	if (write_document(dir,
			   json_pack("{s:i, s:s, s:o}", "schemaVersion", 2, "mediaType",
				     IMAGE_INDEX_TYPE, "manifests", manifests),
			   "index.v1+json", &top, err) < 0 ||
	    write_json(dir, "index.json", index_of(descriptor(&top), ref), err) < 0)
		return -1;
	memcpy(index.digest, top.digest, sizeof(top.digest));
	*ret = index;
	return 0;
}
