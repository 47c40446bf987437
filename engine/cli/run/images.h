/* engine/cli/run/images.h — resolves names of images to digests, for plans whose commands run in
 * containers. */
#ifndef CAIRN_CLI_RUN_IMAGES_H
#define CAIRN_CLI_RUN_IMAGES_H

#include "model/config/config.h"
#include "plan/plan.h"

struct cli_images;
/* Asks no registry until a plan does. `c` must outlive it. */
struct cli_images *cli_images_new(const struct config *c);
void cli_images_free(struct cli_images *i); /* NULL is fine */
const struct plan_images *cli_images_plan(const struct cli_images *i);
/* The architecture part of the platform in keys: "amd64". */
const char *cli_images_arch(const struct config *c, struct arena *arena);
/* Cairn's own image by digest (config->kubernetes.image); lent. ERR_USAGE when cairn.yaml names
 * none. */
int cli_images_own(struct cli_images *i, const char **ret, struct err *err);

#endif
