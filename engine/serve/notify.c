#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include "base/clock.h"
#include "base/fs.h"
#include "base/http.h"
#include "base/mail.h"
#include "base/process.h"
#include "record/facts.h"
#include "run/secret.h"
#include "serve/event.h"
#include "serve/notify.h"

#define WORKERS	     2
#define BACKOFF_NS   NS_PER_S
#define LOG_MAX	     (1 * MIB) /* of what commands print */
#define ANSWER_MAX   (64 * KIB)

struct notifier {
	struct loop *loop;
	struct pool *pool;
	struct delivery **out;
	size_t n_out, cap_out;
	struct notify_counts counts;
	bool closing;
};

/* One message to one receiver, until it is there or given up. */
struct delivery {
	struct notifier *n;
	struct project *project;
	struct arena *arena;
	enum notify_kind kind;
	const char *command, *url, *secret, *from;
	const char **to;
	size_t n_to;
	json_t *what;
	struct str body;
	char id[24];
	unsigned tries;
	struct loop_source *timer; /* the next try, or a command's time */
	struct process *process;
	/* Of one try; a worker's while it is out. */
	struct err err;
	bool again;
	int64_t wall_ns;
};

static const char *const kind_names[] = { [NOTIFY_COMMAND] = "command", [NOTIFY_WEBHOOK] = "webhook", [NOTIFY_EMAIL] = "email" };

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
	default:
		return "success";
	}
}

static int64_t wall(const struct notifier *n)
{
	struct clock *c = loop_clock(n->loop);

	return c->wall_ns(c);
}

/* --- the end of a delivery ------------------------------------------------------------------------------------------------------- */

static void delivery_free(struct delivery *d)
{
	loop_remove(d->n->loop, d->timer);
	process_free(d->process);
	json_decref(d->what);
	str_deinit(&d->body);
	arena_free(d->arena);
	free(d);
}

static void forget(struct delivery *d)
{
	struct notifier *n = d->n;

	for (size_t i = 0; i < n->n_out; i++)
		if (n->out[i] == d)
			n->out[i--] = n->out[--n->n_out];
	delivery_free(d);
}

static void begin(void *arg);

static void end_try(struct delivery *d)
{
	struct notifier *n = d->n;
	struct clock *c = loop_clock(n->loop);
	const char *schedule = json_string_value(json_object_get(d->what, "schedule"));

	if (!d->err.code) {
		n->counts.sent[d->kind]++;
		event(EVENT_INFO, "notified", "{s:s, s:s*, s:s, s:s}", "project", d->project->name, "schedule", schedule, "by", kind_names[d->kind], "delivery", d->id);
		forget(d);
	} else if (d->again && d->tries < NOTIFY_TRIES && !n->closing) {
		n->counts.retried++;
		event(EVENT_WARNING, "notify-again", "{s:s, s:s*, s:s, s:s, s:i, s:o}", "project", d->project->name, "schedule", schedule, "by", kind_names[d->kind],
		      "delivery", d->id, "try", (int)d->tries, "error", json_name(d->err.msg, strlen(d->err.msg)));
		d->timer = loop_add_timer(n->loop, c->mono_ns(c) + (BACKOFF_NS << (d->tries - 1)), begin, d);
	} else {
		n->counts.failed[d->kind]++;
		event(EVENT_ERROR, "notify-failed", "{s:s, s:s*, s:s, s:s, s:i, s:o}", "project", d->project->name, "schedule", schedule, "by", kind_names[d->kind],
		      "delivery", d->id, "tries", (int)d->tries, "error", json_name(d->err.msg, strlen(d->err.msg)));
		forget(d);
	}
}

/* --- webhook: on a worker ---------------------------------------------------------------------------------------------------------- */

void notify_sign(const char *secret, size_t secret_len, int64_t unix_s, const char *body, size_t n, struct str *out)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct digest mac;
	char hex[DIGEST_HEX_MAX];
	unsigned len = 0;

	str_addf(&text, "%lld.", (long long)unix_s);
	str_addn(&text, body, n);
	if (!HMAC(EVP_sha256(), secret, (int)secret_len, (const unsigned char *)text.s, text.len, mac.b, &len) || len != DIGEST_BYTES)
		abort(); /* only a libcrypto without SHA-256 */
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
	return err_set(&d->err, d->again ? ERR_IO : ERR_INVALID, "the receiver answered %ld%s", status, status >= 300 && status < 400 ? ", and redirects aren't followed" : "");
}

