/* A store in a directory, used by several processes at once: runs, collectors and verifiers,
 * deterministically.
 *
 * Each client is a coroutine that runs the real code of storage/ on a real directory. It gives the
 * baton back before each system call that looks at names or changes them, and a seed decides who
 * goes on. A client that is killed finds that all its calls fail from then on. Objects are as old
 * as the world's clock says. It stands still while a run without a lease goes on, since no put may
 * take longer than the grace time; runs with a lease take as long as they like.
 *
 * What must hold after each change: all that a published run names which is kept is there. Seeds:
 * seeds.h. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "core/seeds.h"
#include "storage/action.h"
#include "storage/internal.h"
#include "storage/local/maintain.h"
#include "unit.h"

#define SEEDS       50
#define CLIENTS     3
#define TREES       4
#define KEPT        2
#define RUNS_MAX    64
#define STEPS       600
#define STACK_BYTES (512 * KIB)
#define HOUR_S      3600

struct client {
	ucontext_t context;
	char *stack;
	struct store *s;
	bool running, dead, hurries; /* hurries: a run without a lease */
};

struct published {
	struct digest hash;
	unsigned tree;
};

static struct world {
	uint64_t seed, dice;
	char *dir;
	struct client clients[CLIENTS], *now; /* now: NULL while the scheduler is at work */
	struct client *turn;                  /* whose step the last one was */
	ucontext_t scheduler;
	time_t now_s; /* long ago: what is being written looks young */
	struct published runs[RUNS_MAX];
	size_t n_runs;
	unsigned number, collected, found;
} * W;
static struct content_id trees[TREES], blobs[TREES][2];

static unsigned choose(unsigned n)
{
	W->dice += 0x9e3779b97f4a7c15ULL;
	uint64_t z = (W->dice ^ W->dice >> 30) * 0xbf58476d1ce4e5b9ULL;

	return (unsigned)((z ^ z >> 27) * 0x94d049bb133111ebULL >> 33) % n;
}

/* System calls: others come first, perhaps. */

static bool is_dead(void)
{
	struct client *c = W ? W->now : NULL;

	if (!c || c->dead)
		return c && (errno = EIO);
	W->now = NULL;
	swapcontext(&c->context, &W->scheduler);
	return c->dead && (errno = EIO);
}

/* `then` is done when it went well: what gets a name, or is made young, is as old as the world's
 * clock says. */
#define WRAP(name, params, args, then)                                      \
	int __wrap_##name params;                                           \
	int __real_##name params;                                           \
	int __wrap_##name params                                            \
	{                                                                   \
		return is_dead() ? -1 : __real_##name args < 0 ? -1 : then; \
	}

int __real_utimensat(int fd, const char *path, const struct timespec *t, int flags);
static int make_young(int fd, const char *path)
{
	struct timespec t[2] = { { .tv_nsec = UTIME_OMIT } };

	if (!W || str_has_suffix(path, "condemned")) /* dated by gc itself */
		return 0;
	t[1].tv_sec = W->now_s;
	return __real_utimensat(fd, path, t, AT_SYMLINK_NOFOLLOW);
}

WRAP(fstatat, (int fd, const char *path, struct stat *st, int flags), (fd, path, st, flags), 0)
WRAP(unlinkat, (int fd, const char *path, int flags), (fd, path, flags), 0)
WRAP(utimensat, (int fd, const char *path, const struct timespec *t, int flags),
     (fd, path, t, flags), make_young(fd, path))
WRAP(renameat, (int from, const char *a, int to, const char *b), (from, a, to, b),
     make_young(to, b))
WRAP(renameat2, (int from, const char *a, int to, const char *b, unsigned flags),
     (from, a, to, b, flags), make_young(to, b))

/* Leases, and the list of the condemned. */
int __wrap_futimens(int fd, const struct timespec t[2]);
int __real_futimens(int fd, const struct timespec t[2]);
int __wrap_futimens(int fd, const struct timespec t[2])
{
	struct timespec now[2] = { { .tv_sec = W ? W->now_s : 0 }, { .tv_sec = W ? W->now_s : 0 } };

	return is_dead() ? -1 : __real_futimens(fd, W && !t ? now : t);
}

