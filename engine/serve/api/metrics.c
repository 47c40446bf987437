/* engine/serve/api/metrics.c — GET /metrics as OpenMetrics text (the OpenMetrics specification,
 * 1.0).
 *
 * A list: one family after the other, each with its type, and `# EOF` at the end. Sums over all
 * runs read every run, so their text is kept for SUMS_NS (`sums` of struct daemon).
 *
 * Invariants: all samples of a family stand together. Data that the loop owns is read from the
 * tick's copy (`seen`), under the daemon's lock.
 *
 * Threads: the pool's. Not here: counting (scheduler, notifier, web.c).
 */
#include <dirent.h>
#include <string.h>
#include <sys/resource.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "record/rows/pages.h"
#include "serve/event.h"
#include "serve/internal.h"

/* Sums read every run, so they are computed at most this often. */
#define SUMS_NS  (5 * NS_PER_S)
#define SUMS_MAX 5000 /* series a project */

static void family(struct str *out, const char *name, const char *type, const char *unit,
		   const char *help)
{
	str_addf(out, "# TYPE %s %s\n", name, type);
	if (unit)
		str_addf(out, "# UNIT %s %s\n", name, unit);
	str_addf(out, "# HELP %s %s\n", name, help);
}

/* A label is one line of UTF-8 in which only these two need an escape. */
static void add_label(struct str *out, const char *name, const char *value)
{
	_cleanup_(str_deinit) struct str plain = { 0 };

	text_add_printable(&plain, value ? value : "", value ? strlen(value) : 0);
	str_addf(out, "%s=\"", name);
	for (size_t i = 0; i < plain.len; i++) {
		if (plain.s[i] == '\\' || plain.s[i] == '"')
			str_addc(out, '\\');
		str_addc(out, plain.s[i]);
	}
	str_addc(out, '"');
}

static void add_value(struct str *out, double value)
{
	str_addc(out, ' ');
	text_add_double(out, value);
	str_addc(out, '\n');
}

static void add_gauge(struct str *out, const char *name, const char *unit, const char *help,
		      double value)
{
	family(out, name, "gauge", unit, help);
	str_add(out, name);
	add_value(out, value);
}

static void add_counter(struct str *out, const char *name, const char *unit, const char *help,
			double value)
{
	family(out, name, "counter", unit, help);
	str_addf(out, "%s_total", name);
	add_value(out, value);
}

static double seconds(int64_t ns)
{
	return (double)ns / (double)NS_PER_S;
}

/* Sums over the runs in the database. */

struct sums {
	const char *project;
	struct run_sum *v;
	size_t n;
};

static void run_labels(struct str *out, const char *name, const char *project,
		       const struct run_sum *s)
{
	str_addf(out, "%s{", name);
	add_label(out, "project", project);
	str_addc(out, ',');
	add_label(out, "pipeline", s->pipeline);
	str_addc(out, ',');
	add_label(out, "state", run_state_name(s->state));
}

static void each_run(struct str *out, const struct sums *v, size_t n, const char *name,
		     double (*value)(const struct run_sum *s))
{
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < v[i].n; k++) {
			run_labels(out, name, v[i].project, &v[i].v[k]);
			str_addc(out, '}');
			add_value(out, value(&v[i].v[k]));
		}
}

static double run_count(const struct run_sum *s)
{
	return (double)s->n;
}

static double run_seconds(const struct run_sum *s)
{
	return seconds(s->duration_ns);
}

static void add_tasks(struct str *out, const struct sums *v, size_t n)
{
	family(out, "cairn_tasks", "gauge", NULL, "Tasks of the runs on record, by result");
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < v[i].n; k++) {
			const struct run_counts *c = &v[i].v[k].counts;
			const struct {
				const char *name;
				uint64_t n;
			} results[] = { { "executed", c->executed },
					{ "hit", c->hits },
					{ "failed", c->failed },
					{ "skipped", c->skipped },
					{ "blocked", c->blocked } };

			for (size_t r = 0; r < ARRAY_LEN(results); r++) {
				run_labels(out, "cairn_tasks", v[i].project, &v[i].v[k]);
				str_addc(out, ',');
				add_label(out, "result", results[r].name);
				str_addf(out, "} %llu\n", (unsigned long long)results[r].n);
			}
		}
}

static double saved_seconds(const struct run_sum *s)
{
	return seconds(s->counts.saved_ns);
}

