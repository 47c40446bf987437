/* engine/serve/notify/notify.c — sends notices: rows of the outbox (record/rows/notices.h) become
 * deliveries, which are retried until they have arrived.
 *
 * notify() writes one row for each receiver, in the open transaction when there is one.
 * notifier_look() reads the rows that wait, takes over those of dead servers (own()), and makes a
 * delivery of each, at most NOTIFY_QUEUE_MAX at once. begin() starts a try, end_try() ends it.
 *
 * A delivery is the copy in memory of one row that this server owns. Its pauses use the monotonic
 * clock. The row only holds how often it was tried and, for the next server, the time of the next
 * try. After each try a transaction of its own removes or updates the row: a crash before that
 * repeats the try under the same id.
 *
 * Invariants: a row has at most one delivery here. A notice arrives at least once, and each try has
 * the same id. Secrets are read for each try, wiped after it, and are never in a row.
 *
 * Threads: the loop's; tries of webhooks and mails and the metric rules are on workers, which own
 * the delivery meanwhile; commands are processes of the loop. Not here: who is notified of what
 * (schedules.c), judging metric rules (rules.c).
 */
#include "serve/notify/notify.h"
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include "base/net/http.h"
#include "base/net/mail.h"
#include "base/os/fs.h"
#include "base/os/machine.h"
#include "base/os/process/process.h"
#include "base/time/clock.h"
#include "record/facts.h"
#include "record/rows/firings.h"
#include "record/rows/notices.h"
#include "run/task/secret.h"
#include "serve/event.h"
#include "serve/notify/rules.h"

#define WORKERS    4
#define BACKOFF_NS NS_PER_S
/* A command's exit status for a temporary failure (sysexits.h). */
#define EX_TEMPFAIL 75
#define LOG_MAX     (1 * MIB) /* of commands' output */
#define ANSWER_MAX  (64 * KIB)

struct served_project {
	struct project *project;
	uint64_t waiting, given_up;
	bool trouble; /* its database couldn't be used; logged once */
};

struct notifier {
	struct loop *loop;
	struct pool *pool;
	struct arena *arena;
	const char *server;
	VEC(struct served_project) projects;
	VEC(struct delivery *) out;
	struct notify_counts counts;
	bool closing;
};

/* One message to one receiver, until it has arrived or is given up. */
struct delivery {
	struct notifier *n;
	struct project *project;
	struct arena *arena;
	enum notify_kind kind;
	const char *command, *url, *secret, *from;
	const char **to;
	size_t n_to;
	json_t *what;
	json_t *rules; /* the row's receiver with its rules; NULL: no rules */
	struct str body;
	char id[24];
	int64_t made_ns;
	unsigned tries;
	struct loop_source *timer; /* the next try, or a command's time limit */
	struct process *process;
	/* One try; a worker owns these while it runs. */
	json_t *holding; /* rules that hold */
	struct err err;
	bool again;
	int64_t wall_ns;
};

static const char *const kind_names[] = {
	[NOTIFY_COMMAND] = "command", [NOTIFY_WEBHOOK] = "webhook", [NOTIFY_EMAIL] = "email"
};

static const char *event_name(enum notify_event e)
{
	switch (e) {
	case NOTIFY_FAILURE:
		return "failure";
	case NOTIFY_RECOVERY:
		return "recovery";
	case NOTIFY_MISSED:
		return "missed";
	case NOTIFY_METRIC:
		return "metric";
	case NOTIFY_APPROVAL:
		return "approval";
	default:
		return "success";
	}
}

static int64_t wall(const struct notifier *n)
{
	struct clock *c = loop_clock(n->loop);

	return c->wall_ns(c);
}

static struct served_project *served_by(struct notifier *n, const struct project *p)
{
	for (size_t i = 0; i < n->projects.n; i++)
		if (n->projects.v[i].project == p)
			return &n->projects.v[i];
	return NULL;
}

/* The end of a delivery. */

