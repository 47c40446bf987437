/* engine/serve/daemon.c — the daemon's life: open everything, serve, drain, end.
 *
 * daemon_run() opens what needs no lease (open_all()). Then it begins at once (daemon_begin()), or
 * when leader.c has the lease. After that the loop runs: on_tick() once a second measures its lag,
 * copies counters for other threads, looks for pipeline files and starts runs that are due. Signals
 * drain and end it. close_all() frees in the reverse order, also after a failed start.
 *
 * Pipeline files are searched again every LOOK_BEATS ticks. The schedules of a file are dropped
 * when two searches in a row miss it: a missing file may be half of an editor's rename.
 *
 * Invariants: an error at the start ends the daemon; a later one is logged, and the rest goes on.
 * `phase` only grows. Signals are blocked before the first thread starts. HTTP ends before anything
 * that handlers use.
 *
 * Threads: the loop's. Other threads read atomics, and fields under `lock`. Not here: schedules
 * (schedule/), HTTP (web/, api/), the lease (leader.c).
 */
#include <assert.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/text/json.h"
#include "base/time/clock.h"
#include "model/cache/cache.h"
#include "serve/api/content/content.h"
#include "serve/api/log.h"
#include "serve/event.h"
#include "serve/events/events.h"
#include "serve/health/health.h"
#include "serve/internal.h"
#include "serve/project/discover.h"

#define TICK_NS     NS_PER_S
#define LOOK_BEATS  10              /* how often to look for pipeline files */
#define LAG_WINDOW  60              /* ticks that lag_max covers */
#define END_WAIT_NS (30 * NS_PER_S) /* time for runs to stop */

/* Pipelines. */

static bool has_file(const found_files *list, const struct found_file *f)
{
	for (size_t i = 0; i < list->n; i++)
		if (list->v[i].project == f->project && str_eq(list->v[i].path, f->path))
			return true;
	return false;
}

static void free_files(found_files *list)
{
	for (size_t i = 0; i < list->n; i++)
		free(list->v[i].path);
	VEC_FREE(list);
}

static void look_in(struct daemon *d, size_t project, found_files *now)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct project *p = d->projects[project];
	struct err err = { 0 };
	const char **paths;
	bool whole;
	size_t n;

	whole = project_discover(p->root, true, arena, &paths, &n, &err) == 0;
	for (size_t i = 0; i < n; i++)
		VEC_PUSH(now, ((struct found_file){ project, xstrdup(paths[i]), false }));
	/* Some files couldn't be read: their entries stay as they were. */
	for (size_t i = 0; !whole && i < d->found.n; i++) {
		const struct found_file *f = &d->found.v[i];

		if (f->project == project && !has_file(now, f))
			VEC_PUSH(now,
				 ((struct found_file){ project, xstrdup(f->path), f->missed }));
	}
	if (!whole && !p->unread)
		event_err("pipelines-unread", p->root, &err);
	p->unread = !whole;
}

static void take_new(struct daemon *d, const found_files *now)
{
	for (size_t i = 0; i < now->n; i++) {
		const struct found_file *f = &now->v[i];
		struct err err = { 0 };

		if (!has_file(&d->found, f) &&
		    scheduler_add_pipeline(d->projects[f->project]->scheduled, f->path, &err) < 0)
			event_err("pipeline-failed", f->path, &err);
	}
}

static void drop_gone(struct daemon *d, found_files *now)
{
	for (size_t i = 0; i < d->found.n; i++) {
		const struct found_file *f = &d->found.v[i];

		if (has_file(now, f))
			continue;
		if (f->missed) {
			scheduler_drop_pipeline(d->projects[f->project]->scheduled, f->path);
			event(EVENT_INFO, "pipeline-gone", "{s:s}", "path", f->path);
		} else {
			VEC_PUSH(now, ((struct found_file){ f->project, xstrdup(f->path), true }));
		}
	}
}

static void daemon_find_pipelines(struct daemon *d)
{
	found_files now = { 0 };

	for (size_t i = 0; i < d->n_projects; i++) {
		for (size_t k = 0; k < d->o->n_pipelines; k++)
			VEC_PUSH(&now,
				 ((struct found_file){ i, xstrdup(d->o->pipelines[k]), false }));
		if (d->o->n_pipelines == 0)
			look_in(d, i, &now);
	}
	take_new(d, &now);
	drop_gone(d, &now);
	free_files(&d->found);
	d->found = now;
}

/* Projects. */

