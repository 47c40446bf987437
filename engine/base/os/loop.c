/* engine/base/os/loop.c — epoll, a heap of timers, a mailbox for other threads, and pools of
 * workers.
 *
 * A turn: run one job of each pool without threads, read the mailbox, poll for ready events, read
 * the mailbox again, fire timers that are due, then run the idle hooks if anything happened.
 * Sources are freed at the end of the turn in which they were removed, since epoll may still hold
 * events for them. Virtual clock: when nothing is ready and no job is running, the clock jumps to
 * the next timer.
 *
 * A job's path: queue (pool's lock) → worker → mailbox (loop's lock) → done. These two locks hand
 * over what the job touches. Only the loop's thread counts `jobs_out` and `pending`.
 *
 * Threads: everything belongs to the loop's thread, except `mailbox` and a pool's queue, which each
 * have a lock. Mail taken out of the box is in `reading`, so that loop_unpost() finds it there too:
 * an earlier mail may free the receiver of a later one.
 */
#include "base/os/loop.h"
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include "base/mem.h"
#include "base/os/thread.h"

/* Events handled per turn; limits how long hooks and timers wait. */
#define EVENTS_MAX 256
#define HOOKS_MAX  8

enum source_kind { SOURCE_FD, SOURCE_TIMER, SOURCE_SIGNAL };

struct loop_source {
	enum source_kind kind;
	bool dead;
	int fd; /* SOURCE_FD: watched; SOURCE_SIGNAL: signalfd, ours */
	int signo;
	int64_t at_ns;
	uint64_t seq; /* timers of the same time fire in the order in which they were added */
	size_t heap_index;
	union {
		loop_fd_fn on_fd;
		loop_fn on_timer;
		loop_signal_fn on_signal;
	};
	void *arg;
};

struct mail {
	loop_fn fn;
	void *arg;
};

/* Mail taken out of the box, on the stack of read_mail(). Batches nest when a mail frees a pool. */
struct batch {
	struct mail *v;
	size_t n;
	struct batch *outer;
};

struct loop {
	struct clock *clock;
	int epoll, event;
	VEC(struct loop_source *) timers; /* heap by (at_ns, seq) */
	VEC(struct loop_source *) graveyard;
	VEC(struct loop_source *) all; /* fds and signals */
	uint64_t seq;
	struct {
		loop_fn fn;
		void *arg;
	} hooks[HOOKS_MAX];
	size_t n_hooks;
	bool in_hooks;
	bool stopped;
	pthread_mutex_t lock;
	VEC(struct mail) mailbox; /* under lock */
	struct batch *reading;    /* mail that is being read; loop's thread only */
	size_t jobs_out;          /* pool jobs that haven't come back; loop's thread only */
	VEC(struct pool *) inline_pools;
};

/* Timers. */

static bool earlier(const struct loop_source *a, const struct loop_source *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->seq < b->seq;
}

static void heap_place(struct loop *l, size_t i, struct loop_source *s)
{
	l->timers.v[i] = s;
	s->heap_index = i;
}

static void sift_up(struct loop *l, size_t i)
{
	struct loop_source *s = l->timers.v[i];

	for (; i && earlier(s, l->timers.v[(i - 1) / 2]); i = (i - 1) / 2)
		heap_place(l, i, l->timers.v[(i - 1) / 2]);
	heap_place(l, i, s);
}

static void sift_down(struct loop *l, size_t i)
{
	struct loop_source *s = l->timers.v[i];

	for (;;) {
		size_t child = 2 * i + 1;

		if (child >= l->timers.n)
			break;
		if (child + 1 < l->timers.n && earlier(l->timers.v[child + 1], l->timers.v[child]))
			child++;
		if (!earlier(l->timers.v[child], s))
			break;
		heap_place(l, i, l->timers.v[child]);
		i = child;
	}
	heap_place(l, i, s);
}