static void make_sums(struct daemon *d, struct str *out)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct sums *v = arena_alloc(arena, d->n_projects * sizeof(*v));

	for (size_t i = 0; i < d->n_projects; i++) {
		struct db *db;

		v[i].project = d->projects[i]->name;
		if (project_reader(d->projects[i], &db, NULL) < 0)
			continue;
		if (record_run_sums(db, SUMS_MAX, arena, &v[i].v, &v[i].n, NULL) < 0)
			v[i].n = 0;
		project_reader_return(d->projects[i], db);
	}
	family(out, "cairn_runs", "gauge", NULL, "Runs on record, by state");
	each_run(out, v, d->n_projects, "cairn_runs", run_count);
	family(out, "cairn_run_duration_seconds", "summary", "seconds",
	       "How long the runs on record took");
	for (size_t i = 0; i < d->n_projects; i++)
		for (size_t k = 0; k < v[i].n;
		     k++) { /* count and sum of one series stand together */
			struct sums one = { v[i].project, &v[i].v[k], 1 };

			each_run(out, &one, 1, "cairn_run_duration_seconds_count", run_count);
			each_run(out, &one, 1, "cairn_run_duration_seconds_sum", run_seconds);
		}
	add_tasks(out, v, d->n_projects);
	family(out, "cairn_saved_seconds", "gauge", "seconds",
	       "Time that cache hits of the runs on record had taken when they were executed");
	each_run(out, v, d->n_projects, "cairn_saved_seconds", saved_seconds);
}

static void add_sums(struct daemon *d, struct str *out)
{
	int64_t now = clock_mono_ns();
	struct str fresh = { 0 };

	pthread_mutex_lock(&d->lock);
	if (d->sums.text.len && now - d->sums.at_ns < SUMS_NS) {
		str_addn(out, d->sums.text.s, d->sums.text.len);
		pthread_mutex_unlock(&d->lock);
		return;
	}
	d->sums.at_ns = now; /* meanwhile other threads use the old text */
	pthread_mutex_unlock(&d->lock);
	make_sums(d, &fresh);
	str_addn(out, fresh.s, fresh.len);
	pthread_mutex_lock(&d->lock);
	str_deinit(&d->sums.text);
	d->sums.text = fresh;
	pthread_mutex_unlock(&d->lock);
}

/* The daemon. */

static void add_schedules(struct daemon *d, const struct daemon_seen *seen, struct str *out)
{
	const struct scheduler_counts *s = &seen->scheduler;
	const struct {
		const char *name, *help;
		uint64_t n;
	} counters[] = {
		{ "cairn_schedule_fired", "Firings that were made", s->fired },
		{ "cairn_schedule_started", "Runs that schedules began", s->started },
		{ "cairn_schedule_succeeded", "Firings that succeeded", s->succeeded },
		{ "cairn_schedule_failed", "Firings that failed", s->failed },
		{ "cairn_schedule_skipped", "Firings that an earlier one kept from starting",
		  s->skipped },
		{ "cairn_schedule_missed", "Nominal times that went by without a firing",
		  s->missed },
		{ "cairn_schedule_retried", "Runs that were begun again after a failure",
		  s->retried },
		{ "cairn_schedule_taken_up", "Firings that an earlier server had left open",
		  s->taken_up },
		{ "cairn_schedule_reloads", "Pipeline files that were loaded again", s->reloads },
		{ "cairn_schedule_reloads_broken", "Pipeline files that could not be loaded again",
		  s->reloads_broken },
	};

	for (size_t i = 0; i < ARRAY_LEN(counters); i++)
		add_counter(out, counters[i].name, NULL, counters[i].help, (double)counters[i].n);
	add_gauge(out, "cairn_schedules", NULL, "Schedules that are served", (double)s->schedules);
	add_gauge(out, "cairn_schedule_open", NULL, "Firings that wait, run or are tried again",
		  (double)s->open);
	add_gauge(out, "cairn_schedule_lateness_seconds", "seconds",
		  "How late the last due firing was handled", seconds(s->lag_ns));
	add_gauge(out, "cairn_processes_running", NULL,
		  "Runs that are going on as processes of this server",
		  (double)launches_running(d->runs.launches));
}

