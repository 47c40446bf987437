/* engine/plan/key/key.h — the key record: everything that decides a task's result, in canonical
 * bytes. Its SHA-256 is the key.
 *
 * Never made from JSON text. Layout: field "cairn-key/1", then facts sorted by (kind, name), each:
 * kind (1 byte), field name, field value; a field is a u32 little-endian length and that many
 * bytes. What isn't in it doesn't matter to the result: run id, time, host, timeout, retry, and
 * resources unless the step says `key: {resources: true}`.
 */
#ifndef CAIRN_PLAN_KEY_KEY_H
#define CAIRN_PLAN_KEY_KEY_H

#include "base/crypto/digest.h"
#include "base/text/str.h"

enum key_fact_kind {
	KEY_PROJECT_SALT = 1,
	KEY_STEP_SALT,
	KEY_SHELL,
	KEY_SCRIPT, /* the command with all values filled in */
	KEY_ENV,    /* name, value */
	KEY_SECRET, /* name only */
	KEY_PARAM,  /* name, canonical value (model/expr/value.h) */
	KEY_SEED,
	KEY_TOOL,    /* command, its output */
	KEY_OUTPUT,  /* name, path ("/" behind it for a directory) */
	KEY_METRICS, /* path */
	KEY_INPUT,   /* name, path NUL content (kind, size, digest) */
	KEY_CODE,    /* content */
	KEY_RESOURCES,
	KEY_BUILTIN,     /* name of the built-in step, its version */
	KEY_WITH,        /* setting, its canonical JSON */
	KEY_DISTRIBUTED, /* framework and number of ranks */
	KEY_IMAGE, /* where commands run in containers: "sha256:… linux/amd64"; the image's name
		      isn't in it */
	/* Installed packages of the Python environment on PATH; none: no fact (sources/packages.c).
	 */
	KEY_PACKAGES,
	KEY_SANDBOX,     /* "strict", ""; "network", none or loopback; of commands */
	KEY_VALUES,      /* path */
	KEY_APPROVE,     /* what a step with `approve` asks */
	KEY_ENVIRONMENT, /* "lock", its tool and digest; "python", its version and the machine's
			    architecture */
};

struct key_fact {
	uint8_t kind;
	const char *name;
	size_t name_len;
	const char *value;
	size_t value_len;
};

/* Add facts in any order between init and end. key_record_end() sorts them, so the order in which a
 * pipeline lists things is in no key. */
void key_record_init(struct str *record);
void key_record_add(struct str *record, enum key_fact_kind kind, const char *name,
		    const void *value, size_t n);
void key_record_add_content(struct str *record, enum key_fact_kind kind, const char *name,
			    const char *path, const struct content_id *id);
void key_record_end(struct str *record);

/* Decodes a record, which may be hostile. The facts are sorted, even if a record of an older
 * version isn't. They point into `bytes`. 0, or -1 with ERR_CORRUPT. */
int key_record_decode(const void *bytes, size_t n, struct key_fact **ret, size_t *ret_n,
		      struct err *err); /* free(*ret) */
/* <0, 0, >0: by kind, then by name. */
int key_fact_order(const struct key_fact *a, const struct key_fact *b);
/* Reads back what key_record_add_content wrote; false when malformed. */
bool key_fact_content(const struct key_fact *f, const char **ret_path, struct content_id *ret);
const char *key_fact_kind_name(uint8_t kind); /* "param", "input", … for people */

#endif