static void forget(struct delivery *d)
{
	struct notifier *n = d->n;

	for (size_t i = 0; i < n->out.n; i++)
		if (n->out.v[i] == d)
			n->out.v[i--] = n->out.v[--n->out.n];
	loop_remove(n->loop, d->timer);
	process_free(d->process);
	json_decref(d->what);
	json_decref(d->rules);
	json_decref(d->holding);
	str_deinit(&d->body);
	arena_free(d->arena);
	free(d);
}

static void begin(void *arg);

static int64_t pause_after(unsigned tries)
{
	return backoff_ns(BACKOFF_NS, NOTIFY_PAUSE_MAX_NS, tries);
}

/* Writes the result of a try into the row. If that fails, the row stays as it was, and the next
 * server tries once more. */
static void write_end(struct delivery *d, bool again)
{
	struct db *db = d->project->db;
	struct notice_row row = { .id = d->id,
				  .state = again ? NOTICE_WAITING : NOTICE_GIVEN_UP,
				  .tries = d->tries,
				  .message = d->err.msg };
	struct err err = { 0 };
	int r = db_begin(db, &err);

	row.next_ns = again ? wall(d->n) + pause_after(d->tries) : 0;
	row.ended_ns = again ? 0 : wall(d->n);
	if (r == 0) {
		r = d->err.code ? record_notice_update(db, &row, &err)
				: record_notice_remove(db, d->id, &err);
		r = db_finish(db, r, &err);
	}
	if (r < 0)
		event_err("notify-not-recorded", d->id, &err);
}

static void end_try(struct delivery *d)
{
	struct notifier *n = d->n;
	struct clock *c = loop_clock(n->loop);
	struct served_project *sp = served_by(n, d->project);
	const char *schedule = json_string_value(json_object_get(d->what, "schedule"));
	bool again = d->err.code && d->again && d->tries < NOTIFY_TRIES;

	write_end(d, again);
	if (!d->err.code) {
		n->counts.sent[d->kind]++;
		event(EVENT_INFO, "notified", "{s:s, s:s*, s:s, s:s}", "project", d->project->name,
		      "schedule", schedule, "by", kind_names[d->kind], "delivery", d->id);
		forget(d);
	} else if (again) {
		n->counts.retried++;
		event(EVENT_WARNING, "notify-again", "{s:s, s:s*, s:s, s:s, s:i, s:o}", "project",
		      d->project->name, "schedule", schedule, "by", kind_names[d->kind], "delivery",
		      d->id, "try", (int)d->tries, "error",
		      json_name(d->err.msg, strlen(d->err.msg)));
		d->timer = loop_add_timer(n->loop, c->mono_ns(c) + pause_after(d->tries), begin, d);
	} else {
		n->counts.failed[d->kind]++;
		if (sp)
			sp->given_up++;
		event(EVENT_ERROR, "notify-failed", "{s:s, s:s*, s:s, s:s, s:i, s:o, s:s}",
		      "project", d->project->name, "schedule", schedule, "by", kind_names[d->kind],
		      "delivery", d->id, "tries", (int)d->tries, "error",
		      json_name(d->err.msg, strlen(d->err.msg)), "hint",
		      "cairn schedule notices shows what was given up");
		forget(d);
	}
}

/* Webhook: on a worker. */

void notify_sign(const char *secret, size_t secret_len, int64_t unix_s, const char *body, size_t n,
		 struct str *out)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct digest mac;
	char hex[DIGEST_HEX_MAX];

	str_addf(&text, "%lld.", (long long)unix_s);
	str_addn(&text, body, n);
	digest_hmac(secret, secret_len, text.s, text.len, &mac);
	str_addf(out, "t=%lld,v1=%s", (long long)unix_s, digest_hex(&mac, hex));
}

static int read_secret(struct delivery *d, struct str *ret, struct err *err)
{
	str_add(ret, "");
	return d->secret ? secret_get(d->project->config, d->secret, ret, err) : 0;
}

static int judge(struct delivery *d, const struct http_request *r)
{
	long status = r->reply.status;

	if (status >= 200 && status < 300)
		return 0;
	d->again = status >= 500 || status == 429 || status == 408;
	return err_set(&d->err, d->again ? ERR_IO : ERR_INVALID, "the receiver answered %ld%s",
		       status,
		       status >= 300 && status < 400 ? ", and redirects aren't followed" : "");
}

