/* The shared store as a protocol: clients and a bucket in one process, and a scheduler that decides
 * everything.
 *
 * Each client is a coroutine that runs the real code of storage/ over the bucket in memory. It
 * gives the baton back before every single operation on the bucket. The scheduler then chooses,
 * from one list of numbers: who goes on; whether the operation is lost, unanswered, late or
 * repeated; whether its client is killed; how far the clocks go, and who sleeps meanwhile. Threads
 * can't be started here (thread_start fails, and the code goes on without), random numbers and
 * clocks come from the schedule: the same list gives the same run.
 *
 * What must hold, after every write to the bucket that takes something away, and after every
 * command:
 *  - all that a published and kept run needs is readable in the bucket, by a reader that knows only
 * the format;
 *  - no client with a good lease believes in content that isn't there;
 *  - each index has its pack, and is readable; a name that was given and sent is there;
 *  - a verify that repaired as many as it found leaves every record whole; undamaged, it finds
 * nothing;
 *  - a run that was put by a process that is gone is sent by the next one, if the directory still
 * has all of it;
 *  - after the faults, collecting comes to an end, and what is left is what is needed.
 * In a schedule with damage the bucket itself loses and changes bytes; there only verify is judged.
 *
 * A schedule that fails is cut down: numbers are removed or made 0 (go on, no fault) as long as it
 * still fails. What is left is printed with its trace. CAIRN_TEST_SEEDS names the schedules to run
 * (seeds.h); it ends at the third that fails. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <ucontext.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/os/thread.h"
#include "core/protocol/commands.h"
#include "core/seeds.h"
#include "storage/remote/internal.h"
#include "storage/remote/tier.h"
#include "unit.h"

/* As many in every build: which schedules can fail doesn't depend on it. */
#define SEEDS        (1500 * SEEDS_PART)
#define FAILURES_MAX 3

/* The baton. */

static void yield(void)
{
	struct client *c = W->now;

	W->now = NULL;
	swapcontext(&c->context, &W->scheduler);
}

/* Before each operation: others come first, perhaps; then this one's fate. */
static enum bucket_memory_fate fate(void *arg, const char *what, const char *key)
{
	struct client *c = W->now;
	enum bucket_memory_fate f;
	const char *names[] = { "", " (lost)", " (unanswered)", " (late)", " (repeated)" };

	if (!c)
		return FATE_PASSES;
	if (!c->dead && !W->failure && !W->quiet)
		yield();
	if (c->dead || W->failure)
		return FATE_LOST;
	f = W->fate;
	W->fate = FATE_PASSES;
	c->faulty |= f != FATE_PASSES;
	W->check |= str_eq(what, "delete") ||
		    (str_eq(what, "put") && !str_has_prefix(key, "p/leases") &&
		     !str_has_prefix(key, "p/packs"));
	W->deletes += str_eq(what, "delete");
	say("%s: %s %.40s%s", c->command, what, key, names[f]);
	return f;
}

/* A client, as a coroutine. */
static void client_main(void)
{
	struct client *c = W->now;

	for (;;) {
		unsigned what = choose(ARRAY_LEN(commands));

		if (!c->s)
			open_client(c);
		c->command = commands[what].name;
		W->commands++;
		commands[what].fn(c);
		if (c->dead && c->s) {
			store_free(TAKE_PTR(c->s)); /* what it would say to the bucket is lost */
			say("is gone");
		}
		c->dead = false;
		c->running = false;
		yield();
	}
}

/* The scheduler. */

static void resume(struct client *c)
{
	W->now = c;
	swapcontext(&W->scheduler, &c->context);
	W->now = NULL;
	if (W->check)
		check();
}

static void deliver_all(void)
{
	while (bucket_memory_deliver(NAME)) {
		say("a late request takes effect");
		W->check = true;
	}
	if (W->check)
		check();
}

/* The thread that renews a lease, unless the machine sleeps. */
static void keep_lease(struct client *c)
{
	struct remote *r = c->s ? tier_remote(c->s) : NULL;

	if (!r || c->dead || c->asleep || !r->lease.key ||
	    c->clock.now_ns - r->lease.renewed_at_ns > r->o.lease_ns * 2 / 3)
		return;
	remote_renew(r, NULL);
}

static void pass_time(int64_t ns)
{
	deliver_all();
	while (ns > 0) {
		int64_t d = MIN(ns, 9 * MINUTE);

		clock_virtual_advance(&W->clock, d);
		for (int i = 0; i < W->n_clients; i++)
			clock_virtual_advance(&W->clients[i].clock, d);
		for (int i = 0; i < W->n_clients; i++)
			keep_lease(&W->clients[i]);
		ns -= d;
	}
}