static void heap_remove(struct loop *l, struct loop_source *s)
{
	size_t i = s->heap_index;
	struct loop_source *last = l->timers.v[--l->timers.n];

	if (last == s)
		return;
	heap_place(l, i, last);
	sift_down(l, i);
	sift_up(l, last->heap_index);
}

struct loop_source *loop_add_timer(struct loop *l, int64_t at_mono_ns, loop_fn fn, void *arg)
{
	struct loop_source *s = xcalloc(1, sizeof(*s));

	s->kind = SOURCE_TIMER;
	s->at_ns = at_mono_ns;
	s->seq = l->seq++;
	s->on_timer = fn;
	s->arg = arg;
	VEC_PUSH(&l->timers, s);
	sift_up(l, l->timers.n - 1);
	return s;
}

/* Sources. */

static int watch(struct loop *l, struct loop_source *s, uint32_t events, struct err *err)
{
	struct epoll_event e = { .events = events, .data.ptr = s };

	if (epoll_ctl(l->epoll, EPOLL_CTL_ADD, s->fd, &e) < 0)
		return err_errno(err, "cannot watch descriptor %d", s->fd);
	s->heap_index = l->all.n;
	VEC_PUSH(&l->all, s);
	return 0;
}

int loop_add_fd(struct loop *l, int fd, uint32_t epoll_events, loop_fd_fn fn, void *arg,
		struct loop_source **ret, struct err *err)
{
	struct loop_source *s = xcalloc(1, sizeof(*s));

	s->kind = SOURCE_FD;
	s->fd = fd;
	s->on_fd = fn;
	s->arg = arg;
	if (watch(l, s, epoll_events, err) < 0) {
		free(s);
		return -1;
	}
	if (ret)
		*ret = s;
	return 0;
}

int loop_add_signal(struct loop *l, int signo, loop_signal_fn fn, void *arg,
		    struct loop_source **ret, struct err *err)
{
	struct loop_source *s = xcalloc(1, sizeof(*s));
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, signo);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	s->kind = SOURCE_SIGNAL;
	s->signo = signo;
	s->on_signal = fn;
	s->arg = arg;
	s->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (s->fd < 0 || watch(l, s, EPOLLIN, err) < 0) {
		if (s->fd < 0)
			err_errno(err, "cannot receive signal %d", signo);
		fd_closep(&s->fd);
		free(s);
		return -1;
	}
	if (ret)
		*ret = s;
	return 0;
}

void loop_remove(struct loop *l, struct loop_source *s)
{
	if (!s || s->dead)
		return;
	s->dead = true;
	if (s->kind == SOURCE_TIMER) {
		heap_remove(l, s);
	} else {
		struct loop_source *last = l->all.v[--l->all.n];

		epoll_ctl(l->epoll, EPOLL_CTL_DEL, s->fd, NULL);
		l->all.v[s->heap_index] = last;
		last->heap_index = s->heap_index;
		if (s->kind == SOURCE_SIGNAL)
			close(s->fd);
	}
	VEC_PUSH(&l->graveyard, s);
}

void loop_add_idle(struct loop *l, loop_fn fn, void *arg)
{
	if (l->n_hooks == HOOKS_MAX)
		abort();
	l->hooks[l->n_hooks].fn = fn;
	l->hooks[l->n_hooks++].arg = arg;
}

static void close_up_hooks(struct loop *l)
{
	size_t kept = 0;

	for (size_t i = 0; i < l->n_hooks; i++)
		if (l->hooks[i].fn)
			l->hooks[kept++] = l->hooks[i];
	l->n_hooks = kept;
}

void loop_remove_idle(struct loop *l, loop_fn fn, void *arg)
{
	for (size_t i = 0; i < l->n_hooks; i++)
		if (l->hooks[i].fn == fn && l->hooks[i].arg == arg)
			l->hooks[i].fn = NULL;
	if (!l->in_hooks)
		close_up_hooks(l);
}

