/* engine/serve/access/audit.h — the audit log: who changed what, who signed in, who was refused.
 *
 * A file of JSON lines in the project's state, `access/audit.jsonl`, mode 0600. When it has
 * AUDIT_FILE_MAX bytes it becomes `audit.1.jsonl`, in place of the one before: so the log has the
 * newest entries, of at least that many bytes. Any thread. */
#ifndef CAIRN_SERVE_ACCESS_AUDIT_H
#define CAIRN_SERVE_ACCESS_AUDIT_H

#include "base/text/json.h"

#define AUDIT_FILE_MAX (4 * MIB)

struct audit_entry {
	const char *who, *role, *way; /* or NULL */
	const char *address, *method, *path;
	unsigned status;
};

struct audit;
/* `dir`: a project's state directory; it is made at the first entry. */
struct audit *audit_new(const char *dir);
void audit_free(struct audit *a); /* NULL is fine */
/* Never fails: what can't be written is an event of the server's log. */
void audit_add(struct audit *a, const struct audit_entry *e);
/* Entries with numbers below `before` (0: all), newest first, at most `limit`. *ret_next: `before`
 * for the next page, or 0. */
int audit_read(struct audit *a, uint64_t before, uint64_t limit, json_t **ret, uint64_t *ret_next,
	       struct err *err);

#endif
