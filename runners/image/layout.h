/* runners/image/layout.h — Cairn's own image, made of files of this machine, without Docker: the
 * same bytes for the same files.
 *
 * One layer, a tar in canonical form (sorted names, owner 0, times 0, no extended headers but for
 * long names) with gzip in a fixed form; config and manifest as canonical JSON. Sources: OCI Image
 * Specification 1.1, image-layout, layer, config; Docker Image Specification v1.2 for the tar that
 * `docker load` and `ctr images import` take.
 */
#ifndef CAIRN_RUNNERS_IMAGE_LAYOUT_H
#define CAIRN_RUNNERS_IMAGE_LAYOUT_H

#include "base/err.h"
#include "base/mem.h"

/* A file of the image. */
struct image_file {
	const char *path;   /* in the image, without the leading slash */
	const char *source; /* on this machine; NULL: a file of `text`, a link to `target`, or else
			       a directory */
	const char *target, *text;
	unsigned mode;
};
struct image_config {
	const char *architecture;               /* "amd64" */
	const char *const *entrypoint;          /* NULL-terminated */
	const char *user;                       /* "10001:10001" */
	const char *const *env, *const *labels; /* "name=value", NULL-terminated */
};

/* What is to be in the image. Programs and targets: `n` files of this machine and where they lie in
 * the image ("usr/bin/cairn"); at least one. */
struct image_ask {
	const char *const *programs, *const *targets;
	size_t n;
	const char *const
		*dlopened; /* libraries that the programs open by name, NULL-terminated:
			      "libcurl.so.4"; "a|b": one of them; "?a": when it is there */
	const char *certificates, *zones; /* a file, a directory; NULL: where Debian has them */
};
struct image_content {
	struct image_file *files; /* sorted by path, each once, directories too */
	size_t n;
	const char *architecture; /* that the programs are made for, in the words of image
				     configurations */
};
/* The programs with every shared library that they need (read from their ELF headers, found as the
 * dynamic loader does; never executed), the loader, CA certificates, time zones, and what the C
 * library needs to find names. In `arena`. ERR_NOT_FOUND names what is missing. */
int image_files(const struct image_ask *ask, struct arena *arena, struct image_content *ret,
		struct err *err);

#define IMAGE_DIGEST_MAX 80 /* "sha256:" and 64 digits, with the NUL */

/* Writes an OCI layout below dir (made; ERR_EXISTS when it isn't empty) and gives the manifest's
 * digest. ref: what it is to be called ("cairn:0.1.0"), or NULL. */
int image_layout_write(const char *dir, const struct image_content *content,
		       const struct image_config *c, const char *ref,
		       char ret_digest[IMAGE_DIGEST_MAX], struct err *err);
/* The same as one tar, `docker load`able: to fd. */
int image_tar_write(const char *layout_dir, const char *ref, int fd, struct err *err);

/* The one image of a layout: digests and sizes of manifest, configuration and layers. It may be
 * hostile. */
struct image_blob {
	char digest[IMAGE_DIGEST_MAX], media_type[128];
	uint64_t size;
};
struct image_layout {
	struct image_blob manifest, *blobs; /* blobs: the configuration first */
	size_t n_blobs;
};
int image_layout_read(const char *dir, struct arena *arena, struct image_layout *ret,
		      struct err *err);
char *image_blob_path(const char *dir, const char *digest); /* the caller frees */

#endif
