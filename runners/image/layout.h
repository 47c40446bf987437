/* runners/image/layout.h — makes Cairn's own image from files of this machine, without Docker. The
 * same files give the same bytes.
 *
 * The image has one layer: a tar in canonical form (sorted names, owner 0, times 0, extended
 * headers for long names only), compressed by gzip in a fixed form. Config and manifest are
 * canonical JSON. Sources: OCI Image Specification 1.1, image-layout, layer, config; Docker Image
 * Specification v1.2 for the tar that `docker load` and `ctr images import` read.
 */
#ifndef CAIRN_RUNNERS_IMAGE_LAYOUT_H
#define CAIRN_RUNNERS_IMAGE_LAYOUT_H

#include "base/err.h"
#include "base/mem.h"

/* A file of the image. */
struct image_file {
	const char *path; /* in the image, without the leading slash */
	/* On this machine; NULL: a file that holds `text`, a link to `target`, or else a directory.
	 */
	const char *source;
	const char *target, *text;
	size_t text_bytes; /* of `text`; 0: up to its NUL */
	unsigned mode;
};
struct image_config {
	const char *architecture;               /* "amd64" */
	const char *const *entrypoint;          /* NULL-terminated */
	const char *user;                       /* "10001:10001" */
	const char *const *env, *const *labels; /* "name=value", NULL-terminated */
};

/* What to put into the image. programs and targets: `n` files of this machine and their places in
 * the image ("usr/bin/cairn"); at least one. */
struct image_request {
	const char *const *programs, *const *targets;
	size_t n;
	/* Libraries that the programs open by name, NULL-terminated: "libcurl.so.4"; "a|b": one of
	 * them; "?a": optional. */
	const char *const *dlopened;
	const struct image_file *others; /* what isn't a program of this machine's files */
	size_t n_others;
	const char *certificates, *zones; /* a file, a directory; NULL: their usual places */
};
struct image_content {
	struct image_file *files; /* sorted by path, no duplicates, with their directories */
	size_t n;
	const char *architecture; /* of the programs, as image configurations name it */
};
/* Lists the programs with every shared library that they need, the loader, CA certificates, time
 * zones, and what the C library needs to resolve names. Libraries are read from the ELF headers and
 * found as the dynamic loader finds them; nothing is executed. The result is in `arena`.
 * ERR_NOT_FOUND names what is missing. */
int image_files(const struct image_request *request, struct arena *arena, struct image_content *ret,
		struct err *err);

#define IMAGE_DIGEST_MAX 80 /* "sha256:" and 64 digits, with the NUL */
#define IMAGE_INDEX_TYPE "application/vnd.oci.image.index.v1+json"
#define IMAGE_PARTS_MAX  16 /* processors of one image: more than image_files() knows */

/* Writes an OCI layout below dir and gives the manifest's digest. Makes dir; ERR_EXISTS when it
 * isn't empty. ref: the image's name ("cairn:0.2.0"), or NULL. */
int image_layout_write(const char *dir, const struct image_content *content,
		       const struct image_config *c, const char *ref,
		       char ret_digest[IMAGE_DIGEST_MAX], struct err *err);
/* Makes the layout in `dir`, which image_layout_write() has written, one for several processors:
 * adds the images of the layouts `others`, made by the same version of Cairn elsewhere, and an
 * index over all, its own first. Gives the index's digest, and in `arena` the architectures in that
 * order. What is added is verified. ERR_INVALID when two are for one processor or versions differ.
 */
struct image_index {
	char digest[IMAGE_DIGEST_MAX];
	const char *architectures[IMAGE_PARTS_MAX];
	size_t n;
};
int image_layout_add(const char *dir, const char *const *others, size_t n, const char *ref,
		     struct arena *arena, struct image_index *ret, struct err *err);
/* Writes the same image to fd as one tar that `docker load` reads (of several processors, those
 * that don't know indexes take the first). */
int image_tar_write(const char *layout_dir, const char *ref, int fd, struct err *err);

/* The one image of a layout: digests and sizes of its documents and layers. It may be hostile. */
struct image_blob {
	char digest[IMAGE_DIGEST_MAX], media_type[128];
	uint64_t size;
};
struct image_part {                         /* for one processor */
	struct image_blob manifest, *blobs; /* blobs: the configuration first */
	size_t n_blobs;
};
struct image_layout {
	/* What the image's name stands for: the manifest of the only part, or an index of all. */
	struct image_blob top;
	struct image_part *parts;
	size_t n_parts; /* at least one */
};
int image_layout_read(const char *dir, struct arena *arena, struct image_layout *ret,
		      struct err *err);
char *image_blob_path(const char *dir, const char *digest); /* the caller frees */

#endif