int __wrap_flock(int fd, int how);
int __real_flock(int fd, int how);
int __wrap_flock(int fd, int how)
{
	int r;

	do /* nobody waits in here: the others are on the same thread */
		r = is_dead() ? -1 : __real_flock(fd, how | LOCK_NB);
	while (r < 0 && errno == EWOULDBLOCK && !(how & LOCK_NB));
	return r;
}

time_t __wrap_time(time_t *ret);
time_t __real_time(time_t *ret);
time_t __wrap_time(time_t *ret)
{
	time_t t = W ? W->now_s : __real_time(NULL);

	return ret ? *ret = t : t;
}

/* What must hold. */

static bool is_here(enum store_space space, const struct digest *name)
{
	char hex[DIGEST_HEX_MAX], path[512];
	struct stat st;

	digest_hex(name, hex);
	snprintf(path, sizeof(path), "%s/%s/%.2s/%s", W->dir, store_space_names[space], hex, hex);
	return stat(path, &st) == 0;
}

static void check(void)
{
	for (size_t i = W->n_runs > KEPT ? W->n_runs - KEPT : 0; i < W->n_runs; i++) {
		unsigned t = W->runs[i].tree;

		if (!is_here(STORE_RUN, &W->runs[i].hash) ||
		    !is_here(STORE_TREE, &trees[t].digest) ||
		    !is_here(STORE_BLOB, &blobs[t][0].digest) ||
		    !is_here(STORE_BLOB, &blobs[t][1].digest))
			fail_msg("seed %llu: run %zu, of tree %u, is kept, and lost",
				 (unsigned long long)W->seed, i, t);
	}
}

/* Commands. */

static int refs(const void *bytes, size_t n, int (*emit)(void *arg, const struct content_id *id),
		void *arg, struct err *err)
{
	return emit(arg, bytes);
}

static const struct closure_names names = { .refs = refs };

static int build(struct store *s, unsigned tree, struct content_id *ret,
		 struct content_id ret_blobs[2], struct err *err)
{
	struct tree_builder *b = tree_builder_new();
	int r = 0;

	for (unsigned i = 0; i < 2 && r >= 0; i++) {
		struct tree_entry e = { .name = i ? "b" : "a", .name_len = 1, .kind = TREE_FILE };
		char text[32];

		snprintf(text, sizeof(text), "blob %u",
			 i ? 100 + tree / 2 : tree); /* pairs of trees share one */
		r = content_put_bytes(s, text, strlen(text), &e.id, err);
		ret_blobs[i] = e.id;
		if (r >= 0)
			r = tree_builder_add(b, &e, err);
	}
	if (r >= 0)
		r = tree_builder_store(b, s, ret, err);
	tree_builder_free(b);
	return r < 0 ? -1 : 0;
}

/* Puts what it needs; or takes a lease, and uses what it finds. */
static int get_tree(struct client *c, unsigned tree)
{
	struct content_id id, parts[2];
	struct err err = { 0 };
	bool there = false;

	c->hurries = choose(2);
	if (!c->hurries && (store_use(c->s, &err) < 0 ||
			    content_complete(c->s, &trees[tree], 1, &there, &err) < 0))
		return -1;
	W->found += there;
	return there ? 0 : build(c->s, tree, &id, parts, &err);
}

static void run(struct client *c)
{
	struct {
		struct content_id id;
		unsigned number;
	} manifest;
	unsigned tree = choose(TREES);
	struct action_output out = { "o", trees[tree] };
	struct action_record a = {
		.outputs = &out, .n_outputs = 1, .run_id = "r", .task = "t", .node = "n"
	};
	struct digest hash;
	struct err err = { 0 };

	memset(&a.key, 0x40 + (int)tree, sizeof(a.key));
	if (get_tree(c, tree) < 0 || store_sync(c->s, &err) < 0 || action_put(c->s, &a, &err) < 0)
		return;
	memset(&manifest, 0, sizeof(manifest));
	manifest.id = trees[tree];
	manifest.number = W->number++;
	digest_bytes(&manifest, sizeof(manifest), &hash);
	if (store_put(c->s, STORE_RUN, &hash, &manifest, sizeof(manifest), &err) < 0 ||
	    store_sync(c->s, &err) < 0 || c->dead)
		return;
	if (W->n_runs < RUNS_MAX)
		W->runs[W->n_runs++] = (struct published){ hash, tree };
}

