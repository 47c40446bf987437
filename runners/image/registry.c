/* Placeholder until the registry's client is here: everything is refused. */
#include "runners/image/registry.h"

int registry_new(const struct registry_options *o, struct registry **ret, struct err *err)
{
	return err_set(err, ERR_UNSUPPORTED, "this build can't talk to registries: write the image with --output");
}

void registry_free(struct registry *r)
{
}

int registry_push(struct registry *r, const char *layout_dir, const char *ref, char ret_digest[80], struct err *err)
{
	return err_set(err, ERR_UNSUPPORTED, "this build can't talk to registries");
}
