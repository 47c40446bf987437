/* engine/model/state.h — checks that the project's state is the caller's own.
 *
 * The contents of `.cairn` decide what is run again, what counts as done, and which secrets steps
 * get. So the state is refused when someone else could have put it there: another user (as git
 * refuses repositories of others), a symbolic link, or a commit in the repository. The user can
 * allow another user's project (base/crypto/trust.h); no file in the project can.
 */
#ifndef CAIRN_MODEL_STATE_H
#define CAIRN_MODEL_STATE_H

#include <stdbool.h>
#include "base/err.h"

/* Checks the project at `root`, with its state in `dir`, which need not exist. `named`: an
 * environment variable names `dir`. ERR_INVALID says what to do. */
int state_check(const char *root, const char *dir, bool named, struct err *err);

#endif