static void post(struct delivery *d)
{
	_cleanup_(str_deinit) struct str secret = { 0 }, signature = { 0 };
	_cleanup_(freep) char *delivery = xasprintf("Cairn-Delivery: %s", d->id);
	const char *headers[] = { "Content-Type: application/json", delivery, NULL, NULL };
	struct http_request r = { .method = "POST",
				  .url = d->url,
				  .headers = headers,
				  .body = d->body.s,
				  .body_len = d->body.len,
				  .body_fd = -1,
				  .max_bytes = ANSWER_MAX,
				  .timeout_ns = NOTIFY_TIMEOUT_NS };
	struct http_options o = { .stall_timeout_ns = NOTIFY_TIMEOUT_NS };
	struct http_client *c = NULL;

	if (read_secret(d, &secret, &d->err) < 0)
		return;
	if (d->secret) {
		str_add(&signature, "Cairn-Signature: ");
		notify_sign(secret.s, secret.len, d->wall_ns / NS_PER_S, d->body.s, d->body.len,
			    &signature);
		headers[2] = signature.s;
	}
	if (http_client_new(&o, &c, &d->err) == 0) {
		if (http_do(c, &r, &d->err) == 0)
			judge(d, &r);
		else
			d->again = d->err.code == ERR_IO;
	}
	http_request_deinit(&r);
	http_client_free(c);
	str_wipe(&secret);
}

/* Mail: on a worker. */

static const char *field(const struct delivery *d, const char *name)
{
	const char *v = json_string_value(json_object_get(d->what, name));

	return v ? v : "-";
}

/* The schedule, or the pipeline of a run without one. */
static const char *about(const struct delivery *d)
{
	return field(d, json_is_string(json_object_get(d->what, "schedule")) ? "schedule"
									     : "pipeline");
}

static void add_mail_text(struct delivery *d, struct str *subject, struct str *body)
{
	static const char *const shown[] = { "project", "path",  "schedule", "nominal",
					     "run",     "state", "hash" };
	json_t *metrics = json_object_get(d->what, "metrics"), *m;
	size_t i;

	str_addf(subject, "[cairn] %s: %s of %s", field(d, "event"), about(d), field(d, "project"));
	str_addf(body, "%s\n\n", field(d, "message"));
	for (i = 0; i < ARRAY_LEN(shown); i++)
		if (json_is_string(json_object_get(d->what, shown[i])))
			str_addf(body, "%s: %s\n", shown[i], field(d, shown[i]));
	json_array_foreach(metrics, i, m)
	{
		str_addf(body, "metric: %s, is ", json_string_value(json_object_get(m, "rule")));
		json_add_canonical(body, json_object_get(m, "value"));
		str_addc(body, '\n');
	}
	if (json_is_string(json_object_get(d->what, "run")))
		str_addf(body, "\ncairn status %s\ncairn logs -r %s\n", field(d, "run"),
			 field(d, "run"));
}

static void mail(struct delivery *d)
{
	_cleanup_(str_deinit) struct str secret = { 0 }, subject = { 0 }, body = { 0 };
	struct mail m = { .url = d->url,
			  .from = d->from,
			  .to = d->to,
			  .n_to = d->n_to,
			  .wall_ns = d->wall_ns,
			  .id = d->id,
			  .timeout_ns = NOTIFY_TIMEOUT_NS };

	if (read_secret(d, &secret, &d->err) < 0)
		return;
	add_mail_text(d, &subject, &body);
	m.password = d->secret ? secret.s : NULL;
	m.subject = subject.s;
	m.body = body.s;
	if (mail_send(&m, &d->err) < 0)
		d->again = d->err.code == ERR_IO;
	str_wipe(&secret);
}

static void on_worker(void *arg)
{
	struct delivery *d = arg;

	if (d->kind == NOTIFY_WEBHOOK)
		post(d);
	else
		mail(d);
}

static void worker_done(void *arg)
{
	end_try(arg);
}

/* Command. */

