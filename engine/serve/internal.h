/* engine/serve/internal.h — shared by the files of the daemon. */
#ifndef CAIRN_SERVE_INTERNAL_H
#define CAIRN_SERVE_INTERNAL_H

#include <stdatomic.h>
#include "base/mem.h"
#include "base/time/clock.h"

#include "runners/kubernetes/api/lease.h"
#include "serve/access/access.h"
#include "serve/api/openapi.h"
#include "serve/calls.h"
#include "serve/daemon.h"
#include "serve/health/sdnotify.h"
#include "serve/launch/launch.h"
#include "serve/notify/notify.h"
#include "serve/schedule/scheduler.h"
#include "serve/web/web.h"

enum daemon_phase {
	DAEMON_STANDBY,
	DAEMON_STARTING,
	DAEMON_SERVING,
	DAEMON_DRAINING,
	DAEMON_STOPPING
};

/* Counters that the tick copies for other threads once a second. */
struct daemon_seen {
	struct scheduler_counts scheduler;
	struct notify_counts notify;
	size_t notify_pending;
};

/* The processes that execute runs. */
struct daemon_runs {
	struct launches *launches;
	struct served *served;          /* a list */
	struct firing_launch **firings; /* firings with a launch that hasn't ended */
	size_t n_firings;
};

/* What answers requests, and what it keeps between them. They exist together, or not at all. */
struct daemon_http {
	struct web *web;
	struct access *access;
	struct events *events;
	struct health *health;
	struct views *views;             /* of runs (api/run/views.h) */
	struct log_indexes *log_indexes; /* (api/log.h) */
	struct listings *listings;       /* (api/content/content.h) */
	struct kept_answers *answers;
};

struct daemon_tick {
	struct loop_source *timer;
	int64_t due_ns;
	unsigned n;
};

struct daemon_drain {
	struct loop_source *timer;
	int64_t until_ns;
	unsigned signals; /* how many have asked the daemon to end */
};

/* A pipeline file that the scheduler knows. */
struct found_file {
	size_t project; /* index in daemon.projects */
	char *path;     /* relative to the project's root */
	bool missed;    /* the last search didn't find it */
};
typedef VEC(struct found_file) found_files;

/* The lease's state, as last reported. */
struct leader {
	enum kube_lease_state state;
	char holder[256], why[256];
};

/* Metrics over all runs; costly (reads every run), so cached. */
struct daemon_sums {
	struct str text;
	int64_t at_ns;
};

struct daemon_turn {
	atomic_int_least64_t lag_ns, lag_max_ns;
	atomic_int_least64_t at_ns; /* when the loop last turned, monotonic */
};

struct daemon {
	const struct daemon_options *o;
	struct loop *loop;
	struct project **projects; /* fixed before HTTP begins: any thread may read it */
	size_t n_projects;
	struct daemon_runs runs;
	struct scheduler *scheduler;
	struct notifier *notifier;
	struct calls *calls;
	struct daemon_http http;
	struct sdnotify systemd;
	struct kube_lease *lease; /* or NULL */
	struct err failure;       /* why the loop was stopped */
	int64_t started_wall_ns;
	struct daemon_tick tick;
	struct daemon_drain drain;
	found_files found;
	struct listener listeners[DAEMON_LISTEN_MAX + SDNOTIFY_LISTEN_MAX];
	pthread_mutex_t lock; /* protects the fields below */
	struct daemon_seen seen;
	struct leader leader;
	struct daemon_sums sums;
	/* Any thread. */
	atomic_int phase; /* enum daemon_phase */
	struct daemon_turn turn;
};

/* api/: runs on HTTP threads. */

/* One request, with what handlers need: the project in question and a reader of its database. */
struct api {
	struct daemon *d;
	struct web_exchange *x;
	struct project *project;
	struct db *db;
	struct arena *arena;
	json_t *body; /* object; or NULL */
};

enum api_in { API_QUERY, API_PATH };
struct api_param {
	const char *name;
	enum api_in in;
	const char *schema; /* JSON Schema, as text */
	const char *help;
};