static void add_notifications(const struct daemon_seen *seen, struct str *out)
{
	static const char *const kinds[] = { "command", "webhook", "email" };

	family(out, "cairn_notifications", "counter", NULL, "Notifications, by receiver and end");
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		str_addf(out, "cairn_notifications_total{by=\"%s\",end=\"sent\"} %llu\n", kinds[i],
			 (unsigned long long)seen->notify.sent[i]);
		str_addf(out, "cairn_notifications_total{by=\"%s\",end=\"failed\"} %llu\n",
			 kinds[i], (unsigned long long)seen->notify.failed[i]);
	}
	add_counter(out, "cairn_notifications_retried", NULL,
		    "Tries of notifications after the first", (double)seen->notify.retried);
	add_counter(out, "cairn_notifications_dropped", NULL,
		    "Notifications that were dropped because too many waited",
		    (double)seen->notify.dropped);
	add_gauge(out, "cairn_notifications_pending", NULL, "Notifications that are being sent",
		  (double)seen->notify_pending);
	add_gauge(out, "cairn_notifications_waiting", NULL,
		  "Notifications that have not arrived yet", (double)seen->notify.waiting);
	add_gauge(out, "cairn_notifications_given_up", NULL,
		  "Notifications that were given up in the last 30 days",
		  (double)seen->notify.given_up);
}

static void add_http(struct daemon *d, struct str *out)
{
	struct web_counts c;

	web_counts(d->http.web, &c);
	family(out, "cairn_http_requests", "counter", NULL,
	       "HTTP requests that were answered, by status");
	for (size_t i = 100; i < ARRAY_LEN(c.requests); i++)
		if (c.requests[i])
			str_addf(out, "cairn_http_requests_total{code=\"%zu\"} %llu\n", i,
				 (unsigned long long)c.requests[i]);
	add_counter(out, "cairn_http_connections", NULL, "HTTP connections that were taken",
		    (double)c.connections_total);
	add_counter(out, "cairn_http_timeouts", NULL,
		    "HTTP connections that were closed for being slow", (double)c.timeouts);
	add_counter(out, "cairn_http_busy_seconds", "seconds", "Time spent in answering",
		    seconds(c.busy_ns));
	add_gauge(out, "cairn_http_connections_open", NULL, "HTTP connections that are open",
		  (double)c.connections);
	add_gauge(out, "cairn_http_streams_open", NULL, "Logs that are being streamed",
		  (double)c.streams);
}

static size_t open_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	struct dirent *e;
	size_t n = 0;

	while (d && fs_next(d, "", &e, NULL) > 0)
		n++;
	if (d)
		closedir(d);
	return n > 1 ? n - 1 : 0; /* without the one used here */
}

static double resident_bytes(void)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	const char *second;

	if (fs_read_file("/proc/self/statm", 4096, &text, NULL) < 0 ||
	    !(second = strchr(text.s, ' ')))
		return 0;
	return (double)strtoull(second, NULL, 10) * (double)sysconf(_SC_PAGESIZE);
}

static void add_process(struct daemon *d, struct str *out)
{
	struct rusage u = { 0 };
	struct rlimit files = { 0 };

	getrusage(RUSAGE_SELF, &u);
	getrlimit(RLIMIT_NOFILE, &files);
	add_counter(out, "process_cpu_seconds", "seconds", "Processor time of this process",
		    (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
			    (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6);
	add_gauge(out, "process_resident_memory_bytes", "bytes", "Resident memory",
		  resident_bytes());
	add_gauge(out, "process_open_fds", NULL, "Open descriptors", (double)open_fds());
	add_gauge(out, "process_max_fds", NULL, "Descriptors that may be open",
		  (double)files.rlim_cur);
	add_gauge(out, "process_start_time_seconds", "seconds",
		  "When this process began, Unix time", seconds(d->started_wall_ns));
}

void api_metrics_text(struct daemon *d, struct str *out)
{
	static const char *const levels[] = {
		[EVENT_ERROR] = "error", [EVENT_WARNING] = "warning", [EVENT_INFO] = "info"
	};
	struct daemon_seen seen;

	pthread_mutex_lock(&d->lock);
	seen = d->seen;
	pthread_mutex_unlock(&d->lock);
	family(out, "cairn_build", "info", NULL, "What this is");
	str_addf(out, "cairn_build_info{version=\"%s\"} 1\n", CAIRN_VERSION);
	add_sums(d, out);
	add_schedules(d, &seen, out);
	add_notifications(&seen, out);
	add_gauge(out, "cairn_loop_lag_seconds", "seconds", "How late the loop's last tick was",
		  seconds(atomic_load(&d->turn.lag_ns)));
	add_gauge(out, "cairn_loop_lag_max_seconds", "seconds",
		  "The latest tick of the last minute", seconds(atomic_load(&d->turn.lag_max_ns)));
	add_http(d, out);
	family(out, "cairn_events", "counter", NULL, "Lines of this server's log, by level");
	for (size_t i = 0; i < ARRAY_LEN(levels); i++)
		str_addf(out, "cairn_events_total{level=\"%s\"} %llu\n", levels[i],
			 (unsigned long long)event_count((enum event_level)i));
	add_process(d, out);
	str_add(out, "# EOF\n");
}
