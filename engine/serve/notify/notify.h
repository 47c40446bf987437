/* serve/notify/notify.h — notices to people and programs: a command, a webhook, a mail. Nothing
 * here ever blocks the loop or stops anything.
 *
 * A notice is one JSON object: {"delivery": ID, "event":
 * "failure"|"recovery"|"missed"|"success"|"metric", "project", "pipeline"|null, "path",
 * "schedule"|null, "nominal": TIME|null, "run"|null, "hash"|null, "state"|null, "message",
 * "metrics": [{"rule", "value", "bound"}], "time": TIME}.
 *
 * command: run by /bin/sh in the project's root, the object on standard input, its fields as
 * CAIRN_EVENT, CAIRN_PROJECT, CAIRN_PIPELINE, CAIRN_PATH, CAIRN_SCHEDULE, CAIRN_NOMINAL, CAIRN_RUN,
 * CAIRN_HASH, CAIRN_STATE, CAIRN_MESSAGE, CAIRN_DELIVERY. It has NOTIFY_COMMAND_NS.
 *
 * webhook: POST of the object. Cairn-Delivery names it (the same when it is tried again), and with
 * a secret there is Cairn-Signature: t=UNIX_SECONDS,v1=HEX, where HEX is
 * HMAC-SHA256(secret, t "." body). 2xx is success; a redirect isn't followed.
 *
 * email: through base/net/mail.h; the secret is the server's password.
 *
 * Every notice is a row of the project's database first (record/rows/notices.h), in the transaction
 * in which it happened, and is removed when its receiver has taken it: no crash and no end of the
 * server loses one. What failed in a way that may go better (no connection, 408, 429, 5xx, a
 * command that ends with 75) is tried again after 1, 2, 4 … seconds, at most NOTIFY_PAUSE_MAX_NS;
 * NOTIFY_TRIES times in all, which takes about a day. What failed for good stays as given up: it is
 * logged, counted and shown. When the server dies between the sending and the row, a receiver gets
 * a notice twice, with the same id ("delivery", Cairn-Delivery, CAIRN_DELIVERY, Message-ID).
 *
 * A row of NOTIFY_METRIC has the rules with it. Each try first checks whether one holds; where none
 * does, the row is removed and nothing is sent.
 *
 * At most NOTIFY_QUEUE_MAX are held in memory at once; the others wait in the database. Of more
 * than NOTIFY_WAITING_MAX that wait in a project the newer ones are dropped, logged and counted.
 *
 * Threads: the loop's.
 */
#ifndef CAIRN_SERVE_NOTIFY_NOTIFY_H
#define CAIRN_SERVE_NOTIFY_NOTIFY_H

#include "base/os/loop.h"
#include "base/text/json.h"
#include "serve/project/project.h"

#define NOTIFY_TRIES        105
#define NOTIFY_PAUSE_MAX_NS (900 * NS_PER_S)
#define NOTIFY_QUEUE_MAX    500
#define NOTIFY_WAITING_MAX  10000
#define NOTIFY_COMMAND_NS   (60 * NS_PER_S)
#define NOTIFY_TIMEOUT_NS   (20 * NS_PER_S)

struct notifier;
int notifier_new(struct loop *l, struct notifier **ret, struct err *err);
/* Sends what waits in the project, from now on. The project outlives the notifier. */
void notifier_add_project(struct notifier *n, struct project *p);
/* Takes up what waits in the databases and isn't ours yet: after a commit, and every few seconds
 * for what other servers left. */
void notifier_look(struct notifier *n);
/* What is under way is waited for, after at most the time that a request takes; what waits stays
 * for the next server. NULL is fine. */
void notifier_free(struct notifier *n);
size_t notifier_pending(const struct notifier *n);

struct notice {
	enum notify_event event;
	struct project *project;
	const char *pipeline, *path, *schedule; /* or NULL */
	int64_t nominal_ns;
	const char *run, *hash, *state, *message; /* or NULL */
	const char *before; /* NOTIFY_METRIC: the run that `last` means; or NULL */
};
/* Writes down a notice for every one of `v` that wants this event: in the transaction of the
 * project's database that is open, else in one of its own. They are sent from the next
 * notifier_look() on. */
int notify(struct notifier *n, const struct notify_decl *v, size_t n_v, const struct notice *what,
	   struct err *err);

struct notify_counts {
	uint64_t sent[3], failed[3]; /* by enum notify_kind */
	uint64_t retried, dropped;
	uint64_t waiting, given_up; /* rows, as of the last look */
};
struct notify_counts notifier_counts(const struct notifier *n);

/* "t=1700000000,v1=…" for tests. */
void notify_sign(const char *secret, size_t secret_len, int64_t unix_s, const char *body, size_t n,
		 struct str *out);

#endif