/* The bucket itself forgets, or changes a byte. */
struct victim {
	uint32_t at, n;
	char *key;
};

static void find_victim(void *arg, const char *key, const uint8_t *bytes, uint64_t size)
{
	struct victim *v = arg;

	if (!str_has_prefix(key, "p/packs/") && !str_has_prefix(key, "p/runs/"))
		return;
	if (v->n++ == v->at)
		v->key = xstrdup(key);
}

static void damage(void)
{
	struct victim v = { .at = UINT32_MAX };
	struct bucket *b;

	bucket_memory_each(NAME, find_victim, &v);
	if (!v.n)
		return;
	v = (struct victim){ .at = choose(v.n) };
	bucket_memory_each(NAME, find_victim, &v);
	W->damaged = true;
	W->damage_number++;
	if (choose(2)) {
		say("damage: a byte of %s", v.key);
		bucket_memory_damage(NAME, v.key, choose(200));
	} else if (bucket_open(BUCKET, NULL, &b, NULL) == 0) {
		const char *key = v.key + 2;

		say("damage: %s is gone", v.key);
		bucket_delete_many(b, &key, 1, NULL);
		bucket_free(b);
	}
	free(v.key);
}

static void step(void)
{
	static const int64_t times[] = { 1, 10, 31, 61, 125, 200 };
	uint32_t what = choose(40);
	struct client *c;

	if (what >= 26)
		W->turn = (int)choose((uint32_t)W->n_clients);
	c = &W->clients[W->turn];
	if (what == 25)
		pass_time(times[choose(ARRAY_LEN(times))] * MINUTE);
	else if (what == 24)
		deliver_all();
	else if (what == 23 && c->running)
		W->fate = FATE_LOST + choose(4);
	else if (what == 22 && c->running && choose(2)) {
		c->dead = true;
		W->now = c;
		say("is killed in %s", c->command);
		W->now = NULL;
	} else if (what == 21 && choose(4) == 1)
		c->asleep = !c->asleep;
	else if (what == 20 && W->damages && choose(4) == 1)
		damage();
	W->faults += W->fate != FATE_PASSES;
	c->running = true;
	resume(c);
	W->fate = FATE_PASSES;
}

/* A world from beginning to end. */

static void no_free(struct store *s)
{
}

static void (*free_disk)(struct store *s);
static char in_memory[] = "/dev/shm/cairn-protocol-XXXXXX",
	    on_disk[] = "/tmp/cairn-protocol-XXXXXX";
static const char *scratch;

static void world_init(struct world *w)
{
	bool journals;

	W = w;
	clock_virtual_init(&w->clock, 1000000 * HOUR);
	bucket_memory_clock(NAME, &w->clock);
	w->n_clients = 1 + (int)choose(CLIENTS_MAX);
	w->damages = choose(4) == 1;
	journals = choose(4) == 1;
	bucket_memory_faults(
		NAME, &(struct bucket_memory_faults){ .fate = fate,
						      .ignores_if_absent = choose(4) == 1,
						      .ignores_delete_if = choose(4) == 1,
						      .grain_ns = choose(2) ? NS_PER_S : 1 });
	for (int i = 0; i < w->n_clients; i++) {
		struct client *c = &w->clients[i];

		c->number = i + 1;
		clock_virtual_init(&c->clock, w->clock.now_ns + ((int64_t)choose(5) - 0) * 50 *
									MINUTE * (i % 2 ? 1 : -1));
		c->disk = store_memory_new();
		if (!free_disk) {
			disk_ops = *c->disk->ops;
			free_disk = disk_ops.free;
			disk_ops.free = no_free;
		}
		c->disk->ops = &disk_ops;
		if (journals)
			c->journal = xasprintf("%s/%d", scratch, c->number);
		c->stack = xmalloc(STACK_BYTES);
		getcontext(&c->context);
		c->context.uc_stack.ss_sp = c->stack;
		c->context.uc_stack.ss_size = STACK_BYTES;
		makecontext(&c->context, client_main, 0);
	}
}

/* Commands that were begun end: their clients die, or are let to finish without faults. */
static void finish_all(bool die)
{
	for (int i = 0; i < W->n_clients; i++) {
		struct client *c = &W->clients[i];

		c->dead = die && c->running;
		for (int k = 0; c->running && k < STEPS_MAX; k++)
			resume(c);
	}
}

