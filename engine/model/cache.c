#include "model/cache.h"
void model_cache_key(const char *display, const char *path, const char *bytes, size_t len, struct model_cache_key *ret) {}
bool model_cache_load(const char *dir, const struct model_cache_key *key, fetch_fn fetch, void *fetch_arg, struct diag_list *diags,
		      struct pipeline **ret) { return false; }
void model_cache_store(const char *dir, const struct model_cache_key *key, const struct pipeline *p, fetch_fn fetch, void *fetch_arg,
		       struct diag_list *diags) {}