static void on_command_exit(void *arg, const struct process_exit *ex)
{
	struct delivery *d = arg;

	loop_remove(d->n->loop, d->timer);
	d->timer = NULL;
	if (ex->signo)
		err_set(&d->err, ERR_FAILED, "the command was ended by signal %d", ex->signo);
	else if (ex->status)
		err_set(&d->err, ERR_FAILED,
			"the command ended with %d; .cairn/serve/notify.log has what it printed",
			ex->status);
	d->again = !ex->signo && ex->status == EX_TEMPFAIL;
	process_free(d->process);
	d->process = NULL;
	end_try(d);
}

static void command_takes_too_long(void *arg)
{
	struct delivery *d = arg;

	d->timer = NULL;
	process_signal_tree(d->process, SIGKILL);
}

static const char *const *command_env(struct delivery *d)
{
	static const struct {
		const char *variable, *field;
	} fields[] = {
		{ "CAIRN_EVENT", "event" },       { "CAIRN_PROJECT", "project" },
		{ "CAIRN_PIPELINE", "pipeline" }, { "CAIRN_PATH", "path" },
		{ "CAIRN_SCHEDULE", "schedule" }, { "CAIRN_NOMINAL", "nominal" },
		{ "CAIRN_RUN", "run" },           { "CAIRN_HASH", "hash" },
		{ "CAIRN_STATE", "state" },       { "CAIRN_MESSAGE", "message" },
		{ "CAIRN_DELIVERY", "delivery" },
	};
	size_t n = 0, k = 0;
	const char **v;

	while (environ[n])
		n++;
	v = arena_alloc(d->arena, (n + ARRAY_LEN(fields) + 1) * sizeof(*v));
	for (size_t i = 0; i < n; i++)
		if (!str_has_prefix(environ[i], "CAIRN_SERVE_TOKEN=") &&
		    !str_has_prefix(environ[i], "CAIRN_SECRET_"))
			v[k++] = environ[i];
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		const char *value = json_string_value(json_object_get(d->what, fields[i].field));

		v[k++] = arena_printf(d->arena, "%s=%s", fields[i].variable, value ? value : "");
	}
	return v;
}

/* The object as an unnamed file: a pipe's reader could make us wait. */
static int body_fd(const struct delivery *d, struct err *err)
{
	int fd = memfd_create("cairn-notice", MFD_CLOEXEC);

	if (fd < 0 || fs_write_all(fd, d->body.s, d->body.len, err) < 0 ||
	    lseek(fd, 0, SEEK_SET) < 0) {
		fd_closep(&fd);
		return err_errno(err, "cannot write the command's standard input");
	}
	return fd;
}

static int log_fd(const struct delivery *d)
{
	_cleanup_(freep) char *dir = xasprintf("%s/serve", d->project->config->state_dir),
			      *path = xasprintf("%s/notify.log", dir);
	struct stat st;
	int fd;

	if (fs_mkdir_p(dir, NULL) < 0)
		return -1;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > (off_t)LOG_MAX && ftruncate(fd, 0) < 0) {
		/* The log keeps growing; nothing else can be done. */
	}
	return fd;
}

static int start_command(struct delivery *d, struct err *err)
{
	const char *argv[] = { "/bin/sh", "-c", d->command, NULL };
	_cleanup_(fd_closep) int in = body_fd(d, err), log = log_fd(d);
	struct process_spec spec = { .argv = argv,
				     .env = command_env(d),
				     .cwd = d->project->root,
				     .stdin_fd = in,
				     .stdout_fd = log,
				     .stderr_fd = log };
	struct clock *c = loop_clock(d->n->loop);

	if (in < 0 || process_start(d->n->loop, &spec, on_command_exit, d, &d->process, err) < 0)
		return -1;
	d->timer = loop_add_timer(d->n->loop, c->mono_ns(c) + NOTIFY_COMMAND_NS,
				  command_takes_too_long, d);
	return 0;
}

/* A try. */

static void send_it(struct delivery *d)
{
	if (d->kind != NOTIFY_COMMAND)
		pool_submit(d->n->pool, on_worker, worker_done, d);
	else if (start_command(d, &d->err) < 0)
		end_try(d);
}

