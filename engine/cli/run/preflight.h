/* engine/cli/run/preflight.h — what a pipeline needs and this project, or this machine, lacks. */
#ifndef CAIRN_CLI_RUN_PREFLIGHT_H
#define CAIRN_CLI_RUN_PREFLIGHT_H

#include "model/config/config.h"
#include "model/pipeline.h"

/* Adds a diagnostic for each such thing, at the step or input that needs it. An error is what fails
 * on every machine with this checkout: code, lock files, a script that the command starts with. A
 * warning is what another machine may have: data, secrets, tools, GPUs. Says nothing about a
 * cluster. */
void preflight_check(const struct config *c, const struct pipeline *p, struct diag_list *diags);

#endif
