/* engine/serve/notify/notify.h — notices to people and programs: a command, a webhook, a mail.
 * Nothing here ever blocks the loop or stops a run.
 *
 * A notice is one JSON object: {"delivery": ID, "event":
 * "failure"|"recovery"|"missed"|"success"|"metric"|"approval", "project", "pipeline"|null, "path",
 * "schedule"|null, "nominal": TIME|null, "run"|null, "hash"|null, "state"|null, "message",
 * "metrics": [{"rule", "value", "bound"}], "time": TIME}.
 *
 * command: run by /bin/sh in the project's root, with the object on standard input and its fields
 * as CAIRN_EVENT, CAIRN_PROJECT, CAIRN_PIPELINE, CAIRN_PATH, CAIRN_SCHEDULE, CAIRN_NOMINAL,
 * CAIRN_RUN, CAIRN_HASH, CAIRN_STATE, CAIRN_MESSAGE, CAIRN_DELIVERY. Its time limit is
 * NOTIFY_COMMAND_NS.
 *
 * webhook: POST of the object. The header Cairn-Delivery has its id (the same in every retry). With
 * a secret there is Cairn-Signature: t=UNIX_SECONDS,v1=HEX, where HEX is HMAC-SHA256(secret, t "."
 * body). 2xx is success; a redirect isn't followed.
 *
 * email: through base/net/mail.h; the secret is the server's password.
 *
 * Every notice is a row of the project's database first (record/rows/notices.h), in the transaction
 * of the change that it reports. The row is removed when the receiver has taken the notice: no
 * crash and no end of the server loses one. A failure that may be temporary (no connection, 408,
 * 429, 5xx, a command that exits with 75) is retried after 1, 2, 4 … seconds, at most
 * NOTIFY_PAUSE_MAX_NS; NOTIFY_TRIES tries in all, which takes about a day. After the last failure
 * the row stays as given up: it is logged, counted and shown. When the server dies between sending
 * and removing the row, a receiver gets a notice twice, with the same id ("delivery",
 * Cairn-Delivery, CAIRN_DELIVERY, Message-ID).
 *
 * A row of NOTIFY_METRIC includes the rules. Each try first checks whether one holds; if none does,
 * the row is removed and nothing is sent.
 *
 * At most NOTIFY_QUEUE_MAX are in memory at once; the others wait in the database. When
 * NOTIFY_WAITING_MAX wait in a project, newer ones are dropped, logged and counted.
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
/* Sends the project's waiting notices from now on. The project must outlive the notifier. */
void notifier_add_project(struct notifier *n, struct project *p);
/* Takes up waiting rows that aren't in memory yet: called after a commit, and every few seconds for
 * rows that other servers left. */
void notifier_look(struct notifier *n);
/* Waits for tries in progress, at most as long as a request takes. Waiting notices stay for the
 * next server. NULL is fine. */
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
/* Writes a notice for every entry of `v` that wants this event: in the open transaction of the
 * project's database, else in one of its own. notifier_look() then sends them. */
int notify(struct notifier *n, const struct notify_decl *v, size_t n_v, const struct notice *what,
	   struct err *err);

struct notify_counts {
	uint64_t sent[3], failed[3]; /* by enum notify_kind */
	uint64_t retried, dropped;
	uint64_t waiting, given_up; /* rows, at the last look */
};
struct notify_counts notifier_counts(const struct notifier *n);

/* "t=1700000000,v1=…" for tests. */
void notify_sign(const char *secret, size_t secret_len, int64_t unix_s, const char *body, size_t n,
		 struct str *out);

#endif