/* Runs on a worker. */
static void look_at_rules(void *arg)
{
	struct delivery *d = arg;
	const char *run = json_string_value(json_object_get(d->what, "run"));

	if (notify_rules_hold(d->project, d->rules, run ? run : "", &d->holding, &d->err) < 0)
		d->again = d->err.code != ERR_CORRUPT && d->err.code != ERR_TOO_LARGE;
}

static void rules_looked_at(void *arg)
{
	struct delivery *d = arg;
	json_t *first = json_array_get(d->holding, 0);

	if (d->n->closing) { /* the row stays for the next server */
		return;
	} else if (d->err.code) {
		end_try(d);
	} else if (!first) {
		write_end(d, false);
		forget(d);
	} else {
		_cleanup_(freep) char *message = xasprintf(
			"%s: %s", about(d), json_string_value(json_object_get(first, "rule")));

		json_object_set_new(d->what, "message", facts_text(message));
		json_object_set_new(d->what, "metrics", d->holding);
		d->holding = NULL;
		str_reset(&d->body);
		json_add_canonical(&d->body, d->what);
		send_it(d);
	}
}

static void begin(void *arg)
{
	struct delivery *d = arg;

	d->timer = NULL;
	d->tries++;
	d->err = (struct err){ 0 };
	d->again = false;
	d->wall_ns = wall(d->n);
	if (d->rules)
		pool_submit(d->n->pool, look_at_rules, rules_looked_at, d);
	else
		send_it(d);
}

/* Writing rows. */

static json_t *notice_json(const struct notice *w, const char *id, int64_t now_ns)
{
	json_t *o = json_object();

	json_object_set_new(o, "delivery", json_string(id));
	json_object_set_new(o, "event", json_string(event_name(w->event)));
	json_object_set_new(o, "project", json_string(w->project->name));
	json_object_set_new(o, "pipeline", facts_text(w->pipeline));
	json_object_set_new(o, "path", facts_text(w->path));
	json_object_set_new(o, "schedule", facts_text(w->schedule));
	json_object_set_new(o, "nominal", facts_time(w->nominal_ns));
	json_object_set_new(o, "run", facts_text(w->run));
	json_object_set_new(o, "hash", facts_text(w->hash));
	json_object_set_new(o, "state", facts_text(w->state));
	json_object_set_new(o, "message", facts_text(w->message));
	json_object_set_new(o, "metrics", json_array());
	json_object_set_new(o, "time", facts_time(now_ns));
	return o;
}

/* The default sender: this program on this machine. */
static const char *sender(struct arena *arena)
{
	char host[MACHINE_NAME_BYTES];
	const char *address;

	address = arena_printf(arena, "cairn@%s", machine_name(host));
	return mail_address_is_valid(address) ? address : "cairn@localhost";
}

static json_t *receiver_json(const struct notify_decl *d)
{
	json_t *o = json_object(), *to = json_array();

	json_object_set_new(o, "command", facts_text(d->command));
	json_object_set_new(o, "url", facts_text(d->url));
	json_object_set_new(o, "secret", facts_text(d->secret));
	json_object_set_new(o, "from", facts_text(d->from));
	for (size_t i = 0; i < d->n_to; i++)
		json_array_append_new(to, facts_text(d->to[i]));
	json_object_set_new(o, "to", to);
	return o;
}

static int add_one(struct notifier *n, const struct notify_decl *decl, const struct notice *what,
		   struct err *err)
{
	_cleanup_(str_deinit) struct str receiver = { 0 }, body = { 0 };
	struct served_project *sp = served_by(n, what->project);
	json_t *to = receiver_json(decl),
	       *json; /* `json` has no rules: they are for the sender only */
	int64_t now = wall(n);
	char id[24];