void loop_post(struct loop *l, loop_fn fn, void *arg)
{
	struct mail m = { fn, arg };
	bool first;

	pthread_mutex_lock(&l->lock);
	first = l->mailbox.n == 0;
	VEC_PUSH(&l->mailbox, m);
	pthread_mutex_unlock(&l->lock);
	if (first && eventfd_write(l->event, 1) < 0) {
		/* Fails only on overflow, and then it is readable anyway. */
	}
}

static void nothing(void *arg)
{
}

/* Also searches `reading`: a call may free the receiver of a later one in the same batch. */
void loop_unpost(struct loop *l, loop_fn fn, void *arg)
{
	pthread_mutex_lock(&l->lock);
	for (size_t i = 0; i < l->mailbox.n; i++)
		if (l->mailbox.v[i].fn == fn && l->mailbox.v[i].arg == arg)
			l->mailbox.v[i].fn = nothing;
	pthread_mutex_unlock(&l->lock);
	for (struct batch *b = l->reading; b; b = b->outer)
		for (size_t i = 0; i < b->n; i++)
			if (b->v[i].fn == fn && b->v[i].arg == arg)
				b->v[i].fn = nothing;
}

/* Turns. */

static bool read_mail(struct loop *l)
{
	struct batch batch;
	bool any;

	pthread_mutex_lock(&l->lock);
	__auto_type mail = VEC_TAKE(&l->mailbox);
	pthread_mutex_unlock(&l->lock);
	any = mail.n > 0;
	batch = (struct batch){ .v = mail.v, .n = mail.n, .outer = l->reading };
	l->reading = &batch;
	for (size_t i = 0; i < mail.n; i++)
		mail.v[i].fn(mail.v[i].arg);
	l->reading = batch.outer;
	VEC_FREE(&mail);
	return any;
}

static bool fire_timers(struct loop *l)
{
	int64_t now = l->clock->mono_ns(l->clock);
	uint64_t until = l->seq; /* timers added by timers wait for the next turn */
	bool any = false;

	while (l->timers.n && l->timers.v[0]->at_ns <= now && l->timers.v[0]->seq < until) {
		struct loop_source *s = l->timers.v[0];

		heap_remove(l, s);
		s->dead = true;
		VEC_PUSH(&l->graveyard, s);
		s->on_timer(s->arg);
		any = true;
	}
	return any;
}

static int poll_ready(struct loop *l, int64_t wait_ns, bool *any, struct err *err)
{
	struct epoll_event events[EVENTS_MAX];
	struct timespec ts = { wait_ns / NS_PER_S, wait_ns % NS_PER_S };
	int n = epoll_pwait2(l->epoll, events, EVENTS_MAX, wait_ns < 0 ? NULL : &ts, NULL);

	if (n < 0 && errno == ENOSYS) /* kernels before 5.11 */
		n = epoll_wait(l->epoll, events, EVENTS_MAX,
			       wait_ns < 0
				       ? -1
				       : (int)MIN((wait_ns + NS_PER_MS - 1) / NS_PER_MS, 1000000));
	if (n < 0 && errno != EINTR)
		return err_errno(err, "cannot wait for events");
	for (int i = 0; i < n; i++) {
		struct loop_source *s = events[i].data.ptr;
		struct signalfd_siginfo si;
		eventfd_t v;

		if (events[i].data.ptr == l) {
			eventfd_read(l->event, &v);
			continue;
		}
		*any = true;
		if (!s->dead && s->kind == SOURCE_FD)
			s->on_fd(s->arg, s->fd, events[i].events);
		else
			while (!s->dead && read(s->fd, &si, sizeof(si)) == sizeof(si))
				s->on_signal(s->arg, s->signo);
	}
	return 0;
}

static bool run_inline_jobs(struct loop *l);