/* Every client has a last process, without faults. */
static void send_the_rest(void)
{
	for (int i = 0; i < W->n_clients && !W->failure; i++) {
		struct client *c = &W->clients[i];

		if (!c->journal)
			continue;
		open_client(c);
		W->now = c;
		c->command = "last unsent";
		send_left(c);
		store_free(TAKE_PTR(c->s));
		W->now = NULL;
	}
	check();
}

/* One client, no faults: collects until nothing is left to do. */
static void collect_the_rest(void)
{
	struct client *c = &W->clients[0];
	struct facts f;
	struct remote_gc_result res = { 0 };
	struct err err = { 0 };
	struct tier_verify v = { .sample = 1, .names = &manifest_names };
	struct digest kept[RUNS_MAX];
	size_t n = 0;

	for (size_t i = 0; i < W->n_runs; i++)
		if (is_kept(i))
			kept[n++] = W->runs[i].hash;
	for (int round = 0; round < 6 && !W->failure; round++) {
		struct remote_gc_options o = { .base = { .grace_ns = HOUR,
							 .mark_gap_ns = HOUR,
							 .manifests = kept,
							 .n_manifests = n,
							 .names = &manifest_names } };

		pass_time(130 * MINUTE);
		open_client(c);
		o.reader = c->s;
		W->now = c;
		c->command = "last gc";
		if (remote_gc(tier_remote(c->s), &o, &res, &err) < 0)
			broken("the last gc: %s", err.msg);
		store_free(TAKE_PTR(c->s));
		W->now = NULL;
	}
	check();
	if (W->failure)
		return;
	if (res.base.condemned || res.base.deleted || res.packs_written)
		broken("collecting doesn't come to an end: %llu condemned, %llu deleted, %llu "
		       "packs written",
		       (unsigned long long)res.base.condemned, (unsigned long long)res.base.deleted,
		       (unsigned long long)res.packs_written);
	facts_init(&f, NAME);
	if (f.packs != 2 * f.indexes)
		broken("%llu packs and %llu indexes are left",
		       (unsigned long long)(f.packs - f.indexes), (unsigned long long)f.indexes);
	if (f.others)
		broken("%llu leases or locks of the dead are left, one is %s",
		       (unsigned long long)f.others, f.other);
	if (!n && f.packs)
		broken("nothing is needed, and packs are left");
	facts_deinit(&f);
	open_client(c);
	W->now = c;
	if (tier_verify(c->s, &v, &err) < 0 || v.problems)
		broken("in the end, verify finds %llu problems: %s", (unsigned long long)v.problems,
		       err.msg);
	store_free(TAKE_PTR(c->s));
	W->now = NULL;
}

static void world_deinit(struct world *w)
{
	for (int i = 0; i < w->n_clients; i++) {
		struct client *c = &w->clients[i];

		W->now = c;
		store_free(c->s);
		W->now = NULL;
		free_disk(c->disk);
		free(c->stack);
		if (c->journal)
			fs_remove_tree(c->journal, NULL);
		free(c->journal);
	}
	bucket_memory_forget(NAME);
	VEC_FREE(&w->tags);
	VEC_FREE(&w->noted);
	str_deinit(&w->trace);
}

/* The choices are the world's own, or given; *ret_failure is the caller's. */
static void simulate(struct world *w, char **ret_failure, char **ret_trace)
{
	world_init(w);
	for (int i = 0, n = 40 + (int)choose(400);
	     i < n && !w->failure && (!w->replays || w->at <= w->choices.n); i++)
		step();
	if (!w->failure)
		deliver_all();
	w->quiet = true;
	finish_all(w->failure || w->commands % 2);
	if (!w->failure && !w->damaged) {
		for (int i = 0; i < w->n_clients; i++) {
			W->now = &w->clients[i];
			w->clients[i].dead = false;
			store_free(TAKE_PTR(w->clients[i].s));
			W->now = NULL;
		}
		check();
		send_the_rest();
		collect_the_rest();
	}
	*ret_failure = TAKE_PTR(w->failure);
	if (ret_trace)
		*ret_trace = str_take(&w->trace);
	world_deinit(w);
	W = NULL;
}

/* Shrinking. */

typedef VEC(uint32_t) schedule;

static char *replay(const schedule *s, bool traces, char **ret_trace)
{
	struct world w = { .replays = true, .traces = traces };
	char *failure;

	for (size_t i = 0; i < s->n; i++)
		VEC_PUSH(&w.choices, s->v[i]);
	simulate(&w, &failure, ret_trace);
	VEC_FREE(&w.choices);
	return failure;
}

/* In the same way: else another failure is found on the way down. */
static bool still_fails(const schedule *s, const char *how)
{
	char *failure = replay(s, false, NULL);
	bool r = failure && strncmp(failure, how, 10) == 0;

	free(failure);
	return r;
}

