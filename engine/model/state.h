/* engine/model/state.h — is the project's state the caller's own?
 *
 * What lies in `.cairn` decides what is run again, what counts as done, and which secrets steps
 * get. So it is refused when somebody else could have put it there: another user (as git does with
 * repositories), a symbolic link, or whoever committed it to the repository. The user can allow
 * another one's project (base/crypto/trust.h); nothing in it can.
 */
#ifndef CAIRN_MODEL_STATE_H
#define CAIRN_MODEL_STATE_H

#include <stdbool.h>
#include "base/err.h"

/* The project at `root`, with its state in `dir`, which need not exist. `named`: the user's
 * environment names `dir`. ERR_INVALID says what to do. */
int state_check(const char *root, const char *dir, bool named, struct err *err);

#endif
