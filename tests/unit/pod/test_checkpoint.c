/* engine/run/pod_checkpoint: of several nodes each saves its own, and all go on from all of it. */
#include <stdio.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "pod/internal.h"
#include "storage/checkpoint.h"
#include "unit.h"
#include "unit/broken_dir.h"

static char scratch[TEST_DIR_MAX];
static struct store *store;
static unsigned counter;

static int set_up(void **state)
{
	struct err err = { 0 };

	test_dir(scratch, sizeof(scratch), "pod-checkpoint");
	store = NULL;
	return store_open("memory:", true, &store, &err) == 0 ? 0 : -1;
}

static int tear_down(void **state)
{
	store_free(store);
	return fs_remove_tree(scratch, NULL);
}

/* One node of an attempt, in a fresh workspace. */
struct node {
	struct pod p;
	struct pod_slot s;
	struct runner_attempt a;
	struct digest key;
	char dir[128];
};

static void elastic_init(struct node *n, uint64_t attempt, unsigned index, unsigned min,
			 unsigned nodes)
{
	struct err err = { 0 };

	*n = (struct node){ 0 };
	snprintf(n->dir, sizeof(n->dir), "%s/%u", scratch, counter++);
	assert_int_equal(mkdir(n->dir, 0777), 0);
	digest_bytes("k", 1, &n->key);
	n->a = (struct runner_attempt){
		.id = attempt,
		.key = &n->key,
		.checkpoint_path = "ckpt",
		.run_id = "r",
		.task = "t",
		.on.gang = { .framework = "torch", .nodes = nodes, .min_nodes = min }
	};
	n->p = (struct pod){ .store = store,
			     .spec = "s",
			     .arena = arena_new(),
			     .n = 1,
			     .slots = &n->s,
			     .o = { .index = index, .state_dir = n->dir } };
	n->s = (struct pod_slot){ .a = &n->a,
				  .run_fd = -1,
				  .w_fd = open(n->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) };
	if (pod_checkpoint_restore(&n->p, &n->s, &err) < 0)
		fail_msg("%s", err.msg);
}

static void node_init(struct node *n, uint64_t attempt, unsigned index, unsigned nodes)
{
	elastic_init(n, attempt, index, 0, nodes);
}

static void node_deinit(struct node *n)
{
	pod_checkpoint_deinit(&n->s.ck);
	fd_closep(&n->s.w_fd);
	arena_free(n->p.arena);
}

static void put(const struct node *n, const char *name, const char *text)
{
	_cleanup_(freep) char *path = xasprintf("%s/ckpt/%s", n->dir, name),
			      *parent = fs_dirname(path);

	assert_int_equal(fs_mkdir_p(parent, NULL), 0);
	assert_int_equal(fs_write_atomic(path, text, strlen(text), NULL), 0);
}

static void must_hold(const struct node *n, const char *name, const char *want)
{
	_cleanup_(freep) char *path = xasprintf("%s/ckpt/%s", n->dir, name);
	_cleanup_(str_deinit) struct str got = { 0 };

	if (!want) {
		assert_int_equal(access(path, F_OK), -1);
		return;
	}
	assert_int_equal(fs_read_file(path, 100, &got, NULL), 0);
	assert_string_equal(got.s, want);
}

static void must_save(struct node *n)
{
	struct err err = { 0 };

	if (pod_checkpoint_save(&n->p, &n->s, &err) != 0)
		fail_msg("%s", err.msg);
}

/* Each node of an elastic gang keeps what all have: the one that saved last has the newest. */
static void the_newest_of_an_elastic_gang_wins(void **state)
{
	struct node a, b, c, again;

	elastic_init(&a, 1, 0, 2, 3);
	elastic_init(&b, 1, 1, 2, 3);
	put(&a, "state", "step 8");
	put(&a, "only", "here");
	must_save(&a);
	put(&b, "state", "step 9");
	must_save(&b);
	/* in the same attempt, a node that joins; and in the next one */
	elastic_init(&c, 1, 2, 2, 3);
	must_hold(&c, "state", "step 9");
	must_hold(&c, "only", "here");
	put(&a, "state", "step 10"); /* it isn't superseded by the one that joined */
	must_save(&a);
	elastic_init(&again, 2, 1, 2, 3);
	must_hold(&again, "state", "step 10");
	assert_string_equal(again.s.ck.continues, "1");
	node_deinit(&a);
	node_deinit(&b);
	node_deinit(&c);
	node_deinit(&again);
	/* of others the first node's counts, whoever was last */
	node_init(&a, 3, 0, 3);
	must_hold(&a, "state", "step 10");
	put(&a, "state", "step 11");
	must_save(&a);
	node_init(&b, 3, 1, 3);
	put(&b, "state", "step 12");
	must_save(&b);
	node_init(&c, 4, 2, 3);
	must_hold(&c, "state", "step 11");
	node_deinit(&a);
	node_deinit(&b);
	node_deinit(&c);
}

