/* runners/kubernetes/api/watch.c — list and watch.
 *
 * The state is one resource version: "" means that history is lost and a new list is needed. list()
 * and run_stream() each end with the version set or lost. The thread only calls them again
 * (once()), with a pause that grows while nothing works. stream() is tried first, then list() when
 * the server refuses stream()'s query.
 *
 * During an initial list the version doesn't advance, because a watch can't continue from half a
 * list. Events are frames of one line. `frame` holds the beginning of one. After a broken stream it
 * is thrown away, because the version belongs to the last complete frame.
 *
 * on_bytes() runs on the HTTP client's thread while ours waits in kube_do(): the fields below `the
 * thread's` have one user at a time and no lock. `stop` is atomic; the lock is only for the pause.
 * The caller interprets the objects.
 */
#include "runners/kubernetes/api/watch.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/os/machine.h"
#include "base/os/thread.h"
#include "base/time/clock.h"

#define QUIET_NS       (30 * NS_PER_S)
#define RESYNC_NS      (300 * NS_PER_S)
#define WATCH_MIN_S    300
#define WORKED_NS      (20 * NS_PER_S) /* less than QUIET_NS: a silent stream is no failure */
#define BACKOFF_MIN_NS (800 * NS_PER_MS)
#define BACKOFF_MAX_NS (30 * NS_PER_S)
#define FRAME_MAX      (8 * MIB) /* enough for one object of etcd's limit, 1.5 MiB, as JSON */
/* A pod of ours has 10 kB as text and 120 kB as a tree. Pages are listed only when streams fail. */
#define PAGE 100

struct kube_watch {
	struct kube_client *client;
	struct kube_watch_options o;
	struct str path; /* without a query */
	char *selector;  /* escaped for a query, or NULL */
	pthread_t thread;
	atomic_bool stop;
	pthread_mutex_t lock;
	pthread_cond_t wake;

	/* the thread's */
	char *version; /* "": lost */
	bool streams;  /* the server can list as a stream, as far as we know */
	bool in_sync;  /* between SYNC_BEGIN and SYNC_END of a stream */
	bool refused;  /* the server doesn't support the stream's query */
	bool denied;   /* the last request was refused because of our identity */
	bool troubled;
	bool heard;        /* bytes of the stream that runs came */
	struct str frame;  /* the beginning of a frame */
	int64_t good_ns;   /* since when the stream that runs is answered; 0: not yet */
	int64_t synced_ns; /* time of the last complete list */
};

static void set_version(struct kube_watch *w, const char *v)
{
	free(w->version);
	w->version = xstrdup(v ? v : "");
}

static const char *version_of(const json_t *object)
{
	return json_string_value(
		json_object_get(json_object_get(object, "metadata"), "resourceVersion"));
}

static void tell(struct kube_watch *w, enum kube_event e, const json_t *object)
{
	if (!atomic_load(&w->stop))
		w->o.event(w->o.arg, e, object);
}

static void report_trouble(struct kube_watch *w, const struct err *err)
{
	if ((err || w->troubled) && w->o.trouble && !atomic_load(&w->stop))
		w->o.trouble(w->o.arg, err, err && w->denied);
	w->troubled = err != NULL;
}

/* A list by pages. */

static void add_query(struct kube_watch *w, struct str *path, const char *fmt, ...) _printf_(3, 4);
static void add_query(struct kube_watch *w, struct str *path, const char *fmt, ...)
{
	va_list ap;

	str_addn(path, w->path.s, w->path.len);
	str_addc(path, '?');
	va_start(ap, fmt);
	str_addv(path, fmt, ap);
	va_end(ap);
	if (w->selector)
		str_addf(path, "&%s", w->selector);
}

static void end_sync(struct kube_watch *w)
{
	w->synced_ns = clock_mono_ns();
	report_trouble(w, NULL);
	tell(w, KUBE_SYNC_END, NULL);
}

/* *token: the next page; "" at the end. 410: the rest would be of another version, so the list
 * begins again. */
static int list_page(struct kube_watch *w, char **token, struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 }, escaped = { 0 };
	struct kube_call call = { .method = "GET" };
	const json_t *meta, *items;
	const char *more;
	int r;

	str_add(&escaped, "");
	http_escape(&escaped, *token, strlen(*token), false);
	add_query(w, &path, "limit=%u%s%s", w->o.page ? w->o.page : PAGE,
		  escaped.len ? "&continue=" : "", escaped.s);
	call.path = path.s;
	r = kube_do(w->client, &call, err);
	w->denied = call.status == 401 || call.status == 403;
	if (r == 0) {
		meta = json_object_get(call.json, "metadata");
		more = json_string_value(json_object_get(meta, "continue"));
		items = json_object_get(call.json, "items");
		for (size_t i = 0; i < json_array_size(items); i++)
			if (json_is_object(json_array_get(items, i)))
				tell(w, KUBE_ADDED, json_array_get(items, i));
		set_version(w, json_string_value(json_object_get(meta, "resourceVersion")));
		if (more && *more && str_eq(more, *token))
			r = err_set(err, ERR_INVALID,
				    "Kubernetes: a list says each time that it goes on at the "
				    "same place");
		free(*token);
		*token = xstrdup(more ? more : "");
		if (r == 0 && !**token && !*w->version)
			r = err_set(err, ERR_INVALID,
				    "Kubernetes: a list without a resourceVersion");
	}
	kube_call_deinit(&call);
	return r;
}

