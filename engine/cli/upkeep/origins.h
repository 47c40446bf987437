/* cli/upkeep/origins.h — are inputs that runs of this project referenced still what they were? */
#ifndef CAIRN_CLI_UPKEEP_ORIGINS_H
#define CAIRN_CLI_UPKEEP_ORIGINS_H

#include "base/text/json.h"
#include "cli/cli.h"

struct store;
/* Asks their origins. Prints (unless --json) what changed, is gone or can't be reached, and a line
 * with the counts when there was anything to ask. A new object: "unchanged", "changed", "gone",
 * "unreachable": counts; "problems": [{"uri", "state", "why"}]. */
json_t *origins_check(struct cli *cli, struct store *s);

#endif