/* Leaves out, or makes 0, runs of choices, long ones first. */
static void shrink(schedule *s, const char *how)
{
	bool better = true;

	for (int tries = 0; better && tries < 4; tries++) {
		better = false;
		for (size_t len = MAX(s->n / 2, (size_t)1); len; len /= 2)
			for (size_t at = 0; at + len <= s->n;) {
				schedule t = { 0 };

				for (size_t i = 0; i < s->n; i++)
					if (i < at || i >= at + len)
						VEC_PUSH(&t, s->v[i]);
				if (still_fails(&t, how)) {
					VEC_FREE(s);
					*s = t;
					better = true;
					continue;
				}
				VEC_FREE(&t);
				at += len;
			}
		for (size_t i = 0; i < s->n; i++) {
			uint32_t was = s->v[i];

			s->v[i] = 0;
			if (was && still_fails(s, how))
				better = true;
			else
				s->v[i] = was;
		}
	}
}

static void tell(uint64_t seed, schedule *s, const char *failure)
{
	_cleanup_(freep) char *trace = NULL, *shortest = NULL;

	fprintf(stderr, "seed %llu: %s (%zu choices)\n", (unsigned long long)seed, failure, s->n);
	shrink(s, failure);
	shortest = replay(s, true, &trace);
	fprintf(stderr, "cut down to %zu choices: %s\n%s", s->n, shortest ? shortest : "?",
		trace ? trace : "");
	fprintf(stderr, "schedule:");
	for (size_t i = 0; i < s->n; i++)
		fprintf(stderr, " %u", s->v[i]);
	fprintf(stderr, "\n");
}

struct totals {
	uint64_t schedules, commands, faults, deletes, failures;
};

static void run_seed(uint64_t seed, struct totals *t)
{
	struct world w = { .seed = seed * 0x2545f4914f6cdd1dULL };
	char *failure;
	schedule s = { 0 };

	simulate(&w, &failure, NULL);
	t->schedules++;
	t->commands += w.commands;
	t->faults += w.faults;
	t->deletes += w.deletes;
	if (failure) {
		t->failures++;
		for (size_t i = 0; i < w.choices.n; i++)
			VEC_PUSH(&s, w.choices.v[i]);
		tell(seed, &s, failure);
		VEC_FREE(&s);
	}
	free(failure);
	VEC_FREE(&w.choices);
}

static void set_up(void)
{
	struct store *s = store_memory_new();

	scratch = mkdtemp(in_memory) ? in_memory : mkdtemp(on_disk);
	if (!scratch)
		abort();
	for (unsigned t = 0; t < TREES; t++)
		build(s, t, &trees[t], NULL);
	store_free(s);
}

static void clean_up(void)
{
	fs_remove_tree(scratch, NULL);
}

/* Those that fail when a rule is broken that the seeds from 1 on don't need. */
static const uint64_t rare[] = {
	22506,  /* an index is written although its lease has lapsed */
	16126,  /* the list of the condemned is read before the lease is taken */
	104817, /* a collector sleeps between its roots and its lock: what came meanwhile is young
		 */
	300197, /* and another one has given up a record meanwhile: that isn't young any more */
	310816, /* a collector has a record on its disk that was published after it had listed the
		   packs */
	359252, /* a listing appears between two looks of a verifier: what it names hasn't been
		   looked for */
};

static void test_schedules(void **state)
{
	const struct seeds seeds = seeds_of(1, SEEDS);
	struct totals t = { 0 };

	set_up();
	for (size_t i = 0; i < ARRAY_LEN(rare) && !seeds.given; i++)
		run_seed(rare[i], &t);
	for (uint64_t seed = seeds.from; seed < seeds.to && t.failures < FAILURES_MAX; seed++) {
		run_seed(seed, &t);
		if (seeds.given && (seed + 1 - seeds.from) % 10000 == 0)
			print_message("%llu schedules\n",
				      (unsigned long long)(seed + 1 - seeds.from));
	}
	clean_up();
	print_message("%llu schedules, %llu commands, %llu faults, %llu deletions, %llu failures\n",
		      (unsigned long long)t.schedules, (unsigned long long)t.commands,
		      (unsigned long long)t.faults, (unsigned long long)t.deletes,
		      (unsigned long long)t.failures);
	assert_int_equal(t.failures, 0);
	/* Else nothing was tried. */
	if (t.schedules > 100)
		assert_true(t.commands > 5 * t.schedules && t.faults > t.schedules &&
			    t.deletes > t.schedules);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_schedules) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