	if (sp && sp->waiting >= NOTIFY_WAITING_MAX) {
		json_decref(to);
		n->counts.dropped++;
		event(EVENT_ERROR, "notify-dropped", "{s:s, s:s*, s:s}", "project",
		      what->project->name, "schedule", what->schedule, "by",
		      kind_names[decl->kind]);
		return 0;
	}
	if (what->event == NOTIFY_METRIC)
		notify_rules_write(to, decl, what->before);
	/* Stays the same in retries, and is unlikely to be given twice, even by two servers. */
	snprintf(id, sizeof(id), "%016llx", (unsigned long long)random_u64());
	json = notice_json(what, id, now);
	json_add_canonical(&receiver, to);
	json_add_canonical(&body, json);
	json_decref(to);
	json_decref(json);
	return record_notice_add(what->project->db,
				 &(struct notice_row){ .id = id,
						       .kind = decl->kind,
						       .path = what->path,
						       .schedule = what->schedule,
						       .nominal_ns = what->nominal_ns,
						       .event = event_name(what->event),
						       .receiver = receiver.s,
						       .body = body.s,
						       .made_ns = now,
						       .server = n->server },
				 err);
}

static int add_all(struct notifier *n, const struct notify_decl *v, size_t n_v,
		   const struct notice *what, struct err *err)
{
	for (size_t i = 0; i < n_v; i++)
		if (v[i].on & what->event && add_one(n, &v[i], what, err) < 0)
			return -1;
	return 0;
}

int notify(struct notifier *n, const struct notify_decl *v, size_t n_v, const struct notice *what,
	   struct err *err)
{
	struct db *db = what->project->db;
	unsigned wanted = 0;

	for (size_t i = 0; i < n_v; i++)
		wanted |= v[i].on & what->event;
	if (!wanted || db_in_transaction(db))
		return wanted ? add_all(n, v, n_v, what, err) : 0;
	return db_begin(db, err) < 0 ? -1 : db_finish(db, add_all(n, v, n_v, what, err), err);
}

/* Reading rows. */

static const char *text_of(struct delivery *d, const json_t *o, const char *name)
{
	const char *s = json_string_value(json_object_get(o, name));

	return s ? arena_strdup(d->arena, s) : NULL;
}

/* False: the row has an unknown form, for example from a newer version. */
static bool read_receiver(struct delivery *d, const char *text)
{
	json_t *o = json_loads(text, 0, NULL), *to = json_object_get(o, "to");

	d->command = text_of(d, o, "command");
	d->url = text_of(d, o, "url");
	d->secret = text_of(d, o, "secret");
	d->from = text_of(d, o, "from");
	d->from = d->from ? d->from : sender(d->arena);
	d->to = arena_alloc(d->arena, (json_array_size(to) + 1) * sizeof(*d->to));
	for (size_t i = 0; i < json_array_size(to); i++)
		if (json_is_string(json_array_get(to, i)))
			d->to[d->n_to++] =
				arena_strdup(d->arena, json_string_value(json_array_get(to, i)));
	if (json_object_get(o, "rules"))
		d->rules = json_incref(o);
	json_decref(o);
	return d->kind == NOTIFY_COMMAND ? d->command != NULL : d->url != NULL;
}

static void deliver(struct notifier *n, struct project *p, const struct notice_row *row)
{
	struct delivery *d = xcalloc(1, sizeof(*d));
	struct clock *c = loop_clock(n->loop);
	int64_t pause =
		row->tries ? MIN(MAX(row->next_ns - wall(n), 0), pause_after(row->tries)) : 0;

	*d = (struct delivery){ .n = n,
				.project = p,
				.arena = arena_new(),
				.kind = (enum notify_kind)row->kind,
				.made_ns = row->made_ns,
				.tries = row->tries };
	snprintf(d->id, sizeof(d->id), "%s", row->id);
	str_add(&d->body, row->body);
	d->what = json_loads(row->body, 0, NULL);
	VEC_PUSH(&n->out, d);
	if (row->kind < 0 || row->kind >= (int)ARRAY_LEN(kind_names) || !d->what ||
	    !read_receiver(d, row->receiver)) {
		d->kind = NOTIFY_COMMAND;
		err_set(&d->err, ERR_CORRUPT, "the record of this notice can't be read");
		end_try(d);
	} else if (pause) {
		d->timer = loop_add_timer(n->loop, c->mono_ns(c) + pause, begin, d);
	} else {
		begin(d);
	}
}

