/* engine/cli/upkeep/origins.h — checks the by-reference inputs of this project's runs at their
 * origins. */
#ifndef CAIRN_CLI_UPKEEP_ORIGINS_H
#define CAIRN_CLI_UPKEEP_ORIGINS_H

#include "base/text/json.h"
#include "cli/cli.h"

struct store;
/* Prints (unless --json) what changed, is gone or can't be reached, and a line with the counts if
 * any run has inputs by reference. Returns a new object: "unchanged", "changed", "gone",
 * "unreachable": counts; "problems": [{"uri", "state", "why"}]. */
json_t *origins_check(struct cli *cli, struct store *s);

#endif
