/* engine/serve/events/events.c — the ring of frames, and its readers.
 *
 * Frames are numbered from 1. The ring has those from `first` on, at most RING_FRAMES and
 * RING_BYTES. A reader keeps the number of the frame that it wants next, and a copy of the frames
 * that it is sending. An id is "EPOCH-NUMBER"; the epoch is another one in each process.
 *
 * Threads: the threads' lock protects all of struct events and `next` of readers. The rest of a
 * reader belongs to the thread that has its stream. The thread that polls is started by the first
 * reader, who waits until it has polled once: changes from then on are told. */
#include "serve/events/events.h"
#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "base/os/machine.h"
#include "base/os/thread.h"
#include "base/text/text.h"

#define RING_FRAMES   8192
#define RING_BYTES    (16 * MIB)
#define POLL_NS       (500 * NS_PER_MS) /* between two polls */
#define FIRST_LOOK_NS (5 * NS_PER_S)

struct frame {
	const struct project *project;
	char *run; /* or NULL */
	char *text;
	size_t len;
};

struct events_reader {
	struct events *e;
	const struct project *project;
	char *runs[EVENTS_RUNS_MAX];
	size_t n_runs;
	int64_t since_ns;
	uint64_t next;
	struct str out; /* being sent; the first `sent` bytes are */
	size_t sent;
	int64_t ping_ns;
	bool reset; /* frames were missed */
};

struct events {
	struct daemon *d;
	unsigned epoch;
	atomic_uint_least64_t newest;
	struct threads threads; /* the one that polls, or none yet */
	struct frame ring[RING_FRAMES];
	uint64_t first; /* number of the oldest frame */
	size_t bytes;
	VEC(struct events_reader *) readers;
	bool polled;
};

struct events *events_new(struct daemon *d)
{
	struct events *e = xcalloc(1, sizeof(*e));

	e->d = d;
	e->epoch = (unsigned)random_u64();
	e->first = 1;
	threads_init(&e->threads);
	return e;
}

static void frame_drop(struct events *e)
{
	struct frame *f = &e->ring[e->first++ % RING_FRAMES];

	e->bytes -= f->len;
	free(f->run);
	free(f->text);
	*f = (struct frame){ 0 };
}

void events_free(struct events *e)
{
	if (!e)
		return;
	threads_end(&e->threads);
	while (e->first <= atomic_load(&e->newest))
		frame_drop(e);
	VEC_FREE(&e->readers);
	threads_deinit(&e->threads);
	free(e);
}

/* The thread that polls. */

static void until(struct timespec *ret, int64_t ns)
{
	clock_gettime(CLOCK_MONOTONIC, ret);
	ns += ret->tv_nsec;
	ret->tv_sec += ns / NS_PER_S;
	ret->tv_nsec = ns % NS_PER_S;
}

static void add_watch(struct events_watch *v, size_t *n, const struct events_reader *r,
		      const char *run)
{
	for (size_t i = 0; i < *n; i++)
		if (v[i].project == r->project && str_eq(v[i].run, run)) {
			v[i].since_ns = MIN(v[i].since_ns, r->since_ns);
			return;
		}
	v[(*n)++] = (struct events_watch){ (char *)(uintptr_t)run, r->project, r->since_ns };
}

/* Waits until there is a reader, at most POLL_NS if there is one. False: the end. *ret: what is
 * watched, in `arena`. */
static bool wait_for_poll(struct events *e, struct arena *arena, struct events_watch **ret,
			  size_t *ret_n)
{
	struct timespec at;
	bool goes_on;

	pthread_mutex_lock(&e->threads.lock);
	until(&at, POLL_NS);
	while (!e->threads.ending && e->polled &&
	       (!e->readers.n
			? pthread_cond_wait(&e->threads.changed, &e->threads.lock)
			: pthread_cond_timedwait(&e->threads.changed, &e->threads.lock, &at)) == 0)
		;
	*ret_n = 0;
	*ret = arena_alloc(arena, (e->readers.n * EVENTS_RUNS_MAX + 1) * sizeof(**ret));
	for (size_t i = 0; i < e->readers.n; i++)
		for (size_t k = 0; k < e->readers.v[i]->n_runs; k++)
			add_watch(*ret, ret_n, e->readers.v[i],
				  arena_strdup(arena, e->readers.v[i]->runs[k]));
	goes_on = !e->threads.ending;
	pthread_mutex_unlock(&e->threads.lock);
	return goes_on;
}

static void polled(struct events *e)
{
	pthread_mutex_lock(&e->threads.lock);
	e->polled = true;
	pthread_cond_broadcast(&e->threads.changed);
	pthread_mutex_unlock(&e->threads.lock);
}

void events_add(struct events *e, const struct project *p, const char *run, const char *event,
		json_t *data)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	uint64_t n = atomic_load(&e->newest) + 1; /* one thread adds */
	struct frame *f;

	str_addf(&text, "id: %08x-%llu\nevent: %s\ndata: ", e->epoch, (unsigned long long)n, event);
	json_add_canonical(&text, data);
	str_add(&text, "\n\n");
	json_decref(data);
	pthread_mutex_lock(&e->threads.lock);
	while (n - e->first >= RING_FRAMES || (e->first < n && e->bytes + text.len > RING_BYTES))
		frame_drop(e);
	f = &e->ring[n % RING_FRAMES];
	*f = (struct frame){ p, run ? xstrdup(run) : NULL, TAKE_PTR(text.s), text.len };
	e->bytes += f->len;
	atomic_store(&e->newest, n);
	pthread_mutex_unlock(&e->threads.lock);
}

