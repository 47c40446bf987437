/* engine/run/task/secret.h — values of secrets: from CAIRN_SECRET_<NAME> in the environment, else
 * from .cairn/secrets/<NAME>.
 *
 * Values are never part of a key, stored with results, or logged. The file has mode 0600 in a
 * directory of 0700. Both must belong to the caller and be no links; a file that others own, may
 * read or may change is refused. Names are those of environment variables: [A-Za-z_][A-Za-z0-9_]*,
 * at most SECRET_NAME_MAX.
 */
#ifndef CAIRN_RUN_TASK_SECRET_H
#define CAIRN_RUN_TASK_SECRET_H

#include "base/text/str.h"
#include "model/config/config.h"

#define SECRET_NAME_MAX  128
#define SECRET_VALUE_MAX (64 * KIB) /* it has to fit into an environment variable */

bool secret_name_is_valid(const char *name);
/* Whether logs can be masked: too short a value can't be (runners/redact.h). secret_set() refuses
 * it, but the environment may hold it. */
bool secret_is_maskable(const char *value, size_t len);
/* Appends the value to *ret. ERR_NOT_FOUND says which command sets it; ERR_INVALID: a wrong name, a
 * NUL in the value, or a file that others may read. */
int secret_get(const struct config *config, const char *name, struct str *ret, struct err *err);
int secret_set(const struct config *config, const char *name, const char *value, size_t len,
	       struct err *err);
/* ERR_NOT_FOUND when there is no such secret file. */
int secret_remove(const struct config *config, const char *name, struct err *err);

struct secret_entry {
	char *name;
	bool from_environment; /* it wins over a file of the same name */
};
/* Sorted by name. Free each name and the array. */
int secret_list(const struct config *config, struct secret_entry **ret, size_t *ret_n,
		struct err *err);

#endif
