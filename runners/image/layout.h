/* runners/image/layout.h — Cairn's own image, made of files of this machine, without Docker: the same bytes for the same files.
 *
 * One layer, a tar in canonical form (sorted names, owner 0, times 0, no extended headers but for long names) with gzip in a fixed form; config and manifest as canonical
 * JSON. Sources: OCI Image Specification 1.1, image-layout,
 * layer, config; Docker Image Specification v1.2 for the tar that `docker load` and `ctr images import` take.
 */
#ifndef CAIRN_RUNNERS_IMAGE_LAYOUT_H
#define CAIRN_RUNNERS_IMAGE_LAYOUT_H

#include "base/mem.h"
#include "base/err.h"

/* A file of the image. */
struct image_file {
	const char *path;   /* in the image, without the leading slash */
	const char *source; /* on this machine; NULL: a directory, or a link when target is given */
	const char *target;
	unsigned mode;
};
struct image_config {
	const char *architecture; /* "amd64" */
	const char *const *entrypoint; /* NULL-terminated */
	const char *user;	  /* "10001:10001" */
	const char *const *env, *const *labels; /* "name=value" */
};
/* The programs (cairn, cairn-steps, cairn-init, cairn-launch) with every shared library that they need (read from their ELF headers, found as the dynamic loader does;
 * never executed), the loader, CA certificates, time zones, and
 * what the C library needs to find names. In `arena`, sorted. ERR_NOT_FOUND names what is missing. */
int image_files(const char *const *programs, const char *const *targets, size_t n, struct arena *arena, struct image_file **ret, size_t *ret_n, struct err *err);
/* Writes an OCI layout below dir (made; ERR_EXISTS when it isn't empty) and gives the manifest's digest. */
int image_layout_write(const char *dir, const struct image_file *files, size_t n, const struct image_config *c, const char *ref, char ret_digest[80], struct err *err);
/* The same as one tar, `docker load`able: to fd. */
int image_tar_write(const char *layout_dir, const char *ref, int fd, struct err *err);

#endif