static void each_saves_its_own(void **state)
{
	struct node a, b;

	node_init(&a, 1, 0, 2);
	node_init(&b, 1, 1, 2);
	assert_null(a.s.ck.continues);
	put(&a, "rank0", "zero");
	put(&a, "sub/both", "of 0");
	put(&b, "rank1", "one");
	put(&b, "sub/both", "of 1");
	put(&b, "sub/own", "x");
	must_save(&a);
	must_save(&b);
	node_deinit(&a);
	node_deinit(&b);

	/* The next attempt: both have all of it; where both had something, the lower index counts.
	 */
	node_init(&a, 2, 0, 2);
	node_init(&b, 2, 1, 2);
	assert_string_equal(a.s.ck.continues, "1");
	for (struct node *n = &a; n; n = n == &a ? &b : NULL) {
		must_hold(n, "rank0", "zero");
		must_hold(n, "rank1", "one");
		must_hold(n, "sub/both", "of 0");
		must_hold(n, "sub/own", "x");
	}
	/* Node 1 goes on; node 0 holds an old copy of what is node 1's, which must not win later.
	 */
	put(&b, "rank1", "one more");
	put(&a, "rank0", "zero more");
	must_save(&b);
	must_save(&a);
	node_deinit(&a);
	node_deinit(&b);

	node_init(&a, 3, 0, 2);
	assert_string_equal(a.s.ck.continues, "1 2");
	must_hold(&a, "rank0", "zero more");
	must_hold(&a, "rank1", "one more");
	must_hold(&a, "sub/both", "of 0");
	node_deinit(&a);
}

static void a_gang_of_one_loses_what_it_deletes(void **state)
{
	struct node a;
	char path[256];

	node_init(&a, 1, 0, 1);
	put(&a, "old", "1");
	put(&a, "new", "2");
	must_save(&a);
	snprintf(path, sizeof(path), "%s/ckpt/old", a.dir);
	assert_int_equal(unlink(path), 0);
	must_save(&a);
	node_deinit(&a);
	node_init(&a, 2, 0, 1);
	must_hold(&a, "old", NULL);
	must_hold(&a, "new", "2");
	node_deinit(&a);
}

static void an_empty_one_is_none(void **state)
{
	struct node a;

	node_init(&a, 1, 0, 1);
	must_save(&a);
	assert_int_equal(a.s.ck.sequence, 0);
	put(&a, "x", "1");
	must_save(&a);
	must_save(&a);
	assert_int_equal(a.s.ck.sequence, 1); /* nothing was new */
	node_deinit(&a);
	/* The same attempt in another pod stands there already. */
	node_init(&a, 1, 0, 1);
	assert_null(a.s.ck.continues);
	must_hold(&a, "x", "1");
	assert_int_equal(a.s.ck.epoch, 2);
	node_deinit(&a);
}

static void one_that_was_taken_over_from_saves_no_more(void **state)
{
	struct node old, new;

	node_init(&old, 1, 0, 1);
	put(&old, "x", "1");
	must_save(&old);
	node_init(&new, 2, 0, 1);
	put(&new, "x", "2");
	must_save(&new);
	put(&old, "x", "late");
	must_save(&old);
	assert_true(old.s.ck.superseded);
	node_deinit(&old);
	node_deinit(&new);
	node_init(&new, 3, 0, 1);
	must_hold(&new, "x", "2");
	node_deinit(&new);
}

static void a_restarted_sidecar_knows_it_all(void **state)
{
	struct pod_checkpoint was;
	struct node a;
	struct err err = { 0 };

	node_init(&a, 1, 1, 2);
	put(&a, "x", "1");
	must_save(&a);
	node_deinit(&a);
	node_init(&a, 2, 0, 2);
	assert_int_equal(pod_state_write(&a.p, &err), 0);
	was = a.s.ck;
	a.s.ck = (struct pod_checkpoint){ 0 };
	assert_int_equal(pod_state_read(&a.p, &err), 0);
	assert_string_equal(a.s.ck.attempts, was.attempts);
	assert_string_equal(a.s.ck.continues, was.continues);
	assert_true(a.s.ck.epoch == was.epoch && a.s.ck.sequence == was.sequence &&
		    a.s.ck.others.n == 1);
	assert_true(content_id_eq(&a.s.ck.others.v[0], &was.others.v[0]));
	pod_checkpoint_deinit(&was);
	a.p.spec = "another";
	assert_int_equal(pod_state_read(&a.p, &err), -1);
	node_deinit(&a);
}

/* Some of it is none of it: who can't lay out all says so. */
static void what_breaks_off_is_not_laid_out(void **state)
{
	struct node a;
	long after = 0;

	node_init(&a, 1, 0, 1);
	put(&a, "x", "1");
	put(&a, "y", "2");
	must_save(&a);
	node_deinit(&a);
	do {
		struct err err = { 0 };
		int r;

		node_init(&a, 2, 0, 1);
		pod_checkpoint_deinit(&a.s.ck);
		a.s.ck = (struct pod_checkpoint){ 0 };
		fs_remove_tree_at(a.s.w_fd, "ckpt", NULL);
		dir_broke = false;
		dir_breaks_after = after++;
		r = pod_checkpoint_restore(&a.p, &a.s, &err);
		dir_breaks_after = -1;
		assert_int_equal(r, dir_broke ? -1 : 0);
		if (r == 0) {
			must_hold(&a, "x", "1");
			must_hold(&a, "y", "2");
		}
		node_deinit(&a);
	} while (dir_broke);
	assert_true(after > 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_saves_its_own, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_newest_of_an_elastic_gang_wins, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_gang_of_one_loses_what_it_deletes, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(an_empty_one_is_none, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_that_was_taken_over_from_saves_no_more, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_restarted_sidecar_knows_it_all, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(what_breaks_off_is_not_laid_out, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