enum api_flags {
	API_CHANGES = 1 /* for operators; without it and API_ADMIN, for viewers */,
	API_PROJECT = 2 /* concerns one project: ?project= */,
	API_DB = 4 /* reads the project's database */,
	API_HEALTH = 8,
	API_SIGNED = 16 /* for everybody: the handler checks a signature */,
	API_ADMIN = 32 /* for admins */,
	API_OPEN = 64 /* for everybody */,
	API_ASKS = 128 /* for viewers, though not a GET: it changes nothing */
};

struct api_route {
	const char *method, *path; /* "/api/v1/runs/{run}" */
	const char *id, *summary;
	unsigned flags;
	void (*handle)(struct api *a);
	const struct api_param *params; /* of the query; ends with a NULL name; or NULL */
	const char *body;               /* name of a schema in components, or NULL */
	unsigned status;                /* of success */
	const char *answer;             /* schema's name, or a media type with a '/'; NULL: none */
};

extern const struct api_route api_routes[]; /* ends with a NULL method */
extern const char api_schemas[];            /* components.schemas, as JSON text */

void api_route(void *arg, struct web_exchange *x); /* arg: struct daemon */
void api_handle(void *arg, struct web_exchange *x);
/* Answers a GET of this process itself, without a server: `d` has projects and what `web` comes
 * with. The caller asks as itself, and may read all. */
void api_ask(struct daemon *d, struct web_exchange *x);
/* Who may ask: everybody (ROLE_NONE), or those with this role. A path that isn't a GET must say it
 * by its flags, so that none is open by mistake. */
enum role api_role(const struct api_route *r);

/* Read and check a param. False: the client got a problem as answer. */
bool api_uint(struct api *a, const char *name, uint64_t min, uint64_t max, uint64_t *ret);
/* ?offset= (negative: from the end of `size` bytes) and ?bytes=, cut to what is there. */
bool api_range(struct api *a, uint64_t size, uint64_t *ret_from, uint64_t *ret_n);
/* Answers with bytes of a file. */
void api_answer_bytes(struct api *a, int fd, uint64_t from, uint64_t n, const char *type);
bool api_time(struct api *a, const char *name, int64_t *ret_ns);
bool api_bool(struct api *a, const char *name, bool *ret);
/* Whether the body has no other members than these. */
bool api_known_keys(struct api *a, const char *const *keys, size_t n);
/* The run that {run} names. */
bool api_run(struct api *a, struct run_row *ret);
/* Answers {KEY: [...], "next": CURSOR|null}; takes the list. The order behind the cursor must have
 * no ties: else rows at a page's border are lost. */
void api_answer_page(struct api *a, const char *key, json_t *list, const char *next);
const char *api_cursor(struct api *a, uint64_t next); /* a number as a cursor; 0: NULL */
/* calls_run(); false: the client got a problem as answer. */
bool api_call(struct api *a, loop_fn fn, void *arg);

/* Answers that are kept for a while (api/overview.c). */
struct kept_answers *api_kept_answers_new(void);
void api_kept_answers_free(struct kept_answers *k); /* NULL is fine */
/* Views of runs that are kept (api/run/views.h). */
struct views *api_views_new(void);
void api_views_free(struct views *vs); /* NULL is fine; no request is being handled */

#define API_LIMIT_DEFAULT 50
#define API_LIMIT_MAX     500
#define API_BYTES_MAX     (1 * MIB)
#define API_CURSOR_MAX    4611686018427387903 /* the same as in api/table.c */