static int list(struct kube_watch *w, struct err *err)
{
	char *token = xstrdup("");
	int r;

	tell(w, KUBE_SYNC_BEGIN, NULL);
	do
		r = list_page(w, &token, err);
	while (r == 0 && *token && !atomic_load(&w->stop));
	free(token);
	if (r < 0)
		set_version(w, NULL);
	else
		end_sync(w);
	return r;
}

/* A stream of events. */

static void take_bookmark(struct kube_watch *w, const json_t *object)
{
	const json_t *notes = json_object_get(json_object_get(object, "metadata"), "annotations");

	if (w->in_sync &&
	    str_eq(json_string_value(json_object_get(notes, "k8s.io/initial-events-end")),
		   "true")) {
		w->in_sync = false;
		end_sync(w);
	}
	/* During the initial list, a watch can't continue from here. */
	if (!w->in_sync && version_of(object))
		set_version(w, version_of(object));
}

/* An event of type ERROR holds a Status. */
static int take_error(struct kube_watch *w, const json_t *status, struct err *err)
{
	int64_t code = json_integer_value(json_object_get(status, "code"));
	const char *message = json_string_value(json_object_get(status, "message"));

	if (code == 410)
		set_version(w, NULL);
	else if (w->in_sync)
		w->refused = true;
	return err_set(err, code == 410 ? ERR_CHANGED : ERR_IO,
		       "Kubernetes: the watch ended with %lld: %.300s", (long long)code,
		       message ? message : "no reason is given");
}

static int take_event(struct kube_watch *w, const json_t *frame, struct err *err)
{
	const char *type = json_string_value(json_object_get(frame, "type"));
	const json_t *object = json_object_get(frame, "object");
	enum kube_event e;

	if (!type || !json_is_object(object))
		return err_set(err, ERR_INVALID,
			       "Kubernetes: an event without a type or an object");
	if (str_eq(type, "ERROR"))
		return take_error(w, object, err);
	w->good_ns = w->good_ns ? w->good_ns : clock_mono_ns();
	report_trouble(w, NULL); /* not at the end of the stream, which lasts minutes */
	if (str_eq(type, "BOOKMARK"))
		return take_bookmark(w, object), 0;
	if (str_eq(type, "ADDED"))
		e = KUBE_ADDED;
	else if (str_eq(type, "MODIFIED"))
		e = KUBE_MODIFIED;
	else if (str_eq(type, "DELETED"))
		e = KUBE_DELETED;
	else
		return 0; /* from a newer server */
	tell(w, e, object);
	if (!w->in_sync && version_of(object))
		set_version(w, version_of(object));
	return 0;
}

static int take_frame(struct kube_watch *w, struct err *err)
{
	json_t *j;
	int r = json_parse("a watch event of Kubernetes", w->frame.s, w->frame.len, &j, err);

	if (r < 0)
		return -1;
	r = take_event(w, j, err);
	json_decref(j);
	return r;
}

/* On the HTTP client's thread, while ours waits. */
static int on_bytes(void *arg, const void *bytes, size_t n, struct err *err)
{
	struct kube_watch *w = arg;
	const char *at = bytes, *end = at + n;

	w->heard = true;
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at)),
			   *stop = newline ? newline : end;

		if (w->frame.len + (size_t)(stop - at) > FRAME_MAX)
			return err_set(err, ERR_TOO_LARGE, "Kubernetes: an event over %llu bytes",
				       (unsigned long long)FRAME_MAX);
		str_addn(&w->frame, at, (size_t)(stop - at));
		at = newline ? newline + 1 : end;
		if (newline && w->frame.len && take_frame(w, err) < 0)
			return -1;
		if (newline)
			str_reset(&w->frame);
	}
	return 0;
}

static unsigned watch_seconds(void)
{
	return WATCH_MIN_S + (unsigned)(random_u64() % WATCH_MIN_S);
}

static int run_stream(struct kube_watch *w, const char *path, struct err *err)
{
	struct kube_call call = { .method = "GET",
				  .path = path,
				  .sink = on_bytes,
				  .arg = w,
				  .quiet_timeout_ns = w->o.quiet_ns ? w->o.quiet_ns : QUIET_NS };
	int64_t begun = clock_mono_ns();
	int r;

	str_reset(&w->frame);
	w->heard = false;
	r = kube_do(w->client, &call, err);
	w->denied = call.status == 401 || call.status == 403;
	/* Nothing happened in the cluster, which is no failure. A connection that died is found
	 * when the next request gets no answer. */
	if (!w->heard && !w->in_sync && call.status == 200)
		w->good_ns = begun;
	if (r < 0 && call.status == 410)
		set_version(w, NULL);
	w->refused |= call.status == 400 || call.status == 422;
	/* A broken stream may leave half an event. It comes again, because the version belongs to
	 * the last complete one. */
	kube_call_deinit(&call);
	return r;
}