static int add_project(struct daemon *d, const char *dir, struct err *err)
{
	struct project *p;
	bool taken = false;

	if (project_open(dir, &p, err) < 0)
		return -1;
	for (size_t i = 0; i < d->n_projects; i++) {
		if (str_eq(d->projects[i]->root, p->root)) {
			project_free(p); /* named twice */
			return 0;
		}
		taken |= str_eq(d->projects[i]->name, p->name);
	}
	if (taken)
		project_rename(p, (unsigned)d->n_projects + 1);
	d->projects[d->n_projects++] = p;
	return 0;
}

int daemon_open_projects(struct daemon *d, struct err *err)
{
	d->projects = xcalloc(d->o->n_projects, sizeof(struct project *));
	for (size_t i = 0; i < d->o->n_projects; i++)
		if (add_project(d, d->o->projects[i], err) < 0)
			return -1;
	if (d->http.access)
		access_set_dir(d->http.access, d->projects[0]->config->state_dir);
	return d->n_projects > 1 && d->o->n_pipelines
		       ? err_set(err, ERR_USAGE, "--pipeline goes with one project; %zu are served",
				 d->n_projects)
		       : 0;
}

static int schedule_projects(struct daemon *d, struct err *err)
{
	const struct scheduler_options o = { .max_runs = d->o->max_runs };

	if (scheduler_new(d->loop, &daemon_scheduler_ops, d, &o, &d->scheduler, err) < 0)
		return -1;
	for (size_t i = 0; i < d->n_projects; i++) {
		struct project *p = d->projects[i];
		_cleanup_(freep) char *cache = model_cache_dir();

		if (scheduler_add_project(d->scheduler, p->root, cache, p->db, p, &p->scheduled,
					  err) < 0)
			return err_wrap(err, "%s", p->root);
		scheduler_project_uses(p->scheduled, p->config->uses_dir);
		notifier_add_project(d->notifier, p);
	}
	daemon_find_pipelines(d);
	notifier_look(d->notifier);
	return 0;
}

/* HTTP. */

static int open_listeners(struct daemon *d, struct listener *v, size_t *ret_n, struct err *err)
{
	static const char *const standard[] = { DAEMON_DEFAULT_LISTEN };
	const char *const *addresses = d->o->n_listen ? d->o->listen : standard;
	size_t n = d->o->n_listen ? d->o->n_listen : 1;

	for (size_t i = 0; i < d->systemd.n_listen; i++, ++*ret_n)
		if (listener_adopt(d->systemd.listen_fds[i], &v[i], err) < 0)
			return -1;
	if (d->systemd.n_listen && !d->o->n_listen)
		return 0;
	/* systemd's sockets have their own places beside those of --listen. */
	assert(d->systemd.n_listen + n <= ARRAY_LEN(d->listeners));
	for (size_t i = 0; i < n; i++, ++*ret_n)
		if (listener_open(addresses[i], &v[*ret_n], err) < 0)
			return -1;
	return 0;
}

static int check_token(const struct daemon *d, const struct listener *v, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++)
		if (!v[i].local && !access_wants_token(d->http.access) && !d->o->access.n_proxies)
			return err_set(err, ERR_USAGE,
				       "%s can be reached from other machines: that needs a token "
				       "(`cairn serve token add NAME`, --token-file FILE, or "
				       "CAIRN_SERVE_TOKEN)",
				       v[i].text);
	return 0;
}

static int open_web(struct daemon *d, struct err *err)
{
	struct listener *v = d->listeners;
	struct web_options o = { .listeners = v,
				 .tls_cert = d->o->tls_cert,
				 .tls_key = d->o->tls_key,
				 .route = api_route,
				 .handle = api_handle,
				 .arg = d };
	int r = open_listeners(d, v, &o.n_listeners, err);

	if (r == 0)
		r = check_token(d, v, o.n_listeners, err);
	for (size_t i = 0; r == 0 && i < o.n_listeners; i++)
		event(EVENT_INFO, "listening", "{s:s}", "address", v[i].text);
	if (r == 0) {
		d->http.views = api_views_new();
		d->http.log_indexes = api_log_indexes_new();
		d->http.listings = api_listings_new();
		d->http.answers = api_kept_answers_new();
	}
	if (r == 0)
		r = health_new(d, &d->http.health, err);
	d->http.events = events_new(d);
	if (r == 0)
		r = web_new(d->loop, &o, &d->http.web, err);
	for (size_t i = 0; r < 0 && i < o.n_listeners; i++)
		listener_close(&v[i]);
	return r;
}

/* The end. */

static void end_if_idle(struct daemon *d)
{
	if (atomic_load(&d->phase) >= DAEMON_DRAINING && launches_running(d->runs.launches) == 0)
		loop_stop(d->loop);
}