static void *poll_loop(void *arg)
{
	struct events *e = arg;
	struct poller *l = poller_new(e->d, e);

	for (;;) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		struct events_watch *w;
		size_t n;

		if (!wait_for_poll(e, arena, &w, &n))
			break;
		poller_poll(l, w, n);
		polled(e);
	}
	poller_free(l);
	return NULL;
}

/* Readers. */

/* Where to go on; *ret_reset: frames were missed. Call it with `lock` held. */
static uint64_t place_of(struct events *e, const char *last_id, bool *ret_reset)
{
	uint64_t newest = atomic_load(&e->newest);
	const char *dash = last_id ? strchr(last_id, '-') : NULL;
	int64_t n = 0;
	char epoch[16];

	if (!last_id || !*last_id)
		return newest + 1;
	snprintf(epoch, sizeof(epoch), "%08x-", e->epoch);
	if (!dash || !str_has_prefix(last_id, epoch) || !text_parse_int(dash + 1, &n) || n < 0 ||
	    (uint64_t)n > newest || (uint64_t)n + 1 < e->first) {
		*ret_reset = true;
		return newest + 1;
	}
	return (uint64_t)n + 1;
}

static int begin(struct events *e, struct err *err)
{
	struct timespec at;

	if (!e->threads.n && threads_start(&e->threads, poll_loop, e, err) < 0)
		return -1;
	until(&at, FIRST_LOOK_NS);
	while (!e->polled && !e->threads.ending &&
	       pthread_cond_timedwait(&e->threads.changed, &e->threads.lock, &at) == 0)
		;
	return 0;
}

struct events_reader *events_subscribe(struct events *e, const struct events_wanted *w,
				       struct err *err)
{
	struct events_reader *r = xcalloc(1, sizeof(*r));
	int result;

	assert(w->n_runs <= EVENTS_RUNS_MAX);
	*r = (struct events_reader){ .e = e,
				     .project = w->project,
				     .since_ns = clock_wall_ns(),
				     .ping_ns = clock_mono_ns() + EVENTS_PING_NS };
	for (; r->n_runs < w->n_runs; r->n_runs++)
		r->runs[r->n_runs] = xstrdup(w->runs[r->n_runs]);
	pthread_mutex_lock(&e->threads.lock);
	result = begin(e, err);
	r->next = place_of(e, w->last_id, &r->reset);
	VEC_PUSH(&e->readers, r);
	pthread_cond_broadcast(&e->threads.changed);
	/* An id without data: a connection that breaks before the first event goes on here, too. */
	str_addf(&r->out, "retry: 2000\nid: %08x-%llu\n\n", e->epoch,
		 (unsigned long long)r->next - 1);
	pthread_mutex_unlock(&e->threads.lock);
	if (result < 0) {
		events_unsubscribe(r);
		return NULL;
	}
	return r;
}

void events_unsubscribe(struct events_reader *r)
{
	struct events *e = r->e;

	pthread_mutex_lock(&e->threads.lock);
	for (size_t i = 0; i < e->readers.n; i++)
		if (e->readers.v[i] == r)
			e->readers.v[i--] = e->readers.v[--e->readers.n];
	pthread_mutex_unlock(&e->threads.lock);
	for (size_t i = 0; i < r->n_runs; i++)
		free(r->runs[i]);
	str_deinit(&r->out);
	free(r);
}

static bool wants(const struct events_reader *r, const struct frame *f)
{
	if (r->project && f->project && r->project != f->project)
		return false;
	if (!f->run)
		return true;
	for (size_t i = 0; i < r->n_runs; i++)
		if (str_eq(r->runs[i], f->run))
			return true;
	return false;
}

/* Call it with `lock` held. */
static void copy_frames(struct events_reader *r, size_t max)
{
	struct events *e = r->e;
	uint64_t newest = atomic_load(&e->newest);

	if (r->next < e->first) {
		r->reset = true;
		r->next = newest + 1;
	}
	if (r->reset) {
		str_addf(&r->out, "id: %08x-%llu\nevent: reset\ndata: {}\n\n", e->epoch,
			 (unsigned long long)r->next - 1);
		r->reset = false;
	}
	for (; r->next <= newest && r->out.len < max; r->next++) {
		const struct frame *f = &e->ring[r->next % RING_FRAMES];

		if (wants(r, f))
			str_addn(&r->out, f->text, f->len);
	}
}

bool events_are_new(struct events_reader *r)
{
	return r->sent < r->out.len || r->reset || r->next <= atomic_load(&r->e->newest) ||
	       clock_mono_ns() >= r->ping_ns;
}

size_t events_read(struct events_reader *r, char *buf, size_t max)
{
	int64_t now = clock_mono_ns();
	size_t n;

	if (r->sent == r->out.len) {
		str_reset(&r->out);
		r->sent = 0;
		pthread_mutex_lock(&r->e->threads.lock);
		copy_frames(r, max);
		pthread_mutex_unlock(&r->e->threads.lock);
		if (!r->out.len && now >= r->ping_ns)
			str_add(&r->out, ": ping\n\n");
	}
	n = MIN(r->out.len - r->sent, max);
	if (!n)
		return 0;
	memcpy(buf, r->out.s + r->sent, n);
	r->sent += n;
	r->ping_ns = now + EVENTS_PING_NS;
	return n;
}