static void gc(struct client *c)
{
	const int64_t hour_ns = HOUR_S * NS_PER_S;
	struct store_gc_options o = { .now_ns = W->now_s * NS_PER_S,
				      .grace_ns = hour_ns,
				      .mark_gap_ns = hour_ns,
				      .names = &names };
	struct store_gc_result res;
	struct digest kept[KEPT];
	struct err err = { 0 };
	size_t n = 0;

	for (size_t i = W->n_runs > KEPT ? W->n_runs - KEPT : 0; i < W->n_runs; i++)
		kept[n++] = W->runs[i].hash;
	o.manifests = kept;
	o.n_manifests = n;
	if (store_gc(c->s, &o, &res, &err) == 0)
		W->collected += (unsigned)res.deleted;
	else if (!c->dead && err.code != ERR_BUSY)
		fail_msg("seed %llu: gc: %s", (unsigned long long)W->seed, err.msg);
}

static void verify(struct client *c)
{
	store_verify(c->s, &names, NULL, NULL, NULL, NULL);
}

static void client_main(void)
{
	static void (*const commands[])(struct client * c) = { run, gc, verify, run, gc };
	struct client *c = W->now;

	for (;;) {
		void (*fn)(struct client * c) = commands[choose(ARRAY_LEN(commands))];

		if (store_dir_open(W->dir, true, &c->s, NULL) == 0)
			fn(c);
		store_free(TAKE_PTR(c->s));
		c->running = c->hurries = false;
		W->now = NULL;
		swapcontext(&c->context, &W->scheduler);
	}
}

/* The scheduler. */

static void resume(struct client *c)
{
	c->running = true;
	W->now = c;
	swapcontext(&W->scheduler, &c->context);
	W->now = NULL;
	c->dead &= c->running;
	check();
}

static void step(struct client **turn)
{
	unsigned what = choose(40);
	bool hurry = false;

	if (what < 12)
		*turn = &W->clients[choose(CLIENTS)];
	for (int i = 0; i < CLIENTS; i++)
		hurry |= W->clients[i].hurries;
	if (what >= 37 && !hurry)
		W->now_s += (time_t)(1 + choose(90)) * 60;
	if (what == 36 && (*turn)->running && choose(4) == 0)
		(*turn)->dead = true;
	resume(*turn);
}

static void one_seed(uint64_t seed, unsigned *collected, unsigned *found)
{
	struct world w = { .now_s = 1000000000,
			   .seed = seed,
			   .dice = seed * 0x2545f4914f6cdd1dULL };
	char dir[] = "/dev/shm/cairn-directory-XXXXXX";

	W = &w;
	w.turn = w.clients;
	w.dir = mkdtemp(dir);
	assert_non_null(w.dir);
	for (int i = 0; i < CLIENTS; i++) {
		struct client *c = &w.clients[i];

		c->stack = xmalloc(STACK_BYTES);
		getcontext(&c->context);
		c->context.uc_stack.ss_sp = c->stack;
		c->context.uc_stack.ss_size = STACK_BYTES;
		makecontext(&c->context, client_main, 0);
	}
	for (int i = 0; i < STEPS; i++)
		step(&w.turn);
	for (int i = 0; i < CLIENTS; i++)
		while (w.clients[i].running)
			resume(&w.clients[i]);
	for (int i = 0; i < CLIENTS; i++)
		free(w.clients[i].stack);
	*collected += w.collected;
	*found += w.found;
	W = NULL;
	fs_remove_tree(dir, NULL);
}

/* What is put again right after a collector has looked at its age, and before it removes it. */
static const uint64_t rare[] = { 184, 289 };

static void test_directory(void **state)
{
	struct seeds seeds = seeds_of(1, SEEDS);
	unsigned collected = 0, found = 0;
	struct store *s = store_memory_new();

	for (unsigned t = 0; t < TREES; t++)
		build(s, t, &trees[t], blobs[t], NULL);
	store_free(s);
	for (size_t i = 0; i < ARRAY_LEN(rare) && !seeds.given; i++)
		one_seed(rare[i], &collected, &found);
	for (; seeds.from < seeds.to; seeds.from++)
		one_seed(seeds.from, &collected, &found);
	if (!seeds.given)
		assert_true(collected > 0 && found > 0); /* else nothing was tried */
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_directory) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
