/* storage/bucket/transfer.c — slots, retries, and reading headers, for all kinds of object storage.
 *
 * A slot is a running request. `limit` is a fraction, so that 1/limit per success adds one slot a
 * round. A throttled answer halves it, but not twice within DECREASE_PAUSE_NS, because the requests
 * that were running were sent before we knew.
 *
 * The retry budget may go below zero. Then a retry isn't refused, but waits until the refill has
 * paid the debt. Only the number of tries ends a request.
 *
 * One lock guards all of a struct transfer, and is never held while a request is sent or while a
 * retry waits. The queue of work is in work.c.
 */
#include "storage/bucket/transfer.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/mem.h"
#include "base/os/machine.h"
#include "base/os/thread.h"
#include "base/time/clock.h"

#define CONNECTIONS_DEFAULT 64
#define TRIES_DEFAULT       10
#define DELAY_FIRST_NS      (100 * NS_PER_MS)
#define DELAY_MAX_NS        (20 * NS_PER_S)
#define RETRY_AFTER_MAX_NS  (60 * NS_PER_S)
#define BUDGET              100.0
#define BUDGET_PER_S        10.0
#define DECREASE_PAUSE_NS   (200 * NS_PER_MS)

struct transfer {
	pthread_mutex_t lock;
	pthread_cond_t freed;
	unsigned max, tries, active;
	double limit, budget;
	int64_t decreased_ns, refilled_ns;
};

struct transfer *transfer_new(unsigned max_connections, unsigned tries)
{
	struct transfer *t = xcalloc(1, sizeof(*t));

	pthread_mutex_init(&t->lock, NULL);
	pthread_cond_init(&t->freed, NULL);
	t->max = max_connections ? max_connections : CONNECTIONS_DEFAULT;
	t->tries = tries ? tries : TRIES_DEFAULT;
	t->limit = t->max;
	t->budget = BUDGET;
	t->refilled_ns = clock_mono_ns();
	return t;
}

void transfer_free(struct transfer *t)
{
	if (!t)
		return;
	pthread_mutex_destroy(&t->lock);
	pthread_cond_destroy(&t->freed);
	free(t);
}

unsigned transfer_tries(const struct transfer *t)
{
	return t->tries;
}

unsigned transfer_threads(const struct transfer *t)
{
	return t->max;
}

/* Slots. */

void transfer_begin(struct transfer *t)
{
	pthread_mutex_lock(&t->lock);
	while (t->active >= (unsigned)t->limit)
		pthread_cond_wait(&t->freed, &t->lock);
	t->active++;
	pthread_mutex_unlock(&t->lock);
}

static void adapt(struct transfer *t, enum transfer_outcome outcome)
{
	int64_t now;

	if (outcome == TRANSFER_FINE) {
		t->limit = MIN(t->limit + 1 / t->limit, (double)t->max);
		t->budget = MIN(t->budget + 1, BUDGET);
	} else if (outcome == TRANSFER_THROTTLED) {
		now = clock_mono_ns();
		if (now - t->decreased_ns >= DECREASE_PAUSE_NS) {
			t->limit = MAX(t->limit / 2, 1.0);
			t->decreased_ns = now;
		}
	}
}

void transfer_end(struct transfer *t, enum transfer_outcome outcome)
{
	pthread_mutex_lock(&t->lock);
	assert(t->active);
	t->active--;
	adapt(t, outcome);
	if (t->active + 1 >= (unsigned)t->limit)
		pthread_cond_broadcast(&t->freed);
	else
		pthread_cond_signal(&t->freed);
	pthread_mutex_unlock(&t->lock);
}

/* lint: unused but by tests: callers only feel it */
unsigned transfer_limit(struct transfer *t)
{
	unsigned n;

	pthread_mutex_lock(&t->lock);
	n = (unsigned)t->limit;
	pthread_mutex_unlock(&t->lock);
	return n;
}

/* Retries. */

int64_t transfer_jitter_ns(unsigned tries, uint64_t random)
{
	int64_t ceiling = backoff_ns(DELAY_FIRST_NS, DELAY_MAX_NS, tries);

	return (int64_t)((double)ceiling * ((double)(random >> 11) / 9007199254740992.0));
}

/* How long the budget makes this retry wait. */
static int64_t spend(struct transfer *t)
{
	int64_t now = clock_mono_ns(), wait = 0;

	pthread_mutex_lock(&t->lock);
	t->budget =
		MIN(t->budget + BUDGET_PER_S * (double)(now - t->refilled_ns) / NS_PER_S, BUDGET);
	t->refilled_ns = now;
	t->budget -= 1;
	if (t->budget < 0)
		wait = (int64_t)(-t->budget / BUDGET_PER_S * NS_PER_S);
	pthread_mutex_unlock(&t->lock);
	return wait;
}

bool transfer_retry(struct transfer *t, unsigned tries, const struct http_request *answer)
{
	int64_t wait;

	if (tries >= t->tries)
		return false;
	wait = transfer_jitter_ns(tries, random_u64());
	wait = MAX(wait, MIN(answer->reply.retry_after_ns, RETRY_AFTER_MAX_NS));
	clock_sleep(MAX(wait, spend(t)));
	return true;
}

bool transfer_throttled(long status)
{
	return status == 429 || status == 503;
}

/* Headers. */

char *transfer_header(const struct http_request *r, const char *name, size_t max)
{
	size_t n;
	const char *v = http_header(r, name, &n);

	if (!v || n > max)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if ((unsigned char)v[i] < 0x20 || (unsigned char)v[i] > 0x7e)
			return NULL;
	return xstrndup(v, n);
}

bool transfer_length(const struct http_request *r, uint64_t *ret)
{
	_cleanup_(freep) char *v = transfer_header(r, "Content-Length", 20);
	char *end;

	if (!v || !*v || strspn(v, "0123456789") != strlen(v))
		return false;
	errno = 0;
	*ret = strtoull(v, &end, 10);
	return errno == 0;
}

void transfer_add_param(struct str *query, const char *name, const char *value)
{
	str_addf(query, "%s%s=", query->len ? "&" : "", name);
	if (value)
		http_escape(query, value, strlen(value), false);
}

/* Reads decimal digits at *p, and advances *p; false when there are none or too many. */
static bool take_number(const char **p, uint64_t *ret)
{
	uint64_t v = 0;
	const char *s = *p;

	for (; *s >= '0' && *s <= '9' && s - *p < 19; s++)
		v = v * 10 + (uint64_t)(*s - '0');
	if (s == *p || (*s >= '0' && *s <= '9'))
		return false;
	*p = s;
	*ret = v;
	return true;
}

bool transfer_parse_range(const char *s, uint64_t *ret_first, uint64_t *ret_last,
			  uint64_t *ret_total)
{
	if (strncasecmp(s, "bytes ", 6) != 0)
		return false;
	s += 6;
	if (!take_number(&s, ret_first) || *s++ != '-' || !take_number(&s, ret_last) ||
	    *s++ != '/' || !take_number(&s, ret_total))
		return false;
	return !*s && *ret_first <= *ret_last && *ret_last < *ret_total;
}