static int64_t wait_time(struct loop *l, int64_t max_wait_ns)
{
	int64_t wait = max_wait_ns;

	if (l->clock->is_virtual && l->jobs_out == 0 && l->timers.n)
		return 0; /* the clock is moved instead; without a timer there is no time to move it
			     to */
	if (!l->clock->is_virtual && l->timers.n) {
		int64_t until = MAX(l->timers.v[0]->at_ns - l->clock->mono_ns(l->clock), 0);

		wait = wait < 0 ? until : MIN(wait, until);
	}
	return wait;
}

static void bury(struct loop *l)
{
	for (size_t i = 0; i < l->graveyard.n; i++)
		free(l->graveyard.v[i]);
	l->graveyard.n = 0;
}

static int handle_ready(struct loop *l, int64_t max_wait_ns, struct err *err)
{
	bool any = run_inline_jobs(l);

	any |= read_mail(l);
	if (poll_ready(l, any ? 0 : wait_time(l, max_wait_ns), &any, err) < 0)
		return -1;
	any |= read_mail(l);
	any |= fire_timers(l);
	if (!any && l->clock->is_virtual && l->jobs_out == 0 && l->timers.n) {
		int64_t delta = l->timers.v[0]->at_ns - l->clock->mono_ns(l->clock);

		if (delta > 0)
			clock_virtual_advance(l->clock, delta);
		any |= fire_timers(l);
	}
	return any;
}

int loop_turn(struct loop *l, int64_t max_wait_ns, struct err *err)
{
	bool mail;
	int r;

	pthread_mutex_lock(&l->lock);
	mail = l->mailbox.n > 0;
	pthread_mutex_unlock(&l->lock);
	if (l->all.n == 0 && l->timers.n == 0 && l->jobs_out == 0 && !mail)
		return 0;
	r = handle_ready(l, max_wait_ns, err);
	/* A hook may remove itself, or another, so places are kept until all hooks have run. */
	l->in_hooks = true;
	for (size_t i = 0; i < l->n_hooks && r > 0; i++)
		if (l->hooks[i].fn)
			l->hooks[i].fn(l->hooks[i].arg);
	l->in_hooks = false;
	close_up_hooks(l);
	bury(l);
	return r < 0 ? -1 : 1;
}

int loop_run(struct loop *l, struct err *err)
{
	int r = 1;

	l->stopped = false;
	while (r > 0 && !l->stopped)
		r = loop_turn(l, -1, err);
	return r < 0 ? -1 : 0;
}

void loop_stop(struct loop *l)
{
	l->stopped = true;
}

/* Open and close. */

int loop_new(struct clock *clock, struct loop **ret, struct err *err)
{
	struct loop *l = xcalloc(1, sizeof(*l));
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = l };

	l->clock = clock;
	pthread_mutex_init(&l->lock, NULL);
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	l->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (l->epoll < 0 || l->event < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->event, &e) < 0) {
		err_errno(err, "cannot make an event loop");
		loop_free(l);
		return -1;
	}
	*ret = l;
	return 0;
}