/* List and watch in one (WatchList). A server without it answers 400, 422, or an event of type
 * ERROR before the first object. */
static int stream(struct kube_watch *w, struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	int r;

	add_query(w, &path,
		  "watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersion=&"
		  "resourceVersionMatch=NotOlderThan&timeoutSeconds=%u",
		  watch_seconds());
	tell(w, KUBE_SYNC_BEGIN, NULL);
	w->in_sync = true;
	r = run_stream(w, path.s, err);
	if (w->in_sync)
		set_version(w, NULL);
	w->in_sync = false;
	w->streams = !w->refused;
	return r;
}

/* The thread. */

static void pause_for(struct kube_watch *w, int64_t ns)
{
	int64_t end = clock_mono_ns() + ns;
	struct timespec t = { .tv_sec = end / NS_PER_S, .tv_nsec = end % NS_PER_S };

	pthread_mutex_lock(&w->lock);
	while (!atomic_load(&w->stop) && clock_mono_ns() < end)
		pthread_cond_timedwait(&w->wake, &w->lock, &t);
	pthread_mutex_unlock(&w->lock);
}

static int once(struct kube_watch *w, struct err *err)
{
	_cleanup_(str_deinit) struct str path = { 0 };

	w->good_ns = 0;
	/* An event that the server lost shows only in the next list. */
	if (*w->version &&
	    clock_mono_ns() - w->synced_ns >= (w->o.resync_ns ? w->o.resync_ns : RESYNC_NS))
		set_version(w, NULL);
	if (*w->version) { /* from the known version on */
		/* After trouble a short one: a stream without events has no end that shows that the
		 * server is back. */
		add_query(w, &path,
			  "watch=1&allowWatchBookmarks=true&timeoutSeconds=%u&resourceVersion=%s",
			  w->troubled ? 1 : watch_seconds(), w->version);
		return run_stream(w, path.s, err);
	}
	if (w->streams) {
		if (stream(w, err) == 0)
			return 0;
		if (w->streams)
			return -1;
	}
	return list(w, err);
}

static void *watch_main(void *arg)
{
	struct kube_watch *w = arg;
	uint32_t failures = 0;

	while (!atomic_load(&w->stop)) {
		struct err err = { 0 };
		int r = once(w, &err);

		/* A request that was lost or ended on time is repeated at once, if it worked for a
		 * while. */
		if (r == 0 || w->good_ns || err.code == ERR_CHANGED)
			report_trouble(w, NULL);
		else
			report_trouble(w, &err);
		if (r == 0 || (w->good_ns && clock_mono_ns() - w->good_ns >= WORKED_NS)) {
			failures = 0;
			continue;
		}
		pause_for(w, backoff_ns(BACKOFF_MIN_NS, BACKOFF_MAX_NS, ++failures));
	}
	return NULL;
}

static void watch_deinit(struct kube_watch *w)
{
	kube_client_free(w->client);
	str_deinit(&w->path);
	str_deinit(&w->frame);
	free(w->selector);
	free(w->version);
	pthread_mutex_destroy(&w->lock);
	pthread_cond_destroy(&w->wake);
	free(w);
}

int kube_watch_new(const struct kube_access *a, const struct kube_watch_options *o,
		   struct kube_watch **ret, struct err *err)
{
	const struct kube_client_options co = { .max_connections = 2, .retry_for_ns = 1 };
	struct kube_watch *w = xcalloc(1, sizeof(*w));
	struct str escaped = { 0 };

	assert(o->event);
	w->o = *o;
	w->streams = !o->no_stream;
	w->version = xstrdup("");
	kube_add_path(&w->path, o->group, o->version, o->ns, o->resource, NULL);
	if (o->label_selector) {
		kube_add_selector(&escaped, o->label_selector);
		w->selector = str_take(&escaped);
	}
	pthread_mutex_init(&w->lock, NULL);
	thread_cond_init(&w->wake);
	if (kube_client_new(a, &co, &w->client, err) < 0) {
		watch_deinit(w);
		return -1;
	}
	errno = thread_start(&w->thread, NULL, watch_main, w);
	if (errno) {
		err_errno(err, "cannot start a thread for the watch");
		watch_deinit(w);
		return -1;
	}
	*ret = w;
	return 0;
}

void kube_watch_free(struct kube_watch *w)
{
	if (!w)
		return;
	atomic_store(&w->stop, true);
	kube_client_cancel(w->client);
	pthread_mutex_lock(&w->lock);
	pthread_cond_broadcast(&w->wake);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	watch_deinit(w);
}
