/* The bound of a directory in front of a bucket: who goes, who stays, and users beside an evictor.
 */
#include <dirent.h>
#include "storage/remote/evict.h"
#include "unit/storage/remote/team.h"

static bool is_here(struct store *s, const struct content_id *id)
{
	struct store *local = tier_local(s);
	bool there = false;

	assert_int_equal(store_has(local, id, 1, &there, NULL), 0);
	return there;
}

static struct content_id put_random(struct store *s, uint32_t seed, size_t n)
{
	_cleanup_(freep) char *bytes = xmalloc(n);
	struct content_id id;

	team_fill(bytes, n, seed, false);
	assert_int_equal(content_put_bytes(s, bytes, n, &id, NULL), 0);
	return id;
}

/* File systems' clocks tick every few milliseconds: until what is touched next is younger than what
 * was touched last. */
static void wait_for_tick(void)
{
	_cleanup_(freep) char *path = fs_join(team_root, "tick");
	struct stat first, now;

	assert_int_equal(fs_write_atomic(path, "", 0, NULL), 0);
	assert_int_equal(stat(path, &first), 0);
	do {
		assert_int_equal(fs_write_atomic(path, "", 0, NULL), 0);
		assert_int_equal(stat(path, &now), 0);
	} while (now.st_ctim.tv_sec == first.st_ctim.tv_sec &&
		 now.st_ctim.tv_nsec == first.st_ctim.tv_nsec);
}

/* As if `id` had last been used so many hours ago. */
static void age(const char *name, const struct content_id *id, int hours)
{
	char hex[DIGEST_HEX_MAX];
	_cleanup_(freep) char *path = NULL;
	struct timespec t[2] = { 0 };

	digest_hex(&id->digest, hex);
	path = xasprintf("%s/%s/blobs/%.2s/%s", team_root, name, hex, hex);
	t[0].tv_sec = t[1].tv_sec =
		clock_system()->wall_ns(clock_system()) / NS_PER_S - hours * 3600;
	assert_int_equal(utimensat(AT_FDCWD, path, t, 0), 0);
}

static void test_least_recently_used_goes(void **state)
{
	struct store *s = team_bounded("a", 0), *other;
	struct content_id v[10], unsent;
	struct err err = { 0 };
	char byte;
	int fd;

	for (uint32_t i = 0; i < 10; i++)
		v[i] = put_random(s, i + 1, 300000);
	ok(store_sync(s, &err), &err);
	store_free(s);
	other = team_machine("a", STORE_OFF);
	unsent = put_random(other, 77, 300000); /* the bucket never got it */
	store_free(other);
	for (int i = 0; i < 10; i++)
		age("a", &v[i], 20 - i);
	age("a", &unsent, 99);
	wait_for_tick();

	s = team_bounded("a", 1800000);              /* six of eleven may stay, a tenth less */
	ok(content_open(s, &v[0], &fd, &err), &err); /* the oldest is used now */
	assert_int_equal(read(fd, &byte, 1), 1);
	close(fd);
	put_random(s, 5000, 1000);
	ok(store_sync(s, &err), &err);
	assert_true(is_here(s, &v[0]));
	assert_true(is_here(s, &unsent));
	assert_false(is_here(s, &v[1]));
	assert_true(is_here(s, &v[9]));
	for (int i = 0; i < 10; i++) /* all of it can still be had */
		ok(content_verify(s, &v[i], &err), &err);
	store_free(s);
}

/* A run that goes on elsewhere keeps what was used since it began. */
static void test_what_is_in_use_stays(void **state)
{
	struct store *running = team_bounded("a", 0), *s;
	struct content_id v[10];
	struct err err = { 0 };

	for (uint32_t i = 0; i < 10; i++)
		v[i] = put_random(running, i + 1, 300000);
	ok(store_sync(running, &err), &err);
	s = team_bounded("a", 600000);
	put_random(s, 5000, 1000);
	ok(store_sync(s, &err), &err);
	store_free(s);
	for (int i = 0; i < 10; i++)
		assert_true(is_here(running, &v[i]));
	store_free(running);
}

static char *user_path(const char *local, unsigned long number)
{
	return xasprintf("%s/remote/users/%ld-%lu", local, (long)getpid(), number);
}

/* The number in the name of the only user. */
static unsigned long only_user(const char *local)
{
	_cleanup_(freep) char *dir = fs_join(local, "remote/users");
	DIR *d = opendir(dir);
	unsigned long number = 0;
	struct dirent *e;

	assert_non_null(d);
	while (fs_next(d, dir, &e, NULL) > 0)
		number = strtoul(strchr(e->d_name, '-') + 1, NULL, 10);
	closedir(d);
	return number;
}

/* An evictor holds each file for a moment, and may have removed it: who comes then takes another
 * name. */
static void test_a_user_beside_an_evictor(void **state)
{
	_cleanup_(freep) char *local = fs_join(team_root, "a"), *held = NULL, *mine = NULL;
	_cleanup_(fd_closep) int fd = -1;
	struct evict_user *u = NULL;
	struct err err = { 0 };
	unsigned long number;

	ok(evict_user_new(local, &u, &err), &err);
	number = only_user(local);
	evict_user_free(u);
	held = user_path(local, number + 1);
	mine = user_path(local, number + 2);
	assert_int_equal(fs_lock_path(held, false, &fd, NULL), 0);
	ok(evict_user_new(local, &u, &err), &err);
	assert_int_equal(access(mine, F_OK), 0);
	evict_user_free(u);
}

static int refuse_del(struct store *s, enum store_space space, const struct digest *name,
		      struct err *err)
{
	return err_set(err, ERR_READ_ONLY, "not here");
}

/* What couldn't be removed isn't counted as evicted. */
static void test_a_directory_that_keeps_all(void **state)
{
	_cleanup_(freep) char *local = fs_join(team_root, "a");
	struct store *s = team_machine("a", STORE_READ_WRITE);
	const struct store_ops *own;
	struct store_ops ops;
	struct evicted res;
	struct err err = { 0 };

	team_put_dir(s, "in", 4);
	ok(store_sync(s, &err), &err);
	store_free(s);
	s = team_machine("a", STORE_READ_WRITE); /* what is older than it may go */
	own = tier_local(s)->ops;
	ops = *own;
	ops.del = refuse_del;
	tier_local(s)->ops = &ops;
	assert_int_equal(evict(tier_local(s), local, tier_remote(s), 1, &res, &err), -1);
	tier_local(s)->ops = own;
	assert_int_equal(err.code, ERR_READ_ONLY);
	assert_true(res.objects > 0);
	assert_int_equal(res.evicted, 0);
	assert_int_equal(res.evicted_bytes, 0);
	store_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_least_recently_used_goes, team_setup,
						team_teardown),
		cmocka_unit_test_setup_teardown(test_what_is_in_use_stays, team_setup,
						team_teardown),
		cmocka_unit_test_setup_teardown(test_a_user_beside_an_evictor, team_setup,
						team_teardown),
		cmocka_unit_test_setup_teardown(test_a_directory_that_keeps_all, team_setup,
						team_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