static void leave_them(void *arg)
{
	struct daemon *d = arg;

	d->drain.timer = NULL;
	event(EVENT_WARNING, "left-running", "{s:i}", "runs",
	      (int)launches_running(d->runs.launches));
	loop_stop(d->loop);
}

static void ask_to_stop(void *arg)
{
	struct daemon *d = arg;

	event(EVENT_WARNING, "stopping-runs", "{s:i, s:s}", "runs",
	      (int)launches_running(d->runs.launches), "hint", "cairn resume goes on with them");
	launches_stop_all(d->runs.launches);
	d->drain.timer = loop_add_timer(d->loop, daemon_mono_ns(d) + END_WAIT_NS, leave_them, d);
}

static void drain(struct daemon *d)
{
	atomic_store(&d->phase, DAEMON_DRAINING);
	sdnotify_stopping(&d->systemd);
	if (d->scheduler)
		scheduler_drain(d->scheduler);
	leader_hand_over(d);
	event(EVENT_INFO, "draining", "{s:i, s:I}", "runs", (int)launches_running(d->runs.launches),
	      "seconds", (json_int_t)(d->o->drain_ns / NS_PER_S));
	d->drain.timer =
		loop_add_timer(d->loop, daemon_mono_ns(d) + d->o->drain_ns, ask_to_stop, d);
	end_if_idle(d);
}

static void on_stop_signal(void *arg, int signo)
{
	struct daemon *d = arg;

	switch (d->drain.signals++) {
	case 0:
		drain(d);
		break;
	case 1:
		loop_remove(d->loop, d->drain.timer);
		ask_to_stop(d);
		end_if_idle(d);
		break;
	default:
		leave_them(d);
	}
}

/* Reload and the tick. */

static void on_reload_signal(void *arg, int signo)
{
	struct daemon *d = arg;
	int broken;

	sdnotify_reloading(&d->systemd);
	for (size_t i = 0; i < d->n_projects; i++) {
		struct err err = { 0 };

		if (project_reload(d->projects[i], &err) < 0)
			event_err("config-broken", d->projects[i]->root, &err);
	}
	if (d->http.web && web_reload(d->http.web, &(struct err){ 0 }) < 0)
		event(EVENT_ERROR, "certificate-unusable", NULL);
	daemon_find_pipelines(d);
	broken = d->scheduler ? scheduler_reload(d->scheduler) : 0;
	event(broken ? EVENT_WARNING : EVENT_INFO, "reloaded", "{s:i}", "broken", broken);
	sdnotify_ready(&d->systemd);
}

static void update_status(struct daemon *d)
{
	struct scheduler_counts c =
		d->scheduler ? scheduler_counts(d->scheduler) : (struct scheduler_counts){ 0 };
	char text[160];

	if (atomic_load(&d->phase) == DAEMON_STANDBY) {
		sdnotify_status(&d->systemd, "standing by");
		return;
	}
	snprintf(text, sizeof(text), "%llu schedules, %zu runs going on%s",
		 (unsigned long long)c.schedules, launches_running(d->runs.launches),
		 atomic_load(&d->phase) >= DAEMON_DRAINING ? ", draining" : "");
	sdnotify_status(&d->systemd, text);
}

static void on_tick(void *arg)
{
	struct daemon *d = arg;
	int64_t now = daemon_mono_ns(d), lag = MAX(now - d->tick.due_ns, 0), pause = TICK_NS;
	unsigned ticks = ++d->tick.n;

	atomic_store(&d->turn.lag_ns, lag);
	atomic_store(&d->turn.at_ns, now);
	if (ticks % LAG_WINDOW == 0 || lag > atomic_load(&d->turn.lag_max_ns))
		atomic_store(&d->turn.lag_max_ns, lag);
	pthread_mutex_lock(&d->lock);
	d->seen = (struct daemon_seen){ .notify = notifier_counts(d->notifier),
					.notify_pending = notifier_pending(d->notifier) };
	if (d->scheduler)
		d->seen.scheduler = scheduler_counts(d->scheduler);
	pthread_mutex_unlock(&d->lock);
	if (d->systemd.watchdog_ns) {
		sdnotify_watchdog(&d->systemd);
		pause = MIN(pause, MAX(d->systemd.watchdog_ns / 3, NS_PER_MS));
	}
	if (ticks % LOOK_BEATS == 0 && atomic_load(&d->phase) == DAEMON_SERVING)
		daemon_find_pipelines(d);
	served_poll(d);
	if (ticks % LOOK_BEATS == 1)
		update_status(d);
	if (atomic_load(&d->phase) == DAEMON_SERVING)
		notifier_look(d->notifier);
	end_if_idle(d);
	d->tick.due_ns = now + pause;
	d->tick.timer = loop_add_timer(d->loop, d->tick.due_ns, on_tick, d);
}