#define API_HANDLER(name) void api_##name(struct api *a)
API_HANDLER(index);
API_HANDLER(projects);
API_HANDLER(healthz);
API_HANDLER(readyz);
API_HANDLER(openapi_json);
API_HANDLER(metrics);
API_HANDLER(runs);
API_HANDLER(run_one);
API_HANDLER(run_attempts);
API_HANDLER(run_tasks);
API_HANDLER(run_graph);
API_HANDLER(run_timeline);
API_HANDLER(run_task);
API_HANDLER(run_log_range);
API_HANDLER(run_log_index);
API_HANDLER(run_log_search);
API_HANDLER(run_series);
API_HANDLER(run_metrics);
API_HANDLER(run_log);
API_HANDLER(content);
API_HANDLER(content_entries);
API_HANDLER(content_bytes);
API_HANDLER(content_table);
API_HANDLER(content_shard);
API_HANDLER(lineage);
API_HANDLER(schedules);
API_HANDLER(schedule_next);
API_HANDLER(schedule_history);
API_HANDLER(schedule_trigger);
API_HANDLER(schedule_backfill);
API_HANDLER(schedule_pause);
API_HANDLER(schedule_resume);
API_HANDLER(run_start);
API_HANDLER(run_cancel);
API_HANDLER(run_resume);
API_HANDLER(run_verdict);
API_HANDLER(reproduce);
API_HANDLER(pipelines);
API_HANDLER(plan_start);
API_HANDLER(plan);
API_HANDLER(estimate_start);
API_HANDLER(estimate);
API_HANDLER(compare);
API_HANDLER(store);
API_HANDLER(cluster);
API_HANDLER(home);
API_HANDLER(schedule_calendar);
API_HANDLER(run_approve);
API_HANDLER(handover);
API_HANDLER(launch);
API_HANDLER(hook);
API_HANDLER(session);
API_HANDLER(sign_in);
API_HANDLER(sign_out);
API_HANDLER(audit);
API_HANDLER(events);
API_HANDLER(view_begin);

/* A run as /api/v1/runs has it: of one that goes on, with what its engine tells of it. Any thread.
 */
json_t *api_run_json(const struct project *p, struct db *db, const struct run_row *run,
		     struct arena *arena);

/* The answer of /api/v1/schedules, as an array; empty when the server is about to end. Any thread
 * but the loop's. */
int api_schedule_list(struct daemon *d, struct project *p, struct db *db, struct arena *arena,
		      json_t **ret, struct err *err);

/* Whether a delivery is signed with the secret and fresh, as Standard Webhooks 1.0.0 says: the
 * header `webhook-signature` has one of its signatures, "v1," and base64 of HMAC-SHA256 over
 * "ID.TIME.BODY", and the time differs from ours by at most HOOK_TOLERANCE_S. A secret that begins
 * with "whsec_" is the base64 of the key. The time that it takes says nothing of the right
 * signature. */
#define HOOK_TOLERANCE_S 300
struct hook_delivery {
	const char *id, *timestamp, *signature; /* headers; or NULL */
	const char *body;
	size_t len;
};
bool hook_verify(const struct hook_delivery *d, const char *secret, size_t secret_len,
		 int64_t wall_ns);

/* /metrics: OpenMetrics text. */
void api_metrics_text(struct daemon *d, struct str *out);

/* The rest is for the loop's thread. */

static inline int64_t daemon_mono_ns(const struct daemon *d)
{
	struct clock *c = loop_clock(d->loop);

	return c->mono_ns(c);
}

/* daemon_open_projects() needs the lease, if there is one; daemon_begin() starts serving. */
int daemon_open_projects(struct daemon *d, struct err *err);
int daemon_begin(struct daemon *d, struct err *err);

/* leader.c */
int leader_start(struct daemon *d, struct err *err);
void leader_hand_over(struct daemon *d); /* this server is about to end, and another goes on */
void leader_end(struct daemon *d);       /* when all work has stopped */

/* served.c */
#define RUNS_AT_ONCE 64 /* default of max_runs, except for schedules */
int served_adopt(struct daemon *d, struct err *err);
void served_add(struct daemon *d, struct project *p, const char *run);
void served_poll(struct daemon *d); /* starts runs that are due while there is room */
/* Cancels a run that waits for its next engine. 1: cancelled. 0: no such run. */
int served_cancel(struct daemon *d, struct project *p, const char *run, struct err *err);
void served_free(struct daemon *d);

/* schedules.c: connects scheduler, run processes and notifications. */
extern const struct scheduler_ops daemon_scheduler_ops;
void daemon_firings_free(struct daemon *d);

#endif