static void post(struct delivery *d)
{
	_cleanup_(str_deinit) struct str secret = { 0 }, signature = { 0 };
	_cleanup_(freep) char *delivery = xasprintf("Cairn-Delivery: %s", d->id);
	const char *headers[] = { "Content-Type: application/json", delivery, NULL, NULL };
	struct http_request r = { .method = "POST", .url = d->url, .headers = headers, .body = d->body.s, .body_len = d->body.len, .body_fd = -1,
				  .max_bytes = ANSWER_MAX, .timeout_ns = NOTIFY_TIMEOUT_NS };
	struct http_options o = { .stall_timeout_ns = NOTIFY_TIMEOUT_NS };
	struct http_client *c = NULL;

	if (read_secret(d, &secret, &d->err) < 0)
		return;
	if (d->secret) {
		str_add(&signature, "Cairn-Signature: ");
		notify_sign(secret.s, secret.len, d->wall_ns / NS_PER_S, d->body.s, d->body.len, &signature);
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
	secret_wipe(&secret);
}

/* --- mail: on a worker --------------------------------------------------------------------------------------------------------------- */

static const char *field(const struct delivery *d, const char *name)
{
	const char *v = json_string_value(json_object_get(d->what, name));

	return v ? v : "-";
}

static void add_mail_text(struct delivery *d, struct str *subject, struct str *body)
{
	static const char *const shown[] = { "project", "path", "schedule", "nominal", "run", "state", "hash" };
	json_t *metrics = json_object_get(d->what, "metrics"), *m;
	size_t i;

	str_addf(subject, "[cairn] %s: %s of %s", field(d, "event"), field(d, "schedule"), field(d, "project"));
	str_addf(body, "%s\n\n", field(d, "message"));
	for (i = 0; i < ARRAY_LEN(shown); i++)
		if (json_is_string(json_object_get(d->what, shown[i])))
			str_addf(body, "%s: %s\n", shown[i], field(d, shown[i]));
	json_array_foreach(metrics, i, m) {
		str_addf(body, "metric: %s, is ", json_string_value(json_object_get(m, "rule")));
		json_add_canonical(body, json_object_get(m, "value"));
		str_addc(body, '\n');
	}
	if (json_is_string(json_object_get(d->what, "run")))
		str_addf(body, "\ncairn status %s\ncairn logs -r %s\n", field(d, "run"), field(d, "run"));
}

static void mail(struct delivery *d)
{
	_cleanup_(str_deinit) struct str secret = { 0 }, subject = { 0 }, body = { 0 };
	struct mail m = { .url = d->url, .from = d->from, .to = d->to, .n_to = d->n_to, .wall_ns = d->wall_ns, .id = d->id, .timeout_ns = NOTIFY_TIMEOUT_NS };

	if (read_secret(d, &secret, &d->err) < 0)
		return;
	add_mail_text(d, &subject, &body);
	m.password = d->secret ? secret.s : NULL;
	m.subject = subject.s;
	m.body = body.s;
	if (mail_send(&m, &d->err) < 0)
		d->again = d->err.code == ERR_IO;
	secret_wipe(&secret);
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

/* --- command --------------------------------------------------------------------------------------------------------------------------- */

static void on_command_exit(void *arg, const struct process_exit *ex)
{
	struct delivery *d = arg;

	loop_remove(d->n->loop, d->timer);
	d->timer = NULL;
	if (ex->signo)
		err_set(&d->err, ERR_FAILED, "the command was ended by signal %d", ex->signo);
	else if (ex->status)
		err_set(&d->err, ERR_FAILED, "the command ended with %d; .cairn/serve/notify.log has what it printed", ex->status);
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
	static const struct { const char *variable, *field; } fields[] = {
		{ "CAIRN_EVENT", "event" }, { "CAIRN_PROJECT", "project" }, { "CAIRN_PIPELINE", "pipeline" }, { "CAIRN_PATH", "path" },
		{ "CAIRN_SCHEDULE", "schedule" }, { "CAIRN_NOMINAL", "nominal" }, { "CAIRN_RUN", "run" }, { "CAIRN_HASH", "hash" }, { "CAIRN_STATE", "state" },
		{ "CAIRN_MESSAGE", "message" },
	};
	size_t n = 0, k = 0;
	const char **v;

	while (environ[n])
		n++;
	v = arena_alloc(d->arena, (n + ARRAY_LEN(fields) + 1) * sizeof(*v));
	for (size_t i = 0; i < n; i++)
		if (!str_has_prefix(environ[i], "CAIRN_SERVE_TOKEN=") && !str_has_prefix(environ[i], "CAIRN_SECRET_"))
			v[k++] = environ[i];
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		const char *value = json_string_value(json_object_get(d->what, fields[i].field));

		v[k++] = arena_printf(d->arena, "%s=%s", fields[i].variable, value ? value : "");
	}
	return v;
}

/* The object as a file without a name: a pipe's reader could keep us waiting. */
static int body_fd(const struct delivery *d, struct err *err)
{
	int fd = memfd_create("cairn-notice", MFD_CLOEXEC);

	if (fd < 0 || fs_write_all(fd, d->body.s, d->body.len, err) < 0 || lseek(fd, 0, SEEK_SET) < 0) {
		fd_closep(&fd);
		return err_errno(err, "cannot write down what the command is told");
	}
	return fd;
}

static int log_fd(const struct delivery *d)
{
	_cleanup_(freep) char *dir = xasprintf("%s/serve", d->project->config->state_dir), *path = xasprintf("%s/notify.log", dir);
	struct stat st;
	int fd;

	if (fs_mkdir_p(dir, NULL) < 0)
		return -1;
	fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	if (fd >= 0 && fstat(fd, &st) == 0 && st.st_size > (off_t)LOG_MAX && ftruncate(fd, 0) < 0) {
		/* It grows on; nothing else can be done about it. */
	}
	return fd;
}

static int start_command(struct delivery *d, struct err *err)
{
	const char *argv[] = { "/bin/sh", "-c", d->command, NULL };
	_cleanup_(fd_closep) int in = body_fd(d, err), log = log_fd(d);
	struct process_spec spec = { .argv = argv, .env = command_env(d), .cwd = d->project->root, .stdin_fd = in, .stdout_fd = log, .stderr_fd = log };
	struct clock *c = loop_clock(d->n->loop);

	if (in < 0 || process_start(d->n->loop, &spec, on_command_exit, d, &d->process, err) < 0)
		return -1;
	d->timer = loop_add_timer(d->n->loop, c->mono_ns(c) + NOTIFY_COMMAND_NS, command_takes_too_long, d);
	return 0;
}

/* --- a try ----------------------------------------------------------------------------------------------------------------------------- */

static void begin(void *arg)
{
	struct delivery *d = arg;

	d->timer = NULL;
	d->tries++;
	d->err = (struct err){ 0 };
	d->again = false;
	d->wall_ns = wall(d->n);
	if (d->kind != NOTIFY_COMMAND)
		pool_submit(d->n->pool, on_worker, worker_done, d);
	else if (start_command(d, &d->err) < 0)
		end_try(d);
}

static json_t *notice_json(const struct notice *w, int64_t now_ns)
{
	json_t *o = json_object();

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
	json_object_set_new(o, "metrics", w->metrics ? json_incref(w->metrics) : json_array());
	json_object_set_new(o, "time", facts_time(now_ns));
	return o;
}

/* Where nobody says who writes: this program on this machine. */
static const char *sender(struct arena *arena)
{
	char host[256] = "";
	const char *address;

	gethostname(host, sizeof(host) - 1);
	address = arena_printf(arena, "cairn@%s", host);
	return mail_address_is_valid(address) ? address : "cairn@localhost";
}

static void copy_decl(struct delivery *d, const struct notify_decl *decl)
{
	d->kind = decl->kind;
	d->command = decl->command ? arena_strdup(d->arena, decl->command) : NULL;
	d->url = decl->url ? arena_strdup(d->arena, decl->url) : NULL;
	d->secret = decl->secret ? arena_strdup(d->arena, decl->secret) : NULL;
	d->from = decl->from ? arena_strdup(d->arena, decl->from) : sender(d->arena);
	d->to = arena_alloc(d->arena, (decl->n_to + 1) * sizeof(*d->to));
	for (d->n_to = 0; d->n_to < decl->n_to; d->n_to++)
		d->to[d->n_to] = arena_strdup(d->arena, decl->to[d->n_to]);
}

static void send_one(struct notifier *n, const struct notify_decl *decl, const struct notice *what)
{
	struct delivery *d;
	uint64_t rnd = 0;

	if (n->n_out >= NOTIFY_QUEUE_MAX) {
		n->counts.dropped++;
		event(EVENT_ERROR, "notify-dropped", "{s:s, s:s*, s:s}", "project", what->project->name, "schedule", what->schedule, "by", kind_names[decl->kind]);
		return;
	}
	d = xcalloc(1, sizeof(*d));
	d->n = n;
	d->project = what->project;
	d->arena = arena_new();
	copy_decl(d, decl);
	d->what = notice_json(what, wall(n));
	json_add_canonical(&d->body, d->what);
	if (getrandom(&rnd, sizeof(rnd), 0) != sizeof(rnd))
		rnd = (uint64_t)wall(n);
	snprintf(d->id, sizeof(d->id), "%016llx", (unsigned long long)rnd);
	if (n->n_out == n->cap_out) {
		n->cap_out = n->cap_out ? n->cap_out * 2 : 16;
		n->out = xreallocarray(n->out, n->cap_out, sizeof(*n->out));
	}
	n->out[n->n_out++] = d;
	begin(d);
}

void notify(struct notifier *n, const struct notify_decl *v, size_t n_v, const struct notice *what)
{
	for (size_t i = 0; i < n_v; i++)
		if (v[i].on & what->event)
			send_one(n, &v[i], what);
}

/* --- life -------------------------------------------------------------------------------------------------------------------------------- */

int notifier_new(struct loop *l, struct notifier **ret, struct err *err)
{
	struct notifier *n = xcalloc(1, sizeof(*n));

	n->loop = l;
	if (pool_new(l, WORKERS, &n->pool, err) < 0) {
		free(n);
		return -1;
	}
	*ret = n;
	return 0;
}

void notifier_free(struct notifier *n)
{
	if (!n)
		return;
	n->closing = true;
	pool_free(n->pool); /* deliveries that were on a worker end here */
	while (n->n_out)
		forget(n->out[n->n_out - 1]);
	free(n->out);
	free(n);
}

size_t notifier_pending(const struct notifier *n)
{
	return n->n_out;
}

struct notify_counts notifier_counts(const struct notifier *n)
{
	return n->counts;
}