void loop_free(struct loop *l)
{
	if (!l)
		return;
	while (l->all.n)
		loop_remove(l, l->all.v[0]);
	while (l->timers.n)
		loop_remove(l, l->timers.v[0]);
	bury(l);
	VEC_FREE(&l->graveyard);
	VEC_FREE(&l->timers);
	VEC_FREE(&l->all);
	VEC_FREE(&l->mailbox);
	VEC_FREE(&l->inline_pools);
	fd_closep(&l->epoll);
	fd_closep(&l->event);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

struct clock *loop_clock(struct loop *l)
{
	return l->clock;
}

/* Workers. */

struct job {
	struct pool *pool;
	loop_fn run, done;
	void *arg;
	struct job *next;
};

struct pool {
	struct loop *loop;
	pthread_t *threads;
	unsigned n_threads, max_threads;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct job *first, **last; /* queue, under lock */
	bool closing;
	size_t pending; /* loop's thread only */
};

static struct job *take_job(struct pool *p)
{
	struct job *j = p->first;

	if (j) {
		p->first = j->next;
		if (!p->first)
			p->last = &p->first;
	}
	return j;
}

static void job_done(void *arg)
{
	struct job *j = arg;

	j->pool->pending--;
	j->pool->loop->jobs_out--;
	if (j->done)
		j->done(j->arg);
	free(j);
}

static void *work(void *arg)
{
	struct pool *p = arg;

	for (;;) {
		struct job *j;

		pthread_mutex_lock(&p->lock);
		while (!p->first && !p->closing)
			pthread_cond_wait(&p->wake, &p->lock);
		j = take_job(p);
		pthread_mutex_unlock(&p->lock);
		if (!j)
			return NULL;
		j->run(j->arg);
		loop_post(p->loop, job_done, j);
	}
}

static bool run_inline_jobs(struct loop *l)
{
	bool any = false;

	for (size_t i = 0; i < l->inline_pools.n; i++) {
		struct job *j = take_job(l->inline_pools.v[i]);

		if (!j)
			continue;
		j->run(j->arg);
		job_done(j);
		any = true;
	}
	return any;
}

int pool_new(struct loop *l, unsigned n_threads, struct pool **ret, struct err *err)
{
	struct pool *p = xcalloc(1, sizeof(*p));
	p->loop = l;
	p->last = &p->first;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->wake, NULL);
	p->threads = xcalloc(n_threads + 1, sizeof(*p->threads));
	if (n_threads == 0)
		VEC_PUSH(&l->inline_pools, p);
	p->max_threads = n_threads;
	*ret = p;
	return 0;
}

/* Threads start when jobs come, so a command without parallel work starts none. If no thread can be
 * started, jobs run in the loop. */
static void start_thread(struct pool *p)
{
	if (p->n_threads >= p->max_threads || p->n_threads >= p->pending)
		return;
	if (thread_start(&p->threads[p->n_threads], NULL, work, p) == 0)
		p->n_threads++;
	else if (p->n_threads == 0)
		p->max_threads = 0;
	if (p->max_threads == 0)
		VEC_PUSH(&p->loop->inline_pools, p);
}

void pool_submit(struct pool *p, loop_fn run, loop_fn done, void *arg)
{
	struct job *j = xcalloc(1, sizeof(*j));

	*j = (struct job){ .pool = p, .run = run, .done = done, .arg = arg };
	p->pending++;
	p->loop->jobs_out++;
	start_thread(p);
	pthread_mutex_lock(&p->lock);
	*p->last = j;
	p->last = &j->next;
	pthread_cond_signal(&p->wake);
	pthread_mutex_unlock(&p->lock);
}

size_t pool_pending(const struct pool *p)
{
	return p->pending;
}

void pool_free(struct pool *p)
{
	size_t kept = 0;

	if (!p)
		return;
	pthread_mutex_lock(&p->lock);
	p->closing = true;
	pthread_cond_broadcast(&p->wake);
	pthread_mutex_unlock(&p->lock);
	for (unsigned i = 0; i < p->n_threads; i++)
		pthread_join(p->threads[i], NULL);
	p->n_threads = p->max_threads = 0; /* a thread started from here on would never be joined */
	/* Jobs that `done` callbacks submit while the pool closes run here too. No worker is left,
	 * so the queue needs no lock. */
	while (p->pending) {
		struct job *j = take_job(p);

		if (!j) {
			read_mail(p->loop);
			continue;
		}
		j->run(j->arg);
		job_done(j);
	}
	for (size_t i = 0; i < p->loop->inline_pools.n; i++)
		if (p->loop->inline_pools.v[i] != p)
			p->loop->inline_pools.v[kept++] = p->loop->inline_pools.v[i];
	p->loop->inline_pools.n = kept;
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->wake);
	free(p->threads);
	free(p);
}
