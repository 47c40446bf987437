/* serve/notify.h — telling people and programs: a command, a webhook, a mail. Nothing here ever blocks the loop or stops anything.
 *
 * What is told is one JSON object: {"event": "failure"|"recovery"|"missed"|"success"|"metric", "project", "pipeline"|null, "path", "schedule"|null,
 * "nominal": TIME|null, "run"|null, "hash"|null, "state"|null, "message", "metrics": [{"rule", "value", "bound"}], "time": TIME}.
 *
 * command: run by /bin/sh in the project's root, the object on standard input, its fields as CAIRN_EVENT, CAIRN_PROJECT, CAIRN_PIPELINE, CAIRN_PATH,
 *	CAIRN_SCHEDULE, CAIRN_NOMINAL, CAIRN_RUN, CAIRN_HASH, CAIRN_STATE, CAIRN_MESSAGE. It has NOTIFY_COMMAND_NS.
 * webhook: POST of the object; Cairn-Delivery names it (the same when it is tried again), and with a secret
 *	Cairn-Signature: t=UNIX_SECONDS,v1=HEX, where HEX is HMAC-SHA256(secret, t "." body). 2xx is success; a redirect isn't followed.
 * email: through base/mail.h; the secret is the server's password.
 *
 * What failed in a way that may go better (no connection, 408, 429, 5xx) is tried again NOTIFY_TRIES times in all, waiting 1, 2, 4 … seconds.
 * One that failed for good is logged and counted. At most NOTIFY_QUEUE_MAX are out at once; more are dropped, logged and counted.
 * The loop's thread.
 */
#ifndef CAIRN_SERVE_NOTIFY_H
#define CAIRN_SERVE_NOTIFY_H

#include "base/json.h"
#include "base/loop.h"
#include "serve/project.h"

#define NOTIFY_TRIES	  6
#define NOTIFY_QUEUE_MAX  500
#define NOTIFY_COMMAND_NS (60 * NS_PER_S)
#define NOTIFY_TIMEOUT_NS (20 * NS_PER_S)

struct notifier;
int notifier_new(struct loop *l, struct notifier **ret, struct err *err);
/* What is out is lost, after at most the time that a request under way takes. NULL is fine. */
void notifier_free(struct notifier *n);
size_t notifier_pending(const struct notifier *n);

struct notice {
	enum notify_event event;
	struct project *project;
	const char *pipeline, *path, *schedule; /* or NULL */
	int64_t nominal_ns;
	const char *run, *hash, *state, *message; /* or NULL */
	json_t *metrics; /* array; lent; or NULL */
};
/* By every one of `v` that wants this event. Copies. */
void notify(struct notifier *n, const struct notify_decl *v, size_t n_v, const struct notice *what);

struct notify_counts {
	uint64_t sent[3], failed[3]; /* by enum notify_kind */
	uint64_t retried, dropped;
};
struct notify_counts notifier_counts(const struct notifier *n);

/* "t=1700000000,v1=…" for tests. */
void notify_sign(const char *secret, size_t secret_len, int64_t unix_s, const char *body, size_t n, struct str *out);

#endif