/* 1: the row is ours now. 0: another server owns it. */
static int own(struct notifier *n, struct project *p, const struct notice_row *row, struct err *err)
{
	bool lives = false;

	if (str_eq(row->server, n->server))
		return 1;
	if (row->server && record_server_lives(p->db, row->server, wall(n), &lives, err) < 0)
		return -1;
	if (lives)
		return 0;
	if (db_begin(p->db, err) < 0)
		return -1;
	return db_finish(p->db, record_notice_take(p->db, row->id, row->server, n->server, err),
			 err);
}

static bool is_out(const struct notifier *n, const char *id)
{
	for (size_t i = 0; i < n->out.n; i++)
		if (str_eq(n->out.v[i]->id, id))
			return true;
	return false;
}

static int look_at(struct notifier *n, struct served_project *sp, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct project *p = sp->project;
	struct notice_row *rows;
	size_t n_rows;

	if (record_notice_count(p->db, NOTICE_WAITING, &sp->waiting, err) < 0)
		return -1;
	if (sp->waiting == 0)
		return 0;
	if (record_notices(p->db, NOTICE_WAITING, 2 * NOTIFY_QUEUE_MAX, arena, &rows, &n_rows,
			   err) < 0)
		return -1;
	for (size_t i = 0; i < n_rows && n->out.n < NOTIFY_QUEUE_MAX; i++) {
		int r = is_out(n, rows[i].id) ? 0 : own(n, p, &rows[i], err);

		if (r < 0)
			return -1;
		if (r > 0)
			deliver(n, p, &rows[i]);
	}
	return 0;
}

void notifier_look(struct notifier *n)
{
	for (size_t i = 0; i < n->projects.n && !n->closing; i++) {
		struct served_project *sp = &n->projects.v[i];
		struct err err = { 0 };

		if (look_at(n, sp, &err) == 0) {
			sp->trouble = false;
		} else if (!sp->trouble) {
			sp->trouble = true;
			event_err("notices-unreadable", sp->project->name, &err);
		}
	}
}

/* Start and end. */

int notifier_new(struct loop *l, struct notifier **ret, struct err *err)
{
	struct notifier *n = xcalloc(1, sizeof(*n));

	n->loop = l;
	if (pool_new(l, WORKERS, &n->pool, err) < 0) {
		free(n);
		return -1;
	}
	n->arena = arena_new();
	n->server = server_name_self(n->arena);
	*ret = n;
	return 0;
}

void notifier_add_project(struct notifier *n, struct project *p)
{
	struct served_project sp = { .project = p };
	struct err err = { 0 };
	int r = db_begin(p->db, &err);

	if (r == 0) {
		r = record_notice_forget(p->db, wall(n) - NOTICE_KEEP_NS, &err);
		if (r == 0)
			r = record_notice_count(p->db, NOTICE_GIVEN_UP, &sp.given_up, &err);
		r = db_finish(p->db, r, &err);
	}
	if (r < 0)
		event_err("notices-unreadable", p->name, &err);
	VEC_PUSH(&n->projects, sp);
}

void notifier_free(struct notifier *n)
{
	if (!n)
		return;
	n->closing = true;
	pool_free(n->pool); /* deliveries that were on a worker end here */
	while (n->out.n)
		forget(n->out.v[n->out.n - 1]);
	for (size_t i = 0; i < n->projects.n; i++) { /* the next server sends what waits */
		struct project *p = n->projects.v[i].project;
		struct err err = { 0 };

		if (db_begin(p->db, &err) < 0 ||
		    db_finish(p->db, record_notice_release(p->db, n->server, &err), &err) < 0)
			event_err("notices-not-released", p->name, &err);
	}
	VEC_FREE(&n->projects);
	VEC_FREE(&n->out);
	arena_free(n->arena);
	free(n);
}

size_t notifier_pending(const struct notifier *n)
{
	return n->out.n;
}

struct notify_counts notifier_counts(const struct notifier *n)
{
	struct notify_counts c = n->counts;

	for (size_t i = 0; i < n->projects.n; i++) {
		c.waiting += n->projects.v[i].waiting;
		c.given_up += n->projects.v[i].given_up;
	}
	return c;
}