/* Start and end. */

/* Block signals before threads start, so that all threads inherit the mask. */
static int open_all(struct daemon *d, struct err *err)
{
	if (sdnotify_init(&d->systemd, err) < 0 ||
	    (!d->o->no_http && access_new(&d->o->access, &d->http.access, err) < 0) ||
	    (!d->o->lease && daemon_open_projects(d, err) < 0) ||
	    loop_new(clock_system(), &d->loop, err) < 0 ||
	    loop_add_signal(d->loop, SIGTERM, on_stop_signal, d, NULL, err) < 0 ||
	    loop_add_signal(d->loop, SIGINT, on_stop_signal, d, NULL, err) < 0 ||
	    loop_add_signal(d->loop, SIGHUP, on_reload_signal, d, NULL, err) < 0 ||
	    launches_new(d->loop, &d->runs.launches, err) < 0 ||
	    notifier_new(d->loop, &d->notifier, err) < 0)
		return -1;
	d->calls = calls_new(d->loop);
	return d->o->no_http ? 0 : open_web(d, err);
}

int daemon_begin(struct daemon *d, struct err *err)
{
	atomic_store(&d->phase, DAEMON_STARTING);
	if (schedule_projects(d, err) < 0 || served_adopt(d, err) < 0)
		return -1;
	atomic_store(&d->turn.at_ns, daemon_mono_ns(d)); /* the start may have taken long */
	atomic_store(&d->phase, DAEMON_SERVING);
	served_poll(d);
	sdnotify_ready(&d->systemd);
	if (d->o->serving && d->http.access) {
		_cleanup_(str_wipe) struct str once = { 0 };

		access_add_one_time(d->http.access, &once);
		d->o->serving(d->o->arg, d->loop, d->listeners[0].text, once.s);
	}
	event(EVENT_INFO, "serving", "{s:i, s:i, s:s}", "projects", (int)d->n_projects, "pid",
	      (int)getpid(), "version", CAIRN_VERSION);
	return 0;
}

static void close_all(struct daemon *d)
{
	atomic_store(&d->phase, DAEMON_STOPPING);
	if (d->calls)
		calls_close(d->calls);
	web_free(d->http.web);
	events_free(d->http.events);
	access_free(d->http.access);
	health_free(d->http.health);
	api_views_free(d->http.views);
	api_log_indexes_free(d->http.log_indexes);
	api_listings_free(d->http.listings);
	api_kept_answers_free(d->http.answers);
	calls_free(d->calls);
	if (d->loop) {
		leader_end(d);
		served_free(d);
		scheduler_free(d->scheduler);
		notifier_free(d->notifier);
		launches_free(d->runs.launches);
		daemon_firings_free(d);
		loop_free(d->loop);
	}
	for (size_t i = 0; i < d->n_projects; i++)
		project_free(d->projects[i]);
	free(d->projects);
	free_files(&d->found);
	sdnotify_deinit(&d->systemd);
	str_deinit(&d->sums.text);
	pthread_mutex_destroy(&d->lock);
}

int daemon_run(const struct daemon_options *o, struct err *err)
{
	struct daemon d = { .o = o,
			    .systemd = { .fd = -1 },
			    .phase = o->lease ? DAEMON_STANDBY : DAEMON_STARTING };
	int r;

	assert(o->n_projects > 0 && o->n_projects <= DAEMON_PROJECTS_MAX);
	assert(o->n_listen <= DAEMON_LISTEN_MAX);
	event_init(o->log_json, o->verbosity < 0   ? EVENT_WARNING
				: o->verbosity > 0 ? EVENT_DEBUG
						   : EVENT_INFO);
	d.started_wall_ns = clock_wall_ns();
	pthread_mutex_init(&d.lock, NULL);
	r = open_all(&d, err);
	if (r == 0)
		r = o->lease ? leader_start(&d, err) : daemon_begin(&d, err);
	if (r == 0) {
		d.tick.due_ns = daemon_mono_ns(&d);
		on_tick(&d);
		r = loop_run(d.loop, err);
		event(EVENT_INFO, "ended", NULL);
	}
	close_all(&d);
	if (r == 0 && d.failure.code) {
		*err = d.failure;
		r = -1;
	}
	return r;
}
