/* cli/past/runs.h — what `cairn runs` shares with its --server. */
#ifndef CAIRN_CLI_PAST_RUNS_H
#define CAIRN_CLI_PAST_RUNS_H

#include <stdint.h>
#include "base/err.h"

/* --since and --until: "2d": so long ago; or a date, or a time. *ret stays 0 without text. */
int runs_parse_when(const char *option, const char *text, int64_t *ret, struct err *err);

#endif
