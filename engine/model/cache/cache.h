/* engine/model/cache/cache.h — models that were parsed before, kept under the digest of what they
 * were made from.
 *
 * A file `<64 hex>.model` in the cache directory holds one encoded model, the digests of its step
 * files, and the warnings that came with it. It is a shortcut, never a source of truth: a file that
 * doesn't decode, or belongs to another version of cairn, is ignored, and failing to write one is
 * no error. The newest MODEL_CACHE_FILES files are kept.
 *
 * With it, `cairn plan` takes 0.50 of the processor time at 1,000 written-out steps and 0.35 at
 * 10,000, and a `cairn run` that has nothing to do takes 0.66 and 0.50. A faster reader would have
 * to save as much to replace it.
 *
 * A model decides what is executed, while people read the YAML. So models are never kept in a
 * project, which may come with a clone or a CI cache, but in a directory of the user's own to which
 * no other user may write.
 */
#ifndef CAIRN_MODEL_CACHE_CACHE_H
#define CAIRN_MODEL_CACHE_CACHE_H

#include "model/read.h"

#define MODEL_CACHE_FILES 128 /* of all of a user's projects */
#define MODEL_CACHE_FORMAT \
	19 /* increase it with every change of the encoding or of what a model means */

/* $XDG_CACHE_HOME/cairn/models, else ~/.cache/cairn/models, made with mode 0700. NULL when no such
 * directory is the caller's alone: then models are parsed each time. The caller frees. */
char *model_cache_dir(void);

struct model_cache_key {
	struct digest digest;
};
/* root: the project's, or NULL. */
void model_cache_key(const char *root, const char *display, const char *path, const char *bytes,
		     size_t len, struct model_cache_key *ret);

/* True when found: sets *ret and adds the kept warnings to `diags`. */
bool model_cache_load(const char *dir, const struct model_cache_key *key, fetch_fn fetch,
		      void *fetch_arg, struct diag_list *diags, struct pipeline **ret);
/* Also keeps the warnings in `diags`, if it holds nothing else. */
void model_cache_store(const char *dir, const struct model_cache_key *key, const struct pipeline *p,
		       fetch_fn fetch, void *fetch_arg, struct diag_list *diags);

/* codec.c: the encoding itself. Encoding is false for a model that decoding wouldn't accept (there
 * should be none). Decoded strings point into `bytes`, which must live as long as `arena`. Decoding
 * checks every length and index; it is false for anything that encoding can't have made. */
bool model_encode(const struct pipeline *p, struct str *out);
bool model_decode(const char *bytes, size_t len, struct arena *arena, struct pipeline **ret);

#endif
